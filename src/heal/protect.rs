//! Giving a tree parity by its manifest, and anew to what has another content by now.
//!
//! Lines of the manifest are gathered by the sizes of their files. Once there are enough of one size, their parity is
//! made. A file that is not as it is listed is named and left out: parity of rot would keep the rot. Sets that are
//! whole and of what is listed, or there and not listed, stay, and of their files only those are read that have another
//! size or time by now. One that is not goes only when each of its files that is still listed so has parity elsewhere:
//! until then it may be all that there is.

use std::{
    convert::Infallible, ffi::OsString, fs::File, io, io::Seek, path::Path, path::PathBuf,
    sync::Arc, time::Instant,
};

use crate::{
    error::Deed, error::Error, error::Result, event::Observer, event::Stop, hash::Digest,
    io::HashedFrom, io::ReadBack, parity::AllUnfit, parity::Bins, parity::MOST_SUMS, parity::Means,
    parity::ParityDir, parity::ParityIndex, parity::ParityReport, parity::Share, parity::Unfit,
    parity::Wanted, path::RelPath, staged::refuse_moved, state::Missing, state::PrivateDir, sys,
    sys::Dir, sys::DirListing, sys::Medium, sys::is_on_turning_disk, sys::stat::Kind,
    tree::LastDir, tree::Patience, tree::pass::EntryBelow, tree::pass::each_below, verify::Checked,
    verify::Finding, verify::FindingObserver, verify::Findings, verify::FoundBad,
    verify::ManifestLine, verify::ManifestLines, verify::Meaning, verify::PartOf, verify::Target,
    verify::Verdict, verify::VerifyJob, verify::VerifyReport, verify::expand,
};

/// The share of parity where none is asked for.
const USUAL: Share = Share(500);

/// A tree to protect. Make one with [`new`](Self::new) and change what should differ.
#[derive(Clone, Debug)]
pub struct ProtectJob {
    /// The tree, and whose records say which manifest holds. No more than one directory.
    pub check: VerifyJob,
    /// Parity for so many of 10,000 parts of the content; without it for as much as before, or 5 %.
    pub share: Option<u32>,
    /// Wait for another run on the tree to end instead of refusing.
    pub wait: bool,
    /// What was made while the tree was copied.
    pub ahead: ParityReport,
}

impl ProtectJob {
    /// A job with the defaults of the command line.
    pub fn new(dir: impl Into<PathBuf>) -> Self {
        Self {
            check: VerifyJob::new([dir]),
            share: None,
            wait: false,
            ahead: ParityReport::default(),
        }
    }

    /// Runs it. The stop of `observer` must not serve another run.
    ///
    /// # Errors
    /// The job makes no sense, or another run is at work on the tree, or no parity can be kept there. Everything that
    /// goes wrong later is told to `observer` and counted in the report.
    pub fn run(&self, observer: &FindingObserver<'_>) -> Result<VerifyReport> {
        self.check.try_hashing()?;
        let (started, Observer { stop, listen, .. }) = (Instant::now(), observer);
        let mut counts = Checked::default();
        let tell = |counts: &mut Checked, target: &Target, finding: Finding| {
            counts.add(&finding);
            listen(target, &finding);
        };
        let mut specs = self.check.specs()?;
        specs.iter_mut().for_each(|spec| spec.is_written = true);
        let specs = expand(specs);
        for Findings { target, found } in specs.findings {
            found.into_iter().for_each(|finding| tell(&mut counts, &target, finding));
        }
        let lists: Vec<PartOf> = specs.specs.iter().map(|spec| spec.part).collect();
        let Some(spec) = specs.specs.iter().find(|spec| spec.part.is_protected_of(&lists)) else {
            let dir = self.check.dirs.first().cloned().unwrap_or_else(|| ".".into());
            let finding = "parity is kept for one directory with one manifest of dircopy, or a bag";
            return Err(Error::finding("protect", dir, finding));
        };
        let mut parity = None;
        match spec.open() {
            Err((target, error)) => tell(&mut counts, &target, Finding::Unusable(error)),
            Ok(opened) => {
                if let Some(misnamed) = opened.found.misnamed {
                    return Err(misnamed);
                }
                let (target, manifest) = (&opened.target, opened.found.manifest);
                for rival in opened.found.rivals {
                    tell(&mut counts, target, Finding::Rival(rival));
                }
                let (root, path) = (target.handle()?, &target.root);
                let waiting =
                    |text: &str| listen(&Target::none(), &Finding::Waiting(text.to_owned()));
                let patience = Patience { wait: self.wait, deed: "protect", tell: &waiting, stop };
                let state = self.check.state.as_deref();
                let private = PrivateDir::need(root, path, state, Missing::Make)?;
                private.iter().try_for_each(|it| patience.lock(it, path).map(drop))?;
                let dir = ParityDir::make(root, path)?;
                remove_leftovers(&dir).deed("list", dir.path())?;
                let share = self.share.map(Share);
                let protecting = Protecting { target, share, is_all: true, state, observer };
                let made = protecting.run(&dir, &manifest, &mut counts)?;
                parity = Some(made.after(&self.ahead));
                if let Err(moved) = refuse_moved(root, path) {
                    tell(&mut counts, target, Finding::Broken(moved));
                }
                drop(private);
            }
        }
        let (interrupted, elapsed) = (stop.requested(), started.elapsed());
        Ok(VerifyReport { counts, parity, interrupted, elapsed, ..VerifyReport::default() })
    }
}

/// Removes what killed runs left.
pub fn remove_leftovers(dir: &ParityDir) -> io::Result<()> {
    for listed in DirListing::of(dir.dir())? {
        let name = listed?.name;
        if sys::is_part_name(&name) {
            // What a process still writes stays.
            let _ = dir.dir().remove_abandoned(&name);
        }
    }
    Ok(())
}

/// The means to protect a tree.
pub struct Protecting<'a> {
    pub target: &'a Arc<Target>,
    /// The share of parity, if one is asked for.
    pub share: Option<Share>,
    /// True if all files are protected, and not only those that were before.
    pub is_all: bool,
    /// Where private directories are kept, if not in the tree, which is locked.
    pub state: Option<&'a Path>,
    pub observer: &'a FindingObserver<'a>,
}

/// The state of a run.
struct Run<'a> {
    by: &'a Protecting<'a>,
    means: Means<'a>,
    dir: &'a ParityDir,
    index: ParityIndex,
    /// Of the entries of the index, those that are listed with their digests, or there and not listed, and …
    listed: Vec<bool>,
    /// … those that have parity in a set that stays, or a new one.
    renewed: Vec<bool>,
    /// The sets that stay.
    stay: Vec<bool>,
    /// The names of new sets.
    made: Vec<OsString>,
    /// True if a listed file has no parity.
    is_lacking: bool,
    last: LastDir,
    read_back: ReadBack,
    counts: &'a mut Checked,
    bad: FoundBad,
    report: ParityReport,
}

impl Protecting<'_> {
    /// Protects the files that the manifest lists, and counts what is found.
    ///
    /// # Errors
    /// The manifest or the parity cannot be read.
    pub fn run(
        &self,
        dir: &ParityDir,
        manifest: &File,
        counts: &mut Checked,
    ) -> Result<ParityReport> {
        let Observer { progress, stop, listen } = self.observer;
        let is_to_stop = || stop.is_requested();
        let on_read = |bytes| progress.advance(bytes, None);
        let warn = |error| listen(self.target, &Finding::Warning(error));
        let index = ParityIndex::load(dir, &is_to_stop, &warn)?;
        let before = index.sets.iter().filter_map(|set| set.share).max();
        let root = self.target.handle()?;
        let means = Means {
            root,
            share: self.share.or(before).unwrap_or(USUAL),
            memory: MOST_SUMS,
            turns: is_on_turning_disk(root),
            is_to_stop: &is_to_stop,
            on_read: &on_read,
        };
        let none = vec![false; index.len()];
        let mut run = Run {
            by: self,
            means,
            dir,
            listed: none.clone(),
            renewed: none,
            stay: Vec::new(),
            index,
            made: Vec::new(),
            is_lacking: false,
            last: LastDir::default(),
            read_back: ReadBack::new(),
            counts,
            bad: FoundBad::default(),
            report: ParityReport { is_all: self.is_all, ..ParityReport::default() },
        };
        run.compare(manifest, stop)?;
        let mut bins = Bins::default();
        self.each_line(manifest, stop, |line| match line {
            Meaning::File(line) => run.take(&mut bins, line),
            Meaning::Fault(finding) if self.is_all => run.tell(finding),
            _ => {}
        })?;
        bins.rest().for_each(|files| run.close(files));
        if !stop.is_requested() {
            run.remove_old();
        }
        let left = run.bad.put_in_doubt(self.state, true, stop);
        left.into_iter().for_each(|error| run.tell(Finding::Warning(error)));
        Ok(run.report)
    }

    fn each_line(
        &self,
        mut manifest: &File,
        stop: &Stop,
        mut take: impl FnMut(Meaning),
    ) -> Result<()> {
        let path = &self.target.manifest;
        manifest.rewind().deed("read the manifest", path)?;
        let mut lines = ManifestLines::new(self.target, manifest);
        while let Some(line) = lines.next_line().deed("read the manifest", path)? {
            if stop.is_requested() {
                break;
            }
            take(line);
        }
        Ok(())
    }
}

impl Run<'_> {
    fn tell(&mut self, finding: Finding) {
        self.counts.add(&finding);
        self.bad.note(self.by.target, &finding);
        (self.by.observer.listen)(self.by.target, &finding);
    }

    /// Finds the sets that stay: whole, of listed contents alone, and with as much parity as is asked for.
    fn compare(&mut self, manifest: &File, stop: &Stop) -> Result<()> {
        let (index, listed) = (&self.index, &mut self.listed);
        let mut is_named = vec![false; listed.len()];
        self.by.each_line(manifest, stop, |line| {
            let Meaning::File(line) = line else { return };
            for (entry, _, is_same) in index.entries(&line.path, &line.digest) {
                listed[entry] |= is_same;
                is_named[entry] = true;
            }
        })?;
        // What a run found rotten it lists no more: this parity may be all that mends it.
        if !is_named.iter().all(|is_named| *is_named) {
            let mut is_all = true;
            let seen = each_below(self.means.root, stop, &mut |found| {
                let Ok(EntryBelow { path, kind, .. }) = found else {
                    is_all = false;
                    return Ok::<_, Infallible>(false);
                };
                for entry in index.numbers(&path) {
                    listed[entry] |= kind != Kind::Dir && !is_named[entry];
                }
                Ok(kind == Kind::Dir)
            });
            if !is_all || !seen.unwrap_or_default() {
                listed.fill(true);
            }
        }
        let share = self.by.share;
        let is_enough =
            |set: &crate::parity::KnownSet| share.is_none_or(|share| set.share == Some(share));
        self.stay = index.sets.iter().map(|set| set.is_whole && is_enough(set)).collect();
        for entry in (0..listed.len()).filter(|entry| !listed[*entry]) {
            self.stay[index.set_of(entry)] = false;
        }
        Ok(())
    }

    /// Takes a line: its file has parity, or gets it together with others of its size.
    fn take(&mut self, bins: &mut Bins, line: ManifestLine) {
        let ManifestLine { number, path, digest, .. } = line;
        let (mut is_known, mut has_parity) = (false, false);
        for (_, set, is_same) in self.index.entries(&path, &digest) {
            (is_known, has_parity) = (true, has_parity || is_same && self.stay[set]);
        }
        if has_parity {
            self.report.files += 1;
            self.renew(&path, &digest);
        }
        // Of a set that is lost nobody knows which files it was of: any that have no other.
        let may_be_lost = !self.index.lost.is_empty();
        if !self.by.is_all && (has_parity || !is_known && !may_be_lost) {
            return;
        }
        let wanted = Wanted { path, digest, line: number };
        let stat = self.last.stat(self.means.root, &wanted.path, false);
        let stat = stat.and_then(|stat| match stat.kind {
            Kind::File => Ok(stat),
            kind => {
                Err(io::Error::new(io::ErrorKind::InvalidInput, format!("it is {}", kind.name())))
            }
        });
        let stat = match stat {
            Ok(stat) => stat,
            Err(error) => return self.unfit(wanted, Unfit::Io(error)),
        };
        let size = stat.size;
        // A run may have given it another time since, and recorded that.
        if has_parity
            && (self.index.is_as_it_was(&wanted.path, &wanted.digest, &stat)
                || self.by.target.is_as_left(&wanted.path, &wanted.digest, &stat))
        {
            return;
        }
        if let Some(verdict) = self.by.target.other_size(size, &wanted.path, &wanted.digest) {
            self.is_lacking = true;
            if self.by.is_all {
                self.tell(found(wanted, verdict, 0));
            }
            return;
        }
        if has_parity {
            return self.read_kept(wanted);
        }
        if size == 0 {
            // Nothing of it can be lost but its name.
            return match wanted.digest.is_of_nothing() {
                true => self.fits(&wanted, 0),
                false => self.unfit(wanted, Unfit::Differs(None)),
            };
        }
        bins.add(wanted, size).into_iter().flatten().for_each(|files| self.close(files));
    }

    /// Reads a file that has parity in a set that stays, and tells of it.
    fn read_kept(&mut self, wanted: Wanted) {
        let Means { root, is_to_stop, on_read, .. } = self.means;
        let mut read = || {
            let (file, before) = self.last.open_file(root, &wanted.path).map_err(Unfit::Io)?;
            let by = wanted.digest.algorithm();
            let hashed = self.read_back.hash(Medium::any(&file), by, is_to_stop, on_read);
            let Some(hashed) = hashed.map_err(Unfit::Io)? else { return Ok(None) };
            match before.change(&Dir::stat_file(&file).map_err(Unfit::Io)?) {
                Some(change) => Err(Unfit::Changed(change)),
                None if hashed.digest == Some(wanted.digest) => Ok(Some(hashed.bytes)),
                None => Err(Unfit::Differs(hashed.digest)),
            }
        };
        match read() {
            Ok(Some(bytes)) => self.tell(found(wanted, Verdict::Good(HashedFrom::Cache), bytes)),
            // The run is to stop.
            Ok(None) => {}
            Err(why) => self.unfit(wanted, why),
        }
    }

    /// Makes the parity of these files, without those that do not fit.
    fn close(&mut self, mut files: Vec<Wanted>) {
        // A name that is listed twice is one file.
        files.sort_by(|a, b| a.path.cmp(&b.path));
        files.dedup_by(|a, b| a.path == b.path && a.digest == b.digest);
        while !files.is_empty() && !(self.means.is_to_stop)() {
            let mut unfit = AllUnfit::new();
            match self.dir.add(&files, &self.means, &mut unfit) {
                Err(error) => return self.tell(Finding::Broken(error)),
                Ok(Some(set)) => {
                    self.report.add(&set);
                    self.made.push(set.name);
                    for wanted in &files {
                        let size = self.last.stat(self.means.root, &wanted.path, false);
                        self.fits(wanted, size.map_or(0, |stat| stat.size));
                    }
                    return;
                }
                // The run is to stop.
                Ok(None) if unfit.is_empty() => return,
                Ok(None) => {}
            }
            let mut fit = Vec::with_capacity(files.len());
            for (number, wanted) in files.into_iter().enumerate() {
                match unfit.remove(&number) {
                    Some(why) => self.unfit(wanted, why),
                    None => fit.push(wanted),
                }
            }
            files = fit;
        }
    }

    /// Notes that a file needs no set that goes.
    fn renew(&mut self, path: &RelPath, digest: &Digest) {
        for (entry, _, is_same) in self.index.entries(path, digest) {
            self.renewed[entry] |= is_same;
        }
    }

    fn fits(&mut self, wanted: &Wanted, bytes: u64) {
        self.renew(&wanted.path, &wanted.digest);
        self.report.files += 1;
        if self.by.is_all {
            self.tell(found(wanted.clone(), Verdict::Good(HashedFrom::Cache), bytes));
        }
    }

    /// Tells of a file that gets no parity, unless a check did.
    fn unfit(&mut self, wanted: Wanted, why: Unfit) {
        self.is_lacking = true;
        if !self.by.is_all {
            return;
        }
        let path = self.by.target.path_of(&wanted.path);
        let verdict = match why {
            Unfit::Io(error) if error.kind() == io::ErrorKind::NotFound => Verdict::Missing,
            Unfit::Io(error) => Verdict::Unreadable(Error::io("read", path, error)),
            Unfit::Changed(how) => Verdict::Unreadable(Error::finding("protect", path, how)),
            Unfit::Differs(digest) => Verdict::Differs(HashedFrom::Cache, digest, None),
        };
        self.tell(found(wanted, verdict, 0));
    }

    /// Removes the sets of what is neither listed nor there any more, or has parity elsewhere by now.
    fn remove_old(&mut self) {
        let mut is_needed = vec![false; self.index.sets.len()];
        for (entry, (listed, renewed)) in self.listed.iter().zip(&self.renewed).enumerate() {
            let set = self.index.set_of(entry);
            is_needed[set] |= *listed && !*renewed;
            self.index.sets[set].is_foreign &= !*listed;
        }
        let mut old = Vec::new();
        for ((set, stays), is_needed) in self.index.sets.iter().zip(&self.stay).zip(is_needed) {
            // What another program made of what is not listed here is not ours to remove.
            if !stays && !is_needed && !set.is_foreign {
                old.extend(set.names.iter().cloned());
            } else if !set.names.iter().any(|name| self.made.contains(name)) {
                self.report.kept += 1;
            }
        }
        // What a file was of is known no more: all that is listed must have parity without it.
        let counts = &self.counts;
        if !self.is_lacking && !counts.is_untrue() && !counts.is_incomplete() {
            old.append(&mut self.index.lost);
        }
        // A set that was made anew of the same files has the same name.
        old.retain(|name| !self.made.contains(name));
        for name in old {
            match self.dir.remove(&name) {
                Ok(()) => self.report.removed += 1,
                Err(error) => self.tell(Finding::Broken(error)),
            }
        }
    }
}

fn found(wanted: Wanted, verdict: Verdict, bytes: u64) -> Finding {
    let Wanted { path, digest, line } = wanted;
    Finding::File { line, path, listed: digest, verdict, bytes, shared: 0, proven: None }
}
