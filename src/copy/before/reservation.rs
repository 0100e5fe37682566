//! The room of a file system on which several outputs are, so that what fits for each of them alone is not
//! begun where it does not fit for all.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use crate::error::Result;
use crate::sys::FreeSpace;

/// What outputs of a run claim of the file systems that they are on.
#[derive(Debug, Default)]
pub struct Rooms(Mutex<HashMap<u64, Claimed>>);

/// What is claimed of one file system.
#[derive(Debug)]
struct Claimed {
    /// What it had when the first output looked: others may be writing by now.
    room: FreeSpace,
    exact: Claim,
    at_most: Claim,
}

/// What an output claims.
#[derive(Clone, Copy, Debug, Default)]
pub struct Claim {
    /// Bytes.
    pub bytes: u64,
    /// Files that are not there yet.
    pub files: u64,
}

/// How well a claim is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Known {
    /// So much is needed: nobody else can have it.
    Exactly,
    /// It may be less. Others are not refused for it, but have to find out what they need exactly.
    AtMost,
}

impl Rooms {
    /// Claims `claim` of the file system `dev`, whose room is `room` as the system says, if `fits` says that
    /// it fits in what others leave of it.
    ///
    /// # Errors
    /// It does not fit, as `fits` says.
    pub fn claim(
        &self,
        dev: u64,
        room: FreeSpace,
        (claim, known): (Claim, Known),
        fits: impl FnOnce(&FreeSpace) -> Result<()>,
    ) -> Result<()> {
        // No call in between can panic.
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let nothing = Claim::default();
        let claimed = all.entry(dev).or_insert(Claimed { room, exact: nothing, at_most: nothing });
        let taken = match known {
            Known::Exactly => claimed.exact,
            Known::AtMost => claimed.exact.and(claimed.at_most),
        };
        let left = FreeSpace {
            bytes: claimed.room.bytes.saturating_sub(taken.bytes),
            files: claimed.room.files.map(|free| free.saturating_sub(taken.files)),
            ..room
        };
        fits(&left).map_err(|error| match taken.bytes.max(taken.files) {
            0 => error,
            _ => error.with_note("; another output on that file system takes the rest"),
        })?;
        let tally = match known {
            Known::Exactly => &mut claimed.exact,
            Known::AtMost => &mut claimed.at_most,
        };
        *tally = tally.and(claim);
        Ok(())
    }
}

impl Claim {
    fn and(self, other: Self) -> Self {
        let Self { bytes, files } = other;
        Self { bytes: self.bytes.saturating_add(bytes), files: self.files.saturating_add(files) }
    }
}

#[cfg(test)]
mod tests {
    use super::Known::{AtMost, Exactly};
    use super::*;
    use crate::error::Error;

    #[test]
    fn what_one_claims_is_not_there_for_another() {
        let rooms = Rooms::default();
        let claim = |dev, free, bytes, known| {
            let room = FreeSpace { bytes: free, block: 1, files: Some(10) };
            let fits = |left: &FreeSpace| match bytes <= left.bytes {
                true => Ok(()),
                false => Err(Error::finding("copy to", "out", "too much")),
            };
            rooms.claim(dev, room, (Claim { bytes, files: 1 }, known), fits)
        };
        assert!(claim(1, 100, 60, Exactly).is_ok());
        let error = claim(1, 100, 50, Exactly).unwrap_err().to_string();
        assert!(error.contains("another output"), "{error}");
        // What the first has written by now is not counted twice.
        assert!(claim(1, 70, 40, Exactly).is_ok());
        assert!(claim(2, 100, 50, Exactly).is_ok());
        let error = claim(3, 100, 200, Exactly).unwrap_err().to_string();
        assert!(!error.contains("another output"), "{error}");
        // Who may need less is in the way of those only who may need less, too.
        assert!(claim(4, 100, 60, AtMost).is_ok() && claim(4, 100, 60, AtMost).is_err());
        assert!(claim(4, 100, 60, Exactly).is_ok() && claim(4, 100, 60, Exactly).is_err());
    }
}
