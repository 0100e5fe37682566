//! The private record as a file: what is appended to it, what closes it, and how it is read again.

use std::{
    collections::BTreeSet, ffi::OsStr, ffi::OsString, fs::File, io, io::Read, io::Seek,
    io::SeekFrom, thread, thread::Builder, thread::Scope, thread::ScopedJoinHandle,
};

use crossbeam_channel::{Receiver, Sender, bounded};

use crate::state::closing::{Body, Closed, FINISHED, HEAD, later_line, name_line, sum_line};
use crate::state::row::strip;
use crate::{
    error::Deed, error::Error, error::Result, hash::Algorithm, hash::Digest, hash::Hasher,
    hash::Sha256, manifest::Index, manifest::IndexBuilder, manifest::ManifestName,
    manifest::Scanner, manifest::Text, path::RelPath, state::FinishedManifest, state::Mark,
    state::PrivateDir, state::Remembered, state::Row, state::row, sys, sys::Dir, sys::DirListing,
    sys::FileRange,
};

// The private record as a file: rows appended while a run goes on, closed by sums.
//
// ```text
// dircopy record 1 MARK
// s=- 3f2 2dc6c0 5e0be100.0 6abcd123.5f5e100 DIGEST  path
// = 1 SUM
// . DIGEST dircopy-20261121T020000Z.sha256sum
// = 1 SUM
// , DIGEST dircopy-20261122T020000Z.sha256sum
// = 1 SUM
// ```
//
// The first line says which output it is of, and when this file was made. Then come [rows](Row) and sums: a sum line
// has the number of rows before it, and the SHA-256 of everything before it in the file. Only what a good sum closes
// counts; so a torn end, a hole after a power cut or a flipped bit costs a reading and never a wrong answer. A
// record that is finished ends with the name of the manifest that was written with it and the SHA-256 of that, and a
// sum. Behind it may stand the manifest of a later run of this user, which left no rows here: the end of a plan, or a
// run that keeps its records elsewhere. Checks go by it; to a run it is in the open, and raises doubt. Earlier
// versions end the record before that line.

/// The name of the first of those.
pub const FIRST: &str = "record.1";

/// Where it is moved to while it is open and another takes its place.
const ASIDE: &str = "record.aside";

/// A record being written.
pub struct RecordFile {
    file: File,
    name: OsString,
    hasher: Hasher,
    rows: u64,
    /// True if a write failed, perhaps in the middle of a line.
    torn: bool,
}

impl RecordFile {
    /// Begins a record, number `number` of those on their way.
    pub fn create(private: &PrivateDir, number: u64) -> io::Result<Self> {
        let name = OsString::from(format!("{FINISHED}.{number}"));
        let begun = Self::onto(private.dir().create_new(&name, true)?, private, name.clone());
        // Without its head it is no record, and in the way of another one.
        begun.inspect_err(|_| drop(private.dir().remove(&name)))
    }

    fn onto(file: File, private: &PrivateDir, name: OsString) -> io::Result<Self> {
        let hasher = Algorithm::Sha256.start();
        let head = format!("{HEAD} {}\n", private.mark().of_file(&file).text());
        let mut record = Self { file, name, hasher, rows: 0, torn: false };
        record.put(head.as_bytes())?;
        Ok(record)
    }

    /// Appends so many rows, which are whole lines, and their sum.
    pub fn append(&mut self, rows: &[u8], number: u64) -> io::Result<()> {
        if number == 0 {
            return Ok(());
        }
        self.rows += number;
        self.put(rows)?;
        self.close()
    }

    /// Waits until all of it is on the device.
    pub fn persist(&self) -> io::Result<()> {
        sys::persist_file(&self.file)
    }

    /// What it says is in the finished one.
    pub fn withdraw(self, private: &PrivateDir) -> io::Result<()> {
        private.dir().remove(&self.name)
    }

    /// It is complete, and so is this manifest. From when that has its name this record counts for the newest, also
    /// while it is on its way.
    pub fn seal(&mut self, manifest: &FinishedManifest, durable: bool) -> io::Result<()> {
        self.end(&name_line(manifest), durable)
    }

    /// Appends the last line, and its sum.
    fn end(&mut self, line: &str, durable: bool) -> io::Result<()> {
        self.put(line.as_bytes())?;
        self.close()?;
        if durable { self.persist() } else { Ok(()) }
    }

    /// It is sealed: it takes the place of the one before.
    pub fn publish(self, private: &PrivateDir, durable: bool) -> io::Result<()> {
        match private.dir().publish(&self.name, FINISHED.as_ref(), true) {
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                self.finish_beside_open(private.dir())?;
            }
            published => published?,
        }
        if durable { private.dir().persist() } else { Ok(()) }
    }

    /// The record before is still being read by this run, and systems without POSIX renames (Windows before
    /// version 1709, Wine) replace no file that is open: it is moved aside. Between the two renames there is
    /// no finished record, which costs a reading.
    fn finish_beside_open(&self, private: &Dir) -> io::Result<()> {
        private.publish(FINISHED.as_ref(), ASIDE.as_ref(), true)?;
        private.publish(&self.name, FINISHED.as_ref(), false)?;
        // Where an open file cannot be removed either, the next run replaces it.
        let _ = private.remove(ASIDE.as_ref());
        Ok(())
    }

    fn close(&mut self) -> io::Result<()> {
        let sum = sum_line(&self.hasher, self.rows);
        self.put(sum.as_bytes())
    }

    fn put(&mut self, bytes: &[u8]) -> io::Result<()> {
        if self.torn {
            return Err(io::ErrorKind::InvalidData.into());
        }
        self.hasher.update(bytes);
        let written = sys::write_all(&self.file, bytes);
        self.torn = written.is_err();
        written
    }
}

/// Number of bytes of rows that wait for their sum.
const ROWS: usize = 1 << 20;

/// A record that is written row by row.
pub struct RowWriter {
    record: RecordFile,
    rows: Vec<u8>,
    number: u64,
}

impl RowWriter {
    /// Begins a record, number `number` of those on their way.
    pub fn create(private: &PrivateDir, number: u64) -> io::Result<Self> {
        Ok(Self::into(RecordFile::create(private, number)?))
    }

    fn into(record: RecordFile) -> Self {
        Self { record, rows: Vec::new(), number: 0 }
    }

    /// Adds the row of the file at `path`.
    pub fn add(&mut self, row: &Row, further: &[Digest], path: &RelPath) -> io::Result<()> {
        row.write(&mut self.rows, further, path.as_bytes());
        self.number += 1;
        if self.rows.len() < ROWS {
            return Ok(());
        }
        self.close()
    }

    /// Writes what waits.
    pub fn close(&mut self) -> io::Result<()> {
        let number = std::mem::take(&mut self.number);
        self.record.append(&std::mem::take(&mut self.rows), number)
    }
}

// What is known of the files that a mirror is about to move: `leaving` in the private directory, until they are gone or
// a run has recorded what became of them. The record of the mirror's run has no more of them.

const LEAVING: &str = "leaving";

/// A file that a mirror was about to move, and what is known of it.
pub struct LeavingFile {
    pub path: RelPath,
    pub remembered: Remembered,
    pub further: Vec<Digest>,
}

/// Keeps what `fill` adds in place of what was kept.
///
/// # Errors
/// It cannot be written, and what was kept stays.
pub fn keep_leaving(
    private: &PrivateDir,
    durable: bool,
    fill: impl FnOnce(&mut RowWriter) -> io::Result<()>,
) -> io::Result<()> {
    private.write(LEAVING.as_ref(), durable, |file| {
        let record = RecordFile::onto(file.try_clone()?, private, LEAVING.into())?;
        let mut rows = RowWriter::into(record);
        fill(&mut rows)?;
        rows.close()
    })
}

/// Hands what is kept to `see`.
///
/// # Errors
/// It cannot be read, or `see` failed.
pub fn each_leaving(
    private: &PrivateDir,
    is_to_stop: &dyn Fn() -> bool,
    mut see: impl FnMut(LeavingFile) -> Result<()>,
) -> Result<()> {
    let fail = |error| Error::io("read the private record in", private.path(), error);
    let opened = private.dir().open_private_to_read(LEAVING.as_ref()).map_err(fail)?;
    let Some((file, _)) = opened else { return Ok(()) };
    let LoadedRecord { index, .. } = load(file, private.mark(), is_to_stop).map_err(fail)?;
    let mut rows = index.unvisited(is_to_stop);
    while let Some((path, digest, offset)) = rows.step().map_err(fail)? {
        let row = index.line_at(offset, |line| Row::read(line, digest)).map_err(fail)?.flatten();
        let further = index.line_at(offset, row::further).map_err(fail)?.unwrap_or_default();
        let by_list = || Remembered::in_the_open(digest);
        let remembered = row.map_or_else(by_list, |row| Remembered::by_record(row, None));
        see(LeavingFile { path, remembered, further })?;
    }
    Ok(())
}

/// All of them are gone, or what became of them is recorded.
///
/// # Errors
/// It cannot be removed.
pub fn forget_leaving(private: &PrivateDir) -> io::Result<()> {
    private.forget(LEAVING)
}

/// A record that was read.
#[derive(Debug)]
pub struct LoadedRecord {
    /// The part of it that counts.
    pub closed: Closed,
    /// The rows of that.
    pub index: Index,
    /// The part before the name of the manifest.
    pub body: Option<Body>,
    /// The inodes of the rows that are in doubt.
    pub doubted: Vec<u64>,
}

/// Reads a record up to the last good sum, and indexes its rows. It ends early once `is_to_stop` says so.
///
/// # Errors
/// Fails if the file cannot be read; with [`OutOfMemory`](io::ErrorKind::OutOfMemory) where there is not enough for the
/// rows.
pub fn load(file: File, mark: &Mark, is_to_stop: &dyn Fn() -> bool) -> io::Result<LoadedRecord> {
    let most = usize::try_from(file.metadata()?.len() / row::SHORTEST).unwrap_or(usize::MAX);
    let mut index = IndexBuilder::with_room(most)?;
    let mut doubted = Vec::new();
    let add = |row: &[u8], at| {
        doubted.extend(row::doubted(row));
        strip(row).is_some_and(|line| index.add_line(line, at))
    };
    let (closed, body, _) = read(&file, mark, is_to_stop, add)?;
    index.truncate(usize::try_from(closed.rows).unwrap_or(usize::MAX));
    let index = Index::of(index, file, closed.len, strip, row::SHORTEST);
    Ok(LoadedRecord { closed, index, body, doubted })
}

/// The part of a record that is closed by a good sum. It ends early once `is_to_stop` says so.
///
/// # Errors
/// Fails if the file cannot be read.
pub fn measure(file: &File, mark: &Mark, is_to_stop: &dyn Fn() -> bool) -> io::Result<Closed> {
    read(file, mark, is_to_stop, is_row).map(|(closed, ..)| closed)
}

/// The same, and hands out the rows.
///
/// # Errors
/// Fails if the file cannot be read.
pub fn each_row(file: &File, mark: &Mark, mut see: impl FnMut(&[u8])) -> io::Result<Closed> {
    let see = |row: &[u8], _| {
        see(row);
        strip(row).is_some()
    };
    read(file, mark, &|| false, see).map(|(closed, ..)| closed)
}

/// A run of this user finished `manifest`, and leaves no rows in the private directory: says so behind what is recorded
/// there, or in a record without rows.
///
/// # Errors
/// It cannot be written.
pub fn name_later(
    private: &PrivateDir,
    manifest: &FinishedManifest,
    durable: bool,
) -> io::Result<()> {
    if append_later(private.dir(), private.mark(), manifest, durable)? {
        return Ok(());
    }
    let number = numbers(private.dir())?.last().map_or(1, |last| last.saturating_add(1));
    let mut record = RecordFile::create(private, number)?;
    record.end(&later_line(manifest), durable)?;
    record.publish(private, durable)
}

/// Says the same in the private directory of the output, where `private` is elsewhere: a check that is not told of that
/// one goes by the record at the output, if there is any.
///
/// # Errors
/// It cannot be read or written.
pub fn tell_output(
    private: &PrivateDir,
    manifest: &FinishedManifest,
    durable: bool,
) -> io::Result<()> {
    let Some(at_output) = private.at_output() else { return Ok(()) };
    append_later(at_output, private.mark(), manifest, durable).map(drop)
}

/// Appends it to the record of a directory that may have none; whether it has one.
fn append_later(
    private: &Dir,
    mark: &Mark,
    manifest: &FinishedManifest,
    durable: bool,
) -> io::Result<bool> {
    let Some((mut file, _)) = private.open_private_to_write(FINISHED.as_ref())? else {
        return Ok(false);
    };
    let (closed, _, mut hasher) = read(&file, mark, &|| false, is_row)?;
    if closed.len == 0 {
        return Ok(false);
    }
    let mut end = later_line(manifest);
    hasher.update(end.as_bytes());
    end += &sum_line(&hasher, closed.rows);
    file.seek(SeekFrom::Start(closed.len))?;
    sys::write_all(&file, end.as_bytes())?;
    file.set_len(closed.len + end.len() as u64)?;
    if durable {
        sys::persist_file(&file)?;
    }
    Ok(true)
}

/// The newest manifest of the directory `root` whose run was stopped when that had its name, and the record, which was
/// sealed for it, had not.
///
/// # Errors
/// The private directory cannot be read.
pub fn newest_sealed(
    private: &PrivateDir,
    root: &Dir,
) -> io::Result<Option<(ManifestName, Sha256)>> {
    let mut newest: Option<(ManifestName, Sha256)> = None;
    for number in numbers(private.dir())? {
        let name = format!("{FINISHED}.{number}");
        let Some(file) = private.dir().open_file(name.as_ref(), false).if_there()? else {
            continue;
        };
        let closed = measure(&file, private.mark(), &|| false)?;
        let Some(with) = closed.manifest.filter(|with| closed.fits && with.is_in(root)) else {
            continue;
        };
        let is_newest = |name: &ManifestName| newest.is_none_or(|(other, _)| *name > other);
        let name = ManifestName::parse(with.name.as_ref()).filter(ManifestName::is_finished);
        newest = name.filter(is_newest).map(|name| (name, with.digest)).or(newest);
    }
    Ok(newest)
}

/// The numbers of the records on their way.
///
/// # Errors
/// The directory cannot be read.
pub fn numbers(private: &Dir) -> io::Result<BTreeSet<u64>> {
    let number = |name: &OsStr| {
        let number = name.to_str()?.strip_prefix(FINISHED)?.strip_prefix('.')?;
        number.parse::<u64>().ok().filter(|parsed| parsed.to_string() == number)
    };
    let entries = DirListing::of(private)?;
    entries.filter_map(|entry| entry.map(|it| number(&it.name)).transpose()).collect()
}

/// True if a line is a row as far as it is looked at, wherever it starts.
fn is_row(line: &[u8], _: u64) -> bool {
    strip(line).is_some()
}

/// Reads a record up to the last good sum, or the first row that `see` will not have; it is given the row, and where
/// that starts. Rows behind the last good sum may be among them.
fn read(
    file: &File,
    mark: &Mark,
    is_to_stop: &dyn Fn() -> bool,
    mut see: impl FnMut(&[u8], u64) -> bool,
) -> io::Result<(Closed, Option<Body>, Hasher)> {
    let (mark, len) = (&mark.of_file(file), file.metadata()?.len());
    thread::scope(|scope| {
        let mut sums = Sums::start(scope, file, len);
        let mut open = Closed::default();
        let mut scanner = Scanner::new(FileRange::new(file, 0, len));
        while let Some(line) = scanner.next_line()? {
            let (Text::Whole(text), true) = (line.text, line.ended) else { break };
            if line.number > 1 && text.first() == Some(&b'=') {
                open.len = line.offset + text.len() as u64 + 1;
                let sum = ClosingSum { at: line.offset, line: text.to_vec(), closed: open.clone() };
                if !sums.go_on(sum)? || is_to_stop() {
                    break;
                }
            } else if !open.take(line.number, text, mark, |row| see(row, line.offset)) {
                break;
            }
        }
        sums.end()
    })
}

// The sums of a record, checked by a thread beside the one that reads its rows.
//
// SHA-256 of the rows takes longer than to index them, and nothing else of a run can begin before both are done:
// 200,000 rows took 60 ms in one thread.

/// A record of fewer bytes is checked by the thread that reads it: starting another takes as long.
const BESIDE: u64 = 1 << 18;

/// So many sums wait at most; a run closes its rows about once a group.
const WAITING: usize = 64;

/// So much is read and hashed at a time, in bytes.
const PIECE: usize = 128 << 10;

/// A line that closes rows.
pub struct ClosingSum {
    /// Where it starts, in bytes.
    pub at: u64,
    pub line: Vec<u8>,
    /// The part that it closes, if it is right.
    pub closed: Closed,
}

/// Where sums are checked.
pub enum Sums<'scope> {
    Here(Box<SumCheck<'scope>>),
    Beside(Sender<ClosingSum>, ScopedJoinHandle<'scope, io::Result<SumCheck<'scope>>>),
}

impl<'scope> Sums<'scope> {
    /// Those of `file`, which has `len` bytes.
    pub fn start(scope: &'scope Scope<'scope, '_>, file: &'scope File, len: u64) -> Self {
        let (to_check, sums) = bounded(WAITING);
        let check = move || SumCheck::new(file).check_all(&sums);
        let start = || Builder::new().name("sums".into()).spawn_scoped(scope, check);
        let thread = (len >= BESIDE).then(start).and_then(Result::ok);
        thread.map_or_else(
            || Self::Here(Box::new(SumCheck::new(file))),
            |it| Self::Beside(to_check, it),
        )
    }

    /// Takes the next sum; false if one was wrong, and nothing behind it counts.
    ///
    /// # Errors
    /// Fails if the file cannot be read.
    pub fn go_on(&mut self, sum: ClosingSum) -> io::Result<bool> {
        match self {
            Self::Here(check) => check.check(sum),
            Self::Beside(to_check, _) => Ok(to_check.send(sum).is_ok()),
        }
    }

    /// The part that the last good sum closes, with all rows where it stands before the name of a manifest, and with
    /// the hasher that took everything closed.
    ///
    /// # Errors
    /// Fails if the file cannot be read.
    pub fn end(self) -> io::Result<(Closed, Option<Body>, Hasher)> {
        let check = match self {
            Self::Here(check) => *check,
            Self::Beside(to_check, thread) => {
                drop(to_check);
                let died = |_| io::Error::other("the thread that checks its sums died");
                thread.join().map_err(died)??
            }
        };
        Ok((check.good, check.body, check.end))
    }
}

/// The state of a check.
pub struct SumCheck<'a> {
    /// The part that is hashed next.
    rest: FileRange<'a>,
    hasher: Hasher,
    room: Vec<u8>,
    good: Closed,
    body: Option<Body>,
    /// The hasher that has taken everything closed.
    end: Hasher,
}

impl<'a> SumCheck<'a> {
    fn new(file: &'a File) -> Self {
        let (rest, hasher) = (FileRange::new(file, 0, 0), Algorithm::Sha256.start());
        let (good, end) = (Closed::default(), hasher.clone());
        Self { rest, hasher, room: Vec::new(), good, body: None, end }
    }

    fn check_all(mut self, sums: &Receiver<ClosingSum>) -> io::Result<Self> {
        for sum in sums {
            if !self.check(sum)? {
                break;
            }
        }
        Ok(self)
    }

    /// True if a sum is right, and the end of what was read.
    fn check(&mut self, sum: ClosingSum) -> io::Result<bool> {
        let ClosingSum { at, line, closed } = sum;
        let is_good = self.hash_to(at)?
            && sum_line(&self.hasher, closed.rows).as_bytes().strip_suffix(b"\n") == Some(&line)
            && self.hash_to(closed.len)?;
        if is_good {
            if closed.names_none() {
                let (len, rows, hasher) = (closed.len, closed.rows, self.hasher.clone());
                self.body = Some(Body { len, rows, hasher });
            }
            (self.good, self.end) = (closed, self.hasher.clone());
        }
        Ok(is_good)
    }

    /// Hashes up to there; false if the file ends before.
    fn hash_to(&mut self, end: u64) -> io::Result<bool> {
        self.room.resize(PIECE, 0);
        self.rest.extend_to(end);
        while self.rest.left() > 0 {
            let read = self.rest.read(&mut self.room)?;
            if read == 0 {
                return Ok(false);
            }
            self.hasher.update(&self.room[..read]);
        }
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::Missing;
    use crate::sys::Dir;
    use crate::sys::stat::Time;
    use crate::{hash::Digest, hash::Sha256};
    use crate::{state::Origin, state::Row, state::SeenAt, state::Trace};
    use proptest::prelude::*;
    use std::io::Write;
    use std::path::Path;

    fn private(root: &Path) -> PrivateDir {
        PrivateDir::open(&Dir::open(root).unwrap(), root, None, Missing::Make).unwrap().unwrap()
    }

    fn row(path: &str) -> Vec<u8> {
        let time = Time { secs: -5, nanos: 7 };
        let trace = Trace { ino: 3, size: 4, mtime: time, ctime: time };
        let digest = Digest::sha256([7; 32]);
        let row = Row {
            digest,
            origin: Origin::Source,
            trace,
            given: None,
            sure: true,
            late: false,
            labelled: true,
            seen: SeenAt::default(),
            epoch: 0,
        };
        let mut line = Vec::new();
        row.write(&mut line, &[], path.as_bytes());
        line
    }

    /// The bytes of a finished record of two groups, and of the private directory it is of.
    fn record(root: &Path) -> (PrivateDir, Vec<u8>) {
        let private = private(root);
        let mut record = RecordFile::create(&private, 1).unwrap();
        record.append(&[row("a"), row("b\n")].concat(), 2).unwrap();
        record.append(&row("c"), 1).unwrap();
        record.seal(&manifest("dircopy-x.sha256sum"), false).unwrap();
        record.publish(&private, false).unwrap();
        let bytes = std::fs::read(private.path().join(FINISHED)).unwrap();
        (private, bytes)
    }

    fn manifest(name: &str) -> FinishedManifest {
        FinishedManifest { name: name.to_owned(), digest: Sha256([9; 32]) }
    }

    /// The part of these bytes that counts when they are written into the place of the record.
    fn measured(bytes: &[u8], private: &PrivateDir) -> Closed {
        let path = private.path().join(FINISHED);
        let mut file =
            File::options().read(true).write(true).create(true).truncate(true).open(path).unwrap();
        file.write_all(bytes).unwrap();
        load(file, private.mark(), &|| false).unwrap().closed
    }

    #[test]
    fn a_whole_record_counts_whole() {
        let root = tempfile::tempdir().unwrap();
        let (own, bytes) = record(root.path());
        let manifest = Some(manifest("dircopy-x.sha256sum"));
        let whole = Closed { len: bytes.len() as u64, rows: 3, fits: true, manifest, later: None };
        assert_eq!(measured(&bytes, &own), whole);
        let other = tempfile::tempdir().unwrap();
        let fits = measured(&bytes, &private(other.path())).fits;
        assert!(!fits, "it is of another output");
    }

    fn load_from(private: &PrivateDir) -> LoadedRecord {
        let (file, _) = private.dir().open_private(FINISHED.as_ref()).unwrap().unwrap();
        load(file, private.mark(), &|| false).unwrap()
    }

    #[test]
    fn the_manifest_is_named_anew_behind_the_same_rows() {
        let root = tempfile::tempdir().unwrap();
        let (own, before) = record(root.path());
        for name in ["dircopy-much-longer.sha256sum", "dircopy-y.sha256sum"] {
            let LoadedRecord { body, .. } = load_from(&own);
            body.unwrap().name_manifest(&own, &manifest(name), true).unwrap();
            let LoadedRecord { closed, index, .. } = load_from(&own);
            let len = own.path().join(FINISHED).metadata().unwrap().len();
            let manifest = Some(manifest(name));
            assert_eq!(closed, Closed { len, rows: 3, fits: true, manifest, later: None });
            assert_eq!(index.lookup(b"c").unwrap(), Some(Digest::sha256([7; 32])));
        }
        let after = std::fs::read(own.path().join(FINISHED)).unwrap();
        let rows = |bytes: &[u8]| bytes.split(|&byte| byte == b'.').next().unwrap().to_vec();
        assert_eq!(rows(&before), rows(&after));
    }

    #[test]
    fn a_later_manifest_is_named_behind_what_is_recorded() {
        let root = tempfile::tempdir().unwrap();
        let (own, _) = record(root.path());
        for later in ["dircopy-y.sha256sum", "dircopy-z.sha256sum"] {
            name_later(&own, &manifest(later), true).unwrap();
            let LoadedRecord { closed, body, .. } = load_from(&own);
            assert_eq!((closed.rows, closed.newest()), (3, Some(&manifest(later))));
            assert_eq!(closed.manifest, Some(manifest("dircopy-x.sha256sum")));
            assert_eq!(FinishedManifest::last_named(&own), Some(manifest(later)));
            assert!(body.is_some(), "the next run goes on with the rows");
        }
        let LoadedRecord { body, .. } = load_from(&own);
        body.unwrap().name_manifest(&own, &manifest("dircopy-n.sha256sum"), true).unwrap();
        assert_eq!(load_from(&own).closed.later, None);
        // Without a record there is one with no rows; what is torn is begun anew.
        for text in [None, Some("torn")] {
            let other = tempfile::tempdir().unwrap();
            let own = private(other.path());
            text.iter().for_each(|text| std::fs::write(own.path().join(FINISHED), text).unwrap());
            name_later(&own, &manifest("dircopy-y.sha256sum"), true).unwrap();
            let LoadedRecord { closed, body, .. } = load_from(&own);
            assert_eq!((closed.rows, closed.fits, closed.manifest.as_ref()), (0, true, None));
            assert_eq!(closed.newest(), Some(&manifest("dircopy-y.sha256sum")));
            assert!(body.is_none());
        }
    }

    proptest! {
        /// Rows that are torn off or turned count for nothing, with everything behind them.
        #[test]
        fn only_what_a_good_sum_closes_counts(at in any::<proptest::sample::Index>(), tear: bool) {
            let root = tempfile::tempdir().unwrap();
            let (own, whole) = record(root.path());
            let at = at.index(whole.len());
            let mut bytes = whole.clone();
            if tear { bytes.truncate(at) } else { bytes[at] ^= 1 }
            let closed = measured(&bytes, &own);
            prop_assert!(closed.len <= at as u64);
            prop_assert!([0, 2, 3].contains(&closed.rows));
            prop_assert!(closed.len == 0 || whole[..closed.len as usize].ends_with(b"\n"));
        }

        #[test]
        fn whatever_stands_there_is_measured_without_harm(bytes in any::<Vec<u8>>()) {
            let root = tempfile::tempdir().unwrap();
            prop_assert_eq!(measured(&bytes, &private(root.path())).rows, 0);
        }
    }
}
