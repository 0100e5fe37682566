//! Making trees whole from one another: what is healed, what is left alone, and what a fault in between leaves.

mod bounds;
mod damages;
mod faults;
mod hostile;
mod labels;
mod leftovers;
mod powercut;
mod trees;

use std::path::Path;
use std::process::Command;

use crate::harness::{Run, Scene, Tree, content};

const MIB: usize = 1 << 20;

/// Copies of one tree, made one after the other, so that each has a manifest of its own.
fn copies(scene: &Scene, names: &[&str], args: &[&str]) {
    for name in names {
        let args = [&["-q"], args].concat();
        scene.command_to(scene.src.root(), scene.path(name), args).run().assert_code(0);
    }
}

/// Small and large files, with times that are not now.
fn fill(src: &Tree) {
    src.file("small", "small").file("dir/sub/one link", content(MIB));
    src.file("dir/film.mov", content(9 * MIB + 77)).file("even", content(4 * MIB));
    src.mode("dir/film.mov", 0o640).mode("even", 0o444);
    for (name, seconds) in [("dir/film.mov", 1_500_000_000), ("even", 1_400_000_000)] {
        src.mtime(name, seconds, 123_456_789);
    }
    for (name, seconds) in [("dir/sub", 1_300_000_000), ("dir", 1_200_000_000)] {
        src.mtime(name, seconds, 987_654_321);
    }
}

fn heal(scene: &Scene, args: &[&str]) -> Run {
    scene.bare(["heal"].iter().chain(args)).run()
}

/// Changes bits of a file, and neither its time nor that of its directory.
fn rot(scene: &Scene, file: &str, at: &[usize]) {
    use std::os::unix::fs::{FileExt, PermissionsExt};
    let path = scene.path(file);
    let was = std::fs::metadata(&path).unwrap();
    // Some are read-only, also for their owner.
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o600)).unwrap();
    let file = std::fs::File::options().read(true).write(true).open(&path).unwrap();
    for at in at {
        let mut byte = [0];
        file.read_exact_at(&mut byte, *at as u64).unwrap();
        file.write_all_at(&[byte[0] ^ 1], *at as u64).unwrap();
    }
    file.set_modified(was.modified().unwrap()).unwrap();
    std::fs::set_permissions(&path, was.permissions()).unwrap();
}

/// `sha256sum` accepts every line of the tree's manifest.
#[track_caller]
fn is_whole(tree: &Path) {
    let line = "cat dircopy-*.sha256sum | sha256sum --check --strict --quiet";
    let output = Command::new("bash").args(["-c", line]).current_dir(tree).output().unwrap();
    let said = [output.stdout, output.stderr].concat();
    assert!(output.status.success(), "{}: {}", tree.display(), String::from_utf8_lossy(&said));
}

#[track_caller]
fn are_whole(scene: &Scene, trees: &[&str]) {
    trees.iter().for_each(|tree| is_whole(&scene.path(tree)));
}

/// The files that were healed, each with what it was healed with, in order.
fn healed(run: &Run) -> Vec<String> {
    told(run, "healed: ")
}

fn told(run: &Run, word: &str) -> Vec<String> {
    let start = format!("dircopy: {word}");
    let err = run.err();
    let mut lines: Vec<_> =
        err.lines().filter_map(|line| Some(line.strip_prefix(&start)?.to_owned())).collect();
    lines.sort();
    lines
}
