//! The two lists of a run: the manifest, and the private record for later runs of this user; and what becomes of
//! earlier manifests.

mod listing;
pub mod near;
pub mod rotation;

use std::{io, thread::sleep, time::Duration, time::Instant};

use crate::{
    error::Deed, error::Error, error::Result, event::Done, hash::Digest, hash::Digests,
    manifest::ManifestFile, manifest::lists, state::FinishedManifest, state::Knowledge,
    state::Origin, state::PrivateDir, state::RecordFile, state::Row, state::SeenAt,
    state::closing::Body, state::forget_leaving, state::plugs::begin_epoch,
    state::record::name_later, state::record::tell_output, state::row::in_epoch, sys::Dir,
    sys::stat::Kind, sys::stat::Stat, sys::stat::Time, tree::OutputDir, tree::SourceEntry,
    volume::times::TimeMatch,
};

// The private record of a run, written beside its manifest.
//
// A row says in which state a file was left. A later change of it shows only if the clock of its file system has moved
// on, which it does in steps: a change in the step of the last one looks like none. So rows wait until the manifest was
// written to, which tells that clock, and those of the same step are in doubt. A record that cannot be written is a
// warning: the next run reads the files that this one would have known. Only for a generation it is an error: without
// its record it counts as no generation.

/// A clock of a file system moves in steps of 1 to 10 ms (the kernel's tick); so long a step is waited for,
/// and so many times.
const STEP: Duration = Duration::from_millis(5);
const STEPS: u32 = 4;

/// Number of bytes of rows that still hold that are copied at a time.
const HELD_BYTES: usize = 1 << 20;

/// The deed that fails where there is no record.
pub const DEED: &str = "write the private record in";

/// … and of removing what was kept of files that a mirror was about to move.
pub const FORGET: &str = "remove the note of what went from";

/// The record of a run, while it can be written. It has no file before there is a row to write.
pub struct Recording<'a> {
    private: &'a PrivateDir,
    number: u64,
    file: Option<RecordFile>,
    /// The rows of files that this run found to be something else than recorded: a record of its own, older than that
    /// of what became of them.
    doubts: Option<RecordFile>,
    /// The manifest that the rows were sealed for.
    sealed: Option<FinishedManifest>,
    /// True if it could not be written.
    is_given_up: bool,
    durable: bool,
    /// The epoch of the output that rows are recorded in; 0 if it is not known.
    epoch: u32,
}

impl<'a> Recording<'a> {
    /// The record of a run that knows `known` of its output, whose root is `root`.
    pub fn new(
        private: &'a PrivateDir,
        root: &Dir,
        known: Option<&Knowledge>,
        durable: bool,
    ) -> Self {
        // The one before it is for rows in doubt, which there are only where there is a record.
        let number = known.map_or(1, |it| it.next_number() + u64::from(it.has_records()));
        let epoch = begin_epoch(private, root);
        let (file, doubts, sealed, is_given_up) = (None, None, None, false);
        Self { private, number, file, doubts, sealed, is_given_up, durable, epoch }
    }

    /// What an earlier mirror was about to move stayed, and is on record again, if anything could be.
    ///
    /// # Errors
    /// What is known of it cannot be removed.
    pub fn forget_leaving(&self) -> Result<()> {
        match self.is_given_up {
            true => Ok(()),
            false => forget_leaving(self.private).deed(FORGET, self.private.path()),
        }
    }

    /// Where it is.
    pub fn private(&self) -> &'a PrivateDir {
        self.private
    }

    /// Makes its file now, which else comes with the first row: what waits for a descriptor then holds others.
    pub fn begin(&mut self) -> Option<Error> {
        let begun = self.file().map(drop);
        self.told(begun)
    }

    /// Writes rows that are in doubt now, before anything is told of it: a run that is killed then leaves them.
    pub fn doubt(&mut self, rows: &[u8], number: u64) -> Option<Error> {
        if number == 0 || self.is_given_up {
            return None;
        }
        let written = self.write_doubts(rows, number);
        self.told(written)
    }

    fn write_doubts(&mut self, rows: &[u8], number: u64) -> io::Result<()> {
        let is_first = self.doubts.is_none();
        let file = match &mut self.doubts {
            Some(file) => file,
            none => none.insert(RecordFile::create(self.private, self.number - 1)?),
        };
        file.append(rows, number)?;
        if self.durable {
            file.persist()?;
        }
        if self.durable && is_first { self.private.dir().persist() } else { Ok(()) }
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

    /// The run is complete, and so is `manifest`, which gets its name next: to the rows that were written come those of
    /// `known` that are held, and the name. A run that ends before the record has its own name leaves one that counts.
    pub fn seal(
        &mut self,
        known: Option<&Knowledge>,
        manifest: &FinishedManifest,
    ) -> Option<Error> {
        if self.is_given_up || self.all_held(known).is_some() {
            return None;
        }
        let sealed = self.seal_anew(known, manifest);
        self.told(sealed)
    }

    /// The manifest has its name: so gets the record. Where the rows of `known` are all there are, the finished record
    /// is only told of the manifest.
    pub fn finish(
        &mut self,
        known: Option<&Knowledge>,
        manifest: &FinishedManifest,
    ) -> Option<Error> {
        if self.is_given_up {
            return None;
        }
        let published = self.publish(known, manifest);
        self.told(published)
    }

    /// Where the rows could not be written the finished record is told of the manifest all the same.
    ///
    /// # Errors
    /// The finished record, if there is one, names an earlier manifest.
    pub fn name_at_least(&self, manifest: &FinishedManifest) -> Result<()> {
        if !self.is_given_up {
            return Ok(());
        }
        let named = name_later(self.private, manifest, self.durable);
        let told = named.and_then(|()| tell_output(self.private, manifest, self.durable));
        told.deed(DEED, self.private.path())
    }

    fn publish(
        &mut self,
        known: Option<&Knowledge>,
        manifest: &FinishedManifest,
    ) -> io::Result<()> {
        let (private, durable) = (self.private, self.durable);
        if let Some(body) = self.all_held(known) {
            body.clone().name_manifest(private, manifest, durable)?;
        } else if let Some(file) = self.file.take() {
            file.publish(private, durable)?;
            // A file of the source may have been given that name meanwhile.
            if self.sealed.as_ref() != Some(manifest) {
                name_later(private, manifest, durable)?;
            }
            known.map_or(Ok(()), |known| known.remove_superseded(private))?;
        }
        if let Some(doubts) = self.doubts.take() {
            doubts.withdraw(private)?;
        }
        tell_output(private, manifest, durable)
    }

    /// The rows of the finished record, if they all hold, and there are no others.
    fn all_held<'k>(&self, known: Option<&'k Knowledge>) -> Option<&'k Body> {
        known.and_then(Knowledge::all_held).filter(|_| self.file.is_none())
    }

    fn seal_anew(
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
        let durable = self.durable;
        self.file()?.seal(manifest, durable)?;
        self.sealed = Some(manifest.clone());
        Ok(())
    }

    /// Appends rows to the file, which is made for the first of them.
    fn write(&mut self, rows: &[u8], number: u64) -> io::Result<()> {
        match (number == 0 || self.is_given_up, self.epoch) {
            (true, _) => Ok(()),
            (false, 0) => self.file()?.append(rows, number),
            // A row that is known from an earlier epoch keeps it: the file was not written since.
            (false, epoch) => self.file()?.append(&in_epoch(rows, epoch), number),
        }
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

/// The row of a file that `stands` at the output with this digest; none if it differs from the source's file, or its
/// clock is not that of the root.
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
        seen: SeenAt::default(),
        epoch: 0,
    })
}

// The entries that stand at the output under their names and are to be listed.

/// Number of bytes of lines, or of entries, that are enough to be recorded.
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
    /// Their rows for the private record.
    pub rows: PendingRows,
    /// The text for each list beside the manifest.
    pub lists: Vec<Vec<u8>>,
    since: Option<Instant>,
}

impl Published {
    /// Adds the line of the file at `path`, and its row, which is `fresh` if the file was changed by this run.
    pub fn list(&mut self, digests: &Digests, path: &[u8], row: Option<Row>, fresh: bool) {
        self.since.get_or_insert_with(Instant::now);
        let start = self.lines.len();
        lists::write_path(&mut self.lines, &digests.proof, path);
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

    /// True if so much waits that it should be recorded.
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

// Rows of the private record that wait until the clock of their file system puts them beyond doubt.

/// Number of bytes of rows that wait at most: a clock that stands still is not waited for.
const MOST_WAITING: usize = 4 << 20;

/// Rows that wait to be written.
#[derive(Default)]
pub struct PendingRows {
    text: Vec<u8>,
    number: u64,
    /// Those of files that this run made.
    fresh: Vec<FreshRow>,
}

/// The row of a file that this run made.
struct FreshRow {
    start: usize,
    /// Number of rows before it.
    before: u64,
    /// When the file was last changed.
    changed: Time,
}

impl PendingRows {
    /// Adds the row of the file at `path`, whose content has these further digests; `fresh` if the file was changed by
    /// this run.
    pub fn push(&mut self, row: &Row, further: &[Digest], path: &[u8], fresh: bool) {
        self.note(row, fresh);
        row.write(&mut self.text, further, path);
    }

    /// The same of a file whose line of a manifest is at hand.
    pub fn push_before(&mut self, row: &Row, further: &[Digest], line: &[u8], fresh: bool) {
        self.note(row, fresh);
        row.write_before(&mut self.text, further, line);
    }

    fn note(&mut self, row: &Row, fresh: bool) {
        if fresh && row.sure {
            let (start, before, changed) = (self.text.len(), self.number, row.trace.ctime);
            self.fresh.push(FreshRow { start, before, changed });
        }
        self.number += 1;
    }

    /// These, and behind them `later` ones.
    pub fn and(mut self, later: Self) -> Self {
        if self.number == 0 {
            return later;
        }
        let (start, before) = (self.text.len(), self.number);
        self.text.extend_from_slice(&later.text);
        self.number += later.number;
        self.fresh.extend(later.fresh.into_iter().map(|row| FreshRow {
            start: row.start + start,
            before: row.before + before,
            ..row
        }));
        self
    }

    /// Takes out what a clock that says `now` puts beyond doubt; the rest waits on.
    pub fn take_settled(&mut self, now: Option<Time>) -> (Vec<u8>, u64) {
        let Some(now) = now.filter(|_| self.text.len() <= MOST_WAITING) else {
            return self.take_all(now);
        };
        let is_open = |fresh: &FreshRow| fresh.changed >= now;
        let Some(first) = self.fresh.iter().position(is_open) else {
            let Self { text, number, .. } = std::mem::take(self);
            return (text, number);
        };
        let waiting = self.fresh.split_off(first);
        let FreshRow { start, before, .. } = waiting[0];
        let shifted = waiting.into_iter().map(|row| FreshRow {
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
    pub fn take_all(&mut self, now: Option<Time>) -> (Vec<u8>, u64) {
        let Self { mut text, number, fresh } = std::mem::take(self);
        for row in fresh.iter().filter(|row| now.is_none_or(|now| row.changed >= now)) {
            Row::doubt(&mut text[row.start..]);
        }
        (text, number)
    }

    /// When the last of the waiting files was changed.
    pub fn latest(&self) -> Option<Time> {
        self.fresh.iter().map(|row| row.changed).max()
    }
}
