//! Reading manifests and handing out their lines.

mod bag_list;
mod history_names;
pub mod manifest_lines;
pub mod seen;
pub mod shards;

use std::{fs::File, io, io::Seek, io::SeekFrom, sync::Arc};

use crossbeam_channel::{Sender, bounded};

use crate::verify::lines::{
    history_names::Contradiction, history_names::HistoryNames, manifest_lines::ManifestLine,
    manifest_lines::Meaning, seen::EmptyManifests, seen::FillingBatch, seen::LineBatch,
    seen::ListedRoot, seen::NamesOf, seen::PassGuard, seen::StoppableReader, seen::UnhashedLine,
    seen::UnhashedLines, seen::is_there, shards::LineSum, shards::LinesWanted, shards::WantedLines,
};
use crate::{
    error::Error, event::Stop, hash::Algorithm, hash::Sha256, manifest::Fault, path::RelPath,
    sys::stat::Identity, tree::Filter, verify::Finding, verify::Findings, verify::ManifestLines,
    verify::NameHasher, verify::PartOf, verify::SeenNames, verify::Target, verify::TargetSpec,
    verify::Witness, verify::scrub::Pass, verify::scrub::Scrub,
    verify::several::RereadableManifest, verify::target::FoundManifest, verify::target::OpenTarget,
};

// The thread that reads the manifests and hands out their lines to the workers.

/// The result of the thread.
#[derive(Default)]
pub struct LinesRead {
    /// Number of lines that were given to workers.
    pub given: u64,
    /// The names that are listed, where they are asked for.
    pub listed: Vec<ListedRoot>,
    /// Each directory that names start at, with any of its manifests.
    pub roots: Vec<Arc<Target>>,
    /// The identities of the manifests.
    pub manifests: Vec<Identity>,
    /// The manifests, to be read once more, where that is asked for.
    pub reread: Vec<RereadableManifest>,
    /// The names in the generations of a history that were read.
    history: HistoryNames,
    /// Those that list nothing.
    empty: EmptyManifests,
    /// The digest of the manifest of a check in shards, if it was read to its end; …
    pub manifest_sum: Option<Sha256>,
    /// … and the sums of the lines of each shard, if they are wanted.
    pub sums: Vec<LineSum>,
}

pub struct LineReader<'a> {
    /// Makes hashes of names.
    pub key: NameHasher,
    /// True if the listed names are kept.
    pub complete: bool,
    /// True if the manifests may have to be read once more.
    pub reread: bool,
    /// The scrub that chooses among the lines, if not all are to be checked.
    pub scrub: Option<&'a Scrub>,
    /// The lines that a check in shards wants; all of others.
    pub wanted: Option<LinesWanted>,
    /// Asked to stop?
    pub stop: &'a Stop,
    pub tasks: Sender<LineBatch>,
    /// To the thread that runs the job.
    pub findings: Sender<Findings>,
}

/// The result of the first reading of a manifest.
#[derive(Default)]
struct FirstReading {
    /// To notice names that come again.
    seen: SeenNames,
    /// True if all lines are known.
    complete: bool,
    /// True if there was a finding.
    found: bool,
    /// Lines with no digest that can be checked.
    unhashed: UnhashedLines,
}

impl LineReader<'_> {
    pub fn work(self, specs: &[TargetSpec]) -> LinesRead {
        let mut done = LinesRead::default();
        for spec in specs {
            if self.stop.is_requested() {
                break;
            }
            match spec.open() {
                Ok(opened) => self.manifest(opened, &mut done),
                Err((target, error)) => self.tell(&target, Finding::Unusable(error)),
            }
        }
        self.end_history(&mut done);
        let empty = std::mem::take(&mut done.empty);
        if !self.stop.is_requested() {
            empty.findings().for_each(|(target, finding)| self.tell(&target, finding));
        }
        done
    }

    /// Tells what shows when all generations of a history were read.
    fn end_history(&self, done: &mut LinesRead) {
        let findings = std::mem::take(&mut done.history).findings();
        if !self.stop.is_requested() {
            findings.into_iter().for_each(|(target, finding)| self.tell(&target, finding));
        }
    }

    /// Fails only when the job's thread has ended, and then nothing matters.
    fn tell(&self, target: &Arc<Target>, finding: Finding) {
        let _ = self.findings.send(Findings::new(target, vec![finding]));
    }

    fn manifest(&self, opened: OpenTarget, done: &mut LinesRead) {
        let OpenTarget { target, found } = opened;
        let FoundManifest { manifest, id, is_recorded, unfinished, rivals, others, misnamed } =
            found;
        done.manifests.push(id);
        let is_same = |it: &Arc<Target>| it.root_id == target.root_id && it.root == target.root;
        if !done.roots.iter().any(is_same) {
            done.roots.push(Arc::clone(&target));
        }
        if let Some(name) = unfinished {
            self.tell(&target, Finding::Unfinished(name));
        }
        rivals.into_iter().for_each(|rival| self.tell(&target, Finding::Rival(rival)));
        if !others.is_empty() {
            self.tell(&target, Finding::Others(others));
        }
        misnamed.into_iter().for_each(|error| self.tell(&target, Finding::Incomplete(error)));
        let for_passes = self.scrub.map(|scrub| (scrub, manifest.try_clone()));
        if self.reread
            && manifest.metadata().is_ok_and(|file| file.is_file())
            && let Ok(manifest) = manifest.try_clone()
        {
            done.reread.push(RereadableManifest { target: Arc::clone(&target), manifest });
        }
        if !matches!(target.part, PartOf::Generation { newest: false, .. }) {
            self.end_history(done);
        }
        if let PartOf::Generation { .. } = target.part {
            done.history.begin(&target);
        }
        let FirstReading { seen, complete, found, .. } = self.read(&target, manifest, done);
        match for_passes {
            None => {}
            Some((_, Err(error))) => {
                let error = Error::io("read once more the manifest", &target.manifest, error);
                self.tell(&target, Finding::Broken(error));
            }
            // After an incomplete reading, the times of lines that were not read would be lost.
            Some((scrub, Ok(manifest))) if complete => {
                self.hand_out_passes(scrub, &target, manifest, done);
            }
            Some(_) => {}
        }
        let is_empty = seen.is_empty() && !found;
        let finding = done.empty.note(&target, is_empty, is_recorded);
        if let Some(finding) = finding.filter(|_| !self.stop.is_requested()) {
            self.tell(&target, finding);
        }
        if self.complete && !target.part.is_references() || target.part.bag().is_some() {
            let names = vec![NamesOf { target: Arc::clone(&target), names: seen }];
            let left_out = match target.part {
                PartOf::Generation { newest: true, .. } => done.history.left_out(),
                _ => Filter::default(),
            };
            let root = target.root_id;
            let new = ListedRoot { target, names, left_out };
            match done.listed.iter_mut().find(|listed| listed.target.root_id == root) {
                Some(listed) => listed.join(new),
                None => done.listed.push(new),
            }
        }
    }

    /// Reads a manifest for the first time: tells the faults of its lines, and hands out the others, or
    /// lists them for the scrub.
    fn read(&self, target: &Arc<Target>, manifest: File, done: &mut LinesRead) -> FirstReading {
        let mut wanted = self.wanted.map(|wanted| {
            let len = manifest.metadata().map_or(0, |manifest| manifest.len());
            WantedLines::new(wanted, len)
        });
        let hasher = self.wanted.map(|_| Algorithm::Sha256.start());
        let mut manifest = StoppableReader { file: manifest, stop: self.stop, hasher };
        let mut lines = ManifestLines::new(target, &mut manifest);
        let (mut reading, mut batch) = (FirstReading::default(), FillingBatch::default());
        let mut oddity_is_told = false;
        while !self.stop.is_requested() {
            let finding = match lines.next_line() {
                Ok(None) => {
                    reading.complete = true;
                    break;
                }
                Ok(Some(Meaning::File(line))) => {
                    let (seen, history) = (&mut reading.seen, &mut done.history);
                    self.list(line, target, seen, &mut wanted, history, &mut batch)
                }
                Ok(Some(other)) => self.note(other, target, &mut reading, &mut wanted, done),
                Err(_) if self.stop.is_requested() => break,
                Err(error) => {
                    let error = Error::io("read the manifest", &target.manifest, error);
                    self.tell(target, Finding::Unusable(error));
                    reading.found = true;
                    break;
                }
            };
            if let Some(finding) = finding {
                reading.found = true;
                self.tell_if_wanted(target, finding, &mut wanted);
            }
            if batch.is_full() && !self.hand_out(target, None, &mut batch, done) {
                break;
            }
            if !oddity_is_told && let Some(oddity) = lines.oddity() {
                oddity_is_told = true;
                self.tell(target, oddity);
            }
        }
        self.hand_out(target, None, &mut batch, done);
        let unhashed = std::mem::take(&mut reading.unhashed);
        let mut told = unhashed.findings(target, &reading.seen);
        reading.found |= !told.is_empty();
        if reading.complete {
            told.extend(lines.at_end());
        }
        told.extend(lines.oddity().filter(|_| !oddity_is_told));
        told.into_iter().for_each(|finding| self.tell(target, finding));
        done.sums = wanted.map_or_else(Vec::new, |wanted| wanted.sums);
        done.manifest_sum = manifest.sum().filter(|_| reading.complete);
        reading
    }

    /// Notes what a line says that names no file to check.
    fn note(
        &self,
        meaning: Meaning,
        target: &Arc<Target>,
        reading: &mut FirstReading,
        wanted: &mut Option<WantedLines>,
        done: &mut LinesRead,
    ) -> Option<Finding> {
        let mut is_told = |line| wanted.as_mut().is_none_or(|wanted| wanted.is_told(line));
        match meaning {
            Meaning::Nothing | Meaning::File(_) => {}
            Meaning::Fault(Finding::Malformed {
                line,
                fault: Fault::OtherAlgorithm(algorithm),
            }) => {
                reading.unhashed.note(line, algorithm.into());
                if is_told(line) {
                    reading.unhashed.note_nameless(line, algorithm.into());
                }
            }
            Meaning::Fault(finding) => return Some(finding),
            Meaning::Unhashed(line, path, algorithm) => {
                let key = self.key_of(&path, target);
                reading.seen.note_bare(key);
                let unhashed = UnhashedLine { key, line, algorithm };
                if let PartOf::Generation { .. } = target.part {
                    return done.history.look_for(target, unhashed, &path);
                }
                if let Some(algorithm) = algorithm {
                    reading.unhashed.note(line, algorithm);
                }
                if is_told(line) {
                    reading.unhashed.look(target, unhashed, path);
                }
            }
            Meaning::Beside(line, algorithm) => reading.unhashed.note(line, algorithm),
            Meaning::LeftOut(pattern) => done.history.leave_out(pattern),
            Meaning::Renamed(old, now) => {
                let key = self.key.of(&old);
                reading.seen.note_bare(key);
                done.history.rename(key, self.key.of(&now), &now);
            }
        }
        None
    }

    /// The hash of a name. A file of the same name as a reference that lies elsewhere is another one.
    fn key_of(&self, path: &RelPath, target: &Target) -> u64 {
        let key = self.key.of(path);
        if target.part.is_references() { !key } else { key }
    }

    /// Tells what was found on a line, unless that is another shard's.
    fn tell_if_wanted(
        &self,
        target: &Arc<Target>,
        finding: Finding,
        wanted: &mut Option<WantedLines>,
    ) {
        let line = match &finding {
            Finding::Malformed { line, .. }
            | Finding::Torn { line, .. }
            | Finding::Refused { line, .. }
            | Finding::Twice { line, .. } => Some(*line),
            _ => None,
        };
        let is_told = match (wanted, line) {
            (Some(wanted), Some(line)) => wanted.is_told(line),
            _ => true,
        };
        if is_told {
            self.tell(target, finding);
        }
    }

    /// Puts a line into the batch, unless its name was there before with the same digest. A scrub hands it
    /// out later, when all lines are known.
    fn list(
        &self,
        line: ManifestLine,
        target: &Target,
        seen: &mut SeenNames,
        wanted: &mut Option<WantedLines>,
        history: &mut HistoryNames,
        batch: &mut FillingBatch,
    ) -> Option<Finding> {
        let key = self.key_of(&line.path, target);
        let before = seen.note_all(key, line.number, line.digests());
        let is_new_bag = target.part.bag().is_some_and(|bag| bag.declaration.escapes());
        if is_new_bag && before.is_some() {
            let fault = Fault::Form("its file is listed on an earlier line too");
            return Some(Finding::Malformed { line: line.number, fault });
        }
        let twice = before.map(|(first, same)| {
            let path = line.path.clone();
            Finding::Twice { line: line.number, first, path, same }
        });
        if matches!(twice, Some(Finding::Twice { same: true, .. })) {
            return twice;
        }
        let mut give = |line: ManifestLine| match self.scrub {
            Some(scrub) => scrub.list(&line.path, &line.digest),
            None if wanted.as_mut().is_none_or(|wanted| wanted.is_checked(&line)) => {
                batch.push(line);
            }
            None => {}
        };
        if !matches!(target.part, PartOf::Generation { .. }) {
            give(line);
            return twice;
        }
        let (number, path) = (line.number, line.path.clone());
        if !line.is_reference && history.need_not_be(key, target, &path) {
            return twice;
        }
        match history.judge(key, line, || is_there(target, &path)) {
            Ok(lines) => lines.into_iter().for_each(give),
            Err(Contradiction) => {
                let by = Witness::LaterGeneration;
                return twice.or(Some(Finding::Contradicts { line: number, path, by }));
            }
        }
        twice
    }

    /// Hands out the lines pass by pass; the manifest is read once for each. No file is begun before all
    /// files of the earlier passes, but for those that were bad: a bad file that does not fit into their
    /// half of the budget is skipped.
    fn hand_out_passes(
        &self,
        scrub: &Scrub,
        target: &Arc<Target>,
        manifest: File,
        done: &mut LinesRead,
    ) {
        match scrub.recall(target) {
            Ok(None) => {}
            Ok(Some(error)) => self.tell(target, Finding::Forgotten(error)),
            Err(error) => return self.tell(target, Finding::Broken(error)),
        }
        for pass in scrub.passes() {
            scrub.begin(pass);
            let (guard, begun) = bounded(0);
            let given = || {
                let mut manifest = &manifest;
                manifest.seek(SeekFrom::Start(0))?;
                let lines = ManifestLines::new(target, manifest);
                self.hand_out_pass(scrub, pass, lines, guard, done)
            };
            match given() {
                Ok(all) if all || (pass == Pass::Bad && !self.stop.is_requested()) => {
                    // Returns when the last clone of the guard is dropped.
                    let _ = begun.recv();
                }
                Ok(_) => return,
                Err(error) => {
                    let error = Error::io("read once more the manifest", &target.manifest, error);
                    return self.tell(target, Finding::Broken(error));
                }
            }
        }
    }

    /// Hands out the lines of one pass; false when no more are wanted.
    fn hand_out_pass(
        &self,
        scrub: &Scrub,
        pass: Pass,
        mut lines: ManifestLines<'_, &File>,
        guard: PassGuard,
        done: &mut LinesRead,
    ) -> io::Result<bool> {
        let target = lines.target();
        let mut batch = FillingBatch::default();
        let mut hand_out = |batch: &mut FillingBatch| {
            !scrub.is_over() && self.hand_out(target, Some(&guard), batch, done)
        };
        while let Some(line) = lines.next_file()? {
            if scrub.give(&line.path, &line.digest, pass) {
                batch.push(line);
            }
            if batch.is_full() && !hand_out(&mut batch) {
                return Ok(false);
            }
        }
        Ok(hand_out(&mut batch))
    }

    /// Gives a batch to the workers; false when the check is to stop.
    fn hand_out(
        &self,
        target: &Arc<Target>,
        pass: Option<&PassGuard>,
        batch: &mut FillingBatch,
        done: &mut LinesRead,
    ) -> bool {
        if self.stop.is_requested() {
            return false;
        }
        let lines = batch.take();
        if lines.is_empty() {
            return true;
        }
        done.given += lines.len() as u64;
        let (target, pass) = (Arc::clone(target), pass.cloned());
        self.tasks.send(LineBatch { target, pass, lines: lines.into_iter() }).is_ok()
    }
}
