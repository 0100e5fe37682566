//! The manifest of a stream: one line for each file that was made, as `sha256sum` writes it; with several digests one
//! for each of them, with its tag.

use std::{fs::File, io, path::PathBuf, sync::Arc};

use crate::transfer::{Context, PendingPublish, ReadBackVerdict, ReadBackVerifier, WrittenPart};
use crate::{
    chain::side_file::SideFile, chain::side_file_of, error::Deed, error::Error, error::Result,
    hash::Algorithms, hash::Digests, io::Cache, io::Durability, io::HashedFrom,
    manifest::ListFormat, manifest::lists, manifest::states_name, part, part::Complete, part::Part,
    part::content::CopyTarget, stream::Endpoint, stream::StreamContent, stream::old_lists,
    stream::place::FilePlace, stream::place::OutputPlace, sys, sys::Attributes, sys::CachePolicy,
    sys::PartOwner, sys::Spliced, sys::StreamEnd, sys::stat::Kind, sys::stat::Stat, tree::Policy,
    tree::SourceEntry,
};

/// The ending of a manifest's name behind that of its file: that of the list of all its digests.
pub fn suffix(algorithms: Algorithms) -> String {
    let form = if algorithms.len() > 1 { ListFormat::Bsd } else { ListFormat::Gnu };
    format!(".{}", form.suffix(algorithms))
}

/// A manifest, and the side file beside it.
pub struct StreamManifest {
    pub sink: ManifestSink,
    /// Where states go, if they are kept and it is a file.
    pub states: Option<StreamStates>,
}

/// Where a manifest goes.
pub enum ManifestSink {
    /// Into a file that gets its name when it is whole.
    File(FilePlace),
    /// To what is open.
    Open(StreamEnd),
}

impl StreamManifest {
    /// At this place, which must be one.
    pub fn at(place: OutputPlace, endpoint: &Endpoint, states: Option<Policy>) -> Result<Self> {
        match place {
            OutputPlace::Failed(error) => Err(error),
            OutputPlace::File(place) => {
                let states = states.map(|policy| StreamStates::of(&place, policy));
                Ok(Self { sink: ManifestSink::File(place), states })
            }
            OutputPlace::Open(end) => Ok(Self { sink: ManifestSink::Open(end), states: None }),
            OutputPlace::Left(why) | OutputPlace::Refused(why) => {
                Err(Error::finding("write the manifest", endpoint.path(), why))
            }
        }
    }

    /// Its path, if it goes into a file.
    pub fn path(&self) -> Option<PathBuf> {
        match &self.sink {
            ManifestSink::File(place) => Some(place.path()),
            ManifestSink::Open(_) => None,
        }
    }

    /// Removes an older one, before what it lists is replaced: no line may be wrong at any moment. Returns its path, if
    /// there was one.
    pub fn retire(&mut self, context: &Context<'_>) -> Result<Option<PathBuf>> {
        let ManifestSink::File(place) = &mut self.sink else { return Ok(None) };
        let Some(dir) = place.there.take().and(place.dir.handle.as_ref()) else { return Ok(None) };
        let removed = dir.remove(&place.name).and_then(|()| match context.options.durability {
            Durability::Off => Ok(()),
            Durability::Grouped { .. } => dir.persist(),
        });
        removed.deed_at(old_lists::DEED, || place.path())?;
        Ok(Some(place.path()))
    }

    /// Writes the `lines` about `content`, the first of which is of `path`, and before that its states.
    pub fn write(
        self,
        context: &Context<'_>,
        lines: &[u8],
        path: &[u8],
        content: &StreamContent,
        warnings: &mut Vec<Error>,
    ) -> Result<()> {
        if let Some(states) = self.states {
            states.write(context, path, content, warnings);
        }
        match self.sink {
            ManifestSink::File(place) => {
                let mut hasher = context.options.asked.algorithm.start();
                hasher.update(lines);
                let size = lines.len() as u64;
                let written = hasher.finish().map(|digest| StreamContent {
                    digests: digest.into(),
                    size,
                    chain: None,
                });
                let stopped = || Error::finding("write", "the manifest", "interrupted");
                write(context, place, lines, written.as_ref(), warnings)?.ok_or_else(stopped)
            }
            ManifestSink::Open(end) => {
                let written = end.write_all(lines, || context.control.stop.is_urgent());
                if !written.deed_at("write", || "the manifest")? {
                    return Err(Error::finding("write", "the manifest", "interrupted"));
                }
                sys::close_file(end.file).deed_at("close", || "the manifest")
            }
        }
    }
}

/// The lines of a file in a manifest beside it.
pub fn lines_beside(digests: &Digests, place: &FilePlace) -> Vec<u8> {
    let mut lines = Vec::new();
    write_lines(&mut lines, digests, place.name.as_encoded_bytes());
    lines
}

/// Adds the lines of an output to a manifest of all: under the name that the user gave it, from where the
/// program was started.
pub fn add_lines(lines: &mut Vec<u8>, digests: &Digests, endpoint: &Endpoint) {
    match (endpoint, &digests.further) {
        (Endpoint::Standard, None) => lists::write_standard(lines, &digests.proof),
        (Endpoint::Standard, Some(_)) => lists::write_all_standard(lines, digests.iter()),
        (Endpoint::Path(path), _) => {
            write_lines(lines, digests, path.as_os_str().as_encoded_bytes());
        }
    }
}

fn write_lines(lines: &mut Vec<u8>, digests: &Digests, path: &[u8]) {
    match &digests.further {
        None => lists::write_path(lines, &digests.proof, path),
        Some(_) => digests.iter().for_each(|digest| lists::write_tagged(lines, digest, path, true)),
    }
}

// The side file of a manifest of a stream: the chain of what came, if that is long enough to have one.
//
// It is written just before its manifest. Nothing in it need be believed, so one that cannot be written is a
// warning, and whatever else has its name stays.

/// The deed in errors about states; completes "cannot …".
const DEED: &str = "write the states of large files to";

/// Where a side file goes, or why it cannot be written.
pub struct StreamStates(Result<FilePlace>);

impl StreamStates {
    /// That of the manifest at this place. What is there already gives way by the policy, if it is a side file.
    pub fn of(manifest: &FilePlace, policy: Policy) -> Self {
        Self(find(manifest, policy))
    }

    /// The place, if there is one.
    pub fn place(&self) -> Option<&FilePlace> {
        self.0.as_ref().ok()
    }

    /// Its place is that of one of these: then it is not written.
    pub fn give_way<'p>(&mut self, mut others: impl Iterator<Item = &'p FilePlace>) {
        if let Ok(place) = &self.0
            && others.any(|other| other.is_same(place))
        {
            self.0 = Err(Error::finding(DEED, place.path(), "this is an output"));
        }
    }

    /// Writes it, if there is anything to write; `path` is what a reader is told of whose states they are.
    pub fn write(
        self,
        context: &Context<'_>,
        path: &[u8],
        content: &StreamContent,
        warnings: &mut Vec<Error>,
    ) {
        let StreamContent { digests, size, chain } = content;
        let of_chain = |chain| side_file_of(path, *size, &digests.proof, chain);
        let side_file = chain.as_ref().and_then(of_chain);
        let Some(bytes) = side_file else { return };
        let mut stays = Vec::new();
        let written = self.0.and_then(|place| {
            let stopped = Error::finding(DEED, place.path(), "interrupted");
            write(context, place, &bytes, None, &mut stays)?.ok_or(stopped)
        });
        if let Err(error) = written {
            warnings.push(error.with_note("; checks take longer"));
        }
        warnings.append(&mut stays);
    }
}

fn find(manifest: &FilePlace, policy: Policy) -> Result<FilePlace> {
    let path = manifest.path();
    let name = states_name(&path);
    let name = name.ok_or_else(|| Error::finding(DEED, &path, "it has no name"))?;
    let path = path.with_file_name(&name);
    match manifest.sibling(name, policy)? {
        OutputPlace::File(place) if place.there.is_none() || is_side_file(&place) => Ok(place),
        OutputPlace::Left(why) | OutputPlace::Refused(why) => Err(Error::finding(DEED, path, why)),
        OutputPlace::Failed(error) => Err(error),
        OutputPlace::File(_) | OutputPlace::Open(_) => {
            Err(Error::finding(DEED, path, "what has this name is no side file"))
        }
    }
}

/// True if the file there is a side file.
pub fn is_side_file(place: &FilePlace) -> bool {
    let (Some(dir), Some(there)) = (&place.dir.handle, &place.there) else { return false };
    there.kind == Kind::File
        && dir.open_file(&place.name, false).is_ok_and(|file| SideFile::is_one(&file))
}

/// Makes a file of these bytes, which is proven to have this content where that is asked for; `None` if the run is to
/// stop.
fn write(
    context: &Context<'_>,
    place: FilePlace,
    bytes: &[u8],
    content: Option<&StreamContent>,
    warnings: &mut Vec<Error>,
) -> Result<Option<()>> {
    let mut file = AtomicFile::begin(context, place)?;
    if let Err(error) = file.write(bytes) {
        return Err(file.discard(error));
    }
    match file.finish(content, || Ok(()), warnings)? {
        Completion::Stands(_) => Ok(Some(())),
        Completion::Unproven(error) => Err(error),
        Completion::Stopped => Ok(None),
    }
}

// A file that is there whole or not at all, filled with bytes as they come, and read back before it gets its
// name where that is asked for.

/// Readable and writable by the owner only.
const PRIVATE: u32 = 0o600;

/// The end of a file that got everything.
pub enum Completion {
    /// It stands; `Some` if it was read back.
    Stands(Option<HashedFrom>),
    /// It is not on its medium as it was written.
    Unproven(Error),
    /// The run was to stop before that was known.
    Stopped,
}

/// A file on its way.
pub struct AtomicFile<'a> {
    context: Context<'a>,
    part: Part,
    /// Where it is to be.
    pub place: FilePlace,
    /// While it is open no other run takes the part file for one that was left.
    claim: Option<File>,
}

impl<'a> AtomicFile<'a> {
    /// Begins it. Without a name where that can be, because then it cannot be taken for something that a
    /// killed run left behind.
    pub fn begin(context: &Context<'a>, place: FilePlace) -> Result<Self> {
        let replaces = place.there.is_some();
        let mut context = *context;
        let dir = place.dir.handle.as_ref();
        // What is read back is opened anew.
        context.options.nameless = !replaces
            && !context.options.asked.verify
            && dir.is_some_and(|dir| dir.can_publish_nameless(PartOwner::default()));
        // Its owner's alone until it is complete.
        let stat = Stat { mode: PRIVATE, ..place.coming };
        let mut part = Part::create_claimed(&context.options, &target_of(&place, stat))?;
        if let (Cache::Drop, Some(dir)) = (context.options.asked.cache, dir) {
            part.spare(CachePolicy::of(dir));
        }
        let keep = |error| Error::io("keep locked the part file of", place.path(), error);
        let claim = match part.file().and_then(|file| sys::keep_locked(file).map_err(keep)) {
            Ok(claim) => claim,
            Err(error) => return Err(part.discard(error)),
        };
        Ok(Self { context, part, place, claim })
    }

    pub fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.part.write(bytes)
    }

    /// Lets `moving` append at most `most` bytes.
    pub fn take(
        &mut self,
        most: u64,
        moving: impl FnOnce(&File, u64) -> io::Result<Spliced>,
    ) -> Result<Spliced> {
        let mut spliced = Spliced::NotHere;
        self.part.take_by(most, |part, most| {
            let moved = moving(part.file()?, most);
            spliced = moved.deed_at("copy to", || part.path())?;
            Ok(match spliced {
                Spliced::Bytes(bytes) => Some(bytes),
                Spliced::Wait | Spliced::NotHere => None,
            })
        })?;
        Ok(spliced)
    }

    /// It is complete: makes it durable, reads it back if that is asked for, and gives it its name, `before`
    /// that being the last thing done. What could not be set of it is told in `warnings`.
    pub fn finish(
        self,
        content: Option<&StreamContent>,
        before: impl FnOnce() -> Result<()>,
        warnings: &mut Vec<Error>,
    ) -> Result<Completion> {
        let Self { context, part, place, claim } = self;
        let digest = content.map(|content| content.digests.proof);
        let chain = content.and_then(|content| content.chain.as_ref());
        if let Err(error) = place.refuse_moved() {
            return Err(part.discard(error));
        }
        // Only of what has a digest there is something to compare.
        let verify = context.options.asked.verify && digest.is_some();
        // Where finishing gives it its name, this is the last moment before.
        let names = context.options.nameless || context.options.durability == Durability::Off;
        let mut before = Some(before);
        if let Some(before) = before.take_if(|_| names)
            && let Err(error) = before()
        {
            return Err(part.discard(error));
        }
        let stat = match part.stat() {
            Ok(now) => attributes(now, &place),
            Err(error) => return Err(part.discard(error)),
        };
        let Context { options, control, .. } = &context;
        let target = target_of(&place, stat);
        let completed = part.finish(options, control, &target, &Attributes::default(), warnings)?;
        let mut proof = None;
        if let Complete { part: Some((part, made)), method, .. } = completed {
            let written = WrittenPart { part, made, digest, method };
            // What came cannot be had once more.
            let mut file = PendingPublish { source: None, target, written };
            if verify {
                let checked = ReadBackVerifier::new(&context).knowing(chain).verify(file);
                warnings.extend(checked.warnings);
                match checked.verdict {
                    ReadBackVerdict::Good(good, _) => proof = Some(good),
                    ReadBackVerdict::Bad(error) | ReadBackVerdict::Unlike(error) => {
                        return Ok(Completion::Unproven(error));
                    }
                    ReadBackVerdict::Failed(error) => return Err(error),
                    ReadBackVerdict::Abandoned => return Ok(Completion::Stopped),
                }
                file = checked.file;
            }
            let CopyTarget { output, replaces, .. } = &file.target;
            let done = before.map_or(Ok(()), |before| before());
            let done = done.and_then(|()| {
                let WrittenPart { part, made, .. } = &file.written;
                part::publish(output, part, made, &place.name, *replaces)
            });
            done.map_err(|error| file.discard(error))?;
        }
        drop(claim);
        if context.options.durability != Durability::Off {
            let durable = place.dir.persist();
            durable.deed_at("make durable the name of", || place.path())?;
        }
        let still = place.refuse_moved();
        still.map_err(|moved| {
            moved.with_note("; the file itself is complete, in the other place")
        })?;
        Ok(Completion::Stands(proof))
    }

    /// Removes it because of `error`, which is returned.
    pub fn discard(self, error: Error) -> Error {
        self.part.discard(error)
    }

    /// Removes it because the run is to stop; returns what stays behind.
    pub fn abandon(self) -> Vec<Error> {
        let mut stays = Vec::new();
        self.part.abandon(&mut stays);
        stays
    }
}

/// Where the file is to stand, with these attributes.
fn target_of(place: &FilePlace, stat: Stat) -> CopyTarget {
    let entry = SourceEntry { name: place.name.as_os_str().into(), stat };
    let (output, replaces) = (Arc::clone(&place.dir), place.there.is_some());
    CopyTarget { output, entry, replaces, labelled: true }
}

/// The metadata of the finished file: those of any that is made now, or of the one whose place it takes, whose access
/// list it does not get. Where another user may have given the name to that one it only closes: the new one is no more
/// open than either.
fn attributes(now: Stat, place: &FilePlace) -> Stat {
    let new = sys::new_file_mode();
    match (&place.there, &place.dir.handle) {
        (Some(there), Some(dir)) if there.kind == now.kind => {
            let mode = dir.mode_without_list(&place.name, there);
            match dir.keeps_names_by_path() {
                Ok(true) => Stat { mode, uid: there.uid, gid: there.gid, ..now },
                _ if there.gid == now.gid => Stat { mode: mode & new, ..now },
                // Of two groups, neither gets more than both had.
                _ => {
                    let both = mode >> 3 & mode & 0o007;
                    Stat { mode: (mode & !0o077 | both << 3 | both) & new, ..now }
                }
            }
        }
        _ => Stat { mode: new, ..now },
    }
}
