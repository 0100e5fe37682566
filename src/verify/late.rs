//! What a check of an output reads after its device was away, or the machine was restarted.

use std::{path::Path, path::PathBuf, sync::Arc};

use crate::{
    error::Error, state::Missing, state::PrivateDir, state::plugs::LateCheck,
    state::plugs::Replugged, sys::Dir, verify::Finding, verify::PartOf, verify::Target,
};

/// The check of the own manifest of an output, which begins with the first of its files.
#[derive(Debug)]
pub struct LateReading {
    /// Where private directories are kept, if not in the output.
    elsewhere: Option<PathBuf>,
    begun: Option<(Arc<Target>, Option<LateCheck>)>,
}

impl LateReading {
    /// Nothing is read yet; private directories are `elsewhere`, if that is given.
    pub fn new(elsewhere: Option<PathBuf>) -> Self {
        Self { elsewhere, begun: None }
    }

    /// True if the device of the output `dir` was away since files were recorded there.
    pub fn may_begin(&self, dir: &Path) -> bool {
        let Ok(root) = Dir::open(dir) else { return false };
        let private = PrivateDir::open(&root, dir, self.elsewhere.as_deref(), Missing::Leave);
        private.ok().flatten().and_then(|private| LateCheck::begin(private, &root)).is_some()
    }

    /// Notes what was found of a file.
    pub fn note(&mut self, target: &Arc<Target>, finding: &Finding) {
        let Finding::File { path, listed, proven, .. } = finding else { return };
        let elsewhere = self.elsewhere.as_deref();
        let begin = || {
            let is_own = target.ours.is_some() && target.part == PartOf::Alone;
            let root = target.handle().ok().filter(|_| is_own)?;
            let private =
                PrivateDir::open(root, &target.root, elsewhere, Missing::Leave).ok()??;
            LateCheck::begin(private, root)
        };
        let (_, check) = self.begun.get_or_insert_with(|| (Arc::clone(target), begin()));
        if let Some(check) = check {
            check.note(path, listed, proven.as_ref());
        }
    }

    /// Notes it for later runs: what is replugged, and an error if it could not be noted.
    pub fn finish(self) -> Option<(Option<Replugged>, Arc<Target>, Option<Error>)> {
        let (target, check) = self.begun?;
        let (replugged, noted) = check?.finish(target.handle().ok()?);
        let fail = |error| Error::io("note the late check in", &target.root, error);
        let error = noted.err().map(fail);
        Some((replugged, target, error))
    }
}
