//! The lists of clouds: what `rclone lsjson --hash` prints, what S3 answers of its objects in JSON, and the reports of
//! its jobs that compute checksums. With them a cloud proves a copy that nobody downloads.
//!
//! Objects are read one after the other, each in bounded memory: those in an array, also in one that is a member of the
//! outermost object (`Contents`), or objects one behind the other. Shapes:
//! [rclone](https://rclone.org/commands/rclone_lsjson/),
//! [GetObjectAttributes](https://docs.aws.amazon.com/AmazonS3/latest/API/API_GetObjectAttributes.html), and
//! [completion reports](https://docs.aws.amazon.com/AmazonS3/latest/userguide/batch-ops-examples-reports.html).
//!
//! S3 has two kinds of checksum of an object that was uploaded in parts. Only one that says of itself that it is of the
//! full object is a digest of its content; an ETag never is one here, as it depends on the encryption.

use std::{io, io::BufRead, io::BufReader, io::Read};

use base64::prelude::{BASE64_STANDARD, Engine};
use serde_json::{Map, Value};

use crate::{
    hash::Algorithm, hash::Digest, hash::hex, manifest::Fault, manifest::MhlEntry,
    manifest::MhlPiece, manifest::Named, manifest::OtherName, manifest::read::encoding::UTF8_MARK,
    manifest::read::scan::MAX_LINE, sys::Uninterrupted,
};

/// Number of first bytes of a list that show whether it is one: more than a line of a report has before its status.
pub const START: usize = 4096;

/// Objects in objects, and no deeper.
const DEEPEST: usize = 64;

/// The columns of a report: bucket, key, version, status, two codes, message.
const COLUMNS: usize = 7;

const CUT_OFF: &str = "the JSON ends in the middle of an object";

const COMPOSITE: &str =
    "a checksum of parts, or one that does not say that it is of the FULL_OBJECT";

/// The forms of such lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CloudForm {
    /// Objects in JSON.
    Json,
    /// A completion report: rows with commas.
    Report,
}

/// A part of the list as it is written, or what is wrong with it.
type Part<T> = Result<T, MhlPiece>;

/// Reads the files that a list of a cloud has.
#[derive(Debug)]
pub struct CloudEntries<R> {
    input: BufReader<Uninterrupted<R>>,
    form: CloudForm,
    line: u64,
    /// The line that the last part began on.
    begins: u64,
    /// The outermost object without the elements that were read from lists in it, while it is open.
    outer: Option<Vec<u8>>,
    /// True if there were elements in it.
    had_list: bool,
    /// True between the elements of a list.
    in_list: bool,
    /// The last byte of a list that was no space: the end of an element, or a comma behind one.
    last: Option<u8>,
    is_over: bool,
}

impl CloudForm {
    /// The form of the list with these first bytes, if it is one, also as UTF-16.
    pub fn of(start: &[u8]) -> Option<Self> {
        let text: Vec<u8> = start.iter().copied().filter(|&byte| byte != 0).collect();
        let text = without_mark(&text);
        let mut first = text.iter().filter(|byte| !byte.is_ascii_whitespace());
        match (first.next(), first.next()) {
            (Some(b'['), Some(b'{' | b']')) | (Some(b'{'), Some(b'"' | b'}')) => Some(Self::Json),
            _ => {
                let row = fields(text.split(|&byte| byte == b'\n').next()?)?;
                let is_report = row.len() == COLUMNS && (is_head(&row) || status(&row).is_some());
                is_report.then_some(Self::Report)
            }
        }
    }
}

/// A text without its byte order mark.
fn without_mark(text: &[u8]) -> &[u8] {
    let marks = [UTF8_MARK, b"\xff\xfe", b"\xfe\xff"];
    marks.iter().find_map(|mark| text.strip_prefix(*mark)).unwrap_or(text)
}

impl<R: Read> CloudEntries<R> {
    /// Reads `input`, of which nothing was read but a byte order mark.
    pub fn new(input: R, form: CloudForm) -> Self {
        let input = BufReader::with_capacity(64 << 10, Uninterrupted(input));
        Self {
            input,
            form,
            line: 1,
            begins: 1,
            outer: None,
            had_list: false,
            in_list: false,
            last: None,
            is_over: false,
        }
    }

    /// The next file, or what is wrong with the next part of the list, with the number of its first line; `None` at
    /// the end.
    ///
    /// # Errors
    /// The input cannot be read.
    pub fn next_piece(&mut self) -> io::Result<Option<(u64, MhlPiece)>> {
        while !self.is_over {
            let piece = match self.form {
                CloudForm::Json => self.next_object()?.map(|it| it.map_or_else(Some, of_object)),
                CloudForm::Report => {
                    self.next_row()?.map(|it| it.map_or_else(Some, |row| of_row(&row)))
                }
            };
            match piece {
                None => break,
                Some(None) => {}
                Some(Some(piece)) => return Ok(Some((self.begins, piece))),
            }
        }
        Ok(None)
    }

    /// The next object that is an element; a fault ends the list.
    fn next_object(&mut self) -> io::Result<Option<Part<Vec<u8>>>> {
        loop {
            if self.outer.is_some() && !self.in_list {
                if let Some(element) = self.go_on_in_outer()? {
                    return Ok(Some(element));
                }
                continue;
            }
            let Some(byte) = self.byte()? else {
                let is_cut = self.in_list;
                self.is_over = true;
                return Ok(is_cut.then(|| self.broken(CUT_OFF)));
            };
            match (byte, self.in_list, self.last) {
                (byte, ..) if byte.is_ascii_whitespace() => {}
                (b'[', false, _) => self.in_list = true,
                (b'{', false, _) => {
                    (self.outer, self.begins) = (Some(vec![byte]), self.line);
                }
                (b'{', true, None | Some(b',')) => {
                    (self.last, self.begins) = (Some(b'}'), self.line);
                    return self.element().map(Some);
                }
                (b',', true, Some(b'}')) => self.last = Some(b','),
                (b']', true, None | Some(b'}')) => {
                    (self.in_list, self.last) = (false, None);
                    self.outer.iter_mut().for_each(|outer| outer.push(b']'));
                }
                _ => {
                    return Ok(Some(
                        self.broken("it is no JSON, or a list in it has more than objects"),
                    ));
                }
            }
        }
    }

    /// Reads an element to its end; its first byte was read.
    fn element(&mut self) -> io::Result<Part<Vec<u8>>> {
        let (mut object, mut nesting) = (vec![b'{'], Nesting::default());
        nesting.take(b'{');
        while nesting.depth > 0 {
            let Some(byte) = self.byte()? else { return Ok(self.broken(CUT_OFF)) };
            object.push(byte);
            nesting.take(byte);
            if object.len() > MAX_LINE || nesting.depth > DEEPEST {
                return Ok(self.broken("an object is too long, or nested too deeply"));
            }
        }
        Ok(Ok(object))
    }

    /// Reads on in the outermost object, to its end or to a list of elements in it. It is one itself if there was none.
    fn go_on_in_outer(&mut self) -> io::Result<Option<Part<Vec<u8>>>> {
        let mut outer = self.outer.take().unwrap_or_default();
        let mut nesting = Nesting::default();
        outer.iter().for_each(|&byte| nesting.take(byte));
        loop {
            let Some(byte) = self.byte()? else { return Ok(Some(self.broken(CUT_OFF))) };
            let is_list =
                byte == b'{' && nesting.depth == 2 && outer.trim_ascii_end().ends_with(b"[");
            if is_list && !nesting.in_text {
                (self.outer, self.in_list, self.last) = (Some(outer), true, Some(b'}'));
                self.had_list = true;
                self.begins = self.line;
                return self.element().map(Some);
            }
            outer.push(byte);
            nesting.take(byte);
            if outer.len() > MAX_LINE || nesting.depth > DEEPEST {
                return Ok(Some(self.broken("an object is too long, or nested too deeply")));
            }
            if nesting.depth == 0 {
                break;
            }
        }
        if !std::mem::take(&mut self.had_list) {
            return Ok(Some(Ok(outer)));
        }
        // With its lists left empty it is to be an object, too.
        let is_json = serde_json::from_slice::<Value>(&outer).is_ok();
        Ok((!is_json).then(|| self.broken("it is no JSON")))
    }

    /// Nothing more of the list can be understood.
    fn broken<T>(&mut self, why: &'static str) -> Part<T> {
        (self.is_over, self.begins) = (true, self.line);
        Err(fault(why))
    }

    fn byte(&mut self) -> io::Result<Option<u8>> {
        let byte = self.input.fill_buf()?.first().copied();
        self.input.consume(usize::from(byte.is_some()));
        self.line += u64::from(byte == Some(b'\n'));
        Ok(byte)
    }

    /// The next row of a report.
    fn next_row(&mut self) -> io::Result<Option<Part<Vec<String>>>> {
        let mut text = Vec::new();
        if (&mut self.input).take(MAX_LINE as u64 + 1).read_until(b'\n', &mut text)? == 0 {
            self.is_over = true;
            return Ok(None);
        }
        if text.len() > MAX_LINE {
            return Ok(Some(self.broken("a row is too long")));
        }
        self.begins = self.line;
        self.line += 1;
        let row = fields(&text).filter(|row| row.len() == COLUMNS);
        Ok(Some(row.ok_or(MhlPiece::Fault(Fault::Columns { expected: COLUMNS }))))
    }
}

/// How deep a place in JSON lies.
#[derive(Debug, Default)]
struct Nesting {
    depth: usize,
    in_text: bool,
    is_escaped: bool,
}

impl Nesting {
    /// Goes past the next byte. Whether brackets match shows when all is read as JSON.
    fn take(&mut self, byte: u8) {
        if self.in_text {
            self.in_text = self.is_escaped || byte != b'"';
            self.is_escaped = !self.is_escaped && byte == b'\\';
            return;
        }
        match byte {
            b'"' => self.in_text = true,
            b'{' | b'[' => self.depth += 1,
            b'}' | b']' => self.depth = self.depth.saturating_sub(1),
            _ => {}
        }
    }
}

fn fault(why: &'static str) -> MhlPiece {
    MhlPiece::Fault(Fault::Form(why))
}

/// An entry from what was found of it.
fn entry(
    path: String,
    found: Vec<(Algorithm, Option<Digest>)>,
    other: Option<OtherName>,
) -> MhlPiece {
    if found.iter().any(|(_, digest)| digest.is_none()) {
        return fault(
            "a digest is not as long as those of its algorithm, has other characters, or is two",
        );
    }
    let mut digests: Vec<Digest> = found.into_iter().filter_map(|(_, digest)| digest).collect();
    digests.sort_by_key(Digest::algorithm);
    MhlPiece::Entry(MhlEntry { named: Named::File, path, previous: None, digests, other })
}

/// The algorithm that rclone or S3 calls so.
fn algorithm(name: &str) -> Option<Algorithm> {
    let name = name.to_ascii_lowercase().replace('-', "");
    let name = if name == "xxhash3" { "xxh3".into() } else { name.replace("xxhash", "xxh") };
    Algorithm::named(&name)
}

/// The object with this text.
///
/// # Errors
/// It is none, or has a key twice: readers of JSON differ in which one counts, so what people were shown may be none of
/// what is believed here.
fn parsed(text: &[u8]) -> Result<Map<String, Value>, &'static str> {
    let object: Map<String, Value> = serde_json::from_slice(text).map_err(|_| "it is no JSON")?;
    let (mut nesting, mut keys) = (Nesting::default(), 0);
    for &byte in text {
        keys += usize::from(byte == b':' && !nesting.in_text);
        nesting.take(byte);
    }
    let is_whole = object.values().map(keys_in).sum::<usize>() + object.len() == keys;
    is_whole.then_some(object).ok_or("an object has a key twice")
}

/// Number of the keys in a value, however deep.
fn keys_in(value: &Value) -> usize {
    match value {
        Value::Object(object) => object.values().map(keys_in).sum::<usize>() + object.len(),
        Value::Array(values) => values.iter().map(keys_in).sum(),
        _ => 0,
    }
}

/// The meaning of an object; none of a directory, or of what is about the list.
fn of_object(object: Vec<u8>) -> Option<MhlPiece> {
    let object = match parsed(&object) {
        Ok(object) => object,
        Err(why) => return Some(fault(why)),
    };
    let text = |name: &str| object.get(name).and_then(Value::as_str);
    let Some(path) = text("Path").or(text("Key")) else {
        // S3 lists names that others begin with apart.
        let is_prefix = object.len() == 1 && object.contains_key("Prefix");
        return (!is_prefix).then(|| fault("an object has neither \"Path\" nor \"Key\""));
    };
    if object.get("IsDir").and_then(Value::as_bool) == Some(true) || path.ends_with('/') {
        return None;
    }
    let (mut found, mut other) = (Vec::new(), None);
    for (name, value) in object.get("Hashes").and_then(Value::as_object).into_iter().flatten() {
        match (algorithm(name), value.as_str()) {
            // Not known to that cloud.
            (_, None | Some("")) => {}
            (None, _) => other = Some(OtherName::of(name)),
            (Some(algorithm), Some(text)) => {
                found.push((algorithm, Digest::parse(algorithm, text.as_bytes())));
            }
        }
    }
    let nested = object.get("Checksum").and_then(Value::as_object);
    let kind = |object: &Map<String, Value>| {
        object.get("ChecksumType").and_then(Value::as_str).map(str::to_owned)
    };
    let is_full = nested.and_then(kind).or(kind(&object)).as_deref() == Some("FULL_OBJECT");
    for (name, value) in nested.into_iter().flatten().chain(&object) {
        let name =
            name.strip_prefix("Checksum").filter(|it| !["", "Type", "Algorithm"].contains(it));
        let (Some(name), Some(text)) = (name, value.as_str()) else { continue };
        match algorithm(name) {
            Some(algorithm) if is_full => found.push((algorithm, of_base64(algorithm, text))),
            Some(_) => other = Some(COMPOSITE.into()),
            None => other = Some(OtherName::of(name)),
        }
    }
    Some(entry(path.to_owned(), found, other))
}

fn of_base64(algorithm: Algorithm, text: &str) -> Option<Digest> {
    Digest::of_bytes(algorithm, &BASE64_STANDARD.decode(text).ok()?)
}

/// The meaning of a row of a report; none of its head, or of a directory.
fn of_row(row: &[String]) -> Option<MhlPiece> {
    let (key, message) = (row.get(1)?, row.get(6)?);
    if is_head(row) || key.ends_with('/') {
        return None;
    }
    let Some(key) = percent_decoded(key) else { return Some(fault("its key is not as in a URL")) };
    if status(row) != Some(true) {
        return Some(entry(key, Vec::new(), Some("none: its task failed".into())));
    }
    let Ok(message) = parsed(message.as_bytes()) else {
        return Some(fault("its message is no JSON, or has a key twice"));
    };
    let text = |name: &str| message.get(name).and_then(Value::as_str).unwrap_or_default();
    let found = match algorithm(text("checksumAlgorithm")) {
        _ if text("checksumType") != "FULL_OBJECT" => Err(COMPOSITE.into()),
        None => Err(OtherName::of(text("checksumAlgorithm"))),
        Some(algorithm) => {
            // The same may be there as digits, too.
            let digits = message.get("checksum_hex").and_then(Value::as_str);
            let digits = digits.map(|digits| Digest::parse(algorithm, digits.as_bytes()));
            let digest = of_base64(algorithm, text("checksum_base64"));
            Ok((algorithm, digest.filter(|_| digits.is_none_or(|digits| digits == digest))))
        }
    };
    Some(match found {
        Ok(found) => entry(key, vec![found], None),
        Err(other) => entry(key, Vec::new(), Some(other)),
    })
}

fn is_head(row: &[String]) -> bool {
    row.get(3).is_some_and(|it| it.trim().eq_ignore_ascii_case("TaskStatus"))
}

/// True if the task of a row succeeded, false if it failed; none if it is no row of a report.
fn status(row: &[String]) -> Option<bool> {
    match row.get(3)?.to_ascii_lowercase().as_str() {
        "succeeded" => Some(true),
        "failed" => Some(false),
        _ => None,
    }
}

/// The fields of a row with commas, as RFC 4180 has them.
fn fields(row: &[u8]) -> Option<Vec<String>> {
    let row = std::str::from_utf8(row).ok()?.trim_end_matches(['\r', '\n']);
    let (mut fields, mut field, mut quoted) = (Vec::new(), String::new(), false);
    let mut rest = row.chars().peekable();
    while let Some(character) = rest.next() {
        match character {
            '"' if quoted && rest.peek() == Some(&'"') => {
                rest.next();
                field.push('"');
            }
            '"' => quoted = !quoted,
            ',' if !quoted => fields.push(std::mem::take(&mut field)),
            _ => field.push(character),
        }
    }
    fields.push(field);
    (!quoted).then_some(fields)
}

/// A key as it is in a URL's form: `+` is a space.
fn percent_decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::new();
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'+' => b' ',
            b'%' => {
                let digits = [rest.next()?, rest.next()?];
                *hex::parse(&digits)?.first()?
            }
            byte => byte,
        });
    }
    String::from_utf8(bytes).ok()
}
