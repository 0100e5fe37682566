//! Manifests: the `sha256sum` files that say what a tree holds, and further lists beside them.

pub mod archive;
pub mod carry;
pub mod index;
pub mod line;
pub mod lists;
mod name;
pub mod other_name;
pub mod read;
pub mod readers;
pub mod rewriting;
mod stamp;
pub mod summed;
mod try_name;
pub mod writer;

pub use index::Index;
pub use name::{ManifestName, states_name};
pub use read::{Entries, Entry, Fault, Parsed, Parser, Record, Scanner, Utf16Reader};
pub use stamp::Stamp;
