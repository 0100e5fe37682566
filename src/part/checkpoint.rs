//! Checkpoints: the beginning of a large file made durable while the rest is copied, and noted in its
//! journal, so that a later run can go on from there.
//!
//! The hasher marks the places, because it has the digest's state; the writer passes them on when it
//! has written exactly up to there; a thread of its own waits for the device, because the writer must
//! not. At most one checkpoint of a worker is on its way: before the next, and before the file is
//! complete, it is waited for. So what a killed run must read again is bounded, and so is what the
//! system holds back of a large file.

use std::fs::File;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use crossbeam_channel::{Receiver, Sender, bounded};

use crate::hash::chain::{ChainHasher, LEAST_SPAN};
use crate::sys;
use crate::tree::journal::noted_states::NewStates;
use crate::tree::journal::{Checkpoint, Journal};

/// Where checkpoints are due in a file.
pub struct CheckpointPlan {
    every: Option<u64>,
    at: u64,
    since: u64,
    /// How many states of the chain the checkpoints so far have.
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

/// What the fourth thread of a worker is given.
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
#[derive(Default)]
struct DurableOffset(Mutex<Option<u64>>);

impl DurableOffset {
    fn new(journal: Option<&Journal>) -> Self {
        Self(Mutex::new(journal.map(Journal::durable)))
    }

    /// Writes a note unless notes have ended.
    fn note(&self, journal: &mut Journal, checkpoint: &Checkpoint) {
        let mut durable = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // Without the note, the one before counts: more is read again, and nothing is wrong.
        if durable.is_some() && journal.note(checkpoint).is_ok() {
            *durable = Some(journal.durable());
        }
    }

    /// Ends the notes; bytes.
    fn take(&self) -> u64 {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take().unwrap_or(0)
    }
}

/// What it gives back: whether the part file is durable, and the journal.
pub type Kept = (io::Result<()>, Journal);

/// The fourth thread of a worker: works until the writer is gone.
pub fn work(due: &Receiver<Due>, kept: &Sender<Kept>) {
    while let Ok(Due { part, mut journal, checkpoint, durable }) = due.recv() {
        let persisted = sys::persist_content(&part);
        if persisted.is_ok() {
            durable.note(&mut journal, &checkpoint);
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

    /// What follows is of a file with this journal, or without one.
    pub fn begin(&mut self, journal: Option<Journal>) {
        self.durable = Arc::new(DurableOffset::new(journal.as_ref()));
        self.journal = journal;
    }

    /// Up to where the file in hand is durable and noted: bytes, 0 if no note says so. No note is written after
    /// this, also of what is on its way.
    pub fn stop_noting(&mut self) -> u64 {
        self.durable.take()
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
