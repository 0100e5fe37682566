//! What else in a directory could be checked, beside the manifest that is.

use std::io;

use crate::hash::Algorithms;
use crate::manifest::ManifestName;
use crate::manifest::archive::bag::DECLARATION;
use crate::manifest::archive::mhl::{CHAIN, HISTORY};
use crate::manifest::lists::Form;
use crate::sys::stat::Kind;
use crate::sys::{Dir, DirListing};

/// So many are named.
const MOST: usize = 4;

/// Lists that programs of checksums leave in a directory.
const SUMS: &[u8] = b"SUMS";

/// What the names of lists end with.
const ENDINGS: [&str; 15] = [
    "sha256",
    "sha256sum",
    "sha512",
    "sha512sum",
    "sha1",
    "sha1sum",
    "md5",
    "md5sum",
    "b3",
    "b3sum",
    "xxh64",
    "sfv",
    "hashdeep",
    "mtree",
    "mhl",
];

/// The lists in `here` that are neither the manifest `name` nor say the same as it, up to a few, in order. What cannot
/// be looked for is not named.
pub fn other_lists(here: &Dir, name: ManifestName) -> Vec<String> {
    let is_there = |name: &str| {
        let stat = here.stat(name.as_ref(), false);
        stat.is_ok_and(|stat| stat.kind == Kind::File)
    };
    let near = [Form::Dirs, Form::Sides].map(|form| form.suffix(Algorithms::default()));
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

/// Whether there is a history.
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
        of_sums || ending.is_some_and(|ending| ENDINGS.contains(&&*ending))
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
