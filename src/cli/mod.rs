//! The command line: the only part that knows `clap`, prints, and maps how a run ended to an exit
//! code.

mod args;
mod catalog;
mod cluster;
mod copy;
mod covered;
mod exit;
mod habits;
mod invocation;
mod jobs;
mod lists;
mod progress;
mod record;
mod report;
mod restore;
mod session;
mod show;
mod span;
mod verify;
mod words;

pub use args::{dircopy as command, dirverify as verify_command};
pub use exit::{dircopy, dirverify};
