//! The words in which every system answers: small types that no system owns.

use std::{ffi::OsStr, ffi::OsString, io, path::PathBuf, sync::Arc};

use serde::{Deserialize, Serialize};

use crate::sys::{Dir, stat::Kind};

/// An entry as its directory lists it, before the file itself was looked at.
#[derive(Debug)]
pub struct ListedEntry {
    /// Its name, one component. All that deal with the entry share this piece of memory.
    pub name: Arc<OsStr>,
    /// The kind by the directory; `None` where the file system keeps no such note, or says only that it is special.
    pub kind: Option<Kind>,
    /// Its inode number, a hint of where it lies on the disk.
    pub ino: u64,
}

impl ListedEntry {
    /// Its kind, looked up in its directory `dir` where that does not list it (sshfs).
    ///
    /// # Errors
    /// It cannot be looked up.
    pub fn kind_in(&self, dir: &Dir) -> io::Result<Kind> {
        self.kind.map_or_else(|| Ok(dir.stat(&self.name, false)?.kind), Ok)
    }
}

/// A file of a directory whose inode number is likely known.
#[derive(Clone, Copy, Debug)]
pub struct NamedInode<'a> {
    pub name: &'a OsStr,
    pub ino: u64,
}

/// A run of data in a sparse file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// Where the next data starts, in bytes; what is before it is a hole.
    pub start: u64,
    /// Where that data ends, in bytes.
    pub end: u64,
}

/// The key that tells the data of files on a file system apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(any(not(target_os = "linux"), feature = "portable"), allow(dead_code))]
pub enum DataSharing {
    /// Nothing that is known to last.
    Unknown,
    /// Their inode numbers.
    Inodes,
    /// Their inode numbers, and where their data lies, which several files can share.
    Extents,
}

/// The free space of a file system.
#[derive(Clone, Copy, Debug)]
pub struct FreeSpace {
    pub bytes: u64,
    /// The unit, in bytes, in which files take room.
    pub block: u64,
    /// Free inodes, where their number is limited.
    pub files: Option<u64>,
}

/// The space in use on a file system.
#[derive(Clone, Copy, Debug, Default)]
pub struct UsedSpace {
    pub bytes: u64,
    pub files: u64,
}

/// Why a directory does not lie on a file system that was mounted for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoOwnMount {
    /// It lies on the file system of `/`, or on the volume of the system itself.
    System,
    /// It lies on a mount that shows one directory of another file system.
    #[cfg_attr(any(not(target_os = "linux"), feature = "portable"), allow(dead_code))]
    // no such mounts there
    Bound {
        /// The directory, from the top of the file system.
        directory: PathBuf,
        /// The device, or other source, that the file system is mounted from.
        source: PathBuf,
    },
}

/// A file system that is mounted from a disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MountedVolume {
    /// Where.
    pub point: PathBuf,
    /// Its label, if it has one. It was chosen when the disk was formatted, and proves nothing.
    pub label: Option<OsString>,
    /// Its UUID or serial number, where the system tells.
    pub uuid: Option<String>,
}

/// The facts about the file system that a directory lies on. What the system does not tell is missing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VolumeDetails {
    /// Its label. It was chosen when the disk was formatted, and proves nothing.
    pub label: Option<OsString>,
    /// Its UUID, or the serial number that Windows gives to a volume.
    pub uuid: Option<String>,
    /// The serial number of the disk.
    pub serial: Option<OsString>,
    /// The name of its kind: `ext4`, `exfat` …
    pub file_system: Option<String>,
    /// Its size in bytes.
    pub size: Option<u64>,
}

/// The worth of a sync that came back without an error, where something is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durable {
    /// A local device was told to flush, and said that it did.
    Device,
    /// A server said that it keeps it.
    Server,
    /// Nobody is known to have said so; why.
    Unknown(&'static str),
}

impl Durable {
    /// Of a file system in memory.
    pub const IN_MEMORY: Self = Durable::Unknown("its file system is in memory");

    /// Its word in summaries and records.
    pub fn word(self) -> &'static str {
        match self {
            Durable::Device => "device",
            Durable::Server => "server",
            Durable::Unknown(_) => "unknown",
        }
    }

    /// Why it is not known.
    pub fn why(self) -> Option<&'static str> {
        match self {
            Durable::Unknown(why) => Some(why),
            _ => None,
        }
    }
}

/// The purpose of a file that the user names for the program itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlainUse {
    /// To be read.
    Read,
    /// To be written to at its end.
    Append,
}

/// Among the names of disks: it may be any.
pub const ANY_DISK: &str = "any disk";

/// The result of locking an output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lock {
    /// Ours, until the process ends.
    Held,
    /// Another run's.
    Taken,
    /// The file system has no such locks: no other run is kept out.
    Unknown,
}

/// A call that a thread of this process is in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PendingCall {
    /// The thread, by its number.
    pub thread: u32,
    /// The deed of the call; completes the sentence "cannot …".
    pub deed: &'static str,
    /// The mark that tells it from any other call of the thread.
    pub mark: String,
}

impl PendingCall {
    /// The deed of calls that write out what waits to be written, and may have much to do.
    pub const SYNC: &'static str = "make durable";
}

/// The process that has locked an output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LockHolder {
    pub process: u32,
    /// The program's name, as bytes from another process: not to be shown raw.
    pub name: Vec<u8>,
    /// When it was started, in seconds since 1970.
    pub since: i64,
}

/// The order of a run's requests at a disk, where the system's scheduler looks at that (on Linux BFQ does).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IoPriority {
    /// Only when no other program wants the disk.
    Idle,
    /// Like other programs, from 0 (first) to 7 (last).
    BestEffort(u8),
}

/// The way to leave the page cache on a file system as it was found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(any(not(target_os = "linux"), feature = "portable"), allow(dead_code))]
pub enum CachePolicy {
    /// Not at all: it is not wanted, or of no use.
    #[default]
    None,
    /// Window by window.
    Windows,
    /// Sparing by the kernel, where it turns out to know how, and by windows: on a busy machine the kernel overlooks
    /// some pages (seen: a tenth of a file).
    Flag,
    /// Written out window by window, and left to who reads it soon, who drops it.
    Later,
}

/// So much of a file is left to who reads it soon; bytes.
pub const MOST_LATER: u64 = 1 << 30;

/// Number of bytes of a file that stay in memory because it was read or written; nothing of nothing where it was not
/// looked at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ResidentBytes {
    /// Bytes in memory that were not there before and are on the device.
    pub bytes: u64,
    /// The size of the file; bytes.
    pub of: u64,
}

/// The result of asking for a clone.
#[derive(Debug)]
pub enum Cloned {
    /// The new file shares all data of the old one.
    Yes,
    /// It is still empty, for this reason; `ever` if it will be so for every file of the two file
    /// systems.
    No {
        /// The system's error.
        cause: io::Error,
        /// True if asking again is of no use.
        ever: bool,
    },
}

/// The call by which the kernel copies bytes from one file to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KernelCopy {
    /// `copy_file_range`: within one file system, or by a server.
    Range,
    /// `sendfile`: through the page cache. Preferred to `splice` through a pipe, which took 1.1 to
    /// 1.3 times as long even with a pipe of 1 MiB (400 MiB, tmpfs to tmpfs, ext4 and xfs, least of
    /// 5 rounds) and can lose what is in the pipe.
    Send,
    /// None: the bytes are to be read and written.
    None,
}

/// The result of moving bytes through a pipe without waiting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(any(not(target_os = "linux"), feature = "portable"), allow(dead_code))]
pub enum Spliced {
    /// Number of bytes that were moved; 0 at the end of what is read.
    Bytes(u64),
    /// None were: there is nothing to be read, or no room. At most a tenth of a second went by waiting.
    Wait,
    /// The kernel cannot do that with these two; nothing was moved. They are to be read and written.
    NotHere,
}

/// When the device of a directory came: by numbers of the kernel.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PluggedIn {
    /// Of this start of the machine.
    pub boot: String,
    /// Of the disk, since it came; `None` where that is not told.
    pub disk: Option<u64>,
}

impl PluggedIn {
    /// True if the machine was restarted since `then`, or the disk was away. `None` where the disk tells its number
    /// only now, or only then: it may have been away.
    pub fn was_away_since(&self, then: &Self) -> Option<bool> {
        match (self.disk, then.disk) {
            _ if self.boot != then.boot => Some(true),
            (Some(now), Some(then)) => Some(now != then),
            (None, None) => Some(false),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disk_that_tells_its_number_only_once_is_a_doubt() {
        let at = |boot: &str, disk| PluggedIn { boot: boot.to_owned(), disk };
        let was_away = |now, then| at("1", now).was_away_since(&at("1", then));
        assert_eq!([was_away(Some(2), Some(2)), was_away(None, None)], [Some(false); 2]);
        assert_eq!(was_away(Some(3), Some(2)), Some(true));
        assert_eq!([was_away(Some(3), None), was_away(None, Some(2))], [None; 2]);
        assert_eq!(at("2", None).was_away_since(&at("1", Some(2))), Some(true));
    }
}
