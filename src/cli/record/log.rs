//! The log: a line for each event, in a file or on standard error, as text or as JSON.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, OnceLock, PoisonError};

use jiff::{Timestamp, Unit};
use serde::Serialize;

use crate::cli::record::files::destination;
use crate::cli::record::json;
use crate::error::{Error, Result};
use crate::path::directory_of;
use crate::sys::{self, Dir, PlainUse};

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
    json::line(&LogLine { log_version: VERSION, time: now(), what })
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
        let (file, path) = (Mutex::new(file), path.to_path_buf());
        Ok(Self { file, path, json, lost: OnceLock::new() })
    }

    /// Looks whether it could be opened, and makes nothing.
    pub fn look(path: &Path) -> Result<()> {
        match path.symlink_metadata() {
            Ok(_) => open(path).map(drop),
            Err(_) => directory_of(path).metadata().map(drop).map_err(|error| cannot(path, error)),
        }
    }

    /// Writes a line: the text, or its subject as JSON.
    pub fn write(&self, text: &str, what: &impl Serialize) {
        let line = match self.json {
            true => json_line(what),
            false => format!("{} {text}", now()),
        };
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

/// Opens the file at `path` for appending. One that has further names is refused: it may be a file of the source, or a
/// copy.
fn open(path: &Path) -> Result<File> {
    let file = sys::open_plain(path, PlainUse::Append).map_err(|error| cannot(path, error))?;
    let stat = Dir::stat_file(&file).map_err(|error| cannot(path, error))?;
    if stat.links > 1 {
        let finding = "it has further names (hard links), so another file would change with it";
        return Err(Error::finding(DEED, path, finding));
    }
    Ok(file)
}

fn cannot(path: &Path, error: io::Error) -> Error {
    destination::cannot(DEED, path, directory_of(path), error)
}
