//! Media Hash Lists: those of ASC MHL 2 with the chain of their generations, and legacy ones (1.x).
//!
//! One reader for all, because the outermost element says which it is. It gives each file with the digests that may be
//! used; a digest that is marked as `failed` never is one.

use std::{io, io::Read, path::Path};

use crate::{
    error::Deed, error::Error, error::Result, hash::Algorithm, hash::Digest, manifest::Fault,
    manifest::OtherName, manifest::archive::xml::Xml, manifest::archive::xml::XmlStep,
    manifest::archive::xml::wide_encoding, path::RelPath, sys::Dir, sys::DirListing,
};

/// The directory of a history, below the one that it is of.
pub const HISTORY: &str = "ascmhl";

/// The list of the generations in it.
pub const CHAIN: &str = "ascmhl_chain.xml";

/// True if the file at this path is the chain of a history.
pub fn is_chain(path: &[u8]) -> bool {
    let mut last = path.rsplit(|byte| *byte == b'/');
    last.next() == Some(CHAIN.as_bytes()) && last.next() == Some(HISTORY.as_bytes())
}

/// The algorithms that a generation may have digests of, in the order of its elements.
pub const OF_HISTORIES: [Algorithm; 6] = [
    Algorithm::C4,
    Algorithm::Md5,
    Algorithm::Sha1,
    Algorithm::Xxh128,
    Algorithm::Xxh3,
    Algorithm::Xxh64,
];

/// The algorithms that a legacy list may have digests of, in the order of its elements.
pub const OF_LEGACY: [Algorithm; 3] = [Algorithm::Md5, Algorithm::Sha1, Algorithm::Xxh64];

/// The possible first bytes of a file of this kind, spaces aside.
const STARTS: [&[u8]; 4] = [b"<?xml", b"<!DOCTYPE", b"<hashlist", b"<ascmhldirectory"];

/// The names of elements and attributes that matter.
const NAMES: &[&str] = &[
    "hashlist",
    "ascmhldirectory",
    "hashes",
    "hash",
    "path",
    "previousPath",
    "references",
    "hashlistreference",
    "file",
    "version",
    "action",
    "c4",
    "md5",
    "sha1",
    "xxh128",
    "xxh3",
    "xxh64",
    "xxhash64be",
    "xxhash64",
    "xxhash",
    "null",
    "sha256",
    "sha512",
    "blake3",
    "sequencenr",
    "ignore",
    "pattern",
    "processinfo",
];

/// True if a file with these first bytes is read by [`MhlEntries`].
pub fn is_mhl(start: &[u8]) -> bool {
    if wide_encoding(start).is_some() {
        let text: Vec<u8> = start.iter().copied().filter(|byte| matches!(byte, 1..0x80)).collect();
        let text = text.trim_ascii_start();
        return STARTS.iter().any(|name| text.starts_with(name));
    }
    let start = start.strip_prefix(b"\xef\xbb\xbf").unwrap_or(start).trim_ascii_start();
    STARTS.iter().any(|name| start.starts_with(name))
}

/// True if a file with these first bytes is a legacy list that dircopy wrote.
pub fn is_legacy_of_ours(start: &[u8]) -> bool {
    const TOOL: &[u8] = b"<tool>dircopy ";
    let begin = b"<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<hashlist version=\"1.1\">\n";
    start.starts_with(begin) && memchr::memmem::find(start, TOOL).is_some()
}

/// Reads the entries of a list; see the [module](self).
pub struct MhlEntries<R> {
    xml: Xml<R>,
    dialect: Dialect,
    entry: Pending,
}

impl<R: Read> MhlEntries<R> {
    /// Reads from `input`.
    pub fn new(input: R) -> Self {
        Self { xml: Xml::new(input, NAMES), dialect: Dialect::Unknown, entry: Pending::default() }
    }

    /// The next entry or fault, with the line that it ends on; `None` at the end.
    ///
    /// # Errors
    /// The input cannot be read; nothing comes after that.
    pub fn next_piece(&mut self) -> io::Result<Option<(u64, MhlPiece)>> {
        loop {
            let fault = match self.xml.step()? {
                XmlStep::End => return Ok(None),
                XmlStep::Other => continue,
                XmlStep::Fault(why) => Some(why),
                XmlStep::Open => self.open(),
                XmlStep::Close => {
                    if let Some(piece) = self.close() {
                        return Ok(Some((self.xml.line(), piece)));
                    }
                    None
                }
            };
            if let Some(why) = fault {
                return Ok(Some((self.xml.line(), MhlPiece::Fault(Fault::Form(why)))));
            }
        }
    }

    fn open(&mut self) -> Option<&'static str> {
        let version = self.xml.attribute("version");
        let is_legacy = self.dialect == Dialect::Legacy;
        match self.xml.stack() {
            ["hashlist"] => match version {
                Some("2.0") => self.dialect = Dialect::Generation,
                Some("1.0" | "1.1") => self.dialect = Dialect::Legacy,
                _ => return Some("it is a list of hashes of a version that is not known"),
            },
            ["ascmhldirectory"] => self.dialect = Dialect::Chain,
            [_] => return Some("it is XML, and no Media Hash List"),
            [.., "hash", "hash"] => self.entry.fault = Some("an entry lies in another one"),
            ["hashlist", "hashes", "hash"] if !is_legacy => self.entry = Pending::default(),
            ["hashlist", "hash"] if is_legacy => self.entry = Pending::default(),
            ["hashlist", "references", "hashlistreference"] => self.entry = Pending::default(),
            [.., "hash"] => return Some("an entry stands where such a list has none"),
            ["ascmhldirectory", "hashlist"] => {
                let sequence = self.xml.attribute("sequencenr").and_then(|it| it.parse().ok());
                self.entry = Pending::default();
                self.entry.sequence = sequence;
            }
            [.., "hash" | "hashlistreference" | "hashlist", _] => {
                self.entry.is_failed = self.xml.attribute("action") == Some("failed");
                self.entry.unusual = self.xml.unusual();
            }
            // What has parts is no digest.
            [.., "hash" | "hashlistreference" | "hashlist", "", _] => self.entry.unusual = None,
            _ => {}
        }
        None
    }

    fn close(&mut self) -> Option<MhlPiece> {
        let text = self.xml.text();
        match (self.dialect, self.xml.stack()) {
            (Dialect::Generation, ["hashlist", "hashes", "hash"]) => self.entry.finish(Named::File),
            (Dialect::Generation, ["hashlist", "references", "hashlistreference"]) => {
                self.entry.finish(Named::Reference)
            }
            (Dialect::Legacy, ["hashlist", "hash"]) => self.entry.finish(Named::File),
            (Dialect::Generation, ["hashlist", "processinfo", "ignore", "pattern"]) => {
                Some(MhlPiece::Ignored(text.to_owned()))
            }
            (Dialect::Chain, ["ascmhldirectory", "hashlist"]) => {
                let number = self.entry.sequence;
                match number {
                    Some(number) => self.entry.finish(Named::Generation(number)),
                    None => Some(MhlPiece::Fault(Fault::Form("a generation has no number"))),
                }
            }
            (Dialect::Generation, ["hashlist", "hashes", "hash", name])
            | (Dialect::Generation, ["hashlist", "references", "hashlistreference", name])
            | (Dialect::Chain, ["ascmhldirectory", "hashlist", name])
            | (Dialect::Legacy, ["hashlist", "hash", name]) => {
                self.entry.part(self.dialect, name, text);
                None
            }
            _ => None,
        }
    }
}

// An entry of a Media Hash List, put together from its elements.

/// Elements of an entry that have no digest, whatever is in them.
const NO_DIGESTS: [&str; 6] =
    ["size", "creationdate", "lastmodificationdate", "hashdate", "metadata", "comment"];

/// The least characters of a digest.
const LEAST_DIGEST: usize = 8;

/// The dialects of Media Hash Lists.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Dialect {
    /// Its root element was not read yet.
    #[default]
    Unknown,
    /// ASC MHL 2: a generation.
    Generation,
    /// The generations of a history.
    Chain,
    /// MHL 1.
    Legacy,
}

/// The kinds of thing that an entry names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Named {
    /// A file.
    File,
    /// A generation of a history further below.
    Reference,
    /// A generation of this history, by its number.
    Generation(u64),
}

/// A file that is listed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MhlEntry {
    /// The kind of the entry.
    pub named: Named,
    /// Its path, not checked.
    pub path: String,
    /// Its name in earlier generations.
    pub previous: Option<String>,
    /// The digests that may be used, one of each algorithm, the strongest first.
    pub digests: Vec<Digest>,
    /// The name of a digest that cannot be computed here.
    pub other: Option<OtherName>,
}

impl MhlEntry {
    /// The strongest digest that may be used.
    pub fn digest(&self) -> Option<Digest> {
        self.digests.first().copied()
    }
}

/// One piece of a list, in the order of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MhlPiece {
    /// A file.
    Entry(MhlEntry),
    /// A pattern of files that the history leaves out, as gitignore(5) has them.
    Ignored(String),
    /// A fault of the list.
    Fault(Fault),
}

/// An entry of which not all was read.
#[derive(Default)]
pub struct Pending {
    path: Option<String>,
    previous: Option<String>,
    digests: Vec<Digest>,
    /// The name of a digest that cannot be computed here.
    other: Option<OtherName>,
    /// True if the entry has a digest of any kind.
    has_digest: bool,
    /// The name of the part that is being read, if it is none that such lists have.
    pub unusual: Option<OtherName>,
    /// True if the digest that is being read failed.
    pub is_failed: bool,
    /// The number of the generation, as the chain gives it.
    pub sequence: Option<u64>,
    /// The fault of the entry, if it has one.
    pub fault: Option<&'static str>,
}

impl Pending {
    /// Ends the entry; nothing of it is left.
    pub fn finish(&mut self, named: Named) -> Option<MhlPiece> {
        let Pending { path, previous, mut digests, other, has_digest, fault, .. } =
            std::mem::take(self);
        // The table has the strongest first.
        digests.sort_by_key(Digest::algorithm);
        let fault = match (fault, &path) {
            (Some(why), _) => Some(Fault::Form(why)),
            (None, None) => Some(Fault::NoName),
            (None, Some(_)) if !has_digest => Some(Fault::Form("an entry has no digest")),
            (None, Some(_)) => None,
        };
        Some(match (fault, path) {
            (None, Some(path)) => {
                MhlPiece::Entry(MhlEntry { named, path, previous, digests, other })
            }
            (fault, _) => MhlPiece::Fault(fault.unwrap_or(Fault::NoName)),
        })
    }

    /// Takes an element of an entry.
    pub fn part(&mut self, dialect: Dialect, name: &'static str, text: &str) {
        let algorithm = match (dialect, name) {
            (Dialect::Legacy, "file") | (Dialect::Generation | Dialect::Chain, "path") => {
                if self.path.replace(text.to_owned()).is_some() {
                    self.fault = Some("an entry has two paths");
                }
                return;
            }
            (Dialect::Generation, "previousPath") => {
                self.previous = Some(text.to_owned());
                return;
            }
            (_, "md5") => Algorithm::Md5,
            (_, "sha1") => Algorithm::Sha1,
            (Dialect::Generation | Dialect::Chain, "c4") => Algorithm::C4,
            (Dialect::Generation, "xxh128") => Algorithm::Xxh128,
            (Dialect::Generation, "xxh3") => Algorithm::Xxh3,
            (Dialect::Generation, "xxh64") | (Dialect::Legacy, "xxhash64be" | "xxhash64") => {
                Algorithm::Xxh64
            }
            (Dialect::Legacy, "xxhash") => return self.unknown("XXH32"),
            (Dialect::Legacy, "null") => return self.unknown("null"),
            (_, "sha256") => return self.unknown("SHA-256, which no such list has"),
            (_, "sha512") => return self.unknown("SHA-512, which no such list has"),
            (_, "blake3") => return self.unknown("BLAKE3, which no such list has"),
            (_, "") => return self.unusual_part(text),
            _ => return,
        };
        self.has_digest = true;
        if self.is_failed {
            return;
        }
        let digest = match name {
            "xxhash64" => turned(text.trim_ascii()),
            _ => Digest::parse(algorithm, text.trim_ascii().as_bytes()),
        };
        match digest {
            None => self.fault = Some("a digest is not of the form that its name says"),
            Some(digest) => {
                let same = self.digests.iter().find(|it| it.algorithm() == digest.algorithm());
                match same {
                    None => self.digests.push(digest),
                    Some(same) if *same == digest => {}
                    Some(_) => self.fault = Some("an entry has two digests of one algorithm"),
                }
            }
        }
    }

    fn unknown(&mut self, name: &'static str) {
        self.has_digest = true;
        self.other = Some(name.into());
    }

    /// Takes an element that such lists do not have: it may be a digest, by an algorithm of that name.
    fn unusual_part(&mut self, text: &str) {
        let Some(name) = self.unusual.take() else { return };
        let text = text.trim_ascii();
        let is_of_digest = |byte: u8| byte.is_ascii_alphanumeric() || b"+/=".contains(&byte);
        let is_digest = text.len() >= LEAST_DIGEST && text.bytes().all(is_of_digest);
        if is_digest && !NO_DIGESTS.contains(&name.as_str()) {
            self.has_digest = true;
            self.other = self.other.or((!self.is_failed).then_some(name));
        }
    }
}

/// A digest of `xxhash64`, which has its last byte first.
fn turned(text: &str) -> Option<Digest> {
    let value = u64::from_str_radix(text, 16).ok().filter(|_| text.len() == 16)?;
    let text = format!("{:016x}", value.swap_bytes());
    Digest::parse(Algorithm::Xxh64, text.as_bytes())
}

// The chain of an ASC MHL history: which generations there are, and the digest of each one's file.

/// Largest number of generations of a history.
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

/// True for a directory that is a history: it has a chain of whatever kind, or a generation.
pub fn is_history(dir: &Dir) -> bool {
    let has_chain = dir.stat(CHAIN.as_ref(), false).is_ok();
    has_chain || generations(dir).is_ok_and(|names| !names.is_empty())
}

/// Reads the chain from `input`, which is at `path`; in its own order.
///
/// # Errors
/// It cannot be read, or is none.
pub fn read_chain<R: Read>(input: R, path: &Path) -> Result<Vec<ChainLink>> {
    let mut pieces = MhlEntries::new(input);
    let mut generations = Vec::new();
    while let Some((line, piece)) = pieces.next_piece().deed(DEED, path)? {
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::hash::Digest;

    fn read(list: &[u8]) -> Vec<(u64, MhlPiece)> {
        let mut entries = MhlEntries::new(list);
        std::iter::from_fn(|| entries.next_piece().unwrap()).collect()
    }

    fn generation(hashes: &str) -> String {
        format!(
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n\
             <hashlist version=\"2.0\" xmlns=\"urn:ASC:MHL:v2.0\">\n<hashes>\n{hashes}</hashes></hashlist>\n"
        )
    }

    fn fault(list: &str) -> Fault {
        match &read(list.as_bytes())[..] {
            [.., (_, MhlPiece::Fault(fault))] => *fault,
            other => panic!("{list}: {other:?}"),
        }
    }

    #[test]
    fn digests_that_did_not_fail_are_taken() {
        let list = generation(
            "<hash><path size=\"1\">a&#10;b &amp; <![CDATA[<c>]]></path>\
             <md5 action=\"original\">d41d8cd98f00b204e9800998ecf8427e</md5>\
             <xxh64 action=\"original\">ef46db3751d8e999</xxh64>\
             <metadata><path>no</path><sha1>no</sha1></metadata></hash>\n\
             <hash><path>b</path><previousPath>old</previousPath>\
             <md5 action=\"failed\">d41d8cd98f00b204e9800998ecf8427e</md5>\
             <xxh64 action=\"verified\">ef46db3751d8e999</xxh64></hash>\n\
             <hash><path>c</path><md5 action=\"failed\">x</md5></hash>\n\
             <directoryhash><path>dir</path><content><xxh64>ef46db3751d8e999</xxh64></content></directoryhash>\n",
        );
        let empty = |algorithm, text: &str| Digest::parse(algorithm, text.as_bytes());
        let entry = |path: &str, previous: Option<&str>, digests: &[Option<Digest>]| {
            let previous = previous.map(str::to_owned);
            let digests = digests.iter().flatten().copied().collect();
            let (named, path) = (Named::File, path.into());
            MhlPiece::Entry(MhlEntry { named, path, previous, digests, other: None })
        };
        let expected = [
            (
                4,
                entry(
                    "a\nb & <c>",
                    None,
                    &[
                        empty(Algorithm::Md5, "d41d8cd98f00b204e9800998ecf8427e"),
                        empty(Algorithm::Xxh64, "ef46db3751d8e999"),
                    ],
                ),
            ),
            (5, entry("b", Some("old"), &[empty(Algorithm::Xxh64, "ef46db3751d8e999")])),
            (6, entry("c", None, &[])),
        ];
        assert_eq!(read(list.as_bytes()), expected);
    }

    #[test]
    fn legacy_lists_and_chains_are_read() {
        let legacy = "<hashlist version=\"1.1\"><creatorinfo><name>n</name></creatorinfo><hash><file>A/b</file>\
                      <size>0</size><xxhash64be>ef46db3751d8e999</xxhash64be></hash>\
                      <hash><file>c</file><xxhash64>99e9d85137db46ef</xxhash64></hash>\
                      <hash><file>d</file><xxhash>46947589</xxhash></hash></hashlist>";
        let read_legacy = read(legacy.as_bytes());
        let [(_, MhlPiece::Entry(one)), (_, MhlPiece::Entry(two)), (_, MhlPiece::Entry(three))] =
            &read_legacy[..]
        else {
            panic!("{read_legacy:?}");
        };
        assert_eq!((one.path.as_str(), &one.digests), ("A/b", &two.digests));
        assert_eq!((three.digest(), three.other), (None, Some("XXH32".into())));
        let c4 = "c459dsjfscH38cYeXXYogktxf4Cd9ibshE3BHUo6a58hBXmRQdZrAkZzsWcbWtDg5oQstpDuni4Hirj75GEmTc1sFT";
        let chain = format!(
            "<ascmhldirectory xmlns=\"urn:ASC:MHL:DIRECTORY:v2.0\"><hashlist sequencenr=\"1\">\
             <path>0001_x.mhl</path><c4>{c4}</c4></hashlist></ascmhldirectory>"
        );
        match &read(chain.as_bytes())[..] {
            [(1, MhlPiece::Entry(entry))] => assert_eq!(entry.named, Named::Generation(1)),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn hostile_files_are_named_and_end() {
        let lots = "x".repeat(400_000);
        let deep = "<hashlist version=\"2.0\">".to_owned() + &"<a>".repeat(100);
        let attributes: String = (0..100).map(|number| format!(" a{number}=\"\"")).collect();
        let cases = [
            (
                "<!DOCTYPE x [<!ENTITY a \"b\">]><hashlist version=\"2.0\"/>".to_owned(),
                "document type",
            ),
            (generation("<hash><path>&a;</path></hash>"), "entity"),
            (generation(&format!("<hash><path>{lots}</path></hash>")), "longer than any name"),
            (
                generation(&format!("<hash><path>{}</path></hash>", "&amp;x".repeat(300_000))),
                "longer",
            ),
            (generation(&format!("<hash {attributes}/>")), "attributes"),
            (deep, "too deep"),
            (generation("<hash><path>a</path>"), "well-formed"),
            ("<hashlist version=\"2.0\"><hashes><hash>".to_owned(), "cut off"),
            ("<hashlist version=\"3.0\"/>".to_owned(), "not known"),
            ("<html/>".to_owned(), "no Media Hash List"),
            (generation("<hash><path>a</path><path>b</path><md5/></hash>"), "digest"),
            (generation("<hash><path>a</path></hash>"), "no digest"),
            (
                generation("<hash><path>a</path><hash><path>b</path></hash></hash>"),
                "in another one",
            ),
            (generation("<hashes><hash><path>a</path></hash></hashes>"), "has none"),
            (
                "<hashlist version=\"2.0\"><hash><path>a</path></hash></hashlist>".to_owned(),
                "has none",
            ),
            (
                generation(
                    "<hash><path>a</path><xxh64>ef46db3751d8e999</xxh64><xxh64>0000000000000000</xxh64></hash>",
                ),
                "two digests",
            ),
        ];
        for (list, words) in cases {
            let text = fault(&list).to_string();
            assert!(text.contains(words), "{text:?} lacks {words:?}");
        }
        let one_long = std::iter::repeat_n(b'<', 1).chain(std::iter::repeat_n(b'a', 5_000_000));
        assert!(matches!(&read(&one_long.collect::<Vec<u8>>())[..], [(1, MhlPiece::Fault(_))]));
    }

    proptest! {
        /// Whatever comes, it ends, and without a panic.
        #[test]
        fn anything_is_read_to_its_end(
            pieces in prop::collection::vec(prop_oneof![
                Just("<hashlist version=\"2.0\">".to_owned()), Just("<hashes>".to_owned()),
                Just("<hash>".to_owned()), Just("</hash>".to_owned()), Just("<path>a</path>".to_owned()),
                Just("<md5 action='".to_owned()), Just("failed'>".to_owned()), Just("</md5>".to_owned()),
                Just("&#0;".to_owned()), Just("&lt;".to_owned()), Just("<!--".to_owned()),
                Just("<![CDATA[".to_owned()), ".{0,8}"], 0..40),
        ) {
            let list = pieces.concat();
            let mut entries = MhlEntries::new(list.as_bytes());
            let mut number = 0;
            while entries.next_piece().unwrap().is_some() {
                number += 1;
                // An empty list has one piece, which says so.
                prop_assert!(number <= list.len() + 1);
            }
        }
    }
}
