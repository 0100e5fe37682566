//! The records of earlier runs about the output, as a run takes them.

use std::{ffi::OsStr, io, sync::Arc, sync::OnceLock};

use crate::copy::mirror::search::is_no_directory;
use crate::{
    copy::CopyJob, copy::Counts, copy::Prepared, copy::commit::Committer, copy::mirror::Removal,
    copy::mirror::departures::Departures, copy::mirror::look::BackgroundLook,
    copy::mirror::look::LookResult, copy::run::OutputRun, error::Deed, error::Error, error::Result,
    event::Event, event::EventListener, event::Gate, event::Stop, hash::Algorithm, io::Options,
    io::Reflink, io::Renamed, io::Sparse, path::DirPath, path::RelPath, state::CountedRun,
    state::FileSources, state::Knowledge, state::Mounts, state::NewRoot, state::NotAll,
    state::Note, state::PrivateDir, state::Rescues, state::SourceMark, state::Unlisted,
    state::plugs::Replugged, sys::DirListing, sys::name_from_bytes, transfer::OtherTree,
    transfer::RecordedTree, transfer::UnmetFiles, transfer::baseline::Baseline,
    transfer::share::RenamedFiles, tree::Cleanup, tree::Inclusion, tree::OutputDir,
    tree::SourceDir,
};

/// The records of earlier runs, as far as this run needs them.
#[derive(Default)]
pub struct EarlierRecords {
    /// The baseline that the source is held against.
    pub baseline: Option<Baseline>,
    /// The record of the output's files.
    pub known: Option<Knowledge>,
    /// It holds the output's lock.
    pub private: Option<PrivateDir>,
    /// The records that could not be read.
    pub warnings: Vec<Error>,
    /// The entries that have left the source, if they are to leave the output; known before the first thing is made.
    pub looked: OnceLock<LookResult>,
}

impl EarlierRecords {
    /// The entries that have left the source, if they are known.
    pub fn departures(&self) -> Option<&Departures> {
        match self.looked.get() {
            Some(LookResult::Found(found)) => Some(found),
            _ => None,
        }
    }

    /// True if the look before lets the run succeed. It is not made if all that is at the output is in the source: so
    /// many entries.
    pub fn is_permitted(&self, mirror: &BackgroundLook<'_, '_>, all: Option<u64>) -> bool {
        let Some(entries) = all.filter(|_| mirror.spare()) else { return mirror.lets_pass() };
        // It was not made before.
        let _ = self.looked.set(LookResult::Found(Departures::none(entries)));
        true
    }

    /// True if other file systems were mounted in the source, as far as is known. That one is missing only the look
    /// before finds.
    pub fn may_miss_mounts(&self) -> bool {
        let last = self.private.as_ref().and_then(SourceMark::read);
        last.is_none_or(|last| last.mounts != Mounts::default())
    }

    /// What earlier runs rescued at the output.
    pub fn rescues(&self, job: &CopyJob, options: &Options<'_>) -> Option<Rescues<'_>> {
        let are_wanted = job.rescue && options.journaling.is_some();
        let private = self.private.as_ref().filter(|_| job.is_of_itself())?;
        Some(Rescues::read(private, are_wanted))
    }

    /// Tells what only shows when all entries of `source`, if that is a directory, have been met.
    pub fn settle(&self, job: &CopyJob, committer: &mut Committer<'_>, source: Option<&SourceDir>) {
        committer.settle_expected(source);
        source.into_iter().for_each(|source| self.settle_mounts(job, committer, source));
        let lists_nothing = job.options.algorithm == Algorithm::None && job.shard.is_none();
        let private = self.private.as_ref().filter(|_| lists_nothing && !committer.is_cut_short());
        let named =
            private.map(|private| committer.name_decayed(private, self.departures(), source));
        if let Some(Err(error)) = named {
            committer.accounting.warn(&error);
        }
        // That the trees could not be compared is something that was asked for and not done.
        if let Some(LookResult::Unknown(error)) = self.looked.get() {
            committer.accounting.not_departed(1, error);
        }
    }

    /// Tells of directories of the source that are empty, and were the mount points of others at the last complete run.
    fn settle_mounts(&self, job: &CopyJob, committer: &mut Committer<'_>, source: &SourceDir) {
        let is_whole = job.shard.is_none() && job.names.is_none();
        let is_meant = job.options.allow_empty || job.options.selection.one_file_system;
        let private = self.private.as_ref().filter(|_| is_whole && !is_meant);
        let Some(last) = private.and_then(SourceMark::read) else { return };
        for path in last.mounts.paths() {
            if committer.accounting.mounts.has(path) || !was_visited(job, source, path) {
                continue;
            }
            let dir = source.handle.open_below(path);
            if dir.and_then(|dir| DirListing::is_empty(&dir)).unwrap_or(false) {
                let finding = "another file system was mounted there at the last complete run, and now it is empty: is its \
                               disk not mounted? --allow-empty takes it as it is";
                let path = path.full_path(&job.source);
                committer.accounting.failed(&Error::finding("copy", path, finding));
            }
        }
    }

    /// Counts the run at the output, unless it was refused. That it could not is one of its warnings. What was read
    /// back after the device was away is looked for only where a proof is told: it takes reading the record.
    pub fn count(
        &self,
        run: &OutputRun<'_>,
        output: &OutputDir,
        gate: &Gate<'_>,
        counts: &mut Counts,
    ) -> Option<CountedRun> {
        let OutputRun { job, observer, .. } = *run;
        let private = self.private.as_ref().filter(|_| job.is_of_itself() && !gate.is_shut())?;
        let (root, elsewhere) = (output.handle.as_ref()?, job.state.as_deref());
        let warn = observer.warn_in(&mut counts.warnings);
        let mut run = CountedRun::count(private, root, &job.output, elsewhere, warn)?;
        if counts.is_any_proven() {
            run.replugged = Replugged::noted(private, root);
        }
        Some(run)
    }

    /// A root that was new has the source's permissions now, unless these were held back.
    pub fn settle_new_root(&self, committer: &mut Committer<'_>) {
        let root = committer.root();
        let is_settled = root.finish.is_some() && !root.is_withheld();
        let Some(private) = self.private.as_ref().filter(|_| is_settled) else { return };
        if let Err(error) = NewRoot::forget(private) {
            let path = private.path();
            committer.accounting.warn(&Error::io(
                "remove the private note of a new output in",
                path,
                error,
            ));
        }
    }

    /// The entries that are to leave the output at the end.
    pub fn removal<'a>(
        &'a self,
        job: &'a CopyJob,
        committer: &Committer<'_>,
        source: &Arc<SourceDir>,
        cleanup: Cleanup<'a>,
        stop: &'a Stop,
    ) -> Option<Removal<'a>> {
        let (mirror, departures) = (job.mirror.as_ref()?, self.departures()?);
        Some(Removal {
            mirror,
            departures,
            source: Arc::clone(source),
            output: Arc::clone(committer.root()),
            private: self.private.as_ref(),
            proof: job.options.algorithm,
            follow: job.options.selection.follow_links,
            links: job.options.selection.links,
            durable: job.options.sync,
            cleanup,
            known: self.known.as_ref(),
            stop,
        })
    }

    /// The files that have another name at the source now, and the places to look for them.
    pub fn renamed<'a>(
        &'a self,
        job: &CopyJob,
        source: &Arc<SourceDir>,
        output: &OutputDir,
        stop: &'a Stop,
    ) -> Option<RenamedFiles<'a>> {
        // Who asks for other blocks or other holes than there are gets them.
        let may_share = job.options.reflink == Reflink::Auto && job.options.sparse == Sparse::Auto;
        if job.options.renamed == Renamed::Copy || !may_share || job.payload.is_some() {
            return None;
        }
        let tree = match &job.last_generation {
            Some(last) => {
                RecordedTree::Other(OtherTree::of(last, job.options.algorithm).ok()?.into())
            }
            None => {
                let known = self.known.as_ref().filter(|known| known.has_records())?;
                RecordedTree::Output(output.handle.as_ref()?.try_clone().ok()?, known)
            }
        };
        let renamed =
            RenamedFiles::new(Arc::clone(source), job.options.selection.follow_links, tree, stop);
        // Two names of one file beside each other are what a user who edits there does not expect.
        let may_link = match job.options.renamed {
            Renamed::Auto => job.mirror.is_some() || job.last_generation.is_some(),
            Renamed::Link => true,
            Renamed::Clone | Renamed::Copy => false,
        };
        if !may_link {
            renamed.links.set_unusable();
        }
        Some(renamed)
    }

    /// Says that files are hard links now which were not before.
    pub fn tell_links(
        &self,
        job: &CopyJob,
        renamed: Option<&RenamedFiles<'_>>,
        listen: &EventListener<'_>,
    ) {
        let text = "files that were renamed at the source are hard links to those of the old names: do not write to \
                    them at the output, that would change both";
        if renamed.is_some_and(RenamedFiles::has_linked) {
            listen(&Event::Limits(&job.output, text));
        }
    }

    /// Notes that what the run brings may be newer than every list, if it lists nothing, or is a shard: a run that
    /// finished a list since the plan was made has taken that note away.
    ///
    /// # Errors
    /// The note cannot be written.
    pub fn note_beginning(&self, job: &CopyJob) -> Result<()> {
        let lists_nothing = job.options.algorithm == Algorithm::None || job.shard.is_some();
        let Some(private) = self.private.as_ref().filter(|_| lists_nothing) else { return Ok(()) };
        let own = Unlisted { plan: job.shard.as_ref().map(|shard| shard.tag.plan) };
        match Unlisted::read(private) {
            Some(noted) if noted == own || noted.plan.is_none() => Ok(()),
            // Of two plans, or of a plan and a run that lists nothing, neither can list what the other brought.
            Some(_) => Unlisted { plan: None }.note(private, job.options.sync),
            None => own.note(private, job.options.sync),
        }
    }

    /// Notes for later runs what the source of a complete run is, and for checks how much another did not bring over;
    /// how many warnings there are for that.
    pub fn note_end(
        &self,
        job: &CopyJob,
        source: &SourceDir,
        is_file: bool,
        counts: &Counts,
        committer: &mut Committer<'_>,
    ) -> u64 {
        if committer.is_cut_short() {
            return 0;
        }
        let noted = self.note_missing(job, counts).and_then(|()| match counts.is_whole() {
            true if is_file => self.know_dir_of_file(job, source),
            true => self.know_source(job, source, committer),
            false => Ok(()),
        });
        noted.inspect_err(|error| committer.accounting.warn(error)).is_err().into()
    }

    fn note_missing(&self, job: &CopyJob, counts: &Counts) -> Result<()> {
        let private = self.private.as_ref().filter(|_| job.shard.is_none());
        let Some(private) = private else { return Ok(()) };
        let noted = match counts.failed + counts.left {
            0 => NotAll::forget(private),
            missing => NotAll { missing }.write(private, job.options.sync),
        };
        let listed = || match job.options.algorithm {
            Algorithm::None => Ok(()),
            _ => Unlisted::forget(private),
        };
        noted
            .and_then(|()| listed())
            .deed_at("write the private note of what is missing in", || private.path())
    }

    /// The run is complete: later ones are to know its source again, in which the walk met these
    /// mounts.
    fn know_source(
        &self,
        job: &CopyJob,
        source: &SourceDir,
        committer: &Committer<'_>,
    ) -> Result<()> {
        let Some(private) = &self.private else { return Ok(()) };
        let output = committer.root().handle.as_ref();
        let fail =
            |error| Error::io("write the private note of the source in", private.path(), error);
        // Also where runs look that keep their records elsewhere: the source is known by the output.
        let in_output = output.map(|root| private.in_output(root)).transpose().map_err(fail)?;
        if let Some(in_output) = in_output.flatten() {
            know_in(&in_output, job, source, committer).map_err(fail)?;
        }
        know_in(private, job, source, committer).map_err(fail)
    }

    /// The same of a source that is one file: which directory it is in, where others may put another one in the place
    /// of that.
    fn know_dir_of_file(&self, job: &CopyJob, dir: &SourceDir) -> Result<()> {
        let is_kept = dir.handle.is_place_kept().unwrap_or(false);
        let Some(private) = self.private.as_ref().filter(|_| !is_kept) else { return Ok(()) };
        let mut sources = FileSources::read(private).unwrap_or_default();
        let noted = match sources.add(&job.source, &dir.handle) {
            true => sources.write(private, job.options.sync),
            false => Ok(()),
        };
        noted.deed_at("write the private note of the source in", || private.path())
    }
}

impl Counts {
    /// Counts what was found as expected or edited, and tells which files are expected and are not in the
    /// source, of those that the walk did not come upon; none if the source is one file. The user may have removed
    /// them, so it is no failure, unless all is expected. A useless line is a failure: it may be that of a file that
    /// has rotted.
    pub(crate) fn settle_expected(
        &mut self,
        expected: &Baseline,
        source: Option<&SourceDir>,
        follow: bool,
        stop: &Stop,
        listen: &EventListener<'_>,
    ) {
        self.as_expected = expected.as_listed();
        self.edited = expected.edited();
        self.unusable_lines = expected.malformed();
        let (mut left, mut settled) = (UnmetFiles::default(), Ok(()));
        if let Some(source) = source.filter(|_| !stop.is_requested()) {
            let is_to_stop = || stop.is_requested();
            let is_lost = expected.expects_all();
            let gone = |path: &RelPath| {
                self.gone += 1;
                let path = path.as_bytes();
                listen(&if is_lost { Event::Lost(path) } else { Event::Gone(path) });
            };
            match expected.gone(&source.handle, follow, &is_to_stop, gone) {
                Ok(found) => left = found,
                Err(error) => settled = Err(error),
            }
        }
        settled = settled
            .and_then(|()| expected.each_edited(|path| listen(&Event::Edited(path.as_bytes()))));
        self.unusable_lines += left.refused;
        self.lost = if expected.expects_all() { left.gone } else { 0 };
        let unusable = expected.warning(self.unusable_lines);
        let foreign =
            expected.told_foreign(left).filter(|_| settled.is_ok() && !stop.is_requested());
        let unlisted = expected.told_unlisted().filter(|_| !stop.is_requested());
        self.unheld = (unlisted.is_some() || foreign.is_some()).into();
        let mut warn = |warning: &Error| {
            self.warnings += 1;
            listen(&Event::Warning(warning));
        };
        expected.told_of_bag().iter().for_each(&mut warn);
        let warnings = unusable.into_iter().chain(foreign).chain(unlisted);
        let like_sha512 = expected.told_like_sha512(self.rotten);
        let warnings = warnings.chain(expected.told_alike()).chain(like_sha512);
        warnings.for_each(|warning| warn(&warning));
        if let Err(error) = settled.and_then(|()| expected.check_unchanged()) {
            // It is not known how many.
            self.unusable_lines = self.unusable_lines.max(1);
            warn(&error);
        }
    }
}

/// Notes the source in one private directory.
fn know_in(
    private: &PrivateDir,
    job: &CopyJob,
    source: &SourceDir,
    committer: &Committer<'_>,
) -> io::Result<()> {
    let now = SourceMark::of(&source.handle, committer.accounting.mounts.clone());
    let mut now = now.at(&job.source);
    let last = SourceMark::read(private);
    // What could not be asked takes nothing away from what is known.
    if last.as_ref() == Some(&now)
        || last.as_ref().is_some_and(SourceMark::is_known) && !now.is_known()
    {
        return Ok(());
    }
    // What this run did not enter may be mounted all the same.
    if let Some(mut last) = last.filter(|last| !now.root.is_other_than(&last.root)) {
        let is_part = job.names.is_some() || job.shard.is_some();
        last.mounts.keep_only(|path| is_part || !was_visited(job, source, path));
        now.mounts.add_earlier(last.mounts);
    }
    now.write(private, job.options.sync)
}

/// True if a walk of the source comes to `path`, or would if there were a directory.
fn was_visited(job: &CopyJob, source: &SourceDir, path: &RelPath) -> bool {
    let Ok(root) = source.handle.identity() else { return false };
    let (mut here, mut inclusion) = (None, job.options.selection.filter.root());
    let mut rel = DirPath::root();
    for name in path.components() {
        let Ok(name) = name_from_bytes(name) else { return false };
        let above = here.as_ref().unwrap_or(&source.handle);
        rel = rel.below(name);
        inclusion = job.options.selection.filter.judge(rel.path().as_bytes(), true, inclusion);
        if inclusion == Inclusion::Out {
            return false;
        }
        let dir = match above.open_dir(name, job.options.selection.follow_links) {
            Ok(dir) => dir,
            // Something else has its name, or nothing.
            Err(error) => return is_no_directory(above, name, &error),
        };
        let is_here = dir.identity().is_ok_and(|id| id.dev == root.dev);
        if job.options.selection.one_file_system && !is_here {
            return false;
        }
        here = Some(dir);
    }
    true
}

/// The record of the files that are at the output.
pub fn known(
    job: &CopyJob,
    prepared: &Prepared,
    private: Option<&PrivateDir>,
    stop: &Stop,
    warnings: &mut Vec<Error>,
) -> Option<Knowledge> {
    let Prepared { source, output, .. } = prepared;
    let root = output.handle.as_ref()?;
    if job.options.algorithm == Algorithm::None || output.fresh || job.shard.is_some() {
        return None;
    }
    let is_in_source = |name: &OsStr| source.handle.stat(name, false).is_ok();
    let (path, is_to_stop) = (&job.output, || stop.is_requested());
    let (known, unreadable) = Knowledge::load(private, root, path, &is_in_source, &is_to_stop);
    warnings.extend(unreadable);
    Some(known.proving_with(job.options.algorithm))
}
