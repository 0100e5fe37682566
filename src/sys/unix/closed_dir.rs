//! Directories in which their own owner may make nothing, and making that possible for a time.

use std::io;

use rustix::fs::{Gid, Mode, Uid};

use crate::sys::part_name::PartOwner;
use crate::sys::stat::Stat;
use crate::sys::unix::attributes::Attributes;
use crate::sys::unix::dir::Dir;
use crate::sys::unix::process::{acting_as, is_root};

/// What its owner makes entries in a directory with.
const OWNER_MAKES: u32 = 0o300;

/// By which what is made in a directory takes its group.
const SET_GROUP: u32 = 0o2000;

impl Dir {
    /// Whether the owner of a directory that is `stat` could not make entries in it, and is this process. Root
    /// needs no leave.
    pub fn is_closed(stat: &Stat) -> bool {
        !is_root() && stat.mode & OWNER_MAKES != OWNER_MAKES && stat.uid == acting_as().0
    }

    /// Lets the owner make entries in this directory, which is `stat`, if it [is closed](Self::is_closed); whether
    /// that changed anything.
    pub fn open_up(&self, stat: &Stat) -> io::Result<bool> {
        if !Self::is_closed(stat) {
            return Ok(false);
        }
        rustix::fs::fchmod(&self.0, Mode::from_raw_mode((stat.mode | OWNER_MAKES) as _))?;
        Ok(true)
    }

    /// Takes back what [`open_up`](Self::open_up) changed of this directory, which was `stat`.
    pub fn close_up(&self, stat: &Stat) -> io::Result<()> {
        Ok(rustix::fs::fchmod(&self.0, Mode::from_raw_mode(stat.mode as _))?)
    }

    /// Makes this directory that of who this process acts as, and closes it to all others: until it is known what is
    /// in it. Who holds it open from before can make nothing in it any more.
    ///
    /// # Errors
    /// It is as open as it was. Where there are no owners, it keeps that which it has.
    pub fn take_over(&self) -> io::Result<()> {
        let stat = self.stat_self()?;
        // What is made in it takes its group as before.
        let mode = Mode::from_raw_mode((stat.mode & SET_GROUP | 0o700) as _);
        rustix::fs::fchmod(&self.0, mode)?;
        let (uid, gid) = acting_as();
        if is_root() && (stat.uid, stat.gid) != (uid, gid) {
            let (uid, gid) = (Uid::from_raw(uid), Gid::from_raw(gid));
            let _ = rustix::fs::fchown(&self.0, Some(uid), Some(gid));
        }
        Ok(())
    }

    /// Whether no other user can change what is in a directory that is `stat`: it belongs to who this process acts as,
    /// and if its group may write there, that is a group of this user's own, by the custom that it has the user's
    /// number.
    pub fn is_kept_by_us(stat: &Stat) -> bool {
        let (uid, gid) = acting_as();
        let others = if stat.gid == gid && gid == uid { 0o002 } else { 0o022 };
        stat.uid == uid && stat.mode & others == 0
    }

    /// Whether users may enter or list this directory for whom `like` is closed: its owner, if that is neither this
    /// user, root nor the other's owner; its group; everyone; or who its access lists name. Without `owners`, of which
    /// `like` may tell nothing, permissions alone are compared.
    ///
    /// # Errors
    /// One of them cannot be looked at.
    pub fn lets_in_more_than(&self, like: &Dir, owners: bool) -> io::Result<bool> {
        let (now, other) = (self.stat_self()?, like.stat_self()?);
        let (everyone, us) = (other.mode & 0o005, acting_as().0);
        // What root copies keeps its group; of others it may be that of the directory that it was made in.
        let is_same_group = !owners || now.gid == other.gid || !is_root();
        let group = if is_same_group { other.mode >> 3 & 0o005 } else { everyone };
        let is_owner_known = !owners || [us, 0, other.uid].contains(&now.uid);
        let is_wider = now.mode & 0o005 & !everyone != 0 || now.mode >> 3 & 0o005 & !group != 0;
        let is_open_to_owner = is_owner_known || everyone == 0o005;
        Ok(is_wider || !is_open_to_owner || Attributes::read(self)?.open_more_than(like))
    }

    /// Whether a file that is made here for this user only shows that it is.
    ///
    /// # Errors
    /// It cannot be tried.
    pub fn keeps_labels(&self, owner: PartOwner) -> io::Result<bool> {
        let (file, name) = self.create_part(owner)?;
        let made = Dir::stat_file(&file);
        self.remove_trial(file, &name)?;
        made.map(|made| made.uid == acting_as().0 && made.mode & 0o077 == 0)
    }

    /// Whether a directory that is `now` is what [`open_up`](Self::open_up) made of one of the permissions `mode`.
    pub fn is_opened_up(now: &Stat, mode: u32) -> bool {
        now.mode == mode | OWNER_MAKES && now.mode != mode
    }
}
