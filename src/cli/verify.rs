//! What `dircopy verify` and `dirverify` do, from their arguments to their exit code.

use std::ffi::OsString;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use crate::cli::args::verify::VerifyArgs;
use crate::cli::exit::Exit;
use crate::cli::record::json::Entry;
use crate::cli::record::records::{Ran, Records, Task, Wanted};
use crate::cli::service::Service;
use crate::cli::session::{Watched, stop_by_signals};
use crate::cli::show::console::{Console, Detail};
use crate::cli::show::verify_messages::Words;
use crate::cli::show::verify_summary::summary;
use crate::error::Error;
use crate::event::Observer;
use crate::manifest::escape;
use crate::sys;
use crate::verify::{Finding, Target, Verdict, VerifyReport};

/// Runs the check, as the program of this name.
pub fn verify(name: &'static str, args: &VerifyArgs, command: &[OsString]) -> ExitCode {
    let (view, detail) = (args.say.view(), args.say.detail());
    let console = Console::new(name, detail, view.bar()).in_json(args.records.speaks_json());
    let stop = stop_by_signals(&console);
    sys::raise_open_file_limit();
    let list = args.list_failed.as_deref();
    let wanted = Wanted { detail: Some(detail), list, name, ..args.records.wanted() };
    let service = Service::find();
    let watched = Watched { view: &view, service: &service, console: &console };
    let records = match watched.open(&wanted, Task::Check(&args.dirs), command, &stop) {
        Ok(records) => records,
        Err(exit) => return exit.into(),
    };
    let failed = match args.list_failed.as_deref().map(|path| List::create(path, args.null)) {
        None => None,
        Some(Ok(list)) => Some(list),
        Some(Err(error)) => {
            let path = args.list_failed.as_deref().unwrap_or(Path::new(""));
            let refused = Error::io("make", path, error);
            return watched.end_refused(&records, &refused, &stop).into();
        }
    };
    let words = Words { name, detail, convert: args.convert_paths };
    let teller = Teller { words, console: &console, failed, records: &records };
    let listen = |target: &Target, finding: &Finding| teller.hear(target, finding);
    let report = watched.run_one(&stop, |progress| {
        args.job().run(&Observer { progress, stop: stop.clone(), listen })
    });
    let (ran, exit) = match &report {
        Err(refused) => (Ran::Refused(refused), watched.refused(refused, &stop)),
        Ok(report) => (Ran::Checked(report), teller.finish(report)),
    };
    watched.end(&records, &ran, exit).into()
}

/// Tells the user.
struct Teller<'a> {
    words: Words,
    console: &'a Console,
    failed: Option<List>,
    records: &'a Records<'a>,
}

impl Teller<'_> {
    fn finish(self, report: &VerifyReport) -> Exit {
        let mut said_all = true;
        if let Some(list) = self.failed
            && !list.close()
        {
            said_all = false;
            self.console
                .err(&format!("{}: cannot write the list of failed files", self.words.name));
        }
        if self.words.detail != Detail::Quiet {
            self.console.out(&summary(report));
        }
        Exit::of_check(report, said_all && self.console.said_all())
    }

    fn hear(&self, target: &Target, finding: &Finding) {
        let said = self.words.of(target, finding);
        self.records.hear(target, finding, said.as_ref());
        if let Some(said) = &said {
            self.console.say(said, || Entry::found(target, finding).0);
        }
        if let Some(list) = &self.failed
            && let Finding::File { path, verdict, .. } = finding
            // A name that was refused is no path of a file.
            && !matches!(verdict, Verdict::Good(_) | Verdict::Refused(_))
        {
            list.add(&target.path_of(path));
        }
    }
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
