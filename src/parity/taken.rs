//! The sums of files and of their slices, taken of batches in the order in which these are read. Each is a series of
//! its own, so that they are taken side by side.

use std::{collections::BTreeMap, ops::Range};

use crate::hash::{Backend, Hasher};

use super::make::{AllUnfit, PlannedSet, Unfit, zeros};
use super::packets::{SetFile, SliceSum};
use super::{md5_lanes::Md5s, md5_lanes::Part, pass::Batch};

/// MD5 of files, of as many side by side as a batch has parts of.
pub struct FileSums {
    md5s: Md5s,
    /// Bytes of each that were taken.
    taken: Vec<u64>,
}

impl FileSums {
    pub fn new(files: &[SetFile]) -> Self {
        Self { md5s: Md5s::new(files.len()), taken: vec![0; files.len()] }
    }

    pub fn take(&mut self, batch: &Batch, files: &[SetFile]) {
        let parts = batch.of_files().into_iter().map(|(series, pieces)| {
            let size = files[series].size;
            self.taken[series] += pieces.iter().map(|piece| piece.len() as u64).sum::<u64>();
            let end = (self.taken[series] == size).then_some(size);
            Part { series, pieces, zeros: 0, end }
        });
        self.md5s.take(parts.collect());
    }

    /// Gives the files their sums, those that were taken to their ends.
    pub fn finish(self, files: &mut [SetFile]) {
        for ((file, md5), taken) in files.iter_mut().zip(self.md5s.finish()).zip(self.taken) {
            if taken == file.size {
                file.md5 = md5;
            }
        }
    }
}

/// A digest under way.
struct Running {
    hasher: Hasher,
    /// Bytes that were taken.
    taken: u64,
}

/// The digests that files are listed by, of as many side by side as a batch has parts of.
#[derive(Default)]
pub struct ListedDigests {
    under_way: BTreeMap<usize, Running>,
    done: Vec<(usize, Hasher)>,
}

impl ListedDigests {
    pub fn take(&mut self, batch: &Batch, files: &[SetFile]) {
        let pieces = batch.of_files();
        for number in pieces.keys() {
            self.under_way.entry(*number).or_insert_with(|| {
                let algorithm = files[*number].listed.map(|listed| listed.digest.algorithm());
                Running { hasher: algorithm.unwrap_or_default().start(), taken: 0 }
            });
        }
        let most = pieces.values().map(Vec::len).max().unwrap_or_default();
        for turn in 0..most {
            let next = self.under_way.iter_mut().filter_map(|(number, running)| {
                let bytes = *pieces.get(number)?.get(turn)?;
                running.taken += bytes.len() as u64;
                Some((&mut running.hasher, bytes))
            });
            Hasher::update_together(Backend::best(), next.collect());
        }
        for number in pieces.into_keys() {
            let is_whole = |it: &Running| it.taken == files[number].size;
            if self.under_way.get(&number).is_some_and(is_whole)
                && let Some(running) = self.under_way.remove(&number)
            {
                self.done.push((number, running.hasher));
            }
        }
    }

    /// Notes the files that have another digest than they are listed with.
    pub fn finish(self, plan: &PlannedSet, unfit: &mut AllUnfit) {
        for (number, hasher) in self.done {
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
    /// Bytes of a slice.
    len: u64,
}

impl SliceSums {
    pub fn new(slices: usize, len: u64) -> Self {
        Self { md5s: Md5s::new(slices), crcs: vec![crc32fast::Hasher::new(); slices], len }
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
        let end = (column.end == self.len).then_some(self.len);
        let parts = batch.each().map(|(place, bytes)| {
            let (pieces, zeros) = (vec![bytes], place.len - bytes.len() as u64);
            Part { series: place.slice, pieces, zeros, end }
        });
        self.md5s.take(parts.collect());
    }

    /// Gives the slices their sums. Those that were read before must have the CRC-32 that they had: the numbers of the
    /// files of which one has not.
    pub fn finish(self, files: &mut [SetFile], is_again: bool) -> Vec<usize> {
        let each = self.md5s.finish().zip(self.crcs);
        let mut each = each.map(|(md5, crc)| SliceSum { md5, crc: crc.finalize() });
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
