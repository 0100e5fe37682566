//! Who may enter a directory, by its permissions and access lists.

use std::io;

use crate::{
    sys::Attributes, sys::stat::Identity, sys::stat::Stat, sys::unix::dir::Dir,
    sys::unix::process::acting_as,
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
        let mut stat = self.stat_self()?;
        let (mut above, mut is_open) = (self.parent()?, self.shows_everyone()?);
        loop {
            let next = above.stat_self()?;
            if !is_open || next.id == stat.id {
                return Ok(is_open);
            }
            is_open = next.mode & 0o011 == 0o011 && !Attributes::read(&above)?.deny_somebody();
            (above, stat) = (above.parent()?, next);
        }
    }
}
