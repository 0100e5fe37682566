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
        match label.trim().eq_ignore_ascii_case(OXUM) {
            true => Err(format!("{OXUM} is computed, not given")),
            false => Self::any(label, value),
        }
    }

    fn any(label: &str, value: &str) -> Result<Self, String> {
        let (label, value) = (label.trim(), value.trim());
        let is_bad_label = |c: char| matches!(c, ':' | '\u{feff}') || c.is_control();
        if label.is_empty() || label.contains(is_bad_label) {
            return Err(format!("{label:?} cannot be the label of a tag"));
        }
        if value.is_empty() || value.contains(is_bad) {
            return Err(format!("the value of {label} is empty, or is not one line of text"));
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

    /// Reads tags that are given, as a `bag-info.txt` has them: each line has a label, a colon and a value, or goes on
    /// with the value of the line before if it begins with a blank.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn read_given(text: &str) -> Result<Vec<Self>, String> {
        Self::read(text, Self::new)
    }

    /// Reads the `bag-info.txt` of a bag, which has also what is computed.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn read_all(text: &str) -> Result<Vec<Self>, String> {
        Self::read(text, Self::any)
    }

    fn read(text: &str, make: fn(&str, &str) -> Result<Self, String>) -> Result<Vec<Self>, String> {
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
            tags.push(make(label, value).map_err(fail)?);
        }
        Ok(tags)
    }

    /// The tags of a bag that has `there` and is given `given`: what is there stays, unless one of its label is given.
    /// What a run computes is not among them.
    pub fn merged(there: &[Self], given: &[Self]) -> Vec<Self> {
        let mut tags: Vec<Self> = Vec::new();
        for tag in there {
            let is_computed = [OXUM, DATE, AGENT].iter().any(|label| tag.is(label));
            match given.iter().any(|it| it.is(&tag.label)) {
                // All of a label come in the place of the first.
                true if !tags.iter().any(|it| it.is(&tag.label)) => {
                    tags.extend(given.iter().filter(|it| it.is(&tag.label)).cloned());
                }
                false if !is_computed => tags.push(tag.clone()),
                _ => {}
            }
        }
        let is_new = |tag: &&Self| !tags.iter().any(|it| it.is(&tag.label));
        let new: Vec<Self> = given.iter().filter(is_new).cloned().collect();
        [tags, new].concat()
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
        let read = InfoTag::read_given(text).unwrap();
        assert_eq!(InfoTag::write_all(&read), "Contact-Name: A b\nNote: c d\n");
        for bad in ["a", "=b", "a=", "a:b=c", "a\nb=c", "a=b\nc", "payload-oxum=1.1"] {
            assert!(InfoTag::parse(bad).is_err(), "{bad:?}");
        }
        for bad in [" a: b", "a", ": b", "a:", "Payload-Oxum: 1.1", "a: \0", "\u{feff}\u{feff}a: b"]
        {
            assert!(InfoTag::read_given(bad).unwrap_err().starts_with("line 1: "), "{bad:?}");
        }
        let folded = InfoTag::read_given("a: b\n c\n \u{1}d\n").unwrap_err();
        assert!(folded.starts_with("line 3: "), "{folded}");
        assert_eq!(InfoTag::read_all(&InfoTag::write_all(&read)), Ok(read));
        let oxum = InfoTag::own(OXUM, "12.3".into());
        let text = InfoTag::write_all(std::slice::from_ref(&oxum));
        assert_eq!(InfoTag::read_all(&text), Ok(vec![oxum.clone()]));
        assert_eq!(payload_oxum(&InfoTag::write_all(&[oxum])), Ok(Some((12, 3))));
    }

    #[test]
    fn tags_stay_unless_one_of_their_label_is_given() {
        let tags = |text: &str| InfoTag::read_all(text).unwrap();
        let merged = |there, given| {
            InfoTag::write_all(&InfoTag::merged(&tags(there), &tags(given))).replace('\n', "; ")
        };
        let there = "A: 1\nB: 2\nA: 3\nBagging-Date: 2001-01-01\nPayload-Oxum: 1.1\n";
        assert_eq!(merged(there, ""), "A: 1; B: 2; A: 3; ");
        assert_eq!(merged(there, "a: 4\nC: 5\nA: 6\n"), "a: 4; A: 6; B: 2; C: 5; ");
        assert_eq!(merged(there, "Bagging-Date: x\nb: 2\n"), "A: 1; b: 2; A: 3; Bagging-Date: x; ");
        assert_eq!(merged("", "C: 5\nC: 6\n"), "C: 5; C: 6; ");
    }
}
