//! Lists that runs of dircopy left beside their copy: they list files, and are on no list themselves.
//!
//! The lists among the files are those that the list of them beside the manifest has, if they are called as such lists
//! are. A legacy Media Hash List in the root says itself whose it is.

use std::{collections::HashSet, ffi::OsStr, io};

use crate::{
    hash::Algorithms, manifest::Entries, manifest::ListFormat, manifest::ManifestName,
    manifest::Parsed, manifest::archive::mhl::is_legacy_of_ours, path::RelPath, sys::Dir,
    sys::DirListing, verify::NameHasher, verify::expand::open, verify::expand::read_begin,
    verify::lines::seen::ListedRoot,
};

/// Length of the beginning of a Media Hash List that names the program which wrote it; bytes.
const BEGIN: u64 = 4 << 10;

/// The lists that lie beside what is listed below a root.
#[derive(Default)]
pub struct OwnLists {
    /// The hashes of the names of those among the files.
    near: HashSet<u64>,
}

impl OwnLists {
    /// Looks for them. What cannot be read names none.
    pub fn find(listed: &ListedRoot, key: &NameHasher) -> Self {
        let mut found = Self::default();
        if let Ok(root) = listed.target.handle() {
            for form in [ListFormat::Dirs, ListFormat::Sides] {
                // Those of a list that was read before an error are there all the same.
                let _ = found.read(root, form, listed, key);
            }
        }
        found
    }

    fn read(
        &mut self,
        root: &Dir,
        form: ListFormat,
        listed: &ListedRoot,
        key: &NameHasher,
    ) -> io::Result<()> {
        let suffix = form.suffix(Algorithms::default());
        let mut newest = None;
        for entry in DirListing::of(&root.open_dir(".".as_ref(), false)?)? {
            let name = entry?.name;
            // One that is listed came from the source, as did what it lists.
            let is_one = |it: &ManifestName| it.is_finished() && *name == *it.list(suffix);
            let is_free = |_: &ManifestName| !listed.lists(key, &RelPath::root().join(&name));
            newest = ManifestName::of_list(&name).filter(is_one).filter(is_free).max(newest);
        }
        let Some(newest) = newest else { return Ok(()) };
        let mut entries = Entries::of_all(open(root, &newest.list(suffix))?);
        while let Some(entry) = entries.next_entry()? {
            let Parsed::Record(record) = entry.parsed else { continue };
            let Ok(path) = RelPath::parse(record.name) else { continue };
            if path.components().last().is_some_and(|name| form.may_name(name)) {
                self.near.insert(key.of(&path));
            }
        }
        Ok(())
    }

    /// True if the file `name` in `dir`, the last component of the path with this hash, is one of them.
    pub fn has(&self, hash: u64, dir: &Dir, path: &RelPath, name: &OsStr) -> bool {
        let is_in_root = path.components().nth(1).is_none();
        self.near.contains(&hash) || is_in_root && is_legacy(dir, name).unwrap_or(false)
    }
}

/// True if a file is a legacy Media Hash List of ours.
fn is_legacy(dir: &Dir, name: &OsStr) -> io::Result<bool> {
    let Some(name) = name.to_str().filter(|name| name.ends_with(".mhl")) else { return Ok(false) };
    Ok(is_legacy_of_ours(&read_begin(open(dir, name)?, BEGIN)?))
}
