//! An output with generations: a tree for each night, complete by itself, that shares what did not change with the one
//! before.
//!
//! A run works on a tree with an unfinished name (`run`), into which it first puts what can be shared (`seed`). Only a
//! complete tree gets the name of a generation (`set`); old ones go through the trash (`keep`).

pub mod keep;
pub mod options;
pub mod run;
mod seed;
pub mod set;
