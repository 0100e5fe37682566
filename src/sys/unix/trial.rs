//! A file system's treatment of a name, a time or a link, found out by trials: no call asks it.
//!
//! All is tried in a directory of our own, under the random name of a part file, which is removed at once. What
//! a killed run leaves of it is removed by a later one, as part files are.

use std::{
    ffi::OsStr, ffi::OsString, fs::File, io, io::Read, os::fd::AsFd, os::fd::BorrowedFd,
    os::unix::ffi::OsStrExt, os::unix::ffi::OsStringExt, path::Component, path::Path, sync::Arc,
    time::Duration,
};

use rustix::fs::{AtFlags, Gid, Mode, Timespec, Timestamps, UTIME_NOW, Uid};
use rustix::io::Errno;

use crate::sys::part_name::{PartOwner, is_part_name, under_part_name};
use crate::sys::traits::{LONGEST_NAME, NameTraits, TimeTraits, Traits, TriedName};
use crate::sys::unix::dir::{Dir, LinkTarget, stat_from};
use crate::sys::unix::volume::{close_file, is_on_fuse, may_lack_owners};
use crate::{
    sys::dir::DirListing, sys::interrupted::Uninterrupted, sys::interrupted::write_all,
    sys::stat::Kind, sys::stat::Time, sys::unix::kind::*, sys::unix::process::is_root,
    sys::unix::system,
};

/// A name that has everything that file systems change or refuse: not UTF-8, signs and control characters, a blank
/// and a dot at its ends. As much as makes it the longest comes between the two.
const WORST: (&[u8], &[u8]) =
    (b" \xff\xfe\"*:<>?\\|\x01\n\x7f\xc3\xa9\xe4\xb8\xad\xf0\x9f\x98\x80", b" .");

/// One name of each class, for file systems that do not hold the worst.
const UNICODE: &[u8] = "\u{e9}\u{4e2d}\u{1f600}".as_bytes();
const BYTES: &[u8] = b"b\xff\xfe";
const SIGNS: &[u8] = b"s\"*:<>?\\|\x01\n\x7f";
const ENDS: [&[u8]; 3] = [b" front", b"blank ", b"dot."];
const DEVICE: &[u8] = b"con";
const OTHER_CASE: &[u8] = b"CON";
const FORMS: [&str; 2] = ["e\u{301}", "\u{e9}"];

/// Lengths that names may have, besides [`LONGEST_NAME`]: of UDF, eCryptfs, Joliet and HFS; bytes.
const LENGTHS: [usize; 4] = [254, 143, 64, 31];

/// The name of a directory in the trial's, and the one that it is renamed to.
const RENAMED: [&str; 2] = ["before", "after"];

/// Number of directories that are made for a trial while others take their places.
const TRIES: u32 = 4;

/// Time for a server to see that files were closed.
const SETTLING: Duration = Duration::from_millis(200);

/// A time in the middle of what any file system holds, in none of the steps that there are.
const MIDDLE: Time = Time { secs: 981_173_107, nanos: 123_456_789 };

impl Dir {
    /// The file system's treatment of everything that it is given, tried in this directory. What cannot be tried counts
    /// as done as it was told, but that a link's attributes are its own is believed only of the kernel's file systems.
    ///
    /// 60 calls, 0.2 ms on ext4 and tmpfs; a dozen more on FUSE.
    pub fn traits(&self, owner: PartOwner) -> Traits {
        let untried = Traits { labels_links: !is_on_fuse(self), ..Traits::FAITHFUL };
        self.in_trial_dir(owner, |trial| trial.try_everything(untried)).unwrap_or(untried)
    }

    /// The treatment of a file of this name here.
    ///
    /// # Errors
    /// It cannot be tried.
    pub fn try_name(&self, owner: PartOwner, name: &OsStr) -> io::Result<TriedName> {
        self.in_trial_dir(owner, |trial| Ok(trial.hold(name)))
    }

    /// True if a file of this name can take the place of another here.
    ///
    /// # Errors
    /// It cannot be tried.
    pub fn try_replacing(&self, owner: PartOwner, name: &OsStr) -> io::Result<bool> {
        self.in_trial_dir(owner, |trial| trial.replaces(name))
    }

    /// The modification time that a file has here that is given `time`.
    ///
    /// # Errors
    /// It cannot be tried, or the time cannot be set.
    pub fn try_time(&self, owner: PartOwner, time: Time) -> io::Result<Time> {
        let (file, name) = self.create_part(owner)?;
        let stored = stored(file.as_fd(), time);
        self.remove_trial(file, &name)?;
        stored
    }

    /// Closes and removes a file of a trial. Without a cache rclone makes a file that nothing was written to some time
    /// after it is closed, also when it was removed meanwhile: so something is written to it.
    ///
    /// # Errors
    /// It cannot be closed or removed.
    pub fn remove_trial(&self, file: File, name: &OsStr) -> io::Result<()> {
        if is_on_fuse(self) {
            // Where there is no room it may well come back.
            let _ = write_all(&file, b"trial");
        }
        // Where numbers stay, what has the name by now is another's if it is not this file.
        let own = Dir::stat_file(&file)?.id;
        let is_moved =
            !may_lack_owners(self) && self.stat(name, false).is_ok_and(|there| there.id != own);
        close_file(file)?;
        if is_moved { Ok(()) } else { self.remove(name) }
    }

    /// The target that a link shows when it is made in a directory here, and removed.
    ///
    /// # Errors
    /// It cannot be made, or not be read.
    pub fn try_link(&self, owner: PartOwner, target: &LinkTarget) -> io::Result<LinkTarget> {
        self.in_trial_dir(owner, |trial| trial.shown_link(target))
    }

    /// The target that a link to `target` shows in this directory, which is our own.
    fn shown_link(&self, target: &LinkTarget) -> io::Result<LinkTarget> {
        let name = OsStr::new("shown");
        self.make_link(target, name)?;
        let shown = self.read_link(name);
        self.remove(name)?;
        shown
    }

    /// True if a link to `target` that lies so many levels below a root leads out of that, as far as its text tells.
    pub fn leads_out(target: &LinkTarget, levels: usize) -> bool {
        let mut at = levels;
        Path::new(target).components().any(|part| {
            let next = match part {
                Component::ParentDir => at.checked_sub(1),
                Component::Normal(_) => Some(at + 1),
                Component::CurDir => Some(at),
                Component::RootDir | Component::Prefix(_) => None,
            };
            at = next.unwrap_or(0);
            next.is_none()
        })
    }

    /// The times that entries have here, as this directory's own shows, which is put back. For where nothing may be
    /// made.
    pub fn own_time_traits(&self) -> TimeTraits {
        let Ok(before) = self.stat_self() else { return TimeTraits::EVERY };
        let traits = TimeTraits::tried(self.as_fd());
        let _ = stored(self.as_fd(), before.mtime);
        traits.of_fat(self.is_fat())
    }

    /// The modification time that this directory has when it is given `time`; its own is put back.
    ///
    /// # Errors
    /// A time cannot be set, or not be put back.
    pub fn try_own_time(&self, time: Time) -> io::Result<Time> {
        let before = self.stat_self()?.mtime;
        let tried = stored(self.as_fd(), time);
        stored(self.as_fd(), before)?;
        tried
    }

    /// Removes a directory that a trial was made in, with what is in it; whether it was one. Only empty files, part
    /// files and links are removed with it.
    pub fn remove_trial_dir(&self, name: &OsStr) -> io::Result<bool> {
        let trial = self.open_dir(name, false)?;
        Ok(self.is_own_trial(&trial)? && self.remove_open_trial(&trial, name)?)
    }

    fn remove_open_trial(&self, trial: &Dir, name: &OsStr) -> io::Result<bool> {
        for name in trial.names()? {
            if RENAMED.iter().any(|own| name == **own) {
                trial.remove_tried_names(&name)?;
                continue;
            }
            let stat = trial.stat(&name, false);
            let is_filled = stat.is_ok_and(|stat| stat.kind == Kind::File && stat.size > 0);
            if is_filled && !is_part_name(&name) {
                return Ok(false);
            }
            trial.remove(&name)?;
        }
        rustix::fs::unlinkat(self, name, AtFlags::REMOVEDIR)?;
        Ok(true)
    }

    /// Removes a directory that names were tried in.
    fn remove_tried_names(&self, name: &OsStr) -> io::Result<()> {
        let tried = self.open_dir(name, false)?;
        tried.names()?.iter().try_for_each(|name| tried.remove_dir(name))?;
        self.remove_dir(name)
    }

    /// Tries something out in a directory of our own here, which goes with all that is in it.
    pub(super) fn in_trial_dir<T>(
        &self,
        owner: PartOwner,
        try_out: impl FnOnce(&Dir) -> io::Result<T>,
    ) -> io::Result<T> {
        let (trial, name) = self.make_trial_dir(owner)?;
        let tried = try_out(&trial);
        // A fault that passes shall leave no directory for the next run to remove. A server may take a moment to see
        // that a file was closed (SMB). What was found out holds, whatever stays.
        let remove = || self.remove_open_trial(&trial, &name);
        let _ = remove().or_else(|_| remove()).or_else(|_| {
            std::thread::sleep(SETTLING);
            remove()
        });
        tried
    }

    /// Makes a directory for a trial, and opens it. Who may write here can put another in its place before it is open:
    /// what is in that would be tried, believed and removed. Then another one is made.
    fn make_trial_dir(&self, owner: PartOwner) -> io::Result<(Dir, OsString)> {
        for _ in 0..TRIES {
            let ((), name) = under_part_name(owner, |name| self.make_dir(name, true))?;
            let opened = match self.open_dir(&name, false) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
                opened => opened.and_then(|dir| Ok((self.is_own_trial(&dir)?, dir))).map(Some),
            };
            match opened {
                Ok(Some((true, trial))) if trial.names()?.is_empty() => return Ok((trial, name)),
                Ok(_) => {}
                Err(error) => {
                    rustix::fs::unlinkat(self, &name, AtFlags::REMOVEDIR)?;
                    return Err(error);
                }
            }
        }
        Err(io::Error::other("each directory that was made to try it was replaced by another"))
    }

    /// True if a directory may be one that was made here for a trial: it is this user's alone, where that can be told.
    fn is_own_trial(&self, dir: &Dir) -> io::Result<bool> {
        Ok(may_lack_owners(self) || dir.is_private()?)
    }

    /// Removes the entries of these names that are still there.
    fn remove_all(&self, names: &[OsString]) -> io::Result<()> {
        names.iter().try_for_each(|name| match self.remove(name) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        })
    }

    fn try_everything(&self, untried: Traits) -> io::Result<Traits> {
        let (names, file, name) = self.try_names()?;
        let link = OsStr::new("link");
        let links = self.make_link(&name.to_owned(), link).is_ok();
        let labels_links = match links {
            true => self.is_untouched_through(link, &file).unwrap_or(false),
            false => untried.labels_links,
        };
        let has_habits = is_on_fuse(self);
        // exfat-fuse does not tell what it is, but it has what no other has together.
        let looks_fat = has_habits && !links && !names.signs && names.folds_case;
        let times = TimeTraits::tried(file.as_fd()).of_fat(looks_fat || self.is_fat());
        let (numbers, births) = self.keeps_identity().unwrap_or((!has_habits, !has_habits));
        Ok(Traits {
            names,
            keeps_numbers: (numbers || !has_habits) && !self.is_fat(),
            keeps_births: births,
            change_times: has_change_times(&file).unwrap_or(true),
            times,
            links,
            replaces_longest: !has_habits || self.replaces(&longest()).unwrap_or(true),
            labels_links,
            outward_links: !links || !has_habits || self.shows_outward_link(),
            keeps_times: !has_habits || times.step.is_none() || self.keeps_times().unwrap_or(true),
            permissions: takes_permissions(&file),
            owners: !is_root() || takes_owner(&file),
            syncs_names: self.can_persist_all() || self.syncs_names(),
        })
    }

    /// True if a file of this name can take the place of another, and nothing else is there then. ntfs-3g gives the
    /// replaced file a longer name for a moment, which it cuts where that is too long, and does not find again.
    fn replaces(&self, name: &OsStr) -> io::Result<bool> {
        self.create_new(name, true).and_then(close_file)?;
        let mut before = self.names()?;
        let (file, part) = self.create_part(PartOwner::default())?;
        close_file(file)?;
        let replaced = self.publish(&part, name, true);
        let mut after = self.names()?;
        before.sort_unstable();
        after.sort_unstable();
        Ok(replaced.is_ok() && before == after)
    }

    /// True if a link to a place that is not below the root is shown as it was made: sshfs refuses to show any
    /// (`EPERM`).
    fn shows_outward_link(&self) -> bool {
        let target: LinkTarget = OsStr::new("/").to_owned();
        self.shown_link(&target).is_ok_and(|shown| shown == target)
    }

    /// True if a file that was written, and given its time, still has it when it was read. While rclone has not yet
    /// sent a file on, it dates it to each reading.
    fn keeps_times(&self) -> io::Result<bool> {
        let (file, name) = self.create_part(PartOwner::default())?;
        write_all(&file, b"read")?;
        let set = stored(file.as_fd(), MIDDLE)?;
        close_file(file)?;
        let file = self.open_file(&name, false)?;
        Uninterrupted(&file).read_exact(&mut [0; 4])?;
        let now = Dir::stat_file(&file)?.mtime;
        close_file(file)?;
        self.remove(&name)?;
        Ok(now == set)
    }

    /// The names that are held, and a file to try more with, with its name.
    fn try_names(&self) -> io::Result<(NameTraits, File, &'static OsStr)> {
        let (front, end) = WORST;
        let worst = [front, &vec![b'n'; LONGEST_NAME - front.len() - end.len()], end].concat();
        let (worst, device) = (OsStr::from_bytes(&worst), OsStr::from_bytes(DEVICE));
        let both = self.create_new(worst, true).and_then(|_| {
            let file = self.create_new(device, true)?;
            let mut names = self.names()?;
            names.sort_unstable();
            let are_held = names == [worst, device] && self.becomes_later(worst).is_none();
            Ok((file, are_held))
        });
        if let Ok((file, true)) = both {
            let folds_case = self.stat(OsStr::from_bytes(OTHER_CASE), false).is_ok();
            let folds_forms = self.folds_forms();
            return Ok((NameTraits { folds_case, folds_forms, ..NameTraits::EVERY }, file, device));
        }
        self.remove_all(&self.names()?)?;
        let holds = |name: &[u8]| matches!(self.hold(OsStr::from_bytes(name)), TriedName::Held);
        let long = |len: &usize| holds(&vec![b'n'; *len]);
        let longest = [LONGEST_NAME].into_iter().chain(LENGTHS).find(long);
        let names = NameTraits {
            folds_case: false,
            folds_forms: self.folds_forms(),
            unicode: holds(UNICODE),
            bytes: holds(BYTES),
            signs: holds(SIGNS),
            ends: ENDS.into_iter().all(holds),
            devices: holds(DEVICE),
            longest: longest.unwrap_or(0),
        };
        let (plain, other) = (OsStr::new("file"), OsStr::new("FILE"));
        let file = self.create_new(plain, true)?;
        let folds_case = self.stat(other, false).is_ok();
        Ok((NameTraits { folds_case, ..names }, file, plain))
    }

    /// True if a file is found by its name in another form of Unicode. What cannot be tried is not.
    fn folds_forms(&self) -> bool {
        let [name, other] = FORMS.map(OsStr::new);
        let made = self.create_new(name, true).and_then(close_file);
        let folds = made.is_ok() && self.stat(other, false).is_ok();
        let _ = self.remove(name);
        folds
    }

    /// Makes a file of this name in this directory, which is our own and empty, looks what it is called, and
    /// removes it.
    fn hold(&self, name: &OsStr) -> TriedName {
        let made = self.create_new(name, true).and_then(|file| {
            close_file(file)?;
            let names = self.names()?;
            self.remove_all(&names)?;
            Ok(names)
        });
        match made {
            Ok(names) if names.iter().any(|called| called == name) => {
                self.becomes_later(name).map_or(TriedName::Held, TriedName::Becomes)
            }
            Ok(names) => match names.into_iter().next() {
                Some(called) => TriedName::Becomes(called),
                None => TriedName::Refused(io::ErrorKind::NotFound.into()),
            },
            Err(error) => TriedName::Refused(error),
        }
    }

    /// The name that an entry of this name has when its file system has forgotten what it was told, if that is another.
    /// rclone shows new entries as they were called until it lists its remote again, which it does for a directory that
    /// was renamed. Directories are there at once; files only when they were sent on.
    fn becomes_later(&self, name: &OsStr) -> Option<OsString> {
        if !is_on_fuse(self) {
            return None;
        }
        let [before, after] = RENAMED.map(OsStr::new);
        let called = self.make_dir(before, true).and_then(|()| {
            self.open_dir(before, false)?.make_dir(name, true)?;
            self.move_entry(before, self, after)?;
            self.open_dir(after, false)?.names()
        });
        for made in [before, after] {
            // What stays is removed with the trial's directory.
            let _ = self.remove_tried_names(made);
        }
        // What cannot be tried so counts as held.
        let called = called.unwrap_or_default();
        let is_other = !called.iter().any(|called| called == name);
        called.into_iter().next().filter(|_| is_other)
    }

    /// The names in this directory.
    fn names(&self) -> io::Result<Vec<OsString>> {
        // From its start, wherever other listings have come to. Going back to it is not enough: sshfs lists each
        // handle once, and nothing after that.
        DirListing::of(self)?.map(|listed| Ok(listed?.name.to_os_string())).collect()
    }

    /// True if the names here can be made durable. HFS has no such call (`EINVAL`).
    fn syncs_names(&self) -> bool {
        !matches!(system::fsync(self), Err(Errno::INVAL))
    }

    /// True if `file` keeps its time when that of the link to it is set.
    ///
    /// The kernel never follows the link, but a server may: SFTP has no call that does not follow
    /// (draft-ietf-secsh-filexfer-02, section 6.9), so sshfs changes the target, wherever that is.
    fn is_untouched_through(&self, link: &OsStr, file: &File) -> io::Result<bool> {
        let other = Time { secs: 1_200_000_000, nanos: 0 };
        stored(file.as_fd(), MIDDLE)?;
        rustix::fs::utimensat(self, link, &set_to(other), AtFlags::SYMLINK_NOFOLLOW)?;
        // What sshfs tells of the file may be from before; that the link has the time now is not.
        let is_set = self.stat(link, false)?.mtime.secs == other.secs;
        Ok(is_set && Dir::stat_file(file)?.mtime.secs != other.secs)
    }
}

impl TimeTraits {
    fn tried(entry: BorrowedFd<'_>) -> Self {
        let asked = |time| stored(entry, time).ok();
        let step = asked(MIDDLE)
            .and_then(|held| Time::STEPS.into_iter().find(|step| MIDDLE.cut_to(*step) == held));
        // Only what comes out alike of two times is a bound: others come out as some time or other (32 bits of
        // the seconds, 64 of the nanoseconds).
        let bound = |beyond: Time| {
            let held = asked(beyond)?;
            let nearer = Time { secs: beyond.secs - (beyond.secs - MIDDLE.secs) / 4, ..beyond };
            (held == beyond || asked(nearer) == Some(held)).then_some(held)
        };
        let Self { earliest, latest, .. } = Self::EVERY;
        let [earliest, latest] = [earliest, latest].map(|end| bound(end).unwrap_or(MIDDLE));
        Self { step, earliest, latest, are_of_fat: false }
    }
}

fn set_to(time: Time) -> Timestamps {
    Timestamps {
        last_access: Timespec { tv_sec: 0, tv_nsec: UTIME_NOW },
        last_modification: Timespec { tv_sec: time.secs, tv_nsec: time.nanos.into() },
    }
}

/// The modification time that an open entry has when it is given `time`.
fn stored(entry: BorrowedFd<'_>, time: Time) -> io::Result<Time> {
    rustix::fs::futimens(entry, &set_to(time))?;
    Ok(stat_from(&rustix::fs::fstat(entry)?).mtime)
}

/// True if the change time of an open file does not follow the modification time that it is given, as one does that is
/// made of it: told as it is, in whole seconds, or by another clock.
fn has_change_times(file: &File) -> io::Result<bool> {
    const DAYS: u64 = 2 * 24 * 3600;
    let set = stored(file.as_fd(), MIDDLE)?;
    Ok(Dir::stat_file(file)?.ctime.secs.abs_diff(set.secs) > DAYS)
}

/// The longest name.
fn longest() -> OsString {
    OsString::from("n".repeat(LONGEST_NAME))
}

fn takes_permissions(file: &File) -> bool {
    const ODD: u32 = 0o604;
    let set = rustix::fs::fchmod(file, Mode::from_raw_mode(ODD as _));
    set.is_ok() && Dir::stat_file(file).is_ok_and(|stat| stat.mode == ODD)
}

fn takes_owner(file: &File) -> bool {
    const OTHER: u32 = 12_345;
    let set = rustix::fs::fchown(file, Some(Uid::from_raw(OTHER)), Some(Gid::from_raw(OTHER)));
    set.is_ok() && Dir::stat_file(file).is_ok_and(|stat| (stat.uid, stat.gid) == (OTHER, OTHER))
}

// Names that are one name in a directory: asked of the file system, since each folds names by tables of its own.

/// So many entries of a directory are asked at most whether it folds names.
const ASKED: usize = 100;

/// A name with each letter of ASCII in the other case.
fn in_other_case(name: &OsStr) -> OsString {
    let swapped = |byte: &u8| match byte.is_ascii_lowercase() {
        true => byte.to_ascii_uppercase(),
        false => byte.to_ascii_lowercase(),
    };
    OsString::from_vec(name.as_bytes().iter().map(swapped).collect())
}

impl Dir {
    /// The one of `others`, by its number, that is one name with `name` here. A file of that name is made in a
    /// directory of our own, which folds names as this one does.
    ///
    /// # Errors
    /// It cannot be tried.
    pub fn find_one_name(
        &self,
        owner: PartOwner,
        name: &OsStr,
        others: &[Arc<OsStr>],
    ) -> io::Result<Option<usize>> {
        self.in_trial_dir(owner, |trial| {
            close_file(trial.create_new(name, true)?)?;
            Ok(others.iter().position(|other| trial.stat(other, false).is_ok()))
        })
    }

    /// The name by which this directory lists what it finds by `name`, which may be in other letter case. `None` if a
    /// look at the same name in other case tells that it takes each for a name of its own. Only letters of ASCII are
    /// looked at, and of a name without any it is not asked whether it is there.
    ///
    /// # Errors
    /// There is nothing of that name, or there can be nothing ([`InvalidFilename`](io::ErrorKind::InvalidFilename)). Or
    /// the system's.
    pub fn listed_name(&self, name: &OsStr) -> io::Result<Option<OsString>> {
        let other = in_other_case(name);
        if other == name {
            return Ok(Some(name.to_os_string()));
        }
        self.stat(name, false)?;
        match self.stat(&other, false) {
            // One inode number does not tell: not every file system gives an entry one, and a file has further names.
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        }
        let mut found = name.to_os_string();
        for listed in DirListing::of(self)? {
            let listed = listed?.name;
            if *listed == *name {
                return Ok(Some(name.to_os_string()));
            }
            if listed.as_bytes().eq_ignore_ascii_case(name.as_bytes()) {
                found = listed.to_os_string();
            }
        }
        Ok(Some(found))
    }

    /// True if what is made here under one of these names may be found by the other: they differ in letter case at
    /// most, and an entry that is there is found in either. Nothing is tried, so an empty directory tells nothing.
    pub fn may_be_one(&self, one: &OsStr, other: &OsStr) -> bool {
        let folds = || {
            let mut entries = DirListing::of(self).ok()?.filter_map(Result::ok).take(ASKED);
            entries.find_map(|entry| self.tells_case(&entry.name)).map(|tells| !tells)
        };
        one == other || one.eq_ignore_ascii_case(other) && folds() == Some(true)
    }

    /// True if an entry that is there is not found by its name in other letter case; `None` if the name has no letters
    /// of ASCII, or something else stands in the way.
    fn tells_case(&self, name: &OsStr) -> Option<bool> {
        let other = in_other_case(name);
        match self.stat(&other, false) {
            _ if other == name => None,
            Ok(_) => self.lists(&other).ok(),
            Err(error) => (error.kind() == io::ErrorKind::NotFound).then_some(true),
        }
    }

    /// True if single directories of the file system may fold names where others do not (`chattr +F`).
    pub fn may_fold_by_directory(&self) -> bool {
        is_one_of(self, &[EXT, F2FS, TMPFS, BCACHEFS])
    }
}
