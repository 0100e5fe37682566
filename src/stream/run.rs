//! A stream on its way: inputs go to the engine one after the other, and the manifest is written when all
//! outputs are settled.

use std::sync::{Arc, atomic::Ordering::Relaxed};
use std::{collections::HashSet, path::PathBuf, thread::Scope, thread::scope, time::Instant};

use crate::stream::manifest::{AtomicFile, ManifestSink, StreamManifest, add_lines};
use crate::{
    error::Error, error::Result, hash::Algorithm, hash::Digests, stream::Endpoint,
    stream::OutputOutcome, stream::OutputStates, stream::StreamContent, stream::StreamEnding,
    stream::StreamReport, stream::direct::DirectEngine, stream::direct::Engine,
    stream::direct::FeedError, stream::direct::HashedEngine, stream::input, stream::input::Input,
    stream::is_output, stream::place::DropReason, stream::place::OpenOutput,
    stream::place::OutputPlace, stream::place::PlacedOutput, stream::place::Sink,
    stream::tee::TeeEngine, sys, sys::stat::Identity, sys::stat::Kind, transfer::Context,
};

/// A stream on its way.
pub struct StreamRun<'r> {
    inputs: &'r [Endpoint],
    context: &'r Context<'r>,
    states: OutputStates<'r>,
    /// Output files, which no input may be.
    taken: HashSet<Identity>,
    counts: InputCounts,
}

/// The counts of reading the inputs.
#[derive(Default)]
struct InputCounts {
    /// Inputs of which something came, …
    opened: u64,
    /// … which were read to their end, …
    whole: u64,
    /// … and what failed.
    failed: u64,
    bytes: u64,
}

impl<'r> StreamRun<'r> {
    /// A run of which nothing is read yet.
    pub fn new(
        inputs: &'r [Endpoint],
        context: &'r Context<'r>,
        states: OutputStates<'r>,
        taken: HashSet<Identity>,
    ) -> Self {
        Self { inputs, context, states, taken, counts: InputCounts::default() }
    }

    /// Passes on all inputs to the outputs, and settles these. Returns what is known of everything, if it was
    /// hashed. An older manifest is removed before a file that it lists is replaced.
    ///
    /// # Errors
    /// No output can be opened. Nothing was read.
    pub fn pass_on(
        &mut self,
        outputs: Vec<PlacedOutput>,
        manifest: Option<&mut StreamManifest>,
    ) -> Result<Option<Arc<StreamContent>>> {
        let keeps = |manifest: &Option<StreamManifest>| {
            manifest.as_ref().is_some_and(|manifest| manifest.states.is_some())
        };
        let outputs = open_outputs(self.context, outputs, &mut self.states)?;
        let replaces = outputs.iter().any(|output| match &output.sink {
            Sink::File(file) => file.place.there.is_some(),
            Sink::Open(_) => false,
        });
        let keeps_chain = outputs.iter().any(|output| keeps(&output.manifest))
            || manifest.as_ref().is_some_and(|manifest| manifest.states.is_some());
        Ok(scope(|scope| {
            let mut engine = match start_engine(scope, self.context, outputs, keeps_chain) {
                Ok(engine) => engine?,
                Err(error) => {
                    self.counts.failed += 1;
                    self.states.tell(&error);
                    return None;
                }
            };
            self.feed(&mut *engine);
            let mut complete = self.counts.opened > 0 && !self.context.control.stop.is_urgent();
            if let Some(manifest) = manifest.filter(|_| complete && replaces)
                && let Err(error) = manifest.retire(self.context)
            {
                self.states.tell(&error);
                self.counts.failed += 1;
                complete = false;
            }
            engine.finish(complete, &mut self.states)
        }))
    }

    /// Passes on one input after the other.
    fn feed(&mut self, engine: &mut dyn Engine) {
        let Self { inputs, context, states, taken, counts: read } = self;
        let context = *context;
        for endpoint in *inputs {
            let path = || endpoint.path().to_path_buf();
            let mut is_over = || {
                engine.hear(states);
                context.control.stop.is_urgent() || !states.are_open()
            };
            if is_over() {
                return;
            }
            let opened = match input::open(endpoint, is_over) {
                Ok(Some(end)) if end.stat.kind == Kind::File && taken.contains(&end.stat.id) => {
                    Err(is_output(endpoint))
                }
                Ok(Some(end)) => Input::new(context, end, &path),
                Ok(None) => return,
                Err(error) => Err(error),
            };
            let mut input = match opened {
                Ok(input) => input,
                Err(error) => {
                    read.failed += 1;
                    states.tell(&error);
                    continue;
                }
            };
            let fed = engine.feed(&mut input, states);
            read.bytes += input.came;
            match fed {
                Ok(()) => (read.whole, read.opened) = (read.whole + 1, read.opened + 1),
                Err(FeedError::Input(error)) => {
                    read.failed += 1;
                    states.tell(&error);
                    // Of what could not be read at all nothing is half there.
                    if input.came > 0 {
                        read.opened += 1;
                        engine.spoil(states);
                    }
                }
                Err(FeedError::All) => return,
            }
            context.control.progress.entries.fetch_add(1, Relaxed);
        }
    }
    /// Writes the manifest of all outputs that are complete; false if there is none.
    pub fn write_manifest(&mut self, content: &StreamContent, manifest: StreamManifest) -> bool {
        let (mut lines, mut first) = (Vec::new(), None);
        for (endpoint, outcome) in self.states.all() {
            if outcome.is_some_and(OutputOutcome::is_complete) {
                add_lines(&mut lines, &content.digests, endpoint);
                first.get_or_insert(endpoint.path());
            }
        }
        let Some(first) = first else { return false };
        let (mut warnings, path) = (Vec::new(), first.as_os_str().as_encoded_bytes());
        let written = manifest.write(self.context, &lines, path, content, &mut warnings);
        if let Err(error) = &written {
            self.states.tell(error);
            self.counts.failed += 1;
        }
        self.states.warn(&warnings);
        written.is_ok()
    }

    /// The report of the run; `manifest` is the one of all outputs that was written.
    pub fn into_report(
        self,
        digests: Option<Digests>,
        manifest: Option<PathBuf>,
        started: Instant,
    ) -> StreamReport {
        let Self { context, states, counts, .. } = self;
        let endpoints = states.endpoints.iter().cloned();
        let outcomes = states.outcomes.into_iter();
        let outcomes =
            outcomes.map(|outcome| outcome.unwrap_or_else(|| DropReason::Stopped.outcome()));
        let outputs: Vec<_> = endpoints.zip(outcomes).collect();
        let outcomes = outputs.iter().map(|(_, outcome)| outcome);
        let asked = context.control.stop.requested();
        StreamReport {
            inputs: counts.whole,
            failed: counts.failed,
            bytes: counts.bytes,
            digests,
            manifest,
            ending: StreamEnding::of(outcomes, counts.failed > 0, asked),
            outputs,
            elapsed: started.elapsed(),
        }
    }
}

// Opens the outputs of a stream and chooses the engine for them.

/// Opens the outputs; those that cannot be are settled.
///
/// # Errors
/// None can be opened. Nothing was made.
pub fn open_outputs<'a>(
    context: &Context<'a>,
    places: Vec<PlacedOutput>,
    states: &mut OutputStates<'_>,
) -> Result<Vec<OpenOutput<'a>>> {
    let (mut outputs, mut settled) = (Vec::new(), Vec::new());
    let endpoints = states.endpoints;
    for (number, (endpoint, placed)) in endpoints.iter().zip(places).enumerate() {
        let PlacedOutput { place, beside, states, old } = placed;
        let refuse = |why| OutputOutcome::Failed(Error::finding("write to", endpoint.path(), why));
        let manifest = match beside {
            None => Ok(None),
            Some(OutputPlace::File(place)) => {
                Ok(Some(StreamManifest { sink: ManifestSink::File(place), states }))
            }
            Some(OutputPlace::Failed(error)) => Err(OutputOutcome::Failed(error)),
            Some(_) => Err(OutputOutcome::Left(
                "its manifest is there already; --overwrite-policy update or always replaces it",
            )),
        };
        let opened = match (place, manifest) {
            (OutputPlace::Left(why), _) => Err(OutputOutcome::Left(why)),
            (OutputPlace::Refused(why), _) => Err(refuse(why)),
            (OutputPlace::Failed(error), _) => Err(OutputOutcome::Failed(error)),
            (_, Err(left)) => Err(left),
            (OutputPlace::Open(end), Ok(manifest)) => Ok((Sink::Open(end), manifest)),
            (OutputPlace::File(place), Ok(manifest)) => AtomicFile::begin(context, place)
                .map(|file| (Sink::File(Box::new(file)), manifest))
                .map_err(OutputOutcome::Failed),
        };
        match opened {
            Ok((sink, manifest)) => {
                let (endpoint, context) = (endpoint.clone(), *context);
                if let Sink::Open(end) = &sink {
                    sys::widen(&end.file);
                }
                outputs.push(OpenOutput { number, endpoint, context, sink, manifest, old });
            }
            Err(outcome) => settled.push((number, outcome)),
        }
    }
    let mut refused = Ok(());
    let is_failed =
        |(_, outcome): &(usize, OutputOutcome)| matches!(outcome, OutputOutcome::Failed(_));
    let all_failed = outputs.is_empty() && settled.iter().all(is_failed);
    for (number, outcome) in settled {
        match outcome {
            OutputOutcome::Failed(error) if all_failed && refused.is_ok() => refused = Err(error),
            outcome => states.settle(number, outcome),
        }
    }
    refused.map(|()| outputs)
}

/// Starts the engine that suits; `None` if no output is open. Where bytes are hashed, their chain is kept if
/// `keeps_chain`.
pub fn start_engine<'scope, 'a: 'scope>(
    scope: &'scope Scope<'scope, '_>,
    context: &Context<'a>,
    mut outputs: Vec<OpenOutput<'a>>,
    keeps_chain: bool,
) -> Result<Option<Box<dyn Engine + 'scope>>> {
    if outputs.is_empty() {
        return Ok(None);
    }
    if context.options.asked.algorithm == Algorithm::None {
        if outputs.len() == 1
            && let Some(output) = outputs.pop()
        {
            return Ok(Some(Box::new(DirectEngine::new(output))));
        }
        match TeeEngine::start(scope, context, outputs)? {
            Ok(engine) => return Ok(Some(Box::new(engine))),
            // There are no pipes for it.
            Err(back) => outputs = back,
        }
    }
    Ok(Some(Box::new(HashedEngine::start(scope, context, outputs, keeps_chain)?)))
}
