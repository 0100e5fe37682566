//! Who may read a list: those who may read everything that it lists. A digest tells what is in a small file, and a
//! name that there is one, so a list of what is closed to others is closed to them too.

use std::io;

use crate::path::RelPath;
use crate::sys::stat::{Kind, Stat};
use crate::sys::{self, Dir};

/// Others may read a file, …
const OF_OTHERS: u32 = 0o044;

/// … its group may.
const OF_GROUP: u32 = 0o040;

/// Who may read everything that was seen so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Readers {
    /// Everybody.
    #[default]
    All,
    /// This group.
    Group(u32),
    /// Its owner.
    Owner,
}

impl Readers {
    /// Those of this; its owner alone, if it cannot be looked at.
    pub fn of(stat: Option<&Stat>) -> Self {
        let mut readers = if stat.is_some() { Self::All } else { Self::Owner };
        stat.iter().for_each(|stat| readers.note(stat));
        readers
    }

    /// Something is listed that is this, or that is in this directory.
    pub fn note(&mut self, stat: &Stat) {
        // A directory is to be listed and entered.
        let needed = if stat.kind == Kind::Dir { 0o5 } else { 0o4 };
        let may = |bits: u32| stat.mode & bits == bits;
        *self = match *self {
            all if may(needed) => all,
            Self::All if may(needed << 3) => Self::Group(stat.gid),
            Self::Group(group) if group == stat.gid && may(needed << 3) => Self::Group(group),
            _ => Self::Owner,
        };
    }

    /// Something is listed that is in the directory `path` below `root`.
    pub fn note_way(&mut self, root: &Dir, path: &RelPath) {
        let entered = path.components().try_fold(root.try_clone(), |dir, name| {
            let dir = dir?.open_dir(sys::name_from_bytes(name)?, false)?;
            self.note(&dir.stat_self()?);
            io::Result::Ok(Ok(dir))
        });
        if entered.is_err() {
            *self = Self::Owner;
        }
    }

    /// What these may read is listed too.
    pub fn join(&mut self, others: Self) {
        *self = match (*self, others) {
            (some, Self::All) | (Self::All, some) => some,
            (Self::Group(one), Self::Group(other)) if one == other => Self::Group(one),
            _ => Self::Owner,
        };
    }

    /// The permissions of a list for these readers, which is of this group.
    pub fn mode(self, group: u32) -> u32 {
        let readers = match self {
            Self::All => OF_OTHERS,
            Self::Group(readers) if readers == group => OF_GROUP,
            Self::Group(_) | Self::Owner => 0,
        };
        sys::new_file_mode() & (0o600 | readers)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::stat::{Identity, Time};

    fn seen(entries: &[(Kind, u32, u32)]) -> Readers {
        let mut readers = Readers::default();
        for &(kind, mode, gid) in entries {
            let time = Time::default();
            let id = Identity::default();
            readers.note(&Stat {
                kind,
                size: 0,
                allocated: 0,
                mtime: time,
                ctime: time,
                id,
                links: 1,
                mode,
                uid: 0,
                gid,
            });
        }
        readers
    }

    #[test]
    fn a_list_is_as_closed_as_what_it_lists() {
        use Kind::{Dir, File};
        assert_eq!(seen(&[]), Readers::All);
        assert_eq!(seen(&[(Dir, 0o755, 1), (File, 0o644, 2), (File, 0o444, 3)]), Readers::All);
        assert_eq!(seen(&[(Dir, 0o755, 1), (File, 0o640, 2)]), Readers::Group(2));
        assert_eq!(seen(&[(Dir, 0o750, 2), (File, 0o644, 9), (File, 0o640, 2)]), Readers::Group(2));
        assert_eq!(seen(&[(Dir, 0o750, 2), (File, 0o640, 3)]), Readers::Owner);
        assert_eq!(seen(&[(Dir, 0o711, 1)]), Readers::Owner);
        assert_eq!(seen(&[(Dir, 0o700, 1), (File, 0o644, 1)]), Readers::Owner);
        assert_eq!(seen(&[(File, 0o600, 1), (Dir, 0o755, 1)]), Readers::Owner);
    }

    #[test]
    fn of_two_lists_the_more_closed_counts() {
        for (one, other, both) in [
            (Readers::All, Readers::All, Readers::All),
            (Readers::All, Readers::Group(1), Readers::Group(1)),
            (Readers::Group(1), Readers::Group(1), Readers::Group(1)),
            (Readers::Group(1), Readers::Group(2), Readers::Owner),
            (Readers::All, Readers::Owner, Readers::Owner),
        ] {
            for (mut joined, with) in [(one, other), (other, one)] {
                joined.join(with);
                assert_eq!(joined, both);
            }
        }
    }

    #[cfg(unix)]
    #[test]
    fn the_umask_holds_besides() {
        let umask = 0o666 & !sys::new_file_mode();
        for (readers, mode) in [
            (Readers::All, 0o644),
            (Readers::Group(5), 0o640),
            (Readers::Group(6), 0o600),
            (Readers::Owner, 0o600),
        ] {
            assert_eq!(readers.mode(5), mode & !umask, "{readers:?}");
        }
    }
}
