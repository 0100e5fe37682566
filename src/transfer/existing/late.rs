//! A copy whose modification time could not be set when it was made: this run sets it.
//!
//! Such a file has the time of its making, and to the overwrite policy looks like one that was edited at
//! the output. The private record knows better. Content decides: only a copy that is what the source is now
//! gets the source's time. If that is another content than the recorded one, it is said. A time that the output
//! makes another of each time is not set again; and where times change by themselves, only content decides.

use std::io;

use crate::error::{Error, Result};
use crate::hash::Algorithm;
use crate::io::options::Durability;
use crate::io::read_back::ReadBack;
use crate::part::transfer::CopyTarget;
use crate::state::belief::Belief;
use crate::state::row::{Row, Trace};
use crate::sys::stat::Stat;
use crate::sys::{self, Attributes, Dir};
use crate::transfer::existing::file::{CopyRead, ExistingFile, ReadCopy};
use crate::transfer::existing::labels::Labels;
use crate::transfer::outcome::{Action, KeptRow, Outcome};
use crate::tree::dirs::OutputDir;
use crate::tree::overwrite::Policy;
use crate::volume::times::TimeMatch;

/// A copy whose time does not tell whether it is the source's: content decides.
#[derive(Clone, Copy, Debug)]
pub struct LateCopy {
    /// Whether an earlier run noted that its time could not be set.
    pub is_late: bool,
    /// Whether it can have the time of its source.
    pub can_have_time: bool,
}

impl LateCopy {
    /// That of `there` in `output`, which would be left because of its time; `None` if its time is to decide.
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
        let may_set = matches!(policy, Policy::Default | Policy::Update);
        (!can_have_time || may_set).then_some(Self { is_late, can_have_time })
    }
}

/// What is to be done about a file that would be left because of its time, if that is this program's own
/// doing; `None` if it is not, or if more than the time differs. What is to be told of it goes to `warnings`.
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
    let late = LateCopy::of(context.options.policy, output, source, there, belief);
    let late = late.filter(|_| context.options.algorithm != Algorithm::None);
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
    }));
    let proof = context.options.verify.map(|_| proof);
    Ok(Some(Action::Settled(Outcome::Kept { stands, row, proof, labels })))
}

/// That a copy has the time of its making, and always will.
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
