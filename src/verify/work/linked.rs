//! Checking large files by the chains that stand beside their manifest.
//!
//! If all links hold, they prove the listed digest. If one does not, the file or the chain is bad: the file is then
//! read as a whole, and only that decides. Of a file that was found to differ, the chain says where.

use std::sync::{Arc, Mutex, PoisonError, atomic::AtomicU64, atomic::Ordering::Relaxed};
use std::{ffi::OsStr, io::Seek, path::Path, path::PathBuf};

use unicode_normalization::UnicodeNormalization;

use crate::error::Deed;
use crate::{
    chain::Damage, chain::StatesFile, chain::side_file::MOST_RECORDS, chain::side_file::SideFile,
    error::Error, error::Result, event::Progress, hash::Backend, hash::Chain, hash::Digest,
    hash::chain::LEAST_SPAN, io::ChainedContent, io::HashedFrom, io::LinkCheck, io::LinkReads,
    io::link_check::Helpers, manifest::Readers, manifest::states_name, path::RelPath, sys::Dir,
    sys::DirListing, sys::Medium, sys::stat::Kind, verify::PartOf, verify::Target, verify::Verdict,
    verify::work::Checker, verify::work::threads::ListedFile, verify::work::threads::Until,
};

/// Smaller files are hashed side by side with others, which gains as much.
const LEAST_LINKED: u64 = 8 << 20;

/// Checks files by their links.
pub struct LinkChecker<'a> {
    pub helpers: &'a Helpers,
    /// The way links are read.
    pub reads: LinkReads,
    pub backend: Backend,
    pub progress: &'a Progress,
}

/// The result of checking a file by its links.
pub enum Linked {
    /// All hold: the file has the listed digest.
    Good(HashedFrom),
    /// The file is to be read as a whole. Its links were read, and it differs there, if it does.
    Bad(Damage),
    /// The file is to be read as a whole.
    Unknown,
    /// The run is to stop.
    Stopped,
}

impl LinkChecker<'_> {
    /// Checks a file if there is a chain of what it should have, and it is large enough to gain by it.
    pub fn check(&self, target: &Target, file: &ListedFile<'_>, until: Until<'_>) -> Linked {
        if file.found.size() < LEAST_LINKED {
            return Linked::Unknown;
        }
        let name = |shown: &mut Vec<u8>| shown.extend_from_slice(file.path.as_bytes());
        let in_hand = self.progress.take_in_hand(file.found.size(), name);
        let told = |bytes| self.progress.advance(bytes, in_hand.as_deref());
        match self.run(target, file, &told, until, true) {
            // One that grew meanwhile has more than its links.
            Some((damage, from)) if damage.bytes == 0 && file.found.is_still_as_large() => {
                Linked::Good(from)
            }
            Some((damage, _)) => Linked::Bad(damage),
            None if until.is_over() => Linked::Stopped,
            None => Linked::Unknown,
        }
    }

    /// Where a file differs that has not the listed digest, as far as that is known.
    pub fn locate(
        &self,
        target: &Target,
        file: &ListedFile<'_>,
        until: Until<'_>,
    ) -> Option<Damage> {
        self.run(target, file, &|_| (), until, false).map(|(damage, _)| damage)
    }

    /// Where a file differs from its chain, and where it was read from; that only of a file of the right size if
    /// it is to be `of_size`.
    fn run(
        &self,
        target: &Target,
        file: &ListedFile<'_>,
        on_read: &(dyn Fn(u64) + Sync),
        until: Until<'_>,
        of_size: bool,
    ) -> Option<(Damage, HashedFrom)> {
        let digest: &Digest = file.digest;
        let (chain, size) = target.chain(digest)?;
        if of_size && size != file.found.size() {
            return None;
        }
        let medium = match self.reads {
            LinkReads::SideBySide => Medium::any(&file.found.file),
            LinkReads::ByLinks { .. } => file.found.medium().ok()?,
        };
        let reads = match self.reads {
            // The kernel reads ahead of one sequence.
            LinkReads::ByLinks { in_order: false } => {
                LinkReads::ByLinks { in_order: !medium.is_direct() }
            }
            reads => reads,
        };
        let is_to_stop = || until.is_over();
        let content = ChainedContent { chain: &chain, size, digest };
        let check = LinkCheck {
            content,
            medium: &medium,
            reads,
            backend: self.backend,
            is_to_stop: &is_to_stop,
            on_read,
        };
        // What cannot be read is found out when it is read as a whole.
        let bad = check.run(self.helpers).unwrap_or(None)?;
        let from = if medium.finish() { HashedFrom::Device } else { HashedFrom::Cache };
        Some((Damage::new(&chain, size, file.found.size(), &bad), from))
    }
}

// A listed name that is there in another letter case or Unicode form: a bag that was made where these mean nothing has
// such names, and a copy of it has the files under one of them.

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

// Further questions to a file that was read: further digests that are listed of it, and the other algorithm that the
// list may mean.

impl Checker<'_> {
    /// Hashes files and judges them; with each, how many bytes it had. One of another size than is on record is not
    /// read. `None` if asked to stop, or if it took too long.
    pub fn read(
        &mut self,
        target: &Target,
        files: &[ListedFile<'_>],
    ) -> Option<Vec<(Verdict, u64)>> {
        let judged: Vec<_> = files.iter().map(|file| self.other_size(target, file)).collect();
        if judged.iter().all(Option::is_none) {
            return self.read_sized(target, files);
        }
        let rest = files.iter().zip(&judged).filter(|(_, judged)| judged.is_none());
        let rest: Vec<_> = rest.map(|(file, _)| *file).collect();
        let mut read = self.read_sized(target, &rest)?.into_iter();
        judged.into_iter().map(|judged| judged.map(|it| (it, 0)).or_else(|| read.next())).collect()
    }

    /// The verdict on a file of another size than is on record.
    fn other_size(&self, target: &Target, file: &ListedFile<'_>) -> Option<Verdict> {
        let mut verdict = target.other_size(file.found.size(), file.path, file.digest)?;
        self.progress.advance(file.found.size(), None);
        if let (Some(links), Verdict::OtherSize { damage, .. }) = (&self.links, &mut verdict) {
            let found = links.locate(target, file, self.until);
            *damage = found.filter(Damage::says_something).map(Box::new);
        }
        Some(verdict)
    }

    fn read_sized(
        &mut self,
        target: &Target,
        files: &[ListedFile<'_>],
    ) -> Option<Vec<(Verdict, u64)>> {
        let mut results = self.read_as_listed(target, files)?;
        // There it is said by which algorithm a digest is.
        let may_be_other = target.ours.is_none() && target.part == PartOf::Alone;
        for (file, result) in files.iter().zip(&mut results) {
            match (&result.0, file.digest.alike()) {
                (Verdict::Good(_), _) => self.read_further(target, file, result)?,
                // Of two algorithms whose digests look alike, the list may mean the other.
                (Verdict::Differs(..), Some(digest)) if may_be_other => {
                    // What was read once stands at its end; one that cannot be read again stays as it is.
                    if (&file.found.file).rewind().is_ok()
                        && let Some(good @ (Verdict::Good(_), _)) =
                            self.read_by(target, file, &digest)?
                    {
                        *result = good;
                    }
                }
                _ => {}
            }
        }
        Some(results)
    }

    /// Holds a file against the other digests that are listed of it: all must be right.
    fn read_further(
        &mut self,
        target: &Target,
        file: &ListedFile<'_>,
        result: &mut (Verdict, u64),
    ) -> Option<()> {
        for digest in file.further {
            if let Err(error) = (&file.found.file).rewind() {
                let error = Error::io("read again", target.path_of(file.path), error);
                result.0 = Verdict::Unreadable(error);
                return Some(());
            }
            match self.read_by(target, file, digest)? {
                Some((Verdict::Good(_), _)) => {}
                Some(bad) => {
                    *result = bad;
                    return Some(());
                }
                None => return None,
            }
        }
        Some(())
    }

    /// Reads a file once more, by another digest.
    fn read_by(
        &mut self,
        target: &Target,
        file: &ListedFile<'_>,
        digest: &Digest,
    ) -> Option<Option<(Verdict, u64)>> {
        let other = ListedFile { digest, further: &[], ..*file };
        Some(self.read_each(target, &[other], false, None)?.pop())
    }
}

// Making states of large files for a manifest that has none of them, while the files are checked.
//
// Only a file that was hashed from its beginning to its end and has the listed digest gives states. What the side
// file that is there has of other files stays. It is replaced by a rename when the check is over.

/// The deed in errors about states that cannot be written; completes "cannot …".
const DEED: &str = "write the states of large files to";

/// A side file that is made.
#[derive(Debug)]
struct MadeFile {
    states: Arc<StatesFile>,
    /// The directory of the manifest, as it was opened with that.
    dir: Dir,
}

/// The side files that a check makes, each by its manifest.
#[derive(Debug, Default)]
pub struct MadeStates {
    files: Mutex<Vec<(PathBuf, Option<MadeFile>)>>,
    /// Files that got states.
    pub number: AtomicU64,
    errors: Mutex<Vec<Error>>,
}

impl MadeStates {
    /// True if a file of this size gets states.
    pub fn wants(&self, size: u64) -> bool {
        size > LEAST_SPAN
    }

    /// The file at `path`, which the manifest of `target` lists, has this digest and this chain.
    pub fn put(&self, target: &Target, path: &RelPath, size: u64, digest: &Digest, chain: Chain) {
        if let Some(file) = self.of(target) {
            file.put(path.as_bytes(), size, digest, chain);
            self.number.fetch_add(1, Relaxed);
        }
    }

    /// The side file of a manifest, begun with the first file.
    fn of(&self, target: &Target) -> Option<Arc<StatesFile>> {
        let manifest = &target.manifest;
        let states = |file: &Option<MadeFile>| Some(Arc::clone(&file.as_ref()?.states));
        let mut files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, file)) = files.iter().find(|(known, _)| known == manifest) {
            return states(file);
        }
        let file = begin(target).map_err(|error| self.note(error)).ok();
        let made = states(&file);
        files.push((manifest.clone(), file));
        made
    }

    fn note(&self, error: Error) {
        self.errors.lock().unwrap_or_else(PoisonError::into_inner).push(error);
    }

    /// Gives the side files their names, with what others had of the same manifests; nothing of them is left if
    /// the check did not come to its end. What could not be written.
    pub fn finish(self, is_whole: bool) -> Vec<Error> {
        let files = self.files.into_inner().unwrap_or_else(PoisonError::into_inner);
        let mut errors = self.errors.into_inner().unwrap_or_else(PoisonError::into_inner);
        for (manifest, file) in files {
            let Some((MadeFile { states, dir }, name)) = file.zip(states_name(&manifest)) else {
                continue;
            };
            if !is_whole {
                states.give_up();
                continue;
            }
            // What cannot be read says nothing.
            if let Ok(Some(earlier)) = SideFile::open_in(&dir, &name, MOST_RECORDS, &|| false) {
                states.carry_rest(&earlier);
            }
            // As open as the manifest, which names the same.
            let readers = readers_of(&dir, &manifest);
            if let Err(error) = states.publish(&name, true, true, |group| readers.mode(group)) {
                errors.push(Error::io(DEED, manifest.with_file_name(&name), error));
            }
        }
        errors
    }
}

/// Who may read the manifest, which is in `dir`.
fn readers_of(dir: &Dir, manifest: &Path) -> Readers {
    let mut readers = Readers::default();
    match dir.stat(manifest.file_name().unwrap_or_default(), true) {
        Ok(stat) => readers.note(&stat),
        Err(_) => readers = Readers::Owner,
    }
    readers
}

/// Begins the side file of a manifest, in the directory that this was opened in.
fn begin(target: &Target) -> Result<MadeFile> {
    let manifest = &target.manifest;
    let fail = |error| Error::io(DEED, manifest.with_extension("states"), error);
    let name = states_name(manifest).ok_or(std::io::ErrorKind::InvalidFilename);
    let name = name.map_err(|error| fail(error.into()))?;
    let dir = target.beside().and_then(Dir::try_clone).map_err(fail)?;
    let mut unfinished = name.clone();
    unfinished.push(".part");
    for name in [&name, &unfinished] {
        let path = manifest.with_file_name(name);
        let Some(there) = dir.stat(name, false).if_there().deed(DEED, &path)? else { continue };
        let is_file = there.kind == Kind::File;
        let is_one = is_file && dir.open_file(name, false).is_ok_and(|f| SideFile::is_one(&f));
        let is_empty = is_file && there.size == 0;
        if !is_one && !is_empty {
            return Err(Error::finding(DEED, path, "what has this name is no side file"));
        }
    }
    // What a killed run left.
    dir.remove(&unfinished).if_there().map_err(fail)?;
    let states = StatesFile::default();
    states.begin(dir.try_clone().map_err(fail)?, unfinished, Vec::new());
    Ok(MadeFile { states: Arc::new(states), dir })
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
