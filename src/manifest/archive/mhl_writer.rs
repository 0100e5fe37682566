//! Media Hash Lists being written: generations of ASC MHL 2, the chains of them, and legacy lists (1.1).
//!
//! The elements are in the order of the schemas, which is not free. What XML cannot hold as it is, line ends among it,
//! is written as a character reference, so that every name that [`is_text`] comes back as it was.

use std::{io, io::Write};

use quick_xml::{
    Writer, events::BytesDecl, events::BytesEnd, events::BytesStart, events::BytesText,
    events::Event,
};
use serde::{Deserialize, Serialize};

use crate::{hash::Algorithm, hash::Digest, manifest::ChainLink, sys};

/// True if XML 1.0 can hold this text.
pub fn is_text(bytes: &[u8]) -> bool {
    let is_char = |c: char| matches!(c, '\t' | '\n' | '\r' | ' '..='\u{fffd}' | '\u{10000}'..);
    std::str::from_utf8(bytes).is_ok_and(|text| text.chars().all(is_char))
}

/// The `action` attribute of a digest in a history.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum HashAction {
    /// The file was not in the history.
    Original,
    /// It is what the history has.
    Verified,
    /// It is not.
    Failed,
}

impl HashAction {
    /// Its word.
    pub fn name(self) -> &'static str {
        match self {
            HashAction::Original => "original",
            HashAction::Verified => "verified",
            HashAction::Failed => "failed",
        }
    }
}

/// The digests of a directory by one algorithm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DirHash {
    /// The digest of the content of its files.
    pub content: Digest,
    /// The digest of these and of the names.
    pub structure: Digest,
}

/// Who wrote a list, and when; the dates as XML has them.
#[derive(Clone, Debug)]
pub struct Creator {
    /// The name of the machine.
    pub host: String,
    /// The name of the user.
    pub user: String,
    /// When the run began.
    pub started: String,
    /// When the list was written.
    pub finished: String,
}

/// A file, as a list has it.
#[derive(Clone, Debug)]
pub struct MediaEntry<'a> {
    /// Its path below the directory of the list.
    pub path: &'a str,
    /// Its size in bytes.
    pub size: u64,
    /// When it was last changed, as XML has it.
    pub modified: String,
    /// Its digests, in the order of the schema.
    pub digests: &'a [Digest],
    /// The digest's `action` attribute.
    pub action: HashAction,
    /// When it was read, if that was in this run.
    pub read: Option<&'a str>,
    /// The file's name in older generations.
    pub previous: Option<&'a str>,
}

const PROGRAM: &str = "dircopy";
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Writes one list.
pub struct MhlWriter<W: Write> {
    xml: Writer<W>,
    /// True if an element of entries is open.
    has_entries: bool,
}

/// An attribute of an element.
struct Attribute<'a>(&'static str, &'a str);

impl<W: Write> MhlWriter<W> {
    fn new(out: W) -> io::Result<Self> {
        let mut xml = Writer::new_with_indent(out, b' ', 2);
        xml.write_event(Event::Decl(BytesDecl::new("1.0", Some("UTF-8"), None)))?;
        Ok(Self { xml, has_entries: false })
    }

    /// Begins a generation that leaves out files by these patterns. Of the root there may be digests.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn generation(
        out: W,
        creator: &Creator,
        root: &[DirHash],
        patterns: &[String],
    ) -> io::Result<Self> {
        let mut list = Self::new(out)?;
        let space = [Attribute("version", "2.0"), Attribute("xmlns", "urn:ASC:MHL:v2.0")];
        list.open("hashlist", &space)?;
        list.open("creatorinfo", &[])?;
        list.leaf("creationdate", &[], &creator.started)?;
        list.leaf("hostname", &[], &creator.host)?;
        list.leaf("tool", &[Attribute("version", VERSION)], PROGRAM)?;
        list.close("creatorinfo")?;
        list.open("processinfo", &[])?;
        list.leaf("process", &[], "transfer")?;
        if !root.is_empty() {
            list.open("roothash", &[])?;
            list.dir_hashes(root, &creator.finished)?;
            list.close("roothash")?;
        }
        list.open("ignore", &[])?;
        patterns.iter().try_for_each(|pattern| list.leaf("pattern", &[], pattern))?;
        list.close("ignore")?;
        list.close("processinfo")?;
        Ok(list)
    }

    fn begin_entries(&mut self) -> io::Result<()> {
        if std::mem::replace(&mut self.has_entries, true) {
            return Ok(());
        }
        self.open("hashes", &[])
    }

    /// Writes a file of a generation.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn file(&mut self, file: &MediaEntry<'_>) -> io::Result<()> {
        self.begin_entries()?;
        self.open("hash", &[])?;
        let size = file.size.to_string();
        let stat = [Attribute("size", &size), Attribute("lastmodificationdate", &file.modified)];
        self.leaf("path", &stat, file.path)?;
        for digest in file.digests {
            let action = Attribute("action", file.action.name());
            let date = file.read.map(|date| Attribute("hashdate", date));
            let attributes: Vec<Attribute<'_>> = [action].into_iter().chain(date).collect();
            self.leaf(digest.algorithm().name(), &attributes, &digest.to_string())?;
        }
        if let Some(previous) = file.previous {
            self.leaf("previousPath", &[], previous)?;
        }
        self.close("hash")
    }

    /// Writes a directory of a generation, last changed at `modified`, with digests as of `date`.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn directory(
        &mut self,
        path: &str,
        modified: &str,
        hashes: &[DirHash],
        date: &str,
    ) -> io::Result<()> {
        self.begin_entries()?;
        self.open("directoryhash", &[])?;
        self.leaf("path", &[Attribute("lastmodificationdate", modified)], path)?;
        self.dir_hashes(hashes, date)?;
        self.close("directoryhash")
    }

    fn dir_hashes(&mut self, hashes: &[DirHash], date: &str) -> io::Result<()> {
        for (name, is_content) in [("content", true), ("structure", false)] {
            self.open(name, &[])?;
            for hash in hashes {
                let digest = if is_content { hash.content } else { hash.structure };
                let date = [Attribute("hashdate", date)];
                self.leaf(digest.algorithm().name(), &date, &digest.to_string())?;
            }
            self.close(name)?;
        }
        Ok(())
    }

    /// Ends a generation, with what it refers to in histories further below; returns what it was written to.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn finish_generation(mut self, references: &[ChainLink]) -> io::Result<W> {
        if self.has_entries {
            self.close("hashes")?;
        }
        if !references.is_empty() {
            self.open("references", &[])?;
            references.iter().try_for_each(|link| self.link("hashlistreference", &[], link))?;
            self.close("references")?;
        }
        self.close("hashlist")?;
        self.end()
    }

    /// Writes a chain.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn chain(out: W, links: &[ChainLink]) -> io::Result<W> {
        let mut list = Self::new(out)?;
        list.open("ascmhldirectory", &[Attribute("xmlns", "urn:ASC:MHL:DIRECTORY:v2.0")])?;
        for link in links {
            let number = link.number.to_string();
            list.link("hashlist", &[Attribute("sequencenr", &number)], link)?;
        }
        list.close("ascmhldirectory")?;
        list.end()
    }

    fn link(
        &mut self,
        name: &str,
        attributes: &[Attribute<'_>],
        link: &ChainLink,
    ) -> io::Result<()> {
        self.open(name, attributes)?;
        self.leaf("path", &[], &link.name)?;
        if let Some(digest) = &link.digest {
            self.leaf(digest.algorithm().name(), &[], &digest.to_string())?;
        }
        self.close(name)
    }

    /// Begins a legacy list.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn legacy(out: W, creator: &Creator) -> io::Result<Self> {
        let mut list = Self::new(out)?;
        list.open("hashlist", &[Attribute("version", "1.1")])?;
        list.leaf("creationdate", &[], &creator.finished)?;
        list.open("creatorinfo", &[])?;
        list.leaf("username", &[], &creator.user)?;
        list.leaf("hostname", &[], &creator.host)?;
        list.leaf("tool", &[], &format!("{PROGRAM} {VERSION}"))?;
        list.leaf("startdate", &[], &creator.started)?;
        list.leaf("finishdate", &[], &creator.finished)?;
        list.close("creatorinfo")?;
        Ok(list)
    }

    /// Writes a file of a legacy list; it has no more than digests that such lists have.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn legacy_file(&mut self, file: &MediaEntry<'_>, date: &str) -> io::Result<()> {
        self.open("hash", &[])?;
        self.leaf("file", &[], file.path)?;
        self.leaf("size", &[], &file.size.to_string())?;
        self.leaf("lastmodificationdate", &[], &file.modified)?;
        for digest in file.digests {
            let name = match digest.algorithm() {
                Algorithm::Xxh64 => "xxhash64be",
                other => other.name(),
            };
            self.leaf(name, &[], &digest.to_string())?;
        }
        self.leaf("hashdate", &[], date)?;
        self.close("hash")
    }

    /// Ends a legacy list; returns what it was written to.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn finish_legacy(mut self) -> io::Result<W> {
        self.close("hashlist")?;
        self.end()
    }

    /// Gives it up; returns what it was written to.
    pub fn discard(self) -> W {
        self.xml.into_inner()
    }

    fn end(self) -> io::Result<W> {
        let mut out = self.xml.into_inner();
        sys::write_all(&mut out, b"\n")?;
        Ok(out)
    }

    fn open(&mut self, name: &str, attributes: &[Attribute<'_>]) -> io::Result<()> {
        let attributes = attributes.iter().map(|Attribute(name, value)| (*name, *value));
        self.xml.write_event(Event::Start(BytesStart::new(name).with_attributes(attributes)))
    }

    fn close(&mut self, name: &str) -> io::Result<()> {
        self.xml.write_event(Event::End(BytesEnd::new(name)))
    }

    fn leaf(&mut self, name: &str, attributes: &[Attribute<'_>], text: &str) -> io::Result<()> {
        self.open(name, attributes)?;
        let escaped = quick_xml::escape::partial_escape(text);
        let escaped = escaped.replace('\r', "&#13;").replace('\n', "&#10;").replace('\t', "&#9;");
        self.xml.write_event(Event::Text(BytesText::from_escaped(escaped)))?;
        self.close(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{manifest::MhlEntries, manifest::MhlEntry, manifest::MhlPiece, manifest::Named};

    fn creator() -> Creator {
        let date = "2026-01-01T00:00:00+00:00".to_owned();
        Creator { host: "h&h".into(), user: "u".into(), started: date.clone(), finished: date }
    }

    fn digest(algorithm: Algorithm) -> Digest {
        algorithm.start().finish().unwrap()
    }

    fn read(list: &[u8]) -> Vec<MhlPiece> {
        let mut entries = MhlEntries::new(list);
        std::iter::from_fn(|| Some(entries.next_piece().unwrap()?.1)).collect()
    }

    const NAMES: [&str; 5] = ["a b", " lead ", "<&>\"'", "cr\rlf\ntab\t", "é😀"];

    #[test]
    fn every_name_comes_back_as_it_was() {
        let digests = [digest(Algorithm::C4), digest(Algorithm::Xxh64)];
        let file = |path| MediaEntry {
            path,
            size: 0,
            modified: creator().started,
            digests: &digests,
            action: HashAction::Original,
            read: None,
            previous: Some("old"),
        };
        let patterns = vec!["ascmhl".to_owned(), "<*>".to_owned()];
        let mut list = MhlWriter::generation(Vec::new(), &creator(), &[], &patterns).unwrap();
        NAMES.iter().for_each(|name| list.file(&file(name)).unwrap());
        let link = ChainLink { number: 1, name: "x/ascmhl/y".into(), digest: Some(digests[0]) };
        let text = list.finish_generation(std::slice::from_ref(&link)).unwrap();
        let entry = |named, path: &str, previous: Option<&str>| {
            let previous = previous.map(str::to_owned);
            let digests = if named == Named::File { &digests[..] } else { &digests[..1] };
            let (path, digests) = (path.into(), digests.to_vec());
            MhlPiece::Entry(MhlEntry { named, path, previous, digests, other: None })
        };
        let mut expected: Vec<MhlPiece> = patterns.into_iter().map(MhlPiece::Ignored).collect();
        expected.extend(NAMES.iter().map(|name| entry(Named::File, name, Some("old"))));
        expected.push(entry(Named::Reference, "x/ascmhl/y", None));
        assert_eq!(read(&text), expected);
        let chain = MhlWriter::chain(Vec::new(), &[link]).unwrap();
        assert_eq!(read(&chain), [entry(Named::Generation(1), "x/ascmhl/y", None)]);
        let mut list = MhlWriter::legacy(Vec::new(), &creator()).unwrap();
        let legacy = MediaEntry { digests: &digests[1..], ..file("a") };
        list.legacy_file(&legacy, &creator().finished).unwrap();
        match &read(&list.finish_legacy().unwrap())[..] {
            [MhlPiece::Entry(entry)] => assert_eq!(entry.digest(), Some(digests[1])),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn what_xml_cannot_hold_is_known() {
        assert!(NAMES.iter().all(|name| is_text(name.as_bytes())));
        for bytes in [b"\x01".as_slice(), b"\x1b", b"\xff", "\u{ffff}".as_bytes(), b"\x00"] {
            assert!(!is_text(bytes), "{bytes:?}");
        }
    }
}
