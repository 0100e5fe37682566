//! The answer of `getattrlistbulk`(2): many entries of a directory, each with its length, the attributes that were
//! told, and these in the order of their bits.

use std::{ffi::OsStr, io, os::unix::ffi::OsStrExt};

use crate::sys::{stat::Kind, types::ListedEntry};

// sys/attr.h.
pub const NAME: u32 = 0x1;
pub const KIND: u32 = 0x8;
pub const NUMBER: u32 = 0x0200_0000;
pub const ERROR: u32 = 0x2000_0000;
pub const TOLD: u32 = 0x8000_0000;

/// What is asked of each entry.
pub const ASKED: u32 = NAME | KIND | NUMBER | ERROR | TOLD;

/// The first `count` entries in `answer`.
///
/// # Errors
/// One of them has no name, or an error of its own: what is not listed would not be copied.
pub fn entries(mut answer: &[u8], count: usize) -> io::Result<Vec<ListedEntry>> {
    let mut entries = Vec::with_capacity(count.min(answer.len() / 32));
    for _ in 0..count {
        let odd = || io::Error::other("the system's answer cannot be taken apart");
        let len = Fields(answer, 0).number().ok_or_else(odd)? as usize;
        let (entry, rest) = answer.split_at_checked(len).ok_or_else(odd)?;
        entries.push(parse(entry).ok_or_else(odd)??);
        answer = rest;
    }
    Ok(entries)
}

/// The fields of an entry, and how far they were read.
struct Fields<'a>(&'a [u8], usize);

impl Fields<'_> {
    fn number(&mut self) -> Option<u32> {
        let bytes = self.0.get(self.1..self.1.checked_add(4)?)?;
        self.1 += 4;
        Some(u32::from_ne_bytes(bytes.try_into().ok()?))
    }
}

fn parse(entry: &[u8]) -> Option<io::Result<ListedEntry>> {
    let mut fields = Fields(entry, 4);
    let told = fields.number()?;
    // The other four words of what was told are of attributes that were not asked for.
    fields.1 += 16;
    if told & ERROR != 0 {
        let error = fields.number()?;
        if error != 0 {
            return Some(Err(io::Error::from_raw_os_error(error.try_into().ok()?)));
        }
    }
    if told & NAME == 0 {
        return None;
    }
    // Where the name is, from here on, and its length with the 0 at its end.
    let at = fields.1.checked_add_signed(fields.number()? as i32 as isize)?;
    let name = entry.get(at..at.checked_add(fields.number()? as usize)?)?.strip_suffix(&[0])?;
    // sys/vnode.h.
    let kind = match if told & KIND != 0 { fields.number()? } else { 0 } {
        1 => Some(Kind::File),
        2 => Some(Kind::Dir),
        3 | 4 => Some(Kind::Device),
        5 => Some(Kind::Symlink),
        6 => Some(Kind::Socket),
        7 => Some(Kind::Fifo),
        _ => None,
    };
    let long = || {
        let bytes = entry.get(fields.1..fields.1.checked_add(8)?)?;
        Some(u64::from_ne_bytes(bytes.try_into().ok()?))
    };
    let ino = if told & NUMBER != 0 { long()? } else { 0 };
    let is_name = !name.is_empty() && !name.contains(&b'/') && !name.contains(&0);
    is_name.then(|| Ok(ListedEntry { name: OsStr::from_bytes(name).into(), kind, ino }))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An entry as the kernel packs it.
    fn packed(told: u32, error: Option<u32>, name: &[u8], kind: u32) -> Vec<u8> {
        let mut entry = vec![0; 24];
        entry[4..8].copy_from_slice(&told.to_ne_bytes());
        entry.extend(error.iter().flat_map(|error| error.to_ne_bytes()));
        let from = entry.len();
        let rest = if told & NUMBER != 0 { 12 } else { 4 };
        entry.extend((8 + rest as i32).to_ne_bytes());
        entry.extend((name.len() as u32 + 1).to_ne_bytes());
        entry.extend(kind.to_ne_bytes());
        if told & NUMBER != 0 {
            entry.extend(77u64.to_ne_bytes());
        }
        assert_eq!(entry.len(), from + 8 + rest);
        entry.extend(name);
        // Names end with a 0 and are filled up.
        entry.resize(entry.len() / 4 * 4 + 4, 0);
        let len = entry.len() as u32;
        entry[..4].copy_from_slice(&len.to_ne_bytes());
        entry
    }

    #[test]
    fn entries_are_taken_apart() {
        let all = NAME | KIND | NUMBER | TOLD;
        let answer = [
            packed(all, None, b"a file", 1),
            packed(all | ERROR, Some(0), b"dir", 2),
            packed(NAME | KIND | TOLD, None, b"link", 5),
        ];
        let listed = entries(&answer.concat(), 3).unwrap();
        let told: Vec<_> =
            listed.iter().map(|it| (it.name.to_str().unwrap(), it.kind, it.ino)).collect();
        let link = ("link", Some(Kind::Symlink), 0);
        assert_eq!(told, [("a file", Some(Kind::File), 77), ("dir", Some(Kind::Dir), 77), link]);
    }

    #[test]
    fn what_cannot_be_listed_is_an_error() {
        let all = NAME | KIND | NUMBER | TOLD;
        let one = packed(all, None, b"name", 1);
        assert!(entries(&one, 2).is_err(), "fewer than were told");
        assert!(entries(&one[..40], 1).is_err(), "cut short");
        for odd in [
            packed(all & !NAME, None, b"", 1),
            packed(all, None, b"a/b", 1),
            packed(all, None, b"", 1),
            packed(all | ERROR, Some(13), b"name", 1),
        ] {
            assert!(entries(&odd, 1).is_err(), "{odd:?}");
        }
        assert_eq!(entries(&[], 0).unwrap().len(), 0);
    }
}
