//! Standard output and standard error: where lines go, and whether they arrived.
//!
//! A line that cannot be written (a full disk behind a redirection, a closed pipe) must neither end
//! the copy nor be forgotten: the exit code says so.

use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use indicatif::ProgressBar;

use crate::event::{Done, Event, Watch};
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
    detail: Detail,
    /// Where the progress bar is, which lines must not tear.
    bar: Option<ProgressBar>,
    said_all: AtomicBool,
}

impl Console {
    /// A console with lines in this detail, above this progress bar.
    pub fn new(detail: Detail, bar: Option<ProgressBar>) -> Self {
        Self { detail, bar, said_all: AtomicBool::new(true) }
    }

    /// Whether everything that was to be said arrived.
    pub fn said_all(&self) -> bool {
        self.said_all.load(Relaxed)
    }

    /// A line for standard output.
    pub fn out(&self, line: &str) {
        self.write(1, line, |line| {
            let mut out = io::stdout().lock();
            out.write_all(line).and_then(|()| out.flush())
        });
    }

    /// A line for standard error, in one call, so that lines of two programs that share a log do
    /// not mix.
    pub fn err(&self, line: &str) {
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

impl Watch for Console {
    fn event(&self, event: &Event<'_>) {
        match event {
            Event::Stands(path, done) => {
                let words = match done {
                    Done::Copied => ["copy", "copied"],
                    Done::Replaced => ["replace", "replaced"],
                    Done::Linked => ["hard link", "hard-linked"],
                    Done::Symlinked => ["link", "linked"],
                    Done::Kept => ["keep", "kept"],
                };
                let word = match self.detail {
                    Detail::Quiet | Detail::Normal => return,
                    Detail::Dry => words[0],
                    Detail::Verbose => words[1],
                };
                self.out(&format!("{word} {}", Shown::bytes(path)));
            }
            Event::Left(path, why) if self.detail == Detail::Dry => {
                self.out(&format!("leave {}: {why}", Shown::bytes(path)));
            }
            Event::Left(path, why) => {
                self.err(&format!("dircopy: left as it is: {}: {why}", Shown::bytes(path)));
            }
            Event::Skipped(_, _) if self.detail == Detail::Quiet => {}
            Event::Skipped(path, kind) => {
                self.err(&format!(
                    "dircopy: skipped {}: it is {}",
                    Shown::bytes(path),
                    kind.name()
                ));
            }
            Event::Swept(_) if self.detail == Detail::Quiet => {}
            Event::Swept(path) => {
                let path = Shown::bytes(path);
                self.err(&format!("dircopy: removed {path}: a run that was killed left it"));
            }
            Event::Failed(error) => self.err(&format!("dircopy: {error}")),
            Event::Warning(error) => self.err(&format!("dircopy: warning: {error}")),
        }
    }
}
