//! Line ends of any kind, as those text files have them that may come from anywhere.

use std::io::{self, Read};

use crate::sys;

/// Gives out LF for CR LF and for CR alone.
#[derive(Debug)]
pub struct LineEnds<R> {
    input: R,
    /// The last byte was a CR.
    after_cr: bool,
}

impl<R: Read> LineEnds<R> {
    /// Reads from `input`.
    pub fn new(input: R) -> Self {
        Self { input, after_cr: false }
    }
}

impl<R: Read> Read for LineEnds<R> {
    fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        loop {
            let got = sys::uninterrupted(|| self.input.read(room))?;
            let mut kept = 0;
            for at in 0..got {
                let byte = room[at];
                let is_second =
                    std::mem::replace(&mut self.after_cr, byte == b'\r') && byte == b'\n';
                if !is_second {
                    room[kept] = if byte == b'\r' { b'\n' } else { byte };
                    kept += 1;
                }
            }
            if kept > 0 || got == 0 {
                return Ok(kept);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_line_end_is_one() {
        for room in 1..9 {
            let (mut input, mut all) = (LineEnds::new(&b"a\r\nb\rc\n\r\r\n\nd\r"[..]), Vec::new());
            let mut room = vec![0; room];
            loop {
                let got = input.read(&mut room).unwrap();
                if got == 0 {
                    break;
                }
                all.extend_from_slice(&room[..got]);
            }
            assert_eq!(all, b"a\nb\nc\n\n\n\nd\n");
        }
    }
}
