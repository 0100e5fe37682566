//! Opens the outputs of a stream and chooses the engine for them.

use std::thread::Scope;

use crate::error::{Error, Result};
use crate::hash::Algorithm;
use crate::stream::engine::common::Engine;
use crate::stream::engine::direct::DirectEngine;
use crate::stream::engine::hashed::HashedEngine;
use crate::stream::engine::tee::TeeEngine;
use crate::stream::outcome::{OutputOutcome, OutputStates};
use crate::stream::output::atomic_file::AtomicFile;
use crate::stream::output::manifest::{ManifestSink, StreamManifest};
use crate::stream::output::open::{OpenOutput, Sink};
use crate::stream::output::place::OutputPlace;
use crate::stream::output::places::PlacedOutput;
use crate::transfer::context::Context;

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
    let endpoints = states.endpoints();
    for (number, (endpoint, placed)) in endpoints.iter().zip(places).enumerate() {
        let PlacedOutput { place, beside, states } = placed;
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
                let output = OpenOutput { number, endpoint, context, sink, manifest };
                output.prepare();
                outputs.push(output);
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
    if context.options.algorithm == Algorithm::None {
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
