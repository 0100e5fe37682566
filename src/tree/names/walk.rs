//! The walk over a list of names. They come in the order of a walk, so each directory on the way is entered once, gets
//! its attributes once, and memory does not grow with the list.

use std::{collections::HashMap, ffi::OsStr, ffi::OsString, ops::ControlFlow, sync::Arc};

use serde::{Deserialize, Serialize};

use crate::{
    error::Deed, error::Error, error::Result, error::is_absent, hash::Algorithm, path::RelPath,
    path::Shown, state::private_dir::NAME, state::private_dir::TRASH, sys, sys::Attributes,
    sys::ListedEntry, sys::stat::Identity, sys::stat::Kind, sys::stat::Stat, sys::stat::Time,
    tree::Batch, tree::ChangedFiles, tree::Classifier, tree::LastDir, tree::NameList,
    tree::PathRecord, tree::SourceDir, tree::SourceEntry, tree::Unclassified, tree::Walk,
    tree::WalkEvent, tree::WalkItem, tree::classify::Subdir, tree::found::Emit,
    tree::hand_over::OPEN_TO_OTHERS, tree::hand_over::lets_others_in, tree::names::NamedEntry,
    tree::names::is_within, tree::walk::Defer, tree::walk::Descent, tree::walk::NotEntered,
};

/// Number of names of one directory that are looked at together.
const TOGETHER: usize = 4096;

/// Where in the list the walk is.
#[derive(Default)]
struct Position {
    /// The directory whose names come, if any came.
    dir: Option<Vec<u8>>,
    /// Names in it that are not looked at yet, …
    waiting: Vec<ListedEntry>,
    /// … and what they were when they were planned.
    planned: HashMap<Arc<OsStr>, PlannedStat>,
    /// Files in it that need no look, because the plan has what it would tell.
    told: Vec<SourceEntry>,
    /// True if that directory takes each name of another letter case for one of its own.
    is_exact: bool,
    /// A directory that was named: all that is in it is done.
    whole: Option<Vec<u8>>,
    /// A directory on the way that the walk is not in, …
    closed: Option<Vec<u8>>,
    /// … and why, if no filter leaves it out.
    why: Option<String>,
}

impl Position {
    /// The name that the directory which the walk is in lists for the entry `name`, if it is another one.
    fn other_name(&mut self, name: &OsStr, descent: &Descent) -> Option<OsString> {
        if self.is_exact {
            return None;
        }
        match descent.stack.last()?.source.handle.listed_name(name) {
            Ok(Some(own)) => Some(own).filter(|own| own != name),
            Ok(None) => {
                self.is_exact = true;
                None
            }
            // The look at it will tell.
            Err(_) => None,
        }
    }
}

/// Why a name is not taken by which the source has something of another name: the copy would be called otherwise, and
/// be copied once more under its own.
fn is_listed_as(own: &OsStr) -> String {
    let own = Shown::path(own.as_ref());
    format!("the source has it as {own}; a list must have each name as it is there")
}

impl Walk<'_> {
    /// Hands on the entries that `names` has, directories with all that is in them. `descent` is at the root.
    pub(crate) fn walk_names(
        &self,
        descent: &mut Descent,
        names: &NameList,
        emit: &mut impl Emit,
        defer: &mut Option<Defer<'_>>,
    ) -> ControlFlow<()> {
        let mut reader = names.reader();
        let (mut position, mut last) = (Position::default(), LastDir::default());
        let root = descent.stack.first().map(|root| Arc::clone(&root.source));
        let root = root.as_deref();
        self.clean_up_beside(descent, emit)?;
        loop {
            let NamedEntry { path: name, planned } = match reader.next_name() {
                Ok(Some(name)) => name,
                Ok(None) => break,
                Err(error) => {
                    emit.item(WalkItem::Failed(Error::io(
                        "read the names of",
                        descent.path(),
                        error,
                    )))?;
                    break;
                }
            };
            if name.is_empty() {
                self.walk_down_to(0, descent, emit, defer)?;
                position.whole = Some(Vec::new());
                continue;
            }
            let (dir, base) = split(name);
            let is_other = position.dir.as_deref() != Some(dir);
            if is_other || position.waiting.len() + position.told.len() >= TOGETHER {
                self.look_at_waiting(&mut position, names, descent, emit, defer)?;
            }
            if position.whole.as_ref().is_some_and(|whole| is_within(name, whole)) {
                self.tell_missing(root, name, &mut last, emit)?;
                continue;
            }
            if is_other {
                self.go_to(dir, &mut position, descent, emit)?;
                let is_in = position.closed.is_none();
                if let Some(why) =
                    planned.filter(|_| is_in).and_then(|it| not_planned(&it, descent))
                {
                    (position.closed, position.why) = (Some(dir.to_vec()), Some(why));
                }
            }
            let told = planned.and_then(|planned| self.told(&planned, descent));
            if let (Some(stat), None, Ok(base)) =
                (told, &position.closed, sys::name_from_bytes(base))
            {
                position.told.push(SourceEntry { name: base.into(), stat });
                continue;
            }
            Self::take(name, base, &mut position, descent, emit)?;
            if position.closed.is_none()
                && let (Some(planned), Some(last)) = (planned, position.waiting.last_mut())
            {
                last.ino = planned.ino;
                position.planned.insert(Arc::clone(&last.name), planned);
            }
        }
        self.look_at_waiting(&mut position, names, descent, emit, defer)?;
        while !descent.stack.is_empty() {
            self.leave(descent, emit)?;
        }
        ControlFlow::Continue(())
    }

    /// Tells of a name that is not there, in a directory that is copied as a whole.
    fn tell_missing(
        &self,
        root: Option<&SourceDir>,
        name: &[u8],
        last: &mut LastDir,
        emit: &mut impl Emit,
    ) -> ControlFlow<()> {
        let (Some(root), Ok(path)) = (root, RelPath::parse(name)) else {
            return ControlFlow::Continue(());
        };
        match last.stat(&root.handle, &path, self.classifier.selection.follow_links) {
            Err(error) if is_absent(&error) => {
                emit.item(WalkItem::Failed(Error::io("look at", root.path_below(&path), error)))
            }
            _ => ControlFlow::Continue(()),
        }
    }

    /// The planned metadata of a file, if it will do: the file is small, so that reading it twice costs little if it is
    /// another by now, and the output has nothing that it would be held against.
    fn told(&self, planned: &PlannedStat, descent: &Descent) -> Option<Stat> {
        let top = descent.stack.last()?;
        let Classifier { selection, block_size } = self.classifier;
        let is_small = planned.size <= block_size;
        let may =
            top.output.bare && is_small && !selection.follow_links && selection.filter.is_empty();
        planned.stat(top.id.dev).filter(|_| may)
    }

    /// Takes a name in the directory that the walk is in; where that could not be entered, the name is told.
    fn take(
        name: &[u8],
        base: &[u8],
        position: &mut Position,
        descent: &Descent,
        emit: &mut impl Emit,
    ) -> ControlFlow<()> {
        let path = || {
            RelPath::parse(name).map_or_else(|_| descent.path(), |name| descent.path_below(&name))
        };
        match (&position.closed, &position.why, sys::name_from_bytes(base)) {
            (Some(_), None, _) => ControlFlow::Continue(()),
            (Some(_), Some(why), _) => {
                emit.item(WalkItem::Failed(Error::finding("copy", path(), why.clone())))
            }
            (None, _, Ok(base)) => {
                if let Some(own) = position.other_name(base, descent) {
                    let refused = Error::finding("copy", path(), is_listed_as(&own));
                    return emit.item(WalkItem::Failed(refused));
                }
                position.waiting.push(ListedEntry { name: base.into(), kind: None, ino: 0 });
                ControlFlow::Continue(())
            }
            (None, _, Err(error)) => emit.item(WalkItem::Failed(Error::io("copy", path(), error))),
        }
    }

    /// Looks at the names that wait in the directory that the walk is in, and walks the directories among them.
    fn look_at_waiting(
        &self,
        position: &mut Position,
        names: &NameList,
        descent: &mut Descent,
        emit: &mut impl Emit,
        defer: &mut Option<Defer<'_>>,
    ) -> ControlFlow<()> {
        let planned = std::mem::take(&mut position.planned);
        let mut waiting = std::mem::take(&mut position.waiting);
        let mut told = std::mem::take(&mut position.told);
        let last = waiting.last().map(|last| Arc::clone(&last.name));
        let levels = descent.stack.len();
        let Some(top) = descent.stack.last_mut() else { return ControlFlow::Continue(()) };
        if !told.is_empty() {
            // As a walk that lists them takes them.
            told.sort_unstable_by_key(|entry| entry.stat.id.ino);
            let here = Unclassified::new(&top.source, &top.output, Vec::new(), top.inclusion);
            self.classifier.hand_on(&here, told, &mut top.memory, emit)?;
        }
        let Some(last) = last else { return ControlFlow::Continue(()) };
        if top.source.rel.is_root() {
            self.pass_over_private(&top.source, &top.output, &mut waiting, emit)?;
        }
        let entries = Unclassified::new(&top.source, &top.output, waiting, top.inclusion);
        let mut noting = |found: WalkEvent| match (found, names.changed()) {
            (WalkEvent::Item(WalkItem::Special(source, listed, kind)), Some(_)) => {
                let finding = format!("it has become {}{SINCE}", kind.name());
                let path = source.path_of(&listed.name);
                emit.item(WalkItem::Failed(Error::finding("copy", path, finding)))
            }
            (found, changed) => {
                if let (WalkEvent::Files(batch), Some(changed)) = (&found, changed) {
                    note_changed(batch, &planned, changed);
                }
                emit(found)
            }
        };
        let subdirs =
            self.classifier.classify(entries, &mut top.memory, &mut descent.links, &mut noting)?;
        if names.changed().is_some() {
            return subdirs.into_iter().try_for_each(|Subdir { listed, .. }| {
                let finding = format!("it has become a directory{SINCE}");
                let path = top.source.path_of(&listed.name);
                emit.item(WalkItem::Failed(Error::finding("copy", path, finding)))
            });
        }
        if subdirs.iter().any(|subdir| subdir.listed.name == last) {
            position.whole = Some(top.source.rel.join(&last).as_bytes().to_vec());
        }
        for subdir in subdirs {
            match self.enter(&descent.stack, &subdir, emit) {
                Ok(frame) => descent.stack.push(frame),
                Err(why) => {
                    emit.item(why.of(&descent.stack, &subdir))?;
                    continue;
                }
            }
            self.take_leftovers(descent, emit)?;
            self.walk_down_to(levels, descent, emit, defer)?;
        }
        ControlFlow::Continue(())
    }

    /// Leaves directories and enters others until the walk is in `dir`, or where it cannot go on.
    fn go_to(
        &self,
        dir: &[u8],
        position: &mut Position,
        descent: &mut Descent,
        emit: &mut impl Emit,
    ) -> ControlFlow<()> {
        (position.dir, position.is_exact) = (Some(dir.to_vec()), false);
        if position.closed.as_ref().is_some_and(|closed| is_within(dir, closed)) {
            return ControlFlow::Continue(());
        }
        (position.closed, position.why) = (None, None);
        let here = |descent: &Descent| {
            descent.stack.last().map(|top| top.source.rel.path().as_bytes().to_vec())
        };
        while descent.stack.len() > 1 && here(descent).is_some_and(|here| !is_within(dir, &here)) {
            self.leave(descent, emit)?;
        }
        let mut at = here(descent).map_or(0, |here| here.len());
        while at < dir.len() {
            let start = if at == 0 { 0 } else { at + 1 };
            at = memchr::memchr(b'/', &dir[start..]).map_or(dir.len(), |slash| start + slash);
            match self.enter_named(&dir[start..at], descent, emit) {
                Ok(true) => self.clean_up_beside(descent, emit)?,
                Ok(false) => position.closed = Some(dir[..at].to_vec()),
                Err(error) => {
                    (position.closed, position.why) =
                        (Some(dir[..at].to_vec()), Some(error.to_string()));
                }
            }
            if position.closed.is_some() {
                break;
            }
        }
        ControlFlow::Continue(())
    }

    /// Enters the directory `name` in the one that the walk is in; false if a filter leaves it out.
    fn enter_named(
        &self,
        name: &[u8],
        descent: &mut Descent,
        emit: &mut impl Emit,
    ) -> Result<bool> {
        let is_root = descent.stack.len() == 1;
        let path = descent.path();
        let Some(top) = descent.stack.last_mut() else { return Ok(false) };
        let name = sys::name_from_bytes(name).deed("enter", &path)?;
        if is_root && (name == NAME || name == TRASH) {
            let finding = "it is what runs keep for themselves, and no part of a source";
            return Err(Error::finding("copy", top.source.path_of(name), finding));
        }
        if let Ok(Some(own)) = top.source.handle.listed_name(name)
            && own != name
        {
            return Err(Error::finding("copy", top.source.path_of(name), is_listed_as(&own)));
        }
        let listed = ListedEntry { name: name.into(), kind: None, ino: 0 };
        let here = Unclassified::new(&top.source, &top.output, Vec::new(), top.inclusion);
        let Some(subdir) = self.classifier.on_the_way(&here, &mut top.memory, listed)? else {
            return Ok(false);
        };
        let output = Arc::clone(&top.output);
        match self.enter(&descent.stack, &subdir, emit) {
            Ok(frame) => descent.stack.push(frame),
            Err(NotEntered::Failed(error)) => return Err(error),
            Err(NotEntered::Left(why)) => {
                return Err(Error::finding("copy into", output.path_of(name), why));
            }
        }
        Ok(true)
    }

    /// Cleans up in a directory of which not all is copied: beginnings of files that may not be this run's stay.
    fn clean_up_beside(&self, descent: &mut Descent, emit: &mut impl Emit) -> ControlFlow<()> {
        let Descent { stack, reader, .. } = descent;
        match stack.last() {
            Some(top) => self.clean_up(&top.source, &top.output, reader, emit).map_continue(drop),
            None => ControlFlow::Continue(()),
        }
    }
}

/// The end of what is said of an entry that is another than when it was planned.
pub const SINCE: &str = " since the plan was made: make a new plan";

/// Why files that were `planned` are not copied from the directory that the walk is in to its counterpart: one of
/// these is not the one that was planned, or has another label.
fn not_planned(planned: &PlannedStat, descent: &Descent) -> Option<String> {
    let top = descent.stack.last()?;
    if let Some(why) = top.output.ways.difference(&planned.ways) {
        return Some(why.to_owned());
    }
    if top.output.rel.is_root() {
        return None;
    }
    // A directory that is removed leaves its inode number to the next.
    match top.source.handle.stat_self().and_then(|source| lets_others_in(&top.output, &source)) {
        Ok(false) => None,
        Ok(true) => Some(OPEN_TO_OTHERS.to_owned()),
        Err(error) => Some(format!("its directory cannot be looked at: {error}")),
    }
}

/// Notes the files that are not what they were when they were planned.
fn note_changed(batch: &Batch, planned: &HashMap<Arc<OsStr>, PlannedStat>, changed: &ChangedFiles) {
    for SourceEntry { name, stat } in &batch.files {
        if planned.get(name).is_some_and(|planned| !planned.is(stat)) {
            changed.note(&batch.source.rel.join(name), stat.size);
        }
    }
}

/// The directory and the name in it.
fn split(name: &[u8]) -> (&[u8], &[u8]) {
    match memchr::memrchr(b'/', name) {
        Some(slash) => (&name[..slash], &name[slash + 1..]),
        None => (&name[..0], name),
    }
}

// The metadata of a file in a plan: the words of a record of a shard's list.
//
// Where it says all that a copy asks of the source, a shard need not ask again: it opens the file, and whether it is
// still what was planned shows by the look at it when it was read, which every copy takes.

/// The metadata of a file in a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlannedStat {
    pub size: u64,
    pub mtime: Time,
    pub ino: u64,
    /// The ways to its directory.
    pub ways: Ways,
    labels: Option<PlannedLabels>,
}

/// The rest of what a copy asks, of a file that has one name and is on its directory's file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct PlannedLabels {
    mode: u32,
    uid: u32,
    gid: u32,
    ctime: Time,
    is_sparse: bool,
}

impl PlannedStat {
    /// The metadata of a file in a directory on the file system `dev`, to which these `ways` lead.
    pub fn of(stat: &Stat, dev: Option<u64>, ways: Ways) -> Self {
        let Stat { size, mtime, ctime, id, mode, uid, gid, .. } = *stat;
        let labels = PlannedLabels { mode, uid, gid, ctime, is_sparse: stat.is_sparse() };
        // The numbers of file systems differ from machine to machine, so none is written down.
        let is_told = stat.links == 1 && dev == Some(id.dev);
        Self { size, mtime, ino: id.ino, ways, labels: is_told.then_some(labels) }
    }

    /// True if a file is as it was planned, as far as its content goes.
    pub fn is(&self, stat: &Stat) -> bool {
        (self.size, self.mtime, self.ino) == (stat.size, stat.mtime, stat.id.ino)
    }

    /// The file's metadata, if the plan has all of it; its directory is on the file system `dev`.
    pub fn stat(&self, dev: u64) -> Option<Stat> {
        let Self { size, mtime, ino, labels, .. } = *self;
        let PlannedLabels { mode, uid, gid, ctime, is_sparse } = labels?;
        let allocated = if is_sparse { 0 } else { size };
        let (kind, id) = (Kind::File, Identity { dev, ino });
        Some(Stat { kind, size, allocated, mtime, ctime, id, links: 1, mode, uid, gid })
    }

    /// Appends the words of a plan about the file: numbers in JSON, the size first.
    pub fn write(&self, out: &mut Vec<u8>) {
        let Self { size, mtime, ino, ways, labels } = self;
        let pair = |time: &Time| (time.secs, time.nanos);
        let labels = labels.as_ref().map(|PlannedLabels { mode, uid, gid, ctime, is_sparse }| {
            // The same as of the content, for most files that were made where they are.
            let ctime = Some(ctime).filter(|ctime| *ctime != mtime).map(pair);
            (mode, uid, gid, ctime, is_sparse)
        });
        let ways = [ways.source, ways.output];
        // Writing to memory does not fail.
        let _ = serde_json::to_writer(out, &(size, pair(mtime), ino, labels, ways));
    }

    /// Takes such words apart; `None` if they are none that [`write`](Self::write) makes.
    pub fn parse(words: &[u8]) -> Option<Self> {
        let (size, mtime, ino, labels, [source, output]): Words =
            serde_json::from_slice(words).ok()?;
        let time = |(secs, nanos)| (nanos < 1_000_000_000).then_some(Time { secs, nanos });
        let mtime = time(mtime)?;
        let label = |(mode, uid, gid, ctime, is_sparse): LabelWords| {
            let ctime = ctime.map_or(Some(mtime), time)?;
            (mode <= 0o7777).then_some(PlannedLabels { mode, uid, gid, ctime, is_sparse })
        };
        let labels = labels.map_or(Some(None), |it| label(it).map(Some))?;
        Some(Self { size, mtime, ino, ways: Ways::of_plan(source, output), labels })
    }
}

/// Size, modification time, inode number, labels, ways; and of the labels permissions, owner, group, change time unless
/// it is the same as the other, and whether the file is sparse.
type Words = (u64, (i64, u32), u64, Option<LabelWords>, [Way; 2]);
type LabelWords = (u32, u32, u32, Option<(i64, u32)>, bool);

/// A record has at most so many bytes before its path.
pub const MOST_BEFORE_PATH: usize = 200;

/// The size and the path that a record of a plan states; the rest of it is not looked at.
pub fn planned_size(record: &[u8]) -> Option<(u64, &[u8])> {
    let PathRecord { words, path } = PathRecord::of(record);
    let words = words.strip_prefix(b"[")?;
    // The number is short, so a search for what ends it would cost more than to look at every byte.
    let end = words.iter().position(|&byte| byte == b',').filter(|end| *end > 0)?;
    let size = words[..end].iter().try_fold(0_u64, |size, &byte| {
        let digit = Some(byte.wrapping_sub(b'0')).filter(|digit| *digit <= 9)?;
        size.checked_mul(10)?.checked_add(digit.into())
    })?;
    Some((size, path))
}

// The directories on the way from a root down to one, as a number that tells whether an earlier walk met the same.
//
// A plan notes what directories are to be given at the output, and shards fill them later. Meanwhile whoever owns the
// directory that one is in can put another in its place, on either side: the output's would get the content of the
// one with the label of the other, or be read while it is filled. So a plan notes the way to each file, and shards and
// the end of the plan hold theirs against it, by the directories that they have open.

/// A way down, on one side.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Way(u64);

/// The ways from both roots down to a directory of the source and to its counterpart at the output.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ways {
    source: Way,
    output: Way,
    /// True if not everyone may enter and list each directory of the source on the way. A plan need not say it: the
    /// permissions are in the number.
    #[serde(skip)]
    is_closed: bool,
}

const OTHER_SOURCE: &str = "at the source its directory, or one above it, is not the one that was planned, or has \
                            another owner or other permissions since: make a new plan";

const OTHER_OUTPUT: &str = "at the output its directory, or one above it, is not the one that the plan had there: make a \
                            new plan";

impl Way {
    /// Down this way, and into a directory that is known by these numbers.
    fn into_dir(self, dir: [u64; 4]) -> Self {
        let mut hasher = Algorithm::Blake3.start();
        [self.0].iter().chain(&dir).for_each(|number| hasher.update(&number.to_le_bytes()));
        let digest = hasher.finish();
        let start = digest.as_ref().and_then(|digest| digest.bytes().first_chunk());
        Self(start.map_or(0, |start| u64::from_le_bytes(*start)))
    }
}

impl Ways {
    /// The ways that a plan has.
    const fn of_plan(source: Way, output: Way) -> Self {
        Self { source, output, is_closed: false }
    }

    /// Into the directory of the source that is `dir`. It is known by its owner and permissions too, because it is
    /// copied with them. The numbers of file systems differ from machine to machine, so they are left out.
    pub fn into_source(self, dir: &Stat) -> Self {
        let known_by = [dir.id.ino, dir.mode.into(), dir.uid.into(), dir.gid.into()];
        let is_closed = self.is_closed || !dir.is_open_to_everyone();
        Self { source: self.source.into_dir(known_by), is_closed, ..self }
    }

    /// … whose attributes are these: an access list among them may keep somebody out.
    pub fn with_lists(self, lists: &Attributes) -> Self {
        Self { is_closed: self.is_closed || lists.deny_somebody(), ..self }
    }

    /// Into the directory of the output that is `dir`. Its label is set when all is in it, so that is left out.
    pub fn into_output(self, dir: &Stat) -> Self {
        Self { output: self.output.into_dir([dir.id.ino, 0, 0, 0]), ..self }
    }

    /// … which is the `root` of the output. What the user lets everyone into is closed to nobody.
    pub fn into_root(self, root: &Stat) -> Self {
        let is_closed = self.is_closed && !root.is_open_to_everyone();
        Self { is_closed, ..self.into_output(root) }
    }

    /// True if not everyone may go down the way at the source.
    pub fn are_closed(&self) -> bool {
        self.is_closed
    }

    /// The difference of these ways from `planned`, those of a plan; `None` if there is none.
    pub fn difference(&self, planned: &Self) -> Option<&'static str> {
        self.difference_at_source(planned).or_else(|| self.difference_at_output(planned))
    }

    /// The same of the source alone.
    pub fn difference_at_source(&self, planned: &Self) -> Option<&'static str> {
        (self.source != planned.source).then_some(OTHER_SOURCE)
    }

    /// The same of the output alone.
    pub fn difference_at_output(&self, planned: &Self) -> Option<&'static str> {
        (self.output != planned.output).then_some(OTHER_OUTPUT)
    }
}

#[cfg(test)]
mod planned_tests {
    use super::*;

    fn stat(size: u64, allocated: u64, mtime: Time, ctime: Time) -> Stat {
        let id = Identity { dev: 7, ino: u64::MAX };
        let (kind, links, mode, uid, gid) = (Kind::File, 1, 0o4755, u32::MAX, 0);
        Stat { kind, size, allocated, mtime, ctime, id, links, mode, uid, gid }
    }

    #[test]
    fn records_come_back() {
        let time = |secs, nanos| Time { secs, nanos };
        let ways = Ways::of_plan(Way(u64::MAX), Way(0));
        for (size, allocated) in [(0, 0), (5, 4096), (u64::MAX, 0)] {
            for mtime in [time(0, 0), time(-5, 7), time(i64::MIN, 999_999_999), time(i64::MAX, 1)] {
                for ctime in [mtime, time(1, 2)] {
                    let stat = stat(size, allocated, mtime, ctime);
                    for (dev, links) in [(Some(7), 1), (Some(8), 1), (None, 1), (Some(7), 2)] {
                        let planned = PlannedStat::of(&Stat { links, ..stat }, dev, ways);
                        let mut record = Vec::new();
                        planned.write(&mut record);
                        assert_eq!(PlannedStat::parse(&record), Some(planned));
                        let path = &b"a b/c\n d"[..];
                        record.extend_from_slice(&[b"\n", path].concat());
                        assert_eq!(planned_size(&record), Some((size, path)));
                        assert!(planned.is(&stat) && record.len() - path.len() <= MOST_BEFORE_PATH);
                        let told = planned.stat(9);
                        assert_eq!(told.is_some(), dev == Some(7) && links == 1);
                        if let Some(told) = told {
                            let id = Identity { dev: 9, ..stat.id };
                            assert_eq!(Stat { id, ..stat }.change(&told), None);
                            assert_eq!(told.is_sparse(), stat.is_sparse());
                            let labels = |stat: Stat| (stat.mode, stat.uid, stat.gid, stat.links);
                            assert_eq!(labels(told), labels(stat));
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn what_is_no_record_is_refused() {
        for (words, is_one) in [
            ("[1,[2,3],4,null,[1,2]]", true),
            ("[1,[-2,3],4,[420,0,0,[5,6],true],[1,2]]", true),
            ("", false),
            ("[1,[2,3],4,null,[1]]", false),
            ("[1,[2,3],4,null]", false),
            ("[-1,[2,3],4,null,[1,2]]", false),
            ("[1,[2,1000000000],4,null,[1,2]]", false),
            ("[1,[2,3],\"x\",null,[1,2]]", false),
            ("[1,[2,3],4,[99999,0,0,null,false],[1,2]]", false),
            ("[1,[2,3],4,[420,0,0,[5,1000000000],false],[1,2]]", false),
            ("[1,[2,3],4,null,[1,2]] ../x", false),
        ] {
            assert_eq!(PlannedStat::parse(words.as_bytes()).is_some(), is_one, "{words:?}");
        }
    }
}

#[cfg(test)]
mod way_tests {
    use super::*;

    #[test]
    fn each_directory_on_the_way_tells() {
        let root = Way::default().into_dir([2, 0o755, 0, 0]);
        let ways = [
            root,
            root.into_dir([3, 0o700, 1, 1]),
            root.into_dir([3, 0o755, 1, 1]),
            root.into_dir([3, 0o700, 2, 1]),
            root.into_dir([3, 0o700, 1, 1]).into_dir([4, 0o755, 0, 0]),
            root.into_dir([3, 0o755, 1, 1]).into_dir([4, 0o755, 0, 0]),
        ];
        for (at, way) in ways.iter().enumerate() {
            assert!(!ways[..at].contains(way) && *way != Way::default());
        }
    }
}
