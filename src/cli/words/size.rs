//! Numbers on the command line: sizes such as `4096`, `128K`, `1MiB` and `2GB`, and their limits.

/// More workers than any machine gains from; a typing error is more likely.
pub const MOST_WORKERS: u64 = 256;

/// A rate below this needs a unit, because `--limit-rate 5` hardly means 5 bytes a second; bytes.
const LEAST_PLAIN_RATE: u64 = 64 << 10;

/// Reads a number of bytes. The units are those of GNU tools: `K` and `KiB` are 1024 bytes, `KB` is
/// 1000, likewise M, G and T, in either case.
pub fn parse(text: &str) -> Result<u64, String> {
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let expected = || Err("expected a number of bytes such as 4096, 128K or 1MiB".into());
    if number.is_empty() {
        return expected();
    }
    let (power, base): (u32, u64) = match unit.trim_start().to_ascii_lowercase().as_str() {
        "" | "b" => (0, 1024),
        "k" | "kib" => (1, 1024),
        "m" | "mib" => (2, 1024),
        "g" | "gib" => (3, 1024),
        "t" | "tib" => (4, 1024),
        "kb" => (1, 1000),
        "mb" => (2, 1000),
        "gb" => (3, 1000),
        "tb" => (4, 1000),
        _ => return expected(),
    };
    let bytes = number.parse().ok().and_then(|number: u64| number.checked_mul(base.pow(power)));
    bytes.ok_or_else(|| "the number is too large".into())
}

/// Reads a rate: bytes in a second, at least 1, and with a unit if there are few.
pub fn parse_rate(text: &str) -> Result<u64, String> {
    let has_unit = text.contains(|c: char| c.is_ascii_alphabetic());
    match parse(text)? {
        0 => Err("at a rate of 0 nothing would ever be copied".into()),
        rate if rate < LEAST_PLAIN_RATE && !has_unit => Err(format!(
            "{rate} bytes a second: was {rate}K or {rate}M meant? {rate}B is taken as it stands"
        )),
        rate => Ok(rate),
    }
}

/// Reads a block size: from 1 byte to 1 GiB.
pub fn parse_block(text: &str) -> Result<usize, String> {
    match parse(text)? {
        0 => Err("a block must have at least 1 byte".into()),
        size if size > 1 << 30 => Err("a block may have at most 1 GiB".into()),
        size => Ok(size as usize),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units() {
        for (text, bytes) in [
            ("0", 0),
            ("4096", 4096),
            ("128K", 128 << 10),
            ("128k", 128 << 10),
            ("1MiB", 1 << 20),
            ("1 MiB", 1 << 20),
            ("3GB", 3_000_000_000),
            ("2t", 2 << 40),
            ("7B", 7),
        ] {
            assert_eq!(parse(text), Ok(bytes), "{text}");
        }
        for text in ["", "banana", "-1", "1.5M", "K", "1X", "1KiBs", "99999999999T", "0x10", "+1"] {
            assert!(parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_low_rate_needs_a_unit() {
        for (text, rate) in [("5M", 5 << 20), ("5B", 5), ("65536", 65_536), ("1 k", 1024)] {
            assert_eq!(parse_rate(text), Ok(rate), "{text}");
        }
        for text in ["5", "65535", "0", "0K"] {
            assert!(parse_rate(text).is_err(), "{text}");
        }
        assert!(parse_rate("5").is_err_and(|error| error.contains("5K or 5M")));
    }

    #[test]
    fn blocks_have_sensible_sizes() {
        assert_eq!(parse_block("1"), Ok(1));
        assert_eq!(parse_block("1GiB"), Ok(1 << 30));
        for text in ["0", "0K", "1073741825", "1000000T", "banana"] {
            assert!(parse_block(text).is_err(), "{text}");
        }
    }
}
