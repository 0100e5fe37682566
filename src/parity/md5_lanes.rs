//! MD5 of many series side by side: of the slices of a set, and of its files.
//!
//! One MD5 is a single series of steps, each of which waits for the one before: 0.89 GB/s (`md-5` 0.74). Two that go
//! through each step together take in 1.62 GB/s, and sixteen in vector registers 5.6, without AVX-512 4.2 (a core of an
//! AMD EPYC, family 26, model 2). The steps are those of RFC 1321, 3.4; `md-5` is the meaning of all of this.

use std::{array, slice, vec};

use crate::{sys, sys::FourWords, sys::WideWork, sys::Words};

use super::packets::Sum;

/// Series that go side by side in vector registers, of four words each. Half as many took in half as much.
const LANES: usize = 16;

/// Up to so many go two at a time, which is as fast as four of the lanes.
const FEW: usize = 4;

/// Bytes that a series takes in at a time.
const BLOCK: usize = 64;

type Block = [u8; BLOCK];

/// A word of each series in vector registers.
type Wide = [FourWords; LANES / 4];

/// What a sum is before its bytes, and between them.
type State = [u32; 4];

const START: State = [0x6745_2301, 0xefcd_ab89, 0x98ba_dcfe, 0x1032_5476];

/// What the steps add: the sines of 1, 2, 3 …, as 32 bits.
#[rustfmt::skip]
const SINES: [[u32; 16]; 4] = [
    [
        0xd76a_a478, 0xe8c7_b756, 0x2420_70db, 0xc1bd_ceee, 0xf57c_0faf, 0x4787_c62a, 0xa830_4613, 0xfd46_9501,
        0x6980_98d8, 0x8b44_f7af, 0xffff_5bb1, 0x895c_d7be, 0x6b90_1122, 0xfd98_7193, 0xa679_438e, 0x49b4_0821,
    ],
    [
        0xf61e_2562, 0xc040_b340, 0x265e_5a51, 0xe9b6_c7aa, 0xd62f_105d, 0x0244_1453, 0xd8a1_e681, 0xe7d3_fbc8,
        0x21e1_cde6, 0xc337_07d6, 0xf4d5_0d87, 0x455a_14ed, 0xa9e3_e905, 0xfcef_a3f8, 0x676f_02d9, 0x8d2a_4c8a,
    ],
    [
        0xfffa_3942, 0x8771_f681, 0x6d9d_6122, 0xfde5_380c, 0xa4be_ea44, 0x4bde_cfa9, 0xf6bb_4b60, 0xbebf_bc70,
        0x289b_7ec6, 0xeaa1_27fa, 0xd4ef_3085, 0x0488_1d05, 0xd9d4_d039, 0xe6db_99e5, 0x1fa2_7cf8, 0xc4ac_5665,
    ],
    [
        0xf429_2244, 0x432a_ff97, 0xab94_23a7, 0xfc93_a039, 0x655b_59c3, 0x8f0c_cc92, 0xffef_f47d, 0x8584_5dd1,
        0x6fa8_7e4f, 0xfe2c_e6e0, 0xa301_4314, 0x4e08_11a1, 0xf753_7e82, 0xbd3a_f235, 0x2ad7_d2bb, 0xeb86_d391,
    ],
];

/// One step, by a word with what is added to it.
#[inline(always)]
fn step<W: Words, const N: usize>(
    a: &mut [W; N],
    [b, c, d]: [&[W; N]; 3],
    word: &[W; N],
    sine: u32,
    turn: u32,
    mix: impl Fn(W, W, W) -> W,
) {
    for at in 0..N {
        let sum = a[at].add(word[at].add(W::all(sine))).made_first().add(mix(b[at], c[at], d[at]));
        a[at] = b[at].add(sum.rotate_left(turn));
    }
}

/// A round of sixteen steps, with the words at `first`, `first + by` and so on.
#[inline(always)]
fn round<W: Words, const N: usize>(
    [a, b, c, d]: &mut [[W; N]; 4],
    words: &[[W; N]; 16],
    sines: &[u32; 16],
    [first, by]: [usize; 2],
    turns: [u32; 4],
    mix: impl Fn(W, W, W) -> W + Copy,
) {
    for four in 0..4 {
        let (at, sines) = (first + 4 * by * four, &sines[4 * four..4 * four + 4]);
        step(a, [b, c, d], &words[at % 16], sines[0], turns[0], mix);
        step(d, [a, b, c], &words[(at + by) % 16], sines[1], turns[1], mix);
        step(c, [d, a, b], &words[(at + 2 * by) % 16], sines[2], turns[2], mix);
        step(b, [c, d, a], &words[(at + 3 * by) % 16], sines[3], turns[3], mix);
    }
}

/// Takes in one block of each series.
#[inline(always)]
fn take_block<W: Words, const N: usize>(state: &mut [[W; N]; 4], words: &[[W; N]; 16]) {
    let before = *state;
    let [first, second, third, fourth] = &SINES;
    let ones = W::all(!0);
    round(state, words, first, [0, 1], [7, 12, 17, 22], |b, c, d| d.xor(b.and(c.xor(d))));
    round(state, words, second, [1, 5], [5, 9, 14, 20], |b, c, d| b.and(d).add(c.and(d.xor(ones))));
    round(state, words, third, [5, 3], [4, 11, 16, 23], |b, c, d| b.xor(c).xor(d));
    round(state, words, fourth, [0, 7], [6, 10, 15, 21], |b, c, d| c.xor(b.or(d.xor(ones))));
    for word in 0..4 {
        for at in 0..N {
            state[word][at] = state[word][at].add(before[word][at]);
        }
    }
}

/// What a series takes in next. All but its last part, and all pieces but the last, are of whole blocks (64 bytes).
pub struct Part<'a> {
    /// The number of the series.
    pub series: usize,
    pub pieces: Vec<&'a [u8]>,
    /// Zeros that follow the pieces.
    pub zeros: u64,
    /// Bytes of the whole series, if it ends with this.
    pub end: Option<u64>,
}

/// A part that is being taken in.
struct Lane<'a> {
    series: usize,
    pieces: vec::IntoIter<&'a [u8]>,
    piece: &'a [u8],
    end: Option<u64>,
    /// Bytes with the zeros, but without what ends a series.
    len: u64,
    /// Blocks that were taken, and all.
    taken: u64,
    blocks: u64,
}

impl<'a> Lane<'a> {
    fn new(Part { series, pieces, zeros, end }: Part<'a>) -> Self {
        let len = pieces.iter().map(|piece| piece.len() as u64).sum::<u64>() + zeros;
        let blocks = match end {
            Some(_) => (len + 9).div_ceil(BLOCK as u64),
            None => len / BLOCK as u64,
        };
        Self { series, pieces: pieces.into_iter(), piece: &[], end, len, taken: 0, blocks }
    }

    /// The whole blocks that come next; none where a block has to be made.
    fn whole(&mut self) -> &'a [Block] {
        if self.piece.is_empty() {
            self.piece = self.pieces.next().unwrap_or_default();
        }
        self.piece.as_chunks().0
    }

    /// Passes over so many of them.
    fn pass(&mut self, blocks: usize) {
        self.piece = &self.piece[blocks * BLOCK..];
        self.taken += blocks as u64;
    }

    /// The next block, whole or made. What ends a series is a bit, zeros, and in the last block how many bits
    /// there were.
    fn block(&mut self) -> Block {
        let mut block = [0; BLOCK];
        let rest = self.piece.len().min(BLOCK);
        block[..rest].copy_from_slice(&self.piece[..rest]);
        self.piece = &self.piece[rest..];
        if let Some(bytes) = self.end {
            if self.taken == self.len / BLOCK as u64 {
                block[(self.len % BLOCK as u64) as usize] = 0x80;
            }
            if self.taken + 1 == self.blocks {
                block[BLOCK - 8..].copy_from_slice(&(bytes * 8).to_le_bytes());
            }
        }
        self.taken += 1;
        block
    }
}

/// The work on parts: some at a time, and another one where one ends.
struct Taking<'a> {
    states: &'a mut [State],
    parts: vec::IntoIter<Part<'a>>,
}

impl WideWork for Taking<'_> {
    #[inline(always)]
    fn run(mut self) {
        let mut lanes = Vec::new();
        loop {
            let most = if lanes.len() + self.parts.len() > FEW { LANES } else { 2 };
            let free = most.saturating_sub(lanes.len());
            lanes.extend(self.parts.by_ref().take(free).map(Lane::new));
            let left = lanes.iter().map(|lane| lane.blocks - lane.taken);
            let Some(blocks) = left.min() else { return };
            match lanes.len() {
                1 => take::<1, Few>(self.states, &mut lanes, blocks),
                2 => take::<2, Few>(self.states, &mut lanes, blocks),
                _ => take::<LANES, Many>(self.states, &mut lanes, blocks),
            }
            lanes.retain(|lane| lane.taken < lane.blocks);
        }
    }
}

/// What takes in runs of blocks, as long as each other, of so many series. No function that is handed over: that would
/// not be compiled for wide registers.
trait Take<const N: usize> {
    fn take(states: &mut [State; N], runs: [&[Block]; N]);
}

/// Takes in so many blocks of each lane, run by run. Where there are fewer than `N`, the others do as the last one, and
/// what comes of it is not kept.
#[inline(always)]
fn take<const N: usize, T: Take<N>>(all: &mut [State], lanes: &mut [Lane<'_>], blocks: u64) {
    let (mut left, last) = (blocks as usize, lanes.len() - 1);
    let mut states = array::from_fn(|at| all[lanes[at.min(last)].series]);
    while left > 0 {
        let runs = array::from_fn(|at| lanes[at.min(last)].whole());
        let run = runs.iter().map(|run| run.len()).min().unwrap_or_default().min(left);
        if run > 0 {
            T::take(&mut states, runs.map(|it| &it[..run]));
            lanes.iter_mut().for_each(|lane| lane.pass(run));
        } else {
            let made: Vec<Block> = lanes.iter_mut().map(Lane::block).collect();
            T::take(&mut states, array::from_fn(|at| slice::from_ref(&made[at.min(last)])));
        }
        left -= run.max(1);
    }
    lanes.iter().zip(states).for_each(|(lane, state)| all[lane.series] = state);
}

#[inline(always)]
fn words_of(block: &Block) -> [u32; 16] {
    let (bytes, mut words) = (block.as_chunks().0, [0; 16]);
    for word in 0..16 {
        words[word] = u32::from_le_bytes(bytes[word]);
    }
    words
}

/// By instructions for one word each: a processor does several at a time that do not wait for each other.
struct Few;

impl<const N: usize> Take<N> for Few {
    #[inline(always)]
    fn take(states: &mut [State; N], runs: [&[Block]; N]) {
        take_few(states, runs);
    }
}

/// Not where the compiler may use wide registers: it would put the series into one, which is no faster than one series
/// after the other.
#[inline(never)]
fn take_few<const N: usize>(states: &mut [State; N], runs: [&[Block]; N]) {
    let mut state = array::from_fn(|word| states.map(|state| state[word]));
    for block in 0..runs[0].len() {
        let words = runs.map(|run| words_of(&run[block]));
        take_block(&mut state, &array::from_fn(|word| words.map(|words| words[word])));
    }
    *states = array::from_fn(|at| state.map(|word| word[at]));
}

/// In vector registers.
struct Many;

impl Take<LANES> for Many {
    #[inline(always)]
    fn take(states: &mut [State; LANES], runs: [&[Block]; LANES]) {
        let (mut state, mut rows) = (columns(states), [[0; 16]; LANES]);
        for block in 0..runs[0].len() {
            for (row, run) in rows.iter_mut().zip(&runs) {
                *row = words_of(&run[block]);
            }
            take_block(&mut state, &columns(&rows));
        }
        for lane in 0..LANES {
            for word in 0..4 {
                states[lane][word] = state[word][lane / 4].words()[lane % 4];
            }
        }
    }
}

/// The first words of each row, the second ones, and so on. By loops alone, here and above: an iterator or a closure
/// that the compiler does not take in hands registers over in memory, which took twice as long.
#[inline(always)]
fn columns<const WORDS: usize>(rows: &[[u32; WORDS]; LANES]) -> [Wide; WORDS] {
    let mut columns = [[FourWords::all(0); LANES / 4]; WORDS];
    for four in 0..LANES / 4 {
        for at in (0..WORDS).step_by(4) {
            let mut square = [[0; 4]; 4];
            for row in 0..4 {
                for word in 0..4 {
                    square[row][word] = rows[4 * four + row][at + word];
                }
            }
            let turned = FourWords::columns(square);
            for word in 0..4 {
                columns[at + word][four] = turned[word];
            }
        }
    }
    columns
}

/// The sums of many series, which take in part after part.
pub struct Md5s(Vec<State>);

impl Md5s {
    /// Those of so many series.
    pub fn new(series: usize) -> Self {
        Self(vec![START; series])
    }

    /// Takes in a part of each of some series, no more than one of each.
    pub fn take(&mut self, parts: Vec<Part<'_>>) {
        sys::in_wide_registers(Taking { states: &mut self.0, parts: parts.into_iter() });
    }

    /// The sums, after the last parts.
    pub fn finish(self) -> impl Iterator<Item = Sum> {
        self.0.into_iter().map(|state| {
            let mut sum = Sum::default();
            sum.as_chunks_mut().0.iter_mut().zip(state).for_each(|(to, it)| *to = it.to_le_bytes());
            sum
        })
    }
}

#[cfg(test)]
mod tests {
    use std::iter;

    use md5::{Digest as _, Md5};

    use super::*;

    #[test]
    fn series_of_all_lengths_are_those_of_md5() {
        // Of one length and of different ones, more than there are lanes; what is missing at the end is zeros.
        for lens in
            [vec![64_u64; 21], vec![4156; 16], (0..300).collect(), vec![4096 + 56], vec![120, 1]]
        {
            let series: Vec<(Vec<u8>, u64)> = lens
                .iter()
                .enumerate()
                .map(|(number, len)| {
                    let has = if number % 5 == 3 { len / 2 + 1 } else { *len }.min(*len);
                    let bytes = (0..has).map(|at| ((at * (number as u64 + 7) * 7919) >> 3) as u8);
                    (bytes.collect(), *len)
                })
                .collect();
            let mut sums = Md5s::new(series.len());
            for is_last in [false, true] {
                // Not in their order, and the last part in two pieces.
                let parts = series.iter().enumerate().rev().map(|(number, (bytes, len))| {
                    let middle = len / 2 / BLOCK as u64 * BLOCK as u64;
                    let (start, end) = if is_last { (middle, *len) } else { (0, middle) };
                    let [from, to] = [start, end].map(|at| bytes.len().min(at as usize));
                    let here = &bytes[from..to];
                    let zeros = end - start - here.len() as u64;
                    let (first, last) = here.split_at(here.len().min(BLOCK));
                    let end = is_last.then_some(*len);
                    Part { series: number, pieces: vec![first, last], zeros, end }
                });
                sums.take(parts.collect());
            }
            let wanted = series.iter().map(|(bytes, len)| {
                let zeros = iter::repeat_n(0, *len as usize - bytes.len());
                Sum::from(Md5::digest(bytes.iter().copied().chain(zeros).collect::<Vec<u8>>()))
            });
            assert!(sums.finish().eq(wanted), "{lens:?}");
        }
    }
}
