//! Any bytes are a private record to be read: nothing panics, and only what a good sum closes is known.
//!
//! `cargo +nightly fuzz run record`

#![no_main]

use dircopy::internals::RecordProbe;
use libfuzzer_sys::fuzz_target;

thread_local! {
    static PROBE: RecordProbe = {
        let path = std::env::temp_dir().join(format!("dircopy-fuzz-{}", std::process::id()));
        std::fs::create_dir_all(&path).expect("a directory can be made");
        RecordProbe::new(&path).expect("it can be opened")
    };
}

fuzz_target!(|bytes: &[u8]| {
    PROBE.with(|probe| {
        assert_eq!(probe.as_it_is(bytes), Some(0), "no sum is good by chance");
        let (remembered, rows) = probe.closed(bytes).expect("a record can be written");
        assert!(remembered <= rows);
    });
});
