//! The process that holds the lock of a directory, and since when.

use std::fs;

use crate::sys::types::LockHolder;
use crate::sys::unix::dir::Dir;

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

/// The machine's name on the network, as it was set; perhaps empty.
pub fn host_name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}
