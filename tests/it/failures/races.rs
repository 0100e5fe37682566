//! A source that changes while it is read. The program is stopped in the middle of a call, the
//! change is made while it stands still, and it goes on: no race is left to luck.

use crate::harness::{Act, Deed, Judge, Mirror, Mount, NONE, Scene, Strace, content, need, shell};

type Change = fn(&Scene);

/// What may happen to a file of which one block has been read.
const CHANGES: &[(&str, Change)] = &[
    ("cut off", |s| {
        s.src.file("victim", content(10));
    }),
    ("emptied", |s| {
        s.src.file("victim", "");
    }),
    ("grown", |s| {
        s.src.append("victim", &content(1000));
    }),
    ("rewritten in place", |s| {
        let len = s.src.read("victim").len();
        s.src.file("victim", vec![b'#'; len]);
    }),
    ("rewritten in place, time put back", |s| {
        let stat = s.src.stat("victim");
        let len = s.src.read("victim").len();
        s.src.file("victim", vec![b'#'; len]);
        s.src.mtime(
            "victim",
            stat.st_mtime.unsigned_abs(),
            u32::try_from(stat.st_mtime_nsec).unwrap(),
        );
    }),
    ("replaced", |s| {
        let len = s.src.read("victim").len();
        s.tree(".").file("new", vec![b'#'; len]);
        std::fs::rename(s.path("new"), s.src.path("victim")).unwrap();
    }),
];

/// One change: the file is read again, and the second reading is what is copied and listed.
#[test]
fn a_file_that_changes_while_it_is_read_is_read_again() {
    need!(Strace);
    for len in [5000, 300_000] {
        for (what, change) in CHANGES {
            let scene = Scene::new();
            scene.src.file("victim", content(len)).mtime("victim", 1_000_000_000, 7);
            scene.src.file("good", content(300_000)).file("small", "small");
            // Stopped right after the first read of the file.
            let strace = Strace::inject(&scene, Strace::READS, "signal=SIGSTOP:when=1")
                .exactly_on(scene.src.path("victim"));
            let command = scene.command(["--block-size", "64K"]);
            let run = strace.run_stopped(command, || change(&scene));
            let warned = run.err().lines().any(|line| {
                line.contains("warning") && line.contains("victim") && line.contains("read again")
            });
            if run.code != Some(0) || !warned {
                run.fail(&format!("{what} ({len} bytes) while it was read: not noticed"));
            }
            scene.judge(&run).complete();
        }
    }
}

/// A change in every reading: two are enough.
#[test]
fn a_file_that_changes_whenever_it_is_read_is_reported() {
    need!(Strace);
    for len in [5000, 300_000] {
        let scene = Scene::new();
        scene.src.file("victim", content(len));
        scene.src.file("good", content(300_000)).file("small", "small");
        // A reading takes a second or more, so there is a change in each.
        let fault = if len > 10_000 { "delay_exit=200000" } else { "delay_exit=1000000" };
        let strace =
            Strace::inject(&scene, Strace::READS, fault).exactly_on(scene.src.path("victim"));
        let mut running = strace.spawn(scene.command(["--block-size", "64K"]));
        while !running.is_over() {
            scene.src.append("victim", b"more");
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        let run = running.wait();
        strace.fired(&run);
        run.assert_code(1).assert_says("victim");
        assert_eq!(run.err().matches("victim").count(), 1, "{}", run.err());
        let judge = scene.judge(&run);
        judge.lists(&["good", "small"]).verifies().no_leftovers().lacks("victim");
        judge.has("good").has("small");
    }
}

/// There is nothing to read again.
#[test]
fn a_file_that_is_removed_while_it_is_read_is_reported() {
    need!(Strace);
    for len in [5000, 300_000] {
        let scene = Scene::new();
        scene.src.file("victim", content(len)).file("good", content(300_000));
        let strace = Strace::inject(&scene, Strace::READS, "signal=SIGSTOP:when=1")
            .exactly_on(scene.src.path("victim"));
        let run = strace.run_stopped(scene.command(["--block-size", "64K"]), || {
            scene.src.remove("victim");
        });
        run.assert_code(1).assert_says("victim");
        scene.judge(&run).lists(&["good"]).verifies().no_leftovers().has("good").lacks("victim");
    }
}

/// The other names of a file that was read again are links to what was read then; a file that lost
/// a name meanwhile is not tried again, or its other names would wait for ever.
#[test]
fn hard_links_to_a_file_that_changes_are_settled() {
    need!(Strace);
    for len in [5000, 300_000] {
        for (what, code) in [("grows", 0), ("loses a name", 1)] {
            let scene = Scene::new();
            scene.src.file("victim", content(len)).file("good", "good");
            scene.src.hard_link("one", "victim");
            // Whichever name comes first is the one that is read.
            let strace = Strace::inject(&scene, Strace::READS, "signal=SIGSTOP:when=1")
                .exactly_on(scene.src.path("victim"))
                .exactly_on(scene.src.path("one"));
            let command = scene.command(["--block-size", "64K", "--hard-links"]);
            let run = strace.run_stopped(command, || match code {
                0 => {
                    scene.src.append("victim", b"more");
                }
                _ => {
                    let read = strace.log().contains("src/victim>");
                    scene.src.remove(if read { "one" } else { "victim" });
                }
            });
            if run.code != Some(code) {
                run.fail(&format!("a file that {what} ({len} bytes)"));
            }
            let judge = scene.judge(&run);
            judge.no_leftovers().verifies().has("good");
            if code == 0 {
                judge.complete();
                let dst = scene.output();
                assert_eq!(dst.inode("one"), dst.inode("victim"));
            }
        }
    }
}

/// A change of mode in the middle is no change of the bytes, but it changes the ctime; either answer
/// is honest, a wrong copy is not.
#[test]
fn a_touched_inode_is_no_wrong_copy() {
    need!(Strace);
    let scene = Scene::new();
    scene.src.file("victim", content(300_000)).file("good", "good");
    let strace = Strace::inject(&scene, Strace::READS, "signal=SIGSTOP:when=1")
        .exactly_on(scene.src.path("victim"));
    let run = strace.run_stopped(scene.command(["--block-size", "64K"]), || {
        scene.src.mode("victim", 0o600);
    });
    run.assert_code_in(&[0, 1]);
    scene.judge(&run).sound().no_leftovers().has("good");
}

/// Listed, and gone when its turn comes.
#[test]
fn a_file_that_vanishes_before_it_is_opened_is_reported() {
    need!(Strace);
    let scene = Scene::new();
    scene.src.file("victim", content(5000)).file("good", content(5000));
    let strace =
        Strace::inject(&scene, Strace::STATS, "signal=SIGSTOP:when=1").on(scene.src.path("victim"));
    // Looking at the room first may take a walk of its own.
    let run = strace.run_stopped(scene.command(["--no-space-check"]), || {
        scene.src.remove("victim");
    });
    run.assert_code(1).assert_says("victim");
    scene.judge(&run).lists(&["good"]).verifies().no_leftovers().has("good").lacks("victim");
}

/// A directory that vanishes costs itself only.
#[test]
fn a_directory_that_vanishes_is_reported() {
    need!(Strace);
    let scene = Scene::new();
    scene.src.file("dir/victim", "x").file("good", content(5000));
    // A file is looked at before the directories beside it are entered.
    let strace =
        Strace::inject(&scene, Strace::STATS, "signal=SIGSTOP:when=1").on(scene.src.path("good"));
    let run = strace.run_stopped(scene.command(["--no-space-check"]), || {
        std::fs::remove_dir_all(scene.src.path("dir")).unwrap();
    });
    run.assert_code(1).assert_says("dir");
    scene.judge(&run).lists(&["good"]).verifies().no_leftovers().has("good");
}

/// Between the listing and the opening someone puts a symlink in the place of the file: the secret
/// behind it must not come over under the file's name.
#[test]
fn an_entry_swapped_for_a_symlink_is_not_followed() {
    need!(Strace);
    for kind in ["file", "directory"] {
        let scene = Scene::new();
        scene.tree("secret").file("victim", "secret").file("dir/inside", "secret");
        scene.src.file("good", "good");
        let swap = match kind {
            "file" => {
                scene.src.file("victim", content(6));
                "rm victim; ln -s ../secret/victim victim"
            }
            _ => {
                scene.src.file("victim/inside", content(6));
                "rm -r victim; ln -s ../secret/dir victim"
            }
        };
        // The opening waits at its door.
        let strace = Strace::inject(&scene, Strace::OPENS, "delay_enter=3000000:when=1")
            .on(scene.src.path("victim"));
        let mut running = strace.spawn(scene.command(NONE));
        running.until("the opening", || strace.log().contains("victim"));
        shell(&scene, &format!("cd src; {swap}"));
        let run = running.wait();
        strace.fired(&run);
        run.assert_code_in(&[0, 1]).assert_no_crash();
        let copy = std::fs::symlink_metadata(scene.dst.join("victim"));
        assert!(copy.as_ref().map_or(true, |m| !m.is_file()), "followed: {}", run.err());
        if copy.is_ok_and(|m| m.is_dir()) {
            assert!(!scene.dst.join("victim/inside").exists(), "followed: {}", run.err());
        }
        let judge = scene.judge(&run);
        judge.has("good").verifies().no_leftovers();
        if run.code == Some(1) {
            run.assert_says("victim");
        }
    }
}

/// Somebody else makes the file at the output while we read ours: his stays.
#[test]
fn a_file_that_appears_at_the_output_meanwhile_is_not_overwritten() {
    need!(Strace);
    for len in [5000, 300_000] {
        let scene = Scene::new();
        scene.src.file("victim", content(len)).file("good", "good");
        let strace = Strace::inject(&scene, Strace::READS, "signal=SIGSTOP:when=1")
            .exactly_on(scene.src.path("victim"));
        let run = strace.run_stopped(scene.command(["--block-size", "64K"]), || {
            scene.output().file("victim", "his");
        });
        run.assert_code(1).assert_says("victim");
        let judge = scene.judge(&run);
        judge.lists(&["good"]).verifies().no_leftovers();
        assert_eq!(scene.output().read("victim"), b"his");
    }
}

/// He makes it at the very last moment, when ours is about to get its name: with the rename that replaces
/// nothing, and where the file system does not have that.
#[test]
fn a_file_that_appears_before_the_rename_is_not_overwritten() {
    need!(Fuse);
    for old in [false, true] {
        let scene = Scene::new();
        scene.src.file("dir/victim", content(5000)).file("dir/good", "good");
        let truth = scene.tree("truth");
        let (there, mut met) = (truth.clone(), false);
        let mirror = Mirror::mount(truth.root(), &scene.dst, move |call| {
            if call.deed == Deed::Rename && call.path.ends_with("victim") && !met {
                met = true;
                there.file("dir/victim", "his");
            }
            match call.deed {
                Deed::Rename if old => Act::Fail(rustix::io::Errno::INVAL.raw_os_error()),
                _ => Act::Pass,
            }
        });
        let run = scene.copy(&[]);
        assert_eq!(mirror.fired() > 0, old);
        run.assert_code(1).assert_says("dir/victim");
        assert_eq!(truth.read("dir/victim"), b"his");
        Judge::new(&scene.src, truth, &run).lists(&["dir/good"]).verifies().no_leftovers();
    }
}

/// Another directory under the output's name is not the output.
#[test]
fn an_output_that_is_moved_away_ends_the_run() {
    need!(Strace);
    let scene = Scene::new();
    for i in 0..20 {
        scene.src.file(format!("dir-{i}/file"), content(200_000));
    }
    let strace = Strace::inject(&scene, Strace::READS, "signal=SIGSTOP:when=1")
        .exactly_on(scene.src.path("dir-7/file"));
    let command = scene.command(["--workers", "1", "--block-size", "64K"]);
    let run = strace.run_stopped(command, || {
        shell(&scene, "mv dst moved; mkdir dst");
    });
    run.assert_code(3);
    assert_eq!(std::fs::read_dir(&scene.dst).unwrap().count(), 0, "went on in another directory");
    Judge::new(&scene.src, scene.tree("moved"), &run).sound().no_temp_files();
}

/// A file that is saved anew, by a rename as editors do it, is in its directory at every moment. On btrfs no listing has
/// it that was begun before, and none that had begun.
#[test]
fn a_file_that_is_saved_while_its_directory_is_listed_is_copied() {
    need!(Root, Mount, Strace);
    Mount::privately();
    let scene = Scene::new();
    let _disk = Mount::of_kind("btrfs", &scene.path("image"), &scene.path("disk"));
    for files in [10, 4000] {
        shell(&scene, "rm -rf disk/src dst; mkdir disk/src");
        let source = scene.tree("disk/src");
        for number in 0..files {
            source.file(format!("file {number}"), "content");
        }
        source.file("saved", "content");
        let strace = Strace::inject(&scene, "getdents64", "delay_enter=200000")
            .exactly_on(scene.path("disk/src"));
        let mut running = strace.spawn(scene.bare(["disk/src", "dst"]));
        // So long that the program has listed it once, whatever it looks at before.
        while !running.is_over() && strace.log().matches("DELAYED").count() < 12 {
            shell(&scene, "cd disk/src; echo new > part; mv part saved; sleep 0.03");
        }
        let run = running.wait();
        strace.fired(&run);
        run.assert_code(0);
        let manifest =
            shell(&scene, "diff -r -x .dircopy -x 'dircopy-*' disk/src dst; cat dst/*sum");
        assert_eq!(manifest.lines().count(), files + 1, "{manifest}");
    }
}
