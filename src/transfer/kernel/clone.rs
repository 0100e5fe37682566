//! Cloning a file into its part file, where both lie on one file system that can share data.
//!
//! The clone is a snapshot of one moment, and it is the part file itself that is read and hashed
//! afterwards: the digest is of what stands at the output.

use std::path::PathBuf;

use crate::error::Result;
use crate::io::options::Reflink;
use crate::io::watched_file::WatchedFile;
use crate::part::method::Method;
use crate::part::part_file::Part;
use crate::sys::stat::Stat;
use crate::sys::{self, Cloned};
use crate::transfer::context::Context;
use crate::transfer::kernel::copy_methods::FileSystemPair;

/// Clones `source` into the empty `part` if that is wanted and possible, and says what the part
/// file is then. `None` when the bytes have to go another way, for which the part file is ready.
/// `is_hashed` says that the copy will be read.
pub fn clone(
    context: &Context<'_>,
    pair: &FileSystemPair,
    source: &WatchedFile<'_>,
    part: &mut Part,
    is_hashed: bool,
) -> Result<Option<Stat>> {
    let size = source.before().size;
    let is_large = size > context.options.block_size as u64;
    // An empty file has nothing to share, or its content is made up as it is read.
    if size > 0
        && context.shared.methods.wants_clone(pair, is_hashed, is_large)
        && is_cloned(context.options.reflink, pair, source, part)?
    {
        let stat = part.stat()?;
        source.check(stat.size)?;
        part.is_filled_by(Method::Clone);
        return Ok(Some(stat));
    }
    part.prepare(&context.options, pair.output, source)?;
    Ok(None)
}

/// The same, and opens the clone, which is at `path`, to be read and hashed.
pub fn clone_to_hash<'a>(
    context: &'a Context<'a>,
    pair: &FileSystemPair,
    source: &WatchedFile<'_>,
    part: &mut Part,
    path: &'a dyn Fn() -> PathBuf,
) -> Result<Option<WatchedFile<'a>>> {
    let stat = clone(context, pair, source, part, true)?;
    let Some(stat) = stat else { return Ok(None) };
    let mut content = part.content(stat, path)?;
    content.spare_cache(pair.output, &context.control.resident.output);
    // What is read are the source's blocks.
    Ok(Some(content.at_rate(context.control.rate, context.control.stop)))
}

fn is_cloned(
    reflink: Reflink,
    pair: &FileSystemPair,
    source: &WatchedFile<'_>,
    part: &Part,
) -> Result<bool> {
    match sys::clone_file(source.file(), part.file()?) {
        Ok(Cloned::Yes) => Ok(true),
        Ok(Cloned::No { cause, .. }) if reflink == Reflink::Always => {
            let hint = "; both must lie on one file system that can share data (xfs, btrfs)";
            Err(source.error("clone", cause).with_note(hint))
        }
        Ok(Cloned::No { ever, .. }) => {
            if ever {
                pair.set_no_clones();
            }
            Ok(false)
        }
        Err(error) => Err(part.or_source_error("clone", source, error)),
    }
}
