//! What stands in the way of the end of a plan, at the output or in the plan's directory: it is named, never waited for,
//! and once it is mended the end goes on.

use super::Cluster;
use crate::harness::Scene;

#[test]
fn names_of_a_file_in_one_directory_are_kept() {
    let scene = Scene::new();
    scene.src.file("one/a", "x").hard_link("one/b", "one/a").hard_link("one/0", "one/a");
    scene.src.file("one/other", "y").symlink("one/l", "a").hard_link("one/m", "one/l");
    scene.src.hard_link("two/a", "one/other").hard_link("two/b", "one/other");
    let cluster = Cluster { scene };
    cluster.plan();
    cluster.claim().assert_code(0);
    cluster.finish().assert_code(0);
    cluster.is_as_a_single_run();
}
