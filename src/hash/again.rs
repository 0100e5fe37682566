//! Trust in the hashing itself: known answers before anything is hashed, and some of the work done twice.
//!
//! A processor that computes wrongly gives a file a digest which no check on the same machine calls wrong, and every
//! other machine does. `sha2` is the judge: the kernels of [`multibuffer`](crate::hash::multibuffer) are other
//! implementations of the same function. What `sha2` hashes alone it hashes twice, which shows a fault that comes and
//! goes.

use std::{path::Path, sync::atomic::AtomicU64, sync::atomic::Ordering::Relaxed};

use sha2::Digest as _;

use crate::{
    error::Error, error::Result, hash::Algorithm, hash::Backend, hash::Sha256,
    hash::multibuffer::streams,
};

/// Of so many pieces of work one is done twice; a piece is a block of a large file, or a batch of small ones. That is
/// 0.4 % of the hashing, where that limits a copy at all.
pub const ONE_IN: u64 = 256;

/// The digest of the digests of [`known`], one behind the other, as Python's hashlib gives it.
const ANSWER: Sha256 = Sha256([
    0x97, 0x2a, 0x37, 0x1a, 0x88, 0x9a, 0x2c, 0x44, 0x9b, 0x00, 0x20, 0x8b, 0xe6, 0x21, 0x42, 0xdc,
    0x76, 0xc8, 0x8c, 0x75, 0xfb, 0x12, 0x69, 0x77, 0x99, 0xe0, 0x85, 0xd3, 0xf8, 0x8b, 0xdc, 0x35,
]);

/// The content numbered `number`: as many as the widest kernel takes at a time, of one block to ten.
fn known(number: usize) -> Vec<u8> {
    (0..64 + 37 * number).map(|at| (number * 31 + at * 7 + (at >> 8)) as u8).collect()
}

/// True if this machine computes SHA-256 right by `backend`, by those that it hands over to, and by `sha2` alone.
pub fn computes_rightly(backend: Backend) -> bool {
    let contents: Vec<Vec<u8>> = (0..16).map(known).collect();
    let contents: Vec<&[u8]> = contents.iter().map(Vec::as_slice).collect();
    [backend, backend.suiting(2), Backend::One].into_iter().all(|backend| {
        let digests = streams::digests(backend, &contents);
        let digests: Vec<&[u8]> = digests.iter().map(|digest| &digest.0[..]).collect();
        Sha256::of(&digests) == ANSWER
    })
}

/// Refuses to hash `what` on a machine that does not.
///
/// # Errors
/// It computes wrongly.
pub fn refuse_miscomputing(backend: Backend, what: &Path) -> Result<()> {
    match computes_rightly(backend) {
        true => Ok(()),
        false => {
            let why = "this machine computes wrongly: it does not give known answers of SHA-256";
            Err(Error::finding("hash", what, why))
        }
    }
}

/// True if `sha2` gives the content this digest.
pub fn is_digest_of(digest: &Sha256, content: &[u8]) -> bool {
    sha2::Sha256::digest(content)[..] == digest.0
}

/// The pieces of work of a run.
#[derive(Debug, Default)]
pub struct Pieces(AtomicU64);

impl Pieces {
    /// True if there were any, and they are done twice: those of SHA-256 alone are.
    pub fn is_any_of(&self, algorithm: Algorithm) -> bool {
        algorithm == Algorithm::Sha256 && self.0.load(Relaxed) > 0
    }

    /// Counts a piece; true if it is to be done twice. The first is.
    pub fn is_for_twice(&self) -> bool {
        self.0.fetch_add(1, Relaxed).is_multiple_of(ONE_IN)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_backend_answers_and_one_that_lies_does_not() {
        for backend in Backend::all() {
            assert!(computes_rightly(backend), "{backend:?}");
        }
        assert!(!computes_rightly(Backend::Wrong(1)));
    }

    #[test]
    fn one_piece_in_so_many_is_done_twice() {
        let pieces = Pieces::default();
        let twice = (0..10 * ONE_IN).filter(|_| pieces.is_for_twice()).count();
        assert_eq!(twice, 10);
        assert!(is_digest_of(&Sha256::of(&[b"abc"]), b"abc"));
        assert!(!is_digest_of(&Sha256::of(&[b"abc"]), b"abd"));
    }
}
