//! What every program does around its run: hear signals, show how far it is, and leave a record.

use std::sync::atomic::Ordering::Relaxed;

use crossbeam_channel::{Sender, bounded};

use crate::cli::console::Console;
use crate::cli::exit::Exit;
use crate::cli::progress::View;
use crate::cli::record::records::{Ran, Records};
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

/// Does `work`, and shows its progress meanwhile.
pub fn watched<R>(view: &View, console: &Console, work: impl FnOnce(&Progress) -> R) -> R {
    let progress = Progress::default();
    progress.watched.store(!matches!(view, View::None), Relaxed);
    std::thread::scope(|scope| {
        let (running, done) = bounded(0);
        view.show_beside(scope, std::slice::from_ref(&progress), console, done);
        let result = work(&progress);
        drop::<Sender<()>>(running);
        result
    })
}

/// Writes what the run leaves for programs, which may be what makes it fail.
pub fn close(records: &Records<'_>, console: &Console, ran: &Ran<'_>, exit: Exit) -> Exit {
    let (exit, errors) = records.close(ran, exit);
    errors.iter().for_each(|error| console.error("failed", "", error));
    exit
}
