//! Which entries of an output are in the source under another spelling: the output may fold letter case, or forms of
//! Unicode. Such an entry has not left the source.
//!
//! A name that the output finds and does not list stands for one that it lists. What file systems fold differs, and
//! inode numbers do not always tell. So of what seems to be missing it is the entry that is the same but for case and
//! form, or one that is [alike](crate::volume::alike), or else each that has the same size and times. Of several it is
//! the one of the same size and times. Where that leaves a choice, all of them stay. A name that is not copied stands
//! for nothing.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::io;
use std::sync::Arc;

use crate::sys::stat::Stat;
use crate::sys::{Dir, DirReader, ListedEntry};
use crate::volume::alike::{Sameness, fold_simply, form_of, sameness};
use crate::volume::name_set::NameSet;

/// What an entry of the output is in the source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Counterpart {
    /// Nothing.
    None,
    /// What has this name there.
    Named(Arc<OsStr>),
    /// One of several things.
    Unclear,
}

/// A directory that both trees have.
pub struct SpellingLook<'a> {
    pub source: &'a Dir,
    pub output: &'a Dir,
    /// What the output lists.
    pub listed: &'a NameSet,
    /// What it lists that the source does not, byte for byte.
    pub missing: &'a [Arc<OsStr>],
    /// Whether what the source lists is copied.
    pub is_copied: &'a dyn Fn(&ListedEntry) -> io::Result<bool>,
}

impl SpellingLook<'_> {
    /// Which of what is missing the source has under another spelling.
    ///
    /// # Errors
    /// Something could not be looked at, so nothing is known to be missing.
    pub fn run(&self, reader: &mut DirReader) -> io::Result<HashMap<Arc<OsStr>, Counterpart>> {
        let mut found = HashMap::new();
        if self.missing.is_empty() {
            return Ok(found);
        }
        let mut candidates = None;
        // It was listed to its end with the other handle.
        let source = self.source.open_dir(".".as_ref(), false)?;
        loop {
            let batch = reader.next_batch(&source)?;
            if batch.is_empty() {
                return Ok(found);
            }
            for entry in batch {
                if self.listed.has(self.listed.hash(&entry.name)) {
                    continue;
                }
                let Some(there) = stat_if_there(self.output, &entry.name)? else { continue };
                if !(self.is_copied)(&entry)? {
                    continue;
                }
                let name = entry.name;
                let candidates = match &mut candidates {
                    Some(candidates) => candidates,
                    missing => missing.insert(self.candidates()?),
                };
                let same = candidates.of(&name, &there);
                // Of several it is the one that is what the output finds by the new name.
                let is_it = |other: &&Arc<OsStr>| candidates.is_as(other, &there);
                let exact: Vec<_> = same.iter().filter(is_it).collect();
                let same = if exact.len() == 1 { exact } else { same.iter().collect() };
                for other in same.iter().copied() {
                    let is_clear = same.len() == 1 && !found.contains_key(other);
                    let counterpart = match is_clear {
                        true => Counterpart::Named(Arc::clone(&name)),
                        false => Counterpart::Unclear,
                    };
                    found.insert(Arc::clone(other), counterpart);
                }
            }
        }
    }

    fn candidates(&self) -> io::Result<Candidates> {
        let mut candidates = Candidates::default();
        for name in self.missing {
            let add = || Arc::clone(name);
            candidates.by_name.entry(folded(name)).or_default().push(add());
            candidates.by_form.entry(form_of(name.as_encoded_bytes())).or_default().push(add());
            if let Some(stat) = stat_if_there(self.output, name)? {
                candidates.by_stat.entry(sameness(&stat)).or_default().push(add());
            }
        }
        Ok(candidates)
    }
}

/// What seems to be missing, by what may be known of it.
#[derive(Default)]
struct Candidates {
    by_name: HashMap<String, Vec<Arc<OsStr>>>,
    by_form: HashMap<Vec<u8>, Vec<Arc<OsStr>>>,
    by_stat: HashMap<Sameness, Vec<Arc<OsStr>>>,
}

impl Candidates {
    /// Whether this one is what is `there`.
    fn is_as(&self, other: &Arc<OsStr>, there: &Stat) -> bool {
        self.by_stat.get(&sameness(there)).is_some_and(|same| same.contains(other))
    }

    /// What may be the entry that the output finds by this name.
    fn of(&self, name: &OsStr, there: &Stat) -> &[Arc<OsStr>] {
        let by_form = || self.by_form.get(&form_of(name.as_encoded_bytes()));
        let by_stat = || self.by_stat.get(&sameness(there));
        let same = self.by_name.get(&folded(name)).or_else(by_form).or_else(by_stat);
        same.map_or(&[], |same| same)
    }
}

fn folded(name: &OsStr) -> String {
    fold_simply(&name.to_string_lossy())
}

/// What `name` is in `dir`; `None` if nothing is called so, or nothing can be.
fn stat_if_there(dir: &Dir, name: &OsStr) -> io::Result<Option<Stat>> {
    match dir.stat(name, false) {
        Ok(stat) => Ok(Some(stat)),
        Err(error) => match error.kind() {
            io::ErrorKind::NotFound
            | io::ErrorKind::InvalidFilename
            | io::ErrorKind::InvalidInput => Ok(None),
            _ => Err(error),
        },
    }
}
