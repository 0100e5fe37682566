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
fn part_name(mut random: u64, shard: Option<ShardTag>) -> OsString {
    const DIGITS: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    let mut name = String::with_capacity(PREFIX.len() + RANDOM + SUFFIX.len());
    name.push_str(PREFIX);
    for _ in 0..RANDOM {
        name.push(char::from(DIGITS[(random % 62) as usize]));
        random /= 62;
    }
    if let Some(shard) = shard {
        name.push('.');
        name.push_str(&shard.text());
    }
    name.push_str(SUFFIX);
    name.into()
}

/// Which of the runs that share an output made a part file. It is in the file's name, so that no other of them
/// removes it while that run lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShardTag {
    /// The plan, by its number.
    pub plan: u32,
    /// Which of its shards.
    pub shard: u32,
    /// Which of the attempts at that, by a random number.
    pub attempt: u32,
}

impl ShardTag {
    /// What stands between the random letters and the end of a name.
    fn text(self) -> String {
        let Self { plan, shard, attempt } = self;
        format!("{plan:08x}-{shard}-{attempt:08x}")
    }
}

/// Which shard made a part file; `None` if its name is not one that a shard gives.
pub fn shard_of_part(name: &OsStr) -> Option<ShardTag> {
    let (random, tag) = middle(name, SUFFIX)?.split_at_checked(RANDOM)?;
    if !random.iter().all(u8::is_ascii_alphanumeric) {
        return None;
    }
    let mut parts = std::str::from_utf8(tag).ok()?.strip_prefix('.')?.splitn(3, '-');
    let plan = u32::from_str_radix(parts.next()?, 16).ok()?;
    let shard = parts.next()?.parse().ok()?;
    let found = ShardTag { plan, shard, attempt: u32::from_str_radix(parts.next()?, 16).ok()? };
    (tag[1..] == *found.text().as_bytes()).then_some(found)
}

/// Whether a name is one that a part file gets. A file of the source may have such a name too.
pub fn is_part_name(name: &OsStr) -> bool {
    has_shape(name, SUFFIX) || shard_of_part(name).is_some()
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
    under_part_name_of(None, make)
}

/// The same for a part file of a shard.
pub(super) fn under_part_name_of<T>(
    shard: Option<ShardTag>,
    make: impl Fn(&OsStr) -> io::Result<T>,
) -> io::Result<(T, OsString)> {
    // A name that is taken was made with intent: there are 62¹⁰ of them.
    const TRIES: u32 = 1 << 16;
    let mut taken = io::ErrorKind::AlreadyExists.into();
    for _ in 0..TRIES {
        let name = part_name(RandomState::new().build_hasher().finish(), shard);
        match make(&name) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => taken = error,
            made => return made.map(|made| (made, name)),
        }
    }
    Err(taken)
}

fn has_shape(name: &OsStr, suffix: &str) -> bool {
    middle(name, suffix).is_some_and(|random| {
        random.len() == RANDOM && random.iter().all(u8::is_ascii_alphanumeric)
    })
}

/// What stands between the beginning and the end of a name.
fn middle<'a>(name: &'a OsStr, suffix: &str) -> Option<&'a [u8]> {
    let name = name.as_encoded_bytes().strip_prefix(PREFIX.as_bytes())?;
    name.strip_suffix(suffix.as_bytes())
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
            assert!(is_part_name(&part_name(random, None)), "{random}");
        }
        assert_eq!(part_name(62 + 10, None), ".A100000000.dircopy-part");
        let tag = ShardTag { plan: 0xab, shard: 4_000_000_000, attempt: 7 };
        let of_shard = part_name(u64::MAX, Some(tag));
        assert!(is_part_name(&of_shard) && of_shard.len() < 72, "{of_shard:?}");
        assert_eq!(shard_of_part(&of_shard), Some(tag));
        for other in [
            ".a1B2c3D4e5.dircopy-part",
            ".a1B2c3D4e5.000000ab-04-00000007.dircopy-part",
            ".a1B2c3D4e5.ab-4-00000007.dircopy-part",
            ".a1B2c3D4e5.000000ab-4.dircopy-part",
            ".a1B2c3D4e5.000000AB-4-00000007.dircopy-part",
            ".a1B2c3D4e5x000000ab-4-00000007.dircopy-part",
            ".a1B2c3D4e.000000ab-4-00000007.dircopy-part",
        ] {
            assert_eq!(shard_of_part(OsStr::new(other)), None, "{other}");
        }
        let journal = journal_name([0, 1, 25, 26, 31, 32, 99, 200, 254, 255]);
        assert_eq!(journal, ".abz27adi67.dircopy-journal");
        assert!(is_journal_name(&journal) && !is_part_name(&journal));
        assert!(!is_journal_name(OsStr::new(".a1B2c3D4e5.dircopy-part")));
    }
}
