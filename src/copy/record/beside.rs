//! The lists beside a manifest that goes: they go with it, if they are what its run left there.
//!
//! A name proves nothing: a user may keep a file of that name. A list of ours was last written to when its manifest
//! was, was not touched since, and the first file that it names is one that the manifest lists.

use std::ffi::OsStr;
use std::io;

use crate::hash::Algorithms;
use crate::manifest::lists::Form;
use crate::manifest::{Entries, ManifestName, Parsed};
use crate::sys::Dir;
use crate::sys::stat::{Kind, Stat};

/// So long, in seconds, after its last line a manifest may get its final name: in between, all that was
/// copied is made durable. One whose entry was changed later was copied here, with the time of the
/// original, or touched for a reason that is not known.
const MADE_HERE: i64 = 3600;

/// Whether a file was made where it is, and neither copied there nor touched since.
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

/// Whether the first file that a list names is one that the manifest lists.
fn names_a_file_of(root: &Dir, list: &OsStr, manifest: ManifestName) -> io::Result<bool> {
    let mut first = None;
    each_name(Entries::of_all(root.open_file(list, false)?), |name| {
        first = Some(name.to_vec());
        true
    })?;
    let Some(first) = first else { return Ok(false) };
    // A list of lists among the files names none of these, but one in a directory that has some.
    let endings = [Form::Dirs, Form::Sides].map(|it| it.suffix(Algorithms::default()));
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
