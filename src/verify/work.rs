//! The workers: they share the lines so that none is idle while another has several large files.
//!
//! A batch has many lines, and the manifest does not say how large the files are. So a worker that
//! comes upon a large one gives the rest of its batch to whoever is free before it starts reading.

use crossbeam_channel::{Receiver, Sender, select};

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use crate::event::{Progress, Stop};
use crate::verify::check::Checker;
use crate::verify::finding::{Finding, Verdict};
use crate::verify::lines::{Batch, Line, Told};

/// Reading a file of this size takes far longer than a message.
const LARGE: u64 = 1 << 20;

/// What is left of a batch. It brings the means to share it further: when no rest is on its way and
/// nobody is at work, nobody can send one, and all workers end.
pub struct Rest {
    batch: Batch,
    sharing: Sender<Rest>,
}

/// A worker.
pub struct Worker<'a> {
    pub checker: Checker<'a>,
    pub progress: &'a Progress,
    pub stop: &'a Stop,
    pub rests: Receiver<Rest>,
    pub told: Sender<Told>,
}

impl Worker<'_> {
    /// Works until there is nothing more to do.
    pub fn work(mut self, tasks: &Receiver<Batch>, sharing: Sender<Rest>) {
        let mut own = Some(sharing);
        loop {
            let rest = match (self.rests.try_recv(), &own) {
                (Ok(rest), _) => Ok(rest),
                (Err(_), None) => self.rests.recv(),
                (Err(_), Some(mine)) => select! {
                    recv(self.rests) -> rest => rest,
                    recv(tasks) -> task => match task {
                        Ok(batch) => Ok(Rest { batch, sharing: mine.clone() }),
                        Err(_) => {
                            own = None;
                            continue;
                        }
                    },
                },
            };
            match rest {
                Ok(Rest { batch, sharing }) => self.batch(batch, &sharing),
                Err(_) => return,
            }
        }
    }

    fn batch(&mut self, batch: Batch, sharing: &Sender<Rest>) {
        let Batch { target, mut lines } = batch;
        let mut told = Vec::new();
        while let Some(Line { number, path, digest }) = lines.next() {
            if self.stop.is_requested() {
                break;
            }
            self.progress.set_current(&path, "".as_ref());
            let (path, verdict, bytes) = match self.checker.find(&target, &path) {
                Err(verdict) => (path, verdict, 0),
                Ok(mut found) => {
                    if found.size() >= LARGE {
                        if lines.len() > 0 {
                            let rest = std::mem::take(&mut lines);
                            let batch = Batch { target: Arc::clone(&target), lines: rest };
                            // Cannot fail: this worker receives too.
                            let _ = sharing.send(Rest { batch, sharing: sharing.clone() });
                        }
                        self.tell(&target, &mut told);
                    }
                    let path = match found.converted.take() {
                        None => path,
                        Some(to) => {
                            let from = path;
                            told.push(Finding::Converted { line: number, from, to: to.clone() });
                            to
                        }
                    };
                    match self.checker.read(&target, &path, &found, &digest) {
                        Some((verdict, bytes)) => (path, verdict, bytes),
                        None => break,
                    }
                }
            };
            self.progress.entries.fetch_add(1, Relaxed);
            if !matches!(verdict, Verdict::Good(_)) {
                self.progress.failed.fetch_add(1, Relaxed);
            }
            told.push(Finding::File { line: number, path, verdict, bytes });
        }
        self.tell(&target, &mut told);
    }

    /// Fails only when nobody listens any more, and then nothing matters.
    fn tell(&self, target: &Arc<crate::verify::target::Target>, told: &mut Vec<Finding>) {
        if !told.is_empty() {
            let _ = self.told.send((Arc::clone(target), std::mem::take(told)));
        }
    }
}
