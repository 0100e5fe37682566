//! A file system with a will of its own: it shows a directory, and does to any call what the test says.
//!
//! It can do what `strace` cannot: match the random names of part files, lie, flip bits, read short,
//! change a file between two reads of it, and kill whoever calls at a call of its choice. What really
//! lies below can be looked at all the while.

mod fuse;

use std::collections::{HashMap, HashSet};
use std::ffi::{OsStr, OsString};
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, UNIX_EPOCH};

use unicode_normalization::UnicodeNormalization;

use fuser::{
    BackgroundSession, Config, Errno, FileAttr, FileHandle, FileType, INodeNo, OpenAccMode,
    OpenFlags, RenameFlags, Request, SessionACL, TimeOrNow,
};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Deed {
    Create,
    Read,
    Write,
    Sync,
    /// What close(2) waits for.
    Close,
    Rename,
    Remove,
    /// Of a directory.
    List,
}

/// A call that is about to be done.
pub struct Call<'a> {
    pub deed: Deed,
    /// Below the root; where to, if it is a rename.
    pub path: &'a Path,
    /// From where to where, if something is read.
    pub bytes: (u64, u64),
    /// How many of this deed there were with it.
    pub number: u32,
    /// A thread of whoever calls.
    pub caller: u32,
}

/// What happens to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Act {
    Pass,
    Fail(i32),
    /// At most so many bytes are read or written.
    Short(usize),
    /// The last bit of the last byte is the other one.
    Flip,
    /// Nothing is done, and success is told.
    Pretend,
}

/// What a file system does to what it is told, as real ones do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Habit {
    /// A change of the modification time alone is ignored: libfuse 2 without `utime_omit_ok`.
    BothTimesOrNone,
    /// What is set of a symbolic link is set of what it points to: SFTP.
    SetsThroughLinks,
    /// A change of permissions is ignored, and success is told: vfat mounted `quiet`.
    KeepsPermissions,
    /// Dots at the end of a name are dropped: vfat, exFAT.
    DropsDots,
    /// Bytes of a new name that are not UTF-8 become question marks: UDF.
    ReplacesBytes,
    /// Names that differ only in letter case are one name.
    FoldsCase,
    /// So are names that differ only in how an accent or a ligature is written: HFS, APFS, ZFS.
    FoldsForms,
    /// Names are one that the tables of Unicode fold into one, and what is not shown counts for nothing: ext4.
    FoldsFully,
    /// There are no symbolic links.
    HasNoLinks,
    /// A file has one name: exFAT, and much that is a server in user space.
    HasNoHardLinks,
    /// Times before the first of these seconds and after the second become these, and all are cut to the third.
    HoldsTimes(i64, i64, i64),
    /// Times are 32 bits of seconds, whatever they were: SFTP.
    CutsTimesTo32Bits,
    /// Times are shown so many seconds later than they were set before this was mounted, as are those of vfat in
    /// another time zone.
    MovesTimes(i64),
    /// Directories cannot be synced: HFS.
    SyncsNoDirectories,
    /// There is no sync: after the first the kernel says by itself that each succeeds. rclone, servers of libfuse 2.
    HasNoSync,
    /// None of its inodes is free, it says: rclone.
    TellsNoFreeInodes,
    /// Names have at most 31 bytes, it says: HFS.
    TellsShortNames,
    /// A handle of a directory lists it once, and from its start on nothing more: sshfs.
    ListsOnce,
    /// Links to absolute paths or with `..` cannot be read: sshfs.
    HidesOutwardLinks,
    /// The first second of all is taken for that of now: sshfs.
    TakesZeroForNow,
    /// A file is dated to each reading: rclone, while it has not yet sent it on.
    DatesToReading,
    /// Names may not have signs that have a meaning on Windows.
    RefusesSigns,
    /// Everything belongs to everybody: exfat-fuse.
    HasNoPermissions,
    /// Where a file of a name over 240 bytes is replaced, a stray with a cut name stays: ntfs-3g.
    StraysFromLongNames,
    /// The modification time is told for the change time: FAT, exFAT.
    HasNoChangeTimes,
    /// The same, in whole seconds.
    HasNoChangeTimesButSeconds,
    /// A file has a little earlier change time until it is opened and asked for anew: libfuse 2, for a second.
    TellsChangesLate,
    /// A new file can be opened again when it was closed, and one that nothing was written to comes back once when it
    /// is removed: rclone without a cache.
    MakesFilesOnClose,
    /// Line feeds in names are shown as another sign, but for entries made since it was mounted whose directory was not
    /// renamed: rclone.
    RemembersLineFeeds,
    /// Each write is interrupted, those of trials too.
    InterruptsWrites,
    /// The kernel keeps what is written, and hands it on later.
    CachesWrites,
    /// Directories have numbers that are greater by so much: others after each mount, as those of FAT and exFAT.
    NumbersDirectories(u64),
    /// It states another size of this name than there is.
    States(&'static str, u64),
}

type Hook = Box<dyn FnMut(&Call<'_>) -> Act + Send>;

/// The mounted file system; unmounted when dropped.
pub struct Mirror {
    _session: BackgroundSession,
    fired: Arc<AtomicU32>,
}

impl Mirror {
    /// Shows `below` at `at`, and asks `hook` before every call what to do to it.
    pub fn mount(
        below: &Path,
        at: &Path,
        hook: impl FnMut(&Call<'_>) -> Act + Send + 'static,
    ) -> Self {
        Self::with_habits(below, at, &[], hook)
    }

    /// The same with habits.
    pub fn with_habits(
        below: &Path,
        at: &Path,
        habits: &[Habit],
        hook: impl FnMut(&Call<'_>) -> Act + Send + 'static,
    ) -> Self {
        fs::create_dir_all(at).unwrap();
        let fired = Arc::new(AtomicU32::new(0));
        let shown = Shown {
            state: Mutex::new(State {
                paths: HashMap::from([(INodeNo::ROOT, PathBuf::new())]),
                files: HashMap::new(),
                listed: HashSet::new(),
                next: 1,
                opened: HashSet::new(),
                unwritten: HashSet::new(),
                unclosed: HashSet::new(),
                remembered: HashSet::new(),
                numbers: HashMap::new(),
                hook: Box::new(hook),
            }),
            below: below.to_path_buf(),
            habits: habits.to_vec(),
            fired: Arc::clone(&fired),
        };
        let mut config = Config::default();
        config.acl = SessionACL::All;
        Self { _session: fuser::spawn_mount(shown, at, &config).unwrap(), fired }
    }

    /// How many calls did not pass.
    pub fn fired(&self) -> u32 {
        self.fired.load(Ordering::Relaxed)
    }
}

struct State {
    paths: HashMap<INodeNo, PathBuf>,
    files: HashMap<u64, Arc<File>>,
    /// The handles of directories that were listed from their start.
    listed: HashSet<u64>,
    next: u64,
    /// Which files were opened since this was mounted.
    opened: HashSet<PathBuf>,
    /// Which new files were not written to, …
    unwritten: HashSet<PathBuf>,
    /// … and which were not closed.
    unclosed: HashSet<PathBuf>,
    /// The names of which entries are as they were told.
    remembered: HashSet<PathBuf>,
    numbers: HashMap<Deed, u32>,
    hook: Hook,
}

struct Shown {
    state: Mutex<State>,
    below: PathBuf,
    habits: Vec<Habit>,
    fired: Arc<AtomicU32>,
}

type Entries = Vec<(INodeNo, FileType, OsString)>;
type Result<T> = std::result::Result<T, Errno>;

const TTL: Duration = Duration::ZERO;

/// What rclone shows for a line feed.
const LINE_FEED_SHOWN: &[u8] = "\u{240a}".as_bytes();

fn replaced(name: &[u8], what: &[u8], with: &[u8]) -> OsString {
    let (mut name, mut new) = (name, Vec::new());
    while let Some((&first, rest)) = name.split_first() {
        match name.strip_prefix(what) {
            Some(behind) => {
                new.extend_from_slice(with);
                name = behind;
            }
            None => {
                new.push(first);
                name = rest;
            }
        }
    }
    OsStr::from_bytes(&new).to_owned()
}

/// What is the same of all names that are one where names are folded as on ext4; of one that is not UTF-8 itself.
pub fn fully_folded(name: &OsStr) -> Vec<u8> {
    let Some(text) = name.to_str() else { return name.as_bytes().to_vec() };
    let shown = text.nfd().filter(|letter| !matches!(letter, '\u{ad}' | '\u{200b}'..='\u{200f}'));
    let lower = shown.flat_map(char::to_lowercase).flat_map(char::to_uppercase);
    lower.flat_map(char::to_lowercase).nfd().collect::<String>().into_bytes()
}

/// The number of an open file.
fn handle(file: FileHandle) -> u64 {
    file.into()
}

impl Shown {
    fn path(&self, node: INodeNo) -> Result<PathBuf> {
        self.state.lock().unwrap().paths.get(&node).cloned().ok_or(Errno::ENOENT)
    }

    fn has(&self, habit: Habit) -> bool {
        self.habits.contains(&habit)
    }

    fn child(&self, parent: INodeNo, name: &OsStr) -> Result<PathBuf> {
        let mut name = name.as_bytes();
        while self.has(Habit::DropsDots) && name.ends_with(b".") {
            name = &name[..name.len() - 1];
        }
        if name.is_empty() {
            return Err(Errno::ENOENT);
        }
        let parent = self.path(parent)?;
        if self.has(Habit::RemembersLineFeeds) {
            return Ok(parent.join(replaced(name, LINE_FEED_SHOWN, b"\n")));
        }
        let folding = [Habit::FoldsCase, Habit::FoldsForms, Habit::FoldsFully];
        if folding.into_iter().any(|habit| self.has(habit)) {
            for entry in fs::read_dir(self.below.join(&parent))? {
                let other = entry?.file_name();
                let forms = |name| {
                    let name = replaced(name, "e\u{301}".as_bytes(), "\u{e9}".as_bytes());
                    replaced(name.as_bytes(), "\u{fb01}".as_bytes(), b"fi")
                };
                let same = match () {
                    () if self.has(Habit::FoldsCase) => other.as_bytes().eq_ignore_ascii_case(name),
                    () if self.has(Habit::FoldsForms) => forms(other.as_bytes()) == forms(name),
                    () => fully_folded(&other) == fully_folded(OsStr::from_bytes(name)),
                };
                if same {
                    return Ok(parent.join(other));
                }
            }
        }
        Ok(parent.join(OsStr::from_bytes(name)))
    }

    /// The path of an entry that is to be made.
    fn new_child(&self, parent: INodeNo, name: &OsStr) -> Result<PathBuf> {
        let path = self.child(parent, name)?;
        if self.has(Habit::RefusesSigns)
            && name.as_bytes().iter().any(|it| b"\"*:<>?\\|".contains(it))
        {
            return Err(Errno::EINVAL);
        }
        self.state.lock().unwrap().remembered.insert(path.clone());
        if self.has(Habit::ReplacesBytes) {
            return Ok(path.to_string_lossy().replace('\u{fffd}', "?").into());
        }
        Ok(path)
    }

    /// The seconds that are stored where these were asked for.
    fn stored(&self, mut secs: i64) -> i64 {
        for habit in &self.habits {
            match *habit {
                Habit::HoldsTimes(from, to, step) => {
                    secs = secs.clamp(from, to);
                    secs -= secs.rem_euclid(step);
                }
                Habit::CutsTimesTo32Bits => secs = secs.rem_euclid(1 << 32),
                Habit::MovesTimes(by) => secs -= by,
                Habit::TakesZeroForNow if secs == 0 => secs = seconds_now(),
                _ => {}
            }
        }
        secs
    }

    fn timespec(&self, time: Option<TimeOrNow>) -> rustix::fs::Timespec {
        let mut stored = timespec(time);
        if stored.tv_nsec != rustix::fs::UTIME_OMIT && stored.tv_nsec != rustix::fs::UTIME_NOW {
            let secs = self.stored(stored.tv_sec);
            if secs != stored.tv_sec {
                stored = rustix::fs::Timespec { tv_sec: secs, tv_nsec: 0 };
            }
        }
        stored
    }

    fn file(&self, file: FileHandle) -> Result<Arc<File>> {
        self.state.lock().unwrap().files.get(&handle(file)).cloned().ok_or(Errno::EBADF)
    }

    fn keep(&self, file: File) -> FileHandle {
        let mut state = self.state.lock().unwrap();
        state.next += 1;
        let number = state.next;
        state.files.insert(number, Arc::new(file));
        FileHandle(number)
    }

    fn act(&self, request: &Request, deed: Deed, path: &Path) -> Result<Act> {
        self.act_on(request, deed, path, (0, 0))
    }

    /// The same for what is done to these bytes.
    fn act_on(&self, request: &Request, deed: Deed, path: &Path, bytes: (u64, u64)) -> Result<Act> {
        // What runs keep for themselves is left out of account, as by the judges; so is what they try out, in
        // directories that are called as part files are.
        let is_trial = |dir: &Path| {
            dir.as_os_str().as_bytes().ends_with(b".dircopy-part") && self.below.join(dir).is_dir()
        };
        if path.ancestors().any(is_trial)
            || path.components().any(|part| part.as_os_str() == ".dircopy")
        {
            return Ok(Act::Pass);
        }
        let mut state = self.state.lock().unwrap();
        let number = state.numbers.entry(deed).or_insert(0);
        *number += 1;
        let call = Call { deed, path, bytes, number: *number, caller: request.pid() };
        let act = (state.hook)(&call);
        if act != Act::Pass {
            self.fired.fetch_add(1, Ordering::Relaxed);
        }
        match act {
            Act::Fail(error) => Err(Errno::from_i32(error)),
            other => Ok(other),
        }
    }

    /// What the entry is, which from now on has this path.
    fn look(&self, path: PathBuf) -> Result<FileAttr> {
        let stat = fs::symlink_metadata(self.below.join(&path))?;
        let root = path.as_os_str().is_empty();
        let ino = if root { INodeNo::ROOT } else { self.number(&stat) };
        let stated = self.habits.iter().find_map(|habit| match habit {
            Habit::States(name, size) if path.ends_with(name) => Some(*size),
            _ => None,
        });
        let is_late =
            self.has(Habit::TellsChangesLate) && !self.state.lock().unwrap().opened.contains(&path);
        self.state.lock().unwrap().paths.insert(ino, path);
        let moved = self.habits.iter().find_map(|habit| match habit {
            Habit::MovesTimes(by) => Some(*by),
            _ => None,
        });
        let kind = FileType::from_std(stat.file_type()).ok_or(Errno::EIO)?;
        let time = |seconds: i64, nanos: i64| {
            let whole = Duration::from_secs(seconds.unsigned_abs());
            let whole = if seconds < 0 { UNIX_EPOCH - whole } else { UNIX_EPOCH + whole };
            whole + Duration::from_nanos(u64::try_from(nanos).unwrap_or(0))
        };
        Ok(FileAttr {
            ino,
            size: stated.unwrap_or(stat.size()),
            blocks: stat.blocks(),
            atime: time(stat.atime(), stat.atime_nsec()),
            mtime: time(stat.mtime() + moved.unwrap_or(0), stat.mtime_nsec()),
            ctime: match () {
                () if self.has(Habit::HasNoChangeTimes) => time(stat.mtime(), stat.mtime_nsec()),
                () if self.has(Habit::HasNoChangeTimesButSeconds) => time(stat.mtime(), 0),
                () => time(stat.ctime() - i64::from(is_late), stat.ctime_nsec()),
            },
            crtime: UNIX_EPOCH,
            kind,
            perm: match self.has(Habit::HasNoPermissions) {
                true => 0o777,
                false => (stat.mode() & 0o7777) as u16,
            },
            nlink: stat.nlink() as u32,
            uid: stat.uid(),
            gid: stat.gid(),
            rdev: 0,
            blksize: 4096,
            flags: 0,
        })
    }

    fn make(
        &self,
        parent: INodeNo,
        name: &OsStr,
        make: impl FnOnce(&Path) -> io::Result<()>,
    ) -> Result<FileAttr> {
        let path = self.new_child(parent, name)?;
        make(&self.below.join(&path))?;
        self.look(path)
    }

    fn open_file(&self, node: INodeNo, flags: OpenFlags) -> Result<FileHandle> {
        let writes = flags.acc_mode() != OpenAccMode::O_RDONLY;
        let path = self.path(node)?;
        if self.state.lock().unwrap().unclosed.contains(&path) {
            return Err(Errno::ENOENT);
        }
        let file = OpenOptions::new().read(true).write(writes).open(self.below.join(&path))?;
        self.state.lock().unwrap().opened.insert(path);
        Ok(self.keep(file))
    }

    fn create_file(
        &self,
        request: &Request,
        path: PathBuf,
        mode: u32,
    ) -> Result<(FileAttr, FileHandle)> {
        self.act(request, Deed::Create, &path)?;
        let mut new = OpenOptions::new();
        new.read(true).write(true).create_new(true).mode(mode);
        let file = new.open(self.below.join(&path))?;
        if self.has(Habit::MakesFilesOnClose) {
            let mut state = self.state.lock().unwrap();
            state.unclosed.insert(path.clone());
            if path.as_os_str().as_bytes().ends_with(b".dircopy-part") {
                state.unwritten.insert(path.clone());
            }
        }
        Ok((self.look(path)?, self.keep(file)))
    }

    fn read_file(
        &self,
        request: &Request,
        node: INodeNo,
        file: FileHandle,
        (offset, size): (u64, u32),
    ) -> Result<Vec<u8>> {
        let file = self.file(file)?;
        let bytes = (offset, offset + u64::from(size));
        let act = self.act_on(request, Deed::Read, &self.path(node)?, bytes)?;
        let most = if let Act::Short(most) = act { most } else { usize::MAX };
        let mut data = vec![0; (size as usize).min(most)];
        if self.has(Habit::DatesToReading) {
            file.set_modified(std::time::SystemTime::now())?;
        }
        let len = file.read_at(&mut data, offset)?;
        data.truncate(len);
        if let (Act::Flip, Some(last)) = (act, data.last_mut()) {
            *last ^= 1;
        }
        Ok(data)
    }

    fn write_file(
        &self,
        request: &Request,
        node: INodeNo,
        file: FileHandle,
        (offset, data): (u64, &[u8]),
    ) -> Result<u32> {
        let file = self.file(file)?;
        if self.has(Habit::InterruptsWrites) {
            return Err(Errno::EINTR);
        }
        let act = self.act(request, Deed::Write, &self.path(node)?)?;
        let mut data = data.to_vec();
        match act {
            Act::Pretend => return Ok(data.len() as u32),
            Act::Short(most) => data.truncate(most),
            Act::Flip => *data.last_mut().ok_or(Errno::EIO)? ^= 1,
            Act::Pass | Act::Fail(_) => {}
        }
        file.write_all_at(&data, offset)?;
        let path = self.path(node)?;
        self.state.lock().unwrap().unwritten.remove(&path);
        Ok(data.len() as u32)
    }

    fn change(
        &self,
        node: INodeNo,
        (mode, uid, gid): (Option<u32>, Option<u32>, Option<u32>),
        size: Option<u64>,
        (atime, mtime): (Option<TimeOrNow>, Option<TimeOrNow>),
    ) -> Result<FileAttr> {
        let path = self.path(node)?;
        let mut below = self.below.join(&path);
        if self.habits.contains(&Habit::SetsThroughLinks) {
            below = below.canonicalize().unwrap_or(below);
        }
        if uid.is_some() || gid.is_some() {
            std::os::unix::fs::lchown(&below, uid, gid)?;
        }
        if let Some(mode) = mode
            .filter(|_| !self.has(Habit::KeepsPermissions) && !self.has(Habit::HasNoPermissions))
        {
            fs::set_permissions(&below, fs::Permissions::from_mode(mode))?;
        }
        if let Some(size) = size {
            OpenOptions::new().write(true).open(&below)?.set_len(size)?;
        }
        let ignores = self.habits.contains(&Habit::BothTimesOrNone);
        if atime.is_some() && mtime.is_some() || !ignores && (atime.is_some() || mtime.is_some()) {
            let times = rustix::fs::Timestamps {
                last_access: timespec(atime),
                last_modification: self.timespec(mtime),
            };
            let here = rustix::fs::CWD;
            let not_through = rustix::fs::AtFlags::SYMLINK_NOFOLLOW;
            rustix::fs::utimensat(here, &below, &times, not_through).map_err(io::Error::from)?;
        }
        self.look(path)
    }

    fn let_go(&self, file: FileHandle) {
        self.state.lock().unwrap().files.remove(&handle(file));
    }

    fn rename_to(
        &self,
        request: &Request,
        from: PathBuf,
        to: PathBuf,
        flags: RenameFlags,
    ) -> Result<()> {
        if self.act(request, Deed::Rename, &to)? == Act::Pretend {
            return Ok(());
        }
        let flags = rustix::fs::RenameFlags::from_bits_retain(flags.bits());
        let (old, new) = (self.below.join(&from), self.below.join(&to));
        let here = rustix::fs::CWD;
        let name = to.file_name().unwrap_or_default().as_bytes();
        if self.has(Habit::StraysFromLongNames) && name.len() > 240 && new.exists() {
            fs::copy(&new, new.with_file_name(OsStr::from_bytes(&name[..240])))?;
        }
        rustix::fs::renameat_with(here, old, here, new, flags).map_err(io::Error::from)?;
        let mut state = self.state.lock().unwrap();
        state.remembered.retain(|path| !path.starts_with(&from));
        for path in state.paths.values_mut() {
            if let Ok(rest) = path.strip_prefix(&from) {
                *path = if rest.as_os_str().is_empty() { to.clone() } else { to.join(rest) };
            }
        }
        Ok(())
    }

    /// Where the link leads, if it is shown.
    fn target(&self, node: INodeNo) -> Result<PathBuf> {
        let target = fs::read_link(self.below.join(self.path(node)?))?;
        let leads_out = target.is_absolute() || target.starts_with("..");
        if leads_out && self.has(Habit::HidesOutwardLinks) {
            return Err(Errno::EPERM);
        }
        Ok(target)
    }

    /// Opens a directory to be listed.
    fn open_listing(&self) -> FileHandle {
        let mut state = self.state.lock().unwrap();
        state.next += 1;
        FileHandle(state.next)
    }

    /// The entries after `offset` of an open directory.
    fn list(&self, node: INodeNo, listing: FileHandle, offset: u64) -> Result<Entries> {
        let is_again = offset == 0 && !self.state.lock().unwrap().listed.insert(handle(listing));
        match is_again && self.has(Habit::ListsOnce) {
            true => Ok(Vec::new()),
            false => self.entries(node),
        }
    }

    fn number(&self, stat: &fs::Metadata) -> INodeNo {
        let more = self.habits.iter().find_map(|habit| match habit {
            Habit::NumbersDirectories(more) => Some(*more).filter(|_| stat.is_dir()),
            _ => None,
        });
        INodeNo(stat.ino() + more.unwrap_or(0))
    }

    fn shown_name(&self, dir: &Path, name: OsString) -> OsString {
        let is_told = || self.state.lock().unwrap().remembered.contains(&dir.join(&name));
        match self.has(Habit::RemembersLineFeeds) && !is_told() {
            true => replaced(name.as_bytes(), b"\n", LINE_FEED_SHOWN),
            false => name,
        }
    }

    fn entries(&self, node: INodeNo) -> Result<Entries> {
        let path = self.path(node)?;
        let mut entries = Vec::new();
        for entry in fs::read_dir(self.below.join(&path))? {
            let entry = entry?;
            let kind = FileType::from_std(entry.file_type()?).ok_or(Errno::EIO)?;
            let name = self.shown_name(&path, entry.file_name());
            entries.push((self.number(&entry.metadata()?), kind, name));
        }
        Ok(entries)
    }
}

fn seconds_now() -> i64 {
    UNIX_EPOCH.elapsed().unwrap().as_secs().try_into().unwrap()
}

fn timespec(time: Option<TimeOrNow>) -> rustix::fs::Timespec {
    let (tv_sec, tv_nsec) = match time {
        None => (0, rustix::fs::UTIME_OMIT),
        Some(TimeOrNow::Now) => (0, rustix::fs::UTIME_NOW),
        Some(TimeOrNow::SpecificTime(time)) => match time.duration_since(UNIX_EPOCH) {
            Ok(since) => (i64::try_from(since.as_secs()).unwrap(), since.subsec_nanos().into()),
            Err(before) => {
                let before = before.duration();
                let begun = i64::from(before.subsec_nanos() > 0);
                let nanos = (1_000_000_000 - i64::from(before.subsec_nanos())) % 1_000_000_000;
                (-i64::try_from(before.as_secs()).unwrap() - begun, nanos)
            }
        },
    };
    rustix::fs::Timespec { tv_sec, tv_nsec }
}
