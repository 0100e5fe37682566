//! What the service manager is told while a run goes on, and that it came to its end: systemd shows it
//! in `systemctl status`.

use std::sync::Arc;
use std::thread::{Builder, Scope};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, RecvTimeoutError};

use crate::cli::exit::Exit;
use crate::cli::show::progress::how_far;
use crate::event::{Progress, Stop};
use crate::sys::Manager;

/// How often it is told: as often as somebody may look.
const OFTEN: Duration = Duration::from_secs(2);

/// The service manager, if the program is run by one that wants to know.
pub struct Service(Option<Manager>);

impl Service {
    /// The one that the environment names.
    pub fn find() -> Self {
        Self(Manager::find())
    }

    /// Tells it how the run goes, in a thread of its own, until the other end of `done` is dropped.
    /// Where there is no thread to be had, the run is not worse for it.
    pub fn tell_beside<'scope>(
        &'scope self,
        scope: &'scope Scope<'scope, '_>,
        progress: &'scope [Arc<Progress>],
        stop: &'scope Stop,
        done: Receiver<()>,
    ) {
        let Some(manager) = &self.0 else { return };
        let started = Instant::now();
        manager.tell("READY=1\nSTATUS=begun");
        let tell = move || {
            while done.recv_timeout(OFTEN) == Err(RecvTimeoutError::Timeout) {
                let Some(line) = how_far(progress, started.elapsed()) else { continue };
                if stop.is_requested() {
                    manager.tell(&format!("STOPPING=1\nSTATUS=ending: {line}"));
                } else {
                    manager.tell(&format!("STATUS={line}"));
                }
            }
        };
        let _ = Builder::new().name("status".into()).spawn_scoped(scope, tell);
    }

    /// Tells it how the run ended.
    pub fn tell_end(&self, exit: Exit) {
        let Some(manager) = &self.0 else { return };
        let (name, code) = (exit.name(), exit.code());
        manager.tell(&format!("STOPPING=1\nSTATUS=ended: {name}, exit code {code}"));
    }
}
