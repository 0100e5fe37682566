//! What a check finds, and how a program hears of it.

use std::path::PathBuf;
use std::sync::Arc;

use crate::chain::damage::Damage;
use crate::error::Error;
use crate::event::Observer;
use crate::hash::Digest;
use crate::io::read_back::HashedFrom;
use crate::manifest::other_name::OtherName;
use crate::manifest::{Fault, ManifestName};
use crate::path::RelPath;
use crate::sys::stat::Kind;
use crate::verify::choice::Rival;
use crate::verify::target::Target;

/// What became of a listed file.
#[derive(Debug)]
pub enum Verdict {
    /// It has the listed digest.
    Good(HashedFrom),
    /// The file is there and has another digest; where it differs, if there is a chain that tells.
    Differs(HashedFrom, Option<Box<Damage>>),
    /// There is nothing of that name.
    Missing,
    /// Its name leads through something that is not a directory; symbolic links are not followed.
    NotThrough(Kind),
    /// What has its name is not a regular file, and was not opened.
    NotAFile(Kind),
    /// It could not be read, or changed meanwhile.
    Unreadable(Error),
    /// The name is not one below the root, for this reason; nothing was opened.
    Refused(String),
}

/// A file that is bad in one of several directories that are copies of each other. Directories are as they
/// were given.
#[derive(Debug)]
pub struct Comparison {
    /// Its name below each of them.
    pub path: RelPath,
    /// Where it is bad, and in which way: `differs`, `missing`, `not a regular file` or `unreadable`.
    pub bad: Vec<(&'static str, PathBuf)>,
    /// Where it has the digest that is listed where it is bad.
    pub good: Vec<PathBuf>,
    /// Where another digest is listed, or two.
    pub other: Vec<PathBuf>,
}

/// How a bad file was made whole, or could be.
#[derive(Debug)]
pub struct Mend {
    /// Its name below its root.
    pub path: RelPath,
    /// The roots of the trees that gave what it lacked.
    pub from: Vec<PathBuf>,
    /// So many bytes were taken from them.
    pub bytes: u64,
    /// Whether all the rest is shared with the bad file, instead of written once more.
    pub is_cloned: bool,
    /// Whether nothing was done.
    pub dry_run: bool,
}

/// What became of the files that are listed of one of several directories.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TreeVerdict {
    /// Files that have the listed digest.
    pub good: u64,
    /// Files that have another.
    pub differ: u64,
    /// Listed files that are not there, or not as regular files.
    pub missing: u64,
    /// Files that could not be read.
    pub unreadable: u64,
    /// What else was amiss, with the manifest, its lines, or files that are not listed.
    pub other: u64,
    /// Whether its manifest lists nothing because the last run found nothing.
    pub none_found: bool,
}

impl TreeVerdict {
    /// Whether all that is listed is as listed, and something is, or nothing was found to be listed.
    pub fn is_good(&self) -> bool {
        (self.good > 0 || self.none_found)
            && self.differ + self.missing + self.unreadable + self.other == 0
    }
}

/// What a bag is by all that was found of it (RFC 8493).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BagVerdict {
    /// Complete, and every file has its listed digests.
    Valid,
    /// Everything is there that must be, and listed, but a file has another digest or could not be read.
    Complete,
    /// Something is missing, or not listed, or cannot be read as what it must be.
    Incomplete,
}

impl std::fmt::Display for BagVerdict {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            BagVerdict::Valid => "a valid bag",
            BagVerdict::Complete => "a complete bag, but not a valid one",
            BagVerdict::Incomplete => "not a complete bag",
        })
    }
}

/// What a check finds. Lines are counted from 1.
#[derive(Debug)]
#[non_exhaustive]
pub enum Finding {
    /// A listed file was looked for.
    File {
        /// The line that lists it.
        line: u64,
        /// The name, as far as it may be one.
        path: RelPath,
        /// The digest on the line.
        listed: Digest,
        /// What became of it.
        verdict: Verdict,
        /// So many bytes were hashed.
        bytes: u64,
        /// So many were not, because they are the data of a file that was hashed.
        shared: u64,
    },
    /// There is no file of the name, but there is one if `\` is taken for `/`; it is judged next.
    Converted {
        /// Where in the manifest, from 1.
        line: u64,
        /// The name on it.
        from: RelPath,
        /// The name that was taken instead.
        to: RelPath,
    },
    /// The name is not one below the root; nothing was opened.
    Refused {
        /// Where in the manifest, from 1.
        line: u64,
        /// The name as it stands there, not to be shown raw.
        name: Vec<u8>,
        /// The rule that it breaks.
        why: String,
    },
    /// The name was on an earlier line too.
    Twice {
        /// Where in the manifest, from 1.
        line: u64,
        /// Where the name was first.
        first: u64,
        /// The name that both lines have.
        path: RelPath,
        /// Whether both have the same digest. If so, the file is checked once.
        same: bool,
    },
    /// A later generation of the same history has another digest of the file.
    Contradicts {
        /// Where in the older generation, from 1.
        line: u64,
        /// The file.
        path: RelPath,
    },
    /// The line cannot be read.
    Malformed {
        /// Where in the manifest, from 1.
        line: u64,
        /// The place in the line at which reading it failed.
        fault: Fault,
    },
    /// The last line of a manifest of dircopy is not ended: it is cut off and says nothing.
    Torn {
        /// Where in the manifest, from 1.
        line: u64,
        /// Whether the manifest is that of a run that did not come to its end, which explains it.
        unfinished: bool,
    },
    /// Lines of a manifest with SHA-256 digests have digests of another algorithm: their files are not
    /// checked by these.
    OtherAlgorithm {
        /// The first of these lines.
        line: u64,
        /// Its name, as in `SHA512`.
        algorithm: OtherName,
        /// How many there are.
        lines: u64,
    },
    /// Files are listed with no digest that can be checked, on this line or another: they are not checked.
    Unproven {
        /// The first of these lines.
        line: u64,
        /// What its digest is by; `None` if it has only such that failed.
        algorithm: Option<OtherName>,
        /// How many files there are.
        files: u64,
        /// Whether the list, or the history, has no digest that can be checked.
        is_all: bool,
    },
    /// Something is odd and nothing is amiss.
    Notice(Error),
    /// What must be there of an archive is not there, or is not what the archive says of itself.
    Incomplete(Error),
    /// What became of all that is listed of one of several directories; told at the end, for each.
    Tree(PathBuf, TreeVerdict),
    /// What became of a bag as a whole.
    Bag(BagVerdict),
    /// The manifest is UTF-16 text. It is read all the same.
    Utf16,
    /// The manifest lists nothing.
    Nothing,
    /// The manifest lists nothing, and is what the last run wrote: that found no file.
    NoneFound,
    /// The check waits for another run to end; what is known of that one.
    Waiting(String),
    /// What earlier scrubs verified is not known, for this reason.
    Forgotten(Error),
    /// A later run than that of the newest finished manifest was cut short.
    Unfinished(ManifestName),
    /// Another manifest may be taken for the one that holds.
    Rival(Rival),
    /// There are other lists, which are not checked.
    Others(Vec<String>),
    /// A regular file below the root is on no line.
    Unlisted(RelPath),
    /// A directory could not be looked through for files that are not listed.
    Unsearched(Error),
    /// The manifest or the root cannot be used, or not to its end.
    Unusable(Error),
    /// A file is bad in one of several directories that are copies of each other; told at the end, for each
    /// of these files.
    Compared(Comparison),
    /// So many findings of bad files were too many to be compared.
    NotCompared(u64),
    /// The check itself broke.
    Broken(Error),
    /// Trees that are to be copies of one another list different digests for a file; told for each such name.
    Conflict(RelPath),
    /// A bad file was made whole, or could be.
    Healed(Mend),
    /// A bad file was not made whole.
    NotHealed {
        /// Its name below its root.
        path: RelPath,
        /// What was in the way.
        why: String,
        /// The places that no tree has good, as far as that is known.
        lost: Option<Box<Damage>>,
    },
    /// So many bad files were too many to be remembered and made whole.
    TooManyBad(u64),
    /// A file was made whole, and something beside its content is not as it was.
    Warning(Error),
}

/// Hears what a check finds, and where.
pub type FindingListener<'a> = dyn Fn(&Target, &Finding) + Sync + 'a;

/// What is told of a check: each finding as it comes, and how far it is.
pub type FindingObserver<'a> = Observer<FindingListener<'a>>;

/// Findings of one target, on their way to the thread that tells them.
#[derive(Debug)]
pub struct Findings {
    pub target: Arc<Target>,
    /// The findings, in the order in which they are to be told.
    pub found: Vec<Finding>,
}

impl Findings {
    /// Findings of this target.
    pub fn new(target: &Arc<Target>, found: Vec<Finding>) -> Self {
        Self { target: Arc::clone(target), found }
    }
}
