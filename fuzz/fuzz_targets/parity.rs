//! Any bytes are a file of PAR2: nothing panics, and a set that is read is one that can be: as many slices as its files
//! have, recovery slices within the file. Once as it is, and once with sums that hold.
//!
//! `cargo +nightly fuzz run parity`

#![no_main]

use std::io::{Seek, Write};

use dircopy::internals::JoinedFiles;
use dircopy::internals::packets::{self, HEAD, MOST_SLICES};
use libfuzzer_sys::fuzz_target;
use md5::{Digest, Md5};

const MAGIC: &[u8] = b"PAR2\0PKT";
const MAIN: &[u8] = b"PAR 2.0\0Main\0\0\0\0";

fuzz_target!(|bytes: &[u8]| {
    read(bytes);
    read(&with_sums(bytes));
});

fn read(bytes: &[u8]) {
    let mut file = tempfile::tempfile().expect("a file can be made");
    file.write_all(bytes).expect("it can be written");
    file.rewind().expect("it has a beginning");
    let files = JoinedFiles::new(vec![file]).expect("it has a length");
    let read = packets::read(&files, &|| false).expect("it can be read");
    let Some(set) = read else { return };
    assert!(set.files.slices() <= MOST_SLICES);
    for file in &set.files.files {
        assert_eq!(file.sums.len() as u64, file.size.div_ceil(set.files.slice));
    }
    for slice in &set.recovery {
        assert!(slice.at + set.files.slice <= bytes.len() as u64);
    }
    if set.is_whole {
        assert!(bytes.starts_with(MAGIC));
    }
}

/// The same with the sums and the id of the set that its packets would have, as far as they are any.
fn with_sums(bytes: &[u8]) -> Vec<u8> {
    let mut all = bytes.to_vec();
    let starts: Vec<usize> = all
        .windows(MAGIC.len())
        .enumerate()
        .filter(|(_, it)| *it == MAGIC)
        .map(|it| it.0)
        .collect();
    let packet = |all: &[u8], at: usize| {
        let len = all.get(at + 8..at + 16)?.try_into().map(u64::from_le_bytes).ok()?;
        let len = usize::try_from(len).ok().filter(|len| *len >= HEAD)?;
        all.get(at..at.checked_add(len)?).map(|_| at..at + len)
    };
    let id = starts.iter().filter_map(|at| packet(&all, *at)).find_map(|range| {
        let packet = &all[range];
        (&packet[48..HEAD] == MAIN).then(|| Md5::digest(&packet[HEAD..]))
    });
    for at in starts {
        let Some(range) = packet(&all, at) else { continue };
        if let Some(id) = &id {
            all[at + 32..at + 48].copy_from_slice(id);
        }
        let sum = Md5::digest(&all[at + 32..range.end]);
        all[at + 16..at + 32].copy_from_slice(&sum);
    }
    all
}
