//! What was looked at and waits to be read, and in which order that happens.
//!
//! A manifest does not say how large its files are. Were they read as they are listed, a large one
//! at the end would keep one worker busy while the others have nothing left to do, and a disk that
//! turns would seek from each to the next. So the files of a window of the manifest, as many lines
//! as a fixed amount of memory holds, are looked at before they are read, by the same workers. What
//! comes after the window is not known yet: a large file that is listed behind ten thousand others
//! is begun when they are nearly done.

use std::collections::BTreeMap;

/// The window, in bytes of the lines that wait: about 9,000 lines of 45 bytes of name. Not tuned: it
/// must hold the whole manifest of an archive of large files, and looking so far ahead must not be
/// noticed before the first file is read.
const WINDOW: usize = 1 << 20;

/// Reading a file of this size takes far longer than handing it to a worker.
const LARGE: u64 = 1 << 20;

/// In which order files are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadOrder {
    /// Large ones first, the largest of all at the start; small ones as they are listed.
    LargeFirst,
    /// As they lie on the disk.
    AsOnDisk,
}

impl ReadOrder {
    /// The place of a file of `size` bytes that is to be read by itself; `None` for one that is read
    /// with its neighbours, at [`LAST`](Self::LAST).
    pub fn place_of_size(size: u64) -> Option<u64> {
        (size >= LARGE).then_some(!size)
    }

    /// Behind all files that have a place of their own.
    pub const LAST: u64 = u64::MAX;
}

/// Things that wait, by their places; at the same place, the first comes first.
#[derive(Debug)]
pub struct LookAhead<T> {
    order: ReadOrder,
    waiting: BTreeMap<(u64, u64), (usize, T)>,
    put: u64,
    weight: usize,
    /// The place that was taken last, if the next is to be taken from behind it.
    at: u64,
}

impl<T> LookAhead<T> {
    pub fn new(order: ReadOrder) -> Self {
        Self { order, waiting: BTreeMap::new(), put: 0, weight: 0, at: 0 }
    }

    /// Whether more is to be looked at before something is read.
    pub fn has_room(&self) -> bool {
        self.weight < WINDOW
    }

    /// How many things wait.
    pub fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Adds something that takes `weight` bytes.
    pub fn put(&mut self, place: u64, weight: usize, what: T) {
        self.waiting.insert((place, self.put), (weight, what));
        self.put += 1;
        self.weight += weight;
    }

    /// What is to be read next. On a disk that is the next behind what was read last; only behind
    /// the last of all the arm goes back, so what is added meanwhile does not send it to and fro.
    pub fn take(&mut self) -> Option<T> {
        let behind = self.waiting.range((self.at, 0)..).next();
        let place = *behind.or_else(|| self.waiting.iter().next())?.0;
        let (weight, what) = self.waiting.remove(&place)?;
        self.weight -= weight;
        if self.order == ReadOrder::AsOnDisk {
            self.at = place.0;
        }
        Some(what)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(ahead: &mut LookAhead<char>) -> String {
        std::iter::from_fn(|| ahead.take()).collect()
    }

    #[test]
    fn large_files_come_first_and_small_ones_in_their_order() {
        let mut ahead = LookAhead::new(ReadOrder::LargeFirst);
        let put = |ahead: &mut LookAhead<char>, size, name| {
            ahead.put(ReadOrder::place_of_size(size).unwrap_or(ReadOrder::LAST), 1, name);
        };
        for (size, name) in [(9, 'a'), (LARGE, 'b'), (5, 'c'), (1 << 40, 'd'), (LARGE, 'e')] {
            put(&mut ahead, size, name);
        }
        assert_eq!(ahead.take(), Some('d'));
        put(&mut ahead, 1 << 50, 'f');
        put(&mut ahead, LARGE - 1, 'g');
        assert_eq!(all(&mut ahead), "fbeacg");
    }

    #[test]
    fn the_arm_of_a_disk_goes_one_way_and_back_only_at_the_end() {
        let mut ahead = LookAhead::new(ReadOrder::AsOnDisk);
        for (place, name) in [(700, 'a'), (300, 'b'), (500, 'c'), (500, 'd')] {
            ahead.put(place, 1, name);
        }
        assert_eq!((ahead.take(), ahead.take()), (Some('b'), Some('c')));
        for (place, name) in [(100, 'e'), (200, 'f'), (500, 'g'), (600, 'h')] {
            ahead.put(place, 1, name);
        }
        assert_eq!(all(&mut ahead), "dghaef");
    }

    #[test]
    fn the_window_is_bounded_by_what_it_holds() {
        let mut ahead = LookAhead::new(ReadOrder::LargeFirst);
        ahead.put(1, WINDOW - 1, 'a');
        assert!(ahead.has_room());
        ahead.put(2, 1, 'b');
        assert!(!ahead.has_room());
        ahead.take();
        assert!(ahead.has_room());
    }
}
