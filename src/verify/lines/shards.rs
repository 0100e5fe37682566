//! The shards of a check that several machines share: which of them each line of a manifest belongs to.
//!
//! A manifest does not say how large files are, so lines are dealt out by lot: a few in a row, so that a directory is
//! not opened everywhere, and of every round each shard gets one. The lot depends on the round and the number of shards
//! alone, so every machine draws the same.

use crate::hash::{Algorithm, Digest};
use crate::{path::RelPath, verify::lines::manifest_lines::ManifestLine};

/// Usual length of a manifest's line; bytes.
const USUAL_LINE: u64 = 100;

/// A shard has at least so many rows of lines, where there are enough: sizes even out.
const ROWS: u64 = 64;

/// A row has at most so many lines.
const LONGEST_ROW: u64 = 64;

/// A check has at most so many shards.
pub const MOST_SHARDS: u32 = 1 << 16;

/// One of the shards of a check, counted from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CheckShard {
    /// Its number.
    pub index: u32,
    /// Number of shards in all.
    pub of: u32,
}

/// The lines that are wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinesWanted {
    /// Those of a shard are checked.
    Of(CheckShard),
    /// Those of each of so many shards are summed up, and none is checked.
    Sums(u32),
}

/// Tells a set of lines from every other, in whatever order they come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LineSum {
    pub lines: u64,
    /// The sum of a digest of each.
    pub sum: u128,
}

/// Deals lines out to shards.
#[derive(Debug)]
pub struct LineShards {
    of: u32,
    /// Number of lines in a row.
    row: u64,
    /// The round that was dealt last, and which shard got each of its rows.
    round: Option<u64>,
    dealt: Vec<u32>,
}

/// The choice of lines of a manifest while it is read.
#[derive(Debug)]
pub struct WantedLines {
    wanted: LinesWanted,
    shards: LineShards,
    /// The sums of each shard, if they are wanted.
    pub sums: Vec<LineSum>,
}

impl CheckShard {
    /// Reads `K/N`; the error says what is wrong.
    pub fn parse(text: &str) -> Result<Self, String> {
        let form = || format!("{text:?} is not K/N, as in 0/16");
        let (index, of) = text.split_once('/').ok_or_else(form)?;
        let (index, of) = index.parse().ok().zip(of.parse().ok()).ok_or_else(form)?;
        Self::new(index, of)
    }

    /// A shard of so many; the error says why there is none.
    pub fn new(index: u32, of: u32) -> Result<Self, String> {
        match () {
            () if !(1..=MOST_SHARDS).contains(&of) => {
                Err(format!("a check has 1 to {MOST_SHARDS} shards, not {of}"))
            }
            () if index >= of => {
                let last = of - 1;
                Err(format!(
                    "there is no shard {index} of {of}: they are counted from 0, from 0/{of} to {last}/{of}"
                ))
            }
            () => Ok(Self { index, of }),
        }
    }
}

impl LineSum {
    /// Adds a line.
    pub fn add(&mut self, line: u64, path: &RelPath, listed: &Digest) {
        let mut hasher = Algorithm::Sha256.start();
        hasher.update(&line.to_le_bytes());
        hasher.update(listed.algorithm().name().as_bytes());
        hasher.update(listed.bytes());
        hasher.update(path.as_bytes());
        let sum = hasher.finish().and_then(|digest| digest.bytes().first_chunk().copied());
        self.sum = self.sum.wrapping_add(u128::from_le_bytes(sum.unwrap_or_default()));
        self.lines += 1;
    }
}

impl LineShards {
    /// Deals the lines of a manifest of so many bytes out to so many shards.
    pub fn new(of: u32, manifest_len: u64) -> Self {
        let lines = manifest_len / USUAL_LINE;
        let row = (lines / (u64::from(of) * ROWS)).clamp(1, LONGEST_ROW);
        Self { of, row, round: None, dealt: (0..of).collect() }
    }

    /// The shard of a line, from 1.
    pub fn shard_of(&mut self, line: u64) -> u32 {
        let row = line.saturating_sub(1) / self.row;
        let (round, at) = (row / u64::from(self.of), row % u64::from(self.of));
        if self.round.replace(round) != Some(round) {
            self.deal(round);
        }
        self.dealt.get(at as usize).copied().unwrap_or(0)
    }

    /// Draws who gets which row of a round (Fisher and Yates).
    fn deal(&mut self, round: u64) {
        self.dealt.iter_mut().zip(0..).for_each(|(shard, index)| *shard = index);
        let mut lot = SplitMix(round ^ u64::from(self.of) << 40);
        for last in (1..self.dealt.len()).rev() {
            let other = lot.next() % (last as u64 + 1);
            self.dealt.swap(last, other as usize);
        }
    }
}

/// Numbers that only have to be well mixed, and the same on every machine (SplitMix64).
struct SplitMix(u64);

impl SplitMix {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }
}

impl WantedLines {
    /// For a manifest of so many bytes.
    pub fn new(wanted: LinesWanted, manifest_len: u64) -> Self {
        let (of, sums) = match wanted {
            LinesWanted::Of(shard) => (shard.of, 0),
            LinesWanted::Sums(of) => (of, of),
        };
        let sums = vec![LineSum::default(); sums as usize];
        Self { wanted, shards: LineShards::new(of, manifest_len), sums }
    }

    /// True if the findings on a line are told here.
    pub fn is_told(&mut self, line: u64) -> bool {
        match self.wanted {
            LinesWanted::Of(shard) => self.shards.shard_of(line) == shard.index,
            LinesWanted::Sums(_) => true,
        }
    }

    /// True if the file of a line is checked here; if sums are wanted, it is added to that of its shard.
    pub fn is_checked(&mut self, line: &ManifestLine) -> bool {
        let shard = self.shards.shard_of(line.number);
        match self.wanted {
            LinesWanted::Of(own) => shard == own.index,
            LinesWanted::Sums(_) => {
                if let Some(sum) = self.sums.get_mut(shard as usize) {
                    sum.add(line.number, &line.path, &line.digest);
                }
                false
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_has_one_shard_and_all_have_as_many() {
        for (of, lines) in [(1, 10), (3, 7), (16, 100_000), (100, 1), (7, 3_000_000)] {
            let mut shards = LineShards::new(of, lines * 110);
            let mut again = LineShards::new(of, lines * 110);
            let mut counts = vec![0_u64; of as usize];
            for line in 1..=lines {
                let shard = shards.shard_of(line);
                counts[shard as usize] += 1;
                if line % 1000 == 1 {
                    assert_eq!(again.shard_of(line), shard, "in any order");
                }
            }
            let (least, most) = (counts.iter().min().unwrap(), counts.iter().max().unwrap());
            assert!(most - least <= LONGEST_ROW, "{of} of {lines}: {least} to {most}");
        }
    }

    /// Large files at regular places do not all go to one shard: every second line may be one.
    #[test]
    fn what_alternates_is_shared() {
        let mut shards = LineShards::new(2, 1_000_000);
        let large = (1..10_000).step_by(2).filter(|&line| shards.shard_of(line) == 0).count();
        assert!((2_200..2_800).contains(&large), "{large} of 5000");
    }

    #[test]
    fn shards_are_counted_from_0() {
        assert_eq!(CheckShard::parse("0/16"), Ok(CheckShard { index: 0, of: 16 }));
        for text in ["16/16", "1/0", "0/0", "3", "/4", "-1/4", "1/4/5", "0/70000", "a/b", "1/ 4"] {
            assert!(CheckShard::parse(text).is_err(), "{text}");
        }
        assert!(CheckShard::parse("16/16").unwrap_err().contains("from 0/16 to 15/16"));
    }

    #[test]
    fn sums_tell_lines_apart() {
        let path = |name: &str| RelPath::parse(name.as_bytes()).unwrap();
        let digest = Digest::sha256([7; 32]);
        let sum = |lines: &[(u64, &str)]| {
            let mut sum = LineSum::default();
            lines.iter().for_each(|(line, name)| sum.add(*line, &path(name), &digest));
            sum
        };
        assert_eq!(sum(&[(1, "a"), (2, "b")]), sum(&[(2, "b"), (1, "a")]));
        assert_ne!(sum(&[(1, "a"), (2, "b")]), sum(&[(1, "b"), (2, "a")]));
        assert_ne!(sum(&[(1, "a"), (1, "a")]), sum(&[]));
    }
}
