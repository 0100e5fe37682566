//! What a small file costs in pieces of memory. Each is a call into the allocator, and some allocators take a
//! lock for it, so one more of them should be somebody's decision.
//!
//! A program of its own, because it counts the calls of every thread in it.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used)] // a test says what it expects

use std::alloc::{GlobalAlloc, Layout, System};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use dircopy::internals::Dir;
use dircopy::{Algorithm, CopyJob, Ending, Event, Observer};

/// Counts what it passes on to the system's allocator.
struct Counting;

static TAKEN: AtomicUsize = AtomicUsize::new(0);

// SAFETY: every call is passed on as it came.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        TAKEN.fetch_add(1, Relaxed);
        // SAFETY: as promised to this function.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: as promised to this function.
        unsafe { System.dealloc(memory, layout) }
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        TAKEN.fetch_add(1, Relaxed);
        // SAFETY: as promised to this function.
        unsafe { System.realloc(memory, layout, size) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

/// Files in a directory; twice as many cost twice the pieces, so what a run takes anyway cancels out.
const FILES: usize = 400;

type Change = fn(&mut CopyJob);

fn taken(source: &Path, output: &Path, change: Change) -> usize {
    let mut job = CopyJob::new(source, output);
    (job.options.sync, job.workers, job.options.check_space) = (false, Some(1), false);
    change(&mut job);
    let before = TAKEN.load(Relaxed);
    let report = job.run(&Observer::new(|_: &Event<'_>| {})).unwrap();
    let taken = TAKEN.load(Relaxed) - before;
    assert!(matches!(report.ending, Ending::Complete), "{:?}", report.ending);
    taken
}

/// Pieces for each of some small files: for copying it, or for finding that it is there.
fn per_file(dir: &Path, change: Change, again: bool) -> usize {
    let [once, twice] = [1, 2].map(|times| {
        let dir = tempfile::tempdir_in(dir).unwrap();
        let (source, output) = (dir.path().join("source"), dir.path().join("output"));
        // Not in the root, which is looked through for earlier manifests besides.
        let below = source.join("dir");
        std::fs::create_dir_all(&below).unwrap();
        for i in 0..times * FILES {
            std::fs::write(below.join(format!("{i:08}")), [7; 4096]).unwrap();
        }
        // A directory that was changed a moment ago is listed twice.
        std::thread::sleep(Duration::from_millis(30));
        // Files as young as the manifest that lists them are read again, so one run is not enough.
        for _ in 0..if again { 2 } else { 0 } {
            taken(&source, &output, change);
            std::thread::sleep(Duration::from_millis(20));
        }
        taken(&source, &output, change)
    });
    // What does not grow with every file rounds to nothing.
    (twice.saturating_sub(once) + FILES / 2) / FILES
}

#[test]
fn a_small_file_takes_no_piece_of_memory_that_nobody_decided_on() {
    let dir = tempfile::tempdir().unwrap();
    let nameless = Dir::open(dir.path())
        .unwrap()
        .can_publish_nameless(dircopy::internals::PartOwner::default());
    // The name as its directory lists it, and the part file's if it has any.
    let copied = if nameless { 1 } else { 2 };
    // The name as it is listed on both sides, and the path that is looked for in the earlier manifest.
    let found = 3;
    let kinds: [(&str, Change, bool, usize); 5] = [
        ("hashed", |_| (), false, copied),
        ("not hashed", |job| job.options.algorithm = Algorithm::None, false, copied),
        ("durable", |job| job.options.sync = true, false, 2),
        ("there already", |_| (), true, found),
        ("there already, durable", |job| job.options.sync = true, true, found),
    ];
    for (what, change, again, expected) in kinds {
        assert_eq!(per_file(dir.path(), change, again), expected, "{what}: pieces for each file");
    }
}
