//! A bag as a list of what is expected of a source: the manifest of its payload, as other programs wrote it.
//!
//! Its names begin with `data/`, and have line ends and `%` in an escape of their own. Where the source is not the bag
//! itself but its payload, or what was unpacked of it, the names begin below that.

use std::{ffi::OsString, fs::File, io, io::Read, path::Path, path::PathBuf};

use crate::manifest::archive::{bag, bag::DECLARATION, bag::OTHER_ENCODING, bag::lines};
use crate::{
    error::Deed, error::Error, error::Result, hash::Algorithm, manifest::Declaration,
    manifest::Encoding, manifest::OtherName, manifest::Scanner, manifest::Text,
    manifest::Utf16Reader, manifest::lists, manifest::read::is_utf16, path::Shown,
    path::directory_of, sys, sys::Dir, sys::DirListing, sys::FileRange, sys::PlainUse,
    sys::Uninterrupted,
};

/// More is no declaration of a bag; bytes.
const MOST_DECLARATION: u64 = 4 << 10;

/// The declaration that is assumed for a manifest whose bag has none.
const NEWEST: Declaration = Declaration { version: (1, 0), encoding: Encoding::Utf8 };

/// Number of bytes that are written at a time.
const BUFFER: usize = 256 << 10;

/// The first part of every name of the payload.
const BELOW: &str = "data/";

/// The deed in errors about an expected manifest; completes "cannot …".
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
    let found = payload_manifests(path).deed("list", path)?;
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

/// The algorithm of a payload manifest with this name; `None` if it is no such name.
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
    for entry in DirListing::at(bag)? {
        let name = entry?.name.to_os_string();
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

/// True if anything has this name, be it a link that leads nowhere.
fn is_there(path: &Path) -> bool {
    !path.symlink_metadata().is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
}

/// The manifest of a bag's payload, as an ordinary list.
pub struct PayloadList {
    /// Its lines, as those of a list.
    pub file: File,
    /// The algorithm of its digests.
    pub algorithm: Algorithm,
    /// The prefix of payload names in the source: nothing, or the directory of the payload.
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

/// The declaration that makes the directory a bag.
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
            Some((digest, name)) => lists::write_known(&mut text, &digest, name),
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

// The tags of a bag, which `bag-info.txt` has: taken from a command line or such a file, and written.

/// Label of the number of bytes and files of the payload. Its value is computed, never given.
pub const OXUM: &str = "Payload-Oxum";

/// When the bag was made.
pub const DATE: &str = "Bagging-Date";

/// Label of the program that made the bag.
pub const AGENT: &str = "Bag-Software-Agent";

/// A label and its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InfoTag {
    label: String,
    value: String,
}

impl InfoTag {
    /// A tag with this label and value, without the blanks around them.
    ///
    /// # Errors
    /// Such a tag cannot be written, or is not to be given.
    pub fn new(label: &str, value: &str) -> Result<Self, String> {
        match label.trim().eq_ignore_ascii_case(OXUM) {
            true => Err(format!("{OXUM} is computed, not given")),
            false => Self::any(label, value),
        }
    }

    fn any(label: &str, value: &str) -> Result<Self, String> {
        let (label, value) = (label.trim(), value.trim());
        let is_bad_label = |c: char| matches!(c, ':' | '\u{feff}') || c.is_control();
        if label.is_empty() || label.contains(is_bad_label) {
            return Err(format!("{label:?} cannot be the label of a tag"));
        }
        if value.is_empty() || value.contains(is_bad) {
            return Err(format!("the value of {label} is empty, or is not one line of text"));
        }
        Ok(Self { label: label.to_owned(), value: value.to_owned() })
    }

    /// Reads `LABEL=VALUE`.
    ///
    /// # Errors
    /// It is none.
    pub fn parse(text: &str) -> Result<Self, String> {
        let (label, value) = text.split_once('=').ok_or("expected LABEL=VALUE")?;
        Self::new(label, value)
    }

    /// Reads the `bag-info.txt` of a bag, which has also what is computed.
    ///
    /// # Errors
    /// The fault of the tags.
    pub fn read_all(text: &str) -> Result<Vec<Self>, String> {
        let mut tags: Vec<Self> = Vec::new();
        for (at, line) in lines(text.strip_prefix('\u{feff}').unwrap_or(text)).enumerate() {
            let fail = |why: String| format!("line {}: {why}", at + 1);
            if line.trim().is_empty() {
                continue;
            }
            if line.starts_with([' ', '\t']) {
                let last = tags.last_mut();
                let last =
                    last.ok_or_else(|| fail("there is no tag that it goes on with".into()))?;
                if line.trim().contains(is_bad) {
                    return Err(fail(format!("the value of {} is no text", last.label)));
                }
                last.value.push(' ');
                last.value.push_str(line.trim());
                continue;
            }
            let split = line.split_once(':');
            let (label, value) = split.ok_or_else(|| fail("it has no label".into()))?;
            tags.push(Self::any(label, value).map_err(fail)?);
        }
        Ok(tags)
    }

    /// The tags of a bag that has `there` and is given `given`: a tag stays, unless one of the same label is given.
    /// Tags that a run computes are not among them.
    pub fn merged(there: &[Self], given: &[Self]) -> Vec<Self> {
        let mut tags: Vec<Self> = Vec::new();
        for tag in there {
            let is_computed = [OXUM, DATE, AGENT].iter().any(|label| tag.is(label));
            match given.iter().any(|it| it.is(&tag.label)) {
                // All of a label come in the place of the first.
                true if !tags.iter().any(|it| it.is(&tag.label)) => {
                    tags.extend(given.iter().filter(|it| it.is(&tag.label)).cloned());
                }
                false if !is_computed => tags.push(tag.clone()),
                _ => {}
            }
        }
        let is_new = |tag: &&Self| !tags.iter().any(|it| it.is(&tag.label));
        let new: Vec<Self> = given.iter().filter(is_new).cloned().collect();
        [tags, new].concat()
    }

    /// One that the program gives.
    pub fn own(label: &'static str, value: String) -> Self {
        Self { label: label.to_owned(), value }
    }

    /// True if it has this label: letter case means nothing.
    pub fn is(&self, label: &str) -> bool {
        self.label.eq_ignore_ascii_case(label)
    }

    /// Its value.
    pub fn value(&self) -> &str {
        &self.value
    }

    /// The text of a `bag-info.txt` with these tags.
    pub fn write_all(tags: &[Self]) -> String {
        tags.iter().map(|tag| format!("{}: {}\n", tag.label, tag.value)).collect()
    }
}

/// True for a character that no value of a tag may have.
fn is_bad(c: char) -> bool {
    c.is_control() && c != '\t'
}

// Line ends of any kind, as those text files have them that may come from anywhere.

/// Gives out LF for CR LF and for CR alone.
#[derive(Debug)]
pub struct LineEnds<R> {
    input: R,
    /// The last byte was a CR.
    after_cr: bool,
}

impl<R: Read> LineEnds<R> {
    /// Reads from `input`.
    pub fn new(input: R) -> Self {
        Self { input, after_cr: false }
    }
}

impl<R: Read> Read for LineEnds<R> {
    fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        loop {
            let got = sys::uninterrupted(|| self.input.read(room))?;
            let mut kept = 0;
            for at in 0..got {
                let byte = room[at];
                let is_second =
                    std::mem::replace(&mut self.after_cr, byte == b'\r') && byte == b'\n';
                if !is_second {
                    room[kept] = if byte == b'\r' { b'\n' } else { byte };
                    kept += 1;
                }
            }
            if kept > 0 || got == 0 {
                return Ok(kept);
            }
        }
    }
}

#[cfg(test)]
mod bag_info_tests {
    use super::*;
    use crate::manifest::archive::bag::payload_oxum;

    #[test]
    fn tags_are_read_and_written() {
        let tag = InfoTag::parse("Contact-Name=A: b = c").unwrap();
        assert_eq!(InfoTag::write_all(std::slice::from_ref(&tag)), "Contact-Name: A: b = c\n");
        assert!(tag.is("contact-name") && tag.value() == "A: b = c");
        let text = "Contact-Name: A\r\n  b\r\nNote: c\n\td\n";
        let read = InfoTag::read_all(text).unwrap();
        assert_eq!(InfoTag::write_all(&read), "Contact-Name: A b\nNote: c d\n");
        for bad in ["a", "=b", "a=", "a:b=c", "a\nb=c", "a=b\nc", "payload-oxum=1.1"] {
            assert!(InfoTag::parse(bad).is_err(), "{bad:?}");
        }
        for bad in [" a: b", "a", ": b", "a: \0", "\u{feff}\u{feff}a: b"] {
            assert!(InfoTag::read_all(bad).unwrap_err().starts_with("line 1: "), "{bad:?}");
        }
        let folded = InfoTag::read_all("a: b\n c\n \u{1}d\n").unwrap_err();
        assert!(folded.starts_with("line 3: "), "{folded}");
        assert_eq!(InfoTag::read_all(&InfoTag::write_all(&read)), Ok(read));
        let oxum = InfoTag::own(OXUM, "12.3".into());
        let text = InfoTag::write_all(std::slice::from_ref(&oxum));
        assert_eq!(InfoTag::read_all(&text), Ok(vec![oxum.clone()]));
        assert_eq!(payload_oxum(&InfoTag::write_all(&[oxum])), Ok(Some((12, 3))));
    }

    #[test]
    fn tags_stay_unless_one_of_their_label_is_given() {
        let tags = |text: &str| InfoTag::read_all(text).unwrap();
        let merged = |there, given| {
            InfoTag::write_all(&InfoTag::merged(&tags(there), &tags(given))).replace('\n', "; ")
        };
        let there = "A: 1\nB: 2\nA: 3\nBagging-Date: 2001-01-01\nPayload-Oxum: 1.1\n";
        assert_eq!(merged(there, ""), "A: 1; B: 2; A: 3; ");
        assert_eq!(merged(there, "a: 4\nC: 5\nA: 6\n"), "a: 4; A: 6; B: 2; C: 5; ");
        assert_eq!(merged(there, "Bagging-Date: x\nb: 2\n"), "A: 1; b: 2; A: 3; Bagging-Date: x; ");
        assert_eq!(merged("", "C: 5\nC: 6\n"), "C: 5; C: 6; ");
    }
}

#[cfg(test)]
mod line_ends_tests {
    use super::*;

    #[test]
    fn every_kind_of_line_end_is_one() {
        for room in 1..9 {
            let (mut input, mut all) = (LineEnds::new(&b"a\r\nb\rc\n\r\r\n\nd\r"[..]), Vec::new());
            let mut room = vec![0; room];
            loop {
                let got = input.read(&mut room).unwrap();
                if got == 0 {
                    break;
                }
                all.extend_from_slice(&room[..got]);
            }
            assert_eq!(all, b"a\nb\nc\n\n\n\nd\n");
        }
    }
}
