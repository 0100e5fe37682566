//! Sums of slices that are multiplied by elements of the field.
//!
//! A product is linear in the bits of the factors, so to multiply by a constant is to add up bits, and which ones is
//! known before. There are two ways, of which the first is eight times as fast:
//! - The low bytes of words are laid apart from the high ones and multiplied by matrices of bits, where the processor
//!   has an instruction for that. Several slices are added at a time, because then a sum is loaded and stored once for
//!   all of them: 160 GB/s of products by one, 245 by two, 270 by four (a core of an AMD EPYC, family 26, model 2).
//! - Words are laid out as bit planes: 16 planes, the first with the lowest bits of 2,048 words, and so on. Each plane
//!   of the product is the sum of some of these; which of them, four at a time, is looked up in a table of their 16
//!   sums: 32 GB/s there. The compiler makes vector instructions of that on every machine, as wide as it has them.

use std::{array, thread};

use super::field::product;
use crate::sys;
use crate::sys::{BitMatrices, LINE, PartedWords, WideWork, WordMatrix};

/// Words of a plane.
const LANES: usize = 128;

type Plane = [u16; LANES];

/// Words of 16 planes.
type Block = PartedWords;

const ZEROS: Block = PartedWords([0; 16 * LANES]);

/// Bytes of a block.
const BLOCK: usize = size_of::<Block>();

/// The sums of all subsets of four planes, for the four fours of a block.
type Subsets = [[Plane; 16]; 4];

/// For each bit of a product, the bits that it is the sum of.
type Taken = [u16; 16];

fn taken_by(factor: u16) -> Taken {
    let mut taken = [0; 16];
    for from in 0..16 {
        let column = product(factor, 1 << from);
        for (to, taken) in taken.iter_mut().enumerate() {
            *taken |= (column >> to & 1) << from;
        }
    }
    taken
}

/// The same as matrices.
fn matrix_of(factor: u16) -> WordMatrix {
    let taken = taken_by(factor);
    let part = |to: usize, shift: u32| {
        u64::from_be_bytes(array::from_fn(|bit| (taken[to + bit] >> shift) as u8))
    };
    [part(0, 0), part(0, 8), part(8, 0), part(8, 8)]
}

fn planes(block: &mut Block) -> &mut [Plane] {
    block.0.as_chunks_mut().0
}

/// Exchanges the bits of a word's row with its planes; twice is nothing.
#[inline(always)]
fn turn(block: &mut Block) {
    let planes = planes(block);
    for (step, mask) in [(8, 0x00ff_u16), (4, 0x0f0f), (2, 0x3333), (1, 0x5555)] {
        for row in (0..16).filter(|row| row & step == 0) {
            let (before, after) = planes.split_at_mut(row + step);
            for (a, b) in before[row].iter_mut().zip(&mut after[0]) {
                let other = ((*a >> step) ^ *b) & mask;
                *b ^= other;
                *a ^= other << step;
            }
        }
    }
}

/// Lays the low bytes of words apart from the high ones: the words of each second line become the other halves of those
/// of the line before. Twice is nothing.
#[inline(always)]
fn part(block: &mut Block) {
    for pair in block.0.as_chunks_mut::<{ 2 * LINE }>().0 {
        let (low, high) = pair.split_at_mut(LINE);
        for (low, high) in low.iter_mut().zip(high) {
            (*low, *high) = ((*low & 0xff) | (*high << 8), (*low >> 8) | (*high & 0xff00));
        }
    }
}

#[inline(always)]
fn subsets_of(block: &Block) -> Box<Subsets> {
    let mut subsets = Box::new([[[0; LANES]; 16]; 4]);
    let planes: &[Plane] = block.0.as_chunks().0;
    for (four, sums) in planes.chunks_exact(4).zip(subsets.iter_mut()) {
        for subset in 1..16_usize {
            // The same without its lowest plane, which was made before.
            let (rest, low) = (subset & (subset - 1), subset.trailing_zeros() as usize);
            for lane in 0..LANES {
                sums[subset][lane] = sums[rest][lane] ^ four[low][lane];
            }
        }
    }
    subsets
}

/// Adds the products of a block to a row of sums.
#[inline(always)]
fn add_products(sums: &mut [Block], subsets: &Subsets, factors: &[Taken]) {
    for (sum, taken) in sums.iter_mut().zip(factors) {
        for (plane, taken) in planes(sum).iter_mut().zip(taken) {
            let [a, b, c, d] =
                array::from_fn(|four| &subsets[four][usize::from(taken >> (4 * four)) & 15]);
            for lane in 0..LANES {
                plane[lane] ^= a[lane] ^ b[lane] ^ c[lane] ^ d[lane];
            }
        }
    }
}

/// A slice, or a part of one, and what it is multiplied by for each sum.
pub struct Term {
    pub bytes: Vec<u8>,
    pub factors: Vec<u16>,
}

/// The addition of the products of all terms to some of the blocks of all sums.
struct Addition<'a, Factor> {
    /// The place of the first of them in each sum.
    start: usize,
    rows: usize,
    blocks: &'a mut [Block],
    terms: &'a [Term],
    factors: &'a [Vec<Factor>],
}

/// Takes the words of a term at a place, and zeros where it ends; false if it does not go so far.
#[inline(always)]
fn take(block: &mut Block, term: &Term, start: usize) -> bool {
    let bytes = term.bytes.get(start..).unwrap_or_default();
    let (pairs, last) = bytes[..bytes.len().min(BLOCK)].as_chunks();
    let (words, rest) = block.0.split_at_mut(pairs.len());
    words.iter_mut().zip(pairs).for_each(|(word, pair)| *word = u16::from_le_bytes(*pair));
    rest.fill(0);
    if let ([last], [word, ..]) = (last, rest) {
        *word = (*last).into();
    }
    !bytes.is_empty()
}

impl WideWork for Addition<'_, Taken> {
    #[inline(always)]
    fn run(self) {
        let mut block = ZEROS;
        for (place, sums) in self.blocks.chunks_mut(self.rows).enumerate() {
            let start = (self.start + place) * BLOCK;
            for (term, factors) in self.terms.iter().zip(self.factors) {
                if take(&mut block, term, start) {
                    turn(&mut block);
                    add_products(sums, &subsets_of(&block), factors);
                }
            }
        }
    }
}

/// The same by an instruction of the processor.
struct ByMatrices<'a>(BitMatrices, Addition<'a, WordMatrix>);

impl ByMatrices<'_> {
    /// Adds the products of some terms at a place.
    #[inline(always)]
    fn add<const TERMS: usize>(
        matrices: BitMatrices,
        sums: &mut [Block],
        start: usize,
        terms: &[Term; TERMS],
        factors: &[Vec<WordMatrix>; TERMS],
        blocks: &mut [Block; TERMS],
    ) {
        let mut is_any = false;
        for (block, term) in blocks.iter_mut().zip(terms) {
            is_any |= take(block, term, start);
            part(block);
        }
        for (row, sum) in sums.iter_mut().enumerate().filter(|_| is_any) {
            let by = factors.each_ref().map(|factors| &factors[row]);
            matrices.add_products(sum, blocks.each_ref(), by);
        }
    }
}

impl WideWork for ByMatrices<'_> {
    #[inline(always)]
    fn run(self) {
        let Self(matrices, Addition { start, rows, blocks, terms, factors }) = self;
        let (fours, rest) = terms.as_chunks::<4>();
        let (factors_of_fours, factors_of_rest) = factors.as_chunks::<4>();
        let (mut four, mut one) = ([ZEROS; 4], [ZEROS]);
        for (place, sums) in blocks.chunks_mut(rows).enumerate() {
            let start = (start + place) * BLOCK;
            for (terms, factors) in fours.iter().zip(factors_of_fours) {
                Self::add(matrices, sums, start, terms, factors, &mut four);
            }
            for (term, factors) in rest.iter().zip(factors_of_rest) {
                let (term, factors) = (array::from_ref(term), array::from_ref(factors));
                Self::add(matrices, sums, start, term, factors, &mut one);
            }
        }
    }
}

/// Sums of products of slices, all of one length.
pub struct Sums {
    /// If so, blocks are parted, and turned otherwise.
    matrices: Option<BitMatrices>,
    rows: usize,
    len: usize,
    /// The blocks of all sums that are at the same place, side by side.
    blocks: Vec<Block>,
}

impl Sums {
    /// So many sums of this length, in bytes.
    pub fn new(rows: usize, len: usize) -> Self {
        Self::by(BitMatrices::look(), rows, len)
    }

    fn by(matrices: Option<BitMatrices>, rows: usize, len: usize) -> Self {
        let blocks = vec![ZEROS; rows * len.div_ceil(BLOCK)];
        Self { matrices, rows, len, blocks }
    }

    /// Adds terms, each no longer than the sums and with a factor for each of these, behind other `jobs`; meanwhile
    /// `beside` runs on this thread.
    pub fn add<'a>(&'a mut self, terms: &'a [Term], jobs: Vec<Job<'a>>, beside: impl FnOnce()) {
        match self.matrices {
            Some(matrices) => self.share_out(
                terms,
                matrix_of,
                |part| sys::in_wide_registers(ByMatrices(matrices, part)),
                jobs,
                beside,
            ),
            None => {
                self.share_out(terms, taken_by, |part| sys::in_wide_registers(part), jobs, beside)
            }
        }
    }

    fn share_out<'a, Factor: Sync>(
        &'a mut self,
        terms: &'a [Term],
        factor: impl Fn(u16) -> Factor,
        work: impl Fn(Addition<'_, Factor>) + Sync,
        jobs: Vec<Job<'a>>,
        beside: impl FnOnce(),
    ) {
        let of = |term: &Term| term.factors.iter().map(|it| factor(*it)).collect();
        let factors: Vec<Vec<Factor>> = terms.iter().map(of).collect();
        let (rows, places) = (self.rows.max(1), self.len.div_ceil(BLOCK));
        let share = places.div_ceil(PARTS * cores()).max(1);
        let mut all: Vec<Job<'_>> = jobs;
        for (number, blocks) in self.blocks.chunks_mut(share * rows).enumerate() {
            let start = number * share;
            let part = Addition { start, rows, blocks, terms, factors: &factors };
            let work = &work;
            all.push(Box::new(move || work(part)));
        }
        do_in_turn(all, beside);
    }

    /// The sum of this number.
    pub fn sum(&self, row: usize) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.len);
        self.each_block(row, |block| bytes.extend_from_slice(block));
        bytes
    }

    /// Hands out the sum of this number, block by block.
    pub fn each_block(&self, row: usize, mut take: impl FnMut(&[u8])) {
        let (mut left, mut bytes) = (self.len, [0; BLOCK]);
        for block in self.blocks.iter().skip(row).step_by(self.rows.max(1)) {
            let mut block = *block;
            match self.matrices {
                Some(_) => part(&mut block),
                None => turn(&mut block),
            }
            bytes
                .as_chunks_mut()
                .0
                .iter_mut()
                .zip(block.0)
                .for_each(|(to, it)| *to = it.to_le_bytes());
            let len = left.min(BLOCK);
            take(&bytes[..len]);
            left -= len;
        }
    }
}

// Doing many things by as many threads as there are cores.

/// One of these things.
pub type Job<'a> = Box<dyn FnOnce() + Send + 'a>;

/// Parts of the work of one core, so that none waits long for the others at the end: 32 MiB of slices take 17 ms of a
/// core, where other jobs take 50.
const PARTS: usize = 16;

fn cores() -> usize {
    thread::available_parallelism().map_or(1, |cores| cores.get())
}

/// Does jobs in their order, by as many threads as there are cores; meanwhile `beside` runs on this one.
pub fn do_in_turn(jobs: Vec<Job<'_>>, beside: impl FnOnce()) {
    let (give, take) = crossbeam_channel::unbounded::<Job<'_>>();
    // Fails only without a receiver, and there is one.
    jobs.into_iter().for_each(|job| drop(give.send(job)));
    drop(give);
    thread::scope(|scope| {
        for _ in 0..cores() {
            scope.spawn(|| take.iter().for_each(|job| job()));
        }
        beside();
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_of_slices_are_sums_of_words() {
        let slice = |seed: usize, len: usize| -> Vec<u8> {
            (0..len).map(|at| (((at + 1) * (seed + 3) * 7919) >> 3) as u8).collect()
        };
        for len in [2, 4, 100, 4096, 4100, 3 * 4096 + 8] {
            // So many that some are added four at a time.
            let terms: Vec<Term> = (0..7_u16)
                .map(|it| Term {
                    bytes: slice(it.into(), if it % 3 == 1 { len / 2 } else { len }),
                    factors: vec![it + 2, 1, 0xfffe - it],
                })
                .collect();
            let mut wanted = vec![vec![0_u8; len]; 3];
            for (row, sum) in wanted.iter_mut().enumerate() {
                for Term { bytes, factors } in &terms {
                    for (to, from) in sum.chunks_mut(2).zip(bytes.chunks(2)) {
                        let word = u16::from_le_bytes([from[0], from.get(1).copied().unwrap_or(0)]);
                        let [low, high] = product(word, factors[row]).to_le_bytes();
                        (to[0], to[1]) = (to[0] ^ low, to[1] ^ high);
                    }
                }
            }
            for matrices in [None, BitMatrices::look()] {
                let mut sums = Sums::by(matrices, 3, len);
                let (first, others) = terms.split_at(1);
                sums.add(first, Vec::new(), || ());
                sums.add(others, Vec::new(), || ());
                for (row, wanted) in wanted.iter().enumerate() {
                    assert!(sums.sum(row) == *wanted, "{len} bytes, row {row}, {matrices:?}");
                }
            }
        }
    }
}
