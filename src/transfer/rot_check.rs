//! The verdict on a file that differs from the baseline: it was edited, or has rotted.
//!
//! An edit changes a file's size or time, rot changes neither. A manifest knows no times, so there are
//! two witnesses for what these were. The copy at the output, if it is what the manifest lists: it has
//! the size and time that the file had then, where it is clear which time it was given. Otherwise the manifest
//! itself: a file that has another digest, and was not modified since the manifest was written, was changed by no
//! program that sets times. What has rotted is not copied, and whatever is at the output stays.
//!
//! Once an edit was copied the first witness is gone. So the record says of its content that it was one, and a later
//! run comes to the same end.

use std::path::PathBuf;

use crate::{
    error::Error, error::Result, hash::Algorithm, hash::Algorithms, hash::Digest, hash::Digests,
    io::Durability, io::ReadBack, io::WatchedFile, manifest::Lookup, manifest::NextLine,
    part::Transfer, part::content::CopyTarget, path::RelPath, path::Shown, state::Belief,
    state::Origin, state::Remembered, state::Row, sys, sys::Medium, sys::stat::Kind,
    sys::stat::Stat, transfer, transfer::Context, transfer::Outcome, transfer::baseline::Baseline,
    transfer::prepare::belief, tree::SourceDir, tree::SourceEntry, tree::SourceStat,
    volume::times::TimeMatch,
};

/// True if the baseline lists a file, so that it has to be read.
pub fn is_listed(context: &Context<'_>, target: &CopyTarget) -> Result<bool> {
    let Some(baseline) = context.shared.baseline else { return Ok(false) };
    let listed = baseline.listed(target.rel_path().as_bytes())?;
    Ok(!matches!(listed, Lookup::Nothing))
}

/// The outcome of a file that has another size than is on record for what is listed: it is not read.
pub fn other_size(context: &Context<'_>, transfer: &Transfer) -> Option<Outcome> {
    let baseline = context.shared.baseline?;
    let (path, size) = (transfer.target.rel_path(), transfer.entry().stat.size);
    match refuse_size(baseline, &path, size, true, &|| transfer.source_path()) {
        Ok(error) => Some(Outcome::Rotten { error: error?, stands: None, origin: Origin::There }),
        Err(error) => Some(Outcome::Failed(error)),
    }
}

/// Why a file of this size, whose full path is `from`, is not what is listed of it, if the size on record is another;
/// of a small one that `is_read` that is not asked.
fn refuse_size(
    baseline: &Baseline,
    path: &RelPath,
    size: u64,
    is_read: bool,
    from: &dyn Fn() -> PathBuf,
) -> Result<Option<Error>> {
    let Some(recorded) = baseline.other_size(path.as_bytes(), size, is_read)? else {
        return Ok(None);
    };
    baseline.visit(path.as_bytes())?;
    let finding = format!("size {size}, on record {recorded}; it is not copied");
    Ok(Some(Error::finding("copy", from(), finding)))
}

/// The verdict on a file of the source as far as it is known without reading it, as in a dry run: why it has rotted, if
/// it has.
///
/// # Errors
/// That cannot be said.
pub fn foretell(
    baseline: &Baseline,
    source: &SourceDir,
    entry: &SourceEntry,
) -> Result<Option<Error>> {
    let path = source.rel.join(&entry.name);
    let from = || source.path_of(&entry.name);
    let rotten = refuse_size(baseline, &path, entry.stat.size, false, &from)?;
    if rotten.is_none() {
        let listed = baseline.listed(path.as_bytes())?;
        baseline.visit(path.as_bytes())?;
        if matches!(listed, Lookup::Unclear) {
            return Err(unclear(baseline, from()));
        }
    }
    Ok(rotten)
}

/// What is told of a file of an output that no list has, and that is not as recorded, …
const IS_ROTTEN: &str = "it has rotted: it is not what an earlier run recorded; it is not copied";

/// … or as an earlier list has it.
const MAY_BE_ROTTEN: &str = "it may have rotted: an earlier list there has it with another digest, the newest has it no \
                             more, and it was not modified since; it is not copied: where it is wanted, copy it by hand";

/// The outcome of a file that was read and has this digest, if it must not be copied: it has rotted, or that could not
/// be found out.
pub fn check(
    context: &Context<'_>,
    transfer: &Transfer,
    digest: Option<Digest>,
) -> Option<Outcome> {
    let (baseline, digest) = (context.shared.baseline?, digest?);
    let path = transfer.target.rel_path();
    let checked = match baseline.listed(path.as_bytes()) {
        Ok(Lookup::Nothing) => {
            let recorded = baseline.recorded(&path).map(|(recorded, _)| (recorded, IS_ROTTEN));
            let left_out = || baseline.left_out(&path, &transfer.entry().stat);
            let (recorded, finding) =
                recorded.or_else(|| Some((left_out()?.into(), MAY_BE_ROTTEN)))?;
            is_as_recorded(context, transfer, &recorded, digest).map(|is_same| match is_same {
                Some(true) => None,
                Some(false) => {
                    let error = Error::finding("copy", transfer.source_path(), finding);
                    Some(Outcome::Rotten { error, stands: None, origin: Origin::There })
                }
                None => Some(Outcome::Abandoned),
            })
        }
        Ok(Lookup::Unclear) => {
            let visited = baseline.visit(path.as_bytes());
            visited.and_then(|()| Err(unclear(baseline, transfer.source_path())))
        }
        Ok(Lookup::Agreed { digest: listed, .. })
            if is_as_listed(listed, |one| context.digest_by(path.as_bytes(), digest, one)) =>
        {
            baseline.count_as_listed(path.as_bytes()).map(|()| None)
        }
        Ok(Lookup::Agreed { digest: listed, .. }) => {
            let path = &path;
            let differing = DifferingFile { context, baseline, transfer, path, listed, digest };
            match differing.is_as_listed_otherwise() {
                Ok(true) => baseline.count_alike(path.as_bytes()).map(|()| None),
                Ok(false) => differing.check(),
                Err(error) => Err(error),
            }
        }
        Err(error) => Err(error),
    };
    checked.unwrap_or_else(|error| Some(Outcome::Failed(error)))
}

/// True if the file, which was read and has this digest, is what is recorded of it, maybe by another algorithm: then it
/// is read again. Nothing if the run is to stop.
///
/// # Errors
/// It cannot be read, or changed meanwhile.
fn is_as_recorded(
    context: &Context<'_>,
    transfer: &Transfer,
    recorded: &Digests,
    digest: Digest,
) -> Result<Option<bool>> {
    if let Some(same) = recorded.of(digest.algorithm()) {
        return Ok(Some(same == digest));
    }
    let both = [digest, recorded.proof];
    let algorithms = both.iter().map(|digest| digest.algorithm()).collect();
    let all = transfer::hash_by(context, transfer, algorithms, &mut ReadBack::new())?;
    let are_of = |all: Digests| both.iter().all(|one| all.of(one.algorithm()) == Some(*one));
    Ok(all.map(are_of))
}

/// True if a content is as listed, by the digest's algorithm or the one whose digests look alike; `of` gives its
/// digests.
fn is_as_listed(listed: Digest, of: impl Fn(Algorithm) -> Option<Digest>) -> bool {
    let is_one = |digest: Digest| of(digest.algorithm()) == Some(digest);
    is_one(listed) || listed.alike().is_some_and(is_one)
}

/// The output's copy of a file that has several names, under the first of them.
pub struct LinkedCopy<'a> {
    /// Its digests, as far as they are known.
    pub digests: Option<&'a Digests>,
    /// Reads it; nothing if the run is to stop.
    pub hash: &'a dyn Fn(Algorithm) -> Result<Option<Digest>>,
}

/// The same for a further name of a file, which is not read: it is what its first name is, and held against what is
/// listed of its own name.
///
/// The error if the link must not be made: the file of the `source` has rotted, by the line for this name.
///
/// # Errors
/// Fails if that cannot be said.
pub fn check_further_name(
    baseline: &Baseline,
    source: &SourceDir,
    path: &RelPath,
    entry: &SourceEntry,
    first: &LinkedCopy<'_>,
) -> Result<Option<Error>> {
    let from = || source.path_below(path);
    let path = path.as_bytes();
    match (baseline.listed(path)?, first.digests) {
        (Lookup::Unclear, _) => Err(unclear(baseline, from())),
        (Lookup::Agreed { digest: listed, .. }, Some(all))
            if !is_as_listed(listed, |algorithm| all.of(algorithm))
                && !matches!(baseline.other_meaning(listed), Some(other)
                    if (first.hash)(other.algorithm())? == Some(other)) =>
        {
            if baseline.is_older_than(&entry.stat) {
                return baseline.count_edited(path).map(|()| None);
            }
            let manifest = Shown::path(baseline.path());
            let why = why_not(baseline);
            let finding = format!("it is not what {manifest} lists, {why}; it is not copied");
            Ok(Some(Error::finding("copy", from(), finding)))
        }
        (Lookup::Agreed { .. }, Some(_)) => baseline.count_as_listed(path).map(|()| None),
        _ => baseline.visit(path).map(|()| None),
    }
}

/// Why a file that is not as listed was not edited.
fn why_not(baseline: &Baseline) -> String {
    match baseline.cut_short() {
        _ if baseline.is_of_bag() => "and no file of a bag may change".into(),
        Some(name) => format!("and may be newer: a run was cut short there, and left {name}"),
        None if baseline.expects_all() => "and all is expected as it is listed".into(),
        None => "although it was not modified since that was written".into(),
    }
}

/// Why nothing can be done with a file of which the manifest says different things. What is at the output
/// may be the good one.
fn unclear(baseline: &Baseline, path: PathBuf) -> Error {
    let finding = format!(
        "{} lists it with different digests, or by several algorithms (a list by one is held against it), so it cannot \
         be said whether it has rotted; what is at the output stays",
        Shown::path(baseline.path())
    );
    Error::finding("copy", path, finding)
}

/// A file that has another digest than the `listed` one.
struct DifferingFile<'a> {
    context: &'a Context<'a>,
    baseline: &'a Baseline,
    transfer: &'a Transfer,
    /// Its path below the source, by which it is listed.
    path: &'a RelPath,
    listed: Digest,
    /// Its digest by the algorithm that the run proves with.
    digest: Digest,
}

/// The output's copy of a file.
struct ExistingCopy {
    /// The digest by the algorithm that the run proves with.
    digest: Digest,
    /// The origin of the copy: an edit of the source's file, or only known to be there.
    origin: Origin,
    is_as_listed: bool,
    /// True if it is as an earlier run recorded it; `None` where none did.
    is_as_known: Option<bool>,
    /// Its size and time against those of the source's file.
    time: TimeMatch,
}

impl DifferingFile<'_> {
    /// True if it is as listed if the list means the other algorithm whose digests look alike: it is read again.
    fn is_as_listed_otherwise(&self) -> Result<bool> {
        let Some(other) = self.baseline.other_meaning(self.listed) else { return Ok(false) };
        let algorithms = Algorithms::default().with(other.algorithm());
        let mut read_back = ReadBack::new();
        let all = transfer::hash_by(self.context, self.transfer, algorithms, &mut read_back)?;
        Ok(all.is_some_and(|all| all.of(other.algorithm()) == Some(other)))
    }

    fn check(&self) -> Result<Option<Outcome>> {
        let Self { context, baseline, transfer, .. } = *self;
        let there = transfer.target.look()?.filter(|there| there.kind == Kind::File);
        let is_there = there.is_some();
        let stat = there;
        let recorded = baseline.recorded(self.path).filter(|(_, from)| *from != Origin::There);
        if let Some((recorded, _)) = recorded
            && is_as_recorded(context, transfer, &recorded, self.digest)? == Some(true)
        {
            return baseline.count_edited(self.path.as_bytes()).map(|()| None);
        }
        if !baseline.expects_all() && there.is_some_and(|there| self.was_edited(&there)) {
            return baseline.count_edited(self.path.as_bytes()).map(|()| None);
        }
        // A copy that cannot be read tells nothing.
        let witness = there.and_then(|there| self.witness(&there).ok().flatten());
        if context.control.stop.is_urgent() {
            return Ok(Some(Outcome::Abandoned));
        }
        let path = self.path.as_bytes();
        let manifest = Shown::path(baseline.path());
        let finding = match &witness {
            Some(ExistingCopy { is_as_listed: true, time: TimeMatch::Same, .. }) => format!(
                "it has rotted: it is not what {manifest} lists, and its copy, which is, has the \
                 same size and time; the copy stays"
            ),
            Some(ExistingCopy { is_as_listed: true, time: TimeMatch::Other, .. })
                if !baseline.expects_all() =>
            {
                return baseline.count_edited(path).map(|()| None);
            }
            _ if baseline.is_older_than(&transfer.entry().stat) => {
                return baseline.count_edited(path).map(|()| None);
            }
            _ => {
                let kept = match &witness {
                    Some(ExistingCopy { is_as_known: Some(false), .. }) => {
                        "what is at the output stays, and is not what an earlier run recorded"
                    }
                    Some(ExistingCopy { is_as_listed: false, is_as_known: None, .. }) => {
                        "what is at the output stays, and is not what that lists either"
                    }
                    _ if is_there => "what is at the output stays",
                    _ => "it is not copied",
                };
                format!("it is not what {manifest} lists, {}; {kept}", why_not(baseline))
            }
        };
        baseline.visit(path)?;
        let error = Error::finding("copy", transfer.source_path(), finding);
        // A digest that is known is not replaced by that of what may have rotted as well.
        let is_good = |it: &ExistingCopy| it.is_as_known.unwrap_or(it.is_as_listed);
        let witness = witness.filter(is_good);
        let origin = witness.as_ref().map_or(Origin::There, |witness| witness.origin);
        let stands = witness.map(|witness| witness.digest).zip(stat);
        Ok(Some(Outcome::Rotten { error, stands, origin }))
    }

    /// The belief of earlier runs about its copy at the output, which is `there`.
    fn belief(&self, there: &Stat) -> Option<Belief> {
        let Self { context, transfer, path, .. } = *self;
        let (source, next) = (SourceStat(&transfer.entry().stat), &mut NextLine::default());
        let known = context.shared.known?;
        Some(belief(known, &transfer.target.output, path.as_bytes(), source, there, next))
    }

    /// True if an earlier run found it edited to its present state.
    fn was_edited(&self, there: &Stat) -> bool {
        let remembered = self.belief(there).and_then(Belief::remembered);
        remembered.is_some_and(|known| known.is_edit(self.digest))
    }

    /// The content of the file's copy at the output. It is read only if no record tells or that is to be proven, and if
    /// it matters.
    fn witness(&self, there: &Stat) -> Result<Option<ExistingCopy>> {
        let Self { context, transfer, .. } = *self;
        let stat = &transfer.entry().stat;
        let target = &transfer.target;
        let known = context.shared.known;
        let belief = self.belief(there);
        let given = belief.and_then(|belief| target.output.time_given(&belief));
        let time = match stat.size == there.size {
            true => target.output.compare_times(stat.mtime, there.mtime, given),
            false => TimeMatch::Other,
        };
        let verify = context.options.asked.verifies_kept();
        let recorded = belief.and_then(Belief::remembered);
        if let (Some(known), Some(Belief::Untouched(Row { digest, .. }, place)), false) =
            (known, belief, verify)
        {
            let all = Digests::new(digest, known.further(place));
            if all.of(self.listed.algorithm()).is_some() {
                return Ok(Some(self.copy_of(there, &all, time, recorded)));
            }
        }
        // One of another time says no more than that the file is newer than the list.
        let matters = time != TimeMatch::Other || !self.baseline.is_older_than(stat);
        let Some(dir) = target.output.handle.as_ref().filter(|_| matters) else { return Ok(None) };
        let path = || target.path();
        let file = WatchedFile::open_copy(&target.output, dir, &target.entry.name, there, &path)?;
        let (options, stop) = (&context.options, context.control.stop);
        let medium = match context.reads_from_device(there) {
            true => Medium::of(file.file(), there).map_err(|error| file.error("read", error))?,
            false => Medium::any(file.file()),
        };
        // Rot is rare: no room is kept for it.
        let asked = recorded.iter().flat_map(Remembered::digests).chain([self.listed]);
        let algorithms =
            asked.fold(context.algorithms(), |all, digest| all.with(digest.algorithm()));
        let hashed = ReadBack::new().hash_by(medium, algorithms, || stop.is_urgent());
        let Some((hashed, all)) = hashed.map_err(|error| file.error("read", error))? else {
            return Ok(None);
        };
        file.check(hashed.bytes)?;
        if options.durability == (Durability::Grouped { at_once: false }) {
            // It will be listed, and may not be on the device yet.
            sys::persist_file(file.file()).map_err(|error| file.error("make durable", error))?;
        }
        let all = all.map(|all| all.proven_by(options.asked.algorithm));
        Ok(all.map(|all| self.copy_of(there, &all, time, recorded)))
    }

    /// A copy with these digests, the one that the run proves with first, of which one is `recorded`.
    fn copy_of(
        &self,
        there: &Stat,
        all: &Digests,
        time: TimeMatch,
        recorded: Option<Remembered>,
    ) -> ExistingCopy {
        let is_as_listed = is_as_listed(self.listed, |algorithm| all.of(algorithm));
        let is = |digest: Digest| all.of(digest.algorithm()) == Some(digest);
        let is_as_known = recorded.map(|known| known.digests().all(is));
        if let Some(records) = self.context.shared.known.filter(|_| is_as_known == Some(false)) {
            records.refute(self.path.as_bytes(), there);
        }
        let is_edit = recorded.is_some_and(|known| known.is_edit(all.proof));
        let origin = if is_edit { Origin::Edited } else { Origin::There };
        ExistingCopy { digest: all.proof, origin, is_as_listed, is_as_known, time }
    }
}
