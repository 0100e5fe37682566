//! `--files-from`: only what a list names is copied, with the promises of every copy.

use std::io::Write as _;
use std::process::{Command, Stdio};

use crate::harness::{Scene, inventory, names_below};

fn scene() -> Scene {
    let scene = Scene::new();
    for name in
        ["a/b/one", "a/b/two", "a/three", "a-b/four", "c/five", "c/deep/er/six", "top", "odd\nname"]
    {
        scene.src.file(name, name);
    }
    scene.src.symlink("a/link", "three").dir("c/empty");
    scene.src.mode("a/b", 0o711).mtime("a/b", 1_000_000_000, 5).mtime("a", 1_100_000_000, 7);
    scene
}

fn list(scene: &Scene, text: &str) -> String {
    let path = scene.path("list");
    std::fs::write(&path, text).unwrap();
    path.to_str().unwrap().to_owned()
}

#[test]
fn only_what_is_listed_is_copied() {
    let scene = scene();
    let list = list(&scene, "./a/b/one\nc\ntop\na/link\ntop\nc/five\n\nc/deep/\na/b/one");
    let run = scene.copy(&["--files-from", &list]);
    run.assert_code(0);
    let judge = scene.judge(&run);
    judge.lists(&["a/b/one", "c/five", "c/deep/er/six", "top"]).verifies().no_leftovers();
    judge.lacks("a/b/two").lacks("a/three").lacks("a-b").lacks("odd\nname");
    // What is there is as a copy of everything has it: directories above a name with their attributes, too.
    let all = inventory(scene.src.root());
    let copied = inventory(scene.output().root());
    let strange = copied.iter().filter(|it| {
        let text = String::from_utf8_lossy(it);
        !all.contains(*it) && !text.contains("dircopy-") && !text.contains(".dircopy")
    });
    assert_eq!(strange.count(), 0, "{copied:?}");
    assert!(names_below(scene.output().root(), "d").len() == 6);
    // The second run copies nothing, and keeps every line.
    let again = scene.copy(&["--files-from", &list]);
    again.assert_code(0).assert_prints(&["copied", "0"]);
    scene.judge(&again).lists(&["a/b/one", "c/five", "c/deep/er/six", "top"]).verifies();
    // Another list adds to what is there.
    let more = self::list(&scene, "a/b/two\n");
    let run = scene.copy(&["--files-from", &more]);
    run.assert_code(0);
    let judge = scene.judge(&run);
    judge.lists(&["a/b/one", "a/b/two", "c/five", "c/deep/er/six", "top"]).verifies();
}

#[test]
fn names_may_end_with_nul_and_come_from_a_pipe() {
    let scene = scene();
    let mut command = Command::new(env!("CARGO_BIN_EXE_dircopy"));
    command.args(["--files-from", "-", "--null", "-i"]).arg(scene.src.root());
    command.arg("-o").arg(scene.path("dst")).stdin(Stdio::piped()).stdout(Stdio::null());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(b"odd\nname\0a/b\0").unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0));
    let found = names_below(&scene.path("dst"), "f");
    assert!(found.iter().any(|name| name.ends_with(b"odd\nname")), "{found:?}");
    assert_eq!(names_below(&scene.path("dst"), "d").len(), 2, "a and a/b");
}

#[test]
fn what_is_missing_is_named() {
    let scene = scene();
    let list =
        list(&scene, "top\ngone\na/gone too\nnowhere/x\nnowhere/deep/y\ntop/below\na/link/x\n");
    let run = scene.copy(&["--files-from", &list]);
    run.assert_code(1);
    for name in ["/gone", "/a/gone too", "/nowhere/x", "/nowhere/deep/y", "/top/below", "/a/link/x"]
    {
        run.assert_says(name);
    }
    let judge = scene.judge(&run);
    judge.lists(&["top"]).verifies().no_leftovers();
}

/// Also below a directory that is listed with all that is in it.
#[test]
fn what_is_missing_in_a_whole_directory_is_named() {
    for (text, name, code) in [
        ("a\na/b/gone\n", "/a/b/gone", 1),
        ("a/b/gone\na\n", "/a/b/gone", 1),
        ("a\na/b/one/below\n", "/a/b/one/below", 1),
        (".\nc/gone\ntop\n", "/c/gone", 1),
        (".\nc/five\n", "", 0),
        ("a\na/b/one\n", "", 0),
    ] {
        for dry in [&["-n"][..], &[]] {
            let scene = scene();
            let list = list(&scene, text);
            let run = scene.copy(&[&["--files-from", &list], dry].concat());
            run.assert_code(code);
            if code == 1 {
                run.assert_says(name);
            }
        }
    }
}

#[test]
fn names_that_lead_out_refuse_the_run() {
    let scene = scene();
    for (text, why) in [
        ("top\n../src/top", "name 2"),
        ("/etc/passwd\n", "absolute"),
        ("a/../top\n", "\"..\""),
        ("a\0b\0", "--null"),
    ] {
        let list = list(&scene, text);
        scene.copy(&["--files-from", &list]).assert_code(2).assert_says(why);
        assert!(!scene.path("dst").exists());
    }
    scene.copy(&["--files-from", "/nonexistent/list"]).assert_code(2);
    scene.copy(&["--null"]).assert_code(2);
    scene.src.file("single", "x");
    let list = list(&scene, "x\n");
    let (file, dst) = (scene.src.path("single"), scene.path("dst"));
    std::fs::create_dir(&dst).unwrap();
    let arguments = ["-i".into(), file, "-o".into(), dst, "--files-from".into(), list.into()];
    scene.bare(arguments).run().assert_code(2).assert_says("it is a file");
}

#[test]
fn filters_and_dry_runs_hold_for_lists() {
    let scene = scene();
    let list = list(&scene, "a\nc/five\nc/deep/er/six\n");
    let dry = scene.copy(&["--files-from", &list, "--dry-run"]);
    dry.assert_code(0);
    assert!(!scene.path("dst").exists() && dry.out().contains("a/b/one"), "{}", dry.out());
    let run = scene.copy(&["--files-from", &list, "--exclude", "two", "--exclude", "/c/deep"]);
    run.assert_code(0);
    scene.judge(&run).lists(&["a/b/one", "a/three", "c/five"]).verifies();
}

#[test]
fn the_name_of_the_source_itself_is_everything() {
    let scene = scene();
    let list = list(&scene, "./\na/b\n");
    let run = scene.copy(&["--files-from", &list]);
    run.assert_code(0);
    scene.judge(&run).complete();
}

#[test]
fn hard_links_are_kept_among_what_is_listed() {
    let scene = scene();
    scene.src.hard_link("a/again", "top").hard_link("c/also", "top");
    let list = list(&scene, "c/also\ntop\n");
    let run = scene.copy(&["--files-from", &list, "--hard-links"]);
    run.assert_code(0);
    scene.judge(&run).lists(&["c/also", "top"]).verifies();
    let out = scene.output();
    assert_eq!(out.inode("c/also"), out.inode("top"));
}
