//! What a directory that has no manifest to check has instead: a run that is at work, lists of other programs, or an
//! output in it or above.

use std::path::{Path, PathBuf};

use crate::{
    path::Shown, state::Missing, state::PrivateDir, state::private_dir::NAME, sys::Dir,
    sys::DirListing, tree::cleanup::known_holder, verify::has_own_manifest,
    verify::unlisted::lists_by_name,
};

/// The run that is at work on the output at `dir`, if the system tells of one.
pub fn at_work(dir: &Path) -> Option<String> {
    let private = PrivateDir::open(&Dir::open(dir).ok()?, dir, None, Missing::Leave).ok()??;
    private.locked().find_map(known_holder)
}

/// Advice on checking a directory without a manifest of dircopy.
pub fn remedy(dir: &Path) -> String {
    let here = Dir::open(dir).ok();
    let entries = here.as_ref().and_then(|here| DirListing::of(here).ok());
    if entries.is_some_and(|mut entries| entries.next().is_none()) {
        return "it is empty: is its disk mounted?".to_owned();
    }
    let lists = here.map(|here| lists_by_name(&here)).unwrap_or_default();
    let at = |name: &String| Shown::path(&dir.join(name)).to_string();
    match &lists[..] {
        [] => match &outputs_near(dir)[..] {
            [] => "dircopy verify --manifest LIST checks it by another, dircopy heal TREE --from-tree takes \
                   from it"
                .to_owned(),
            [near] => format!("there is one in {}: name that", Shown::path(near)),
            [near, ..] => format!(
                "there is one in {}, and there are others: name each ({})",
                Shown::path(near),
                Shown::path(&dir.join("*"))
            ),
        },
        [one] => format!("to check it by the list in it, give --manifest {}", at(one)),
        [first, ..] => {
            let all = lists.join(", ");
            format!(
                "it has lists ({all}): give each that is to be checked, as in --manifest {}",
                at(first)
            )
        }
    }
}

/// So many entries of a directory are looked into.
const MOST_LOOKED_INTO: usize = 1000;

/// The output in a directory, or the one that it is in.
pub fn output_near(dir: &Path) -> Option<PathBuf> {
    outputs_near(dir).into_iter().next()
}

fn outputs_near(dir: &Path) -> Vec<PathBuf> {
    near(dir, |path| path.join(NAME).is_dir() || has_own_manifest(path, None))
}

/// The directory above this one that is one, or else two in it that are, if there are two.
pub fn near(dir: &Path, is_one: impl Fn(&Path) -> bool) -> Vec<PathBuf> {
    let full = dir.canonicalize().unwrap_or_default();
    if let Some(above) = full.ancestors().skip(1).find(|above| is_one(above)) {
        return vec![above.to_path_buf()];
    }
    let listing = Dir::open(dir).and_then(|dir| DirListing::of(&dir));
    let listed = listing.into_iter().flatten().filter_map(Result::ok).take(MOST_LOOKED_INTO);
    let below = listed.map(|listed| dir.join(&*listed.name)).filter(|path| path.is_dir());
    below.filter(|path| is_one(path)).take(2).collect()
}
