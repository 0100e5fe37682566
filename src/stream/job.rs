//! A stream from beginning to end.

use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::atomic::Ordering::Relaxed;
use std::thread::{Scope, scope};
use std::time::Instant;

use crate::error::{Error, Result};
use crate::event::{Event, EventObserver, Observer, Progress};
use crate::hash::Algorithm;
use crate::hash::multibuffer::Backend;
use crate::io::control::Control;
use crate::io::options::{Cache, Damaged, Durability, Options, Reflink, Sparse};
use crate::io::rate_limit::RateLimit;
use crate::io::resident::Residency;
use crate::io::timing::Timings;
use crate::stream::chain::Chain;
use crate::stream::direct::Direct;
use crate::stream::ends::{Ends, Fate};
use crate::stream::fan::Fan;
use crate::stream::gear::{Cut, Gear};
use crate::stream::input::{self, Input};
use crate::stream::listing::{Listing, SUFFIX, add_line};
use crate::stream::named::Named;
use crate::stream::output::{Lost, Output, Sink};
use crate::stream::place::Place;
use crate::stream::refuse::{is_output, look_at};
use crate::stream::report::{StreamEnding, StreamReport};
use crate::stream::whole::WholeFile;
use crate::sys::stat::{Identity, Kind};
use crate::transfer::context::{Context, Shared};
use crate::transfer::method::Ways;
use crate::tree::overwrite::Policy;

/// What to pass on, where to, and how. Make one with [`new`](Self::new) and change what should differ.
#[derive(Clone, Debug)]
pub struct StreamJob {
    /// What is read, one after the other.
    pub inputs: Vec<Named>,
    /// What all of it is written to.
    pub outputs: Vec<Named>,
    /// Where the lines of all outputs go; without one, that of a file goes beside it.
    pub manifest: Option<PathBuf>,
    /// What is computed over the bytes; with [`Algorithm::None`] there is no manifest, and the kernel
    /// moves the bytes where it can.
    pub algorithm: Algorithm,
    /// What happens to files that are there already: a stream is newer than any of them.
    pub policy: Policy,
    /// Make files durable before they get their names.
    pub sync: bool,
    /// Read files back from their medium before they get their names, and what happens to those that are
    /// not there as they were written.
    pub verify: Option<Damaged>,
    /// What becomes of pages in the system's cache.
    pub cache: Cache,
    /// Look at all inputs before anything is written.
    pub strict: bool,
    /// Read no faster than this; bytes in a second.
    pub limit_rate: Option<u64>,
    /// Blocks on their way; at least 1.
    pub queue_size: usize,
    /// Size of a block in bytes; at least 1. Memory is their product.
    pub block_size: usize,
}

/// Where everything goes.
pub(super) struct Placed {
    pub(super) outputs: Vec<(Place, Option<Place>)>,
    pub(super) manifest: Option<Listing>,
}

impl StreamJob {
    /// A job with the defaults of the command line, and blocks of that size.
    pub fn new(
        inputs: Vec<Named>,
        outputs: Vec<Named>,
        queue_size: usize,
        block_size: usize,
    ) -> Self {
        Self {
            inputs,
            outputs,
            manifest: None,
            algorithm: Algorithm::default(),
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
        self.refuse_proof()?;
        self.refuse_ends()?;
        let find = |named: &Named| Place::find(named, self.policy, stop).map(Some);
        let placed = self.place(&find)?;
        let taken = self.keep_apart(&placed)?;
        self.refuse_nothing_to_prove(&placed)?;
        if self.strict {
            self.inputs.iter().try_for_each(look_at)?;
        }
        self.count(progress);
        let (clocks, rate) = (Timings::default(), self.limit_rate.map(RateLimit::new));
        let resident = Residency::default();
        let durability = match self.sync {
            true => Durability::Grouped { at_once: false },
            false => Durability::Off,
        };
        let options = Options {
            algorithm: self.algorithm,
            backend: Backend::One,
            block_size: self.block_size.max(1),
            blocks: self.queue_size.max(1),
            follow: true,
            policy: self.policy,
            durability,
            verify: self.verify,
            nameless: false,
            journaling: None,
            reflink: Reflink::Auto,
            sparse: Sparse::Auto,
            cache: self.cache,
        };
        let ways = Ways::new(&options);
        let shared = Shared { reused: None, baseline: None, methods: &ways, slot: None };
        let (clocks, resident) = (&clocks, &resident);
        let control = Control { progress, stop, rate: rate.as_ref(), clocks, resident };
        let context = Context { options, shared, control };
        let mut ends = Ends::new(&self.outputs, listen, progress);
        let Placed { outputs, mut manifest } = placed;
        let outputs = begin(&context, &self.outputs, outputs, &mut ends);
        let replaces = outputs.iter().any(|(_, output)| match &output.sink {
            Sink::File(file) => file.place().there.is_some(),
            Sink::Open(_) => false,
        });
        let mut read = Read::default();
        let digest = scope(|scope| {
            let mut gear = match start(scope, &context, outputs) {
                Ok(Some(gear)) => gear,
                Ok(None) => return None,
                Err(error) => {
                    read.failed += 1;
                    ends.tell(&error);
                    return None;
                }
            };
            self.feed(&context, &mut *gear, &mut ends, &taken, &mut read);
            let mut whole = read.opened > 0 && !stop.is_urgent();
            if let Some(manifest) = manifest.as_mut().filter(|_| whole && replaces)
                && let Err(error) = manifest.retire(&context)
            {
                ends.tell(&error);
                (whole, read.failed) = (false, read.failed + 1);
            }
            gear.finish(whole, &mut ends)
        });
        let mut lines = Vec::new();
        for (named, fate) in ends.all() {
            if let (Some(digest), Some(true)) = (&digest, fate.map(Fate::is_whole)) {
                add_line(&mut lines, digest, named);
            }
        }
        let mut listed = None;
        if let Some(manifest) = manifest.filter(|_| !lines.is_empty()) {
            let mut warnings = Vec::new();
            match manifest.write(&context, &lines, &mut warnings) {
                Ok(()) => listed.clone_from(&self.manifest),
                Err(error) => {
                    ends.tell(&error);
                    read.failed += 1;
                }
            }
            warnings.iter().for_each(|warning| listen(&Event::Warning(warning)));
        }
        let fates =
            ends.into_fates().into_iter().map(|fate| fate.unwrap_or_else(|| Lost::Stopped.fate()));
        let outputs: Vec<_> = self.outputs.iter().cloned().zip(fates).collect();
        let fates = outputs.iter().map(|(_, fate)| fate);
        Ok(StreamReport {
            inputs: read.whole,
            failed: read.failed,
            bytes: read.bytes,
            digest,
            manifest: listed,
            ending: StreamEnding::of(fates, read.failed > 0, stop.requested()),
            outputs,
            elapsed: started.elapsed(),
        })
    }

    /// Finds the places of everything that is to be written; `find` finds one, if it is to be known.
    pub(super) fn place(&self, find: &dyn Fn(&Named) -> Result<Option<Place>>) -> Result<Placed> {
        let mut outputs = Vec::new();
        for named in &self.outputs {
            let Some(place) = find(named)? else { continue };
            let beside = match &place {
                Place::File(file)
                    if self.algorithm != Algorithm::None && self.manifest.is_none() =>
                {
                    Some(file.beside(SUFFIX, self.policy)?)
                }
                _ => None,
            };
            outputs.push((place, beside));
        }
        let manifest = self.manifest.clone().map(Named::Path).map(|named| {
            let place = find(&named)?;
            place.map(|place| Listing::at(place, &named)).transpose()
        });
        Ok(Placed { outputs, manifest: manifest.transpose()?.flatten() })
    }

    /// Adds up what is known of the inputs' sizes, if that is all of them.
    fn count(&self, progress: &Progress) {
        let size = |named: &Named| {
            let stat = named.stat_input().ok()?;
            (stat.kind == Kind::File && stat.size > 0).then_some(stat.size)
        };
        progress.total_entries.store(self.inputs.len() as u64, Relaxed);
        if let Some(total) = self.inputs.iter().map(size).sum::<Option<u64>>() {
            progress.total_bytes.store(total, Relaxed);
            progress.counted.store(true, Relaxed);
        }
    }

    /// Passes on one input after the other.
    fn feed(
        &self,
        context: &Context<'_>,
        gear: &mut dyn Gear,
        ends: &mut Ends<'_>,
        taken: &HashSet<Identity>,
        read: &mut Read,
    ) {
        for named in &self.inputs {
            let path = || named.path().to_path_buf();
            let mut is_over = || {
                gear.hear(ends);
                context.control.stop.is_urgent() || !ends.are_open()
            };
            if is_over() {
                return;
            }
            let opened = match input::open(named, is_over) {
                Ok(Some(end))
                    if end.stat().kind == Kind::File && taken.contains(&end.stat().id) =>
                {
                    Err(is_output(named))
                }
                Ok(Some(end)) => Input::new(context, end, &path),
                Ok(None) => return,
                Err(error) => Err(error),
            };
            let mut input = match opened {
                Ok(input) => input,
                Err(error) => {
                    read.failed += 1;
                    ends.tell(&error);
                    continue;
                }
            };
            let fed = gear.feed(&mut input, ends);
            read.bytes += input.came();
            match fed {
                Ok(()) => (read.whole, read.opened) = (read.whole + 1, read.opened + 1),
                Err(Cut::Input(error)) => {
                    read.failed += 1;
                    ends.tell(&error);
                    // Of what could not be read at all nothing is half there.
                    if input.came() > 0 {
                        read.opened += 1;
                        gear.spoil(ends);
                    }
                }
                Err(Cut::All) => return,
            }
            context.control.progress.entries.fetch_add(1, Relaxed);
        }
    }
}

/// What came of reading.
#[derive(Default)]
struct Read {
    /// Inputs of which something came, …
    opened: u64,
    /// … which were read to their end, …
    whole: u64,
    /// … and what failed.
    failed: u64,
    bytes: u64,
}

/// Opens the outputs; those that cannot be are settled.
fn begin<'a>(
    context: &Context<'a>,
    names: &[Named],
    places: Vec<(Place, Option<Place>)>,
    ends: &mut Ends<'_>,
) -> Vec<(usize, Output<'a>)> {
    let mut outputs = Vec::new();
    for (number, (named, (place, beside))) in names.iter().zip(places).enumerate() {
        let refuse = |why| Fate::Failed(Error::finding("write to", named.path(), why));
        let listing = match beside {
            None => Ok(None),
            Some(Place::File(place)) => Ok(Some(Listing::File(place))),
            Some(_) => Err(Fate::Left(
                "its manifest is there already; --overwrite-policy update or always replaces it",
            )),
        };
        let opened = match (place, listing) {
            (Place::Left(why), _) => Err(Fate::Left(why)),
            (Place::Refused(why), _) => Err(refuse(why)),
            (_, Err(left)) => Err(left),
            (Place::Open(end), Ok(listing)) => Ok((Sink::Open(end), listing)),
            (Place::File(place), Ok(listing)) => WholeFile::begin(context, place)
                .map(|file| (Sink::File(Box::new(file)), listing))
                .map_err(Fate::Failed),
        };
        match opened {
            Ok((sink, listing)) => {
                let output = Output { named: named.clone(), context: *context, sink, listing };
                output.prepare();
                outputs.push((number, output));
            }
            Err(fate) => ends.settle(number, fate),
        }
    }
    outputs
}

/// Chooses the way; `None` if there is nothing to go to.
fn start<'scope, 'a: 'scope>(
    scope: &'scope Scope<'scope, '_>,
    context: &Context<'a>,
    mut outputs: Vec<(usize, Output<'a>)>,
) -> Result<Option<Box<dyn Gear + 'scope>>> {
    if outputs.is_empty() {
        return Ok(None);
    }
    if context.options.algorithm == Algorithm::None {
        if outputs.len() == 1
            && let Some((number, output)) = outputs.pop()
        {
            return Ok(Some(Box::new(Direct::new(number, output))));
        }
        match Fan::start(scope, context, outputs)? {
            Ok(fan) => return Ok(Some(Box::new(fan))),
            // There are no pipes for it.
            Err(back) => outputs = back,
        }
    }
    Ok(Some(Box::new(Chain::start(scope, context, outputs)?)))
}
