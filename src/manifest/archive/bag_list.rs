//! What a bag holds, as what is expected of a source: the manifest of its payload, as a list of other programs has it.
//!
//! Its names begin with `data/`, and have line ends and `%` in an escape of their own. Where the source is not the bag
//! itself but its payload, or what was unpacked of it, the names begin below that.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use super::bag::{self, DECLARATION, Declaration, Encoding, OTHER_ENCODING};
use super::line_ends::LineEnds;
use crate::error::{Error, Result};
use crate::hash::Algorithm;
use crate::manifest::other_name::OtherName;
use crate::manifest::read::is_utf16;
use crate::manifest::read::scan::Text;
use crate::manifest::{Scanner, Utf16Reader, line};
use crate::path::{Shown, directory_of};
use crate::sys::{self, Dir, FileRange, PlainUse, Uninterrupted};

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
    let found = payload_manifests(path).map_err(|error| Error::io("list", path, error))?;
    let of = |one: Algorithm| found.iter().find(|(_, by)| *by == Ok(one));
    let there = Algorithm::listed().find_map(of).map(|(name, _)| path.join(name));
    let declared = path.join(DECLARATION);
    if !is_there(&declared) {
        let why = "it is a directory and no bag: it has no bagit.txt; give a manifest instead";
        return Err(Error::finding(DEED, path, why));
    }
    let others = || found.iter().map(|(_, by)| *by).collect::<Vec<_>>();
    let manifest = there.ok_or_else(|| not_computed(path, &others()))?;
    declaration(path).map(|_| Some(manifest.clone())).map_err(|why| {
        let manifest = Shown::path(&manifest);
        let why = format!("{why}, so this is no bag; give its manifest: --expect {manifest}");
        Error::finding(DEED, declared, why)
    })
}

/// The algorithm of a manifest, or what it is called there if it is not known here.
type ManifestBy = std::result::Result<Algorithm, OtherName>;

/// By which algorithm the manifest of a payload is that is called so; `None` if it is none.
fn payload_by(name: &str) -> Option<ManifestBy> {
    // What a manifest means does not hang on the letter case of its name.
    match bag::manifest_name(&name.to_ascii_lowercase()) {
        Some((false, by)) => Some(by.map_err(OtherName::of)),
        _ => None,
    }
}

/// The manifests of the payload in the directory `bag`.
fn payload_manifests(bag: &Path) -> io::Result<Vec<(OsString, ManifestBy)>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(bag)? {
        let name = entry?.file_name();
        let by = name.to_str().and_then(payload_by).filter(|_| bag.join(&name).is_file());
        found.extend(by.map(|by| (name, by)));
    }
    Ok(found)
}

/// Why nothing can be expected of the bag, or its manifest, at `path`: its digests are by these algorithms.
fn not_computed(path: &Path, by: &[ManifestBy]) -> Error {
    if by.is_empty() {
        return Error::finding(DEED, path, "it has no manifest of its payload");
    }
    let names = by.iter().map(|by| by.map_or_else(|it| it.to_string(), |it| it.shown().to_owned()));
    let names: Vec<String> = names.collect();
    let program = match by.iter().any(std::result::Result::is_ok) {
        true => "dirverify",
        false => "a program that knows it",
    };
    let finding = format!(
        "its digests are by {}, which a copy does not compute; check the bag with {program}, and copy without --expect",
        names.join(", ")
    );
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
    let bag = directory_of(path);
    let Some(by) = payload_by(name).filter(|_| is_there(&bag.join(DECLARATION))) else {
        return Ok(None);
    };
    let is_computed = |algorithm: &Algorithm| Algorithm::listed().any(|it| it == *algorithm);
    let algorithm = by.ok().filter(is_computed).ok_or_else(|| not_computed(path, &[by]))?;
    // Its names are below data/ whatever the declaration says.
    let declared = declaration(bag);
    let fail = |error| Error::io("read the expected manifest", path, error);
    let mut start = Vec::new();
    FileRange::new(file, 0, 2).read_to_end(&mut start).map_err(fail)?;
    if is_utf16(&start) && declared.as_ref().is_ok_and(|it| it.encoding != Encoding::Utf16) {
        return Err(Error::finding(DEED, path, OTHER_ENCODING));
    }
    let declaration = declared.unwrap_or(NEWEST);
    let identity = |path: &Path| Dir::open(path).and_then(|dir| dir.identity()).ok();
    let is_whole = identity(bag).is_some_and(|id| identity(source) == Some(id));
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
