//! Whether a list that is checked against names a file: such a file is content, which nothing but a copy replaces.

use std::path::Path;

use crate::path::RelPath;
use crate::verify::archive::expand::expand;
use crate::verify::count::can_be_read_twice;
use crate::verify::job::VerifyJob;
use crate::verify::lines::manifest_lines::{ManifestLines, converted};
use crate::verify::target::TargetSpec;

impl VerifyJob {
    /// Whether a list of this check names the file at `path`, which is canonical. What cannot be read names none.
    ///
    /// Lists are read to their end, so it is for a file that lies below one of the directories by chance.
    pub fn lists(&self, path: &Path) -> bool {
        let specs = self.specs().map(|specs| expand(specs).specs).unwrap_or_default();
        specs.iter().any(|spec| self.is_listed(spec, path).is_some())
    }

    fn is_listed(&self, spec: &TargetSpec, path: &Path) -> Option<()> {
        let root = spec.names_start_at().canonicalize().ok()?;
        let below = path.strip_prefix(root).ok().filter(|_| can_be_read_twice(spec))?;
        let wanted = RelPath::of(below);
        let open = spec.open().ok()?;
        let mut lines = ManifestLines::new(&open.target, open.manifest);
        while let Ok(Some(line)) = lines.next_file() {
            let is_converted = || converted(&line.path).is_ok_and(|path| path == wanted);
            if line.path == wanted || (self.convert_paths && is_converted()) {
                return Some(());
            }
        }
        None
    }
}
