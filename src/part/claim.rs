//! Part files that the next run finds by the name of the file to come.
//!
//! No directory is locked for a stream, so a part file in it may be another run's at work. One that is made
//! here is locked while it is written. What has such a name and is locked by no process was left by a
//! killed run, and the next run that makes the same file removes it. A random name could not be told from
//! those of other files, and would stay for ever.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;

use crate::hash::Sha256;
use crate::sys::{self, Dir, PartOwner};

/// So many runs at a time make the same file and are cleaned up after; more get random names.
const MOST: u8 = 4;

/// Makes the part file of the file that is to be called `name`.
pub fn create(dir: &Dir, name: &OsStr) -> io::Result<(File, OsString)> {
    for number in 0..MOST {
        let part = part_of(name, number);
        match dir.create_claimed(&part) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            created => return created.map(|file| (file, part)),
        }
    }
    dir.create_part(PartOwner::default())
}

/// Removes what killed runs left of the file that was to be called `name`. What cannot be removed is left to
/// a later run; what `is_data` says is a file of the user stays.
pub fn sweep(dir: &Dir, name: &OsStr, is_data: &dyn Fn(&OsStr) -> bool) {
    for number in 0..MOST {
        let part = part_of(name, number);
        let is_there = dir.stat(&part, false).is_ok();
        if is_there && !is_data(&part) {
            let _ = dir.remove_abandoned(&part);
        }
    }
}

fn part_of(name: &OsStr, number: u8) -> OsString {
    let Sha256(sum) = Sha256::of(&[&[number], name.as_encoded_bytes()]);
    sys::part_name_of(std::array::from_fn(|i| sum[i]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_no_process_writes_is_removed() {
        let root = tempfile::tempdir().unwrap();
        let dir = Dir::open(root.path()).unwrap();
        let name = OsStr::new("f");
        let (first, part) = create(&dir, name).unwrap();
        let (second, other) = create(&dir, name).unwrap();
        assert!(part != other && sys::is_part_name(&part) && sys::is_part_name(&other));
        sweep(&dir, name, &|_| false);
        assert_eq!(root.path().read_dir().unwrap().count(), 2);
        drop(first);
        sweep(&dir, name, &|_| false);
        // Where a part file cannot be locked it stays.
        let left = if cfg!(unix) { 1 } else { 2 };
        assert_eq!(root.path().read_dir().unwrap().count(), left);
        drop(second);
    }

    #[cfg(unix)]
    #[test]
    fn what_another_program_made_stays() {
        let root = tempfile::tempdir().unwrap();
        let dir = Dir::open(root.path()).unwrap();
        let name = OsStr::new("f");
        std::os::unix::fs::symlink("x", root.path().join(part_of(name, 0))).unwrap();
        std::fs::create_dir(root.path().join(part_of(name, 1))).unwrap();
        std::fs::write(root.path().join(part_of(name, 2)), "").unwrap();
        std::fs::hard_link(root.path().join(part_of(name, 2)), root.path().join("y")).unwrap();
        sweep(&dir, name, &|_| false);
        assert_eq!(root.path().read_dir().unwrap().count(), 4);
        assert_eq!(create(&dir, name).unwrap().1, part_of(name, 3));
    }
}
