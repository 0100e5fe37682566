//! Which slices of a set are bad, and what they were.
//!
//! Each recovery slice is a sum of all slices, each multiplied by a constant of its own. As many recovery slices as
//! slices are bad are equations for these. Their solution is, for each bad slice, again a sum of good slices and
//! recovery slices: so nothing but such sums is computed, as when parity is made.

use std::{collections::HashMap, fs::File, io, ops::Range};

use md5::{Digest as _, Md5};

use crate::{
    error::is_absent, hash::Digest, path::RelPath, state::rescues::path_of, sys::Dir, sys::Medium,
    tree::LastDir,
};

use super::{
    JoinedFiles,
    field::{Solution, constants, power, product, solve},
    make::{LEAST_BATCH, MOST_PIECE, MOST_SUMS, zeros},
    packets::{PAGE, RecoverySlice, SetFile, SetFiles, StoredSet, Sum},
    sums::{Sums, Term},
};

/// Reads slices of the files of a set, where they are.
struct SliceReader<'a> {
    root: &'a Dir,
    set: &'a SetFiles,
    last: LastDir,
    /// The file that was opened last, if it could be.
    open: Option<(usize, Option<File>)>,
}

impl<'a> SliceReader<'a> {
    fn new(root: &'a Dir, set: &'a SetFiles) -> Self {
        Self { root, set, last: LastDir::default(), open: None }
    }

    /// Of a slice of a file, what is in this part of it, as far as the file is said to go; `None` if it cannot be read.
    fn part(&mut self, file: usize, slice: u64, part: Range<u64>) -> Option<Vec<u8>> {
        let known = self.set.files.get(file)?;
        if self.open.as_ref().is_none_or(|(open, _)| *open != file) {
            let rescued = path_of(&known.path);
            let opened = self.last.open_file(self.root, &known.path).or_else(|error| {
                // What was rescued of it is as good where the sums hold.
                let path = rescued.filter(|_| is_absent(&error)).ok_or(error)?;
                self.last.open_file(self.root, &path)
            });
            self.open = Some((file, opened.ok().map(|(file, _)| file)));
        }
        let (_, Some(open)) = self.open.as_ref()? else { return None };
        let start = slice * self.set.slice;
        let [from, to] = [part.start, part.end].map(|at| (start + at).min(known.size));
        let mut bytes = vec![0; (to - from) as usize];
        let read = Medium::any(open).fill_at(&mut bytes, from).ok()?;
        (read == bytes.len()).then_some(bytes)
    }

    /// True if a slice has its sums.
    fn is_good(&mut self, file: usize, slice: u64) -> bool {
        let (len, mut at) = (self.set.slice, 0);
        let (mut md5, mut crc) = (Md5::new(), crc32fast::Hasher::new());
        while at < len {
            let end = (at + MOST_PIECE).min(len);
            let Some(bytes) = self.part(file, slice, at..end) else { return false };
            md5.update(&bytes);
            crc.update(&bytes);
            zeros(end - at - bytes.len() as u64, |zeros| {
                md5.update(zeros);
                crc.update(zeros);
            });
            at = end;
        }
        let known = self.set.files.get(file).and_then(|file| file.sums.get(slice as usize));
        known.is_some_and(|sum| sum.md5 == Sum::from(md5.finalize()) && sum.crc == crc.finalize())
    }
}

/// The slices of a set, by the numbers of their files and their own in these.
fn each_slice(set: &SetFiles) -> impl Iterator<Item = (usize, u64)> + '_ {
    let of = |(number, file): (usize, &SetFile)| {
        (0..file.sums.len() as u64).map(move |slice| (number, slice))
    };
    set.files.iter().enumerate().flat_map(of)
}

/// Files that will be whole by then, each with the digest that it has then.
pub type WillBeWhole = HashMap<RelPath, Digest>;

/// The numbers of the slices of a set that are bad or missing, but of files that `will_be_whole` with the content that
/// the set is of; `None` if `is_to_stop` said so.
pub fn bad_slices(
    set: &SetFiles,
    root: &Dir,
    will_be_whole: &WillBeWhole,
    is_to_stop: &dyn Fn() -> bool,
) -> Option<Vec<usize>> {
    let (mut reader, mut bad) = (SliceReader::new(root, set), Vec::new());
    let will_be = |file: &SetFile| {
        let digest = will_be_whole.get(&file.path);
        digest.is_some_and(|digest| file.listed.is_some_and(|listed| listed.digest == *digest))
    };
    let will_be: Vec<bool> = set.files.iter().map(will_be).collect();
    for (number, (file, slice)) in each_slice(set).enumerate() {
        if is_to_stop() {
            return None;
        }
        if !will_be[file] && !reader.is_good(file, slice) {
            bad.push(number);
        }
    }
    Some(bad)
}

/// The way from what is left of a set to the slices that are bad.
pub struct Repair<'a> {
    stored: &'a StoredSet,
    bad: Vec<usize>,
    solution: Solution,
    bases: Vec<u16>,
    /// Bytes of repaired slices in memory.
    pub(super) memory: u64,
}

impl<'a> Repair<'a> {
    /// The repair of these slices; `None` if there are not enough recovery slices.
    pub fn of(stored: &'a StoredSet, bad: Vec<usize>) -> Option<Self> {
        let bases = constants(stored.files.slices());
        let exponents = stored.recovery.iter().map(|slice| slice.exponent);
        let row = |exponent| bad.iter().map(|bad| power(bases[*bad], exponent)).collect();
        let solution = solve(exponents.map(row), bad.len()).filter(|_| !bad.is_empty())?;
        Some(Self { stored, bad, solution, bases, memory: MOST_SUMS })
    }

    /// The place of a slice in what [`write`](Self::write) writes, if it was bad.
    pub fn place(&self, slice: usize) -> Option<u64> {
        self.bad.binary_search(&slice).ok().map(|row| row as u64 * self.stored.files.slice)
    }

    /// Writes what the bad slices were, one after the other. They are not proven by this. False if `is_to_stop` said
    /// so.
    ///
    /// # Errors
    /// What is left cannot be read, or this cannot be written.
    pub fn write(
        &self,
        root: &Dir,
        parity: &JoinedFiles,
        mut put: impl FnMut(u64, &[u8]) -> io::Result<()>,
        is_to_stop: &dyn Fn() -> bool,
    ) -> io::Result<bool> {
        let (slice, rows) = (self.stored.files.slice, self.bad.len());
        let width = slice.min((self.memory / rows as u64 / PAGE * PAGE).clamp(PAGE, MOST_PIECE));
        let mut from = 0;
        while from < slice {
            let part = from..(from + width).min(slice);
            let mut sums = Sums::new(rows, (part.end - part.start) as usize);
            let mut reader = SliceReader::new(root, &self.stored.files);
            let mut slices = each_slice(&self.stored.files).enumerate();
            let mut recovery = self.solution.equations.iter().enumerate();
            loop {
                let (mut terms, mut weight) = (Vec::new(), 0);
                while weight < LEAST_BATCH as usize && !is_to_stop() {
                    let term = match slices.find(|(slice, _)| self.place(*slice).is_none()) {
                        Some((number, (file, slice))) => {
                            self.good(number, reader.part(file, slice, part.clone()))?
                        }
                        None => match recovery.next() {
                            Some((row, number)) => self.recovery(parity, row, *number, &part)?,
                            None => break,
                        },
                    };
                    weight += term.bytes.len() + 32 * term.factors.len();
                    terms.push(term);
                }
                if is_to_stop() {
                    return Ok(false);
                }
                if terms.is_empty() {
                    break;
                }
                sums.add(&terms, Vec::new(), || ());
            }
            for row in 0..rows {
                put(row as u64 * slice + from, &sums.sum(row))?;
            }
            from = part.end;
        }
        Ok(true)
    }

    /// A good slice, multiplied by what it has in the sums that the equations' right sides are.
    fn good(&self, number: usize, bytes: Option<Vec<u8>>) -> io::Result<Term> {
        let changed = || io::Error::other("a good slice could not be read again");
        let bytes = bytes.ok_or_else(changed)?;
        let exponents = self.solution.equations.iter().map(|equation| self.exponent(*equation));
        let powers: Vec<u16> = exponents.map(|it| power(self.bases[number], it)).collect();
        let sum = |factors: &Vec<u16>| {
            factors.iter().zip(&powers).fold(0, |sum, (a, b)| sum ^ product(*a, *b))
        };
        Ok(Term { bytes, factors: self.solution.factors.iter().map(sum).collect() })
    }

    fn recovery(
        &self,
        parity: &JoinedFiles,
        row: usize,
        number: usize,
        part: &Range<u64>,
    ) -> io::Result<Term> {
        let RecoverySlice { at, .. } = self.stored.recovery[number];
        let mut bytes = vec![0; (part.end - part.start) as usize];
        let read = parity.fill_at(&mut bytes, at + part.start)?;
        if read != bytes.len() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(Term { bytes, factors: self.solution.factors.iter().map(|all| all[row]).collect() })
    }

    fn exponent(&self, equation: usize) -> u32 {
        self.stored.recovery[equation].exponent
    }
}
