//! The order in which a damaged file is read: what is easily had first.
//!
//! As GNU ddrescue has it: long reads forward, which skip further ahead the more of them fail; what was skipped, from
//! the end backward; then both ends of what failed, sector by sector up to the first bad one; then what is between; and
//! at last each bad sector once more. No sector is asked for more often than [`MOST_READS`] times in a run.

use crate::transfer::rescue::map::{Map, Part, State};

/// A long read; bytes, and a multiple of all sectors.
pub const LONG: u64 = 128 << 10;

/// The unit in which a device has or has not what was written.
const SECTOR: u64 = 512;

/// The most that is skipped after a long read that failed. The first skips as much as it would have read.
const MOST_SKIPPED: u64 = 128 * LONG;

/// The most reads of a run in which one sector is: a long one, one at an end, and a longer and a short one in each of
/// the two passes by sectors.
#[cfg(test)]
const MOST_READS: u32 = 6;

/// Reads the stretch from the first to the second place and keeps it; how many bytes came before one failed.
pub type Step<'a, E> = &'a mut dyn FnMut(&Map, u64, u64) -> Result<u64, E>;

/// Reads what `map` says is missing, and notes what came of it.
///
/// # Errors
/// That of a step, which ends it.
pub fn read_missing<E>(map: &mut Map, step: Step<'_, E>) -> Result<(), E> {
    for part in map.in_state(State::Untried) {
        forward(map, part, step)?;
    }
    for part in map.in_state(State::Untried).into_iter().rev() {
        backward(map, part, step)?;
    }
    for part in map.in_state(State::Untrimmed) {
        trim(map, part, step)?;
    }
    for part in map.in_state(State::Unscraped) {
        scrape(map, part, step)?;
    }
    for part in map.in_state(State::Bad).into_iter().rev() {
        scrape(map, part, step)?;
    }
    Ok(())
}

/// Takes a step, and notes what came; whether all did.
fn take<E>(map: &mut Map, at: u64, end: u64, step: Step<'_, E>) -> Result<(bool, u64), E> {
    let came = at + step(map, at, end)?.min(end - at);
    map.set(at, came, State::Read);
    Ok((came == end, came))
}

fn forward<E>(map: &mut Map, part: Part, step: Step<'_, E>) -> Result<(), E> {
    let (mut at, mut skip) = (part.at, LONG);
    while at < part.end && !map.is_full() {
        let end = part.end.min(at - at % LONG + LONG);
        let (is_all, came) = take(map, at, end, step)?;
        at = end;
        if is_all {
            skip = LONG;
        } else {
            map.set(came, end, State::Untrimmed);
            (at, skip) = (end.saturating_add(skip), (2 * skip).min(MOST_SKIPPED));
        }
    }
    Ok(())
}

fn backward<E>(map: &mut Map, part: Part, step: Step<'_, E>) -> Result<(), E> {
    let mut end = part.end;
    while end > part.at && !map.is_full() {
        let at = part.at.max((end - 1) - (end - 1) % LONG);
        let (is_all, came) = take(map, at, end, step)?;
        if !is_all {
            map.set(came, end, State::Untrimmed);
        }
        end = at;
    }
    Ok(())
}

/// Reads a part that failed from both ends, up to the first bad sector at each.
fn trim<E>(map: &mut Map, part: Part, step: Step<'_, E>) -> Result<(), E> {
    let Part { mut at, mut end, .. } = part;
    let mut goes_on = true;
    while goes_on && at < end && !map.is_full() {
        let sector = end.min(at - at % SECTOR + SECTOR);
        let came;
        (goes_on, came) = take(map, at, sector, step)?;
        if !goes_on {
            map.set(came, sector, State::Bad);
        }
        at = sector;
    }
    goes_on = true;
    while goes_on && at < end && !map.is_full() {
        let sector = at.max((end - 1) - (end - 1) % SECTOR);
        let came;
        (goes_on, came) = take(map, sector, end, step)?;
        if !goes_on {
            map.set(came, end, State::Bad);
        }
        end = sector;
    }
    map.set(at, end, State::Unscraped);
    Ok(())
}

/// Reads a part sector by sector, and more at a time while all goes well.
fn scrape<E>(map: &mut Map, part: Part, step: Step<'_, E>) -> Result<(), E> {
    let (mut at, mut len) = (part.at, SECTOR);
    while at < part.end && !map.is_full() {
        let end = part.end.min(at - at % SECTOR + len);
        let (is_all, came) = take(map, at, end, step)?;
        at = came;
        if is_all {
            len = (2 * len).min(LONG);
        } else if len > SECTOR {
            len = SECTOR;
        } else {
            map.set(came, end, State::Bad);
            at = end;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SIZE: u64 = 20 * LONG + 777;

    /// Reads a file whose sectors in `bad` cannot be read; how often each sector was asked for.
    fn read(map: &mut Map, bad: &dyn Fn(u64) -> bool) -> Vec<u32> {
        let mut asked = vec![0; SIZE.div_ceil(SECTOR) as usize];
        let mut step = |_: &Map, at: u64, end: u64| {
            assert!(at < end && end <= SIZE);
            let first_bad = (at / SECTOR..end.div_ceil(SECTOR)).find(|sector| bad(*sector));
            // What is behind a bad sector was not asked for.
            let last = first_bad.unwrap_or((end - 1) / SECTOR);
            (at / SECTOR..=last).for_each(|sector| asked[sector as usize] += 1);
            Ok::<_, ()>(first_bad.map_or(end, |sector| (sector * SECTOR).max(at)) - at)
        };
        read_missing(map, &mut step).unwrap();
        asked
    }

    proptest! {
        #[test]
        fn all_that_can_be_read_is_read_and_no_sector_is_asked_for_too_often(
            places in proptest::collection::vec((0u64..SIZE / SECTOR + 1, 1u64..400), 0..12),
        ) {
            let bad = |sector: u64| places.iter().any(|(at, len)| (*at..at + len).contains(&sector));
            let mut map = Map::new(SIZE);
            let asked = read(&mut map, &bad);
            prop_assert!(asked.iter().all(|times| *times <= MOST_READS), "{:?}", asked.iter().max());
            let sectors = 0..SIZE.div_ceil(SECTOR);
            let is_missing = |sector: u64| {
                map.missing().iter().any(|part| part.at < (sector + 1) * SECTOR && sector * SECTOR < part.end)
            };
            prop_assert!(sectors.clone().all(|sector| is_missing(sector) == bad(sector)));
            // Later nothing but that is asked for, and where all is well by then, all of it comes.
            let again = read(&mut map.clone(), &bad);
            prop_assert!(sectors.clone().all(|sector| bad(sector) || again[sector as usize] == 0));
            let healed = read(&mut map, &|_| false);
            prop_assert!(map.missing().is_empty());
            prop_assert!(sectors.clone().all(|sector| healed[sector as usize] == u32::from(bad(sector))));
        }
    }
}
