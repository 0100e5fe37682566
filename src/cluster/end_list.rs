//! The work that is left to the end of a plan: symbolic links, and directories with their modes and times, the deepest
//! first; and further names of files, in the order of the shards that have their first.

use std::{cmp::Ordering, io};

use serde::{Deserialize, Serialize};

use crate::{
    path::RelPath, sys::stat::Identity, sys::stat::Kind, sys::stat::Stat, sys::stat::Time,
    tree::PathRecord, tree::RecordReader, tree::Sorter, tree::Ways, tree::by_words,
    tree::names::compare,
};

/// The list of links and directories.
pub const FINISH: &str = "finish";

/// The list of further names.
pub const LINKS: &str = "links";

/// An entry of the list of links and directories.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum EndEntry {
    /// A directory, whose attributes are set; it is `fresh` if the plan made it.
    Dir { path: RelPath, label: DirLabel, fresh: bool, ways: Ways },
    /// A symbolic link, and the ways to the directory that it is in.
    Symlink(RelPath, Ways),
    /// A further name of a symbolic link, and the first.
    FurtherSymlink(RelPath, RelPath),
}

/// The attributes of a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DirLabel {
    mode: u32,
    uid: u32,
    gid: u32,
    mtime: Time,
}

impl DirLabel {
    pub fn of(stat: &Stat) -> Self {
        let Stat { mode, uid, gid, mtime, .. } = *stat;
        Self { mode, uid, gid, mtime }
    }

    /// The metadata of a directory that has them.
    pub fn stat(self) -> Stat {
        let Self { mode, uid, gid, mtime } = self;
        Stat { mtime, ctime: mtime, mode, uid, gid, ..Stat::of_kind(Kind::Dir) }
    }
}

impl EndEntry {
    /// Its record.
    ///
    /// # Errors
    /// It has none.
    pub fn to_record(&self) -> io::Result<Vec<u8>> {
        Ok(serde_json::to_vec(self)?)
    }

    /// Reads a record; `None` if it is none, or leads out of the tree.
    pub fn parse(record: &[u8]) -> Option<Self> {
        serde_json::from_slice(record).ok().filter(|entry| match entry {
            Self::Dir { label: DirLabel { mode, mtime, .. }, .. } => {
                *mode <= 0o7777 && mtime.nanos < 1_000_000_000
            }
            Self::Symlink(path, _) => !path.is_root(),
            Self::FurtherSymlink(path, first) => !path.is_root() && !first.is_root(),
        })
    }
}

/// A further name of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FurtherName {
    /// The shard that has the first name.
    pub shard: u32,
    pub first: RelPath,
    pub path: RelPath,
}

/// The separator between the two paths in the record of a further name: no path has an empty component.
const BETWEEN: &[u8] = b"//";

impl FurtherName {
    /// Has it sorted, in [this order](Self::order).
    ///
    /// # Errors
    /// Those of the sorter.
    pub fn add_to(&self, sorter: &mut Sorter) -> io::Result<()> {
        let paths = [self.first.as_bytes(), BETWEEN, self.path.as_bytes()].concat();
        sorter.add(format!("{:010}", self.shard), &paths)
    }

    /// Takes a record apart; `None` if it is none, or leads out of the tree.
    pub fn parse(record: &[u8]) -> Option<Self> {
        let (shard, paths) = PathRecord::told(record);
        let (first, path) = split(paths)?;
        Some(Self { shard: shard.parse().ok()?, first, path })
    }

    /// The order of records of further names: that of the shards, and in each that of its list.
    pub fn order(one: PathRecord<'_>, other: PathRecord<'_>) -> Ordering {
        one.words.cmp(other.words).then_with(|| compare(one.path, other.path))
    }
}

fn split(bytes: &[u8]) -> Option<(RelPath, RelPath)> {
    let at = memchr::memmem::find(bytes, BETWEEN)?;
    let (first, path) = (&bytes[..at], &bytes[at + BETWEEN.len()..]);
    Some((RelPath::parse(first).ok()?, RelPath::parse(path).ok()?))
}

// The names of files that have several, put together by their files after the walk: sorted outside of memory, because
// a tree of backups has many millions of them.

/// The kinds of name: of a file or a symbolic link, the first that the walk met or a further one.
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
        Self { sorter: Sorter::new(by_words), count: 0 }
    }

    /// Adds a name of the file `id`.
    pub fn add(&mut self, id: Identity, kind: LinkedKind, path: &RelPath) -> io::Result<()> {
        let (kind, shard) = match kind {
            LinkedKind::First(shard) => ('f', shard),
            LinkedKind::FirstSymlink => ('s', 0),
            LinkedKind::Further => ('n', 0),
            LinkedKind::FurtherSymlink => ('m', 0),
        };
        let head = format!("{:016x}{:016x}{:016x}{kind}{shard}", id.dev, id.ino, self.count);
        self.count += 1;
        self.sorter.add(head, path.as_bytes())
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
    let PathRecord { words, path } = PathRecord::of(record);
    let (id, rest) = words.split_at_checked(IDENTITY)?;
    let (&kind, shard) = rest.get(ORDER..)?.split_first()?;
    let shard = std::str::from_utf8(shard).ok()?.parse().ok()?;
    Some((id, kind, shard, RelPath::parse(path).ok()?))
}

#[cfg(test)]
mod end_list_tests {
    use super::*;

    #[test]
    fn entries_come_back_and_forged_ones_do_not() {
        let rel = |path: &[u8]| RelPath::parse(path).unwrap();
        let mtime = Time { secs: -5, nanos: 7 };
        let label = DirLabel { mode: 0o7755, uid: 1, gid: 2, mtime };
        assert_eq!(DirLabel::of(&label.stat()), label);
        let ways = Ways::default().into_source(&label.stat()).into_output(&label.stat());
        for entry in [
            EndEntry::Dir { path: rel(b"a b/c"), label, fresh: false, ways },
            EndEntry::Dir { path: RelPath::root(), label, fresh: true, ways },
            EndEntry::Symlink(rel(b"a\n\xff"), ways),
            EndEntry::FurtherSymlink(rel(b"a/b"), rel(b"c d")),
        ] {
            let record = entry.to_record().unwrap();
            assert_eq!(EndEntry::parse(&record), Some(entry));
            assert_eq!(EndEntry::parse(&record[1..]), None);
        }
        let with = |label| EndEntry::Dir { path: rel(b"a"), label, fresh: false, ways };
        for forged in [
            with(DirLabel { mode: 0o10_000, ..label }),
            with(DirLabel { mtime: Time { nanos: 1_000_000_000, ..mtime }, ..label }),
            EndEntry::Symlink(RelPath::root(), ways),
            EndEntry::FurtherSymlink(rel(b"a"), RelPath::root()),
        ] {
            assert_eq!(EndEntry::parse(&forged.to_record().unwrap()), None);
        }
        // "../x", in hexadecimal.
        assert_eq!(EndEntry::parse(br#"{"FurtherSymlink":["2e2e2f78","61"]}"#), None);
        let name = FurtherName { shard: 7, first: rel(b"a b"), path: rel(b"c\nd") };
        let mut sorter = Sorter::new(FurtherName::order);
        name.add_to(&mut sorter).unwrap();
        let mut names = sorter.finish().unwrap().reader();
        assert_eq!(names.next_record().unwrap().and_then(FurtherName::parse), Some(name));
        assert_eq!(FurtherName::parse(b"7\na//../../b"), None);
    }
}

#[cfg(test)]
mod linked_names_tests {
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
