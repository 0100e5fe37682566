//! The places of everything that a stream writes.

use std::path::Path;

use crate::error::Result;
use crate::hash::Algorithms;
use crate::stream::endpoint::Endpoint;
use crate::stream::output::manifest::{ManifestSink, StreamManifest, suffix};
use crate::stream::output::place::{FilePlace, OutputPlace};
use crate::stream::output::states::StreamStates;
use crate::tree::overwrite::Policy;

/// The places of everything that a stream writes.
pub struct OutputPlaces {
    /// Those of the outputs.
    pub outputs: Vec<PlacedOutput>,
    /// That of the manifest of all outputs.
    pub manifest: Option<StreamManifest>,
}

/// The place of an output.
pub struct PlacedOutput {
    /// Its own.
    pub place: OutputPlace,
    /// That of the manifest beside it.
    pub beside: Option<OutputPlace>,
    /// The side file of that.
    pub states: Option<StreamStates>,
}

/// By which policies files get others beside them; none if there is no policy.
#[derive(Clone, Copy)]
pub struct BesideFiles {
    /// A manifest of their own.
    pub manifests: Option<Policy>,
    /// By which algorithms those are.
    pub algorithms: Algorithms,
    /// Each manifest a side file.
    pub states: Option<Policy>,
}

impl OutputPlaces {
    /// Finds them; `find` finds one, if it is to be known. An output that can have no place has
    /// [`OutputPlace::Failed`]: the others do without it.
    ///
    /// # Errors
    /// The manifest of all outputs can have no place.
    pub fn find(
        outputs: &[Endpoint],
        manifest: Option<&Path>,
        beside: BesideFiles,
        find: &dyn Fn(&Endpoint) -> Result<Option<OutputPlace>>,
    ) -> Result<Self> {
        let mut placed = Vec::new();
        for endpoint in outputs {
            let place = match find(endpoint) {
                Ok(None) => continue,
                Ok(Some(place)) => place,
                Err(error) => OutputPlace::Failed(error),
            };
            let ending = suffix(beside.algorithms);
            let beside_it = match (&place, beside.manifests) {
                (OutputPlace::File(file), Some(policy)) => {
                    Some(file.beside(&ending, policy).unwrap_or_else(OutputPlace::Failed))
                }
                _ => None,
            };
            let states = match (&beside_it, beside.states) {
                (Some(OutputPlace::File(file)), Some(policy)) => {
                    Some(StreamStates::of(file, policy))
                }
                _ => None,
            };
            placed.push(PlacedOutput { place, beside: beside_it, states });
        }
        let manifest = manifest.map(|path| {
            let endpoint = Endpoint::Path(path.to_path_buf());
            let place = find(&endpoint)?;
            place.map(|place| StreamManifest::at(place, &endpoint, beside.states)).transpose()
        });
        let mut all = Self { outputs: placed, manifest: manifest.transpose()?.flatten() };
        let files: Vec<FilePlace> = all.files().cloned().collect();
        all.states_mut().for_each(|states| states.give_way(files.iter()));
        Ok(all)
    }

    /// The files that outputs and manifests are to be.
    pub fn files(&self) -> impl Iterator<Item = &FilePlace> {
        let listing = match &self.manifest {
            Some(StreamManifest { sink: ManifestSink::File(place), .. }) => Some(place),
            _ => None,
        };
        let both =
            self.outputs.iter().flat_map(|output| [Some(&output.place), output.beside.as_ref()]);
        let files = both.flatten().filter_map(|place| match place {
            OutputPlace::File(place) => Some(place),
            _ => None,
        });
        files.chain(listing)
    }

    /// The side files.
    pub fn states(&self) -> impl Iterator<Item = &StreamStates> {
        let listing = self.manifest.as_ref().and_then(|manifest| manifest.states.as_ref());
        self.outputs.iter().filter_map(|output| output.states.as_ref()).chain(listing)
    }

    fn states_mut(&mut self) -> impl Iterator<Item = &mut StreamStates> {
        let listing = self.manifest.as_mut().and_then(|manifest| manifest.states.as_mut());
        self.outputs.iter_mut().filter_map(|output| output.states.as_mut()).chain(listing)
    }
}
