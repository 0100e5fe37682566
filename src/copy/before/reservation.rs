//! The space that several outputs reserve on one file system, so that what fits for each of them alone is not
//! begun where it does not fit for all.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use crate::error::Result;
use crate::sys::FreeSpace;

/// What the outputs of a run reserve of the file systems that they are on.
#[derive(Debug, Default)]
pub struct Reservations(Mutex<HashMap<u64, FileSystemClaims>>);

/// What is reserved of one file system.
#[derive(Debug)]
struct FileSystemClaims {
    /// What was free when the first output looked: others may be writing by now.
    free: FreeSpace,
    exact: Sum,
    at_most: Sum,
}

/// What an output reserves.
#[derive(Clone, Copy, Debug)]
pub struct Claim {
    pub bytes: u64,
    /// Files that are not there yet.
    pub files: u64,
    /// Whether it may turn out to be less.
    pub certainty: Certainty,
}

/// How well a claim is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Certainty {
    /// So much is needed: no other output can have it.
    Exactly,
    /// It may be less. Others are not refused for it, but have to find out what they need exactly.
    AtMost,
}

#[derive(Clone, Copy, Debug, Default)]
struct Sum {
    bytes: u64,
    files: u64,
}

impl Claim {
    pub fn new(bytes: u64, files: u64) -> Self {
        Self { bytes, files, certainty: Certainty::Exactly }
    }
}

impl Reservations {
    /// Reserves `claim` of the file system `dev`, of which `free` is free as the system says, if `fits` says
    /// that it fits in what others leave of it.
    ///
    /// # Errors
    /// It does not fit, as `fits` says.
    pub fn reserve(
        &self,
        dev: u64,
        free: FreeSpace,
        claim: Claim,
        fits: impl FnOnce(&FreeSpace) -> Result<()>,
    ) -> Result<()> {
        // No call in between can panic.
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let nothing = Sum::default();
        let reserved =
            all.entry(dev).or_insert(FileSystemClaims { free, exact: nothing, at_most: nothing });
        let taken = match claim.certainty {
            Certainty::Exactly => reserved.exact,
            Certainty::AtMost => reserved.exact.and(reserved.at_most.bytes, reserved.at_most.files),
        };
        let left = FreeSpace {
            bytes: reserved.free.bytes.saturating_sub(taken.bytes),
            files: reserved.free.files.map(|free| free.saturating_sub(taken.files)),
            ..free
        };
        fits(&left).map_err(|error| match taken.bytes.max(taken.files) {
            0 => error,
            _ => error.with_note("; another output on that file system takes the rest"),
        })?;
        let sum = match claim.certainty {
            Certainty::Exactly => &mut reserved.exact,
            Certainty::AtMost => &mut reserved.at_most,
        };
        *sum = sum.and(claim.bytes, claim.files);
        Ok(())
    }
}

impl Sum {
    fn and(self, bytes: u64, files: u64) -> Self {
        Self { bytes: self.bytes.saturating_add(bytes), files: self.files.saturating_add(files) }
    }
}

#[cfg(test)]
mod tests {
    use super::Certainty::{AtMost, Exactly};
    use super::*;
    use crate::error::Error;

    #[test]
    fn what_one_output_reserves_is_not_there_for_another() {
        let reservations = Reservations::default();
        let claim = |dev, free, bytes, certainty| {
            let free = FreeSpace { bytes: free, block: 1, files: Some(10) };
            let fits = |left: &FreeSpace| match bytes <= left.bytes {
                true => Ok(()),
                false => Err(Error::finding("copy to", "out", "too much")),
            };
            let claim = Claim { certainty, ..Claim::new(bytes, 1) };
            reservations.reserve(dev, free, claim, fits)
        };
        assert!(claim(1, 100, 60, Exactly).is_ok());
        let error = claim(1, 100, 50, Exactly).unwrap_err().to_string();
        assert!(error.contains("another output"), "{error}");
        // What the first has written by now is not counted twice.
        assert!(claim(1, 70, 40, Exactly).is_ok());
        assert!(claim(2, 100, 50, Exactly).is_ok());
        let error = claim(3, 100, 200, Exactly).unwrap_err().to_string();
        assert!(!error.contains("another output"), "{error}");
        // A claim that may be less is in the way only of others that may be less.
        assert!(claim(4, 100, 60, AtMost).is_ok() && claim(4, 100, 60, AtMost).is_err());
        assert!(claim(4, 100, 60, Exactly).is_ok() && claim(4, 100, 60, Exactly).is_err());
    }
}
