//! The results for the files of a shard: its list beside the lines that an attempt left.

use std::{collections::BTreeMap, fs::File, io, io::Read, path::Path};

use crate::{
    cluster::Departed, cluster::PlanDir, cluster::done::DoneFile, cluster::done::DoneWriter,
    cluster::done::Presence, cluster::done::SourceSearch, error::Deed, error::Result, hash::Sha256,
    manifest::Parsed, manifest::Parser, path::RelPath, sys::Uninterrupted, tree::RecordReader,
    tree::SortedRecords, tree::names::compare, tree::names::planned::planned_size,
};

/// No manifest of a shard is longer, because its list is not; bytes.
const MOST_LINES: u64 = 256 << 20;

/// The files of a shard in the order of its list, each with what became of it.
pub struct ShardFiles<'a> {
    list: RecordReader,
    lines: SortedLines,
    /// The size that each file has now that is not what it was when it was planned.
    changed: &'a BTreeMap<Vec<u8>, u64>,
    search: SourceSearch,
    pub departed: Departed,
    /// A file of the source is not at the output.
    pub is_missing: bool,
}

/// The lines of a manifest in the order of a walk. A list is at most as long as a plan sorts in memory, and the lines
/// of its files are about as long.
struct SortedLines {
    /// The manifest, and behind it the names that it has in another spelling.
    text: Vec<u8>,
    lines: Vec<LineSpan>,
    /// Number of those that were taken.
    taken: usize,
}

/// Where in the text a line has its digest, and where its path is.
struct LineSpan {
    digest: u32,
    path: [u32; 2],
}

impl<'a> ShardFiles<'a> {
    /// Reads the manifest that an attempt at a shard left, whose list has these `records`.
    pub fn new(
        plan: &PlanDir,
        records: &SortedRecords,
        manifest: &Path,
        changed: &'a BTreeMap<Vec<u8>, u64>,
    ) -> Result<Self> {
        let lines = SortedLines::read(manifest).deed("read the manifest of the shard", manifest)?;
        let (departed, search) = (Departed::default(), SourceSearch::new(plan)?);
        Ok(Self { list: records.reader(), lines, changed, search, departed, is_missing: false })
    }

    /// Writes the files that are at the output or have left the source, which it tells.
    pub fn write(&mut self, out: &mut DoneWriter<'_>, tell: impl Fn(&RelPath)) -> io::Result<()> {
        while let Some(record) = self.list.next_record()? {
            let (planned, path) = planned_size(record).ok_or(io::ErrorKind::InvalidData)?;
            if let Some(digest) = self.lines.digest_of(path) {
                let now = self.changed.get(path).copied();
                let changed = now.filter(|size| *size != planned);
                out.add_listed(path, digest, changed, now.unwrap_or(planned))?;
                continue;
            }
            let path = RelPath::parse(path).map_err(|_| io::ErrorKind::InvalidData)?;
            let presence = self.search.look(&path);
            self.departed += presence;
            match presence {
                Presence::Gone | Presence::Away => {
                    tell(&path);
                    out.add(&DoneFile::Gone(path), 0)?;
                }
                Presence::There | Presence::Unknown => self.is_missing = true,
            }
        }
        Ok(())
    }
}

impl SortedLines {
    fn read(manifest: &Path) -> io::Result<Self> {
        let mut text = Vec::new();
        Uninterrupted(File::open(manifest)?).take(MOST_LINES + 1).read_to_end(&mut text)?;
        if text.len() as u64 > MOST_LINES {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        Ok(Self::of(text))
    }

    fn of(mut text: Vec<u8>) -> Self {
        let (mut lines, mut spelled, mut parser) = (Vec::new(), Vec::new(), Parser::new());
        let mut start = 0;
        // A last line without an end is torn.
        for end in memchr::memchr_iter(b'\n', &text) {
            let line = &text[start..end];
            let path = if is_plain(line) {
                // A name that would be taken for something else has `./` before it.
                let path = RelPath::check(&line[Sha256::HEX_LEN + 2..]).ok();
                path.map(|path| (start, end - path.len(), end))
            } else {
                let digest = start + usize::from(line.starts_with(b"\\"));
                let path = match parser.parse(line) {
                    Parsed::Record(record) if record.digest.as_sha256().is_some() => {
                        RelPath::check(record.name).ok()
                    }
                    _ => None,
                };
                path.map(|path| {
                    let at = text.len() + spelled.len();
                    spelled.extend_from_slice(path);
                    (digest, at, at + path.len())
                })
            };
            lines.extend(path.map(|(digest, path, end)| LineSpan {
                digest: digest as u32,
                path: [path, end].map(|at| at as u32),
            }));
            start = end + 1;
        }
        text.append(&mut spelled);
        let path = |line: &LineSpan| &text[line.path[0] as usize..line.path[1] as usize];
        // They come in the order in which directories were copied, so most of them are sorted.
        lines.sort_by(|one, other| compare(path(one), path(other)));
        Self { text, lines, taken: 0 }
    }

    /// The digest of the file at `path`, which comes behind those that were asked for before.
    fn digest_of(&mut self, path: &[u8]) -> Option<Sha256> {
        let Self { text, lines, taken } = self;
        while let Some(line) = lines.get(*taken) {
            match compare(&text[line.path[0] as usize..line.path[1] as usize], path) {
                std::cmp::Ordering::Less => *taken += 1,
                std::cmp::Ordering::Greater => return None,
                std::cmp::Ordering::Equal => {
                    let digest = line.digest as usize;
                    return Sha256::from_hex(text.get(digest..digest + Sha256::HEX_LEN)?);
                }
            }
        }
        None
    }
}

/// True if a line of a manifest has a digest and a name that is spelled as it is.
fn is_plain(line: &[u8]) -> bool {
    let digest = line.get(..Sha256::HEX_LEN).and_then(Sha256::from_hex);
    digest.is_some() && line[Sha256::HEX_LEN..].starts_with(b"  ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_line_is_found_by_its_path() {
        let hex = |byte: u8| String::from_utf8(Sha256([byte; 32]).to_hex().to_vec()).unwrap();
        let mut text = Vec::new();
        for (byte, name) in [(1, "b"), (2, "a/z"), (3, "a-b"), (4, "a/b"), (7, "./-")] {
            text.extend(format!("{}  {name}\n", hex(byte)).into_bytes());
        }
        text.extend(format!("# a comment\n\\{}  a/new\\nline\nshort\n", hex(5)).into_bytes());
        text.extend(format!("{}  torn", hex(6)).into_bytes());
        let mut lines = SortedLines::of(text);
        let asked: [&[u8]; 8] =
            [b"-", b"a/a", b"a/b", b"a/new\nline", b"a/z", b"a-b", b"b", b"torn"];
        let found = asked.map(|path| lines.digest_of(path).map(|digest| digest.0[0]));
        assert_eq!(found, [Some(7), None, Some(4), Some(5), Some(2), Some(3), Some(1), None]);
    }
}
