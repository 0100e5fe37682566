//! The transfer of one file: policy, copy methods, small files.

pub mod baseline;
mod context;
mod existing;
pub mod kernel;
pub mod labels;
pub mod prepare;
pub mod rescue;
pub mod rot_check;
pub mod share;
pub mod small;
pub mod small_file;
pub mod verifier;

pub use baseline::UnmetFiles;
pub use context::{Context, FirstRead, Shared};
pub use existing::BothFiles;
pub use labels::{Labels, LateCopy};
pub use rot_check::LinkedCopy;
pub use share::{OtherTree, RecordedTree};
pub use verifier::{CheckedCopy, ReadBackVerdict, ReadBackVerifier, SecondReading};

use std::{ffi::OsStr, io, io::ErrorKind, path::PathBuf, sync::Arc};

use crate::{
    error::Error, error::Result, hash::Algorithms, hash::Digest, hash::Digests, io::FileDigest,
    io::HashedFrom, io::ReadBack, io::WatchedFile, part, part::Complete, part::Part,
    part::PartName, part::Transfer, part::content::CopyTarget, part::content::Method,
    state::Belief, state::Origin, state::Row, state::RowPlace, sys, sys::Attributes, sys::Dir,
    sys::Medium, sys::stat::Inode, sys::stat::Kind, sys::stat::Stat,
    transfer::kernel::FileSystemPair, tree::OutputDir, tree::SourceDir, tree::SourceEntry,
    tree::WalkItem, tree::walk::MADE_UP,
};

// A file of the source, opened to be copied or read for its digest alone.

/// A file that is open to be copied.
pub struct OpenSource<'a> {
    /// The file, read at the run's rate.
    pub file: WatchedFile<'a>,
    pub attributes: Attributes,
    /// The facts about its file system and the output's.
    pub systems: Arc<FileSystemPair>,
}

/// Opens a file, which is at `path`, to be copied. What cannot be read of its attributes is told in
/// `warnings`.
pub fn open<'a>(
    context: &'a Context<'a>,
    transfer: &Transfer,
    path: &'a dyn Fn() -> PathBuf,
    warnings: &mut Vec<Error>,
) -> Result<OpenSource<'a>> {
    let mut file = open_file(context, transfer, path)?;
    let attributes = file.attributes(context.wants_all(), warnings)?;
    let stat = &transfer.entry().stat;
    let systems = context.shared.methods.between(file.file(), stat, &transfer.target.output);
    file.has_exact_size = systems.has_exact_sizes;
    Ok(OpenSource { file, attributes, systems })
}

fn open_file<'a>(
    context: &'a Context<'a>,
    transfer: &Transfer,
    path: &'a dyn Fn() -> PathBuf,
) -> Result<WatchedFile<'a>> {
    let (dir, entry) = (&transfer.source.handle, transfer.entry());
    let follow = context.options.follow;
    let mut file = WatchedFile::open(dir, &entry.name, follow, &entry.stat, path)?;
    if follow && sys::is_synthetic(file.file()) && !sys::is_synthetic(dir) {
        return Err(Error::finding("copy", path(), MADE_UP));
    }
    if let Some(in_use) = context.shared.in_use {
        in_use.look_at(&file, context.options.began);
    }
    file.is_impatient = context.shared.rescues.is_some_and(|rescues| rescues.are_wanted);
    Ok(file.at_rate(context.control.rate, context.control.stop))
}

/// The digest of a file; `None` if the run is to stop, or without an algorithm.
pub fn hash(
    context: &Context<'_>,
    transfer: &Transfer,
    read_back: &mut ReadBack,
) -> Result<Option<Digest>> {
    let algorithms = context.algorithms();
    let Some(all) = hash_by(context, transfer, algorithms, read_back)? else { return Ok(None) };
    context.put_all(transfer.target.rel_path().as_bytes(), &all);
    Ok(all.of(context.options.asked.algorithm))
}

/// The same by any algorithms.
pub fn hash_by(
    context: &Context<'_>,
    transfer: &Transfer,
    algorithms: Algorithms,
    read_back: &mut ReadBack,
) -> Result<Option<Digests>> {
    let read = read_source(context, transfer, algorithms, read_back, false)?;
    Ok(read.and_then(|(_, all)| all))
}

/// Reads a file once more, from its device rather than from memory where that can be had; its digest by the algorithm
/// that the run proves with. `None` if the run is to stop.
pub fn hash_again(
    context: &Context<'_>,
    transfer: &Transfer,
    read_back: &mut ReadBack,
) -> Result<Option<FileDigest>> {
    let algorithms = Algorithms::default().with(context.options.asked.algorithm);
    let read = read_source(context, transfer, algorithms, read_back, true)?;
    let digest = |all: Digests| all.of(context.options.asked.algorithm);
    Ok(read.map(|(read, all)| FileDigest { digest: all.and_then(digest), ..read }))
}

fn read_source(
    context: &Context<'_>,
    transfer: &Transfer,
    algorithms: Algorithms,
    read_back: &mut ReadBack,
    is_from_device: bool,
) -> Result<Option<(FileDigest, Option<Digests>)>> {
    let path = || transfer.source_path();
    let file = open_file(context, transfer, &path)?;
    let medium = match is_from_device {
        true => Medium::of(file.file(), file.before()),
        false => Ok(Medium::any(file.file())),
    };
    let stop = context.control.stop;
    let pace = |read| file.moved(read);
    let read = medium
        .and_then(|it| read_back.hash_paced(it, algorithms, || stop.is_urgent(), pace))
        .map_err(|error| file.error("read", error))?;
    if let Some((read, _)) = &read {
        file.check(read.bytes)?;
    }
    Ok(read)
}

// The action for a file, its outcome, and the message that takes it to the committer.

/// The action for a file.
#[expect(clippy::large_enum_variant, reason = "there is one for each worker")]
pub enum Action {
    Copy {
        /// True if something at the output gives way for it.
        replaces: bool,
        /// The message about it.
        warning: Option<Error>,
    },
    /// Nothing: this became of it.
    Settled(Outcome),
}

/// The row of the private record for a file that is kept.
#[derive(Clone, Copy, Debug)]
pub enum KeptRow {
    /// The present row, in this place.
    Recorded(Row, RowPlace),
    /// This, of which it knows nothing or something else.
    New(Row),
}

impl KeptRow {
    /// The row to be recorded.
    pub fn row(&self) -> &Row {
        match self {
            KeptRow::Recorded(row, _) | KeptRow::New(row) => row,
        }
    }
}

/// The outcome of a file.
#[derive(Debug)]
pub enum Outcome {
    /// Complete in a part file, which waits for its final name.
    Written(WrittenPart),
    /// Complete under its final name.
    Published {
        /// The digest of all that was read and written.
        digest: Option<Digest>,
        /// The copy method.
        method: Method,
        /// The inode that stands there, if it is to be known.
        stands: Option<Inode>,
    },
    /// It was there already.
    Kept {
        /// The metadata of the file that stands there.
        stands: Stat,
        /// The row to be recorded, if the digest is known.
        row: Option<KeptRow>,
        /// Where the content came from, if it was to be read back and found right.
        proof: Option<HashedFrom>,
        /// The result of comparing its permissions, owner and attributes.
        labels: Labels,
    },
    /// The source's file is not what is expected of it, although nothing says that it was edited. It was
    /// not copied.
    Rotten {
        /// The failure.
        error: Error,
        /// The digest of what is at the output in its place, and stays, and as what it stands, if that is known.
        stands: Option<(Digest, Stat)>,
        /// Where that digest is from.
        origin: Origin,
    },
    /// Something else is there and stays, for this reason.
    Left(&'static str),
    /// It waits until all others are done, because an earlier run could not read all of it.
    PutOff {
        /// True if something at the output gives way for it.
        replaces: bool,
    },
    /// It is not at the output.
    Failed(Error),
    /// Nor is it, and this machine is not to be relied on: it computed two digests of one content.
    Miscomputed(Error),
    /// The run was told to stop before it was done; nothing of it is left.
    Abandoned,
    /// … and so many bytes of its beginning are left to the next run, durable and noted.
    Suspended(u64),
}

/// A part file that is complete.
#[derive(Debug)]
pub struct WrittenPart {
    /// Its name, in the directory where the copy is to stand.
    pub part: PartName,
    /// The file, as it was closed.
    pub made: Inode,
    /// The digest of all that was read and written.
    pub digest: Option<Digest>,
    /// The copy method.
    pub method: Method,
}

/// A file and what became of it.
#[derive(Debug)]
pub struct TransferResult {
    pub transfer: Transfer,
    /// The outcome.
    pub outcome: Outcome,
    /// The failures that did not keep it from being copied.
    pub warnings: Vec<Error>,
    /// Number of its bytes that were not read, because a run that was killed had copied them.
    pub resumed: u64,
}

impl TransferResult {
    /// True if no permissions, owner or attributes are missing that another attempt may bring. What the output does not
    /// have or allow would only be tried in vain at each run.
    pub fn is_labelled(&self) -> bool {
        let was_labelled = match &self.outcome {
            Outcome::Kept { row: Some(row), .. } => row.row().labelled,
            _ => true,
        };
        let is_in_vain = |error: &Error| {
            matches!(error.kind(), Some(ErrorKind::Unsupported | ErrorKind::PermissionDenied))
        };
        let mut labels = self.warnings.iter().filter(|warning| warning.is_about_attributes());
        was_labelled && labels.all(is_in_vain)
    }
}

/// A complete part file that waits for its final name.
#[derive(Debug)]
pub struct PendingPublish {
    /// Where it is copied from once more should that be needed; `None` if it is not to be read back.
    pub source: Option<Arc<SourceDir>>,
    /// Where it is to stand.
    pub target: CopyTarget,
    /// Where it is until then.
    pub written: WrittenPart,
}

impl PendingPublish {
    /// Removes the part file because of `error`, which is returned, with a word if even that fails.
    pub fn discard(&self, error: Error) -> Error {
        part::discard(&self.target.output, &self.written.part, error)
    }
}

/// A message to the committer.
#[derive(Debug)]
pub enum CommitterMessage {
    Results(Vec<TransferResult>),
    /// From a worker, of a large file that is on its way.
    Warning(Error),
    /// From the walk: everything that is not for the workers.
    Walked(WalkItem),
}

// Pruning a tree that is to become a generation: everything that its record does not prove gives way.
//
// The tree begins as a snapshot of the last generation. A file stays in it only if it is recorded, untouched, and
// nothing of it changed at the source since. Anything else is removed from this tree, where no complete generation has
// it, and copied anew.

/// True if a file of the source may be the one that `there` is a copy of, unchanged since; [`Row::is_copy_of`] tells.
pub fn may_be_as(source: &Stat, there: &Stat) -> bool {
    source.kind == Kind::File
        && source.size == there.size
        && source.mtime.may_be_stored_as(there.mtime)
        && source.ctime < there.ctime
}

/// True if a link has the target of the source's link, which was not changed since, and the same attributes, and the
/// same owner where this process could give it that one: no record tells of a link.
pub fn is_same_link(source: &Dir, new: &Dir, name: &OsStr, stat: &Stat, there: &Stat) -> bool {
    let target = |dir: &Dir| dir.read_link(name).ok();
    let attributes = |dir: &Dir| Attributes::of_link(dir, name).ok();
    let has_attributes = || {
        let of_new = attributes(new);
        of_new.is_some_and(|new| attributes(source).is_some_and(|source| source.are_same(&new)))
    };
    let is_owner = || (stat.uid, stat.gid) == (there.uid, there.gid);
    stat.kind == Kind::Symlink
        && there.kind == Kind::Symlink
        && (!sys::may_give_away() || is_owner())
        && stat.ctime < there.ctime
        && stat.mtime == there.mtime
        && target(source).is_some_and(|it| Some(it) == target(new))
        && has_attributes()
}

/// The file that is `there` and stays, with the belief about it; `None` if it gave way.
///
/// # Errors
/// It cannot be removed.
pub fn file(
    context: &Context<'_>,
    transfer: &Transfer,
    there: Stat,
    belief: Belief,
) -> Result<Option<(Stat, Belief)>> {
    let CopyTarget { output, entry, .. } = &transfer.target;
    let keeps_numbers = || transfer.source.handle.keeps_numbers();
    let is_proven = || matches!(belief, Belief::Untouched(row, _) if row.is_copy_of(&entry.stat, keeps_numbers));
    if !context.options.prunes || is_proven() || !remove(context, output, entry, &there)? {
        return Ok(Some((there, belief)));
    }
    Ok(None)
}

/// Removes what is at the name of a link, or of a further name of a file, if it is not the same `source` has. Without a
/// source it is a further name.
///
/// # Errors
/// It cannot be removed.
pub fn link(
    context: &Context<'_>,
    source: Option<&SourceDir>,
    output: &OutputDir,
    entry: &SourceEntry,
) -> Result<()> {
    let Some(dir) = output.handle.as_ref().filter(|_| context.options.prunes) else {
        return Ok(());
    };
    let Some(there) = output.look(&entry.name)? else { return Ok(()) };
    let stays = match source {
        Some(source) => is_same_link(&source.handle, dir, &entry.name, &entry.stat, &there),
        None => context.shared.known.is_some_and(|known| {
            let path = output.rel.join(&entry.name);
            matches!(known.belief(path.as_bytes(), &there), Belief::Untouched(row, _)
                if row.is_copy_of(&entry.stat, || true))
        }),
    };
    if !stays {
        remove(context, output, entry, &there)?;
    }
    Ok(())
}

/// Removes it; false if it has to stay: a directory is not this file's to remove, and a run that is refused is over.
fn remove(
    context: &Context<'_>,
    output: &OutputDir,
    entry: &SourceEntry,
    there: &Stat,
) -> Result<bool> {
    let Some(dir) = output.handle.as_ref().filter(|_| there.kind != Kind::Dir) else {
        return Ok(false);
    };
    if !context.control.gate.lets_pass() {
        return Ok(false);
    }
    match dir.remove_protected(&entry.name) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            let path = output.path_of(&entry.name);
            let note = sys::what_protects(dir, &entry.name).unwrap_or_default();
            Err(Error::io("remove from the unfinished tree", path, error).with_note(note))
        }
        _ => Ok(true),
    }
}

// The end of a part file whose content is complete: its attributes, and its name if it need not wait for it.

/// Completes the file unless it has rotted in the source; `digest` is of its content.
pub fn finish(
    context: &Context<'_>,
    transfer: &Transfer,
    part: Part,
    attributes: &Attributes,
    digest: Option<Digest>,
    warnings: &mut Vec<Error>,
) -> Outcome {
    match rot_check::check(context, transfer, digest) {
        None => complete(context, transfer, part, attributes, digest, warnings),
        Some(outcome) => discard(part, outcome, warnings),
    }
}

/// Completes the file, which was found not to have rotted.
pub fn complete(
    context: &Context<'_>,
    transfer: &Transfer,
    part: Part,
    attributes: &Attributes,
    digest: Option<Digest>,
    warnings: &mut Vec<Error>,
) -> Outcome {
    let Context { options, control, shared, .. } = context;
    let entry = transfer.entry();
    if let Some(read) = shared.read.filter(|_| entry.stat.size > 0) {
        read.get_or_init(|| (Arc::clone(&transfer.source), Arc::clone(&entry.name)));
    }
    let output = &transfer.target.output;
    // Those that are read in a moment are as they were listed.
    if entry.stat.size > options.block_size as u64
        && !options.follow
        && output.volume.tried.traits.permissions
        && transfer.source.is_closed_since(&output.ways)
    {
        let finding =
            "a directory on the way to it was moved or closed to others meanwhile: run again";
        let error = Error::finding("copy", transfer.source_path(), finding);
        return discard(part, Outcome::Failed(error), warnings);
    }
    match part.finish(options, control, &transfer.target, attributes, warnings) {
        Ok(Complete { part: Some((part, made)), method, .. }) => {
            Outcome::Written(WrittenPart { part, made, digest, method })
        }
        Ok(Complete { part: None, method, stands }) => {
            Outcome::Published { digest, method, stands }
        }
        Err(error) => Outcome::Failed(error),
    }
}

/// The failure of a file whose content got two digests on this machine.
pub fn miscomputed(transfer: &Transfer) -> Error {
    let finding = "this machine computes wrongly: it gave the same bytes two digests";
    Error::finding("hash", transfer.source_path(), finding)
}

/// Removes the part file of a file that comes to `outcome` instead.
fn discard(part: Part, outcome: Outcome, warnings: &mut Vec<Error>) -> Outcome {
    match outcome {
        Outcome::Rotten { error, stands, origin } => {
            Outcome::Rotten { error: part.discard(error), stands, origin }
        }
        Outcome::Failed(error) => Outcome::Failed(part.discard(error)),
        other => {
            part.abandon(warnings);
            other
        }
    }
}
