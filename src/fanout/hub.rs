//! Several outputs that share their reading of the source.
//!
//! Each output is a run of its own. What they share is a *window* of what was read: pieces that not
//! every output has taken yet. An output that wants the next piece of a file takes it from the window;
//! if nobody has read it yet, it reads it itself, for all. So whoever is ahead reads, nobody leads, and
//! there is nobody whose death, failure or slow disk the others would have to wait for.
//!
//! The window is bounded. When it is full, who reads waits for those that are behind; but all waiting
//! together takes no more than a twentieth of the time. Then they are *let go* of: they have the rest
//! of the file from a copy that another output has finished, compare its digest, and read the source
//! themselves if there is no such copy.

use std::collections::hash_map::RandomState;
use std::ffi::OsStr;
use std::fmt;
use std::hash::BuildHasher;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use crate::event::{Progress, Stop};
use crate::fanout::chunk::Piece;
use crate::fanout::ledger::{Copied, Key, MOST_OUTPUTS, Next, Set, Window};
use crate::fanout::origin::{self, Source};
use crate::fanout::peer_copy::Copy;
use crate::hash::Digest;
use crate::io::block::{Block, SharedBlocks};
use crate::io::control::Control;
use crate::io::rate_limit::RateLimit;
use crate::io::watched_file::WatchedFile;
use crate::path::DirPath;
use crate::sys::CachePolicy;
use crate::sys::stat::Stat;
use crate::tree::dirs::{OutputDir, SourceDir};
use crate::tree::found::SourceEntry;

/// All waiting for those that are behind takes at most one part in so many of the time, …
const SHARE: u32 = 20;

/// … and this.
const GRACE: Duration = Duration::from_millis(200);

/// Who waits looks up this often whether the run is to stop.
const NAP: Duration = Duration::from_millis(50);

/// An output at which nothing moves for so long is not waited for: its disk may hang.
const PATIENCE: Duration = Duration::from_secs(60);

/// An output that is not far ahead is waited for so long: the one that fell behind by chance must not be
/// held to the pace of a slow one. Not tuned.
const DOUBT: Duration = Duration::from_secs(2);

/// A run waits so long, or as long as it took to get ready, for others to get ready too.
const START: Duration = Duration::from_secs(1);

/// What the outputs of a run share.
pub struct Sharing<'a> {
    window: Mutex<Window>,
    /// Something in the window changed.
    changed: Condvar,
    /// The most that is held; bytes.
    lag: u64,
    /// Who is ahead by more than this does not owe it to the window and to blocks on their way; bytes.
    far: u64,
    store: SharedBlocks,
    /// How fast the source may be read.
    rate: Option<RateLimit>,
    started: Instant,
    /// How long was waited for those that were behind; nanoseconds.
    waited: AtomicU64,
    hasher: RandomState,
    outputs: Vec<Output<'a>>,
}

/// What the others know of an output.
struct Output<'a> {
    progress: &'a Progress,
    /// Its root, once it is ready.
    root: OnceLock<Arc<OutputDir>>,
    tally: Tally,
}

/// What an output had otherwise than through the window.
#[derive(Debug, Default)]
pub struct Tally {
    /// Files that it read from another output's copy, in part at least, …
    pub files: AtomicU64,
    /// … and how much of them; bytes.
    pub bytes: AtomicU64,
    /// Files that it read from the source by itself, in part at least.
    pub alone: AtomicU64,
}

impl fmt::Debug for Sharing<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Sharing({} outputs)", self.outputs.len())
    }
}

impl<'a> Sharing<'a> {
    /// For outputs with this progress, at most [`MOST_OUTPUTS`]. At most `lag` bytes are held for those
    /// that are behind, in blocks of `block_size`; `in_flight` blocks are on their way in lanes besides.
    pub fn new(
        outputs: impl IntoIterator<Item = &'a Progress>,
        lag: u64,
        (block_size, in_flight): (usize, usize),
        rate: Option<u64>,
    ) -> Self {
        let (root, tally) = (OnceLock::new, Tally::default);
        let outputs = outputs.into_iter().take(MOST_OUTPUTS);
        let outputs: Vec<_> =
            outputs.map(|progress| Output { progress, root: root(), tally: tally() }).collect();
        let held = usize::try_from(lag).unwrap_or(usize::MAX) / block_size.max(1);
        Self {
            window: Mutex::new(Window::new(outputs.len())),
            changed: Condvar::new(),
            lag,
            far: lag.saturating_add((block_size as u64).saturating_mul(in_flight as u64)),
            store: SharedBlocks::new(held.saturating_add(in_flight).min(1 << 20), block_size),
            rate: rate.map(RateLimit::new),
            started: Instant::now(),
            waited: AtomicU64::new(0),
            hasher: RandomState::new(),
            outputs,
        }
    }

    /// The place of output `number`.
    pub fn place(&'a self, number: usize) -> Place<'a> {
        Place { sharing: self, number }
    }

    fn lock(&self) -> MutexGuard<'_, Window> {
        // No call in between can panic.
        self.window.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How much longer may be waited for those that are behind.
    fn patience(&self) -> Duration {
        let waited = Duration::from_nanos(self.waited.load(Relaxed));
        (self.started.elapsed() / SHARE + GRACE).saturating_sub(waited)
    }

    fn wait<'g>(&self, window: MutexGuard<'g, Window>, most: Duration) -> MutexGuard<'g, Window> {
        let waited = self.changed.wait_timeout(window, most);
        waited.unwrap_or_else(PoisonError::into_inner).0
    }
}

/// An output's place among those that share their reading.
#[derive(Clone, Copy, Debug)]
pub struct Place<'a> {
    sharing: &'a Sharing<'a>,
    number: usize,
}

impl<'a> Place<'a> {
    fn me(self) -> Set {
        1 << self.number
    }

    /// How many outputs there are.
    pub fn among(self) -> usize {
        self.sharing.outputs.len()
    }

    /// Whether it is the first, which does what need be done once.
    pub fn is_first(self) -> bool {
        self.number == 0
    }

    /// How fast the source may be read.
    pub fn rate(self) -> Option<&'a RateLimit> {
        self.sharing.rate.as_ref()
    }

    /// What came otherwise than through the window, and how many files were forgotten before this
    /// output came to them.
    pub fn tally(self) -> (&'a Tally, u64) {
        (&self.sharing.outputs[self.number].tally, self.sharing.lock().forgotten[self.number])
    }

    /// The run to `root` is about to begin, and got ready since `since`: waits for others that are
    /// about to, so that none is behind from the start, but not for long.
    pub fn begin(self, root: &Arc<OutputDir>, since: Instant, stop: &Stop) {
        let Sharing { outputs, changed, .. } = self.sharing;
        let _ = outputs[self.number].root.set(Arc::clone(root));
        let until = Instant::now() + since.elapsed().max(START);
        let mut window = self.sharing.lock();
        changed.notify_all();
        let is_missing = |window: &Window| {
            let mut missing = outputs.iter().enumerate().filter(|(_, it)| it.root.get().is_none());
            missing.any(|(number, _)| window.active(1 << number) != 0)
        };
        while is_missing(&window) && Instant::now() < until && !stop.is_requested() {
            window = self.sharing.wait(window, NAP);
        }
    }

    /// The output's run is over, however it ended.
    pub fn end(self) {
        self.sharing.lock().ends(self.me());
        self.sharing.changed.notify_all();
    }

    fn key(self, dir: &DirPath, name: &OsStr, stat: &Stat) -> Key {
        let path = dir.join(name);
        let version =
            self.sharing.hasher.hash_one((path.as_bytes(), stat.size, stat.mtime, stat.ctime));
        Key { id: stat.id, version }
    }

    /// The output begins to copy a file; `None` if it has to read it by itself.
    pub fn come(self, dir: &SourceDir, entry: &SourceEntry) -> Option<Taking<'a>> {
        let key = self.key(&dir.rel, &entry.name, &entry.stat);
        // The size of an empty file may mean nothing.
        let is_shared = entry.stat.size > 0 && self.sharing.lock().come(key, self.me());
        is_shared.then_some(Taking { place: self, key, size: entry.stat.size })
    }

    /// The file was copied, and stands at the output under its name.
    pub fn stands(self, output: &OutputDir, entry: &SourceEntry, digest: Option<Digest>) {
        if let (Some(digest), Ok(number)) = (digest, u8::try_from(self.number)) {
            let key = self.key(&output.rel, &entry.name, &entry.stat);
            self.sharing.lock().stands(key, number, digest);
        }
    }

    /// What becomes of a file at the output is settled; `came` says whether it was to be copied.
    pub fn settled(self, output: &OutputDir, entry: &SourceEntry, came: bool) {
        self.settled_in(&output.rel, entry, came);
    }

    /// The file is not what it was, and is begun again.
    pub fn begins_again(self, dir: &SourceDir, entry: &SourceEntry) {
        self.settled_in(&dir.rel, entry, true);
    }

    fn settled_in(self, dir: &DirPath, entry: &SourceEntry, came: bool) {
        let key = self.key(dir, &entry.name, &entry.stat);
        let mut window = self.sharing.lock();
        match came {
            true => window.settled(key, self.me()),
            false => window.pass(key, self.me()),
        }
        drop(window);
        self.sharing.changed.notify_all();
    }
}

/// A file that is being copied from what outputs share. Dropped when its content is here, or comes from
/// elsewhere.
pub struct Taking<'a> {
    place: Place<'a>,
    key: Key,
    size: u64,
}

impl Taking<'_> {
    /// The next piece, of at most `most` bytes, for an output that has the content up to `at`: from the
    /// window or from the source, which is `own` to this output, but not read by it so far. `None` if it
    /// has to go on by itself, for whatever reason: it will come upon that.
    pub fn take(&self, own: &Own<'_>, at: u64, most: u64) -> Option<Arc<Piece>> {
        let Place { sharing, .. } = self.place;
        let (key, me) = (self.key, self.place.me());
        loop {
            let source = match sharing.lock().next(key, me, at) {
                Next::Nothing => return None,
                Next::Read(source) => source,
                Next::Piece(piece) => {
                    sharing.changed.notify_all();
                    return Some(piece);
                }
            };
            let Ok(mut source) = source.lock() else {
                // Who read it died.
                sharing.lock().void(key);
                continue;
            };
            // Somebody may just have read it.
            match sharing.lock().next(key, me, at) {
                Next::Nothing => return None,
                Next::Read(_) if at >= self.size => return None,
                Next::Read(_) => {}
                Next::Piece(piece) => return Some(piece),
            }
            let mut block = sharing.store.block(most.min(self.size - at));
            if !own.fill(&mut source, &mut block, at) {
                sharing.lock().void(key);
                sharing.changed.notify_all();
                return None;
            }
            let piece = Arc::new(Piece::new(block));
            self.make_room(piece.len() as u64, own.control.stop).add(key, me, at, &piece);
            return Some(piece);
        }
    }

    /// Waits until the window has room for so many bytes, or lets go of those that are behind.
    fn make_room(&self, bytes: u64, stop: &Stop) -> MutexGuard<'_, Window> {
        let Place { sharing, .. } = self.place;
        let mut window = sharing.lock();
        while !window.is_empty() && window.bytes() + bytes > sharing.lag {
            let patience = sharing.patience();
            if patience.is_zero() || stop.is_urgent() || !window.is_awaited() {
                window.let_go();
                continue;
            }
            let since = Instant::now();
            window = sharing.wait(window, patience.min(NAP));
            sharing.waited.fetch_add(since.elapsed().as_nanos() as u64, Relaxed);
        }
        window
    }

    /// A copy that another output has finished, once it has: `None` if none is going to, or the run is
    /// to stop.
    pub fn copy(&self, source: &SourceDir, entry: &SourceEntry, stop: &Stop) -> Option<Copy> {
        let Place { sharing, .. } = self.place;
        let begun = Instant::now();
        let (mut last, mut since) = (0, begun);
        let done = |number: usize| {
            sharing.outputs.get(number).map_or(0, |output| output.progress.bytes.load(Relaxed))
        };
        let mut window = sharing.lock();
        sharing.changed.notify_all();
        loop {
            let at_work = match window.copied(self.key, self.place.me()) {
                Copied::Stands(number, digest) => {
                    let root = sharing.outputs.get(number).and_then(|output| output.root.get())?;
                    drop(window);
                    return Copy::open(root, digest, source, entry);
                }
                Copied::Soon(at_work) => at_work,
                Copied::No => return None,
            };
            let moved = sharing.outputs.iter().enumerate().map(|(number, output)| {
                let is_at_work = at_work & (1 << number) != 0;
                let Progress { bytes, entries, .. } = output.progress;
                let moved = || bytes.load(Relaxed).wrapping_add(entries.load(Relaxed));
                if is_at_work { moved() } else { 0 }
            });
            let moved = moved.fold(0, u64::wrapping_add);
            if moved != last {
                (last, since) = (moved, Instant::now());
            }
            let mine = done(self.place.number).saturating_add(sharing.far);
            let is_far = |number: usize| at_work & (1 << number) != 0 && done(number) > mine;
            let in_doubt = begun.elapsed() > DOUBT && !(0..sharing.outputs.len()).any(is_far);
            if in_doubt || since.elapsed() > PATIENCE || stop.is_urgent() {
                return None;
            }
            window = sharing.wait(window, NAP);
        }
    }

    /// So much was had from such a copy.
    pub fn copied(&self, bytes: u64) {
        let tally = self.place.tally().0;
        tally.files.fetch_add(1, Relaxed);
        tally.bytes.fetch_add(bytes, Relaxed);
    }

    /// Such a copy is not what it should be.
    pub fn distrust(&self) {
        self.place.sharing.lock().distrust(self.key);
    }

    /// The source is read by this output itself from now on.
    pub fn goes_alone(&self) {
        self.place.tally().0.alone.fetch_add(1, Relaxed);
        self.place.sharing.lock().goes_alone(self.key, self.place.me());
    }
}

impl Drop for Taking<'_> {
    fn drop(&mut self) {
        self.place.sharing.lock().has_all(self.key, self.place.me());
        self.place.sharing.changed.notify_all();
    }
}

/// The source's file as one output has it open, and what it takes to open it for all.
pub struct Own<'a> {
    /// The output's own handle.
    pub file: &'a WatchedFile<'a>,
    /// Where it is, …
    pub dir: &'a SourceDir,
    /// … what it was when it was listed, …
    pub entry: &'a SourceEntry,
    /// … and how its pages are spared.
    pub sparing: CachePolicy,
    /// Whether a symbolic link stands for what it points to.
    pub follow: bool,
    /// How fast it may be read, and where that is counted.
    pub control: Control<'a>,
}

impl Own<'_> {
    fn fill(&self, source: &mut Source, block: &mut Block, at: u64) -> bool {
        let Self { file: own, dir, entry: SourceEntry { name, stat }, sparing, follow, control } =
            *self;
        // What comes at once needs no handle that others can go on with.
        if at == 0 && block.room().len() as u64 >= stat.size {
            return origin::fill(block, own);
        }
        let path = || dir.path_of(name);
        let open = || {
            let mut file = WatchedFile::open(&dir.handle, name, follow, stat, &path)?;
            // Whoever takes what is read here looks at its own handle in the end.
            file.is_still(stat)?;
            file.spare_cache(sparing, &control.resident.source);
            Ok(file.at_rate(control.rate, control.stop))
        };
        let on = |file| {
            let stayed = &control.resident.source;
            let file = WatchedFile::resume(file, *stat, &path, stayed);
            file.at_rate(control.rate, control.stop)
        };
        source.fill(block, at, open, on)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::Dir;

    /// Another output is at work on the file and does not move, as one on a disk that hangs.
    #[test]
    fn nobody_waits_long_for_a_copy_from_who_is_not_far_ahead() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("film"), b"frames").unwrap();
        let handle = Dir::open(dir.path()).unwrap();
        let stat = handle.stat("film".as_ref(), false).unwrap();
        let source = SourceDir { handle, root: dir.path().into(), rel: DirPath::root() };
        let entry = SourceEntry { name: OsStr::new("film").into(), stat };
        let (progress, stop) = ([Progress::default(), Progress::default()], Stop::default());
        let sharing = Sharing::new(&progress, 1 << 20, (1 << 16, 4), None);
        let [behind, slow] = [0, 1].map(|number| sharing.place(number).come(&source, &entry));
        let (behind, _slow) = (behind.unwrap(), slow.unwrap());
        progress[1].bytes.store(sharing.far, Relaxed);
        let begun = Instant::now();
        assert!(behind.copy(&source, &entry, &stop).is_none());
        assert!(begun.elapsed() < PATIENCE / 2, "held for {:?}", begun.elapsed());
    }
}
