//! Nothing to do is said as such: an empty source, an absent disk, outputs on one device, a source that is an output.

use std::fs;

use serde_json::Value;

use crate::harness::{Mount, NONE, Run, Scene, Strace, content, ctimes, inventory, need, shell};

const EMPTY: &str = "the source is empty; is its disk mounted?";

#[track_caller]
fn copies_nothing(scene: &Scene, run: &Run, why: &str) {
    run.assert_code(1).assert_prints(&["NOTHING COPIED (exit 1): ", why]);
    assert!(!scene.dst.exists(), "{}", run.err());
}

/// The directory of a card that is not mounted was "done", with a green page.
#[test]
fn an_empty_source_is_no_copy() {
    let scene = Scene::new();
    scene.src.dir(".");
    for args in [&[][..], &["--bag"], &["--format", "mhl"], &["--mirror"], &["--generations"]] {
        let run = scene.copy(args);
        run.assert_code(1).assert_prints(&["NOTHING COPIED (exit 1): ", EMPTY]);
        assert!(!scene.dst.exists(), "{args:?}: {}", run.err());
    }
    copies_nothing(&scene, &scene.copy(&["--report", "r.html"]), EMPTY);
    let page = fs::read_to_string(scene.path("r.html")).unwrap();
    assert!(page.contains("Nothing copied") && page.contains(EMPTY), "{page}");
    assert!(!page.contains("verdict good"));
    copies_nothing(&scene, &scene.copy(&["--report", "r.json"]), EMPTY);
    let report: Value = serde_json::from_slice(&fs::read(scene.path("r.json")).unwrap()).unwrap();
    assert_eq!((&report["exit_code"], &report["ending"]), (&1.into(), &"incomplete".into()));
    assert!(report["error"]["text"].as_str().unwrap().contains(EMPTY), "{report}");
    scene.copy(&["-q"]).assert_code(1).assert_says(EMPTY);
    scene.copy(&["-n"]).assert_code(1).assert_prints(&["NOTHING WAS DONE (exit 1): ", EMPTY]);
    let run = scene.bare(["src", "one", "two"]).run();
    copies_nothing(&scene, &run, EMPTY);
    assert!(!scene.path("one").exists() && !scene.path("two").exists());
    let plan = |more: &[&str]| {
        let plan = ["plan", "src", "dst", "--plan", "plan"];
        scene.bare(plan.iter().chain(more)).run()
    };
    plan(&[]).assert_code(2).assert_says(EMPTY);
    assert!(!scene.dst.exists());
    plan(&["--allow-empty"]).assert_code(0);
    scene.copy(&["--allow-empty"]).assert_code(0).assert_prints(&[NO_FILE]);
    // What has directories is not empty.
    scene.src.dir("a");
    scene.copy(&[]).assert_code(0);
}

/// What runs keep in an output is no content: a mount point into which one went by mistake has nothing else.
#[test]
fn a_source_with_nothing_but_what_runs_keep_is_empty() {
    let scene = Scene::new();
    scene.src.file("a", "a");
    scene.copy(&["--mirror"]).assert_code(0);
    shell(&scene, "rm src/a; mkdir -m 700 src/.dircopy");
    let run = scene.copy(&["--mirror", "--max-delete=100%"]);
    run.assert_code(2).assert_says("src: it is empty, and the output has 1 file or link");
    assert!(scene.dst.join("a").exists());
    shell(&scene, "cp -a dst/.dircopy src/; mkdir -p src/.dircopy-trash/2026-11-21T020000Z");
    let run = scene.copy(&[]);
    run.assert_code(1).assert_prints(&["NOTHING COPIED (exit 1): ", EMPTY]);
    let run = scene.bare(["src", "new"]).run();
    run.assert_code(1).assert_prints(&["NOTHING COPIED (exit 1): ", EMPTY]);
    assert!(!scene.path("new").exists());
}

const NO_FILE: &str = "done: no file was copied, as none was found in the source";

/// A mirror, too, makes nothing; where there is something that would go it is refused.
#[test]
fn a_mirror_of_an_empty_source_leaves_an_archive_alone() {
    let scene = Scene::new();
    scene.src.dir(".");
    scene.copy(&["--allow-empty"]).assert_code(0);
    let before = ctimes(&scene.dst);
    for args in [&["--mirror"][..], &["--mirror", "-n"]] {
        let title = if args.len() == 1 { "NOTHING COPIED" } else { "NOTHING WAS DONE" };
        scene.copy(args).assert_code(1).assert_prints(&[title, EMPTY]);
        assert_eq!(ctimes(&scene.dst), before);
    }
}

/// Directories alone may be archived, and what is no file is skipped: the source is there. But no file was copied.
#[test]
fn a_source_without_files_is_done_and_says_that_it_has_none() {
    for has_directories in [true, false] {
        let scene = Scene::new();
        match has_directories {
            true => scene.src.dir("a/b"),
            false => scene.src.fifo("fifo"),
        };
        for _ in 0..2 {
            let run = scene.copy(&[]);
            run.assert_code(0).assert_prints(&[NO_FILE]);
            assert!(!run.out().contains("everything"), "{}", run.out());
        }
        let run = scene.bare(["src", "one", "two"]).run();
        run.assert_code(0).assert_prints(&[NO_FILE]);
        // The manifest says what the run found, and there is nothing to prove by it.
        let run = scene.bare(["verify", "dst"]).run();
        run.assert_code(5).assert_says("lists no file");
        run.assert_prints(&["empty", "1 manifest"]);
        run.assert_prints(&["NOTHING TO VERIFY (exit 5): a manifest lists no file"]);
        assert!(!run.out().contains("unusable"), "{}", run.out());
        scene.src.file("a/file", "x");
        let run = scene.copy(&[]);
        run.assert_code(0).assert_prints(&["done: 1 file, ", " at the output"]);
        let run = scene.bare(["verify", "dst"]).run();
        run.assert_code(0).assert_prints(&["good"]);
    }
}

#[test]
fn an_empty_source_leaves_an_archive_alone() {
    let scene = Scene::new();
    scene.src.file("a", "a");
    scene.copy(&[]).assert_code(0);
    scene.src.remove("a");
    let before = ctimes(&scene.dst);
    scene.copy(&[]).assert_code(1).assert_prints(&["NOTHING COPIED", EMPTY]);
    assert_eq!(ctimes(&scene.dst), before);
    scene.copy(&["--mirror"]).assert_code(2);
    assert_eq!(ctimes(&scene.dst), before);
}

#[test]
fn what_leaves_out_everything_says_so() {
    let scene = Scene::new();
    scene.src.file("a.raw", "a").file("d/b.raw", "b");
    let why = "nothing in the source matches";
    let run = scene.copy(&["--include", "*.jpg"]);
    run.assert_code(1).assert_prints(&["NOTHING COPIED (exit 1): ", why]);
    let run = scene.copy(&["--include", "*.jpg", "-n"]);
    run.assert_code(1).assert_prints(&["NOTHING WAS DONE (exit 1): ", why]);
    scene.copy(&["--include", "*.jpg", "--allow-empty"]).assert_code(0);
    fs::write(scene.path("names"), "d/b.raw\n").unwrap();
    let run = scene.copy(&["--files-from", "names", "--include", "*.jpg"]);
    run.assert_code(1).assert_prints(&["NOTHING COPIED (exit 1): ", why]);
    fs::write(scene.path("names"), "\n").unwrap();
    let run = scene.copy(&["--files-from", "names"]);
    run.assert_code(1).assert_prints(&["NOTHING COPIED (exit 1): ", "the list of names has none"]);
    scene.copy(&["--files-from", "names", "--allow-empty"]).assert_code(0);
}

/// 1 GiB went to the system's disk, and was "at all 2 outputs".
#[test]
fn the_disk_of_one_of_two_outputs_is_missed() {
    need!(Root);
    Mount::privately();
    let scene = Scene::new();
    scene.src.file("a", content(5000));
    let [one, two] = ["one", "two"].map(|name| scene.path(name));
    let mount = Mount::tmpfs(&one, "4M");
    let other = Mount::tmpfs(&two, "4M");
    let copy = || scene.bare(["src", "one/copy", "two/copy"]).run();
    let run = copy();
    run.assert_code(0).assert_prints(&["done: 1 file, ", " at both outputs"]);
    assert!(!run.out().contains("on one device"), "{}", run.out());
    drop(other);
    scene.src.file("b", "b");
    for _ in 0..2 {
        let run = copy();
        run.assert_code(1).assert_says("two/copy: its disk is not mounted");
        run.assert_prints(&["1 OF 2 OUTPUTS COMPLETE", "nothing was copied to two/copy"]);
        assert!(!two.join("copy").exists() && one.join("copy/b").exists());
    }
    // The other one cannot be written to, either: what it knows is asked all the same.
    shell(&scene, "mount -o remount,ro one");
    copy().assert_code(2).assert_says("two/copy: its disk is not mounted");
    assert!(!two.join("copy").exists());
    shell(&scene, "mount -o remount,rw one");
    // It is there again, and gone with its mount point.
    let other = Mount::tmpfs(&two, "4M");
    copy().assert_code(0);
    drop(other);
    let _ = fs::remove_dir(&two);
    copy().assert_code(1);
    assert!(!two.join("copy").exists());
    // Also where the disks took turns meanwhile.
    let third = scene.path("three");
    let turn = Mount::tmpfs(&third, "4M");
    scene.bare(["src", "one/copy", "three/copy"]).run().assert_code(0);
    copy().assert_code(1);
    assert!(!two.join("copy").exists());
    drop(turn);
    // If that is meant, what knows it is removed.
    fs::create_dir_all(&two).unwrap();
    fs::remove_file(one.join("copy/.dircopy/others")).unwrap();
    copy().assert_code(0);
    drop(mount);
}

/// The person is told to connect the disk and to run the same command.
#[test]
fn a_disk_that_was_pulled_is_missed_by_the_next_run() {
    need!(Root, Strace);
    Mount::privately();
    for is_killed in [true, false] {
        let scene = Scene::new();
        scene.src.file("a", content(5000));
        let (_mount, other) =
            (Mount::tmpfs(&scene.path("one"), "4M"), Mount::tmpfs(&scene.path("two"), "4M"));
        let command = || scene.bare(["src", "one/copy", "two/copy"]);
        let signal = if is_killed { "signal=KILL:when=1" } else { "signal=STOP:when=1" };
        let strace = Strace::inject(&scene, "close", signal).exactly_on(scene.src.path("a"));
        if is_killed {
            assert_eq!(strace.run(command()).signal, Some(9));
            drop(other);
        } else {
            strace.run_stopped(command(), || drop(other)).assert_code(3);
        }
        let run = command().run();
        run.assert_code(1).assert_says("two/copy: its disk is not mounted");
        assert!(!scene.path("two/copy").exists() && scene.path("one/copy/a").exists());
    }
}

/// Of one output alone nothing is known at the next run: the person is told how it is refused.
#[test]
fn a_single_disk_that_was_pulled_is_to_be_asked_for() {
    need!(Root, Strace);
    Mount::privately();
    let scene = Scene::new();
    scene.src.file("a", content(5000)).file("b", content(5000));
    let pulled = |args: &[&str]| {
        let other = Mount::tmpfs(&scene.path("two"), "4M");
        let command = scene.bare([&["src", "two/copy"], args].concat());
        let strace = Strace::inject(&scene, "close", "signal=STOP:when=1");
        let run = strace.exactly_on(scene.src.path("a")).run_stopped(command, || drop(other));
        run.assert_code(3);
        // All were counted, and the numbers add up.
        assert!(!run.out().contains("found so far"), "{}", run.out());
        run.out().lines().last().unwrap_or_default().to_owned()
    };
    let last = pulled(&[]);
    assert!(last.contains("the disk of two/copy is gone: "), "{last}");
    assert!(!last.contains("2 of 2 files found"), "{last}");
    assert_eq!(last.matches("which may not all be on it").count(), 1, "{last}");
    assert!(last.contains("with --require-mount, "), "{last}");
    let last = pulled(&["--require-mount"]);
    assert!(last.ends_with("; connect it and run the same command"), "{last}");
}

/// `--require-mount` looks at outputs alone.
#[test]
fn the_disk_of_a_source_that_was_pulled_is_asked_for_by_its_name() {
    need!(Root, Strace);
    Mount::privately();
    let scene = Scene::new();
    let other = Mount::tmpfs(scene.src.root(), "4M");
    scene.src.file("a", content(5000)).file("b", content(5000));
    let strace = Strace::inject(&scene, "close", "signal=STOP:when=1");
    let command = scene.bare(["src", "dst", "-j1"]);
    let run = strace.exactly_on(scene.src.path("a")).run_stopped(command, || drop(other));
    run.assert_code(3);
    let out = run.out();
    let last = out.lines().last().unwrap_or_default();
    assert!(last.contains("the disk of src is gone: "), "{last}");
    assert!(!last.contains("--require-mount"), "{last}");
    assert!(last.ends_with("; connect it and run the same command"), "{last}");
}

#[test]
fn outputs_on_one_device_are_one_place() {
    let scene = Scene::new();
    scene.src.file("a", "a");
    let run = scene.bare(["src", "one", "two"]).run();
    run.assert_code(0).assert_prints(&["done: 1 file, ", " at both outputs", "on one device"]);
}

/// Old manifests went into the source, and what was edited there was left or replaced.
#[test]
fn source_and_output_are_not_exchanged() {
    let scene = Scene::new();
    scene.src.file("d/a", "a");
    scene.copy(&[]).assert_code(0);
    scene.src.file("d/new", "new");
    let before = inventory(scene.src.root());
    for args in [NONE.to_vec(), vec!["-n"], vec!["--mirror"], vec!["--overwrite-policy", "update"]]
    {
        let run = scene.command_to(&scene.dst, scene.src.root(), args).run();
        run.assert_code(2).assert_says("are source and output exchanged?").assert_says("--restore");
        assert_eq!(inventory(scene.src.root()), before);
    }
    // Others may have what is archived, also where the source was; and it may come back on purpose.
    scene.command_to(&scene.dst, scene.path("other"), NONE).run().assert_code(0);
    scene.command_to(&scene.dst, scene.path("other"), NONE).run().assert_code(0);
    scene.command_to(&scene.dst, scene.src.root(), ["--restore"]).run().assert_code(0);
    assert!(scene.src.has("d/new"));
    // Now each is a copy of the other, and the nights go on.
    scene.copy(&["--overwrite-policy", "update"]).assert_code(0);
    shell(&scene, "rm -rf src/* src/.dircopy");
    scene.command_to(&scene.dst, scene.src.root(), NONE).run().assert_code(0);
    assert!(scene.src.has("d/a"));
    shell(&scene, "rm -rf src && mkdir src && touch src/x");
    scene.command_to(&scene.dst, scene.src.root(), NONE).run().assert_code(0);
}

/// Also where the runs keep their records elsewhere, where the record is gone, and where the archive itself was copied.
#[test]
fn an_exchange_is_known_wherever_the_records_are() {
    let none = Vec::new;
    let elsewhere = || vec!["--state", "st"];
    let other = || vec!["--state", "other"];
    let ways: [(Vec<&str>, &str, &str, Vec<&str>); 6] = [
        (elsewhere(), "", "dst", none()),
        (elsewhere(), "", "dst", other()),
        (none(), "", "dst", elsewhere()),
        (none(), "cp -a dst archive", "archive", none()),
        (none(), "cp -a dst archive", "archive", elsewhere()),
        (none(), "rm -r dst/.dircopy", "dst", none()),
    ];
    for (first, between, archive, then) in ways {
        let scene = Scene::new();
        scene.src.file("d/a", "a").file("b", "b");
        shell(&scene, "mkdir st other");
        scene.copy(&first).assert_code(0);
        scene.src.file("d/new", "new").file("b", "edited");
        shell(&scene, between);
        let (from, before) = (scene.path(archive), inventory(scene.src.root()));
        let back = |more: &[&str]| {
            let args = [&then[..], more].concat();
            scene.command_to(&from, scene.src.root(), args).run()
        };
        for more in [&[][..], &["-n"], &["--mirror"], &["--overwrite-policy", "always"]] {
            let run = back(more);
            run.assert_code(2).assert_says("are source and output exchanged?");
            assert_eq!(inventory(scene.src.root()), before, "{between} {more:?}");
        }
        // Others may have the archive, night after night.
        scene.command_to(&from, scene.path("next"), &then).run().assert_code(0);
        scene.copy(&[&first[..], &["--overwrite-policy", "update"]].concat()).assert_code(0);
        let nightly = [&then[..], &["--overwrite-policy", "update"]].concat();
        for _ in 0..2 {
            scene.command_to(&from, scene.path("next"), &nightly).run().assert_code(0);
        }
        back(&["--restore", "--overwrite-policy", "always"]).assert_code(0);
    }
}

/// Also where a part of the output is copied onto the part of the source that it came from, or an output of another kind
/// onto its source; and what is meant, or empty, is done.
#[test]
fn parts_of_source_and_output_are_not_exchanged() {
    let bag: &[&str] = &["--bag"];
    let generations: &[&str] = &["--generations"];
    let ways: [(&[&str], &[&str], &str, &str); 10] = [
        (&[], &[], "dst/d", "src/d"),
        (&[], &[], "dst/d/e", "src/d/e"),
        (&["--state", "st"], &[], "dst/d", "src/d"),
        (
            &["--hash", "none", "--state", "st"],
            &["--hash", "none", "--state", "other"],
            "dst",
            "src",
        ),
        (bag, &[], "dst/data", "src"),
        (bag, &[], "dst/data/d", "src/d"),
        (bag, &[], "dst", "src"),
        (generations, &[], "dst", "src"),
        (generations, generations, "dst", "src"),
        // What is above both.
        (&[], &[], "up/dst", "up/src"),
    ];
    for (first, then, from, to) in ways {
        let scene = Scene::new();
        scene.src.file("d/a", "a").file("d/e/b", "b");
        shell(&scene, "mkdir st other up");
        scene.copy(first).assert_code(0);
        let (from, to) = match from.strip_prefix("up/") {
            Some(_) => {
                shell(&scene, "mkdir up/one up/two; mv src up/one/x; mv dst up/two/x");
                ("up/two", "up/one")
            }
            None => (from, to),
        };
        shell(
            &scene,
            &format!(
                "echo new > {to}/new; find {to} -name a -exec sh -c 'echo edited > $0' {{}} ';'"
            ),
        );
        let to = scene.path(to);
        let before = inventory(&to);
        let update: &[&str] = &["--overwrite-policy", "update"];
        // What generations get is not up to the policy.
        let update = if then == generations { &[] } else { update };
        for more in [&[][..], &["-n"], update] {
            let args = [then, more].concat();
            let run = scene.command_to(scene.path(from), &to, &args).run();
            run.assert_code(2).assert_says("exchanged?").assert_says("--restore");
            assert_eq!(inventory(&to), before, "{from} {args:?}");
        }
        // Into what is empty or absent, again and again; and it may be meant.
        let args = [then, update].concat();
        for other in ["other-empty", "other-absent"] {
            shell(&scene, "mkdir -p other-empty");
            for _ in 0..2 {
                scene.command_to(scene.path(from), scene.path(other), &args).run().assert_code(0);
            }
        }
        let always: &[&str] =
            if then == generations { &[] } else { &["--overwrite-policy", "always"] };
        let meant = [then, always, &["--restore"]].concat();
        scene.command_to(scene.path(from), &to, &meant).run().assert_code(0);
    }
}

/// No record is left, and the archive may be another user's: its manifests tell, and nothing is done because of them.
#[test]
fn an_exchange_is_known_by_manifests_alone() {
    need!(Root);
    let ways: [(&[&str], &str); 6] = [
        (&[], "dst"),
        (&["--bag"], "dst"),
        (&["--bag"], "dst/data"),
        (&["--bag", "--hash", "sha512"], "dst"),
        (&["--generations"], "dst"),
        (&["--generations"], "dst/latest"),
    ];
    for (first, from) in ways {
        for owner in [0, 1002] {
            let scene = Scene::new();
            scene.src.file("d/a", "a").file("d/e/b", "b");
            scene.copy(first).assert_code(0);
            shell(&scene, "find dst -name .dircopy -prune -exec rm -r {} +; echo edited > src/d/a");
            shell(&scene, &format!("chown -R {owner}:{owner} dst; mkdir other; touch other/x"));
            let before = inventory(scene.src.root());
            let copy = |to: &str, more: &[&str]| {
                scene.command_to(scene.path(from), scene.path(to), more).run()
            };
            for more in [&[][..], &["-n"], &["--overwrite-policy", "update"]] {
                let run = copy("src", more);
                run.assert_code(2).assert_says("exchanged?").assert_says("--restore");
                assert_eq!(inventory(scene.src.root()), before, "{from} {owner} {more:?}");
            }
            // Another directory may have it, night after night; and it may be meant.
            for _ in 0..2 {
                copy("other", &[]).assert_code(0);
            }
            copy("src", &["--restore", "--overwrite-policy", "always"]).assert_code(0);
        }
    }
}

/// A part of a source goes to where it lies in the output, and another directory gets a part of the output.
#[test]
fn parts_that_were_not_exchanged_are_copied() {
    let scene = Scene::new();
    scene.src.file("d/a", "a").file("d/e/b", "b").file("f/c", "c");
    scene.copy(&[]).assert_code(0);
    scene.src.file("d/new", "new");
    scene.command_to(scene.path("src/d"), scene.path("dst/d"), NONE).run().assert_code(0);
    shell(&scene, "mkdir other; touch other/x");
    scene.command_to(scene.path("dst/d"), scene.path("other"), NONE).run().assert_code(0);
    scene.command_to(scene.path("dst/d"), scene.path("src/f"), NONE).run().assert_code(0);
    // What is lost is brought back into its place, and the nights go on.
    shell(&scene, "rm -r src/d/*");
    scene.command_to(scene.path("dst/d"), scene.path("src/d"), NONE).run().assert_code(0);
    for _ in 0..2 {
        scene.copy(&["--overwrite-policy", "update"]).assert_code(0);
    }
}

/// It went into a closed directory, or another took its place: what is read then is not what was to be copied.
#[test]
fn a_source_that_is_moved_is_gone() {
    need!(Strace);
    for change in [
        "mkdir -m 700 closed; mv src closed",
        "mkdir -m 700 closed; mv src closed; ln -s closed/src src",
        "mv src old; mkdir src; echo 2 >src/a",
    ] {
        let scene = Scene::new();
        scene.src.file("a", "1").file("b", "1");
        let strace =
            Strace::inject(&scene, "close", "signal=STOP:when=1").exactly_on(scene.src.path("a"));
        let run = strace.run_stopped(scene.command(NONE), || _ = shell(&scene, change));
        run.assert_code(3).assert_says("src: it was moved, or something else has its name");
        assert!(!run.out().contains("done") && !run.out().contains("connect it"), "{}", run.out());
    }
    // A link that leads to another one by now is another matter: what it led to is copied.
    let scene = Scene::new();
    scene.src.file("a", "1");
    shell(&scene, "ln -s src link; mkdir other");
    let strace =
        Strace::inject(&scene, "close", "signal=STOP:when=1").exactly_on(scene.src.path("a"));
    let command = scene.bare(["link", "dst"]);
    strace.run_stopped(command, || _ = shell(&scene, "ln -sfn other link")).assert_code(0);
}

/// All that was in a directory would stay listed, as if it had been copied.
#[test]
fn a_source_that_was_a_directory_is_not_done_as_a_file() {
    let scene = Scene::new();
    scene.src.file("a", "1").file("b", "2");
    scene.copy(&[]).assert_code(0);
    shell(&scene, "mv src was; echo oops >src; echo more >more");
    scene.copy(&[]).assert_code(2).assert_says("it is a file, and was a directory");
    assert!(!scene.dst.join("src").exists());
    // Another file may come beside.
    scene.bare(["more", "dst"]).run().assert_code(0);
    shell(&scene, "rm dst/.dircopy/source");
    scene.copy(&[]).assert_code(0);
    shell(&scene, "rm src; mv was src");
    scene.copy(&[]).assert_code(0);
}

/// A delivery of which nothing came lacks what its list has.
#[test]
fn an_empty_delivery_lacks_all_that_is_listed() {
    let scene = Scene::new();
    shell(&scene, "echo a >src/a; sha256sum src/a | sed s,src/,, >list; rm src/a");
    let delivery = ["--expect", "list", "--expect-all"];
    let run = scene.copy(&delivery);
    run.assert_code(4).assert_prints(&["NOT AS LISTED (exit 4): 1 listed file missing"]);
    // Nothing is known of it otherwise.
    scene.bare(["src", "out", "--expect", "list"]).run().assert_code(1).assert_prints(&[EMPTY]);
}
