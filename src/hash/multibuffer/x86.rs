//! The compression function by what processors for x86-64 have: in vector registers, one text for both widths, and
//! beside it what the instructions of each are called; by the SHA instructions; and the proof that a processor has
//! these.

/// FIPS 180-4, 4.2.2.
const K: [u32; 64] = [
    0x428a_2f98,
    0x7137_4491,
    0xb5c0_fbcf,
    0xe9b5_dba5,
    0x3956_c25b,
    0x59f1_11f1,
    0x923f_82a4,
    0xab1c_5ed5,
    0xd807_aa98,
    0x1283_5b01,
    0x2431_85be,
    0x550c_7dc3,
    0x72be_5d74,
    0x80de_b1fe,
    0x9bdc_06a7,
    0xc19b_f174,
    0xe49b_69c1,
    0xefbe_4786,
    0x0fc1_9dc6,
    0x240c_a1cc,
    0x2de9_2c6f,
    0x4a74_84aa,
    0x5cb0_a9dc,
    0x76f9_88da,
    0x983e_5152,
    0xa831_c66d,
    0xb003_27c8,
    0xbf59_7fc7,
    0xc6e0_0bf3,
    0xd5a7_9147,
    0x06ca_6351,
    0x1429_2967,
    0x27b7_0a85,
    0x2e1b_2138,
    0x4d2c_6dfc,
    0x5338_0d13,
    0x650a_7354,
    0x766a_0abb,
    0x81c2_c92e,
    0x9272_2c85,
    0xa2bf_e8a1,
    0xa81a_664b,
    0xc24b_8b70,
    0xc76c_51a3,
    0xd192_e819,
    0xd699_0624,
    0xf40e_3585,
    0x106a_a070,
    0x19a4_c116,
    0x1e37_6c08,
    0x2748_774c,
    0x34b0_bcb5,
    0x391c_0cb3,
    0x4ed8_aa4a,
    0x5b9c_ca4f,
    0x682e_6ff3,
    0x748f_82ee,
    0x78a5_636f,
    0x84c8_7814,
    0x8cc7_0208,
    0x90be_fffa,
    0xa450_6ceb,
    0xbef9_a3f7,
    0xc671_78f2,
];

/// Turns the order of the bytes in each 32-bit word around: SHA-256 is big-endian.
const TURN: [u8; 16] = [3, 2, 1, 0, 7, 6, 5, 4, 11, 10, 9, 8, 15, 14, 13, 12];

/// `$each` with each of the numbers up to 15.
macro_rules! sixteen_times {
    ($each:ident) => {
        sixteen_times!($each, 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15)
    };
    ($each:ident, $($number:literal)*) => {
        $($each!($number);)*
    };
}

/// The function itself, in terms of the register functions beside it: the same text for registers of
/// any width. Lanes without a stream work through the first one's blocks, and what comes out is dropped.
macro_rules! compress {
    ($features:literal) => {
        /// Compresses `count` blocks of each stream, of which there are at least one and at most as
        /// many as there are lanes.
        #[target_feature(enable = $features)]
        pub fn compress(streams: &mut [(&mut ChainingState, &[[u8; BLOCK]])], count: usize) {
            let mut columns = [[0u32; 16]; 8];
            for (lane, (state, _)) in streams.iter().enumerate() {
                for (column, word) in columns.iter_mut().zip(state.iter()) {
                    column[lane] = *word;
                }
            }
            let mut states = [splat(0); 8];
            for (state, column) in states.iter_mut().zip(&columns) {
                *state = load(column);
            }
            for block in 0..count {
                let mut blocks = [&streams[0].1[block]; 16];
                for (at, (_, of_stream)) in blocks.iter_mut().zip(streams.iter()) {
                    *at = &of_stream[block];
                }
                let mut w = words(&blocks);
                let [mut a, mut b, mut c, mut d, mut e, mut f, mut g, mut h] = states;
                let (groups, _) = K.as_chunks::<16>();
                let mut k = &groups[0];
                // Written out: in a loop the words would go through memory, and the variables from register to
                // register. 16 x 64 KiB in 512-bit registers, Intel Xeon, model 207: 2.98 GB/s with loops, 3.18
                // without.
                macro_rules! step {
                    ($t:literal) => {
                        let sum1 =
                            xor3(rotate::<6, 26>(e), rotate::<11, 21>(e), rotate::<25, 7>(e));
                        let t1 = add(add(h, splat(k[$t])), w[$t]);
                        let t1 = add(add(t1, choose(e, f, g)), sum1);
                        let sum0 =
                            xor3(rotate::<2, 30>(a), rotate::<13, 19>(a), rotate::<22, 10>(a));
                        let t2 = add(sum0, majority(a, b, c));
                        (h, g, f, e, d, c, b, a) = (g, f, e, add(d, t1), c, b, a, add(t1, t2));
                    };
                }
                macro_rules! word_and_step {
                    ($t:literal) => {
                        let (w15, w2) = (w[($t + 1) % 16], w[($t + 14) % 16]);
                        let s0 = xor3(rotate::<7, 25>(w15), rotate::<18, 14>(w15), shift::<3>(w15));
                        let s1 = xor3(rotate::<17, 15>(w2), rotate::<19, 13>(w2), shift::<10>(w2));
                        w[$t] = add(add(w[$t], s0), add(w[($t + 9) % 16], s1));
                        step!($t);
                    };
                }
                sixteen_times!(step);
                for group in &groups[1..] {
                    k = group;
                    sixteen_times!(word_and_step);
                }
                for (state, new) in states.iter_mut().zip([a, b, c, d, e, f, g, h]) {
                    *state = add(*state, new);
                }
            }
            for (state, column) in states.into_iter().zip(&mut columns) {
                store(state, column);
            }
            for (lane, (state, _)) in streams.iter_mut().enumerate() {
                for (word, column) in state.iter_mut().zip(&columns) {
                    *word = column[lane];
                }
            }
        }
    };
}

/// Eight words, one of each stream, in a register.
pub mod avx2 {
    use std::arch::x86_64::*;

    use super::{K, TURN};
    use crate::{hash::ChainingState, hash::digest::BLOCK};

    compress!("avx2");

    #[inline]
    #[target_feature(enable = "avx2")]
    fn splat(word: u32) -> __m256i {
        _mm256_set1_epi32(word.cast_signed())
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    fn load(words: &[u32; 16]) -> __m256i {
        // SAFETY: reads 32 bytes, and 64 are there.
        unsafe { _mm256_loadu_si256(words.as_ptr().cast()) }
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    fn store(from: __m256i, words: &mut [u32; 16]) {
        // SAFETY: writes 32 bytes, for which there is room.
        unsafe { _mm256_storeu_si256(words.as_mut_ptr().cast(), from) }
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    fn add(a: __m256i, b: __m256i) -> __m256i {
        _mm256_add_epi32(a, b)
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    fn xor3(a: __m256i, b: __m256i, c: __m256i) -> __m256i {
        _mm256_xor_si256(_mm256_xor_si256(a, b), c)
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    fn choose(a: __m256i, b: __m256i, c: __m256i) -> __m256i {
        _mm256_xor_si256(c, _mm256_and_si256(a, _mm256_xor_si256(b, c)))
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    fn majority(a: __m256i, b: __m256i, c: __m256i) -> __m256i {
        let either = _mm256_and_si256(c, _mm256_or_si256(a, b));
        _mm256_or_si256(_mm256_and_si256(a, b), either)
    }

    /// Rotated right by `R`; `L` is 32 − `R`.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn rotate<const R: i32, const L: i32>(word: __m256i) -> __m256i {
        _mm256_or_si256(_mm256_srli_epi32::<R>(word), _mm256_slli_epi32::<L>(word))
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    fn shift<const R: i32>(word: __m256i) -> __m256i {
        _mm256_srli_epi32::<R>(word)
    }

    /// The sixteen words of a block of each stream: two squares of 8 × 8 words, transposed.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn words(blocks: &[&[u8; BLOCK]; 16]) -> [__m256i; 16] {
        // SAFETY: reads 16 bytes, which are there.
        let turn = unsafe { _mm_loadu_si128(TURN.as_ptr().cast()) };
        let turn = _mm256_broadcastsi128_si256(turn);
        let mut words = [turn; 16];
        for half in 0..2 {
            let mut rows = [turn; 8];
            for (row, block) in rows.iter_mut().zip(blocks) {
                // SAFETY: reads the first or the second 32 of 64 bytes.
                let bytes = unsafe { _mm256_loadu_si256(block.as_ptr().add(32 * half).cast()) };
                *row = _mm256_shuffle_epi8(bytes, turn);
            }
            for group in 0..2 {
                // No closure: in a build without optimisation across crates it is called, four times a block.
                let [r0, r1, r2, r3] = rows.as_chunks().0[group];
                let (t0, t1) = (_mm256_unpacklo_epi32(r0, r1), _mm256_unpackhi_epi32(r0, r1));
                let (t2, t3) = (_mm256_unpacklo_epi32(r2, r3), _mm256_unpackhi_epi32(r2, r3));
                rows[4 * group] = _mm256_unpacklo_epi64(t0, t2);
                rows[4 * group + 1] = _mm256_unpackhi_epi64(t0, t2);
                rows[4 * group + 2] = _mm256_unpacklo_epi64(t1, t3);
                rows[4 * group + 3] = _mm256_unpackhi_epi64(t1, t3);
            }
            for m in 0..4 {
                let (low, high) = (rows[m], rows[4 + m]);
                words[8 * half + m] = _mm256_permute2x128_si256::<0x20>(low, high);
                words[8 * half + 4 + m] = _mm256_permute2x128_si256::<0x31>(low, high);
            }
        }
        words
    }
}

/// Sixteen words, one of each stream, in a register.
pub mod avx512 {
    use std::arch::x86_64::*;

    use super::{K, TURN};
    use crate::{hash::ChainingState, hash::digest::BLOCK};

    compress!("avx512f,avx512bw");

    #[inline]
    #[target_feature(enable = "avx512f")]
    fn splat(word: u32) -> __m512i {
        _mm512_set1_epi32(word.cast_signed())
    }

    #[inline]
    #[target_feature(enable = "avx512f")]
    fn load(words: &[u32; 16]) -> __m512i {
        // SAFETY: reads 64 bytes, which are there.
        unsafe { _mm512_loadu_si512(words.as_ptr().cast()) }
    }

    #[inline]
    #[target_feature(enable = "avx512f")]
    fn store(from: __m512i, words: &mut [u32; 16]) {
        // SAFETY: writes 64 bytes, for which there is room.
        unsafe { _mm512_storeu_si512(words.as_mut_ptr().cast(), from) }
    }

    #[inline]
    #[target_feature(enable = "avx512f")]
    fn add(a: __m512i, b: __m512i) -> __m512i {
        _mm512_add_epi32(a, b)
    }

    // The bits of the numbers are the truth tables of three bits.
    #[inline]
    #[target_feature(enable = "avx512f")]
    fn xor3(a: __m512i, b: __m512i, c: __m512i) -> __m512i {
        _mm512_ternarylogic_epi32::<0x96>(a, b, c)
    }

    #[inline]
    #[target_feature(enable = "avx512f")]
    fn choose(a: __m512i, b: __m512i, c: __m512i) -> __m512i {
        _mm512_ternarylogic_epi32::<0xca>(a, b, c)
    }

    #[inline]
    #[target_feature(enable = "avx512f")]
    fn majority(a: __m512i, b: __m512i, c: __m512i) -> __m512i {
        _mm512_ternarylogic_epi32::<0xe8>(a, b, c)
    }

    /// Rotated right by `R`.
    #[inline]
    #[target_feature(enable = "avx512f")]
    fn rotate<const R: i32, const L: i32>(word: __m512i) -> __m512i {
        _mm512_ror_epi32::<R>(word)
    }

    #[inline]
    #[target_feature(enable = "avx512f")]
    fn shift<const R: u32>(word: __m512i) -> __m512i {
        _mm512_srli_epi32::<R>(word)
    }

    /// The sixteen words of a block of each stream: a square of 16 × 16 words, transposed.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw")]
    fn words(blocks: &[&[u8; BLOCK]; 16]) -> [__m512i; 16] {
        // SAFETY: reads 16 bytes, which are there.
        let turn = unsafe { _mm_loadu_si128(TURN.as_ptr().cast()) };
        let turn = _mm512_broadcast_i32x4(turn);
        let mut rows = [turn; 16];
        for (row, block) in rows.iter_mut().zip(blocks) {
            // SAFETY: reads 64 bytes, which are there.
            let bytes = unsafe { _mm512_loadu_si512(block.as_ptr().cast()) };
            *row = _mm512_shuffle_epi8(bytes, turn);
        }
        for group in 0..4 {
            // No closure, as above.
            let [r0, r1, r2, r3] = rows.as_chunks().0[group];
            let (t0, t1) = (_mm512_unpacklo_epi32(r0, r1), _mm512_unpackhi_epi32(r0, r1));
            let (t2, t3) = (_mm512_unpacklo_epi32(r2, r3), _mm512_unpackhi_epi32(r2, r3));
            rows[4 * group] = _mm512_unpacklo_epi64(t0, t2);
            rows[4 * group + 1] = _mm512_unpackhi_epi64(t0, t2);
            rows[4 * group + 2] = _mm512_unpacklo_epi64(t1, t3);
            rows[4 * group + 3] = _mm512_unpackhi_epi64(t1, t3);
        }
        let mut words = [turn; 16];
        for m in 0..4 {
            let (x0, x1, x2, x3) = (rows[m], rows[4 + m], rows[8 + m], rows[12 + m]);
            let p0 = _mm512_shuffle_i32x4::<0x44>(x0, x1);
            let p1 = _mm512_shuffle_i32x4::<0xee>(x0, x1);
            let p2 = _mm512_shuffle_i32x4::<0x44>(x2, x3);
            let p3 = _mm512_shuffle_i32x4::<0xee>(x2, x3);
            words[m] = _mm512_shuffle_i32x4::<0x88>(p0, p2);
            words[4 + m] = _mm512_shuffle_i32x4::<0xdd>(p0, p2);
            words[8 + m] = _mm512_shuffle_i32x4::<0x88>(p1, p3);
            words[12 + m] = _mm512_shuffle_i32x4::<0xdd>(p1, p3);
        }
        words
    }
}

/// The compression function by the SHA instructions, two streams at a time.
///
/// `sha256rnds2` takes four cycles and another may begin every second one, so that a single stream leaves
/// every other begin unused. Two streams take turns. A third gains nothing: there are sixteen registers
/// without AVX-512, and two streams need fourteen of them.
///
/// GB/s of a prototype of these loops on one core (Intel Xeon, model 207), 256 KiB a stream, least time of nine:
/// `sha2` 1.74, two streams 2.12, three 1.91, four 1.98.
pub mod sha {
    use std::arch::x86_64::*;

    use super::{K, TURN};
    use crate::{hash::ChainingState, hash::digest::BLOCK};

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
            let (feba, dchg) =
                (_mm_shuffle_epi32::<0x1b>(abef[n]), _mm_shuffle_epi32::<0xb1>(cdgh[n]));
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
}

// The abilities of this processor, as values that only a look at it makes: a backend holds one, so what it runs is
// there, whoever made the backend.

/// The SHA instructions, and those that move words for them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HasSha(());

/// 256-bit registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HasAvx2(());

/// 512-bit registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HasAvx512(());

impl HasSha {
    pub fn look() -> Option<Self> {
        let has = is_x86_feature_detected!("sha")
            && is_x86_feature_detected!("sse4.1")
            && is_x86_feature_detected!("ssse3");
        has.then_some(Self(()))
    }
}

impl HasAvx2 {
    pub fn look() -> Option<Self> {
        is_x86_feature_detected!("avx2").then_some(Self(()))
    }
}

impl HasAvx512 {
    pub fn look() -> Option<Self> {
        let has = is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512bw");
        has.then_some(Self(()))
    }
}
