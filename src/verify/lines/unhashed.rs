//! Lines with no digest that can be checked: by algorithms that are not known here, or, in a Media Hash List, only such
//! that failed. Their files are looked for, which is all that can be checked of them.

use std::collections::hash_map::Entry;
use std::io;

use crate::error::Error;
use crate::hash::table::HashTable;
use crate::manifest::Fault;
use crate::manifest::other_name::OtherName;
use crate::path::{RelPath, Shown};
use crate::sys::stat::Kind;
use crate::tree::last_dir::LastDir;
use crate::verify::finding::Finding;
use crate::verify::lines::seen::SeenNames;
use crate::verify::target::Target;

/// So many absent files are remembered until all lines are known, …
const MOST: usize = 1 << 14;

/// … with so many bytes of names.
const MOST_BYTES: usize = 16 << 20;

/// So many algorithms are told apart.
const MOST_NAMES: usize = 256;

/// A line with no digest that can be checked.
#[derive(Clone, Copy, Debug)]
pub struct UnhashedLine {
    /// The hash of the name on it.
    pub key: u64,
    pub line: u64,
    /// What its digest is by; `None` if it has only such that failed.
    pub algorithm: Option<OtherName>,
}

/// The files on such lines, with the first line of each: 16 bytes a file and some slack, as for other lines.
#[derive(Default)]
pub struct UnhashedFiles {
    files: HashTable<UnhashedPlace>,
    algorithms: Vec<Option<OtherName>>,
}

/// Where such a file is listed: in which of several lists, on which line, and by which of the algorithms.
#[derive(Clone, Copy)]
struct UnhashedPlace {
    line: u32,
    list: [u8; 3],
    algorithm: u8,
}

/// The files of which nothing can be checked.
pub struct UnprovenFiles {
    /// How many there are.
    pub files: u64,
    /// Which of the lists has the first of them.
    pub list: usize,
    /// The line of that.
    pub line: u64,
    pub algorithm: Option<OtherName>,
}

impl UnhashedFiles {
    /// Notes a line of the list of this number.
    pub fn note(&mut self, list: usize, line: UnhashedLine) {
        let UnhashedLine { key, line, algorithm } = line;
        let known = self.algorithms.iter().position(|known| *known == algorithm);
        let at = known.unwrap_or_else(|| {
            if self.algorithms.len() < MOST_NAMES {
                self.algorithms.push(algorithm);
            }
            self.algorithms.len() - 1
        });
        if let Entry::Vacant(free) = self.files.entry(key) {
            let [_, list @ ..] = u32::try_from(list).unwrap_or(u32::MAX).to_be_bytes();
            let line = u32::try_from(line).unwrap_or(u32::MAX);
            free.insert(UnhashedPlace {
                line,
                list,
                algorithm: u8::try_from(at).unwrap_or(u8::MAX),
            });
        }
    }

    /// Those of these files for which `is_proven` does not hold, if there are any.
    pub fn without(&self, is_proven: impl Fn(u64) -> bool) -> Option<UnprovenFiles> {
        let left = self.files.iter().filter(|(key, _)| !is_proven(**key)).map(|(_, place)| *place);
        let (mut files, mut first) = (0, None::<UnhashedPlace>);
        for place in left {
            files += 1;
            let of = |place: &UnhashedPlace| (place.list, place.line, place.algorithm);
            first = first.filter(|first| of(first) <= of(&place)).or(Some(place));
        }
        let UnhashedPlace { line, list: [a, b, c], algorithm } = first?;
        let list = u32::from_be_bytes([0, a, b, c]) as usize;
        let algorithm = self.algorithms.get(usize::from(algorithm)).copied().flatten();
        Some(UnprovenFiles { files, list, line: u64::from(line), algorithm })
    }
}

/// Such lines of a list.
#[derive(Default)]
pub struct UnhashedLines {
    /// The first of those with digests of other algorithms, and its algorithm.
    first: Option<(u64, OtherName)>,
    /// How many of those there are.
    others: u64,
    /// How many of them have names that cannot be read, and the first.
    nameless: u64,
    first_nameless: Option<(u64, OtherName)>,
    named: UnhashedFiles,
    /// Files that are not there, with their names and lines.
    absent: Vec<(u64, u64, RelPath)>,
    /// The bytes of these names.
    absent_bytes: usize,
    last: LastDir,
}

impl UnhashedLines {
    /// There is a digest of another algorithm on a line.
    pub fn note(&mut self, line: u64, algorithm: OtherName) {
        self.first.get_or_insert((line, algorithm));
        self.others += 1;
    }

    /// There is such a line, of a file whose name cannot be read.
    pub fn note_nameless(&mut self, line: u64, algorithm: OtherName) {
        self.first_nameless.get_or_insert((line, algorithm));
        self.nameless += 1;
    }

    /// Looks for the file on such a line.
    pub fn look(&mut self, target: &Target, line: UnhashedLine, path: RelPath) {
        self.named.note(0, line);
        let Ok(root) = target.handle() else { return };
        let is_absent = match self.last.stat(root, &path, false) {
            Ok(stat) => stat.kind != Kind::File,
            Err(error) => {
                matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
            }
        };
        let bytes = self.absent_bytes + path.as_bytes().len();
        if is_absent && self.absent.len() < MOST && bytes <= MOST_BYTES {
            self.absent_bytes = bytes;
            self.absent.push((line.key, line.line, path));
        }
    }

    /// What is to be told when all lines were read, of which `seen` has the names. Lines beside others with digests
    /// of the same files are a notice.
    pub fn findings(self, target: &Target, seen: &SeenNames) -> Vec<Finding> {
        let is_all = seen.has_no_digest();
        if let (true, Some((line, algorithm))) = (is_all, self.first) {
            return vec![Finding::Malformed { line, fault: Fault::NotComputed(algorithm) }];
        }
        let unproven = self.unproven(seen);
        let files = unproven.as_ref().map_or(0, |unproven| unproven.files);
        let Self { first, others, absent, .. } = self;
        let notice = first.filter(|_| files < others);
        let notice = notice.map(|(line, algorithm)| Finding::OtherAlgorithm {
            line,
            algorithm,
            lines: others,
        });
        let unproven = unproven.map(|UnprovenFiles { files, line, algorithm, .. }| {
            Finding::Unproven { line, algorithm, files, is_all }
        });
        let absent = absent.into_iter().filter(|(key, ..)| !seen.has_digest(*key));
        let missing = absent.map(|(_, line, path)| {
            let manifest = Shown::path(&target.manifest);
            let why = format!("line {line} of {manifest} lists it, and there is no such file");
            Finding::Incomplete(Error::finding("find the listed file", target.path_of(&path), why))
        });
        notice.into_iter().chain(unproven).chain(missing).collect()
    }

    /// The files of which nothing can be checked; a name counts once, and one that cannot be read each time.
    fn unproven(&self, seen: &SeenNames) -> Option<UnprovenFiles> {
        let named = self.named.without(|key| seen.has_digest(key));
        let nameless = self.first_nameless.map(|(line, algorithm)| UnprovenFiles {
            files: self.nameless,
            list: 0,
            line,
            algorithm: Some(algorithm),
        });
        let (Some(one), Some(other)) = (&named, &nameless) else { return named.or(nameless) };
        let files = one.files + other.files;
        let first = if one.line <= other.line { named } else { nameless };
        first.map(|first| UnprovenFiles { files, ..first })
    }
}

/// Whether there is a regular file. Where that cannot be found out, what checks it tells.
pub fn is_there(target: &Target, path: &RelPath) -> bool {
    let Ok(root) = target.handle() else { return true };
    LastDir::default().stat(root, path, false).is_ok_and(|stat| stat.kind == Kind::File)
}
