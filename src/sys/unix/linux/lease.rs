//! Leases, which tell who has a file open.

use std::{fs::File, io, os::fd::AsRawFd};

/// True if a process can write to a file by a descriptor or a mapping: then there is no lease of it to read (fcntl(2)).
pub fn is_open_for_writing(file: &File) -> io::Result<bool> {
    /// The number in linux/fcntl.h: the signal that tells of it.
    const F_SETSIG: libc::c_int = 10;
    let control = |command, argument: libc::c_int| {
        // SAFETY: an open descriptor, and commands that take a number.
        match unsafe { libc::fcntl(file.as_raw_fd(), command, argument) } {
            -1 => Err(io::Error::last_os_error()),
            _ => Ok(()),
        }
    };
    // Who wants to write meanwhile waits, and this process is told of it: by a signal that ends no process.
    control(F_SETSIG, libc::SIGURG)?;
    match control(libc::F_SETLEASE, libc::F_RDLCK) {
        Ok(()) => control(libc::F_SETLEASE, libc::F_UNLCK).map(|()| false),
        Err(error) => Ok(error.kind() == io::ErrorKind::WouldBlock),
    }
}
