//! The options of `dircopy verify` and `dirverify`, and how they become a job.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{CommandFactory, FromArgMatches, Parser, ValueEnum, value_parser};

use crate::cli::args::copy::{MOST_JOBS, whole};
use crate::cli::args::size;
use crate::cli::args::unattended::RecordArgs;
use crate::cli::args::verbosity::SayArgs;
use crate::cli::schedule;
use crate::hash::multibuffer::Backend;
use crate::verify::check::ReadFrom;
use crate::verify::{Budget, ManifestAt, ReadOrder, VerifyJob};

const EXIT_CODES: &str = "\
Exit codes; of several that fit, the first of this list:
  129, 130, 143
       ended by SIGHUP, SIGINT or SIGTERM
  2    usage error; or, in portions, another run is at work on the directory
  4    a listed file is missing, is not a regular file or differs, or a name is
       listed with two digests; with --complete also: a file is not listed
  5    there is no manifest, it cannot be read, lists nothing, has malformed lines
       or names that lead out of the directory; all other lines were checked
  1    a file or directory could not be read, or not everything could be said
  0    every listed file was read and has the listed digest; in a portion
       (--budget, --max-bytes), every one of that

Only regular files below the root are opened; symbolic links are not followed.
Lines are accepted as sha256sum (also --tag), shasum and openssl write them, with
LF or CRLF, in UTF-8 or UTF-16.";

/// Check directories against their SHA-256 manifests, reading from the disk rather than from memory.
#[derive(Debug, Parser)]
#[command(name = "dirverify", version, max_term_width = 100, after_help = EXIT_CODES)]
pub struct VerifyArgs {
    /// Directories to check against the newest finished manifest of dircopy in each, or against each
    /// --manifest [default: the current one]
    #[arg(value_name = "DIR")]
    pub dirs: Vec<PathBuf>,

    /// A manifest of any program, in any place; "-" is standard input; repeatable. Without DIR and
    /// --root its names start at the directory it is in
    #[arg(short, long, value_name = "FILE")]
    pub manifest: Vec<PathBuf>,

    /// Where the names start [default: DIR]
    #[arg(long, value_name = "DIR")]
    pub root: Option<PathBuf>,

    /// Also name the regular files below the root that are not listed
    #[arg(long)]
    pub complete: bool,

    /// Where there is no file of a listed name, take "\" in it for "/"
    #[arg(long)]
    pub convert_paths: bool,

    /// Write the paths of listed files that did not pass to FILE, one on each line, "\", LF and CR in
    /// them written as \\, \n and \r
    #[arg(long, value_name = "FILE")]
    pub list_failed: Option<PathBuf>,

    /// End the paths in that file with NUL and write them as they are
    #[arg(short = '0', long, requires = "list_failed")]
    pub null: bool,

    /// Where the bytes must come from
    #[arg(long, value_enum, value_name = "WHERE", default_value_t = Origin::Medium)]
    pub from: Origin,

    /// Check what was not verified for the longest time, and begin no more files after this time (45m, 2h);
    /// what was verified is kept in DIR/dircopy.verified
    #[arg(long, value_name = "DURATION", value_parser = schedule::parse_duration,
          conflicts_with_all = ["complete", "convert_paths"])]
    pub budget: Option<Duration>,

    /// The same, and read no more than SIZE (500G, 2TiB); one file is always read
    #[arg(long, value_name = "SIZE", value_parser = size::parse,
          conflicts_with_all = ["complete", "convert_paths"])]
    pub max_bytes: Option<u64>,

    /// With --budget or --max-bytes: if another run is at work on the directory, wait until it ends instead
    /// of refusing
    #[arg(long)]
    pub wait: bool,

    /// Files that are read side by side [default: 8; 1 on a disk that turns; from the cache one for
    /// each core, at most 8]
    #[arg(short, long, value_name = "N", value_parser = value_parser!(u64).range(1..=MOST_JOBS))]
    pub jobs: Option<u64>,

    /// Whether several files are hashed at a time in the processor's vector registers; auto is where
    /// that gains something
    #[arg(long, value_enum, value_name = "WHEN", default_value_t = Simd::Auto)]
    pub simd: Simd,

    /// For tests: the order in which files are read
    #[arg(long, hide = true, value_enum, value_name = "ORDER")]
    pub order: Option<Reading>,

    #[command(flatten)]
    pub say: SayArgs,

    #[command(flatten)]
    pub records: RecordArgs,
}

/// See [`ReadFrom`].
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum Origin {
    /// From the disk, around the system's cache, wherever that can be had
    Medium,
    /// From the cache where it has them, which is faster and does not prove what is on the disk
    Cache,
}

/// See [`Backend`].
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum Simd {
    /// Where it gains something
    Auto,
    /// File by file
    Off,
    /// Wherever the processor has such registers (AVX2, AVX-512)
    On,
}

/// See [`ReadOrder`].
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum Reading {
    /// Large ones first
    LargeFirst,
    /// As they lie on the disk
    AsOnDisk,
}

impl Simd {
    /// What that is on this processor.
    pub fn backend(self) -> Backend {
        match self {
            Simd::Auto => Backend::best(),
            Simd::Off => Backend::One,
            Simd::On => Backend::widest(),
        }
    }
}

/// The definition of `dirverify`'s command line.
pub fn command() -> clap::Command {
    VerifyArgs::command()
}

/// Reads `dirverify`'s command line.
pub fn parse(args: impl IntoIterator<Item = OsString>) -> Result<VerifyArgs, clap::Error> {
    let mut command = command();
    let args = whole(args, &mut command)?;
    VerifyArgs::from_arg_matches(&command.try_get_matches_from(args)?)
}

impl VerifyArgs {
    /// The job.
    pub fn job(&self) -> VerifyJob {
        let at = |path: &PathBuf| match path.as_os_str() == "-" {
            true => ManifestAt::StandardInput,
            false => ManifestAt::File(path.clone()),
        };
        let mut job = VerifyJob::new(&self.dirs);
        job.manifests = self.manifest.iter().map(at).collect();
        job.root.clone_from(&self.root);
        job.complete = self.complete;
        job.convert_paths = self.convert_paths;
        job.from = match self.from {
            Origin::Medium => ReadFrom::Medium,
            Origin::Cache => ReadFrom::Cache,
        };
        job.backend = self.simd.backend();
        let (time, bytes) = (self.budget, self.max_bytes);
        job.budget = (time.is_some() || bytes.is_some()).then_some(Budget { time, bytes });
        job.wait = self.wait;
        job.order = self.order.map(|order| match order {
            Reading::LargeFirst => ReadOrder::LargeFirst,
            Reading::AsOnDisk => ReadOrder::AsOnDisk,
        });
        job.jobs = self.jobs.map(|jobs| jobs as usize);
        job
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_definition_is_sound() {
        command().debug_assert();
    }
}
