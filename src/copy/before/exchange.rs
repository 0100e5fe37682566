//! Whether source and output were probably exchanged: the source is an output of this user's runs, and what is at the
//! output is what it was copied from.
//!
//! The private note of a source knows that directory exactly. But it lies where the run kept its records (`--state`),
//! and says nothing of an archive that was itself copied, or of a source that was moved to another disk. There the
//! manifests tell: the source has one, what it lists is at the output too, and the output has none of its own.

use std::io;
use std::path::Path;

use crate::manifest::carry::ours;
use crate::manifest::{Entries, ManifestName, Parsed};
use crate::path::RelPath;
use crate::state::private_dir::{Missing, PrivateDir, PrivatePlace};
use crate::state::source_mark::SourceMark;
use crate::sys::stat::Kind;
use crate::sys::{Dir, name_from_bytes};
use crate::tree::last_dir::LastDir;

/// So many lines of a manifest are looked for at the output: one that is there is enough.
const LOOKED_FOR: usize = 1000;

/// One of both, opened.
#[derive(Clone, Copy)]
pub(super) struct Side<'a> {
    pub root: &'a Dir,
    pub path: &'a Path,
}

/// Source and output.
pub(super) struct Exchange<'a> {
    pub source: Side<'a>,
    pub output: Side<'a>,
    /// Where the run has its private directory.
    pub place: PrivatePlace<'a>,
}

impl Exchange<'_> {
    /// Whether the source was copied from what is at the output, and that is not a copy of the source. What is not
    /// this user's, or cannot be read, says nothing.
    pub fn is_likely(&self) -> bool {
        let (source, output) = (self.source.root, self.output.root);
        let known = self.known_source(self.output);
        // After something was brought back both are copies of each other; then the output knows the source.
        if known.as_ref().is_some_and(|known| known.is_of(source)) {
            return false;
        }
        if self.known_source(self.source).is_some_and(|known| known.is_of(output)) {
            return true;
        }
        // In a bag, or a generation, there is nothing of the archive that it is a part of.
        let is_whole = matches!(self.place, PrivatePlace::InOutput | PrivatePlace::Among(_));
        // A run to it was on its way.
        let is_begun = known.is_none() && self.output.private(PrivatePlace::InOutput).is_some();
        is_whole && !is_begun && is_listed_by(source, output).unwrap_or(false)
    }

    /// What the last complete run into a directory noted of its source, wherever this run keeps its records.
    fn known_source(&self, side: Side<'_>) -> Option<SourceMark> {
        let elsewhere = Some(self.place).filter(|place| matches!(place, PrivatePlace::Among(_)));
        let mut places = elsewhere.into_iter().chain([PrivatePlace::InOutput]);
        places.find_map(|place| SourceMark::read(&side.private(place)?))
    }
}

impl Side<'_> {
    fn private(&self, place: PrivatePlace<'_>) -> Option<PrivateDir> {
        PrivateDir::open_at(self.root, self.path, place, Missing::Leave).ok().flatten()
    }
}

/// Whether the newest manifest in the root of `source`, which this user's runs wrote, lists what is in `output`,
/// although that was no output of them: it has neither this manifest nor one of its own.
fn is_listed_by(source: &Dir, output: &Dir) -> io::Result<bool> {
    let is_ours = |root: &Dir, name: &ManifestName| {
        let stat = root.stat(name.to_string().as_ref(), false);
        stat.is_ok_and(|stat| stat.kind == Kind::File && Dir::is_kept_by_us(&stat))
    };
    let mut names = ours(source, |_| false, None)?.into_iter();
    let newest = names.find(|name| name.is_finished() && is_ours(source, name));
    let Some(newest) = newest.map(|name| name.to_string()) else { return Ok(false) };
    let has = |root: &Dir, name: &str| root.stat(name.as_ref(), false).is_ok();
    let of_output = ours(output, |name| source.stat(name, false).is_ok(), None)?;
    if has(output, &newest) || of_output.iter().any(|name| is_ours(output, name)) {
        return Ok(false);
    }
    let file = source.open_file(newest.as_ref(), false)?;
    let (mut entries, mut last) = (Entries::of_all(file), LastDir::default());
    for _ in 0..LOOKED_FOR {
        let Some(entry) = entries.next_entry()? else { break };
        let Parsed::Record(record) = entry.parsed else { continue };
        // What has the name of a manifest may have come with the source.
        let is_list =
            name_from_bytes(record.name).is_ok_and(|it| ManifestName::of_any(it).is_some());
        let path = RelPath::parse(record.name).ok().filter(|_| !is_list);
        let stat = path.and_then(|path| last.stat(output, &path, false).ok());
        if stat.is_some_and(|stat| stat.kind == Kind::File) {
            return Ok(true);
        }
    }
    Ok(false)
}
