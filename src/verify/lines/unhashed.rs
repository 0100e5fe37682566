//! Lines with digests that are not known here: their files are looked for, which is all that can be checked of them.

use std::io;

use crate::error::Error;
use crate::manifest::Fault;
use crate::path::{RelPath, Shown};
use crate::sys::stat::Kind;
use crate::tree::last_dir::LastDir;
use crate::verify::finding::Finding;
use crate::verify::target::Target;

/// So many absent files are remembered until all lines are known.
const MOST: usize = 1 << 14;

/// Lines with digests of other algorithms.
#[derive(Default)]
pub struct UnhashedLines {
    /// The first of them, and its algorithm.
    first: Option<(u64, &'static str)>,
    lines: u64,
    /// Files that are not there, with their lines.
    absent: Vec<(u64, RelPath)>,
    last: LastDir,
}

impl UnhashedLines {
    /// There is such a line, of a file that is not named here.
    pub fn note(&mut self, line: u64, algorithm: &'static str) {
        self.first.get_or_insert((line, algorithm));
        self.lines += 1;
    }

    /// Looks for a file on such a line.
    pub fn look(&mut self, target: &Target, line: u64, path: RelPath) {
        let Ok(root) = target.handle() else { return };
        let is_absent = match self.last.stat(root, &path, false) {
            Ok(stat) => stat.kind != Kind::File,
            Err(error) => {
                matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
            }
        };
        if is_absent && self.absent.len() < MOST {
            self.absent.push((line, path));
        }
    }

    /// What is to be told when all lines were read; `is_listed` knows files that other lines list. Lines beside digests
    /// that can be checked are a notice, and a fault where there is none.
    pub fn findings(
        self,
        target: &Target,
        is_beside: bool,
        is_listed: impl Fn(&RelPath) -> bool,
    ) -> Vec<Finding> {
        let Self { first, lines, absent, .. } = self;
        let Some((line, algorithm)) = first else { return Vec::new() };
        if !is_beside {
            return vec![Finding::Malformed { line, fault: Fault::OtherAlgorithm(algorithm) }];
        }
        let absent = absent.into_iter().filter(|(_, path)| !is_listed(path));
        let missing = absent.map(|(line, path)| {
            let manifest = Shown::path(&target.manifest);
            let why = format!("line {line} of {manifest} lists it, and there is no such file");
            Finding::Incomplete(Error::finding("find the listed file", target.path_of(&path), why))
        });
        let all = Finding::OtherAlgorithm { line, algorithm, lines };
        std::iter::once(all).chain(missing).collect()
    }
}
