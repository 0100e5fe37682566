//! The ends of a stream: standard input and output, FIFOs and devices, which may have nothing to give
//! or no room to take for as long as they like.
//!
//! Nothing here waits longer than a tenth of a second, so that a reader or writer can look up
//! whether it is to stop. Calls that do not wait (`O_NONBLOCK`) are a property of what was opened, which
//! other programs may share (a terminal, a pipe of the shell's); so a pipe that was inherited is opened
//! anew where the system can do that, and anything else is asked first.

use std::io::{Read, Write};
use std::{fs::File, io, os::fd::AsFd, os::fd::AsRawFd, path::Path, sync::OnceLock};

use rustix::{
    fs::AtFlags, fs::CWD, fs::FileType, fs::Mode, fs::OFlags, fs::Timespec, fs::Timestamps,
    fs::UTIME_NOW, fs::UTIME_OMIT, io::Errno,
};

use crate::sys::unix::plain::open_end;
use crate::sys::unix::process::{has_hung_up, standard_input, wait_readable, wait_writable};
use crate::sys::{
    Attributes, stat::Kind, stat::Stat, unix::attributes::label_written, unix::dir::Dir,
};

/// The flags that every end is opened with: without waiting, and without becoming a terminal's program.
const FLAGS: OFlags = OFlags::NONBLOCK.union(OFlags::NOCTTY).union(OFlags::CLOEXEC);

/// An open end of a stream.
#[derive(Debug)]
pub struct StreamEnd {
    pub file: File,
    pub stat: Stat,
    /// True if calls return instead of waiting.
    returns: bool,
}

impl StreamEnd {
    /// Opens what is to be read, of any kind but a directory. A FIFO that has no writer yet
    /// reads like one at its end: wait with [`wait_readable`] before the first read.
    pub fn open_input(path: &Path) -> io::Result<Self> {
        let end = Self::of(File::from(open_end(path, OFlags::RDONLY | FLAGS)?))?;
        match end.stat.kind {
            Kind::Dir => Err(Errno::ISDIR.into()),
            _ => Ok(Self { returns: true, ..end }),
        }
    }

    /// Opens a FIFO or a character device for writing; `None` while the FIFO has no reader. A block
    /// device is refused: writing there would overwrite its content.
    pub fn open_output(path: &Path) -> io::Result<Option<Self>> {
        let file = match open_end(path, OFlags::WRONLY | FLAGS) {
            Err(error) if Errno::from_io_error(&error) == Some(Errno::NXIO) && is_fifo(path) => {
                return Ok(None);
            }
            opened => File::from(opened?),
        };
        let kind = FileType::from_raw_mode(rustix::fs::fstat(&file)?.st_mode);
        if !matches!(kind, FileType::Fifo | FileType::CharacterDevice) {
            let text = "only files, FIFOs and character devices are written to";
            return Err(io::Error::new(io::ErrorKind::Unsupported, text));
        }
        Ok(Some(Self { returns: true, ..Self::of(file)? }))
    }

    pub fn standard_input() -> io::Result<Self> {
        Self::inherited(standard_input()?, OFlags::RDONLY)
    }

    /// Standard output, without a buffer.
    pub fn standard_output() -> io::Result<Self> {
        let file = File::from(io::stdout().as_fd().try_clone_to_owned()?);
        Self::inherited(file, OFlags::WRONLY)
    }

    fn inherited(file: File, access: OFlags) -> io::Result<Self> {
        let end = Self::of(file)?;
        if end.stat.kind != Kind::Fifo {
            return Ok(end);
        }
        // Not allowed for a pipe that another user made, nor where there is no /proc.
        let path = format!("/proc/self/fd/{}", end.file.as_raw_fd());
        match rustix::fs::openat(CWD, path, access | FLAGS, Mode::empty()) {
            Ok(file) => Ok(Self { file: File::from(file), returns: true, ..end }),
            Err(_) => Ok(end),
        }
    }

    fn of(file: File) -> io::Result<Self> {
        let stat = Dir::stat_file(&file)?;
        Ok(Self { file, stat, returns: false })
    }

    /// Reads what is there; 0 at the end, `None` when nothing came within a tenth of a second.
    pub fn read(&self, room: &mut [u8]) -> io::Result<Option<usize>> {
        if !self.returns && !wait_readable(&self.file) {
            return Ok(None);
        }
        let read = self.try_read(room)?;
        if read.is_none() {
            wait_readable(&self.file);
        }
        Ok(read)
    }

    /// Reads what is there without waiting at all.
    pub fn read_at_once(&self, room: &mut [u8]) -> io::Result<Option<usize>> {
        if self.returns { self.try_read(room) } else { Ok(None) }
    }

    fn try_read(&self, room: &mut [u8]) -> io::Result<Option<usize>> {
        unless_waiting((&self.file).read(room))
    }

    /// True if nothing written here can reach a reader any more. Of pipes and sockets the system says so without a
    /// write.
    pub fn has_lost_reader(&self) -> bool {
        matches!(self.stat.kind, Kind::Fifo | Kind::Socket) && has_hung_up(&self.file)
    }

    /// Writes as much as there is room for; `None` when there was none within a tenth of a second.
    pub fn write(&self, bytes: &[u8]) -> io::Result<Option<usize>> {
        if !self.returns && self.stat.kind != Kind::File && !wait_writable(&self.file) {
            return Ok(None);
        }
        let written = unless_waiting((&self.file).write(bytes))?;
        if written.is_none() {
            wait_writable(&self.file);
        }
        Ok(written)
    }
}

/// Checks that this process may read the entry at `path`, without opening it: that would wake the program that waits at
/// the other end of a FIFO.
pub fn may_read(path: &Path) -> io::Result<()> {
    Ok(rustix::fs::accessat(CWD, path, rustix::fs::Access::READ_OK, AtFlags::EACCESS)?)
}

/// The permissions that a new file of this process gets.
// The type differs between systems, so a cast that is empty here is needed there.
#[allow(clippy::unnecessary_cast)]
pub fn new_file_mode() -> u32 {
    // The call that asks sets it too, for all threads at once: two that asked at the same moment would be told what
    // the other one set.
    static MODE: OnceLock<u32> = OnceLock::new();
    *MODE.get_or_init(|| {
        let mask = told_umask().unwrap_or_else(|| {
            let mask = rustix::process::umask(Mode::from_raw_mode(0o077));
            rustix::process::umask(mask);
            mask.as_raw_mode() as u32
        });
        0o666 & !mask
    })
}

/// The umask, where the system tells it (Linux 4.7, proc_pid_status(5)).
fn told_umask() -> Option<u32> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let mask = status.lines().find_map(|line| line.strip_prefix("Umask:"))?;
    u32::from_str_radix(mask.trim(), 8).ok()
}

/// Gives a file of our own the permissions that `mode` says for its group, and takes from it what its directory gave it
/// for others. Where it cannot have them it stays as it is: not more open than it was.
///
/// # Errors
/// Something that was written to it is lost, as the system said meanwhile.
// The type differs between systems, so a cast that is empty here is needed there.
#[allow(clippy::unnecessary_cast)]
pub fn let_read(file: &File, mode: impl Fn(u32) -> u32) -> io::Result<()> {
    if let Ok(stat) = rustix::fs::fstat(file)
        && Attributes::default().shed_lists(file).is_ok()
    {
        let mode = Mode::from_raw_mode(mode(stat.st_gid) as _);
        let _refused = label_written(file, &|| rustix::fs::fchmod(file, mode))?;
    }
    Ok(())
}

/// Gives a file of our own the time of now; whether that could be done.
///
/// # Errors
/// Something that was written to it is lost, as the system said meanwhile.
pub fn touch(file: &File) -> io::Result<bool> {
    let now = |tv_nsec| Timespec { tv_sec: 0, tv_nsec };
    let times = Timestamps { last_access: now(UTIME_OMIT), last_modification: now(UTIME_NOW) };
    Ok(label_written(file, &|| rustix::fs::futimens(file, &times))?.is_ok())
}

fn is_fifo(path: &Path) -> bool {
    rustix::fs::stat(path).is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::Fifo)
}

fn unless_waiting(done: io::Result<usize>) -> io::Result<Option<usize>> {
    match done {
        Err(error)
            if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) =>
        {
            Ok(None)
        }
        done => done.map(Some),
    }
}
