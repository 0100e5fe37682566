//! The abilities of this processor, as values that only a look at it makes: a backend holds one, so what it runs is
//! there, whoever made the backend.

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
