//! Linux: calls relative to directory handles, through `rustix`.

mod access_list;
mod attributes;
mod cache;
mod data_place;
mod dir;
mod durable;
mod inode;
mod inode_items;
mod kind;
mod leftover;
mod link;
mod list;
mod medium;
mod owner;
mod pending;
mod place;
mod plain;
mod plug;
mod process;
mod special;
mod stream;
mod subvolume;
mod transfer;
mod trial;
mod volume;
mod volumes;

pub use attributes::Attributes;
pub use cache::{OutputPages, SourcePages, read_no_more_than_asked};
pub use data_place::{data_sharing, place_all_data, shared_place};
pub use dir::{Dir, LinkTarget, name_from_bytes, names_device, swallowed_quote, unusable};
pub use durable::durable;
pub use inode::what_protects;
pub use leftover::{is_ours_alone, keep_locked, persist_content};
pub use list::DirReader;
pub use medium::{ALIGNMENT, Medium};
pub use pending::{pending_calls, permit_threads, subject_of};
pub use place::{Place, no_own_mount};
pub use plain::{open_plain, read_at, who_else_changes};
pub use plug::plugged_in;
pub use process::{
    Helper, Manager, address_space_left, descriptors_are_wanted, heed_memory_limit, host_name,
    keep_own_permissions, lock_holder, may_give_away, on_interrupt, on_status_request,
    open_file_limit, raise_open_file_limit, set_io_priority, set_nice, settings_directories,
    shows_unicode, standard_input, take_waiting_signals, time_of_change, wait_readable,
    was_closed_at_start,
};
pub use stream::{StreamEnd, let_read, may_read, new_file_mode, touch};
pub use transfer::{Mover, capacity, clone_file, pipe, splice, tee, widen};
pub use volume::{
    allow_holes, close_file, has_exact_sizes, is_device_error, is_disk_full, is_for_want_of_means,
    is_output_gone, is_synthetic, longest_name, may_lack_owners, most_below, next_extent,
    persist_file, reserve, room,
};
pub use volumes::{
    is_on_turning_disk, mounted_volumes, place_on_disk, volume_details, volume_label, volume_uuid,
};
