//! Files that wait until all others are done: those that could not be read, where what can be read is to be kept. A
//! device that fails or hangs then takes the time of no other file.

use std::{io, sync::Arc, sync::atomic::Ordering::Relaxed};

use crate::{
    copy::commit::Committer, copy::commit::group::ReadBackQueue, error::Cause, error::Error,
    part::Transfer, part::content::CopyTarget, sys, transfer::Outcome, transfer::TransferResult,
    transfer::rescue, transfer::rescue::Rescuer,
};

/// The most files that wait.
const MOST: usize = 16_384;

/// The files that wait, and why; an earlier run may know why.
#[derive(Default)]
pub struct PutOffFiles {
    files: Vec<(Transfer, Option<Error>)>,
    /// Changes of directory from one file to the next: at least the number of directories that they hold open.
    dirs: usize,
    most_dirs: usize,
    /// True when it is their turn.
    is_over: bool,
    /// True once the user was told of the option.
    is_hinted: bool,
}

impl PutOffFiles {
    /// None yet; they may be in so many directories.
    pub fn new(most_dirs: usize) -> Self {
        Self { most_dirs, ..Self::default() }
    }

    fn push(&mut self, transfer: Transfer, error: Option<Error>) {
        let output = &transfer.target.output;
        let last = self.files.last().map(|(last, _)| &last.target.output);
        self.dirs += usize::from(last.is_none_or(|last| !Arc::ptr_eq(last, output)));
        self.files.push((transfer, error));
    }
}

impl Committer<'_> {
    /// Puts a file off that could not be read, if it is to be rescued; gives the outcome back if it is not.
    pub(super) fn put_off(&mut self, transfer: &Transfer, outcome: Outcome) -> Option<Outcome> {
        let is_wanted = self.context.shared.rescues.is_some_and(|rescues| rescues.are_wanted);
        let is_full =
            self.put_off.files.len() >= MOST || self.put_off.dirs >= self.put_off.most_dirs;
        let is_free = || transfer.target.replaces || matches!(transfer.target.look(), Ok(None));
        let waits = is_wanted && !self.put_off.is_over && !self.is_cut_short();
        let (transfer, error) = match outcome {
            Outcome::PutOff { replaces } => {
                self.context.pass(&transfer.target);
                let target = CopyTarget { replaces, ..transfer.target.clone() };
                (Transfer { source: Arc::clone(&transfer.source), target }, None)
            }
            Outcome::Failed(error) if is_unreadable(transfer, &error) => {
                if !waits || !is_free() {
                    return Some(Outcome::Failed(self.hint(error, is_wanted)));
                }
                if let Cause::Io(cause) = error.cause()
                    && self.accounting.is_source_gone(cause)
                {
                    return Some(Outcome::Failed(error));
                }
                (transfer.clone(), Some(error))
            }
            other => return Some(other),
        };
        if waits && !is_full {
            self.context.control.progress.handled.fetch_sub(1, Relaxed);
            self.accounting.counts.put_off += 1;
            self.put_off.push(transfer, error);
            return None;
        }
        Some(unrescued(
            &transfer,
            error,
            "; too many files wait to be rescued: run the same command again",
        ))
    }

    fn hint(&mut self, error: Error, is_wanted: bool) -> Error {
        let is_told = is_wanted || std::mem::replace(&mut self.put_off.is_hinted, true);
        if is_told { error } else { error.with_note("; --rescue keeps what can be read") }
    }

    /// All others are done: rescues the files that wait, one after the other.
    pub(super) fn rescue(&mut self) {
        self.put_off.is_over = true;
        let files = std::mem::take(&mut self.put_off.files);
        if files.is_empty() {
            return;
        }
        // What is complete must not wait for a device that hangs.
        self.commit();
        self.take_answers_while(ReadBackQueue::is_busy);
        self.commit();
        let mut rescuer = Rescuer::new(self.context);
        for (transfer, error) in files {
            let mut warnings = Vec::new();
            let outcome = match rescuer.as_mut().filter(|_| !self.is_cut_short()) {
                Some(rescuer) => {
                    // It is asked once a second, and is to be found out each time.
                    let mut is_gone = |cause: &io::Error| {
                        self.accounting.was_read();
                        self.accounting.is_source_gone(cause)
                    };
                    rescuer
                        .rescue(&transfer, &mut is_gone, &mut warnings)
                        .unwrap_or_else(Outcome::Failed)
                }
                None => {
                    unrescued(&transfer, error, "; it was not rescued, for the run was to stop")
                }
            };
            self.settle(TransferResult { transfer, outcome, warnings, resumed: 0 });
            self.commit();
        }
    }

    /// A file stands complete: what was rescued of it goes.
    pub(super) fn forget_rescue(&mut self, target: &CopyTarget) {
        if let Some(rescues) = self.context.shared.rescues.filter(|rescues| !rescues.are_none())
            && let Err(error) = rescue::forget(rescues, &target.output, &target.entry.name)
        {
            self.accounting.warn(&error);
        }
    }
}

/// True if a part of a file of the source could not be read, or took too long.
fn is_unreadable(transfer: &Transfer, error: &Error) -> bool {
    let is_slow = error.kind() == Some(io::ErrorKind::TimedOut);
    let is_bad = matches!(error.cause(), Cause::Io(cause) if sys::is_device_error(cause));
    (is_bad || is_slow) && error.path() == transfer.source_path()
}

/// The outcome of a file that is not rescued in this run.
fn unrescued(transfer: &Transfer, error: Option<Error>, note: &str) -> Outcome {
    let error = error.unwrap_or_else(|| {
        let finding = "an earlier run could not read all of it";
        Error::finding("rescue all of", transfer.source_path(), finding)
    });
    Outcome::Failed(error.with_note(note))
}
