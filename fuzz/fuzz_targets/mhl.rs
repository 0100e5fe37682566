//! Any bytes are a Media Hash List: nothing panics, reading ends, and each file that was read, once written, reads the
//! same.
//!
//! `cargo +nightly fuzz run mhl`

#![no_main]

use dircopy::internals::archive::mhl::{MhlEntries, MhlEntry, MhlPiece, Named};
use dircopy::internals::archive::mhl_writer::{
    Creator, HashAction, MediaEntry, MhlWriter, is_text,
};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    for piece in read(bytes) {
        match piece {
            MhlPiece::Entry(entry) if entry.named == Named::File => write(entry),
            MhlPiece::Fault(fault) => assert!(!fault.to_string().is_empty()),
            _ => {}
        }
    }
});

fn read(bytes: &[u8]) -> Vec<MhlPiece> {
    let (mut entries, mut pieces, mut last) = (MhlEntries::new(bytes), Vec::new(), 1);
    while let Some((line, piece)) = entries.next_piece().expect("memory does not fail") {
        // An empty list has one piece, which says so.
        assert!(last <= line && pieces.len() <= bytes.len());
        last = line;
        pieces.push(piece);
    }
    pieces
}

fn write(entry: MhlEntry) {
    let date = String::from("2026-01-01T00:00:00+00:00");
    let (host, user) = (String::new(), String::new());
    let creator = Creator { host, user, started: date.clone(), finished: date.clone() };
    let (Some(digest), true) = (entry.digest(), is_text(entry.path.as_bytes())) else { return };
    let previous = entry.previous.filter(|previous| is_text(previous.as_bytes()));
    let file = MediaEntry {
        path: &entry.path,
        size: 1,
        modified: date.clone(),
        digests: &[digest],
        action: HashAction::Verified,
        read: Some(&date),
        previous: previous.as_deref(),
    };
    let mut list = MhlWriter::generation(Vec::new(), &creator, &[], &[]).expect("memory does");
    list.file(&file).expect("memory does not fail");
    let text = list.finish_generation(&[]).expect("memory does not fail");
    let path = entry.path.clone();
    let expected = MhlEntry { named: Named::File, path, previous, digests: vec![digest], other: None };
    assert_eq!(read(&text), [MhlPiece::Entry(expected)]);
}
