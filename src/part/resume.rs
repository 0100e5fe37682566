//! Going on inside a large file that a killed run left half-copied.
//!
//! The file's journal says up to where its part file is to be relied on. If the source is what it was
//! then, the part file is cut off there and reading goes on from there; if anything is not as it should
//! be, both are removed and the file is begun anew.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::hash::Hasher;
use crate::io::block::Block;
use crate::part::part_file::Part;
use crate::sys::Dir;
use crate::transfer::context::Context;
use crate::tree::cleanup::Swept;
use crate::tree::dirs::{Entry, OutputDir, SourceDir};
use crate::tree::journal::{self, Found, Journal, Subject, Version};

/// What becomes of the half of a large file that a killed run left.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Resume {
    /// Go on where its journal says that it is durable.
    #[default]
    Auto,
    /// The same, but read and hash first what is there.
    Verify,
    /// Begin anew, and keep no journals.
    Off,
}

/// How large files are made fit to be gone on with.
#[derive(Clone, Copy, Debug)]
pub struct Journaling {
    /// The most of a file that is read again, and the size above which a file has a journal; bytes.
    pub interval: u64,
    /// Whether what is there is read before it is gone on with.
    pub verify: bool,
}

impl Journaling {
    /// So many bytes lie between checkpoints. While one is on its way the next half is written, and
    /// what was read and not yet written, at most `queue` bytes, is read again too.
    fn step(self, queue: u64, block: u64) -> u64 {
        (self.interval.saturating_sub(queue) / 2).saturating_sub(block).max(block)
    }
}

/// Where a file is gone on with.
#[derive(Clone)]
pub struct Resumed {
    /// So many bytes are in the part file already.
    pub offset: u64,
    /// Their digest so far.
    pub hasher: Hasher,
}

/// A part file that is ready to be written to.
pub struct Begun {
    /// The part file, with its journal if it has one.
    pub part: Part,
    /// Where it is gone on with.
    pub resumed: Option<Resumed>,
    /// So many bytes lie between its checkpoints.
    pub checkpoints: Option<u64>,
    /// What a killed run left and was of no use.
    pub swept: Swept,
}

/// Makes the part file of a large file, or takes up the one that a killed run left. `None` if the run
/// was asked to stop meanwhile. `scratch` is for reading what is there.
pub fn begin(
    context: &Context<'_>,
    (source, output): (&SourceDir, &Arc<OutputDir>),
    entry: &Entry,
    replaces: bool,
    scratch: &mut Block,
    warnings: &mut Vec<Error>,
) -> Result<Option<Begun>> {
    let create = || Part::create(context, output, entry, replaces);
    let Some((journaling, dir)) = journaling(context, source, output, entry) else {
        let (part, swept) = (create()?, Swept::default());
        return Ok(Some(Begun { part, resumed: None, checkpoints: None, swept }));
    };
    let (queue, block) = (context.blocks * context.block_size, context.block_size as u64);
    let mut swept = Swept::default();
    let checkpoints = Some(journaling.step(queue as u64, block));
    match take_up(context, journaling, dir, entry, scratch) {
        Taken::Up { journal, subject, file, resumed } => {
            let part = Part::take_up(context, output, &subject, file, journal);
            return Ok(Some(Begun { part, resumed: Some(resumed), checkpoints, swept }));
        }
        Taken::Stopped => return Ok(None),
        Taken::Nothing => {}
        Taken::Unfit { subject, why } => {
            warnings.extend(why.map(|why| {
                Error::finding("go on with", output.path_of(&subject.part), why)
                    .with_note("; the file is copied from its beginning")
            }));
            swept = discard(output, &subject);
        }
    }
    let mut part = create()?;
    if let Some(name) = part.name() {
        let (name, part_name) = (entry.name.to_os_string(), name.to_os_string());
        let (source, algorithm) = (Version::of(&entry.stat), context.algorithm);
        let subject = Subject { name, part: part_name, source, algorithm };
        // Without a journal the file is copied just as well.
        if let Ok(journal) = Journal::create(dir, &subject) {
            part.keep_journal(journal);
        }
    }
    Ok(Some(Begun { part, resumed: None, checkpoints, swept }))
}

/// The file is not copied after all: removes what a killed run left of it.
pub fn forget(
    context: &Context<'_>,
    source: &SourceDir,
    output: &OutputDir,
    entry: &Entry,
) -> Swept {
    let Some((_, dir)) = journaling(context, source, output, entry).filter(|_| !output.fresh)
    else {
        return Swept::default();
    };
    match Journal::open(dir, &journal::name_of(&entry.name)) {
        Ok(Some(found)) => discard(output, &found.subject),
        _ => Swept::default(),
    }
}

/// How the file is journaled, if it is, and where.
fn journaling<'a>(
    context: &Context<'_>,
    source: &SourceDir,
    output: &'a OutputDir,
    entry: &Entry,
) -> Option<(Journaling, &'a Dir)> {
    let journaling = context.journaling.filter(|it| entry.stat.size > it.interval)?;
    // A file of the source has the right to its name.
    let is_in_source = source.handle.stat(&journal::name_of(&entry.name), false).is_ok();
    Some((journaling, output.handle.as_ref().filter(|_| !is_in_source)?))
}

/// What there is of a file.
enum Taken {
    /// Its beginning, to go on with.
    Up { journal: Journal, subject: Subject, file: File, resumed: Resumed },
    /// Nothing.
    Nothing,
    /// Something that is of no use, because of this if that is worth telling.
    Unfit { subject: Subject, why: Option<String> },
    /// The run was asked to stop.
    Stopped,
}

fn take_up(
    context: &Context<'_>,
    journaling: Journaling,
    dir: &Dir,
    entry: &Entry,
    scratch: &mut Block,
) -> Taken {
    let Ok(Some(found)) = Journal::open(dir, &journal::name_of(&entry.name)) else {
        return Taken::Nothing;
    };
    let Found { journal, subject, checkpoint } = found;
    let unfit = |subject, why: Option<String>| Taken::Unfit { subject, why };
    let is_of_this = subject.source == Version::of(&entry.stat);
    let fits = is_of_this && *subject.name == *entry.name && subject.algorithm == context.algorithm;
    let Some(checkpoint) = checkpoint.filter(|at| fits && at.offset <= entry.stat.size) else {
        return unfit(subject, None);
    };
    let offset = checkpoint.offset;
    let (Ok(Some((file, stat))), Some(hasher)) =
        (dir.open_ours(&subject.part), context.algorithm.go_on(&checkpoint.state))
    else {
        return unfit(subject, None);
    };
    if stat.size < offset {
        let why = format!("it has {} bytes, and {offset} were made durable", stat.size);
        return unfit(subject, Some(why));
    }
    if journaling.verify {
        match state_of(context, &file, offset, scratch) {
            Ok(Some(state)) if state == checkpoint.state => {}
            Ok(Some(_)) => {
                let why = "its content is not what was written to it".to_string();
                return unfit(subject, Some(why));
            }
            Ok(None) => return Taken::Stopped,
            Err(error) => return unfit(subject, Some(error.to_string())),
        }
    }
    // What is behind the checkpoint may not be what was written.
    let cut = file.set_len(offset).and_then(|()| (&file).seek(SeekFrom::Start(offset)));
    match cut {
        Ok(_) => Taken::Up { journal, subject, file, resumed: Resumed { offset, hasher } },
        Err(error) => unfit(subject, Some(error.to_string())),
    }
}

/// The state of the digest after the first `len` bytes of a file; `None` if the run is to stop.
fn state_of(
    context: &Context<'_>,
    mut file: &File,
    len: u64,
    scratch: &mut Block,
) -> io::Result<Option<Vec<u8>>> {
    let mut hasher = context.algorithm.start();
    let mut left = len;
    while left > 0 {
        if context.stop.is_urgent() {
            return Ok(None);
        }
        scratch.clear();
        let room = scratch.room();
        let most = room.len().min(usize::try_from(left).unwrap_or(usize::MAX));
        match file.read(&mut room[..most]) {
            Ok(0) => break,
            Ok(read) => {
                scratch.fill(read);
                hasher.update(scratch);
                left -= read as u64;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(hasher.state())
}

/// Removes what a killed run left, the journal first.
fn discard(output: &OutputDir, subject: &Subject) -> Swept {
    let mut swept = Swept::default();
    swept.remove(output, journal::name_of(&subject.name));
    swept.remove(output, subject.part.clone());
    swept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interval_is_the_most_that_is_read_again() {
        let mib = 1 << 20;
        for (interval, queue, block) in [(256 * mib, 4 * mib, mib / 4), (mib, 4096, 4096)] {
            let step = Journaling { interval, verify: false }.step(queue, block);
            // The checkpoint that is due is not noted, and the one before is the last that is.
            assert!(2 * (step + block) + queue <= interval);
            assert!(step > interval / 3);
        }
        assert_eq!(Journaling { interval: 1, verify: false }.step(1 << 30, 4096), 4096);
    }
}
