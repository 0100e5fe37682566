//! Generations in a directory that another user may write to, who moved one of another output there.

use super::{names, nights};
use crate::harness::{Scene, shell};

const SAYS: &str = "it was made in another directory";

/// Two nights at `dst`, and after them one of another source at `other`; the names of all.
fn two_outputs() -> (Scene, Vec<String>, String) {
    let (scene, all) = nights(&["one", "two"]);
    scene.tree("planted").file("file", "planted");
    shell(&scene, "mkdir -m 777 other");
    let args = ["-i", "planted", "-o", "other", "--generations"];
    // The names of the nights before are a second apart.
    std::thread::sleep(std::time::Duration::from_secs(2));
    scene.ended(&args, 0);
    let name = shell(&scene, "cd other && ls -d 20*Z").trim().to_owned();
    (scene, all, name)
}

#[test]
fn one_that_was_moved_there_is_none_of_these() {
    let (scene, all, moved) = two_outputs();
    // The day of a night that was never there.
    shell(&scene, &format!("mv other/{moved} dst/"));
    let tree = format!("dst/{moved}");
    scene.ended(&["restore", &tree, "back"], 2).assert_says(SAYS);
    scene.ended(&["verify", &tree], 5).assert_says(SAYS);
    scene.ended(&["protect", &tree], 2).assert_says(SAYS);
    scene.ended(&["heal", &tree, "--from-tree", "dst/latest"], 2).assert_says(SAYS);
    assert!(!scene.path(&tree).join(".dircopy/parity").exists());
    scene.ended(&["verify", "dst"], 5).assert_says(&format!("{tree}: {SAYS}"));
    scene.ended(&["generations", "dst"], 1).assert_says(SAYS);
    // It is the latest by name, and still no base, nor what is restored, nor thinned out.
    scene.ended(&["restore", "dst", "back"], 2).assert_says(SAYS);
    scene.ended(&["restore", "dst/latest", "back"], 0);
    assert_eq!(std::fs::read_to_string(scene.path("back/file")).unwrap(), "two");
    scene.src.file("file", "three");
    let run = scene.copy(&["--generations", "--keep", "last=1"]);
    run.assert_code(0).assert_says(SAYS);
    let left = names(&scene);
    assert!(left.contains(&moved) && !left.contains(&all[0]) && left.len() == 2, "{left:?}");
    assert_eq!(std::fs::read_to_string(scene.path("dst/latest/file")).unwrap(), "three");
    scene.ended(&["generations", "dst", "--remove", &moved], 2);
    // Where it was made it is what it was.
    shell(&scene, &format!("mv {tree} other/"));
    scene.ended(&["verify", "dst"], 0);
    scene.ended(&["verify", "other"], 0);
}

/// Also where the private directory of all was taken away, which no other user can make.
#[test]
fn without_the_record_of_all_it_is_no_base() {
    let (scene, _, moved) = two_outputs();
    shell(
        &scene,
        &format!("mv other/{moved} dst/; mv dst/.dircopy aside; ln -sfn {moved} dst/latest"),
    );
    scene.ended(&["restore", "dst/latest", "back"], 2).assert_says(SAYS);
    scene.src.file("file", "three");
    let run = scene.copy(&["--generations"]);
    run.assert_code(0).assert_says(SAYS);
}

/// Who moves generations on purpose can say so, and copies say nothing of where they were made.
#[test]
fn one_that_its_owner_moved_is_taken_again() {
    let (scene, all, moved) = two_outputs();
    shell(&scene, &format!("mv other/{moved} dst/; mkdir third; cp -a dst/{} third", all[0]));
    scene.ended(&["verify", "third"], 0);
    shell(&scene, &format!("cd dst/{moved} && sed -i '/^in /d' .dircopy/generation"));
    scene.ended(&["verify", "dst"], 0);
    // A directory of all that was renamed is the same one.
    shell(&scene, "mv dst renamed");
    scene.ended(&["verify", "renamed"], 0);
}
