//! What the user names for the program itself, or hands over: files such as a log, a list or a job, and the ends of a
//! stream.

use std::{
    ffi::OsStr, fs::File, fs::OpenOptions, io, io::Read, io::Write, os::windows::fs::FileExt,
    os::windows::io::AsHandle, path::Path, path::PathBuf,
};

use windows_sys::Wdk::Storage::FileSystem::{
    FILE_NON_DIRECTORY_FILE, FILE_OPEN, FILE_OPEN_REPARSE_POINT,
};
use windows_sys::Win32::Foundation::{
    ERROR_ACCESS_DENIED, ERROR_DIRECTORY, ERROR_PIPE_NOT_CONNECTED, ERROR_SHARING_VIOLATION,
};
use windows_sys::Win32::Storage::FileSystem::{
    FILE_ATTRIBUTE_ARCHIVE, FILE_GENERIC_READ, FILE_GENERIC_WRITE, WRITE_DAC,
};

use crate::{
    sys::stat::Kind, sys::stat::Stat, sys::types::Lock, sys::types::PlainUse,
    sys::windows::dir::Dir, sys::windows::name::component, sys::windows::nt,
    sys::windows::nt::OpenHow, sys::windows::nt::SHARE_ALL, sys::windows::nt::SHARE_READ,
    sys::windows::owner::close, sys::windows::owner::is_ours,
    sys::windows::process::standard_input, sys::windows::process::wait_readable,
    sys::windows::volume::persist_file,
};

/// Opens the file at `path`; one that is to be written is made if it is missing. Making links takes a
/// privilege here, and a pipe lies in no directory: an entry that is there is opened as it is.
///
/// # Errors
/// It cannot be opened.
pub fn open_plain(path: &Path, purpose: PlainUse) -> io::Result<File> {
    let mut options = OpenOptions::new();
    match purpose {
        PlainUse::Read => options.read(true),
        PlainUse::Append => options.append(true).create(true),
    };
    options.open(path)
}

/// The path that lets others change the file at `path`, or put another one there: on Windows nothing is known of that,
/// and a job is looked for only where administrators and this user write.
pub fn who_else_changes(_path: &Path, _file: &File) -> io::Result<Option<PathBuf>> {
    Ok(None)
}

/// The path that lets others change the file at `path`, or make files beside it: the same.
pub fn who_else_makes_beside(_path: &Path) -> io::Result<Option<PathBuf>> {
    Ok(None)
}

/// Reads what a file has from `at` on, wherever others read it; 0 at its end.
///
/// # Errors
/// The system's.
pub fn read_at(file: &File, room: &mut [u8], at: u64) -> io::Result<usize> {
    file.seek_read(room, at)
}

const NO_PLANS: &str = "plans need a system with Unix permissions";

/// Why no directory can be closed to all but its owner, as that of a plan is; `None` where it can.
pub fn why_none_is_closed() -> Option<&'static str> {
    Some(NO_PLANS)
}

// The leftovers of an earlier run of the same user in a directory, opened with care: another user may have put
// something else in their place.

impl Dir {
    /// True if this directory belongs to the user of this process.
    pub fn is_ours(&self) -> io::Result<bool> {
        self.is_private()
    }

    /// Takes the rights from this directory that it inherited: it, and all that is made in it later, is for its user,
    /// the system and administrators.
    ///
    /// # Errors
    /// There are no access lists here, or the user may not set them.
    pub fn inherit_nothing(&self) -> io::Result<()> {
        close(self.reopen(WRITE_DAC)?.as_handle())
    }

    /// Closes the directory to all but its owner: not here.
    pub fn close_to_others(&self) -> io::Result<()> {
        Err(io::Error::new(io::ErrorKind::Unsupported, NO_PLANS))
    }

    /// Locks the directory together with others that share it: here a lock has one holder.
    pub fn lock_shared(&self) -> io::Result<Lock> {
        Err(io::Error::new(io::ErrorKind::Unsupported, "here no runs can share a directory"))
    }

    /// Opens the file `name` for reading and writing, if it is a regular file with one name that
    /// belongs to the user of this process. `None` if there is no such file or it is anything else, or
    /// the file system does not say whose it is: it was not written to.
    pub fn open_ours(&self, name: &OsStr) -> io::Result<Option<(File, Stat)>> {
        Ok(self.open_private(name)?.filter(|(_, stat)| stat.links == 1))
    }

    /// The same where only this user gets into the directory: there it may have further names.
    pub fn open_private(&self, name: &OsStr) -> io::Result<Option<(File, Stat)>> {
        self.open_kept(name, FILE_GENERIC_READ | FILE_GENERIC_WRITE, SHARE_READ)
    }

    /// The same of one that is written to now.
    pub fn open_private_to_write(&self, name: &OsStr) -> io::Result<Option<(File, Stat)>> {
        self.open_private(name)
    }

    /// The same for reading alone, for as long as a run takes: it is opened once more when the run writes to it.
    pub fn open_private_to_read(&self, name: &OsStr) -> io::Result<Option<(File, Stat)>> {
        self.open_kept(name, FILE_GENERIC_READ, SHARE_ALL)
    }

    fn open_kept(&self, name: &OsStr, access: u32, share: u32) -> io::Result<Option<(File, Stat)>> {
        const NOT_OURS: [u32; 3] = [ERROR_ACCESS_DENIED, ERROR_DIRECTORY, ERROR_SHARING_VIOLATION];
        let options = FILE_NON_DIRECTORY_FILE | FILE_OPEN_REPARSE_POINT;
        let how = OpenHow { access, share, disposition: FILE_OPEN, options };
        let file = match nt::open(Some(self.as_handle()), &component(name)?, how) {
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::NotFound | io::ErrorKind::IsADirectory
                ) || nt::is_one_of(&error, &NOT_OURS) =>
            {
                return Ok(None);
            }
            opened => File::from(opened?),
        };
        let stat = Self::stat_file(&file)?;
        let ours = stat.kind == Kind::File && is_ours(file.as_handle());
        Ok(ours.then_some((file, stat)))
    }

    /// Makes the new file `name` for writing; an error (`AlreadyExists`) if there is something of that name.
    pub fn create_claimed(&self, name: &OsStr, private: bool) -> io::Result<File> {
        self.create_new(name, private)
    }

    /// Not known here: a file that is written cannot be removed anyway.
    pub fn is_claimed(&self, _: &OsStr) -> bool {
        false
    }

    /// Opens the directory `name`, which was just made.
    pub fn open_claimed(&self, name: &OsStr) -> io::Result<Dir> {
        self.open_dir(name, false)
    }

    /// None: what is closed to be renamed cannot be told from what was abandoned.
    pub fn open_abandoned(&self, _: &OsStr) -> io::Result<Option<Dir>> {
        Ok(None)
    }

    /// A directory that is open gets no other name here.
    pub fn keep_claim(self) -> Option<Dir> {
        None
    }

    /// Removes nothing here: a file that is closed to be renamed cannot be told from an abandoned one.
    pub fn remove_abandoned(&self, _: &OsStr) -> io::Result<bool> {
        Ok(false)
    }
}

/// True if the content of an open file is this user's alone. Nothing is given with attributes, so it is not asked.
pub fn is_ours_alone(_: &File, _: &Stat) -> bool {
    true
}

/// No: nobody can while it is open here.
pub fn may_be_written_to(_: &File) -> bool {
    false
}

/// Nothing to be kept: an open file could not be renamed.
pub fn keep_locked(_: &File) -> io::Result<Option<File>> {
    Ok(None)
}

/// Waits until a file's content, and what is needed to find it, are on the device. An error is final,
/// as with [`persist_file`].
pub fn persist_content(file: &File) -> io::Result<()> {
    persist_file(file)
}

// The ends of a stream: standard input and output, named pipes and devices.
//
// Reading from a pipe asks first, so that a reader can look up whether it is to stop; writing
// waits.

/// An open end of a stream.
#[derive(Debug)]
pub struct StreamEnd {
    pub file: File,
    pub stat: Stat,
}

impl StreamEnd {
    /// Opens what is to be read, of any kind but a directory.
    pub fn open_input(path: &Path) -> io::Result<Self> {
        let end = Self::of(File::open(path)?)?;
        match end.stat.kind {
            Kind::Dir => Err(io::ErrorKind::IsADirectory.into()),
            _ => Ok(end),
        }
    }

    /// Opens a named pipe or a device for writing.
    pub fn open_output(path: &Path) -> io::Result<Option<Self>> {
        Self::of(File::options().write(true).open(path)?).map(Some)
    }

    pub fn standard_input() -> io::Result<Self> {
        Self::of(standard_input()?)
    }

    /// Standard output, without a buffer.
    pub fn standard_output() -> io::Result<Self> {
        Self::of(File::from(io::stdout().as_handle().try_clone_to_owned()?))
    }

    fn of(file: File) -> io::Result<Self> {
        let stat = Dir::stat_file(&file)?;
        Ok(Self { file, stat })
    }

    /// Reads what is there; 0 at the end, `None` when nothing came within a tenth of a second.
    pub fn read(&self, room: &mut [u8]) -> io::Result<Option<usize>> {
        if !wait_readable(&self.file) {
            return Ok(None);
        }
        match (&self.file).read(room) {
            // The other end was closed.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(Some(0)),
            read => read.map(Some),
        }
    }

    /// Reads nothing: without waiting, it is not known what is there.
    pub fn read_at_once(&self, _: &mut [u8]) -> io::Result<Option<usize>> {
        Ok(None)
    }

    /// True if nothing written here can reach a reader any more: that is not known before something is written.
    pub fn has_lost_reader(&self) -> bool {
        false
    }

    /// Writes as much as there is room for.
    pub fn write(&self, bytes: &[u8]) -> io::Result<Option<usize>> {
        (&self.file).write(bytes).map(Some).map_err(|error| match error.raw_os_error() {
            // Also said of a pipe whose reader went away; the other two codes are known to the library.
            Some(code) if code == ERROR_PIPE_NOT_CONNECTED as i32 => {
                io::ErrorKind::BrokenPipe.into()
            }
            _ => error,
        })
    }
}

/// Checks that this process may read the entry at `path`.
pub fn may_read(path: &Path) -> io::Result<()> {
    File::open(path).map(drop)
}

/// The attributes that a new file gets.
pub fn new_file_mode() -> u32 {
    FILE_ATTRIBUTE_ARCHIVE
}

/// Gives a file of our own the time of now; whether that could be done.
///
/// # Errors
/// None here.
pub fn touch(file: &File) -> io::Result<bool> {
    Ok(file.set_modified(std::time::SystemTime::now()).is_ok())
}

/// Who may read a file here follows from its directory.
///
/// # Errors
/// None here.
pub fn let_read(_: &File, _: impl Fn(u32) -> u32) -> io::Result<()> {
    Ok(())
}
