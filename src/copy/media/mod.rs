//! Media Hash Lists of what a run copied: histories of ASC MHL 2, of which each run writes a generation, and legacy
//! lists.
//!
//! A run (`run`) looks first whether such a list can hold the source, which histories there are
//! (`histories`), whether one was touched (`one_history`, `own_mark`), and what they say (`known`); what it is to write
//! stands in its `role`. The tree is copied as any; what is listed of its files is kept aside. When all of
//! it is durable, that is held against the output (`tree`) and the histories (`join`), the digests of directories are
//! computed (`dir_hashes`), and the lists are written (`seal`, `write`), in bounded memory because everything is sorted
//! by path (`records`).

mod dir_hashes;
mod histories;
mod join;
mod known;
pub mod one_history;
mod own_mark;
mod records;
pub mod role;
pub mod run;
pub mod seal;
mod tree;
mod write;
