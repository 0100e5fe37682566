//! Where an output or a manifest goes: something open, or a file that is to be.

use std::path::{Path, PathBuf};
use std::{ffi::OsString, fs::File, io, sync::Arc, time::SystemTime, time::UNIX_EPOCH};

use crate::sys::{Dir, Spliced, StreamEnd, stat::Identity, stat::Kind, stat::Stat, stat::Time};
use crate::{
    error::Deed, error::Error, error::Result, event::Stop, hash::Algorithm, io::States,
    path::directory_of, staged, stream::Endpoint, stream::OutputOutcome, stream::StreamContent,
    stream::StreamJob, stream::input::names_directory, stream::manifest::AtomicFile,
    stream::manifest::Completion, stream::manifest::ManifestSink, stream::manifest::StreamManifest,
    stream::manifest::StreamStates, stream::manifest::lines_beside, stream::manifest::suffix,
    stream::old_lists, stream::old_lists::OldList, stream::old_lists::Retired, sys,
    transfer::Context, tree::Decision, tree::OutputDir, tree::Policy, tree::SourceStat,
    tree::overwrite::decide,
};

pub enum OutputPlace {
    /// To what is open: standard output, a FIFO, a device.
    Open(StreamEnd),
    /// Into a file that gets its name when it is whole.
    File(FilePlace),
    /// Nowhere: what is there stays, for this reason.
    Left(&'static str),
    /// Nowhere: something is in the way.
    Refused(&'static str),
    /// No place: it cannot be found, or cannot be an output.
    Failed(Error),
}

/// The place of a file.
#[derive(Clone)]
pub struct FilePlace {
    pub dir: Arc<OutputDir>,
    pub name: OsString,
    /// The present file that it replaces.
    pub there: Option<Stat>,
    /// The metadata that it is taken to have before anything is known of it.
    pub coming: Stat,
}

impl FilePlace {
    /// The full path, for messages.
    pub fn path(&self) -> PathBuf {
        self.dir.path_of(&self.name)
    }

    /// The place of the manifest beside this file, which has `suffix` after its name. Whatever the policy, what is no
    /// file stays.
    pub fn beside(&self, suffix: &str, policy: Policy) -> Result<OutputPlace> {
        let mut name = self.name.clone();
        name.push(suffix);
        let path = self.dir.path_of(&name);
        match self.sibling(name, policy)? {
            OutputPlace::Refused(why) => {
                let finding = format!("{why}: remove it, or give --manifest");
                Err(Error::finding("write the manifest to", path, finding))
            }
            place => Ok(place),
        }
    }

    /// The place of the file of this name beside this one.
    pub fn sibling(&self, name: OsString, policy: Policy) -> Result<OutputPlace> {
        place_in(&self.dir, name, policy)
    }

    /// Refuses a directory that was moved, or replaced: nobody finds there what is at the path.
    pub fn refuse_moved(&self) -> Result<()> {
        let dir = self.dir.handle.as_ref();
        dir.map_or(Ok(()), |dir| staged::refuse_moved(dir, &self.dir.path()))
    }

    /// True if both are the place of one file.
    pub fn is_same(&self, other: &FilePlace) -> bool {
        let id = |place: &FilePlace| place.dir.handle.as_ref().and_then(|dir| dir.identity().ok());
        self.name == other.name && id(self) == id(other)
    }
}

impl OutputPlace {
    /// Finds the place of an output.
    ///
    /// # Errors
    /// It cannot be one.
    pub fn find(endpoint: &Endpoint, policy: Policy, stop: &Stop) -> Result<Self> {
        match (Self::look(endpoint, policy)?, endpoint) {
            (Some(place), _) => Ok(place),
            (None, Endpoint::Standard) => standard_output(),
            (None, Endpoint::Path(path)) => open(path, stop),
        }
    }

    /// The same, as far as it can be told without opening what is written to as it is: of that there is
    /// nothing.
    ///
    /// # Errors
    /// It cannot be one.
    pub fn look(endpoint: &Endpoint, policy: Policy) -> Result<Option<Self>> {
        let Endpoint::Path(path) = endpoint else { return Ok(None) };
        let refuse = |why: &str| Err(Error::finding("write to", path, why.to_owned()));
        if names_directory(path) {
            return refuse("a stream goes into a file, and this names a directory");
        }
        let Some(name) = path.file_name() else { return refuse("it is no name of a file") };
        let parent = directory_of(path);
        let cannot = |error| Error::io("open the directory", parent, error);
        let dir = Dir::open_named(parent).map_err(cannot)?;
        let there = dir.stat(name, true);
        if let Ok(there) = &there {
            refuse_planted(&dir, there, path)?;
        }
        match there.map(|stat| stat.kind) {
            Ok(Kind::Dir) => return refuse("a stream goes into a file, and this is a directory"),
            Ok(Kind::Socket) => return refuse("it is a socket"),
            Ok(Kind::Fifo | Kind::Device) => return Ok(None),
            Ok(Kind::File | Kind::Symlink) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(Error::io("look at", path, error)),
        }
        if let Some(why) = sys::unusable(name) {
            return refuse(why);
        }
        let stat = dir.stat_self().map_err(cannot)?;
        let mut dir = OutputDir {
            handle: Some(dir),
            fresh: false,
            gid: stat.gid,
            ..OutputDir::absent(parent.into())
        };
        dir.volume.dev = stat.id.dev;
        dir.volume.with_root = false;
        // What comes as a stream has no permissions of its own.
        dir.volume.keep_lists();
        place_in(&Arc::new(dir), name.to_os_string(), policy).map(Some)
    }

    /// The identity of the file that is there, if it is a regular one.
    pub fn identity(&self) -> Option<Identity> {
        let stat = match self {
            OutputPlace::Open(end) => Some(&end.stat),
            OutputPlace::File(place) => place.there.as_ref(),
            OutputPlace::Left(_) | OutputPlace::Refused(_) | OutputPlace::Failed(_) => None,
        };
        stat.filter(|stat| stat.kind == Kind::File).map(|stat| stat.id)
    }
}

/// Refuses what is `there` at `path` in `dir` and another user's, where others may write: what comes would be as open
/// as that is, or that user's, who may have put it there in the place of what this one left. What only root refuses
/// are FIFOs and devices, by which users talk to each other.
fn refuse_planted(dir: &Dir, there: &Stat, path: &Path) -> Result<()> {
    let look = |error| Error::io("look at", path, error);
    let is_file = matches!(there.kind, Kind::File | Kind::Symlink);
    if !(is_file || sys::may_give_away()) || !Dir::is_strange(there, &Stat { uid: 0, ..*there }) {
        return Ok(());
    }
    if dir.is_kept().map_err(look)? && dir.is_place_kept().map_err(look)? {
        return Ok(());
    }
    let finding = format!(
        "it is of another user ({}), and others may write to the directory, who can have put it there: remove it, or name \
         another place",
        there.uid
    );
    Err(Error::finding("write to", path, finding))
}

fn standard_output() -> Result<OutputPlace> {
    let path = Path::new("-");
    if sys::was_closed_at_start(1) {
        return Err(Error::finding("write to", path, "standard output is closed"));
    }
    let end = StreamEnd::standard_output();
    end.map(OutputPlace::Open).deed("write to", path)
}

/// Opens what is there, waiting for a FIFO to get a reader.
fn open(path: &Path, stop: &Stop) -> Result<OutputPlace> {
    const NAP: std::time::Duration = std::time::Duration::from_millis(20);
    loop {
        let opened = StreamEnd::open_output(path);
        match opened.deed("open for writing", path)? {
            Some(end) => return Ok(OutputPlace::Open(end)),
            None if stop.is_urgent() => {
                return Err(Error::finding("open for writing", path, "it has no reader"));
            }
            None => std::thread::sleep(NAP),
        }
    }
}

/// Decides about a file by the overwrite policy: what comes is of now and of unknown size, so
/// that nothing that is there is the same or a cut-off beginning of it.
fn place_in(dir: &Arc<OutputDir>, name: OsString, policy: Policy) -> Result<OutputPlace> {
    let there = dir.handle.as_ref().map(|handle| handle.stat(&name, false).if_there()).transpose();
    let there = there.deed_at("look at", || dir.path_of(&name))?.flatten();
    if let (Some(handle), Some(there)) = (&dir.handle, &there) {
        refuse_planted(handle, there, &dir.path_of(&name))?;
    }
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let mtime = Time { secs: now.as_secs() as i64, nanos: now.subsec_nanos() };
    let coming = Stat { mtime, ..Stat::of_kind(Kind::File) };
    let decision = decide(
        policy,
        SourceStat(&coming),
        there.as_ref().map(|there| dir.destination(&coming, there)),
    );
    Ok(match decision {
        Decision::Create | Decision::Replace => {
            OutputPlace::File(FilePlace { dir: Arc::clone(dir), name, there, coming })
        }
        Decision::Keep => OutputPlace::Left("it is there already"),
        Decision::Leave(_) => OutputPlace::Left(
            "it is there already; --overwrite-policy update or always replaces it",
        ),
        Decision::Refuse(why) => OutputPlace::Refused(why),
    })
}

/// The places of everything that a stream writes.
pub struct OutputPlaces {
    /// Those of the outputs.
    pub outputs: Vec<PlacedOutput>,
    /// The name of the manifest of all outputs.
    pub manifest: Option<StreamManifest>,
}

/// The place of an output.
pub struct PlacedOutput {
    /// Its own.
    pub place: OutputPlace,
    /// The name of the manifest beside it.
    pub beside: Option<OutputPlace>,
    /// The side file of that.
    pub states: Option<StreamStates>,
    /// The lists of other digests beside it.
    pub old: Vec<OldList>,
}

impl PlacedOutput {
    /// Those of the old lists, and their side files, that go.
    pub fn old_files(&self) -> impl Iterator<Item = &FilePlace> {
        let file = match &self.place {
            OutputPlace::File(file) => Some(file),
            _ => None,
        };
        file.into_iter().flat_map(|file| self.old.iter().flat_map(|old| old.files(file)))
    }
}

impl OutputPlaces {
    /// Finds them; `find` finds one, if it is to be known. An output that can have no place has
    /// [`OutputPlace::Failed`]: the others do without it.
    ///
    /// # Errors
    /// The manifest of all outputs can have no place.
    pub fn find(
        job: &StreamJob,
        find: &dyn Fn(&Endpoint) -> Result<Option<OutputPlace>>,
    ) -> Result<Self> {
        let StreamJob { manifest, options, .. } = job;
        let (algorithm, policy) = (options.algorithm, options.policy);
        let is_beside = algorithm != Algorithm::None && manifest.is_none();
        let keeps_states = algorithm == Algorithm::Sha256 && options.states == States::Auto;
        let ending = suffix(options.further.with(algorithm));
        let mut outputs = Vec::new();
        for endpoint in &job.outputs {
            let place = match find(endpoint) {
                Ok(None) => continue,
                Ok(Some(place)) => place,
                Err(error) => OutputPlace::Failed(error),
            };
            let beside = match &place {
                OutputPlace::File(file) if is_beside => {
                    Some(file.beside(&ending, policy).unwrap_or_else(OutputPlace::Failed))
                }
                _ => None,
            };
            let states = match &beside {
                Some(OutputPlace::File(file)) if keeps_states => {
                    Some(StreamStates::of(file, policy))
                }
                _ => None,
            };
            outputs.push(PlacedOutput { place, beside, states, old: Vec::new() });
        }
        let manifest = manifest.clone().map(|path| {
            let (endpoint, states) = (Endpoint::Path(path), keeps_states.then_some(policy));
            let place = find(&endpoint)?;
            place.map(|place| StreamManifest::at(place, &endpoint, states)).transpose()
        });
        let mut all = Self { outputs, manifest: manifest.transpose()?.flatten() };
        let files: Vec<FilePlace> = all.files().cloned().collect();
        all.states_mut().for_each(|states| states.give_way(files.iter()));
        let is_taken = |place: &FilePlace| files.iter().any(|file| file.is_same(place));
        for output in &mut all.outputs {
            if let OutputPlace::File(file) = &output.place {
                output.old = OldList::find(file, &is_taken);
            }
        }
        Ok(all)
    }

    /// The files that outputs and manifests are to be.
    pub fn files(&self) -> impl Iterator<Item = &FilePlace> {
        let listing = match &self.manifest {
            Some(StreamManifest { sink: ManifestSink::File(place), .. }) => Some(place),
            _ => None,
        };
        let both =
            self.outputs.iter().flat_map(|output| [Some(&output.place), output.beside.as_ref()]);
        let files = both.flatten().filter_map(|place| match place {
            OutputPlace::File(place) => Some(place),
            _ => None,
        });
        files.chain(listing)
    }

    /// The side files.
    pub fn states(&self) -> impl Iterator<Item = &StreamStates> {
        let listing = self.manifest.as_ref().and_then(|manifest| manifest.states.as_ref());
        self.outputs.iter().filter_map(|output| output.states.as_ref()).chain(listing)
    }

    fn states_mut(&mut self) -> impl Iterator<Item = &mut StreamStates> {
        let listing = self.manifest.as_mut().and_then(|manifest| manifest.states.as_mut());
        self.outputs.iter_mut().filter_map(|output| output.states.as_mut()).chain(listing)
    }
}

// An output, open: bytes go to it as they come, and in the end it stands or it does not.

pub struct OpenOutput<'a> {
    /// The number of the output, counted from 0.
    pub number: usize,
    /// The output as the user names it.
    pub endpoint: Endpoint,
    /// The state that the run shares.
    pub context: Context<'a>,
    pub sink: Sink<'a>,
    /// The manifest beside it.
    pub manifest: Option<StreamManifest>,
    /// The lists of other digests beside it.
    pub old: Vec<OldList>,
}

pub enum Sink<'a> {
    /// To what is open.
    Open(StreamEnd),
    File(Box<AtomicFile<'a>>),
}

/// Why an output is dropped.
pub enum DropReason {
    /// Its reader went away.
    Closed,
    /// The run is to stop.
    Stopped,
    Failed(Error),
}

impl DropReason {
    /// The result of an output that is dropped.
    pub fn outcome(self) -> OutputOutcome {
        match self {
            DropReason::Closed => OutputOutcome::Closed,
            DropReason::Stopped => OutputOutcome::Stopped(Vec::new()),
            DropReason::Failed(error) => OutputOutcome::Failed(error),
        }
    }
}

impl OpenOutput<'_> {
    /// True if it is a file that has no name yet.
    pub fn is_file(&self) -> bool {
        matches!(self.sink, Sink::File(_))
    }

    /// The open end, if it is no file of ours.
    pub fn end(&self) -> Option<&StreamEnd> {
        match &self.sink {
            Sink::Open(end) => Some(end),
            Sink::File(_) => None,
        }
    }

    /// True if its reader went away, which is looked for while nothing comes: an input may be idle for hours.
    pub fn has_lost_reader(&self) -> bool {
        self.end().is_some_and(StreamEnd::has_lost_reader)
    }

    /// Writes all of `bytes`.
    pub fn write(&mut self, bytes: &[u8]) -> Result<(), DropReason> {
        let end = match &mut self.sink {
            Sink::File(file) => return file.write(bytes).map_err(DropReason::Failed),
            Sink::Open(end) => end,
        };
        match end.write_all(bytes, || self.context.control.stop.is_urgent()) {
            Ok(true) => Ok(()),
            Ok(false) => Err(DropReason::Stopped),
            Err(error) => Err(lost(&self.endpoint, "write", error)),
        }
    }

    /// Lets `moving` move at most `most` bytes there.
    pub fn take(
        &mut self,
        most: u64,
        moving: impl FnOnce(&File, u64) -> io::Result<Spliced>,
    ) -> Result<Spliced, DropReason> {
        match &mut self.sink {
            Sink::File(file) => file.take(most, moving).map_err(DropReason::Failed),
            Sink::Open(end) => {
                moving(&end.file, most).map_err(|error| lost(&self.endpoint, "copy to", error))
            }
        }
    }

    /// Everything came: the file gets its name, and the manifest beside it its line.
    pub fn finish(self, content: Option<&StreamContent>) -> OutputOutcome {
        let Self { endpoint, context, sink, mut manifest, old, .. } = self;
        let file = match sink {
            // What a file system says only now would be lost with the handle.
            Sink::Open(end) => {
                return match sys::close_file(end.file) {
                    Ok(()) => OutputOutcome::Passed,
                    Err(error) => lost(&endpoint, "close", error).outcome(),
                };
            }
            Sink::File(file) => file,
        };
        if context.control.stop.is_urgent() {
            return OutputOutcome::Stopped(file.abandon());
        }
        let (mut warnings, place) = (Vec::new(), file.place.clone());
        let mut retired = Retired::default();
        let retire = || {
            old_lists::retire(&context, &old, &place, content, &mut retired)?;
            let own = manifest.as_mut().map(|manifest| manifest.retire(&context)).transpose()?;
            retired.gone.extend(own.flatten());
            Ok(())
        };
        let proof = match file.finish(content, retire, &mut warnings) {
            Ok(Completion::Stands(proof)) => proof,
            Ok(Completion::Unproven(error)) => return OutputOutcome::Unproven(error),
            Ok(Completion::Stopped) => return OutputOutcome::Stopped(warnings),
            Err(error) => return OutputOutcome::Failed(retired.note(error)),
        };
        warnings.append(&mut retired.stays);
        let mut list = None;
        if let (Some(manifest), Some(content)) = (manifest, content) {
            list = manifest.path();
            let lines = lines_beside(&content.digests, &place);
            let path = place.name.as_encoded_bytes();
            let written = manifest.write(&context, &lines, path, content, &mut warnings);
            if let Err(error) = written {
                return OutputOutcome::Failed(error.with_note("; the file itself is complete"));
            }
        }
        OutputOutcome::Stands { replaced: place.there.is_some(), proof, list, warnings }
    }

    /// It is not completed, because of `lost`: removes what there is of it.
    pub fn discard(self, lost: DropReason) -> OutputOutcome {
        match (self.sink, lost) {
            (Sink::File(file), DropReason::Failed(error)) => {
                OutputOutcome::Failed(file.discard(error))
            }
            (Sink::File(file), DropReason::Stopped | DropReason::Closed) => {
                OutputOutcome::Stopped(file.abandon())
            }
            (Sink::Open(_), lost) => lost.outcome(),
        }
    }

    /// An input was cut short: a file that would lack a piece is not to stand.
    pub fn cut_short(&self) -> Error {
        let finding = "an input could not be read to its end, and a piece would be missing";
        Error::finding("complete", self.endpoint.path(), finding)
    }
}

fn lost(endpoint: &Endpoint, deed: &'static str, error: io::Error) -> DropReason {
    match error.kind() {
        io::ErrorKind::BrokenPipe => DropReason::Closed,
        _ => DropReason::Failed(Error::io(deed, endpoint.path(), error)),
    }
}
