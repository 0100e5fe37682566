//! Lines of earlier runs for files that this one did not come upon: they left the source, or could not be
//! copied and stayed.
//!
//! A manifest is of the whole output. A file that is as it was recorded stays listed. One in doubt is read, and under
//! `--verify` every one, because a run that reads back what it lists lists nothing unread. It stays listed if its
//! digest is the recorded one. If it is not, the line is dropped and that is said; the private record keeps the
//! digest, also one that was known from a manifest in the open, so that every later run says it again until the file
//! is what it was, or is gone.

use std::{collections::HashSet, io, sync::Arc};

use crate::{
    copy::commit::Committer, copy::mirror::departures::Departures, copy::record::PendingRows,
    copy::record::Recording, error::Deed, error::Error, error::Result, error::is_absent,
    hash::Algorithm, hash::Algorithms, hash::Digest, hash::Digests, io::ReadBack, io::WatchedFile,
    manifest::Readers, manifest::archive::mhl::is_chain, manifest::lists, path::RelPath,
    state::Knowledge, state::LeavingFile, state::PrivateDir, state::Remembered, state::Row,
    state::Trace, state::Unsettled, state::each_leaving, state::is_before, sys, sys::Dir,
    sys::Medium, sys::stat::Kind, sys::stat::Stat, transfer::Context, tree::LastDir,
    tree::OutputDir, tree::SourceDir, volume::OtherSpellings, volume::alike::sameness,
    volume::times::TimeMatch,
};

/// Number of bytes of lines that are written at a time.
const LINE_BYTES: usize = 1 << 20;

/// What becomes of a file that has rotted: it leaves, …
const GOES: &str = "; it leaves the output, as it has left the source";

/// … or waits to be mended.
const STAYS: &str = "; heal mends it from parity or another copy";

/// … and if its digest is known from a list alone: how the file stood is not known, so heal wants to be told.
const STAYS_BY_LIST: &str =
    "; heal -m, with the list that has it, mends it from parity or another copy";

/// … or is still in the source, and the run compares no contents.
const COPIED_ANEW: &str = "; a run without --hash none copies it anew from the source";

/// Why a file is listed no more whose size or time is not that on record.
const CHANGED: &str = "it was changed after an earlier run recorded it";

/// The fate of a file that this run did not come upon.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fate {
    Stays,
    /// It is about to leave the output.
    Goes,
}

impl Committer<'_> {
    /// Lists what is not settled and still holds. Not all of it once the run is to stop: then the manifest
    /// stays unfinished, and the earlier ones stay too.
    ///
    /// Carries over the lines of earlier runs, but those of `departures`, which are to leave the output and are listed
    /// no more. Only a piece that this run lists, or something in it, does not leave: the walk saw it in the source,
    /// before or after the look that missed it, and the next run decides anew. Returns these pieces.
    pub(crate) fn carry_over(
        &mut self,
        departures: Option<&Departures>,
        source: Option<&SourceDir>,
    ) -> Result<HashSet<RelPath>> {
        let Some(departures) = departures.filter(|it| !it.is_empty()) else {
            return self.carry(source, &|_| Some(Fate::Stays)).map(|()| HashSet::new());
        };
        let root = Arc::clone(self.root());
        let piece = |path: &RelPath| departures.piece_over(path, root.handle.as_ref());
        self.carry(source, &|path| piece(path).is_none().then_some(Fate::Stays))?;
        let mut stay = HashSet::new();
        if let Some(manifest) = &mut self.manifest {
            let stop = self.context.control.stop;
            let named = |list| departures.named_in(list, root.handle.as_ref(), stop);
            let named = manifest.open_so_far().and_then(named);
            stay = named.deed_at("read the manifest", || manifest.path())?;
        }
        let fate = |piece: RelPath| if stay.contains(&piece) { Fate::Stays } else { Fate::Goes };
        self.carry(source, &|path| piece(path).map(fate))?;
        Ok(stay)
    }

    /// Deals with what is not settled, as far as `fate` knows what becomes of it.
    fn carry(
        &mut self,
        source: Option<&SourceDir>,
        fate: &dyn Fn(&RelPath) -> Option<Fate>,
    ) -> Result<()> {
        let (Some(known), Some(_), Some(_)) =
            (self.context.shared.known, &self.root().handle, &self.manifest)
        else {
            return Ok(());
        };
        let stop = self.context.control.stop;
        let root = Arc::clone(self.root());
        let mut carried = CarriedLines::new(self.context, &root, source);
        carried.is_all_listed = self.accounting.counts.is_whole();
        let is_to_stop = || stop.is_requested();
        known.unsettled(&is_to_stop, |path, unsettled| {
            fate(path).map_or(Ok(()), |fate| self.carry_file(&mut carried, path, unsettled, fate))
        })?;
        if let Some(private) = self.recording.as_ref().map(Recording::private) {
            each_leaving(private, &is_to_stop, |LeavingFile { path, remembered, further }| {
                let is_gone = |carried: &mut CarriedLines<'_>| {
                    carried.stat(&path).is_err_and(|error| is_absent(&error))
                };
                if known.has_ever_heard_of(path.as_bytes())
                    || carried.is_in_source(&path)
                    || is_gone(&mut carried)
                {
                    return Ok(());
                }
                let (trusted, listed, left_out_by) = (false, None, None);
                let unsettled = Unsettled { remembered, trusted, further, listed, left_out_by };
                fate(&path)
                    .map_or(Ok(()), |fate| self.carry_file(&mut carried, &path, unsettled, fate))
            })?;
        }
        self.write_carried(&mut carried)?;
        self.accounting.counts.reused_lines += carried.number;
        Ok(())
    }

    /// A run that lists nothing names all the same what earlier ones found to be something else than recorded: what has
    /// left the source, as no other run may come before that is moved away, and what this run found there and took for
    /// the source's by its size and time. Where change times tell nothing, every row is in doubt, and no file is read
    /// for this.
    pub(crate) fn name_decayed(
        &mut self,
        private: &PrivateDir,
        departures: Option<&Departures>,
        source: Option<&SourceDir>,
    ) -> Result<()> {
        let (root, stop) = (Arc::clone(self.root()), self.context.control.stop);
        let (Some(handle), is_to_stop) = (&root.handle, || stop.is_requested()) else {
            return Ok(());
        };
        let known = Knowledge::of_records(private, handle, &is_to_stop);
        let mut carried = CarriedLines::new(self.context, &root, source);
        known.unsettled(&is_to_stop, |path, unsettled| {
            let row = unsettled.remembered.row.filter(|row| !row.sure && known.has_records());
            let Some(row) = row else { return Ok(()) };
            // What this run copied is another file.
            let is_as_recorded = |there: Stat| there.id.ino == row.trace.ino;
            if carried.is_in_source(path) && !carried.stat(path).is_ok_and(is_as_recorded) {
                return Ok(());
            }
            carried.goes = departures.is_some_and(|it| it.piece_over(path, Some(handle)).is_some());
            match carried.carry(path, unsettled) {
                CarryResult::Decayed(warning) => {
                    self.accounting.counts.decayed += 1;
                    self.accounting.warn(&warning);
                }
                CarryResult::Unread(error) => self.accounting.failed(&error),
                CarryResult::Settled | CarryResult::Gone | CarryResult::Dropped(_) => {}
            }
            Ok(())
        })
    }

    /// Deals with a file that this run did not come upon.
    fn carry_file(
        &mut self,
        carried: &mut CarriedLines<'_>,
        path: &RelPath,
        unsettled: Unsettled,
        fate: Fate,
    ) -> Result<()> {
        // The run goes on with the chain of a history, and does not list it.
        if self.context.options.histories && is_chain(path.as_bytes()) {
            self.accounting.counts.dropped_lines += 1;
            return Ok(());
        }
        let was_left_out = unsettled.left_out_by.is_some();
        // Of a mirror it left the output, and what came since and has its name is a file of others.
        if let Some(by) = unsettled.left_out_by
            && self.is_mirror
            && !carried.is_in_source(path)
            && !carried.stat(path).is_ok_and(|there| is_before(&there, &by))
        {
            return Ok(());
        }
        carried.goes = fate == Fate::Goes;
        match carried.carry(path, unsettled) {
            CarryResult::Settled if fate == Fate::Stays => {}
            CarryResult::Gone if was_left_out => {}
            CarryResult::Settled | CarryResult::Gone => {
                self.accounting.counts.dropped_lines += 1;
            }
            CarryResult::Dropped(warning) => self.accounting.warn(&warning),
            CarryResult::Unread(error) => self.accounting.failed(&error),
            CarryResult::Decayed(warning) => {
                self.record_refuted();
                self.accounting.counts.decayed += 1;
                self.accounting.warn(&warning);
            }
        }
        match carried.lines.len() >= LINE_BYTES {
            true => self.write_carried(carried),
            false => Ok(()),
        }
    }

    fn write_carried(&mut self, carried: &mut CarriedLines<'_>) -> Result<()> {
        let Some(manifest) = &mut self.manifest else { return Ok(()) };
        manifest.append(&carried.lines)?;
        manifest.append_to_lists(&carried.lists)?;
        manifest.readers.join(carried.readers);
        carried.lines.clear();
        carried.lists.clear();
        let lacking = std::mem::take(&mut carried.lacking);
        lacking.into_iter().for_each(|finding| self.accounting.tell_lacking(Some(finding)));
        let append = |recording: &mut Recording<'_>| recording.append(&mut carried.rows, manifest);
        let failed = self.recording.as_mut().and_then(append);
        self.not_recorded(failed);
        Ok(())
    }
}

/// The lines that are carried over.
struct CarriedLines<'a> {
    context: &'a Context<'a>,
    root: &'a OutputDir,
    lines: Vec<u8>,
    /// The text for the lists beside the manifest, and messages about them.
    lists: Vec<Vec<u8>>,
    lacking: Vec<String>,
    rows: PendingRows,
    number: u64,
    read_back: ReadBack,
    last: LastDir,
    source: Option<&'a SourceDir>,
    /// The source's names in other spellings.
    spellings: Option<OtherSpellings<'a>>,
    /// True if everything that is in the source is listed.
    is_all_listed: bool,
    /// True if the present file is about to leave the output: it is held against the record, and not listed.
    goes: bool,
    /// Who may read what is carried over, and the directory of which that is known.
    readers: Readers,
    way: Option<Vec<u8>>,
}

/// The result for a line of an earlier run.
enum CarryResult {
    /// It stays, or the run is to stop.
    Settled,
    /// The file left on purpose.
    Gone,
    /// It is listed no more.
    Dropped(Error),
    /// The same, because the file has rotted.
    Decayed(Error),
    /// The same, because it is there and could not be read.
    Unread(Error),
}

impl CarryResult {
    fn unread(error: Error) -> Self {
        Self::Unread(error.with_note("; it is not listed until it can be read and is as recorded"))
    }
}

impl<'a> CarriedLines<'a> {
    fn new(context: &'a Context<'a>, root: &'a OutputDir, source: Option<&'a SourceDir>) -> Self {
        let spellings =
            source.map(|source| OtherSpellings::new(&source.handle, context.options.follow));
        Self {
            context,
            root,
            lines: Vec::new(),
            lists: Vec::new(),
            lacking: Vec::new(),
            rows: PendingRows::default(),
            number: 0,
            read_back: ReadBack::new(),
            last: LastDir::default(),
            source,
            spellings,
            is_all_listed: false,
            goes: false,
            readers: Readers::default(),
            way: None,
        }
    }

    /// Takes over what is remembered of the file at `path`, if it still holds.
    fn carry(&mut self, path: &RelPath, unsettled: Unsettled) -> CarryResult {
        let Unsettled { mut remembered, trusted, further, listed, left_out_by } = unsettled;
        let (goes, was_left_out) = (self.goes, left_out_by.is_some());
        let dropped = |finding: &'static str| match goes || was_left_out {
            true => CarryResult::Gone,
            false => {
                let path = self.root.path_below(path);
                CarryResult::Dropped(Error::finding("list any longer", path, finding))
            }
        };
        let there = match self.stat(path) {
            Ok(there) if there.kind == Kind::File => there,
            Ok(_) => return dropped("an earlier run recorded it, and it is no longer a file"),
            Err(error) if is_absent(&error) && self.context.options.pruned => {
                return CarryResult::Gone;
            }
            Err(error) if is_absent(&error) => {
                return dropped("an earlier run recorded it, and it is no longer there");
            }
            Err(error) => {
                self.remember(path, remembered);
                return CarryResult::unread(Error::io(
                    "look at",
                    self.root.path_below(path),
                    error,
                ));
            }
        };
        if self.is_all_listed && self.is_respelled(path, &there) {
            return CarryResult::Gone;
        }
        let is_untouched = |row: &Row| trusted && row.sure && row.trace.is_of(&there);
        let (is_read, mut is_edited) = (self.context.options.asked.verifies_kept(), false);
        if let Some(row) = remembered.row {
            if !is_read
                && remembered.newer.is_none()
                && is_untouched(&row)
                && (goes
                    || self.context.take_recorded(path.as_bytes(), row.digest, further.clone()))
            {
                self.note_readers(path, &there);
                self.keep(path, row, &further, false);
                return CarryResult::Settled;
            }
            match listed {
                _ if self.looks_like(&row, &there) => {}
                // The record may be that of an earlier version.
                Some(digest) => remembered = Remembered::in_the_open(digest),
                // What this run has named later ones are to name, too.
                None if self.context.shared.known.is_some_and(|it| it.is_refuted(&there)) => {
                    remembered = Remembered::in_the_open(row.digest);
                }
                None if self.is_respelled(path, &there) => return CarryResult::Gone,
                // It leaves for good, or is to be proven: whether it is only its time that changed is read.
                None if goes => {}
                None if is_read => is_edited = true,
                None => return dropped(CHANGED),
            }
        }
        match self.read(path, &there, &remembered) {
            Ok(Some(all)) if is_as_remembered(&all, &remembered, is_untouched) => {
                let row = self.row_of_read(&remembered, all.proof, &there);
                self.note_readers(path, &there);
                self.keep(path, row, &[], true);
                CarryResult::Settled
            }
            Ok(Some(_)) if self.is_respelled(path, &there) => CarryResult::Gone,
            Ok(Some(_)) if is_edited => dropped(CHANGED),
            Ok(Some(_)) => self.decayed(path, remembered, &there),
            // The run is to stop.
            Ok(None) => CarryResult::Settled,
            Err(error) => {
                self.remember(path, remembered);
                CarryResult::unread(error)
            }
        }
    }

    /// A file that was read, is `there` and has another content than is remembered.
    fn decayed(&mut self, path: &RelPath, remembered: Remembered, there: &Stat) -> CarryResult {
        let known = self.context.shared.known;
        known.iter().for_each(|known| known.refute(path.as_bytes(), there));
        self.remember(path, remembered);
        let lists_nothing = self.context.options.asked.algorithm == Algorithm::None;
        // The size and time that it had are not always known.
        let why = "its content is not what an earlier run recorded, and this run did not copy it";
        let error = Error::finding("list any longer", self.root.path_below(path), why);
        CarryResult::Decayed(error.with_note(match remembered.row {
            _ if self.goes => GOES,
            _ if lists_nothing && self.is_in_source(path) => COPIED_ANEW,
            Some(_) => STAYS,
            None => STAYS_BY_LIST,
        }))
    }

    /// The row of a file that was read, has this digest and is as it is remembered.
    fn row_of_read(&self, remembered: &Remembered, digest: Digest, there: &Stat) -> Row {
        let trace = Trace::of(there);
        let sure = self.context.shared.known.is_some_and(|it| it.is_past(trace.ctime));
        let Remembered { origin, late, .. } = *remembered;
        let given = remembered.row.filter(|row| !row.late && row.trace != Trace::UNKNOWN);
        let given = given.and_then(|row| {
            let is_other = row.trace.mtime != trace.mtime;
            row.given.or(is_other.then_some(row.trace.mtime))
        });
        let (labelled, epoch) = (remembered.is_labelled(), remembered.epoch(digest, &trace));
        let seen = remembered.row.map(|row| row.seen).unwrap_or_default();
        Row { digest, origin, trace, given, sure, late, labelled, seen, epoch }
    }

    fn is_in_source(&self, path: &RelPath) -> bool {
        let (mut last, follow) = (LastDir::default(), self.context.options.follow);
        self.source.is_some_and(|source| last.stat(&source.handle, path, follow).is_ok())
    }

    /// True if the source has the entry at `path` by another spelling, which this output takes for the same: it is
    /// listed by that. What cannot be looked at is not.
    fn is_respelled(&mut self, path: &RelPath, there: &Stat) -> bool {
        let (Some(spellings), Some(root), Some((above, _))) =
            (&mut self.spellings, &self.root.handle, path.split())
        else {
            return false;
        };
        let folds_by_itself = |dir: &Dir| dir.folds_by_itself();
        if !self.root.volume.folds_names()
            && !self.last.enter(root, &above).is_ok_and(folds_by_itself)
        {
            return false;
        }
        let others = spellings.of(path).unwrap_or_default();
        let is_same = |now: Stat| now.id == there.id || sameness(&now) == sameness(there);
        others.iter().any(|other| self.last.stat(root, other, false).is_ok_and(is_same))
    }

    /// True if the entry that is there may be the file of `row`, as far as its size and its time tell: the time may
    /// have moved, or be another since the file system was mounted anew, and on some it tells nothing.
    fn looks_like(&self, row: &Row, there: &Stat) -> bool {
        let has_time = || {
            let compared = self.root.compare_times(row.trace.mtime, there.mtime, None);
            compared != TimeMatch::Other
        };
        row.trace == Trace::UNKNOWN
            || row.trace.size == there.size && (!self.root.keeps_times() || has_time())
    }

    /// Notes who may read the file at `path`, which is `there`: the source does not tell any more.
    fn note_readers(&mut self, path: &RelPath, there: &Stat) {
        if self.goes {
            return;
        }
        self.readers.note(there);
        let Some((above, _)) = path.split().filter(|_| self.readers != Readers::Owner) else {
            return;
        };
        if self.way.as_deref() == Some(above.as_bytes()) {
            return;
        }
        self.way = Some(above.as_bytes().to_vec());
        match &self.root.handle {
            Some(root) => self.readers.note_way(root, &above),
            None => self.readers = Readers::Owner,
        }
    }

    /// Lists a file, of which these further digests were recorded, and which was read if `is_read`.
    fn keep(&mut self, path: &RelPath, row: Row, recorded: &[Digest], is_read: bool) {
        if self.goes {
            return;
        }
        self.number += 1;
        let bytes = path.as_bytes();
        lists::write_path(&mut self.lines, &row.digest, bytes);
        let waiting = self.context.shared.further;
        let content = waiting.and_then(|it| it.take(bytes, row.trace.size, row.digest, is_read));
        let computed = content.as_ref().and_then(|content| content.digests.further.as_deref());
        // What was recorded has all that is asked for, and perhaps more.
        let further = if recorded.is_empty() { computed.unwrap_or_default() } else { recorded };
        self.rows.push(&row, further, bytes, false);
        if let Some(waiting) = waiting {
            self.lacking.extend(waiting.list(&mut self.lists, content.as_ref(), bytes));
        }
        self.carry_chain(path, &row);
    }

    /// The record keeps the digest of a file that is not listed, and stays.
    fn remember(&mut self, path: &RelPath, remembered: Remembered) {
        if self.goes {
            return;
        }
        let row = remembered.row_in_doubt();
        self.rows.push(&row, &[], path.as_bytes(), false);
        self.carry_chain(path, &row);
    }

    /// Takes over the known chain of the content of a file, by which checks are fast and heal mends places.
    fn carry_chain(&self, path: &RelPath, row: &Row) {
        if let Some(states) = self.context.shared.states {
            states.carry(path.as_bytes(), row.trace.size, &row.digest);
        }
    }

    fn stat(&mut self, path: &RelPath) -> io::Result<Stat> {
        let root = self.root.handle.as_ref().ok_or(io::ErrorKind::NotFound)?;
        self.last.stat(root, path, false)
    }

    /// Reads a file by what this run lists and by the algorithms of what is known; twice where times do not tell that
    /// it is being changed.
    fn read(
        &mut self,
        path: &RelPath,
        there: &Stat,
        known: &Remembered,
    ) -> Result<Option<Digests>> {
        let first = self.read_once(path, there, known)?;
        let Some(digest) = first.as_ref().map(|first| first.proof) else { return Ok(None) };
        if self.root.keeps_times() {
            return Ok(first);
        }
        match self.read_once(path, there, known)? {
            Some(again) if again.proof != digest => {
                let finding = "its content changed while it was read";
                Err(Error::finding("read", self.root.path_below(path), finding))
            }
            again => Ok(again),
        }
    }

    /// Reads a file; `None` if the run is to stop.
    fn read_once(
        &mut self,
        path: &RelPath,
        there: &Stat,
        known: &Remembered,
    ) -> Result<Option<Digests>> {
        let (context, output) = (self.context, self.root);
        let full = || output.path_below(path);
        let mut read_back = std::mem::take(&mut self.read_back);
        let fail = |error| Error::io("read", full(), error);
        let missing = || fail(io::ErrorKind::NotFound.into());
        let (Some(root), Some((above, name))) = (&output.handle, path.split()) else {
            return Err(missing());
        };
        let dir = self.last.enter(root, &above).map_err(fail)?;
        let name = sys::name_from_bytes(name).map_err(fail)?;
        let file = WatchedFile::open_copy(output, dir, name, there, &full)?;
        let is_to_stop = || context.control.stop.is_requested();
        let by_known = |all: Algorithms, known: Digest| all.with(known.algorithm());
        let algorithms = known.digests().fold(context.algorithms(), by_known);
        let medium = match context.reads_from_device(there) {
            true => Medium::of(file.file(), there).map_err(|error| file.error("read", error))?,
            false => Medium::any(file.file()),
        };
        let hashed = read_back.hash_by(medium, algorithms, is_to_stop);
        self.read_back = read_back;
        let Some((hashed, all)) = hashed.map_err(|error| file.error("read", error))? else {
            return Ok(None);
        };
        file.check(hashed.bytes)?;
        let Some(all) = all else { return Ok(None) };
        if !self.goes {
            context.put_all(path.as_bytes(), &all);
        }
        Ok(Some(all.proven_by(context.options.asked.algorithm)))
    }
}

/// True if a file that was read is as it is remembered. Where a newer manifest lists another digest than the record,
/// and the source is not there to tell, the record is right only about a file that is untouched since.
fn is_as_remembered(
    all: &Digests,
    remembered: &Remembered,
    is_untouched: impl Fn(&Row) -> bool,
) -> bool {
    let is = |digest: Digest| all.of(digest.algorithm()) == Some(digest);
    remembered.digests().all(is)
        || is(remembered.digest) && remembered.row.is_some_and(|row| is_untouched(&row))
}
