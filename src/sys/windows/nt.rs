//! The NT calls with their pointers and lengths, and nothing that decides anything.
//!
//! Every handle made here is for synchronous use, so each call is over when it returns.

use std::os::windows::{io::AsRawHandle, io::BorrowedHandle, io::FromRawHandle, io::OwnedHandle};
use std::{ffi::c_void, io, mem::offset_of, ptr::null, ptr::null_mut};

use windows_sys::{
    Wdk::Foundation::OBJECT_ATTRIBUTES, Wdk::Storage::FileSystem::FILE_ALL_INFORMATION,
    Wdk::Storage::FileSystem::FILE_BASIC_INFORMATION,
    Wdk::Storage::FileSystem::FILE_DISPOSITION_INFORMATION,
    Wdk::Storage::FileSystem::FILE_DISPOSITION_INFORMATION_EX,
    Wdk::Storage::FileSystem::FILE_ID_INFORMATION,
    Wdk::Storage::FileSystem::FILE_INFORMATION_CLASS,
    Wdk::Storage::FileSystem::FILE_RENAME_INFORMATION,
    Wdk::Storage::FileSystem::FILE_STANDARD_INFORMATION,
    Wdk::Storage::FileSystem::FILE_SYNCHRONOUS_IO_NONALERT,
    Wdk::Storage::FileSystem::FS_INFORMATION_CLASS,
    Wdk::Storage::FileSystem::FileFsDeviceInformation,
    Wdk::Storage::FileSystem::FileIdBothDirectoryInformation,
    Wdk::Storage::FileSystem::NtCreateFile, Wdk::Storage::FileSystem::NtFlushBuffersFile,
    Wdk::Storage::FileSystem::NtFsControlFile, Wdk::Storage::FileSystem::NtQueryDirectoryFile,
    Wdk::Storage::FileSystem::NtQueryInformationFile,
    Wdk::Storage::FileSystem::NtQueryVolumeInformationFile,
    Wdk::Storage::FileSystem::NtSetInformationFile,
    Wdk::System::SystemServices::FILE_ATTRIBUTE_TAG_INFORMATION,
    Wdk::System::SystemServices::FILE_FS_DEVICE_INFORMATION,
    Wdk::System::SystemServices::FILE_FS_FULL_SIZE_INFORMATION,
    Wdk::System::SystemServices::FILE_REMOTE_DEVICE, Win32::Foundation::ERROR_CALL_NOT_IMPLEMENTED,
    Win32::Foundation::ERROR_FILE_SYSTEM_LIMITATION, Win32::Foundation::ERROR_INVALID_FUNCTION,
    Win32::Foundation::ERROR_INVALID_LEVEL, Win32::Foundation::ERROR_INVALID_PARAMETER,
    Win32::Foundation::ERROR_NOT_SUPPORTED, Win32::Foundation::HANDLE, Win32::Foundation::NTSTATUS,
    Win32::Foundation::OBJ_CASE_INSENSITIVE, Win32::Foundation::RtlNtStatusToDosError,
    Win32::Foundation::STATUS_BUFFER_OVERFLOW, Win32::Foundation::STATUS_NO_MORE_FILES,
    Win32::Foundation::STATUS_NO_SUCH_FILE, Win32::Foundation::UNICODE_STRING,
    Win32::Storage::FileSystem::FILE_ATTRIBUTE_NORMAL,
    Win32::Storage::FileSystem::FILE_SHARE_DELETE, Win32::Storage::FileSystem::FILE_SHARE_READ,
    Win32::Storage::FileSystem::FILE_SHARE_WRITE, Win32::Storage::FileSystem::SYNCHRONIZE,
    Win32::System::IO::IO_STATUS_BLOCK, Win32::System::Ioctl::FILE_ALLOCATED_RANGE_BUFFER,
};

/// Other programs may do what they like with what is open.
pub const SHARE_ALL: u32 = FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE;

/// Other programs may read, rename and remove what is open, not write to it.
pub const SHARE_READ: u32 = FILE_SHARE_READ | FILE_SHARE_DELETE;

/// The way to open or make something; the numbers of NtCreateFile.
#[derive(Clone, Copy)]
pub struct OpenHow {
    /// The access that is asked for; `SYNCHRONIZE` is added.
    pub access: u32,
    /// The access that others may have meanwhile.
    pub share: u32,
    /// The condition: it must be there, or must not.
    pub disposition: u32,
    /// Options; that the handle is synchronous is added.
    pub options: u32,
}

/// Structures of plain numbers, for which any bytes the system writes are a value.
///
/// # Safety
/// The type has no invalid values among those the system writes, and zeros are one of its values.
pub unsafe trait Plain: Copy {}

// SAFETY: numbers, and flags that the system writes as 0 or 1 (ntifs.h, winioctl.h).
unsafe impl Plain for FILE_ALL_INFORMATION {}
// SAFETY: as above.
unsafe impl Plain for FILE_BASIC_INFORMATION {}
// SAFETY: as above.
unsafe impl Plain for FILE_STANDARD_INFORMATION {}
// SAFETY: as above.
unsafe impl Plain for FILE_ID_INFORMATION {}
// SAFETY: as above.
unsafe impl Plain for FILE_ATTRIBUTE_TAG_INFORMATION {}
// SAFETY: as above.
unsafe impl Plain for FILE_FS_DEVICE_INFORMATION {}
// SAFETY: as above.
unsafe impl Plain for FILE_FS_FULL_SIZE_INFORMATION {}
// SAFETY: as above.
unsafe impl Plain for FILE_DISPOSITION_INFORMATION {}
// SAFETY: as above.
unsafe impl Plain for FILE_DISPOSITION_INFORMATION_EX {}
// SAFETY: as above.
unsafe impl Plain for FILE_ALLOCATED_RANGE_BUFFER {}

/// A success, or the error that Win32 has for the status.
fn check(status: NTSTATUS) -> io::Result<()> {
    // What did not fit is left out; the callers ask for a part only or look at the lengths.
    if status >= 0 || status == STATUS_BUFFER_OVERFLOW {
        return Ok(());
    }
    // SAFETY: a function of one number.
    let code = unsafe { RtlNtStatusToDosError(status) };
    Err(io::Error::from_raw_os_error(code as i32))
}

/// True if an error says that a call, a class of information or a flag is not known here: an older system, or a file
/// system that cannot. (exFAT says of a rename with POSIX semantics that it is limited, ReFS that this is not
/// supported, others that a parameter is wrong.)
pub fn is_unsupported(error: &io::Error) -> bool {
    const CODES: [u32; 6] = [
        ERROR_FILE_SYSTEM_LIMITATION,
        ERROR_INVALID_FUNCTION,
        ERROR_NOT_SUPPORTED,
        ERROR_INVALID_PARAMETER,
        ERROR_CALL_NOT_IMPLEMENTED,
        ERROR_INVALID_LEVEL,
    ];
    is_one_of(error, &CODES)
}

/// True if an error is one of Win32's of these numbers.
pub fn is_one_of(error: &io::Error, codes: &[u32]) -> bool {
    error.raw_os_error().is_some_and(|code| codes.contains(&(code as u32)))
}

/// True if something lies on another machine; where that cannot be told, it may.
pub fn is_remote(at: BorrowedHandle<'_>) -> bool {
    remote(at).unwrap_or(true)
}

/// The same; an error where it cannot be told.
pub fn remote(at: BorrowedHandle<'_>) -> io::Result<bool> {
    let told = query_volume::<FILE_FS_DEVICE_INFORMATION>(at, FileFsDeviceInformation)?;
    Ok(told.Characteristics & FILE_REMOTE_DEVICE != 0)
}

fn status_block() -> IO_STATUS_BLOCK {
    // SAFETY: zeros are a value of this structure of numbers.
    unsafe { std::mem::zeroed() }
}

/// Opens or makes `name`, relative to `root` if there is one; without it the name is a full path of
/// the object manager. An empty name is `root` itself.
pub fn open(
    root: Option<BorrowedHandle<'_>>,
    name: &[u16],
    how: OpenHow,
) -> io::Result<OwnedHandle> {
    let bytes = u16::try_from(name.len() * 2).map_err(|_| io::ErrorKind::InvalidFilename)?;
    let name = UNICODE_STRING {
        Length: bytes,
        MaximumLength: bytes,
        Buffer: name.as_ptr().cast_mut(), // only read
    };
    let object = OBJECT_ATTRIBUTES {
        Length: size_of::<OBJECT_ATTRIBUTES>() as u32,
        RootDirectory: root.map_or(null_mut(), |root| root.as_raw_handle()),
        ObjectName: &name,
        Attributes: OBJ_CASE_INSENSITIVE,
        SecurityDescriptor: null(),
        SecurityQualityOfService: null(),
    };
    let (mut handle, mut block): (HANDLE, _) = (null_mut(), status_block());
    // SAFETY: every pointer is to a value above that lives through the call, or null where that
    // means nothing is given; the call only reads the name.
    let status = unsafe {
        NtCreateFile(
            &mut handle,
            how.access | SYNCHRONIZE,
            &object,
            &mut block,
            null(),
            FILE_ATTRIBUTE_NORMAL,
            how.share,
            how.disposition,
            how.options | FILE_SYNCHRONOUS_IO_NONALERT,
            null(),
            0,
        )
    };
    check(status)?;
    // SAFETY: the call succeeded, so this is an open handle, and only this value has it.
    Ok(unsafe { OwnedHandle::from_raw_handle(handle) })
}

/// The system's information about an open file.
pub fn query<T: Plain>(of: BorrowedHandle<'_>, class: FILE_INFORMATION_CLASS) -> io::Result<T> {
    ask(NtQueryInformationFile, of, class)
}

/// Like [`query`], for information without a fixed length. The buffer is one of 64-bit numbers
/// because the structures in it want that alignment; returns how many bytes were written.
pub fn query_into(
    of: BorrowedHandle<'_>,
    class: FILE_INFORMATION_CLASS,
    room: &mut [u64],
) -> io::Result<usize> {
    ask_into(NtQueryInformationFile, of, class, room)
}

/// The system's information about the volume that an open file lies on.
pub fn query_volume<T: Plain>(
    of: BorrowedHandle<'_>,
    class: FS_INFORMATION_CLASS,
) -> io::Result<T> {
    ask(NtQueryVolumeInformationFile, of, class)
}

/// Like [`query_volume`], for information without a fixed length.
pub fn query_volume_into(
    of: BorrowedHandle<'_>,
    class: FS_INFORMATION_CLASS,
    room: &mut [u64],
) -> io::Result<usize> {
    ask_into(NtQueryVolumeInformationFile, of, class, room)
}

/// One of the two calls that tell something: of what, how it ended, where to and how many bytes at most,
/// and what.
///
/// # Safety
/// The handle is open, and both places live through the call and have room for what is said to fit.
type Ask =
    unsafe extern "system" fn(HANDLE, *mut IO_STATUS_BLOCK, *mut c_void, u32, i32) -> NTSTATUS;

fn ask<T: Plain>(call: Ask, of: BorrowedHandle<'_>, class: i32) -> io::Result<T> {
    // SAFETY: zeros are a value (`Plain`).
    let (mut block, mut told) = (status_block(), unsafe { std::mem::zeroed::<T>() });
    // SAFETY: the call writes at most the length given into a value that lives through it, and any
    // bytes it writes are a value of that type (`Plain`).
    check(unsafe {
        let place = (&raw mut told).cast();
        call(of.as_raw_handle(), &mut block, place, size_of::<T>() as u32, class)
    })?;
    Ok(told)
}

fn ask_into(call: Ask, of: BorrowedHandle<'_>, class: i32, room: &mut [u64]) -> io::Result<usize> {
    let (mut block, len) = (status_block(), size_of_val(room) as u32);
    // SAFETY: the call writes at most `len` bytes, which is how large the buffer is.
    check(unsafe { call(of.as_raw_handle(), &mut block, room.as_mut_ptr().cast(), len, class) })?;
    Ok(block.Information.min(len as usize))
}

/// Changes what the system knows of an open file.
pub fn set<T: Plain>(
    of: BorrowedHandle<'_>,
    class: FILE_INFORMATION_CLASS,
    value: &T,
) -> io::Result<()> {
    let mut block = status_block();
    // SAFETY: the call reads as many bytes as the value has.
    check(unsafe {
        let place = (&raw const *value).cast();
        NtSetInformationFile(of.as_raw_handle(), &mut block, place, size_of::<T>() as u32, class)
    })
}

/// Gives an open file the name `name` in the directory `into`: by FileRenameInformation(Ex) its only
/// one, by FileLinkInformation a further one. `flags` are those of the class.
pub fn set_name(
    of: BorrowedHandle<'_>,
    class: FILE_INFORMATION_CLASS,
    flags: u32,
    into: BorrowedHandle<'_>,
    name: &[u16],
) -> io::Result<()> {
    // The layout of FILE_LINK_INFORMATION is the same (ntifs.h).
    const AT: usize = offset_of!(FILE_RENAME_INFORMATION, FileName);
    let len = (AT + size_of_val(name)).max(size_of::<FILE_RENAME_INFORMATION>());
    let mut room = vec![0u64; len.div_ceil(8)];
    let place = room.as_mut_ptr().cast::<FILE_RENAME_INFORMATION>();
    let mut block = status_block();
    // SAFETY: the buffer is aligned for the structure and as large as it, and has room for the whole
    // name behind `AT`; the call reads `len` bytes of it.
    check(unsafe {
        (*place).Anonymous.Flags = flags;
        (*place).RootDirectory = into.as_raw_handle();
        (*place).FileNameLength = size_of_val(name) as u32;
        let to = place.cast::<u8>().add(AT).cast::<u16>();
        to.copy_from_nonoverlapping(name.as_ptr(), name.len());
        NtSetInformationFile(of.as_raw_handle(), &mut block, place.cast(), len as u32, class)
    })
}

/// Asks the file system for something of its own; returns how many bytes it answered with.
pub fn control(
    of: BorrowedHandle<'_>,
    code: u32,
    input: &[u8],
    output: &mut [u8],
) -> io::Result<usize> {
    let mut block = status_block();
    let given = if input.is_empty() { null() } else { input.as_ptr().cast() };
    let place = if output.is_empty() { null_mut() } else { output.as_mut_ptr().cast() };
    // SAFETY: the call reads and writes no more than the lengths, which are those of the slices.
    check(unsafe {
        NtFsControlFile(
            of.as_raw_handle(),
            null_mut(),
            None,
            null(),
            &mut block,
            code,
            given,
            input.len() as u32,
            place,
            output.len() as u32,
        )
    })?;
    Ok(block.Information.min(output.len()))
}

/// The next entries of a directory, as FILE_ID_BOTH_DIR_INFORMATION one behind the other; returns
/// how many bytes of them, which is 0 at the end. With a `name` only what the directory finds by that, which the first
/// call by a handle settles.
pub fn list(dir: BorrowedHandle<'_>, name: Option<&[u16]>, room: &mut [u64]) -> io::Result<usize> {
    let (mut block, len) = (status_block(), size_of_val(room) as u32);
    let bytes =
        u16::try_from(name.map_or(0, size_of_val)).map_err(|_| io::ErrorKind::InvalidFilename)?;
    let wanted = name.map(|name| UNICODE_STRING {
        Length: bytes,
        MaximumLength: bytes,
        Buffer: name.as_ptr().cast_mut(), // only read
    });
    // SAFETY: the call writes at most `len` bytes, which is how large the buffer is; the name is only read, and lives
    // through the call.
    let status = unsafe {
        NtQueryDirectoryFile(
            dir.as_raw_handle(),
            null_mut(),
            None,
            null(),
            &mut block,
            room.as_mut_ptr().cast(),
            len,
            FileIdBothDirectoryInformation,
            false,
            wanted.as_ref().map_or(null(), |wanted| wanted),
            false,
        )
    };
    // The latter where there was nothing from the start, not even the two dots: the uppermost
    // directory of an empty volume.
    if matches!(status, STATUS_NO_MORE_FILES | STATUS_NO_SUCH_FILE) {
        return Ok(0);
    }
    check(status)?;
    Ok(block.Information.min(len as usize))
}

/// Waits until everything written through any handle of the file is on the device.
pub fn flush(file: BorrowedHandle<'_>) -> io::Result<()> {
    let mut block = status_block();
    // SAFETY: an open handle and a value that lives through the call.
    check(unsafe { NtFlushBuffersFile(file.as_raw_handle(), &mut block) })
}

/// The bytes of a buffer of numbers.
pub fn bytes_of(room: &[u64], len: usize) -> &[u8] {
    // SAFETY: the same memory, of which every byte is initialised, as bytes.
    let bytes = unsafe { std::slice::from_raw_parts(room.as_ptr().cast(), size_of_val(room)) };
    &bytes[..len.min(bytes.len())]
}
