//! The labels and serial numbers of volumes that have letters.

use std::ffi::OsString;
use std::io;
use std::os::windows::ffi::OsStringExt;
use std::os::windows::io::{AsHandle, AsRawHandle};
use std::path::PathBuf;

use windows_sys::Win32::Storage::FileSystem::{GetLogicalDrives, GetVolumeInformationByHandleW};

use crate::sys::types::{MountedVolume, VolumeDetails};
use crate::sys::windows::dir::Dir;

/// The volumes that have letters. The serial number is written as `dir` shows it: `1A2B-3C4D`.
pub fn mounted_volumes() -> io::Result<Vec<MountedVolume>> {
    // SAFETY: the call takes nothing.
    let letters = unsafe { GetLogicalDrives() };
    let mut volumes = Vec::new();
    for letter in (b'A'..=b'Z').filter(|letter| letters & (1 << (letter - b'A')) != 0) {
        let point = PathBuf::from(format!("{}:\\", char::from(letter)));
        // A drive without a disk in it.
        let Ok(dir) = Dir::open(&point) else { continue };
        let Ok((label, serial)) = told(&dir) else { continue };
        let uuid = Some(format!("{:04X}-{:04X}", serial >> 16, serial & 0xffff));
        volumes.push(MountedVolume { point, label, uuid });
    }
    Ok(volumes)
}

/// The label of the volume that `dir` lies on, if it has one.
pub fn volume_label(dir: &Dir) -> io::Result<Option<OsString>> {
    Ok(told(dir)?.0)
}

/// What is known of the volume that `dir` lies on.
pub fn volume_details(dir: &Dir) -> VolumeDetails {
    let (label, serial) = told(dir).map_or((None, None), |(label, serial)| (label, Some(serial)));
    VolumeDetails { label, uuid: serial.map(as_uuid), ..VolumeDetails::default() }
}

/// The serial number of the volume that `dir` lies on, which stands for a UUID.
///
/// # Errors
/// It cannot be asked now.
pub fn volume_uuid(dir: &Dir) -> io::Result<Option<String>> {
    told(dir).map(|(_, serial)| Some(as_uuid(serial)))
}

fn as_uuid(serial: u32) -> String {
    format!("{:04X}-{:04X}", serial >> 16, serial & 0xffff)
}

/// The label and the serial number.
fn told(dir: &Dir) -> io::Result<(Option<OsString>, u32)> {
    let (mut label, mut serial) = ([0u16; 261], 0u32);
    let none = std::ptr::null_mut();
    // SAFETY: the handle is open; the call writes at most as many numbers as it is told, which is how many there is
    // room for, and one more; it takes null for what is not asked.
    let done = unsafe {
        GetVolumeInformationByHandleW(
            dir.as_handle().as_raw_handle(),
            label.as_mut_ptr(),
            label.len() as u32,
            &mut serial,
            none,
            none,
            none.cast(),
            0,
        )
    };
    if done == 0 {
        return Err(io::Error::last_os_error());
    }
    let label = label.split(|&unit| unit == 0).next().unwrap_or_default();
    Ok(((!label.is_empty()).then(|| OsString::from_wide(label)), serial))
}
