//! What parity can do for the bad files of a check: which can be repaired, and which not; and whether it is of what is
//! listed.

use std::{
    collections::BTreeMap, collections::BTreeSet, collections::HashMap, fs::File, sync::Arc,
    sync::Mutex, sync::PoisonError, sync::atomic::Ordering::Relaxed,
};

use crate::{
    error::Deed, error::Error, error::Result, event::Observer, event::Stop, hash::Digest,
    parity::ParityDir, parity::ParityIndex, parity::Repair, parity::WillBeWhole,
    parity::bad_slices, path::RelPath, sys::Dir, sys::stat::Identity, verify::Expanded,
    verify::Finding, verify::FindingObserver, verify::ManifestLines, verify::PartOf,
    verify::Target, verify::TargetSpec, verify::Verdict, verify::VerifyJob, verify::VerifyReport,
    verify::target::OpenTarget,
};

/// Number of bad files of a check that are kept in mind.
const MOST: usize = 1 << 16;

/// The bad files of a check that may be repaired, by the directory that their names start at.
#[derive(Default)]
struct BadFiles {
    roots: HashMap<Identity, BTreeSet<RelPath>>,
    number: usize,
    /// Those that another directory of the check has good.
    good_elsewhere: BTreeSet<RelPath>,
}

impl BadFiles {
    fn note(&mut self, target: &Target, finding: &Finding) {
        if let Finding::Compared(comparison) = finding
            && comparison.is_repairable()
        {
            self.good_elsewhere.insert(comparison.path.clone());
        }
        let Finding::File { path, verdict, .. } = finding else { return };
        let may_be = matches!(
            verdict,
            Verdict::Differs(..)
                | Verdict::OtherSize { .. }
                | Verdict::Missing
                | Verdict::Unreadable(_)
        );
        if may_be && self.number < MOST {
            let bad = self.roots.entry(target.root_id).or_default();
            self.number += usize::from(bad.insert(path.clone()));
        }
    }
}

impl VerifyJob {
    /// Runs the check, and tells what parity can do where there is some.
    pub(super) fn run_with_parity(
        &self,
        expanded: Expanded,
        observer: &FindingObserver<'_>,
    ) -> Result<VerifyReport> {
        let has_parity = |spec: &&TargetSpec| {
            let root = spec.names_start_at();
            Dir::open(&root).is_ok_and(|dir| matches!(ParityDir::open(&dir, &root), Ok(Some(_))))
        };
        let is_of_all = self.manifests.is_empty()
            && self.root.is_none()
            && self.budget.is_none()
            && self.shard.is_none();
        let specs = expanded.specs.iter().filter(|_| is_of_all);
        let is_of_it = |spec: &&TargetSpec| {
            let root = spec.names_start_at();
            let of_root = expanded.specs.iter().filter(|it| it.names_start_at() == root);
            let is_of_bag = spec.part.bag().is_some();
            let lists = || of_root.map(|it| it.part).collect::<Vec<PartOf>>();
            !is_of_bag || spec.part.is_protected_of(&lists())
        };
        let specs = specs.filter(|spec| has_parity(spec) && is_of_it(spec));
        let specs: Vec<TargetSpec> = specs.cloned().collect();
        if specs.is_empty() {
            return self.run_on(expanded, false, observer);
        }
        let Observer { progress, stop, listen } = observer;
        let bad = Mutex::new(BadFiles::default());
        let hear = |target: &Target, finding: &Finding| {
            bad.lock().unwrap_or_else(PoisonError::into_inner).note(target, finding);
            listen(target, finding);
        };
        let (progress, stop_too) = (Arc::clone(progress), stop.clone());
        let checking = Observer { progress, stop: stop_too, listen: hear };
        let mut report = self.run_on(expanded, false, &checking)?;
        let bad = bad.into_inner().unwrap_or_else(PoisonError::into_inner);
        observer.progress.is_repair_looked_for.store(true, Relaxed);
        for spec in specs.iter().filter(|_| !stop.is_requested()) {
            // What cannot be opened was told by the check.
            let Ok(OpenTarget { target, found }) = spec.open() else { continue };
            let none = BTreeSet::new();
            let of_root = bad.roots.get(&target.root_id).unwrap_or(&none);
            let mut tell = |finding: Finding| {
                let is_counted = |path| bad.good_elsewhere.contains(path);
                if !matches!(&finding, Finding::Parity { path, .. } if is_counted(path)) {
                    report.counts.add(&finding);
                }
                listen(&target, &finding);
            };
            if let Err(error) = tell_of(&target, found.manifest, of_root, stop, &mut tell) {
                tell(Finding::Notice(error));
            }
        }
        Ok(report)
    }
}

/// Tells what the parity of a tree can do for its bad files, and what is amiss with it.
fn tell_of(
    target: &Arc<Target>,
    manifest: File,
    bad: &BTreeSet<RelPath>,
    stop: &Stop,
    tell: &mut dyn FnMut(Finding),
) -> Result<()> {
    let (root, is_to_stop) = (target.handle()?, || stop.is_requested());
    let Some(dir) = ParityDir::open(root, &target.root)? else { return Ok(()) };
    let mut errors = Vec::new();
    let index = {
        let heard = Mutex::new(&mut errors);
        let warn = |error| heard.lock().unwrap_or_else(PoisonError::into_inner).push(error);
        ParityIndex::load(&dir, &is_to_stop, &warn)?
    };
    errors.into_iter().for_each(|error| tell(Finding::Notice(error)));
    let (mut earlier, mut sets) = (0, BTreeMap::<usize, Vec<(RelPath, Digest)>>::new());
    let mut lines = ManifestLines::new(target, manifest);
    while let Some(line) = lines.next_file().deed("read the manifest", &target.manifest)? {
        let entries = || index.entries(&line.path, &line.digest);
        let mut of_it = entries().filter(|(.., is_same)| *is_same).peekable();
        let is_nothing = line.digest.is_of_nothing() && !index.sets.is_empty();
        if is_nothing && bad.contains(&line.path) {
            tell(Finding::Parity { path: line.path, bad: 0, left: 0, is_enough: true });
            continue;
        }
        earlier += u64::from(of_it.peek().is_none() && entries().next().is_some());
        for (_, set, _) in of_it.filter(|_| bad.contains(&line.path)) {
            sets.entry(set).or_default().push((line.path.clone(), line.digest));
        }
    }
    // A file that one set makes whole is no loss any more to the others that it is in.
    let (mut repairable, mut beyond) = (WillBeWhole::new(), BTreeMap::new());
    while !sets.is_empty() {
        let before = repairable.len();
        for (set, files) in std::mem::take(&mut sets) {
            let Some(known) = index.sets.get(set) else { continue };
            let (_, Some(stored)) = dir.read(&known.names, &is_to_stop)? else { continue };
            let slices = bad_slices(&stored.files, root, &repairable, &is_to_stop);
            let Some(slices) = slices else { return Ok(()) };
            let (bad, left) = (slices.len(), stored.recovery.len());
            if bad == 0 || Repair::of(&stored, slices).is_some() {
                for (path, digest) in files {
                    beyond.remove(&path);
                    if repairable.insert(path.clone(), digest).is_none() {
                        tell(Finding::Parity { path, bad, left, is_enough: true });
                    }
                }
                continue;
            }
            let is_lost = |file: &&(RelPath, Digest)| !repairable.contains_key(&file.0);
            let lost: Vec<_> = files.iter().filter(is_lost).cloned().collect();
            if !lost.is_empty() {
                beyond.extend(lost.iter().map(|(path, _)| (path.clone(), (bad, left))));
                sets.insert(set, lost);
            }
        }
        if repairable.len() == before {
            break;
        }
    }
    for (path, (bad, left)) in beyond {
        tell(Finding::Parity { path, bad, left, is_enough: false });
    }
    let damaged =
        index.sets.iter().filter(|set| !set.is_whole && !set.is_foreign).count() + index.lost.len();
    if damaged > 0 {
        let finding =
            format!("{damaged} of its files are damaged; heal or protect makes them anew");
        tell(Finding::Notice(Error::finding("rely on all of", dir.path(), finding)));
    }
    if earlier > 0 {
        let finding = format!(
            "parity is of an earlier content: {earlier} {}; protect makes it anew",
            if earlier == 1 { "file" } else { "files" }
        );
        tell(Finding::Notice(Error::finding("repair all of", &target.root, finding)));
    }
    Ok(())
}
