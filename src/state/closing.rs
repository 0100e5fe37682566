//! What closes the rows of a private record: sums, and the names of the manifest that it was finished with and of a
//! later one of this user's runs that left it no rows.

use std::{ffi::OsStr, io, io::Read, io::Seek, io::SeekFrom};

use crate::{
    hash::Algorithm, hash::Hasher, hash::Sha256, state::Mark, state::PrivateDir, sys, sys::Dir,
    sys::FileRange, sys::Uninterrupted, sys::stat::Kind,
};

/// The first line of a record, the mark left out.
pub const HEAD: &str = "dircopy record 1";

/// The name of the finished record; those of runs on their way have a number behind a point.
pub const FINISHED: &str = "record";

/// More bytes than the last two lines of a finished record have: two digests, a name and a number.
const LAST_LINES: u64 = 1024;

/// The manifest that a record was finished with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FinishedManifest {
    pub name: String,
    /// That of all its lines.
    pub digest: Sha256,
}

/// The line with the manifest that a record was finished with.
pub fn name_line(manifest: &FinishedManifest) -> String {
    format!(". {} {}\n", manifest.digest, manifest.name)
}

/// The line for a later run that finished this manifest, and left no rows of the files it lists.
pub fn later_line(manifest: &FinishedManifest) -> String {
    format!(", {} {}\n", manifest.digest, manifest.name)
}

/// Either of them, read again.
fn read_name_line(line: &[u8]) -> Option<FinishedManifest> {
    let named = line.strip_prefix(b". ").or_else(|| line.strip_prefix(b", "))?;
    let (digest, name) = named.split_at_checked(Sha256::HEX_LEN)?;
    let name = str::from_utf8(name.strip_prefix(b" ")?).ok()?.to_owned();
    Some(FinishedManifest { name, digest: Sha256::from_hex(digest)? })
}

/// The line that closes `rows` rows and everything before them, of which `hasher` has the digest.
pub fn sum_line(hasher: &Hasher, rows: u64) -> String {
    let digest = hasher.clone().finish().map(|digest| digest.to_string()).unwrap_or_default();
    format!("= {rows} {digest}\n")
}

/// The part of a record that is closed by a good sum.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Closed {
    /// Length of that part of the file, in bytes.
    pub len: u64,
    /// Number of its rows.
    pub rows: u64,
    /// True if it is of the output with the mark that was asked for.
    pub fits: bool,
    /// The manifest it was finished with, if it was.
    pub manifest: Option<FinishedManifest>,
    /// The manifest of a later run, of which there are no rows.
    pub later: Option<FinishedManifest>,
}

/// All rows of a finished record, without the name of the manifest behind them.
#[derive(Clone, Debug)]
pub struct Body {
    pub len: u64,
    /// Number of rows.
    pub rows: u64,
    pub hasher: Hasher,
}

impl Body {
    /// A run found all of it to hold, and has written this manifest, which takes the place of
    /// the one before. Whatever comes of it, the rows stay closed by their own sum.
    pub fn name_manifest(
        self,
        private: &PrivateDir,
        manifest: &FinishedManifest,
        durable: bool,
    ) -> io::Result<()> {
        let opened = private.dir().open_private_to_write(FINISHED.as_ref())?;
        let (mut file, _) = opened.ok_or_else(|| why_not_open(private.dir()))?;
        let Self { len, rows, mut hasher } = self;
        let mut end = name_line(manifest);
        hasher.update(end.as_bytes());
        end += &sum_line(&hasher, rows);
        file.seek(SeekFrom::Start(len))?;
        sys::write_all(&file, end.as_bytes())?;
        file.set_len(len + end.len() as u64)?;
        if durable { sys::persist_file(&file) } else { Ok(()) }
    }
}

/// Why the finished record could not be opened to be written to.
fn why_not_open(dir: &Dir) -> io::Error {
    let not_ours =
        || io::Error::other("it is not this user's any more, or another program has it open");
    dir.open_file(FINISHED.as_ref(), false).err().unwrap_or_else(not_ours)
}

impl Closed {
    /// The newest manifest that it names.
    pub fn newest(&self) -> Option<&FinishedManifest> {
        self.later.as_ref().or(self.manifest.as_ref())
    }

    /// True if there is nothing but rows.
    pub fn names_none(&self) -> bool {
        self.newest().is_none()
    }

    /// Takes line `number`, which is no sum; whether it may stand there.
    pub fn take(
        &mut self,
        number: u64,
        text: &[u8],
        mark: &Mark,
        see: impl FnOnce(&[u8]) -> bool,
    ) -> bool {
        match text.first() {
            Some(b's' | b'e' | b't') if number > 1 => {
                self.rows += 1;
                see(text)
            }
            Some(b'.') if number > 1 => {
                self.manifest = read_name_line(text);
                self.manifest.is_some()
            }
            Some(b',') if number > 1 => {
                self.later = read_name_line(text);
                self.later.is_some()
            }
            Some(b'd') if number == 1 => {
                let of = text.strip_prefix(HEAD.as_bytes());
                self.fits = of.and_then(|of| of.strip_prefix(b" ")) == Some(mark.text().as_bytes());
                of.is_some()
            }
            _ => false,
        }
    }
}

impl FinishedManifest {
    /// The last one that the finished record in `private` names at its end, of which no sum is looked at; `None` also
    /// for a record that does not end so.
    pub fn last_named(private: &PrivateDir) -> Option<Self> {
        let file = private.dir().open_file(FINISHED.as_ref(), false).ok()?;
        let stat = Dir::stat_file(&file).ok().filter(|stat| stat.kind == Kind::File)?;
        let mut end = Vec::new();
        FileRange::new(&file, stat.size.saturating_sub(LAST_LINES), stat.size)
            .read_to_end(&mut end)
            .ok()?;
        let mut lines = end.strip_suffix(b"\n")?.rsplit(|byte| *byte == b'\n');
        let is_sum = lines.next()?.starts_with(b"= ");
        lines.next().filter(|_| is_sum).and_then(read_name_line)
    }

    /// True if the finished record in `private` is of the directory that is there now, by its first line.
    pub fn is_of_here(private: &PrivateDir) -> bool {
        let read = || {
            let file = private.dir().open_file(FINISHED.as_ref(), false).ok()?;
            let head = format!("{HEAD} {}\n", private.mark().of_file(&file).text());
            let mut start = Vec::new();
            FileRange::new(&file, 0, head.len() as u64).read_to_end(&mut start).ok()?;
            Some(start == head.as_bytes())
        };
        read().unwrap_or(false)
    }

    /// True if it is in this directory, as it was written.
    pub fn is_in(&self, root: &Dir) -> bool {
        self.lines_in(root).is_some()
    }

    /// Number of lines of it, if it is in this directory as it was written.
    pub fn lines_in(&self, root: &Dir) -> Option<u64> {
        let name = OsStr::new(&self.name);
        root.stat(name, false).ok().filter(|stat| stat.kind == Kind::File)?;
        let (mut file, mut room) =
            (Uninterrupted(root.open_file(name, false).ok()?), vec![0; 1 << 16]);
        let (mut hasher, mut lines) = (Algorithm::Sha256.start(), 0);
        loop {
            let read = file.read(&mut room).ok()?;
            if read == 0 {
                let digest = hasher.finish().and_then(|digest| digest.as_sha256());
                return (digest == Some(self.digest)).then_some(lines);
            }
            hasher.update(&room[..read]);
            lines += memchr::memchr_iter(b'\n', &room[..read]).count() as u64;
        }
    }
}
