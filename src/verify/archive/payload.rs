//! A bag after its manifests were read: whether every file of the payload is in each of them.

use std::ffi::OsStr;
use std::io;

use crate::error::Error;
use crate::event::Stop;
use crate::path::RelPath;
use crate::sys::stat::Kind;
use crate::sys::{Dir, DirReader};
use crate::verify::archive::expanded::Bag;
use crate::verify::archive::unknown_list::UnknownList;
use crate::verify::finding::Finding;
use crate::verify::lines::lines_read::ListedRoot;
use crate::verify::lines::seen::{NameHasher, SeenNames};
use crate::verify::target::Target;

/// The names that the manifests of a bag list.
pub struct BagNames<'a> {
    /// Makes their hashes.
    pub key: &'a NameHasher,
    /// The manifests of the bag.
    pub listed: &'a ListedRoot,
    /// Names that were found by another spelling.
    pub converted: &'a SeenNames,
}

/// What of the payload there is.
#[derive(Default)]
struct PayloadSize {
    bytes: u64,
    files: u64,
}

/// Tells what is in the payload and not in each manifest, and whether it is as much as `bag-info.txt` says.
pub fn search(
    bag: &Bag,
    names: &BagNames<'_>,
    stop: &Stop,
    mut tell: impl FnMut(&Target, Finding),
) {
    let root = match bag.target.handle() {
        Ok(root) => root,
        Err(error) => return tell(&bag.target, Finding::Unsearched(error)),
    };
    names.tag_lists(bag, &mut tell);
    let unknown = unknown_lists(bag, names, &mut tell);
    let (mut sum, mut dirs) = (PayloadSize::default(), Vec::new());
    if root.stat("data".as_ref(), false).is_ok_and(|stat| stat.kind == Kind::Dir) {
        dirs.push(RelPath::root().join("data".as_ref()));
    }
    let mut listing = DirReader::default();
    while let Some(path) = dirs.pop() {
        if stop.is_requested() {
            return;
        }
        let opened = root.open_below(&path);
        let searched = opened.and_then(|dir| {
            loop {
                let batch = listing.next_batch(&dir)?;
                if batch.is_empty() {
                    return Ok(());
                }
                for entry in batch {
                    let below = path.join(&entry.name);
                    match look(&dir, &entry.name, &mut sum)? {
                        Kind::Dir => dirs.push(below),
                        _ => names.tell_unlisted(&below, &unknown, &mut tell),
                    }
                }
            }
        });
        if let Err(error) = searched {
            let error = Error::io(
                "look for files that are not listed in",
                bag.target.path_of(&path),
                error,
            );
            return tell(&bag.target, Finding::Unsearched(error));
        }
    }
    if let Some((bytes, files)) = bag.oxum.filter(|said| *said != (sum.bytes, sum.files)) {
        let why = format!(
            "it says that the payload has {bytes} bytes in {files} files, and there are {} in {}",
            sum.bytes, sum.files
        );
        let path = bag.target.root.join("bag-info.txt");
        tell(&bag.target, Finding::Incomplete(Error::finding("take for complete", path, why)));
    }
}

/// The manifests of the payload whose digests cannot be checked.
fn unknown_lists(
    bag: &Bag,
    names: &BagNames<'_>,
    tell: &mut impl FnMut(&Target, Finding),
) -> Vec<UnknownList> {
    let mut lists = Vec::new();
    for name in &bag.unknown {
        match UnknownList::read(bag, name, names.key, tell) {
            Ok(list) => lists.push(list),
            Err(error) => tell(&bag.target, Finding::Unusable(error)),
        }
    }
    lists
}

/// What an entry is; a file is counted.
fn look(dir: &Dir, name: &OsStr, sum: &mut PayloadSize) -> io::Result<Kind> {
    let stat = dir.stat(name, false)?;
    if stat.kind == Kind::File {
        sum.bytes += stat.size;
        sum.files += 1;
    }
    Ok(stat.kind)
}

impl BagNames<'_> {
    /// Tells each manifest of the payload that does not list the path.
    fn tell_unlisted(
        &self,
        path: &RelPath,
        unknown: &[UnknownList],
        tell: &mut impl FnMut(&Target, Finding),
    ) {
        let hash = self.key.of(path);
        if self.converted.has(hash) {
            return;
        }
        for list in &self.listed.names {
            let is_payload = list.target.part.bag().is_some_and(|bag| !bag.is_tag);
            if is_payload && !list.names.has(hash) {
                tell(&list.target, Finding::Unlisted(path.clone()));
            }
        }
        for list in unknown.iter().filter(|list| !list.has(hash)) {
            tell(&list.target, Finding::Unlisted(path.clone()));
        }
    }

    /// Tells which lists of tag files do not have each manifest of the payload.
    fn tag_lists(&self, bag: &Bag, tell: &mut impl FnMut(&Target, Finding)) {
        for list in &self.listed.names {
            if list.target.part.bag().is_none_or(|bag| !bag.is_tag) {
                continue;
            }
            for name in bag.manifests.iter().chain(&bag.unknown) {
                let path = RelPath::root().join(name.as_ref());
                if !list.names.has(self.key.of(&path)) {
                    tell(&list.target, Finding::Unlisted(path));
                }
            }
        }
    }
}
