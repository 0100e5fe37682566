//! A held directory and what is done with the entries in it.
//!
//! Every call names one component relative to an open handle and opens a link itself rather than
//! what it leads to. That is enough to stay inside the tree: no path is ever resolved twice.

use std::{
    ffi::OsStr, fs::File, fs::OpenOptions, io, os::windows::fs::OpenOptionsExt,
    os::windows::io::AsHandle, os::windows::io::BorrowedHandle, os::windows::io::FromRawHandle,
    os::windows::io::OwnedHandle, path::Path, ptr::null, sync::OnceLock, time::Duration,
};

use windows_sys::{
    Wdk::Storage::FileSystem::FILE_BASIC_INFORMATION, Wdk::Storage::FileSystem::FILE_CREATE,
    Wdk::Storage::FileSystem::FILE_DIRECTORY_FILE,
    Wdk::Storage::FileSystem::FILE_DISPOSITION_DELETE,
    Wdk::Storage::FileSystem::FILE_DISPOSITION_IGNORE_READONLY_ATTRIBUTE,
    Wdk::Storage::FileSystem::FILE_DISPOSITION_INFORMATION,
    Wdk::Storage::FileSystem::FILE_DISPOSITION_INFORMATION_EX,
    Wdk::Storage::FileSystem::FILE_DISPOSITION_POSIX_SEMANTICS,
    Wdk::Storage::FileSystem::FILE_NON_DIRECTORY_FILE, Wdk::Storage::FileSystem::FILE_OPEN,
    Wdk::Storage::FileSystem::FILE_OPEN_REPARSE_POINT,
    Wdk::Storage::FileSystem::FILE_RENAME_IGNORE_READONLY_ATTRIBUTE,
    Wdk::Storage::FileSystem::FILE_RENAME_POSIX_SEMANTICS,
    Wdk::Storage::FileSystem::FILE_RENAME_REPLACE_IF_EXISTS,
    Wdk::Storage::FileSystem::FILE_SEQUENTIAL_ONLY, Wdk::Storage::FileSystem::FileBasicInformation,
    Wdk::Storage::FileSystem::FileDispositionInformation,
    Wdk::Storage::FileSystem::FileDispositionInformationEx,
    Wdk::Storage::FileSystem::FileLinkInformation, Wdk::Storage::FileSystem::FileRenameInformation,
    Wdk::Storage::FileSystem::FileRenameInformationEx, Win32::Foundation::ERROR_ACCESS_DENIED,
    Win32::Foundation::ERROR_ALREADY_EXISTS, Win32::Foundation::ERROR_DIRECTORY,
    Win32::Foundation::ERROR_SHARING_VIOLATION, Win32::Foundation::GetLastError,
    Win32::Storage::FileSystem::DELETE, Win32::Storage::FileSystem::FILE_ADD_FILE,
    Win32::Storage::FileSystem::FILE_ATTRIBUTE_READONLY,
    Win32::Storage::FileSystem::FILE_ATTRIBUTE_REPARSE_POINT,
    Win32::Storage::FileSystem::FILE_FLAG_BACKUP_SEMANTICS,
    Win32::Storage::FileSystem::FILE_GENERIC_READ, Win32::Storage::FileSystem::FILE_GENERIC_WRITE,
    Win32::Storage::FileSystem::FILE_LIST_DIRECTORY,
    Win32::Storage::FileSystem::FILE_READ_ATTRIBUTES,
    Win32::Storage::FileSystem::FILE_WRITE_ATTRIBUTES, Win32::Storage::FileSystem::READ_CONTROL,
    Win32::Storage::FileSystem::SYNCHRONIZE, Win32::System::Threading::CreateMutexW,
};

use crate::{
    path::RelPath, sys::part_name::PartOwner, sys::stat::Identity, sys::stat::Kind,
    sys::stat::Stat, sys::stat::Time, sys::types::Lock, sys::windows::attributes::Attributes,
    sys::windows::attributes::set_basic, sys::windows::name::component,
    sys::windows::name::name_from_bytes, sys::windows::name::new_component, sys::windows::nt,
    sys::windows::nt::OpenHow, sys::windows::nt::SHARE_ALL, sys::windows::nt::SHARE_READ,
    sys::windows::nt::is_remote, sys::windows::owner::is_ours, sys::windows::stat::stat_of,
    sys::windows::stat::stat_of_any, sys::windows::volume::ancestors,
};

/// A directory that is open, so that names below it are looked up there whatever its own path leads to later.
#[derive(Debug)]
pub struct Dir {
    handle: OwnedHandle,
    /// Held while the directory is locked.
    lock: OnceLock<OwnedHandle>,
}

const LIST: u32 = FILE_LIST_DIRECTORY | FILE_READ_ATTRIBUTES;

/// Opens what is there for this purpose: of a link the link itself, and whatever kind it is.
const fn as_it_is(access: u32) -> OpenHow {
    OpenHow { access, share: SHARE_ALL, disposition: FILE_OPEN, options: FILE_OPEN_REPARSE_POINT }
}

impl Dir {
    /// Opens the directory that the user named; links on the way to it are followed.
    pub fn open(path: &Path) -> io::Result<Self> {
        // The standard library takes paths of any length, in either notation.
        let file = OpenOptions::new()
            .access_mode(LIST | SYNCHRONIZE)
            .share_mode(SHARE_ALL)
            .custom_flags(FILE_FLAG_BACKUP_SEMANTICS)
            .open(path)?;
        match stat_of(file.as_handle())?.kind {
            Kind::Dir => Ok(Self::from(OwnedHandle::from(file))),
            _ => Err(io::Error::from_raw_os_error(ERROR_DIRECTORY as i32)),
        }
    }

    /// The same: only administrators make links here, or who is allowed to.
    pub fn open_named(path: &Path) -> io::Result<Self> {
        Self::open(path)
    }

    /// True if the entry `name` is a symbolic link.
    pub fn is_own_link(&self, name: &OsStr) -> bool {
        self.stat(name, false).is_ok_and(|it| it.kind == Kind::Symlink)
    }

    /// Opens the directory `name` in this one. Unless `follow`, a symbolic link or junction is refused
    /// (`NotADirectory`).
    pub fn open_dir(&self, name: &OsStr, follow: bool) -> io::Result<Self> {
        let how = OpenHow { options: FILE_DIRECTORY_FILE, ..as_it_is(LIST) };
        Ok(Self::from(self.open_entry(name, follow, how, io::ErrorKind::NotADirectory)?))
    }

    /// Opens the directory at `path` below this one, component by component; a symbolic link on the
    /// way is refused.
    pub fn open_below(&self, path: &RelPath) -> io::Result<Self> {
        path.components()
            .try_fold(self.try_clone()?, |dir, name| dir.open_dir(name_from_bytes(name)?, false))
    }

    /// Opens the file `name` for reading. No program can write to it meanwhile, and a file that one
    /// else has open for writing, or locked, is an error: Windows notes the time of a change only when
    /// the file is closed, so a change under way could not be seen. Unless `follow`, a symbolic link
    /// is refused.
    pub fn open_file(&self, name: &OsStr, follow: bool) -> io::Result<File> {
        let options = FILE_NON_DIRECTORY_FILE | FILE_SEQUENTIAL_ONLY;
        let how = OpenHow { share: SHARE_READ, options, ..as_it_is(FILE_GENERIC_READ) };
        self.open_entry(name, follow, how, io::ErrorKind::InvalidInput).map(File::from)
    }

    /// The same of a file that this process has open for writing, and which lets no other process write to it: that
    /// handle would be in the way of one that shares nothing with writers.
    pub fn open_written(&self, name: &OsStr) -> io::Result<File> {
        let options = FILE_NON_DIRECTORY_FILE | FILE_SEQUENTIAL_ONLY;
        let how = OpenHow { options, ..as_it_is(FILE_GENERIC_READ) };
        self.open_entry(name, false, how, io::ErrorKind::InvalidInput).map(File::from)
    }

    /// Opens an entry as `how`, of which the options lack whether links are followed. Unless they are,
    /// a link is `refused`.
    fn open_entry(
        &self,
        name: &OsStr,
        follow: bool,
        how: OpenHow,
        refused: io::ErrorKind,
    ) -> io::Result<OwnedHandle> {
        let name = component(name)?;
        // Opened in this way, a link is opened itself; but so is a file whose content is kept in
        // another way, which then shows what stands in for the content.
        let options = how.options | FILE_OPEN_REPARSE_POINT;
        if follow || name.is_empty() {
            return nt::open(Some(self.as_handle()), &name, how);
        }
        let itself = nt::open(Some(self.as_handle()), &name, OpenHow { options, ..how })?;
        let basic: FILE_BASIC_INFORMATION = nt::query(itself.as_handle(), FileBasicInformation)?;
        if basic.FileAttributes & FILE_ATTRIBUTE_REPARSE_POINT == 0 {
            return Ok(itself);
        }
        let stat = stat_of(itself.as_handle())?;
        if !matches!(stat.kind, Kind::File | Kind::Dir) {
            let text = "it is a link or special, which is not opened";
            return Err(io::Error::new(refused, text));
        }
        // While `itself` is open its number is no other file's, so the same number is the same file.
        let whole = nt::open(Some(self.as_handle()), &name, how)?;
        match stat_of(whole.as_handle())?.id == stat.id {
            true => Ok(whole),
            false => Err(io::Error::new(refused, "a link took its name")),
        }
    }

    /// Makes the new file `name` for writing; an error if it exists. It inherits the
    /// permissions of the directory.
    pub fn create_new(&self, name: &OsStr, _private: bool) -> io::Result<File> {
        let how = OpenHow {
            access: FILE_GENERIC_READ | FILE_GENERIC_WRITE,
            share: SHARE_READ,
            disposition: FILE_CREATE,
            options: FILE_NON_DIRECTORY_FILE | FILE_SEQUENTIAL_ONLY,
        };
        nt::open(Some(self.as_handle()), &new_component(name)?, how).map(File::from)
    }

    /// The same: files have no such permissions.
    pub fn create_as(&self, name: &OsStr, _mode: u32) -> io::Result<File> {
        self.create_new(name, true)
    }

    /// Gives the finished file `part` its final `name`, atomically. Unless `replace`, an entry that
    /// is there already is an error (`AlreadyExists`) and stays.
    pub fn publish(&self, part: &OsStr, name: &OsStr, replace: bool) -> io::Result<()> {
        self.rename_to(part, self, name, replace)
    }

    /// Moves the entry `name` into `to` under the name `new`, in the place of what is there.
    pub fn rename(&self, name: &OsStr, to: &Dir, new: &OsStr) -> io::Result<()> {
        self.rename_to(name, to, new, true)
    }

    /// Moves the entry `name`, a directory with everything in it, into `to` under the name `new`. An entry that is
    /// there already is an error (`AlreadyExists`) and stays.
    pub fn move_entry(&self, name: &OsStr, to: &Dir, new: &OsStr) -> io::Result<()> {
        self.rename_to(name, to, new, false)
    }

    fn rename_to(&self, name: &OsStr, to: &Dir, new: &OsStr, replace: bool) -> io::Result<()> {
        let (from, new_name) = (component(name)?, new_component(new)?);
        let entry = patiently(|| nt::open(Some(self.as_handle()), &from, as_it_is(DELETE)))?;
        // POSIX semantics: also while a program has the old file open.
        let mut flags = FILE_RENAME_POSIX_SEMANTICS;
        if replace {
            flags |= FILE_RENAME_REPLACE_IF_EXISTS | FILE_RENAME_IGNORE_READONLY_ATTRIBUTE;
        }
        let rename =
            |class, flags| nt::set_name(entry.as_handle(), class, flags, to.as_handle(), &new_name);
        match rename(FileRenameInformationEx, flags) {
            // Before Windows 10 1809, and on file systems other than NTFS.
            Err(error) if nt::is_unsupported(&error) => {}
            renamed => return renamed,
        }
        match rename(FileRenameInformation, u32::from(replace)) {
            Err(error) if replace && nt::is_one_of(&error, &[ERROR_ACCESS_DENIED]) => {
                // What is to give way may be read-only, which stops only this older call.
                to.make_writable(new)?;
                rename(FileRenameInformation, 1)
            }
            renamed => renamed,
        }
    }

    /// Takes the read-only attribute from the entry `name`.
    fn make_writable(&self, name: &OsStr) -> io::Result<()> {
        let how = as_it_is(FILE_READ_ATTRIBUTES | FILE_WRITE_ATTRIBUTES);
        let entry = nt::open(Some(self.as_handle()), &component(name)?, how)?;
        let attributes = stat_of(entry.as_handle())?.mode & !FILE_ATTRIBUTE_READONLY;
        set_basic(entry.as_handle(), attributes, 0, 0)
    }

    /// Removes the file or link `name`.
    pub fn remove(&self, name: &OsStr) -> io::Result<()> {
        let component = component(name)?;
        let options = FILE_OPEN_REPARSE_POINT | FILE_NON_DIRECTORY_FILE;
        let how = OpenHow { options, ..as_it_is(DELETE) };
        let entry = match patiently(|| nt::open(Some(self.as_handle()), &component, how)) {
            // A link to a directory is a directory, and must be removed all the same.
            Err(_) if self.stat(name, false)?.kind == Kind::Symlink => {
                nt::open(Some(self.as_handle()), &component, as_it_is(DELETE))?
            }
            entry => entry?,
        };
        match remove_open(entry.as_handle()) {
            Err(error) if nt::is_one_of(&error, &[ERROR_ACCESS_DENIED]) => {
                self.make_writable(name)?;
                remove_open(entry.as_handle())
            }
            removed => removed,
        }
    }

    /// Links to directories need a privilege here, so none is made.
    pub fn make_name_link(&self, _: &OsStr, _: &OsStr) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Nothing: no such link is made here.
    pub fn read_name_link(&self, _: &OsStr) -> io::Result<Option<std::ffi::OsString>> {
        Ok(None)
    }

    /// Removes the empty directory `name`.
    pub fn remove_dir(&self, name: &OsStr) -> io::Result<()> {
        let component = component(name)?;
        let options = FILE_OPEN_REPARSE_POINT | FILE_DIRECTORY_FILE;
        let how = OpenHow { options, ..as_it_is(DELETE) };
        let entry = patiently(|| nt::open(Some(self.as_handle()), &component, how))?;
        remove_open(entry.as_handle())
    }

    /// Makes the directory `name`. It inherits the permissions of this one.
    pub fn make_dir(&self, name: &OsStr, _private: bool) -> io::Result<()> {
        let how = OpenHow {
            options: FILE_DIRECTORY_FILE,
            disposition: FILE_CREATE,
            ..as_it_is(FILE_READ_ATTRIBUTES)
        };
        nt::open(Some(self.as_handle()), &new_component(name)?, how).map(drop)
    }

    /// Gives the file `original` in the directory `from` the further name `name` here; an error if
    /// `name` exists.
    pub fn hard_link(&self, from: &Dir, original: &OsStr, name: &OsStr) -> io::Result<()> {
        let name = new_component(name)?;
        let how = as_it_is(FILE_WRITE_ATTRIBUTES);
        let file = nt::open(Some(from.as_handle()), &component(original)?, how)?;
        nt::set_name(file.as_handle(), FileLinkInformation, 0, self.as_handle(), &name)
    }

    /// The metadata of `name`; of the link itself unless `follow`.
    pub fn stat(&self, name: &OsStr, follow: bool) -> io::Result<Stat> {
        let mut how = as_it_is(FILE_READ_ATTRIBUTES);
        if follow {
            how.options = 0;
        }
        stat_of(nt::open(Some(self.as_handle()), &component(name)?, how)?.as_handle())
    }

    /// The metadata of this directory.
    pub fn stat_self(&self) -> io::Result<Stat> {
        stat_of(self.as_handle())
    }

    /// The metadata of an open file.
    pub fn stat_file(file: &File) -> io::Result<Stat> {
        stat_of_any(file.as_handle())
    }

    /// The directory above this one, or the next one above that may be looked at (no other can be
    /// one that this process has open); itself at the top.
    pub fn parent(&self) -> io::Result<Dir> {
        let how = OpenHow { options: FILE_DIRECTORY_FILE, ..as_it_is(FILE_READ_ATTRIBUTES) };
        for path in ancestors(self.as_handle())? {
            if let Ok(dir) = nt::open(None, &path, how).map(Self::from)
                && dir.identity().is_ok()
            {
                return Ok(dir);
            }
        }
        self.try_clone()
    }

    /// The directory's identity.
    pub fn identity(&self) -> io::Result<Identity> {
        Ok(self.stat_self()?.id)
    }

    /// True if files here have a change time that no program can set: on NTFS few can, and know that they do.
    pub fn has_change_times(&self) -> bool {
        true
    }

    /// True if a file here is known to keep its number as long as it is there: a share need not say what it is.
    pub fn keeps_numbers(&self) -> bool {
        false
    }

    /// When this directory was made: nothing that could be relied on is told here, because a name that
    /// is made soon after another of its kind went gets that one's time.
    pub fn birth(&self) -> Option<Time> {
        None
    }

    /// When an open entry was made, where the system tells.
    pub fn birth_of(_entry: &File) -> Option<Time> {
        None
    }

    /// Fails if nothing can be made in this directory; here that is not known before it is tried.
    pub fn check_writable(&self) -> io::Result<()> {
        Ok(())
    }

    /// True if this directory belongs to the user of this process. Whether others may open it follows from the
    /// directory above, and is not looked at.
    pub fn is_private(&self) -> io::Result<bool> {
        let dir = self.reopen(READ_CONTROL)?;
        Ok(is_ours(dir.as_handle()))
    }

    /// Waits until this directory's entries (not the files they name) are on the device. On NTFS this
    /// writes the journal, which holds them; other file systems may know no such call, and write a
    /// directory as soon as it changes.
    pub fn persist(&self) -> io::Result<()> {
        let flushed = self.reopen(FILE_ADD_FILE).and_then(|dir| nt::flush(dir.as_handle()));
        flushed.or_else(|error| if nt::is_unsupported(&error) { Ok(()) } else { Err(error) })
    }

    /// True if many small files can be made here side by side.
    pub fn takes_many_at_once(&self) -> bool {
        true
    }

    /// True if room runs short here for files that are not written out yet: nothing is known of that.
    pub fn is_short_of_room_for_unwritten(&self) -> bool {
        false
    }

    /// Locks the directory against other runs on this machine while this handle is open, at the
    /// longest until the process ends. The lock is an object of the system whose name tells the
    /// directory, so it leaves nothing behind; other machines do not see it.
    pub fn lock(&self) -> io::Result<Lock> {
        let Identity { dev, ino } = self.identity()?;
        let name = format!("Global\\dircopy-{dev:016x}-{ino:016x}\0");
        let name: Vec<u16> = name.encode_utf16().collect();
        // SAFETY: the name ends with a 0 and lives through the call.
        let (handle, told) = unsafe {
            let handle = CreateMutexW(null(), 0, name.as_ptr());
            (handle, GetLastError())
        };
        if handle.is_null() {
            return match told {
                // It is that of another user.
                ERROR_ACCESS_DENIED => Ok(Lock::Taken),
                other => Err(io::Error::from_raw_os_error(other as i32)),
            };
        }
        // SAFETY: the call succeeded, so this is an open handle, and only this value has it.
        let lock = unsafe { OwnedHandle::from_raw_handle(handle) };
        if told == ERROR_ALREADY_EXISTS {
            return Ok(Lock::Taken);
        }
        let held = self.lock.set(lock).is_ok();
        let alone = held && !is_remote(self.as_handle());
        Ok(if alone { Lock::Held } else { Lock::Unknown })
    }

    /// A further handle of the same directory.
    pub fn try_clone(&self) -> io::Result<Dir> {
        Ok(Self::from(self.handle.try_clone()?))
    }

    /// This directory, opened once more to do this with it.
    pub(super) fn reopen(&self, access: u32) -> io::Result<OwnedHandle> {
        nt::open(Some(self.as_handle()), &[], as_it_is(access))
    }
}

/// Tries again for a second while a program has the file open and shares it with no other: programs that
/// look through every new file do so for an instant.
fn patiently<T>(act: impl Fn() -> io::Result<T>) -> io::Result<T> {
    const PAUSE: Duration = Duration::from_millis(20);
    for _ in 0..50 {
        match act() {
            Err(error) if nt::is_one_of(&error, &[ERROR_SHARING_VIOLATION]) => {}
            done => return done,
        }
        std::thread::sleep(PAUSE);
    }
    act()
}

/// Removes the name by which this is open.
pub(super) fn remove_open(entry: BorrowedHandle<'_>) -> io::Result<()> {
    // POSIX semantics: the name is free at once, also while a program has the file open.
    let flags = FILE_DISPOSITION_DELETE
        | FILE_DISPOSITION_POSIX_SEMANTICS
        | FILE_DISPOSITION_IGNORE_READONLY_ATTRIBUTE;
    let info = FILE_DISPOSITION_INFORMATION_EX { Flags: flags };
    match nt::set(entry, FileDispositionInformationEx, &info) {
        Err(error) if nt::is_unsupported(&error) => {
            let info = FILE_DISPOSITION_INFORMATION { DeleteFile: true };
            nt::set(entry, FileDispositionInformation, &info)
        }
        removed => removed,
    }
}

impl From<OwnedHandle> for Dir {
    fn from(handle: OwnedHandle) -> Self {
        Self { handle, lock: OnceLock::new() }
    }
}

impl AsHandle for Dir {
    fn as_handle(&self) -> BorrowedHandle<'_> {
        self.handle.as_handle()
    }
}

// Directories in which their own owner may make nothing: there are none, because the read-only attribute of a
// directory keeps no program from making entries in it.

impl Dir {
    /// The permissions of a file are no access list here.
    pub fn mode_without_list(&self, _: &OsStr, stat: &Stat) -> u32 {
        stat.mode
    }

    /// No.
    pub fn is_closed(_: &Stat) -> bool {
        false
    }

    /// Changes nothing.
    pub fn open_up(&self, _: &Stat) -> io::Result<bool> {
        Ok(false)
    }

    /// Changes nothing.
    pub fn close_up(&self, _: &Stat) -> io::Result<()> {
        Ok(())
    }

    /// Changes nothing: who may enter a directory comes from the one that it is in.
    pub fn take_over(&self) -> io::Result<()> {
        Ok(())
    }

    /// No.
    pub fn is_closed_in_place(_: &Stat) -> bool {
        false
    }

    /// The label that the copy of a directory gets which is `stat`.
    pub fn label_of_copy(stat: &Stat) -> Stat {
        *stat
    }

    /// Nothing: no metadata tell who may enter a directory.
    ///
    /// # Errors
    /// Always (`NotFound`).
    pub fn stat_above(&self, _: usize) -> io::Result<Stat> {
        Err(io::ErrorKind::NotFound.into())
    }

    /// True, because the metadata of a directory do not tell its owner here.
    pub fn is_kept_by_us(_: &Stat) -> bool {
        true
    }

    /// The same of names in this directory.
    ///
    /// # Errors
    /// None.
    pub fn keeps_names(&self) -> io::Result<bool> {
        Ok(true)
    }

    /// The same of this directory.
    ///
    /// # Errors
    /// None.
    pub fn is_kept(&self) -> io::Result<bool> {
        Ok(true)
    }

    /// The same of a file.
    ///
    /// # Errors
    /// None.
    pub fn is_file_kept(_: &File, _: &Stat) -> io::Result<bool> {
        Ok(true)
    }

    /// The same of an entry.
    pub fn keeps(&self, _: &OsStr, _: &Stat) -> bool {
        true
    }

    /// No: who may enter a directory comes from the one that it is in.
    pub fn lets_in_more_than(&self, _: &Stat, _: &Attributes, _: bool) -> io::Result<bool> {
        Ok(false)
    }

    /// No: who may enter a directory comes from the one that it is in.
    pub fn is_closed_since(
        &self,
        _: &Stat,
        _: &Attributes,
        _: Option<Identity>,
    ) -> io::Result<bool> {
        Ok(false)
    }

    /// No, because the metadata of a directory do not tell its owner here.
    pub fn is_strange(_: &Stat, _: &Stat) -> bool {
        false
    }

    /// Who may rename what is not asked here.
    pub fn is_place_kept(&self) -> io::Result<bool> {
        Ok(true)
    }

    /// No: who may enter a directory comes from the one that it is in.
    pub fn is_reached_by_more_than(&self, _: &Self, _: bool) -> io::Result<bool> {
        Ok(false)
    }

    /// Who may rename what is not asked here.
    pub fn is_place_kept_for(&self, _: &Stat) -> io::Result<bool> {
        Ok(true)
    }

    /// Unknown, so no.
    pub fn is_open_to_everyone(&self) -> io::Result<bool> {
        Ok(false)
    }

    /// False, because the metadata of a file do not tell its owner here.
    ///
    /// # Errors
    /// None.
    pub fn keeps_labels(&self, _: PartOwner) -> io::Result<bool> {
        Ok(false)
    }

    /// No.
    pub fn is_opened_up(_: &Stat, _: u32) -> bool {
        false
    }
}
