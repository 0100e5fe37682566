//! Proof: checks of trees, reading back, sources held against a manifest.

mod algorithms;
mod bags;
mod budget;
mod chain;
mod conformance;
mod contradictions;
mod copies;
mod expect;
mod expect_bags;
mod manifests;
mod media_hash_lists;
mod medium;
mod multibuffer;
mod order;
mod prove;
mod shards;
mod valid;
