//! The private record of a run, written beside its manifest.
//!
//! A row says as what a file was left. Whether any later change of it shows depends on the clock of its
//! file system, which moves in steps: a change in the step of the last one looks like none. So rows wait
//! until the manifest was written to, which tells that clock, and those of the same step are in doubt. A
//! record that cannot be written is a warning: the next run reads what this one would have known.

use std::io;
use std::thread::sleep;
use std::time::Duration;

use crate::copy::record::rows::PendingRows;
use crate::error::Error;
use crate::hash::Digest;
use crate::manifest::writer::ManifestFile;
use crate::state::knowledge::Knowledge;
use crate::state::private_dir::PrivateDir;
use crate::state::record::RecordFile;
use crate::state::row::{Origin, Row, Trace};
use crate::sys::stat::Kind;
use crate::tree::dirs::OutputDir;
use crate::tree::found::SourceEntry;

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
    pub fn append(&mut self, rows: &mut PendingRows, manifest: &ManifestFile) -> Option<Error> {
        let (text, number) = rows.take_settled(manifest.clock());
        let appended = self.file.as_mut()?.append(&text, number);
        self.told(appended)
    }

    /// Writes all that waits. If the run came to its end, the next step of the clock is waited for, so that
    /// the files of the last group need not be read by the next run.
    pub fn append_last(
        &mut self,
        rows: &mut PendingRows,
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
