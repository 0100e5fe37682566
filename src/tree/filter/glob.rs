//! A pattern of gitignore(5) as a regular expression.
//!
//! The rules are those of git's own `wildmatch.c` and `dir.c`, byte for byte: a user who knows one of the two
//! knows both. The crates that read `.gitignore` files for searching differ from git in ways that a copy must
//! not: `globset` has no POSIX classes, lets a class match a `/`, and gives `{` a meaning.
//! A regular expression, because the engine takes time in proportion to the name whatever the pattern and the name
//! are, where matching by trial takes exponential time for `*a*a*a*b`, and names are not ours to choose.

use std::fmt::Write;

/// A pattern that was understood.
#[derive(Debug, PartialEq, Eq)]
pub struct Glob {
    /// It began with `!`: what it matches is excepted from what patterns before it say.
    pub negated: bool,
    /// It ended in `/`: it matches directories only.
    pub only_dirs: bool,
    /// Matches whole paths below the root, of bytes, where `.` is any byte.
    pub regex: String,
}

/// Whether a byte is in a class.
type ByteSet = [bool; 256];

const UNCLOSED: &str = "the class that \"[\" opens is not closed";
const DANGLING: &str = "\"\\\" stands before nothing";

impl Glob {
    /// Understands a pattern. An error completes the sentence "the pattern is not valid: …".
    pub fn parse(pattern: &str) -> Result<Self, &'static str> {
        let (negated, glob) = match pattern.strip_prefix('!') {
            Some(rest) => (true, rest),
            None => (false, pattern),
        };
        let (only_dirs, glob) = match glob.strip_suffix('/') {
            Some(rest) => (true, rest),
            None => (false, glob),
        };
        // Without a slash in it, a pattern is of names in any directory.
        let (above, glob) = match glob.contains('/') {
            true => ("", glob.strip_prefix('/').unwrap_or(glob)),
            false => ("(?:.*/)?", glob),
        };
        if glob.trim().is_empty() {
            return Err("it names nothing");
        }
        let regex = format!("\\A{above}{}\\z", translate(glob.as_bytes())?);
        Ok(Self { negated, only_dirs, regex })
    }
}

fn translate(glob: &[u8]) -> Result<String, &'static str> {
    let mut regex = String::new();
    let mut at = 0;
    while let Some(&byte) = glob.get(at) {
        at += 1;
        match byte {
            b'*' => {
                let begin = at - 1;
                while glob.get(at) == Some(&b'*') {
                    at += 1;
                }
                let rest = &glob[at..];
                let begins = begin == 0 || glob[begin - 1] == b'/';
                let ends = rest.is_empty() || rest.starts_with(b"/") || rest.starts_with(b"\\/");
                match (at - begin > 1 && begins && ends, rest.first()) {
                    (false, _) => regex.push_str("[^/]*"),
                    // Any number of directories, and none too.
                    (true, Some(b'/')) => {
                        at += 1;
                        regex.push_str("(?:.*/)?");
                    }
                    (true, _) => regex.push_str(".*"),
                }
            }
            b'?' => regex.push_str("[^/]"),
            b'[' => {
                let (set, len) = class(&glob[at..])?;
                at += len;
                push_set(&mut regex, &set);
            }
            b'\\' => {
                push_byte(&mut regex, *glob.get(at).ok_or(DANGLING)?);
                at += 1;
            }
            byte => push_byte(&mut regex, byte),
        }
    }
    Ok(regex)
}

/// Writing to a string does not fail.
fn push_byte(regex: &mut String, byte: u8) {
    let _ = write!(regex, "\\x{byte:02x}");
}

fn push_set(regex: &mut String, set: &ByteSet) {
    regex.push('[');
    let members = (0..=u8::MAX).filter(|byte| set[usize::from(*byte)]);
    members.for_each(|byte| push_byte(regex, byte));
    // The class that nothing is in.
    if regex.ends_with('[') {
        regex.push_str("^\\x00-\\xff");
    }
    regex.push(']');
}

/// The class whose text behind its `[` begins `text`, and the length of that text, its `]` included. No class
/// matches a `/`.
fn class(text: &[u8]) -> Result<(ByteSet, usize), &'static str> {
    let negated = matches!(text.first(), Some(b'!' | b'^'));
    let mut at = usize::from(negated);
    let first = at;
    let mut set = [false; 256];
    // What a range may begin with.
    let mut before = None;
    loop {
        let byte = *text.get(at).ok_or(UNCLOSED)?;
        at += 1;
        match (byte, before, text.get(at)) {
            (b']', ..) if at - 1 > first => break,
            (b'-', Some(low), Some(&next)) if next != b']' => {
                let high = literal(text, &mut at)?;
                set.iter_mut()
                    .take(usize::from(high) + 1)
                    .skip(usize::from(low))
                    .for_each(|it| *it = true);
                before = None;
            }
            _ => match class_name(&text[at - 1..]) {
                Some(name) => {
                    at += name.len() + 3;
                    add_named(&mut set, name)?;
                    before = None;
                }
                None => {
                    at -= 1;
                    let byte = literal(text, &mut at)?;
                    set[usize::from(byte)] = true;
                    before = Some(byte);
                }
            },
        }
    }
    if negated {
        set.iter_mut().for_each(|it| *it = !*it);
    }
    set[usize::from(b'/')] = false;
    Ok((set, at))
}

/// The byte at `at`, or the one behind it if that is a backslash.
fn literal(text: &[u8], at: &mut usize) -> Result<u8, &'static str> {
    *at += usize::from(text.get(*at) == Some(&b'\\'));
    let byte = *text.get(*at).ok_or(UNCLOSED)?;
    *at += 1;
    Ok(byte)
}

/// The name of the POSIX class, `[:name:]`, that begins `text`; `None` if it is none.
fn class_name(text: &[u8]) -> Option<&[u8]> {
    let text = text.strip_prefix(b"[:")?;
    let end = memchr::memchr(b']', text)?;
    text[..end].strip_suffix(b":")
}

/// Adds a POSIX class, of ASCII characters whatever the locale.
fn add_named(set: &mut ByteSet, name: &[u8]) -> Result<(), &'static str> {
    let is_in: fn(&u8) -> bool = match name {
        b"alnum" => u8::is_ascii_alphanumeric,
        b"alpha" => u8::is_ascii_alphabetic,
        b"blank" => |byte| matches!(byte, b' ' | b'\t'),
        b"cntrl" => u8::is_ascii_control,
        b"digit" => u8::is_ascii_digit,
        b"graph" => u8::is_ascii_graphic,
        b"lower" => u8::is_ascii_lowercase,
        b"print" => |byte| matches!(byte, b' '..=b'~'),
        b"punct" => u8::is_ascii_punctuation,
        // Without the vertical tab and the form feed, as git has it.
        b"space" => |byte| matches!(byte, b' ' | b'\t' | b'\n' | b'\r'),
        b"upper" => u8::is_ascii_uppercase,
        b"xdigit" => u8::is_ascii_hexdigit,
        _ => return Err("\"[:…:]\" has a name that is none of the classes of POSIX"),
    };
    (0..=u8::MAX).filter(is_in).for_each(|byte| set[usize::from(byte)] = true);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_match_is_refused() {
        for (pattern, why) in [
            ("", "it names nothing"),
            ("!", "it names nothing"),
            ("/", "it names nothing"),
            ("a[", UNCLOSED),
            ("a[]", UNCLOSED),
            ("a[!]", UNCLOSED),
            ("[[:alpha:]", UNCLOSED),
            ("[\\", UNCLOSED),
            ("a\\", DANGLING),
            ("a\\/", DANGLING),
            ("[[:letters:]]", "\"[:…:]\" has a name that is none of the classes of POSIX"),
        ] {
            assert_eq!(Glob::parse(pattern), Err(why), "{pattern}");
        }
    }
}
