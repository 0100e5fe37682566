//! A program that is started to help.

use std::io;
use std::process::{Child, Command, ExitStatus};

/// A program. What it starts in its turn is not ended with it here.
#[derive(Debug)]
pub struct Helper(Child);

impl Helper {
    /// Starts the program.
    pub fn start(command: &mut Command) -> io::Result<Self> {
        command.spawn().map(Self)
    }

    /// How it ended, if it has.
    pub fn ended(&mut self) -> io::Result<Option<ExitStatus>> {
        self.0.try_wait()
    }

    /// A program without a window cannot be asked here.
    pub fn ask_to_end(&self) {}

    /// Ends it.
    pub fn kill(&mut self) {
        // One that is over needs no end.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
