//! What every program does around its run: hear signals, and tell how far it is and how it ended.

use std::ffi::OsString;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use crossbeam_channel::{Sender, bounded};

use crate::cli::exit::Exit;
use crate::cli::record::records::{Ran, Records, Task, Wanted};
use crate::cli::service::Service;
use crate::cli::show::console::Console;
use crate::cli::show::progress::View;
use crate::error::Error;
use crate::event::{Progress, Stop};
use crate::sys;

/// What signals ask to stop.
pub fn stop_by_signals(console: &Console) -> Stop {
    let stop = Stop::default();
    if let Err(error) = sys::on_interrupt(stop.handle()) {
        console.warn(&format!("cannot catch signals: {error}"));
    }
    stop
}

/// Who follows a run: somebody who looks at its progress, and the service manager.
pub struct Watched<'a> {
    /// How progress is shown.
    pub view: &'a View,
    /// Who started the program.
    pub service: &'a Service,
    /// Where the user is told of what goes wrong with either.
    pub console: &'a Console,
}

impl Watched<'_> {
    /// Does `work`, of which `progress` tells, one of them for each output, and `stop` whether it is to end.
    pub fn run<R>(&self, progress: &[Arc<Progress>], stop: &Stop, work: impl FnOnce() -> R) -> R {
        for progress in progress {
            progress.watched.store(!matches!(self.view, View::None), Relaxed);
        }
        std::thread::scope(|scope| {
            let (running, done) = bounded(0);
            self.service.tell_beside(scope, progress, stop, done.clone());
            self.view.show_beside(scope, progress, self.console, done);
            let result = work();
            drop::<Sender<()>>(running);
            result
        })
    }

    /// The same where there is one.
    pub fn run_one<R>(&self, stop: &Stop, work: impl FnOnce(Arc<Progress>) -> R) -> R {
        let progress = Arc::<Progress>::default();
        self.run(&[Arc::clone(&progress)], stop, || work(progress))
    }

    /// Tells why nothing was done; how that ends.
    pub fn refused(&self, why: &Error, stop: &Stop) -> Exit {
        self.console.refused(why);
        stop.requested().map_or(Exit::Refused, Exit::of_stop)
    }

    /// Opens what the run is to leave. If something of it cannot be, the run is refused: that ends it, and
    /// what could be opened says so.
    pub fn open<'r>(
        &self,
        wanted: &Wanted<'_>,
        task: Task<'r>,
        command: &[OsString],
        stop: &Stop,
    ) -> Result<Records<'r>, Exit> {
        let (records, opened) = Records::open(wanted, task, command);
        match opened {
            Ok(()) => Ok(records),
            Err(refused) => Err(self.end_refused(&records, &refused, stop)),
        }
    }

    /// Ends a run that was refused.
    pub fn end_refused(&self, records: &Records<'_>, why: &Error, stop: &Stop) -> Exit {
        let exit = self.refused(why, stop);
        self.end(records, &Ran::Refused(why), exit)
    }

    /// Writes down how the run ended and tells who started it; `exit` is how it ended otherwise.
    pub fn end(&self, records: &Records<'_>, ran: &Ran<'_>, exit: Exit) -> Exit {
        let exit = records.close(ran, exit, self.console);
        self.service.tell_end(exit);
        exit
    }
}
