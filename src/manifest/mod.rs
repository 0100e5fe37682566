//! Manifests: the `sha256sum` files that say what a tree holds.

pub mod bsd;
pub mod carry;
mod clearsign;
mod csv;
pub mod encoding;
pub mod entries;
pub mod escape;
pub mod fault;
pub mod format;
pub mod gnu;
pub mod index;
pub mod line;
mod mtree;
pub mod name;
mod own;
pub mod record;
pub mod scan;
mod slot;
pub mod stamp;
mod window;
pub mod write;

pub use encoding::Utf16Reader;
pub use entries::{Entries, Entry};
pub use fault::Fault;
pub use format::{Parsed, Parser};
pub use index::Index;
pub use name::ManifestName;
pub use record::Record;
pub use scan::Scanner;
pub use stamp::Stamp;
