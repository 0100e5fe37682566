//! Outputs on file systems without permissions, as exFAT is mounted on most desktops: nothing there is this user's alone.

use crate::harness::{Act, Habit, Mirror, Scene, need, shell};

const EXFAT: [Habit; 6] = [
    Habit::HasNoLinks,
    Habit::FoldsCase,
    Habit::RefusesSigns,
    Habit::HasNoPermissions,
    Habit::HasNoChangeTimes,
    Habit::TellsNoFreeInodes,
];

/// A source of two files, and two such disks, `A` and `B`; what is on them is in `on-A` and `on-B`.
fn scene() -> (Scene, [Mirror; 2]) {
    let scene = Scene::new();
    scene.src.file("a", "a").file("b", "b");
    shell(&scene, "mkdir state");
    let mirrors = ["A", "B"].map(|disk| {
        let truth = scene.tree(&format!("on-{disk}"));
        Mirror::with_habits(truth.root(), &scene.path(disk), &EXFAT, |_| Act::Pass)
    });
    (scene, mirrors)
}

/// What is there is as open as the trash, and the note of which that is lies elsewhere.
#[test]
fn a_mirror_has_a_trash_that_is_open_to_all() {
    need!(Fuse);
    let (scene, _mirrors) = scene();
    let mirror = ["src", "A/m", "--mirror", "--state", "state"];
    scene.ended(&mirror, 0);
    for name in ["a", "c"] {
        shell(&scene, &format!("rm -f src/{name}"));
        scene.ended(&mirror, 0);
        assert_eq!(
            shell(&scene, &format!("cd on-A/m; test ! -e {name}; cat .dircopy-trash/*/{name}")),
            name
        );
        scene.src.file("c", "c");
        scene.ended(&mirror, 0);
    }
    // One that no run noted might be anything.
    shell(&scene, "rm src/b state/*/trash");
    scene.ended(&mirror, 1).assert_says("no run of yours made it as trash");
}

#[test]
fn the_catalogue_says_why_it_takes_nothing() {
    need!(Fuse);
    let (scene, _mirrors) = scene();
    scene.ended(&["src", "A/c"], 0);
    let add = ["catalog", "add", "--catalog", "c.sqlite"];
    let run = scene.ended(&[&add[..], &["A/c"]].concat(), 2);
    run.assert_says("your record of it cannot be believed: add its manifest, with --place NAME");
    let run = scene.ended(&["src", "B/c", "--state", "state", "--catalog=c.sqlite"], 1);
    run.assert_says("as on file systems without change times (exFAT, FAT): add its manifest");
    let list = shell(&scene, "ls B/c/dircopy-*sum");
    scene.ended(&[&add[..], &[list.trim(), "--place", "B"]].concat(), 0);
}
