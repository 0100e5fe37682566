//! A tree of which no private record could be written is no generation.

use crate::harness::{Mount, Run, Scene, Strace, content, need, shell};

/// What is at the output: the names of generations, unfinished trees, and where `latest` leads to.
fn there(scene: &Scene) -> String {
    shell(scene, "cd dst && ls -d 20* && readlink latest")
}

fn unfinished(scene: &Scene) -> usize {
    let count = shell(scene, "ls -d dst/20*.part 2>/dev/null | wc -l");
    count.trim().parse().unwrap()
}

/// A run that finds no room for its record, or a bad place of the disk for it.
fn without_record(scene: &Scene, calls: &str, fault: &str, names: &[&str]) -> Run {
    let mut strace = Strace::inject(scene, calls, fault);
    // The tree is named by the second; one that is gone on with has the name of the run before.
    let script =
        "now=$(date +%s); for s in {-30..39}; do date -u -d @$((now + s)) +%Y-%m-%dT%H%M%SZ; done";
    for stamp in shell(scene, script).lines() {
        let private = scene.dst.join(format!("{stamp}.part/.dircopy"));
        for name in names {
            strace = strace.on(private.join(name));
        }
    }
    let run = strace.run(scene.command(["--generations", "--keep", "last=1"]));
    strace.fired(&run);
    run
}

#[track_caller]
fn check(scene: &Scene, calls: &str, fault: &str, names: &[&str]) {
    let before = there(scene);
    for _ in 0..2 {
        let run = without_record(scene, calls, fault, names);
        run.assert_code(3).assert_says("the tree is no generation, and stays unfinished");
        if fault.contains("ENOSPC") {
            run.assert_says("make room, and run again");
        }
        let now = there(scene);
        let kept: Vec<_> = now.lines().filter(|line| !line.ends_with(".part")).collect();
        assert_eq!(kept, before.lines().collect::<Vec<_>>(), "{}", run.err());
        assert_eq!(unfinished(scene), 1);
        scene.bare(["generations", "dst"]).run().assert_prints(&["unfinished"]);
    }
    scene.copy(&["--generations"]).assert_code(0);
    assert_eq!(unfinished(scene), 0);
    shell(scene, "diff -r -x .dircopy -x 'dircopy-*' src dst/latest");
    shell(scene, "cd dst/latest && ls dircopy-* | wc -l | grep -qx 1");
    let run = scene.bare(["verify", "dst"]).run();
    run.assert_code(0);
    shell(scene, "cd dst && ls -d 20*Z | tail -1 | grep -qx $(readlink latest)");
}

#[test]
fn a_tree_without_its_record_is_no_generation() {
    need!(Root, Mount, Loop, Kinds, Strace);
    Mount::privately();
    for kind in ["ext4", "btrfs"] {
        let scene = Scene::new();
        let _mount = Mount::of_kind(kind, &scene.path("image"), &scene.dst);
        for i in 0..20 {
            scene.src.file(format!("d{}/{i}", i % 3), content(1000 + i));
        }
        scene.copy(&["--generations"]).assert_code(0);
        for (calls, fault) in [
            (Strace::OPENS, "error=ENOSPC"),
            (Strace::WRITES, "error=EIO"),
            (Strace::WRITES, "error=ENOSPC:when=3+"),
            (Strace::SYNCS, "error=EIO"),
            (Strace::RENAMES, "error=EIO"),
        ] {
            // What can be shared is recorded before the run, which is refused then.
            shell(&scene, "find src -type f | while read -r file; do echo >>$file; done");
            check(&scene, calls, fault, &["record.1", "record.2", "record.3", "record.4"]);
        }
        if kind == "btrfs" {
            // Of a night without changes the record is that of the snapshot, which only gets another end.
            check(&scene, Strace::WRITES, "error=EIO", &["record"]);
        }
    }
}

/// Whatever a directory with the name of a generation is, a check of all does not pass it over.
#[test]
fn a_check_of_all_names_what_only_looks_like_a_generation() {
    let scene = Scene::new();
    scene.src.file("a", "a");
    for _ in 0..3 {
        scene.copy(&["-q", "--generations"]).assert_code(0);
    }
    shell(&scene, "touch dst/2026-01-01T000000Z; ln -s . dst/2026-01-02T000000Z");
    let check = || scene.bare(["verify", "dst"]).run();
    check().assert_code(0).assert_prints(&["checked", "3 files"]);
    let all = shell(&scene, "cd dst && ls -d 20*Z | tail -3");
    let all: Vec<_> = all.lines().collect();
    let told = |name: &str| format!("cannot take for a generation dst/{name}: no run of yours");
    shell(&scene, &format!("rm dst/{}/.dircopy/record", all[1]));
    check().assert_code(0).assert_prints(&["checked", "3 files"]).assert_says(&told(all[1]));
    // What is in no list of its own cannot be checked.
    shell(&scene, &format!("rm dst/{}/dircopy-*", all[1]));
    check().assert_code(5).assert_says(&format!("cannot check dst/{}", all[1]));
    shell(&scene, &format!("rm -r dst/{}; rm dst/latest/.dircopy/record", all[1]));
    let run = check();
    run.assert_code(5).assert_says(&told(all[2])).assert_says("latest leads there");
    run.assert_prints(&["good", "2 files"]);
    shell(&scene, &format!("rm dst/latest; echo {} >dst/latest", all[2]));
    check().assert_code(5).assert_says("latest leads there");
}

/// A run that could not keep its secret was killed: the next one cannot tell whose the part files are, but the tree is
/// no other's.
#[test]
fn part_files_of_an_unknown_run_are_not_in_a_generation() {
    need!(Root, Mount, Loop, Kinds, Strace);
    Mount::privately();
    let scene = Scene::new();
    let _mount = Mount::of_kind("ext4", &scene.path("image"), &scene.dst);
    scene.src.file("d/a", "a").file("d/large", content(3_000_000));
    scene.copy(&["--generations"]).assert_code(0);
    scene.src.append("d/a", b"more").append("d/large", b"more");
    let strace = Strace::inject(&scene, "renameat2,linkat", "signal=KILL:when=2+");
    let args = ["--generations", "--reflink", "never", "--verify"];
    assert_ne!(strace.run(scene.command(args)).code, Some(0));
    shell(&scene, "find dst -name '*dircopy-part' | grep -q .; rm -f dst/20*.part/.dircopy/secret");
    let run = scene.copy(&args);
    run.assert_code(0);
    assert!(!run.err().contains("looks like a part file"), "{}", run.err());
    shell(&scene, "diff -r -x .dircopy -x 'dircopy-*' src dst/latest/");
}
