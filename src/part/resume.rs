//! Going on inside a large file that a killed run left half-copied.
//!
//! The file's journal says up to where its part file is to be relied on. If the source is what it was
//! then, the part file is cut off there and reading goes on from there; if anything is not as it should
//! be, both are removed and the file is begun anew.

use std::io::{Read, Seek, SeekFrom};
use std::{fs::File, io, sync::Arc, sync::Mutex, sync::PoisonError};

use crossbeam_channel::{Receiver, Sender, bounded};

use crate::{
    error::Error, error::Result, event::Stop, hash::ChainHasher, hash::Hasher, hash::Sha256,
    hash::chain::LEAST_SPAN, io::Block, io::Journaling, io::Options, part::Part,
    part::content::CopyTarget, state::REFERENCE, sys, sys::Dir, sys::stat::Inode, tree::Checkpoint,
    tree::Found, tree::Journal, tree::Leftovers, tree::NewStates, tree::OutputDir, tree::SourceDir,
    tree::SourceEntry, tree::Subject, tree::Version, tree::journal,
};

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
    /// The useless leftovers of a killed run.
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
        let (source, algorithm) = (Version::of(&entry.stat), options.asked.algorithm);
        let believed = options.asked.holes.are_believed(&entry.stat);
        let ino = stat.id.ino;
        let subject = Subject { name, part: part_name, ino, birth, source, algorithm, believed };
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

/// The journal of the file, if it has one, and the directory that it is in.
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

/// The state of a file: new, or begun by an earlier run.
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
    let Found { journal, closed, subject, checkpoint, mut states } = found;
    let unfit = |subject, why: Option<String>| ResumeState::Unfit { subject, why };
    let is_of_this = subject.source == Version::of(&entry.stat);
    let fits = is_of_this
        && *subject.name == *entry.name
        && subject.algorithm == options.asked.algorithm
        // Nothing is gone on with that this run would have read.
        && (!subject.believed || options.asked.holes.are_believed(&entry.stat));
    let Some(checkpoint) = checkpoint.filter(|at| fits && at.offset <= entry.stat.size) else {
        return unfit(subject, None);
    };
    let offset = checkpoint.offset;
    states.truncate(usize::try_from(offset / LEAST_SPAN).unwrap_or(usize::MAX));
    let len = options.asked.algorithm.start().state().map_or(0, |state| state.len());
    let Some((state, states_of_further)) = checkpoint.state.split_at_checked(len) else {
        return unfit(subject, None);
    };
    let (Ok(Some((file, stat))), Some(hasher), Some(further)) = (
        dir.open_ours(&subject.part),
        options.asked.algorithm.go_on(state, offset),
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
    // A run that was killed could not seal it, and who writes to it breaks the seal.
    let is_sealed = stat.mtime == REFERENCE && stat.ctime <= closed;
    if journaling.verify || !is_known || !is_sealed {
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
    let (mut hasher, mut further) = (options.asked.algorithm.start(), options.further.start());
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

// Checkpoints: the beginning of a large file made durable while the rest is copied, and noted in its
// journal, so that a later run can go on from there.
//
// The hasher marks the places, because it has the digest's state; the writer passes them on when it
// has written exactly up to there; a thread of its own waits for the device, because the writer must
// not. At most one checkpoint of a worker is on its way: before the next, and before the file is
// complete, it is waited for. So what a killed run must read again is bounded, and so is what the
// system holds back of a large file.

/// Where checkpoints are due in a file.
pub struct CheckpointPlan {
    every: Option<u64>,
    at: u64,
    since: u64,
    /// Number of states of the chain in the checkpoints so far.
    states: usize,
}

impl CheckpointPlan {
    /// One after so many bytes each, for a file that begins at `at` with `states` states of its chain noted;
    /// none without.
    pub fn new(every: Option<u64>, at: u64, states: usize) -> Self {
        Self { every, at, since: 0, states }
    }

    /// So many more bytes were hashed; the checkpoint that is due now, if one is.
    pub fn pass(&mut self, bytes: u64, hasher: &ChainHasher) -> Option<Checkpoint> {
        (self.at, self.since) = (self.at + bytes, self.since + bytes);
        if self.since < self.every? {
            return None;
        }
        self.since = 0;
        let state = hasher.hasher().state()?;
        // Of a file so large that its links grew no states are noted.
        let new = hasher.states_from(self.states).filter(|(span, _)| *span == LEAST_SPAN);
        let states =
            new.map(|(_, states)| NewStates { from: self.states, states: states.to_vec() });
        self.states += states.as_ref().map_or(0, |new| new.states.len());
        Some(Checkpoint { offset: self.at, state, states })
    }
}

/// A checkpoint for the fourth thread of a worker.
pub struct Due {
    part: File,
    journal: Journal,
    checkpoint: Checkpoint,
    durable: Arc<DurableOffset>,
}

/// Up to where the file in hand is durable and noted, while notes may still be written.
///
/// A run that stops cuts the part file off there: a note that is written later would speak of content that
/// is gone, so taking the offset ends all notes.
type DurableOffset = Mutex<Option<u64>>;

/// Its answer: whether the part file is durable, and the journal.
pub type Kept = (io::Result<()>, Journal);

/// The fourth thread of a worker: works until the writer is gone.
pub fn work(due: &Receiver<Due>, kept: &Sender<Kept>) {
    while let Ok(Due { part, mut journal, checkpoint, durable }) = due.recv() {
        let persisted = sys::persist_content(&part);
        if persisted.is_ok() {
            let mut durable = durable.lock().unwrap_or_else(PoisonError::into_inner);
            // Without the note, the one before counts: more is read again, and nothing is wrong.
            if durable.is_some() && journal.note(&checkpoint).is_ok() {
                *durable = Some(journal.durable());
            }
        }
        if kept.send((persisted, journal)).is_err() {
            return;
        }
    }
}

/// The writer's end: the journal of the file that is being written.
pub struct Checkpoints {
    due: Sender<Due>,
    kept: Receiver<Kept>,
    journal: Option<Journal>,
    durable: Arc<DurableOffset>,
    on_its_way: bool,
}

impl Checkpoints {
    /// Both ends: the writer's, and what [`work`] takes.
    pub fn new() -> (Self, (Receiver<Due>, Sender<Kept>)) {
        let ((due, from_writer), (to_writer, kept)) = (bounded(1), bounded(1));
        let durable = Arc::default();
        (Self { due, kept, journal: None, durable, on_its_way: false }, (from_writer, to_writer))
    }

    /// Begins a file with this journal, or without one.
    pub fn begin(&mut self, journal: Option<Journal>) {
        self.durable = Arc::new(Mutex::new(journal.as_ref().map(Journal::durable)));
        self.journal = journal;
    }

    /// Up to where the file in hand is durable and noted: bytes, 0 if no note says so. No note is written after
    /// this, also of what is on its way.
    pub fn stop_noting(&mut self) -> u64 {
        self.durable.lock().unwrap_or_else(PoisonError::into_inner).take().unwrap_or(0)
    }

    /// Everything up to `checkpoint` is in the part file, of which this is a further handle. An error
    /// is of the checkpoint before: what was written then may be lost.
    pub fn note(&mut self, part: io::Result<File>, checkpoint: Checkpoint) -> io::Result<()> {
        self.settle()?;
        if let Some(journal) = self.journal.take() {
            let durable = Arc::clone(&self.durable);
            let due = Due { part: part?, journal, checkpoint, durable };
            self.due.send(due).map_err(|_| io::ErrorKind::BrokenPipe)?;
            self.on_its_way = true;
        }
        Ok(())
    }

    /// The file is at its end: waits for what is on its way.
    pub fn end(&mut self) -> io::Result<()> {
        let settled = self.settle();
        self.journal = None;
        settled
    }

    fn settle(&mut self) -> io::Result<()> {
        if !std::mem::take(&mut self.on_its_way) {
            return Ok(());
        }
        let (persisted, journal) = self.kept.recv().map_err(|_| io::ErrorKind::BrokenPipe)?;
        self.journal = Some(journal);
        persisted
    }
}
