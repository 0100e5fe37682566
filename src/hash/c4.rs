//! The text of a C4 identifier (SMPTE ST 2114): a SHA-512 digest as a number in base 58, behind `c4`.

use crate::hash::running::MOST_LEN;

/// Its digits: no `0`, `O`, `I` or `l`, which look like others.
const DIGITS: &[u8; 58] = b"123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz";

/// Length as text: the two letters, and as many digits as the greatest number has.
pub const TEXT_LEN: usize = 2 + 88;

/// The text of a digest.
pub fn text(digest: &[u8; MOST_LEN]) -> [u8; TEXT_LEN] {
    let (mut number, mut text) = (*digest, [DIGITS[0]; TEXT_LEN]);
    text[..2].copy_from_slice(b"c4");
    for place in text[2..].iter_mut().rev() {
        let mut rest = 0;
        for byte in &mut number {
            let value = rest * 256 + u32::from(*byte);
            (*byte, rest) = ((value / 58) as u8, value % 58);
        }
        *place = DIGITS[rest as usize];
    }
    text
}

/// The digest of a text; `None` if it is none, or more than a digest can be.
pub fn digest(text: &[u8]) -> Option<[u8; MOST_LEN]> {
    let digits = text.strip_prefix(b"c4").filter(|_| text.len() == TEXT_LEN)?;
    let mut number = [0u8; MOST_LEN];
    for digit in digits {
        let mut carry = DIGITS.iter().position(|known| known == digit)?;
        for byte in number.iter_mut().rev() {
            let value = usize::from(*byte) * 58 + carry;
            (*byte, carry) = (value as u8, value >> 8);
        }
        if carry > 0 {
            return None;
        }
    }
    Some(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_the_number_it_was() {
        for digest_of in [[0; MOST_LEN], [0xff; MOST_LEN], std::array::from_fn(|at| at as u8 * 3)] {
            assert_eq!(digest(&text(&digest_of)), Some(digest_of));
        }
        let greatest = text(&[0xff; MOST_LEN]);
        assert_eq!(digest(&[b"c4".as_slice(), &[b'z'; 88]].concat()), None, "too great");
        for wrong in ["", "c4", "C4", "c40"] {
            assert_eq!(digest(wrong.as_bytes()), None, "{wrong}");
        }
        assert_eq!(digest(&greatest[..89]), None);
    }
}
