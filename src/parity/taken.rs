//! The sums of files and of their slices, taken of batches in the order in which these are read. Each is a series of
//! its own, so that they are taken side by side.

use std::ops::Range;

use md5::{Digest as _, Md5};

use crate::hash::Hasher;

use super::make::{AllUnfit, PlannedSet, Unfit, zeros};
use super::packets::{SetFile, SliceSum, Sum};
use super::{md5_lanes::Md5s, pass::Batch};

/// A sum of each file, one after the other.
struct InTurn<S> {
    /// The file that is under way, what was taken of it, and its sum so far.
    open: Option<(usize, u64, S)>,
    /// Those of files that were taken to their ends.
    done: Vec<(usize, S)>,
}

impl<S> InTurn<S> {
    fn new() -> Self {
        Self { open: None, done: Vec::new() }
    }

    fn take(
        &mut self,
        batch: &Batch,
        files: &[SetFile],
        start: impl Fn(&SetFile) -> S,
        add: impl Fn(&mut S, &[u8]),
    ) {
        for (place, bytes) in batch.each() {
            let file = &files[place.file];
            let known = self.open.take().filter(|(number, ..)| *number == place.file);
            let (number, taken, mut sum) = known.unwrap_or_else(|| (place.file, 0, start(file)));
            add(&mut sum, bytes);
            match taken + bytes.len() as u64 {
                taken if taken == file.size => self.done.push((number, sum)),
                taken => self.open = Some((number, taken, sum)),
            }
        }
    }
}

/// MD5 of files.
pub struct FileSums(InTurn<Md5>);

impl FileSums {
    pub fn new() -> Self {
        Self(InTurn::new())
    }

    pub fn take(&mut self, batch: &Batch, files: &[SetFile]) {
        self.0.take(batch, files, |_| Md5::new(), |md5, bytes| md5.update(bytes));
    }

    /// Gives the files their sums.
    pub fn finish(self, files: &mut [SetFile]) {
        self.0.done.into_iter().for_each(|(number, md5)| files[number].md5 = md5.finalize().into());
    }
}

/// The digests that files are listed by.
pub struct ListedDigests(InTurn<Hasher>);

impl ListedDigests {
    pub fn new() -> Self {
        Self(InTurn::new())
    }

    pub fn take(&mut self, batch: &Batch, files: &[SetFile]) {
        let algorithm = |file: &SetFile| file.listed.map(|listed| listed.digest.algorithm());
        let start = |file: &SetFile| algorithm(file).unwrap_or_default().start();
        self.0.take(batch, files, start, Hasher::update);
    }

    /// Notes the files that have another digest than they are listed with.
    pub fn finish(self, plan: &PlannedSet, unfit: &mut AllUnfit) {
        for (number, hasher) in self.0.done {
            let (digest, wanted) = (hasher.finish(), plan.set.files[number].listed);
            if digest.is_none() || digest != wanted.map(|wanted| wanted.digest) {
                unfit.entry(plan.numbers[number]).or_insert(Unfit::Differs(digest));
            }
        }
    }
}

/// The sums of all slices: CRC-32 of what was read, and MD5 where parity is made of it.
pub struct SliceSums {
    md5s: Md5s,
    crcs: Vec<crc32fast::Hasher>,
}

impl SliceSums {
    pub fn new(slices: usize, len: u64) -> Self {
        Self { md5s: Md5s::new(slices, len), crcs: vec![crc32fast::Hasher::new(); slices] }
    }

    /// Takes CRC-32 alone.
    pub fn take_crcs(&mut self, batch: &Batch) {
        for (place, bytes) in batch.each() {
            let crc = &mut self.crcs[place.slice];
            crc.update(bytes);
            zeros(place.len - bytes.len() as u64, |zeros| crc.update(zeros));
        }
    }

    /// Takes a column of slices.
    pub fn take(&mut self, batch: &Batch, column: &Range<u64>) {
        self.take_crcs(batch);
        let slices: Vec<usize> = batch.places.iter().map(|place| place.slice).collect();
        self.md5s.take(&slices, &batch.pieces(), column);
    }

    /// Gives the slices their sums. Those that were read before must have the CRC-32 that they had: the numbers of the
    /// files of which one has not.
    pub fn finish(self, files: &mut [SetFile], is_again: bool) -> Vec<usize> {
        let each = self.md5s.finish().zip(self.crcs);
        let mut each = each.map(|(md5, crc)| SliceSum { md5: Sum::from(md5), crc: crc.finalize() });
        let mut changed = Vec::new();
        for (number, file) in files.iter_mut().enumerate() {
            for (sum, now) in file.sums.iter_mut().zip(&mut each) {
                if is_again && sum.crc != now.crc {
                    changed.push(number);
                }
                *sum = now;
            }
        }
        changed
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{parity::pass::Place, parity::sums::Term, path::RelPath};

    #[test]
    fn a_slice_that_is_another_the_second_time_is_found() {
        let sums_of = |bytes: &[u8]| {
            let places = vec![Place { file: 0, slice: 0, len: 4 }];
            let terms = vec![Term { bytes: bytes.to_vec(), factors: Vec::new() }];
            let mut sums = SliceSums::new(1, 4);
            sums.take(&Batch { places, terms }, &(0..4));
            sums
        };
        let (path, none) = (RelPath::parse(b"a").unwrap(), SliceSum { md5: [0; 16], crc: 0 });
        let (md5, head, sums) = ([0; 16], [0; 16], vec![none]);
        let mut files = [SetFile { path, size: 3, md5, head, sums, listed: None }];
        assert!(sums_of(b"abc").finish(&mut files, false).is_empty());
        assert!(sums_of(b"abc").finish(&mut files, true).is_empty());
        assert_eq!(sums_of(b"abd").finish(&mut files, true), [0]);
    }
}
