//! What a bag holds, as what is expected of a source: the manifest of its payload, as a list of other programs has it.
//!
//! Its names begin with `data/`, and have line ends and `%` in an escape of their own. Where the source is not the bag
//! itself but its payload, or what was unpacked of it, the names begin below that.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use super::bag::{self, DECLARATION, Declaration, Encoding};
use super::line_ends::LineEnds;
use crate::error::{Error, Result};
use crate::hash::Algorithm;
use crate::manifest::read::scan::Text;
use crate::manifest::{Scanner, Utf16Reader, line};
use crate::path::{Shown, directory_of};
use crate::sys::{self, Dir, PlainUse, Uninterrupted};

/// More is no declaration of a bag; bytes.
const MOST_DECLARATION: u64 = 4 << 10;

/// How a manifest is read whose bag does not say it.
const NEWEST: Declaration = Declaration { version: (1, 0), encoding: Encoding::Utf8 };

/// So many bytes are written at a time.
const BUFFER: usize = 256 << 10;

/// What every name of the payload begins with.
const BELOW: &str = "data/";

/// What is done with a manifest that is expected; completes "cannot …".
const DEED: &str = "expect what is listed in";

/// Where the manifest of the bag is that is at `path`, if that is a directory: of several, that of the strongest
/// algorithm.
///
/// # Errors
/// The directory is no bag, or it cannot be told what its manifests mean.
pub fn manifest_of(path: &Path) -> Result<Option<PathBuf>> {
    if !path.is_dir() {
        return Ok(None);
    }
    let named = |algorithm: Algorithm| path.join(format!("manifest-{}.txt", algorithm.name()));
    let mut manifests = Algorithm::listed().map(named);
    let there = manifests.find(|manifest| manifest.is_file());
    let declared = path.join(DECLARATION);
    if !is_there(&declared) {
        let why = "it is a directory and no bag: it has no bagit.txt; give a manifest instead";
        return Err(Error::finding(DEED, path, why));
    }
    let manifest = there.ok_or_else(|| unknown(path))?;
    declaration(path).map(|_| Some(manifest.clone())).map_err(|why| {
        let manifest = Shown::path(&manifest);
        let why = format!("{why}, so this is no bag; give its manifest: --expect {manifest}");
        Error::finding(DEED, declared, why)
    })
}

/// Why nothing can be expected of the bag, or its manifest, at `path`.
fn unknown(path: &Path) -> Error {
    let finding = "a copy computes neither SHA-224 nor SHA-384, and there is no manifest of sha512, sha256, sha1 or md5; \
                   check the bag with dirverify, and copy without --expect";
    Error::finding(DEED, path, finding)
}

/// Whether anything has this name, be it a link that leads nowhere.
fn is_there(path: &Path) -> bool {
    !path.symlink_metadata().is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
}

/// The manifest of a bag's payload, as an ordinary list.
pub struct PayloadList {
    /// Its lines, as those of a list.
    pub file: File,
    /// By which its digests are.
    pub algorithm: Algorithm,
    /// What names of the payload begin with in the source: nothing, or the directory of the payload.
    pub payload: &'static str,
}

/// The file at `path` as an ordinary list, if it is a manifest of a bag's payload that is expected of `source`.
///
/// # Errors
/// It cannot be read, or what it becomes not be written.
pub fn as_list(path: &Path, file: &File, source: &Path) -> Result<Option<PayloadList>> {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let algorithm = match bag::manifest_name(name) {
        Some((false, Ok(algorithm))) if Algorithm::listed().any(|it| it == algorithm) => algorithm,
        Some((false, Ok(_))) if is_there(&directory_of(path).join(DECLARATION)) => {
            return Err(unknown(path));
        }
        _ => return Ok(None),
    };
    let bag = directory_of(path);
    if !is_there(&bag.join(DECLARATION)) {
        return Ok(None);
    }
    // Its names are below data/ whatever the declaration says.
    let declaration = declaration(bag).unwrap_or(NEWEST);
    let identity = |path: &Path| Dir::open(path).and_then(|dir| dir.identity()).ok();
    let is_whole = identity(directory_of(path)).is_some_and(|id| identity(source) == Some(id));
    let fail = |error| Error::io("read the expected manifest", path, error);
    let input = file.try_clone().map_err(fail)?;
    let file = convert(input, algorithm, declaration, is_whole).map_err(fail)?;
    let payload = if is_whole { BELOW } else { "" };
    Ok(Some(PayloadList { file, algorithm, payload }))
}

/// What makes the directory a bag.
///
/// # Errors
/// Why it is none.
fn declaration(bag: &Path) -> std::result::Result<Declaration, String> {
    let read = sys::open_plain(&bag.join(DECLARATION), PlainUse::Read).and_then(|file| {
        let mut text = Vec::new();
        Uninterrupted(file).take(MOST_DECLARATION).read_to_end(&mut text)?;
        Ok(text)
    });
    let text = read.map_err(|error| error.to_string())?;
    Declaration::parse(&text).map_err(str::to_owned)
}

/// Writes the lines of a manifest as those of a list to a file without a name. One that says nothing stays one that
/// says nothing.
fn convert(
    input: File,
    algorithm: Algorithm,
    declaration: Declaration,
    is_whole: bool,
) -> io::Result<File> {
    let (out, mut text) = (tempfile::tempfile()?, Vec::new());
    let mut lines = Scanner::new(LineEnds::new(Utf16Reader::new(input)));
    while let Some(found) = lines.next_line()? {
        let read = match found.text {
            Text::Whole(bytes) => bag::line(bytes, algorithm, declaration).ok(),
            Text::TooLong { .. } => None,
        };
        let prefix = if is_whole { &b""[..] } else { BELOW.as_bytes() };
        let named =
            read.as_ref().and_then(|line| Some((line.digest, line.name.strip_prefix(prefix)?)));
        match named.filter(|(_, name)| !name.is_empty()) {
            Some((digest, name)) => line::write_known(&mut text, &digest, name),
            None => text.extend_from_slice(b"?\n"),
        }
        if text.len() >= BUFFER {
            sys::write_all(&out, &text)?;
            text.clear();
        }
    }
    sys::write_all(&out, &text)?;
    Ok(out)
}
