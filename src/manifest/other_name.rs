//! What a list calls an algorithm that is not known here.

use std::fmt;

/// What is said of a list of which every file differs by SHA-512.
pub const LIKE_SHA512: &str = "every file of it differs by SHA-512, and digests of b2sum (BLAKE2b) look alike, which cannot be checked here; if it \
     is a list of b2sum, check it with b2sum -c";

/// So many bytes of a name are kept.
const MOST: usize = 22;

/// The name of an algorithm that is not known here. A long one is cut.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub enum OtherName {
    /// One that is expected in lists.
    Usual(&'static str),
    /// Any other, as a list has it: so many of the bytes, which are letters, digits and signs.
    Unusual([u8; MOST], u8),
}

impl OtherName {
    /// The name that a list has, as far as it can be shown.
    pub fn of(name: &str) -> Self {
        let mut bytes = [0; MOST];
        let shown = name.bytes().filter(u8::is_ascii_graphic).take(MOST);
        let len = bytes.iter_mut().zip(shown).map(|(to, from)| *to = from).count();
        OtherName::Unusual(bytes, len as u8)
    }

    /// Its text.
    pub fn as_str(&self) -> &str {
        match self {
            OtherName::Usual(name) => name,
            OtherName::Unusual(bytes, len) => {
                let name = bytes.get(..usize::from(*len)).unwrap_or_default();
                std::str::from_utf8(name).unwrap_or_default()
            }
        }
    }
}

impl From<&'static str> for OtherName {
    fn from(name: &'static str) -> Self {
        OtherName::Usual(name)
    }
}

impl fmt::Display for OtherName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Debug for OtherName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_shown_as_far_as_it_can_be() {
        assert_eq!(OtherName::of("sha999").to_string(), "sha999");
        assert_eq!(OtherName::of("a\u{1b}[31m\u{e9}b").to_string(), "a[31mb");
        assert_eq!(OtherName::of(&"x".repeat(100)).to_string(), "x".repeat(MOST));
        assert_eq!(OtherName::from("XXH32").to_string(), "XXH32");
    }
}
