//! What is left to the end of a plan: symbolic links, and directories with their modes and times, the deepest first;
//! and further names of files, in the order of the shards that have their first.

use std::cmp::Ordering;

use crate::path::RelPath;
use crate::sys::stat::{Identity, Kind, Stat, Time};
use crate::tree::names::order::compare;
use crate::tree::way::Ways;

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

/// What parts two paths of a record: no path has an empty component.
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

#[cfg(test)]
mod tests {
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
