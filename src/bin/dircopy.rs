//! The `dircopy` program.

use std::process::ExitCode;

fn main() -> ExitCode {
    dircopy::cli::dircopy(std::env::args_os())
}
