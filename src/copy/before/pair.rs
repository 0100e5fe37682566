//! Source and output beside each other before anything is touched: what is refused because of both.

use std::io;
use std::path::Path;

use crate::copy::before::exchange::{Exchange, Side};
use crate::copy::before::open::Opened;
use crate::copy::before::prepare::{cannot_look, is_inside};
use crate::error::{Error, Result};
use crate::path::Shown;
use crate::state::private_dir::{NAME, PrivatePlace};
use crate::sys::stat::Stat;
use crate::sys::{Cloned, Dir, DirListing};

/// The two sides while they are compared.
pub(super) struct Pair<'a> {
    pub from: &'a Path,
    pub to: &'a Path,
    pub source: &'a Dir,
    pub source_stat: &'a Stat,
}

impl Pair<'_> {
    /// Refuses an output that is the source or inside it; in a source that is one file the output may lie.
    pub fn refuse_overlap(&self, output: &Opened, is_file: bool) -> Result<()> {
        let Self { from, to, source, source_stat } = *self;
        let overlap = |what: &str| {
            Err(Error::finding("copy to", to, format!("{what} {}", Shown::path(from))))
        };
        if let Opened::There(dir) = output
            && dir.identity().map_err(|error| cannot_look(to, error))? == source_stat.id
        {
            return overlap("it is the same directory as the source, or holds the source file");
        }
        if !is_file && is_inside(output.dir(), source, source_stat.id, to)? {
            return overlap("it is inside the source; choose an output outside of");
        }
        Ok(())
    }

    /// Refuses an output that the source is a copy of: the two were probably exchanged. What is empty may be filled.
    pub fn refuse_exchange(&self, output: &Opened, place: PrivatePlace<'_>) -> Result<()> {
        let Self { from, to, source, .. } = *self;
        let Opened::There(dir) = output else { return Ok(()) };
        let (source, output) = (Side { root: source, path: from }, Side { root: dir, path: to });
        let exchange = Exchange { source, output, place };
        if is_empty(to).map_err(|error| cannot_look(to, error))? || !exchange.is_likely() {
            return Ok(());
        }
        let finding = format!(
            "it is what {} was copied from: are source and output exchanged? to bring back what was copied, give \
             --restore",
            Shown::path(from)
        );
        Err(Error::finding("copy to", to, finding))
    }

    /// Whether files of both can share their data. If they `must_clone`, an output that never can is refused.
    pub fn may_share(&self, output: &Dir, must_clone: bool) -> Result<bool> {
        let cloned = output.try_clone_within();
        let may_share = matches!(cloned, Some(Cloned::Yes));
        if let Some(Cloned::No { cause, ever: true }) = cloned
            && must_clone
        {
            let error = Error::io("clone to", self.to, cause);
            return Err(error.with_note("; its file system cannot share data between files"));
        }
        let id = output.identity().map_err(|error| cannot_look(self.to, error))?;
        Ok(may_share && id.dev == self.source_stat.id.dev)
    }
}

/// Whether nothing but a private directory is in the directory at `path`; a handle's own position stays where it is.
pub(super) fn is_empty(path: &Path) -> io::Result<bool> {
    for entry in DirListing::of(&Dir::open(path)?)? {
        if *entry?.name != *NAME {
            return Ok(false);
        }
    }
    Ok(true)
}
