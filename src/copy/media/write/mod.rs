//! Media Hash Lists as they are written: the generations of histories, and legacy lists.

pub mod file;
pub mod generations;
pub mod legacy;
pub mod words;
