//! A mirror removes what has left the source, and never because the source could not be seen.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use serde_json::Value;

use crate::harness::{
    Mount, Need, Run, Scene, Strace, content, ctimes, have, inventory, leftover_name, long,
    names_below, need, shell,
};

/// A source of 20 files in two directories, a link and an empty directory, copied once.
fn scene() -> Scene {
    let scene = Scene::new();
    for i in 0..10 {
        scene
            .src
            .file(format!("keep/{i}"), content(100 + i))
            .file(format!("go/sub/{i}"), content(i));
    }
    scene
        .src
        .symlink("go/link", "sub/1")
        .dir("go/empty")
        .file("loose", "x")
        .mode("go/sub/3", 0o640);
    scene.copy(&["--mirror"]).assert_code(0);
    scene
}

fn trash(scene: &Scene) -> Vec<PathBuf> {
    let Ok(entries) = scene.dst.join(".dircopy-trash").read_dir() else { return Vec::new() };
    let mut dated: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    dated.sort();
    dated
}

/// What is at the output without what is dircopy's own there.
fn of_users(scene: &Scene) -> BTreeSet<Vec<u8>> {
    let own = |line: &Vec<u8>| {
        let line = String::from_utf8_lossy(line).into_owned();
        [" .dircopy", " dircopy-"].iter().any(|own| line.contains(own))
    };
    inventory(&scene.dst).into_iter().filter(|line| !own(line)).collect()
}

/// The output is as the source, and its newest manifest verifies and lists everything.
#[track_caller]
fn is_mirror(scene: &Scene) {
    assert_eq!(of_users(scene), inventory(scene.src.root()));
    verifies(scene);
    scene.bare(["verify", "dst", "--complete"]).run().assert_code(0);
}

#[track_caller]
fn verifies(scene: &Scene) {
    shell(
        scene,
        "cd dst && sha256sum -c --strict --quiet $(ls dircopy-*.sha256sum | sort | tail -1)",
    );
}

/// Nothing at the output changed by what `run` does, which ends with `code`.
#[track_caller]
fn touches_nothing(scene: &Scene, code: i32, run: impl FnOnce() -> Run) -> Run {
    let before = ctimes(&scene.dst);
    let run = run();
    run.assert_code(code);
    assert_eq!(ctimes(&scene.dst), before, "{}", run.err());
    run
}

/// Nothing that was at the output has left it, and there is no trash.
#[track_caller]
fn nothing_left(scene: &Scene, before: &BTreeSet<Vec<u8>>, run: &Run) {
    let now = names_below(&scene.dst, "f");
    assert!(before.is_subset(&now), "{}{}", run.out(), run.err());
    assert_eq!(trash(scene), Vec::<PathBuf>::new());
}

#[test]
fn what_has_left_the_source_is_in_the_trash() {
    let scene = scene();
    shell(
        &scene,
        "rm -r src/go src/loose src/keep/3; touch -d 2020-01-01 src/keep; chmod 750 src/keep",
    );
    let dry = touches_nothing(&scene, 0, || scene.copy(&["--mirror", "--max-delete=90%", "-n"]));
    for path in ["go", "keep/3", "loose"] {
        dry.assert_prints(&["move to the trash", path]);
    }
    let report = scene.path("report.json");
    let args = ["--mirror", "--max-delete=13", "--report", "report.json", "--metrics", "m"];
    let run = scene.copy(&args);
    run.assert_code(0).assert_prints(&["removed", "13 entries", ".dircopy-trash/"]);
    is_mirror(&scene);
    let [dated] = &trash(&scene)[..] else { run.fail("no trash") };
    let old =
        shell(&scene, &format!("cd {} && find . -type f -o -type l | wc -l", dated.display()));
    assert_eq!(old.trim(), "13");
    assert_eq!(shell(&scene, &format!("stat -c %a {}/go/sub/3", dated.display())).trim(), "640");
    let report: Value = serde_json::from_slice(&std::fs::read(report).unwrap()).unwrap();
    let counts = &report["outputs"][0]["counts"];
    assert_eq!((&counts["departed"], &counts["dropped_lines"]), (&13.into(), &12.into()));
    let metrics = std::fs::read_to_string(scene.path("m")).unwrap();
    assert!(metrics.contains("fate=\"departed\"} 13"), "{metrics}");
    // It comes back by a rename, and is then as it was.
    shell(
        &scene,
        &format!("mv {0}/go src/go; mv {0}/keep/3 src/keep/3; touch src/loose", dated.display()),
    );
    scene.copy(&["--mirror"]).assert_code(0);
    is_mirror(&scene);
    // With nothing to remove no trash is made.
    scene.copy(&["--mirror"]).assert_code(0);
    assert_eq!(trash(&scene).len(), 1);
}

#[test]
fn files_of_others_stay() {
    let scene = scene();
    scene.output().file("mine", "m").file("go/sub/mine", "m").file("their/own", "m");
    shell(&scene, "rm -r src/go");
    let run = scene.copy(&["--mirror", "--max-delete=90%"]);
    run.assert_code(0).assert_says("mine: it is not in the source, and no earlier run listed it");
    let left = names_below(&scene.dst, "f");
    for name in ["mine", "go/sub/mine", "their/own"] {
        assert!(left.contains(name.as_bytes()), "{name}");
    }
    assert!(!left.contains(b"go/sub/1".as_slice()) && !scene.dst.join("go/link").exists());
    scene.copy(&["--mirror=all", "--max-delete=90%"]).assert_code(0);
    is_mirror(&scene);
}

/// Part files stayed for ever where something else kept the directory.
#[test]
fn what_killed_runs_left_goes_from_directories_that_left() {
    let scene = scene();
    let (left, other) = (leftover_name(&scene.dst), ".abcde12345.dircopy-part");
    scene.output().file("go/sub/mine", "m").file(format!("go/sub/{other}"), "of another output");
    for dir in ["go/sub", "go/empty"] {
        scene.output().file(format!("{dir}/{left}"), content(1000));
    }
    shell(&scene, "rm -r src/go; touch -d 2020-01-01 dst/go/sub");
    let args = ["--mirror", "--max-delete=90%", "-n"];
    touches_nothing(&scene, 0, || scene.copy(&args));
    let run = scene.copy(&args[..2]);
    run.assert_code(0).assert_says("a run that was killed left it").assert_says(other);
    assert_eq!(shell(&scene, &format!("find dst -name '{left}'")), "");
    assert_eq!(shell(&scene, "ls -A dst/go/sub | sort"), format!("{other}\nmine\n"));
    assert_eq!(shell(&scene, "date -ud @$(stat -c %Y dst/go/sub) +%Y").trim(), "2020");
}

#[test]
fn what_is_excluded_stays() {
    let scene = scene();
    shell(&scene, "rm -r src/go src/keep/1 src/keep/2");
    scene
        .copy(&["--mirror", "--exclude=/go/sub/3", "--exclude=/keep/1", "--max-delete=90%"])
        .assert_code(0);
    let left = names_below(&scene.dst, "f");
    for (name, stays) in
        [("go/sub/3", true), ("keep/1", true), ("go/sub/4", false), ("keep/2", false)]
    {
        assert_eq!(left.contains(name.as_bytes()), stays, "{name}");
    }
    verifies(&scene);
}

#[test]
fn more_than_half_is_refused() {
    let scene = scene();
    shell(&scene, "rm -r src/go src/loose; echo new >src/new");
    let run = touches_nothing(&scene, 2, || scene.copy(&["--mirror"]));
    run.assert_says(
        "12 of the 22 files and links at the output have left it, more than 50 %: go, loose",
    );
    for most in ["--max-delete=11", "--max-delete=54%"] {
        touches_nothing(&scene, 2, || scene.copy(&["--mirror", most]));
        touches_nothing(&scene, 2, || scene.copy(&["--mirror", most, "-n"]));
    }
    scene.copy(&["--mirror", "--max-delete=12"]).assert_code(0);
    is_mirror(&scene);
}

#[test]
fn a_source_that_cannot_be_seen_removes_nothing() {
    let scene = scene();
    let before = names_below(&scene.dst, "f");
    let all = ["--mirror", "--max-delete=100%"];
    shell(&scene, "mv src away; mkdir src");
    touches_nothing(&scene, 2, || scene.copy(&all)).assert_says("it is empty");
    shell(&scene, "rmdir src; mv away src; rm src/loose");
    // A directory that cannot be listed: the one that is, or any.
    if have(&[Need::Strace]) {
        for path in ["src/keep", "dst/keep"] {
            for when in ["1+", "2+"] {
                let fault = format!("error=EIO:when={when}");
                let strace =
                    Strace::inject(&scene, "getdents64", &fault).exactly_on(scene.path(path));
                let run = strace.run(scene.command(all));
                if !strace.injected().is_empty() {
                    run.assert_code(1).assert_says("keep");
                    nothing_left(&scene, &before, &run);
                }
            }
        }
    }
    // A file that cannot be read.
    if have(&[Need::Strace]) {
        scene.src.file("keep/new", content(10));
        let strace = Strace::inject(&scene, Strace::READS, "error=EIO")
            .exactly_on(scene.path("src/keep/new"));
        let run = strace.run(scene.command(all));
        strace.fired(&run);
        run.assert_code(1).assert_says("1 entry failed");
        nothing_left(&scene, &before, &run);
    }
    scene.copy(&all).assert_code(0);
    is_mirror(&scene);
}

/// What is asked for may be on a disk that is not mounted. Renamed files are something.
#[test]
fn a_filter_that_nothing_matches_removes_nothing() {
    let scene = Scene::new();
    scene.src.file("card/1", "1").file("card/2", "2").file("other/3", "3");
    let all = ["--mirror", "--include=/card", "--max-delete=100%"];
    scene.copy(&all).assert_code(0);
    shell(&scene, "mkdir away; mv src/card/1 src/card/2 away");
    for args in [&all[..], &[&all[..], &["-n"]].concat()] {
        let run = touches_nothing(&scene, 2, || scene.copy(args));
        run.assert_says(
            "nothing in it matches --include and --exclude, and the output has 2 files",
        );
    }
    shell(&scene, "mv away/1 src/card/renamed");
    scene.copy(&all).assert_code(0);
    assert_eq!(names_below(&scene.path("dst/card"), "f"), BTreeSet::from([b"renamed".to_vec()]));
    scene.src.remove("card/renamed");
    scene.copy(&[&all[..], &["--allow-empty"]].concat()).assert_code(0);
    assert_eq!(names_below(&scene.path("dst/card"), "f"), BTreeSet::new());
}

/// A file that was changed at the output and then leaves the source is named, whatever of it shows the change.
#[test]
fn what_was_changed_at_the_output_is_named_when_it_leaves() {
    for change in
        ["echo changed > dst/a; touch -r src/a dst/a", "echo else > dst/a", "echo longer > dst/a"]
    {
        for verify in [&[][..], &["--verify"]] {
            let scene = Scene::new();
            shell(&scene, "echo once > src/a; echo b > src/b; touch -d '1 hour ago' src/a");
            scene.copy(&["--mirror"]).assert_code(0);
            shell(&scene, &format!("{change}; rm src/a"));
            let run = scene.copy(&[&["--mirror"], verify].concat());
            run.assert_code(4).assert_says("a: its content is not what an earlier run recorded");
            assert_eq!(trash(&scene).len(), 1);
            scene.copy(&["--mirror"]).assert_code(0);
        }
    }
    // What has another time only is as it was recorded.
    let scene = Scene::new();
    shell(&scene, "echo once > src/a; echo b > src/b; touch -d '1 hour ago' src/a");
    scene.copy(&["--mirror"]).assert_code(0);
    shell(&scene, "touch dst/a; rm src/a");
    scene.copy(&["--mirror"]).assert_code(0);
    assert_eq!(trash(&scene).len(), 1);
}

/// A file that is expected and is missing may have been lost, and its copy may be the last.
#[test]
fn what_an_expected_file_lacks_is_not_moved_away() {
    let scene = Scene::new();
    shell(&scene, "echo a > src/a; echo b > src/b; cd src; sha256sum a b > ../list");
    scene.copy(&["--mirror"]).assert_code(0);
    scene.src.remove("b");
    let delivery = ["--mirror", "--expect", "list", "--expect-all"];
    let run = scene.copy(&delivery);
    run.assert_code(4).assert_says("of the files that are expected 1 are not in it; nothing was");
    assert!(scene.dst.join("b").exists());
    scene.copy(&["--mirror", "--expect", "list"]).assert_code(0);
    assert!(!scene.dst.join("b").exists());
}

/// What another user lists in a manifest of his has no say in what leaves, is listed or is healed.
#[test]
fn a_list_of_another_user_is_none_of_the_runs() {
    need!(Root);
    for (name, digits) in [("sha256sum", 64), ("sha256sum.part", 64), ("md5sum", 32)] {
        let scene = Scene::new();
        scene.src.file("a", "a").file("b", "b");
        scene.copy(&["--mirror"]).assert_code(0);
        shell(&scene, "chmod 1777 dst; cp -r dst other; echo his > dst/his; chown 1001 dst/his");
        let planted = format!("dircopy-20991231T000000Z.{name}");
        let text = format!("{}  his\n{}  b\n", "0".repeat(digits), "0".repeat(digits));
        scene.output().file(&planted, text);
        shell(&scene, &format!("chown 1001 dst/{planted}"));
        for mirror in [&[][..], &["--mirror"]] {
            let run = scene.copy(mirror);
            run.assert_code(0).assert_says("it is of another user, whose the directory is not");
            assert_eq!(scene.output().read("his"), b"his\n");
            assert_eq!(trash(&scene), Vec::<PathBuf>::new());
            let listed = shell(&scene, "cat $(ls dst/dircopy-*.sha256sum | grep -v 2099)");
            assert!(!listed.contains("his"), "{listed}");
        }
        shell(&scene, "touch -r dst/a t; echo X > dst/a; truncate -s 1 dst/a; touch -r t dst/a");
        scene.ended(&["heal", "dst", "other"], 0);
        assert_eq!(scene.output().read("a"), b"a");
    }
}

/// Nor what another user may have put there under such a name, whosever file it is.
#[test]
fn a_list_that_others_may_have_put_there_decides_nothing() {
    need!(Root);
    let list = "printf '%064d  his\\n' 0";
    let name = "dircopy-20991231T000000Z.sha256sum";
    for plant in [
        // The owner of the directory writes it.
        format!("chown 1001 dst; {list} > dst/{name}; chown 1001 dst/{name}"),
        // A further name of a file of root's that others may write to, where nobody may rename it.
        format!("chmod 1777 dst; {list} > own; chmod 666 own; ln own dst/{name}"),
        format!("chmod 1777 dst; {list} > own; ln own dst/{name}"),
        // A copied file, which is root's, gets the name where everybody may rename it.
        format!("chmod 777 dst; {list} > dst/{name}"),
    ] {
        let scene = Scene::new();
        scene.src.file("a", "a");
        scene.copy(&["--mirror"]).assert_code(0);
        shell(&scene, &format!("echo his > dst/his; chown 1002 dst/his; {plant}"));
        let _ = scene.copy(&["--mirror"]).assert_says("cannot go by the manifest");
        assert_eq!(scene.output().read("his"), b"his\n", "{plant}");
        assert_eq!(trash(&scene), Vec::<PathBuf>::new(), "{plant}");
        let listed = shell(&scene, "cat $(ls dst/dircopy-*.sha256sum | grep -v 2099)");
        assert!(!listed.contains("his"), "{plant}: {listed}");
    }
    // In a directory with the sticky bit what only this user may write to is his runs'.
    let scene = Scene::new();
    scene.src.file("a", "a").file("b", "b");
    shell(&scene, "mkdir st; mkdir -m 1777 dst");
    scene.copy(&["--mirror", "--state", "st"]).assert_code(0);
    scene.src.remove("b");
    scene.copy(&["--mirror"]).assert_code(0);
    assert_eq!(trash(&scene).len(), 1);
}

/// A list of lists that another user wrote lets no file of a third give way, and his are not removed as old ones.
#[test]
fn lists_of_another_user_give_no_right_and_stay() {
    need!(Root);
    let scene = Scene::new();
    scene.src.file("d/f", "f");
    scene.copy(&[]).assert_code(0);
    shell(
        &scene,
        "chmod 1777 dst dst/d; echo third > dst/d/SHA256SUMS; chown 1002 dst/d/SHA256SUMS; cd dst
         list=dircopy-20250101T000000Z; sha256sum d/SHA256SUMS > $list.dirs; sha256sum d/f > $list.sha256sum
         chown 1001 $list.*; touch -d 2025-01-01 $list.*",
    );
    for _ in 0..2 {
        let run = scene.copy(&["--format", "dirs", "--keep-manifests", "1"]);
        run.assert_code(1).assert_says("was not written by the last run");
        assert_eq!(scene.output().read("d/SHA256SUMS"), b"third\n");
        shell(&scene, "ls dst/dircopy-20250101T000000Z.sha256sum");
    }
}

#[test]
fn half_of_a_source_without_permission_removes_nothing() {
    need!(Setpriv);
    let scene = Scene::new();
    scene.src.file("a/1", "1").file("b/2", "2").file("c", "3");
    scene.output();
    shell(&scene, "chown -R 65534:65534 . ; chmod 755 .");
    let run = |args: &[&str]| scene.command(args).under_nobody().run();
    run(&["--mirror"]).assert_code(0);
    let before = names_below(&scene.dst, "f");
    shell(&scene, "chmod 0 src/b; rm src/c");
    let bad = run(&["--mirror"]);
    bad.assert_code(1);
    nothing_left(&scene, &before, &bad);
    shell(&scene, "chmod 755 src/b");
    run(&["--mirror"]).assert_code(0);
    // A directory that is read-only at both sides.
    shell(&scene, "rm src/a/1; chmod 555 src/a");
    run(&["--mirror"]).assert_code(0);
    assert_eq!(of_users(&scene), inventory(scene.src.root()));
}

#[test]
fn another_file_system_in_place_of_the_source_removes_nothing() {
    need!(Mount);
    Mount::privately();
    let scene = Scene::on_disk();
    let source = Mount::tmpfs(scene.src.root(), "8m");
    let below = Mount::tmpfs(&scene.src.path("disk"), "8m");
    scene.src.file("a", "a").file("disk/b", "b").file("disk/c", "c");
    for _ in 0..2 {
        scene.copy(&["--mirror"]).assert_code(0);
    }
    let all = ["--mirror", "--max-delete=100%"];
    drop(below);
    scene.src.file("disk/left behind", "");
    touches_nothing(&scene, 2, || scene.copy(&all))
        .assert_says("another file system was mounted there");
    drop(source);
    scene.src.file("left behind", "");
    touches_nothing(&scene, 2, || scene.copy(&all)).assert_says("on another file system");
    // A run without --mirror takes it for the source.
    scene.copy(&[]).assert_code(0);
    scene.copy(&all).assert_code(0);
    assert_eq!(of_users(&scene), inventory(scene.src.root()));
}

#[test]
fn one_file_system_is_one() {
    need!(Mount);
    Mount::privately();
    let scene = Scene::on_disk();
    scene.src.file("a", "a");
    let _below = Mount::tmpfs(&scene.src.path("disk"), "8m");
    scene.src.file("disk/b", "b");
    let run = scene.copy(&["--one-file-system", "--mirror"]);
    run.assert_code(0).assert_says("another file system is mounted there");
    assert!(scene.dst.join("disk").is_dir() && !scene.dst.join("disk/b").exists());
    // What an earlier run copied from there stays.
    scene.copy(&["--mirror"]).assert_code(0);
    scene.src.remove("disk/b");
    scene.copy(&["-x", "--mirror=all"]).assert_code(0);
    assert!(scene.dst.join("disk/b").exists());
}

#[test]
fn old_trash_goes_after_a_good_run() {
    let scene = scene();
    scene.src.remove("keep/1");
    scene.copy(&["--mirror", "--keep-trash", "1s"]).assert_code(0);
    let first = trash(&scene);
    assert_eq!(first.len(), 1);
    scene.output().file(".dircopy-trash/note of mine", "");
    std::thread::sleep(Duration::from_millis(2100));
    scene.copy(&["--mirror", "--keep-trash", "30d"]).assert_code(0);
    // A run with a file that is left keeps it.
    shell(&scene, "echo changed >dst/keep/5");
    scene.src.remove("keep/2");
    scene.copy(&["--mirror", "--keep-trash", "1s"]).assert_code(1);
    assert!(first[0].exists());
    let run = scene.copy(&["--mirror", "--keep-trash", "1s", "--overwrite-policy=always"]);
    run.assert_code(0).assert_says("removed the trash of");
    assert!(!first[0].exists() && scene.dst.join(".dircopy-trash/note of mine").exists());
}

/// A file that goes has a further name, which a killed run moved before: its change time is another, and it goes on.
#[test]
fn a_further_name_that_was_moved_keeps_nothing_from_going() {
    let scene = scene();
    scene.copy(&["--mirror"]).assert_code(0);
    shell(
        &scene,
        "ln dst/go/sub/1 one; rm -r src/go; mkdir dst/.dircopy-trash; echo >dst/.dircopy-trash/x",
    );
    let mirror = || scene.copy(&["--mirror", "--max-delete=90%"]);
    mirror().assert_code(1).assert_says("cannot make trash in");
    shell(&scene, "rm -r dst/.dircopy-trash; sleep .02; mv one other");
    mirror().assert_code(0);
    is_mirror(&scene);
}

/// A run has noted what is about to go, and could not move it: what is put there meanwhile was listed by no run.
#[test]
fn what_is_put_into_a_piece_that_was_about_to_go_stays() {
    for (meanwhile, stays) in [
        ("true", None),
        ("echo >dst/go/sub/mine", Some("dst/go/sub/mine")),
        ("mv dst/go dst/gone; mkdir dst/go; echo >dst/go/1", Some("dst/go/1")),
    ] {
        let scene = scene();
        scene.copy(&["--mirror"]).assert_code(0);
        shell(&scene, "rm -r src/go; mkdir dst/.dircopy-trash; echo >dst/.dircopy-trash/another");
        let mirror = || scene.copy(&["--mirror", "--max-delete=90%"]);
        mirror().assert_code(1).assert_says("cannot make trash in");
        assert!(
            scene.path("dst/go/sub/1").exists() && scene.path("dst/.dircopy/departing").exists()
        );
        shell(&scene, &format!("rm -r dst/.dircopy-trash; {meanwhile}"));
        let run = mirror();
        match stays {
            Some(path) => assert!(scene.path(path).exists(), "{path}: {}", run.err()),
            None => is_mirror(&scene),
        }
        assert!(!scene.path("dst/.dircopy/departing").exists(), "{}", run.err());
    }
}

#[test]
fn a_trash_that_is_no_directory_is_refused() {
    let scene = scene();
    scene.src.remove("keep/1");
    shell(&scene, "mkdir elsewhere; ln -s ../elsewhere dst/.dircopy-trash");
    touches_nothing(&scene, 2, || scene.copy(&["--mirror"])).assert_says("not a directory");
    assert_eq!(shell(&scene, "ls elsewhere"), "");
}

/// Killed at any rename: what has left is at its place or in the trash, the newest manifest holds, and the next run
/// comes to the same end.
#[test]
fn a_kill_at_any_rename_loses_nothing() {
    need!(Strace);
    let mut when = 1;
    loop {
        let scene = scene();
        shell(&scene, "rm -r src/go/sub/[1-4] src/loose src/keep/3; rmdir src/go/empty");
        let fault = format!("signal=KILL:when={when}");
        let calls = "rename,renameat,renameat2,unlink,unlinkat";
        let strace = Strace::inject(&scene, calls, &fault);
        let run = strace.run(scene.command(["--mirror"]));
        let killed = run.signal.is_some() || run.code != Some(0);
        verifies(&scene);
        let contents = shell(&scene, "find dst -type f -size -2 -path '*sub/[1-4]' | wc -l");
        assert_eq!(contents.trim(), "4", "after {when}");
        // None of what was listed counts as a file of others.
        let again = scene.copy(&["--mirror"]);
        again.assert_code(0);
        assert!(!again.err().contains("no earlier run"), "after {when}: {}", again.err());
        is_mirror(&scene);
        if !killed {
            assert!(when > 5, "only {when} calls were tried");
            break;
        }
        when += if long() { 1 } else { 2 };
    }
}

#[test]
fn several_outputs_are_mirrors_each() {
    let scene = Scene::new();
    scene.src.file("a", "a").file("b", "b").file("c", "c");
    let args = ["-i", "src", "-o", "one", "-o", "two", "--mirror"];
    scene.bare(args).run().assert_code(0);
    scene.src.remove("b");
    // One has only what would go.
    shell(&scene, "rm one/a one/c");
    let run = scene.bare(args).run();
    run.assert_code(1).assert_says("1 of the 1 files and links");
    assert!(scene.path("one/b").exists() && !scene.path("two/b").exists());
    assert!(scene.path("two/a").exists());
}

#[test]
fn a_source_that_was_a_mirror_is_copied_without_its_trash() {
    let scene = scene();
    scene.src.remove("keep/1");
    scene.copy(&["--mirror"]).assert_code(0);
    let run = scene.bare(["-i", "dst", "-o", "restored"]).run();
    run.assert_code(0).assert_says("skipped .dircopy-trash");
    assert!(!scene.path("restored/.dircopy-trash").exists());
    let listed = Command::new("diff")
        .args(["-r", "-x", "dircopy-*", "-x", ".dircopy", "src", "restored"])
        .current_dir(scene.root())
        .output()
        .unwrap();
    assert!(listed.status.success(), "{}", String::from_utf8_lossy(&listed.stdout));
}

#[test]
fn what_cannot_go_together_is_refused() {
    let scene = scene();
    let refused = |args: &[&str], text: &str| {
        touches_nothing(&scene, 2, || scene.copy(args)).assert_says(text);
    };
    refused(&["--max-delete=3"], "--mirror");
    refused(&["--keep-trash=3d"], "--mirror");
    refused(&["--mirror", "--hash=none"], "--hash none");
    shell(&scene, "echo loose >names");
    refused(&["--mirror", "--files-from=names"], "--files-from");
    refused(&["--mirror", "--max-delete=101%"], "a share such as 20%");
    let file = scene.bare(["-i", "src/loose", "-o", "dst", "--mirror"]).run();
    file.assert_code(2).assert_says("it is one file");
}

/// The look is made beside the copy, which waits for it before the first thing that it makes.
#[test]
fn a_refused_run_copies_nothing_of_what_changed() {
    need!(Strace);
    let scene = scene();
    shell(
        &scene,
        "rm -r src/go src/loose && echo more >>src/keep/1 && echo new >src/new && chmod 600 src/keep/2",
    );
    scene.src.mode("keep", 0o700).dir("made");
    // It ends late: the copy is at what changed before.
    let slow = || {
        let strace = Strace::inject(&scene, "getdents64", "delay_enter=200000:when=1..3");
        strace.run(scene.command(["--mirror", "--overwrite-policy", "update"]))
    };
    touches_nothing(&scene, 2, slow).assert_says("more than 50 %");
    scene.copy(&["--mirror=all", "--max-delete=90%", "--overwrite-policy=update"]).assert_code(0);
    is_mirror(&scene);
}

/// A source whose listings do not tell files from directories is compared all the same.
#[test]
fn what_left_is_counted_where_listings_tell_no_kinds() {
    need!(Kinds);
    Mount::privately();
    for args in [&["--mirror"][..], &["--generations"]] {
        let scene = Scene::new();
        shell(&scene, "truncate -s 32M image && mkfs.ext4 -q -O ^filetype image");
        let _mount = Mount::device(&scene.path("image"), scene.src.root(), "loop").unwrap();
        for number in 0..30 {
            scene.src.file(format!("d{}/f{number}", number % 3), content(1000 + number));
        }
        scene.copy(args).assert_code(0);
        for number in 0..20 {
            std::fs::remove_file(scene.src.path(format!("d{}/f{number}", number % 3))).unwrap();
        }
        let run = scene.copy(args);
        run.assert_code(2).assert_says("20 of the 30 files and links");
        let night = [args, &["--max-delete", "20"]].concat();
        scene.copy(&night).assert_code(0);
        let tree = if args[0] == "--mirror" { "dst" } else { "dst/latest" };
        let line = format!("diff -r -x 'dircopy-*' -x '.dircopy*' -x lost+found src {tree}/");
        shell(&scene, &line);
    }
}

/// What the walk saw in the source, and the look a moment later did not, was listed and moved into the trash.
#[test]
fn what_the_run_lists_does_not_leave() {
    need!(Strace);
    let scene = scene();
    // The copy comes to it, and only then asks for the look; the others of the directory were seen by then.
    scene.src.mode("keep/9", 0o600);
    let strace = Strace::inject(&scene, "openat", "signal=SIGSTOP:when=1");
    let command = scene.command(["--mirror", "--overwrite-policy", "update", "-j1"]);
    let leave = || drop(shell(&scene, "rm src/keep/3"));
    let run = strace.on(scene.src.path("keep/9")).run_stopped(command, leave);
    run.assert_code(0);
    verifies(&scene);
    assert!(scene.dst.join("keep/3").exists(), "{}", run.err());
    scene.copy(&["--mirror"]).assert_code(0).assert_says("moved to the trash: keep/3");
    is_mirror(&scene);
}

/// A copy that is known to have rotted went into the trash in silence, with its line.
#[test]
fn rot_does_not_leave_in_silence() {
    let scene = scene();
    let rot = |name: &str| {
        shell(
            &scene,
            &format!(
                "touch -r dst/{name} t && printf X | dd of=dst/{name} conv=notrunc status=none \
                      && touch -r t dst/{name}"
            ),
        );
    };
    rot("go/sub/5");
    rot("loose");
    shell(&scene, "touch dst/go/sub/7 && rm -r src/go src/loose");
    let run = scene.copy(&["--mirror", "--max-delete=90%"]);
    run.assert_code(4).assert_prints(&["ROTTEN (exit 4)", "2 files at the output"]);
    for name in ["go/sub/5", "loose"] {
        run.assert_says(&format!("dst/{name}: its content is not what an earlier run recorded"));
    }
    assert!(!run.err().contains("go/sub/7: its content") && !run.err().contains("go/sub/6: its"));
    is_mirror(&scene);
    assert!(trash(&scene)[0].join("loose").exists());
    scene.copy(&["--mirror"]).assert_code(0);
}

/// Its disk may not be mounted, and only a person knows better.
#[test]
fn a_source_that_was_emptied_is_mirrored_by_hand_alone() {
    let scene = Scene::new();
    scene.src.file("a", "a").file("b", "b");
    scene.copy(&["--mirror"]).assert_code(0);
    shell(&scene, "rm src/*");
    let run = touches_nothing(&scene, 2, || scene.copy(&["--mirror"]));
    run.assert_says("it is empty, and the output has 2 files and links that would go");
    run.assert_says("give --allow-empty and --max-delete 2 by hand");
    // The limit holds.
    let run = touches_nothing(&scene, 2, || scene.copy(&["--mirror", "--allow-empty"]));
    run.assert_says("2 of the 2 files and links at the output have left it, more than 50 %");
    let by_hand = ["--mirror", "--allow-empty", "--max-delete", "2"];
    let run = touches_nothing(&scene, 2, || scene.copy(&[&by_hand[..3], &["1"]].concat()));
    run.assert_says("give --max-delete 2");
    touches_nothing(&scene, 2, || scene.copy(&["--mirror", "--max-delete", "2"]))
        .assert_says("give --allow-empty by hand");
    // A job says it every night.
    let root = scene.root().display();
    let job = format!(
        "input = '{root}/src'\noutput = '{root}/dst'\nmirror = true\nallow-empty = true\nmax-delete = '100%'"
    );
    std::fs::write(scene.path("job.toml"), job).unwrap();
    let nightly = |more: &[&str]| scene.bare([&["--job", "job.toml"], more].concat()).run();
    touches_nothing(&scene, 2, || nightly(&[])).assert_says("give --allow-empty by hand");
    touches_nothing(&scene, 0, || scene.copy(&[&by_hand[..], &["-n"]].concat()));
    scene.copy(&by_hand).assert_code(0);
    assert_eq!(of_users(&scene), inventory(scene.src.root()));
    assert_eq!(trash(&scene).len(), 1);
    scene.src.file("c", "c");
    scene.copy(&["--mirror"]).assert_code(0);
    scene.src.remove("c");
    nightly(&[]).assert_code(2);
    nightly(&["--allow-empty"]).assert_code(0);
    assert_eq!(of_users(&scene), inventory(scene.src.root()));
}
