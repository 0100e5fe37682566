//! What the removal of old trash does to files that stay: each name that is removed changes the change time of the
//! file that had it, so that no record would prove the living file any longer.
//!
//! The time just before and just after is noted of each such file. If the record has the first and the file has the
//! second, nothing else happened to it, and the record gets a newer row. What is not noted is read by the next run.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::io;
use std::path::Path;
use std::thread::sleep;
use std::time::Duration;

use crate::error::{Error, Result};
use crate::event::Stop;
use crate::hash::Algorithm;
use crate::state::belief::Unsettled;
use crate::state::knowledge::Knowledge;
use crate::state::private_dir::PrivateDir;
use crate::state::record::record_file::RecordFile;
use crate::state::row::{Row, Trace};
use crate::sys::Dir;
use crate::sys::stat::{Identity, Kind, Stat};
use crate::tree::last_dir::LastDir;

/// Of so many files the times are noted, in about 80 MiB.
const MOST_FILES: usize = 1 << 20;

/// Longer than a step of any file system's clock: what changes later shows.
const STEP: Duration = Duration::from_millis(25);

/// So many bytes of rows are recorded at a time.
const ROWS: usize = 1 << 20;

/// Files that lost a name and have another.
#[derive(Debug, Default)]
pub struct LostNames {
    /// As what each was found first, and as what it was left.
    files: HashMap<Identity, (Trace, Trace)>,
}

impl LostNames {
    /// Removes what is called `name` from `dir`, and notes what that does to a file with further names.
    ///
    /// # Errors
    /// It cannot be removed.
    pub fn remove(&mut self, dir: &Dir, name: &OsStr) -> io::Result<()> {
        let Some((id, before, file)) = self.look(dir, name) else { return dir.remove(name) };
        dir.remove(name)?;
        match (Dir::stat_file(&file), self.files.get_mut(&id)) {
            // It was left as it was found now: only names went meanwhile.
            (Ok(after), Some((_, left))) if *left == before => *left = Trace::of(&after),
            (Ok(after), None) => drop(self.files.insert(id, (before, Trace::of(&after)))),
            (_, Some(_)) => drop(self.files.remove(&id)),
            (Err(_), None) => {}
        }
        Ok(())
    }

    /// A file that keeps another name; `None` if there is nothing to note.
    fn look(&self, dir: &Dir, name: &OsStr) -> Option<(Identity, Trace, std::fs::File)> {
        let has_others = |it: &Stat| it.kind == Kind::File && it.links > 1;
        let there = dir.stat(name, false).ok().filter(has_others)?;
        if self.files.len() >= MOST_FILES && !self.files.contains_key(&there.id) {
            return None;
        }
        let file = dir.open_file(name, false).ok()?;
        let now = Dir::stat_file(&file).ok().filter(has_others)?;
        Some((now.id, Trace::of(&now), file))
    }

    /// The row of a file as it is now, if since `row` was written it lost names and nothing else happened to it.
    fn renewed(&self, row: Row, there: &Stat) -> Option<Row> {
        let (before, left) = self.files.get(&there.id)?;
        let is_alike = (before.ino, before.size, before.mtime) == (left.ino, left.size, left.mtime);
        let is_it = row.sure && row.trace == *before && left.is_of(there);
        (is_it && is_alike).then_some(Row { trace: *left, ..row })
    }

    /// Adds newer rows to the record of `tree`, for its files that lost names.
    ///
    /// # Errors
    /// They cannot be recorded; then the next run reads those files.
    pub fn record(&self, tree: &TreeRecord<'_>, stop: &Stop) -> Result<()> {
        if self.files.is_empty() {
            return Ok(());
        }
        sleep(STEP);
        let TreeRecord { root, path, private, proof } = *tree;
        let fail = |error| Error::io("record which files lost names in", private.path(), error);
        let is_to_stop = || stop.is_requested();
        let (known, _) = Knowledge::load(Some(private), root, path, &|_| false, &is_to_stop);
        let known = known.proving_with(proof);
        let mut record = RecordFile::create(private, known.next_number()).map_err(fail)?;
        let (mut rows, mut number, mut last) = (Vec::new(), 0, LastDir::default());
        known.unsettled(&is_to_stop, |path, Unsettled { remembered, trusted, further, .. }| {
            let there = last.stat(root, path, false).ok().filter(|_| trusted && !remembered.late);
            let row = there.zip(remembered.row);
            let Some(row) = row.and_then(|(there, row)| self.renewed(row, &there)) else {
                return Ok(());
            };
            row.write(&mut rows, &further, path.as_bytes());
            number += 1;
            if rows.len() >= ROWS {
                record.append(&rows, number).map_err(fail)?;
                (rows, number) = (Vec::new(), 0);
            }
            Ok(())
        })?;
        record.append(&rows, number).map_err(fail)
    }
}

/// A tree whose record is to have newer rows.
#[derive(Clone, Copy)]
pub struct TreeRecord<'a> {
    pub root: &'a Dir,
    pub path: &'a Path,
    pub private: &'a PrivateDir,
    /// By which algorithm its run proved.
    pub proof: Algorithm,
}
