//! What is noted of a shard while it is checked: which lines were answered, and which files are bad.

use std::io;

use crate::error::Error;
use crate::hash::{Algorithm, Digest};
use crate::io::read_back::HashedFrom;
use crate::manifest::read::escape;
use crate::path::RelPath;
use crate::sys::stat::Kind;
use crate::tree::names::sorter::{SortedRecords, Sorter};
use crate::verify::finding::{Finding, Verdict};
use crate::verify::lines::shards::LineSum;
use crate::verify::target::Target;

/// What parts a name and what is said of it: no path has an empty component.
const BETWEEN: &[u8] = b"//";

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
        let bad = Sorter::new(|one, other| one.cmp(other));
        Self { answered: LineSum::default(), bad, failed: None }
    }
}

impl ShardNotes {
    /// Notes a finding about a line that was given out.
    pub fn note(&mut self, finding: &Finding) {
        let Finding::File { line, path, listed, verdict, .. } = finding else { return };
        self.answered.add(*line, path, listed);
        if let Some(record) = record(*line, path, listed, verdict)
            && let Err(error) = self.bad.add(&record)
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

/// What is recorded of a file; nothing of a good one.
fn record(line: u64, path: &RelPath, listed: &Digest, verdict: &Verdict) -> Option<Vec<u8>> {
    let (word, text) = match verdict {
        Verdict::Good(_) => return None,
        Verdict::Differs(HashedFrom::Device, _) => ("differs", String::new()),
        Verdict::Differs(HashedFrom::Cache, _) => ("differs-in-cache", String::new()),
        Verdict::Missing => ("missing", String::new()),
        Verdict::NotThrough(kind) => ("not-through", kind.name().into()),
        Verdict::NotAFile(kind) => ("not-a-file", kind.name().into()),
        Verdict::Unreadable(error) => ("unreadable", error.reason()),
        Verdict::Refused(why) => ("refused", why.clone()),
    };
    let name = listed.algorithm().name();
    let mut record = format!("{line:020} {word} {name}:{listed} ").into_bytes();
    escape::escape(path.as_bytes(), &mut record);
    record.extend_from_slice(BETWEEN);
    let text: Vec<u8> = text.bytes().filter(|&byte| byte != 0).collect();
    escape::escape(&text, &mut record);
    Some(record)
}

/// What a record says of a bad file of a target; `None` if it is none.
pub fn finding(record: &[u8], target: &Target) -> Option<Finding> {
    let mut words = record.splitn(4, |&byte| byte == b' ');
    let mut word = || std::str::from_utf8(words.next()?).ok();
    let (line, what, listed) = (word()?.parse().ok()?, word()?, word()?);
    let (name, hex) = listed.split_once(':')?;
    let listed = Digest::parse(Algorithm::named(name)?, hex.as_bytes())?;
    let rest = words.next()?;
    let at = memchr::memmem::find(rest, BETWEEN)?;
    let plain = |escaped: &[u8]| {
        let mut plain = Vec::new();
        escape::unescape(escaped, &mut plain).ok().map(|()| plain)
    };
    let path = RelPath::parse(&plain(&rest[..at])?).ok()?;
    let text = String::from_utf8(plain(&rest[at + BETWEEN.len()..])?).ok()?;
    let verdict = match what {
        "differs" => Verdict::Differs(HashedFrom::Device, None),
        "differs-in-cache" => Verdict::Differs(HashedFrom::Cache, None),
        "missing" => Verdict::Missing,
        "not-through" => Verdict::NotThrough(kind(&text)?),
        "not-a-file" => Verdict::NotAFile(kind(&text)?),
        "unreadable" => Verdict::Unreadable(Error::finding("read", target.path_of(&path), text)),
        "refused" => Verdict::Refused(text),
        _ => return None,
    };
    Some(Finding::File { line, path, listed, verdict, bytes: 0, shared: 0 })
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
        let listed = Digest::sha256([7; 32]);
        let error = || Error::finding("read", "x", "line\nfeed");
        for verdict in [
            Verdict::Differs(HashedFrom::Device, None),
            Verdict::Differs(HashedFrom::Cache, None),
            Verdict::Missing,
            Verdict::NotThrough(Kind::Symlink),
            Verdict::NotAFile(Kind::Fifo),
            Verdict::Unreadable(error()),
            Verdict::Refused("it // is".into()),
        ] {
            let text = record(12, &path, &listed, &verdict).unwrap();
            assert!(!text.contains(&b'\n') && !text.contains(&0));
            let Some(Finding::File { line, path: back, listed: digest, verdict: same, .. }) =
                finding(&text, &Target::none())
            else {
                panic!("{verdict:?}")
            };
            assert_eq!((line, back, digest), (12, path.clone(), listed));
            assert_eq!(record(12, &path, &listed, &same).unwrap(), text, "{verdict:?}");
        }
        assert_eq!(record(1, &path, &listed, &Verdict::Good(HashedFrom::Device)), None);
        let good = record(1, &path, &listed, &Verdict::Missing).unwrap();
        for cut in 0..good.len() - 2 {
            assert!(finding(&good[..cut], &Target::none()).is_none(), "{cut}");
        }
        let out = String::from_utf8_lossy(&good).replace("a \\n", "../a");
        assert!(finding(out.as_bytes(), &Target::none()).is_none());
    }
}
