//! What is refused is refused before anything is touched, with exit code 2 and a reason.

use crate::harness::{Cmd, Judge, Mount, NONE, Scene, Tree, content, ctimes, inventory, need};

/// Runs it, and holds that it was refused and that nothing in the scene changed.
#[track_caller]
fn refused(scene: &Scene, command: Cmd<'_>) {
    let before = ctimes(scene.root());
    let run = command.run();
    run.assert_code(2).assert_no_crash();
    if run.stderr.is_empty() {
        run.fail("refused without a reason");
    }
    scene.judge(&run).equal("entries", &ctimes(scene.root()), &before);
}

fn with_a_file() -> Scene {
    let scene = Scene::new();
    scene.src.file("file", content(5000)).dir("dir");
    scene
}

#[test]
fn bad_usage() {
    let bad: &[&[&str]] = &[
        &["--block-size", "0"],
        &["--block-size", "-1"],
        &["--block-size", "banana"],
        &["--block-size", ""],
        &["--block-size", "1000000T"],
        &["--block-size", "99999999999999999999999"],
        &["--block-size", "1X"],
        &["--block-size", "64 K B"],
        &["--workers", "0"],
        &["--workers", "-1"],
        &["--workers", "many"],
        &["--queue-size", "0"],
        &["--queue-size", "-3"],
        &["--queue-size", "99999999999999999999999"],
        &["--overwrite-policy", "sometimes"],
        &["--overwrite-policy", ""],
        &["--hash", "md4"],
        &["--progress", "perhaps"],
        &["--no-such-option"],
        &["surplus"],
        &["--block-size"],
    ];
    for args in bad {
        let scene = with_a_file();
        let (src, dst) = (scene.src.root().to_str().unwrap(), scene.dst.to_str().unwrap());
        refused(&scene, scene.bare([&["-i", src, "-o", dst], *args].concat()));
    }
}

#[test]
fn missing_arguments() {
    let scene = with_a_file();
    refused(&scene, scene.bare(NONE));
    refused(&scene, scene.bare(["-i", "src"]));
    refused(&scene, scene.bare(["-o", "dst"]));
    refused(&scene, scene.bare(["-i", "", "-o", "dst"]));
    refused(&scene, scene.bare(["-i", "src", "-o", ""]));
}

#[test]
fn a_source_that_is_not_there() {
    let scene = with_a_file();
    scene.src.symlink("dangling", "nowhere");
    for from in ["nowhere", "src/nowhere", "src/file/x", "src/dangling"] {
        refused(&scene, scene.bare(["-i", from, "-o", "dst"]));
    }
}

/// A FIFO would be waited for, a device never ends: no names come of either.
#[test]
fn a_source_that_is_neither_file_nor_directory() {
    let scene = with_a_file();
    scene.src.fifo("fifo").socket("socket");
    scene.tree("there");
    for from in ["src/fifo", "/dev/zero"] {
        refused(&scene, scene.bare(["-i", from, "-o", "there"]));
        refused(&scene, scene.bare(["-i", from, "-o", "dst/"]));
    }
    refused(&scene, scene.bare(["-i", "src/socket", "-o", "dst"]));
}

#[test]
fn an_output_that_cannot_be_one() {
    let scene = with_a_file();
    scene.tree("other").file("file", "x").fifo("fifo").symlink("dangling", "nowhere");
    for to in ["no/where", "other/file", "other/file/x", "other/fifo", "other/dangling/x"] {
        refused(&scene, scene.bare(["-i", "src", "-o", to]));
    }
}

#[test]
fn the_source_as_the_output() {
    let scene = with_a_file();
    scene.tree(".").symlink("link", "src").symlink("link2", "link");
    for (from, to) in [
        ("src", "src"),
        ("src", "src/"),
        ("src", "./src/dir/.."),
        ("src", "link"),
        ("link", "src"),
        ("link", "link2"),
        ("src/file", "src"),
    ] {
        for policy in ["default", "always"] {
            refused(&scene, scene.bare(["-i", from, "-o", to, "--overwrite-policy", policy]));
        }
    }
}

#[test]
fn an_output_inside_the_source() {
    let scene = with_a_file();
    scene.src.dir("dir/deep/er");
    scene.tree(".").symlink("link", "src").symlink("inner", "src/dir/deep");
    for to in [
        "src/dir",
        "src/new",
        "src/dir/deep/er",
        "src/dir/deep/new",
        "link/dir",
        "link/new",
        "inner",
        "inner/new",
        "inner/er",
    ] {
        refused(&scene, scene.bare(["-i", "src", "-o", to]));
    }
}

/// It would replace files of the source, and a mirror would move the source away.
#[test]
fn an_output_around_the_source() {
    let scene = with_a_file();
    scene.src.dir("dir/deep").file("dir/deep/f", "f");
    scene.tree(".").symlink("link", ".").symlink("around", "src/dir");
    for (from, to) in
        [("src", "."), ("src/dir/deep", "src"), ("src", "link"), ("src/dir/deep", "around")]
    {
        for args in [&[][..], &["--mirror=all"], &["--overwrite-policy", "always"]] {
            refused(&scene, scene.bare([&["-i", from, "-o", to][..], args].concat()));
        }
    }
}

#[test]
fn the_source_and_its_inside_behind_a_bind_mount() {
    need!(Mount);
    let scene = with_a_file();
    scene.src.dir("dir/deep");
    let whole = scene.path("whole");
    let inner = scene.path("inner");
    let _whole = Mount::bind(scene.src.root(), &whole);
    let _inner = Mount::bind(&scene.src.path("dir"), &inner);
    for (from, to) in [
        ("src", "whole"),
        ("whole", "src"),
        ("src", "whole/dir"),
        ("src", "whole/new"),
        ("src", "inner"),
        ("src", "inner/deep"),
        ("src", "inner/new"),
        ("whole", "inner"),
    ] {
        refused(&scene, scene.bare(["-i", from, "-o", to]));
    }
}

/// A sibling whose name begins like the source's is not inside it.
#[test]
fn a_sibling_with_a_longer_name_is_no_inside() {
    let scene = with_a_file();
    let run = scene.command_to(scene.src.root(), scene.path("src-copy"), NONE).run();
    Judge::new(&scene.src, Tree::of(scene.path("src-copy")), &run).complete();
}

#[test]
fn help_names_the_exit_codes() {
    let scene = Scene::new();
    let run = scene.bare(["--help"]).run();
    run.assert_code(0);
    let help = run.out();
    for word in ["-i", "--input", "-o", "--output", "--overwrite-policy", "130", "143"] {
        assert!(help.contains(word), "the help lacks {word}:\n{help}");
    }
    assert!(help.to_lowercase().contains("exit"), "{help}");
    scene.bare(["-h"]).run().assert_code(0);
}

#[test]
fn version_is_the_packages() {
    let scene = Scene::new();
    let run = scene.bare(["--version"]).run();
    run.assert_code(0).assert_prints(&["dircopy", env!("CARGO_PKG_VERSION")]);
}

/// Two runs that write to one output would undo each other's work; the lock goes with the process,
/// so a killed run keeps nobody out.
#[test]
fn an_output_that_another_run_writes_to() {
    use rustix::fs::{FlockOperation, flock};
    let scene = with_a_file();
    scene.copy(&[]).assert_code(0);
    let before = inventory(&scene.dst);
    let other = std::fs::File::open(scene.dst.join(".dircopy")).unwrap();
    flock(&other, FlockOperation::NonBlockingLockExclusive).unwrap();
    let run = scene.copy(&[]);
    run.assert_code(2).assert_says("another dircopy");
    assert_eq!(inventory(&scene.dst), before);
    scene.copy(&["--dry-run"]).assert_code(0);
    drop(other);
    scene.copy(&[]).assert_code(0);
}
