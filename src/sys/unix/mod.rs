//! Unix: calls relative to directory handles, through `rustix`.

mod attributes;
#[cfg(target_os = "linux")]
mod cache;
#[cfg(target_os = "linux")]
mod data_place;
pub(in crate::sys) mod dir;
mod durable;
#[cfg(target_os = "linux")]
mod inode;
mod inode_items;
mod kind;
mod leftover;
mod link;
pub mod list;
mod medium;
mod owner;
#[cfg(target_os = "linux")]
mod pending;
mod place;
mod plain;
#[cfg(target_os = "linux")]
mod plug;
mod process;
#[cfg(target_os = "linux")]
mod special;
pub(in crate::sys) mod stream;
#[cfg(target_os = "linux")]
mod subvolume;
#[cfg(target_os = "linux")]
mod transfer;
mod trial;
pub(in crate::sys) mod volume;
mod volumes;

pub use attributes::Attributes;
#[cfg(target_os = "linux")]
pub use cache::{OutputPages, SourcePages};
#[cfg(target_os = "linux")]
pub use data_place::{data_sharing, place_all_data, shared_place};
pub use dir::{name_from_bytes, names_device, swallowed_quote, unusable};
pub use durable::durable;
#[cfg(target_os = "linux")]
pub use inode::what_protects;
pub use leftover::{is_ours_alone, keep_locked, persist_content};
pub use list::DirReader;
pub use medium::{ALIGNMENT, Medium};
#[cfg(target_os = "linux")]
pub use pending::permit_threads;
#[cfg(target_os = "linux")]
pub use pending::{pending_calls, subject_of};
pub use place::Place;
pub use place::no_own_mount;
pub use plain::who_else_changes;
pub use plain::{open_plain, read_at};
#[cfg(target_os = "linux")]
pub use plug::plugged_in;
pub use process::Helper;
pub use process::Manager;
pub use process::descriptors_are_wanted;
#[cfg(target_os = "linux")]
pub use process::set_io_priority;
pub use process::set_nice;
pub use process::{
    address_space_left, heed_memory_limit, keep_own_permissions, may_give_away, on_interrupt,
    on_status_request, open_file_limit, raise_open_file_limit, settings_directories, shows_unicode,
    standard_input, take_waiting_signals, wait_readable, was_closed_at_start,
};
pub use process::{host_name, lock_holder};
pub use stream::{StreamEnd, let_read, may_read, new_file_mode, touch};
#[cfg(target_os = "linux")]
pub use transfer::{Mover, clone_file};
#[cfg(target_os = "linux")]
pub use transfer::{capacity, pipe, splice, tee, widen};
#[cfg(target_os = "linux")]
pub use volume::reserve;
pub use volume::{
    allow_holes, close_file, has_exact_sizes, is_device_error, is_disk_full, is_for_want_of_means,
    is_output_gone, is_synthetic, longest_name, may_lack_owners, most_below, next_extent,
    persist_file, room,
};
pub use volumes::{is_on_turning_disk, place_on_disk};
pub use volumes::{mounted_volumes, volume_details, volume_label, volume_uuid};

#[cfg(not(target_os = "linux"))]
pub use crate::sys::portable::{
    Mover, OutputPages, SourcePages, capacity, clone_file, data_sharing, pending_calls,
    permit_threads, pipe, place_all_data, plugged_in, reserve, set_io_priority, shared_place,
    splice, subject_of, tee, what_protects, widen,
};
