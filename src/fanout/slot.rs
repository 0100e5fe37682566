//! An output's slot at the hub: through it the output joins, leaves, and subscribes to files.

use std::fmt;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use crate::event::Stop;
use crate::fanout::hub::{Hub, NAP};
use crate::fanout::output_set::OutputSet;
use crate::fanout::shared_file::FileKey;
use crate::fanout::subscription::Subscription;
use crate::io::rate_limit::RateLimit;
use crate::path::DirPath;
use crate::tree::dirs::{OutputDir, SourceDir};
use crate::tree::found::SourceEntry;

/// A run waits this long, or as long as it took to get ready, for others to get ready too.
const START: Duration = Duration::from_secs(1);

/// An output's slot at the hub.
#[derive(Clone, Copy)]
pub struct Slot<'a> {
    hub: &'a Hub,
    number: usize,
}

impl fmt::Debug for Slot<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Slot({} of {})", self.number, self.among())
    }
}

impl<'a> Slot<'a> {
    /// The slot of output `number`, counted from 0.
    pub fn new(hub: &'a Hub, number: usize) -> Self {
        Self { hub, number }
    }

    fn output(self) -> OutputSet {
        1 << self.number
    }

    /// How many outputs there are.
    pub fn among(self) -> usize {
        self.hub.outputs.len()
    }

    /// Whether it is the first, which does what need be done once for all.
    pub fn is_first(self) -> bool {
        self.number == 0
    }

    /// How fast the source may be read.
    pub fn rate(self) -> Option<&'a RateLimit> {
        self.hub.rate.as_ref()
    }

    /// How many files the output read from the source by itself, in part at least.
    pub fn read_alone(self) -> u64 {
        self.hub.outputs.get(self.number).map_or(0, |output| output.read_alone.load(Relaxed))
    }

    /// How many files were forgotten before the output came to them.
    pub fn forgotten(self) -> u64 {
        self.hub.ledger().forgotten(self.number)
    }

    /// The run is about to begin to copy, and got ready since `since`: waits for others that are about
    /// to, so that none is behind from the start, but not for long.
    pub fn begin(self, since: Instant, stop: &Stop) {
        let hub = self.hub;
        if let Some(output) = hub.outputs.get(self.number) {
            output.is_ready.store(true, Relaxed);
        }
        let until = Instant::now() + since.elapsed().max(START);
        let mut ledger = hub.ledger();
        hub.notify();
        while Instant::now() < until && !stop.is_requested() {
            let mut outputs = hub.outputs.iter().enumerate();
            let is_missing = outputs.any(|(number, output)| {
                !output.is_ready.load(Relaxed) && ledger.running(1 << number) != 0
            });
            if !is_missing {
                return;
            }
            ledger = hub.wait(ledger, NAP);
        }
    }

    /// The output's run is over, however it ended.
    pub fn end(self) {
        self.hub.ledger().end(self.output());
        self.hub.notify();
    }

    /// The output begins to copy a file; `None` if it has to read it by itself.
    pub fn subscribe(self, dir: &SourceDir, entry: &SourceEntry) -> Option<Subscription<'a>> {
        let key = self.key(&dir.rel, entry);
        // The size of an empty file may mean nothing.
        let is_shared = entry.stat.size > 0 && self.hub.ledger().subscribe(key, self.output());
        is_shared.then(|| Subscription::new(self.hub, self.number, key, entry.stat.size))
    }

    /// The outcome of a file at the output is known: nothing more of it is needed.
    pub fn finish(self, output: &OutputDir, entry: &SourceEntry) {
        self.hub.ledger().finish(self.key(&output.rel, entry), self.output());
        self.hub.notify();
    }

    /// A file is not copied to the output: other outputs need not hold chunks of it for this one.
    pub fn skip(self, output: &OutputDir, entry: &SourceEntry) {
        self.hub.ledger().skip(self.key(&output.rel, entry), self.output());
        self.hub.notify();
    }

    fn key(self, dir: &DirPath, SourceEntry { name, stat }: &SourceEntry) -> FileKey {
        self.hub.key(dir.join(name).as_bytes(), stat)
    }
}
