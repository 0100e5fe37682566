//! A check in passes: which files come first, when that is enough, and what was verified when.

use std::{
    collections::BTreeSet, ffi::OsStr, ffi::OsString, fmt::Write as _, fs::File, io, io::BufWriter,
    io::Write, path::PathBuf, sync::Mutex, sync::MutexGuard, sync::PoisonError,
    sync::atomic::AtomicU64, sync::atomic::Ordering::Relaxed, time::Duration, time::Instant,
    time::SystemTime,
};

use crate::{
    error::Deed, error::Error, error::Result, hash::Digest, hash::HashTable, hash::Sha256,
    manifest::Scanner, manifest::Text, path::RelPath, state::Mark, state::Missing,
    state::PrivateDir, sys::Uninterrupted, verify::Finding, verify::ReadFrom, verify::Target,
    verify::Verdict, verify::budget::Allowance, verify::budget::Budget, verify::doubts::AT_WORK,
};

// Checking a tree a part at a time: each scrub reads the files that were not verified for the longest
// time, until its budget is spent.
//
// Files that were bad come first, then those that were never looked at, then the others by the time of
// the run that verified them. There is one pass over the manifest for each of these. A bad file is among
// the first of the next scrub until it is repaired.

/// Time between two writings of the record: a kill can lose this much.
const SAVE: Duration = Duration::from_secs(60);

/// A scrub on its way; all threads of the check share it.
#[derive(Debug)]
pub struct Scrub {
    allowance: Mutex<Allowance>,
    skipped: AtomicU64,
    /// Where private directories are kept, if not in the checked directory.
    elsewhere: Option<PathBuf>,
    from: ReadFrom,
    /// Files that were found good at this time or later, and were not made since, are left out.
    not_since: Option<u32>,
    record: Mutex<ScrubRecord>,
}

/// The record of what was verified, and the place where it is kept.
#[derive(Debug, Default)]
struct ScrubRecord {
    verified: Verified,
    /// Not before the manifest was read.
    place: Option<(PrivateDir, OsString)>,
    saved: Option<Instant>,
    /// True if it could not be written.
    is_lost: bool,
}

impl Scrub {
    /// A scrub that begins now, of what comes `from` there; its record is kept below `elsewhere`, if that is given.
    pub fn new(budget: Budget, from: ReadFrom, elsewhere: Option<PathBuf>) -> Self {
        Self {
            allowance: Mutex::new(Allowance::new(budget)),
            skipped: AtomicU64::new(0),
            elsewhere,
            from,
            not_since: budget.not_since,
            record: Mutex::default(),
        }
    }

    /// From now on the lines of this pass are given out; all those before are begun, or skipped.
    pub fn begin(&self, pass: Pass) {
        match pass {
            Pass::Bad => self.allowance().begin_bad(),
            Pass::New | Pass::Good(_) => self.allowance().begin_others(),
        }
    }

    fn allowance(&self) -> MutexGuard<'_, Allowance> {
        // Nothing in there can panic half-way.
        self.allowance.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn record(&self) -> MutexGuard<'_, ScrubRecord> {
        // Nothing in there can panic half-way.
        self.record.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// True if no more files are to be begun.
    pub fn is_over(&self) -> bool {
        self.allowance().is_spent()
    }

    /// True if a worker that is free may begin a file.
    pub fn may_begin(&self) -> bool {
        self.allowance().may_begin()
    }

    /// True if a file of so many bytes may be begun. If not, none may from now on.
    pub fn takes(&self, size: u64) -> bool {
        self.allowance().takes(size)
    }

    /// When a file that is begun now is given up, if it is not read by then.
    pub fn gives_up_at(&self) -> Option<Instant> {
        self.allowance().gives_up_at()
    }

    /// A line that was given out is skipped: another scrub reads its file.
    pub fn skip(&self) {
        self.skipped.fetch_add(1, Relaxed);
    }

    /// Number of lines skipped.
    pub fn skipped(&self) -> u64 {
        self.skipped.load(Relaxed)
    }

    /// Reads what was verified of the lines that were listed, and writes it back, so that a directory that
    /// cannot be written to is known before anything is read. A record that is of no use is returned as an
    /// error inside, and is as good as none.
    ///
    /// # Errors
    /// The record cannot be written.
    pub fn recall(&self, target: &Target) -> Result<Option<Error>> {
        let name = record_name(target, self.from);
        let (root, elsewhere) = (target.handle()?, self.elsewhere.as_deref());
        let private = PrivateDir::need(root, &target.root, elsewhere, Missing::MakeForRecords)?;
        let none = || Error::finding("make the private directory in", &target.root, "it is gone");
        let private = private.ok_or_else(none)?;
        let path = private.path().join(&name);
        let mut useless = None;
        {
            let mut record = self.record();
            let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
            record.verified.begin(u32::try_from(now.as_secs()).unwrap_or(0).max(1));
            match private.dir().open_file(&name, false) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                opened => {
                    let mark = private.mark();
                    if let Err(error) = opened.and_then(|file| record.verified.recall(file, mark)) {
                        let error = Error::io("read what was verified from", &path, error);
                        useless = Some(error.with_note("; all of it counts as never verified"));
                    }
                }
            }
            record.place = Some((private, name));
        }
        // Nothing is read then, and nothing more is to be written.
        self.save().inspect_err(|_| self.record().place = None)?;
        Ok(useless)
    }

    /// The manifest has this line.
    pub fn list(&self, path: &RelPath, digest: &Digest) {
        self.record().verified.list(path, digest);
    }

    /// The passes over the manifest, in their order.
    pub fn passes(&self) -> BTreeSet<Pass> {
        self.record().verified.passes()
    }

    /// True if the line belongs to the pass, and is to be given out now.
    pub fn give(&self, path: &RelPath, digest: &Digest, pass: Pass) -> bool {
        self.record().verified.give(path, digest, pass)
    }

    /// True if a line that was given out is left out: the file that is there is the one that was found good, and that
    /// was lately.
    pub fn leaves_out(&self, path: &RelPath, digest: &Digest, made: u32) -> bool {
        let is_lately = |time| self.not_since.is_some_and(|since| time >= since);
        self.record().verified.look(path, digest, made, is_lately)
    }

    /// Notes a finding: a good file was verified now, any other was not.
    pub fn note(&self, finding: &Finding) {
        if let Finding::File { path, listed, verdict, .. } = finding {
            let good = matches!(verdict, Verdict::Good(_));
            self.record().verified.note(path, listed, good);
        }
    }

    /// Writes what was verified, if it was not written in the last minute.
    pub fn save_now_and_then(&self) -> Result<()> {
        if self.record().saved.is_some_and(|saved| saved.elapsed() < SAVE) {
            return Ok(());
        }
        self.save()
    }

    /// Writes what was verified; does nothing before the manifest was read.
    ///
    /// # Errors
    /// It cannot be written; the earlier record still stands.
    pub fn save(&self) -> Result<()> {
        let mut record = self.record();
        let ScrubRecord { verified, place: Some((private, name)), saved, is_lost } = &mut *record
        else {
            return Ok(());
        };
        // Also if it fails: a failure is told once a minute, not for each file.
        *saved = Some(Instant::now());
        let written = private.write(name, true, |file| verified.write(file, private.mark()));
        *is_lost = written.is_err();
        written.deed_at("write what was verified to", || private.path().join(name))
    }

    /// True if what was verified could not be noted.
    pub fn is_lost(&self) -> bool {
        self.record().is_lost
    }

    /// The coverage of the scrub; `None` if the manifest could not be read to its end.
    pub fn coverage(&self) -> Option<Coverage> {
        let record = self.record();
        record.place.as_ref().map(|_| record.verified.coverage(self.not_since))
    }
}

/// The name of the file in the private directory that keeps what was verified. What was read from the cache, because
/// that was asked for, is kept apart: it proves nothing of the disk.
pub fn record_name(target: &Target, from: ReadFrom) -> OsString {
    let name = target.manifest.file_name().filter(|_| target.ours.is_none());
    let mut name = name.map_or_else(|| OsString::from("dircopy"), OsString::from);
    name.push(match from {
        ReadFrom::Medium => ".verified",
        ReadFrom::Cache => ".cached",
    });
    name
}

// The times at which files were verified, kept between runs in the private directory (`docs/manifest.md`, M52). A
// record of another directory is not believed, nor is a time that is still to come.
//
// A line is known by a hash of its name and digest, not by its place in the manifest. So a manifest that
// was replaced or grew takes nothing away: a file that is still listed with its digest is still verified.
// All files of one run get one time, that of its start. A file that is not good loses its time, whichever check finds
// that, and so does one in whose place another file is: that one was written since, and never read.

/// The first line of the file.
const HEAD: &str = "dircopy-verified 3";

/// Number of digits of the hash of a line.
const KEY_DIGITS: usize = 16;

/// Runs of one second are given seconds that are still to come; nothing later is believed. In seconds.
const AHEAD: u32 = 24 * 3600;

/// The coverage of one scrub.
#[derive(Clone, Copy, Debug)]
pub struct Coverage {
    /// Lines that the manifest has, a repeated one counted once.
    pub listed: u64,
    /// Number of these that this run found good.
    pub now: u64,
    /// … and those that were never found good, or were not good when they were looked at last.
    pub never: u64,
    /// When the one was found good that was not for the longest time, in seconds since 1970; `None` if
    /// there are some that never were.
    pub oldest: Option<u64>,
    /// Number of lines that were left out because they were found good since this time, in seconds since 1970.
    pub left_out: Option<(u64, u32)>,
}

/// The files that one pass over the manifest is for, by what earlier runs say of them; in the order of
/// the passes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Pass {
    /// Not good when they were looked at last.
    Bad,
    /// Never looked at.
    New,
    /// Good at that time, in seconds since 1970.
    Good(u32),
}

/// The last checks of a manifest's lines: 24 bytes for each, and the slack of a hash table.
#[derive(Debug, Default)]
pub struct Verified {
    /// The last checks by the hashes of lines.
    lines: HashTable<LastCheck>,
    /// The time of this run.
    now: u32,
    /// True if lines that were not listed are read too.
    takes_all: bool,
}

/// The last check of a line.
#[derive(Clone, Copy, Debug, Default)]
struct LastCheck {
    /// When it was verified, in seconds since 1970; 0 for never, and for one that is bad.
    time: u32,
    /// Which file that was ([`FoundFile::made`](crate::verify::work::FoundFile::made)).
    made: u32,
    /// True if the last look found it bad.
    bad: bool,
    /// True if this run has given it out.
    given: bool,
}

impl LastCheck {
    fn pass(self) -> Pass {
        match self {
            Self { bad: true, .. } => Pass::Bad,
            Self { time: 0, .. } => Pass::New,
            Self { time, .. } => Pass::Good(time),
        }
    }
}

impl Verified {
    /// The manifest has this line.
    pub fn list(&mut self, path: &RelPath, digest: &Digest) {
        self.lines.entry(key(path, digest)).or_default();
    }

    /// The passes that all lines need, in their order.
    pub fn passes(&self) -> BTreeSet<Pass> {
        self.lines.values().map(|line| line.pass()).collect()
    }

    /// True if the line belongs to a pass and was not given out in it yet; it is from now on.
    pub fn give(&mut self, path: &RelPath, digest: &Digest, pass: Pass) -> bool {
        match self.lines.get_mut(&key(path, digest)) {
            Some(line) if line.pass() == pass && !line.given => {
                line.given = true;
                true
            }
            _ => false,
        }
    }

    /// The file that is there is of this sum. One that takes the place of another was never verified. True if the line
    /// need not be given out, because the file was at a time that `is_lately`.
    fn look(
        &mut self,
        path: &RelPath,
        digest: &Digest,
        made: u32,
        is_lately: impl FnOnce(u32) -> bool,
    ) -> bool {
        let Some(line) = self.lines.get_mut(&key(path, digest)) else { return false };
        if line.made != made {
            (line.made, line.time) = (made, 0);
        }
        let is_left_out = line.time > 0 && is_lately(line.time);
        line.given &= !is_left_out;
        is_left_out
    }

    /// A file was checked now.
    pub fn note(&mut self, path: &RelPath, digest: &Digest, good: bool) {
        let time = if good { self.now } else { 0 };
        if let Some(line) = self.lines.get_mut(&key(path, digest)) {
            (line.time, line.bad) = (time, !good);
        }
    }

    /// Reads what earlier runs kept of the lines that were listed. An error leaves nothing of it.
    ///
    /// # Errors
    /// It cannot be read, or is not such a file, or is cut off.
    pub fn recall(&mut self, file: File, mark: &Mark) -> io::Result<()> {
        let newest = self.read(file, mark).inspect_err(|_| {
            self.lines.values_mut().for_each(|line| *line = LastCheck::default());
        })?;
        self.begin(newest.saturating_add(1));
        Ok(())
    }

    /// The time of this run is `seconds` since 1970, unless it is later already: a run is later than those
    /// before it, whatever the clock says.
    pub fn begin(&mut self, seconds: u32) {
        self.now = self.now.max(seconds);
    }

    /// All that checks of the own manifest of an output kept. What cannot be read says nothing.
    pub fn of(private: &PrivateDir) -> Self {
        Self::kept(private, "dircopy.verified".as_ref())
    }

    /// The same of the file of this name.
    fn kept(private: &PrivateDir, name: &OsStr) -> Self {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let now = u32::try_from(now.as_secs()).unwrap_or(0);
        let mut verified = Self { now, takes_all: true, ..Self::default() };
        let file = private.dir().open_file(name, false);
        match file.and_then(|file| verified.read(file, private.mark())) {
            Ok(_) => verified,
            Err(_) => Self::default(),
        }
    }

    /// Takes back, where scrubs note in the file of this name, that lines with these hashes are verified: a check found
    /// them bad. With `may_write` false that is an error where there are such.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn take_back(
        private: &PrivateDir,
        name: &OsStr,
        bad: &[u64],
        may_write: bool,
    ) -> io::Result<()> {
        let (mut verified, mut is_any) = (Self::kept(private, name), false);
        for key in bad {
            if let Some(line) = verified.lines.get_mut(key).filter(|line| line.time > 0) {
                (line.time, line.bad, is_any) = (0, true, true);
            }
        }
        match (is_any, may_write) {
            (false, _) => Ok(()),
            (true, false) => Err(io::Error::other(AT_WORK)),
            (true, true) => private.write(name, true, |file| verified.write(file, private.mark())),
        }
    }

    /// When a line was verified; 0 if it never was, or is bad.
    pub fn time_of(&self, path: &RelPath, digest: &Digest) -> Option<u32> {
        self.lines.get(&key(path, digest)).map(|line| line.time)
    }

    /// Returns the newest time in the file.
    fn read(&mut self, file: File, mark: &Mark) -> io::Result<u32> {
        let head = head(&mark.of_file(&file));
        let wrong = || io::Error::from(io::ErrorKind::InvalidData);
        let (mut scanner, mut number, mut newest) = (Scanner::new(file), 0_u64, 0);
        let latest = self.now.saturating_add(AHEAD);
        while let Some(line) = scanner.next_line()? {
            let (Text::Whole(text), true) = (line.text, line.ended) else { return Err(wrong()) };
            let text = std::str::from_utf8(text).map_err(|_| wrong())?;
            if line.number == 1 {
                if text != head {
                    return Err(wrong());
                }
                continue;
            }
            match text.split_once(' ').ok_or_else(wrong)? {
                ("end", end) if end.parse() == Ok(number) => return Ok(newest),
                (key, time) => {
                    let (key, made) = key.split_at_checked(KEY_DIGITS).ok_or_else(wrong)?;
                    let key = u64::from_str_radix(key, 16).map_err(|_| wrong())?;
                    let made = u32::from_str_radix(made, 16).map_err(|_| wrong())?;
                    let time: u32 = time.parse().map_err(|_| wrong())?;
                    number += 1;
                    if time > latest {
                        continue;
                    }
                    if self.takes_all {
                        self.lines.entry(key).or_default();
                    }
                    if let Some(line) = self.lines.get_mut(&key) {
                        (line.time, line.made, line.bad) = (time, made, time == 0);
                    }
                    newest = newest.max(time);
                }
            }
        }
        // It is cut off.
        Err(wrong())
    }

    /// Writes the file; a million lines are 35 MB.
    pub fn write(&self, file: &mut File, mark: &Mark) -> io::Result<()> {
        let head = head(&mark.of_file(file));
        let mut out = BufWriter::new(Uninterrupted(file));
        let (mut text, mut number) = (String::new(), 0);
        writeln!(out, "{head}")?;
        for (key, line) in self.lines.iter().filter(|(_, line)| line.pass() != Pass::New) {
            text.clear();
            // Writing to a string does not fail.
            let _ = writeln!(text, "{key:016x}{:08x} {}", line.made, line.time);
            out.write_all(text.as_bytes())?;
            number += 1;
        }
        writeln!(out, "end {number}")?;
        out.flush()
    }

    /// The coverage of this run and those before it.
    pub fn coverage(&self, not_since: Option<u32>) -> Coverage {
        let count = |time| self.lines.values().filter(|line| line.time == time).count() as u64;
        let (now, never) = (count(self.now), count(0));
        let oldest = self.lines.values().map(|line| u64::from(line.time)).min();
        let oldest = oldest.filter(|time| *time > 0);
        let left_out = not_since.map(|since| {
            let is_left_out = |line: &&LastCheck| !line.given && line.time >= since;
            (self.lines.values().filter(is_left_out).count() as u64, since)
        });
        Coverage { listed: self.lines.len() as u64, now, never, oldest, left_out }
    }
}

fn head(mark: &Mark) -> String {
    format!("{HEAD} {}", mark.text())
}

/// The hash of a line: the first 64 bits of the SHA-256 of the digest's bytes and name.
pub fn key(path: &RelPath, digest: &Digest) -> u64 {
    let Sha256([a, b, c, d, e, f, g, h, ..]) = Sha256::of(&[digest.bytes(), path.as_bytes()]);
    u64::from_be_bytes([a, b, c, d, e, f, g, h])
}

#[cfg(test)]
mod pass_tests {
    use std::fs::File;

    use super::*;
    use crate::io::HashedFrom;
    use crate::sys::Dir;

    #[test]
    fn what_was_verified_is_written_once_in_a_while() {
        let dir = tempfile::tempdir().unwrap();
        let scrub = Scrub::new(Budget::default(), ReadFrom::Medium, None);
        let digest = Digest::sha256([7; 32]);
        let paths = [&b"a"[..], b"b", b"c"].map(|name| RelPath::parse(name).unwrap());
        for path in &paths {
            scrub.list(path, &digest);
        }
        let root = Dir::open(dir.path()).unwrap();
        let private = PrivateDir::open(&root, dir.path(), None, Missing::Make).unwrap().unwrap();
        let (mark, kept) = (private.mark().clone(), private.path().to_path_buf());
        let place = (private, "record".into());
        scrub.record().verified.begin(5);
        scrub.record().place = Some(place);
        let verify = |path: &RelPath, verdict| {
            let path = path.clone();
            scrub.note(&Finding::File {
                line: 1,
                path,
                listed: digest,
                verdict,
                bytes: 1,
                shared: 0,
                proven: None,
            });
            scrub.save_now_and_then().unwrap();
        };
        let written = || {
            let mut verified = Verified::default();
            paths.iter().for_each(|path| verified.list(path, &digest));
            verified.recall(File::open(kept.join("record")).unwrap(), &mark).unwrap();
            paths.each_ref().map(|path| verified.time_of(path, &digest).unwrap())
        };
        let [a, b, c] = &paths;
        verify(a, Verdict::Good(HashedFrom::Device));
        assert_eq!(written(), [5, 0, 0]);
        verify(b, Verdict::Good(HashedFrom::Device));
        assert_eq!(written(), [5, 0, 0]);
        scrub.record().saved = Instant::now().checked_sub(SAVE);
        verify(c, Verdict::Differs(HashedFrom::Device, None, None));
        assert_eq!(written(), [5, 5, 0]);
        assert_eq!(kept.read_dir().unwrap().count(), 1);
    }
}
