//! Giving way to other programs. What is set here is inherited by threads that are started later.

use std::io;

#[cfg(target_os = "linux")]
use crate::sys::types::IoPriority;

/// Sets how nice this thread, and those it starts, are to others: from -20 to 19 (setpriority(2)).
pub fn set_nice(nice: i32) -> io::Result<()> {
    // Linux keeps the value for each thread, and 0 means the one that asks.
    Ok(rustix::process::setpriority_process(None, nice)?)
}

/// Sets this thread's turn at disks, and that of those it starts (ioprio_set(2)).
#[cfg(target_os = "linux")]
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
