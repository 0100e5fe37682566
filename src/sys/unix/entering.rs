//! Who may enter a directory, by its permissions and access lists.

use std::io;

use crate::{
    sys::Attributes, sys::stat::Identity, sys::stat::Stat, sys::unix::dir::Dir,
    sys::unix::owner::Level, sys::unix::process::acting_as,
};

impl Dir {
    /// True if users may enter or list this directory, or hold it open since it was
    /// [closed in place](Self::is_closed_in_place), for whom one that is `other` and has these `lists` is closed: its
    /// owner, if that is a [stranger](Self::is_strange); its group; everyone; or those whom its access lists name.
    /// Without `owners`, of which `other` may tell nothing, permissions alone are compared.
    ///
    /// # Errors
    /// It cannot be looked at.
    pub fn lets_in_more_than(
        &self,
        other: &Stat,
        lists: &Attributes,
        owners: bool,
    ) -> io::Result<bool> {
        let now = self.stat_self()?;
        let everyone = other.mode & 0o005;
        let is_same_group = !owners || now.gid == other.gid;
        let of_group = other.mode >> 3 & 0o005;
        let group = if is_same_group { of_group } else { everyone & of_group };
        let is_owner_known = !owners || !Self::is_strange(&now, other);
        let is_wider = now.mode & 0o005 & !everyone != 0
            || now.mode >> 3 & 0o005 & !group != 0
            // Those of the group whom the other keeps out come as all others.
            || !is_same_group && now.mode & 0o005 & !of_group != 0;
        let denies = lists.deny_somebody();
        let is_for_all = other.is_open_to_everyone() && !denies;
        let may_be_held = !is_owner_known || Self::is_closed_in_place(&now);
        let held = Attributes::read(self)?;
        Ok(is_wider
            || may_be_held && !is_for_all
            || held.open_more_than_those(lists)
            || lists.deny_more_than(&held))
    }

    /// True if this directory lets in fewer users than when it was `before` and had these `lists`, or others; or if it
    /// was moved out of the directory `above`, if that is given.
    ///
    /// # Errors
    /// It cannot be looked at.
    pub fn is_closed_since(
        &self,
        before: &Stat,
        lists: &Attributes,
        above: Option<Identity>,
    ) -> io::Result<bool> {
        let now = self.stat_self()?;
        let has_owner = (now.uid, now.gid) == (before.uid, before.gid);
        if !has_owner || before.mode & !now.mode & 0o055 != 0 {
            return Ok(true);
        }
        // What is moved gets another change time, too.
        if now.ctime == before.ctime {
            return Ok(false);
        }
        if let Some(above) = above
            && self.parent()?.identity()? != above
        {
            return Ok(true);
        }
        let held = Attributes::read(self)?;
        Ok(held.deny_more_than(lists) || lists.open_more_than_those(&held))
    }

    /// True if the owner of what is `now` is neither this user, root nor the owner of what is `like`.
    pub fn is_strange(now: &Stat, like: &Stat) -> bool {
        ![acting_as().0, 0, like.uid].contains(&now.uid)
    }

    /// True if everyone may list this directory, and enter it and all that are above it.
    ///
    /// # Errors
    /// One of them cannot be looked at.
    pub fn is_open_to_everyone(&self) -> io::Result<bool> {
        for (levels, level) in self.way_up().enumerate() {
            if level?.closing(levels > 0)?.is_some() {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// True if users may come to this directory to whom the way to `other` is closed: one of the directories on that
    /// lets in fewer than each of those on the way here. What is above both is passed over: whoever can give a
    /// directory there another name is in it. If `other` was `moved`, only those directories count that others may have
    /// put there: what the rest keeps out, it kept out before.
    ///
    /// # Errors
    /// One of them cannot be looked at.
    pub fn is_reached_by_more_than(&self, other: &Self, moved: bool) -> io::Result<bool> {
        let ids = |dir: &Self| -> io::Result<Vec<Identity>> {
            dir.way_up().map(|level| Ok(level?.stat.id)).collect()
        };
        let (here, there) = (ids(self)?, ids(other)?);
        let is_apart = |level: &io::Result<Level>, from: &[Identity]| {
            !level.as_ref().is_ok_and(|level| from.contains(&level.stat.id))
        };
        let theirs = other.way_up().take_while(|level| is_apart(level, &here));
        let number = if moved { other.exchangeable(acting_as().0)? } else { usize::MAX };
        for (levels, level) in theirs.take(number).enumerate() {
            let Some((closed, lists)) = level?.closing(levels > 0)? else { continue };
            let mut is_closed_here = false;
            for own in self.way_up().take_while(|level| is_apart(level, &there)) {
                let Level { dir: own, stat } = own?;
                let is_private = own.is_private()? && !Self::is_closed_in_place(&stat);
                is_closed_here |= is_private || !own.lets_in_more_than(&closed, &lists, true)?;
            }
            if !is_closed_here {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

impl Level {
    /// Who may enter the directory, and its access lists, if it keeps anybody out. One that `is_above` the one that is
    /// meant is only gone through, and need not be listed for that.
    fn closing(self, is_above: bool) -> io::Result<Option<(Stat, Attributes)>> {
        let listed = if is_above { (self.stat.mode & 0o011) << 2 } else { 0 };
        let stat = Stat { mode: self.stat.mode | listed, ..self.stat };
        let lists = Attributes::read(&self.dir)?;
        let is_closed = !stat.is_open_to_everyone() || lists.deny_somebody();
        Ok(is_closed.then_some((stat, lists)))
    }
}
