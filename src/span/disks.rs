//! The disks of a span: each has a number, and is known by the secret of its private directory, wherever it is mounted.

use std::{collections::HashSet, ffi::OsStr, path::Path, path::PathBuf, sync::Arc};

use serde::{Deserialize, Serialize};

use crate::{
    copy::CopyJob, copy::Prepared, error::Deed, error::Error, error::Result, event::Event,
    event::EventObserver, manifest::ManifestName, path::Shown, span::SPAN, span::called,
    span::in_words, state::FinishedManifest, state::Missing, state::Note, state::PrivateDir,
    state::record::numbers, sys, sys::Dir, sys::DirListing, sys::FreeSpace, sys::NoOwnMount,
    sys::stat::Identity, tree::OutputDir, tree::Patience,
};

/// The remedy where there can be no private directory.
const NEEDS_IT: &str = "; --span needs it (--state DIR keeps it elsewhere)";

/// What each disk notes of its span. All have the same when a run is at its end.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SpanNote {
    /// The highest is the newest.
    pub version: u64,
    /// The disks, by their numbers.
    pub members: Vec<Member>,
    /// The name of the index, and its SHA-256.
    pub index: String,
    pub digest: String,
}

/// A disk as the others know it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Member {
    /// By this it is known again.
    pub name: String,
    /// Where it was.
    pub path: String,
    pub label: Option<String>,
    pub uuid: Option<String>,
    /// Number of files that the index has there.
    pub files: u64,
}

impl Note for SpanNote {
    const FILE: &str = "span";
    const HEAD: &str = "dircopy span 1";
}

impl Member {
    /// The disk with this number, in words.
    pub fn words(&self, number: usize) -> String {
        let of = |what: &str, value: &Option<String>| match value {
            Some(value) => format!(", {what} {}", Shown::bytes(value.as_bytes())),
            None => String::new(),
        };
        let disk = called(number, Path::new(&self.path));
        format!("{disk}{}{}", of("label", &self.label), of("UUID", &self.uuid))
    }
}

/// A disk before a run.
pub struct Disk {
    /// Its place among the outputs.
    pub output: usize,
    pub path: PathBuf,
    pub dir: Arc<OutputDir>,
    pub id: Identity,
    pub free: FreeSpace,
    /// True if a run copied there before, or began to; …
    pub was_used: bool,
    /// … and if the last one did not come to its end.
    pub was_cut_short: bool,
    /// True if no disk is mounted there.
    is_of_system: bool,
    /// By what it is known, and what it noted.
    pub name: Option<String>,
    pub note: Option<SpanNote>,
}

/// All disks of a span, by their numbers.
pub struct Disks {
    pub each: Vec<Disk>,
    /// What was noted last, if anything was.
    pub noted: Option<SpanNote>,
    /// The numbers of those that took the place of others, which are not here.
    pub replaced: Vec<usize>,
}

/// By what the disk of this private directory is known, if a run was there.
pub fn name_of(private: &PrivateDir) -> Option<String> {
    let secret = private.known_secret().ok().flatten()?;
    Some(secret.of_receipts().to_string())
}

/// True if a manifest is there that no run finished.
fn has_begun_list(root: &Dir) -> bool {
    let is_begun = |name: &OsStr| ManifestName::parse(name).is_some_and(|it| !it.is_finished());
    let listed = DirListing::of(root).into_iter().flatten().map_while(std::io::Result::ok);
    listed.into_iter().any(|entry| is_begun(&entry.name))
}

impl Disk {
    fn open(job: &CopyJob, output: usize, patience: Patience<'_>) -> Result<Self> {
        let path = &job.output;
        let Prepared { output: dir, parent, .. } = job.prepare(true, patience)?;
        let at = dir.handle.as_ref().or(parent.as_ref());
        let at = at.ok_or_else(|| Error::finding(SPAN, path, "it cannot be opened"))?;
        let (id, free) = (at.identity().deed("look at", path)?, sys::room(at));
        let free = free.deed("look at", path)?;
        let private = match &dir.handle {
            Some(root) => PrivateDir::open(root, path, job.state.as_deref(), Missing::Leave)?,
            None => None,
        };
        let is_begun = |private: &PrivateDir| !numbers(private.dir()).is_ok_and(|it| it.is_empty());
        let was_cut_short = private.as_ref().is_some_and(is_begun)
            || dir.handle.as_ref().is_some_and(has_begun_list);
        let is_finished = |private: &PrivateDir| FinishedManifest::last_named(private).is_some();
        Ok(Self {
            output,
            path: path.clone(),
            id,
            free,
            was_used: was_cut_short || private.as_ref().is_some_and(is_finished),
            was_cut_short,
            is_of_system: matches!(sys::no_own_mount(at), Ok(Some(NoOwnMount::System))),
            name: private.as_ref().and_then(name_of),
            note: private.as_ref().and_then(SpanNote::read),
            dir,
        })
    }
}

impl Disks {
    /// Opens the disks, and gives each its number.
    ///
    /// # Errors
    /// One cannot be opened, or is no disk of its own; or they are not those of one span.
    pub fn open(jobs: &[CopyJob], patience: Patience<'_>) -> Result<Self> {
        let mut given = Vec::new();
        for (output, job) in jobs.iter().enumerate() {
            let disk = Disk::open(job, output, patience)?;
            if let Some(other) = given.iter().find(|it: &&Disk| it.id.dev == disk.id.dev) {
                let finding =
                    format!("it is on the same file system as {}", Shown::path(&other.path));
                return Err(Error::finding(SPAN, &disk.path, finding));
            }
            given.push(disk);
        }
        let noted = given.iter().filter_map(|disk| disk.note.as_ref());
        let Some(noted) = noted.max_by_key(|note| note.version).cloned() else {
            return Ok(Self { each: given, noted: None, replaced: Vec::new() });
        };
        let names: HashSet<&str> = noted.members.iter().map(|it| &*it.name).collect();
        let is_known = |name: &String| names.contains(&**name);
        for disk in &given {
            let is_member = disk.name.as_ref().is_some_and(is_known);
            let shares = |note: &SpanNote| note.members.iter().any(|it| is_known(&it.name));
            if !is_member && disk.note.as_ref().is_some_and(|note| !shares(note)) {
                let finding = "it is of another span than the others that are given";
                return Err(Error::finding(SPAN, &disk.path, finding));
            }
        }
        Self::number(given, noted)
    }

    /// Gives each disk the number that it has, and the others those of disks that are not here, or new ones.
    fn number(mut given: Vec<Disk>, noted: SpanNote) -> Result<Self> {
        let mut places: Vec<Option<Disk>> = noted.members.iter().map(|_| None).collect();
        for (place, member) in places.iter_mut().zip(&noted.members) {
            let at = given.iter().position(|disk| disk.name.as_ref() == Some(&member.name));
            *place = at.map(|at| given.remove(at));
        }
        let (mut replaced, mut new) = (Vec::new(), given.into_iter());
        for (number, place) in places.iter_mut().enumerate().filter(|(_, place)| place.is_none()) {
            *place = new.next();
            replaced.push(number);
            if let Some(disk) = place.as_ref().filter(|disk| disk.is_of_system) {
                let finding = format!(
                    "no disk is mounted there, and {} is not here: connect it, or name a new disk in its place",
                    noted.members[number].words(number)
                );
                return Err(Error::finding(SPAN, &disk.path, finding));
            }
        }
        if let Some(number) = places.iter().position(Option::is_none) {
            let finding = format!(
                "it is of this span and is not given: name it too, or in its place a new disk, to which what was on it \
                 is copied; it has {}",
                in_words(noted.members[number].files)
            );
            let path = noted.members[number].words(number);
            return Err(Error::finding("do without", path, finding));
        }
        let each = places.into_iter().flatten().chain(new).collect();
        Ok(Self { each, noted: Some(noted), replaced })
    }

    /// Sees to it that each disk that is there has a private directory: nothing else says which one it is.
    ///
    /// # Errors
    /// One can have none.
    pub fn need_private(&self, job: &CopyJob) -> Result<()> {
        for Disk { dir, path, .. } in &self.each {
            let Some(root) = &dir.handle else { continue };
            PrivateDir::open(root, path, job.state.as_deref(), Missing::Make)
                .map_err(|error| error.with_note(NEEDS_IT))?;
        }
        Ok(())
    }

    /// Tells which disks take the place of others.
    pub fn tell_replaced(&self, observer: &EventObserver<'_>) {
        let members = self.noted.iter().flat_map(|noted| noted.members.iter().enumerate());
        for (number, member) in members.filter(|(number, _)| self.replaced.contains(number)) {
            let text = format!(
                "it takes the place of {}, which is not here, and gets what was on that: {}",
                member.words(number),
                in_words(member.files)
            );
            (observer.listen)(&Event::Limits(&self.each[number].path, &text));
        }
    }
}

/// The disk at `path`, whose root is open, as the others are to know it.
pub fn member_of(root: &Dir, path: &Path, name: String, files: u64) -> Member {
    let details = sys::volume_details(root);
    let label = details.label.map(|label| label.to_string_lossy().into_owned());
    let path = path.canonicalize().unwrap_or_else(|_| path.to_path_buf());
    let path = path.to_string_lossy().into_owned();
    Member { name, path, label, uuid: details.uuid, files }
}
