//! A file that is at the output already: whether it is kept (`file`), its permissions, owner and attributes (`labels`),
//! a time that does not tell whether it is the source's (`late`), and what both sides hold where nothing is to be made
//! (`both`).

pub mod both;
pub mod file;
pub mod labels;
pub mod late;
