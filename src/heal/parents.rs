//! The directories on the way to a file that is made whole: those that are missing are made as a good tree has them,
//! and what their times were is what they are afterwards. Nothing is put where more users may enter than in a good
//! tree.
//!
//! The first of those that are missing has a temporary name until the others and the file are in it, all have their
//! labels and are durable: nobody else can put one of his in the place of one of them, and a run that is killed leaves
//! none that is not whole.

use std::{ffi::OsStr, ffi::OsString, io, path::Path};

use crate::{
    error::Deed, error::Error, error::Result, heal::FileCopy, heal::bad::Tree, heal::bad::Unmended,
    path::RelPath, path::Shown, staged::Inside, staged::StagedDir, state::Note, state::OpenedDir,
    state::PrivateDir, sys, sys::Attributes, sys::Dir, sys::PartOwner, sys::stat::Kind,
    sys::stat::Stat, tree::hand_over::is_of_stranger, tree::hand_over::is_open_to_strangers,
    tree::hand_over::tells_owners,
};

/// The last directory that is there. It is changed by what is made in it.
struct HeldDir {
    dir: Dir,
    /// The metadata that it is to have afterwards.
    like: Stat,
    /// True if it was opened for writing.
    opened_up: bool,
}

/// A directory that was made.
struct MadeDir {
    dir: Dir,
    /// The label that it is to have.
    like: Stat,
    attributes: Attributes,
    /// The group of the directory that it was made in.
    gid: u32,
}

/// The directories that were made, one in another.
struct MadeDirs {
    staged: StagedDir,
    /// The name of the first, …
    first: OsString,
    /// … and of the others.
    rest: Vec<OsString>,
    open: Vec<MadeDir>,
}

/// The directory of a file, and those above it that were made.
pub struct Parents {
    held: HeldDir,
    made: Option<MadeDirs>,
    /// The name of the file.
    file: OsString,
    /// False if a directory that they were compared with has not the copy that content is taken from.
    is_beside_copies: bool,
}

/// A copy that content is taken from, and its tree.
#[derive(Clone, Copy)]
pub struct Source<'a> {
    pub tree: &'a Tree,
    pub copy: &'a FileCopy,
}

/// The place of a directory in a tree.
#[derive(Clone, Copy)]
pub struct DirPlace<'a> {
    pub tree: &'a Tree,
    pub below: &'a RelPath,
    /// The file in it.
    pub name: &'a OsStr,
    /// Where it is, for messages.
    pub path: &'a Path,
}

/// The way down to a directory, as far as it is there, beside the same way in the trees that content is taken from.
struct Way<'a> {
    /// The last directory that is there, which alone is changed.
    there: Dir,
    below: RelPath,
    /// The directories that are missing below it.
    missing: Vec<&'a OsStr>,
    /// The counterparts of that directory.
    good: Vec<GoodDir<'a>>,
    /// The first that lets in more than its counterpart, in words.
    wider: Option<String>,
}

/// A directory of a tree that content is taken from.
struct GoodDir<'a> {
    source: Source<'a>,
    dir: Dir,
    /// True if not everyone may go down to it from the root of its tree.
    is_closed: bool,
}

impl<'a> GoodDir<'a> {
    /// The root of a tree.
    fn root_of(source: Source<'a>) -> io::Result<Self> {
        let dir = source.tree.dir.try_clone()?;
        let is_closed = !dir.shows_everyone()?;
        Ok(Self { source, dir, is_closed })
    }

    /// True if users may enter `other`, or hold it open, who may not enter this one.
    fn is_closed_to_some_in(&self, other: &Dir) -> io::Result<bool> {
        let Told { owners, modes } = Told::of(&self.dir, &self.source.tree.dir)?;
        if !owners && !modes {
            return Ok(false);
        }
        let (stat, lists) = (self.dir.stat_self()?, Attributes::read(&self.dir)?);
        is_open_to_strangers(other, &stat, &lists, self.is_closed, owners)
    }

    /// True if `root`, that of the healed tree, belongs to a stranger who may not come to this one, that of the good
    /// tree.
    fn is_closed_to_owner_of(&self, root: &Dir) -> io::Result<bool> {
        let is_closed = !self.dir.is_open_to_everyone().unwrap_or(false);
        Ok(is_of_stranger(&root.stat_self()?, &self.dir.stat_self()?, is_closed))
    }

    /// True if others may have put `root`, that of the healed tree, where it is, and users may come to it who may not
    /// come to this one, that of the good tree, of which the owner decides.
    fn is_closed_to_some_at(&self, root: &Dir) -> io::Result<bool> {
        Ok(!sys::may_lack_owners(&self.dir)
            && !root.is_place_kept_for(&self.dir.stat_self()?)?
            && root.is_reached_by_more_than(&self.dir, false)?)
    }

    /// True if the copy is the file `name` in it: the copy was opened before, and another user may have exchanged the
    /// directories since.
    fn has_copy(&self, name: &OsStr) -> io::Result<bool> {
        let Told { owners, modes } = Told::of(&self.dir, &self.source.tree.dir)?;
        Ok(!owners && !modes || self.dir.stat(name, false)?.id == self.source.copy.stat.id)
    }
}

/// True if the root of `tree` may be entered by users who may not enter that of a tree that content is taken from, or
/// belongs to a stranger.
pub fn lets_more_into_root(tree: &Tree, source: &Source<'_>) -> io::Result<bool> {
    if sys::may_lack_owners(&tree.dir) {
        return Ok(false);
    }
    let good = GoodDir::root_of(*source)?;
    let is_strange = Dir::is_strange(&tree.dir.stat_self()?, &good.dir.stat_self()?);
    Ok(is_strange || good.is_closed_to_some_in(&tree.dir)?)
}

/// The meaning of the labels of a directory: none where all entries have those of the root, because the file system has
/// no others.
struct Told {
    owners: bool,
    modes: bool,
}

impl Told {
    fn of(dir: &Dir, root: &Dir) -> io::Result<Self> {
        let (now, root) = (dir.stat_self()?, root.stat_self()?);
        let is_all = !sys::may_lack_owners(dir);
        let owners = is_all || (now.uid, now.gid) != (root.uid, root.gid);
        Ok(Self { owners, modes: is_all || now.mode != root.mode })
    }
}

impl<'a> Way<'a> {
    /// Another user may have put a directory of his on the way, or in the place of the root: what is good must not get
    /// into it. Roots are what the user gave, and often differ in who may enter them (a disk, a home): where nobody
    /// else can have put them there, that is [told](lets_more_into_root).
    fn go(place: DirPlace<'a>, good: &[Source<'a>]) -> io::Result<Self> {
        let there = place.tree.dir.try_clone()?;
        // What the user lets everyone into is closed to nobody.
        let is_shown = there.shows_everyone()?;
        let open = |source: &Source<'a>| {
            let root = GoodDir::root_of(*source)?;
            Ok(GoodDir { is_closed: root.is_closed && !is_shown, ..root })
        };
        let mut way = Self {
            there,
            below: RelPath::root(),
            missing: Vec::new(),
            good: good.iter().map(open).collect::<io::Result<_>>()?,
            wider: None,
        };
        for good in &way.good {
            if way.wider.is_none() && good.is_closed_to_owner_of(&way.there)? {
                let (own, good) = (&place.tree.root, &good.source.tree.root);
                way.wider = Some(format!(
                    "{} belongs to another user, who may not enter {}; give the one the owner of the other if all in \
                     it may be that user's, or else look who put it there, and heal again",
                    Shown::path(own),
                    Shown::path(good)
                ));
            }
            if way.wider.is_none() && good.is_closed_to_some_at(&way.there)? {
                let (own, good) = (&place.tree.root, &good.source.tree.root);
                way.wider = Some(format!(
                    "others may write above {}, who can have put it there, and users may enter it who may not come to \
                     {}; look whether it is the directory that is meant, close it to them (chown, chmod), and heal again",
                    Shown::path(own),
                    Shown::path(good)
                ));
            }
        }
        for name in place.below.components() {
            let name: &OsStr = sys::name_from_bytes(name)?;
            if !way.missing.is_empty() {
                way.missing.push(name);
                continue;
            }
            match way.there.open_dir(name, false) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => way.missing.push(name),
                opened => way.enter(opened?, name, place.tree)?,
            }
        }
        Ok(way)
    }

    fn enter(&mut self, dir: Dir, name: &OsStr, tree: &Tree) -> io::Result<()> {
        (self.there, self.below) = (dir, self.below.join(name));
        self.descend(name)?;
        for good in &self.good {
            if self.wider.is_none() && good.is_closed_to_some_in(&self.there)? {
                let path = |tree: &Tree| Shown::path(&self.below.full_path(&tree.root)).to_string();
                self.wider = Some(format!(
                    "{} may be entered by users who may not enter {}, or belongs to another; give it that one's owner, \
                     permissions and access lists if all in it is yours, or else move it away, and heal again",
                    path(tree),
                    path(good.source.tree)
                ));
            }
        }
        Ok(())
    }

    /// Goes on to what is called so in the good trees.
    fn descend(&mut self, name: &OsStr) -> io::Result<()> {
        for good in &mut self.good {
            good.dir = good.dir.open_dir(name, false)?;
            good.is_closed |= !good.dir.shows_everyone()?;
        }
        Ok(())
    }

    /// The counterpart that lets in no more than the others: a directory is made like this one.
    fn narrowest(&self) -> io::Result<&GoodDir<'a>> {
        for (at, one) in self.good.iter().enumerate() {
            let mut others = self.good.iter().enumerate().filter(|(other, _)| *other != at);
            if others.try_fold(true, |narrow, (_, other)| {
                Ok::<_, io::Error>(narrow && !other.is_closed_to_some_in(&one.dir)?)
            })? {
                return Ok(one);
            }
        }
        let finding = "the good trees do not agree who may enter it";
        Err(io::Error::new(io::ErrorKind::PermissionDenied, finding))
    }
}

impl Parents {
    /// Opens a directory; what is missing of it is made as it is in the trees `good`, if it `may_be_made`. That it was
    /// made writable is noted.
    ///
    /// # Errors
    /// It cannot be opened or made; or it is [open to more](Unmended::Barrier) than in a good tree.
    pub fn open(
        place: DirPlace<'_>,
        good: &[Source<'_>],
        may_be_made: bool,
    ) -> Result<Self, Unmended> {
        let fail = |error| Error::io("open the directory", place.path, error);
        let mut way = Way::go(place, good).map_err(fail)?;
        if way.wider.is_some() && !tells_owners(&way.there, PartOwner::default(), false) {
            way.wider = None;
        }
        match way {
            Way { wider: Some(why), .. } => Err(Unmended::Barrier(why)),
            Way { missing, .. } if !missing.is_empty() && !may_be_made => {
                Err(fail(io::ErrorKind::NotFound.into()).into())
            }
            way => Ok(Self::make(way, place).map_err(fail)?),
        }
    }

    /// The same of what cannot be made now, because this is a dry run.
    ///
    /// # Errors
    /// Fails as above.
    pub fn look(place: DirPlace<'_>, good: &[Source<'_>]) -> Result<(), Unmended> {
        let fail = |error| Error::io("open the directory", place.path, error);
        let Way { wider, there, .. } = Way::go(place, good).map_err(fail)?;
        let tells = Told::of(&there, &place.tree.dir).map_err(fail)?.owners;
        wider.filter(|_| tells).map_or(Ok(()), |why| Err(Unmended::Barrier(why)))
    }

    fn make(mut way: Way<'_>, place: DirPlace<'_>) -> io::Result<Self> {
        let held = HeldDir::of(way.there.try_clone()?, &way.below, place.tree.private())?;
        let (file, is_beside_copies) = (place.name.to_os_string(), false);
        let mut parents = Self { held, made: None, file, is_beside_copies };
        let missing = std::mem::take(&mut way.missing);
        if let Err(error) = parents.make_dirs(&mut way, &missing, place.tree) {
            // What matters is the first error.
            let _ = parents.remove_made();
            let _ = parents.held.restore();
            return Err(error);
        }
        parents.is_beside_copies =
            way.good.iter().all(|good| good.has_copy(place.name).unwrap_or(false));
        Ok(parents)
    }

    /// Makes the directories that are `missing`. Until they have the permissions of the copies, only their owner may
    /// enter them.
    fn make_dirs(&mut self, way: &mut Way<'_>, missing: &[&OsStr], tree: &Tree) -> io::Result<()> {
        let Some((first, rest)) = missing.split_first() else { return Ok(()) };
        let inside = Inside { dirs: rest, file: &self.file };
        let is_data = |part: &OsStr| {
            let dirs = rest.iter().fold(way.below.join(part), |path, name| path.join(name));
            tree.lists(&dirs.join(&self.file))
        };
        let (staged, mut dir) = StagedDir::of(&self.held.dir, first, inside, &is_data)?;
        let names = rest.iter().map(|name| name.to_os_string()).collect();
        let made = MadeDirs { staged, first: first.to_os_string(), rest: names, open: Vec::new() };
        let (made, mut gid) = (self.made.insert(made), self.held.like.gid);
        for (at, name) in missing.iter().enumerate() {
            if at > 0 {
                dir.make_dir(name, true)?;
                dir = dir.open_dir(name, false)?;
            }
            way.descend(name)?;
            let (like, attributes) = match way.good.is_empty() {
                // Nobody knows who might enter it.
                true => (dir.stat_self()?, Attributes::default()),
                false => {
                    let good = way.narrowest()?;
                    (Dir::label_of_copy(&good.dir.stat_self()?), Attributes::read(&good.dir)?)
                }
            };
            made.open.push(MadeDir { dir: dir.try_clone()?, like, attributes, gid });
            gid = like.gid;
        }
        Ok(())
    }

    /// Lets the directories that were made appear with the file in them: when they have their labels and are durable,
    /// the first gets its name. What they could not be given is told to `warn`, about `path`.
    ///
    /// # Errors
    /// Nothing of them is there, unless the error says so.
    pub fn appear(&mut self, path: &Path, mut warn: impl FnMut(Error)) -> Result<()> {
        let Some(made) = &mut self.made else { return Ok(()) };
        // Where a directory that is open gets no other name, they are closed by then.
        let settled = made.open.drain(..).rev().try_for_each(|dir| {
            dir.label(path, &mut warn);
            dir.dir.persist()
        });
        let named = settled.and_then(|()| made.staged.publish(&self.held.dir, &made.first));
        let fail = |error| Error::io("make the directory", path, error);
        match named {
            Ok(()) => self.made = None,
            Err(error) => {
                return Err(match self.remove_made() {
                    Ok(()) => fail(error),
                    Err(stays) => {
                        fail(error).with_note(format!("; and its part directory stays ({stays})"))
                    }
                });
            }
        }
        Ok(())
    }

    /// Removes the directories that were made, and what is of the file in the last.
    fn remove_made(&mut self) -> io::Result<()> {
        let Some(MadeDirs { staged, rest, open, .. }) = self.made.take() else { return Ok(()) };
        drop(open);
        let dirs: Vec<&OsStr> = rest.iter().map(OsString::as_os_str).collect();
        staged.remove(&self.held.dir, Inside { dirs: &dirs, file: &self.file })
    }

    /// True if the directories were compared with those that the copies are in.
    pub fn is_beside_copies(&self) -> bool {
        self.is_beside_copies
    }

    /// The directory of the file itself.
    pub fn dir(&self) -> &Dir {
        let made = self.made.as_ref().and_then(|made| made.open.last());
        made.map_or(&self.held.dir, |made| &made.dir)
    }

    /// By what later runs know the part file of `path`: in a directory that was made, by that.
    pub fn part_owner(&self, tree: &Tree, path: &RelPath) -> PartOwner {
        let output = if self.made.is_none() { tree.part_tag(path) } else { None };
        PartOwner { output, shard: None }
    }

    /// Gives the directory that was there its times back, and waits until it is on the device; those that were made and
    /// have not [appeared](Self::appear) are removed. What could not be done is told to `warn`, about `path`.
    ///
    /// # Errors
    /// It may not be on the device. It is not tried again: the system reports a lost write only once.
    pub fn settle(
        mut self,
        path: &Path,
        private: Option<&PrivateDir>,
        mut warn: impl FnMut(Error),
    ) -> Result<()> {
        if let Err(error) = self.remove_made() {
            warn(Error::io("remove the part directory in", path, error));
        }
        let HeldDir { dir, opened_up, .. } = &self.held;
        if let Err((deed, error)) = self.held.restore() {
            warn(Error::io(deed, path, error));
        }
        let settled = dir.persist().deed("make durable the directory", path);
        if let Some(private) = private.filter(|_| *opened_up)
            && let Err(error) = OpenedDir::forget(private)
        {
            warn(Error::io("remove the note of an opened directory in", private.path(), error));
        }
        settled
    }
}

impl MadeDir {
    /// Gives it its label.
    fn label(&self, path: &Path, warn: &mut impl FnMut(Error)) {
        let Self { dir, like, attributes, gid } = self;
        let mut warn = |deed, error| warn(Error::io(deed, path, error));
        if let Err(error) = attributes.shed_lists(dir) {
            warn("set the permissions of", error);
        }
        attributes.apply_to_new(dir, like, *gid, None, &mut warn);
    }
}

impl HeldDir {
    /// A directory that is there. It is noted before it is made writable, because a run that is killed does not close
    /// it again.
    fn of(dir: Dir, below: &RelPath, private: Option<&PrivateDir>) -> io::Result<Self> {
        let like = dir.stat_self()?;
        if let Some(private) = private.filter(|_| Dir::is_closed(&like)) {
            OpenedDir::new(below, &like).write(private, true)?;
        }
        let opened_up = dir.open_up(&like)?;
        Ok(Self { dir, like, opened_up })
    }

    /// Gives it what it had before.
    fn restore(&self) -> Result<(), (&'static str, io::Error)> {
        let Self { dir, like, opened_up } = self;
        if *opened_up {
            let mut failed = Ok(());
            Attributes::default().apply(dir, like, true, |deed, error| failed = Err((deed, error)));
            return failed;
        }
        let set = dir.stat_self().and_then(|now| match now.kind {
            Kind::Dir => Attributes::set_time(dir, &now, like),
            _ => Ok(()),
        });
        set.map_err(|error| ("set the modification time of", error))
    }
}
