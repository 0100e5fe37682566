//! Whose an entry is: closing a directory to others, what another group gets, and the leftovers of this user's runs.

use std::{ffi::OsStr, fs::File, io, iter};

use rustix::fs::{Gid, Mode, OFlags, Uid};
use rustix::io::Errno;

use crate::{
    path::directory_of, sys::Attributes, sys::stat::Kind, sys::stat::Stat, sys::types::Lock,
    sys::unix::dir::Dir, sys::unix::dir::lock, sys::unix::plain::go_along,
    sys::unix::process::acting_as, sys::unix::process::is_root, sys::unix::system,
    sys::unix::system::is_open_for_writing,
};

/// The permission bit of a directory from which new entries take their group.
const SET_GROUP: u32 = 0o2000;

/// The sign of a directory that was closed in place: the set-user-ID bit, which Linux gives no meaning there
/// (inode(7)), and which goes with the label that the directory gets when all is in it. Services may be kept from
/// setting that (`RestrictSUIDSGID=` of systemd.exec(5)); then the sticky bit, which means nothing where only the owner
/// may enter.
const SIGNS: [u32; 2] = [0o4000, 0o1000];

const CLOSED_IN_PLACE: u32 = SIGNS[0] | SIGNS[1];

/// A directory on the [way](Dir::way_up) to one.
pub(super) struct Level {
    pub dir: Dir,
    pub stat: Stat,
}

impl Dir {
    /// True if a run [closed](Self::take_over) a directory that is `stat`, and did not come to open it again: others
    /// may hold it open from before, or one below it.
    pub fn is_closed_in_place(stat: &Stat) -> bool {
        stat.mode & 0o077 == 0 && stat.mode & CLOSED_IN_PLACE != 0
    }

    /// The label that the copy of a directory gets which is `stat`: one that has the sign itself, without it.
    pub fn label_of_copy(stat: &Stat) -> Stat {
        let sign = if Self::is_closed_in_place(stat) { CLOSED_IN_PLACE } else { 0 };
        Stat { mode: stat.mode & !sign, ..*stat }
    }

    /// The permissions of the file `name`, which is `stat`, for one without its access list: they let in nobody whom
    /// the list keeps out.
    pub fn mode_without_list(&self, name: &OsStr, stat: &Stat) -> u32 {
        match Attributes::of_unopened(self, name) {
            Ok(held) if !held.has_access_list() => stat.mode,
            _ => stat.mode & !0o077,
        }
    }

    /// Gives this directory to the user that this process acts as, and closes it to all others until its content is
    /// known. A process that holds it open from before can make nothing in it any more; that there may be one, the
    /// directory [shows](Self::is_closed_in_place).
    ///
    /// # Errors
    /// The directory is as open as it was. Where there are no owners, it keeps the one that it has.
    pub fn take_over(&self) -> io::Result<()> {
        let stat = self.stat_self()?;
        let (uid, gid) = acting_as();
        let try_mode = |mode: u32| rustix::fs::fchmod(&self.0, Mode::from_raw_mode(mode as _));
        let was_open = stat.uid != uid || stat.mode & 0o077 != 0 || Self::is_closed_in_place(&stat);
        // Some servers take neither sign.
        let set = |mode: u32| {
            let signs = SIGNS.iter().filter(|_| was_open);
            let with = signs.map(|sign| try_mode(mode | sign)).find(Result::is_ok);
            with.unwrap_or_else(|| try_mode(mode))
        };
        // The owner before the rest: until then, who has it can open it again. The sign before that: the run may be
        // killed in between.
        if is_root() && (stat.uid, stat.gid) != (uid, gid) {
            let _ = set(stat.mode);
            let ids = (Some(Uid::from_raw(uid)), Some(Gid::from_raw(gid)));
            let _ = rustix::fs::fchown(&self.0, ids.0, ids.1);
        }
        // What is made in it takes its group as before.
        let mode = stat.mode & SET_GROUP | 0o700;
        Ok(set(mode)?)
    }

    /// True if no other user can change the entries of a directory that is `stat`: it belongs to the user that this
    /// process acts as, and if its group may write there, that is a group of this user's own, by the custom that it has
    /// the user's number.
    pub fn is_kept_by_us(stat: &Stat) -> bool {
        let (uid, gid) = acting_as();
        let others = if stat.gid == gid && gid == uid { 0o002 } else { 0o022 };
        stat.uid == uid && stat.mode & others == 0
    }

    /// The same of this directory, which may have an access list.
    ///
    /// # Errors
    /// It cannot be looked at.
    pub fn is_kept(&self) -> io::Result<bool> {
        is_kept(&self.stat_self()?, || Attributes::read(self))
    }

    /// True if no other user can give a name in this directory to a file of this user's, or exchange two of them: it is
    /// kept, or has the sticky bit and is this user's or root's.
    ///
    /// # Errors
    /// It cannot be looked at.
    pub fn keeps_names(&self) -> io::Result<bool> {
        let stat = self.stat_self()?;
        let is_sticky = stat.mode & 0o1000 != 0 && [0, acting_as().0].contains(&stat.uid);
        Ok(is_sticky || self.is_kept()?)
    }

    /// The same of the file that is `stat`: no other user can write to it.
    ///
    /// # Errors
    /// It cannot be looked at.
    pub fn is_file_kept(file: &File, stat: &Stat) -> io::Result<bool> {
        is_kept(stat, || Attributes::read(file))
    }

    /// The same of the entry `name` of this directory, which is `stat`. What cannot be told is not kept.
    pub fn keeps(&self, name: &OsStr, stat: &Stat) -> bool {
        is_kept(stat, || Attributes::of_unopened(self, name)).unwrap_or(false)
    }

    /// True if only this user and root may put another directory in the place of this one, or of one above it. In a
    /// directory with the sticky bit everyone may do so with what is his.
    ///
    /// # Errors
    /// One of them cannot be looked at.
    pub fn is_place_kept(&self) -> io::Result<bool> {
        Ok(self.exchangeable(acting_as().0)? == 0)
    }

    /// The same, if the owner of what is `like` may do so, too: it is for that user to say who comes to it.
    ///
    /// # Errors
    /// One of them cannot be looked at.
    pub fn is_place_kept_for(&self, like: &Stat) -> io::Result<bool> {
        Ok(self.exchangeable(like.uid)? == 0)
    }

    /// How many directories, from this one up, others than root, this user and that with the number `owner` may have
    /// put in the place of other ones: those that are below one where they may give names. All, if they may do so to a
    /// link on the path by which the user named it.
    pub(super) fn exchangeable(&self, owner: u32) -> io::Result<usize> {
        match self.is_led_by_others(owner)? {
            true => Ok(usize::MAX),
            false => self.exchangeable_from(None, owner),
        }
    }

    /// True if others may give the name of a link on the path by which the user named this directory, or of a directory
    /// that the path goes back from, to another one. What is not on the way up shows in no other place.
    fn is_led_by_others(&self, owner: u32) -> io::Result<bool> {
        let (Some(path), mut is_led) = (&self.1, false) else { return Ok(false) };
        go_along(path, |entry, _| {
            if let Some(name) = entry.file_name().filter(|_| !is_led) {
                let dir = Self::open(directory_of(entry))?;
                is_led = dir.exchangeable_from(Some(dir.stat(name, false)?), owner)? > 0;
            }
            Ok(())
        })?;
        Ok(is_led)
    }

    /// How many they may have exchanged of the entry `below` in this directory, if one is meant, this directory, and
    /// those above it.
    fn exchangeable_from(&self, mut below: Option<Stat>, owner: u32) -> io::Result<usize> {
        let is_one_of = |stat: &Stat| [0, acting_as().0, owner].contains(&stat.uid);
        let (mut entries, mut number) = (0, 0);
        for level in self.way_up() {
            let Level { dir, stat } = level?;
            let Some(entry) = below.replace(stat) else { continue };
            entries += 1;
            let is_sticky = stat.mode & 0o1000 != 0 && is_one_of(&entry);
            let is_closed = is_one_of(&stat) && (is_sticky || stat.mode & 0o022 == 0);
            if !is_closed && !is_kept(&stat, || Attributes::read(&dir))? {
                number = entries;
            }
        }
        Ok(number)
    }

    /// The way to this directory, whatever links led here: itself, and all that are above it.
    pub(super) fn way_up(&self) -> impl Iterator<Item = io::Result<Level>> {
        let level = |dir: Self| dir.stat_self().map(|stat| Level { dir, stat });
        iter::successors(Some(self.try_clone().and_then(level)), move |below| {
            let Level { dir, stat } = below.as_ref().ok()?;
            let above = dir.parent().and_then(level);
            // The root of the system is in itself.
            Some(above).filter(|above| !above.as_ref().is_ok_and(|above| above.stat.id == stat.id))
        })
    }

    /// The metadata of the directory so many `levels` above this one. By name, as there may be no descriptor left.
    ///
    /// # Errors
    /// Also if this one was removed (`NotFound`).
    pub fn stat_above(&self, levels: usize) -> io::Result<Stat> {
        match levels {
            0 => self.stat_self(),
            _ => self.stat(vec![".."; levels].join("/").as_ref(), false),
        }
    }

    /// Nothing: a directory that is made for its owner only inherits no rights for others.
    ///
    /// # Errors
    /// None.
    pub fn inherit_nothing(&self) -> io::Result<()> {
        Ok(())
    }

    /// Closes the directory to all but its owner.
    pub fn close_to_others(&self) -> io::Result<()> {
        Ok(rustix::fs::fchmod(&self.0, Mode::RWXU)?)
    }
}

// The permissions of an entry, by whose it is.

/// The permissions that an entry of another owner, and of the group `gid`, gets from `source`. A set-user-ID program
/// that changes hands does not keep the bit; a directory's set-group-ID bit is of its group. Of another group, neither
/// that nor those who are in neither get more than both had at the source.
pub(super) fn mode_of_another(source: &Stat, gid: u32) -> u32 {
    let mode = source.mode & 0o1777;
    let both = mode >> 3 & mode & 0o007;
    let of_group = if source.kind == Kind::Dir { source.mode & SET_GROUP } else { 0 };
    if gid == source.gid { mode | of_group } else { mode & !0o077 | both << 3 | both }
}

/// True if an entry made by this process in a directory of group `dir_gid` has `source`'s owner and group without
/// further ado. The directory's group counts because new entries take it where the directory has set-group-ID or the
/// file system is mounted with `grpid`.
pub(super) fn is_born_owned(source: &Stat, dir_gid: u32) -> bool {
    let (uid, gid) = acting_as();
    (source.uid, source.gid, dir_gid) == (uid, gid, gid)
}

/// True if nobody else can write to what is `stat` and has these attributes: what an access list lets others do shows
/// as what the group may.
fn is_kept(stat: &Stat, attributes: impl FnOnce() -> io::Result<Attributes>) -> io::Result<bool> {
    let may_let_in = stat.mode & 0o020 != 0;
    Ok(Dir::is_kept_by_us(stat) && !(may_let_in && attributes()?.has_access_list()))
}

/// Why no directory can be closed to all but its owner, as that of a plan is; `None` where it can.
pub fn why_none_is_closed() -> Option<&'static str> {
    None
}

// The leftovers of an earlier run of the same user in a directory, opened with care: another user may have put
// something else in their place.

impl Dir {
    /// Opens the file `name` for reading and writing, if it is a regular file with one name that
    /// belongs to the user of this process; then it is readable by its owner only from now on. `None`
    /// if there is no such file or it is anything else: it was not written to.
    pub fn open_ours(&self, name: &OsStr) -> io::Result<Option<(File, Stat)>> {
        Ok(self.open_private(name)?.filter(|(_, stat)| stat.links == 1))
    }

    /// The same where only this user gets into the directory: a snapshot of hard links may have given it further names.
    /// On a file system that is mounted read-only it is opened for reading.
    pub fn open_private(&self, name: &OsStr) -> io::Result<Option<(File, Stat)>> {
        self.open_kept(name, true)
    }

    /// The same of one that is written to now: one that can only be read is an error.
    pub fn open_private_to_write(&self, name: &OsStr) -> io::Result<Option<(File, Stat)>> {
        self.open_kept(name, false)
    }

    fn open_kept(&self, name: &OsStr, or_reads: bool) -> io::Result<Option<(File, Stat)>> {
        let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let open = |access| rustix::fs::openat(&self.0, name, access | flags, Mode::empty());
        let file = match open(OFlags::RDWR) {
            // Nobody writes to it there.
            Err(Errno::ROFS) if or_reads => File::from(open(OFlags::RDONLY)?),
            Err(Errno::NOENT | Errno::LOOP | Errno::ISDIR | Errno::NXIO | Errno::ACCESS) => {
                return Ok(None);
            }
            opened => File::from(opened?),
        };
        let stat = Self::stat_file(&file)?;
        if stat.kind != Kind::File || stat.uid != acting_as().0 {
            return Ok(None);
        }
        if stat.mode & 0o077 != 0 {
            rustix::fs::fchmod(&file, Mode::RUSR | Mode::WUSR)?;
        }
        Ok(Some((file, stat)))
    }

    /// The same of one that is only read, for as long as a run takes, and opened once more when the run writes to it.
    pub fn open_private_to_read(&self, name: &OsStr) -> io::Result<Option<(File, Stat)>> {
        self.open_private(name)
    }

    /// Makes the new file `name` for writing, for its owner only if `private`, and locks it where files can be locked;
    /// an error (`AlreadyExists`) if there is something of that name.
    pub fn create_claimed(&self, name: &OsStr, private: bool) -> io::Result<File> {
        let file = self.create_new(name, private)?;
        let claimed =
            lock(&file).and_then(|lock| Ok(lock != Lock::Taken && self.is_called(&file, name)?));
        match claimed {
            Ok(true) => Ok(file),
            // Before it was locked another run may have taken it for abandoned.
            Ok(false) => Err(io::ErrorKind::AlreadyExists.into()),
            Err(error) => {
                let _ = self.remove(name);
                Err(error)
            }
        }
    }

    /// Removes the file `name` if it is a regular file with one name that belongs to who this process acts as,
    /// and that no process has locked; whether it did. Root may have given away what it made.
    pub fn remove_abandoned(&self, name: &OsStr) -> io::Result<bool> {
        let flags = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = File::from(rustix::fs::openat(&self.0, name, flags, Mode::empty())?);
        let stat = Self::stat_file(&file)?;
        let may_be_ours = is_root() || stat.uid == acting_as().0;
        let is_ours = stat.kind == Kind::File && stat.links == 1 && may_be_ours;
        // Each run locks it before removing it: so while it is locked its name stays its own.
        if is_ours && lock(&file)? == Lock::Held && self.is_called(&file, name)? {
            self.remove(name)?;
            return Ok(true);
        }
        Ok(false)
    }

    /// Opens the directory `name`, which was just made, and locks it where that can be done; an error (`AlreadyExists`)
    /// if it is another run's by now, which took it for abandoned.
    pub fn open_claimed(&self, name: &OsStr) -> io::Result<Dir> {
        let dir = self.open_dir(name, false)?;
        match lock(&dir)? != Lock::Taken && self.stat(name, false)?.id == dir.identity()? {
            true => Ok(dir),
            false => Err(io::ErrorKind::AlreadyExists.into()),
        }
    }

    /// Opens the directory `name` and locks it, if no process has. `None` if one has, or it is another user's; root may
    /// have given away what it made.
    pub fn open_abandoned(&self, name: &OsStr) -> io::Result<Option<Dir>> {
        let dir = self.open_dir(name, false)?;
        let is_ours = is_root() || dir.is_ours()?;
        let is_free = is_ours && lock(&dir)? == Lock::Held;
        Ok(Some(dir).filter(|_| is_free))
    }

    /// Keeps the lock of a directory that gets another name; `None` where it must be closed for that.
    pub fn keep_claim(self) -> Option<Dir> {
        Some(self)
    }

    /// True if a process has locked the file `name`, as far as can be told.
    pub fn is_claimed(&self, name: &OsStr) -> bool {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let opened = rustix::fs::openat(&self.0, name, flags, Mode::empty());
        opened.is_ok_and(|file| matches!(lock(&file), Ok(Lock::Taken)))
    }

    fn is_called(&self, file: &File, name: &OsStr) -> io::Result<bool> {
        match self.stat(name, false) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            named => Ok(named?.id == Self::stat_file(file)?.id),
        }
    }
}

/// True if the content of an open file, which is `there`, is this user's alone: it belongs to the user that this
/// process acts as, its permissions let nobody else write to it, and no process has it open for writing from a time
/// when they did. A file system that cannot tell the last is believed by the others.
pub fn is_ours_alone(file: &File, there: &Stat) -> bool {
    // Where there are access lists, these bits are the most that a list gives to anybody but the owner.
    let is_closed = there.uid == acting_as().0 && there.mode & 0o022 == 0;
    is_closed && !is_open_for_writing(file)
}

/// Keeps a file locked that is about to be closed; `None` where files are not locked.
pub fn keep_locked(file: &File) -> io::Result<Option<File>> {
    // The lock belongs to what was opened, and ends with the last descriptor of it (flock(2)).
    file.try_clone().map(Some)
}

/// Waits until a file's content, and what is needed to find it, are on the device. An error is final,
/// as with [`persist_file`](crate::sys::unix::volume::persist_file).
pub fn persist_content(file: &File) -> io::Result<()> {
    Ok(system::fdatasync(file)?)
}
