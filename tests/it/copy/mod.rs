//! A copy: what goes over, by which way, and what happens to what is there already.

mod basics;
mod cache;
mod calls;
mod corner_cases;
mod deep;
mod defects;
mod digests;
mod filters;
mod folding;
mod foreign_file_systems;
mod listed;
mod lists;
mod metadata;
mod methods;
mod names;
mod pairs;
mod policies;
mod proofs;
mod restore;
mod small_files;
mod space;
mod sparse;
mod times;
mod worker_counts;
