//! The command line: the only part that knows `clap`, prints, and maps how a run ended to an exit
//! code.

mod args;
mod cluster;
mod copy;
mod exit;
mod generations;
mod invocation;
mod jobs;
mod on_end;
mod program;
mod progress;
mod record;
mod report;
mod schedule;
mod service;
mod session;
mod show;
mod stream;
mod verify;
mod words;

pub use args::command::{dircopy as command, dirverify as verify_command};
pub use program::{dircopy, dirverify};
