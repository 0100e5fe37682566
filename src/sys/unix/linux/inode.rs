//! Entries as they are to be known again: all that the system says of one, when it was made, what protects it; and many
//! files of a btrfs at once.

use std::{ffi::OsStr, fs::File, io, os::fd::AsFd, os::fd::AsRawFd, os::unix::ffi::OsStrExt};

use rustix::fs::{AtFlags, IFlags, StatxFlags};

use crate::sys::stat::{Identity, Inode, Kind, Stat, Time};
use crate::{sys::types::NamedInode, sys::unix::dir::Dir, sys::unix::dir::kind_of};

impl Dir {
    /// The metadata of `name`, not following links, and the time of its making.
    pub fn inode(&self, name: &OsStr) -> io::Result<Inode> {
        if let Ok(inode) = inode_at(&self.0, name, AtFlags::SYMLINK_NOFOLLOW) {
            return Ok(inode);
        }
        Ok(Inode { stat: self.stat(name, false)?, birth: None })
    }

    /// The metadata of an open file, and the time of its making.
    pub fn inode_of(file: &File) -> io::Result<Inode> {
        if let Ok(inode) = inode_at(file, OsStr::new(""), AtFlags::EMPTY_PATH) {
            return Ok(inode);
        }
        Ok(Inode { stat: Self::stat_file(file)?, birth: None })
    }

    /// When an open entry was made, where the system tells.
    pub fn birth_of(entry: impl AsFd) -> Option<Time> {
        let asked = rustix::fs::statx(entry, "", AtFlags::EMPTY_PATH, StatxFlags::BTIME);
        let told = asked.ok().filter(|told| told.stx_mask & StatxFlags::BTIME.bits() != 0)?;
        Some(Time { secs: told.stx_btime.tv_sec, nanos: told.stx_btime.tv_nsec })
    }

    /// The same, asked of a file system that lets the kernel answer from memory (FUSE, for a second or more).
    pub fn stat_file_anew(file: &File) -> io::Result<Stat> {
        // The answer stays in the kernel's memory, which alone is asked where there is no such call.
        let anew = AtFlags::EMPTY_PATH | AtFlags::STATX_FORCE_SYNC;
        let _ = rustix::fs::statx(file, "", anew, StatxFlags::CTIME);
        Self::stat_file(file)
    }
}

/// All that the system says of an entry in one call, which kernels before 4.11 do not have.
fn inode_at(dir: impl AsFd, name: &OsStr, how: AtFlags) -> io::Result<Inode> {
    let wanted = StatxFlags::BASIC_STATS | StatxFlags::BTIME;
    let told = rustix::fs::statx(dir, name, how, wanted)?;
    let has = |what: StatxFlags| told.stx_mask & what.bits() == what.bits();
    if !has(StatxFlags::BASIC_STATS) {
        return Err(io::ErrorKind::Unsupported.into());
    }
    let time = |time: rustix::fs::StatxTimestamp| Time { secs: time.tv_sec, nanos: time.tv_nsec };
    let stat = Stat {
        kind: kind_of(told.stx_mode.into()),
        size: told.stx_size,
        allocated: told.stx_blocks * 512,
        mtime: time(told.stx_mtime),
        ctime: time(told.stx_ctime),
        id: Identity {
            dev: rustix::fs::makedev(told.stx_dev_major, told.stx_dev_minor),
            ino: told.stx_ino,
        },
        links: told.stx_nlink.into(),
        mode: u32::from(told.stx_mode) & 0o7777,
        uid: told.stx_uid,
        gid: told.stx_gid,
    };
    let birth = has(StatxFlags::BTIME).then(|| time(told.stx_btime));
    Ok(Inode { stat, birth })
}

// Entries that even their owner cannot change or remove: `chattr +i`, `chattr +a`.

/// The flags that protect an entry.
const PROTECTING: IFlags = IFlags::IMMUTABLE.union(IFlags::APPEND);

impl Dir {
    /// True if no user can change the entries of this directory, as far as is known.
    pub fn is_protected(&self) -> bool {
        rustix::fs::ioctl_getflags(self).is_ok_and(|flags| flags.intersects(PROTECTING))
    }

    /// Takes from this directory what protects it; whether something did that now does not. Only root may.
    pub fn unprotect(&self) -> bool {
        unprotect(self)
    }

    /// Takes from the file `name` what protects it; whether something did that now does not.
    pub fn unprotect_file(&self, name: &OsStr) -> bool {
        self.open_file(name, false).is_ok_and(unprotect)
    }

    /// Removes the file or link `name` like [`remove`](Self::remove), also if it or this directory is protected: for a
    /// tree that is a snapshot, and has only from what it was taken of what protects.
    pub fn remove_protected(&self, name: &OsStr) -> io::Result<()> {
        match self.remove(name) {
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                let is_free = self.unprotect_file(name);
                if self.unprotect() || is_free { self.remove(name) } else { Err(error) }
            }
            removed => removed,
        }
    }
}

fn unprotect(of: impl AsFd) -> bool {
    let of = of.as_fd();
    rustix::fs::ioctl_getflags(of).is_ok_and(|flags| {
        flags.intersects(PROTECTING) && rustix::fs::ioctl_setflags(of, flags - PROTECTING).is_ok()
    })
}

/// Why the entry `name` of `dir` cannot be removed, linked or replaced, and what helps; `None` if nothing is known to
/// protect it. To be put behind an error.
pub fn what_protects(dir: &Dir, name: &OsStr) -> Option<&'static str> {
    // STATX_ATTR_IMMUTABLE and STATX_ATTR_APPEND (linux/stat.h).
    const PROTECTED: u64 = 0x10 | 0x20;
    let is_protected = |name: &OsStr, flags| {
        let told = rustix::fs::statx(dir, name, flags, StatxFlags::empty());
        told.is_ok_and(|told| told.stx_attributes.bits() & PROTECTED != 0)
    };
    if is_protected(name, AtFlags::SYMLINK_NOFOLLOW) {
        Some("; it is protected: chattr -i -a removes that")
    } else if is_protected("".as_ref(), AtFlags::EMPTY_PATH) {
        Some("; the directory that it is in is protected: chattr -i -a removes that")
    } else {
        None
    }
}

// Looking at many files of a btrfs directory at once: the file system's tree has what `stat` tells side by side.
//
// The kernel makes an inode in memory for each file that is looked at by its name, which of a new snapshot takes ten
// times as long as reading its items from the tree. What the tree has is what was committed and what changed since,
// but not all that did: the kernel may note changes of an inode there later. A snapshot is committed when it is made.

/// `_IOWR(0x94, 17, struct btrfs_ioctl_search_args_v2)` (linux/btrfs.h).
const TREE_SEARCH_V2: u32 = 0xc070_9411;

/// Types of items (linux/btrfs_tree.h).
const INODE_ITEM: u32 = 1;
const INODE_REF: u32 = 12;

/// Room for what a search finds: more than the largest item.
const ROOM: usize = 64 << 10;

/// Files whose numbers are no further apart are searched for together.
const GAP: u64 = 32;

/// `struct btrfs_ioctl_search_args_v2`: a part of a tree, and what stands there.
#[repr(C)]
struct SearchArgs {
    tree_id: u64,
    min_objectid: u64,
    max_objectid: u64,
    min_offset: u64,
    max_offset: u64,
    min_transid: u64,
    max_transid: u64,
    min_type: u32,
    max_type: u32,
    nr_items: u32,
    unused: u32,
    unused_too: [u64; 4],
    buf_size: u64,
    buf: [u8; ROOM],
}

/// Where an item stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ItemKey {
    ino: u64,
    kind: u32,
    offset: u64,
}

/// The parts of an inode that were found so far.
struct FoundInode {
    ino: u64,
    stat: Stat,
}

impl Dir {
    /// The answers that [`stat`](Self::stat) would give for these files of this directory, as far as the tree of a
    /// btrfs tells them. `None` for what is not there so, for files with several names, and for all on other file
    /// systems or without the right to ask. A change since the last commit may not show.
    pub fn stat_committed(&self, files: &[NamedInode<'_>]) -> Vec<Option<Stat>> {
        let mut found = vec![None; files.len()];
        let Ok(here) = self.identity() else { return found };
        let mut order: Vec<usize> = (0..files.len()).collect();
        order.sort_unstable_by_key(|&at| files[at].ino);
        let mut args = Box::new(SearchArgs {
            tree_id: 0,
            min_objectid: 0,
            max_objectid: 0,
            min_offset: 0,
            max_offset: u64::MAX,
            min_transid: 0,
            max_transid: u64::MAX,
            min_type: 0,
            max_type: INODE_REF,
            nr_items: 0,
            unused: 0,
            unused_too: [0; 4],
            buf_size: 0,
            buf: [0; ROOM],
        });
        for group in order.chunk_by(|&one, &next| files[next].ino - files[one].ino <= GAP) {
            if self.search_group(here, files, group, &mut args, &mut found).is_none() {
                break;
            }
        }
        found
    }

    /// Finds the files of `group`, which are in the order of their numbers; `None` if the system does not tell.
    fn search_group(
        &self,
        here: Identity,
        files: &[NamedInode<'_>],
        group: &[usize],
        args: &mut SearchArgs,
        found: &mut [Option<Stat>],
    ) -> Option<()> {
        let last = files[*group.last()?].ino;
        let (mut rest, mut open) = (group, None);
        let mut from = ItemKey { ino: files[*group.first()?].ino, kind: 0, offset: 0 };
        loop {
            let mut end = None;
            let items = self.search(from, last, args)?;
            for (key, item) in items {
                end = Some(key);
                while rest.first().is_some_and(|&at| files[at].ino < key.ino) {
                    rest = &rest[1..];
                }
                match key.kind {
                    INODE_ITEM => open = read_inode(item, Identity { ino: key.ino, ..here }),
                    INODE_REF => {
                        let this = open.take().filter(|it: &FoundInode| it.ino == key.ino);
                        let is_here = |at: &&usize| {
                            files[**at].ino == key.ino
                                && key.offset == here.ino
                                && name_in(item) == Some(files[**at].name.as_bytes())
                        };
                        if let (Some(at), Some(this)) = (rest.first().filter(is_here), this) {
                            found[*at] = Some(this.stat);
                        }
                    }
                    _ => {}
                }
            }
            let Some(end) = end else { return Some(()) };
            // The rest of a file's items is passed over.
            from = match (end.kind, rest.iter().find(|&&at| files[at].ino > end.ino)) {
                (..INODE_REF, _) => ItemKey { kind: end.kind + 1, offset: 0, ..end },
                (_, Some(&next)) => ItemKey { ino: files[next].ino, kind: 0, offset: 0 },
                (_, None) => return Some(()),
            };
        }
    }

    /// The items in the tree of this directory between `from` and the names of the inode `last`, as far as there is
    /// room for them; `None` if the system does not tell.
    fn search<'a>(
        &self,
        from: ItemKey,
        last: u64,
        args: &'a mut SearchArgs,
    ) -> Option<impl Iterator<Item = (ItemKey, &'a [u8])>> {
        (args.min_objectid, args.max_objectid) = (from.ino, last);
        (args.min_type, args.min_offset) = (from.kind, from.offset);
        (args.nr_items, args.buf_size) = (u32::MAX, ROOM as u64);
        let fd = self.as_fd().as_raw_fd();
        // SAFETY: the call reads the structure that belongs to it, writes no further than the room that stands in it,
        // and keeps no pointer.
        if unsafe { libc::ioctl(fd, TREE_SEARCH_V2 as _, &raw mut *args) } != 0 {
            return None;
        }
        let (mut rest, mut left) = (&args.buf[..], args.nr_items);
        Some(std::iter::from_fn(move || {
            left = left.checked_sub(1)?;
            // struct btrfs_ioctl_search_header, by the machine's own order of bytes.
            let (header, behind) = rest.split_at_checked(32)?;
            let long =
                |at: usize| Some(u64::from_ne_bytes(header.get(at..at + 8)?.try_into().ok()?));
            let short =
                |at: usize| Some(u32::from_ne_bytes(header.get(at..at + 4)?.try_into().ok()?));
            let key = ItemKey { ino: long(8)?, kind: short(24)?, offset: long(16)? };
            let (item, next) = behind.split_at_checked(short(28)? as usize)?;
            rest = next;
            Some((key, item))
        }))
    }
}

/// The content of a `struct btrfs_inode_item` for the file `id`; `None` if it has several names, of which one may be on
/// its way to change.
fn read_inode(item: &[u8], id: Identity) -> Option<FoundInode> {
    let long = |at: usize| Some(u64::from_le_bytes(item.get(at..at + 8)?.try_into().ok()?));
    let short = |at: usize| Some(u32::from_le_bytes(item.get(at..at + 4)?.try_into().ok()?));
    let time = |at: usize| Some(Time { secs: long(at)? as i64, nanos: short(at + 8)? });
    let (links, mode) = (short(40)?, short(52)?);
    // The type in a mode (linux/stat.h): a regular file.
    if links != 1 || mode & 0o170_000 != 0o100_000 {
        return None;
    }
    let stat = Stat {
        kind: Kind::File,
        size: long(16)?,
        allocated: long(24)?,
        mtime: time(136)?,
        ctime: time(124)?,
        id,
        links: links.into(),
        mode: mode & 0o7777,
        uid: short(44)?,
        gid: short(48)?,
    };
    Some(FoundInode { ino: id.ino, stat })
}

/// The name in a `struct btrfs_inode_ref` that has but one.
fn name_in(item: &[u8]) -> Option<&[u8]> {
    let (head, name) = item.split_at_checked(10)?;
    let len = u16::from_le_bytes(head.get(8..)?.try_into().ok()?);
    (name.len() == usize::from(len)).then_some(name)
}
