//! Entries that are no regular files of their own: symbolic links and hard links.

pub mod hard_link;
mod links;
pub mod symlink;
