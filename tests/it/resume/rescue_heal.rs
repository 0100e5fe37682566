//! Files that a copy could not read all of are made whole by `dircopy heal`: from another tree, or from parity. What the
//! copy was told to expect judges them.

use std::fs;

use super::rescue::{BadSource, map_of};
use crate::harness::{Run, Scene, need, shell};

const LARGE: usize = 3_000_000;
const SMALL: usize = 90_000;

/// A source with two files that have bad pages, and one that is good.
fn source() -> BadSource {
    BadSource::new(&[
        ("d/film", LARGE, &[0, 300]),
        ("d/small", SMALL, &[2, 21]),
        ("good", 5000, &[]),
    ])
}

/// What the newest list of a tree is.
fn list_of(scene: &Scene, tree: &str) -> String {
    let listed = shell(scene, &format!("ls -t {tree}/dircopy-*.sha256sum | head -n 1"));
    scene.path(listed.trim()).to_str().unwrap().to_owned()
}

/// An older copy of all of it, in which both files are damaged where the source can be read.
fn older_copy(source: &BadSource) -> String {
    let scene = &source.scene;
    scene.command_to(scene.src.root(), scene.path("old"), ["-q"]).run().assert_code(0);
    flip(scene, "old/d/film", 2_500_000);
    flip(scene, "old/d/small", 50_000);
    list_of(scene, "old")
}

fn flip(scene: &Scene, name: &str, at: usize) {
    let mut bytes = fs::read(scene.path(name)).unwrap();
    bytes[at] ^= 1;
    fs::write(scene.path(name), bytes).unwrap();
}

fn heal(source: &BadSource, args: &[&str]) -> Run {
    source.scene.bare([&["heal", "dst"], args].concat()).run()
}

/// Both files are whole, and nothing of a rescue is left. A later copy lists them, though the source cannot be read.
fn assert_whole(source: &BadSource) {
    for name in ["d/film", "d/small"] {
        assert!(fs::read(source.scene.dst.join(name)).unwrap() == source.scene.src.read(name));
    }
    assert_eq!(shell(&source.scene, "find dst -name '*dircopy-rescue*'"), "");
    let run = source.copy(&[]);
    run.assert_code(0);
    source.scene.judge(&run).complete();
    assert!(!source.scene.dst.join(".dircopy/rescues").exists());
    source.copy(&["--verify"]).assert_code(0);
}

/// Neither file has its name, and what was rescued is there.
fn assert_rescued(source: &BadSource) {
    for name in ["d/film", "d/small"] {
        let path = source.scene.dst.join(name);
        let kept = source.scene.dst.join(format!("{name}.dircopy-rescue"));
        assert!(!path.exists() && kept.exists() && map_of(&kept).exists());
    }
}

#[test]
fn what_is_missing_comes_from_a_copy_that_is_bad_elsewhere() {
    need!(Fuse);
    let source = source();
    let expected = older_copy(&source);
    source.copy(&["--rescue", "--expect", &expected]).assert_code(1);
    let dry = heal(&source, &["--from-tree", "old", "--dry-run"]);
    dry.assert_code(4).assert_says("missing: dst/d/film (expected by an earlier copy)");
    dry.assert_says("could be healed: dst/d/film").assert_says("could be healed: dst/d/small");
    assert_rescued(&source);
    let run = heal(&source, &["--from-tree", "old"]);
    run.assert_code(0).assert_says("healed: dst/d/small: 7.89 KiB from old");
    run.assert_says("healed: dst/d/film: ");
    assert_whole(&source);
}

#[test]
fn what_is_missing_comes_from_parity() {
    need!(Fuse);
    let source = source();
    let scene = &source.scene;
    scene.copy(&["-q"]).assert_code(0);
    scene.bare(["protect", "-q", "dst", "--parity", "30%"]).run().assert_code(0);
    shell(scene, "rm dst/d/film dst/d/small");
    let expected = list_of(scene, "dst");
    source.copy(&["--rescue", "--expect", &expected]).assert_code(1);
    assert_rescued(&source);
    let run = heal(&source, &[]);
    run.assert_code(0).assert_says("healed: dst/d/small: 7.89 KiB from dst/.dircopy/parity");
    assert_whole(&source);
}

/// A disk that fails has parity of its own, which can be read: a copy of it is as good where the files went.
#[test]
fn parity_may_come_from_the_disk_that_fails() {
    need!(Fuse);
    let source = source();
    let scene = &source.scene;
    scene.command_to(scene.src.root(), scene.path("disk"), ["-q"]).run().assert_code(0);
    scene.bare(["protect", "-q", "disk", "--parity", "30%"]).run().assert_code(0);
    let expected = list_of(scene, "disk");
    source.copy(&["--rescue", "--expect", &expected]).assert_code(1);
    assert_rescued(&source);
    shell(scene, "cp -r disk/.dircopy/parity dst/.dircopy/parity");
    let run = heal(&source, &[]);
    run.assert_code(0).assert_says("healed: dst/d/small: 7.89 KiB from dst/.dircopy/parity");
    assert_whole(&source);
}

/// A file that was edited since it was listed is to be something else, which no older copy has.
#[test]
fn what_was_edited_since_is_not_taken_for_what_is_listed() {
    need!(Fuse);
    let source = source();
    let expected = older_copy(&source);
    let mut edited = source.scene.src.read("d/small");
    edited[60_000] ^= 1;
    std::thread::sleep(std::time::Duration::from_millis(1100));
    source.scene.src.file("d/small", edited);
    source.copy(&["--rescue", "--expect", &expected]).assert_code(1);
    let run = heal(&source, &["--from-tree", "old"]);
    run.assert_code(0).assert_says("healed: dst/d/film: ");
    run.assert_says("cannot heal dst/d/small.dircopy-rescue: no list says what it is to be");
    assert!(!source.scene.dst.join("d/small").exists());
}

/// The list that is given to `heal` judges too; where none says what a file is to be, it stays as it is, and so it does
/// where nothing has what is missing.
#[test]
fn nothing_is_published_that_no_list_says() {
    need!(Fuse);
    let source = source();
    let expected = older_copy(&source);
    source.copy(&["--rescue"]).assert_code(1);
    let run = heal(&source, &["--from-tree", "old"]);
    run.assert_code(0)
        .assert_says("cannot heal dst/d/film.dircopy-rescue: no list says what it is to be");
    assert_rescued(&source);
    // A later copy may be told.
    let wrong = source.scene.path("wrong");
    fs::write(&wrong, format!("{0}  d/film\n{0}  d/small\n", "ab".repeat(32))).unwrap();
    source.copy(&["--rescue", "--expect", wrong.to_str().unwrap()]).assert_code(1);
    let run = heal(&source, &["--from-tree", "old"]);
    run.assert_code(4)
        .assert_says("not healed: dst/d/film: ")
        .assert_says("not healed: dst/d/small: ");
    assert_rescued(&source);
    // The bytes that the source lacks are bad there too.
    source.copy(&["--rescue", "--expect", &expected]).assert_code(1);
    flip(&source.scene, "old/d/film", 5);
    flip(&source.scene, "old/d/small", 10_000);
    heal(&source, &["--from-tree", "old"]).assert_code(4).assert_says("not healed: dst/d/small: ");
    assert_rescued(&source);
    flip(&source.scene, "old/d/film", 5);
    flip(&source.scene, "old/d/small", 10_000);
    heal(&source, &["--from-tree", "old", "-m", &expected]).assert_code(0);
    assert_whole(&source);
}
