//! Telling zeros from data, so that stretches of zeros can become holes.

/// Zeros are looked for in pieces of the usual page and block size, in bytes; nothing smaller can be a
/// hole on the file systems in use.
const PIECE: usize = 4096;

/// Bytes that are alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stretch<'a> {
    /// So many zeros.
    Zeros(usize),
    /// Anything else.
    Data(&'a [u8]),
}

/// Cuts `bytes` where aligned pieces of zeros begin and end.
pub fn stretches(bytes: &[u8]) -> impl Iterator<Item = Stretch<'_>> {
    let mut rest = bytes;
    std::iter::from_fn(move || {
        let zeros = is_zero(rest.chunks(PIECE).next()?);
        let alike = rest.chunks(PIECE).take_while(|piece| is_zero(piece) == zeros).count();
        let (now, later) = rest.split_at(rest.len().min(alike * PIECE));
        rest = later;
        Some(if zeros { Stretch::Zeros(now.len()) } else { Stretch::Data(now) })
    })
}

fn is_zero(piece: &[u8]) -> bool {
    piece.iter().fold(0, |or, byte| or | byte) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zeros_count_only_in_whole_pieces_and_at_the_end() {
        let mut bytes = vec![0; 5 * PIECE + 10];
        (bytes[0], bytes[3 * PIECE - 1]) = (1, 1);
        let (first, third) = (&bytes[..PIECE], &bytes[2 * PIECE..3 * PIECE]);
        let expected = [
            Stretch::Data(first),
            Stretch::Zeros(PIECE),
            Stretch::Data(third),
            Stretch::Zeros(2 * PIECE + 10),
        ];
        assert_eq!(stretches(&bytes).collect::<Vec<_>>(), expected);
        assert_eq!(stretches(&[]).count(), 0);
    }
}
