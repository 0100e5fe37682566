//! What is where, and what goes where, before anything is copied.
//!
//! What a disk has stays there, and that is asked of the disks. Everything is records that are sorted in bounded
//! memory, so memory does not grow with the source.

use std::{io, sync::Arc};

use serde::{Deserialize, Serialize};

use crate::{
    copy::CopyJob, copy::OutputRun, copy::Prepared, copy::before::space::least,
    copy::before::space::part_files, error::Error, error::Result, event::Event,
    event::EventObserver, parity::Share, path::RelPath, path::Shown, span::MOST_EXAMPLES,
    span::SPAN, span::disks::Disks, span::index::hints, span::place::Placing, span::place::Room,
    sys::stat::Kind, sys::stat::Stat, tree::Decision, tree::JoinReader, tree::LastDir,
    tree::OutputDir, tree::PathRecord, tree::Patience, tree::SortedRecords, tree::Sorter,
    tree::SourceStat, tree::WalkEvent, tree::WalkItem, tree::by_path, tree::names::is_within,
    tree::overwrite::decide, tree::overwrite::leave_out,
};

/// What each disk gets.
pub struct Plan {
    pub parts: Vec<Part>,
    /// Changed files for which their disk has no room; the words are its number.
    pub blocked: SortedRecords,
    /// Entries that the walk could not look at.
    pub failed: u64,
    twice: Twice,
}

/// What one disk gets.
#[derive(Clone)]
pub struct Part {
    pub names: SortedRecords,
    pub entries: u64,
    pub bytes: u64,
}

/// Files that more than one disk has, and the first of them.
#[derive(Default)]
struct Twice {
    number: u64,
    examples: Vec<RelPath>,
}

/// An entry of the source, or a directory with all that is new in it.
#[derive(Clone, Default, Serialize, Deserialize)]
pub struct Item {
    /// What it would take of each disk; bytes.
    pub costs: Vec<u64>,
    pub size: u64,
    /// The disk that has it.
    pub home: Option<usize>,
    /// The disk that had it, and is not here.
    pub hint: Option<usize>,
    /// Number of new entries in a directory with anything in it; `None` of all others.
    pub new: Option<u64>,
}

impl Plan {
    /// Finds out what is where, and what goes where.
    ///
    /// # Errors
    /// There is no room for all of it, or it cannot be sorted.
    pub fn make(run: &OutputRun<'_>, disks: &Disks, patience: Patience<'_>) -> Result<Self> {
        let job = run.job;
        // It is no single output that the source is held against.
        let output = Arc::new(OutputDir::absent(job.output.clone().into()));
        let prepared = Prepared { output, output_id: None, ..job.prepare(true, patience)? };
        if prepared.file.is_some() {
            let finding = "it is a file, and only what is in a directory can be on several disks";
            return Err(Error::finding(SPAN, &job.source, finding));
        }
        let mut look = Look::new(run, disks);
        run.walk_source(&prepared, |found| look.take(found));
        let fail = |error| Error::io("sort the names of", &job.source, error);
        let Look { items, failed, twice, lines, last_used, broken, parts, .. } = look;
        broken.map_or(Ok(()), Err).map_err(fail)?;
        let hints = hints(disks, job)?;
        let items = items.finish().and_then(|items| arrange(&items, hints.as_ref()));
        let rooms = Room::of_all(disks, &parts, lines);
        let placed = items.and_then(|items| Placing::of(job, rooms, &items, last_used));
        let (parts, blocked) = placed.map_err(fail)?.finish(job)?;
        Ok(Self { parts, blocked, failed, twice })
    }

    /// True if there is anything to copy.
    pub fn is_any(&self) -> bool {
        self.parts.iter().any(|part| part.entries > 0)
    }

    /// Tells of files of `job` that more than one disk has.
    pub fn tell_twice(&self, job: &CopyJob, observer: &EventObserver<'_>) {
        let Twice { number, examples } = &self.twice;
        if *number > 0 {
            let names = examples.iter().map(|path| Shown::bytes(path.as_bytes()));
            let names = Shown::first_of(*number, names);
            let text =
                format!("more than one disk has {names}: the first counts, and the others stay");
            (observer.listen)(&Event::Limits(&job.source, &text));
        }
    }
}

/// The walk over the source, and the look at what the disks have.
struct Look<'a> {
    job: &'a CopyJob,
    observer: &'a EventObserver<'a>,
    disks: &'a Disks,
    /// The directory of each disk that was looked at last.
    dirs: Vec<LastDir>,
    items: Sorter,
    failed: u64,
    twice: Twice,
    /// The size of an index of all; bytes.
    lines: u64,
    last_used: usize,
    /// The space on each disk of what killed runs began, and this one goes on with or removes; bytes.
    parts: Vec<u64>,
    broken: Option<io::Error>,
}

impl<'a> Look<'a> {
    fn new(run: &OutputRun<'a>, disks: &'a Disks) -> Self {
        Self {
            job: run.job,
            observer: run.observer,
            disks,
            dirs: disks.each.iter().map(|_| LastDir::default()).collect(),
            items: Sorter::new(by_path),
            failed: 0,
            twice: Twice::default(),
            lines: 0,
            last_used: 0,
            parts: disks.each.iter().map(|_| 0).collect(),
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
        let home = there.first().map(|(number, _)| *number);
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
        }
        if there.len() > 1 {
            self.twice.number += 1;
            if self.twice.examples.len() < MOST_EXAMPLES {
                self.twice.examples.push(path.clone());
            }
        }
        self.add(path, Item { costs, size: stat.size, home, ..Item::default() })
    }

    fn dir(&mut self, path: &RelPath) -> io::Result<()> {
        let each = self.disks.each.iter().zip(&mut self.dirs).zip(&mut self.parts);
        for ((disk, dir), parts) in each.filter(|((disk, _), _)| disk.was_cut_short) {
            let (Some(root), Some(tag)) = (&disk.dir.handle, disk.dir.volume.parts.output) else {
                continue;
            };
            if let Ok(dir) = dir.enter(root, path) {
                *parts += part_files(dir, tag, false);
            }
        }
        let costs = self.disks.each.iter().map(|disk| disk.free.block).collect();
        let home = if path.is_root() { None } else { self.look(path).first().map(|it| it.0) };
        let item = Item { costs, home, new: Some(0), ..Item::default() };
        self.items.add_json(&item, path.as_bytes())
    }

    /// The disks on which something has this name, and what. What cannot be looked at is there: the copy says why.
    fn look(&mut self, path: &RelPath) -> Vec<(usize, Option<Stat>)> {
        let mut found = Vec::new();
        for (number, (disk, dir)) in self.disks.each.iter().zip(&mut self.dirs).enumerate() {
            let Some(root) = &disk.dir.handle else { continue };
            match dir.stat(root, path, false) {
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

/// A line of the index has so many bytes beside the path, or fewer.
const LINE: u64 = 80;

/// A directory that the pass over the items is in.
struct OpenDir {
    path: Vec<u8>,
    item: Item,
    is_empty: bool,
}

/// The items again, with directories that say what is new in them; an empty one is an entry like any other. Those that
/// the index has on a disk which is not here get that as a hint.
fn arrange(items: &SortedRecords, hints: Option<&SortedRecords>) -> io::Result<SortedRecords> {
    let (mut arranged, mut way) = (Sorter::new(by_path), Vec::<OpenDir>::new());
    let mut hints = hints.map(JoinReader::of).transpose()?;
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
            arranged.add_json(&Item { new, ..item }, &path)?;
        }
        let Some(PathRecord { words, path }) = record else { return arranged.finish() };
        let mut item: Item = serde_json::from_slice(words)?;
        if item.new.is_some() {
            way.push(OpenDir { path: path.to_vec(), item, is_empty: true });
            continue;
        }
        if let Some(hints) = &mut hints
            && let Some(hint) = hints.last_of(path)?
        {
            item.hint = PathRecord::of(&hint).text().parse().ok();
        }
        if let Some(above) = way.last_mut() {
            above.is_empty = false;
            above.item.include(&item);
        }
        arranged.add_json(&item, path)?;
    }
}

impl Item {
    /// Adds what is in this directory, as far as it is new.
    fn include(&mut self, below: &Self) {
        let new = match (below.new, below.home) {
            (Some(0), _) | (None, Some(_)) => return,
            (Some(new), _) => new,
            (None, None) => 1,
        };
        self.new = Some(self.new.unwrap_or(0) + new);
        for (sum, cost) in self.costs.iter_mut().zip(&below.costs) {
            *sum = sum.saturating_add(*cost);
        }
    }
}
