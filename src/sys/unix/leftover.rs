//! The leftovers of an earlier run of the same user in a directory, opened with care: another user may have put
//! something else in their place.

use std::{ffi::OsStr, fs::File, io};

use rustix::{fs::Mode, fs::OFlags, io::Errno};

use crate::sys::unix::{
    dir::Dir, dir::lock, process::acting_as, process::is_root, system, system::is_open_for_writing,
};
use crate::{sys::stat::Kind, sys::stat::Stat, sys::types::Lock};

impl Dir {
    /// Opens the file `name` for reading and writing, if it is a regular file with one name that
    /// belongs to the user of this process; then it is readable by its owner only from now on. `None`
    /// if there is no such file or it is anything else: it was not written to.
    pub fn open_ours(&self, name: &OsStr) -> io::Result<Option<(File, Stat)>> {
        Ok(self.open_private(name)?.filter(|(_, stat)| stat.links == 1))
    }

    /// The same where only this user gets into the directory: a snapshot of hard links may have given it further names.
    /// On a file system that is mounted read-only it is opened for reading.
    pub fn open_private(&self, name: &OsStr) -> io::Result<Option<(File, Stat)>> {
        let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let open = |access| rustix::fs::openat(&self.0, name, access | flags, Mode::empty());
        let file = match open(OFlags::RDWR) {
            // Nobody writes to it there.
            Err(Errno::ROFS) => File::from(open(OFlags::RDONLY)?),
            Err(Errno::NOENT | Errno::LOOP | Errno::ISDIR | Errno::NXIO | Errno::ACCESS) => {
                return Ok(None);
            }
            opened => File::from(opened?),
        };
        let stat = Self::stat_file(&file)?;
        if stat.kind != Kind::File || stat.uid != acting_as().0 {
            return Ok(None);
        }
        if stat.mode & 0o077 != 0 {
            rustix::fs::fchmod(&file, Mode::RUSR | Mode::WUSR)?;
        }
        Ok(Some((file, stat)))
    }

    /// Makes the new file `name` for writing, for its owner only if `private`, and locks it where files can be locked;
    /// an error (`AlreadyExists`) if there is something of that name.
    pub fn create_claimed(&self, name: &OsStr, private: bool) -> io::Result<File> {
        let file = self.create_new(name, private)?;
        let claimed =
            lock(&file).and_then(|lock| Ok(lock != Lock::Taken && self.is_called(&file, name)?));
        match claimed {
            Ok(true) => Ok(file),
            // Before it was locked another run may have taken it for abandoned.
            Ok(false) => Err(io::ErrorKind::AlreadyExists.into()),
            Err(error) => {
                let _ = self.remove(name);
                Err(error)
            }
        }
    }

    /// Removes the file `name` if it is a regular file with one name that belongs to who this process acts as,
    /// and that no process has locked; whether it did. Root may have given away what it made.
    pub fn remove_abandoned(&self, name: &OsStr) -> io::Result<bool> {
        let flags = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = File::from(rustix::fs::openat(&self.0, name, flags, Mode::empty())?);
        let stat = Self::stat_file(&file)?;
        let may_be_ours = is_root() || stat.uid == acting_as().0;
        let is_ours = stat.kind == Kind::File && stat.links == 1 && may_be_ours;
        // Each run locks it before removing it: so while it is locked its name stays its own.
        if is_ours && lock(&file)? == Lock::Held && self.is_called(&file, name)? {
            self.remove(name)?;
            return Ok(true);
        }
        Ok(false)
    }

    /// Opens the directory `name`, which was just made, and locks it where that can be done; an error (`AlreadyExists`)
    /// if it is another run's by now, which took it for abandoned.
    pub fn open_claimed(&self, name: &OsStr) -> io::Result<Dir> {
        let dir = self.open_dir(name, false)?;
        match lock(&dir)? != Lock::Taken && self.stat(name, false)?.id == dir.identity()? {
            true => Ok(dir),
            false => Err(io::ErrorKind::AlreadyExists.into()),
        }
    }

    /// Opens the directory `name` and locks it, if no process has. `None` if one has, or it is another user's; root may
    /// have given away what it made.
    pub fn open_abandoned(&self, name: &OsStr) -> io::Result<Option<Dir>> {
        let dir = self.open_dir(name, false)?;
        let is_ours = is_root() || dir.is_ours()?;
        let is_free = is_ours && lock(&dir)? == Lock::Held;
        Ok(Some(dir).filter(|_| is_free))
    }

    /// Keeps the lock of a directory that gets another name; `None` where it must be closed for that.
    pub fn keep_claim(self) -> Option<Dir> {
        Some(self)
    }

    /// True if a process has locked the file `name`, as far as can be told.
    pub fn is_claimed(&self, name: &OsStr) -> bool {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let opened = rustix::fs::openat(&self.0, name, flags, Mode::empty());
        opened.is_ok_and(|file| matches!(lock(&file), Ok(Lock::Taken)))
    }

    fn is_called(&self, file: &File, name: &OsStr) -> io::Result<bool> {
        match self.stat(name, false) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            named => Ok(named?.id == Self::stat_file(file)?.id),
        }
    }
}

/// True if the content of an open file, which is `there`, is this user's alone: it belongs to the user that this
/// process acts as, its permissions let nobody else write to it, and no process has it open for writing from a time
/// when they did. A file system that cannot tell the last is believed by the others.
///
/// # Errors
/// The system's.
pub fn is_ours_alone(file: &File, there: &Stat) -> io::Result<bool> {
    // Where there are access lists, these bits are the most that a list gives to anybody but the owner.
    let is_closed = there.uid == acting_as().0 && there.mode & 0o022 == 0;
    Ok(is_closed && !is_open_for_writing(file)?)
}

/// Keeps a file locked that is about to be closed; `None` where files are not locked.
pub fn keep_locked(file: &File) -> io::Result<Option<File>> {
    // The lock belongs to what was opened, and ends with the last descriptor of it (flock(2)).
    file.try_clone().map(Some)
}

/// Waits until a file's content, and what is needed to find it, are on the device. An error is final,
/// as with [`persist_file`](crate::sys::unix::volume::persist_file).
pub fn persist_content(file: &File) -> io::Result<()> {
    Ok(system::fdatasync(file)?)
}
