//! The check before several outputs are written to: no two of them are one directory, and none is inside another. Nor
//! is one made below the mount point of a disk that is not there.

use std::path::{Path, PathBuf};

use crate::copy::before::{check::DiskDemands, check::Opened, check::open, exchange::Pair};
use crate::copy::before::{is_inside, open_source, planted::LastSource, planted::tell_owners};
use crate::{
    copy::CopyJob, error::Deed, error::Error, error::Result, path::Shown, state::Missing,
    state::Note, state::OtherOutputs, state::PrivateDir, state::PrivatePlace, sys::Dir,
    sys::stat::Identity,
};

/// What the last run to an output noted of its other outputs.
struct NotedOthers<'a> {
    output: &'a Path,
    /// Where it is noted.
    at: PathBuf,
    others: OtherOutputs,
}

impl<'a> NotedOthers<'a> {
    /// Also of an output that cannot be written to now. What cannot be opened is told when something is to be made.
    fn read(job: &'a CopyJob) -> Option<Self> {
        let output = &*job.output;
        let dir = Dir::open(output).ok()?;
        let place = job.private_place();
        let private = PrivateDir::open_at(&dir, output, place, Missing::Leave).ok()??;
        let others = OtherOutputs::read(&private)?;
        Some(Self { output, at: private.path().join(OtherOutputs::FILE), others })
    }

    /// The error that the output at `path` is not on the device of its own that it was on when the last run wrote to
    /// both.
    fn misses(&self, path: &Path) -> Option<Error> {
        let top = self.others.missing(path)?;
        let finding = format!(
            "its disk is not mounted: at the last run together with {} a disk was mounted at {}, and none is now; if it \
             is to go without, remove {}, by which that is known",
            Shown::path(self.output),
            Shown::path(&top),
            Shown::path(&self.at)
        );
        Some(Error::finding("copy to", path, finding))
    }
}

/// An output as it was found.
struct FoundOutput<'a> {
    path: &'a Path,
    opened: Opened,
    /// Identity of its directory, or of the one that it is to be made in.
    id: Identity,
    /// Where its private directory is.
    place: PrivatePlace<'a>,
}

impl<'a> FoundOutput<'a> {
    fn look(job: &'a CopyJob) -> Result<Self> {
        let path = &*job.output;
        let opened = open(path, DiskDemands::of_run(&job.options, false))?;
        let id = opened.dir().identity().deed("look at", path)?;
        Ok(Self { path, opened, id, place: job.private_place() })
    }

    fn is_there(&self) -> bool {
        self.there().is_some()
    }

    /// Its directory, if it is there.
    fn there(&self) -> Option<&Dir> {
        match &self.opened {
            Opened::There(dir) => Some(dir),
            Opened::Parent(_) => None,
        }
    }

    /// True if it is the same directory as `other`.
    fn is(&self, other: &Self) -> bool {
        let same_place = self.id == other.id && self.is_there() == other.is_there();
        let [one, two] = [self, other].map(|it| it.path.file_name().unwrap_or_default());
        same_place && (self.is_there() || self.opened.dir().may_be_one(one, two))
    }

    /// True if it is inside `other`.
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
/// Outputs overlap with each other or with the source, or others may have put another source in the place of that of
/// the last run to one of them: none of them is to be touched.
pub fn check(source: &Path, jobs: &[&CopyJob]) -> Result<Vec<Option<Error>>> {
    let (from, file) = open_source(source)?;
    let cannot = |path: &Path, error| Error::io("look at", path, error);
    let from_stat = &from.stat_self().map_err(|error| cannot(source, error))?;
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
    let noted: Vec<_> = jobs.iter().filter_map(|job| NotedOthers::read(job)).collect();
    for (job, refused) in jobs.iter().zip(&mut refused) {
        if refused.is_none() {
            *refused = noted.iter().find_map(|noted| noted.misses(&job.output));
        }
    }
    let last: Vec<LastSource> = match from.is_place_kept().map_err(|error| cannot(source, error))? {
        true => Vec::new(),
        false => {
            let of = |it: &FoundOutput<'_>| {
                LastSource::of(it.there()?, it.path, it.place, source, file.is_some())
            };
            found.iter().filter_map(of).collect()
        }
    };
    for (number, output) in found.iter().enumerate() {
        let overlap = |what: &str, from: &Path| {
            let finding = format!("{what} {}", Shown::path(from));
            Err(Error::finding("copy to", output.path, finding))
        };
        let pair = Pair { from: source, to: output.path, source: &from, source_stat: from_stat };
        pair.refuse_overlap(&output.opened, file.is_some())?;
        let dir = output.there().filter(|dir| tell_owners(&from, dir));
        last.iter()
            .try_for_each(|last| dir.map_or(Ok(()), |dir| pair.refuse_other_source(dir, last)))?;
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
