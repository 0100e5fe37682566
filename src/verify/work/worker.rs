//! The workers: they look at files ahead of reading them, and read them in the order that suits.
//!
//! One worker looks at a batch of lines, as long as there is room in the look-ahead queue
//! ([`LookAhead`]). A large file then waits there by itself for the next worker that is free, so that no
//! worker is idle while another has several. Small files stay together, because a message for each would
//! cost as much as reading it. There is a token for each thing in the queue: the workers end when all
//! lines were looked at, no worker can send another token, and none is left.

use std::mem::size_of;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, atomic::Ordering::Relaxed};

use crossbeam_channel::{Receiver, Sender, TryRecvError, select};

use crate::verify::{
    Finding, Findings, ReadOrder, Target, Verdict, lines::manifest_lines::ManifestLine,
    lines::seen::LineBatch, lines::seen::PassGuard, scrub::Scrub, shared::Claimed,
    shared::DataClaim, shared::DataKey, shared::SharedReads, shared::WaitingLine, work::Checker,
    work::threads::FoundFile, work::threads::ListedFile, work::threads::LookAhead,
};
use crate::{error::Error, event::Progress, event::Stop, io::HashedFrom, state::Trace, sys::Dir};

/// A listed file that was opened, or judged because it could not be.
struct OpenedLine {
    line: ManifestLine,
    found: Result<FoundFile, Verdict>,
    /// Its data, if lines may wait for what is found of it.
    claimed: Option<DataKey>,
}

/// Says that something was put into the look-ahead queue.
pub struct Token;

/// The division of the reading among the workers.
#[derive(Clone, Copy)]
pub struct Division {
    /// In which order files are read.
    pub order: ReadOrder,
    /// True if large files are read side by side too: where that does not make a device seek.
    pub large_together: bool,
    /// Number of workers.
    pub workers: usize,
}

pub struct Worker<'a> {
    pub checker: Checker<'a>,
    pub division: Division,
    /// Only workers have it, so the batches that wait there do not outlive the last of them.
    pub ahead: Arc<Mutex<LookAhead<LineBatch>>>,
    pub scrub: Option<&'a Scrub>,
    /// Where data is read once that several files share, if it is.
    pub shared: Option<&'a SharedReads>,
    /// True if it is told as what each good file was read: that takes one more look at it.
    pub proves: bool,
    pub progress: &'a Progress,
    pub stop: &'a Stop,
    pub tokens: Receiver<Token>,
    pub findings: Sender<Findings>,
}

/// The next step of a worker.
enum NextStep {
    /// Look at the files of these lines.
    Look(LineBatch),
    /// Read what comes first in the look-ahead queue.
    Read,
    /// No more lines come to be looked at.
    NoMoreToLook,
    /// There is nothing left to do.
    End,
}

impl Worker<'_> {
    /// Works until there is nothing more to do.
    pub fn work(mut self, tasks: &Receiver<LineBatch>, tokens: Sender<Token>) {
        let mut looking = Some(tokens);
        loop {
            match self.next(looking.is_some().then_some(tasks)) {
                NextStep::Look(batch) => {
                    if let Some(tokens) = &looking {
                        self.look(batch, tokens);
                    }
                }
                NextStep::Read => self.read(),
                NextStep::NoMoreToLook => looking = None,
                NextStep::End => return,
            }
        }
    }

    /// Looking comes first, while there is room.
    fn next(&self, tasks: Option<&Receiver<LineBatch>>) -> NextStep {
        let look = |batch: Option<LineBatch>| batch.map_or(NextStep::NoMoreToLook, NextStep::Look);
        let Some(tasks) = tasks else {
            return self.tokens.recv().map_or(NextStep::End, |Token| NextStep::Read);
        };
        if self.ahead().has_room() {
            match tasks.try_recv() {
                Err(TryRecvError::Empty) => {}
                task => return look(task.ok()),
            }
        }
        if self.tokens.try_recv().is_ok() {
            return NextStep::Read;
        }
        // Cannot fail for the tokens: this worker can send some.
        select! {
            recv(self.tokens) -> _ => NextStep::Read,
            recv(tasks) -> task => look(task.ok()),
        }
    }

    fn ahead(&self) -> MutexGuard<'_, LookAhead<LineBatch>> {
        // Nothing in there can panic half-way.
        self.ahead.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads what comes first: small files that wait together, or large ones, as many as are hashed at
    /// once, but not more than this worker's share.
    fn read(&mut self) {
        let (mut ahead, mut more) = (self.ahead(), Vec::new());
        let Some(mut batch) = ahead.take() else { return };
        let most = self.checker.side_by_side().min(ahead.len().div_ceil(self.division.workers));
        let mut apart = None;
        while self.division.large_together && batch.lines.len() == 1 && more.len() + 1 < most {
            // What is taken has its token.
            if self.tokens.try_recv().is_err() {
                break;
            }
            match ahead.take() {
                Some(LineBatch { target, lines, .. })
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

    /// Looks at the files of a batch and puts them into the look-ahead queue. A file that cannot be found
    /// is judged when it would be read.
    fn look(&mut self, batch: LineBatch, tokens: &Sender<Token>) {
        let LineBatch { target, pass, lines } = batch;
        let mut together = Vec::new();
        for mut line in lines {
            if self.stop.is_requested() {
                return;
            }
            let place = match self.division.order {
                ReadOrder::AsOnDisk => self.checker.place_on_disk(&target, &line.path),
                ReadOrder::LargeFirst => {
                    let size = self.checker.size(&target, &line.path);
                    line.looked_at = size.is_some();
                    size.and_then(ReadOrder::place_of_size)
                }
            };
            match place {
                Some(place) => {
                    // It may wait for hours, and is looked at again then.
                    line.looked_at = false;
                    self.put(place, &target, &pass, vec![line], tokens);
                }
                None => together.push(line),
            }
        }
        self.put(ReadOrder::LAST, &target, &pass, together, tokens);
    }

    fn put(
        &self,
        place: u64,
        target: &Arc<Target>,
        pass: &Option<PassGuard>,
        lines: Vec<ManifestLine>,
        tokens: &Sender<Token>,
    ) {
        if lines.is_empty() {
            return;
        }
        let weight =
            lines.iter().map(|l| size_of::<ManifestLine>() + l.path.as_bytes().len()).sum();
        let (target, pass) = (Arc::clone(target), pass.clone());
        let batch = LineBatch { target, pass, lines: lines.into_iter() };
        self.ahead().put(place, weight, batch);
        // Cannot fail: this worker receives too.
        let _ = tokens.send(Token);
    }

    /// Checks the files of a batch, and then those of lines that waited for one of them.
    fn batch(&mut self, batch: LineBatch) {
        let mut batches = vec![batch];
        while let Some(batch) = batches.pop() {
            for WaitingLine { target, line } in self.check(batch) {
                batches.push(LineBatch { target, pass: None, lines: vec![line].into_iter() });
            }
        }
    }

    /// Checks the files of a batch; the lines that waited for what was found.
    fn check(&mut self, batch: LineBatch) -> Vec<WaitingLine> {
        let LineBatch { target, mut pass, lines } = batch;
        let mut waited = Vec::new();
        let mut findings = Vec::new();
        let mut lines = lines.peekable();
        while lines.peek().is_some() && !self.stop.is_requested() {
            let together = lines.by_ref().take(self.checker.side_by_side()).collect();
            let sought = self.seek(&target, together, &mut findings);
            if lines.peek().is_none() {
                pass = None;
            }
            match self.read_all(&target, sought, &mut findings) {
                Some(lines) => waited.extend(lines),
                None => break,
            }
        }
        drop(pass);
        if !findings.is_empty() {
            // Fails only when the job's thread has ended, and then nothing matters.
            let _ = self.findings.send(Findings::new(&target, findings));
        }
        waited
    }

    /// Opens files that are to be read side by side, as far as the budget of the scrub allows.
    fn seek(
        &mut self,
        target: &Arc<Target>,
        lines: Vec<ManifestLine>,
        findings: &mut Vec<Finding>,
    ) -> Vec<OpenedLine> {
        let mut sought = Vec::with_capacity(lines.len());
        for mut line in lines {
            if let Some(scrub) = self.scrub.filter(|scrub| !scrub.may_begin()) {
                scrub.skip();
                continue;
            }
            let mut found = self.checker.find(target, &line.path, line.looked_at);
            if let (Some(scrub), Ok(found)) = (self.scrub, &found)
                && (scrub.leaves_out(&line.path, &line.digest, found.made())
                    || !scrub.takes(found.size()))
            {
                scrub.skip();
                continue;
            }
            if let Some(to) = found.as_mut().ok().and_then(|found| found.converted.take()) {
                let from = std::mem::replace(&mut line.path, to.clone());
                findings.push(Finding::Converted { line: line.number, from, to });
            }
            sought.extend(self.claim(target, line, found, findings));
        }
        sought
    }

    /// A file that is to be read; nothing if it need not be, or waits for one that has its data.
    fn claim(
        &self,
        target: &Arc<Target>,
        line: ManifestLine,
        found: Result<FoundFile, Verdict>,
        findings: &mut Vec<Finding>,
    ) -> Option<OpenedLine> {
        let claim = match (self.shared, &found) {
            (Some(shared), Ok(found)) => shared.claim(target, line, &found.file, &found.stat),
            _ => DataClaim::Alone(line),
        };
        match claim {
            DataClaim::Alone(line) => Some(OpenedLine { line, found, claimed: None }),
            DataClaim::First(line, key) => Some(OpenedLine { line, found, claimed: Some(key) }),
            DataClaim::Waits => None,
            DataClaim::Known(line, from) => {
                let ManifestLine { number, path, digest: listed, .. } = line;
                let (verdict, shared) =
                    (Verdict::Good(from), found.as_ref().map_or(0, FoundFile::size));
                self.count(&verdict);
                self.progress.advance(shared, None);
                let proven = found.ok().and_then(|found| self.proven_as(target, &found, &verdict));
                findings.push(Finding::File {
                    line: number,
                    path,
                    listed,
                    verdict,
                    bytes: 0,
                    shared,
                    proven,
                });
                None
            }
        }
    }

    /// Reads and judges them, and returns the lines that waited for that; `None` if it is to stop before that is done.
    fn read_all(
        &mut self,
        target: &Target,
        sought: Vec<OpenedLine>,
        findings: &mut Vec<Finding>,
    ) -> Option<Vec<WaitingLine>> {
        let files: Vec<_> = sought
            .iter()
            .filter_map(|OpenedLine { line, found, .. }| {
                let found = found.as_ref().ok()?;
                Some(ListedFile {
                    path: &line.path,
                    found,
                    digest: &line.digest,
                    further: &line.further,
                })
            })
            .collect();
        self.checker.until.at = self.scrub.and_then(Scrub::gives_up_at);
        let mut read = match self.checker.read(target, &files) {
            None if self.stop.is_urgent() => return None,
            None => {
                drop(files);
                sought.into_iter().for_each(|line| self.give_up(target, line, findings));
                return Some(Vec::new());
            }
            Some(read) => read.into_iter(),
        };
        let mut waited = Vec::new();
        for OpenedLine { line, found, claimed } in sought {
            let ManifestLine { number, path, digest: listed, .. } = line;
            let (verdict, bytes, proven) = match found {
                Ok(found) => {
                    let (verdict, bytes) = read.next()?;
                    if let (Some(shared), Some(key)) = (self.shared, claimed) {
                        let (file, stat, digest) = (&found.file, &found.stat, &listed);
                        let claimed = Claimed { key, target, file, stat, digest };
                        waited.extend(shared.settle(&claimed, &verdict));
                    }
                    let proven = self.proven_as(target, &found, &verdict);
                    (verdict, bytes, proven)
                }
                Err(verdict) => (verdict, 0, None),
            };
            self.count(&verdict);
            let (line, shared) = (number, 0);
            findings.push(Finding::File { line, path, listed, verdict, bytes, shared, proven });
        }
        Some(waited)
    }

    /// A file took longer than the scrub and its grace.
    fn give_up(&self, target: &Target, line: OpenedLine, findings: &mut Vec<Finding>) {
        let OpenedLine { line, found, .. } = line;
        let ManifestLine { number, path, digest: listed, .. } = line;
        let why = "the time and the grace were over before its end; it needs a longer --budget or --grace";
        let late = || Verdict::Unreadable(Error::finding("read", target.path_of(&path), why));
        let verdict = found.map_or_else(|verdict| verdict, |_| late());
        self.count(&verdict);
        let (line, bytes, shared, proven) = (number, 0, 0, None);
        findings.push(Finding::File { line, path, listed, verdict, bytes, shared, proven });
    }

    fn count(&self, verdict: &Verdict) {
        self.progress.entries.fetch_add(1, Relaxed);
        if !matches!(verdict, Verdict::Good(_)) {
            self.progress.failed.fetch_add(1, Relaxed);
        }
    }

    /// What a file is, if that is told, that was read from the root's device and is as listed: as it was found, and
    /// still is.
    fn proven_as(&self, target: &Target, found: &FoundFile, verdict: &Verdict) -> Option<Trace> {
        let FoundFile { file, stat, .. } = found;
        let is_proven = self.proves && matches!(verdict, Verdict::Good(HashedFrom::Device));
        let is_there = stat.id.dev == target.root_id.dev;
        let now = (is_proven && is_there).then(|| Dir::stat_file(file).ok()).flatten()?;
        stat.change(&now).is_none().then(|| Trace::of(&now))
    }
}
