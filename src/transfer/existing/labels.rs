//! Permissions, owner and attributes of a file that is kept: those that the source was given since.
//!
//! Sizes and times say nothing of them, so a key that was made private at the source stayed readable in its
//! copy for ever. Permissions and owner (as root) stand in what was looked at anyway. Extended attributes
//! and ACLs take system calls; they are compared where the source was changed after its copy. Only what the
//! output can hold is compared, which a file of our own shows.

use crate::error::{Error, Result};
use crate::io::options::Durability;
use crate::part::transfer::Transfer;
use crate::sys::stat::{Kind, Stat};
use crate::sys::{self, Attributes, Dir};
use crate::transfer::context::Context;
use crate::tree::overwrite::Policy;

/// What came of comparing a kept file's permissions, owner and attributes with the source's.
#[derive(Debug)]
pub enum Labels {
    /// They are alike, or the output cannot hold those of the source.
    Same,
    /// The source's were brought over, and the file is this now.
    Set(Stat),
    /// They differ, and the policy replaces nothing that looks alike.
    Differ,
    /// They differ, and the file has other names, which may lie anywhere: it is to be copied anew.
    Shared,
}

/// Brings over what differs, if the policy is to follow the source. `there` is the kept file, which an earlier run
/// `labelled` unless it told that it could not. What could not be done is told in `warnings`.
pub fn bring_over(
    context: &Context<'_>,
    transfer: &Transfer,
    there: &Stat,
    labelled: bool,
    warnings: &mut Vec<Error>,
) -> Labels {
    if labelled && !Attributes::may_differ(there, &transfer.entry().stat) {
        return Labels::Same;
    }
    compare(context, transfer, there, labelled, warnings).unwrap_or_else(|error| {
        warnings.push(error);
        Labels::Same
    })
}

fn compare(
    context: &Context<'_>,
    transfer: &Transfer,
    there: &Stat,
    labelled: bool,
    warnings: &mut Vec<Error>,
) -> Result<Labels> {
    let Transfer { source, target } = transfer;
    let (name, stat) = (&target.entry.name, &target.entry.stat);
    let Some(dir) = &target.output.handle else { return Ok(Labels::Same) };
    let at_source = |error| Error::io("read the attributes of", transfer.source_path(), error);
    let from = source.handle.open_file(name, context.options.follow).map_err(at_source)?;
    let attributes = Attributes::read(&from).map_err(at_source)?;
    let at_output = |error| Error::io("read the attributes of", target.path(), error);
    let kept = dir.open_file(name, false).map_err(at_output)?;
    let now = Dir::stat_file(&kept).map_err(at_output)?;
    if now.id != there.id || now.kind != Kind::File || attributes.are_at(&now, &kept, stat) {
        return Ok(Labels::Same);
    }
    if !target.output.volume.can_hold(dir, &attributes, stat) {
        if !labelled {
            let finding = "the output does not hold all of those of the source";
            warnings.push(Error::finding("set the attributes of", target.path(), finding));
        }
        return Ok(Labels::Same);
    }
    match context.options.policy {
        Policy::Default | Policy::Never => return Ok(Labels::Differ),
        Policy::Update | Policy::Always if now.links > 1 => return Ok(Labels::Shared),
        Policy::Update | Policy::Always => {}
    }
    if !context.control.gate.lets_pass() {
        return Ok(Labels::Same);
    }
    let owned = (now.uid, now.gid) == (stat.uid, stat.gid);
    attributes.apply(&kept, stat, owned, |deed, error| {
        warnings.push(Error::io(deed, target.path(), error));
    });
    if context.options.durability == (Durability::Grouped { at_once: false }) {
        let fail = |error| Error::io("make durable", target.path(), error);
        sys::persist_file(&kept).map_err(fail)?;
    }
    Dir::stat_file(&kept).map(Labels::Set).map_err(at_output)
}
