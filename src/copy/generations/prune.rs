//! Removing from an unfinished tree what is not in the source as it was then, so that the run goes on with the rest.
//!
//! The tree is one that a run left unfinished, or a snapshot of the last generation that was made a moment ago. In both
//! only what its record proves stays, as where files are [shared](super::seed). Nothing here is in a complete tree: a
//! file that is removed from a snapshot stays in the generation it was taken of.

use std::ffi::OsStr;
use std::io;

use crate::copy::generations::seed::is_as;
use crate::copy::mirror::trash::remove_tree;
use crate::event::Stop;
use crate::manifest::ManifestName;
use crate::path::RelPath;
use crate::state::knowledge::{Belief, Knowledge};
use crate::state::private_dir::NAME;
use crate::sys::stat::{Kind, Stat};
use crate::sys::{Dir, DirReader, is_journal_name, is_part_name};
use crate::tree::classify::Classifier;
use crate::tree::dirs::open_source_below;
use crate::tree::filter::Inclusion;

/// An unfinished tree, and what it is held against.
pub struct Pruning<'a> {
    pub new: &'a Dir,
    pub source: &'a Dir,
    /// What the tree's own record says of it.
    pub known: &'a Knowledge,
    pub classifier: Classifier<'a>,
    pub stop: &'a Stop,
}

/// A directory that both have.
struct PrunedDir {
    new: Dir,
    source: Dir,
    rel: RelPath,
    inclusion: Inclusion,
}

impl Pruning<'_> {
    /// Removes what is not as the source is. Beginnings of large files stay: the copy looks after them. How many files
    /// stay.
    ///
    /// # Errors
    /// The tree cannot be listed, or something cannot be removed.
    pub fn run(&self) -> io::Result<u64> {
        let (mut todo, mut reader) =
            (vec![(RelPath::root(), self.classifier.filter.root())], DirReader::default());
        let mut kept = 0;
        while let Some((rel, inclusion)) = todo.pop() {
            if self.stop.is_requested() {
                break;
            }
            let new = self.new.open_below(&rel)?.open_dir(".".as_ref(), false)?;
            // Without its counterpart by now it is the copy's to name.
            let Ok(source) = open_source_below(self.source, &rel, self.classifier.follow) else {
                continue;
            };
            new.open_up(&new.stat_self()?)?;
            let dir = PrunedDir { new, source, rel, inclusion };
            let mut names = Vec::new();
            loop {
                let batch = reader.next_batch(&dir.new)?;
                if batch.is_empty() {
                    break;
                }
                names.extend(batch.into_iter().map(|listed| listed.name));
            }
            for name in names {
                kept += u64::from(self.judge(&dir, &name, &mut todo)?);
            }
        }
        Ok(kept)
    }

    /// Removes an entry that is not to stay; whether it is a file that stays. A directory that stays is to be looked
    /// through.
    fn judge(
        &self,
        dir: &PrunedDir,
        name: &OsStr,
        todo: &mut Vec<(RelPath, Inclusion)>,
    ) -> io::Result<bool> {
        let path = dir.rel.join(name);
        let is_leftover = is_part_name(name) || is_journal_name(name);
        let is_list = || ManifestName::of_any(name).is_some() && !self.known.lists(path.as_bytes());
        if is_leftover || dir.rel.is_root() && (*name == *NAME || is_list()) {
            return Ok(false);
        }
        let there = dir.new.stat(name, false)?;
        let is_dir = there.kind == Kind::Dir;
        let inclusion = self.classifier.filter.judge(path.as_bytes(), is_dir, dir.inclusion);
        let counterpart = dir.source.stat(name, self.classifier.follow).ok();
        match counterpart.filter(|_| inclusion != Inclusion::Out) {
            Some(stat) if is_dir && stat.kind == Kind::Dir && self.enters(dir, &stat)? => {
                todo.push((path, inclusion));
            }
            Some(stat) if self.proves(path.as_bytes(), &stat, &there) => return Ok(true),
            Some(stat) if self.is_same_link(dir, name, &stat, &there) => {}
            _ if is_dir => drop(remove_tree(&dir.new, name, self.stop, &mut Dir::remove)?),
            _ => dir.new.remove(name)?,
        }
        Ok(false)
    }

    /// Whether the copy goes on in the directory `stat` of the source, which is in `dir`.
    fn enters(&self, dir: &PrunedDir, stat: &Stat) -> io::Result<bool> {
        Ok(!self.classifier.one_file_system || dir.source.identity()?.dev == stat.id.dev)
    }

    /// Whether a file is what the source had when it was recorded, and the source has the same still.
    fn proves(&self, path: &[u8], source: &Stat, there: &Stat) -> bool {
        let is_untouched = || matches!(self.known.belief(path, there), Belief::Untouched(..));
        is_as(source, there) && is_untouched()
    }

    /// Whether a link leads where that of the source does, which was not changed since.
    fn is_same_link(&self, dir: &PrunedDir, name: &OsStr, source: &Stat, there: &Stat) -> bool {
        let is_link = |stat: &Stat| stat.kind == Kind::Symlink;
        let target = |dir: &Dir| dir.read_link(name).ok();
        self.classifier.links
            && is_link(source)
            && is_link(there)
            && source.ctime < there.ctime
            && source.mtime.is_stored_as(there.mtime)
            && target(&dir.source).is_some_and(|it| Some(it) == target(&dir.new))
    }
}
