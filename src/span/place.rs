//! Which disk gets which file.
//!
//! A directory goes to one disk if that has room for all that is new in it, in the order of a walk; else what is in
//! it is looked at one by one. Where that leaves gaps that are too small for the rest, files go one by one, and at last
//! the largest first. Where disks come later, the rest waits for them.

use std::{io, sync::Arc};

use crate::{
    copy::CopyJob, error::Error, error::Result, path::Examples, span::SPAN, span::disks::Disk,
    span::disks::Disks, span::in_words, span::plan::Item, span::plan::Part, span::plan::SAME,
    tree::PathRecord, tree::SortedRecords, tree::Sorter, tree::by_path, tree::by_words,
    tree::names::is_within,
};

/// What manifest and private record take for a file, beside its path; bytes.
const LINES: u64 = 400;

/// So much of a disk's room is left for what cannot be foreseen, …
const SHARE_LEFT: u64 = 32;

/// … and at most so much; bytes. Beside it so many blocks, for what runs keep for themselves.
const MOST_LEFT: u64 = 64 << 20;
const BLOCKS_LEFT: u64 = 16;

/// Number of bytes of names that are sorted at a time, of all disks together.
const PIECE: usize = 8 << 20;

/// The order in which directories get their disks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SpanOrder {
    /// That of a walk.
    #[default]
    Walk,
    /// The largest first that have room on a disk as a whole, and files that are in none.
    Largest,
}

/// The order in which files get their disks.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Order {
    Together(SpanOrder),
    OneByOne,
    LargestFirst,
}

/// The files while they get their disks.
pub struct Placing {
    rooms: Vec<Room>,
    parts: Vec<(Sorter, Part)>,
    blocked: Sorter,
    /// What is replaced: it has what room new files leave, as it takes that only for a time.
    replaced: Sorter,
    /// The disk with which new files begin.
    first: usize,
    /// A directory of which all that is new goes to one disk.
    whole: Option<(Vec<u8>, usize)>,
    /// The room is not looked at, …
    tries_all: bool,
    /// … and what has none goes where most is.
    forced: bool,
    wanted: Wanted,
    excess: Rest,
    /// Those of them for which even the disk with the most room has too little.
    large: Examples,
    /// The room at first, of the disk that has most and of all.
    largest: u64,
    all: u64,
}

/// The room of a disk.
#[derive(Clone)]
pub struct Room {
    bytes: u64,
    files: u64,
    block: u64,
    /// The directory that got an entry last.
    dir: Vec<u8>,
}

/// Files that wait for disks that are to come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rest {
    pub files: u64,
    pub bytes: u64,
    /// What the least of them takes; bytes.
    pub least: u64,
}

impl Placing {
    /// Gives each item its disk; new ones begin with the `first`.
    ///
    /// # Errors
    /// They cannot be read or sorted.
    pub fn of(
        job: &CopyJob,
        rooms: Vec<Room>,
        items: &SortedRecords,
        first: usize,
        wanted: Wanted,
    ) -> io::Result<Self> {
        let tries_all = !job.options.check_space;
        let mut best = Self { tries_all, wanted, ..Self::begin(rooms.clone(), first) };
        best.place(items, Order::Together(wanted.order))?;
        for order in [Order::OneByOne, Order::LargestFirst] {
            if best.excess.files == 0 || wanted.elsewhere == Some(u64::MAX) {
                break;
            }
            let forced = tries_all && order == Order::LargestFirst;
            let mut placing =
                Self { tries_all, forced, wanted, ..Self::begin(rooms.clone(), first) };
            placing.place(items, order)?;
            if placing.forced || placing.excess.bytes < best.excess.bytes {
                best = placing;
            }
        }
        Ok(best)
    }

    fn begin(rooms: Vec<Room>, first: usize) -> Self {
        let sorter = || Sorter::with_pieces_of(PIECE / rooms.len().max(1), by_path);
        let names = || SortedRecords::Memory(Arc::default());
        let part = || Part { names: names(), entries: 0, dirs: 0, bytes: 0, too_large: u64::MAX };
        Self {
            parts: rooms.iter().map(|_| (sorter(), part())).collect(),
            blocked: Sorter::new(by_path),
            replaced: Sorter::new(by_path),
            first,
            whole: None,
            tries_all: false,
            forced: false,
            wanted: Wanted::default(),
            excess: Rest { files: 0, bytes: 0, least: u64::MAX },
            large: Examples::default(),
            largest: rooms.iter().map(|room| room.bytes).max().unwrap_or(0),
            all: rooms.iter().map(|room| room.bytes).fold(0, u64::saturating_add),
            rooms,
        }
    }

    fn place(&mut self, items: &SortedRecords, order: Order) -> io::Result<()> {
        let sorted = match order {
            Order::LargestFirst => largest_first(items, |item| item.new.is_none().then_some(0))?,
            Order::Together(SpanOrder::Largest) => {
                let fits = |item: &Item, new| {
                    let rooms = self.rooms.iter().zip(&item.costs);
                    rooms.filter(|(room, cost)| room.holds(**cost, new)).map(|it| *it.1).min()
                };
                largest_first(items, |item| item.new.map_or(Some(0), |new| fits(item, new)))?
            }
            _ => items.clone(),
        };
        let is_ranked = matches!(order, Order::LargestFirst | Order::Together(SpanOrder::Largest));
        let (ranked, mut reader) = (if is_ranked { RANK } else { 0 }, sorted.reader());
        while let Some(record) = reader.next_record()? {
            let PathRecord { words, path } = PathRecord::of(record);
            let item: Item = serde_json::from_slice(words.get(ranked..).unwrap_or_default())?;
            self.item(path, &item, order)?;
        }
        let replaced = std::mem::replace(&mut self.replaced, Sorter::new(by_path)).finish()?;
        let (mut reader, before) = (replaced.reader(), self.rooms.clone());
        while let Some(record) = reader.next_record()? {
            let PathRecord { words, path } = PathRecord::of(record);
            let item: Item = serde_json::from_slice(words)?;
            let home = item.home.unwrap_or_default();
            match self.tries_all || self.rooms[home].holds(item.costs[home], 1) {
                true => self.give(home, path, &item)?,
                false => {
                    // What has no room only beside others has it in the next run.
                    if !item.is_same && !before[home].holds(item.costs[home], 1) {
                        let too_large = &mut self.parts[home].1.too_large;
                        *too_large = (*too_large).min(item.filled);
                    }
                    let why = if item.is_same { SAME } else { "" };
                    self.blocked.add(format!("here {home} {why}"), path)?;
                }
            }
        }
        Ok(())
    }

    fn item(&mut self, path: &[u8], item: &Item, order: Order) -> io::Result<()> {
        if self.whole.as_ref().is_some_and(|(dir, _)| !is_within(path, dir)) {
            self.whole = None;
        }
        if let Some(new) = item.new {
            if matches!(order, Order::Together(_)) && self.whole.is_none() && new > 0 {
                let disk =
                    self.turns().find(|disk| self.rooms[*disk].holds(item.costs[*disk], new));
                self.whole = disk.map(|disk| (path.to_vec(), disk));
            }
            return Ok(());
        }
        if let Some(away) = &item.away {
            let (Some(why), Some(at)) = (&away.differs, away.there.at) else { return Ok(()) };
            return self.blocked.add(format!("{at} {why}"), path);
        }
        let cost = |disk: usize| self.rooms[disk].cost(item.costs[disk], path, item.home.is_none());
        let fits = |disk: &usize| self.rooms[*disk].holds(cost(*disk), 1);
        let disk = match item.home {
            Some(home) if item.costs[home] == 0 => Some(home),
            Some(_) => return self.replaced.add_json(item, path),
            None if self.wanted.settles => None,
            None => {
                let whole = self.whole.as_ref().map(|(_, disk)| *disk);
                let wanted = item.hint.into_iter().chain(whole).filter(|it| *it < self.rooms.len());
                wanted.chain(self.turns()).find(fits)
            }
        };
        let emptiest = || (0..self.rooms.len()).max_by_key(|disk| self.rooms[*disk].bytes);
        let Some(disk) = disk.or_else(|| emptiest().filter(|_| self.forced)) else {
            self.exceeds(path, item);
            return Ok(());
        };
        self.give(disk, path, item)
    }

    fn give(&mut self, disk: usize, path: &[u8], item: &Item) -> io::Result<()> {
        let room = &mut self.rooms[disk];
        let (cost, is_new) = (item.costs[disk], item.home.is_none());
        room.take(room.cost(cost, path, is_new), path, is_new);
        let (names, part) = &mut self.parts[disk];
        (part.entries, part.bytes) = (part.entries + 1, part.bytes.saturating_add(item.size));
        part.dirs += u64::from(item.is_dir());
        names.add("", path)
    }

    /// The disks in the order in which new files fill them: from the last that has any on, and then those before it.
    fn turns(&self) -> impl Iterator<Item = usize> + use<> {
        (self.first..self.rooms.len()).chain((0..self.first).rev())
    }

    fn exceeds(&mut self, path: &[u8], item: &Item) {
        let excess = &mut self.excess;
        excess.files += 1;
        excess.bytes = excess.bytes.saturating_add(item.size);
        let cost = item.costs.iter().copied().min().unwrap_or(0);
        excess.least = excess.least.min(cost.saturating_add(LINES + 3 * path.len() as u64));
        if item.costs.iter().all(|cost| *cost > self.largest) {
            self.large.add(path);
        }
    }

    /// What each disk gets, the changed files for which theirs has no room or is not here, and how many files, with
    /// their bytes, wait for disks that are to come.
    ///
    /// # Errors
    /// There is not enough room, or they cannot be sorted.
    pub fn finish(self, job: &CopyJob) -> Result<Placed> {
        let Self { parts, blocked, excess: rest, large, largest, all, wanted, .. } = self;
        let mib = |bytes: u64| bytes.div_ceil(1 << 20);
        let waits = wanted.elsewhere.is_some_and(|room| rest.least <= room);
        if let Some(names) = large.names().filter(|_| !waits) {
            let finding = format!(
                "the disk with the most room has {} MiB, or can hold no file so large: {names}; leave them out (--exclude, \
                 --max-size), or give a larger disk",
                largest >> 20
            );
            return Err(Error::finding(SPAN, &job.source, finding));
        }
        if rest.files > 0 && !waits {
            let finding = format!(
                "the room of {} MiB on all disks{} is not enough: {} of {} MiB have none; give one more, make room, leave \
                 files out (--exclude), or copy as much as fits (--no-space-check)",
                all >> 20,
                if wanted.elsewhere.is_some() { " that are here" } else { "" },
                in_words(rest.files),
                mib(rest.bytes)
            );
            return Err(Error::finding(SPAN, &job.source, finding));
        }
        let fail = |error| Error::io("sort the names of", &job.source, error);
        let part = |(names, part): (Sorter, Part)| Ok(Part { names: names.finish()?, ..part });
        let parts = parts.into_iter().map(part).collect::<io::Result<_>>().map_err(fail)?;
        let blocked = blocked.finish().map_err(fail)?;
        Ok(Placed { parts, blocked, rest })
    }
}

/// What became of the files.
pub struct Placed {
    /// What each disk gets.
    pub parts: Vec<Part>,
    /// Changed files for which their disk has no room, or is not here; the words say which, and why they stay
    /// otherwise.
    pub blocked: SortedRecords,
    /// Files that wait for disks that are to come.
    pub rest: Rest,
}

/// How they are to be placed.
#[derive(Clone, Copy, Default)]
pub struct Wanted {
    pub order: SpanOrder,
    /// The most room that a disk has which is not here and may come, if there is one: what has none here waits for it.
    pub elsewhere: Option<u64>,
    /// Nothing new gets a disk, as it is not known what one has that is not here.
    pub settles: bool,
}

/// What is used of a room of so many bytes, in blocks of this size.
pub fn usable(bytes: u64, block: u64) -> u64 {
    let left = (bytes / SHARE_LEFT).min(MOST_LEFT).saturating_add(BLOCKS_LEFT * block);
    bytes.saturating_sub(left)
}

impl Room {
    /// That of each disk, with what its `parts` take, and without that of an index of so many bytes.
    pub fn of_all(disks: &Disks, parts: impl Iterator<Item = u64>, index: u64) -> Vec<Self> {
        let room = |(disk, parts): (&Disk, u64)| {
            let (free, dir) = (disk.free, Vec::new());
            // While the new index is written, the old one is there.
            let bytes = usable(free.bytes.saturating_add(parts), free.block);
            let bytes = bytes.saturating_sub(2 * index);
            let files = free.files.unwrap_or(u64::MAX);
            Self { bytes, files, block: free.block, dir }
        };
        disks.each.iter().zip(parts).map(room).collect()
    }

    /// What an entry takes here: a new one also what lists it, and the directories that it is the first in.
    fn cost(&self, content: u64, path: &[u8], is_new: bool) -> u64 {
        if !is_new {
            return content;
        }
        let same = self.dir.iter().zip(path).take_while(|(one, other)| one == other).count();
        let dirs = memchr::memchr_iter(b'/', &path[same..]).count() as u64;
        let lists = LINES + 3 * path.len() as u64;
        content.saturating_add(lists).saturating_add(dirs * self.block)
    }

    fn holds(&self, bytes: u64, files: u64) -> bool {
        bytes <= self.bytes && files <= self.files
    }

    fn take(&mut self, cost: u64, path: &[u8], is_new: bool) {
        self.bytes = self.bytes.saturating_sub(cost);
        self.files = self.files.saturating_sub(u64::from(is_new));
        let end = memchr::memrchr(b'/', path).map_or(0, |slash| slash + 1);
        self.dir.clear();
        self.dir.extend_from_slice(&path[..end]);
    }
}

/// Number of digits by which items are sorted: those of a rank, and of a place.
const DIGITS: usize = 20;
const RANK: usize = 2 * DIGITS;

/// The items, the largest first. What `weigh` gives a weight to stays together with all that is in it, in its order;
/// with a weight of 0 that is its size. Without one it is left out if it is a directory of which nothing is wanted.
fn largest_first(
    items: &SortedRecords,
    weigh: impl Fn(&Item) -> Option<u64>,
) -> io::Result<SortedRecords> {
    let (mut sorted, mut reader, mut place) = (Sorter::new(by_words), items.reader(), 0_u64);
    let mut whole: Option<(Vec<u8>, u64)> = None;
    while let Some(record) = reader.next_record()? {
        let PathRecord { words, path } = PathRecord::of(record);
        let item: Item = serde_json::from_slice(words)?;
        whole = whole.take_if(|(dir, _)| is_within(path, dir));
        let weight = match (&whole, weigh(&item)) {
            (Some((_, weight)), _) => *weight,
            (None, None) => continue,
            (None, Some(weight)) if item.new.is_some() => {
                whole = Some((path.to_vec(), weight));
                weight
            }
            (None, Some(_)) => item.size,
        };
        place += 1;
        let text = String::from_utf8_lossy(words);
        let rank = u64::MAX - weight;
        sorted.add(format!("{rank:0DIGITS$}{place:0DIGITS$}{text}"), path)?;
    }
    sorted.finish()
}
