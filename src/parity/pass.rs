//! One reading of the files of a set, whole or a column of their slices: batch by batch, each of which is worked on
//! while the next one is read. A batch has parts of two files, where these are large, because their MD5s take half the
//! time side by side.

use std::{collections::BTreeMap, collections::VecDeque, fs::File, ops::Range};

use crate::sys::{Dir, Medium, stat::Stat};
use crate::tree::LastDir;

use super::make::{AllUnfit, Means, PlannedSet, Unfit, batch};
use super::{field::power, packets::SetFile, sums::Term};

/// Bytes of products between two looks whether the run is to stop: half a second on two cores.
const MOST_PRODUCTS: u64 = 1 << 32;

/// Large files that are read in turn, each for its share of a batch: 9 MiB at least, for which a disk that takes 8 ms
/// to go to the other reads 60 ms. Where it is known that it turns it stays with one: one MD5 keeps up with it.
const SIDE_BY_SIDE: usize = 2;

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
    /// Each part with what was read of it.
    pub fn each(&self) -> impl Iterator<Item = (&Place, &[u8])> {
        self.places.iter().zip(&self.terms).map(|(place, term)| (place, &term.bytes[..]))
    }

    /// What was read of each file, in its order, without what is behind the end of one.
    pub fn of_files(&self) -> BTreeMap<usize, Vec<&[u8]>> {
        let mut pieces = BTreeMap::<usize, Vec<&[u8]>>::new();
        for (place, bytes) in self.each().filter(|(_, bytes)| !bytes.is_empty()) {
            pieces.entry(place.file).or_default().push(bytes);
        }
        pieces
    }
}

/// A file that is read.
struct Open {
    number: usize,
    file: File,
    /// The slice of it and the place in that which are next.
    slice: u64,
    place: u64,
    /// Bytes that were read since another file was.
    stretch: u64,
}

/// The reading.
pub struct Pass<'a> {
    plan: &'a PlannedSet,
    means: &'a Means<'a>,
    column: Range<u64>,
    /// Bytes of a slice that are read at once, …
    width: u64,
    /// … and of a batch.
    most: u64,
    /// What each slice is multiplied by for the second recovery slice; nothing where only sums are made.
    bases: &'a [u16],
    last: LastDir,
    /// How many files were begun.
    turn: usize,
    /// Those that are open, the first of which is read next.
    open: VecDeque<Open>,
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
        let (last, open, spare) = (LastDir::default(), VecDeque::new(), Vec::new());
        let rows = if bases.is_empty() { 0 } else { plan.recovery() as u64 };
        let most = batch(rows * width).min(MOST_PRODUCTS / rows.max(1));
        Self { plan, means, width, most, bases, last, column, turn: 0, open, spare }
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
        let (mut batch, mut weight) = (Batch::default(), 0);
        while weight < self.most as usize
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
            self.choose(unfit);
            let mut open = self.open.pop_front()?;
            let (number, slice) = (open.number, self.plan.set.slice);
            let SetFile { size, sums, .. } = &self.plan.set.files[number];
            if open.slice == sums.len() as u64 {
                if let Err(why) = self.close(&open) {
                    unfit.insert(self.plan.numbers[number], why);
                }
                continue;
            }
            let start = open.slice * slice;
            let end = (open.place + self.width).min(self.column.end);
            match self.take(&open.file, (start + open.place).min(*size)..(start + end).min(*size)) {
                Ok(bytes) => {
                    let slice = self.plan.starts[number] + open.slice as usize;
                    let place = Place { file: number, slice, len: end - open.place };
                    (open.slice, open.place) = match end == self.column.end {
                        true => (open.slice + 1, self.column.start),
                        false => (open.slice, end),
                    };
                    open.stretch += bytes.len() as u64;
                    self.open.push_front(open);
                    return Some((place, bytes));
                }
                Err(why) => drop(unfit.insert(self.plan.numbers[number], why)),
            }
        }
        None
    }

    /// Puts the file first that is read next: another one if that had its stretch, or the next that can be opened.
    fn choose(&mut self, unfit: &mut AllUnfit) {
        let side_by_side = if self.means.turns { 1 } else { SIDE_BY_SIDE };
        let most = (self.most / side_by_side as u64).min(self.means.memory);
        if self.open.front().is_some_and(|open| open.stretch < most) {
            return;
        }
        while self.open.len() < side_by_side
            && let Some(&number) = self.plan.reading.get(self.turn)
        {
            self.turn += 1;
            match self.open(number) {
                Ok(open) => {
                    self.open.push_front(open);
                    return;
                }
                Err(why) => drop(unfit.insert(self.plan.numbers[number], why)),
            }
        }
        if let Some(mut open) = self.open.pop_back() {
            open.stretch = 0;
            self.open.push_front(open);
        }
    }

    fn take(&mut self, file: &File, range: Range<u64>) -> Result<Vec<u8>, Unfit> {
        let wanted = (range.end - range.start) as usize;
        let spare = self.spare.pop().filter(|spare| spare.len() == wanted);
        let mut bytes = spare.unwrap_or_else(|| vec![0; wanted]);
        let read = Medium::any(file).fill_at(&mut bytes, range.start).map_err(Unfit::Io)?;
        if read != wanted {
            return Err(Unfit::Changed("it shrank while it was read"));
        }
        (self.means.on_read)(read as u64);
        Ok(bytes)
    }

    fn open(&mut self, number: usize) -> Result<Open, Unfit> {
        let SetFile { path, .. } = &self.plan.set.files[number];
        let (file, now) = self.last.open_file(self.means.root, path).map_err(Unfit::Io)?;
        self.is_same(number, &now)?;
        Ok(Open { number, file, slice: 0, place: self.column.start, stretch: 0 })
    }

    /// The end of a file, which must be what it was.
    fn close(&self, open: &Open) -> Result<(), Unfit> {
        let now = Dir::stat_file(&open.file).map_err(Unfit::Io)?;
        self.is_same(open.number, &now)
    }

    fn is_same(&self, number: usize, now: &Stat) -> Result<(), Unfit> {
        match self.plan.stats[number].change(now) {
            Some(change) => Err(Unfit::Changed(change)),
            None => Ok(()),
        }
    }
}
