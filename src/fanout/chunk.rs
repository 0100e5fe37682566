//! A chunk of a file's content on its way to one output, or to several.

use std::ops::Deref;
use std::sync::{Arc, OnceLock};

use crate::hash::Hasher;
use crate::hash::chain::{ChainHasher, update_passing};
use crate::hash::state::ChainingState;
use crate::io::block::Block;

/// A chunk of content that several outputs hold: read once, and hashed once.
pub struct Chunk {
    block: Block,
    /// The digest's state before the chunk and behind it. The first thread that needs it computes it; if
    /// that thread dies over it, the next one does.
    hashed: OnceLock<HashedChunk>,
}

/// The digest's state before a chunk, behind it, and at each step of a chain within it.
struct HashedChunk {
    before: Hasher,
    after: Hasher,
    passed: Vec<(u64, ChainingState)>,
}

impl Chunk {
    /// A chunk of what was read.
    pub fn new(block: Block) -> Self {
        Self { block, hashed: OnceLock::new() }
    }

    /// Takes the digest of all that came before the chunk to that of all up to its end.
    pub fn hash(&self, hasher: &mut ChainHasher) {
        let HashedChunk { before, after, passed } = self.hashed.get_or_init(|| {
            let before = hasher.hasher().clone();
            let (mut after, mut passed) = (before.clone(), Vec::new());
            update_passing(&mut after, &self.block, |at, state| passed.push((at, state)));
            HashedChunk { before, after, passed }
        });
        // An output that comes with another state hashes the chunk for itself: its file was given up
        // in a hole, or has other holes now. The shared state stays right for the others.
        match before == hasher.hasher() {
            true => hasher.jump(after, passed),
            false => hasher.update(&self.block),
        }
    }
}

impl Deref for Chunk {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.block
    }
}

/// The next bytes of a file.
pub enum Data {
    Own(Block),
    Shared(Arc<Chunk>),
}

impl Deref for Data {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Data::Own(block) => block,
            Data::Shared(chunk) => chunk,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hash::Algorithm;
    use crate::io::block::SharedBlocks;

    #[test]
    fn a_state_is_shared_only_after_the_same_content() {
        let mut block = SharedBlocks::new(1, 8).block(8);
        block.room().copy_from_slice(b"the same");
        block.fill(8);
        let chunk = Chunk::new(block);
        let digest = |before: &[u8], chunk: Option<&Chunk>| {
            let mut hasher = ChainHasher::keeping(Algorithm::Sha256.start());
            hasher.update(before);
            match chunk {
                Some(chunk) => chunk.hash(&mut hasher),
                None => hasher.update(b"the same"),
            }
            hasher.finish().0
        };
        for before in [&b"cut short"[..], b"right", b"right", b""] {
            assert_eq!(digest(before, Some(&chunk)), digest(before, None));
        }
    }
}
