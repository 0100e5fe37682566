//! The one reader of a manifest's lines for a check: each line is a file to check, a finding, or nothing.

use std::io::{self, Read};
use std::sync::Arc;

use crate::hash::Digest;
use crate::manifest::{Entries, Parsed, Utf16Reader};
use crate::path::{PathFault, RelPath};
use crate::verify::finding::Finding;
use crate::verify::target::Target;

/// A line that names a file to check.
#[derive(Debug)]
pub struct ManifestLine {
    pub number: u64,
    pub path: RelPath,
    pub digest: Digest,
    /// Whether a regular file of that name was seen a moment ago.
    pub looked_at: bool,
}

/// What a line says.
pub enum Meaning {
    /// A comment, or nothing at all.
    Nothing,
    /// A file that is to be checked.
    File(ManifestLine),
    /// No file can be checked by it, for this reason.
    Fault(Finding),
}

/// Reads the lines of the manifest of a target.
pub struct ManifestLines<'a, R> {
    target: &'a Arc<Target>,
    entries: Entries<Utf16Reader<R>>,
}

impl<'a, R: Read> ManifestLines<'a, R> {
    /// Reads `manifest` from where it stands.
    pub fn new(target: &'a Arc<Target>, manifest: R) -> Self {
        Self { target, entries: Entries::of_all(Utf16Reader::new(manifest)) }
    }

    pub fn target(&self) -> &'a Arc<Target> {
        self.target
    }

    /// Whether the manifest is UTF-16; known when a line was read.
    pub fn is_utf16(&self) -> bool {
        self.entries.input().is_utf16()
    }

    /// The next line; `None` at the end.
    ///
    /// # Errors
    /// The manifest cannot be read; nothing comes after that.
    pub fn next_line(&mut self) -> io::Result<Option<Meaning>> {
        let Some(entry) = self.entries.next_entry()? else { return Ok(None) };
        let number = entry.number;
        Ok(Some(match entry.parsed {
            Parsed::Comment | Parsed::Blank => Meaning::Nothing,
            // The name may have been longer (M25).
            _ if !entry.ended && self.target.ours.is_some() => {
                let unfinished = self.target.is_unfinished();
                Meaning::Fault(Finding::Torn { line: number, unfinished })
            }
            Parsed::Malformed(fault) => Meaning::Fault(Finding::Malformed { line: number, fault }),
            Parsed::Record(record) => match RelPath::parse(record.name) {
                Ok(path) => {
                    let digest = record.digest;
                    Meaning::File(ManifestLine { number, path, digest, looked_at: false })
                }
                Err(fault) => Meaning::Fault(Finding::Refused {
                    line: number,
                    name: record.name.to_vec(),
                    why: fault.to_string(),
                }),
            },
        }))
    }

    /// The next line that names a file; `None` at the end.
    ///
    /// # Errors
    /// As for [`next_line`](Self::next_line).
    pub fn next_file(&mut self) -> io::Result<Option<ManifestLine>> {
        while let Some(meaning) = self.next_line()? {
            if let Meaning::File(line) = meaning {
                return Ok(Some(line));
            }
        }
        Ok(None)
    }
}

/// The name with `\` taken for `/` (`--convert-paths`).
///
/// # Errors
/// That is no name below a root.
pub fn converted(path: &RelPath) -> Result<RelPath, PathFault> {
    let convert = |&byte: &u8| if byte == b'\\' { b'/' } else { byte };
    RelPath::parse(&path.as_bytes().iter().map(convert).collect::<Vec<u8>>())
}

/// Whether a name is an absolute path on Windows, with why it is refused.
pub fn absolute_on_windows(path: &RelPath) -> Option<String> {
    let name = path.as_bytes();
    let drive = matches!(name, [letter, b':', b'\\' | b'/', ..] if letter.is_ascii_alphabetic());
    (drive || name.starts_with(b"\\")).then(|| PathFault::Absolute.to_string())
}
