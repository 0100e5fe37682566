//! Which files have their parity together, as a set, and making it: they are read once, held against the digests that
//! are listed, and their slices are added up to recovery slices.
//!
//! Where these are too much for memory, the files are read once for their sums, and then column by column: the first
//! megabytes of all slices, then the next. Each slice must then be what it was at first.

use std::{collections::BTreeMap, fs::File, io, io::Seek, io::SeekFrom, ops::Range, thread};

use md5::{Digest as _, Md5};

use crate::sys::{Attributes, Dir, Medium};
use crate::{hash::Digest, hash::Hasher, path::RelPath, sys, sys::stat::Stat, tree::LastDir};

use super::packets::{Listed, MOST_SLICES, PAGE, SetFile, SetFiles, SliceSum};
use super::sums::{Sums, Term, constants, power};
use super::{md5_lanes::Md5s, packets};

/// Recovery slices in memory, and …
pub const MOST_SUMS: u64 = 176 << 20;

/// … slices that are read while those before them are added. There are two of them, and vector tables beside: 256 MiB
/// in all are what is promised.
pub const MOST_BATCH: usize = 32 << 20;

/// Bytes of products between two looks whether the run is to stop: half a second on two cores.
const MOST_PRODUCTS: u64 = 1 << 32;

/// The longest part of a slice that is read at once.
pub const MOST_PIECE: u64 = 16 << 20;

/// The beginning of a file, which has a sum of its own.
const HEAD: usize = 16 << 10;

/// Slices of a set, if it has not more files.
const USUAL_SLICES: u64 = 2000;

/// What describes a file takes no less: twice the packets of its name, size and sums, and a line of ours; bytes.
const LEAST_DESCRIPTION: u64 = 2 * (64 + 56 + 64 + 16 + 20 + 140);

/// A share of 10,000 parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Share(pub u32);

impl Share {
    /// The least that the parity of a file of so many bytes takes: its share, and what describes it, twice.
    pub fn least(self, size: u64) -> u64 {
        let parity = u128::from(size) * u128::from(self.0) / 10_000;
        if size == 0 { 0 } else { LEAST_DESCRIPTION.saturating_add(parity as u64) }
    }

    /// Recovery slices for so many.
    pub fn of(self, slices: usize) -> usize {
        (slices * self.0 as usize).div_ceil(10_000).clamp(1, MOST_SLICES)
    }
}

/// A file that a set is to have.
#[derive(Clone, Debug)]
pub struct Wanted {
    pub path: RelPath,
    pub digest: Digest,
    /// The line that lists it.
    pub line: u64,
}

/// Why a listed file is in no set.
#[derive(Debug)]
pub enum Unfit {
    /// It cannot be opened or read.
    Io(io::Error),
    /// It was not the same at the end, in words.
    Changed(&'static str),
    /// It has another digest.
    Differs(Option<Digest>),
}

/// The files that do not fit, by their numbers.
pub type AllUnfit = BTreeMap<usize, Unfit>;

/// The means of a run.
#[derive(Clone, Copy)]
pub struct Means<'a> {
    pub root: &'a Dir,
    pub share: Share,
    /// Bytes of recovery slices in memory: [`MOST_SUMS`].
    pub memory: u64,
    pub is_to_stop: &'a (dyn Fn() -> bool + Sync),
    /// Is told how many bytes were read.
    pub on_read: &'a (dyn Fn(u64) + Sync),
}

/// A set of which it is known what it will be, but not its sums.
pub struct PlannedSet {
    pub set: SetFiles,
    /// The metadata of each of its files, …
    stats: Vec<Stat>,
    /// … their numbers among those that were wanted, and their first slices.
    numbers: Vec<usize>,
    starts: Vec<usize>,
    recovery: usize,
}

/// The size of the slices of files of these sizes.
fn slice_of(sizes: &[u64]) -> u64 {
    let largest = sizes.iter().copied().max().unwrap_or(0).max(1);
    if largest <= PAGE {
        return largest.next_multiple_of(4);
    }
    let most = USUAL_SLICES.max(sizes.len() as u64);
    let slices = |pages: u64| sizes.iter().map(|size| size.div_ceil(pages * PAGE)).sum::<u64>();
    let (mut too_small, mut enough) = (0, largest.div_ceil(PAGE));
    while too_small + 1 < enough {
        let pages = u64::midpoint(too_small, enough);
        *(if slices(pages) <= most { &mut enough } else { &mut too_small }) = pages;
    }
    enough * PAGE
}

impl PlannedSet {
    /// Looks at the files that are wanted. `None` if none fits.
    pub fn look(wanted: &[Wanted], means: &Means<'_>, unfit: &mut AllUnfit) -> Option<Self> {
        let (mut last, mut found) = (LastDir::default(), Vec::new());
        for (number, wanted) in wanted.iter().enumerate() {
            let head = |last: &mut LastDir| {
                let (file, stat) = last.open_file(means.root, &wanted.path)?;
                let mut head = vec![0; HEAD];
                let read = Medium::any(&file).fill_at(&mut head, 0)?;
                let listed = Listed::new(wanted.digest, &stat, &Attributes::read(&file)?);
                Ok::<_, io::Error>((stat, Md5::digest(&head[..read]).into(), listed))
            };
            match head(&mut last) {
                Ok((Stat { size: 0, .. }, ..)) => {
                    unfit.insert(number, Unfit::Changed("it was emptied meanwhile"));
                }
                Ok((stat, head, listed)) => {
                    let (path, size, listed) = (wanted.path.clone(), stat.size, Some(listed));
                    let file = SetFile { path, size, md5: [0; 16], head, sums: Vec::new(), listed };
                    found.push((file, stat, number));
                }
                Err(error) => drop(unfit.insert(number, Unfit::Io(error))),
            }
        }
        let sizes: Vec<u64> = found.iter().map(|(file, ..)| file.size).collect();
        let slice = slice_of(&sizes);
        found.sort_by_cached_key(|(file, ..)| file.order());
        let (mut starts, mut all) = (Vec::new(), 0);
        for (file, ..) in &mut found {
            starts.push(all);
            let none = SliceSum { md5: [0; 16], crc: 0 };
            file.sums = vec![none; file.size.div_ceil(slice) as usize];
            all += file.sums.len();
        }
        let (mut files, mut stats, mut numbers) = (Vec::new(), Vec::new(), Vec::new());
        for (file, stat, number) in found {
            files.push(file);
            stats.push(stat);
            numbers.push(number);
        }
        let (set, recovery) = (SetFiles { slice, files }, means.share.of(all));
        (all > 0).then_some(Self { set, stats, numbers, starts, recovery })
    }

    /// Number of its recovery slices.
    pub fn recovery(&self) -> usize {
        self.recovery
    }

    /// Writes its parity into an empty file. What does not fit, or changes meanwhile, is noted in `unfit`, and then
    /// what was written is worthless. False if the run is to stop.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn write(
        &mut self,
        to: &mut File,
        means: &Means<'_>,
        unfit: &mut AllUnfit,
    ) -> io::Result<bool> {
        let slice = self.set.slice;
        let most = means.memory / self.recovery as u64 / PAGE * PAGE;
        let width = slice.min(most.clamp(PAGE, MOST_PIECE));
        let bases = constants(self.set.slices());
        let described = self.set.describe(self.recovery as u32, means.share.0).len();
        let id = self.set.id();
        let mut sums: Vec<Md5> =
            (0..self.recovery).map(|row| packets::begin_recovery(&id, row as u32)).collect();
        let is_again = width < slice;
        if is_again {
            // The files are read for their sums alone.
            let mut pass = Pass::new(self, means, 0..slice, width);
            while pass.next(unfit).is_some() {}
            let Pass { read, crcs, .. } = pass;
            if !self.take_files(read, unfit) || (means.is_to_stop)() {
                return Ok(false);
            }
            self.take_slices(Md5s::new(bases.len(), slice), crcs, false, unfit);
        }
        let mut md5s = Md5s::new(bases.len(), slice);
        let mut crcs = vec![crc32fast::Hasher::new(); bases.len()];
        let mut from = 0;
        while from < slice {
            let len = width.min(slice - from);
            let mut added = Sums::new(self.recovery, len as usize);
            let mut pass = Pass::new(self, means, from..from + len, len);
            (pass.is_again, pass.crcs) = (is_again, crcs);
            let mut batch = pass.batch(&bases, self.recovery, unfit);
            while !batch.terms.is_empty() {
                let mut next = Batch::default();
                let beside = || next = pass.batch(&bases, self.recovery, unfit);
                let column = from..from + len;
                thread::scope(|scope| {
                    scope.spawn(|| md5s.take(batch.first, &batch.pieces(), &column));
                    added.add(&batch.terms, beside);
                });
                batch = next;
            }
            let Pass { read, crcs: taken, .. } = pass;
            crcs = taken;
            if !self.take_files(read, unfit) || (means.is_to_stop)() {
                return Ok(false);
            }
            for (row, sum) in sums.iter_mut().enumerate() {
                let bytes = added.sum(row);
                sum.update(&bytes);
                let (at, _) = self.set.recovery_place(described, row);
                to.seek(SeekFrom::Start(at + packets::HEAD as u64 + 4 + from))?;
                sys::write_all(&mut *to, &bytes)?;
            }
            from += len;
        }
        if !self.take_slices(md5s, crcs, is_again, unfit) {
            return Ok(false);
        }
        for (row, sum) in sums.into_iter().enumerate() {
            let (at, len) = self.set.recovery_place(described, row);
            to.seek(SeekFrom::Start(at))?;
            sys::write_all(&mut *to, &packets::recovery_head(&id, row as u32, len, sum))?;
        }
        let description = self.set.describe(self.recovery as u32, means.share.0);
        for at in [0, self.set.recovery_place(described, self.recovery).0] {
            to.seek(SeekFrom::Start(at))?;
            sys::write_all(&mut *to, &description)?;
        }
        Ok(true)
    }

    /// Takes the sums of files that a pass read; false if one does not fit.
    fn take_files(&mut self, read: Vec<(usize, packets::Sum)>, unfit: &AllUnfit) -> bool {
        for (number, md5) in read {
            self.set.files[number].md5 = md5;
        }
        unfit.is_empty()
    }

    /// Takes the sums of slices, where they were read twice beside those of the first time; false if one was another
    /// then.
    fn take_slices(
        &mut self,
        md5s: Md5s,
        crcs: Vec<crc32fast::Hasher>,
        is_again: bool,
        unfit: &mut AllUnfit,
    ) -> bool {
        let mut each =
            md5s.finish().zip(crcs).map(|(md5, crc)| SliceSum { md5, crc: crc.finalize() });
        for (file, number) in self.set.files.iter_mut().zip(&self.numbers) {
            for (sum, now) in file.sums.iter_mut().zip(&mut each) {
                if is_again && sum.crc != now.crc {
                    let why = "it was not the same when it was read again";
                    unfit.insert(*number, Unfit::Changed(why));
                }
                *sum = now;
            }
        }
        unfit.is_empty()
    }
}

/// A part of a slice.
struct Piece {
    /// The number of the slice in its set.
    slice: usize,
    bytes: Vec<u8>,
}

/// Pieces of slices that follow each other.
#[derive(Default)]
struct Batch {
    first: usize,
    terms: Vec<Term>,
}

impl Batch {
    fn pieces(&self) -> Vec<&[u8]> {
        self.terms.iter().map(|term| &term.bytes[..]).collect()
    }
}

/// A file that is being read.
struct OpenFile {
    file: File,
    listed: Hasher,
    md5: Md5,
}

/// One reading of all files of a set: whole, or a column of it.
struct Pass<'a> {
    plan: &'a PlannedSet,
    means: &'a Means<'a>,
    column: Range<u64>,
    /// Bytes that are read at once.
    width: u64,
    /// Whether the files were read before, so that their own sums are known.
    is_again: bool,
    last: LastDir,
    /// The file, the slice of it and the place in that which is next.
    at: (usize, u64, u64),
    open: Option<OpenFile>,
    /// Files that were read to their ends, with their sums.
    read: Vec<(usize, packets::Sum)>,
    /// The sums of the slices as far as they were read.
    crcs: Vec<crc32fast::Hasher>,
}

pub fn zeros(len: u64, mut take: impl FnMut(&[u8])) {
    const ZEROS: [u8; 4096] = [0; 4096];
    let mut left = len;
    while left > 0 {
        let now = left.min(ZEROS.len() as u64);
        take(&ZEROS[..now as usize]);
        left -= now;
    }
}

impl<'a> Pass<'a> {
    fn new(plan: &'a PlannedSet, means: &'a Means<'a>, column: Range<u64>, width: u64) -> Self {
        Self {
            plan,
            means,
            width,
            is_again: false,
            last: LastDir::default(),
            at: (0, 0, column.start),
            column,
            open: None,
            read: Vec::new(),
            crcs: vec![crc32fast::Hasher::new(); plan.set.slices()],
        }
    }

    /// The next slices, with what they are multiplied by for each recovery slice.
    fn batch(&mut self, bases: &[u16], recovery: usize, unfit: &mut AllUnfit) -> Batch {
        let (mut batch, mut weight) = (Batch::default(), 0);
        let most = MOST_BATCH.min((MOST_PRODUCTS / recovery.max(1) as u64) as usize);
        while weight < most
            && let Some(Piece { slice, bytes }) = self.next(unfit)
        {
            let factors: Vec<u16> =
                (0..recovery as u32).map(|row| power(bases[slice], row)).collect();
            weight += bytes.len() + 32 * factors.len();
            if batch.terms.is_empty() {
                batch.first = slice;
            }
            batch.terms.push(Term { bytes, factors });
        }
        batch
    }

    /// The next piece. `None` at the end, or if the run is to stop.
    fn next(&mut self, unfit: &mut AllUnfit) -> Option<Piece> {
        while !(self.means.is_to_stop)() {
            let (number, slice, place) = self.at;
            let file = self.plan.set.files.get(number)?;
            if slice == file.sums.len() as u64 {
                if let Err(why) = self.close(number) {
                    unfit.insert(self.plan.numbers[number], why);
                }
                self.at = (number + 1, 0, self.column.start);
                continue;
            }
            let start = slice * self.plan.set.slice;
            let end = (place + self.width).min(self.column.end);
            let (from, to) = ((start + place).min(file.size), (start + end).min(file.size));
            match self.take(number, from..to, end - place, slice) {
                Ok(bytes) => {
                    let is_last = end == self.column.end;
                    self.at = if is_last {
                        (number, slice + 1, self.column.start)
                    } else {
                        (number, slice, end)
                    };
                    let slice = self.plan.starts[number] + slice as usize;
                    return Some(Piece { slice, bytes });
                }
                Err(why) => {
                    unfit.insert(self.plan.numbers[number], why);
                    (self.open, self.at) = (None, (number + 1, 0, self.column.start));
                }
            }
        }
        None
    }

    /// Reads a piece, with zeros behind it to be `len` bytes long for its sum.
    fn take(
        &mut self,
        number: usize,
        range: Range<u64>,
        len: u64,
        slice: u64,
    ) -> Result<Vec<u8>, Unfit> {
        let open = match self.open.take() {
            Some(open) => open,
            None => self.open(number)?,
        };
        let open = self.open.insert(open);
        let wanted = (range.end - range.start) as usize;
        let mut bytes = vec![0; wanted];
        let read = Medium::any(&open.file).fill_at(&mut bytes, range.start).map_err(Unfit::Io)?;
        if read != wanted {
            return Err(Unfit::Changed("it shrank while it was read"));
        }
        (self.means.on_read)(read as u64);
        let crc = &mut self.crcs[self.plan.starts[number] + slice as usize];
        crc.update(&bytes);
        zeros(len - wanted as u64, |zeros| crc.update(zeros));
        if !self.is_again {
            open.listed.update(&bytes);
            open.md5.update(&bytes);
        }
        Ok(bytes)
    }

    fn open(&mut self, number: usize) -> Result<OpenFile, Unfit> {
        let (file, before) = (&self.plan.set.files[number], &self.plan.stats[number]);
        let (opened, now) = self.last.open_file(self.means.root, &file.path).map_err(Unfit::Io)?;
        if let Some(change) = before.change(&now) {
            return Err(Unfit::Changed(change));
        }
        let algorithm = file.listed.map(|listed| listed.digest.algorithm()).unwrap_or_default();
        Ok(OpenFile { file: opened, listed: algorithm.start(), md5: Md5::new() })
    }

    /// The end of a file: it must be what it was, and as it is listed.
    fn close(&mut self, number: usize) -> Result<(), Unfit> {
        let Some(open) = self.open.take() else { return Ok(()) };
        let now = Dir::stat_file(&open.file).map_err(Unfit::Io)?;
        if let Some(change) = self.plan.stats[number].change(&now) {
            return Err(Unfit::Changed(change));
        }
        if self.is_again {
            return Ok(());
        }
        let (digest, wanted) = (open.listed.finish(), self.plan.set.files[number].listed);
        if digest.is_none() || digest != wanted.map(|wanted| wanted.digest) {
            return Err(Unfit::Differs(digest));
        }
        self.read.push((number, open.md5.finalize().into()));
        Ok(())
    }
}

// Which files have their parity together: those of about the same size, as they come.

/// A set has no more files, …
const MOST_FILES: usize = 1000;

/// … and no more bytes, unless one file has.
const MOST_BYTES: u64 = 1 << 30;

/// Files of a set are no larger than one of these, and larger than the one before, so that slices suit all of them.
const SIZES: [u64; 5] = [4 << 10, 64 << 10, 1 << 20, 16 << 20, u64::MAX];

/// Files that wait for enough others of their size.
#[derive(Debug, Default)]
struct Bin {
    files: Vec<Wanted>,
    bytes: u64,
}

/// All files that wait, by their sizes.
#[derive(Debug, Default)]
pub struct Bins([Bin; SIZES.len()]);

impl Bins {
    /// Adds a file of so many bytes, before and behind which a set may be complete.
    pub fn add(&mut self, wanted: Wanted, size: u64) -> [Option<Vec<Wanted>>; 2] {
        let number = SIZES.iter().position(|most| size <= *most).unwrap_or(SIZES.len() - 1);
        let Some(bin) = self.0.get_mut(number) else { return [None, None] };
        let is_over = bin.bytes > 0 && bin.bytes.saturating_add(size) > MOST_BYTES;
        let before = is_over.then(|| std::mem::take(bin).files);
        bin.bytes = bin.bytes.saturating_add(size);
        bin.files.push(wanted);
        [before, (bin.files.len() >= MOST_FILES).then(|| std::mem::take(bin).files)]
    }

    /// Bytes of the files that wait.
    pub fn bytes(&self) -> u64 {
        self.0.iter().map(|bin| bin.bytes).sum()
    }

    /// Takes the files of the size of which most bytes wait.
    pub fn take_largest(&mut self) -> Vec<Wanted> {
        let largest = self.0.iter_mut().max_by_key(|bin| bin.bytes);
        largest.map(std::mem::take).unwrap_or_default().files
    }

    /// The sets that the rest comes to.
    pub fn rest(self) -> impl Iterator<Item = Vec<Wanted>> {
        self.0.into_iter().map(|bin| bin.files).filter(|files| !files.is_empty())
    }
}

#[cfg(test)]
mod make_tests {
    use super::*;

    #[test]
    fn slices_are_as_many_as_usual() {
        let slices = |sizes: &[u64]| {
            let slice = slice_of(sizes);
            (slice, sizes.iter().map(|size| size.div_ceil(slice)).sum::<u64>())
        };
        assert_eq!(slices(&[1]), (4, 1));
        assert_eq!(slices(&[9; 1000]), (12, 1000));
        assert_eq!(slices(&[4097, 5]), (4096, 3));
        assert_eq!(slices(&[1 << 30]), (132 * 4096, 1986));
        let (slice, all) = slices(&[3 << 20; 999]);
        assert!(slice % 4096 == 0 && (1000..=2000).contains(&all));
        assert_eq!((Share(500).least(0), Share(500).least(1 << 40)), (0, (1 << 40) / 20 + 720));
        assert_eq!((Share(500).of(1986), Share(500).of(1), Share(10_000).of(7)), (100, 1, 7));
    }
}

#[cfg(test)]
mod bins_tests {
    use super::*;
    use crate::{hash::Digest, path::RelPath};

    #[test]
    fn files_of_about_the_same_size_are_together() {
        let wanted = |name: &str| Wanted {
            path: RelPath::parse(name.as_bytes()).unwrap(),
            digest: Digest::sha256([0; 32]),
            line: 1,
        };
        let mut bins = Bins::default();
        for number in 1..MOST_FILES {
            assert_eq!(
                bins.add(wanted(&number.to_string()), 100).map(|set| set.is_some()),
                [false; 2]
            );
        }
        let [_, full] = bins.add(wanted("last"), 1);
        assert_eq!(full.unwrap().len(), MOST_FILES);
        bins.add(wanted("small"), 7);
        bins.add(wanted("large"), MOST_BYTES - 5);
        let [before, full] = bins.add(wanted("larger"), MOST_BYTES + 1);
        assert!(before.unwrap().len() == 1 && full.is_none());
        assert_eq!(bins.bytes(), 7 + MOST_BYTES + 1);
        assert_eq!(bins.take_largest().len(), 1);
        assert_eq!(bins.rest().map(|set| set.len()).collect::<Vec<_>>(), [1]);
    }
}
