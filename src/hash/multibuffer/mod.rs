//! SHA-256 of several streams side by side on one core.
//!
//! [`streams`] takes bytes of any length and makes digests of them, [`Backend`] chooses how, and `x86` is the
//! compression function in the lanes of vector registers, and by the SHA instructions. Other processors than x86-64
//! hash one stream after the other.

pub mod streams;
#[cfg(target_arch = "x86_64")]
mod x86;

use crate::{hash::ChainingState, hash::digest::BLOCK};
#[cfg(target_arch = "x86_64")]
use x86::{HasAvx2, HasAvx512, HasSha};

// SHA-256's compression function for several streams at once.
//
// One stream of SHA-256 is a single series of dependent steps. Several streams are several series, which a
// processor works through side by side: two by its SHA instructions, eight or sixteen in vector registers.
// `sha2` is the meaning of all of this: every backend must agree with it, and a single stream is left to it.
//
// The steps are those of FIPS 180-4, 6.2.2.

/// The implementations that compress several streams at a time. One that needs more of the processor than every one has
/// holds the proof that this one has it, so each that exists can be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Backend {
    /// One stream after the other, by `sha2`.
    One,
    /// Two at a time by the SHA instructions.
    #[cfg(target_arch = "x86_64")]
    Sha(HasSha),
    /// Eight at a time in 256-bit registers.
    #[cfg(target_arch = "x86_64")]
    Avx2(HasAvx2),
    /// Sixteen at a time in 512-bit registers.
    #[cfg(target_arch = "x86_64")]
    Avx512(HasAvx512),
    /// Two at a time, wrong where so many blocks or more are taken at once: for tests of what becomes of that.
    #[cfg(feature = "internals")]
    Wrong(usize),
}

impl Default for Backend {
    fn default() -> Self {
        Self::best()
    }
}

impl Backend {
    /// Every backend that this processor has, from the narrowest to the widest.
    pub fn all() -> Vec<Self> {
        #[cfg(target_arch = "x86_64")]
        let wider = [
            HasSha::look().map(Backend::Sha),
            HasAvx2::look().map(Backend::Avx2),
            HasAvx512::look().map(Backend::Avx512),
        ];
        #[cfg(not(target_arch = "x86_64"))]
        let wider: [Option<Self>; 0] = [];
        std::iter::once(Backend::One).chain(wider.into_iter().flatten()).collect()
    }

    /// The fastest for many streams on this processor, in a program that is optimised.
    pub fn best() -> Self {
        // Functions that are not inlined make of each instruction a call.
        if cfg!(debug_assertions) {
            return Backend::One;
        }
        let fastest = Self::all().into_iter().max_by_key(|backend| backend.speed());
        fastest.unwrap_or(Backend::One)
    }

    /// The backend that takes the most streams at a time, whether that gains anything or not.
    pub fn widest() -> Self {
        Self::all().pop().unwrap_or(Backend::One)
    }

    /// The implementation's name.
    pub fn name(self) -> &'static str {
        match self {
            Backend::One => "one",
            #[cfg(target_arch = "x86_64")]
            Backend::Sha(_) => "sha",
            #[cfg(target_arch = "x86_64")]
            Backend::Avx2(_) => "avx2",
            #[cfg(target_arch = "x86_64")]
            Backend::Avx512(_) => "avx512",
            #[cfg(feature = "internals")]
            Backend::Wrong(_) => "wrong",
        }
    }

    /// Number of streams at a time.
    pub fn lanes(self) -> usize {
        match self {
            Backend::One => 1,
            #[cfg(target_arch = "x86_64")]
            Backend::Sha(_) => x86::sha::STREAMS,
            #[cfg(target_arch = "x86_64")]
            Backend::Avx2(_) => 8,
            #[cfg(target_arch = "x86_64")]
            Backend::Avx512(_) => 16,
            #[cfg(feature = "internals")]
            Backend::Wrong(_) => 2,
        }
    }

    /// This backend for `streams` streams, or a narrower one where these are too few for it to pay.
    pub fn suiting(self, streams: usize) -> Self {
        let mut suiting = self;
        while streams < suiting.least() && suiting != Backend::One {
            suiting = suiting.narrower();
        }
        suiting
    }

    /// Throughput with all lanes busy; MB/s on one core.
    ///
    /// The table by which a backend is chosen: `cargo bench --bench hash` with 16 × 64 KiB on an Intel Xeon, model 207.
    /// What counts is how they compare: on other processors all are slower or faster together. `One` without SHA
    /// instructions was not measured there.
    fn speed(self) -> usize {
        match self {
            #[cfg(target_arch = "x86_64")]
            Backend::One if HasSha::look().is_some() => 1430,
            Backend::One => 200,
            #[cfg(target_arch = "x86_64")]
            Backend::Sha(_) => 1760,
            #[cfg(target_arch = "x86_64")]
            Backend::Avx2(_) => 1260,
            #[cfg(target_arch = "x86_64")]
            Backend::Avx512(_) => 3180,
            #[cfg(feature = "internals")]
            Backend::Wrong(_) => usize::MAX >> 8,
        }
    }

    /// The fewest streams for which it is faster than what is narrower; all its lanes where it never is.
    fn least(self) -> usize {
        let lanes = self.lanes();
        let pays = |streams: &usize| self.speed() * streams / lanes > self.narrower().speed();
        (1..lanes).find(pays).unwrap_or(lanes)
    }

    /// The implementation for fewer streams than pay here.
    fn narrower(self) -> Self {
        match self {
            #[cfg(target_arch = "x86_64")]
            Backend::Avx2(_) | Backend::Avx512(_) => {
                HasSha::look().map_or(Backend::One, Backend::Sha)
            }
            _ => Backend::One,
        }
    }

    /// Compresses `count` blocks of each stream into its state. There are at most
    /// [`lanes`](Self::lanes) streams, all with at least `count` blocks; others are left as they are.
    pub fn compress(self, streams: &mut [(&mut ChainingState, &[[u8; BLOCK]])], count: usize) {
        let fits = streams.len() <= self.lanes() && !streams.is_empty();
        if !fits || streams.iter().any(|(_, blocks)| blocks.len() < count) {
            debug_assert!(streams.is_empty(), "more streams or fewer blocks than promised");
            return;
        }
        match (self, &mut *streams) {
            #[cfg(target_arch = "x86_64")]
            (Backend::Sha(HasSha { .. }), [(one, of_one), (two, of_two)]) => {
                // SAFETY: the proof is made only after the processor was asked for the features.
                unsafe { x86::sha::compress([one, two], [of_one, of_two], count) }
            }
            // SAFETY: as above.
            #[cfg(target_arch = "x86_64")]
            (Backend::Avx2(HasAvx2 { .. }), streams) => unsafe {
                x86::avx2::compress(streams, count)
            },
            // SAFETY: as above.
            #[cfg(target_arch = "x86_64")]
            (Backend::Avx512(HasAvx512 { .. }), streams) => unsafe {
                x86::avx512::compress(streams, count)
            },
            (_, streams) => {
                for (state, blocks) in streams {
                    sha2::block_api::compress256(state, &blocks[..count]);
                    #[cfg(feature = "internals")]
                    if matches!(self, Backend::Wrong(most) if count >= most) {
                        state[3] ^= 1;
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hash::digest::START;

    /// Every backend, every number of streams, against `sha2`; blocks beyond the count are not taken.
    #[test]
    fn every_backend_agrees_with_sha2() {
        let mut random = 1u32;
        let mut byte = || {
            random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (random >> 24) as u8
        };
        let blocks: Vec<Vec<[u8; BLOCK]>> = (0..16)
            .map(|stream| (0..5 + stream % 3).map(|_| [0; BLOCK].map(|_| byte())).collect())
            .collect();
        for backend in Backend::all() {
            for streams in 1..=backend.lanes() {
                for count in [0, 1, 2, 5] {
                    let mut states: Vec<ChainingState> =
                        (0..streams as u32).map(|i| START.map(|word| word ^ i)).collect();
                    let mut expected = states.clone();
                    for (state, blocks) in expected.iter_mut().zip(&blocks) {
                        sha2::block_api::compress256(state, &blocks[..count]);
                    }
                    let mut work: Vec<(&mut ChainingState, &[[u8; BLOCK]])> =
                        states.iter_mut().zip(blocks.iter().map(Vec::as_slice)).collect();
                    backend.compress(&mut work, count);
                    assert!(states == expected, "{backend:?}, {streams} streams, {count} blocks");
                }
            }
        }
    }
}
