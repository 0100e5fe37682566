//! Which algorithm a run uses, and its running state.
//!
//! SHA-256 is `sha2`'s, which picks the processor's SHA instructions where they are.

use sha2::Digest as _;

use super::digest::Digest;

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
            Algorithm::Sha256 => Hasher(Some(sha2::Sha256::new())),
            Algorithm::None => Hasher(None),
        }
    }
}

/// The running digest of one file.
#[derive(Clone)]
pub struct Hasher(Option<sha2::Sha256>);

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

    /// The digest of everything taken; `None` for [`Algorithm::None`].
    pub fn finish(self) -> Option<Digest> {
        self.0.map(|state| Digest(state.finalize().into()))
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

    #[test]
    fn no_algorithm_no_digest() {
        let mut hasher = Algorithm::None.start();
        hasher.update(b"abc");
        hasher.update_zeros(u64::MAX);
        assert_eq!(hasher.finish(), None);
    }
}
