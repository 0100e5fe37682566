//! The `dircopy` program.

use std::process::ExitCode;

fn main() -> ExitCode {
    dircopy::programs::dircopy(std::env::args_os())
}
