//! A SHA-256 sum: 32 bytes, written as 64 lower-case hexadecimal characters.
//!
//! SHA-256, with which dircopy seals and names its own notes, whatever a run computes over files; and the bytes of a
//! file's digest where that is SHA-256.

use std::fmt;

/// 32 bytes of SHA-256.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Sha256(pub [u8; Sha256::LEN]);

impl Sha256 {
    /// Length in bytes.
    pub const LEN: usize = 32;

    /// Length as text, in characters.
    pub const HEX_LEN: usize = 2 * Self::LEN;

    /// Reads exactly [`HEX_LEN`](Self::HEX_LEN) hexadecimal characters of either case.
    ///
    /// A manifest is mostly such characters, so this is where reading one spends its time. Three
    /// plain loops over fixed lengths, without a branch or a table, become vector instructions.
    #[inline]
    pub fn from_hex(hex: &[u8]) -> Option<Self> {
        let hex: &[u8; Self::HEX_LEN] = hex.try_into().ok()?;

        let mut wrong = 0;
        for &c in hex {
            let (digit, letter) = (c.wrapping_sub(b'0'), (c | 0x20).wrapping_sub(b'a'));
            wrong |= u8::from((digit > 9) & (letter > 5));
        }

        // Bit 6 tells letters from digits, and both have their value in the low four bits, letters
        // counting from 1. For what is neither, anything comes out and nothing overflows.
        let mut values = [0; Self::HEX_LEN];
        for (value, &c) in values.iter_mut().zip(hex) {
            *value = (c & 0xf) + 9 * (c >> 6);
        }

        let mut bytes = [0; Self::LEN];
        for (byte, pair) in bytes.iter_mut().zip(values.chunks_exact(2)) {
            *byte = pair[0] << 4 | pair[1];
        }
        (wrong == 0).then_some(Self(bytes))
    }

    /// The text: lower-case hexadecimal.
    #[inline]
    pub fn to_hex(self) -> [u8; Self::HEX_LEN] {
        /// Arithmetic instead of a table, for the same reason.
        fn digit(value: u8) -> u8 {
            value + if value < 10 { b'0' } else { b'a' - 10 }
        }
        let mut hex = [0; Self::HEX_LEN];
        for (pair, byte) in hex.chunks_exact_mut(2).zip(self.0) {
            pair[0] = digit(byte >> 4);
            pair[1] = digit(byte & 0xf);
        }
        hex
    }
}

impl fmt::Display for Sha256 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(std::str::from_utf8(&self.to_hex()).map_err(|_| fmt::Error)?)
    }
}

impl fmt::Debug for Sha256 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

// The interface of a running digest of any algorithm.

/// The most bytes that a digest has.
pub const MOST_LEN: usize = 64;

/// A digest of what was taken so far. SHA-256 has its own, which many files go through at a time
/// ([`multibuffer`](crate::hash::multibuffer)).
pub trait Running: Send + Sync {
    /// Takes the next bytes.
    fn update(&mut self, bytes: &[u8]);

    /// The digest of everything taken, at the front; zeros behind it.
    fn digest(&self) -> [u8; MOST_LEN];

    /// The state in between, to go on with later; `None` where its program cannot write it down.
    fn state(&self) -> Option<Vec<u8>>;

    /// Another one in the same state.
    fn another(&self) -> Box<dyn Running>;
}

/// Puts the bytes of a digest at the front.
pub fn padded(digest: &[u8]) -> [u8; MOST_LEN] {
    let mut bytes = [0; MOST_LEN];
    let len = digest.len().min(MOST_LEN);
    bytes[..len].copy_from_slice(&digest[..len]);
    bytes
}

// The state of SHA-256 between two blocks of a stream, in the form that every backend works on.

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_round_trips() {
        let digest = Sha256(std::array::from_fn(|i| (i * 37 + 1) as u8));
        assert_eq!(Sha256::from_hex(&digest.to_hex()), Some(digest));
        assert_eq!(Sha256::from_hex(&digest.to_hex().to_ascii_uppercase()), Some(digest));
        assert_eq!(digest.to_string().as_bytes(), digest.to_hex());
    }

    #[test]
    fn only_hexadecimal_of_the_right_length() {
        let good = Sha256([0xab; 32]).to_hex();
        for position in 0..Sha256::HEX_LEN {
            for wrong in (0..=255u8).filter(|b| !b.is_ascii_hexdigit()) {
                let mut bad = good;
                bad[position] = wrong;
                assert_eq!(Sha256::from_hex(&bad), None, "{wrong:#x} at {position}");
            }
        }
        assert_eq!(Sha256::from_hex(&good[..63]), None);
        assert_eq!(Sha256::from_hex(&[&good[..], b"a"].concat()), None);
        assert_eq!(Sha256::from_hex(b""), None);
    }
}
