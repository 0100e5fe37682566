//! The chain of an ASC MHL history: which generations there are, and the digest of each one's file.

use std::io::{self, Read};
use std::path::Path;

use crate::error::{Error, Result};
use crate::hash::Digest;
use crate::manifest::Fault;
use crate::manifest::archive::mhl::{CHAIN, MhlEntries, MhlPiece, Named};
use crate::path::RelPath;
use crate::sys::{Dir, DirListing};

/// How many generations a history may have.
const MOST_GENERATIONS: usize = 100_000;

const DEED: &str = "read the chain of generations";

/// A generation, as the chain has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChainLink {
    /// Its number, from 1.
    pub number: u64,
    /// Its file, in the directory of the chain.
    pub name: String,
    /// The digest of that file, if the chain has it by C4.
    pub digest: Option<Digest>,
}

/// The number of a generation by the name of its file, if it is the name of one.
pub fn number_of(name: &str) -> Option<u64> {
    let stem = name.strip_suffix(".mhl")?;
    let digits = stem.split('_').next().filter(|digits| digits.len() >= 4)?;
    digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse().ok())?
}

/// The names of the generations that are in `dir`, sorted.
///
/// # Errors
/// It cannot be listed.
pub fn generations(dir: &Dir) -> io::Result<Vec<String>> {
    let mut found = Vec::new();
    for entry in DirListing::of(dir)? {
        let name = entry?.name;
        found.extend(name.to_str().filter(|name| number_of(name).is_some()).map(str::to_owned));
    }
    found.sort_unstable();
    Ok(found)
}

/// Whether a directory is a history: it has a chain of whatever kind, or a generation.
pub fn is_history(dir: &Dir) -> bool {
    let has_chain = dir.stat(CHAIN.as_ref(), false).is_ok();
    has_chain || generations(dir).is_ok_and(|names| !names.is_empty())
}

/// Reads the chain from `input`, which is at `path`; in its own order.
///
/// # Errors
/// It cannot be read, or is none.
pub fn read_chain<R: Read>(input: R, path: &Path) -> Result<Vec<ChainLink>> {
    let fail = |error| Error::io(DEED, path, error);
    let mut pieces = MhlEntries::new(input);
    let mut generations = Vec::new();
    while let Some((line, piece)) = pieces.next_piece().map_err(fail)? {
        let fault = |fault: Fault| Error::finding(DEED, path, format!("line {line}: {fault}"));
        let entry = match piece {
            MhlPiece::Entry(entry) => entry,
            MhlPiece::Fault(why) => return Err(fault(why)),
            MhlPiece::Ignored(_) => continue,
        };
        let Named::Generation(number) = entry.named else {
            return Err(fault(Fault::Form("it is no chain of generations")));
        };
        let is_name = RelPath::parse(entry.path.as_bytes())
            .is_ok_and(|path| path.as_bytes() == entry.path.as_bytes());
        if !is_name || entry.path.contains(['/', '\\']) {
            return Err(fault(Fault::Form("a generation is not in the directory of the chain")));
        }
        if generations.len() == MOST_GENERATIONS {
            return Err(fault(Fault::Form("there are too many generations")));
        }
        let digest = entry.digest();
        generations.push(ChainLink { number, name: entry.path, digest });
    }
    Ok(generations)
}
