//! A legacy Media Hash List (1.1) of what a run listed.

use std::io;
use std::path::PathBuf;

use crate::copy::media::one_history::HistoryRoot;
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
    warn: &mut dyn FnMut(Error),
) -> Result<Option<PathBuf>> {
    let fail = |error| Error::io(DEED, root.path, error);
    let mut files = PathReader::of(kept).map_err(fail)?;
    if files.peek().is_none() {
        return Ok(None);
    }
    let path = root.path.join(free_name(role, root));
    let creator = creator(role.started);
    let creator =
        Creator { started: zulu(&creator.started), finished: zulu(&creator.finished), ..creator };
    let file = MediaFile::begin(with, root.dir, path.clone())?;
    let mut list = MhlWriter::legacy(file, &creator).map_err(fail)?;
    let filled = fill(&mut list, role, root.dir, &mut files, &creator.finished);
    let empty = match filled {
        Ok(empty) => empty,
        Err(error) => {
            list.discard().discard();
            return Err(fail(error));
        }
    };
    list.finish_legacy().map_err(fail)?.publish(false)?;
    if empty > 0 {
        let finding = format!(
            "{empty} of its files are empty; it lists them with size 0, as other programs do, which its schema does not \
             have (--format mhl has it)"
        );
        warn(Error::finding("write by the schema the legacy list", &path, finding));
    }
    Ok(Some(path))
}

/// Lists the files, each once, and returns how many are empty; what is not there any more is left out.
fn fill(
    list: &mut MhlWriter<MediaFile<'_>>,
    role: &MediaRole,
    root: &Dir,
    files: &mut PathReader,
    date: &str,
) -> io::Result<u64> {
    let (mut done, mut empty) = (None, 0);
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
        empty += u64::from(kept.size == 0);
        done = Some(path.to_vec());
    }
    Ok(empty)
}

/// A date as legacy lists have it.
fn zulu(date: &str) -> String {
    date.replace("+00:00", "Z")
}

/// The name of the list, with a number where something has it: a run of the same second, or a file of the source.
fn free_name(role: &MediaRole, root: HistoryRoot<'_>) -> String {
    const MOST: u32 = 10_000;
    let stamp = role.started.strftime("%Y-%m-%d_%H%M%S");
    let begin = format!("{}_{stamp}", folder(root.path));
    let numbered = (2..MOST).map(|number| format!("{begin}_{number}.mhl"));
    let mut names = std::iter::once(format!("{begin}.mhl")).chain(numbered);
    let is_free = |name: &String| {
        let stat = root.dir.stat(name.as_ref(), false);
        stat.is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
    };
    // Where none is free, publishing says so.
    names.find(is_free).unwrap_or_else(|| format!("{begin}.mhl"))
}

/// When the file at `path` was last changed, as XML has it.
fn modified(root: &Dir, path: &[u8]) -> io::Result<String> {
    let rel = RelPath::parse(path).unwrap_or_default();
    let Some((above, name)) = rel.split() else { return Err(io::ErrorKind::NotFound.into()) };
    let dir = root.open_below(&above)?;
    Ok(zulu(&date_of(dir.stat(sys::name_from_bytes(name)?, false)?.mtime)))
}
