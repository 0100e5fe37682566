//! An index of a manifest that dircopy wrote: what it says of a path, in a few bytes a line.

mod agreement;
pub mod bits;
pub mod builder;
pub mod lookup;
mod own;
mod place;
mod slot;
mod window;

pub use agreement::Lookup;
pub use lookup::Index;
pub use place::{LinePlace, NextLine};
