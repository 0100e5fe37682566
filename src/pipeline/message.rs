//! A file on its way through the three threads of a worker, and the messages that carry it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use crossbeam_channel::{Receiver, RecvError, RecvTimeoutError, Sender};

use crate::error::Error;
use crate::event::timing::{StageTiming, Timer};
use crate::fanout::chunk::Data;
use crate::part::part_file::Part;
use crate::part::resume::Resumed;
use crate::part::transfer::Transfer;
use crate::sys::Attributes;
use crate::tree::journal::Checkpoint;

/// A stage before that sends nothing for this long may hang in a call.
const A_WHILE: Duration = Duration::from_millis(500);

/// A file on its way.
pub struct LargeFile {
    pub transfer: Transfer,
    /// Where it is gone on with, if a killed run left its beginning.
    pub resumed: Option<Resumed>,
    /// So many bytes lie between its checkpoints, if it has any.
    pub checkpoints: Option<u64>,
    given_up: AtomicBool,
}

impl LargeFile {
    /// A file that is about to be read.
    pub fn new(transfer: Transfer, resumed: Option<Resumed>, checkpoints: Option<u64>) -> Self {
        Self { transfer, resumed, checkpoints, given_up: AtomicBool::new(false) }
    }

    /// How much of the file is in the part file before anything is read; bytes.
    pub fn start(&self) -> u64 {
        self.resumed.as_ref().map_or(0, |resumed| resumed.offset)
    }

    /// Tells the stages before that nothing more of the file is wanted.
    pub fn give_up(&self) {
        self.given_up.store(true, Relaxed);
    }

    /// Whether a later stage wants nothing more of it.
    pub fn is_given_up(&self) -> bool {
        self.given_up.load(Relaxed)
    }
}

/// One step of a file from stage to stage. Every `Begin` is followed by one `End`; a channel that
/// closes in between means that a thread died, never that the file is complete.
pub enum FileStep<E> {
    /// What follows is of this file, and goes into this part file.
    Begin(Arc<LargeFile>, Part),
    /// All of the file so far is void: it changed while it was read, and begins again as this.
    Again(Arc<LargeFile>),
    Data(Data),
    /// The next so many bytes are a hole.
    Hole(u64),
    /// Up to here the file is to be made durable: from the hasher.
    Checkpoint(Checkpoint),
    /// There is no more, and this is how it ended.
    End(E),
}

/// How reading ended well: what else there is to take over.
pub struct ReadEnd {
    /// The file's extended attributes.
    pub attributes: Attributes,
    /// What could not be read of them.
    pub warnings: Vec<Error>,
}

/// How a file ended early.
pub enum EarlyEnd {
    Failed(Error),
    /// Because the run stops, or a later stage gave the file up.
    Abandoned,
}

/// Receives the next step, counting the wait; an error when the stage before is gone.
pub fn receive<E>(
    from: &Receiver<FileStep<E>>,
    clock: &StageTiming,
) -> Result<FileStep<E>, RecvError> {
    from.try_recv().or_else(|_| {
        let _waiting = Timer::start(&clock.waited);
        from.recv()
    })
}

/// The same, but nothing once nothing has come for a while and `is_to_stop`.
pub fn receive_unless<E>(
    from: &Receiver<FileStep<E>>,
    clock: &StageTiming,
    is_to_stop: impl Fn() -> bool,
) -> Option<Result<FileStep<E>, RecvError>> {
    if let Ok(step) = from.try_recv() {
        return Some(Ok(step));
    }
    let _waiting = Timer::start(&clock.waited);
    loop {
        match from.recv_timeout(A_WHILE) {
            Err(RecvTimeoutError::Timeout) if is_to_stop() => return None,
            Err(RecvTimeoutError::Timeout) => {}
            received => return Some(received.map_err(|_| RecvError)),
        }
    }
}

/// The stage after is gone: its thread died, and this one is to end too.
pub struct Disconnected;

/// Sends a step, counting the wait.
pub fn send<E>(
    to: &Sender<FileStep<E>>,
    step: FileStep<E>,
    clock: &StageTiming,
) -> Result<(), Disconnected> {
    to.try_send(step).or_else(|full| {
        let _waiting = Timer::start(&clock.waited);
        to.send(full.into_inner()).map_err(|_| Disconnected)
    })
}
