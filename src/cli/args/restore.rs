//! The options of `dircopy restore`: those of a copy that mean something when a tree is brought back.

use clap::{ArgMatches, Command, CommandFactory, parser::ValueSource};

use crate::cli::args::copy::CopyArgs;

const EXIT_CODES: &str = "\
Exit codes:
  0    everything that the manifest lists is at DST, byte-equal
  1    finished, but some entries failed or were left different
  2    usage error, or refused: there is no manifest that would prove TREE
  3    stopped early: an output became unusable, or TREE is gone
  4    files of TREE are damaged or missing: they are named and not copied
  129, 130, 143
       ended by a signal: the same command continues

TREE is a copy that has a manifest of dircopy, a generation, a directory of
generations (the newest is taken) or a BagIt bag. Every file is held against
its manifest while it is copied. Records of TREE are not copied, and DST keeps
none once all is there, unless it was an output before.";

/// The text of `dircopy restore -h`.
pub const SHORT: &str = "\
Bring a copy back, proven against its manifest while it is copied

Usage: dircopy restore [OPTIONS] <TREE> <DST>

  dircopy restore /mnt/archive /srv/photos
  dircopy restore /mnt/nights/2026-11-21T020000Z /srv/photos
  dircopy restore /mnt/archive /srv/photos --include /2025/snow.jpg

Options:
  -n, --dry-run                  Only say what would happen
      --include, --exclude GLOB  Bring back only, or leave out, what matches
      --overwrite-policy POLICY  What differs: default, update, never, always
      --verify                   Read every file back from the disk
      --expect FILE              Prove it by this list, of any program
      --report FILE              A record of the run: JSON, or a page if .html
  -q, --quiet; -v, --verbose     Only say what is wrong; name every entry
  -h; --help                     This; all options and exit codes

Exit code 0: everything listed is at DST, byte-equal; 4: TREE has damaged files.
";

/// What of a copy's options it has.
const KEPT: [&str; 28] = [
    "source",
    "destinations",
    "input",
    "output",
    "dry_run",
    "include",
    "exclude",
    "overwrite_policy",
    "verify",
    "expect",
    "hard_links",
    "no_links",
    "specials",
    "no_space_check",
    "no_sync",
    "workers",
    "limit_rate",
    "max_duration",
    "stop_at",
    "wait",
    "require_mount",
    "require_durable",
    "report",
    "log",
    "progress",
    "quiet",
    "verbose",
    "on_end",
];

/// The command line of `dircopy restore`.
pub fn restore() -> Command {
    let copy = CopyArgs::command().name("restore").display_name("dircopy-restore");
    copy.about("Bring a copy back, proven against its manifest while it is copied")
        .long_about(None)
        .override_usage("dircopy restore [OPTIONS] <TREE> <DST>")
        .after_help(EXIT_CODES)
        .disable_version_flag(true)
        .mut_arg("source", |arg| {
            arg.value_name("TREE").help("The copy, generation or bag to bring back").long_help(None)
        })
        .mut_arg("destinations", |arg| {
            arg.value_name("DST").help("Where it goes, often what it was copied from")
        })
        .mut_arg("input", |arg| arg.help("The same as TREE").long_help(None))
        .mut_args(|arg| match KEPT.contains(&arg.get_id().as_str()) {
            true => arg,
            false => arg.hide(true),
        })
}

/// Refuses an option of copies that says nothing here.
pub fn refuse_others(matches: &ArgMatches) -> Result<(), String> {
    let mut given = matches.ids().map(clap::Id::as_str).filter(|id| {
        let is_given = matches.value_source(id) == Some(ValueSource::CommandLine);
        is_given
            && !KEPT.contains(id)
            && CopyArgs::command().get_arguments().any(|arg| arg.get_id() == id)
    });
    match given.next() {
        Some(id) => Err(format!("--{} is of copies, and says nothing here", id.replace('_', "-"))),
        None => Ok(()),
    }
}
