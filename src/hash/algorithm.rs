//! Which algorithm a run uses, and its running state.
//!
//! SHA-256 is `sha2`'s compression function, which picks the processor's SHA instructions where they are;
//! several files at a time go through those of [`multibuffer`](crate::hash::multibuffer).

use crate::hash::digest::Digest;
use crate::hash::multibuffer::Backend;
use crate::hash::multibuffer::streams::{self, Stream};
use crate::hash::state::{BLOCK, ChainingState};

/// What is computed over every byte that is copied.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Algorithm {
    /// SHA-256 (FIPS 180-4), what `sha256sum` checks.
    #[default]
    Sha256,
    /// Nothing: no digest and no manifest.
    None,
}

impl Algorithm {
    /// Starts a digest over one file.
    pub fn start(self) -> Hasher {
        match self {
            Algorithm::Sha256 => Hasher(Some(Stream::default())),
            Algorithm::None => Hasher(None),
        }
    }

    /// Goes on with a digest where [`Hasher::state`] was taken; `None` if the bytes are not a state of this
    /// algorithm, or one after more bytes than any file has.
    pub fn go_on(self, state: &[u8]) -> Option<Hasher> {
        match self {
            Algorithm::Sha256 => {
                let blocks = u64::from_le_bytes(*state.get(32..)?.first_chunk()?);
                let stream = Stream::restore(state)?;
                (blocks <= MOST_BLOCKS).then_some(Hasher(Some(stream)))
            }
            Algorithm::None => None,
        }
    }
}

/// The most blocks that a state may have taken to be gone on with: 1 EiB. SHA-256 counts at most 2⁶⁴ bits
/// (FIPS 180-4, 1), and the largest files of Linux have 8 EiB, which is as many.
const MOST_BLOCKS: u64 = (1 << 60) / 64;

/// The running digest of one file. Equal after the same bytes, as far as a digest can tell.
#[derive(Clone, Debug, PartialEq)]
pub struct Hasher(Option<Stream>);

/// What holes are hashed from: long enough that the call costs nothing beside the hashing, short
/// enough to stay in the first-level cache.
static ZEROS: [u8; 16 * 1024] = [0; 16 * 1024];

impl Hasher {
    /// Takes the file's next bytes.
    pub fn update(&mut self, bytes: &[u8]) {
        if let Some(state) = &mut self.0 {
            state.update(bytes);
        }
    }

    /// Takes `len` zero bytes: a hole.
    pub fn update_zeros(&mut self, mut len: u64) {
        while self.0.is_some() && len > 0 {
            let now = len.min(ZEROS.len() as u64);
            self.update(&ZEROS[..now as usize]);
            len -= now;
        }
    }

    /// Takes the next bytes of several files, as many files at a time as `backend` does.
    pub fn update_together(backend: Backend, files: Vec<(&mut Self, &[u8])>) {
        let mut streams: Vec<(&mut Stream, &[u8])> = files
            .into_iter()
            .filter_map(|(hasher, bytes)| Some((hasher.0.as_mut()?, bytes)))
            .collect();
        streams::update(backend, &mut streams);
    }

    /// The state in between, to go on with later; `None` for [`Algorithm::None`].
    pub fn state(&self) -> Option<Vec<u8>> {
        self.0.as_ref().map(|state| state.save().to_vec())
    }

    /// How many bytes were taken; 0 for [`Algorithm::None`].
    pub fn taken(&self) -> u64 {
        self.0.as_ref().map_or(0, Stream::taken)
    }

    /// Whether it comes to a digest.
    pub fn is_digest(&self) -> bool {
        self.0.is_some()
    }

    /// SHA-256's state, if exactly whole blocks were taken.
    pub fn chaining_state(&self) -> Option<ChainingState> {
        let stream = self.0.as_ref()?;
        stream.taken().is_multiple_of(BLOCK as u64).then(|| stream.state())
    }

    /// The digest of everything taken; `None` for [`Algorithm::None`].
    pub fn finish(self) -> Option<Digest> {
        self.0.map(Stream::finish)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// FIPS 180-4 examples.
    #[test]
    fn known_answers() {
        for (input, expected) in [
            (&b""[..], "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"),
            (b"abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"),
        ] {
            let mut hasher = Algorithm::Sha256.start();
            hasher.update(input);
            assert_eq!(hasher.finish().unwrap().to_string(), expected);
        }
    }

    #[test]
    fn zeros_are_zeros() {
        for len in [0u64, 1, 16 * 1024 - 1, 16 * 1024, 16 * 1024 + 1, 100_000] {
            let (mut by_hole, mut by_bytes) =
                (Algorithm::Sha256.start(), Algorithm::Sha256.start());
            by_hole.update_zeros(len);
            by_bytes.update(&vec![0; len as usize]);
            assert_eq!(by_hole.finish(), by_bytes.finish());
        }
    }

    /// Journals of part files hold this state: a change of its form needs a new version of theirs.
    #[test]
    fn a_digest_goes_on_where_it_was() {
        let mut hasher = Algorithm::Sha256.start();
        hasher.update(b"abc");
        let state = hasher.state().unwrap();
        let start = [0x67, 0xe6, 0x09, 0x6a, 0x85, 0xae, 0x67, 0xbb];
        assert_eq!((&state[..8], state.len()), (&start[..], 32 + 8 + 64));
        assert_eq!((&state[32..40], &state[40..44]), (&[0; 8][..], &b"\x03abc"[..]));
        for more in [0, 1, 61, 62, 1000] {
            let mut one = hasher.clone();
            let mut two = Algorithm::Sha256.go_on(&state).unwrap();
            one.update(&vec![7; more]);
            two.update(&vec![7; more]);
            assert_eq!(one.finish(), two.finish());
        }
        assert!(Algorithm::Sha256.go_on(&state[1..]).is_none());
        assert!(Algorithm::None.go_on(&state).is_none());
    }

    /// A journal may hold any bytes, also a number from which no counting goes on.
    #[test]
    fn a_state_of_absurd_length_is_none_of_ours() {
        let state = |blocks: u64| {
            let mut state = Algorithm::Sha256.start().state().unwrap();
            state[32..40].copy_from_slice(&blocks.to_le_bytes());
            Algorithm::Sha256.go_on(&state)
        };
        for blocks in [u64::MAX, u64::MAX / 64, u64::MAX / 512, MOST_BLOCKS + 1] {
            let mut hasher = state(blocks);
            if let Some(hasher) = &mut hasher {
                hasher.update(&[0; 200]);
            }
            assert!(hasher.is_none(), "{blocks}");
        }
        let mut longest = state(MOST_BLOCKS).unwrap();
        longest.update(&[0; 200]);
        assert!(longest.finish().is_some());
    }

    #[test]
    fn no_algorithm_no_digest() {
        let mut hasher = Algorithm::None.start();
        hasher.update(b"abc");
        hasher.update_zeros(u64::MAX);
        assert_eq!(hasher.finish(), None);
    }
}
