//! What stands on macOS in the place of what Linux alone has. None of it was ever run there.
//!
//! With the feature `portable` these ways are in use on Linux, so that the tests try them; but what needs calls that
//! only macOS has is Linux's then. What cannot be known here is a doubt, which the rest of the program settles by
//! reading, or says that it is not known.

#[cfg(any(target_os = "macos", test))]
#[cfg_attr(target_os = "linux", allow(dead_code))]
mod bulk;
#[cfg(target_os = "linux")]
#[path = "../linux/data_place.rs"]
#[allow(dead_code)]
mod data_place;
#[cfg_attr(target_os = "linux", path = "../linux/durable.rs", allow(dead_code))]
mod durable;
#[cfg_attr(target_os = "linux", path = "../linux/list.rs")]
mod list;
#[cfg_attr(target_os = "linux", path = "../linux/place.rs")]
mod place;
#[cfg_attr(target_os = "linux", path = "../linux/unopened.rs")]
pub(super) mod unopened;
mod untold;
#[cfg_attr(target_os = "linux", path = "../linux/xattr.rs")]
pub(super) mod xattr;

pub use crate::sys::portable::{
    KNOWS_DISKS, Mover, OutputPages, SourcePages, capacity, clone_file, data_sharing, disks_of,
    let_go, pending_calls, permit_threads, pipe, place_all_data, plugged_in,
    read_no_more_than_asked, reserve, set_io_priority, shared_place, splice, subject_of, tee,
    what_protects, widen,
};
pub use durable::{durable, durable as durable_here};
pub use list::DirReader;
pub use place::{
    Place, is_on_turning_disk, mounted_volumes, no_own_mount, place_on_disk, volume_details,
    volume_label, volume_uuid,
};
pub use untold::{ALIGNMENT, Medium, lock_holder, may_be_written_to, time_of_change};

// What the rest of `unix` needs of it.
pub(super) use durable::{fdatasync, fsync};
pub(super) use untold::{ONLY_THROUGH, UNNOTICED, abstract_address, is_open_for_writing};
pub(super) use xattr::{denies, limited_to, of_groups, permitted_without, without_mask};
