//! What a dry run makes of a file that would be left because of its time, where that does not tell: as in a run its
//! content decides, and nothing is set.

use std::cell::OnceCell;
use std::ffi::OsStr;
use std::io;
use std::sync::Arc;

use crate::copy::job::CopyJob;
use crate::error::{Error, Result};
use crate::event::Stop;
use crate::hash::{Algorithm, Digest};
use crate::io::read_back::ReadBack;
use crate::io::watched_file::WatchedFile;
use crate::manifest::index::NextLine;
use crate::state::knowledge::{Belief, Knowledge};
use crate::state::private_dir::{Missing, PrivateDir};
use crate::sys::Medium;
use crate::sys::stat::Stat;
use crate::transfer::existing::late::LateCopy;
use crate::transfer::prepare::belief;
use crate::tree::dirs::{OutputDir, SourceDir};
use crate::tree::found::SourceEntry;
use crate::tree::overwrite::{Decision, Policy, SourceStat};

/// Compares files of both sides.
pub struct DryContent<'a> {
    job: &'a CopyJob,
    follow: bool,
    /// The roots of both sides.
    source: Arc<SourceDir>,
    output: Arc<OutputDir>,
    /// What earlier runs recorded, read when it is first asked for.
    known: OnceCell<Option<Knowledge>>,
    stop: &'a Stop,
}

impl<'a> DryContent<'a> {
    /// For a job that follows links or not, between these roots.
    pub fn new(
        job: &'a CopyJob,
        follow: bool,
        source: &Arc<SourceDir>,
        output: &Arc<OutputDir>,
        stop: &'a Stop,
    ) -> Self {
        let (source, output) = (Arc::clone(source), Arc::clone(output));
        Self { job, follow, source, output, known: OnceCell::new(), stop }
    }

    /// What becomes of a file of which it was decided by its time that it is left.
    ///
    /// # Errors
    /// Content decides, and one side cannot be read or changes meanwhile.
    pub fn decide(
        &self,
        source: &SourceDir,
        output: &OutputDir,
        entry: &SourceEntry,
        there: &Stat,
        left: Decision,
    ) -> Result<Decision> {
        if self.job.algorithm == Algorithm::None || there.size != entry.stat.size {
            return Ok(left);
        }
        let path = output.rel.join(&entry.name);
        let stat = SourceStat(&entry.stat);
        let known = self.known.get_or_init(|| self.load()).as_ref();
        let belief = known.map(|known| {
            belief(known, output, path.as_bytes(), stat, there, &mut NextLine::default())
        });
        let belief = belief.unwrap_or(Belief::Nothing);
        let late = LateCopy::of(self.job.policy, output, &entry.stat, there, belief);
        let Some(LateCopy { is_late, .. }) = late else { return Ok(left) };
        let (Some(found), Some(read)) =
            (self.hash_copy(output, entry, there)?, self.hash_source(source, entry)?)
        else {
            return Ok(left);
        };
        let recorded = match belief {
            Belief::Doubtful(remembered) => Some(remembered.digest),
            _ => None,
        };
        Ok(match found == read {
            true => Decision::Keep,
            false if is_late && recorded == Some(read) && self.job.policy != Policy::Never => {
                Decision::Replace
            }
            false => left,
        })
    }

    /// What cannot be read of it says nothing.
    fn load(&self) -> Option<Knowledge> {
        let (root, path) = (self.output.handle.as_ref()?, &self.job.output);
        let elsewhere = self.job.state.as_deref();
        let private = PrivateDir::open(root, path, elsewhere, Missing::Leave).ok().flatten();
        let is_in_source = |name: &OsStr| self.source.handle.stat(name, false).is_ok();
        let is_to_stop = || self.stop.is_requested();
        Some(Knowledge::load(private.as_ref(), root, path, &is_in_source, &is_to_stop).0)
    }

    fn hash_copy(
        &self,
        output: &OutputDir,
        entry: &SourceEntry,
        there: &Stat,
    ) -> Result<Option<Digest>> {
        let path = || output.path_of(&entry.name);
        let Some(dir) = &output.handle else {
            return Err(Error::io("read", path(), io::ErrorKind::NotFound.into()));
        };
        self.hash(&WatchedFile::open_copy(output, dir, &entry.name, there, &path)?)
    }

    fn hash_source(&self, source: &SourceDir, entry: &SourceEntry) -> Result<Option<Digest>> {
        let path = || source.path_of(&entry.name);
        let (dir, name) = (&source.handle, &entry.name);
        self.hash(&WatchedFile::open(dir, name, self.follow, &entry.stat, &path)?)
    }

    /// The digest of a file; `None` if the run is to stop.
    fn hash(&self, file: &WatchedFile<'_>) -> Result<Option<Digest>> {
        let medium = Medium::any(file.file());
        let is_to_stop = || self.stop.is_urgent();
        let hashed = ReadBack::new().hash(medium, self.job.algorithm, is_to_stop, |_| ());
        let Some(hashed) = hashed.map_err(|error| file.error("read", error))? else {
            return Ok(None);
        };
        file.check(hashed.bytes)?;
        Ok(hashed.digest)
    }
}
