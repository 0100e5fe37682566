//! Removing old manifests from an output, so that a job that runs every night does not fill it.
//!
//! Only finished manifests of dircopy go, the oldest first, and only after a run that left a newer one
//! and in which nothing was amiss. A manifest that is part of what was copied is a file like any other:
//! it is in the source, or, if it has left the source since, it is listed in the newest manifest, where
//! none of ours is, or, if it was touched since, its times show that it was not made here.

use std::collections::BTreeSet;
use std::num::NonZero;
use std::path::Path;
use std::sync::Arc;

use crate::chain::side_file::SideFile;
use crate::error::{Error, Result};
use crate::manifest::carry::ours;
use crate::manifest::{Entries, ManifestName, Parsed};
use crate::sys::Dir;
use crate::sys::stat::{Kind, Stat};
use crate::tree::dirs::{OutputDir, SourceDir};

/// So long, in seconds, after its last line a manifest may get its final name: in between, all that was
/// copied is made durable. One whose entry was changed later was copied here, with the time of the
/// original, or touched for a reason that is not known.
const MADE_HERE: i64 = 3600;

/// How many manifests stay.
pub struct Rotation {
    /// The newest so many stay, the one of this run among them.
    pub keep: NonZero<usize>,
    /// The root of the source.
    pub source: Arc<SourceDir>,
}

impl Rotation {
    /// Removes old manifests from the root of the output; `newest` is the path of the one just
    /// published there. Returns the names of those removed.
    pub fn run(&self, output: &OutputDir, newest: &Path) -> (Vec<ManifestName>, Option<Error>) {
        let Some(root) = &output.handle else { return (Vec::new(), None) };
        let mut removed = Vec::new();
        let done = self.surplus(root, output, newest).and_then(|surplus| {
            surplus.into_iter().try_for_each(|name| {
                let file_name = name.to_string();
                root.remove(file_name.as_ref()).map_err(|error| {
                    Error::io("remove the old manifest", output.path_of(file_name.as_ref()), error)
                })?;
                self.remove_states(root, name);
                self.remove_lists(root, name);
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
        let is_copied = self.source.handle.stat(states.as_ref(), false).is_ok();
        let file = || root.open_file(states.as_ref(), false);
        if !is_copied && file().is_ok_and(|file| SideFile::is_one(&file)) {
            let _ = root.remove(states.as_ref());
        }
    }

    /// Removes the lists beside a manifest that went, unless they are files of the source.
    fn remove_lists(&self, root: &Dir, name: ManifestName) {
        for list in name.lists() {
            if self.source.handle.stat(list.as_ref(), false).is_err() {
                let _ = root.remove(list.as_ref());
            }
        }
    }

    /// Those that are to go, the oldest last.
    fn surplus(&self, root: &Dir, output: &OutputDir, newest: &Path) -> Result<Vec<ManifestName>> {
        let fail = |error| Error::io("look for old manifests in", output.path(), error);
        let is_in_source = |name: &std::ffi::OsStr| self.source.handle.stat(name, false).is_ok();
        let Some(newest) = newest.file_name().and_then(ManifestName::parse) else {
            return Ok(Vec::new());
        };
        let mut finished: Vec<ManifestName> = ours(root, is_in_source).map_err(fail)?;
        // One with a later name, by a clock that went wrong, is no reason to lose the newest.
        finished.retain(|name| {
            let is_made_here = |stat: Stat| {
                stat.kind == Kind::File && stat.ctime.secs - stat.mtime.secs <= MADE_HERE
            };
            let stat = |name: String| root.stat(name.as_ref(), false);
            name.is_finished() && *name != newest && stat(name.to_string()).is_ok_and(is_made_here)
        });
        if finished.len() < self.keep.get() {
            return Ok(Vec::new());
        }
        // What only has the name of a manifest is a file of the user.
        finished.retain(|name| begins_as_one(root, *name));
        let copied = listed(root, newest, &finished).map_err(fail)?;
        finished.retain(|name| !copied.contains(name));
        Ok(finished.split_off(finished.len().min(self.keep.get() - 1)))
    }
}

/// Whether the first line of a file is one of a manifest. An empty one may be anything.
fn begins_as_one(root: &Dir, name: ManifestName) -> bool {
    let Ok(file) = root.open_file(name.to_string().as_ref(), false) else { return false };
    let mut entries = Entries::new(file);
    entries
        .next_entry()
        .is_ok_and(|first| first.is_some_and(|first| matches!(first.parsed, Parsed::Record(_))))
}

/// Which of `names` the manifest `newest` lists.
fn listed(
    root: &Dir,
    newest: ManifestName,
    names: &[ManifestName],
) -> std::io::Result<BTreeSet<ManifestName>> {
    let names: Vec<(String, ManifestName)> = names.iter().map(|n| (n.to_string(), *n)).collect();
    let file = root.open_file(newest.to_string().as_ref(), false)?;
    let (mut entries, mut found) = (Entries::new(file), BTreeSet::new());
    while let Some(entry) = entries.next_entry()? {
        let Parsed::Record(record) = entry.parsed else { continue };
        if record.name.starts_with(b"dircopy-") {
            found.extend(names.iter().filter(|(n, _)| n.as_bytes() == record.name).map(|n| n.1));
        }
    }
    Ok(found)
}
