//! Media Hash Lists as they are written: the generations of histories, and legacy lists.

use std::{io, path::Path, path::PathBuf, sync::Arc};

use jiff::Timestamp;

use crate::{
    copy::list_file::ListFile, copy::list_file::ListWriting, copy::media::one_history::HistoryRoot,
    copy::media::one_history::MediaRole, error::Deed, error::Error, error::Result, hash::Algorithm,
    hash::Digest, manifest::Creator, manifest::HashAction, manifest::KeptFile,
    manifest::MediaEntry, manifest::MhlWriter, manifest::archive::mhl::OF_LEGACY,
    manifest::archive::mhl_writer::is_text, path::RelPath, sys, sys::Dir, sys::stat::Time,
    tree::JoinReader, tree::PathRecord, tree::SortedRecords,
};

// A Media Hash List while it is written.

/// The means to write lists, and their permissions.
#[derive(Clone, Copy)]
pub struct MediaWriting<'a> {
    pub lists: ListWriting<'a>,
    pub mode: u32,
}

impl MediaWriting<'_> {
    /// Gives a list its name, in place of what has it if it `replaces` that; returns its C4 digest.
    ///
    /// # Errors
    /// It cannot be written, or is not on its medium as it was written: it is removed.
    pub fn publish(self, mut list: ListFile<'_>, replaces: bool) -> Result<Digest> {
        if !list.end(|_| self.mode)? {
            let stopped = Err(io::ErrorKind::Interrupted.into());
            return stopped.deed("read back", list.path());
        }
        list.publish(replaces)?;
        list.persist_name()?;
        Ok(list.digests()?.proof)
    }
}

// Dates, names and orders as Media Hash Lists have them, and who writes them.

/// A name of a directory is no longer than this in the name of a list; bytes.
const MOST_NAME: usize = 180;

/// Who writes the lists of a run that began then.
pub fn creator(started: Timestamp) -> Creator {
    let user = ["USER", "LOGNAME", "USERNAME"].into_iter().find_map(|it| std::env::var(it).ok());
    let text = |text: String| if is_text(text.as_bytes()) { text } else { String::new() };
    Creator {
        host: text(sys::host_name()),
        user: text(user.unwrap_or_else(|| "unknown".into())),
        started: date(started),
        finished: date(Timestamp::now()),
    }
}

/// The path below the directory `rel`, as text.
pub fn below<'p>(path: &'p [u8], rel: &RelPath) -> Option<&'p str> {
    let rest = match rel.is_root() {
        true => path,
        false => path.strip_prefix(rel.as_bytes())?.strip_prefix(b"/")?,
    };
    std::str::from_utf8(rest).ok().filter(|text| !text.is_empty() && is_text(rest))
}

/// The name of a directory, as the name of its lists has it.
pub fn folder(path: &Path) -> String {
    let whole = path.canonicalize();
    let name = whole.as_deref().unwrap_or(path).file_name().unwrap_or_default();
    let name = name.to_string_lossy().replace(|c: char| c.is_control() || "/\\:".contains(c), "_");
    let mut end = name.len().min(MOST_NAME);
    while !name.is_char_boundary(end) {
        end -= 1;
    }
    if end == 0 { "root".into() } else { name[..end].to_owned() }
}

/// Where an algorithm stands in the order of a schema.
pub fn place(algorithm: Algorithm, order: &[Algorithm]) -> usize {
    order.iter().position(|it| *it == algorithm).unwrap_or(order.len())
}

/// The digests in the order of a schema.
pub fn ordered(digests: &[Digest], order: &[Algorithm]) -> Vec<Digest> {
    let mut digests = digests.to_vec();
    digests.sort_by_key(|digest| place(digest.algorithm(), order));
    digests
}

/// A moment as XML has it.
pub fn date(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%S+00:00").to_string()
}

/// A time of a file as XML has it.
pub fn date_of(time: Time) -> String {
    date(Timestamp::from_second(time.secs).unwrap_or_default())
}

// A legacy Media Hash List (1.1) of what a run listed.

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
    let mut files = JoinReader::of(kept).map_err(fail)?;
    if files.peek().is_none() {
        return Ok(None);
    }
    let path = root.path.join(free_name(role, root));
    let creator = creator(role.started);
    let creator =
        Creator { started: zulu(&creator.started), finished: zulu(&creator.finished), ..creator };
    let dir = Arc::new(root.dir.try_clone().deed("begin", &path)?);
    let file = ListFile::new(with.lists, &dir, path.clone()).begin()?;
    let mut list = MhlWriter::legacy(file, &creator).map_err(fail)?;
    let filled = fill(&mut list, role, root.dir, &mut files, &creator.finished);
    let empty = match filled {
        Ok(empty) => empty,
        Err(error) => {
            list.discard().discard();
            return Err(fail(error));
        }
    };
    with.publish(list.finish_legacy().map_err(fail)?, false)?;
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
    list: &mut MhlWriter<ListFile<'_>>,
    role: &MediaRole,
    root: &Dir,
    files: &mut JoinReader,
    date: &str,
) -> io::Result<u64> {
    let (mut done, mut empty) = (None, 0);
    while let Some(record) = files.take()? {
        let (words, path) = PathRecord::told(&record);
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
