//! Where a directory really lies; the abilities of its volume, and its errors when it cannot go on.

use std::os::windows::io::{AsHandle, AsRawHandle, BorrowedHandle};
use std::{
    ffi::OsStr, ffi::OsString, fs::File, io, os::windows::ffi::OsStringExt, path::Path,
    path::PathBuf,
};

use windows_sys::Wdk::Foundation::{
    NtQueryObject, OBJECT_INFORMATION_CLASS, OBJECT_NAME_INFORMATION,
};
use windows_sys::Wdk::Storage::FileSystem::{
    FILE_BASIC_INFORMATION, FILE_FS_ATTRIBUTE_INFORMATION, FileBasicInformation,
    FileFsAttributeInformation, FileFsFullSizeInformation, FileNameInformation,
};
use windows_sys::Win32::Foundation::{
    ERROR_ACCESS_DENIED, ERROR_BAD_NET_NAME, ERROR_BAD_NETPATH, ERROR_COMMITMENT_LIMIT, ERROR_CRC,
    ERROR_DEV_NOT_EXIST, ERROR_DEVICE_NOT_CONNECTED, ERROR_DEVICE_REMOVED, ERROR_DISK_FULL,
    ERROR_DISK_QUOTA_EXCEEDED, ERROR_FILE_INVALID, ERROR_GEN_FAILURE, ERROR_HANDLE_DISK_FULL,
    ERROR_HOST_UNREACHABLE, ERROR_IO_DEVICE, ERROR_LOCK_VIOLATION, ERROR_MORE_DATA,
    ERROR_NETNAME_DELETED, ERROR_NETWORK_UNREACHABLE, ERROR_NO_SUCH_DEVICE,
    ERROR_NO_SYSTEM_RESOURCES, ERROR_NOT_CONNECTED, ERROR_NOT_ENOUGH_MEMORY, ERROR_NOT_READY,
    ERROR_OUTOFMEMORY, ERROR_PRIVILEGE_NOT_HELD, ERROR_READ_FAULT, ERROR_SEM_TIMEOUT,
    ERROR_SHARING_VIOLATION, ERROR_TOO_MANY_OPEN_FILES, ERROR_UNEXP_NET_ERR, ERROR_VC_DISCONNECTED,
    ERROR_WRITE_FAULT, ERROR_WRITE_PROTECT, ERROR_WRONG_DISK,
};
use windows_sys::Win32::Storage::FileSystem::{
    FILE_ATTRIBUTE_OFFLINE, FILE_ATTRIBUTE_RECALL_ON_DATA_ACCESS, FILE_ATTRIBUTE_REPARSE_POINT,
    FILE_ATTRIBUTE_SPARSE_FILE, GetLogicalDrives, GetVolumeInformationByHandleW,
};
use windows_sys::Win32::System::Ioctl::{
    FILE_ALLOCATED_RANGE_BUFFER, FSCTL_QUERY_ALLOCATED_RANGES, FSCTL_SET_SPARSE,
};
use windows_sys::{
    Wdk::System::SystemServices::FILE_FS_FULL_SIZE_INFORMATION,
    Win32::System::SystemInformation::GetSystemWindowsDirectoryW,
};

use crate::sys::types::{
    Durable, Extent, FreeSpace, MountedVolume, NoOwnMount, UsedSpace, VolumeDetails,
};
use crate::{path::RelPath, sys::windows::dir::Dir, sys::windows::nt};

/// The next data of a file of `size` bytes at or after `offset`; an extent at `size` without length
/// when only a hole is left. `None` where the file system keeps no such map, and for files whose
/// content comes from somewhere else when it is read (deduplicated, or in a cloud): what their map says
/// is not about what is read.
pub fn next_extent(file: &File, offset: u64, size: u64) -> io::Result<Option<Extent>> {
    const ELSEWHERE: u32 = FILE_ATTRIBUTE_REPARSE_POINT
        | FILE_ATTRIBUTE_OFFLINE
        | FILE_ATTRIBUTE_RECALL_ON_DATA_ACCESS;
    let basic: FILE_BASIC_INFORMATION = nt::query(file.as_handle(), FileBasicInformation)?;
    if basic.FileAttributes & (ELSEWHERE | FILE_ATTRIBUTE_SPARSE_FILE) != FILE_ATTRIBUTE_SPARSE_FILE
    {
        return Ok(None);
    }
    let mut asked = [0u8; 16];
    asked[..8].copy_from_slice(&offset.to_ne_bytes());
    asked[8..].copy_from_slice(&size.saturating_sub(offset).to_ne_bytes());
    let mut told = [0u8; size_of::<FILE_ALLOCATED_RANGE_BUFFER>()];
    let len = match nt::control(file.as_handle(), FSCTL_QUERY_ALLOCATED_RANGES, &asked, &mut told) {
        Err(error) if nt::is_unsupported(&error) => return Ok(None),
        // There are more than the one asked for.
        Err(error) if nt::is_one_of(&error, &[ERROR_MORE_DATA]) => told.len(),
        len => len?,
    };
    if len < told.len() {
        return Ok(Some(Extent { start: size, end: size }));
    }
    let number =
        |at: usize| told[at..at + 8].iter().rev().fold(0u64, |n, &b| n << 8 | u64::from(b));
    let start = number(0).clamp(offset, size);
    let end = number(0).saturating_add(number(8)).clamp(start, size);
    // An extent that leads nowhere would be asked for again for ever.
    Ok((end > offset || start == size).then_some(Extent { start, end }))
}

/// From now on, what is skipped while writing `file` takes no room, where the file system can do that;
/// elsewhere zeros are written.
pub fn allow_holes(file: &File) {
    let _ = nt::control(file.as_handle(), FSCTL_SET_SPARSE, &[], &mut []);
}

/// Waits until a file's content and metadata are on the device. An error is final. Windows flushes
/// only through a handle that may write, and a file that was there before is not opened so: such a
/// file is left to the system, which writes it within seconds of its last change.
pub fn persist_file(file: &File) -> io::Result<()> {
    nt::flush(file.as_handle()).or_else(|error| {
        if nt::is_one_of(&error, &[ERROR_ACCESS_DENIED]) { Ok(()) } else { Err(error) }
    })
}

/// Closes a file. Windows has nothing to say then.
pub fn close_file(file: File) -> io::Result<()> {
    drop(file);
    Ok(())
}

/// The free space of the volume that `at` lies on.
pub fn room(at: impl AsHandle) -> io::Result<FreeSpace> {
    let told: FILE_FS_FULL_SIZE_INFORMATION =
        nt::query_volume(at.as_handle(), FileFsFullSizeInformation)?;
    let block = u64::from(told.SectorsPerAllocationUnit) * u64::from(told.BytesPerSector);
    let units = u64::try_from(told.CallerAvailableAllocationUnits).unwrap_or(0);
    Ok(FreeSpace { bytes: units.saturating_mul(block), block, files: None })
}

/// The longest name that the volume can hold is longer than any of ours.
pub fn longest_name(_: impl AsHandle) -> Option<usize> {
    None
}

/// True, because the metadata of an entry do not tell its owner here.
pub fn may_lack_owners(_: impl AsHandle) -> bool {
    true
}

/// The name of the file system.
pub fn file_system(at: impl AsHandle) -> Option<String> {
    const LEN: usize = std::mem::offset_of!(FILE_FS_ATTRIBUTE_INFORMATION, FileSystemNameLength);
    const NAME: usize = std::mem::offset_of!(FILE_FS_ATTRIBUTE_INFORMATION, FileSystemName);
    let mut room = [0u64; 72];
    let len = nt::query_volume_into(at.as_handle(), FileFsAttributeInformation, &mut room).ok()?;
    let bytes = nt::bytes_of(&room, len);
    let name_len = u32::from_ne_bytes(bytes.get(LEN..LEN + 4)?.try_into().ok()?) as usize;
    let name = bytes.get(NAME..)?.get(..name_len)?;
    let units: Vec<u16> = name.chunks_exact(2).map(|u| u16::from_ne_bytes([u[0], u[1]])).collect();
    String::from_utf16(&units).ok()
}

/// The worth of a sync of what is in `dir`. A flush waits for the disk on NTFS, unless its user turned that off for the
/// disk, which is not told; of other file systems it is not known here.
pub fn durable(dir: &Dir) -> Durable {
    match (nt::remote(dir.as_handle()), file_system(dir).as_deref()) {
        (Ok(true), _) => Durable::Server,
        (Ok(false), Some("NTFS")) => Durable::Device,
        (Ok(false), _) => Durable::Unknown("it is not known of its file system"),
        (Err(_), _) => Durable::Unknown("its volume does not say where it is"),
    }
}

impl Dir {
    /// The largest file that this directory's volume can hold, if that is known to be less than disks are large;
    /// bytes.
    pub fn largest_file(&self) -> Option<u64> {
        let is_fat = matches!(file_system(self).as_deref(), Some("FAT" | "FAT32"));
        is_fat.then_some(u32::MAX.into())
    }
}

/// Volumes that are mounted in directories are entered as links, and hide nothing that is looked for.
pub fn has_mounts_below(_: &Dir) -> bool {
    false
}

/// Not known here: volumes may be mounted below, and NTFS packs and deduplicates.
pub fn most_below(_: &Dir) -> Option<UsedSpace> {
    None
}

/// A file cannot be read beyond its size here.
pub fn has_exact_sizes(_: impl Sized) -> bool {
    true
}

/// No file system here makes content up when it is read.
pub fn is_synthetic(_: impl Sized) -> bool {
    false
}

/// True if the error says that there is no room left (or no quota).
pub fn is_disk_full(error: &io::Error) -> bool {
    nt::is_one_of(error, &[ERROR_DISK_FULL, ERROR_HANDLE_DISK_FULL, ERROR_DISK_QUOTA_EXCEEDED])
}

/// True if the error says nothing about the medium: this process has no handle or memory left, or is not allowed to.
pub fn is_for_want_of_means(error: &io::Error) -> bool {
    const MEANS: [u32; 9] = [
        ERROR_TOO_MANY_OPEN_FILES,
        ERROR_NOT_ENOUGH_MEMORY,
        ERROR_OUTOFMEMORY,
        ERROR_NO_SYSTEM_RESOURCES,
        ERROR_COMMITMENT_LIMIT,
        ERROR_ACCESS_DENIED,
        ERROR_PRIVILEGE_NOT_HELD,
        ERROR_SHARING_VIOLATION,
        ERROR_LOCK_VIOLATION,
    ];
    nt::is_one_of(error, &MEANS)
}

/// True if the error says that the device did not do what it was told.
pub fn is_device_error(error: &io::Error) -> bool {
    const DEVICE: [u32; 5] =
        [ERROR_IO_DEVICE, ERROR_CRC, ERROR_READ_FAULT, ERROR_WRITE_FAULT, ERROR_GEN_FAILURE];
    nt::is_one_of(error, &DEVICE)
}

/// True if the error says that the whole volume is of no use any more: write-protected, unplugged, disconnected.
pub fn is_output_gone(error: &io::Error) -> bool {
    const GONE: [u32; 17] = [
        ERROR_WRITE_PROTECT,
        ERROR_NOT_READY,
        ERROR_WRONG_DISK,
        ERROR_BAD_NETPATH,
        ERROR_DEV_NOT_EXIST,
        ERROR_UNEXP_NET_ERR,
        ERROR_NETNAME_DELETED,
        ERROR_BAD_NET_NAME,
        ERROR_VC_DISCONNECTED,
        ERROR_NO_SUCH_DEVICE,
        ERROR_FILE_INVALID,
        ERROR_DEVICE_NOT_CONNECTED,
        ERROR_DEVICE_REMOVED,
        ERROR_NOT_CONNECTED,
        // What a server that does not answer, and a disk that went to sleep or off its cable, end in.
        ERROR_SEM_TIMEOUT,
        ERROR_HOST_UNREACHABLE,
        ERROR_NETWORK_UNREACHABLE,
    ];
    nt::is_one_of(error, &GONE)
}

// The labels and serial numbers of volumes that have letters.

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

/// The facts about the volume that `dir` lies on.
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

// The kind of disk that something lies on, and its place there: neither is asked of Windows.

/// Not known here.
pub fn is_on_turning_disk(_: &Dir) -> bool {
    false
}

/// Not known here.
pub fn place_on_disk(_: &File) -> Option<u64> {
    None
}

// Where a directory really lies.

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
    pub fn way_from_top(&self) -> Option<&Path> {
        None
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
