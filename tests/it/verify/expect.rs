//! `--expect`: the source is held against an earlier manifest of it. What has rotted does not come to the
//! output, what was edited does, and no file is read more than once for it.

use crate::harness::{Need, Run, Scene, Strace, content, have, names_below, need, shell};

/// Longer than a block in some of the runs below.
const LEN: usize = 100_000;

/// A source of last year, with a list of it as `sha256sum` makes one.
fn scene() -> Scene {
    let scene = Scene::new();
    scene.src.file("dir/large", content(LEN)).file("dir/small", "small").file("other", "other");
    list(&scene);
    scene
}

fn list(scene: &Scene) {
    shell(scene, "touch -d 2025-01-01 src/dir/* src/other; touch -r src/other src/dir");
    shell(scene, "cd src && find . -type f -exec sha256sum {} + > ../list");
}

/// Changes a byte of a file in `tree`, and sets its time back.
fn rot(scene: &Scene, tree: &str, name: &str) {
    let path = scene.path(tree).join(name);
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[3] ^= 1;
    shell(scene, &format!("touch -r {} before", path.display()));
    std::fs::write(&path, bytes).unwrap();
    shell(scene, &format!("touch -r before {}; rm before", path.display()));
}

fn expect(scene: &Scene, args: &[&str]) -> Run {
    scene.command(["--expect", "list"].iter().chain(args)).run()
}

/// The newest manifest at the output lists exactly these names, and `sha256sum` agrees with it.
#[track_caller]
fn lists(scene: &Scene, run: &Run, names: &[&str]) {
    let judge = scene.judge(run);
    let list = judge.manifest();
    let listed: Vec<Vec<u8>> = judge.lines(&list).into_keys().collect();
    assert_eq!(listed, names.iter().map(|name| name.as_bytes()).collect::<Vec<_>>());
    judge.list_verifies(&list).no_leftovers();
}

#[test]
fn files_that_are_held_against_nothing_are_named() {
    let scene = scene();
    scene.src.file("dir/new", "new").symlink("link", "other");
    let run = expect(&scene, &["-v", "--log", "log"]);
    run.assert_code(0).assert_prints(&["unproven dir/new"]);
    assert_eq!(run.out().matches("\nunproven ").count(), 2, "{}", run.out());
    let log = std::fs::read_to_string(scene.path("log")).unwrap();
    assert!(log.contains("unproven dir/new"), "{log}");
    assert!(!expect(&scene, &[]).out().contains("unproven dir/new"));
}

const WAYS: [&[&str]; 7] = [
    &[],
    &["--block-size", "4K"],
    &["--block-size", "4K", "--workers", "1", "--queue-size", "1"],
    &["--verify", "--block-size", "4K"],
    &["--overwrite-policy", "always"],
    &["--overwrite-policy", "always", "--block-size", "4K", "--checkpoint", "16K"],
    &["--no-sync", "--hard-links"],
];

#[test]
fn a_rotten_byte_is_caught_and_the_good_copy_stays() {
    for args in WAYS {
        for name in ["dir/large", "dir/small"] {
            let scene = scene();
            scene.copy(&[]).assert_code(0);
            let good = scene.output().read(name);
            rot(&scene, "src", name);
            let run = expect(&scene, args);
            run.assert_code(4).assert_says(&format!("src/{name}: it has rotted"));
            run.assert_prints(&["(exit 4)"]).assert_prints(&["rotten", "1 file of these"]);
            run.assert_prints(&["expected", "2 files as listed, 0 edited since, 0 gone"]);
            assert_eq!(scene.output().read(name), good, "{args:?}");
            lists(&scene, &run, &["dir/large", "dir/small", "other"]);
        }
    }
}

#[test]
fn what_has_rotted_does_not_come_to_a_new_output() {
    for args in WAYS {
        for name in ["dir/large", "dir/small"] {
            let scene = scene();
            rot(&scene, "src", name);
            let run = expect(&scene, args);
            run.assert_code(4).assert_says("not modified since").assert_says("it is not copied");
            let rest: Vec<&str> =
                ["dir/large", "dir/small", "other"].into_iter().filter(|n| *n != name).collect();
            lists(&scene, &run, &rest);
            scene.judge(&run).lacks(name);
            // Without the expectation it is an ordinary file.
            scene.copy(&[]).assert_code(0);
        }
    }
}

/// Also where the policy would leave or keep the file, and where the output's copy is of another time.
#[test]
fn the_policy_does_not_matter() {
    for policy in ["default", "update", "never", "always"] {
        let scene = scene();
        scene.output().dir("dir").file("dir/large", "another one, of today");
        rot(&scene, "src", "dir/large");
        let run = expect(&scene, &["--overwrite-policy", policy]);
        run.assert_code(4).assert_says("what is at the output stays");
        assert_eq!(scene.output().read("dir/large"), b"another one, of today");
    }
}

#[test]
fn an_edited_file_is_copied() {
    let scene = scene();
    scene.copy(&[]).assert_code(0);
    scene.src.file("dir/large", content(LEN + 1)).file("new", "new");
    // Restored from elsewhere: older than the list, but not as old as the copy.
    scene.src.file("other", "rehto");
    shell(&scene, "touch -d 2025-02-01 src/other");
    let run = expect(&scene, &["--overwrite-policy", "update"]);
    scene.judge(&run).complete();
    run.assert_prints(&["expected", "1 file as listed, 2 edited since, 0 gone"]);
    // Of a delivery that is no answer.
    run.assert_prints(&["--expect-all, for a delivery"]);
    let run = expect(&scene, &["--expect-all"]);
    run.assert_code(4);
    assert!(!run.out().contains("for a delivery"), "{}", run.out());
}

/// Once the edit was copied nothing at the output is of the time of the list any more.
#[test]
fn the_same_command_has_the_same_verdict_again() {
    for args in [&[][..], &["--verify"], &["--hash", "sha256,md5"]] {
        let scene = scene();
        scene.copy(&[]).assert_code(0);
        // Restored from elsewhere: older than the list, but not as old as the copy.
        scene.src.file("other", "rehto");
        shell(&scene, "touch -d 2025-02-01 src/other");
        let args = [&["--overwrite-policy", "update"], args].concat();
        for _ in 0..3 {
            let run = expect(&scene, &args);
            run.assert_code(0).assert_prints(&["2 files as listed, 1 edited since, 0 gone"]);
            scene.copy(&args[..2]).assert_code(0);
        }
        // It is that content that was an edit, and no other.
        rot(&scene, "src", "other");
        for _ in 0..2 {
            expect(&scene, &args).assert_code(4).assert_says("src/other: it is not what list");
            assert_eq!(scene.output().read("other"), b"rehto");
        }
        rot(&scene, "src", "other");
        expect(&scene, &args).assert_code(0);
        // Where all is expected as it is listed there is no edit.
        expect(&scene, &[&args[..], &["--expect-all"]].concat()).assert_code(4);
    }
}

#[test]
fn a_file_that_is_gone_is_told() {
    let scene = scene();
    scene.copy(&[]).assert_code(0);
    scene.src.remove("dir/large").remove("dir/small");
    shell(&scene, "rmdir src/dir; rm src/other; ln -s /etc/passwd src/other");
    let run = expect(&scene, &["--exclude", "excluded", "--report", "report.json"]);
    run.assert_code_in(&[0, 1]);
    run.assert_says("not in the source: dir/large").assert_says("not in the source: dir/small");
    run.assert_says("not in the source: other").assert_prints(&["expected", "3 gone"]);

    // Left out of the copy is not gone, and not read either.
    let scene = self::scene();
    rot(&scene, "src", "dir/large");
    let run = expect(&scene, &["--exclude", "dir"]);
    run.assert_code(0).assert_prints(&["expected", "1 file as listed", "0 gone"]);
}

/// What rot had already brought to the output gives way to the source that was mended.
#[test]
fn a_copy_of_rot_is_replaced_by_the_mended_file() {
    for args in WAYS {
        let scene = scene();
        rot(&scene, "src", "dir/large");
        scene.copy(&[]).assert_code(0);
        rot(&scene, "src", "dir/large");
        let run = expect(&scene, args);
        run.assert_code(0);
        scene.judge(&run).complete();
        assert_eq!(scene.output().read("dir/large"), content(LEN));
    }
}

/// Both sides hold the same, and it is not what is expected: there is nothing better to keep.
#[test]
fn rot_on_both_sides_is_told() {
    let scene = scene();
    rot(&scene, "src", "dir/small");
    scene.copy(&[]).assert_code(0);
    let run = expect(&scene, &[]);
    run.assert_code(4).assert_says("src/dir/small: it is not what list lists");
    lists(&scene, &run, &["dir/large", "dir/small", "other"]);
}

#[test]
fn a_file_is_read_once() {
    need!(Strace);
    for (kept, args) in [(false, &[][..]), (false, &["--block-size", "4K"]), (true, &[])] {
        let scene = scene();
        if kept {
            scene.copy(&[]).assert_code(0);
        }
        let strace = Strace::watch(&scene, Strace::READS).exactly_on(scene.src.path("dir/large"));
        let args = ["--expect", "list"].iter().chain(args);
        let run = strace.run(scene.command(args));
        run.assert_code(0).assert_prints(&["expected", "3 files as listed"]);
        let read: u64 = strace
            .log()
            .lines()
            .filter_map(|line| line.rsplit_once("= ")?.1.trim().parse::<u64>().ok())
            .sum();
        assert_eq!(read, LEN as u64, "{}", strace.log());
    }
}

#[test]
fn other_names_of_a_file_go_with_the_first() {
    let scene = scene();
    scene.src.hard_link("dir/twin", "dir/large").hard_link("twin", "dir/large");
    list(&scene);
    for rotten in [false, true] {
        if rotten {
            rot(&scene, "src", "twin");
        }
        let run = expect(&scene, &["--hard-links"]);
        run.assert_code(if rotten { 4 } else { 0 });
        run.assert_prints(&["expected", "0 gone"]);
        for name in ["dir/large", "dir/twin", "twin"] {
            assert_eq!(scene.output().read(name), content(LEN));
        }
        lists(&scene, &run, &["dir/large", "dir/small", "dir/twin", "other", "twin"]);
    }
    // None of them comes where there is no good one.
    shell(&scene, "rm -r dst");
    let run = expect(&scene, &["--hard-links"]);
    run.assert_code(4);
    lists(&scene, &run, &["dir/small", "other"]);
}

#[test]
fn programs_are_told() {
    let scene = scene();
    rot(&scene, "src", "other");
    scene.src.remove("dir/small");
    let args =
        ["--report", "r.json", "--metrics", "m.prom", "--log", "log", "--log-format", "json"];
    let run = expect(&scene, &args);
    run.assert_code(4);
    let read = |name: &str| std::fs::read_to_string(scene.path(name)).unwrap();
    let report: serde_json::Value = serde_json::from_str(&read("r.json")).unwrap();
    assert_eq!(report["ending"], "untrue");
    let counts = &report["outputs"][0]["counts"];
    for (name, count) in
        [("rotten", 1), ("failed", 1), ("gone", 1), ("as_expected", 1), ("edited", 0), ("seen", 2)]
    {
        assert_eq!(counts[name], count, "{name}: {report:#}");
    }
    let events = |event| {
        let entries = report["entries"].as_array().unwrap().iter();
        let paths = entries.filter(|e| e["event"] == event).map(|e| e["path"].as_str().unwrap());
        paths.map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(events("rotten"), [scene.src.path("other").to_str().unwrap()]);
    assert_eq!(events("gone"), ["dir/small"]);
    assert!(read("log").contains("\"event\":\"rotten\""), "{}", read("log"));
    for (fate, count) in [("rotten", 1), ("gone", 1), ("as_expected", 1), ("edited", 0)] {
        let line = read("m.prom");
        let line = line.lines().find(|l| l.contains(&format!("fate=\"{fate}\"")));
        assert!(line.is_some_and(|line| line.ends_with(&format!("}} {count}"))), "{line:?}");
    }
}

#[test]
fn a_manifest_that_expects_nothing_is_refused() {
    let scene = scene();
    shell(&scene, "mkfifo fifo; : > empty; echo nonsense > wrong");
    for manifest in ["fifo", "empty", "wrong", "src", "missing"] {
        let run = scene.copy(&["--expect", manifest]);
        run.assert_code(2).assert_says(manifest);
        assert!(!scene.dst.exists());
    }
    for args in [&["--hash", "none"][..], &["--dry-run"]] {
        expect(&scene, args).assert_code(2);
    }
}

/// A file that such a line was to list may have rotted, and nobody would know.
#[test]
fn a_line_that_cannot_be_used_is_no_success() {
    for (lines, count) in [
        ("echo nonsense >> list", 1),
        ("printf '%064d  ../up\\n' 0 >> list; printf '%064d  /etc/passwd\\n' 0 >> list", 2),
        ("printf '%063d  other\\n' 0 >> list; printf '%064d  ../up\\n' 0 >> list", 2),
        ("printf '%064d  torn' 0 >> list", 1),
    ] {
        let scene = scene();
        shell(&scene, lines);
        let run = expect(&scene, &["--report", "r.json", "--metrics", "m.prom", "--log", "log"]);
        run.assert_code(1).assert_says(&format!("{count} of its lines say nothing"));
        // They do not hide the others.
        run.assert_prints(&["expected", "3 files as listed", "0 gone"]);
        let noun = if count == 1 { "line" } else { "lines" };
        run.assert_prints(&["unusable", &format!("{count} {noun} of the expected manifest")]);
        run.assert_prints(&[
            "NOT COMPLETE (exit 1): everything is at the output, but not all of it",
        ]);
        scene.judge(&run).same_tree().lists_all().verifies().no_leftovers();
        let read = |name: &str| String::from_utf8(scene.tree(".").read(name)).unwrap();
        let report: serde_json::Value = serde_json::from_str(&read("r.json")).unwrap();
        assert_eq!(report["outputs"][0]["counts"]["unusable_lines"], count, "{report:#}");
        assert!(read("log").contains(&format!("{count} of its lines")), "{}", read("log"));
        let figure = format!("fate=\"unusable_lines\"}} {count}");
        assert!(read("m.prom").lines().any(|line| line.ends_with(&figure)), "{}", read("m.prom"));
    }
}

/// What it said of the files that were still to come, nobody knows.
#[test]
fn a_list_that_changes_meanwhile_is_no_list() {
    need!(Strace);
    let scene = scene();
    let large = scene.src.path("dir/large");
    let stop = Strace::inject(&scene, Strace::OPENS, "signal=SIGSTOP:when=1").on(large);
    let command = scene.command(["--expect", "list", "--workers", "1", "--simd", "off"]);
    let run = stop.run_stopped(command, || _ = shell(&scene, ": >list"));
    run.assert_code(1).assert_says("list: it was changed while the source was held against it");
    run.assert_prints(&["unusable", "1 line of the expected manifest"]);
}

/// The usual way: the source keeps a list of itself.
#[test]
fn the_list_may_be_in_the_source() {
    let scene = scene();
    shell(&scene, "cp -p list src/last.sha256sum");
    let run = scene.copy(&["--expect", "src/last.sha256sum"]);
    scene.judge(&run).complete();
    run.assert_prints(&["expected", "3 files as listed, 0 edited since, 0 gone"]);
    assert!(names_below(&scene.dst, "f").contains(&b"last.sha256sum"[..]));
    let run = scene.command_to(scene.src.path("other"), scene.path("one"), ["--expect", "list"]);
    run.run().assert_code(0).assert_prints(&["expected", "1 file as listed", "0 gone"]);
}

/// Nobody can say which digest is the right one, so nobody can say that the copy is the worse.
#[test]
fn what_is_listed_with_two_digests_is_not_copied() {
    for args in
        [&[][..], &["--block-size", "4K"], &["--hard-links"], &["--overwrite-policy", "always"]]
    {
        let scene = scene();
        scene.src.hard_link("further", "dir/large");
        shell(&scene, "sha256sum <src/other | sed 's,-,dir/large,' >>list");
        shell(&scene, "sha256sum <src/other | sed 's,-,further,' >>list");
        shell(&scene, "sha256sum <src/dir/large | sed 's,-,further,' >>list");
        scene.output().file("dir/large", "an older one").mtime("dir/large", 1_000_000_000, 0);
        let run = expect(&scene, &[args, &["--report", "report"]].concat());
        run.assert_code(1).assert_says("dir/large: list lists it with");
        run.assert_says("further").assert_says("what is at the output stays");
        assert_eq!(scene.output().read("dir/large"), b"an older one", "{args:?}");
        assert!(!scene.output().has("further"), "{args:?}");
        assert!(scene.output().has("dir/small") && scene.output().has("other"));
        let report = std::fs::read(scene.path("report")).unwrap();
        let report: serde_json::Value = serde_json::from_slice(&report).unwrap();
        let failed = report["entries"].as_array().unwrap().iter();
        let failed = failed.filter(|entry| entry["event"] == "failed").count();
        let counts = &report["outputs"][0]["counts"];
        assert_eq!((failed, &counts["failed"], &counts["rotten"]), (2, &2.into(), &0.into()));
    }
}

/// Nor is what is listed by two algorithms, of which one could be wrong: the error says what to give instead.
#[test]
fn what_is_listed_by_two_algorithms_is_not_copied() {
    let scene = scene();
    shell(&scene, "cd src; find . -type f -exec md5sum {} + >>../list");
    let run = scene.bare(["src", "out", "--expect", "list"]).run();
    run.assert_code(1).assert_says("or by several algorithms (a list by one is held against it)");
    scene.bare(["verify", "-m", "list", "src"]).run().assert_code(0);
}

/// A list of BLAKE3 looks like one of SHA-256: what does not match is held against the other.
#[test]
fn a_list_of_blake3_under_any_name_is_known_by_its_files() {
    if !have(&[Need::Program("b3sum")]) {
        return;
    }
    for args in [&[][..], &["--hard-links"], &["--hash=xxh128"], &["--block-size", "4K"]] {
        let scene = scene();
        scene.src.hard_link("further", "dir/large");
        shell(
            &scene,
            "cd src && find . -type f -exec b3sum {} + > ../list && touch -d 2025-02-01 ../list",
        );
        let run = expect(&scene, args);
        run.assert_code(0).assert_prints(&["4 files as listed, 0 edited since, 0 gone"]);
        run.assert_says("have the listed digests by BLAKE3");
        rot(&scene, "src", "dir/large");
        shell(&scene, "rm -r dst");
        let run = expect(&scene, args);
        run.assert_code(4).assert_says("it is not what list lists");
        run.assert_prints(&["2 files as listed"]);
        assert!(!scene.output().has("dir/large") && !scene.output().has("further"));
    }
}

/// Names of hard links are held against lists of other algorithms than the run's.
#[test]
fn hard_links_are_held_against_other_algorithms() {
    let scene = scene();
    scene.src.hard_link("further", "dir/large");
    shell(&scene, "cd src && find . -type f -exec md5sum {} + > ../list");
    let run = expect(&scene, &["--hard-links"]);
    run.assert_code(0).assert_prints(&["4 files as listed, 0 edited since, 0 gone"]);
    shell(
        &scene,
        "sed -i '/further/s/^../00/;/further/s/^00/11/' list && touch -d 2100-01-01 list && rm -r dst",
    );
    let run = expect(&scene, &["--hard-links"]);
    run.assert_code(4).assert_says("/further: it is not what list lists");
}

/// A bag is expected by whichever of its manifests is the strongest.
#[test]
fn a_bag_of_another_algorithm_is_expected() {
    for (hash, name) in [("sha512,md5", "sha512"), ("md5", "md5"), ("sha1", "sha1")] {
        let scene = Scene::new();
        scene.src.file("a", "one two").file("dir/b%\n", content(LEN));
        scene.copy(&["--bag", "--hash", hash]).assert_code(0);
        let manifest = format!("dst/manifest-{name}.txt");
        for expected in ["dst", &manifest] {
            let out = ["-i", "dst/data", "-o", "out", "--expect", expected];
            let run = scene.bare(out).run();
            run.assert_code(0).assert_prints(&["2 files as listed, 0 edited since, 0 gone"]);
        }
        rot(&scene, "dst", "data/a");
        let run = scene.bare(["-i", "dst/data", "-o", "new", "--expect", "dst"]).run();
        run.assert_code(4).assert_says("dst/data/a");
        assert!(!scene.tree("new").has("a"));
    }
}

/// The source has rotted, and the copy as well: what the copy holds now is not listed in place of what was recorded,
/// and every run says so until one of them is mended.
#[test]
fn a_copy_that_has_rotted_as_well_is_named_and_not_listed() {
    for args in [&[][..], &["--verify"], &["--mirror"], &["--overwrite-policy", "update"]] {
        for forgets in [false, true] {
            let scene = scene();
            scene.copy(&[]).assert_code(0);
            rot(&scene, "src", "dir/small");
            shell(
                &scene,
                "printf smAll >rotten; touch -r dst/dir/small rotten; cat rotten >dst/dir/small",
            );
            shell(&scene, "touch -r rotten dst/dir/small");
            if forgets {
                shell(&scene, "rm -r dst/.dircopy");
            }
            let run = expect(&scene, args);
            run.assert_code(4).assert_says("src/dir/small: it is not what");
            run.assert_says("and is not what an earlier run recorded");
            run.assert_says("cannot list any longer");
            lists(&scene, &run, &["dir/large", "other"]);
            if !forgets {
                // Both differ from what is recorded, which is not forgotten.
                let again = scene.copy(&["--overwrite-policy", "update"]);
                again.assert_code(1).assert_says("it is neither what an earlier run recorded");
                lists(&scene, &again, &["dir/large", "other"]);
                scene.src.file("dir/small", "small");
                shell(&scene, "touch -d 2025-01-01 src/dir/small");
                scene.copy(&[]).assert_code(0).assert_says("it is copied anew");
                assert_eq!(scene.output().read("dir/small"), b"small");
            }
        }
    }
}

/// Of a copy of which nothing is recorded the list says what it was.
#[test]
fn a_copy_that_is_not_what_is_listed_either_is_not_listed() {
    let scene = scene();
    shell(
        &scene,
        "cp -a src dst; printf smAll >dst/dir/small; touch -r src/dir/small dst/dir/small",
    );
    rot(&scene, "src", "dir/small");
    let run = expect(&scene, &[]);
    run.assert_code(4).assert_says("and is not what that lists either");
    lists(&scene, &run, &["dir/large", "other"]);
}

/// What was edited or is gone since a list was written is named, each on a line and in the receipt.
#[test]
fn what_is_not_as_listed_is_named() {
    let scene = scene();
    // The list is clearly older than the edit, whatever the steps of the clock.
    shell(&scene, "touch -d 2001-01-01 list");
    scene.src.file("dir/small", "edits").remove("other");
    let run = expect(&scene, &["--report", "report.json"]);
    run.assert_code(0).assert_prints(&["expected", "1 file as listed, 1 edited since, 1 gone"]);
    run.assert_says("not as it is listed, but edited since: dir/small");
    run.assert_says("expected, and not in the source: other");
    let report = std::fs::read_to_string(scene.path("report.json")).unwrap();
    for event in [r#""event":"edited","path":"dir/small""#, r#""event":"gone","path":"other""#] {
        assert!(report.replace(": ", ":").contains(event), "{report}");
    }
}

/// A delivery with its list: is it whole?
#[test]
fn a_delivery_is_expected_as_its_list_came() {
    let list =
        |scene: &Scene| shell(scene, "cd src && md5sum dir/large dir/small other >checksums.md5");
    let deliver = |scene: &Scene, args: &[&str]| {
        let all = ["--expect", "src/checksums.md5", "--expect-all"];
        scene.copy(&[&all[..], args].concat())
    };
    for args in [&[][..], &["-q"], &["--verify"], &["--overwrite-policy", "update"]] {
        let scene = scene();
        list(&scene);
        deliver(&scene, args).assert_code(0);
        // Newer than the list, as what a transfer damages is.
        shell(&scene, "touch -d 2001-01-01 src/checksums.md5; printf Small >src/dir/small");
        shell(&scene, "rm -r dst");
        let run = deliver(&scene, args);
        run.assert_code(4)
            .assert_says("src/dir/small: it is not what src/checksums.md5 lists, and all is");
        scene.judge(&run).lacks("dir/small").does_not_list("dir/small");
        scene.src.file("dir/small", "small").remove("other");
        let run = deliver(&scene, args);
        run.assert_code(4).assert_says("expected, and not in the source: other");
        if args != ["-q"] {
            run.assert_prints(&["NOT AS LISTED (exit 4): 1 listed file missing"]);
        }
        scene.src.file("other", "other");
        shell(&scene, "touch -d 2025-01-01 src/other");
        deliver(&scene, args).assert_code(0);
    }
    let scene = scene();
    scene.copy(&["--expect-all"]).assert_code(2).assert_says("--expect-all wants --expect <LIST>");
}

/// A name that cannot be is in no source.
#[test]
fn a_name_that_cannot_be_is_gone() {
    let scene = scene();
    let long = "n".repeat(300);
    shell(&scene, &format!("sed -n 's/other/{long}/p' list >>list"));
    let run = expect(&scene, &["--expect-all"]);
    run.assert_code(4).assert_says("expected, and not in the source: nnn");
    expect(&scene, &[]).assert_code(0).assert_prints(&["1 gone"]);
}

/// What a run left because of the list keeps the time that it was given, whatever the source has by now.
#[test]
fn what_was_left_as_not_listed_is_copied_by_the_next_run() {
    for policy in ["update", "default"] {
        for (before, after) in
            [("@1700000000", "@1700000001"), ("@1700000000.1", "@1700000000.100001")]
        {
            let scene = scene();
            let put = |text: &str, time: &str| {
                scene.src.file("other", text);
                shell(&scene, &format!("touch -d {time} src/other"));
            };
            put("one", before);
            shell(&scene, "cd src && find . -type f -exec sha256sum {} + > ../list");
            scene.copy(&[]).assert_code(0);
            put("two", after);
            let run = expect(&scene, &["--expect-all", "--overwrite-policy", policy]);
            run.assert_code(4).assert_says("src/other: it is not what list lists");
            let run = scene.copy(&["--overwrite-policy", policy]);
            if policy == "update" {
                run.assert_code(0);
                scene.judge(&run).same_tree();
            } else {
                run.assert_code(1).assert_says("left as it is: other: it differs");
            }
        }
    }
}

/// A file of a delivery that is newer than the list counts as edited on purpose: the last line says that it does, and a
/// plain copy says that a list is there.
#[test]
fn a_delivery_with_one_bad_file_is_told_in_the_last_line() {
    let scene = Scene::new();
    scene.src.file("good", "1").file("bad", "2");
    shell(
        &scene,
        "cd src; md5sum good bad >checksums.md5; sleep 0.05; printf x >bad; touch -d '+1 hour' bad",
    );
    let run = scene.bare(["src", "plain"]).run();
    run.assert_code(0).assert_prints(&["--expect src/checksums.md5 --expect-all"]);
    let run = scene.bare(["--expect", "src/checksums.md5", "src", "dst"]).run();
    run.assert_code(0);
    let last = run.out().lines().last().unwrap_or_default().to_owned();
    assert!(last.contains("; 1 file edited since the list"), "{last}");
    shell(&scene, "md5sum <src/good | sed s/-/lost/ >>src/checksums.md5");
    let run = scene.bare(["--expect", "src/checksums.md5", "--expect-all", "src", "all"]).run();
    run.assert_code(4)
        .assert_prints(&["NOT AS LISTED (exit 4): 1 file not ", ", 1 listed file missing"]);
}

/// The source's name was given to another file of it: its good copy stays, and stays listed.
#[test]
fn the_copy_of_a_further_name_that_has_rotted_stays_listed() {
    for args in [&[][..], &["--hard-links"]] {
        let scene = Scene::new();
        scene.src.file("x", "one").file("y", "two");
        shell(&scene, "touch -d @1700000000 src/x src/y");
        scene.copy(args).assert_code(0);
        let list = shell(&scene, "ln -f src/x src/y; cp dst/*.sha256sum list; ls list");
        let run = scene.copy(&[args, &["--expect", list.trim()]].concat());
        // It is the source's that is not as listed.
        run.assert_code(4).assert_says("src/y: it ").assert_says("it is not what list lists, ");
        assert_eq!(scene.output().read("y"), b"two");
        lists(&scene, &run, &["x", "y"]);
    }
}
