//! SHA-256's compression function for several blocks at once, one in each lane of wide registers.
//!
//! One stream of SHA-256 is a single chain of dependent steps, and the processor's SHA instructions
//! make that chain as short as it gets. Several streams are several chains, which vector registers
//! work through side by side: sixteen with AVX-512, eight with AVX2. `sha2` is the meaning of all of
//! this: every backend must agree with it, and a single stream is left to it.
//!
//! The steps are those of FIPS 180-4, 6.2.2.

#[cfg(target_arch = "x86_64")]
use crate::hash::multibuffer::x86;
use crate::hash::state::{BLOCK, ChainingState};

/// The registers in which several streams are compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Backend {
    /// One stream after the other, by `sha2`.
    One,
    /// Eight at a time in 256-bit registers.
    #[cfg(target_arch = "x86_64")]
    Avx2,
    /// Sixteen at a time in 512-bit registers.
    #[cfg(target_arch = "x86_64")]
    Avx512,
}

impl Backend {
    /// Every backend that this processor has, from the narrowest to the widest.
    pub fn all() -> Vec<Self> {
        let mut all = vec![Backend::One];
        #[cfg(target_arch = "x86_64")]
        {
            if is_x86_feature_detected!("avx2") {
                all.push(Backend::Avx2);
            }
            if is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512bw") {
                all.push(Backend::Avx512);
            }
        }
        all
    }

    /// The fastest for many streams on this processor, in a program that is optimised.
    pub fn best() -> Self {
        let has = |wanted| Self::all().contains(&wanted);
        match () {
            // Functions that are not inlined make of each instruction a call.
            () if cfg!(debug_assertions) => Backend::One,
            #[cfg(target_arch = "x86_64")]
            () if has(Backend::Avx512) => Backend::Avx512,
            // Slower than one stream after the other with SHA instructions.
            #[cfg(target_arch = "x86_64")]
            () if has(Backend::Avx2) && !is_x86_feature_detected!("sha") => Backend::Avx2,
            () => Backend::One,
        }
    }

    /// The backend that takes the most streams at a time, whether that gains anything or not.
    pub fn widest() -> Self {
        Self::all().pop().unwrap_or(Backend::One)
    }

    /// How many streams it takes at a time.
    pub fn lanes(self) -> usize {
        match self {
            Backend::One => 1,
            #[cfg(target_arch = "x86_64")]
            Backend::Avx2 => 8,
            #[cfg(target_arch = "x86_64")]
            Backend::Avx512 => 16,
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
        match self {
            Backend::One => {
                for (state, blocks) in streams {
                    sha2::block_api::compress256(state, &blocks[..count]);
                }
            }
            // SAFETY: only `all` and `best` give these out, after the processor was asked for the
            // features.
            #[cfg(target_arch = "x86_64")]
            Backend::Avx2 => unsafe { x86::avx2::compress(streams, count) },
            // SAFETY: as above.
            #[cfg(target_arch = "x86_64")]
            Backend::Avx512 => unsafe { x86::avx512::compress(streams, count) },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hash::state::START;

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
