//! The one reader of a manifest's lines for a check: each line is a file to check, a finding, or nothing.

use std::{io, io::Chain, io::Cursor, io::Read, sync::Arc};

use crate::{
    error::Error, hash::Digest, manifest::Entries, manifest::Entry, manifest::Fault,
    manifest::MhlEntries, manifest::MhlEntry, manifest::MhlPiece, manifest::Named,
    manifest::OtherName, manifest::Parsed, manifest::Record, manifest::UTF8_MARK,
    manifest::Utf16Reader, manifest::archive::cloud::CloudEntries,
    manifest::archive::cloud::CloudForm, manifest::archive::cloud::START,
    manifest::archive::mhl::is_mhl, path::PathFault, path::RelPath, sys, verify::Finding,
    verify::PartOf, verify::Target, verify::lines::bag_list::BagList,
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
    /// A file with this digest alone.
    pub fn of(number: u64, path: RelPath, digest: Digest) -> Self {
        let (further, is_reference, looked_at) = (Vec::new(), false, false);
        Self { number, path, digest, further, is_reference, looked_at }
    }

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
        Self { target, text: ListText::Unread(Some(manifest), target.part), more: Vec::new() }
    }

    pub fn target(&self) -> &'a Arc<Target> {
        self.target
    }

    /// An oddity in the way the manifest is written; known when a line was read. It is read all the same.
    pub fn oddity(&self) -> Option<Finding> {
        match &self.text {
            ListText::Lines(entries) if entries.input().is_utf16() => Some(Finding::Utf16),
            ListText::Bag(list) if list.is_odd => {
                let why = "names in it are marked with \"*\" or \"./\", which belongs into lists of other programs";
                let manifest = &self.target.manifest;
                Some(Finding::Notice(Error::finding("take for a bag's", manifest, why)))
            }
            _ => None,
        }
    }

    /// The findings at the end of the manifest.
    pub fn at_end(&self) -> Vec<Finding> {
        let ListText::Lines(entries) = &self.text else { return Vec::new() };
        let notice = |deed, why: &'static str| {
            Finding::Notice(Error::finding(deed, &self.target.manifest, why))
        };
        let mut told = Vec::new();
        if entries.is_enclosed() {
            let why =
                "it is signed in clear text and ends before its signature, so lines may be missing";
            told.push(notice("take for whole", why));
        }
        if entries.has_other() {
            let why = "those of algorithms that are not known here were passed over";
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
        let target = self.target;
        self.text.begin(target)?;
        Ok(match &mut self.text {
            ListText::Unread(..) => None,
            ListText::Lines(entries) => {
                let mut meaning = entries.next_entry()?.map(|entry| plain(target, entry));
                if let Some(Meaning::File(line)) = &mut meaning {
                    line.further = entries.further().to_vec();
                }
                meaning
            }
            ListText::Bag(list) => match list.next_meaning(target)? {
                Some(meaning) => {
                    let held = list.hold(meaning);
                    self.more.extend(held.contradicted);
                    Some(held.meaning)
                }
                None => return self.removed(),
            },
            ListText::Mhl(entries) => {
                entries.next_piece()?.map(|(number, piece)| self.piece(number, piece))
            }
            ListText::Cloud(entries) => {
                entries.next_piece()?.map(|(number, piece)| self.piece(number, piece))
            }
        })
    }

    /// What the list of a bag had when it was made, and has no more.
    fn removed(&mut self) -> io::Result<Option<Meaning>> {
        let ListText::Bag(list) = &mut self.text else { return Ok(None) };
        self.more = list.removed()?;
        Ok(self.more.pop())
    }

    fn piece(&mut self, number: u64, piece: MhlPiece) -> Meaning {
        let named = match &piece {
            MhlPiece::Entry(entry) => Some(entry.named),
            _ => None,
        };
        match piece {
            _ if !self.target.part.reads(named) => Meaning::Nothing,
            MhlPiece::Fault(fault) => malformed(number, fault),
            MhlPiece::Ignored(pattern) => Meaning::LeftOut(pattern),
            MhlPiece::Entry(entry) => self.entry(number, entry),
        }
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
        match digests.next().map(|digest| named(self.target, number, name, digest)) {
            Some(Meaning::File(line)) => {
                Meaning::File(ManifestLine { further: digests.collect(), is_reference, ..line })
            }
            Some(other) => other,
            None => unhashed(self.target, number, name, other),
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

/// The meaning of a line that says all by itself.
fn plain(target: &Target, entry: Entry<'_>) -> Meaning {
    let number = entry.number;
    match entry.parsed {
        Parsed::Comment | Parsed::Blank => Meaning::Nothing,
        // The name may have been longer (M25).
        _ if !entry.ended && target.ours.is_some() => {
            let unfinished = target.is_unfinished();
            Meaning::Fault(Finding::Torn { line: number, unfinished })
        }
        Parsed::Malformed(fault) => malformed(number, fault),
        Parsed::Unhashed { name, algorithm } => {
            unhashed(target, number, name, Some(algorithm.into()))
        }
        Parsed::Record(Record { digest, name }) => {
            let digest = target.ours.map_or(digest, |ours| digest.in_list_of(ours.algorithm()));
            named(target, number, name, digest)
        }
    }
}

pub(super) fn malformed(line: u64, fault: Fault) -> Meaning {
    Meaning::Fault(Finding::Malformed { line, fault })
}

/// A file that can only be looked for, if it may be one.
pub(super) fn unhashed(
    target: &Target,
    line: u64,
    name: &[u8],
    algorithm: Option<OtherName>,
) -> Meaning {
    allowed(target, line, name, |path| Meaning::Unhashed(line, path, algorithm))
}

/// A file to check, if it may be one.
pub(super) fn named(target: &Target, number: u64, name: &[u8], digest: Digest) -> Meaning {
    allowed(target, number, name, |path| Meaning::File(ManifestLine::of(number, path, digest)))
}

/// What a name means by its path, unless that is refused.
fn allowed(
    target: &Target,
    line: u64,
    name: &[u8],
    means: impl FnOnce(RelPath) -> Meaning,
) -> Meaning {
    let refusal = target.part.bag().and_then(|bag| bag.refuses(name));
    let why = match (RelPath::parse(name), refusal) {
        (Ok(path), None) => return means(path),
        (Ok(_), Some(why)) => why.to_owned(),
        (Err(fault), _) => fault.to_string(),
    };
    Meaning::Fault(Finding::Refused { line, name: name.to_vec(), why })
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

// The text of a list, whatever its form: lines, those of a bag, the XML of a Media Hash List, or the JSON of a cloud.
//
// Which it is shows by what it is a part of, or else by its first bytes.

/// The list, read again from its first byte.
type Whole<R> = Chain<Cursor<Vec<u8>>, R>;

/// The text of a list.
enum ListText<R> {
    /// A list of which nothing was read.
    Unread(Option<R>, PartOf),
    /// Lines that each say all by themselves.
    Lines(Box<Entries<Utf16Reader<Whole<R>>>>),
    /// A manifest of a bag.
    Bag(Box<BagList<R>>),
    /// XML.
    Mhl(Box<MhlEntries<Whole<R>>>),
    /// JSON, or a report of a cloud.
    Cloud(Box<CloudEntries<Utf16Reader<Whole<R>>>>),
}

impl<R: Read> ListText<R> {
    fn begin(&mut self, target: &Target) -> io::Result<()> {
        let ListText::Unread(input, part) = self else { return Ok(()) };
        let Some(mut input) = input.take() else { return Ok(()) };
        if let PartOf::Bag(part) = *part {
            *self = ListText::Bag(Box::new(BagList::new(input, part, target)));
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
        let cloud = CloudForm::of(&start);
        if cloud.is_some() && start.starts_with(UTF8_MARK) {
            start.drain(..UTF8_MARK.len());
        }
        let whole = Cursor::new(start).chain(input);
        *self = match (is_mhl, cloud) {
            (true, _) => ListText::Mhl(Box::new(MhlEntries::new(whole))),
            (false, Some(form)) => {
                ListText::Cloud(Box::new(CloudEntries::new(Utf16Reader::new(whole), form)))
            }
            (false, None) => ListText::Lines(Box::new(Entries::of_all(Utf16Reader::new(whole)))),
        };
        Ok(())
    }
}
