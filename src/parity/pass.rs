//! One reading of the files of a set, whole or a column of their slices: batch by batch, each of which is worked on
//! while the next one is read.

use std::{fs::File, ops::Range};

use crate::sys::{Dir, Medium, stat::Stat};
use crate::tree::LastDir;

use super::make::{AllUnfit, MOST_BATCH, Means, PlannedSet, Unfit};
use super::{field::power, packets::SetFile, sums::Term};

/// Bytes of products between two looks whether the run is to stop: half a second on two cores.
const MOST_PRODUCTS: u64 = 1 << 32;

/// Which part of which slice something is.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    /// The number of its file in the set.
    pub file: usize,
    /// The number of the slice in the set.
    pub slice: usize,
    /// Bytes of the part, with the zeros behind the end of the file.
    pub len: u64,
}

/// Parts of slices, as they were read.
#[derive(Default)]
pub struct Batch {
    pub places: Vec<Place>,
    /// What was read of each, and what it is multiplied by.
    pub terms: Vec<Term>,
}

impl Batch {
    pub fn pieces(&self) -> Vec<&[u8]> {
        self.terms.iter().map(|term| &term.bytes[..]).collect()
    }

    /// Each part with what was read of it.
    pub fn each(&self) -> impl Iterator<Item = (&Place, &[u8])> {
        self.places.iter().zip(&self.terms).map(|(place, term)| (place, &term.bytes[..]))
    }
}

/// The reading.
pub struct Pass<'a> {
    plan: &'a PlannedSet,
    means: &'a Means<'a>,
    column: Range<u64>,
    /// Bytes of a slice that are read at once.
    width: u64,
    /// What each slice is multiplied by for the second recovery slice; nothing where only sums are made.
    bases: &'a [u16],
    last: LastDir,
    /// The file, by its turn, the slice of it and the place in that which is next.
    at: (usize, u64, u64),
    open: Option<File>,
    /// What the batch before the last was read into, which is read into again where as much is wanted.
    spare: Vec<Vec<u8>>,
}

impl<'a> Pass<'a> {
    pub fn new(
        plan: &'a PlannedSet,
        means: &'a Means<'a>,
        column: Range<u64>,
        width: u64,
        bases: &'a [u16],
    ) -> Self {
        let (last, at) = (LastDir::default(), (0, 0, column.start));
        Self { plan, means, width, bases, last, at, column, open: None, spare: Vec::new() }
    }

    /// Reads everything. `work` is done on each batch, and has to call what reads the next one.
    pub fn run(mut self, unfit: &mut AllUnfit, mut work: impl FnMut(&Batch, &mut dyn FnMut())) {
        let mut batch = self.batch(unfit);
        while !batch.terms.is_empty() {
            let mut next = Batch::default();
            work(&batch, &mut || next = self.batch(unfit));
            self.spare = batch.terms.into_iter().map(|term| term.bytes).collect();
            batch = next;
        }
    }

    /// The next parts, with what they are multiplied by for each recovery slice.
    fn batch(&mut self, unfit: &mut AllUnfit) -> Batch {
        let rows = if self.bases.is_empty() { 0 } else { self.plan.recovery() as u32 };
        let most = MOST_BATCH.min((MOST_PRODUCTS / u64::from(rows.max(1))) as usize);
        let (mut batch, mut weight) = (Batch::default(), 0);
        while weight < most
            && let Some((place, bytes)) = self.next(unfit)
        {
            let factors: Vec<u16> =
                (0..rows).map(|row| power(self.bases[place.slice], row)).collect();
            weight += bytes.len() + 32 * factors.len();
            batch.places.push(place);
            batch.terms.push(Term { bytes, factors });
        }
        batch
    }

    /// The next part. `None` at the end, or if the run is to stop.
    fn next(&mut self, unfit: &mut AllUnfit) -> Option<(Place, Vec<u8>)> {
        while !(self.means.is_to_stop)() {
            let (turn, slice, place) = self.at;
            let number = *self.plan.reading.get(turn)?;
            let file = &self.plan.set.files[number];
            if slice == file.sums.len() as u64 {
                if let Err(why) = self.close(number) {
                    unfit.insert(self.plan.numbers[number], why);
                }
                self.at = (turn + 1, 0, self.column.start);
                continue;
            }
            let start = slice * self.plan.set.slice;
            let end = (place + self.width).min(self.column.end);
            match self.take(number, (start + place).min(file.size)..(start + end).min(file.size)) {
                Ok(bytes) => {
                    self.at = match end == self.column.end {
                        true => (turn, slice + 1, self.column.start),
                        false => (turn, slice, end),
                    };
                    let slice = self.plan.starts[number] + slice as usize;
                    return Some((Place { file: number, slice, len: end - place }, bytes));
                }
                Err(why) => {
                    unfit.insert(self.plan.numbers[number], why);
                    (self.open, self.at) = (None, (turn + 1, 0, self.column.start));
                }
            }
        }
        None
    }

    fn take(&mut self, number: usize, range: Range<u64>) -> Result<Vec<u8>, Unfit> {
        let open = match self.open.take() {
            Some(open) => open,
            None => self.open(number)?,
        };
        let open = self.open.insert(open);
        let wanted = (range.end - range.start) as usize;
        let spare = self.spare.pop().filter(|spare| spare.len() == wanted);
        let mut bytes = spare.unwrap_or_else(|| vec![0; wanted]);
        let read = Medium::any(open).fill_at(&mut bytes, range.start).map_err(Unfit::Io)?;
        if read != wanted {
            return Err(Unfit::Changed("it shrank while it was read"));
        }
        (self.means.on_read)(read as u64);
        Ok(bytes)
    }

    fn open(&mut self, number: usize) -> Result<File, Unfit> {
        let SetFile { path, .. } = &self.plan.set.files[number];
        let (file, now) = self.last.open_file(self.means.root, path).map_err(Unfit::Io)?;
        self.is_same(number, &now).map(|()| file)
    }

    /// The end of a file, which must be what it was.
    fn close(&mut self, number: usize) -> Result<(), Unfit> {
        let Some(file) = self.open.take() else { return Ok(()) };
        let now = Dir::stat_file(&file).map_err(Unfit::Io)?;
        self.is_same(number, &now)
    }

    fn is_same(&self, number: usize, now: &Stat) -> Result<(), Unfit> {
        match self.plan.stats[number].change(now) {
            Some(change) => Err(Unfit::Changed(change)),
            None => Ok(()),
        }
    }
}
