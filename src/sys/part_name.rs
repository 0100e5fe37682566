//! What part files and their journals are called: the one thing by which a later run knows those that
//! a killed run left behind.

use std::ffi::{OsStr, OsString};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io;

/// How a part file's name starts: hidden, so that other programs pass it by.
const PREFIX: &str = ".";

/// How many random letters and digits follow.
const RANDOM: usize = 10;

/// How it ends.
const SUFFIX: &str = ".dircopy-part";

/// How the name of a part file's journal ends.
const JOURNAL_SUFFIX: &str = ".dircopy-journal";

/// The name of a part file, told from others by `random`, of which it has the last digits to the base of 62.
fn part_name(mut random: u64) -> OsString {
    const DIGITS: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    let mut name = String::with_capacity(PREFIX.len() + RANDOM + SUFFIX.len());
    name.push_str(PREFIX);
    for _ in 0..RANDOM {
        name.push(char::from(DIGITS[(random % 62) as usize]));
        random /= 62;
    }
    name.push_str(SUFFIX);
    name.into()
}

/// Whether a name is one that a part file gets. A file of the source may have such a name too.
pub fn is_part_name(name: &OsStr) -> bool {
    has_shape(name, SUFFIX)
}

/// Whether a name is one that the journal of a part file gets.
pub fn is_journal_name(name: &OsStr) -> bool {
    has_shape(name, JOURNAL_SUFFIX)
}

/// The name of a journal, told from others by `key`: lower-case letters and digits, because there are
/// file systems that do not tell letter case.
pub fn journal_name(key: [u8; RANDOM]) -> OsString {
    of_key(key, JOURNAL_SUFFIX)
}

/// The name of a part file that is told from others by `key`, in letters as those of a journal.
pub fn part_name_of(key: [u8; RANDOM]) -> OsString {
    of_key(key, SUFFIX)
}

fn of_key(key: [u8; RANDOM], suffix: &str) -> OsString {
    const LETTERS: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";
    let key = key.map(|byte| char::from(LETTERS[usize::from(byte % 32)]));
    format!("{PREFIX}{}{suffix}", String::from_iter(key)).into()
}

/// Makes something under a random name that is not taken. What the name is made of cannot be foretold: it comes
/// from the keys that the standard library gives its maps, of which no two are alike.
pub(super) fn under_part_name<T>(
    make: impl Fn(&OsStr) -> io::Result<T>,
) -> io::Result<(T, OsString)> {
    // A name that is taken was made with intent: there are 62¹⁰ of them.
    const TRIES: u32 = 1 << 16;
    let mut taken = io::ErrorKind::AlreadyExists.into();
    for _ in 0..TRIES {
        let name = part_name(RandomState::new().build_hasher().finish());
        match make(&name) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => taken = error,
            made => return made.map(|made| (made, name)),
        }
    }
    Err(taken)
}

fn has_shape(name: &OsStr, suffix: &str) -> bool {
    name.as_encoded_bytes()
        .strip_prefix(PREFIX.as_bytes())
        .and_then(|name| name.strip_suffix(suffix.as_bytes()))
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
        for random in [0, 1, 61, 62, u64::MAX] {
            assert!(is_part_name(&part_name(random)), "{random}");
        }
        assert_eq!(part_name(62 + 10), ".A100000000.dircopy-part");
        let journal = journal_name([0, 1, 25, 26, 31, 32, 99, 200, 254, 255]);
        assert_eq!(journal, ".abz27adi67.dircopy-journal");
        assert!(is_journal_name(&journal) && !is_part_name(&journal));
        assert!(!is_journal_name(OsStr::new(".a1B2c3D4e5.dircopy-part")));
    }
}
