//! The guess that source and output were exchanged: the source is an output of this user's runs, or a part of one, and
//! the output has the files that it was copied from.
//!
//! The private note of an output knows the directory that it was copied from exactly. Where source and output lie
//! below two directories by one way, those are asked too; and so are the directories in the source, which may be
//! outputs (a bag's payload, generations). But a note says nothing of an archive that was itself copied, or of a source
//! that was moved to another disk. There the manifests tell, also those of bags and of other users: the source has one,
//! what it lists is at the output too, and the output has none of its own.

use std::{ffi::OsStr, io, path::Path, path::PathBuf, sync::Arc, time::Instant};

use crate::copy::before::{cannot_look, check::Opened, is_inside, open_source};
use crate::{
    copy::CopyJob, copy::Counts, copy::Ending, copy::Report, error::Deed, error::Error,
    error::Result, event::Stop, io::CopyOptions, manifest::Entries, manifest::ManifestName,
    manifest::Parsed, manifest::archive::bag::DECLARATION, manifest::archive::bag::PAYLOAD,
    manifest::archive::bag::manifest_name, manifest::readers::ours, path::RelPath, path::Shown,
    state::DatedName, state::Missing, state::Mounts, state::Note, state::PrivateDir,
    state::PrivatePlace, state::SourceMark, state::kept::has_only_what_runs_keep,
    state::private_dir::NAME, sys::Cloned, sys::Dir, sys::DirListing, sys::ListedEntry,
    sys::name_from_bytes, sys::stat::Kind, sys::stat::Stat, tree::LastDir, tree::Policy,
    tree::SourceDir,
};

/// Number of lines of a manifest that are looked for at the output: one that is there is enough.
const LOOKED_FOR: usize = 1000;

/// Number of manifests of the source that are asked.
const MOST_MANIFESTS: usize = 20;

/// Number of directories above source and output that are asked.
const MOST_ABOVE: usize = 100;

/// Number of entries of the source that are asked.
const MOST_IN_SOURCE: usize = 1000;

/// One of both, opened.
#[derive(Clone, Copy)]
pub(super) struct Side<'a> {
    pub root: &'a Dir,
    pub path: &'a Path,
}

/// A directory that is asked.
struct Asked {
    dir: Dir,
    path: PathBuf,
}

/// Source and output, or the directories that lie as those do.
struct Counterparts {
    source: Asked,
    output: Asked,
}

/// Source and output.
pub(super) struct Exchange<'a> {
    pub source: Side<'a>,
    pub output: Side<'a>,
    /// Where the run has its private directory.
    pub place: PrivatePlace<'a>,
}

impl Exchange<'_> {
    /// True if the source was copied from the present output, and that is not a copy of the source. What is not this
    /// user's, or cannot be read, says nothing.
    pub fn is_likely(&self) -> bool {
        let asked = self.counterparts();
        if let Some(is_exchanged) = asked.iter().find_map(|both| self.is_noted(both)) {
            return is_exchanged;
        }
        if self.holds_a_copy_of_the_output().unwrap_or(false) {
            return true;
        }
        // In a bag, or a generation, there is nothing of the archive that it is a part of.
        let is_whole = matches!(self.place, PrivatePlace::InOutput | PrivatePlace::Among(_));
        // A run to it was on its way.
        let is_begun = |output: &Asked| {
            self.known_sources(output).is_empty()
                && output.private(PrivatePlace::InOutput).is_some()
        };
        is_whole
            && !asked.first().is_some_and(|both| is_begun(&both.output))
            && asked.iter().any(|Counterparts { source, output }| {
                !is_begun(output) && is_listed_in(source, &output.dir)
            })
    }

    /// Source and output, and what is above both as long as they have the same names there.
    fn counterparts(&self) -> Vec<Counterparts> {
        let first = self.source.asked().zip(self.output.asked());
        let above = |Counterparts { source, output }: &Counterparts| {
            let both = (source.path.file_name()? == output.path.file_name()?)
                .then(|| source.above().zip(output.above()))?;
            both.map(|(source, output)| Counterparts { source, output })
        };
        let first = first.map(|(source, output)| Counterparts { source, output });
        let mut all: Vec<Counterparts> = first.into_iter().collect();
        while let Some(next) = all.last().filter(|_| all.len() < MOST_ABOVE).and_then(above) {
            all.push(next);
        }
        all
    }

    /// True if a note tells that the source was copied from the output, and false if it was the other way. After
    /// something was brought back both are copies of each other; then the output knows the source.
    fn is_noted(&self, both: &Counterparts) -> Option<bool> {
        let Counterparts { source, output } = both;
        let is_from =
            |of: &Asked, dir: &Dir| self.known_sources(of).iter().any(|known| known.is_of(dir));
        match () {
            () if is_from(output, &source.dir) => Some(false),
            () if is_from(source, &output.dir) => Some(true),
            () => None,
        }
    }

    /// True if a directory in the source was copied from the output, or from the directory that it would be copied to.
    fn holds_a_copy_of_the_output(&self) -> io::Result<bool> {
        let (source, path) = (self.source.root, self.source.full_path());
        for entry in DirListing::of(source)?.take(MOST_IN_SOURCE) {
            let ListedEntry { name, kind, .. } = entry?;
            if kind.is_some_and(|kind| kind != Kind::Dir) {
                continue;
            }
            let Ok(dir) = source.open_dir(&name, false) else { continue };
            let inner = Asked { dir, path: path.join(&*name) };
            let is_one = |known: &SourceMark| {
                let counterpart = || self.output.root.open_dir(&name, false).ok();
                known.is_of(self.output.root) || counterpart().is_some_and(|it| known.is_of(&it))
            };
            if self.known_sources(&inner).iter().any(is_one) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// What was copied to the source, as far as that is noted.
    pub fn sources_of_source(&self) -> Vec<SourceMark> {
        self.source.asked().iter().flat_map(|source| self.known_sources(source)).collect()
    }

    /// The notes of the last complete run into a directory about its source, wherever this run keeps its records; and,
    /// of the payload of a bag, those in the bag.
    fn known_sources(&self, of: &Asked) -> Vec<SourceMark> {
        let elsewhere = Some(self.place).filter(|place| matches!(place, PrivatePlace::Among(_)));
        let places = || elsewhere.into_iter().chain([PrivatePlace::InOutput]);
        let bag = Some(of).filter(|of| of.path.ends_with(PAYLOAD)).and_then(Asked::above);
        let of_bag = bag.iter().flat_map(|bag| places().filter_map(|place| bag.private(place)));
        let of_payload = of_bag.filter_map(|bag| of.private(PrivatePlace::Within(&bag)));
        let own = places().filter_map(|place| of.private(place));
        own.chain(of_payload).filter_map(|private| SourceMark::read(&private)).collect()
    }
}

impl CopyJob {
    /// The same job, which leaves what differs, if the source is on another disk than that of the last complete copy
    /// here: two cards of one label number their files alike.
    pub(crate) fn of_another_disk(&self) -> Option<Self> {
        if self.options.policy != Policy::Default || self.shard.is_some() {
            return None;
        }
        let dir =
            self.held.as_ref().map_or_else(|| Dir::open(&self.output), |held| held.try_clone());
        let output = Asked { dir: dir.ok()?, path: self.output.clone() };
        let last = SourceMark::read(&output.private(self.private_place())?)?;
        let now = SourceMark::of(&open_source(&self.source).ok()?.0, Mounts::default());
        let is_other = now.root.is_surely_other_than(&last.root);
        let options = CopyOptions { policy: Policy::Apart, ..self.options.clone() };
        is_other.then(|| Self { options, ..self.clone() })
    }
}

impl Side<'_> {
    fn asked(self) -> Option<Asked> {
        Some(Asked { dir: self.root.try_clone().ok()?, path: self.full_path() })
    }

    /// Its path from the root of the system, or else the one that was given.
    fn full_path(&self) -> PathBuf {
        self.path.canonicalize().unwrap_or_else(|_| self.path.to_owned())
    }
}

impl Asked {
    /// The directory that it is in by its path.
    fn above(&self) -> Option<Self> {
        let (name, path) = (self.path.file_name()?, self.path.parent()?.to_owned());
        let dir = self.dir.parent().ok()?;
        let same = dir.open_dir(name, false).and_then(|it| it.identity()).ok()?;
        (same == self.dir.identity().ok()?).then_some(Self { dir, path })
    }

    fn private(&self, place: PrivatePlace<'_>) -> Option<PrivateDir> {
        PrivateDir::open_at(&self.dir, &self.path, place, Missing::Leave).ok().flatten()
    }
}

/// True if manifests tell that `source`, a generation in it, or the bag that it is a part of, is a copy of `output`.
fn is_listed_in(source: &Asked, output: &Dir) -> bool {
    let generations = || {
        let listing = source.dir.open_dir(".".as_ref(), false).and_then(|dir| DirListing::of(&dir));
        let names = listing.into_iter().flatten().flatten().map(|listed| listed.name);
        let is_one = |name: &Arc<OsStr>| name.to_str().and_then(DatedName::parse).is_some();
        names.take(MOST_IN_SOURCE).filter(is_one).take(MOST_MANIFESTS)
    };
    let is_generation = |name: Arc<OsStr>| {
        let dir = source.dir.open_dir(&name, false);
        dir.and_then(|dir| is_listed_by(&dir, output)).unwrap_or(false)
    };
    is_listed_by(&source.dir, output).unwrap_or(false)
        || is_bag_of(source, output).unwrap_or(false)
        || generations().any(is_generation)
}

/// True if a manifest in the root of `source` lists files in `output`, although that was no output of this user's runs:
/// it has none of these manifests, nor one of its own. Whose the manifests are does not matter: they are believed in so
/// far as nothing is done.
fn is_listed_by(source: &Dir, output: &Dir) -> io::Result<bool> {
    let is_file =
        |name: &String| source.stat(name.as_ref(), false).is_ok_and(|stat| stat.kind == Kind::File);
    let is_ours = |name: &ManifestName| {
        let name = name.to_string();
        let stat = output.stat(name.as_ref(), false);
        stat.is_ok_and(|stat| stat.kind == Kind::File && output.keeps(name.as_ref(), &stat))
    };
    let has = |name: &String| output.stat(name.as_ref(), false).is_ok();
    let names = ours(source, |_| false, None)?.into_iter().filter(ManifestName::is_finished);
    let names = names.map(|name| name.to_string()).filter(is_file);
    let names: Vec<String> = names.take(MOST_MANIFESTS).collect();
    let of_output = ours(output, |name| source.stat(name, false).is_ok(), None)?;
    if names.iter().any(has) || of_output.iter().any(is_ours) {
        return Ok(false);
    }
    // What one of them cannot tell, another may.
    Ok(names.iter().any(|name| lists_files_in(source, name, b"", output).unwrap_or(false)))
}

/// True if `source` is a bag, or the payload of one, and a manifest of that lists files in `output`, which is no bag.
fn is_bag_of(source: &Asked, output: &Dir) -> io::Result<bool> {
    let is_bag = |dir: &Dir| dir.stat(DECLARATION.as_ref(), false).is_ok();
    let above = source.path.ends_with(PAYLOAD).then(|| source.above()).flatten();
    let mut bags =
        [Some(&source.dir), above.as_ref().map(|above| &above.dir)].into_iter().flatten();
    let Some(bag) = bags.find(|dir| is_bag(dir)).filter(|_| !is_bag(output)) else {
        return Ok(false);
    };
    for entry in DirListing::of(&bag.open_dir(".".as_ref(), false)?)?.take(MOST_IN_SOURCE) {
        let name = entry?.name;
        let text = name.to_str().filter(|text| manifest_name(text).is_some());
        let payload = format!("{PAYLOAD}/");
        if let Some(text) = text
            && lists_files_in(bag, text, payload.as_bytes(), output).unwrap_or(false)
        {
            return Ok(true);
        }
    }
    Ok(false)
}

/// True if one of the first lines of the manifest `name` in `root` is of a file that lies in `output`, by the path that
/// begins behind `prefix`.
fn lists_files_in(root: &Dir, name: &str, prefix: &[u8], output: &Dir) -> io::Result<bool> {
    let file = root.open_file(name.as_ref(), false)?;
    if Dir::stat_file(&file)?.kind != Kind::File {
        return Ok(false);
    }
    let (mut entries, mut last) = (Entries::of_all(file), LastDir::default());
    for _ in 0..LOOKED_FOR {
        let Some(entry) = entries.next_entry()? else { break };
        let Parsed::Record(record) = entry.parsed else { continue };
        let Some(listed) = record.name.strip_prefix(prefix) else { continue };
        // What has the name of a manifest may have come with the source.
        let is_list = name_from_bytes(listed).is_ok_and(|it| ManifestName::of_any(it).is_some());
        let path = RelPath::parse(listed).ok().filter(|_| !is_list);
        let stat = path.and_then(|path| last.stat(output, &path, false).ok());
        if stat.is_some_and(|stat| stat.kind == Kind::File) {
            return Ok(true);
        }
    }
    Ok(false)
}

// Source and output beside each other before anything is touched: what is refused because of both.

/// The two sides while they are compared.
pub(super) struct Pair<'a> {
    pub from: &'a Path,
    pub to: &'a Path,
    pub source: &'a Dir,
    pub source_stat: &'a Stat,
}

impl Pair<'_> {
    /// Refuses an output that is the source, inside it or around it: a copy would change the source. In a source that
    /// is one file the output may lie.
    pub fn refuse_overlap(&self, output: &Opened, is_file: bool) -> Result<()> {
        let Self { from, to, source, source_stat } = *self;
        let overlap = |what: &str| {
            Err(Error::finding("copy to", to, format!("{what} {}", Shown::path(from))))
        };
        if let Opened::There(dir) = output
            && dir.identity().map_err(|error| cannot_look(to, error))? == source_stat.id
        {
            return overlap(match is_file {
                true => "it holds the source file",
                false => "it is the same directory as the source",
            });
        }
        if !is_file && is_inside(output.dir(), source, source_stat.id, to)? {
            return overlap("it is inside the source; choose an output outside of");
        }
        if !is_file
            && let Opened::There(dir) = output
            && is_inside(
                source,
                dir,
                dir.identity().map_err(|error| cannot_look(to, error))?,
                from,
            )?
        {
            return overlap("the source is inside it; choose an output apart from");
        }
        Ok(())
    }

    /// Refuses a file that was a directory at the last run to the output, of which the private directory at `place`
    /// tells: all that was in it would stay listed.
    fn refuse_other_kind(&self, output: &Opened, place: PrivatePlace<'_>) -> Result<()> {
        let Self { from, to, .. } = *self;
        let Opened::There(dir) = output else { return Ok(()) };
        let private = PrivateDir::open_at(dir, to, place, Missing::Leave).ok().flatten();
        let was_dir = |it: &PrivateDir| SourceMark::read(it).is_some_and(|last| last.was_at(from));
        let Some(private) = private.filter(was_dir) else { return Ok(()) };
        let finding = format!(
            "it is a file, and was a directory at the last complete run to {}: name another output, or remove {} if it is \
             meant",
            Shown::path(to),
            Shown::path(&private.path().join(SourceMark::FILE))
        );
        Err(Error::finding("copy", from, finding))
    }

    /// Refuses an output that the source is a copy of: the two were probably exchanged. What is empty may be filled. Of
    /// a source that is one file nothing is known but that it was a directory.
    pub fn refuse_exchange(
        &self,
        output: &Opened,
        place: PrivatePlace<'_>,
        is_file: bool,
    ) -> Result<()> {
        let Self { from, to, .. } = *self;
        if is_file {
            return self.refuse_other_kind(output, place);
        }
        let Opened::There(dir) = output else { return Ok(()) };
        let exchange = self.exchange(dir, place);
        if is_empty(to).map_err(|error| cannot_look(to, error))? || !exchange.is_likely() {
            return Ok(());
        }
        let finding = format!(
            "it is what {} was copied from: are source and output exchanged? `dircopy restore` brings back what was \
             copied; --restore lets this copy go on",
            Shown::path(from)
        );
        Err(Error::finding("copy to", to, finding))
    }

    /// Both, with the `output` opened, where the run has its private directory at `place`.
    pub fn exchange<'s>(&'s self, output: &'s Dir, place: PrivatePlace<'s>) -> Exchange<'s> {
        let source = Side { root: self.source, path: self.from };
        Exchange { source, output: Side { root: output, path: self.to }, place }
    }

    /// True if files of both can share their data. If they `must_clone`, an output that never can is refused.
    pub fn may_share(&self, output: &Dir, must_clone: bool) -> Result<bool> {
        let cloned = output.try_clone_within();
        let may_share = matches!(cloned, Some(Cloned::Yes));
        if let Some(Cloned::No { cause, ever: true }) = cloned
            && must_clone
        {
            let error = Error::io("clone to", self.to, cause);
            return Err(error.with_note("; its file system cannot share data between files"));
        }
        let id = output.identity().map_err(|error| cannot_look(self.to, error))?;
        Ok(may_share && id.dev == self.source_stat.id.dev)
    }
}

/// True if nothing but a private directory is in the directory at `path`; a handle's own position stays where it is.
pub(super) fn is_empty(path: &Path) -> io::Result<bool> {
    for entry in DirListing::of(&Dir::open(path)?)? {
        if *entry?.name != *NAME {
            return Ok(false);
        }
    }
    Ok(true)
}

// A source in which there is nothing to copy: an empty directory looks just as one whose disk is not mounted.
//
// A run that copied nothing from it and said "done" would be believed. So it is said, and nothing is made.

impl CopyJob {
    /// The report of a run whose source is empty although that was not allowed; it makes nothing.
    ///
    /// # Errors
    /// The source cannot be opened or listed.
    pub(crate) fn of_nothing(&self, started: Instant, stop: &Stop) -> Result<Option<Report>> {
        let (source, file) = open_source(&self.source)?;
        // Of an archive the manifest says what is missing, and so does the list of a delivery.
        if self.options.restore || self.expect_all && self.expected().is_some() {
            return Ok(None);
        }
        Ok(match self.finds_nothing(&source, file.is_some())? {
            Some(why) => {
                let report = Report::dry(Counts::default(), stop, started.elapsed());
                Some(Report { ending: Ending::Nothing(why), ..report })
            }
            None => None,
        })
    }

    /// The error that the source is empty, if it is and that was not allowed.
    pub(crate) fn finds_nothing(&self, source: &Dir, is_file: bool) -> Result<Option<Error>> {
        if self.options.allow_empty
            || is_file
            || !has_only_what_runs_keep(source).deed("list", &self.source)?
        {
            return Ok(None);
        }
        let finding = match self.options.restore {
            true => "the archive has nothing, and lists nothing",
            false => {
                "the source is empty; is its disk mounted? if it is meant to be, give --allow-empty"
            }
        };
        Ok(Some(Error::finding("copy anything of", &self.source, finding)))
    }

    /// The error that a whole run came upon nothing that it was to copy, if that was not allowed. Directories alone are
    /// something.
    fn found_nothing(&self, counts: &Counts, source: Option<&Dir>) -> Option<Error> {
        let source = source.filter(|_| !self.options.allow_empty && self.shard.is_none())?;
        if counts.seen > 0 || !counts.is_whole() {
            return None;
        }
        let finding = match &self.names {
            Some(names) if names.is_empty() => {
                "the list of names has none; if that is meant, give --allow-empty"
            }
            None if self.options.restore && !self.options.selection.filter.is_empty() => {
                "nothing in that tree matches --include; a path begins at its root: --include /DIR/FILE, with a \\ before each \
                 of *?[\\ in it"
            }
            _ if !self.options.selection.filter.is_empty() => {
                "nothing in the source matches --include and --exclude; if that is meant, give --allow-empty"
            }
            // It was not when the run began. What cannot be listed now was told.
            _ => return self.finds_nothing(source, false).ok().flatten(),
        };
        Some(Error::finding("copy anything of", &self.source, finding))
    }

    /// The end of a whole run of `source`, if that is a directory, that was given up because it is `broken`, or was
    /// not.
    pub(crate) fn ending(
        &self,
        counts: &Counts,
        stop: &Stop,
        broken: Option<Error>,
        source: Option<&SourceDir>,
    ) -> Ending {
        let ending = Ending::of(counts, stop, broken);
        match (ending, self.found_nothing(counts, source.map(|source| &source.handle))) {
            (Ending::Complete, Some(nothing)) => Ending::Nothing(nothing),
            (ending, _) => ending,
        }
    }
}
