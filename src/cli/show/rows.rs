//! The rows of a closing summary: a name, what there is to say, and a last line.

use std::fmt::{Display, Write};
use std::time::Duration;

use humansize::{BINARY, format_size};

/// A summary that is being written.
pub struct Rows {
    width: usize,
    text: String,
}

impl Rows {
    /// No rows yet, with room for names of `width` characters.
    pub fn new(width: usize) -> Self {
        Self { width, text: String::new() }
    }

    /// One more row.
    pub fn row(&mut self, name: &str, what: impl Display) {
        // Writing to a string does not fail.
        let _ = writeln!(self.text, "{name:<0$} {what}", self.width);
    }

    /// A row for each of these of which there are any.
    pub fn counted(&mut self, rows: &[(&str, u64, &str)]) {
        for (name, count, what) in rows {
            if *count > 0 {
                self.row(name, format_args!("{count} {what}"));
            }
        }
    }

    /// How long it took, and how fast these bytes went.
    pub fn time(&mut self, elapsed: Duration, bytes: u64) {
        let seconds = elapsed.as_secs_f64();
        let rate = match bytes {
            0 => String::new(),
            bytes => format!(", {}/s on average", size((bytes as f64 / seconds.max(1e-9)) as u64)),
        };
        self.row("time", format_args!("{seconds:.2} s{rate}"));
    }

    /// The summary, with this as its last line, which has no end.
    pub fn ending(mut self, line: &str) -> String {
        self.text.push_str(line);
        self.text
    }
}

/// A number of bytes, for people.
pub fn size(bytes: u64) -> String {
    format_size(bytes, BINARY)
}
