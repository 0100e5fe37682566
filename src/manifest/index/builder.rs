//! An index being made, line by line, by a reader that knows which lines count.

use std::sync::{Mutex, MutexGuard, PoisonError, atomic::AtomicU64, atomic::Ordering};
use std::{fs::File, hash::BuildHasher, hash::RandomState, io, io::Read, ops::Range};

use memchr::memchr;

use crate::manifest::{Parsed, Parser, Record, Scanner, Text, read::scan::MAX_LINE};
use crate::{hash::Digest, hash::Sha256, sys, sys::FileRange};

/// The lines so far.
#[derive(Debug)]
pub struct IndexBuilder {
    pub(super) hashing: Hashing,
    pub(super) slots: Vec<IndexSlot>,
    most: usize,
}

impl IndexBuilder {
    /// There will be so many lines at most.
    ///
    /// # Errors
    /// [`OutOfMemory`](io::ErrorKind::OutOfMemory): then the file is as good as none, and the run goes on.
    pub fn with_room(most: usize) -> io::Result<Self> {
        Self::hashed(Hashing::new(IndexSlot::HASH_MASK), most)
    }

    pub(super) fn hashed(hashing: Hashing, most: usize) -> io::Result<Self> {
        let mut slots = Vec::new();
        slots.try_reserve_exact(most).map_err(|_| io::ErrorKind::OutOfMemory)?;
        Ok(Self { hashing, slots, most })
    }

    /// Adds the line at `offset`, which is of `name`; whether there was room.
    pub fn add(&mut self, name: &[u8], offset: u64) -> bool {
        let has_room = self.slots.len() < self.most;
        if has_room {
            self.slots.push(IndexSlot::new(self.hashing.hash(name), offset));
        }
        has_room
    }

    /// Adds the line of a manifest that dircopy wrote; whether it is one, and there was room. What it says is
    /// looked at when it is asked for.
    pub fn add_line(&mut self, line: &[u8], offset: u64) -> bool {
        match plain_name(line) {
            Some(name) => self.add(name, offset),
            None => with_record(line, |record| self.add(record.name, offset)).unwrap_or(false),
        }
    }

    /// Forgets the lines behind the first `len`.
    pub fn truncate(&mut self, len: usize) {
        self.slots.truncate(len);
    }
}

// One bit for each line of an index, set by many threads.

/// A fixed number of bits, none of them set at first.
#[derive(Debug, Default)]
pub struct Bits(Vec<AtomicU64>);

impl Bits {
    /// A set of so many bits.
    pub fn new(count: usize) -> Self {
        Self((0..count.div_ceil(64)).map(|_| AtomicU64::new(0)).collect())
    }

    /// Sets a bit; whether it was not set before.
    pub fn set(&self, at: usize) -> bool {
        let bit = 1 << (at % 64);
        self.0.get(at / 64).is_some_and(|word| word.fetch_or(bit, Ordering::Relaxed) & bit == 0)
    }

    /// Takes a bit back.
    pub fn clear(&self, at: usize) {
        if let Some(word) = self.0.get(at / 64) {
            word.fetch_and(!(1 << (at % 64)), Ordering::Relaxed);
        }
    }

    /// True if a bit is set.
    pub fn has(&self, at: usize) -> bool {
        self.0.get(at / 64).is_some_and(|word| word.load(Ordering::Relaxed) & 1 << (at % 64) != 0)
    }

    /// Number of bits that are set.
    pub fn count(&self) -> usize {
        self.0.iter().map(|word| word.load(Ordering::Relaxed).count_ones() as usize).sum()
    }

    /// Number of bytes of memory they take.
    #[cfg(test)]
    pub fn bytes(&self) -> usize {
        self.0.capacity() * size_of::<AtomicU64>()
    }
}

/// The answer of the lines of one name.
#[derive(Clone, Copy, Debug)]
pub enum Lookup {
    Nothing,
    /// All of them have this digest; the last stands at this offset, in bytes.
    Agreed {
        digest: Digest,
        last: u64,
    },
    /// They have different digests, or there are more of them than are read.
    Unclear,
}

impl Lookup {
    /// The same with one more line, which stands at `last`.
    pub(super) fn and(self, digest: Digest, last: u64) -> Self {
        match self {
            Lookup::Nothing => Lookup::Agreed { digest, last },
            Lookup::Agreed { digest: other, .. } if other == digest => {
                Lookup::Agreed { digest, last }
            }
            Lookup::Agreed { .. } | Lookup::Unclear => Lookup::Unclear,
        }
    }
}

// Where lines stand in an indexed file, and where the next one may.

/// Where a line stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinePlace {
    /// Its start in the file, in bytes.
    pub offset: u64,
    /// Its bit among those of all lines.
    pub bit: usize,
}

/// Where the line of the next name is expected, if anywhere: behind the last one that was found, because names are
/// mostly asked for in the order in which they were listed. A wrong one costs a comparison and never an answer.
#[derive(Clone, Copy, Debug, Default)]
pub struct NextLine(pub(super) Option<u64>);

// The index entry of a line: 12 bytes.
//
// Of the hash 48 bits are kept: among a hundred million lines some twenty pairs of names are then
// expected to have the same, and each such pair costs one line read in vain.

/// The keyed hash of names.
#[derive(Debug)]
pub struct Hashing {
    key: RandomState,
    mask: u64,
}

impl Hashing {
    /// A hash with a new random key, of the bits in `mask`.
    pub fn new(mask: u64) -> Self {
        Self { key: RandomState::new(), mask }
    }

    /// The hash of a name.
    pub fn hash(&self, name: &[u8]) -> u64 {
        self.key.hash_one(name) & self.mask
    }
}

/// A line in the index: 48 bits of hash, then 48 bits of offset, the most significant first, so
/// that the derived order is that of hash, then offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct IndexSlot([u32; 3]);

impl IndexSlot {
    /// The bits of a hash that there is room for.
    pub const HASH_MASK: u64 = (1 << Self::HASH_BITS) - 1;
    const HASH_BITS: u32 = 48;
    /// The bits of an offset that there is room for.
    pub const OFFSET_MASK: u64 = (1 << 48) - 1;

    /// The slot of a line; of both numbers only the bits there is room for.
    pub fn new(hash: u64, offset: u64) -> Self {
        let middle = (hash & 0xffff) << 16 | (offset & Self::OFFSET_MASK) >> 32;
        Self([(hash >> 16) as u32, middle as u32, offset as u32])
    }

    /// The hash of the name.
    pub fn hash(self) -> u64 {
        u64::from(self.0[0]) << 16 | u64::from(self.0[1] >> 16)
    }

    /// Where the line starts, in bytes.
    pub fn offset(self) -> u64 {
        u64::from(self.0[1] & 0xffff) << 32 | u64::from(self.0[2])
    }
}

/// Where in sorted slots those of each part of the hashes start, so that a search among a million of
/// them meets few lines of memory that are in no cache.
///
/// Keyed hashes lie evenly: a part has 4 to 8 slots, and this takes 1 to 2 bytes a slot. 1,000,000 lookups by
/// eight threads took 0.4 s of processor time with it and 0.9 s when all slots were halved again and again
/// (Xeon, 2 cores).
#[derive(Debug)]
pub struct Parts {
    /// The rank of the first slot of each part, and the number of slots.
    starts: Vec<usize>,
    /// The bits of a hash below those that number its part.
    shift: u32,
}

impl Parts {
    /// Looks at `slots`, which are sorted.
    pub fn of(slots: &[IndexSlot]) -> Self {
        let count = (slots.len() / 8).next_power_of_two();
        let shift = IndexSlot::HASH_BITS - count.ilog2();
        let mut starts = Vec::with_capacity(count + 1);
        for (rank, slot) in slots.iter().enumerate() {
            while starts.len() <= (slot.hash() >> shift) as usize {
                starts.push(rank);
            }
        }
        starts.resize(count + 1, slots.len());
        Self { starts, shift }
    }

    /// The rank of the first of `slots`, those it was made of, whose hash is not below `hash`.
    pub fn rank(&self, slots: &[IndexSlot], hash: u64) -> usize {
        let part = self.part(slots, hash);
        let first = part.start;
        first + slots.get(part).unwrap_or_default().partition_point(|slot| slot.hash() < hash)
    }

    /// Lets the processor fetch where [`rank`](Self::rank) is going to look.
    pub fn prefetch(&self, slots: &[IndexSlot], hash: u64) {
        // A part may lie across two lines of a cache.
        if let Some([first, .., last]) = slots.get(self.part(slots, hash)) {
            sys::prefetch(first);
            sys::prefetch(last);
        }
    }

    /// The ranks of the part that `hash` belongs to.
    fn part(&self, slots: &[IndexSlot], hash: u64) -> Range<usize> {
        let part = (hash >> self.shift) as usize;
        let start = |part| self.starts.get(part).copied().unwrap_or(slots.len());
        start(part)..start(part + 1)
    }
}

// The lines of a manifest that dircopy itself wrote, taken more strictly than those of others: a
// line that is not ended is torn, and says nothing even if it looks whole.

/// After so many lines, a matter of milliseconds, it is asked whether they are still wanted.
const ASK: u64 = 1 << 14;

/// The shortest line that can be a record, in bytes without its end: a digest of 64 bits, a blank and a name.
pub const SHORTEST: usize = 16 + 2;

/// Number of lines that are long enough for a record, whatever they say; fewer if `is_to_stop` says so meanwhile.
/// Shorter ones would let a list of empty lines claim twelve times its size in memory.
pub fn count_lines(window: &Window, len: u64, is_to_stop: &dyn Fn() -> bool) -> io::Result<usize> {
    let mut scanner = Scanner::new(window.range(0, len));
    let mut count = 0;
    while let Some(line) = scanner.next_line()? {
        count += usize::from(line.text.shown().len() >= SHORTEST);
        if line.number.is_multiple_of(ASK) && is_to_stop() {
            break;
        }
    }
    Ok(count)
}

/// A function that finds the line of a manifest in a line: where more stands before it, that is taken off; `None` where
/// the line is none.
pub type Strip = fn(&[u8]) -> Option<&[u8]>;

/// All of it.
pub fn plain(line: &[u8]) -> Option<&[u8]> {
    Some(line)
}

/// The records among the lines of a manifest. Each line is read for itself, in order or not: the
/// lines of ours are all of one style, so none depends on those before it.
pub struct Lines<'a> {
    scanner: Scanner<FileRange<'a>>,
    seen: u64,
    skipped: u64,
    strip: Strip,
    is_to_stop: &'a dyn Fn() -> bool,
}

impl<'a> Lines<'a> {
    /// The records in the first `len` bytes of the file; they end early once `is_to_stop` says so.
    pub fn new(
        window: &'a Window,
        len: u64,
        strip: Strip,
        is_to_stop: &'a dyn Fn() -> bool,
    ) -> Self {
        let scanner = Scanner::new(window.range(0, len));
        Self { scanner, seen: 0, skipped: 0, strip, is_to_stop }
    }

    /// Number of lines so far that were neither records nor comments nor empty: torn, malformed, too long.
    pub fn skipped(&self) -> u64 {
        self.skipped
    }

    /// The result of `see` for the next record and its offset.
    pub fn next_record<T>(&mut self, see: impl FnOnce(u64, Record) -> T) -> io::Result<Option<T>> {
        while let Some(line) = self.scanner.next_line()? {
            self.seen += 1;
            if self.seen.is_multiple_of(ASK) && (self.is_to_stop)() {
                break;
            }
            if let Text::Whole(bytes) = line.text
                && line.ended
                && let Some(bytes) = (self.strip)(bytes)
            {
                match Parser::of_all().parse(bytes) {
                    Parsed::Record(record) => return Ok(Some(see(line.offset, meant(record)))),
                    Parsed::Comment | Parsed::Blank => continue,
                    Parsed::Unhashed { .. } | Parsed::Malformed(_) => {}
                }
            }
            self.skipped += 1;
        }
        Ok(None)
    }
}

/// The digest on `line`, if the line is a record of the name `path`.
pub fn digest_of(path: &[u8], line: &[u8]) -> Option<Digest> {
    with_record(line, |record| (record.name == path).then_some(record.digest)).flatten()
}

/// The result of `see` for the record on `line`; `None` if there is none.
pub fn with_record<T>(line: &[u8], see: impl FnOnce(Record) -> T) -> Option<T> {
    match Parser::of_all().parse(line) {
        Parsed::Record(record) => Some(see(meant(record))),
        _ => None,
    }
}

/// The name on `line`, where it stands as it is behind what has the length of a digest of SHA-256, and is one word: a
/// short cut, for lines of which nearly all are so.
pub fn plain_name(line: &[u8]) -> Option<&[u8]> {
    let (word, name) = line.split_at_checked(Sha256::HEX_LEN)?;
    let name = name.strip_prefix(b"  ")?;
    let is_word = line[0] != b'\\' && memchr::memchr(b' ', word).is_none();
    (is_word && !name.is_empty() && !name.starts_with(b"./")).then_some(name)
}

/// The record by the path it means: without `./` before it, as in `./-`, which stands for `-` (see
/// [`line`](crate::manifest::lists)), and in lists whose names come from `find .`.
fn meant(mut record: Record<'_>) -> Record<'_> {
    while let Some(name) = record.name.strip_prefix(b"./") {
        record.name = name;
    }
    record
}

// A file read at many places, by many threads, mostly in order.
//
// A thread that asks for the line at an offset mostly asks for one nearby soon after, and each thread is at
// a place of its own. So some stretches of the file are kept, a few under each lock, and most lines cost a
// search in memory and no system call.

/// A file is cut into stretches of so many bytes, which are read at a time.
const STRETCH: u64 = 8 * 1024;

/// Number of bytes read beyond a stretch, so that its last line is mostly whole.
const TAIL: u64 = 1024;

/// Number of sets of stretches: the number of a stretch gives the one that it belongs to.
const SETS: usize = 16;

/// Number of stretches in a set: those that were asked last. With one for all, two workers in different directories
/// took it from each other: 71,600 reads where one worker had made 12,200. With 64 sets of one stretch eight workers
/// that met in a set still did: a later run over 500,000 files loaded 37,000 stretches of a record that has 7,800, and
/// with these 8,400.
const KEPT: usize = 4;

/// A file and the stretches of it that were read last.
#[derive(Debug)]
pub struct Window {
    file: File,
    sets: [Mutex<StretchSet>; SETS],
}

/// Stretches that share a lock; the one that was asked last comes first.
#[derive(Debug, Default)]
struct StretchSet([Stretch; KEPT]);

#[derive(Debug, Default)]
struct Stretch {
    /// It is the file from `offset` on.
    buffer: Vec<u8>,
    offset: u64,
}

impl Window {
    /// Takes over a file opened for reading; its position no longer matters.
    pub fn new(file: File) -> Self {
        Self { file, sets: std::array::from_fn(|_| Mutex::default()) }
    }

    /// Gives the line that starts at `offset`, without its LF, to `see`, under the lock. `None` if
    /// no line of up to [`MAX_LINE`] bytes with an LF is there.
    pub fn with_line<T>(&self, offset: u64, see: impl FnOnce(&[u8]) -> T) -> io::Result<Option<T>> {
        let number = offset / STRETCH;
        let mut set = held(&self.sets[number as usize % SETS]);
        if !set.find(offset) {
            set.make_room().load(&self.file, number * STRETCH, STRETCH + TAIL)?;
        }
        let first = &mut set.0[0];
        if first.line(offset).is_none() {
            first.load(&self.file, offset, MAX_LINE as u64 + 1)?;
        }
        Ok(first.line(offset).map(see))
    }

    /// Reads the bytes from `from` up to `to`, past the stretches that are kept.
    pub fn range(&self, from: u64, to: u64) -> FileRange<'_> {
        FileRange::new(&self.file, from, to)
    }
}

impl StretchSet {
    /// True if one of them has the line at `offset`; it is the first now.
    fn find(&mut self, offset: u64) -> bool {
        let found = self.0.iter().position(|stretch| stretch.line(offset).is_some());
        if let Some(at) = found {
            self.0[..=at].rotate_right(1);
        }
        found.is_some()
    }

    /// The one that was not asked for the longest time; it is the first now.
    fn make_room(&mut self) -> &mut Stretch {
        self.0.rotate_right(1);
        &mut self.0[0]
    }
}

fn held<T>(lock: &Mutex<T>) -> MutexGuard<'_, T> {
    // What is held is right after every step, so a panic elsewhere leaves nothing half done.
    lock.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Stretch {
    fn line(&self, offset: u64) -> Option<&[u8]> {
        let at = usize::try_from(offset.checked_sub(self.offset)?).ok()?;
        let rest = self.buffer.get(at..)?;
        Some(&rest[..memchr(b'\n', rest)?])
    }

    fn load(&mut self, file: &File, offset: u64, len: u64) -> io::Result<()> {
        self.buffer.clear();
        // A long line is rare: do not keep its memory.
        self.buffer.shrink_to((STRETCH + TAIL) as usize);
        self.buffer.resize(len as usize, 0);
        self.offset = offset;
        let range = FileRange::new(file, offset, offset.saturating_add(len));
        let read = read_whole(range, &mut self.buffer);
        self.buffer.truncate(*read.as_ref().unwrap_or(&0));
        read.map(drop)
    }
}

/// Fills `room` with what there is of `range`; how much that is. Mostly one call, where reading to the end
/// of a buffer that grows takes three.
fn read_whole(mut range: FileRange<'_>, room: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while filled < room.len() {
        match range.read(&mut room[filled..]) {
            Ok(0) => break,
            Ok(read) => filled += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}

#[cfg(test)]
mod slot_tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn ranks_are_those_of_halving(
            mut hashes in proptest::collection::vec(
                prop_oneof![0..=IndexSlot::HASH_MASK, 0..4u64, IndexSlot::HASH_MASK - 4..=IndexSlot::HASH_MASK],
                0..300,
            ),
            asked in 0..=IndexSlot::HASH_MASK,
        ) {
            hashes.sort_unstable();
            let slots: Vec<IndexSlot> = hashes.iter().map(|hash| IndexSlot::new(*hash, 7)).collect();
            for hash in hashes.iter().copied().chain([0, asked, IndexSlot::HASH_MASK]) {
                let halved = hashes.partition_point(|other| *other < hash);
                prop_assert_eq!(Parts::of(&slots).rank(&slots, hash), halved);
            }
        }
    }

    #[test]
    fn slots_keep_what_they_are_given_and_sort_by_it() {
        let values = [0, 1, 0xffff, 0x1_0000, 0xffff_ffff, 0x1_0000_0000, (1 << 48) - 1];
        let mut slots = Vec::new();
        for hash in values {
            for offset in values {
                let slot = IndexSlot::new(hash, offset);
                assert_eq!((slot.hash(), slot.offset()), (hash, offset));
                slots.push(slot);
            }
        }
        assert!(slots.is_sorted());
        assert_eq!(size_of::<IndexSlot>(), 12);
    }
}

#[cfg(test)]
mod own_tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn only_lines_with_room_for_a_record_count() {
        let mut file = tempfile::tempfile().unwrap();
        let record = format!("{}  a\n", "ab".repeat(32));
        let reversed = format!("{} a\n", "ab".repeat(32));
        file.write_all(&[b"\n".repeat(100_000).as_slice(), b"# comment\nshort\n"].concat())
            .unwrap();
        file.write_all([record, reversed].concat().as_bytes()).unwrap();
        let len = file.metadata().unwrap().len();
        let window = Window::new(file);
        assert_eq!(count_lines(&window, len, &|| false).unwrap(), 2);
    }
}

#[cfg(test)]
mod window_tests {
    use super::*;
    use std::io::Write;

    fn window(bytes: &[u8]) -> Window {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(bytes).unwrap();
        Window::new(file)
    }

    fn line(window: &Window, offset: u64) -> Option<Vec<u8>> {
        window.with_line(offset, <[u8]>::to_vec).unwrap()
    }

    #[test]
    fn finds_lines_wherever_they_are() {
        let mut bytes = Vec::new();
        let mut lines = Vec::new();
        for len in (0..4000).map(|i| i % 97).chain([100_000, MAX_LINE, 3]) {
            let text = vec![b'a' + (len % 26) as u8; len];
            lines.push((bytes.len() as u64, text.clone()));
            bytes.extend_from_slice(&text);
            bytes.push(b'\n');
        }
        let window = window(&bytes);
        for step in [1, 7, lines.len() - 1, 1999] {
            for at in (0..lines.len()).map(|i| i * step % lines.len()) {
                assert_eq!(line(&window, lines[at].0).as_ref(), Some(&lines[at].1), "line {at}");
            }
        }
        let mut read = Vec::new();
        window.range(3, 200_000).read_to_end(&mut read).unwrap();
        assert!(read == bytes[3..200_000]);
    }

    #[test]
    fn threads_at_places_of_their_own_do_not_take_them_from_each_other() {
        let window = window(&b"line\n".repeat(200_000));
        // Of these some belong to one set.
        let numbers = [0, 1, 2, 3, 16, 32, 64, 65];
        let places: Vec<u64> = numbers.map(|number| number * STRETCH / 5 * 5 + 5).to_vec();
        let lines = || places.iter().map(|at| line(&window, *at));
        assert!(lines().all(|line| line.is_some_and(|line| line == b"line")));
        // What is still known now was not read again.
        window.file.set_len(0).unwrap();
        assert!(lines().all(|line| line.is_some_and(|line| line == b"line")));
    }

    #[test]
    fn a_line_without_an_end_is_none() {
        let too_long = vec![b'x'; MAX_LINE + 1];
        let window = window(&[b"whole\n", &too_long[..], b"\ntorn"].concat());
        assert_eq!(line(&window, 0).as_deref(), Some(&b"whole"[..]));
        assert_eq!(line(&window, 6), None);
        let torn = 6 + too_long.len() as u64 + 1;
        assert_eq!(line(&window, torn), None);
        assert_eq!(line(&window, torn + 1000), None);
        assert_eq!(line(&window, u64::from(u32::MAX) * 4), None);
    }
}
