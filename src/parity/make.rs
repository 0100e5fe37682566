//! Making the parity of the files of a set: they are read once, held against the digests that are listed, and their
//! slices are added up to recovery slices.
//!
//! Where these are too much for memory, the files are read once for their sums, and then column by column: the first
//! megabytes of all slices, then the next. Each slice must then be what it was at first.

use std::{collections::BTreeMap, fs::File, io, io::Seek, io::SeekFrom};

use md5::{Digest as _, Md5};

use crate::sys::{Attributes, Medium};
use crate::{hash::Digest, path::RelPath, sys, sys::Dir, sys::stat::Stat, tree::LastDir};

use super::packets::{self, Listed, MOST_SLICES, PAGE, SetFile, SetFiles, SliceSum};
use super::sums::{Job, Sums, do_in_turn};
use super::{
    field::constants, pass::Pass, taken::FileSums, taken::ListedDigests, taken::SliceSums,
};

/// Bytes of recovery slices in memory: at 5 % those of a file of 4 GiB, the longest on many cards, so that it is read
/// once. …
pub const MOST_SUMS: u64 = 206 << 20;

/// … What is read while what was read before is added, twice, and vector tables beside: 256 MiB in all are what is
/// promised.
pub const LEAST_BATCH: u64 = 18 << 20;

/// As much where recovery slices leave room for it.
const MOST_BATCH: u64 = 64 << 20;

/// Bytes that are read at a time, beside so many of recovery slices.
pub const fn batch(sums: u64) -> u64 {
    let batch = LEAST_BATCH + MOST_SUMS.saturating_sub(sums) / 2;
    if batch < MOST_BATCH { batch } else { MOST_BATCH }
}

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
    /// True if the files are on a disk that turns: one is read after the other.
    pub turns: bool,
    pub is_to_stop: &'a (dyn Fn() -> bool + Sync),
    /// Is told how many bytes were read.
    pub on_read: &'a (dyn Fn(u64) + Sync),
}

/// A set of which it is known what it will be, but not its sums.
pub struct PlannedSet {
    pub set: SetFiles,
    /// The metadata of each of its files, …
    pub(super) stats: Vec<Stat>,
    /// … their numbers among those that were wanted, and their first slices.
    pub(super) numbers: Vec<usize>,
    pub(super) starts: Vec<usize>,
    /// The order in which its files are read, that in which they were wanted: so they mostly lie on the disk. Theirs in
    /// the set is by digests.
    pub(super) reading: Vec<usize>,
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
        let mut reading: Vec<usize> = (0..numbers.len()).collect();
        reading.sort_by_key(|file| numbers[*file]);
        (all > 0).then_some(Self { set, stats, numbers, starts, reading, recovery })
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
        let (slice, all) = (self.set.slice, self.set.slices());
        let most = means.memory / self.recovery as u64 / PAGE * PAGE;
        let width = slice.min(most.clamp(PAGE, MOST_PIECE));
        let bases = constants(all);
        let described = self.set.describe(self.recovery as u32, means.share.0).len();
        let id = self.set.id();
        let mut sums: Vec<Md5> =
            (0..self.recovery).map(|row| packets::begin_recovery(&id, row as u32)).collect();
        let is_again = width < slice;
        if is_again && !self.take_sums(width, means, unfit) {
            return Ok(false);
        }
        let (mut slices, mut from) = (SliceSums::new(all, slice), 0);
        while from < slice {
            let column = from..slice.min(from + width);
            let len = column.end - from;
            let mut added = Sums::new(self.recovery, len as usize);
            let (mut md5s, mut listed) = (FileSums::new(&self.set.files), ListedDigests::default());
            let files = &self.set.files;
            let pass = Pass::new(self, means, column.clone(), len, &bases);
            pass.run(unfit, |batch, beside| {
                // The longest first.
                let mut jobs: Vec<Job<'_>> = Vec::new();
                if !is_again {
                    jobs.push(Box::new(|| md5s.take(batch, files)));
                    jobs.push(Box::new(|| listed.take(batch, files)));
                }
                jobs.push(Box::new(|| slices.take(batch, &column)));
                added.add(&batch.terms, jobs, beside);
            });
            listed.finish(self, unfit);
            if !unfit.is_empty() || (means.is_to_stop)() {
                return Ok(false);
            }
            md5s.finish(&mut self.set.files);
            let mut jobs: Vec<Job<'_>> = Vec::new();
            for (row, sum) in sums.iter_mut().enumerate() {
                let added = &added;
                jobs.push(Box::new(move || added.each_block(row, |bytes| sum.update(bytes))));
            }
            let mut written = Ok(());
            do_in_turn(jobs, || {
                written = (0..self.recovery).try_for_each(|row| {
                    let (at, _) = self.set.recovery_place(described, row);
                    to.seek(SeekFrom::Start(at + packets::HEAD as u64 + 4 + from))?;
                    sys::write_all(&mut *to, &added.sum(row))
                });
            });
            written?;
            from = column.end;
        }
        if !self.take_slices(slices, is_again, unfit) {
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

    /// Reads the files for their sums alone; false if one does not fit, or the run is to stop.
    fn take_sums(&mut self, width: u64, means: &Means<'_>, unfit: &mut AllUnfit) -> bool {
        let (mut md5s, mut listed) = (FileSums::new(&self.set.files), ListedDigests::default());
        let mut slices = SliceSums::new(self.set.slices(), self.set.slice);
        let (column, files) = (0..self.set.slice, &self.set.files);
        Pass::new(self, means, column, width, &[]).run(unfit, |batch, beside| {
            let md5s: Job<'_> = Box::new(|| md5s.take(batch, files));
            let listed = Box::new(|| listed.take(batch, files));
            do_in_turn(vec![md5s, listed, Box::new(|| slices.take_crcs(batch))], beside);
        });
        listed.finish(self, unfit);
        md5s.finish(&mut self.set.files);
        self.take_slices(slices, false, unfit) && !(means.is_to_stop)()
    }

    /// Takes the sums of slices, where they were read twice beside those of the first time; false if one was another
    /// then, or if something does not fit.
    fn take_slices(&mut self, slices: SliceSums, is_again: bool, unfit: &mut AllUnfit) -> bool {
        for number in slices.finish(&mut self.set.files, is_again) {
            let why = "it was not the same when it was read again";
            unfit.insert(self.numbers[number], Unfit::Changed(why));
        }
        unfit.is_empty()
    }
}

/// Hands out so many zeros.
pub fn zeros(len: u64, mut take: impl FnMut(&[u8])) {
    const ZEROS: [u8; 4096] = [0; 4096];
    let mut left = len;
    while left > 0 {
        let now = left.min(ZEROS.len() as u64);
        take(&ZEROS[..now as usize]);
        left -= now;
    }
}

#[cfg(test)]
mod tests {
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
