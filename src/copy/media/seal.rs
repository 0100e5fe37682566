//! The end of a run that writes a Media Hash List: what it kept of its files is held against the output and the
//! histories, and the lists are written.

use std::{cmp::Ordering, fs::File, io, path::PathBuf};

use crate::{
    copy::CopyJob, copy::list_file::ListWriting, copy::media, copy::media::histories::Histories,
    copy::media::histories::OwnMark, copy::media::join::Join, copy::media::join::sorted,
    copy::media::one_history::HistoryRoot, copy::media::one_history::MediaRole,
    copy::media::one_history::left_out, copy::media::one_history::patterns, copy::media::write,
    copy::media::write::MediaWriting, copy::media::write::creator,
    copy::media::write_generations::OpenLists, error::Deed, error::Error, error::Result,
    event::Stop, hash::Algorithm, hash::Algorithms, path::RelPath, state::Secret, sys::PartOwner,
    tree::RecordOrder, tree::RecordReader, tree::SortedRecords, tree::Sorter, tree::names::compare,
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

// Records of files and directories, in the order of their paths: some words, a line feed, and the path, which may hold
// anything but NUL.

/// So many bytes are sorted at a time: several are at work, beside what the run holds.
pub const PIECE: usize = 1 << 20;

/// A record taken apart.
#[derive(Clone, Copy, Debug)]
pub struct PathRecord<'a> {
    /// The words of the message.
    pub words: &'a str,
    /// Of which path.
    pub path: &'a [u8],
}

impl<'a> PathRecord<'a> {
    /// Takes a record apart.
    pub fn of(record: &'a [u8]) -> Self {
        let RecordBytes { words, path } = RecordBytes::of(record);
        Self { words: std::str::from_utf8(words).unwrap_or_default(), path }
    }
}

/// The same without a look at the words, for comparisons.
#[derive(Clone, Copy)]
pub struct RecordBytes<'a> {
    pub words: &'a [u8],
    pub path: &'a [u8],
}

impl<'a> RecordBytes<'a> {
    /// Takes a record apart.
    pub fn of(record: &'a [u8]) -> Self {
        let end = memchr::memchr(b'\n', record).unwrap_or(record.len());
        Self { words: &record[..end], path: record.get(end + 1..).unwrap_or_default() }
    }
}

/// By path, then by what is said.
pub fn by_path(one: &[u8], other: &[u8]) -> Ordering {
    let (one, other) = (RecordBytes::of(one), RecordBytes::of(other));
    compare(one.path, other.path).then_with(|| one.words.cmp(other.words))
}

/// Takes records in any order.
pub struct PathSorter {
    sorter: Sorter,
    record: Vec<u8>,
}

impl PathSorter {
    /// Sorts by path.
    pub fn by_path() -> Self {
        Self::by(by_path)
    }

    /// Sorts by `order`.
    pub fn by(order: RecordOrder) -> Self {
        Self { sorter: Sorter::with_pieces_of(PIECE, order), record: Vec::new() }
    }

    /// Adds what `words` say of `path`.
    ///
    /// # Errors
    /// The file that it would wait in cannot be made or written.
    pub fn add(&mut self, words: &str, path: &[u8]) -> io::Result<()> {
        self.record.clear();
        self.record.extend_from_slice(words.as_bytes());
        self.record.push(b'\n');
        self.record.extend_from_slice(path);
        self.sorter.add(&self.record)
    }

    /// All in their order.
    ///
    /// # Errors
    /// A file cannot be made, read or written.
    pub fn finish(self) -> io::Result<SortedRecords> {
        self.sorter.finish()
    }
}

/// Reads sorted records, with a look at the next one.
pub struct PathReader {
    records: RecordReader,
    next: Option<Vec<u8>>,
}

impl PathReader {
    /// Reads from the first.
    ///
    /// # Errors
    /// They cannot be read.
    pub fn of(records: &SortedRecords) -> io::Result<Self> {
        let mut reader = Self { records: records.reader(), next: None };
        reader.next = reader.records.next_record()?.map(<[u8]>::to_vec);
        Ok(reader)
    }

    /// The next one.
    pub fn peek(&self) -> Option<PathRecord<'_>> {
        self.next.as_deref().map(PathRecord::of)
    }

    /// The bytes of the next one.
    pub fn peek_bytes(&self) -> Option<&[u8]> {
        self.next.as_deref()
    }

    /// Takes the next one.
    ///
    /// # Errors
    /// They cannot be read.
    pub fn take(&mut self) -> io::Result<Option<Vec<u8>>> {
        let next = self.records.next_record()?.map(<[u8]>::to_vec);
        Ok(std::mem::replace(&mut self.next, next))
    }

    /// Takes the next one if it stands before `path`.
    ///
    /// # Errors
    /// They cannot be read.
    pub fn take_before(&mut self, path: &[u8]) -> io::Result<Option<Vec<u8>>> {
        let is_before = |next: PathRecord<'_>| compare(next.path, path) == Ordering::Less;
        if self.peek().is_some_and(is_before) { self.take() } else { Ok(None) }
    }

    /// Takes the next one if it is of `path`.
    ///
    /// # Errors
    /// They cannot be read.
    pub fn take_of(&mut self, path: &[u8]) -> io::Result<Option<Vec<u8>>> {
        if self.peek().is_some_and(|next| next.path == path) { self.take() } else { Ok(None) }
    }

    /// The last one of `path`; those before it are passed over.
    ///
    /// # Errors
    /// They cannot be read.
    pub fn last_of(&mut self, path: &[u8]) -> io::Result<Option<Vec<u8>>> {
        while self.take_before(path)?.is_some() {}
        let mut last = None;
        while let Some(record) = self.take_of(path)? {
            last = Some(record);
        }
        Ok(last)
    }
}
