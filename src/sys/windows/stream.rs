//! The ends of a stream: standard input and output, named pipes and devices.
//!
//! Reading from a pipe asks first, so that a reader can look up whether it is to stop; writing
//! waits.

use std::{fs::File, io, io::Read, io::Write, os::windows::io::AsHandle, path::Path};

use windows_sys::{
    Win32::Foundation::ERROR_PIPE_NOT_CONNECTED, Win32::Storage::FileSystem::FILE_ATTRIBUTE_ARCHIVE,
};

use crate::sys::windows::{dir::Dir, process::standard_input, process::wait_readable};
use crate::{sys::stat::Kind, sys::stat::Stat};

/// An open end of a stream.
#[derive(Debug)]
pub struct StreamEnd {
    pub(in crate::sys) file: File,
    pub(in crate::sys) stat: Stat,
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
