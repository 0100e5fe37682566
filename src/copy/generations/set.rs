//! The generations at an output: which are there, and which tree is not finished.
//!
//! A directory with the name of a generation counts only if it has a private directory of this user with a finished
//! record, which only a complete run leaves.

use std::path::{Path, PathBuf};
use std::{collections::BTreeSet, ffi::OsStr, io, sync::Arc, time::Duration};

use crate::{
    copy::LostNames, copy::mirror::Trash, copy::mirror::TreeRemoval, error::Cause, error::Deed,
    error::Error, error::Result, event::Event, event::Stop, path::RelPath, state::BegunTree,
    state::DatedName, state::GenerationNote, state::Missing, state::Note, state::PrivateDir,
    state::SourceMark, state::UNFINISHED, state::closing::FINISHED, state::generation::misplaced,
    state::private_dir::NAME, sys, sys::Dir, sys::DirListing, sys::stat::Kind, tree::HeldTree,
    tree::OutputDir, tree::Patience,
};

/// The content of the directory of all generations.
#[derive(Debug, Default)]
pub struct GenerationSet {
    /// The complete ones, the oldest first.
    pub complete: Vec<DatedName>,
    /// Trees that are not finished, the oldest first.
    pub unfinished: Vec<DatedName>,
    /// Other entries with the name of a generation.
    pub foreign: Vec<DatedName>,
    /// Other entries with the name of an unfinished tree.
    pub foreign_trees: Vec<DatedName>,
    /// Those of the other entries that may be complete generations, and why it cannot be told.
    pub unread: Vec<(DatedName, Error)>,
    /// Complete ones that their own records call otherwise, by the names that they have. They are no other entries, and
    /// nothing goes by them.
    pub misnamed: Vec<(DatedName, Error)>,
    /// Complete ones that were made in another directory, as their own records say, and were moved here. Nothing goes
    /// by them either.
    pub misplaced: Vec<(DatedName, Error)>,
    /// The newest by the private record of all, …
    pub(super) recorded: Option<DatedName>,
    /// … the same if neither that one nor a newer one is there, or the newest that is there if that was looked at and
    /// its own record tells nothing, and the error about it, …
    pub lost: Option<(DatedName, Error)>,
    /// … or why no record tells which is the newest.
    pub unrecorded: Option<Error>,
    /// True if one told before.
    pub lost_record: bool,
    /// True if a complete one has noted that it was made here. Its run has noted here which is the newest.
    pub(super) has_placed: bool,
}

impl GenerationSet {
    /// Reads what is in the directory `root`, at `path`.
    ///
    /// # Errors
    /// It cannot be listed.
    pub fn read(root: &Dir, path: &Path) -> Result<Self> {
        let fail = |error| Error::io("list", path, error);
        let consulted = PrivateDir::consult(root, path, None);
        let known = consulted.as_ref().ok().and_then(Option::as_ref);
        let begun = known.map(BegunTree::read_told).transpose().map_err(fail)?.flatten();
        let mut set = Self::default();
        for entry in DirListing::of(root).map_err(fail)? {
            let listed = entry.map_err(fail)?.name;
            let Some(text) = listed.to_str() else { continue };
            let unfinished = text.strip_suffix(UNFINISHED).and_then(DatedName::parse);
            let Some(name) = unfinished.or_else(|| DatedName::parse(text)) else { continue };
            let at = path.join(&*listed);
            if unfinished.is_some() {
                match is_begun(root, &listed, begun.as_ref()).unwrap_or(false) {
                    true => set.unfinished.push(name),
                    false => {
                        set.foreign.push(name);
                        set.foreign_trees.push(name);
                    }
                }
                continue;
            }
            match find_own(root, &at, &listed) {
                Ok(Some(OwnTree { misplaced: Some(error), .. })) => {
                    set.misplaced.push((name, error))
                }
                Ok(Some(OwnTree { misnamed: Some(error), .. })) => set.misnamed.push((name, error)),
                Ok(Some(OwnTree { is_placed, .. })) => {
                    set.complete.push(name);
                    set.has_placed |= is_placed;
                }
                other => {
                    set.foreign.push(name);
                    if let Err(error) = other {
                        let error = Error::io("look at the generation", at, error);
                        set.unread.push((name, error));
                    }
                }
            }
        }
        set.complete.sort();
        set.unfinished.sort();
        set.ask_record(consulted, path);
        Ok(set)
    }

    /// The newest complete one.
    pub fn newest(&self) -> Option<DatedName> {
        self.complete.last().copied()
    }

    /// The newest complete one of those in `root`, which is at `path`.
    ///
    /// # Errors
    /// It cannot be opened.
    pub fn last(&self, root: &Dir, path: &Path) -> Result<Option<HeldTree>> {
        let Some(name) = self.newest() else { return Ok(None) };
        let path = path_of(path, name);
        match root.open_dir(name.to_string().as_ref(), false) {
            Ok(dir) => Ok(Some(HeldTree { dir: Arc::new(dir), path })),
            Err(error) => Err(Error::io("open the last generation", path, error)),
        }
    }

    /// All directories at `path`, where the set is, with the name of a generation, whether they are one or not; the
    /// oldest first.
    pub fn named(&self, path: &Path) -> Vec<DatedName> {
        let is_dir = |name: &DatedName| {
            path_of(path, *name).symlink_metadata().is_ok_and(|found| found.is_dir())
        };
        let foreign = self.foreign.iter().copied().filter(is_dir);
        let not_here = self.not_here().copied();
        let all: BTreeSet<_> =
            self.complete.iter().copied().chain(foreign).chain(not_here).collect();
        all.into_iter().collect()
    }

    /// The errors about what may be a generation, and is not taken for one, by the names that are there.
    pub fn doubted(&self) -> impl Iterator<Item = &(DatedName, Error)> {
        self.unread.iter().chain(&self.misnamed).chain(&self.misplaced).chain(&self.lost)
    }

    /// The names of complete ones that are not those of these names here.
    fn not_here(&self) -> impl Iterator<Item = &DatedName> {
        self.misnamed.iter().chain(&self.misplaced).map(|(name, _)| name)
    }

    /// True if what is in `root` was made by another user's runs, and none of it is this user's.
    pub fn is_of_another_user(&self, root: &Dir) -> bool {
        let private = root.stat(NAME.as_ref(), false);
        self.complete.is_empty()
            && self.foreign.len() > self.foreign_trees.len()
            && private.is_ok_and(|stat| stat.kind == Kind::Dir && !Dir::is_kept_by_us(&stat))
    }

    /// The name of a generation that is made now: later than all of this user's, also one that was moved away, and not
    /// one that something else has. Who may write to the directory can make one of any day, and it must not become the
    /// day of all that follow.
    pub fn next_name(&self, now: DatedName) -> DatedName {
        let latest = self.newest().max(self.recorded).filter(|latest| *latest >= now);
        let foreign: BTreeSet<_> = self.foreign.iter().chain(self.not_here()).collect();
        let mut name = latest.and_then(DatedName::next).unwrap_or(now);
        while foreign.contains(&name)
            && let Some(next) = name.next()
        {
            name = next;
        }
        name
    }
}

/// A complete tree of this user's runs.
#[derive(Debug)]
struct OwnTree {
    /// Why it is not the generation of its name, if so.
    misnamed: Option<Error>,
    /// Why it is none of this directory, if so.
    misplaced: Option<Error>,
    /// True if it has noted that it was made here.
    is_placed: bool,
}

/// The directory `name` at `path`, if it was made by a run of this user's that was completed.
///
/// # Errors
/// It cannot be told.
fn find_own(root: &Dir, path: &Path, name: &OsStr) -> io::Result<Option<OwnTree>> {
    let Some(dir) = open_own(root, name)? else { return Ok(None) };
    let private = match PrivateDir::open(&dir, path, None, Missing::Leave) {
        Ok(Some(private)) => private,
        Ok(None) => return Ok(None),
        Err(error) => {
            return match (error.cause(), open_own(&dir, NAME.as_ref())?) {
                (Cause::Io(cause), Some(_)) => Err(io::Error::new(cause.kind(), error.reason())),
                _ => Ok(None),
            };
        }
    };
    let finished = private.dir().stat(FINISHED.as_ref(), false).if_there()?;
    let own = || OwnTree {
        misnamed: GenerationNote::misnamed(&private, path),
        misplaced: misplaced(&private, path, root),
        is_placed: GenerationNote::is_made_in(&private, root),
    };
    Ok(finished.is_some_and(|it| it.kind == Kind::File).then(own))
}

/// True if the directory `name` is the tree that a run of this user's had `begun` here as a generation, and nobody else
/// may write to it, or it is not known what was put into it. Any other directory of this user's may have been given
/// such a name.
///
/// # Errors
/// It cannot be told.
fn is_begun(root: &Dir, name: &OsStr, begun: Option<&BegunTree>) -> io::Result<bool> {
    let (Some(dir), Some(begun)) = (open_own(root, name)?, begun) else { return Ok(false) };
    Ok(dir.is_kept()? && begun.is(name, &dir)?)
}

/// The directory `name`, if there is one that may be this user's: not what is a link or no directory, nor one of
/// another user that is closed to this one. Anybody who may write to `above` can put these there.
fn open_own(above: &Dir, name: &OsStr) -> io::Result<Option<Dir>> {
    let error = match above.open_dir(name, false) {
        Ok(dir) => return Ok(Some(dir)),
        Err(error) => error,
    };
    let is_closed = error.kind() == io::ErrorKind::PermissionDenied;
    match above.stat(name, false).if_there()? {
        Some(found) if found.kind == Kind::Dir && (!is_closed || Dir::is_kept_by_us(&found)) => {
            Err(error)
        }
        _ => Ok(None),
    }
}

/// The path of the tree `name` in the directory of all.
pub fn path_of(path: &Path, name: DatedName) -> PathBuf {
    path.join(name.to_string())
}

// The directory of all generations: its lock, its trash, and who may enter it.

/// The notice where generations share files by hard links; it depends on who may enter their directory. What is as it
/// should be is said once, when the second is made.
pub fn shared_by_links(root: &Dir, generations: usize) -> Option<String> {
    let text = "files that did not change are hard links to those of the last generation: do not write to them at the \
                output, that would change all generations";
    Some(match root.is_private() {
        Ok(true) if generations > 1 => return None,
        Ok(true) => format!(
            "{text}; it is closed to others, for who owns a file could do that (one that you make yourself stays as open as it is)"
        ),
        _ => format!(
            "{text}; others may enter it, and who owns a file can do that: chmod 700 closes it"
        ),
    })
}

/// Opens its private directory, or makes it.
///
/// # Errors
/// There can be none.
pub fn open_private(dir: &Dir, path: &Path) -> Result<PrivateDir> {
    let opened = PrivateDir::open(dir, path, None, Missing::Make);
    let note = "; generations need it, on a file system with owners";
    let missing =
        || Error::finding("keep private records in", path, "there is no private directory");
    opened.map_err(|error| error.with_note(note))?.ok_or_else(missing)
}

/// Keeps runs away from the directory of all generations, which is at `path`, while what is returned is held.
///
/// # Errors
/// Another run is at work there.
pub fn hold(root: &Dir, path: &Path) -> Result<PrivateDir> {
    let private = open_private(root, path)?;
    let (stop, tell) = (&Stop::default(), &|_: &str| ());
    Patience { wait: false, deed: "change", tell, stop }.lock(&private, path)?;
    Ok(private)
}

/// The directory of all generations, which is held.
#[derive(Clone, Copy)]
pub struct HeldGenerations<'a> {
    pub root: &'a Dir,
    /// Where it is.
    pub path: &'a Path,
    pub private: &'a PrivateDir,
}

impl HeldGenerations<'_> {
    /// Moves generations into the trash, and removes trash that is older than `keep_trash`, by which files may lose
    /// names. Returns where they are.
    ///
    /// # Errors
    /// One cannot be moved, or old trash cannot be removed.
    pub fn discard(
        &self,
        surplus: &[DatedName],
        keep_trash: Option<Duration>,
        lost: &mut LostNames,
        stop: &Stop,
        tell: &mut dyn FnMut(Event<'_>),
    ) -> Result<Option<PathBuf>> {
        let handle = self.root.try_clone().deed("open", self.path)?;
        let output = OutputDir { handle: Some(handle), ..OutputDir::absent(self.path.into()) };
        let mut trash = Trash::new(&output, Some(self.private));
        for name in surplus {
            let source = self.discard_one(*name, &mut trash)?;
            let source = source.as_ref().and_then(SourceMark::place);
            tell(Event::GenerationRemoved(name.to_string().as_bytes(), source));
        }
        if let Some(keep) = keep_trash {
            trash.expire(keep, stop, lost, |removed| match removed {
                Ok(name) => tell(Event::TrashRemoved(name.as_bytes())),
                Err(error) => tell(Event::Warning(&error)),
            })?;
        }
        Ok(trash.path())
    }

    /// Moves one there; returns what it has noted of its source.
    fn discard_one(&self, name: DatedName, trash: &mut Trash<'_>) -> Result<Option<SourceMark>> {
        let (root, at, text) = (self.root, &path_of(self.path, name), name.to_string());
        let fail = |error| Error::io("move to the trash", at, error);
        let to = trash.dir(&RelPath::root())?;
        // Names may have been exchanged since the set was read.
        let kept = root.open_dir(text.as_ref(), false).map_err(fail)?;
        let private = PrivateDir::open(&kept, at, None, Missing::Leave)?;
        let private = private.as_ref();
        let misnamed = private.and_then(|it| GenerationNote::misnamed(it, at));
        let not_here = misnamed.or_else(|| misplaced(private?, at, root));
        not_here.map_or(Ok(()), Err)?;
        let source = private.and_then(SourceMark::read);
        root.move_entry(text.as_ref(), to, text.as_ref()).map_err(fail)?;
        if to.stat(text.as_ref(), false).map_err(fail)?.id != kept.identity().map_err(fail)? {
            let moved =
                io::Error::other("another directory has its name: someone else may write there");
            let back = to.move_entry(text.as_ref(), root, text.as_ref());
            return Err(fail(moved).with_note(match back {
                Ok(()) => "; that one stays where it was".to_owned(),
                Err(error) => format!("; that one is in the trash ({error})"),
            }));
        }
        to.persist().and_then(|()| root.persist()).map_err(fail)?;
        Ok(source)
    }
}

// The tree that a run fills, until it has the name of a generation.
//
// It begins as a snapshot of the last generation where there can be one. What another program does to the last
// generation from then on is not in it, so the snapshot is what the source is compared with.

/// The ways in which a tree is begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Beginning {
    /// There is nothing in it.
    Empty,
    /// This run made it a snapshot of the last generation.
    Snapshot,
    /// An earlier run left it.
    LeftBehind,
}

/// A tree with an unfinished name.
pub struct UnfinishedTree {
    pub tree: HeldTree,
    pub name: String,
    pub beginning: Beginning,
}

/// The directory of all generations, for the trees of a run that begins `now`.
#[derive(Clone, Copy)]
pub struct TreePlace<'a> {
    pub root: &'a Dir,
    /// Where it is.
    pub path: &'a Path,
    pub set: &'a GenerationSet,
    /// The newest generation.
    pub last: Option<&'a HeldTree>,
    /// In which is noted what is begun.
    pub private: &'a PrivateDir,
    pub now: DatedName,
}

impl TreePlace<'_> {
    /// Makes a snapshot of the last generation. `None` where there can be none, and where an earlier run left a tree to
    /// go on with: then nothing was made.
    ///
    /// # Errors
    /// Something was made that cannot be used.
    pub fn snapshot(&self) -> Result<Option<UnfinishedTree>> {
        let Some(last) = self.last.filter(|_| self.set.unfinished.is_empty()) else {
            return Ok(None);
        };
        let (name, path) = self.named(self.set.next_name(self.now));
        let fail = |error| cannot_make(self.root, &name, &path, error);
        BegunTree::to_come(&name).write(self.private, true).map_err(fail)?;
        if !self.root.make_snapshot(&last.dir, name.as_ref()).map_err(fail)? {
            return Ok(None);
        }
        self.open(name, path, Beginning::Snapshot).map(Some)
    }

    /// Opens the tree that an earlier run left, or makes an empty one.
    ///
    /// # Errors
    /// It cannot be opened, or made.
    pub fn take(&self) -> Result<UnfinishedTree> {
        let left = self.set.unfinished.last().copied();
        let (name, path) = self.named(left.unwrap_or(self.set.next_name(self.now)));
        let fail = |error| cannot_make(self.root, &name, &path, error);
        if left.is_none() {
            BegunTree::to_come(&name).write(self.private, true).map_err(fail)?;
            self.root.make_tree(name.as_ref()).map_err(fail)?;
        }
        let beginning = if left.is_some() { Beginning::LeftBehind } else { Beginning::Empty };
        self.open(name, path, beginning)
    }

    /// Opens the tree of this name, once for the whole run.
    fn open(&self, name: String, path: PathBuf, beginning: Beginning) -> Result<UnfinishedTree> {
        let fail = |error| cannot_make(self.root, &name, &path, error);
        let dir = self.root.open_dir(name.as_ref(), false).map_err(fail)?;
        let is_ours = match beginning {
            Beginning::Empty => {
                dir.is_private().and_then(|it| Ok(it && DirListing::is_empty(&dir)?))
            }
            // A run may have been killed before it closed a snapshot.
            Beginning::Snapshot | Beginning::LeftBehind => dir.is_kept(),
        };
        if !is_ours.map_err(fail)? {
            let finding = "another user put a directory of his in its place; close the output to others (chmod 700)";
            return Err(Error::finding("make the tree", path, finding));
        }
        if !dir.is_private().map_err(fail)? {
            dir.unprotect();
            dir.take_over().map_err(fail)?;
        }
        let tree = UnfinishedTree { tree: HeldTree { dir: Arc::new(dir), path }, name, beginning };
        let fail = |error| cannot_make(self.root, &tree.name, &tree.tree.path, error);
        let begun = BegunTree::of(&tree.name, &tree.tree.dir).map_err(fail)?;
        begun.write(self.private, true).map_err(fail)?;
        Ok(tree)
    }

    fn named(&self, name: DatedName) -> (String, PathBuf) {
        let name = format!("{name}{UNFINISHED}");
        let path = self.path.join(&name);
        (name, path)
    }
}

/// The error for the tree `name` of `root` that cannot be made, with the remedy.
pub fn cannot_make(root: &Dir, name: &str, path: &Path, error: io::Error) -> Error {
    let note = sys::what_protects(root, name.as_ref()).unwrap_or_default();
    Error::io("make the tree", path, error).with_note(note)
}

impl UnfinishedTree {
    /// Takes from the tree itself and from what runs keep there for themselves what protects it, as all of the last
    /// generation may be protected. What cannot be done shows where it is written to.
    pub fn unprotect(&self) {
        let dir = &self.tree.dir;
        dir.unprotect();
        let Ok(private) = dir.open_dir(NAME.as_ref(), false) else { return };
        private.unprotect();
        for entry in DirListing::of(&private).into_iter().flatten().flatten() {
            private.unprotect_file(&entry.name);
        }
    }

    /// Removes it from `root` again, for a run that is refused.
    ///
    /// # Errors
    /// Something of it is left.
    pub fn discard(self, root: &Dir, stop: &Stop) -> Result<()> {
        let Self { tree: HeldTree { dir, path }, name, .. } = self;
        drop(dir);
        if root.destroy_tree(name.as_ref()) {
            return Ok(());
        }
        let mut removal = TreeRemoval { stop, enter: &|_| (), remove: &mut Dir::remove };
        match removal.run(root, name.as_ref()) {
            Err(stuck) if stuck.error.kind() != io::ErrorKind::NotFound => {
                Err(Error::io("remove the unfinished tree", path.join(stuck.path), stuck.error))
            }
            _ => Ok(()),
        }
    }
}
