//! Names of what a killed run would have left.

use std::path::Path;

use sha2::{Digest, Sha256};

/// The name of a part file that an earlier run at this output could have left: its tag comes from the output's secret.
pub fn leftover_name(output: &Path) -> String {
    let secret = std::fs::read_to_string(output.join(".dircopy/secret")).unwrap();
    let secret: Vec<u8> =
        (0..32).map(|i| u8::from_str_radix(&secret[2 * i..2 * i + 2], 16).unwrap()).collect();
    let sum = Sha256::new().chain_update(b"part files").chain_update(secret).finalize();
    let mut number = u64::from_le_bytes(sum[..8].try_into().unwrap());
    let mut tag = String::new();
    for _ in 0..5 {
        let digits = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
        tag.push(char::from(digits[(number % 62) as usize]));
        number /= 62;
    }
    format!(".left0{tag}.dircopy-part")
}
