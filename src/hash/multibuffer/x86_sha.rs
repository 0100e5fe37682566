//! The compression function by the SHA instructions of x86-64, two streams at a time.
//!
//! `sha256rnds2` takes four cycles and another may begin every second one, so that a single stream leaves
//! every other begin unused. Two streams take turns. A third gains nothing: there are sixteen registers
//! without AVX-512, and two streams need fourteen of them.
//!
//! GB/s of a prototype of these loops on one core (Intel Xeon, model 207), 256 KiB a stream, least time of nine:
//! `sha2` 1.74, two streams 2.12, three 1.91, four 1.98.

use std::arch::x86_64::*;

use crate::hash::{ChainingState, digest::BLOCK, multibuffer::x86::K, multibuffer::x86::TURN};

/// Number of streams at a time.
pub const STREAMS: usize = 2;

/// Compresses `count` blocks of both streams.
// Plain loops: a closure with these features is not inlined into `map`, which has none.
#[target_feature(enable = "sha,sse4.1,ssse3")]
pub fn compress(
    states: [&mut ChainingState; STREAMS],
    blocks: [&[[u8; BLOCK]]; STREAMS],
    count: usize,
) {
    let zero = _mm_setzero_si128();
    // The instructions want the words of a state as A, B, E, F and C, D, G, H, from the highest down.
    let (mut abef, mut cdgh) = ([zero; STREAMS], [zero; STREAMS]);
    for n in 0..STREAMS {
        let (cdab, efgh) = (
            _mm_shuffle_epi32::<0xb1>(load(&states[n].as_chunks().0[0])),
            _mm_shuffle_epi32::<0x1b>(load(&states[n].as_chunks().0[1])),
        );
        abef[n] = _mm_alignr_epi8::<8>(cdab, efgh);
        cdgh[n] = _mm_blend_epi16::<0xf0>(efgh, cdab);
    }
    for (one, two) in blocks[0].iter().zip(blocks[1]).take(count) {
        let mut w = [words(one), words(two)];
        let (abef_before, cdgh_before) = (abef, cdgh);
        for round in 0..4 {
            for t in 0..4 {
                let constants = load(&K.as_chunks().0[4 * round + t]);
                let mut sum = [zero; STREAMS];
                for n in 0..STREAMS {
                    if round > 0 {
                        w[n][t] = next_words(&w[n], t);
                    }
                    sum[n] = _mm_add_epi32(w[n][t], constants);
                }
                for n in 0..STREAMS {
                    cdgh[n] = _mm_sha256rnds2_epu32(cdgh[n], abef[n], sum[n]);
                }
                for n in 0..STREAMS {
                    let high = _mm_shuffle_epi32::<0x0e>(sum[n]);
                    abef[n] = _mm_sha256rnds2_epu32(abef[n], cdgh[n], high);
                }
            }
        }
        for n in 0..STREAMS {
            abef[n] = _mm_add_epi32(abef[n], abef_before[n]);
            cdgh[n] = _mm_add_epi32(cdgh[n], cdgh_before[n]);
        }
    }
    for (n, state) in states.into_iter().enumerate() {
        let (feba, dchg) = (_mm_shuffle_epi32::<0x1b>(abef[n]), _mm_shuffle_epi32::<0xb1>(cdgh[n]));
        let [dcba_of, hgfe_of] = state.as_chunks_mut().0 else { continue };
        store(dcba_of, _mm_blend_epi16::<0xf0>(feba, dchg));
        store(hgfe_of, _mm_alignr_epi8::<8>(dchg, feba));
    }
}

/// Words 4·`t` to 4·`t` + 3 of the next sixteen of the message schedule (FIPS 180-4, 6.2.2), of which `w` has
/// those before.
#[inline]
#[target_feature(enable = "sha,sse4.1,ssse3")]
fn next_words(w: &[__m128i; 4], t: usize) -> __m128i {
    let (w16, w12, w8, w4) = (w[t], w[(t + 1) % 4], w[(t + 2) % 4], w[(t + 3) % 4]);
    let sum = _mm_add_epi32(_mm_sha256msg1_epu32(w16, w12), _mm_alignr_epi8::<4>(w4, w8));
    _mm_sha256msg2_epu32(sum, w4)
}

/// The sixteen words of a block.
#[inline]
#[target_feature(enable = "ssse3")]
fn words(block: &[u8; BLOCK]) -> [__m128i; 4] {
    // SAFETY: reads 16 bytes, which are there.
    let turn = unsafe { _mm_loadu_si128(TURN.as_ptr().cast()) };
    let mut words = [turn; 4];
    for (words, bytes) in words.iter_mut().zip(block.as_chunks::<16>().0) {
        // SAFETY: reads 16 bytes, which are there.
        *words = _mm_shuffle_epi8(unsafe { _mm_loadu_si128(bytes.as_ptr().cast()) }, turn);
    }
    words
}

#[inline]
#[target_feature(enable = "ssse3")]
fn load(words: &[u32; 4]) -> __m128i {
    // SAFETY: reads 16 bytes, which are there.
    unsafe { _mm_loadu_si128(words.as_ptr().cast()) }
}

#[inline]
#[target_feature(enable = "ssse3")]
fn store(words: &mut [u32; 4], from: __m128i) {
    // SAFETY: writes 16 bytes, for which there is room.
    unsafe { _mm_storeu_si128(words.as_mut_ptr().cast(), from) }
}
