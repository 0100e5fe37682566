//! Any bytes are a list of any program and any algorithm, that of `hashdeep` among them: nothing panics, and what was
//! read, once written, reads the same.
//!
//! `cargo +nightly fuzz run lists`

#![no_main]

use dircopy::internals::line;
use dircopy::{Algorithm, Entries, Parsed, Parser, Record};
use libfuzzer_sys::fuzz_target;

/// With it any bytes are rows of `hashdeep`, which libFuzzer seldom finds by itself.
const HEAD: &[u8] = b"%%%% HASHDEEP-1.0\n%%%% size,md5,filename\n";

fuzz_target!(|bytes: &[u8]| {
    read(bytes);
    read(&[HEAD, bytes].concat());
});

fn read(bytes: &[u8]) {
    let (mut entries, mut written) = (Entries::of_all(bytes), Vec::new());
    while let Some(entry) = entries.next_entry().expect("memory does not fail") {
        match entry.parsed {
            Parsed::Record(record) => {
                assert!(!record.name.is_empty() && !record.name.contains(&0));
                // No list that is written has it.
                if record.digest.algorithm() == Algorithm::Crc32 {
                    continue;
                }
                written.clear();
                line::write_known(&mut written, &record.digest, record.name);
                let bare = written.strip_suffix(b"\n").expect("a line has an end");
                assert!(!bare.contains(&b'\n'));
                let name = if record.name == b"-" { b"./-" } else { record.name };
                let record = Record { name, ..record };
                let mut parser = Parser::of_all();
                assert_eq!(parser.parse(bare), Parsed::Record(record));
            }
            Parsed::Malformed(fault) => assert!(!fault.to_string().is_empty()),
            Parsed::Unhashed { .. } | Parsed::Comment | Parsed::Blank => {}
        }
    }
}
