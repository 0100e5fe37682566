//! Whether a directory lies on a volume of its own.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::windows::ffi::OsStringExt;
use std::path::Path;

use windows_sys::Win32::System::SystemInformation::GetSystemWindowsDirectoryW;

use crate::sys::types::NoOwnMount;
use crate::sys::windows::dir::Dir;

impl Dir {
    /// Opens the directory `name` in this one. A folder in which a volume is mounted is refused as a link is.
    pub fn open_unmounted(&self, name: &OsStr) -> io::Result<Self> {
        self.open_dir(name, false)
    }
}

/// Why `dir` does not lie on a volume of its own, if so: it lies on that of Windows. A volume whose letter or folder is
/// gone cannot be opened at all.
pub fn no_own_mount(dir: &Dir) -> io::Result<Option<NoOwnMount>> {
    let mut name = [0u16; 1024];
    // SAFETY: the call writes at most as many numbers as it is told, which is how many there is room for.
    let len = unsafe { GetSystemWindowsDirectoryW(name.as_mut_ptr(), name.len() as u32) };
    let name = match name.get(..len as usize) {
        Some(name) if len > 0 => OsString::from_wide(name),
        _ => return Err(io::Error::last_os_error()),
    };
    let system = Dir::open(Path::new(&name))?.identity()?;
    Ok((dir.identity()?.dev == system.dev).then_some(NoOwnMount::System))
}
