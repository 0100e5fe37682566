//! Packing files into shards that cost about the same: bytes and files both count, each as its share of what a shard
//! may have. A directory stays in one shard unless it is larger than one.

use std::thread::{Builder, scope};
use std::{cmp::Ordering, collections::BTreeMap, fs::File, io, ops::ControlFlow, sync::Arc};

use crossbeam_channel::{Receiver, Sender, bounded};
use serde::{Deserialize, Serialize};

use crate::{
    cluster::PlanDir, cluster::attempt, cluster::plan_dir::SHARDS, error::Error, error::Result,
    hash::Digest, manifest::SummedWriter, manifest::Trailer, manifest::summed::SUM, path::RelPath,
    staged::write_whole, sys::stat::Identity, sys::stat::Kind, sys::stat::Stat, sys::stat::Time,
    tree::OutputDir, tree::PathRecord, tree::PlannedStat, tree::RecordReader, tree::Sorter,
    tree::SourceDir, tree::SourceEntry, tree::Unclassified, tree::Walk, tree::WalkEvent,
    tree::Ways, tree::by_words, tree::names::compare, tree::names::walk::MOST_BEFORE_PATH,
};

/// A full shard: its filling is counted in these parts.
const FULL: u64 = 1 << 20;

/// Largest excess over a full shard, for the sake of a directory.
const TO_SPARE: u64 = FULL / 4;

/// The most that the names of a shard take; bytes. A shard's list is sorted in memory.
const MOST_NAMES: usize = 16 << 20;

/// Largest size of a shard.
#[derive(Clone, Copy, Debug)]
pub struct ShardSize {
    pub bytes: u64,
    pub files: u64,
}

/// A shard that is not full yet.
#[derive(Default)]
struct OpenShard {
    number: u32,
    text: Vec<u8>,
    /// Where each record begins, where its path does, and where it ends.
    spans: Vec<[u32; 3]>,
    bytes: u64,
    filled: u64,
    /// The directory of the last file.
    dir: Vec<u8>,
}

/// Packs files into shards, whose lists appear as they are full.
pub struct Packer<'a> {
    plan: &'a PlanDir,
    size: ShardSize,
    open: OpenShard,
    next: u32,
    pub files: u64,
    pub bytes: u64,
    /// The sums of the lists of all shards.
    sums: BTreeMap<u32, Digest>,
}

/// The totals of packing.
#[derive(Clone, Debug)]
pub struct Packed {
    pub shards: u32,
    pub files: u64,
    pub bytes: u64,
    pub sum: String,
}

/// Sums up the sums of all lists in the order of their numbers.
pub fn sum_of_all(sums: impl IntoIterator<Item = Digest>) -> String {
    let mut hasher = SUM.start();
    sums.into_iter().for_each(|sum| hasher.update(sum.bytes()));
    hasher.finish().map(|sum| sum.to_string()).unwrap_or_default()
}

impl<'a> Packer<'a> {
    pub fn new(plan: &'a PlanDir, size: ShardSize) -> Self {
        let size = ShardSize { bytes: size.bytes.max(1), files: size.files.max(1) };
        let (open, sums) = (OpenShard::default(), BTreeMap::new());
        Self { plan, size, open, next: 1, files: 0, bytes: 0, sums }
    }

    /// Adds a file of the directory with the counterpart `dir`; returns the number of its shard.
    pub fn add(&mut self, dir: &OutputDir, entry: &SourceEntry) -> Result<u32> {
        let stat = &entry.stat;
        let dev = dir.finish.as_ref().map(|(stat, _)| stat.id.dev);
        let planned = PlannedStat::of(stat, dev, dir.ways);
        let cost = self.cost(stat.size);
        self.files += 1;
        self.bytes = self.bytes.saturating_add(stat.size);
        let mut path = Vec::new();
        dir.rel.join_into(&entry.name, &mut path);
        let dir_len = memchr::memrchr(b'/', &path).unwrap_or(0);
        if cost >= FULL {
            // A shard of its own, so that the others are not late.
            let mut own = OpenShard { number: self.take_number(), ..OpenShard::default() };
            own.push(planned, &path, cost);
            own.bytes = stat.size;
            let number = own.number;
            self.write(own)?;
            return Ok(number);
        }
        let most = if self.open.dir == path[..dir_len] { FULL + TO_SPARE } else { FULL };
        let room = self.open.text.len() + path.len() + MOST_BEFORE_PATH <= MOST_NAMES;
        if !self.open.spans.is_empty() && (self.open.filled + cost > most || !room) {
            self.close()?;
        }
        self.open.dir.clear();
        self.open.dir.extend_from_slice(&path[..dir_len]);
        self.open.bytes = self.open.bytes.saturating_add(stat.size);
        self.open.push(planned, &path, cost);
        Ok(self.open.number)
    }

    fn cost(&self, size: u64) -> u64 {
        let part = |value: u64, whole: u64| {
            let part = u128::from(value) * u128::from(FULL) / u128::from(whole);
            u64::try_from(part).unwrap_or(u64::MAX / 4).min(u64::MAX / 4)
        };
        part(size, self.size.bytes) + part(1, self.size.files)
    }

    fn take_number(&mut self) -> u32 {
        let number = self.next;
        self.next += 1;
        number
    }

    /// Writes the shard that is open, and opens another.
    fn close(&mut self) -> Result<()> {
        let number = self.take_number();
        let full = std::mem::replace(&mut self.open, OpenShard { number, ..OpenShard::default() });
        self.write(full)
    }

    fn write(&mut self, shard: OpenShard) -> Result<()> {
        let (plan, number, cost) = (self.plan, shard.number, shard.filled);
        let Trailer { sum, .. } = shard.write(plan)?;
        self.sums.insert(number, sum);
        attempt::put_out(plan, number, cost)
    }

    /// Writes what is left. A plan without files has one shard with nothing in it.
    pub fn finish(mut self) -> Result<Packed> {
        let open = std::mem::take(&mut self.open);
        self.write(open)?;
        let Self { next: shards, files, bytes, sums, .. } = self;
        Ok(Packed { shards, files, bytes, sum: sum_of_all(sums.into_values()) })
    }
}

impl OpenShard {
    fn push(&mut self, planned: PlannedStat, path: &[u8], cost: u64) {
        let start = self.text.len();
        planned.write(&mut self.text);
        self.text.push(b'\n');
        self.text.extend_from_slice(path);
        let end = self.text.len();
        let span = [start, end - path.len(), end].map(|at| at as u32);
        self.spans.push(span);
        self.filled += cost;
    }

    /// Writes the list, whose name appears when it is whole.
    fn write(mut self, plan: &PlanDir) -> Result<Trailer> {
        let list = plan.list(self.number);
        let fail = |error: io::Error| Error::io("write the list", list.path(), error);
        let at = |at: u32| at as usize;
        let text = &self.text;
        let name = |&[_, start, end]: &[u32; 3]| &text[at(start)..at(end)];
        self.spans.sort_unstable_by(|one, other| compare(name(one), name(other)));
        let dir = plan.below(SHARDS).map_err(fail)?;
        let mut trailer = None;
        let fill = |file: &mut File| {
            let mut writer = SummedWriter::new(file, list.end, &list.header)?;
            for &[start, _, end] in &self.spans {
                writer.add(&text[at(start)..at(end)])?;
            }
            trailer = Some(writer.finish(self.bytes)?);
            Ok(())
        };
        write_whole(&dir, &list.name, false, false, fill).map_err(fail)?;
        trailer.ok_or_else(|| fail(io::ErrorKind::UnexpectedEof.into()))
    }
}

// The walk of a plan, in threads of its own: one lists directories and makes them at the output, others look at files,
// and the calling thread takes what they find in the order of the walk.

/// Number of finds that may wait to be taken; each batch holds its directories open.
const AHEAD: usize = 16;

/// Number of batches of one look that may wait to be taken.
const AHEAD_OF_LOOK: usize = 4;

/// The next item in the order of the walk.
enum NextFound {
    Event(WalkEvent),
    /// The results of a stat worker.
    Look(Receiver<WalkEvent>),
}

/// Entries that a stat worker is to look at, and where what it finds goes.
type EntriesToLookAt = (Unclassified, Sender<WalkEvent>);

/// Walks everything below `source` and has `take` take what is found, until that is all or `take` ends it.
///
/// # Errors
/// A thread died, so not everything was found.
pub fn walk_ahead(
    walk: &Walk<'_>,
    source: Arc<SourceDir>,
    output: Arc<OutputDir>,
    stat_workers: usize,
    mut take: impl FnMut(WalkEvent) -> ControlFlow<()>,
) -> Result<()> {
    let root = source.root.to_path_buf();
    scope(|scope| {
        let (sender, found) = bounded(AHEAD);
        let (to_workers, work) = bounded::<EntriesToLookAt>(stat_workers);
        let look = |work: Receiver<EntriesToLookAt>| {
            let look = move || {
                for (entries, sender) in work {
                    // That the walk is over shows to it, too.
                    let _ = walk.classifier.look_at(entries, &mut |found| send(&sender, found));
                }
            };
            Builder::new().name("stat".into()).spawn_scoped(scope, look).ok()
        };
        let mut threads: Vec<_> = (0..stat_workers).filter_map(|_| look(work.clone())).collect();
        drop(work);
        let has_workers = !threads.is_empty();
        let roots = (Arc::clone(&source), Arc::clone(&output));
        let run = move || {
            let (source, output) = roots;
            let mut defer = |entries| {
                let (to_taker, looked) = bounded(AHEAD_OF_LOOK);
                send(&sender, NextFound::Look(looked))?;
                send(&to_workers, (entries, to_taker))
            };
            let emit = &mut |found| send(&sender, NextFound::Event(found));
            let _ = walk.walk_any(source, output, emit, has_workers.then_some(&mut defer));
        };
        match Builder::new().name("walk".into()).spawn_scoped(scope, run) {
            Ok(thread) => threads.push(thread),
            Err(_) => {
                let _ = walk.run(source, output, take);
                return Ok(());
            }
        }
        let _ = found.iter().try_for_each(|next| match next {
            NextFound::Event(event) => take(event),
            NextFound::Look(looked) => looked.iter().try_for_each(&mut take),
        });
        // So that the walk ends where not all was taken.
        drop(found);
        // Each is waited for here: the scope would pass a panic on.
        let died = threads.into_iter().filter_map(|thread| thread.join().err()).count();
        match died {
            0 => Ok(()),
            _ => {
                let finding = "a thread of its walk died; this is a defect of dircopy";
                Err(Error::finding("plan", root, finding))
            }
        }
    })
}

/// Sends to a thread that may be at its end.
fn send<T>(sender: &Sender<T>, value: T) -> ControlFlow<()> {
    match sender.send(value) {
        Ok(()) => ControlFlow::Continue(()),
        Err(_) => ControlFlow::Break(()),
    }
}

// The work that is left to the end of a plan: symbolic links, and directories with their modes and times, the deepest
// first; and further names of files, in the order of the shards that have their first.

/// The list of links and directories.
pub const FINISH: &str = "finish";

/// The list of further names.
pub const LINKS: &str = "links";

/// An entry of the list of links and directories.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum EndEntry {
    /// A directory, whose attributes are set; it is `fresh` if the plan made it.
    Dir { path: RelPath, label: DirLabel, fresh: bool, ways: Ways },
    /// A symbolic link, and the ways to the directory that it is in.
    Symlink(RelPath, Ways),
    /// A further name of a symbolic link, and the first.
    FurtherSymlink(RelPath, RelPath),
}

/// The attributes of a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DirLabel {
    mode: u32,
    uid: u32,
    gid: u32,
    mtime: Time,
}

impl DirLabel {
    pub fn of(stat: &Stat) -> Self {
        let Stat { mode, uid, gid, mtime, .. } = *stat;
        Self { mode, uid, gid, mtime }
    }

    /// The metadata of a directory that has them.
    pub fn stat(self) -> Stat {
        let Self { mode, uid, gid, mtime } = self;
        Stat { mtime, ctime: mtime, mode, uid, gid, ..Stat::of_kind(Kind::Dir) }
    }
}

impl EndEntry {
    /// Its record.
    ///
    /// # Errors
    /// It has none.
    pub fn to_record(&self) -> io::Result<Vec<u8>> {
        Ok(serde_json::to_vec(self)?)
    }

    /// Reads a record; `None` if it is none, or leads out of the tree.
    pub fn parse(record: &[u8]) -> Option<Self> {
        serde_json::from_slice(record).ok().filter(|entry| match entry {
            Self::Dir { label: DirLabel { mode, mtime, .. }, .. } => {
                *mode <= 0o7777 && mtime.nanos < 1_000_000_000
            }
            Self::Symlink(path, _) => !path.is_root(),
            Self::FurtherSymlink(path, first) => !path.is_root() && !first.is_root(),
        })
    }
}

/// A further name of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FurtherName {
    /// The shard that has the first name.
    pub shard: u32,
    pub first: RelPath,
    pub path: RelPath,
}

/// The separator between the two paths in the record of a further name: no path has an empty component.
const BETWEEN: &[u8] = b"//";

impl FurtherName {
    /// Has it sorted, in [this order](Self::order).
    ///
    /// # Errors
    /// Those of the sorter.
    pub fn add_to(&self, sorter: &mut Sorter) -> io::Result<()> {
        let paths = [self.first.as_bytes(), BETWEEN, self.path.as_bytes()].concat();
        sorter.add(format!("{:010}", self.shard), &paths)
    }

    /// Takes a record apart; `None` if it is none, or leads out of the tree.
    pub fn parse(record: &[u8]) -> Option<Self> {
        let (shard, paths) = PathRecord::told(record);
        let (first, path) = split(paths)?;
        Some(Self { shard: shard.parse().ok()?, first, path })
    }

    /// The order of records of further names: that of the shards, and in each that of its list.
    pub fn order(one: PathRecord<'_>, other: PathRecord<'_>) -> Ordering {
        one.words.cmp(other.words).then_with(|| compare(one.path, other.path))
    }
}

fn split(bytes: &[u8]) -> Option<(RelPath, RelPath)> {
    let at = memchr::memmem::find(bytes, BETWEEN)?;
    let (first, path) = (&bytes[..at], &bytes[at + BETWEEN.len()..]);
    Some((RelPath::parse(first).ok()?, RelPath::parse(path).ok()?))
}

// The names of files that have several, put together by their files after the walk: sorted outside of memory, because
// a tree of backups has many millions of them.

/// The place of a name among those of its file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkedKind {
    /// The first that the walk met, and its shard: a symbolic link is in none.
    First(Option<u32>),
    Further,
}

/// Takes names in the order of the walk.
pub struct LinkedNames {
    sorter: Sorter,
    count: u64,
}

/// The further names, those of one file together.
pub struct FurtherNames {
    reader: RecordReader,
    first: Option<(Vec<u8>, Option<u32>, RelPath)>,
}

/// The digits of a file's identity, which a record begins with, and those of the order in which names were met.
const IDENTITY: usize = 32;
const ORDER: usize = 16;

impl LinkedNames {
    pub fn new() -> Self {
        Self { sorter: Sorter::new(by_words), count: 0 }
    }

    /// Adds a name of the file `id`.
    pub fn add(&mut self, id: Identity, kind: LinkedKind, path: &RelPath) -> io::Result<()> {
        let kind = match kind {
            LinkedKind::First(Some(shard)) => format!("f{shard}"),
            LinkedKind::First(None) => "s".into(),
            LinkedKind::Further => "n".into(),
        };
        let head = format!("{:016x}{:016x}{:016x}{kind}", id.dev, id.ino, self.count);
        self.count += 1;
        self.sorter.add(head, path.as_bytes())
    }

    pub fn finish(self) -> io::Result<FurtherNames> {
        Ok(FurtherNames { reader: self.sorter.finish()?.reader(), first: None })
    }
}

impl FurtherNames {
    /// The shard of the next file that has further names, its first name, and a further one.
    ///
    /// # Errors
    /// A record cannot be read, or is of a file whose first name was not met.
    pub fn next_name(&mut self) -> io::Result<Option<(Option<u32>, RelPath, RelPath)>> {
        while let Some(record) = self.reader.next_record()? {
            let parsed = parse(record).ok_or(io::ErrorKind::InvalidData)?;
            let (id, kind, path) = parsed;
            if let LinkedKind::First(shard) = kind {
                self.first = Some((id.to_vec(), shard, path));
                continue;
            }
            let first = self.first.as_ref().filter(|(first, ..)| first == id);
            let (_, shard, first) = first.ok_or(io::ErrorKind::NotFound)?;
            return Ok(Some((*shard, first.clone(), path)));
        }
        Ok(None)
    }
}

/// The identity, the kind and the path of a record.
fn parse(record: &[u8]) -> Option<(&[u8], LinkedKind, RelPath)> {
    let PathRecord { words, path } = PathRecord::of(record);
    let (id, rest) = words.split_at_checked(IDENTITY)?;
    let kind = match rest.get(ORDER..)?.split_first()? {
        (b'f', shard) => LinkedKind::First(Some(std::str::from_utf8(shard).ok()?.parse().ok()?)),
        (b's', _) => LinkedKind::First(None),
        _ => LinkedKind::Further,
    };
    Some((id, kind, RelPath::parse(path).ok()?))
}

#[cfg(test)]
mod end_list_tests {
    use super::*;

    #[test]
    fn entries_come_back_and_forged_ones_do_not() {
        let rel = |path: &[u8]| RelPath::parse(path).unwrap();
        let mtime = Time { secs: -5, nanos: 7 };
        let label = DirLabel { mode: 0o7755, uid: 1, gid: 2, mtime };
        assert_eq!(DirLabel::of(&label.stat()), label);
        let ways = Ways::default().into_source(&label.stat()).into_output(&label.stat());
        for entry in [
            EndEntry::Dir { path: rel(b"a b/c"), label, fresh: false, ways },
            EndEntry::Dir { path: RelPath::root(), label, fresh: true, ways },
            EndEntry::Symlink(rel(b"a\n\xff"), ways),
            EndEntry::FurtherSymlink(rel(b"a/b"), rel(b"c d")),
        ] {
            let record = entry.to_record().unwrap();
            assert_eq!(EndEntry::parse(&record), Some(entry));
            assert_eq!(EndEntry::parse(&record[1..]), None);
        }
        let with = |label| EndEntry::Dir { path: rel(b"a"), label, fresh: false, ways };
        for forged in [
            with(DirLabel { mode: 0o10_000, ..label }),
            with(DirLabel { mtime: Time { nanos: 1_000_000_000, ..mtime }, ..label }),
            EndEntry::Symlink(RelPath::root(), ways),
            EndEntry::FurtherSymlink(rel(b"a"), RelPath::root()),
        ] {
            assert_eq!(EndEntry::parse(&forged.to_record().unwrap()), None);
        }
        // "../x", in hexadecimal.
        assert_eq!(EndEntry::parse(br#"{"FurtherSymlink":["2e2e2f78","61"]}"#), None);
        let name = FurtherName { shard: 7, first: rel(b"a b"), path: rel(b"c\nd") };
        let mut sorter = Sorter::new(FurtherName::order);
        name.add_to(&mut sorter).unwrap();
        let mut names = sorter.finish().unwrap().reader();
        assert_eq!(names.next_record().unwrap().and_then(FurtherName::parse), Some(name));
        assert_eq!(FurtherName::parse(b"7\na//../../b"), None);
    }
}

#[cfg(test)]
mod linked_names_tests {
    use super::*;

    #[test]
    fn further_names_come_with_the_first_before_them() {
        let mut names = LinkedNames::new();
        let id = |ino| Identity { dev: 7, ino };
        let rel = |name: &str| RelPath::parse(name.as_bytes()).unwrap();
        for (ino, kind, path) in [
            (2, LinkedKind::First(Some(5)), "z"),
            (1, LinkedKind::First(None), "l"),
            (2, LinkedKind::Further, "a"),
            (2, LinkedKind::Further, "b/c"),
            // A name that was made meanwhile begins anew.
            (2, LinkedKind::First(Some(6)), "y"),
            (1, LinkedKind::Further, "m"),
            (2, LinkedKind::Further, "x"),
        ] {
            names.add(id(ino), kind, &rel(path)).unwrap();
        }
        let (mut further, mut found) = (names.finish().unwrap(), Vec::new());
        while let Some((shard, first, path)) = further.next_name().unwrap() {
            let text = |path: &RelPath| String::from_utf8(path.as_bytes().to_vec()).unwrap();
            found.push(format!("{shard:?} {} {}", text(&first), text(&path)));
        }
        assert_eq!(found, ["None l m", "Some(5) z a", "Some(5) z b/c", "Some(6) y x"]);
        let mut names = LinkedNames::new();
        names.add(id(3), LinkedKind::Further, &rel("a")).unwrap();
        assert!(names.finish().unwrap().next_name().is_err());
    }
}
