//! Sums of slices that are multiplied by elements of the field.
//!
//! A product is linear in the bits of the factors, so to multiply by a constant is to add up bits, and which ones is
//! known before. There are two ways, of which the first is three times as fast:
//! - The low bytes of words are laid apart from the high ones and multiplied by matrices of bits, where the processor
//!   has an instruction for that. Several slices are added at a time, because then a sum is loaded and stored once for
//!   all of them: 47 GB/s of products by one, 80 by two, 101 by four (a core of an AMD EPYC, family 26).
//! - Words are laid out as bit planes: 16 planes, the first with the lowest bits of 2,048 words, and so on. Each plane
//!   of the product is the sum of some of these; which of them, four at a time, is looked up in a table of their 16
//!   sums: 32 GB/s there. The compiler makes vector instructions of that on every machine, as wide as it has them.

use std::{array, sync::OnceLock, thread};

use crate::sys;
use crate::sys::{BitMatrices, LINE, PartedWords, WideWork, WordMatrix};

/// Words of a plane.
const LANES: usize = 128;

type Plane = [u16; LANES];

/// Words of 16 planes.
type Block = PartedWords;

const ZEROS: Block = [0; 16 * LANES];

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
    block.as_chunks_mut().0
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
    for pair in block.as_chunks_mut::<{ 2 * LINE }>().0 {
        let (low, high) = pair.split_at_mut(LINE);
        for (low, high) in low.iter_mut().zip(high) {
            (*low, *high) = ((*low & 0xff) | (*high << 8), (*low >> 8) | (*high & 0xff00));
        }
    }
}

#[inline(always)]
fn subsets_of(block: &Block) -> Box<Subsets> {
    let mut subsets = Box::new([[[0; LANES]; 16]; 4]);
    let planes: &[Plane] = block.as_chunks().0;
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
    let (words, rest) = block.split_at_mut(pairs.len());
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

    /// Adds terms, each no longer than the sums and with a factor for each of these, by several threads; meanwhile
    /// `beside` runs on this one, and what it returns comes back.
    pub fn add<T>(&mut self, terms: &[Term], beside: impl FnOnce() -> T) -> T {
        match self.matrices {
            Some(matrices) => self.share_out(
                terms,
                matrix_of,
                |part| sys::in_wide_registers(ByMatrices(matrices, part)),
                beside,
            ),
            None => self.share_out(terms, taken_by, |part| sys::in_wide_registers(part), beside),
        }
    }

    fn share_out<Factor: Sync, T>(
        &mut self,
        terms: &[Term],
        factor: impl Fn(u16) -> Factor,
        work: impl Fn(Addition<'_, Factor>) + Sync,
        beside: impl FnOnce() -> T,
    ) -> T {
        let of = |term: &Term| term.factors.iter().map(|it| factor(*it)).collect();
        let factors: Vec<Vec<Factor>> = terms.iter().map(of).collect();
        let (rows, places) = (self.rows.max(1), self.len.div_ceil(BLOCK));
        let threads = thread::available_parallelism().map_or(1, |cores| cores.get());
        let share = places.div_ceil(threads).max(1);
        thread::scope(|scope| {
            for (number, blocks) in self.blocks.chunks_mut(share * rows).enumerate() {
                let start = number * share;
                let part = Addition { start, rows, blocks, terms, factors: &factors };
                scope.spawn(|| work(part));
            }
            beside()
        })
    }

    /// The sum of this number.
    pub fn sum(&self, row: usize) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.len.next_multiple_of(BLOCK));
        for block in self.blocks.iter().skip(row).step_by(self.rows.max(1)) {
            let mut block = *block;
            if self.matrices.is_some() {
                part(&mut block)
            } else {
                turn(&mut block)
            };
            bytes.extend(block.iter().flat_map(|word| word.to_le_bytes()));
        }
        bytes.truncate(self.len);
        bytes
    }
}

// Arithmetic of the field with 65,536 elements that PAR2 uses.

/// The polynomial that products are reduced by.
const POLYNOMIAL: u32 = 0x1_100b;

/// Number of elements but 0.
const ORDER: u32 = 65_535;

struct Tables {
    /// Powers of 2, twice over.
    power: Vec<u16>,
    log: Vec<u32>,
}

fn tables() -> &'static Tables {
    static TABLES: OnceLock<Tables> = OnceLock::new();
    TABLES.get_or_init(|| {
        let (mut power, mut log) = (vec![0; 2 * ORDER as usize], vec![0; ORDER as usize + 1]);
        let mut element = 1_u32;
        for exponent in 0..ORDER {
            power[exponent as usize] = element as u16;
            power[(exponent + ORDER) as usize] = element as u16;
            log[element as usize] = exponent;
            element = (element << 1) ^ if element & 0x8000 == 0 { 0 } else { POLYNOMIAL };
        }
        Tables { power, log }
    })
}

/// The product of two elements.
pub fn product(a: u16, b: u16) -> u16 {
    if a == 0 || b == 0 {
        return 0;
    }
    let Tables { power, log } = tables();
    power[(log[usize::from(a)] + log[usize::from(b)]) as usize]
}

/// The element by which the product is 1; 0 for 0, which has none.
pub fn inverse(a: u16) -> u16 {
    let Tables { power, log } = tables();
    if a == 0 { 0 } else { power[(ORDER - log[usize::from(a)]) as usize] }
}

/// `base` to the power of `exponent`.
pub fn power(base: u16, exponent: u32) -> u16 {
    let Tables { power, log } = tables();
    let log = u64::from(log[usize::from(base)]) * u64::from(exponent) % u64::from(ORDER);
    power[log as usize]
}

/// The constants of the first slices, in order: powers of 2 whose exponents have no factor of 65,535, so that all their
/// own powers differ.
pub fn constants(slices: usize) -> Vec<u16> {
    let has_no_factor = |n: &u32| [3, 5, 17, 257].iter().all(|factor| !n.is_multiple_of(*factor));
    (1..ORDER).filter(has_no_factor).map(|n| power(2, n)).take(slices).collect()
}

// Systems of equations.

/// How the unknowns follow from equations.
pub struct Solution {
    /// The equations that they follow from, as many as there are unknowns.
    pub equations: Vec<usize>,
    /// For each unknown, what the right sides of these are multiplied by to be added up to it.
    pub factors: Vec<Vec<u16>>,
}

/// An equation that others were subtracted from.
struct Reduced {
    /// The unknown whose factor is 1 here, and 0 in those that came before.
    unknown: usize,
    row: Vec<u16>,
    /// What the right sides are multiplied by in it.
    made_of: Vec<u16>,
}

impl Reduced {
    /// Subtracts another so often that this one has no more of that one's unknown.
    fn subtract(&mut self, other: &Self) {
        let by = self.row[other.unknown];
        if by != 0 {
            let each = |to: &mut Vec<u16>, from: &[u16]| {
                to.iter_mut().zip(from).for_each(|(to, from)| *to ^= product(by, *from));
            };
            each(&mut self.row, &other.row);
            each(&mut self.made_of, &other.made_of);
        }
    }
}

/// Solves equations, each with the factors of all unknowns; `None` if they do not tell all.
pub fn solve(equations: impl Iterator<Item = Vec<u16>>, unknowns: usize) -> Option<Solution> {
    let (mut reduced, mut taken): (Vec<Reduced>, Vec<usize>) = (Vec::new(), Vec::new());
    for (number, row) in equations.enumerate() {
        if taken.len() == unknowns {
            break;
        }
        let mut made_of = vec![0; unknowns];
        made_of[taken.len()] = 1;
        let mut equation = Reduced { unknown: 0, row, made_of };
        reduced.iter().for_each(|other| equation.subtract(other));
        let Some(unknown) = equation.row.iter().position(|it| *it != 0) else { continue };
        let by = inverse(equation.row[unknown]);
        let Reduced { row, made_of, .. } = &mut equation;
        row.iter_mut().chain(made_of).for_each(|it| *it = product(*it, by));
        taken.push(number);
        reduced.push(Reduced { unknown, ..equation });
    }
    let mut factors = vec![Vec::new(); unknowns];
    while let Some(last) = reduced.pop() {
        reduced.iter_mut().for_each(|other| other.subtract(&last));
        factors[last.unknown] = last.made_of;
    }
    (taken.len() == unknowns).then_some(Solution { equations: taken, factors })
}

#[cfg(test)]
mod sums_tests {
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
                sums.add(first, || ());
                sums.add(others, || ());
                for (row, wanted) in wanted.iter().enumerate() {
                    assert!(sums.sum(row) == *wanted, "{len} bytes, row {row}, {matrices:?}");
                }
            }
        }
    }
}

#[cfg(test)]
mod field_tests {
    use super::*;

    #[test]
    fn products_are_those_of_the_field() {
        // Multiplied bit by bit.
        let slow = |a: u16, b: u16| {
            let all = (0..16)
                .filter(|bit| b >> bit & 1 == 1)
                .fold(0, |sum, bit| sum ^ (u32::from(a) << bit));
            (16..32).rev().fold(all, |sum, bit| {
                if sum >> bit & 1 == 1 { sum ^ (POLYNOMIAL << (bit - 16)) } else { sum }
            })
        };
        for a in (1..u16::MAX).step_by(977) {
            for b in (0..u16::MAX).step_by(1009) {
                assert_eq!(u32::from(product(a, b)), slow(a, b));
            }
            assert_eq!(product(a, inverse(a)), 1);
            assert_eq!((power(a, 0), power(a, 3)), (1, product(a, product(a, a))));
        }
        // As the specification has them.
        assert_eq!(constants(6), [2, 4, 16, 128, 256, 2048]);
        assert_eq!(constants(40_000).len(), 32_768);
    }

    #[test]
    fn equations_are_solved_by_those_that_tell_most() {
        let unknowns = [5_u16, 77, 60_000];
        let bases = constants(9);
        let rows: Vec<Vec<u16>> = [1, 1, 4, 9]
            .iter()
            .map(|exponent| bases[3..6].iter().map(|base| power(*base, *exponent)).collect())
            .collect();
        let right =
            |row: &Vec<u16>| row.iter().zip(unknowns).fold(0, |sum, (a, b)| sum ^ product(*a, b));
        let Solution { equations, factors } = solve(rows.iter().cloned(), 3).unwrap();
        assert_eq!(equations, [0, 2, 3]);
        for (factors, unknown) in factors.iter().zip(unknowns) {
            let sum = factors
                .iter()
                .zip(&equations)
                .fold(0, |sum, (factor, number)| sum ^ product(*factor, right(&rows[*number])));
            assert_eq!(sum, unknown);
        }
        assert!(solve(rows.into_iter().take(3), 3).is_none());
    }
}
