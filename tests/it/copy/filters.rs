//! `--include` and `--exclude`: globs relative to the source, later ones over earlier ones.

use crate::harness::Scene;

#[test]
fn globs_choose_what_goes_over() {
    let files = ["a.mov", "a.tmp", "dir/b.mov", "dir/b.tmp", "dir/cache/c.mov", "cache/d.mov"];
    let cases: &[(&[&str], &[&str])] = &[
        (&["--exclude", "*.tmp"], &["a.mov", "dir/b.mov", "dir/cache/c.mov", "cache/d.mov"]),
        (&["--include", "*.tmp"], &["a.tmp", "dir/b.tmp"]),
        (&["--exclude", "cache/"], &["a.mov", "a.tmp", "dir/b.mov", "dir/b.tmp"]),
        (
            &["--exclude", "/cache"],
            &["a.mov", "a.tmp", "dir/b.mov", "dir/b.tmp", "dir/cache/c.mov"],
        ),
        (
            &["--include", "*.mov", "--exclude", "a.*"],
            &["dir/b.mov", "dir/cache/c.mov", "cache/d.mov"],
        ),
        (
            &["--exclude", "*.tmp", "--include", "a.tmp"],
            &["a.mov", "a.tmp", "dir/b.mov", "dir/cache/c.mov", "cache/d.mov"],
        ),
        (
            &["--exclude", "*.tmp", "--exclude", "!a.tmp"],
            &["a.mov", "a.tmp", "dir/b.mov", "dir/cache/c.mov", "cache/d.mov"],
        ),
        (&["--include", "*.tmp", "--include", "!a.tmp"], &["dir/b.tmp"]),
        (&["--exclude", "[[:alpha:]].*", "--exclude", "cache", "--allow-empty"], &[]),
        (&["--include", "a.tmp", "--exclude", "*.tmp", "--allow-empty"], &[]),
        (&["--exclude", "dir/**"], &["a.mov", "a.tmp", "cache/d.mov"]),
        (&["--include", "dir/*.mov"], &["dir/b.mov"]),
        (&["--exclude", "nothing-like-it"], &files),
    ];
    for (args, expected) in cases {
        let scene = Scene::new();
        for file in files {
            scene.src.file(file, file);
        }
        let run = scene.copy(args);
        run.assert_code(0);
        let judge = scene.judge(&run);
        let lists = judge.lists(expected);
        lists.verifies().no_leftovers();
        for file in files {
            if expected.contains(&file) {
                judge.has(file)
            } else {
                judge.lacks(file)
            };
        }
    }
}

/// The side file and the lists of a manifest are left out with it, and files of these names elsewhere are files like
/// any.
#[test]
fn what_is_beside_a_manifest_follows_it() {
    let side = "dircopy-20260101T000000Z.states";
    let list = "dircopy-20260101T000000Z.md5sum";
    let manifest = "dircopy-20260101T000000Z.sha256sum";
    let below = format!("below/{side}");
    for (args, expected) in [
        (&["--exclude", "/dircopy-*.sha256sum"][..], &["a", &below, "dircopy-notes.states"][..]),
        (&["--exclude", "*.states"], &["a", list, manifest]),
        (&["--include", "a"], &["a"]),
        (&[], &["a", &below, "dircopy-notes.states", list, manifest, side]),
    ] {
        let scene = Scene::new();
        for name in [side, list, manifest, &below, "dircopy-notes.states", "a"] {
            scene.src.file(name, name);
        }
        let run = scene.copy(args);
        run.assert_code(0);
        scene.judge(&run).lists(expected);
    }
}

#[test]
fn a_bad_glob_is_a_usage_error() {
    let scene = Scene::new();
    scene.src.file("a", "a");
    for glob in ["a[", "a\\", "[[:letters:]]", "!", "/"] {
        scene.copy(&["--exclude", glob, "--include", "b"]).assert_code(2);
    }
    assert!(!scene.dst.exists());
}

/// An exception in the wrong order, or for a directory that is not entered, is not taken in silence.
#[test]
fn a_pattern_that_makes_no_difference_is_told() {
    let scene = Scene::new();
    scene.src.file("keep.bak", "k").file("a.bak", "a").file("dir/keep", "k").file("b", "b");
    let run = scene.copy(&["--exclude", "!keep.bak", "--exclude", "*.bak", "--log", "log"]);
    run.assert_code(0).assert_says("--exclude \"!keep.bak\" makes no difference");
    let log = std::fs::read_to_string(scene.path("log")).unwrap();
    assert!(log.contains("!keep.bak\\\" makes") || log.contains("!keep.bak\" makes"), "{log}");
    let run = scene.copy(&["--exclude", "dir/", "--include", "dir/keep", "--dry-run"]);
    run.assert_code(0).assert_says("--include \"dir/keep\" makes no difference");
    let run = scene.copy(&["--exclude", "*.bak", "--exclude", "!keep.bak"]);
    run.assert_code(0);
    assert!(run.stderr.is_empty(), "{}", run.err());
    let run = scene.copy(&["-q", "--exclude", "*.tmp"]);
    assert!(run.stderr.is_empty(), "{}", run.err());
}
