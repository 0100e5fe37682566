//! Chains on disk: the side file of a manifest, and the records in it.
//!
//! A side file is written beside each manifest and read by any later check. Nothing in it need be believed:
//! a chain that is torn, forged or of another file only makes a check slower ([`Chain`](crate::hash::chain)).

#[cfg(any(test, feature = "internals"))]
pub mod probe;
pub mod side_file;

use std::{
    collections::BTreeMap, ffi::OsStr, ffi::OsString, fmt, fs::File, io, io::Seek, io::SeekFrom,
    ops::Range, sync::Mutex, sync::MutexGuard, sync::OnceLock, sync::PoisonError,
};

use crate::{
    chain::side_file::HEAD, chain::side_file::SideFile, chain::side_file::key,
    chain::side_file::read_chain, hash::Chain, hash::Digest, hash::chain::LEAST_SPAN, staged, sys,
    sys::Dir,
};

// The side file of a run: chains of the files that it hashed, and of those that it found in place.
//
// Any thread may add a chain as soon as it has a digest: a record says nothing of a file's fate, so it does
// no harm where the file comes to nothing. The file is begun with the first record. One that cannot be
// written is given up and costs later checks time.

/// All of a side file that is of one content; `None` if that is too small to have one.
pub fn side_file_of(path: &[u8], size: u64, digest: &Digest, chain: &Chain) -> Option<Vec<u8>> {
    let mut bytes = HEAD.to_vec();
    side_file::write(&mut bytes, path, size, digest, chain).then_some(bytes)
}

/// The side file of a run.
#[derive(Debug, Default)]
pub struct StatesFile {
    /// Where it is to be; nothing is written before that is known.
    place: OnceLock<StatesPlace>,
    written: Mutex<WrittenStates>,
    /// Those of earlier runs, the newest first.
    earlier: OnceLock<Vec<SideFile>>,
}

/// The directory and the name of an unfinished side file.
#[derive(Debug)]
struct StatesPlace {
    dir: Dir,
    name: OsString,
}

#[derive(Debug, Default)]
struct WrittenStates {
    file: Option<File>,
    /// Its length in bytes.
    len: u64,
    /// Where the record of a digest is, by the beginning of that.
    places: BTreeMap<u64, u64>,
    /// Why nothing more is written; told once.
    error: Option<io::Error>,
    failed: bool,
}

impl StatesFile {
    /// It is to be made in `dir` under `name`, and `earlier` are those that are there, the newest first.
    pub fn begin(&self, dir: Dir, name: OsString, earlier: Vec<SideFile>) {
        // A run begins once.
        let _ = self.place.set(StatesPlace { dir, name });
        let _ = self.earlier.set(earlier);
    }

    /// True if the states of a file of this size are kept.
    pub fn wants(&self, size: u64) -> bool {
        size > LEAST_SPAN
    }

    /// Adds the chain of the content of the file at `path`.
    pub fn put(&self, path: &[u8], size: u64, digest: &Digest, chain: Chain) {
        let Some(place) = self.place.get() else { return };
        let mut written = self.written();
        if written.failed || written.places.contains_key(&key(digest)) {
            return;
        }
        let mut record = Vec::new();
        if side_file::write(&mut record, path, size, digest, &chain)
            && let Err(error) = written.append(place, &record, digest)
        {
            (written.error, written.failed) = (Some(error), true);
        }
    }

    /// The file at `path` stays as it is: takes over what an earlier side file has of its content.
    pub fn carry(&self, path: &[u8], size: u64, digest: &Digest) {
        if !self.wants(size) || self.written().places.contains_key(&key(digest)) {
            return;
        }
        if let Some((chain, _)) = self.earlier_chain(digest).filter(|(_, of)| *of == size) {
            self.put(path, size, digest, chain);
        }
    }

    /// The chain of the content with this digest and the size of that, if this run or an earlier one wrote it.
    pub fn chain(&self, digest: &Digest) -> Option<(Chain, u64)> {
        {
            let mut written = self.written();
            let at = written.places.get(&key(digest)).copied();
            if let (Some(at), Some(file)) = (at, &mut written.file)
                && let Ok(Some(found)) = read_chain(file, at, digest)
            {
                return Some(found);
            }
        }
        self.earlier_chain(digest)
    }

    fn earlier_chain(&self, digest: &Digest) -> Option<(Chain, u64)> {
        self.earlier.get()?.iter().find_map(|side| side.chain(digest))
    }

    /// Takes over what an earlier side file has of other contents than those that were added.
    pub fn carry_rest(&self, earlier: &SideFile) {
        let Some(place) = self.place.get() else { return };
        let mut written = self.written();
        earlier.each_record(|digest, record| {
            if written.failed || written.places.contains_key(&key(digest)) {
                return;
            }
            if let Err(error) = written.append(place, record, digest) {
                (written.error, written.failed) = (Some(error), true);
            }
        });
    }

    /// Nothing comes of it: nothing of it is left.
    pub fn give_up(&self) {
        let file = self.written().file.take();
        if let (Some(place), Some(_)) = (self.place.get(), file) {
            // A later run finds it.
            let _ = place.dir.remove(&place.name);
        }
    }

    /// It is complete: gives it the name `name`, and the permissions that `mode` says for its group; nothing if no
    /// record was written.
    ///
    /// # Errors
    /// Fails if it could not be written, now or before. Nothing of it is left then.
    pub fn publish(
        &self,
        name: &OsStr,
        durable: bool,
        replace: bool,
        mode: impl Fn(u32) -> u32,
    ) -> io::Result<()> {
        let Some(StatesPlace { dir, name: unfinished }) = self.place.get() else { return Ok(()) };
        let mut written = self.written();
        let (file, error) = (written.file.take(), written.error.take());
        let Some(file) = file else { return error.map_or(Ok(()), Err) };
        let published = error.map_or(Ok(()), Err).and_then(|()| {
            sys::let_read(&file, mode)?;
            if durable {
                sys::persist_file(&file)?;
            }
            let made = Dir::inode_of(&file)?;
            sys::close_file(file)?;
            staged::publish(dir, unfinished, name, replace, Some(&made))
        });
        if published.is_err() {
            // It is of no use.
            let _ = dir.remove(unfinished);
        }
        published
    }

    fn written(&self) -> MutexGuard<'_, WrittenStates> {
        // Nothing in there can panic half-way.
        self.written.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl WrittenStates {
    fn append(&mut self, place: &StatesPlace, record: &[u8], digest: &Digest) -> io::Result<()> {
        let file = match &mut self.file {
            Some(file) => file,
            none => {
                let file = none.insert(place.dir.create_new(&place.name, true)?);
                sys::write_all(&*file, HEAD)?;
                self.len = HEAD.len() as u64;
                file
            }
        };
        // A chain may have been read from it meanwhile.
        file.seek(SeekFrom::Start(self.len))?;
        sys::write_all(&*file, record)?;
        self.places.insert(key(digest), self.len);
        self.len += record.len() as u64;
        Ok(())
    }
}

// Where a file differs from the listed content, as far as its chain tells.

/// Number of ranges that are kept; what lies behind them is only counted.
const MOST_RANGES: usize = 1000;

/// Number of ranges that are shown.
const MOST_SHOWN: usize = 6;

const MIB: u64 = 1 << 20;

/// Where a file differs from the listed content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// The bytes that differ, in whole links of the chain; the first thousand ranges.
    pub ranges: Vec<Range<u64>>,
    /// Bytes of all ranges.
    pub bytes: u64,
    /// The size of the listed content.
    pub listed_size: u64,
    /// The size of the file.
    pub size: u64,
}

impl Damage {
    /// The links `bad` of a content of `listed_size` bytes do not hold in a file of `size`.
    pub fn new(chain: &Chain, listed_size: u64, size: u64, bad: &[u64]) -> Self {
        let mut damage = Self { ranges: Vec::new(), bytes: 0, listed_size, size };
        for link in bad {
            let range = link * chain.span()..listed_size.min((link + 1) * chain.span());
            // What was cut off is not there to differ, and of the link at the cut it is not known.
            if range.end > size {
                continue;
            }
            damage.bytes += range.end - range.start;
            let number = damage.ranges.len();
            match damage.ranges.last_mut() {
                Some(last) if last.end == range.start => last.end = range.end,
                _ if number < MOST_RANGES => damage.ranges.push(range),
                _ => {}
            }
        }
        damage
    }

    /// True if there is anything to tell: not if links held when they were read once more.
    pub fn says_something(&self) -> bool {
        self.bytes > 0 || self.size != self.listed_size
    }

    /// True if everything that can be compared differs.
    fn is_all(&self) -> bool {
        match self.size < self.listed_size {
            // The link at the cut is not compared.
            true => self.bytes > 0 && self.bytes + MIB > self.size,
            false => self.bytes > 0 && self.bytes == self.listed_size,
        }
    }
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { ranges, bytes, listed_size, size } = self;
        let how = match size.cmp(listed_size) {
            std::cmp::Ordering::Less => "shorter",
            std::cmp::Ordering::Equal => "",
            std::cmp::Ordering::Greater => "longer",
        };
        if !how.is_empty() {
            write!(f, "{how}, {} bytes instead of {}", grouped(*size), grouped(*listed_size))?;
        }
        if ranges.is_empty() {
            return Ok(());
        }
        if !how.is_empty() {
            f.write_str("; ")?;
        }
        if self.is_all() {
            return f.write_str("all of it");
        }
        let (bad, all) = (bytes.div_ceil(MIB), listed_size.div_ceil(MIB));
        write!(f, "{} MiB of {}: ", grouped(bad), grouped(all))?;
        for (number, range) in ranges.iter().take(MOST_SHOWN).enumerate() {
            let separator = if number == 0 { "" } else { ", " };
            write!(f, "{separator}{}", shown(range))?;
        }
        match ranges.len().saturating_sub(MOST_SHOWN) {
            0 => Ok(()),
            more => write!(f, " and {more} more"),
        }
    }
}

/// A range in a file, in whole MiB: from the first that differs to the first that does not.
fn shown(range: &Range<u64>) -> String {
    format!("{}-{} MiB", grouped(range.start / MIB), grouped(range.end.div_ceil(MIB)))
}

/// A number with a comma before every three digits.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut grouped = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hash::chain::links_of;

    fn chain(size: u64) -> Chain {
        let states = vec![[1; 8]; links_of(size, MIB) as usize - 1];
        Chain::new(MIB, states, size).unwrap()
    }

    fn told(listed_size: u64, size: u64, bad: &[u64]) -> String {
        Damage::new(&chain(listed_size), listed_size, size, bad).to_string()
    }

    #[test]
    fn places_are_told_by_range() {
        let size = 412_331 * MIB;
        let places = "2 MiB of 412,331: 1,234-1,235 MiB, 308,326-308,327 MiB";
        assert_eq!(told(size, size, &[1234, 308_326]), places);
        assert_eq!(told(size, size, &[3, 4, 5, 9]), "4 MiB of 412,331: 3-6 MiB, 9-10 MiB");
        assert_eq!(told(2 * MIB + 7, 2 * MIB + 7, &[2]), "1 MiB of 3: 2-3 MiB");
        let many: Vec<u64> = (0..20).map(|n| n * 2).collect();
        let places = "0-1 MiB, 2-3 MiB, 4-5 MiB, 6-7 MiB, 8-9 MiB, 10-11 MiB and 14 more";
        assert_eq!(told(size, size, &many), format!("20 MiB of 412,331: {places}"));
        let damage = Damage::new(&chain(size), size, size, &[3, 4, 5, 9]);
        assert_eq!(damage.ranges, [3 * MIB..6 * MIB, 9 * MIB..10 * MIB]);
    }

    #[test]
    fn what_is_no_range_is_said() {
        let size = 5 * MIB + 7;
        assert_eq!(told(size, size, &[0, 1, 2, 3, 4, 5]), "all of it");
        assert_eq!(told(size, size, &[0, 1, 2, 3, 4]), "5 MiB of 6: 0-5 MiB", "but its last bytes");
        let cut = "shorter, 3,145,729 bytes instead of 5,242,887";
        assert_eq!(told(size, 3 * MIB + 1, &[3, 4, 5]), cut);
        assert_eq!(told(size, 3 * MIB + 1, &[1, 3, 4, 5]), format!("{cut}; 1 MiB of 6: 1-2 MiB"));
        assert_eq!(told(size, size + 1, &[]), "longer, 5,242,888 bytes instead of 5,242,887");
    }
}
