//! What people type who know other programs.

use crate::harness::{Scene, shell};

/// A word that was meant as a value makes no output.
#[test]
fn a_value_without_its_sign_is_no_output() {
    let scene = Scene::new();
    scene.src.file("a", "1");
    for (args, tip) in [
        (&["src", "dst", "--verify", "new"][..], "--verify=new"),
        (&["src", "--mirror", "all", "dst"], "--mirror=all"),
        (&["src", "dst", "--verify", "yes"], "leave out yes"),
        (&["src", "dst", "--hard-links", "on"], "leave out on"),
    ] {
        scene.bare(args).run().assert_code(2).assert_says(tip);
        assert_eq!(shell(&scene, "ls").trim(), "src");
    }
    shell(&scene, "mkdir all");
    scene.bare(["src", "--mirror", "all", "dst"]).run().assert_code(0);
    // A file keeps its name.
    shell(&scene, "mv src/a src/a.txt");
    scene.bare(["src/a.txt", "b.txt"]).run().assert_code(2).assert_says("tip: dircopy src/a.txt .");
    scene.bare(["src/a.txt", "b.txt/"]).run().assert_code(0);
    // An option that wants another says so.
    let run = scene.bare(["src", "dst", "--keep-reports", "3"]).run();
    run.assert_code(2).assert_says("--keep-reports wants --report");
}

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
        ("-t", "comes last"),
        ("--remove-source-files", "nothing of a source is ever removed"),
        ("--md5", "--hash sha256,md5"),
        ("--threads=4", "-j N"),
        ("--exclude-from=list", "--exclude GLOB"),
        ("--stats", "the summary has the figures"),
        ("--yes", "nothing is asked"),
        ("--chown=me", "permissions are copied"),
    ] {
        let run = scene.bare(["src", "dst", option]).run();
        run.assert_code(2).assert_says("there is no option").assert_says(tip);
        // The tip is not buried.
        assert!(run.err().lines().count() <= 11, "{}", run.err());
    }
    let run = scene.bare(["--progress", "src", "dst"]).run();
    run.assert_code(2).assert_says("auto, always or never").assert_says("leave it out");
    // As a value it would be a directory, and what is not in the help is no advice.
    for option in ["--what", "--stat", "--simdd"] {
        let run = scene.bare(["src", "dst", option]).run();
        run.assert_code(2).assert_says(option);
        let hidden = ["as a value", "--states", "'--simd'"];
        assert!(hidden.iter().all(|text| !run.err().contains(text)), "{}", run.err());
    }
    let run = scene.bare(["restore", "src"]).run();
    run.assert_code(2).assert_says("dircopy restore src DST").assert_says("Usage: dircopy restore");
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

#[test]
fn policies_of_other_programs_name_ours() {
    let scene = Scene::new();
    scene.src.file("a", "1");
    for (word, tip) in
        [("newer", "policy update"), ("skip", "policy never"), ("force", "policy always")]
    {
        let run = scene.bare(["src", "dst", &format!("--overwrite-policy={word}")]).run();
        run.assert_code(2).assert_says(&format!("there is no policy {word}")).assert_says(tip);
    }
}

/// What is another machine, a switch or a disk elsewhere becomes no directory here, for copies and plans alike.
#[test]
fn words_of_other_programs_become_no_directories() {
    let scene = Scene::new();
    scene.src.file("a", "1");
    for (word, tip) in [
        ("user@host:dir", "sshfs"),
        ("host:/srv/dir", "sshfs"),
        ("ssh://host/dir", "sshfs"),
        ("/MIR", "--mirror"),
        ("/MT:8", "-j N"),
        ("/XD", "--exclude"),
        ("/E", "leave it out"),
        ("label=x", "LABEL=x"),
        ("Uuid=1A2B-3C4D/dir", "UUID=1A2B-3C4D"),
    ] {
        for args in [
            &["src", "dst", word][..],
            &["src", word],
            &["-i", "src", "-o", word],
            &["plan", "src", word, "--plan", "plan"],
            &[word, "dst"],
            &["plan", word, "dst", "--plan", "plan"],
        ] {
            let run = scene.bare(args).run();
            run.assert_code(2).assert_says(tip);
            let names = std::fs::read_dir(scene.root()).unwrap();
            assert_eq!(names.count(), 1, "{args:?}");
            assert!(!std::path::Path::new(word).exists());
        }
    }
    // A directory may be called so.
    for name in ["user@host:dir", "label=x"] {
        scene.bare(["src", &format!("./{name}")]).run().assert_code(0);
        scene.bare(["src", name]).run().assert_code(0);
        scene.bare([name, &format!("of {}", &name[..5])]).run().assert_code(0);
    }
    scene.bare(["src", "12:30"]).run().assert_code(0);
}

/// `cp a/x b/x dir` has two sources. Here the second would be an output, and replaced.
#[test]
fn two_files_are_not_source_and_output() {
    let scene = Scene::new();
    scene.tree("a").file("x", "1").file("z", "3");
    scene.tree("b").file("x", "2").file("y", "4");
    scene.output();
    for (first, second) in [("a/x", "b/x"), ("a/x", "b/y")] {
        let run = scene.bare([first, second, "dst", "--overwrite-policy", "always"]).run();
        run.assert_code(2).assert_says("only the first name is a source").assert_says("tip:");
        assert_eq!(scene.tree("b").read("x"), b"2");
        assert_eq!(scene.tree("b").read("y"), b"4");
        assert!(std::fs::read_dir(&scene.dst).unwrap().next().is_none());
    }
    scene.bare(["a/x", "dst"]).run().assert_code(0);
    assert_eq!(scene.output().read("x"), b"1");
}

/// `cp -r a b dir`, and `*` of a card: only the last directory would be meant as an output.
#[test]
fn directories_before_the_last_are_not_taken_for_outputs() {
    let scene = Scene::new();
    for name in ["card/A", "card/B", "other/C", "used"] {
        scene.tree(name).file("x", name);
    }
    let before = shell(&scene, "find card other used | sort");
    for first in [&["card/A", "card/B"][..], &["card/A", "other/C"], &["card/A/x", "card/B/x"]] {
        for last in ["used", "new"] {
            let names: Vec<_> = first.iter().copied().chain([last]).collect();
            let run = scene.bare([&*names, &["--overwrite-policy", "always"]].concat()).run();
            run.assert_code(2).assert_says("only the first name is a source").assert_says("-o");
            assert_eq!(shell(&scene, "find card other used | sort"), before);
        }
    }
    shell(&scene, "mkdir card/empty; mkdir -p 'old/lost+found'");
    let run = scene.bare(["card/A", "card/empty", "new"]).run();
    run.assert_code(2).assert_says("only the first name is a source");
    // With their option, new, empty, and by a run: outputs.
    let outputs = ["-i", "card/A", "-o", "card/B", "-o", "o1", "--overwrite-policy", "always"];
    scene.bare(outputs).run().assert_code(0);
    for _ in 0..2 {
        scene.bare(["card/A", "old", "o2", "o3"]).run().assert_code(0);
    }
}

#[test]
fn a_tree_is_brought_back_to_one_directory() {
    let scene = Scene::new();
    scene.src.file("a", "1");
    scene.bare(["src", "dst"]).run().assert_code(0);
    let run = scene.bare(["restore", "dst", "x", "y"]).run();
    run.assert_code(2).assert_says("brought back to one directory");
    assert!(!scene.path("x").exists() && !scene.path("y").exists());
}

/// The tree of a check may be named by a link to it.
#[test]
fn a_tree_is_checked_by_a_link_to_it() {
    let scene = Scene::new();
    scene.src.file("a", "1");
    scene.bare(["src", "dst"]).run().assert_code(0);
    std::os::unix::fs::symlink("dst", scene.path("link")).unwrap();
    scene.bare(["link"]).dirverify().run().assert_code(0);
    scene.output().file("a", "2");
    scene.bare(["link"]).dirverify().run().assert_code(4);
}

#[test]
fn generations_are_found_from_above_and_from_within() {
    let scene = Scene::new();
    scene.src.file("a", "1").file("dir/b", "2");
    std::fs::create_dir(scene.path("nights")).unwrap();
    scene.bare(["src", "nights/photos", "--generations"]).run().assert_code(0);
    for place in ["nights", "nights/photos/latest", "nights/photos/latest/dir"] {
        let run = scene.bare(["generations", place]).run();
        run.assert_code(2).assert_says("they are in ").assert_says("nights/photos");
    }
    scene.bare(["generations", "src"]).run().assert_code(2).assert_says("there are none");
    scene.bare(["generations", "nights/photos"]).run().assert_code(0).assert_prints(&["complete"]);
}

/// What a shell would have expanded, and what was not set in it.
#[test]
fn words_that_a_shell_did_not_expand_are_told() {
    let scene = Scene::new();
    scene.src.file("a", "a");
    for (output, said) in [
        ("$HOME/x", "$ is not expanded here: $HOME/x"),
        ("${DST}", "$ is not expanded here: ${DST}"),
        ("~ann/x", "~ is not expanded here: ~ann/x"),
        ("", "a word is empty"),
        ("LABEL=/x", "it names no disk: LABEL=NAME/DIR"),
    ] {
        let run = scene.bare(["src", output]).run();
        run.assert_code(2).assert_says(said);
    }
    // What is called so is meant.
    shell(&scene, "mkdir '$HOME'");
    scene.bare(["src", "$HOME/x"]).run().assert_code(0);
    scene.bare(["src", "$"]).run().assert_code(0);
}

#[test]
fn mirror_or_generations_is_a_choice_that_is_explained() {
    let scene = Scene::new();
    scene.src.file("a", "a");
    for args in [["--mirror", "--generations"], ["--generations", "--mirror=all"]] {
        let run = scene.bare(["src", "dst", args[0], args[1]]).run();
        run.assert_code(2)
            .assert_says("one is to be chosen")
            .assert_says("--mirror keeps one tree");
    }
    std::fs::write(
        scene.path("job.toml"),
        "input = \"src\"\noutput = \"dst\"\nmirror = true\ngenerations = true\n",
    )
    .unwrap();
    let run = scene.bare(["--job", "./job.toml"]).run();
    run.assert_code(2).assert_says("one is to be chosen");
}

/// A report is JSON or a page, and no file of a name that promises something else.
#[test]
fn a_report_of_another_ending_is_refused() {
    let scene = Scene::new();
    scene.src.file("a", "a");
    for name in ["r.txt", "r.PDF", "r.csv"] {
        let run = scene.bare(["src", "dst", "--report", name]).run();
        run.assert_code(2).assert_says("(FILE.json)").assert_says("(FILE.html)");
        scene
            .bare(["verify", "src", "--report", name])
            .run()
            .assert_code(2)
            .assert_says("FILE.html");
        assert!(!scene.path("dst").exists() && !scene.path(name).exists());
    }
    shell(&scene, "mkdir reports.d");
    for name in ["r", "r.JSON", "r.htm", "r.2026", "reports.d"] {
        scene.bare(["src", "dst", "--report", name]).run().assert_code(0);
    }
}

/// An option at the end without its value is no variable that is not set.
#[test]
fn a_missing_value_is_told_as_that() {
    let scene = Scene::new();
    scene.src.file("a", "a");
    for (option, said) in [
        ("--log", "a value is missing: --log <FILE>"),
        ("--exclude", "a value is missing: --exclude <GLOB>"),
        ("--progress", "--progress says when: auto, always or never"),
        ("--report=", "a word is empty"),
    ] {
        scene.bare(["src", "dst", option]).run().assert_code(2).assert_says(said);
    }
}

/// The tip named what was to be copied as its own output, or what was to be copied to as the source.
#[test]
fn an_option_that_took_a_path_is_named() {
    let scene = Scene::new();
    scene.src.file("a", "a");
    scene
        .bare(["--exclude", "src", "dst"])
        .run()
        .assert_code(2)
        .assert_says("SRC or DST is missing: --exclude took src as its value, and dst is left");
    // What a job says took nothing.
    let job = format!("log = '{}/src'", scene.root().display());
    std::fs::write(scene.path("job.toml"), job).unwrap();
    let run = scene.bare(["--job", "job.toml", "src"]).run();
    run.assert_code(2).assert_says("there is no output").assert_says("--job job.toml src DST");
    // What is no path was meant as the value.
    scene.bare(["--exclude", "*.tmp", "src"]).run().assert_code(2).assert_says("dircopy src DST");
}

#[test]
fn values_that_are_nearly_right_are_told() {
    let scene = Scene::new();
    scene.src.file("a", "a");
    for (args, said) in [
        (&["-j", "many"][..], "wants a whole number"),
        (&["--hash", "SHA-256"], "did you mean sha256?"),
        (&["--generations", "--keep", "7"], "last=7 keeps the newest 7"),
    ] {
        let run = scene.bare([&["src", "dst"], args].concat()).run();
        run.assert_code(2).assert_says(said);
    }
    let help = |args: &[&str]| scene.bare(args.to_vec()).run().out();
    assert_eq!(help(&["--help", "verify"]), help(&["verify", "--help"]));
}

#[test]
fn paths_that_are_something_else_are_told_as_that() {
    let scene = Scene::new();
    scene.src.file("a", "a");
    scene.copy(&[]).assert_code(0);
    let run = scene.bare(["src", "src"]).run();
    run.assert_code(2).assert_says("it is the same directory as the source src");
    let run = scene.bare(["src/a", "src"]).run();
    run.assert_code(2).assert_says("it holds the source file src/a");
    shell(&scene, "cd src && md5sum a > ../list.md5; mkdir ../top; cp -a ../dst ../top/out");
    let run = scene.bare(["verify", "list.md5"]).run();
    run.assert_code(5).assert_says("it is a file; by the list in it: dircopy verify -m list.md5");
    let run = scene.bare(["protect", "top"]).run();
    run.assert_code(5).assert_says("there is one in top/out: name that");
    assert!(!run.err().contains("dircopy verify"), "{}", run.err());
}

#[test]
fn what_a_span_does_not_go_with_is_named_as_it_was_given() {
    let scene = Scene::new();
    scene.src.file("a", "a");
    for (given, other) in [("--mirror", "--generations"), ("--generations", "--mirror")] {
        let run = scene.ended(&["--span", given, "src", "one", "two"], 2);
        run.assert_says(given).assert_says("--span");
        assert!(!run.err().contains(other), "{}", run.err());
    }
}
