//! What people type who know other programs.

use crate::harness::Scene;

#[test]
fn options_of_other_programs_name_ours() {
    let scene = Scene::new();
    scene.src.file("a", "1");
    for (option, tip) in [
        ("--partial", "the same command goes on"),
        ("-P", "the same command goes on"),
        ("--link-dest=../last", "--generations"),
        ("--backup", "--overwrite-policy"),
        ("-z", "nothing is sent"),
        ("-a", "leave it out"),
        ("--delete", "--mirror"),
        ("--bwlimit=5", "--limit-rate"),
        ("-L", "--follow-links"),
    ] {
        let run = scene.bare(["src", "dst", option]).run();
        run.assert_code(2).assert_says("there is no option").assert_says(tip);
        // The tip is not buried.
        assert!(run.err().lines().count() <= 11, "{}", run.err());
    }
    let run = scene.bare(["--progress", "src", "dst"]).run();
    run.assert_code(2).assert_says("auto, always or never").assert_says("leave it out");
    let run = scene.bare(["sync", "src", "dst"]).run();
    run.assert_code(2).assert_says("tip: dircopy SRC DST");
}

#[test]
fn a_tilde_is_not_a_directory() {
    let scene = Scene::new();
    scene.src.file("a", "1");
    for args in [
        &["src", "~/x"][..],
        &["~/x", "dst"],
        &["src", "dst", "--report=~/r.json"],
        &["verify", "~/x"],
    ] {
        scene.bare(args).run().assert_code(2).assert_says("~ is not expanded here: ~/");
    }
    assert!(!scene.path("~").exists() && !scene.path("dst").exists());
    scene.tree("~").file("b", "2");
    scene.bare(["~", "dst"]).run().assert_code(0);
}

#[test]
fn help_begins_with_examples() {
    let scene = Scene::new();
    let help = scene.bare(["-h"]).run().out();
    let examples: Vec<_> = help.lines().filter(|line| line.starts_with("  dircopy ")).collect();
    assert_eq!(examples.len(), 3, "{help}");
    assert!(help.find("  dircopy ").unwrap() < help.find("Usage:").unwrap(), "{help}");
}

#[test]
fn source_and_output_have_the_same_options_everywhere() {
    let scene = Scene::new();
    scene.src.file("a", "1");
    scene.bare(["plan", "-i", "src", "-o", "dst", "--plan", "plan"]).run().assert_code(0);
    scene.bare(["shard", "--plan", "plan", "--index", "0"]).run().assert_code(0);
    scene.bare(["finish", "--plan", "plan"]).run().assert_code(0);
    scene.bare(["restore", "-i", "dst", "-o", "back"]).run().assert_code(0);
    assert!(scene.path("back/a").exists());
    scene.bare(["plan", "-i", "src", "--plan", "other"]).run().assert_code(2);
}
