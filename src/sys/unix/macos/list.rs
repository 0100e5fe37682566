//! Reading a directory in bounded batches through its handle (getattrlistbulk(2)).

use std::{io, os::fd::AsFd, os::fd::AsRawFd};

use super::bulk;
use crate::sys::{types::ListedEntry, unix::dir::Dir};

/// Room for the names of about 1,000 entries.
const BUFFER: usize = 64 * 1024;

/// The buffer that directories are listed through; one serves any number of them. Its words are as far apart as the
/// system wants them.
pub struct DirReader(Vec<u64>);

impl Default for DirReader {
    fn default() -> Self {
        Self(vec![0; BUFFER / size_of::<u64>()])
    }
}

impl DirReader {
    /// The next entries of `dir`, without `.` and `..`; none when all were listed. The position is
    /// the handle's own, so no other thread may list through it.
    pub fn next_batch(&mut self, dir: &Dir) -> io::Result<Vec<ListedEntry>> {
        let mut asked = libc::attrlist {
            bitmapcount: libc::ATTR_BIT_MAP_COUNT,
            reserved: 0,
            commonattr: bulk::ASKED,
            volattr: 0,
            dirattr: 0,
            fileattr: 0,
            forkattr: 0,
        };
        let fd = dir.as_fd().as_raw_fd();
        // SAFETY: the call reads the structure, and writes no further than there is room for.
        let count = unsafe {
            let room = self.0.as_mut_ptr().cast();
            libc::getattrlistbulk(fd, (&raw mut asked).cast(), room, BUFFER, 0)
        };
        let count = usize::try_from(count).map_err(|_| io::Error::last_os_error())?;
        // SAFETY: the bytes of these numbers, of which any value is one.
        let answer = unsafe { std::slice::from_raw_parts(self.0.as_ptr().cast(), BUFFER) };
        bulk::entries(answer, count)
    }

    /// The next batch of a directory cannot be its first again here.
    pub fn begin_anew(_: &Dir) -> io::Result<bool> {
        Ok(false)
    }

    /// No file system here is known to pass over what is renamed meanwhile.
    pub fn passes_over(_: &Dir) -> bool {
        false
    }
}

impl Dir {
    /// Cannot be asked here: directories of one file system treat names alike.
    pub fn folds_by_itself(&self) -> bool {
        false
    }
}
