//! Asks the reader of side files everything that a check asks it, of any bytes: for property tests and the fuzz
//! target.

use std::{fs::File, io, io::Seek};

use crate::{
    chain::side_file, chain::side_file::HEAD, chain::side_file::MOST_RECORDS,
    chain::side_file::SideFile, hash::Sha256, hash::chain::links_of, sys,
};

/// A side file that is anything.
#[derive(Debug)]
pub struct StatesProbe(File);

impl StatesProbe {
    /// One in a file of its own.
    ///
    /// # Errors
    /// There is no place for it.
    pub fn new() -> io::Result<Self> {
        tempfile::tempfile().map(Self)
    }

    /// Number of its whole records if it is these bytes; `None` if it is no side file. Each must be what a run could
    /// have written, and be found by its digest.
    pub fn as_it_is(&self, bytes: &[u8]) -> Option<usize> {
        let mut file = self.0.try_clone().ok()?;
        file.set_len(0).and_then(|()| file.rewind()).ok()?;
        sys::write_all(&file, bytes).ok()?;
        let (side, mut digests) =
            (SideFile::open(file, MOST_RECORDS, &|| false).ok()??, Vec::new());
        side.each_record(|digest, _| digests.push(*digest));
        for digest in &digests {
            let Some((chain, size)) = side.chain(digest) else { continue };
            assert_eq!(chain.links(), links_of(size, chain.span()));
            assert!(size > chain.span() && chain.before(chain.links() - 1).is_some());
            let mut again = Vec::new();
            if side_file::write(&mut again, b"path", size, digest, &chain) {
                assert!(again.len() as u64 <= size / 10_000);
            }
        }
        Some(digests.len())
    }

    /// The same of a record whose sum is right.
    pub fn summed(&self, record: &[u8]) -> Option<usize> {
        let Sha256(sum) = Sha256::of(&[record]);
        self.as_it_is(&[HEAD, record, &sum[..8]].concat())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

        /// Records of any head: those that are as long as they say are read, no other.
        #[test]
        fn any_record_is_read_or_passed_over(
            path_len in 0u32..40, span in 0u32..5, mib in 0u64..9, rest in 0u64..3,
            states in 0usize..9, digest: [u8; 32],
        ) {
            let size = (mib << 20) + rest;
            let mut bytes = b"FILE".to_vec();
            bytes.extend(path_len.to_le_bytes());
            bytes.extend(span.to_le_bytes());
            bytes.extend(size.to_le_bytes());
            bytes.extend(digest);
            bytes.extend(vec![b'x'; path_len as usize]);
            bytes.extend(vec![7; states * 32]);
            let span = u64::from(span) << 20;
            let fits = span.is_power_of_two() && size > span && links_of(size, span) == states as u64 + 1;
            let probe = StatesProbe::new().unwrap();
            prop_assert_eq!(probe.summed(&bytes), Some(usize::from(fits)));
            prop_assert_eq!(probe.as_it_is(&bytes), None);
            // Without its sum it is torn.
            prop_assert_eq!(probe.as_it_is(&[HEAD, &bytes, &[0; 8]].concat()), Some(0));
        }
    }
}
