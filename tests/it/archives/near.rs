//! Lists among the files: one in each directory, or one beside each file; judged by `sha256sum` and `md5sum` from where
//! they lie.

use std::time::Duration;

use rustix::process::Signal;

use crate::harness::{
    Need, Random, Run, Scene, Strace, content, have, is_temp_name, names_below, shell,
};

const DIRS: [&str; 3] = ["--format=gnu", "--format=dirs", "--hash=sha256,md5"];
const SIDES: [&str; 3] = ["--format=gnu", "--format=sides", "--hash=sha256,md5"];

fn scene() -> Scene {
    let scene = Scene::new();
    scene
        .src
        .file("a", "one")
        .file("dir/deep/er/b", content(100_000))
        .file("dir/li\nne", "three")
        .file("dir/back\\slash", "four")
        .file("dir/-", "five")
        .file("dir/empty", "")
        .file(b"by\xfftes/\xff", "six")
        .dir("nothing");
    scene
}

/// Every list in each directory lists its files and no others.
#[track_caller]
fn dirs_are_right(scene: &Scene, lists: usize) {
    let check = "cd dst && find . -name SHA256SUMS -execdir sha256sum -c --strict --quiet {} \\; && \
                 find . -name MD5SUMS -execdir md5sum -c --strict --quiet {} \\;";
    shell(scene, check);
    let each = "cd dst && find . -type d ! -path './.dircopy*' -print0 | while IFS= read -rd '' d; do ( cd \"$d\"; \
                n=$(find . -maxdepth 1 -type f ! -name 'dircopy-*' ! -name '*SUMS' -printf x | wc -c); \
                test $n = $(cat SHA256SUMS 2>/dev/null | wc -l) || echo bad \"$d\"; ) done";
    assert_eq!(shell(scene, each), "");
    assert_eq!(
        shell(scene, "find dst -name '*SUMS' -printf 'x\\n' | wc -l").trim(),
        lists.to_string()
    );
    listed_and_nothing_left(scene, "dirs", lists);
}

/// The list of lists lists them all, and a check with it knows all.
#[track_caller]
fn listed_and_nothing_left(scene: &Scene, ending: &str, lists: usize) {
    let names = names_below(&scene.dst, "f");
    assert!(names.iter().all(|name| !is_temp_name(name)), "{names:?}");
    let newest = shell(scene, "ls dst/*.sha256sum | tail -1");
    let (manifest, list) = (newest.trim(), newest.trim().replace("sha256sum", ending));
    assert_eq!(shell(scene, &format!("wc -l <{list}")).trim(), lists.to_string());
    shell(scene, &format!("cd dst && sha256sum -c --strict --quiet ../{list}"));
    let check =
        ["verify", "--complete", "--manifest", manifest, "--manifest", &list, "--root", "dst"];
    scene.bare(check).run().assert_code(0);
    scene.bare(["verify", "dst"]).run().assert_code(0);
}

fn times(scene: &Scene) -> String {
    shell(
        scene,
        "cd dst && find . -mindepth 1 -type d ! -path './.dircopy*' -printf '%p %T@\\n' | sort",
    )
}

#[test]
fn a_list_in_each_directory_and_one_beside_each_file() {
    let scene = scene();
    shell(&scene, "find src -mindepth 1 -exec touch -h -d 2024-05-06 {} +");
    scene.copy(&DIRS).assert_code(0);
    dirs_are_right(&scene, 8);
    assert!(
        times(&scene).lines().all(|line| line.ends_with("1714953600.0000000000")),
        "{}",
        times(&scene)
    );
    let before = shell(&scene, "find dst -name '*SUMS' -exec stat -c '%n %i %Z' {} + | sort");
    scene.copy(&DIRS).assert_code(0);
    assert_eq!(
        shell(&scene, "find dst -name '*SUMS' -exec stat -c '%n %i %Z' {} + | sort"),
        before
    );
    // What is new is listed, and what has left the source stays listed.
    scene.src.file("dir/new", "new").file("other/x", "x").remove("a");
    scene.copy(&DIRS).assert_code(0);
    dirs_are_right(&scene, 10);
    shell(&scene, "rm -r dst");
    scene.copy(&SIDES).assert_code(0);
    let check = "cd dst && find . -name '*.sha256' -execdir sha256sum -c --strict --quiet {} \\; && \
                 find . -name '*.md5' -execdir md5sum -c --strict --quiet {} \\; && \
                 find . -name '*.sha256' -printf x | wc -c";
    assert_eq!(shell(&scene, check).trim(), "8");
    listed_and_nothing_left(&scene, "sides", 16);
    scene.src.file("dir/new", "newer");
    scene.copy(&[&SIDES[..], &["--overwrite-policy=update"]].concat()).assert_code(0);
    shell(&scene, "cd dst/dir && sha256sum -c --strict new.sha256");
    listed_and_nothing_left(&scene, "sides", 16);
}

/// What is not ours stays, and is named.
#[test]
fn files_of_others_stay() {
    let scene = scene();
    scene.src.file("dir/SHA256SUMS", "of the source");
    scene.tree("dst").file("SHA256SUMS", "mine").symlink("MD5SUMS", "../away");
    let dry = scene.copy(&[&DIRS[..], &["--dry-run"]].concat());
    dry.assert_code(1).assert_says("dst/dir/SHA256SUMS: a file of the source has its name");
    dry.assert_prints(&["1 list would not be written"]);
    let run = scene.copy(&DIRS);
    run.assert_code(1).assert_says("dst/SHA256SUMS").assert_says("dst/dir/SHA256SUMS");
    run.assert_says("dst/MD5SUMS: what has its name is a directory, a link or a special file");
    assert_eq!(scene.output().read("SHA256SUMS"), b"mine");
    assert_eq!(scene.output().read("dir/SHA256SUMS"), b"of the source");
    assert!(!scene.path("away").exists());
    scene.bare(["verify", "dst"]).run().assert_code(0);
    // A list that was changed since is no list of ours.
    scene.output().file("dir/deep/er/SHA256SUMS", "changed");
    scene.src.file("dir/deep/er/new", "new");
    let run = scene.copy(&DIRS);
    run.assert_code(1).assert_says("dst/dir/deep/er/SHA256SUMS");
    assert_eq!(scene.output().read("dir/deep/er/SHA256SUMS"), b"changed");
    let run = scene.copy(&[&DIRS[..], &["--overwrite-policy=update"]].concat());
    run.assert_code(1).assert_says("dst/dir/SHA256SUMS");
    assert!(!run.err().contains("dst/SHA256SUMS"), "{}", run.err());
    assert!(!run.err().contains("update replaces it"), "{}", run.err());
    assert_eq!(scene.output().read("dir/SHA256SUMS"), b"of the source");
    shell(&scene, "cd dst/dir/deep/er && sha256sum -c --strict --quiet SHA256SUMS");
    // A copy of such a copy has the same lists.
    let scene = self::scene();
    scene.copy(&DIRS).assert_code(0);
    shell(&scene, "rm dst/dircopy-* && mv dst src2");
    let run = scene.command_to("src2", &scene.dst, DIRS).run();
    run.assert_code(0);
    shell(&scene, "diff -r -x 'dircopy-*' -x .dircopy src2 dst");
}

/// A run that does not write them anew tells that they no longer hold, and a check tells that there are others.
#[test]
fn lists_that_an_earlier_run_left_are_told() {
    let scene = scene();
    let run = scene.copy(&[&DIRS[..], &["--report=report.json"]].concat());
    run.assert_code(0);
    let report = scene.tree(".").read("report.json");
    let report: serde_json::Value = serde_json::from_slice(&report).unwrap();
    let lists = report["outputs"][0]["lists"].as_array().unwrap();
    let lists: Vec<&str> = lists.iter().map(|list| list["path"].as_str().unwrap()).collect();
    assert!(lists.len() == 2 && lists[0].ends_with(".md5sum"), "{lists:?}");
    assert!(lists.iter().all(|list| scene.path(list).exists()), "{lists:?}");
    let near = lists[1].rsplit('/').next().unwrap();
    assert!(near.ends_with(".dirs"), "{lists:?}");
    scene.bare(["verify", "dst"]).run().assert_code(0).assert_prints(&[
        "also here",
        near,
        "--manifest",
    ]);
    assert_eq!(scene.bare(["verify", "-q", "dst"]).run().out(), "");
    // Nothing changed, so they hold.
    let stale = "vouch for the lists among the files";
    assert!(!scene.copy(&[]).assert_code(0).err().contains(stale));
    scene.src.file("a", "another one");
    let run = scene.copy(&["--overwrite-policy=update"]);
    run.assert_code(0).assert_says(stale).assert_says("--format dirs").assert_says(near);
    shell(&scene, "! (cd dst && sha256sum -c --quiet SHA256SUMS 2>&1)");
    scene.src.file("dir/new", "new");
    assert!(!scene.copy(&DIRS).assert_code(0).err().contains(stale));
    dirs_are_right(&scene, 8);
    // Those that came with a source are of that.
    shell(&scene, "mv dst src2");
    let copy = || scene.command_to("src2", &scene.dst, ["--overwrite-policy=update"]).run();
    copy().assert_code(0);
    shell(&scene, "echo more >src2/more");
    assert!(!copy().assert_code(0).err().contains(stale));
}

/// Those of other digests, beside which a run writes its own, are told as well.
#[test]
fn lists_of_other_digests_that_an_earlier_run_left_are_told() {
    let stale = "vouch for the lists among the files";
    for form in ["dirs", "sides"] {
        let scene = Scene::new();
        scene.src.file("a", "one").file("d/b", "two");
        let by =
            |hash| scene.copy(&["--format", form, "--hash", hash, "--overwrite-policy=update"]);
        by("sha256").assert_code(0);
        assert!(!by("md5").assert_code(0).err().contains(stale));
        for content in ["another", "a third"] {
            scene.src.file("a", content);
            let run = by("md5");
            run.assert_code(0).assert_says(stale);
            run.assert_says(&format!("--format {form} --hash sha256"));
        }
        let lists = "cd dst; find . -name SHA256SUMS -o -name '*.sha256'";
        shell(&scene, &format!("{lists} | grep -c . | grep -qx 2"));
        scene.src.file("a", "a fourth");
        assert!(!by("sha256,md5").assert_code(0).err().contains(stale));
        shell(&scene, &format!("{lists} | xargs rm"));
        scene.src.file("a", "the last");
        assert!(!by("md5").assert_code(0).err().contains(stale));
    }
}

/// A name that other programs would take for an option is a file of its directory like any other.
#[test]
fn names_that_start_with_a_dash_are_of_the_root() {
    for args in [["--overwrite-policy=update"], ["--overwrite-policy=always"]] {
        let scene = Scene::new();
        for name in ["a", "b", "-", "-x", "dir/-"] {
            scene.src.file(name, name);
        }
        for _ in 0..2 {
            scene.copy(&[&DIRS[..], &args].concat()).assert_code(0);
            dirs_are_right(&scene, 4);
        }
        shell(&scene, "rm -r dst");
        scene.copy(&[&SIDES[..], &args].concat()).assert_code(0);
        listed_and_nothing_left(&scene, "sides", 10);
    }
}

#[test]
fn what_they_do_not_go_with_is_refused() {
    for args in [&["--mirror"][..], &["--generations"], &["--bag"]] {
        let scene = scene();
        let run = scene.copy(&[&["--format=dirs"], args].concat());
        run.assert_code(2);
        assert!(!scene.dst.exists());
    }
}

/// A list of our own is no reason to keep a directory closed that is open at the source by now.
#[test]
fn a_directory_with_lists_is_opened() {
    for args in [DIRS, SIDES] {
        let scene = Scene::new();
        scene.src.file("d/a", "a").file("d/b", "b");
        shell(&scene, "chmod 700 src/d");
        scene.copy(&args).assert_code(0);
        shell(&scene, "chmod 755 src/d");
        scene.copy(&args).assert_code(0);
        assert_eq!(shell(&scene, "stat -c %a dst/d"), "755\n");
    }
}

/// Whatever is left of a killed run is whole, and the same command goes on.
#[test]
fn a_kill_leaves_whole_lists() {
    let scene = Scene::new();
    for i in 0..300 {
        scene.src.file(format!("dir-{}/small-{i}", i % 60), content(i * 5));
    }
    for args in [DIRS, SIDES] {
        shell(&scene, "rm -rf dst");
        let took = scene.copy(&args).assert_code(0).took;
        let (mut random, mut killed) = (Random::new(5), 0);
        while killed < 6 {
            shell(&scene, "rm -rf dst");
            let running = scene.command(args).spawn();
            let moment = random.below(usize::try_from(took.as_micros()).unwrap());
            std::thread::sleep(Duration::from_micros(u64::try_from(moment).unwrap()));
            running.signal(if killed % 2 == 0 { Signal::KILL } else { Signal::TERM });
            let run: Run = running.wait();
            killed += usize::from(run.code != Some(0));
            if run.code == Some(143) {
                assert_eq!(shell(&scene, "find dst -name '.dircopy-*' -printf x"), "");
            }
            shell(
                &scene,
                "test ! -d dst || (cd dst && find . -name SHA256SUMS -execdir sha256sum -c --quiet {} \\;)",
            );
            scene.copy(&args).assert_code(0);
            assert_eq!(shell(&scene, "find dst -name '.dircopy-*' -printf x"), "");
        }
    }
}

/// A list that cannot be written is named, and all others are there.
#[test]
fn a_list_that_cannot_be_written_is_named() {
    if !have(&[Need::Strace]) {
        return;
    }
    for (calls, fault) in
        [("renameat,renameat2", "error=EIO:when=1+"), ("fsync", "error=EIO:when=1+")]
    {
        let scene = scene();
        let strace =
            Strace::inject(&scene, calls, fault).on(scene.dst.join("dir/deep/er/SHA256SUMS"));
        let run = strace.run(scene.command(["--format=dirs"]));
        if strace.injected().is_empty() {
            continue;
        }
        run.assert_code(1).assert_says("SHA256SUMS");
        shell(&scene, "cd dst && sha256sum -c --strict --quiet dircopy-*.sha256sum");
        scene.copy(&["--format=dirs"]).assert_code(0);
        assert_eq!(shell(&scene, "find dst -name SHA256SUMS -printf x"), "xxxx");
    }
}

/// A file of the user that is called like a list of lists is none.
#[test]
fn a_file_of_the_source_is_no_list_of_an_earlier_run() {
    for args in [&[][..], &["--generations"], &["--bag"]] {
        let scene = Scene::new();
        scene.src.file("dircopy-20200101T000000Z.dirs", "bob").file("a", "a");
        scene.src.file("dircopy-20200101T000000Z.sides", "bob");
        for night in ["first", "second"] {
            let run = scene.copy(args);
            run.assert_code(0);
            assert!(!run.err().contains("vouch for"), "{args:?}: {}", run.err());
            scene.src.file(night, "x");
        }
    }
}
