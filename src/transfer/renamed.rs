//! Files that have another name at the source than at the output: they are shared there instead of written again.
//!
//! A record says which content stood under a name that the source no longer has. A file of the source that is new and
//! has the same size and time may be that one, so it is read; only an equal digest makes it so. Then it becomes a clone
//! of the file at the output, or a further hard link to it, under a part name, and goes the way of every copy from
//! there: synced, read back where that is asked for, published, recorded. The old name is not touched.

use std::{
    io, path::PathBuf, sync::Arc, sync::OnceLock, sync::atomic::AtomicBool, sync::atomic::AtomicU8,
    sync::atomic::Ordering::Relaxed,
};

use crate::{
    event::Stop, hash::Algorithm, hash::Digest, path::RelPath, state::Knowledge, state::Missing,
    state::PrivateDir, state::RecordedAt, state::Row, sys, sys::Dir, sys::stat::Stat,
    sys::stat::Time, tree::HeldTree, tree::SourceDir, tree::dirs::open_source_below,
};

// Recorded files by what they look like: size and time first, then the digest.
//
// Of each row 17 bytes are kept, of 1,048,576 rows at most; what is beyond is copied as if it were new. Whether the
// source still has a name is asked once, when it matters.

/// Number of rows that are kept.
const MOST_ROWS: usize = 1 << 20;

/// Number of files that look alike and are looked at for one; more are taken for new ones.
const MOST_ALIKE: usize = 1024;

/// The fate of a name: not known.
const UNKNOWN: u8 = 0;
const IN_SOURCE: u8 = 1;
const GONE: u8 = 2;
const TAKEN: u8 = 3;

/// The rows that nothing of the source was found for when this was made, in an order in which they are found.
#[derive(Debug, Default)]
pub struct GoneFiles {
    slots: Vec<GoneSlot>,
    /// The fate of each file.
    fates: Vec<AtomicU8>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct GoneSlot {
    size_and_time: u32,
    digest: u32,
    at: RecordedAt,
}

impl GoneFiles {
    /// Reads the rows of `known`; what cannot be read is left out.
    pub fn of(known: &Knowledge, is_to_stop: &dyn Fn() -> bool) -> Self {
        let mut slots = Vec::new();
        // What was read until an error is as good.
        let _ = known.each_unsettled_row(is_to_stop, |at, row| {
            let slot = GoneSlot {
                size_and_time: size_and_time_key(row.trace.size, row.trace.mtime),
                digest: beginning(&row.digest),
                at,
            };
            if row.trace.size > 0 {
                slots.push(slot);
            }
            slots.len() < MOST_ROWS
        });
        slots.sort_unstable();
        let fates = slots.iter().map(|_| AtomicU8::new(UNKNOWN)).collect();
        Self { slots, fates }
    }

    /// True if a file of this size and time may have left the source; `is_gone` asks that of one.
    pub fn may_have(
        &self,
        size: u64,
        mtime: Time,
        mut is_gone: impl FnMut(RecordedAt) -> bool,
    ) -> bool {
        let wanted = size_and_time_key(size, mtime);
        let first = self.slots.partition_point(|slot| slot.size_and_time < wanted);
        let alike = self.slots.iter().enumerate().skip(first);
        let mut alike = alike.take_while(|(_, slot)| slot.size_and_time == wanted).take(MOST_ALIKE);
        alike.any(|(at, _)| self.is_gone(at, &mut is_gone))
    }

    /// Tries `share` on each file that looks so, has this digest and is gone, until one can be shared; gives its
    /// result.
    pub fn find<T>(
        &self,
        size: u64,
        mtime: Time,
        digest: &Digest,
        mut is_gone: impl FnMut(RecordedAt) -> bool,
        mut share: impl FnMut(GoneFile<'_>) -> Option<T>,
    ) -> Option<T> {
        let key = (size_and_time_key(size, mtime), beginning(digest));
        let first = self.slots.partition_point(|slot| (slot.size_and_time, slot.digest) < key);
        let alike = self.slots.iter().enumerate().skip(first);
        let mut alike =
            alike.take_while(|(_, slot)| (slot.size_and_time, slot.digest) == key).take(MOST_ALIKE);
        alike.find_map(|(number, slot)| {
            let is_gone = self.is_gone(number, &mut is_gone);
            is_gone.then(|| share(GoneFile { at: slot.at, fate: &self.fates[number] })).flatten()
        })
    }

    fn is_gone(&self, number: usize, ask: &mut impl FnMut(RecordedAt) -> bool) -> bool {
        let (Some(slot), Some(fate)) = (self.slots.get(number), self.fates.get(number)) else {
            return false;
        };
        if fate.load(Relaxed) == UNKNOWN {
            let found = if ask(slot.at) { GONE } else { IN_SOURCE };
            // Another thread may have found the same.
            let _ = fate.compare_exchange(UNKNOWN, found, Relaxed, Relaxed);
        }
        fate.load(Relaxed) != IN_SOURCE
    }
}

/// A recorded file that has left the source.
pub struct GoneFile<'a> {
    pub at: RecordedAt,
    fate: &'a AtomicU8,
}

impl GoneFile<'_> {
    /// Takes it for one new name alone; false if another has it.
    pub fn take(&self) -> bool {
        self.fate.compare_exchange(GONE, TAKEN, Relaxed, Relaxed).is_ok()
    }
}

/// A key that is equal for files of the same size and second.
fn size_and_time_key(size: u64, mtime: Time) -> u32 {
    let mixed = size ^ (mtime.secs as u64).rotate_left(32);
    (mixed.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as u32
}

fn beginning(digest: &Digest) -> u32 {
    digest.bytes().iter().take(4).fold(0, |sum, byte| sum << 8 | u32::from(*byte))
}

// The tree in which files are looked for that have another name at the source now: the output itself, or the last
// generation.

/// The files of a run's output, or of the last generation, that can be shared under another name.
#[derive(Debug)]
pub struct RenamedFiles<'a> {
    source: Arc<SourceDir>,
    /// True if links in the source stand for what they point to.
    follow: bool,
    tree: RecordedTree<'a>,
    stop: &'a Stop,
    gone: OnceLock<GoneFiles>,
    pub clones: Usable,
    pub links: Usable,
    /// True if a hard link was made.
    linked: AtomicBool,
}

/// The usefulness of something, as far as is known.
#[derive(Debug)]
pub struct Usable(AtomicBool);

impl Usable {
    pub fn new(is_wanted: bool) -> Self {
        Self(AtomicBool::new(is_wanted))
    }

    pub fn is_usable(&self) -> bool {
        self.0.load(Relaxed)
    }

    /// The file system cannot do it.
    pub fn set_unusable(&self) {
        self.0.store(false, Relaxed);
    }
}

/// A tree, and what is recorded of it.
#[derive(Debug)]
pub enum RecordedTree<'a> {
    /// The output, whose root is this.
    Output(Dir, &'a Knowledge),
    Other(Box<OtherTree>),
}

/// Another tree than the output, whose record is read when it is first asked for.
#[derive(Debug)]
pub struct OtherTree {
    pub root: Dir,
    pub path: PathBuf,
    /// The algorithm that the run proves with.
    pub proof: Algorithm,
    known: OnceLock<Knowledge>,
}

impl OtherTree {
    /// The tree that is held.
    ///
    /// # Errors
    /// There is no descriptor left for it.
    pub fn of(held: &HeldTree, proof: Algorithm) -> io::Result<Self> {
        let HeldTree { dir, path } = held;
        Ok(Self { root: dir.try_clone()?, path: path.clone(), proof, known: OnceLock::new() })
    }

    fn known(&self, stop: &Stop) -> &Knowledge {
        self.known.get_or_init(|| {
            // What cannot be read is as good as none; who shared with this tree before told of it.
            let private = PrivateDir::open(&self.root, &self.path, None, Missing::Leave);
            let (private, is_to_stop) = (private.ok().flatten(), || stop.is_requested());
            let (root, path) = (&self.root, &self.path);
            let known = Knowledge::load(private.as_ref(), root, path, &|_| false, &is_to_stop).0;
            known.proving_with(self.proof)
        })
    }
}

/// A file of the tree that has left the source.
pub struct FormerFile<'a> {
    pub path: RelPath,
    pub row: Row,
    /// Takes it for one new name alone; false if another has it.
    pub take: &'a dyn Fn() -> bool,
}

impl<'a> RenamedFiles<'a> {
    /// Those of `tree` that have left `source`.
    pub fn new(
        source: Arc<SourceDir>,
        follow: bool,
        tree: RecordedTree<'a>,
        stop: &'a Stop,
    ) -> Self {
        Self {
            source,
            follow,
            tree,
            stop,
            gone: OnceLock::new(),
            clones: Usable::new(true),
            links: Usable::new(true),
            linked: AtomicBool::new(false),
        }
    }

    /// The root of the tree.
    pub fn root(&self) -> &Dir {
        match &self.tree {
            RecordedTree::Output(root, _) => root,
            RecordedTree::Other(tree) => &tree.root,
        }
    }

    /// True if a file that looked like this one may have left the source.
    pub fn may_have(&self, stat: &Stat) -> bool {
        stat.size > 0 && self.gone().may_have(stat.size, stat.mtime, |at| self.has_left(at))
    }

    /// Tries `share` on each file that looked like this one, has this digest and left the source, until one can be
    /// shared; gives its result.
    pub fn find<T>(
        &self,
        stat: &Stat,
        digest: &Digest,
        mut share: impl FnMut(FormerFile<'_>) -> Option<T>,
    ) -> Option<T> {
        let has_left = |at| self.has_left(at);
        self.gone().find(stat.size, stat.mtime, digest, has_left, |found| {
            let (path, row) = self.known().recorded(found.at)?;
            let is_it = row.digest == *digest
                && row.trace.size == stat.size
                && stat.mtime == row.given.unwrap_or(row.trace.mtime);
            let take = &|| found.take();
            is_it.then(|| share(FormerFile { path, row, take })).flatten()
        })
    }

    /// True if the file that is there is a former one, as a run left it.
    pub fn proves(&self, former: &FormerFile<'_>, there: &Stat) -> bool {
        self.known().proves(&former.row, there)
    }

    /// The former file, which is `there`, was read and is not what is recorded of it.
    pub fn refute(&self, former: &FormerFile<'_>, there: &Stat) {
        self.known().refute(former.path.as_bytes(), there);
    }

    /// A hard link was made.
    pub fn note_link(&self) {
        self.linked.store(true, Relaxed);
    }

    /// True if there are hard links now that were not there before.
    pub fn has_linked(&self) -> bool {
        self.linked.load(Relaxed)
    }

    fn known(&self) -> &Knowledge {
        match &self.tree {
            RecordedTree::Output(_, known) => known,
            RecordedTree::Other(tree) => tree.known(self.stop),
        }
    }

    fn gone(&self) -> &GoneFiles {
        self.gone.get_or_init(|| GoneFiles::of(self.known(), &|| self.stop.is_requested()))
    }

    /// True if the source has nothing of that name any more.
    fn has_left(&self, at: RecordedAt) -> bool {
        let Some((path, _)) = self.known().recorded(at) else { return false };
        let Some((above, name)) = path.split() else { return false };
        let looked = open_source_below(&self.source.handle, &above, self.follow)
            .and_then(|dir| dir.stat(sys::name_from_bytes(name)?, self.follow));
        let is_gone = |error: &io::Error| {
            matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
        };
        looked.err().as_ref().is_some_and(is_gone)
    }
}
