//! The course of a copy: to one output or several, and its threads.

pub(crate) mod earlier;
pub mod means;
pub mod outputs;
pub mod threads;

use std::{
    ffi::OsStr, sync::Arc, sync::OnceLock, sync::atomic::Ordering::Relaxed, thread, time::Instant,
};

use jiff::Timestamp;

use crate::{
    chain::StatesFile, copy::CopyJob, copy::Counts, copy::Ending, copy::Prepared, copy::Report,
    copy::Reservations, copy::Stages, copy::bag::BagRun, copy::before::planted::is_output_wider,
    copy::before::space::LateSpaceLook, copy::before::space::RecordedFiles,
    copy::before::space::SpaceAnswer, copy::before::space::SpaceLook, copy::commit::Committer,
    copy::commit::accounting::Accounting, copy::commit::finish::RunEndings,
    copy::commit::finish::RunLeft, copy::commit::group::Group, copy::commit::group::ReadBackQueue,
    copy::commit::group::Verifiers, copy::commit::group::most_dirs,
    copy::commit::group::read_back_queue, copy::dry_run::DryContent, copy::dry_run::DryRun,
    copy::generations::GenerationRun, copy::media::MediaSeal, copy::mirror::look::BackgroundLook,
    copy::mirror::look::DepartureLook, copy::mirror::look::LookResult, copy::record::rotation,
    copy::record::rotation::Rotation, copy::record::rotation::Traces,
    copy::run::earlier::EarlierRecords, copy::run::earlier::known, copy::run::means::Means,
    copy::run::outputs::Beside, copy::run::threads::CopyThreads, copy::run::threads::ThreadResults,
    error::Deed, error::Error, error::Result, event::Event, event::EventObserver, event::Gate,
    event::Progress, event::Stop, fanout::Slot, hash::Algorithm, io::Cache, io::Control,
    io::FilesInUse, io::FurtherDigests, io::RateLimit, io::link_check::Helpers,
    io::read_back::Residency, manifest::ManifestFile, manifest::ManifestName, manifest::Readers,
    parity::ParityAhead, state::Knowledge, sys, sys::Durable, sys::VolumeDetails,
    transfer::Context, transfer::FirstRead, transfer::Shared, transfer::baseline::Baseline,
    transfer::kernel::CopyMethods, tree::NameCount, tree::NameList, tree::Patience, tree::Pattern,
    tree::Walk, tree::dirs::OTHERS_MAY_WRITE, tree::dirs::WIDER,
};

/// The share of the room of an output that may fill up that is kept for its manifest: a small file takes a block of
/// 4 KiB and a line of some 120 bytes.
const SHARE_OF_MANIFEST: u64 = 32;

/// The most of it; bytes.
const MOST_ROOM: u64 = 64 << 20;

// A copy to one output, from the first look at both sides to the report.

impl CopyJob {
    /// Runs the job.
    ///
    /// # Errors
    /// The job was refused and nothing was touched. Everything that goes wrong later is told to
    /// `observer` and counted in the report; look at its [`ending`](Report::ending).
    pub fn run(&self, observer: &EventObserver<'_>) -> Result<Report> {
        self.check_options()?;
        if let Some(generations) = &self.generations {
            self.refuse_other_layout()?;
            return GenerationRun { job: self, generations, observer }.run();
        }
        let (slot, reservations, read) = (None, &Reservations::default(), &FirstRead::default());
        OutputRun { job: self, observer, slot, reservations, read, beside: None }.run()
    }
}

/// A copy to one output, which may be one of several.
pub struct OutputRun<'a> {
    pub job: &'a CopyJob,
    pub observer: &'a EventObserver<'a>,
    /// The output's slot among those that share their reading of the source.
    pub slot: Option<Slot<'a>>,
    /// The space that outputs of the run reserve.
    pub reservations: &'a Reservations,
    /// A file that was read for any of the outputs: all of them know by the same whether the source is gone.
    pub read: &'a FirstRead,
    /// All outputs of the run, if there are several.
    pub beside: Option<&'a Beside<'a>>,
}

impl OutputRun<'_> {
    /// Copies, or in a dry run tells what would be copied.
    ///
    /// # Errors
    /// The job was refused and nothing was touched.
    pub fn run(&self) -> Result<Report> {
        let Self { job, observer, .. } = *self;
        job.refuse_other_layout()?;
        if job.shard.is_none()
            && let Some(nothing) = job.of_nothing(Instant::now(), &observer.stop)?
        {
            let tell = |text: &str| (observer.listen)(&Event::Waiting(text));
            let (wait, stop) = (job.wait && !job.dry_run, &observer.stop.of_one());
            let patience = Patience { wait, deed: "copy to", tell: &tell, stop };
            // A mirror is refused where anything would go.
            if job.mirror.is_some() {
                patience.until_free(&job.output, job.state.as_deref())?;
                self.look_for_departures(patience)?;
            }
            return Ok(nothing);
        }
        let report = match (&job.bag, job.media_format()) {
            (Some(bag), _) => BagRun { bag, tree: self }.run()?,
            (None, Some(form)) => self.copy_with_media_list(form)?,
            (None, None) => self.copy_or_tell()?,
        };
        let is_interrupted = matches!(report.ending, Ending::Interrupted(_));
        if !is_interrupted && report.ending.given_up().is_none() {
            let idle = |pattern: &Pattern| {
                (self.observer.listen)(&Event::IdlePattern(&pattern.to_string()));
            };
            self.job.options.selection.filter.idle().for_each(idle);
        }
        Ok(report)
    }

    /// The same, whatever else is asked for.
    ///
    /// # Errors
    /// The job was refused and nothing was touched.
    pub(crate) fn copy_or_tell(&self) -> Result<Report> {
        let started = Instant::now();
        let Self { job, observer, .. } = *self;
        if let Some(apart) = job.of_another_disk() {
            return self.with(&apart).copy_or_tell();
        }
        // A run that gives itself up leaves the program's stop as it is.
        let stop = &observer.stop.of_one();
        job.check_options()?;
        Means::of_one(self.outputs()).check(job)?;
        let is_to_stop = || stop.is_requested();
        let open = |expected| Baseline::open(expected, &is_to_stop);
        let baseline = job.expected().map(open).transpose()?;
        let baseline = baseline.map(|it| it.with_records_of(job.expects_records, &job.source));
        let tell = |text: &str| (observer.listen)(&Event::Waiting(text));
        let wait = job.wait && !job.dry_run;
        let patience = Patience { wait, deed: "copy to", tell: &tell, stop };
        patience.until_free(&job.output, job.state.as_deref())?;
        let space = self.space_look(&observer.progress).before(patience)?;
        let is_beside = self.looks_beside(patience)?;
        let looked = if is_beside { None } else { self.look_for_departures(patience)? };
        let mut prepared = job.prepare(job.dry_run, patience)?;
        if let Some(limits) = prepared.output.limits() {
            (observer.listen)(&Event::Limits(&job.output, &limits));
        }
        if !prepared.output.fresh && prepared.is_open_to_others() {
            (observer.listen)(&Event::Limits(&job.output, OTHERS_MAY_WRITE));
        }
        if is_output_wider(&prepared, job)? {
            (observer.listen)(&Event::Limits(&job.output, WIDER));
        }
        if job.dry_run {
            prepared.warnings.iter().for_each(|it| (observer.listen)(&Event::Warning(it)));
            return Ok(self.only_tell(prepared, looked, baseline.as_ref(), started, stop));
        }
        let mut warnings = std::mem::take(&mut prepared.warnings);
        let is_later = matches!(space, SpaceAnswer::Later);
        if let SpaceAnswer::Fits { too_large } = space {
            warnings.extend(too_large);
        }
        // What is watched is counted by itself.
        let uncounted = Progress::default();
        let look = LateSpaceLook::new(self.space_look(&uncounted), stop);
        let private = prepared.private.take();
        let known = known(job, &prepared, private.as_ref(), stop, &mut warnings);
        let looked = looked.map_or_else(OnceLock::new, OnceLock::from);
        let earlier = EarlierRecords { baseline, known, private, warnings, looked };
        let (source, output) = (Arc::clone(&prepared.source), Arc::clone(&prepared.output));
        let traces =
            job.leaves_no_traces.then(|| Traces::find(&output, earlier.private.as_ref())).flatten();
        let has_room = || {
            let renamed = earlier.renamed(job, &source, &output, stop);
            let known = earlier.known.as_ref();
            look.lets_pass(RecordedFiles { renamed: renamed.as_ref(), known })
        };
        let look_beside = || self.look_beside(&earlier, stop);
        let look_beside: Option<&(dyn Fn() -> Option<Error> + Sync)> =
            if is_beside { Some(&look_beside) } else { None };
        let (report, refusal) = thread::scope(|scope| {
            let mirror = BackgroundLook::new(scope, stop, look_beside);
            if earlier.may_miss_mounts() {
                mirror.begin();
            }
            let decide = || mirror.lets_pass() && (!is_later || has_room());
            let waits = is_later || is_beside;
            let gate = if waits { Gate::deciding(&decide) } else { Gate::default() };
            let mut report = self.copy(prepared, &earlier, started, stop, &gate, &mirror);
            let settled = traces.map(|traces| {
                traces.settle(&output, earlier.private.as_ref(), &source, &mut report)
            });
            if let Some(Err(error)) = settled {
                report.counts.warnings += 1;
                (observer.listen)(&Event::Warning(&error));
            }
            (report, mirror.refusal())
        });
        refusal.or_else(|| look.refusal()).map_or(Ok(report), Err)
    }

    /// True if departed entries are looked for beside the copy: where earlier runs were, mostly nothing is made.
    fn looks_beside(&self, patience: Patience<'_>) -> Result<bool> {
        let job = self.job;
        let may = job.mirror.is_some() && !job.dry_run && job.shard.is_none();
        if !may || self.outputs() > 1 || Means::of_one(1).are_few() {
            return Ok(false);
        }
        Ok(job.has_private_dir(&job.prepare(true, patience)?))
    }

    /// Looks for what has left the source while the run has the output's lock; why the run is refused, if it is.
    fn look_beside(&self, earlier: &EarlierRecords, stop: &Stop) -> Option<Error> {
        let patience = Patience { wait: false, deed: "copy to", tell: &|_| (), stop };
        match self.look_for_departures(patience) {
            Ok(looked) => {
                looked.into_iter().for_each(|looked| drop(earlier.looked.set(looked)));
                None
            }
            Err(refusal) => Some(refusal),
        }
    }

    /// Refuses a run for which the output has no space; returns what is to be told of files that are too large.
    pub(crate) fn check_space(&self, patience: Patience<'_>) -> Result<Option<Error>> {
        let answer = self.space_look(&self.observer.progress).run(
            patience,
            false,
            RecordedFiles::default(),
        )?;
        Ok(match answer {
            SpaceAnswer::Fits { too_large } => too_large,
            SpaceAnswer::Later => None,
        })
    }

    fn space_look<'a>(&'a self, progress: &'a Progress) -> SpaceLook<'a> {
        let Self { job, reservations, .. } = *self;
        SpaceLook { job, reservations, progress, outputs: self.outputs() }
    }

    /// Looks what has left the source, if that is to leave the output.
    fn look_for_departures(&self, patience: Patience<'_>) -> Result<Option<LookResult>> {
        let Self { job, observer, .. } = *self;
        let Some(mirror) = &job.mirror else { return Ok(None) };
        let prepared = &job.prepare(true, patience)?;
        let (classifier, listen, stop) = (job.classifier(), &observer.listen, patience.stop);
        let noted_at = &job.output;
        DepartureLook { job, mirror, prepared, classifier, noted_at, listen, stop }.run().map(Some)
    }

    /// Says what would become of every entry.
    fn only_tell(
        &self,
        prepared: Prepared,
        looked: Option<LookResult>,
        expected: Option<&Baseline>,
        started: Instant,
        stop: &Stop,
    ) -> Report {
        let Self { job, observer, .. } = *self;
        let mut walk = self.walk(&prepared, true, None);
        let follow = job.follows(&prepared);
        let directory = prepared.file.is_none().then(|| Arc::clone(&prepared.source));
        let Prepared { source, output, .. } = &prepared;
        let content = &DryContent::new(job, follow, source, output, stop);
        let (options, lists) = (&job.options, &*job.lists());
        walk.spares_others = sys::may_give_away() && options.policy.spares_others();
        walk.known = content.known().filter(|_| walk.spares_others);
        let dry = DryRun { options, follow, content, lists, expected, observer, stop };
        let mut counts = dry.run(prepared, &walk);
        if let Some(expected) = expected {
            let (source, listen) = (directory.as_deref(), &observer.listen);
            counts.settle_expected(expected, source, follow, stop, listen);
        }
        let counts = looked.map_or(counts, |looked| looked.tell(&observer.listen, counts));
        let report = Report::dry(counts, stop, started.elapsed());
        let ending = job.ending(&counts, stop, None, directory.as_deref());
        Report { ending, ..report }
    }

    fn copy(
        &self,
        mut prepared: Prepared,
        earlier: &EarlierRecords,
        started: Instant,
        stop: &Stop,
        gate: &Gate<'_>,
        mirror: &BackgroundLook<'_, '_>,
    ) -> Report {
        let Self { job, observer, slot, read, beside, .. } = *self;
        let (options, secret) = (job.options(&prepared, self.outputs(), beside), prepared.secret);
        let (timings, resident) = (&observer.progress.timings, Residency::default());
        let (own_rate, in_use) = (job.limit_rate.map(RateLimit::new), FilesInUse::default());
        let rate = slot.map_or(own_rate.as_ref(), Slot::rate);
        let (methods, baseline) = (&self.methods(&prepared), earlier.baseline.as_ref());
        let states = job.keeps_states().then(StatesFile::default);
        let expected = job.besides(baseline.map(Baseline::algorithms).unwrap_or_default());
        let (further, options) = FurtherDigests::of_run(options, expected, job.lists());
        let further = further.is_any().then_some(&further);
        let renamed = earlier.renamed(job, &prepared.source, &prepared.output, stop);
        let (known, renamed, states) = (earlier.known.as_ref(), renamed.as_ref(), states.as_ref());
        let changed = job.names.as_ref().and_then(NameList::changed);
        let rescues = earlier.rescues(job, &options);
        let (read, rescues, in_use) = (Some(read), rescues.as_ref(), Some(&in_use));
        let alone = Shared { read, rescues, in_use, ..Shared::alone(methods) };
        let shared = Shared { known, baseline, slot, states, further, renamed, changed, ..alone };
        let (progress, helpers) = (&*observer.progress, &Helpers::of_processors());
        let control = Control { progress, stop, rate, timings, resident: &resident, helpers, gate };
        let context = Context { options, shared, control };
        let mut walk = self.walk(&prepared, false, known);
        (walk.gate, walk.stop) = (Some(gate), Some(stop));
        let has_more = || mirror.begin();
        let names_met = NameCount::new(&has_more);
        walk.names_met = job.mirror.is_some().then_some(&names_met);
        walk.resumable = walk.resumable.filter(|_| context.options.journaling.is_some());
        let workers = job.workers_for(&prepared, slot.is_some(), self.outputs());
        let verifiers = if job.options.verify { workers.verifiers(&prepared.output) } else { 0 };
        let (mut committer, threads) = self.committer(&context, &mut prepared, earlier, verifiers);
        slot.iter().for_each(|slot| slot.begin(started, stop));
        let (volumes, output_device) = (self.volumes(&prepared), prepared.output.volume.dev);
        let (source, parts) = (Arc::clone(&prepared.source), prepared.output.volume.parts);
        let tree = prepared.file.is_none().then(|| Arc::clone(&source));
        let rotation = Rotation::of(job, &source);
        let all = CopyThreads::new(job, &context, &walk, workers);
        let ThreadResults { workers, found } = all.run(prepared, threads, &mut committer);
        let is_same = committer.has_kept_all(found) && names_met.has_no_others(found);
        if !earlier.is_permitted(mirror, is_same.then_some(found)) || gate.is_shut() {
            committer.withdraw();
        }
        self.check_account(found, stop, &mut committer);
        earlier.settle(job, &mut committer, tree.as_deref());
        let removal = earlier.removal(job, &committer, &source, walk.cleanup, stop);
        let media = MediaSeal::of(job, stop, parts, secret.as_ref());
        let (tree, removal, rotation) = (tree.as_deref(), removal.as_ref(), rotation.as_ref());
        let endings = RunEndings { source: tree, rotation, removal, media };
        let RunLeft { manifest, trash, media_list, lists } = committer.finish(endings);
        earlier.settle_new_root(&mut committer);
        let foreign = earlier.departures().map_or(0, |found| found.others);
        let mut counts = Counts { seen: found, foreign, ..committer.accounting.counts };
        counts.take_over(slot, progress);
        counts.warnings += earlier.note_end(job, &source, tree.is_none(), &counts, &mut committer);
        earlier.tell_links(job, renamed, &observer.listen);
        Report {
            parity: committer.ahead.take().map(ParityAhead::end),
            counted: earlier.count(self, committer.root(), gate, &mut counts),
            counts,
            methods: committer.accounting.methods(),
            ending: job.ending(&counts, stop, committer.accounting.into_broken(), tree),
            total: progress.counted.load(Relaxed).then(|| progress.total_entries.load(Relaxed)),
            elapsed: started.elapsed(),
            stages: Stages::of(timings),
            source_stayed: resident.source.sum(),
            output_stayed: resident.output.sum(),
            workers,
            verifiers,
            expected: baseline.is_some(),
            resumed: known.is_some_and(|known| known.unfinished().next().is_some()),
            manifest,
            trash,
            media_list,
            lists,
            source_volume: volumes.0,
            output_volume: volumes.1,
            durable: volumes.2,
            hashed_twice: progress.pieces.is_any_of(job.options.algorithm),
            output_device,
        }
    }

    /// The copy methods. Where parity is asked for, what is copied is read soon if parity can be made beside: it takes
    /// memory that is not counted.
    fn methods(&self, prepared: &Prepared) -> CopyMethods {
        let job = self.job;
        // Where several share a reading, who waits would be left behind.
        let is_alone = job.shard.is_none() && self.slot.is_none();
        let is_whole = job.payload.is_none() && is_alone;
        let may = is_whole && job.options.algorithm != Algorithm::None;
        let may = may && prepared.output.handle.is_some() && sys::address_space_left().is_none();
        let mut methods = CopyMethods::new(&job.options);
        methods.is_read_soon = may && job.parity.is_some();
        methods
    }

    /// The facts about the file systems of source and output, and the worth of syncs there, if there are any.
    fn volumes(&self, prepared: &Prepared) -> (VolumeDetails, VolumeDetails, Option<Durable>) {
        let root = prepared.output.handle.as_ref();
        let output = root.map(sys::volume_details).unwrap_or_default();
        let durable = root.filter(|_| self.job.options.sync).map(sys::durable);
        (sys::volume_details(&prepared.source.handle), output, durable)
    }

    /// The committer, and the threads that read copies back for it, if there are to be `verifiers`.
    fn committer<'a>(
        &self,
        context: &'a Context<'a>,
        prepared: &mut Prepared,
        earlier: &'a EarlierRecords,
        verifiers: usize,
    ) -> (Committer<'a>, Option<Verifiers>)
    where
        Self: 'a,
    {
        let Self { job, observer, .. } = *self;
        let (source, output) = (Arc::clone(&prepared.source), Arc::clone(&prepared.output));
        let mut accounting = Accounting::new(context, &observer.listen, source, output);
        let EarlierRecords { known, private, warnings, .. } = earlier;
        self.note_others(private.as_ref());
        if let Err(error) = earlier.note_beginning(job) {
            accounting.give_up(error);
        }
        warnings.iter().for_each(|warning| accounting.warn(warning));
        let newest = known.as_ref().and_then(Knowledge::newest);
        let manifest = self.begin_manifest(prepared, newest).unwrap_or_else(|error| {
            accounting.give_up(error);
            None
        });
        if let (Some(known), Some(now)) = (known, manifest.as_ref().and_then(ManifestFile::clock)) {
            known.begin(now);
        }
        let is_to_stop = || context.control.stop.is_requested();
        if let (Some(states), Some(root), Some(manifest)) =
            (context.shared.states, &prepared.output.handle, &manifest)
            && let Err(error) = rotation::begin(states, job, root, manifest.name(), &is_to_stop)
        {
            accounting.warn(&Error::io("open", &job.output, error));
        }
        if let Some(parent) = prepared.parent.take().filter(|_| job.options.sync)
            && let Err(error) = parent.persist()
        {
            // The output's own name would not be as durable as what is in it.
            accounting.give_up(Error::io("make durable the name of", &job.output, error));
        }
        let open_files = sys::open_file_limit() / self.outputs() as u64;
        let most_dirs = most_dirs(open_files, job.options.verify);
        let (verifying, threads) = match verifiers {
            0 => (ReadBackQueue::none(), None),
            _ => {
                let (queue, threads) = read_back_queue(verifiers, most_dirs);
                (queue, Some(threads))
            }
        };
        let group = Group::new(most_dirs);
        let mut committer = Committer::new(
            accounting,
            context,
            manifest,
            job.options.selection.hard_links,
            group,
            verifying,
        );
        committer.is_mirror = job.mirror.is_some();
        if let (Some(share), Some(root)) = (job.parity, &committer.root().handle)
            && context.shared.methods.is_read_soon
        {
            let (stop, lets_go) = (context.control.stop, job.options.cache == Cache::Drop);
            committer.ahead = ParityAhead::start(root, &job.output, share, lets_go, stop).ok();
        }
        committer.record_in(private.as_ref().filter(|_| job.shard.is_none()), job.options.sync);
        if Means::of_one(self.outputs()).are_few() {
            committer.begin_record();
        }
        (committer, threads)
    }

    /// Gives the run up if not everything that was found is accounted for: something was lost on the way.
    fn check_account(&self, found: u64, stop: &Stop, committer: &mut Committer<'_>) {
        committer.accounting.settle_source();
        let settled = committer.accounting.counts.settled();
        if stop.is_requested() || found == settled {
            return;
        }
        let finding = format!(
            "{found} entries were found, {settled} are accounted for; this is a defect of dircopy"
        );
        let error = Error::finding("account for all of", &self.job.source, finding);
        committer.accounting.give_up(error);
    }

    fn begin_manifest(
        &self,
        prepared: &Prepared,
        newest: Option<ManifestName>,
    ) -> Result<Option<ManifestFile>> {
        let (algorithm, root) = (self.job.options.algorithm, prepared.output.handle.as_ref());
        let Some(root) = root.filter(|_| algorithm != Algorithm::None) else { return Ok(None) };
        let (path, root) = match (&self.job.shard, &self.job.payload) {
            (Some(shard), _) => (&shard.path, &*shard.dir),
            (None, Some(payload)) => (&payload.lists_path, &*payload.lists),
            (None, None) => (&self.job.output, root),
        };
        let root = root.try_clone().deed("open", path)?;
        let room = (!self.job.options.check_space).then(|| sys::room(&root));
        let is_in_source = |name: &OsStr| prepared.source.handle.stat(name, false).is_ok();
        let (path, name) =
            (path.as_path().into(), ManifestName::new(Timestamp::now()).of(algorithm));
        let lists = self.job.lists();
        let mut manifest = ManifestFile::create(root, path, name, newest, is_in_source, &lists)?;
        manifest.readers = Readers::of(prepared.source.handle.stat_self().ok().as_ref());
        if let Some(Ok(room)) = room {
            manifest.keep_room((room.bytes / SHARE_OF_MANIFEST).min(MOST_ROOM));
        }
        Ok(Some(manifest))
    }

    pub(crate) fn walk<'a>(
        &'a self,
        prepared: &Prepared,
        dry: bool,
        known: Option<&'a Knowledge>,
    ) -> Walk<'a> {
        self.job.walk(prepared, dry, known, self.outputs())
    }

    /// Number of outputs that share the reading of the source.
    fn outputs(&self) -> usize {
        self.slot.map_or(1, Slot::among)
    }
}
