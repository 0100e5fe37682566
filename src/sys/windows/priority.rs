//! Giving way to other programs.

use std::io;

use windows_sys::Win32::System::Threading::{
    ABOVE_NORMAL_PRIORITY_CLASS, BELOW_NORMAL_PRIORITY_CLASS, GetCurrentProcess,
    HIGH_PRIORITY_CLASS, IDLE_PRIORITY_CLASS, NORMAL_PRIORITY_CLASS, SetPriorityClass,
};

/// Sets how nice this process is to others, from -20 to 19: the system knows five classes, of which
/// the outermost are for 10 and more, and -10 and less.
pub fn set_nice(nice: i32) -> io::Result<()> {
    let class = match nice {
        10.. => IDLE_PRIORITY_CLASS,
        1..10 => BELOW_NORMAL_PRIORITY_CLASS,
        0 => NORMAL_PRIORITY_CLASS,
        -9..0 => ABOVE_NORMAL_PRIORITY_CLASS,
        _ => HIGH_PRIORITY_CLASS,
    };
    // SAFETY: the process's handle of itself, which is always there, and a number.
    match unsafe { SetPriorityClass(GetCurrentProcess(), class) } {
        0 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use windows_sys::Win32::System::Threading::GetPriorityClass;

    #[test]
    fn the_system_knows_of_it() {
        // SAFETY: the process's handle of itself, which is always there.
        let class = || unsafe { GetPriorityClass(GetCurrentProcess()) };
        for (nice, expected) in [
            (19, IDLE_PRIORITY_CLASS),
            (1, BELOW_NORMAL_PRIORITY_CLASS),
            (-1, ABOVE_NORMAL_PRIORITY_CLASS),
            (0, NORMAL_PRIORITY_CLASS),
        ] {
            set_nice(nice).unwrap();
            assert_eq!(class(), expected, "{nice}");
        }
    }
}
