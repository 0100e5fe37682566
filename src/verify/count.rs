//! Counting what there is to do, beside the check, so that progress has a total.
//!
//! Only a hint: it reads the manifests once more, looks at the files and ignores errors, and is
//! given up when the check ends. A line that names a file a second time is counted again. Where a
//! manifest cannot be read twice, there is no total.

use std::sync::atomic::Ordering::Relaxed;

use crate::event::{Progress, Stop};
use crate::path::RelPath;
use crate::sys::stat::Kind;
use crate::tree::last_dir::LastDir;
use crate::verify::lines::manifest_lines::ManifestLines;
use crate::verify::lines::shards::{LinesWanted, WantedLines};
use crate::verify::target::{ManifestAt, OpenTarget, Target, TargetSpec};

/// Adds up the files that the manifests list into the totals of `progress`.
pub fn count(plans: &[TargetSpec], wanted: Option<LinesWanted>, progress: &Progress, stop: &Stop) {
    if !plans.iter().all(can_be_read_twice) || progress.counting.swap(true, Relaxed) {
        return;
    }
    for OpenTarget { target, manifest, .. } in plans.iter().filter_map(|plan| plan.open().ok()) {
        let len = manifest.metadata().map_or(0, |manifest| manifest.len());
        let mut wanted = wanted.map(|wanted| WantedLines::new(wanted, len));
        let mut lines = ManifestLines::new(&target, manifest);
        let mut last = LastDir::default();
        while let Ok(Some(line)) = lines.next_file() {
            if stop.is_requested() {
                return;
            }
            if wanted.as_mut().is_some_and(|wanted| !wanted.is_checked(&line)) {
                continue;
            }
            progress.total_entries.fetch_add(1, Relaxed);
            let size = size(&target, &line.path, &mut last).unwrap_or_default();
            progress.total_bytes.fetch_add(size, Relaxed);
        }
    }
    progress.counted.store(true, Relaxed);
}

/// Whether a second reading takes nothing from the check, as it would from a pipe.
pub fn can_be_read_twice(plan: &TargetSpec) -> bool {
    match &plan.manifest {
        None => true,
        Some(ManifestAt::File(path)) => std::fs::metadata(path).is_ok_and(|file| file.is_file()),
        Some(ManifestAt::StandardInput) => false,
    }
}

/// The size of a regular file below the root.
fn size(target: &Target, path: &RelPath, last: &mut LastDir) -> Option<u64> {
    let stat = last.stat(target.handle().ok()?, path, false).ok()?;
    (stat.kind == Kind::File).then_some(stat.size)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verify::archive::part::PartOf;

    #[test]
    fn what_is_listed_and_there_is_counted() {
        let dir = tempfile::tempdir().unwrap();
        let digest = "ab".repeat(32);
        let lines = "@  one\n@  sub/two\n?\n# note\n@  missing\n@  ../out\nSHA256 (sub) = @";
        std::fs::create_dir(dir.path().join("sub")).unwrap();
        for (name, content) in
            [("one", "12345"), ("sub/two", "67"), ("list", &lines.replace('@', &digest))]
        {
            std::fs::write(dir.path().join(name), content).unwrap();
        }
        let counted = |manifests: Vec<ManifestAt>, stop: &Stop| {
            let plan = |manifest| TargetSpec {
                manifest: Some(manifest),
                dir: None,
                root: None,
                state: None,
                part: PartOf::Alone,
            };
            let progress = Progress::default();
            count(&manifests.into_iter().map(plan).collect::<Vec<_>>(), None, &progress, stop);
            let totals = [&progress.total_entries, &progress.total_bytes];
            progress.counted.load(Relaxed).then(|| totals.map(|total| total.load(Relaxed)))
        };
        let list = || ManifestAt::File(dir.path().join("list"));
        let go_on = Stop::default();
        assert_eq!(counted(vec![list()], &go_on), Some([4, 7]));
        assert_eq!(counted(vec![list(), list()], &go_on), Some([8, 14]));
        assert_eq!(counted(vec![list(), ManifestAt::StandardInput], &go_on), None);
        assert_eq!(counted(vec![ManifestAt::File(dir.path().into())], &go_on), None);
        let stopped = Stop::default();
        stopped.request(1);
        assert_eq!(counted(vec![list()], &stopped), None);
    }
}
