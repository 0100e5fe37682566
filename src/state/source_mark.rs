//! Which file systems the source was on when the last complete run ended: `source` in the private directory.
//!
//! A disk that is not mounted leaves an empty directory, or another one, in its place. A mirror that took it for
//! the source would remove what is on the disk. So a run notes by what the source's file system is known, and
//! those that were mounted below it, and a later mirror run compares. A sum closes the note: one that was damaged says
//! nothing, and refuses no run. By the root itself it is known when source and output have been exchanged.

use std::{collections::BTreeMap, fmt, fmt::Write as _, fs::File, io, io::Read};

use crate::{
    hash::Sha256, path::RelPath, state::PrivateDir, state::private_dir::mark_of, sys, sys::Dir,
    sys::Uninterrupted,
};

const HEAD: &str = "dircopy source 2";

/// What stands for a file system of which the system tells nothing, or nothing now: it may have had no descriptor left
/// to ask with.
const UNKNOWN: &str = "unknown";

/// So many file systems below the source are noted, and so much is read.
const MOST_MOUNTS: usize = 1000;
const MOST_BYTES: u64 = 1 << 20;

/// What the line begins with by which the root is known again.
const DIR: &str = "dir ";

/// What the last line of a note begins with.
const SUM: &str = "= ";

/// By what a file system is known again after a restart: its UUID, or what kind it is where it has none.
#[derive(Clone, Debug, Default)]
pub struct VolumeMark {
    uuid: Option<String>,
    /// Of one with a UUID it is not noted.
    kind: Option<String>,
}

impl VolumeMark {
    /// That of the file system which `dir` lies on.
    fn of(dir: &Dir) -> Self {
        // What cannot be asked now may have one.
        let Ok(uuid) = sys::volume_uuid(dir) else { return Self::default() };
        // Some virtual disks have one of noughts alone.
        let uuid = uuid.filter(|uuid| uuid.contains(|c| !matches!(c, '0' | '-')));
        Self { uuid: uuid.map(plain), kind: sys::volume_details(dir).file_system.map(plain) }
    }

    fn parse(text: &str) -> Self {
        let of = |prefix| text.strip_prefix(prefix).map(str::to_owned);
        Self { uuid: of("uuid:"), kind: of("kind:") }
    }

    /// Whether anything is known of it.
    pub fn is_known(&self) -> bool {
        self.uuid.is_some() || self.kind.is_some()
    }

    /// Whether it is another than the one that was noted as `then`. A run that had only the kind to note may have been
    /// one of a system that tells no UUIDs.
    pub fn is_other_than(&self, then: &Self) -> bool {
        match then.uuid {
            Some(_) => self.uuid != then.uuid,
            None => self.kind != then.kind,
        }
    }
}

impl fmt::Display for VolumeMark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.uuid, &self.kind) {
            (Some(uuid), _) => write!(f, "uuid:{uuid}"),
            (None, Some(kind)) => write!(f, "kind:{kind}"),
            (None, None) => f.write_str(UNKNOWN),
        }
    }
}

impl PartialEq for VolumeMark {
    /// Whether they are noted alike.
    fn eq(&self, other: &Self) -> bool {
        self.uuid == other.uuid && (self.uuid.is_some() || self.kind == other.kind)
    }
}

impl Eq for VolumeMark {}

/// By what a source is known again.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SourceMark {
    /// That of its root.
    pub root: VolumeMark,
    /// By what the root itself is known again there; older notes have none.
    dir: Option<String>,
    pub mounts: Mounts,
}

/// Where below the root of a source others were mounted, and what they are known by.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mounts(BTreeMap<RelPath, VolumeMark>);

impl Mounts {
    /// Notes that a file system was mounted at `path`.
    pub fn add(&mut self, path: RelPath, dir: &Dir) {
        if self.0.len() < MOST_MOUNTS {
            self.0.insert(path, VolumeMark::of(dir));
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
        Self { root: VolumeMark::of(root), dir: mark_of(root).ok(), mounts }
    }

    /// Whether `dir` is the source that was noted, and not only on the same file system.
    pub fn is_of(&self, dir: &Dir) -> bool {
        let now = Self::of(dir, Mounts::default());
        self.is_known() && self.root == now.root && self.dir.is_some() && self.dir == now.dir
    }

    /// Whether it is known what file system the root is on.
    pub fn is_known(&self) -> bool {
        self.root.is_known()
    }

    /// What the last complete run noted; `None` if there is no note that can be read.
    pub fn read(private: &PrivateDir) -> Option<Self> {
        let (file, _) = private.dir().open_ours(Self::FILE.as_ref()).ok()??;
        let head = head(private, &file);
        let mut text = String::new();
        Uninterrupted(file).take(MOST_BYTES).read_to_string(&mut text).ok()?;
        let (noted, sum) = text.strip_suffix('\n')?.rsplit_once('\n')?;
        if sum != sum_line(noted) {
            return None;
        }
        let mut lines = noted.split('\n').peekable();
        if lines.next()? != head {
            return None;
        }
        let root = lines.next()?.strip_prefix("root ").map(VolumeMark::parse)?;
        let dir =
            lines.next_if(|line| line.starts_with(DIR)).map(|line| line[DIR.len()..].to_owned());
        let mount = |line: &str| {
            let (id, path) = line.strip_prefix("mount ")?.split_once(' ')?;
            Some((RelPath::parse(&from_hex(path)?).ok()?, VolumeMark::parse(id)))
        };
        Some(Self { root, dir, mounts: Mounts(lines.map(mount).collect::<Option<_>>()?) })
    }

    /// Notes it for later runs, on the device if `durable`.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn write(&self, private: &PrivateDir, durable: bool) -> io::Result<()> {
        let mut text = format!("root {}", self.root);
        if let Some(dir) = &self.dir {
            text = format!("{text}\n{DIR}{dir}");
        }
        for (path, id) in &self.mounts.0 {
            // Writing to a string does not fail.
            let _ = write!(text, "\nmount {id} ");
            path.as_bytes().iter().for_each(|byte| _ = write!(text, "{byte:02x}"));
        }
        private.write(Self::FILE.as_ref(), durable, |file| {
            let noted = format!("{}\n{text}", head(private, file));
            sys::write_all(&*file, format!("{noted}\n{}\n", sum_line(&noted)).as_bytes())
        })
    }
}

/// The first line of the note in `file`.
fn head(private: &PrivateDir, file: &File) -> String {
    format!("{HEAD} {}", private.mark().of_file(file).text())
}

/// What closes a note, by everything above it.
fn sum_line(noted: &str) -> String {
    format!("{SUM}{}", Sha256::of(&[noted.as_bytes()]))
}

/// Without blanks.
fn plain(text: String) -> String {
    text.chars().map(|c| if c.is_whitespace() || c.is_control() { '_' } else { c }).collect()
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
        let path = private.path().join(SourceMark::FILE);
        let whole = std::fs::read(&path).unwrap();
        // In its place, as a damaged medium would have it.
        let put = |bytes: &[u8]| {
            let mut file = File::options().write(true).open(&path).unwrap();
            std::io::Write::write_all(&mut file, bytes).unwrap();
        };
        for at in 0..whole.len() {
            let mut damaged = whole.clone();
            damaged[at] ^= 1;
            put(&damaged);
            assert_eq!(SourceMark::read(&private), None, "{at}");
        }
        put(&whole);
        assert_eq!(SourceMark::read(&private), Some(mark));
    }

    #[test]
    fn a_kind_may_be_one_with_a_uuid() {
        let [a, b] =
            ["a", "b"].map(|uuid| VolumeMark { uuid: Some(uuid.into()), kind: Some("xfs".into()) });
        let [kind, other] = ["kind:xfs", "kind:ext4"].map(VolumeMark::parse);
        assert!(!a.is_other_than(&kind) && !a.is_other_than(&VolumeMark::parse("uuid:a")));
        assert!(a.is_other_than(&b) && a.is_other_than(&other) && kind.is_other_than(&a));
        assert!(!VolumeMark::parse(UNKNOWN).is_known() && kind.is_known());
    }
}
