//! JSON for reports and logs: names of any bytes, and nothing that a terminal could act on.
//!
//! Names are bytes and JSON has only text: a name that is not UTF-8 is given twice, as text with the
//! bytes that are none written `\xNN`, and as the bytes themselves in hexadecimal digits.

use std::fmt::Write;
use std::path::Path;

use serde::Serialize;

use crate::path::{Shown, is_deceptive};

/// A name or a path.
#[derive(Debug, Default, Serialize)]
pub struct JsonName {
    path: String,
    /// The bytes, if they are not that text's.
    #[serde(skip_serializing_if = "Option::is_none")]
    path_bytes: Option<String>,
}

impl JsonName {
    /// A name given as bytes.
    pub fn bytes(name: &[u8]) -> Self {
        match std::str::from_utf8(name) {
            Ok(text) => Self { path: text.to_owned(), path_bytes: None },
            Err(_) => Self { path: Shown::bytes(name).to_string(), path_bytes: Some(hex(name)) },
        }
    }

    /// The name for a message.
    pub fn shown(&self) -> Shown<'_> {
        Shown::bytes(self.path.as_bytes())
    }

    pub fn path(path: &Path) -> Self {
        Self::bytes(path.as_os_str().as_encoded_bytes())
    }
}

/// Bytes as hexadecimal digits.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut hex, byte| {
        // Writing to a string does not fail.
        let _ = write!(hex, "{byte:02x}");
        hex
    })
}

/// The JSON of a value on one line. Characters that a terminal could act on or an eye misread are escaped in
/// JSON's own form. Empty if the value has no JSON.
pub fn line(value: &impl Serialize) -> String {
    harmless(&serde_json::to_string(value).unwrap_or_default())
}

/// Escapes control characters and deceptive ones in JSON; they can only be inside strings.
pub fn harmless(json: &str) -> String {
    let mut out = String::with_capacity(json.len());
    for c in json.chars() {
        match c {
            '\n' => out.push(c),
            c if c.is_control() || is_deceptive(c) => {
                // All of these are in the plane that takes one escape.
                let _ = write!(out, "\\u{:04x}", c as u32);
            }
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_survives() {
        let json = |name: &[u8]| line(&JsonName::bytes(name));
        assert_eq!(json(b"a\nb\"\\"), r#"{"path":"a\nb\"\\"}"#);
        assert_eq!(json("\u{202e}\u{7f}\u{9b}x".as_bytes()), r#"{"path":"\u202e\u007f\u009bx"}"#);
        assert_eq!(json(b"\xff"), r#"{"path":"\"\\xff\"","path_bytes":"ff"}"#);
    }
}
