//! What `dircopy verify` and `dirverify` do, from their arguments to their exit code.

use std::ffi::OsString;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use crossbeam_channel::bounded;

use crate::cli::console::{Console, Detail};
use crate::cli::exit::Exit;
use crate::cli::progress::View;
use crate::cli::record::records::{Ran, Records, Task};
use crate::cli::verify_args::VerifyArgs;
use crate::cli::verify_summary::summary;
use crate::error::Error;
use crate::event::{Progress, Stop};
use crate::manifest::escape;
use crate::path::{RelPath, Shown};
use crate::sys;
use crate::verify::{Finding, Listener, Proof, Target, Verdict, VerifyReport};

/// Runs the check, as the program of this name.
pub fn verify(name: &'static str, args: &VerifyArgs, command: &[OsString]) -> ExitCode {
    let view = View::new(args.progress, args.quiet);
    let detail = match args {
        VerifyArgs { quiet: true, .. } => Detail::Quiet,
        VerifyArgs { verbose: true, .. } => Detail::Verbose,
        _ => Detail::Normal,
    };
    let console = Console::new(detail, view.bar());
    let stop = Stop::default();
    if let Err(error) = sys::on_interrupt(stop.handle()) {
        console.err(&format!("{name}: warning: cannot catch signals: {error}"));
    }
    sys::raise_open_file_limit();
    let task = Task::Check(&args.dirs);
    let records = match Records::open(&args.records.wanted(), task, command) {
        Ok(records) => records,
        Err(refused) => {
            console.err(&format!("{name}: {refused}"));
            return Exit::Refused.into();
        }
    };
    let failed = match args.list_failed.as_deref().map(|path| List::create(path, args.null)) {
        None => None,
        Some(Ok(list)) => Some(list),
        Some(Err(error)) => {
            let path = args.list_failed.as_deref().unwrap_or(Path::new(""));
            let refused = Error::io("make", path, error);
            console.err(&format!("{name}: {refused}"));
            records.close(&Ran::Refused(&refused), Exit::Refused);
            return Exit::Refused.into();
        }
    };
    let convert = args.convert_paths;
    let teller = Teller { name, detail, console: &console, failed, convert, records: &records };
    let progress = Progress::default();
    progress.watched.store(!matches!(view, View::None), Relaxed);
    let report = std::thread::scope(|scope| {
        let (running, done) = bounded(0);
        let progress = &progress;
        view.show_beside(scope, progress, &console, done);
        let report = args.job().run(&teller, progress, &stop);
        drop::<crossbeam_channel::Sender<()>>(running);
        report
    });
    let (ran, exit) = match &report {
        Err(refused) => {
            console.err(&format!("{name}: {refused}"));
            (Ran::Refused(refused), Exit::Refused)
        }
        Ok(report) => (Ran::Checked(report), teller.finish(report)),
    };
    let (exit, errors) = records.close(&ran, exit);
    errors.iter().for_each(|error| console.err(&format!("{name}: {error}")));
    exit.into()
}

/// Tells the user.
struct Teller<'a> {
    name: &'static str,
    detail: Detail,
    console: &'a Console,
    failed: Option<List>,
    convert: bool,
    records: &'a Records<'a>,
}

impl Teller<'_> {
    fn finish(self, report: &VerifyReport) -> Exit {
        let mut said_all = true;
        if let Some(list) = self.failed
            && !list.close()
        {
            said_all = false;
            self.console.err(&format!("{}: cannot write the list of failed files", self.name));
        }
        if self.detail != Detail::Quiet {
            self.console.out(&summary(report));
        }
        Exit::of_check(report, said_all && self.console.said_all())
    }

    fn err(&self, text: &str) {
        self.console.err(&format!("{}: {text}", self.name));
    }

    /// Something that is said unless nothing but trouble is wanted.
    fn notice(&self, text: &str) {
        if self.detail != Detail::Quiet {
            self.err(&format!("notice: {text}"));
        }
    }

    /// A verdict on the listed file `name`, whose path is `path`; `at` says which line of which
    /// manifest.
    fn file(&self, name: &RelPath, path: &Path, verdict: &Verdict, at: &str) {
        let shown = cut(Shown::path(path));
        match verdict {
            Verdict::Good(proof) => {
                if self.detail == Detail::Verbose {
                    let how = match proof {
                        Proof::Device => "",
                        Proof::Cache => " (through a cache)",
                    };
                    self.console.out(&format!("OK {shown}{how}"));
                }
                return;
            }
            Verdict::Differs(_) => self.err(&format!("differs: {shown} ({at})")),
            Verdict::Missing => {
                let hint = match name.as_bytes().contains(&b'\\') && !self.convert {
                    true => "; its name has a \"\\\", which --convert-paths takes for \"/\"".into(),
                    false => cannot_be(name).map_or(String::new(), |why| format!("; {why}")),
                };
                self.err(&format!("missing: {shown} ({at}){hint}"));
            }
            Verdict::NotThrough(kind) => {
                let what = kind.name();
                self.err(&format!("missing: {shown} ({at}): {what} is on the way, not followed"));
            }
            Verdict::NotAFile(kind) => {
                let what = kind.name();
                self.err(&format!("not a regular file: {shown} ({at}): it is {what}, not opened"));
            }
            Verdict::Unreadable(error) => self.err(&format!("{error} ({at})")),
            // No path of a file, so not one of those that failed.
            Verdict::Refused(why) => {
                return self.err(&format!("refused: {shown} ({at}): {why}; not opened"));
            }
        }
        if let Some(list) = &self.failed {
            list.add(path);
        }
    }
}

impl Listener for Teller<'_> {
    fn hear(&self, target: &Target, finding: &Finding) {
        self.records.hear(target, finding);
        let manifest = Shown::path(&target.manifest);
        let shown = |path| cut(Shown::path(&target.path_of(path)));
        match finding {
            Finding::File { line, path, verdict, .. } => {
                let at = format!("line {line} of {manifest}");
                self.file(path, &target.path_of(path), verdict, &at);
            }
            Finding::Converted { line, from, to } => {
                let (from, to) = (Shown::bytes(from.as_bytes()), Shown::bytes(to.as_bytes()));
                let (from, to) = (cut(from), cut(to));
                self.notice(&format!("line {line} of {manifest}: {from} is taken for {to}"));
            }
            Finding::Refused { line, name, why } => {
                let (name, at) = (cut(Shown::bytes(name)), format!("line {line} of {manifest}"));
                self.err(&format!("refused: {name} ({at}): {why}; not opened"));
            }
            Finding::Twice { line, first, path, same } => {
                let text = format!("{} (lines {first} and {line} of {manifest})", shown(path));
                match same {
                    true => self.notice(&format!("listed twice: {text}, with the same digest")),
                    false => self.err(&format!("listed twice: {text}, with different digests")),
                }
            }
            Finding::Malformed { line, fault } => {
                self.err(&format!("malformed: line {line} of {manifest}: {fault}"));
            }
            Finding::Torn { line, unfinished } => {
                let text = format!("line {line} of {manifest} is cut off and says nothing");
                match unfinished {
                    true => self.notice(&text),
                    false => self.err(&format!("malformed: {text}")),
                }
            }
            Finding::Utf16 => {
                self.notice(&format!("{manifest} is UTF-16 text and is read as such"));
            }
            Finding::Nothing => self.err(&format!("nothing to verify: {manifest} lists no file")),
            Finding::Unfinished(name) => {
                let root = Shown::path(&target.root);
                self.notice(&format!("a later run on {root} was cut short and left {name}"));
            }
            Finding::Unlisted(path) => self.err(&format!("not listed: {}", shown(path))),
            Finding::Unsearched(error) | Finding::Unusable(error) | Finding::Broken(error) => {
                self.err(&error.to_string());
            }
        }
    }
}

/// Why this system cannot have a file of this name, if it cannot.
fn cannot_be(name: &RelPath) -> Option<&'static str> {
    let part = |part| sys::name_from_bytes(part).ok().and_then(sys::unusable);
    name.components().find_map(part)
}

/// A name for a message: a hostile one may be as long as a line.
fn cut(name: Shown<'_>) -> String {
    const MOST: usize = 1000;
    let mut text = name.to_string();
    if text.len() > MOST {
        let end = (0..=MOST).rev().find(|&at| text.is_char_boundary(at));
        text.truncate(end.unwrap_or(0));
        text.push('…');
    }
    text
}

/// The list of what failed, for scripts.
struct List {
    file: Mutex<BufWriter<File>>,
    null: bool,
    whole: AtomicBool,
}

impl List {
    fn create(path: &Path, null: bool) -> std::io::Result<Self> {
        let file = Mutex::new(BufWriter::new(File::create(path)?));
        Ok(Self { file, null, whole: AtomicBool::new(true) })
    }

    fn add(&self, path: &Path) {
        let bytes = path.as_os_str().as_encoded_bytes();
        let mut line = Vec::new();
        match self.null {
            true => line.extend_from_slice(bytes),
            false => escape::escape(bytes, &mut line),
        }
        line.push(if self.null { 0 } else { b'\n' });
        let written = self.file.lock().is_ok_and(|mut file| file.write_all(&line).is_ok());
        self.whole.fetch_and(written, Relaxed);
    }

    /// Whether all of it was written.
    fn close(self) -> bool {
        let flushed = self.file.lock().is_ok_and(|mut file| file.flush().is_ok());
        flushed && self.whole.load(Relaxed)
    }
}
