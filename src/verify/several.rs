//! Several directories of one check: a verdict over each, and where a bad file of one is good in another.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::{
    fs::File, io::Seek, io::SeekFrom, mem::size_of, ops::AddAssign, path::PathBuf, sync::Arc,
};

use crate::{
    error::Error, error::Result, event::Stop, hash::Digest, path::RelPath, sys::stat::Identity,
    verify::Checked, verify::Comparison, verify::Finding, verify::ManifestLines, verify::Target,
    verify::TreeVerdict, verify::Verdict, verify::VerifyReport,
    verify::lines::manifest_lines::converted,
};

// Several directories as replicas of one tree: for a file that is bad in one of them, which of the others
// hold it as it should be?
//
// Only bad files are remembered, by their names. When the check is over the manifests are read once more
// for what they list under these, so nothing is hashed twice: a file that another directory lists with
// the same digest, and that was not found bad there, is good there.

/// Bytes of bad files' names, and of what is known of them, that are remembered. For a disk that failed as a
/// whole a comparison of every file says nothing more.
const MOST: usize = 4 << 20;

/// A manifest that can be read once more.
pub struct RereadableManifest {
    /// The target that it is the manifest of.
    pub target: Arc<Target>,
    /// The open file; where it is read does not matter.
    pub manifest: File,
}

/// The bad files of all replicas.
#[derive(Debug)]
pub struct Replicas {
    /// Number of directories.
    number: usize,
    directories: Vec<(Identity, PathBuf)>,
    /// Bad files, and each as it is in each of the directories.
    bad: BTreeMap<RelPath, Vec<InReplica>>,
    weight: usize,
    left_out: u64,
}

/// A file in one of the directories.
#[derive(Clone, Copy, Debug, Default)]
struct InReplica {
    bad: Option<&'static str>,
    may_be_replaced: bool,
    listed: ListedDigest,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum ListedDigest {
    #[default]
    Nowhere,
    As(Digest),
    Unclear,
}

impl Replicas {
    /// Nothing is known of so many directories.
    pub fn new(number: usize) -> Self {
        Self { number, directories: Vec::new(), bad: BTreeMap::new(), weight: 0, left_out: 0 }
    }

    /// Notes a file that is bad.
    pub fn note(&mut self, target: &Target, finding: &Finding) {
        let Finding::File { path, verdict, .. } = finding else { return };
        let how = match verdict {
            Verdict::Good(_) | Verdict::Refused(_) => return,
            Verdict::Differs(..) | Verdict::OtherSize { .. } => "differs",
            Verdict::Missing | Verdict::NotThrough(_) => "missing",
            Verdict::NotAFile(_) => "not a regular file",
            Verdict::Unreadable(_) => "unreadable",
        };
        let directory = self.directory_number(target);
        if !self.bad.contains_key(path) {
            let weight = path.as_bytes().len() + size_of::<(RelPath, Vec<InReplica>)>();
            let weight = weight + self.number * size_of::<InReplica>();
            if self.weight + weight > MOST {
                self.left_out += 1;
                return;
            }
            self.weight += weight;
            self.bad.insert(path.clone(), Vec::new());
        }
        if let Some(at) = self.bad.get_mut(path).and_then(|known| at(known, directory)) {
            at.bad.get_or_insert(how);
            at.may_be_replaced = !matches!(verdict, Verdict::NotAFile(_) | Verdict::NotThrough(_));
        }
    }

    /// The number of a target's directory.
    fn directory_number(&mut self, target: &Target) -> usize {
        let known = self.directories.iter().position(|(id, _)| *id == target.root_id);
        known.unwrap_or_else(|| {
            self.directories.push((target.root_id, target.root.clone()));
            self.directories.len() - 1
        })
    }

    /// Tells of each bad file how it is in the other directories, as the manifests have it, and of how many
    /// that is not known. In a manifest that is not dircopy's own `\` is taken for `/`, if `convert`, in
    /// names that are not bad as they are.
    pub fn compare(
        mut self,
        manifests: Vec<RereadableManifest>,
        convert: bool,
        stop: &Stop,
        mut tell: impl FnMut(Finding),
    ) {
        let mut roots: Vec<Identity> = Vec::new();
        for RereadableManifest { target, .. } in &manifests {
            if !roots.contains(&target.root_id) {
                roots.push(target.root_id);
            }
        }
        if roots.len() < 2 || self.bad.is_empty() {
            return;
        }
        for reread in manifests {
            if let Err(error) = self.look_up(reread, convert, stop) {
                return tell(Finding::Broken(error));
            }
        }
        if stop.is_requested() {
            return;
        }
        for (path, known) in std::mem::take(&mut self.bad) {
            if let Some(comparison) = self.comparison(path, &known, &roots) {
                tell(Finding::Compared(comparison));
            }
        }
        if self.left_out > 0 {
            tell(Finding::NotCompared(self.left_out));
        }
    }

    /// Notes what a manifest lists of the bad files.
    fn look_up(&mut self, reread: RereadableManifest, convert: bool, stop: &Stop) -> Result<()> {
        let RereadableManifest { target, mut manifest } = reread;
        let directory = self.directory_number(&target);
        let fail = |error| Error::io("read once more the manifest", &target.manifest, error);
        manifest.seek(SeekFrom::Start(0)).map_err(fail)?;
        let mut lines = ManifestLines::new(&target, manifest);
        while let Some(mut line) = lines.next_file().map_err(fail)? {
            if stop.is_requested() {
                break;
            }
            if convert && !self.bad.contains_key(&line.path) {
                let Ok(path) = converted(&line.path) else { continue };
                line.path = path;
            }
            if let Some(at) = self.bad.get_mut(&line.path).and_then(|known| at(known, directory)) {
                at.listed = match at.listed {
                    ListedDigest::Nowhere => ListedDigest::As(line.digest),
                    ListedDigest::As(digest) if digest == line.digest => continue,
                    // Of several algorithms the strongest is compared.
                    ListedDigest::As(digest) if digest.algorithm() != line.digest.algorithm() => {
                        let stronger = line.digest.algorithm() < digest.algorithm();
                        ListedDigest::As(if stronger { line.digest } else { digest })
                    }
                    _ => ListedDigest::Unclear,
                };
            }
        }
        Ok(())
    }

    /// The comparison of a file between the directories; nothing if only one knows of it: then these are no copies of
    /// each other.
    fn comparison(
        &self,
        path: RelPath,
        known: &[InReplica],
        roots: &[Identity],
    ) -> Option<Comparison> {
        let (mut bad, mut good, mut other) = (Vec::new(), Vec::new(), Vec::new());
        let wanted = |listed: ListedDigest| {
            let is_wanted = |at: &InReplica| at.bad.is_some() && at.listed == listed;
            matches!(listed, ListedDigest::As(_)) && known.iter().any(is_wanted)
        };
        let is_comparable = |digest: Digest| {
            let is_one = |listed| matches!(listed, ListedDigest::As(other) if other.algorithm() == digest.algorithm());
            known.iter().any(|at| {
                at.bad.is_some() && (at.listed == ListedDigest::Unclear || is_one(at.listed))
            })
        };
        let mut replicas: Vec<_> = known.iter().zip(&self.directories).collect();
        // As they were given, not as something was found in them.
        replicas.sort_by_key(|(_, (id, _))| roots.iter().position(|root| root == id));
        for (at, (_, root)) in replicas {
            match (at.bad, at.listed) {
                (Some(how), _) => bad.push((how, root.clone())),
                (None, ListedDigest::Nowhere) => {}
                (None, listed) if wanted(listed) => good.push(root.clone()),
                // A digest by another algorithm says neither.
                (None, ListedDigest::As(digest)) if !is_comparable(digest) => {}
                (None, _) => other.push(root.clone()),
            }
        }
        let may_be_replaced = known.iter().any(|at| at.may_be_replaced);
        let is_shared = bad.len() + good.len() + other.len() > 1;
        is_shared.then_some(Comparison { path, bad, may_be_replaced, good, other })
    }
}

/// The state of a file in a directory.
fn at(known: &mut Vec<InReplica>, directory: usize) -> Option<&mut InReplica> {
    if known.len() <= directory {
        known.resize(directory + 1, InReplica::default());
    }
    known.get_mut(directory)
}

// The verdicts on several directories, each by its own findings.

/// A directory of a check.
#[derive(Debug)]
struct CheckedTree {
    dir: PathBuf,
    counts: Checked,
    /// True if its manifest lists nothing because the last run found nothing.
    none_found: bool,
}

/// The directories of a check, as they were given, and what was found of each.
#[derive(Debug, Default)]
pub struct CheckedTrees {
    trees: Vec<CheckedTree>,
    /// The directories that the roots of manifests belong to, by number. They are told by their paths: one directory
    /// may be given twice, under two names.
    numbers: HashMap<PathBuf, Option<usize>>,
}

impl CheckedTrees {
    /// Nothing is known of these directories; nothing is to be told of a single one. One that is given twice under one
    /// name has one verdict.
    pub fn new(dirs: &[PathBuf]) -> Self {
        let dirs = if dirs.len() > 1 { dirs } else { &[] };
        let mut known = HashSet::new();
        let new = dirs.iter().filter(|dir| known.insert(*dir));
        let tree = |dir: &PathBuf| CheckedTree {
            dir: dir.clone(),
            counts: Checked::default(),
            none_found: false,
        };
        Self { trees: new.map(tree).collect(), numbers: HashMap::new() }
    }

    /// Counts a finding.
    pub fn note(&mut self, target: &Target, finding: &Finding) {
        if self.trees.is_empty() {
            return;
        }
        let number = match self.numbers.get(&target.root) {
            Some(number) => *number,
            None => {
                // Histories further below belong to the directory that they were found in.
                let all = self.trees.iter().enumerate();
                let within = all.filter(|(_, tree)| target.root.starts_with(&tree.dir));
                let number = within.max_by_key(|(_, tree)| tree.dir.components().count());
                *self.numbers.entry(target.root.clone()).or_insert(number.map(|(number, _)| number))
            }
        };
        if let Some(tree) = number.and_then(|number| self.trees.get_mut(number)) {
            tree.counts.add(finding);
            tree.none_found |= matches!(finding, Finding::NoneFound);
        }
    }

    /// A verdict over each, in the order in which they were given.
    pub fn findings(&mut self) -> Vec<Finding> {
        let trees = std::mem::take(&mut self.trees).into_iter();
        trees.map(|tree| Finding::Tree(tree.dir.clone(), verdict(&tree))).collect()
    }
}

fn verdict(tree: &CheckedTree) -> TreeVerdict {
    let CheckedTree { counts, none_found, .. } = tree;
    let Checked { good, differ, missing, unreadable, .. } = *counts;
    let Checked { refused, malformed, unproven, contradicted, unlisted, .. } = *counts;
    let Checked { empty, unusable, broken, incomplete, .. } = *counts;
    let of_lines = refused + malformed + unproven + contradicted;
    let other = of_lines + empty + unusable + broken + incomplete;
    let none_found = *none_found;
    TreeVerdict { good, differ, missing, unreadable, unlisted, other, none_found }
}

// Directories that are checked one after the other, as disks are in one drive: one report of all.

impl VerifyReport {
    /// Adds a check that followed, of other directories.
    pub fn join(&mut self, later: Self) {
        self.counts += later.counts;
        self.elapsed += later.elapsed;
        self.interrupted = later.interrupted;
    }
}

impl AddAssign for Checked {
    fn add_assign(&mut self, other: Self) {
        macro_rules! add {
            ($($counter:ident)*) => {
                let Self { $($counter),* } = other;
                $(self.$counter += $counter;)*
            };
        }
        add!(good differ missing incomplete unreadable refused malformed unhashed unproven repeated contradicted converted
             unlisted repairable healable healed healed_bytes not_healed states_made conflicting empty unusable absent broken
             beyond_repair bytes shared shared_bytes from_device from_cache);
    }
}
