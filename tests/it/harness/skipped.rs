//! What a test could not try on this machine, told so that a person sees it.
//!
//! Of a test that passes cargo shows nothing, so what it skipped would go unseen. The test program therefore counts it,
//! and tells at its end, past cargo's capture, how many tests lacked what. Other test programs include this file by its
//! path.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write as _;
use std::panic::Location;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The names of tests, by the reason.
type Skipped = BTreeMap<String, BTreeSet<String>>;

static SKIPPED: Mutex<Skipped> = Mutex::new(BTreeMap::new());

/// Counts the test that calls this as skipped, wholly or in part, for want of something. Fails it where all must run.
#[track_caller]
pub fn lacking(what: &str) {
    let must = std::env::var_os("DIRCOPY_TEST_ALL").is_some_and(|all| all == "1");
    assert!(!must, "DIRCOPY_TEST_ALL=1, but this machine has no {what}");
    skipped(&format!("no {what}"));
}

/// Counts the test that calls this as skipped, wholly or in part, for what no program that one installs would mend.
#[track_caller]
pub fn skipped(reason: &str) {
    let mut all = counted();
    if all.is_empty() {
        // SAFETY: `tell` is a function of C that does not panic.
        unsafe { libc::atexit(tell) };
    }
    // A thread of cargo's has the name of its test. With one thread in all, the place in the source stands for it.
    let thread = std::thread::current();
    let test = thread.name().filter(|name| *name != "main");
    let test = test.map_or_else(|| Location::caller().to_string(), str::to_owned);
    all.entry(reason.to_owned()).or_default().insert(test);
}

fn counted() -> MutexGuard<'static, Skipped> {
    SKIPPED.lock().unwrap_or_else(PoisonError::into_inner)
}

extern "C" fn tell() {
    let all = counted();
    let tests = all.values().flatten().collect::<BTreeSet<_>>().len();
    let mut text = format!("skipped on this machine, wholly or in part: {tests} tests\n");
    for (reason, tests) in &*all {
        text.push_str(&format!("{:>6}  {reason}\n", tests.len()));
    }
    text.push('\n');
    let _ = std::io::stderr().write_all(text.as_bytes());
}
