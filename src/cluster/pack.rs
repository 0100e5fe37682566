//! Packing files into shards that cost about the same: bytes and files both count, each as its share of what a shard
//! may have. A directory stays in one shard unless it is larger than one.

use std::{
    collections::BTreeMap, fs::File, io, ops::ControlFlow, sync::Arc, thread::Builder,
    thread::scope,
};

use crossbeam_channel::{Receiver, Sender, bounded};

use crate::{
    cluster::PlanDir, cluster::attempt, error::Error, error::Result, hash::Digest,
    manifest::SummedWriter, manifest::Trailer, manifest::summed::SUM, staged::write_whole,
    sys::Dir, tree::OutputDir, tree::PlannedStat, tree::SourceDir, tree::SourceEntry,
    tree::Unclassified, tree::Walk, tree::WalkEvent, tree::names::compare,
    tree::names::planned::MOST_BEFORE_PATH,
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
        let path = plan.list(self.number);
        let fail = |error: io::Error| Error::io("write the list", &path, error);
        let at = |at: u32| at as usize;
        let text = &self.text;
        let name = |&[_, start, end]: &[u32; 3]| &text[at(start)..at(end)];
        self.spans.sort_unstable_by(|one, other| compare(name(one), name(other)));
        let (Some(parent), Some(file_name)) = (path.parent(), path.file_name()) else {
            return Err(fail(io::ErrorKind::InvalidInput.into()));
        };
        let dir = Dir::open(parent).map_err(fail)?;
        let mut trailer = None;
        let fill = |file: &mut File| {
            let mut writer = SummedWriter::new(file, 0, &plan.list_header(self.number))?;
            for &[start, _, end] in &self.spans {
                writer.add(&text[at(start)..at(end)])?;
            }
            trailer = Some(writer.finish(self.bytes)?);
            Ok(())
        };
        write_whole(&dir, file_name, false, false, fill).map_err(fail)?;
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
