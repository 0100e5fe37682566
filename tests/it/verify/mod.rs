//! Proof: checks of trees, reading back, sources held against a manifest.

mod algorithms;
mod bag_checks;
mod budget;
mod chain;
mod conformance;
mod contradictions;
mod copies;
mod covered;
mod expect;
mod expect_bags;
mod histories;
mod holes;
mod list_diff;
mod manifests;
mod media_hash_lists;
mod medium;
mod multibuffer;
mod order;
mod prove;
mod shards;
mod shared_data;
mod twice;
mod unbelieved;
mod unknown;
mod valid;

use crate::harness::{Run, Scene};

/// A check with these arguments ends with `code`.
#[track_caller]
fn check(scene: &Scene, args: &[&str], code: i32) -> Run {
    let run = scene.bare([&["verify"], args].concat()).run();
    run.assert_no_crash();
    run.assert_code(code);
    run
}
