//! Manifests: the `sha256sum` files that say what a tree holds, and further lists beside them.

/// The lists of archives, of film sets and of clouds, which are more than lines with digests: those of BagIt bags,
/// Media Hash Lists, which are XML, and what clouds say of their objects in JSON.
///
/// Here is how they are written down; what a check makes of bags and histories is in `verify`.
pub mod archive {
    pub mod bag;
    pub mod bag_list;
    pub mod cloud;
    pub mod mhl;
    pub mod mhl_writer;
    mod xml;
}
mod index;
pub mod lists;
pub mod name;
pub mod read;
pub mod readers;
pub mod summed;
mod writer;

pub use archive::{
    bag::Declaration, bag::Encoding, bag_list::InfoTag, bag_list::LineEnds, bag_list::PayloadList,
    mhl::ChainLink, mhl::MhlEntries, mhl::MhlEntry, mhl::MhlPiece, mhl::Named, mhl_writer::Creator,
    mhl_writer::DirHash, mhl_writer::HashAction, mhl_writer::MediaEntry, mhl_writer::MhlWriter,
};
pub use index::{
    Index, builder::Bits, builder::IndexBuilder, builder::LinePlace, builder::Lookup,
    builder::NextLine,
};
pub use lists::{Content, KeptFile, ListFormat, ListKind};
pub use name::{ManifestName, OtherName, Stamp, is_ahead, states_name};
pub use read::{
    Entries, Entry, Fault, Record, encoding::UTF8_MARK, encoding::Utf16Reader, format::Parsed,
    format::Parser, scan::LONGEST_DIR, scan::Scanner, scan::Text,
};
pub use readers::{Carry, CoveredManifests, OpenDigest, Readers};
pub use summed::{Blocks, ReadAhead, SummedFile, SummedReader, SummedWriter, Trailer};
pub use writer::ManifestFile;
