//! A file while it is made: it is filled under a temporary name, and gets its own when it is whole. So is a directory
//! that is to appear with what is in it.
//!
//! Every temporary name is that of a part file. In the tree of an output it is random, with the tag of that output's
//! runs, and the sweep of the tree ([`cleanup`](crate::tree::cleanup)) removes what a killed run left. Elsewhere no
//! directory is locked, and another run may be at work beside this one: there the temporary name is made from the name
//! of the file to come, and the file is locked while it is written. So what has such a name and is locked by no process
//! was left by a killed run, and the next run that makes the same file removes it. What heal makes has a name of both
//! kinds: the tag is for copies, and the next heal lists no directory.

use std::{ffi::OsStr, ffi::OsString, fs::File, io, path::Path};

use crate::sys::{Dir, DirListing, PartOwner, PartTag, stat::Inode, stat::Kind};
use crate::{error::Deed, error::Error, hash::Sha256, path::Shown, sys};

/// So many runs at a time make the same file and are cleaned up after; more get random names.
const MOST: u8 = 4;

/// A file that has not got its name. A caller that gives it up removes it.
#[derive(Debug)]
pub struct StagedFile {
    /// `None` once it is closed.
    file: Option<File>,
    /// Keeps it locked until it has its name.
    claim: Option<File>,
    name: OsString,
    /// The file as it was closed, by which it is known again under its name.
    made: Option<Inode>,
}

impl StagedFile {
    /// Makes one in the tree of an output, for its owner only.
    ///
    /// # Errors
    /// The system's.
    pub fn in_tree(dir: &Dir, owner: PartOwner) -> io::Result<Self> {
        let (file, name) = dir.create_part(owner)?;
        Ok(Self { file: Some(file), claim: None, name, made: None })
    }

    /// The open file.
    ///
    /// # Errors
    /// It is closed.
    pub fn file(&self) -> io::Result<&File> {
        self.file.as_ref().ok_or_else(|| io::Error::other("it is closed"))
    }

    /// Its temporary name.
    pub fn name(&self) -> &OsStr {
        &self.name
    }

    /// Makes one that is to be called `name`, for its owner only if `private`, otherwise as the user's umask has it.
    /// What killed runs left of it is removed, but for what `is_data` says is a file of the user.
    ///
    /// # Errors
    /// The system's.
    pub fn of(
        dir: &Dir,
        name: &OsStr,
        private: bool,
        is_data: &dyn Fn(&OsStr) -> bool,
    ) -> io::Result<Self> {
        Self::made_by(PartOwner::default(), dir, name, private, is_data)
    }

    /// The same, for its owner only, in the tree of an output whose runs this one keeps out: they know it by the tag of
    /// `owner`. What was left under a name without that is removed too.
    ///
    /// # Errors
    /// The system's.
    pub fn of_tree(
        owner: PartOwner,
        dir: &Dir,
        name: &OsStr,
        is_data: &dyn Fn(&OsStr) -> bool,
    ) -> io::Result<Self> {
        if owner.output.is_some() {
            sweep(dir, name, None, is_data);
        }
        Self::made_by(owner, dir, name, true, is_data)
    }

    fn made_by(
        owner: PartOwner,
        dir: &Dir,
        name: &OsStr,
        private: bool,
        is_data: &dyn Fn(&OsStr) -> bool,
    ) -> io::Result<Self> {
        sweep(dir, name, owner.output, is_data);
        let (file, name) = create(dir, name, owner, private)?;
        let claim = sys::keep_locked(&file);
        let mut staged = Self { file: Some(file), claim: None, name, made: None };
        match claim {
            Ok(claim) => staged.claim = claim,
            Err(error) => return Err(staged.discard(dir, error)),
        }
        Ok(staged)
    }

    /// Has `fill` write it; after an error nothing of it is left.
    ///
    /// # Errors
    /// Those of `fill`.
    pub fn fill(
        mut self,
        dir: &Dir,
        fill: impl FnOnce(&mut File) -> io::Result<()>,
    ) -> io::Result<Self> {
        let filled = match &mut self.file {
            Some(file) => fill(file),
            None => Ok(()),
        };
        match filled {
            Ok(()) => Ok(self),
            Err(error) => Err(self.discard(dir, error)),
        }
    }

    /// Closes it when all of it is written, durable if `durable`: it waits for its name. After an error nothing of it
    /// is left.
    ///
    /// # Errors
    /// The system's.
    pub fn close(mut self, dir: &Dir, durable: bool) -> io::Result<Self> {
        let Some(file) = self.file.take() else { return Ok(self) };
        let persisted = if durable { sys::persist_file(&file) } else { Ok(()) };
        let made = persisted.and_then(|()| Dir::inode_of(&file));
        match made.and_then(|made| sys::close_file(file).map(|()| made)) {
            Ok(made) => Ok(Self { made: Some(made), ..self }),
            Err(error) => Err(self.discard(dir, error)),
        }
    }

    /// Gives it the name `name`, which may be another's if it `replaces` that. After an error nothing of it is left.
    ///
    /// # Errors
    /// The system's; or [another file](publish) got the name.
    pub fn publish(&self, dir: &Dir, name: &OsStr, replaces: bool) -> io::Result<()> {
        self.publish_by(dir, |staged| staged.give_name(dir, name, replaces))
    }

    /// The same, but after an error it stays.
    ///
    /// # Errors
    /// As above.
    pub fn give_name(&self, dir: &Dir, name: &OsStr, replaces: bool) -> io::Result<()> {
        publish(dir, &self.name, name, replaces, self.made.as_ref())
    }

    /// Has `publish` [give it its name](Self::give_name).
    ///
    /// # Errors
    /// Those of `publish`; nothing of it is left.
    pub fn publish_by(
        &self,
        dir: &Dir,
        publish: impl FnOnce(&Self) -> io::Result<()>,
    ) -> io::Result<()> {
        publish(self).map_err(|error| self.discard(dir, error))
    }

    /// Removes it because of `error`, which is returned: what matters is the first error.
    fn discard(&self, dir: &Dir, error: io::Error) -> io::Error {
        let _ = self.remove(dir);
        error
    }

    /// Fills, closes and publishes it; with `durable` it waits until content and name are on the device.
    ///
    /// # Errors
    /// As above; where the name may not be on the device, the file stays.
    pub fn write(
        self,
        dir: &Dir,
        durable: bool,
        fill: impl FnOnce(&mut File) -> io::Result<()>,
        publish: impl FnOnce(&Self) -> io::Result<()>,
    ) -> io::Result<()> {
        self.fill(dir, fill)?.close(dir, durable)?.publish_by(dir, publish)?;
        if durable { dir.persist() } else { Ok(()) }
    }

    /// Removes it, if it is still there.
    ///
    /// # Errors
    /// It stays behind.
    pub fn remove(&self, dir: &Dir) -> io::Result<()> {
        dir.remove(&self.name).if_there().map(drop)
    }
}

/// The deed of a run that lost its output.
pub const GO_ON_WRITING: &str = "go on writing to";

/// The error about a directory at `path` that is another one by now.
pub fn moved(path: &Path) -> Error {
    Error::finding(GO_ON_WRITING, path, "it was unmounted, moved or replaced meanwhile")
}

/// Refuses a directory to which its path does not lead any more: nobody finds what is written there.
///
/// # Errors
/// It is one.
pub fn refuse_moved(dir: &Dir, path: &Path) -> Result<(), Error> {
    dir.is_at(path).then_some(()).ok_or_else(|| moved(path))
}

/// Refuses a directory at `path` that was made under another name, where others may write above it: they can exchange
/// two of its kind. One that no name is known of is taken as it is.
///
/// # Errors
/// It is one, and `deed` is what cannot be done. Or the system's.
pub fn refuse_exchanged(
    deed: &'static str,
    made_as: Option<&str>,
    dir: &Dir,
    path: &Path,
) -> Result<(), Error> {
    let look = |error| Error::io("look at", path, error);
    let Some(name) = made_as else { return Ok(()) };
    if name_of(path).map_err(look)?.is_some_and(|now| now == name)
        || dir.is_place_kept().map_err(look)?
    {
        return Ok(());
    }
    let finding = format!(
        "it was made as {}, and others may write above it, who can exchange two of its kind: name the one that is meant, \
         and give it that name again",
        Shown::bytes(name.as_bytes())
    );
    Err(Error::finding(deed, path, finding))
}

/// The name of the directory at `path` by which it is [known again](refuse_exchanged): as it was given, and where that
/// is the name of a link, with its own. Bytes that are no text are told alike.
///
/// # Errors
/// The system's.
pub fn name_of(path: &Path) -> io::Result<Option<String>> {
    let (given, whole) = (std::path::absolute(path)?, path.canonicalize()?);
    let name = |path: &Path| Some(path.file_name()?.to_string_lossy().into_owned());
    let (given, own) = (name(&given), name(&whole));
    Ok(match given.filter(|given| own.as_ref() != Some(given)) {
        Some(given) => Some(format!("{given} ({})", own.unwrap_or_default())),
        None => own,
    })
}

/// Makes the file `name` with what `fill` writes: it appears whole and durable, in place of what was there if it
/// `replaces` that, for its owner only if `private`. After an error nothing of it is there.
///
/// # Errors
/// The system's, and those of `fill`.
pub fn write_whole(
    dir: &Dir,
    name: &OsStr,
    private: bool,
    replaces: bool,
    fill: impl FnOnce(&mut File) -> io::Result<()>,
) -> io::Result<()> {
    let staged = StagedFile::of(dir, name, private, &|_| false)?;
    staged.write(dir, true, fill, |staged| staged.give_name(dir, name, replaces))
}

/// The message about a name that another file got.
pub const SWAPPED: &str = "another file took the place of its part file while that waited for its name; what stands \
                           there now is not this run's";

/// Gives the file `part`, which is known to be `made`, the name `name`, which may be another's if it `replaces` that.
///
/// Whoever may write to the directory could put another file in its place while it had its temporary name, so what
/// stands there is looked at before it is believed. A file that was made since `made` was removed may have its number,
/// but not the time of its making. Where all entries may be one user's, nobody could do so, and numbers may not stay.
///
/// # Errors
/// The system's; or another file got the name. That stays, since it is not known whose it is.
pub fn publish(
    dir: &Dir,
    part: &OsStr,
    name: &OsStr,
    replaces: bool,
    made: Option<&Inode>,
) -> io::Result<()> {
    dir.publish(part, name, replaces)?;
    is_as_made(dir, name, made)
}

/// Looks whether what is called `name` is what was `made`.
fn is_as_made(dir: &Dir, name: &OsStr, made: Option<&Inode>) -> io::Result<()> {
    let Some(made) = made.filter(|_| !sys::may_lack_owners(dir)) else { return Ok(()) };
    let now = dir.inode(name)?;
    let is_later = matches!((made.birth, now.birth), (Some(made), Some(now)) if made < now);
    if now.stat.id == made.stat.id && !is_later { Ok(()) } else { Err(io::Error::other(SWAPPED)) }
}

// A directory that appears with what is in it.

/// The names of what a run makes in a directory: other directories, one in another, and a file in the last.
#[derive(Clone, Copy, Debug)]
pub struct Inside<'a> {
    pub dirs: &'a [&'a OsStr],
    pub file: &'a OsStr,
}

/// A directory that has not got its name. A caller that gives it up removes it.
#[derive(Debug)]
pub struct StagedDir {
    name: OsString,
    made: Inode,
    /// Keeps it locked until it has its name.
    _claim: Option<Dir>,
}

impl StagedDir {
    /// Makes the one that is to be called `name`, for its owner only, and opens it. What a killed run left of it is
    /// removed if there is nothing but what is to be `inside`, and `is_data` does not say that it is the user's.
    ///
    /// # Errors
    /// The system's; or another directory took its place.
    pub fn of(
        dir: &Dir,
        name: &OsStr,
        inside: Inside<'_>,
        is_data: &dyn Fn(&OsStr) -> bool,
    ) -> io::Result<(Self, Dir)> {
        for part in temporary_names(name) {
            let is_there = dir.stat(&part, false).is_ok_and(|there| there.kind == Kind::Dir);
            if is_there && !is_data(&part) {
                let _ = remove_abandoned(dir, &part, inside);
            }
        }
        Self::new(dir, name)
    }

    /// The same, where it is known that nothing of it is left.
    ///
    /// # Errors
    /// As above.
    pub fn new(dir: &Dir, name: &OsStr) -> io::Result<(Self, Dir)> {
        let (part, claimed) = make_dir(dir, name)?;
        let (opened, made) = (claimed.try_clone()?, dir.inode(&part)?);
        let is_ours = sys::may_lack_owners(dir) || opened.is_private()?;
        if made.stat.id != opened.identity()? || !is_ours || !DirListing::is_empty(&opened)? {
            return Err(io::Error::other(SWAPPED));
        }
        Ok((Self { name: part, made, _claim: claimed.keep_claim() }, opened))
    }

    /// Gives it the name `name`, which nothing may have. Where an open directory gets no other name, nobody may have it
    /// or what is in it open.
    ///
    /// # Errors
    /// The system's; or another directory got the name.
    pub fn publish(&self, dir: &Dir, name: &OsStr) -> io::Result<()> {
        dir.move_entry(&self.name, dir, name)?;
        is_as_made(dir, name, Some(&self.made))
    }

    /// Gives it the name `name` in place of the empty directory that has it.
    ///
    /// # Errors
    /// The system's; or another directory got the name.
    pub fn replace(&self, dir: &Dir, name: &OsStr) -> io::Result<()> {
        dir.publish(&self.name, name, true)?;
        is_as_made(dir, name, Some(&self.made))
    }

    /// Its temporary name.
    pub fn name(&self) -> &OsStr {
        &self.name
    }

    /// Removes it with what is `inside`, and no more.
    ///
    /// # Errors
    /// It stays behind.
    pub fn remove(&self, dir: &Dir, inside: Inside<'_>) -> io::Result<()> {
        match dir.open_dir(&self.name, false) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            opened => {
                is_as_made(dir, &self.name, Some(&self.made))?;
                remove_dir(dir, &self.name, opened?, inside)
            }
        }
    }
}

/// Makes the temporary directory of the one that is to be called `name`, locked.
fn make_dir(dir: &Dir, name: &OsStr) -> io::Result<(OsString, Dir)> {
    for part in temporary_names(name) {
        let made = dir.make_dir(&part, true).and_then(|()| dir.open_claimed(&part));
        if let Some(made) = made.unless_taken()? {
            return Ok((part, made));
        }
    }
    let part = dir.create_part_dir(PartOwner::default())?;
    let made = dir.open_claimed(&part)?;
    Ok((part, made))
}

fn remove_abandoned(dir: &Dir, part: &OsStr, inside: Inside<'_>) -> io::Result<()> {
    match dir.open_abandoned(part)? {
        Some(opened) => remove_dir(dir, part, opened, inside),
        None => Ok(()),
    }
}

/// Removes the directory `name`, which is open, with what is `inside`.
fn remove_dir(dir: &Dir, name: &OsStr, opened: Dir, inside: Inside<'_>) -> io::Result<()> {
    opened.open_up(&opened.stat_self()?)?;
    let gone = match inside.dirs.split_first() {
        Some((next, rest)) => match opened.open_dir(next, false) {
            Ok(below) => remove_dir(&opened, next, below, Inside { dirs: rest, ..inside }),
            Err(error) => Err(error),
        },
        None => {
            // Whoever makes it has the lock of the first directory.
            for part in temporary_names(inside.file) {
                let _ = opened.remove(&part);
            }
            opened.remove(inside.file)
        }
    };
    gone.if_there()?;
    drop(opened);
    dir.remove_dir(name)
}

/// Makes the temporary file of the file that is to be called `name`, locked.
pub fn create(
    dir: &Dir,
    name: &OsStr,
    owner: PartOwner,
    private: bool,
) -> io::Result<(File, OsString)> {
    for part in names_by(name, owner.output) {
        if let Some(file) = dir.create_claimed(&part, private).unless_taken()? {
            return Ok((file, part));
        }
    }
    let (file, part) = dir.create_part(owner)?;
    if !private && let Err(error) = sys::let_read(&file, |_| sys::new_file_mode()) {
        let _ = dir.remove(&part);
        return Err(error);
    }
    Ok((file, part))
}

/// Makes the temporary link of the one that is to be called `name`, to the entry `target` of the same directory. A link
/// cannot be locked: the caller keeps other runs out, so those that are there were left by killed ones, and go.
///
/// # Errors
/// The system's: there are no such links everywhere.
pub fn create_link(dir: &Dir, name: &OsStr, target: &OsStr) -> io::Result<OsString> {
    for part in temporary_names(name) {
        if matches!(dir.read_name_link(&part), Ok(Some(_))) {
            dir.remove(&part)?;
        }
    }
    for part in temporary_names(name) {
        if dir.make_name_link(target, &part).unless_taken()?.is_some() {
            return Ok(part);
        }
    }
    Err(io::ErrorKind::AlreadyExists.into())
}

/// Removes what killed runs left of the file that was to be called `name`. What cannot be removed is left to
/// a later run; what `is_data` says is a file of the user stays.
pub fn sweep(dir: &Dir, name: &OsStr, output: Option<PartTag>, is_data: &dyn Fn(&OsStr) -> bool) {
    for part in names_by(name, output) {
        let is_there = dir.stat(&part, false).is_ok();
        if is_there && !is_data(&part) {
            let _ = dir.remove_abandoned(&part);
        }
    }
}

/// The temporary names that a file which is to be called `name` may have.
pub fn temporary_names(name: &OsStr) -> impl Iterator<Item = OsString> {
    names_by(name, None)
}

/// The same in an output whose runs have this tag.
fn names_by(name: &OsStr, output: Option<PartTag>) -> impl Iterator<Item = OsString> {
    (0..MOST).map(move |number| part_of(name, number, output))
}

fn part_of(name: &OsStr, number: u8, output: Option<PartTag>) -> OsString {
    let Sha256(sum) = Sha256::of(&[&[number], name.as_encoded_bytes()]);
    sys::part_name_of(std::array::from_fn(|i| sum[i]), output)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_no_process_writes_is_removed() {
        let root = tempfile::tempdir().unwrap();
        let dir = Dir::open(root.path()).unwrap();
        let name = OsStr::new("f");
        let (first, part) = create(&dir, name, PartOwner::default(), true).unwrap();
        let (second, other) = create(&dir, name, PartOwner::default(), true).unwrap();
        assert!(part != other && sys::is_part_name(&part) && sys::is_part_name(&other));
        sweep(&dir, name, None, &|_| false);
        assert_eq!(root.path().read_dir().unwrap().count(), 2);
        drop(first);
        sweep(&dir, name, None, &|_| false);
        // Where a part file cannot be locked it stays.
        let left = if cfg!(unix) { 1 } else { 2 };
        assert_eq!(root.path().read_dir().unwrap().count(), left);
        drop(second);
    }

    #[cfg(unix)]
    #[test]
    fn what_another_program_made_stays() {
        let root = tempfile::tempdir().unwrap();
        let dir = Dir::open(root.path()).unwrap();
        let name = OsStr::new("f");
        std::os::unix::fs::symlink("x", root.path().join(part_of(name, 0, None))).unwrap();
        std::fs::create_dir(root.path().join(part_of(name, 1, None))).unwrap();
        std::fs::write(root.path().join(part_of(name, 2, None)), "").unwrap();
        std::fs::hard_link(root.path().join(part_of(name, 2, None)), root.path().join("y"))
            .unwrap();
        sweep(&dir, name, None, &|_| false);
        assert_eq!(root.path().read_dir().unwrap().count(), 4);
        assert_eq!(
            create(&dir, name, PartOwner::default(), true).unwrap().1,
            part_of(name, 3, None)
        );
    }
}
