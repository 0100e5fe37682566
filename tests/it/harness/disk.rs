//! A disk that remembers in which order it was written to.
//!
//! A FUSE file system shows one file, a loop device makes a disk of it, and every write and every
//! flush that the file system on that disk asks for is kept. From these [`Crash`] makes the disks that a
//! power cut could have left: what was written before the last completed flush is there; of what came
//! after it each write is there, or is not, or is there in part.
//!
//! The loop device turns a flush into an `fsync` of its file, and the kernel turns a write that must be
//! on the medium when it is answered (FUA) into a write and a flush.

use std::ffi::OsStr;
use std::fs::{File, OpenOptions};
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::{Duration, UNIX_EPOCH};

use fuser::{
    BackgroundSession, Config, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags,
    Generation, INodeNo, LockOwner, OpenFlags, ReplyAttr, ReplyData, ReplyEmpty, ReplyEntry,
    ReplyOpen, ReplyWrite, Request, SessionACL, WriteFlags,
};

use super::random::Random;

/// What happened to the disk.
pub enum Op {
    Write { offset: u64, data: Vec<u8> },
    Flush,
}

type Log = Arc<Mutex<Vec<Op>>>;

/// The disk: a file in a FUSE file system, with a loop device on it.
pub struct Disk {
    session: Option<BackgroundSession>,
    log: Log,
    file: PathBuf,
    /// The block device.
    pub device: PathBuf,
}

impl Disk {
    /// A disk with the content of `image`, which it changes; `at` is an empty directory.
    pub fn over(image: &Path, at: &Path) -> Self {
        std::fs::create_dir_all(at).unwrap();
        let log = Log::default();
        let file = OpenOptions::new().read(true).write(true).open(image).unwrap();
        let len = file.metadata().unwrap().len();
        let mut config = Config::default();
        config.acl = SessionACL::All;
        let shown = Recorder { file, len, log: Arc::clone(&log) };
        let session = Some(fuser::spawn_mount(shown, at, &config).unwrap());
        let file = at.join(DISK);
        let device = tool("losetup", &["--direct-io=on", "--find", "--show", arg(&file)]);
        Self { session, log, file, device: device.trim().into() }
    }

    /// How much has happened so far.
    pub fn now(&self) -> usize {
        self.log.lock().unwrap().len()
    }

    /// Takes the disk away and returns what happened to it.
    pub fn end(mut self) -> Vec<Op> {
        self.close();
        std::mem::take(&mut self.log.lock().unwrap())
    }

    fn close(&mut self) {
        if let Some(session) = self.session.take() {
            let _ = Command::new("losetup").arg("--detach").arg(&self.device).output();
            let no_loop = || tool("losetup", &["--associated", arg(&self.file)]).is_empty();
            patiently("the disk is free", no_loop);
            let _ = session.umount_and_join();
        }
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        self.close();
    }
}

/// The disks that power cuts leave, one after the other.
pub struct Crash {
    /// What has been flushed.
    kept: PathBuf,
    /// Where the disk after a power cut comes to lie.
    pub image: PathBuf,
    log: Vec<Op>,
    /// How much of the log is in `kept`, or was in flight and is over.
    done: usize,
}

impl Crash {
    /// Power cuts of a disk that was `kept` at first; `image` does not exist.
    pub fn new(kept: PathBuf, image: PathBuf, log: Vec<Op>) -> Self {
        Self { kept, image, log, done: 0 }
    }

    /// `count` moments in this stretch of the log at which the power is cut, in order: before every
    /// flush, or before every so many of them, each as often as it takes; one in four in between.
    pub fn moments(&self, when: &Range<usize>, count: usize, random: &mut Random) -> Vec<usize> {
        let flushes = self.flushes(when);
        assert!(!flushes.is_empty(), "no flushes: do they arrive at all?");
        let mut moments: Vec<_> = (0..count)
            .map(|i| match i % 4 {
                3 => when.start + random.below(when.len()),
                _ => flushes[i * flushes.len() / count],
            })
            .collect();
        moments.sort_unstable();
        moments
    }

    /// Where the flushes in this stretch of the log are.
    pub fn flushes(&self, when: &Range<usize>) -> Vec<usize> {
        when.clone().filter(|&at| matches!(self.log[at], Op::Flush)).collect()
    }

    /// Makes the disk after a power cut at `moment`, which is not before the last one.
    pub fn at(&mut self, moment: usize, random: &mut Random) -> &Path {
        let flushed = self.log[self.done..moment].iter().rposition(|op| matches!(op, Op::Flush));
        if let Some(flushed) = flushed {
            let kept = OpenOptions::new().write(true).open(&self.kept).unwrap();
            for op in &self.log[self.done..self.done + flushed] {
                write(&kept, op, usize::MAX);
            }
            self.done += flushed + 1;
        }
        let no_loop = || tool("losetup", &["--associated", arg(&self.image)]).is_empty();
        patiently("the last disk is gone", no_loop);
        tool("cp", &["--sparse=always", arg(&self.kept), arg(&self.image)]);
        let image = OpenOptions::new().write(true).open(&self.image).unwrap();
        // Nothing of what was in flight, all of it, most, half or little of it.
        let chance = [0, 100, 85, 50, 15][random.below(5)];
        for op in &self.log[self.done..moment] {
            let pages = if random.below(16) == 0 { random.below(8) } else { usize::MAX };
            if random.below(100) < chance {
                write(&image, op, pages);
            }
        }
        &self.image
    }
}

/// Writes that are cut off are so at a multiple of this, in bytes, on the disk: below it file systems
/// rely on the disk.
const PAGE: u64 = 4096;

/// Writes the part of `op` that lies in its first so many pages.
fn write(to: &File, op: &Op, pages: usize) {
    let Op::Write { offset, data } = op else { return };
    let end = (offset / PAGE).saturating_add(pages as u64).saturating_mul(PAGE);
    let len = data.len().min(usize::try_from(end.saturating_sub(*offset)).unwrap());
    to.write_all_at(&data[..len], *offset).unwrap();
}

fn arg(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// Waits for what a process that took a copy of the mounts (a mount namespace) may hold up: until it
/// ends, a file system that was unmounted is mounted there.
fn patiently(what: &str, done: impl Fn() -> bool) {
    for _ in 0..12_000 {
        if done() {
            return;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("never came to pass: {what}");
}

/// Runs a tool and returns what it said.
pub fn tool(program: &str, args: &[&str]) -> String {
    let output = Command::new(program).args(args).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program} {args:?}: {said}");
    String::from_utf8(output.stdout).unwrap()
}

const DISK: &str = "disk";
const TTL: Duration = Duration::from_secs(3600);

/// The file system with the one file.
struct Recorder {
    file: File,
    len: u64,
    log: Log,
}

impl Recorder {
    fn attr(&self, ino: INodeNo) -> FileAttr {
        let root = ino == INodeNo::ROOT;
        FileAttr {
            ino,
            size: if root { 0 } else { self.len },
            blocks: self.len / 512,
            atime: UNIX_EPOCH,
            mtime: UNIX_EPOCH,
            ctime: UNIX_EPOCH,
            crtime: UNIX_EPOCH,
            kind: if root { FileType::Directory } else { FileType::RegularFile },
            perm: 0o700,
            nlink: 1,
            uid: 0,
            gid: 0,
            rdev: 0,
            blksize: 4096,
            flags: 0,
        }
    }
}

impl Filesystem for Recorder {
    fn lookup(&self, _: &Request, _: INodeNo, name: &OsStr, reply: ReplyEntry) {
        match name == DISK {
            true => reply.entry(&TTL, &self.attr(INodeNo(2)), Generation(0)),
            false => reply.error(Errno::ENOENT),
        }
    }

    fn getattr(&self, _: &Request, ino: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        reply.attr(&TTL, &self.attr(ino));
    }

    fn open(&self, _: &Request, _: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        reply.opened(FileHandle(0), FopenFlags::FOPEN_DIRECT_IO);
    }

    fn read(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let len = u64::from(size).min(self.len.saturating_sub(offset));
        let mut data = vec![0; usize::try_from(len).unwrap()];
        match self.file.read_exact_at(&mut data, offset) {
            Ok(()) => reply.data(&data),
            Err(error) => reply.error(error.into()),
        }
    }

    fn write(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        offset: u64,
        data: &[u8],
        _: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        match self.file.write_all_at(data, offset) {
            Ok(()) => {
                self.log.lock().unwrap().push(Op::Write { offset, data: data.to_vec() });
                reply.written(u32::try_from(data.len()).unwrap());
            }
            Err(error) => reply.error(error.into()),
        }
    }

    fn fsync(&self, _: &Request, _: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        self.log.lock().unwrap().push(Op::Flush);
        reply.ok();
    }

    fn flush(&self, _: &Request, _: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        reply.ok();
    }
}
