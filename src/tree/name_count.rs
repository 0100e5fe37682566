//! Counting names on both sides of a run: whether the output has names that the source has not.
//!
//! A run that made nothing found each entry of the source at the output. If the output's directories then list as many
//! names as the source has, they list no others. The walk lists both sides anyway, so that costs nothing.

use std::ffi::OsStr;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use crate::manifest::ManifestName;
use crate::state::private_dir::{NAME, TRASH};
use crate::sys::ListedEntry;
use crate::sys::stat::Kind;

/// The names that a walk met.
pub struct NameCount<'a> {
    at_output: AtomicU64,
    /// Directories of the source with a counterpart.
    dirs: AtomicU64,
    /// Whether something was not counted.
    is_partial: AtomicBool,
    /// Called when a directory of the output has more names than its counterpart.
    has_more: &'a (dyn Fn() + Sync),
}

impl<'a> NameCount<'a> {
    /// One that calls `has_more` as soon as a directory of the output has more names than its counterpart.
    pub fn new(has_more: &'a (dyn Fn() + Sync)) -> Self {
        let (at_output, dirs) = (AtomicU64::new(0), AtomicU64::new(0));
        Self { at_output, dirs, is_partial: AtomicBool::new(false), has_more }
    }

    /// Whether runs keep what is listed so in the root of an output for themselves.
    pub fn is_own(listed: &ListedEntry) -> bool {
        let name = &*listed.name;
        match listed.kind {
            Some(Kind::Dir) => name == NAME || name == TRASH,
            Some(_) => Self::is_as_list(name),
            // A directory is no manifest.
            None => false,
        }
    }

    /// Whether it is called like a manifest, or what lies beside one.
    fn is_as_list(name: &OsStr) -> bool {
        ManifestName::of_any(name).is_some()
    }

    /// A directory of the output lists so many names; not all of them, if `is_partial`.
    pub fn at_output(&self, names: u64, is_partial: bool) {
        self.at_output.fetch_add(names, Relaxed);
        self.is_partial.fetch_or(is_partial, Relaxed);
    }

    /// The root of the source lists these.
    pub fn in_root(&self, listed: &[ListedEntry]) {
        // They are not told from the output's own.
        self.is_partial.fetch_or(listed.iter().any(|it| Self::is_as_list(&it.name)), Relaxed);
    }

    /// A directory of the source has a counterpart.
    pub fn dir(&self) {
        self.dirs.fetch_add(1, Relaxed);
    }

    /// A directory was listed to its end on both sides.
    pub fn compare(&self, in_source: u64, at_output: u64) {
        if at_output > in_source {
            (self.has_more)();
        }
    }

    /// Whether the output has no names besides those of so many `entries` of the source that all are there, and of the
    /// directories that they are in.
    pub fn has_no_others(&self, entries: u64) -> bool {
        let in_source = entries + self.dirs.load(Relaxed);
        !self.is_partial.load(Relaxed) && self.at_output.load(Relaxed) == in_source
    }
}

impl fmt::Debug for NameCount<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NameCount").field("at_output", &self.at_output).finish_non_exhaustive()
    }
}
