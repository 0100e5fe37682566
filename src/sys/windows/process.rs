//! The process as a whole: its console, its end, its standard input.

use std::{
    fs::File, io, os::windows::io::AsHandle, os::windows::io::AsRawHandle, path::Path,
    path::PathBuf, process::Child, process::Command, process::ExitStatus, ptr::null_mut, sync::Arc,
    sync::Mutex, sync::PoisonError, sync::atomic::AtomicBool, sync::atomic::AtomicUsize,
    sync::atomic::Ordering::Relaxed, time::Duration, time::SystemTime, time::UNIX_EPOCH,
};

use windows_sys::{
    Win32::Foundation::INVALID_HANDLE_VALUE, Win32::Storage::FileSystem::FILE_TYPE_PIPE,
    Win32::Storage::FileSystem::GetFileType, Win32::System::Console::CTRL_BREAK_EVENT,
    Win32::System::Console::CTRL_C_EVENT, Win32::System::Console::CTRL_CLOSE_EVENT,
    Win32::System::Console::GetStdHandle, Win32::System::Console::STD_ERROR_HANDLE,
    Win32::System::Console::STD_INPUT_HANDLE, Win32::System::Console::STD_OUTPUT_HANDLE,
    Win32::System::Console::SetConsoleCtrlHandler, Win32::System::Pipes::PeekNamedPipe,
    Win32::System::SystemInformation::ComputerNamePhysicalDnsHostname,
    Win32::System::SystemInformation::GetComputerNameExW,
    Win32::System::Threading::ABOVE_NORMAL_PRIORITY_CLASS,
    Win32::System::Threading::BELOW_NORMAL_PRIORITY_CLASS,
    Win32::System::Threading::GetCurrentProcess, Win32::System::Threading::HIGH_PRIORITY_CLASS,
    Win32::System::Threading::IDLE_PRIORITY_CLASS, Win32::System::Threading::NORMAL_PRIORITY_CLASS,
    Win32::System::Threading::SetPriorityClass,
};

use crate::{sys::stat::Time, sys::types::LockHolder, sys::windows::dir::Dir};

/// The counter that is told of an interruption.
static STOP: Mutex<Option<Arc<AtomicUsize>>> = Mutex::new(None);

/// From now on Ctrl-C and Ctrl-Break store 130 in `stop`, the closing of the console's window 129, and
/// the end of the session or of the system 143: the exit codes of the signals that mean the same
/// elsewhere. A second one ends the process at once, with the system's own code.
pub fn on_interrupt(stop: &Arc<AtomicUsize>) -> io::Result<()> {
    *STOP.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::clone(stop));
    // SAFETY: the function is there as long as the program.
    match unsafe { SetConsoleCtrlHandler(Some(interrupted), 1) } {
        0 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

/// Called by the system in a thread of its own.
// SAFETY: what the system asks for is a function of this shape that may be called at any time; this
// one locks a mutex that is never held for long, and touches an atomic.
unsafe extern "system" fn interrupted(event: u32) -> i32 {
    let code = match event {
        CTRL_C_EVENT | CTRL_BREAK_EVENT => 130,
        CTRL_CLOSE_EVENT => 129,
        _ => 143,
    };
    let stop = STOP.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let Some(stop) = stop else { return 0 };
    if stop.swap(code, Relaxed) != 0 {
        return 0; // a second time: what the system does by itself, which is to end the process
    }
    if matches!(event, CTRL_C_EVENT | CTRL_BREAK_EVENT) {
        return 1;
    }
    // After any other event the process is ended as soon as this returns, or after some seconds.
    loop {
        std::thread::sleep(Duration::from_secs(1));
    }
}

/// There is no signal with which a user asks how far a run is.
pub fn on_status_request(_: &Arc<AtomicBool>) -> io::Result<()> {
    Ok(())
}

/// True if the terminal's characters are those of Unicode: the console takes UTF-16.
pub fn shows_unicode() -> bool {
    true
}

/// Number of files this process may have open at a time: handles are limited by memory alone.
pub fn open_file_limit() -> u64 {
    1 << 24
}

/// The system has a thread of its own for them.
pub fn take_waiting_signals() {}

/// Owners are not copied here.
pub fn may_give_away() -> bool {
    false
}

/// There is no umask.
pub fn keep_own_permissions() {}

/// There is no limit to raise.
pub fn raise_open_file_limit() {}

/// Handles do not run out here.
pub fn descriptors_are_wanted() -> bool {
    false
}

/// There is no limit of one's own here.
pub fn address_space_left() -> Option<u64> {
    None
}

/// There is none to be heeded.
pub fn heed_memory_limit() {}

/// Waits until reading from `file` would not wait, for a short while at most; false when it still
/// would. So a reader of a pipe can look up from time to time.
pub fn wait_readable(file: &File) -> bool {
    const TENTH_OF_A_SECOND: Duration = Duration::from_millis(100);
    let handle = file.as_raw_handle();
    let mut there = 0;
    // SAFETY: an open handle, nothing to be read into, and a number that lives through the call.
    let is_empty = unsafe {
        GetFileType(handle) == FILE_TYPE_PIPE
            && PeekNamedPipe(handle, null_mut(), 0, null_mut(), &mut there, null_mut()) != 0
            && there == 0
    };
    // Any error, and that the other end is closed, the read will meet too.
    if is_empty {
        std::thread::sleep(TENTH_OF_A_SECOND);
    }
    !is_empty
}

/// Standard input as a file, for reading without a lock or a buffer between.
pub fn standard_input() -> io::Result<File> {
    Ok(File::from(io::stdin().as_handle().try_clone_to_owned()?))
}

/// True if there was no standard input (0), output (1) or error (2) when the program was started: then everything
/// written there seems to arrive.
pub fn was_closed_at_start(descriptor: u8) -> bool {
    let which = match descriptor {
        0 => STD_INPUT_HANDLE,
        1 => STD_OUTPUT_HANDLE,
        _ => STD_ERROR_HANDLE,
    };
    // SAFETY: a function of one number.
    let handle = unsafe { GetStdHandle(which) };
    handle.is_null() || handle == INVALID_HANDLE_VALUE
}

/// Where programs keep settings: the user's own, then those of the machine.
pub fn settings_directories() -> Vec<PathBuf> {
    let of = |variable| std::env::var_os(variable).map(PathBuf::from);
    ["APPDATA", "PROGRAMDATA"]
        .into_iter()
        .filter_map(of)
        .filter(|path| path.is_absolute())
        .collect()
}

/// Where programs keep what is the user's own.
pub fn data_directory() -> Option<PathBuf> {
    std::env::var_os("LOCALAPPDATA").map(PathBuf::from).filter(|path| path.is_absolute())
}

// A program that is started to help.

/// A program. What it starts in its turn is not ended with it here.
#[derive(Debug)]
pub struct Helper(Child);

impl Helper {
    /// True if this user may run the file; that is told when it is started.
    pub fn may_be(_: &Path) -> bool {
        true
    }

    /// Starts the program.
    pub fn start(command: &mut Command) -> io::Result<Self> {
        command.spawn().map(Self)
    }

    /// Its exit status, if it has ended.
    pub fn ended(&mut self) -> io::Result<Option<ExitStatus>> {
        self.0.try_wait()
    }

    /// A program without a window cannot be asked here.
    pub fn ask_to_end(&self) {}

    /// Ends it.
    pub fn kill(&mut self) {
        // One that is over needs no end.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

// Service managers: on Windows none is told how a program that ends by itself goes.

/// A service manager; there is none.
#[derive(Debug)]
pub enum Manager {}

impl Manager {
    /// The one that started the program.
    pub fn find() -> Option<Self> {
        None
    }

    pub fn tell(&self, _: &str) {
        match *self {}
    }
}

// The name of this machine, and the process that has locked a directory.

/// Not known here: the system does not tell which process has an object.
pub fn lock_holder(_: &Dir) -> Option<LockHolder> {
    None
}

/// The machine's name on the network, as it was set; perhaps empty.
pub fn host_name() -> String {
    // A name has at most 63 characters.
    let mut name = [0u16; 256];
    let mut len = name.len() as u32;
    // SAFETY: the call writes at most `len` numbers, which is how many there is room for, and then
    // how many it wrote.
    let told =
        unsafe { GetComputerNameExW(ComputerNamePhysicalDnsHostname, name.as_mut_ptr(), &mut len) };
    match name.get(..len as usize) {
        Some(name) if told != 0 => String::from_utf16_lossy(name),
        _ => String::new(),
    }
}

// Giving way to other programs.

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

/// The system's clock for files moves in steps of 15.6 ms.
const CLOCK_STEP: Duration = Duration::from_millis(16);

/// The time of now, or a little earlier, as the system would give it to a file that is changed.
pub fn time_of_change() -> Time {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let now = now.saturating_sub(CLOCK_STEP);
    Time { secs: i64::try_from(now.as_secs()).unwrap_or(0), nanos: now.subsec_nanos() }
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
