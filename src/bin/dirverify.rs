//! The `dirverify` program: `dircopy verify` under a name of its own.

use std::process::ExitCode;

fn main() -> ExitCode {
    dircopy::programs::dirverify(std::env::args_os())
}
