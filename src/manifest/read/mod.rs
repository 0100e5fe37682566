//! Reading manifests: lines of bounded length, the formats that are known, and what is wrong with the rest.
//!
//! [`Entries`] is the one reader; everything else here is a part of it.

mod bsd;
mod clearsign;
mod csv;
mod encoding;
mod entries;
pub mod escape;
mod fault;
pub mod format;
mod gnu;
mod mtree;
mod other;
pub mod record;
pub mod scan;

pub use encoding::{Utf16Reader, is_utf16};
pub use entries::{Entries, Entry};
pub use fault::Fault;
pub use format::{Parsed, Parser};
pub use record::Record;
pub use scan::Scanner;
