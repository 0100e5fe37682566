//! Running a shard: a copy of its list on this machine's workers, and the record that it is done.
//!
//! A shard may be run again, by several machines at once, or be cut short anywhere: files get their names whole and
//! without replacing, and the record appears by a rename that replaces nothing. So the first to record it wins, and
//! later ones compare: where theirs is another, the source was edited in between, and nobody knows whose file replaced
//! whose, so the shard counts as not done.

use std::{
    collections::BTreeMap, fs::File, io, io::Read, path::Path, sync::Arc, sync::atomic::AtomicU64,
    sync::atomic::Ordering::Relaxed, thread::sleep, time::Duration,
};

use crate::cluster::done::{DoneFile, DoneWriter, Presence, SourceSearch, look_again};
use crate::{
    cluster::Departed, cluster::PlanDir, cluster::attempt, cluster::attempt::Attempt,
    cluster::done, cluster::done::DOUBTFUL, cluster::plan_dir::DONE, copy::CopyJob, copy::Counts,
    copy::Ending, copy::Report, copy::ShardRole, error::Cause, error::Deed, error::Error,
    error::Result, event::Event, event::EventObserver, event::Observer, event::Progress,
    hash::Sha256, io::Resume, manifest::Entries, manifest::Entry, manifest::Parsed,
    manifest::states_name, part::is_taken, path::RelPath, staged::StagedFile, sys, sys::Dir,
    sys::ShardTag, sys::Uninterrupted, tree::ChangedFiles, tree::Filter, tree::JoinReader,
    tree::NameList, tree::PathRecord, tree::RecordReader, tree::SortedRecords, tree::Sorter,
    tree::by_path, tree::names::compare, tree::names::walk::planned_size,
};

/// The deed that other roots than those of the plan prevent.
const DEED: &str = "run a shard with";

/// Time between two looks for a list that is to appear.
const AGAIN: Duration = Duration::from_millis(500);

/// A shard is copied so many times if files of it fail: another attempt may have been at it, too.
const PASSES: u32 = 3;

/// The options for running shards.
#[derive(Clone, Debug)]
pub struct ShardJob {
    pub plan: PlanDir,
    /// Workers; as many as suit both devices without.
    pub workers: Option<usize>,
    pub limit_rate: Option<u64>,
    /// An attempt that was silent for so long is dead.
    pub dead: Duration,
}

/// The state of a shard.
#[derive(Debug)]
pub enum ShardState {
    /// It is done, and this run recorded it.
    Done,
    /// It is recorded as done already.
    DoneBefore,
    /// Files of it are not at the output.
    Incomplete,
    /// It was cut short.
    Ended(Ending),
}

/// The report of a run of a shard.
#[derive(Debug)]
pub struct ShardReport {
    pub shard: u32,
    pub state: ShardState,
    pub counts: Counts,
    /// Files that are recorded as not in the source any more.
    pub departed: Departed,
}

/// True if it says that the output is full.
fn has_no_room(error: &Error) -> bool {
    matches!(error.cause(), Cause::Io(cause) if sys::is_disk_full(cause))
}

/// The list of a shard, which was read through.
struct ShardList {
    shard: u32,
    records: SortedRecords,
}

impl ShardJob {
    /// Runs a shard. One whose list is not there yet is waited for as long as the plan is being made.
    ///
    /// # Errors
    /// It was refused, and nothing was touched; or its record could not be written.
    pub fn run(&self, shard: u32, observer: &EventObserver<'_>) -> Result<ShardReport> {
        let departed = Departed::default();
        let report = |state| ShardReport { shard, state, counts: Counts::default(), departed };
        if !self.wait_for_list(shard, observer)? {
            let code = observer.stop.requested().unwrap_or(1);
            return Ok(report(ShardState::Ended(Ending::Interrupted(code))));
        }
        if let Some(departed) = self.is_done(shard, observer)? {
            return Ok(ShardReport { departed, ..report(ShardState::DoneBefore) });
        }
        self.check_roots()?;
        let list = self.list(shard)?;
        let dead = attempt::dead(&self.plan, shard, self.dead)?;
        let attempt = Attempt::begin(&self.plan, shard)?;
        let copy = || self.copy(&list, &attempt, &dead, observer);
        let ran = attempt.beat.during(&attempt.path, self.dead, copy);
        let warn = |error: Error| (observer.listen)(&Event::Warning(&error));
        attempt.end(&self.plan).err().into_iter().for_each(warn);
        ran
    }

    /// Waits until the list of a shard is there; false if the run is to stop.
    ///
    /// # Errors
    /// The plan is complete and has no such shard, or nobody completes it.
    fn wait_for_list(&self, shard: u32, observer: &EventObserver<'_>) -> Result<bool> {
        let mut told = false;
        while self.plan.list(shard).stat().is_err() {
            if let Some(seal) = self.plan.seal()? {
                let finding = match shard < seal.shards {
                    true => format!("the list of shard {shard} is missing: make a new plan"),
                    false => format!(
                        "it has the shards 0 to {}, and no shard {shard}",
                        seal.shards.saturating_sub(1)
                    ),
                };
                return Err(Error::finding("run a shard of", &self.plan.path, finding));
            }
            if observer.stop.is_requested() {
                return Ok(false);
            }
            attempt::refuse_abandoned(&self.plan, self.dead)?;
            if !std::mem::replace(&mut told, true) {
                (observer.listen)(&Event::Waiting(
                    "the plan is not complete, and the shard has no list yet",
                ));
            }
            sleep(AGAIN);
        }
        Ok(true)
    }

    /// The departed files of a shard that is recorded as done; `None` if it is not. A record that is torn is put aside,
    /// and so is one of files that are back.
    fn is_done(&self, shard: u32, observer: &EventObserver<'_>) -> Result<Option<Departed>> {
        let record = self.plan.done(shard);
        if record.stat().is_err() {
            return Ok(None);
        }
        let extension = match record.read().and_then(|mut record| record.check()) {
            Ok(_) if done::totals(record.open()).is_none_or(|totals| totals.gone == 0) => {
                return Ok(Some(Departed::default()));
            }
            Ok(_) => match look_again(&self.plan, shard)? {
                Some(departed) => return Ok(Some(departed)),
                None => "before",
            },
            Err(torn) => {
                (observer.listen)(&Event::Warning(&torn));
                "torn"
            }
        };
        done::put_aside(&self.plan, shard, extension).map(|()| None)
    }

    /// Refuses roots that are not those of the plan: a disk that is not mounted on this machine, for one.
    fn check_roots(&self) -> Result<()> {
        let plan = &self.plan.plan;
        plan.check_source_label(DEED, &plan.open_source()?.1)?;
        plan.open_output().map(drop)
    }

    /// Reads a list through: nothing of one that is torn is copied.
    fn list(&self, shard: u32) -> Result<ShardList> {
        let mut reader = self.plan.list(shard).read()?;
        let start = reader.at();
        let mut last = Vec::new();
        while reader.advance()? {
            let path = planned_size(reader.record()).map(|(_, path)| path);
            let Some(path) = path.filter(|path| RelPath::check(path).is_ok()) else {
                return Err(reader.torn("a name in it leads out of the tree, or is none"));
            };
            if compare(&last, path).is_ge() {
                return Err(reader.torn("its names are not in order"));
            }
            last.clear();
            last.extend_from_slice(path);
        }
        let end = reader.at();
        let file = Arc::new(reader.into_file());
        Ok(ShardList { shard, records: SortedRecords::File { file, start, end } })
    }

    /// The job of an attempt.
    fn job(&self, list: &ShardList, attempt: &Attempt, dead: &[ShardTag]) -> CopyJob {
        let mut job = self.plan.plan.job();
        // The names that are listed were selected, and further names of files are made when the plan ends.
        job.options.selection.filter = Filter::default();
        job.options.selection.hard_links = false;
        // What has become a link, or a special file, is no file of the plan.
        (job.options.selection.links, job.options.selection.specials) = (false, false);
        job.options.resume = Resume::Off;
        job.options.check_space = false;
        job.workers = self.workers;
        job.limit_rate = self.limit_rate;
        job.names = Some(NameList::planned(list.records.clone()));
        let (tag, dead) = (attempt.tag, dead.to_vec());
        let (dir, path) = (Arc::clone(&attempt.dir), attempt.path.clone());
        job.shard = Some(ShardRole { tag, dead, dir, path });
        job
    }

    fn copy(
        &self,
        list: &ShardList,
        attempt: &Attempt,
        dead: &[ShardTag],
        observer: &EventObserver<'_>,
    ) -> Result<ShardReport> {
        let (shard, mut pass) = (attempt.tag.shard, 1);
        loop {
            let job = self.job(list, attempt, dead);
            let (met, full) = (AtomicU64::new(0), AtomicU64::new(0));
            let listen = |event: &Event<'_>| {
                match event {
                    // Another attempt's file is held against the source in the next pass.
                    Event::Failed(error) if pass < PASSES && is_taken(error) => {
                        met.fetch_add(1, Relaxed);
                        return;
                    }
                    Event::Failed(error) if has_no_room(error) => {
                        full.fetch_add(1, Relaxed);
                    }
                    _ => {}
                }
                (observer.listen)(event);
            };
            let progress = match pass {
                1 => Arc::clone(&observer.progress),
                _ => Arc::<Progress>::default(),
            };
            let ran = job.run(&Observer { progress, stop: observer.stop.clone(), listen });
            let met = met.into_inner();
            if met > 0 {
                let text = format!("{met} files were published by another attempt at the shard");
                (observer.listen)(&Event::Waiting(&text));
            }
            let Report { counts, ending, manifest, .. } = ran?;
            let mut departed = Departed::default();
            let state = match (ending, manifest) {
                // What differs at the output is not what was planned, whatever the difference.
                (Ending::Complete | Ending::Incomplete, Some(_)) if counts.left > 0 => {
                    ShardState::Incomplete
                }
                (Ending::Complete | Ending::Incomplete, Some(manifest)) => {
                    self.keep_states(attempt, &manifest, observer);
                    match self.record(list, &job, attempt, &manifest, &mut departed, observer)? {
                        // Of the same content, and maybe with an older label.
                        ShardState::DoneBefore if counts.replaced > 0 => {
                            let finding = "this attempt replaced files while another recorded the shard, so it is to be \
                                           run again";
                            let list = self.plan.list(shard).path();
                            let error = Error::finding("record", list, finding);
                            (observer.listen)(&Event::Failed(&error));
                            done::put_aside(&self.plan, shard, DOUBTFUL)?;
                            ShardState::Incomplete
                        }
                        state => state,
                    }
                }
                (ending, _) => ShardState::Ended(ending),
            };
            // The next files of a longer list would find none either.
            let is_full =
                counts.copied + counts.replaced == 0 && full.into_inner() == counts.failed;
            let state = match state {
                ShardState::Incomplete if is_full && counts.failed > 0 => {
                    let finding = "it has no room for any of the files that are left of the shard";
                    let error = Error::finding("go on writing to", &self.plan.plan.output, finding);
                    ShardState::Ended(Ending::Stopped(error))
                }
                state => state,
            };
            let may_help = met > 0 || counts.failed > 0;
            if !matches!(state, ShardState::Incomplete) || pass == PASSES || !may_help {
                return Ok(ShardReport { shard, state, counts, departed });
            }
            pass += 1;
            if met == 0 {
                (observer.listen)(&Event::Waiting(
                    "files of the shard failed: they are tried once more",
                ));
            }
        }
    }

    /// Keeps the chains of large files for the end of the plan. Whose they are is of no weight: they need not be
    /// believed, and without them checks take longer.
    fn keep_states(&self, attempt: &Attempt, manifest: &Path, observer: &EventObserver<'_>) {
        let (Some(name), shard) = (states_name(manifest), attempt.tag.shard) else { return };
        let kept = self.plan.states(shard).name;
        let keep = |done: Dir| attempt.dir.rename(&name, &done, &kept);
        if let Err(error) = self.plan.below(DONE).and_then(keep).if_there() {
            let error = Error::io("keep the states of", self.plan.list(shard).path(), error);
            (observer.listen)(&Event::Warning(&error));
        }
    }

    /// Records that a shard is done, if all of its files are at the output or have left the source.
    fn record(
        &self,
        list: &ShardList,
        job: &CopyJob,
        attempt: &Attempt,
        manifest: &Path,
        departed: &mut Departed,
        observer: &EventObserver<'_>,
    ) -> Result<ShardState> {
        let shard = list.shard;
        let record = self.plan.done(shard);
        let fail = |error| Error::io("record the shard in", record.path(), error);
        let changed = job.names.as_ref().and_then(NameList::changed);
        let changed = changed.map(ChangedFiles::take).unwrap_or_default();
        if !changed.is_empty() {
            let finding = format!(
                "{} of its files changed since it was planned, and were copied as they are now",
                changed.len()
            );
            let warning = Error::finding("copy as planned", self.plan.list(shard).path(), finding);
            (observer.listen)(&Event::Warning(&warning));
        }
        let name = manifest.file_name().unwrap_or_default();
        let lines = attempt.dir.open_file(name, false).and_then(sorted_lines);
        let lines = lines.deed("read the manifest of the shard", manifest)?;
        let mut files = ShardFiles::new(&self.plan, &list.records, lines, &changed)?;
        let dir = self.plan.below(DONE).map_err(fail)?;
        let mut lost = None;
        let fill = |file: &mut File| {
            let mut writer = DoneWriter::new(file, &record.header)?;
            files.write(&mut writer, |path| (observer.listen)(&Event::Gone(path.as_bytes())))?;
            match files.is_missing {
                true => Err(io::ErrorKind::Other.into()),
                false => writer.finish().map(drop),
            }
        };
        let publish = |staged: &StagedFile| match staged.give_name(&dir, &record.name, false) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                lost = Some(done::difference(&self.plan, shard, staged.name()));
                Err(error)
            }
            published => published,
        };
        let written = StagedFile::of(&dir, &record.name, false, &|_| false)
            .and_then(|staged| staged.write(&dir, true, fill, publish));
        *departed = files.departed;
        match (lost, files.is_missing) {
            (Some(difference), _) => match difference? {
                // Which of the two is at the output depends on who gave it its name last.
                Some(error) => {
                    (observer.listen)(&Event::Failed(&error));
                    done::put_aside(&self.plan, shard, DOUBTFUL).map(|()| ShardState::Incomplete)
                }
                None => Ok(ShardState::DoneBefore),
            },
            (None, true) => Ok(ShardState::Incomplete),
            (None, false) => written.map_err(fail).map(|()| ShardState::Done),
        }
    }
}

// The results for the files of a shard: its list beside the lines that an attempt left.

/// The files of a shard in the order of its list, each with what became of it.
pub struct ShardFiles<'a> {
    list: RecordReader,
    /// Those of the manifest.
    lines: JoinReader,
    /// The size that each file has now that is not what it was when it was planned.
    changed: &'a BTreeMap<Vec<u8>, u64>,
    search: SourceSearch,
    pub departed: Departed,
    /// A file of the source is not at the output.
    pub is_missing: bool,
}

impl<'a> ShardFiles<'a> {
    /// The files of a shard whose list has these `records`, and the lines of the manifest that an attempt at it left.
    pub fn new(
        plan: &PlanDir,
        records: &SortedRecords,
        lines: JoinReader,
        changed: &'a BTreeMap<Vec<u8>, u64>,
    ) -> Result<Self> {
        let (departed, search) = (Departed::default(), SourceSearch::new(plan)?);
        Ok(Self { list: records.reader(), lines, changed, search, departed, is_missing: false })
    }

    /// Writes the files that are at the output or have left the source, which it tells.
    pub fn write(&mut self, out: &mut DoneWriter<'_>, tell: impl Fn(&RelPath)) -> io::Result<()> {
        while let Some(record) = self.list.next_record()? {
            let (planned, path) = planned_size(record).ok_or(io::ErrorKind::InvalidData)?;
            if let Some(digest) = digest_of(&mut self.lines, path)? {
                let now = self.changed.get(path).copied();
                let changed = now.filter(|size| *size != planned);
                out.add_listed(path, digest, changed, now.unwrap_or(planned))?;
                continue;
            }
            let path = RelPath::parse(path).map_err(|_| io::ErrorKind::InvalidData)?;
            let presence = self.search.look(&path);
            self.departed += presence;
            match presence {
                Presence::Gone | Presence::Away => {
                    tell(&path);
                    out.add(&DoneFile::Gone(path), 0)?;
                }
                Presence::There | Presence::Unknown => self.is_missing = true,
            }
        }
        Ok(())
    }
}

/// The lines of a manifest in the order of a walk.
fn sorted_lines(manifest: impl Read) -> io::Result<JoinReader> {
    let (mut entries, mut sorter) =
        (Entries::of_all(Uninterrupted(manifest)), Sorter::new(by_path));
    while let Some(Entry { number, ended, parsed, .. }) = entries.next_entry()? {
        // A last line without an end is torn.
        if let Parsed::Record(found) = parsed
            && let (true, Ok(path)) = (ended, RelPath::check(found.name))
            && let Some(digest) = found.digest.as_sha256()
        {
            sorter.add(format!("{number:020} {digest}"), path)?;
        }
    }
    JoinReader::of(&sorter.finish()?)
}

/// The digest of the file at `path`, which comes behind those that were asked for before: that of its last line.
fn digest_of(lines: &mut JoinReader, path: &[u8]) -> io::Result<Option<Sha256>> {
    let line = lines.last_of(path)?;
    let digest = |line: Vec<u8>| {
        Sha256::from_hex(PathRecord::of(&line).text().split(' ').nth(1)?.as_bytes())
    };
    Ok(line.and_then(digest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_line_is_found_by_its_path() {
        let hex = |byte: u8| String::from_utf8(Sha256([byte; 32]).to_hex().to_vec()).unwrap();
        let mut text = Vec::new();
        for (byte, name) in [(8, "b"), (2, "a/z"), (3, "a-b"), (4, "a/b"), (7, "./-"), (1, "b")] {
            text.extend(format!("{}  {name}\n", hex(byte)).into_bytes());
        }
        text.extend(format!("# a comment\n\\{}  a/new\\nline\nshort\n", hex(5)).into_bytes());
        text.extend(format!("{}  torn", hex(6)).into_bytes());
        let mut lines = sorted_lines(&*text).unwrap();
        let asked: [&[u8]; 8] =
            [b"-", b"a/a", b"a/b", b"a/new\nline", b"a/z", b"a-b", b"b", b"torn"];
        let found =
            asked.map(|path| digest_of(&mut lines, path).unwrap().map(|digest| digest.0[0]));
        assert_eq!(found, [Some(7), None, Some(4), Some(5), Some(2), Some(3), Some(1), None]);
    }
}
