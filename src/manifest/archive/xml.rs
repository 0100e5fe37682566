//! XML, element by element, with bounds: what a list in XML needs of it and no more.
//!
//! The file is not trusted. There is no document type and so no entity of the file's own, nothing
//! is fetched, and depth, length of a piece and number of attributes have limits; memory does not grow with the file.

use std::{io, io::BufRead, io::Read};

use quick_xml::{
    Reader, XmlVersion, errors::Error, events::BytesRef, events::BytesStart, events::Event,
};

use crate::{manifest::OtherName, manifest::read::scan::MAX_LINE, sys};

const UTF_16: &str = "it is XML in UTF-16, and only UTF-8 is read: turn it into UTF-8 (iconv -f UTF-16 -t UTF-8), and \
                      have its first line say so";

const UTF_32: &str = "it is XML in UTF-32, and only UTF-8 is read: turn it into UTF-8 (iconv -f UTF-32 -t UTF-8), and \
                      have its first line say so";

const ENCODING: &str = "its first line declares another encoding than UTF-8, and only that is read: turn it into UTF-8 \
                        (iconv), and have its first line say so";

/// Greatest depth of elements in each other.
const MOST_DEPTH: usize = 32;

/// Largest number of attributes of an element.
const MOST_ATTRIBUTES: usize = 16;

/// One step through the file.
#[derive(Debug, PartialEq, Eq)]
pub enum XmlStep {
    /// An element begins; it is on the stack.
    Open,
    /// The innermost element ends; it is still on the stack, with its text.
    Close,
    /// Nothing that matters.
    Other,
    /// The file ends, as it should.
    End,
    /// The file is no XML that is taken, for this reason; nothing comes after it.
    Fault(&'static str),
}

/// Reads elements from `R`. Names are those of a table, and empty where it does not have them.
pub struct Xml<R> {
    reader: Reader<Bounded<R>>,
    buffer: Vec<u8>,
    names: &'static [&'static str],
    stack: Vec<&'static str>,
    /// The text of the innermost element since the last tag.
    text: String,
    /// The attributes of the element that began last, those with a name of the table.
    attributes: Vec<(&'static str, String)>,
    /// The name of that element, if the table does not have it.
    unusual: Option<OtherName>,
    /// The innermost element is closed, and to be taken off the stack.
    is_closed: bool,
    /// True once there was an element.
    has_any: bool,
    is_over: bool,
}

impl<R: Read> Xml<R> {
    /// Reads from `input`; of elements and attributes these `names` matter.
    pub fn new(input: R, names: &'static [&'static str]) -> Self {
        let mut reader = Reader::from_reader(Bounded::new(input));
        reader.config_mut().expand_empty_elements = true;
        Self {
            reader,
            buffer: Vec::new(),
            names,
            stack: Vec::new(),
            text: String::new(),
            attributes: Vec::new(),
            unusual: None,
            is_closed: false,
            has_any: false,
            is_over: false,
        }
    }

    /// The line that was read last, from 1.
    pub fn line(&self) -> u64 {
        self.reader.get_ref().lines + 1
    }

    /// The elements that are open, from the outermost.
    pub fn stack(&self) -> &[&'static str] {
        &self.stack
    }

    /// The text of the element that is closed.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// An attribute of the element that began last.
    pub fn attribute(&self, name: &str) -> Option<&str> {
        self.attributes.iter().find(|(known, _)| *known == name).map(|(_, value)| value.as_str())
    }

    /// The name of the element that began last, if the table does not have it.
    pub fn unusual(&self) -> Option<OtherName> {
        self.unusual
    }

    /// The next step.
    ///
    /// # Errors
    /// The input cannot be read; nothing comes after that.
    pub fn step(&mut self) -> io::Result<XmlStep> {
        if self.is_over {
            return Ok(XmlStep::End);
        }
        if std::mem::take(&mut self.is_closed) {
            self.stack.pop();
            self.text.clear();
        }
        let step = self.read();
        if matches!(step, Err(_) | Ok(XmlStep::End | XmlStep::Fault(_))) {
            self.is_over = true;
        }
        step
    }

    fn read(&mut self) -> io::Result<XmlStep> {
        self.buffer.clear();
        self.reader.get_mut().left = MAX_LINE;
        if !self.has_any
            && let Some(encoding) = self.reader.get_mut().wide_encoding()?
        {
            return Ok(XmlStep::Fault(encoding));
        }
        let event = match self.reader.read_event_into(&mut self.buffer) {
            Ok(event) => event,
            Err(Error::Io(error)) if error.kind() == io::ErrorKind::FileTooLarge => {
                return Ok(XmlStep::Fault("a piece of it is longer than any name can be"));
            }
            Err(Error::Io(error)) => return Err(io::Error::new(error.kind(), error)),
            Err(Error::Encoding(_)) => return Ok(XmlStep::Fault("it is not UTF-8")),
            Err(_) => return Ok(XmlStep::Fault("it is no well-formed XML")),
        };
        Ok(match event {
            Event::Start(start) => {
                if self.stack.len() == MOST_DEPTH {
                    return Ok(XmlStep::Fault("its elements lie too deep in each other"));
                }
                let found = attributes(&start, self.names);
                let Some(found) = found else {
                    return Ok(XmlStep::Fault("an element has attributes that cannot be read"));
                };
                self.attributes = found;
                let local = start.local_name();
                let name = known(self.names, local.into_inner());
                self.unusual = name.is_empty().then(|| OtherName::of(local.into_inner()));
                self.stack.push(name);
                self.text.clear();
                self.has_any = true;
                XmlStep::Open
            }
            Event::End(_) => {
                self.is_closed = true;
                XmlStep::Close
            }
            Event::Text(text) => add(&mut self.text, &text.xml10_content()),
            Event::CData(text) => add(&mut self.text, &text.xml10_content()),
            Event::GeneralRef(entity) => match resolved(&entity) {
                Some(letter) => add(&mut self.text, letter.encode_utf8(&mut [0; 4])),
                None => XmlStep::Fault("it refers to an entity that XML does not know by itself"),
            },
            Event::DocType(_) => XmlStep::Fault("it has a document type, which no such list has"),
            Event::Decl(declaration) => match declaration.encoding() {
                Some(Ok(name)) if !name.eq_ignore_ascii_case("utf-8") => XmlStep::Fault(ENCODING),
                _ => XmlStep::Other,
            },
            Event::Comment(_) | Event::PI(_) | Event::Empty(_) => XmlStep::Other,
            Event::Eof if !self.has_any => XmlStep::Fault("it has no element, as an empty file"),
            Event::Eof if self.stack.is_empty() => XmlStep::End,
            Event::Eof => XmlStep::Fault("it is cut off: it ends within an element"),
        })
    }
}

/// Adds to the text of an element.
fn add(text: &mut String, more: &str) -> XmlStep {
    if text.len() + more.len() > MAX_LINE {
        return XmlStep::Fault("a text of it is longer than any name can be");
    }
    text.push_str(more);
    XmlStep::Other
}

/// The name as the table has it.
fn known(names: &[&'static str], name: &str) -> &'static str {
    names.iter().find(|known| **known == name).copied().unwrap_or_default()
}

/// The attributes that matter; `None` if they cannot be read.
fn attributes(
    start: &BytesStart<'_>,
    names: &[&'static str],
) -> Option<Vec<(&'static str, String)>> {
    let mut found = Vec::new();
    let mut all = start.attributes();
    // Else each is held against all others, which takes the square of their number.
    for (number, attribute) in all.with_checks(false).enumerate() {
        let attribute = attribute.ok().filter(|_| number < MOST_ATTRIBUTES)?;
        let name = known(names, attribute.key.local_name().into_inner());
        if name.is_empty() {
            continue;
        }
        if found.iter().any(|(known, _)| *known == name) {
            return None;
        }
        found.push((name, attribute.normalized_value(XmlVersion::Implicit1_0).ok()?.into_owned()));
    }
    Some(found)
}

/// The character that a reference is for: one by number, or one of the five that XML has.
fn resolved(entity: &BytesRef<'_>) -> Option<char> {
    if entity.is_char_ref() {
        return entity.resolve_char_ref().ok()?;
    }
    Some(match &**entity {
        "lt" => '<',
        "gt" => '>',
        "amp" => '&',
        "apos" => '\'',
        "quot" => '"',
        _ => return None,
    })
}

/// Gives out only so many bytes for one piece, and counts lines.
struct Bounded<R> {
    input: R,
    buffer: Box<[u8]>,
    start: usize,
    end: usize,
    /// Line ends that were given out.
    lines: u64,
    /// Number of bytes that may still be given out for this piece.
    left: usize,
}

impl<R> Bounded<R> {
    fn new(input: R) -> Self {
        let buffer = vec![0; 32 << 10].into_boxed_slice();
        Self { input, buffer, start: 0, end: 0, lines: 0, left: MAX_LINE }
    }
}

impl<R: Read> Bounded<R> {
    /// The fault of a file that begins as XML in UTF-16 or UTF-32 does.
    fn wide_encoding(&mut self) -> io::Result<Option<&'static str>> {
        // More than one byte may come later: then it is something else, and no XML either.
        let lines = self.lines;
        Ok(wide_encoding(self.fill_buf()?).filter(|_| lines == 0))
    }
}

/// The fault of text that begins as XML in UTF-16 or UTF-32 does, with a byte order mark or without.
pub fn wide_encoding(start: &[u8]) -> Option<&'static str> {
    match start {
        [0xff, 0xfe, 0, 0, ..] | [0, 0, 0xfe, 0xff, ..] => Some(UTF_32),
        [b'<', 0, 0, 0, ..] | [0, 0, 0, b'<', ..] => Some(UTF_32),
        [0xff, 0xfe, ..] | [0xfe, 0xff, ..] | [b'<', 0, ..] | [0, b'<', ..] => Some(UTF_16),
        _ => None,
    }
}

impl<R: Read> Read for Bounded<R> {
    fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        let got = self.fill_buf()?;
        let len = got.len().min(room.len());
        room[..len].copy_from_slice(&got[..len]);
        self.consume(len);
        Ok(len)
    }
}

impl<R: Read> BufRead for Bounded<R> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        if self.start == self.end {
            self.start = 0;
            self.end = sys::uninterrupted(|| self.input.read(&mut self.buffer))?;
        }
        let there = &self.buffer[self.start..self.end];
        if !there.is_empty() && self.left == 0 {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        Ok(&there[..there.len().min(self.left)])
    }

    fn consume(&mut self, len: usize) {
        let given = &self.buffer[self.start..self.start + len];
        self.lines += memchr::memchr_iter(b'\n', given).count() as u64;
        self.start += len;
        self.left = self.left.saturating_sub(len);
    }
}
