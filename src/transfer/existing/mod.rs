//! A file that is at the output already: whether it is kept (`file`), its permissions, owner and attributes (`labels`),
//! and a time that does not tell whether it is the source's (`late`).

pub mod file;
pub mod labels;
pub mod late;
