//! What a directory lists, looked at: its files in runs, everything else one by one.
//!
//! A look waits for the device, or costs the kernel most of what a walk takes, so where nothing has to be
//! remembered from one entry to the next it may be done beside the walk, by any number of threads.

use std::collections::HashMap;
use std::collections::hash_map::Entry::{Occupied, Vacant};
use std::ffi::{OsStr, OsString};
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::Arc;

use crate::error::Error;
use crate::path::Shown;
use crate::sys::ListedEntry;
use crate::sys::stat::{Identity, Kind, Stat};
use crate::tree::cleanup::Beginning;
use crate::tree::dirs::{Entry, OutputDir, Run, SourceDir};
use crate::tree::filter::Verdict;
use crate::tree::walk::{Emit, Found, Walk};

/// A run of small files ends at this many files. With many, lanes are mostly in different
/// directories and do not wait for each other's changes to one: 50,000 files of 4 KiB, two lanes,
/// tmpfs, relative to 64: 256: 0.97, 1024: 0.96.
const RUN_FILES: usize = 1024;

/// … or at this many bytes, so that lanes stay evenly loaded: about 10 ms of work.
const RUN_BYTES: u64 = 4 << 20;

/// Fewer entries are looked at by the walk itself: handing them on would cost about as much.
const LEAST: usize = 16;

/// How many names of a file with several are still to come, while any are.
pub type Names = HashMap<Identity, u64>;

/// What the walk remembers of a directory while it lists it.
#[derive(Default)]
pub struct Memory {
    /// What killed runs left of files in it, as long as nobody takes it up.
    pub kept: Vec<Beginning>,
    /// The names so far in lower case, where the output takes these for the same.
    folded: HashMap<String, OsString>,
}

impl Memory {
    /// Of a directory where killed runs left this.
    pub fn of(kept: Vec<Beginning>) -> Self {
        Self { kept, ..Self::default() }
    }
}

/// Some of what a directory lists.
pub struct Batch {
    source: Arc<SourceDir>,
    output: Arc<OutputDir>,
    listed: Vec<ListedEntry>,
    /// What the filter said of the directory.
    verdict: Verdict,
}

impl Batch {
    /// The entries `listed` of `source`.
    pub fn new(
        source: &Arc<SourceDir>,
        output: &Arc<OutputDir>,
        mut listed: Vec<ListedEntry>,
        verdict: Verdict,
    ) -> Self {
        // Inode order is close to the order on the disk where listing order is that of a hash
        // (ext4): fewer seeks for the files' inodes and contents.
        listed.sort_unstable_by_key(|listed| listed.ino);
        Self { source: Arc::clone(source), output: Arc::clone(output), listed, verdict }
    }

    fn run_of(&self, files: Vec<Entry>) -> Run {
        Run { source: Arc::clone(&self.source), output: Arc::clone(&self.output), files }
    }
}

impl Walk<'_> {
    /// Parts what may be looked at beside the walk from what may not.
    pub(crate) fn part(&self, mut batch: Batch, memory: &Memory) -> (Batch, Option<Batch>) {
        // What may be a directory is the walk's.
        let remembers = self.hard_links || self.folds || !memory.kept.is_empty();
        if remembers || self.follow || batch.listed.iter().any(|listed| listed.kind.is_none()) {
            return (batch, None);
        }
        let is_dir = |listed: &ListedEntry| listed.kind == Some(Kind::Dir);
        let (dirs, others): (Vec<ListedEntry>, Vec<ListedEntry>) =
            std::mem::take(&mut batch.listed).into_iter().partition(is_dir);
        if others.len() < LEAST {
            batch.listed = dirs.into_iter().chain(others).collect();
            return (batch, None);
        }
        let (source, output) = (Arc::clone(&batch.source), Arc::clone(&batch.output));
        let later = Batch { source, output, listed: others, verdict: batch.verdict };
        batch.listed = dirs;
        (batch, Some(later))
    }

    /// Looks at a batch that the walk left to others, and hands on all of it.
    pub fn look_at(&self, batch: Batch, emit: &mut impl Emit) -> ControlFlow<()> {
        let (source, output) = (Arc::clone(&batch.source), Arc::clone(&batch.output));
        let dirs = self.hand_on(batch, &mut Memory::default(), &mut Names::new(), emit)?;
        for (listed, _) in dirs {
            let finding = "it has become a directory since its own was listed";
            emit(Found::Failed(Error::finding("copy", source.path_of(&listed.name), finding)))?;
        }
        emit(Found::Looked(output))
    }

    /// Hands on all of a batch but the directories, which it returns.
    pub(crate) fn hand_on(
        &self,
        mut batch: Batch,
        memory: &mut Memory,
        names: &mut Names,
        emit: &mut impl Emit,
    ) -> ControlFlow<(), Vec<(ListedEntry, Verdict)>> {
        let mut subdirs = Vec::new();
        let mut run = Vec::with_capacity(batch.listed.len().min(RUN_FILES));
        let mut run_bytes = 0;
        for listed in std::mem::take(&mut batch.listed) {
            let path = match self.filter.is_empty() {
                true => PathBuf::new(),
                false => relative(&batch.source, &listed.name),
            };
            let judge = |is_dir| self.filter.judge(&path, is_dir, batch.verdict);
            let mut kind = listed.kind;
            let mut stat = None;
            if matches!(kind, None | Some(Kind::File)) || kind == Some(Kind::Symlink) {
                if kind.is_some() && !self.follow && judge(false) == Verdict::Out {
                    continue;
                }
                match batch.source.handle.stat(&listed.name, self.follow) {
                    Ok(found) => {
                        kind = Some(found.kind);
                        stat = Some(found);
                    }
                    // What is left out need not be readable.
                    Err(_) if judge(false) == Verdict::Out => continue,
                    Err(error) => {
                        let path = batch.source.path_of(&listed.name);
                        emit(Found::Failed(Error::io("look at", path, error)))?;
                        continue;
                    }
                }
            }
            let kind = kind.unwrap_or(Kind::Device);
            let verdict = judge(kind == Kind::Dir);
            if verdict == Verdict::Out {
                continue;
            }
            if let Some(why) = crate::sys::unusable(&listed.name) {
                let path = batch.source.path_of(&listed.name);
                emit(Found::Failed(Error::finding("copy", path, why)))?;
                continue;
            }
            if let Some(first) = self.same_at_output(memory, &listed.name) {
                let finding = format!(
                    "the output takes this name for the same as {}",
                    Shown::bytes(first.as_encoded_bytes())
                );
                let path = batch.source.path_of(&listed.name);
                emit(Found::Failed(Error::finding("copy", path, finding)))?;
                continue;
            }
            let (source, output) = (&batch.source, &batch.output);
            match (kind, stat) {
                (Kind::Dir, _) => subdirs.push((listed, verdict)),
                (Kind::File, Some(stat)) => {
                    output.announce(1);
                    let entry = Entry { name: listed.name, stat };
                    if self.hard_links && is_further_name(names, &stat) {
                        emit(Found::HardLink(Arc::clone(output), entry))?;
                    } else if stat.size > self.block_size {
                        memory.kept.retain(|beginning| *beginning.name != *entry.name);
                        emit(Found::Files(batch.run_of(vec![entry])))?;
                    } else {
                        run.push(entry);
                        run_bytes += stat.size;
                        if run.len() == RUN_FILES || run_bytes >= RUN_BYTES {
                            emit(Found::Files(batch.run_of(std::mem::take(&mut run))))?;
                            run_bytes = 0;
                        }
                    }
                }
                (Kind::Symlink, Some(stat)) => {
                    output.announce(1);
                    let entry = Entry { name: listed.name, stat };
                    emit(Found::Symlink(Arc::clone(source), Arc::clone(output), entry))?;
                }
                _ => emit(Found::Special(Arc::clone(source), listed, kind))?,
            }
        }
        if !run.is_empty() {
            emit(Found::Files(batch.run_of(run)))?;
        }
        ControlFlow::Continue(subdirs)
    }

    /// Another name in the same directory that the output takes for the same as this one.
    fn same_at_output(&self, memory: &mut Memory, name: &OsStr) -> Option<OsString> {
        if !self.folds {
            return None;
        }
        let folded = name.to_string_lossy().to_lowercase();
        match memory.folded.entry(folded) {
            Occupied(first) => Some(first.get().clone()),
            Vacant(free) => {
                free.insert(name.to_os_string());
                None
            }
        }
    }
}

/// Whether this name of a file was preceded by another; forgets the file after its last name.
fn is_further_name(names: &mut Names, stat: &Stat) -> bool {
    if stat.links < 2 {
        return false;
    }
    if let Some(to_come) = names.get_mut(&stat.id) {
        *to_come -= 1;
        if *to_come == 0 {
            names.remove(&stat.id);
        }
        return true;
    }
    names.insert(stat.id, stat.links - 1);
    false
}

/// The path of an entry below the root, for the filter.
fn relative(source: &SourceDir, name: &OsStr) -> PathBuf {
    let mut path = PathBuf::new();
    path.extend(
        source.rel.path().components().filter_map(|part| crate::sys::name_from_bytes(part).ok()),
    );
    path.push(name);
    path
}
