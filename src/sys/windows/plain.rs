//! Files that the user names for the program itself: a log, a list, a job.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::windows::fs::FileExt;
use std::path::{Path, PathBuf};

use crate::sys::types::PlainUse;

/// Opens the file at `path`; one that is to be written is made if it is missing. Making links takes a
/// privilege here, and a pipe lies in no directory: what is there is taken as it is.
///
/// # Errors
/// It cannot be opened.
pub fn open_plain(path: &Path, purpose: PlainUse) -> io::Result<File> {
    let mut options = OpenOptions::new();
    match purpose {
        PlainUse::Read => options.read(true),
        PlainUse::Append => options.append(true).create(true),
        PlainUse::Replace => options.write(true).create(true).truncate(true),
    };
    options.open(path)
}

/// What lets others change the file at `path`, or put another one there: on Windows nothing is known of that, and a job
/// is looked for only where administrators and this user write.
pub fn who_else_changes(_path: &Path, _file: &File) -> io::Result<Option<PathBuf>> {
    Ok(None)
}

/// Reads what a file has from `at` on, wherever others read it; 0 at its end.
///
/// # Errors
/// The system's.
pub fn read_at(file: &File, room: &mut [u8], at: u64) -> io::Result<usize> {
    file.seek_read(room, at)
}
