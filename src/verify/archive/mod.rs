//! Directories that are archives: BagIt bags, and histories of ASC MHL.
//!
//! Such a directory is several lists. Each becomes a target of its own, so that the check of files is one for
//! all; what concerns the archive as a whole is looked at before and after.

pub mod bag;
pub mod expand;
pub mod history;
