//! The log: a line for each event, in a file or on standard error, as text or as JSON.

use std::path::{Path, PathBuf};
use std::{
    env, fmt::Write, fs::File, fs::Metadata, io::Read, sync::Mutex, sync::OnceLock,
    sync::PoisonError,
};

use jiff::{Timestamp, Unit, tz::TimeZone};
use serde::{Deserialize, Serialize};

use crate::{
    cli::record::files, cli::report::receipt::ClippedText, error::Deed, error::Error,
    error::Result, hash::hex, path::Shown, path::directory_of, path::is_deceptive, sys,
};

/// The version of the lines; it counts up when one changes in a way that may break a reader. Fields and
/// events may be added without.
const VERSION: u32 = 2;

const DEED: &str = "open the log";

/// A line with the members that all lines have.
#[derive(Serialize)]
struct LogLine<'a, T> {
    log_version: u32,
    time: String,
    #[serde(flatten)]
    what: &'a T,
}

/// A line that has only a text.
#[derive(Serialize)]
pub struct TextLine<'a> {
    /// `message`, or the kind of the event.
    pub event: &'static str,
    pub text: &'a str,
}

/// A value as a line of JSON, without the line end.
pub fn json_line(what: &impl Serialize) -> String {
    line(&LogLine { log_version: VERSION, time: now(), what })
}

/// The time in UTC, as RFC 3339 has it, to the millisecond.
pub fn now() -> String {
    stamp(Timestamp::now())
}

/// A time in that form.
pub fn stamp(time: Timestamp) -> String {
    let time = time.round(Unit::Millisecond).unwrap_or(time);
    format!("{time:.3}")
}

/// Where the system has its time zones, unless `TZDIR` says where.
const ZONES: &str = "/usr/share/zoneinfo";

/// More is no time zone; bytes. Those of the system take a few KiB.
const MOST_ZONE: u64 = 1 << 20;

/// The local time zone: that of the machine, or what `TZ` says.
///
/// # Errors
/// It is not configured, or not known here.
pub fn time_zone() -> std::result::Result<TimeZone, jiff::Error> {
    TimeZone::try_system().or_else(|error| named_zone().ok_or(error))
}

/// The zone that `TZ` names. Its file alone is read: a search of all zones would list their directories by the standard
/// library, which panics where one cannot be closed.
fn named_zone() -> Option<TimeZone> {
    let name = env::var("TZ").ok()?;
    let name = name.trim_start_matches(':');
    let zones = env::var_os("TZDIR").map_or_else(|| PathBuf::from(ZONES), PathBuf::from);
    let (path, mut zone) = (zones.join(name), Vec::new());
    path.metadata().ok().filter(Metadata::is_file)?;
    let file = File::open(path).ok()?;
    sys::Uninterrupted(file).take(MOST_ZONE).read_to_end(&mut zone).ok()?;
    TimeZone::tzif(name, &zone).ok()
}

/// A log in a file.
pub struct Log {
    file: Mutex<File>,
    path: PathBuf,
    json: bool,
    /// Why a line was lost, the first that was.
    lost: OnceLock<Error>,
}

impl Log {
    /// Appends to the file at `path`, which is made if it is missing.
    pub fn open(path: &Path, json: bool) -> Result<Self> {
        let file = open(path)?;
        files::close_if_another(&file, path).deed(DEED, path)?;
        let (file, path) = (Mutex::new(file), path.to_path_buf());
        Ok(Self { file, path, json, lost: OnceLock::new() })
    }

    /// Looks whether it could be opened, and makes nothing.
    pub fn look(path: &Path) -> Result<()> {
        match path.symlink_metadata() {
            Ok(_) => open(path).map(drop),
            Err(_) => files::open_writable(directory_of(path))
                .map(drop)
                .map_err(|error| files::cannot(DEED, path, directory_of(path), error)),
        }
    }

    /// Writes a line: the text, or its subject as JSON.
    pub fn write(&self, text: &str, what: &impl Serialize) {
        let line = if self.json { json_line(what) } else { format!("{} {text}", now()) };
        // In one call, so that the lines of two programs that share a log do not mix.
        let line = format!("{line}\n");
        // A line is in it or not, also after a panic elsewhere.
        let file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        if let Err(error) = sys::write_all(&*file, line.as_bytes()) {
            self.lost.get_or_init(|| Error::io("write to the log", &self.path, error));
        }
    }

    /// Why not every line was written, if that is so.
    pub fn lost(&self) -> Option<&Error> {
        self.lost.get()
    }
}

fn open(path: &Path) -> Result<File> {
    files::open_ours_to_append(DEED, path, "is no log of dircopy", begins_log)
}

/// True if a file with this beginning is a log, of text or of JSON: a run may go on in the other form.
fn begins_log(begin: &[u8]) -> bool {
    let word = begin.split(|byte| *byte == b' ').next().and_then(|it| str::from_utf8(it).ok());
    let is_time = |word: &str| word.parse().is_ok_and(|time| stamp(time) == word);
    word.is_some_and(is_time) || begin.starts_with(br#"{"log_version":"#)
}

// JSON for reports and logs: names of any bytes, and nothing that a terminal could act on.
//
// Names are bytes and JSON has only text: a name that is not UTF-8 is given twice, as text with the
// bytes that are none written `\xNN`, and as the bytes themselves in hexadecimal digits.

/// A name or a path.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct JsonName {
    pub path: ClippedText,
    /// The bytes, if they are not that text's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path_bytes: Option<ClippedText>,
}

impl JsonName {
    /// A name given as bytes.
    pub fn bytes(name: &[u8]) -> Self {
        let (path, path_bytes) = match std::str::from_utf8(name) {
            Ok(text) => (text.to_owned(), None),
            Err(_) => (Shown::bytes(name).to_string(), Some(ClippedText(hex::text(name)))),
        };
        Self { path: ClippedText(path), path_bytes }
    }

    /// The name for a message.
    pub fn shown(&self) -> Shown<'_> {
        Shown::bytes(self.path.0.as_bytes())
    }

    pub fn path(path: &Path) -> Self {
        Self::bytes(path.as_os_str().as_encoded_bytes())
    }
}

/// The JSON of a value on one line. Characters that a terminal could act on or an eye misread are escaped in
/// JSON's own form. Empty if the value has no JSON.
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
        let json = |name: &[u8]| line(&JsonName::bytes(name));
        assert_eq!(json(b"a\nb\"\\"), r#"{"path":"a\nb\"\\"}"#);
        assert_eq!(json("\u{202e}\u{7f}\u{9b}x".as_bytes()), r#"{"path":"\u202e\u007f\u009bx"}"#);
        assert_eq!(json(b"\xff"), r#"{"path":"\"\\xff\"","path_bytes":"ff"}"#);
    }
}
