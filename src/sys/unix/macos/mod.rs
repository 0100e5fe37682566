//! What stands on macOS in the place of what Linux alone has. None of it was ever run there.
//!
//! With the feature `portable` these ways are in use on Linux, so that the tests try them; but what needs calls that
//! only macOS has is Linux's then. What cannot be known here is a doubt, which the rest of the program settles by
//! reading, or says that it is not known.

#[cfg(target_os = "linux")]
#[path = "../linux/access_list.rs"]
mod access_list;
#[cfg(any(target_os = "macos", test))]
#[cfg_attr(target_os = "linux", allow(dead_code))]
mod bulk;
#[cfg(target_os = "linux")]
#[path = "../linux/data_place.rs"]
#[allow(dead_code)]
mod data_place;
#[cfg_attr(target_os = "linux", path = "../linux/durable.rs")]
mod durable;
mod inode;
#[cfg_attr(target_os = "linux", path = "../linux/list.rs")]
mod list;
mod medium;
#[cfg_attr(target_os = "linux", path = "../linux/place.rs")]
mod place;
mod process;
#[cfg_attr(target_os = "linux", path = "../linux/unopened.rs")]
pub(super) mod unopened;
#[cfg_attr(target_os = "linux", path = "../linux/volumes.rs")]
mod volumes;
#[cfg_attr(target_os = "linux", path = "../linux/xattr.rs")]
pub(super) mod xattr;

pub use crate::sys::portable::{
    KNOWS_DISKS, Mover, OutputPages, SourcePages, capacity, clone_file, data_sharing, disks_of,
    let_go, pending_calls, permit_threads, pipe, place_all_data, plugged_in,
    read_no_more_than_asked, reserve, set_io_priority, shared_place, splice, subject_of, tee,
    what_protects, widen,
};
pub use durable::durable;
pub use list::DirReader;
pub use medium::{ALIGNMENT, Medium};
pub use place::{Place, no_own_mount};
pub use process::{lock_holder, time_of_change};
pub use volumes::{
    is_on_turning_disk, mounted_volumes, place_on_disk, volume_details, volume_label, volume_uuid,
};

// What the rest of `unix` needs of it.
#[cfg(target_os = "linux")]
pub(super) use access_list::{denies, limited_to, of_groups, permitted_without, without_mask};
pub(super) use durable::{fdatasync, fsync};
pub(super) use process::{ONLY_THROUGH, UNNOTICED, abstract_address, is_open_for_writing};
#[cfg(target_os = "macos")]
pub(super) use xattr::{denies, limited_to, of_groups, permitted_without, without_mask};
