//! An output that keeps nothing of ours: what is brought back is to be as it was, and no output of its own.
//!
//! Until a run to it is complete it has a manifest and a private record like any other, so that a run that was cut
//! short is gone on with, and others are kept out meanwhile. An output that other runs finished stays one: a note says
//! which manifests are of runs that brought something back.

use std::{io, path::Path, path::PathBuf};

use serde::{Deserialize, Serialize};

use crate::{
    copy::Ending, copy::Report, error::Deed, error::Error, error::Result, manifest::ManifestName,
    manifest::readers::ours, state::Note, state::PrivateDir, state::SourceMark,
    state::private_dir::NAME, sys::Attributes, sys::DirListing, tree::OutputDir, tree::SourceDir,
};

/// The manifests that runs which brought something back, and did not complete that, left at an output.
#[derive(Default, Serialize, Deserialize)]
pub struct Traces {
    manifests: Vec<String>,
}

impl Note for Traces {
    const FILE: &str = "brought-back";
    const HEAD: &str = "dircopy brought back 1";
}

impl Traces {
    /// Those at an output before a run; `None` if it is one of other runs, or cannot be listed.
    pub fn find(output: &OutputDir, private: Option<&PrivateDir>) -> Option<Self> {
        let noted = private.and_then(Self::read);
        // A run without digests leaves no manifest, but knows its source.
        if noted.is_none() && private.and_then(SourceMark::read).is_some() {
            return None;
        }
        let traces = noted.unwrap_or_default();
        let Some(root) = &output.handle else { return Some(traces) };
        let mut names = ours(root, |_| false, None).ok()?.into_iter();
        let is_known = |name: ManifestName| {
            !name.is_finished() || traces.manifests.contains(&name.to_string())
        };
        names.all(is_known).then_some(traces)
    }

    /// After a complete run removes all of them, with its own and the private directory; or notes them for the next.
    ///
    /// # Errors
    /// Something of it is still there, or the next run will not remove it.
    pub fn settle(
        mut self,
        output: &OutputDir,
        private: Option<&PrivateDir>,
        source: &SourceDir,
        report: &mut Report,
    ) -> Result<()> {
        let name = |path: &Path| path.file_name()?.to_str().map(str::to_owned);
        self.manifests.extend(report.manifest.as_deref().and_then(name));
        if matches!(report.ending, Ending::Complete) {
            report.manifest = None;
            self.remove(output, private, std::mem::take(&mut report.lists))?;
            return set_time(output, source);
        }
        match private {
            Some(private) => self.write(private, false).deed("write a note in", private.path()),
            None => Ok(()),
        }
    }

    fn remove(
        &self,
        output: &OutputDir,
        private: Option<&PrivateDir>,
        lists: Vec<PathBuf>,
    ) -> Result<()> {
        let Some(root) = &output.handle else { return Ok(()) };
        let names = self.manifests.iter().filter_map(|name| ManifestName::parse(name.as_ref()));
        let both = names.flat_map(|name| [name.to_string(), name.states()]).map(PathBuf::from);
        for path in both.chain(lists) {
            let Some(name) = path.file_name() else { continue };
            absent(root.remove(name)).deed_at("remove", || output.path_of(name))?;
        }
        if let Some(private) = private {
            let fail = |error| Error::io("remove", private.path(), error);
            for listed in DirListing::of(private.dir()).map_err(fail)? {
                absent(private.dir().remove(&listed.map_err(fail)?.name)).map_err(fail)?;
            }
            absent(root.remove_dir(NAME.as_ref())).map_err(fail)?;
        }
        Ok(())
    }
}

/// Gives the directory the time of its counterpart: what came and went in it has changed it.
fn set_time(output: &OutputDir, source: &SourceDir) -> Result<()> {
    let Some(root) = &output.handle else { return Ok(()) };
    let both = source.handle.stat_self().and_then(|of| Ok((of, root.stat_self()?)));
    let set = both.and_then(|(of, there)| Attributes::set_time(root, &there, &of));
    set.deed("set the modification time of", output.path())
}

fn absent(removed: io::Result<()>) -> io::Result<()> {
    match removed {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}
