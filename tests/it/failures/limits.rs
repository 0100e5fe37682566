//! Limits of the process and of numbers: an error for what does not fit, never a hang, and no work
//! per file that ought to be done once.

use crate::harness::{Scene, Strace, content, names_below, need, shell};

#[test]
fn a_file_larger_than_the_limit_is_named() {
    for block in ["4096", "1M"] {
        let scene = Scene::new();
        scene.src.file("a", content(100_000)).file("bad", content(300_000)).file("z", content(5));
        scene.src.file("dir/small", "small");
        let run = scene.command(["--block-size", block]).after("trap '' XFSZ; ulimit -f 200").run();
        run.assert_code(1).assert_says("bad");
        let judge = scene.judge(&run);
        judge.lists(&["a", "z", "dir/small"]).verifies().no_leftovers().lacks("bad");
    }
}

#[test]
fn few_descriptors_are_enough_or_an_error() {
    for (limit, jobs) in [(40, "1"), (40, "4"), (16, "2")] {
        let scene = Scene::new();
        for i in 0..150 {
            scene.src.file(format!("{i}/a/b/file"), content(i * 700));
        }
        let run = scene.command(["--workers", jobs]).after(&format!("ulimit -n {limit}")).run();
        run.assert_code_in(&[0, 1, 2, 3]);
        scene.judge(&run).sound().no_temp_files();
        // Too many files are open, or the walk went no deeper so that there are some left for files.
        if run.code != Some(0) && !run.err().contains("(ulimit -n)") {
            run.assert_says("(os error 24)");
        }
    }
}

/// Most of what is open is on its way to be closed, so with few descriptors the run is only slower; and outputs for
/// which there are too few at a time come one after the other.
#[test]
fn few_descriptors_are_waited_for() {
    let outputs = |number: usize| (1..number).flat_map(|i| ["-o".into(), format!("o{i}")]);
    for (limit, number) in [(24, 2), (32, 1), (32, 2), (64, 3)] {
        let scene = Scene::new();
        for i in 0..60 {
            scene.src.file(format!("{i}/file"), content(i * 9000));
        }
        scene.src.file("large", content(2_000_000));
        let run = scene.command(outputs(number)).after(&format!("ulimit -n {limit}")).run();
        run.assert_code(0);
        scene.judge(&run).complete();
        for i in 1..number {
            shell(&scene, &format!("diff -r -x 'dircopy-*' -x .dircopy src o{i}"));
        }
    }
}

/// A slow disk keeps descriptors in a sync for many seconds; whoever needs one has to wait as long.
#[test]
fn descriptors_that_a_sync_holds_are_waited_for() {
    need!(Strace);
    let scene = Scene::new();
    for i in 0..40 {
        scene.src.file(format!("{i}/file"), content(i * 9000));
    }
    let strace = Strace::inject(&scene, "syncfs", "delay_enter=3000000:when=3+4");
    let run = strace.run(scene.command(["-o", "further"]).after("ulimit -n 24"));
    assert!(strace.log().contains("DELAYED"), "no sync was slow");
    run.assert_code(0);
    scene.judge(&run).complete();
}

/// Where memory is short there are fewer threads, and where it is too short the run is refused.
#[test]
fn little_memory_is_enough_or_a_refusal() {
    let scene = Scene::new();
    for i in 0..300 {
        scene.src.file(format!("{}/{i}", i % 7), content(i * 100));
    }
    scene.src.file("large", content(20_000_000));
    let mut codes = Vec::new();
    for megabytes in [48, 64, 72, 80, 90, 100, 120, 140, 150, 160, 200] {
        shell(&scene, "rm -rf dst further");
        for outputs in [&[][..], &["-o", "further"]] {
            let limit = format!("ulimit -v {}", megabytes * 1024);
            let run = scene.command(outputs).after(&limit).run();
            run.assert_code_in(&[0, 2]);
            if run.code == Some(2) {
                run.assert_says("memory (ulimit -v)");
            }
            codes.extend(run.code.filter(|_| megabytes >= 100));
        }
        let check =
            scene.bare(["dst"]).dirverify().after(&format!("ulimit -v {}", megabytes * 1024)).run();
        check.assert_no_crash();
    }
    assert!(codes.iter().all(|code| *code == 0), "{codes:?}");
}

/// The walk's thread starts those of a first lane, and then has to do with what it could get.
#[test]
fn who_gets_few_threads_is_only_slower() {
    need!(Strace);
    for jobs in ["2", "8"] {
        let scene = Scene::new();
        for i in 0..1000 {
            scene.src.file(format!("{}/{i}", i % 40), content(i));
        }
        let strace = Strace::inject(&scene, "clone,clone3", "error=EAGAIN:when=6+");
        // The look for room starts threads of its own where room is not ample.
        let run = strace.run(scene.command(["--workers", jobs, "--no-space-check"]));
        strace.fired(&run);
        scene.judge(&run).complete();
    }
}

/// A later run of a mirror also compares the trees in a thread: without one it does so before it copies.
#[test]
fn a_mirror_that_gets_no_thread_says_so() {
    need!(Strace);
    let scene = Scene::new();
    scene.src.file("a", "a").file("b", "b");
    scene.copy(&["--mirror"]).assert_code(0);
    let mut failed = 0;
    for first in 1..5 {
        let fault = format!("error=EAGAIN:when={first}+");
        let strace = Strace::inject(&scene, "clone,clone3", &fault);
        let run = strace.run(scene.command(["--mirror", "--no-space-check"]));
        run.assert_no_crash();
        if run.code != Some(0) {
            failed += 1;
            run.assert_code(3);
            strace.fired(&run);
            assert!(run.err().contains("threads"), "{}", run.err());
        }
    }
    assert!(failed > 0, "the fault never mattered");
    scene.copy(&["--mirror"]).assert_code(0);
}

#[test]
fn a_flat_directory_of_twenty_thousand() {
    let scene = Scene::new();
    for i in 0..20_000 {
        scene.src.file(format!("{i}"), if i % 3 == 0 { "" } else { "x" });
    }
    let run = scene.copy(&[]);
    scene.judge(&run).complete();
    assert_eq!(names_below(&scene.dst, "f").len(), 20_001);
}

/// Nothing may hold the whole tree in memory: as many files with short names as with long ones take as
/// much, though the long names alone are 6 MB more.
#[test]
fn memory_does_not_grow_with_the_names_of_files() {
    let peak = |length: usize| {
        let scene = Scene::new();
        for i in 0..30_000 {
            scene.src.file(format!("{}/{}{i}", i % 20, "n".repeat(length)), "");
        }
        let args = ["--workers", "1", "--queue-size", "4", "--block-size", "64K", "--no-sync"];
        let mut running = scene.command(args).spawn();
        let peak = running.peak_memory();
        running.wait().assert_code(0);
        assert_eq!(names_below(&scene.dst, "f").len(), 30_001);
        peak
    };
    let (short, long) = (peak(5), peak(205));
    assert!(long < short + 3_000, "{short} KiB with short names, {long} KiB with long ones");
}

#[test]
fn threads_are_started_once_not_per_file() {
    need!(Strace);
    let scene = Scene::new();
    for i in 0..100 {
        scene
            .src
            .file(format!("small-{i}"), content(100))
            .file(format!("big-{i}"), content(20_000));
    }
    let strace = Strace::watch(&scene, "clone,clone3,fork,vfork");
    let run = strace.run(scene.command(["--block-size", "4096", "--workers", "2"]));
    scene.judge(&run).complete();
    let started = strace.log().lines().filter(|line| line.contains("clone")).count();
    assert!(started <= 40, "{started} threads for 200 files");
}
