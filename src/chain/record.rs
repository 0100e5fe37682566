//! The record of a file in a side file: which content it is of, and the states of its chain.
//!
//! ```text
//! file:    "dircopy states 1\n", then records one behind the other
//! record:  "FILE", length of the path (u32), span of a link in MiB (u32), size (u64), digest (32 bytes),
//!          path below the root, states (8 words of 4 bytes each), sum (8 bytes)
//! ```
//!
//! Numbers are little-endian; the words of a state are big-endian, as a digest is written. There are as
//! many states as there are links but the last: `(size - 1) / span`. The sum is the first 8 bytes of the
//! SHA-256 of the record before it.

use crate::hash::chain::{Chain, LEAST_SPAN, MOST_STATES, links_of};
use crate::hash::state::ChainingState;
use crate::hash::{Digest, Sha256};

/// What a side file begins with; the number is that of the format.
pub const HEAD: &[u8] = b"dircopy states 1\n";

/// What a record begins with.
const TAG: &[u8; 4] = b"FILE";

/// The bytes of a record before the path.
pub const FIXED: usize = 4 + 4 + 4 + 8 + Sha256::LEN;

/// The bytes of a state.
const STATE: usize = 32;

/// The bytes of a sum.
const SUM: usize = 8;

/// The most bytes of a path: as many as a line of a manifest has.
const MOST_PATH: usize = 262_143;

/// A record takes at most this part of the file that it is of.
const MOST_SHARE: u64 = 10_000;

/// What stands before the states of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordHead {
    /// The size of the content in bytes.
    pub size: u64,
    pub digest: Digest,
    span: u64,
    path_len: usize,
}

impl RecordHead {
    /// Reads the beginning of a record; `None` if it cannot be one.
    pub fn read(fixed: &[u8; FIXED]) -> Option<Self> {
        let mut rest = fixed.strip_prefix(TAG)?;
        let path_len = usize::try_from(u32::from_le_bytes(take(&mut rest)?)).ok()?;
        let span = u64::from(u32::from_le_bytes(take(&mut rest)?)) * LEAST_SPAN;
        let size = u64::from_le_bytes(take(&mut rest)?);
        let digest = Digest::sha256(take(&mut rest)?);
        let is_one = span.is_power_of_two() && size > span && path_len <= MOST_PATH;
        let head = Self { size, digest, span, path_len };
        (is_one && links_of(size, span) <= MOST_STATES as u64 + 1).then_some(head)
    }

    /// The bytes of the whole record.
    pub fn record_len(&self) -> u64 {
        let states = (links_of(self.size, self.span) - 1) * STATE as u64;
        (FIXED + self.path_len + SUM) as u64 + states
    }

    /// The chain in a whole record, of which this is the beginning; `None` if the record is torn.
    pub fn chain(&self, record: &[u8]) -> Option<Chain> {
        let (before, noted) = record.split_last_chunk::<SUM>()?;
        if record.len() as u64 != self.record_len() || sum(before) != *noted {
            return None;
        }
        let (states, _) = before.get(FIXED + self.path_len..)?.as_chunks();
        Chain::new(self.span, states.iter().map(read_state).collect(), self.size)
    }
}

/// Appends the record of the file at `path`; nothing if that would take too much of the file's size. The
/// links are made as long as it takes.
pub fn write(out: &mut Vec<u8>, path: &[u8], size: u64, digest: &Digest, chain: &Chain) -> bool {
    let (all, path_len, mut step) = (chain.states().len(), path.len(), 1);
    let len = |step: usize| (FIXED + path_len + STATE * (all / step) + SUM) as u64;
    while step <= all && len(step) > size / MOST_SHARE {
        step *= 2;
    }
    let Some(sha256) = digest.as_sha256().filter(|_| step <= all && path_len <= MOST_PATH) else {
        return false;
    };
    let Ok(span) = u32::try_from(chain.span() / LEAST_SPAN * step as u64) else { return false };
    let start = out.len();
    out.extend_from_slice(TAG);
    out.extend_from_slice(&(path_len as u32).to_le_bytes());
    out.extend_from_slice(&span.to_le_bytes());
    out.extend_from_slice(&size.to_le_bytes());
    out.extend_from_slice(&sha256.0);
    out.extend_from_slice(path);
    for word in chain.states().iter().skip(step - 1).step_by(step).flatten() {
        out.extend_from_slice(&word.to_be_bytes());
    }
    let sum = sum(&out[start..]);
    out.extend_from_slice(&sum);
    true
}

fn sum(record: &[u8]) -> [u8; SUM] {
    let Sha256(sum) = Sha256::of(&[record]);
    std::array::from_fn(|at| sum[at])
}

fn read_state(bytes: &[u8; STATE]) -> ChainingState {
    let mut state = [0; 8];
    for (word, bytes) in state.iter_mut().zip(bytes.as_chunks().0) {
        *word = u32::from_be_bytes(*bytes);
    }
    state
}

fn take<const N: usize>(from: &mut &[u8]) -> Option<[u8; N]> {
    let (taken, rest) = from.split_first_chunk()?;
    *from = rest;
    Some(*taken)
}

#[cfg(test)]
mod tests {
    use super::*;

    const DIGEST: Digest = Digest::sha256([7; 32]);

    fn chain(size: u64) -> Chain {
        let states = (1..links_of(size, LEAST_SPAN)).map(|n| [n as u32; 8]).collect();
        Chain::new(LEAST_SPAN, states, size).unwrap()
    }

    fn written(path: &[u8], size: u64) -> Vec<u8> {
        let mut record = Vec::new();
        write(&mut record, path, size, &DIGEST, &chain(size));
        record
    }

    #[test]
    fn a_record_reads_as_it_was_written() {
        let size = 5 * LEAST_SPAN + 3;
        let record = written(b"dir/a file", size);
        let head = RecordHead::read(record.first_chunk().unwrap()).unwrap();
        assert_eq!((head.size, head.digest), (size, DIGEST));
        assert_eq!(head.record_len(), record.len() as u64);
        assert_eq!(head.chain(&record), Some(chain(size)));
        let first = &record[FIXED + 10..][..STATE];
        assert_eq!(first, [0, 0, 0, 1].repeat(8), "as a digest is written");
    }

    /// Every bit of it.
    #[test]
    fn a_torn_record_is_none() {
        let record = written(b"name", 3 * LEAST_SPAN);
        for bit in 0..record.len() * 8 {
            let mut torn = record.clone();
            torn[bit / 8] ^= 1 << (bit % 8);
            let head = RecordHead::read(torn.first_chunk().unwrap());
            assert_eq!(head.and_then(|head| head.chain(&torn)), None, "{bit}");
        }
        let head = RecordHead::read(record.first_chunk().unwrap()).unwrap();
        assert_eq!(head.chain(&record[..record.len() - 1]), None);
        assert_eq!(head.chain(&[]), None);
    }

    #[test]
    fn a_record_is_small_beside_its_file() {
        let cases = [(10, 2), (60, 2), (100, 2), (200, 3), (4000, 50), (4000, 20), (9, 5000)];
        for (path, size) in cases {
            let size = size * LEAST_SPAN - 7;
            let record = written(&vec![b'x'; path], size);
            assert!(record.len() as u64 <= size / MOST_SHARE, "{path} {size}");
            if !record.is_empty() {
                let head = RecordHead::read(record.first_chunk().unwrap()).unwrap();
                assert!(head.chain(&record).is_some());
            }
        }
        assert!(written(&[b'x'; 4000], 20 * LEAST_SPAN).is_empty());
        let wide = written(&[b'x'; 4000], 40 * LEAST_SPAN);
        assert!(RecordHead::read(wide.first_chunk().unwrap()).unwrap().span > LEAST_SPAN);
        assert!(!written(b"0123456789", 2 * LEAST_SPAN).is_empty());
    }

    #[test]
    fn what_claims_too_much_is_no_record() {
        let good: [u8; FIXED] = *written(b"name", 3 * LEAST_SPAN).first_chunk().unwrap();
        let with = |at: usize, bytes: &[u8]| {
            let mut fixed = good;
            fixed[at..at + bytes.len()].copy_from_slice(bytes);
            RecordHead::read(&fixed)
        };
        assert!(with(0, b"FILE").is_some());
        assert_eq!(with(0, b"file"), None);
        assert_eq!(with(4, &u32::MAX.to_le_bytes()), None);
        for span in [0, 3, u32::MAX] {
            assert_eq!(with(8, &span.to_le_bytes()), None);
        }
        for size in [0, 1, LEAST_SPAN, u64::MAX] {
            assert_eq!(with(12, &size.to_le_bytes()), None);
        }
    }
}
