//! The threads of a check: one reads manifests, one counts for the progress, and the workers read files.

use std::io;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex};
use std::thread::{Builder, Scope, ScopedJoinHandle, scope};

use crossbeam_channel::{Receiver, Sender, bounded, unbounded};

use crate::error::Error;
use crate::event::{Progress, Stop};
use crate::verify::count::count;
use crate::verify::finding::{Finding, Findings};
use crate::verify::lines::batch::LineBatch;
use crate::verify::lines::line_reader::{LineReader, LinesRead};
use crate::verify::lines::shards::LinesWanted;
use crate::verify::scrub::pass::Scrub;
use crate::verify::shared::reads::SharedReads;
use crate::verify::target::{Target, TargetSpec};
use crate::verify::work::check::Checker;
use crate::verify::work::collector::Collector;
use crate::verify::work::look_ahead::LookAhead;
use crate::verify::work::worker::{Division, Worker};

/// The code that the counting for the progress is stopped with.
const ENDED: usize = 1;

/// What the threads of a check share.
pub struct Threads<'a> {
    pub specs: &'a [TargetSpec],
    /// How the workers divide the reading.
    pub division: Division,
    /// Makes the means of one worker to check files.
    pub checker: &'a dyn Fn() -> Checker<'a>,
    /// Whether to keep the names that are listed.
    pub complete: bool,
    /// The scrub, if it is one.
    pub scrub: Option<&'a Scrub>,
    /// Where data is read once that several files share, if it is.
    pub shared: Option<&'a SharedReads>,
    /// What of the lines is wanted, if not all.
    pub wanted: Option<LinesWanted>,
    /// How far the check is.
    pub progress: &'a Progress,
    /// Whether it is to stop.
    pub stop: &'a Stop,
}

/// The threads that were started.
#[derive(Default)]
struct CheckThreads<'scope> {
    workers: Vec<ScopedJoinHandle<'scope, ()>>,
    line_reader: Option<ScopedJoinHandle<'scope, LinesRead>>,
}

/// The ends of the queues between the threads.
struct Queues {
    tasks: (Sender<LineBatch>, Receiver<LineBatch>),
    findings: Sender<Findings>,
}

impl Threads<'_> {
    /// Starts them, takes their findings and waits for their ends. Returns what the thread that reads the
    /// manifests leaves, unless it died or was not started.
    pub fn run(&self, collector: &mut Collector<'_>) -> Option<LinesRead> {
        let room = 2 * self.division.workers;
        let (findings, inbox) = bounded(room);
        let queues = Queues { tasks: bounded(room), findings };
        let counting = Stop::default();
        let nowhere = Arc::new(Target::none());
        let broken = |collector: &mut Collector<'_>, deed, subject, finding: &str| {
            let finding = format!("{finding}; this is a defect of dircopy");
            collector.tell(&nowhere, Finding::Broken(Error::finding(deed, subject, finding)));
        };
        scope(|scope| {
            let mut started = CheckThreads::default();
            if let Err(error) = self.start(scope, queues, &counting, collector, &mut started) {
                let error = Error::io("start the threads for", ".", error);
                collector.tell(&nowhere, Finding::Broken(error));
            }
            collector.take_all(&inbox);
            drop(inbox);
            counting.request(ENDED);
            for worker in started.workers {
                if worker.join().is_err() {
                    broken(collector, "finish the check of", ".", "a thread died");
                }
            }
            match started.line_reader?.join() {
                Ok(read) => Some(read),
                Err(_) => {
                    let finding = "the thread that reads them died";
                    broken(collector, "read the manifests of", ".", finding);
                    None
                }
            }
        })
    }

    /// Starts all threads; those that were started before an error are in `started`.
    fn start<'scope>(
        &'scope self,
        scope: &'scope Scope<'scope, '_>,
        queues: Queues,
        counting: &'scope Stop,
        collector: &Collector<'_>,
        started: &mut CheckThreads<'scope>,
    ) -> io::Result<()> {
        let Queues { tasks: (tasks, for_workers), findings } = queues;
        let (sending, tokens) = unbounded();
        let ahead = Arc::new(Mutex::new(LookAhead::new(self.division.order)));
        for number in 0..self.division.workers {
            let worker = Worker {
                checker: (self.checker)(),
                division: self.division,
                ahead: Arc::clone(&ahead),
                scrub: self.scrub,
                shared: self.shared,
                progress: self.progress,
                stop: self.stop,
                tokens: tokens.clone(),
                findings: findings.clone(),
            };
            let (for_workers, sending) = (for_workers.clone(), sending.clone());
            let thread = Builder::new().name(format!("check-{number}"));
            let work = move || worker.work(&for_workers, sending);
            started.workers.push(thread.spawn_scoped(scope, work)?);
        }
        let line_reader = LineReader {
            key: collector.key.clone(),
            complete: self.complete,
            reread: collector.replicas.is_some(),
            scrub: self.scrub,
            wanted: self.wanted,
            stop: self.stop,
            tasks,
            findings,
        };
        let thread = Builder::new().name("lines".into());
        let (specs, wanted, progress) = (self.specs, self.wanted, self.progress);
        let work = move || line_reader.work(specs);
        started.line_reader = Some(thread.spawn_scoped(scope, work)?);
        if self.progress.watched.load(Relaxed) && self.scrub.is_none() {
            let thread = Builder::new().name("count".into());
            thread.spawn_scoped(scope, move || count(specs, wanted, progress, counting))?;
        }
        Ok(())
    }
}
