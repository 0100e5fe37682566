//! Whose a file or directory is.

use std::os::windows::io::{AsHandle, AsRawHandle, BorrowedHandle, FromRawHandle, OwnedHandle};
use std::{io, mem::size_of_val, ptr::null, ptr::null_mut, sync::OnceLock};

use windows_sys::{
    Win32::Security::ACL, Win32::Security::ACL_REVISION, Win32::Security::AddAccessAllowedAceEx,
    Win32::Security::AdjustTokenPrivileges, Win32::Security::CONTAINER_INHERIT_ACE,
    Win32::Security::CreateWellKnownSid, Win32::Security::DACL_SECURITY_INFORMATION,
    Win32::Security::EqualSid, Win32::Security::GetKernelObjectSecurity,
    Win32::Security::GetSecurityDescriptorOwner, Win32::Security::GetTokenInformation,
    Win32::Security::InitializeAcl, Win32::Security::InitializeSecurityDescriptor,
    Win32::Security::LUID_AND_ATTRIBUTES, Win32::Security::LookupPrivilegeValueW,
    Win32::Security::OBJECT_INHERIT_ACE, Win32::Security::OWNER_SECURITY_INFORMATION,
    Win32::Security::PROTECTED_DACL_SECURITY_INFORMATION,
    Win32::Security::SE_CREATE_SYMBOLIC_LINK_NAME, Win32::Security::SE_DACL_PROTECTED,
    Win32::Security::SE_PRIVILEGE_ENABLED, Win32::Security::SECURITY_DESCRIPTOR,
    Win32::Security::SetKernelObjectSecurity, Win32::Security::SetSecurityDescriptorControl,
    Win32::Security::SetSecurityDescriptorDacl, Win32::Security::TOKEN_ADJUST_PRIVILEGES,
    Win32::Security::TOKEN_INFORMATION_CLASS, Win32::Security::TOKEN_PRIVILEGES,
    Win32::Security::TOKEN_QUERY, Win32::Security::TokenOwner, Win32::Security::TokenUser,
    Win32::Security::WinBuiltinAdministratorsSid, Win32::Security::WinLocalSystemSid,
    Win32::Storage::FileSystem::FILE_ALL_ACCESS,
    Win32::System::SystemServices::SECURITY_DESCRIPTOR_REVISION,
    Win32::System::Threading::GetCurrentProcess, Win32::System::Threading::OpenProcessToken,
};

/// True if a file belongs to the user of this process, or to those in whose name its files are made: a file that an
/// administrator makes may belong to all administrators.
pub(super) fn is_ours(file: BorrowedHandle<'_>) -> bool {
    let is = |token: OwnedHandle| {
        is_of(file, token.as_handle(), TokenOwner) || is_of(file, token.as_handle(), TokenUser)
    };
    own_token().is_ok_and(is)
}

/// The token of this process.
fn own_token() -> io::Result<OwnedHandle> {
    let mut token = null_mut();
    // SAFETY: the process's handle of itself, which is always there, and room for a handle.
    if unsafe { OpenProcessToken(GetCurrentProcess(), TOKEN_QUERY, &mut token) } == 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the call succeeded, so this is an open handle, and only this value has it.
    Ok(unsafe { OwnedHandle::from_raw_handle(token) })
}

/// Closes a directory, opened to set its access list, to all but the user of this process, the system and its
/// administrators, with all that is made in it later.
///
/// # Errors
/// The system's: there are no access lists everywhere.
pub(super) fn close(dir: BorrowedHandle<'_>) -> io::Result<()> {
    let token = own_token()?;
    // An identifier has at most 68 bytes (winnt.h); a list of three takes less than 300.
    let (mut user, mut told) = ([0u64; 32], 0);
    let mut known = [[0u64; 9]; 2];
    let mut list = [0u64; 64];
    let (len, room) = (size_of_val(&user) as u32, size_of_val(&list) as u32);
    let list: *mut ACL = list.as_mut_ptr().cast();
    // SAFETY: zeros are a value of this structure of numbers and pointers.
    let mut descriptor: SECURITY_DESCRIPTOR = unsafe { std::mem::zeroed() };
    let descriptor = (&raw mut descriptor).cast();
    // SAFETY: each call writes at most as much as it is told that there is room for to buffers that are aligned for it,
    // and live through all of them; the first begins with a pointer into itself.
    let is_closed = unsafe {
        let user_place = user.as_mut_ptr().cast();
        let allow = |who| {
            let inherit = OBJECT_INHERIT_ACE | CONTAINER_INHERIT_ACE;
            AddAccessAllowedAceEx(list, ACL_REVISION, inherit, FILE_ALL_ACCESS, who) != 0
        };
        GetTokenInformation(token.as_raw_handle(), TokenUser, user_place, len, &mut told) != 0
            && InitializeAcl(list, room, ACL_REVISION) != 0
            && allow(*user.as_ptr().cast())
            && [WinLocalSystemSid, WinBuiltinAdministratorsSid].iter().zip(&mut known).all(
                |(kind, place)| {
                    let mut room = size_of_val(place) as u32;
                    let place = place.as_mut_ptr().cast();
                    CreateWellKnownSid(*kind, null_mut(), place, &mut room) != 0 && allow(place)
                },
            )
            && InitializeSecurityDescriptor(descriptor, SECURITY_DESCRIPTOR_REVISION) != 0
            && SetSecurityDescriptorDacl(descriptor, 1, list, 0) != 0
            && SetSecurityDescriptorControl(descriptor, SE_DACL_PROTECTED, SE_DACL_PROTECTED) != 0
            && SetKernelObjectSecurity(
                dir.as_raw_handle(),
                DACL_SECURITY_INFORMATION | PROTECTED_DACL_SECURITY_INFORMATION,
                descriptor,
            ) != 0
    };
    if is_closed { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// True if the owner of a file is the one that a token names, in information that begins with a pointer to the
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

// Rights that a user has and that count only after a program has asked for them.

/// Asks, once, for the right to make symbolic links. CreateSymbolicLinkW does so by itself; the call
/// beneath it, which is the one used here, only looks whether the right counts, and an administrator's
/// does not at first. Without it making the link is an error that says so.
pub(super) fn ask_for_links() {
    static ASKED: OnceLock<()> = OnceLock::new();
    ASKED.get_or_init(|| {
        let mut token = null_mut();
        // SAFETY: the process's handle of itself, which is always there, and room for a handle.
        if unsafe { OpenProcessToken(GetCurrentProcess(), TOKEN_ADJUST_PRIVILEGES, &mut token) }
            == 0
        {
            return;
        }
        // SAFETY: the call succeeded, so this is an open handle, and only this value has it.
        let token = unsafe { OwnedHandle::from_raw_handle(token) };
        let right = LUID_AND_ATTRIBUTES { Attributes: SE_PRIVILEGE_ENABLED, ..Default::default() };
        let mut wanted = TOKEN_PRIVILEGES { PrivilegeCount: 1, Privileges: [right] };
        // SAFETY: a name that ends with a 0 and values that live through the calls; the last three
        // arguments say that what was before is not asked for.
        unsafe {
            let luid = &mut wanted.Privileges[0].Luid;
            if LookupPrivilegeValueW(null(), SE_CREATE_SYMBOLIC_LINK_NAME, luid) != 0 {
                AdjustTokenPrivileges(token.as_raw_handle(), 0, &wanted, 0, null_mut(), null_mut());
            }
        }
    });
}
