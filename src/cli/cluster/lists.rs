//! `dircopy manifest merge`, from its arguments to its exit code.

use std::path::PathBuf;

use clap::Parser;

use crate::cli::args::verbosity::VerbosityArgs;
use crate::cli::cluster::follow::Follower;
use crate::cli::exit::Exit;
use crate::cli::show::line::count;
use crate::cluster::lists::merge::{MergeLists, MergedLists};
use crate::path::Shown;

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
    follower.rest();
    let merged = match ran {
        Ok(merged) => merged,
        Err(refused) => return follower.refused(&refused),
    };
    let MergedLists { names, repeated, contradicted, malformed, interrupted } = merged;
    let nothing = |why: &str| {
        follower.console.err(&format!("dircopy: {why}: there is no new manifest"));
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
