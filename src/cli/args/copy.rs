//! The options, their help, and how they become a job.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::error::ErrorKind;
use clap::{ArgMatches, CommandFactory, Parser, ValueEnum, value_parser};

use crate::cli::args::size;
use crate::cli::args::stream::StreamArgs;
use crate::cli::args::unattended::Unattended;
use crate::cli::args::verbosity::SayArgs;
use crate::cli::args::verify::{self, Simd};
use crate::copy::job::{BLOCK_SIZE, CopyJob, QUEUE_SIZE};
use crate::copy::run::outputs::MOST_OUTPUTS;
use crate::hash::Algorithm;
use crate::io::options;
use crate::io::options::{Damaged, Resume};
use crate::path::Shown;
use crate::sys;
use crate::tree::filter::{Filter, Pattern};
use crate::tree::overwrite::Policy;

/// More lanes than any machine gains from; a typing error is more likely.
pub const MOST_JOBS: u64 = 256;

/// More blocks than any device needs.
const MOST_BLOCKS: u64 = 65_536;

/// Memory for blocks beyond this is refused; bytes.
const MOST_MEMORY: u64 = 8 << 30;

const EXIT_CODES: &str = "\
Exit codes:
  0    everything asked for was done: every regular file of the source is at the
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
  6    stopped at the time that was set (--max-duration, --stop-at); what was finished
       is recorded, and the same command goes on
  129, 130, 143
       ended by SIGHUP, SIGINT or SIGTERM: temporary files are removed, what was
       finished is recorded
  141  of a stream: nothing is amiss but that a reader of it went away before the end

With several outputs it is the worst of theirs: a signal, 6, 4, 3, 1, 0; an output that
was refused counts as 1 if others were not.

The manifest OUTPUT/dircopy-<UTC time>.sha256sum is checked with
`dircopy verify OUTPUT`, or `sha256sum -c --strict` from inside OUTPUT.

A copy is a stream where an input or output is \"-\", an input is a FIFO or a device,
several inputs are given, or a file goes where something other than a directory is; every
output is then a file or \"-\", and gets all inputs one after the other. Otherwise the
output is a directory, also a new one, and a single file goes into it under its own name.";

const CHECK_EXIT_CODES: &str = "\
Exit codes:
  0    nothing is in the way
  1    something is: no such source, no place for the output or the report …
  2    the job cannot be found or read, or something in it is wrong

What is in the tree is not looked at: `dircopy --job NAME --dry-run` tells what would
become of every file.";

const USAGE: &str = "\
dircopy [OPTIONS] --input <PATH> --output <DIR>
       dircopy [OPTIONS] --job <NAME|FILE>
       dircopy verify [OPTIONS] [DIR]...
       dircopy jobs check <NAME|FILE>";

/// Copy a directory tree in one pass and leave a proven copy with a SHA-256 manifest.
#[derive(Debug, Parser)]
#[command(name = "dircopy", version, max_term_width = 100, after_help = EXIT_CODES)]
pub struct Args {
    /// The directory whose contents are copied, or a file; of a stream, a file, a FIFO, a device or -,
    /// repeatable
    #[arg(short, long, value_name = "PATH", required_unless_present = "job")]
    pub input: Vec<PathBuf>,

    /// The directory they go to; made if only its last component is missing. Repeatable: the source is
    /// read once for all outputs, and each is complete by itself. Of a stream, a file or -
    #[arg(short, long, value_name = "DIR", required_unless_present = "job")]
    pub output: Vec<PathBuf>,

    /// Take the options of a job: NAME.toml where jobs are kept, or the file at a path (docs/guide/scheduled.md).
    /// Options beside it win over the file's
    #[arg(long, value_name = "NAME|FILE")]
    pub job: Option<OsString>,

    /// What happens to files that are at the output already and differ
    #[arg(long, value_enum, value_name = "POLICY", default_value_t = OverwritePolicy::Default)]
    pub overwrite_policy: OverwritePolicy,

    /// Copy only what matches GLOB (as in .gitignore); repeatable, the last option that matches wins
    #[arg(long, value_name = "GLOB", value_parser = parse_glob)]
    pub include: Vec<String>,

    /// Leave out what matches GLOB (as in .gitignore); repeatable, the last option that matches wins
    #[arg(long, value_name = "GLOB", value_parser = parse_glob)]
    pub exclude: Vec<String>,

    /// Copy what symbolic links point to instead of the links
    #[arg(long)]
    pub follow_links: bool,

    /// Make names of the same file links to one copy; without this each becomes a file of its own
    #[arg(long)]
    pub hard_links: bool,

    /// Only tell what would happen
    #[arg(long)]
    pub dry_run: bool,

    /// What is computed over every byte; "none" copies without digests and without a manifest
    #[arg(long, value_enum, value_name = "ALGORITHM", default_value_t = Hash::Sha256)]
    pub hash: Hash,

    /// Whether copies share their data with the source, where the file system can do that (xfs,
    /// btrfs)
    #[arg(long, value_enum, value_name = "WHEN", default_value_t = Reflink::Auto)]
    pub reflink: Reflink,

    /// What becomes of holes and zeros
    #[arg(long, value_enum, value_name = "HOW", default_value_t = Sparse::Auto)]
    pub sparse: Sparse,

    /// What becomes of the copy's pages in the system's cache
    #[arg(long, value_enum, value_name = "HOW", default_value_t = Cache::Drop)]
    pub cache: Cache,

    /// Do not wait for the disk: faster for small files, but after a power cut soon after the run,
    /// files that are listed may be incomplete, empty or missing
    #[arg(long)]
    pub no_sync: bool,

    /// What becomes of the beginning of a file over 256 MiB that a killed run left half-copied
    #[arg(long, value_enum, value_name = "HOW", default_value_t = ResumeHow::Auto)]
    pub resume: ResumeHow,

    /// For tests: the most of a large file that is read again after a kill
    #[arg(long, hide = true, value_name = "SIZE", value_parser = size::parse_block)]
    pub checkpoint: Option<usize>,

    /// Do not look first whether the output has room for everything: copy as much as fits
    #[arg(long)]
    pub no_space_check: bool,

    /// Read every file back from the disk before it gets its name, and files that are there already
    /// too; one that is not as it was written is copied once more, and exit code 4 says if that fails
    #[arg(long)]
    pub verify: bool,

    /// What happens to a copy that the disk does not hold as it was written
    #[arg(long, value_enum, value_name = "WHAT", default_value_t = VerifyFailed::Remove,
          requires = "verify")]
    pub verify_failed: VerifyFailed,

    /// Hold the source against an earlier manifest of it (of any program) while it is read: every file that
    /// is listed is read, and one that has another digest, although nothing says that it was edited, has
    /// rotted: it is not copied, what is at the output stays, and the exit code is 4
    #[arg(long, value_name = "MANIFEST", conflicts_with = "dry_run")]
    pub expect: Option<PathBuf>,

    /// Lanes that copy side by side [default: one for each core, up to 8 for small
    /// files; one on a disk that turns]
    #[arg(short, long, value_name = "N", value_parser = value_parser!(u64).range(1..=MOST_JOBS))]
    pub jobs: Option<u64>,

    /// Blocks that a lane has on their way between reader, hasher and writer
    #[arg(long, value_name = "N", default_value_t = QUEUE_SIZE as u64,
          value_parser = value_parser!(u64).range(1..=MOST_BLOCKS))]
    pub queue_size: u64,

    /// Size of a block: 4096, 128K, 1MiB …; memory is jobs × queue size × this [default: 256K]
    #[arg(long, value_name = "SIZE", value_parser = size::parse_block)]
    pub block_size: Option<usize>,

    /// With several outputs: how far the slower ones may be behind, in memory; beyond, they copy what
    /// they miss from an output that has it
    #[arg(long, value_name = "SIZE", default_value = "32M", value_parser = size::parse_block)]
    pub lag: usize,

    /// Whether several small files are hashed at a time in the processor's vector registers; auto is where
    /// that gains something
    #[arg(long, value_enum, value_name = "WHEN", default_value_t = Simd::Auto)]
    pub simd: Simd,

    #[command(flatten)]
    pub say: SayArgs,

    #[command(flatten)]
    pub unattended: Unattended,

    #[command(flatten)]
    pub stream: StreamArgs,
}

/// See [`Policy`].
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum OverwritePolicy {
    /// Replace cut-off copies only; leave everything else that differs, and exit with 1
    Default,
    /// Also replace what is older than the source
    Update,
    /// Replace nothing
    Never,
    /// Replace everything
    Always,
}

/// See [`Resume`].
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum ResumeHow {
    /// Go on where it was made durable
    Auto,
    /// Read and check first what is there
    Verify,
    /// Begin anew, and keep nothing for a later run
    Off,
}

/// See [`Algorithm`].
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum Hash {
    /// SHA-256
    Sha256,
    /// Nothing
    None,
}

/// See [`Damaged`].
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum VerifyFailed {
    /// Remove it
    Remove,
    /// Keep it beside where it was to go, as NAME.dircopy-damaged
    Keep,
}

/// See [`options::Reflink`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Reflink {
    /// Where it can be done and gains something
    Auto,
    /// A file that cannot be cloned is an error
    Always,
    /// The copy gets blocks of its own
    Never,
}

/// See [`options::Sparse`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Sparse {
    /// Holes of the source are holes of the copy
    Auto,
    /// Holes are written as zeros
    Never,
    /// Zeros (aligned, from 4 KiB on) become holes too
    Always,
}

/// See [`options::Cache`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Cache {
    /// What the copy brought in is let go of, what was there before stays
    Drop,
    /// Left to the system
    Keep,
}

/// When something is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum When {
    /// When it is of use
    Auto,
    /// Always
    Always,
    /// Never
    Never,
}

/// The definition of the command line, for those who make documents from it.
pub fn command() -> clap::Command {
    let verify = verify::command().name("verify").display_name("dircopy-verify");
    let name = clap::Arg::new("name").value_name("NAME|FILE").required(true);
    let check = clap::Command::new("check")
        .display_name("dircopy-jobs-check")
        .about("Tell what a job would run and what is in its way, and touch nothing")
        .arg(name.value_parser(value_parser!(OsString)).help("As with --job"))
        .after_help(CHECK_EXIT_CODES);
    let jobs = clap::Command::new("jobs")
        .display_name("dircopy-jobs")
        .about("Look at jobs that are kept in files")
        .subcommand(check)
        .subcommand_required(true)
        .disable_help_subcommand(true);
    Args::command()
        .subcommand(verify)
        .subcommand(jobs)
        .subcommand_negates_reqs(true)
        .args_conflicts_with_subcommands(true)
        .disable_help_subcommand(true)
        .override_usage(USAGE)
}

/// The arguments, unless one shows that the command line was not cut where it was meant to be.
pub fn whole(
    args: impl IntoIterator<Item = OsString>,
    command: &mut clap::Command,
) -> Result<Vec<OsString>, clap::Error> {
    let args: Vec<OsString> = args.into_iter().collect();
    match args.iter().skip(1).find(|arg| sys::swallowed_quote(arg)) {
        None => Ok(args),
        Some(arg) => Err(command.error(
            ErrorKind::ValueValidation,
            format!(
                "this argument has a quotation mark in it: {}\n\n\
                 On the command line \\\" stands for the mark itself, so a quoted path must not end \
                 with a backslash: write \"C:\\photos\" or \"C:\\photos\\\\\" instead of \
                 \"C:\\photos\\\"",
                Shown::bytes(arg.as_encoded_bytes())
            ),
        )),
    }
}

/// A job for each output.
pub fn jobs(args: &Args, matches: &ArgMatches) -> Result<Vec<CopyJob>, String> {
    let job = job(args, matches)?;
    if args.output.len() > MOST_OUTPUTS {
        return Err(format!("there can be {MOST_OUTPUTS} outputs"));
    }
    let to = |output: &PathBuf| CopyJob { output: output.clone(), ..job.clone() };
    Ok(args.output.iter().map(to).collect())
}

fn job(args: &Args, matches: &ArgMatches) -> Result<CopyJob, String> {
    let input = args.input.first().ok_or("an input is needed")?;
    let mut job = CopyJob::new(input, PathBuf::new());
    job.policy = match args.overwrite_policy {
        OverwritePolicy::Default => Policy::Default,
        OverwritePolicy::Update => Policy::Update,
        OverwritePolicy::Never => Policy::Never,
        OverwritePolicy::Always => Policy::Always,
    };
    job.algorithm = match args.hash {
        Hash::Sha256 => Algorithm::Sha256,
        Hash::None => Algorithm::None,
    };
    job.backend = args.simd.backend();
    job.filter = Filter::new(&patterns(args, matches))?;
    job.follow_links = args.follow_links;
    job.hard_links = args.hard_links;
    job.sync = !args.no_sync;
    job.check_space = !args.no_space_check;
    job.resume = match args.resume {
        ResumeHow::Auto => Resume::Auto,
        ResumeHow::Verify => Resume::Verify,
        ResumeHow::Off => Resume::Off,
    };
    if let Some(checkpoint) = args.checkpoint {
        job.checkpoint = checkpoint as u64;
    }
    job.verify = args.verify.then_some(match args.verify_failed {
        VerifyFailed::Remove => Damaged::Remove,
        VerifyFailed::Keep => Damaged::Keep,
    });
    job.expect.clone_from(&args.expect);
    job.reflink = match args.reflink {
        Reflink::Auto => options::Reflink::Auto,
        Reflink::Always => options::Reflink::Always,
        Reflink::Never => options::Reflink::Never,
    };
    job.sparse = match args.sparse {
        Sparse::Auto => options::Sparse::Auto,
        Sparse::Never => options::Sparse::Never,
        Sparse::Always => options::Sparse::Always,
    };
    job.cache = match args.cache {
        Cache::Drop => options::Cache::Drop,
        Cache::Keep => options::Cache::Keep,
    };
    if args.reflink == Reflink::Always && args.sparse != Sparse::Auto {
        return Err(
            "--reflink always goes with --sparse auto only: a clone has the holes that its \
                    source has"
                .into(),
        );
    }
    job.dry_run = args.dry_run;
    if args.dry_run && args.unattended.records.metrics.is_some() {
        return Err("--metrics would tell of a copy that --dry-run does not make".into());
    }
    args.unattended.apply(&mut job);
    job.workers = args.jobs.map(|jobs| jobs as usize);
    job.queue_size = args.queue_size as usize;
    job.block_size = args.block_size.unwrap_or(BLOCK_SIZE);
    let memory = job.most_memory().saturating_add(args.lag as u64);
    if memory > MOST_MEMORY {
        return Err(format!(
            "{} jobs with {} blocks of {} bytes, and what --lag adds, would take {} of memory; make one of them smaller",
            job.most_workers(),
            job.queue_size,
            job.block_size,
            humansize::format_size(memory, humansize::BINARY)
        ));
    }
    Ok(job)
}

/// Refuses a glob that is none, where it stands.
fn parse_glob(text: &str) -> Result<String, String> {
    Filter::new(&[Pattern::Exclude(text.to_owned())]).map(|_| text.to_owned())
}

/// Includes and excludes in the order they were given in.
fn patterns(args: &Args, matches: &ArgMatches) -> Vec<Pattern> {
    let indices = |id| matches.indices_of(id).into_iter().flatten();
    let includes = indices("include").zip(args.include.iter().cloned().map(Pattern::Include));
    let excludes = indices("exclude").zip(args.exclude.iter().cloned().map(Pattern::Exclude));
    let mut patterns: Vec<(usize, Pattern)> = includes.chain(excludes).collect();
    patterns.sort_by_key(|(index, _)| *index);
    patterns.into_iter().map(|(_, pattern)| pattern).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::invocation::{Asked, Wrong, parse};
    use crate::tree::filter::Inclusion::{self, In, Out};

    fn parse_words(words: &str) -> Result<(Args, CopyJob), clap::Error> {
        let words = format!("dircopy -i a -o b {words}");
        match parse(words.split_whitespace().map(OsString::from)) {
            Ok(Asked::Copy(mut copy, None)) => Ok((copy.args, copy.jobs.remove(0))),
            Err(Wrong::Typed(error)) => Err(error),
            other => panic!("{words} is no copy: {other:?}"),
        }
    }

    fn verdicts<const N: usize>(words: &str, names: [&str; N]) -> [Inclusion; N] {
        let (_, job) = parse_words(words).unwrap();
        names.map(|name| job.filter.judge(name.as_ref(), false, job.filter.root()))
    }

    #[test]
    fn the_definition_is_sound() {
        command().debug_assert();
    }

    #[test]
    fn filters_keep_their_order() {
        let words = "--exclude x --include y --exclude z --include w";
        assert_eq!(verdicts(words, ["x", "y", "z", "w", "v"]), [Out, In, Out, In, Out]);
        assert_eq!(verdicts("--include x --exclude x", ["x"]), [Out]);
        assert_eq!(verdicts("--exclude x --include x", ["x"]), [In]);
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        for words in [
            "--block-size 0",
            "--block-size -1",
            "--block-size banana",
            "--block-size 1000000T",
            "--jobs 0",
            "--jobs 100000",
            "--queue-size 0",
            "--queue-size -3",
            "--overwrite-policy sometimes",
            "--hash md5",
            "--resume maybe",
            "--block-size 1GiB --queue-size 1000",
            "--exclude a[",
            "-q -v",
            "--reflink always --sparse never",
            "--reflink always --sparse always",
            "--reflink sometimes",
            "--sparse 1",
            "--cache",
            "--dry-run --metrics m",
            "--limit-rate 0",
            "--limit-rate fast",
            "--max-duration 8",
            "--log-format xml",
            "--lag much",
            "--lag 9G",
            "--no-such-option",
            "stray",
        ] {
            let error = parse_words(words).expect_err(words);
            assert_eq!(error.exit_code(), 2, "{words}");
        }
        let nothing = parse(["dircopy".into()]);
        assert!(matches!(nothing, Err(Wrong::Typed(error)) if error.exit_code() == 2));
    }
}
