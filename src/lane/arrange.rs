//! Before a file is copied: looking at what is at the output, and settling what needs no copy.

use std::io;

use crate::error::{Error, Result};
use crate::hash::Algorithm;
use crate::lane::block::Block;
use crate::lane::context::{Context, Durability};
use crate::lane::outcome::Fate;
use crate::lane::reading::Reading;
use crate::sys::{self, stat::Stat};
use crate::tree::node::{Entry, OutputDir};
use crate::tree::plan::{Decision, Destination, Source, decide};

/// What is to be done about a file.
pub enum Next {
    /// Copy it.
    Copy {
        /// Whether something at the output gives way for it.
        replaces: bool,
    },
    /// Nothing: this became of it.
    Settled(Fate),
}

/// Decides about a file, and does what needs no copying. `scratch` is for reading a file that is
/// there already and whose digest nobody knows.
pub fn arrange(
    context: &Context<'_>,
    output: &OutputDir,
    entry: &Entry,
    scratch: &mut Block,
) -> Next {
    let there = match look(output, entry) {
        Ok(there) => there,
        Err(error) => return Next::Settled(Fate::Failed(error)),
    };
    let Some(there) = there else { return Next::Copy { replaces: false } };
    // Whatever becomes of the file, an earlier line for it is settled by this run.
    let known = context
        .carry
        .and_then(|carry| carry.digest_of(output.rel.join(&entry.name).as_bytes(), &there));
    match decide(context.policy, Source(&entry.stat), Some(Destination(&there))) {
        Decision::Create => Next::Copy { replaces: false },
        Decision::Replace => Next::Copy { replaces: true },
        Decision::Leave(why) => Next::Settled(Fate::Left(why)),
        Decision::Refuse(why) => {
            let error = Error::finding("copy to", output.path_of(&entry.name), why);
            Next::Settled(Fate::Failed(error))
        }
        Decision::Keep if known.is_some() || context.algorithm == Algorithm::None => {
            Next::Settled(Fate::Kept { digest: known })
        }
        Decision::Keep => Next::Settled(
            hash_what_is_there(context, output, entry, &there, scratch)
                .unwrap_or_else(Fate::Failed),
        ),
    }
}

/// What is at the output under the file's name.
pub fn look(output: &OutputDir, entry: &Entry) -> Result<Option<Stat>> {
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

/// Reads a file that is at the output already.
fn hash_what_is_there(
    context: &Context<'_>,
    output: &OutputDir,
    entry: &Entry,
    there: &Stat,
    scratch: &mut Block,
) -> Result<Fate> {
    let Some(dir) = &output.handle else { return Ok(Fate::Kept { digest: None }) };
    let path = || output.path_of(&entry.name);
    let file = Reading::open(dir, &entry.name, false, there, &path)?;
    let mut hasher = context.algorithm.start();
    let mut total = 0;
    loop {
        if context.stop.is_requested() {
            return Ok(Fate::Abandoned);
        }
        scratch.clear();
        let read = file.read(scratch.room())?;
        scratch.fill(read);
        hasher.update(scratch);
        total += read as u64;
        if read == 0 || file.is_all(total) {
            break;
        }
    }
    file.check(total)?;
    if context.durability == (Durability::Grouped { at_once: false }) {
        // Nobody knows how the file came here.
        sys::persist_file(file.file()).map_err(|error| file.error("make durable", error))?;
    }
    Ok(Fate::Kept { digest: hasher.finish() })
}
