//! The gear for small files: one thread reads, hashes and writes a file before the next.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use crate::error::{Error, Result};
use crate::hash::Digest;
use crate::lane::arrange::{Next, arrange};
use crate::lane::block::Block;
use crate::lane::clock::Timer;
use crate::lane::context::Context;
use crate::lane::outcome::{Fate, Outcome};
use crate::lane::part::Part;
use crate::lane::reading::Reading;
use crate::tree::node::{Entry, OutputDir, Run, SourceDir};

/// Copies a run of files, one after the other, through the block `scratch`.
pub fn copy_run(context: &Context<'_>, run: Run, scratch: &mut Block) -> Vec<Outcome> {
    if let Some(first) = run.files.first() {
        context.progress.set_current(&run.source.rel, &first.name);
    }
    let Run { source, output, files } = run;
    let outcome = |entry: Entry| {
        let mut warnings = Vec::new();
        let fate = if context.stop.is_requested() {
            Fate::Abandoned
        } else {
            match arrange(context, &output, &entry, scratch) {
                Next::Settled(fate) => fate,
                Next::Copy { replaces } => {
                    copy(context, &source, &output, &entry, replaces, scratch, &mut warnings)
                        .unwrap_or_else(Fate::Failed)
                }
            }
        };
        Outcome { output: Arc::clone(&output), entry, fate, warnings }
    };
    files.into_iter().map(outcome).collect()
}

fn copy(
    context: &Context<'_>,
    source: &SourceDir,
    output: &Arc<OutputDir>,
    entry: &Entry,
    replaces: bool,
    scratch: &mut Block,
    warnings: &mut Vec<Error>,
) -> Result<Fate> {
    let mut timer = Timer::start(&context.clocks.read.busy);
    let path = || source.path_of(&entry.name);
    let file = Reading::open(&source.handle, &entry.name, context.follow, &entry.stat, &path)?;
    let attributes = file.attributes(warnings);
    timer.switch(&context.clocks.write.busy);
    let mut part = Part::create(context, output, &entry.name, replaces)?;
    let holes = entry.stat.is_sparse();
    match fill(context, &file, &mut part, holes, scratch, &mut timer) {
        Ok(Some(digest)) => {
            Ok(part.finish(context, entry, &attributes, digest, replaces, warnings))
        }
        Ok(None) => {
            part.discard(Error::finding("copy", path(), "interrupted"));
            Ok(Fate::Abandoned)
        }
        Err(error) => Err(part.discard(error)),
    }
}

/// Reads, hashes and writes the whole content, unless it is to stop; with holes for zeros if `holes`; the timer is on writing before and after.
fn fill<'a>(
    context: &Context<'a>,
    file: &Reading<'_>,
    part: &mut Part,
    holes: bool,
    scratch: &mut Block,
    timer: &mut Timer<'a>,
) -> Result<Option<Option<Digest>>> {
    let clocks = context.clocks;
    let mut hasher = context.algorithm.start();
    let mut total = 0;
    scratch.clear();
    loop {
        timer.switch(&clocks.read.busy);
        let read = file.read(scratch.room())?;
        scratch.fill(read);
        total += read as u64;
        context.progress.bytes.fetch_add(read as u64, Relaxed);
        let all = read == 0 || file.is_all(total);
        // What is not of the size that was listed need not be read to an end that may never come.
        if all || scratch.room().is_empty() {
            file.check(total)?;
        }
        if context.stop.is_requested() {
            return Ok(None);
        }
        // A file whose stated size means nothing may be larger than the block.
        if all || scratch.room().is_empty() {
            timer.switch(&clocks.hash.busy);
            hasher.update(scratch);
            timer.switch(&clocks.write.busy);
            if holes { part.write_with_holes(scratch) } else { part.write(scratch) }?;
            scratch.clear();
        }
        if all {
            return Ok(Some(hasher.finish()));
        }
    }
}
