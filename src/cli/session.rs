//! The frame of every program's run: hear signals, show progress, record the end.

use std::{
    ffi::OsString, path::Path, path::PathBuf, process::Command, process::Stdio, sync::Arc,
    sync::atomic::AtomicBool, sync::atomic::Ordering::Relaxed, time::Duration, time::Instant,
};

use crossbeam_channel::{Sender, bounded};

use crate::{
    cli::args::values::VerbosityArgs, cli::exit::Exit, cli::jobs::Service,
    cli::progress::CountTotal, cli::progress::View, cli::progress::Watched, cli::record::Records,
    cli::record::report::Closing, cli::record::task::RecordOptions, cli::record::task::RunResult,
    cli::record::task::Task, cli::show::Console, cli::show::Detail, error::Error, error::Result,
    event::Progress, event::Stop, sys, sys::Helper,
};

/// The setup of a run.
pub struct Setup<'s, 'a> {
    /// The options for records.
    pub options: RecordOptions<'s>,
    /// The form of progress.
    pub view: View,
    /// True if standard output carries the copied bytes.
    pub aside: bool,
    /// The task.
    pub task: Task<'a>,
    /// The arguments of the program, its name first.
    pub command: &'s [OsString],
}

/// A run of a program, from its arguments to its exit code.
pub struct Session<'a> {
    pub console: Console,
    /// The records.
    pub records: Records<'a>,
    /// Ends the run early; signals ask for it.
    pub stop: Stop,
    view: View,
    service: Service,
    /// The names of the outputs.
    names: Vec<String>,
    /// Set by a signal that asks how far the run is.
    asked: Arc<AtomicBool>,
    is_quiet: bool,
}

impl<'a> Session<'a> {
    /// Catches signals and opens the records.
    ///
    /// # Errors
    /// A record cannot be opened: the run was refused and has ended with this exit code.
    pub fn open(setup: Setup<'_, 'a>) -> Result<Self, Exit> {
        let (session, opened) = Self::begin(setup, Service::find());
        match opened {
            Ok(()) => Ok(session),
            Err(refused) => Err(session.end_refused(&refused)),
        }
    }

    /// A run that leaves no record of itself, and has no last line.
    pub fn bare(verbosity: &VerbosityArgs) -> Self {
        let detail = Some(verbosity.detail());
        let options = RecordOptions { name: "dircopy", detail, ..RecordOptions::default() };
        let source = Path::new("");
        let task = Task::Copy { source, outputs: &[], given: &[], dry_run: false };
        let view = verbosity.view();
        let setup = Setup { options, view, aside: false, task, command: &[] };
        Self { is_quiet: true, ..Self::begin(setup, Service::default()).0 }
    }

    /// Catches signals and opens the records; why one cannot be opened, if so.
    fn begin(setup: Setup<'_, 'a>, service: Service) -> (Self, Result<()>) {
        let Setup { options, view, aside, task, command } = setup;
        let detail = options.detail.unwrap_or(Detail::Normal);
        let console = Console::new(options.name, detail, view.bar());
        let console = console.aside(aside).in_json(options.json_on_stderr);
        let stop = Stop::default();
        if let Err(error) = sys::on_interrupt(stop.handle()) {
            console.warn(&format!("cannot catch signals: {error}"));
        }
        let asked = Arc::default();
        if let Err(error) = sys::on_status_request(&asked) {
            console.warn(&format!("cannot catch signals: {error}"));
        }
        sys::raise_open_file_limit();
        let names = task.names();
        let (records, opened) = Records::open(&options, task, command);
        let is_quiet = detail == Detail::Quiet;
        (Self { console, records, stop, view, service, names, asked, is_quiet }, opened)
    }

    /// Runs `work` and shows how far it is; `progress` has the counters of each output, and `count` their total where
    /// the run itself has not counted it.
    pub fn run<R>(
        &self,
        progress: &[Arc<Progress>],
        count: Option<CountTotal<'_>>,
        work: impl FnOnce() -> R,
    ) -> R {
        for progress in progress {
            progress.watched.store(!matches!(self.view, View::None), Relaxed);
        }
        let tell_hanging = |error: &Error| self.tell_hanging(error);
        let end_stuck = |error: &Error| self.end_stuck(error);
        std::thread::scope(|scope| {
            let (running, done) = bounded(0);
            self.service.report_beside(scope, &self.names, progress, &self.stop, done.clone());
            let (names, asked, samples) = (&*self.names, &*self.asked, self.records.samples());
            let (hanging, stuck) = (&tell_hanging, &end_stuck);
            let stop = &self.stop;
            let watched = Watched { names, progress, asked, count, samples, stop, hanging, stuck };
            self.view.watch_beside(scope, watched, &self.console, done);
            let result = work();
            if let Some(samples) = samples {
                samples.take_last(progress);
            }
            drop::<Sender<()>>(running);
            result
        })
    }

    /// Runs `work`, which has one progress; `count` counts its total where the run itself has not.
    pub fn run_one<R>(
        &self,
        count: Option<CountTotal<'_>>,
        work: impl FnOnce(Arc<Progress>) -> R,
    ) -> R {
        let progress = Arc::<Progress>::default();
        self.run(&[Arc::clone(&progress)], count, || work(progress))
    }

    /// Tells of a call that does not come back.
    fn tell_hanging(&self, error: &Error) {
        self.console.error("warning", "warning: ", error);
        self.records.warn(error);
    }

    /// Ends the program although a thread is in a call that does not come back: nothing else can end it.
    fn end_stuck(&self, error: &Error) {
        self.console.clear_bar();
        self.console.error("stopped", "", error);
        let exit = self.stop.requested().map_or(Exit::Stopped, Exit::of_stop);
        let verdict = |exit: Exit, _: &str| {
            format!(
                "ENDED (exit {}): what was begun is removed, or gone on with, by the next run",
                exit.code()
            )
        };
        let exit = self.end(&RunResult::Stuck(error), exit, self.is_quiet, verdict);
        std::process::exit(exit.code().into());
    }

    /// Ends a run that was refused.
    pub fn end_refused(&self, error: &Error) -> Exit {
        self.end_refused_at("", error)
    }

    /// The same, and says this before the error.
    pub fn end_refused_at(&self, begin: &str, error: &Error) -> Exit {
        self.console.error("refused", begin, error);
        let exit = self.stop.requested().map_or(Exit::Refused, Exit::of_stop);
        let closing = Closing {
            verdict: &|_, _| format!("refused: {begin}{error}"),
            // It is what was just said.
            is_shown: false,
            stop: &self.stop,
        };
        self.close(&RunResult::Refused(error), exit, &closing)
    }

    /// Records how the run ended, `exit` being its exit code if everything can be written. `verdict` makes
    /// the last line, which is shown on the screen unless that `is_quiet`; it is told what was amiss at the end.
    pub fn end(
        &self,
        ran: &RunResult<'_>,
        exit: Exit,
        is_quiet: bool,
        verdict: impl Fn(Exit, &str) -> String,
    ) -> Exit {
        let closing = Closing { verdict: &verdict, is_shown: !is_quiet, stop: &self.stop };
        self.close(ran, exit, &closing)
    }

    fn close(&self, ran: &RunResult<'_>, exit: Exit, closing: &Closing<'_>) -> Exit {
        let exit = self.records.finish(ran, exit, &self.console, closing);
        self.service.report_end(exit);
        exit
    }
}

// The command that is run when a run has ended (`--on-end`): it tells a person or a monitor how.
//
// There is no shell: the command is a program and its arguments, so no name of a file can become a command. A command
// that needs a shell names it (`sh -c "…"`). What there is to tell is in the environment.

/// The command may take this long; a mail or a request takes seconds.
const LIMIT: Duration = Duration::from_secs(60);

/// And this long after a signal, which asks for the end of the program: systemd waits 90 s, `docker stop` 10 s.
const LIMIT_AFTER_SIGNAL: Duration = Duration::from_secs(8);

/// Time for a command that was asked to end.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// The interval of looks at the command.
const OFTEN: Duration = Duration::from_millis(20);

/// Characters that a shell would act on.
const OF_SHELLS: [char; 8] = ['|', '&', ';', '<', '>', '$', '`', '*'];

/// The deed in errors about a command.
const RUN_ON_END: &str = "run the command of --on-end";

/// A command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OnEnd {
    program: String,
    arguments: Vec<String>,
}

impl OnEnd {
    /// Takes a command apart. Words are separated by spaces; what stands in single or double quotes is one word, or a
    /// part of one, as it is. Nothing else means anything, a backslash neither.
    pub fn parse(text: &str) -> std::result::Result<Self, String> {
        let (mut words, mut word, mut quote) = (Vec::new(), None::<String>, None);
        for c in text.chars() {
            match (quote, c) {
                (Some(open), _) if c == open => quote = None,
                (None, '"' | '\'') => {
                    quote = Some(c);
                    word.get_or_insert_default();
                }
                (None, _) if c.is_whitespace() => words.extend(word.take()),
                (None, _) if OF_SHELLS.contains(&c) => {
                    return Err(format!(
                        "no shell runs this, and {c} means something to a shell: put it in quotes, or name the shell: \
                         sh -c \"…\""
                    ));
                }
                _ => word.get_or_insert_default().push(c),
            }
        }
        if let Some(open) = quote {
            return Err(format!("the quotation mark {open} is not closed"));
        }
        words.extend(word);
        let mut words = words.into_iter();
        let program = words.next().filter(|program| !program.is_empty());
        let program = program.ok_or("a command is needed: a program and its arguments")?;
        Ok(Self { program, arguments: words.collect() })
    }

    /// Looks whether the program is there, as the system looks for it.
    ///
    /// # Errors
    /// It is not.
    pub fn look(&self) -> Result<()> {
        self.found().map(drop)
    }

    /// The same, and whether it can be run: a run that comes to its end without it has copied.
    ///
    /// # Errors
    /// It is not, or cannot.
    pub fn check(&self) -> Result<()> {
        let finding =
            "this user may not run it: chmod +x, or name the program that reads it: sh FILE";
        match self.found()?.iter().any(|it| Helper::may_be(it)) {
            true => Ok(()),
            false => Err(Error::finding(RUN_ON_END, Path::new(&self.program), finding)),
        }
    }

    fn found(&self) -> Result<Vec<PathBuf>> {
        let program = Path::new(&self.program);
        let of_windows = PathBuf::from(format!("{}.exe", self.program));
        let path = std::env::var_os("PATH").unwrap_or_default();
        let dirs = match program.components().count() {
            1 => std::env::split_paths(&path).collect(),
            _ => vec![PathBuf::new()],
        };
        let of_dir = |dir: &PathBuf| [program, &of_windows].map(|it| dir.join(it));
        let found = dirs.iter().flat_map(of_dir).filter(|it| it.is_file());
        let found: Vec<PathBuf> = found.collect();
        let none = || Error::finding(RUN_ON_END, program, "there is no such program");
        (!found.is_empty()).then_some(found).ok_or_else(none)
    }

    /// Runs the command with these variables added to the environment, and waits for its end. Its output goes to
    /// standard error, or nowhere if it is to be `silent`.
    ///
    /// # Errors
    /// It could not be started, took too long, or ended with another code than 0.
    pub fn run(
        &self,
        variables: Vec<(&'static str, OsString)>,
        stop: &Stop,
        silent: bool,
    ) -> Result<()> {
        let what = PathBuf::from(&self.program);
        let fail = |error| Error::io(RUN_ON_END, &what, error);
        let finding = |text: String| Err(Error::finding(RUN_ON_END, &what, text));
        let mut command = Command::new(&self.program);
        command.args(&self.arguments).envs(variables).stdin(Stdio::null());
        // Standard output may carry copied bytes.
        let [out, err] = [(); 2].map(|()| match silent {
            true => Stdio::null(),
            false => Stdio::from(std::io::stderr()),
        });
        // Asked before the command can do anything: a signal that comes later is one that ends it.
        let before = signal(stop);
        let mut helper = Helper::start(command.stdout(out).stderr(err)).map_err(fail)?;
        let limit = if before.is_some() { LIMIT_AFTER_SIGNAL } else { LIMIT };
        let why = match wait(&mut helper, limit, || signal(stop) != before).map_err(fail)? {
            Waited::Ended(status) if status.success() => return Ok(()),
            Waited::Ended(status) => return finding(format!("it ended with {status}")),
            Waited::TooLong => format!("it took more than {} s and was ended", limit.as_secs()),
            Waited::Interrupted => "a signal ended it".to_owned(),
        };
        helper.ask_to_end();
        let _ = wait(&mut helper, LAST_WORDS, || false);
        helper.kill();
        finding(why)
    }
}

/// The end of waiting for a command.
pub enum Waited {
    Ended(std::process::ExitStatus),
    TooLong,
    Interrupted,
}

/// Waits until a command ends, it takes too long, or that is interrupted.
///
/// # Errors
/// The system's.
pub fn wait(
    helper: &mut Helper,
    limit: Duration,
    is_interrupted: impl Fn() -> bool,
) -> std::io::Result<Waited> {
    let started = Instant::now();
    loop {
        match helper.ended()? {
            Some(status) => return Ok(Waited::Ended(status)),
            None if is_interrupted() => return Ok(Waited::Interrupted),
            None if started.elapsed() >= limit => return Ok(Waited::TooLong),
            None => std::thread::sleep(OFTEN),
        }
    }
}

/// The signal that asked the program to end, if one did.
fn signal(stop: &Stop) -> Option<usize> {
    stop.requested().filter(|code| matches!(Exit::of_stop(*code), Exit::Interrupted(_)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_words_and_no_shell() {
        let words = |text: &str| {
            let OnEnd { program, arguments } = OnEnd::parse(text).unwrap();
            [vec![program], arguments].concat()
        };
        assert_eq!(words("/a/tell"), ["/a/tell"]);
        assert_eq!(words("  tell  one\ttwo "), ["tell", "one", "two"]);
        assert_eq!(words("tell 'a  b' \"c'd\" e\"f g\"'' ''"), ["tell", "a  b", "c'd", "ef g", ""]);
        assert_eq!(words(r"C:\tools\tell.exe a\ b"), [r"C:\tools\tell.exe", r"a\", "b"]);
        assert_eq!(words("sh -c \"a | b >$X\""), ["sh", "-c", "a | b >$X"]);
        for text in ["", "  ", "''", "tell 'x", "a | b", "a $X", "a; b", "a >b", "a && b", "rm *"] {
            assert!(OnEnd::parse(text).is_err(), "{text}");
        }
    }
}
