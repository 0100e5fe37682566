//! What a small file costs in system calls. They are most of the time that many small files take, so one
//! more of them should be somebody's decision.

use std::collections::{BTreeMap, BTreeSet};

use crate::harness::{Scene, Strace, content, need};

/// Files in a directory; twice as many cost twice the calls, so what a run costs anyway cancels out.
const FILES: usize = 150;

/// The calls about files and descriptors that each of some files takes, as `name` or `name × count`.
fn calls_per_file(args: &[&str], again: bool) -> String {
    let mut counts = [1, 2].map(|times| {
        let scene = Scene::new();
        for i in 0..times * FILES {
            scene.src.file(format!("dir/{i:04}"), content(1000));
        }
        // Files as young as the manifest that lists them are read again, so one run is not enough.
        for _ in 0..if again { 2 } else { 0 } {
            std::thread::sleep(std::time::Duration::from_millis(20));
            scene.command(args).run().assert_code(0);
        }
        let strace = Strace::watch(&scene, "%file,%desc");
        strace.run(scene.command(args)).assert_code(0);
        let mut counts = BTreeMap::<String, usize>::new();
        for call in strace.calls() {
            let name = call.split('(').next().unwrap_or_default();
            *counts.entry(name.to_owned()).or_default() += 1;
        }
        counts
    });
    let once = std::mem::take(&mut counts[0]);
    let each = |(name, count): (&String, &usize)| {
        // Rust's own check of descriptors that it closes, in debug builds.
        if name == "fcntl" {
            return None;
        }
        // What does not grow with every file (batches, the manifest's writes) rounds to nothing.
        let more = count.saturating_sub(once.get(name).copied().unwrap_or(0));
        match (more + FILES / 2) / FILES {
            0 => None,
            1 => Some(name.clone()),
            times => Some(format!("{name} × {times}")),
        }
    };
    counts[1].iter().filter_map(each).collect::<Vec<_>>().join(", ")
}

#[test]
fn a_small_file_costs_no_call_that_nobody_decided_on() {
    need!(Strace);
    let source = "flistxattr, fstat";
    for (args, again, expected) in [
        // Where files without a name cannot be published, they have one, and get their mode later. Then they are looked
        // at before they are closed, and when they have their final name: another file may have got it, and the private
        // record says as what a file was left.
        (
            &["--no-sync"][..],
            false,
            "close × 2, flistxattr, fstat, linkat, newfstatat, openat × 2, \
            read, statx, utimensat, write | NAMED, read, renameat2, statx × 2, utimensat, write",
        ),
        (
            &["--no-sync", "--hash", "none"],
            false,
            "close × 2, copy_file_range, flistxattr, fstat, \
            linkat, newfstatat, openat × 2, utimensat | NAMED, renameat2, statx × 2, utimensat",
        ),
        (&[], false, "BORN, read, renameat2, statx × 2, utimensat, write"),
        (&["--simd", "on"], false, "BORN, read, renameat2, statx × 2, utimensat, write"),
        (&[], true, "newfstatat × 2"),
    ] {
        let args = [args, &["--no-space-check", "-q"]].concat();
        let calls = calls_per_file(&args, again);
        let named = format!("close × 2, fchmod, {source}, newfstatat, openat × 2");
        // With a name it is made with its permissions where these can be tried without one.
        let born = named.replace(", fchmod", "");
        let either =
            format!("{} | {}", expected.replace("BORN", &born), expected.replace("BORN", &named));
        let expected = either.replace("NAMED", &named);
        let as_expected = expected.split(" | ").any(|expected| expected == calls);
        assert!(as_expected, "{args:?}, again: {again}\ncalls:    {calls}\nexpected: {expected}");
    }
}

/// A run that copies nothing waits for no worker to be started, and one that copies a file for one worker: its three
/// threads and the one for checkpoints. The walker and the thread that answers how far the run is are always there.
#[test]
fn a_lane_is_started_when_there_is_work_for_it() {
    need!(Strace);
    for (files, threads) in [(0, 2), (1, 2 + 4)] {
        let scene = Scene::new();
        for i in 0..files {
            scene.src.file(format!("{i}"), content(1000));
        }
        let strace = Strace::watch(&scene, "%process");
        strace.run(scene.command(["-q", "--allow-empty"])).assert_code(0);
        // A call without a structure asks whether it may be made, and starts nothing.
        let is_start = |call: &&String| call.starts_with("clone") && !call.contains("(NULL");
        let started = strace.calls().iter().filter(is_start).count();
        assert_eq!(started, threads, "{files} files\n{}", strace.calls().join("\n"));
    }
}

/// Where more than one lane is at work, threads beside the walk look at what it lists.
#[test]
fn files_are_looked_at_beside_the_walk() {
    need!(Strace);
    let looked_by_lister = |jobs: &str| {
        let scene = Scene::new();
        // The first of several directories is looked at by the walk itself.
        for i in 0..FILES {
            scene.src.file(format!("{}/{i:04}", i % 3), content(10));
        }
        let strace = Strace::watch(&scene, "getdents64,newfstatat,statx");
        let args = ["--no-space-check", "--workers", jobs];
        let run = strace.run(scene.command(args));
        scene.judge(&run).complete();
        let log = strace.log();
        let threads_of = |call: &str| -> BTreeSet<String> {
            let does = |line: &&str| line.contains(call) && line.contains("/src/");
            log.lines()
                .filter(does)
                .filter_map(|line| Some(line.split_once(' ')?.0.to_owned()))
                .collect()
        };
        assert_eq!(threads_of("getdents64(").len(), 1, "{log}");
        threads_of("getdents64(") == threads_of("newfstatat(")
    };
    assert!(looked_by_lister("1"));
    assert!(!looked_by_lister("2"));
}
