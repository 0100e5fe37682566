//! How long `sha2` alone takes on one core: the bound for copying one large file.
//!
//! `cargo run --release --example sha2_alone [MIB]` hashes MIB mebibytes (2048 unless told) and
//! prints the seconds that took. The bytes are one block hashed over and over, so that no disk and
//! hardly any memory is in the figure; a copier that hashes a single file cannot be faster.

use std::hint::black_box;
use std::time::Instant;

use sha2::{Digest as _, Sha256};

const BLOCK: usize = 1 << 20;

fn main() -> Result<(), std::num::ParseIntError> {
    let blocks: u32 = std::env::args().nth(1).map_or(Ok(2048), |mib| mib.parse())?;
    // Not zeros: those could be pages that the kernel never gave us.
    let block: Vec<u8> = (0..BLOCK).map(|i| (i % 251) as u8).collect();

    let start = Instant::now();
    let mut state = Sha256::new();
    for _ in 0..blocks {
        state.update(black_box(&block));
    }
    black_box(state.finalize());
    println!("{:.3}", start.elapsed().as_secs_f64());
    Ok(())
}
