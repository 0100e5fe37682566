//! Making a file whole from the parity of its tree: for what no other tree has.
//!
//! A set is repaired as a whole, into a file of its own beside the parity, from which each of its bad files takes its
//! slices. That is not proven by itself: each file is, by its listed digest, before it gets its name.

use std::{cell::RefCell, collections::HashMap, fs::File, io::Seek, io::SeekFrom};

use crate::error::is_absent;
use crate::{
    error::Deed, error::Error, error::Result, event::Stop, heal::FileCopy, heal::bad::BadFile,
    heal::bad::Case, heal::bad::Mended, heal::bad::Tree, heal::bad::Unmended, heal::mend::Mender,
    heal::new_file::NewFile, heal::protect::Protecting, heal::protect::remove_leftovers,
    parity::JoinedFiles, parity::Listed, parity::ParityDir, parity::ParityIndex, parity::Repair,
    parity::StoredSet, parity::WillBeWhole, parity::bad_slices, path::RelPath, staged::StagedFile,
    state::rescues::path_of, sys, sys::Dir, sys::Medium, sys::stat::Kind, sys::stat::Stat,
    tree::LastDir, verify::Finding, verify::FindingObserver, verify::Mend, verify::Target,
    verify::VerifyReport,
};

/// Sets that are repaired and wait for the next of their files.
const MOST_REPAIRED: usize = 6;

/// Written at once.
const BLOCK: u64 = 1 << 20;

/// The parity of a tree, and what of it was repaired.
pub struct TreeParity {
    dir: ParityDir,
    index: ParityIndex,
    repaired: Vec<RepairedSet>,
    /// The files that a dry run would have made whole.
    healable: WillBeWhole,
    /// The sets that are of no use until a file is mended: to find that out is to read all of their files.
    beyond: HashMap<usize, Beyond>,
}

/// How far a set is from what can be repaired.
#[derive(Clone, Copy)]
struct Beyond {
    /// Bad slices …
    bad: usize,
    /// … and recovery slices that are left.
    left: usize,
}

/// A set whose bad slices are known.
struct RepairedSet {
    number: usize,
    file: JoinedFiles,
    stored: StoredSet,
    bad: Vec<usize>,
    /// The bad slices as they were, one after the other; `None` in a dry run, or if none is bad.
    slices: Option<StagedFile>,
}

/// The slices of a file of a repaired set.
struct SlicesOf<'s> {
    set: &'s RepairedSet,
    /// The number of the file, and of its first slice.
    file: usize,
    first: usize,
}

impl TreeParity {
    /// That of a tree, if it has some.
    ///
    /// # Errors
    /// It cannot be read.
    fn open(tree: &Tree, dry_run: bool, stop: &Stop, warn: &dyn Fn(Error)) -> Result<Option<Self>> {
        // What is another user's is of no use, nor is what has the name of the directory.
        let opened = ParityDir::open(&tree.dir, &tree.root).ok();
        let Some(dir) = opened.flatten() else { return Ok(None) };
        if !dry_run && tree.private().is_some() {
            remove_leftovers(&dir).deed("list", dir.path())?;
        }
        let index = ParityIndex::load(&dir, &|| stop.is_requested(), warn)?;
        let (repaired, healable, beyond) = (Vec::new(), WillBeWhole::new(), HashMap::new());
        Ok(Some(Self { dir, index, repaired, healable, beyond }))
    }

    /// Those of trees that are healed; what cannot be read is told to `warn`.
    pub fn open_all(
        trees: &[Tree],
        dry_run: bool,
        stop: &Stop,
        warn: &dyn Fn(Error),
    ) -> Vec<RefCell<Option<Self>>> {
        let open = |tree| Self::open(tree, dry_run, stop, warn).map_err(warn).ok().flatten();
        trees.iter().map(open).map(RefCell::new).collect()
    }

    /// Removes what was repaired, and makes parity anew that is damaged, or of what is listed no more.
    ///
    /// # Errors
    /// A manifest or parity cannot be read.
    pub fn close_all(
        parity: Vec<RefCell<Option<Self>>>,
        trees: &[Tree],
        dry_run: bool,
        observer: &FindingObserver<'_>,
        report: &mut VerifyReport,
    ) -> Result<()> {
        let warn = |error: Error| (observer.listen)(&Target::none(), &Finding::Warning(error));
        for (tree, parity) in trees.iter().zip(parity) {
            let Some(parity) = parity.into_inner() else { continue };
            let dir = parity.close(&warn);
            let may_write = !dry_run && tree.private().is_some();
            let Some((target, manifest)) = tree.only_manifest().filter(|_| may_write) else {
                continue;
            };
            let protecting =
                Protecting { target, share: None, is_all: false, state: None, observer };
            let made = protecting.run(&dir, manifest, &mut report.counts)?;
            report.parity = Some(made).filter(|made| made.made > 0).or(report.parity);
        }
        Ok(())
    }

    /// Removes what was repaired.
    fn close(mut self, warn: &dyn Fn(Error)) -> ParityDir {
        while !self.repaired.is_empty() {
            self.drop_first(warn);
        }
        self.dir
    }

    fn drop_first(&mut self, warn: &dyn Fn(Error)) {
        let first = self.repaired.remove(0);
        if let Some(slices) = &first.slices
            && let Err(error) = slices.remove(self.dir.dir())
        {
            warn(Error::io("remove the part file in", self.dir.path(), error));
        }
    }

    /// Finds out what is bad of a set, and repairs it unless this is a dry run.
    fn repair(&mut self, number: usize, by: &Mender<'_>, tree: &Tree) -> Result<(), Unmended> {
        if self.repaired.iter().any(|set| set.number == number) {
            return Ok(());
        }
        if let Some(Beyond { bad, left }) = self.beyond.get(&number).copied() {
            return Err(Unmended::Beyond { bad, left });
        }
        let is_to_stop = || by.stop.is_requested();
        let known = self.index.sets.get(number).ok_or(Unmended::Nowhere)?;
        let (names, path) = (&known.names, self.dir.path_of(&known.names));
        let name = names.first().ok_or(Unmended::Nowhere)?;
        let (file, stored) = self.dir.read(names, &is_to_stop)?;
        let stored = stored.ok_or(Unmended::Nowhere)?;
        let bad = bad_slices(&stored.files, &tree.dir, &self.healable, &is_to_stop);
        let bad = bad.ok_or(Unmended::Stopped)?;
        let mut slices = None;
        if !bad.is_empty() {
            let Some(repair) = Repair::of(&stored, bad.clone()) else {
                let (bad, left) = (bad.len(), stored.recovery.len());
                self.beyond.insert(number, Beyond { bad, left });
                return Err(Unmended::Beyond { bad, left });
            };
            if !by.dry_run {
                let dir = self.dir.dir();
                let staged = StagedFile::of(dir, name, true, &|_| false).deed("create", &path)?;
                let mut is_whole = true;
                let staged = staged.fill(dir, |to| {
                    let put = |at, bytes: &[u8]| {
                        to.seek(SeekFrom::Start(at))?;
                        sys::write_all(&mut *to, bytes)
                    };
                    is_whole = repair.write(&tree.dir, &file, put, &is_to_stop)?;
                    Ok(())
                });
                let staged = staged.deed("repair by", &path)?;
                if !is_whole {
                    staged.remove(dir).deed("remove the part file", &path)?;
                    return Err(Unmended::Stopped);
                }
                slices = Some(staged);
            }
        }
        if self.repaired.len() == MOST_REPAIRED {
            self.drop_first(by.warn);
        }
        self.repaired.push(RepairedSet { number, file, stored, bad, slices });
        Ok(())
    }
}

impl SlicesOf<'_> {
    fn len(&self) -> u64 {
        self.set.stored.files.slice
    }

    fn size(&self) -> u64 {
        self.set.stored.files.files[self.file].size
    }

    /// Where the slice of this number begins among the repaired ones, if it was bad.
    fn place(&self, slice: usize) -> Option<u64> {
        let row = self.set.bad.binary_search(&(self.first + slice)).ok()?;
        Some(row as u64 * self.len())
    }

    /// The bytes of bad slices.
    fn bytes(&self) -> u64 {
        let bad = |slice: &usize| self.place(*slice).is_some();
        let all = 0..self.size().div_ceil(self.len()) as usize;
        let len = |slice: usize| self.len().min(self.size() - slice as u64 * self.len());
        all.filter(bad).map(len).sum()
    }

    /// Writes the slices into a new file; those that were good from the bad file, unless it is a clone of that.
    fn write(
        &self,
        new: &NewFile<'_>,
        own: Option<&File>,
        is_cloned: bool,
    ) -> Result<(), Unmended> {
        let repaired = self.set.slices.as_ref().map(StagedFile::file).transpose();
        let repaired = repaired.deed("read what was repaired", "parity")?;
        let mut room = vec![0; BLOCK as usize];
        for slice in 0..self.size().div_ceil(self.len()) {
            let place = self.place(slice as usize);
            if is_cloned && place.is_none() {
                continue;
            }
            let start = slice * self.len();
            let (from, file) = match place {
                Some(place) => (place, repaired),
                None => (start, own),
            };
            let file = file.ok_or(Unmended::Nowhere)?;
            let (len, mut done) = (self.len().min(self.size() - start), 0);
            while done < len {
                let want = (len - done).min(BLOCK) as usize;
                let read = Medium::any(file).fill_at(&mut room[..want], from + done);
                if read.deed("read what was repaired", "parity")? != want {
                    return Err(Unmended::Nowhere);
                }
                new.write_at(&room[..want], start + done)?;
                done += want as u64;
            }
        }
        Ok(())
    }
}

impl Mender<'_> {
    /// Notes that a dry run would have made a file whole, by which more of a set of parity is good.
    pub fn note_healable(&self, bad: &BadFile) {
        if let Some(parity) = self.parity.get(bad.tree)
            && let Some(parity) = &mut *parity.borrow_mut()
        {
            parity.healable.insert(bad.path.clone(), bad.digest);
        }
    }

    /// Looks once more at the sets that were beyond repair, because a file of theirs may have been mended since.
    pub fn look_again(&self) {
        for parity in &self.parity {
            if let Some(parity) = &mut *parity.borrow_mut() {
                parity.beyond.clear();
            }
        }
    }

    /// Makes a file from the parity of its tree.
    pub fn by_parity(&self, case: &Case<'_>) -> Result<Mended, Unmended> {
        let (bad, tree) = (case.bad, case.place.tree);
        let parity: &RefCell<Option<TreeParity>> =
            self.parity.get(bad.tree).ok_or(Unmended::Nowhere)?;
        let mut parity = parity.borrow_mut();
        let parity = parity.as_mut().ok_or(Unmended::Nowhere)?;
        let sets = parity.index.entries(&bad.path, &bad.digest);
        // Of a bag the check may have named another of its lists than the one that parity is of.
        let is_of_bag = bad.target.part.bag().is_some();
        let mut sets: Vec<_> = sets.filter(|(.., is_same)| *is_same || is_of_bag).collect();
        if sets.is_empty() && bad.digest.is_of_nothing() {
            return self.as_empty(case, parity);
        }
        // What was made anew is in a set of its own, and in the one that it was in.
        sets.sort_by_key(|(.., is_same)| !is_same);
        let mut beyond = Unmended::Nowhere;
        let repaired = sets.into_iter().find_map(|(_, set, _)| {
            match parity.repair(set, self, tree) {
                Err(Unmended::Nowhere) => return None,
                Err(why @ Unmended::Beyond { .. }) => beyond = why,
                repaired => return Some(repaired.map(|()| set)),
            }
            None
        });
        let set = repaired.unwrap_or(Err(beyond))?;
        let set = parity.repaired.iter().find(|it| it.number == set).ok_or(Unmended::Nowhere)?;
        let files = &set.stored.files.files;
        let file = files.iter().position(|file| file.path == bad.path).ok_or(Unmended::Nowhere)?;
        let first = files.iter().take(file).map(|file| file.sums.len()).sum();
        let slices = SlicesOf { set, file, first };
        let (size, listed) = (slices.size(), files[file].listed);
        let made = set.file.first().ok_or(Unmended::Nowhere)?;
        let recorded = self.recorded(case, made, &parity.dir, size, listed)?;
        let own = case.own();
        self.by_slices(case, &parity.dir, &recorded, slices.bytes(), |new| {
            let is_cloned = own.map_or(Ok(false), |own| new.clone_of(&own.file))?;
            new.look_for_room(if is_cloned { slices.bytes() } else { size })?;
            new.set_length(size, own.filter(|_| !is_cloned).map(|own| &own.stat))?;
            // The one that was opened may be read around the cache, and then in whole pages only.
            let there = case.rescued.as_ref().and_then(|_| path_of(&bad.path));
            let there = there.as_ref().unwrap_or(&bad.path);
            let again = own.map(|own| FileCopy::open(own.tree, tree, there)).transpose();
            let again = again.deed("open", case.path)?;
            if own.map(|own| own.stat.id) != again.as_ref().map(|again| again.stat.id) {
                return Err(Unmended::Nowhere);
            }
            slices.write(new, again.as_ref().map(|again| &again.file), is_cloned)?;
            Ok(is_cloned)
        })
    }

    /// A file that looks as the bad one does, or as a missing one did when its parity was made. That is believed only
    /// if nobody else can have written it, and never more than permissions.
    fn recorded(
        &self,
        case: &Case<'_>,
        file: &File,
        dir: &ParityDir,
        size: u64,
        listed: Option<Listed>,
    ) -> Result<FileCopy> {
        let fail = |error| Error::io("look at", dir.path(), error);
        let now = Dir::stat_file(file).map_err(fail)?;
        let mut stat = Stat { size, allocated: size, kind: Kind::File, mode: 0o600, ..now };
        let listed = listed.filter(|_| dir.dir().is_private().unwrap_or(false));
        // The time of the damage would make it look edited.
        let mtime = listed.as_ref().filter(|_| case.rescued.is_none()).map(|listed| listed.mtime);
        stat.mtime = mtime.or(case.own().map(|own| own.stat.mtime)).unwrap_or(now.mtime);
        match (self.is_labelled_so(case, listed.as_ref()), case.own(), listed) {
            (true, Some(own), _) => {
                let Stat { mode, uid, gid, .. } = own.stat;
                stat = Stat { mode, uid, gid, ..stat };
            }
            (true, None, Some(Listed { mode, uid, gid, .. })) => {
                stat = Stat { mode: mode & 0o777, uid, gid, ..stat };
            }
            _ => {}
        }
        let file = file.try_clone().map_err(fail)?;
        Ok(FileCopy { tree: case.bad.tree, file, stat, is_noted: true })
    }

    /// True if the label of a bad file is its own, or no run gave a missing one another than was noted of it: no other
    /// user can have put another file, or another directory above it, in its place. Where one can, a bad file is to be
    /// the one on record and open to no more than was noted: numbers of inodes are given again. Otherwise it is its
    /// owner's alone.
    fn is_labelled_so(&self, case: &Case<'_>, listed: Option<&Listed>) -> bool {
        let tree = &self.trees[case.bad.tree];
        let left = tree.recorded(case.bad);
        let above = |path: &RelPath| path.split().map(|(above, _)| above);
        let is_kept = |above: RelPath| {
            let is_kept = LastDir::default().enter(&tree.dir, &above).and_then(Dir::is_kept);
            // Missing ones are made, closed.
            is_kept.unwrap_or_else(|error| is_absent(&error))
        };
        let is_kept = std::iter::successors(above(&case.bad.path), above).all(is_kept);
        let noted = listed.filter(|it| left.is_some_and(|left| Some(left.ctime) <= it.ctime));
        let is_so = match case.own().map(|own| own.stat) {
            Some(own) => {
                let is_on_record = left.is_some_and(|left| left.ino == own.id.ino);
                let is_within = |it: &Listed| {
                    (own.uid, own.gid) == (it.uid, it.gid) && own.mode & !it.mode & 0o7777 == 0
                };
                is_kept || is_on_record && noted.is_some_and(is_within)
            }
            None => is_kept && noted.is_some(),
        };
        if !is_so {
            let finding = match case.own().is_none() && is_kept && listed.is_none() {
                true => "its parity does not have them: it is yours alone",
                false => {
                    "they, or a directory above, may be others since its parity was made: it is yours alone"
                }
            };
            (self.warn)(Error::finding("set the permissions of", case.path, finding));
        }
        is_so
    }

    /// Makes an empty file, of which there is nothing to repair.
    fn as_empty(&self, case: &Case<'_>, parity: &TreeParity) -> Result<Mended, Unmended> {
        let set = parity.index.sets.first().ok_or(Unmended::Nowhere)?;
        let name = set.names.first().ok_or(Unmended::Nowhere)?;
        let file = parity.dir.dir().open_file(name, false);
        let file = file.deed("open the parity", parity.dir.path())?;
        let recorded = self.recorded(case, &file, &parity.dir, 0, None)?;
        self.by_slices(case, &parity.dir, &recorded, 0, |_| Ok(false))
    }

    /// Makes a file that `fill` fills with so many bytes of parity, and that looks as the bad one does, but lets in no
    /// more than it did when it was `recorded`.
    fn by_slices(
        &self,
        case: &Case<'_>,
        dir: &ParityDir,
        recorded: &FileCopy,
        bytes: u64,
        fill: impl FnOnce(&mut NewFile<'_>) -> Result<bool, Unmended>,
    ) -> Result<Mended, Unmended> {
        let of_own = |own: &FileCopy| {
            let stat = Stat { mtime: recorded.stat.mtime, ..own.stat };
            let file = own.file.try_clone();
            file.map(|file| FileCopy { tree: own.tree, file, stat, is_noted: false })
        };
        let own = case.own().map(of_own).transpose().deed("open", case.path)?;
        let like = own.as_ref().unwrap_or(recorded);
        let label = |stat: &Stat| (stat.mode, stat.uid, stat.gid);
        let is_as_recorded = label(&like.stat) == label(&recorded.stat);
        let good = if is_as_recorded { Vec::new() } else { vec![recorded] };
        let is_needed = bytes > 0 || case.own().is_none();
        let from = is_needed.then(|| dir.path().to_path_buf()).into_iter().collect();
        let path = case.bad.path.clone();
        let mut mend = Mend { path, from, bytes, is_cloned: false, dry_run: self.dry_run };
        if self.dry_run {
            self.look(case, like, &good)?;
            return Ok(Mended { mend, ready: None });
        }
        let (is_cloned, ready) = self.fill(case, like, good, fill)?;
        mend.is_cloned = is_cloned;
        Ok(Mended { mend, ready: Some(ready) })
    }
}
