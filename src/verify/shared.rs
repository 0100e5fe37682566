//! Data that several listed files share: it is read once, and its digest holds for each of them.

use std::{
    collections::HashMap, collections::HashSet, collections::hash_map::RandomState, fs::File,
    hash::BuildHasher, hash::Hash, sync::Arc, sync::Mutex, sync::MutexGuard, sync::PoisonError,
    time::Duration, time::SystemTime, time::UNIX_EPOCH,
};

use crate::{
    hash::Digest, io::HashedFrom, sys, sys::DataSharing, sys::Dir, sys::stat::Stat,
    sys::stat::Time, verify::Target, verify::Verdict, verify::lines::manifest_lines::ManifestLine,
};

// The shared data that was read, and the readers of data in hand.
//
// A file's data is known by its inode number, size and times; on file systems whose files share data in other ways, by
// where all of it lies on the disk. Only one thing is remembered: that data of this key was read to its end, did not
// change meanwhile, and has this digest. So a file whose listed digest is another one is read itself, and so is each
// file whose data was found bad.
//
// That rests on times and places that do not stay the same when the data changes. So a file that changed since shortly
// before the check began is read itself (a clock may stand still for some milliseconds), and before the first place is
// taken for a key, everything that waits to be written is given its place.

/// Number of digests of shared data that are remembered, in 36 MB at most. What comes later is read for each file.
const MOST_KNOWN: usize = 7 << 18;

/// Number of bytes of lines that wait for what others read. More are read themselves.
const MOST_WAITING: usize = 4 << 20;

/// A file that changed less than this before the check, in nanoseconds, may change again at the same time of its file
/// system's clock.
const MARGIN: u32 = 100_000_000;

/// The data that was read, or is being read.
#[derive(Debug)]
pub struct SharedReads {
    keys: [RandomState; 2],
    /// Files that changed later are read themselves.
    before: Time,
    state: Mutex<ReadState>,
}

#[derive(Debug, Default)]
struct ReadState {
    /// Data and the digest that it has, in a hash; the last bit says where it was read from.
    good: HashSet<u128>,
    /// The data that is being read, and the lines that wait for it.
    in_hand: HashMap<DataKey, Vec<WaitingLine>>,
    waiting: usize,
    /// The facts about file systems, by their device numbers.
    volumes: HashMap<u64, VolumeData>,
}

/// The way to tell the data of files on a file system apart.
#[derive(Clone, Copy, Debug)]
struct VolumeData {
    sharing: DataSharing,
    /// Files that changed before this have a place for all of their data.
    placed: Option<Time>,
}

impl Default for SharedReads {
    fn default() -> Self {
        let keys = [RandomState::new(), RandomState::new()];
        Self { keys, before: a_little_ago(), state: Mutex::default() }
    }
}

impl SharedReads {
    /// The instruction for a listed file that was found.
    pub fn claim(
        &self,
        target: &Arc<Target>,
        line: ManifestLine,
        file: &File,
        stat: &Stat,
    ) -> DataClaim {
        // Further digests are not remembered.
        let key = if line.further.is_empty() { self.key(file, stat) } else { None };
        let Some(key) = key else { return DataClaim::Alone(line) };
        let fact = self.fact(key, target, &line.digest);
        let mut state = self.state();
        for (bit, from) in [(0, HashedFrom::Device), (1, HashedFrom::Cache)] {
            if state.good.contains(&(fact | bit)) {
                return DataClaim::Known(line, from);
            }
        }
        let ReadState { in_hand, waiting, .. } = &mut *state;
        let Some(lines) = in_hand.get_mut(&key) else {
            in_hand.insert(key, Vec::new());
            return DataClaim::First(line, key);
        };
        let line = WaitingLine { target: Arc::clone(target), line };
        if *waiting + line.weight() > MOST_WAITING {
            return DataClaim::Alone(line.line);
        }
        *waiting += line.weight();
        lines.push(line);
        DataClaim::Waits
    }

    /// Takes what was found of a file whose data was claimed; the lines that waited for it.
    pub fn settle(&self, claimed: &Claimed<'_>, verdict: &Verdict) -> Vec<WaitingLine> {
        let Claimed { key, target, file, stat, digest } = *claimed;
        let is_same = || {
            Dir::stat_file(file).is_ok_and(|now| stat.change(&now).is_none())
                && self.key(file, stat) == Some(key)
        };
        let fact = match verdict {
            Verdict::Good(from) if is_same() => {
                Some(self.fact(key, target, digest) | u128::from(*from == HashedFrom::Cache))
            }
            _ => None,
        };
        let mut state = self.state();
        if let Some(fact) = fact.filter(|_| state.good.len() < MOST_KNOWN) {
            state.good.insert(fact);
        }
        let lines = state.in_hand.remove(&key).unwrap_or_default();
        state.waiting -= lines.iter().map(WaitingLine::weight).sum::<usize>();
        lines
    }

    /// The key that tells the data of a file from other data, if more files may have it.
    fn key(&self, file: &File, stat: &Stat) -> Option<DataKey> {
        if stat.size == 0 || stat.ctime > self.before {
            return None;
        }
        let sharing = self.volume(file, stat).sharing;
        if sharing == DataSharing::Extents
            && let Some(place) = self.place(file, stat)
        {
            return Some(DataKey(self.hash(&place)));
        }
        let is_linked = sharing != DataSharing::Unknown && stat.links > 1;
        is_linked.then(|| DataKey(self.hash(&(stat.id, stat.size, stat.mtime, stat.ctime))))
    }

    /// Where all data of a file lies, if other files have it too, and have had it since before the check looked.
    fn place(&self, file: &File, stat: &Stat) -> Option<Vec<u64>> {
        let place = sys::shared_place(file, stat)?;
        let (placed, is_fresh) = match self.volume(file, stat).placed {
            Some(placed) => (placed, false),
            None => (self.place_all(file, stat)?, true),
        };
        let place = if is_fresh { sys::shared_place(file, stat)? } else { place };
        (stat.ctime <= placed).then_some(place)
    }

    /// The facts about the file system of a file.
    fn volume(&self, file: &File, stat: &Stat) -> VolumeData {
        let look = || VolumeData { sharing: sys::data_sharing(file), placed: None };
        *self.state().volumes.entry(stat.id.dev).or_insert_with(look)
    }

    /// Sees to it that all data of the file system of a file has its place; since when that is so.
    fn place_all(&self, file: &File, stat: &Stat) -> Option<Time> {
        let placed = a_little_ago();
        let done = sys::place_all_data(file);
        let mut state = self.state();
        let volume = state.volumes.get_mut(&stat.id.dev)?;
        match done {
            Ok(()) => volume.placed = volume.placed.or(Some(placed)),
            Err(_) => volume.sharing = DataSharing::Inodes,
        }
        volume.placed
    }

    /// Data and its digest, with room for a bit. In a list of another program a digest may be by one of two algorithms.
    fn fact(&self, key: DataKey, target: &Target, digest: &Digest) -> u128 {
        self.hash(&(key, target.ours.is_some(), digest)) & !1
    }

    fn hash(&self, what: &impl Hash) -> u128 {
        let [high, low] = self.keys.each_ref().map(|key| u128::from(key.hash_one(what)));
        high << 64 | low
    }

    fn state(&self) -> MutexGuard<'_, ReadState> {
        // Nothing in there can panic half-way.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A moment that the clock of a file system is surely past.
fn a_little_ago() -> Time {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let ago = now.saturating_sub(Duration::from_nanos(MARGIN.into()));
    Time { secs: i64::try_from(ago.as_secs()).unwrap_or(i64::MAX), nanos: ago.subsec_nanos() }
}

// The instruction for a worker that is about to read a file whose data may be shared.

/// The identity of data, hashed with keys that are drawn for each check: 128 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct DataKey(pub u128);

/// A line that waits until the data of its file was read for another one.
#[derive(Debug)]
pub struct WaitingLine {
    pub target: Arc<Target>,
    pub line: ManifestLine,
}

impl WaitingLine {
    /// Bytes that it takes.
    pub fn weight(&self) -> usize {
        size_of::<Self>() + self.line.path.as_bytes().len()
    }
}

/// A file whose data was claimed, and what is listed of it.
pub struct Claimed<'a> {
    pub key: DataKey,
    pub target: &'a Target,
    pub file: &'a File,
    /// The file's metadata when it was claimed.
    pub stat: &'a Stat,
    pub digest: &'a Digest,
}

/// An instruction for a listed file.
#[derive(Debug)]
pub enum DataClaim {
    /// It is to be read; its data is its own, as far as that is known.
    Alone(ManifestLine),
    /// It is to be read, and then settled: others may wait for that.
    First(ManifestLine, DataKey),
    /// Its data was read, from there, and has the listed digest.
    Known(ManifestLine, HashedFrom),
    /// Its data is being read. Who reads it is given the line when that is done.
    Waits,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::path::RelPath;

    /// A file with two names, and what reads it.
    struct Scene {
        _dir: tempfile::TempDir,
        path: std::path::PathBuf,
        target: Arc<Target>,
        reads: SharedReads,
    }

    impl Scene {
        fn new() -> Self {
            let dir = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
            let path = dir.path().join("a");
            std::fs::write(&path, "content").unwrap();
            std::fs::hard_link(&path, dir.path().join("b")).unwrap();
            let ever = Time { secs: i64::MAX, nanos: 0 };
            let reads = SharedReads { before: ever, ..SharedReads::default() };
            Self { _dir: dir, path, target: Arc::new(Target::none()), reads }
        }

        fn open(&self) -> (File, Stat) {
            let file = File::open(&self.path).unwrap();
            let stat = Dir::stat_file(&file).unwrap();
            (file, stat)
        }

        fn claim(&self, digest: u8) -> DataClaim {
            let (digest, path) = (Digest::sha256([digest; 32]), RelPath::parse(b"a").unwrap());
            let (number, further, is_reference, looked_at) = (1, Vec::new(), false, false);
            let line = ManifestLine { number, path, digest, further, is_reference, looked_at };
            let (file, stat) = self.open();
            self.reads.claim(&self.target, line, &file, &stat)
        }

        /// Reads the data that this claim is about; how many lines waited for it.
        fn settle(&self, claim: &DataClaim, verdict: &Verdict, meanwhile: impl FnOnce()) -> usize {
            let DataClaim::First(line, key) = claim else { panic!("{claim:?}") };
            let (file, stat) = self.open();
            meanwhile();
            let (target, file, stat) = (&*self.target, &file, &stat);
            let claimed = Claimed { key: *key, target, file, stat, digest: &line.digest };
            self.reads.settle(&claimed, verdict).len()
        }
    }

    /// True if the system tells what these tests are about.
    fn is_known(scene: &Scene) -> bool {
        sys::data_sharing(&scene.open().0) != DataSharing::Unknown
    }

    const GOOD: Verdict = Verdict::Good(HashedFrom::Device);

    #[test]
    fn what_was_read_is_known_by_its_digest_alone() {
        let scene = Scene::new();
        if !is_known(&scene) {
            return;
        }
        let first = scene.claim(1);
        assert!(matches!(scene.claim(1), DataClaim::Waits));
        assert!(matches!(scene.claim(2), DataClaim::Waits));
        assert_eq!(scene.settle(&first, &GOOD, || ()), 2);
        assert!(matches!(scene.claim(1), DataClaim::Known(_, HashedFrom::Device)));
        let other = scene.claim(2);
        let differs = Verdict::Differs(HashedFrom::Device, None, None);
        assert_eq!(scene.settle(&other, &differs, || ()), 0);
        assert!(matches!(scene.claim(2), DataClaim::First(..)));
    }

    #[test]
    fn what_changes_meanwhile_is_not_known() {
        let scene = Scene::new();
        if !is_known(&scene) {
            return;
        }
        let first = scene.claim(1);
        // Longer than a clock stands still.
        std::thread::sleep(Duration::from_millis(50));
        let write = || std::fs::write(&scene.path, "CONTENT").unwrap();
        scene.settle(&first, &GOOD, write);
        assert!(matches!(scene.claim(1), DataClaim::First(..)));
    }

    #[test]
    fn what_changed_a_moment_ago_and_what_has_one_name_is_read_alone() {
        let mut scene = Scene::new();
        scene.reads = SharedReads::default();
        assert!(matches!(scene.claim(1), DataClaim::Alone(_)));
        let scene = Scene::new();
        std::fs::remove_file(scene.path.with_file_name("b")).unwrap();
        assert!(matches!(scene.claim(1), DataClaim::Alone(_)));
    }
}
