//! A side file that is there: which contents it has chains of, and where.
//!
//! It may be of any origin and any size. Opening it reads the beginnings of its records, 16 bytes of memory
//! each; a chain is read and its sum compared when it is asked for. What cannot be read says nothing.

use std::io::{Read, Seek, SeekFrom};
use std::{ffi::OsStr, fs::File, io, sync::Mutex, sync::PoisonError};

use crate::{
    hash::Chain, hash::ChainingState, hash::Digest, hash::Sha256, hash::chain::LEAST_SPAN,
    hash::chain::MOST_STATES, hash::chain::links_of, sys::Dir, sys::Uninterrupted, sys::stat::Kind,
};

/// The most records that are looked at, of all side files that are open for one purpose: 256 MiB of memory.
pub const MOST_RECORDS: usize = 1 << 24;

/// Between so many records it is asked whether they are still wanted.
const ASK: usize = 1 << 12;

/// Number of records of one beginning of a digest that are read: more were planted.
const MOST_ALIKE: usize = 8;

/// A side file, open for reading.
#[derive(Debug)]
pub struct SideFile {
    file: Mutex<File>,
    /// The beginning of each digest, and where its record is; in order.
    places: Vec<(u64, u64)>,
}

impl SideFile {
    /// Opens the side file `name` in a directory, and no link or device of that name.
    ///
    /// # Errors
    /// It cannot be opened or read.
    pub fn open_in(
        dir: &Dir,
        name: &OsStr,
        most: usize,
        is_to_stop: &dyn Fn() -> bool,
    ) -> io::Result<Option<Self>> {
        match dir.stat(name, false)?.kind {
            Kind::File => Self::open(dir.open_file(name, false)?, most, is_to_stop),
            _ => Ok(None),
        }
    }

    /// Looks through the first `most` records of a side file; it ends early once `is_to_stop` says so, and with the
    /// first record that is none. `None` if it is no side file.
    ///
    /// # Errors
    /// Fails if the file cannot be read.
    pub fn open(
        mut file: File,
        most: usize,
        is_to_stop: &dyn Fn() -> bool,
    ) -> io::Result<Option<Self>> {
        let len = file.metadata()?.len();
        if !Self::is_one(&file) {
            return Ok(None);
        }
        let (mut places, mut at) = (Vec::new(), HEAD.len() as u64);
        let mut fixed = [0; FIXED];
        while places.len() < most {
            file.seek(SeekFrom::Start(at))?;
            if !fill(&mut file, &mut fixed)? {
                break;
            }
            let Some(head) = RecordHead::read(&fixed) else { break };
            let end = at + head.record_len();
            if end > len || places.len().is_multiple_of(ASK) && is_to_stop() {
                break;
            }
            places.push((key(&head.digest), at));
            at = end;
        }
        places.sort_unstable();
        Ok(Some(Self { file: Mutex::new(file), places }))
    }

    /// Number of its records, as far as it was looked through.
    pub fn len(&self) -> usize {
        self.places.len()
    }

    /// Calls `take` with the digest and the whole of each record; one that is torn is passed over.
    pub fn each_record(&self, mut take: impl FnMut(&Digest, &[u8])) {
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        for (_, at) in &self.places {
            if let Ok(Some((head, record))) = read_record(&mut file, *at, |_| true)
                && head.chain(&record).is_some()
            {
                take(&head.digest, &record);
            }
        }
    }

    /// True if a file begins as a side file does.
    pub fn is_one(mut file: &File) -> bool {
        let mut head = [0; HEAD.len()];
        file.rewind().is_ok() && Uninterrupted(file).read_exact(&mut head).is_ok() && head == HEAD
    }

    /// The chain of the content with this digest, and the size of that, if there is a whole record of it.
    pub fn chain(&self, digest: &Digest) -> Option<(Chain, u64)> {
        let key = key(digest);
        let first = self.places.partition_point(|place| place.0 < key);
        let places = self.places.get(first..)?.iter().take_while(|place| place.0 == key);
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        let mut places = places.take(MOST_ALIKE);
        places.find_map(|(_, at)| read_chain(&mut file, *at, digest).ok().flatten())
    }
}

/// The chain in the record at `at`, and the size of its content, if it is of this digest.
///
/// # Errors
/// Fails if the file cannot be read.
pub fn read_chain(file: &mut File, at: u64, digest: &Digest) -> io::Result<Option<(Chain, u64)>> {
    let read = read_record(file, at, |head| head.digest == *digest)?;
    Ok(read.and_then(|(head, record)| Some((head.chain(&record)?, head.size))))
}

/// The record at `at`, if it is there to its end and its head is wanted.
fn read_record(
    file: &mut File,
    at: u64,
    is_wanted: impl FnOnce(&RecordHead) -> bool,
) -> io::Result<Option<(RecordHead, Vec<u8>)>> {
    let mut record = vec![0; FIXED];
    file.seek(SeekFrom::Start(at))?;
    if !fill(file, &mut record)? {
        return Ok(None);
    }
    let head = record.first_chunk().and_then(RecordHead::read);
    let Some(head) = head.filter(is_wanted) else { return Ok(None) };
    // At most 32 MiB and a path.
    let Ok(len) = usize::try_from(head.record_len()) else { return Ok(None) };
    record.resize(len, 0);
    let is_whole = fill(file, record.get_mut(FIXED..).unwrap_or_default())?;
    Ok(is_whole.then_some((head, record)))
}

/// The part of a digest that is kept in memory.
pub fn key(digest: &Digest) -> u64 {
    u64::from_be_bytes(digest.head())
}

/// Reads as much as there is room for; false if the file ends before that.
fn fill(file: &mut File, room: &mut [u8]) -> io::Result<bool> {
    match Uninterrupted(file).read_exact(room) {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
        read => read.map(|()| true),
    }
}

// The record of a file in a side file: which content it is of, and the states of its chain.
//
// ```text
// file:    "dircopy states 1\n", then records one behind the other
// record:  "FILE", length of the path (u32), span of a link in MiB (u32), size (u64), digest (32 bytes),
//          path below the root, states (8 words of 4 bytes each), sum (8 bytes)
// ```
//
// Numbers are little-endian; the words of a state are big-endian, as a digest is written. There are as
// many states as there are links but the last: `(size - 1) / span`. The sum is the first 8 bytes of the
// SHA-256 of the record before it.

/// The first bytes of a side file; the number is that of the format.
pub const HEAD: &[u8] = b"dircopy states 1\n";

/// The first bytes of a record.
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

/// The head of a record, before its states.
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
mod side_file_tests {
    use super::*;
    use crate::hash::chain::LEAST_SPAN;
    use proptest::prelude::*;
    use std::io::Write;

    fn opened(bytes: &[u8]) -> Option<SideFile> {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(bytes).unwrap();
        SideFile::open(file, MOST_RECORDS, &|| false).unwrap()
    }

    fn chain(links: u64) -> Chain {
        Chain::new(LEAST_SPAN, vec![[9; 8]; links as usize - 1], links * LEAST_SPAN).unwrap()
    }

    fn digest(links: u64) -> Digest {
        let mut bytes = [1; 32];
        bytes[31] = links as u8;
        Digest::sha256(bytes)
    }

    /// Records of contents of 3 to 7 links, whose digests begin alike.
    fn whole() -> Vec<u8> {
        let mut bytes = HEAD.to_vec();
        for links in 3..8 {
            let (name, size) = (format!("file {links}"), links * LEAST_SPAN);
            assert!(super::write(&mut bytes, name.as_bytes(), size, &digest(links), &chain(links)));
        }
        bytes
    }

    #[test]
    fn no_more_is_held_than_was_asked_for() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&whole()).unwrap();
        let side = SideFile::open(file, 2, &|| false).unwrap().unwrap();
        assert_eq!((side.len(), found(&side)), (2, vec![3, 4]));
    }

    /// The numbers of those of these contents that have a chain, which must be theirs.
    fn found(side: &SideFile) -> Vec<u64> {
        let is_found = |links: &u64| {
            let found = side.chain(&digest(*links));
            assert!(found.as_ref().is_none_or(|it| *it == (chain(*links), links * LEAST_SPAN)));
            found.is_some()
        };
        (3..8).filter(is_found).collect()
    }

    #[test]
    fn records_are_found_by_digest() {
        let side = opened(&whole()).unwrap();
        assert_eq!(found(&side), [3, 4, 5, 6, 7]);
        assert_eq!(side.chain(&Digest::sha256([1; 32])), None);
        assert!(opened(b"").is_none() && opened(b"dircopy states 2\n").is_none());
        assert_eq!(found(&opened(HEAD).unwrap()), [0; 0]);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(256))]

        /// Cutting or changing bytes loses records and never gives another chain.
        #[test]
        fn what_is_left_of_a_side_file_is_right(
            cut in 0usize..2000,
            flips in proptest::collection::vec((0usize..2000, 1u8..), 0..4),
        ) {
            let mut bytes = whole();
            bytes.truncate(cut);
            let (len, first) = (bytes.len(), flips.iter().map(|flip| flip.0).min());
            for (at, flip) in flips {
                if let Some(byte) = bytes.get_mut(at) {
                    *byte ^= flip;
                }
            }
            if let Some(side) = opened(&bytes) {
                let left = found(&side).len();
                // What stands before the damage is found.
                prop_assert!(len < whole().len() || first.is_some_and(|at| at < len) || left == 5);
            }
        }

        /// Any bytes behind a head.
        #[test]
        fn any_bytes_can_be_opened(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let bytes = [HEAD, b"FILE", &bytes].concat();
            if let Some(side) = opened(&bytes) {
                prop_assert_eq!(found(&side), [0u64; 0]);
            }
        }
    }
}

#[cfg(test)]
mod record_tests {
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
