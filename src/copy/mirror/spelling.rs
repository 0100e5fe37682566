//! Which entries of an output are in the source under another spelling: the output may fold letter case, or forms of
//! Unicode. Such an entry has not left the source.
//!
//! A name that the output finds and does not list stands for one that it lists. What file systems fold differs, and
//! inode numbers do not always tell. So of what seems to be missing it is the entry that is the same but for case and
//! form, or else each that has the same size and times. Where that leaves a choice, all of them stay.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::io;
use std::sync::Arc;

use unicode_normalization::UnicodeNormalization;

use crate::copy::mirror::name_set::NameSet;
use crate::sys::stat::{Kind, Stat, Time};
use crate::sys::{Dir, DirReader};

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
}

/// By what an entry is known again where its inode number is another for each name.
type Sameness = (Kind, u64, Time, Time);

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
        let (mut by_name, mut by_stat) = (None, None);
        // It was listed to its end with the other handle.
        let source = self.source.open_dir(".".as_ref(), false)?;
        loop {
            let batch = reader.next_batch(&source)?;
            if batch.is_empty() {
                return Ok(found);
            }
            for name in batch.into_iter().map(|listed| listed.name) {
                if self.listed.has(self.listed.hash(&name)) {
                    continue;
                }
                let Some(there) = stat_if_there(self.output, &name)? else { continue };
                let by_name = by_name.get_or_insert_with(|| self.by_name());
                let same = match by_name.get(&folded(&name)) {
                    Some(same) => same,
                    None => {
                        let by_stat = match &mut by_stat {
                            Some(by_stat) => by_stat,
                            missing => missing.insert(self.by_stat()?),
                        };
                        by_stat.get(&sameness(&there)).map_or(&[][..], |same| same)
                    }
                };
                for other in same {
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

    fn by_name(&self) -> HashMap<String, Vec<Arc<OsStr>>> {
        let mut names: HashMap<_, Vec<_>> = HashMap::new();
        for name in self.missing {
            names.entry(folded(name)).or_default().push(Arc::clone(name));
        }
        names
    }

    fn by_stat(&self) -> io::Result<HashMap<Sameness, Vec<Arc<OsStr>>>> {
        let mut names: HashMap<_, Vec<_>> = HashMap::new();
        for name in self.missing {
            if let Some(stat) = stat_if_there(self.output, name)? {
                names.entry(sameness(&stat)).or_default().push(Arc::clone(name));
            }
        }
        Ok(names)
    }
}

fn folded(name: &OsStr) -> String {
    fold(&name.to_string_lossy())
}

/// The text without what tells letter case and forms of Unicode apart.
pub fn fold(text: &str) -> String {
    text.to_lowercase().nfc().collect()
}

fn sameness(stat: &Stat) -> Sameness {
    (stat.kind, stat.size, stat.mtime, stat.ctime)
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
