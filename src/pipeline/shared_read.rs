//! Reading a large file together with other outputs, and what is left of it where that ends.

use crate::fanout::origin::OwnOrigin;
use crate::fanout::subscription::Subscription;
use crate::io::watched_file::WatchedFile;
use crate::pipeline::content::{ContentFrom, ContentReader, ReadError};
use crate::pipeline::message::LargeFile;
use crate::sys::CachePolicy;

/// Reads and sends the whole content together with other outputs, and from where that ends by itself.
/// `total` says how far it came.
pub fn read_shared<'r>(
    reader: &'r ContentReader<'_>,
    large: &LargeFile,
    file: &mut WatchedFile<'r>,
    subscription: &Subscription<'_>,
    sparing: CachePolicy,
    total: &mut u64,
) -> Result<(), ReadError> {
    let (options, control) = (&reader.context.options, reader.context.control);
    let (dir, entry) = (&*large.transfer.source, large.transfer.entry());
    let own = OwnOrigin { file, dir, entry, sparing, follow: options.follow, control };
    if reader.read(large, ContentFrom::Shared(subscription, &own), total)? {
        return Ok(());
    }
    reader.continue_unless_stopped(large)?;
    subscription.count_alone();
    file.spare_cache(sparing, &reader.context.control.resident.source);
    reader.seek(file, *total)?;
    reader.read(large, ContentFrom::Own(file), total).map(drop)
}
