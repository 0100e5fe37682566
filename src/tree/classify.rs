//! Telling apart what a directory lists: its regular files go into batches, everything else is handed on
//! one by one.
//!
//! A look at an entry waits for the device, or costs the kernel most of what a walk takes. Where nothing
//! has to be remembered from one entry to the next, any number of stat workers may look.

use std::{
    collections::HashMap, collections::HashSet, ffi::OsStr, io, ops::ControlFlow, path::Path,
    sync::Arc,
};

use serde::{Deserialize, Serialize};

use crate::sys::{
    Dir, DirListing, ListedEntry, stat::Identity, stat::Kind, stat::Stat, traits::TriedName,
};
use crate::{
    error::Deed, error::Error, manifest::ManifestName, path::Shown, tree::Batch, tree::Filter,
    tree::Inclusion, tree::OutputDir, tree::SourceDir, tree::SourceEntry, tree::WalkEvent,
    tree::WalkItem, tree::cleanup::ResumablePart, tree::found::Emit, volume::alike::form_of,
    volume::alike::may_be_short_name,
};

/// A batch of small files ends at this many files. With many, workers are mostly in different
/// directories and do not wait for each other's changes to one: 50,000 files of 4 KiB, two workers,
/// tmpfs, relative to 64: 256: 0.97, 1024: 0.96.
const BATCH_FILES: usize = 1024;

/// … or at this many bytes, so that workers stay evenly loaded: about 10 ms of work.
const BATCH_BYTES: u64 = 4 << 20;

/// … but then at a multiple of this many files, if that is not too many bytes: so many are hashed together, and fewer
/// take as long. 42 files of 100 KB were 16, 16 and 10.
const TOGETHER: usize = 16;

/// Fewer entries are looked at by the walk itself: handing them on would cost about as much.
const LEAST: usize = 16;

/// The number of names still to come for each file with several, while any are.
pub type PendingLinks = HashMap<Identity, u64>;

/// Which entries of the source are copied, and as what.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Selection {
    /// Which entries take part.
    pub filter: Filter,
    /// Files that are larger are left as they are at the output, or are not there; bytes.
    #[serde(deserialize_with = "Option::deserialize")]
    pub max_size: Option<u64>,
    /// Copy what symbolic links point to instead of the links.
    pub follow_links: bool,
    /// Copy symbolic links; without this they are told as skipped.
    pub links: bool,
    /// Make the further names of a file links to its copy instead of copies of their own.
    pub hard_links: bool,
    /// Copy FIFOs, sockets and devices as what they are; without this they are told as skipped.
    #[serde(default)]
    pub specials: bool,
    /// Copy streams besides the content, and entries of access lists that were set on a file, where the system has
    /// them: on Windows.
    #[serde(default)]
    pub windows_metadata: bool,
    /// Directories of the source on which another file system is mounted are not entered.
    pub one_file_system: bool,
}

impl Default for Selection {
    fn default() -> Self {
        Self {
            filter: Filter::default(),
            max_size: None,
            follow_links: false,
            links: true,
            hard_links: false,
            specials: false,
            windows_metadata: false,
            one_file_system: false,
        }
    }
}

impl DirMemory {
    /// True if what `output` finds by this name is called otherwise there.
    fn is_anothers(&mut self, output: &OutputDir, name: &OsStr) -> io::Result<bool> {
        let bytes = name.as_encoded_bytes();
        let Some(dir) = output.handle.as_ref().filter(|_| !output.fresh) else { return Ok(false) };
        if !may_be_short_name(bytes) || dir.stat(name, false).if_there()?.is_none() {
            return Ok(false);
        }
        let short = match &mut self.short {
            Some(short) => short,
            None => {
                let mut short = HashSet::new();
                for listed in DirListing::of(dir)? {
                    let name = listed?.name;
                    if may_be_short_name(name.as_encoded_bytes()) {
                        short.insert(form_of(name.as_encoded_bytes()));
                    }
                }
                self.short.insert(short)
            }
        };
        Ok(!short.contains(&form_of(bytes)))
    }
}

impl Selection {
    /// True if the directory `dir` of the source, which is in `above`, is entered: no other file system is mounted
    /// there, or that does not matter.
    pub fn enters(&self, above: &Dir, dir: &Stat) -> io::Result<bool> {
        Ok(!self.one_file_system || above.identity()?.dev == dir.id.dev)
    }
}

/// Which entries take part, and how they are told apart.
#[derive(Clone, Copy, Debug)]
pub struct Classifier<'a> {
    pub selection: &'a Selection,
    /// A file larger than this is a batch of its own; bytes.
    pub block_size: u64,
}

/// The walk's memory of a directory while it lists it.
#[derive(Default)]
pub struct DirMemory {
    /// Beginnings of its files that killed runs left at the output, until they are taken up.
    pub resumable: Vec<ResumablePart>,
    /// The names so far by what those have in common that may be one at the output, where it folds names.
    alike: HashMap<Vec<u8>, Vec<Arc<OsStr>>>,
    /// What the names have in common with others, of those at the output that may be a file's short name.
    short: Option<HashSet<Vec<u8>>>,
    /// Number of names that it listed so far, and that its counterpart at the output has.
    pub names: u64,
    pub at_output: u64,
}

/// Some of what a directory lists, not yet looked at.
pub struct Unclassified {
    source: Arc<SourceDir>,
    output: Arc<OutputDir>,
    listed: Vec<ListedEntry>,
    /// The filter's answer for the directory.
    inclusion: Inclusion,
}

/// A directory in the one that is listed.
pub struct Subdir {
    pub listed: ListedEntry,
    /// The filter's answer for it.
    pub inclusion: Inclusion,
}

/// An entry that takes part.
struct Candidate {
    kind: Kind,
    /// The metadata of files and links.
    stat: Option<Stat>,
    inclusion: Inclusion,
}

impl Unclassified {
    /// The entries `listed` of `source`.
    pub fn new(
        source: &Arc<SourceDir>,
        output: &Arc<OutputDir>,
        mut listed: Vec<ListedEntry>,
        inclusion: Inclusion,
    ) -> Self {
        // Inode order is close to the order on the disk where listing order is that of a hash
        // (ext4): fewer seeks for the files' inodes and contents.
        listed.sort_unstable_by_key(|listed| listed.ino);
        Self { source: Arc::clone(source), output: Arc::clone(output), listed, inclusion }
    }

    fn batch_of(&self, files: Vec<SourceEntry>) -> WalkEvent {
        let (source, output) = (Arc::clone(&self.source), Arc::clone(&self.output));
        WalkEvent::Files(Batch { source, output, files })
    }
}

/// Small files of one directory that are to be handed on together.
#[derive(Default)]
struct SmallFiles {
    files: Vec<SourceEntry>,
    bytes: u64,
}

impl SmallFiles {
    /// Adds a file; a batch's worth of them if that completes one.
    fn push(&mut self, entry: SourceEntry) -> Option<Vec<SourceEntry>> {
        self.bytes += entry.stat.size;
        self.files.push(entry);
        let is_even = self.files.len().is_multiple_of(TOGETHER);
        let least_bytes = if is_even { BATCH_BYTES } else { 2 * BATCH_BYTES };
        (self.files.len() == BATCH_FILES || self.bytes >= least_bytes).then(|| {
            self.bytes = 0;
            std::mem::take(&mut self.files)
        })
    }
}

impl Classifier<'_> {
    /// Parts the entries that the walk must look at itself from those that stat workers may look at.
    pub(crate) fn part(
        &self,
        mut entries: Unclassified,
        memory: &DirMemory,
    ) -> (Unclassified, Option<Unclassified>) {
        // What may be a directory is the walk's.
        let folds = entries.output.volume.folds_names();
        let remembers = self.selection.hard_links || folds || !memory.resumable.is_empty();
        if remembers
            || self.selection.follow_links
            || entries.listed.iter().any(|listed| listed.kind.is_none())
        {
            return (entries, None);
        }
        let is_dir = |listed: &ListedEntry| listed.kind == Some(Kind::Dir);
        let (dirs, others): (Vec<ListedEntry>, Vec<ListedEntry>) =
            std::mem::take(&mut entries.listed).into_iter().partition(is_dir);
        if others.len() < LEAST {
            entries.listed = dirs.into_iter().chain(others).collect();
            return (entries, None);
        }
        let (source, output) = (Arc::clone(&entries.source), Arc::clone(&entries.output));
        let inclusion = entries.inclusion;
        entries.listed = dirs;
        (entries, Some(Unclassified { source, output, listed: others, inclusion }))
    }

    /// Looks at entries that the walk left to a stat worker, and hands on all of them.
    pub(crate) fn look_at(&self, entries: Unclassified, emit: &mut impl Emit) -> ControlFlow<()> {
        let (source, output) = (Arc::clone(&entries.source), Arc::clone(&entries.output));
        let dirs =
            self.classify(entries, &mut DirMemory::default(), &mut PendingLinks::new(), emit)?;
        for Subdir { listed, .. } in dirs {
            let finding = "it has become a directory since its own was listed";
            let path = source.path_of(&listed.name);
            emit.item(WalkItem::Failed(Error::finding("copy", path, finding)))?;
        }
        emit.item(WalkItem::Looked(output))
    }

    /// Hands on all of `entries` but the directories, which it returns.
    pub(crate) fn classify(
        &self,
        mut entries: Unclassified,
        memory: &mut DirMemory,
        links: &mut PendingLinks,
        emit: &mut impl Emit,
    ) -> ControlFlow<(), Vec<Subdir>> {
        let mut subdirs = Vec::new();
        let mut small = SmallFiles::default();
        // Handed on after the batches, which may hold their first names.
        let mut further = Vec::new();
        for listed in std::mem::take(&mut entries.listed) {
            let looked = self.look(&entries, &listed).and_then(|looked| match looked {
                // What is not copied takes no name at the output.
                Some(Candidate { kind, .. }) if self.copies(kind) => {
                    refuse(&entries, memory, &listed.name).map(|()| looked)
                }
                looked => Ok(looked),
            });
            let Candidate { kind, stat, inclusion } = match looked {
                Ok(Some(looked)) => looked,
                Ok(None) => continue,
                Err(error) => {
                    emit.item(WalkItem::Failed(error))?;
                    continue;
                }
            };
            let (source, output) = (Arc::clone(&entries.source), Arc::clone(&entries.output));
            match (kind, stat) {
                (Kind::Dir, _) => subdirs.push(Subdir { listed, inclusion }),
                (Kind::File, Some(stat)) => {
                    output.announce(1);
                    let entry = SourceEntry { name: listed.name, stat };
                    if self.selection.hard_links && self.is_further_name(links, &stat) {
                        further.push(WalkItem::HardLink(output, entry));
                    } else if stat.size > self.block_size {
                        memory.resumable.retain(|part| *part.name != *entry.name);
                        emit(entries.batch_of(vec![entry]))?;
                    } else if let Some(files) = small.push(entry) {
                        emit(entries.batch_of(files))?;
                    }
                }
                (kind, Some(stat)) if self.copies(kind) => {
                    output.announce(1);
                    let entry = SourceEntry { name: listed.name, stat };
                    let may_have_names = self.selection.hard_links && kind == Kind::Symlink;
                    match may_have_names && self.is_further_name(links, &stat) {
                        true => emit.item(WalkItem::HardLink(output, entry))?,
                        false => emit.item(WalkItem::Symlink(source, output, entry))?,
                    }
                }
                _ => emit.item(WalkItem::Special(source, listed, kind))?,
            }
        }
        if !small.files.is_empty() {
            emit(entries.batch_of(small.files))?;
        }
        for name in further {
            emit.item(name)?;
        }
        ControlFlow::Continue(subdirs)
    }

    /// Hands on small files of which all is known that a look would tell.
    pub(crate) fn hand_on(
        &self,
        entries: &Unclassified,
        files: Vec<SourceEntry>,
        memory: &mut DirMemory,
        emit: &mut impl Emit,
    ) -> ControlFlow<()> {
        let mut small = SmallFiles::default();
        for entry in files {
            if let Err(error) = refuse(entries, memory, &entry.name) {
                emit.item(WalkItem::Failed(error))?;
                continue;
            }
            entries.output.announce(1);
            if let Some(files) = small.push(entry) {
                emit(entries.batch_of(files))?;
            }
        }
        match small.files.is_empty() {
            true => ControlFlow::Continue(()),
            false => emit(entries.batch_of(small.files)),
        }
    }

    /// Looks at a directory on the way to names below it; `None` if it is left out.
    pub(crate) fn on_the_way(
        &self,
        here: &Unclassified,
        memory: &mut DirMemory,
        listed: ListedEntry,
    ) -> Result<Option<Subdir>, Error> {
        let looked = self.look(here, &listed)?;
        let Some(Candidate { kind, inclusion, .. }) = looked else { return Ok(None) };
        if kind != Kind::Dir {
            let finding = format!("it is {}, and names below it were asked for", kind.name());
            return Err(Error::finding("enter", here.source.path_of(&listed.name), finding));
        }
        refuse(here, memory, &listed.name)?;
        Ok(Some(Subdir { listed, inclusion }))
    }

    /// The part that an entry of this name takes. The side file and the lists of a manifest belong to it: what leaves
    /// out the one leaves out the others.
    fn judge(&self, entries: &Unclassified, name: &OsStr, is_dir: bool) -> Inclusion {
        let mut path = Vec::new();
        if !self.selection.filter.is_empty() {
            entries.source.rel.join_into(name, &mut path);
        }
        let inclusion = self.selection.filter.judge(&path, is_dir, entries.inclusion);
        let manifest =
            (!is_dir && !self.selection.filter.is_empty() && entries.source.rel.is_root())
                .then(|| ManifestName::of_beside(name))
                .flatten();
        match manifest.map(|manifest| manifest.to_string()) {
            Some(manifest)
                if self.selection.filter.judge(manifest.as_bytes(), false, entries.inclusion)
                    == Inclusion::Out =>
            {
                Inclusion::Out
            }
            _ => inclusion,
        }
    }

    /// True if entries of this kind are copied, if no filter leaves them out.
    pub(crate) fn copies(&self, kind: Kind) -> bool {
        match kind {
            Kind::File | Kind::Dir => true,
            Kind::Symlink => self.selection.links,
            Kind::Fifo | Kind::Socket | Kind::Device => self.selection.specials,
        }
    }

    /// True if this name of a file was preceded by another; forgets the file after its last name.
    fn is_further_name(&self, links: &mut PendingLinks, stat: &Stat) -> bool {
        if stat.links < 2 {
            return false;
        }
        if let Some(to_come) = links.get_mut(&stat.id) {
            *to_come -= 1;
            if *to_come == 0 {
                links.remove(&stat.id);
            }
            return true;
        }
        // Links that are followed are names that the file does not count.
        let to_come = if self.selection.follow_links { u64::MAX } else { stat.links - 1 };
        links.insert(stat.id, to_come);
        false
    }

    /// Looks at an entry as far as that is needed; `None` if it is left out.
    fn look(
        &self,
        entries: &Unclassified,
        listed: &ListedEntry,
    ) -> Result<Option<Candidate>, Error> {
        let judge = |is_dir| self.judge(entries, &listed.name, is_dir);
        let mut looked = Candidate {
            kind: listed.kind.unwrap_or(Kind::Device),
            stat: None,
            inclusion: Inclusion::Out,
        };
        let is_special = listed.kind.is_some_and(|kind| !kind.is_copied());
        if matches!(listed.kind, None | Some(Kind::File | Kind::Symlink))
            || is_special && self.selection.specials
        {
            if listed.kind.is_some()
                && !self.selection.follow_links
                && judge(false) == Inclusion::Out
            {
                return Ok(None);
            }
            match entries.source.handle.stat(&listed.name, self.selection.follow_links) {
                Ok(stat) => (looked.kind, looked.stat) = (stat.kind, Some(stat)),
                // What is left out need not be readable.
                Err(_) if judge(false) == Inclusion::Out => return Ok(None),
                Err(error) => {
                    return Err(Error::io("look at", entries.source.path_of(&listed.name), error));
                }
            }
        }
        looked.inclusion = judge(looked.kind == Kind::Dir);
        Ok((looked.inclusion != Inclusion::Out).then_some(looked))
    }
}

/// Refuses a name that the output cannot hold, or takes for the same as another in the directory.
fn refuse(entries: &Unclassified, memory: &mut DirMemory, name: &Arc<OsStr>) -> Result<(), Error> {
    let Unclassified { source, output, .. } = entries;
    let error = |finding: String| Err(Error::finding("copy", source.path_of(name), finding));
    if let Some(why) = crate::sys::unusable(name) {
        return error(why.to_owned());
    }
    match output.volume.try_name(name, output.handle.as_ref()) {
        None | Some(TriedName::Held) => {}
        Some(TriedName::Doubtful) => {
            return error("the output does not hold all names of this kind".to_owned());
        }
        Some(TriedName::Becomes(other)) => {
            let other = Shown::path(Path::new(&other));
            return error(format!("the output cannot hold this name: it makes {other} of it"));
        }
        Some(TriedName::Refused(cause)) => {
            let error = Error::io("copy", source.path_of(name), cause);
            return Err(error.with_note("; the output cannot hold this name"));
        }
    }
    if !output.volume.folds_names() {
        return Ok(());
    }
    if memory.is_anothers(output, name).deed_at("look for", || output.path_of(name))? {
        let finding = "the output has a file with a longer name, and takes this for another name of that (a short name, \
                       8.3): rename one of the two";
        return error(finding.to_owned());
    }
    let alike = memory.alike.entry(form_of(name.as_encoded_bytes())).or_default();
    if let Some(first) = output.volume.one_with(name, alike, output.handle.as_ref()) {
        let first = Shown::path(Path::new(&**first));
        return error(format!("the output takes this name for the same as {first}"));
    }
    alike.push(Arc::clone(name));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::stat::Time;

    /// Number of files of this size in each of the first two batches.
    fn batches(size: u64) -> [usize; 2] {
        let stat = Stat {
            kind: Kind::File,
            size,
            allocated: size,
            mtime: Time::default(),
            ctime: Time::default(),
            id: Identity::default(),
            links: 1,
            mode: 0,
            uid: 0,
            gid: 0,
        };
        let entry = SourceEntry { name: OsStr::new("file").into(), stat };
        let mut small = SmallFiles::default();
        let mut next = || {
            (0..BATCH_FILES).find_map(|_| small.push(entry.clone())).map_or(0, |batch| batch.len())
        };
        [next(), next()]
    }

    #[test]
    fn batches_end_where_nothing_is_hashed_by_itself() {
        assert_eq!(batches(0), [BATCH_FILES; 2]);
        assert_eq!(batches(4096), [BATCH_FILES; 2]);
        assert_eq!(batches(100_000), [48; 2]);
        // Sixteen more would be too many bytes.
        assert_eq!(batches(600_000), [14; 2]);
        assert_eq!(batches(BATCH_BYTES), [2; 2]);
    }
}
