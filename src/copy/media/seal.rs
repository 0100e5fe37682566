//! The end of a run that writes a Media Hash List: what it kept of its files is held against the output and the
//! histories, and the lists are written.

use std::fs::File;
use std::path::PathBuf;

use crate::copy::job::CopyJob;
use crate::copy::media::histories::Histories;
use crate::copy::media::join::{Join, sorted};
use crate::copy::media::one_history::HistoryRoot;
use crate::copy::media::own_mark::OwnMark;
use crate::copy::media::role::{MediaRole, left_out, patterns};
use crate::copy::media::tree;
use crate::copy::media::write::file::MediaWriting;
use crate::copy::media::write::generations::OpenLists;
use crate::copy::media::write::legacy;
use crate::copy::media::write::words::creator;
use crate::error::{Error, Result};
use crate::event::Stop;
use crate::path::RelPath;
use crate::state::private_dir::Secret;
use crate::sys::PartOwner;
use crate::tree::names::sorter::SortedRecords;

const DEED: &str = "write the Media Hash List of";

/// Something that is told while lists are written.
pub struct MediaFinding {
    pub error: Error,
    /// Whether a file is not what its history has.
    pub is_failed: bool,
}

/// What a run writes its Media Hash List with.
pub struct MediaSeal<'a> {
    pub role: &'a MediaRole,
    pub job: &'a CopyJob,
    pub stop: &'a Stop,
    /// Whose part files are made.
    pub parts: PartOwner,
    /// What marks the generations of this output.
    pub mark: Option<OwnMark>,
    /// The permissions of lists.
    pub mode: u32,
}

impl<'a> MediaSeal<'a> {
    /// What writes the lists of a job, if it has any, for their owner only; by the `secret` of the output.
    pub fn of(
        job: &'a CopyJob,
        stop: &'a Stop,
        parts: PartOwner,
        secret: Option<&Secret>,
    ) -> Option<Self> {
        let (role, mark) = (job.media.as_deref()?, secret.map(OwnMark::by));
        Some(Self { role, job, stop, parts, mark, mode: 0o600 })
    }

    /// Writes the list at `root` by what the run `kept` of its files; returns where it is, if there was anything to
    /// write.
    ///
    /// # Errors
    /// It cannot be written. What was there stays.
    pub fn run(
        &self,
        root: HistoryRoot<'_>,
        kept: File,
        tell: &mut dyn FnMut(MediaFinding),
    ) -> Result<Option<PathBuf>> {
        let kept = sorted(kept).map_err(|error| Error::io(DEED, root.path, error))?;
        match &self.role.histories {
            Some(histories) => self.generations(root, histories, &kept, tell),
            None => {
                let warn = &mut |error| tell(MediaFinding { error, is_failed: false });
                legacy::write(self.role, self.writing(), root, &kept, warn)
            }
        }
    }

    fn writing(&self) -> MediaWriting<'_> {
        let Self { job, stop, parts, mode, .. } = *self;
        MediaWriting { durable: job.sync, verify: job.verify.is_some(), stop, parts, mode }
    }

    fn generations(
        &self,
        root: HistoryRoot<'_>,
        histories: &Histories,
        kept: &SortedRecords,
        tell: &mut dyn FnMut(MediaFinding),
    ) -> Result<Option<PathBuf>> {
        let of_root = histories.all.get(&RelPath::root()).map(|it| it.patterns.as_slice());
        let ignored = patterns(of_root.unwrap_or_default(), &[]);
        let wrong = |why| Error::finding(DEED, root.path, why);
        let filter = left_out(&ignored).map_err(wrong)?;
        let Some(mut found) = tree::list(root.dir, root.path, &filter, self.stop)? else {
            return Ok(None);
        };
        // The chains of those that came with this copy are not there yet.
        found.histories.extend(histories.all.keys().cloned());
        let fail = |error| Error::io(DEED, root.path, error);
        let join = Join::new(self.role, histories, root.path, &filter, kept).map_err(fail)?;
        let joined =
            join.run(&found, &mut |error| tell(MediaFinding { error, is_failed: true }))?;
        if joined.missing > 0 {
            let finding = format!(
                "{} of the files that it lists are not there: {}",
                joined.missing,
                joined.examples.join(", ")
            );
            let error = Error::finding("find all that is in the history of", root.path, finding);
            tell(MediaFinding { error, is_failed: false });
        }
        let lists = OpenLists {
            role: self.role,
            with: self.writing(),
            mark: self.mark,
            root,
            histories,
            creator: creator(self.role.started),
            ignored: &ignored,
            stack: Vec::new(),
            written: None,
        };
        lists.write(&joined)
    }
}
