//! The lists of archives and of film sets, which are more than lines with digests: those of BagIt bags, and Media
//! Hash Lists, which are XML.
//!
//! Here is how they are written down. What a check makes of them is in `verify::archive`.

pub mod bag;
pub mod bag_list;
pub mod mhl;
pub mod mhl_writer;
mod xml;
