//! A file of the source, opened to be copied or read for its digest alone.

use std::path::PathBuf;
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::hash::{Algorithms, Digest, Digests};
use crate::io::read_back::ReadBack;
use crate::io::watched_file::WatchedFile;
use crate::part::transfer::Transfer;
use crate::sys::{self, Attributes, Medium};
use crate::transfer::context::Context;
use crate::transfer::kernel::copy_methods::FileSystemPair;
use crate::tree::walk::MADE_UP;

/// A file that is open to be copied.
pub struct OpenSource<'a> {
    /// The file, read at the run's rate.
    pub file: WatchedFile<'a>,
    pub attributes: Attributes,
    /// What is known of its file system and the output's.
    pub systems: Arc<FileSystemPair>,
}

/// Opens a file, which is at `path`, to be copied. What cannot be read of its attributes is told in
/// `warnings`.
pub fn open<'a>(
    context: &'a Context<'a>,
    transfer: &Transfer,
    path: &'a dyn Fn() -> PathBuf,
    warnings: &mut Vec<Error>,
) -> Result<OpenSource<'a>> {
    let mut file = open_file(context, transfer, path)?;
    let attributes = file.attributes(warnings)?;
    let stat = &transfer.entry().stat;
    let systems = context.shared.methods.between(file.file(), stat, &transfer.target.output);
    file.trust_size(systems.has_exact_sizes);
    Ok(OpenSource { file, attributes, systems })
}

fn open_file<'a>(
    context: &'a Context<'a>,
    transfer: &Transfer,
    path: &'a dyn Fn() -> PathBuf,
) -> Result<WatchedFile<'a>> {
    let (dir, entry) = (&transfer.source.handle, transfer.entry());
    let follow = context.options.follow;
    let file = WatchedFile::open(dir, &entry.name, follow, &entry.stat, path)?;
    if follow && sys::is_synthetic(file.file()) && !sys::is_synthetic(dir) {
        return Err(Error::finding("copy", path(), MADE_UP));
    }
    Ok(file.at_rate(context.control.rate, context.control.stop))
}

/// The digest of a file; `None` if the run is to stop, or without an algorithm.
pub fn hash(
    context: &Context<'_>,
    transfer: &Transfer,
    read_back: &mut ReadBack,
) -> Result<Option<Digest>> {
    let algorithms = context.algorithms();
    let Some(all) = hash_by(context, transfer, algorithms, read_back)? else { return Ok(None) };
    context.put_all(transfer.target.rel_path().as_bytes(), &all);
    Ok(all.of(context.options.algorithm))
}

/// The same by any algorithms.
pub fn hash_by(
    context: &Context<'_>,
    transfer: &Transfer,
    algorithms: Algorithms,
    read_back: &mut ReadBack,
) -> Result<Option<Digests>> {
    let path = || transfer.source_path();
    let file = open_file(context, transfer, &path)?;
    let medium = Medium::any(file.file());
    let stop = context.control.stop;
    let pace = |read| file.moved(read);
    let hashed = read_back
        .hash_paced(medium, algorithms, || stop.is_urgent(), pace)
        .map_err(|error| file.error("read", error))?;
    let Some((hashed, all)) = hashed else { return Ok(None) };
    file.check(hashed.bytes)?;
    Ok(all)
}
