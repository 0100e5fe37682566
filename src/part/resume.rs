//! Going on inside a large file that a killed run left half-copied.
//!
//! The file's journal says up to where its part file is to be relied on. If the source is what it was
//! then, the part file is cut off there and reading goes on from there; if anything is not as it should
//! be, both are removed and the file is begun anew.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};

use crate::error::{Error, Result};
use crate::event::Stop;
use crate::hash::chain::{ChainHasher, LEAST_SPAN};
use crate::hash::{Hasher, Sha256};
use crate::io::block::Block;
use crate::io::options::{Journaling, Options};
use crate::part::part_file::Part;
use crate::part::transfer::CopyTarget;
use crate::sys::stat::Inode;
use crate::sys::{self, Dir};
use crate::tree::cleanup::Leftovers;
use crate::tree::dirs::{OutputDir, SourceDir};
use crate::tree::found::SourceEntry;
use crate::tree::journal::{self, Found, Journal, Subject, Version};

/// Where a file is gone on with.
#[derive(Clone)]
pub struct Resumed {
    /// So many bytes are in the part file already.
    pub offset: u64,
    /// Their digest so far, with the states of their chain if these are known.
    pub hasher: ChainHasher,
    /// Their further digests so far.
    pub further: Hasher,
}

/// A part file that is ready to be written to.
pub struct ReadyPart {
    /// The part file, with its journal if it has one.
    pub part: Part,
    /// Where it is gone on with.
    pub resumed: Option<Resumed>,
    /// So many bytes lie between its checkpoints.
    pub checkpoints: Option<u64>,
    /// What a killed run left and was of no use.
    pub swept: Leftovers,
}

/// Makes the part file of a large file, or takes up the one that a killed run left. `None` if the run
/// was asked to stop meanwhile. `scratch` is for reading what is there.
pub fn begin(
    options: &Options,
    stop: &Stop,
    source: &SourceDir,
    target: &CopyTarget,
    scratch: &mut Block,
    warnings: &mut Vec<Error>,
) -> Result<Option<ReadyPart>> {
    let CopyTarget { output, entry, .. } = target;
    let create = || Part::create(options, target);
    let Some((journaling, dir)) = journaling(options, source, output, entry) else {
        let (part, swept) = (create()?, Leftovers::default());
        return Ok(Some(ReadyPart { part, resumed: None, checkpoints: None, swept }));
    };
    let (queue, block) = (options.blocks * options.block_size, options.block_size as u64);
    let mut swept = Leftovers::default();
    let checkpoints = Some(journaling.step(queue as u64, block));
    let keeps_numbers = output.volume.tried.traits.keeps_numbers;
    match take_up(options, stop, journaling, keeps_numbers, dir, entry, scratch) {
        ResumeState::Up { journal, subject, file, resumed } => {
            let part = Part::take_up(options, output, &subject, file, journal);
            return Ok(Some(ReadyPart { part, resumed: Some(*resumed), checkpoints, swept }));
        }
        ResumeState::Stopped => return Ok(None),
        ResumeState::Nothing => {}
        ResumeState::Unfit { subject, why } => {
            warnings.extend(why.map(|why| {
                Error::finding("go on with", output.path_of(&subject.part), why)
                    .with_note("; the file is copied from its beginning")
            }));
            swept = discard(output, &subject, &journaling.secret);
        }
    }
    let mut part = create()?;
    if let (Some(name), Ok(Inode { stat, birth })) = (part.name(), part.inode()) {
        let (name, part_name) = (entry.name.to_os_string(), name.to_os_string());
        let (source, algorithm) = (Version::of(&entry.stat), options.algorithm);
        let ino = stat.id.ino;
        let subject = Subject { name, part: part_name, ino, birth, source, algorithm };
        // Without a journal the file is copied just as well.
        if let Ok(journal) = Journal::create(dir, &subject, &journaling.secret) {
            part.keep_journal(journal);
        }
    }
    Ok(Some(ReadyPart { part, resumed: None, checkpoints, swept }))
}

/// The file is not copied after all: removes what a killed run left of it.
pub fn forget(
    options: &Options,
    source: &SourceDir,
    output: &OutputDir,
    entry: &SourceEntry,
) -> Leftovers {
    let Some((journaling, dir)) =
        journaling(options, source, output, entry).filter(|_| !output.fresh)
    else {
        return Leftovers::default();
    };
    match Journal::open(dir, &journal::name_of(&entry.name, &journaling.secret), &journaling.secret)
    {
        Ok(Some(found)) => discard(output, &found.subject, &journaling.secret),
        _ => Leftovers::default(),
    }
}

/// How the file is journaled, if it is, and where.
fn journaling<'a>(
    options: &Options,
    source: &SourceDir,
    output: &'a OutputDir,
    entry: &SourceEntry,
) -> Option<(Journaling, &'a Dir)> {
    let journaling = options.journaling.filter(|it| entry.stat.size > it.interval)?;
    // A file of the source has the right to its name.
    let is_in_source =
        source.handle.stat(&journal::name_of(&entry.name, &journaling.secret), false).is_ok();
    Some((journaling, output.handle.as_ref().filter(|_| !is_in_source)?))
}

/// What there is of a file.
enum ResumeState {
    /// Its beginning, to go on with.
    Up {
        journal: Journal,
        subject: Subject,
        file: File,
        resumed: Box<Resumed>,
    },
    Nothing,
    /// Something that is of no use, because of this if that is worth telling.
    Unfit {
        subject: Subject,
        why: Option<String>,
    },
    /// The run was asked to stop.
    Stopped,
}

fn take_up(
    options: &Options,
    stop: &Stop,
    journaling: Journaling,
    keeps_numbers: bool,
    dir: &Dir,
    entry: &SourceEntry,
    scratch: &mut Block,
) -> ResumeState {
    let name = journal::name_of(&entry.name, &journaling.secret);
    let Ok(Some(found)) = Journal::open(dir, &name, &journaling.secret) else {
        return ResumeState::Nothing;
    };
    let Found { journal, subject, checkpoint, mut states } = found;
    let unfit = |subject, why: Option<String>| ResumeState::Unfit { subject, why };
    let is_of_this = subject.source == Version::of(&entry.stat);
    let fits = is_of_this && *subject.name == *entry.name && subject.algorithm == options.algorithm;
    let Some(checkpoint) = checkpoint.filter(|at| fits && at.offset <= entry.stat.size) else {
        return unfit(subject, None);
    };
    let offset = checkpoint.offset;
    states.truncate(usize::try_from(offset / LEAST_SPAN).unwrap_or(usize::MAX));
    let len = options.algorithm.start().state().map_or(0, |state| state.len());
    let Some((state, states_of_further)) = checkpoint.state.split_at_checked(len) else {
        return unfit(subject, None);
    };
    let (Ok(Some((file, stat))), Some(hasher), Some(further)) = (
        dir.open_ours(&subject.part),
        options.algorithm.go_on(state, offset),
        options.further.go_on(states_of_further, offset),
    ) else {
        return unfit(subject, None);
    };
    if stat.size < offset {
        let why = format!("it has {} bytes, and {offset} were made durable", stat.size);
        return unfit(subject, Some(why));
    }
    // Files of this user may have exchanged their names. Where numbers do not last, and where it is not told when a
    // file was made, content decides.
    let birth = Dir::birth_of(&file).filter(|_| keeps_numbers);
    let is_known = match birth.zip(subject.birth) {
        Some((birth, noted)) if birth != noted || stat.id.ino != subject.ino => {
            let why = "it is not the part file that was written".to_string();
            return unfit(subject, Some(why));
        }
        known => known.is_some(),
    };
    if journaling.verify || !is_known {
        match state_of(options, stop, &file, offset, scratch) {
            Ok(Some(state)) if state == checkpoint.state => {}
            Ok(Some(_)) => {
                let why = "its content is not what was written to it".to_string();
                return unfit(subject, Some(why));
            }
            Ok(None) => return ResumeState::Stopped,
            Err(error) => return unfit(subject, Some(error.to_string())),
        }
    }
    let hasher = ChainHasher::going_on(hasher, LEAST_SPAN, states);
    // What is behind the checkpoint may not be what was written.
    let cut = file.set_len(offset).and_then(|()| (&file).seek(SeekFrom::Start(offset)));
    match cut {
        Ok(_) => {
            let resumed = Box::new(Resumed { offset, hasher, further });
            ResumeState::Up { journal, subject, file, resumed }
        }
        Err(error) => unfit(subject, Some(error.to_string())),
    }
}

/// The states of the digests after the first `len` bytes of a file; `None` if the run is to stop.
fn state_of(
    options: &Options,
    stop: &Stop,
    mut file: &File,
    len: u64,
    scratch: &mut Block,
) -> io::Result<Option<Vec<u8>>> {
    let (mut hasher, mut further) = (options.algorithm.start(), options.further.start());
    let mut left = len;
    while left > 0 {
        if stop.is_urgent() {
            return Ok(None);
        }
        scratch.clear();
        let room = scratch.room();
        let most = room.len().min(usize::try_from(left).unwrap_or(usize::MAX));
        match sys::uninterrupted(|| file.read(&mut room[..most]))? {
            0 => break,
            read => {
                scratch.fill(read);
                hasher.update(scratch);
                further.update(scratch);
                left -= read as u64;
            }
        }
    }
    Ok(hasher.state().zip(further.states()).map(|(state, more)| [state, more].concat()))
}

/// Removes what a killed run left, the journal first.
fn discard(output: &OutputDir, subject: &Subject, secret: &Sha256) -> Leftovers {
    let mut swept = Leftovers::default();
    swept.remove(output, journal::name_of(&subject.name, secret));
    swept.remove(output, subject.part.clone());
    swept
}
