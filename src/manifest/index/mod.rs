//! An index of a manifest that dircopy wrote: what it says of a path, in a few bytes a line.

pub mod bits;
pub mod builder;
pub mod lookup;
mod own;
mod place;
mod slot;
mod window;

pub use lookup::{Index, Lookup};
pub use place::{LinePlace, NextLine};
