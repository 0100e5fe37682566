//! Files without a name, which nobody sees before they are complete.

use std::{ffi::OsStr, fs::File, io};

use rustix::{fs::AtFlags, fs::Mode, fs::OFlags, io::Errno};

use crate::sys::part_name::{PartOwner, under_part_name};
use crate::sys::unix::{dir::Dir, dir::PRIVATE, process::patiently};

impl Dir {
    /// Makes a new, empty file without a name, of these permissions but for those that the umask or a
    /// default ACL takes away; `None` where the file system has no such files.
    pub fn create_nameless(&self, mode: u32) -> io::Result<Option<File>> {
        let flags = OFlags::RDWR | OFlags::TMPFILE | OFlags::CLOEXEC;
        let mode = Mode::from_raw_mode(mode as _);
        let make = || patiently(|| rustix::fs::openat(&self.0, ".", flags, mode));
        match self.with_room(make) {
            // Old kernels and file systems without (open(2)).
            Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::INVAL | Errno::NOENT) => Ok(None),
            opened => Ok(Some(File::from(opened?))),
        }
    }

    /// The permissions that a file without a name can have from the start here, and in directories
    /// made here; none where that cannot be told. A file born with its final ones need not be given
    /// them: a fourteenth of the time that 4 KiB take on tmpfs.
    pub fn modes_at_birth(&self) -> u32 {
        let stat = self.create_nameless(0o777).ok().flatten().map(|file| Self::stat_file(&file));
        stat.and_then(Result::ok).map_or(0, |stat| stat.mode & 0o777)
    }

    /// Gives a file without a name its final one; an entry that is there already is an error
    /// (`AlreadyExists`) and stays.
    pub fn publish_nameless(&self, file: &File, name: &OsStr) -> io::Result<()> {
        let link = || rustix::fs::linkat(file, "", &self.0, name, AtFlags::EMPTY_PATH);
        Ok(self.with_room(link)?)
    }

    /// Does once more what found no room, when all that waits to be written has been. For data that waits, xfs sets
    /// aside many times what it takes in the end, and only `open` with a name and `write` write it out before they
    /// give up, not what concerns files without a name (fs/xfs/xfs_inode.c): of 50,000 files of 4 KiB 37,000 fitted
    /// into 900 MiB.
    fn with_room<T>(&self, deed: impl Fn() -> Result<T, Errno>) -> Result<T, Errno> {
        match deed() {
            Err(Errno::NOSPC) => {
                // What could not be written is told once, so it must not be passed over here.
                rustix::fs::syncfs(&self.0)?;
                deed()
            }
            done => done,
        }
    }

    /// True if files without a name can be made and published here: before Linux 6.10 the latter is for root only
    /// (linkat(2), `AT_EMPTY_PATH`).
    pub fn can_publish_nameless(&self, owner: PartOwner) -> bool {
        let Ok(Some(file)) = self.create_nameless(PRIVATE) else { return false };
        under_part_name(owner, |name| self.publish_nameless(&file, name))
            .is_ok_and(|((), name)| self.remove(&name).is_ok())
    }
}
