//! The results of trials of the output's file system, kept for dry runs: `traits` in the private directory.
//!
//! A dry run makes nothing, so it can try nothing. What the last run found out tells it which names, times and links
//! that run could not make, so that it comes to the same end. Nothing else believes it: a run tries for itself.

use std::{
    collections::BTreeMap, ffi::OsStr, ffi::OsString, fs::File, fs::FileTimes, io, path::Path,
    path::PathBuf, time::Duration, time::SystemTime, time::UNIX_EPOCH,
};

use serde::{Deserialize, Serialize};

use crate::{
    error::Deed, error::Result, hash::hex, manifest::SummedReader, manifest::SummedWriter,
    path::RelPath, state::Note, state::PrivateDir, state::note, state::note::Bound,
    state::private_dir::is_marked, state::private_dir::mark_of, sys, sys::Attributes, sys::Dir,
    sys::stat::Kind, sys::stat::Stat, sys::stat::Time, sys::traits::Traits,
};

impl Note for Traits {
    const FILE: &str = "traits";
    const HEAD: &str = "dircopy traits 1";
    const BOUND: Bound = Bound::Directory;
}

/// Where the note is.
pub enum NotePlace<'a> {
    /// In the private directory of this very output.
    Private(&'a PrivateDir),
    /// In a directory that may be anyone's, where no directory can be private.
    Open(&'a Dir),
}

impl NotePlace<'_> {
    /// The note of the last run; `None` if there is no note of this output that can be read.
    pub fn read(&self) -> Option<Traits> {
        let dir = match self {
            Self::Private(private) => return Traits::read(private),
            Self::Open(dir) => dir,
        };
        let file = dir.open_file(Traits::FILE.as_ref(), false).ok()?;
        let is_file = Dir::stat_file(&file).ok()?.kind == Kind::File;
        note::read_from(file, Traits::HEAD).filter(|_| is_file)
    }

    /// Notes `traits`, if they are not what is noted. Of a file system that holds everything there is no note, but one
    /// that takes back another.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn write(&self, traits: &Traits) -> io::Result<()> {
        if self.read().unwrap_or(Traits::FAITHFUL) == *traits {
            return Ok(());
        }
        let dir = match self {
            Self::Private(private) => return Note::write(traits, private, false),
            Self::Open(dir) => dir,
        };
        let name = OsStr::new(Traits::FILE);
        match dir.remove(name) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let file = dir.create_new(name, true)?;
        sys::write_all(&file, note::text(Traits::HEAD, traits)?.as_bytes())?;
        sys::close_file(file)
    }
}

/// True for a file, by its name and length, that runs keep in the directory of an output that may be anyone's.
pub fn is_kept_in_the_open(name: &OsStr, size: u64) -> bool {
    match size {
        0 => is_name(name),
        _ => name == Traits::FILE && size <= note::MOST_BYTES,
    }
}

// A directory that its owner may not write to, and that is made writable for a moment: `opened` in the private
// directory.
//
// The note is durable before the permissions are changed, and goes when they are what they were. Should the run not
// come to its end, it tells the next one what to give back.

/// The metadata of a directory before it was made writable.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpenedDir {
    path: RelPath,
    mode: u32,
    mtime: Time,
}

impl Note for OpenedDir {
    const FILE: &str = "opened";
    const HEAD: &str = "dircopy opened 2";
}

impl OpenedDir {
    /// The directory at `path` below the root, which is `stat`.
    pub fn new(path: &RelPath, stat: &Stat) -> Self {
        Self { path: path.clone(), mode: stat.mode, mtime: stat.mtime }
    }

    /// Gives the directory below `root` back what it was, unless it was given other permissions meanwhile.
    ///
    /// # Errors
    /// It cannot be opened or changed, or may not be on the device. The note stays.
    pub fn close(&self, root: &Dir) -> io::Result<()> {
        let dir = match root.open_below(&self.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            opened => opened?,
        };
        let now = dir.stat_self()?;
        if !Dir::is_opened_up(&now, self.mode) {
            return Ok(());
        }
        let before = Stat { mode: self.mode, mtime: self.mtime, ..now };
        let mut closed = Ok(());
        Attributes::default().apply(&dir, &before, true, |_, error| closed = Err(error));
        closed.and_then(|()| dir.persist())
    }
}

// The directories that runs make for themselves at an output: `trash` and `begun` in the private directory.
//
// Who may write to the output can give any directory of this user's their names, also one that the other could not
// change: a run would empty it as old trash, or go on with it.

/// The trash, by what it is known again.
#[derive(Debug, Serialize, Deserialize)]
pub struct OwnTrash(String);

impl Note for OwnTrash {
    const FILE: &str = "trash";
    const HEAD: &str = "dircopy trash 1";
}

impl OwnTrash {
    /// The open directory.
    ///
    /// # Errors
    /// It cannot be looked at.
    pub fn of(dir: &Dir) -> io::Result<Self> {
        mark_of(dir).map(Self)
    }

    /// True if it is this one, or numbers tell nothing there.
    ///
    /// # Errors
    /// It cannot be looked at.
    pub fn is(&self, dir: &Dir) -> io::Result<bool> {
        is_marked(dir, &self.0)
    }
}

/// The tree that is to be a generation: its name, and by what it is known again when it is made.
#[derive(Debug, Serialize, Deserialize)]
pub struct BegunTree {
    name: String,
    made: Option<String>,
}

impl Note for BegunTree {
    const FILE: &str = "begun";
    const HEAD: &str = "dircopy begun 1";
}

impl BegunTree {
    /// One that is made next.
    pub fn to_come(name: &str) -> Self {
        Self { name: name.to_owned(), made: None }
    }

    /// One that is there.
    ///
    /// # Errors
    /// It cannot be looked at.
    pub fn of(name: &str, dir: &Dir) -> io::Result<Self> {
        Ok(Self { name: name.to_owned(), made: Some(mark_of(dir)?) })
    }

    /// True if it is this one; a run may have been killed when it had made it.
    ///
    /// # Errors
    /// It cannot be looked at.
    pub fn is(&self, name: &OsStr, dir: &Dir) -> io::Result<bool> {
        let is_made = self.made.as_ref().map_or(Ok(true), |made| is_marked(dir, made))?;
        Ok(is_made && *name == *self.name)
    }
}

// What a run is about to move into the trash: `departing` in the private directory.
//
// The lines of these files are in no manifest any more when they are moved. Should the run not come to its end,
// this file tells the next one that they were listed, and are no files of others.

const DEPARTING_FILE: &str = "departing";

/// Begins each record: no path is taken for what ends the file. Behind it stands the trace, a blank, and the path.
const BEFORE_TRACE: &[u8] = b"\n";

/// The pieces that an earlier run was about to move, and may not have moved.
#[derive(Debug, Default)]
pub struct Departing {
    /// By what each was known, whole: what was put into it since is no run's.
    traces: BTreeMap<Vec<u8>, String>,
}

impl Departing {
    /// Reads what is noted; nothing if that cannot be read to its end.
    pub fn read(private: &PrivateDir) -> Self {
        Self::read_whole(private).unwrap_or_default()
    }

    fn read_whole(private: &PrivateDir) -> Option<Self> {
        let (file, _) = private.dir().open_private(DEPARTING_FILE.as_ref()).ok()??;
        // Of which output, and which making of the file, the paths are.
        let head = private.mark().of_file(&file).text().to_owned();
        let (deed, path) = ("read what was about to be moved in", private.path());
        let mut pieces = SummedReader::of(file, deed, path, 0, &head).ok()?;
        let mut departing = Self::default();
        while let Some(record) = pieces.next_record().ok()? {
            let record = record.strip_prefix(BEFORE_TRACE)?;
            // Earlier versions noted no trace: what they were about to move stays.
            let (trace, path) = record.split_at(memchr::memchr(b' ', record)?);
            let trace = str::from_utf8(trace).ok()?;
            departing.traces.insert(path[1..].to_vec(), trace.to_owned());
        }
        Some(departing)
    }

    /// The piece at `path`, or that the directory above it is, and its trace.
    pub fn piece_over(&self, path: &[u8]) -> Option<(&[u8], &str)> {
        let ends = memchr::memchr_iter(b'/', path).chain([path.len()]);
        let mut above = ends.filter_map(|end| self.traces.get_key_value(path.get(..end)?));
        above.next().map(|(path, trace)| (&path[..], &trace[..]))
    }

    /// Notes these pieces with their traces in place of what was noted.
    ///
    /// # Errors
    /// They cannot be written.
    pub fn write(
        private: &PrivateDir,
        pieces: impl Iterator<Item = DepartingPiece>,
    ) -> io::Result<()> {
        private.write(DEPARTING_FILE.as_ref(), true, |file| {
            let head = private.mark().of_file(file).text().to_owned();
            let mut writer = SummedWriter::new(file, 0, &head)?;
            for DepartingPiece { path, trace } in pieces {
                writer.add(&[BEFORE_TRACE, trace.as_bytes(), b" ", path.as_bytes()].concat())?;
            }
            writer.finish(0).map(drop)
        })
    }

    /// All of it was moved, or stays.
    ///
    /// # Errors
    /// The note cannot be removed.
    pub fn forget(private: &PrivateDir) -> io::Result<()> {
        private.forget(DEPARTING_FILE)
    }
}

/// A piece that is about to be moved, and by what it is known again.
pub struct DepartingPiece {
    pub path: RelPath,
    /// Without blanks.
    pub trace: String,
}

// Files of a known time in the private directory: they show whether a file system's times have moved.
//
// FAT stores what a clock on the wall says, and how that is read depends on the machine's zone, or on daylight
// saving. Then all times move alike, by whole quarters of an hour. One file was given its time in each zone that
// a run has seen, because files that were copied in either look moved in the other.

/// The time of each of these files: even, for file systems with steps of two seconds.
pub const REFERENCE: Time = Time { secs: 981_173_106, nanos: 0 };

/// So many zones are told apart.
const MOST: usize = 8;

/// Zones differ by multiples of this; seconds.
const QUARTER: i64 = 15 * 60;

/// … and by less than this, from +14 to −12 hours, and an hour of daylight saving.
const MOST_APART: i64 = 28 * 3600;

/// The move of the times that earlier runs set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MovedTimes {
    /// By how many seconds, once each; none where they have not.
    pub by: Vec<i64>,
    /// True if no earlier run has seen them as they are now.
    pub is_new: bool,
}

/// The move of the times that earlier runs set, as the files in `dir` show it. Where no file has the time that is asked
/// of it now, one is made if `makes`.
///
/// # Errors
/// The files can be neither read nor made.
pub fn moved(dir: &Dir, makes: bool) -> io::Result<MovedTimes> {
    let (mut moved, mut is_known) = (Vec::new(), false);
    for number in 0..MOST {
        let name = OsString::from(format!("time.{number}"));
        let there = match dir.stat(&name, false) {
            Ok(there) => there,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                if makes && !is_known {
                    set_reference_time(&dir.create_new(&name, true)?)?;
                }
                break;
            }
            Err(error) => return Err(error),
        };
        let by = there.mtime.secs - REFERENCE.secs;
        is_known |= by == 0;
        if by != 0 && by % QUARTER == 0 && by.abs() < MOST_APART {
            moved.push(by);
        }
    }
    Ok(MovedTimes { is_new: !is_known && !moved.is_empty(), by: moved })
}

/// True for a name that one of these may have.
pub fn is_name(name: &OsStr) -> bool {
    (0..MOST).any(|number| name == OsStr::new(&format!("time.{number}")))
}

/// Gives a file the time that none has by itself.
///
/// # Errors
/// The system's.
pub fn set_reference_time(file: &File) -> io::Result<()> {
    let time = UNIX_EPOCH + Duration::from_secs(REFERENCE.secs.unsigned_abs());
    // Both times: libfuse 2 ignores one alone.
    file.set_times(FileTimes::new().set_accessed(SystemTime::now()).set_modified(time))
}

// Which devices the other outputs of a run were on: `others` in the private directory.
//
// Where a disk is not mounted, its output would be made on the disk below the mount point. What knew better lies on
// the disk that is not there; so the outputs of a run know it of each other.

/// Number of outputs that are noted. Those of the last run are among them.
const MOST_OTHERS: usize = 64;

/// The other outputs of runs that were on devices of their own: for each, where its device was mounted. Both are paths
/// in hexadecimal digits, because names are bytes.
#[derive(Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OtherOutputs(BTreeMap<String, String>);

impl Note for OtherOutputs {
    const FILE: &str = "others";
    const HEAD: &str = "dircopy others 2";
}

impl OtherOutputs {
    /// Notes the output at `path`, if it is on another device than the root of all directories.
    pub fn add(&mut self, path: &Path) {
        self.0.extend(key(path).zip(top_of(path).as_deref().map(in_hex)));
    }

    /// The same without the output at `path`.
    #[must_use]
    pub fn but(&self, path: &Path) -> Self {
        let (mut others, key) = (self.0.clone(), key(path));
        others.retain(|other, _| Some(other) != key.as_ref());
        Self(others)
    }

    /// These, and what was noted earlier of others than those that are `settled` now: disks may take turns.
    #[must_use]
    pub fn and_of(mut self, earlier: &Self, settled: &[&Path]) -> Self {
        let settled: Vec<_> = settled.iter().filter_map(|path| key(path)).collect();
        let others = earlier.0.iter().filter(|(path, _)| !settled.contains(path));
        let room = MOST_OTHERS.saturating_sub(self.0.len());
        self.0.extend(others.take(room).map(|(path, top)| (path.clone(), top.clone())));
        self
    }

    /// Where the device was mounted that the output at `path` was on, if none is mounted there now.
    pub fn missing(&self, path: &Path) -> Option<PathBuf> {
        let top = hex::parse(self.0.get(&key(path)?)?.as_bytes())?;
        let top = PathBuf::from(sys::name_from_bytes(&top).ok()?);
        (!is_top(&top)).then_some(top)
    }

    /// Notes it for later runs, on the device if `durable`; nothing where nothing is to be noted and was.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn update(&self, private: &PrivateDir, durable: bool) -> io::Result<()> {
        match Self::read(private).unwrap_or_default() == *self {
            true => Ok(()),
            false => self.write(private, durable),
        }
    }
}

fn key(path: &Path) -> Option<String> {
    std::path::absolute(path).ok().map(|path| in_hex(&path))
}

fn in_hex(path: &Path) -> String {
    hex::text(path.as_os_str().as_encoded_bytes())
}

/// The highest directory above `path`, or above the one that it is to be made in, that is on the same device; none if
/// that is the highest of all.
pub fn top_of(path: &Path) -> Option<PathBuf> {
    let path = std::path::absolute(path).ok()?;
    let path = path.ancestors().find_map(|it| it.canonicalize().ok())?;
    let dev = |path: &Path| Some(Dir::open(path).ok()?.identity().ok()?.dev);
    let own = dev(&path)?;
    let below = path.ancestors().take_while(|above| dev(above) == Some(own)).last()?;
    below.parent().is_some().then(|| below.to_path_buf())
}

/// True if a device is mounted at `path`. What cannot be looked at for another reason may be one.
pub fn is_top(path: &Path) -> bool {
    let dev = |path: &Path| Ok::<_, io::Error>(Dir::open(path)?.identity()?.dev);
    match (dev(path), path.parent().map(dev)) {
        (Ok(own), Some(Ok(above))) => own != above,
        (Err(error), _) => error.kind() != io::ErrorKind::NotFound,
        _ => true,
    }
}

// That a run made the root of an output, and has not given it the source's permissions yet: `new-root` in the private
// directory.
//
// A new root is closed to all others until everything in it is done. Should the run not come to its end, the note
// tells the next one that it was not the user who closed it.

/// The note. It need not be durable: without it the root stays closed.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NewRoot;

impl Note for NewRoot {
    const FILE: &str = "new-root";
    const HEAD: &str = "dircopy new root 1";
}

// What the last run did not bring over, for checks: its manifest lists only what is there, and all of that may be good.

/// The note of a run that came to its end and left entries out. A complete one removes it.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NotAll {
    /// Entries that are not at the output as in the source.
    pub missing: u64,
}

impl Note for NotAll {
    const FILE: &str = "not-all";
    const HEAD: &str = "dircopy not all 1";
}

// That what is at the output may be newer than every list of it, for checks and for healing.

/// The note of a run that lists nothing (`--hash none`), or of a plan, that began. One that finishes a list removes it.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unlisted {
    /// The plan, by its number, if nothing but that brings what is not listed.
    pub plan: Option<u32>,
}

impl Note for Unlisted {
    const FILE: &str = "unlisted";
    const HEAD: &str = "dircopy unlisted 2";
}

impl Unlisted {
    /// Writes it.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn note(self, private: &PrivateDir, durable: bool) -> Result<()> {
        let path = || private.path();
        self.write(private, durable).deed_at("write the private note of unlisted files in", path)
    }
}

#[cfg(test)]
mod traits_note_tests {
    use super::*;
    use crate::state::private_dir::scratch;
    use crate::sys::traits::NameTraits;

    #[test]
    fn it_is_read_as_it_was_written() {
        let (root, dir, private) = scratch();
        for place in [NotePlace::Private(&private), NotePlace::Open(&dir)] {
            place.write(&Traits::FAITHFUL).unwrap();
            assert_eq!(place.read(), None);
            let names = NameTraits { ends: false, longest: 31, ..NameTraits::EVERY };
            for traits in [Traits { names, links: false, ..Traits::FAITHFUL }, Traits::FAITHFUL] {
                place.write(&traits).unwrap();
                assert_eq!(place.read(), Some(traits));
            }
        }
        std::fs::copy(private.path().join(Traits::FILE), root.path().join(Traits::FILE)).unwrap();
        assert_eq!(NotePlace::Open(&dir).read(), None, "that of another place");
    }
}

#[cfg(test)]
mod opened_tests {
    use super::*;
    use crate::state::private_dir::scratch;

    #[test]
    fn what_is_noted_is_read() {
        let (_root, dir, private) = scratch();
        assert_eq!(OpenedDir::read(&private), None);
        for path in ["a b/c\nd", "x"] {
            let path = RelPath::parse(path.as_bytes()).unwrap();
            let mtime = Time { secs: -7, nanos: 999_999_999 };
            let opened = OpenedDir { path, mode: 0o40555, mtime };
            opened.write(&private, true).unwrap();
            assert_eq!(OpenedDir::read(&private), Some(opened));
        }
        let root_dir = OpenedDir::new(&RelPath::root(), &dir.stat_self().unwrap());
        root_dir.write(&private, true).unwrap();
        assert_eq!(OpenedDir::read(&private), Some(root_dir));
        OpenedDir::forget(&private).unwrap();
        OpenedDir::forget(&private).unwrap();
        assert_eq!(OpenedDir::read(&private), None);
    }

    #[test]
    fn what_leads_elsewhere_is_not_read() {
        let (_root, _, private) = scratch();
        let path = private.path().join(OpenedDir::FILE);
        for (name, is_read) in [("612f62", true), ("2e2e2f61", false), ("6", false), ("g1", false)]
        {
            std::fs::write(&path, "").unwrap();
            let mark = private.mark().of_file(&File::open(&path).unwrap());
            let head = format!("{} {}", OpenedDir::HEAD, mark.text());
            let json = format!(r#"{{"path":"{name}","mode":365,"mtime":{{"secs":1,"nanos":2}}}}"#);
            std::fs::write(&path, format!("{head}\n{json}\n")).unwrap();
            assert_eq!(OpenedDir::read(&private).is_some(), is_read, "{name}");
        }
    }
}

#[cfg(test)]
mod departing_tests {
    use super::*;
    use crate::state::private_dir::scratch;

    #[test]
    fn what_was_noted_is_covered() {
        let (_root, _, private) = scratch();
        assert!(Departing::read(&private).piece_over(b"a").is_none());
        let paths =
            ["a/b", "c\nd", "# end 1 2 3"].map(|path| RelPath::parse(path.as_bytes()).unwrap());
        let pieces = paths.into_iter().map(|path| DepartingPiece { path, trace: "7".into() });
        Departing::write(&private, pieces).unwrap();
        let departing = Departing::read(&private);
        for (path, covered) in [
            ("a/b", true),
            ("a/b/c", true),
            ("a", false),
            ("a/bc", false),
            ("c\nd", true),
            ("# end 1 2 3", true),
        ] {
            assert_eq!(departing.piece_over(path.as_bytes()).is_some(), covered, "{path}");
        }
        // One that is torn, and that of a version before, whose paths had no sum.
        let path = private.path().join(DEPARTING_FILE);
        let whole = std::fs::read(&path).unwrap();
        let head = &whole[..memchr::memchr(0, &whole).unwrap() + 1];
        for text in [&whole[..whole.len() - 1], &[head, b"a/b\0"].concat()] {
            let mut file = File::options().write(true).truncate(true).open(&path).unwrap();
            std::io::Write::write_all(&mut file, text).unwrap();
            assert!(Departing::read(&private).piece_over(b"a/b").is_none());
        }
        Departing::forget(&private).unwrap();
        Departing::forget(&private).unwrap();
        assert!(Departing::read(&private).piece_over(b"a/b").is_none());
    }
}

#[cfg(test)]
mod reference_time_tests {
    use super::*;
    use crate::state::private_dir::scratch;

    #[test]
    fn a_zone_is_known_again() {
        let (_root, _, private) = scratch();
        for makes in [false, true, true] {
            assert_eq!(moved(private.dir(), makes).unwrap(), MovedTimes::default());
        }
        // As another machine shows it, an hour later.
        let first = File::options().write(true).open(private.path().join("time.0")).unwrap();
        let later = UNIX_EPOCH + Duration::from_secs(REFERENCE.secs.unsigned_abs() + 3600);
        first.set_modified(later).unwrap();
        for is_new in [true, false] {
            assert_eq!(moved(private.dir(), true).unwrap(), MovedTimes { by: vec![3600], is_new });
        }
        assert!(private.path().join("time.1").exists() && !private.path().join("time.2").exists());
        first.set_modified(later + Duration::from_secs(7)).unwrap();
        assert!(moved(private.dir(), true).unwrap().by.is_empty(), "not a quarter of an hour");
    }
}

#[cfg(test)]
mod other_outputs_tests {
    use super::*;
    use crate::state::private_dir::scratch;

    #[test]
    fn it_is_read_as_it_was_written() {
        let (root, _dir, private) = scratch();
        let mut others = OtherOutputs::default();
        others.update(&private, true).unwrap();
        assert_eq!(OtherOutputs::read(&private), None);
        for (path, top) in
            [("/mnt/a b\n/out", &*root.path().join("gone")), ("/other", Path::new("/"))]
        {
            others.0.insert(key(Path::new(path)).unwrap(), in_hex(top));
        }
        others.update(&private, true).unwrap();
        let read = OtherOutputs::read(&private).unwrap();
        assert_eq!(read, others);
        assert_eq!(read.missing(Path::new("/mnt/a b\n/out")), Some(root.path().join("gone")));
        assert_eq!(read.missing(Path::new("/elsewhere")), None);
        let kept = OtherOutputs::default().and_of(&read, &[Path::new("/other")]);
        assert_eq!(kept.0.len(), 1);
        assert!(kept.missing(Path::new("/mnt/a b\n/out")).is_some());
    }
}

#[cfg(test)]
mod new_root_tests {
    use super::*;
    use crate::state::private_dir::scratch;

    #[test]
    fn it_is_of_one_output_and_is_forgotten() {
        let ((_root, _, private), (_other_root, _, other)) = (scratch(), scratch());
        assert_eq!(NewRoot::read(&private), None);
        NewRoot.write(&private, false).unwrap();
        assert!(NewRoot::read(&private).is_some());
        std::fs::copy(private.path().join(NewRoot::FILE), other.path().join(NewRoot::FILE))
            .unwrap();
        assert_eq!(NewRoot::read(&other), None);
        NewRoot::forget(&private).unwrap();
        NewRoot::forget(&private).unwrap();
        assert_eq!(NewRoot::read(&private), None);
    }
}
