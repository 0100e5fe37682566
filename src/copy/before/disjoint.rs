//! The check before several outputs are written to: no two of them are one directory, and none is inside another
//! or around the source. Nor is one made below the mount point of a disk that is not there.

use std::path::{Path, PathBuf};

use crate::copy::before::mounted;
use crate::copy::before::open::Opened;
use crate::copy::before::prepare::{is_inside, open_source};
use crate::copy::job::CopyJob;
use crate::error::{Error, Result};
use crate::path::Shown;
use crate::state::other_outputs::OtherOutputs;
use crate::state::private_dir::{Missing, PrivateDir};
use crate::sys::stat::Identity;

/// An output as it was found.
struct FoundOutput<'a> {
    path: &'a Path,
    opened: Opened,
    /// Of its directory, or of the one that it is to be made in.
    id: Identity,
    /// Where the last run there noted what other outputs it had, and what it noted.
    others: Option<(PathBuf, OtherOutputs)>,
}

impl<'a> FoundOutput<'a> {
    fn look(job: &'a CopyJob) -> Result<Self> {
        let path = &*job.output;
        let opened = mounted::open(path, job.require_mount)?;
        let id = opened.dir().identity().map_err(|error| Error::io("look at", path, error))?;
        let private = match &opened {
            // What cannot be opened is told when something is to be made.
            Opened::There(dir) => {
                PrivateDir::open_at(dir, path, job.private_place(), Missing::Leave).ok().flatten()
            }
            Opened::Parent(_) => None,
        };
        let noted = |private: PrivateDir| {
            let others = OtherOutputs::read(&private)?;
            Some((private.path().join(OtherOutputs::FILE), others))
        };
        Ok(Self { path, opened, id, others: private.and_then(noted) })
    }

    /// That the output at `path` is not on the device of its own that it was on when the last run wrote to both.
    fn misses(&self, path: &Path) -> Option<Error> {
        let (note, others) = self.others.as_ref()?;
        let top = others.missing(path)?;
        let finding = format!(
            "its disk is not mounted: at the last run together with {} a disk was mounted at {}, and none is now; if it \
             is to go without, remove {}, by which that is known",
            Shown::path(self.path),
            Shown::path(top),
            Shown::path(note)
        );
        Some(Error::finding("copy to", path, finding))
    }

    fn is_there(&self) -> bool {
        matches!(self.opened, Opened::There(_))
    }

    /// Whether it is the same directory as `other`.
    fn is(&self, other: &Self) -> bool {
        let same_place = self.id == other.id && self.is_there() == other.is_there();
        same_place && (self.is_there() || self.path.file_name() == other.path.file_name())
    }

    /// Whether it is inside `other`.
    fn is_in(&self, other: &Self) -> Result<bool> {
        match &other.opened {
            Opened::There(outer) => is_inside(self.opened.dir(), outer, other.id, self.path),
            // Nothing is in what is not there.
            Opened::Parent(_) => Ok(false),
        }
    }
}

/// For the output of each of these jobs, which have the source in common, why it is refused, if it is.
///
/// # Errors
/// Outputs overlap with each other or with the source: none of them is to be touched.
pub fn check(source: &Path, jobs: &[&CopyJob]) -> Result<Vec<Option<Error>>> {
    let (from, file) = open_source(source)?;
    let cannot = |path: &Path, error| Error::io("look at", path, error);
    let from_id = from.identity().map_err(|error| cannot(source, error))?;
    let mut found: Vec<FoundOutput<'_>> = Vec::new();
    let mut refused = Vec::new();
    for job in jobs {
        match FoundOutput::look(job) {
            Ok(output) => {
                refused.push(None);
                found.push(output);
            }
            Err(error) => refused.push(Some(error)),
        }
    }
    for (job, refused) in jobs.iter().zip(&mut refused) {
        if refused.is_none() {
            *refused = found.iter().find_map(|output| output.misses(&job.output));
        }
    }
    for (number, output) in found.iter().enumerate() {
        let overlap = |what: &str, from: &Path| {
            let finding = format!("{what} {}", Shown::path(from));
            Err(Error::finding("copy to", output.path, finding))
        };
        if output.is_there() && output.id == from_id {
            let same = "it is the same directory as the source, or holds the source file";
            return overlap(same, source);
        }
        if file.is_none() && is_inside(output.opened.dir(), &from, from_id, output.path)? {
            return overlap("it is inside the source; choose an output outside of", source);
        }
        if let Opened::There(dir) = &output.opened
            && is_inside(&from, dir, output.id, source)?
        {
            return overlap("with several outputs, none can be around the source", source);
        }
        let others = || found.iter().enumerate().filter(|(at, _)| *at != number);
        if let Some((_, other)) = others().find(|(_, other)| output.is(other)) {
            return overlap("it is the same directory as the output", other.path);
        }
        for (_, other) in others() {
            if output.is_in(other)? {
                return overlap("it is inside the output", other.path);
            }
        }
    }
    Ok(refused)
}
