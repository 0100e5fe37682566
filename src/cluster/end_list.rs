//! The work that is left to the end of a plan: symbolic links, and directories with their modes and times, the deepest
//! first; and further names of files, in the order of the shards that have their first.

use std::{cmp::Ordering, fmt::Write, io};

use crate::{
    path::RelPath, sys::stat::Identity, sys::stat::Kind, sys::stat::Stat, sys::stat::Time,
    tree::RecordReader, tree::Sorter, tree::Ways, tree::names::compare,
};

/// The list of links and directories.
pub const FINISH: &str = "finish";

/// The list of further names.
pub const LINKS: &str = "links";

/// An entry of the list of links and directories.
#[derive(Clone, Debug)]
pub enum EndEntry {
    /// A directory, whose attributes are set; it is `fresh` if the plan made it.
    Dir { path: RelPath, stat: Stat, fresh: bool, ways: Ways },
    /// A symbolic link, and the ways to the directory that it is in.
    Symlink(RelPath, Ways),
    /// A further name of a symbolic link, and the first.
    FurtherSymlink(RelPath, RelPath),
}

/// The separator between two paths of a record: no path has an empty component.
const BETWEEN: &[u8] = b"//";

impl EndEntry {
    /// Appends the entry without what ends a record.
    pub fn write(&self, out: &mut Vec<u8>) {
        match self {
            EndEntry::Dir { path, stat, fresh, ways } => {
                let Stat { mode, uid, gid, mtime, .. } = stat;
                let Time { secs, nanos } = mtime;
                let kind = if *fresh { 'D' } else { 'd' };
                let text = format!("{kind} {mode:o} {uid} {gid} {secs}.{nanos:09} ");
                out.extend_from_slice(text.as_bytes());
                ways.write(out);
                out.push(b' ');
                out.extend_from_slice(path.as_bytes());
            }
            EndEntry::Symlink(path, ways) => {
                out.extend_from_slice(b"l ");
                ways.write(out);
                out.push(b' ');
                out.extend_from_slice(path.as_bytes());
            }
            EndEntry::FurtherSymlink(path, first) => {
                out.extend_from_slice(b"h ");
                out.extend_from_slice(&[first.as_bytes(), BETWEEN, path.as_bytes()].concat());
            }
        }
    }

    /// Takes a record apart; `None` if it is none, or leads out of the tree.
    pub fn parse(record: &[u8]) -> Option<Self> {
        let (kind, rest) = record.split_at_checked(2)?;
        match kind {
            b"D " | b"d " => {
                let mut parts = rest.splitn(6, |&byte| byte == b' ');
                let mut text = || std::str::from_utf8(parts.next()?).ok();
                let mode = u32::from_str_radix(text()?, 8).ok().filter(|mode| *mode <= 0o7777)?;
                let (uid, gid) = (text()?.parse().ok()?, text()?.parse().ok()?);
                let (secs, nanos) = text()?.split_once('.')?;
                let mtime = Time { secs: secs.parse().ok()?, nanos: nanos.parse().ok()? };
                let stat = Stat {
                    kind: Kind::Dir,
                    size: 0,
                    allocated: 0,
                    mtime,
                    ctime: mtime,
                    id: Identity::default(),
                    links: 1,
                    mode,
                    uid,
                    gid,
                };
                let ways = Ways::parse(parts.next()?)?;
                let path = path_or_root(parts.next()?)?;
                Some(EndEntry::Dir { path, stat, fresh: kind == b"D ", ways })
            }
            b"l " => {
                let at = memchr::memchr(b' ', rest)?;
                let (ways, path) = (Ways::parse(&rest[..at])?, &rest[at + 1..]);
                Some(EndEntry::Symlink(RelPath::parse(path).ok()?, ways))
            }
            b"h " => {
                let (first, path) = split(rest)?;
                Some(EndEntry::FurtherSymlink(path, first))
            }
            _ => None,
        }
    }
}

fn path_or_root(bytes: &[u8]) -> Option<RelPath> {
    if bytes.is_empty() { Some(RelPath::root()) } else { RelPath::parse(bytes).ok() }
}

/// A further name of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FurtherName {
    /// The shard that has the first name.
    pub shard: u32,
    pub first: RelPath,
    pub path: RelPath,
}

impl FurtherName {
    pub fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(format!("{:010} ", self.shard).as_bytes());
        out.extend_from_slice(&[self.first.as_bytes(), BETWEEN, self.path.as_bytes()].concat());
    }

    /// Takes a record apart; `None` if it is none, or leads out of the tree.
    pub fn parse(record: &[u8]) -> Option<Self> {
        let at = memchr::memchr(b' ', record)?;
        let shard = std::str::from_utf8(&record[..at]).ok()?.parse().ok()?;
        let (first, path) = split(&record[at + 1..])?;
        Some(Self { shard, first, path })
    }
}

/// The order of records of further names: that of the shards, and in each that of its list.
pub fn order(one: &[u8], other: &[u8]) -> Ordering {
    compare(one, other)
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
mod end_list_tests {
    use super::*;

    #[test]
    fn entries_come_back_and_forged_ones_do_not() {
        let ways = "0123456789abcdef:fedcba9876543210";
        for text in [
            format!("d 755 1 2 -5.000000007 {ways} a b/c"),
            format!("D 7777 0 0 5.000000000 {ways} "),
            format!("l {ways} a b"),
            "h a/b//c d".to_owned(),
        ] {
            let entry = EndEntry::parse(text.as_bytes()).unwrap_or_else(|| panic!("{text}"));
            let mut again = Vec::new();
            entry.write(&mut again);
            assert_eq!(String::from_utf8(again).unwrap(), text);
        }
        for text in [
            "",
            "l 1:2 ../x",
            "l 1:2 /x",
            "l 1:2 ",
            "l a",
            "l ",
            "h a//../b",
            "h a",
            "x a",
            "d 755 1 2 5.0 a",
            "d 755 1 2 5 1:2 a",
            "d 77777 1 2 5.0 1:2 a",
            "d 755 1 2 5.0 1:2 a/../b",
        ] {
            assert!(EndEntry::parse(text.as_bytes()).is_none(), "{text}");
        }
        let name = FurtherName::parse(b"0000000007 a/b//c d").unwrap();
        let mut again = Vec::new();
        name.write(&mut again);
        assert_eq!((name.shard, &*again), (7, b"0000000007 a/b//c d".as_slice()));
        assert_eq!(FurtherName::parse(b"7 a//../../b"), None);
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
