//! A legacy Media Hash List (1.1) of what a run listed.

use std::io;
use std::path::PathBuf;

use crate::copy::media::known::HistoryRoot;
use crate::copy::media::records::{PathReader, PathRecord};
use crate::copy::media::role::MediaRole;
use crate::copy::media::write::file::{MediaFile, MediaWriting};
use crate::copy::media::write::words::{creator, date_of, folder, ordered};
use crate::error::{Error, Result};
use crate::manifest::archive::mhl::OF_LEGACY;
use crate::manifest::archive::mhl_writer::{Creator, HashAction, MediaEntry, MhlWriter, is_text};
use crate::manifest::lists::KeptFile;
use crate::path::RelPath;
use crate::sys::{self, Dir};
use crate::tree::names::sorter::SortedRecords;

const DEED: &str = "write the Media Hash List of";

/// Writes the list at `root` by what the run `kept` of its files; returns where it is, if there was anything to write.
///
/// # Errors
/// It cannot be written.
pub fn write(
    role: &MediaRole,
    with: MediaWriting<'_>,
    root: HistoryRoot<'_>,
    kept: &SortedRecords,
) -> Result<Option<PathBuf>> {
    let fail = |error| Error::io(DEED, root.path, error);
    let mut files = PathReader::of(kept).map_err(fail)?;
    if files.peek().is_none() {
        return Ok(None);
    }
    let stamp = role.started.strftime("%Y-%m-%d_%H%M%S");
    let name = format!("{}_{stamp}.mhl", folder(root.path));
    let path = root.path.join(name);
    let creator = creator(role.started);
    let creator =
        Creator { started: zulu(&creator.started), finished: zulu(&creator.finished), ..creator };
    let file = MediaFile::begin(with, root.dir, path.clone())?;
    let mut list = MhlWriter::legacy(file, &creator).map_err(fail)?;
    if let Err(error) = fill(&mut list, role, root.dir, &mut files, &creator.finished) {
        list.discard().discard();
        return Err(fail(error));
    }
    list.finish_legacy().map_err(fail)?.publish(false)?;
    Ok(Some(path))
}

/// Lists the files, each once; what is not there any more is left out.
fn fill(
    list: &mut MhlWriter<MediaFile<'_>>,
    role: &MediaRole,
    root: &Dir,
    files: &mut PathReader,
    date: &str,
) -> io::Result<()> {
    let mut done = None;
    while let Some(record) = files.take()? {
        let PathRecord { words, path } = PathRecord::of(&record);
        let kept = KeptFile::parse(words, role.algorithms);
        let (Some(kept), Ok(text)) = (kept, std::str::from_utf8(path)) else { continue };
        if done.as_deref() == Some(path) || !is_text(path) {
            continue;
        }
        let Ok(modified) = modified(root, path) else { continue };
        let file = MediaEntry {
            path: text,
            size: kept.size,
            modified,
            digests: &ordered(&kept.digests, &OF_LEGACY),
            action: HashAction::Original,
            read: None,
            previous: None,
        };
        list.legacy_file(&file, date)?;
        done = Some(path.to_vec());
    }
    Ok(())
}

/// A date as legacy lists have it.
fn zulu(date: &str) -> String {
    date.replace("+00:00", "Z")
}

/// When the file at `path` was last changed, as XML has it.
fn modified(root: &Dir, path: &[u8]) -> io::Result<String> {
    let rel = RelPath::parse(path).unwrap_or_default();
    let Some((above, name)) = rel.split() else { return Err(io::ErrorKind::NotFound.into()) };
    let dir = root.open_below(&above)?;
    Ok(zulu(&date_of(dir.stat(sys::name_from_bytes(name)?, false)?.mtime)))
}
