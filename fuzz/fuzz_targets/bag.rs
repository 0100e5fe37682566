//! Any bytes are the text files of a bag: nothing panics, a name that was read, once written, reads the same, and so do
//! tags.
//!
//! `cargo +nightly fuzz run bag`

#![no_main]

use dircopy::Algorithm;
use dircopy::internals::archive::bag::{self, Declaration};
use dircopy::internals::archive::bag_list::InfoTag;
use dircopy::internals::scan::{Scanner, Separator, Text};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let declaration = Declaration::parse(bytes).unwrap_or_default();
    let newest = Declaration::parse(bag::DECLARED.as_bytes()).expect("it is our own");
    let mut lines = Scanner::with(bytes, Separator::Lf, 1024);
    while let Some(found) = lines.next_line().expect("memory does not fail") {
        let Text::Whole(line) = found.text else { continue };
        for declaration in [declaration, newest] {
            let Ok(read) = bag::line(line, Algorithm::Md5, declaration) else { continue };
            assert!(!read.name.is_empty());
            let text = bag::escaped(&read.name);
            assert_eq!(bag::unescaped(text.as_slice().into()), read.name);
            // No other is a name of the payload: a blank before it would be lost.
            if read.name.starts_with(b"data/") {
                let again = [format!("{}  ", read.digest).into_bytes(), text].concat();
                let again = bag::line(&again, Algorithm::Md5, newest).expect("it is a line");
                assert_eq!(again.name, read.name);
            }
        }
    }
    let text = String::from_utf8_lossy(bytes);
    let _ = bag::payload_oxum(&text);
    let _ = bag::fetched(&text);
    if let Ok(tags) = InfoTag::read_all(&text) {
        let written = InfoTag::write_all(&tags);
        assert_eq!(InfoTag::read_all(&written).as_ref(), Ok(&tags));
    }
});
