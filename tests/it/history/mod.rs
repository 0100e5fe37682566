//! Outputs with a memory: what has left the source leaves a mirror, into the trash; generations keep every night.

mod departures;
mod generations;
mod misnamed;
mod misplaced;
mod mounted;
mod moves;
mod neighbours;
mod newest;
mod powercut;
mod random_source;
mod renamed;
mod rot;
mod snapshots;
mod source_changes;
mod spelling;
mod stays_known;
mod strict;
mod trash;
mod unchanged;
mod unrecorded;

use crate::harness::{Scene, shell};

/// Generations in a directory that another user may write to, told apart by one file; their names, the oldest first.
fn nights(contents: &[&str]) -> (Scene, Vec<String>) {
    let scene = Scene::new();
    shell(&scene, "mkdir -m 777 dst");
    for content in contents {
        scene.src.file("file", content);
        scene.copy(&["--generations"]).assert_code(0);
    }
    let names = names(&scene);
    assert_eq!(names.len(), contents.len(), "{names:?}");
    (scene, names)
}

/// The names of the generations that are there, the oldest first.
fn names(scene: &Scene) -> Vec<String> {
    shell(scene, "cd dst && ls -d 20*Z").lines().map(str::to_owned).collect()
}
