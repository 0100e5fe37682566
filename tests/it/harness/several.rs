//! Runs to several outputs, each in the scene under a name of its own.

use super::judge::Judge;
use super::run::{Cmd, Run};
use super::scene::Scene;
use super::tree::Tree;

/// `dircopy` to outputs of these names.
pub fn command<'a>(scene: &'a Scene, outputs: &[&str], args: &[&str]) -> Cmd<'a> {
    let more = outputs[1..].iter().flat_map(|name| ["-o".into(), scene.path(name)]);
    let args: Vec<_> = args.iter().map(Into::into).chain(more).collect();
    scene.command_to(scene.src.root(), scene.path(outputs[0]), args)
}

/// Judges the output of this name.
pub fn judge<'a>(scene: &'a Scene, name: &str, run: &'a Run) -> Judge<'a> {
    Judge::new(&scene.src, Tree::of(scene.path(name)), run)
}

/// Everything is there and listed, whatever became of other outputs.
#[track_caller]
pub fn is_complete(scene: &Scene, name: &str, run: &Run) {
    judge(scene, name, run).same_tree().lists_all().verifies().no_leftovers();
}
