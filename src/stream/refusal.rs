//! What a stream is refused for before anything is written.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};
use crate::hash::Algorithm;
use crate::stream::endpoint::{Endpoint, stat};
use crate::stream::output::place::{FilePlace, OutputPlace};
use crate::stream::output::places::{OutputPlaces, PlacedOutput};
use crate::stream::output::states::StreamStates;
use crate::sys;
use crate::sys::stat::{Identity, Kind};
use crate::transfer::verifier::unverifiable;

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

/// Refuses to prove a stream that is not synced, or has no digest.
pub fn refuse_unverifiable(sync: bool, algorithm: Algorithm) -> Result<()> {
    match unverifiable(sync, algorithm) {
        Some(why) => Err(Error::finding("prove", "the stream", why)),
        None => Ok(()),
    }
}

/// Refuses to prove a stream that goes into no file.
pub fn refuse_nothing_to_prove(placed: &OutputPlaces) -> Result<()> {
    // Those that failed are told of when the others are opened.
    let failed = |output: &&PlacedOutput| matches!(output.place, OutputPlace::Failed(_));
    let mut others = placed.outputs.iter().filter(|output| !failed(output)).peekable();
    let is_open = |output: &PlacedOutput| matches!(output.place, OutputPlace::Open(_));
    if (others.peek().is_some() || placed.outputs.is_empty()) && others.all(is_open) {
        let why = "no output is a file that could be read back; leave out --verify";
        return Err(Error::finding("prove", "the stream", why));
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
    let there = files.iter().map(|(place, _)| *place).chain(side_files).filter_map(id);
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
    let stat = endpoint.stat_input().map_err(|error| Error::io("open", path, error))?;
    match stat.kind {
        Kind::Dir => Err(Error::finding("read", path, "it is a directory")),
        Kind::Socket => Err(Error::finding("read", path, "it is a socket")),
        _ => sys::may_read(path).map_err(|error| Error::io("open", path, error)),
    }
}

/// Says that an input is an output.
pub fn is_output(endpoint: &Endpoint) -> Error {
    Error::finding("read", endpoint.path(), "this input file is an output file")
}
