//! A check that several machines share: each leaves a result of its shard, and merging proves that all of them together
//! are the whole.

pub mod merge;

use std::{fs::File, io, path::Path, path::PathBuf, sync::Arc};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::{
    error::Deed, error::Error, error::Result, hash::Algorithm, hash::Digest, hash::Sha256,
    io::HashedFrom, manifest::SummedReader, manifest::SummedWriter, path::RelPath, path::Shown,
    path::directory_of, staged, staged::write_whole, sys, sys::Dir, sys::DirListing,
    sys::stat::Kind, tree::PathRecord, tree::SortedRecords, tree::Sorter, tree::by_words,
    verify::Bag, verify::CheckShard, verify::Checked, verify::Finding, verify::ManifestAt,
    verify::PartOf, verify::Target, verify::TargetSpec, verify::Verdict,
    verify::lines::shards::LineSum,
};

// A shard of a check from its refusals to its result.

/// The shard of a check that is to be made, and the place for its result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShardOfCheck {
    /// The shard.
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
                if is_other { refuse("the manifest must be a regular file") } else { Ok(spec) }
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
    identity.map(|id| id.ino).deed("open the directory", &root)
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
        let noted = notes.finish().deed("keep what was found of a shard of", root)?;
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
            results: results.name.clone(),
            manifest: manifest.to_string(),
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

// The results of the shards of a check, each in a file of a directory that is closed to others: what was checked, and
// what was bad. A result appears by a rename, when its shard is done, and has a sum at its end.

/// The first line of every result.
const HEADER: &str = "# dircopy checked 3";

const ENDING: &str = "checked";

const READ: &str = "read the result";

/// The coverage of the shards of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShardCoverage {
    /// The shard that was checked; `None` if the results of all were merged.
    pub index: Option<u32>,
    /// Number of shards in all.
    pub of: u32,
    /// Lines whose files were looked for.
    pub lines: u64,
    /// When the first of the shards began, by the clock of its machine: seconds since 1970.
    pub began: i64,
    /// When the last of them ended.
    pub ended: i64,
}

/// The result of a shard as a whole.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShardResult {
    pub index: u32,
    pub of: u32,
    /// What the directory of the results was called; not in those of earlier versions.
    #[serde(default)]
    pub results: Option<String>,
    /// The SHA-256 of the manifest.
    pub manifest: String,
    /// The directory that was checked, for the eye, and its inode number.
    pub root: String,
    pub root_inode: u64,
    /// The lines that were answered, and their sum.
    pub lines: u64,
    pub sum: String,
    /// The files that are as listed; records of all others follow.
    pub good: u64,
    pub bytes: u64,
    pub from_device: u64,
    pub from_cache: u64,
    /// When the check began and ended, by the clock of its machine: seconds since 1970.
    pub began: i64,
    pub ended: i64,
}

/// The directory of results.
#[derive(Debug)]
pub struct ResultsDir {
    path: PathBuf,
    dir: Arc<Dir>,
    /// What it is called.
    name: Option<String>,
}

/// A result that was found, or why it is none.
#[derive(Debug)]
pub struct FoundResult {
    /// The directory that it is in.
    dir: Arc<Dir>,
    pub path: PathBuf,
    pub result: Result<ShardResult>,
}

impl ResultsDir {
    /// Opens the directory at `path`, and makes it if there is none and it is to be made.
    ///
    /// # Errors
    /// It cannot be opened, or is not this user's alone.
    pub fn open(path: &Path, make: bool) -> Result<Self> {
        let fail = |error| Error::io("open the results in", path, error);
        let mut made_in = None;
        if make && let Some(why) = sys::why_none_is_closed() {
            return Err(Error::finding("open the results in", path, why));
        }
        if make && let Some(name) = path.file_name() {
            let above = Dir::open_named(directory_of(path)).map_err(fail)?;
            let made = above.make_dir(name, true).unless_taken().map_err(fail)?;
            made_in = made.map(|()| above);
        }
        let dir = Dir::open_named(path).map_err(fail)?;
        if let Some(above) = made_in {
            dir.close_to_others().and_then(|()| above.persist()).map_err(fail)?;
        }
        if !dir.is_private().map_err(fail)? {
            let finding =
                "it is not a directory of this user's alone, so anyone may have changed it";
            return Err(Error::finding("open the results in", path, finding));
        }
        let name = staged::name_of(path).map_err(fail)?;
        Ok(Self { path: path.to_path_buf(), dir: dir.into(), name })
    }

    /// Refuses a result that was made in a directory of another name, with which this one may have been exchanged.
    ///
    /// # Errors
    /// It is one.
    pub fn refuse_exchanged(&self, result: &ShardResult) -> Result<()> {
        let made_in = result.results.as_deref();
        staged::refuse_exchanged("use the results in", made_in, &self.dir, &self.path)
    }

    fn name(shard: CheckShard) -> String {
        let CheckShard { index, of } = shard;
        format!("{index:04}-of-{of:04}.{ENDING}")
    }

    /// Removes the earlier result of a shard that is checked anew.
    pub fn remove(&self, shard: CheckShard) -> Result<()> {
        let name = Self::name(shard);
        let removed = self.dir.remove(name.as_ref()).if_there().map(drop);
        removed.deed_at("remove", || self.path.join(name))
    }

    /// Writes the result of a shard, in the place of an earlier one.
    pub fn write(&self, shard: CheckShard, result: &ShardResult, noted: &ShardNoted) -> Result<()> {
        let name = Self::name(shard);
        let fill = |file: &mut File| {
            let mut writer = SummedWriter::new(file, 0, HEADER)?;
            writer.add(&serde_json::to_vec(result).map_err(io::Error::from)?)?;
            let mut bad = noted.bad.reader();
            while let Some(record) = bad.next_record()? {
                writer.add(record)?;
            }
            writer.finish(result.bytes).map(drop)
        };
        let written = write_whole(&self.dir, name.as_ref(), false, true, fill);
        written.deed_at("write the result", || self.path.join(&name))
    }

    /// Everything that is a result by its name, each read to its end.
    pub fn all(&self) -> Result<Vec<FoundResult>> {
        let fail = |error| Error::io("look for results in", &self.path, error);
        let mut found = Vec::new();
        for entry in DirListing::of(&self.dir).map_err(fail)? {
            let path = self.path.join(&*entry.map_err(fail)?.name);
            if path.extension().is_some_and(|ending| ending == ENDING) {
                let dir = Arc::clone(&self.dir);
                let result = read(&dir, &path, |_| Ok(()));
                found.push(FoundResult { dir, path, result });
            }
        }
        found.sort_unstable_by(|one, other| one.path.cmp(&other.path));
        Ok(found)
    }
}

impl FoundResult {
    /// Reads it once more, and tells what it has of bad files of a target.
    pub fn tell(&self, target: &Target, mut tell: impl FnMut(Finding)) -> Result<()> {
        read(&self.dir, &self.path, |record| {
            tell(finding(record, target).ok_or(())?);
            Ok(())
        })?;
        Ok(())
    }
}

/// Reads a result to its end; `bad` takes the records of bad files.
fn read(
    dir: &Dir,
    path: &Path,
    mut bad: impl FnMut(&[u8]) -> std::result::Result<(), ()>,
) -> Result<ShardResult> {
    let file = dir.open_plain(path.file_name().unwrap_or_default()).deed(READ, path)?;
    let mut reader = SummedReader::of(file, READ, path, 0, HEADER)?;
    let first = match reader.next_record()? {
        Some(record) => serde_json::from_slice::<ShardResult>(record).ok(),
        None => None,
    };
    let Some(result) = first else { return Err(reader.torn("it does not say what it is of")) };
    let mut number = 0_u64;
    loop {
        let fits = match reader.next_record()? {
            None => break,
            Some(record) => bad(record).is_ok(),
        };
        if !fits {
            return Err(reader.torn("a record of a bad file in it is malformed"));
        }
        number += 1;
    }
    let is_sound = CheckShard::new(result.index, result.of).is_ok()
        && result.good.checked_add(number) == Some(result.lines);
    if is_sound { Ok(result) } else { Err(reader.torn("its numbers do not fit together")) }
}

// The notes on a shard while it is checked: which lines were answered, and which files are bad.

/// The notes of a shard.
#[derive(Debug)]
pub struct ShardNotes {
    answered: LineSum,
    /// Records of bad files, in the order of their lines.
    bad: Sorter,
    failed: Option<io::Error>,
}

/// Notes that are complete.
#[derive(Debug)]
pub struct ShardNoted {
    pub answered: LineSum,
    pub bad: SortedRecords,
}

impl Default for ShardNotes {
    fn default() -> Self {
        let bad = Sorter::new(by_words);
        Self { answered: LineSum::default(), bad, failed: None }
    }
}

impl ShardNotes {
    /// Notes a finding about a line that was given out.
    pub fn note(&mut self, finding: &Finding) {
        let Finding::File { line, path, listed, verdict, .. } = finding else { return };
        self.answered.add(*line, path, listed);
        if let Some(words) = words(*line, listed, verdict)
            && let Err(error) = self.bad.add(words, path.as_bytes())
        {
            self.failed = Some(error);
        }
    }

    /// All of them.
    ///
    /// # Errors
    /// They did not fit into memory, and not onto the disk.
    pub fn finish(self) -> io::Result<ShardNoted> {
        match self.failed {
            Some(error) => Err(error),
            None => Ok(ShardNoted { answered: self.answered, bad: self.bad.finish()? }),
        }
    }
}

/// The words of the record of a file: the number of its line, and more in JSON; nothing for a good one.
fn words(line: u64, listed: &Digest, verdict: &Verdict) -> Option<String> {
    let (word, text) = match verdict {
        Verdict::Good(_) => return None,
        Verdict::Differs(from, found, _) => {
            let word = if *from == HashedFrom::Device { "differs" } else { "differs-in-cache" };
            (word, found.map_or_else(String::new, |found| found.to_string()))
        }
        Verdict::OtherSize { found, recorded, .. } => ("other-size", format!("{found} {recorded}")),
        Verdict::Missing => ("missing", String::new()),
        Verdict::NotThrough(kind) => ("not-through", kind.name().into()),
        Verdict::NotAFile(kind) => ("not-a-file", kind.name().into()),
        Verdict::Unreadable(error) => ("unreadable", error.reason()),
        Verdict::Refused(why) => ("refused", why.clone()),
    };
    let name = listed.algorithm().name();
    let json = serde_json::to_string(&(word, name, listed.to_string(), text)).ok()?;
    Some(format!("{line:020} {json}"))
}

/// The finding in a record of a bad file of a target; `None` if it is none.
pub fn finding(record: &[u8], target: &Target) -> Option<Finding> {
    let (words, path) = PathRecord::told(record);
    let (line, json) = words.split_once(' ')?;
    let (word, name, hex, text): (String, String, String, String) =
        serde_json::from_str(json).ok()?;
    let listed = Digest::parse(Algorithm::named(&name)?, hex.as_bytes())?;
    let (line, path) = (line.parse().ok()?, RelPath::parse(path).ok()?);
    let found = || Digest::parse(listed.algorithm(), text.as_bytes());
    let verdict = match &*word {
        "differs" => Verdict::Differs(HashedFrom::Device, found(), None),
        "differs-in-cache" => Verdict::Differs(HashedFrom::Cache, found(), None),
        "other-size" => {
            let (found, recorded) = text.split_once(' ')?;
            let (found, recorded) = (found.parse().ok()?, recorded.parse().ok()?);
            Verdict::OtherSize { found, recorded, damage: None }
        }
        "missing" => Verdict::Missing,
        "not-through" => Verdict::NotThrough(kind(&text)?),
        "not-a-file" => Verdict::NotAFile(kind(&text)?),
        "unreadable" => Verdict::Unreadable(Error::finding("read", target.path_of(&path), text)),
        "refused" => Verdict::Refused(text),
        _ => return None,
    };
    Some(Finding::File { line, path, listed, verdict, bytes: 0, shared: 0, proven: None })
}

fn kind(name: &str) -> Option<Kind> {
    use Kind::{Device, Dir, Fifo, File, Socket, Symlink};
    [File, Dir, Symlink, Fifo, Socket, Device].into_iter().find(|kind| kind.name() == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_noted_of_bad_files_comes_back() {
        let path = RelPath::parse(b"a \n\\ b/\xff c").unwrap();
        let record = |line, listed: &Digest, verdict: &Verdict| {
            let words = words(line, listed, verdict)?;
            Some([words.as_bytes(), b"\n", path.as_bytes()].concat())
        };
        let listed = Digest::sha256([7; 32]);
        let error = || Error::finding("read", "x", "line\nfeed");
        for verdict in [
            Verdict::Differs(HashedFrom::Device, Some(Digest::sha256([8; 32])), None),
            Verdict::Differs(HashedFrom::Cache, None, None),
            Verdict::OtherSize { found: 7, recorded: 8, damage: None },
            Verdict::Missing,
            Verdict::NotThrough(Kind::Symlink),
            Verdict::NotAFile(Kind::Fifo),
            Verdict::Unreadable(error()),
            Verdict::Refused("it // is".into()),
        ] {
            let text = record(12, &listed, &verdict).unwrap();
            assert!(!text.contains(&0));
            let Some(Finding::File { line, path: back, listed: digest, verdict: same, .. }) =
                finding(&text, &Target::none())
            else {
                panic!("{verdict:?}")
            };
            assert_eq!((line, back, digest), (12, path.clone(), listed));
            assert_eq!(record(12, &listed, &same).unwrap(), text, "{verdict:?}");
        }
        assert_eq!(record(1, &listed, &Verdict::Good(HashedFrom::Device)), None);
        let good = record(1, &listed, &Verdict::Missing).unwrap();
        for cut in 0..good.len() - path.as_bytes().len() {
            assert!(finding(&good[..cut], &Target::none()).is_none(), "{cut}");
        }
        let head = &good[..good.len() - path.as_bytes().len()];
        for out in [&b"../a"[..], b"/a", b""] {
            assert!(finding(&[head, out].concat(), &Target::none()).is_none());
        }
    }
}
