//! Windows: NT calls relative to directory handles, through `windows-sys`.
//!
//! The NT calls rather than those of Win32, because only they open a name relative to a directory's
//! handle, and because the limit of 260 characters is Win32's: below the roots no path is ever put
//! together, so none can be too long.

mod attributes;
mod dir;
mod further;
mod link;
mod medium;
mod name;
mod nt;
mod owner;
mod plain;
mod process;
mod stat;
mod volume;

pub use crate::sys::portable::{
    KNOWS_DISKS, Mover, OutputPages, SourcePages, capacity, clone_file, data_sharing, disks_of,
    let_go, pending_calls, permit_threads, pipe, place_all_data, plugged_in,
    read_no_more_than_asked, reserve, set_io_priority, shared_place, splice, subject_of, tee,
    what_protects, widen,
};
pub use attributes::Attributes;
pub use dir::Dir;
pub use link::LinkTarget;
pub use medium::{ALIGNMENT, Medium};
pub use name::{name_from_bytes, names_device, swallowed_quote, unusable};
pub use plain::{
    StreamEnd, is_ours_alone, keep_locked, let_read, may_be_written_to, may_read, new_file_mode,
    open_plain, persist_content, read_at, touch, who_else_changes, who_else_makes_beside,
    why_none_is_closed,
};
pub use process::{
    Helper, Manager, address_space_left, data_directory, descriptors_are_wanted, heed_memory_limit,
    host_name, keep_own_permissions, lock_holder, may_give_away, on_interrupt, on_status_request,
    open_file_limit, raise_open_file_limit, set_nice, settings_directories, shows_unicode,
    standard_input, take_waiting_signals, time_of_change, wait_readable, was_closed_at_start,
};
pub use stat::DirReader;
pub use volume::{
    Place, allow_holes, close_file, durable, durable as durable_here, has_exact_sizes,
    has_mounts_below, is_device_error, is_disk_full, is_for_want_of_means, is_on_turning_disk,
    is_output_gone, is_synthetic, longest_name, may_lack_owners, most_below, mounted_volumes,
    next_extent, no_own_mount, persist_file, place_on_disk, room, volume_details, volume_label,
    volume_uuid,
};
