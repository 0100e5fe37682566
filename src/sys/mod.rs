//! Every line that depends on the operating system.
//!
//! The rest of the program speaks in intents: open the source, make a part file, publish it, make
//! everything durable. Directories are held open and entries are named relative to them, one
//! component at a time and without following symbolic links, so that a tree that changes under a
//! running copy cannot lead it elsewhere. A hint returns nothing. An optional fast path returns
//! `Option`: `None` means "not here, use the ordinary way"; an error means the file is now bad.

mod bit_matrices;
#[cfg(all(target_os = "linux", not(feature = "portable")))]
mod chunk_size;
mod dir;
mod dir_listing;
mod file_range;
mod interrupted;
mod part_name;
#[cfg(any(not(target_os = "linux"), feature = "portable"))]
mod portable;
mod prefetch;
mod special;
pub mod stat;
mod stream_end;
pub mod traits;
mod types;
mod wide;

pub use bit_matrices::{BitMatrices, LINE, PartedWords, WordMatrix};
pub use dir_listing::DirListing;
pub use file_range::{FileRange, ends_at};
pub use interrupted::{Uninterrupted, uninterrupted, write_all};
pub use part_name::{
    PartOwner, PartTag, ShardTag, is_journal_name, is_journal_of, is_part_name, journal_name,
    leftover_patterns, part_name_of, shard_of_part,
};
pub use prefetch::prefetch;
pub use types::{
    ANY_DISK, CachePolicy, Cloned, DataSharing, Durable, Extent, FreeSpace, IoPriority, KernelCopy,
    ListedEntry, Lock, MOST_LATER, MountedVolume, NamedInode, NoOwnMount, PendingCall, PlainUse,
    PluggedIn, ResidentBytes, Spliced, UsedSpace, VolumeDetails,
};
pub use wide::{WideWork, in_wide_registers};

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
