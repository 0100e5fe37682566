//! Making trees whole that are copies of one another.
//!
//! A check names the files that are bad. Of each, the links that do not hold are taken from whichever tree has
//! them good: a link is hashed from the state before it to the state behind it before it is written. The
//! file is made beside the bad one, read back as a whole against the listed digest, and renamed. So nothing
//! is written in place, no digest is ever new, and a file is the old one or the right one at any moment.

mod bad;
mod case;
mod conflicts;
mod copies;
mod job;
mod mend;
mod new_file;
mod parents;
mod trees;
mod unhealed;

pub use job::HealJob;
