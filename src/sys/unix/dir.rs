//! A held directory and what is done with the entries in it.
//!
//! Every call names one component relative to an open handle. With `O_NOFOLLOW` and
//! `AT_SYMLINK_NOFOLLOW` that is enough to stay inside the tree: no path is ever resolved twice.

use std::{
    ffi::OsStr, ffi::OsString, fs::File, io, os::fd::AsFd, os::fd::BorrowedFd, os::fd::OwnedFd,
    os::unix::ffi::OsStrExt, os::unix::ffi::OsStringExt, path::Path, sync::Arc,
    sync::atomic::AtomicU64, sync::atomic::Ordering::Relaxed, thread::sleep, time::Duration,
};

use rustix::{
    fs::AtFlags, fs::CWD, fs::FlockOperation, fs::Mode, fs::OFlags, fs::RenameFlags, fs::Timespec,
    fs::Timestamps, fs::UTIME_NOW, io::Errno,
};

use crate::{
    path::RelPath, sys::part_name::PartOwner, sys::stat::Identity, sys::stat::Kind,
    sys::stat::Stat, sys::stat::Time, sys::types::Lock, sys::unix::kind::*,
    sys::unix::process::acting_as, sys::unix::process::is_root, sys::unix::process::patiently,
    sys::unix::system, sys::unix::system::ONLY_THROUGH, sys::unix::system::UNNOTICED,
    sys::unix::volume::is_on_fuse, sys::unix::volume::is_unsupported,
};

/// A directory that is open, so that names below it are looked up there whatever its own path leads to later; and the
/// path by which the user named it, or one above it: links on that are not to be found from the directory.
#[derive(Debug)]
pub struct Dir(pub(super) OwnedFd, pub(super) Option<Arc<Path>>);

/// Readable and writable by the owner only.
pub(super) const PRIVATE: u32 = 0o600;

pub(super) const DIRECTORY: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

/// A file that somebody holds a lease on, as file servers do, cannot be opened at once: the first try asks the holder
/// to give way (fcntl(2)), and most do so within a millisecond. Milliseconds before each further try.
const LEASE_WAITS: [u64; 8] = [1, 4, 16, 64, 250, 500, 1000, 2000];

/// A wait of so many milliseconds is a long one, and the most that a run spends with these in sum: somebody may keep
/// leases on all files that are his, and give each way at the last moment. Four files are waited for to the end.
const LONG_WAIT: u64 = 64;
const MOST_WAITED: u64 = 15_000;
static WAITED: AtomicU64 = AtomicU64::new(0);

/// Opens a file once the holder of a lease on it has given way, if that is so soon.
#[cold]
fn when_given_way(open: impl Fn() -> Result<OwnedFd, Errno>) -> Result<OwnedFd, Errno> {
    for wait in LEASE_WAITS {
        if wait >= LONG_WAIT && WAITED.fetch_add(wait, Relaxed) >= MOST_WAITED {
            break;
        }
        sleep(Duration::from_millis(wait));
        match open() {
            Err(Errno::AGAIN) => {}
            opened => return opened,
        }
    }
    Err(Errno::AGAIN)
}

impl Dir {
    /// Opens the directory that the user named; links on the way to it are followed.
    pub fn open(path: &Path) -> io::Result<Self> {
        let opened = rustix::fs::openat(CWD, path, DIRECTORY, Mode::empty())?;
        Ok(Self(opened, Some(path.into())))
    }

    /// Opens the directory `name` in this one. Unless `follow`, a symbolic link is refused
    /// (`ELOOP` or `ENOTDIR`).
    pub fn open_dir(&self, name: &OsStr, follow: bool) -> io::Result<Self> {
        let flags = if follow { DIRECTORY } else { DIRECTORY | OFlags::NOFOLLOW };
        let opened = patiently(|| rustix::fs::openat(&self.0, name, flags, Mode::empty()))?;
        Ok(Self(opened, self.1.clone()))
    }

    /// Opens the directory at `path` below this one, component by component; a symbolic link on the
    /// way is refused. The kernel does that in one call if it can.
    pub fn open_below(&self, path: &RelPath) -> io::Result<Self> {
        if let Some(dir) = self.open_at_once(path, DIRECTORY) {
            return Ok(dir);
        }
        path.components()
            .try_fold(self.try_clone()?, |dir, name| dir.open_dir(OsStr::from_bytes(name), false))
    }

    /// Opens for reading a file that this process has open for writing.
    pub fn open_written(&self, name: &OsStr) -> io::Result<File> {
        self.open_file(name, false)
    }

    /// Opens the file `name` for reading, without waiting should it be a FIFO by now, and without
    /// touching its access time where that is allowed. Unless `follow`, a symbolic link is refused.
    pub fn open_file(&self, name: &OsStr, follow: bool) -> io::Result<File> {
        let mut flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        if !follow {
            flags |= OFlags::NOFOLLOW;
        }
        let open = |flags| {
            let open = || patiently(|| rustix::fs::openat(&self.0, name, flags, Mode::empty()));
            match open() {
                Err(Errno::AGAIN) => when_given_way(open),
                opened => opened,
            }
        };
        match open(flags | UNNOTICED) {
            Err(Errno::PERM) => {}
            opened => return Ok(File::from(opened?)),
        }
        Ok(File::from(open(flags)?))
    }

    /// Gives the finished file `part` its final `name`, atomically. Unless `replace`, an entry that
    /// is there already is an error (`AlreadyExists`) and stays.
    pub fn publish(&self, part: &OsStr, name: &OsStr, replace: bool) -> io::Result<()> {
        if replace {
            return self.rename(part, self, name);
        }
        match rustix::fs::renameat_with(&self.0, part, &self.0, name, RenameFlags::NOREPLACE) {
            // File systems without the flag (FUSE, some network ones) say EINVAL, old kernels ENOSYS,
            // filters of system calls EPERM.
            Err(Errno::INVAL | Errno::PERM) => {}
            Err(error) if is_unsupported(error) => {}
            renamed => return Ok(renamed?),
        }
        // A hard link never replaces anything, so it is as atomic as the flag; where there are no
        // hard links either (exFAT), looking first is the best there is.
        match rustix::fs::linkat(&self.0, part, &self.0, name, AtFlags::empty()) {
            Ok(()) => return Ok(rustix::fs::unlinkat(&self.0, part, AtFlags::empty())?),
            Err(Errno::EXIST) => return Err(Errno::EXIST.into()),
            Err(_) => {}
        }
        match self.stat(name, false) {
            Ok(_) => Err(Errno::EXIST.into()),
            Err(absent) if absent.kind() == io::ErrorKind::NotFound => {
                self.rename(part, self, name)
            }
            Err(other) => Err(other),
        }
    }

    /// Removes the file or link `name`.
    pub fn remove(&self, name: &OsStr) -> io::Result<()> {
        Ok(rustix::fs::unlinkat(&self.0, name, AtFlags::empty())?)
    }

    /// Removes the empty directory `name`.
    pub fn remove_dir(&self, name: &OsStr) -> io::Result<()> {
        Ok(rustix::fs::unlinkat(&self.0, name, AtFlags::REMOVEDIR)?)
    }

    /// Moves the entry `name` into `to` under the name `new`, in the place of what is there.
    pub fn rename(&self, name: &OsStr, to: &Dir, new: &OsStr) -> io::Result<()> {
        Ok(rustix::fs::renameat(&self.0, name, &to.0, new)?)
    }

    /// Moves the entry `name`, a directory with everything in it, into `to` under the name `new`. An entry that is
    /// there already is an error (`AlreadyExists`) and stays.
    pub fn move_entry(&self, name: &OsStr, to: &Dir, new: &OsStr) -> io::Result<()> {
        match rustix::fs::renameat_with(&self.0, name, &to.0, new, RenameFlags::NOREPLACE) {
            // As for `publish`.
            Err(Errno::INVAL | Errno::PERM) => {}
            Err(error) if is_unsupported(error) => {}
            renamed => return Ok(renamed?),
        }
        match to.stat(new, false) {
            Ok(_) => Err(Errno::EXIST.into()),
            Err(absent) if absent.kind() == io::ErrorKind::NotFound => self.rename(name, to, new),
            Err(other) => Err(other),
        }
    }

    /// Where the symbolic link `name` points to.
    pub fn read_link(&self, name: &OsStr) -> io::Result<OsString> {
        let target = rustix::fs::readlinkat(&self.0, name, Vec::new())?;
        Ok(OsString::from_vec(target.into_bytes()))
    }

    /// Makes the symbolic link `name` to the entry `target` of this directory; an error if `name` exists.
    pub fn make_name_link(&self, target: &OsStr, name: &OsStr) -> io::Result<()> {
        self.make_link(&target.to_os_string(), name)
    }

    /// The text of the link `name`, if that may be an entry of this directory.
    pub fn read_name_link(&self, name: &OsStr) -> io::Result<Option<OsString>> {
        Ok(Some(self.read_link(name)?))
    }

    /// Makes the symbolic link `name` to `target`; an error if `name` exists.
    pub fn make_link(&self, target: &LinkTarget, name: &OsStr) -> io::Result<()> {
        Ok(rustix::fs::symlinkat(target, &self.0, name)?)
    }

    /// Gives the file `original` in the directory `from` the further name `name` here; an error if
    /// `name` exists.
    pub fn hard_link(&self, from: &Dir, original: &OsStr, name: &OsStr) -> io::Result<()> {
        Ok(rustix::fs::linkat(&from.0, original, &self.0, name, AtFlags::empty())?)
    }

    /// The metadata of `name`; of the link itself unless `follow`.
    pub fn stat(&self, name: &OsStr, follow: bool) -> io::Result<Stat> {
        let flags = if follow { AtFlags::empty() } else { AtFlags::SYMLINK_NOFOLLOW };
        Ok(stat_from(&rustix::fs::statat(&self.0, name, flags)?))
    }

    /// The metadata of this directory.
    pub fn stat_self(&self) -> io::Result<Stat> {
        Ok(stat_from(&rustix::fs::fstat(&self.0)?))
    }

    /// The metadata of an open file.
    pub fn stat_file(file: &File) -> io::Result<Stat> {
        Ok(stat_from(&rustix::fs::fstat(file)?))
    }

    /// The directory above this one; itself at the top. One that may [only be gone through](ONLY_THROUGH) can be looked
    /// at and climbed from.
    pub fn parent(&self) -> io::Result<Dir> {
        let open = |flags| rustix::fs::openat(&self.0, "..", flags, Mode::empty());
        let opened = match open(DIRECTORY) {
            Err(Errno::ACCESS) => open(DIRECTORY | ONLY_THROUGH),
            opened => opened,
        };
        Ok(Self(opened?, self.1.clone()))
    }

    /// The directory's identity.
    pub fn identity(&self) -> io::Result<Identity> {
        Ok(self.stat_self()?.id)
    }

    /// True if files here have a change time that no program can set, and numbers of their own. FAT and exFAT have
    /// neither: their change time is the modification time, and numbers are made up as files are met.
    pub fn has_change_times(&self) -> bool {
        fs_kind(self).is_some_and(|kind| ![FAT, EXFAT].contains(&kind))
    }

    /// True if a file here is known to keep its inode number as long as it is there. Others make numbers up as files
    /// are met.
    pub fn keeps_numbers(&self) -> bool {
        const KINDS: [u32; 9] = [EXT, XFS, BTRFS, F2FS, TMPFS, ZFS, BCACHEFS, NFS, OVERLAY];
        is_one_of(self, &KINDS)
    }

    /// When this directory was made, where the system tells.
    pub fn birth(&self) -> Option<Time> {
        Self::birth_of(self)
    }

    /// Fails if nothing can be made in this directory: its file system is mounted for reading only, or this process may
    /// not.
    pub fn check_writable(&self) -> io::Result<()> {
        let access = rustix::fs::Access::WRITE_OK | rustix::fs::Access::EXEC_OK;
        Ok(rustix::fs::accessat(&self.0, ".", access, AtFlags::EACCESS)?)
    }

    /// True if this directory belongs to the user of this process and is closed to all others.
    pub fn is_private(&self) -> io::Result<bool> {
        let stat = self.stat_self()?;
        Ok(stat.uid == acting_as().0 && stat.mode & 0o077 == 0)
    }

    /// True if this directory belongs to the user of this process.
    pub fn is_ours(&self) -> io::Result<bool> {
        Ok(self.stat_self()?.uid == acting_as().0)
    }

    /// Waits until this directory's entries (not the files they name) are on the device. A file system
    /// without such a call (HFS: `EINVAL`, fsync(2)) writes them when it likes, which [its
    /// traits](crate::sys::traits::Traits::syncs_names) tell.
    pub fn persist(&self) -> io::Result<()> {
        match system::fsync(&self.0) {
            Err(Errno::INVAL) => Ok(()),
            persisted => Ok(persisted?),
        }
    }

    /// Locks the directory against other runs until every handle made from this one is closed, also
    /// by the end of the process.
    pub fn lock(&self) -> io::Result<Lock> {
        lock(&self.0)
    }

    /// Locks the directory against runs that want to be alone with it, together with others that share it. A lock
    /// that is held becomes a shared one.
    pub fn lock_shared(&self) -> io::Result<Lock> {
        lock_by(&self.0, FlockOperation::NonBlockingLockShared)
    }

    /// A further handle of the same directory.
    pub fn try_clone(&self) -> io::Result<Dir> {
        let further = patiently(|| rustix::io::fcntl_dupfd_cloexec(&self.0, 0))?;
        Ok(Self(further, self.1.clone()))
    }
}

/// Locks what is open, until it is closed in all processes.
pub(super) fn lock(open: impl AsFd) -> io::Result<Lock> {
    lock_by(open, FlockOperation::NonBlockingLockExclusive)
}

fn lock_by(open: impl AsFd, how: FlockOperation) -> io::Result<Lock> {
    match rustix::fs::flock(open, how) {
        Ok(()) => Ok(Lock::Held),
        Err(Errno::WOULDBLOCK) => Ok(Lock::Taken),
        // Over NFS a lock needs a file opened for writing, which a directory cannot be.
        Err(Errno::BADF | Errno::NOLCK | Errno::INVAL) => Ok(Lock::Unknown),
        Err(error) if is_unsupported(error) => Ok(Lock::Unknown),
        Err(other) => Err(other.into()),
    }
}

impl AsFd for Dir {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Where a symbolic link points to.
pub type LinkTarget = OsString;

/// A file name from the bytes that a manifest or a [`RelPath`](crate::path::RelPath) holds.
pub fn name_from_bytes(bytes: &[u8]) -> io::Result<&OsStr> {
    Ok(OsStr::from_bytes(bytes))
}

/// The reason why nothing of this name can be made: none here, where every name is possible.
pub fn unusable(_: &OsStr) -> Option<&'static str> {
    None
}

/// Why what this path names could not be read: here a device has no name of its own.
pub fn names_device(_: &Path) -> Option<&'static str> {
    None
}

/// True if an argument shows that a quotation mark was swallowed by the command line: never here, where shells take a
/// backslash before it as what it looks like.
pub fn swallowed_quote(_: &OsStr) -> bool {
    false
}

/// Owner and group as the calls want them.
pub(super) fn owner_of(stat: &Stat) -> (Option<rustix::fs::Uid>, Option<rustix::fs::Gid>) {
    (Some(rustix::fs::Uid::from_raw(stat.uid)), Some(rustix::fs::Gid::from_raw(stat.gid)))
}

/// The times to give a copy: the access time becomes now. Left as it is, libfuse 2 would ignore the call
/// (`fuse_lib_setattr` in lib/fuse.c of 2.9 wants both).
pub(super) fn times_of(stat: &Stat) -> Timestamps {
    Timestamps {
        last_access: Timespec { tv_sec: 0, tv_nsec: UTIME_NOW },
        last_modification: Timespec { tv_sec: stat.mtime.secs, tv_nsec: stat.mtime.nanos.into() },
    }
}

pub(super) fn kind_of(mode: rustix::fs::RawMode) -> Kind {
    use rustix::fs::FileType;
    match FileType::from_raw_mode(mode) {
        FileType::RegularFile => Kind::File,
        FileType::Directory => Kind::Dir,
        FileType::Symlink => Kind::Symlink,
        FileType::Fifo => Kind::Fifo,
        FileType::Socket => Kind::Socket,
        _ => Kind::Device,
    }
}

// The types of these fields differ between systems, so a cast that is empty here is needed there.
#[allow(clippy::unnecessary_cast)]
pub(super) fn stat_from(stat: &rustix::fs::Stat) -> Stat {
    Stat {
        kind: kind_of(stat.st_mode),
        size: stat.st_size as u64,
        // st_blocks counts units of 512 bytes whatever the file system's block size is (stat(2)).
        allocated: stat.st_blocks as u64 * 512,
        mtime: Time { secs: stat.st_mtime as i64, nanos: stat.st_mtime_nsec as u32 },
        ctime: Time { secs: stat.st_ctime as i64, nanos: stat.st_ctime_nsec as u32 },
        id: Identity { dev: stat.st_dev as u64, ino: stat.st_ino as u64 },
        links: stat.st_nlink as u64,
        mode: stat.st_mode as u32 & 0o7777,
        uid: stat.st_uid,
        gid: stat.st_gid,
    }
}

// Making files and directories, also where a server in user space makes them.

/// Number of tries for an entry that a server refuses to make, …
const TRIES: u32 = 4;

/// … and how far apart.
const PAUSE: Duration = Duration::from_millis(15);

impl Dir {
    /// Makes the new file `name` for writing, for its owner only if `private`, otherwise as the
    /// user's umask has it; an error if it exists.
    pub fn create_new(&self, name: &OsStr, private: bool) -> io::Result<File> {
        self.create_as(name, if private { PRIVATE } else { 0o666 })
    }

    /// The same with these permissions, as the user's umask has them.
    pub fn create_as(&self, name: &OsStr, mode: u32) -> io::Result<File> {
        let flags =
            OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mode = Mode::from_raw_mode(mode as _);
        let make = || patiently(|| rustix::fs::openat(self, name, flags, mode));
        Ok(File::from(self.permitted(make)?))
    }

    /// Makes an entry, and tries it again where a server in user space says that it is not permitted: gocryptfs makes
    /// entries in the name of the user who asks, and now and then refuses one while a file is being synced.
    fn permitted<T>(&self, make: impl Fn() -> Result<T, Errno>) -> Result<T, Errno> {
        let mut made = make();
        for _ in 1..TRIES {
            if !matches!(made, Err(Errno::PERM)) || is_root() || !is_on_fuse(self) {
                break;
            }
            std::thread::sleep(PAUSE);
            made = make();
        }
        made
    }

    /// Makes the directory `name`: for its owner only if `private`, otherwise as the user's umask
    /// has it.
    pub fn make_dir(&self, name: &OsStr, private: bool) -> io::Result<()> {
        let mode = if private { Mode::RWXU } else { Mode::RWXU | Mode::RWXG | Mode::RWXO };
        Ok(self.permitted(|| rustix::fs::mkdirat(self, name, mode))?)
    }
}

// Directories in which their own owner may make nothing, and making that possible for a time.

/// The permissions that an owner needs to make entries in a directory.
const OWNER_MAKES: u32 = 0o300;

impl Dir {
    /// True if the owner of a directory that is `stat` could not make entries in it, and is this process. Root needs no
    /// leave.
    pub fn is_closed(stat: &Stat) -> bool {
        !is_root() && stat.mode & OWNER_MAKES != OWNER_MAKES && stat.uid == acting_as().0
    }

    /// Lets the owner make entries in this directory, which is `stat`, if it [is closed](Self::is_closed); whether
    /// that changed anything.
    pub fn open_up(&self, stat: &Stat) -> io::Result<bool> {
        if !Self::is_closed(stat) {
            return Ok(false);
        }
        rustix::fs::fchmod(&self.0, Mode::from_raw_mode((stat.mode | OWNER_MAKES) as _))?;
        Ok(true)
    }

    /// Takes back what [`open_up`](Self::open_up) changed of this directory, which was `stat`.
    pub fn close_up(&self, stat: &Stat) -> io::Result<()> {
        Ok(rustix::fs::fchmod(&self.0, Mode::from_raw_mode(stat.mode as _))?)
    }

    /// True if a file that is made here for this user only shows that it is.
    ///
    /// # Errors
    /// It cannot be tried.
    pub fn keeps_labels(&self, owner: PartOwner) -> io::Result<bool> {
        let (file, name) = self.create_part(owner)?;
        let made = Dir::stat_file(&file);
        self.remove_trial(file, &name)?;
        made.map(|made| made.uid == acting_as().0 && made.mode & 0o077 == 0)
    }

    /// True if a directory that is `now` is the result of [`open_up`](Self::open_up) for one of the permissions `mode`.
    pub fn is_opened_up(now: &Stat, mode: u32) -> bool {
        now.mode == mode | OWNER_MAKES && now.mode != mode
    }
}
