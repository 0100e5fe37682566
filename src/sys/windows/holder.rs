//! The name of this machine, and the process that has locked a directory.

use windows_sys::Win32::System::SystemInformation::{
    ComputerNamePhysicalDnsHostname, GetComputerNameExW,
};

use crate::sys::types::LockHolder;
use crate::sys::windows::dir::Dir;

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
