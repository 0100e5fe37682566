//! Looking for files below a root that its manifests do not list.

use std::{convert::Infallible, ffi::OsStr, io};

use crate::{
    error::Error, event::Stop, hash::Algorithms, manifest::ListFormat, manifest::ManifestName,
    manifest::archive::bag::DECLARATION, manifest::archive::bag::PAYLOAD,
    manifest::archive::mhl::CHAIN, manifest::archive::mhl::HISTORY, path::RelPath, path::Shown,
    state::Missing, state::PrivateDir, state::Rescues, state::notes::is_kept_in_the_open,
    state::private_dir::NAME, state::private_dir::TRASH, sys, sys::Dir, sys::DirListing,
    sys::stat::Identity, sys::stat::Kind, sys::stat::Stat, tree::EntryBelow,
    tree::pass::each_below, verify::Finding, verify::NameHasher, verify::SeenNames, verify::Target,
    verify::lines::seen::ListedRoot, verify::own_lists::OwnLists,
};

/// The names that count as listed.
pub struct ListedNames<'a> {
    pub key: &'a NameHasher,
    /// The identities of the manifests of this check.
    pub manifests: &'a [Identity],
    /// Names that were found by another spelling than the listed one.
    pub converted: &'a SeenNames,
    /// Directories with histories of their own, in which files are searched for by these.
    pub histories: &'a [Identity],
}

/// The first file that a history leaves out and no list has, and how many there are.
#[derive(Default)]
struct LeftOutFiles {
    first: Option<RelPath>,
    files: u64,
}

/// Hands every regular file that is not listed to `tell`, and every directory that could not be
/// looked through. Symbolic links are not followed, and dircopy's own lists are not expected on a list, nor is what the
/// history of the root leaves out: how much that is, is told at the end.
pub fn search(
    listed: &ListedRoot,
    known: &ListedNames<'_>,
    stop: &Stop,
    mut tell: impl FnMut(Finding),
) {
    let target = &listed.target;
    let root = match target.handle() {
        Ok(root) => root,
        Err(error) => return tell(Finding::Unsearched(error)),
    };
    // What this user's runs keep for themselves; another directory of that name is a directory like any.
    let private = PrivateDir::open(root, &target.root, None, Missing::Leave);
    let private = private.ok().flatten();
    let (keeps_private, rescues) =
        (private.is_some(), private.as_ref().map(|private| Rescues::read(private, false)));
    let trash = root.open_dir(TRASH.as_ref(), false);
    let keeps_trash = trash.is_ok_and(|trash| trash.is_private().unwrap_or(false));
    let own = OwnLists::find(listed, known.key);
    let mut left_out = LeftOutFiles::default();
    let is_bag = target.part.bag().is_some();
    let is_whole = each_below(root, stop, &mut |found| {
        let EntryBelow { dir, above, name, path, kind } = match found {
            Ok(entry) => entry,
            Err((at, error)) => {
                let deed = "look for files that are not listed in";
                tell(Finding::Unsearched(Error::io(deed, target.path_of(&at), error)));
                return Ok::<_, Infallible>(false);
            }
        };
        let is_in_root = above.is_root();
        match kind {
            // Beside its payload a bag may have what is on no list.
            _ if is_bag && is_in_root && *name != *PAYLOAD => {}
            Kind::Dir if is_in_root && *name == *NAME && keeps_private => {}
            Kind::Dir if is_in_root && *name == *TRASH && keeps_trash => {}
            Kind::Dir => return Ok(!has_history(known, dir, name)),
            // Where nothing can be private.
            Kind::File
                if path.components().eq([NAME.as_bytes(), name.as_encoded_bytes()])
                    && is_note(dir, name) => {}
            Kind::File if is_listed(listed, known, &own, dir, &path) => {}
            Kind::File if rescues.as_ref().is_some_and(|rescues| rescues.have(&path)) => {}
            Kind::File if listed.left_out.leaves_out(&path) => left_out.add(path),
            Kind::File => tell(Finding::Unlisted(path)),
            _ => {}
        }
        Ok(false)
    });
    if is_whole != Ok(true) {
        return;
    }
    left_out.notice(target).into_iter().for_each(tell);
}

impl LeftOutFiles {
    fn add(&mut self, path: RelPath) {
        self.files += 1;
        self.first.get_or_insert(path);
    }

    fn notice(self, target: &Target) -> Option<Finding> {
        let first = target.path_of(&self.first?);
        let first = Shown::path(&first);
        let why = match self.files {
            1 => format!("its history leaves out 1 that is on no list: {first}"),
            files => {
                format!("its history leaves out {files} that are on no list: {first} is the first")
            }
        };
        Some(Finding::Notice(Error::finding("check all files of", &target.root, why)))
    }
}

fn has_history(known: &ListedNames<'_>, dir: &Dir, name: &OsStr) -> bool {
    let is_one = |stat: Stat| known.histories.contains(&stat.id);
    !known.histories.is_empty() && dir.stat(name, false).is_ok_and(is_one)
}

/// True for a file in the directory called [`NAME`] that runs keep where they can keep nothing private.
fn is_note(dir: &Dir, name: &OsStr) -> bool {
    dir.stat(name, false).is_ok_and(|stat| is_kept_in_the_open(name, stat.size))
}

fn is_listed(
    listed: &ListedRoot,
    known: &ListedNames<'_>,
    own: &OwnLists,
    dir: &Dir,
    path: &RelPath,
) -> bool {
    let hash = known.key.of(path);
    if listed.lists(known.key, path) || known.converted.has(hash) {
        return true;
    }
    let Some((above, name)) = path.split() else { return true };
    let Ok(name) = sys::name_from_bytes(name) else { return false };
    let is_ours =
        above.is_root() && ManifestName::of_any(name).is_some() || is_of_history(&above, name);
    let is_manifest = || dir.stat(name, false).is_ok_and(|stat| known.manifests.contains(&stat.id));
    let is_side_file = || {
        let side = listed.target.states_id();
        side.is_some() && dir.stat(name, false).ok().map(|stat| stat.id) == side
    };
    is_ours || is_manifest() || is_side_file() || own.has(hash, dir, path, name)
}

/// True for the chain or a generation of a history of ASC MHL, which lists files and is on no list itself.
fn is_of_history(above: &RelPath, name: &OsStr) -> bool {
    let is_in_history = above.components().last() == Some(HISTORY.as_bytes());
    is_in_history && (name == CHAIN || name.as_encoded_bytes().ends_with(b".mhl"))
}

// The other lists in a directory that could be checked, beside the manifest that is.

/// Number of names that are told.
const MOST: usize = 4;

/// Lists that programs of checksums leave in a directory.
const SUMS: &[u8] = b"SUMS";

/// The endings of the names of lists.
const ENDINGS: &str = "sha256 sha256sum sha512 sha512sum sha1 sha1sum md5 md5sum b3 b3sum xxh64 \
                       sfv hashdeep mtree mhl";

/// The lists in `here` that are neither the manifest `name` nor say the same as it, up to a few, in order. What cannot
/// be looked for is not named.
pub fn other_lists(here: &Dir, name: ManifestName) -> Vec<String> {
    let is_there = |name: &str| {
        let stat = here.stat(name.as_ref(), false);
        stat.is_ok_and(|stat| stat.kind == Kind::File)
    };
    let near = [ListFormat::Dirs, ListFormat::Sides].map(|form| form.suffix(Algorithms::default()));
    let lists = near.map(|suffix| name.list(suffix)).into_iter().filter(|list| is_there(list));
    let mut others: Vec<String> = lists.collect();
    // They are listed by one of these.
    let are_listed = !others.is_empty();
    let chain = is_there_below(here).then(|| format!("{HISTORY}/{CHAIN}"));
    others.extend(chain);
    let is_list = |name: &str| {
        let is_sums = !are_listed && name.as_bytes().ends_with(SUMS);
        name.ends_with(".mhl") || name == DECLARATION || is_sums
    };
    let mut found = found_by_name(here, is_list).unwrap_or_default();
    found.sort();
    found.retain(|name| is_there(name));
    others.extend(found);
    others.truncate(MOST);
    others
}

/// True if there is a history.
fn is_there_below(here: &Dir) -> bool {
    let history = here.open_dir(HISTORY.as_ref(), false);
    let stat = history.and_then(|history| history.stat(CHAIN.as_ref(), false));
    stat.is_ok_and(|stat| stat.kind == Kind::File)
}

/// The files in `here` that are lists by their names, up to a few, in order.
pub fn lists_by_name(here: &Dir) -> Vec<String> {
    let is_list = |name: &str| {
        let of_sums = name.as_bytes().ends_with(SUMS);
        let ending = name.rsplit_once('.').map(|(_, ending)| ending.to_ascii_lowercase());
        of_sums || ending.is_some_and(|ending| ENDINGS.split(' ').any(|known| known == ending))
    };
    let is_file =
        |name: &String| here.stat(name.as_ref(), false).is_ok_and(|stat| stat.kind == Kind::File);
    let mut found = found_by_name(here, is_list).unwrap_or_default();
    found.retain(is_file);
    found.sort();
    found
}

fn found_by_name(here: &Dir, is_list: impl Fn(&str) -> bool) -> io::Result<Vec<String>> {
    let mut found = Vec::new();
    for entry in DirListing::of(here)? {
        let name = entry?.name;
        if let Some(name) = name.to_str().filter(|name| is_list(name)) {
            found.push(name.to_owned());
        }
        if found.len() == MOST {
            break;
        }
    }
    Ok(found)
}
