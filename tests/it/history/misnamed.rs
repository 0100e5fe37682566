//! Generations in a directory that another user may write to, who gave them each other's names.

use std::path::Path;

use super::{names, nights};
use crate::harness::{Scene, shell};

fn exchange(scene: &Scene, one: &str, other: &str) {
    shell(scene, &format!("cd dst && mv {one} tmp && mv {other} {one} && mv tmp {other}"));
}

fn text(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap()
}

#[test]
fn an_older_generation_with_the_name_of_another_is_told_and_not_taken_for_that() {
    let (scene, all) = nights(&["one", "two", "three", "four"]);
    exchange(&scene, &all[1], &all[2]);
    for name in &all[1..3] {
        let tree = format!("dst/{name}");
        scene.ended(&["verify", &tree], 4).assert_says(&format!("{tree}: it is the generation"));
        scene.ended(&["restore", &tree, "back"], 2).assert_says("it is the generation");
        assert!(!scene.path("back/file").exists());
        scene.ended(&["protect", &tree], 2).assert_says("it is the generation");
        assert!(!scene.path(&tree).join(".dircopy/parity").exists());
    }
    let run = scene.ended(&["verify", "dst"], 4);
    run.assert_says(&format!("dst/{}: it is the generation {}", all[1], all[2]));
    run.assert_says(&format!("dst/{}: it is the generation {}", all[2], all[1]));
    scene.ended(&["generations", "dst"], 1).assert_says("it is the generation");
    // The newest is what it was.
    scene.ended(&["restore", "dst", "back"], 0);
    assert_eq!(text(&scene.path("back/file")), "four");
    // Nothing goes by a name that is not its own.
    let run = scene.copy(&["--generations", "--keep", "last=1"]);
    run.assert_code(0).assert_says("it is the generation");
    let left = names(&scene);
    assert!(all[1..3].iter().all(|name| left.contains(name)), "{left:?}");
    assert_eq!(left.len(), 3, "{left:?}");
    scene.ended(&["generations", "dst", "--remove", &all[1]], 2);
    // With their names again all is as it was.
    exchange(&scene, &all[1], &all[2]);
    scene.ended(&["verify", "dst"], 0);
    scene.ended(&["restore", &format!("dst/{}", all[1]), "two"], 0);
    assert_eq!(text(&scene.path("two/file")), "two");
}

#[test]
fn an_older_generation_with_the_newest_name_is_no_base() {
    let (scene, all) = nights(&["one", "two", "three", "four"]);
    exchange(&scene, &all[0], &all[3]);
    for path in ["dst", "dst/latest"] {
        scene.ended(&["restore", path, "back"], 2).assert_says("it is the generation");
        scene.ended(&["verify", path], 4).assert_says("it is the generation");
    }
    // The next night is based on the newest of those that have their own names, and is the newest again.
    scene.src.file("file", "five");
    let run = scene.copy(&["--generations"]);
    run.assert_code(0).assert_says(&format!("it is the generation {}", all[0]));
    scene.ended(&["restore", "dst", "back"], 0);
    assert_eq!(text(&scene.path("back/file")), "five");
    assert_eq!(text(&scene.path("dst/latest/file")), "five");
}

/// One that was renamed is not taken for a night that never was, and a copy of it has any other name.
#[test]
fn a_generation_with_a_new_name_is_told_and_a_copy_elsewhere_is_not() {
    let (scene, all) = nights(&["one", "two", "three", "four"]);
    shell(
        &scene,
        &format!("cd dst && mv {} 2020-01-01T000000Z && cp -a {} ../copy", all[0], all[1]),
    );
    scene.ended(&["verify", "dst"], 4).assert_says("2020-01-01T000000Z: it is the generation");
    scene.ended(&["verify", "copy"], 0);
    scene.ended(&["restore", "copy", "back"], 0);
    assert_eq!(text(&scene.path("back/file")), "two");
}
