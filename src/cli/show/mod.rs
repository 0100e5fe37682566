//! The screen: everything that a person sees.

pub mod copy_messages;
pub mod copy_summary;
mod copy_verdict;
pub mod rows;
pub mod stream_summary;
pub mod verify_messages;

use std::{io, io::Write, sync::Arc, sync::atomic::AtomicBool, sync::atomic::Ordering::Relaxed};

use indicatif::ProgressBar;
use terminal_size::{Height, Width, terminal_size_of};

use crate::cli::{
    progress::Charset, progress::to_begin_of_row, record::Records, record::entry::RecordEntry,
    record::log::TextLine, record::log::json_line, show::copy_messages::Gathered,
    show::copy_messages::LineKind, show::copy_messages::message, show::rows::Rows,
    show::rows::wrap,
};
use crate::{error::Error, event::Event, event::Observer, event::Progress, event::Stop, sys};

// Standard output and standard error: where lines go, and whether they arrived.
//
// A line that cannot be written (a full disk behind a redirection, a closed pipe) must neither end
// the copy nor be forgotten: the exit code says so, and standard error why, for standard output.

/// The two streams of a program.
pub struct Console {
    /// The program's name, which error messages start with.
    name: &'static str,
    detail: Detail,
    /// True if lines for standard error are JSON.
    json: bool,
    /// True if standard output carries the copied bytes, so that all lines go to standard error.
    aside: bool,
    /// The progress bar, which lines must not tear.
    bar: Option<ProgressBar>,
    all_written: AtomicBool,
    /// True once the loss of standard output was told.
    out_lost: AtomicBool,
}

impl Console {
    /// The console of the program of this name, with lines in this detail above the progress bar.
    pub fn new(name: &'static str, detail: Detail, bar: Option<ProgressBar>) -> Self {
        let (all_written, out_lost) = (AtomicBool::new(true), AtomicBool::new(false));
        Self { name, detail, json: false, aside: false, bar, all_written, out_lost }
    }

    /// The console of `dircopy` for errors only.
    pub fn plain() -> Self {
        Self::new("dircopy", Detail::Normal, None)
    }

    /// Writes JSON on standard error, if `json`.
    pub fn in_json(self, json: bool) -> Self {
        Self { json, ..self }
    }

    /// Writes everything to standard error, if `aside`.
    pub fn aside(self, aside: bool) -> Self {
        Self { aside, ..self }
    }

    /// Removes the progress bar for good: the program ends without the thread that draws it.
    pub fn clear_bar(&self) {
        self.bar.iter().for_each(ProgressBar::finish_and_clear);
    }

    /// True if every line was written.
    pub fn all_written(&self) -> bool {
        self.all_written.load(Relaxed)
    }

    /// A line for standard output.
    pub fn out(&self, line: &str) {
        if self.aside {
            return self.write_err(line);
        }
        let written = self.write(1, line, |line| {
            let mut out = io::stdout().lock();
            sys::write_all(&mut out, line).and_then(|()| sys::uninterrupted(|| out.flush()))
        });
        if let Err(error) = written
            && !self.out_lost.swap(true, Relaxed)
        {
            self.error("failed", "", &Error::io("write to", "standard output", error));
        }
    }

    /// The rows of a summary, for standard output; on a terminal in lines that it has room for.
    pub fn out_rows(&self, rows: Rows) {
        self.out(&match self.columns() {
            Some(columns) => rows.folded(columns, Charset::of_terminal()),
            None => rows.text(),
        });
    }

    /// A sentence for standard output; on a terminal it is broken between words.
    pub fn out_sentence(&self, text: &str) {
        self.out_wrapped(text, "");
    }

    /// The same, with this before each further line.
    pub fn out_wrapped(&self, text: &str, indent: &str) {
        match self.columns() {
            Some(columns) => self.out(&wrap(text, columns, indent)),
            None => self.out(text),
        }
    }

    /// The columns of the terminal that lines for standard output go to, if they go to one.
    fn columns(&self) -> Option<usize> {
        columns_of(match self.aside {
            true => terminal_size_of(io::stderr()),
            false => terminal_size_of(io::stdout()),
        })
    }

    /// A line for standard error, in one call, so that lines of two programs that share a log do
    /// not mix.
    pub fn err(&self, line: &str) {
        match self.json {
            true => self.write_err(&json_line(&TextLine { event: "message", text: line })),
            false => self.write_err(line),
        }
    }

    /// A warning about the run.
    pub fn warn(&self, text: &str) {
        self.err(&format!("{}: warning: {text}", self.name));
    }

    /// An error of the run: `event` is what it caused, in a word; `begin` comes before it.
    pub fn error(&self, event: &'static str, begin: &str, error: &Error) {
        match self.json {
            true => self.write_err(&json_line(&RecordEntry::error(event, error))),
            false => self.write_err(&format!("{}: {begin}{error}", self.name)),
        }
    }

    /// The error for which the run is refused.
    pub fn refused(&self, error: &Error) {
        self.error("refused", "", error);
    }

    /// A line about an entry, which JSON has as an object.
    pub fn entry<'e>(&self, line: &ScreenLine, entry: impl FnOnce() -> RecordEntry<'e>) {
        match line {
            _ if self.json => self.write_err(&json_line(&entry())),
            ScreenLine::Out(line) => self.out(line),
            ScreenLine::Err(line) => self.err(line),
        }
    }

    /// Writes a line, which on a terminal is broken between words.
    fn write_err(&self, line: &str) {
        let line = &if self.json { line.to_owned() } else { wrapped(line) };
        // There is no third place to say it; the exit code does.
        let _ = self.write(2, line, |line| sys::write_all(io::stderr().lock(), line));
    }

    fn write(
        &self,
        descriptor: u8,
        line: &str,
        write: impl Fn(&[u8]) -> io::Result<()>,
    ) -> io::Result<()> {
        let line = format!("{line}\n");
        let write = || match sys::was_closed_at_start(descriptor) {
            true => Err(io::Error::other("it is closed")),
            false => write(line.as_bytes()),
        };
        let written = self.bar.as_ref().map_or_else(write, |bar| bar.suspend(write));
        self.bar.iter().for_each(to_begin_of_row);
        if written.is_err() {
            self.all_written.store(false, Relaxed);
        }
        written
    }
}

/// The columns of the terminal that a stream is, if it is one.
fn columns_of(size: Option<(Width, Height)>) -> Option<usize> {
    size.map(|(Width(columns), _)| columns.into()).filter(|columns| *columns > 0)
}

/// A text for standard error, each line of which is broken between words on a terminal.
pub fn wrapped(text: &str) -> String {
    let Some(columns) = columns_of(terminal_size_of(io::stderr())) else { return text.to_owned() };
    let wrap = |line: &str| wrap(line, columns, "  ");
    text.split('\n').map(wrap).collect::<Vec<_>>().join("\n")
}

impl Console {
    /// An event, at `output` if there are several. `gathered` keeps those of a kind that one was written of.
    pub fn event(&self, event: &Event<'_>, output: Option<&str>, gathered: &Gathered) {
        let line = message(event, self.detail);
        if let Some(line) = self.unless_gathered(line, LineKind::of_event(event), gathered) {
            self.entry(&line.at(output), || RecordEntry::of(event).0.at(output));
        }
    }

    /// The line, unless it goes to `gathered`. Where every entry is to be named, and in JSON, none does.
    pub fn unless_gathered(
        &self,
        line: Option<ScreenLine>,
        kind: Option<LineKind>,
        gathered: &Gathered,
    ) -> Option<ScreenLine> {
        match kind.filter(|_| !self.json && matches!(self.detail, Detail::Quiet | Detail::Normal)) {
            Some(kind) => gathered.first(kind, line?),
            None => line,
        }
    }

    /// The gathered notices, of `output` if there are several.
    pub fn rest(&self, gathered: &Gathered, output: Option<&str>) {
        gathered.rest(self.name).into_iter().for_each(|line| self.err(line.at(output).text()));
    }
}

// Hands the events of a copy or a stream to the screen and to the records.

/// Reports what happens at an output.
pub struct Reporter<'a> {
    pub console: &'a Console,
    pub records: &'a Records<'a>,
    /// The path of the output for records, and what messages call it, if there are several.
    pub output: Option<(String, String)>,
    /// Notices that are about many entries and told once.
    pub gathered: Gathered,
}

impl Reporter<'_> {
    /// The observer of the run at the output.
    pub fn observer(
        &self,
        progress: Arc<Progress>,
        stop: Stop,
    ) -> Observer<impl Fn(&Event<'_>) + Sync> {
        Observer { progress, stop, listen: |event: &Event<'_>| self.event(event) }
    }

    pub fn event(&self, event: &Event<'_>) {
        let (path, called) =
            self.output.as_ref().map(|(path, called)| (&**path, &**called)).unzip();
        self.console.event(event, called, &self.gathered);
        self.records.event(event, path);
    }

    /// Reports what was gathered, when no more events come.
    pub fn rest(&self) {
        self.console.rest(&self.gathered, self.output.as_ref().map(|(_, called)| &**called));
    }
}

// A line of text on its way to a stream, and how many such lines are wanted.

/// The amount of detail that is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Detail {
    Quiet,
    /// … what was skipped and left, and a summary.
    Normal,
    /// … and every entry.
    Verbose,
    /// Every entry to which something would happen.
    Dry,
}

/// A line and the stream it is for.
pub enum ScreenLine {
    Out(String),
    Err(String),
}

impl ScreenLine {
    /// The line with the name of its output, which runs to several outputs need.
    pub fn at(self, output: Option<&str>) -> Self {
        let Some(output) = output else { return self };
        match self {
            Self::Out(line) => Self::Out(format!("{output}: {line}")),
            Self::Err(line) => match line.strip_prefix("dircopy: ") {
                // It names the output as a whole, or a path in it.
                Some(rest)
                    if rest.strip_prefix(output).is_some_and(|it| it.starts_with(": "))
                        || rest.contains(&format!(" {output}/"))
                        || rest.contains(&format!(" {output}: ")) =>
                {
                    Self::Err(line)
                }
                Some(line) => Self::Err(format!("dircopy: {output}: {line}")),
                None => Self::Err(format!("{output}: {line}")),
            },
        }
    }

    pub fn text(&self) -> &str {
        let (Self::Out(line) | Self::Err(line)) = self;
        line
    }
}
