//! The log: what happens, line by line, in a file or on standard error, as text or as JSON.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use jiff::{Timestamp, Unit};
use serde::Serialize;

use crate::cli::record::json;
use crate::error::{Error, Result};
use crate::path::directory_of;

/// The version of the lines; it counts up when one changes in a way that may break a reader. Fields and
/// events may be added without.
const VERSION: u32 = 1;

/// A line with what all lines have.
#[derive(Serialize)]
struct Line<'a, T> {
    log_version: u32,
    time: String,
    #[serde(flatten)]
    what: &'a T,
}

/// A line that is a text and no more.
#[derive(Serialize)]
pub struct Message<'a> {
    /// `message`, or what else it is.
    pub event: &'static str,
    /// The text.
    pub text: &'a str,
}

/// Something as a line of JSON, without its end.
pub fn json_line(what: &impl Serialize) -> String {
    json::line(&Line { log_version: VERSION, time: now(), what })
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
    json: bool,
    whole: AtomicBool,
}

impl Log {
    /// Appends to the file at `path`, which is made if it is missing.
    pub fn open(path: &Path, json: bool) -> Result<Self> {
        let file = OpenOptions::new().append(true).create(true).open(path);
        let file = file.map_err(|error| Error::io("open the log", path, error))?;
        Ok(Self { file: Mutex::new(file), json, whole: AtomicBool::new(true) })
    }

    /// Looks whether it could be opened, and makes nothing.
    pub fn look(path: &Path) -> Result<()> {
        let fail = |error| Error::io("open the log", path, error);
        match (path.metadata(), directory_of(path).metadata()) {
            (Ok(there), _) if there.is_dir() => Err(fail(io::ErrorKind::IsADirectory.into())),
            (Ok(_), _) => Ok(()),
            (_, dir) => dir.map(drop).map_err(fail),
        }
    }

    /// Writes a line: the text, or what it is about as JSON.
    pub fn say(&self, text: &str, what: &impl Serialize) {
        let line = match self.json {
            true => json_line(what),
            false => format!("{} {text}", now()),
        };
        // In one call, so that the lines of two programs that share a log do not mix.
        let line = format!("{line}\n");
        let written =
            self.file.lock().is_ok_and(|mut file| file.write_all(line.as_bytes()).is_ok());
        if !written {
            self.whole.store(false, Relaxed);
        }
    }

    /// Whether every line was written.
    pub fn is_whole(&self) -> bool {
        self.whole.load(Relaxed)
    }
}
