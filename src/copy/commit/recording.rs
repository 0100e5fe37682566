//! The private record of a run, written beside its manifest.
//!
//! A row says as what a file was left. Whether any later change of it shows depends on the clock of its
//! file system, which moves in steps: a change in the step of the last one looks like none. So rows wait
//! until the manifest was written to, which tells that clock, and those of the same step are in doubt. A
//! record that cannot be written is a warning: the next run reads what this one would have known.

use std::ffi::OsStr;
use std::io;
use std::thread::sleep;
use std::time::Duration;

use crate::copy::commit::accounting::Published;
use crate::copy::commit::committer::Committer;
use crate::error::Error;
use crate::hash::Digest;
use crate::manifest::writer::ManifestFile;
use crate::state::knowledge::Knowledge;
use crate::state::private_dir::PrivateDir;
use crate::state::record::RecordFile;
use crate::state::row::{Origin, Row, Trace};
use crate::sys::stat::{Kind, Time};
use crate::tree::dirs::OutputDir;
use crate::tree::found::SourceEntry;

/// Rows that wait to be written.
#[derive(Default)]
pub struct Rows {
    text: Vec<u8>,
    number: u64,
    /// Those of files that this run made.
    fresh: Vec<Fresh>,
}

/// The row of a file that this run made.
struct Fresh {
    /// Where it starts.
    start: usize,
    /// How many rows stand before it.
    before: u64,
    /// When the file was last changed.
    changed: Time,
}

impl Rows {
    /// Adds the row of the file at `path`; `fresh` if the file was changed by this run.
    pub fn push(&mut self, row: &Row, path: &[u8], fresh: bool) {
        if fresh && row.sure {
            let (start, before, changed) = (self.text.len(), self.number, row.trace.ctime);
            self.fresh.push(Fresh { start, before, changed });
        }
        self.number += 1;
        row.write(&mut self.text, path);
    }

    /// These, and behind them `later` ones.
    fn and(mut self, later: Self) -> Self {
        let (start, before) = (self.text.len(), self.number);
        self.text.extend_from_slice(&later.text);
        self.number += later.number;
        self.fresh.extend(later.fresh.into_iter().map(|row| Fresh {
            start: row.start + start,
            before: row.before + before,
            ..row
        }));
        self
    }

    /// Takes out what a clock that says `now` puts beyond doubt; the rest waits on.
    fn take_settled(&mut self, now: Option<Time>) -> (Vec<u8>, u64) {
        let Some(now) = now.filter(|_| self.text.len() <= MOST_WAITING) else {
            return self.take_all(now);
        };
        let is_open = |fresh: &Fresh| fresh.changed >= now;
        let Some(first) = self.fresh.iter().position(is_open) else {
            let Self { text, number, .. } = std::mem::take(self);
            return (text, number);
        };
        let waiting = self.fresh.split_off(first);
        let Fresh { start, before, .. } = waiting[0];
        let shifted = waiting.into_iter().map(|row| Fresh {
            start: row.start - start,
            before: row.before - before,
            ..row
        });
        let rest = Self {
            text: self.text.split_off(start),
            number: self.number - before,
            fresh: shifted.collect(),
        };
        (std::mem::replace(self, rest).text, before)
    }

    /// Takes out everything; what the clock does not put beyond doubt is written as doubtful.
    fn take_all(&mut self, now: Option<Time>) -> (Vec<u8>, u64) {
        let Self { mut text, number, fresh } = std::mem::take(self);
        for row in fresh.iter().filter(|row| now.is_none_or(|now| row.changed >= now)) {
            Row::doubt(&mut text[row.start..]);
        }
        (text, number)
    }

    /// When the last of the waiting files was changed.
    fn latest(&self) -> Option<Time> {
        self.fresh.iter().map(|row| row.changed).max()
    }
}

/// So many bytes of rows wait at most: a clock that stands still is not waited for.
const MOST_WAITING: usize = 4 << 20;

/// A clock of a file system moves in steps of 1 to 10 ms (the kernel's tick); so long a step is waited for,
/// and so many times.
const STEP: Duration = Duration::from_millis(5);
const STEPS: u32 = 4;

/// The record of a run, while it can be written.
pub struct Recording<'a> {
    private: &'a PrivateDir,
    file: Option<RecordFile>,
    durable: bool,
}

impl<'a> Recording<'a> {
    /// Begins the record of a run that knows `known` of its output.
    pub fn begin(
        private: &'a PrivateDir,
        known: Option<&Knowledge>,
        durable: bool,
    ) -> Result<Self, Error> {
        let number = known.map_or(1, Knowledge::next_number);
        let file = RecordFile::create(private, number)
            .map_err(|error| Error::io("begin the private record in", private.path(), error))?;
        Ok(Self { private, file: Some(file), durable })
    }

    /// Writes what waits and is beyond doubt; `manifest` tells the time. After an error nothing more is
    /// written.
    pub fn append(&mut self, rows: &mut Rows, manifest: &ManifestFile) -> Option<Error> {
        let (text, number) = rows.take_settled(manifest.clock());
        let appended = self.file.as_mut()?.append(&text, number);
        self.told(appended)
    }

    /// Writes all that waits. If the run came to its end, the next step of the clock is waited for, so that
    /// the files of the last group need not be read by the next run.
    pub fn append_last(
        &mut self,
        rows: &mut Rows,
        manifest: &ManifestFile,
        is_cut_short: bool,
    ) -> Option<Error> {
        let (mut now, latest) = (manifest.clock(), rows.latest());
        for _ in 0..STEPS {
            if is_cut_short || latest < now || latest.is_none() {
                break;
            }
            sleep(STEP);
            now = manifest.tick();
        }
        let (text, number) = rows.take_all(now);
        let appended = self.file.as_mut()?.append(&text, number);
        self.told(appended)
    }

    /// The run is complete, and so is the manifest called `manifest`.
    pub fn finish(&mut self, known: Option<&Knowledge>, manifest: &str) -> Option<Error> {
        let finished = self.file.take()?.finish(self.private, manifest, self.durable);
        let removed = finished.and_then(|()| match known {
            Some(known) => known.remove_superseded(self.private),
            None => Ok(()),
        });
        self.told(removed)
    }

    /// The run was cut short: what was written stays for the next one.
    pub fn leave(&mut self) -> Option<Error> {
        let persisted = match self.file.take()? {
            file if self.durable => file.persist(),
            _ => Ok(()),
        };
        self.told(persisted)
    }

    fn told(&mut self, result: io::Result<()>) -> Option<Error> {
        let error = result.err()?;
        self.file = None;
        let error = Error::io("write the private record in", self.private.path(), error);
        Some(error.with_note("; the next run reads what it would have said"))
    }
}

impl<'a> Committer<'a> {
    /// From now on what is listed is also recorded in `private`, for later runs of this user; made durable
    /// if `durable`.
    pub fn record_in(&mut self, private: Option<&'a PrivateDir>, durable: bool) {
        let Some(private) = private.filter(|_| self.manifest.is_some()) else { return };
        match Recording::begin(private, self.context.shared.known, durable) {
            Ok(recording) => self.recording = Some(recording),
            Err(warning) => self.accounting.warn(&warning),
        }
    }

    /// The lines of what is published and durable go into the manifest.
    pub(crate) fn record(&mut self) {
        let Published { lines, mut rows, .. } = std::mem::take(&mut self.accounting.published);
        let Some(manifest) = &mut self.manifest else { return };
        if let Err(error) = manifest.append(&lines) {
            return self.accounting.give_up(error);
        }
        rows = std::mem::take(&mut self.rows).and(rows);
        let append = |recording: &mut Recording<'_>| recording.append(&mut rows, manifest);
        if let Some(warning) = self.recording.as_mut().and_then(append) {
            self.accounting.warn(&warning);
        }
        self.rows = rows;
    }

    /// What waits is written, before the manifest gets its name or is left.
    pub(crate) fn record_last(&mut self) {
        let (Some(recording), Some(manifest)) = (&mut self.recording, &self.manifest) else {
            return;
        };
        let cut_short = self.accounting.is_broken() || self.context.control.stop.is_requested();
        if let Some(warning) = recording.append_last(&mut self.rows, manifest, cut_short) {
            self.accounting.warn(&warning);
        }
    }

    /// The file stays as it is: an earlier line for it is carried over, if it still holds.
    pub(crate) fn reopen(&self, output: &OutputDir, name: &OsStr) {
        if let Some(known) = self.context.shared.known {
            known.reopen(output.rel.join(name).as_bytes());
        }
    }
}

/// What the record is to say of a file that this run made, as it stands now; nothing if it is not what was
/// made, or its clock is not that of the root.
pub(crate) fn left_as(
    output: &OutputDir,
    entry: &SourceEntry,
    digest: Digest,
    origin: Origin,
) -> Option<Row> {
    let stat = output.handle.as_ref()?.stat(&entry.name, false).ok()?;
    if stat.kind != Kind::File || stat.size != entry.stat.size {
        return None;
    }
    let late = !entry.stat.mtime.is_stored_as(stat.mtime);
    let sure = !late && output.volume.with_root;
    Some(Row { digest, origin, trace: Trace::of(&stat), sure, late })
}
