//! The one reader of a manifest's lines for a check: each line is a file to check, a finding, or nothing.

use std::{borrow::Cow, io, io::Chain, io::Cursor, io::Read, sync::Arc};

use crate::{
    error::Error, hash::Digest, manifest::Entries, manifest::Fault, manifest::LineEnds,
    manifest::MhlEntries, manifest::MhlEntry, manifest::MhlPiece, manifest::Named,
    manifest::OtherName, manifest::Parsed, manifest::Scanner, manifest::Text,
    manifest::Utf16Reader, manifest::archive::bag, manifest::archive::mhl::is_mhl, path::PathFault,
    path::RelPath, sys, verify::Finding, verify::PartOf, verify::Target, verify::history::BagPart,
};

/// A line that names a file to check.
#[derive(Debug)]
pub struct ManifestLine {
    pub number: u64,
    pub path: RelPath,
    pub digest: Digest,
    /// Further digests that are listed beside it, all of which must be right.
    pub further: Vec<Digest>,
    /// True for a list that a generation refers to.
    pub is_reference: bool,
    /// True if a regular file of that name was seen a moment ago.
    pub looked_at: bool,
}

impl ManifestLine {
    /// All digests that are listed.
    pub fn digests(&self) -> impl Iterator<Item = Digest> + '_ {
        [self.digest].into_iter().chain(self.further.iter().copied())
    }
}

/// The meaning of a line.
pub enum Meaning {
    /// A comment, or nothing at all.
    Nothing,
    /// A file that is to be checked.
    File(ManifestLine),
    /// A name that a file had, and the one that it has now.
    Renamed(RelPath, RelPath),
    /// A file that can only be looked for: its digest is by the algorithm of this name, which is not known here, or it
    /// has only such that failed.
    Unhashed(u64, RelPath, Option<OtherName>),
    /// A further digest of the file of the last line, by an algorithm that is not known here.
    Beside(u64, OtherName),
    /// A pattern of files that the history leaves out.
    LeftOut(String),
    /// No file can be checked by it, for this reason.
    Fault(Finding),
}

/// Reads the lines of the manifest of a target.
pub struct ManifestLines<'a, R> {
    target: &'a Arc<Target>,
    text: ListText<R>,
    /// Further meanings of the last line, from the last.
    more: Vec<Meaning>,
}

impl<'a, R: Read> ManifestLines<'a, R> {
    /// Reads `manifest` from where it stands.
    pub fn new(target: &'a Arc<Target>, manifest: R) -> Self {
        Self { target, text: ListText::new(manifest, target.part), more: Vec::new() }
    }

    pub fn target(&self) -> &'a Arc<Target> {
        self.target
    }

    /// An oddity in the way the manifest is written; known when a line was read. It is read all the same.
    pub fn oddity(&self) -> Option<Finding> {
        if self.text.is_utf16() {
            return Some(Finding::Utf16);
        }
        let why = "names in it are marked with \"*\" or \"./\", which belongs into lists of other programs";
        let error = || Error::finding("take for a bag's", &self.target.manifest, why);
        self.text.is_odd().then(|| Finding::Notice(error()))
    }

    /// The findings at the end of the manifest.
    pub fn at_end(&self) -> Vec<Finding> {
        let notice = |deed, why: &'static str| {
            Finding::Notice(Error::finding(deed, &self.target.manifest, why))
        };
        let mut told = Vec::new();
        if self.text.is_enclosed() {
            let why =
                "it is signed in clear text and ends before its signature, so lines may be missing";
            told.push(notice("take for whole", why));
        }
        if self.text.has_several() {
            let why = "only the strongest that is known was compared";
            told.push(notice("compare every digest of each file in", why));
        }
        told
    }

    /// The next line; `None` at the end.
    ///
    /// # Errors
    /// The manifest cannot be read; nothing comes after that.
    pub fn next_line(&mut self) -> io::Result<Option<Meaning>> {
        if let Some(more) = self.more.pop() {
            return Ok(Some(more));
        }
        let Some(place) = self.text.next_place()? else { return Ok(None) };
        let number = place.line;
        Ok(Some(match place.item {
            ListItem::Nothing => Meaning::Nothing,
            item if !self.target.part.reads(item.named()) => Meaning::Nothing,
            // The name may have been longer (M25).
            _ if !place.ended && self.target.ours.is_some() => {
                let unfinished = self.target.is_unfinished();
                Meaning::Fault(Finding::Torn { line: number, unfinished })
            }
            ListItem::Fault(fault) => Meaning::Fault(Finding::Malformed { line: number, fault }),
            ListItem::Unhashed(name, algorithm) => match RelPath::parse(&name) {
                Ok(path) => Meaning::Unhashed(number, path, Some(algorithm.into())),
                Err(fault) => {
                    let (name, why) = (name.to_vec(), fault.to_string());
                    Meaning::Fault(Finding::Refused { line: number, name, why })
                }
            },
            ListItem::Name(name, digest) => {
                let digest =
                    self.target.ours.map_or(digest, |ours| digest.in_list_of(ours.algorithm()));
                named(self.target, number, &name, digest)
            }
            ListItem::LeftOut(pattern) => Meaning::LeftOut(pattern),
            ListItem::Entry(entry) => self.entry(number, entry),
        }))
    }

    fn entry(&mut self, number: u64, entry: MhlEntry) -> Meaning {
        let MhlEntry { named: what, path: name, previous, digests, other } = entry;
        let is_reference = what == Named::Reference;
        let name = name.as_bytes();
        if let Some(previous) = previous.and_then(|name| RelPath::parse(name.as_bytes()).ok())
            && let Ok(now) = RelPath::parse(name)
        {
            self.more.push(Meaning::Renamed(previous, now));
        }
        if let (Some(algorithm), false) = (other, digests.is_empty()) {
            self.more.push(Meaning::Beside(number, algorithm));
        }
        let mut digests = digests.into_iter();
        match (digests.next(), RelPath::parse(name)) {
            (Some(digest), _) => match named(self.target, number, name, digest) {
                Meaning::File(line) => {
                    Meaning::File(ManifestLine { further: digests.collect(), is_reference, ..line })
                }
                other => other,
            },
            (None, Ok(path)) => Meaning::Unhashed(number, path, other),
            (None, Err(fault)) => {
                let why = fault.to_string();
                Meaning::Fault(Finding::Refused { line: number, name: name.to_vec(), why })
            }
        }
    }

    /// The next line that names a file; `None` at the end.
    ///
    /// # Errors
    /// Fails as [`next_line`](Self::next_line) does.
    pub fn next_file(&mut self) -> io::Result<Option<ManifestLine>> {
        while let Some(meaning) = self.next_line()? {
            if let Meaning::File(line) = meaning {
                return Ok(Some(line));
            }
        }
        Ok(None)
    }
}

/// A file to check, if it may be one.
fn named(target: &Target, number: u64, name: &[u8], digest: Digest) -> Meaning {
    let refusal = target.part.bag().and_then(|bag| bag.refuses(name));
    let parsed = match (RelPath::parse(name), refusal) {
        (Ok(_), Some(why)) => Err(why.to_owned()),
        (parsed, _) => parsed.map_err(|fault| fault.to_string()),
    };
    match parsed {
        Ok(path) => Meaning::File(ManifestLine {
            number,
            path,
            digest,
            further: Vec::new(),
            is_reference: false,
            looked_at: false,
        }),
        Err(why) => Meaning::Fault(Finding::Refused { line: number, name: name.to_vec(), why }),
    }
}

/// The name with `\` taken for `/` (`--convert-paths`).
///
/// # Errors
/// Fails if that is no name below a root.
pub fn converted(path: &RelPath) -> Result<RelPath, PathFault> {
    let convert = |&byte: &u8| if byte == b'\\' { b'/' } else { byte };
    RelPath::parse(&path.as_bytes().iter().map(convert).collect::<Vec<u8>>())
}

/// The reason to refuse a name that is an absolute path on Windows; `None` for others.
pub fn absolute_on_windows(path: &RelPath) -> Option<String> {
    let name = path.as_bytes();
    let drive = matches!(name, [letter, b':', b'\\' | b'/', ..] if letter.is_ascii_alphabetic());
    (drive || name.starts_with(b"\\")).then(|| PathFault::Absolute.to_string())
}

// The text of a list, whatever its form: lines, those of a bag, or the XML of a Media Hash List.
//
// Which it is shows by what it is a part of, or else by its first bytes.

/// Number of first bytes that show the kind of a list.
const START: usize = 64;

/// The list, read again from its first byte.
type Whole<R> = Chain<Cursor<Vec<u8>>, R>;

/// One item of a list, in the order of the file.
pub enum ListItem<'a> {
    /// Nothing that matters.
    Nothing,
    /// A name, not checked, and its digest.
    Name(Cow<'a, [u8]>, Digest),
    /// A name, not checked, with a digest by the algorithm of this name, which is not known here.
    Unhashed(Cow<'a, [u8]>, &'static str),
    /// A pattern of files that a history leaves out.
    LeftOut(String),
    /// An entry of a Media Hash List.
    Entry(MhlEntry),
    /// A faulty item.
    Fault(Fault),
}

impl ListItem<'_> {
    /// The kind of thing that it names, for an entry of a Media Hash List.
    pub fn named(&self) -> Option<Named> {
        match self {
            ListItem::Entry(entry) => Some(entry.named),
            _ => None,
        }
    }
}

/// A place in a list.
pub struct ListPlace<'a> {
    /// The line, from 1.
    pub line: u64,
    /// True if the line is ended.
    pub ended: bool,
    /// The item itself.
    pub item: ListItem<'a>,
}

/// Reads a list.
pub enum ListText<R> {
    /// A list of which nothing was read.
    Unread(Option<R>, PartOf),
    /// Lines that each say all by themselves.
    Lines(Box<Entries<Utf16Reader<Whole<R>>>>),
    /// A manifest of a bag.
    Bag(Box<Scanner<LineEnds<Utf16Reader<R>>>>, BagPart, bool),
    /// XML.
    Mhl(Box<MhlEntries<Whole<R>>>),
}

impl<R: Read> ListText<R> {
    /// Reads from `input`.
    pub fn new(input: R, part: PartOf) -> Self {
        ListText::Unread(Some(input), part)
    }

    /// True if it is UTF-16, which is odd; known when a line was read.
    pub fn is_utf16(&self) -> bool {
        matches!(self, ListText::Lines(entries) if entries.input().is_utf16())
    }

    /// True if names are marked as in the lists of other programs than those for bags.
    pub fn is_odd(&self) -> bool {
        matches!(self, ListText::Bag(_, _, true))
    }

    /// True if lines so far had several digests, of which only the strongest is checked.
    pub fn has_several(&self) -> bool {
        matches!(self, ListText::Lines(entries) if entries.has_several())
    }

    /// True inside the envelope of a signature, until its end is read.
    pub fn is_enclosed(&self) -> bool {
        matches!(self, ListText::Lines(entries) if entries.is_enclosed())
    }

    fn begin(&mut self) -> io::Result<()> {
        let ListText::Unread(input, part) = self else { return Ok(()) };
        let Some(mut input) = input.take() else { return Ok(()) };
        if let PartOf::Bag(part) = *part {
            let scanner = Scanner::new(LineEnds::new(Utf16Reader::new(input)));
            *self = ListText::Bag(Box::new(scanner), part, false);
            return Ok(());
        }
        let (mut start, mut len) = (vec![0; START], 0);
        while len < START {
            match sys::uninterrupted(|| input.read(&mut start[len..]))? {
                0 => break,
                got => len += got,
            }
        }
        start.truncate(len);
        // One that is empty, or was overwritten, is none that says nothing.
        let is_mhl = is_mhl(&start) || matches!(part, PartOf::Generation { .. });
        let whole = Cursor::new(start).chain(input);
        *self = match is_mhl {
            true => ListText::Mhl(Box::new(MhlEntries::new(whole))),
            false => ListText::Lines(Box::new(Entries::of_all(Utf16Reader::new(whole)))),
        };
        Ok(())
    }

    /// The next place; `None` at the end.
    ///
    /// # Errors
    /// The list cannot be read; nothing comes after that.
    pub fn next_place(&mut self) -> io::Result<Option<ListPlace<'_>>> {
        self.begin()?;
        match self {
            ListText::Unread(..) => Ok(None),
            ListText::Lines(entries) => {
                let Some(entry) = entries.next_entry()? else { return Ok(None) };
                let item = match entry.parsed {
                    Parsed::Comment | Parsed::Blank => ListItem::Nothing,
                    Parsed::Malformed(fault) => ListItem::Fault(fault),
                    Parsed::Unhashed { name, algorithm } => {
                        ListItem::Unhashed(name.into(), algorithm)
                    }
                    Parsed::Record(record) => ListItem::Name(record.name.into(), record.digest),
                };
                Ok(Some(ListPlace { line: entry.number, ended: entry.ended, item }))
            }
            ListText::Bag(scanner, part, odd) => {
                let Some(line) = scanner.next_line()? else { return Ok(None) };
                let item = match line.text {
                    Text::TooLong { len, .. } => ListItem::Fault(Fault::TooLong { len }),
                    Text::Whole(bytes) if bytes.trim_ascii().is_empty() => ListItem::Nothing,
                    Text::Whole(bytes) => bag_item(bytes, *part, odd),
                };
                Ok(Some(ListPlace { line: line.number, ended: true, item }))
            }
            ListText::Mhl(entries) => {
                let Some((line, piece)) = entries.next_piece()? else { return Ok(None) };
                let item = match piece {
                    MhlPiece::Fault(fault) => ListItem::Fault(fault),
                    MhlPiece::Ignored(pattern) => ListItem::LeftOut(pattern),
                    MhlPiece::Entry(entry) => ListItem::Entry(entry),
                };
                Ok(Some(ListPlace { line, ended: true, item }))
            }
        }
    }
}

/// The item on a line of a bag's manifest.
fn bag_item<'a>(bytes: &'a [u8], part: BagPart, odd: &mut bool) -> ListItem<'a> {
    match bag::line(bytes, part.algorithm, part.declaration) {
        Err(fault) => ListItem::Fault(fault),
        Ok(line) => {
            *odd |= line.is_odd;
            ListItem::Name(line.name, line.digest)
        }
    }
}
