//! The disks of a span: each has a number, and is known by the secret of its private directory, wherever it is mounted.

use std::{io, path::Path, path::PathBuf, sync::Arc};

use serde::{Deserialize, Serialize};

use crate::{
    copy::CopyJob, copy::OutputJob, copy::Prepared, copy::before::check,
    copy::before::check::DiskDemands, copy::before::check::Opened, error::Deed, error::Error,
    error::Result, event::Event, hash::Algorithm, io::CopyOptions, manifest::ManifestName,
    path::Shown, span::SPAN, span::SpanDisk, span::called, span::in_words, span::memory::Memory,
    staged::moved, state::FinishedManifest, state::Missing, state::Note, state::PrivateDir,
    state::SourceMark, state::notes::is_top, state::notes::top_of, state::record::numbers, sys,
    sys::Dir, sys::DirListing, sys::Durable, sys::FreeSpace, sys::ListedEntry, sys::NoOwnMount,
    tree::OutputDir, tree::Patience,
};

/// Why a disk may not stay away.
pub const FORGOTTEN: &str = "it is not here, and nothing on this machine remembers what it has now: connect all disks of the span at once";

/// Why a disk with a name that is wanted is not taken.
const OTHER_SOURCE: &str = "a run of yours copied another source there, and it is no disk of this span: connect the \
                            right one, or, to fill this one up, name it by its place";

/// What is told where a span begins whose other disks are to come, …
const BEGINS: &str = "a new span begins here: neither this machine nor a disk that is here knows of one of this source; if there are \
                      disks of one, stop, and connect all of these at once before any new one";

/// … and of a disk of another one.
const JOINS: &str = "it was of another span of this source, and is of this one from now on";

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
    /// Number of files that were on no disk yet.
    #[serde(default)]
    pub waiting: u64,
    /// By what its digests are; not in notes of earlier versions.
    #[serde(default)]
    pub algorithm: Option<Algorithm>,
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
    /// The kind of its file system, and where that was mounted if not at the top of all directories.
    #[serde(default)]
    pub kind: Option<String>,
    #[serde(default)]
    pub top: Option<String>,
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

    /// What is told of a disk that takes the place of this one.
    fn replaced(&self, number: usize) -> String {
        format!(
            "it takes the place of {}, which is not here, and gets what was on that: {}",
            self.words(number),
            in_words(self.files)
        )
    }
}

/// A disk before a run.
pub struct Disk {
    pub number: usize,
    /// Its place among the outputs.
    pub output: usize,
    pub path: PathBuf,
    pub dir: Arc<OutputDir>,
    /// Its directory, or the one that this is to be made in: while it is open no other file system has its device.
    at: Dir,
    pub dev: u64,
    pub free: FreeSpace,
    /// True if a run copied there before, or began to; …
    pub was_used: bool,
    /// … and if the last one did not come to its end.
    pub was_cut_short: bool,
    /// True if the last run there copied this source; `None` if that is not known.
    is_of_source: Option<bool>,
    /// True if it has a private directory.
    is_private: bool,
    /// By what it is known, and what it noted.
    pub name: Option<String>,
    pub note: Option<SpanNote>,
}

/// A disk that is not here and may come later.
pub struct AbsentDisk {
    pub number: usize,
    pub output: usize,
    /// As the index had it last; with no name if no run was there.
    pub member: Member,
    /// True if a run began to copy there and did not come to its end.
    pub is_begun: bool,
    /// The room that it had last, as far as it is known; bytes.
    pub room: u64,
}

/// All disks of a span that are given, by their numbers.
pub struct Disks {
    pub each: Vec<Disk>,
    pub absent: Vec<AbsentDisk>,
    /// What was noted last, if anything was.
    pub noted: Option<SpanNote>,
    /// The numbers of those whose place others took.
    pub replaced: Vec<usize>,
    /// What is to be told of disks, each by its place among the outputs.
    news: Vec<(usize, String)>,
    pub memory: Option<Memory>,
    /// True if disks may come later, so that there is to be a memory.
    pub is_to_remember: bool,
    /// The names by which they are given, by their numbers.
    pub given: Vec<Option<String>>,
}

/// By what the disk of this private directory is known, if a run was there.
pub fn name_of(private: &PrivateDir) -> Option<String> {
    let secret = private.known_secret().ok().flatten()?;
    Some(secret.of_receipts().to_string())
}

/// True if the disk of this directory is called as `name` begins: it may have been taken out since it was found by
/// that.
pub fn is_called(dir: &Dir, name: &str) -> bool {
    let details = sys::volume_details(dir);
    let label = details.label.and_then(|label| label.into_string().ok());
    let ends = |rest: &str| rest.is_empty() || rest.starts_with(std::path::is_separator);
    let begins = |kind: &str, value: Option<String>| {
        let (Some(value), Some(rest)) = (value, name.strip_prefix(kind)) else { return false };
        let split = rest.split_at_checked(value.len());
        split.is_some_and(|(own, rest)| own.eq_ignore_ascii_case(&value) && ends(rest))
    };
    begins("LABEL=", label) || begins("UUID=", details.uuid)
}

/// The manifests that are there, also those that no run finished.
pub fn lists_in(root: &Dir) -> io::Result<Vec<ManifestName>> {
    let name = |entry: io::Result<ListedEntry>| {
        entry.map(|entry| ManifestName::parse(&entry.name)).transpose()
    };
    DirListing::of(root)?.filter_map(name).collect()
}

/// True if a manifest is there that no run finished.
fn has_begun_list(root: &Dir) -> bool {
    lists_in(root).is_ok_and(|lists| lists.iter().any(|it| !it.is_finished()))
}

impl Disk {
    fn open(given: &SpanDisk<'_>, output: usize, patience: Patience<'_>) -> Result<Self> {
        let job = &CopyJob { is_of_span: true, ..given.output.job.clone() };
        let path = &job.output;
        let Prepared { source, output: dir, parent, .. } = job.prepare(true, patience)?;
        let refuse = |finding: &'static str| Error::finding(SPAN, path, finding);
        let own = dir.handle.as_ref().map(Dir::try_clone).transpose().deed("look at", path)?;
        let at = own.or(parent).ok_or_else(|| refuse("it cannot be opened"))?;
        if given.name.is_some_and(|name| !is_called(&at, name)) {
            return Err(refuse("its disk was taken out: another file system is there now"));
        }
        let dev = at.identity().deed("look at", path)?.dev;
        let free = sys::room(&at).deed("look at", path)?;
        let private = match &dir.handle {
            Some(root) => PrivateDir::open(root, path, job.state.as_deref(), Missing::Leave)?,
            None => None,
        };
        let note = private.as_ref().and_then(SpanNote::read);
        if given.name.is_none() && note.is_none() && check::lacks_disk(path) {
            return Err(refuse("no disk is mounted there: mount it, or name another directory"));
        }
        let is_begun = |private: &PrivateDir| !numbers(private.dir()).is_ok_and(|it| it.is_empty());
        let was_cut_short = private.as_ref().is_some_and(is_begun)
            || dir.handle.as_ref().is_some_and(has_begun_list);
        let mark = private.as_ref().and_then(SourceMark::read).filter(SourceMark::is_known);
        let is_finished = |private: &PrivateDir| FinishedManifest::last_named(private).is_some();
        Ok(Self {
            number: 0,
            output,
            path: path.clone(),
            at,
            dev,
            free,
            was_used: was_cut_short || private.as_ref().is_some_and(is_finished),
            was_cut_short,
            is_of_source: mark.map(|mark| mark.is_of(&source.handle)),
            is_private: private.is_some(),
            name: private.as_ref().and_then(name_of),
            note,
            dir,
        })
    }
}

impl SpanNote {
    /// True if both have a disk.
    pub fn shares(&self, other: &Self) -> bool {
        let has = |name: &String| other.members.iter().any(|it| it.name == *name);
        self.members.iter().any(|it| !it.name.is_empty() && has(&it.name))
    }
}

impl AbsentDisk {
    /// True if nothing was copied there yet, so that all of its room is left.
    pub fn is_new(&self) -> bool {
        self.member.name.is_empty()
    }

    pub fn words(&self) -> String {
        self.member.words(self.number)
    }
}

impl Disks {
    /// Refuses digests of another algorithm than the last index has of disks that are not here: one index has one kind.
    ///
    /// # Errors
    /// They are others.
    pub fn refuse_other_digests(&self, job: &CopyJob) -> Result<()> {
        let noted = self.noted.as_ref().and_then(|noted| noted.algorithm);
        let absent = self.absent.iter().find(|it| !it.is_new());
        match noted.zip(absent).filter(|(before, _)| *before != job.options.algorithm) {
            Some((before, absent)) => {
                let finding = format!(
                    "it is not here, and the digests of its files are by {}: give --hash {}, or connect all disks",
                    before.shown(),
                    before.name()
                );
                Err(Error::finding(SPAN, absent.words(), finding))
            }
            None => Ok(()),
        }
    }

    /// Opens the disks that are here, and gives each its number.
    ///
    /// # Errors
    /// One cannot be opened, or is no disk of its own; or they are not those of one span.
    pub fn open(given: &[SpanDisk<'_>], patience: Patience<'_>) -> Result<Self> {
        let Some(job) = given.first().map(|disk| disk.output.job) else {
            return Err(Error::finding(SPAN, "no disk", "none is given"));
        };
        let is_to_remember = Memory::is_wanted(job, given)?;
        let mut memory = if is_to_remember { Memory::find(job, given, patience)? } else { None };
        let mut here = Vec::new();
        for (output, disk) in given.iter().enumerate().filter(|(_, disk)| disk.is_here) {
            let disk = Disk::open(disk, output, patience)?;
            if let Some(other) = here.iter().find(|it: &&Disk| it.dev == disk.dev) {
                let finding =
                    format!("it is on the same file system as {}", Shown::path(&other.path));
                return Err(Error::finding(SPAN, &disk.path, finding));
            }
            here.push(disk);
        }
        let remembered = memory.as_ref().and_then(|memory| SpanNote::read(&memory.private));
        let newest = |notes: &mut dyn Iterator<Item = &SpanNote>| {
            notes.max_by_key(|note| note.version).cloned()
        };
        if remembered.is_none() {
            here.iter().try_for_each(Disk::refuse_other_source)?;
        }
        let notes = || here.iter().filter_map(|disk| disk.note.as_ref()).chain(&remembered);
        // Disks of another span say nothing of the one that is remembered.
        let span = remembered.clone().or_else(|| newest(&mut notes()));
        let of_span = |note: &&SpanNote| span.as_ref().is_some_and(|span| note.shares(span));
        let noted = newest(&mut notes().filter(of_span)).or(span);
        let members = noted.as_ref().map_or(&[][..], |noted| &noted.members);
        let mut news = Vec::new();
        for disk in here.iter().filter(|disk| !members.iter().any(|member| disk.is(member))) {
            let is_other = |note: &&SpanNote| !noted.as_ref().is_some_and(|it| note.shares(it));
            if let Some(note) = disk.note.as_ref().filter(is_other) {
                let fresh = here.iter().filter(|disk| disk.is_fresh() && here.len() == given.len());
                let joining = disk.joining(note, &here, fresh)?.into_iter();
                let joining: Vec<_> = joining.filter(|it| !news.contains(it)).collect();
                news.extend(joining);
            }
        }
        let versions = remembered.as_ref().zip(noted.as_ref());
        if let (Some(memory), Some((then, now))) = (&mut memory, versions) {
            // What a run that was killed left may be newer than what it remembered.
            memory.is_outdated = now.version > then.version && memory.series.begun.is_empty();
        }
        let is_first = noted.is_none() && memory.is_none() && is_to_remember;
        let begun = here.first().filter(|_| is_first && here.len() < given.len());
        news.extend(begun.map(|disk| (disk.output, BEGINS.to_owned())));
        if let Some(noted) = noted.as_ref().filter(|_| !is_to_remember && !job.dry_run) {
            Memory::forget(noted)?;
        }
        Numbering { given, here, noted, memory, is_to_remember, news }.apply()
    }

    /// Sees to it that each disk can have a private directory, and that those that are there have one: nothing else
    /// says which disk it is.
    ///
    /// # Errors
    /// One can have none. Nothing was made on any.
    pub fn need_private(&mut self, job: &CopyJob) -> Result<()> {
        let job = &CopyJob { is_of_span: true, ..job.clone() };
        let needed = |error: Error| error.with_note(job.needs_private().unwrap_or_default());
        for Disk { at, path, is_private, .. } in &self.each {
            if !is_private && job.state.is_none() {
                PrivateDir::try_to_make(at, path).map_err(needed)?;
            }
        }
        for Disk { dir, path, name, .. } in &mut self.each {
            let Some(root) = &dir.handle else { continue };
            let private = PrivateDir::open(root, path, job.state.as_deref(), Missing::Make)
                .map_err(needed)?;
            if let Some(private) = private.filter(|_| self.is_to_remember) {
                private.secret(job.options.sync).deed("make the private directory", &*path)?;
                *name = name_of(&private);
            }
        }
        Ok(())
    }

    /// Tells which of the `given` disks take the place of others, or come from another span, and if one begins.
    pub fn tell_news(&self, given: &[SpanDisk<'_>]) {
        for (output, text) in &self.news {
            let SpanDisk { output: OutputJob { job, observer }, is_here, .. } = given[*output];
            let path = if is_here { &job.output } else { given[*output].called() };
            (observer.listen)(&Event::Limits(path, text));
        }
    }
}

/// The disks while they get their numbers.
struct Numbering<'a> {
    given: &'a [SpanDisk<'a>],
    here: Vec<Disk>,
    noted: Option<SpanNote>,
    memory: Option<Memory>,
    is_to_remember: bool,
    news: Vec<(usize, String)>,
}

impl Numbering<'_> {
    /// Which of the given disks has which number: by what it is known, then by the name it was given by, and then in
    /// the place of one that is not given, or as a new one.
    fn outputs(&self) -> Vec<Option<usize>> {
        let members = self.noted.as_ref().map_or(&[][..], |noted| &noted.members);
        let called = self.memory.as_ref().map_or(&[][..], |memory| &memory.series.given);
        let mut numbers: Vec<Option<usize>> = vec![None; members.len().max(called.len())];
        let mut left: Vec<usize> = (0..self.given.len()).collect();
        for (number, member) in members.iter().enumerate() {
            let disk = self.here.iter().find(|disk| disk.is(member));
            numbers[number] = disk.map(|disk| disk.output);
        }
        left.retain(|output| !numbers.contains(&Some(*output)));
        for (number, name) in called.iter().enumerate().filter(|(_, name)| name.is_some()) {
            let is_it = |output: &usize| self.given[*output].name == name.as_deref();
            if numbers[number].is_none()
                && let Some(at) = left.iter().position(is_it)
            {
                numbers[number] = Some(left.remove(at));
            }
        }
        let mut left = left.into_iter();
        numbers.iter_mut().filter(|it| it.is_none()).for_each(|it| *it = left.next());
        numbers.extend(left.map(Some));
        numbers
    }

    fn apply(mut self) -> Result<Disks> {
        let outputs = self.outputs();
        let (mut each, mut absent, mut replaced) = (Vec::new(), Vec::new(), Vec::new());
        let (mut given, series) = (Vec::new(), self.memory.as_ref().map(|it| it.series.clone()));
        let series = series.unwrap_or_default();
        for (number, output) in outputs.into_iter().enumerate() {
            let known = self.noted.as_ref().and_then(|noted| noted.members.get(number)).cloned();
            let Some(output) = output else {
                let known = known.unwrap_or_default();
                let finding = format!(
                    "it is of this span and is not given: name it too, or in its place a new disk, to which what was on \
                     it is copied; it has {}",
                    in_words(known.files)
                );
                return Err(Error::finding("do without", known.words(number), finding));
            };
            let name = self.given[output].name.map(str::to_owned);
            let is_same_name = name.is_some() && series.given.get(number) == Some(&name);
            given.push(name);
            let known = known.filter(|member| !member.name.is_empty());
            if let Some(at) = self.here.iter().position(|disk| disk.output == output) {
                let disk = Disk { number, ..self.here.remove(at) };
                let name = series.names.get(&number);
                let is_begun = series.begun.contains(&number)
                    && name.is_none_or(|name| disk.name.as_ref() == Some(name));
                let is_it = known.as_ref().is_some_and(|member| disk.is(member));
                if let Some(member) = known.as_ref().filter(|_| !is_it) {
                    let has_its_name = is_same_name && !is_begun;
                    disk.refuse_in_place_of(member, given[number].is_some(), has_its_name)?;
                    replaced.push(number);
                    self.news.push((output, member.replaced(number)));
                }
                let has_other = given[number].is_some() && disk.is_of_source == Some(false);
                if has_other && !is_begun && !is_it {
                    return Err(Error::finding(SPAN, &disk.path, OTHER_SOURCE));
                }
                each.push(disk);
                continue;
            }
            if let Some(member) = known.as_ref().filter(|_| !is_same_name) {
                if series.given.get(number).is_none_or(Option::is_none) {
                    return Err(Error::finding(SPAN, member.words(number), FORGOTTEN));
                }
                replaced.push(number);
                self.news.push((output, member.replaced(number)));
            }
            let path = self.given[output].called().to_string_lossy().into_owned();
            let member = known.filter(|_| is_same_name);
            let member = member.unwrap_or_else(|| Member { path, ..Member::default() });
            let is_begun = is_same_name && series.begun.contains(&number);
            let room = series.room.get(&number).copied().filter(|_| !member.name.is_empty());
            let room = room.unwrap_or(u64::MAX);
            absent.push(AbsentDisk { number, output, member, is_begun, room });
        }
        let Self { noted, memory, is_to_remember, news, .. } = self;
        Ok(Disks { each, absent, noted, replaced, news, memory, is_to_remember, given })
    }
}

impl Disk {
    /// True if it is this one.
    pub fn is(&self, member: &Member) -> bool {
        self.name.as_ref() == Some(&member.name)
    }

    /// Its directory, which may have been made since.
    ///
    /// # Errors
    /// It cannot be opened, or its disk is there no more: what is below its place then is no disk of the span.
    pub fn root(&self) -> Result<Dir> {
        let root = Dir::open_named(&self.path).deed("open the output", &self.path)?;
        self.need_to_hold(&root).map(|()| root)
    }

    /// Its directory for a copy with these options, if it is there; one that is to be made is made on this disk.
    ///
    /// # Errors
    /// The same, or it is not as the options demand.
    pub fn to_copy_to(&self, options: &CopyOptions) -> Result<Option<Arc<Dir>>> {
        let opened = check::open(&self.path, DiskDemands::of_run(options, false))?;
        self.need_to_hold(opened.dir())?;
        Ok(match opened {
            Opened::There(root) => Some(Arc::new(root)),
            Opened::Parent(_) => None,
        })
    }

    fn need_to_hold(&self, dir: &Dir) -> Result<()> {
        let is_on_it = dir.identity().deed("look at", &self.path)?.dev == self.dev;
        is_on_it.then_some(()).ok_or_else(|| moved(&self.path))
    }

    /// Refuses a disk of the span of another source: only its own source tells which span is meant where nothing is
    /// remembered, and what is on it would be taken for copies.
    fn refuse_other_source(&self) -> Result<()> {
        if self.note.is_none() || self.is_of_source != Some(false) {
            return Ok(());
        }
        let finding = "it is of the span of another source, and stays as it is: connect the right disk; if the source was \
                       moved, remove .dircopy/source there";
        Err(Error::finding(SPAN, &self.path, finding))
    }

    /// True if no run of this user was there.
    fn is_fresh(&self) -> bool {
        self.note.is_none() && !self.was_used
    }

    /// What is told of a disk of another span, which joins. It is refused but where all of that are among those `here`,
    /// or a fresh one for each that is not, and have copies of this source: so nothing that they have is forgotten, and
    /// none of it is copied twice, unless the user says so by naming another disk in its place.
    fn joining<'a>(
        &self,
        note: &SpanNote,
        here: &[Self],
        mut fresh: impl Iterator<Item = &'a Self>,
    ) -> Result<Vec<(usize, String)>> {
        let refuse = |finding: String| Err(Error::finding(SPAN, &self.path, finding));
        if self.is_of_source != Some(true) {
            let finding = "it is of another span than the others that are given; if no file was copied to it, it can be \
                           formatted and named as a new one";
            return refuse(finding.into());
        }
        let is_missing = |(_, it): &(usize, &Member)| {
            !it.name.is_empty() && !here.iter().any(|disk| disk.is(it))
        };
        let mut news = vec![(self.output, JOINS.to_owned())];
        for (number, member) in note.members.iter().enumerate().filter(is_missing) {
            let words = member.words(number);
            let Some(disk) = fresh.next() else {
                return refuse(format!(
                    "it is of another span of this source: connect all disks of that at once, and they join this one; {words} \
                     is not here: if it is lost, name a new disk in its place, and only disks that are here"
                ));
            };
            news.push((
                disk.output,
                format!(
                    "it stands for {words}, of another span of this source, which is not here: what was on that, and is on \
                     no other disk, is copied anew"
                ),
            ));
        }
        Ok(news)
    }

    /// Refuses to take it for a new one in the place of another that is not here. It may be called as that was.
    fn refuse_in_place_of(
        &self,
        member: &Member,
        is_named: bool,
        has_its_name: bool,
    ) -> Result<()> {
        let words = member.words(self.number);
        let is_of_system = matches!(sys::no_own_mount(&self.at), Ok(Some(NoOwnMount::System)));
        // Where it was mounted, nothing is, or what is lost with the power.
        let is_at_its_place = !is_named && path_of(&self.path) == member.path;
        let is_unmounted = member.top.as_ref().is_some_and(|top| !is_top(Path::new(top)));
        let is_lasting = !matches!(sys::durable(&self.at), Durable::Unknown(_));
        let is_other = |kind| sys::volume_details(&self.at).file_system.as_ref() != Some(kind);
        let is_in_memory = !is_lasting && member.kind.as_ref().is_some_and(is_other);
        let finding = match () {
            () if is_of_system || is_at_its_place && is_unmounted => format!(
                "no disk is mounted there, and {words} is not here: connect it, or name a new disk in its place"
            ),
            () if is_at_its_place && is_in_memory => format!(
                "what is mounted there is no disk, and {words} is not here: connect it, or name a new disk in its place"
            ),
            () if has_its_name && self.was_used => format!(
                "it is not {words}, though it is called as that was, and runs of yours copied something else there: connect \
                 the right one, or give this one another name"
            ),
            () => return Ok(()),
        };
        Err(Error::finding(SPAN, &self.path, finding))
    }
}

/// The disk at `path`, whose root is open, as the others are to know it.
pub fn member_of(root: &Dir, path: &Path, name: String, files: u64) -> Member {
    let details = sys::volume_details(root);
    let label = details.label.map(|label| label.to_string_lossy().into_owned());
    let top = top_of(path).and_then(|top| top.into_os_string().into_string().ok());
    let (uuid, kind) = (details.uuid, details.file_system);
    Member { name, path: path_of(path), label, uuid, kind, top, files }
}

/// The path that a disk is known by in words.
fn path_of(path: &Path) -> String {
    let full = path.canonicalize().or_else(|_| std::path::absolute(path));
    full.as_deref().unwrap_or(path).to_string_lossy().into_owned()
}
