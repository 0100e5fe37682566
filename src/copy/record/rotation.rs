//! Removing old manifests from an output, so that a job that runs every night does not fill it.
//!
//! Only finished manifests of dircopy go, the oldest first, and only after a run that left a newer one
//! and in which nothing was amiss. A manifest that is part of what was copied is a file like any other:
//! it is in the source, or, if it has left the source since, this or an earlier run lists it, where none of ours
//! is, or, if it was touched since, its times show that it was not made here.

use std::path::{Path, PathBuf};
use std::{collections::BTreeSet, ffi::OsStr, fs::File, io, num::NonZero, sync::Arc};

use serde::{Deserialize, Serialize};

use crate::manifest::{
    Entries, ListFormat, ManifestName, Parsed, Readers, readers::is_of_stranger, readers::ours,
};
use crate::{
    chain::StatesFile, chain::side_file::MOST_RECORDS, chain::side_file::SideFile, copy::CopyJob,
    copy::Ending, copy::Report, copy::commit::Committer, copy::media::MediaFinding,
    copy::media::MediaSeal, copy::media::one_history::HistoryRoot, error::Deed, error::Error,
    error::Result, hash::Algorithm, hash::Algorithms, hash::Digest, io::Durability, path::RelPath,
    path::directory_of, state::Knowledge, state::Note, state::PrivateDir, state::SourceMark,
    state::private_dir::NAME, sys, sys::Attributes, sys::Dir, sys::DirListing, sys::ListedEntry,
    sys::stat::Kind, sys::stat::Stat, tree::LastDir, tree::OutputDir, tree::SourceDir,
};

/// Number of manifests that stay.
pub struct Rotation {
    /// The newest so many stay, the one of this run among them.
    pub keep: NonZero<usize>,
    /// The root of the source.
    pub source: Arc<SourceDir>,
    /// The output is a tree that is to become a generation. It is to have nothing but what the source has and what this
    /// run made, so all others go, with what stands beside manifests, and none is worth telling of.
    pub in_generation: bool,
}

impl Rotation {
    /// The rotation that a job asks for, if it does; `source` is the root of its source.
    pub fn of(job: &CopyJob, source: &Arc<SourceDir>) -> Option<Self> {
        let source = Arc::clone(source);
        job.keep_manifests.map(|keep| Self { keep, source, in_generation: job.pruned })
    }

    /// Removes old manifests from the root of the output; `newest` is the path of the one just
    /// published there. Those that earlier runs copied, by what is `known`, are no manifests of the output. Returns the
    /// names of those removed.
    pub fn run(
        &self,
        output: &OutputDir,
        newest: &Path,
        known: Option<&Knowledge>,
    ) -> (Vec<ManifestName>, Option<Error>) {
        let Some(root) = &output.handle else { return (Vec::new(), None) };
        let mut removed = Vec::new();
        if self.in_generation {
            return (removed, clear(root, output, newest).err());
        }
        let was_copied =
            |name: &str| known.is_some_and(|known| known.has_heard_of(name.as_bytes()));
        let done = self.surplus(root, output, newest, &was_copied).and_then(|(surplus, listed)| {
            let is_copied = |name: &OsStr| {
                let is_listed = |name: &str| listed.contains(name) || was_copied(name);
                self.is_in_source(name) || name.to_str().is_some_and(is_listed)
            };
            surplus.into_iter().try_for_each(|name| {
                let file_name = name.to_string();
                // They are known by what it lists.
                let lists = lists_of(root, name, &is_copied);
                root.remove(file_name.as_ref())
                    .deed_at("remove the old manifest", || output.path_of(file_name.as_ref()))?;
                self.remove_states(root, name);
                // One that stays is in nothing's way.
                lists.iter().for_each(|list| drop(root.remove(list.as_ref())));
                removed.push(name);
                Ok(())
            })
        });
        (removed, done.err())
    }

    /// Removes the side file of a manifest that went, unless it is a file of the user. One that stays is in
    /// nothing's way.
    fn remove_states(&self, root: &Dir, name: ManifestName) {
        let states = name.states();
        let file = || root.open_file(states.as_ref(), false);
        if !self.is_in_source(states.as_ref()) && file().is_ok_and(|file| SideFile::is_one(&file)) {
            let _ = root.remove(states.as_ref());
        }
    }

    fn is_in_source(&self, name: &OsStr) -> bool {
        self.source.handle.stat(name, false).is_ok()
    }

    /// Those that are to go, the oldest last, and which files of such names the newest lists.
    fn surplus(
        &self,
        root: &Dir,
        output: &OutputDir,
        newest: &Path,
        was_copied: &dyn Fn(&str) -> bool,
    ) -> Result<(Vec<ManifestName>, BTreeSet<String>)> {
        let fail = |error| Error::io("look for old manifests in", output.path(), error);
        let nothing = (Vec::new(), BTreeSet::new());
        let Some(newest) = newest.file_name().and_then(ManifestName::parse) else {
            return Ok(nothing);
        };
        let mut finished =
            ours(root, |name| self.is_in_source(name), Some(newest)).map_err(fail)?;
        // One with a later name, by a clock that went wrong, is no reason to lose the newest.
        finished.retain(|name| {
            let stat = |name: String| root.stat(name.as_ref(), false);
            let is_made_here = || stat(name.to_string()).is_ok_and(|stat| is_made_here(&stat));
            let is_ours =
                || is_made_here() && !was_copied(&name.to_string()) && !is_of_stranger(root, name);
            name.is_finished() && *name != newest && is_ours()
        });
        if finished.len() < self.keep.get() {
            return Ok(nothing);
        }
        // What only has the name of a manifest is a file of the user.
        finished.retain(|name| begins_as_one(root, *name));
        let listed = listed(root, newest, &finished).map_err(fail)?;
        finished.retain(|name| !listed.contains(&name.to_string()));
        Ok((finished.split_off(finished.len().min(self.keep.get() - 1)), listed))
    }
}

/// Removes from a tree that is to become a generation every file with the name of a manifest, or of what stands beside
/// one, that neither this run wrote nor the source has: its manifest at `newest` does not list it.
fn clear(root: &Dir, output: &OutputDir, newest: &Path) -> Result<()> {
    let fail = |error| Error::io("look for old manifests in", output.path(), error);
    let Some(newest) = newest.file_name().and_then(ManifestName::parse) else { return Ok(()) };
    let (mut strays, mut names) = (Vec::new(), Vec::new());
    for entry in DirListing::of(root).map_err(fail)? {
        let name = entry.map_err(fail)?.name;
        let of = ManifestName::of_any(&name).filter(|of| !of.is_of_run(&newest));
        let is_file = || root.stat(&name, false).is_ok_and(|stat| stat.kind == Kind::File);
        if let Some(of) = of
            && is_file()
        {
            strays.push(name);
            names.push(of);
        }
    }
    let listed = match &names[..] {
        [] => return Ok(()),
        names => listed(root, newest, names).map_err(fail)?,
    };
    for name in strays.iter().filter(|name| !name.to_str().is_some_and(|it| listed.contains(it))) {
        // All of the last generation may be protected, of which this is a snapshot.
        root.remove_protected(name).deed_at("remove the old manifest", || output.path_of(name))?;
    }
    Ok(())
}

/// True if the first line of a file is one of a manifest. An empty one may be anything.
fn begins_as_one(root: &Dir, name: ManifestName) -> bool {
    let Ok(file) = root.open_file(name.to_string().as_ref(), false) else { return false };
    let mut entries = Entries::of_all(file);
    entries
        .next_entry()
        .is_ok_and(|first| first.is_some_and(|first| matches!(first.parsed, Parsed::Record(_))))
}

/// The ones of `names`, and of the names of lists beside them, that the manifest `newest` lists.
fn listed(
    root: &Dir,
    newest: ManifestName,
    names: &[ManifestName],
) -> io::Result<BTreeSet<String>> {
    let file = root.open_file(newest.to_string().as_ref(), false)?;
    let (mut entries, mut found) = (Entries::of_all(file), BTreeSet::new());
    while let Some(entry) = entries.next_entry()? {
        let Parsed::Record(record) = entry.parsed else { continue };
        let Some(name) =
            str::from_utf8(record.name).ok().filter(|name| name.starts_with("dircopy-"))
        else {
            continue;
        };
        if ManifestName::of_any(name.as_ref())
            .is_some_and(|of| names.iter().any(|name| name.is_of_run(&of)))
        {
            found.insert(name.to_owned());
        }
    }
    Ok(found)
}

// Lists among the files that an earlier run left, and the check that they still say what is there.

/// The manifest beside which the newest list has this ending.
pub fn newest_with(root: &Dir, suffix: &str) -> io::Result<Option<ManifestName>> {
    Ok(all_with(root, suffix)?.pop())
}

/// The manifests beside which lists have this ending, the newest last.
fn all_with(root: &Dir, suffix: &str) -> io::Result<Vec<ManifestName>> {
    // Whoever else may write to it could have it name files of others.
    let is_kept = |list: &OsStr| {
        let stat = root.stat(list, false);
        stat.is_ok_and(|stat| stat.links == 1 && root.keeps(list, &stat))
    };
    let lacks_owners = sys::may_lack_owners(root);
    let list = |entry: &ListedEntry| {
        let name = ManifestName::of_list(&entry.name).filter(ManifestName::is_finished)?;
        let is_one = *entry.name == *name.list(suffix) && (lacks_owners || is_kept(&entry.name));
        is_one.then_some(name)
    };
    let all = DirListing::of(root)?.filter_map(|entry| entry.map(|it| list(&it)).transpose());
    let mut all = all.collect::<io::Result<Vec<_>>>()?;
    all.sort_unstable();
    Ok(all)
}

/// The algorithm of the lists among the files, of this form, that `list` names, if they are of others than these
/// `algorithms`, and the first of them is still there. The lists of one file, or of one directory, stand together.
fn other_digest(
    root: &Dir,
    list: &str,
    form: ListFormat,
    algorithms: Algorithms,
) -> io::Result<Option<Algorithm>> {
    let (mut left, mut found) = (Algorithm::listed().count(), None);
    each_name(Entries::of_all(root.open_file(list.as_ref(), false)?), |name| {
        let last = name.rsplit(|byte| *byte == b'/').next().unwrap_or(name);
        let other = form.named_by(last).filter(|of| !algorithms.has(*of));
        found = other.zip(RelPath::parse(name).ok());
        left -= 1;
        found.is_some() || left == 0
    })?;
    let is_there = |path: &RelPath| LastDir::default().stat(root, path, false).is_ok();
    Ok(found.filter(|(_, path)| is_there(path)).map(|(of, _)| of))
}

impl Committer<'_> {
    /// Tells of lists among the files that an earlier run wrote, and that this one, with its finished `manifest`,
    /// neither wrote anew nor left true: by them a check condemns files that are good.
    pub(crate) fn tell_stale_lists(&mut self, manifest: &Path) {
        let counts = &self.accounting.counts;
        let copied = counts.copied + counts.replaced + counts.linked;
        let (Some(known), true) = (self.context.shared.known, copied > 0) else { return };
        let root = Arc::clone(self.root());
        let (Some(handle), Some(name)) = (&root.handle, manifest.file_name()) else { return };
        for form in [ListFormat::Dirs, ListFormat::Sides] {
            let suffix = form.suffix(Algorithms::default());
            // What cannot be looked for is not told.
            let Ok(all) = all_with(handle, suffix) else { continue };
            let all: Vec<String> = all.iter().rev().map(|it| it.list(suffix)).collect();
            let own = ManifestName::parse(name).map(|it| it.list(suffix));
            let is_written = all.first() == own.as_ref();
            let mut stale = all.iter().find_map(|list| match is_written {
                false => Some((list, None)),
                true if Some(list) == own.as_ref() => None,
                true => {
                    let other = other_digest(handle, list, form, self.context.algorithms());
                    other.ok().flatten().map(|other| (list, Some(other)))
                }
            });
            // A list that came with the source belongs to the source.
            let is_copied = |list: &str| known.has_heard_of(list.as_bytes());
            let is_ours =
                |list: &str| handle.stat(list.as_ref(), false).is_ok_and(|it| is_made_here(&it));
            let is_one =
                |list: &str| !is_copied(list) && is_ours(list) && !is_listed(handle, name, list);
            let Some((list, digest)) = stale.take_if(|(list, _)| is_one(list)) else { continue };
            let digest = digest.map_or_else(String::new, |of| format!(" --hash {}", of.name()));
            let finding = format!(
                "this run copied files, and was not told to write them anew: run it again with --format {suffix}{digest}, or \
                 remove them and {list}, which lists them"
            );
            let path = root.path_of("".as_ref());
            let deed = "vouch for the lists among the files of";
            self.accounting.warn(&Error::finding(deed, path, finding));
        }
    }
}

// The lists beside a manifest that is removed: they are removed with it, if its run made them.
//
// A name proves nothing: a user may keep a file of that name. A list of ours was last written to when its manifest
// was, was not touched since, and the first file that it names is one that the manifest lists.

/// Time, in seconds, after its last line within which a manifest gets its final name: in between, everything that was
/// copied is made durable. One whose entry was changed later was copied here, with the time of the original, or touched
/// for a reason that is not known.
const MADE_HERE: i64 = 3600;

/// True if the `manifest` lists the file `name`: this run copied it. What cannot be read is not told of.
fn is_listed(root: &Dir, manifest: &OsStr, name: &str) -> bool {
    let look =
        || each_name(Entries::of_all(root.open_file(manifest, false)?), |it| it == name.as_bytes());
    look().unwrap_or(true)
}

/// True if a file was made where it is, and neither copied there nor touched since.
pub fn is_made_here(stat: &Stat) -> bool {
    stat.kind == Kind::File && stat.ctime.secs - stat.mtime.secs <= MADE_HERE
}

/// The lists beside the manifest `name`, which is there as yet, that its run left; not those that `is_copied`.
pub fn lists_of(root: &Dir, name: ManifestName, is_copied: &dyn Fn(&OsStr) -> bool) -> Vec<String> {
    let Ok(manifest) = root.stat(name.to_string().as_ref(), false) else { return Vec::new() };
    let is_of_run = |list: &String| {
        let stat = root.stat(list.as_ref(), false);
        let is_near = |stat: Stat| {
            let apart = stat.mtime.secs.saturating_sub(manifest.mtime.secs);
            is_made_here(&stat) && apart.unsigned_abs() <= MADE_HERE.unsigned_abs()
        };
        stat.is_ok_and(is_near)
            && !is_copied(list.as_ref())
            && names_a_file_of(root, list.as_ref(), name).unwrap_or(false)
    };
    // One that was cut short while its lists got their names has both kinds.
    let both = name.finished();
    let finished = both.lists().filter(|_| !name.is_finished());
    name.lists().chain(finished).filter(is_of_run).collect()
}

/// True if the first file that a list names is one that the manifest lists.
fn names_a_file_of(root: &Dir, list: &OsStr, manifest: ManifestName) -> io::Result<bool> {
    let mut first = None;
    each_name(Entries::of_all(root.open_file(list, false)?), |name| {
        first = Some(name.to_vec());
        true
    })?;
    let Some(first) = first else { return Ok(false) };
    // A list of lists among the files names none of these, but one in a directory that has some.
    let endings = [ListFormat::Dirs, ListFormat::Sides].map(|it| it.suffix(Algorithms::default()));
    let is_of_near =
        endings.map(|ending| manifest.list(ending)).iter().any(|it| list == it.as_str());
    let dir = |name: &[u8]| memchr::memrchr(b'/', name).map(|slash| name[..slash].to_vec());
    let above = dir(&first);
    let manifest = root.open_file(manifest.to_string().as_ref(), false)?;
    each_name(Entries::of_all(manifest), |name| name == first || is_of_near && dir(name) == above)
}

/// Shows the names of a list to `is_last`, up to the first of which that is so; whether there was one.
fn each_name<R: io::Read>(
    mut entries: Entries<R>,
    mut is_last: impl FnMut(&[u8]) -> bool,
) -> io::Result<bool> {
    while let Some(entry) = entries.next_entry()? {
        let Parsed::Record(record) = entry.parsed else { continue };
        if is_last(record.name.strip_prefix(b"./").unwrap_or(record.name)) {
            return Ok(true);
        }
    }
    Ok(false)
}

// The Media Hash List of a run, which comes when all else is recorded.

impl Committer<'_> {
    /// Writes the Media Hash List by what the run `kept` of its files; returns where it is. It lists what `manifest`
    /// lists, and is as closed.
    pub(crate) fn write_media(
        &mut self,
        seal: MediaSeal<'_>,
        kept: File,
        manifest: &Path,
    ) -> Option<PathBuf> {
        let root = Arc::clone(self.root());
        let at = HistoryRoot { dir: root.handle.as_ref()?, path: &root.root };
        let listed = at.dir.stat(manifest.file_name()?, false);
        let seal = MediaSeal { mode: listed.map_or(seal.mode, |stat| stat.mode & 0o666), ..seal };
        let accounting = &mut self.accounting;
        let tell = &mut |told: MediaFinding| {
            accounting.counts.decayed += u64::from(told.is_failed);
            accounting.warn(&told.error);
        };
        seal.run(at, kept, tell).unwrap_or_else(|error| {
            self.accounting.give_up(error);
            None
        })
    }
}

// The chains of a run: where its side file stands, and what earlier ones hold.

/// Number of finished manifests that are looked at for one with a side file.
const MOST_LOOKED_AT: usize = 16;

/// Makes ready the side file of the run whose manifest has this name, in the root of the output; that of a shard beside
/// its manifest. What the last generation has is taken over too.
///
/// # Errors
/// The directory cannot be opened once more.
pub fn begin(
    states: &StatesFile,
    job: &CopyJob,
    root: &Dir,
    name: ManifestName,
    is_to_stop: &dyn Fn() -> bool,
) -> io::Result<()> {
    let place = match &job.shard {
        Some(role) => role.dir.try_clone()?,
        None => root.try_clone()?,
    };
    let last = job.last_generation.as_ref().map(|last| &*last.dir);
    let of_both = [Some(&place), last].into_iter().flatten();
    let earlier = of_both.flat_map(|root| earlier(root, is_to_stop)).collect();
    states.begin(place, name.unfinished().states().into(), earlier);
    Ok(())
}

/// The newest finished side file, and those of runs that were cut short since, the newest first. They need
/// not be believed, so their owner does not matter; but somebody may have planted any number, and each that is taken is
/// held open.
fn earlier(root: &Dir, is_to_stop: &dyn Fn() -> bool) -> Vec<SideFile> {
    let names = ours(root, |_| false, None).unwrap_or_default();
    let (mut earlier, mut finished, mut left) = (Vec::new(), 0, MOST_RECORDS);
    for name in names {
        if finished == MOST_LOOKED_AT || earlier.len() == MOST_LOOKED_AT {
            break;
        }
        finished += usize::from(name.is_finished());
        // One that cannot be read is as good as none. That of a run that was cut short may have its final
        // name already.
        let states = [name.finished().states(), name.states()];
        let opened = |states: &String| {
            SideFile::open_in(root, states.as_ref(), left, is_to_stop).ok().flatten()
        };
        if let Some(side) = states.iter().find_map(opened) {
            left -= side.len();
            earlier.push(side);
            if name.is_finished() {
                break;
            }
        }
    }
    earlier
}

impl Committer<'_> {
    /// Takes over the known chain of a file that stays as it is.
    pub(crate) fn carry_chain(&self, output: &OutputDir, name: &OsStr, size: u64, digest: &Digest) {
        if let Some(states) = self.context.shared.states.filter(|states| states.wants(size)) {
            states.carry(output.rel.join(name).as_bytes(), size, digest);
        }
    }

    /// The manifest of this name is about to be complete: so is its side file. One that cannot be written costs
    /// later checks time, and is a warning.
    pub(crate) fn publish_states(&mut self, name: ManifestName, readers: Readers) {
        let Some(states) = self.context.shared.states else { return };
        let name = name.finished().states();
        let durable = self.context.options.durability != Durability::Off;
        if let Err(error) =
            states.publish(name.as_ref(), durable, false, |group| readers.mode(group))
        {
            let path = self.root().path_of(name.as_ref());
            let error = Error::io("write the states of large files to", path, error);
            self.accounting.warn(&error.with_note("; checks of these take longer"));
        }
    }
}

// An output that keeps nothing of ours: what is brought back is to be as it was, and no output of its own.
//
// Until a run to it came to its end it has a manifest and a private record like any other, so that a run that was cut
// short is gone on with, and others are kept out meanwhile. An output that other runs finished stays one: a note says
// which manifests are of runs that brought something back.

/// The manifests that runs which brought something back, and did not come to their end, left at an output.
#[derive(Default, Serialize, Deserialize)]
pub struct Traces {
    manifests: Vec<String>,
}

impl Note for Traces {
    const FILE: &str = "brought-back";
    const HEAD: &str = "dircopy brought back 1";
}

impl Traces {
    /// Those at an output before a run; `None` if it is one of other runs, or cannot be listed.
    pub fn find(output: &OutputDir, private: Option<&PrivateDir>) -> Option<Self> {
        let noted = private.and_then(Self::read);
        let Some(root) = &output.handle else { return Some(noted.unwrap_or_default()) };
        // A run without digests leaves no manifest, but knows its source, wherever its record is.
        let at_output = private.and_then(|private| private.in_output(root).ok()?);
        let mut records = private.into_iter().chain(&at_output);
        if noted.is_none() && records.any(|record| SourceMark::read(record).is_some()) {
            return None;
        }
        let traces = noted.unwrap_or_default();
        let mut names = ours(root, |_| false, None).ok()?.into_iter();
        let is_known = |name: ManifestName| {
            !name.is_finished() || traces.manifests.contains(&name.to_string())
        };
        names.all(is_known).then_some(traces)
    }

    /// After a run that came to its end removes all of them, with its own and the private directory; or notes them for
    /// the next.
    ///
    /// # Errors
    /// Something of it is still there, or the next run will not remove it.
    pub fn settle(
        mut self,
        output: &OutputDir,
        private: Option<&PrivateDir>,
        source: &SourceDir,
        report: &mut Report,
    ) -> Result<()> {
        let name = |path: &Path| path.file_name()?.to_str().map(str::to_owned);
        self.manifests.extend(report.manifest.as_deref().and_then(name));
        let is_cut_short = matches!(report.ending, Ending::Interrupted(_));
        // What could not be brought back is named, and no record of the rest helps a later run with it.
        if !is_cut_short && report.ending.given_up().is_none() {
            report.manifest = None;
            self.remove(output, private, std::mem::take(&mut report.lists))?;
            return set_time(output, source);
        }
        match private {
            Some(private) => self.write(private, false).deed("write a note in", private.path()),
            None => Ok(()),
        }
    }

    fn remove(
        &self,
        output: &OutputDir,
        private: Option<&PrivateDir>,
        lists: Vec<PathBuf>,
    ) -> Result<()> {
        let Some(root) = &output.handle else { return Ok(()) };
        let names = self.manifests.iter().filter_map(|name| ManifestName::parse(name.as_ref()));
        let both = names.flat_map(|name| [name.to_string(), name.states()]).map(PathBuf::from);
        for path in both.chain(lists) {
            let Some(name) = path.file_name() else { continue };
            root.remove(name).if_there().deed_at("remove", || output.path_of(name))?;
        }
        if let Some(private) = private {
            let fail = |error| Error::io("remove", private.path(), error);
            for dir in private.locked() {
                for listed in DirListing::of(dir).map_err(fail)? {
                    dir.remove(&listed.map_err(fail)?.name).if_there().map_err(fail)?;
                }
            }
            root.remove_dir(NAME.as_ref()).if_there().map_err(fail)?;
            if let Some(name) = private.path().file_name().filter(|name| *name != NAME) {
                // Kept elsewhere.
                let above = Dir::open(directory_of(private.path())).map_err(fail)?;
                above.remove_dir(name).if_there().map_err(fail)?;
            }
        }
        Ok(())
    }
}

/// Gives the directory the time of its counterpart: what came and went in it has changed it.
fn set_time(output: &OutputDir, source: &SourceDir) -> Result<()> {
    let Some(root) = &output.handle else { return Ok(()) };
    let both = source.handle.stat_self().and_then(|of| Ok((of, root.stat_self()?)));
    let set = both.and_then(|(of, there)| Attributes::set_time(root, &there, &of));
    set.deed("set the modification time of", output.path())
}
