//! Files of a known time in the private directory: they show whether a file system's times have moved.
//!
//! FAT stores what a clock on the wall says, and how that is read depends on the machine's zone, or on daylight
//! saving. Then all times move alike, by whole quarters of an hour. One file was given its time in each zone that
//! a run has seen, because files that were copied in either look moved in the other.

use std::ffi::{OsStr, OsString};
use std::fs::{File, FileTimes};
use std::io;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::sys::Dir;
use crate::sys::stat::Time;

/// The time of each of these files: even, for file systems with steps of two seconds.
const REFERENCE: Time = Time { secs: 981_173_106, nanos: 0 };

/// So many zones are told apart.
const MOST: usize = 8;

/// Zones differ by multiples of this; seconds.
const QUARTER: i64 = 15 * 60;

/// … and by less than this, from +14 to −12 hours, and an hour of daylight saving.
const MOST_APART: i64 = 28 * 3600;

/// How the times that earlier runs set have moved.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MovedTimes {
    /// By how many seconds, once each; none where they have not.
    pub by: Vec<i64>,
    /// Whether no earlier run has seen them as they are now.
    pub is_new: bool,
}

/// How the times that earlier runs set have moved, as the files in `dir` show. Where no file has the time that is
/// asked of it now, one is made if `makes`.
///
/// # Errors
/// The files can be neither read nor made.
pub fn moved(dir: &Dir, makes: bool) -> io::Result<MovedTimes> {
    let (mut moved, mut is_known) = (Vec::new(), false);
    for number in 0..MOST {
        let name = OsString::from(format!("time.{number}"));
        let there = match dir.stat(&name, false) {
            Ok(there) => there,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                if makes && !is_known {
                    set(&dir.create_new(&name, true)?)?;
                }
                break;
            }
            Err(error) => return Err(error),
        };
        let by = there.mtime.secs - REFERENCE.secs;
        is_known |= by == 0;
        if by != 0 && by % QUARTER == 0 && by.abs() < MOST_APART {
            moved.push(by);
        }
    }
    Ok(MovedTimes { is_new: !is_known && !moved.is_empty(), by: moved })
}

/// Whether a file is called like one of these.
pub fn is_name(name: &OsStr) -> bool {
    (0..MOST).any(|number| name == OsStr::new(&format!("time.{number}")))
}

fn set(file: &File) -> io::Result<()> {
    let time = UNIX_EPOCH + Duration::from_secs(REFERENCE.secs.unsigned_abs());
    // Both times: libfuse 2 ignores one alone.
    file.set_times(FileTimes::new().set_accessed(SystemTime::now()).set_modified(time))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::private_dir::scratch;

    #[test]
    fn a_zone_is_known_again() {
        let (_root, _, private) = scratch();
        for makes in [false, true, true] {
            assert_eq!(moved(private.dir(), makes).unwrap(), MovedTimes::default());
        }
        // As another machine shows it, an hour later.
        let first = File::options().write(true).open(private.path().join("time.0")).unwrap();
        let later = UNIX_EPOCH + Duration::from_secs(REFERENCE.secs.unsigned_abs() + 3600);
        first.set_modified(later).unwrap();
        for is_new in [true, false] {
            assert_eq!(moved(private.dir(), true).unwrap(), MovedTimes { by: vec![3600], is_new });
        }
        assert!(private.path().join("time.1").exists() && !private.path().join("time.2").exists());
        first.set_modified(later + Duration::from_secs(7)).unwrap();
        assert!(moved(private.dir(), true).unwrap().by.is_empty(), "not a quarter of an hour");
    }
}
