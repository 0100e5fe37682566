//! An index of a manifest that dircopy wrote: what it says of a path, in a few bytes a line.

pub mod builder;

pub use builder::{LinePlace, Lookup, NextLine};

use std::{fs::File, io};

use crate::manifest::index::builder::{Hashing, IndexSlot, Lines, Parts, Strip, Window};
use crate::manifest::{Bits, IndexBuilder, Record, Scanner, Text};
use crate::{hash::Algorithms, hash::Digest, path::RelPath};

// The index of an earlier manifest, which answers for a path: so a re-run keeps the digests it need not compute.
//
// A manifest of a hundred million lines does not fit into memory, but a little of each line does: **14 to 15 bytes**
// (48 bits of a keyed hash of the name, 48 bits of the line's offset, where to look for it, whether it was looked
// up), beside about half a MiB once, or 4 MiB where every line is as long as a line may be. While an
// index is built there are another 256 KiB and nothing else: the lines are counted before they are stored.
//
// The hash only says where to look. The name is always compared with the line itself, and the
// digest comes from there, so equal hashes cost time and never a wrong answer; and the key is
// random, so no names can be chosen that collide.
//
// What a manifest says is taken only where it says it clearly: a line that is not ended is torn and
// counts for nothing, and a name with two different digests, or with more than 64 lines, has none.

/// Number of lines of one hash that are read to answer for a name. A manifest of ours has one line a name, and that
/// many hashes do not collide; more of them are an attempt to keep us busy.
const ALIKE: usize = 64;

/// An index of one manifest of ours; many threads may ask it at once.
#[derive(Debug)]
pub struct Index {
    window: Window,
    /// Length of the file's indexed part, in bytes; lines that are appended later are not in it.
    len: u64,
    skipped: u64,
    algorithms: Algorithms,
    strip: Strip,
    hashing: Hashing,
    /// Sorted: so lines of one name stand together, in the order of the file.
    slots: Vec<IndexSlot>,
    parts: Parts,
    /// No line is shorter than so many bytes with its end, so each has a bit of its own.
    shortest: u64,
    visited: Bits,
    /// True if no two lines have one hash, so none has the name of another.
    distinct: bool,
}

impl Index {
    /// Reads the manifest `file`, twice from its start to its end, and indexes its lines.
    ///
    /// The file should be one that dircopy wrote, or nothing in it will be worth keeping. Once
    /// `is_to_stop` says so, what there is of it is left out.
    ///
    /// # Errors
    /// Fails if the file cannot be read; with [`FileTooLarge`](io::ErrorKind::FileTooLarge) if it has 256 TiB, and with
    /// [`OutOfMemory`](io::ErrorKind::OutOfMemory) where there is not enough for the lines.
    pub fn build(file: File, is_to_stop: &dyn Fn() -> bool) -> io::Result<Self> {
        let len = file.metadata()?.len();
        let hashing = Hashing::new(IndexSlot::HASH_MASK);
        Self::build_with(file, hashing, len, builder::plain, &|_| true, is_to_stop)
    }

    /// The same, of the lines alone whose names are `wanted`.
    ///
    /// # Errors
    /// Fails as [`build`](Self::build) does.
    pub fn build_of(
        file: File,
        wanted: &dyn Fn(&[u8]) -> bool,
        is_to_stop: &dyn Fn() -> bool,
    ) -> io::Result<Self> {
        let len = file.metadata()?.len();
        let hashing = Hashing::new(IndexSlot::HASH_MASK);
        let index = Self::build_with(file, hashing, len, builder::plain, wanted, is_to_stop)?;
        // That a line was not visited does not say that it is indexed: its name is looked up.
        Ok(Self { distinct: false, ..index })
    }

    /// An index of the lines in `builder`, of the first `len` bytes of a file whose lines are those of a
    /// manifest once `strip` took off what stands before.
    pub(crate) fn of(
        builder: IndexBuilder,
        file: File,
        len: u64,
        strip: Strip,
        shortest: u64,
    ) -> Self {
        Self::finish(builder, Window::new(file), len, strip, shortest)
    }

    fn build_with(
        file: File,
        hashing: Hashing,
        len: u64,
        strip: Strip,
        wanted: &dyn Fn(&[u8]) -> bool,
        is_to_stop: &dyn Fn() -> bool,
    ) -> io::Result<Self> {
        let window = Window::new(file);
        if len > IndexSlot::OFFSET_MASK {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        let count = builder::count_lines(&window, len, is_to_stop)?;
        let mut builder = IndexBuilder::hashed(hashing, count)?;
        let mut lines = Lines::new(&window, len, strip, is_to_stop);
        let mut algorithms = Algorithms::default();
        let mut add = |offset, record: Record| {
            algorithms = algorithms.with(record.digest.algorithm());
            !wanted(record.name) || builder.add(record.name, offset)
        };
        // There is room for all unless the file grew meanwhile. Short of that, all of it is read: unusable
        // lines count to its end.
        while lines.next_record(&mut add)?.unwrap_or(false) {}
        let skipped = lines.skipped();
        Ok(Self {
            skipped,
            algorithms,
            ..Self::finish(builder, window, len, strip, builder::SHORTEST as u64 + 1)
        })
    }

    fn finish(
        builder: IndexBuilder,
        window: Window,
        len: u64,
        strip: Strip,
        shortest: u64,
    ) -> Self {
        let IndexBuilder { hashing, mut slots, .. } = builder;
        slots.shrink_to_fit();
        slots.sort_unstable();
        let parts = Parts::of(&slots);
        let distinct = slots.windows(2).all(|pair| pair[0].hash() != pair[1].hash());
        let (skipped, algorithms) = (0, Algorithms::default());
        let index = Self {
            window,
            len,
            skipped,
            algorithms,
            strip,
            hashing,
            slots,
            parts,
            shortest,
            visited: Bits::default(),
            distinct,
        };
        Self { visited: index.bits(), ..index }
    }

    /// A bit for each line, none of them set.
    pub(crate) fn bits(&self) -> Bits {
        Bits::new((self.len / self.shortest) as usize + 1)
    }

    /// The bit of the line at `offset`.
    fn bit(&self, offset: u64) -> usize {
        (offset / self.shortest) as usize
    }

    /// The algorithms of the digests of its lines, where it was built from the lines of a manifest.
    pub fn algorithms(&self) -> Algorithms {
        self.algorithms
    }

    /// Number of lines in the index.
    pub fn len(&self) -> usize {
        self.slots.len()
    }

    /// True if no line is in the index.
    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// Number of lines that could not be kept: torn, malformed or too long ones. A manifest of a finished run has none.
    pub fn skipped(&self) -> u64 {
        self.skipped
    }

    /// The digest of the file `path`, if the manifest is clear about it. The
    /// lines of that name are now visited.
    ///
    /// # Errors
    /// Fails if the manifest cannot be read.
    pub fn lookup(&self, path: &[u8]) -> io::Result<Option<Digest>> {
        Ok(self
            .lookup_line(path, &mut NextLine::default(), |_, digest| digest)?
            .map(|found| found.0))
    }

    /// The result of `read` for the last line of that name, as it stands in the file, and for its digest; and the place
    /// of that line, which is looked for at `next` first. It is called under the lock of the line. The lines of that
    /// name are now visited.
    pub(crate) fn lookup_line<T>(
        &self,
        path: &[u8],
        next: &mut NextLine,
        read: impl FnMut(&[u8], Digest) -> T,
    ) -> io::Result<Option<(T, LinePlace)>> {
        self.line_near(path, next, |bit| _ = self.visited.set(bit), read)
    }

    /// The same, and nothing is visited by it.
    pub(crate) fn peek_line<T>(
        &self,
        path: &[u8],
        next: &mut NextLine,
        read: impl FnMut(&[u8], Digest) -> T,
    ) -> io::Result<Option<T>> {
        Ok(self.line_near(path, next, |_| (), read)?.map(|found| found.0))
    }

    fn line_near<T>(
        &self,
        path: &[u8],
        next: &mut NextLine,
        mut visit: impl FnMut(usize),
        mut read: impl FnMut(&[u8], Digest) -> T,
    ) -> io::Result<Option<(T, LinePlace)>> {
        let (mut last, expected) = (None, next.0.take());
        let mut see = |place: LinePlace, line: &[u8], digest| {
            visit(place.bit);
            next.0 = Some(place.offset + line.len() as u64 + 1);
            last = Some((read(line, digest), place));
        };
        if let Some(offset) = expected.filter(|offset| self.distinct && *offset < self.len)
            && self.line_of(path, offset, &mut see)?.is_some()
        {
            return Ok(last);
        }
        let found = self.find(path, see)?;
        Ok(last.filter(|_| matches!(found, Lookup::Agreed { .. })))
    }

    /// The digest on the line at `offset`, if that is of this name; `each` is told its place and what stands there.
    fn line_of(
        &self,
        path: &[u8],
        offset: u64,
        each: &mut impl FnMut(LinePlace, &[u8], Digest),
    ) -> io::Result<Option<Digest>> {
        let digest_of = |line: &[u8]| {
            let digest = builder::digest_of(path, (self.strip)(line)?)?;
            each(LinePlace { offset, bit: self.bit(offset) }, line, digest);
            Some(digest)
        };
        Ok(self.window.with_line(offset, digest_of)?.flatten())
    }

    /// Prepares for the next question, which is about that name: until then the processor can fetch its data, unless
    /// its line is expected at `next`.
    pub(crate) fn prefetch(&self, path: &[u8], next: &NextLine) {
        if next.0.is_none() {
            self.parts.prefetch(&self.slots, self.hashing.hash(path));
        }
    }

    /// True if a line is of that name, which does not count as visited by this.
    pub(crate) fn lists(&self, path: &[u8]) -> bool {
        self.peek(path).is_ok_and(|found| !matches!(found, Lookup::Nothing))
    }

    /// Marks the lines of that name as visited: something else is known about the file. Says whether one
    /// of them was not.
    ///
    /// # Errors
    /// Fails if the manifest cannot be read.
    pub fn visit(&self, path: &[u8]) -> io::Result<bool> {
        let mut first = false;
        self.find(path, |place, _, _| first |= self.visited.set(place.bit))?;
        Ok(first)
    }

    /// The answer of the lines of that name, which do not count as visited by this.
    ///
    /// # Errors
    /// Fails if the manifest cannot be read.
    pub fn peek(&self, path: &[u8]) -> io::Result<Lookup> {
        self.find(path, |_, _, _| ())
    }

    /// The records of names that were never looked up, in the order of the file, each name once (at
    /// its last line). Left out are names that a tree cannot hold and names with two different
    /// digests. Reads the manifest again; memory does not depend on its length. They end early once
    /// `is_to_stop` says so.
    pub fn unvisited<'a>(&'a self, is_to_stop: &'a dyn Fn() -> bool) -> Unvisited<'a> {
        // Where everything was asked for, there is nothing to read.
        let len = if self.visited.count() == self.slots.len() { 0 } else { self.len };
        let lines = Lines::new(&self.window, len, self.strip, is_to_stop);
        Unvisited { index: self, lines, refused: 0 }
    }

    /// The common answer of the lines of the name `path`. Every line that may be one is read; `each` is told the places
    /// of those that are, what stands there, and their digests.
    fn find(
        &self,
        path: &[u8],
        mut each: impl FnMut(LinePlace, &[u8], Digest),
    ) -> io::Result<Lookup> {
        let hash = self.hashing.hash(path);
        let first = self.parts.rank(&self.slots, hash);
        // Far slots are looked at only where the next is one more: they are in no cache.
        let is_alike =
            |rank| self.slots.get(rank).is_some_and(|slot: &IndexSlot| slot.hash() == hash);
        if is_alike(first + 1) && is_alike(first + ALIKE) {
            return Ok(Lookup::Unclear);
        }
        let mut found = Lookup::Nothing;
        let alike = self.slots.iter().skip(first).take_while(|slot| slot.hash() == hash);
        for offset in alike.map(|slot| slot.offset()) {
            if let Some(digest) = self.line_of(path, offset, &mut each)? {
                found = found.and(digest, offset);
            }
        }
        Ok(found)
    }

    /// The lines of that name are not visited, whatever was asked before.
    ///
    /// # Errors
    /// Fails if the manifest cannot be read.
    pub(crate) fn forget_visit(&self, path: &[u8]) -> io::Result<()> {
        self.each_line_of(path, |bit| self.visited.clear(bit))
    }

    /// Tells `each` the bits of the lines of that name.
    ///
    /// # Errors
    /// Fails if the manifest cannot be read.
    pub(crate) fn each_line_of(&self, path: &[u8], mut each: impl FnMut(usize)) -> io::Result<()> {
        self.find(path, |place, _, _| each(place.bit)).map(drop)
    }

    /// Hands to `see` each line whose bit is set in `chosen`, as it stands in the file without its end, in the
    /// order of the file. Reads the file once more.
    ///
    /// # Errors
    /// Fails if the file cannot be read, and where `see` does.
    pub(crate) fn chosen(
        &self,
        chosen: &Bits,
        mut see: impl FnMut(&[u8]) -> io::Result<()>,
    ) -> io::Result<()> {
        let all = chosen.count() == self.slots.len();
        let mut scanner = Scanner::new(self.window.range(0, self.len));
        while let Some(line) = scanner.next_line()? {
            let Text::Whole(text) = line.text else { continue };
            if !line.ended || (self.strip)(text).is_none() {
                continue;
            }
            if all || chosen.has(self.bit(line.offset)) {
                see(text)?;
            }
        }
        Ok(())
    }

    /// The result of `see` for the line at `offset`, as it stands in the file.
    ///
    /// # Errors
    /// Fails if the manifest cannot be read.
    pub(crate) fn line_at<T>(
        &self,
        offset: u64,
        see: impl FnOnce(&[u8]) -> T,
    ) -> io::Result<Option<T>> {
        self.window.with_line(offset, see)
    }

    /// The name and the digest on the line at `offset`, if a tree can hold a file of that name.
    ///
    /// # Errors
    /// Fails if the manifest cannot be read.
    pub(crate) fn record_at(&self, offset: u64) -> io::Result<Option<(RelPath, Digest)>> {
        let read = |line: &[u8]| {
            let given = |record: Record| Some((RelPath::parse(record.name).ok()?, record.digest));
            builder::with_record((self.strip)(line)?, given).flatten()
        };
        Ok(self.window.with_line(offset, read)?.flatten())
    }

    /// True if [`unvisited`](Self::unvisited) is to give the record at `offset`.
    fn is_unvisited(&self, offset: u64, name: &[u8]) -> io::Result<bool> {
        if self.distinct || self.visited.has(self.bit(offset)) {
            return Ok(!self.visited.has(self.bit(offset)));
        }
        let found = self.peek(name)?;
        Ok(matches!(found, Lookup::Agreed { last, .. } if last == offset))
    }
}

/// An iterator over the records that were not looked up; see [`Index::unvisited`]. An item is an
/// error where reading failed; what follows it may be incomplete.
pub struct Unvisited<'a> {
    index: &'a Index,
    lines: Lines<'a>,
    refused: u64,
}

impl Unvisited<'_> {
    /// Number of records so far whose names a tree cannot hold.
    pub fn refused(&self) -> u64 {
        self.refused
    }

    /// The next record, with the offset of its line.
    pub(crate) fn step(&mut self) -> io::Result<Option<(RelPath, Digest, u64)>> {
        let (index, refused) = (self.index, &mut self.refused);
        let mut give =
            |offset: u64, record: Record| -> io::Result<Option<(RelPath, Digest, u64)>> {
                Ok(match RelPath::parse(record.name) {
                    Ok(path)
                        if path.as_bytes() == record.name
                            && index.is_unvisited(offset, record.name)? =>
                    {
                        Some((path, record.digest, offset))
                    }
                    Ok(_) => None,
                    Err(_) => {
                        *refused += 1;
                        None
                    }
                })
            };
        while let Some(given) = self.lines.next_record(&mut give)? {
            if let Some(found) = given? {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }
}

impl Iterator for Unvisited<'_> {
    type Item = io::Result<(RelPath, Digest)>;

    fn next(&mut self) -> Option<Self::Item> {
        self.step().map(|given| given.map(|(path, digest, _)| (path, digest))).transpose()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hash::Sha256;
    use crate::manifest::lists;
    use std::fs;
    use std::io::Write;

    fn digest(seed: u64) -> Digest {
        let mut bytes = [0; Sha256::LEN];
        bytes[..8].copy_from_slice(&seed.to_le_bytes());
        Digest::sha256(bytes)
    }

    fn file(bytes: &[u8]) -> File {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(bytes).unwrap();
        file
    }

    fn manifest(records: &[(&str, u64)]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for (name, seed) in records {
            lists::write_path(&mut bytes, &digest(*seed), name.as_bytes());
        }
        bytes
    }

    fn unvisited(index: &Index) -> Vec<(String, Digest)> {
        let show = |item: io::Result<(RelPath, Digest)>| {
            let (path, digest) = item.unwrap();
            (path.as_bytes().escape_ascii().to_string(), digest)
        };
        index.unvisited(&|| false).map(show).collect()
    }

    #[test]
    fn finds_what_the_manifest_says() {
        let names = [("a", 1), ("dir/b c", 2), ("line\nfeed", 3), ("back\\slash", 4), (" x", 5)];
        let index = Index::build(file(&manifest(&names)), &|| false).unwrap();
        assert_eq!((index.len(), index.skipped()), (5, 0));
        for (name, seed) in names.iter().rev() {
            assert_eq!(index.lookup(name.as_bytes()).unwrap(), Some(digest(*seed)), "{name}");
        }
        for absent in ["", "b", "a ", "x", "dir", "line", "A"] {
            assert_eq!(index.lookup(absent.as_bytes()).unwrap(), None, "{absent}");
        }
        assert!(unvisited(&index).is_empty());
        let empty = Index::build(file(b""), &|| false).unwrap();
        assert!(empty.is_empty() && empty.lookup(b"a").unwrap().is_none());
        assert!(unvisited(&empty).is_empty());
    }

    #[test]
    fn what_is_not_clear_counts_for_nothing() {
        let mut bytes = manifest(&[("twice", 1), ("quarrel", 2), ("twice", 1), ("../up", 3)]);
        bytes.extend_from_slice(b"# a note\n\nnonsense\n");
        bytes.extend_from_slice(&manifest(&[("quarrel", 9), ("alone", 4)]));
        let torn = manifest(&[("torn", 5)]);
        // A torn line may look whole: its name may have been longer.
        bytes.extend_from_slice(&torn[..torn.len() - 1]);
        let index = Index::build(file(&bytes), &|| false).unwrap();

        assert_eq!((index.len(), index.skipped()), (6, 2));
        assert_eq!(unvisited(&index), [("twice".into(), digest(1)), ("alone".into(), digest(4))]);
        assert_eq!(index.lookup(b"quarrel").unwrap(), None);
        assert_eq!(index.lookup(b"torn").unwrap(), None);
        assert_eq!(index.lookup(b"twice").unwrap(), Some(digest(1)));
        assert_eq!(unvisited(&index), [("alone".into(), digest(4))]);
        index.visit(b"alone").unwrap();
        assert!(unvisited(&index).is_empty());
    }

    #[test]
    fn equal_hashes_cost_time_and_no_wrong_answer() {
        let names: Vec<String> = (0..60).map(|i| format!("dir/{i}")).collect();
        let records: Vec<(&str, u64)> = names.iter().map(String::as_str).zip(0..).collect();
        for mask in [0, 0b111] {
            let (bytes, hashing) = (manifest(&records), Hashing::new(mask));
            let len = bytes.len() as u64;
            let index =
                Index::build_with(file(&bytes), hashing, len, builder::plain, &|_| true, &|| false)
                    .unwrap();
            for (name, seed) in records.iter().step_by(2) {
                assert_eq!(index.lookup(name.as_bytes()).unwrap(), Some(digest(*seed)));
            }
            assert_eq!(index.lookup(b"dir/60").unwrap(), None);
            let left = unvisited(&index);
            assert_eq!(left.len(), 30);
            assert_eq!(left[1], ("dir/3".into(), digest(3)));
        }
    }

    /// Where a line is expected decides how fast it is found, and nothing else.
    #[test]
    fn a_line_is_found_wherever_it_is_expected() {
        let names: Vec<String> = (0..60).map(|i| format!("dir/{i}")).collect();
        let records: Vec<(&str, u64)> = names.iter().map(String::as_str).zip(0..).collect();
        let bytes = manifest(&records);
        let twice = [&bytes[..], &manifest(&[("dir/7", 70)])].concat();
        for (bytes, seven) in [(&bytes, Some(digest(7))), (&twice, None)] {
            let ends = memchr::memchr_iter(b'\n', bytes).map(|end| end as u64 + 1);
            for expected in ends.chain([0, bytes.len() as u64 + 100]) {
                let index = Index::build(file(bytes), &|| false).unwrap();
                let mut next = NextLine(Some(expected));
                for (name, seed) in records.iter().skip(5).take(4).chain(&records[..2]) {
                    let found = index.lookup_line(name.as_bytes(), &mut next, |_, digest| digest);
                    let known = if *seed == 7 { seven } else { Some(digest(*seed)) };
                    assert_eq!(found.unwrap().map(|(digest, _)| digest), known, "{name}");
                }
                assert_eq!(unvisited(&index).len(), 60 - 6);
            }
        }
    }

    #[test]
    fn a_name_many_times_over_costs_no_time() {
        let mut records = vec![("again", 1); 200_000];
        records.push(("once", 2));
        let index = Index::build(file(&manifest(&records)), &|| false).unwrap();
        // Read line by line for each of the lines, this would take days.
        assert_eq!(unvisited(&index), [("once".into(), digest(2))]);
        assert_eq!(index.lookup(b"again").unwrap(), None);
        let index = Index::build(file(&manifest(&records[..ALIKE])), &|| false).unwrap();
        assert_eq!(unvisited(&index), [("again".into(), digest(1))]);
        assert_eq!(index.lookup(b"again").unwrap(), Some(digest(1)));
    }

    #[test]
    fn a_file_cut_off_later_gives_no_wrong_answer() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("manifest");
        let bytes = manifest(&[("a", 1), ("b", 2)]);
        fs::write(&path, &bytes).unwrap();
        let index = Index::build(File::open(&path).unwrap(), &|| false).unwrap();
        let end = bytes.len() as u64 - 1;
        File::options().write(true).open(&path).unwrap().set_len(end).unwrap();
        assert_eq!(index.lookup(b"a").unwrap(), Some(digest(1)));
        assert_eq!(index.lookup(b"b").unwrap(), None);
    }

    #[test]
    fn a_million_lines_take_what_the_documentation_says() {
        const LINES: u64 = 1_000_000;
        const THREADS: u64 = 4;
        let mut bytes = Vec::new();
        for seed in 0..LINES {
            let name = format!("camera {}/reel {}/clip {seed}.mov", seed / 10_000, seed / 100);
            lists::write_path(&mut bytes, &digest(seed), name.as_bytes());
        }
        let index = Index::build(file(&bytes), &|| false).unwrap();
        assert_eq!(index.len() as u64, LINES);
        let bits = index.slots.capacity() * size_of::<IndexSlot>() * 8 + index.visited.bytes() * 8;
        assert!(bits as u64 <= LINES * (12 * 8 + 6) + 64, "{bits} bits");

        // Several threads at once, one of them backwards, through the first hundredth.
        std::thread::scope(|scope| {
            for thread in 0..THREADS {
                let index = &index;
                scope.spawn(move || {
                    for seed in (0..LINES / 100).filter(|seed| seed % THREADS == thread) {
                        let seed = if thread == 0 { LINES / 100 - THREADS - seed } else { seed };
                        let name =
                            format!("camera {}/reel {}/clip {seed}.mov", seed / 10_000, seed / 100);
                        let found = index.lookup(name.as_bytes()).unwrap();
                        assert_eq!(found, Some(digest(seed)), "{name}");
                    }
                });
            }
        });
        let left = index.unvisited(&|| false).map(|item| item.unwrap().1).take(1000);
        assert!(left.eq((LINES / 100..).map(digest).take(1000)));
    }
}
