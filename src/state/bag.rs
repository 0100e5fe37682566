//! What this user's runs keep of a bag: that it is theirs, its tag manifests as the last run wrote them, and the record
//! of its payload.
//!
//! The lists of a bag lie in the open, and no list of ours is beside them whose digest the record has. Who may write
//! there can write data and lists anew, and all agrees. So each line of a list of the payload is held against the
//! record of the runs that made the bag, and the tag manifests, which list all other text files, against their digests.
//!
//! A record is known by the directory that it was made of. That does not tell a copy of a bag from one in which
//! somebody put another directory in the place of the payload; and on some file systems directories have other numbers
//! after each mount. So contents decide: a record of another directory counts against the lists of a bag, and never for
//! them.

use std::{collections::BTreeMap, io, io::Read, path::Path};

use serde::{Deserialize, Serialize};

use crate::{
    error::Error, hash::Algorithm, hash::Digest, hash::Sha256, manifest::archive::bag,
    path::RelPath, state::FinishedManifest, state::KeptPayload, state::Knowledge, state::Missing,
    state::Note, state::PrivateDir, state::note::Bound, state::note::NoteDoubt,
    state::private_dir::CONSULT, sys::Dir, sys::DirListing, sys::Uninterrupted, sys::stat::Kind,
};

/// That the directory is a bag of this user's runs, begun or finished.
#[derive(Debug, Serialize, Deserialize)]
pub struct BagNote;

impl Note for BagNote {
    const FILE: &str = "bag";
    const HEAD: &str = "dircopy bag 1";
    const BOUND: Bound = Bound::Directory;
}

impl BagNote {
    /// True if the private directory is that of `bag`, which is this user's. Where directories get other numbers with
    /// each mount the note counts as it lies there; what the bag has is read all the same.
    pub fn is_in(private: &PrivateDir, bag: &Dir) -> bool {
        let is_elsewhere = || Self::doubt(private) == Some(NoteDoubt::Elsewhere);
        let may_be = !private.is_by_path_alone() && !bag.keeps_numbers();
        Self::read(private).is_some() || may_be && is_elsewhere()
    }
}

// The tag manifests.

/// More is not read of a tag manifest, in bytes.
const MOST_TAG_LIST: u64 = 4 << 20;

/// The tag manifests of a bag, each with the digest of its text.
#[derive(Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TagLists(BTreeMap<String, String>);

impl Note for TagLists {
    const FILE: &str = "tag-lists";
    const HEAD: &str = "dircopy tag lists 1";
}

/// The remark on a tag manifest that is not what this user's last run wrote.
pub const TAGS_CHANGED: &str = "your last run wrote it otherwise: it was changed since, or a text file that it lists, as bag-info.txt; if it was \
     you, the same copy again keeps the tags and lists them anew (or remove the bag's .dircopy)";

impl TagLists {
    /// Adds the one called `name`, which has this text.
    pub fn add(&mut self, name: String, text: &[u8]) {
        self.0.insert(name, Sha256::of(&[text]).to_string());
    }

    /// Those that are in the directory `bag`; of what cannot be read the digest is empty.
    ///
    /// # Errors
    /// The directory cannot be listed.
    fn in_bag(bag: &Dir) -> io::Result<Self> {
        let mut found = Self::default();
        for listed in DirListing::of(bag)? {
            let name = listed?.name;
            let Some(name) = name.to_str() else { continue };
            if let Some((true, _)) = bag::manifest_name(name) {
                let digest = digest_in(bag, name).map_or_else(String::new, |it| it.to_string());
                found.0.insert(name.to_owned(), digest);
            }
        }
        Ok(found)
    }

    /// The names of those that are otherwise in the directory `bag`, or only there or only here. Where that cannot be
    /// listed, who asks finds that out.
    pub fn changed_in(&self, bag: &Dir) -> Vec<String> {
        let there = Self::in_bag(bag).map_or_else(|_| BTreeMap::new(), |there| there.0);
        let mut changed: Vec<_> = self.0.keys().chain(there.keys()).cloned().collect();
        changed.retain(|name| self.0.get(name) != there.get(name));
        changed.sort_unstable();
        changed.dedup();
        changed
    }

    /// Notes it for later runs, on the device if `durable`; nothing where that is noted.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn update(&self, private: &PrivateDir, durable: bool) -> io::Result<()> {
        match Self::read(private).as_ref() == Some(self) {
            true => Ok(()),
            false => self.write(private, durable),
        }
    }
}

/// The digest of a regular file that is no longer than a tag manifest can be.
fn digest_in(bag: &Dir, name: &str) -> Option<Sha256> {
    bag.stat(name.as_ref(), false).ok().filter(|stat| stat.kind == Kind::File)?;
    let file = Uninterrupted(bag.open_file(name.as_ref(), false).ok()?);
    let mut text = Vec::new();
    file.take(MOST_TAG_LIST + 1).read_to_end(&mut text).ok()?;
    (text.len() as u64 <= MOST_TAG_LIST).then(|| Sha256::of(&[&text]))
}

/// What became of a bag since this user's runs finished it, beside the lines of its payload's lists.
#[derive(Debug, Default)]
pub struct BagSince {
    /// The names of tag manifests that are not what the last run wrote.
    pub tag_lists: Vec<String>,
    /// Why its record, or a part of that, does not count for it.
    pub unlike: Vec<Error>,
}

impl BagSince {
    /// Looks at the bag whose root is `bag`, at `path`; its private directory is below `state`, if that is given.
    pub fn look(bag: &Dir, path: &Path, state: Option<&Path>) -> Self {
        let private = PrivateDir::open(bag, path, state, Missing::Leave).ok().flatten();
        let Some(private) = private else { return Self::default() };
        let noted = TagLists::read(&private);
        let is_noted = noted.is_some();
        let tag_lists = noted.map_or_else(Vec::new, |noted| noted.changed_in(bag));
        let is_ours = BagNote::is_in(&private, bag);
        let payload = private.payload(bag, path);
        let recorded = payload.filter(|it| FinishedManifest::last_named(&it.private).is_some());
        let is_elsewhere = BagNote::doubt(&private) == Some(NoteDoubt::Elsewhere);
        let is_recorded = recorded.is_some();
        let why = match recorded {
            Some(it) if is_ours && FinishedManifest::is_of_here(&it.private) => None,
            Some(_) if is_ours || is_elsewhere => Some(OF_ANOTHER),
            Some(_) => Some("its note that this is a bag is gone, damaged or of another version"),
            None => is_ours.then_some("no run of yours recorded the payload to its end"),
        };
        let cannot = |finding| Error::finding(CONSULT, private.path(), finding);
        let unlike = why.map(|why| {
            let remedy = match () {
                () if is_ours => AGAIN,
                () if is_elsewhere => "remove it if this is a copy that was changed since",
                () => NO_MORE,
            };
            cannot(format!(
                "{why}, so the bag's own lists alone prove it, and what is recorded otherwise is named; {remedy}"
            ))
        });
        let is_unread = match TagLists::doubt(&private) {
            Some(doubt) => doubt == NoteDoubt::Unreadable,
            None => is_recorded && !is_noted,
        };
        let of_tags = (is_ours && is_unread).then(|| {
            cannot(format!("{TAGS_UNREAD}, so these alone prove the tags; {AGAIN}, and the tags"))
        });
        Self { tag_lists, unlike: unlike.into_iter().chain(of_tags).collect() }
    }

    /// The same as what is to be told of the bag at `path`.
    pub fn told(self, path: &Path) -> Vec<Error> {
        let changed = |name| Error::finding("rely on", path.join(name), TAGS_CHANGED);
        self.tag_lists.into_iter().map(changed).chain(self.unlike).collect()
    }
}

const OF_ANOTHER: &str = "it is of another directory (the bag was copied, or its payload exchanged) or mounted where directories \
                          get other numbers";

const AGAIN: &str = "the same copy again records the payload that is there";

const NO_MORE: &str =
    "no run goes on with this bag: make another one, or remove the record if this one is to stay";

/// What is said of the note of the tag manifests if it is of no use.
pub const TAGS_UNREAD: &str =
    "its note of the tag manifests is gone, damaged, or of another version of dircopy";

// The payload.

impl KeptPayload {
    /// What is recorded of it, whatever directory that was.
    pub fn known(&self, is_to_stop: &dyn Fn() -> bool) -> Knowledge {
        Knowledge::of_records(&self.private, &self.dir, is_to_stop).of_any_directory()
    }
}

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
        let (known, taken) = (payload.known(is_to_stop).proving_with(by), None);
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
