//! Permissions, owner and attributes of a file that is kept: those that the source was given since.
//!
//! Sizes and times say nothing of them, so a key that was made private at the source stayed readable in its
//! copy for ever. Permissions and owner (as root) stand in what was looked at anyway. Extended attributes
//! and ACLs take system calls; they are compared where the source was changed after its copy. Only what the
//! output can hold is compared, which a file of our own shows.
//!
//! A label says of a content who may use it and what it may do: a program that root owns and that is set-user-ID is
//! what its content makes of that. So a kept file is given a label only if nobody else could have written to it and it
//! is read, and is what the source is now; any other is copied anew. What only takes permissions away needs no reading,
//! but who could write to the file before may hold it open, and would go on writing to one that looks closed.

use std::{io, ops::ControlFlow, ops::ControlFlow::Break, ops::ControlFlow::Continue};

use crate::{
    error::Deed, error::Error, error::Result, hash::Algorithm, io::Durability, io::ReadBack,
    io::WatchedFile, part::Transfer, part::content::CopyTarget, state::Belief, state::Row,
    state::Trace, sys, sys::Attributes, sys::Dir, sys::Medium, sys::stat::Kind, sys::stat::Stat,
    transfer, transfer::Action, transfer::Context, transfer::KeptRow, transfer::Outcome,
    transfer::existing::CopyRead, transfer::existing::ExistingFile, transfer::existing::ReadCopy,
    tree::OutputDir, tree::Policy, volume::times::TimeMatch,
};

/// The result of comparing a kept file's permissions, owner and attributes with the source's.
#[derive(Debug)]
pub enum Labels {
    /// They are alike, or the output cannot hold those of the source.
    Same,
    /// The source's were brought over.
    Set,
    /// They differ, and the policy replaces nothing that looks alike.
    Differ,
}

/// The file has other names, which may lie anywhere, or it is not known whose content it would be that got the label.
const ANEW: Action = Action::Copy { replaces: true, warning: None };

impl ExistingFile<'_> {
    /// Brings over what differs, if the policy is to follow the source, and says as what the file stands then; or says
    /// what else is to be done. The kept file stands so, and an earlier run `labelled` it unless it told that it could
    /// not. What could not be done is told in `warnings`.
    ///
    /// # Errors
    /// The source's file or its copy cannot be opened or read, so that it is not known what may be given.
    pub fn bring_over_labels(
        &self,
        stands: &Stat,
        labelled: bool,
        read_back: &mut ReadBack,
        warnings: &mut Vec<Error>,
    ) -> Result<ControlFlow<Action, (Labels, Stat)>> {
        let Self { context, transfer: Transfer { target, .. }, .. } = *self;
        let (name, stat) = (&target.entry.name, &target.entry.stat);
        let same = Ok(Continue((Labels::Same, *stands)));
        if labelled && !self.may_be_unlike(stands) {
            return same;
        }
        let Some(dir) = &target.output.handle else { return same };
        let path = || self.transfer.source_path();
        let from = transfer::open_file(context, self.transfer, &path)?;
        let attributes = match Attributes::read_all(from.file(), context.wants_all()) {
            Ok(attributes) => attributes,
            Err(error) => {
                warnings.push(from.error("read the attributes of", error));
                return same;
            }
        };
        let at_output = |error| Error::io("read the attributes of", target.path(), error);
        let kept = dir.open_file(name, false).map_err(at_output)?;
        let now = Dir::stat_file(&kept).map_err(at_output)?;
        if now.id != stands.id || now.kind != Kind::File {
            let finding = "another file took its name";
            return Err(Error::finding("set the attributes of", target.path(), finding));
        }
        // Whoever is in an access list that the source has no more could still read it.
        let lacks_rights = attributes.lack_rights_of(&kept);
        let keep = |now: Stat, labels| match attributes.lack_rights_of(&kept)
            || attributes.leave_open(&now, &kept, stat)
        {
            true => Ok(self.keep_open(now)),
            false => Ok(Continue((labels, now))),
        };
        // Its time is decided by now, and tells nothing on some file systems.
        let label = Stat { mtime: now.mtime, ..*stat };
        if !lacks_rights && attributes.are_at(&now, &kept, &label) {
            return same;
        }
        if !target.output.volume.can_hold(dir, &attributes, stat) {
            if !labelled {
                let finding = "the output does not hold all of those of the source";
                warnings.push(Error::finding("set the attributes of", target.path(), finding));
            }
            return keep(now, Labels::Same);
        }
        if !self.brings_over(stands) {
            return Ok(Continue((Labels::Differ, now)));
        }
        if now.links > 1 {
            return Ok(Break(ANEW));
        }
        if !context.control.gate.lets_pass() {
            return same;
        }
        let widens = attributes.widen(&now, &kept, stat);
        // Whoever a list let write may hold the file open; these bits are the most that one gives.
        if lacks_rights && now.mode & 0o022 != 0
            || (widens || !Attributes::are_labelled(&now, stat)) && !sys::is_ours_alone(&kept, &now)
        {
            return Ok(Break(ANEW));
        }
        if widens {
            if context.options.asked.algorithm == Algorithm::None {
                return Ok(Break(ANEW));
            }
            let copy = Medium::any(&kept);
            if let Some(action) = self.compare(&from, copy, read_back)? {
                return Ok(Break(action));
            }
        }
        let owned = (now.uid, now.gid) == (stat.uid, stat.gid);
        attributes.apply_to_kept(&kept, stat, owned, |deed, error| {
            warnings.push(Error::io(deed, target.path(), error));
        });
        if context.options.durability == (Durability::Grouped { at_once: false }) {
            sys::persist_file(&kept).deed_at("make durable", || target.path())?;
        }
        keep(Dir::stat_file(&kept).map_err(at_output)?, Labels::Set)
    }

    /// What becomes of a kept file, which is `now`, if it stays more open than the source's although a new copy would
    /// not.
    fn keep_open(&self, now: Stat) -> ControlFlow<Action, (Labels, Stat)> {
        let holds_permissions = self.transfer.target.output.volume.tried.traits.permissions;
        match self.brings_over(&now) {
            _ if !holds_permissions => Continue((Labels::Same, now)),
            false => Continue((Labels::Differ, now)),
            true => Break(ANEW),
        }
    }

    /// True if the copy, which stands so, is to get the source's label: by the policy, or because the run that made it
    /// wanted to set it and could not.
    fn brings_over(&self, stands: &Stat) -> bool {
        let row = self.belief.row().filter(|row| row.trace.ino == stands.id.ino);
        match self.context.options.asked.policy {
            Policy::Update | Policy::Always => true,
            Policy::Default => row.is_some_and(|row| row.is_owed_label()),
            Policy::Apart | Policy::Never => false,
        }
    }

    /// True if the label of the source's file may be another than that of its copy, which stands so.
    fn may_be_unlike(&self, stands: &Stat) -> bool {
        let stat = &self.transfer.entry().stat;
        // The change time of a file that no record knows says little, since a rename sets it; so does a row of another
        // file, as of one that was moved here without its access list.
        let row = self.belief.row().filter(|row| row.trace.ino == stands.id.ino);
        let Some(row) = row else { return true };
        match row.seen.label() {
            Some(at) => at != stat.ctime || !Attributes::are_labelled(stands, stat),
            None => {
                let made = Stat { ctime: self.belief.made(stands), ..*stands };
                row.seen.in_doubt || Attributes::may_differ(&made, stat)
            }
        }
    }

    /// Reads both files to their ends; what is to be done if they are not the same, or the run is to stop.
    fn compare(
        &self,
        source: &WatchedFile<'_>,
        copy: Medium<'_>,
        read_back: &mut ReadBack,
    ) -> Result<Option<Action>> {
        let Self { context, transfer, .. } = *self;
        let (algorithm, stop) = (context.options.asked.algorithm, context.control.stop);
        let mut hash = |medium, on_read: &dyn Fn(u64)| {
            read_back.hash(medium, algorithm, || stop.is_urgent(), on_read)
        };
        let at_source = |error| source.error("read", error);
        let read = hash(Medium::any(source.file()), &|_| ()).map_err(at_source)?;
        let Some(of_source) = read else { return Ok(Some(Action::Settled(Outcome::Abandoned))) };
        source.check(of_source.bytes)?;
        let at_output = |error| Error::io("read", transfer.target.path(), error);
        let Some(of_copy) = hash(copy, &|_| ()).map_err(at_output)? else {
            return Ok(Some(Action::Settled(Outcome::Abandoned)));
        };
        match of_source.digest {
            Some(digest) if of_copy.digest != Some(digest) => Ok(Some(self.differs(&digest))),
            _ => Ok(None),
        }
    }
}

/// Takes from what is at the output in place of a file that could not be copied, or looked at, the permissions that the
/// source's does not give any more. Its owner may still read it: a later run is to.
pub fn close_to_others(context: &Context<'_>, target: &CopyTarget) -> Option<Error> {
    let (CopyTarget { output, entry, .. }, options) = (target, &context.options);
    let dir = output.handle.as_ref()?;
    let there = dir.stat(&entry.name, false).ok().filter(|there| there.kind == Kind::File)?;
    Attributes::narrowed(&there, &entry.stat)?;
    if !matches!(options.asked.policy, Policy::Update | Policy::Always)
        || !context.control.gate.lets_pass()
    {
        return None;
    }
    let file = dir.open_file(&entry.name, false).ok()?;
    let now = Dir::stat_file(&file).ok()?;
    let narrowed = Attributes::narrowed(&now, &entry.stat)?;
    let mut failed = None;
    Attributes::default().apply(&file, &narrowed, true, |deed, error| {
        failed = Some(Error::io(deed, target.path(), error));
    });
    failed
}

// A copy whose modification time could not be set when it was made: this run sets it.
//
// Such a file has the time of its making, and to the overwrite policy looks like one that was edited at
// the output. The private record knows better. Content decides: only a copy that is what the source is now
// gets the source's time. If that is another content than the recorded one, it is said. A time that the output
// makes another of each time is not set again; and where times change by themselves, only content decides.

/// A copy whose time does not tell whether it is the source's: content decides.
#[derive(Clone, Copy, Debug)]
pub struct LateCopy {
    /// True if an earlier run noted that its time could not be set.
    pub is_late: bool,
    /// True if it can have the time of its source.
    pub can_have_time: bool,
}

impl LateCopy {
    /// The comparison for `there` in `output`, which would be left because of its time; `None` if its time is to
    /// decide.
    pub fn of(
        policy: Policy,
        output: &OutputDir,
        source: &Stat,
        there: &Stat,
        belief: Belief,
    ) -> Option<Self> {
        let is_late = matches!(belief, Belief::Doubtful(remembered) if remembered.late);
        let times_tell = output.keeps_times();
        if !is_late && times_tell || there.size != source.size {
            return None;
        }
        let can_have_time = times_tell && !output.loses_time(source.mtime);
        // What cannot have the time is not touched, so any policy may ask.
        let may_set = matches!(policy, Policy::Default | Policy::Apart | Policy::Update);
        (!can_have_time || may_set).then_some(Self { is_late, can_have_time })
    }
}

/// The action for a file that would be left because of its time, if that is this program's own doing; `None` if it is
/// not, or if more than the time differs. What is to be told of it goes to `warnings`.
///
/// # Errors
/// The copy or the source could not be read, changed meanwhile, or the time cannot be set this time either.
pub fn mend(
    existing: &ExistingFile<'_>,
    read_back: &mut ReadBack,
    warnings: &mut Vec<Error>,
) -> Result<Option<Action>> {
    let ExistingFile { context, transfer, there, belief, .. } = *existing;
    let (output, source) = (&transfer.target.output, &transfer.entry().stat);
    let late = LateCopy::of(context.options.asked.policy, output, source, there, belief);
    let late = late.filter(|_| context.options.asked.algorithm != Algorithm::None);
    let Some(LateCopy { is_late, can_have_time }) = late else { return Ok(None) };
    let abandoned = Ok(Some(Action::Settled(Outcome::Abandoned)));
    let ReadCopy { digest: found, hashed_from: proof, is_as_newest, .. } =
        match existing.hash_copy(read_back)? {
            CopyRead::Hashed(read) => read,
            // The policy does not say that it may go.
            CopyRead::Unreadable(error) => return Err(error),
            CopyRead::Abandoned => return abandoned,
        };
    let source = match existing.source_digest {
        None => existing.hash_source(read_back)?,
        read => read,
    };
    let Some(source) = source else { return abandoned };
    if source != found {
        if !(is_late && existing.is_known()) {
            return Ok(None);
        }
        return Ok(match existing.is_source(source, read_back)? {
            None => Some(Action::Settled(Outcome::Abandoned)),
            Some(is_known) => is_known.then(|| existing.differs(&source)),
        });
    }
    if can_have_time && there.links > 1 {
        // Its other names may lie anywhere, and their time is not ours.
        return Ok(Some(Action::Copy { replaces: true, warning: None }));
    }
    if can_have_time && !context.control.gate.lets_pass() {
        return abandoned;
    }
    let (stands, labels) = match can_have_time {
        true => (set_time(existing)?, Labels::Set),
        false => (*there, Labels::Same),
    };
    if output.keeps_times() && !can_have_time {
        warnings.push(lost(&transfer.target));
    }
    if existing.is_known() && !is_as_newest {
        warnings.push(existing.is_new());
    }
    let (digest, origin, late) = (found, existing.origin_of(found), !can_have_time);
    let stat = &transfer.entry().stat;
    let trace = output.trace_of(stat, &stands);
    let given = output.time_to_record(stat.mtime, stands.mtime).filter(|_| !late);
    let sure = !late && output.volume.with_root;
    let row = Some(KeptRow::New(Row {
        digest,
        origin,
        trace,
        given,
        sure,
        late,
        labelled: existing.is_labelled(),
        seen: existing.seen_now(),
        epoch: 0,
    }));
    let proof = context.options.asked.verifies_kept().then_some(proof);
    Ok(Some(Action::Settled(Outcome::Kept { stands, row, proof, labels })))
}

/// The message that a copy has the time of its making, and always will.
pub fn lost(target: &CopyTarget) -> Error {
    let finding = "the output cannot hold it, and dates the file to when it is made";
    Error::finding("set the modification time of", target.path(), finding)
}

/// Gives the copy the time of the source; as what it stands there then.
fn set_time(existing: &ExistingFile<'_>) -> Result<Stat> {
    let ExistingFile { context, transfer, there, .. } = *existing;
    let (target, source) = (&transfer.target, &transfer.entry().stat);
    let fail = |error| Error::io("set the modification time of", target.path(), error);
    let Some(dir) = &target.output.handle else { return Err(fail(io::ErrorKind::NotFound.into())) };
    let copy = dir.open_file(&target.entry.name, false).map_err(fail)?;
    if !Trace::of(there).is_of(&Dir::stat_file(&copy).map_err(fail)?) {
        let finding = "it was changed while it was read";
        return Err(Error::finding("set the modification time of", target.path(), finding));
    }
    Attributes::set_time(&copy, there, source).map_err(fail)?;
    if context.options.durability == (Durability::Grouped { at_once: false }) {
        sys::persist_file(&copy).map_err(fail)?;
    }
    let now = Dir::stat_file(&copy).map_err(fail)?;
    if target.output.compare_times(source.mtime, now.mtime, None) == TimeMatch::Other {
        let finding = "the output cannot hold it";
        return Err(Error::finding("set the modification time of", target.path(), finding));
    }
    Ok(now)
}
