//! An output with generations: a tree for each night, complete by itself, that shares what did not change with the one
//! before.
//!
//! A run works on a tree with an unfinished name (`run`, `unfinished`). It begins as a snapshot of the last one, from
//! which goes what the source has no more (`prune`), or what can be shared is put into it first (`seed`). Only a
//! complete tree gets the name of a generation (`set`); old ones go through the trash (`keep`).

pub mod directory;
pub mod keep;
pub mod options;
mod prune;
pub mod run;
mod seed;
pub mod set;
mod unfinished;
