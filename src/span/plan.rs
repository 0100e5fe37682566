//! What is where, and what goes where, before anything is copied.
//!
//! What a disk has stays there, and that is asked of the disks; of one that is not here the memory is asked. Everything
//! is records that are sorted in bounded memory, so memory does not grow with the source.

use std::{io, path::Path, sync::Arc};

use serde::{Deserialize, Serialize};

use crate::{
    copy::CopyJob, copy::OutputRun, copy::Prepared, copy::before::space::least,
    copy::before::space::part_files, copy::links, error::Deed, error::Error, error::Result,
    event::Event, event::EventObserver, parity::Share, path::Examples, path::RelPath, span::SPAN,
    span::disks::AbsentDisk, span::disks::Disk, span::disks::Disks, span::disks::FORGOTTEN,
    span::index::hints, span::memory::Seen, span::place::Placed, span::place::Placing,
    span::place::Room, span::place::SpanOrder, span::place::Wanted, state::Knowledge,
    state::Missing, state::PrivateDir, sys, sys::Dir, sys::DirListing, sys::stat::Kind,
    sys::stat::Stat, sys::stat::Time, tree::Decision, tree::JoinReader, tree::LastDir,
    tree::OutputDir, tree::PathRecord, tree::Patience, tree::SortedRecords, tree::Sorter,
    tree::SourceStat, tree::WalkEvent, tree::WalkItem, tree::by_path, tree::names::is_within,
    tree::overwrite::DestinationStat, tree::overwrite::decide, tree::overwrite::leave_out,
};

/// What each disk gets.
pub struct Plan {
    pub placed: Placed,
    /// Entries that the walk could not look at.
    pub failed: u64,
    /// All entries, and directories with anything in them.
    items: SortedRecords,
    twice: Examples,
    /// Entries that were in the source and came to no disk before they left it.
    gone: Examples,
    /// What is remembered of entries on disks that are not here, and that this run did not meet: they are left out, or
    /// gone for a while.
    unmet: SortedRecords,
}

/// What one disk gets.
#[derive(Clone)]
pub struct Part {
    pub names: SortedRecords,
    pub entries: u64,
    /// Directories among them.
    pub dirs: u64,
    pub bytes: u64,
    /// What the least changed file there fills for which the disk alone has no room beside the old one; else the most.
    pub too_large: u64,
}

impl Part {
    /// The number of its entries that are not in `root`.
    pub fn lacking_in(&self, root: &Dir) -> io::Result<u64> {
        let (mut reader, mut dir, mut lacking) = (self.names.reader(), LastDir::default(), 0);
        while let Some(record) = reader.next_record()? {
            let path = PathRecord::of(record).path;
            if path.is_empty() {
                continue;
            }
            let path = RelPath::parse(path).map_err(|_| io::ErrorKind::InvalidData)?;
            lacking += u64::from(dir.stat(root, &path, false).if_there()?.is_none());
        }
        Ok(lacking)
    }
}

/// An entry of the source, or a directory with all that is new in it.
#[derive(Clone, Default, Serialize, Deserialize)]
pub struct Item {
    /// What it would take of each disk; bytes.
    pub costs: Vec<u64>,
    pub size: u64,
    /// What its content fills, whatever the blocks of a disk are; bytes.
    pub filled: u64,
    /// The disk that has it.
    pub home: Option<usize>,
    /// The disk in whose place it was, on another one that is lost.
    pub hint: Option<usize>,
    /// The disk that has it, and is not here.
    pub away: Option<Away>,
    /// As it is in the source, if it is to be copied.
    seen: Option<Seen>,
    /// True if it is so on its disk too, and is replaced all the same.
    pub is_same: bool,
    /// Number of new entries in a directory with anything in it; `None` of all others.
    pub new: Option<u64>,
}

/// A disk that has an entry and is not here.
#[derive(Clone, Serialize, Deserialize)]
pub struct Away {
    /// As it is there.
    pub there: Seen,
    /// It is not as in the source, and why it stays so; empty if that disk is wanted.
    pub differs: Option<String>,
}

impl Plan {
    /// Finds out what is where, and what goes where.
    ///
    /// # Errors
    /// There is no room for all of it, or it cannot be sorted; or it is not known what is on a disk that is not here.
    pub fn make(
        run: &OutputRun<'_>,
        disks: &Disks,
        order: SpanOrder,
        patience: Patience<'_>,
    ) -> Result<Self> {
        let job = run.job;
        disks.refuse_other_digests(job)?;
        // It is no single output that the source is held against.
        let output = Arc::new(OutputDir::absent(job.output.clone().into()));
        let prepared = Prepared { output, output_id: None, ..job.prepare(true, patience)? };
        if prepared.file.is_some() {
            let finding = "it is a file, and only what is in a directory can be on several disks";
            return Err(Error::finding(SPAN, &job.source, finding));
        }
        let mut look = Look::new(run, disks, patience);
        run.walk_source(&prepared, |found| look.take(found));
        let fail = |error| Error::io("sort the names of", &job.source, error);
        let Look { items, failed, twice, lines, last_used, broken, each, .. } = look;
        broken.map_or(Ok(()), Err).map_err(fail)?;
        let seen = match &disks.memory {
            Some(memory) => memory.seen()?,
            None => None,
        };
        if let Some(absent) = disks.absent.iter().find(|it| !it.is_new() && seen.is_none()) {
            return Err(Error::finding(SPAN, absent.words(), FORGOTTEN));
        }
        let known = if seen.is_some() { seen } else { hints(disks, job)? };
        let (mut gone, mut unmet) = (Examples::default(), Sorter::new(by_path));
        let joined = Joining { job, disks, gone: &mut gone, unmet: &mut unmet };
        let items = items.finish().and_then(|items| joined.arrange(&items, known.as_ref()));
        let (items, unmet) = (items.map_err(fail)?, unmet.finish().map_err(fail)?);
        let parts = each.iter().map(|it| it.parts);
        let rooms = Room::of_all(disks, parts, lines);
        let settles = disks.is_to_settle();
        let elsewhere = disks.absent.iter().map(|disk| disk.room).max();
        let elsewhere = if settles { Some(u64::MAX) } else { elsewhere };
        let wanted = Wanted { order, elsewhere, settles };
        let placed = Placing::of(job, rooms, &items, last_used, wanted).map_err(fail)?;
        Ok(Self { placed: placed.finish(job)?, failed, items, twice, gone, unmet })
    }

    /// True if the source has anything.
    pub fn is_any(&self) -> bool {
        self.items.reader().next_record().is_ok_and(|first| first.is_some())
    }

    /// Tells of files of `job` that more than one disk has, and of those that are gone.
    pub fn tell(&self, job: &CopyJob, observer: &EventObserver<'_>) {
        self.twice.tell(job, observer, |names| {
            format!("more than one disk has {names}: the first counts, and the others stay")
        });
        self.gone.tell(job, observer, |names| {
            format!("gone from the source before they came to a disk: {names}")
        });
    }

    /// What is to be remembered after the run, of each entry of the source and of what is on disks that are not here.
    /// Where anything has failed on a disk, its record says what was read as it is in the source.
    ///
    /// # Errors
    /// It cannot be sorted.
    pub fn seen(&self, disks: &Disks, has_failed: &dyn Fn(&Disk) -> bool) -> Result<SortedRecords> {
        // What was made now had no handle before.
        let roots = disks.each.iter().map(Disk::root).collect::<Result<Vec<Dir>>>()?;
        let path = disks.memory.as_ref().map_or(Path::new(""), |memory| &memory.path);
        let record = |(disk, root): (&Disk, &Dir)| {
            let private = || PrivateDir::open(root, &disk.path, None, Missing::Leave).ok()?;
            let read = |private| Knowledge::of_records(&private, root, &|| false);
            has_failed(disk).then(|| private().map(read).unwrap_or_default())
        };
        let records: Vec<_> = disks.each.iter().zip(&roots).map(record).collect();
        self.seen_in(disks, &roots, &records).deed("look at what is to be remembered in", path)
    }

    fn seen_in(
        &self,
        disks: &Disks,
        roots: &[Dir],
        records: &[Option<Knowledge>],
    ) -> io::Result<SortedRecords> {
        let (mut sorter, mut reader) = (Sorter::new(by_path), self.items.reader());
        let mut blocked = JoinReader::of(&self.placed.blocked)?;
        let mut dirs: Vec<LastDir> = disks.each.iter().map(|_| LastDir::default()).collect();
        while let Some(record) = reader.next_record()? {
            let PathRecord { words, path } = PathRecord::of(record);
            let item: Item = serde_json::from_slice(words)?;
            // The root, where there is nothing else, is at every disk.
            let (Some(source), None, false) = (item.seen, item.new, path.is_empty()) else {
                continue;
            };
            let stat = source.stat();
            let rel = RelPath::parse(path).map_err(|_| io::ErrorKind::InvalidData)?;
            let is_blocked = blocked.last_of(path)?.is_some();
            let each = disks.each.iter().zip(roots).zip(&mut dirs).zip(records);
            let mut here = each.filter_map(|(((disk, root), dir), record)| {
                let there = dir.stat(root, &rel, false).ok()?;
                let same = disk.dir.destination(&stat, &there).same_time;
                let time = if same { stat.mtime } else { there.mtime };
                let read = |record: &Knowledge| {
                    let seen = record.belief(path, &there).row()?.seen;
                    seen.content.filter(|_| !seen.in_doubt)
                };
                let in_doubt = record.as_ref().is_some_and(|it| read(it) != source.changed);
                let (changed, at) = (source.changed, Some(disk.number));
                let failed = in_doubt && !is_blocked;
                Some(Seen { changed, in_doubt, failed, ..Seen::of(&there, time, at) })
            });
            let away = item.away.map(|away| away.there);
            let seen = here.next().or(away).unwrap_or_else(|| source.clone());
            sorter.add_json(&seen, path)?;
        }
        let mut unmet = self.unmet.reader();
        while let Some(record) = unmet.next_record()? {
            let PathRecord { words, path } = PathRecord::of(record);
            sorter.add(words, path)?;
        }
        sorter.finish()
    }
}

/// The walk over the source, and the look at what the disks have.
struct Look<'a> {
    job: &'a CopyJob,
    observer: &'a EventObserver<'a>,
    disks: &'a Disks,
    each: Vec<Looked>,
    items: Sorter,
    failed: u64,
    twice: Examples,
    /// The size of an index of all; bytes.
    lines: u64,
    last_used: usize,
    broken: Option<io::Error>,
}

/// A disk while it is looked at.
#[derive(Default)]
struct Looked {
    /// The last directory.
    dir: LastDir,
    /// The space of what killed runs began, and this one goes on with or removes; bytes.
    parts: u64,
    /// The lock, where the last run did not come to its end, if it can be had.
    lock: Option<PrivateDir>,
}

impl<'a> Look<'a> {
    fn new(run: &OutputRun<'a>, disks: &'a Disks, patience: Patience<'_>) -> Self {
        let job = run.job;
        let lock = |disk: &Disk| {
            // What is empty there may be for another run to fill.
            let root = disk.dir.handle.as_ref().filter(|_| disk.was_cut_short && !job.dry_run)?;
            let state = job.state.as_deref();
            let private = PrivateDir::open(root, &disk.path, state, Missing::Leave).ok()??;
            let locked = Patience { wait: false, ..patience }.lock(&private, &disk.path);
            locked.is_ok().then_some(private)
        };
        Self {
            job,
            observer: run.observer,
            disks,
            each: disks
                .each
                .iter()
                .map(|disk| Looked { lock: lock(disk), ..Looked::default() })
                .collect(),
            items: Sorter::new(by_path),
            failed: 0,
            twice: Examples::default(),
            lines: 0,
            last_used: 0,
            broken: None,
        }
    }

    fn take(&mut self, found: &WalkEvent) {
        let added = match found {
            WalkEvent::Files(batch) => {
                let mut files = batch.files.iter();
                files.try_for_each(|it| self.entry(&batch.source.rel.join(&it.name), &it.stat))
            }
            WalkEvent::Item(WalkItem::Symlink(source, _, entry)) => {
                self.entry(&source.rel.join(&entry.name), &entry.stat)
            }
            // The copy says that it is skipped.
            WalkEvent::Item(WalkItem::Special(source, listed, kind)) if *kind != Kind::Dir => {
                self.add(&source.rel.join(&listed.name), Item::default())
            }
            WalkEvent::Item(WalkItem::Done(output)) => self.dir(&output.rel.path()),
            WalkEvent::Item(WalkItem::Failed(error)) => {
                self.failed += 1;
                (self.observer.listen)(&Event::Failed(error));
                Ok(())
            }
            WalkEvent::Item(item) => {
                item.tell(&self.observer.listen);
                Ok(())
            }
        };
        added.err().map(|error| self.broken.get_or_insert(error));
    }

    /// A file or a link.
    fn entry(&mut self, path: &RelPath, stat: &Stat) -> io::Result<()> {
        let options = &self.job.options;
        if leave_out(&options.selection, SourceStat(stat)).is_some() {
            return self.add(path, Item::default());
        }
        let parity = self.job.parity.map_or(0, |share| Share(share).least(stat.size));
        let cost = |output: &OutputDir, free| match output.largest_file() {
            Some(most) if stat.size > most => u64::MAX,
            _ => least(stat, free, !output.is_fat()).saturating_add(parity),
        };
        let disks = &self.disks.each;
        let mut costs: Vec<u64> = disks.iter().map(|it| cost(&it.dir, &it.free)).collect();
        let there = self.look(path);
        let (home, mut is_same) = (there.first().map(|(number, _)| *number), false);
        if let Some((number, Some(there))) = there.first() {
            let destination = self.disks.each[*number].dir.destination(stat, there);
            let is_made = match stat.kind {
                Kind::File => matches!(
                    decide(options.policy, SourceStat(stat), Some(destination)),
                    Decision::Create | Decision::Replace
                ),
                _ => false,
            };
            // Until the new one is whole, the old one stays.
            costs[*number] = if is_made { costs[*number] } else { 0 };
            is_same = destination.same_time && there.size == stat.size;
        }
        if there.len() > 1 {
            self.twice.add(path.as_bytes());
        }
        let seen = Seen { changed: Some(stat.ctime), ..Seen::of(stat, stat.mtime, None) };
        let (seen, size, filled) = (Some(seen), stat.size, stat.size.min(stat.allocated));
        self.add(path, Item { costs, size, filled, home, seen, is_same, ..Item::default() })
    }

    fn dir(&mut self, path: &RelPath) -> io::Result<()> {
        let each = self.disks.each.iter().zip(&mut self.each);
        for (disk, Looked { dir, parts, lock }) in each.filter(|it| it.0.was_cut_short) {
            let (Some(root), Some(tag)) = (&disk.dir.handle, disk.dir.volume.parts.output) else {
                continue;
            };
            if let Ok(dir) = dir.enter(root, path) {
                *parts += part_files(dir, tag, false);
            }
            if lock.is_some() {
                sweep(dir, root, path);
            }
        }
        let costs = self.disks.each.iter().map(|disk| disk.free.block).collect();
        let home = if path.is_root() { None } else { self.look(path).first().map(|it| it.0) };
        let seen = Some(Seen::of(&Stat::of_kind(Kind::Dir), Time::default(), None));
        let item = Item { costs, home, seen, new: Some(0), ..Item::default() };
        self.items.add_json(&item, path.as_bytes())
    }

    /// The disks on which something has this name, and what. What cannot be looked at is there: the copy says why.
    fn look(&mut self, path: &RelPath) -> Vec<(usize, Option<Stat>)> {
        let mut found = Vec::new();
        for (number, (disk, looked)) in self.disks.each.iter().zip(&mut self.each).enumerate() {
            let Some(root) = &disk.dir.handle else { continue };
            match looked.dir.stat(root, path, false) {
                Ok(stat) => found.push((number, Some(stat))),
                Err(error) => match error.kind() {
                    io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => {}
                    _ => found.push((number, None)),
                },
            }
        }
        found
    }

    fn add(&mut self, path: &RelPath, mut item: Item) -> io::Result<()> {
        item.costs.resize(self.disks.each.len(), 0);
        self.lines += path.as_bytes().len() as u64 + LINE;
        self.last_used = self.last_used.max(item.home.unwrap_or(0));
        self.items.add_json(&item, path.as_bytes())
    }
}

/// Removes a directory that a killed run made and left empty and closed: what it was to hold may go elsewhere now, and
/// nothing would come back to it.
fn sweep(dir: &mut LastDir, root: &Dir, path: &RelPath) {
    let (Some((above, name)), Ok(own)) = (path.split(), dir.enter(root, path)) else { return };
    let is_ours = own.is_private().unwrap_or(false);
    if is_ours
        && DirListing::is_empty(own).unwrap_or(false)
        && let (Ok(name), Ok(above)) = (sys::name_from_bytes(name), dir.enter(root, &above))
    {
        // It is removed only if it is empty still.
        let _ = above.remove_dir(name);
    }
}

/// Why a file waits for a disk that is not here, though size and time are those that it has there: …
pub const IN_DOUBT: &str = "in doubt";

/// … or does not wait for it, as the run that was to find it out failed, …
pub const STILL_IN_DOUBT: &str = "still in doubt";

/// … or though it was changed, as there is no room there, …
pub const NO_ROOM_AWAY: &str = "no room";

/// … or a run has failed to replace it by the same.
pub const FAILED_AWAY: &str = "failed";

/// Why a file stays that is as in the source and has no room to be replaced.
pub const SAME: &str = "same";

/// A line of the index has so many bytes beside the path, or fewer.
const LINE: u64 = 80;

/// A directory that the pass over the items is in.
struct OpenDir {
    path: Vec<u8>,
    item: Item,
    is_empty: bool,
}

/// The items while they are held against what is remembered.
struct Joining<'a> {
    job: &'a CopyJob,
    disks: &'a Disks,
    gone: &'a mut Examples,
    unmet: &'a mut Sorter,
}

impl Joining<'_> {
    /// The items again, with directories that say what is new in them; an empty one is an entry like any other. Those
    /// that are remembered on a disk which is not here have that, or a hint.
    fn arrange(
        mut self,
        items: &SortedRecords,
        known: Option<&SortedRecords>,
    ) -> io::Result<SortedRecords> {
        let (mut arranged, mut way) = (Sorter::new(by_path), Vec::<OpenDir>::new());
        let mut known = known.map(JoinReader::of).transpose()?;
        let mut reader = items.reader();
        loop {
            let record = reader.next_record()?.map(PathRecord::of);
            let path = record.as_ref().map(|record| record.path);
            while let Some(OpenDir { path, item, is_empty }) =
                way.pop_if(|top| path.is_none_or(|path| !is_within(path, &top.path)))
            {
                if let Some(above) = way.last_mut() {
                    above.is_empty = false;
                    above.item.include(&item);
                }
                let new = item.new.filter(|_| !is_empty);
                let away = item.away.filter(|_| is_empty);
                arranged.add_json(&Item { new, away, ..item }, &path)?;
            }
            let Some(PathRecord { words, path }) = record else {
                self.pass_over(known.as_mut(), None)?;
                return arranged.finish();
            };
            let mut item: Item = serde_json::from_slice(words)?;
            self.pass_over(known.as_mut(), Some(path))?;
            if let Some(known) = &mut known
                && let Some(record) = known.take_all_of(path)?
                && let Some(seen) = PathRecord::of(&record).json::<Seen>()
            {
                self.recall(&mut item, &seen);
            }
            if item.new.is_some() {
                way.push(OpenDir { path: path.to_vec(), item, is_empty: true });
                continue;
            }
            if let Some(above) = way.last_mut() {
                above.is_empty = false;
                above.item.include(&item);
            }
            arranged.add_json(&item, path)?;
        }
    }

    /// Passes over what is remembered before `path`, or of all that is left: it is not in the source any more, or not
    /// looked at. What is on a disk that is not here stays remembered.
    fn pass_over(&mut self, known: Option<&mut JoinReader>, path: Option<&[u8]>) -> io::Result<()> {
        let Some(known) = known else { return Ok(()) };
        loop {
            let record = match path {
                Some(path) => known.take_before(path)?,
                None => known.take()?,
            };
            let Some(record) = record else { return Ok(()) };
            let PathRecord { path, .. } = PathRecord::of(&record);
            let Some(seen) = PathRecord::of(&record).json::<Seen>() else { continue };
            match seen.at {
                None if !self.is_here(path) => self.gone.add(path),
                Some(number) if self.away(number).is_some() => self.unmet.add_json(&seen, path)?,
                _ => {}
            }
        }
    }

    /// The disk of this number, if it is one that has something and is not here.
    fn away(&self, number: usize) -> Option<&AbsentDisk> {
        self.disks.absent.iter().find(|disk| disk.number == number && !disk.is_new())
    }

    /// True if a disk has it that is here: a run may have copied it there that did not come to its end.
    fn is_here(&self, path: &[u8]) -> bool {
        let Ok(path) = RelPath::parse(path) else { return false };
        let has = |root: &Dir| LastDir::default().stat(root, &path, false).is_ok();
        self.disks.each.iter().any(|disk| disk.dir.handle.as_ref().is_some_and(has))
    }

    /// Takes into account what is remembered of an entry, unless a disk has it that is here.
    fn recall(&self, item: &mut Item, seen: &Seen) {
        let (Some(number), None, Some(now)) = (seen.at, item.home, &item.seen) else { return };
        if self.disks.replaced.contains(&number) {
            item.hint = self.disks.each.iter().position(|disk| disk.number == number);
            return;
        }
        let Some(disk) = self.away(number) else { return };
        let (source, there) = (now.stat(), seen.stat());
        let same_time = source.mtime == there.mtime;
        let destination = Some(DestinationStat { stat: &there, same_time });
        let decision = match source.kind {
            // It came from there: what is replaced at every run (`always`) would be wanted again for ever.
            Kind::File if there.kind == Kind::File && there.size == source.size && same_time => {
                Decision::Keep
            }
            Kind::File => decide(self.job.options.policy, SourceStat(&source), destination),
            Kind::Dir if there.kind == Kind::Dir => Decision::Keep,
            kind if kind == there.kind && source.size == there.size => Decision::Keep,
            _ => links::decide(self.job.options.policy, &source, Some(&there), None),
        };
        let differs = match decision {
            // Only with that disk it can be found out what was done to it.
            Decision::Keep if source.kind == Kind::File && seen.changed != now.changed => {
                Some(IN_DOUBT.to_owned())
            }
            Decision::Keep if source.kind == Kind::File && seen.in_doubt => {
                Some(STILL_IN_DOUBT.to_owned())
            }
            Decision::Keep => None,
            Decision::Create | Decision::Replace if item.filled > disk.room => {
                Some(NO_ROOM_AWAY.to_owned())
            }
            // It would be wanted for that for ever.
            Decision::Create | Decision::Replace if seen.failed && seen.changed == now.changed => {
                Some(FAILED_AWAY.to_owned())
            }
            Decision::Create | Decision::Replace => Some(String::new()),
            Decision::Leave(why) | Decision::Refuse(why) => Some(why.to_owned()),
        };
        item.away = Some(Away { there: seen.clone(), differs });
    }
}

impl Item {
    /// True if the source has a directory of this name.
    pub fn is_dir(&self) -> bool {
        self.seen.as_ref().is_some_and(|source| source.stat().kind == Kind::Dir)
    }

    /// Adds what is in this directory, as far as it is new.
    fn include(&mut self, below: &Self) {
        let is_there = below.home.is_some() || below.away.is_some();
        let new = match below.new {
            Some(0) => return,
            None if is_there => return,
            Some(new) => new,
            None => 1,
        };
        self.new = Some(self.new.unwrap_or(0) + new);
        for (sum, cost) in self.costs.iter_mut().zip(&below.costs) {
            *sum = sum.saturating_add(*cost);
        }
    }
}
