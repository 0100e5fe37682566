//! What only some processors can do: fetching memory before it is needed, registers wider than every processor of the
//! kind has, words that go side by side, and products with matrices of bits.

// Asking the processor for memory shortly before it is needed.

/// Lets the processor fetch the place of `wanted`, without waiting for it; nothing where it takes no such hints.
#[inline]
pub fn prefetch<T>(wanted: &T) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a hint about an address, which is that of a reference; nothing is read and nothing faults.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(std::ptr::from_ref(wanted).cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = wanted;
}

// The widest registers that this processor has, for work on many numbers at a time that the compiler makes vector
// instructions of.
//
// Programs for x86-64 may use no more than its first processors had, 128 bits, unless they look first.

/// Work that gains by wide registers.
pub trait WideWork {
    /// Does it. This and what it calls are `#[inline(always)]`: only what is compiled as a part of the caller is
    /// compiled for its registers.
    fn run(self);
}

/// Does work by the instructions of the widest registers that this processor has.
pub fn in_wide_registers(work: impl WideWork) {
    #[cfg(target_arch = "x86_64")]
    {
        #[target_feature(enable = "avx512f,avx512bw,avx512vl")]
        fn in_512_bits(work: impl WideWork) {
            work.run();
        }
        #[target_feature(enable = "avx2")]
        fn in_256_bits(work: impl WideWork) {
            work.run();
        }
        let has_512_bits = is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512bw")
            && is_x86_feature_detected!("avx512vl");
        if has_512_bits {
            // SAFETY: the processor has what the function is compiled for.
            return unsafe { in_512_bits(work) };
        }
        if is_x86_feature_detected!("avx2") {
            // SAFETY: the processor has what the function is compiled for.
            return unsafe { in_256_bits(work) };
        }
    }
    work.run();
}

// Words that go side by side through a long row of steps, each of which waits for the one before. They are written
// out: the compiler makes vector instructions of most such steps by itself, and those that it takes apart hold up the
// others.

/// Words of 32 bits that are treated alike.
pub trait Words: Copy {
    /// One word, for all of them.
    fn all(word: u32) -> Self;

    /// Their sums.
    #[must_use]
    fn add(self, other: Self) -> Self;

    /// The bits that both have.
    #[must_use]
    fn and(self, other: Self) -> Self;

    /// The bits that one of the two has, or both.
    #[must_use]
    fn or(self, other: Self) -> Self;

    /// The bits that one of the two has.
    #[must_use]
    fn xor(self, other: Self) -> Self;

    /// Each turned by so many bits.
    #[must_use]
    fn rotate_left(self, by: u32) -> Self;

    /// The same words, made before what they are needed for is there: the compiler may not add up in another order.
    #[must_use]
    #[inline(always)]
    fn made_first(self) -> Self {
        self
    }
}

impl Words for u32 {
    #[inline(always)]
    fn all(word: u32) -> Self {
        word
    }

    #[inline(always)]
    fn add(self, other: Self) -> Self {
        self.wrapping_add(other)
    }

    #[inline(always)]
    fn and(self, other: Self) -> Self {
        self & other
    }

    #[inline(always)]
    fn or(self, other: Self) -> Self {
        self | other
    }

    #[inline(always)]
    fn xor(self, other: Self) -> Self {
        self ^ other
    }

    #[inline(always)]
    fn rotate_left(self, by: u32) -> Self {
        self.rotate_left(by)
    }

    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
    #[inline(always)]
    fn made_first(mut self) -> Self {
        // SAFETY: no instruction, to the compiler one that makes a register of another.
        #[cfg(target_arch = "x86_64")]
        unsafe {
            std::arch::asm!("/* {:e} */", inout(reg) self, options(pure, nomem, nostack, preserves_flags));
        }
        // SAFETY: as above.
        #[cfg(target_arch = "aarch64")]
        unsafe {
            std::arch::asm!("/* {:w} */", inout(reg) self, options(pure, nomem, nostack, preserves_flags));
        }
        self
    }
}

/// Four in a register of those that every processor of the kind has.
#[derive(Clone, Copy)]
pub struct FourWords(four_words::Register);

impl FourWords {
    /// The first words of four rows, their second ones, and so on.
    #[inline(always)]
    pub fn columns(rows: [[u32; 4]; 4]) -> [Self; 4] {
        let [first, second, third, fourth] = four_words::columns(rows);
        [Self(first), Self(second), Self(third), Self(fourth)]
    }

    /// The four words.
    #[inline(always)]
    pub fn words(self) -> [u32; 4] {
        four_words::words(self.0)
    }
}

impl Words for FourWords {
    #[inline(always)]
    fn all(word: u32) -> Self {
        Self(four_words::all(word))
    }

    #[inline(always)]
    fn add(self, other: Self) -> Self {
        Self(four_words::add(self.0, other.0))
    }

    #[inline(always)]
    fn and(self, other: Self) -> Self {
        Self(four_words::and(self.0, other.0))
    }

    #[inline(always)]
    fn or(self, other: Self) -> Self {
        Self(four_words::or(self.0, other.0))
    }

    #[inline(always)]
    fn xor(self, other: Self) -> Self {
        Self(four_words::xor(self.0, other.0))
    }

    #[inline(always)]
    fn rotate_left(self, by: u32) -> Self {
        Self(four_words::rotate_left(self.0, by))
    }
}

#[cfg(target_arch = "x86_64")]
mod four_words {
    use std::arch::x86_64::{
        __m128i, _mm_add_epi32, _mm_and_si128, _mm_cvtsi32_si128, _mm_or_si128, _mm_set1_epi32,
        _mm_sll_epi32, _mm_srl_epi32, _mm_unpackhi_epi32, _mm_unpackhi_epi64, _mm_unpacklo_epi32,
        _mm_unpacklo_epi64, _mm_xor_si128,
    };

    pub type Register = __m128i;

    #[inline(always)]
    pub fn all(word: u32) -> Register {
        // SAFETY: every processor for x86-64 has SSE2, here and below.
        unsafe { _mm_set1_epi32(word as i32) }
    }

    #[inline(always)]
    pub fn columns(rows: [[u32; 4]; 4]) -> [Register; 4] {
        // SAFETY: a register is four words in their order; and as above.
        unsafe {
            let [a, b, c, d] = std::mem::transmute::<[[u32; 4]; 4], [Register; 4]>(rows);
            let (low, high) = (_mm_unpacklo_epi32(a, b), _mm_unpacklo_epi32(c, d));
            let (third, fourth) = (_mm_unpackhi_epi32(a, b), _mm_unpackhi_epi32(c, d));
            [
                _mm_unpacklo_epi64(low, high),
                _mm_unpackhi_epi64(low, high),
                _mm_unpacklo_epi64(third, fourth),
                _mm_unpackhi_epi64(third, fourth),
            ]
        }
    }

    #[inline(always)]
    pub fn words(register: Register) -> [u32; 4] {
        // SAFETY: a register is four words in their order.
        unsafe { std::mem::transmute::<Register, [u32; 4]>(register) }
    }

    #[inline(always)]
    pub fn rotate_left(register: Register, by: u32) -> Register {
        // SAFETY: as above.
        unsafe {
            let left = _mm_sll_epi32(register, _mm_cvtsi32_si128(by as i32));
            let right = _mm_srl_epi32(register, _mm_cvtsi32_si128(32 - by as i32));
            _mm_or_si128(left, right)
        }
    }

    #[inline(always)]
    pub fn add(a: Register, b: Register) -> Register {
        // SAFETY: as above.
        unsafe { _mm_add_epi32(a, b) }
    }

    #[inline(always)]
    pub fn and(a: Register, b: Register) -> Register {
        // SAFETY: as above.
        unsafe { _mm_and_si128(a, b) }
    }

    #[inline(always)]
    pub fn or(a: Register, b: Register) -> Register {
        // SAFETY: as above.
        unsafe { _mm_or_si128(a, b) }
    }

    #[inline(always)]
    pub fn xor(a: Register, b: Register) -> Register {
        // SAFETY: as above.
        unsafe { _mm_xor_si128(a, b) }
    }
}

#[cfg(not(target_arch = "x86_64"))]
mod four_words {
    use std::array::from_fn;

    pub type Register = [u32; 4];

    pub fn all(word: u32) -> Register {
        [word; 4]
    }

    pub fn columns(rows: [[u32; 4]; 4]) -> [Register; 4] {
        from_fn(|column| from_fn(|row| rows[row][column]))
    }

    pub fn words(register: Register) -> [u32; 4] {
        register
    }

    pub fn rotate_left(register: Register, by: u32) -> Register {
        register.map(|word| word.rotate_left(by))
    }

    pub fn add(a: Register, b: Register) -> Register {
        from_fn(|at| a[at].wrapping_add(b[at]))
    }

    pub fn and(a: Register, b: Register) -> Register {
        from_fn(|at| a[at] & b[at])
    }

    pub fn or(a: Register, b: Register) -> Register {
        from_fn(|at| a[at] | b[at])
    }

    pub fn xor(a: Register, b: Register) -> Register {
        from_fn(|at| a[at] ^ b[at])
    }
}

// Words times matrices of bits, by the instruction that newer processors for x86-64 have for it (GFNI): eight times as
// fast as by tables.
//
// A product by a constant of a field with 65,536 elements is such a matrix. It is taken apart in four, each from the
// low or high bytes of words to those of the product, because the instruction has matrices of 8 by 8 bits.

/// What words are multiplied by: from their low bytes to the low ones of the product, from the high ones to the low
/// ones, from low to high, and from high to high. The highest byte of each is the mask of the bits whose sum is the
/// lowest bit of the product, and so on.
pub type WordMatrix = [u64; 4];

/// Words of a register, a line.
pub const LINE: usize = 32;

/// A line of low bytes, a line of the high bytes of the same words, and so on: 4 KiB. Lines are those of the cache:
/// where each was in two of them, products took 1.6 times as long.
#[derive(Clone, Copy)]
#[repr(align(64))]
pub struct PartedWords(pub [u16; 2048]);

/// The proof that this processor multiplies bytes by matrices of bits, in registers of 512 bits.
#[derive(Clone, Copy, Debug)]
pub struct BitMatrices(Proof);

#[cfg(target_arch = "x86_64")]
type Proof = ();

#[cfg(not(target_arch = "x86_64"))]
type Proof = std::convert::Infallible;

impl BitMatrices {
    /// Asks the processor.
    #[cfg(target_arch = "x86_64")]
    pub fn look() -> Option<Self> {
        (is_x86_feature_detected!("gfni")
            && is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512bw"))
        .then_some(Self(()))
    }

    /// There are none for other processors.
    #[cfg(not(target_arch = "x86_64"))]
    pub fn look() -> Option<Self> {
        None
    }

    /// Adds the products of words to their sums.
    #[cfg(target_arch = "x86_64")]
    pub fn add_products<const TERMS: usize>(
        self,
        sums: &mut PartedWords,
        terms: [&PartedWords; TERMS],
        matrices: [&WordMatrix; TERMS],
    ) {
        let Self(()) = self;
        // SAFETY: the proof is made only after the processor was asked for the features.
        unsafe { x86::add_products(sums, terms, matrices) }
    }

    /// Never called: there is no proof.
    #[cfg(not(target_arch = "x86_64"))]
    pub fn add_products<const TERMS: usize>(
        self,
        _: &mut PartedWords,
        _: [&PartedWords; TERMS],
        _: [&WordMatrix; TERMS],
    ) {
        match self.0 {}
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::{
        __m512i, _mm512_gf2p8affine_epi64_epi8, _mm512_loadu_si512, _mm512_set1_epi64,
        _mm512_setzero_si512, _mm512_storeu_si512, _mm512_ternarylogic_epi64,
    };

    use super::{LINE, PartedWords, WordMatrix};

    /// The truth table of a sum of three.
    const SUM: i32 = 0x96;

    #[inline(always)]
    fn load(words: &PartedWords, at: usize) -> __m512i {
        let line = &words.0[at..at + LINE];
        // SAFETY: a line is as long as a register, and this needs no alignment.
        unsafe { _mm512_loadu_si512(line.as_ptr().cast()) }
    }

    #[inline(always)]
    fn store(words: &mut PartedWords, at: usize, register: __m512i) {
        let line = &mut words.0[at..at + LINE];
        // SAFETY: as above.
        unsafe { _mm512_storeu_si512(line.as_mut_ptr().cast(), register) }
    }

    #[target_feature(enable = "gfni,avx512f,avx512bw")]
    pub fn add_products<const TERMS: usize>(
        sums: &mut PartedWords,
        terms: [&PartedWords; TERMS],
        matrices: [&WordMatrix; TERMS],
    ) {
        // By loops alone: a closure that is not inlined hands registers over in memory, which takes twice as long.
        let mut registers = [[_mm512_setzero_si512(); 4]; TERMS];
        for (registers, matrix) in registers.iter_mut().zip(matrices) {
            for (register, part) in registers.iter_mut().zip(matrix) {
                *register = _mm512_set1_epi64(*part as i64);
            }
        }
        for at in (0..sums.0.len()).step_by(2 * LINE) {
            let (mut low_sum, mut high_sum) = (load(sums, at), load(sums, at + LINE));
            for (words, registers) in terms.iter().zip(&registers) {
                let (low, high) = (load(words, at), load(words, at + LINE));
                low_sum = _mm512_ternarylogic_epi64::<SUM>(
                    low_sum,
                    _mm512_gf2p8affine_epi64_epi8::<0>(low, registers[0]),
                    _mm512_gf2p8affine_epi64_epi8::<0>(high, registers[1]),
                );
                high_sum = _mm512_ternarylogic_epi64::<SUM>(
                    high_sum,
                    _mm512_gf2p8affine_epi64_epi8::<0>(low, registers[2]),
                    _mm512_gf2p8affine_epi64_epi8::<0>(high, registers[3]),
                );
            }
            store(sums, at, low_sum);
            store(sums, at + LINE, high_sum);
        }
    }
}
