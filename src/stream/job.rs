//! A stream job: what is asked for, and its run from the first refusal to the report.

use std::path::PathBuf;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

use crate::error::Result;
use crate::event::{EventObserver, Gate, Observer, Progress};
use crate::hash::multibuffer::Backend;
use crate::hash::{Algorithm, Algorithms};
use crate::io::control::Control;
use crate::io::link_check::Helpers;
use crate::io::options::{Cache, Damaged, Durability, Options, Reflink, Sparse, States};
use crate::io::rate_limit::RateLimit;
use crate::io::resident::Residency;
use crate::stream::endpoint::Endpoint;
use crate::stream::outcome::OutputStates;
use crate::stream::output::place::OutputPlace;
use crate::stream::output::places::{BesideFiles, OutputPlaces};
use crate::stream::refusal;
use crate::stream::report::StreamReport;
use crate::stream::run::StreamRun;
use crate::sys::stat::Kind;
use crate::transfer::context::{Context, Shared};
use crate::transfer::kernel::copy_methods::CopyMethods;
use crate::tree::overwrite::Policy;

/// What to pass on, where to, and how. Make one with [`new`](Self::new) and change what should differ.
#[derive(Clone, Debug)]
pub struct StreamJob {
    /// What is read, one after the other.
    pub inputs: Vec<Endpoint>,
    /// What all of it is written to.
    pub outputs: Vec<Endpoint>,
    /// Where the lines of all outputs go; without one, that of a file goes beside it.
    pub manifest: Option<PathBuf>,
    /// What is computed over the bytes; with [`Algorithm::None`] there is no manifest, and the kernel
    /// moves the bytes where it can.
    pub algorithm: Algorithm,
    /// What is computed and listed besides.
    pub further: Algorithms,
    /// Whether the states of the digest stand beside the manifest.
    pub states: States,
    /// What happens to files that are there already: a stream is newer than any of them.
    pub policy: Policy,
    /// Make files durable before they get their names.
    pub sync: bool,
    /// InputCounts files back from their medium before they get their names, and what happens to those that are
    /// not there as they were written.
    pub verify: Option<Damaged>,
    /// What becomes of pages in the system's cache.
    pub cache: Cache,
    /// Look at all inputs before anything is written.
    pub strict: bool,
    /// InputCounts no faster than this; bytes in a second.
    pub limit_rate: Option<u64>,
    /// Blocks on their way; at least 1.
    pub queue_size: usize,
    /// Size of a block in bytes; at least 1. Memory is their product.
    pub block_size: usize,
}

impl StreamJob {
    /// A job with the defaults of the command line, and blocks of that size.
    pub fn new(
        inputs: Vec<Endpoint>,
        outputs: Vec<Endpoint>,
        queue_size: usize,
        block_size: usize,
    ) -> Self {
        Self {
            inputs,
            outputs,
            manifest: None,
            algorithm: Algorithm::default(),
            further: Algorithms::default(),
            states: States::default(),
            policy: Policy::default(),
            sync: true,
            verify: None,
            cache: Cache::default(),
            strict: false,
            limit_rate: None,
            queue_size,
            block_size,
        }
    }

    /// Runs the job. The stop of `observer` must not serve another run.
    ///
    /// # Errors
    /// The job was refused and nothing was written. Everything that goes wrong later is told to `observer`;
    /// look at the report's [`ending`](StreamReport::ending).
    pub fn run(&self, observer: &EventObserver<'_>) -> Result<StreamReport> {
        let Observer { progress, stop, listen } = observer;
        let started = Instant::now();
        self.refuse_options()?;
        let find = |endpoint: &Endpoint| OutputPlace::find(endpoint, self.policy, stop).map(Some);
        let places = self.places(&find)?;
        let taken = refusal::keep_apart(&self.inputs, &self.outputs, &places)?;
        self.refuse_nothing_to_prove(&places)?;
        if self.strict {
            self.inputs.iter().try_for_each(refusal::look_at_input)?;
        }
        self.count(progress);
        let (timings, rate) = (&observer.progress.timings, self.limit_rate.map(RateLimit::new));
        let resident = Residency::default();
        let options = self.options();
        let ways = CopyMethods::new(&options);
        let shared = Shared::alone(&ways);
        let (resident, helpers, gate) = (&resident, &Helpers::of_processors(), &Gate::default());
        let rate = rate.as_ref();
        let control = Control { progress, stop, rate, timings, resident, helpers, gate };
        let context = Context { options, shared, control };
        let states = OutputStates::new(&self.outputs, listen, progress);
        let mut run = StreamRun::new(&self.inputs, &context, states, taken);
        let OutputPlaces { outputs, mut manifest } = places;
        let content = run.pass_on(outputs, manifest.as_mut())?;
        let is_listed = match (&content, manifest) {
            (Some(content), Some(manifest)) => run.write_manifest(content, manifest),
            _ => false,
        };
        let digests = content.map(|content| content.digests.clone());
        let manifest = self.manifest.clone().filter(|_| is_listed);
        Ok(run.into_report(digests, manifest, started))
    }

    /// Looks whether the job would be refused, or an input would be missing, and opens and makes nothing.
    ///
    /// # Errors
    /// Why the job would be refused, or which input would be missing.
    pub fn check(&self) -> Result<()> {
        self.refuse_options()?;
        let look = |endpoint: &Endpoint| OutputPlace::look(endpoint, self.policy);
        self.outputs.iter().try_for_each(|output| look(output).map(drop))?;
        let places = self.places(&look)?;
        refusal::keep_apart(&self.inputs, &self.outputs, &places)?;
        self.refuse_nothing_to_prove(&places)?;
        self.inputs.iter().try_for_each(refusal::look_at_input)
    }

    /// What can be refused before anything is looked at.
    fn refuse_options(&self) -> Result<()> {
        if self.verify.is_some() {
            refusal::refuse_unverifiable(self.sync, self.algorithm)?;
        }
        refusal::refuse_standard(&self.inputs, self.manifest.as_deref())
    }

    fn refuse_nothing_to_prove(&self, places: &OutputPlaces) -> Result<()> {
        match self.verify {
            Some(_) => refusal::refuse_nothing_to_prove(places),
            None => Ok(()),
        }
    }

    /// Finds the places of everything that is to be written; `find` finds one, if it is to be known.
    fn places(
        &self,
        find: &dyn Fn(&Endpoint) -> Result<Option<OutputPlace>>,
    ) -> Result<OutputPlaces> {
        let (algorithm, is_listed) = (self.algorithm, self.algorithm != Algorithm::None);
        let keeps_states = algorithm == Algorithm::Sha256 && self.states == States::Auto;
        let beside = BesideFiles {
            manifests: (is_listed && self.manifest.is_none()).then_some(self.policy),
            algorithms: self.further.with(algorithm),
            states: keeps_states.then_some(self.policy),
        };
        OutputPlaces::find(&self.outputs, self.manifest.as_deref(), beside, find)
    }

    fn options(&self) -> Options {
        Options {
            algorithm: self.algorithm,
            further: self.further.without(self.algorithm),
            backend: Backend::One,
            block_size: self.block_size.max(1),
            blocks: self.queue_size.max(1),
            follow: true,
            max_size: None,
            policy: self.policy,
            durability: match self.sync {
                true => Durability::Grouped { at_once: false },
                false => Durability::Off,
            },
            verify: self.verify,
            nameless: false,
            journaling: None,
            reflink: Reflink::Auto,
            sparse: Sparse::Auto,
            sorted: false,
            histories: false,
            pruned: false,
            prunes: false,
            asks_change_time: false,
            cache: self.cache,
        }
    }

    /// Adds up what is known of the inputs' sizes, if that is all of them.
    fn count(&self, progress: &Progress) {
        let size = |endpoint: &Endpoint| {
            let stat = endpoint.stat_input().ok()?;
            (stat.kind == Kind::File && stat.size > 0).then_some(stat.size)
        };
        progress.total_entries.store(self.inputs.len() as u64, Relaxed);
        if let Some(total) = self.inputs.iter().map(size).sum::<Option<u64>>() {
            progress.total_bytes.store(total, Relaxed);
            progress.counted.store(true, Relaxed);
        }
    }
}
