//! What the user may write for an output beside a path: the disk by its label or UUID, and placeholders.
//!
//! `LABEL=backup/dir` and `UUID=1a2b-3c4d/dir` are a directory on the disk that is called so, wherever it is mounted.
//! `{date}`, `{label}` and `{host}` stand for the day, the label of the source's disk and the name of this machine.
//! A label comes from a disk of any origin, so what is put into a path is one harmless component or part of one.

use std::path::{Path, PathBuf, is_separator};

use crate::error::{Error, Result};
use crate::path::{Shown, directory_of};
use crate::sys::{self, Dir, MountedVolume};

/// The most of a label or name that goes into a path; characters. With four bytes each, a component may have three.
const MOST_CHARACTERS: usize = 40;

/// An output as it was given, and where it is.
#[derive(Debug)]
pub struct OutputName {
    /// As it was given.
    pub given: PathBuf,
    /// The path; as it was given if it is not known.
    pub path: PathBuf,
    /// Whether it names a disk, which must therefore be mounted.
    pub is_on_named_disk: bool,
    /// Why the path is not known.
    pub unknown: Option<Error>,
}

/// Whether an output is written as a path that is no other tomorrow.
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
            is_on_named_disk: false,
            unknown: None,
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
        match expand(&pieces, given, source).and_then(|below| match &disk {
            Some(disk) => {
                disk.find(given).map(|point| point.join(below.trim_start_matches(is_separator)))
            }
            None => Ok(below.into()),
        }) {
            Ok(path) => name.path = path,
            Err(error) => name.unknown = Some(error),
        }
        name.is_on_named_disk = disk.is_some();
        Ok(name)
    }
}

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
    /// Where it is mounted.
    fn find(&self, given: &Path) -> Result<PathBuf> {
        let volumes =
            sys::mounted_volumes().map_err(|error| Error::io("find the disk of", given, error))?;
        let is_it = |volume: &MountedVolume| match self.kind {
            "LABEL=" => volume.label.as_ref().is_some_and(|label| label == self.value),
            _ => volume.uuid.as_ref().is_some_and(|uuid| uuid.eq_ignore_ascii_case(self.value)),
        };
        let found: Vec<_> = volumes.into_iter().filter(is_it).collect();
        match &*found {
            [MountedVolume { point, .. }] => Ok(point.clone()),
            [] => {
                let finding = "its disk is not mounted: no disk that is called so is";
                Err(Error::finding("copy to", given, finding))
            }
            [one, other, ..] => {
                let [one, other] = [one, other].map(|it| Shown::path(&it.point).to_string());
                let finding = format!("two disks that are called so are mounted: {one}, {other}");
                Err(Error::finding("copy to", given, finding))
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
        let len = text[inner..].find(|c: char| !c.is_ascii_lowercase()).unwrap_or(0);
        let end = inner + len;
        let close = if is_double { "}}" } else { "}" };
        if len == 0 || !text[end..].starts_with(close) {
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

/// Whether nothing in a text stands for something else.
fn stands_for_itself(text: &str, pieces: &[Piece<'_>]) -> bool {
    text.is_empty() || *pieces == [Piece::Text(text)]
}

/// Puts the pieces together, each placeholder replaced.
fn expand(pieces: &[Piece<'_>], given: &Path, source: Option<&Path>) -> Result<String> {
    let part = |piece: &Piece<'_>| match *piece {
        Piece::Text(text) => Ok(text.to_owned()),
        Piece::Placeholder("date") => Ok(jiff::Zoned::now().date().to_string()),
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
    let fail = |error| Error::io("find the label of the source for", given, error);
    match label.map_err(fail)?.flatten() {
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
mod tests {
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
