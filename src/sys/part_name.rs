//! What part files are called: the one thing by which a later run knows those that a killed run left
//! behind.

use std::ffi::OsStr;

/// How a part file's name starts: hidden, so that other programs pass it by.
pub(super) const PREFIX: &str = ".";

/// How many random letters and digits follow.
pub(super) const RANDOM: usize = 10;

/// How it ends.
pub(super) const SUFFIX: &str = ".dircopy-part";

/// Whether a name is one that a part file gets. A file of the source may have such a name too.
pub fn is_part_name(name: &OsStr) -> bool {
    name.as_encoded_bytes()
        .strip_prefix(PREFIX.as_bytes())
        .and_then(|name| name.strip_suffix(SUFFIX.as_bytes()))
        .is_some_and(|random| {
            random.len() == RANDOM && random.iter().all(u8::is_ascii_alphanumeric)
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_our_shape() {
        assert!(is_part_name(OsStr::new(".a1B2c3D4e5.dircopy-part")));
        for other in [
            "a1B2c3D4e5.dircopy-part",
            ".a1B2c3D4e.dircopy-part",
            ".a1B2c3D4e55.dircopy-part",
            ".a1B2c3D4e-.dircopy-part",
            "x.dircopy-part",
            ".dircopy-part",
            ".a1B2c3D4e5.dircopy-part2",
        ] {
            assert!(!is_part_name(OsStr::new(other)), "{other}");
        }
    }
}
