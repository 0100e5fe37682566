//! What Linux alone tells of processes, and does for them: the clock, priorities, how they open files, who has one open
//! or locked, and what their threads wait for.

use std::{
    ffi::OsStr, fs, fs::File, io, os::fd::AsRawFd, os::linux::net::SocketAddrExt,
    os::unix::ffi::OsStrExt, os::unix::fs::FileExt, os::unix::net::SocketAddr, path::Path,
    path::PathBuf,
};

use rustix::fs::{Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

use crate::sys::types::{IoPriority, LockHolder, PendingCall};
use crate::{
    path::RelPath, sys::stat::Time, sys::unix::dir::Dir, sys::unix::system::list::DirReader,
};

/// True if the running kernel is of this version or later.
pub fn kernel_at_least(major: u32, minor: u32) -> bool {
    let uname = rustix::system::uname();
    let release = uname.release().to_string_lossy();
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map_while(|n| n.parse().ok());
    (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0)) >= (major, minor)
}

/// The time of now, or a little earlier, as the kernel would give it to a file that is changed: its clock for that
/// moves in steps of some milliseconds.
pub fn time_of_change() -> Time {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::RealtimeCoarse);
    Time { secs: now.tv_sec, nanos: u32::try_from(now.tv_nsec).unwrap_or(0) }
}

/// Sets this thread's turn at disks, and that of those it starts (ioprio_set(2)).
pub fn set_io_priority(priority: IoPriority) -> io::Result<()> {
    // From linux/ioprio.h: the class is in the bits from 13 on, the level below.
    const WHO_PROCESS: libc::c_int = 1;
    let value: libc::c_int = match priority {
        IoPriority::BestEffort(level) => (2 << 13) | libc::c_int::from(level.min(7)),
        IoPriority::Idle => 3 << 13,
    };
    // SAFETY: three numbers and no memory; 0 means the thread that asks.
    match unsafe { libc::syscall(libc::SYS_ioprio_set, WHO_PROCESS, 0, value) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// The address of this name in the abstract namespace, which Linux alone has.
pub fn abstract_address(name: &[u8]) -> Option<SocketAddr> {
    SocketAddr::from_abstract_name(name).ok()
}

// The process that holds the lock of a directory, and since when.

/// The process that has locked `dir`, as `/proc/locks` (proc_locks(5)) tells; `None` where the system
/// does not tell, or not of this file system, or when the process is out of sight (in another
/// container, on another machine).
pub fn lock_holder(dir: &Dir) -> Option<LockHolder> {
    let stat = rustix::fs::fstat(dir).ok()?;
    let (major, minor) = (rustix::fs::major(stat.st_dev), rustix::fs::minor(stat.st_dev));
    // "1: FLOCK  ADVISORY  WRITE 1234 08:01:5678 0 EOF"
    let place = format!("{major:02x}:{minor:02x}:{}", stat.st_ino);
    let locks = fs::read_to_string("/proc/locks").ok()?;
    let process = locks.lines().find_map(|line| {
        match line.split_ascii_whitespace().collect::<Vec<_>>()[..] {
            [_, "FLOCK", _, "WRITE", process, at, ..] if at == place => process.parse::<u32>().ok(),
            _ => None,
        }
    })?;
    let name = fs::read(format!("/proc/{process}/comm")).ok()?;
    Some(LockHolder { process, name: name.trim_ascii_end().to_vec(), since: started(process)? })
}

/// When a process was started, in seconds since 1970 (proc_pid_stat(5), field 22, in clock ticks since
/// the machine was booted).
fn started(process: u32) -> Option<i64> {
    let stat = fs::read(format!("/proc/{process}/stat")).ok()?;
    // The second field, the name in brackets, may hold anything.
    let rest = &stat[stat.iter().rposition(|&byte| byte == b')')? + 1..];
    let ticks = std::str::from_utf8(rest).ok()?.split_ascii_whitespace().nth(19)?;
    let ticks: u64 = ticks.parse().ok()?;
    let system = fs::read_to_string("/proc/stat").ok()?;
    let booted = system.lines().find_map(|line| line.strip_prefix("btime "))?;
    let seconds = ticks / rustix::param::clock_ticks_per_second().max(1);
    booted.trim().parse::<i64>().ok()?.checked_add(i64::try_from(seconds).ok()?)
}

// Opening by the calls of Linux.

/// A file that is opened so keeps its access time; only for its owner and root, `EPERM` otherwise (open(2)).
pub const UNNOTICED: OFlags = OFlags::NOATIME;

/// A directory that may only be gone through, as what homes are in often is, is opened for that alone.
pub const ONLY_THROUGH: OFlags = OFlags::PATH;

impl Dir {
    /// Opens the directory at `path` below this one in one call (`openat2`, Linux 5.6), which no link on the way is
    /// followed in; `None` where that does not succeed.
    pub(in crate::sys::unix) fn open_at_once(&self, path: &RelPath, how: OFlags) -> Option<Dir> {
        let stay = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
        let opened =
            rustix::fs::openat2(&self.0, path.as_bytes(), how, Mode::empty(), stay).ok()?;
        Some(Self(opened, self.1.clone()))
    }
}

// Leases, which tell who has a file open.

/// True if a process may write to a file by a descriptor or a mapping that it has by now. So it may where that is not
/// told: to others than the owner and root, and by some file systems.
pub fn may_be_written_to(file: &File) -> bool {
    lease(file).is_err()
}

/// True if a process can write to a file by a descriptor or a mapping.
pub fn is_open_for_writing(file: &File) -> bool {
    lease(file).is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock)
}

/// Takes a lease of a file to read it, and gives it back: there is none while somebody can write to it (fcntl(2)).
fn lease(file: &File) -> io::Result<()> {
    /// The number in linux/fcntl.h: the signal that tells of it.
    const F_SETSIG: libc::c_int = 10;
    let control = |command, argument: libc::c_int| {
        // SAFETY: an open descriptor, and commands that take a number.
        match unsafe { libc::fcntl(file.as_raw_fd(), command, argument) } {
            -1 => Err(io::Error::last_os_error()),
            _ => Ok(()),
        }
    };
    // Who wants to write meanwhile waits, and this process is told of it: by a signal that ends no process.
    control(F_SETSIG, libc::SIGURG)?;
    control(libc::F_SETLEASE, libc::F_RDLCK)?;
    control(libc::F_SETLEASE, libc::F_UNLCK)
}

// The calls that the threads of this process wait for, as the kernel tells: the only way to know, since a thread that
// hangs in a call can say nothing.

/// More is not read of a name, in bytes: no file system has longer ones.
const LONGEST: usize = 256;

/// Where terminals are: they may wait for people as long as they like.
const TERMINALS: [&str; 3] = ["/dev/pts/", "/dev/tty", "/dev/console"];

/// The argument of a call that tells its subject.
enum CallSubject {
    /// The file that is open as this argument.
    File(usize),
    /// The name that the second argument points to, in the directory that is open as the first.
    Name(usize, usize),
}

/// The calls on files that threads of this process are in.
pub fn pending_calls() -> Vec<PendingCall> {
    // The standard library would panic if the directory could not be closed.
    let Ok(dir) = Dir::open(Path::new("/proc/self/task")) else { return Vec::new() };
    let (mut reader, mut threads) = (DirReader::default(), Vec::new());
    while let Ok(batch) = reader.next_batch(&dir)
        && !batch.is_empty()
    {
        threads.extend(batch.into_iter().filter_map(|it| it.name.to_str()?.parse::<u32>().ok()));
    }
    let threads = threads.into_iter().filter_map(|number| {
        let read = |file: &str| fs::read_to_string(format!("/proc/self/task/{number}/{file}")).ok();
        let call = read("syscall")?;
        // "running", or numbers: of the call, its arguments, the stack and the program.
        let mut numbers = call.split_ascii_whitespace();
        let (deed, _) = meaning(numbers.next()?.parse().ok()?)?;
        // A thread that was awake meanwhile is not in the same call, though it may look so.
        let status = read("status")?;
        let awake = status.lines().filter(|line| line.contains("ctxt_switches"));
        let mark = awake.fold(call.clone(), |mark, line| mark + line);
        Some(PendingCall { thread: number, deed, mark })
    });
    threads.collect()
}

/// The path of what a call is about, if it is still that call, and about a file.
pub fn subject_of(call: &PendingCall) -> Option<PathBuf> {
    let mut numbers = call.mark.split_ascii_whitespace();
    let (_, subject) = meaning(numbers.next()?.parse().ok()?)?;
    let arguments: Vec<u64> = numbers
        .take(6)
        .map_while(|it| u64::from_str_radix(it.strip_prefix("0x")?, 16).ok())
        .collect();
    // Descriptors are 32 bits wide; what is above may be anything.
    let open = |at: usize| {
        let descriptor = *arguments.get(at)? as u32 as i32;
        match descriptor {
            libc::AT_FDCWD => std::env::current_dir().ok(),
            descriptor => fs::read_link(format!("/proc/self/fd/{descriptor}")).ok(),
        }
    };
    let path = match subject {
        CallSubject::File(at) => open(at)?,
        CallSubject::Name(dir, name) => open(dir)?.join(name_at(*arguments.get(name)?)?),
    };
    // Pipes and the like have no path.
    let is_terminal =
        || TERMINALS.iter().any(|it| path.as_os_str().as_bytes().starts_with(it.as_bytes()));
    (path.is_absolute() && !is_terminal()).then_some(path)
}

/// The name that stands in this process's memory at `address`.
fn name_at(address: u64) -> Option<PathBuf> {
    let mut bytes = [0; LONGEST];
    // The call waits with its arguments in place; if it has come back, these are any bytes, or none.
    let read = File::open("/proc/self/mem").ok()?.read_at(&mut bytes, address).ok()?;
    let end = bytes[..read].iter().position(|&byte| byte == 0)?;
    Some(OsStr::from_bytes(&bytes[..end]).into())
}

/// The deed and the subject of the call of this number; nothing for calls that may wait as long as they like, and those
/// that are not of files.
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn meaning(_: libc::c_long) -> Option<(&'static str, CallSubject)> {
    None
}

#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
fn meaning(number: libc::c_long) -> Option<(&'static str, CallSubject)> {
    use CallSubject::{File, Name};
    Some(match number {
        libc::SYS_read | libc::SYS_pread64 | libc::SYS_preadv | libc::SYS_preadv2 => {
            ("read", File(0))
        }
        libc::SYS_copy_file_range => ("read", File(0)),
        libc::SYS_sendfile => ("read", File(1)),
        libc::SYS_write | libc::SYS_pwrite64 | libc::SYS_pwritev | libc::SYS_pwritev2 => {
            ("write", File(0))
        }
        libc::SYS_fallocate | libc::SYS_ftruncate => ("make room for", File(0)),
        libc::SYS_fsync | libc::SYS_fdatasync | libc::SYS_syncfs => (PendingCall::SYNC, File(0)),
        libc::SYS_close => ("close", File(0)),
        libc::SYS_getdents64 => ("list", File(0)),
        libc::SYS_lseek => ("find the holes of", File(0)),
        libc::SYS_fstat | libc::SYS_fstatfs => ("look at", File(0)),
        libc::SYS_newfstatat | libc::SYS_statx | libc::SYS_readlinkat => ("look at", Name(0, 1)),
        libc::SYS_openat | libc::SYS_openat2 => ("open", Name(0, 1)),
        libc::SYS_flistxattr | libc::SYS_fgetxattr => ("read the attributes of", File(0)),
        libc::SYS_fsetxattr | libc::SYS_fchmod | libc::SYS_fchown => {
            ("set the attributes of", File(0))
        }
        libc::SYS_utimensat | libc::SYS_fchownat => ("set the attributes of", Name(0, 1)),
        libc::SYS_renameat2 => ("rename", Name(0, 1)),
        libc::SYS_linkat => ("link", Name(0, 1)),
        libc::SYS_unlinkat => ("remove", Name(0, 1)),
        libc::SYS_mkdirat | libc::SYS_symlinkat => ("make", Name(0, 1)),
        _ => return None,
    })
}

// Threads under a filter of system calls that does not know `clone3`.
//
// Container runtimes of before 2021 answer it with EPERM. The C library takes only ENOSYS for "not here",
// and then starts threads by `clone`, which those filters allow.

/// Makes `clone3` answer ENOSYS where it is forbidden. Lasts until the process ends, and keeps it and its
/// children from gaining privileges (`PR_SET_NO_NEW_PRIVS`); without effect where `clone3` is allowed.
pub fn permit_threads() {
    // SAFETY: the call makes nothing of a structure of size 0 but an error (clone3(2), EINVAL).
    let probe = unsafe { libc::syscall(libc::SYS_clone3, std::ptr::null::<u8>(), 0) };
    let errno = std::io::Error::last_os_error().raw_os_error();
    if probe == -1 && errno == Some(Errno::PERM.raw_os_error()) {
        answer_enosys();
    }
}

/// The answer of several filters that answer with an error: the one that was added last gives it (seccomp(2)).
fn answer_enosys() {
    const RETURN: u32 = libc::BPF_RET | libc::BPF_K;
    let step = |code: u32, jf: u8, k: u32| libc::sock_filter { code: code as u16, jt: 0, jf, k };
    // The number of the call is the first field of what the filter sees; it is the same on all processors.
    let mut steps = [
        step(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0),
        step(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 1, libc::SYS_clone3 as u32),
        step(RETURN, 0, libc::SECCOMP_RET_ERRNO | libc::ENOSYS as u32),
        step(RETURN, 0, libc::SECCOMP_RET_ALLOW),
    ];
    let program = libc::sock_fprog { len: steps.len() as u16, filter: steps.as_mut_ptr() };
    // SAFETY: both calls only read their arguments, and the program outlives them. Should one fail, threads
    // cannot be started, which is told where the first is.
    unsafe {
        if libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 {
            libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::os::unix::fs::OpenOptionsExt;
    use std::time::Duration;

    /// Opening a FIFO to read waits for a writer; reading from it then, too.
    #[test]
    fn a_thread_that_waits_is_found() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("fifo");
        rustix::fs::mknodat(
            rustix::fs::CWD,
            &path,
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR,
            0,
        )
        .unwrap();
        let found = |deed: &str| {
            for _ in 0..500 {
                let calls = pending_calls();
                let call = calls
                    .iter()
                    .find(|call| call.deed == deed && subject_of(call).as_deref() == Some(&*path));
                if let Some(call) = call {
                    std::thread::sleep(Duration::from_millis(50));
                    assert!(pending_calls().contains(call), "{call:?}");
                    return;
                }
                std::thread::sleep(Duration::from_millis(10));
            }
            panic!("no thread waits to {deed} {path:?}: {:?}", pending_calls());
        };
        let reader = {
            let path = path.clone();
            std::thread::spawn(move || {
                let mut byte = [0];
                File::open(path).and_then(|mut file| file.read(&mut byte)).unwrap()
            })
        };
        found("open");
        let writer =
            File::options().write(true).custom_flags(libc::O_NONBLOCK).open(&path).unwrap();
        found("read");
        drop(writer);
        assert_eq!(reader.join().unwrap(), 0);
    }
}
