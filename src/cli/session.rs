//! What every program does around its run: hear signals, show progress, record how it ended.

use std::ffi::OsString;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use crossbeam_channel::{Sender, bounded};

use crate::cli::exit::Exit;
use crate::cli::progress::view::{CountTotal, View, Watched};
use crate::cli::record::finish::Closing;
use crate::cli::record::options::RecordOptions;
use crate::cli::record::records::Records;
use crate::cli::record::task::{RunResult, Task};
use crate::cli::service::Service;
use crate::cli::show::console::Console;
use crate::cli::show::line::Detail;
use crate::error::Error;
use crate::event::{Progress, Stop};
use crate::sys;

/// What a run is set up with.
pub struct Setup<'s, 'a> {
    /// The options for records.
    pub options: RecordOptions<'s>,
    /// How progress is shown.
    pub view: View,
    /// Whether standard output carries the copied bytes.
    pub aside: bool,
    /// What the run does.
    pub task: Task<'a>,
    /// The arguments of the program, its name first.
    pub command: &'s [OsString],
}

/// A run of a program, from its arguments to its exit code.
pub struct Session<'a> {
    pub console: Console,
    /// What the run records.
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
        let service = Service::find();
        let is_quiet = detail == Detail::Quiet;
        let session = Self { console, records, stop, view, service, names, asked, is_quiet };
        match opened {
            Ok(()) => Ok(session),
            Err(refused) => Err(session.end_refused(&refused)),
        }
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
        self.console.refused(error);
        let exit = self.stop.requested().map_or(Exit::Refused, Exit::of_stop);
        let closing = Closing {
            verdict: &|_, _| format!("refused: {error}"),
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
