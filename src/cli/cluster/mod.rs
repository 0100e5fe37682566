//! `dircopy plan`, `dircopy shard` and `dircopy finish`, from their arguments to their exit codes.

pub mod plan;

use std::{path::PathBuf, time::Duration};

use clap::{ArgMatches, Parser, value_parser};

use crate::{
    cli::args::copy::filter, cli::args::copy::parse_glob, cli::args::copy::patterns,
    cli::args::values::VerbosityArgs, cli::args::values::one_of, cli::habits::refuse_foreign,
    cli::jobs, cli::words, copy::CopyJob, io::Cache, io::CopyOptions, io::Holes, io::ReadBackWhich,
    io::Reflink, io::Sparse, tree::Policy, tree::Selection,
};

// The options of a copy by many machines: `dircopy plan`, `dircopy shard` and `dircopy finish`.

const PLAN_CODES: &str = "\
Exit codes:
  0    the plan is complete: every shard can be run
  1    … but for entries that could not be planned, which are named
  2    usage error, or refused: nothing was planned, as of an empty source
       (--allow-empty), and there is no shard to run
  3    the output or the plan's directory became unusable
  130, 143
       ended by a signal; remove the plan's directory and plan anew

With --status: 0 if the plan is finished and nothing is missing, else 1.";

const SHARD_CODES: &str = "\
Exit codes, and what an engine should make of them:
  0    the shard is done, or there was none left to claim
  1    files of it failed, were left by the plan's policy, or are away with
       their directories: try again a few times
  2    refused, for example because there is no such shard: never try again
  3    the output became unusable: try again a few times
  4    the disk did not hold a copy as it was written (a plan with --verify):
       never try again
  129, 130, 143
       ended by a signal: requeue

Shards are numbered from 0. SLURM_ARRAY_TASK_ID, PBS_ARRAY_INDEX and
JOB_COMPLETION_INDEX are taken as they are, so arrays begin with 0; SGE_TASK_ID,
which begins with 1, is taken less 1.";

const FINISH_CODES: &str = "\
Exit codes:
  0    everything that was planned is recorded as copied and durable, and listed
       in the manifest; links and directories are made. Files are not looked at
       once more: --rewalk holds them against the source by size and time, and
       `dircopy verify --shard` reads them
  1    shards are not done, or their records are not what was planned: each is
       named with its shard, and nothing is said to be finished; or the plan is
       finished but for what left the source meanwhile or could not be made,
       which is named: run it again once that is mended; or for what could not
       be planned: plan anew;
       with --rewalk also what is not as in the source now
  2    refused: the plan is not complete, a shard is at work, or something else
  3    the output became unusable
  130, 143
       ended by a signal; run it again";

/// What `dircopy plan -h` says.
pub const SHORT_PLAN: &str = "\
Plan a copy that many machines make together

Usage: dircopy plan [OPTIONS] <SRC> <DST> --plan <DIR>
       dircopy plan --status <DIR>           say how far the plan in DIR is

Options:
      --plan DIR                 Where the plan is made; every machine sees it
      --shard-bytes SIZE         Bytes of a shard (64G)
      --shard-files N            Files of a shard (200000)
      --include, --exclude GLOB  Plan only, or leave out, what matches
      --verify                   Read every file back from the disk
      --overwrite-policy POLICY  What differs: default, update, never, always
  -q, --quiet; -v, --verbose     Only say what is wrong; name every entry
  -h; --help                     This; all options and exit codes

Any engine then runs `dircopy shard --plan DIR` on each machine, and in the end
`dircopy finish --plan DIR` proves that everything that was planned was copied.

Exit code 0: the plan is complete, and every shard can be run.
";

/// What `dircopy shard -h` says.
pub const SHORT_SHARD: &str = "\
Run a shard of a plan, or one after the other

Usage: dircopy shard [OPTIONS] --plan <DIR>

Options:
      --plan DIR           The plan's directory
      --index N            Which shard, from 0; else the engine's variable says
      --claim              Take shards until none is left, those of dead workers
                           and, once more, failed ones among them
  -j, --workers N          Files that are copied side by side
      --limit-rate SIZE    Read no faster than so much a second: 50M
      --dead-after TIME    A worker that was silent for so long is dead (2m)
  -q, --quiet              Only say what is wrong
  -v, --verbose            Name every entry
  -h; --help               This; what each exit code asks of the engine

Exit code 0: the shard is done; 2 and 4: never try again; any other: try again.
";

/// What `dircopy finish -h` says.
pub const SHORT_FINISH: &str = "\
Prove that all shards of a plan are done, and leave one manifest

Usage: dircopy finish [OPTIONS] --plan <DIR>

Options:
      --plan DIR           The plan's directory
      --wait               Wait for shards that are at work
      --rewalk             Then name what came, changed or left since the plan
      --dead-after TIME    A worker that was silent for so long is dead (2m)
  -q, --quiet              Only say what is wrong
  -v, --verbose            Name every entry
  -h; --help               This; all options and exit codes

Exit code 0: everything that was planned is recorded as copied, and listed;
1: shards are missing, or not what was planned, and are named.
";

/// Plan a copy that many machines make together
///
/// The source is walked once. The directories are made at the output, and what is to be copied is listed in shards,
/// which any engine may run with `dircopy shard`; `dircopy finish` proves that all of them are done.
#[derive(Debug, Parser)]
#[command(name = "plan", after_help = PLAN_CODES)]
pub struct PlanArgs {
    /// Directory whose contents are copied
    #[arg(value_name = "SRC", required_unless_present_any = ["status", "input"])]
    pub source: Option<PathBuf>,

    /// Directory they go to
    #[arg(value_name = "DST", required_unless_present_any = ["status", "to"])]
    pub output: Option<PathBuf>,

    /// The same as SRC
    #[arg(short, long, value_name = "PATH", requires = "to", conflicts_with = "source")]
    pub input: Option<PathBuf>,

    /// The same as DST
    #[arg(
        id = "to",
        short = 'o',
        long = "output",
        value_name = "DIR",
        requires = "input",
        conflicts_with = "output"
    )]
    pub to: Option<PathBuf>,

    /// Directory of the plan, which is made; every machine must see it
    #[arg(long, value_name = "DIR", required_unless_present = "status")]
    pub plan: Option<PathBuf>,

    /// Say how far the plan in DIR is
    #[arg(long, value_name = "DIR", conflicts_with_all = ["source", "output", "input", "to", "plan"])]
    pub status: Option<PathBuf>,

    /// Bytes of a shard
    #[arg(long, value_name = "SIZE", default_value = "64G", value_parser = words::parse)]
    pub shard_bytes: u64,

    /// Files of a shard
    #[arg(long, value_name = "N", default_value_t = 200_000,
          value_parser = value_parser!(u64).range(1..))]
    pub shard_files: u64,

    /// Plan only what matches GLOB (as in .gitignore); repeatable
    #[arg(long, value_name = "GLOB", value_parser = parse_glob, help_heading = "What is copied")]
    pub include: Vec<String>,

    /// Leave out what matches GLOB (as in .gitignore); repeatable
    #[arg(long, value_name = "GLOB", value_parser = parse_glob, help_heading = "What is copied")]
    pub exclude: Vec<String>,

    /// Copy the targets of symbolic links instead of the links
    #[arg(long, help_heading = "What is copied")]
    pub follow_links: bool,

    /// Leave symbolic links out
    #[arg(long, conflicts_with = "follow_links", help_heading = "What is copied")]
    pub no_links: bool,

    /// Keep hard links: names of the same file become links to one copy
    #[arg(long, help_heading = "What is copied")]
    pub hard_links: bool,

    /// What happens to a file at the output that differs from the source
    #[arg(long, value_name = "POLICY", default_value = "default", value_parser = one_of::<Policy>(),
          help_heading = "Files at the output")]
    pub overwrite_policy: Policy,

    /// Do not check first that the output has room
    #[arg(long, help_heading = "Files at the output")]
    pub no_space_check: bool,

    /// Read every file back from the disk before it gets its name; with =new only what is written
    #[arg(long, value_name = "WHICH", num_args = 0..=1, require_equals = true, default_missing_value = "all",
          value_parser = one_of::<ReadBackWhich>(), help_heading = "Proof")]
    pub verify: Option<ReadBackWhich>,

    /// --verify, and read each file of the source twice: once its copy was read back, once more from its device
    #[arg(long, help_heading = "Proof")]
    pub verify_source: bool,

    /// Refuse a DST where a sync is not known to reach a device of this machine
    #[arg(long, conflicts_with = "no_sync", help_heading = "Proof")]
    pub require_durable: bool,

    /// Do not wait for the disk
    #[arg(long, help_heading = "Proof")]
    pub no_sync: bool,

    /// Share data with the source where the file system can
    #[arg(long, value_name = "WHEN", default_value = "auto", value_parser = one_of::<Reflink>(),
          help_heading = "Storage")]
    pub reflink: Reflink,

    /// What happens to holes and zeros
    #[arg(long, value_name = "HOW", default_value = "auto", value_parser = one_of::<Sparse>(),
          help_heading = "Storage")]
    pub sparse: Sparse,

    /// Whether what the source's file system calls a hole is read
    ///
    /// Data in it is copied, and the file named. Zeros stay holes either way.
    #[arg(long, value_name = "HOW", default_value = "auto", value_parser = one_of::<Holes>(),
          help_heading = "Proof")]
    pub holes: Holes,

    /// What happens to the copy's pages in the system's cache
    #[arg(long, value_name = "HOW", default_value = "drop", value_parser = one_of::<Cache>(),
          help_heading = "Storage")]
    pub cache: Cache,

    /// Keep private records below DIR instead of in DST/.dircopy
    #[arg(long, value_name = "DIR", help_heading = "Files at the output")]
    pub state: Option<PathBuf>,

    /// Plan an empty source too; without this it is refused, as its disk may not be mounted
    #[arg(long, help_heading = "What is copied")]
    pub allow_empty: bool,

    #[command(flatten)]
    pub verbosity: VerbosityArgs,
}

/// Run a shard of a plan, or one after the other
#[derive(Debug, Parser)]
#[command(name = "shard", after_help = SHARD_CODES)]
pub struct ShardArgs {
    /// Directory of the plan
    #[arg(long, value_name = "DIR")]
    pub plan: PathBuf,

    /// Which shard; without it the engine's variable says
    #[arg(long, value_name = "N", conflicts_with = "claim")]
    pub index: Option<u32>,

    /// Take shards until none is left: those not begun, then those whose worker died, then failed ones once more
    #[arg(long)]
    pub claim: bool,

    /// Files that are copied side by side
    #[arg(short = 'j', long, value_name = "N",
          value_parser = value_parser!(u64).range(1..=words::MOST_WORKERS))]
    pub workers: Option<u64>,

    /// Read the source no faster than SIZE a second
    #[arg(long, value_name = "SIZE", value_parser = words::parse_rate)]
    pub limit_rate: Option<u64>,

    /// A worker that was silent for so long is dead
    #[arg(long, value_name = "DURATION", default_value = "2m",
          value_parser = jobs::parse_duration)]
    pub dead_after: Duration,

    #[command(flatten)]
    pub verbosity: VerbosityArgs,
}

/// Prove that all shards of a plan are done, and leave one manifest
#[derive(Debug, Parser)]
#[command(name = "finish", after_help = FINISH_CODES)]
pub struct FinishArgs {
    /// Directory of the plan
    #[arg(long, value_name = "DIR")]
    pub plan: PathBuf,

    /// Wait for shards that are at work
    #[arg(long)]
    pub wait: bool,

    /// Then walk the source once more, and name what came, changed or left since the plan
    ///
    /// Entries of the source are held against the output by kind, size and time. Nothing is copied: a second plan onto
    /// the same output, with --overwrite-policy update, carries what is named. Also of a plan that is finished.
    #[arg(long)]
    pub rewalk: bool,

    /// A worker that was silent for so long is dead
    #[arg(long, value_name = "DURATION", default_value = "2m",
          value_parser = jobs::parse_duration)]
    pub dead_after: Duration,

    #[command(flatten)]
    pub verbosity: VerbosityArgs,
}

impl PlanArgs {
    /// The job that is planned; `None` if only the status is asked for.
    pub fn job(&self, matches: &ArgMatches) -> Result<Option<CopyJob>, String> {
        let (source, output) = (self.source.as_ref(), self.output.as_ref());
        let ends = source.or(self.input.as_ref()).zip(output.or(self.to.as_ref()));
        let Some((source, output)) = ends else { return Ok(None) };
        refuse_foreign([source, output])?;
        let source = words::located(source, "copy from").map_err(|error| error.to_string())?;
        let output = words::located(output, "copy to").map_err(|error| error.to_string())?;
        let selection = Selection {
            filter: filter(
                &patterns(matches, &self.include, &self.exclude),
                self.overwrite_policy,
            )?,
            follow_links: self.follow_links,
            links: !self.no_links,
            hard_links: self.hard_links,
            ..Selection::default()
        };
        let verifies = self.verify.is_some() || self.verify_source;
        let options = CopyOptions {
            selection,
            policy: self.overwrite_policy,
            check_space: !self.no_space_check,
            allow_empty: self.allow_empty,
            verify: verifies,
            verify_which: self.verify.unwrap_or_default(),
            verify_source: self.verify_source,
            require_durable: self.require_durable,
            sync: !self.no_sync,
            reflink: self.reflink,
            sparse: self.sparse,
            holes: self.holes,
            cache: self.cache,
            ..CopyOptions::default()
        };
        if verifies && self.no_sync {
            return Err("--verify needs copies that are on the disk: leave out --no-sync".into());
        }
        let state = self.state.clone();
        Ok(Some(CopyJob { options, state, ..CopyJob::new(source, output) }))
    }
}
