//! Every line that depends on the operating system.
//!
//! The rest of the program speaks in intents: open the source, make a part file, publish it, make
//! everything durable. Directories are held open and entries are named relative to them, one
//! component at a time and without following symbolic links, so that a tree that changes under a
//! running copy cannot lead it elsewhere. A hint returns nothing. An optional fast path returns
//! `Option`: `None` means "not here, use the ordinary way"; an error means the file is now bad.

#[cfg(target_os = "linux")]
mod chunk_size;
mod dir;
mod dir_listing;
mod file_range;
mod interrupted;
mod part_name;
#[cfg(not(target_os = "linux"))]
mod portable;
mod prefetch;
mod special;
pub mod stat;
mod stream_end;
pub mod traits;
mod types;

pub use dir::{Dir, LinkTarget};
pub use dir_listing::DirListing;
pub use file_range::{FileRange, ends_at};
pub use interrupted::{Uninterrupted, uninterrupted, write_all};
pub use part_name::{
    PartOwner, PartTag, ShardTag, is_journal_name, is_journal_of, is_part_name, journal_name,
    part_name_of, shard_of_part,
};
pub use prefetch::prefetch;
pub use types::{
    CachePolicy, Cloned, DataSharing, Durable, Extent, FreeSpace, IoPriority, KernelCopy,
    ListedEntry, Lock, MountedVolume, NamedInode, NoOwnMount, PendingCall, PlainUse, PluggedIn,
    ResidentBytes, Spliced, UsedSpace, VolumeDetails,
};

#[cfg(unix)]
mod unix;
#[cfg(windows)]
mod windows;

#[cfg(unix)]
use unix as system;
#[cfg(windows)]
use windows as system;

pub use system::{
    ALIGNMENT, Attributes, DirReader, Helper, Manager, Medium, Mover, OutputPages, Place,
    SourcePages, StreamEnd, address_space_left, allow_holes, capacity, clone_file, close_file,
    data_sharing, descriptors_are_wanted, durable, has_exact_sizes, heed_memory_limit, host_name,
    is_device_error, is_disk_full, is_for_want_of_means, is_on_turning_disk, is_ours_alone,
    is_output_gone, is_synthetic, keep_locked, keep_own_permissions, let_read, lock_holder,
    longest_name, may_give_away, may_lack_owners, may_read, most_below, mounted_volumes,
    name_from_bytes, names_device, new_file_mode, next_extent, no_own_mount, on_interrupt,
    on_status_request, open_file_limit, open_plain, pending_calls, permit_threads, persist_content,
    persist_file, pipe, place_all_data, place_on_disk, plugged_in, raise_open_file_limit, read_at,
    reserve, room, set_io_priority, set_nice, settings_directories, shared_place, shows_unicode,
    splice, standard_input, subject_of, swallowed_quote, take_waiting_signals, tee, touch,
    unusable, volume_details, volume_label, volume_uuid, wait_readable, was_closed_at_start,
    what_protects, who_else_changes, widen,
};

#[cfg(test)]
mod tests;
