//! Which files have their parity together: those of about the same size, as they come.

use super::Wanted;

/// A set has no more files, …
const MOST_FILES: usize = 1000;

/// … and no more bytes, unless one file has.
const MOST_BYTES: u64 = 1 << 30;

/// Files of a set are no larger than one of these, and larger than the one before, so that slices suit all of them.
const SIZES: [u64; 5] = [4 << 10, 64 << 10, 1 << 20, 16 << 20, u64::MAX];

/// Files that wait for enough others of their size.
#[derive(Debug, Default)]
struct Bin {
    files: Vec<Wanted>,
    bytes: u64,
}

/// All files that wait, by their sizes.
#[derive(Debug, Default)]
pub struct Bins([Bin; SIZES.len()]);

impl Bins {
    /// Adds a file of so many bytes, before and behind which a set may be complete.
    pub fn add(&mut self, wanted: Wanted, size: u64) -> [Option<Vec<Wanted>>; 2] {
        let number = SIZES.iter().position(|most| size <= *most).unwrap_or(SIZES.len() - 1);
        let Some(bin) = self.0.get_mut(number) else { return [None, None] };
        let is_over = bin.bytes > 0 && bin.bytes.saturating_add(size) > MOST_BYTES;
        let before = is_over.then(|| std::mem::take(bin).files);
        bin.bytes = bin.bytes.saturating_add(size);
        bin.files.push(wanted);
        [before, (bin.files.len() >= MOST_FILES).then(|| std::mem::take(bin).files)]
    }

    /// Bytes of the files that wait.
    pub fn bytes(&self) -> u64 {
        self.0.iter().map(|bin| bin.bytes).sum()
    }

    /// Bytes of the files of the size of which most wait.
    pub fn largest(&self) -> u64 {
        self.0.iter().map(|bin| bin.bytes).max().unwrap_or(0)
    }

    /// Takes the files of the size of which most bytes wait.
    pub fn take_largest(&mut self) -> Vec<Wanted> {
        let largest = self.0.iter_mut().max_by_key(|bin| bin.bytes);
        largest.map(std::mem::take).unwrap_or_default().files
    }

    /// The sets that the rest comes to.
    pub fn rest(self) -> impl Iterator<Item = Vec<Wanted>> {
        self.0.into_iter().map(|bin| bin.files).filter(|files| !files.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{hash::Digest, path::RelPath};

    #[test]
    fn files_of_about_the_same_size_are_together() {
        let wanted = |name: &str| Wanted {
            path: RelPath::parse(name.as_bytes()).unwrap(),
            digest: Digest::sha256([0; 32]),
            line: 1,
        };
        let mut bins = Bins::default();
        for number in 1..MOST_FILES {
            assert_eq!(
                bins.add(wanted(&number.to_string()), 100).map(|set| set.is_some()),
                [false; 2]
            );
        }
        let [_, full] = bins.add(wanted("last"), 1);
        assert_eq!(full.unwrap().len(), MOST_FILES);
        bins.add(wanted("small"), 7);
        bins.add(wanted("large"), MOST_BYTES - 5);
        let [before, full] = bins.add(wanted("larger"), MOST_BYTES + 1);
        assert!(before.unwrap().len() == 1 && full.is_none());
        assert_eq!(bins.bytes(), 7 + MOST_BYTES + 1);
        assert_eq!(bins.take_largest().len(), 1);
        assert_eq!(bins.rest().map(|set| set.len()).collect::<Vec<_>>(), [1]);
    }
}
