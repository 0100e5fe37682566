//! A copy from beginning to end.

use std::ffi::OsStr;
use std::num::NonZero;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::thread::{Builder, ScopedJoinHandle, scope};
use std::time::Instant;

use crossbeam_channel::bounded;
use jiff::Timestamp;

use crate::copy::before::{prepare::Prepared, reservation::Rooms, space};
use crate::copy::commit::accounting::Ledger;
use crate::copy::commit::committer::Committer;
use crate::copy::commit::group::{Group, most_dirs};
use crate::copy::commit::rotation::Rotation;
use crate::copy::commit::verifying::{Provers, Proving, proving};
use crate::copy::count::count;
use crate::copy::dry::Dry;
use crate::copy::report::{Counts, Ending, Report, Stages};
use crate::copy::run::feed::{Outlet, walk_all};
use crate::copy::run::pool::Crew;
use crate::copy::run::workers::Lanes;
use crate::error::{Error, Result};
use crate::event::{Event, EventObserver, Observer, Stop};
use crate::fanout::hub::Place;
use crate::hash::{Algorithm, multibuffer::Backend};
use crate::io::control::Control;
use crate::io::options::{
    Cache, Damaged, Durability, Journaling, Options, Reflink, Resume, Sparse,
};
use crate::io::rate_limit::RateLimit;
use crate::io::resident::Residency;
use crate::io::timing::Timings;
use crate::manifest::carry::Carry;
use crate::manifest::write::ManifestFile;
use crate::sys::{self, Dir};
use crate::transfer::baseline::Expected;
use crate::transfer::context::{Context, Shared};
use crate::transfer::method::Ways;
use crate::transfer::verifier::unprovable;
use crate::tree::classify::Classifier;
use crate::tree::dirs::OutputDir;
use crate::tree::filter::Filter;
use crate::tree::lock::Patience;
use crate::tree::overwrite::Policy;
use crate::tree::walk::{Walk, most_levels};

/// Size of a block in bytes, by default.
///
/// Seconds for one file of 2 GiB on tmpfs, two cores, medians of 9 alternating rounds (`cp -r` 0.84 to
/// 5.9 in the same series, so differences under a fifth are noise), by block size × blocks a lane:
/// 128K × 16: 1.61, 256K × 8: 1.62, 256K × 16: 1.59, 512K × 3: 2.11, 512K × 8: 1.89, 512K × 16: 1.66,
/// 1M × 3: 1.90, 1M × 8: 1.64.
pub const BLOCK_SIZE: usize = 256 << 10;

/// Blocks of a lane, by default; see the table at [`BLOCK_SIZE`].
pub const QUEUE_SIZE: usize = 16;

/// The most of a large file that is read again after a run was killed, in bytes, by default: a disk
/// that turns reads it in two seconds. Each half of it costs two flushes of the device; not yet measured.
pub const CHECKPOINT: u64 = 256 << 20;

/// What to copy, where to, and how. Make one with [`new`](Self::new) and change what should differ.
#[derive(Clone, Debug)]
pub struct CopyJob {
    /// A directory, whose contents are copied, or a file.
    pub source: PathBuf,
    /// The directory they go to. Made if only its last component is missing.
    pub output: PathBuf,
    /// What is computed over the bytes; with [`Algorithm::None`] there is no manifest.
    pub algorithm: Algorithm,
    /// How many small files are hashed together.
    pub backend: Backend,
    /// What happens to files that are there already.
    pub policy: Policy,
    /// Which entries take part.
    pub filter: Filter,
    /// Copy what symbolic links point to instead of the links.
    pub follow_links: bool,
    /// Make the further names of a file links to its copy instead of copies of their own.
    pub hard_links: bool,
    /// Make everything durable before it is recorded. Without this, a power cut soon after the run
    /// may leave files that are listed and not complete.
    pub sync: bool,
    /// Refuse a run for which the output has no room, before anything is touched.
    pub check_space: bool,
    /// What becomes of the beginning of a large file that a killed run left.
    pub resume: Resume,
    /// The most of a large file that is read again after a run was killed, and the size above which a
    /// file can be gone on with; bytes. Blocks on their way count, so much less than a hundred of them
    /// makes no sense.
    pub checkpoint: u64,
    /// Read back from the output's medium every file that is copied, before it gets its final name, and
    /// every file that is kept; this happens to copies that are not there as they were written. Needs
    /// `sync` and an algorithm.
    pub verify: Option<Damaged>,
    /// A manifest, of any program, of what the source should hold. Every listed file is read, also where
    /// it would be kept. One that has another digest although nothing says that it was edited has rotted:
    /// it is not copied, and what is at the output stays. Needs an algorithm, and goes with no dry run.
    pub expect: Option<PathBuf>,
    /// Whether copies share their data with the source. [`Reflink::Always`] needs [`Sparse::Auto`].
    pub reflink: Reflink,
    /// What becomes of holes and zeros.
    pub sparse: Sparse,
    /// What becomes of the copy's pages in the system's cache.
    pub cache: Cache,
    /// Only tell what would happen.
    pub dry_run: bool,
    /// Read the source no faster than this; bytes in a second, for all lanes together.
    pub limit_rate: Option<u64>,
    /// Where another run is writing to the output, wait until it ends, instead of refusing.
    pub wait: bool,
    /// After a complete run, leave only so many finished manifests at the output, the newest ones.
    pub keep_manifests: Option<NonZero<usize>>,
    /// Lanes; at least 1. Without a number as many as suit both devices.
    pub lanes: Option<usize>,
    /// Blocks of a lane; at least 1.
    pub queue_size: usize,
    /// Size of a block in bytes; at least 1. Memory is lanes × blocks × this.
    pub block_size: usize,
}

impl CopyJob {
    /// A job with the defaults of the command line.
    pub fn new(source: impl Into<PathBuf>, output: impl Into<PathBuf>) -> Self {
        Self {
            source: source.into(),
            output: output.into(),
            algorithm: Algorithm::default(),
            backend: Backend::best(),
            policy: Policy::default(),
            filter: Filter::default(),
            follow_links: false,
            hard_links: false,
            sync: true,
            check_space: true,
            resume: Resume::default(),
            checkpoint: CHECKPOINT,
            verify: None,
            expect: None,
            reflink: Reflink::default(),
            sparse: Sparse::default(),
            cache: Cache::default(),
            dry_run: false,
            limit_rate: None,
            wait: false,
            keep_manifests: None,
            lanes: None,
            queue_size: QUEUE_SIZE,
            block_size: BLOCK_SIZE,
        }
    }

    /// Runs the job.
    ///
    /// # Errors
    /// The job was refused and nothing was touched. Everything that goes wrong later is told to
    /// `observer` and counted in the report; look at its [`ending`](Report::ending).
    pub fn run(&self, observer: &EventObserver<'_>) -> Result<Report> {
        self.run_beside((None, &Rooms::default()), observer)
    }

    /// The same for one of several outputs that share their reading of the source, in which this one has
    /// the place `sharing`, and the room of file systems.
    pub(crate) fn run_beside(
        &self,
        (sharing, rooms): (Option<Place<'_>>, &Rooms),
        observer: &EventObserver<'_>,
    ) -> Result<Report> {
        let started = Instant::now();
        let Observer { progress, listen, .. } = observer;
        // A run that gives itself up leaves the program's stop as it is.
        let stop = &observer.stop.of_one();
        self.makes_sense()?;
        let is_to_stop = || stop.is_requested();
        let open = |path| Expected::open(path, &is_to_stop);
        let expected = self.expect.as_deref().map(open).transpose()?;
        let tell = |text: &str| listen(&Event::Waiting(text));
        let wait = self.wait && !self.dry_run;
        let patience = Patience { wait, deed: "copy to", tell: &tell, stop };
        patience.until_free(&self.output)?;
        let prepare = |dry| self.prepare(dry, patience);
        let among = sharing.map_or(1, Place::among);
        if self.check_space {
            let dry = prepare(true)?;
            // Clones take next to no room.
            if !(self.reflink != Reflink::Never && self.sparse == Sparse::Auto && dry.may_share) {
                let stat_workers = |dry: &Prepared| Lanes::suiting(self, dry, false).stat_workers();
                let walk = (&self.walk(&dry, true, among), stat_workers);
                space::check(dry, walk, self.policy, (rooms, progress), stop)?;
            }
        }
        let mut prepared = prepare(self.dry_run)?;
        let walk = self.walk(&prepared, self.dry_run, among);
        if self.dry_run {
            let (policy, follow) = (self.policy, self.follow_links || prepared.file.is_some());
            let counts = Dry { policy, follow, listen, progress, stop }.run(prepared, &walk);
            return Ok(Report::dry(counts, stop, started.elapsed()));
        }
        let mut warnings = std::mem::take(&mut prepared.warnings);
        let carry = match &prepared.output.handle {
            Some(root) if self.algorithm != Algorithm::None && !prepared.output.fresh => {
                let is_in_source = |name: &OsStr| prepared.source.handle.stat(name, false).is_ok();
                let (carry, unreadable) =
                    Carry::load(root, &self.output, is_in_source, &|| stop.is_requested());
                warnings.extend(unreadable);
                Some(carry)
            }
            _ => None,
        };
        let (manifest, no_manifest) = match self.begin_manifest(&prepared) {
            Ok(manifest) => (manifest, None),
            Err(error) => (None, Some(error)),
        };
        let (clocks, resident) = (Timings::default(), Residency::default());
        let rate = self.limit_rate.map(RateLimit::new);
        let options = Options {
            algorithm: self.algorithm,
            backend: self.backend,
            block_size: self.block_size.max(1),
            blocks: self.blocks(among),
            follow: self.follow_links || prepared.file.is_some(),
            policy: self.policy,
            durability: self.durability(&prepared.output),
            verify: self.verify,
            nameless: !self.sync
                && prepared.output.handle.as_ref().is_some_and(Dir::can_publish_nameless),
            journaling: self.journaling().filter(|_| prepared.is_ours_alone),
            reflink: self.reflink,
            sparse: self.sparse,
            cache: self.cache,
        };
        let (methods, reused, baseline) = (&Ways::new(&options), carry.as_ref(), expected.as_ref());
        let shared = Shared { reused, baseline, methods, slot: sharing };
        let rate = sharing.map_or(rate.as_ref(), Place::rate);
        let control = Control { progress, stop, rate, clocks: &clocks, resident: &resident };
        let context = Context { options, shared, control };
        let mut ledger = Ledger::new(&context, listen, Arc::clone(&prepared.output));
        let (source, is_tree) = (Arc::clone(&prepared.source), prepared.file.is_none());
        ledger.rotation =
            self.keep_manifests.map(|keep| Rotation { keep, source: Arc::clone(&source) });
        warnings.iter().for_each(|warning| ledger.warn(warning));
        if let Some(error) = no_manifest {
            ledger.give_up(error);
        }
        if let Some(parent) = prepared.parent.take().filter(|_| self.sync)
            && let Err(error) = parent.persist()
        {
            // The output's own name would not be as durable as what is in it.
            ledger.give_up(Error::io("make durable the name of", &self.output, error));
        }
        let root = Arc::clone(&prepared.output);
        let most_dirs = most_dirs(sys::open_file_limit() / among as u64, self.verify.is_some());
        let lanes = Lanes::suiting(self, &prepared, sharing.is_some());
        let number = self.provers(&root, lanes.whole);
        let (proving, provers) = match number {
            0 => (Proving::none(), None),
            _ => {
                let (proving, provers) = proving(number, most_dirs);
                (proving, Some(provers))
            }
        };
        let hold = (Group::new(most_dirs), proving);
        let mut committer = Committer::new(ledger, &context, root, manifest, self.hard_links, hold);
        let seen = AtomicU64::new(0);
        if let Some(place) = sharing {
            place.begin(&prepared.output, started, stop);
        }
        let lanes = (prepared, lanes);
        let worked = self.run_threads(&context, &walk, lanes, &mut committer, provers, &seen);
        let seen = seen.load(Relaxed);
        let settled = committer.ledger.counts.settled();
        if !stop.is_requested() && seen != settled {
            let finding = format!(
                "{seen} entries were found, {settled} are accounted for; this is a defect of dircopy"
            );
            committer.ledger.give_up(Error::finding("account for all of", &self.source, finding));
        }
        committer.settle_expected(is_tree.then_some(&*source));
        let manifest = committer.finish();
        let mut counts = Counts { seen, ..committer.ledger.counts };
        if let Some(place) = sharing {
            counts.shared(place);
        }
        let methods = committer.ledger.methods();
        let ending = Ending::of(&counts, stop, committer.ledger.into_broken());
        Ok(Report {
            counts,
            ending,
            elapsed: started.elapsed(),
            stages: Stages::of(&clocks),
            methods,
            source_stayed: resident.source.sum(),
            output_stayed: resident.output.sum(),
            lanes: worked,
            provers: number,
            expected: expected.is_some(),
            resumed: carry.as_ref().is_some_and(|carry| carry.unfinished().next().is_some()),
            manifest,
        })
    }

    /// What is walked and how, where the outputs of this process are so many.
    fn walk(&self, prepared: &Prepared, dry: bool, among: usize) -> Walk<'_> {
        Walk {
            classifier: Classifier {
                filter: &self.filter,
                follow: self.follow_links,
                hard_links: self.hard_links,
                folds: !dry && prepared.output.handle.as_ref().is_some_and(Dir::folds_case),
                block_size: self.block_size as u64,
            },
            dry,
            cleans_up: prepared.is_ours_alone,
            resumable: self.journaling().map(|journaling| journaling.interval),
            chains: self.durability(&prepared.output) == Durability::Grouped { at_once: false },
            source_root: prepared.source_id,
            output_root: prepared.output_id,
            most_levels: most_levels(sys::open_file_limit() / among as u64),
        }
    }

    /// How large files are journaled: not where nothing is made durable, and where there is no digest
    /// to go on with.
    fn journaling(&self) -> Option<Journaling> {
        let interval = self.checkpoint.max(self.block_size as u64);
        let journaling = Journaling { interval, verify: self.resume == Resume::Verify };
        (self.sync && self.algorithm != Algorithm::None && self.resume != Resume::Off)
            .then_some(journaling)
    }

    /// Refuses what was asked for if it cannot be had together.
    pub(crate) fn makes_sense(&self) -> Result<()> {
        Err(match self.verify.and_then(|_| unprovable(self.sync, self.algorithm)) {
            Some(why) => Error::finding("verify the copy at", &self.output, why),
            _ if self.expect.is_some() && self.algorithm == Algorithm::None => {
                let why = "with --hash none there is no digest that could be compared with those \
                           expected; leave out --expect or --hash none";
                Error::finding("expect anything of", &self.source, why)
            }
            _ if self.expect.is_some() && self.dry_run => {
                let why = "a dry run reads no file; leave out --expect or --dry-run";
                Error::finding("expect anything of", &self.source, why)
            }
            _ if self.reflink == Reflink::Always && self.sparse != Sparse::Auto => {
                let why = "a clone has the holes that its source has, no fewer and no more";
                Error::finding("clone to", &self.output, why)
            }
            _ => return Ok(()),
        })
    }

    fn durability(&self, output: &OutputDir) -> Durability {
        let at_once = output.handle.as_ref().is_some_and(Dir::can_persist_all);
        if self.sync { Durability::Grouped { at_once } } else { Durability::Off }
    }

    fn begin_manifest(&self, prepared: &Prepared) -> Result<Option<ManifestFile>> {
        let (Some(root), Algorithm::Sha256) = (&prepared.output.handle, self.algorithm) else {
            return Ok(None);
        };
        let root = root.try_clone().map_err(|error| Error::io("open", &self.output, error))?;
        let is_in_source = |name: &OsStr| prepared.source.handle.stat(name, false).is_ok();
        let path = self.output.as_path().into();
        ManifestFile::create(root, path, Timestamp::now(), is_in_source).map(Some)
    }

    /// Starts the threads, commits what they bring, and waits for them. Returns how many lanes there were.
    fn run_threads<'a>(
        &'a self,
        context: &'a Context<'a>,
        walk: &Walk<'_>,
        (prepared, lanes): (Prepared, Lanes),
        committer: &mut Committer<'_>,
        provers: Option<Provers>,
        seen: &AtomicU64,
    ) -> usize {
        let mut worked = 0;
        let (to_committer, inbox) = bounded(lanes.whole + lanes.all());
        let counting = Stop::default();
        scope(|scope| {
            let mut threads: Vec<ScopedJoinHandle<'_, ()>> = Vec::new();
            let mut walker = None;
            let start_all = || {
                if let (Some(provers), Some(damaged)) = (provers, self.verify) {
                    threads.extend(provers.start(scope, context, damaged)?);
                }
                let to_committer = to_committer.clone();
                // Outputs that share their reading need the same order.
                let stat_workers =
                    if context.shared.slot.is_none() { lanes.stat_workers() } else { 0 };
                walker =
                    Some(Builder::new().name("walk".into()).spawn_scoped(scope, move || {
                        let Prepared { source, output, file, .. } = prepared;
                        let crew = Crew::new(scope, context, lanes, to_committer.clone());
                        let to_lanes = &|run| crew.give(run);
                        let outlet =
                            Outlet { to_lanes, to_committer, seen, stop: context.control.stop };
                        walk_all(walk, &outlet, (source, output, file), stat_workers);
                        drop(outlet);
                        crew.end()
                    })?);
                // Several outputs have one total.
                if context.control.progress.watched.load(Relaxed)
                    && !context.control.progress.counted.load(Relaxed)
                    && context.shared.slot.is_none_or(Place::is_first)
                {
                    Builder::new().name("count".into()).spawn_scoped(scope, || {
                        let follow = self.follow_links;
                        count(
                            &self.source,
                            follow,
                            &self.filter,
                            context.control.progress,
                            &counting,
                        );
                    })?;
                }
                Ok(())
            };
            let no_threads = |error| Error::io("start the threads for", &self.source, error);
            if let Err(error) = start_all() {
                committer.ledger.give_up(no_threads(error));
            }
            drop(to_committer);
            committer.work(&inbox);
            drop(inbox);
            counting.request(Stop::GIVEN_UP);
            let died = |name: &str| {
                let finding = format!("its {name} thread died; this is a defect of dircopy");
                Error::finding("finish the copy of", &self.source, finding)
            };
            match walker.map(ScopedJoinHandle::join) {
                None => {}
                Some(Ok((lanes, number, refused))) => {
                    worked = number;
                    threads.extend(lanes);
                    refused
                        .into_iter()
                        .for_each(|error| committer.ledger.give_up(no_threads(error)));
                }
                Some(Err(_)) => committer.ledger.give_up(died("walk")),
            }
            for thread in threads {
                let name = thread.thread().name().unwrap_or("nameless").to_owned();
                if thread.join().is_err() {
                    committer.ledger.give_up(died(&name));
                }
            }
        });
        worked
    }
}
