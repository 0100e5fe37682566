//! Files that are obeyed: whoever can change one, or put another in its place, says what this user's program does.

use std::fs::{File, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::sys::unix::process::acting_as;

/// Others may write.
const OTHERS_WRITE: u32 = 0o022;

/// In such a directory only the owner of an entry may replace it.
const STICKY: u32 = 0o1000;

/// What lets others than this user and root change the regular file at `path`, which is open as `file`, or put another
/// one there: the file, or a directory above it, also above what a link leads to. `None` if nothing does.
///
/// # Errors
/// The system's.
pub fn who_else_changes(path: &Path, file: &File) -> io::Result<Option<PathBuf>> {
    let found = file.metadata()?;
    if !found.is_file() {
        return Ok(None);
    }
    if !is_ours(&found) || found.mode() & OTHERS_WRITE != 0 {
        return Ok(Some(path.to_path_buf()));
    }
    for path in [std::path::absolute(path)?, path.canonicalize()?] {
        // A link belongs to who may lead it elsewhere.
        for above in path.ancestors() {
            let (entry, found) = (above.symlink_metadata()?, above.metadata()?);
            let is_open =
                found.is_dir() && found.mode() & OTHERS_WRITE != 0 && found.mode() & STICKY == 0;
            if is_open || !is_ours(&entry) || !is_ours(&found) {
                return Ok(Some(above.to_path_buf()));
            }
        }
    }
    Ok(None)
}

fn is_ours(found: &Metadata) -> bool {
    [0, acting_as().0].contains(&found.uid())
}
