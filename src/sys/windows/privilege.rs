//! Rights that a user has and that count only after a program has asked for them.

use std::os::windows::io::{AsRawHandle, FromRawHandle, OwnedHandle};
use std::ptr::{null, null_mut};
use std::sync::OnceLock;

use windows_sys::Win32::Security::{
    AdjustTokenPrivileges, LUID_AND_ATTRIBUTES, LookupPrivilegeValueW,
    SE_CREATE_SYMBOLIC_LINK_NAME, SE_PRIVILEGE_ENABLED, TOKEN_ADJUST_PRIVILEGES, TOKEN_PRIVILEGES,
};
use windows_sys::Win32::System::Threading::{GetCurrentProcess, OpenProcessToken};

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
