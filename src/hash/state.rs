//! What SHA-256 keeps of a stream between two blocks, in the form that every backend works on.

/// Bytes that the compression function takes at a time (FIPS 180-4, 1).
pub const BLOCK: usize = 64;

/// The eight words between two blocks: FIPS 180-4 calls them the intermediate hash value.
pub type ChainingState = [u32; 8];

/// The words before the first block (FIPS 180-4, 5.3.3).
pub const START: ChainingState = [
    0x6a09_e667,
    0xbb67_ae85,
    0x3c6e_f372,
    0xa54f_f53a,
    0x510e_527f,
    0x9b05_688c,
    0x1f83_d9ab,
    0x5be0_cd19,
];
