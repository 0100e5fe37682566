//! The options of streams, and how they become a job.

use std::path::{Path, PathBuf};

use clap::ArgMatches;
use clap::parser::ValueSource;

use crate::copy::job::CopyJob;
use crate::stream::{Endpoint, StreamJob};

/// The options that only streams have.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Streams")]
pub struct StreamArgs {
    /// Write the digests of all outputs to FILE, under the names given here
    ///
    /// Standard output is named "-" there. Without this each output has a NAME.sha256sum beside it, or with several
    /// digests a NAME.bsd.
    #[arg(long, value_name = "FILE", hide_short_help = true)]
    pub manifest: Option<PathBuf>,

    /// Refuse before the first byte is written if an input is missing or unreadable
    ///
    /// Without this it is named and the others are copied.
    #[arg(long, hide_short_help = true)]
    pub strict: bool,
}

/// Options that say nothing about a stream.
const OF_TREES: &[&str] = &[
    "include",
    "exclude",
    "follow_links",
    "no_links",
    "hard_links",
    "dry_run",
    "reflink",
    "renamed",
    "sparse",
    "resume",
    "checkpoint",
    "no_space_check",
    "workers",
    "simd",
    "grace",
    "max_duration",
    "max_size",
    "files_from",
    "stop_at",
    "wait",
    "require_mount",
    "keep_manifests",
    "mirror",
    "generations",
    "keep",
    "max_delete",
    "keep_trash",
    "one_file_system",
    "bag",
    "bag_info",
    "bag_info_from",
    "expect",
    "expect_all",
    "format",
    "sorted",
    "lag",
];

/// Options that say nothing about the copy of a tree.
const OF_STREAMS: [&str; 2] = ["manifest", "strict"];

/// Other names of standard output.
const STANDARD_OUTPUT: [&str; 3] = ["/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"];

/// Refuses options that are for the other kind of copy.
pub fn refuse_others(matches: &ArgMatches, stream: bool) -> Result<(), String> {
    let (others, why) = match stream {
        true => (OF_TREES, "is for copies of directories, and this is a stream"),
        false => (&OF_STREAMS[..], "is for streams, and this copies into a directory"),
    };
    let given = |id: &&&str| matches.value_source(id) == Some(ValueSource::CommandLine);
    match others.iter().find(given) {
        Some(id) => Err(format!("--{} {why}", id.replace('_', "-"))),
        None => Ok(()),
    }
}

/// The endpoints of inputs.
pub fn inputs(paths: &[PathBuf]) -> Vec<Endpoint> {
    paths.iter().map(|path| Endpoint::from(&**path)).collect()
}

/// The endpoints of outputs. Standard output is recognised by its other names too, so that no messages go there.
pub fn outputs(paths: &[PathBuf]) -> Vec<Endpoint> {
    let named = |path: &PathBuf| match STANDARD_OUTPUT.iter().any(|name| path == Path::new(name)) {
        true => Endpoint::Standard,
        false => Endpoint::from(&**path),
    };
    paths.iter().map(named).collect()
}

impl StreamArgs {
    /// The job of a stream; `copy` has what it shares with the copy of a tree.
    pub fn job(&self, inputs: Vec<Endpoint>, outputs: Vec<Endpoint>, copy: &CopyJob) -> StreamJob {
        let mut job = StreamJob::new(inputs, outputs, copy.queue_size, copy.block_size);
        job.manifest.clone_from(&self.manifest);
        job.strict = self.strict;
        job.algorithm = copy.algorithm;
        job.further = copy.further;
        job.states = copy.states;
        job.policy = copy.policy;
        job.sync = copy.sync;
        job.verify = copy.verify;
        job.cache = copy.cache;
        job.limit_rate = copy.limit_rate;
        job
    }
}
