//! Bytes as lower-case hexadecimal digits, and back; [`Sha256`](crate::hash::Sha256) has a faster way for its 32.

/// The digits of these bytes.
pub fn digits(bytes: &[u8]) -> impl Iterator<Item = u8> {
    let digit = |value: u8| b"0123456789abcdef"[usize::from(value)];
    bytes.iter().flat_map(move |byte| [digit(byte >> 4), digit(byte & 15)])
}

/// The same as text.
pub fn text(bytes: &[u8]) -> String {
    digits(bytes).map(char::from).collect()
}

/// The bytes that digits of either case stand for; `None` if they are anything else.
pub fn parse(text: &[u8]) -> Option<Vec<u8>> {
    let (pairs, rest) = text.as_chunks::<2>();
    let digit = |letter: u8| char::from(letter).to_digit(16);
    let byte = |[high, low]: &[u8; 2]| Some((digit(*high)? << 4 | digit(*low)?) as u8);
    if rest.is_empty() { pairs.iter().map(byte).collect() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_round_trips() {
        let all: Vec<u8> = (0..=255).collect();
        assert!(text(&all).starts_with("000102") && text(&all).ends_with("fdfeff"));
        assert_eq!(parse(text(&all).as_bytes()), Some(all.clone()));
        assert_eq!(parse(text(&all).to_ascii_uppercase().as_bytes()), Some(all));
        for wrong in ["0", "0g", "+1", "12 ", "é"] {
            assert_eq!(parse(wrong.as_bytes()), None, "{wrong}");
        }
    }
}
