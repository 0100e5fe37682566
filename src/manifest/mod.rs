//! Manifests: the `sha256sum` files that say what a tree holds.

pub mod bsd;
pub mod escape;
pub mod fault;
pub mod format;
pub mod gnu;
pub mod line;
pub mod record;
pub mod scan;

pub use fault::Fault;
pub use format::{Parsed, Parser};
pub use record::Record;
pub use scan::Scanner;
