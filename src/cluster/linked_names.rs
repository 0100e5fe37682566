//! The names of files that have several, put together by their files after the walk: sorted outside of memory, because
//! a tree of backups has many millions of them.

use std::fmt::Write;
use std::io;

use crate::cluster::end_list::FurtherName;
use crate::path::RelPath;
use crate::sys::stat::Identity;
use crate::tree::names::sorter::{RecordReader, Sorter};

/// What a name is: of a file or a symbolic link, the first that the walk met or a further one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkedKind {
    /// In this shard.
    First(u32),
    FirstSymlink,
    Further,
    FurtherSymlink,
}

/// Takes names in the order of the walk.
pub struct LinkedNames {
    sorter: Sorter,
    count: u64,
}

/// The further names, those of one file together.
pub struct FurtherNames {
    reader: RecordReader,
    first: Option<(Vec<u8>, u32, RelPath)>,
}

/// A further name, of a file or of a symbolic link.
pub enum LinkedName {
    File(FurtherName),
    Symlink(FurtherName),
}

/// The digits of a file's identity, which a record begins with, and those of the order in which names were met.
const IDENTITY: usize = 32;
const ORDER: usize = 16;

impl LinkedNames {
    pub fn new() -> Self {
        Self { sorter: Sorter::new(Ord::cmp), count: 0 }
    }

    /// Adds a name of the file `id`.
    pub fn add(&mut self, id: Identity, kind: LinkedKind, path: &RelPath) -> io::Result<()> {
        let (kind, shard) = match kind {
            LinkedKind::First(shard) => ('f', shard),
            LinkedKind::FirstSymlink => ('s', 0),
            LinkedKind::Further => ('n', 0),
            LinkedKind::FurtherSymlink => ('m', 0),
        };
        let mut head = String::new();
        // Writing to memory does not fail.
        let _ = write!(head, "{:016x}{:016x}{:016x}{kind}{shard:010}", id.dev, id.ino, self.count);
        self.count += 1;
        self.sorter.add(&[head.as_bytes(), path.as_bytes()].concat())
    }

    pub fn finish(self) -> io::Result<FurtherNames> {
        Ok(FurtherNames { reader: self.sorter.finish()?.reader(), first: None })
    }
}

impl FurtherNames {
    /// The next further name.
    ///
    /// # Errors
    /// A record cannot be read, or is of a file whose first name was not met.
    pub fn next_name(&mut self) -> io::Result<Option<LinkedName>> {
        while let Some(record) = self.reader.next_record()? {
            let parsed = parse(record).ok_or(io::ErrorKind::InvalidData)?;
            let (id, kind, shard, path) = parsed;
            if matches!(kind, b'f' | b's') {
                self.first = Some((id.to_vec(), shard, path));
                continue;
            }
            let first = self.first.as_ref().filter(|(first, ..)| first == id);
            let (_, shard, first) = first.ok_or(io::ErrorKind::NotFound)?;
            let name = FurtherName { shard: *shard, first: first.clone(), path };
            return Ok(Some(match kind {
                b'm' => LinkedName::Symlink(name),
                _ => LinkedName::File(name),
            }));
        }
        Ok(None)
    }
}

/// The identity, the kind, the shard and the path of a record.
fn parse(record: &[u8]) -> Option<(&[u8], u8, u32, RelPath)> {
    let (id, rest) = record.split_at_checked(IDENTITY)?;
    let (&kind, rest) = rest.get(ORDER..)?.split_first()?;
    let (shard, path) = rest.split_at_checked(10)?;
    let shard = std::str::from_utf8(shard).ok()?.parse().ok()?;
    Some((id, kind, shard, RelPath::parse(path).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn further_names_come_with_the_first_before_them() {
        let mut names = LinkedNames::new();
        let id = |ino| Identity { dev: 7, ino };
        let rel = |name: &str| RelPath::parse(name.as_bytes()).unwrap();
        for (ino, kind, path) in [
            (2, LinkedKind::First(5), "z"),
            (1, LinkedKind::FirstSymlink, "l"),
            (2, LinkedKind::Further, "a"),
            (2, LinkedKind::Further, "b/c"),
            // A name that was made meanwhile begins anew.
            (2, LinkedKind::First(6), "y"),
            (1, LinkedKind::FurtherSymlink, "m"),
            (2, LinkedKind::Further, "x"),
        ] {
            names.add(id(ino), kind, &rel(path)).unwrap();
        }
        let (mut further, mut found) = (names.finish().unwrap(), Vec::new());
        while let Some(name) = further.next_name().unwrap() {
            let (kind, name) = match name {
                LinkedName::File(name) => ("file", name),
                LinkedName::Symlink(name) => ("link", name),
            };
            let text = |path: &RelPath| String::from_utf8(path.as_bytes().to_vec()).unwrap();
            found.push(format!("{kind} {} {} {}", name.shard, text(&name.first), text(&name.path)));
        }
        assert_eq!(found, ["link 0 l m", "file 5 z a", "file 5 z b/c", "file 6 y x"]);
        let mut names = LinkedNames::new();
        names.add(id(3), LinkedKind::Further, &rel("a")).unwrap();
        assert!(names.finish().unwrap().next_name().is_err());
    }
}
