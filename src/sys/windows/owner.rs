//! Whose a file or directory is.

use std::mem::size_of_val;
use std::os::windows::io::{AsHandle, AsRawHandle, BorrowedHandle, FromRawHandle, OwnedHandle};
use std::ptr::null_mut;

use windows_sys::Win32::Security::{
    EqualSid, GetKernelObjectSecurity, GetSecurityDescriptorOwner, GetTokenInformation,
    OWNER_SECURITY_INFORMATION, TOKEN_INFORMATION_CLASS, TOKEN_QUERY, TokenOwner, TokenUser,
};
use windows_sys::Win32::System::Threading::{GetCurrentProcess, OpenProcessToken};

/// Whether a file belongs to the user of this process, or to those in whose name its files are made:
/// what an administrator makes may belong to all administrators.
pub(super) fn is_ours(file: BorrowedHandle<'_>) -> bool {
    let ours = || {
        let mut token = null_mut();
        // SAFETY: the process's handle of itself, which is always there, and room for a handle.
        if unsafe { OpenProcessToken(GetCurrentProcess(), TOKEN_QUERY, &mut token) } == 0 {
            return None;
        }
        // SAFETY: the call succeeded, so this is an open handle, and only this value has it.
        let token = unsafe { OwnedHandle::from_raw_handle(token) };
        Some(
            is_of(file, token.as_handle(), TokenOwner) || is_of(file, token.as_handle(), TokenUser),
        )
    };
    ours().unwrap_or(false)
}

/// Whether the owner of a file is the one that a token names, in information that begins with a pointer to the
/// identifier (TOKEN_OWNER, TOKEN_USER).
fn is_of(
    file: BorrowedHandle<'_>,
    token: BorrowedHandle<'_>,
    class: TOKEN_INFORMATION_CLASS,
) -> bool {
    // An identifier has at most 68 bytes (winnt.h), and there is one in each, behind a few numbers.
    let (mut descriptor, mut named) = ([0u64; 32], [0u64; 32]);
    let (len, mut told) = (size_of_val(&descriptor) as u32, 0);
    let (mut owner, mut defaulted) = (null_mut(), 0);
    let place = descriptor.as_mut_ptr().cast();
    // SAFETY: both calls write at most `len` bytes to buffers of that size, aligned for what is in
    // them; the third gives a pointer into the first, the second begins with one into itself, and both
    // buffers live until the identifiers were compared.
    unsafe {
        GetKernelObjectSecurity(
            file.as_raw_handle(),
            OWNER_SECURITY_INFORMATION,
            place,
            len,
            &mut told,
        ) != 0
            && GetTokenInformation(
                token.as_raw_handle(),
                class,
                named.as_mut_ptr().cast(),
                len,
                &mut told,
            ) != 0
            && GetSecurityDescriptorOwner(place, &mut owner, &mut defaulted) != 0
            && !owner.is_null()
            && EqualSid(owner, *named.as_ptr().cast()) != 0
    }
}
