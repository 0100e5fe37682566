//! An unfinished output file: made, gone on with, published or discarded.

pub mod checkpoint;
pub mod claim;
mod content;
pub mod method;
pub mod part_file;
pub mod publish;
pub mod resume;
mod splice_into;
pub mod transfer;
