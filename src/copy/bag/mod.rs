//! An output that is a bag (BagIt 1.0): the source is its payload, beside which lie the lists of all digests.
//!
//! A run (`run`) looks first whether a bag can be made there (`place`) and can hold the source (`fit`). The payload is
//! copied as any tree. The lists come last (`seal`), from what the copy recorded (`listing`), each whole or absent
//! (`tag_file`), and `bagit.txt` after all others: without it a directory is no bag.

mod fit;
mod listing;
pub mod options;
pub mod place;
pub mod run;
mod seal;
mod tag_file;
