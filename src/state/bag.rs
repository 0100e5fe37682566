//! What this user's runs keep of a bag: that it is theirs, and what the private record says of its payload, beside what
//! the lists of the bag say.
//!
//! The lists of a bag lie in the open, and no list of ours is beside them whose digest the record has. Who may write
//! there can write data and lists anew, and all agrees. So each line of a list is held against the record of the runs
//! that made the bag. A bag that was moved with its record, or made by others, has none that counts.

use std::{io, path::Path};

use serde::{Deserialize, Serialize};

use crate::{
    hash::Algorithm, hash::Digest, manifest::archive::bag, path::RelPath, state::FinishedManifest,
    state::Knowledge, state::Missing, state::Note, state::PrivateDir, state::note::Bound, sys::Dir,
    sys::stat::Kind,
};

/// That the directory is a bag of this user's runs, begun or finished.
#[derive(Debug, Serialize, Deserialize)]
pub struct BagNote;

impl Note for BagNote {
    const FILE: &str = "bag";
    const HEAD: &str = "dircopy bag 1";
    const BOUND: Bound = Bound::Directory;
}

// The payload.

/// What became of a list of a bag since this user's runs recorded the payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SinceRecorded {
    /// They recorded another digest of the file.
    Changed,
    /// They recorded none of this name, or no longer.
    Added,
    /// They recorded it, and no line lists it.
    Removed,
}

/// The record of the payload of a bag. What was held against it is not told as removed.
#[derive(Debug)]
pub struct RecordedPayload {
    known: Knowledge,
    /// By which algorithm the list is, …
    by: Algorithm,
    /// … and all lists that the bag has.
    listed_by: Vec<Algorithm>,
    /// The first of those that were last taken.
    taken: Option<RelPath>,
}

/// A line of a list, held against the record.
pub struct HeldLine {
    /// The digest that counts.
    pub digest: Digest,
    pub contradiction: Option<SinceRecorded>,
}

impl RecordedPayload {
    /// The record of the bag whose root is `bag`, at `path`, for a list by this algorithm; its private directory is
    /// below `state`, if that is given. `None` if nothing is recorded.
    pub fn load(
        bag: &Dir,
        path: &Path,
        state: Option<&Path>,
        by: Algorithm,
        is_to_stop: &dyn Fn() -> bool,
    ) -> Option<Self> {
        let private = PrivateDir::open(bag, path, state, Missing::Leave).ok()??;
        let payload = private.payload(bag, path)?;
        // Until a run has finished one, the lists are not of it.
        FinishedManifest::last_named(&payload.private)?;
        let known = Knowledge::of_records(&payload.private, &payload.dir, is_to_stop);
        let (known, taken) = (known.proving_with(by), None);
        let is_list = |by: &Algorithm| {
            let list = bag.stat(bag::payload_list(*by).as_ref(), false);
            list.is_ok_and(|it| it.kind == Kind::File)
        };
        let listed_by = Algorithm::of_bags().filter(is_list).collect();
        known.has_records().then_some(Self { known, by, listed_by, taken })
    }

    /// Holds a line against it: the file at `path` below the payload has the `listed` digest.
    pub fn hold(&self, path: &[u8], listed: Digest) -> HeldLine {
        self.known.settle(path);
        let by_list = self.known.digest(path, self.by).map(|(digest, _)| digest);
        // Where the list that the runs made is gone, one by another algorithm proves nothing.
        let is_not_listed = |digest: &Digest| !self.listed_by.contains(&digest.algorithm());
        let recorded = by_list.or_else(|| self.known.any_digest(path).filter(is_not_listed));
        let contradiction = match by_list {
            Some(recorded) if recorded != listed => Some(SinceRecorded::Changed),
            None if !self.known.lists(path) => Some(SinceRecorded::Added),
            _ => None,
        };
        HeldLine { digest: recorded.unwrap_or(listed), contradiction }
    }

    /// Some of the files that are recorded and were on no line so far, with their digests; none if there are no more.
    ///
    /// # Errors
    /// The record cannot be read.
    pub fn take_removed(&mut self) -> io::Result<Vec<RemovedFile>> {
        let mut places = Vec::new();
        self.known.each_unsettled_row(&|| false, |at, _| {
            places.push(at);
            places.len() < MOST_AT_ONCE
        })?;
        let mut removed = Vec::new();
        for (path, row) in places.into_iter().filter_map(|at| self.known.recorded(at)) {
            self.known.settle(path.as_bytes());
            removed.push(RemovedFile { path, digest: row.digest });
        }
        // Of several rows for a path the newest stands first.
        removed.sort_by(|one: &RemovedFile, other| one.path.cmp(&other.path));
        removed.dedup_by(|one, other| one.path == other.path);
        let first = removed.first().map(|it| it.path.clone());
        // What cannot be settled is taken once.
        if first.is_none() || self.taken == first {
            return Ok(Vec::new());
        }
        self.taken = first;
        Ok(removed)
    }
}

/// A file of the payload that is recorded and not listed.
pub struct RemovedFile {
    /// Its path below the payload.
    pub path: RelPath,
    pub digest: Digest,
}

/// So many are held in memory.
const MOST_AT_ONCE: usize = 1 << 14;
