//! The gear for small files: one thread reads, hashes and writes a file before the next. Files that
//! nobody hashes go this way too, whatever their size: the kernel moves their bytes.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use crate::error::{Error, Result};
use crate::hash::{Algorithm, Digest};
use crate::lane::again;
use crate::lane::arrange::{Next, arrange};
use crate::lane::block::Block;
use crate::lane::clock::{Clocks, Timer};
use crate::lane::clone::clone_to_hash;
use crate::lane::context::Context;
use crate::lane::expect;
use crate::lane::kernel::Filling;
use crate::lane::outcome::{Fate, Outcome};
use crate::lane::part::Part;
use crate::lane::read_back::ReadBack;
use crate::lane::reading::Reading;
use crate::lane::ways::{Pair, Sparse};
use crate::tree::node::{Entry, OutputDir, Run, SourceDir};

/// Copies a run of files, one after the other, through the block `scratch`; `read_back` is for those
/// that are there already.
pub fn copy_run(
    context: &Context<'_>,
    run: Run,
    scratch: &mut Block,
    read_back: &mut ReadBack,
) -> Vec<Outcome> {
    if let Some(first) = run.files.first() {
        context.progress.set_current(&run.source.rel, &first.name);
    }
    let Run { source, output, files } = run;
    let clocks = Clocks::default();
    let outcome = |mut entry: Entry| {
        let mut warnings = Vec::new();
        let fate = if context.stop.is_requested() {
            Fate::Abandoned
        } else {
            match arrange(context, &source, &output, &entry, read_back) {
                Next::Settled(fate) => fate,
                Next::Copy { replaces, warning } => {
                    warnings.extend(warning);
                    let trees = (&*source, &output);
                    copy_watched(
                        (context, &clocks),
                        trees,
                        (&mut entry, replaces),
                        scratch,
                        &mut warnings,
                    )
                    .unwrap_or_else(Fate::Failed)
                }
            }
        };
        let (source, output) = (Arc::clone(&source), Arc::clone(&output));
        Outcome { source, output, entry, fate, warnings, resumed: 0 }
    };
    let outcomes = files.into_iter().map(outcome).collect();
    context.clocks.add(&clocks);
    outcomes
}

/// Copies a file, and once more if it changed while it was read; then `entry` is what it was the
/// second time.
fn copy_watched(
    (context, clocks): (&Context<'_>, &Clocks),
    (source, output): (&SourceDir, &Arc<OutputDir>),
    (entry, replaces): (&mut Entry, bool),
    scratch: &mut Block,
    warnings: &mut Vec<Error>,
) -> Result<Fate> {
    let mut changed = false;
    let copying = Copying { context, clocks, entry, replaces };
    let first = match copying.try_copy(source, output, scratch, warnings, &mut changed) {
        Err(error) if changed => error,
        done => return done,
    };
    match again::look_again(context, source, output, entry, replaces) {
        Some(now) => entry.stat = now,
        None => return Err(first),
    }
    let copying = Copying { context, clocks, entry, replaces };
    let fate = copying.copy(source, output, scratch, warnings)?;
    warnings.push(again::warning(first));
    Ok(fate)
}

/// A file being copied, and where its time is counted.
pub struct Copying<'a> {
    pub context: &'a Context<'a>,
    pub clocks: &'a Clocks,
    pub entry: &'a Entry,
    pub replaces: bool,
}

impl Copying<'_> {
    /// Copies it through the block `scratch`.
    pub fn copy(
        &self,
        source: &SourceDir,
        output: &Arc<OutputDir>,
        scratch: &mut Block,
        warnings: &mut Vec<Error>,
    ) -> Result<Fate> {
        self.try_copy(source, output, scratch, warnings, &mut false)
    }

    /// The same; after an error `changed` says whether the file changed while it was read.
    fn try_copy(
        &self,
        source: &SourceDir,
        output: &Arc<OutputDir>,
        scratch: &mut Block,
        warnings: &mut Vec<Error>,
        changed: &mut bool,
    ) -> Result<Fate> {
        let Self { context, clocks, entry, replaces } = *self;
        let mut timer = Timer::start(&clocks.read.busy);
        let path = || source.path_of(&entry.name);
        let mut file =
            Reading::open(&source.handle, &entry.name, context.follow, &entry.stat, &path)?
                .at_rate(context.rate, context.stop);
        let attributes = file.attributes(warnings);
        let pair = context.ways.between(file.file(), &entry.stat, output);
        file.spare_cache(pair.source, &context.ways.residue.source);
        timer.switch(&clocks.write.busy);
        let mut part = Part::create(context, output, entry, replaces)?;
        let mut total = 0;
        let filled = match context.algorithm {
            Algorithm::None => {
                let filling = Filling { context, pair: &pair, source: &file, stat: &entry.stat };
                let whole = filling.fill(&mut part, scratch);
                whole.map(|whole| if whole { Filled::Whole(None) } else { Filled::Stopped })
            }
            _ => {
                // A path is put together only for a message: there is none of it for most files.
                let path = || output.path_of(&entry.name);
                let way = (&*pair, &path as &dyn Fn() -> PathBuf);
                self.fill_and_hash(way, &file, &mut part, (scratch, &mut total), &mut timer)
            }
        };
        match filled {
            Ok(Filled::Whole(digest)) => {
                match expect::objection(context, (source, output), entry, digest, None) {
                    None => {
                        Ok(part.finish(context, entry, &attributes, digest, replaces, warnings))
                    }
                    Some(fate) => Ok(expect::discard(part, fate)),
                }
            }
            Ok(Filled::Stopped) => {
                part.discard(Error::finding("copy", path(), "interrupted"));
                Ok(Fate::Abandoned)
            }
            Err(error) => {
                *changed = file.has_changed();
                if *changed {
                    context.progress.bytes.fetch_sub(total, Relaxed);
                }
                Err(part.discard(error))
            }
        }
    }

    /// Fills the part file and hashes what it is filled with, unless it is to stop.
    fn fill_and_hash<'a>(
        &'a self,
        (pair, path): (&Pair, &dyn Fn() -> PathBuf),
        file: &Reading<'_>,
        part: &mut Part,
        (scratch, total): (&mut Block, &mut u64),
        timer: &mut Timer<'a>,
    ) -> Result<Filled> {
        let copy = clone_to_hash(self.context, pair, file, part, path)?;
        self.fill(copy.as_ref().unwrap_or(file), part, scratch, total, timer)
    }

    /// Reads, hashes and writes the whole content, unless it is to stop; `total` says how far it came.
    /// The timer is on writing before and after.
    fn fill<'a>(
        &'a self,
        file: &Reading<'_>,
        part: &mut Part,
        scratch: &mut Block,
        total: &mut u64,
        timer: &mut Timer<'a>,
    ) -> Result<Filled> {
        let Self { context, clocks, entry, .. } = *self;
        let mut hasher = context.algorithm.start();
        scratch.clear();
        loop {
            timer.switch(&clocks.read.busy);
            let read = file.read(scratch.room())?;
            scratch.fill(read);
            *total += read as u64;
            let all = read == 0 || file.is_all(*total);
            let full = all || scratch.room().is_empty();
            if full {
                context.progress.bytes.fetch_add(scratch.len() as u64, Relaxed);
            }
            // What is not of the size that was listed need not be read to an end that may never
            // come.
            if all || full && *total > entry.stat.size {
                file.check(*total)?;
            }
            if context.stop.is_urgent() {
                return Ok(Filled::Stopped);
            }
            // A file whose stated size means nothing, or one that is copied once more, may be larger
            // than the block.
            if full {
                timer.switch(&clocks.hash.busy);
                hasher.update(scratch);
                timer.switch(&clocks.write.busy);
                match entry.stat.is_sparse() && context.ways.sparse == Sparse::Auto {
                    true => part.write_with_holes(scratch),
                    false => part.write(scratch),
                }?;
                scratch.clear();
            }
            if all {
                return Ok(Filled::Whole(hasher.finish()));
            }
        }
    }
}

/// How far a file was filled.
enum Filled {
    /// To its end, with this digest.
    Whole(Option<Digest>),
    /// Not to its end, because the run stops.
    Stopped,
}
