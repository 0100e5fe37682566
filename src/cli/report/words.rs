//! Names, sizes and times as a page has them.

use humansize::{BINARY, format_size};
use maud::{Markup, html};

use crate::cli::report::receipt::read::ReceiptName;
use crate::cli::show::line::count;
use crate::path::Shown;

/// A name: control and deceptive characters are escaped, and its direction is its own.
pub fn name(name: &ReceiptName) -> Markup {
    let bytes = name.path_bytes.as_ref().and_then(|hex| bytes(&hex.0));
    let bytes = bytes.unwrap_or_else(|| name.path.0.clone().into_bytes());
    name_of(&bytes)
}

/// The same of bytes.
pub fn name_of(bytes: &[u8]) -> Markup {
    html! { bdi .name { (Shown::bytes(bytes).to_string()) } }
}

/// A text that a receipt has: escaped like a name.
pub fn text(text: &str) -> Markup {
    html! { bdi { (Shown::bytes(text.as_bytes()).to_string()) } }
}

/// The bytes that hexadecimal digits stand for.
pub fn bytes(hex: &str) -> Option<Vec<u8>> {
    let pairs = hex.as_bytes().chunks(2);
    pairs.map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()).collect()
}

/// A number of bytes, and the exact number to look at.
pub fn size(bytes: u64) -> Markup {
    html! { span title=(format!("{} bytes", number(bytes))) { (format_size(bytes, BINARY)) } }
}

/// A number with a thin space between thousands.
pub fn number(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push('\u{202f}');
        }
        text.push(digit);
    }
    text
}

/// So many of these: "1 file", "1 234 files".
pub fn counted(many: u64, noun: &str) -> String {
    let text = count(many, noun);
    text.replacen(&many.to_string(), &number(many), 1)
}

/// So many bytes in a second.
pub fn rate(bytes: f64, seconds: f64) -> String {
    match seconds > 0.0 && bytes > 0.0 {
        true => format!("{}/s", format_size((bytes / seconds) as u64, BINARY)),
        false => "–".into(),
    }
}

/// A time; seconds.
pub fn duration(seconds: f64) -> String {
    let whole = seconds.clamp(0.0, 1e12) as u64;
    match whole {
        0..60 => format!("{:.1} s", seconds.clamp(0.0, 60.0)),
        60..3600 => format!("{} min {} s", whole / 60, whole % 60),
        3600..172_800 => format!("{} h {} min", whole / 3600, whole % 3600 / 60),
        _ => format!("{} d {} h", whole / 86_400, whole % 86_400 / 3600),
    }
}

/// A moment without its fraction of a second: `2026-11-22 02:08:39 UTC`.
pub fn moment(stamp: &str) -> String {
    let text = match (stamp.get(..10), stamp.get(11..19), stamp.get(10..11)) {
        (Some(day), Some(time), Some("T")) => format!("{day} {time} UTC"),
        _ => stamp.to_owned(),
    };
    Shown::bytes(text.as_bytes()).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::report::receipt::bounded::ClippedText;

    #[test]
    fn names_are_harmless() {
        let shown = |path: &str, hex: Option<&str>| {
            let path_bytes = hex.map(|hex| ClippedText(hex.into()));
            name(&ReceiptName { path: ClippedText(path.into()), path_bytes }).into_string()
        };
        let script = shown("<script>alert(\"1\")</script>&", None);
        assert!(!script.contains("<script") && script.contains("&lt;script&gt;"), "{script}");
        let turned = shown("a\u{202e}gpj.exe\u{1b}[31m", None);
        assert!(!turned.contains('\u{202e}') && !turned.contains('\u{1b}'), "{turned}");
        assert!(shown("", Some("ff41")).contains("\\xff"));
        // Digits that are none leave the text.
        assert!(shown("plain", Some("zz")).contains("plain"));
    }

    #[test]
    fn numbers_are_read_at_a_glance() {
        assert_eq!(number(1_234_567), "1\u{202f}234\u{202f}567");
        assert_eq!(number(12), "12");
        assert_eq!([1, 2000].map(|it| counted(it, "file")), ["1 file", "2\u{202f}000 files"]);
        let times = [0.26, 61.0, 7260.0, 1e300].map(duration);
        assert_eq!(times, ["0.3 s", "1 min 1 s", "2 h 1 min", "11574074 d 1 h"]);
        assert_eq!(moment("2026-11-22T02:08:39.123Z"), "2026-11-22 02:08:39 UTC");
        assert_eq!(rate(0.0, 1.0), "–");
    }
}
