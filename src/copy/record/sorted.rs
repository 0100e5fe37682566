//! Lists in an order: on request the manifest and the lists beside it are sorted by path when a run ends, so that those
//! of two copies of one tree are the same files.
//!
//! Lines come in the order in which files are finished, because a run that is killed must have left them. So they are
//! sorted afterwards, in bounded memory, into files that take the places of these before they get their final names.

use std::io::{self, Read};

use crate::manifest::lists::ListKind;
use crate::manifest::read::scan::Text;
use crate::manifest::rewriting::ListSink;
use crate::manifest::{Parsed, Parser, Scanner};
use crate::tree::names::sorter::Sorter;

/// Stands between a path and its line in a record. It is below every byte that the path is written with.
const GAP: u8 = 1;

/// Stands before a byte that is like the gap or this.
const MARK: u8 = 2;

/// So many bytes are written at a time.
const BUFFER: usize = 256 << 10;

/// Writes the lines of a list of this kind, or without one of a manifest, in their order, of each line one. False if
/// the run is to stop.
///
/// # Errors
/// It cannot be read or written.
pub fn put_in_order(
    kind: Option<ListKind>,
    text: &mut dyn Read,
    out: &mut ListSink,
    is_to_stop: &dyn Fn() -> bool,
) -> io::Result<bool> {
    let head = kind.map(ListKind::head).unwrap_or_default();
    let lines_of_head = head.lines().count() as u64;
    let (mut lines, mut parser) = (Scanner::new(text), Parser::of_all());
    let (mut sorter, mut record) = (Sorter::new(|one, other| one.cmp(other)), Vec::new());
    while let Some(line) = lines.next_line()? {
        if is_to_stop() {
            return Ok(false);
        }
        match line.text {
            Text::Whole(_) if line.number <= lines_of_head => {}
            Text::Whole(text) => {
                record.clear();
                write_record(&mut record, path_in(kind, &mut parser, text), text);
                sorter.add(&record)?;
            }
            Text::TooLong { len, .. } => {
                let why = format!("line {} has {len} bytes, too many to be sorted", line.number);
                return Err(io::Error::other(why));
            }
        }
    }
    let (mut sorted, mut last) = (sorter.finish()?.reader(), Vec::new());
    let (mut text, mut path) = (head.into_bytes(), Vec::new());
    while let Some(record) = sorted.next_record()? {
        if is_to_stop() {
            return Ok(false);
        }
        if record == last {
            continue;
        }
        last.clear();
        last.extend_from_slice(record);
        text.extend_from_slice(read_field(record, &mut path));
        text.push(b'\n');
        if text.len() >= BUFFER {
            out.write(&text)?;
            text.clear();
        }
    }
    out.write(&text)?;
    Ok(true)
}

/// The path that a line is about; all of it where that cannot be told.
fn path_in<'a>(kind: Option<ListKind>, parser: &'a mut Parser, line: &'a [u8]) -> &'a [u8] {
    match kind.and_then(|kind| kind.path_in(line)) {
        Some(path) => path,
        None => match parser.parse(line) {
            Parsed::Record(record) => record.name.strip_prefix(b"./").unwrap_or(record.name),
            _ => line,
        },
    }
}

fn write_record(record: &mut Vec<u8>, path: &[u8], line: &[u8]) {
    write_field(record, path);
    record.extend_from_slice(line);
}

/// Appends bytes without a NUL so that records are in the order of these bytes, whatever follows.
pub fn write_field(record: &mut Vec<u8>, bytes: &[u8]) {
    for &byte in bytes {
        if matches!(byte, GAP | MARK) {
            record.push(MARK);
        }
        record.push(byte);
    }
    record.push(GAP);
}

/// Reads these bytes into `field`; returns what follows.
pub fn read_field<'a>(record: &'a [u8], field: &mut Vec<u8>) -> &'a [u8] {
    field.clear();
    let mut rest = record.iter();
    while let Some(&byte) = rest.next() {
        match byte {
            GAP => break,
            MARK => field.extend(rest.next()),
            _ => field.push(byte),
        }
    }
    rest.as_slice()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_in_the_order_of_paths_and_hold_their_lines() {
        let mut paths: Vec<&[u8]> = vec![
            b"a",
            b"a/b",
            b"a.b",
            b"\x01",
            b"\x02",
            b"\x01\x02",
            b"\x03",
            b"",
            b"a\x01",
            b"\xff",
        ];
        let line = |path: &[u8]| [b"line \x01\x02 ", path].concat();
        let record = |path: &&[u8]| {
            let mut record = Vec::new();
            write_record(&mut record, path, &line(path));
            record
        };
        let mut records: Vec<Vec<u8>> = paths.iter().map(record).collect();
        records.sort();
        paths.sort_unstable();
        for (record, path) in records.iter().zip(paths) {
            let mut field = Vec::new();
            assert_eq!(read_field(record, &mut field), line(path));
            assert_eq!(field, path);
        }
    }
}
