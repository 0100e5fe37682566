//! Entries as JSON, for the report and for the log.
//!
//! Names are bytes and JSON has only text: a name that is not UTF-8 is given twice, as text with the
//! bytes that are none written `\xNN`, and as the bytes themselves in hexadecimal digits.

use std::borrow::Cow;
use std::fmt::Write;
use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::cli::show::verify_messages::compared;
use crate::error::Error;
use crate::event::{Done, Event};
use crate::path::{Shown, is_deceptive};
use crate::verify::{Finding, HashedFrom, Target, Verdict};

/// A name or a path.
#[derive(Debug, Default, Serialize)]
pub struct Name {
    /// As text.
    path: String,
    /// The bytes, if they are not that text's.
    #[serde(skip_serializing_if = "Option::is_none")]
    path_bytes: Option<String>,
}

impl Name {
    /// A name given as bytes.
    pub fn bytes(name: &[u8]) -> Self {
        match std::str::from_utf8(name) {
            Ok(text) => Self { path: text.to_owned(), path_bytes: None },
            Err(_) => Self { path: Shown::bytes(name).to_string(), path_bytes: Some(hex(name)) },
        }
    }

    /// A path.
    pub fn path(path: &Path) -> Self {
        Self::bytes(path.as_os_str().as_encoded_bytes())
    }
}

/// Bytes as hexadecimal digits.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut hex, byte| {
        // Writing to a string does not fail.
        let _ = write!(hex, "{byte:02x}");
        hex
    })
}

/// Something that happened to an entry, or an error.
#[derive(Debug, Default, Serialize)]
pub struct Entry<'a> {
    /// What happened, in a word.
    pub event: &'static str,
    /// What could not be done; completes "cannot …".
    #[serde(skip_serializing_if = "Option::is_none")]
    deed: Option<&'static str>,
    /// What it happened to.
    #[serde(flatten)]
    name: Name,
    /// The manifest and the line in it that names it (of a check).
    #[serde(skip_serializing_if = "Option::is_none")]
    manifest: Option<Cow<'a, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    line: Option<u64>,
    /// The directories in which the file is bad, and in which it is good (of a check of several).
    #[serde(skip_serializing_if = "Option::is_none")]
    bad_at: Option<Vec<Name>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    good_at: Option<Vec<Name>>,
    /// The system's error number.
    #[serde(skip_serializing_if = "Option::is_none")]
    errno: Option<i32>,
    /// Why.
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<Cow<'a, str>>,
    /// At which output, if there are several.
    #[serde(skip_serializing_if = "Option::is_none")]
    output: Option<String>,
}

impl<'a> Entry<'a> {
    /// An error; `event` says what it came to.
    pub fn error(event: &'static str, error: &Error) -> Self {
        Self {
            event,
            deed: Some(error.deed()),
            name: Name::path(error.path()),
            errno: error.errno(),
            text: Some(error.reason().into()),
            ..Self::default()
        }
    }

    /// The same, and at which output, if that needs to be said.
    pub fn at(self, output: Option<&str>) -> Self {
        Self { output: output.map(str::to_owned), ..self }
    }

    /// An error in words.
    pub fn sentence(&self) -> String {
        let (deed, text) =
            (self.deed.unwrap_or_default(), self.text.as_deref().unwrap_or_default());
        format!("{}: cannot {deed} {}: {text}", self.event, Shown::bytes(self.name.path.as_bytes()))
    }

    fn named(event: &'static str, name: &[u8], text: Option<Cow<'a, str>>) -> Self {
        Self { event, name: Name::bytes(name), text, ..Self::default() }
    }

    /// An event of a copy; whether it belongs into a report, where only what is amiss is.
    pub fn of(event: &Event<'a>) -> (Self, bool) {
        match event {
            Event::Stands(path, done) => {
                let word = match done {
                    Done::Copied => "copied",
                    Done::Replaced => "replaced",
                    Done::Linked => "hard-linked",
                    Done::Symlinked => "linked",
                    Done::Kept => "kept",
                };
                (Self::named(word, path, None), false)
            }
            Event::Left(path, why) => (Self::named("left", path, Some((*why).into())), true),
            Event::Skipped(path, kind) => {
                (Self::named("skipped", path, Some(kind.name().into())), true)
            }
            Event::Swept(path) => (Self::named("swept", path, None), false),
            Event::Resumed(path, bytes) => {
                let text = format!("{bytes} bytes were there");
                (Self::named("resumed", path, Some(text.into())), false)
            }
            Event::Retired(path) => (Self::named("retired", path, None), false),
            Event::Waiting(text) => {
                (Self { event: "waiting", text: Some((*text).into()), ..Self::default() }, false)
            }
            Event::Failed(error) => (Self::error("failed", error), true),
            Event::Rotten(error) => (Self::error("rotten", error), true),
            Event::Gone(path) => (Self::named("gone", path, None), true),
            Event::Warning(error) => (Self::error("warning", error), true),
        }
    }

    /// What a check found; whether it belongs into a report.
    pub fn found(target: &'a Target, finding: &Finding) -> (Self, bool) {
        let full = |event, path, text| {
            let full = target.path_of(path);
            Self::named(event, full.as_os_str().as_encoded_bytes(), text)
        };
        let here = |event, text: String| {
            Self::named(event, target.manifest.as_os_str().as_encoded_bytes(), Some(text.into()))
        };
        let (entry, line) = match finding {
            Finding::File { line, path, verdict, .. } => {
                let entry = match verdict {
                    Verdict::Good(HashedFrom::Device) => full("good", path, None),
                    Verdict::Good(HashedFrom::Cache) => {
                        full("good", path, Some("through a cache".into()))
                    }
                    Verdict::Differs(_) => full("differs", path, None),
                    Verdict::Missing => full("missing", path, None),
                    Verdict::NotThrough(kind) => {
                        let text = format!("{} is on the way, not followed", kind.name());
                        full("missing", path, Some(text.into()))
                    }
                    Verdict::NotAFile(kind) => full("not-a-file", path, Some(kind.name().into())),
                    Verdict::Unreadable(error) => Self::error("unreadable", error),
                    Verdict::Refused(why) => full("refused", path, Some(why.clone().into())),
                };
                (entry, Some(*line))
            }
            Finding::Converted { line, from, to } => {
                let to = Shown::bytes(to.as_bytes());
                (full("converted", from, Some(format!("taken for {to}").into())), Some(*line))
            }
            Finding::Refused { line, name, why } => {
                (Self::named("refused", name, Some(why.clone().into())), Some(*line))
            }
            Finding::Twice { line, first, path, same } => {
                let (event, how) = match same {
                    true => ("repeated", "the same digest"),
                    false => ("contradicted", "another digest"),
                };
                let text = format!("on line {first} too, with {how}");
                (full(event, path, Some(text.into())), Some(*line))
            }
            Finding::Malformed { line, fault } => {
                (here("malformed", fault.to_string()), Some(*line))
            }
            Finding::Torn { line, .. } => (here("torn", "it is cut off".into()), Some(*line)),
            Finding::Utf16 => (here("notice", "it is UTF-16 text".into()), None),
            Finding::Nothing => (here("empty", "it lists no file".into()), None),
            Finding::Unfinished(name) => {
                let text = format!("a later run was cut short and left {name}");
                (
                    Self::named(
                        "notice",
                        target.root.as_os_str().as_encoded_bytes(),
                        Some(text.into()),
                    ),
                    None,
                )
            }
            Finding::Unlisted(path) => (full("not-listed", path, None), None),
            Finding::Waiting(text) => {
                let entry =
                    Self { event: "waiting", text: Some(text.clone().into()), ..Self::default() };
                return (entry, false);
            }
            Finding::Forgotten(error) => (Self::error("notice", error), None),
            Finding::Compared(comparison) => {
                let names = |roots: &[PathBuf]| roots.iter().map(|root| Name::path(root)).collect();
                let bad: Vec<_> = comparison.bad.iter().map(|(_, root)| root.clone()).collect();
                let text = compared(comparison);
                let entry = Self {
                    bad_at: Some(names(&bad)),
                    good_at: Some(names(&comparison.good)),
                    ..Self::named("compared", comparison.path.as_bytes(), Some(text.into()))
                };
                (entry, None)
            }
            Finding::NotCompared(number) => {
                let text = format!("{number} findings of bad files were too many to compare");
                let event = "not-compared";
                (Self { event, text: Some(text.into()), ..Self::default() }, None)
            }
            Finding::Unsearched(error) => (Self::error("not-searched", error), None),
            Finding::Unusable(error) => (Self::error("unusable", error), None),
            Finding::Broken(error) => (Self::error("broken", error), None),
        };
        let manifest = line.map(|_| Shown::path(&target.manifest).to_string().into());
        let good = matches!(finding, Finding::File { verdict: Verdict::Good(_), .. });
        (Self { manifest, line, ..entry }, !good)
    }
}

/// The JSON of a value on one line, in which nothing can drive a terminal: what a terminal or an eye
/// might take for something else is escaped, which JSON has a form for. Empty if there is none.
pub fn line(value: &impl Serialize) -> String {
    harmless(&serde_json::to_string(value).unwrap_or_default())
}

/// Escapes control characters and deceptive ones in JSON; they can only be inside strings.
pub fn harmless(json: &str) -> String {
    let mut out = String::with_capacity(json.len());
    for c in json.chars() {
        match c {
            '\n' => out.push(c),
            c if c.is_control() || is_deceptive(c) => {
                // All of these are in the plane that takes one escape.
                let _ = write!(out, "\\u{:04x}", c as u32);
            }
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_survives() {
        let json = |name: &[u8]| line(&Name::bytes(name));
        assert_eq!(json(b"a\nb\"\\"), r#"{"path":"a\nb\"\\"}"#);
        assert_eq!(json("\u{202e}\u{7f}\u{9b}x".as_bytes()), r#"{"path":"\u202e\u007f\u009bx"}"#);
        assert_eq!(json(b"\xff"), r#"{"path":"\"\\xff\"","path_bytes":"ff"}"#);
    }
}
