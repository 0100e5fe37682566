//! What happens to the entries of a copy or of a stream.

use std::path::Path;

use crate::error::Error;
use crate::sys::stat::Kind;

/// What became of an entry, told as it happens. The path is that of the entry below its root.
#[derive(Debug)]
#[non_exhaustive]
pub enum Event<'a> {
    /// The entry stands at the output, for this reason.
    Stands(&'a [u8], Done),
    /// An entry at the output differs and was left as it is, for the reason given.
    Left(&'a [u8], &'static str),
    /// Not a thing that can be copied: it was not opened.
    Skipped(&'a [u8], Kind),
    /// A part file that a killed run left behind was removed from the output.
    LeftoverRemoved(&'a [u8]),
    /// An old manifest was removed from the output, because so many newer ones are there as were
    /// asked for.
    ManifestRemoved(&'a [u8]),
    /// A directory of the source on which another file system is mounted was not entered.
    OtherVolume(&'a [u8]),
    /// What was at this path has left the source, and was moved to the trash; a directory with everything in it.
    Departed(&'a [u8]),
    /// What is at this path of the output has no counterpart in the source, and stays: no earlier run listed it.
    Foreign(&'a [u8]),
    /// So has the directory at this path, and stays: something is mounted on it.
    ForeignMount(&'a [u8]),
    /// An old generation was moved to the trash.
    GenerationRemoved(&'a [u8]),
    /// Old trash was removed.
    TrashRemoved(&'a [u8]),
    /// What the file system of the output's directory at this path cannot hold, in words.
    Limits(&'a Path, &'a str),
    /// The run waits for another to end; what is known of that one.
    Waiting(&'a str),
    /// So many bytes of a file were not read again: a run that was killed had copied them.
    Resumed(&'a [u8], u64),
    /// The run was asked to stop: so many bytes of the beginning of the file are kept, and the next run goes on
    /// with them.
    Suspended(&'a [u8], u64),
    /// The entry is not at the output.
    Failed(&'a Error),
    /// A file of the source is not what is expected of it, although nothing says that it was edited. It
    /// was not copied.
    Rotten(&'a Error),
    /// A file is expected and is not in the source.
    Gone(&'a [u8]),
    /// The same of one that was not to be removed.
    Lost(&'a [u8]),
    /// A file of the source is not what is expected of it, because it was edited since.
    Edited(&'a [u8]),
    /// The entry is at the output, but something about it could not be done.
    Warning(&'a Error),
    /// A pattern of the filter, with its option, because of which no entry is in or out.
    IdlePattern(&'a str),
}

/// Why an entry stands at the output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Done {
    /// The file was copied to where nothing was.
    Copied,
    /// The file was copied and took the place of something older.
    Replaced,
    /// A further name of a file that was copied under another was made.
    Linked,
    /// The symbolic link was made.
    Symlinked,
    /// It was there already.
    Kept,
    /// It was there already, and was given the source's permissions, owner and attributes.
    Relabelled,
}
