//! A listed name that is there in another letter case or Unicode form: a bag that was made where these mean nothing has
//! such names, and a copy of it has the files under one of them.

use std::ffi::OsStr;
use std::sync::Arc;

use unicode_normalization::UnicodeNormalization;

use crate::sys::{Dir, DirListing};

/// A directory with more entries than this is not looked through.
const MOST_ENTRIES: usize = 10_000;

/// The one entry of `dir` whose name differs from `name` in letter case and Unicode form alone, if there is exactly
/// one.
pub fn find(dir: &Dir, name: &str) -> Option<Arc<OsStr>> {
    let wanted = folded(name);
    let mut found = None;
    for (seen, entry) in DirListing::of(dir).ok()?.enumerate() {
        let name = entry.ok()?.name;
        let is_it = name.to_str().is_some_and(|name| folded(name) == wanted);
        let is_second = is_it && found.replace(name).is_some();
        if is_second || seen >= MOST_ENTRIES {
            return None;
        }
    }
    found
}

/// The name without what tells letter case and forms apart.
fn folded(name: &str) -> String {
    name.nfd().flat_map(char::to_lowercase).nfd().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_entry_of_another_form_is_found() {
        let root = tempfile::tempdir().unwrap();
        for name in ["N\u{fa}\u{f1}ez", "Straße", "tw\u{f3}", "two\u{301}"] {
            std::fs::write(root.path().join(name), "").unwrap();
        }
        let dir = Dir::open(root.path()).unwrap();
        let found = |name: &str| find(&dir, name).map(|it| it.to_string_lossy().into_owned());
        assert_eq!(found("nu\u{301}n\u{303}ez").as_deref(), Some("N\u{fa}\u{f1}ez"));
        assert_eq!(found("STRASSE"), None);
        assert_eq!(found("TW\u{d3}"), None, "which of both is not known");
        assert_eq!(found("three"), None);
    }
}
