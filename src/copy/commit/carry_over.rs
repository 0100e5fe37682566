//! Lines of an earlier manifest for files that are no longer in the source.
//!
//! A manifest is of the whole output. What an earlier run proved, and still stands there untouched,
//! is listed in the next manifest too, although this run did not come upon it.

use crate::error::Result;
use crate::event::Stop;
use crate::manifest::carry::{Carry, is_untouched};
use crate::manifest::line;
use crate::manifest::write::ManifestFile;
use crate::path::RelPath;
use crate::sys::stat::Stat;
use crate::sys::{self, Dir};

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
    let (mut lines, mut carried, mut open) = (Vec::new(), 0, None);
    carry.unasked(&|| stop.is_requested(), |path, digest, written| {
        if stat_below(root, path, &mut open).is_some_and(|there| is_untouched(&there, written)) {
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

/// What is at a path below the root; `None` if it cannot be seen or a link is on the way. The last
/// directory stays open in `open`, because the paths come in the order of a walk.
fn stat_below(root: &Dir, path: &RelPath, open: &mut Option<(RelPath, Dir)>) -> Option<Stat> {
    let (dir, name) = path.split()?;
    if open.as_ref().is_none_or(|(opened, _)| *opened != dir) {
        let handle = root.open_below(&dir).ok()?;
        *open = Some((dir, handle));
    }
    open.as_ref()?.1.stat(sys::name_from_bytes(name).ok()?, false).ok()
}
