//! Lists that several machines made of one tree.

pub mod merge;
