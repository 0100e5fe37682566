//! What tells one list or tree at a place from another: when it was made, its bytes, and whose runs made it.

use std::{collections::BTreeSet, fs::File, io, path::Path};

use crate::{
    error::{Deed, Error, Result},
    hash::Algorithm,
    io::ReadBack,
    manifest::{ManifestName, Stamp, archive::mhl::HISTORY, lists::is_span_index},
    state::PrivateDir,
    sys::{Dir, DirListing, Medium, stat::Kind},
};

/// The error about an index.
const INDEX: &str = "it is the index of a span, which says what is on other disks and is no place: give these disks, \
                     or the manifest of each";

const READ: &str = "read the lists in";

/// When the run began that made a list, by its name; 0 if that does not tell, or is still to come.
pub fn time_of_list(list: &Path) -> u32 {
    let name = list.file_name().and_then(ManifestName::of_any);
    let time = name.filter(|name| !name.is_ahead()).map(|name| name.time().as_second());
    time.and_then(|time| u32::try_from(time).ok()).unwrap_or(0)
}

/// The name of the run that made a list, by that of the list: it may have made several of the same disk.
pub fn name_of_run(list: &Path) -> Option<String> {
    Some(format!("run {}", list.file_name().and_then(Stamp::of_list)?))
}

/// Refuses the index of a span as the list of a place: what it has is on other disks.
///
/// # Errors
/// It is one, or cannot be read.
pub fn refuse_index(list: &Path, file: &File) -> Result<()> {
    match is_span_index(file).deed("read the list", list)? {
        true => Err(Error::finding("take the list", list, INDEX)),
        false => Ok(()),
    }
}

/// The name of a list by its bytes.
///
/// # Errors
/// It cannot be read.
pub fn sum_of(file: &File) -> io::Result<String> {
    let hashed = ReadBack::new().hash(Medium::any(file), Algorithm::Sha256, || false, |_| ())?;
    let digest = hashed.and_then(|hashed| hashed.digest).ok_or(io::ErrorKind::Interrupted)?;
    Ok(format!("list {digest}"))
}

/// The name of a tree by the secret of its runs, if one is known; a disk that was copied as a whole has it, too.
pub fn name_of_runs(root: &Dir, path: &Path, state: Option<&Path>) -> Option<String> {
    let private = PrivateDir::consult(root, path, state).ok()??;
    let secret = private.known_secret().ok()??;
    Some(format!("runs {:?}", secret.of_receipts()))
}

/// The names by their bytes of all files that may be one of the lists with these sizes, whatever they are called. They
/// are where runs and other programs leave lists: in the root of a tree, and in its ASC MHL history.
///
/// # Errors
/// One cannot be read.
pub fn sums_of_sizes(tree: &Path, sizes: &BTreeSet<u64>) -> Result<BTreeSet<String>> {
    let mut sums = BTreeSet::new();
    if sizes.is_empty() {
        return Ok(sums);
    }
    let (root, history) = (Dir::open(tree).deed(READ, tree)?, tree.join(HISTORY));
    add_sums(&root, tree, sizes, &mut sums)?;
    let there = root.stat(HISTORY.as_ref(), false).if_there().deed(READ, &history)?;
    if there.is_some_and(|stat| stat.kind == Kind::Dir) {
        let dir = root.open_dir(HISTORY.as_ref(), false).deed(READ, &history)?;
        add_sums(&dir, &history, sizes, &mut sums)?;
    }
    Ok(sums)
}

fn add_sums(
    dir: &Dir,
    path: &Path,
    sizes: &BTreeSet<u64>,
    sums: &mut BTreeSet<String>,
) -> Result<()> {
    for entry in DirListing::of(dir).deed(READ, path)? {
        let name = entry.deed(READ, path)?.name;
        let of_file = || path.join(&*name);
        let Some(stat) = dir.stat(&name, false).if_there().deed("look at", of_file())? else {
            continue;
        };
        if stat.kind == Kind::File && sizes.contains(&stat.size) {
            let file = dir.open_file(&name, false).deed("open the list", of_file())?;
            sums.insert(sum_of(&file).deed("read the list", of_file())?);
        }
    }
    Ok(())
}
