//! Parity that is made while a tree is copied, of what is there already: so it is read while it is still in memory, and
//! not from the device once more. Files of a set wait for it in memory that the system can have back, with those
//! that wait for others of their size 2 GiB at most, so the copy waits where parity takes longer.
//!
//! What is not made here is made when all is copied, as if none of this was there: what does not fit, sets that could
//! not be written, and files of which nothing would be left in memory.

use std::{
    io, mem, path::Path, sync::Arc, sync::atomic::AtomicBool, sync::atomic::Ordering::Relaxed,
    thread::Builder, thread::JoinHandle,
};

use crossbeam_channel::{Receiver, Sender, bounded};

use crate::{
    error::Result, event::Stop, hash::Digest, path::RelPath, sys, sys::Dir, tree::LastDir,
};

use super::{AllUnfit, Bins, MOST_SUMS, Means, NewSet, ParityDir, ParityReport, Share, Wanted};

/// So many bytes of files of about the same size are a set once nothing else is to be made: of the copy to a slow disk
/// little is then left to be made at its end. 48 × 64 MiB onto 250 MB/s, which take 12.8 s without, take 14.7 s so, and
/// 14.9 s by 512 MiB.
const ENOUGH: u64 = 256 << 20;

/// The maker of parity of a tree that is being copied, and the files that wait for it.
#[derive(Debug)]
pub struct ParityAhead {
    bins: Bins,
    sets: Sender<Vec<Wanted>>,
    /// True while the maker has nothing to do.
    is_idle: Arc<AtomicBool>,
    thread: JoinHandle<ParityReport>,
}

/// What its thread needs.
struct Maker {
    root: Dir,
    path: Box<Path>,
    share: Share,
    /// True if what is read may leave memory.
    lets_go: bool,
    stop: Stop,
    is_idle: Arc<AtomicBool>,
}

impl ParityAhead {
    /// One for the tree whose root is `root`, at `path`. What is read by it leaves memory if it `lets_go`.
    ///
    /// # Errors
    /// The system has no thread for it.
    pub fn start(
        root: &Dir,
        path: &Path,
        share: u32,
        lets_go: bool,
        stop: &Stop,
    ) -> io::Result<Self> {
        let (path, stop) = (path.into(), stop.clone());
        let (root, share, is_idle) = (root.try_clone()?, Share(share), Arc::default());
        let maker = Maker { root, path, share, lets_go, stop, is_idle: Arc::clone(&is_idle) };
        // None waits in between: each is as much memory as may be taken.
        let (sets, to_make) = bounded(0);
        let thread = Builder::new().name("parity".into()).spawn(move || maker.work(&to_make))?;
        Ok(Self { bins: Bins::default(), sets, is_idle, thread })
    }

    /// Takes a file that stands in the tree, with the digest by which it is listed.
    pub fn take(&mut self, path: RelPath, digest: Digest, size: u64) {
        if size == 0 || size > sys::MOST_LATER {
            return;
        }
        let full = self.bins.add(Wanted { path, digest, line: 0 }, size);
        full.into_iter().flatten().for_each(|set| self.make(set));
        let is_enough = |bins: &Bins| bins.largest() >= ENOUGH && self.is_idle.load(Relaxed);
        while self.bins.bytes() > sys::MOST_LATER || is_enough(&self.bins) {
            let set = self.bins.take_largest();
            self.make(set);
        }
    }

    /// Waits until the maker takes it. Without one it is left.
    fn make(&self, set: Vec<Wanted>) {
        let _ = self.sets.send(set);
    }

    /// Has the rest made; what was made in all.
    pub fn end(mut self) -> ParityReport {
        let rest: Vec<_> = mem::take(&mut self.bins).rest().collect();
        rest.into_iter().for_each(|set| self.make(set));
        drop(self.sets);
        self.thread.join().unwrap_or_default()
    }
}

impl Maker {
    fn work(&self, sets: &Receiver<Vec<Wanted>>) -> ParityReport {
        let (mut made, mut failed) = (ParityReport::default(), false);
        self.is_idle.store(true, Relaxed);
        for set in sets {
            self.is_idle.store(false, Relaxed);
            // The one who gives them must not wait, and what goes wrong is told when the rest is made.
            if failed || self.stop.is_requested() {
                continue;
            }
            match self.make(&set) {
                Ok(set) => set.iter().for_each(|set| made.add(set)),
                Err(_) => failed = true,
            }
            self.is_idle.store(true, Relaxed);
        }
        made
    }

    fn make(&self, set: &[Wanted]) -> Result<Option<NewSet>> {
        let dir = ParityDir::make(&self.root, &self.path)?;
        let means = Means {
            root: &self.root,
            share: self.share,
            memory: MOST_SUMS,
            // What it reads is in memory.
            turns: false,
            is_to_stop: &|| self.stop.is_requested(),
            on_read: &|_| (),
        };
        let new = dir.add(set, &means, &mut AllUnfit::new())?;
        let mut last = LastDir::default();
        for wanted in set.iter().filter(|_| self.lets_go) {
            if let Ok((file, _)) = last.open_file(&self.root, &wanted.path) {
                sys::let_go(&file);
            }
        }
        Ok(new)
    }
}
