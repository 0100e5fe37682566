//! The private record of a run, written beside its manifest.
//!
//! A row says as what a file was left. Whether any later change of it shows depends on the clock of its
//! file system, which moves in steps: a change in the step of the last one looks like none. So rows wait
//! until the manifest was written to, which tells that clock, and those of the same step are in doubt. A
//! record that cannot be written is a warning: the next run reads what this one would have known. Only a generation
//! is none without it.

use std::io;
use std::thread::sleep;
use std::time::Duration;

use crate::copy::record::rows::PendingRows;
use crate::error::Error;
use crate::hash::Digest;
use crate::manifest::writer::ManifestFile;
use crate::state::knowledge::Knowledge;
use crate::state::private_dir::PrivateDir;
use crate::state::record::closed::FinishedManifest;
use crate::state::record::record_file::{RecordFile, tell_output};
use crate::state::row::{Origin, Row};
use crate::sys::stat::{Kind, Stat};
use crate::tree::dirs::OutputDir;
use crate::tree::found::SourceEntry;
use crate::volume::times::TimeMatch;

/// A clock of a file system moves in steps of 1 to 10 ms (the kernel's tick); so long a step is waited for,
/// and so many times.
const STEP: Duration = Duration::from_millis(5);
const STEPS: u32 = 4;

/// So many bytes of rows that still hold are copied at a time.
const HELD_BYTES: usize = 1 << 20;

/// What fails where there is no record.
pub const DEED: &str = "write the private record in";

/// The record of a run, while it can be written. It has no file before there is a row to write.
pub struct Recording<'a> {
    private: &'a PrivateDir,
    number: u64,
    file: Option<RecordFile>,
    /// Whether it could not be written.
    is_given_up: bool,
    durable: bool,
}

impl<'a> Recording<'a> {
    /// The record of a run that knows `known` of its output.
    pub fn new(private: &'a PrivateDir, known: Option<&Knowledge>, durable: bool) -> Self {
        let number = known.map_or(1, Knowledge::next_number);
        Self { private, number, file: None, is_given_up: false, durable }
    }

    /// Makes its file now, which else comes with the first row: what waits for a descriptor then holds others.
    pub fn begin(&mut self) -> Option<Error> {
        let begun = self.file().map(drop);
        self.told(begun)
    }

    /// Writes what waits and is beyond doubt; `manifest` tells the time. After an error nothing more is
    /// written.
    pub fn append(&mut self, rows: &mut PendingRows, manifest: &ManifestFile) -> Option<Error> {
        let (text, number) = rows.take_settled(manifest.clock());
        let written = self.write(&text, number);
        self.told(written)
    }

    /// Writes all that waits. If the run came to its end, the next step of the clock is waited for, so that
    /// the files of the last group need not be read by the next run.
    pub fn append_last(
        &mut self,
        rows: &mut PendingRows,
        manifest: &mut ManifestFile,
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
        let written = self.write(&text, number);
        self.told(written)
    }

    /// The run is complete, and so is `manifest`: to the rows that were written come
    /// those of `known` that are held. Where these are all there were, the finished record is only told of
    /// the manifest.
    pub fn finish(
        &mut self,
        known: Option<&Knowledge>,
        manifest: &FinishedManifest,
    ) -> Option<Error> {
        if self.is_given_up {
            return None;
        }
        let held = known.and_then(Knowledge::all_held).filter(|_| self.file.is_none());
        let finished = match held {
            Some(body) => body.clone().name_manifest(self.private, manifest, self.durable),
            None => self.finish_anew(known, manifest),
        };
        let told = finished.and_then(|()| tell_output(self.private, manifest, self.durable));
        self.told(told)
    }

    fn finish_anew(
        &mut self,
        known: Option<&Knowledge>,
        manifest: &FinishedManifest,
    ) -> io::Result<()> {
        if let Some(known) = known {
            let (mut rows, mut number) = (Vec::new(), 0);
            known.each_held(|row| {
                rows.extend_from_slice(row);
                rows.push(b'\n');
                number += 1;
                if rows.len() < HELD_BYTES {
                    return Ok(());
                }
                let written = self.write(&rows, number);
                rows.clear();
                number = 0;
                written
            })?;
            self.write(&rows, number)?;
        }
        self.file()?;
        if let Some(file) = self.file.take() {
            file.finish(self.private, manifest, self.durable)?;
        }
        known.map_or(Ok(()), |known| known.remove_superseded(self.private))
    }

    /// Appends rows to the file, which is made for the first of them.
    fn write(&mut self, rows: &[u8], number: u64) -> io::Result<()> {
        if number == 0 || self.is_given_up { Ok(()) } else { self.file()?.append(rows, number) }
    }

    fn file(&mut self) -> io::Result<&mut RecordFile> {
        match &mut self.file {
            Some(file) => Ok(file),
            none => Ok(none.insert(RecordFile::create(self.private, self.number)?)),
        }
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
        (self.file, self.is_given_up) = (None, true);
        Some(Error::io(DEED, self.private.path(), error))
    }
}

/// What the record is to say of a file that `stands` at the output with this digest; nothing if that is not what the
/// source has, or its clock is not that of the root.
pub(crate) fn row_of(
    output: &OutputDir,
    entry: &SourceEntry,
    stands: &Stat,
    digest: Digest,
    origin: Origin,
) -> Option<Row> {
    if stands.kind != Kind::File || stands.size != entry.stat.size {
        return None;
    }
    let time = entry.stat.mtime;
    let late = output.compare_times(time, stands.mtime, None) == TimeMatch::Other;
    let sure = !late && output.volume.with_root;
    // What only stood there need not be the content of that time.
    let is_of_source = origin != Origin::There;
    Some(Row {
        digest,
        origin,
        trace: output.trace_of(&entry.stat, stands),
        given: output.time_to_record(time, stands.mtime).filter(|_| !late && is_of_source),
        sure,
        late,
        labelled: true,
    })
}
