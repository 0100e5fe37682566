//! Linux and macOS: calls relative to directory handles, through `rustix`.
//!
//! What is here both have. `system` is what only one of them can do, under the same names: `linux`, or `macos`, whose
//! ways are those of Linux too if the feature `portable` asks for them, as far as they can run there.

mod attributes;
mod dir;
mod entering;
#[cfg_attr(any(target_os = "macos", feature = "portable"), allow(dead_code))]
mod kind;
mod link;
mod owner;
mod plain;
mod process;
mod stream;
#[cfg_attr(all(target_os = "linux", not(feature = "portable")), path = "linux/mod.rs")]
#[cfg_attr(not(all(target_os = "linux", not(feature = "portable"))), path = "macos/mod.rs")]
mod system;
mod trial;
mod volume;

pub use attributes::Attributes;
pub use dir::{Dir, LinkTarget, name_from_bytes, names_device, swallowed_quote, unusable};
pub use owner::{is_ours_alone, keep_locked, persist_content, why_none_is_closed};
pub use plain::{open_plain, read_at, who_else_changes, who_else_makes_beside};
pub use process::{
    Helper, Manager, address_space_left, data_directory, descriptors_are_wanted, heed_memory_limit,
    host_name, keep_own_permissions, may_give_away, on_interrupt, on_status_request,
    open_file_limit, raise_open_file_limit, set_nice, settings_directories, shows_unicode,
    standard_input, take_waiting_signals, wait_readable, was_closed_at_start,
};
pub use stream::{StreamEnd, let_read, may_read, new_file_mode, touch};
pub use system::{
    ALIGNMENT, DirReader, KNOWS_DISKS, Medium, Mover, OutputPages, Place, SourcePages, capacity,
    clone_file, data_sharing, disks_of, durable, durable_here, is_on_turning_disk, let_go,
    lock_holder, may_be_written_to, mounted_volumes, no_own_mount, pending_calls, permit_threads,
    pipe, place_all_data, place_on_disk, plugged_in, read_no_more_than_asked, reserve,
    set_io_priority, shared_place, splice, subject_of, tee, time_of_change, volume_details,
    volume_label, volume_uuid, what_protects, widen,
};
pub use volume::{
    allow_holes, close_file, has_exact_sizes, has_mounts_below, is_device_error, is_disk_full,
    is_for_want_of_means, is_output_gone, is_synthetic, longest_name, may_lack_owners, most_below,
    next_extent, persist_file, room,
};
