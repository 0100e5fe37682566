//! The names of part files and their journals: the one thing by which a later run knows those that a killed run left
//! behind. A name of their shape proves nothing; the tag in it does.

use std::{ffi::OsStr, ffi::OsString, hash::BuildHasher, hash::Hasher, hash::RandomState, io};

/// The beginning of a part file's name: hidden, so that other programs pass it by.
const PREFIX: &str = ".";

/// Number of letters and digits that follow …
const LETTERS: usize = 10;

/// … of which so many are random, if the others are a tag.
const RANDOM: usize = LETTERS - PartTag::LEN;

/// The ending of its name.
const SUFFIX: &str = ".dircopy-part";

/// Number of letters and digits in a journal's name: those of the final name, and a tag.
const JOURNAL_LETTERS: usize = LETTERS + PartTag::LEN;

/// The ending of the name of a part file's journal.
const JOURNAL_SUFFIX: &str = ".dircopy-journal";

/// The digits of numbers to the base of 62.
const DIGITS: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/// The mark by which a later run knows a part file as one that it may remove: it is in the file's name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PartOwner {
    /// The output whose runs make it; without one no run removes it but the one that made it.
    pub output: Option<PartTag>,
    /// The shard, where several runs share an output.
    pub shard: Option<ShardTag>,
}

/// The tag of the output whose runs made a part file: letters that come from a secret of theirs. A file that only has
/// the shape of such a name belongs to other programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PartTag([u8; Self::LEN]);

impl PartTag {
    /// Number of its letters: one in 900 million other names has the same.
    pub const LEN: usize = 5;

    /// The one that is made of these random bytes.
    pub fn new(random: [u8; 8]) -> Self {
        Self(digits(u64::from_le_bytes(random)))
    }

    /// True if a part file of this name was made under this tag.
    pub fn is_in(self, name: &OsStr) -> bool {
        is_part_name(name)
            && middle(name, SUFFIX).and_then(|it| it.get(RANDOM..LETTERS)) == Some(&self.0)
    }
}

/// Patterns of gitignore(5) that match what killed runs with these tags left, wherever it lies: part files, also those
/// of shards, and journals.
pub fn leftover_patterns(parts: PartTag, journals: [u8; PartTag::LEN]) -> [String; 3] {
    let any = |letters| "?".repeat(letters);
    let tag: String = parts.0.iter().copied().map(char::from).collect();
    let part = format!("{PREFIX}{}{tag}", any(RANDOM));
    let journal = of_key(&journals, JOURNAL_SUFFIX).to_string_lossy().into_owned();
    let end_of_journal = journal.trim_start_matches(PREFIX);
    [
        format!("{part}{SUFFIX}"),
        format!("{part}.*-*-*{SUFFIX}"),
        format!("{PREFIX}{}{end_of_journal}", any(LETTERS)),
    ]
}

/// The last digits of a number to the base of 62.
fn digits<const N: usize>(mut number: u64) -> [u8; N] {
    std::array::from_fn(|_| {
        let digit = DIGITS[(number % 62) as usize];
        number /= 62;
        digit
    })
}

/// The name of a part file of this owner, told from others by `random`.
fn part_name(random: u64, owner: PartOwner) -> OsString {
    let mut letters: [u8; LETTERS] = digits(random);
    if let Some(PartTag(tag)) = owner.output {
        letters[RANDOM..].copy_from_slice(&tag);
    }
    let mut name = String::with_capacity(PREFIX.len() + LETTERS + SUFFIX.len());
    name.push_str(PREFIX);
    name.extend(letters.map(char::from));
    if let Some(shard) = owner.shard {
        name.push('.');
        name.push_str(&shard.text());
    }
    name.push_str(SUFFIX);
    name.into()
}

/// The tag of the run, among those that share an output, that made a part file. It is in the file's name, so that no
/// other of them removes it while that run lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShardTag {
    /// The plan, by its number.
    pub plan: u32,
    /// The shard.
    pub shard: u32,
    /// The attempt at it, by a random number.
    pub attempt: u32,
}

impl ShardTag {
    /// The text between the random letters and the end of a name.
    fn text(self) -> String {
        let Self { plan, shard, attempt } = self;
        format!("{plan:08x}-{shard}-{attempt:08x}")
    }
}

/// The shard that made a part file; `None` if its name is not one that a shard gives.
pub fn shard_of_part(name: &OsStr) -> Option<ShardTag> {
    let (random, tag) = middle(name, SUFFIX)?.split_at_checked(LETTERS)?;
    if !random.iter().all(u8::is_ascii_alphanumeric) {
        return None;
    }
    let mut parts = std::str::from_utf8(tag).ok()?.strip_prefix('.')?.splitn(3, '-');
    let plan = u32::from_str_radix(parts.next()?, 16).ok()?;
    let shard = parts.next()?.parse().ok()?;
    let found = ShardTag { plan, shard, attempt: u32::from_str_radix(parts.next()?, 16).ok()? };
    (tag[1..] == *found.text().as_bytes()).then_some(found)
}

/// True for a name that a part file may get. A file of the source may have such a name too.
pub fn is_part_name(name: &OsStr) -> bool {
    has_shape(name, SUFFIX, LETTERS) || shard_of_part(name).is_some()
}

/// True for a name that the journal of a part file may get, or got before there were tags.
pub fn is_journal_name(name: &OsStr) -> bool {
    [LETTERS, JOURNAL_LETTERS].iter().any(|letters| has_shape(name, JOURNAL_SUFFIX, *letters))
}

/// The name of a journal, told from others by `key`, and from those of other outputs by `tag`: lower-case letters and
/// digits, because there are file systems that do not tell letter case.
pub fn journal_name(key: [u8; LETTERS], tag: [u8; PartTag::LEN]) -> OsString {
    of_key(&[&key[..], &tag].concat(), JOURNAL_SUFFIX)
}

/// True for a name that a journal may get under this tag.
pub fn is_journal_of(name: &OsStr, tag: [u8; PartTag::LEN]) -> bool {
    let of_tag = of_key(&tag, JOURNAL_SUFFIX);
    let end = of_tag.as_encoded_bytes().get(PREFIX.len()..);
    is_journal_name(name) && end.is_some_and(|end| name.as_encoded_bytes().ends_with(end))
}

/// The name of a part file that is told from others by `key`, in letters as those of a journal; in an output by fewer
/// of them, before the tag of its runs.
pub fn part_name_of(key: [u8; LETTERS], output: Option<PartTag>) -> OsString {
    let mut letters = small(&key);
    if let Some(PartTag(tag)) = output {
        letters.truncate(RANDOM);
        letters.extend(tag.map(char::from));
    }
    format!("{PREFIX}{letters}{SUFFIX}").into()
}

fn of_key(key: &[u8], suffix: &str) -> OsString {
    format!("{PREFIX}{}{suffix}", small(key)).into()
}

fn small(key: &[u8]) -> String {
    const SMALL: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";
    key.iter().map(|byte| char::from(SMALL[usize::from(byte % 32)])).collect()
}

/// Makes something of this owner under a random name that is not taken. What the name is made of cannot be foretold: it
/// comes from the keys that the standard library gives its maps, of which no two are alike.
pub(super) fn under_part_name<T>(
    owner: PartOwner,
    make: impl Fn(&OsStr) -> io::Result<T>,
) -> io::Result<(T, OsString)> {
    // A name that is taken was made with intent: there are 62⁵ of each tag.
    const TRIES: u32 = 1 << 16;
    let mut taken = io::ErrorKind::AlreadyExists.into();
    for _ in 0..TRIES {
        let name = part_name(RandomState::new().build_hasher().finish(), owner);
        match make(&name) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => taken = error,
            made => return made.map(|made| (made, name)),
        }
    }
    Err(taken)
}

fn has_shape(name: &OsStr, suffix: &str, letters: usize) -> bool {
    middle(name, suffix).is_some_and(|random| {
        random.len() == letters && random.iter().all(u8::is_ascii_alphanumeric)
    })
}

/// The text between the beginning and the end of a name.
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
            assert!(is_part_name(&part_name(random, PartOwner::default())), "{random}");
        }
        assert_eq!(part_name(62 + 10, PartOwner::default()), ".A100000000.dircopy-part");
        let tag = ShardTag { plan: 0xab, shard: 4_000_000_000, attempt: 7 };
        let of_shard = part_name(u64::MAX, PartOwner { shard: Some(tag), output: None });
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
        let journal = journal_name([0, 1, 25, 26, 31, 32, 99, 200, 254, 255], [0, 1, 2, 3, 4]);
        assert_eq!(journal, ".abz27adi67abcde.dircopy-journal");
        assert!(is_journal_name(&journal) && !is_part_name(&journal));
        assert!(!is_journal_name(OsStr::new(".a1B2c3D4e5.dircopy-part")));
    }

    #[test]
    fn only_names_with_the_tag_are_of_an_output() {
        let (tag, other) = (PartTag::new([7; 8]), PartTag::new([8; 8]));
        let shard = ShardTag { plan: 1, shard: 2, attempt: 3 };
        for shard in [None, Some(shard)] {
            let name = part_name(62, PartOwner { output: Some(tag), shard });
            assert!(is_part_name(&name) && tag.is_in(&name) && !other.is_in(&name), "{name:?}");
            assert!(name.to_str().unwrap().starts_with(".01000"), "{name:?}");
            assert_eq!(shard_of_part(&name), shard);
            assert!(!tag.is_in(&part_name(62, PartOwner { output: None, shard })));
        }
        let journal = journal_name([0; LETTERS], [7; PartTag::LEN]);
        assert!(is_journal_of(&journal, [7; PartTag::LEN]));
        assert!(!is_journal_of(&journal, [8; PartTag::LEN]));
        assert!(!tag.is_in(&journal) && !tag.is_in(OsStr::new("x")));
    }
}
