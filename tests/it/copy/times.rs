//! Times that look alike: a file of the same size whose time differs by less than the step of some file system was
//! edited, unless it is known that this output shows both times alike and which of them the copy was given.

use crate::harness::{Act, Habit, Mirror, Need, Run, Scene, Strace, have, need, shell};

/// A time of a copy, and one of the source's file that was edited since: a FAT, an ext3, an exFAT, an SMB server and an
/// NTFS would show both alike.
const EDITS: [(&str, &str); 5] = [
    ("@1700000000", "@1700000001.5"),
    ("@1700000001", "@1700000001.999999999"),
    ("@1700000001.12", "@1700000001.123456789"),
    ("@1700000001.123456", "@1700000001.1234567"),
    ("@1700000001.1234567", "@1700000001.123456789"),
];

/// A copy of the first time, and a source edited at the second.
fn edited((before, after): (&str, &str)) -> Scene {
    let scene = Scene::new();
    scene.src.file("conf", "version 1").file("dir/same", "same");
    shell(&scene, &format!("touch -d {before} src/conf src/dir/same src/dir"));
    scene.copy(&[]).assert_code(0);
    edit(&scene, after);
    scene
}

fn edit(scene: &Scene, time: &str) {
    scene.src.file("conf", "version 2");
    shell(scene, &format!("touch -d {time} src/conf src/dir"));
}

#[track_caller]
fn assert_copied(scene: &Scene, run: &Run) {
    run.assert_code(0)
        .assert_prints(&["copied", "1 file,"])
        .assert_prints(&["unchanged", "1 file,"]);
    assert_eq!(scene.output().read("conf"), b"version 2");
    scene.judge(run).same_tree().lists_all().verifies();
}

#[test]
fn an_edit_within_any_step_of_time_is_copied_or_named() {
    for edit in EDITS {
        let left = "left as it is: conf: it differs";
        for policy in ["default", "never"] {
            let scene = edited(edit);
            let policy = ["--overwrite-policy", policy];
            let dry = scene.copy(&[&policy[..], &["--dry-run"]].concat());
            dry.assert_code(1).assert_prints(&["leave conf: it differs"]);
            for args in [&[][..], &["--verify"]] {
                let run = scene.copy(&[args, &policy].concat());
                run.assert_code(1).assert_says(left);
                assert_eq!(scene.output().read("conf"), b"version 1");
            }
        }
        let update = ["--overwrite-policy", "update"];
        for args in [&[][..], &["--verify"], &["--mirror"], &["--hard-links"], &["--hash", "none"]]
        {
            let scene = edited(edit);
            let dry = scene.copy(&[&update[..], &["--dry-run"]].concat());
            dry.assert_code(0).assert_prints(&["to copy", "1 file,"]);
            let run = scene.copy(&[args, &update].concat());
            match args {
                ["--hash", "none"] => assert_eq!(scene.output().read("conf"), b"version 2"),
                _ => assert_copied(&scene, &run),
            }
            scene.copy(&[args, &update].concat()).assert_prints(&["unchanged", "2 files"]);
        }
    }
}

/// Without a record both are read: nothing tells which time the copy was given where it was made.
#[test]
fn an_edit_is_copied_where_nothing_is_recorded() {
    for edit in EDITS {
        let scene = edited(edit);
        shell(&scene, "rm -r dst/.dircopy");
        scene.copy(&[]).assert_code(1).assert_says("left as it is: conf: it differs");
        shell(&scene, "rm -r dst/.dircopy");
        assert_copied(&scene, &scene.copy(&["--overwrite-policy", "update"]));
    }
}

#[test]
fn an_edit_within_a_step_of_time_has_not_rotted() {
    for edit in EDITS {
        let scene = edited(edit);
        let list = shell(&scene, "ls -d dst/*.sha256sum");
        let run = scene.copy(&["--expect", list.trim(), "--overwrite-policy", "update"]);
        run.assert_prints(&["expected", "1 file as listed, 1 edited since"]);
        assert_copied(&scene, &run);
    }
}

/// A copy that came here by way of a file system with coarser times is the source's if its content is, which is read
/// once.
#[test]
fn a_copy_with_cut_times_is_kept_for_its_content() {
    for policy in ["default", "update", "never"] {
        let scene = Scene::new();
        scene.src.file("conf", "version 1").file("dir/same", "same");
        shell(&scene, "touch -d @1700000001.123456789 src/conf src/dir/same");
        shell(&scene, "cp -r src dst; touch -d @1700000000 dst/conf dst/dir/same");
        let args = ["--overwrite-policy", policy];
        scene.copy(&[&args[..], &["--dry-run"]].concat()).assert_prints(&["unchanged", "2 files"]);
        for _ in 0..2 {
            let run = scene.copy(&args);
            run.assert_code(0).assert_prints(&["unchanged", "2 files"]);
            scene.judge(&run).lists(&["conf", "dir/same"]).verifies();
        }
        if have(&[Need::Strace]) {
            let strace = Strace::watch(&scene, "openat,openat2");
            strace.run(scene.command(args)).assert_code(0);
            let is_read = |call: &String| call.contains("\"same\"") || call.contains("\"conf\"");
            assert!(!strace.calls().iter().any(is_read), "{:?}", strace.calls());
        }
        edit(&scene, "@1700000001.2");
        let run = scene.copy(&args);
        match policy {
            "update" => run.assert_code(0).assert_prints(&["copied", "1 file,"]),
            _ => run.assert_code(1).assert_says("left as it is: conf: it differs"),
        };
    }
}

/// On an output in steps of two seconds its record tells an edit from a copy.
#[test]
fn an_edit_is_seen_where_times_are_coarse() {
    need!(Fuse);
    let habits = [Habit::HoldsTimes(0, i64::MAX, 2)];
    for (before, after) in &EDITS[..2] {
        for forgets in [false, true] {
            let scene = Scene::new();
            let truth = scene.tree("truth");
            let _mirror =
                Mirror::with_habits(truth.root(), &scene.path("disk"), &habits, |_| Act::Pass);
            scene.src.file("conf", "version 1").file("dir/same", "same");
            shell(&scene, &format!("touch -d {before} src/conf src/dir/same"));
            let run = |args: &[&str]| {
                if forgets {
                    shell(&scene, "rm -rf disk/out/.dircopy");
                }
                scene.bare([&["-i", "src", "-o", "disk/out"], args].concat()).run()
            };
            for _ in 0..2 {
                run(&[]).assert_code(0);
            }
            run(&[]).assert_code(0).assert_prints(&["unchanged", "2 files"]);
            edit(&scene, after);
            run(&[]).assert_code(1).assert_says("left as it is: conf: it differs");
            let update = ["--overwrite-policy", "update"];
            run(&update).assert_code(0).assert_prints(&["copied", "1 file,"]);
            assert_eq!(scene.tree("disk/out").read("conf"), b"version 2");
            for _ in 0..2 {
                run(&update).assert_code(0).assert_prints(&["unchanged", "2 files"]);
            }
        }
    }
}

#[test]
fn a_generation_has_an_edit_within_a_step_of_time() {
    for (before, after) in EDITS {
        let scene = Scene::new();
        scene.src.file("conf", "version 1").file("dir/same", "same");
        shell(&scene, &format!("touch -d {before} src/conf src/dir/same"));
        scene.copy(&["--generations"]).assert_code(0);
        edit(&scene, after);
        scene.copy(&["--generations"]).assert_code(0);
        let versions = shell(&scene, "cat dst/2*/conf");
        assert_eq!(versions, "version 1version 2");
    }
}
