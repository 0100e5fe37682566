//! A copy: what goes over, by which way, and what happens to what is there already.

mod basics;
mod cache;
mod calls;
mod deep;
mod defects;
mod digests;
mod filters;
mod folding;
mod habits;
mod handful;
mod lanes;
mod listed;
mod lists;
mod metadata;
mod names;
mod narrow;
mod pairs;
mod policies;
mod proofs;
mod space;
mod sparse;
mod times;
mod ways;
