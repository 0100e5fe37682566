//! The states of a chain in a journal: what a file that is gone on with has of its beginning.
//!
//! They stand behind the slots, in batches: one for each checkpoint. A batch that is torn ends the list. None
//! of this need be right: a chain with a wrong state costs later checks time, and no more.
//!
//! ```text
//! batch:  number of the first state (u32), how many there are (u32), the states (8 words of 4 bytes each),
//!         sum (32 bytes) over the sum of the header and the batch
//! ```

use std::io::{self, Read};

use crate::hash::Sha256;
use crate::hash::chain::MOST_STATES;
use crate::hash::state::ChainingState;
use crate::sys::Uninterrupted;

/// The bytes of a state.
const STATE: usize = 32;

/// The states that came since the checkpoint before.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NewStates {
    /// So many states came before them.
    pub from: usize,
    pub states: Vec<ChainingState>,
}

/// The batch of the states, in a journal with this header.
pub fn encode(new: &NewStates, header: &Sha256) -> Vec<u8> {
    let NewStates { from, states } = new;
    let mut batch = Vec::with_capacity(8 + STATE * states.len() + Sha256::LEN);
    batch.extend((*from as u32).to_le_bytes());
    batch.extend((states.len() as u32).to_le_bytes());
    states.iter().flatten().for_each(|word| batch.extend(word.to_le_bytes()));
    let Sha256(sum) = sum(header, &batch);
    batch.extend(sum);
    batch
}

/// All states that the batches hold, and how many bytes of `from` these take.
///
/// # Errors
/// What reading failed with.
pub fn read(from: impl Read, header: &Sha256) -> io::Result<(Vec<ChainingState>, u64)> {
    let (mut states, mut end) = (Vec::new(), 0);
    // Bounded: the sums of their batches take less than the states.
    let mut rest = Uninterrupted(from).take(2 * (STATE * MOST_STATES) as u64);
    let mut batch = Vec::new();
    loop {
        batch.clear();
        (&mut rest).take(8).read_to_end(&mut batch)?;
        let Some(&[a, b, c, d, e, f, g, h]) = batch.first_chunk() else { break };
        let first = u32::from_le_bytes([a, b, c, d]) as usize;
        let number = u32::from_le_bytes([e, f, g, h]) as usize;
        if first > states.len() || first + number > MOST_STATES {
            break;
        }
        (&mut rest).take((STATE * number + Sha256::LEN) as u64).read_to_end(&mut batch)?;
        let Some((before, noted)) = batch.split_last_chunk::<{ Sha256::LEN }>() else { break };
        let new = before.get(8..).unwrap_or_default().as_chunks::<STATE>().0;
        if new.len() != number || sum(header, before).0 != *noted {
            break;
        }
        states.truncate(first);
        states.extend(new.iter().map(|bytes| {
            let mut state = [0; 8];
            for (word, bytes) in state.iter_mut().zip(bytes.as_chunks().0) {
                *word = u32::from_le_bytes(*bytes);
            }
            state
        }));
        end += batch.len() as u64;
    }
    Ok((states, end))
}

fn sum(header: &Sha256, batch: &[u8]) -> Sha256 {
    Sha256::of(&[&header.0, batch])
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: Sha256 = Sha256([3; 32]);

    fn new(from: usize, number: u32) -> NewStates {
        NewStates { from, states: (0..number).map(|n| [from as u32 + n; 8]).collect() }
    }

    #[test]
    fn batches_follow_each_other_and_a_torn_one_ends_them() {
        let bytes_of = |batches: &[NewStates]| -> Vec<u8> {
            batches.iter().flat_map(|new| encode(new, &HEADER)).collect()
        };
        let bytes = bytes_of(&[new(0, 3), new(3, 0), new(3, 2), new(4, 3)]);
        let all: Vec<ChainingState> = (0..7).map(|n| [n; 8]).collect();
        assert_eq!(read(&*bytes, &HEADER).unwrap(), (all.clone(), bytes.len() as u64));
        assert_eq!(read(&*bytes, &Sha256([4; 32])).unwrap(), (vec![], 0));
        for len in 0..bytes.len() {
            let (states, end) = read(&bytes[..len], &HEADER).unwrap();
            assert!(end <= len as u64 && states == all[..states.len()]);
        }
        assert_eq!(read(&*bytes_of(&[new(0, 1), new(2, 1)]), &HEADER).unwrap().0.len(), 1);
        let huge = [&[0, 0, 0, 0][..], &[0xff; 4]].concat();
        assert_eq!(read(&*huge, &HEADER).unwrap(), (vec![], 0));
    }
}
