//! The manifests beside the one that a check goes by: each is told, for it may be the one that holds.

use crate::{manifest::ManifestName, manifest::readers::is_of_stranger, sys::Dir};

/// A manifest that may be taken for the one that holds, or was taken for want of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rival {
    /// It has a later name than the one that this user's last run finished, and is not checked.
    Unrecorded(ManifestName),
    /// The same of one that is not of the future and that only this user may write: a run of his may have made it.
    Doubtful(ManifestName),
    /// The same of one that is another user's, whose the directory is not.
    OfStranger(ManifestName),
    /// A later run finished it: what that run replaced is not as the given manifest says.
    Superseding(ManifestName),
    /// It has a later name, and is listed by another: it came from a source, and is not checked.
    Listed(ManifestName),
    /// It has a name of the future, and is not checked.
    Ahead(ManifestName),
    /// The one that is checked has a name of the future, and there is no other.
    OnlyAhead,
    /// It lists other files or digests than the one that is checked, and no record tells which holds.
    Unlike(ManifestName),
    /// So many files are there that earlier ones list, and the one that is checked does not: runs left them out.
    Dropped(u64),
    /// The last run finished the one that is checked, and left out so many entries of its source.
    NotAll(u64),
    /// A run that lists nothing began after the one that is checked was finished, or a plan that is not finished.
    Unlisted,
}

impl Rival {
    /// The rival of this name in `here` of the one that the last run on record finished.
    pub fn unrecorded(here: &Dir, later: ManifestName) -> Self {
        if is_of_stranger(here, &later) {
            return Self::OfStranger(later);
        }
        let stat = here.stat(later.to_string().as_ref(), false);
        match stat.is_ok_and(|stat| Dir::is_kept_by_us(&stat)) && !later.is_ahead() {
            true => Self::Doubtful(later),
            false => Self::Unrecorded(later),
        }
    }
}
