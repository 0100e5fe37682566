//! Byte order marks, and manifests that a Windows shell saved as UTF-16.
//!
//! Manifests are bytes, and neither `sha256sum` nor we write a mark. Windows editors put a UTF-8
//! mark at the start of a file, and PowerShell 5's `>` writes UTF-16 with one; people then wonder
//! why no line can be read. The first is dropped by the reader of lines, the second either named as
//! what it is or turned into UTF-8 by [`Utf16Reader`].

use std::{io, io::Read};

use crate::sys;

/// The mark that some editors put before UTF-8.
pub const UTF8_MARK: &[u8] = b"\xef\xbb\xbf";

/// True if a file with these first bytes is UTF-16 text with a byte order mark.
pub fn is_utf16(start: &[u8]) -> bool {
    Order::of(start).is_some()
}

/// The order of the bytes in a UTF-16 unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Order {
    Little,
    Big,
}

impl Order {
    fn of(start: &[u8]) -> Option<Self> {
        match start {
            [0xff, 0xfe, ..] => Some(Order::Little),
            [0xfe, 0xff, ..] => Some(Order::Big),
            _ => None,
        }
    }

    fn unit(self, pair: [u8; 2]) -> u16 {
        match self {
            Order::Little => u16::from_le_bytes(pair),
            Order::Big => u16::from_be_bytes(pair),
        }
    }
}

/// Number of bytes of UTF-16 that are decoded at a time; even.
const CHUNK: usize = 8 * 1024;

/// Turns UTF-16 that starts with a byte order mark into UTF-8 without one; any other input passes
/// as it is. Memory is fixed. What is not valid UTF-16 becomes U+FFFD, so a damaged name is not
/// found later rather than taken for another.
#[derive(Debug)]
pub struct Utf16Reader<R> {
    input: R,
    /// The order of its bytes, if the input is UTF-16; not known before `sniffed`.
    order: Option<Order>,
    sniffed: bool,
    ended: bool,
    /// `raw[..held]` was read and not yet turned.
    raw: Box<[u8]>,
    held: usize,
    /// `text[given..]` was turned and not yet given out.
    text: Vec<u8>,
    given: usize,
}

impl<R: Read> Utf16Reader<R> {
    /// Reads from `input`, of which nothing must have been read.
    pub fn new(input: R) -> Self {
        let raw = vec![0; CHUNK].into_boxed_slice();
        let text = Vec::new();
        Self { input, order: None, sniffed: false, ended: false, raw, held: 0, text, given: 0 }
    }

    /// True if the input is UTF-16; known once something was read.
    pub fn is_utf16(&self) -> bool {
        self.order.is_some()
    }

    /// Makes `text` hold something, unless the input is at its end.
    fn refill(&mut self) -> io::Result<()> {
        self.text.clear();
        self.given = 0;
        while self.text.is_empty() && !self.ended {
            let got = sys::uninterrupted(|| self.input.read(&mut self.raw[self.held..]))?;
            self.held += got;
            self.ended = got == 0;
            if self.held < 2 && !self.ended {
                continue;
            }
            if !self.sniffed {
                self.sniffed = true;
                self.order = Order::of(&self.raw[..self.held]);
                if self.order.is_some() {
                    self.raw.copy_within(2..self.held, 0);
                    self.held -= 2;
                }
            }
            match self.order {
                Some(order) => self.turn(order),
                None => {
                    self.text.extend_from_slice(&self.raw[..self.held]);
                    self.held = 0;
                }
            }
        }
        Ok(())
    }

    /// Turns what is held, except, before the end, a character of which only the first part came.
    fn turn(&mut self, order: Order) {
        let mut whole = self.held & !1;
        let is_first_half = |unit: u16| (0xd800..0xdc00).contains(&unit);
        if let [.., a, b] = self.raw[..whole]
            && is_first_half(order.unit([a, b]))
            && !self.ended
        {
            whole -= 2;
        }
        let units = self.raw[..whole].chunks_exact(2).map(|pair| order.unit([pair[0], pair[1]]));
        for c in char::decode_utf16(units) {
            let c = c.unwrap_or(char::REPLACEMENT_CHARACTER);
            self.text.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
        }
        self.raw.copy_within(whole..self.held, 0);
        self.held -= whole;
        if self.ended && self.held > 0 {
            let c = char::REPLACEMENT_CHARACTER;
            self.text.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
            self.held = 0;
        }
    }
}

impl<R: Read> Read for Utf16Reader<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.given == self.text.len() {
            // Nothing is held once the input is known to be plain: no need to copy twice.
            if self.sniffed && self.order.is_none() && !self.ended {
                return self.input.read(buffer);
            }
            self.refill()?;
        }
        let now = buffer.len().min(self.text.len() - self.given);
        buffer[..now].copy_from_slice(&self.text[self.given..self.given + now]);
        self.given += now;
        Ok(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read_all(bytes: &[u8]) -> Vec<u8> {
        let mut text = Vec::new();
        Utf16Reader::new(bytes).read_to_end(&mut text).unwrap();
        text
    }

    fn utf16(text: &str, order: Order) -> Vec<u8> {
        let bytes = |unit: u16| match order {
            Order::Little => unit.to_le_bytes(),
            Order::Big => unit.to_be_bytes(),
        };
        std::iter::once(0xfeff).chain(text.encode_utf16()).flat_map(bytes).collect()
    }

    #[test]
    fn invalid_parts_are_replaced() {
        let cases: &[(&[u8], &str)] = &[
            (b"\xff\xfe", ""),
            (b"\xff\xfea", "\u{fffd}"),
            (b"\xff\xfea\0b", "a\u{fffd}"),
            (b"\xff\xfe\x3d\xd8", "\u{fffd}"),
            (b"\xff\xfe\x3d\xd8a\0", "\u{fffd}a"),
            (b"\xff\xfe\x3d\xd8\x00\xde", "\u{1f600}"),
            (b"\xfe\xff\xd8\x3d\xde\x00", "\u{1f600}"),
        ];
        for (bytes, text) in cases {
            assert_eq!(read_all(bytes), text.as_bytes(), "{}", bytes.escape_ascii());
        }
    }

    proptest! {
        #[test]
        fn utf16_is_turned(text in "\\PC{0,30}", repeat in 1usize..600, big in any::<bool>()) {
            let text = text.repeat(repeat);
            let order = if big { Order::Big } else { Order::Little };
            prop_assert_eq!(read_all(&utf16(&text, order)), text.as_bytes());
        }

        #[test]
        fn other_input_passes(bytes in prop::collection::vec(any::<u8>(), 0..20), repeat in 1usize..2000) {
            prop_assume!(!is_utf16(&bytes) && (repeat == 1 || bytes.len() > 1));
            let bytes = bytes.repeat(repeat);
            prop_assert_eq!(read_all(&bytes), bytes);
        }
    }
}
