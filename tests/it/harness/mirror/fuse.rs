//! What the kernel asks, handed on to what the mirror does.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::SystemTime;

use fuser::{
    BsdFileFlags, Errno, FileHandle, Filesystem, FopenFlags, Generation, INodeNo, InitFlags,
    KernelConfig, LockOwner, OpenFlags, RenameFlags, ReplyAttr, ReplyCreate, ReplyData,
    ReplyDirectory, ReplyEmpty, ReplyEntry, ReplyOpen, ReplyStatfs, ReplyWrite, Request, TimeOrNow,
    WriteFlags,
};

use super::{Deed, Habit, Shown, TTL};

/// Answers with what came out: `answer!(reply, result, value => reply.attr(&TTL, &value))`.
macro_rules! answer {
    ($reply:ident, $result:expr, $value:pat => $good:expr) => {
        match $result {
            Ok($value) => $good,
            Err(error) => $reply.error(error),
        }
    };
}

const GENERATION: Generation = Generation(0);

impl Filesystem for Shown {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> std::io::Result<()> {
        if self.has(Habit::CachesWrites) {
            config.add_capabilities(InitFlags::FUSE_WRITEBACK_CACHE).unwrap();
        }
        Ok(())
    }

    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let found = self.child(parent, name).and_then(|path| self.look(path));
        answer!(reply, found, attr => reply.entry(&TTL, &attr, GENERATION));
    }

    fn getattr(&self, _: &Request, node: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        let found = self.path(node).and_then(|path| self.look(path));
        answer!(reply, found, attr => reply.attr(&TTL, &attr));
    }

    fn setattr(
        &self,
        _: &Request,
        node: INodeNo,
        mode: Option<u32>,
        uid: Option<u32>,
        gid: Option<u32>,
        size: Option<u64>,
        atime: Option<TimeOrNow>,
        mtime: Option<TimeOrNow>,
        _: Option<SystemTime>,
        _: Option<FileHandle>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let changed = self.change(node, (mode, uid, gid), size, (atime, mtime));
        answer!(reply, changed, attr => reply.attr(&TTL, &attr));
    }

    fn readlink(&self, _: &Request, node: INodeNo, reply: ReplyData) {
        answer!(reply, self.target(node), target => reply.data(target.as_os_str().as_encoded_bytes()));
    }

    fn mkdir(
        &self,
        _: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _: u32,
        reply: ReplyEntry,
    ) {
        let made = self.make(parent, name, |path| {
            fs::create_dir(path)?;
            fs::set_permissions(path, fs::Permissions::from_mode(mode))
        });
        answer!(reply, made, attr => reply.entry(&TTL, &attr, GENERATION));
    }

    fn symlink(
        &self,
        _: &Request,
        parent: INodeNo,
        name: &OsStr,
        target: &Path,
        reply: ReplyEntry,
    ) {
        let made = match self.has(Habit::HasNoLinks) {
            true => Err(Errno::EPERM),
            false => self.make(parent, name, |path| std::os::unix::fs::symlink(target, path)),
        };
        answer!(reply, made, attr => reply.entry(&TTL, &attr, GENERATION));
    }

    fn link(&self, _: &Request, node: INodeNo, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let made = match self.has(Habit::HasNoHardLinks) {
            true => Err(Errno::EPERM),
            false => self.path(node).and_then(|from| {
                self.make(parent, name, |path| fs::hard_link(self.below.join(from), path))
            }),
        };
        answer!(reply, made, attr => reply.entry(&TTL, &attr, GENERATION));
    }

    fn unlink(&self, request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let removed = self.child(parent, name).and_then(|path| {
            self.act(request, Deed::Remove, &path)?;
            let comes_back = self.state.lock().unwrap().unwritten.remove(&path);
            fs::remove_file(self.below.join(&path))?;
            if comes_back {
                fs::File::create(self.below.join(path))?;
            }
            Ok(())
        });
        answer!(reply, removed, () => reply.ok());
    }

    fn rmdir(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let removed =
            self.child(parent, name).and_then(|path| Ok(fs::remove_dir(self.below.join(path))?));
        answer!(reply, removed, () => reply.ok());
    }

    fn rename(
        &self,
        request: &Request,
        from: INodeNo,
        name: &OsStr,
        to: INodeNo,
        new: &OsStr,
        flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        let renamed = self.child(from, name).and_then(|old| {
            let new = self.new_child(to, new)?;
            self.rename_to(request, old, new, flags)
        });
        answer!(reply, renamed, () => reply.ok());
    }

    fn create(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _: u32,
        _: i32,
        reply: ReplyCreate,
    ) {
        let made =
            self.new_child(parent, name).and_then(|path| self.create_file(request, path, mode));
        answer!(reply, made, (attr, file) => {
            reply.created(&TTL, &attr, GENERATION, file, self.how_opened());
        });
    }

    fn open(&self, _: &Request, node: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        let opened = self.open_file(node, flags);
        answer!(reply, opened, file => reply.opened(file, self.how_opened()));
    }

    fn read(
        &self,
        request: &Request,
        node: INodeNo,
        file: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let read = self.read_file(request, node, file, (offset, size));
        answer!(reply, read, data => reply.data(&data));
    }

    fn write(
        &self,
        request: &Request,
        node: INodeNo,
        file: FileHandle,
        offset: u64,
        data: &[u8],
        _: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let written = self.write_file(request, node, file, (offset, data));
        answer!(reply, written, len => reply.written(len));
    }

    fn flush(
        &self,
        request: &Request,
        node: INodeNo,
        _: FileHandle,
        _: LockOwner,
        reply: ReplyEmpty,
    ) {
        let flushed = self.path(node).and_then(|path| {
            self.state.lock().unwrap().unclosed.remove(&path);
            self.act(request, Deed::Close, &path)
        });
        answer!(reply, flushed, _ => reply.ok());
    }

    fn release(
        &self,
        _: &Request,
        _: INodeNo,
        file: FileHandle,
        _: OpenFlags,
        _: Option<LockOwner>,
        _: bool,
        reply: ReplyEmpty,
    ) {
        self.let_go(file);
        reply.ok();
    }

    fn fsync(&self, request: &Request, node: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        if self.has(Habit::HasNoSync) {
            return reply.error(Errno::ENOSYS);
        }
        let synced = self.path(node).and_then(|path| self.act(request, Deed::Sync, &path));
        answer!(reply, synced, _ => reply.ok());
    }

    fn fsyncdir(
        &self,
        request: &Request,
        node: INodeNo,
        _: FileHandle,
        _: bool,
        reply: ReplyEmpty,
    ) {
        if self.has(Habit::HasNoSync) {
            return reply.error(Errno::ENOSYS);
        }
        if self.has(Habit::SyncsNoDirectories) {
            return reply.error(Errno::EINVAL);
        }
        let synced = self.path(node).and_then(|path| self.act(request, Deed::Sync, &path));
        answer!(reply, synced, _ => reply.ok());
    }

    fn statfs(&self, _: &Request, _: INodeNo, reply: ReplyStatfs) {
        match self.has(Habit::TellsNoFreeInodes) {
            true => reply.statfs(1 << 30, 1 << 30, 1 << 30, 1_000_000_000, 0, 4096, 255, 4096),
            false if self.has(Habit::TellsShortNames) => reply.statfs(0, 0, 0, 0, 0, 512, 31, 0),
            // It does not tell.
            false => reply.statfs(0, 0, 0, 0, 0, 512, 255, 0),
        }
    }

    fn opendir(&self, _: &Request, _: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        reply.opened(self.open_listing(), FopenFlags::empty());
    }

    fn readdir(
        &self,
        request: &Request,
        node: INodeNo,
        listing: FileHandle,
        offset: u64,
        mut reply: ReplyDirectory,
    ) {
        let asked = self.path(node).and_then(|path| self.act(request, Deed::List, &path));
        let listed = asked.and_then(|_| self.list(node, listing, offset));
        answer!(reply, listed, entries => {
            for (i, (ino, kind, name)) in (1u64..).zip(entries).skip(offset as usize) {
                if reply.add(ino, i, kind, name) {
                    break;
                }
            }
            reply.ok();
        });
    }
}

impl Shown {
    fn how_opened(&self) -> FopenFlags {
        match self.has(Habit::CachesWrites) {
            true => FopenFlags::empty(),
            false => FopenFlags::FOPEN_DIRECT_IO,
        }
    }
}
