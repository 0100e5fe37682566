//! Descriptors when there are too few: a thread that gets none waits until others have closed some, for most of what is
//! open is on its way to be closed.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::io::Errno;

/// How often it is tried again.
const AGAIN: Duration = Duration::from_millis(5);

/// So long is waited. What is not closed by then is held by those that wait.
const MOST: Duration = Duration::from_secs(1);

/// So many threads wait.
static WAITING: AtomicU32 = AtomicU32::new(0);

/// Whether the last wait was in vain: then waiting each time would take hours.
static IN_VAIN: AtomicBool = AtomicBool::new(false);

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
    let opened = loop {
        sleep(AGAIN);
        match open() {
            Err(Errno::MFILE | Errno::NFILE)
                if !IN_VAIN.load(Relaxed) && started.elapsed() < MOST => {}
            opened => break opened,
        }
    };
    WAITING.fetch_sub(1, Relaxed);
    IN_VAIN.store(matches!(opened, Err(Errno::MFILE | Errno::NFILE)), Relaxed);
    opened
}
