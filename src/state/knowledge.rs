//! The knowledge about the files of an output before a run: by private records, and by manifests in the open.
//!
//! A file is *untouched* if a private record of this output has its very inode number, size and times, and if any
//! change since would show in them. Then its digest needs no reading. Of any other file that was listed the digest is
//! known and in *doubt*: the file is read and compared. Manifests in the open raise doubt and never give belief.
//!
//! A record may be older than what is in the open: it was put back, could not be written, or runs kept theirs
//! elsewhere. So where a newer manifest lists another digest, both count, and only the source tells. What that one left
//! out, because it had rotted, is known by the older ones that no record covers.

use std::{ffi::OsStr, ffi::OsString, io, path::Path, sync::OnceLock};

use crate::manifest::{
    Bits, Carry, CoveredManifests, Index, LinePlace, ManifestName, NextLine, OpenDigest,
};
use crate::{
    error::Error, error::Result, hash::Algorithm, hash::Digest, hash::Digests, path::RelPath,
    state::Belief, state::FinishedManifest, state::NotePlace, state::Origin, state::PrivateDir,
    state::RecordedAt, state::Remembered, state::Row, state::RowPlace, state::Trace,
    state::Unsettled, state::belief::other_than, state::closing::Body, state::closing::FINISHED,
    state::record::LoadedRecord, state::record::load, state::record::numbers,
    state::refuted::RefutedFiles, state::row, sys::Dir, sys::stat::Stat, sys::stat::Time,
    sys::traits::Traits,
};

/// All that is known before a run.
#[derive(Debug, Default)]
pub struct Knowledge {
    /// The newest first.
    records: Vec<OpenRecord>,
    /// The manifests in the open, for files that no record knows.
    open: Carry,
    /// The number of the next record.
    next: u64,
    /// When the run began, by the clock of the output's file system.
    began: OnceLock<Time>,
    /// By which algorithm the run proves.
    proof: Algorithm,
    /// True if the digest of a row is given by whichever algorithm it is.
    takes_any: bool,
    /// Files that a run found to be something else than their rows say, or one that was cut short may have.
    refuted: RefutedFiles,
}

#[derive(Debug)]
struct OpenRecord {
    name: OsString,
    index: Index,
    /// True if it is of this very output, and change times there prove something.
    trusted: bool,
    /// Which rows the next record is to have as they stand, one bit each.
    held: Bits,
    /// The part before the name of its manifest, if it is finished and of this very output.
    body: Option<Body>,
}

impl OpenRecord {
    /// Its row of the file at `path`; all its rows of that path are settled.
    fn row(&self, path: &[u8], next: &mut NextLine) -> Option<(Row, LinePlace)> {
        // One that cannot be read back is as good as none: the file is read instead.
        let (row, place) = self.index.lookup_line(path, next, Row::read).ok()??;
        Some((self.of_output(row?), place))
    }

    /// A row of it: epochs of another output say nothing here.
    fn of_output(&self, row: Row) -> Row {
        if self.trusted { row } else { Row { epoch: 0, ..row } }
    }

    /// The further digests on the line at `offset`.
    fn further_at(&self, offset: u64) -> Vec<Digest> {
        self.index.line_at(offset, row::further).ok().flatten().unwrap_or_default()
    }

    fn row_at(&self, offset: u64, digest: Digest) -> Option<Row> {
        let row = self.index.line_at(offset, |line| Row::read(line, digest)).ok().flatten()?;
        row.map(|row| self.of_output(row))
    }
}

impl Knowledge {
    /// Reads what is known of an output whose root is `root`, at `path`, and whose private directory `private` is. What
    /// `is_in_source` was copied there, and tells of another tree. What cannot be read is as good as none and is told
    /// as a warning. Once `is_to_stop` says so nothing more is read: the run comes to nothing anyway.
    pub fn load(
        private: Option<&PrivateDir>,
        root: &Dir,
        path: &Path,
        is_in_source: &dyn Fn(&OsStr) -> bool,
        is_to_stop: &dyn Fn() -> bool,
    ) -> (Self, Vec<Error>) {
        let (mut knowledge, mut warnings) = (Self::default(), Vec::new());
        let mut covered = CoveredManifests::default();
        if let Some(private) = private {
            let fail = |error| Error::io("read the private record in", private.path(), error);
            match knowledge.load_records(private, root, is_to_stop) {
                Ok(named) => covered = named,
                Err(error) => warnings.push(fail(error)),
            }
        }
        let is_copied =
            |name: &OsStr| is_in_source(name) || knowledge.lists(name.as_encoded_bytes());
        let (open, unreadable) = Carry::load(root, path, is_copied, covered, is_to_stop);
        warnings.extend(unreadable);
        knowledge.open = open;
        let traits = private.and_then(|it| NotePlace::Private(it).read());
        if traits.is_some_and(|it| knowledge.believes_nothing_of(&it)) {
            knowledge = knowledge.in_doubt();
        }
        (knowledge, warnings)
    }

    /// The same by the private records alone: nothing that lies in the open is asked.
    pub fn of_records(private: &PrivateDir, root: &Dir, is_to_stop: &dyn Fn() -> bool) -> Self {
        let mut knowledge = Self::default();
        // What cannot be read is as good as none.
        let _ = knowledge.load_records(private, root, is_to_stop);
        knowledge
    }

    /// True if no row proves a file untouched on a file system of these traits, because it has no change times: none on
    /// a disk, and elsewhere none of records that are older than what is in the open.
    fn believes_nothing_of(&self, traits: &Traits) -> bool {
        !traits.change_times && (traits.are_of_disk_without_change_times() || self.open.is_newer())
    }

    /// True if a run that ended is newer than the records.
    pub fn is_behind(&self) -> bool {
        self.open.is_newer()
    }

    /// True if a run that is newer than the records left out a file of which this is `listed`: it may have named rot.
    fn was_left_out(&self, listed: Option<OpenDigest>) -> bool {
        listed.is_none() && self.open.is_newer()
    }

    /// The same, for a run that proves with this algorithm: digests by it are given where they are known.
    #[must_use]
    pub fn proving_with(self, proof: Algorithm) -> Self {
        Self { proof, ..self }
    }

    /// The same, for who compares contents by whichever digests are recorded.
    #[must_use]
    pub fn by_any_digest(self) -> Self {
        Self { takes_any: true, ..self }
    }

    /// The same, for who holds contents against it that it may contradict, and never believes a file by its numbers:
    /// then a record counts whatever directory it is of.
    #[must_use]
    pub fn of_any_directory(mut self) -> Self {
        self.records.iter_mut().for_each(|record| record.trusted = true);
        self
    }

    /// The same, where no row proves a file untouched.
    #[must_use]
    pub fn in_doubt(mut self) -> Self {
        self.records.iter_mut().for_each(|record| record.trusted = false);
        self
    }

    /// The same row by the digest that the run proves with, if that is known.
    fn by_proof(&self, row: Row, further: impl FnOnce() -> Vec<Digest>) -> Option<Row> {
        if self.takes_any || row.digest.algorithm() == self.proof {
            return Some(row);
        }
        let digest = Digests::new(row.digest, further()).of(self.proof)?;
        // Its line is another one, of which the note of replugged files says nothing.
        Some(Row { digest, epoch: 0, ..row })
    }

    /// Reads the records; the manifests that the finished one names.
    fn load_records(
        &mut self,
        private: &PrivateDir,
        root: &Dir,
        is_to_stop: &dyn Fn() -> bool,
    ) -> io::Result<CoveredManifests> {
        let is_of_another =
            |with: &FinishedManifest| private.is_by_path_alone() && !with.is_in(root);
        let mut covered = CoveredManifests::default();
        let numbers = numbers(private.dir())?;
        self.next = numbers.last().map_or(1, |last| last.saturating_add(1));
        let unfinished = numbers.iter().rev().map(|number| format!("{FINISHED}.{number}").into());
        for name in unfinished.chain([OsString::from(FINISHED)]) {
            let Some((file, _)) = private.dir().open_private_to_read(&name)? else { continue };
            let LoadedRecord { closed, index, body, doubted } =
                load(file, private.mark(), is_to_stop)?;
            // That of another disk, which was mounted there. What is known of this one its manifests say.
            let mut named = closed.manifest.iter().chain(&closed.later);
            if !closed.names_none() && named.all(is_of_another) {
                continue;
            }
            let is_finished = name == FINISHED && closed.fits;
            let body = body.filter(|body| is_finished && body.rows == closed.rows);
            if is_finished {
                let name = |it: FinishedManifest| ManifestName::parse(it.name.as_ref());
                let (last, later) = (closed.manifest.and_then(name), closed.later.and_then(name));
                covered = CoveredManifests { last, later };
            }
            let trusted = closed.fits && root.has_change_times();
            let held = index.bits();
            if name != FINISHED {
                self.refuted.extend(doubted.into_iter().filter(|inode| *inode > 0));
            }
            self.records.push(OpenRecord { name, index, trusted, held, body });
        }
        // An empty one says nothing, but that there was one: it goes with the others.
        Ok(covered)
    }

    /// The file at `path` is asked for next: what that takes of the indexes, and is in no cache of the processor, it
    /// fetches while the file system is asked: later runs over 500,000 files took 3.2 s of processor time, 3.5 without.
    pub fn prefetch(&self, path: &[u8], next: &NextLine) {
        self.records.iter().for_each(|record| record.index.prefetch(path, next));
    }

    /// The belief about the file at `path`, which is `there`. Whatever the answer, what stands of the path is settled.
    pub fn belief(&self, path: &[u8], there: &Stat) -> Belief {
        self.belief_near(path, there, &mut NextLine::default())
    }

    /// The same, where the files of a directory are asked for one after the other, with the same `next`.
    pub fn belief_near(&self, path: &[u8], there: &Stat, next: &mut NextLine) -> Belief {
        let mut found: Option<(Row, RowPlace)> = None;
        for (at, record) in self.records.iter().enumerate() {
            let row = record.row(path, next);
            found = found.or(row.map(|(row, line)| (row, RowPlace { record: at, line })));
        }
        let is_trusted = |place: RowPlace| self.records[place.record].trusted;
        let listed = self.open.listed(path);
        match (found, listed) {
            (Some((row, at)), _) if row.trace.looks_like(there) => {
                let newer = listed.and_then(|listed| other_than(&row, listed, || self.further(at)));
                match self.by_proof(row, || self.further(at)) {
                    Some(row)
                        if newer.is_none()
                            && !self.was_left_out(listed)
                            && is_trusted(at)
                            && self.proves(&row, there) =>
                    {
                        Belief::Untouched(row, at)
                    }
                    by_proof => {
                        let place = by_proof.is_some() && is_trusted(at);
                        let remembered = Remembered::by_record(by_proof.unwrap_or(row), newer);
                        Belief::Doubtful(Remembered { place: place.then_some(at), ..remembered })
                    }
                }
            }
            // The record may be that of an earlier version.
            (_, Some(listed)) => Belief::Doubtful(Remembered::in_the_open(listed.digest)),
            // Of another version, or of one that the newer run named, and left out.
            (Some((row, _)), None) if self.was_left_out(listed) => {
                Belief::Doubtful(Remembered::in_the_open(row.digest))
            }
            (_, None) => Belief::Nothing,
        }
    }

    /// The trace of the file at `path` in the newest record of this very output, asked for as in
    /// [`belief_near`](Self::belief_near). Nothing is settled by that.
    pub fn recorded_trace(&self, path: &[u8], next: &mut NextLine) -> Option<Trace> {
        let mut of_this_output = self.records.iter().filter(|record| record.trusted);
        let row = |it: &OpenRecord| it.index.peek_line(path, next, Row::read).ok()??;
        of_this_output.find_map(row).map(|row| row.trace)
    }

    /// The row of the file at `path` in the newest record of this very output, with the further digests of its content.
    fn newest_row(&self, path: &[u8]) -> Option<(Row, Vec<Digest>)> {
        let next = &mut NextLine::default();
        let row = |record: &OpenRecord| {
            let row = record.index.peek_line(path, next, |line, digest| {
                Some((Row::read(line, digest)?, row::further(line)))
            });
            row.ok().flatten().flatten()
        };
        self.records.iter().filter(|record| record.trusted).find_map(row)
    }

    /// The recorded digests of the file at `path`, whatever became of it, and where they are from.
    pub fn digests(&self, path: &[u8]) -> Option<(Digests, Origin)> {
        let (row, further) = self.newest_row(path)?;
        Some((Digests::new(row.digest, further), row.origin))
    }

    /// The one by this algorithm.
    pub fn digest(&self, path: &[u8], by: Algorithm) -> Option<(Digest, Origin)> {
        let (all, origin) = self.digests(path)?;
        Some((all.of(by)?, origin))
    }

    /// The same by the algorithm of the run that wrote it.
    pub fn any_digest(&self, path: &[u8]) -> Option<Digest> {
        Some(self.newest_row(path)?.0.digest)
    }

    /// The size of the content with this digest that a run left at `path`, if that is on record: a file of another size
    /// is something else.
    pub fn size_of(&self, path: &[u8], digest: &Digest) -> Option<u64> {
        self.trace_of(path, digest).map(|trace| trace.size)
    }

    /// The same with its times, as the run left it.
    pub fn trace_of(&self, path: &[u8], digest: &Digest) -> Option<Trace> {
        let (row, further) = self.row_of_known_size(path)?;
        let is_of_it = Digests::new(row.digest, further).of(digest.algorithm()) == Some(*digest);
        is_of_it.then_some(row.trace)
    }

    /// The digest on record of the file at `path`, if what a run left there had another size.
    pub fn digest_of_other_size(&self, path: &[u8], size: u64) -> Option<Digest> {
        let (row, _) = self.row_of_known_size(path)?;
        (row.trace.size != size).then_some(row.digest)
    }

    /// The row of the file at `path` whose size is that of its content, and the further digests of that. One in doubt
    /// that no run copied may have the digest of what a list had, beside what stood there.
    fn row_of_known_size(&self, path: &[u8]) -> Option<(Row, Vec<Digest>)> {
        let is_known =
            |row: &Row| row.trace != Trace::UNKNOWN && (row.sure || row.origin != Origin::There);
        self.newest_row(path).filter(|(row, _)| is_known(row))
    }

    /// The row at `place` still holds: the next record has it as it stands.
    pub fn hold(&self, place: RowPlace) {
        self.records[place.record].held.set(place.line.bit);
    }

    /// The further digests of the content in the row at `place`.
    pub fn further(&self, place: RowPlace) -> Vec<Digest> {
        self.records[place.record].further_at(place.line.offset)
    }

    /// The file at `path`, which is `there`, was read, and is not what its rows say, whatever its times: it is believed
    /// by none of its names any more, and its row there waits to be recorded as one in doubt.
    pub fn refute(&self, path: &[u8], there: &Stat) {
        self.refuted.extend([there.id.ino]);
        if let Some((row, further)) = self.newest_row(path).filter(|(row, _)| row.sure) {
            let row = Row { sure: false, ..row };
            self.refuted.put_row(|out| {
                row.write(out, &further, path);
            });
        }
    }

    /// True if the file that is there is the one of this row, as a run left it, and was not found to be another.
    pub fn proves(&self, row: &Row, there: &Stat) -> bool {
        row.proves(there) && !self.is_refuted(there)
    }

    /// True if the file that is there was found to be something else than recorded, or may have been.
    pub fn is_refuted(&self, there: &Stat) -> bool {
        self.refuted.has(there.id.ino)
    }

    /// Takes out the rows that are to be recorded as in doubt, and their number.
    pub fn take_refuted(&self) -> (Vec<u8>, u64) {
        self.refuted.take_rows()
    }

    /// The next record has a newer row for the file at `path`, whatever held.
    pub fn supersede(&self, path: &[u8]) {
        for record in &self.records {
            // One that cannot be read back cannot be copied either.
            let _ = record.index.each_line_of(path, |bit| record.held.clear(bit));
        }
    }

    /// The finished record, if it is the only one and every row of it is held.
    pub fn all_held(&self) -> Option<&Body> {
        let [OpenRecord { index, held, body: Some(body), .. }] = &self.records[..] else {
            return None;
        };
        let (rows, indexed) = (body.rows, index.len() as u64);
        (rows == indexed && held.count() as u64 == indexed).then_some(body)
    }

    /// Hands to `copy` the rows that are held, without their ends; those of the finished record last.
    ///
    /// # Errors
    /// A record cannot be read, or `copy` failed.
    pub fn each_held(&self, mut copy: impl FnMut(&[u8]) -> io::Result<()>) -> io::Result<()> {
        self.records.iter().try_for_each(|record| record.index.chosen(&record.held, &mut copy))
    }

    /// The run begins at this time, by the clock of the output's file system.
    pub fn begin(&self, at: Time) {
        // A run begins once.
        let _ = self.began.set(at);
    }

    /// True if a file that was last changed at `time`, and is read now, shows any later change in its times.
    pub fn is_past(&self, time: Time) -> bool {
        self.began.get().is_some_and(|began| time < *began)
    }

    /// True if there is a record of this very output.
    pub fn has_records(&self) -> bool {
        self.records.iter().any(|record| record.trusted)
    }

    /// True if a record lists a file at `path`.
    pub fn lists(&self, path: &[u8]) -> bool {
        self.records.iter().any(|record| record.index.lists(path))
    }

    /// True if a run copied the file at `path`, and did not only carry it over from an earlier list.
    pub fn has_copied(&self, path: &[u8]) -> bool {
        self.newest_row(path).is_some_and(|(row, _)| row.origin != Origin::There)
    }

    /// True if anything at all lists a file at `path`.
    pub fn has_heard_of(&self, path: &[u8]) -> bool {
        self.lists(path) || self.open.lists(path)
    }

    /// The same, or did before newer ones left it out.
    pub fn has_ever_heard_of(&self, path: &[u8]) -> bool {
        self.has_heard_of(path) || self.open.left_out_by(path).is_some()
    }

    /// True if the file at `path`, which is `there`, may be the one that a manifest listed before others left it out,
    /// because it had rotted: it was not modified since. Nothing else tells it from a file of others.
    pub fn may_have_left_out(&self, path: &[u8], there: &Stat) -> bool {
        !self.lists(path) && self.open.left_out_by(path).is_some_and(|by| is_before(there, &by))
    }

    /// The digest by the manifest that listed the file at `path`, which is `there`, before newer ones left it out, if
    /// it was not modified since that one: then it may have rotted.
    pub fn digest_left_out(&self, path: &[u8], there: &Stat) -> Option<Digest> {
        let (by, digest) = self.open.left_out(path).filter(|_| !self.open.lists(path))?;
        is_before(there, &by).then_some(digest)
    }

    /// Settles the rows of `path`: something newer is known about the file.
    pub fn settle(&self, path: &[u8]) {
        for record in &self.records {
            // One that cannot be read back is found out when what is unsettled is read.
            let _ = record.index.visit(path);
        }
        self.open.settle(path);
    }

    /// Nothing newer is known about `path` after all.
    pub fn reopen(&self, path: &[u8]) {
        for record in &self.records {
            let _ = record.index.forget_visit(path);
        }
        self.open.reopen(path);
    }

    /// Hands to `keep` every path that is not settled, and what is remembered of it; of several rows for
    /// a path, the newest. They end early once `is_to_stop` says so.
    ///
    /// # Errors
    /// A record cannot be read, or `keep` failed.
    pub fn unsettled(
        &self,
        is_to_stop: &dyn Fn() -> bool,
        mut keep: impl FnMut(&RelPath, Unsettled) -> Result<()>,
    ) -> Result<()> {
        for (at, record) in self.records.iter().enumerate() {
            let failed =
                |error| Error::io("read the private record", Path::new(&record.name), error);
            let mut rows = record.index.unvisited(is_to_stop);
            while let Some((path, digest, offset)) = rows.step().map_err(failed)? {
                if is_to_stop() {
                    return Ok(());
                }
                let bytes = path.as_bytes();
                for older in &self.records[at + 1..] {
                    older.index.visit(bytes).map_err(failed)?;
                }
                let listed = self.open.listed(bytes);
                let row = record.row_at(offset, digest);
                let unsettled = row.map(|row| {
                    let further = record.further_at(offset);
                    let newer =
                        listed.and_then(|listed| other_than(&row, listed, || further.clone()));
                    let by_proof = self.by_proof(row, || further.clone());
                    let remembered = Remembered::by_record(by_proof.unwrap_or(row), newer);
                    let is_refuted = self.refuted.has(row.trace.ino) || self.was_left_out(listed);
                    let trusted = record.trusted && by_proof.is_some() && !is_refuted;
                    let listed = listed.map(|listed| listed.digest);
                    Unsettled { remembered, trusted, further, listed, left_out_by: None }
                });
                keep(&path, unsettled.unwrap_or_else(|| Unsettled::in_the_open(digest)))?;
            }
        }
        self.open.unasked(is_to_stop, |path, digest, left_out_by| {
            keep(path, Unsettled { left_out_by, ..Unsettled::in_the_open(*digest) })
        })
    }

    /// Hands to `see` the rows that stand in records of this very output and are not settled, by the digest that the
    /// run proves with, until it says that it has enough.
    ///
    /// # Errors
    /// A record cannot be read.
    pub fn each_unsettled_row(
        &self,
        is_to_stop: &dyn Fn() -> bool,
        mut see: impl FnMut(RecordedAt, &Row) -> bool,
    ) -> io::Result<()> {
        for (number, record) in self.records.iter().enumerate().filter(|(_, it)| it.trusted) {
            let mut rows = record.index.unvisited(is_to_stop);
            while let Some((path, digest, offset)) = rows.step()? {
                if self.open.is_newer() && !self.open.lists(path.as_bytes()) {
                    continue;
                }
                let at = RecordedAt::new(number, offset);
                let row = record.row_at(offset, digest);
                let row = row.and_then(|row| self.by_proof(row, || record.further_at(offset)));
                if let (Some(at), Some(row)) = (at, row)
                    && !see(at, &row)
                {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// The path and the row at this place; by the digest that the run proves with.
    pub fn recorded(&self, at: RecordedAt) -> Option<(RelPath, Row)> {
        let record = self.records.get(at.record())?;
        let (path, digest) = record.index.record_at(at.offset()).ok().flatten()?;
        let row = record.row_at(at.offset(), digest)?;
        let row = self.by_proof(row, || record.further_at(at.offset()))?;
        Some((path, row))
    }

    /// The names of all manifests of runs that were cut short.
    pub fn unfinished(&self) -> impl Iterator<Item = ManifestName> {
        self.open.unfinished()
    }

    /// The newest manifest of ours there, finished or not.
    pub fn newest(&self) -> Option<ManifestName> {
        self.open.newest()
    }

    /// The number of the next record.
    pub fn next_number(&self) -> u64 {
        self.next.max(1)
    }

    /// Removes the records of runs that were cut short: what they say is in the finished one.
    ///
    /// # Errors
    /// One cannot be removed.
    pub fn remove_superseded(&self, private: &PrivateDir) -> io::Result<()> {
        let unfinished = self.records.iter().filter(|record| record.name != FINISHED);
        unfinished.into_iter().try_for_each(|record| private.dir().remove(&record.name))
    }
}

/// True if a file was not modified since the run of this manifest began.
pub fn is_before(there: &Stat, by: &ManifestName) -> bool {
    there.mtime.secs <= by.time().as_second()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hash::Sha256;
    use crate::state::Missing;
    use crate::state::Origin;
    use crate::state::{RecordFile, SeenAt};
    use std::fs;

    const FILES: [&str; 3] = ["a", "two words", "-"];

    /// An output with three files that a record lists, and what is known of it.
    fn known(root: &Path) -> (Dir, PrivateDir, Knowledge) {
        let dir = Dir::open(root).unwrap();
        let private = PrivateDir::open(&dir, root, None, Missing::Make).unwrap().unwrap();
        if !private.path().join(FINISHED).exists() {
            let mut record = RecordFile::create(&private, 1).unwrap();
            for name in FILES {
                fs::write(root.join(name), name).unwrap();
                let trace = Trace::of(&dir.stat(name.as_ref(), false).unwrap());
                let (digest, origin) = (Digest::sha256([7; 32]), Origin::Source);
                let mut line = Vec::new();
                let row = Row {
                    digest,
                    origin,
                    trace,
                    given: None,
                    sure: true,
                    late: false,
                    labelled: true,
                    seen: SeenAt::default(),
                    epoch: 0,
                };
                row.write(&mut line, &[], name.as_bytes());
                record.append(&line, 1).unwrap();
            }
            let name = "dircopy-x.sha256sum".to_owned();
            let manifest = FinishedManifest { name, digest: Sha256([9; 32]) };
            record.seal(&manifest, false).unwrap();
            record.publish(&private, false).unwrap();
        }
        let (known, warnings) = Knowledge::load(Some(&private), &dir, root, &|_| false, &|| false);
        assert!(warnings.is_empty());
        (dir, private, known)
    }

    fn place(known: &Knowledge, dir: &Dir, name: &str) -> RowPlace {
        match known.belief(name.as_bytes(), &dir.stat(name.as_ref(), false).unwrap()) {
            Belief::Untouched(_, place) => place,
            other => panic!("{name}: {other:?}"),
        }
    }

    fn held(known: &Knowledge) -> Vec<Vec<u8>> {
        let mut held = Vec::new();
        let keep = |row: &[u8]| {
            held.push(row.to_vec());
            Ok(())
        };
        known.each_held(keep).unwrap();
        held
    }

    #[test]
    fn rows_are_held_as_they_stand() {
        let root = tempfile::tempdir().unwrap();
        let (dir, private, known) = known(root.path());
        assert!(known.all_held().is_none() && held(&known).is_empty());
        let record = fs::read(private.path().join(FINISHED)).unwrap();
        let rows: Vec<&[u8]> =
            record.split(|&byte| byte == b'\n').filter(|line| line.starts_with(b"s")).collect();
        for (at, name) in FILES.iter().enumerate() {
            known.hold(place(&known, &dir, name));
            assert_eq!(held(&known), rows[..=at]);
            assert_eq!(known.all_held().is_some(), at == 2);
        }
        known.supersede(FILES[1].as_bytes());
        assert_eq!(held(&known), [rows[0], rows[2]]);
        assert!(known.all_held().is_none());
    }

    /// A run that was cut short knew more: its record goes into the next one, whatever holds.
    #[test]
    fn one_of_several_records_is_not_all() {
        let root = tempfile::tempdir().unwrap();
        let (dir, private, _) = known(root.path());
        RecordFile::create(&private, 2).unwrap();
        let (_, _, known) = known(root.path());
        FILES.iter().for_each(|name| known.hold(place(&known, &dir, name)));
        assert_eq!(held(&known).len(), 3);
        assert!(known.all_held().is_none());
    }
}
