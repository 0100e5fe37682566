//! What a volume can do and how it says that it cannot go on.

use std::fs::File;
use std::io;
use std::os::windows::io::AsHandle;

use windows_sys::Wdk::Storage::FileSystem::{
    FILE_BASIC_INFORMATION, FILE_FS_ATTRIBUTE_INFORMATION, FileBasicInformation,
    FileFsAttributeInformation, FileFsFullSizeInformation,
};
use windows_sys::Wdk::System::SystemServices::FILE_FS_FULL_SIZE_INFORMATION;
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
    FILE_ATTRIBUTE_SPARSE_FILE,
};
use windows_sys::Win32::System::Ioctl::{
    FILE_ALLOCATED_RANGE_BUFFER, FSCTL_QUERY_ALLOCATED_RANGES, FSCTL_SET_SPARSE,
};

use crate::sys::types::{Extent, FreeSpace, UsedSpace};
use crate::sys::windows::dir::Dir;
use crate::sys::windows::nt;

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
        match nt::is_one_of(&error, &[ERROR_ACCESS_DENIED]) {
            true => Ok(()),
            false => Err(error),
        }
    })
}

/// Closes a file. Windows has nothing to say then.
pub fn close_file(file: File) -> io::Result<()> {
    drop(file);
    Ok(())
}

/// Asks for what [`close_file`] would be told: nothing here.
pub fn flush_file(_: &File) -> io::Result<()> {
    Ok(())
}

/// What the volume `at` lies on can still hold.
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

/// What is told of an entry does not say whose it is.
pub fn may_lack_owners(_: impl AsHandle) -> bool {
    true
}

/// What the file system is called.
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

impl Dir {
    /// The largest file that this directory's volume can hold, if that is known to be less than disks are large;
    /// bytes.
    pub fn largest_file(&self) -> Option<u64> {
        let is_fat = matches!(file_system(self).as_deref(), Some("FAT" | "FAT32"));
        is_fat.then_some(u32::MAX.into())
    }
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

/// Whether the error says that there is no room left (or no quota).
pub fn is_disk_full(error: &io::Error) -> bool {
    nt::is_one_of(error, &[ERROR_DISK_FULL, ERROR_HANDLE_DISK_FULL, ERROR_DISK_QUOTA_EXCEEDED])
}

/// Whether the error says nothing about the medium: this process has no handle or memory left, or is
/// not allowed to.
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

/// Whether the error says that the device did not do what it was told.
pub fn is_device_error(error: &io::Error) -> bool {
    const DEVICE: [u32; 5] =
        [ERROR_IO_DEVICE, ERROR_CRC, ERROR_READ_FAULT, ERROR_WRITE_FAULT, ERROR_GEN_FAILURE];
    nt::is_one_of(error, &DEVICE)
}

/// Whether the error says that the whole volume is of no use any more: write-protected, unplugged,
/// disconnected.
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
