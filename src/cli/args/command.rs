//! The definition of the command line: the options of all commands, and the ends of their help.

use std::ffi::OsString;

use clap::{Arg, Command, CommandFactory, value_parser};

use crate::cli::args::copy::CopyArgs;
use crate::cli::args::heal::HealArgs;
use crate::cli::args::report::ReportArgs;
use crate::cli::args::verify::VerifyArgs;

const EXIT_CODES: &str = "\
Exit codes:
  0    everything asked for was done: every regular file of the source is at every
       output, byte-equal and listed in the manifest
  1    finished, but some entries failed, changed whenever they were read, or were
       left different; or lines of --expect's manifest could not be used
  2    usage error, or refused before anything was touched
  3    stopped early: the output became unusable (full, read-only, gone), or the
       manifest could not be written
  4    verify: a listed file is missing or differs (or, when asked, an unlisted file
       is there); --verify: the disk did not hold a copy as it was written,
       twice; or files of the source have rotted and were not copied (--expect)
  5    verify: the manifest is malformed or has nothing to check
  6    stopped at the time that was set (--max-duration, --stop-at); finished files are
       recorded, and the same command continues
  129, 130, 143
       ended by SIGHUP, SIGINT or SIGTERM: finished files are recorded, temporary ones
       removed but for durable beginnings of large files
  141  of a stream: the reader of an output closed it early, and nothing else is amiss

With several outputs it is the worst of theirs: a signal, 6, 4, 3, 1, 0; a refused
output counts as 1 if others were not refused. The last line of the summary is the verdict
over all of them, and names the exit code unless it is 0.

The manifest OUTPUT/dircopy-<UTC time>.sha256sum is checked with
`dircopy verify OUTPUT`, or `sha256sum -c --strict` from inside OUTPUT.

A copy is a stream where an input or output is \"-\", an input is a FIFO or a device,
several inputs are given, or a file goes where something other than a directory is; every
output is then a file or \"-\", and gets all inputs one after the other. Otherwise the
output is a directory, also a new one, and a single file goes into it under its own name.";

const SHORT_END: &str = "\
Exit code 0: every file of the source is at every output, byte-equal and listed in its manifest.
`--help` has all options and exit codes.";

const CHECK_EXIT_CODES: &str = "\
Exit codes:
  0    nothing is in the way
  1    something is: no such source, no place for the output or the report …
  2    the job cannot be found or read, or something in it is wrong

The tree itself is not read: `dircopy --job NAME --dry-run` says what would happen to
every file.";

const LIST_EXIT_CODES: &str = "\
Exit codes:
  0    the jobs are listed
  1    a directory for jobs cannot be read

The first job of a name is the one that is run.";

const USAGE: &str = "\
dircopy [OPTIONS] <SRC> <DST>...
       dircopy [OPTIONS] --job <NAME|FILE>
       dircopy verify [OPTIONS] [DIR]...
       dircopy heal [OPTIONS] <TREE>...
       dircopy report <RECEIPT>... -o <FILE.html>
       dircopy jobs list | check <NAME|FILE>";

/// The command line of `dircopy`.
pub fn dircopy() -> Command {
    let verify = dirverify().name("verify").display_name("dircopy-verify");
    CopyArgs::command()
        .subcommand(verify)
        .subcommand(HealArgs::command().display_name("dircopy-heal"))
        .subcommand(ReportArgs::command().display_name("dircopy-report"))
        .subcommand(jobs())
        .args_conflicts_with_subcommands(true)
        .override_usage(USAGE)
        .after_help(SHORT_END)
        .after_long_help(EXIT_CODES)
}

/// The command line of `dirverify`.
pub fn dirverify() -> Command {
    VerifyArgs::command()
}

fn jobs() -> Command {
    let name = Arg::new("name").value_name("NAME|FILE").required(true);
    let check = Command::new("check")
        .display_name("dircopy-jobs-check")
        .about("Say what a job would run and what is in its way, and touch nothing")
        .arg(name.value_parser(value_parser!(OsString)).help("As with --job"))
        .after_help(CHECK_EXIT_CODES);
    let list = Command::new("list")
        .display_name("dircopy-jobs-list")
        .about("List the jobs that --job finds by name")
        .after_help(LIST_EXIT_CODES);
    Command::new("jobs")
        .display_name("dircopy-jobs")
        .about("List and check jobs that are kept in files")
        .subcommands([check, list])
        .subcommand_required(true)
        .disable_help_subcommand(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_definitions_are_sound() {
        dircopy().debug_assert();
        dirverify().debug_assert();
    }
}
