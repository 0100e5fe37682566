//! Telling zeros from data, so that runs of zeros can become holes.

/// Zeros count in units of the usual page and block size, in bytes: nothing smaller can be a hole on
/// the file systems in use.
const SMALLEST_HOLE: usize = 4096;

/// Bytes that are either all zeros, or data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Segment<'a> {
    /// So many zeros.
    Zeros(usize),
    /// Anything else.
    Data(&'a [u8]),
}

/// Cuts `bytes` where runs of whole zero units begin and end.
pub fn segments(bytes: &[u8]) -> impl Iterator<Item = Segment<'_>> {
    let mut rest = bytes;
    std::iter::from_fn(move || {
        let zeros = is_zero(rest.chunks(SMALLEST_HOLE).next()?);
        let alike = rest.chunks(SMALLEST_HOLE).take_while(|unit| is_zero(unit) == zeros).count();
        let (now, later) = rest.split_at(rest.len().min(alike * SMALLEST_HOLE));
        rest = later;
        Some(if zeros { Segment::Zeros(now.len()) } else { Segment::Data(now) })
    })
}

fn is_zero(unit: &[u8]) -> bool {
    unit.iter().fold(0, |or, byte| or | byte) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zeros_count_only_in_whole_units_and_at_the_end() {
        let mut bytes = vec![0; 5 * SMALLEST_HOLE + 10];
        (bytes[0], bytes[3 * SMALLEST_HOLE - 1]) = (1, 1);
        let (first, third) =
            (&bytes[..SMALLEST_HOLE], &bytes[2 * SMALLEST_HOLE..3 * SMALLEST_HOLE]);
        let expected = [
            Segment::Data(first),
            Segment::Zeros(SMALLEST_HOLE),
            Segment::Data(third),
            Segment::Zeros(2 * SMALLEST_HOLE + 10),
        ];
        assert_eq!(segments(&bytes).collect::<Vec<_>>(), expected);
        assert_eq!(segments(&[]).count(), 0);
    }
}
