//! The rows of a closing summary, and the words for amounts in them.

use std::fmt::{Display, Write};
use std::time::Duration;

use humansize::{BINARY, format_size};

use crate::cli::exit::Exit;
use crate::cli::show::line::count;
use crate::io::read_back::HashedFrom;

/// The room for the name of a row; characters.
const WIDTH: usize = 11;

/// A summary that is being written.
#[derive(Default)]
pub struct Rows(String);

/// A row about a number of things: its name, the number, the noun, and what is said of them.
pub struct Counted<'a>(pub &'a str, pub u64, pub &'a str, pub &'a str);

impl Rows {
    pub fn row(&mut self, name: &str, what: impl Display) {
        // Writing to a string does not fail.
        let _ = writeln!(self.0, "{name:<WIDTH$} {what}");
    }

    /// A row for each of these whose number is not 0.
    pub fn counted(&mut self, rows: &[Counted<'_>]) {
        for Counted(name, number, noun, what) in rows.iter().filter(|row| row.1 > 0) {
            self.row(name, format!("{} {what}", count(*number, noun)).trim_end());
        }
    }

    /// The rows, without the last line's end.
    pub fn text(self) -> String {
        self.0.trim_end().to_owned()
    }
}

/// A number of bytes, for people.
pub fn size(bytes: u64) -> String {
    format_size(bytes, BINARY)
}

/// Files and their bytes.
pub fn files(number: u64, bytes: u64) -> String {
    format!("{}, {}", count(number, "file"), size(bytes))
}

/// How long a run took, and the rate of its bytes, if there are any.
pub fn time(elapsed: Duration, bytes: u64) -> String {
    let seconds = elapsed.as_secs_f64();
    let time = match elapsed.as_secs() {
        0..10 => format!("{seconds:.2} s"),
        10..120 => format!("{seconds:.1} s"),
        whole @ 120..7200 => format!("{} min {} s", whole / 60, whole % 60),
        whole => format!("{} h {} min", whole / 3600, whole % 3600 / 60),
    };
    match bytes {
        0 => time,
        bytes => format!("{time}, {}/s", size((bytes as f64 / seconds.max(1e-9)) as u64)),
    }
}

/// The last line of a run that is not as it should be.
pub fn warn(title: &str, exit: Exit, text: &str) -> String {
    format!("{title} (exit {}): {text}", exit.code())
}

/// What is known of content that was written, from its source.
pub fn proven(proof: Option<HashedFrom>) -> &'static str {
    match proof {
        Some(HashedFrom::Device) => "read back from the device",
        Some(HashedFrom::Cache) => "read back only through a cache",
        None => "written, not read back",
    }
}
