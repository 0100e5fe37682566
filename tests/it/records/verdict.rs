//! The last line of a run is the verdict over everything that was asked, and agrees with the exit code.

use crate::harness::{NONE, Run, Scene, content};

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
    assert_eq!(last_line(&run), "done: everything is at the output");
    let run = scene.bare(["src", "quick", "--no-sync"]).run();
    run.assert_code(0).assert_prints(&["output", "quick", "not synced, not read back"]);
    let run = scene.bare(["src", "a", "b", "--verify"]).run();
    run.assert_code(0).assert_prints(&["output", "b", "2 files", "; read back"]);
    assert_eq!(last_line(&run), "done: everything is at all 2 outputs, on one device: one place");
    // What is the same at all is said once, and an output takes a line of 80 columns.
    let run = scene.bare(["src", "o1", "o2", "o3", "o4", "o5", "o6"]).run();
    run.assert_code(0);
    let rows: Vec<_> = run.out().lines().map(str::to_owned).collect();
    assert!(rows.len() <= 9 && rows.iter().all(|row| row.chars().count() <= 80), "{rows:#?}");
    let own = rows.iter().filter(|row| row.starts_with("output ")).count();
    assert_eq!(own, 6, "{rows:#?}");
    let run = scene.bare(["src", "dst", "-n"]).run();
    assert_eq!(last_line(&run), "nothing was done: this was a dry run");
    run.assert_prints(&["unchanged", "by size and time: a dry run reads no file"]);
    scene.output().file("small", "other");
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
    run.assert_code(0).assert_prints(&["limited by", "--limit-rate"]);
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
