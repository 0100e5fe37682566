//! The line scanner: how a manifest of a hundred million lines is read.
//!
//! One buffer of fixed size; lines are slices of it. Nothing is copied but the one line that a read
//! cut in two, nothing is allocated per line, and nothing grows, whatever the input holds: a line
//! that does not fit is reported by its first bytes and its length, and skipped. The shape is that
//! of the `rawscan` crate.
//!
//! It knows nothing of manifests: [`Entries`](super::entries::Entries) gives the lines their
//! meaning.

use std::{io, io::Read};

use memchr::memchr;

use crate::sys;

/// The longest line, in bytes without its end, that [`Scanner::new`] takes: with its end it fills
/// the buffer of 256 KiB.
///
/// A line of dircopy's own is that long only if its path has more than 128 KiB (every byte may need
/// an escape); the longest path Windows knows has less than 96 KiB. Speed did not decide: buffers
/// from 64 KiB to 1 MiB were measured alike.
pub const MAX_LINE: usize = 256 * 1024 - 1;

/// The longest path of a directory whose files have a line in a list, whatever their names and digests; bytes.
pub const LONGEST_DIR: usize = (128 << 10) - 1024;

/// Length of the beginning of an overlong line that is kept for a message; bytes.
const PREFIX: usize = 128;

/// No list has a longer line, and nothing is read behind one; bytes. Reading so much takes a tenth of a second.
const LONGEST: u64 = 256 << 20;

/// The byte that ends a line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Separator {
    /// A line feed, as almost all lists have it.
    #[default]
    Lf,
    /// A NUL byte, as `find -print0` and `sha256sum -z` write.
    Nul,
}

impl Separator {
    /// The byte that ends a line.
    pub const fn byte(self) -> u8 {
        match self {
            Separator::Lf => b'\n',
            Separator::Nul => 0,
        }
    }
}

/// One line of the input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Line<'a> {
    /// The line's number, counted from 1.
    pub number: u64,
    /// Where it starts, in bytes from the start of the input.
    pub offset: u64,
    /// True if a separator ended it. The last line of an input may lack it: then it may be torn.
    pub ended: bool,
    /// The line's text, as far as it is kept.
    pub text: Text<'a>,
}

/// The bytes of a line, its separator not among them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Text<'a> {
    /// All of them.
    Whole(&'a [u8]),
    /// Too many of them.
    TooLong {
        /// The first few.
        prefix: &'a [u8],
        /// Length of the whole line.
        len: u64,
    },
}

impl<'a> Text<'a> {
    /// The bytes that are there: of a line that is too long, the first few.
    pub fn shown(self) -> &'a [u8] {
        match self {
            Text::Whole(bytes) => bytes,
            Text::TooLong { prefix, .. } => prefix,
        }
    }
}

/// Reads lines from `R`; see the [module](self).
#[derive(Debug)]
pub struct Scanner<R> {
    input: R,
    separator: u8,
    buffer: Box<[u8]>,
    /// `buffer[start..end]` was read and not yet given out.
    start: usize,
    end: usize,
    /// Where `buffer[start]` stands in the input.
    offset: u64,
    number: u64,
    /// The input ended or failed: do not read it again.
    closed: bool,
}

/// Where a line ends.
enum End {
    /// After this many bytes, by a separator in the buffer.
    Separator(usize),
    /// With the input: what is left in the buffer is the line, or there is none.
    Input,
    /// Behind the buffer: it was read past, and the first `kept` bytes of the buffer are its first.
    Skipped { kept: usize, len: u64, ended: bool },
}

impl<R: Read> Scanner<R> {
    /// Reads lines of up to [`MAX_LINE`] bytes that end with LF.
    pub fn new(input: R) -> Self {
        Self::with(input, Separator::Lf, MAX_LINE)
    }

    /// Reads lines of up to `limit` bytes (at least one) that end with `separator`. The buffer has
    /// one byte more.
    pub fn with(input: R, separator: Separator, limit: usize) -> Self {
        Self {
            input,
            separator: separator.byte(),
            buffer: vec![0; limit.max(1) + 1].into_boxed_slice(),
            start: 0,
            end: 0,
            offset: 0,
            number: 0,
            closed: false,
        }
    }

    /// The input. What it gave may still lie in the buffer.
    pub fn input(&self) -> &R {
        &self.input
    }

    /// The next line, or `None` at the end of the input.
    ///
    /// # Errors
    ///
    /// Fails if the input cannot be read; with [`Interrupted`](io::ErrorKind::Interrupted) only if there was no end to
    /// that. An error is final: nothing but `None` comes after it, and the part of a line that was read before it is
    /// not given out.
    #[inline]
    pub fn next_line(&mut self) -> io::Result<Option<Line<'_>>> {
        match memchr(self.separator, &self.buffer[self.start..self.end]) {
            Some(len) => Ok(Some(self.give(len, true))),
            None => self.next_line_read(),
        }
    }

    /// Takes lines that end with NUL from now on; before the first line is given out.
    pub(super) fn end_with_nul(&mut self) {
        self.separator = Separator::Nul.byte();
    }

    /// Reads on, if nothing was given out and there is room, until `is_enough` says so of what was read or
    /// the input ends. Returns whether it ended.
    ///
    /// # Errors
    /// Fails as [`next_line`](Self::next_line) does.
    pub(super) fn read_start(&mut self, is_enough: impl Fn(&[u8]) -> bool) -> io::Result<bool> {
        while self.start == 0 && self.end < self.buffer.len() {
            if is_enough(&self.buffer[..self.end]) {
                return Ok(false);
            }
            if self.fill(self.end)? == 0 {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The bytes that were read and not yet given out, and the separator. It starts with the next line, whose end may
    /// not be in it.
    #[inline]
    pub(super) fn ahead(&self) -> (&[u8], u8) {
        (&self.buffer[self.start..self.end], self.separator)
    }

    /// The next line, when its end is not in the buffer.
    #[cold]
    fn next_line_read(&mut self) -> io::Result<Option<Line<'_>>> {
        Ok(match self.read_to_end_of_line()? {
            End::Separator(len) => Some(self.give(len, true)),
            End::Input if self.start == self.end => None,
            End::Input => Some(self.give(self.end - self.start, false)),
            End::Skipped { kept, len, ended } => {
                let (number, offset) = self.count(len, ended);
                let text = Text::TooLong { prefix: &self.buffer[..kept], len };
                Some(Line { number, offset, ended, text })
            }
        })
    }

    /// Gives out the first `len` bytes of [`ahead`](Self::ahead) as a line; a separator follows them
    /// if `ended`.
    #[inline]
    pub(super) fn give(&mut self, len: usize, ended: bool) -> Line<'_> {
        let (number, offset) = self.count(len as u64, ended);
        let start = self.start;
        self.start += len + usize::from(ended);
        Line { number, offset, ended, text: Text::Whole(&self.buffer[start..start + len]) }
    }

    /// Counts a line; returns its number and offset.
    #[inline]
    fn count(&mut self, len: u64, ended: bool) -> (u64, u64) {
        let offset = self.offset;
        self.offset += len + u64::from(ended);
        self.number += 1;
        (self.number, offset)
    }

    /// Reads until the end of the line at `start` is known; what was read is without it.
    #[cold]
    fn read_to_end_of_line(&mut self) -> io::Result<End> {
        self.buffer.copy_within(self.start..self.end, 0);
        self.end -= self.start;
        self.start = 0;
        loop {
            let searched = self.end;
            if searched == self.buffer.len() {
                return self.skip();
            }
            if self.fill(searched)? == 0 {
                return Ok(End::Input);
            }
            if let Some(at) = memchr(self.separator, &self.buffer[searched..self.end]) {
                return Ok(End::Separator(searched + at));
            }
        }
    }

    /// Passes over the line that fills the whole buffer without an end. Its first bytes stay where
    /// they are; the rest of the buffer is read over. Who asks between lines whether to stop would wait for ever at a
    /// file that is one hole of many TiB.
    ///
    /// # Errors
    /// It does not end within [`LONGEST`].
    fn skip(&mut self) -> io::Result<End> {
        let kept = PREFIX.min(self.buffer.len() / 2);
        let mut len = self.end as u64;
        loop {
            self.start = kept;
            self.end = kept;
            let got = self.fill(kept)?;
            if got == 0 {
                return Ok(End::Skipped { kept, len, ended: false });
            }
            if let Some(at) = memchr(self.separator, &self.buffer[kept..self.end]) {
                self.start = kept + at + 1;
                return Ok(End::Skipped { kept, len: len + at as u64, ended: true });
            }
            len += got as u64;
            if len > LONGEST {
                self.closed = true;
                let why = format!("line {} is longer than {} MiB", self.number + 1, LONGEST >> 20);
                return Err(io::Error::new(io::ErrorKind::InvalidData, why));
            }
        }
    }

    /// Reads once into `buffer[at..]`, where `at` is `end`; returns how much came, 0 at the end.
    fn fill(&mut self, at: usize) -> io::Result<usize> {
        while !self.closed {
            match sys::uninterrupted(|| self.input.read(&mut self.buffer[at..])) {
                Ok(0) => self.closed = true,
                Ok(got) => {
                    self.end = at + got;
                    return Ok(got);
                }
                Err(error) => {
                    self.closed = true;
                    (self.start, self.end) = (0, 0);
                    return Err(error);
                }
            }
        }
        Ok(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Gives out its bytes in pieces of the lengths it is told, with interruptions (length 0)
    /// between them, and ends with an error if it is told one.
    struct ChunkedReader<'a> {
        bytes: &'a [u8],
        pieces: std::iter::Cycle<std::vec::IntoIter<usize>>,
        error: Option<io::ErrorKind>,
    }

    impl<'a> ChunkedReader<'a> {
        fn new(bytes: &'a [u8], mut pieces: Vec<usize>) -> Self {
            pieces.push(1);
            Self { bytes, pieces: pieces.into_iter().cycle(), error: None }
        }
    }

    impl Read for ChunkedReader<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let piece = self.pieces.next().unwrap();
            if piece == 0 {
                return Err(io::ErrorKind::Interrupted.into());
            }
            if self.bytes.is_empty()
                && let Some(kind) = self.error.take()
            {
                return Err(kind.into());
            }
            let piece = piece.min(self.bytes.len()).min(buffer.len());
            let (now, later) = self.bytes.split_at(piece);
            buffer[..piece].copy_from_slice(now);
            self.bytes = later;
            Ok(piece)
        }
    }

    /// The expected results of the scanner, computed the simple way.
    fn naive(bytes: &[u8], separator: u8, limit: usize) -> Vec<(u64, u64, bool, u64, Vec<u8>)> {
        let mut lines = Vec::new();
        let mut offset = 0;
        for piece in bytes.split_inclusive(|&b| b == separator) {
            let text = piece.strip_suffix(&[separator]).unwrap_or(piece);
            let ended = text.len() < piece.len();
            let kept = if text.len() <= limit { text.len() } else { PREFIX.min(limit.div_ceil(2)) };
            lines.push((
                lines.len() as u64 + 1,
                offset,
                ended,
                text.len() as u64,
                text[..kept].to_vec(),
            ));
            offset += piece.len() as u64;
        }
        lines
    }

    fn scanned(mut scanner: Scanner<ChunkedReader>) -> Vec<(u64, u64, bool, u64, Vec<u8>)> {
        let mut lines = Vec::new();
        while let Some(line) = scanner.next_line().unwrap() {
            let len = match line.text {
                Text::Whole(bytes) => bytes.len() as u64,
                Text::TooLong { len, .. } => len,
            };
            lines.push((line.number, line.offset, line.ended, len, line.text.shown().to_vec()));
        }
        assert_eq!(scanner.next_line().unwrap(), None);
        lines
    }

    proptest! {
        #[test]
        fn says_what_a_plain_split_says(
            bytes in prop::collection::vec(
                prop_oneof![Just(b'\n'), Just(0u8), Just(b'a'), any::<u8>()], 0..600),
            pieces in prop::collection::vec(0usize..40, 0..20),
            limit in 1usize..80,
            nul in any::<bool>(),
        ) {
            let separator = if nul { Separator::Nul } else { Separator::Lf };
            let scanner = Scanner::with(ChunkedReader::new(&bytes, pieces), separator, limit);
            prop_assert_eq!(scanned(scanner), naive(&bytes, separator.byte(), limit));
        }
    }

    #[test]
    fn a_line_at_the_limit_fits_and_one_byte_more_does_not() {
        let (fits, over) = ([b'a'; 10], [b'a'; 11]);
        for end in [&b"\n"[..], b""] {
            let bytes = [&fits[..], b"\n", &over, b"\n", &fits, end].concat();
            let mut scanner = Scanner::with(&bytes[..], Separator::Lf, 10);
            assert_eq!(scanner.next_line().unwrap().unwrap().text, Text::Whole(&fits));
            let line = scanner.next_line().unwrap().unwrap();
            assert_eq!(line.text, Text::TooLong { prefix: &over[..5], len: 11 });
            assert!(line.ended);
            let line = scanner.next_line().unwrap().unwrap();
            assert_eq!((line.text, line.offset), (Text::Whole(&fits[..]), 23));
            assert_eq!(line.ended, !end.is_empty());
            assert_eq!(scanner.next_line().unwrap(), None);
        }
    }

    #[test]
    fn fifty_megabytes_of_one_line_stay_in_the_buffer() {
        let line = io::repeat(b'x').take(50_000_000).chain(&b"\nnext"[..]);
        let mut scanner = Scanner::new(line);
        let long = scanner.next_line().unwrap().unwrap();
        assert_eq!(long.text, Text::TooLong { prefix: &[b'x'; PREFIX], len: 50_000_000 });
        let next = scanner.next_line().unwrap().unwrap();
        assert_eq!((next.text, next.number, next.ended), (Text::Whole(b"next"), 2, false));
        assert_eq!(scanner.buffer.len(), MAX_LINE + 1);
    }

    #[test]
    fn an_error_is_told_once_and_is_the_end() {
        for bytes in [&b"one\ntorn"[..], b"one\ntoo long a line"] {
            let mut input = ChunkedReader::new(bytes, vec![0, 3]);
            input.error = Some(io::ErrorKind::ConnectionReset);
            let mut scanner = Scanner::with(input, Separator::Lf, 8);
            assert_eq!(scanner.next_line().unwrap().unwrap().text, Text::Whole(b"one"));
            let error = scanner.next_line().unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::ConnectionReset);
            assert_eq!(scanner.next_line().unwrap(), None);
        }
    }
}
