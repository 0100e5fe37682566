//! Files that the user names for the program itself: a log, a list, a job.

use std::os::{windows::fs::FileExt, windows::io::AsHandle};
use std::{ffi::OsStr, fs::File, fs::OpenOptions, io, path::Path, path::PathBuf};

use windows_sys::{
    Wdk::Storage::FileSystem::FILE_NON_DIRECTORY_FILE, Wdk::Storage::FileSystem::FILE_OPEN,
    Wdk::Storage::FileSystem::FILE_OPEN_REPARSE_POINT, Win32::Foundation::ERROR_ACCESS_DENIED,
    Win32::Foundation::ERROR_DIRECTORY, Win32::Foundation::ERROR_SHARING_VIOLATION,
    Win32::Storage::FileSystem::FILE_GENERIC_READ, Win32::Storage::FileSystem::FILE_GENERIC_WRITE,
    Win32::Storage::FileSystem::WRITE_DAC,
};

use crate::sys::{
    stat::Kind, stat::Stat, types::Lock, types::PlainUse, windows::dir::Dir,
    windows::name::component, windows::nt, windows::nt::OpenHow, windows::nt::SHARE_READ,
    windows::owner::close, windows::owner::is_ours, windows::volume::persist_file,
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
        Err(io::Error::new(io::ErrorKind::Unsupported, "plans need a system with Unix permissions"))
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
        const NOT_OURS: [u32; 3] = [ERROR_ACCESS_DENIED, ERROR_DIRECTORY, ERROR_SHARING_VIOLATION];
        let access = FILE_GENERIC_READ | FILE_GENERIC_WRITE;
        let options = FILE_NON_DIRECTORY_FILE | FILE_OPEN_REPARSE_POINT;
        let how = OpenHow { access, share: SHARE_READ, disposition: FILE_OPEN, options };
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
///
/// # Errors
/// None.
pub fn is_ours_alone(_: &File, _: &Stat) -> io::Result<bool> {
    Ok(true)
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
