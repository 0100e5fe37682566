//! A new file whose content is at the output under a name that has left the source: it becomes a clone of that, or a
//! further hard link to it, under a part name.

use std::sync::{Arc, OnceLock, atomic::AtomicBool, atomic::AtomicU8, atomic::Ordering::Relaxed};
use std::{ffi::OsStr, ffi::OsString, fs::File, io, path::PathBuf};

use crate::sys::{
    Attributes, Cloned, Dir, Medium, stat::Inode, stat::Kind, stat::Stat, stat::Time,
};
use crate::{
    error::Error, error::is_absent, event::Stop, hash::Algorithm, hash::Digest, io::Durability,
    io::ReadBack, part::PartName, part::Transfer, part::content::Method, path::RelPath,
    state::Knowledge, state::Missing, state::PrivateDir, state::RecordedAt, state::Row,
    state::Trace, sys, transfer, transfer::Context, transfer::Outcome, transfer::WrittenPart,
    transfer::rot_check, tree::HeldTree, tree::SourceDir, tree::dirs::open_source_below,
};

/// Shares the content of a file that nothing is at the output for, if that is there under a former name; `None` if it
/// is to be copied. The file is read to find that out, if there is one that looks like it.
pub fn share(
    context: &Context<'_>,
    transfer: &Transfer,
    read_back: &mut ReadBack,
    warnings: &mut Vec<Error>,
) -> Option<Outcome> {
    let renamed = context.shared.renamed?;
    let stat = &transfer.entry().stat;
    let can_share = renamed.clones.is_usable() || renamed.links.is_usable();
    if !can_share || !renamed.may_have(stat) {
        return None;
    }
    // What is wrong with it the copy will find out too.
    let Some(digest) = transfer::hash(context, transfer, read_back).ok()? else {
        return Some(Outcome::Abandoned);
    };
    // Nothing is made before there is known to be room for what the run makes.
    if !context.control.gate.lets_pass() {
        return Some(Outcome::Abandoned);
    }
    let new_name = NewName { context, transfer, renamed };
    let (part, made) = renamed
        .find(stat, &digest, |former| new_name.of(former, read_back, warnings).ok().flatten())?;
    let written = WrittenPart {
        part: PartName { name: part, journal: None },
        made,
        digest: Some(digest),
        method: Method::Renamed,
    };
    if rot_check::is_listed(context, &transfer.target).unwrap_or(true)
        && let Some(outcome) = rot_check::check(context, transfer, Some(digest))
    {
        new_name.discard(&written.part.name, warnings);
        return Some(outcome);
    }
    if let Some(states) = context.shared.states {
        states.carry(transfer.target.rel_path().as_bytes(), stat.size, &digest);
    }
    context.control.progress.skip(stat.size);
    context.pass(&transfer.target);
    Some(Outcome::Written(written))
}

/// A part file with a content that it shares: its name, and the file.
type SharedPart = (OsString, Inode);

/// A file that is to share the content of a former one.
struct NewName<'a> {
    context: &'a Context<'a>,
    transfer: &'a Transfer,
    renamed: &'a RenamedFiles<'a>,
}

impl NewName<'_> {
    /// The part file that has the content of `former`, and its name; `None` if that is not what the record knows, or
    /// cannot be shared.
    fn of(
        &self,
        former: FormerFile<'_>,
        read_back: &mut ReadBack,
        warnings: &mut Vec<Error>,
    ) -> io::Result<Option<SharedPart>> {
        let Some((above, name)) = former.path.split() else { return Ok(None) };
        let (from, name) = (self.renamed.root().open_below(&above)?, sys::name_from_bytes(name)?);
        // Opening a device can do things.
        if from.stat(name, false)?.kind != Kind::File {
            return Ok(None);
        }
        let file = from.open_file(name, false)?;
        let inode = Dir::inode_of(&file)?;
        let there = inode.stat;
        if !self.renamed.known().proves(&former.row, &there) {
            return Ok(None);
        }
        let is_labelled = self.has_labels(&file, &there)?;
        // Who could write to it must be who the label lets write.
        let may_clone =
            self.renamed.clones.is_usable() && (is_labelled || sys::is_ours_alone(&file, &there));
        let may_link = self.renamed.links.is_usable() && is_labelled;
        if !(may_clone || may_link) || !self.has_content(&file, &there, &former, read_back)? {
            return Ok(None);
        }
        if may_clone && let Some(part) = self.clone_of(&file, &there, warnings)? {
            return Ok(Some(part));
        }
        // It is for one new name alone.
        if !may_link || former.fate.compare_exchange(GONE, TAKEN, Relaxed, Relaxed).is_err() {
            return Ok(None);
        }
        let Some(to) = &self.transfer.target.output.handle else { return Ok(None) };
        let part =
            match to.create_part_hard_link(self.transfer.target.output.volume.parts, &from, name) {
                Ok(part) => part,
                Err(error) => {
                    if matches!(
                        error.kind(),
                        io::ErrorKind::Unsupported | io::ErrorKind::PermissionDenied
                    ) {
                        self.renamed.links.set_unusable();
                    }
                    return Err(error);
                }
            };
        let volume = &self.transfer.target.output.volume;
        let is_it = |now: &Inode| {
            now.stat.id == there.id
                && now.stat.mtime == there.mtime
                && volume.is_same(&inode.known(), now)
        };
        let Some(now) = to.inode(&part).ok().filter(is_it) else {
            self.discard(&part, warnings);
            return Ok(None);
        };
        self.renamed.linked.store(true, Relaxed);
        Ok(Some((part, now)))
    }

    /// True if `file`, which is `there`, is read to have the recorded content: what has rotted gets no new name. Under
    /// `--verify` the part file is read back.
    fn has_content(
        &self,
        file: &File,
        there: &Stat,
        former: &FormerFile<'_>,
        read_back: &mut ReadBack,
    ) -> io::Result<bool> {
        let asked = &self.context.options.asked;
        if asked.verify {
            return Ok(true);
        }
        let is_to_stop = || self.context.control.stop.is_urgent();
        let hashed = read_back.hash(Medium::any(file), asked.algorithm, is_to_stop, |_| ())?;
        let Some(hashed) = hashed else { return Ok(false) };
        let is_as_it_was = Trace::of(&Dir::stat_file(file)?) == Trace::of(there);
        if is_as_it_was && hashed.digest != Some(former.row.digest) {
            // It is not what is recorded of it.
            self.renamed.known().refute(former.path.as_bytes(), there);
            return Ok(false);
        }
        Ok(is_as_it_was)
    }

    /// A clone of `file`, which is `there`, with the attributes of the source's.
    fn clone_of(
        &self,
        file: &File,
        there: &Stat,
        warnings: &mut Vec<Error>,
    ) -> io::Result<Option<SharedPart>> {
        let Transfer { target, .. } = self.transfer;
        let Some(dir) = &target.output.handle else { return Ok(None) };
        let attributes = self.attributes()?;
        let (part, name) = dir.create_part(target.output.volume.parts)?;
        let filled = self.fill(&part, file, there, &attributes, warnings);
        match filled.and_then(|is_filled| Ok((is_filled, Dir::inode_of(&part)?))) {
            Ok((true, made)) => Ok(Some((name, made))),
            other => {
                self.discard(&name, warnings);
                other.map(|_| None)
            }
        }
    }

    fn fill(
        &self,
        part: &File,
        file: &File,
        there: &Stat,
        attributes: &Attributes,
        warnings: &mut Vec<Error>,
    ) -> io::Result<bool> {
        let target = &self.transfer.target;
        match sys::clone_file(file, part)? {
            Cloned::Yes => {}
            Cloned::No { ever, .. } => {
                if ever {
                    self.renamed.clones.set_unusable();
                }
                return Ok(false);
            }
        }
        // What was cloned is what the record knows.
        if Trace::of(&Dir::stat_file(file)?) != Trace::of(there) {
            return Ok(false);
        }
        if target.output.gives_lists()
            && let Err(error) = attributes.shed_lists(part)
        {
            warnings.push(Error::io("set the permissions of", target.path(), error));
        }
        attributes.apply_to_new(
            part,
            &target.entry.stat,
            target.output.gid,
            None,
            |deed, error| {
                warnings.push(Error::io(deed, target.path(), error));
            },
        );
        if let Durability::Grouped { at_once } = self.context.options.durability
            && !(at_once && target.output.volume.with_root)
        {
            sys::persist_file(part)?;
        }
        Ok(true)
    }

    /// True if `file`, which is `there`, has the permissions, the owner and the attributes of the source's, as far as
    /// the output can hold them: a hard link has no others.
    fn has_labels(&self, file: &File, there: &Stat) -> io::Result<bool> {
        let Transfer { target, .. } = self.transfer;
        let (stat, output) = (&target.entry.stat, &target.output);
        if !Attributes::may_differ(there, stat) {
            return Ok(true);
        }
        let attributes = self.attributes()?;
        let can_hold = |dir: &Dir| output.volume.can_hold(dir, &attributes, stat);
        Ok(attributes.are_all_at(there, file, stat) || !output.handle.as_ref().is_none_or(can_hold))
    }

    /// Those of the source's file.
    fn attributes(&self) -> io::Result<Attributes> {
        let Transfer { source, target } = self.transfer;
        let file = source.handle.open_file(&target.entry.name, self.context.options.follow)?;
        Attributes::read(&file)
    }

    /// Removes a part file that is of no use.
    fn discard(&self, part: &OsStr, warnings: &mut Vec<Error>) {
        let output = &self.transfer.target.output;
        let removed = output.handle.as_ref().map_or(Ok(()), |dir| dir.remove(part));
        if let Err(error) = removed {
            warnings.push(Error::io("remove the part file", output.path_of(part), error));
        }
    }
}

// Files that have another name at the source than at the output: they are shared there instead of written again.
//
// A record says which content stood under a name that the source no longer has. A file of the source that is new and
// has the same size and time may be that one, so it is read; only an equal digest makes it so. Then it becomes a clone
// of the file at the output, or a further hard link to it, under a part name, and goes the way of every copy from
// there: synced, read back where that is asked for, published, recorded. The old name is not touched.

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
struct GoneFiles {
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
    fn of(known: &Knowledge, is_to_stop: &dyn Fn() -> bool) -> Self {
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

    /// The slots with this `key`, each with the fate of its file.
    fn alike<K: Ord>(
        &self,
        key_of: impl Fn(&GoneSlot) -> K,
        key: K,
    ) -> impl Iterator<Item = (&GoneSlot, &AtomicU8)> {
        let first = self.slots.partition_point(|slot| key_of(slot) < key);
        let all = self.slots.iter().zip(&self.fates).skip(first);
        all.take_while(move |(slot, _)| key_of(slot) == key).take(MOST_ALIKE)
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
struct FormerFile<'a> {
    path: RelPath,
    row: Row,
    fate: &'a AtomicU8,
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
    fn root(&self) -> &Dir {
        match &self.tree {
            RecordedTree::Output(root, _) => root,
            RecordedTree::Other(tree) => &tree.root,
        }
    }

    /// True if a file that looked like this one may have left the source.
    pub fn may_have(&self, stat: &Stat) -> bool {
        let key = size_and_time_key(stat.size, stat.mtime);
        let alike = || self.gone().alike(|slot| slot.size_and_time, key);
        stat.size > 0 && alike().any(|(slot, fate)| self.is_gone(slot, fate))
    }

    /// Tries `share` on each file that looked like this one, has this digest and left the source, until one can be
    /// shared; gives its result.
    fn find<T>(
        &self,
        stat: &Stat,
        digest: &Digest,
        mut share: impl FnMut(FormerFile<'_>) -> Option<T>,
    ) -> Option<T> {
        let key = (size_and_time_key(stat.size, stat.mtime), beginning(digest));
        let mut alike = self.gone().alike(|slot| (slot.size_and_time, slot.digest), key);
        alike.find_map(|(slot, fate)| {
            if !self.is_gone(slot, fate) {
                return None;
            }
            let (path, row) = self.known().recorded(slot.at)?;
            let is_it = row.digest == *digest
                && row.trace.size == stat.size
                && stat.mtime == row.given.unwrap_or(row.trace.mtime);
            is_it.then(|| share(FormerFile { path, row, fate })).flatten()
        })
    }

    fn is_gone(&self, slot: &GoneSlot, fate: &AtomicU8) -> bool {
        if fate.load(Relaxed) == UNKNOWN {
            let found = if self.has_left(slot.at) { GONE } else { IN_SOURCE };
            // Another thread may have found the same.
            let _ = fate.compare_exchange(UNKNOWN, found, Relaxed, Relaxed);
        }
        fate.load(Relaxed) != IN_SOURCE
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
        looked.err().as_ref().is_some_and(is_absent)
    }
}
