//! What Linux alone has: its calls, `/proc` and `/sys`, and its file systems.

mod access_list;
mod cache;
mod data_place;
mod disks;
mod durable;
mod inode;
mod inode_items;
mod lease;
mod list;
mod medium;
mod nameless;
mod open;
mod pending;
mod place;
mod plug;
mod process;
mod special;
mod subvolume;
mod transfer;
pub(super) mod unopened;
mod volume;
mod volumes;
pub(super) mod xattr;

pub use cache::{OutputPages, SourcePages, let_go, read_no_more_than_asked};
pub use data_place::{data_sharing, place_all_data, shared_place};
pub use disks::{KNOWS_DISKS, disks_of};
pub use durable::durable;
pub use inode::what_protects;
pub use list::DirReader;
pub use medium::{ALIGNMENT, Medium};
pub use pending::{pending_calls, permit_threads, subject_of};
pub use place::{Place, no_own_mount};
pub use plug::plugged_in;
pub use process::{lock_holder, set_io_priority, time_of_change};
pub use transfer::{Mover, capacity, clone_file, pipe, splice, tee, widen};
pub use volume::reserve;
pub use volumes::{
    is_on_turning_disk, mounted_volumes, place_on_disk, volume_details, volume_label, volume_uuid,
};

// What the rest of `unix` needs of it.
pub(super) use access_list::{denies, limited_to, of_groups, permitted_without, without_mask};
pub(super) use durable::{fdatasync, fsync};
pub(super) use lease::is_open_for_writing;
pub(super) use open::{ONLY_THROUGH, UNNOTICED};
pub(super) use process::abstract_address;
