//! What Linux alone tells of processes, and does for them.

use std::{fs, io, os::linux::net::SocketAddrExt, os::unix::net::SocketAddr};

use crate::{sys::stat::Time, sys::types::IoPriority, sys::types::LockHolder, sys::unix::dir::Dir};

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
