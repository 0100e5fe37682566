//! Making trees whole that are copies of one another.
//!
//! A check names the files that are bad. Of each, the links that do not hold are taken from whichever tree has
//! them good: a link is hashed from the state before it to the state behind it before it is written. The
//! file is made beside the bad one, read back as a whole against the listed digest, and renamed. So nothing
//! is written in place, no digest is ever new, and a file is the old one or the right one at any moment.

mod bad;
mod dropped;
mod from_parity;
mod from_rescue;
mod mend;
mod new_file;
mod parents;
mod protect;

pub use protect::ProtectJob;

use std::sync::{Arc, Mutex, PoisonError};
use std::{cell::RefCell, fs::File, io, path::PathBuf, time::Instant};

use crate::{
    error::Error, error::Result, event::Observer, event::Stop, hash::Digest, hash::Stream,
    heal::bad::BadFile, heal::bad::BadFiles, heal::bad::Conflicts, heal::bad::Harm,
    heal::bad::Keeping, heal::bad::ListedTree, heal::bad::Tree, heal::bad::Unhealed,
    heal::bad::Unmended, heal::dropped::note_dropped, heal::from_parity::TreeParity,
    heal::from_rescue::note_unlisted, heal::mend::Mender, io::AlignedBuffer, io::ChainedContent,
    parity::ParityDir, path::RelPath, staged::refuse_moved, state::Missing, sys::ALIGNMENT,
    sys::Dir, sys::Medium, sys::stat::Stat, tree::LastDir, tree::Patience, verify::Bag,
    verify::Expanded, verify::Finding, verify::FindingListener, verify::FindingObserver,
    verify::Findings, verify::ManifestAt, verify::Mend, verify::PartOf, verify::Target,
    verify::VerifyJob, verify::VerifyReport, verify::expand,
};

// A run from beginning to end: the check, and then what it found bad.

/// Trees to make whole, and the trees to make them whole from. Make one with [`new`](Self::new) and change what should
/// differ.
#[derive(Clone, Debug)]
pub struct HealJob {
    /// The check of the trees that are to be made whole. They are each other's copies too.
    pub check: VerifyJob,
    /// Trees that are only read: what they have good is taken, whatever they list.
    pub from: Vec<PathBuf>,
    /// Only say what could be done.
    pub dry_run: bool,
    /// Wait for another run on a tree to end instead of refusing.
    pub wait: bool,
}

/// The opened trees, and the purpose that their manifests are read for.
struct OpenedTrees {
    trees: Vec<Tree>,
    listed: Vec<ListedTree>,
}

impl HealJob {
    /// A job with the defaults of the command line.
    pub fn new(trees: impl IntoIterator<Item = impl Into<PathBuf>>) -> Self {
        Self { check: VerifyJob::new(trees), from: Vec::new(), dry_run: false, wait: false }
    }

    /// Runs it. The counts of the report are of the trees as they are afterwards. The stop of `observer` must not
    /// serve another run.
    ///
    /// # Errors
    /// The job makes no sense, or another run is at work on a tree. Everything that goes wrong later is told
    /// to `observer` and counted in the report.
    pub fn run(&self, observer: &FindingObserver<'_>) -> Result<VerifyReport> {
        self.check.try_hashing()?;
        let (started, Observer { progress, stop, listen }) = (Instant::now(), observer);
        let OpenedTrees { trees, listed } = self.open(listen, stop)?;
        let told = Mutex::new(0);
        let tell = |target: &Target, finding: Finding| {
            let is_conflict = matches!(finding, Finding::Conflict(_));
            *told.lock().unwrap_or_else(PoisonError::into_inner) += u64::from(is_conflict);
            listen(target, &finding);
        };
        // Of one tree the check tells what contradicts itself.
        let listed = if listed.len() > 1 { listed } else { Vec::new() };
        let conflicts = Conflicts::find(listed, stop, &tell)?;
        let (bad, unhealed) = (Mutex::new(BadFiles::default()), Unhealed::default());
        let hear = |target: &Target, finding: &Finding| {
            // Where a file is good is found out link by link, and trees are not as they were found.
            if !matches!(
                finding,
                Finding::Compared(_) | Finding::NotCompared(_) | Finding::Tree(..)
            ) {
                listen(target, finding);
            }
            match tree_of(&trees, target) {
                Some((number, target)) => {
                    let mut bad = bad.lock().unwrap_or_else(PoisonError::into_inner);
                    bad.note(target, number, finding);
                }
                None => {
                    let told = unhealed.note(target, finding);
                    told.into_iter().for_each(|finding| listen(target, &finding));
                }
            }
        };
        let (progress, stop_too) = (Arc::clone(progress), stop.clone());
        let checking = Observer { progress, stop: stop_too, listen: hear };
        let mut report = self.check.run_on(self.lists()?, true, &checking)?;
        report.counts.repairable = 0;
        report.counts.not_healed = unhealed.count();
        report.counts.conflicting = told.into_inner().unwrap_or_else(PoisonError::into_inner);
        let mut bad = bad.into_inner().unwrap_or_else(PoisonError::into_inner);
        let warn = |error: Error| listen(&Target::none(), &Finding::Warning(error));
        let healed = trees.get(..self.check.dirs.len().max(1)).unwrap_or(&trees);
        if self.check.manifests.is_empty() {
            note_dropped(healed, &mut bad, &mut report.counts, stop, listen);
        }
        note_unlisted(healed, &mut bad, &mut report.counts, listen);
        let mender = Mender {
            parity: TreeParity::open_all(healed, self.dry_run, stop, &warn),
            trees: &trees,
            bad: &bad,
            dry_run: self.dry_run,
            backend: self.check.backend,
            progress: &observer.progress,
            stop,
            warn: &warn,
            rescues: healed.iter().map(Tree::rescues).collect(),
            told_roots: RefCell::default(),
        };
        mender.mend_all(
            |file| self.barrier(file, &conflicts, &trees, &bad, stop),
            |file, mended| {
                note(&mut report, file, &mended);
                listen(&file.target, &finding(file, mended));
            },
        );
        let parity = mender.parity;
        TreeParity::close_all(parity, healed, self.dry_run, observer, &mut report)?;
        let written = healed.iter().filter(|_| !self.dry_run);
        for moved in written.filter_map(|tree| refuse_moved(&tree.dir, &tree.root).err()) {
            report.counts.broken += 1;
            listen(&Target::none(), &Finding::Broken(moved));
        }
        report.interrupted = stop.requested();
        report.elapsed = started.elapsed();
        Ok(report)
    }

    /// Why a bad file must not be touched, if so. Who names the list says that it is to hold.
    fn barrier(
        &self,
        file: &BadFile,
        conflicts: &Conflicts,
        trees: &[Tree],
        bad: &BadFiles,
        stop: &Stop,
    ) -> Option<String> {
        let newer = || trees.get(file.tree)?.newer(file, bad, stop);
        let newer = || self.check.manifests.is_empty().then(newer)?;
        conflicts.barrier(&file.path).or_else(newer)
    }

    /// The targets of the check: the lists of the trees. A bag is healed by its lists; that it lacks files was told by
    /// these, so what else it must have is told only where it has none.
    fn lists(&self) -> Result<Expanded> {
        let mut lists = expand(self.check.specs()?);
        let bags = std::mem::take(&mut lists.bags);
        let is_listed =
            |id| bags.iter().any(|bag: &Bag| bag.target.root_id == id && !bag.manifests.is_empty());
        for Findings { target, found } in &mut lists.findings {
            let is_listed = is_listed(target.root_id);
            found.retain(|finding| !(is_listed && matches!(finding, Finding::Incomplete(_))));
        }
        Ok(lists)
    }

    /// Opens the trees and keeps other runs away from those that are to be healed.
    fn open(&self, listen: &FindingListener<'_>, stop: &Stop) -> Result<OpenedTrees> {
        let refuse = |path: &PathBuf, why: String| Err(Error::finding("heal", path, why));
        let here = [PathBuf::from(".")];
        let dirs = if self.check.dirs.is_empty() { &here[..] } else { &self.check.dirs };
        if self.check.budget.is_some() || self.check.root.is_some() || self.check.convert_paths {
            return refuse(&dirs[0], "all of a tree is healed, by its own names".into());
        }
        if self.check.manifests.contains(&ManifestAt::StandardInput) {
            return refuse(&dirs[0], "standard input can be read once only: give a file".into());
        }
        let has_parity = |path: &PathBuf| {
            Dir::open(path).is_ok_and(|root| matches!(ParityDir::open(&root, path), Ok(Some(_))))
        };
        if dirs.len() + self.from.len() < 2 && !dirs.iter().any(has_parity) {
            let unused = Dir::open(&dirs[0]).ok().and_then(|it| ParityDir::unused(&it, &dirs[0]));
            let finding = match unused {
                Some(why) => format!(
                    "there is no other tree to take from, and its parity is not used ({why}); run this as the user who \
                     made it, or name a copy of it after it"
                ),
                None => "there is no other tree to take from, and no parity of it; name a copy of it after it".into(),
            };
            return refuse(&dirs[0], finding);
        }
        let mut opened = OpenedTrees { trees: Vec::new(), listed: Vec::new() };
        for (number, dir) in dirs.iter().chain(&self.from).enumerate() {
            let own = VerifyJob { dirs: vec![dir.clone()], ..self.check.clone() };
            let mut specs = expand(own.specs()?).specs;
            // Nothing is healed by a history.
            if specs.iter().any(|spec| matches!(spec.part, PartOf::Generation { .. })) {
                specs = own.specs()?;
            }
            let (tree, listed) = Tree::open(dir.clone(), &specs)?;
            if opened.trees.iter().any(|other| other.id == tree.id) {
                return refuse(dir, "it is given twice".into());
            }
            opened.trees.push(tree);
            if number < dirs.len() {
                // The text files of a bag are its own: another date in one is no contradiction.
                let is_shared = |it: &ListedTree| it.target.part.bag().is_none_or(|it| !it.is_tag);
                opened.listed.extend(listed.into_iter().filter(is_shared));
            }
        }
        let tell = |text: &str| listen(&Target::none(), &Finding::Waiting(text.to_owned()));
        let patience = Patience { wait: self.wait, deed: "heal", tell: &tell, stop };
        let missing = if self.dry_run { Missing::Leave } else { Missing::Make };
        let state = self.check.state.as_deref();
        // Two runs that wait for each other's trees take them in one order.
        let mut healed: Vec<&mut Tree> = opened.trees.iter_mut().take(dirs.len()).collect();
        healed.sort_by_key(|tree| (tree.id.dev, tree.id.ino));
        for tree in healed {
            tree.keep(Keeping { patience, missing, state })?;
            if !self.dry_run
                && let Err(error) = tree.close_opened()
            {
                listen(&Target::none(), &Finding::Warning(error));
            }
        }
        Ok(opened)
    }
}

/// The number of the tree that a finding is about, and its target there.
fn tree_of<'t>(trees: &'t [Tree], target: &Target) -> Option<(usize, &'t Arc<Target>)> {
    let number = trees.iter().position(|tree| tree.id == target.root_id)?;
    let same = |own: &&Arc<Target>| own.manifest == target.manifest;
    let targets = &trees.get(number)?.targets;
    targets.iter().find(same).map(|target| (number, target))
}

/// Counts what became of a bad file.
fn note(report: &mut VerifyReport, file: &BadFile, mended: &Result<Mend, Unmended>) {
    let counts = &mut report.counts;
    match mended {
        Ok(mend) if mend.dry_run => counts.healable += 1,
        Ok(mend) => {
            counts.healed += 1;
            counts.healed_bytes += mend.bytes;
            counts.good += file.lines;
            let was = match file.harm {
                Harm::Differs => &mut counts.differ,
                Harm::Missing => &mut counts.missing,
                Harm::Unreadable => &mut counts.unreadable,
            };
            *was = was.saturating_sub(file.lines);
        }
        Err(_) => counts.not_healed += 1,
    }
}

/// The finding about it.
fn finding(file: &BadFile, mended: Result<Mend, Unmended>) -> Finding {
    let why = match mended {
        Ok(mend) => return Finding::Healed(mend),
        Err(Unmended::Lost(damage)) => {
            let (path, damage) = (file.path.clone(), Some(Box::new(damage)));
            let why = "no tree has it good".into();
            return Finding::NotHealed { path, why, lost: damage };
        }
        Err(Unmended::Nowhere) => "no tree has it good".into(),
        Err(Unmended::Beyond { bad, left }) => {
            format!("no tree has it good, and it is beyond repair: {bad} slices bad, {left} left")
        }
        Err(Unmended::Barrier(why)) => why,
        Err(Unmended::Failed(error)) => error.to_string(),
        Err(Unmended::Stopped) => "the run was to stop".into(),
    };
    Finding::NotHealed { path: file.path.clone(), why, lost: None }
}

// Copies of one file in several trees, and what of them is proven good.

/// The longest link that is proven in memory before it is written; files of more than 16 TiB have longer ones.
const MOST_LINK: u64 = 16 << 20;

/// An open copy of a file.
pub struct FileCopy {
    /// The number of its tree.
    pub tree: usize,
    pub file: File,
    pub stat: Stat,
    /// True if parity only noted what it was, which are no attributes; the file is the parity's.
    pub is_noted: bool,
}

impl FileCopy {
    /// The copy in a tree, if it is a regular file that can be opened. No symbolic link is followed.
    pub fn open(number: usize, tree: &Tree, path: &RelPath) -> io::Result<Self> {
        let (file, stat) = LastDir::default().open_file(&tree.dir, path)?;
        Ok(Self { tree: number, file, stat, is_noted: false })
    }
}

/// Reads links of copies and proves them.
pub struct LinkProver<'a> {
    content: ChainedContent<'a>,
    buffer: AlignedBuffer,
}

impl<'a> LinkProver<'a> {
    /// One for this content; `None` if its links are too long.
    pub fn new(content: ChainedContent<'a>) -> Option<Self> {
        let span = content.chain.span();
        let len = usize::try_from(span).ok().filter(|_| span <= MOST_LINK)?;
        Some(Self { content, buffer: AlignedBuffer::new(len.next_multiple_of(ALIGNMENT)) })
    }

    /// Where a link begins, and how long it is.
    pub fn range(&self, link: u64) -> std::ops::Range<u64> {
        let span = self.content.chain.span();
        link * span..self.content.size.min((link + 1) * span)
    }

    /// The bytes of a link as a copy has them, if they lead from the state before it to the state behind it.
    ///
    /// # Errors
    /// They cannot be read.
    pub fn proven(&mut self, medium: &Medium<'_>, link: u64) -> io::Result<Option<&[u8]>> {
        let range = self.range(link);
        let ChainedContent { chain, digest, .. } = self.content;
        let read = medium.fill_at(self.buffer.room(), range.start)?;
        let len = usize::try_from(range.end - range.start).ok().filter(|len| *len <= read);
        let bytes = len.and_then(|len| self.buffer.room().get(..len));
        let (Some(bytes), Some(before)) = (bytes, chain.before(link)) else { return Ok(None) };
        let mut stream = Stream::going_on(before, range.start);
        stream.update(bytes);
        let holds = match chain.behind(link) {
            Some(state) => stream.state() == state,
            None => Digest::from(stream.finish()) == *digest,
        };
        Ok(holds.then_some(bytes))
    }
}

/// The copies of a file, each as it is read.
pub struct OpenCopies<'c> {
    media: Vec<Medium<'c>>,
    /// Is told of a copy that cannot be read, by its number.
    unreadable: &'c dyn Fn(usize, io::Error),
}

impl<'c> OpenCopies<'c> {
    /// The first is read from its device, because what is in memory of a bad file may be good. What is taken from
    /// the others is proven as it is in memory.
    pub fn of(copies: &'c [FileCopy], unreadable: &'c dyn Fn(usize, io::Error)) -> Self {
        let medium = |(at, copy): (usize, &'c FileCopy)| match at {
            0 => Medium::of(&copy.file, &copy.stat).unwrap_or_else(|_| Medium::any(&copy.file)),
            _ => Medium::any(&copy.file),
        };
        Self { media: copies.iter().enumerate().map(medium).collect(), unreadable }
    }

    /// The medium of the first.
    pub fn first(&self) -> Option<&Medium<'c>> {
        self.media.first()
    }

    /// The number of a copy that has this link.
    pub fn find(&self, prover: &mut LinkProver<'_>, link: u64) -> Option<usize> {
        (0..self.media.len()).find(|number| self.has(prover, link, *number))
    }

    /// The bytes of a link as the copy of this number has them, or else another.
    pub fn proven<'p>(
        &self,
        prover: &'p mut LinkProver<'_>,
        link: u64,
        copy: usize,
    ) -> Option<&'p [u8]> {
        let number = if self.has(prover, link, copy) { copy } else { self.find(prover, link)? };
        prover.proven(self.media.get(number)?, link).ok().flatten()
    }

    fn has(&self, prover: &mut LinkProver<'_>, link: u64, number: usize) -> bool {
        let Some(medium) = self.media.get(number) else { return false };
        match prover.proven(medium, link) {
            Ok(proven) => proven.is_some(),
            Err(error) => {
                (self.unreadable)(number, error);
                false
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        copy::CopyJob, event::Event, event::EventObserver, hash::Backend, stream::Endpoint,
        stream::StreamJob,
    };

    /// It lies at the first file that is hashed.
    const WRONG: Backend = Backend::Wrong(1);

    #[test]
    fn what_hashes_is_tried_before_it_is_believed() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a");
        std::fs::write(&path, "1").unwrap();
        let findings: &FindingObserver<'_> = &Observer::new(|_: &Target, _: &Finding| ());
        let events: &EventObserver<'_> = &Observer::new(|_: &Event<'_>| ());
        let mut check = VerifyJob::new([dir.path()]);
        check.backend = WRONG;
        let mut heal = HealJob::new([dir.path()]);
        heal.check.backend = WRONG;
        let mut copy = CopyJob::new(dir.path(), dir.path().join("b"));
        copy.options.backend = WRONG;
        let out = Endpoint::Path(dir.path().join("c"));
        let mut stream = StreamJob::new(vec![Endpoint::Path(path)], vec![out]);
        stream.options.backend = WRONG;
        let refused = [
            check.run(findings).map(drop),
            heal.run(findings).map(drop),
            copy.run(events).map(drop),
            stream.run(events).map(drop),
        ];
        for refused in refused {
            let error = refused.unwrap_err().to_string();
            assert!(error.contains("this machine computes wrongly"), "{error}");
        }
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
    }
}
