//! Parity of a tree: files of PAR2 2.0 that any program for them can verify and repair the tree by.
//!
//! They lie in `.dircopy/parity` in the root of the tree. Nothing of `.dircopy` is copied, listed, mirrored away or
//! counted as unlisted, and it is closed to all but its owner: parity tells as much of a file as the file itself. Files
//! of about the same size have their parity together, as a set, in one file. That is published whole; its name is the
//! set's.

mod ahead;
mod bins;
mod field;
mod make;
mod md5_lanes;
#[allow(missing_docs)] // of what fuzz targets read
pub mod packets;
mod pass;
mod repair;
mod sums;
mod taken;

pub use ahead::ParityAhead;
pub use bins::Bins;
pub use make::{AllUnfit, MOST_SUMS, Means, PlannedSet, Share, Unfit, Wanted};
pub use packets::{Listed, StoredSet};
pub use repair::{Repair, WillBeWhole, bad_slices};

use std::{
    collections::hash_map::RandomState, ffi::OsStr, ffi::OsString, fs::File, hash::BuildHasher, io,
    path::Path, path::PathBuf,
};

use serde::Serialize;

use crate::error::{Deed, Error, Result};
use crate::sys::{Dir, DirListing, Medium};
use crate::{
    hash::Digest, hash::hex, path::RelPath, staged::StagedFile, state::private_dir::NAME,
    state::private_dir::PARITY, sys::stat::Kind, sys::stat::Stat, sys::stat::Time,
};

/// The ending of its files.
const ENDING: &str = ".par2";

/// Number of files that are read as one.
const MOST_PARTS: usize = 256;

/// The open directory of the parity of a tree.
#[derive(Debug)]
pub struct ParityDir {
    dir: Dir,
    path: PathBuf,
}

impl ParityDir {
    /// That of the tree whose root is `root`, at `path`, if it has one of this user's: what another one put there may
    /// take for ever to read.
    ///
    /// # Errors
    /// It cannot be opened.
    pub fn open(root: &Dir, path: &Path) -> Result<Option<Self>> {
        let path = path.join(NAME).join(PARITY);
        let opened = root.open_dir(NAME.as_ref(), false).if_there();
        let opened = opened.and_then(|private| {
            private.map_or(Ok(None), |it| it.open_dir(PARITY.as_ref(), false).if_there())
        });
        let ours = opened.and_then(|dir| match dir {
            Some(dir) if dir.is_ours()? => Ok(Some(dir)),
            _ => Ok(None),
        });
        let dir = ours.deed("open the directory of the parity", &path)?;
        Ok(dir.map(|dir| Self { dir, path }))
    }

    /// Why parity that is there is not used: it is another user's, or that cannot be told.
    pub fn unused(root: &Dir, path: &Path) -> Option<String> {
        match Self::open(root, path) {
            Ok(Some(_)) => None,
            Ok(None) => {
                let private = root.open_dir(NAME.as_ref(), false).ok()?;
                private.open_dir(PARITY.as_ref(), false).ok().map(|_| "it is another user's".into())
            }
            Err(error) => {
                let is_closed = error.kind() == Some(io::ErrorKind::PermissionDenied);
                is_closed.then(|| error.to_string())
            }
        }
    }

    /// The same, made if it is not there.
    ///
    /// # Errors
    /// It cannot be made, or belongs to another user.
    pub fn make(root: &Dir, path: &Path) -> Result<Self> {
        let path = path.join(NAME).join(PARITY);
        let enter = |above: &Dir, name: &OsStr| {
            above.make_dir(name, true).unless_taken()?;
            let dir = above.open_dir(name, false)?;
            match dir.is_ours()? {
                true => Ok(dir),
                false => Err(io::Error::new(
                    io::ErrorKind::PermissionDenied,
                    "it belongs to another user",
                )),
            }
        };
        let made = enter(root, NAME.as_ref()).and_then(|dir| enter(&dir, PARITY.as_ref()));
        let dir = made.deed("make the directory of the parity", &path)?;
        Ok(Self { dir, path })
    }

    /// Where it is, for messages.
    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn dir(&self) -> &Dir {
        &self.dir
    }

    /// The names of its files, in order, together where other programs put a set into several.
    fn names(&self) -> Result<Vec<Vec<OsString>>> {
        let mut names = Vec::new();
        for listed in DirListing::of(&self.dir).deed("list", &self.path)? {
            let name = listed.deed("list", &self.path)?.name;
            let is_file = || self.dir.stat(&name, false).is_ok_and(|it| it.kind == Kind::File);
            if name.as_encoded_bytes().ends_with(ENDING.as_bytes()) && is_file() {
                names.push(name.to_os_string());
            }
        }
        names.sort_by(|a, b| set_name(a).cmp(set_name(b)).then_with(|| a.cmp(b)));
        let sets = names.chunk_by(|a, b| set_name(a) == set_name(b));
        Ok(sets.flat_map(|set| set.chunks(MOST_PARTS)).map(<[OsString]>::to_vec).collect())
    }

    /// Opens some of its files, and reads the set that they have, if that is known.
    ///
    /// # Errors
    /// They cannot be read.
    pub fn read(
        &self,
        names: &[OsString],
        is_to_stop: &dyn Fn() -> bool,
    ) -> Result<(JoinedFiles, Option<StoredSet>)> {
        let read = || {
            let files = names.iter().map(|name| self.dir.open_file(name, false));
            let files = JoinedFiles::new(files.collect::<io::Result<_>>()?)?;
            let set = packets::read(&files, is_to_stop)?;
            Ok((files, set))
        };
        read().deed("read the parity", self.path_of(names))
    }

    /// Where the first of these files is, for messages.
    pub fn path_of(&self, names: &[OsString]) -> PathBuf {
        names.first().map_or_else(|| self.path.clone(), |name| self.path.join(name))
    }

    /// Makes the parity of these files. What does not fit is noted in `unfit`; then none is made, and the rest is to be
    /// tried again. `None` if none was made.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn add(
        &self,
        wanted: &[Wanted],
        means: &Means<'_>,
        unfit: &mut AllUnfit,
    ) -> Result<Option<NewSet>> {
        let Some(mut planned) = PlannedSet::look(wanted, means, unfit) else { return Ok(None) };
        if !unfit.is_empty() {
            return Ok(None);
        }
        let name: OsString = format!("{}{ENDING}", hex::text(&planned.set.id())).into();
        let path = self.path.join(&name);
        let (mut is_made, mut len) = (false, 0);
        let staged = StagedFile::of(&self.dir, &name, true, &|_| false).deed("create", &path)?;
        let filled = staged.fill(&self.dir, |file| {
            is_made = planned.write(file, means, unfit)?;
            len = Dir::stat_file(file)?.size;
            Ok(())
        });
        let staged = filled.deed("write", &path)?;
        if !is_made {
            staged.remove(&self.dir).deed("remove the part file", &path)?;
            return Ok(None);
        }
        let closed = staged.close(&self.dir, true);
        let published = closed.and_then(|staged| staged.publish(&self.dir, &name, true));
        published.and_then(|()| self.dir.persist()).deed("publish", &path)?;
        Ok(Some(NewSet { name, len, slices: planned.recovery() as u64 }))
    }

    /// Removes one of its files.
    ///
    /// # Errors
    /// It stays.
    pub fn remove(&self, name: &OsStr) -> Result<()> {
        self.dir.remove(name).if_there().map(drop).deed("remove", self.path.join(name))
    }
}

/// A set that was made.
#[derive(Debug)]
pub struct NewSet {
    pub name: OsString,
    /// Length of its file.
    pub len: u64,
    /// Number of its recovery slices.
    pub slices: u64,
}

/// What was made of the parity of a tree. The names of the fields are part of the format of reports.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ParityReport {
    /// True if all listed files were to have it, and not only those that had it.
    #[serde(skip)]
    pub is_all: bool,
    /// Files that have it.
    pub files: u64,
    /// Sets of files that were made, …
    #[serde(rename = "sets_made")]
    pub made: u64,
    /// … bytes that these take, …
    pub bytes: u64,
    /// … their recovery slices, …
    pub recovery_slices: u64,
    /// … sets that stayed, …
    #[serde(rename = "sets_kept")]
    pub kept: u64,
    /// … and sets that were removed, because others took their place.
    #[serde(rename = "sets_removed")]
    pub removed: u64,
}

impl ParityReport {
    /// Adds a set that was made.
    pub fn add(&mut self, set: &NewSet) {
        self.made += 1;
        self.bytes += set.len;
        self.recovery_slices += set.slices;
    }

    /// The same with sets that were made before, and stayed.
    pub fn after(self, before: &Self) -> Self {
        Self {
            made: self.made + before.made,
            bytes: self.bytes + before.bytes,
            recovery_slices: self.recovery_slices + before.recovery_slices,
            kept: self.kept.saturating_sub(before.made),
            ..self
        }
    }
}

/// What is known of a set without reading it again.
#[derive(Debug)]
pub struct KnownSet {
    /// The names of its files.
    pub names: Vec<OsString>,
    /// The share of its parity, if that is known.
    pub share: Option<Share>,
    pub is_whole: bool,
    /// True if another program made it, or too little is left to tell.
    pub is_foreign: bool,
}

/// A file of a set: hashes of its path and its digest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Entry {
    path: u64,
    set: u32,
    /// A hash of its size, and of its time if that is known: with its digest.
    traits: u32,
    /// `None` if it is lost: then the content may be any that is listed.
    digest: Option<u64>,
}

/// What all sets of a tree are of. A file takes 32 bytes.
#[derive(Debug)]
pub struct ParityIndex {
    pub sets: Vec<KnownSet>,
    /// Files of which it is not known any more what they are of.
    pub lost: Vec<OsString>,
    entries: Vec<Entry>,
    key: RandomState,
}

impl ParityIndex {
    /// Reads all sets; what cannot be read is told to `warn`, and counts as lost.
    ///
    /// # Errors
    /// The directory cannot be listed.
    pub fn load(
        dir: &ParityDir,
        is_to_stop: &dyn Fn() -> bool,
        warn: &dyn Fn(Error),
    ) -> Result<Self> {
        let (sets, lost, entries) = (Vec::new(), Vec::new(), Vec::new());
        let mut index = Self { sets, lost, entries, key: RandomState::new() };
        for names in dir.names()? {
            if is_to_stop() {
                break;
            }
            let read = dir.read(&names, is_to_stop).map_err(warn);
            match read.ok().and_then(|(_, set)| set) {
                Some(set) => index.note(names, &set),
                None => index.lost.extend(names),
            }
        }
        index.entries.sort_unstable();
        Ok(index)
    }

    fn note(&mut self, names: Vec<OsString>, stored: &StoredSet) {
        let set = self.sets.len() as u32;
        for file in &stored.files.files {
            let path = self.key.hash_one(file.path.as_bytes());
            let digest = file.listed.map(|it| self.key.hash_one(it.digest));
            let traits = self.traits(file.size, file.listed.map(|it| it.mtime));
            self.entries.push(Entry { path, set, traits, digest });
        }
        let share = stored.share.map(Share);
        self.sets.push(KnownSet {
            names,
            share,
            is_whole: stored.is_whole,
            is_foreign: stored.is_foreign,
        });
    }

    /// The numbers of the entries of a path, each with its set and whether it is of the content with this digest.
    pub fn entries(
        &self,
        path: &RelPath,
        digest: &Digest,
    ) -> impl Iterator<Item = (usize, usize, bool)> + '_ {
        let digest = self.key.hash_one(digest);
        self.entries_of(path).map(move |(number, entry)| {
            let is_same = entry.digest.is_none_or(|known| known == digest);
            (number, entry.set as usize, is_same)
        })
    }

    /// The numbers of the entries of a path, whatever they are of.
    pub fn numbers(&self, path: &RelPath) -> impl Iterator<Item = usize> + '_ {
        self.entries_of(path).map(|(number, _)| number)
    }

    fn entries_of<'a>(
        &'a self,
        path: &RelPath,
    ) -> impl Iterator<Item = (usize, &'a Entry)> + use<'a> {
        let path = self.key.hash_one(path.as_bytes());
        let first = self.entries.partition_point(|entry| entry.path < path);
        let all = self.entries.iter().enumerate().skip(first);
        all.take_while(move |(_, entry)| entry.path == path)
    }

    fn traits(&self, size: u64, mtime: Option<Time>) -> u32 {
        self.key.hash_one((size, mtime)) as u32
    }

    /// True if the file at a path, which is `there`, has the size and the time that it had when parity was made of the
    /// content with this digest; of parity by another program the size is all that is known.
    pub fn is_as_it_was(&self, path: &RelPath, digest: &Digest, there: &Stat) -> bool {
        let entry = |(number, _, is_same): (usize, usize, bool)| {
            self.entries.get(number).filter(|_| is_same)
        };
        let is_so = |entry: &Entry| {
            entry.traits == self.traits(there.size, entry.digest.map(|_| there.mtime))
        };
        self.entries(path, digest).filter_map(entry).any(is_so)
    }

    /// Number of entries.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// The set of an entry.
    pub fn set_of(&self, entry: usize) -> usize {
        self.entries.get(entry).map_or(usize::MAX, |entry| entry.set as usize)
    }
}

// Files that are read as if they were one: other programs write a set into several.

/// Files one behind the other.
#[derive(Debug)]
pub struct JoinedFiles(Vec<(File, u64)>);

impl JoinedFiles {
    /// These files, as long as they are now.
    ///
    /// # Errors
    /// The length of one is not told.
    pub fn new(files: Vec<File>) -> io::Result<Self> {
        let with_len = |file| Dir::stat_file(&file).map(|stat| (file, stat.size));
        files.into_iter().map(with_len).collect::<io::Result<_>>().map(Self)
    }

    /// The first of them, if there is one.
    pub fn first(&self) -> Option<&File> {
        self.0.first().map(|(file, _)| file)
    }

    /// The length of all.
    pub fn size(&self) -> u64 {
        self.0.iter().fold(0, |sum, (_, len)| sum.saturating_add(*len))
    }

    /// Fills `room` with what is at `at`, as far as the files go.
    ///
    /// # Errors
    /// One of them cannot be read.
    pub fn fill_at(&self, room: &mut [u8], at: u64) -> io::Result<usize> {
        let (mut filled, mut start) = (0, 0);
        for (file, len) in &self.0 {
            let from = (at + filled as u64).saturating_sub(start);
            let want = (room.len() - filled).min(len.saturating_sub(from) as usize);
            let read = Medium::any(file).fill_at(&mut room[filled..filled + want], from)?;
            filled += read;
            if read < want || filled == room.len() {
                break;
            }
            start += len;
        }
        Ok(filled)
    }
}

/// The name of the set that a file of this name has a part of: `NAME.vol003+04.par2` is of `NAME`.
fn set_name(file: &OsStr) -> &[u8] {
    let name = file.as_encoded_bytes();
    let name = name.strip_suffix(ENDING.as_bytes()).unwrap_or(name);
    let Some(at) = memchr::memmem::rfind(name, b".vol") else { return name };
    let number = &name[at + 4..];
    let is_number = number.iter().all(|byte| byte.is_ascii_digit() || b"+-_".contains(byte));
    if is_number { &name[..at] } else { name }
}

#[cfg(test)]
mod parity_tests {
    use std::{cell::RefCell, fs};

    use super::*;
    use crate::hash::Algorithm;

    /// A tree of files whose content is like no other, and what a manifest of it lists.
    fn tree(sizes: &[usize]) -> (tempfile::TempDir, Vec<Wanted>, Vec<Vec<u8>>) {
        let (root, mut wanted, mut contents) =
            (tempfile::tempdir().unwrap(), Vec::new(), Vec::new());
        fs::create_dir(root.path().join("d")).unwrap();
        for (number, size) in sizes.iter().enumerate() {
            let mut state = 7919 * (number as u32 + 1);
            let mut byte = || {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                (state >> 24) as u8
            };
            let content: Vec<u8> = (0..*size).map(|_| byte()).collect();
            let path = format!("{}f{number}", if number % 2 == 0 { "" } else { "d/" });
            fs::write(root.path().join(&path), &content).unwrap();
            let mut hasher = Algorithm::Sha256.start();
            hasher.update(&content);
            let path = RelPath::parse(path.as_bytes()).unwrap();
            wanted.push(Wanted { path, digest: hasher.finish().unwrap(), line: 1 });
            contents.push(content);
        }
        (root, wanted, contents)
    }

    fn add(root: &Path, wanted: &[Wanted], memory: u64) -> (ParityDir, Option<OsString>, AllUnfit) {
        let dir = Dir::open(root).unwrap();
        let means = Means {
            root: &dir,
            share: Share(100),
            memory,
            turns: false,
            is_to_stop: &|| false,
            on_read: &|_| (),
        };
        let (parity, mut unfit) = (ParityDir::make(&dir, root).unwrap(), AllUnfit::new());
        let made = parity.add(wanted, &means, &mut unfit).unwrap();
        (parity, made.map(|set| set.name), unfit)
    }

    /// The slices of 8 KiB are made in one reading, and by columns of a page.
    const SIZES: [usize; 3] = [2000 * 4096 + 1, 9000, 30_001];

    #[test]
    fn columns_are_the_same_as_one_reading() {
        let (root, wanted, _) = tree(&SIZES);
        let (parity, name, _) = add(root.path(), &wanted, MOST_SUMS);
        let path = parity.path().join(name.unwrap());
        let whole = fs::read(&path).unwrap();
        let (_, stored) = parity.read(&[path.file_name().unwrap().into()], &|| false).unwrap();
        let stored = stored.unwrap();
        assert!(stored.is_whole && stored.files.slice == 8192, "{}", stored.files.slice);
        fs::remove_file(&path).unwrap();
        add(root.path(), &wanted, 1);
        assert!(fs::read(&path).unwrap() == whole);
    }

    // Windows keeps a file that is being read from being written to.
    #[cfg(unix)]
    #[test]
    fn a_file_that_is_written_to_while_it_is_read_has_no_parity() {
        for memory in [MOST_SUMS, 1] {
            let (root, wanted, _) = tree(&SIZES);
            let dir = Dir::open(root.path()).unwrap();
            let file = fs::File::options().append(true).open(root.path().join("f0")).unwrap();
            let touch = |_| file.set_modified(std::time::SystemTime::UNIX_EPOCH).unwrap();
            let (is_to_stop, share) = (&|| false, Share(100));
            let means = Means {
                root: &dir,
                share,
                memory,
                turns: memory == 1,
                is_to_stop,
                on_read: &touch,
            };
            let parity = ParityDir::make(&dir, root.path()).unwrap();
            let mut unfit = AllUnfit::new();
            parity.add(&wanted, &means, &mut unfit).unwrap();
            let all: Vec<_> = unfit.iter().collect();
            assert!(matches!(&all[..], [(0, Unfit::Changed(_))]), "{all:?}");
        }
    }

    #[test]
    fn what_is_bad_is_repaired_by_columns_too() {
        let (root, wanted, contents) = tree(&SIZES);
        let (parity, name, _) = add(root.path(), &wanted, MOST_SUMS);
        let (file, stored) = parity.read(&[name.unwrap()], &|| false).unwrap();
        let (stored, dir) = (stored.unwrap(), Dir::open(root.path()).unwrap());
        let mut bad = contents[0].clone();
        bad[5] ^= 1;
        bad.truncate(1998 * 4096);
        fs::write(root.path().join("f0"), bad).unwrap();
        fs::remove_file(root.path().join("d/f1")).unwrap();
        let bad = bad_slices(&stored.files, &dir, &WillBeWhole::new(), &|| false).unwrap();
        for memory in [MOST_SUMS, 1] {
            let mut repair = Repair::of(&stored, bad.clone()).unwrap();
            repair.memory = memory;
            let slices = RefCell::new(vec![0; 8192 * bad.len()]);
            let put = |at: u64, bytes: &[u8]| {
                slices.borrow_mut()[at as usize..][..bytes.len()].copy_from_slice(bytes);
                Ok(())
            };
            assert!(repair.write(&dir, &file, put, &|| false).unwrap());
            let (slices, mut first) = (slices.into_inner(), 0);
            for file in &stored.files.files {
                let number = wanted.iter().position(|it| it.path == file.path).unwrap();
                for (slice, content) in contents[number].chunks(8192).enumerate() {
                    let place = repair.place(first + slice).map(|at| &slices[at as usize..]);
                    assert!(place.is_none_or(|place| place.starts_with(content)));
                }
                first += file.sums.len();
            }
        }
        assert_eq!(bad.len(), 2 + 2 + 1);
    }

    #[test]
    fn all_that_does_not_fit_is_found_at_once() {
        let (root, mut wanted, _) = tree(&[5000, 6000, 7000, 8000]);
        wanted[1].digest = wanted[0].digest;
        fs::remove_file(root.path().join("d/f3")).unwrap();
        let (parity, made, unfit) = add(root.path(), &wanted, MOST_SUMS);
        assert!(made.is_none() && matches!(unfit[&3], Unfit::Io(_)) && unfit.len() == 1);
        wanted.pop();
        let (_, made, unfit) = add(root.path(), &wanted, MOST_SUMS);
        assert!(made.is_none() && matches!(unfit[&1], Unfit::Differs(Some(_))));
        assert_eq!(fs::read_dir(parity.path()).unwrap().count(), 0);
    }
}

#[cfg(test)]
mod joined_tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn files_are_read_as_one() {
        let file = |bytes: &[u8]| {
            let mut file = tempfile::tempfile().unwrap();
            file.write_all(bytes).unwrap();
            file
        };
        let joined = JoinedFiles::new(vec![file(b"abc"), file(b""), file(b"defg")]).unwrap();
        assert_eq!(joined.size(), 7);
        for from in 0..9 {
            for len in 0..9 {
                let mut room = vec![0; len];
                let read = joined.fill_at(&mut room, from).unwrap();
                let (from, all) = ((from as usize).min(7), b"abcdefg");
                assert_eq!(&room[..read], &all[from..(from + len).min(7)]);
            }
        }
    }

    #[test]
    fn parts_have_the_name_of_their_set() {
        for (name, set) in [
            ("a.par2", "a"),
            ("a.vol000+01.par2", "a"),
            ("a.vol3-4.par2", "a"),
            ("a.volume.par2", "a.volume"),
            ("a.b.vol1+2.c.par2", "a.b.vol1+2.c"),
        ] {
            assert_eq!(set_name(OsStr::new(name)), set.as_bytes());
        }
    }
}
