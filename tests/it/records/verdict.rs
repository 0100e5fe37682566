//! The last line of a run is the verdict over everything that was asked, and agrees with the exit code.

use crate::harness::{Mount, NONE, Run, Scene, Strace, content, need, shell};

fn scene() -> Scene {
    let scene = Scene::new();
    scene.src.file("dir/file", content(5000)).file("small", "s");
    scene
}

#[track_caller]
fn last_line(run: &Run) -> String {
    run.out().lines().last().unwrap_or_else(|| run.fail("nothing is said")).to_owned()
}

/// A refusal stands far above the summary of the other output, so the verdict says it again.
#[test]
fn a_refused_output_is_part_of_the_verdict() {
    let scene = scene();
    let run = scene.bare(["src", "dst", "no/such/place"]).run();
    run.assert_code(1).assert_says("dircopy: cannot copy to no/such/place: ");
    let expected = "1 OF 2 OUTPUTS COMPLETE (exit 1): nothing was copied to no/such/place";
    assert_eq!(last_line(&run), expected);
    run.assert_prints(&["output", "dst", "2 files", "/s; written, not read back"]);
    run.assert_prints(&["output", "no/such/place", "refused: nothing was copied"]);

    // A failure at one of two.
    scene.tree("second").file("small", "other");
    let run = scene.bare(["src", "third", "second"]).run();
    let expected = "1 OF 2 OUTPUTS COMPLETE (exit 1): second: 1 entry is not at the output as in the \
                    source";
    run.assert_code(1);
    assert_eq!(last_line(&run), expected);
    let run = scene.bare(["src", "no/such", "nor/such"]).run();
    run.assert_code(2);
    let expected = "0 OF 2 OUTPUTS COMPLETE (exit 2): nothing was copied to no/such; \
                    nothing was copied to nor/such";
    assert_eq!(last_line(&run), expected);
}

#[test]
fn a_complete_copy_says_no_more_than_was_proven() {
    let scene = scene();
    let run = scene.bare(["src", "dst"]).run();
    run.assert_code(0).assert_prints(&["output", "dst", "2 files", "written, not read back"]);
    assert_eq!(last_line(&run), "done: 2 files, 4.88 KiB at the output");
    let run = scene.bare(["src", "quick", "--no-sync"]).run();
    run.assert_code(0).assert_prints(&["output", "quick", "not synced, not read back"]);
    let run = scene.bare(["src", "a", "b", "--verify"]).run();
    run.assert_code(0).assert_prints(&["output", "b", "2 files", "; read back"]);
    let last = last_line(&run);
    assert!(last.starts_with("done: 2 files, 4.88 KiB at both outputs, read back"), "{last}");
    assert!(last.ends_with("; all on one device"), "{last}");
    // What is the same at all is said once, and an output takes a line of 80 columns.
    let run = scene.bare(["src", "o1", "o2", "o3", "o4", "o5", "o6"]).run();
    run.assert_code(0);
    let rows: Vec<_> = run.out().lines().map(str::to_owned).collect();
    assert!(rows.len() <= 10 && rows.iter().all(|row| row.chars().count() <= 80), "{rows:#?}");
    let own = rows.iter().filter(|row| row.starts_with("output ")).count();
    assert_eq!(own, 6, "{rows:#?}");
    let run = scene.bare(["src", "dst", "-n"]).run();
    assert_eq!(last_line(&run), "nothing was done: this was a dry run");
    run.assert_prints(&["unchanged", "by size and time: a dry run reads no file"]);
    // What stays as it is is counted, and only what would happen is named.
    assert!(!run.out().lines().any(|row| row == "unchanged small"), "{}", run.out());
    scene.output().file("small", "other");
    let run = scene.bare(["src", "dst", "-n", "-q"]).run();
    run.assert_code(1).assert_says("left as it is: small: ");
    assert_eq!(run.out(), "");
    let run = scene.bare(["src", "dst", "-n"]).run();
    run.assert_code(1);
    let expected = "NOTHING WAS DONE (exit 1): this was a dry run; 1 entry would be left as it is at the output";
    assert_eq!(last_line(&run), expected);
}

/// What fails after the summary changes the exit code, and so the last line.
#[test]
fn the_last_line_has_the_exit_code_of_the_program() {
    let scene = scene();
    let run = scene.copy(&["--log", "/dev/full"]);
    run.assert_code(1);
    let expected = "NOT COMPLETE (exit 1): everything is at the output, but not every message or \
                    record could be written";
    assert!(last_line(&run).starts_with(&expected[..22]), "{}", run.out());
    scene.output().file("small", "other");
    let run = scene.bare(["src", "dst"]).run();
    run.assert_code(1);
    let expected = "NOT COMPLETE (exit 1): 1 entry is not at the output as in the source";
    assert_eq!(last_line(&run), expected);
    let run = scene.bare(["verify", "src"]).run();
    run.assert_code(5);
    assert!(last_line(&run).starts_with("NOT PROVEN (exit 5): "), "{}", run.out());
    let run = scene.bare(["-i", "src/small", "-i", "src/none", "-o", "stream"]).run();
    run.assert_code(1);
    let expected = "NOT COMPLETE (exit 1): 1 of 1 outputs have everything; 1 input failed";
    assert!(last_line(&run).starts_with("NOT COMPLETE (exit 1): "), "{}\n{expected}", run.out());
}

/// Threads add up to more seconds than there were, so stages are told in shares, and only when asked for.
#[test]
fn stages_are_shares_of_the_time_and_asked_for() {
    let scene = Scene::new();
    scene.src.file("large", content(3 << 20));
    let run = scene.copy(&["--limit-rate", "1M"]);
    run.assert_code(0).assert_prints(&["slowest ", "--limit-rate"]);
    for word in ["busy", "waiting", "bottleneck"] {
        assert!(!run.out().contains(word), "{}", run.out());
    }
    scene.output().file("large", "");
    let run = scene.copy(&["-v", "--limit-rate", "5M", "--overwrite-policy", "always"]);
    run.assert_code(0).assert_prints(&["busy", "reading", " %", "of the time"]);
    run.assert_prints(&["waiting", "writing", " %"]);
    assert!(!run.out().contains("hashing (the processor)"), "{}", run.out());
}

#[test]
fn paths_alone_are_source_and_outputs() {
    let scene = scene();
    scene.bare(["src", "dst"]).run().assert_code(0);
    for (args, tip) in [
        (&["-i", "src", "dst"][..], "tip: dircopy src dst, or dircopy -i src -o dst"),
        (&["src"], "tip: name it after the source: dircopy src DST"),
        (&NONE, "tip: dircopy SRC DST"),
        (&["src", "dst", "--limit-rate", "5"], "was 5K or 5M meant?"),
    ] {
        scene.bare(args).run().assert_code(2).assert_says(tip);
    }
    scene.bare(["help"]).run().assert_code(0).assert_prints(&["Usage: dircopy"]);
    scene.bare(["help", "verify"]).run().assert_code(0).assert_prints(&["--list-failed"]);
    let short = scene.bare(["-h"]).run().out();
    let long = scene.bare(["--help"]).run().out();
    assert!(short.lines().count() < 24 && long.lines().count() > 150, "{short}");
    // What is for tuning is named, and no more.
    let lines = |option: &str| long.lines().filter(|line| line.contains(option)).count();
    assert_eq!(["--cache", "--nice", "--block-size"].map(lines), [1; 3], "{long}");
    for (args, dirverify) in [(&["-h"][..], false), (&["verify", "-h"], false), (&["-h"], true)] {
        let help = scene.bare(args);
        let help = if dirverify { help.dirverify() } else { help }.run().out();
        assert!(help.lines().count() < 24, "{help}");
        assert_eq!(help.lines().find(|line| line.chars().count() > 79), None, "{help}");
    }
    for option in ["--verify", "--exclude", "--workers", "--dry-run", "<SRC> <DST>"] {
        assert!(short.contains(option), "{option}: {short}");
    }
    // The name of before.
    scene.bare(["src", "dst", "--jobs", "1"]).run().assert_code(0);
}

/// Who sees the first copy learns how it is checked; what is there already is counted by what it is.
#[test]
fn the_first_copy_says_how_it_is_checked() {
    let scene = scene();
    std::os::unix::fs::symlink("small", scene.path("src/link")).unwrap();
    let run = scene.bare(["src", "a b"]).run();
    run.assert_code(0)
        .assert_prints(&["to check    dircopy verify \"a b\"; or in it sha256sum -c"]);
    let last = "done: 2 files and 1 link, 4.88 KiB at the output";
    assert_eq!(last_line(&run), last);
    shell(&scene, "cd 'a b' && sha256sum -c --strict --quiet dircopy-*.sha256sum");
    let run = scene.bare(["src", "a b"]).run();
    run.assert_code(0).assert_prints(&["unchanged   2 files and 1 link, 4.88 KiB"]);
    assert!(!run.out().contains("to check"), "{}", run.out());
    assert_eq!(last_line(&run), last);
    let run = scene.bare(["src", "c", "d"]).run();
    run.assert_code(0).assert_prints(&["to check    dircopy verify c d"]);
}

/// A directory that is called like an option is none in a command that is printed.
#[test]
fn a_printed_command_has_no_directory_as_an_option() {
    let scene = Scene::new();
    scene.src.file("a", "1");
    scene.bare(["src", "./-e", "./-f"]).run().assert_code(0);
    shell(&scene, "rm ./-e/a");
    let run = scene.bare(["verify", "--", "-e", "-f"]).run();
    run.assert_code(4).assert_prints(&["1 bad file: dircopy heal ./-e ./-f"]);
    scene.bare(["heal", "./-e", "./-f"]).run().assert_code(0);
}

/// What is left says what brings over the source's.
#[test]
fn what_is_left_names_the_policy() {
    let scene = scene();
    scene.copy(&[]).assert_code(0);
    scene.output().file("small", "other, and longer").file("dir/file", "longer".repeat(2000));
    shell(&scene, "touch -d '2001-01-01' dst/small; touch -d '2041-01-01' dst/dir/file");
    let older = "left as it is: small: it differs, and the output's is older (--overwrite-policy update \
                 replaces it)";
    let newer = "left as it is: dir/file: it differs, and the output's is newer (move it away, and the next run \
                 copies the source's)";
    scene.copy(&[]).assert_code(1).assert_says(older).assert_says(newer);
    let run = scene.copy(&["--overwrite-policy", "update"]);
    run.assert_code(1).assert_says(newer);
    let alone = ["--overwrite-policy", "always", "--include", "/dir/file"];
    let run = scene.copy(&alone);
    run.assert_code(0).assert_prints(&["1 file, ", " (1 in place of others)"]);
    scene.copy(&["--overwrite-policy", "always"]).assert_code(0);
    // What was cut off is replaced under every policy, and said.
    shell(&scene, "truncate -s 3 dst/dir/file; touch -d '2001-01-01' dst/dir/file");
    let run = scene.copy(&[]);
    run.assert_code(0).assert_prints(&["1 file, ", " (1 in place of shorter ones; -v names each)"]);
}

/// A run that lost its output or its source says how far it came and what to do; a full disk has the lines of all
/// that is there.
#[test]
fn a_lost_disk_is_told_with_what_is_there() {
    need!(Loop);
    let scene = Scene::on_disk();
    for number in 0..3000 {
        scene.src.file(format!("{}/{number}", number % 30), content(5000));
    }
    let _mount = Mount::ext4(&scene.path("image"), 12, &scene.path("mnt"));
    let run = scene.bare(["src", "mnt/full", "--no-space-check", "-j4"]).run();
    run.assert_code(3);
    let last = last_line(&run);
    assert!(last.starts_with("STOPPED EARLY (exit 3): mnt/full is full: "), "{last}");
    assert!(last.ends_with(" are done; make room and run the same command"), "{last}");
    let lines = "cat mnt/full/dircopy-*.sha256sum.part | wc -l";
    let files =
        "find mnt/full -path mnt/full/.dircopy -prune -o -type f -print | grep -vc dircopy-";
    assert_eq!(shell(&scene, lines), shell(&scene, files));
}

/// What stopped a run before any file was finished is not said to have finished some; what was read back is not what was
/// written where nothing was; and what outputs have by themselves names its output in each row.
#[test]
fn a_summary_says_of_what_it_speaks() {
    need!(Strace);
    let scene = Scene::new();
    scene.src.file("a", content(300_000)).file("b", content(10));
    let strace = Strace::inject(&scene, Strace::READS, "signal=TERM:when=1");
    let strace = strace.exactly_on(scene.src.path("a"));
    let run = strace.run(scene.command(["-j1"]));
    assert!(strace.log().contains("SIGTERM"), "{}", strace.log());
    run.assert_code(143);
    if shell(&scene, "find dst -name a -o -name b").is_empty() {
        assert!(
            last_line(&run).ends_with("no file was finished; run the same command again"),
            "{}",
            run.out()
        );
    }
    scene.copy(&[]).assert_code(0);
    let run = scene.copy(&["--verify"]);
    run.assert_code(0).assert_prints(&["; 2 files that were there read back "]);
    std::fs::create_dir(scene.path("two")).unwrap();
    std::fs::write(scene.path("two/a"), "other").unwrap();
    let run = scene.bare(["src", "dst", "two"]).run();
    assert!(
        run.out().lines().any(|row| row.starts_with("unchanged   dst  2 files")),
        "{}",
        run.out()
    );
    assert!(!run.out().contains("OUTPUT "), "{}", run.out());
}
