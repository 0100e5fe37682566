//! Parity: what `dircopy protect` makes, held against `par2`, and what it repairs.

mod copy;
mod damages;
mod faults;
mod foreign;
mod heal;
mod protect;

use std::path::Path;
use std::process::{Command, Output};

use crate::harness::{Need, Random, Run, Scene, have};

/// The directory of the parity in the output.
const PARITY: &str = "dst/.dircopy/parity";

/// True if `par2` is here, which judges.
fn has_par2() -> bool {
    have(&[Need::Program("par2")])
}

/// Files of many sizes in the source, whose content is like no other, copied to the output.
fn copied() -> Scene {
    let scene = Scene::new();
    let mut random = Random::new(36);
    let sizes = [1, 3, 500, 4096, 4097, 9000, 70_000, 150_001];
    for (number, size) in sizes.into_iter().enumerate() {
        scene.src.file(format!("d{}/f{number}", number % 3), noise(&mut random, size));
    }
    scene.src.file("empty", "").file("a name, and \u{e4}", noise(&mut random, 20_000));
    scene.copy(&["-q"]).assert_code(0);
    scene
}

fn noise(random: &mut Random, len: usize) -> Vec<u8> {
    (0..len).map(|_| random.below(256) as u8).collect()
}

fn protect(scene: &Scene, args: &[&str]) -> Run {
    scene.bare([&["protect", "dst"], args].concat()).run()
}

/// The names of the sets, in order.
fn sets(scene: &Scene) -> Vec<String> {
    let listed = std::fs::read_dir(scene.path(PARITY)).unwrap();
    let mut names: Vec<_> =
        listed.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// Has `par2` verify or repair a tree by every set.
fn par2(scene: &Scene, deed: &str, tree: &str) -> Vec<Output> {
    let run = |name: String| {
        let set = scene.path(PARITY).join(name);
        let mut par2 = Command::new("par2");
        par2.args([deed, "-q", "-B"]).arg(scene.path(tree)).arg(set);
        par2.current_dir(scene.root()).output().unwrap()
    };
    sets(scene).into_iter().map(run).collect()
}

#[track_caller]
fn assert_par2(scene: &Scene, deed: &str, tree: &str) {
    for output in par2(scene, deed, tree) {
        let said = [output.stdout, output.stderr].concat();
        assert!(output.status.success(), "{deed}: {}", String::from_utf8_lossy(&said));
    }
}

/// Changes a bit of a file, and nothing else about it.
fn flip(path: &Path, at: usize) {
    let was = std::fs::metadata(path).unwrap().modified().unwrap();
    let mut bytes = std::fs::read(path).unwrap();
    bytes[at] ^= 0x10;
    std::fs::write(path, bytes).unwrap();
    std::fs::File::options().write(true).open(path).unwrap().set_modified(was).unwrap();
}
