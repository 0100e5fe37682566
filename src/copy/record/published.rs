//! What stands at the output under its name and is to be listed.

use std::time::{Duration, Instant};

use crate::copy::record::rows::PendingRows;
use crate::event::Done;
use crate::hash::Digests;
use crate::manifest::line;
use crate::state::row::Row;

/// So many bytes of lines, or so many entries, are enough to be recorded.
const LINE_BYTES: usize = 1 << 20;
const ENTRIES: usize = 8192;

/// Lines wait no longer than this.
const AGE: Duration = Duration::from_secs(5);

/// Entries that stand at the output, and what is to be listed of them.
#[derive(Default)]
pub struct Published {
    pub lines: Vec<u8>,
    /// Only kept where there is a sync that may fail: where in `paths` each ends, and why it stands.
    entries: Vec<(usize, Done)>,
    /// One behind the other, so that they are no piece of memory each.
    paths: Vec<u8>,
    /// What the private record is to say of them.
    pub rows: PendingRows,
    /// What goes into each list beside the manifest.
    pub lists: Vec<Vec<u8>>,
    since: Option<Instant>,
}

impl Published {
    /// Adds the line of the file at `path`, and its row, which is `fresh` if the file was changed by this run.
    pub fn list(&mut self, digests: &Digests, path: &[u8], row: Option<Row>, fresh: bool) {
        self.since.get_or_insert_with(Instant::now);
        let start = self.lines.len();
        line::write_path(&mut self.lines, &digests.proof, path);
        if let Some(row) = row {
            let further = digests.further.as_deref().unwrap_or_default();
            match digests.proof.algorithm().is_known_by_length() {
                true => self.rows.push_before(&row, further, &self.lines[start..], fresh),
                false => self.rows.push(&row, further, path, fresh),
            }
        }
    }

    /// Adds the entry at `path`, for which a sync has to come.
    pub fn note(&mut self, path: &[u8], done: Done) {
        self.since.get_or_insert_with(Instant::now);
        self.paths.extend_from_slice(path);
        self.entries.push((self.paths.len(), done));
    }

    /// The entries for which a sync has to come: their paths, and why they stand.
    pub fn entries(&self) -> impl Iterator<Item = (&[u8], Done)> {
        let starts = std::iter::once(0).chain(self.entries.iter().map(|(end, _)| *end));
        let path = |start: usize, end: usize| self.paths.get(start..end).unwrap_or_default();
        starts.zip(&self.entries).map(move |(start, (end, done))| (path(start, *end), *done))
    }

    /// Whether so much waits that it should be recorded.
    pub fn is_much(&self) -> bool {
        self.lines.len() >= LINE_BYTES || self.entries.len() >= ENTRIES
    }

    /// When it should be recorded; `None` while nothing waits.
    pub fn due(&self) -> Option<Instant> {
        self.since.map(|since| since + AGE)
    }

    pub fn is_empty(&self) -> bool {
        self.since.is_none()
    }
}
