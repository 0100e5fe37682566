//! What an earlier run of the same user left in a directory, opened with care: another user may have
//! put something else in its place.

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::windows::io::AsHandle;

use windows_sys::Wdk::Storage::FileSystem::{
    FILE_NON_DIRECTORY_FILE, FILE_OPEN, FILE_OPEN_REPARSE_POINT,
};
use windows_sys::Win32::Foundation::{
    ERROR_ACCESS_DENIED, ERROR_DIRECTORY, ERROR_SHARING_VIOLATION,
};
use windows_sys::Win32::Storage::FileSystem::{FILE_GENERIC_READ, FILE_GENERIC_WRITE};

use crate::sys::stat::{Kind, Stat};
use crate::sys::types::Lock;
use crate::sys::windows::dir::Dir;
use crate::sys::windows::name::component;
use crate::sys::windows::nt::{self, OpenHow, SHARE_READ};
use crate::sys::windows::owner::is_ours;
use crate::sys::windows::volume::persist_file;

impl Dir {
    /// Whether this directory belongs to the user of this process.
    pub fn is_ours(&self) -> io::Result<bool> {
        self.is_private()
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
        let ours = stat.kind == Kind::File && stat.links == 1 && is_ours(file.as_handle());
        Ok(ours.then_some((file, stat)))
    }

    /// Makes the new file `name` for writing; an error (`AlreadyExists`) if there is something of that name.
    pub fn create_claimed(&self, name: &OsStr) -> io::Result<File> {
        self.create_new(name, true)
    }

    /// Not known here: a file that is written cannot be removed anyway.
    pub fn is_claimed(&self, _: &OsStr) -> bool {
        false
    }

    /// Removes nothing here: a file that is closed to be renamed cannot be told from an abandoned one.
    pub fn remove_abandoned(&self, _: &OsStr) -> io::Result<bool> {
        Ok(false)
    }
}

/// Whether the content of an open file is this user's alone. Nothing is given with attributes, so it is not asked.
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
