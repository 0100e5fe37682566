//! A file system's treatment of everything that it is given: names that Windows does not hold are known, and all but
//! letter case is taken to be done.

use std::{ffi::OsStr, fs::File, io, os::windows::ffi::OsStrExt, sync::Arc};

use crate::{
    sys::part_name::PartOwner, sys::stat::Stat, sys::stat::Time, sys::traits::NameTraits,
    sys::traits::TimeTraits, sys::traits::Traits, sys::traits::TriedName, sys::windows::dir::Dir,
    sys::windows::link::LinkTarget, sys::windows::volume::close_file,
};

impl Dir {
    /// The file system's treatment of everything that it is given. The times of a link are set by a handle of the link.
    pub fn traits(&self, owner: PartOwner) -> Traits {
        let names = NameTraits { folds_case: self.folds_case(owner), ..NameTraits::EVERY };
        let keeps_numbers = self.keeps_identity().is_ok_and(|(numbers, _)| numbers);
        Traits { names, keeps_numbers, ..Traits::FAITHFUL }
    }

    /// True if names here that differ only in letter case are the same name; found out by a trial.
    fn folds_case(&self, owner: PartOwner) -> bool {
        let Ok((_, part)) = self.create_part(owner) else { return false };
        let other: String = part.to_string_lossy().chars().map(other_case).collect();
        let folds = self.stat(OsStr::new(&other), false).is_ok();
        self.remove(&part).is_ok() && folds
    }

    /// The treatment of a file of this name here.
    ///
    /// # Errors
    /// It is not tried: [`unusable`](crate::sys::unusable) knows.
    pub fn try_name(&self, _: PartOwner, _: &OsStr) -> io::Result<TriedName> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// The one of `others`, by its number, that is one name with `name` here. It is not tried: letters are folded one
    /// by one.
    ///
    /// # Errors
    /// None.
    pub fn find_one_name(
        &self,
        _: PartOwner,
        name: &OsStr,
        others: &[Arc<OsStr>],
    ) -> io::Result<Option<usize>> {
        let folded = |name: &OsStr| name.encode_wide().map(folded).collect::<Vec<_>>();
        let name = folded(name);
        Ok(others.iter().position(|other| folded(other) == name))
    }

    /// True if single directories of the file system may fold names where others do not: it is not asked.
    pub fn may_fold_by_directory(&self) -> bool {
        false
    }

    /// True if this directory is one that folds names: it is not asked.
    pub fn folds_by_itself(&self) -> bool {
        false
    }

    /// The metadata of an open file: nothing stands between.
    ///
    /// # Errors
    /// The system does not tell.
    pub fn stat_file_anew(file: &File) -> io::Result<Stat> {
        Self::stat_file(file)
    }

    /// True if it is known to be FAT or exFAT: here nothing depends on that.
    pub fn is_fat(&self) -> bool {
        false
    }

    /// True if a file of this name can take the place of another here.
    ///
    /// # Errors
    /// It is not tried.
    pub fn try_replacing(&self, _: PartOwner, _: &OsStr) -> io::Result<bool> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// The modification time that a file has here that is given a time.
    ///
    /// # Errors
    /// It is not tried.
    pub fn try_time(&self, _: PartOwner, _: Time) -> io::Result<Time> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Closes and removes a file of a trial.
    ///
    /// # Errors
    /// It cannot be closed or removed.
    pub fn remove_trial(&self, file: File, name: &OsStr) -> io::Result<()> {
        close_file(file)?;
        self.remove(name)
    }

    /// The target that a link shows that is made here.
    ///
    /// # Errors
    /// It is not tried.
    pub fn try_link(&self, _: PartOwner, _: &LinkTarget) -> io::Result<LinkTarget> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// True if a link to a target leads out of a root that it is below: every link is shown.
    pub fn leads_out(_: &LinkTarget, _: usize) -> bool {
        false
    }

    /// The times that entries have here: any.
    pub fn own_time_traits(&self) -> TimeTraits {
        TimeTraits::EVERY
    }

    /// The modification time that this directory has when it is given a time.
    ///
    /// # Errors
    /// It is not tried.
    pub fn try_own_time(&self, _: Time) -> io::Result<Time> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Removes a directory that a trial was made in; here there are none.
    ///
    /// # Errors
    /// None.
    pub fn remove_trial_dir(&self, _: &OsStr) -> io::Result<bool> {
        Ok(false)
    }
}

/// An ASCII letter in the other case.
fn other_case(letter: char) -> char {
    match letter.is_ascii_lowercase() {
        true => letter.to_ascii_uppercase(),
        false => letter.to_ascii_lowercase(),
    }
}

/// The form in which a file system of Windows compares a letter: another single letter, or nothing.
fn folded(unit: u16) -> u16 {
    let only = |all: &mut dyn Iterator<Item = char>, unit| match (all.next(), all.next()) {
        (Some(one), None) => u16::try_from(u32::from(one)).unwrap_or(unit),
        _ => unit,
    };
    let letter = |unit: u16| char::from_u32(unit.into());
    let upper = letter(unit).map_or(unit, |it| only(&mut it.to_uppercase(), unit));
    letter(upper).map_or(upper, |it| only(&mut it.to_lowercase(), upper))
}
