//! The end of a run that writes a Media Hash List: what it kept of its files is held against the output and the
//! histories, and the lists are written.

use std::{fs::File, path::PathBuf};

use crate::{
    copy::CopyJob, copy::list_file::ListWriting, copy::media, copy::media::histories::Histories,
    copy::media::histories::OwnMark, copy::media::join::Join, copy::media::join::sorted,
    copy::media::one_history::HistoryRoot, copy::media::one_history::MediaRole,
    copy::media::one_history::left_out, copy::media::one_history::patterns, copy::media::write,
    copy::media::write::MediaWriting, copy::media::write::creator,
    copy::media::write_generations::OpenLists, error::Deed, error::Error, error::Result,
    event::Stop, hash::Algorithm, hash::Algorithms, path::RelPath, state::Secret, sys::PartOwner,
    tree::RecordOrder, tree::SortedRecords, tree::Sorter,
};

const DEED: &str = "write the Media Hash List of";

/// Something that is told while lists are written.
pub struct MediaFinding {
    pub error: Error,
    /// True if a file differs from its history.
    pub is_failed: bool,
}

/// The means of a run to write its Media Hash List.
pub struct MediaSeal<'a> {
    pub role: &'a MediaRole,
    pub job: &'a CopyJob,
    pub stop: &'a Stop,
    /// Whose part files are made.
    pub parts: PartOwner,
    /// The mark of the generations of this output.
    pub mark: Option<OwnMark>,
    /// The permissions of lists.
    pub mode: u32,
}

impl<'a> MediaSeal<'a> {
    /// The writer of a job's lists, if it has any, for their owner only; by the `secret` of the output.
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
        let kept = sorted(kept).deed(DEED, root.path)?;
        match &self.role.histories {
            Some(histories) => self.generations(root, histories, &kept, tell),
            None => {
                let warn = &mut |error| tell(MediaFinding { error, is_failed: false });
                write::write(self.role, self.writing(), root, &kept, warn)
            }
        }
    }

    fn writing(&self) -> MediaWriting<'_> {
        let Self { job, stop, parts, mode, .. } = *self;
        let lists = ListWriting {
            parts,
            algorithms: Algorithms::default().with(Algorithm::C4),
            durable: job.options.sync,
            verify: job.options.verify.is_some(),
            stop: Some(stop),
        };
        MediaWriting { lists, mode }
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
        let Some(mut found) = media::list(root.dir, root.path, &filter, self.stop)? else {
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

/// So many bytes are sorted at a time: several are at work, beside what the run holds.
const PIECE: usize = 1 << 20;

/// Sorts records of files and directories.
pub fn sorter(order: RecordOrder) -> Sorter {
    Sorter::with_pieces_of(PIECE, order)
}
