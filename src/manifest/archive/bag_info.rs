//! The tags of a bag, which `bag-info.txt` has: taken from a command line or such a file, and written.

use super::bag::lines;

/// How many bytes and files the payload has. Its value is computed, never given.
pub const OXUM: &str = "Payload-Oxum";

/// When the bag was made.
pub const DATE: &str = "Bagging-Date";

/// What made it.
pub const AGENT: &str = "Bag-Software-Agent";

/// A label and its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InfoTag {
    label: String,
    value: String,
}

impl InfoTag {
    /// A tag with this label and value, without the blanks around them.
    ///
    /// # Errors
    /// Such a tag cannot be written, or is not to be given.
    pub fn new(label: &str, value: &str) -> Result<Self, String> {
        let (label, value) = (label.trim(), value.trim());
        let is_bad_label = |c: char| matches!(c, ':' | '\u{feff}') || c.is_control();
        if label.is_empty() || label.contains(is_bad_label) {
            return Err(format!("{label:?} cannot be the label of a tag"));
        }
        if value.is_empty() || value.contains(is_bad) {
            return Err(format!("the value of {label} is empty, or is not one line of text"));
        }
        if label.eq_ignore_ascii_case(OXUM) {
            return Err(format!("{OXUM} is computed, not given"));
        }
        Ok(Self { label: label.to_owned(), value: value.to_owned() })
    }

    /// Reads `LABEL=VALUE`.
    ///
    /// # Errors
    /// It is none.
    pub fn parse(text: &str) -> Result<Self, String> {
        let (label, value) = text.split_once('=').ok_or("expected LABEL=VALUE")?;
        Self::new(label, value)
    }

    /// Reads the text of a `bag-info.txt`: each line has a label, a colon and a value, or goes on with the value of the
    /// line before if it begins with a blank.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn read_all(text: &str) -> Result<Vec<Self>, String> {
        let mut tags: Vec<Self> = Vec::new();
        for (at, line) in lines(text.strip_prefix('\u{feff}').unwrap_or(text)).enumerate() {
            let fail = |why: String| format!("line {}: {why}", at + 1);
            if line.trim().is_empty() {
                continue;
            }
            if line.starts_with([' ', '\t']) {
                let last = tags.last_mut();
                let last =
                    last.ok_or_else(|| fail("there is no tag that it goes on with".into()))?;
                if line.trim().contains(is_bad) {
                    return Err(fail(format!("the value of {} is no text", last.label)));
                }
                last.value.push(' ');
                last.value.push_str(line.trim());
                continue;
            }
            let split = line.split_once(':');
            let (label, value) = split.ok_or_else(|| fail("it has no label".into()))?;
            tags.push(Self::new(label, value).map_err(fail)?);
        }
        Ok(tags)
    }

    /// Reads what [`write_all`](Self::write_all) wrote; none if it is anything else.
    pub fn read_written(text: &str) -> Option<Vec<Self>> {
        let tag = |line: &str| {
            let (label, value) = line.split_once(": ")?;
            Some(Self { label: label.to_owned(), value: value.to_owned() })
        };
        text.strip_suffix('\n')?.split('\n').map(tag).collect()
    }

    /// One that the program gives.
    pub fn own(label: &'static str, value: String) -> Self {
        Self { label: label.to_owned(), value }
    }

    /// Whether it has this label: letter case means nothing.
    pub fn is(&self, label: &str) -> bool {
        self.label.eq_ignore_ascii_case(label)
    }

    /// Its value.
    pub fn value(&self) -> &str {
        &self.value
    }

    /// The text of a `bag-info.txt` with these tags.
    pub fn write_all(tags: &[Self]) -> String {
        tags.iter().map(|tag| format!("{}: {}\n", tag.label, tag.value)).collect()
    }
}

/// What no value of a tag has.
fn is_bad(c: char) -> bool {
    c.is_control() && c != '\t'
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::manifest::archive::bag::payload_oxum;

    #[test]
    fn tags_are_read_and_written() {
        let tag = InfoTag::parse("Contact-Name=A: b = c").unwrap();
        assert_eq!(InfoTag::write_all(std::slice::from_ref(&tag)), "Contact-Name: A: b = c\n");
        assert!(tag.is("contact-name") && tag.value() == "A: b = c");
        let text = "Contact-Name: A\r\n  b\r\nNote: c\n\td\n";
        let read = InfoTag::read_all(text).unwrap();
        assert_eq!(InfoTag::write_all(&read), "Contact-Name: A b\nNote: c d\n");
        for bad in ["a", "=b", "a=", "a:b=c", "a\nb=c", "a=b\nc", "payload-oxum=1.1"] {
            assert!(InfoTag::parse(bad).is_err(), "{bad:?}");
        }
        for bad in [" a: b", "a", ": b", "a:", "Payload-Oxum: 1.1", "a: \0", "\u{feff}\u{feff}a: b"]
        {
            assert!(InfoTag::read_all(bad).unwrap_err().starts_with("line 1: "), "{bad:?}");
        }
        let folded = InfoTag::read_all("a: b\n c\n \u{1}d\n").unwrap_err();
        assert!(folded.starts_with("line 3: "), "{folded}");
        assert_eq!(InfoTag::read_written(&InfoTag::write_all(&read)), Some(read));
        assert_eq!(InfoTag::read_written("a\n"), None);
        let oxum = InfoTag::own(OXUM, "12.3".into());
        assert_eq!(payload_oxum(&InfoTag::write_all(&[oxum])), Ok(Some((12, 3))));
    }
}
