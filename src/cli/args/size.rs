//! Sizes on the command line: `4096`, `128K`, `1MiB`, `2GB`.

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

/// Reads a rate: bytes in a second, at least 1.
pub fn parse_rate(text: &str) -> Result<u64, String> {
    match parse(text)? {
        0 => Err("at a rate of 0 nothing would ever be copied".into()),
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
    fn blocks_have_sensible_sizes() {
        assert_eq!(parse_block("1"), Ok(1));
        assert_eq!(parse_block("1GiB"), Ok(1 << 30));
        for text in ["0", "0K", "1073741825", "1000000T", "banana"] {
            assert!(parse_block(text).is_err(), "{text}");
        }
    }
}
