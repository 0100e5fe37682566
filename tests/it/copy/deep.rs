//! Trees deeper than a path is long, and deeper than there are descriptors.

use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{AtFlags, CWD, Mode, OFlags, mkdirat, openat, statat};

use crate::harness::{NONE, Run, Scene, content, names_below};

const DIRECTORY: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW);

/// Makes `levels` directories of this name inside each other, and a file at the bottom.
fn dig(root: &Path, name: &str, levels: usize) {
    let mut dir = openat(CWD, root, DIRECTORY, Mode::empty()).unwrap();
    for _ in 0..levels {
        mkdirat(&dir, name, Mode::from_raw_mode(0o755)).unwrap();
        dir = openat(&dir, name, DIRECTORY, Mode::empty()).unwrap();
    }
    let flags = OFlags::CREATE | OFlags::WRONLY;
    let file = openat(&dir, "bottom", flags, Mode::from_raw_mode(0o644)).unwrap();
    rustix::io::write(&file, &content(5000)).unwrap();
}

/// The directory `levels` down, or how far it went.
fn descend(root: &Path, name: &str, levels: usize) -> Result<OwnedFd, usize> {
    let mut dir = openat(CWD, root, DIRECTORY, Mode::empty()).unwrap();
    for level in 0..levels {
        dir = openat(&dir, name, DIRECTORY, Mode::empty()).map_err(|_| level)?;
    }
    Ok(dir)
}

/// Either it was copied to the bottom, or it was said that it was not.
#[track_caller]
fn copied_or_named(scene: &Scene, run: &Run, name: &str, levels: usize) {
    run.assert_no_crash().assert_code_in(&[0, 1]);
    let judge = scene.judge(run);
    judge.has("good");
    let bottom = descend(&scene.dst, name, levels)
        .ok()
        .and_then(|dir| statat(&dir, "bottom", AtFlags::SYMLINK_NOFOLLOW).ok());
    if run.code == Some(0) {
        assert_eq!(bottom.map(|stat| stat.st_size), Some(5000), "exit 0, and not copied");
        let listed = format!("{}bottom", format!("{name}/").repeat(levels));
        assert!(judge.listed().contains(listed.as_bytes()), "exit 0, and not listed");
    } else {
        run.assert_says(&format!("{name}/{name}"));
    }
    judge.no_leftovers();
}

#[test]
fn a_path_longer_than_a_path_can_be() {
    let scene = Scene::new();
    scene.src.file("good", "good");
    let name = "n".repeat(40);
    dig(scene.src.root(), &name, 150); // 6150 bytes; PATH_MAX is 4096
    for _ in 0..2 {
        let run = scene.copy(&[]);
        copied_or_named(&scene, &run, &name, 150);
    }
}

/// No list is read that has a longer line, so nothing is listed that no check could read.
#[test]
fn a_path_longer_than_a_line_can_be_is_named() {
    let scene = Scene::new();
    scene.src.file("good", "good");
    let (name, levels) = ("\\".repeat(250), 530);
    dig(scene.src.root(), &name, levels);
    let run = scene.copy(&[]);
    run.assert_code(1).assert_says("its path is longer than a list can have");
    scene.bare(["verify", "dst"]).run().assert_code(0).assert_prints(&["1 file"]);
    // A little less deep it is listed, and read.
    std::fs::remove_dir_all(&scene.dst).unwrap();
    scene.src.dir("less");
    dig(&scene.src.path("less"), &name, 515);
    scene.copy(&[]).assert_code(1);
    scene.bare(["verify", "dst"]).run().assert_code(0).assert_prints(&["2 files"]);
}

#[test]
fn more_levels_than_descriptors() {
    let scene = Scene::new();
    scene.src.file("good", "good");
    dig(scene.src.root(), "d", 1500);
    let run = scene.command(NONE).after("ulimit -n 1024").run();
    copied_or_named(&scene, &run, "d", 1500);
}

/// The subtree fails, not what lies beside it.
#[test]
fn a_deep_tree_leaves_descriptors_for_others() {
    let scene = Scene::new();
    scene.src.file("good", "good");
    dig(scene.src.root(), "d", 1500);
    for i in 0..3000 {
        scene.src.file(format!("other/{}/{i}", i % 3), content(i));
    }
    let run = scene.command(NONE).after("ulimit -n 1024").run();
    copied_or_named(&scene, &run, "d", 1500);
    let failures: Vec<_> =
        run.err().lines().filter(|line| !line.contains("d/d/d")).map(String::from).collect();
    assert!(failures.iter().all(|line| !line.contains("other/")), "{failures:?}");
    assert_eq!(names_below(&scene.dst.join("other"), "f").len(), 3000);
}

/// As whole paths, those of the way to the bottom would take 450 MB.
#[test]
fn memory_does_not_grow_with_the_square_of_the_depth() {
    let scene = Scene::new();
    scene.src.file("good", "good");
    let name = "n".repeat(200);
    dig(scene.src.root(), &name, 1500);
    for _ in 0..2 {
        let run = scene.command(NONE).after("ulimit -d 250000").run();
        copied_or_named(&scene, &run, &name, 1500);
    }
}
