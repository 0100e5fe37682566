//! Lines of an earlier manifest for files that are no longer in the source.
//!
//! A manifest is of the whole output. What an earlier run proved, and still stands there untouched,
//! is listed in the next manifest too, although this run did not come upon it.

use crate::error::Result;
use crate::event::Stop;
use crate::manifest::carry::{Carry, is_untouched};
use crate::manifest::line;
use crate::manifest::writer::ManifestFile;
use crate::sys::Dir;
use crate::tree::last_dir::LastDir;

/// So many bytes of lines are written at a time.
const LINE_BYTES: usize = 1 << 20;

/// Appends these lines to the manifest; returns how many. Not all of them once `stop` is requested:
/// then the manifest stays unfinished, and the earlier ones stay too.
pub fn carry_over(
    carry: &Carry,
    root: &Dir,
    manifest: &mut ManifestFile,
    stop: &Stop,
) -> Result<u64> {
    let (mut lines, mut carried, mut last) = (Vec::new(), 0, LastDir::default());
    carry.unasked(&|| stop.is_requested(), |path, digest, written| {
        let there = last.stat(root, path, false);
        if there.is_ok_and(|there| is_untouched(&there, written)) {
            carried += 1;
            line::write_path(&mut lines, digest, path.as_bytes());
            if lines.len() >= LINE_BYTES {
                manifest.append(&lines)?;
                lines.clear();
            }
        }
        Ok(())
    })?;
    manifest.append(&lines)?;
    Ok(carried)
}
