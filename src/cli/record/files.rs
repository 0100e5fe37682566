//! The files that a run records itself in: where they go, how they appear, and which old ones go.

use std::{
    collections::BTreeSet, ffi::OsStr, ffi::OsString, fs::File, io, io::BufRead, io::BufReader,
    io::Read, num::NonZero, path::Path, path::PathBuf, sync::Mutex, sync::PoisonError,
};

use jiff::{SignedDuration, Timestamp};

use crate::{
    cli::exit::Exit, cli::report::MARK, cli::report::is_page, cli::report::receipt_read::Receipt,
    cli::report::receipt_read::ReceiptOutput, error::Deed, error::Error, error::Result,
    manifest::Stamp, path::Shown, path::directory_of, staged, staged::StagedFile, sys, sys::Dir,
    sys::DirListing, sys::PlainUse, sys::Uninterrupted, sys::stat::Kind,
};

// The destination of a file that is written when the run ends. What is there is replaced only if an earlier run
// wrote it, which its first bytes say: a slip of the keyboard costs nobody a file.

/// The destination of a file that is written when the run ends.
#[derive(Debug)]
pub struct Destination {
    dir: Dir,
    name: OsString,
    path: PathBuf,
    kind: RecordKind,
    left: LeftRecords,
}

/// The leftovers of killed runs' records, by their names.
#[derive(Debug)]
struct LeftRecords(Vec<OsString>);

impl LeftRecords {
    /// Those of what is made under this name in the directory `dir`, which is at `path`. A file that the source has
    /// there, or a manifest lists, may have such a name too, and is none.
    fn find(dir: &Dir, path: &Path, name: &OsStr, is_data: &dyn Fn(&Path) -> bool) -> Self {
        let mut names: Vec<_> = staged::temporary_names(name).collect();
        names.retain(|name| dir.stat(name, false).is_ok() && !is_data(&path.join(name)));
        Self(names)
    }

    /// Begins the file of this name, and removes them.
    fn begin(&self, dir: &Dir, name: &OsStr, private: bool) -> io::Result<StagedFile> {
        StagedFile::of(dir, name, private, &|name| !self.0.iter().any(|left| left == name))
    }
}

/// The kinds of file that a run leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordKind {
    Receipt,
    Page,
    Metrics,
    Signature,
}

impl RecordKind {
    /// The kind of the report at `path`.
    pub fn of_report(path: &Path) -> Self {
        if is_page(path) { Self::Page } else { Self::Receipt }
    }

    /// The deed of writing one, in messages.
    fn deed(self) -> &'static str {
        match self {
            Self::Receipt | Self::Page => "write the report",
            Self::Metrics => "write the metrics",
            Self::Signature => "write the signature",
        }
    }

    /// The first bytes of every such file, and its name in messages.
    fn mark(self) -> (&'static str, &'static str) {
        match self {
            Self::Receipt => ("{\n  \"format\": \"dircopy-report\",\n", "is no report of dircopy"),
            Self::Page => (MARK, "is no page of dircopy"),
            Self::Metrics => ("# HELP dircopy_", "has no figures of dircopy"),
            Self::Signature => (SIGNATURE, "is no signature of ssh-keygen"),
        }
    }
}

/// The first bytes of the signatures that `ssh-keygen` makes.
pub const SIGNATURE: &str = "-----BEGIN SSH SIGNATURE-----";

/// Where the signature of the receipt at `path` is.
pub fn signature_of(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".sig");
    name.into()
}

/// Removes the signature of the receipt of this name: that is about to be another one, or none.
fn remove_signature(dir: &Dir, name: &OsStr) -> io::Result<()> {
    let signature = signature_of(Path::new(name)).into_os_string();
    let is_file = dir.stat(&signature, false).is_ok_and(|stat| stat.kind == Kind::File);
    let Some(file) = is_file.then(|| dir.open_file(&signature, false)).transpose()? else {
        return Ok(());
    };
    let mut begin = Vec::new();
    Uninterrupted(file).take(SIGNATURE.len() as u64).read_to_end(&mut begin)?;
    if begin == SIGNATURE.as_bytes() { dir.remove(&signature) } else { Ok(()) }
}

/// The error for a record at `path`, which is to lie in `dir`, that cannot be made: that directory may be missing.
pub fn cannot(deed: &'static str, path: &Path, dir: &Path, error: io::Error) -> Error {
    let is_missing = || dir.metadata().is_err_and(|error| error.kind() == io::ErrorKind::NotFound);
    if error.kind() != io::ErrorKind::NotFound || !is_missing() {
        return Error::io(deed, path, error);
    }
    let dir = Shown::path(dir);
    let finding =
        format!("the directory {dir} does not exist, and no run makes it for this; make it first");
    Error::finding(deed, path, finding)
}

/// Opens the directory at `path`, in which a record is to be made when the run ends.
///
/// # Errors
/// The system's, also where nothing can be made in it.
pub fn open_writable(path: &Path) -> io::Result<Dir> {
    let dir = Dir::open_named(path)?;
    dir.check_writable().map(|()| dir)
}

/// Opens the file at `path` for appending. One that has further names is refused: it may be a file of the source, or a
/// copy.
///
/// # Errors
/// That, or it cannot be opened or made.
pub fn open_to_append(deed: &'static str, path: &Path) -> Result<File> {
    let opened = sys::open_plain(path, PlainUse::Append);
    let looked = opened.and_then(|file| Dir::stat_file(&file).map(|stat| (file, stat)));
    let looked = looked.map_err(|error| cannot(deed, path, directory_of(path), error));
    let (file, stat) = looked?;
    if stat.kind == Kind::File && stat.links > 1 {
        let finding = "it has further names (hard links), so another file would change with it";
        return Err(Error::finding(deed, path, finding));
    }
    Ok(file)
}

/// The same, and where others may write to its directory, or above it, a file is refused that has something in it and
/// does not begin as one that `is_ours`: they can give this name to any file of this user's. `is_none` says in messages
/// what it is not.
///
/// # Errors
/// Those above, and that.
pub fn open_ours_to_append(
    deed: &'static str,
    path: &Path,
    is_none: &str,
    is_ours: impl FnOnce(&[u8]) -> bool,
) -> Result<File> {
    let file = open_to_append(deed, path)?;
    if !may_be_another(&file, path) {
        return Ok(file);
    }
    let begin = begin_of(&file, path).deed(deed, path)?;
    if begin.as_ref().is_some_and(|begin| begin.is_empty() || is_ours(begin)) {
        return Ok(file);
    }
    let finding = format!(
        "it is there and {is_none}, and others may write to its directory, who can have given it this name: give another \
         name, or remove it first"
    );
    Err(Error::finding(deed, path, finding))
}

/// The beginning of the `file` at `path`, which was opened for appending alone; `None` if another one is there by now.
fn begin_of(file: &File, path: &Path) -> io::Result<Option<Vec<u8>>> {
    let there = sys::open_plain(path, PlainUse::Read)?;
    if Dir::stat_file(&there)?.id != Dir::stat_file(file)?.id {
        return Ok(None);
    }
    let mut begin = vec![0; 1 << 16];
    let read = sys::read_at(&there, &mut begin, 0)?;
    begin.truncate(read);
    Ok(Some(begin))
}

/// True if another user may have given its name to the `file` at `path`, which was opened for appending: it may be any
/// file of this user's.
fn may_be_another(file: &File, path: &Path) -> bool {
    let dir = || Dir::open_named(directory_of(path))?.keeps_names_by_path();
    Dir::stat_file(file).is_ok_and(|stat| stat.kind == Kind::File) && !dir().unwrap_or(false)
}

/// Closes a file that was opened so to others, as one is that is made, where another user may have given it its name.
///
/// # Errors
/// The system's.
pub fn close_if_another(file: &File, path: &Path) -> io::Result<()> {
    if !may_be_another(file, path) {
        return Ok(());
    }
    let stat = Dir::stat_file(file)?;
    sys::let_read(file, |_| stat.mode & 0o600)
}

impl Destination {
    /// Opens the directory of the file. What `is_data` says is a file of a tree stays.
    ///
    /// # Errors
    /// Something else than such a file has its name, or nothing can be made in the directory.
    pub fn new(kind: RecordKind, path: &Path, is_data: &dyn Fn(&Path) -> bool) -> Result<Self> {
        let Some(name) = path.file_name() else {
            let finding = "the last component is no name of a file";
            return Err(Error::finding(kind.deed(), path, finding));
        };
        let dir = open_writable(directory_of(path));
        let dir = dir.map_err(|error| cannot(kind.deed(), path, directory_of(path), error))?;
        let left = LeftRecords::find(&dir, directory_of(path), name, is_data);
        let (name, path) = (name.to_os_string(), path.to_path_buf());
        let place = Self { dir, name, path, kind, left };
        place.refuse_foreign()?;
        Ok(place)
    }

    /// Refuses to replace what no earlier run wrote; an empty file may be replaced.
    fn refuse_foreign(&self) -> Result<()> {
        let Self { kind, path, .. } = self;
        let there = self.dir.stat(&self.name, false).if_there().deed(kind.deed(), path)?;
        let Some(there) = there else { return Ok(()) };
        if there.kind != Kind::File {
            let is = there.kind.name();
            let finding = format!("{is} has this name, and only a file is replaced");
            return Err(Error::finding(kind.deed(), path, finding));
        }
        let (mark, is_none) = kind.mark();
        let begin = self.read(mark.len() as u64);
        let begin = begin.deed("replace", path)?;
        if begin.is_empty() || begin == mark.as_bytes() {
            return Ok(());
        }
        let finding = format!("it is there and {is_none}; give another name, or remove it first");
        Err(Error::finding("replace", path, finding))
    }

    /// The path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The first `most` bytes of the file that is there now.
    pub fn read(&self, most: u64) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        let file = self.dir.open_file(&self.name, false)?;
        Uninterrupted(file).take(most).read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    /// Writes the file by `fill`, syncs it and then replaces the earlier one, so that no reader sees half of
    /// it. After an error the earlier one is still there, and so is what has come there since the run began.
    pub fn write(&self, fill: impl FnOnce(&mut File) -> io::Result<()>) -> Result<()> {
        self.refuse_foreign()?;
        let Self { dir, name, kind, left, .. } = self;
        let fill = |file: &mut File| {
            self.keep_permissions(file)?;
            fill(file)
        };
        left.begin(dir, name, *kind != RecordKind::Metrics)
            .and_then(|staged| {
                staged.write(dir, true, fill, |it| {
                    if *kind == RecordKind::Receipt {
                        remove_signature(dir, name)?;
                    }
                    it.give_name(dir, name, true)
                })
            })
            .deed(kind.deed(), &self.path)
    }

    /// Gives the new file the permissions of the one that it replaces, if that is this user's too: who opened a report
    /// to others once has it so every night. An access list it does not get; and where another user may have given the
    /// name to that one, the new file is only closed further.
    fn keep_permissions(&self, new: &File) -> io::Result<()> {
        let Ok(old) = self.dir.open_file(&self.name, false) else { return Ok(()) };
        let stat = Dir::stat_file(&old)?;
        let fresh = Dir::stat_file(new)?;
        if stat.uid != fresh.uid || self.dir.mode_without_list(&self.name, &stat) != stat.mode {
            return Ok(());
        }
        match self.dir.keeps_names_by_path()? {
            true => new.set_permissions(old.metadata()?.permissions()),
            false => sys::let_read(new, |_| stat.mode & fresh.mode),
        }
    }
}

// Reports in a directory: each run leaves one with its time in its name, and the oldest go.
//
// `dircopy-copy-20260101T013000Z.json`, or `-stream-`, `-verify-` or `-dry-run-`. A file of
// such a name that does not begin as a report is never removed. The newest reports are kept, those of refused runs by
// a count of their own, and the newest of a run that did everything it was asked for: however many nights failed, the
// last receipt stays.

/// The part of a file that is read to find out whether it is a report; bytes.
const HEAD: u64 = 1 << 20;

/// The deed of writing a report, in messages.
pub const WRITE: &str = "write the report";

/// Where a report goes.
pub enum ReportDestination {
    /// To a file, in place of the one before.
    File(Destination),
    /// Into a directory, beside those before.
    Directory(ReportDirectory),
}

/// Names are this much ahead of the clock at most.
const SAME_MINUTE: SignedDuration = SignedDuration::from_secs(60);

/// A directory of reports.
pub struct ReportDirectory {
    dir: Dir,
    path: PathBuf,
    /// The kind of run, in the names of its reports.
    kind: &'static str,
    /// Number of the newest that stay.
    keep: Option<NonZero<usize>>,
    left: LeftRecords,
    own: Mutex<OwnReport>,
}

/// The report of this run.
#[derive(Clone, Copy)]
struct OwnReport {
    stamp: Stamp,
    /// True once it is on disk.
    written: bool,
}

/// True if `path`, given for a report, means a directory for reports.
pub fn is_directory(path: &Path) -> bool {
    let ends = path.as_os_str().to_string_lossy().ends_with(std::path::is_separator);
    ends || path.is_dir()
}

impl ReportDestination {
    /// Looks at the place of the report of a run of this kind, that started then. `keep` is for a
    /// directory only. What `is_data` says is a file of a tree stays.
    ///
    /// # Errors
    /// No report can be written there, or not kept there.
    pub fn new(
        path: &Path,
        kind: &'static str,
        started: Timestamp,
        keep: Option<NonZero<usize>>,
        is_data: &dyn Fn(&Path) -> bool,
    ) -> Result<Self> {
        if !is_directory(path) {
            if keep.is_some() {
                let finding = "--report names one file; --keep-reports is for a directory";
                return Err(Error::finding("keep several reports at", path, finding));
            }
            return Destination::new(RecordKind::of_report(path), path, is_data).map(Self::File);
        }
        let dir = open_writable(path).map_err(|error| cannot(WRITE, path, path, error))?;
        let own = Mutex::new(OwnReport { stamp: Stamp::new(started), written: false });
        let left = LeftRecords::find(&dir, path, kind.as_ref(), is_data);
        let path = path.to_path_buf();
        Ok(Self::Directory(ReportDirectory { dir, path, kind, keep, left, own }))
    }

    /// Writes the report, whole or not at all; once more replaces it.
    pub fn write(&self, fill: impl FnOnce(&mut File) -> io::Result<()>) -> Result<()> {
        match self {
            Self::File(place) => place.write(fill),
            Self::Directory(reports) => reports.write(fill),
        }
    }

    /// Where it is.
    pub fn path(&self) -> PathBuf {
        match self {
            Self::File(place) => place.path().to_path_buf(),
            Self::Directory(reports) => reports.own_path(),
        }
    }

    /// Number of the newest that stay, of a directory from which others are removed.
    pub fn kept(&self) -> Option<NonZero<usize>> {
        match self {
            Self::File(_) => None,
            Self::Directory(reports) => reports.keep,
        }
    }

    /// Removes old reports after this run's was written, which ended so. Returns the removed ones, and the error that
    /// ended it.
    pub fn rotate(&self, exit: Exit) -> (Vec<PathBuf>, Option<Error>) {
        match self {
            Self::File(_) => (Vec::new(), None),
            Self::Directory(reports) => reports.rotate(exit),
        }
    }
}

impl ReportDirectory {
    fn name(&self, stamp: Stamp) -> OsString {
        format!("dircopy-{}-{stamp}.json", self.kind).into()
    }

    fn own_path(&self) -> PathBuf {
        let own = self.own.lock().unwrap_or_else(PoisonError::into_inner);
        self.path.join(self.name(own.stamp))
    }

    fn parse(&self, name: &OsStr) -> Option<Stamp> {
        let rest = name.as_encoded_bytes().strip_prefix(b"dircopy-")?;
        let rest = rest.strip_prefix(self.kind.as_bytes())?.strip_prefix(b"-")?;
        Stamp::parse(rest.strip_suffix(b".json")?)
    }

    fn write(&self, fill: impl FnOnce(&mut File) -> io::Result<()>) -> Result<()> {
        let mut own = self.own.lock().unwrap_or_else(PoisonError::into_inner);
        if !own.written {
            // Behind those of this minute, also where one before them was removed: a run that comes soon after
            // others has a later second in its name than the clock. One of a far later time is no guide.
            let limit = own.stamp.time().checked_add(SAME_MINUTE).unwrap_or(own.stamp.time());
            let is_near = |stamp: &Stamp| *stamp >= own.stamp && stamp.time() <= limit;
            let last = self.stamps().ok().and_then(|all| all.into_iter().filter(is_near).max());
            own.stamp = last.and_then(Stamp::next).unwrap_or(own.stamp);
        }
        let publish = |staged: &StagedFile| {
            if own.written {
                remove_signature(&self.dir, &self.name(own.stamp))?;
            }
            // On a broken file system each may be called taken.
            for _ in 0..1000 {
                match staged.give_name(&self.dir, &self.name(own.stamp), own.written) {
                    Err(error) if error.kind() == io::ErrorKind::AlreadyExists && !own.written => {
                        own.stamp = own.stamp.next().ok_or(error)?;
                    }
                    published => return published.map(|()| own.written = true),
                }
            }
            Err(io::ErrorKind::AlreadyExists.into())
        };
        // Each run has another name for its report.
        self.left
            .begin(&self.dir, self.kind.as_ref(), true)
            .and_then(|staged| staged.write(&self.dir, true, fill, publish))
            .deed(WRITE, &self.path)
    }

    fn rotate(&self, exit: Exit) -> (Vec<PathBuf>, Option<Error>) {
        let own = *self.own.lock().unwrap_or_else(PoisonError::into_inner);
        let (Some(keep), true) = (self.keep, own.written) else { return (Vec::new(), None) };
        let mut removed = Vec::new();
        let fail = |path: &Path, error| Error::io("remove old reports from", path, error);
        let done = self
            .surplus(own.stamp, keep, exit)
            .map_err(|error| fail(&self.path, error))
            .and_then(|surplus| {
                surplus.into_iter().try_for_each(|name| {
                    let path = self.path.join(&name);
                    let gone = remove_signature(&self.dir, &name);
                    gone.and_then(|()| self.dir.remove(&name)).map_err(|it| fail(&path, it))?;
                    removed.push(path);
                    Ok(())
                })
            });
        (removed, done.err())
    }

    /// The times in the names of reports of this kind.
    fn stamps(&self) -> io::Result<Vec<Stamp>> {
        let stamps = DirListing::of(&Dir::open(&self.path)?)?;
        stamps.filter_map(|entry| entry.map(|it| self.parse(&it.name)).transpose()).collect()
    }

    /// Those that are to go, the newest first; this run ended with `exit`.
    fn surplus(&self, own: Stamp, keep: NonZero<usize>, exit: Exit) -> io::Result<Vec<OsString>> {
        let mut others = self.stamps()?;
        // Others may have exchanged it for that of another job, or moved reports here.
        let subject = match self.dir.keeps_names_by_path()? {
            true => None,
            false => Some(self.subject(&self.name(own))?),
        };
        let ours = self.dir.stat(&self.name(own), false)?.uid;
        // One with a later time, by a clock that went wrong, is no reason to lose this one.
        others.retain(|stamp| *stamp != own);
        others.sort_unstable_by(|one, other| other.cmp(one));
        if others.len() < keep.get() {
            return Ok(Vec::new());
        }
        // The report of a run that was refused is in no sequence: it takes no place of those that are.
        let is_refused = |code| code == Exit::Refused.code();
        let mut kept = [0; 2];
        kept[usize::from(is_refused(exit.code()))] = 1;
        let (mut has_complete, mut surplus) = (exit == Exit::Complete, Vec::new());
        for stamp in others {
            let name = self.name(stamp);
            let Some(code) = self.exit_code(&name, ours) else { continue };
            let is_other =
                |of: &BTreeSet<PathBuf>| self.subject(&name).map_or(true, |it| it.is_disjoint(of));
            if subject.as_ref().is_some_and(is_other) {
                continue;
            }
            let was_complete = code == Exit::Complete.code();
            let is_last_complete = was_complete && !has_complete;
            has_complete |= was_complete;
            let kept = &mut kept[usize::from(is_refused(code))];
            if *kept < keep.get() {
                *kept += 1;
            } else if !is_last_complete {
                surplus.push(name);
            }
        }
        Ok(surplus)
    }

    /// What the report of that name is of: the outputs of a copy, or the directories of a check.
    fn subject(&self, name: &OsStr) -> io::Result<BTreeSet<PathBuf>> {
        let receipt = Receipt::read(self.dir.open_file(name, false)?)?;
        let here = receipt.working_directory.unwrap_or_default().path.0;
        let outputs = receipt.outputs.kept.iter().map(ReceiptOutput::name);
        let all = outputs.chain(receipt.directories.kept);
        Ok(all.map(|it| Path::new(&here).join(it.path.0)).collect())
    }

    /// The exit code in the report of that name; `None` if it is no report, or not one of the user `ours`: others keep
    /// theirs, and push out none.
    fn exit_code(&self, name: &OsStr, ours: u32) -> Option<u8> {
        let stat = self.dir.stat(name, false).ok()?;
        if stat.kind != Kind::File || stat.uid != ours {
            return None;
        }
        exit_code(self.dir.open_file(name, false).ok()?).ok()?
    }
}

/// Reads the exit code of a report line by line; the members of its top level are indented by two spaces, all
/// others by more.
fn exit_code(file: impl Read) -> io::Result<Option<u8>> {
    let mut lines = BufReader::new(Uninterrupted(file).take(HEAD)).lines();
    let mut next = || lines.next().transpose();
    if next()?.as_deref() != Some("{")
        || next()?.as_deref() != Some("  \"format\": \"dircopy-report\",")
    {
        return Ok(None);
    }
    while let Some(line) = next()? {
        if let Some(code) = line.strip_prefix("  \"exit_code\": ") {
            return Ok(code.trim_end_matches(',').parse().ok());
        }
    }
    Ok(None)
}
