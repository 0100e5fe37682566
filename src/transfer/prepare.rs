//! Before a file is copied: looking at what is at the output, and settling what needs no copy.

use std::ops::{ControlFlow, ControlFlow::Break, ControlFlow::Continue};
use std::{borrow::Cow, fs::File, io};

use crate::{
    chain::Damage, error::Error, error::Result, hash::Algorithm, hash::Backend, hash::Chain,
    hash::Digest, io::ChainedContent, io::HashedFrom, io::LinkCheck, io::LinkReads, io::ReadBack,
    manifest::NextLine, part::Transfer, state::Belief, state::Knowledge, state::Row, sys, sys::Dir,
    sys::Medium, sys::is_on_turning_disk, sys::stat::Kind, sys::stat::Stat, transfer,
    transfer::Action, transfer::Context, transfer::KeptRow, transfer::Labels, transfer::Outcome,
    transfer::existing::ExistingFile, transfer::labels, transfer::rescue, transfer::rot_check,
    transfer::share::share, tree::Decision, tree::DestinationStat, tree::OutputDir,
    tree::PlannedStat, tree::SourceStat, tree::Ways, tree::overwrite::decide,
    tree::overwrite::leave_out, tree::overwrite::refuse_large, volume::TOO_LONG_TO_REPLACE,
    volume::times::TimeMatch,
};

/// Decides about a file as [`prepare_any`], and refuses to replace one of a name that cannot be.
pub fn prepare(
    context: &Context<'_>,
    transfer: &Transfer,
    seen: Option<Stat>,
    next: &mut NextLine,
    read_back: &mut ReadBack,
    warnings: &mut Vec<Error>,
) -> Action {
    let action = match rot_check::other_size(context, transfer) {
        Some(outcome) => Action::Settled(outcome),
        None => prepare_any(context, transfer, seen, next, read_back, warnings),
    };
    let (output, name) = (&transfer.target.output, &transfer.target.entry.name);
    match action {
        Action::Copy { .. } if !context.control.gate.lets_pass() => {
            Action::Settled(Outcome::Abandoned)
        }
        Action::Copy { replaces: true, .. }
            if !output.volume.replaces(name, output.handle.as_ref()) =>
        {
            let error = Error::finding("copy to", transfer.target.path(), TOO_LONG_TO_REPLACE);
            Action::Settled(Outcome::Failed(error))
        }
        Action::Copy { .. } if rescue::is_kept_there(context, transfer) => {
            Action::Settled(Outcome::Left(KEPT_OF_ANOTHER))
        }
        // What was read of it is not read again.
        Action::Copy { replaces, .. } if rescue::goes_on(context, transfer) => {
            Action::Settled(Outcome::PutOff { replaces })
        }
        action => action,
    }
}

const KEPT_OF_ANOTHER: &str = "earlier runs keep there what they could read of another file, and it is not replaced: \
                               rescue that file, or remove what was kept";

/// Decides about a file, and does what needs no copying. What was `seen` at the output is not looked at once more.
/// `read_back` is for reading a file that is there already; what is to be told goes to `warnings`.
fn prepare_any(
    context: &Context<'_>,
    transfer: &Transfer,
    seen: Option<Stat>,
    next: &mut NextLine,
    read_back: &mut ReadBack,
    warnings: &mut Vec<Error>,
) -> Action {
    let failed = |error| Action::Settled(Outcome::Failed(error));
    let source = SourceStat(&transfer.entry().stat);
    // What an earlier manifest lists of it is carried over, as that of a file which left the source.
    if let Some(why) = leave_out(&context.options.asked.selection, source) {
        if context.options.prunes
            && let Err(error) = existing(context, transfer, seen, next)
        {
            return failed(error);
        }
        return Action::Settled(Outcome::Left(why));
    }
    let there = match existing(context, transfer, seen, next) {
        Ok(there) => there,
        Err(error) => return failed(error),
    };
    let most = transfer.target.output.largest_file();
    let copy = |replaces| match refuse_large(most, source) {
        Some(why) => failed(Error::finding("copy to", transfer.target.path(), why)),
        None => Action::Copy { replaces, warning: None },
    };
    let Some((there, belief)) = there else {
        // A line for what is gone is settled by the copy.
        if let Some(known) = context.shared.known {
            known.settle(transfer.target.rel_path().as_bytes());
        }
        let action = copy(false);
        let shared = match &action {
            Action::Copy { .. } => share(context, transfer, read_back, warnings),
            Action::Settled(_) => None,
        };
        return shared.map_or(action, Action::Settled);
    };
    let output = &transfer.target.output;
    let as_stated = transfer.source.as_stated(source.0, &there);
    let time = compare_times(context.options.asked.algorithm, output, source, &as_stated, belief);
    let decide_if = |stat: &Stat, same_time| {
        decide(context.options.asked.policy, source, Some(DestinationStat { stat, same_time }))
    };
    let mut decision = decide_if(&as_stated, time != TimeMatch::Other);
    let mut source_digest = None;
    if matches!(decision, Decision::Keep | Decision::Leave(_)) {
        match check_for_rot(context, transfer, read_back) {
            Ok(Continue(digest)) => source_digest = digest,
            Ok(Break(outcome)) => return Action::Settled(outcome),
            Err(error) => return failed(error),
        }
    }
    // Its time or its size says nothing, names of the same size and time may have been exchanged, or its directory is
    // to have another label and may be another one: its content decides.
    let is_unclear = time == TimeMatch::Unclear
        || output.work.hand_over.as_ref().is_some_and(|over| over.may_be_another)
        || there.size != source.0.size
        || is_changed_since(context, transfer, &there, belief);
    if decision == Decision::Keep && is_unclear && source_digest.is_none() {
        source_digest = match digest_of_source(context, transfer, read_back) {
            Ok(digest) => digest,
            Err(why) => return why.map_or(Action::Settled(Outcome::Abandoned), failed),
        };
        // It states no size, and has none.
        if there.size != as_stated.size && source_digest.is_some_and(Digest::is_of_nothing) {
            decision = decide_if(&there, time != TimeMatch::Other);
        }
    }
    let if_unlike = (time == TimeMatch::Unclear).then(|| decide_if(&as_stated, false));
    let existing =
        ExistingFile { context, transfer, there: &there, belief, source_digest, if_unlike };
    match decision {
        Decision::Create => copy(false),
        Decision::Replace => copy(true),
        Decision::Leave(why) => match labels::mend(&existing, read_back, warnings) {
            Ok(None) => Action::Settled(Outcome::Left(why)),
            Ok(Some(action)) => with_labels(&existing, action, read_back, warnings),
            Err(error) => failed(error),
        },
        Decision::Refuse(why) => failed(Error::finding("copy to", transfer.target.path(), why)),
        Decision::Keep => existing
            .check(read_back, warnings)
            .map_or_else(failed, |action| with_labels(&existing, action, read_back, warnings)),
    }
}

/// The digest of the source's file, where the run has digests; why there is none, but where the run is to stop.
fn digest_of_source(
    context: &Context<'_>,
    transfer: &Transfer,
    read_back: &mut ReadBack,
) -> Result<Option<Digest>, Option<Error>> {
    match transfer::hash(context, transfer, read_back) {
        Ok(None) if context.options.asked.algorithm != Algorithm::None => Err(None),
        hashed => hashed.map_err(Some),
    }
}

/// Compares the time of the file that is `there` with the source's. What no record tells its content does, if it is
/// read and may be the same.
pub fn compare_times(
    algorithm: Algorithm,
    output: &OutputDir,
    source: SourceStat<'_>,
    there: &Stat,
    belief: Belief,
) -> TimeMatch {
    let Stat { mtime, size, .. } = *source.0;
    match output.compare_times(mtime, there.mtime, output.time_given(&belief)) {
        TimeMatch::Unclear if algorithm == Algorithm::None || size != there.size => {
            output.compare_times_alone(mtime, there.mtime)
        }
        compared => compared,
    }
}

/// True if the source may have been changed after it was read in a way that size and time do not show: in the same step
/// of its clock, by a program that set its time back, or because another file of that size and time got its name. Where
/// no row says which change time it had then, it is held against that of the copy; what happened to the copy since, as
/// far as a record tells that apart, does not make it younger, and without a row nothing tells it apart. File systems
/// that keep no change time, as FAT and exFAT, give the modification time for it and say nothing: there the record has
/// that of the source.
fn is_changed_since(
    context: &Context<'_>,
    transfer: &Transfer,
    there: &Stat,
    belief: Belief,
) -> bool {
    if context.options.asked.algorithm == Algorithm::None {
        return false;
    }
    let Some(row) = belief.row() else {
        // Of a file that could not be read and is healed by now, the note of its rescue says so.
        return rescue::expected_of(context, transfer).is_none();
    };
    let (source, dir) = (&transfer.entry().stat, &transfer.source.handle);
    if row.seen.in_doubt || row.seen.is_of_another(source, || dir.keeps_numbers()) {
        return true;
    }
    if let Some(at) = row.seen.content {
        return source.ctime != at;
    }
    if !transfer.target.output.has_change_times() {
        let is_doubtful = matches!(belief, Belief::Doubtful(_));
        return is_doubtful && source.ctime != row.trace.ctime;
    }
    there.ctime != there.mtime && source.ctime >= belief.made(there)
}

/// The output's file under this name that stays, and the belief about it.
fn existing(
    context: &Context<'_>,
    transfer: &Transfer,
    seen: Option<Stat>,
    next: &mut NextLine,
) -> Result<Option<(Stat, Belief)>> {
    let Transfer { target, .. } = transfer;
    if target.output.began_empty() && seen.is_none() {
        return Ok(None);
    }
    let (known, path) = (context.shared.known, target.rel_path());
    if let Some(known) = known {
        known.prefetch(path.as_bytes(), next);
    }
    let there = match seen {
        None => target.look()?,
        seen => seen,
    };
    let Some(there) = there else { return Ok(None) };
    let source = SourceStat(&target.entry.stat);
    let belief = known.map_or(Belief::Nothing, |known| {
        belief(known, &target.output, path.as_bytes(), source, &there, next)
    });
    transfer::file(context, transfer, there, belief)
}

/// The belief of earlier runs about the file at `path`, which is `there` in `output`: also if its time has moved or is
/// another since the output was mounted anew.
pub fn belief(
    known: &Knowledge,
    output: &OutputDir,
    path: &[u8],
    source: SourceStat<'_>,
    there: &Stat,
    next: &mut NextLine,
) -> Belief {
    let as_given = output.as_given(source.0.mtime, there);
    let as_before = output.as_before(there).chain(as_given);
    let mut beliefs = as_before.map(|there| known.belief_near(path, &there, next));
    beliefs.find(|belief| *belief != Belief::Nothing).unwrap_or(Belief::Nothing)
}

/// The same action, and for a kept file what becomes of its permissions, owner and attributes.
fn with_labels(
    existing: &ExistingFile<'_>,
    action: Action,
    read_back: &mut ReadBack,
    warnings: &mut Vec<Error>,
) -> Action {
    let Action::Settled(Outcome::Kept { stands, row, proof, labels: before }) = action else {
        return action;
    };
    let Transfer { target, .. } = existing.transfer;
    let seen = || existing.seen_now();
    let (labelled, told) = (row.is_none_or(|row| row.row().labelled), warnings.len());
    let brought = existing.bring_over_labels(&stands, labelled, read_back, warnings);
    let (stands, row, labels) = match brought {
        Err(error) => return Action::Settled(Outcome::Failed(error)),
        Ok(Break(action)) => return action,
        Ok(Continue((Labels::Same, _))) => {
            let is_known = |row: &Row| row.seen.label() == Some(target.entry.stat.ctime);
            let compared = |row: KeptRow| match *row.row() {
                ref it if is_known(it) || warnings.len() > told => row,
                it => match it.seen.labelled_as(seen()) {
                    seen if seen == it.seen => row,
                    seen => KeptRow::New(Row { seen, ..it }),
                },
            };
            (stands, row.map(compared), before)
        }
        // Later runs compare them whatever its change time is then.
        Ok(Continue((Labels::Differ, _))) => {
            let unlike = |row: KeptRow| match row.row() {
                Row { labelled: false, .. } => row,
                row => KeptRow::New(Row { labelled: false, ..*row }),
            };
            (stands, row.map(unlike), Labels::Differ)
        }
        Ok(Continue((Labels::Set, now))) => {
            let output = &target.output;
            let trace = output.trace_of(&target.entry.stat, &now);
            let row = row.map(|row| {
                let row = *row.row();
                let sure = row.sure && output.volume.with_root;
                let labelled = warnings.len() == told;
                let seen = match labelled {
                    true => row.seen.labelled_as(seen()),
                    false => row.seen.never_labelled(),
                };
                KeptRow::New(Row { trace, sure, labelled, seen, ..row })
            });
            (now, row, Labels::Set)
        }
    };
    Action::Settled(Outcome::Kept { stands, row, proof, labels })
}

/// Reads a file that will not be copied: gives its digest if the baseline lists it and it is as listed, and else its
/// outcome.
fn check_for_rot(
    context: &Context<'_>,
    transfer: &Transfer,
    read_back: &mut ReadBack,
) -> Result<ControlFlow<Outcome, Option<Digest>>> {
    if !rot_check::is_listed(context, &transfer.target)? {
        return Ok(Continue(None));
    }
    let Some(digest) = transfer::hash(context, transfer, read_back)? else {
        return Ok(Break(Outcome::Abandoned));
    };
    Ok(match rot_check::check(context, transfer, Some(digest)) {
        None => Continue(Some(digest)),
        Some(outcome) => Break(outcome),
    })
}

// The chain of a content as a test of a copy: it proves the content, or tells where it differs.

/// Smaller copies are hashed as a whole as fast.
const LEAST_LINKED: u64 = 8 << 20;

/// A copy that should have a content of which there may be a chain.
pub struct ChainedCopy<'a> {
    pub context: &'a Context<'a>,
    pub file: &'a File,
    /// The directory that it is in.
    pub dir: Option<&'a Dir>,
    /// The digest that it should have.
    pub digest: &'a Digest,
    /// The chain of that, if it is at hand.
    pub chain: Option<&'a Chain>,
}

/// Steers a check, and counts for it.
#[derive(Clone, Copy)]
pub struct CheckControl<'a> {
    pub is_to_stop: &'a (dyn Fn() -> bool + Sync),
    /// Called with the number of bytes of each read.
    pub on_read: &'a (dyn Fn(u64) + Sync),
}

impl ChainedCopy<'_> {
    /// Where the copy was read from, if it is of `size` and all its links hold: then it has the digest. `None` if
    /// that is not so, the chain is not known, or the run is to stop: reading it as a whole will tell.
    pub fn prove<'m>(
        &self,
        size: u64,
        medium: impl FnOnce() -> io::Result<Medium<'m>>,
        control: CheckControl<'_>,
    ) -> Option<HashedFrom> {
        let (chain, _) = match size >= LEAST_LINKED {
            true => self.chain(size).filter(|(_, chained)| *chained == size)?,
            false => return None,
        };
        let medium = medium().ok()?;
        let bad = self.check(&chain, size, &medium, control)?;
        let from = if medium.finish() { HashedFrom::Device } else { HashedFrom::Cache };
        // One that grew meanwhile has more than its links.
        let is_as_large = || Dir::stat_file(self.file).is_ok_and(|now| now.size == size);
        let ends = || sys::ends_at(self.file, size).unwrap_or(false);
        (bad.is_empty() && is_as_large() && ends()).then_some(from)
    }

    /// Adds to `error` where the copy differs, if its chain is known.
    pub fn with_place(&self, error: Error) -> Error {
        match self.locate() {
            Some(damage) => error.with_note(format!(" ({damage})")),
            None => error,
        }
    }

    fn locate(&self) -> Option<Damage> {
        let stat = Dir::stat_file(self.file).ok()?;
        let (chain, size) = self.chain(stat.size)?;
        let medium = Medium::of(self.file, &stat).ok()?;
        let is_to_stop = || self.context.control.stop.is_urgent();
        let control = CheckControl { is_to_stop: &is_to_stop, on_read: &|_| () };
        let bad = self.check(&chain, size, &medium, control)?;
        medium.finish();
        Some(Damage::new(&chain, size, stat.size, &bad)).filter(Damage::says_something)
    }

    /// The chain, and the size of the content that it is of: `size` for a chain that is at hand.
    fn chain(&self, size: u64) -> Option<(Cow<'_, Chain>, u64)> {
        match self.chain {
            Some(chain) => Some((Cow::Borrowed(chain), size)),
            None => {
                let (chain, size) = self.context.shared.states?.chain(self.digest)?;
                Some((Cow::Owned(chain), size))
            }
        }
    }

    /// The links that do not hold, if they can be checked.
    fn check(
        &self,
        chain: &Chain,
        size: u64,
        medium: &Medium<'_>,
        control: CheckControl<'_>,
    ) -> Option<Vec<u64>> {
        // What the kernel reads ahead is one sequence, and so is what a disk that turns reads fast.
        let in_order = !medium.is_direct() || self.dir.is_some_and(is_on_turning_disk);
        let check = LinkCheck {
            content: ChainedContent { chain, size, digest: self.digest },
            medium,
            reads: LinkReads::ByLinks { in_order },
            backend: Backend::One,
            is_to_stop: control.is_to_stop,
            on_read: control.on_read,
        };
        check.run(self.context.control.helpers).ok()?
    }
}

// A second try at a file that changed while it was read.
//
// Most such files change once: a program was just saving them. The file is looked at anew and read again
// from its beginning, once; a file that changes again is reported and is not at the output.

/// The present metadata of the file, if it is worth a second try: it is still there, and the same action applies as
/// before.
pub fn look_again(context: &Context<'_>, transfer: &Transfer) -> Option<Stat> {
    let before = transfer.entry();
    let now = transfer.source.handle.stat(&before.name, context.options.follow).ok()?;
    // Other names of the file may wait for it by its identity and their number.
    let alike = now.links == before.stat.links && (now.links == 1 || now.id == before.stat.id);
    if now.kind != Kind::File || !alike || context.control.stop.is_urgent() {
        return None;
    }
    let there = transfer.target.look().ok()?;
    let replaces = transfer.target.replaces;
    let output = &transfer.target.output;
    let destination = there.as_ref().map(|there| output.destination(&now, there));
    let same = match decide(context.options.asked.policy, SourceStat(&now), destination) {
        Decision::Create => !replaces,
        Decision::Replace => replaces,
        Decision::Keep | Decision::Leave(_) | Decision::Refuse(_) => false,
    };
    if same
        && let Some(changed) = context.shared.changed
        && !PlannedStat::of(&before.stat, None, Ways::default()).is(&now)
    {
        changed.note(&transfer.target.rel_path(), now.size);
    }
    same.then_some(now)
}

/// The message about the first try when the second went well.
pub fn warning(first: Error) -> Error {
    first.with_note("; it was read again from its beginning, and copied")
}
