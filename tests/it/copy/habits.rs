//! File systems that are not Linux's own do things to names, times and links of which no call tells.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

use crate::harness::{Act, Habit, Mirror, Scene, content, need, shell};

/// Copies `src` into `out` on a file system with these habits, twice. The second run must come to the same.
fn copied_twice(scene: &Scene, habits: &[Habit]) {
    let truth = scene.tree("truth");
    let _mirror = Mirror::with_habits(truth.root(), &scene.path("disk"), habits, |_| Act::Pass);
    for _ in 0..2 {
        let run = scene.bare(["-i", "src", "-o", "disk/out"]).run();
        run.assert_code(0);
    }
    shell(scene, "cd disk/out && sha256sum -c --strict --quiet *.sha256sum");
}

/// SFTP has no call that does not follow a link: the time of a link became that of the file it pointed to,
/// outside the output.
#[test]
fn what_a_link_points_to_keeps_its_time_and_owner() {
    need!(Fuse);
    let scene = Scene::new();
    let victim = scene.tree("outside").file("victim", "victim").root().join("victim");
    scene.src.file("file", content(100));
    for name in ["one", "two"] {
        scene.src.symlink(name, victim.to_str().unwrap());
    }
    shell(&scene, "touch -h -d 2010-01-01 src/one src/two; chown -h 12:34 src/one src/two");
    let before = std::fs::metadata(&victim).unwrap();
    copied_twice(&scene, &[Habit::SetsThroughLinks]);
    let after = std::fs::metadata(&victim).unwrap();
    let seen =
        |it: &std::fs::Metadata| (it.mtime(), it.mtime_nsec(), it.ctime(), it.uid(), it.gid());
    assert_eq!(seen(&after), seen(&before), "a file outside the output was changed");
    assert_eq!(std::fs::read_link(scene.path("truth/out/one")).unwrap(), victim);
    let again = scene.path("disk2");
    let truth = scene.tree("truth2");
    let _mirror =
        Mirror::with_habits(truth.root(), &again, &[Habit::SetsThroughLinks], |_| Act::Pass);
    let run = scene.bare(["-i", "src", "-o", "disk2/out"]).run();
    let told = String::from_utf8_lossy(&run.stderr);
    assert_eq!(told.matches("leaves alone what a link points to").count(), 1, "{told}");
}

/// libfuse 2 ignores a change of the modification time alone: every file was dated now, and from the second run
/// on newer than its source.
#[test]
fn times_are_set_where_only_both_can_be() {
    need!(Fuse);
    let scene = Scene::new();
    scene.src.file("small", content(100)).file("dir/large", content(3_000_000));
    shell(&scene, "touch -d 2011-01-01 src/small src/dir/large src/dir");
    copied_twice(&scene, &[Habit::BothTimesOrNone]);
    for name in ["small", "dir/large", "dir"] {
        let time = |root: &Path| std::fs::metadata(root.join(name)).unwrap().mtime();
        assert_eq!(time(&scene.path("truth/out")), time(&scene.path("src")), "{name}");
    }
}
