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
        (&["--exclude", "*.tmp", "--include", "a.tmp"], &["a.tmp"]),
        (&["--include", "a.tmp", "--exclude", "*.tmp"], &[]),
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

#[test]
fn a_bad_glob_is_a_usage_error() {
    let scene = Scene::new();
    scene.src.file("a", "a");
    scene.copy(&["--exclude", "a[", "--include", "{b"]).assert_code(2);
    assert!(!scene.dst.exists());
}
