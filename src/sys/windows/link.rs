//! Symbolic links and junctions, copied as they are.
//!
//! Symbolic links and junctions, whose target is more than a path here: it is relative or absolute, for a file or for a
//! directory, and has a form for the system and one for people. The file system keeps all of it in one piece, which is
//! read from one link and given to the other without being understood.

use std::{ffi::OsStr, ffi::OsString, io, os::windows::io::AsHandle, os::windows::io::OwnedHandle};

use windows_sys::{
    Wdk::Storage::FileSystem::FILE_CREATE, Wdk::Storage::FileSystem::FILE_DIRECTORY_FILE,
    Wdk::Storage::FileSystem::FILE_NON_DIRECTORY_FILE, Wdk::Storage::FileSystem::FILE_OPEN,
    Wdk::Storage::FileSystem::FILE_OPEN_REPARSE_POINT, Win32::Storage::FileSystem::DELETE,
    Win32::Storage::FileSystem::FILE_ATTRIBUTE_DIRECTORY,
    Win32::Storage::FileSystem::FILE_READ_ATTRIBUTES,
    Win32::Storage::FileSystem::FILE_WRITE_ATTRIBUTES,
    Win32::System::Ioctl::FSCTL_GET_REPARSE_POINT, Win32::System::Ioctl::FSCTL_SET_REPARSE_POINT,
};

use crate::sys::windows::{
    attributes::Attributes, attributes::COPIED, attributes::set_basic, dir::Dir, dir::remove_open,
    name::component, name::new_component, nt, nt::OpenHow, nt::SHARE_ALL, owner::ask_for_links,
    stat::stat_of, stat::ticks_of,
};
use crate::sys::{part_name::PartOwner, stat::Stat};

/// The most a link can hold (MAXIMUM_REPARSE_DATA_BUFFER_SIZE in ntifs.h).
const MOST: usize = 16 * 1024;

/// Where a link leads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkTarget {
    /// True if the link itself is a directory, as those to directories are.
    is_dir: bool,
    /// The REPARSE_DATA_BUFFER.
    data: Vec<u8>,
}

impl Dir {
    /// Where the symbolic link or junction `name` leads.
    pub fn read_link(&self, name: &OsStr) -> io::Result<LinkTarget> {
        let link = self.open_link(name, FILE_READ_ATTRIBUTES)?;
        let mut data = vec![0; MOST];
        let len = nt::control(link.as_handle(), FSCTL_GET_REPARSE_POINT, &[], &mut data)?;
        data.truncate(len);
        let is_dir = stat_of(link.as_handle())?.mode & FILE_ATTRIBUTE_DIRECTORY != 0;
        Ok(LinkTarget { is_dir, data })
    }

    /// Makes the symbolic link or junction `name`; an error if `name` exists, and for symbolic links
    /// where the user may make none.
    pub fn make_link(&self, target: &LinkTarget, name: &OsStr) -> io::Result<()> {
        ask_for_links();
        let kind = if target.is_dir { FILE_DIRECTORY_FILE } else { FILE_NON_DIRECTORY_FILE };
        let how = OpenHow {
            access: FILE_WRITE_ATTRIBUTES | DELETE,
            share: SHARE_ALL,
            disposition: FILE_CREATE,
            options: kind | FILE_OPEN_REPARSE_POINT,
        };
        let link = nt::open(Some(self.as_handle()), &new_component(name)?, how)?;
        let set = nt::control(link.as_handle(), FSCTL_SET_REPARSE_POINT, &target.data, &mut []);
        set.map(drop).inspect_err(|_| {
            // Without it this is an empty file, which was not asked for. The first error counts.
            let _ = remove_open(link.as_handle());
        })
    }

    /// Has `make` make an entry as [`create_part_by`](Self::create_part_by) does, and `label` label it; with its name
    /// comes what that returns. Owners are not given here, so it need not be where nobody gets at it.
    ///
    /// # Errors
    /// The system's; within are those of `label`.
    pub fn create_part_apart<T, E>(
        &self,
        owner: PartOwner,
        make: impl Fn(&Dir, &OsStr) -> io::Result<()>,
        label: impl Fn(&Dir, &OsStr) -> Result<T, E>,
    ) -> io::Result<Result<(OsString, T), E>> {
        let part = self.create_part_by(owner, |part| make(self, part))?;
        Ok(label(self, &part).map(|labelled| (part, labelled)))
    }

    /// Gives the link `name` attributes and times.
    pub fn set_link_metadata(&self, name: &OsStr, stat: &Stat, _: &Attributes) -> io::Result<()> {
        let link = self.open_link(name, FILE_WRITE_ATTRIBUTES)?;
        set_basic(link.as_handle(), stat.mode & COPIED, 0, ticks_of(stat.mtime))
    }

    fn open_link(&self, name: &OsStr, access: u32) -> io::Result<OwnedHandle> {
        let (share, disposition, options) = (SHARE_ALL, FILE_OPEN, FILE_OPEN_REPARSE_POINT);
        let how = OpenHow { access, share, disposition, options };
        nt::open(Some(self.as_handle()), &component(name)?, how)
    }
}
