//! Looking at a job before it is run.

use std::{ffi::OsStr, io, path::Path, path::PathBuf};

use jiff::Timestamp;

use crate::{
    copy::CopyJob, copy::Prepared, copy::bag::PayloadRole, copy::bag::place::BagRoot,
    copy::before::Demands, copy::before::new_name, copy::before::prepare, error::Deed,
    error::Error, error::Result, event::Stop, hash::Algorithm, io::CopyOptions, io::Reflink,
    manifest::ManifestName, path::Shown, path::directory_of, state::Missing, state::MovedTimes,
    state::NotePlace, state::PrivateDir, state::PrivatePlace, state::notes,
    state::private_dir::NAME, sys, sys::Dir, sys::Durable, sys::NoOwnMount, sys::PartOwner,
    sys::stat::Kind, sys::traits::Traits, transfer::baseline::Baseline, tree::Patience,
    tree::Policy, tree::WalkEvent, tree::WalkItem, volume::NotedTraits, volume::TriedVolume,
    volume::UntriedNames,
};

impl CopyJob {
    /// Looks whether the job would be refused for what it asks, its source or its output, and makes
    /// nothing. Whether there is room is not looked at: that takes a walk.
    ///
    /// # Errors
    /// Why the job would be refused.
    pub fn check(&self) -> Result<()> {
        self.check_options()?;
        self.refuse_other_layout()?;
        let stop = Stop::default();
        let patience = Patience { wait: false, deed: "copy to", tell: &|_| (), stop: &stop };
        self.expected().map(|it| Baseline::open(it, &|| false)).transpose()?;
        if self.bag.is_some() {
            BagRoot::find(self, &mut Vec::new())?;
        }
        // As in a dry run: what is looked at beside a run, or after it, need not be written to.
        let dry = Self { dry_run: true, ..self.clone() };
        let prepared = dry.prepare(true, patience)?;
        self.check_history(&prepared)
    }

    /// Where the output's private directory is.
    pub(crate) fn private_place(&self) -> PrivatePlace<'_> {
        match (&self.payload, &self.state) {
            (Some(PayloadRole { private: Some(private), .. }), _) => PrivatePlace::Within(private),
            (Some(_), _) => PrivatePlace::Nowhere,
            (None, Some(state)) => PrivatePlace::Among(state),
            (None, None) => PrivatePlace::InOutput,
        }
    }

    /// True if a run of this user was at the output, which is opened, before.
    pub(crate) fn has_private_dir(&self, prepared: &Prepared) -> bool {
        let root = prepared.output.handle.as_ref();
        root.is_some_and(|root| {
            let place = self.private_place();
            let opened = PrivateDir::open_at(root, &self.output, place, Missing::Leave);
            matches!(opened, Ok(Some(_)))
        })
    }

    /// Opens both sides; makes nothing if it is `dry`.
    pub(crate) fn prepare(&self, dry: bool, patience: Patience<'_>) -> Result<Prepared> {
        let demands = Demands {
            must_clone: self.options.reflink == Reflink::Always,
            // A shard is tried again where its output cannot be written to for a while.
            disk: DiskDemands::of_run(&self.options, dry && !self.dry_run || self.shard.is_some()),
            replaces: self.mirror.is_some()
                || matches!(self.options.policy, Policy::Update | Policy::Always),
            restore: self.options.restore,
            longest_name: match (self.options.algorithm, &self.payload) {
                (Algorithm::None, _) | (_, Some(_)) => 0,
                (algorithm, None) => {
                    ManifestName::new(Timestamp::now()).of(algorithm).unfinished().to_string().len()
                }
            },
            held: self.held.as_deref(),
            planned: self.planned,
            dry,
            durable: self.options.sync,
            // A look at the room before a run counts what the run finds out.
            names: if self.dry_run { UntriedNames::Doubtful } else { UntriedNames::Held },
            shard: self.shard.as_ref().map(|shard| shard.tag),
            private: self.private_place(),
            needs_private: self.needs_private(),
        };
        self.refuse_file()?;
        let prepared = prepare(&self.source, &self.output, demands, patience)?;
        if let Some(payload) = &self.payload
            && prepared.output_id != Some(payload.id)
        {
            let finding = "it is not the directory that the bag has; was it replaced meanwhile?";
            return Err(Error::finding("copy to", &self.output, finding));
        }
        Ok(prepared)
    }
}

// Refusing an output whose disk is not there: without one, a run would fill the disk below the mount point.

/// The demands on the disk of an output.
#[derive(Clone, Copy, Debug)]
pub struct DiskDemands {
    /// It must be mounted for the output.
    pub mounted: bool,
    /// It must be a device of this machine whose syncs are worth what they say.
    pub durable: bool,
    /// Files can be made in the output's root, or the root itself.
    pub writable: bool,
}

impl DiskDemands {
    /// Those on the root of a bag, or of a run that writes nothing there.
    pub fn of(options: &CopyOptions) -> Self {
        let (mounted, durable) = (options.require_mount, options.require_durable);
        Self { mounted, durable, writable: false }
    }

    /// Those of a run with these options, or a dry one, or of what only `looks`. Without a manifest files may go where
    /// the root takes none.
    pub fn of_run(options: &CopyOptions, looks: bool) -> Self {
        Self { writable: !looks && options.algorithm != Algorithm::None, ..Self::of(options) }
    }
}

/// Opens the output `to`, whose disk must be as is demanded.
pub fn open(to: &Path, demands: DiskDemands) -> Result<Opened> {
    let opened = if demands.mounted { open_mounted(to) } else { open_output(to) }?;
    if demands.durable {
        refuse_forgetful(opened.dir(), to)?;
    }
    if demands.writable {
        refuse_unwritable(&opened, to)?;
    }
    Ok(opened)
}

/// Refuses an output that cannot be made, or in which nothing can, not even the manifest.
fn refuse_unwritable(opened: &Opened, to: &Path) -> Result<()> {
    let Err(error) = opened.dir().check_writable() else { return Ok(()) };
    let is_denied = error.kind() == io::ErrorKind::PermissionDenied;
    let is_closed = |dir: &Dir| dir.stat_self().is_ok_and(|stat| Dir::is_closed(&stat));
    let deed = match opened {
        // The run makes it writable for a time.
        Opened::There(dir) if is_denied && is_closed(dir) => return Ok(()),
        Opened::There(_) => "write to",
        Opened::Parent(_) => "make the output",
    };
    let remedy = remedy(error.kind());
    Err(Error::io(deed, to, error).with_note(remedy))
}

/// What helps where nothing can be made.
fn remedy(kind: io::ErrorKind) -> &'static str {
    match kind {
        io::ErrorKind::ReadOnlyFilesystem => {
            "; mount it for writing, look at the switch on its side, or choose another output"
        }
        io::ErrorKind::PermissionDenied => {
            "; give this user the right to (chown, chmod), or choose another output"
        }
        _ => "",
    }
}

/// Refuses an output of which nobody but the device itself is to say that it is durable.
fn refuse_forgetful(dir: &Dir, to: &Path) -> Result<()> {
    let finding = match sys::durable(dir) {
        Durable::Device => return Ok(()),
        Durable::Server => "a server keeps it, whose word is all there is; --require-durable asks \
                            for a disk of this machine"
            .to_owned(),
        Durable::Unknown(why) => {
            format!(
                "whether a sync makes anything durable there is unknown: {why} (--require-durable)"
            )
        }
    };
    Err(Error::finding("copy to", to, finding))
}

/// Where systems mount the disks of people and administrators (Filesystem Hierarchy Standard 3.0).
const FOR_DISKS: [&str; 3] = ["/media", "/mnt", "/run/media"];

/// True if the output at `to` is, or is to be made, where disks are mounted, and none is.
pub fn lacks_disk(to: &Path) -> bool {
    let to = std::path::absolute(to).unwrap_or_default();
    let there = to.ancestors().find_map(|above| above.canonicalize().ok()).unwrap_or_default();
    let is_of_system = |dir: &Dir| matches!(sys::no_own_mount(dir), Ok(Some(NoOwnMount::System)));
    FOR_DISKS.iter().any(|it| there.starts_with(it))
        && Dir::open(&there).is_ok_and(|it| is_of_system(&it))
}

/// The warning that a copy which no earlier run began goes where disks are mounted, and none is.
pub(crate) fn without_disk(to: &Path, opened: &Opened, place: PrivatePlace<'_>) -> Option<Error> {
    let was_here =
        |dir: &Dir| matches!(PrivateDir::open_at(dir, to, place, Missing::Leave), Ok(Some(_)));
    let is_new = lacks_disk(to) && !matches!(opened, Opened::There(dir) if was_here(dir));
    let finding = "none is mounted there, and the copy goes to the system's own disk; --require-mount refuses that";
    is_new.then(|| Error::finding("find a disk for", to, finding))
}

fn open_mounted(to: &Path) -> Result<Opened> {
    // Where the disk is missing, so may be the directories on it, and making them is no remedy.
    let opened = match open_output(to) {
        Ok(opened) => opened,
        Err(error) => {
            let above = to.ancestors().skip(1).find_map(|above| Dir::open(above).ok());
            return Err(above.and_then(|above| refuse(&above, to).err()).unwrap_or(error));
        }
    };
    refuse(opened.dir(), to)?;
    Ok(opened)
}

/// Refuses the output `to` if `dir`, which is, holds or is to hold it, does not lie on a mount of its own.
fn refuse(dir: &Dir, to: &Path) -> Result<()> {
    let fail = |finding: String| Err(Error::finding("copy to", to, finding));
    match sys::no_own_mount(dir) {
        Ok(None) => Ok(()),
        Ok(Some(NoOwnMount::System)) => fail(
            "its disk is not mounted: this is, or would be, a directory of the system's own disk"
                .into(),
        ),
        Ok(Some(NoOwnMount::Bound { directory, source })) => fail(format!(
            "its disk is not mounted: this is the directory {} of {}, bound there",
            Shown::path(&directory),
            Shown::path(&source)
        )),
        Err(error) => Err(Error::io("find the mount of", to, error)),
    }
}

// Opening an output as it is found, before anything is made.

const LEADS_NOWHERE: &str = "it is a link that leads nowhere: make what it leads to, or remove it";

/// The state of an output that was opened.
pub(crate) enum Opened {
    There(Dir),
    /// The directory that the output's directory is to be made in.
    Parent(Dir),
}

impl Opened {
    /// The directory that is open.
    pub(crate) fn dir(&self) -> &Dir {
        let (Opened::There(dir) | Opened::Parent(dir)) = self;
        dir
    }
}

pub(crate) fn open_output(to: &Path) -> Result<Opened> {
    match Dir::open_named(to) {
        Ok(dir) => return Ok(Opened::There(dir)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) if error.kind() == io::ErrorKind::NotADirectory => {
            return Err(Error::finding("copy to", to, "it is there and is not a directory"));
        }
        // Windows opens a device of that name, and says of it what helps nobody.
        Err(error) => {
            return Err(match to.file_name().and_then(sys::unusable) {
                Some(why) => Error::finding("make the output", to, why),
                None => Error::io("open the output", to, error),
            });
        }
    }
    let name = new_name(to)?;
    let parent = directory_of(to);
    match Dir::open_named(parent) {
        Ok(dir) if dir.stat(&name, false).is_ok_and(|it| it.kind == Kind::Symlink) => {
            Err(Error::finding("copy to", to, LEADS_NOWHERE))
        }
        Ok(dir) => Ok(Opened::Parent(dir)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Err(Error::finding(
            "copy to",
            to,
            format!(
                "the directory {} does not exist; make it first, or look for a typing error",
                Shown::path(parent)
            ),
        )),
        Err(error) => Err(Error::io("open the directory", parent, error)),
    }
}

/// Makes the output's directory: `closed` to others, or as the user's umask has it.
pub(crate) fn make_output(parent: &Dir, to: &Path, closed: bool) -> Result<Dir> {
    let name = new_name(to)?;
    let fail = |error: io::Error| {
        let remedy = remedy(error.kind());
        Error::io("make the output", to, error).with_note(remedy)
    };
    parent.make_dir(&name, closed).map_err(fail)?;
    let made = parent.open_dir(&name, false).map_err(fail)?;
    if closed && !made.is_private().map_err(fail)? {
        // Where the system has no owners; or another user put one of his in its place.
        let _ = made.take_over();
    }
    Ok(made)
}

/// A handle of its own: a directory that is listed has one position for all of one handle.
pub(crate) fn another(dir: &Dir) -> io::Result<Dir> {
    dir.open_dir(".".as_ref(), false)
}

// The fit of the source into the lists of an output: its names, and nothing but files.

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
            WalkEvent::Files(batch) => {
                for entry in &batch.files {
                    if !(self.rules.holds)(batch.source.rel.join(&entry.name).as_bytes()) {
                        self.bad_names.add(|| batch.source.path_of(&entry.name));
                    }
                }
            }
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
/// of this owner. Without one nothing is kept where there is no `place` for one: in the payload of a bag.
pub fn try_out(
    root: &Dir,
    parts: PartOwner,
    private: Option<&PrivateDir>,
    place: PrivatePlace<'_>,
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
        None if !traits.permissions && !matches!(place, PrivatePlace::Nowhere) => {
            in_the_open(root, &traits).unwrap_or_default()
        }
        None => MovedTimes::default(),
    };
    TriedVolume::new(traits, moved)
}

/// The same where without permissions no directory is private. But a user that can change the time of a file of ours
/// there can change that of any file, so it proves as much as they do.
fn in_the_open(root: &Dir, traits: &Traits) -> io::Result<MovedTimes> {
    let name = OsStr::new(NAME);
    root.make_dir(name, true).unless_taken()?;
    let own = root.open_dir(name, false)?;
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
