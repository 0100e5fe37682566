//! The command line: the only part that knows `clap`, prints, and maps how a run ended to an exit
//! code.

mod args;
mod asked;
mod console;
mod exit;
mod frame;
mod job_check;
mod job_file;
mod program;
mod progress;
mod record;
mod rows;
mod say_args;
mod schedule;
mod service;
mod size;
mod stream;
mod stream_args;
mod summary;
mod told;
mod unattended;
mod verify;
mod verify_args;
mod verify_summary;
mod verify_words;

pub use args::command;
pub use program::{dircopy, dirverify};
pub use verify_args::command as verify_command;
