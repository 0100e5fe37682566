//! The text of a list, whatever its form: lines, those of a bag, or the XML of a Media Hash List.
//!
//! Which it is shows by what it is a part of, or else by its first bytes.

use std::borrow::Cow;
use std::io::{self, Chain, Cursor, Read};

use crate::hash::Digest;
use crate::manifest::archive::bag;
use crate::manifest::archive::line_ends::LineEnds;
use crate::manifest::archive::mhl::{MhlEntries, MhlEntry, MhlPiece, Named, is_mhl};
use crate::manifest::read::scan::Text;
use crate::manifest::{Entries, Fault, Parsed, Scanner, Utf16Reader};
use crate::sys;
use crate::verify::archive::part::{BagPart, PartOf};

/// By so many first bytes it shows what a list is.
const START: usize = 64;

/// The list, read again from its first byte.
type Whole<R> = Chain<Cursor<Vec<u8>>, R>;

/// What stands at a place of a list.
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
    /// What cannot be read.
    Fault(Fault),
}

impl ListItem<'_> {
    /// What it names, if it is an entry of a Media Hash List.
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
    /// Whether the line is ended.
    pub ended: bool,
    /// What it says.
    pub item: ListItem<'a>,
}

/// Reads a list.
pub enum ListText<R> {
    /// Of which nothing was read.
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

    /// Whether it is UTF-16, which is odd; known when a line was read.
    pub fn is_utf16(&self) -> bool {
        matches!(self, ListText::Lines(entries) if entries.input().is_utf16())
    }

    /// Whether names are marked as other programs than those for bags do it.
    pub fn is_odd(&self) -> bool {
        matches!(self, ListText::Bag(_, _, true))
    }

    /// Whether lines so far had several digests, of which only the strongest is checked.
    pub fn has_several(&self) -> bool {
        matches!(self, ListText::Lines(entries) if entries.has_several())
    }

    /// Whether the lines so far are in an envelope of a signature that did not end.
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

/// What a line of a bag's manifest says.
fn bag_item<'a>(bytes: &'a [u8], part: BagPart, odd: &mut bool) -> ListItem<'a> {
    match bag::line(bytes, part.algorithm, part.declaration) {
        Err(fault) => ListItem::Fault(fault),
        Ok(line) => {
            *odd |= line.is_odd;
            ListItem::Name(line.name, line.digest)
        }
    }
}
