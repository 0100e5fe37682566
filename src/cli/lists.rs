//! `dircopy manifest merge` and `dircopy manifest diff`, from their arguments to their exit codes.

use std::{ffi::OsString, path::Path, path::PathBuf};

use clap::Parser;

use crate::{
    cli::args::values::VerbosityArgs, cli::cluster::plan::Follower, cli::covered::trees_of,
    cli::exit::Exit, cluster::MergeLists, cluster::MergedLists, hash::Algorithm, path::Shown,
    path::count, verify::DiffJob, verify::DiffReport, verify::Difference,
};

const MERGE_CODES: &str = "\
Exit codes:
  0    the new manifest has every name of all of them, once
  2    usage error, or refused: FILE exists, or digests are of two algorithms
  4    a name has two digests: each is named
  5    a line cannot be read or leads out of the tree, or there are none
  129, 130, 143
       ended by a signal

Unless it is 0 there is no new manifest.";

/// Merge manifests of one tree, or of parts of it, into one
///
/// All names must start at the same directory. A line that comes again is listed once, and the names are sorted. Lines
/// are accepted as `dircopy verify` accepts them, and written as the program of their algorithm writes them.
#[derive(Debug, Parser)]
#[command(name = "merge", after_help = MERGE_CODES)]
pub struct MergeArgs {
    /// Manifests of any program, of one algorithm
    #[arg(value_name = "MANIFEST", required = true)]
    pub inputs: Vec<PathBuf>,

    /// The new manifest; nothing is replaced
    #[arg(short, long, value_name = "FILE", required = true)]
    pub output: PathBuf,

    #[command(flatten)]
    pub verbosity: VerbosityArgs,
}

/// Merges manifests.
pub fn merge(args: &MergeArgs) -> Exit {
    let follower = Follower::new(&args.verbosity);
    let job = MergeLists { inputs: args.inputs.clone(), output: args.output.clone() };
    let ran = follower.run(|observer| job.run(observer));
    let merged = match ran {
        Ok(merged) => merged,
        Err(refused) => return follower.refused(&refused),
    };
    let MergedLists { names, repeated, contradicted, malformed, interrupted } = merged;
    let nothing = |why: &str| {
        follower.err(&format!("{why}: there is no new manifest"));
    };
    if let Some(code) = interrupted {
        nothing("interrupted");
        return Exit::of_stop(code);
    }
    if contradicted > 0 {
        nothing(&format!("{} two digests", has(contradicted, "name")));
        return Exit::Untrue;
    }
    if malformed > 0 {
        nothing(&format!("{} be read", cannot(malformed, "line")));
        return Exit::Unusable;
    }
    if names == 0 {
        nothing("the manifests list nothing");
        return Exit::Unusable;
    }
    let again = match repeated {
        0 => String::new(),
        repeated => format!(", {} more than once", count(repeated, "line")),
    };
    let output = Shown::path(&args.output);
    follower.say(&format!("merged {}{again}, into {output}", count(names, "name")));
    follower.exit(Exit::Complete)
}

fn has(number: u64, what: &str) -> String {
    format!("{} {}", count(number, what), if number == 1 { "has" } else { "have" })
}

fn cannot(number: u64, what: &str) -> String {
    format!("{} cannot", count(number, what))
}

const DIFF_CODES: &str = "\
Exit codes:
  0    every list has the same names with the same contents
  1    so it is, but the list of a directory may not be of what is there
  4    differences, or names without a digest that both have: each is named
  5    a line or a list cannot be read, or a name has two digests in one list
  129, 130, 143
       ended by a signal";

/// Hold lists against each other without their data
///
/// Each is held against the first, and every file that is missing, extra, changed or has another name is named. A LIST
/// is any that `dircopy verify` reads, also what `rclone lsjson -R --hash` prints, S3's answers in JSON and the reports
/// of its jobs that compute checksums; or a directory that has a manifest, as an output, a bag or a history has. So a
/// cloud proves its copy without a download (docs/guide/clouds.md).
#[derive(Debug, Parser)]
#[command(name = "diff", after_help = DIFF_CODES)]
pub struct DiffArgs {
    /// The lists; "-" is standard input
    #[arg(value_name = "LIST", required = true, num_args = 2..)]
    pub lists: Vec<PathBuf>,

    /// Take PREFIX off the names that begin with it
    #[arg(long, value_name = "PREFIX")]
    pub strip: Option<OsString>,

    /// Your private records are below DIR
    #[arg(long, value_name = "DIR")]
    pub state: Option<PathBuf>,

    #[command(flatten)]
    pub verbosity: VerbosityArgs,
}

/// Compares lists.
pub fn diff(args: &DiffArgs) -> Exit {
    let follower = Follower::new(&args.verbosity);
    let strip = args.strip.clone().unwrap_or_default().into_encoded_bytes();
    let newest = |list: &PathBuf| {
        let newest = trees_of(list, args.state.as_deref()).into_iter().next();
        let newest = newest.filter(|newest| newest != list);
        if let Some(newest) = &newest {
            let [list, newest] = [list, newest].map(|path| Shown::path(path));
            follower.say(&format!("{list}: by its newest generation, {newest}"));
        }
        newest.unwrap_or_else(|| list.clone())
    };
    let lists = args.lists.iter().map(newest).collect();
    let job = DiffJob { lists, strip, state: args.state.clone() };
    let tell = |list: &Path, path: &[u8], difference: Difference<'_>| {
        let what = match difference {
            Difference::Missing => "missing from",
            Difference::Extra => "only in",
            Difference::Changed => "changed in",
            Difference::Renamed(_) => "renamed in",
            Difference::Incomparable => "not comparable with",
        };
        let new = match difference {
            Difference::Renamed(new) => format!(" -> {}", Shown::bytes(new)),
            _ => String::new(),
        };
        let line = format!("{what} {}: {}{new}", Shown::path(list), Shown::bytes(path));
        follower.session.console.out(&line);
    };
    let report = match follower.run(|observer| job.run(observer, &tell)) {
        Ok(report) => report,
        Err(refused) => return follower.refused(&refused),
    };
    if let Some(exit) = follower.cut_short(None, report.interrupted, "not all was compared") {
        return exit;
    }
    follower.say(&summary(&report));
    follower.exit(match report {
        DiffReport { unusable: 1.., .. } => Exit::Unusable,
        report if report.is_different() => Exit::Untrue,
        DiffReport { doubtful: 1.., .. } => Exit::Incomplete,
        _ => Exit::Complete,
    })
}

fn summary(report: &DiffReport) -> String {
    let by: Vec<&str> = report.by.iter().map(Algorithm::shown).collect();
    let by = if by.is_empty() { String::new() } else { format!(" by {}", by.join(", ")) };
    let (names, same) = (count(report.names, "file"), report.same);
    let counts = [
        (report.missing, "missing"),
        (report.extra, "extra"),
        (report.changed, "changed"),
        (report.renamed, "renamed"),
        (report.incomparable, "not comparable"),
        (report.unusable, "not to be read"),
    ];
    let counts: Vec<String> = counts
        .into_iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, what)| format!("{count} {what}"))
        .collect();
    match counts.is_empty() {
        true => format!("equal: {names}{by}"),
        false if report.names == 0 => format!("nothing was compared: {}", counts.join(", ")),
        false => format!("different: {}; {same} of {names} the same{by}", counts.join(", ")),
    }
}
