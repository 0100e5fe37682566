//! Any bytes are a manifest to be read: nothing panics, and what was read, once written, reads the
//! same.
//!
//! `cargo +nightly fuzz run manifest`

#![no_main]

use dircopy::internals::line;
use dircopy::internals::scan::{Scanner, Separator, Text};
use dircopy::{Entries, Parsed, Parser, Record, Utf16Reader};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    // A small limit: a large buffer would take more time than all the rest.
    read(Entries::over(Scanner::with(bytes, Separator::Lf, 1024)));
    read(Entries::over(Scanner::with(Utf16Reader::new(bytes), Separator::Lf, 1024)));

    // A smaller one, so that lines are cut, moved and skipped; no byte may be lost.
    let mut scanner = Scanner::with(bytes, Separator::Lf, 80);
    let mut next = 0;
    while let Some(line) = scanner.next_line().expect("memory does not fail") {
        assert_eq!(line.offset, next);
        next += u64::from(line.ended)
            + match line.text {
                Text::Whole(text) => text.len() as u64,
                Text::TooLong { len, .. } => len,
            };
    }
    assert_eq!(next, bytes.len() as u64);
});

fn read<R: std::io::Read>(mut entries: Entries<R>) {
    let mut written = Vec::new();
    while let Some(entry) = entries.next_entry().expect("memory does not fail") {
        match entry.parsed {
            Parsed::Record(record) => {
                written.clear();
                line::write_path(&mut written, &record.digest, record.name);
                let bare = written.strip_suffix(b"\n").expect("a line has an end");
                assert!(!bare.contains(&b'\n'));
                // To `sha256sum -c` a bare `-` is standard input, so it is written otherwise.
                let name = if record.name == b"-" { b"./-" } else { record.name };
                let record = Record { name, ..record };
                let mut parser = Parser::new();
                assert_eq!(parser.parse(bare), Parsed::Record(record));
            }
            Parsed::Malformed(fault) => assert!(!fault.to_string().is_empty()),
            Parsed::Unhashed { .. } | Parsed::Comment | Parsed::Blank => {}
        }
    }
}
