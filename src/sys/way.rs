//! What the system does about the bytes of a file itself: whether it shares them, how it moves them.

use std::io;

/// What came of asking for a clone.
#[derive(Debug)]
pub enum Cloned {
    /// The new file shares all data of the old one.
    Yes,
    /// It is still empty, for this reason; `ever` if it will be so for every file of the two file
    /// systems.
    No {
        /// What the system said.
        cause: io::Error,
        /// Whether asking again is of no use.
        ever: bool,
    },
}

/// How the kernel moves bytes from one file to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// `copy_file_range`: within one file system, or by a server.
    Range,
    /// `sendfile`: through the page cache. Preferred to `splice` through a pipe, which took 1.1 to
    /// 1.3 times as long even with a pipe of 1 MiB (400 MiB, tmpfs to tmpfs, ext4 and xfs, least of
    /// 5 rounds) and can lose what is in the pipe.
    Send,
    /// Not at all: they are to be read and written.
    None,
}
