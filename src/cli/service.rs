//! Status messages to the service manager: how far a run is, and how it ended. systemd shows them in
//! `systemctl status`.

use std::sync::Arc;
use std::thread::{Builder, Scope};
use std::time::Duration;

use crossbeam_channel::{Receiver, RecvTimeoutError};

use crate::cli::exit::Exit;
use crate::cli::progress::snapshot::Tracker;
use crate::event::{Progress, Stop};
use crate::sys::Manager;

/// The interval of status messages: as often as an administrator looks.
const OFTEN: Duration = Duration::from_secs(2);

/// The service manager, if one started the program and asks for status messages.
pub struct Service(Option<Manager>);

impl Service {
    /// The service manager that the environment names.
    pub fn find() -> Self {
        Self(Manager::find())
    }

    /// Reports how far the run is, in a thread of its own, until the other end of `done` is dropped. Without
    /// a thread the run goes on unreported.
    pub fn report_beside<'scope>(
        &'scope self,
        scope: &'scope Scope<'scope, '_>,
        names: &'scope [String],
        progress: &'scope [Arc<Progress>],
        stop: &'scope Stop,
        done: Receiver<()>,
    ) {
        let Some(manager) = &self.0 else { return };
        manager.tell("READY=1\nSTATUS=begun");
        let mut tracker = Tracker::new(names, progress);
        let tell = move || {
            while done.recv_timeout(OFTEN) == Err(RecvTimeoutError::Timeout) {
                let line = tracker.look().line();
                if stop.is_requested() {
                    manager.tell(&format!("STOPPING=1\nSTATUS=ending: {line}"));
                } else {
                    manager.tell(&format!("STATUS={line}"));
                }
            }
        };
        let _ = Builder::new().name("status".into()).spawn_scoped(scope, tell);
    }

    /// Reports how the run ended.
    pub fn report_end(&self, exit: Exit) {
        let Some(manager) = &self.0 else { return };
        let (name, code) = (exit.name(), exit.code());
        manager.tell(&format!("STOPPING=1\nSTATUS=ended: {name}, exit code {code}"));
    }
}
