//! A program that is started to help, with all that it starts in its turn.

use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus};

use rustix::process::{Pid, Signal, kill_process_group};

/// A program in a process group of its own, so that it can be ended together with what it started.
#[derive(Debug)]
pub struct Helper(Child);

impl Helper {
    /// Starts the program.
    pub fn start(command: &mut Command) -> io::Result<Self> {
        command.process_group(0).spawn().map(Self)
    }

    /// How it ended, if it has.
    pub fn ended(&mut self) -> io::Result<Option<ExitStatus>> {
        self.0.try_wait()
    }

    /// Asks it and all that it started to end.
    pub fn ask_to_end(&self) {
        self.signal(Signal::TERM);
    }

    /// Ends it and all that it started.
    pub fn kill(&mut self) {
        self.signal(Signal::KILL);
        // It was not waited for, so its number is still its own.
        let _ = self.0.wait();
    }

    fn signal(&self, signal: Signal) {
        // One that is over needs no signal.
        let _ = kill_process_group(Pid::from_child(&self.0), signal);
    }
}
