//! The directories on the way to a file that is made whole: those that are missing are made as a good tree has them,
//! and what their times were is what they are afterwards. Nothing is put where more users may enter than in a good
//! tree.

use std::{ffi::OsStr, io, path::Path};

use crate::{
    error::Deed, error::Error, error::Result, heal::bad::Tree, heal::bad::Unmended,
    heal::copies::FileCopy, path::RelPath, path::Shown, state::Note, state::OpenedDir,
    state::PrivateDir, sys, sys::Attributes, sys::Dir, sys::PartOwner, sys::stat::Kind,
    sys::stat::Stat, tree::hand_over::is_of_stranger, tree::hand_over::is_open_to_strangers,
    tree::hand_over::tells_owners,
};

/// A directory that is changed by what is made in it.
struct HeldDir {
    dir: Dir,
    /// The metadata that it is to have afterwards.
    like: Stat,
    /// … and have, if it was made.
    made: Option<Attributes>,
    /// The group of the directory that it was made in.
    gid: u32,
    /// True if it was opened for writing.
    opened_up: bool,
}

/// The directory of a file, and those above it that were made.
pub struct Parents {
    held: Vec<HeldDir>,
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
        let is_closed = !dir.stat_self()?.is_open_to_everyone();
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
    /// into it. Roots are what the user gave, and often differ in who may enter them (a disk, a home): that is
    /// [told](lets_more_into_root).
    fn go(place: DirPlace<'a>, good: &[Source<'a>]) -> io::Result<Self> {
        let there = place.tree.dir.try_clone()?;
        // What the user lets everyone into is closed to nobody.
        let is_shown = there.stat_self()?.is_open_to_everyone();
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
                    "{} may be entered by users who may not enter {}, or belongs to another; give it that one's owner \
                     and permissions if all in it is yours, or else move it away, and heal again",
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
            good.is_closed |= !good.dir.stat_self()?.is_open_to_everyone();
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
        let mut held = vec![HeldDir::of(way.there.try_clone()?, &way.below, place.tree.private())?];
        for name in std::mem::take(&mut way.missing) {
            way.descend(name)?;
            let good = way.narrowest()?;
            let above = held.last().ok_or(io::ErrorKind::NotFound)?;
            // Until it has the permissions of the copy, only its owner may enter it.
            above.dir.make_dir(name, true)?;
            let dir = above.dir.open_dir(name, false)?;
            let (like, made) = (good.dir.stat_self()?, Some(Attributes::read(&good.dir)?));
            let gid = above.like.gid;
            held.push(HeldDir { dir, like, made, gid, opened_up: false });
        }
        let is_beside_copies =
            way.good.iter().all(|good| good.has_copy(place.name).unwrap_or(false));
        Ok(Self { held, is_beside_copies })
    }

    /// True if the directories were compared with those that the copies are in.
    pub fn is_beside_copies(&self) -> bool {
        self.is_beside_copies
    }

    /// The directory of the file itself.
    pub fn dir(&self) -> Option<&Dir> {
        self.held.last().map(|held| &held.dir)
    }

    /// Gives the directories their times back, and those that were made all else; then waits until they are on the
    /// device. What they could not be given is told to `warn`, about `path`.
    ///
    /// # Errors
    /// One of them may not be on the device. It is not tried again: the system reports a lost write only once.
    pub fn settle(
        self,
        path: &Path,
        private: Option<&PrivateDir>,
        mut warn: impl FnMut(Error),
    ) -> Result<()> {
        let mut settled = Ok(());
        let was_opened = self.held.iter().any(|held| held.opened_up);
        for held in self.held.into_iter().rev() {
            let HeldDir { dir, like, made, gid, opened_up } = held;
            let mut warn = |deed, error| warn(Error::io(deed, path, error));
            match (made, opened_up) {
                (Some(attributes), _) => {
                    if let Err(error) = attributes.shed_inherited(&dir) {
                        warn("set the permissions of", error);
                    }
                    attributes.apply_to_new(&dir, &like, gid, None, &mut warn);
                }
                (None, true) => Attributes::default().apply(&dir, &like, true, &mut warn),
                (None, false) => {
                    let set = dir.stat_self().and_then(|now| match now.kind {
                        Kind::Dir => Attributes::set_time(&dir, &now, &like),
                        _ => Ok(()),
                    });
                    if let Err(error) = set {
                        warn("set the modification time of", error);
                    }
                }
            }
            let durable = dir.persist();
            settled = settled.and(durable.deed("make durable the directory", path));
        }
        if let Some(private) = private.filter(|_| was_opened)
            && let Err(error) = OpenedDir::forget(private)
        {
            warn(Error::io("remove the note of an opened directory in", private.path(), error));
        }
        settled
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
        Ok(Self { dir, like, made: None, gid: 0, opened_up })
    }
}
