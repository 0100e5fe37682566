//! Removing what a killed run left behind: part files that nobody will finish, and their journals.
//!
//! Only in directories that are copied to, and only what has the name of a part file or a journal and
//! is not in the source. No other run can be at work on them: each output is locked while it is
//! written. What stays is the part file whose journal says that it is the beginning of a file that the
//! source still has in the same version.

use std::ffi::{OsStr, OsString};
use std::io;

use crate::error::{Error, Result};
use crate::sys::stat::Kind;
use crate::sys::{Listing, is_journal_name, is_part_name};
use crate::tree::dirs::{OutputDir, SourceDir};
use crate::tree::journal::{Journal, Version};

/// The beginning of a large file that a killed run left.
#[derive(Debug)]
pub struct Beginning {
    /// The name that the file is to have.
    pub name: OsString,
    part: OsString,
    journal: OsString,
}

/// What was done about what killed runs left in a directory.
#[derive(Debug, Default)]
pub struct Swept {
    /// What was removed.
    pub removed: Vec<OsString>,
    /// What stays to be gone on with.
    pub kept: Vec<Beginning>,
    /// The first error; what else could be removed is.
    pub error: Option<Error>,
}

/// Removes what nobody will finish from an output directory that was there already. Beginnings of
/// files larger than `resumable` stay; without, none do. Links in the source stand for what they point
/// to if `follow`.
pub fn sweep(
    source: &SourceDir,
    output: &OutputDir,
    listing: &mut Listing,
    resumable: Option<u64>,
    follow: bool,
) -> Swept {
    let mut swept = Swept::default();
    let Some(dir) = output.handle.as_ref().filter(|_| !output.fresh) else { return swept };
    let (mut parts, mut journals) = (Vec::new(), Vec::new());
    loop {
        let batch = match listing.next_batch(dir) {
            Ok(batch) if batch.is_empty() => break,
            Ok(batch) => batch,
            Err(error) => {
                swept.error = Some(Error::io("look for old part files in", output.path(), error));
                break;
            }
        };
        for listed in batch {
            let names = match &listed.name {
                name if is_part_name(name) => &mut parts,
                name if is_journal_name(name) => &mut journals,
                _ => continue,
            };
            let absent = source.handle.stat(&listed.name, false).err();
            if absent.is_some_and(|error| error.kind() == io::ErrorKind::NotFound) {
                names.push(listed.name.to_os_string());
            }
        }
    }
    for journal in journals {
        let beginning = resumable.and_then(|more_than| {
            let found = Journal::open(dir, &journal).ok()??;
            let now = source.handle.stat(&found.subject.name, follow).ok()?;
            let same = now.kind == Kind::File && found.subject.source == Version::of(&now);
            let at = parts.iter().position(|part| *part == found.subject.part)?;
            (same && now.size > more_than && found.checkpoint.is_some())
                .then(|| (found.subject.name, parts.swap_remove(at)))
        });
        match beginning {
            Some((name, part)) => swept.kept.push(Beginning { name, part, journal }),
            None => swept.remove(output, journal),
        }
    }
    parts.into_iter().for_each(|part| swept.remove(output, part));
    swept
}

/// Removes beginnings that the run does not go on with after all.
pub fn remove_kept(output: &OutputDir, kept: Vec<Beginning>) -> Swept {
    let mut swept = Swept::default();
    for Beginning { part, journal, .. } in kept {
        swept.remove(output, journal);
        swept.remove(output, part);
    }
    swept
}

impl Swept {
    /// Removes a part file or a journal.
    pub fn remove(&mut self, output: &OutputDir, name: OsString) {
        match remove(output, &name) {
            Ok(true) => self.removed.push(name),
            Ok(false) => {}
            Err(error) => drop(self.error.get_or_insert(error)),
        }
    }
}

/// Removes a part file or a journal; whether it was there.
pub fn remove(output: &OutputDir, name: &OsStr) -> Result<bool> {
    match output.handle.as_ref().map(|dir| dir.remove(name)) {
        Some(Ok(())) => Ok(true),
        Some(Err(error)) if error.kind() != io::ErrorKind::NotFound => {
            Err(Error::io("remove the old part file", output.path_of(name), error))
        }
        _ => Ok(false),
    }
}
