//! Streams: inputs of any kind, one after the other, to every output.
//!
//! Where a copy of a tree knows what it will read, a stream does not: standard input, a FIFO or a device
//! has no size, no name to give and no end until it comes. What holds for a tree holds all the same: bytes
//! are read and hashed once, a file has its name when it is whole and durable, a line is written after
//! that, and one output that fails costs that output.
//!
//! With a digest, one thread reads, one hashes, and one for each output writes, over bounded queues of
//! blocks that they share (`hashed`). Without, the kernel moves the bytes: to one output in one thread
//! (`direct`), to several through a pipe for each (`tee`).

mod direct;
pub mod input;
mod manifest;
mod old_lists;
mod place;
mod run;
mod tee;

pub use input::Endpoint;

use std::path::{Path, PathBuf};
use std::{collections::HashSet, sync::atomic::Ordering::Relaxed, time::Duration, time::Instant};

use crate::stream::place::{FilePlace, OutputPlace, OutputPlaces, PlacedOutput};
use crate::{
    error::Deed, error::Error, error::Result, event::Done, event::Event, event::EventListener,
    event::EventObserver, event::Gate, event::Observer, event::Progress, hash::Chain,
    hash::Digests, hash::hasher::refuse_miscomputing, io::Control, io::CopyOptions, io::Durability,
    io::HashedFrom, io::Options, io::RateLimit, io::link_check::Helpers, io::read_back::Residency,
    stream::input::stat, stream::manifest::StreamStates, stream::run::StreamRun, sys,
    sys::stat::Identity, sys::stat::Kind, transfer::Context, transfer::Shared,
    transfer::kernel::CopyMethods, transfer::verifier::unverifiable,
};

// A stream job: what is asked for, and its run from the first refusal to the report.

/// A stream to pass on: inputs, outputs and options. Make one with [`new`](Self::new) and change what should differ.
#[derive(Clone, Debug)]
pub struct StreamJob {
    /// The inputs, read one after the other.
    pub inputs: Vec<Endpoint>,
    /// The outputs; each gets everything.
    pub outputs: Vec<Endpoint>,
    /// Where the lines of all outputs go; without one, that of a file goes beside it.
    pub manifest: Option<PathBuf>,
    /// How it is copied, as far as that can be said of a stream. With [`Algorithm::None`](crate::Algorithm::None) the
    /// kernel moves the bytes where it can.
    pub options: CopyOptions,
    /// Look at all inputs before anything is written.
    pub strict: bool,
    /// Read no faster than this; bytes in a second.
    pub limit_rate: Option<u64>,
}

impl StreamJob {
    /// A job with the defaults of the command line.
    pub fn new(inputs: Vec<Endpoint>, outputs: Vec<Endpoint>) -> Self {
        let (manifest, options, limit_rate) = (None, CopyOptions::default(), None);
        Self { inputs, outputs, manifest, options, strict: false, limit_rate }
    }

    /// Runs the job. The stop of `observer` must not serve another run.
    ///
    /// # Errors
    /// The job was refused and nothing was written. Everything that goes wrong later is told to `observer`;
    /// look at the report's [`ending`](StreamReport::ending).
    pub fn run(&self, observer: &EventObserver<'_>) -> Result<StreamReport> {
        let Observer { progress, stop, listen } = observer;
        let started = Instant::now();
        self.refuse_options()?;
        let find =
            |endpoint: &Endpoint| OutputPlace::find(endpoint, self.options.policy, stop).map(Some);
        let places = OutputPlaces::find(self, &find)?;
        let taken = keep_apart(&self.inputs, &self.outputs, &places)?;
        self.refuse_nothing_to_prove(&places)?;
        if self.strict {
            self.inputs.iter().try_for_each(look_at_input)?;
        }
        self.count(progress);
        let (timings, rate) = (&observer.progress.timings, self.limit_rate.map(RateLimit::new));
        let resident = Residency::default();
        let options = self.run_options();
        let ways = CopyMethods::new(&self.options);
        let shared = Shared::alone(&ways);
        let (resident, helpers, gate) = (&resident, &Helpers::of_processors(), &Gate::default());
        let rate = rate.as_ref();
        let control = Control { progress, stop, rate, timings, resident, helpers, gate };
        let context = Context { options, shared, control };
        let states = OutputStates::new(&self.outputs, listen, progress);
        let mut run = StreamRun::new(&self.inputs, &context, states, taken);
        let OutputPlaces { outputs, mut manifest } = places;
        let content = run.pass_on(outputs, manifest.as_mut())?;
        let is_listed = match (&content, manifest) {
            (Some(content), Some(manifest)) => run.write_manifest(content, manifest),
            _ => false,
        };
        let digests = content.map(|content| content.digests.clone());
        let manifest = self.manifest.clone().filter(|_| is_listed);
        Ok(run.into_report(digests, manifest, started))
    }

    /// Looks whether the job would be refused, or an input would be missing, and opens and makes nothing.
    ///
    /// # Errors
    /// Why the job would be refused, or which input would be missing.
    pub fn check(&self) -> Result<()> {
        self.refuse_options()?;
        let look = |endpoint: &Endpoint| OutputPlace::look(endpoint, self.options.policy);
        self.outputs.iter().try_for_each(|output| look(output).map(drop))?;
        let places = OutputPlaces::find(self, &look)?;
        keep_apart(&self.inputs, &self.outputs, &places)?;
        self.refuse_nothing_to_prove(&places)?;
        self.inputs.iter().try_for_each(look_at_input)
    }

    /// Refuses options that are wrong before anything is looked at.
    fn refuse_options(&self) -> Result<()> {
        let input = self.inputs.first().map_or(Path::new("-"), Endpoint::path);
        refuse_miscomputing(self.options.backend, input)?;
        if self.options.verify
            && let Some(why) = unverifiable(self.options.sync, self.options.algorithm)
        {
            return Err(Error::finding("prove", "the stream", why));
        }
        refuse_standard(&self.inputs, self.manifest.as_deref())
    }

    /// Refuses to prove a stream that goes into no file.
    fn refuse_nothing_to_prove(&self, OutputPlaces { outputs, .. }: &OutputPlaces) -> Result<()> {
        // Those that failed are told of when the others are opened.
        let failed = |output: &&PlacedOutput| matches!(output.place, OutputPlace::Failed(_));
        let mut others = outputs.iter().filter(|output| !failed(output)).peekable();
        let is_open = |output: &PlacedOutput| matches!(output.place, OutputPlace::Open(_));
        let is_any = others.peek().is_some() || outputs.is_empty();
        if self.options.verify && is_any && others.all(is_open) {
            let why = "no output is a file that could be read back; leave out --verify";
            return Err(Error::finding("prove", "the stream", why));
        }
        Ok(())
    }

    fn run_options(&self) -> Options<'_> {
        let asked = &self.options;
        Options {
            further: asked.further.without(asked.algorithm),
            block_size: asked.block_size.max(1),
            blocks: asked.queue_size.max(1),
            follow: true,
            durability: match asked.sync {
                true => Durability::Grouped { at_once: false },
                false => Durability::Off,
            },
            ..Options::plain(asked)
        }
    }

    /// Adds up what is known of the inputs' sizes, if that is all of them.
    fn count(&self, progress: &Progress) {
        let size = |endpoint: &Endpoint| {
            let stat = endpoint.stat_input().ok()?;
            (stat.kind == Kind::File && stat.size > 0).then_some(stat.size)
        };
        progress.total_entries.store(self.inputs.len() as u64, Relaxed);
        if let Some(total) = self.inputs.iter().map(size).sum::<Option<u64>>() {
            progress.total_bytes.store(total, Relaxed);
            progress.counted.store(true, Relaxed);
        }
    }
}

// The refusals of a stream before anything is written.

/// Refuses standard input that is closed, and a manifest on standard output.
pub fn refuse_standard(inputs: &[Endpoint], manifest: Option<&Path>) -> Result<()> {
    let path = Endpoint::Standard;
    if inputs.contains(&path) && sys::was_closed_at_start(0) {
        return Err(Error::finding("read", path.path(), "standard input is closed"));
    }
    if manifest == Some(path.path()) {
        let finding = "it goes into a file (./- is one of that name)";
        return Err(Error::finding("write the manifest to", path.path(), finding));
    }
    Ok(())
}

/// Refuses outputs that are one another or an input. Returns the files that no input may be.
pub fn keep_apart(
    inputs: &[Endpoint],
    outputs: &[Endpoint],
    placed: &OutputPlaces,
) -> Result<HashSet<Identity>> {
    let mut files: Vec<(&FilePlace, PathBuf)> = Vec::new();
    for place in placed.files() {
        let path = place.path();
        if files.iter().any(|(other, _)| other.is_same(place)) {
            return Err(Error::finding("write twice to", path, "each needs a file of its own"));
        }
        files.push((place, path));
    }
    if outputs.iter().filter(|endpoint| **endpoint == Endpoint::Standard).count() > 1 {
        return Err(Error::finding("write twice to", "-", "there is one standard output"));
    }
    let id = |place: &FilePlace| place.there.filter(|stat| stat.kind == Kind::File);
    let side_files = placed.states().filter_map(StreamStates::place);
    let old_lists = placed.outputs.iter().flat_map(PlacedOutput::old_files);
    let there = files.iter().map(|(place, _)| *place).chain(side_files).chain(old_lists);
    let there = there.filter_map(id);
    let there = there.map(|stat| stat.id);
    let open = placed.outputs.iter().filter_map(|output| output.place.identity());
    // Those behind links, too, and those that stay as they are.
    let there_by_name = outputs.iter().filter_map(|endpoint| stat(endpoint.path()).ok());
    let there_by_name = there_by_name.filter(|stat| stat.kind == Kind::File).map(|stat| stat.id);
    let taken: HashSet<Identity> = there.chain(open).chain(there_by_name).collect();
    for endpoint in inputs {
        if let Ok(stat) = endpoint.stat_input()
            && stat.kind == Kind::File
            && taken.contains(&stat.id)
        {
            return Err(is_output(endpoint));
        }
    }
    Ok(taken)
}

/// Refuses an input that is not there, or may not be read.
pub fn look_at_input(endpoint: &Endpoint) -> Result<()> {
    let Endpoint::Path(path) = endpoint else { return Ok(()) };
    let stat = endpoint.stat_input().deed("open", path)?;
    match stat.kind {
        Kind::Dir => Err(Error::finding("read", path, "it is a directory")),
        Kind::Socket => Err(Error::finding("read", path, "it is a socket")),
        _ => sys::may_read(path).deed("open", path),
    }
}

/// Says that an input is an output.
pub fn is_output(endpoint: &Endpoint) -> Error {
    Error::finding("read", endpoint.path(), "this input file is an output file")
}

// The results of the outputs, told as they come.

/// The content of the stream, where all of it came.
#[derive(Clone, Debug)]
pub struct StreamContent {
    pub digests: Digests,
    /// Number of bytes.
    pub size: u64,
    /// Its chain, if one was kept and it is long enough.
    pub chain: Option<Chain>,
}

/// The message about a thread that ended as it never should.
pub const DIED: &str = "its thread died; this is a defect of dircopy";

/// The result of an output.
#[derive(Debug)]
pub enum OutputOutcome {
    /// The file stands, and is durable if that is asked for.
    Stands {
        /// True if something was replaced by it.
        replaced: bool,
        /// Where it was read back from, if it was.
        proof: Option<HashedFrom>,
        /// The list that was written beside it, if one was.
        list: Option<PathBuf>,
        /// Failures that did not keep it from being written.
        warnings: Vec<Error>,
    },
    /// Everything was written to what was open.
    Passed,
    /// Its reader went away before the end.
    Closed,
    /// The run was to stop; what of it could not be removed.
    Stopped(Vec<Error>),
    /// The present file stays, for this reason.
    Left(&'static str),
    /// The output has not got the file, for this reason.
    Failed(Error),
    /// It was not on its medium as it was written.
    Unproven(Error),
}

impl OutputOutcome {
    /// True if the output has everything.
    pub fn is_complete(&self) -> bool {
        matches!(self, OutputOutcome::Stands { .. } | OutputOutcome::Passed)
    }
}

/// The outputs of a run in the order in which they were given, with what became of those that are done.
pub struct OutputStates<'a> {
    endpoints: &'a [Endpoint],
    outcomes: Vec<Option<OutputOutcome>>,
    listen: &'a EventListener<'a>,
    progress: &'a Progress,
}

impl<'a> OutputStates<'a> {
    /// Nothing became of any yet.
    pub fn new(
        endpoints: &'a [Endpoint],
        listen: &'a EventListener<'a>,
        progress: &'a Progress,
    ) -> Self {
        Self { endpoints, outcomes: endpoints.iter().map(|_| None).collect(), listen, progress }
    }

    /// Notes and tells what became of one.
    pub fn settle(&mut self, number: usize, outcome: OutputOutcome) {
        let Some(endpoint) = self.endpoints.get(number) else { return };
        let path = endpoint.path().as_os_str().as_encoded_bytes();
        match &outcome {
            OutputOutcome::Stands { replaced, warnings, .. } => {
                self.warn(warnings);
                let done = if *replaced { Done::Replaced } else { Done::Copied };
                (self.listen)(&Event::Stands(path, done));
            }
            OutputOutcome::Left(why) => (self.listen)(&Event::Left(path, why)),
            OutputOutcome::Failed(error) | OutputOutcome::Unproven(error) => self.tell(error),
            OutputOutcome::Stopped(stays) => self.warn(stays),
            OutputOutcome::Passed | OutputOutcome::Closed => {}
        }
        if let Some(place) = self.outcomes.get_mut(number) {
            *place = Some(outcome);
        }
    }

    /// Notes and tells that the thread of one died.
    pub fn died(&mut self, number: usize) {
        if let Some(endpoint) = self.endpoints.get(number) {
            self.settle(
                number,
                OutputOutcome::Failed(Error::finding("finish", endpoint.path(), DIED)),
            );
        }
    }

    /// Tells of a failure.
    pub fn tell(&self, error: &Error) {
        self.progress.failed.fetch_add(1, Relaxed);
        (self.listen)(&Event::Failed(error));
    }

    /// True if an output is left that has no result yet.
    pub fn are_open(&self) -> bool {
        self.outcomes.iter().any(Option::is_none)
    }

    /// The outputs with what became of them.
    pub fn all(&self) -> impl Iterator<Item = (&Endpoint, Option<&OutputOutcome>)> {
        self.endpoints
            .iter()
            .zip(&self.outcomes)
            .map(|(endpoint, outcome)| (endpoint, outcome.as_ref()))
    }

    /// Tells of what could not be done about something that stands.
    pub fn warn(&self, warnings: &[Error]) {
        warnings.iter().for_each(|warning| (self.listen)(&Event::Warning(warning)));
    }
}

/// The report of a stream.
#[derive(Debug)]
pub struct StreamReport {
    /// Inputs that were read to their end.
    pub inputs: u64,
    /// Inputs that could not be.
    pub failed: u64,
    /// Bytes that came of them.
    pub bytes: u64,
    /// The digests of these, if any were computed and everything was read.
    pub digests: Option<Digests>,
    /// The outputs in the order they were given in, and what became of each.
    pub outputs: Vec<(Endpoint, OutputOutcome)>,
    /// The manifest of all outputs, if there is one.
    pub manifest: Option<PathBuf>,
    /// The end of the inputs: complete, or why not.
    pub ending: StreamEnding,
    /// Duration of the run.
    pub elapsed: Duration,
}

/// The end of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamEnding {
    /// Every output has all of every input.
    Complete,
    /// An input or an output failed; the others went on.
    Incomplete,
    /// Nothing is amiss but that the reader of an output went away.
    Closed,
    /// A file was not on its medium as it was written.
    Unproven,
    /// No output could be written to its end.
    Stopped,
    /// It was asked to stop, with this code.
    Interrupted(usize),
}

impl StreamReport {
    /// The list that it left: the one of all outputs, or that beside the first file that has one.
    pub fn list(&self) -> Option<&Path> {
        let beside = self.outputs.iter().find_map(|(_, outcome)| match outcome {
            OutputOutcome::Stands { list, .. } => list.as_deref(),
            _ => None,
        });
        self.manifest.as_deref().or(beside)
    }

    /// Outputs that have everything.
    pub fn complete(&self) -> usize {
        self.outputs.iter().filter(|(_, outcome)| outcome.is_complete()).count()
    }
}

impl StreamEnding {
    /// The end of a stream with these results of its outputs; `amiss` if something else is missing.
    pub(crate) fn of<'a>(
        outcomes: impl Iterator<Item = &'a OutputOutcome>,
        amiss: bool,
        asked: Option<usize>,
    ) -> Self {
        let (mut complete, mut closed, mut failed, mut left, mut stopped) = (0, 0, 0, 0, 0);
        let mut unproven = 0;
        for outcome in outcomes {
            *match outcome {
                OutputOutcome::Stands { .. } | OutputOutcome::Passed => &mut complete,
                OutputOutcome::Closed => &mut closed,
                OutputOutcome::Failed(_) => &mut failed,
                OutputOutcome::Unproven(_) => &mut unproven,
                OutputOutcome::Left(_) => &mut left,
                OutputOutcome::Stopped(_) => &mut stopped,
            } += 1;
        }
        match asked {
            Some(code) if stopped > 0 => StreamEnding::Interrupted(code),
            _ if unproven > 0 => StreamEnding::Unproven,
            _ if failed > 0 && complete + closed + left + stopped == 0 && !amiss => {
                StreamEnding::Stopped
            }
            _ if failed + left + stopped > 0 || amiss => StreamEnding::Incomplete,
            _ if closed > 0 => StreamEnding::Closed,
            _ => StreamEnding::Complete,
        }
    }
}

#[cfg(test)]
mod tests;
