//! The words of the command line that stand for something else: sizes, and names of outputs with `{date}`, labels and
//! UUIDs.

use std::{path::Path, path::PathBuf, path::is_separator};

use jiff::{Timestamp, tz::TimeZone};

use crate::error::{Deed, Error, Result};
use crate::{
    cli::record::log::time_zone, path::Shown, path::directory_of, sys, sys::Dir, sys::MountedVolume,
};

// Where engines say which task of an array a process is.

/// The variables, and with which number each begins.
const VARIABLES: [(&str, u32); 4] = [
    ("SLURM_ARRAY_TASK_ID", 0),
    ("JOB_COMPLETION_INDEX", 0),
    ("PBS_ARRAY_INDEX", 0),
    ("SGE_TASK_ID", 1),
];

/// The number that the engine gives, from 0; `None` if no variable is set. The error says what is in one.
pub fn task() -> Result<Option<u32>, String> {
    for (variable, first) in VARIABLES {
        let Ok(value) = std::env::var(variable) else { continue };
        // Grid Engine says so outside of arrays.
        if value == "undefined" {
            continue;
        }
        let number = value.parse::<u32>().ok().and_then(|number| number.checked_sub(first));
        let none = || format!("{variable} is {value:?}, which is no shard");
        return number.ok_or_else(none).map(Some);
    }
    Ok(None)
}

/// The names of the variables, for a sentence.
pub fn variables() -> String {
    VARIABLES.map(|(name, _)| name).join(", ")
}

// Numbers on the command line: sizes such as `4096`, `128K`, `1MiB` and `2GB`, and their limits.

/// More workers than any machine gains from; a typing error is more likely.
pub const MOST_WORKERS: u64 = 256;

/// A rate below this needs a unit, because `--limit-rate 5` hardly means 5 bytes a second; bytes.
const LEAST_PLAIN_RATE: u64 = 64 << 10;

/// Reads a number of bytes. The units are those of GNU tools: `K` and `KiB` are 1024 bytes, `KB` is
/// 1000, likewise M, G and T, in either case.
pub fn parse(text: &str) -> Result<u64, String> {
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let expected = || Err("expected a number of bytes such as 4096, 128K or 1MiB".into());
    if number.is_empty() {
        return expected();
    }
    let (power, base): (u32, u64) = match unit.trim_start().to_ascii_lowercase().as_str() {
        "" | "b" => (0, 1024),
        "k" | "kib" => (1, 1024),
        "m" | "mib" => (2, 1024),
        "g" | "gib" => (3, 1024),
        "t" | "tib" => (4, 1024),
        "kb" => (1, 1000),
        "mb" => (2, 1000),
        "gb" => (3, 1000),
        "tb" => (4, 1000),
        _ => return expected(),
    };
    let bytes = number.parse().ok().and_then(|number: u64| number.checked_mul(base.pow(power)));
    bytes.ok_or_else(|| "the number is too large".into())
}

/// Reads a rate: bytes in a second, at least 1, and with a unit if there are few.
pub fn parse_rate(text: &str) -> Result<u64, String> {
    let has_unit = text.contains(|c: char| c.is_ascii_alphabetic());
    match parse(text)? {
        0 => Err("at a rate of 0 nothing would ever be copied".into()),
        rate if rate < LEAST_PLAIN_RATE && !has_unit => Err(format!(
            "{rate} bytes a second: was {rate}K or {rate}M meant? {rate}B is taken as it stands"
        )),
        rate => Ok(rate),
    }
}

/// Reads a block size: from 1 byte to 1 GiB.
pub fn parse_block(text: &str) -> Result<usize, String> {
    match parse(text)? {
        0 => Err("a block must have at least 1 byte".into()),
        size if size > 1 << 30 => Err("a block may have at most 1 GiB".into()),
        size => Ok(size as usize),
    }
}

// The words for an output other than a path: the disk by its label or UUID, and placeholders.
//
// `LABEL=backup/dir` and `UUID=1a2b-3c4d/dir` are a directory on the disk that is called so, wherever it is mounted.
// `{date}`, `{label}` and `{host}` stand for the day, the label of the source's disk and the name of this machine.
// A label comes from a disk of any origin, so what is put into a path is one harmless component or part of one.

/// The most of a label or name that goes into a path; characters. With four bytes each, a component may have three.
const MOST_CHARACTERS: usize = 40;

/// An output as it was given, and where it is.
#[derive(Debug)]
pub struct OutputName {
    /// The path as it was given.
    pub given: PathBuf,
    /// The path; as it was given if it is not known.
    pub path: PathBuf,
    /// What messages call it: the path, on a disk that is named behind the name of that.
    pub called: String,
    /// True if it names a disk, which must therefore be mounted.
    pub is_on_named_disk: bool,
    /// Why the path is not known.
    pub unknown: Option<Error>,
    /// True if it is not known because no disk that is called so is mounted.
    pub is_absent: bool,
}

/// True if an output is written as a path that is the same tomorrow.
pub fn is_plain(given: &Path) -> bool {
    let text = given.to_string_lossy();
    named_disk(&text).is_none() && stands_for_itself(&text, &pieces(&text))
}

impl OutputName {
    /// Finds out where the output `given` is, for a copy of `source`.
    ///
    /// # Errors
    /// It is written wrongly.
    pub fn resolve(given: &Path, source: Option<&Path>) -> std::result::Result<Self, String> {
        let text = given.to_string_lossy();
        let mut name = Self {
            given: given.to_path_buf(),
            path: given.to_path_buf(),
            called: Shown::path(given).to_string(),
            is_on_named_disk: false,
            unknown: None,
            is_absent: false,
        };
        let disk = named_disk(&text);
        let below = disk.as_ref().map_or(&*text, |disk| disk.below);
        let pieces = pieces(below);
        if let Some(unknown) = pieces.iter().find_map(Piece::unknown) {
            return Err(format!(
                "{} has {{{unknown}}} in it, which stands for nothing\n\n  tip: {{date}}, {{label}} and {{host}} do; \
                 a directory that is called so is {{{{{unknown}}}}}",
                Shown::path(given)
            ));
        }
        if disk.is_some() && below.split(is_separator).any(|part| part == "..") {
            return Err(format!(
                "{} names a disk, and \"..\" could lead out of it\n\n  tip: write the path from the top of the disk",
                Shown::path(given)
            ));
        }
        if disk.is_none() && stands_for_itself(below, &pieces) {
            return Ok(name);
        }
        if given.to_str().is_none() {
            let given = Shown::path(given);
            return Err(format!("{given} is not UTF-8, so nothing can stand for something in it"));
        }
        let found = expand(&pieces, given, source).and_then(|below| match &disk {
            Some(disk) => {
                let path =
                    disk.find(given, "copy to")?.join(below.trim_start_matches(is_separator));
                Ok((path, format!("{}{}{below}", disk.kind, disk.value).into()))
            }
            None => Ok((PathBuf::from(&below), PathBuf::from(below))),
        });
        match found {
            Ok((path, called)) => {
                (name.path, name.called) = (path, Shown::path(&called).to_string())
            }
            Err(error) => {
                name.is_absent = disk.as_ref().is_some_and(NamedDisk::is_absent);
                name.unknown = Some(error);
            }
        }
        name.is_on_named_disk = disk.is_some();
        Ok(name)
    }
}

/// True if a path is written as one on a disk that is named, wherever that is mounted.
pub fn is_on_named_disk(path: &Path) -> bool {
    named_disk(&path.to_string_lossy()).is_some()
}

/// True if a path is on a disk that is named, and none that is called so is mounted.
pub fn is_absent(path: &Path) -> bool {
    named_disk(&path.to_string_lossy()).is_some_and(|disk| disk.is_absent())
}

/// The path that `given` stands for, if it is on a disk that is named; or else as it was given. `deed` says what for.
///
/// # Errors
/// No disk that is called so is mounted, or several are.
pub fn located(given: &Path, deed: &'static str) -> Result<PathBuf> {
    let text = given.to_string_lossy();
    match named_disk(&text) {
        Some(disk) => {
            if disk.below.split(is_separator).any(|part| part == "..") {
                return Err(Error::finding(deed, given, OUT_OF_DISK));
            }
            Ok(disk.find(given, deed)?.join(disk.below.trim_start_matches(is_separator)))
        }
        None => Ok(given.to_path_buf()),
    }
}

/// The same for all of these, each of which stays as it was given if it is not known.
///
/// # Errors
/// One is not known.
pub fn locate_all<const N: usize>(
    groups: [&mut Vec<PathBuf>; N],
    deed: &'static str,
) -> Result<()> {
    for path in groups.into_iter().flatten() {
        *path = located(path, deed)?;
    }
    Ok(())
}

/// Why a path on a disk that is named is none.
const OUT_OF_DISK: &str =
    "it names a disk, and \"..\" could lead out of it: write the path from the top of the disk";

/// A disk that is named, and the path below it.
struct NamedDisk<'a> {
    kind: &'static str,
    value: &'a str,
    below: &'a str,
}

/// The disk that `text` names, if it begins so.
fn named_disk(text: &str) -> Option<NamedDisk<'_>> {
    let kinds = ["LABEL=", "UUID="].into_iter();
    let (kind, rest) = kinds.filter_map(|kind| Some((kind, text.strip_prefix(kind)?))).next()?;
    let (value, below) = rest.split_at(rest.find(is_separator).unwrap_or(rest.len()));
    Some(NamedDisk { kind, value, below })
}

impl NamedDisk<'_> {
    /// True if no mounted disk is called so.
    fn is_absent(&self) -> bool {
        !self.value.is_empty()
            && sys::mounted_volumes().is_ok_and(|all| !all.iter().any(|volume| self.is(volume)))
    }

    fn is(&self, volume: &MountedVolume) -> bool {
        match self.kind {
            "LABEL=" => volume.label.as_ref().is_some_and(|label| label == self.value),
            _ => volume.uuid.as_ref().is_some_and(|uuid| uuid.eq_ignore_ascii_case(self.value)),
        }
    }

    /// Where it is mounted.
    fn find(&self, given: &Path, deed: &'static str) -> Result<PathBuf> {
        if self.value.is_empty() {
            let finding =
                format!("it names no disk: {0}NAME/DIR is DIR on the disk with NAME", self.kind);
            return Err(Error::finding(deed, given, finding));
        }
        let volumes = sys::mounted_volumes().deed("find the disk of", given)?;
        let found: Vec<_> = volumes.iter().filter(|volume| self.is(volume)).collect();
        match &*found {
            [MountedVolume { point, .. }] => Ok(point.clone()),
            [] => {
                let value = Shown::bytes(self.value.as_bytes());
                let finding = match self.kind {
                    "LABEL=" => {
                        let mut labels: Vec<_> =
                            volumes.iter().filter_map(|volume| volume.label.as_deref()).collect();
                        labels.sort_unstable();
                        labels.dedup();
                        let all = labels
                            .iter()
                            .map(|label| Shown::bytes(label.as_encoded_bytes()).to_string());
                        let all = match labels.is_empty() {
                            true => "none has one".to_owned(),
                            false => format!("mounted are {}", all.collect::<Vec<_>>().join(", ")),
                        };
                        format!("no mounted disk has the label {value}; {all}")
                    }
                    _ => format!("no mounted disk has the UUID {value}"),
                };
                Err(Error::finding(deed, given, finding))
            }
            [one, other, ..] => {
                let [one, other] = [one, other].map(|it| Shown::path(&it.point).to_string());
                let finding = format!("two disks that are called so are mounted: {one}, {other}");
                Err(Error::finding(deed, given, finding))
            }
        }
    }
}

/// A part of an output as it was given.
#[derive(Debug, PartialEq, Eq)]
enum Piece<'a> {
    /// Stands for itself.
    Text(&'a str),
    /// A placeholder, without its braces.
    Placeholder(&'a str),
}

impl<'a> Piece<'a> {
    /// The placeholder that stands for nothing, if this is one.
    fn unknown(&self) -> Option<&'a str> {
        match self {
            Piece::Placeholder("date" | "label" | "host") | Piece::Text(_) => None,
            Piece::Placeholder(other) => Some(other),
        }
    }
}

/// Takes a text apart. A placeholder is a word of small letters in braces; in double braces it is a word in braces, and
/// all other braces are what they are, such as those of `\\?\Volume{…}`.
fn pieces(text: &str) -> Vec<Piece<'_>> {
    let (mut pieces, mut start, mut at) = (Vec::new(), 0, 0);
    while let Some(brace) = text[at..].find('{').map(|found| at + found) {
        let is_double = text[brace..].starts_with("{{");
        let inner = brace + if is_double { 2 } else { 1 };
        let len = text[inner..].find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(0);
        let end = inner + len;
        let close = if is_double { "}}" } else { "}" };
        // Other words in capitals are what they are.
        let word = &text[inner..end];
        let is_one = word.chars().all(|c| c.is_ascii_lowercase())
            || ["date", "label", "host"].iter().any(|it| it.eq_ignore_ascii_case(word));
        if len == 0 || !is_one || !text[end..].starts_with(close) {
            // Of two braces the second may begin a placeholder.
            at = brace + 1;
            continue;
        }
        if start < brace {
            pieces.push(Piece::Text(&text[start..brace]));
        }
        at = end + close.len();
        pieces.push(match is_double {
            true => Piece::Text(&text[brace + 1..at - 1]),
            false => Piece::Placeholder(&text[inner..end]),
        });
        start = at;
    }
    if start < text.len() {
        pieces.push(Piece::Text(&text[start..]));
    }
    pieces
}

/// True if nothing in a text stands for something else.
fn stands_for_itself(text: &str, pieces: &[Piece<'_>]) -> bool {
    text.is_empty() || *pieces == [Piece::Text(text)]
}

/// Puts the pieces together, each placeholder replaced.
fn expand(pieces: &[Piece<'_>], given: &Path, source: Option<&Path>) -> Result<String> {
    let part = |piece: &Piece<'_>| match *piece {
        Piece::Text(text) => Ok(text.to_owned()),
        Piece::Placeholder("date") => {
            let zone = time_zone().unwrap_or(TimeZone::UTC);
            Ok(Timestamp::now().to_zoned(zone).date().to_string())
        }
        Piece::Placeholder("label") => label(given, source),
        Piece::Placeholder(_) => match harmless(&sys::host_name()) {
            host if host.is_empty() => {
                let finding = "{host} stands for nothing, because this machine has no name";
                Err(Error::finding("find out about", given, finding))
            }
            host => Ok(host),
        },
    };
    pieces.iter().map(part).collect()
}

/// The label of the disk that `source` lies on.
fn label(given: &Path, source: Option<&Path>) -> Result<String> {
    let dir = source.map(|source| Dir::open(source).or_else(|_| Dir::open(directory_of(source))));
    let label = dir.map(|dir| dir.and_then(|dir| sys::volume_label(&dir))).transpose();
    match label.deed("find the label of the source for", given)?.flatten() {
        Some(label) => Ok(harmless(&label.to_string_lossy())),
        None => {
            let finding = "{label} stands for nothing, because the source's disk has no label";
            Err(Error::finding("find out about", given, finding))
        }
    }
}

/// The same without what means something in a path, on a screen or to a system: letters, digits, `-`, `_` and `.` stay,
/// a point at either end does not.
fn harmless(name: &str) -> String {
    let stays = |c: char| c.is_alphanumeric() || ['-', '_', '.'].contains(&c);
    let mut chars: Vec<char> =
        name.trim().chars().take(MOST_CHARACTERS).map(|c| if stays(c) { c } else { '_' }).collect();
    let ends = [0, chars.len().saturating_sub(1)];
    for end in ends {
        if let Some(point) = chars.get_mut(end).filter(|c| **c == '.') {
            *point = '_';
        }
    }
    chars.into_iter().collect()
}

#[cfg(test)]
mod size_tests {
    use super::*;

    #[test]
    fn units() {
        for (text, bytes) in [
            ("0", 0),
            ("4096", 4096),
            ("128K", 128 << 10),
            ("128k", 128 << 10),
            ("1MiB", 1 << 20),
            ("1 MiB", 1 << 20),
            ("3GB", 3_000_000_000),
            ("2t", 2 << 40),
            ("7B", 7),
        ] {
            assert_eq!(parse(text), Ok(bytes), "{text}");
        }
        for text in ["", "banana", "-1", "1.5M", "K", "1X", "1KiBs", "99999999999T", "0x10", "+1"] {
            assert!(parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_low_rate_needs_a_unit() {
        for (text, rate) in [("5M", 5 << 20), ("5B", 5), ("65536", 65_536), ("1 k", 1024)] {
            assert_eq!(parse_rate(text), Ok(rate), "{text}");
        }
        for text in ["5", "65535", "0", "0K"] {
            assert!(parse_rate(text).is_err(), "{text}");
        }
        assert!(parse_rate("5").is_err_and(|error| error.contains("5K or 5M")));
    }

    #[test]
    fn blocks_have_sensible_sizes() {
        assert_eq!(parse_block("1"), Ok(1));
        assert_eq!(parse_block("1GiB"), Ok(1 << 30));
        for text in ["0", "0K", "1073741825", "1000000T", "banana"] {
            assert!(parse_block(text).is_err(), "{text}");
        }
    }
}

#[cfg(test)]
mod output_name_tests {
    use super::*;

    #[test]
    fn placeholders_are_words_in_braces() {
        use Piece::{Placeholder, Text};
        for (text, expected) in [
            ("", vec![]),
            ("/a", vec![Text("/a")]),
            ("/a/{date}", vec![Text("/a/"), Placeholder("date")]),
            (
                "{label}-{host}x",
                vec![Placeholder("label"), Text("-"), Placeholder("host"), Text("x")],
            ),
            ("/a/{{date}}/b", vec![Text("/a/"), Text("{date}"), Text("/b")]),
            ("{{date}", vec![Text("{"), Placeholder("date")]),
            ("\\\\?\\Volume{b75e2c83-00}\\x", vec![Text("\\\\?\\Volume{b75e2c83-00}\\x")]),
            ("{}{ {A} {a", vec![Text("{}{ {A} {a")]),
        ] {
            assert_eq!(pieces(text), expected, "{text}");
        }
        let wrong = OutputName::resolve(Path::new("/a/{dat}"), None).unwrap_err();
        assert!(wrong.contains("{dat}") && wrong.contains("{{dat}}"), "{wrong}");
    }

    #[test]
    fn a_name_from_elsewhere_is_part_of_one_component() {
        for (name, expected) in [
            ("EOS_DIGITAL", "EOS_DIGITAL"),
            ("my card ", "my_card"),
            ("..", "__"),
            (".", "_"),
            ("../../etc/passwd", "_._.._etc_passwd"),
            (".dircopy", "_dircopy"),
            ("a\\b:c*d\n\u{202e}e", "a_b_c_d__e"),
            ("Ärger", "Ärger"),
            ("", ""),
        ] {
            assert_eq!(harmless(name), expected, "{name}");
        }
        let long = harmless(&"\u{10400}".repeat(300));
        assert_eq!((long.chars().count(), long.len()), (40, 160));
    }

    #[test]
    fn disks_are_named_at_the_beginning_only() {
        let disk = |text| named_disk(text).map(|disk| (disk.kind, disk.value, disk.below));
        assert_eq!(disk("LABEL=my disk/a/b"), Some(("LABEL=", "my disk", "/a/b")));
        assert_eq!(disk("UUID=1a2b-3c4d"), Some(("UUID=", "1a2b-3c4d", "")));
        assert_eq!(disk("./LABEL=x"), None);
        for out in ["LABEL=x/..", "UUID=1/../etc", "LABEL=x/a/../../b"] {
            let wrong = OutputName::resolve(Path::new(out), None).unwrap_err();
            assert!(wrong.contains("could lead out of it"), "{wrong}");
        }
        let plain = ["/a/LABEL=x", "/a/{B}", ""].map(|text| is_plain(Path::new(text)));
        assert_eq!(plain, [true; 3]);
        let others = ["UUID=x", "/a/{date}", "{{a}}"].map(|text| is_plain(Path::new(text)));
        assert_eq!(others, [false; 3]);
    }
}
