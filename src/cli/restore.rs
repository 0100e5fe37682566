//! What `dircopy restore` brings back: a tree and the manifest that proves it, found in a copy, in generations or in a
//! bag.

use std::path::{Path, PathBuf};

use crate::{
    cli::show::rows::typed, copy::GenerationSet, copy::generations::set::path_of, error::Deed,
    error::Error, error::Result, manifest::Entries, manifest::ManifestName, manifest::Parsed,
    state::private_dir, sys, sys::Dir, sys::DirListing, sys::PlainUse, verify::has_own_manifest,
    verify::own_manifest,
};

/// A tree that can be proven.
#[derive(Debug)]
pub struct ProvenTree {
    /// Where it is.
    pub source: PathBuf,
    /// The manifest, or the bag.
    pub manifest: PathBuf,
    /// The names in its root that runs keep for themselves.
    pub own: Vec<String>,
}

impl ProvenTree {
    /// The tree at `path`, to be proven by the list `given`, if there is one.
    ///
    /// # Errors
    /// There is none, or nothing proves it.
    pub fn find(path: &Path, given: Option<&Path>) -> Result<Self> {
        if path.is_file() {
            let (tree, below) = tree_of(path);
            let finding = format!(
                "it is a file, and its tree has the manifest: name that, and the file with --include: dircopy restore \
                 {} DST --include {}",
                typed(&tree),
                typed(&below)
            );
            return Err(Error::finding("restore", path, finding));
        }
        let root = Dir::open(path).deed("open", path)?;
        if given.is_none() && path.join("bagit.txt").is_file() {
            let source = path.join("data");
            return Ok(Self { source, manifest: path.to_path_buf(), own: Vec::new() });
        }
        let newest = GenerationSet::read(&root, path)?.newest();
        if let Some(newest) = newest.filter(|_| !has_own_manifest(path, None)) {
            return Self::find(&path_of(path, newest), given);
        }
        let manifest = match given {
            Some(given) => given.to_path_buf(),
            None => match has_own_manifest(path, None) {
                true => own_manifest(path)?,
                false => {
                    let finding = "it has no manifest of dircopy that would prove it: --expect LIST names one of \
                                   another program, and dircopy TREE DST copies it as it is";
                    return Err(Error::finding("restore", path, finding));
                }
            },
        };
        let own = own_names(&root, path, &manifest)?;
        Ok(Self { source: path.to_path_buf(), manifest, own })
    }
}

/// The tree that a file is in, which is the nearest directory above with a manifest, and the file's pattern there.
fn tree_of(file: &Path) -> (PathBuf, PathBuf) {
    let is_bag = |dir: &Path| dir.join("bagit.txt").is_file();
    let is_tree = |dir: &&Path| has_own_manifest(dir, None) || is_bag(dir);
    let Some(tree) = file.ancestors().skip(1).find(is_tree) else {
        return ("TREE".into(), "/PATH".into());
    };
    let payload = if is_bag(tree) { tree.join("data") } else { tree.to_path_buf() };
    let below = file.strip_prefix(payload).unwrap_or(file);
    (tree.to_path_buf(), Path::new("/").join(below))
}

/// The names in a root that runs keep for themselves, but for those that the manifest lists: they came from a source.
fn own_names(root: &Dir, path: &Path, manifest: &Path) -> Result<Vec<String>> {
    let mut own = Vec::new();
    for listed in DirListing::of(root).deed("list", path)? {
        let name = listed.deed("list", path)?.name;
        let is_private = *name == *private_dir::NAME || *name == *private_dir::TRASH;
        let is_own = is_private || ManifestName::of_any(&name).is_some();
        own.extend(name.to_str().filter(|_| is_own).map(str::to_owned));
    }
    let file = sys::open_plain(manifest, PlainUse::Read).deed("read the manifest", manifest)?;
    let mut entries = Entries::of_all(file);
    while let Some(entry) = entries.next_entry().deed("read the manifest", manifest)? {
        let Parsed::Record(record) = entry.parsed else { continue };
        own.retain(|name| name.as_bytes() != record.name);
    }
    Ok(own)
}
