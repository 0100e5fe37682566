//! Where a file differs from the listed content, as far as its chain tells.

use std::fmt;
use std::ops::Range;

use crate::hash::chain::Chain;

/// So many ranges are kept; what lies behind them is only counted.
const MOST_RANGES: usize = 1000;

/// So many of them are shown.
const MOST_SHOWN: usize = 6;

const MIB: u64 = 1 << 20;

/// Where a file differs from the listed content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// The bytes that differ, in whole links of the chain; the first thousand ranges.
    pub ranges: Vec<Range<u64>>,
    /// How many bytes all ranges have.
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

    /// Whether there is anything to tell: not if links held when they were read once more.
    pub fn says_something(&self) -> bool {
        self.bytes > 0 || self.size != self.listed_size
    }

    /// Whether all that can be compared differs.
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
