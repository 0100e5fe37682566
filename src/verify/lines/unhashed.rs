//! Lines with no digest that can be checked: by algorithms that are not known here, or, in a Media Hash List, only such
//! that failed. Their files are looked for, which is all that can be checked of them.

use std::collections::HashSet;
use std::io;

use crate::error::Error;
use crate::manifest::Fault;
use crate::path::{RelPath, Shown};
use crate::sys::stat::Kind;
use crate::tree::last_dir::LastDir;
use crate::verify::finding::Finding;
use crate::verify::lines::seen::SeenNames;
use crate::verify::target::Target;

/// So many absent files are remembered until all lines are known.
const MOST: usize = 1 << 14;

/// A line with no digest that can be checked.
#[derive(Clone, Copy, Debug)]
pub struct UnhashedLine {
    /// The hash of the name on it.
    pub key: u64,
    pub line: u64,
    /// What its digest is by; `None` if it has only such that failed.
    pub algorithm: Option<&'static str>,
}

/// Such lines of a list.
#[derive(Default)]
pub struct UnhashedLines {
    /// The first of those with digests of other algorithms, and its algorithm.
    first: Option<(u64, &'static str)>,
    /// How many of those there are.
    others: u64,
    /// Those whose names cannot be read.
    nameless: Vec<UnhashedLine>,
    named: Vec<UnhashedLine>,
    /// Files that are not there, with their names and lines.
    absent: Vec<(u64, u64, RelPath)>,
    last: LastDir,
}

impl UnhashedLines {
    /// There is a digest of another algorithm on a line.
    pub fn note(&mut self, line: u64, algorithm: &'static str) {
        self.first.get_or_insert((line, algorithm));
        self.others += 1;
    }

    /// There is such a line, of a file whose name cannot be read.
    pub fn note_nameless(&mut self, line: u64, algorithm: &'static str) {
        // Those beyond are counted with the others.
        if self.nameless.len() < MOST {
            self.nameless.push(UnhashedLine { key: 0, line, algorithm: Some(algorithm) });
        }
    }

    /// Looks for the file on such a line.
    pub fn look(&mut self, target: &Target, line: UnhashedLine, path: RelPath) {
        self.named.push(line);
        let Ok(root) = target.handle() else { return };
        let is_absent = match self.last.stat(root, &path, false) {
            Ok(stat) => stat.kind != Kind::File,
            Err(error) => {
                matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
            }
        };
        if is_absent && self.absent.len() < MOST {
            self.absent.push((line.key, line.line, path));
        }
    }

    /// What is to be told when all lines were read, of which `seen` has the names. Lines beside others with digests
    /// of the same files are a notice.
    pub fn findings(self, target: &Target, seen: &SeenNames) -> Vec<Finding> {
        let Self { first, others, mut nameless, mut named, absent, .. } = self;
        let is_all = seen.has_no_digest();
        if let (true, Some((line, algorithm))) = (is_all, first) {
            return vec![Finding::Malformed { line, fault: Fault::NotComputed(algorithm) }];
        }
        named.retain(|line| !seen.has_digest(line.key));
        nameless.append(&mut named);
        let unproven = unproven(nameless, is_all);
        let notice = first.filter(
            |_| !matches!(unproven, Some(Finding::Unproven { files, .. }) if files >= others),
        );
        let notice = notice.map(|(line, algorithm)| Finding::OtherAlgorithm {
            line,
            algorithm,
            lines: others,
        });
        let absent = absent.into_iter().filter(|(key, ..)| !seen.has_digest(*key));
        let missing = absent.map(|(_, line, path)| {
            let manifest = Shown::path(&target.manifest);
            let why = format!("line {line} of {manifest} lists it, and there is no such file");
            Finding::Incomplete(Error::finding("find the listed file", target.path_of(&path), why))
        });
        notice.into_iter().chain(unproven).chain(missing).collect()
    }
}

/// What is told of such lines, if there are any; a name counts once, and one that cannot be read each time. `is_all`
/// if no other line has a digest.
fn unproven(mut lines: Vec<UnhashedLine>, is_all: bool) -> Option<Finding> {
    let mut keys = HashSet::new();
    lines.retain(|line| line.key == 0 || keys.insert(line.key));
    let UnhashedLine { line, algorithm, .. } = *lines.iter().min_by_key(|line| line.line)?;
    Some(Finding::Unproven { line, algorithm, files: lines.len() as u64, is_all })
}

/// Whether there is a regular file. Where that cannot be found out, what checks it tells.
pub fn is_there(target: &Target, path: &RelPath) -> bool {
    let Ok(root) = target.handle() else { return true };
    LastDir::default().stat(root, path, false).is_ok_and(|stat| stat.kind == Kind::File)
}
