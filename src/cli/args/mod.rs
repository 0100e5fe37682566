//! The options of the programs, and how they become jobs.

pub mod copy;
pub mod job_file;
pub mod mirror;
pub mod unattended;
pub mod values;
pub mod verify;

use std::ffi::OsString;

use clap::{Arg, Command, CommandFactory, value_parser};

use crate::cli::{
    args::copy::CopyArgs, args::mirror::GenerationsArgs, args::values::ReportArgs,
    args::values::SHORT_REPORT, args::verify::HealArgs, args::verify::ProtectArgs,
    args::verify::VerifyArgs, catalog::CatalogArgs, cluster, cluster::FinishArgs,
    cluster::PlanArgs, cluster::ShardArgs, covered, covered::CoveredArgs, lists::DiffArgs,
    lists::MergeArgs, restore,
};

// The definition of the command line: the options of all commands, and the ends of their help.

const EXIT_CODES: &str = "\
Exit codes:
  0    everything asked for was done: every regular file of the source is at
       every output, byte-equal and listed in the manifest
  1    finished, but some entries failed, changed whenever they were read, or
       were left different; or lines of --expect's manifest could not be used;
       or there was nothing to copy (--allow-empty)
  2    usage error, or refused before anything was touched
  3    stopped early: the output became unusable (full, read-only, gone), the
       source is gone, or the manifest could not be written
  4    verify: a listed file is missing or differs (or, when asked, an unlisted
       file is there); --verify: the disk did not hold a copy as it was written,
       twice; --verify-source: two readings of the source differ, twice; or
       files of the source have rotted and were not copied (--expect), or are
       missing (of a bag, or with --expect-all)
  5    verify: the manifest is malformed or has nothing to check
  6    stopped at the time that was set (--max-duration, --stop-at); finished
       files are recorded, and the same command continues
  7    the disks of a span (--span) that are here are done, and another one is
       wanted: the last line says which, and what to type
  129, 130, 143
       ended by SIGHUP, SIGINT or SIGTERM: finished files are recorded,
       temporary ones removed but for durable beginnings of large files
  141  of a stream: the reader of an output closed it early, and nothing else is
       amiss

With several outputs it is the worst of theirs: a signal, 6, 4, 3, 7, 1, 0; a
refused output counts as 1 if others were not refused. The last line of the
summary is the verdict over all of them, and names the exit code unless it is 0.

The manifest OUTPUT/dircopy-<UTC time>.sha256sum is checked with
`dircopy verify OUTPUT`, or `sha256sum -c --strict` from inside OUTPUT.

A copy is a stream where an input or output is \"-\", an input is a FIFO or a
device, several inputs are given, or a file goes where something other than a
directory is; every output is then a file or \"-\", and gets all inputs one after
the other. Otherwise the output is a directory, also a new one, and a single
file goes into it under its own name.

Further options are for tuning, and no errand needs them: --block-size, --cache,
--grace, --holes, --ionice, --lag, --nice, --queue-size, --reflink, --renamed,
--resume, --simd, --sparse and --states (docs/guide/options.md).";

/// The options that are for tuning, each a word; the last lines of the help name them.
const TUNING: &str =
    "block_size cache grace holes ionice nice queue_size reflink renamed resume sparse";

/// The text of `dircopy -h`: one screen of 80 columns with what most people need.
const SHORT_COPY: &str = "\
Examples:
  dircopy /media/card /mnt/a /mnt/b --verify   copy to two disks, read back
  dircopy verify /mnt/a                        is all as it was copied?
  dircopy restore /mnt/a /srv/photos           bring it back, proven

Usage: dircopy [OPTIONS] <SRC> <DST>...     what is in SRC goes into every DST
       dircopy COMMAND -h  verify, covered, restore, heal, protect, report,
                  catalog, generations, jobs, manifest, plan, shard, finish

Options:
  -n, --dry-run                  Only say what would happen
      --verify                   Read every file back from the disk
      --overwrite-policy POLICY  What differs: default, update, never, always
      --mirror                   Move what has left SRC into a trash at DST
      --include, --exclude GLOB  Copy only, or leave out, what matches
      --report FILE              A record of the run: JSON, or a page if .html
      --job NAME                 Take the options of a job
      --limit-rate SIZE          Read no faster than so much a second: 50M
  -j, --workers N                Files that are copied side by side
  -q, --quiet; -v, --verbose     Only say what is wrong; name every entry
  -h; --help; -V, --version      This; all options and exit codes; the version

Exit code 0: every file is at every output, byte-equal and listed there.
";

/// The text of `dircopy verify -h`, and of its other name, `dirverify -h`.
const SHORT_VERIFY: &str = "\
Check directories against their manifests, reading from the disk

Usage: dircopy verify [OPTIONS] [DIR]...    also called dirverify

Options:
  -m, --manifest FILE       Check against this one, of any program; repeatable
      --root DIR            Where its names start
      --complete            Also name the files that are not listed
      --list-failed FILE    Write the paths that did not pass to FILE
      --budget DURATION     Scrub for this time (45m, 2h): the oldest first
      --max-bytes SIZE      The same, and read no more than this (500G)
      --not-since WHEN      Only what was not found good since: 90d, a date
      --shard K/N, --merge  Check on N machines, and prove the whole
      --report FILE         A record of the check: JSON, or a page if .html
  -j, --workers N           Files that are read side by side
  -q, --quiet               Only say what is wrong
  -v, --verbose             Name every file
  -h; --help                This; all options and exit codes
  -V, --version             The version

Exit code 0: every listed file was read and is as listed; 4: one is not.
";

/// The texts of `-h` of commands; the help of others fits on one screen as it is.
const SHORT: [(&str, &str); 9] = [
    ("covered", covered::SHORT),
    ("verify", SHORT_VERIFY),
    ("report", SHORT_REPORT),
    ("restore", restore::SHORT),
    ("heal", verify::SHORT),
    ("protect", verify::SHORT_PROTECT),
    ("plan", cluster::SHORT_PLAN),
    ("shard", cluster::SHORT_SHARD),
    ("finish", cluster::SHORT_FINISH),
];

const CHECK_EXIT_CODES: &str = "\
Exit codes:
  0    nothing is in the way
  1    something is: no such source, no place for the output or the report …
  2    the job cannot be found or read, or something in it is wrong

The tree itself is not read: `dircopy --job NAME --dry-run` says what would
happen to every file.";

const MERGE_HINT: &str = "\
Exit codes: see `dircopy manifest merge --help`, and that of diff.";

const LIST_EXIT_CODES: &str = "\
Exit codes:
  0    the jobs are listed
  1    a directory for jobs cannot be read

The first job of a name is the one that is run.";

const USAGE: &str = "\
dircopy [OPTIONS] <SRC> <DST>...
       dircopy [OPTIONS] --job <NAME|FILE>
       dircopy COMMAND ...";

/// The command line of `dircopy`.
pub fn dircopy() -> Command {
    let verify = dirverify().name("verify").display_name("dircopy-verify");
    let is_tuning = |arg: &Arg| TUNING.split(' ').any(|id| arg.get_id() == id);
    let hide = |arg: Arg| if is_tuning(&arg) { arg.hide_long_help(true) } else { arg };
    CopyArgs::command()
        .mut_args(hide)
        .subcommand(verify)
        .subcommand(CoveredArgs::command().display_name("dircopy-covered"))
        .subcommand(CatalogArgs::command().display_name("dircopy-catalog"))
        .subcommand(restore::restore())
        .subcommand(HealArgs::command().display_name("dircopy-heal"))
        .subcommand(ProtectArgs::command().display_name("dircopy-protect"))
        .subcommand(ReportArgs::command().display_name("dircopy-report"))
        .subcommand(GenerationsArgs::command().display_name("dircopy-generations"))
        .subcommand(jobs())
        .subcommand(PlanArgs::command().mut_args(hide).display_name("dircopy-plan"))
        .subcommand(ShardArgs::command().display_name("dircopy-shard"))
        .subcommand(FinishArgs::command().display_name("dircopy-finish"))
        .subcommand(manifest())
        .args_conflicts_with_subcommands(true)
        .override_usage(USAGE)
        .after_help(EXIT_CODES)
}

/// The command line with the help on one screen, if these arguments ask for that.
pub fn with_short_help(command: Command, args: &[OsString]) -> Command {
    if !wants_short_help(args) {
        return command;
    }
    if command.get_name() == "dirverify" {
        return command.override_help(SHORT_VERIFY);
    }
    let command = command.override_help(SHORT_COPY);
    SHORT.iter().fold(command, |command, (name, help)| {
        command.mut_subcommand(*name, |subcommand| subcommand.override_help(*help))
    })
}

/// True if `-h` is given, also among other letters, and not `--help`. Nothing else depends on it.
fn wants_short_help(args: &[OsString]) -> bool {
    let mut words = args.iter().skip(1).map(|arg| arg.as_encoded_bytes());
    let is_short =
        |word: &[u8]| word.starts_with(b"-") && !word.starts_with(b"--") && word.contains(&b'h');
    words.clone().any(is_short) && !words.any(|word| word == b"--help")
}

/// The command line of `dirverify`.
pub fn dirverify() -> Command {
    VerifyArgs::command()
}

fn manifest() -> Command {
    Command::new("manifest")
        .display_name("dircopy-manifest")
        .about("Make one manifest of several, or hold lists against each other")
        .subcommand(DiffArgs::command().display_name("dircopy-manifest-diff"))
        .subcommand(MergeArgs::command().display_name("dircopy-manifest-merge"))
        .subcommand_required(true)
        .disable_help_subcommand(true)
        .after_help(MERGE_HINT)
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

    #[test]
    fn short_help_is_one_screen_of_options_that_exist() {
        let mut program = dircopy();
        program.build();
        let mut verify = dirverify();
        verify.build();
        let named = SHORT.map(|(name, help)| (help, program.find_subcommand(name).unwrap()));
        let all = [(SHORT_COPY, &program), (SHORT_VERIFY, &verify)].into_iter().chain(named);
        for (help, command) in all {
            assert_one_screen(help);
            let words = help.split(|c: char| !c.is_ascii_alphabetic() && c != '-');
            for word in words.filter_map(|word| word.strip_prefix("--")) {
                assert!(command.get_arguments().any(|it| it.get_long() == Some(word)), "--{word}");
            }
            let words = help.split([' ', ',', ';', '\n']);
            for letter in words.filter_map(|word| word.strip_prefix('-')?.parse().ok()) {
                let is_it = |it: &Arg| it.get_short() == Some(letter);
                assert!(letter == 'o' || command.get_arguments().any(is_it), "-{letter}");
            }
        }
    }

    fn assert_one_screen(help: &str) {
        assert!(help.lines().count() < 24, "a prompt needs a line of 24:\n{help}");
        assert_eq!(help.lines().find(|line| line.chars().count() > 80), None, "\n{help}");
    }

    /// As clap writes it on a terminal of 80 columns.
    #[test]
    fn the_short_help_of_every_command_is_one_screen() {
        fn each(command: &mut Command, path: &[&str]) {
            let names: Vec<String> =
                command.get_subcommands().map(|it| it.get_name().to_owned()).collect();
            let line: Vec<OsString> =
                path.iter().copied().chain(["-h"]).map(OsString::from).collect();
            let whole = with_short_help(dircopy().term_width(80), &line);
            let help = whole.try_get_matches_from(&line).unwrap_err().to_string();
            assert!(help.contains("Usage: dircopy"), "{path:?}: {help}");
            assert_one_screen(help.trim_end());
            for name in names.iter().filter(|name| *name != "help") {
                let path: Vec<&str> = path.iter().copied().chain([name.as_str()]).collect();
                each(command.find_subcommand_mut(name).unwrap(), &path);
            }
        }
        each(&mut dircopy(), &["dircopy"]);
    }

    /// Lines of our own that clap does not have to break.
    #[test]
    fn the_ends_of_long_help_fit_a_terminal() {
        fn each(command: &Command) {
            let end = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            let long = end.lines().find(|line| line.chars().count() > 80);
            assert_eq!(long, None, "{}", command.get_name());
            command.get_subcommands().for_each(each);
        }
        each(&dircopy());
    }

    #[test]
    fn short_help_is_asked_for_by_a_letter() {
        let wants =
            |line: &str| wants_short_help(&line.split(' ').map(OsString::from).collect::<Vec<_>>());
        assert!(wants("dircopy -h") && wants("dircopy verify -vh") && wants("dircopy a -h b"));
        assert!(
            !wants("dircopy --help") && !wants("dircopy help") && !wants("dircopy -v -h --help")
        );
    }
}
