//! Removing what a killed run left behind: part files that nobody will finish.
//!
//! Only in directories that are copied to, and only what has the name of a part file and is not
//! in the source. No other run can be at work on them: each output is locked while it is written.

use std::ffi::OsString;
use std::io;

use crate::error::Error;
use crate::sys::{Listing, is_part_name};
use crate::tree::node::{OutputDir, SourceDir};

/// Removes them from an output directory that was there already; returns their names. The error
/// is the first; what else could be removed is.
pub fn sweep(
    source: &SourceDir,
    output: &OutputDir,
    listing: &mut Listing,
) -> (Vec<OsString>, Option<Error>) {
    let (mut swept, mut first) = (Vec::new(), None);
    let Some(dir) = output.handle.as_ref().filter(|_| !output.fresh) else {
        return (swept, first);
    };
    loop {
        let batch = match listing.next_batch(dir) {
            Ok(batch) if batch.is_empty() => return (swept, first),
            Ok(batch) => batch,
            Err(error) => {
                let error = Error::io("look for old part files in", output.path(), error);
                return (swept, first.or(Some(error)));
            }
        };
        for listed in batch.into_iter().filter(|listed| is_part_name(&listed.name)) {
            let removed = match source.handle.stat(&listed.name, false) {
                Err(absent) if absent.kind() == io::ErrorKind::NotFound => dir.remove(&listed.name),
                _ => continue,
            };
            match removed {
                Ok(()) => swept.push(listed.name),
                Err(error) => {
                    let path = output.path_of(&listed.name);
                    first.get_or_insert(Error::io("remove the old part file", path, error));
                }
            }
        }
    }
}
