//! Which names may be one name at an output.
//!
//! File systems fold letter case, forms of Unicode or both, each by tables of its own: for ext4 `straße` is `STRASSE`,
//! and characters that are not shown count for nothing. So names are alike here that any of them takes for one.
//! Whether an output does is asked of the output: to be alike proves nothing.

use unicode_normalization::UnicodeNormalization;

use crate::sys::stat::{Kind, Stat, Time};

/// What all names that are alike have in common. What is not UTF-8 stays as it is: where names are folded, such bytes
/// are not.
pub fn form_of(name: &[u8]) -> Vec<u8> {
    if name.is_ascii() {
        return name.to_ascii_lowercase();
    }
    let mut form = Vec::with_capacity(name.len());
    for chunk in name.utf8_chunks() {
        form.extend_from_slice(folded(chunk.valid()).as_bytes());
        form.extend_from_slice(chunk.invalid());
    }
    form
}

/// Whether two names have the same form.
pub fn are_alike(one: &[u8], other: &[u8]) -> bool {
    form_of(one) == form_of(other)
}

/// The text without what tells simple forms of letter case and of Unicode apart, as most file systems fold.
pub fn fold_simply(text: &str) -> String {
    text.to_lowercase().nfc().collect()
}

/// By what an entry is known again where its inode number is another for each name.
pub type Sameness = (Kind, u64, Time, Time);

/// By what an entry is known again where inode numbers do not tell.
pub fn sameness(stat: &Stat) -> Sameness {
    (stat.kind, stat.size, stat.mtime, stat.ctime)
}

fn folded(text: &str) -> String {
    // What one round makes of a letter may have another case: a sign that stands for `Dž`, say.
    let mut before = ' ';
    let is_kept = |letter: &char| {
        // `İ` is `i` in some tables, and `i` with a dot in others.
        let is_dot = *letter == '\u{307}' && before == 'i';
        before = *letter;
        !is_dot
    };
    round(&round(text)).chars().filter(is_kept).collect()
}

/// Upper case comes before the decomposition: there `ᾳ` is two letters.
fn round(text: &str) -> String {
    let shown = text.chars().filter(|letter| !is_ignorable(*letter));
    let upper = shown.flat_map(char::to_lowercase).flat_map(char::to_uppercase);
    upper.nfkd().flat_map(char::to_lowercase).collect()
}

/// Whether it is one of the characters that are not shown (Default_Ignorable_Code_Point of Unicode 16).
fn is_ignorable(letter: char) -> bool {
    matches!(
        letter,
        '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}'..='\u{1160}' | '\u{17b4}'..='\u{17b5}'
            | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}'
            | '\u{ffa0}' | '\u{fff0}'..='\u{fff8}' | '\u{1bca0}'..='\u{1bca3}'
            | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}'
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn are_alike(one: &str, other: &str) -> bool {
        super::are_alike(one.as_bytes(), other.as_bytes())
    }

    #[test]
    fn names_that_some_file_system_takes_for_one_are_alike() {
        for (one, other) in [
            ("Straße", "STRASSE"),
            ("STRA\u{1e9e}E", "strasse"),
            ("\u{fb01}n", "FIN"),
            ("\u{212a}", "k"),
            ("\u{130}", "i"),
            ("\u{131}", "I"),
            ("\u{3bf}\u{3c2}", "\u{39f}\u{3a3}"),
            ("\u{17f}", "S"),
            ("e\u{301}", "\u{c9}"),
            ("\u{1fb3}", "\u{3b1}\u{3b9}"),
            ("a\u{200d}b\u{ad}", "AB"),
            ("\u{ff21}", "a"),
        ] {
            assert!(are_alike(one, other), "{one} {other}");
        }
        for (one, other) in
            [("a", "b"), ("e", "\u{e9}"), ("z", "\u{17c}"), ("a.", "a"), ("s", "ss")]
        {
            assert!(!are_alike(one, other), "{one} {other}");
        }
        assert_ne!(form_of(b"\xff"), form_of(b"\xfe"));
        assert_eq!(form_of(b"A\xff\xc3\x89"), form_of(b"a\xffe\xcc\x81"));
    }

    /// Whatever a file system does to a letter by tables of Unicode, the two are alike.
    #[test]
    fn every_letter_is_alike_to_what_folding_makes_of_it() {
        for letter in '\u{80}'..='\u{2ffff}' {
            let text = letter.to_string();
            let others: [String; 6] = [
                letter.to_lowercase().collect(),
                letter.to_uppercase().collect(),
                text.nfd().collect(),
                text.nfkd().collect(),
                text.nfkc().collect(),
                fold_simply(&text),
            ];
            for other in others.iter().filter(|other| **other != text) {
                assert!(are_alike(&text, other), "{letter:?} {other:?}");
            }
        }
    }
}
