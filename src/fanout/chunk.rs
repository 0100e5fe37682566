//! A stretch of a file's content on its way to one output, or to several.

use std::ops::Deref;
use std::sync::{Arc, OnceLock};

use crate::hash::Hasher;
use crate::io::block::Block;

/// A stretch of content that several outputs hold: read once, and hashed once.
pub struct Piece {
    block: Block,
    /// The digest's state before it and behind it: who comes first computes this, and a thread that dies
    /// over it leaves it to the next.
    states: OnceLock<[Hasher; 2]>,
}

impl Piece {
    /// A piece of what was read.
    pub fn new(block: Block) -> Self {
        Self { block, states: OnceLock::new() }
    }

    /// Takes the digest of all that came before it to that of all up to its end.
    pub fn hash(&self, hasher: &mut Hasher) {
        let [before, after] = self.states.get_or_init(|| {
            let mut after = hasher.clone();
            after.update(&self.block);
            [hasher.clone(), after]
        });
        // Who comes with another state, because the file was given up in a hole or its holes are others
        // now, has a digest of its own, and spoils nobody's.
        match before == hasher {
            true => *hasher = after.clone(),
            false => hasher.update(&self.block),
        }
    }
}

impl Deref for Piece {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.block
    }
}

/// The next bytes of a file.
pub enum Data {
    /// For one output.
    Own(Block),
    /// For several.
    Shared(Arc<Piece>),
}

impl Data {
    /// Takes the digest of all that came before to that of all up to their end.
    pub fn hash(&self, hasher: &mut Hasher) {
        match self {
            Data::Own(block) => hasher.update(block),
            Data::Shared(piece) => piece.hash(hasher),
        }
    }
}

impl Deref for Data {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Data::Own(block) => block,
            Data::Shared(piece) => piece,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hash::Algorithm;
    use crate::io::block::SharedBlocks;

    #[test]
    fn a_state_is_shared_by_those_alone_who_came_by_the_same_content() {
        let mut block = SharedBlocks::new(1, 8).block(8);
        block.room().copy_from_slice(b"the same");
        block.fill(8);
        let piece = Piece::new(block);
        let digest = |before: &[u8], piece: Option<&Piece>| {
            let mut hasher = Algorithm::Sha256.start();
            hasher.update(before);
            match piece {
                Some(piece) => piece.hash(&mut hasher),
                None => hasher.update(b"the same"),
            }
            hasher.finish()
        };
        for before in [&b"cut short"[..], b"right", b"right", b""] {
            assert_eq!(digest(before, Some(&piece)), digest(before, None));
        }
    }
}
