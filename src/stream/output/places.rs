//! The places of everything that a stream writes.

use std::path::Path;

use crate::error::Result;
use crate::stream::endpoint::Endpoint;
use crate::stream::output::manifest::{SUFFIX, StreamManifest};
use crate::stream::output::place::OutputPlace;
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
}

impl OutputPlaces {
    /// Finds them; `find` finds one, if it is to be known. Files get manifests beside them by the policy
    /// `beside`, if there is one. An output that can have no place has [`OutputPlace::Failed`]: the others do without
    /// it.
    ///
    /// # Errors
    /// The manifest of all outputs can have no place.
    pub fn find(
        outputs: &[Endpoint],
        manifest: Option<&Path>,
        beside: Option<Policy>,
        find: &dyn Fn(&Endpoint) -> Result<Option<OutputPlace>>,
    ) -> Result<Self> {
        let mut placed = Vec::new();
        for endpoint in outputs {
            let place = match find(endpoint) {
                Ok(None) => continue,
                Ok(Some(place)) => place,
                Err(error) => OutputPlace::Failed(error),
            };
            let beside = match (&place, beside) {
                (OutputPlace::File(file), Some(policy)) => {
                    Some(file.beside(SUFFIX, policy).unwrap_or_else(OutputPlace::Failed))
                }
                _ => None,
            };
            placed.push(PlacedOutput { place, beside });
        }
        let manifest = manifest.map(|path| {
            let endpoint = Endpoint::Path(path.to_path_buf());
            let place = find(&endpoint)?;
            place.map(|place| StreamManifest::at(place, &endpoint)).transpose()
        });
        Ok(Self { outputs: placed, manifest: manifest.transpose()?.flatten() })
    }
}
