//! The manifest of a stream: one line for each file that was made, as `sha256sum` writes it; with several digests one
//! for each of them, with its tag.

use crate::error::{Error, Result};
use crate::hash::{Algorithms, Digests};
use crate::io::options::Durability;
use crate::manifest::line;
use crate::manifest::lists::Form;
use crate::stream::endpoint::Endpoint;
use crate::stream::outcome::StreamContent;
use crate::stream::output::atomic_file::{AtomicFile, Completion};
use crate::stream::output::place::{FilePlace, OutputPlace};
use crate::stream::output::states::StreamStates;
use crate::sys::{self, StreamEnd};
use crate::transfer::context::Context;
use crate::tree::overwrite::Policy;

/// What stands after a file's name in that of its manifest: that of the list of all its digests.
pub fn suffix(algorithms: Algorithms) -> String {
    let form = if algorithms.len() > 1 { Form::Bsd } else { Form::Gnu };
    format!(".{}", form.suffix(algorithms))
}

/// What is to be listed.
#[derive(Clone, Copy)]
pub struct StreamLines<'a> {
    /// The lines themselves.
    pub lines: &'a [u8],
    /// What stands in the first of them.
    pub path: &'a [u8],
    pub content: &'a StreamContent,
}

/// A manifest, and the side file beside it.
pub struct StreamManifest {
    pub sink: ManifestSink,
    /// Where states go, if they are kept and it is a file.
    pub states: Option<StreamStates>,
}

/// Where a manifest goes.
pub enum ManifestSink {
    /// Into a file that gets its name when it is whole.
    File(FilePlace),
    /// To what is open.
    Open(StreamEnd),
}

impl StreamManifest {
    /// At this place, which must be one.
    pub fn at(place: OutputPlace, endpoint: &Endpoint, states: Option<Policy>) -> Result<Self> {
        match place {
            OutputPlace::Failed(error) => Err(error),
            OutputPlace::File(place) => {
                let states = states.map(|policy| StreamStates::of(&place, policy));
                Ok(Self { sink: ManifestSink::File(place), states })
            }
            OutputPlace::Open(end) => Ok(Self { sink: ManifestSink::Open(end), states: None }),
            OutputPlace::Left(why) | OutputPlace::Refused(why) => {
                Err(Error::finding("write the manifest", endpoint.path(), why))
            }
        }
    }

    /// Removes an older one, before what it lists is replaced: no line may be wrong at any moment.
    pub fn retire(&mut self, context: &Context<'_>) -> Result<()> {
        let ManifestSink::File(place) = &mut self.sink else { return Ok(()) };
        let Some(dir) = place.there.take().and(place.dir.handle.as_ref()) else { return Ok(()) };
        let removed = dir.remove(&place.name).and_then(|()| match context.options.durability {
            Durability::Off => Ok(()),
            Durability::Grouped { .. } => dir.persist(),
        });
        removed.map_err(|error| Error::io("remove the old manifest", place.path(), error))
    }

    /// Writes the lines about `content`, the first of which is of `path`, and before that its states.
    pub fn write(
        self,
        context: &Context<'_>,
        listed: StreamLines<'_>,
        warnings: &mut Vec<Error>,
    ) -> Result<()> {
        let StreamLines { lines, path, content } = listed;
        if let Some(states) = self.states {
            states.write(context, path, content, warnings);
        }
        match self.sink {
            ManifestSink::File(place) => {
                let mut file = AtomicFile::begin(context, place)?;
                if let Err(error) = file.write(lines) {
                    return Err(file.discard(error));
                }
                let mut hasher = context.options.algorithm.start();
                hasher.update(lines);
                let size = lines.len() as u64;
                let written = hasher.finish().map(|digest| StreamContent {
                    digests: digest.into(),
                    size,
                    chain: None,
                });
                match file.finish(written.as_ref(), || Ok(()), warnings)? {
                    Completion::Stands(_) => Ok(()),
                    Completion::Unproven(error) => Err(error),
                    Completion::Stopped => {
                        Err(Error::finding("write", "the manifest", "interrupted"))
                    }
                }
            }
            ManifestSink::Open(end) => {
                let written = end.write_all(lines, || context.control.stop.is_urgent());
                if !written.map_err(|error| Error::io("write", "the manifest", error))? {
                    return Err(Error::finding("write", "the manifest", "interrupted"));
                }
                sys::close_file(end.into_file())
                    .map_err(|error| Error::io("close", "the manifest", error))
            }
        }
    }
}

/// The lines of a file in a manifest beside it.
pub fn lines_beside(digests: &Digests, place: &FilePlace) -> Vec<u8> {
    let mut lines = Vec::new();
    write_lines(&mut lines, digests, place.name.as_encoded_bytes());
    lines
}

/// Adds the lines of an output to a manifest of all: under the name that the user gave it, from where the
/// program was started.
pub fn add_lines(lines: &mut Vec<u8>, digests: &Digests, endpoint: &Endpoint) {
    match (endpoint, &digests.further) {
        (Endpoint::Standard, None) => line::write_standard(lines, &digests.proof),
        (Endpoint::Standard, Some(_)) => line::write_all_standard(lines, digests.iter()),
        (Endpoint::Path(path), _) => {
            write_lines(lines, digests, path.as_os_str().as_encoded_bytes());
        }
    }
}

fn write_lines(lines: &mut Vec<u8>, digests: &Digests, path: &[u8]) {
    match &digests.further {
        None => line::write_path(lines, &digests.proof, path),
        Some(_) => digests.iter().for_each(|digest| line::write_tagged(lines, digest, path, true)),
    }
}
