//! Refusing an output whose disk is not there: without one, a run would fill the disk below the mount point.

use std::path::Path;

use crate::copy::before::open::{Opened, open_output};
use crate::error::{Error, Result};
use crate::path::Shown;
use crate::sys::{self, Dir, NoOwnMount};

/// Opens the output `to`, which must lie on a file system that was mounted for it if it `must_be_mounted`.
pub fn open(to: &Path, must_be_mounted: bool) -> Result<Opened> {
    if must_be_mounted { open_mounted(to) } else { open_output(to) }
}

fn open_mounted(to: &Path) -> Result<Opened> {
    // Where the disk is missing, so may be the directories on it, and making them is no remedy.
    let opened = match open_output(to) {
        Ok(opened) => opened,
        Err(error) => {
            let above = to.ancestors().skip(1).find_map(|above| Dir::open(above).ok());
            return Err(above.and_then(|above| refuse(&above, to).err()).unwrap_or(error));
        }
    };
    refuse(opened.dir(), to)?;
    Ok(opened)
}

/// Refuses the output `to` if `dir`, which is, holds or is to hold it, does not lie on a mount of its own.
fn refuse(dir: &Dir, to: &Path) -> Result<()> {
    let fail = |finding: String| Err(Error::finding("copy to", to, finding));
    match sys::no_own_mount(dir) {
        Ok(None) => Ok(()),
        Ok(Some(NoOwnMount::System)) => {
            fail("its disk is not mounted: this is a directory of the system's own disk".into())
        }
        Ok(Some(NoOwnMount::Bound { directory, source })) => fail(format!(
            "its disk is not mounted: this is the directory {} of {}, bound there",
            Shown::path(&directory),
            Shown::path(&source)
        )),
        Err(error) => Err(Error::io("find the mount of", to, error)),
    }
}
