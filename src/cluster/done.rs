//! The record that a shard is done: the lines of its files in the order of its list, as `sha256sum -c` accepts them,
//! with what differs from the plan in comments, and their sum at the end.

use std::{ffi::OsStr, fs::File, io, io::Read, io::Seek, io::SeekFrom, ops::AddAssign, path::Path};

use crate::{
    cluster::PlanDir, cluster::plan_dir::DONE, cluster::plan_dir::PlanFile, error::Deed,
    error::Error, error::Result, error::is_absent, hash::Digest, hash::Sha256, manifest::Blocks,
    manifest::Parsed, manifest::Parser, manifest::SummedFile, manifest::SummedReader,
    manifest::SummedWriter, manifest::Trailer, manifest::lists, manifest::read::escape,
    path::RelPath, sys, sys::Dir, sys::DirListing, sys::Uninterrupted,
    tree::dirs::open_source_below,
};

/// Before the line of a file that is of another size than planned.
const SIZE: &[u8] = b"# size ";

/// The beginning of a record of a file that has left the source.
const GONE: &[u8] = b"# gone ";

/// Number of files that are at the output, and of those that have left, where the number of records does not say it.
const FILES: &[u8] = b"# files ";

/// Length of the end of a record that is looked at for its totals; bytes.
const TAIL: u64 = 256;

/// The totals at the end of a record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DoneTotals {
    /// Files that are at the output, …
    pub files: u64,
    /// … and those that have left the source.
    pub gone: u64,
    pub bytes: u64,
}

/// The result for a file of a shard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DoneFile {
    /// It is at the output; with its size, if that is not as planned.
    Listed(RelPath, Sha256, Option<u64>),
    /// It has left the source.
    Gone(RelPath),
}

impl DoneFile {
    pub fn path(&self) -> &RelPath {
        match self {
            DoneFile::Listed(path, ..) | DoneFile::Gone(path) => path,
        }
    }
}

/// Writes such a record.
pub struct DoneWriter<'a> {
    writer: SummedWriter<&'a mut File>,
    text: Vec<u8>,
    totals: DoneTotals,
    /// A comment says more of a file.
    has_comments: bool,
}

impl<'a> DoneWriter<'a> {
    pub fn new(file: &'a mut File, header: &str) -> std::io::Result<Self> {
        let writer = SummedWriter::new(file, LINE_END, header)?;
        Ok(Self { writer, text: Vec::new(), totals: DoneTotals::default(), has_comments: false })
    }

    /// Adds a file, which is of so many bytes.
    pub fn add(&mut self, file: &DoneFile, size: u64) -> std::io::Result<()> {
        match file {
            DoneFile::Listed(path, digest, changed) => {
                self.add_listed(path.as_bytes(), *digest, *changed, size)
            }
            DoneFile::Gone(path) => {
                self.totals.gone += 1;
                self.text.clear();
                self.text.extend_from_slice(GONE);
                escape::escape(path.as_bytes(), &mut self.text);
                self.writer.add(&self.text)
            }
        }
    }

    /// Adds the file at `path`, which is at the output, and of which a comment says that its size has `changed`.
    pub fn add_listed(
        &mut self,
        path: &[u8],
        digest: Sha256,
        changed: Option<u64>,
        size: u64,
    ) -> std::io::Result<()> {
        self.totals.files += 1;
        self.totals.bytes = self.totals.bytes.saturating_add(size);
        if let Some(size) = changed {
            self.has_comments = true;
            self.writer.add(&[SIZE, size.to_string().as_bytes()].concat())?;
        }
        self.text.clear();
        lists::write_path(&mut self.text, &Digest::from(digest), path);
        self.text.pop();
        self.writer.add(&self.text)
    }

    pub fn finish(mut self) -> std::io::Result<Trailer> {
        let DoneTotals { files, gone, bytes } = self.totals;
        if self.has_comments || gone > 0 {
            self.writer.add(&[FILES, format!("{files} gone {gone}").as_bytes()].concat())?;
        }
        self.writer.finish(bytes)
    }
}

/// The byte that ends a line.
pub const LINE_END: u8 = b'\n';

/// Reads such a record.
pub struct DoneReader<B = SummedFile> {
    reader: SummedReader<B>,
    parser: Parser,
}

/// The next item of a record.
pub enum NextDone<'a> {
    /// The line that a manifest has for a file that is as planned, without its end.
    Line(&'a [u8]),
    /// Another file, or one of which there is more to say.
    Other(DoneFile),
}

impl<B: Blocks> DoneReader<B> {
    pub fn of(reader: SummedReader<B>) -> Self {
        Self { reader, parser: Parser::new() }
    }

    /// The next file; `None` after the last, if the record is whole.
    pub fn next_file(&mut self) -> Result<Option<DoneFile>> {
        if self.reader.advance()? { self.file() } else { Ok(None) }
    }

    /// The next file, which should be that at `path`.
    pub fn next_for(&mut self, path: &[u8]) -> Result<Option<NextDone<'_>>> {
        if !self.reader.advance()? {
            return Ok(None);
        }
        if is_line_of(self.reader.record(), path) {
            return Ok(Some(NextDone::Line(self.reader.record())));
        }
        Ok(self.file()?.map(NextDone::Other))
    }

    /// The file of this record, or of a later one if this is a comment.
    fn file(&mut self) -> Result<Option<DoneFile>> {
        let mut changed = None;
        loop {
            let torn = |reader: &SummedReader<B>| Err(reader.torn("a line of it is malformed"));
            let record = self.reader.record();
            if record.starts_with(FILES) {
                if !self.reader.advance()? {
                    return Ok(None);
                }
                continue;
            }
            if let Some(size) = record.strip_prefix(SIZE) {
                changed = std::str::from_utf8(size).ok().and_then(|size| size.parse().ok());
                if changed.is_none() {
                    return torn(&self.reader);
                }
                if !self.reader.advance()? {
                    return Ok(None);
                }
                continue;
            }
            let found = match record.strip_prefix(GONE) {
                Some(escaped) => {
                    let mut path = Vec::new();
                    escape::unescape(escaped, &mut path).ok();
                    RelPath::parse(&path).ok().map(DoneFile::Gone)
                }
                None => match self.parser.parse(record) {
                    Parsed::Record(record) => {
                        let path = RelPath::parse(record.name).ok();
                        path.zip(record.digest.as_sha256())
                            .map(|(path, digest)| DoneFile::Listed(path, digest, changed))
                    }
                    _ => None,
                },
            };
            return found.map_or_else(|| torn(&self.reader), |found| Ok(Some(found)));
        }
    }

    /// The last lines, once they were reached.
    pub fn trailer(&self) -> Option<Trailer> {
        self.reader.trailer()
    }
}

/// True if a record is, to the byte, a manifest's line for the file at `path`.
fn is_line_of(record: &[u8], path: &[u8]) -> bool {
    let Some((digest, rest)) = record.split_at_checked(Sha256::HEX_LEN) else { return false };
    let is_digit = |byte: &u8| byte.is_ascii_digit() | (b'a'..=b'f').contains(byte);
    rest.strip_prefix(b"  ") == Some(path)
        // Without leaving early it becomes vector instructions.
        && digest.iter().fold(true, |all, byte| all & is_digit(byte))
        && *path != *b"-"
        && !escape::is_needed(path)
}

/// The ending of a record that another attempt contradicts, or may.
pub const DOUBTFUL: &str = "doubtful";

/// A record that does not hold gets this ending, so that the shard is not done any more.
pub fn put_aside(plan: &PlanDir, shard: u32, ending: &str) -> Result<()> {
    let done = plan.done(shard);
    let aside = Path::new(&done.name).with_extension(ending);
    let moved = plan.below(DONE).and_then(|dir| dir.rename(&done.name, &dir, aside.as_os_str()));
    moved.deed_at("put aside", || done.path())
}

/// The totals at the end of a record. Whether that is right is the end of the plan's to say.
pub fn totals(opened: io::Result<File>) -> Option<DoneTotals> {
    let mut file = opened.ok()?;
    let len = file.metadata().ok()?.len();
    file.seek(SeekFrom::Start(len.saturating_sub(TAIL))).ok()?;
    let mut tail = Vec::new();
    Uninterrupted(file).take(TAIL).read_to_end(&mut tail).ok()?;
    let text = String::from_utf8_lossy(&tail);
    let mut lines = text.lines().rev();
    let Trailer { records, bytes, .. } = Trailer::parse(lines.next()?.as_bytes())?;
    let files = lines.next().and_then(|line| line.as_bytes().strip_prefix(FILES));
    let counted = files.and_then(|counted| std::str::from_utf8(counted).ok()?.split_once(" gone "));
    let (files, gone) = match counted {
        Some((files, gone)) => (files.parse().ok()?, gone.parse().ok()?),
        None => (records, 0),
    };
    Some(DoneTotals { files, gone, bytes })
}

/// Where a record differs from another of the same shard, which is called `other`, in the first file that does.
pub fn difference(plan: &PlanDir, shard: u32, other: &OsStr) -> Result<Option<Error>> {
    let record = plan.done(shard);
    let mut first = DoneReader::of(record.read()?);
    let mut second = DoneReader::of(PlanFile { name: other.into(), ..record }.read()?);
    loop {
        match (first.next_file()?, second.next_file()?) {
            (None, None) => return Ok(None),
            (one, other) if one == other => {}
            (one, other) => {
                let path = one.or(other).map(|file| file.path().clone()).unwrap_or_default();
                let path = path.full_path(Path::new(""));
                let finding = "another attempt at the same shard recorded something else of it, so the shard is to be run again";
                return Ok(Some(Error::finding("record", path, finding)));
            }
        }
    }
}

// Files of a plan that are not in the source any more. A file that is gone alone has left. Where its directory is gone
// or empty, too, it may be away only for a while: a file system is not mounted on this machine, for one.

/// Where a file of the source is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Presence {
    There,
    /// It is not in its directory, which has other entries.
    Gone,
    /// Its directory is gone, or there is nothing in it.
    Away,
    /// It cannot be looked at.
    Unknown,
}

/// Number of files that are gone, and of those that are away.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Departed {
    pub gone: u64,
    pub away: u64,
}

impl AddAssign<Presence> for Departed {
    fn add_assign(&mut self, presence: Presence) {
        match presence {
            Presence::Gone => self.gone += 1,
            Presence::Away => self.away += 1,
            Presence::There | Presence::Unknown => {}
        }
    }
}

/// Looks for files in the source of a plan; the directory that was looked into last stays open.
pub struct SourceSearch {
    root: Dir,
    follow_links: bool,
    /// `None` in place of a directory that is gone or empty.
    last: Option<(RelPath, Option<Dir>)>,
}

impl SourceSearch {
    /// Opens the source.
    pub fn new(plan: &PlanDir) -> Result<Self> {
        let (root, _) = plan.plan.open_source()?;
        Ok(Self { root, follow_links: plan.plan.options.selection.follow_links, last: None })
    }

    /// Looks for a file.
    pub fn look(&mut self, path: &RelPath) -> Presence {
        self.find(path).unwrap_or(Presence::Unknown)
    }

    fn find(&mut self, path: &RelPath) -> io::Result<Presence> {
        let (above, name) = path.split().ok_or(io::ErrorKind::InvalidInput)?;
        let name = sys::name_from_bytes(name)?;
        if self.last.as_ref().is_none_or(|(last, _)| *last != above) {
            let opened = match open_source_below(&self.root, &above, self.follow_links) {
                Err(error) if is_absent(&error) => None,
                opened => Some(opened?),
            };
            let opened = match opened {
                Some(dir) if DirListing::is_empty(&dir)? => None,
                opened => opened,
            };
            self.last = Some((above, opened));
        }
        let Some((_, Some(dir))) = &self.last else { return Ok(Presence::Away) };
        match dir.stat(name, false) {
            Err(error) if is_absent(&error) => Ok(Presence::Gone),
            found => found.map(|_| Presence::There),
        }
    }
}

/// Looks once more for the files that the record of a shard says have left. `None` if one of them is back, or cannot be
/// looked at.
pub fn look_again(plan: &PlanDir, shard: u32) -> Result<Option<Departed>> {
    let (mut search, mut departed) = (SourceSearch::new(plan)?, Departed::default());
    let mut done = DoneReader::of(plan.done(shard).read()?);
    while let Some(file) = done.next_file()? {
        let DoneFile::Gone(path) = file else { continue };
        match search.look(&path) {
            Presence::There | Presence::Unknown => return Ok(None),
            presence => departed += presence,
        }
    }
    Ok(Some(departed))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_comes_back() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("0000.sha256sum");
        let rel = |name: &[u8]| RelPath::parse(name).unwrap();
        let files = [
            DoneFile::Listed(rel(b"-"), Sha256([1; 32]), None),
            DoneFile::Listed(rel(b"a\nb\\"), Sha256([2; 32]), Some(7)),
            DoneFile::Gone(rel(b"c\n\\d")),
            DoneFile::Listed(rel(b"# gone x"), Sha256([3; 32]), None),
            DoneFile::Listed(rel(b"\xff"), Sha256([4; 32]), None),
        ];
        let mut file = File::create(&path).unwrap();
        let mut writer = DoneWriter::new(&mut file, "# head").unwrap();
        files.iter().for_each(|file| writer.add(file, 10).unwrap());
        assert_eq!(writer.finish().unwrap().bytes, 40);
        let open = || SummedReader::of_list(File::open(&path), &path, LINE_END, "# head");
        let mut reader = DoneReader::of(open().unwrap());
        for file in files {
            assert_eq!(reader.next_file().unwrap(), Some(file));
        }
        assert_eq!(reader.next_file().unwrap(), None);
        let mut reader = DoneReader::of(open().unwrap());
        let mut is_line = |name: &[u8]| matches!(reader.next_for(name).unwrap(), Some(NextDone::Line(line)) if line.ends_with(name));
        let lines = [&b"-"[..], b"a\nb\\", b"c\n\\d", b"# gone x", b"\xff"].map(&mut is_line);
        assert_eq!(lines, [false, false, false, true, true]);
        assert_eq!(totals(File::open(&path)), Some(DoneTotals { files: 4, gone: 1, bytes: 40 }));
    }
}
