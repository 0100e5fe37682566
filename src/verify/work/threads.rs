//! The threads of a check: one reads manifests, one counts for the progress, and the workers read files.

use std::{
    collections::BTreeMap, collections::HashMap, fs::File, io, sync::Arc, sync::Mutex,
    sync::atomic::Ordering::Relaxed, thread::Builder, thread::Scope, thread::ScopedJoinHandle,
    thread::scope, time::Instant,
};

use crossbeam_channel::{Receiver, Sender, bounded, unbounded};

use crate::{
    error::Error, event::Progress, event::Stop, hash::Algorithm, hash::Digest, hash::HashedSet,
    hash::Sha256, manifest::name::LIKE_SHA512, path::RelPath, state::plugs::Replugged, sys,
    sys::Dir, sys::Medium, sys::stat::Identity, sys::stat::Stat, verify::Bag, verify::BagVerdict,
    verify::Checked, verify::Finding, verify::FindingListener, verify::Findings,
    verify::NameHasher, verify::PartOf, verify::SeenNames, verify::Target, verify::TargetSpec,
    verify::Verdict, verify::doubts::FoundBad, verify::finding::count, verify::late::LateReading,
    verify::lines::LineReader, verify::lines::LinesRead, verify::lines::seen::LineBatch,
    verify::lines::shards::LinesWanted, verify::scrub::Scrub, verify::several::CheckedTrees,
    verify::several::Replicas, verify::shards::ShardNotes, verify::shared::SharedReads,
    verify::work::Checker, verify::work::linked::MadeStates, verify::work::worker::Division,
    verify::work::worker::Worker,
};

/// The code that the counting for the progress is stopped with.
const ENDED: usize = 1;

/// The state that the threads of a check share.
pub struct Threads<'a> {
    pub specs: &'a [TargetSpec],
    /// The division of the reading among the workers.
    pub division: Division,
    /// Makes the means of one worker to check files.
    pub checker: &'a dyn Fn() -> Checker<'a>,
    /// True if the listed names are kept.
    pub complete: bool,
    /// The scrub, if it is one.
    pub scrub: Option<&'a Scrub>,
    /// Where data is read once that several files share, if it is.
    pub shared: Option<&'a SharedReads>,
    /// True if it is told as what each good file was read.
    pub proves: bool,
    /// The lines that are wanted, if not all.
    pub wanted: Option<LinesWanted>,
    /// The progress of the check.
    pub progress: &'a Progress,
    /// The stop signal.
    pub stop: &'a Stop,
}

/// The threads that were started.
#[derive(Default)]
struct CheckThreads<'scope> {
    workers: Vec<ScopedJoinHandle<'scope, ()>>,
    line_reader: Option<ScopedJoinHandle<'scope, LinesRead>>,
}

/// The ends of the queues between the threads.
struct Queues {
    tasks: (Sender<LineBatch>, Receiver<LineBatch>),
    findings: Sender<Findings>,
}

impl Threads<'_> {
    /// Starts them, takes their findings and waits for their ends. Returns what the thread that reads the
    /// manifests leaves, unless it died or was not started.
    pub fn run(&self, collector: &mut Collector<'_>) -> Option<LinesRead> {
        let room = 2 * self.division.workers;
        let (findings, inbox) = bounded(room);
        let queues = Queues { tasks: bounded(room), findings };
        let counting = Stop::default();
        let nowhere = Arc::new(Target::none());
        let broken = |collector: &mut Collector<'_>, deed, subject, finding: &str| {
            let finding = format!("{finding}; this is a defect of dircopy");
            collector.tell(&nowhere, Finding::Broken(Error::finding(deed, subject, finding)));
        };
        scope(|scope| {
            let mut started = CheckThreads::default();
            if let Err(error) = self.start(scope, queues, &counting, collector, &mut started) {
                let error = Error::io("start the threads for", ".", error);
                collector.tell(&nowhere, Finding::Broken(error));
            }
            collector.take_all(&inbox);
            drop(inbox);
            counting.request(ENDED);
            for worker in started.workers {
                if worker.join().is_err() {
                    broken(collector, "finish the check of", ".", "a thread died");
                }
            }
            match started.line_reader?.join() {
                Ok(read) => Some(read),
                Err(_) => {
                    let finding = "the thread that reads them died";
                    broken(collector, "read the manifests of", ".", finding);
                    None
                }
            }
        })
    }

    /// Starts all threads; those that were started before an error are in `started`.
    fn start<'scope>(
        &'scope self,
        scope: &'scope Scope<'scope, '_>,
        queues: Queues,
        counting: &'scope Stop,
        collector: &Collector<'_>,
        started: &mut CheckThreads<'scope>,
    ) -> io::Result<()> {
        let Queues { tasks: (tasks, for_workers), findings } = queues;
        let (sending, tokens) = unbounded();
        let ahead = Arc::new(Mutex::new(LookAhead::new(self.division.order)));
        for number in 0..self.division.workers {
            let worker = Worker {
                checker: (self.checker)(),
                division: self.division,
                ahead: Arc::clone(&ahead),
                scrub: self.scrub,
                shared: self.shared,
                proves: self.proves,
                progress: self.progress,
                stop: self.stop,
                tokens: tokens.clone(),
                findings: findings.clone(),
            };
            let (for_workers, sending) = (for_workers.clone(), sending.clone());
            let thread = Builder::new().name(format!("check-{number}"));
            let work = move || worker.work(&for_workers, sending);
            started.workers.push(thread.spawn_scoped(scope, work)?);
        }
        let line_reader = LineReader {
            key: collector.key.clone(),
            complete: self.complete,
            reread: collector.replicas.is_some(),
            scrub: self.scrub,
            wanted: self.wanted,
            stop: self.stop,
            tasks,
            findings,
        };
        let thread = Builder::new().name("lines".into());
        let (specs, wanted, progress) = (self.specs, self.wanted, self.progress);
        let work = move || line_reader.work(specs);
        started.line_reader = Some(thread.spawn_scoped(scope, work)?);
        let reads = self.division.workers > 0 && self.scrub.is_none();
        if reads && self.progress.watched.load(Relaxed) {
            let thread = Builder::new().name("count".into());
            thread.spawn_scoped(scope, move || count(specs, wanted, progress, counting))?;
        }
        Ok(())
    }
}

// The files that were looked at and wait to be read, and the order in which that happens.
//
// A manifest does not say how large its files are. Were they read as they are listed, a large one
// at the end would keep one worker busy while the others have nothing left to do, and a disk that
// turns would seek from each to the next. So the files of a window of the manifest, as many lines
// as a fixed amount of memory holds, are looked at before they are read, by the same workers. What
// comes after the window is not known yet: a large file that is listed behind ten thousand others
// is begun when they are nearly done.

/// The window, in bytes of the lines that wait: about 9,000 lines of 45 bytes of name. Not tuned: it
/// must hold the whole manifest of an archive of large files, and looking so far ahead must not be
/// noticed before the first file is read.
const WINDOW: usize = 1 << 20;

/// Reading a file of this size takes far longer than handing it to a worker.
const LARGE: u64 = 1 << 20;

/// In which order files are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadOrder {
    /// Large ones first, the largest of all at the start; small ones as they are listed.
    LargeFirst,
    /// The order on the disk.
    AsOnDisk,
}

impl ReadOrder {
    /// The place of a file of `size` bytes that is to be read by itself; `None` for one that is read
    /// with its neighbours, at [`LAST`](Self::LAST).
    pub fn place_of_size(size: u64) -> Option<u64> {
        (size >= LARGE).then_some(!size)
    }

    /// Behind all files that have a place of their own.
    pub const LAST: u64 = u64::MAX;
}

/// Things that wait, by their places; at the same place, the first comes first.
#[derive(Debug)]
pub struct LookAhead<T> {
    order: ReadOrder,
    waiting: BTreeMap<(u64, u64), (usize, T)>,
    put: u64,
    weight: usize,
    /// The place that was taken last, if the next is to be taken from behind it.
    at: u64,
}

impl<T> LookAhead<T> {
    pub fn new(order: ReadOrder) -> Self {
        Self { order, waiting: BTreeMap::new(), put: 0, weight: 0, at: 0 }
    }

    /// True if more files are to be looked at before something is read.
    pub fn has_room(&self) -> bool {
        self.weight < WINDOW
    }

    /// Number of waiting things.
    pub fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Adds something that takes `weight` bytes.
    pub fn put(&mut self, place: u64, weight: usize, what: T) {
        self.waiting.insert((place, self.put), (weight, what));
        self.put += 1;
        self.weight += weight;
    }

    /// Takes the next file to read. On a disk that is the next behind what was read last; only behind the last of all
    /// the arm goes back, so what is added meanwhile does not send it to and fro.
    pub fn take(&mut self) -> Option<T> {
        let behind = self.waiting.range((self.at, 0)..).next();
        let place = *behind.or_else(|| self.waiting.iter().next())?.0;
        let (weight, what) = self.waiting.remove(&place)?;
        self.weight -= weight;
        if self.order == ReadOrder::AsOnDisk {
            self.at = place.0;
        }
        Some(what)
    }
}

// Findings come together here: they are counted, remembered as far as later checks need them, and told.

/// The files of a bag that were told of, by the hashes of their names, and the bad ones among them.
#[derive(Default)]
struct ToldFiles {
    all: HashedSet,
    bad: HashedSet,
}

/// Counts the findings of a check and tells the listener; on the thread that runs the job.
pub struct Collector<'a> {
    listen: &'a FindingListener<'a>,
    /// Makes hashes of names.
    pub key: NameHasher,
    /// Number of lines so far, by verdict.
    pub counts: Checked,
    /// The scrub, with the target of the last finding.
    scrub: Option<(&'a Scrub, Option<Arc<Target>>)>,
    /// Lines that workers answered.
    answered: u64,
    /// Names that were found by another spelling.
    pub converted: SeenNames,
    /// The results for each bag.
    bags: HashMap<Identity, Checked>,
    /// The files of bags that were told of.
    told: HashMap<Identity, ToldFiles>,
    /// The directories as replicas of each other, if there are several.
    pub replicas: Option<Replicas>,
    /// The first list with a file that differs by SHA-512.
    sha512: Option<Arc<Target>>,
    /// The results for each of several directories.
    pub trees: CheckedTrees,
    /// The notes for the result of a shard, if it is one.
    pub shard: Option<ShardNotes>,
    pub bad: FoundBad,
    /// What is read after the device was away, if that is looked at.
    pub late: Option<LateReading>,
}

impl<'a> Collector<'a> {
    /// For a check of so many targets.
    pub fn new(listen: &'a FindingListener<'a>, scrub: Option<&'a Scrub>, targets: usize) -> Self {
        Self {
            listen,
            key: NameHasher::default(),
            counts: Checked::default(),
            scrub: scrub.map(|scrub| (scrub, None)),
            answered: 0,
            converted: SeenNames::default(),
            bags: HashMap::new(),
            told: HashMap::new(),
            replicas: (targets > 1).then(|| Replicas::new(targets)),
            sha512: None,
            trees: CheckedTrees::default(),
            shard: None,
            bad: FoundBad::default(),
            late: None,
        }
    }

    /// Takes findings until no thread can send more.
    pub fn take_all(&mut self, inbox: &Receiver<Findings>) {
        for Findings { target, found } in inbox {
            if let Some((scrub, last)) = &mut self.scrub {
                found.iter().for_each(|finding| scrub.note(finding));
                *last = Some(Arc::clone(&target));
                if let Err(error) = scrub.save_now_and_then() {
                    self.tell(&target, Finding::Broken(error));
                }
            }
            for finding in found {
                self.answered += u64::from(matches!(finding, Finding::File { .. }));
                self.shard.iter_mut().for_each(|notes| notes.note(&finding));
                self.late.iter_mut().for_each(|late| late.note(&target, &finding));
                if let Finding::Converted { to, line, .. } = &finding {
                    self.converted.note(self.key.of(to), *line, &Digest::sha256([0; 32]));
                }
                self.note_look_alike(&target, &finding);
                self.tell(&target, finding);
            }
        }
    }

    /// Publishes the states that were written, if the check came to its end, and tells what failed of them.
    pub fn finish_states(&mut self, states: MadeStates, stop: &Stop) {
        self.counts.states_made = states.number.load(Relaxed);
        for error in states.finish(!stop.is_requested()) {
            self.tell(&Target::none(), Finding::Broken(error));
        }
    }

    /// Writes what a scrub verified.
    pub fn save_scrub(&mut self) {
        if let Some((scrub, Some(target))) = self.scrub.clone()
            && let Err(error) = scrub.save()
        {
            self.tell(&target, Finding::Broken(error));
        }
    }

    /// Notes for later runs what was read after the device was away; the files that are replugged by now.
    pub fn tell_late(&mut self) -> Option<Replugged> {
        let (replugged, target, unnoted) = self.late.take()?.finish()?;
        unnoted.into_iter().for_each(|error| self.tell(&target, Finding::Notice(error)));
        replugged
    }

    /// Lines that workers answered, and those that a scrub skipped.
    pub fn answered(&self) -> u64 {
        self.answered + self.scrub.as_ref().map_or(0, |(scrub, _)| scrub.skipped())
    }

    /// Tells what each bag is by all that was found of it.
    pub fn tell_bags(&mut self, bags: &[Bag]) {
        for bag in bags {
            let found = self.bags.get(&bag.target.root_id).copied().unwrap_or_default();
            let Checked { missing, incomplete, contradicted, unlisted, broken, .. } = found;
            let is_incomplete =
                missing + incomplete + contradicted + unlisted + broken > 0 || found.is_unusable();
            let verdict = match is_incomplete {
                true => BagVerdict::Incomplete,
                false if found.differ + found.unreadable > 0 => BagVerdict::Complete,
                false => BagVerdict::Valid,
            };
            self.tell(&bag.target, Finding::Bag(verdict));
        }
    }

    /// Tells what lists of BLAKE2b look like, if that may be why every file differs.
    pub fn tell_look_alike(&mut self) {
        let Some(target) = self.sha512.take().filter(|_| self.counts.good == 0) else { return };
        let error = Error::finding("tell the algorithm of", &target.manifest, LIKE_SHA512);
        self.tell(&target, Finding::Notice(error));
    }

    /// Notes a list with digests that may be taken for others.
    fn note_look_alike(&mut self, target: &Arc<Target>, finding: &Finding) {
        if let Finding::File { listed, verdict: Verdict::Differs(..), .. } = finding
            && listed.algorithm() == Algorithm::Sha512
            && target.ours.is_none()
            && target.part == PartOf::Alone
        {
            self.sha512.get_or_insert_with(|| Arc::clone(target));
        }
    }

    /// Tells what became of each of several directories.
    pub fn tell_trees(&mut self) {
        let (findings, nowhere) = (self.trees.findings(), Target::none());
        findings.into_iter().for_each(|finding| self.tell(&nowhere, finding));
    }

    /// Counts and tells a finding. A file of a bag is counted and told once, also if several manifests list it, and
    /// once more if a later one finds it bad.
    pub fn tell(&mut self, target: &Target, finding: Finding) {
        if target.part.bag().is_some() {
            self.bags.entry(target.root_id).or_default().add(&finding);
            if let Finding::File { path, verdict, .. } = &finding {
                let told = self.told.entry(target.root_id).or_default();
                let (path, is_bad) = (self.key.of(path), !matches!(verdict, Verdict::Good(_)));
                let (is_first, was_good) = (told.all.insert(path), !told.bad.contains(&path));
                if !(is_first || is_bad && was_good) {
                    return;
                }
                if is_bad {
                    told.bad.insert(path);
                }
            }
        }
        self.counts.add(&finding);
        self.trees.note(target, &finding);
        self.bad.note(target, &finding);
        if let Some(replicas) = &mut self.replicas {
            replicas.note(target, &finding);
        }
        (self.listen)(target, &finding);
    }
}

// Until when a file is read: a scrub gives up a file that takes too long, as every check does that is asked to stop.

/// When reading files ends before their end.
#[derive(Clone, Copy)]
pub struct Until<'a> {
    pub stop: &'a Stop,
    /// Then at the latest.
    pub at: Option<Instant>,
}

impl Until<'_> {
    /// True if it is to end now.
    pub fn is_over(self) -> bool {
        self.stop.is_urgent() || self.at.is_some_and(|at| Instant::now() >= at)
    }
}

// A listed file that was found and is open.

/// A file that was found.
pub struct FoundFile {
    pub file: File,
    /// Its metadata then.
    pub stat: Stat,
    /// The name it was found by, if not the one it was looked for by.
    pub converted: Option<RelPath>,
}

impl FoundFile {
    /// Its size in bytes.
    pub fn size(&self) -> u64 {
        self.stat.size
    }

    /// A sum of when it was made and what it was then; or changed last, where it is not known when it was made. A copy
    /// that takes its place has another one, and it keeps its own when it gets other names or permissions.
    pub fn made(&self) -> u32 {
        let Stat { size, mtime, ctime, .. } = self.stat;
        let made = Dir::birth_of(&self.file).unwrap_or(ctime);
        let times = [mtime, made].map(|time| [time.secs, time.nanos.into()].map(i64::to_be_bytes));
        let Sha256([a, b, c, d, ..]) =
            Sha256::of(&[times.as_flattened().as_flattened(), &size.to_be_bytes()]);
        u32::from_be_bytes([a, b, c, d])
    }

    /// Its medium.
    ///
    /// # Errors
    /// The medium to read from; fails if data that was in memory only could not be written.
    pub fn medium(&self) -> io::Result<Medium<'_>> {
        Medium::of(&self.file, &self.stat)
    }

    /// True if it still has the size that it had when it was found, and no more content than that.
    pub fn is_still_as_large(&self) -> bool {
        Dir::stat_file(&self.file).is_ok_and(|now| now.size == self.stat.size)
            && sys::ends_at(&self.file, self.stat.size).unwrap_or(false)
    }
}

/// A file that was found, and what is listed of it.
#[derive(Clone, Copy)]
pub struct ListedFile<'a> {
    pub path: &'a RelPath,
    pub found: &'a FoundFile,
    /// The digest that is listed.
    pub digest: &'a Digest,
    /// Others that are listed of it.
    pub further: &'a [Digest],
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(ahead: &mut LookAhead<char>) -> String {
        std::iter::from_fn(|| ahead.take()).collect()
    }

    #[test]
    fn large_files_come_first_and_small_ones_in_their_order() {
        let mut ahead = LookAhead::new(ReadOrder::LargeFirst);
        let put = |ahead: &mut LookAhead<char>, size, name| {
            ahead.put(ReadOrder::place_of_size(size).unwrap_or(ReadOrder::LAST), 1, name);
        };
        for (size, name) in [(9, 'a'), (LARGE, 'b'), (5, 'c'), (1 << 40, 'd'), (LARGE, 'e')] {
            put(&mut ahead, size, name);
        }
        assert_eq!(ahead.take(), Some('d'));
        put(&mut ahead, 1 << 50, 'f');
        put(&mut ahead, LARGE - 1, 'g');
        assert_eq!(all(&mut ahead), "fbeacg");
    }

    #[test]
    fn the_arm_of_a_disk_goes_one_way_and_back_only_at_the_end() {
        let mut ahead = LookAhead::new(ReadOrder::AsOnDisk);
        for (place, name) in [(700, 'a'), (300, 'b'), (500, 'c'), (500, 'd')] {
            ahead.put(place, 1, name);
        }
        assert_eq!((ahead.take(), ahead.take()), (Some('b'), Some('c')));
        for (place, name) in [(100, 'e'), (200, 'f'), (500, 'g'), (600, 'h')] {
            ahead.put(place, 1, name);
        }
        assert_eq!(all(&mut ahead), "dghaef");
    }

    #[test]
    fn the_window_is_bounded_by_what_it_holds() {
        let mut ahead = LookAhead::new(ReadOrder::LargeFirst);
        ahead.put(1, WINDOW - 1, 'a');
        assert!(ahead.has_room());
        ahead.put(2, 1, 'b');
        assert!(!ahead.has_room());
        ahead.take();
        assert!(ahead.has_room());
    }
}
