//! The results of the shards of a check, each in a file of a directory that is closed to others: what was checked, and
//! what was bad. A result appears by a rename, when its shard is done, and has a sum at its end.

use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::manifest::summed::{SummedReader, SummedWriter};
use crate::path::directory_of;
use crate::sys::Dir;
use crate::verify::finding::Finding;
use crate::verify::lines::shards::CheckShard;
use crate::verify::shards::notes::{self, ShardNoted};
use crate::verify::target::Target;

/// What every result begins with.
const HEADER: &str = "# dircopy checked 2";

const ENDING: &str = "checked";

const READ: &str = "read the result";

/// What a result says of its shard as a whole.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShardResult {
    pub index: u32,
    pub of: u32,
    /// The SHA-256 of the manifest.
    pub manifest: String,
    /// The directory that was checked, for the eye, and its inode number.
    pub root: String,
    pub root_inode: u64,
    /// The lines that were answered, and their sum.
    pub lines: u64,
    pub sum: String,
    /// The files that are as listed; records of all others follow.
    pub good: u64,
    pub bytes: u64,
    pub from_device: u64,
    pub from_cache: u64,
    /// When the check began and ended, by the clock of its machine: seconds since 1970.
    pub began: i64,
    pub ended: i64,
}

/// The directory of results.
#[derive(Debug)]
pub struct ResultsDir {
    path: PathBuf,
    dir: Dir,
}

/// A result that was found, or why it is none.
#[derive(Debug)]
pub struct FoundResult {
    pub path: PathBuf,
    pub result: Result<ShardResult>,
}

impl ResultsDir {
    /// Opens the directory at `path`, and makes it if there is none and it is to be made.
    ///
    /// # Errors
    /// It cannot be opened, or is not this user's alone.
    pub fn open(path: &Path, make: bool) -> Result<Self> {
        let fail = |error| Error::io("open the results in", path, error);
        let made = match make {
            false => false,
            true => match fs::create_dir(path) {
                Err(error) if error.kind() == ErrorKind::AlreadyExists => false,
                made => made.map(|()| true).map_err(fail)?,
            },
        };
        let dir = Dir::open(path).map_err(fail)?;
        if made {
            dir.close_to_others().map_err(fail)?;
            let above = Dir::open(directory_of(path)).and_then(|above| above.persist());
            above.map_err(fail)?;
        }
        if !dir.is_private().map_err(fail)? {
            let finding =
                "it is not a directory of this user's alone, so anyone may have changed it";
            return Err(Error::finding("open the results in", path, finding));
        }
        Ok(Self { path: path.to_path_buf(), dir })
    }

    fn name(shard: CheckShard) -> String {
        let CheckShard { index, of } = shard;
        format!("{index:04}-of-{of:04}.{ENDING}")
    }

    /// Removes the earlier result of a shard that is checked anew.
    pub fn remove(&self, shard: CheckShard) -> Result<()> {
        let name = Self::name(shard);
        match self.dir.remove(name.as_ref()) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                Err(Error::io("remove", self.path.join(name), error))
            }
            _ => Ok(()),
        }
    }

    /// Writes the result of a shard, in the place of an earlier one.
    pub fn write(&self, shard: CheckShard, result: &ShardResult, noted: &ShardNoted) -> Result<()> {
        let name = Self::name(shard);
        let fill = |file: &mut File| {
            let mut writer = SummedWriter::new(file, b'\n', HEADER)?;
            writer.add(&serde_json::to_vec(result).map_err(io::Error::from)?)?;
            let mut bad = noted.bad.reader();
            while let Some(record) = bad.next_record()? {
                writer.add(record)?;
            }
            writer.finish(result.bytes).map(drop)
        };
        let publish = |part: &std::ffi::OsStr| self.dir.publish(part, name.as_ref(), true);
        let written = self.dir.write_atomically(false, fill, publish);
        written.map_err(|error| Error::io("write the result", self.path.join(&name), error))
    }

    /// Everything that is a result by its name, each read to its end.
    pub fn all(&self) -> Result<Vec<FoundResult>> {
        let fail = |error| Error::io("look for results in", &self.path, error);
        let mut found = Vec::new();
        for entry in fs::read_dir(&self.path).map_err(fail)? {
            let path = entry.map_err(fail)?.path();
            if path.extension().is_some_and(|ending| ending == ENDING) {
                let result = read(&path, |_| Ok(()));
                found.push(FoundResult { path, result });
            }
        }
        found.sort_unstable_by(|one, other| one.path.cmp(&other.path));
        Ok(found)
    }
}

impl FoundResult {
    /// Reads it once more, and tells what it has of bad files of a target.
    pub fn tell(&self, target: &Target, mut tell: impl FnMut(Finding)) -> Result<()> {
        read(&self.path, |record| {
            tell(notes::finding(record, target).ok_or(())?);
            Ok(())
        })?;
        Ok(())
    }
}

/// Reads a result to its end; `bad` takes the records of bad files.
fn read(
    path: &Path,
    mut bad: impl FnMut(&[u8]) -> std::result::Result<(), ()>,
) -> Result<ShardResult> {
    let is_file = fs::symlink_metadata(path).is_ok_and(|entry| entry.is_file());
    if !is_file {
        return Err(Error::finding(READ, path, "it is no regular file"));
    }
    let mut reader = SummedReader::open_to(READ, path, b'\n', HEADER)?;
    let first = match reader.next_record()? {
        Some(record) => serde_json::from_slice::<ShardResult>(record).ok(),
        None => None,
    };
    let Some(result) = first else { return Err(reader.torn("it does not say what it is of")) };
    let mut number = 0_u64;
    loop {
        let fits = match reader.next_record()? {
            None => break,
            Some(record) => bad(record).is_ok(),
        };
        if !fits {
            return Err(reader.torn("a record of a bad file in it is malformed"));
        }
        number += 1;
    }
    let is_sound = CheckShard::new(result.index, result.of).is_ok()
        && result.good.checked_add(number) == Some(result.lines);
    match is_sound {
        true => Ok(result),
        false => Err(reader.torn("its numbers do not fit together")),
    }
}
