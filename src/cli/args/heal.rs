//! The options of `dircopy heal`, and how they become a job.

use std::path::PathBuf;

use clap::Parser;

use crate::cli::args::unattended::RecordArgs;
use crate::cli::args::values::one_of;
use crate::cli::args::verbosity::VerbosityArgs;
use crate::cli::args::verify::CheckEffort;
use crate::heal::HealJob;
use crate::verify::{ManifestAt, ReadFrom};

const EXIT_CODES: &str = "\
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

/// What `dircopy heal -h` says.
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
#[derive(Debug, Parser)]
#[command(name = "heal", version, max_term_width = 100, after_help = EXIT_CODES)]
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
