//! Any bytes are a Media Hash List, and the text files of a bag: nothing panics, and reading ends.
//!
//! `cargo +nightly fuzz run archive`

#![no_main]

use dircopy::Algorithm;
use dircopy::internals::archive::bag::{self, Declaration};
use dircopy::internals::archive::mhl::MhlEntries;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let mut entries = MhlEntries::new(bytes);
    let mut pieces = 0;
    while entries.next_piece().expect("memory does not fail").is_some() {
        pieces += 1;
        assert!(pieces <= bytes.len());
    }
    let declaration = Declaration::parse(bytes).unwrap_or_default();
    for line in bytes.split(|&byte| byte == b'\n') {
        if let Ok(read) = bag::line(line, Algorithm::Md5, declaration) {
            assert!(!read.name.is_empty());
            let text = bag::escaped(&read.name);
            assert_eq!(bag::unescaped(text.into()), read.name);
        }
    }
    let text = String::from_utf8_lossy(bytes);
    let _ = bag::payload_oxum(&text);
    let _ = bag::fetched(&text);
});
