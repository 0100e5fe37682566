//! The options of `dircopy verify` and `dirverify`, and how they become a job.

use std::{path::PathBuf, time::Duration};

use clap::{Parser, value_parser};
use jiff::{Timestamp, civil::Date, tz::TimeZone};

use crate::verify::{Budget, ManifestAt, MergeJob, ReadFrom, ReadOrder, VerifyJob};
use crate::{
    cli::args::mirror::parse_age, cli::args::unattended::RecordArgs,
    cli::args::values::VerbosityArgs, cli::args::values::one_of,
    cli::cluster::plan::CheckShardArgs, cli::jobs, cli::words, hash::Backend, heal::HealJob,
    heal::ProtectJob, span::SpanCheck,
};

const VERIFY_EXIT_CODES: &str = "\
Exit codes; of several that fit, the first of this list:
  129, 130, 143
       ended by SIGHUP, SIGINT or SIGTERM
  2    usage error; or, a scrub, and another run is at work on the directory
  4    a listed file is missing, is not a regular file or differs, or a name is
       listed with two digests; with --complete also: a file is not listed
  5    there is no manifest, it cannot be read, lists nothing, has malformed
       lines or names that lead out of the directory; all others were checked
  1    a file or directory could not be read, or not everything could be said;
       with --merge also: results are missing, torn, doubled or of another check
  7    with --span: what is here is good, and a disk that was named is not here
  0    every listed file was read and has the listed digest; of a scrub
       (--budget, --max-bytes, --not-since), every file of this pass; with
       --shard, every file of the shard

Only regular files below the root are opened; symbolic links are not followed.
Lines are accepted as sha256sum (also --tag), shasum and openssl write them,
with LF or CRLF, in UTF-8 or UTF-16. BagIt bags, histories of ASC MHL and legacy
Media Hash Lists are known by their content.";

/// Check directories against their SHA-256 manifests, reading from the disk
#[derive(Clone, Debug, Parser)]
#[command(name = "dirverify", version, max_term_width = 100, after_help = VERIFY_EXIT_CODES)]
pub struct VerifyArgs {
    /// Directories to check [default: the current one]
    ///
    /// Each is checked against the manifest of dircopy in it that your last run finished, or else the one
    /// with the latest name; or against each --manifest. Of a directory that has generations and no manifest, all
    /// generations are checked. Data that files share is read once.
    #[arg(value_name = "DIR")]
    pub dirs: Vec<PathBuf>,

    /// Manifest of any program, in any place; "-" is standard input; repeatable
    ///
    /// Without DIR and --root its names start at the directory it is in.
    #[arg(short, long, value_name = "FILE", help_heading = "What is checked")]
    pub manifest: Vec<PathBuf>,

    /// Where the names start [default: DIR]
    #[arg(long, value_name = "DIR", help_heading = "What is checked")]
    pub root: Option<PathBuf>,

    /// Also name the regular files below the root that are not listed
    #[arg(long, help_heading = "What is checked")]
    pub complete: bool,

    /// The directories are disks of a span: say too what is on disks that are not here
    ///
    /// The newest index is held against what the disks list that are here; -v names each file of the others. Of LABEL=
    /// and UUID= that are not here each may be checked by itself later (exit code 7).
    #[arg(long, requires = "dirs", conflicts_with_all = ["manifest", "root", "budget", "max_bytes", "not_since", "shard",
          "merge"], help_heading = "What is checked")]
    pub span: bool,

    /// Where there is no file of a listed name, take "\" in it for "/"
    #[arg(long, help_heading = "What is checked")]
    pub convert_paths: bool,

    /// Write the paths of listed files that did not pass to FILE
    ///
    /// One on each line; "\", LF and CR in them are written as \\, \n and \r. If FILE ends in .json or .jsonl, each
    /// line is an object with the path, the verdict and, where they are known, the ranges that differ.
    #[arg(long, value_name = "FILE", help_heading = "What becomes of bad files")]
    pub list_failed: Option<PathBuf>,

    /// End the paths in that file with NUL and write them as they are
    #[arg(short = '0', long, requires = "list_failed", help_heading = "What becomes of bad files")]
    pub null: bool,

    /// Make states of large files that are good and have none, beside the manifest
    ///
    /// With them later checks use all cores for one file, name the damaged MiB, and `dircopy heal` mends by the MiB.
    /// A copy makes them by itself.
    #[arg(long, help_heading = "What is checked")]
    pub write_states: bool,

    /// Where the bytes must come from
    #[arg(long, value_name = "WHERE", default_value = "medium", value_parser = one_of::<ReadFrom>(),
          help_heading = "Speed and memory")]
    pub from: ReadFrom,

    /// Scrub: read what was not verified for the longest time, for this time (45m, 2h)
    ///
    /// When it is over no more files are begun, and those in hand have --grace. What was verified is kept in
    /// DIR/dircopy.verified.
    #[arg(long, value_name = "DURATION", value_parser = jobs::parse_duration,
          conflicts_with_all = ["complete", "convert_paths"], help_heading = "Scrubs")]
    pub budget: Option<Duration>,

    /// The same, and read no more than SIZE (500G, 2TiB); one file is always read
    #[arg(long, value_name = "SIZE", value_parser = words::parse,
          conflicts_with_all = ["complete", "convert_paths"], help_heading = "Scrubs")]
    pub max_bytes: Option<u64>,

    /// Read only files that no such check found good since then: 90d, 12w, or a day such as 2026-08-01
    ///
    /// It goes by the same record as --budget, with which it may be combined, and adds to it. What is left out is
    /// counted. Files that were bad, or were never read by such a check, are always read.
    #[arg(long, value_name = "WHEN", value_parser = parse_since,
          conflicts_with_all = ["complete", "convert_paths"], help_heading = "Scrubs")]
    pub not_since: Option<u32>,

    /// How long files in hand may take after --budget; then they are given up
    #[arg(long, value_name = "DURATION", value_parser = jobs::parse_duration, default_value = "1m",
          requires = "budget", help_heading = "Scrubs")]
    pub grace: Duration,

    /// With --budget, --max-bytes or --not-since: wait for another run on the directory instead of refusing
    #[arg(long, help_heading = "Scrubs")]
    pub wait: bool,

    /// Your private records are below DIR instead of in .dircopy, also what was verified
    #[arg(long, value_name = "DIR", help_heading = "What is checked")]
    pub state: Option<PathBuf>,

    #[command(flatten)]
    pub shards: CheckShardArgs,

    #[command(flatten)]
    pub effort: CheckEffort,

    /// For tests: the order in which files are read
    #[arg(long, hide = true, value_name = "ORDER", value_parser = one_of::<ReadOrder>())]
    pub order: Option<ReadOrder>,

    #[command(flatten)]
    pub verbosity: VerbosityArgs,

    #[command(flatten)]
    pub records: RecordArgs,
}

/// How much a check does at a time.
#[derive(Clone, Copy, Debug, clap::Args)]
pub struct CheckEffort {
    /// Files that are read side by side
    ///
    /// By default 8, and 1 on a disk that turns; from the cache one for each core, at most 8.
    #[arg(short = 'j', long, alias = "jobs", value_name = "N", help_heading = "Speed and memory",
          value_parser = value_parser!(u64).range(1..=words::MOST_WORKERS))]
    pub workers: Option<u64>,

    /// Hash several files at a time in vector registers
    #[arg(long, value_name = "WHEN", default_value = "auto", value_parser = one_of::<Backend>(),
          hide_long_help = true, help_heading = "Speed and memory")]
    pub simd: Backend,
}

impl CheckEffort {
    /// Tells the check.
    pub fn tell(self, job: &mut VerifyJob) {
        job.backend = self.simd;
        job.jobs = self.workers.map(|workers| workers as usize);
    }
}

/// Reads an age, as of generations, or the beginning of a day in UTC; in seconds since 1970.
pub fn parse_since(text: &str) -> Result<u32, String> {
    let expected = |_| "expected an age such as 90d or 12w, or a day such as 2026-08-01".to_owned();
    let now = Timestamp::now();
    let since = match text.parse::<Date>() {
        Ok(day) => day.to_zoned(TimeZone::UTC).map(|day| day.timestamp()),
        Err(_) => now.checked_sub(parse_age(text).map_err(expected)?),
    };
    let since = since.map_err(|error| error.to_string())?;
    if since > now {
        return Err("that day is still to come".into());
    }
    // Nothing was verified before 1970.
    Ok(u32::try_from(since.as_second()).unwrap_or(0))
}

impl VerifyArgs {
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
        job.from = self.from;
        self.effort.tell(&mut job);
        let (time, bytes, not_since) = (self.budget, self.max_bytes, self.not_since);
        let is_part = time.is_some() || bytes.is_some() || not_since.is_some();
        let grace = Some(self.grace);
        job.budget = is_part.then_some(Budget { time, bytes, grace, not_since });
        job.wait = self.wait;
        job.write_states = self.write_states;
        job.state.clone_from(&self.state);
        job.order = self.order;
        job.shard = self.shards.shard();
        job
    }

    /// The look at the index of a span, if that is asked for.
    pub fn span_check(&self) -> Option<SpanCheck> {
        self.span.then(|| SpanCheck {
            disks: self.dirs.clone(),
            state: self.state.clone(),
            before: Vec::new(),
        })
    }

    /// The merging of results, if that is asked for.
    pub fn merge_job(&self) -> Option<MergeJob> {
        let results = self.shards.merge.clone()?;
        Some(MergeJob { check: self.job(), results })
    }
}

// The options of `dircopy heal`, and how they become a job.

const HEAL_EXIT_CODES: &str = "\
Exit codes; of several that fit, the first of this list:
  129, 130, 143
       ended by SIGHUP, SIGINT or SIGTERM: each file is what it was, or whole
  2    usage error, or another run is at work on a tree; nothing was touched
  4    a listed file still differs or is missing: no tree has it good, something
       else has its name, or it could not be written; or a name is listed with
       different digests. With --dry-run also if it could be healed
  5    a tree has no manifest, or a malformed one
  1    a listed file can still not be opened or read (with --dry-run also if it
       could be healed), a manifest could not be read to its end, or not all
       messages and records could be written. What a tree of --from-tree cannot
       give is told and changes no code
  0    every file of every tree is as it is listed, now

A bad file is never written to. Its good chunks, and the missing ones from
other trees, each proven by its SHA-256 states before it is written, make a file
beside it. That is synced, read back, compared with the listed digest, and
renamed. A file without states is taken as a whole; `dirverify --write-states`
makes states for a tree that has none, while its files are good.";

/// The text of `dircopy heal -h`.
pub const SHORT: &str = "\
Make trees whole that are copies of one another, by their manifests

Usage: dircopy heal [OPTIONS] <TREE>...

Options:
  -n, --dry-run             Only say what could be made whole
      --from-tree TREE      Take from this one too; it is only read
  -m, --manifest FILE       Check against this one, of any program; repeatable
      --wait                Wait for another run on a tree, and do not refuse
      --report FILE         A record of the run: JSON, or a page if .html
  -j, --workers N           Files that are checked side by side
  -q, --quiet               Only say what is wrong
  -v, --verbose             Name every file
  -h; --help                This; all options and exit codes

Each TREE is checked against the manifest of dircopy in it. A bad file is never
written to: what is good of it, and the rest from other trees, make a new one
beside it, which is proven and then gets its name.

Exit code 0: every file of every tree is now as it is listed; 4: one is not.
";

/// Make trees whole that are copies of one another, by their manifests
#[derive(Clone, Debug, Parser)]
#[command(name = "heal", version, max_term_width = 100, after_help = HEAL_EXIT_CODES)]
pub struct HealArgs {
    /// The trees; each is checked against the manifest of dircopy in it, or each --manifest
    #[arg(value_name = "TREE", required = true, num_args = 1..)]
    pub trees: Vec<PathBuf>,

    /// Only say what could be made whole
    #[arg(short = 'n', long)]
    pub dry_run: bool,

    /// A further tree to take from, which is only read and need have no manifest; repeatable
    #[arg(long, value_name = "TREE", help_heading = "What is checked")]
    pub from_tree: Vec<PathBuf>,

    /// Manifest of any program, for all trees; repeatable
    #[arg(short, long, value_name = "FILE", help_heading = "What is checked")]
    pub manifest: Vec<PathBuf>,

    /// Where the bytes of the check must come from
    #[arg(long, value_name = "WHERE", default_value = "medium", value_parser = one_of::<ReadFrom>(),
          help_heading = "Speed and memory")]
    pub from: ReadFrom,

    /// Wait for another run on a tree to end instead of refusing
    #[arg(long, help_heading = "Unattended runs")]
    pub wait: bool,

    /// Your private records are below DIR instead of in .dircopy
    #[arg(long, value_name = "DIR", help_heading = "What is checked")]
    pub state: Option<PathBuf>,

    #[command(flatten)]
    pub effort: CheckEffort,

    #[command(flatten)]
    pub verbosity: VerbosityArgs,

    #[command(flatten)]
    pub records: RecordArgs,
}

impl HealArgs {
    pub fn job(&self) -> HealJob {
        let mut job = HealJob::new(&self.trees);
        job.from.clone_from(&self.from_tree);
        (job.dry_run, job.wait) = (self.dry_run, self.wait);
        let check = &mut job.check;
        check.manifests = self.manifest.iter().cloned().map(ManifestAt::File).collect();
        check.from = self.from;
        self.effort.tell(check);
        check.state.clone_from(&self.state);
        job
    }
}

// The options of `dircopy protect`, and how they become a job.

const PROTECT_EXIT_CODES: &str = "\
Exit codes; of several that fit, the first of this list:
  129, 130, 143
       ended by SIGHUP, SIGINT or SIGTERM; the sets that were made stay
  2    usage error, another run is at work on DIR, or no parity can be kept
       there; nothing was touched
  4    a listed file differs or is missing, and is not protected: heal it first
  5    DIR has no manifest of dircopy, or a malformed one
  1    a listed file could not be read, or parity could not be written
  0    every listed file has parity

The parity is PAR2 2.0, in DIR/.dircopy/parity. Any program for it takes it:
  par2 verify -B DIR DIR/.dircopy/parity/NAME.par2
  par2 repair -B DIR DIR/.dircopy/parity/NAME.par2
`dircopy verify DIR` says what can be repaired, `dircopy heal DIR` repairs.";

/// The text of `dircopy protect -h`.
pub const SHORT_PROTECT: &str = "\
Give a tree parity, by which it can be made whole without another copy

Usage: dircopy protect [OPTIONS] <DIR>

Options:
      --parity PERCENT      For so much of the content: as before, or 5%
      --wait                Wait for another run on DIR, and do not refuse
      --state STATE         Your private records are below STATE
      --report FILE         A record of the run: JSON, or a page if .html
  -q, --quiet               Only say what is wrong
  -v, --verbose             Name every file
  -h; --help                This; all options and exit codes

The parity is PAR2 2.0, in DIR/.dircopy/parity: other programs for that take it
too. `dircopy verify DIR` says what it can repair, `dircopy heal DIR` repairs.

Exit code 0: every listed file has parity; 4: one is not as it is listed.
";

/// Give a tree parity, by which it can be made whole without another copy
#[derive(Clone, Debug, Parser)]
#[command(name = "protect", version, max_term_width = 100, after_help = PROTECT_EXIT_CODES)]
pub struct ProtectArgs {
    /// The tree; it has the manifest of dircopy that says what is right
    #[arg(value_name = "DIR")]
    pub dir: PathBuf,

    /// Parity for so much of the content [default: as before, or 5%]
    ///
    /// So much of each set of files may be bad or missing, counted in slices, and can be repaired.
    #[arg(long, value_name = "PERCENT", value_parser = parse_share)]
    pub parity: Option<u32>,

    /// Wait for another run on DIR to end instead of refusing
    #[arg(long)]
    pub wait: bool,

    /// Your private records are below STATE instead of in .dircopy
    #[arg(long, value_name = "STATE")]
    pub state: Option<PathBuf>,

    #[command(flatten)]
    pub verbosity: VerbosityArgs,

    #[command(flatten)]
    pub records: RecordArgs,
}

impl ProtectArgs {
    pub fn job(&self) -> ProtectJob {
        let mut job = ProtectJob::new(&self.dir);
        (job.share, job.wait) = (self.parity, self.wait);
        job.check.state.clone_from(&self.state);
        job
    }
}

/// Reads a share in percent, with two digits behind the point at most, as parts of 10,000.
pub fn parse_share(text: &str) -> Result<u32, String> {
    let number = text.strip_suffix('%').unwrap_or(text);
    let (whole, rest) = number.split_once('.').unwrap_or((number, ""));
    let is_number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let hundredths = format!("{rest:0<2}");
    let parts = (is_number(whole) && is_number(rest) && hundredths.len() == 2)
        .then(|| Some(100 * whole.parse::<u32>().ok()? + hundredths.parse::<u32>().ok()?));
    let parts = parts.flatten().filter(|parts| (1..=10_000).contains(parts));
    parts.ok_or_else(|| "a share from 0.01% to 100%, as in 5% or 2.5%".into())
}
