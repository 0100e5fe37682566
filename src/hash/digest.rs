//! A SHA-256 digest: 32 bytes, written as 64 lower-case hexadecimal characters.

use std::fmt;

/// The digest of a file's whole content.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Digest(pub [u8; Digest::LEN]);

impl Digest {
    /// Length in bytes.
    pub const LEN: usize = 32;

    /// Length as text, in characters.
    pub const HEX_LEN: usize = 2 * Self::LEN;

    /// Reads exactly [`HEX_LEN`](Self::HEX_LEN) hexadecimal characters of either case.
    pub fn from_hex(hex: &[u8]) -> Option<Self> {
        if hex.len() != Self::HEX_LEN {
            return None;
        }
        let mut bytes = [0; Self::LEN];
        // Every table entry that is not a digit has bits above the low four set, so one test at the
        // end covers all 64 characters: no branch in the loop.
        let mut seen = 0;
        for (byte, pair) in bytes.iter_mut().zip(hex.chunks_exact(2)) {
            let (high, low) = (VALUE[pair[0] as usize], VALUE[pair[1] as usize]);
            seen |= high | low;
            *byte = high << 4 | low & 0xf;
        }
        (seen <= 0xf).then_some(Self(bytes))
    }

    /// The text: lower-case hexadecimal.
    pub fn to_hex(self) -> [u8; Self::HEX_LEN] {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        let mut hex = [0; Self::HEX_LEN];
        for (pair, byte) in hex.chunks_exact_mut(2).zip(self.0) {
            pair[0] = DIGITS[(byte >> 4) as usize];
            pair[1] = DIGITS[(byte & 0xf) as usize];
        }
        hex
    }
}

/// The value of each hexadecimal character; 0xff for every other byte.
const VALUE: [u8; 256] = {
    let mut table = [0xff; 256];
    let mut value = 0;
    while value < 16 {
        let digit = if value < 10 { b'0' + value } else { b'a' + value - 10 };
        table[digit as usize] = value;
        table[digit.to_ascii_uppercase() as usize] = value;
        value += 1;
    }
    table
};

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(std::str::from_utf8(&self.to_hex()).map_err(|_| fmt::Error)?)
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_round_trips() {
        let digest = Digest(std::array::from_fn(|i| (i * 37 + 1) as u8));
        assert_eq!(Digest::from_hex(&digest.to_hex()), Some(digest));
        assert_eq!(Digest::from_hex(&digest.to_hex().to_ascii_uppercase()), Some(digest));
        assert_eq!(digest.to_string().as_bytes(), digest.to_hex());
    }

    #[test]
    fn only_hexadecimal_of_the_right_length() {
        let good = Digest([0xab; 32]).to_hex();
        for position in 0..Digest::HEX_LEN {
            for wrong in (0..=255u8).filter(|b| !b.is_ascii_hexdigit()) {
                let mut bad = good;
                bad[position] = wrong;
                assert_eq!(Digest::from_hex(&bad), None, "{wrong:#x} at {position}");
            }
        }
        assert_eq!(Digest::from_hex(&good[..63]), None);
        assert_eq!(Digest::from_hex(&[&good[..], b"a"].concat()), None);
        assert_eq!(Digest::from_hex(b""), None);
    }
}
