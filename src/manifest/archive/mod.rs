//! The lists of archives, of film sets and of clouds, which are more than lines with digests: those of BagIt bags,
//! Media Hash Lists, which are XML, and what clouds say of their objects in JSON.
//!
//! Here is how they are written down. What a check makes of them is in `verify::archive`.

pub mod bag;
pub mod bag_list;
pub mod cloud;
pub mod mhl;
pub mod mhl_writer;
mod xml;
