//! Windows: NT calls relative to directory handles, through `windows-sys`.
//!
//! The NT calls rather than those of Win32, because only they open a name relative to a directory's
//! handle, and because the limit of 260 characters is Win32's: below the roots no path is ever put
//! together, so none can be too long.

mod attributes;
pub(in crate::sys) mod dir;
pub(in crate::sys) mod link;
pub mod list;
mod medium;
mod name;
mod nt;
mod owner;
mod place;
mod plain;
mod process;
mod stat;
pub(in crate::sys) mod stream;
mod trial;
pub(in crate::sys) mod volume;

pub use attributes::Attributes;
pub use list::DirReader;
pub use medium::{ALIGNMENT, Medium};
pub use name::{name_from_bytes, names_device, swallowed_quote, unusable};
pub use place::Place;
pub use place::no_own_mount;
pub use plain::{is_ours_alone, keep_locked, persist_content};
pub use plain::{open_plain, read_at, who_else_changes};
pub use process::Helper;
pub use process::Manager;
pub use process::set_nice;
pub use process::{
    address_space_left, descriptors_are_wanted, heed_memory_limit, keep_own_permissions,
    may_give_away, on_interrupt, on_status_request, open_file_limit, raise_open_file_limit,
    settings_directories, shows_unicode, standard_input, take_waiting_signals, wait_readable,
    was_closed_at_start,
};
pub use process::{host_name, lock_holder};
pub use stream::{StreamEnd, let_read, may_read, new_file_mode, touch};
pub use volume::durable;
pub use volume::{
    allow_holes, close_file, has_exact_sizes, is_device_error, is_disk_full, is_for_want_of_means,
    is_output_gone, is_synthetic, longest_name, may_lack_owners, most_below, next_extent,
    persist_file, room,
};
pub use volume::{is_on_turning_disk, place_on_disk};
pub use volume::{mounted_volumes, volume_details, volume_label, volume_uuid};

pub use crate::sys::portable::{
    Mover, OutputPages, SourcePages, capacity, clone_file, data_sharing, pending_calls,
    permit_threads, pipe, place_all_data, plugged_in, reserve, set_io_priority, shared_place,
    splice, subject_of, tee, what_protects, widen,
};
