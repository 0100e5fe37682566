//! SHA-256 over several byte streams at once, for many files on one core.
//!
//! The streams share the lanes of a [`Backend`]. A lane whose stream has no more blocks
//! takes the next stream's, so streams may be of any length; when too few are left for the backend to
//! pay, a narrower one finishes them.

use crate::hash::{Backend, ChainingState, Sha256, digest::BLOCK, digest::START};

/// The running digest of a stream, alone or of many.
#[derive(Clone, Debug)]
pub struct Stream {
    state: ChainingState,
    /// The bytes since the last whole block, at the front.
    tail: [u8; BLOCK],
    /// Bytes taken so far.
    len: u64,
}

impl Default for Stream {
    fn default() -> Self {
        Self { state: START, tail: [0; BLOCK], len: 0 }
    }
}

/// Equal after the same bytes, as far as a digest can tell.
impl PartialEq for Stream {
    fn eq(&self, other: &Self) -> bool {
        (self.state, self.len, self.tail()) == (other.state, other.len, other.tail())
    }
}

impl Stream {
    /// Goes on after `len` bytes, which are whole blocks and led to `state`.
    pub fn going_on(state: ChainingState, len: u64) -> Self {
        Self { state, len, ..Self::default() }
    }

    /// The state, which counts if exactly whole blocks were taken.
    pub fn state(&self) -> ChainingState {
        self.state
    }

    /// Bytes taken so far.
    pub fn taken(&self) -> u64 {
        self.len
    }

    /// Length in bytes of what [`save`](Self::save) makes.
    pub const SAVED: usize = 32 + 8 + BLOCK;

    /// Takes the stream's next bytes.
    pub fn update(&mut self, bytes: &[u8]) {
        let blocks = self.take(bytes);
        sha2::block_api::compress256(&mut self.state, blocks);
    }

    /// The state in between, in the form of `sha2` 0.11: the eight words and the number of blocks, both
    /// little-endian, then the number of bytes since the last block, these, and zeros.
    pub fn save(&self) -> [u8; Self::SAVED] {
        let mut saved = [0; Self::SAVED];
        for (bytes, word) in saved.chunks_exact_mut(4).zip(self.state) {
            bytes.copy_from_slice(&word.to_le_bytes());
        }
        let tail = self.tail();
        saved[32..40].copy_from_slice(&(self.len / BLOCK as u64).to_le_bytes());
        saved[40] = tail.len() as u8;
        saved[41..41 + tail.len()].copy_from_slice(tail);
        saved
    }

    /// Goes on where a stream was saved; `None` if the bytes are of no such state, or of one after
    /// 2⁶⁴ bytes or more.
    pub fn restore(saved: &[u8]) -> Option<Self> {
        let saved: &[u8; Self::SAVED] = saved.try_into().ok()?;
        let (words, rest) = saved.split_first_chunk::<32>()?;
        let (blocks, rest) = rest.split_first_chunk()?;
        let (&[at], bytes) = rest.split_first_chunk()?;
        let (tail, zeros) = bytes.split_at_checked(usize::from(at))?;
        if zeros.iter().any(|&byte| byte != 0) {
            return None;
        }
        let mut stream = Self::default();
        for (word, &bytes) in stream.state.iter_mut().zip(words.as_chunks().0) {
            *word = u32::from_le_bytes(bytes);
        }
        stream.tail[..tail.len()].copy_from_slice(tail);
        let whole = u64::from_le_bytes(*blocks).checked_mul(BLOCK as u64)?;
        stream.len = whole.checked_add(u64::from(at))?;
        Some(stream)
    }

    fn tail(&self) -> &[u8] {
        &self.tail[..(self.len % BLOCK as u64) as usize]
    }

    /// The digest of everything taken.
    pub fn finish(mut self) -> Sha256 {
        // FIPS 180-4, 5.1.1: a one bit, zeros, and the length in bits at the end of a block.
        let at = (self.len % BLOCK as u64) as usize;
        self.tail[at] = 0x80;
        self.tail[at + 1..].fill(0);
        if at + 1 > BLOCK - 8 {
            sha2::block_api::compress256(&mut self.state, &[self.tail]);
            self.tail = [0; BLOCK];
        }
        self.tail[BLOCK - 8..].copy_from_slice(&self.len.wrapping_mul(8).to_be_bytes());
        sha2::block_api::compress256(&mut self.state, &[self.tail]);
        let mut digest = [0; Sha256::LEN];
        for (bytes, word) in digest.chunks_exact_mut(4).zip(self.state) {
            bytes.copy_from_slice(&word.to_be_bytes());
        }
        Sha256(digest)
    }

    /// Takes the bytes that complete a block and those that begin one; returns the whole blocks in
    /// between, which are still to be compressed.
    fn take<'b>(&mut self, bytes: &'b [u8]) -> &'b [[u8; BLOCK]] {
        let at = (self.len % BLOCK as u64) as usize;
        self.len += bytes.len() as u64;
        let (head, rest) = bytes.split_at(bytes.len().min((BLOCK - at) % BLOCK));
        self.tail[at..at + head.len()].copy_from_slice(head);
        if at > 0 && at + head.len() == BLOCK {
            sha2::block_api::compress256(&mut self.state, &[self.tail]);
        }
        let (blocks, tail) = rest.as_chunks();
        self.tail[..tail.len()].copy_from_slice(tail);
        blocks
    }
}

/// Feeds each stream the bytes beside it, as many streams at a time as `backend` has lanes.
pub fn update(backend: Backend, streams: &mut [(&mut Stream, &[u8])]) {
    let mut waiting: Vec<(&mut ChainingState, &[[u8; BLOCK]])> = streams
        .iter_mut()
        .filter_map(|(stream, bytes)| {
            let blocks = stream.take(bytes);
            (!blocks.is_empty()).then_some((&mut stream.state, blocks))
        })
        .collect();
    let mut lanes = Vec::with_capacity(backend.lanes());
    loop {
        lanes.extend(waiting.drain(waiting.len().saturating_sub(backend.lanes() - lanes.len())..));
        let now = backend.suiting(lanes.len());
        let at_once = lanes.len().min(now.lanes());
        let count = lanes.iter().take(at_once).map(|(_, blocks)| blocks.len()).min();
        let Some(count) = count else { return };
        now.compress(&mut lanes[..at_once], count);
        lanes.iter_mut().take(at_once).for_each(|(_, blocks)| *blocks = &blocks[count..]);
        lanes.retain(|(_, blocks)| !blocks.is_empty());
    }
}

impl Sha256 {
    /// The sum of pieces one behind the other.
    pub fn of(pieces: &[&[u8]]) -> Self {
        let mut stream = Stream::default();
        pieces.iter().for_each(|piece| stream.update(piece));
        stream.finish()
    }
}

/// The digests of whole contents, in their order.
pub fn digests(backend: Backend, contents: &[&[u8]]) -> Vec<Sha256> {
    let mut streams = vec![Stream::default(); contents.len()];
    let mut work: Vec<_> = streams.iter_mut().zip(contents.iter().copied()).collect();
    update(backend, &mut work);
    streams.into_iter().map(Stream::finish).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use sha2::Digest as _;

    use super::*;

    fn expected(bytes: &[u8]) -> Sha256 {
        Sha256(sha2::Sha256::digest(bytes).into())
    }

    /// Bytes of which no short stretch comes again soon.
    fn content(seed: u64, len: usize) -> Vec<u8> {
        (0..len as u64).map(|i| ((i * i + seed * 7919 + i / 251) % 251) as u8).collect()
    }

    #[test]
    fn every_length_around_a_block() {
        for backend in Backend::all() {
            let contents: Vec<Vec<u8>> = (0..200).map(|len| content(len, len as usize)).collect();
            let slices: Vec<&[u8]> = contents.iter().map(Vec::as_slice).collect();
            for (digest, content) in digests(backend, &slices).into_iter().zip(&contents) {
                assert_eq!(digest, expected(content), "{backend:?} {}", content.len());
            }
        }
    }

    proptest! {
        /// Saved at any place, the state is that of `sha2`, and is gone on with.
        #[test]
        fn a_saved_state_is_that_of_sha2(len in 0..1000usize, more in 0..200usize) {
            use sha2::digest::common::hazmat::SerializableState;
            let bytes = content(5, len + more);
            let (mut stream, mut judge) = (Stream::default(), sha2::Sha256::new());
            stream.update(&bytes[..len]);
            judge.update(&bytes[..len]);
            prop_assert_eq!(&stream.save()[..], &judge.serialize()[..]);
            let mut later = Stream::restore(&stream.save()).unwrap();
            prop_assert_eq!(&later, &stream);
            later.update(&bytes[len..]);
            prop_assert_eq!(later.finish(), expected(&bytes));
        }
    }

    proptest! {
        // Vector code without optimisation is slow.
        #![proptest_config(ProptestConfig::with_cases(48))]

        /// Streams of any lengths, cut anywhere, any of them together.
        #[test]
        fn any_interleaving_is_sha2(
            lens in proptest::collection::vec(0..1000usize, 1..24),
            cuts in proptest::collection::vec(1..400usize, 1..20),
        ) {
            let contents: Vec<Vec<u8>> =
                lens.iter().enumerate().map(|(i, len)| content(i as u64, *len)).collect();
            for backend in Backend::all() {
                let mut streams = vec![Stream::default(); lens.len()];
                let mut rests: Vec<&[u8]> = contents.iter().map(Vec::as_slice).collect();
                let mut cuts = cuts.iter().cycle().zip(0u32..);
                while rests.iter().any(|rest| !rest.is_empty()) {
                    let mut work = Vec::new();
                    for (stream, rest) in streams.iter_mut().zip(&mut rests) {
                        let Some((&cut, step)) = cuts.next() else { continue };
                        // Now and then one is not part of it.
                        if step.wrapping_mul(2_654_435_761) >> 29 != 3 {
                            let (now, later) = rest.split_at(cut.min(rest.len()));
                            *rest = later;
                            work.push((stream, now));
                        }
                    }
                    update(backend, &mut work);
                    cuts.next();
                }
                for (stream, content) in streams.into_iter().zip(&contents) {
                    prop_assert_eq!(stream.finish(), expected(content), "{:?}", backend);
                }
            }
        }
    }
}
