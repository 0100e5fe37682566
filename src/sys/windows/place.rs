//! Where a directory really lies.

use std::os::{windows::ffi::OsStringExt, windows::io::AsRawHandle, windows::io::BorrowedHandle};
use std::{ffi::OsStr, ffi::OsString, io, path::Path};

use windows_sys::{
    Wdk::Foundation::NtQueryObject, Wdk::Foundation::OBJECT_INFORMATION_CLASS,
    Wdk::Foundation::OBJECT_NAME_INFORMATION, Wdk::Storage::FileSystem::FileNameInformation,
    Win32::System::SystemInformation::GetSystemWindowsDirectoryW,
};

use crate::{path::RelPath, sys::types::NoOwnMount, sys::windows::dir::Dir, sys::windows::nt};

/// A directory's place. The way up from it ([`Dir::parent`]) tells all there is to tell, so none is
/// ever known.
#[derive(Debug, PartialEq, Eq)]
pub struct Place(());

impl Place {
    /// Not known here.
    pub fn of(_: &Dir) -> io::Result<Option<Place>> {
        Ok(None)
    }

    /// Not known here.
    pub fn packs(&self) -> bool {
        false
    }

    /// Not known here.
    pub fn file_system(_: &Dir) -> Option<String> {
        None
    }

    /// The way from `outer` to this place.
    pub fn below(&self, _: &Place) -> Option<Option<RelPath>> {
        None
    }
}

// The directories above a directory, by the system's own names.
//
// The system's own name of an open directory starts with the device, so drive letters, `subst`,
// shares of this machine's own drives and folders in which volumes are mounted are seen through.

/// No path has more units (UNICODE_STRING); in bytes, with room for what is before it.
const MOST: usize = 65_536 + 64;

/// ObjectNameInformation of OBJECT_INFORMATION_CLASS (ntifs.h), which `windows-sys` lacks.
const OBJECT_NAME: OBJECT_INFORMATION_CLASS = 1;

/// The system's paths of the directories above `dir`, from the nearest to the top of the volume.
pub(super) fn ancestors(dir: BorrowedHandle<'_>) -> io::Result<Vec<Vec<u16>>> {
    const SEPARATOR: u16 = b'\\' as u16;
    let mut room = vec![0u64; MOST / 8];
    // The path below the volume; of a share its server and name come first.
    let len = nt::query_into(dir, FileNameInformation, &mut room)?;
    let below = units(nt::bytes_of(&room, len).get(4..).unwrap_or_default());
    let depth = below.split(|&unit| unit == SEPARATOR).filter(|part| !part.is_empty()).count();
    let mut path = object_name(dir, &mut room)?;
    while path.pop_if(|unit| *unit == SEPARATOR).is_some() {}
    let mut paths = Vec::with_capacity(depth);
    for left in (0..depth).rev() {
        let Some(cut) = path.iter().rposition(|&unit| unit == SEPARATOR) else { break };
        path.truncate(cut);
        let mut above = path.clone();
        if left == 0 {
            // Without it this is the volume, not its uppermost directory.
            above.push(SEPARATOR);
        }
        paths.push(above);
    }
    Ok(paths)
}

/// The name of an open file in the system's tree of objects.
fn object_name(of: BorrowedHandle<'_>, room: &mut [u64]) -> io::Result<Vec<u16>> {
    let (len, mut told) = (size_of_val(room) as u32, 0);
    // SAFETY: the call writes at most `len` bytes, which is how large the buffer is.
    let status = unsafe {
        let place = room.as_mut_ptr().cast();
        NtQueryObject(of.as_raw_handle(), OBJECT_NAME, place, len, &mut told)
    };
    if status < 0 {
        return Err(io::Error::other("the system does not tell where it lies"));
    }
    // The characters stand behind the structure that has their number (ntifs.h).
    let bytes = nt::bytes_of(room, room.len() * 8);
    let count = usize::from(u16::from_ne_bytes([bytes[0], bytes[1]]));
    let text = bytes.get(size_of::<OBJECT_NAME_INFORMATION>()..).and_then(|text| text.get(..count));
    Ok(units(text.unwrap_or_default()))
}

fn units(bytes: &[u8]) -> Vec<u16> {
    bytes.chunks_exact(2).map(|unit| u16::from_ne_bytes([unit[0], unit[1]])).collect()
}

// Volumes: a directory may lie on one of its own.

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
