//! Recorded files by what they look like: size and time first, then the digest.
//!
//! Of each row 17 bytes are kept, of 1,048,576 rows at most; what is beyond is copied as if it were new. Whether the
//! source still has a name is asked once, when it matters.

use std::sync::atomic::{AtomicU8, Ordering::Relaxed};

use crate::hash::Digest;
use crate::state::knowledge::Knowledge;
use crate::state::recorded_at::RecordedAt;
use crate::sys::stat::Time;

/// So many rows are kept.
const MOST_ROWS: usize = 1 << 20;

/// So many files that look alike are looked at for one; more are taken for what is copied as new.
const MOST_ALIKE: usize = 1024;

/// What is known of a name.
const UNKNOWN: u8 = 0;
const IN_SOURCE: u8 = 1;
const GONE: u8 = 2;
const TAKEN: u8 = 3;

/// The rows that nothing of the source was found for when this was made, in an order in which they are found.
#[derive(Debug, Default)]
pub struct GoneFiles {
    slots: Vec<GoneSlot>,
    /// What became of each.
    fates: Vec<AtomicU8>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct GoneSlot {
    look: u32,
    digest: u32,
    at: RecordedAt,
}

impl GoneFiles {
    /// Reads the rows of `known`; what cannot be read is left out.
    pub fn of(known: &Knowledge, is_to_stop: &dyn Fn() -> bool) -> Self {
        let mut slots = Vec::new();
        // What was read until an error is as good.
        let _ = known.each_unsettled_row(is_to_stop, |at, row| {
            let slot = GoneSlot {
                look: look(row.trace.size, row.trace.mtime),
                digest: beginning(&row.digest),
                at,
            };
            if row.trace.size > 0 {
                slots.push(slot);
            }
            slots.len() < MOST_ROWS
        });
        slots.sort_unstable();
        let fates = slots.iter().map(|_| AtomicU8::new(UNKNOWN)).collect();
        Self { slots, fates }
    }

    /// Whether a file of this size and time may have left the source; `is_gone` asks that of one.
    pub fn may_have(
        &self,
        size: u64,
        mtime: Time,
        mut is_gone: impl FnMut(RecordedAt) -> bool,
    ) -> bool {
        let look = look(size, mtime);
        let first = self.slots.partition_point(|slot| slot.look < look);
        let alike = self.slots.iter().enumerate().skip(first);
        let mut alike = alike.take_while(|(_, slot)| slot.look == look).take(MOST_ALIKE);
        alike.any(|(at, _)| self.is_gone(at, &mut is_gone))
    }

    /// What `share` makes of the first that it can share, of those that look so, have this digest and are gone.
    pub fn find<T>(
        &self,
        size: u64,
        mtime: Time,
        digest: &Digest,
        mut is_gone: impl FnMut(RecordedAt) -> bool,
        mut share: impl FnMut(GoneFile<'_>) -> Option<T>,
    ) -> Option<T> {
        let key = (look(size, mtime), beginning(digest));
        let first = self.slots.partition_point(|slot| (slot.look, slot.digest) < key);
        let alike = self.slots.iter().enumerate().skip(first);
        let mut alike =
            alike.take_while(|(_, slot)| (slot.look, slot.digest) == key).take(MOST_ALIKE);
        alike.find_map(|(number, slot)| {
            let is_gone = self.is_gone(number, &mut is_gone);
            is_gone.then(|| share(GoneFile { at: slot.at, fate: &self.fates[number] })).flatten()
        })
    }

    fn is_gone(&self, number: usize, ask: &mut impl FnMut(RecordedAt) -> bool) -> bool {
        let (Some(slot), Some(fate)) = (self.slots.get(number), self.fates.get(number)) else {
            return false;
        };
        if fate.load(Relaxed) == UNKNOWN {
            let found = if ask(slot.at) { GONE } else { IN_SOURCE };
            // Another thread may have found the same.
            let _ = fate.compare_exchange(UNKNOWN, found, Relaxed, Relaxed);
        }
        fate.load(Relaxed) != IN_SOURCE
    }
}

/// A recorded file that has left the source.
pub struct GoneFile<'a> {
    pub at: RecordedAt,
    fate: &'a AtomicU8,
}

impl GoneFile<'_> {
    /// Takes it for one new name alone; false if another has it.
    pub fn take(&self) -> bool {
        self.fate.compare_exchange(GONE, TAKEN, Relaxed, Relaxed).is_ok()
    }
}

/// Equal for files of the same size and second.
fn look(size: u64, mtime: Time) -> u32 {
    let mixed = size ^ (mtime.secs as u64).rotate_left(32);
    (mixed.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as u32
}

fn beginning(digest: &Digest) -> u32 {
    digest.bytes().iter().take(4).fold(0, |sum, byte| sum << 8 | u32::from(*byte))
}
