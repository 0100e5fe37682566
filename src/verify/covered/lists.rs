//! What tells one list or tree at a place from another: when it was made, its bytes, and whose runs made it.

use std::{collections::BTreeSet, ffi::OsStr, fs::File, io, path::Path, path::PathBuf};

use crate::{
    error::{Deed, Error, Result},
    hash::Algorithm,
    io::ReadBack,
    manifest::{ManifestName, Stamp, lists::is_span_index},
    state::PrivateDir,
    sys::{Dir, DirListing, Medium, stat::Kind},
};

/// By what given lists are known again where they lie elsewhere too.
#[derive(Default)]
pub struct Known {
    /// Their names by their bytes and by their runs.
    pub names: BTreeSet<String>,
    /// Their sizes. Only a file of one of these may have their bytes.
    pub sizes: BTreeSet<u64>,
}

impl Known {
    /// The names among these that a file has.
    ///
    /// # Errors
    /// It may be one of the lists, and cannot be read.
    pub fn names_of(&self, dir: &Dir, name: &OsStr, size: u64) -> io::Result<Vec<&String>> {
        let mut found: Vec<_> =
            name_of_run(name).and_then(|run| self.names.get(&run)).into_iter().collect();
        if self.sizes.contains(&size) {
            let sum = dir.open_file(name, false).and_then(|file| sum_of(&file))?;
            found.extend(self.names.get(&sum));
        }
        Ok(found)
    }

    /// The directories above a tree, on its file system, in which one of the lists lies too, each with its name. One
    /// that cannot be looked at has none.
    pub fn above(&self, tree: &Path) -> Vec<Above> {
        let mut found = Vec::new();
        let (of_tree, dirs) = (device(tree), tree.ancestors().skip(1));
        for path in dirs.take_while(|dir| !self.names.is_empty() && device(dir) == of_tree) {
            let Ok(dir) = Dir::open(path) else { continue };
            let Ok(listing) = DirListing::of(&dir) else { continue };
            for name in listing.map_while(io::Result::ok).map(|listed| listed.name) {
                let Ok(stat) = dir.stat(&name, false) else { continue };
                let names = match stat.kind {
                    Kind::File => self.names_of(&dir, &name, stat.size).unwrap_or_default(),
                    _ => continue,
                };
                let at = |name: &String| Above { dir: path.to_path_buf(), name: name.clone() };
                found.extend(names.into_iter().map(at));
            }
        }
        found
    }
}

/// The device of a directory, if it can be looked at.
fn device(dir: &Path) -> Option<u64> {
    Dir::open(dir).ok()?.identity().ok().map(|id| id.dev)
}

/// The directories above a tree, on its file system, in or below which a list lies: its names may begin there.
pub fn starts(list: &Path, tree: &Path) -> Vec<PathBuf> {
    let of_tree = device(tree);
    let dirs = list.ancestors().skip(1).filter(|dir| tree != *dir && tree.starts_with(dir));
    dirs.filter(|dir| device(dir) == of_tree).map(Path::to_path_buf).collect()
}

/// A list above a tree.
pub struct Above {
    pub dir: PathBuf,
    pub name: String,
}

/// A given list, and what its names begin with if it is of a tree.
pub struct Prefix {
    /// The number of its place.
    pub list: usize,
    pub names: Vec<u8>,
    /// The number of the place that has the tree; none for the source.
    pub of: Option<usize>,
}

impl Prefix {
    /// True if a name of the list begins so. On Windows a backslash stands between names.
    pub fn begins(&self, name: &[u8]) -> bool {
        let is_same = |(one, other): (&u8, &u8)| one == other || (*one, *other) == (b'/', b'\\');
        name.len() >= self.names.len() && self.names.iter().zip(name).all(is_same)
    }
}

/// The error about an index.
const INDEX: &str = "it is the index of a span, which says what is on other disks and is no place: give these disks, \
                     or the manifest of each";

/// When the run began that made a list, by its name; 0 if that does not tell, or is still to come.
pub fn time_of_list(list: &Path) -> u32 {
    let name = list.file_name().and_then(ManifestName::of_any);
    let time = name.filter(|name| !name.is_ahead()).map(|name| name.time().as_second());
    time.and_then(|time| u32::try_from(time).ok()).unwrap_or(0)
}

/// The name of the run that made a list, by that of the list: it may have made several of the same disk.
pub fn name_of_run(list: &OsStr) -> Option<String> {
    Some(format!("run {}", Stamp::of_list(list)?))
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
