//! Before a file is copied: looking at what is at the output, and settling what needs no copy.

use std::io;
use std::ops::ControlFlow::{self, Break, Continue};

use crate::error::{Error, Result};
use crate::hash::Digest;
use crate::io::read_back::ReadBack;
use crate::sys::stat::Stat;
use crate::transfer::baseline;
use crate::transfer::context::Context;
use crate::transfer::existing::{Kept, hash_source};
use crate::transfer::outcome::Fate;
use crate::tree::dirs::{OutputDir, SourceDir};
use crate::tree::found::SourceEntry;
use crate::tree::overwrite::{Decision, DestinationStat, SourceStat, decide};

/// What is to be done about a file.
pub enum Next {
    /// Copy it.
    Copy {
        /// Whether something at the output gives way for it.
        replaces: bool,
        /// What is to be told of that.
        warning: Option<Error>,
    },
    /// Nothing: this became of it.
    Settled(Fate),
}

/// Decides about a file, and does what needs no copying. `read_back` is for reading a file that is
/// there already.
pub fn arrange(
    context: &Context<'_>,
    source: &SourceDir,
    output: &OutputDir,
    entry: &SourceEntry,
    read_back: &mut ReadBack,
) -> Next {
    let there = match look(output, entry) {
        Ok(there) => there,
        Err(error) => return Next::Settled(Fate::Failed(error)),
    };
    let copy = |replaces| Next::Copy { replaces, warning: None };
    let Some(there) = there else { return copy(false) };
    // Whatever becomes of the file, an earlier line for it is settled by this run.
    let known = context
        .shared
        .reused
        .and_then(|carry| carry.digest_of(output.rel.join(&entry.name).as_bytes(), &there));
    let decision =
        decide(context.options.policy, SourceStat(&entry.stat), Some(DestinationStat(&there)));
    let mut source_is = None;
    if matches!(decision, Decision::Keep | Decision::Leave(_)) {
        match held_against(context, source, output, entry, read_back) {
            Ok(Continue(digest)) => source_is = digest,
            Ok(Break(fate)) => return Next::Settled(fate),
            Err(error) => return Next::Settled(Fate::Failed(error)),
        }
    }
    match decision {
        Decision::Create => copy(false),
        Decision::Replace => copy(true),
        Decision::Leave(why) => Next::Settled(Fate::Left(why)),
        Decision::Refuse(why) => {
            let error = Error::finding("copy to", output.path_of(&entry.name), why);
            Next::Settled(Fate::Failed(error))
        }
        Decision::Keep => Kept { context, source, output, entry, there: &there, known, source_is }
            .judge(read_back)
            .unwrap_or_else(|error| Next::Settled(Fate::Failed(error))),
    }
}

/// The digest of a file that will not be copied, if something is expected of it and it is that; what
/// becomes of it if it is not.
fn held_against(
    context: &Context<'_>,
    source: &SourceDir,
    output: &OutputDir,
    entry: &SourceEntry,
    read_back: &mut ReadBack,
) -> Result<ControlFlow<Fate, Option<Digest>>> {
    if !baseline::is_expected(context, output, entry)? {
        return Ok(Continue(None));
    }
    let Some(digest) = hash_source(context, source, entry, read_back)? else {
        return Ok(Break(Fate::Abandoned));
    };
    Ok(match baseline::objection(context, (source, output), entry, Some(digest), Some(read_back)) {
        None => Continue(Some(digest)),
        Some(fate) => Break(fate),
    })
}

/// What is at the output under the file's name.
pub fn look(output: &OutputDir, entry: &SourceEntry) -> Result<Option<Stat>> {
    let Some(dir) = &output.handle else { return Ok(None) };
    if output.fresh {
        return Ok(None);
    }
    match dir.stat(&entry.name, false) {
        Ok(stat) => Ok(Some(stat)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Error::io("look at", output.path_of(&entry.name), error)),
    }
}
