//! The digest of a content, by one algorithm; and those of one content by several.

use std::{fmt, sync::Arc};

use crate::{hash::Algorithm, hash::Algorithms, hash::hex};

/// The digest of a file's whole content. Its text is lower-case hexadecimal, or a C4 identifier.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Digest {
    algorithm: Algorithm,
    /// The digest at the front, zeros behind it.
    bytes: [u8; MOST_LEN],
}

impl From<Sha256> for Digest {
    fn from(sum: Sha256) -> Self {
        Self::sha256(sum.0)
    }
}

impl Digest {
    /// The digest of an algorithm, from its bytes at the front and zeros behind them.
    pub fn new(algorithm: Algorithm, bytes: [u8; MOST_LEN]) -> Self {
        Self { algorithm, bytes }
    }

    /// True for the digest of an empty file.
    pub fn is_of_nothing(self) -> bool {
        self.algorithm.start().finish() == Some(self)
    }

    /// The digest of an algorithm, from exactly its bytes.
    pub fn of_bytes(algorithm: Algorithm, bytes: &[u8]) -> Option<Self> {
        (bytes.len() == algorithm.len()).then(|| Self { algorithm, bytes: padded(bytes) })
    }

    /// The digest of SHA-256 from its bytes.
    pub const fn sha256(bytes: [u8; Sha256::LEN]) -> Self {
        let mut padded = [0; MOST_LEN];
        let (front, _) = padded.split_at_mut(Sha256::LEN);
        front.copy_from_slice(&bytes);
        Self { algorithm: Algorithm::Sha256, bytes: padded }
    }

    /// The same bytes, as those of the algorithm whose digests look alike.
    pub fn alike(&self) -> Option<Self> {
        Some(Self { algorithm: self.algorithm.alike()?, ..*self })
    }

    /// The same digest, taken from a list of `algorithm`: if digests of both algorithms look alike, it is one of that.
    #[must_use]
    pub fn in_list_of(self, algorithm: Algorithm) -> Self {
        self.alike().filter(|other| other.algorithm == algorithm).unwrap_or(self)
    }

    /// The digest's algorithm.
    pub fn algorithm(&self) -> Algorithm {
        self.algorithm
    }

    /// Its bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..self.algorithm.len()]
    }

    /// The 32 bytes of one of SHA-256.
    pub fn as_sha256(&self) -> Option<Sha256> {
        let bytes = self.bytes.first_chunk().copied().map(Sha256);
        bytes.filter(|_| self.algorithm == Algorithm::Sha256)
    }

    /// Its first eight bytes, zeros where it has fewer.
    pub fn head(&self) -> [u8; 8] {
        self.bytes.first_chunk().copied().unwrap_or_default()
    }

    /// Reads exactly the text of a digest; hexadecimal digits of either case.
    pub fn parse(algorithm: Algorithm, text: &[u8]) -> Option<Self> {
        let spec = algorithm.spec()?;
        if spec.is_c4 {
            return Some(Self { algorithm, bytes: digest(text)? });
        }
        if algorithm == Algorithm::Sha256 {
            return Sha256::from_hex(text).map(Self::from);
        }
        Self::of_bytes(algorithm, &hex::parse(text)?)
    }

    /// Appends its text.
    pub fn write(&self, out: &mut Vec<u8>) {
        if let Some(sum) = self.as_sha256() {
            return out.extend_from_slice(&sum.to_hex());
        }
        if self.algorithm == Algorithm::C4 {
            return out.extend_from_slice(&text(&self.bytes));
        }
        out.extend(hex::digits(self.bytes()));
    }

    /// The same digest as another algorithm spells it: SHA-512 and C4 are one.
    fn spelled(self, algorithm: Algorithm) -> Self {
        Self { algorithm, ..self }
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = Vec::with_capacity(2 * MOST_LEN);
        self.write(&mut text);
        f.write_str(std::str::from_utf8(&text).map_err(|_| fmt::Error)?)
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{self}", self.algorithm.name())
    }
}

/// The digests of one content: what a run proves with, and what is listed besides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Digests {
    /// The digest that proves.
    pub proof: Digest,
    /// The others; nothing where there are none, which is the common case.
    pub further: Option<Arc<[Digest]>>,
}

impl From<Digest> for Digests {
    fn from(proof: Digest) -> Self {
        Self { proof, further: None }
    }
}

impl Digests {
    /// One that proves and others.
    pub fn new(proof: Digest, further: Vec<Digest>) -> Self {
        Self { proof, further: (!further.is_empty()).then(|| further.into()) }
    }

    /// All of them, the one that proves first.
    pub fn iter(&self) -> impl Iterator<Item = &Digest> {
        std::iter::once(&self.proof).chain(self.further.as_deref().unwrap_or_default())
    }

    /// The digest of one algorithm, also where the content has it in another spelling.
    pub fn of(&self, algorithm: Algorithm) -> Option<Digest> {
        let exact = self.iter().find(|digest| digest.algorithm == algorithm).copied();
        let twin = match algorithm {
            Algorithm::C4 => Algorithm::Sha512,
            Algorithm::Sha512 => Algorithm::C4,
            _ => return exact,
        };
        let spelled = || self.iter().find(|digest| digest.algorithm == twin);
        exact.or_else(|| spelled().map(|digest| digest.spelled(algorithm)))
    }

    /// The same, where that of `algorithm` proves, if it has that.
    #[must_use]
    pub fn proven_by(self, algorithm: Algorithm) -> Self {
        let Some(proof) = self.of(algorithm) else { return self };
        let others = self.iter().filter(|digest| digest.algorithm != algorithm);
        Self::new(proof, others.copied().collect())
    }

    /// Those of these algorithms, if it has all of them; the first of them proves.
    pub fn only(&self, algorithms: Algorithms) -> Option<Self> {
        let mut all = algorithms.iter().map(|algorithm| self.of(algorithm));
        let proof = all.next()??;
        Some(Self::new(proof, all.collect::<Option<Vec<_>>>()?))
    }
}

// The text of a C4 identifier (SMPTE ST 2114): a SHA-512 digest as a number in base 58, behind `c4`.

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

// A SHA-256 sum: 32 bytes, written as 64 lower-case hexadecimal characters.
//
// SHA-256, with which dircopy seals and names its own notes, whatever a run computes over files; and the bytes of a
// file's digest where that is SHA-256.

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
mod digest_tests {
    use super::*;

    #[test]
    fn text_round_trips() {
        for algorithm in Algorithm::listed().chain([Algorithm::Crc32]) {
            let bytes: Vec<u8> = (0..algorithm.len()).map(|at| (at * 37 + 1) as u8).collect();
            let digest = Digest::new(algorithm, padded(&bytes));
            let text = digest.to_string();
            assert_eq!(text.len(), algorithm.text_len());
            assert_eq!(digest.bytes(), bytes);
            assert_eq!(Digest::parse(algorithm, text.as_bytes()), Some(digest));
            assert_eq!(Digest::parse(algorithm, &text.as_bytes()[1..]), None);
            assert_eq!(Digest::parse(algorithm, format!("{text}a").as_bytes()), None);
            let upper = text.to_ascii_uppercase();
            let read = Digest::parse(algorithm, upper.as_bytes());
            assert_eq!(read.is_some(), algorithm != Algorithm::C4);
        }
        assert_eq!(Digest::parse(Algorithm::None, b""), None);
    }

    #[test]
    fn of_several_the_asked_ones_are_taken() {
        let digest = |algorithm| Digest::new(algorithm, [7; MOST_LEN]);
        let all = Digests::new(digest(Algorithm::Sha512), vec![digest(Algorithm::Md5)]);
        let asked = |algorithms: &[Algorithm]| all.only(algorithms.iter().copied().collect());
        assert_eq!(asked(&[Algorithm::Md5]), Some(digest(Algorithm::Md5).into()));
        assert_eq!(asked(&[Algorithm::C4]).map(|it| it.proof), Some(digest(Algorithm::C4)));
        assert_eq!(asked(&[Algorithm::Md5, Algorithm::Sha1]), None);
        assert_eq!(asked(&[]), None);
    }
}

#[cfg(test)]
mod c4_tests {
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
