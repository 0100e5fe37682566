//! An unfinished output file: made, gone on with, published or discarded.

pub mod checkpoint;
pub mod content;
pub mod method;
pub mod part_file;
pub mod publish;
pub mod resume;
pub mod splice_into;
pub mod transfer;
