//! What a run leaves to read replaces what is there, so it may be nothing that the run is about.

use std::path::{Path, PathBuf};

use crate::cli::record::records::{Task, Wanted};
use crate::cli::record::rotation::is_series;
use crate::error::{Error, Result};
use crate::manifest::ManifestName;
use crate::path::directory_of;
use crate::stream::Endpoint;

impl Wanted<'_> {
    /// Refuses to write to `path`, one of these, what something else is to be.
    pub(crate) fn refuse_clash(&self, path: &Path, task: &Task<'_>) -> Result<()> {
        let own = full(path);
        if is_device(&own) {
            return Ok(());
        }
        if self.paths().filter(|other| full(other) == own).count() > 1 {
            let finding =
                "the report, the metrics, the log and the list each need a file of their own";
            return Err(Error::finding("write twice to", path, finding));
        }
        if own.file_name().and_then(ManifestName::parse).is_some() {
            return Err(Error::finding("write to", path, "it has the name of a manifest"));
        }
        match task.files().into_iter().find(|(taken, _)| *taken == own && !is_series(path)) {
            Some((_, what)) => Err(Error::finding("write to", path, what)),
            None => Ok(()),
        }
    }
}

impl Task<'_> {
    /// What it reads and writes that has a path, and what each is.
    fn files(&self) -> Vec<(PathBuf, &'static str)> {
        let (source, output) = ("it is what is to be copied", "it is an output");
        match self {
            Task::Copy { source: path, .. } => vec![(full(path), source)],
            Task::Stream { inputs, outputs } => {
                let ends = inputs.iter().map(|named| (named, source));
                let ends = ends.chain(outputs.iter().map(|named| (named, output)));
                let files = ends.filter(|(named, _)| **named != Endpoint::Standard);
                files.map(|(named, what)| (full(named.path()), what)).collect()
            }
            Task::Check(_) => Vec::new(),
        }
    }
}

/// A path by which two names of one file are the same, also of one that is not there yet.
fn full(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| {
        let dir = directory_of(path).canonicalize().unwrap_or_default();
        dir.join(path.file_name().unwrap_or_default())
    })
}

/// Whether several can write there without harm.
fn is_device(path: &Path) -> bool {
    path.metadata().is_ok_and(|it| !it.is_file() && !it.is_dir())
}
