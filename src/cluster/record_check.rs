//! Holding what was planned against what was recorded, file by file, and writing the lines of the manifest from it.

use std::{thread::Builder, thread::Scope, thread::ScopedJoinHandle, thread::scope};

use crossbeam_channel::{Receiver, Sender, bounded};

use crate::cluster::done::{DoneFile, DoneReader, LINE_END, NextDone, Presence, SourceSearch};
use crate::{
    cluster::PlanDir, cluster::pack::FurtherName, cluster::pack::LINKS, cluster::pack::sum_of_all,
    cluster::plan_dir::Seal, error::Error, error::Result, event::Event, event::EventObserver,
    hash::Digest, hash::Sha256, manifest::ManifestFile, manifest::ReadAhead,
    manifest::SummedReader, manifest::lists, path::RelPath, tree::names::compare,
    tree::names::walk::planned_size,
};

/// The deed that fails where something is wrong.
pub const DEED: &str = "finish the plan";

/// The fault of a plan whose lists are not as its seal says, with the remedy.
pub const OTHER_LISTS: &str = "its lists are not those that it was made with: make a new plan";

const LOST: &str = "it is missing from the record of its shard";
const TWICE: &str = "it is recorded twice";
const UNPLANNED: &str = "it is recorded and was not planned";

/// The planned and the recorded entries, side by side.
pub struct RecordCheck<'a> {
    pub plan: &'a PlanDir,
    pub observer: &'a EventObserver<'a>,
    /// Further names that could not be made.
    pub unmade: &'a std::collections::BTreeSet<Vec<u8>>,
    pub lines: LineBlocks,
    pub search: SourceSearch,
    pub gone: u64,
    /// The shards whose record is not what was planned.
    pub wrong: Vec<u32>,
}

/// The lists and the records of the shards.
struct Ahead {
    lists: ReadAhead,
    done: ReadAhead,
}

/// The further names of files, in the order of the shards that have the first.
struct PlannedLinks {
    list: SummedReader,
    next: Option<FurtherName>,
}

impl RecordCheck<'_> {
    /// Writes the lines of all shards to `manifest`; whether everything that was planned is recorded, once. Lists and
    /// records are read and hashed, and lines written, by threads of their own.
    pub fn write_all(&mut self, seal: &Seal, manifest: &mut ManifestFile) -> Result<bool> {
        let plan = self.plan;
        let lists = (0..seal.shards).map(|shard| plan.list(shard).open());
        let records = (0..seal.shards).map(|shard| plan.done(shard).open());
        let sums = scope(|scope| {
            let fail = |error| Error::io("start the threads for", &plan.path, error);
            let lists = ReadAhead::start(scope, lists).map_err(fail)?;
            let done = ReadAhead::start(scope, records).map_err(fail)?;
            let writing = self.lines.start(scope, manifest).map_err(fail)?;
            let sums = self.write_shards(seal, Ahead { lists, done });
            self.lines.end();
            let died = "the thread that writes it died; this is a defect of dircopy";
            let written = writing.join();
            written.unwrap_or_else(|_| Err(Error::finding("write the manifest", "", died)))?;
            sums
        })?;
        let Some((sums, is_further_left)) = sums else { return Ok(false) };
        let is_whole =
            self.wrong.is_empty() && !is_further_left && sum_of_all(sums) == seal.shards_sum;
        if self.wrong.is_empty() && !is_whole {
            let error = Error::finding(DEED, &self.plan.path, OTHER_LISTS);
            (self.observer.listen)(&Event::Failed(&error));
        }
        Ok(is_whole)
    }

    /// Writes the lines of all shards: the sums of their lists, and whether there are names of files that are in none.
    /// `None` if it was to stop.
    fn write_shards(
        &mut self,
        seal: &Seal,
        mut ahead: Ahead,
    ) -> Result<Option<(Vec<Digest>, bool)>> {
        let mut links = PlannedLinks::open(self.plan)?;
        let mut sums = Vec::new();
        for shard in 0..seal.shards {
            match self.write_shard(shard, &mut ahead, &mut links) {
                Ok(sum) => sums.push(sum),
                Err(error) => {
                    self.wrong.push(shard);
                    let text = format!("; shard {shard} is to be run again");
                    (self.observer.listen)(&Event::Failed(&error.with_note(text)));
                }
            }
            if self.observer.stop.is_requested() || self.lines.is_cut {
                return Ok(None);
            }
        }
        Ok(Some((sums, links.next.is_some())))
    }

    /// Writes the lines of a shard; the sum of its list.
    fn write_shard(
        &mut self,
        shard: u32,
        ahead: &mut Ahead,
        links: &mut PlannedLinks,
    ) -> Result<Digest> {
        let list = self.plan.list(shard);
        // Both go on to their next file, also if one of them is not what it should be.
        let planned = list.read_next(&mut ahead.lists);
        let done = self.plan.done(shard).read_next(&mut ahead.done);
        let (mut planned, mut done) = (planned?, DoneReader::of(done?));
        let (mut bytes, mut last) = (0_u64, Vec::new());
        while planned.advance()? {
            let parsed = planned_size(planned.record());
            let parsed = parsed.and_then(|(size, path)| Some((size, RelPath::check(path).ok()?)));
            let Some((size, path)) = parsed else {
                return Err(planned.torn("a name in it leads out of the tree, or is none"));
            };
            let start = self.lines.text.len();
            match done.next_for(path)? {
                Some(NextDone::Line(line)) => {
                    bytes = bytes.saturating_add(size);
                    self.lines.text.extend_from_slice(line);
                    self.lines.text.push(LINE_END);
                }
                Some(NextDone::Other(found)) if found.path().as_bytes() == path => match found {
                    DoneFile::Listed(_, digest, changed) => {
                        bytes = bytes.saturating_add(changed.unwrap_or(size));
                        lists::write_path(&mut self.lines.text, &Digest::from(digest), path);
                    }
                    DoneFile::Gone(path) => self.departed(&path, shard)?,
                },
                found => return Err(self.not_planned(path, found, &last)),
            }
            self.write_further(shard, path, start, links)?;
            if self.lines.is_full() {
                self.lines.hand_on();
            }
            last.clear();
            last.extend_from_slice(path);
        }
        if let Some(more) = done.next_file()? {
            let is_twice = more.path().as_bytes() == last;
            return Err(self.wrong_record(more.path(), if is_twice { TWICE } else { UNPLANNED }));
        }
        if done.trailer().is_none_or(|trailer| trailer.bytes != bytes) {
            let finding = "its files have another size than planned";
            return Err(Error::finding("find the record of", list.path(), finding));
        }
        planned.trailer().map(|trailer| trailer.sum).ok_or_else(|| planned.torn("it has no end"))
    }

    /// Writes the lines of a file's further names with the digest of its own, which begins at `start` if there is one.
    fn write_further(
        &mut self,
        shard: u32,
        path: &[u8],
        start: usize,
        links: &mut PlannedLinks,
    ) -> Result<()> {
        while let Some(name) = links.next_of(shard, path)? {
            let line = &self.lines.text[start..];
            let hex = line.strip_prefix(b"\\").unwrap_or(line);
            let digest = hex.get(..Sha256::HEX_LEN).and_then(Sha256::from_hex);
            if let Some(digest) = digest.filter(|_| !self.unmade.contains(name.path.as_bytes())) {
                lists::write_path(
                    &mut self.lines.text,
                    &Digest::from(digest),
                    name.path.as_bytes(),
                );
            }
        }
        Ok(())
    }

    /// Why `found`, after the file at `last`, is not what is recorded of the file at `path`.
    fn not_planned(&self, path: &[u8], found: Option<NextDone<'_>>, last: &[u8]) -> Error {
        let path = RelPath::parse(path).unwrap_or_default();
        match found {
            Some(NextDone::Other(found)) => {
                match compare(path.as_bytes(), found.path().as_bytes()).is_lt() {
                    true => self.wrong_record(&path, LOST),
                    false if found.path().as_bytes() == last => {
                        self.wrong_record(found.path(), TWICE)
                    }
                    false => self.wrong_record(found.path(), UNPLANNED),
                }
            }
            _ => self.wrong_record(&path, LOST),
        }
    }

    fn wrong_record(&self, path: &RelPath, finding: &'static str) -> Error {
        Error::finding("find the record of", path.full_path(&self.plan.plan.output), finding)
    }

    /// A file had left the source when its shard came to it: tells it, unless it is back.
    fn departed(&mut self, path: &RelPath, shard: u32) -> Result<()> {
        let source = path.full_path(&self.plan.plan.source);
        let finding = match self.search.look(path) {
            Presence::There => {
                let finding = "it was not in the source when its shard was run, and is there now";
                return Err(Error::finding("finish without", source, finding));
            }
            Presence::Away => "it has left the source since it was planned, or is away for a while",
            Presence::Gone | Presence::Unknown => "it has left the source since it was planned",
        };
        self.gone += 1;
        let error = Error::finding("copy", source, format!("{finding} (shard {shard})"));
        (self.observer.listen)(&Event::Failed(&error));
        Ok(())
    }
}

impl PlannedLinks {
    fn open(plan: &PlanDir) -> Result<Self> {
        let list = plan.end_list(LINKS).read()?;
        let mut names = Self { list, next: None };
        names.advance()?;
        Ok(names)
    }

    fn advance(&mut self) -> Result<()> {
        self.next = match self.list.next_record()? {
            None => None,
            Some(record) => {
                let torn = "a name in it leads out of the tree, or is none";
                let parsed = FurtherName::parse(record);
                Some(parsed.ok_or_else(|| self.list.torn(torn))?)
            }
        };
        Ok(())
    }

    /// The next name of the file at `path`, if that is what comes next.
    fn next_of(&mut self, shard: u32, path: &[u8]) -> Result<Option<FurtherName>> {
        let is_of = |name: &mut FurtherName| name.shard == shard && name.first.as_bytes() == path;
        let Some(name) = self.next.take_if(is_of) else { return Ok(None) };
        self.advance()?;
        Ok(Some(name))
    }
}

// The lines of a manifest on their way to it: a thread writes some while the next ones are made.

/// Number of bytes of lines that are handed on at a time.
const BLOCK: usize = 1 << 20;

/// Number of blocks that wait to be written.
const WAITING: usize = 2;

/// Lines that are being made.
#[derive(Default)]
pub struct LineBlocks {
    pub text: Vec<u8>,
    /// The thread could not write, or is gone, and nothing more is wanted.
    pub is_cut: bool,
    writer: Option<Sender<Vec<u8>>>,
    /// Blocks to be filled again.
    used: Option<Receiver<Vec<u8>>>,
}

impl LineBlocks {
    /// Starts the thread that writes to `manifest`; it returns why it could not.
    ///
    /// # Errors
    /// It cannot be started.
    pub fn start<'scope>(
        &mut self,
        scope: &'scope Scope<'scope, '_>,
        manifest: &'scope mut ManifestFile,
    ) -> std::io::Result<ScopedJoinHandle<'scope, Result<()>>> {
        let (writer, blocks) = bounded::<Vec<u8>>(WAITING);
        let (done, used) = bounded(WAITING + 2);
        let write = move || {
            for mut block in blocks {
                manifest.append(&block)?;
                block.clear();
                // There is room for all that are under way.
                let _ = done.try_send(block);
            }
            Ok(())
        };
        (self.writer, self.used) = (Some(writer), Some(used));
        Builder::new().name("write".into()).spawn_scoped(scope, write)
    }

    /// True if there is enough to hand on.
    pub fn is_full(&self) -> bool {
        self.text.len() >= BLOCK
    }

    /// Hands the lines on.
    pub fn hand_on(&mut self) {
        let next = self.used.as_ref().and_then(|used| used.try_recv().ok()).unwrap_or_default();
        let block = std::mem::replace(&mut self.text, next);
        self.is_cut |= self.writer.as_ref().is_none_or(|writer| writer.send(block).is_err());
    }

    /// Hands on what is left, and lets the thread come to its end.
    pub fn end(&mut self) {
        self.hand_on();
        (self.writer, self.used) = (None, None);
    }
}

// Working at many things in several threads: over a network each waits for the server, not for the others.

/// Number of threads.
const THREADS: usize = 8;

/// Number of things that are handed out and not done at a time; if there are fewer, the calling thread does all.
const MOST: usize = 64;

/// Has `work` done to each thing that `next` gives. Those of which `is_alone` holds are done when all before them are
/// done, and before all others.
///
/// # Errors
/// The error of `next`, which ends it.
pub fn for_each<T: Send>(
    mut next: impl FnMut() -> Result<Option<T>>,
    is_alone: impl Fn(&T) -> bool,
    work: &(impl Fn(T) + Sync),
) -> Result<()> {
    let mut first = Vec::new();
    while first.len() < MOST
        && let Some(thing) = next()?
    {
        first.push(thing);
    }
    if first.len() < MOST {
        first.into_iter().for_each(work);
        return Ok(());
    }
    scope(|scope| {
        let (sender, things) = bounded::<T>(MOST);
        let (done, over) = bounded(MOST);
        let start = |_: &usize| {
            let (things, done) = (things.clone(), done.clone());
            let run = move || {
                for thing in things {
                    work(thing);
                    // It has room for all that are handed out.
                    let _ = done.send(());
                }
            };
            Builder::new().name("finish".into()).spawn_scoped(scope, run).is_ok()
        };
        let threads = (0..THREADS).filter(start).count();
        drop((things, done));
        let (mut first, mut open) = (first.into_iter(), 0);
        while let Some(thing) = first.next().map_or_else(&mut next, |thing| Ok(Some(thing)))? {
            open -= over.try_iter().count();
            let most = if is_alone(&thing) { 0 } else { MOST - 1 };
            while open > most && over.recv().is_ok() {
                open -= 1;
            }
            if threads == 0 || is_alone(&thing) {
                work(thing);
            } else if sender.send(thing).is_ok() {
                open += 1;
            }
        }
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::sync::Mutex;

    use super::*;

    #[test]
    fn everything_is_done_once_and_some_of_it_alone() {
        for count in [0_usize, 1, MOST - 1, MOST, 10 * MOST] {
            let (mut numbers, done) = (0..count, Mutex::new(BTreeSet::new()));
            let work = |number| {
                let mut done = done.lock().unwrap();
                if number % 100 == 99 {
                    assert_eq!(done.len(), number, "all before it are done, and none behind it");
                }
                assert!(done.insert(number));
            };
            for_each(|| Ok(numbers.next()), |number| number % 100 == 99, &work).unwrap();
            assert_eq!(done.into_inner().unwrap(), (0..count).collect());
        }
    }
}
