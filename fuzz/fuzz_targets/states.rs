//! Any bytes are a side file to be read: nothing panics, no record is read that no run could have written, and each
//! is found by its digest.
//!
//! `cargo +nightly fuzz run states`

#![no_main]

use dircopy::internals::StatesProbe;
use libfuzzer_sys::fuzz_target;

thread_local! {
    static PROBE: StatesProbe = StatesProbe::new().expect("a file can be made");
}

fuzz_target!(|bytes: &[u8]| {
    PROBE.with(|probe| {
        probe.as_it_is(bytes);
        probe.as_it_is(&[b"dircopy states 1\n", bytes].concat());
        assert!(probe.summed(bytes).is_some_and(|records| records <= bytes.len() / 50));
    });
});
