//! Removing old manifests from an output, so that a job that runs every night does not fill it.
//!
//! Only finished manifests of dircopy go, the oldest first, and only after a run that left a newer one
//! and in which nothing was amiss. A manifest that is part of what was copied is a file like any other:
//! it is in the source, or, if it has left the source since, it is listed in the newest manifest, where
//! none of ours is, or, if it was touched since, its times show that it was not made here.

use std::{collections::BTreeSet, ffi::OsStr, fmt, io, num::NonZero, path::Path, sync::Arc};

use jiff::{SignedDuration, Timestamp, civil::DateTime, tz::Offset};

use crate::{
    chain::side_file::SideFile, copy::CopyJob, copy::commit::Committer, copy::record::beside,
    copy::record::beside::is_made_here, error::Deed, error::Error, error::Result, hash::Algorithms,
    manifest::Entries, manifest::Form, manifest::ManifestName, manifest::Parsed,
    manifest::readers::ours, sys::Dir, sys::DirListing, sys::ListedEntry, sys::stat::Kind,
    tree::OutputDir, tree::SourceDir,
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
    /// published there. Returns the names of those removed.
    pub fn run(&self, output: &OutputDir, newest: &Path) -> (Vec<ManifestName>, Option<Error>) {
        let Some(root) = &output.handle else { return (Vec::new(), None) };
        let mut removed = Vec::new();
        if self.in_generation {
            return (removed, clear(root, output, newest).err());
        }
        let done = self.surplus(root, output, newest).and_then(|(surplus, listed)| {
            let is_copied = |name: &OsStr| {
                self.is_in_source(name) || name.to_str().is_some_and(|name| listed.contains(name))
            };
            surplus.into_iter().try_for_each(|name| {
                let file_name = name.to_string();
                // They are known by what it lists.
                let lists = beside::lists_of(root, name, &is_copied);
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
            name.is_finished() && *name != newest && is_made_here()
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
    let list = |entry: &ListedEntry| {
        let name = ManifestName::of_list(&entry.name).filter(ManifestName::is_finished)?;
        (*entry.name == *name.list(suffix)).then_some(name)
    };
    DirListing::of(root)?.try_fold(None, |newest, entry| Ok(list(&entry?).max(newest)))
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
        for form in [Form::Dirs, Form::Sides] {
            let suffix = form.suffix(Algorithms::default());
            // What cannot be looked for is not told.
            let Ok(Some(newest)) = newest_with(handle, suffix) else { continue };
            let list = newest.list(suffix);
            let is_of_run = ManifestName::parse(name).is_some_and(|it| it.list(suffix) == list);
            // A list that came with the source belongs to the source.
            let is_copied = known.has_heard_of(list.as_bytes());
            let is_ours = handle.stat(list.as_ref(), false).is_ok_and(|stat| is_made_here(&stat));
            if is_of_run || is_copied || !is_ours {
                continue;
            }
            let finding = format!(
                "this run copied files, and was not told to write them anew: run it again with --format {suffix}, or \
                 remove them and {list}, which lists them"
            );
            let path = root.path_of("".as_ref());
            self.accounting.warn(&Error::finding(
                "vouch for the lists among the files of",
                path,
                finding,
            ));
        }
    }
}

// The name of a directory that a run makes for itself: when the run began, as `2026-11-21T020000Z`, in UTC. Names
// sort by time.

/// A time in whole seconds, as the name of a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct DatedName(Timestamp);

impl DatedName {
    /// The date of a run that began at `time`.
    pub fn new(time: Timestamp) -> Self {
        let time = Timestamp::from_second(time.as_second()).unwrap_or(time);
        Self(time.max(Timestamp::UNIX_EPOCH))
    }

    /// `None` if the text is not what [`Display`](fmt::Display) writes.
    pub fn parse(text: &str) -> Option<Self> {
        let time = DateTime::strptime("%Y-%m-%dT%H%M%SZ", text).ok()?;
        let name = Self(Offset::UTC.to_timestamp(time).ok()?);
        (name.to_string() == text).then_some(name)
    }

    /// The one to try when this one is taken.
    pub fn next(self) -> Option<Self> {
        self.0.checked_add(SignedDuration::from_secs(1)).ok().map(Self)
    }

    pub fn time(self) -> Timestamp {
        self.0
    }
}

impl fmt::Display for DatedName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let t = Offset::UTC.to_datetime(self.0);
        let (year, month, day) = (t.year(), t.month(), t.day());
        let (hour, minute, second) = (t.hour(), t.minute(), t.second());
        write!(f, "{year:04}-{month:02}-{day:02}T{hour:02}{minute:02}{second:02}Z")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_read_as_it_is_written() {
        let name = DatedName::parse("2026-11-21T020000Z").unwrap();
        assert_eq!(name.to_string(), "2026-11-21T020000Z");
        assert_eq!(name.next().unwrap().to_string(), "2026-11-21T020001Z");
        for text in ["2026-11-21T020000", "2026-11-21T0200Z", "2026-1-21T020000Z", "latest", ""] {
            assert_eq!(DatedName::parse(text), None, "{text}");
        }
    }
}
