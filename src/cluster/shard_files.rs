//! The results for the files of a shard: its list beside the lines that an attempt left.

use std::{collections::BTreeMap, fs::File, io, io::Read, path::Path};

use crate::{
    cluster::Departed, cluster::PlanDir, cluster::done::DoneFile, cluster::done::DoneWriter,
    cluster::done::Presence, cluster::done::SourceSearch, error::Deed, error::Result, hash::Sha256,
    manifest::Entries, manifest::Entry, manifest::Parsed, path::RelPath, sys::Uninterrupted,
    tree::JoinReader, tree::PathRecord, tree::RecordReader, tree::SortedRecords, tree::Sorter,
    tree::by_path, tree::names::planned::planned_size,
};

/// The files of a shard in the order of its list, each with what became of it.
pub struct ShardFiles<'a> {
    list: RecordReader,
    /// Those of the manifest.
    lines: JoinReader,
    /// The size that each file has now that is not what it was when it was planned.
    changed: &'a BTreeMap<Vec<u8>, u64>,
    search: SourceSearch,
    pub departed: Departed,
    /// A file of the source is not at the output.
    pub is_missing: bool,
}

impl<'a> ShardFiles<'a> {
    /// Reads the manifest that an attempt at a shard left, whose list has these `records`.
    pub fn new(
        plan: &PlanDir,
        records: &SortedRecords,
        manifest: &Path,
        changed: &'a BTreeMap<Vec<u8>, u64>,
    ) -> Result<Self> {
        let lines = File::open(manifest).and_then(sorted_lines);
        let lines = lines.deed("read the manifest of the shard", manifest)?;
        let (departed, search) = (Departed::default(), SourceSearch::new(plan)?);
        Ok(Self { list: records.reader(), lines, changed, search, departed, is_missing: false })
    }

    /// Writes the files that are at the output or have left the source, which it tells.
    pub fn write(&mut self, out: &mut DoneWriter<'_>, tell: impl Fn(&RelPath)) -> io::Result<()> {
        while let Some(record) = self.list.next_record()? {
            let (planned, path) = planned_size(record).ok_or(io::ErrorKind::InvalidData)?;
            if let Some(digest) = digest_of(&mut self.lines, path)? {
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

/// The lines of a manifest in the order of a walk.
fn sorted_lines(manifest: impl Read) -> io::Result<JoinReader> {
    let (mut entries, mut sorter) =
        (Entries::of_all(Uninterrupted(manifest)), Sorter::new(by_path));
    while let Some(Entry { number, ended, parsed, .. }) = entries.next_entry()? {
        // A last line without an end is torn.
        if let Parsed::Record(found) = parsed
            && let (true, Ok(path)) = (ended, RelPath::check(found.name))
            && let Some(digest) = found.digest.as_sha256()
        {
            sorter.add(format!("{number:020} {digest}"), path)?;
        }
    }
    JoinReader::of(&sorter.finish()?)
}

/// The digest of the file at `path`, which comes behind those that were asked for before: that of its last line.
fn digest_of(lines: &mut JoinReader, path: &[u8]) -> io::Result<Option<Sha256>> {
    let line = lines.last_of(path)?;
    let digest = |line: Vec<u8>| {
        Sha256::from_hex(PathRecord::of(&line).text().split(' ').nth(1)?.as_bytes())
    };
    Ok(line.and_then(digest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_line_is_found_by_its_path() {
        let hex = |byte: u8| String::from_utf8(Sha256([byte; 32]).to_hex().to_vec()).unwrap();
        let mut text = Vec::new();
        for (byte, name) in [(8, "b"), (2, "a/z"), (3, "a-b"), (4, "a/b"), (7, "./-"), (1, "b")] {
            text.extend(format!("{}  {name}\n", hex(byte)).into_bytes());
        }
        text.extend(format!("# a comment\n\\{}  a/new\\nline\nshort\n", hex(5)).into_bytes());
        text.extend(format!("{}  torn", hex(6)).into_bytes());
        let mut lines = sorted_lines(&*text).unwrap();
        let asked: [&[u8]; 8] =
            [b"-", b"a/a", b"a/b", b"a/new\nline", b"a/z", b"a-b", b"b", b"torn"];
        let found =
            asked.map(|path| digest_of(&mut lines, path).unwrap().map(|digest| digest.0[0]));
        assert_eq!(found, [Some(7), None, Some(4), Some(5), Some(2), Some(3), Some(1), None]);
    }
}
