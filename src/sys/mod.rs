//! Every line that depends on the operating system.
//!
//! The rest of the program speaks in intents: open the source, make a part file, publish it, make
//! everything durable. Directories are held open and entries are named relative to them, one
//! component at a time and without following symbolic links, so that a tree that changes under a
//! running copy cannot lead it elsewhere. A hint returns nothing. An optional fast path returns
//! `Option`: `None` means "not here, use the ordinary way"; an error means the file is now bad.

mod dir;
mod interrupted;
mod part_name;
#[cfg(any(not(target_os = "linux"), feature = "portable"))]
mod portable;
mod processor;
pub mod stat;
pub mod traits;
mod types;

pub use dir::{DirListing, SteadyListing};
pub use interrupted::{FileRange, Uninterrupted, ends_at, uninterrupted, write_all};
pub use part_name::{
    PartOwner, PartTag, ShardTag, is_journal_name, is_journal_of, is_part_name, journal_name,
    leftover_patterns, part_name_of, shard_of_part,
};
pub use processor::{
    BitMatrices, FourWords, LINE, PartedWords, WideWork, WordMatrix, Words, in_wide_registers,
    prefetch,
};
pub use types::{
    ANY_DISK, CachePolicy, Cloned, DataSharing, Durable, Extent, FreeSpace, IoPriority, KernelCopy,
    ListedEntry, Lock, MOST_LATER, MountedVolume, NamedInode, NoOwnMount, PendingCall, PlainUse,
    PluggedIn, ResidentBytes, Spliced, UsedSpace, VolumeDetails,
};

#[cfg(unix)]
mod unix;
#[cfg(windows)]
mod windows;

#[cfg(unix)]
pub use unix::*;
#[cfg(windows)]
pub use windows::*;

#[cfg(test)]
mod tests;
