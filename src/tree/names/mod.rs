//! Copying names from a list instead of everything: the list in the order of a walk, and the walk over it.

pub mod changed;
pub mod list;
pub mod order;
pub mod planned;
pub mod sorter;
mod walk;
