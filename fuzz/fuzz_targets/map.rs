//! Any bytes are the map of a rescue: nothing panics, all of the file is in it once, and written it reads the same. What
//! is not sealed counts as read by another program.
//!
//! `cargo +nightly fuzz run map`

#![no_main]

use dircopy::{Sha256, internals::Map};
use libfuzzer_sys::fuzz_target;

const SEAL: Sha256 = Sha256([0; 32]);

fuzz_target!(|bytes: &[u8]| {
    let text = String::from_utf8_lossy(bytes);
    for size in [0, 0x3000, u64::MAX] {
        let Ok(map) = Map::parse(&text, size, &SEAL) else { continue };
        let missing = map.missing();
        assert!(missing.iter().all(|part| part.at < part.end && part.end <= size));
        assert!(missing.windows(2).all(|two| two[0].end < two[1].at));
        // Parts of one state that border on each other are one then.
        let again = Map::parse(&map.text(&SEAL), size, &SEAL).expect("what is written is a map");
        assert_eq!(again.missing(), missing);
        assert_eq!(Map::parse(&again.text(&SEAL), size, &SEAL), Ok(again));
    }
});
