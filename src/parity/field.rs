//! Arithmetic of the field with 65,536 elements that PAR2 uses, and sums of slices that are multiplied by its elements.
//!
//! A product is linear in the bits of the factors. So slices are laid out as bit planes: 16 planes, the first with the
//! lowest bits of 2,048 words, and so on. Then to multiply all of these by a constant is to add, for each plane of the
//! product, some of the 16 planes; which of them, four at a time, is looked up in a table of their 16 sums. The
//! compiler makes vector instructions of that on every machine, as wide as it has them, without code for any.

use std::{sync::OnceLock, thread};

use crate::{sys, sys::WideWork};

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

// Sums of products.

/// Words of a plane.
const LANES: usize = 128;

/// Bytes of a block of 16 planes.
const BLOCK: usize = 16 * LANES * 2;

type Plane = [u16; LANES];
type Block = [Plane; 16];

/// The sums of all subsets of four planes, for the four fours of a block.
type Subsets = [[Plane; 16]; 4];

/// Exchanges the bits of a word's row with its planes; twice is nothing.
#[inline(always)]
fn turn(block: &mut Block) {
    for (step, mask) in [(8, 0x00ff_u16), (4, 0x0f0f), (2, 0x3333), (1, 0x5555)] {
        for row in (0..16).filter(|row| row & step == 0) {
            let (before, after) = block.split_at_mut(row + step);
            for (a, b) in before[row].iter_mut().zip(&mut after[0]) {
                let other = ((*a >> step) ^ *b) & mask;
                *b ^= other;
                *a ^= other << step;
            }
        }
    }
}

/// The planes of so many bytes, which are followed by zeros.
#[inline(always)]
fn planes_of(bytes: &[u8]) -> Block {
    let mut block = [[0; LANES]; 16];
    let (pairs, last) = bytes.as_chunks();
    let (planes, rest) = pairs.as_chunks::<LANES>();
    let each = |plane: &mut [u16], pairs: &[[u8; 2]]| {
        plane.iter_mut().zip(pairs).for_each(|(word, pair)| *word = u16::from_le_bytes(*pair));
    };
    // Of a whole plane the compiler knows the length.
    block.iter_mut().zip(planes).for_each(|(plane, pairs)| each(plane, pairs));
    if let Some(plane) = block.get_mut(planes.len()) {
        each(plane, rest);
        plane[rest.len()] = last.first().copied().unwrap_or(0).into();
    }
    turn(&mut block);
    block
}

#[inline(always)]
fn subsets_of(block: &Block) -> Box<Subsets> {
    let mut subsets = Box::new([[[0; LANES]; 16]; 4]);
    for (four, sums) in block.chunks_exact(4).zip(subsets.iter_mut()) {
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

/// For each plane of a product by `factor`, the planes that it is the sum of.
fn taken_by(factor: u16) -> [u16; 16] {
    let mut taken = [0; 16];
    for from in 0..16 {
        let column = product(factor, 1 << from);
        for (to, taken) in taken.iter_mut().enumerate() {
            *taken |= (column >> to & 1) << from;
        }
    }
    taken
}

/// Adds the products of a block to a row of sums.
#[inline(always)]
fn add_products(sums: &mut [Block], subsets: &Subsets, factors: &[[u16; 16]]) {
    for (sum, taken) in sums.iter_mut().zip(factors) {
        for (plane, taken) in sum.iter_mut().zip(taken) {
            let [a, b, c, d] =
                std::array::from_fn(|four| &subsets[four][usize::from(taken >> (4 * four)) & 15]);
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
struct Addition<'a> {
    /// The place of the first of them in each sum.
    start: usize,
    rows: usize,
    blocks: &'a mut [Block],
    terms: &'a [Term],
    factors: &'a [Vec<[u16; 16]>],
}

impl WideWork for Addition<'_> {
    #[inline(always)]
    fn run(self) {
        for (place, sums) in self.blocks.chunks_mut(self.rows).enumerate() {
            let start = (self.start + place) * BLOCK;
            for (term, factors) in self.terms.iter().zip(self.factors) {
                let bytes = term.bytes.get(start..).unwrap_or_default();
                if !bytes.is_empty() {
                    let planes = planes_of(&bytes[..bytes.len().min(BLOCK)]);
                    add_products(sums, &subsets_of(&planes), factors);
                }
            }
        }
    }
}

/// Sums of products of slices, all of one length.
pub struct Sums {
    rows: usize,
    len: usize,
    /// The blocks of all sums that are at the same place, side by side.
    blocks: Vec<Block>,
}

impl Sums {
    /// So many sums of this length, in bytes.
    pub fn new(rows: usize, len: usize) -> Self {
        Self { rows, len, blocks: vec![[[0; LANES]; 16]; rows * len.div_ceil(BLOCK)] }
    }

    /// Adds terms, each no longer than the sums, by several threads; meanwhile `beside` runs on this one, and what it
    /// returns comes back.
    pub fn add<T>(&mut self, terms: &[Term], beside: impl FnOnce() -> T) -> T {
        let factors = |term: &Term| term.factors.iter().map(|it| taken_by(*it)).collect();
        let factors: Vec<Vec<[u16; 16]>> = terms.iter().map(factors).collect();
        let (rows, places) = (self.rows.max(1), self.len.div_ceil(BLOCK));
        let threads = thread::available_parallelism().map_or(1, |cores| cores.get());
        let share = places.div_ceil(threads).max(1);
        thread::scope(|scope| {
            for (number, blocks) in self.blocks.chunks_mut(share * rows).enumerate() {
                let work =
                    Addition { start: number * share, rows, blocks, terms, factors: &factors };
                scope.spawn(move || sys::in_wide_registers(work));
            }
            beside()
        })
    }

    /// The sum of this number.
    pub fn sum(&self, row: usize) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.len.next_multiple_of(BLOCK));
        for block in self.blocks.iter().skip(row).step_by(self.rows.max(1)) {
            let mut block = *block;
            turn(&mut block);
            bytes.extend(block.iter().flatten().flat_map(|word| word.to_le_bytes()));
        }
        bytes.truncate(self.len);
        bytes
    }
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
mod tests {
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
    fn sums_of_slices_are_sums_of_words() {
        let slice = |seed: usize, len: usize| -> Vec<u8> {
            (0..len).map(|at| (((at + 1) * (seed + 3) * 7919) >> 3) as u8).collect()
        };
        for len in [2, 4, 100, 4096, 4100, 3 * 4096 + 8] {
            let terms: Vec<Term> = (0..3_u16)
                .map(|it| Term {
                    bytes: slice(it.into(), if it == 1 { len / 2 } else { len }),
                    factors: vec![it + 2, 1, 0xfffe - it],
                })
                .collect();
            let mut sums = Sums::new(3, len);
            let (first, others) = terms.split_at(1);
            sums.add(first, || ());
            sums.add(others, || ());
            for row in 0..3 {
                let mut sum = vec![0_u8; len];
                for Term { bytes, factors } in &terms {
                    for (to, from) in sum.chunks_mut(2).zip(bytes.chunks(2)) {
                        let word = u16::from_le_bytes([from[0], from.get(1).copied().unwrap_or(0)]);
                        let [low, high] = product(word, factors[row]).to_le_bytes();
                        (to[0], to[1]) = (to[0] ^ low, to[1] ^ high);
                    }
                }
                assert!(sums.sum(row) == sum, "{len} bytes, row {row}");
            }
        }
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
