//! A shard of a check from its refusals to its result.

use std::path::PathBuf;

use jiff::Timestamp;

use crate::error::{Error, Result};
use crate::hash::Sha256;
use crate::path::Shown;
use crate::sys::Dir;
use crate::sys::stat::Kind;
use crate::verify::archive::expanded::Bag;
use crate::verify::archive::part::PartOf;
use crate::verify::lines::shards::CheckShard;
use crate::verify::report::{Checked, ShardCoverage};
use crate::verify::shards::notes::ShardNotes;
use crate::verify::shards::result::{ResultsDir, ShardResult};
use crate::verify::target::{ManifestAt, TargetSpec};

/// Which shard of a check is to be made, and where its result goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShardOfCheck {
    /// Which it is.
    pub shard: CheckShard,
    /// A directory, which is made; every machine sees it.
    pub results: PathBuf,
}

/// A shard that is being checked.
#[derive(Debug)]
pub struct ShardRun {
    shard: CheckShard,
    results: ResultsDir,
    root: String,
    root_inode: u64,
    began: Timestamp,
}

/// The one list that is checked in shards.
///
/// # Errors
/// There are several, or it is not one that can be read as often as there are shards.
pub fn only_spec<'a>(
    deed: &'static str,
    specs: &'a [TargetSpec],
    bags: &[Bag],
) -> Result<&'a TargetSpec> {
    let refuse = |finding: &'static str| Err(Error::finding(deed, ".", finding));
    if !bags.is_empty() || specs.iter().any(|spec| spec.part != PartOf::Alone) {
        return Err(only_as_a_whole(deed, specs, bags));
    }
    match specs {
        [spec] => match &spec.manifest {
            Some(ManifestAt::StandardInput) => refuse("the manifest must be a file"),
            Some(ManifestAt::File(path)) => {
                let is_other = Dir::open(crate::path::directory_of(path))
                    .and_then(|dir| dir.stat(path.file_name().unwrap_or_default(), true))
                    .is_ok_and(|stat| stat.kind != Kind::File);
                match is_other {
                    true => refuse("the manifest must be a regular file"),
                    false => Ok(spec),
                }
            }
            None => Ok(spec),
        },
        _ => refuse("it is one directory and one manifest that are checked in shards"),
    }
}

/// Why an archive, which has several lists, is not checked in parts.
pub fn only_as_a_whole(deed: &'static str, specs: &[TargetSpec], bags: &[Bag]) -> Error {
    let archive = bags.first().map(|bag| bag.target.root.clone());
    // The chain of a history is in a directory of its own.
    let roots = specs.iter().map(TargetSpec::names_start_at);
    let archive = archive.or_else(|| roots.min_by_key(|root| root.components().count()));
    let finding = "a bag or a history of generations is checked as a whole only: leave out --shard, --merge, --budget \
                   and --max-bytes";
    Error::finding(deed, archive.unwrap_or_else(|| ".".into()), finding)
}

/// The inode number of the directory that is checked. The number of its device differs from machine to machine.
pub fn root_inode(spec: &TargetSpec) -> Result<u64> {
    let root = spec.names_start_at();
    let identity = Dir::open(&root).and_then(|root| root.identity());
    identity.map(|id| id.ino).map_err(|error| Error::io("open the directory", &root, error))
}

impl ShardRun {
    /// Begins; an earlier result of the shard is removed, so that one that is cut short leaves none.
    ///
    /// # Errors
    /// It is refused.
    pub fn begin(of: &ShardOfCheck, specs: &[TargetSpec], bags: &[Bag]) -> Result<Self> {
        let spec = only_spec("check a shard of", specs, bags)?;
        let root_inode = root_inode(spec)?;
        let results = ResultsDir::open(&of.results, true)?;
        results.remove(of.shard)?;
        let root = Shown::path(&spec.names_start_at()).to_string();
        Ok(Self { shard: of.shard, results, root, root_inode, began: Timestamp::now() })
    }

    /// Writes the result of a shard whose lines were all answered.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn end(
        &self,
        notes: ShardNotes,
        manifest: Sha256,
        counts: &Checked,
    ) -> Result<ShardCoverage> {
        let Self { shard: CheckShard { index, of }, results, root, root_inode, began } = self;
        let noted = notes
            .finish()
            .map_err(|error| Error::io("keep what was found of a shard of", root, error))?;
        let Checked { good, bytes, from_device, from_cache, .. } = *counts;
        let coverage = ShardCoverage {
            index: Some(*index),
            of: *of,
            lines: noted.answered.lines,
            began: began.as_second(),
            ended: Timestamp::now().as_second(),
        };
        let result = ShardResult {
            index: *index,
            of: *of,
            manifest: String::from_utf8_lossy(&manifest.to_hex()).into_owned(),
            root: root.clone(),
            root_inode: *root_inode,
            lines: noted.answered.lines,
            sum: format!("{:032x}", noted.answered.sum),
            good,
            bytes,
            from_device,
            from_cache,
            began: coverage.began,
            ended: coverage.ended,
        };
        results.write(self.shard, &result, &noted)?;
        Ok(coverage)
    }
}
