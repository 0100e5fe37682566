//! Finding, reading and hashing the files that lines name.

pub mod linked;
pub mod threads;
pub mod worker;

use std::{ffi::OsStr, fs::File, io, sync::Arc};

use crate::{
    chain::Damage, error::Error, event::Progress, event::Stop, hash::Algorithm, hash::Backend,
    io::FileDigest, io::ReadBack, path::PathFault, path::RelPath, sys, sys::Dir, sys::Medium,
    sys::stat::Kind, sys::stat::Stat, tree::LastDir, verify::Target, verify::Verdict,
    verify::lines::manifest_lines::absolute_on_windows, verify::lines::manifest_lines::converted,
    verify::work::linked::LinkChecker, verify::work::linked::Linked,
    verify::work::linked::MadeStates, verify::work::threads::FoundFile,
    verify::work::threads::ListedFile, verify::work::threads::Until,
};

// Checking one file: finding it without leaving the root, and hashing it.

/// Where the bytes that are hashed must come from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReadFrom {
    /// From the medium, wherever that can be had.
    #[default]
    Medium,
    /// From wherever they come fastest.
    Cache,
}

/// A worker's means to check files.
pub struct Checker<'a> {
    from: ReadFrom,
    convert: bool,
    progress: &'a Progress,
    /// Until when files are read.
    pub until: Until<'a>,
    /// The target of the last file, and the directory that it was in.
    last: Option<(Arc<Target>, LastDir)>,
    read_back: ReadBack,
    /// Checks large files by their links, where there are chains.
    pub links: Option<LinkChecker<'a>>,
    /// Where states of large files go that are read as a whole, if they are made.
    pub states: Option<&'a MadeStates>,
    /// For so many missing files another form of their names is looked for.
    forms_left: u32,
}

/// Each takes the listing of a directory.
const MOST_FORMS: u32 = 1000;

impl<'a> Checker<'a> {
    /// One that takes `\` in names for `/` where nothing else is found, if `convert`.
    pub fn new(from: ReadFrom, convert: bool, progress: &'a Progress, stop: &'a Stop) -> Self {
        let (last, links, states, forms_left) = (None, None, None, MOST_FORMS);
        let (read_back, until) = (ReadBack::new(), Until { stop, at: None });
        Self { from, convert, progress, until, last, read_back, links, states, forms_left }
    }

    /// Hashes several files at a time by `backend`.
    pub fn with(mut self, backend: Backend) -> Self {
        self.read_back = self.read_back.with(backend);
        self
    }

    /// Opens a listed file for reading; otherwise it is judged. A file that was `looked_at` a moment
    /// ago is opened without looking first.
    pub fn find(
        &mut self,
        target: &Arc<Target>,
        path: &RelPath,
        looked_at: bool,
    ) -> Result<FoundFile, Verdict> {
        match self.open(target, path, looked_at) {
            Err(Verdict::Missing) => {}
            opened => return opened.map(|(file, stat)| FoundFile { file, stat, converted: None }),
        }
        // On Unix such a name may be that of a file, and dircopy lists it if it is.
        if target.ours.is_none()
            && let Some(why) = absolute_on_windows(path)
        {
            return Err(Verdict::Refused(why));
        }
        let converted = self.other_name(target, path).transpose();
        if let Some(converted) = converted.map_err(|fault| Verdict::Refused(fault.to_string()))? {
            match self.open(target, &converted, looked_at) {
                Err(Verdict::Missing) => {}
                opened => {
                    let (file, stat) = opened?;
                    return Ok(FoundFile { file, stat, converted: Some(converted) });
                }
            }
        }
        let converted = self.other_form(target, path).ok_or(Verdict::Missing)?;
        let (file, stat) = self.open(target, &converted, looked_at)?;
        Ok(FoundFile { file, stat, converted: Some(converted) })
    }

    /// The name of a file of a bag's payload as it is there, if that differs in letter case or Unicode form alone.
    fn other_form(&mut self, target: &Arc<Target>, path: &RelPath) -> Option<RelPath> {
        let is_payload = target.part.bag().is_some_and(|bag| !bag.is_tag);
        let (dir, name) = path.split().filter(|_| is_payload && self.forms_left > 0)?;
        self.forms_left -= 1;
        let name = std::str::from_utf8(name).ok()?.to_owned();
        let found = linked::find(self.enter(target, dir.clone()).ok()?, &name)?;
        Some(dir.join(&found))
    }

    /// A second name to try where the first has no file: with `\` taken for `/`, or as other programs write it in a
    /// bag.
    fn other_name(&self, target: &Target, path: &RelPath) -> Option<Result<RelPath, PathFault>> {
        if self.convert && path.as_bytes().contains(&b'\\') {
            return Some(converted(path));
        }
        target.part.bag()?.other_spelling(path).map(Ok)
    }

    /// Size of a listed file in bytes; a hint, `None` for anything but a regular file.
    pub fn size(&mut self, target: &Arc<Target>, path: &RelPath) -> Option<u64> {
        let looked = match self.look(target, path) {
            Err(Verdict::Missing) => {
                let other = self.other_name(target, path)?.ok()?;
                self.look(target, &other)
            }
            looked => looked,
        };
        looked.ok().map(|stat| stat.size)
    }

    /// Where on its disk a listed file begins, in an order that means something among files of one
    /// file system only; a hint.
    pub fn place_on_disk(&mut self, target: &Arc<Target>, path: &RelPath) -> Option<u64> {
        let found = self.find(target, path, false).ok()?;
        Some(sys::place_on_disk(&found.file).unwrap_or(found.stat.id.ino))
    }

    /// Looks at a listed file without opening it: opening a device can do things, and opening a
    /// FIFO can wait.
    fn look(&mut self, target: &Arc<Target>, path: &RelPath) -> Result<Stat, Verdict> {
        let unreadable =
            |deed, error| Verdict::Unreadable(Error::io(deed, target.path_of(path), error));
        let Some((dir, name)) = path.split() else { return Err(Verdict::Missing) };
        let name = sys::name_from_bytes(name).map_err(|error| unreadable("name", error))?;
        match self.enter(target, dir)?.stat(name, false) {
            Ok(stat) if stat.kind == Kind::File => Ok(stat),
            Ok(stat) => Err(Verdict::NotAFile(stat.kind)),
            Err(error) if is_absent(&error) => Err(Verdict::Missing),
            Err(error) => Err(unreadable("look at", error)),
        }
    }

    /// Opens a listed file. If something else took the place of a file that was `looked_at`, it may be opened here,
    /// without waiting, and is not read.
    fn open(
        &mut self,
        target: &Arc<Target>,
        path: &RelPath,
        looked_at: bool,
    ) -> Result<(File, Stat), Verdict> {
        let unreadable =
            |deed, error| Verdict::Unreadable(Error::io(deed, target.path_of(path), error));
        if !looked_at {
            self.look(target, path)?;
        }
        let Some((dir, name)) = path.split() else { return Err(Verdict::Missing) };
        let name = sys::name_from_bytes(name).map_err(|error| unreadable("name", error))?;
        let file = match self.enter(target, dir)?.open_file(name, false) {
            Ok(file) => file,
            // Not what it was when it was looked at?
            Err(_) if looked_at => return self.open(target, path, false),
            Err(error) if is_absent(&error) => return Err(Verdict::Missing),
            Err(error) => return Err(unreadable("open", error)),
        };
        let stat = Dir::stat_file(&file).map_err(|error| unreadable("look at", error))?;
        match stat.kind {
            Kind::File => Ok((file, stat)),
            other => Err(Verdict::NotAFile(other)),
        }
    }

    /// The directory `path` below the root, component by component.
    fn enter(&mut self, target: &Arc<Target>, path: RelPath) -> Result<&Dir, Verdict> {
        let root = target.handle().map_err(Verdict::Unreadable)?;
        let last = self.last.take().filter(|(last, _)| Arc::ptr_eq(last, target));
        let fresh = || (Arc::clone(target), LastDir::default());
        let (_, last) = self.last.insert(last.unwrap_or_else(fresh));
        last.enter(root, &path).map_err(|error| barrier(root, target, &path, error))
    }

    /// Number of files that are best read at a time.
    pub fn side_by_side(&self) -> usize {
        self.read_back.side_by_side()
    }

    /// Hashes files and judges them by the digest that is listed first.
    pub fn read_as_listed(
        &mut self,
        target: &Target,
        files: &[ListedFile<'_>],
    ) -> Option<Vec<(Verdict, u64)>> {
        let Some(links) = self.links.take() else { return self.read_whole(target, files, true) };
        let mut judged = Vec::with_capacity(files.len());
        for file in files {
            judged.push(links.check(target, file, self.until));
        }
        let mut read = None;
        if !judged.iter().any(|linked| matches!(linked, Linked::Stopped)) {
            read = self.read_rest(target, files, judged, &links);
        }
        self.links = Some(links);
        read
    }

    /// Reads as a whole what is not judged by its links, and says where it differs.
    fn read_rest(
        &mut self,
        target: &Target,
        files: &[ListedFile<'_>],
        judged: Vec<Linked>,
        links: &LinkChecker<'_>,
    ) -> Option<Vec<(Verdict, u64)>> {
        let (mut fresh, mut again) = (Vec::new(), Vec::new());
        for (file, linked) in files.iter().zip(&judged) {
            match linked {
                Linked::Good(_) => {}
                // Its bytes are counted.
                Linked::Bad(_) => again.push(*file),
                Linked::Unknown | Linked::Stopped => fresh.push(*file),
            }
        }
        let mut fresh = self.read_whole(target, &fresh, true)?.into_iter();
        let mut again = self.read_whole(target, &again, false)?.into_iter();
        let mut results = Vec::with_capacity(files.len());
        for (file, linked) in files.iter().zip(judged) {
            let (result, damage) = match linked {
                Linked::Good(from) => ((Verdict::Good(from), file.found.size()), None),
                Linked::Bad(damage) => (again.next()?, Some(damage)),
                Linked::Unknown | Linked::Stopped => (fresh.next()?, None),
            };
            results.push(match result {
                (Verdict::Differs(from, found, _), bytes) => {
                    let damage = damage.or_else(|| links.locate(target, file, self.until));
                    let damage = damage.filter(Damage::says_something).map(Box::new);
                    (Verdict::Differs(from, found, damage), bytes)
                }
                other => other,
            });
        }
        Some(results)
    }

    /// Hashes files from their beginnings to their ends and judges them; `counted` is whether their bytes are
    /// progress.
    fn read_whole(
        &mut self,
        target: &Target,
        files: &[ListedFile<'_>],
        counted: bool,
    ) -> Option<Vec<(Verdict, u64)>> {
        let states = self.states;
        let wants = |file: &ListedFile<'_>| states.is_some_and(|it| it.wants(file.found.size()));
        let is_other = |file: &ListedFile<'_>| file.digest.algorithm() != Algorithm::Sha256;
        if files.iter().any(|file| wants(file) || is_other(file)) {
            return self.read_each(target, files, counted, states);
        }
        let cannot = |file: &ListedFile<'_>, deed, error| {
            Verdict::Unreadable(Error::io(deed, target.path_of(file.path), error))
        };
        let mut media = Vec::with_capacity(files.len());
        let opened: Vec<io::Result<()>> = files
            .iter()
            .map(|ListedFile { found, .. }| {
                media.push(match self.from {
                    ReadFrom::Medium => Medium::of(&found.file, &found.stat)?,
                    ReadFrom::Cache => Medium::any(&found.file),
                });
                Ok(())
            })
            .collect();
        let (progress, until, backs) = (self.progress, self.until, &mut self.read_back);
        let is_to_stop = || until.is_over();
        let in_hand =
            files.first().filter(|_| counted).and_then(|ListedFile { found, path, .. }| {
                let size = if files.len() == 1 { found.stat.size } else { 0 };
                progress.take_in_hand(size, |shown| shown.extend_from_slice(path.as_bytes()))
            });
        let told = |read| {
            if counted {
                progress.advance(read, in_hand.as_deref());
            }
        };
        // One by itself is hashed as fast as one can be.
        let hashed = match (media.pop(), media.is_empty()) {
            (Some(only), true) => {
                vec![backs.hash(only, Algorithm::Sha256, is_to_stop, told).transpose()?]
            }
            (last, _) => {
                media.extend(last);
                backs.hash_all(media, is_to_stop, told)?
            }
        };
        let mut hashed = hashed.into_iter();
        let judged = files.iter().zip(opened).map(|(file, opened)| {
            if let Err(error) = opened {
                return Some((cannot(file, "write what is in memory of", error), 0));
            }
            Some(match hashed.next()? {
                Ok(hashed) => (judge(target, file, &hashed), hashed.bytes),
                Err(error) => (cannot(file, "read", error), 0),
            })
        });
        judged.collect()
    }

    /// The same for one file after the other, each by its algorithm, making states of those that have none.
    pub fn read_each(
        &mut self,
        target: &Target,
        files: &[ListedFile<'_>],
        counted: bool,
        states: Option<&MadeStates>,
    ) -> Option<Vec<(Verdict, u64)>> {
        let (progress, until, mut judged) = (self.progress, self.until, Vec::new());
        for file in files {
            let ListedFile { found, path, digest, .. } = file;
            let name = |shown: &mut Vec<u8>| shown.extend_from_slice(path.as_bytes());
            let in_hand = progress.take_in_hand(found.size(), name).filter(|_| counted);
            let told = |read| {
                if counted {
                    progress.advance(read, in_hand.as_deref());
                }
            };
            let medium = match self.from {
                ReadFrom::Medium => found.medium(),
                ReadFrom::Cache => Ok(Medium::any(&found.file)),
            };
            let wants = states.is_some_and(|states| states.wants(found.size()));
            let keeps = digest.algorithm() == Algorithm::Sha256 && wants;
            let is_to_stop = || until.is_over();
            let read = medium.and_then(|medium| match keeps {
                true => self.read_back.hash_keeping(medium, is_to_stop, told),
                false => {
                    let read = self.read_back.hash(medium, digest.algorithm(), is_to_stop, told)?;
                    Ok(read.map(|read| (read, None)))
                }
            });
            judged.push(match read.transpose()? {
                Err(error) => {
                    let error = Error::io("read", target.path_of(path), error);
                    (Verdict::Unreadable(error), 0)
                }
                Ok((read, chain)) => {
                    let verdict = judge(target, file, &read);
                    if let (Verdict::Good(_), Some(chain), Some(states)) = (&verdict, chain, states)
                        && target.chain(digest).is_none_or(|(known, _)| known != chain)
                    {
                        states.put(target, path, read.bytes, digest, chain);
                    }
                    (verdict, read.bytes)
                }
            });
        }
        Some(judged)
    }
}

/// The verdict: the digest that was found against the one that is listed.
fn judge(target: &Target, file: &ListedFile<'_>, hashed: &FileDigest) -> Verdict {
    let ListedFile { path, found, digest, .. } = file;
    if hashed.digest == Some(**digest) {
        return Verdict::Good(hashed.hashed_from);
    }
    let path = || target.path_of(path);
    match Dir::stat_file(&found.file).map(|now| found.stat.change(&now)) {
        Ok(None) => Verdict::Differs(hashed.hashed_from, hashed.digest, None),
        Ok(Some(change)) => Verdict::Unreadable(Error::finding("check", path(), change)),
        Err(error) => Verdict::Unreadable(Error::io("look at", path(), error)),
    }
}

/// True if an error says that there is no such entry, or that none can be.
fn is_absent(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::InvalidFilename)
}

/// Why a directory below the root could not be entered: what is in the way of its name, if it is
/// not a directory, or the error.
fn barrier(root: &Dir, target: &Target, path: &RelPath, error: io::Error) -> Verdict {
    if is_absent(&error) {
        return Verdict::Missing;
    }
    let mut here = root.try_clone();
    for name in path.components() {
        let (Ok(dir), Ok(name)) = (&here, sys::name_from_bytes(name)) else { break };
        let name: &OsStr = name;
        match dir.stat(name, false) {
            Ok(stat) if stat.kind != Kind::Dir => return Verdict::NotThrough(stat.kind),
            Ok(_) => here = dir.open_dir(name, false),
            Err(_) => break,
        }
    }
    Verdict::Unreadable(Error::io("open directory", target.path_of(path), error))
}
