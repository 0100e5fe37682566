//! Who is told what happens: the user, and what the run leaves to read.

use std::sync::Arc;

use crate::cli::args::copy::Args;
use crate::cli::record::records::Records;
use crate::cli::show::console::Console;
use crate::cli::show::copy_summary::summary;
use crate::copy::report::{Ending, Report};
use crate::error::Result;
use crate::event::{Event, Observer, Progress, Stop};

/// Who is told what happens at an output.
pub struct Told<'a> {
    /// The user.
    pub console: &'a Console,
    /// What the run leaves to read.
    pub records: &'a Records<'a>,
    /// The output, if there are several.
    pub at: Option<String>,
}

impl Told<'_> {
    /// Says how the run ended.
    pub fn ended(&self, args: &Args, ran: &Result<Report>) {
        let console = self.console;
        let at = self.at.as_deref();
        let begin = at.map_or(String::new(), |at| format!("{at}: "));
        match ran {
            Err(refused) => {
                console.error("refused", &begin, refused);
            }
            Ok(Report { ending: Ending::Stopped(error), .. }) => {
                console.error("stopped", &format!("{begin}stopped early: "), error);
            }
            Ok(_) => {}
        }
        if let Ok(report) = ran
            && !args.say.quiet
        {
            let title = at.map_or(String::new(), |at| format!("{:<9} {at}\n", "OUTPUT"));
            console.out(&format!("{title}{}", summary(report, args.dry_run, args.say.verbose)));
        }
    }

    /// Follows the run at the output.
    pub fn observer(
        &self,
        progress: Arc<Progress>,
        stop: Stop,
    ) -> Observer<impl Fn(&Event<'_>) + Sync> {
        Observer { progress, stop, listen: |event: &Event<'_>| self.event(event) }
    }

    /// Tells what happened there.
    pub fn event(&self, event: &Event<'_>) {
        self.console.event(event, self.at.as_deref());
        self.records.event(event, self.at.as_deref());
    }
}
