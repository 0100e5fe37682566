//! The preparation, before anything is touched: both sides are opened, and runs that could not end well are refused.

pub mod check;
mod exchange;
mod layout;
pub mod planted;
pub mod several;
pub mod space;

use std::{ffi::OsString, io, path::Component, path::Path, sync::Arc};

use crate::{
    copy::CopyJob, copy::before::check::DiskDemands, copy::before::check::Opened,
    copy::before::check::another, copy::before::check::make_output, copy::before::exchange::Pair,
    copy::before::exchange::is_empty, error::Deed, error::Error, error::Result, path::DirPath,
    path::directory_of, state::Missing, state::NewRoot, state::Note, state::PrivateDir,
    state::PrivatePlace, state::Secret, state::private_dir::NAME,
    state::private_dir::STATE_NEEDS_IT, sys, sys::Attributes, sys::Dir, sys::Lock, sys::PartOwner,
    sys::Place, sys::ShardTag, sys::stat::Identity, sys::stat::Kind, sys::stat::Stat,
    tree::HandOver, tree::LockShare, tree::OutputDir, tree::Patience, tree::SourceDir,
    tree::SourceEntry, tree::Ways, volume::UntriedNames,
};

// Opening both sides before anything is touched, and refusing what could harm the source.

/// Both sides, opened and found to be disjoint.
pub struct Prepared {
    pub source: Arc<SourceDir>,
    pub source_id: Identity,
    /// The file to copy when the source is one file.
    pub file: Option<SourceEntry>,
    pub output: Arc<OutputDir>,
    pub output_id: Option<Identity>,
    /// True if both lie on one file system that can share data between files.
    pub may_share: bool,
    /// True if no other run can be writing to the output.
    pub is_ours_alone: bool,
    /// The output's private directory, which holds the lock; `None` in a dry run, and where there can be
    /// none.
    pub private: Option<PrivateDir>,
    /// The secret that shows that a journal or a part file is of this user's runs at this output.
    pub secret: Option<Secret>,
    /// The directory in which the output was made, if it was, or in a dry run would be.
    pub parent: Option<Dir>,
    /// Facts about either side that could not be learnt.
    pub warnings: Vec<Error>,
}

impl Prepared {
    /// True if other users may write to the output's root.
    pub fn is_open_to_others(&self) -> bool {
        self.output.handle.as_ref().is_some_and(|root| root.is_kept().is_ok_and(|kept| !kept))
    }
}

/// The remedy where there can be no private directory, and a mirror was asked for, …
const MIRROR_NEEDS_IT: &str = "; --mirror needs it (--state DIR keeps it elsewhere)";

/// … or parity, …
const PARITY_NEEDS_IT: &str = "; --parity needs it (--state DIR keeps it elsewhere)";

/// … or a span.
const SPAN_NEEDS_IT: &str = "; --span needs it (--state DIR keeps it elsewhere)";

/// The demands on the output before it is taken.
#[derive(Clone, Copy)]
pub struct Demands<'a> {
    /// An output where files cannot share their data with the source is refused.
    pub must_clone: bool,
    /// What is asked of the output's disk.
    pub disk: DiskDemands,
    /// What is at the output gives way to what is in the source.
    pub replaces: bool,
    /// An output that the source is a copy of is as good as any.
    pub restore: bool,
    /// An output that cannot hold a name of so many bytes is refused: the manifest's.
    pub longest_name: usize,
    /// The output's directory where the run has it open already: then its path is for messages alone.
    pub held: Option<&'a Dir>,
    /// The roots that a plan was made with: others are refused.
    pub planned: Option<PlannedRoots>,
    /// Nothing is made.
    pub dry: bool,
    /// True if entries are made durable before anything relies on them.
    pub durable: bool,
    /// The treatment then of names that would have to be tried.
    pub names: UntriedNames,
    /// The shard that is to be copied, if other shards may be at work there.
    pub shard: Option<ShardTag>,
    /// Where the private directory is.
    pub private: PrivatePlace<'a>,
    /// The remedy where there can be none, if such an output is refused.
    pub needs_private: Option<&'static str>,
}

/// The inode numbers of the roots of a plan. The numbers of their devices differ from machine to machine.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PlannedRoots {
    pub source: u64,
    pub output: u64,
}

impl PlannedRoots {
    fn refuse_others(self, pair: &Pair<'_>, output: &Opened) -> Result<()> {
        refuse_other_root(pair.from, pair.source_stat, self.source)?;
        // A directory that it would be made in is not it.
        let found = output.dir().stat_self().map_err(|error| cannot_look(pair.to, error))?;
        refuse_other_root(pair.to, &found, self.output)
    }
}

/// Refuses a root that has another inode number than when it was planned.
pub(crate) fn refuse_other_root(path: &Path, found: &Stat, planned: u64) -> Result<()> {
    if found.id.ino == planned {
        return Ok(());
    }
    let finding =
        "it is not the directory that the plan was made with: is its file system mounted here?";
    Err(Error::finding("open", path, finding))
}

/// Opens the source and the output, makes the output's directory if it is missing, and refuses a pair that is not
/// disjoint. An error means that nothing was touched.
pub fn prepare(
    from: &Path,
    to: &Path,
    demands: Demands<'_>,
    patience: Patience<'_>,
) -> Result<Prepared> {
    let Demands { must_clone, disk, held, dry, names, private, shard, .. } = demands;
    let (source, file) = open_source(from)?;
    let source_stat = source.stat_self().map_err(|error| cannot_look(from, error))?;
    let opened = match held {
        Some(dir) => Opened::There(another(dir).map_err(|error| cannot_look(to, error))?),
        None => check::open(to, disk)?,
    };
    let pair = Pair { from, to, source: &source, source_stat: &source_stat };
    pair.refuse_overlap(&opened, file.is_some())?;
    pair.refuse_planted(&opened, &demands, file.is_some())?;
    demands.planned.map_or(Ok(()), |planned| planned.refuse_others(&pair, &opened))?;
    refuse_short_names(opened.dir(), to, demands.longest_name)?;
    if !demands.restore {
        pair.refuse_exchange(&opened, private, file.is_some())?;
    }
    let may_share = pair.may_share(opened.dir(), must_clone)?;
    let is_tree = file.is_none();
    let Some(mut root) = Root::take(opened, to, is_tree, demands, patience)? else {
        // Another run made the output meanwhile.
        return prepare(from, to, demands, patience);
    };
    let mut ways = Ways::default().into_source(&source_stat);
    // What cannot be read is told where it is to be given to the output.
    Attributes::read(&source).iter().for_each(|lists| ways = ways.with_lists(lists));
    let mut output = OutputDir { ways, gid: source_stat.gid, ..OutputDir::absent(to.into()) };
    let (mut output_id, mut warnings) = (None, std::mem::take(&mut root.warnings));
    let secret = root.secret(demands, &mut warnings)?;
    let tag = secret.as_ref().map(Secret::of_parts);
    output.volume.parts = PartOwner { output: tag, shard };
    if let Some(handle) = &root.handle {
        // What it was before, not what another run made of it for a time.
        let stat = match root.before {
            Some(before) => before,
            None => handle.stat_self().map_err(|error| cannot_look(to, error))?,
        };
        if root.before.is_some() {
            output.finish = Some((stat, Attributes::default()));
        } else if !root.fresh && !dry {
            let opened = handle.open_up(&stat);
            if opened.deed("make writable", to)? {
                // As it was before, in the end.
                output.finish = Some((stat, Attributes::default()));
            }
        }
        (output.gid, output.volume.dev) = (stat.gid, stat.id.dev);
        output.ways = output.ways.into_root(&stat);
        output.volume.tried = Arc::new(match dry {
            true => check::look_at(handle, to, private, names),
            false => {
                let parts = output.volume.parts;
                check::try_out(handle, parts, root.private.as_ref(), private, &mut warnings)
            }
        });
        output_id = Some(stat.id);
    }
    // That of a plan gets them at its end.
    if is_tree && shard.is_none() {
        root.label_last(&pair, dry, &mut output, &mut warnings)?;
    }
    let Root { handle, fresh, parent, private, lock, .. } = root;
    parent.iter().for_each(|parent| output.volume.is_that_of(parent));
    (output.handle, output.fresh) = (handle, fresh);
    let source_root: Arc<Path> = match (&file, from.parent()) {
        (None, _) | (_, None) => from.into(),
        (Some(_), Some(parent)) => parent.into(),
    };
    Ok(Prepared {
        source: Arc::new(SourceDir { handle: source, root: source_root, rel: DirPath::root() }),
        source_id: source_stat.id,
        file,
        output: Arc::new(output),
        output_id,
        may_share,
        is_ours_alone: lock == Lock::Held && shard.is_none(),
        private: private.filter(|_| !dry),
        secret,
        parent,
        warnings,
    })
}

/// Refuses an output whose file system would cut off a name of `longest` bytes, or not take it (HFS: 31).
fn refuse_short_names(output: &Dir, to: &Path, longest: usize) -> Result<()> {
    match sys::longest_name(output) {
        Some(most) if most < longest => {
            let finding = format!(
                "its file system holds names of at most {most} bytes, and the manifest's has {longest}; --hash none \
                 makes none"
            );
            Err(Error::finding("copy to", to, finding))
        }
        _ => Ok(()),
    }
}

/// Refuses a directory for private records, if one was named, that cannot keep those of the output at `to`.
fn refuse_other_state(opened: &Opened, to: &Path, place: PrivatePlace<'_>) -> Result<()> {
    let PrivatePlace::Among(state) = place else { return Ok(()) };
    let root = if let Opened::There(root) = opened { Some(root) } else { None };
    PrivateDir::look_among(state, root, to).map_err(|error| error.with_note(STATE_NEEDS_IT))
}

pub(super) fn cannot_look(path: &Path, error: io::Error) -> Error {
    Error::io("look at", path, error)
}

/// The output's directory as the run takes it.
struct Root {
    /// `None` in a dry run if it is not there.
    handle: Option<Dir>,
    /// True if this run made it, or in a dry run would make it.
    fresh: bool,
    /// The directory that it was made in.
    parent: Option<Dir>,
    lock: Lock,
    /// It holds the lock.
    private: Option<PrivateDir>,
    /// The metadata before, if it had to be made writable for the private directory.
    before: Option<Stat>,
    /// Why there is no private directory, and no disk.
    warnings: Vec<Error>,
}

impl Root {
    /// Makes the directory if it is missing, and locks it; neither if `dry`. `None` if another run made it
    /// meanwhile, and everything must be looked at again. One for a tree is closed to others until the tree is there.
    fn take(
        opened: Opened,
        to: &Path,
        is_tree: bool,
        demands: Demands<'_>,
        patience: Patience<'_>,
    ) -> Result<Option<Self>> {
        let Demands { dry, shard, held, private: place, .. } = demands;
        refuse_other_state(&opened, to, place)?;
        let without_disk = check::without_disk(to, &opened, place).filter(|_| held.is_none());
        let (handle, fresh, parent) = match opened {
            Opened::There(dir) => (Some(dir), false, None),
            Opened::Parent(above) if dry => (None, true, Some(above)),
            Opened::Parent(above) => match make_output(&above, to, is_tree) {
                // Another run made it a moment ago, and is to be waited for, or named.
                Err(_) if Dir::open(to).is_ok() => return Ok(None),
                made => (Some(made?), true, Some(above)),
            },
        };
        let (lock, private, before) = (Lock::Unknown, None, None);
        let warnings = without_disk.into_iter().collect();
        let mut root = Self { handle, fresh, parent, private, lock, before, warnings };
        if let (true, Some(handle)) = (dry, &root.handle) {
            let opened = PrivateDir::open_at(handle, to, place, Missing::Leave);
            root.private = match (opened, demands.needs_private) {
                (Err(error), Some(remedy)) => return Err(error.with_note(remedy)),
                // What cannot be opened is told when something is to be made.
                (opened, _) => opened.ok().flatten(),
            };
        }
        if dry && root.private.is_none() {
            root.look_for_privacy(to, demands)?;
        }
        if !dry {
            let opened = root.open_private(to, demands);
            if let (Err(_), true, Some(above)) = (&opened, fresh, &root.parent) {
                // As it was. What something else is in by now stays.
                let _ = root.handle.as_ref().map(|root| root.remove_dir(NAME.as_ref()));
                let _ = new_name(to).map(|name| above.remove_dir(&name));
            }
            opened?;
            if let Some(private) = &root.private {
                let sharing =
                    if shard.is_some() { LockShare::WithShards } else { LockShare::Alone };
                root.lock = patience.lock_as(sharing, private, to)?;
                private.sweep();
            }
            if fresh && !is_empty(to).map_err(|error| cannot_look(to, error))? {
                // Another run had the lock first. This one's goes with the handle.
                return Ok(None);
            }
            if let Some(private) = root.private.as_ref().filter(|_| fresh && is_tree)
                && let Err(error) = NewRoot.write(private, false)
            {
                root.warnings.push(Error::io(
                    "write the private note of a new output in",
                    private.path(),
                    error,
                ));
            }
        }
        Ok(Some(root))
    }

    /// Sees to it that a new root gets the labels of the source in the end, and so does one that a killed run left
    /// closed, if all in it is the source's then. It loses at once what it inherited and the source does not have.
    fn label_last(
        &self,
        Pair { from, to, source, source_stat }: &Pair<'_>,
        dry: bool,
        output: &mut OutputDir,
        warnings: &mut Vec<Error>,
    ) -> Result<()> {
        let was_left_closed = !self.fresh && self.is_to_be_labelled();
        if !self.fresh && !was_left_closed {
            return Ok(());
        }
        let attributes = Attributes::read(source).unwrap_or_else(|error| {
            warnings.push(Error::io("read the attributes of", from, error));
            Attributes::default()
        });
        let shed = self.handle.as_ref().map_or(Ok(()), |made| attributes.shed_lists(made));
        if let Err(error) = shed {
            warnings.push(Error::io("set the permissions of", to, error));
        }
        output.finish = Some((**source_stat, attributes));
        if let Some(handle) = self.handle.as_ref().filter(|_| was_left_closed && !dry) {
            let over = HandOver::of_root(handle, output.volume.folds_names());
            output.work.hand_over = Some(over.deed("list", to)?);
        }
        Ok(())
    }

    /// True if a run that was killed made the directory, and left it closed.
    fn is_to_be_labelled(&self) -> bool {
        let is_closed = |handle: &Dir| handle.is_private().unwrap_or(false);
        self.private.as_ref().is_some_and(|private| NewRoot::read(private).is_some())
            && self.handle.as_ref().is_some_and(is_closed)
    }

    /// The secret of the output's journals and part files, durable before anything bears it; in a dry run only one that
    /// was made before. Without one large files are begun anew, and what the run leaves if it is killed stays.
    ///
    /// # Errors
    /// The output's root cannot be made durable: that is told once, so the run must not go on as if it had been.
    fn secret(&self, demands: Demands<'_>, warnings: &mut Vec<Error>) -> Result<Option<Secret>> {
        let Some(private) = &self.private else { return Ok(None) };
        let Demands { dry, durable, .. } = demands;
        if dry {
            return Ok(private.known_secret().ok().flatten());
        }
        match private.secret(durable) {
            Err(error) => {
                let note = "; large files are begun anew, and what a killed run left stays";
                let error = Error::io("keep the private secret in", private.path(), error);
                warnings.push(error.with_note(note));
                Ok(None)
            }
            Ok(secret) => {
                if durable {
                    private.persist_way().deed_at("make durable", || private.path())?;
                }
                Ok(Some(secret))
            }
        }
    }

    /// Looks whether there can be a private directory, if there is none yet and there must be one.
    fn look_for_privacy(&mut self, to: &Path, demands: Demands<'_>) -> Result<()> {
        let (PrivatePlace::InOutput, Some(remedy)) = (demands.private, demands.needs_private)
        else {
            return Ok(());
        };
        let Some(dir) = self.handle.as_ref().or(self.parent.as_ref()) else { return Ok(()) };
        let is_sure = PrivateDir::can_be_made(dir, to).map_err(|error| error.with_note(remedy))?;
        if !is_sure && demands.names == UntriedNames::Doubtful {
            let finding = "its file system may have no permissions, and only a run finds that out";
            let doubt = Error::finding("tell whether private records can be kept in", to, finding);
            self.warnings.push(doubt.with_note(remedy));
        }
        Ok(())
    }

    /// Opens the private directory, or makes it. That there can be none is a warning, or refuses the run.
    fn open_private(&mut self, to: &Path, demands: Demands<'_>) -> Result<()> {
        let Demands { private: place, needs_private, .. } = demands;
        let Some(handle) = &self.handle else { return Ok(()) };
        let mut opened = PrivateDir::open_at(handle, to, place, Missing::Leave);
        let is_missing = |opened: &Option<PrivateDir>| match (place, opened) {
            (PrivatePlace::InOutput | PrivatePlace::Among(_), None) => true,
            (PrivatePlace::Among(_), Some(found)) => !found.is_at_output(),
            _ => false,
        };
        if opened.as_ref().is_ok_and(is_missing) {
            let stat = handle.stat_self().map_err(|error| cannot_look(to, error))?;
            self.before = handle.open_up(&stat).deed("make writable", to)?.then_some(stat);
            opened = PrivateDir::open_at(handle, to, place, Missing::Make);
        } else if let Ok(None) = opened {
            opened = PrivateDir::open_at(handle, to, place, Missing::Make);
        }
        match opened {
            Ok(opened) => self.private = opened,
            Err(error) => {
                let refused = matches!(place, PrivatePlace::Among(_)).then_some(STATE_NEEDS_IT);
                if let Some(remedy) = needs_private.or(refused) {
                    return Err(error.with_note(remedy));
                }
                let note = "; so every file that is there is read, and no other run is kept out";
                self.warnings.push(error.with_note(note));
            }
        }
        Ok(())
    }
}

/// Opens the source directory; for a source that is a file, the directory it is in, and the file.
pub(crate) fn open_source(from: &Path) -> Result<(Dir, Option<SourceEntry>)> {
    let fail = |error: io::Error| match error.kind() {
        io::ErrorKind::NotFound => {
            Error::finding("copy", from, "there is no such file or directory")
        }
        _ => match sys::names_device(from) {
            Some(why) => Error::finding("copy", from, why),
            None => Error::io("open the source", from, error),
        },
    };
    match Dir::open_named(from) {
        Ok(dir) => return Ok((dir, None)),
        Err(error) if error.kind() == io::ErrorKind::NotADirectory => {}
        Err(error) => return Err(fail(error)),
    }
    let Some(name) = from.file_name() else {
        return Err(fail(io::ErrorKind::NotADirectory.into()));
    };
    let parent = Dir::open_named(directory_of(from)).map_err(fail)?;
    // What the user names may be a link; what it points to is meant.
    let stat = parent.stat(name, true).map_err(fail)?;
    if stat.kind != Kind::File {
        let finding = format!("it is {}, neither a directory nor a file", stat.kind.name());
        return Err(Error::finding("copy", from, finding));
    }
    Ok((parent, Some(SourceEntry { name: name.into(), stat })))
}

impl CopyJob {
    /// The remedy where there can be no private directory, if what was asked for needs it.
    pub(crate) fn needs_private(&self) -> Option<&'static str> {
        let needs = [
            (self.mirror.is_some(), MIRROR_NEEDS_IT),
            (self.parity.is_some(), PARITY_NEEDS_IT),
            (self.is_of_span, SPAN_NEEDS_IT),
        ];
        let remedy = needs.iter().find(|(is_asked, _)| *is_asked).map(|(_, remedy)| *remedy);
        remedy.map(|remedy| self.state.as_ref().map_or(remedy, |_| STATE_NEEDS_IT))
    }

    /// Refuses a source that is one file where a directory is asked for.
    pub(crate) fn refuse_file(&self) -> Result<()> {
        let (deed, finding) = match (&self.names, &self.mirror, &self.generations) {
            (Some(_), ..) => {
                ("copy names of", "it is a file, and names below a directory were asked for")
            }
            (_, Some(_), _) => {
                ("mirror", "it is one file, and a mirror is of a directory; leave out --mirror")
            }
            (.., Some(_)) => (
                "copy",
                "it is one file, and generations are of a directory; leave out --generations",
            ),
            (None, None, None) => return Ok(()),
        };
        match open_source(&self.source)? {
            (_, Some(_)) => Err(Error::finding(deed, &self.source, finding)),
            (_, None) => Ok(()),
        }
    }
}

/// The last component of a path that is to be made.
pub(crate) fn new_name(to: &Path) -> Result<OsString> {
    match to.components().next_back() {
        Some(Component::Normal(name)) => Ok(name.to_os_string()),
        _ => Err(Error::finding("copy to", to, "there is no such directory")),
    }
}

/// True if `dir` is the source or below it: by the directories above it, and by its place in the file system, which
/// also sees through bind mounts.
pub(crate) fn is_inside(dir: &Dir, source: &Dir, source_id: Identity, to: &Path) -> Result<bool> {
    let fail = |error| Error::io("look above", to, error);
    // The place is a hint (two mounts of one NFS server look alike): the way to it from the source
    // must lead to the very directory.
    if let (Some(place), Some(outer)) =
        (Place::of(dir).map_err(fail)?, Place::of(source).map_err(fail)?)
        && let Some(way) = place.below(&outer)
    {
        let found = match way {
            Some(way) => source.open_below(&way).and_then(|found| found.identity()),
            None => Ok(source_id),
        };
        match found {
            Ok(found) if found == dir.identity().map_err(fail)? => return Ok(true),
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => return Ok(true),
            _ => {}
        }
    }
    let mut here = dir.try_clone().map_err(fail)?;
    let mut id = here.identity().map_err(fail)?;
    loop {
        if id == source_id {
            return Ok(true);
        }
        here = here.parent().map_err(fail)?;
        let above = here.identity().map_err(fail)?;
        if above == id {
            return Ok(false);
        }
        id = above;
    }
}
