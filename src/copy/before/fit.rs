//! The fit of the source into the lists of an output: its names, and nothing but files.

use std::{ffi::OsStr, io, ops::ControlFlow, path::Path, path::PathBuf};

use crate::{
    copy::CopyJob, copy::Prepared, copy::Report, error::Error, error::Result, event::Stop,
    path::Shown, state::Missing, state::MovedTimes, state::NotePlace, state::PrivateDir,
    state::PrivatePlace, state::notes, state::private_dir::NAME, sys::Dir, sys::PartOwner,
    sys::traits::Traits, tree::Batch, tree::Patience, tree::WalkEvent, tree::WalkItem,
    volume::NotedTraits, volume::TriedVolume, volume::UntriedNames,
};

/// Number of examples that are named.
const MOST_EXAMPLES: usize = 5;

/// The entries that a bag cannot hold: their number, and the first of them.
#[derive(Default)]
struct Misfits {
    number: u64,
    examples: Vec<PathBuf>,
}

impl Misfits {
    fn add(&mut self, path: impl FnOnce() -> PathBuf) {
        self.number += 1;
        if self.examples.len() < MOST_EXAMPLES {
            self.examples.push(path());
        }
    }

    fn refuse(&self, job: &CopyJob, deed: &'static str, why: &str) -> Result<()> {
        if self.number == 0 {
            return Ok(());
        }
        let number = self.number;
        let names = Shown::first_of(number, self.examples.iter().map(|path| Shown::path(path)));
        let finding = format!("{number} of its entries {why}: {names}; nothing was touched");
        Err(Error::finding(deed, &job.source, finding))
    }
}

/// The rules for entries that the lists of an output can hold.
#[derive(Clone, Copy, Debug)]
pub struct FitRules {
    /// The deed that is refused; completes the sentence "cannot …".
    pub deed: &'static str,
    /// True if a path can be listed.
    pub holds: fn(&[u8]) -> bool,
    /// Why a source with other names is refused …
    pub names: &'static str,
    /// … and why one with symbolic links.
    pub links: &'static str,
}

/// The entries, found by a walk of the source, that the lists of an output cannot hold.
pub struct Fit {
    rules: FitRules,
    bad_names: Misfits,
    links: Misfits,
}

impl Fit {
    /// Nothing yet.
    pub fn new(rules: FitRules) -> Self {
        Self { rules, bad_names: Misfits::default(), links: Misfits::default() }
    }

    /// Takes what the walk came upon.
    pub fn take(&mut self, found: &WalkEvent) {
        match found {
            WalkEvent::Files(batch) => self.files(batch),
            WalkEvent::Item(WalkItem::HardLink(output, entry)) => {
                if !(self.rules.holds)(output.rel.join(&entry.name).as_bytes()) {
                    self.bad_names.add(|| output.path_of(&entry.name));
                }
            }
            WalkEvent::Item(WalkItem::Symlink(source, _, entry)) => {
                self.links.add(|| source.path_of(&entry.name));
            }
            // The copy says what it is.
            WalkEvent::Item(_) => {}
        }
    }

    /// Takes files of one directory.
    pub fn files(&mut self, batch: &Batch) {
        for entry in &batch.files {
            if !(self.rules.holds)(batch.source.rel.join(&entry.name).as_bytes()) {
                self.bad_names.add(|| batch.source.path_of(&entry.name));
            }
        }
    }

    /// Refuses a source that does not fit.
    ///
    /// # Errors
    /// It is one.
    pub fn judge(&self, job: &CopyJob) -> Result<()> {
        let FitRules { deed, names, links, .. } = self.rules;
        self.bad_names.refuse(job, deed, names)?;
        self.links.refuse(job, deed, links)
    }
}

// The trial of the output's file system before the first file, and the look at it in a dry run.

/// Tries the file system of the output whose root is `root` and whose private directory is `private`, with part files
/// of this owner.
pub fn try_out(
    root: &Dir,
    parts: PartOwner,
    private: Option<&PrivateDir>,
    warnings: &mut Vec<Error>,
) -> TriedVolume {
    let traits = root.traits(parts);
    let moved = match private {
        Some(private) => {
            let fail = |deed| move |error| Error::io(deed, private.path(), error);
            let noted = NotePlace::Private(private).write(&traits);
            let noted = noted.map_err(fail("keep the private note of trials in"));
            let moved = match is_with(root, private) {
                true => notes::moved(private.dir(), true),
                false => Ok(MovedTimes::default()),
            };
            let moved = moved.map_err(fail("keep files of a known time in"));
            warnings.extend(noted.err());
            moved.unwrap_or_else(|warning| {
                warnings.push(warning);
                MovedTimes::default()
            })
        }
        None if !traits.permissions => in_the_open(root, &traits).unwrap_or_default(),
        None => MovedTimes::default(),
    };
    TriedVolume::new(traits, moved)
}

/// The same where without permissions no directory is private. But a user that can change the time of a file of ours
/// there can change that of any file, so it proves as much as they do.
fn in_the_open(root: &Dir, traits: &Traits) -> io::Result<MovedTimes> {
    let name = OsStr::new(NAME);
    let own = match root.make_dir(name, true) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => root.open_dir(name, false)?,
    };
    // Without the note a dry run knows less, and no other.
    let _ = NotePlace::Open(&own).write(traits);
    notes::moved(&own, true)
}

/// The facts about it in a dry run of an output at `path`, where nothing may be made. Its private directory is at
/// `place`. `names` tells what becomes of names that would have to be tried.
pub fn look_at(
    root: &Dir,
    path: &Path,
    place: PrivatePlace<'_>,
    names: UntriedNames,
) -> TriedVolume {
    let private = PrivateDir::open_at(root, path, place, Missing::Leave).ok().flatten();
    let open = || root.open_dir(NAME.as_ref(), false).ok();
    let (traits, own) = match &private {
        Some(private) => {
            let own = match is_with(root, private) {
                true => private.dir().try_clone().ok(),
                // That of the lock, which says as much of names.
                false => open(),
            };
            (NotePlace::Private(private).read(), own)
        }
        // Only where nothing can be private a run keeps anything in the open.
        None => match open().map(|own| (NotePlace::Open(&own).read(), own)) {
            Some((Some(traits), own)) if !traits.permissions => (Some(traits), Some(own)),
            _ => (None, None),
        },
    };
    let Some(own) = own else { return TriedVolume::default() };
    // Without an answer they have not moved.
    let moved = notes::moved(&own, false).unwrap_or_default();
    TriedVolume::look_at(root, own, NAME, NotedTraits { traits, moved }, names)
}

/// True if the private directory is on the output's file system.
fn is_with(root: &Dir, private: &PrivateDir) -> bool {
    let device = |dir: &Dir| dir.identity().ok().map(|id| id.dev);
    device(root).is_some() && device(root) == device(private.dir())
}

/// The copying of a tree, for a run that does more and leaves that to one that only copies.
pub trait TreeCopy {
    /// Copies the tree of this job, or in a dry run tells what would be copied.
    ///
    /// # Errors
    /// It was refused.
    fn copy_tree(&self, job: &CopyJob) -> Result<Report>;

    /// Refuses a job for which the output has no space; returns what is to be told of files that are too large.
    ///
    /// # Errors
    /// There is not enough.
    fn look_for_space(&self, job: &CopyJob, patience: Patience<'_>) -> Result<Option<Error>>;

    /// Walks the source of a job that was prepared as a dry run.
    fn walk_source(
        &self,
        job: &CopyJob,
        prepared: &Prepared,
        emit: &mut dyn FnMut(WalkEvent) -> ControlFlow<()>,
    );
}

/// Breaks a walk off once the run is to stop.
pub fn go_on_unless(stop: &Stop) -> ControlFlow<()> {
    if stop.is_requested() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
}
