//! What Linux alone has: its calls, `/proc` and `/sys`, and its file systems.

mod cache;
mod data_place;
mod disks;
mod durable;
mod inode;
mod list;
mod making;
mod medium;
mod place;
mod process;
mod transfer;
pub(super) mod unopened;
pub(super) mod xattr;

pub use cache::{OutputPages, SourcePages, let_go, read_no_more_than_asked};
pub use data_place::{data_sharing, place_all_data, shared_place};
pub use disks::{KNOWS_DISKS, disks_of, plugged_in, reserve};
pub use durable::{durable, durable_here};
pub use inode::what_protects;
pub use list::DirReader;
pub use medium::{ALIGNMENT, Medium};
pub use place::{
    Place, is_on_turning_disk, mounted_volumes, no_own_mount, place_on_disk, volume_details,
    volume_label, volume_uuid,
};
pub use process::{
    lock_holder, may_be_written_to, pending_calls, permit_threads, set_io_priority, subject_of,
    time_of_change,
};
pub use transfer::{Mover, capacity, clone_file, pipe, splice, tee, widen};

// What the rest of `unix` needs of it.
pub(super) use durable::{fdatasync, fsync};
pub(super) use process::{ONLY_THROUGH, UNNOTICED, abstract_address, is_open_for_writing};
pub(super) use xattr::{denies, limited_to, of_groups, permitted_without, without_mask};
