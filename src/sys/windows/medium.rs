//! Reading a file from its device rather than from memory.
//!
//! A check that reads the system's cache proves what the memory holds. So a file is opened once more
//! without buffering: then the file system writes first what it has not written yet, and reads from
//! the device. What lies below (a controller's or a drive's own cache, the host of a virtual machine)
//! is out of sight.

use std::{fs::File, io, os::windows::fs::FileExt, os::windows::io::AsHandle};

use windows_sys::{
    Wdk::Storage::FileSystem::FILE_NO_INTERMEDIATE_BUFFERING,
    Wdk::Storage::FileSystem::FILE_NON_DIRECTORY_FILE, Wdk::Storage::FileSystem::FILE_OPEN,
    Wdk::Storage::FileSystem::FILE_SEQUENTIAL_ONLY,
    Win32::Storage::FileSystem::FILE_ATTRIBUTE_COMPRESSED,
    Win32::Storage::FileSystem::FILE_ATTRIBUTE_ENCRYPTED,
    Win32::Storage::FileSystem::FILE_ATTRIBUTE_REPARSE_POINT,
    Win32::Storage::FileSystem::FILE_GENERIC_READ,
};

use crate::{
    sys::stat::Stat, sys::windows::nt, sys::windows::nt::OpenHow, sys::windows::nt::SHARE_ALL,
    sys::windows::nt::is_remote, sys::windows::volume::file_system, sys::windows::volume::room,
};

/// The number of bytes at which reads without buffering must start, in memory and in the file; every
/// device's sectors known today divide it.
pub const ALIGNMENT: usize = 4096;

/// A file being read.
pub struct Medium<'a> {
    file: &'a File,
    /// The same file without buffering.
    direct: Option<File>,
    read: u64,
}

impl<'a> Medium<'a> {
    /// Reads `file` without asking where from.
    pub fn any(file: &'a File) -> Self {
        Self { file, direct: None, read: 0 }
    }

    /// Nothing is let go of here.
    pub fn staying(self, _: bool) -> Self {
        self
    }

    /// Reads `file`, which is `stat`, from its device if that can be had.
    ///
    /// # Errors
    /// None here; elsewhere, what was in memory only could not be written.
    pub fn of(file: &'a File, stat: &Stat) -> io::Result<Self> {
        let mut medium = Self::any(file);
        if reads_from_device(file, stat) {
            let options =
                FILE_NO_INTERMEDIATE_BUFFERING | FILE_NON_DIRECTORY_FILE | FILE_SEQUENTIAL_ONLY;
            let (access, share, disposition) = (FILE_GENERIC_READ, SHARE_ALL, FILE_OPEN);
            let how = OpenHow { access, share, disposition, options };
            medium.direct = nt::open(Some(file.as_handle()), &[], how).ok().map(File::from);
        }
        Ok(medium)
    }

    /// The next bytes, from the file's beginning on; none at the end. `room` starts and is cut at multiples of
    /// [`ALIGNMENT`].
    pub fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        // Every read moves the file's position, also one that says where it reads.
        let Some(direct) = &self.direct else {
            let read = self.file.seek_read(room, self.read)?;
            self.read += read as u64;
            return Ok(read);
        };
        // Only the last read is not of whole sectors (the documentation of unbuffered files).
        if !self.read.is_multiple_of(ALIGNMENT as u64) {
            return Ok(0);
        }
        let read = direct.seek_read(room, self.read)?;
        self.read += read as u64;
        Ok(read)
    }

    /// Fills `room` with what is at `at`, as far as the file goes. Both are multiples of [`ALIGNMENT`], but for the
    /// length of what is read from memory.
    pub fn fill_at(&self, room: &mut [u8], at: u64) -> io::Result<usize> {
        let (file, mut filled) = (self.direct.as_ref().unwrap_or(self.file), 0);
        while filled < room.len() {
            match file.seek_read(&mut room[filled..], at + filled as u64)? {
                0 => break,
                read => filled += read,
            }
            // Only the last read is not of whole sectors (the documentation of unbuffered files).
            if self.is_direct() && !filled.is_multiple_of(ALIGNMENT) {
                break;
            }
        }
        Ok(filled)
    }

    /// True if reads go around the system's cache.
    pub fn is_direct(&self) -> bool {
        self.direct.is_some()
    }

    /// True if all bytes came from the device.
    pub fn finish(self) -> bool {
        self.direct.is_some()
    }
}

/// True if unbuffered reads of `file` go to a device of this machine: on NTFS and ReFS, unless the content is
/// compressed or encrypted, or so short that NTFS keeps it in its table of files, which stays in memory. Content in
/// clusters of its own takes whole ones.
fn reads_from_device(file: &File, stat: &Stat) -> bool {
    const ROUNDABOUT: u32 =
        FILE_ATTRIBUTE_COMPRESSED | FILE_ATTRIBUTE_ENCRYPTED | FILE_ATTRIBUTE_REPARSE_POINT;
    let in_clusters = || {
        room(file).is_ok_and(|room| {
            stat.allocated > 0 && room.block > 0 && stat.allocated.is_multiple_of(room.block)
        })
    };
    stat.mode & ROUNDABOUT == 0
        && !is_remote(file.as_handle())
        && (stat.size == 0 || in_clusters())
        && matches!(file_system(file).as_deref(), Some("NTFS" | "ReFS"))
}
