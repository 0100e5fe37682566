//! MD5 of slices of one length, many side by side.
//!
//! One MD5 is a single series of steps, each of which waits for the one before: 0.65 GB/s. The slices of a set are many
//! such series of one length, so as many words as a vector register has go through each step together: 3.5 GB/s (a core
//! of an AMD EPYC, family 26). The compiler makes the instructions of that, as it does for the sums of slices. The
//! steps are those of RFC 1321, 3.4; `md-5` is the meaning of all of this.

use std::ops::Range;

use crate::{sys, sys::WideWork};

use super::packets::Sum;

/// Slices that go side by side: the words of a register of 512 bits, and of two of 256.
const LANES: usize = 16;

/// Bytes that a series takes in at a time.
const BLOCK: u64 = 64;

type Words = [u32; LANES];

/// What a sum is before its bytes, and between them.
type State = [u32; 4];

const START: State = [0x6745_2301, 0xefcd_ab89, 0x98ba_dcfe, 0x1032_5476];

/// What the steps add: the sines of 1, 2, 3 …, as 32 bits.
#[rustfmt::skip]
const SINES: [u32; 64] = [
    0xd76a_a478, 0xe8c7_b756, 0x2420_70db, 0xc1bd_ceee, 0xf57c_0faf, 0x4787_c62a, 0xa830_4613, 0xfd46_9501,
    0x6980_98d8, 0x8b44_f7af, 0xffff_5bb1, 0x895c_d7be, 0x6b90_1122, 0xfd98_7193, 0xa679_438e, 0x49b4_0821,
    0xf61e_2562, 0xc040_b340, 0x265e_5a51, 0xe9b6_c7aa, 0xd62f_105d, 0x0244_1453, 0xd8a1_e681, 0xe7d3_fbc8,
    0x21e1_cde6, 0xc337_07d6, 0xf4d5_0d87, 0x455a_14ed, 0xa9e3_e905, 0xfcef_a3f8, 0x676f_02d9, 0x8d2a_4c8a,
    0xfffa_3942, 0x8771_f681, 0x6d9d_6122, 0xfde5_380c, 0xa4be_ea44, 0x4bde_cfa9, 0xf6bb_4b60, 0xbebf_bc70,
    0x289b_7ec6, 0xeaa1_27fa, 0xd4ef_3085, 0x0488_1d05, 0xd9d4_d039, 0xe6db_99e5, 0x1fa2_7cf8, 0xc4ac_5665,
    0xf429_2244, 0x432a_ff97, 0xab94_23a7, 0xfc93_a039, 0x655b_59c3, 0x8f0c_cc92, 0xffef_f47d, 0x8584_5dd1,
    0x6fa8_7e4f, 0xfe2c_e6e0, 0xa301_4314, 0x4e08_11a1, 0xf753_7e82, 0xbd3a_f235, 0x2ad7_d2bb, 0xeb86_d391,
];

/// Four steps of a round: each by a word that the round chooses, with what it adds and how far it turns.
#[inline(always)]
fn four_steps(
    state: &mut [Words; 4],
    words: [&Words; 4],
    sines: &[u32],
    turns: [u32; 4],
    mix: impl Fn(u32, u32, u32) -> u32,
) {
    for step in 0..4 {
        let [a, b, c, d] = *state;
        let mut next = [0; LANES];
        for lane in 0..LANES {
            let sum = a[lane]
                .wrapping_add(mix(b[lane], c[lane], d[lane]))
                .wrapping_add(words[step][lane].wrapping_add(sines[step]));
            next[lane] = b[lane].wrapping_add(sum.rotate_left(turns[step]));
        }
        *state = [d, next, b, c];
    }
}

/// Takes in one block of each piece.
#[inline(always)]
fn take_block(state: &mut [Words; 4], words: &[Words; 16]) {
    let before = *state;
    let at = |first: usize, by: usize| std::array::from_fn(|step| &words[(first + by * step) % 16]);
    for four in 0..4 {
        let sines = &SINES[4 * four..][..4];
        four_steps(state, at(4 * four, 1), sines, [7, 12, 17, 22], |b, c, d| d ^ (b & (c ^ d)));
    }
    for four in 0..4 {
        let sines = &SINES[16 + 4 * four..][..4];
        four_steps(state, at(1 + 20 * four, 5), sines, [5, 9, 14, 20], |b, c, d| c ^ (d & (b ^ c)));
    }
    for four in 0..4 {
        let sines = &SINES[32 + 4 * four..][..4];
        four_steps(state, at(5 + 12 * four, 3), sines, [4, 11, 16, 23], |b, c, d| b ^ c ^ d);
    }
    for four in 0..4 {
        let sines = &SINES[48 + 4 * four..][..4];
        four_steps(state, at(28 * four, 7), sines, [6, 10, 15, 21], |b, c, d| c ^ (b | !d));
    }
    for (words, before) in state.iter_mut().zip(before) {
        words.iter_mut().zip(before).for_each(|(word, before)| *word = word.wrapping_add(before));
    }
}

/// The work on a part of up to [`LANES`] slices.
struct Taking<'a> {
    states: &'a mut [State],
    /// What there is of each; zeros follow.
    pieces: &'a [&'a [u8]],
    part: Range<u64>,
    /// Bytes of a slice.
    len: u64,
}

impl Taking<'_> {
    /// Lays the words of a block of all pieces side by side.
    #[inline(always)]
    fn load(&self, block: u64, words: &mut [Words; 16]) {
        for (lane, piece) in self.pieces.iter().enumerate() {
            let rest = piece.get((block * BLOCK) as usize..).unwrap_or_default();
            let mut last = [0; BLOCK as usize];
            let bytes = rest.first_chunk().unwrap_or_else(|| {
                last[..rest.len()].copy_from_slice(rest);
                &last
            });
            for (words, bytes) in words.iter_mut().zip(bytes.as_chunks().0) {
                words[lane] = u32::from_le_bytes(*bytes);
            }
        }
    }

    /// Puts into a block what follows the last byte: a bit, and in the last block how many bits there were.
    #[inline(always)]
    fn end(&self, block: u64, blocks: u64, words: &mut [Words; 16]) {
        let part = self.part.end - self.part.start;
        if block == part / BLOCK {
            let (word, byte) = (part % BLOCK / 4, part % 4);
            words[word as usize].iter_mut().for_each(|word| *word |= 0x80 << (8 * byte));
        }
        if block + 1 == blocks {
            let bits = self.len * 8;
            (words[14], words[15]) = ([bits as u32; LANES], [(bits >> 32) as u32; LANES]);
        }
    }
}

impl WideWork for Taking<'_> {
    #[inline(always)]
    fn run(self) {
        let (mut state, mut words) = ([[0; LANES]; 4], [[0; LANES]; 16]);
        for (lane, from) in self.states.iter().enumerate() {
            state.iter_mut().zip(from).for_each(|(words, word)| words[lane] = *word);
        }
        let (part, is_last) = (self.part.end - self.part.start, self.part.end == self.len);
        let blocks = if is_last { (part + 9).div_ceil(BLOCK) } else { part / BLOCK };
        for block in 0..blocks {
            self.load(block, &mut words);
            if is_last {
                self.end(block, blocks, &mut words);
            }
            take_block(&mut state, &words);
        }
        for (lane, to) in self.states.iter_mut().enumerate() {
            state.iter().zip(to).for_each(|(words, word)| *word = words[lane]);
        }
    }
}

/// The sums of all slices of a set, which take in part after part.
pub struct Md5s {
    states: Vec<State>,
    len: u64,
}

impl Md5s {
    /// Those of so many slices of so many bytes.
    pub fn new(slices: usize, len: u64) -> Self {
        Self { states: vec![START; slices], len }
    }

    /// Takes in the same part of the slices with these numbers. Each has zeros where its piece ends. All parts but the
    /// last are of whole blocks, 64 bytes.
    pub fn take(&mut self, slices: &[usize], pieces: &[&[u8]], part: &Range<u64>) {
        for (slices, pieces) in slices.chunks(LANES).zip(pieces.chunks(LANES)) {
            let mut states: Vec<State> = slices.iter().map(|slice| self.states[*slice]).collect();
            let (part, len) = (part.clone(), self.len);
            sys::in_wide_registers(Taking { states: &mut states, pieces, part, len });
            slices.iter().zip(states).for_each(|(slice, state)| self.states[*slice] = state);
        }
    }

    /// The sums, after the last parts.
    pub fn finish(self) -> impl Iterator<Item = Sum> {
        self.states.into_iter().map(|state| {
            let mut sum = Sum::default();
            sum.as_chunks_mut().0.iter_mut().zip(state).for_each(|(to, it)| *to = it.to_le_bytes());
            sum
        })
    }
}

#[cfg(test)]
mod tests {
    use md5::{Digest as _, Md5};

    use super::*;

    #[test]
    fn sums_are_those_of_slices_with_zeros_behind() {
        for len in [4_u64, 52, 56, 60, 64, 116, 120, 128, 500, 4096 + 56] {
            let slices: Vec<Vec<u8>> = (0..21)
                .map(|number| {
                    // Some end before the slice does.
                    let has = if number % 5 == 3 { len / 2 + 1 } else { len };
                    (0..has).map(|at| ((at * (number + 7) * 7919) >> 3) as u8).collect()
                })
                .collect();
            let middle = len / 2 / BLOCK * BLOCK;
            let mut sums = Md5s::new(slices.len(), len);
            for part in [0..middle, middle..len] {
                let piece = |slice: &'_ Vec<u8>| -> Vec<u8> {
                    let [from, to] = [part.start, part.end].map(|at| slice.len().min(at as usize));
                    slice[from..to].to_vec()
                };
                let pieces: Vec<_> = slices.iter().map(piece).collect();
                let pieces: Vec<&[u8]> = pieces.iter().map(|piece| &piece[..]).collect();
                // Not all at once, and not in their order.
                let (first, last): (Vec<usize>, Vec<usize>) =
                    ((0..18).collect(), (18..21).collect());
                sums.take(&last, &pieces[18..], &part);
                sums.take(&first, &pieces[..18], &part);
            }
            let wanted = slices.iter().map(|slice| {
                let mut slice = slice.clone();
                slice.resize(len as usize, 0);
                Sum::from(Md5::digest(&slice))
            });
            assert!(sums.finish().eq(wanted), "{len}");
        }
    }
}
