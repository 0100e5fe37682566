//! The threads that read copies back, and the queue by which the committer gives them work.
//!
//! While they read back what one group wrote, the workers fill the next. The committer alone gives them work, and
//! bounds what is on its way to them and back. So neither side waits for space in a channel, and the committer
//! can wait for answers while no thread waits for the committer.

use std::io;
use std::thread::{Builder, Scope, ScopedJoinHandle};

use crossbeam_channel::{Receiver, Sender, never, unbounded};

use crate::copy::commit::group::{BYTES, FILES};
use crate::event::timing::Timer;
use crate::io::options::Damaged;
use crate::transfer::context::Context;
use crate::transfer::outcome::PendingPublish;
use crate::transfer::verifier::{CheckedCopy, ReadBackVerifier};

/// What comes back from a thread.
pub enum Answer {
    /// A copy that was read back.
    ReadBack(Box<CheckedCopy>),
    /// The thread died, and one copy with it.
    Died,
}

/// The committer's side: copies on their way to the threads and back.
pub struct ReadBackQueue {
    tasks: Option<Sender<PendingPublish>>,
    answers: Receiver<Answer>,
    /// Copies on their way.
    files: usize,
    most_files: usize,
    /// Their bytes, of each copy at most those of a group: so many large ones as there are threads
    /// keep all of these busy, and while there are fewer, others need not wait for them.
    bytes: u64,
    most_bytes: u64,
}

pub struct Verifiers {
    number: usize,
    tasks: Receiver<PendingPublish>,
    answers: Sender<Answer>,
}

/// A queue for so many threads, and for copies in at most so many directories at a time.
pub fn read_back_queue(verifiers: usize, most_dirs: usize) -> (ReadBackQueue, Verifiers) {
    let (tasks, for_verifiers) = unbounded();
    let (to_committer, answers) = unbounded();
    let queue = ReadBackQueue {
        tasks: Some(tasks),
        answers,
        files: 0,
        // Each may be in a directory of its own.
        most_files: most_dirs.min(FILES),
        bytes: 0,
        most_bytes: BYTES * verifiers as u64,
    };
    (queue, Verifiers { number: verifiers, tasks: for_verifiers, answers: to_committer })
}

impl ReadBackQueue {
    /// For a run that reads nothing back.
    pub fn none() -> Self {
        let (most_files, most_bytes) = (0, 0);
        Self { tasks: None, answers: never(), files: 0, most_files, bytes: 0, most_bytes }
    }

    /// What the threads answer. It closes when they are gone.
    pub fn answers(&self) -> &Receiver<Answer> {
        &self.answers
    }

    /// Whether so many copies are on their way that no more should be given.
    pub fn is_full(&self) -> bool {
        self.tasks.is_some() && (self.files >= self.most_files || self.bytes >= self.most_bytes)
    }

    /// Whether a copy is on its way.
    pub fn is_busy(&self) -> bool {
        self.files > 0
    }

    /// Gives a copy to be read back; returns it if there is no thread to do it.
    pub fn give(&mut self, file: PendingPublish) -> Result<(), Box<PendingPublish>> {
        let (files, bytes) = (self.files + 1, self.bytes + weight(&file));
        match &self.tasks {
            Some(tasks) => tasks.send(file).map_err(|unsent| Box::new(unsent.into_inner()))?,
            None => return Err(Box::new(file)),
        }
        (self.files, self.bytes) = (files, bytes);
        Ok(())
    }

    /// A copy came back.
    pub fn returned(&mut self, file: &PendingPublish) {
        self.files = self.files.saturating_sub(1);
        self.bytes = self.bytes.saturating_sub(weight(file));
    }

    /// No more is given: the threads end when they have answered.
    pub fn close(&mut self) {
        self.tasks = None;
    }

    /// The threads are gone.
    pub fn lost(&mut self) {
        *self = Self::none();
    }
}

fn weight(file: &PendingPublish) -> u64 {
    file.target.entry.stat.size.min(BYTES)
}

impl Verifiers {
    /// Starts the threads.
    ///
    /// # Errors
    /// The system has no threads to give; those that were started end by themselves.
    pub fn start<'scope>(
        self,
        scope: &'scope Scope<'scope, '_>,
        context: &'scope Context<'scope>,
        damaged: Damaged,
    ) -> io::Result<Vec<ScopedJoinHandle<'scope, ()>>> {
        (0..self.number)
            .map(|number| {
                let (tasks, answers) = (self.tasks.clone(), self.answers.clone());
                Builder::new()
                    .name(format!("verify-{number}"))
                    .spawn_scoped(scope, move || work(context, damaged, &tasks, &answers))
            })
            .collect()
    }
}

fn work(
    context: &Context<'_>,
    damaged: Damaged,
    tasks: &Receiver<PendingPublish>,
    answers: &Sender<Answer>,
) {
    let _death = DeathNotice(answers);
    let clock = &context.control.timings.prove;
    let mut verifier = ReadBackVerifier::new(context, damaged);
    let next = || {
        let _waiting = Timer::start(&clock.waited);
        tasks.recv()
    };
    while let Ok(file) = next() {
        let _busy = Timer::start(&clock.busy);
        let answer = verifier.verify(file);
        if answers.send(Answer::ReadBack(Box::new(answer))).is_err() {
            return;
        }
    }
}

/// Tells the committer, which waits for an answer, when none will come.
struct DeathNotice<'a>(&'a Sender<Answer>);

impl Drop for DeathNotice<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            // Fails only if the committer is gone too.
            let _ = self.0.send(Answer::Died);
        }
    }
}
