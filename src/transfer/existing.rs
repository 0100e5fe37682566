//! A file that is at the output already: whether it is kept (`file`), its permissions, owner and attributes (`labels`),
//! a time that does not tell whether it is the source's (`late`), and what both sides hold where nothing is to be made
//! (`both`).

use std::io;

use crate::{
    error::Error, error::Result, event::Stop, hash::Algorithm, hash::Algorithms, hash::Digest,
    io::Durability, io::FileDigest, io::HashedFrom, io::ReadBack, io::WatchedFile, part::Transfer,
    state::Belief, state::Origin, state::Remembered, state::Row, state::RowPlace, state::SeenAt,
    sys, sys::Medium, sys::stat::Stat, transfer, transfer::Action, transfer::Context,
    transfer::KeptRow, transfer::Labels, transfer::Outcome, transfer::baseline::Baseline,
    transfer::prepare::ChainedCopy, transfer::prepare::CheckControl, transfer::rescue,
    tree::Decision, tree::OutputDir, tree::Policy, tree::SourceDir, tree::SourceEntry,
    volume::times::TimeMatch,
};

// A file that is at the output already, with the size and time of the source's: is it kept?
//
// A file that a private record shows to be untouched is kept unread; with `--verify` it is read from its
// medium. Any other is read, and so is the source where no run listed the file, or where its time may be another that
// the output shows alike: then content decides what the policies take for the same. If it is what was recorded, it is
// good. If it is not, the source is read too and decides: a copy that is not what the source is was damaged; a source
// that is not what was recorded, and whose copy is the same, was edited in both places. If all three differ, the file
// stays and is reported: a digest that was known is never replaced in silence. Where a manifest that is newer than the
// record lists another digest than that, both are known, and the source decides whatever is there.

/// A file, and what is known of its copy.
pub struct ExistingFile<'a> {
    /// The state that the run shares.
    pub context: &'a Context<'a>,
    pub transfer: &'a Transfer,
    /// The metadata of the output's file.
    pub there: &'a Stat,
    /// The records of earlier runs about it.
    pub belief: Belief,
    /// The digest of the source's file, if that was read already.
    pub source_digest: Option<Digest>,
    /// The decision if its content is not the source's, where equal times do not demand equal content.
    pub if_unlike: Option<Decision>,
}

impl Context<'_> {
    /// True if what is `there` is read from its device: that is asked for, or a check found it bad, and it may be good
    /// in memory still.
    pub fn reads_from_device(&self, there: &Stat) -> bool {
        let is_refuted = || self.shared.known.is_some_and(|known| known.is_refuted(there));
        self.options.asked.verifies_kept() || is_refuted()
    }
}

/// True if the digest in a row was never held against the source.
fn is_of_copy_alone(row: Row) -> bool {
    row.origin == Origin::There
}

impl ExistingFile<'_> {
    /// The action for the file; messages about it go to `warnings`.
    ///
    /// # Errors
    /// It, or the source if that had to be asked, could not be read, or changed meanwhile.
    pub fn check(&self, read_back: &mut ReadBack, warnings: &mut Vec<Error>) -> Result<Action> {
        let asked = &self.context.options.asked;
        // What is brought back is proven, whatever a record says of it.
        let reads = asked.verifies_kept() || asked.restore;
        let (stands, labels) = (*self.there, Labels::Same);
        let kept = |row, proof| Ok(Action::Settled(Outcome::Kept { stands, row, proof, labels }));
        match (self.belief, self.source_digest) {
            _ if asked.algorithm == Algorithm::None => {
                return kept(None, None);
            }
            (Belief::Untouched(row, place), source)
                if !reads
                    && (source.is_some() || !is_of_copy_alone(row))
                    && self.take_recorded(row.digest, place) =>
            {
                return match source {
                    None => kept(Some(KeptRow::Recorded(row, place)), None),
                    Some(source) if source != row.digest => Ok(self.unlike(&source)),
                    Some(same) => kept(Some(self.row(same, self.origin_of(same), true)), None),
                };
            }
            _ => {}
        }
        let ReadCopy { digest: found, hashed_from: proof, is_as_known, is_as_newest } =
            match self.hash_copy(read_back)? {
                CopyRead::Hashed(read) => read,
                CopyRead::Unreadable(error) => return Ok(copy_anew(error)),
                CopyRead::Abandoned => return Ok(Action::Settled(Outcome::Abandoned)),
            };
        // A digest of the copy alone says nothing of the source: size and time are no proof that it is the same.
        let asks_source = match self.belief.remembered() {
            None => rescue::expected_of(self.context, self.transfer) != Some(found),
            Some(known) => !is_as_known || known.row.is_some_and(is_of_copy_alone),
        };
        let source = match self.source_digest {
            None if asks_source => match self.hash_source(read_back)? {
                None => return Ok(Action::Settled(Outcome::Abandoned)),
                source => source,
            },
            source => source,
        };
        match source {
            Some(source) if source != found && self.is_known() && !is_as_known => {
                return Ok(match self.is_source(source, read_back)? {
                    Some(true) if self.shows_time_of_source() => self.differs(&source),
                    Some(true) => self.unlike(&source),
                    // As the newest list has it, where an older record has another: the source was edited since.
                    Some(false) if self.if_unlike.is_some() || is_as_newest => self.unlike(&source),
                    Some(false) => Action::Settled(Outcome::Left(ALL_DIFFER)),
                    None => Action::Settled(Outcome::Abandoned),
                });
            }
            Some(source) if source != found => return Ok(self.unlike(&source)),
            Some(_) if self.is_known() && !is_as_newest => warnings.push(self.is_new()),
            _ => {}
        }
        let origin = match (self.belief.remembered(), source) {
            (Some(remembered), None) => remembered.origin,
            _ => self.origin_of(found),
        };
        kept(
            Some(self.row(found, origin, source.is_some())),
            asked.verifies_kept().then_some(proof),
        )
    }

    /// True if the copy has the time that the output makes of the source's. One that is merely alike may be that of an
    /// edit at the output.
    fn shows_time_of_source(&self) -> bool {
        let target = &self.transfer.target;
        let compared = target.output.compare_times_alone(target.entry.stat.mtime, self.there.mtime);
        self.if_unlike.is_none() || compared == TimeMatch::Same
    }

    /// The origin to be recorded for a content that the source has, too.
    pub fn origin_of(&self, content: Digest) -> Origin {
        let path = self.transfer.target.rel_path();
        let is_edited = |it: &Baseline| it.has_edited(path.as_bytes());
        let was_edited = self.belief.remembered().is_some_and(|known| known.is_edit(content));
        match was_edited || self.context.shared.baseline.is_some_and(is_edited) {
            true => Origin::Edited,
            false => Origin::Source,
        }
    }

    /// True if an earlier run recorded a digest.
    pub fn is_known(&self) -> bool {
        self.belief != Belief::Nothing
    }

    /// True if no record says that it lacks permissions or attributes of the source's.
    pub fn is_labelled(&self) -> bool {
        match self.belief {
            Belief::Nothing => true,
            Belief::Untouched(row, _) => row.labelled,
            Belief::Doubtful(remembered) => remembered.is_labelled(),
        }
    }

    /// True if the record has everything that the list needs of the file. It waits to be listed then.
    fn take_recorded(&self, digest: Digest, place: RowPlace) -> bool {
        let context = self.context;
        let (Some(known), Some(_)) = (context.shared.known, context.further()) else { return true };
        let path = self.transfer.target.rel_path();
        context.take_recorded(path.as_bytes(), digest, known.further(place))
    }

    /// What is to be recorded of the source's file, which was read.
    pub fn seen_now(&self) -> SeenAt {
        let target = &self.transfer.target;
        let source = &target.entry.stat;
        target.output.seen_at(source, self.context.is_in_doubt(source))
    }

    /// The row to be recorded for the file, which was read, as was the source's if `is_compared`.
    fn row(&self, digest: Digest, origin: Origin, is_compared: bool) -> KeptRow {
        let Transfer { target, .. } = self.transfer;
        let trace = target.output.trace_of(&target.entry.stat, self.there);
        let sure = self.context.shared.known.is_some_and(|known| known.is_past(trace.ctime));
        let given = target.output.time_to_record(target.entry.stat.mtime, self.there.mtime);
        let labelled = self.is_labelled();
        let epoch = self.belief.remembered().map_or(0, |known| known.epoch(digest, &trace));
        let recorded = self.belief.row();
        let before = recorded.map_or_else(SeenAt::default, |row| row.seen);
        let seen = match is_compared {
            // Of the label nothing is known by that.
            true => self.seen_now().labelled_as(before),
            // It is what was recorded, perhaps by another algorithm.
            false => before,
        };
        let row = Row { digest, origin, trace, given, sure, late: false, labelled, seen, epoch };
        match self.belief {
            Belief::Untouched(recorded, place)
                if recorded == row && self.context.further().is_none() =>
            {
                KeptRow::Recorded(recorded, place)
            }
            _ => KeptRow::New(row),
        }
    }

    /// Reads and hashes what is there, from its medium where that is asked for. Where times do not tell that a file
    /// is being changed, it is read twice.
    ///
    /// # Errors
    /// It cannot be read, or changes meanwhile.
    pub fn hash_copy(&self, read_back: &mut ReadBack) -> Result<CopyRead> {
        let target = &self.transfer.target;
        let first = self.hash_copy_once(read_back)?;
        let CopyRead::Hashed(ReadCopy { digest, .. }) = first else { return Ok(first) };
        if target.output.keeps_times() {
            return Ok(first);
        }
        match self.hash_copy_once(read_back)? {
            CopyRead::Hashed(again) if again.digest != digest => {
                let finding = "its content changed while it was read";
                Err(Error::finding("read", target.path(), finding))
            }
            again => Ok(again),
        }
    }

    fn hash_copy_once(&self, read_back: &mut ReadBack) -> Result<CopyRead> {
        let Self { context, transfer, there, .. } = *self;
        let target = &transfer.target;
        let options = &context.options;
        let verify = context.reads_from_device(there);
        let path = || target.path();
        let Some(dir) = &target.output.handle else {
            return Err(Error::io("read", path(), io::ErrorKind::NotFound.into()));
        };
        let file = WatchedFile::open_copy(&target.output, dir, &target.entry.name, there, &path)?;
        let medium = || match verify {
            true => Medium::of(file.file(), there),
            false => Ok(Medium::any(file.file())),
        };
        let is_to_stop = || context.control.stop.is_urgent();
        // What is known may be by another algorithm than this run's.
        let known = self.belief.remembered();
        let by_known = |all: Algorithms, digest: Digest| all.with(digest.algorithm());
        let algorithms =
            known.iter().flat_map(Remembered::digests).fold(context.algorithms(), by_known);
        let alone = known.filter(|known| known.newer.is_none() && context.further().is_none());
        let alone = alone.map(|known| known.digest);
        let alone = alone.filter(|digest| digest.algorithm() == options.asked.algorithm);
        let proven = alone.and_then(|digest| {
            let (file, dir, bytes) = (file.file(), Some(dir), there.size);
            let copy = ChainedCopy { context, file, dir, digest: &digest, chain: None };
            let control = CheckControl { is_to_stop: &is_to_stop, on_read: &|_| () };
            let hashed_from = copy.prove(bytes, medium, control)?;
            let read = FileDigest { digest: Some(digest), bytes, hashed_from };
            Some((read, Some(digest.into())))
        });
        let hashed = match proven {
            Some(proven) => Ok(Some(proven)),
            None => medium().and_then(|it| read_back.hash_by(it, algorithms, is_to_stop)),
        };
        let (FileDigest { bytes, hashed_from, .. }, all) = match hashed {
            Ok(Some(hashed)) => hashed,
            Ok(None) => return Ok(CopyRead::Abandoned),
            Err(error) if verify && options.asked.policy != Policy::Never => {
                return Ok(CopyRead::Unreadable(file.error("read back", error)));
            }
            Err(error) => return Err(file.error("read", error)),
        };
        file.check(bytes)?;
        if options.durability == (Durability::Grouped { at_once: false }) {
            // It may have come here in any way.
            sys::persist_file(file.file()).map_err(|error| file.error("make durable", error))?;
        }
        let missing =
            || Error::finding("hash", path(), "it has no digest; this is a defect of dircopy");
        let all = all.ok_or_else(missing)?;
        let digest = all.of(options.asked.algorithm).ok_or_else(missing)?;
        let is = |digest: Digest| all.of(digest.algorithm()) == Some(digest);
        let is_as_known = known.is_some_and(|known| known.digests().all(is));
        let is_as_newest = known.is_some_and(|known| is(known.newest()));
        if let Some(records) = context.shared.known.filter(|_| known.is_some() && !is_as_known) {
            records.refute(target.rel_path().as_bytes(), there);
        }
        context.put_all(target.rel_path().as_bytes(), &all);
        Ok(CopyRead::Hashed(ReadCopy { digest, hashed_from, is_as_known, is_as_newest }))
    }

    /// Compares the source's file, which has the digest `source`, with the recorded digests: true if it has one of
    /// them; `None` if the run is to stop.
    pub fn is_source(&self, source: Digest, read_back: &mut ReadBack) -> Result<Option<bool>> {
        for known in self.belief.remembered().iter().flat_map(Remembered::digests) {
            if known.algorithm() == source.algorithm() {
                if known == source {
                    return Ok(Some(true));
                }
                continue;
            }
            let algorithms = Algorithms::default().with(known.algorithm());
            match transfer::hash_by(self.context, self.transfer, algorithms, read_back)? {
                None => return Ok(None),
                Some(hashed) if hashed.proof == known => return Ok(Some(true)),
                Some(_) => {}
            }
        }
        Ok(Some(false))
    }

    /// The digest of the source's file, if not told to stop.
    pub fn hash_source(&self, read_back: &mut ReadBack) -> Result<Option<Digest>> {
        let hashed = transfer::hash(self.context, self.transfer, read_back);
        hashed.map_err(|error: Error| match self.is_known() {
            false => error,
            true => error.with_note("; and its copy is not what an earlier run recorded"),
        })
    }

    /// The action if the content is not the source's, which has this digest: the source was edited, if its time may be
    /// another.
    fn unlike(&self, source: &Digest) -> Action {
        match self.if_unlike {
            Some(Decision::Replace) => Action::Copy { replaces: true, warning: None },
            Some(Decision::Leave(why)) => Action::Settled(Outcome::Left(why)),
            _ => self.differs(source),
        }
    }

    /// The action if the content is not the source's, which has this digest, and was.
    pub fn differs(&self, source: &Digest) -> Action {
        if self.context.options.asked.policy == Policy::Never {
            let why = "its content differs although size and time are the same, \
                       and nothing is to be replaced";
            return Action::Settled(Outcome::Left(why));
        }
        let finding = "its content differs although size and time are the same";
        let target = &self.transfer.target;
        let error = Error::finding("keep", target.path(), finding);
        let dir = target.output.handle.as_ref();
        let file = dir.and_then(|dir| dir.open_file(&target.entry.name, false).ok());
        copy_anew(match file {
            Some(file) => {
                let (context, file, digest) = (self.context, &file, source);
                ChainedCopy { context, file, dir, digest, chain: None }.with_place(error)
            }
            None => error,
        })
    }

    /// The message that a digest takes the place of one that was known.
    pub fn is_new(&self) -> Error {
        let finding = "its content is not what an earlier run recorded; the source has the same \
                       content now, so its new digest is listed";
        Error::finding("keep the recorded digest of", self.transfer.target.path(), finding)
    }
}

/// The result of reading a copy.
pub enum CopyRead {
    /// To its end.
    Hashed(ReadCopy),
    /// It cannot be read from its medium.
    Unreadable(Error),
    /// The run is to stop.
    Abandoned,
}

/// A copy that was read to its end.
#[derive(Clone, Copy, Debug)]
pub struct ReadCopy {
    /// The digest by the algorithm that the run proves with.
    pub digest: Digest,
    /// Where its content came from.
    pub hashed_from: HashedFrom,
    /// True if it has every digest that an earlier run recorded; there may be none.
    pub is_as_known: bool,
    /// True if it has the newest one.
    pub is_as_newest: bool,
}

const ALL_DIFFER: &str = "it is neither what an earlier run recorded nor what the source is now, \
                          although size and time are the same";

fn copy_anew(damage: Error) -> Action {
    Action::Copy { replaces: true, warning: Some(damage.of_copied_anew()) }
}

// Reading a file and its copy for their digests, where nothing is to be made: the content decides what times do not
// tell.

/// A file on both sides.
pub struct BothFiles<'a> {
    pub source: &'a SourceDir,
    pub output: &'a OutputDir,
    pub entry: &'a SourceEntry,
    /// The metadata of the output's file.
    pub there: &'a Stat,
}

/// The digests of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BothDigests {
    pub source: Digest,
    pub copy: Digest,
}

impl BothFiles<'_> {
    /// Reads both, the source through links if it is to `follow` them; `None` if the run is to stop.
    ///
    /// # Errors
    /// One cannot be read, or changes meanwhile.
    pub fn hash(
        &self,
        algorithm: Algorithm,
        follow: bool,
        stop: &Stop,
    ) -> Result<Option<BothDigests>> {
        let Self { source, output, entry, there } = *self;
        let path = || output.path_of(&entry.name);
        let Some(dir) = &output.handle else {
            return Err(Error::io("read", path(), std::io::ErrorKind::NotFound.into()));
        };
        let hash = |file: &WatchedFile<'_>| {
            let medium = Medium::any(file.file());
            let hashed = ReadBack::new().hash(medium, algorithm, || stop.is_urgent(), |_| ());
            let Some(hashed) = hashed.map_err(|error| file.error("read", error))? else {
                return Ok(None);
            };
            file.check(hashed.bytes)?;
            Ok(hashed.digest)
        };
        let copy = hash(&WatchedFile::open_copy(output, dir, &entry.name, there, &path)?)?;
        let path = || source.path_of(&entry.name);
        let file = WatchedFile::open(&source.handle, &entry.name, follow, &entry.stat, &path)?;
        Ok(hash(&file)?.zip(copy).map(|(source, copy)| BothDigests { source, copy }))
    }
}
