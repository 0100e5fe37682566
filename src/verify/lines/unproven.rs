//! Entries of a Media Hash List that have no digest that can be checked: one that failed, or of a kind that is not
//! computed here. Their files are looked for, and no more is known of them.

use crate::error::Error;
use crate::manifest::Fault;
use crate::path::RelPath;
use crate::sys::stat::Kind;
use crate::tree::last_dir::LastDir;
use crate::verify::finding::Finding;
use crate::verify::target::Target;

/// Entries with digests that are not computed here.
pub struct Unproven {
    /// The line of the first.
    line: u64,
    algorithm: &'static str,
    entries: u64,
}

impl Unproven {
    /// Counts an entry, if its digest is by another `algorithm`. Of one that failed, older generations have more.
    pub fn count(all: &mut Option<Self>, line: u64, algorithm: Option<&'static str>) {
        if let Some(algorithm) = algorithm {
            all.get_or_insert(Self { line, algorithm, entries: 0 }).entries += 1;
        }
    }

    /// They leave the check without an end, and where there are no other entries the list is none that can be checked.
    pub fn finding(&self, target: &Target, is_beside: bool) -> Finding {
        let Self { line, algorithm, entries } = *self;
        if !is_beside {
            return Finding::Malformed { line, fault: Fault::NotComputed(algorithm) };
        }
        let why = format!(
            "{entries} of its entries have no digest that can be checked; the first, on line {line}, has {algorithm}"
        );
        Finding::Broken(Error::finding("check all files of", &target.manifest, why))
    }
}

/// Whether there is a regular file. Where that cannot be found out, what checks it tells.
pub fn is_there(target: &Target, path: &RelPath) -> bool {
    let Ok(root) = target.handle() else { return true };
    LastDir::default().stat(root, path, false).is_ok_and(|stat| stat.kind == Kind::File)
}
