//! Unix: calls relative to directory handles, through `rustix`.

mod attributes;
#[cfg(target_os = "linux")]
mod cache;
mod closed_dir;
#[cfg(target_os = "linux")]
mod data_place;
mod descriptors;
pub(in crate::sys) mod dir;
mod disk;
#[cfg(target_os = "linux")]
mod fiemap;
mod helper;
mod holder;
#[cfg(target_os = "linux")]
mod inode;
mod inode_items;
mod leftover;
mod link;
pub mod list;
mod make;
mod manager;
mod medium;
mod mounts;
mod one_name;
#[cfg(target_os = "linux")]
mod pending;
mod place;
mod plain;
mod priority;
mod process;
#[cfg(target_os = "linux")]
mod protected;
#[cfg(target_os = "linux")]
mod residency;
#[cfg(target_os = "linux")]
mod splice;
pub(in crate::sys) mod stream;
#[cfg(target_os = "linux")]
mod subvolume;
#[cfg(target_os = "linux")]
mod threads;
#[cfg(target_os = "linux")]
mod transfer;
mod trial;
mod trusted;
pub(in crate::sys) mod volume;
mod volumes;

pub use attributes::Attributes;
#[cfg(target_os = "linux")]
pub use cache::{OutputPages, SourcePages};
#[cfg(target_os = "linux")]
pub use data_place::{data_sharing, place_all_data, shared_place};
pub use descriptors::descriptors_are_wanted;
pub use dir::{name_from_bytes, names_device, swallowed_quote, unusable};
pub use disk::{is_on_turning_disk, place_on_disk};
pub use helper::Helper;
pub use holder::{host_name, lock_holder};
pub use leftover::{is_ours_alone, keep_locked, persist_content};
pub use list::DirReader;
pub use manager::Manager;
pub use medium::{ALIGNMENT, Medium};
pub use mounts::no_own_mount;
#[cfg(target_os = "linux")]
pub use pending::{pending_calls, subject_of};
pub use place::Place;
pub use plain::{open_plain, read_at};
#[cfg(target_os = "linux")]
pub use priority::set_io_priority;
pub use priority::set_nice;
pub use process::{
    address_space_left, heed_memory_limit, keep_own_permissions, may_give_away, on_interrupt,
    on_status_request, open_file_limit, raise_open_file_limit, settings_directories, shows_unicode,
    standard_input, take_waiting_signals, wait_readable, was_closed_at_start,
};
#[cfg(target_os = "linux")]
pub use protected::what_protects;
#[cfg(target_os = "linux")]
pub use splice::{capacity, pipe, splice, tee, widen};
pub use stream::{StreamEnd, let_read, may_read, new_file_mode, touch};
#[cfg(target_os = "linux")]
pub use threads::permit_threads;
#[cfg(target_os = "linux")]
pub use transfer::{Mover, clone_file};
pub use trusted::who_else_changes;
#[cfg(target_os = "linux")]
pub use volume::reserve;
pub use volume::{
    allow_holes, close_file, flush_file, has_exact_sizes, is_device_error, is_disk_full,
    is_for_want_of_means, is_output_gone, is_synthetic, longest_name, may_lack_owners, most_below,
    next_extent, persist_file, room,
};
pub use volumes::{mounted_volumes, volume_details, volume_label, volume_uuid};

#[cfg(not(target_os = "linux"))]
pub use crate::sys::portable::{
    Mover, OutputPages, SourcePages, capacity, clone_file, data_sharing, pending_calls,
    permit_threads, pipe, place_all_data, reserve, set_io_priority, shared_place, splice,
    subject_of, tee, what_protects, widen,
};
