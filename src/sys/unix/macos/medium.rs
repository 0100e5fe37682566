//! Reading a file without knowing where its bytes come from: nothing proves that memory holds none of it.

use std::{fs::File, io};

use crate::sys::{interrupted::uninterrupted, stat::Stat, unix::plain::read_at};

/// The number of bytes at which reads are cut.
pub const ALIGNMENT: usize = 4096;

/// A file being read.
pub struct Medium<'a>(&'a File);

impl<'a> Medium<'a> {
    /// Reads `file` without asking where from.
    pub fn any(file: &'a File) -> Self {
        Self(file)
    }

    /// Reads `file`, and on macOS lets nothing of it into memory that is not there (`F_NOCACHE`).
    ///
    /// # Errors
    /// None.
    pub fn of(file: &'a File, _: &Stat) -> io::Result<Self> {
        #[cfg(target_os = "macos")]
        {
            use std::os::fd::AsRawFd;
            // SAFETY: an open descriptor, and a command that takes a number. It is a hint.
            let _ = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_NOCACHE, 1) };
        }
        Ok(Self(file))
    }

    /// Nothing is let go of here.
    pub fn staying(self, _: bool) -> Self {
        self
    }

    /// The next bytes; none at the end.
    pub fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        uninterrupted(|| io::Read::read(&mut self.0, room))
    }

    /// Fills `room` with what is at `at`, as far as the file goes.
    pub fn fill_at(&self, room: &mut [u8], at: u64) -> io::Result<usize> {
        let mut filled = 0;
        while filled < room.len() {
            match read_at(self.0, &mut room[filled..], at + filled as u64)? {
                0 => break,
                read => filled += read,
            }
        }
        Ok(filled)
    }

    /// No read goes around the system's cache for certain.
    pub fn is_direct(&self) -> bool {
        false
    }

    /// Not all bytes are known to have come from the device.
    pub fn finish(self) -> bool {
        false
    }
}
