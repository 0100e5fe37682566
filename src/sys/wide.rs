//! The widest registers that this processor has, for work on many numbers at a time that the compiler makes vector
//! instructions of.
//!
//! Programs for x86-64 may use no more than its first processors had, 128 bits, unless they look first.

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
