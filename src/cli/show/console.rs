//! Standard output and standard error: where lines go, and whether they arrived.
//!
//! A line that cannot be written (a full disk behind a redirection, a closed pipe) must neither end
//! the copy nor be forgotten: the exit code says so.

use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use humansize::{BINARY, format_size};
use indicatif::ProgressBar;

use crate::cli::record::json::Entry;
use crate::cli::record::log::{Message, json_line};
use crate::error::Error;
use crate::event::{Done, Event};
use crate::path::Shown;
use crate::sys;

/// How much is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Detail {
    /// Errors and warnings.
    Quiet,
    /// … what was skipped and left, and a summary.
    Normal,
    /// … and every entry.
    Verbose,
    /// Every entry, as something that would happen.
    Dry,
}

/// The console.
pub struct Console {
    /// The program's name, which stands before what is amiss.
    name: &'static str,
    detail: Detail,
    /// Whether lines for standard error are JSON.
    json: bool,
    /// Whether standard output is not ours to speak on.
    aside: bool,
    /// Where the progress bar is, which lines must not tear.
    bar: Option<ProgressBar>,
    said_all: AtomicBool,
}

impl Console {
    /// The console of the program of this name, with lines in this detail, above this progress bar.
    pub fn new(name: &'static str, detail: Detail, bar: Option<ProgressBar>) -> Self {
        Self { name, detail, json: false, aside: false, bar, said_all: AtomicBool::new(true) }
    }

    /// The one of `dircopy` where there is nothing to tell but what is amiss.
    pub fn plain() -> Self {
        Self::new("dircopy", Detail::Normal, None)
    }

    /// The same with lines of JSON on standard error, if `json`.
    pub fn in_json(self, json: bool) -> Self {
        Self { json, ..self }
    }

    /// The same with everything on standard error, if `aside`.
    pub fn aside(self, aside: bool) -> Self {
        Self { aside, ..self }
    }

    /// Whether everything that was to be said arrived.
    pub fn said_all(&self) -> bool {
        self.said_all.load(Relaxed)
    }

    /// A line for standard output.
    pub fn out(&self, line: &str) {
        if self.aside {
            return self.write_err(line);
        }
        self.write(1, line, |line| {
            let mut out = io::stdout().lock();
            out.write_all(line).and_then(|()| out.flush())
        });
    }

    /// A line for standard error, in one call, so that lines of two programs that share a log do
    /// not mix.
    pub fn err(&self, line: &str) {
        match self.json {
            true => self.write_err(&json_line(&Message { event: "message", text: line })),
            false => self.write_err(line),
        }
    }

    /// A warning that is no entry's.
    pub fn warn(&self, text: &str) {
        self.err(&format!("{}: warning: {text}", self.name));
    }

    /// An error that is no entry's: what it came to, in a word, and what is said before it.
    pub fn error(&self, event: &'static str, begin: &str, error: &Error) {
        match self.json {
            true => self.write_err(&json_line(&Entry::error(event, error))),
            false => self.write_err(&format!("{}: {begin}{error}", self.name)),
        }
    }

    /// Why nothing is done.
    pub fn refused(&self, error: &Error) {
        self.error("refused", "", error);
    }

    /// A line about an entry.
    pub fn say<'e>(&self, said: &Said, entry: impl FnOnce() -> Entry<'e>) {
        match said {
            _ if self.json => self.write_err(&json_line(&entry())),
            Said::Out(line) => self.out(line),
            Said::Err(line) => self.err(line),
        }
    }

    fn write_err(&self, line: &str) {
        self.write(2, line, |line| io::stderr().lock().write_all(line));
    }

    fn write(&self, descriptor: u8, line: &str, write: impl Fn(&[u8]) -> io::Result<()>) {
        let line = format!("{line}\n");
        let write = || write(line.as_bytes()).is_ok();
        let written = !sys::was_closed_at_start(descriptor)
            && self.bar.as_ref().map_or_else(write, |bar| bar.suspend(write));
        if !written {
            self.said_all.store(false, Relaxed);
        }
    }
}

impl Console {
    /// An event, and at which output, if there are several.
    pub fn event(&self, event: &Event<'_>, at: Option<&str>) {
        if let Some(said) = words(event, self.detail) {
            self.say(&said.at(at), || Entry::of(event).0.at(at));
        }
    }
}

/// A line and where it goes.
pub enum Said {
    /// Standard output.
    Out(String),
    /// Standard error.
    Err(String),
}

impl Said {
    /// The same, and at which output, if that needs to be said.
    pub fn at(self, output: Option<&str>) -> Self {
        let Some(output) = output else { return self };
        match self {
            Said::Out(line) => Said::Out(format!("{output}: {line}")),
            Said::Err(line) => match line.strip_prefix("dircopy: ") {
                Some(line) => Said::Err(format!("dircopy: {output}: {line}")),
                None => Said::Err(format!("{output}: {line}")),
            },
        }
    }

    /// The line.
    pub fn text(&self) -> &str {
        let (Said::Out(line) | Said::Err(line)) = self;
        line
    }
}

/// What there is to say of an event in this detail.
pub fn words(event: &Event<'_>, detail: Detail) -> Option<Said> {
    let err = |text: String| Some(Said::Err(format!("dircopy: {text}")));
    match event {
        Event::Stands(path, done) => {
            let words = match done {
                Done::Copied => ["copy", "copied"],
                Done::Replaced => ["replace", "replaced"],
                Done::Linked => ["hard link", "hard-linked"],
                Done::Symlinked => ["link", "linked"],
                Done::Kept => ["keep", "kept"],
            };
            let word = match detail {
                Detail::Quiet | Detail::Normal => return None,
                Detail::Dry => words[0],
                Detail::Verbose => words[1],
            };
            Some(Said::Out(format!("{word} {}", Shown::bytes(path))))
        }
        Event::Left(path, why) if detail == Detail::Dry => {
            Some(Said::Out(format!("leave {}: {why}", Shown::bytes(path))))
        }
        Event::Left(path, why) => err(format!("left as it is: {}: {why}", Shown::bytes(path))),
        Event::Failed(error) | Event::Rotten(error) => err(error.to_string()),
        Event::Warning(error) => err(format!("warning: {error}")),
        _ if detail == Detail::Quiet => None,
        Event::Skipped(path, kind) => {
            err(format!("skipped {}: it is {}", Shown::bytes(path), kind.name()))
        }
        Event::Gone(path) => {
            err(format!("expected, and not in the source: {}", Shown::bytes(path)))
        }
        Event::Swept(path) => {
            err(format!("removed {}: a run that was killed left it", Shown::bytes(path)))
        }
        Event::Retired(path) => {
            err(format!("removed {}: newer manifests are there", Shown::bytes(path)))
        }
        Event::Resumed(path, bytes) if detail == Detail::Verbose => {
            let (path, size) = (Shown::bytes(path), format_size(*bytes, BINARY));
            Some(Said::Out(format!("resumed {path}: {size} were there")))
        }
        Event::Resumed(..) => None,
        Event::Waiting(text) => err(format!("waiting: {text}")),
    }
}
