//! Groups of finished files that become durable together.
//!
//! One `syncfs` for many files costs about a sixth of the flushes of an `fsync` for each. A group
//! passes two of them: after the first, the content is on the device and the part files get their
//! final names; after the second, the names are too, and the lines go into the manifest. The second
//! of one group is the first of the next.

use std::thread::{Builder, Scope, ScopedJoinHandle};
use std::{io, sync::Arc, sync::atomic::Ordering::Relaxed, time::Duration, time::Instant};

use crossbeam_channel::{Receiver, Sender, never, unbounded};

use crate::{
    copy::commit::Committer, event::Timer, hash::Digest, part::content::CopyTarget,
    sys::stat::Inode, sys::stat::Stat, transfer::CheckedCopy, transfer::Context,
    transfer::PendingPublish, transfer::ReadBackVerifier, tree::OutputDir,
};

/// Files of a group. Durable small files on an ext4 disk, relative to `cp -r && sync -f`: groups of
/// 64: 1.45, 512: 1.16, 4096: 1.20.
pub const FILES: usize = 512;

/// Bytes of a group: the most that is read again after a crash, and what bounds the time that one
/// sync takes, so that an interrupted run ends soon.
pub const BYTES: u64 = 256 << 20;

/// Age of a group: a slow trickle of files is recorded this often.
const AGE: Duration = Duration::from_secs(5);

/// The group that is being gathered.
#[derive(Debug)]
pub struct Group {
    files: Vec<PendingPublish>,
    bytes: u64,
    /// Changes of directory from one file to the next: at least the number of directories held open.
    dirs: usize,
    most_dirs: usize,
    since: Option<Instant>,
}

/// Number of directories the files of a group may be in, for a process that may have so many files open: a quarter of
/// these are directories that the group holds. If it is `verified`, the source's are held too, and those of copies that
/// are being read back: as many as of two groups.
pub fn most_dirs(open_files: u64, verified: bool) -> usize {
    let share = if verified { 4 * 2 * 3 } else { 4 };
    usize::try_from(open_files / share).unwrap_or(FILES).clamp(1, FILES)
}

impl Group {
    /// An empty group with files of at most so many directories.
    pub fn new(most_dirs: usize) -> Self {
        Self { files: Vec::new(), bytes: 0, dirs: 0, most_dirs, since: None }
    }

    pub fn push(&mut self, file: PendingPublish) {
        if self
            .files
            .last()
            .is_none_or(|last| !Arc::ptr_eq(&last.target.output, &file.target.output))
        {
            self.dirs += 1;
        }
        self.bytes = self.bytes.saturating_add(file.target.entry.stat.size);
        self.since.get_or_insert_with(Instant::now);
        self.files.push(file);
    }

    /// Number of directories that its files may be in.
    pub fn most_dirs(&self) -> usize {
        self.most_dirs
    }

    /// True if it is large enough to be committed.
    pub fn is_full(&self) -> bool {
        self.files.len() >= FILES || self.bytes >= BYTES || self.dirs >= self.most_dirs
    }

    /// When it is old enough to be committed; `None` while it is empty.
    pub fn due(&self) -> Option<Instant> {
        self.since.map(|since| since + AGE)
    }

    /// Takes the files out; the group is empty then.
    pub fn take(&mut self) -> Vec<PendingPublish> {
        (self.bytes, self.dirs, self.since) = (0, 0, None);
        std::mem::take(&mut self.files)
    }
}

// The threads that read copies back, and the queue by which the committer gives them work.
//
// While they read back what one group wrote, the workers fill the next. The committer alone gives them work, and
// bounds what is on its way to them and back. So neither side waits for space in a channel, and the committer
// can wait for answers while no thread waits for the committer.

/// An answer of a thread.
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

    /// The answers of the threads. It closes when they are gone.
    pub fn answers(&self) -> &Receiver<Answer> {
        &self.answers
    }

    /// True if so many copies are on their way that no more should be given.
    pub fn is_full(&self) -> bool {
        self.tasks.is_some() && (self.files >= self.most_files || self.bytes >= self.most_bytes)
    }

    /// True if a copy is on its way.
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
    ) -> io::Result<Vec<ScopedJoinHandle<'scope, ()>>> {
        (0..self.number)
            .map(|number| {
                let (tasks, answers) = (self.tasks.clone(), self.answers.clone());
                Builder::new()
                    .name(format!("verify-{number}"))
                    .spawn_scoped(scope, move || work(context, &tasks, &answers))
            })
            .collect()
    }
}

fn work(context: &Context<'_>, tasks: &Receiver<PendingPublish>, answers: &Sender<Answer>) {
    let _death = DeathNotice(answers);
    let clock = &context.control.timings.prove;
    let mut verifier = ReadBackVerifier::new(context);
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

// The tasks when the fate of a file is known: its further names, and its directory.

impl Committer<'_> {
    /// The inode of a file that was kept as `stands`, if it has further names to come: these are not for another file
    /// that took its place.
    pub(crate) fn look_again(&self, target: &CopyTarget, stands: &Stat) -> Option<Inode> {
        let CopyTarget { output, entry, .. } = target;
        let is_linked = self.links.is_some() && entry.stat.links > 1;
        let now = output.handle.as_ref().filter(|_| is_linked)?.inode(&entry.name).ok()?;
        let before = Inode { stat: *stands, birth: None };
        // FUSE, which does not tell when files were made, may show change times as the kernel had them.
        let is_as_left = match now.birth {
            Some(_) => stands.ctime == now.stat.ctime,
            None => stands.mtime == now.stat.mtime,
        };
        (output.volume.is_same(&before.known(), &now) && is_as_left).then_some(now)
    }

    /// Notes the outcome of a file; with `stands`, as the inode that stands at the output: its further names can be
    /// made, and its directory may be complete.
    pub(crate) fn done(
        &mut self,
        target: &CopyTarget,
        digest: Option<Digest>,
        stands: Option<&Inode>,
    ) {
        self.done_as(target, digest, stands, false);
    }

    pub(crate) fn done_as(
        &mut self,
        target: &CopyTarget,
        digest: Option<Digest>,
        stands: Option<&Inode>,
        is_left: bool,
    ) {
        let CopyTarget { output, entry, .. } = target;
        self.context.control.progress.entries.fetch_add(1, Relaxed);
        if let Some(further) = self.context.further() {
            further.forget(target.rel_path().as_bytes());
        }
        if let Some(slot) = self.context.shared.slot {
            slot.finish(output, entry);
        }
        self.settle_names(output, entry, digest, stands, is_left, target.labelled);
        self.arrived(output);
    }

    pub(crate) fn arrived(&mut self, output: &Arc<OutputDir>) {
        if output.arrived() && !output.rel.is_root() {
            self.finish_directory(output);
        }
    }
}
