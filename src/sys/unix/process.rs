//! The process as a whole: its signals and limits.

use std::sync::atomic::{
    AtomicBool, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering::Relaxed,
};
use std::{
    ffi::OsString, fs::File, io, os::fd::AsRawFd, os::unix::ffi::OsStrExt,
    os::unix::net::SocketAddr, os::unix::net::UnixDatagram, os::unix::process::CommandExt,
    path::Path, path::PathBuf, process::Child, process::Command, process::ExitStatus, sync::Arc,
    sync::OnceLock, thread::sleep, time::Duration, time::Instant,
};

use rustix::{
    fs::Access, fs::AtFlags, fs::CWD, fs::Mode, fs::accessat, io::Errno, process::Pid,
    process::Resource, process::Rlimit, process::Signal, process::getrlimit,
    process::kill_process_group, process::setrlimit,
};
use signal_hook::{consts::SIGHUP, consts::SIGINT, consts::SIGTERM, consts::SIGXFSZ};

use crate::sys::unix::system::abstract_address;

/// A signal that follows the first one this soon is the same request: GNU `timeout` signals its child and
/// then the whole process group.
const SAME_REQUEST: Duration = Duration::from_secs(1);

/// When the first of the signals came that end the program, in milliseconds; 0 before.
static INTERRUPTED: AtomicU64 = AtomicU64::new(0);

/// From now on SIGINT, SIGTERM and SIGHUP store 128 plus their number in `stop`, which is the exit
/// code that shells expect. A further one, a second or more after the first, ends the process at once.
/// A write beyond the file-size limit becomes an error of that write instead of a signal that kills.
pub fn on_interrupt(stop: &Arc<AtomicUsize>) -> io::Result<()> {
    for signal in [SIGINT, SIGTERM, SIGHUP].into_iter().filter(|signal| !is_ignored(*signal)) {
        let code = 128 + signal;
        let stop = Arc::clone(stop);
        let interrupted = move || {
            let now = milliseconds_since_boot();
            match INTERRUPTED.compare_exchange(0, now, Relaxed, Relaxed) {
                Ok(_) => stop.store(code as usize, Relaxed),
                Err(first) if now.saturating_sub(first) < SAME_REQUEST.as_millis() as u64 => {}
                Err(_) => signal_hook::low_level::exit(code),
            }
        };
        // SAFETY: the handler reads a clock, touches two atomics and may call `_exit`, all of which
        // signal-safety(7) allows; it neither allocates, locks nor panics.
        unsafe { signal_hook::low_level::register(signal, interrupted) }?;
    }
    signal_hook::flag::register(SIGXFSZ, Arc::new(AtomicBool::new(false)))?;
    Ok(())
}

/// A signal came that ends the program: nothing is worth a long wait any more.
pub(super) fn is_interrupted() -> bool {
    INTERRUPTED.load(Relaxed) != 0
}

/// Takes the signals that wait for a thread which hangs in a call: the kernel chooses one thread for each, often the
/// first of the process, and asks no other until that changes which signals it wants.
pub fn take_waiting_signals() {
    let mut asked = std::mem::MaybeUninit::<libc::sigset_t>::uninit();
    let mut before = std::mem::MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: the first call fills in the set that the next ones change and read, and the fourth the one that the last
    // reads; all live through the calls, which concern this thread alone.
    unsafe {
        libc::sigemptyset(asked.as_mut_ptr());
        for signal in [SIGINT, SIGTERM, SIGHUP] {
            libc::sigaddset(asked.as_mut_ptr(), signal);
        }
        if libc::pthread_sigmask(libc::SIG_BLOCK, asked.as_ptr(), before.as_mut_ptr()) == 0 {
            libc::pthread_sigmask(libc::SIG_SETMASK, before.as_ptr(), std::ptr::null_mut());
        }
    }
}

/// From now on SIGUSR1 sets `asked`: the user wants to know how far the run is, as with dd(1).
pub fn on_status_request(asked: &Arc<AtomicBool>) -> io::Result<()> {
    if !is_ignored(libc::SIGUSR1) {
        signal_hook::flag::register(libc::SIGUSR1, Arc::clone(asked))?;
    }
    Ok(())
}

/// True if the terminal's characters are those of Unicode, by the locale that the environment names (locale(7)).
pub fn shows_unicode() -> bool {
    let variables = ["LC_ALL", "LC_CTYPE", "LANG"].iter();
    let locale = variables.filter_map(std::env::var_os).find(|value| !value.is_empty());
    let locale = locale.unwrap_or_default().to_string_lossy().to_ascii_lowercase();
    locale.contains("utf-8") || locale.contains("utf8")
}

/// A clock that only moves forward; at least 1. Safe in a signal handler.
fn milliseconds_since_boot() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    (now.tv_sec as u64 * 1000 + now.tv_nsec as u64 / 1_000_000).max(1)
}

/// True if the program was started with this signal ignored, as `nohup` does: then it is meant to stay ignored.
fn is_ignored(signal: libc::c_int) -> bool {
    let mut action = std::mem::MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: without a new action the call only fills in the current one, for which there is room;
    // all zeros are a valid value of that plain structure should the call fail.
    let action = unsafe {
        libc::sigaction(signal, std::ptr::null(), action.as_mut_ptr());
        action.assume_init()
    };
    action.sa_sigaction == libc::SIG_IGN
}

/// The effective user and group of this process. Asked once: nothing here changes them, and
/// asking for every file costs as much as a twentieth of copying it.
pub(super) fn acting_as() -> (u32, u32) {
    static IDS: OnceLock<(u32, u32)> = OnceLock::new();
    *IDS.get_or_init(|| (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw()))
}

/// Keeps the owner's permissions out of the umask: with 0777 or 0277 a run would shut itself out of what it makes, and
/// so would every later one. For the beginning of a program, before there are threads.
pub fn keep_own_permissions() {
    let mask = rustix::process::umask(Mode::from_raw_mode(0o077));
    rustix::process::umask(mask - Mode::RWXU);
}

/// True if this process may give its files to any user.
pub fn may_give_away() -> bool {
    is_root()
}

/// True if this process acts as root.
pub(super) fn is_root() -> bool {
    acting_as().0 == 0
}

/// Number of files this process may have open at a time.
pub fn open_file_limit() -> u64 {
    getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}

/// Lifts the soft limit of open files to the hard one, where that is allowed. Directories are
/// held open while files in them are on their way, and 1,024 (the usual soft limit, kept low for
/// programs that use select(2)) would be tight.
pub fn raise_open_file_limit() {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    // Without it, fewer directories are held open at a time.
    let _ = setrlimit(Resource::Nofile, raised);
}

/// Address space that this process could still take when this was first asked, in bytes; `None` without a limit
/// (`ulimit -v` and `-d`). What ended threads had is kept for others, so it would seem to be gone later.
pub fn address_space_left() -> Option<u64> {
    static LEFT: OnceLock<Option<u64>> = OnceLock::new();
    *LEFT.get_or_init(look_at_limits)
}

fn look_at_limits() -> Option<u64> {
    // Columns of proc_pid_statm(5), in pages: all that is mapped, and what of it is data and stacks.
    const LIMITS: [(Resource, usize); 2] = [(Resource::As, 0), (Resource::Data, 5)];
    let limit = |(resource, column)| Some((getrlimit(resource).current?, column));
    let limits: Vec<(u64, usize)> = LIMITS.into_iter().filter_map(limit).collect();
    if limits.is_empty() {
        return None;
    }
    let taken = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let taken: Vec<u64> = taken.split(' ').map_while(|pages| pages.trim().parse().ok()).collect();
    let page = rustix::param::page_size() as u64;
    let left = |(limit, column): (u64, usize)| {
        limit.saturating_sub(taken.get(column).copied().unwrap_or(0).saturating_mul(page))
    };
    limits.into_iter().map(left).min()
}

/// Where the address space is limited, has the allocator take it in one piece: for each thread it would set aside 64 or
/// 128 MiB, and what is left then is too little for the next thread's stack, or for anything.
pub fn heed_memory_limit() {
    #[cfg(target_env = "gnu")]
    if address_space_left().is_some() {
        // SAFETY: it sets a number in the allocator, which takes effect with the next thread. There is no other yet.
        unsafe { libc::mallopt(libc::M_ARENA_MAX, 1) };
    }
}

/// Waits until reading from `file` would not wait, for a short while at most; false when it still
/// would. So a reader of a pipe can look up from time to time.
pub fn wait_readable(file: &File) -> bool {
    wait(file, libc::POLLIN)
}

/// The same for writing.
pub(super) fn wait_writable(file: &File) -> bool {
    wait(file, libc::POLLOUT)
}

fn wait(file: &File, events: libc::c_short) -> bool {
    const TENTH_OF_A_SECOND: libc::c_int = 100;
    let mut asked = libc::pollfd { fd: file.as_raw_fd(), events, revents: 0 };
    // SAFETY: one structure, as the count says, that lives through the call.
    match unsafe { libc::poll(&mut asked, 1, TENTH_OF_A_SECOND) } {
        0 => false,
        // EINTR: let the caller look again. Other errors come back on the read or write.
        -1 => io::Error::last_os_error().kind() != io::ErrorKind::Interrupted,
        _ => true,
    }
}

/// True if the other end is closed: of a pipe that is written to POLLERR says so, of a socket POLLHUP (poll(2)).
pub(super) fn has_hung_up(file: &File) -> bool {
    let mut asked = libc::pollfd { fd: file.as_raw_fd(), events: 0, revents: 0 };
    // SAFETY: one structure, as the count says, that lives through the call.
    let ready = unsafe { libc::poll(&mut asked, 1, 0) };
    ready == 1 && asked.revents & (libc::POLLERR | libc::POLLHUP) != 0
}

/// Standard input as a file, for reading without a lock or a buffer between.
pub fn standard_input() -> io::Result<File> {
    use std::os::fd::AsFd;
    Ok(File::from(io::stdin().as_fd().try_clone_to_owned()?))
}

/// Bit n is set when descriptor n was closed as the program was started.
static CLOSED: AtomicU8 = AtomicU8::new(0);

/// True if standard input (0), output (1) or error (2) was closed when the program was started. By the time `main`
/// runs, Rust's runtime has put `/dev/null` there, so that nothing else gets the number; and what is written to it
/// seems to arrive.
pub fn was_closed_at_start(descriptor: u8) -> bool {
    CLOSED.load(Relaxed) & (1 << descriptor) != 0
}

extern "C" fn look_at_descriptors() {
    for descriptor in 0..3 {
        // SAFETY: F_GETFD takes no argument and only asks; a closed descriptor is an answer.
        if unsafe { libc::fcntl(descriptor, libc::F_GETFD) } == -1 {
            CLOSED.fetch_or(1 << descriptor, Relaxed);
        }
    }
}

// SAFETY: the linker's table of functions to call before `main` (System V ABI, Mach-O); this one needs
// nothing that is set up later: it makes one system call and touches one atomic.
#[used]
#[cfg_attr(target_os = "macos", unsafe(link_section = "__DATA,__mod_init_func"))]
#[cfg_attr(not(target_os = "macos"), unsafe(link_section = ".init_array"))]
static BEFORE_MAIN: extern "C" fn() = look_at_descriptors;

/// Where programs keep settings: the user's own, then those of the machine.
pub fn settings_directories() -> Vec<PathBuf> {
    let own = named("XDG_CONFIG_HOME").or_else(|| Some(named("HOME")?.join(".config")));
    own.into_iter().chain([PathBuf::from("/etc")]).collect()
}

/// Where programs keep what is the user's own.
pub fn data_directory() -> Option<PathBuf> {
    let usual =
        if cfg!(target_os = "macos") { "Library/Application Support" } else { ".local/share" };
    named("XDG_DATA_HOME").or_else(|| Some(named("HOME")?.join(usual)))
}

/// The directory that a variable of the environment names.
fn named(variable: &str) -> Option<PathBuf> {
    let path = std::env::var_os(variable).map(PathBuf::from);
    path.filter(|path| path.is_absolute())
}

// Descriptors when there are too few: a thread that gets none waits until others have closed some, for most of what is
// open is on its way to be closed.

/// Time between two tries.
const AGAIN: Duration = Duration::from_millis(5);

/// Longest wait: a disk that takes its time over a sync, and a machine that does much else, keep descriptors open for
/// many seconds. What is not closed by then is held by those that wait.
const MOST: Duration = Duration::from_secs(60);

/// Longest wait where waiting helps seldom: once it was in vain, with fewer descriptors than [`ENOUGH`], or where it is
/// not this process that has them all.
const MOST_IN_DOUBT: Duration = Duration::from_secs(1);

/// So many looks in a row must find that this process does not have them all.
const LOOKS: u32 = 10;

/// With fewer, threads soon hold what others of them wait for.
const ENOUGH: u64 = 24;

/// Number of threads that wait.
static WAITING: AtomicU32 = AtomicU32::new(0);

/// The last wait was in vain: then all that wait give up at once, and close what they hold.
static IN_VAIN: AtomicBool = AtomicBool::new(false);

/// Some wait was in vain.
static WAS_IN_VAIN: AtomicBool = AtomicBool::new(false);

/// True if a thread waits for a descriptor: then files that are not needed should be closed.
pub fn descriptors_are_wanted() -> bool {
    WAITING.load(Relaxed) > 0
}

/// Opens something, and waits for a descriptor if there is none.
pub(super) fn patiently<T>(open: impl Fn() -> Result<T, Errno>) -> Result<T, Errno> {
    match open() {
        Err(Errno::MFILE | Errno::NFILE) => wait_for_descriptor(open),
        opened => opened,
    }
}

#[cold]
fn wait_for_descriptor<T>(open: impl Fn() -> Result<T, Errno>) -> Result<T, Errno> {
    let started = Instant::now();
    WAITING.fetch_add(1, Relaxed);
    let is_in_doubt = WAS_IN_VAIN.load(Relaxed) || open_file_limit() < ENOUGH;
    let mut looks = 0;
    let opened = loop {
        sleep(AGAIN);
        let opened = open();
        if !matches!(opened, Err(Errno::MFILE | Errno::NFILE)) {
            break opened;
        }
        // One look may come right after another thread closed one.
        looks = if all_are_taken() { 0 } else { looks + 1 };
        let most = if is_in_doubt || looks > LOOKS { MOST_IN_DOUBT } else { MOST };
        if IN_VAIN.load(Relaxed) || is_interrupted() || started.elapsed() >= most {
            break opened;
        }
    };
    WAITING.fetch_sub(1, Relaxed);
    let in_vain = matches!(opened, Err(Errno::MFILE | Errno::NFILE));
    IN_VAIN.store(in_vain, Relaxed);
    WAS_IN_VAIN.fetch_or(in_vain, Relaxed);
    opened
}

/// True if this process has the descriptors below its limit, of which the lowest 64 are looked at: the system gives the
/// lowest that is free (open(2)). If it has not, nothing that it closes ends the want.
fn all_are_taken() -> bool {
    let lowest = 0..open_file_limit().min(64) as libc::c_int;
    let look = |fd| libc::pollfd { fd, events: 0, revents: 0 };
    let mut asked: Vec<_> = lowest.map(look).collect();
    // SAFETY: as many structures as the count says, which live through the call.
    let told = unsafe { libc::poll(asked.as_mut_ptr(), asked.len() as libc::nfds_t, 0) };
    told >= 0 && asked.iter().all(|one| one.revents & libc::POLLNVAL == 0)
}

// A program that is started to help, with all that it starts in its turn.

/// A program in a process group of its own, so that it can be ended together with what it started.
#[derive(Debug)]
pub struct Helper(Child);

impl Helper {
    /// True if this user may run the file.
    pub fn may_be(path: &Path) -> bool {
        accessat(CWD, path, Access::EXEC_OK, AtFlags::EACCESS).is_ok()
    }

    /// Starts the program.
    pub fn start(command: &mut Command) -> io::Result<Self> {
        command.process_group(0).spawn().map(Self)
    }

    /// Its exit status, if it has ended.
    pub fn ended(&mut self) -> io::Result<Option<ExitStatus>> {
        self.0.try_wait()
    }

    /// Asks it and all that it started to end.
    pub fn ask_to_end(&self) {
        self.signal(Signal::TERM);
    }

    /// Ends it and all that it started.
    pub fn kill(&mut self) {
        self.signal(Signal::KILL);
        // It was not waited for, so its number is still its own.
        let _ = self.0.wait();
    }

    fn signal(&self, signal: Signal) {
        // One that is over needs no signal.
        let _ = kill_process_group(Pid::from_child(&self.0), signal);
    }
}

// The service manager that started the program, if one did and wants to hear how it goes
// (sd_notify(3)).

#[derive(Debug)]
pub struct Manager {
    socket: UnixDatagram,
    address: SocketAddr,
}

impl Manager {
    /// The one that the environment names.
    pub fn find() -> Option<Self> {
        let address = address_of(&std::env::var_os("NOTIFY_SOCKET")?)?;
        let socket = UnixDatagram::unbound().ok()?;
        // A manager that does not listen must not hold up a copy.
        socket.set_nonblocking(true).ok()?;
        Some(Self { socket, address })
    }

    /// Tells it something: lines of `NAME=VALUE`.
    pub fn tell(&self, text: &str) {
        // Nothing depends on its being heard.
        let _ = self.socket.send_to_addr(text.as_bytes(), &self.address);
    }
}

/// A path, or a name in the abstract namespace of Linux, which is written with an `@` before it.
fn address_of(name: &OsString) -> Option<SocketAddr> {
    match name.as_bytes().split_first()? {
        (b'/', _) => SocketAddr::from_pathname(name).ok(),
        (b'@', name) => abstract_address(name),
        _ => None,
    }
}

/// The machine's name on the network, as it was set; perhaps empty.
pub fn host_name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

// Giving way to other programs. What is set here is inherited by threads that are started later.

/// Sets how nice this thread, and those it starts, are to others: from -20 to 19 (setpriority(2)).
pub fn set_nice(nice: i32) -> io::Result<()> {
    // Linux keeps the value for each thread, and 0 means the one that asks.
    Ok(rustix::process::setpriority_process(None, nice)?)
}
