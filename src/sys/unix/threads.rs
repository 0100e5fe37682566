//! Threads under a filter of system calls that does not know `clone3`.
//!
//! Container runtimes of before 2021 answer it with EPERM. The C library takes only ENOSYS for "not here",
//! and then starts threads by `clone`, which those filters allow.

use rustix::io::Errno;

/// Makes `clone3` answer ENOSYS where it is forbidden. Lasts until the process ends, and keeps it and its
/// children from gaining privileges (`PR_SET_NO_NEW_PRIVS`); without effect where `clone3` is allowed.
pub fn permit_threads() {
    // SAFETY: the call makes nothing of a structure of size 0 but an error (clone3(2), EINVAL).
    let probe = unsafe { libc::syscall(libc::SYS_clone3, std::ptr::null::<u8>(), 0) };
    let errno = std::io::Error::last_os_error().raw_os_error();
    if probe == -1 && errno == Some(Errno::PERM.raw_os_error()) {
        answer_enosys();
    }
}

/// Of several filters that answer with an error, the one that was added last says which (seccomp(2)).
fn answer_enosys() {
    const RETURN: u32 = libc::BPF_RET | libc::BPF_K;
    let step = |code: u32, jf: u8, k: u32| libc::sock_filter { code: code as u16, jt: 0, jf, k };
    // The number of the call is the first field of what the filter sees; it is the same on all processors.
    let mut steps = [
        step(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0),
        step(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 1, libc::SYS_clone3 as u32),
        step(RETURN, 0, libc::SECCOMP_RET_ERRNO | libc::ENOSYS as u32),
        step(RETURN, 0, libc::SECCOMP_RET_ALLOW),
    ];
    let program = libc::sock_fprog { len: steps.len() as u16, filter: steps.as_mut_ptr() };
    // SAFETY: both calls only read their arguments, and the program outlives them. Should one fail, threads
    // cannot be started, which is told where the first is.
    unsafe {
        if libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 {
            libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program);
        }
    }
}
