//! Descriptors when there are too few: a thread that gets none waits until others have closed some, for most of what is
//! open is on its way to be closed.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::io::Errno;

use crate::sys::unix::process::{is_interrupted, open_file_limit};

/// How often it is tried again.
const AGAIN: Duration = Duration::from_millis(5);

/// So long is waited: a disk that takes its time over a sync, and a machine that does much else, keep descriptors open
/// for many seconds. What is not closed by then is held by those that wait.
const MOST: Duration = Duration::from_secs(60);

/// So long where waiting helps seldom: once it was in vain, or with fewer descriptors than [`ENOUGH`].
const MOST_IN_DOUBT: Duration = Duration::from_secs(1);

/// With fewer, threads soon hold what others of them wait for.
const ENOUGH: u64 = 24;

/// So many threads wait.
static WAITING: AtomicU32 = AtomicU32::new(0);

/// The last wait was in vain: then all that wait give up at once, and close what they hold.
static IN_VAIN: AtomicBool = AtomicBool::new(false);

/// Some wait was in vain.
static WAS_IN_VAIN: AtomicBool = AtomicBool::new(false);

/// Whether a thread waits for a descriptor: then what can be closed should be.
pub fn descriptors_are_wanted() -> bool {
    WAITING.load(Relaxed) > 0
}

/// Opens something, and waits for a descriptor if there is none.
pub(super) fn patiently<T>(open: impl Fn() -> Result<T, Errno>) -> Result<T, Errno> {
    match open() {
        Err(Errno::MFILE | Errno::NFILE) => wait(open),
        opened => opened,
    }
}

#[cold]
fn wait<T>(open: impl Fn() -> Result<T, Errno>) -> Result<T, Errno> {
    let started = Instant::now();
    WAITING.fetch_add(1, Relaxed);
    let is_in_doubt = WAS_IN_VAIN.load(Relaxed) || open_file_limit() < ENOUGH;
    let most = if is_in_doubt { MOST_IN_DOUBT } else { MOST };
    let opened = loop {
        sleep(AGAIN);
        match open() {
            Err(Errno::MFILE | Errno::NFILE)
                if !IN_VAIN.load(Relaxed) && !is_interrupted() && started.elapsed() < most => {}
            opened => break opened,
        }
    };
    WAITING.fetch_sub(1, Relaxed);
    let in_vain = matches!(opened, Err(Errno::MFILE | Errno::NFILE));
    IN_VAIN.store(in_vain, Relaxed);
    WAS_IN_VAIN.fetch_or(in_vain, Relaxed);
    opened
}
