//! The workers: they look at files ahead of reading them, and read them in the order that suits.
//!
//! A batch of lines is looked at by one worker, as long as what was looked at fits into the window
//! (see [`Ahead`]). A large file then waits by itself for whoever is free, so that none is idle
//! while another has several; small ones stay together, because a message for each would cost as
//! much as reading it. For each thing that waits there is a token: the workers end when all lines
//! were looked at, nobody can send another token, and none is left.

use std::mem::size_of;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crossbeam_channel::{Receiver, Sender, TryRecvError, select};

use crate::event::{Progress, Stop};
use crate::verify::ahead::{Ahead, Order};
use crate::verify::check::{Checker, Found, Listed};
use crate::verify::finding::{Finding, Verdict};
use crate::verify::lines::{Batch, Line, Told, Turn};
use crate::verify::portion::Portion;
use crate::verify::target::Target;

/// A listed file that was opened, or judged because it could not be.
type Sought = (Line, Result<Found, Verdict>);

/// Says that something was put among what waits.
pub struct Token;

/// A worker.
pub struct Worker<'a> {
    pub checker: Checker<'a>,
    pub order: Order,
    /// Whether large files are read side by side too: where that does not make a device seek.
    pub large_together: bool,
    /// How many workers there are.
    pub workers: usize,
    /// Nobody else has it, so what waits there does not outlive the last of them.
    pub ahead: Arc<Mutex<Ahead<Batch>>>,
    pub portion: Option<&'a Portion>,
    pub progress: &'a Progress,
    pub stop: &'a Stop,
    pub tokens: Receiver<Token>,
    pub told: Sender<Told>,
}

/// What a worker does next.
enum Step {
    /// Look at the files of these lines.
    Look(Batch),
    /// Read what comes first among what waits.
    Read,
    /// Nothing more comes to be looked at.
    NoMoreToLook,
    /// There is nothing left to do.
    End,
}

impl Worker<'_> {
    /// Works until there is nothing more to do.
    pub fn work(mut self, tasks: &Receiver<Batch>, tokens: Sender<Token>) {
        let mut looking = Some(tokens);
        loop {
            match self.next(looking.is_some().then_some(tasks)) {
                Step::Look(batch) => {
                    if let Some(tokens) = &looking {
                        self.look(batch, tokens);
                    }
                }
                Step::Read => self.read(),
                Step::NoMoreToLook => looking = None,
                Step::End => return,
            }
        }
    }

    /// Looking comes first, while there is room.
    fn next(&self, tasks: Option<&Receiver<Batch>>) -> Step {
        let look = |batch: Option<Batch>| batch.map_or(Step::NoMoreToLook, Step::Look);
        let Some(tasks) = tasks else {
            return self.tokens.recv().map_or(Step::End, |Token| Step::Read);
        };
        if self.ahead().has_room() {
            match tasks.try_recv() {
                Err(TryRecvError::Empty) => {}
                task => return look(task.ok()),
            }
        }
        if self.tokens.try_recv().is_ok() {
            return Step::Read;
        }
        // Cannot fail for the tokens: this worker can send some.
        select! {
            recv(self.tokens) -> _ => Step::Read,
            recv(tasks) -> task => look(task.ok()),
        }
    }

    fn ahead(&self) -> MutexGuard<'_, Ahead<Batch>> {
        // Nothing in there can panic half-way.
        self.ahead.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads what comes first: small files that wait together, or large ones, as many as are hashed at
    /// once, but not more than this worker's share.
    fn read(&mut self) {
        let (mut ahead, mut more) = (self.ahead(), Vec::new());
        let Some(mut batch) = ahead.take() else { return };
        let most = self.checker.side_by_side().min(ahead.len().div_ceil(self.workers));
        let mut apart = None;
        while self.large_together && batch.lines.len() == 1 && more.len() + 1 < most {
            // What is taken has its token.
            if self.tokens.try_recv().is_err() {
                break;
            }
            match ahead.take() {
                Some(Batch { target, lines, .. })
                    if lines.len() == 1 && Arc::ptr_eq(&target, &batch.target) =>
                {
                    more.extend(lines);
                }
                other => {
                    apart = other;
                    break;
                }
            }
        }
        drop(ahead);
        if !more.is_empty() {
            batch.lines = batch.lines.chain(more).collect::<Vec<_>>().into_iter();
        }
        [Some(batch), apart].into_iter().flatten().for_each(|batch| self.batch(batch));
    }

    /// Looks at the files of a batch and puts them where they belong. What cannot be found is
    /// judged in its turn.
    fn look(&mut self, batch: Batch, tokens: &Sender<Token>) {
        let Batch { target, turn, lines } = batch;
        let mut together = Vec::new();
        for mut line in lines {
            if self.stop.is_requested() {
                return;
            }
            let place = match self.order {
                Order::AsOnDisk => self.checker.place_on_disk(&target, &line.path),
                Order::LargeFirst => {
                    let size = self.checker.size(&target, &line.path);
                    line.looked_at = size.is_some();
                    size.and_then(Order::place_of_size)
                }
            };
            match place {
                Some(place) => {
                    // It may wait for hours, and is looked at again then.
                    line.looked_at = false;
                    self.put(place, &target, &turn, vec![line], tokens);
                }
                None => together.push(line),
            }
        }
        self.put(Order::LAST, &target, &turn, together, tokens);
    }

    fn put(
        &self,
        place: u64,
        target: &Arc<Target>,
        turn: &Option<Turn>,
        lines: Vec<Line>,
        tokens: &Sender<Token>,
    ) {
        if lines.is_empty() {
            return;
        }
        let weight = lines.iter().map(|l| size_of::<Line>() + l.path.as_bytes().len()).sum();
        let (target, turn) = (Arc::clone(target), turn.clone());
        let batch = Batch { target, turn, lines: lines.into_iter() };
        self.ahead().put(place, weight, batch);
        // Cannot fail: this worker receives too.
        let _ = tokens.send(Token);
    }

    fn batch(&mut self, batch: Batch) {
        let Batch { target, mut turn, lines } = batch;
        let mut told = Vec::new();
        let mut lines = lines.peekable();
        while lines.peek().is_some() && !self.stop.is_requested() {
            let handful = lines.by_ref().take(self.checker.side_by_side()).collect();
            let sought = self.seek(&target, handful, &mut told);
            if lines.peek().is_none() {
                turn = None;
            }
            if self.read_all(&target, sought, &mut told).is_none() {
                break;
            }
        }
        drop(turn);
        if !told.is_empty() {
            // Fails only when nobody listens any more, and then nothing matters.
            let _ = self.told.send((target, told));
        }
    }

    /// Opens files that are to be read side by side, as far as they belong to the portion.
    fn seek(
        &mut self,
        target: &Arc<Target>,
        lines: Vec<Line>,
        told: &mut Vec<Finding>,
    ) -> Vec<Sought> {
        let mut sought = Vec::with_capacity(lines.len());
        for mut line in lines {
            if let Some(portion) = self.portion.filter(|portion| portion.is_over()) {
                portion.leave();
                continue;
            }
            self.progress.set_current(|path| path.extend_from_slice(line.path.as_bytes()));
            let mut found = self.checker.find(target, &line.path, line.looked_at);
            if let (Some(portion), Ok(found)) = (self.portion, &found)
                && !portion.takes(found.size())
            {
                portion.leave();
                continue;
            }
            if let Some(to) = found.as_mut().ok().and_then(|found| found.converted.take()) {
                let from = std::mem::replace(&mut line.path, to.clone());
                told.push(Finding::Converted { line: line.number, from, to });
            }
            sought.push((line, found));
        }
        sought
    }

    /// Reads and judges them; `None` if it is to stop before that is done.
    fn read_all(
        &mut self,
        target: &Target,
        sought: Vec<Sought>,
        told: &mut Vec<Finding>,
    ) -> Option<()> {
        let files: Vec<_> = sought
            .iter()
            .filter_map(|(line, found)| {
                let found = found.as_ref().ok()?;
                Some(Listed { path: &line.path, found, digest: &line.digest })
            })
            .collect();
        let mut read = self.checker.read(target, &files)?.into_iter();
        for (Line { number, path, digest: listed, .. }, found) in sought {
            let (verdict, bytes) = match found {
                Ok(_) => read.next()?,
                Err(verdict) => (verdict, 0),
            };
            self.progress.entries.fetch_add(1, Relaxed);
            if !matches!(verdict, Verdict::Good(_)) {
                self.progress.failed.fetch_add(1, Relaxed);
            }
            told.push(Finding::File { line: number, path, listed, verdict, bytes });
        }
        Some(())
    }
}
