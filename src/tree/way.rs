//! The directories on the way from a root down to one, as a number: whether they are those of an earlier walk.
//!
//! A plan notes what directories are to be given at the output, and shards fill them later. Meanwhile whoever owns the
//! directory that one is in can put another in its place, on either side: the output's would get the content of the
//! one with the label of the other, or be read while it is filled. So a plan notes the way to each file, and shards and
//! the end of the plan hold theirs against it, by the directories that they have open.

use crate::hash::Algorithm;
use crate::sys::stat::Stat;

/// A way down, on one side.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Way(u64);

/// The ways from both roots down to a directory of the source and to its counterpart at the output.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ways {
    source: Way,
    output: Way,
}

const OTHER_SOURCE: &str = "at the source its directory, or one above it, is not the one that was planned, or has \
                            another owner or other permissions since: make a new plan";

const OTHER_OUTPUT: &str = "at the output its directory, or one above it, is not the one that the plan had there: make a \
                            new plan";

impl Way {
    /// Down this way, and into a directory that is known by these numbers.
    fn into_dir(self, dir: [u64; 4]) -> Self {
        let mut hasher = Algorithm::Blake3.start();
        [self.0].iter().chain(&dir).for_each(|number| hasher.update(&number.to_le_bytes()));
        let digest = hasher.finish();
        let start = digest.as_ref().and_then(|digest| digest.bytes().first_chunk());
        Self(start.map_or(0, |start| u64::from_le_bytes(*start)))
    }
}

impl Ways {
    /// Into the directory of the source that is `dir`. It is known by its owner and permissions too, because it is
    /// copied with them. The numbers of file systems differ from machine to machine, so they are left out.
    pub fn into_source(self, dir: &Stat) -> Self {
        let known_by = [dir.id.ino, dir.mode.into(), dir.uid.into(), dir.gid.into()];
        Self { source: self.source.into_dir(known_by), ..self }
    }

    /// Into the directory of the output that is `dir`. Its label is set when all is in it, so that is left out.
    pub fn into_output(self, dir: &Stat) -> Self {
        Self { output: self.output.into_dir([dir.id.ino, 0, 0, 0]), ..self }
    }

    /// Appends both in hexadecimal digits, with a colon between them.
    pub fn write(&self, out: &mut Vec<u8>) {
        let write = |number: u64, out: &mut Vec<u8>| {
            let digit = |shift: u32| b"0123456789abcdef"[(number >> shift & 15) as usize];
            out.extend((0..64).step_by(4).rev().map(digit));
        };
        write(self.source.0, out);
        out.push(b':');
        write(self.output.0, out);
    }

    /// Reads what [`write`](Self::write) wrote; `None` if it is anything else.
    pub fn parse(text: &[u8]) -> Option<Self> {
        let (source, output) = std::str::from_utf8(text).ok()?.split_once(':')?;
        let way = |digits: &str| {
            let is_plain = digits.bytes().all(|digit| digit.is_ascii_hexdigit());
            u64::from_str_radix(digits, 16).ok().filter(|_| is_plain).map(Way)
        };
        Some(Self { source: way(source)?, output: way(output)? })
    }

    /// What is wrong with these ways, where a plan had `planned`; `None` if nothing is.
    pub fn difference(&self, planned: &Self) -> Option<&'static str> {
        match self.source == planned.source {
            true => self.difference_at_output(planned),
            false => Some(OTHER_SOURCE),
        }
    }

    /// The same of the output alone.
    pub fn difference_at_output(&self, planned: &Self) -> Option<&'static str> {
        (self.output != planned.output).then_some(OTHER_OUTPUT)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_directory_on_the_way_tells() {
        let root = Way::default().into_dir([2, 0o755, 0, 0]);
        let ways = [
            root,
            root.into_dir([3, 0o700, 1, 1]),
            root.into_dir([3, 0o755, 1, 1]),
            root.into_dir([3, 0o700, 2, 1]),
            root.into_dir([3, 0o700, 1, 1]).into_dir([4, 0o755, 0, 0]),
            root.into_dir([3, 0o755, 1, 1]).into_dir([4, 0o755, 0, 0]),
        ];
        for (at, way) in ways.iter().enumerate() {
            assert!(!ways[..at].contains(way) && *way != Way::default());
        }
        let ways = Ways { source: ways[1], output: Way(0) };
        let mut text = Vec::new();
        ways.write(&mut text);
        assert_eq!(Ways::parse(&text), Some(ways));
        for text in ["", ":", "1", "1:", "1:g", "+1:2", "1:2:3", "11111111111111111:0"] {
            assert_eq!(Ways::parse(text.as_bytes()), None, "{text}");
        }
    }
}
