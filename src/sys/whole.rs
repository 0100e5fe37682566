//! Files that appear whole or not at all, beside what was there before.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::time::{SystemTime, UNIX_EPOCH};

#[cfg(unix)]
use crate::sys::unix::{Dir, close_file, persist_file};
#[cfg(windows)]
use crate::sys::windows::{Dir, close_file, persist_file};

impl Dir {
    /// Makes a file with what `fill` writes, and has `publish` give it its name when it is whole and on the
    /// disk. After an error nothing of it is there.
    pub fn write_whole(
        &self,
        fill: impl FnOnce(&mut File) -> io::Result<()>,
        publish: impl FnOnce(&OsStr) -> io::Result<()>,
    ) -> io::Result<()> {
        // In a container the processes of all runs may have one number.
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
        // Not the name of a part file: those are removed when a run comes upon them.
        let temporary = OsString::from(format!(".dircopy-{}-{now}.tmp", std::process::id()));
        let written = self.create_new(&temporary, false).and_then(|mut file| {
            fill(&mut file)?;
            persist_file(&file)?;
            close_file(file)?;
            publish(&temporary)?;
            self.persist()
        });
        if written.is_err() {
            // What matters is the first error.
            let _ = self.remove(&temporary);
        }
        written
    }
}
