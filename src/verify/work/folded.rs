//! A listed name that is there in another letter case or Unicode form: a bag that was made where these mean nothing has
//! such names, and a copy of it has the files under one of them.

use std::ffi::OsStr;
use std::sync::Arc;

use unicode_normalization::UnicodeNormalization;

use crate::sys::{Dir, DirReader};

/// A directory with more entries than this is not looked through.
const MOST_ENTRIES: usize = 10_000;

/// The one entry of `dir` whose name differs from `name` in letter case and Unicode form alone, if there is exactly
/// one.
pub fn find(dir: &Dir, name: &str) -> Option<Arc<OsStr>> {
    let wanted = folded(name);
    // The handle has one position for all.
    let dir = dir.open_dir(".".as_ref(), false).ok()?;
    let (mut reader, mut seen, mut found) = (DirReader::default(), 0, None);
    loop {
        let batch = reader.next_batch(&dir).ok()?;
        if batch.is_empty() {
            return found;
        }
        seen += batch.len();
        let is_it = |name: &OsStr| name.to_str().is_some_and(|name| folded(name) == wanted);
        for entry in batch.into_iter().filter(|entry| is_it(&entry.name)) {
            if found.replace(entry.name).is_some() {
                return None;
            }
        }
        if seen > MOST_ENTRIES {
            return None;
        }
    }
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
