//! A side file that is there: which contents it has chains of, and where.
//!
//! It may be of any origin and any size. Opening it reads the beginnings of its records, 16 bytes of memory
//! each; a chain is read and its sum compared when it is asked for. What cannot be read says nothing.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::sync::{Mutex, PoisonError};

use crate::chain::record::{FIXED, HEAD, RecordHead};
use crate::hash::Digest;
use crate::hash::chain::Chain;
use crate::sys::stat::Kind;
use crate::sys::{Dir, Uninterrupted};

/// The most records that are looked at, of all side files that are open for one purpose: 256 MiB of memory.
pub const MOST_RECORDS: usize = 1 << 24;

/// Between so many records it is asked whether they are still wanted.
const ASK: usize = 1 << 12;

/// So many records of one beginning of a digest are read: more were planted.
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
    /// What reading failed with.
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

    /// How many records it has, as far as it was looked through.
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

    /// Whether a file begins as a side file does.
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
/// What reading failed with.
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

/// What of a digest is kept in memory.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chain::record;
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
            assert!(record::write(
                &mut bytes,
                name.as_bytes(),
                size,
                &digest(links),
                &chain(links)
            ));
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

    /// Which of these contents have a chain, which must be theirs.
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

        /// What is cut off or changed loses records and never gives another chain.
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
