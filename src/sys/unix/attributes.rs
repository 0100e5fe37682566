//! The attributes that a copy takes over besides the content: permissions, times, owner, extended attributes.
//!
//! POSIX ACLs are extended attributes here (`system.posix_acl_*`). What cannot be set is collected,
//! never fatal: the content is right whatever the label says. But a call that sets a label may bring an error
//! of what was written before.

use std::{ffi::CStr, ffi::CString, fs::File, io, os::fd::AsFd, os::fd::BorrowedFd};

use rustix::{fs::Gid, fs::Mode, io::Errno};

use crate::{
    sys::interrupted::uninterrupted, sys::stat::Stat, sys::unix::dir::owner_of,
    sys::unix::dir::times_of, sys::unix::owner::is_born_owned, sys::unix::owner::mode_of_another,
    sys::unix::process::acting_as, sys::unix::process::is_root, sys::unix::system::denies,
    sys::unix::system::limited_to, sys::unix::system::of_groups,
    sys::unix::system::permitted_without, sys::unix::system::without_mask,
    sys::unix::system::xattr, sys::unix::system::xattr::ACCESS_LIST,
    sys::unix::system::xattr::INHERITED_LIST, sys::unix::volume::flush_file,
    sys::unix::volume::is_unsupported,
};

/// The extended attributes of a file or directory that a copy should have too.
#[derive(Debug, Default)]
pub struct Attributes(pub(super) Vec<(CString, Vec<u8>)>);

/// What a program may do that is not root's (capabilities(7)).
const CAPABILITIES: &CStr = c"security.capability";

/// The most that the attributes of one file or directory may take, names and values together; bytes. The
/// largest value has 64 KiB (xattr(7)). Of some files, and of each directory on the way down, they are
/// held at a time: on xfs 6,000 values of 64 KiB in a few files took 2.9 GB.
pub(super) const MOST: usize = 256 << 10;

pub(super) type ListAttributes<'a> = dyn Fn(Option<&mut [u8]>) -> rustix::io::Result<usize> + 'a;
pub(super) type GetAttribute<'a> =
    dyn Fn(&CStr, Option<&mut [u8]>) -> rustix::io::Result<usize> + 'a;

impl Attributes {
    /// Reads them from an open file or directory. A file system without any has none.
    ///
    /// # Errors
    /// The system's; [`FileTooLarge`](io::ErrorKind::FileTooLarge) if they take more than 256 KiB.
    pub fn read(from: impl AsFd) -> io::Result<Self> {
        Self::read_up_to(from, MOST)
    }

    /// True if there is more than labels here that [can be copied](Self::read_all).
    pub const HAVE_MORE: bool = false;

    /// The same: there is nothing more here.
    ///
    /// # Errors
    /// As above.
    pub fn read_all(from: impl AsFd, _are_all: bool) -> io::Result<Self> {
        Self::read(from)
    }

    /// True if there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn read_up_to(from: impl AsFd, most: usize) -> io::Result<Self> {
        let from = from.as_fd();
        let list = |room: Option<&mut [u8]>| xattr::list(from, room);
        let get = |name: &CStr, room: Option<&mut [u8]>| xattr::get(from, name, room);
        Self::collect(most, &list, &get)
    }

    /// Reads what `list` names by `get`. Both fill room with what there is, and only say how much that is
    /// if they are given none.
    pub(super) fn collect(
        most: usize,
        list: &ListAttributes<'_>,
        get: &GetAttribute<'_>,
    ) -> io::Result<Self> {
        let mut left = most;
        // Nearly every file has none or a few: one call without memory of its own.
        let (mut few, mut many) = ([0u8; 1024], Vec::new());
        let names = match list(Some(&mut few)) {
            Ok(len) => &few[..len],
            Err(Errno::RANGE) => {
                many.resize(list(None)?, 0);
                let len = list(Some(&mut many))?;
                &many[..len]
            }
            Err(Errno::NOENT) => return Ok(Self::default()),
            Err(error) if is_unsupported(error) => return Ok(Self::default()),
            Err(other) => return Err(other.into()),
        };
        let mut attributes = Vec::new();
        for name in names.split(|&b| b == 0).filter(|name| xattr::is_copied(name)) {
            let name = CString::new(name)?;
            let len = get(&name, None)?;
            let taken = len.saturating_add(name.as_bytes_with_nul().len());
            left = left.checked_sub(taken).ok_or_else(|| {
                let text = format!("its extended attributes take more than {most} bytes");
                io::Error::new(io::ErrorKind::FileTooLarge, text)
            })?;
            let mut value = vec![0; len];
            match get(&name, Some(&mut value)) {
                Ok(len) => value.truncate(len),
                // Removed or grown since it was listed: then it is not the copy's to have.
                Err(xattr::NONE | Errno::RANGE) => continue,
                Err(other) => return Err(other.into()),
            }
            attributes.push((name, value));
        }
        Ok(Self(attributes))
    }

    /// Gives an open file or directory the owner (as root), these attributes, and `source`'s
    /// permissions and modification time. `owned` says that the new entry has the right owner
    /// already. What could not be set is handed to `failed` with the deed.
    pub fn apply(
        &self,
        to: impl AsFd,
        source: &Stat,
        owned: bool,
        failed: impl FnMut(&'static str, io::Error),
    ) {
        self.set_all(to.as_fd(), source, owned, None, &mut told_to(failed));
    }

    /// The same for an entry that was made with the permissions `born`, if they are known. Each label is set by
    /// `set`, which says whether it was.
    fn set_all(
        &self,
        to: BorrowedFd<'_>,
        source: &Stat,
        owned: bool,
        born: Option<u32>,
        set: &mut dyn FnMut(&'static str, SetLabel<'_>) -> bool,
    ) {
        let root = is_root();
        let mut mode = source.mode;
        // The owner first: changing it clears set-user-ID and file capabilities (chown(2)).
        if root && !owned {
            let (uid, gid) = owner_of(source);
            if !set("set the owner of", &|| rustix::fs::fchown(to, uid, gid)) {
                mode &= 0o1777;
            }
        } else if !owned {
            mode = self.mode_by_group(to, source);
        }
        for (name, value) in &self.0 {
            let is_list = name.as_c_str() == ACCESS_LIST;
            let label = || match is_list {
                true => xattr::set(to, name, &limited_to(value, mode)),
                false => xattr::set(to, name, value),
            };
            if !set("set an extended attribute of", &label) && is_list {
                mode &= permitted_without(value);
            }
        }
        // An ACL that was set has changed them.
        let has_mode = born == Some(mode) && self.0.is_empty();
        if !has_mode {
            let mode = Mode::from_raw_mode(mode as _);
            set("set the permissions of", &|| rustix::fs::fchmod(to, mode));
        }
        set("set the modification time of", &|| rustix::fs::futimens(to, &times_of(source)));
    }

    /// The permissions that an entry of another owner, and of the group `gid`, gets from `source`, which has these.
    /// Those of the source's group come as all others there, and they and those of the entry's own get no more than a
    /// list gives them at the source.
    pub(super) fn mode_of_another(&self, source: &Stat, gid: u32) -> u32 {
        let [all, own] = self.access_list().map_or([0o7; 2], |list| of_groups(list, gid));
        let mode = mode_of_another(source, gid);
        if gid == source.gid { mode } else { mode & (0o7700 | own << 3 | all) }
    }

    /// The same for an open entry of this user, which gets `source`'s group where that makes a difference and this user
    /// is in it.
    fn mode_by_group(&self, to: BorrowedFd<'_>, source: &Stat) -> u32 {
        // A list may name the group that the entry has.
        let gid = rustix::fs::fstat(to).ok().filter(|_| !self.0.is_empty()).map(|to| to.st_gid);
        let narrow = self.mode_of_another(source, gid.unwrap_or(!source.gid));
        let whole = match source.uid == acting_as().0 {
            true => source.mode,
            false => self.mode_of_another(source, source.gid),
        };
        let gid = Some(Gid::from_raw(source.gid));
        let may_be_whole = narrow != whole && rustix::fs::fchown(to, None, gid).is_ok();
        if may_be_whole { whole } else { narrow }
    }

    /// The permissions that an entry which is `there` gets from `source`, which has these.
    fn mode_at(&self, there: &Stat, source: &Stat) -> u32 {
        let owned = (source.uid, source.gid) == (there.uid, there.gid);
        if owned || is_root() { source.mode } else { self.mode_of_another(source, there.gid) }
    }

    /// True if an entry that is `there` has `source`'s owner (as root) and permissions, as [`apply`](Self::apply) would
    /// set them.
    fn is_labelled(&self, there: &Stat, source: &Stat) -> bool {
        let owned = (source.uid, source.gid) == (there.uid, there.gid);
        (owned || !is_root()) && there.mode == self.mode_at(there, source)
    }

    /// True if new entries in this directory get access lists from it, or may: whoever owns it can give it some, and
    /// take them away again before anybody looks.
    pub fn may_be_inherited_in(dir: impl AsFd) -> bool {
        if !rustix::fs::fstat(&dir).is_ok_and(|dir| dir.st_uid == acting_as().0) {
            return true;
        }
        match xattr::get(dir.as_fd(), INHERITED_LIST, None) {
            Ok(len) => len > 0,
            // What cannot be told is tried where an entry is made.
            Err(error) => error != xattr::NONE && !is_unsupported(error),
        }
    }

    /// True if an access list of a directory among them keeps somebody from listing or entering it whom its permissions
    /// for all others would let in: who is named in it, or in a group that is, is not asked for those. A list that
    /// cannot be taken apart may.
    pub fn deny_somebody(&self) -> bool {
        self.access_list().is_some_and(|list| denies(list).unwrap_or(true))
    }

    /// True if these keep somebody out, and `others` have not the same access lists.
    pub fn deny_more_than(&self, others: &Self) -> bool {
        self.deny_somebody() && self.open_more_than_those(others)
    }

    /// True if they have access lists that `others` lack: whoever is in them could enter.
    pub fn open_more_than_those(&self, others: &Self) -> bool {
        self.access_lists().any(|list| !others.has(list))
    }

    /// The most permissions of an entry that has none of these access lists: where there is one, the bits of the group
    /// are its mask.
    pub fn permitted(&self) -> u32 {
        self.access_list().map_or(0o7777, permitted_without)
    }

    /// Drops what gives rights (access lists, capabilities and what only root may set), unless `others` have the same.
    /// Returns whether anything is gone, and the most permissions of an entry without that, and without the lists that
    /// only the others have.
    pub fn keep_rights_of(&mut self, others: &Self) -> (bool, u32) {
        let had = self.0.len();
        let is_wider = others.open_more_than_those(self);
        let mut permitted = if is_wider { others.permitted() } else { 0o7777 };
        self.0.retain(|held| {
            let (name, value) = held;
            let stays = xattr::is_users(name.to_bytes()) || others.0.contains(held);
            if !stays && name.as_c_str() == ACCESS_LIST {
                permitted = permitted_without(value) & !0o070;
            }
            stays
        });
        (self.0.len() < had, permitted)
    }

    /// True if this attribute is among them. The mask of an access list does not count: the permissions show it as
    /// those of the group, and are compared with it.
    fn has(&self, (name, value): &(CString, Vec<u8>)) -> bool {
        let of_name = self.0.iter().find(|(held, _)| held == name);
        of_name.is_some_and(|(_, held)| {
            held == value
                || name.as_c_str() == ACCESS_LIST && without_mask(held) == without_mask(value)
        })
    }

    /// True if there is one that says who may do what with the entry itself.
    pub fn has_access_list(&self) -> bool {
        self.access_list().is_some()
    }

    fn access_list(&self) -> Option<&[u8]> {
        let (_, list) = self.0.iter().find(|(name, _)| name.as_c_str() == ACCESS_LIST)?;
        Some(list)
    }

    fn access_lists(&self) -> impl Iterator<Item = &(CString, Vec<u8>)> {
        self.0.iter().filter(|(name, _)| [ACCESS_LIST, INHERITED_LIST].contains(&name.as_c_str()))
    }

    /// True if an entry has access lists or capabilities that these lack, as its source had once, or if that cannot be
    /// told.
    pub fn lack_rights_of(&self, entry: impl AsFd) -> bool {
        let Ok(held) = Self::read(entry) else { return true };
        let mut capabilities = held.0.iter().filter(|(name, _)| name.as_c_str() == CAPABILITIES);
        held.open_more_than_those(self) || capabilities.any(|held| !self.0.contains(held))
    }

    /// [`apply`](Self::apply) for an entry that was there: it loses the access lists and capabilities that these
    /// attributes do not have.
    pub fn apply_to_kept(
        &self,
        to: impl AsFd,
        source: &Stat,
        owned: bool,
        mut failed: impl FnMut(&'static str, io::Error),
    ) {
        if let Err(error) = self.shed_lists(to.as_fd()) {
            failed("set the permissions of", error);
        }
        self.apply(to, source, owned, failed);
    }

    /// Takes from an entry the access lists, and the capabilities, that these attributes do not have: its directory
    /// gave it them when it was made, or its source had them once. Its permissions are to be set afterwards.
    ///
    /// # Errors
    /// It may still have one.
    pub fn shed_lists(&self, from: impl AsFd) -> io::Result<()> {
        let from = from.as_fd();
        for name in [ACCESS_LIST, INHERITED_LIST, CAPABILITIES] {
            if self.0.iter().any(|(own, _)| own.as_c_str() == name) {
                continue;
            }
            // To take one that is not there needs a privilege too.
            if name == CAPABILITIES && xattr::get(from, name, None).is_err() {
                continue;
            }
            match xattr::remove(from, name) {
                Ok(()) | Err(xattr::NONE) => {}
                Err(error) if is_unsupported(error) => {}
                Err(other) => return Err(other.into()),
            }
        }
        Ok(())
    }

    /// Gives an open file, which is `there`, `source`'s modification time and nothing else.
    pub fn set_time(to: impl AsFd, _there: &Stat, source: &Stat) -> io::Result<()> {
        Ok(rustix::fs::futimens(to, &times_of(source))?)
    }
}

/// Sets one label of an entry.
type SetLabel<'a> = &'a dyn Fn() -> rustix::io::Result<()>;

/// Sets labels, and hands to `failed` what could not be set.
fn told_to(
    mut failed: impl FnMut(&'static str, io::Error),
) -> impl FnMut(&'static str, SetLabel<'_>) -> bool {
    move |deed, label| match uninterrupted(|| Ok(label()?)) {
        Ok(()) => true,
        Err(error) => {
            failed(deed, error);
            false
        }
    }
}

/// Sets a label of a file that was just written; what refuses the label is within.
///
/// The kernel tells of a write that was lost in whatever call is next, and only there: of FUSE with a cache for writes
/// that is often the setting of a label, and `close` is silent then. Whether an error is the label's own is found out
/// by doing it again, when all that was written has arrived.
///
/// # Errors
/// Something of the content is lost.
pub(super) fn label_written(file: &File, label: SetLabel<'_>) -> io::Result<io::Result<()>> {
    let set = || uninterrupted(|| Ok(label()?));
    let Err(error) = set() else { return Ok(Ok(())) };
    if is_refusal(&error) {
        return Ok(Err(error));
    }
    flush_file(file)?;
    match set() {
        Err(again) if again.raw_os_error() == error.raw_os_error() => Ok(Err(again)),
        _ => Err(error),
    }
}

/// True for an error that says only that a label cannot be set.
fn is_refusal(error: &io::Error) -> bool {
    let Some(error) = Errno::from_io_error(error) else { return false };
    is_unsupported(error)
        || matches!(
            error,
            Errno::PERM
                | Errno::ACCESS
                | Errno::NOTTY
                | Errno::INVAL
                | Errno::RANGE
                | Errno::TOOBIG
                | Errno::OVERFLOW
        )
}

impl Attributes {
    /// True if an entry that is `there` already has `source`'s owner (as root) and permissions, these attributes, and a
    /// time that may be `source`'s: then touching it would only change its change time.
    pub fn are_at(&self, there: &Stat, to: impl AsFd, source: &Stat) -> bool {
        self.held_at(there, to, source).is_some()
    }

    /// The same, and whether it has no others.
    pub fn are_all_at(&self, there: &Stat, to: impl AsFd, source: &Stat) -> bool {
        let held = self.held_at(there, to, source);
        held.is_some_and(|held| held.0.len() == self.0.len())
    }

    /// The attributes of an entry that is `there`, if these are among them, no other gives rights, and the rest is as
    /// `source` is.
    fn held_at(&self, there: &Stat, to: impl AsFd, source: &Stat) -> Option<Self> {
        let is_as = self.is_labelled(there, source) && source.mtime.may_be_stored_as(there.mtime);
        let held = is_as.then(|| Self::read(to).ok()).flatten()?;
        let has_all = self.0.iter().all(|one| held.has(one));
        (has_all && !held.open_more_than_those(self)).then_some(held)
    }

    /// True if these are those of another entry, in any order.
    pub fn are_same(&self, other: &Self) -> bool {
        self.0.len() == other.0.len() && self.0.iter().all(|one| other.0.contains(one))
    }

    /// Takes from an open file or directory the attributes that a copy takes over and these are not.
    ///
    /// # Errors
    /// It may still have one.
    pub fn shed_others(&self, from: impl AsFd) -> io::Result<()> {
        let from = from.as_fd();
        for (name, _) in Self::read(from)?.0 {
            if self.0.iter().any(|(own, _)| *own == name) {
                continue;
            }
            match xattr::remove(from, &name) {
                Ok(()) | Err(xattr::NONE) => {}
                Err(other) => return Err(other.into()),
            }
        }
        Ok(())
    }

    /// The label that an entry which is `there`, and keeps its owner, gets from `source`.
    pub fn label_at(there: &Stat, source: &Stat) -> Stat {
        let owned = (source.uid, source.gid) == (there.uid, there.gid);
        let mode = if owned { source.mode } else { mode_of_another(source, there.gid) };
        Stat { uid: there.uid, gid: there.gid, mode, ..*source }
    }

    /// True if `there` has `source`'s permissions and owner (as root).
    pub fn are_labelled(there: &Stat, source: &Stat) -> bool {
        Self::default().is_labelled(there, source)
    }

    /// True if `there` may lack something of `source`'s permissions, owner (as root) or attributes, as far as that can
    /// be told without a look at it. A change of attributes shows in the source's change time.
    pub fn may_differ(there: &Stat, source: &Stat) -> bool {
        !Self::are_labelled(there, source) || source.ctime >= there.ctime
    }

    /// True if an open entry that is `there` would be given more than it has: another owner or group, permissions, or
    /// attributes.
    pub fn widen(&self, there: &Stat, at: impl AsFd, source: &Stat) -> bool {
        let owned = (source.uid, source.gid) == (there.uid, there.gid);
        let has_all = || Self::read(at).is_ok_and(|held| self.0.iter().all(|it| held.has(it)));
        !owned && is_root() || self.mode_at(there, source) & !there.mode != 0 || !has_all()
    }

    /// True if an open entry that is `there` lets in more than a new one that gets these, and `source`'s permissions,
    /// as far as it can have them.
    pub fn leave_open(&self, there: &Stat, at: impl AsFd, source: &Stat) -> bool {
        let held = Self::read(at).unwrap_or_default();
        let lacks = |one: &&(CString, Vec<u8>)| one.0.as_c_str() == ACCESS_LIST && !held.has(one);
        let without = self.0.iter().find(lacks).map_or(0o7777, |(_, list)| permitted_without(list));
        there.mode & !(self.mode_at(there, source) & without) & 0o6077 != 0
    }

    /// The narrower metadata for a file of this user, which is `there` under one name, so that it has no permission
    /// that `source` does not give, but those of its owner; `None` if it needs none.
    pub fn narrowed(there: &Stat, source: &Stat) -> Option<Stat> {
        let is_ours = there.uid == acting_as().0 && there.links == 1;
        let mode = there.mode & (source.mode | 0o700);
        (is_ours && mode != there.mode).then_some(Stat { mode, ..*there })
    }

    /// True if a file may be made with `source`'s permissions in a directory whose group is `dir_gid`: it has the owner
    /// then, and nobody else may write to it meanwhile, or do what its final label does not allow.
    pub fn may_be_born(&self, source: &Stat, dir_gid: u32) -> bool {
        let is_plain = source.mode & !0o155 == 0o600;
        self.0.is_empty() && is_plain && is_born_owned(source, dir_gid)
    }

    /// Like [`apply`](Self::apply) for an entry just made in a directory whose group is `dir_gid`, with
    /// the permissions `born` if they are known.
    pub fn apply_to_new(
        &self,
        to: impl AsFd,
        source: &Stat,
        dir_gid: u32,
        born: Option<u32>,
        failed: impl FnMut(&'static str, io::Error),
    ) {
        let owned = is_born_owned(source, dir_gid);
        self.set_all(to.as_fd(), source, owned, born, &mut told_to(failed));
    }

    /// The same for a file whose content was just written.
    ///
    /// # Errors
    /// Something of the content is lost, as the system said meanwhile.
    pub fn apply_to_written(
        &self,
        to: &File,
        source: &Stat,
        dir_gid: u32,
        born: Option<u32>,
        mut failed: impl FnMut(&'static str, io::Error),
    ) -> io::Result<()> {
        let (mut lost, owned) = (None, is_born_owned(source, dir_gid));
        self.set_all(to.as_fd(), source, owned, born, &mut |deed, label| {
            if lost.is_some() {
                return false;
            }
            match label_written(to, label) {
                Ok(Ok(())) => return true,
                Ok(Err(refused)) => failed(deed, refused),
                Err(error) => lost = Some(error),
            }
            false
        });
        lost.map_or(Ok(()), Err)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_beyond_the_bound_are_refused() {
        let file = tempfile::tempfile_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        for name in [c"user.one", c"user.two", c"user.three"] {
            match xattr::set(file.as_fd(), name, &[7; 500]) {
                Err(Errno::OPNOTSUPP) => return,
                set => set.unwrap(),
            }
        }
        let names = "user.one\0user.two\0user.three\0".len();
        assert_eq!(Attributes::read_up_to(&file, 1500 + names).unwrap().0.len(), 3);
        let error = Attributes::read_up_to(&file, 1500 + names - 1).unwrap_err();
        assert!(error.to_string().contains("take more than"), "{error}");
    }
}
