//! Looking at many files of a btrfs directory at once: the file system's tree has what `stat` tells side by side.
//!
//! The kernel makes an inode in memory for each file that is looked at by its name, which of a new snapshot takes ten
//! times as long as reading its items from the tree. What the tree has is what was committed and what changed since,
//! but not all that did: the kernel may note changes of an inode there later. A snapshot is committed when it is made.

use std::{os::fd::AsFd, os::fd::AsRawFd, os::unix::ffi::OsStrExt};

use crate::sys::stat::{Identity, Kind, Stat, Time};
use crate::{sys::types::NamedInode, sys::unix::dir::Dir};

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
