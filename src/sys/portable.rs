//! What only Linux has: the ordinary way, on Windows and macOS.
//!
//! The page cache is left to the system, bytes are read and written, and room is found as a file
//! grows.

use std::{collections::BTreeSet, ffi::OsStr, fs::File, io, io::Read, path::PathBuf};

use crate::{
    sys::Attributes, sys::Dir, sys::dir::Special, sys::interrupted::write_all,
    sys::part_name::PartOwner, sys::stat::Stat, sys::types::CachePolicy, sys::types::Cloned,
    sys::types::DataSharing, sys::types::IoPriority, sys::types::KernelCopy,
    sys::types::NamedInode, sys::types::PendingCall, sys::types::PluggedIn,
    sys::types::ResidentBytes, sys::types::Spliced,
};

/// Does nothing here.
pub fn read_no_more_than_asked(_: &File) {}

/// True if the disks below file systems are known.
pub const KNOWS_DISKS: bool = false;

/// The name of the file system of `dir`: what is below it is not told here.
pub fn disks_of(dir: &Dir) -> BTreeSet<String> {
    dir.identity().iter().map(|id| format!("file system {}", id.dev)).collect()
}

/// Does nothing here.
pub fn let_go(_: &File) {}

impl CachePolicy {
    /// Nothing suits: the system is not asked to let go of anything.
    pub fn of<T>(_: T) -> Self {
        Self::None
    }
}

/// The pages of a file that is read: left to the system here.
#[derive(Debug, Default)]
pub struct SourcePages(());

impl SourcePages {
    /// Does nothing here.
    pub fn new(_: CachePolicy, _: &File, _: u64) -> Self {
        Self(())
    }

    /// Does nothing here.
    pub fn sought(&self, _: u64) {}

    /// Reads on from the file's position.
    pub fn read(&self, mut file: &File, room: &mut [u8]) -> io::Result<usize> {
        file.read(room)
    }

    /// Number of bytes that may be moved from `at` on.
    pub fn before_move(&self, _: &File, _: u64) -> u64 {
        u64::MAX
    }

    /// Does nothing here.
    pub fn finish(&self, _: &File) -> ResidentBytes {
        ResidentBytes::default()
    }
}

/// The pages of a file that is written: left to the system here.
#[derive(Debug, Default)]
pub struct OutputPages(());

impl OutputPages {
    /// Does nothing here.
    pub fn new(_: CachePolicy) -> Self {
        Self(())
    }

    /// Writes on from the file's position.
    pub fn write_all(&mut self, file: &File, bytes: &[u8]) -> io::Result<()> {
        write_all(file, bytes)
    }

    /// Number of bytes that may be moved there at a time.
    pub fn before_move(&self) -> u64 {
        u64::MAX
    }

    /// Does nothing here.
    pub fn moved(&mut self, _: &File, _: u64) -> io::Result<()> {
        Ok(())
    }

    /// Does nothing here.
    pub fn skipped(&mut self, _: u64) {}

    /// Does nothing here.
    pub fn finish(&mut self, _: &File, _: bool) -> io::Result<ResidentBytes> {
        Ok(ResidentBytes::default())
    }
}

/// Data cannot be shared between files here.
pub fn clone_file(_: &File, _: &File) -> io::Result<Cloned> {
    Ok(Cloned::No { cause: io::ErrorKind::Unsupported.into(), ever: true })
}

impl Dir {
    /// The result of cloning one file in this directory to another: none.
    pub fn try_clone_within(&self) -> Option<Cloned> {
        Some(Cloned::No { cause: io::ErrorKind::Unsupported.into(), ever: true })
    }

    /// Files without a name do not exist here.
    pub fn create_nameless(&self, _: u32) -> io::Result<Option<File>> {
        Ok(None)
    }

    /// Files without a name do not exist here.
    pub fn modes_at_birth(&self) -> u32 {
        0
    }

    /// Files without a name do not exist here.
    pub fn publish_nameless(&self, _: &File, _: &OsStr) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Files without a name do not exist here.
    pub fn can_publish_nameless(&self, _: PartOwner) -> bool {
        false
    }

    /// Makes nothing durable at once: flushing a whole volume is for administrators only.
    pub fn can_persist_all(&self) -> bool {
        false
    }

    /// See [`can_persist_all`](Self::can_persist_all).
    pub fn persist_all(&self) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Makes the directory `name`, for its owner only.
    pub fn make_tree(&self, name: &OsStr) -> io::Result<()> {
        self.make_dir(name, true)
    }

    /// There are no snapshots here.
    pub fn make_snapshot(&self, _: &Dir, _: &OsStr) -> io::Result<bool> {
        Ok(false)
    }

    /// No FIFO, socket or device is copied here.
    pub fn special(&self, _: &OsStr) -> io::Result<Special> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// None is made here.
    pub fn make_special(&self, _: Special, _: &OsStr) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// None was made here.
    pub fn set_special_metadata(
        &self,
        _: Special,
        _: &OsStr,
        _: &Stat,
        _: &Attributes,
    ) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Each file is to be looked at by its name here.
    pub fn stat_committed(&self, files: &[NamedInode<'_>]) -> Vec<Option<Stat>> {
        vec![None; files.len()]
    }

    /// Nothing is protected so here.
    pub fn is_protected(&self) -> bool {
        false
    }

    /// Nothing is protected so here.
    pub fn unprotect(&self) -> bool {
        false
    }

    /// Nothing is protected so here.
    pub fn unprotect_file(&self, _: &OsStr) -> bool {
        false
    }

    /// Removes the file or link `name`.
    pub fn remove_protected(&self, name: &OsStr) -> io::Result<()> {
        self.remove(name)
    }

    /// There are no subvolumes here.
    pub fn is_subvolume(&self) -> bool {
        false
    }

    /// A directory goes entry by entry here.
    pub fn destroy_tree(&self, _: &OsStr) -> bool {
        false
    }
}

/// Moves nothing: the bytes are to be read and written.
#[derive(Debug)]
pub struct Mover;

impl Mover {
    /// There is nothing to try.
    pub fn new(_: KernelCopy) -> Self {
        Self
    }

    /// Not at all.
    pub fn way(&self) -> KernelCopy {
        KernelCopy::None
    }

    /// It was not tried.
    pub fn has_no_ranges(&self) -> bool {
        true
    }

    /// Moves nothing.
    pub fn go_on(&mut self, _: &File, _: &File, _: u64) -> io::Result<Option<u64>> {
        Ok(None)
    }
}

/// Sets nothing aside: room is taken as the file grows.
pub fn reserve(_: &File, _: u64) -> io::Result<()> {
    Ok(())
}

/// There is nothing like it here.
pub fn set_io_priority(_: IoPriority) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// There are no pipes here whose bytes the system moves.
pub fn pipe() -> io::Result<(File, File)> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Leaves a pipe as it is.
pub fn widen(_: &File) {}

/// Nothing that is known.
pub fn capacity(_: &File) -> u64 {
    0
}

/// Moves nothing: the bytes are to be read and written.
pub fn splice(_: &File, _: &File, _: u64) -> io::Result<Spliced> {
    Ok(Spliced::NotHere)
}

/// Nothing forbids them here.
pub fn permit_threads() {}

/// Not known here.
pub fn what_protects(_: &Dir, _: &OsStr) -> Option<&'static str> {
    None
}

/// Not known here.
pub fn data_sharing(_: &File) -> DataSharing {
    DataSharing::Unknown
}

/// Cannot be asked here.
pub fn place_all_data(_: &File) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Not known here.
pub fn shared_place(_: &File, _: &Stat) -> Option<Vec<u64>> {
    None
}

/// The calls that threads wait for: not told here.
pub fn pending_calls() -> Vec<PendingCall> {
    Vec::new()
}

/// Nothing that is known.
pub fn subject_of(_: &PendingCall) -> Option<PathBuf> {
    None
}

/// Moves nothing.
pub fn tee(_: &File, _: &File, _: u64) -> io::Result<Spliced> {
    Ok(Spliced::NotHere)
}

/// Not told here.
pub fn plugged_in(_: &Dir) -> Option<PluggedIn> {
    None
}
