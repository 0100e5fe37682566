//! The labels of what is not opened for reading, above all of symbolic links: owner, times, and as root attributes.

use std::{ffi::CStr, ffi::OsStr, ffi::OsString, io, os::fd::OwnedFd};

use rustix::{fs::AtFlags, io::Errno};

use crate::sys::unix::{
    attributes::Attributes, attributes::MOST, dir::Dir, dir::stat_from, dir::times_of,
    process::acting_as, process::is_root, system::unopened,
};
use crate::sys::{part_name::PartOwner, part_name::under_part_name, stat::Kind, stat::Stat};

impl Attributes {
    /// Those of the symbolic link `name` in `dir`.
    pub fn of_link(dir: &Dir, name: &OsStr) -> io::Result<Self> {
        match unopened::links_have_attributes() {
            true => Self::of_unopened(dir, name),
            false => Ok(Self::default()),
        }
    }

    /// Those of the entry `name` in `dir`, which is not opened for reading.
    pub fn of_unopened(dir: &Dir, name: &OsStr) -> io::Result<Self> {
        let entry = unopened::open(dir, name)?;
        let list = |room: Option<&mut [u8]>| unopened::list(&entry, room);
        let get = |name: &CStr, room: Option<&mut [u8]>| unopened::get(&entry, name, room);
        Self::collect(MOST, &list, &get)
    }
}

impl Dir {
    /// Has `make` make an entry as [`create_part_by`](Self::create_part_by) does, and `label` label it, where nobody
    /// else gets at it; with its name comes what that returns.
    ///
    /// # Errors
    /// The system's; within are those of `label`, and then nothing is left.
    pub fn create_part_apart<T, E>(
        &self,
        owner: PartOwner,
        make: impl Fn(&Dir, &OsStr) -> io::Result<()>,
        label: impl Fn(&Dir, &OsStr) -> Result<T, E>,
    ) -> io::Result<Result<(OsString, T), E>> {
        self.in_trial_dir(owner, |apart| {
            let name = OsStr::new("made");
            make(apart, name)?;
            let labelled = match label(apart, name) {
                Ok(labelled) => labelled,
                Err(error) => return Ok(Err(error)),
            };
            let ((), part) = under_part_name(owner, |part| apart.move_entry(name, self, part))?;
            Ok(Ok((part, labelled)))
        })
    }

    /// Gives the symbolic link `name`, which this process has made, owner (as root), times and attributes.
    ///
    /// # Errors
    /// The system's, and that something else has taken its name: the owner of the directory could put a
    /// further name of any file there, for root to give away.
    pub fn set_link_metadata(
        &self,
        name: &OsStr,
        stat: &Stat,
        attributes: &Attributes,
    ) -> io::Result<()> {
        let link = unopened::open(self, name)?;
        let there = stat_from(&rustix::fs::fstat(&link)?);
        let is_ours = !is_root() || there.uid == acting_as().0;
        if there.kind != Kind::Symlink || there.links != 1 || !is_ours {
            return Err(io::Error::other("something else has taken its name"));
        }
        let labelled =
            set_owner_and_times(&link, stat).or_else(|error| match Errno::from_io_error(&error) {
                // Before Linux 5.8 times are not set so.
                Some(Errno::INVAL) => {
                    let flags = AtFlags::SYMLINK_NOFOLLOW;
                    Ok(rustix::fs::utimensat(self, name, &times_of(stat), flags)?)
                }
                _ => Err(error),
            });
        let mut all = attributes.0.iter();
        let set = all.try_for_each(|(name, value)| unopened::set(&link, name, value));
        labelled.and(Ok(set?))
    }
}

fn set_owner_and_times(link: &OwnedFd, stat: &Stat) -> io::Result<()> {
    if is_root() {
        unopened::set_owner(link, stat)?;
    }
    Ok(unopened::set_times(link, stat)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The directory's owner may win the race between the making of a link and its labelling.
    #[test]
    fn what_took_the_name_of_a_link_is_left_alone() {
        let scene = tempfile::tempdir().unwrap();
        let dir = Dir::open(scene.path()).unwrap();
        let name = OsStr::new;
        std::fs::write(scene.path().join("victim"), "x").unwrap();
        dir.make_link(&"elsewhere".into(), name("link")).unwrap();
        dir.hard_link(&dir, name("link"), name("second name")).unwrap();
        dir.make_link(&"elsewhere".into(), name("ours")).unwrap();
        let mut wanted = dir.stat(name("ours"), false).unwrap();
        wanted.mtime.secs = 1_000_000_000;
        for (victim, is_ours) in [("victim", false), ("link", false), ("ours", true)] {
            let before = dir.stat(name(victim), false).unwrap();
            let set = dir.set_link_metadata(name(victim), &wanted, &Attributes::default());
            let after = dir.stat(name(victim), false).unwrap();
            assert_eq!((set.is_ok(), after.mtime == wanted.mtime), (is_ours, is_ours), "{victim}");
            assert!(is_ours || before.ctime == after.ctime, "{victim}");
        }
    }
}
