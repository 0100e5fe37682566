//! Several directories of one check: a verdict over each, and where a bad file of one is good in another.

pub mod replicas;
pub mod trees;
