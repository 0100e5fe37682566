//! Which file systems the source was on when the last complete run ended: `source` in the private directory.
//!
//! A disk that is not mounted leaves an empty directory, or another one, in its place. A mirror that took it for
//! the source would remove what is on the disk. So a run notes by what the source's file system is known, and
//! those that were mounted below it, and a later mirror run compares.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, Read};

use crate::path::RelPath;
use crate::state::private_dir::PrivateDir;
use crate::sys::{self, Dir, Uninterrupted};

const HEAD: &str = "dircopy source 1";

/// What stands for a file system of which the system tells nothing, or nothing now: it may have had no descriptor left
/// to ask with.
const UNKNOWN: &str = "unknown";

/// So many file systems below the source are noted, and so much is read.
const MOST_MOUNTS: usize = 1000;
const MOST_BYTES: u64 = 1 << 20;

/// By what a source is known again.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SourceMark {
    /// That of its root.
    pub root: String,
    pub mounts: Mounts,
}

/// Where below the root of a source others were mounted, and what they are known by.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mounts(BTreeMap<RelPath, String>);

impl Mounts {
    /// Notes that a file system was mounted at `path`.
    pub fn add(&mut self, path: RelPath, dir: &Dir) {
        if self.0.len() < MOST_MOUNTS {
            self.0.insert(path, volume_id(dir));
        }
    }

    /// Forgets those of other paths.
    pub fn keep_only(&mut self, mut stays: impl FnMut(&RelPath) -> bool) {
        self.0.retain(|path, _| stays(path));
    }

    /// Adds those of an earlier walk that this one did not come to.
    pub fn add_earlier(&mut self, earlier: Self) {
        for (path, id) in earlier.0.into_iter().take(MOST_MOUNTS - self.0.len()) {
            self.0.entry(path).or_insert(id);
        }
    }

    /// Whether a file system was mounted at `path`.
    pub fn has(&self, path: &RelPath) -> bool {
        self.0.contains_key(path)
    }
}

impl SourceMark {
    /// What its note is called in the private directory.
    pub const FILE: &str = "source";

    /// That of a source whose root is `root`, with these mounts below it.
    pub fn of(root: &Dir, mounts: Mounts) -> Self {
        Self { root: volume_id(root), mounts }
    }

    /// Whether it is known what file system the root is on.
    pub fn is_known(&self) -> bool {
        self.root != UNKNOWN
    }

    /// What the last complete run noted; `None` if there is no note that can be read.
    pub fn read(private: &PrivateDir) -> Option<Self> {
        let (file, _) = private.dir().open_ours(Self::FILE.as_ref()).ok()??;
        let head = head(private, &file);
        let mut text = String::new();
        Uninterrupted(file).take(MOST_BYTES).read_to_string(&mut text).ok()?;
        let mut lines = text.strip_suffix('\n')?.split('\n');
        if lines.next()? != head {
            return None;
        }
        let root = lines.next()?.strip_prefix("root ")?.to_owned();
        let mount = |line: &str| {
            let (id, path) = line.strip_prefix("mount ")?.split_once(' ')?;
            Some((RelPath::parse(&from_hex(path)?).ok()?, id.to_owned()))
        };
        Some(Self { root, mounts: Mounts(lines.map(mount).collect::<Option<_>>()?) })
    }

    /// Notes it for later runs, on the device if `durable`.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn write(&self, private: &PrivateDir, durable: bool) -> io::Result<()> {
        let mut text = format!("root {}\n", self.root);
        for (path, id) in &self.mounts.0 {
            // Writing to a string does not fail.
            let _ = write!(text, "mount {id} ");
            path.as_bytes().iter().for_each(|byte| _ = write!(text, "{byte:02x}"));
            text.push('\n');
        }
        private.write(Self::FILE.as_ref(), durable, |file| {
            let head = head(private, file);
            sys::write_all(&*file, format!("{head}\n{text}").as_bytes())
        })
    }
}

/// The first line of the note in `file`.
fn head(private: &PrivateDir, file: &File) -> String {
    format!("{HEAD} {}", private.mark().of_file(file).text())
}

/// By what a file system is known again after a restart: its UUID, or what kind it is where it has none.
fn volume_id(dir: &Dir) -> String {
    let details = sys::volume_details(dir);
    // Some virtual disks have one of noughts alone.
    let uuid = details.uuid.filter(|uuid| uuid.contains(|c| !matches!(c, '0' | '-')));
    let id = match (uuid, details.file_system) {
        (Some(uuid), _) => format!("uuid:{uuid}"),
        (None, Some(kind)) => format!("kind:{kind}"),
        (None, None) => UNKNOWN.into(),
    };
    id.chars().map(|c| if c.is_whitespace() || c.is_control() { '_' } else { c }).collect()
}

fn from_hex(text: &str) -> Option<Vec<u8>> {
    let pair = |pair: &[u8]| u8::from_str_radix(str::from_utf8(pair).ok()?, 16).ok();
    text.as_bytes().chunks(2).map(pair).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::private_dir::scratch;

    #[test]
    fn it_is_read_as_it_was_written() {
        let (_root, dir, private) = scratch();
        assert_eq!(SourceMark::read(&private), None);
        let mut mark = SourceMark::of(&dir, Mounts::default());
        mark.mounts.add(RelPath::parse(b"a/b\n c").unwrap(), &dir);
        for _ in 0..2 {
            mark.write(&private, true).unwrap();
            assert_eq!(SourceMark::read(&private).as_ref(), Some(&mark));
        }
        assert!(mark.mounts.has(&RelPath::parse(b"a/b\n c").unwrap()));
        std::fs::write(
            private.path().join(SourceMark::FILE),
            "dircopy source 1\nroot x\nmount y zz\n",
        )
        .unwrap();
        assert_eq!(SourceMark::read(&private), None);
    }
}
