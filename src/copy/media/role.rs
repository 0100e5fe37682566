//! What a run that writes a Media Hash List is given: what is known before it begins.

use jiff::Timestamp;

use crate::copy::media::histories::Histories;
use crate::hash::{Algorithm, Algorithms};
use crate::manifest::archive::mhl::{OF_HISTORIES, OF_LEGACY};
use crate::manifest::lists::ListFormat;
use crate::tree::filter::{Filter, Pattern};

/// What histories leave out where they say nothing else, and what is ours. Without a `/` before them, because the
/// reference implementation matches whole paths from the root of the file system.
const LEFT_OUT: [&str; 6] = [
    ".DS_Store",
    "ascmhl",
    "ascmhl/",
    ".dircopy",
    ".dircopy-*",
    "dircopy-[0-9][0-9][0-9][0-9][0-9][0-9][0-9][0-9]T[0-9][0-9][0-9][0-9][0-9][0-9]Z*",
];

/// What a run that writes a Media Hash List is given.
#[derive(Debug)]
pub struct MediaRole {
    /// The digests that are listed.
    pub algorithms: Algorithms,
    /// The histories that are gone on with, if that is asked for; else a legacy list is written.
    pub histories: Option<Histories>,
    /// When the run began: all its lists have this time.
    pub started: Timestamp,
}

/// The digests that a list of this form has by `asked`: those of them that it can have, or else a fast one.
pub fn listed(form: ListFormat, asked: Algorithms) -> Algorithms {
    let (of_form, else_by) = match form {
        ListFormat::LegacyMhl => (OF_LEGACY.as_slice(), Algorithm::Xxh64),
        _ => (OF_HISTORIES.as_slice(), Algorithm::Xxh128),
    };
    // They are one digest, and one of the two is computed.
    let asked = if asked.has(Algorithm::Sha512) { asked.with(Algorithm::C4) } else { asked };
    let listed: Algorithms = of_form.iter().copied().filter(|it| asked.has(*it)).collect();
    if listed.is_empty() { listed.with(else_by) } else { listed }
}

/// The patterns of what a new generation leaves out, where older ones had these.
pub fn patterns(older: &[String], of_root: &[String]) -> Vec<String> {
    let mut all = Vec::new();
    let ours = LEFT_OUT.iter().map(|pattern| (*pattern).to_owned());
    for pattern in older.iter().chain(of_root).cloned().chain(ours) {
        if !all.contains(&pattern) {
            all.push(pattern);
        }
    }
    all
}

/// What leaves out what these patterns match.
///
/// # Errors
/// One is wrong.
pub fn left_out(patterns: &[String]) -> Result<Filter, String> {
    let patterns: Vec<Pattern> = patterns.iter().cloned().map(Pattern::Exclude).collect();
    Filter::new(&patterns)
}

impl MediaRole {
    /// What is to be computed for it beside `asked`.
    pub fn further(&self, asked: Algorithms) -> Algorithms {
        match asked.has(Algorithm::Sha512) {
            true => self.algorithms.without(Algorithm::C4),
            false => self.algorithms,
        }
    }
}
