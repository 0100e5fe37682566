//! Names: the relative paths that a tree and its manifest may hold, and how a name is shown.
//!
//! Names are bytes. A [`RelPath`] can only be a path *below* a root (never absolute, no `..`, no
//! empty component), whatever a manifest or a file system says; so code that holds one need not
//! check again. What goes to a screen or a log goes through [`Shown`], because a name may hold line
//! feeds, terminal escapes and bytes that are not UTF-8.

use std::{
    ffi::OsStr, ffi::OsString, fmt, path::Component, path::MAIN_SEPARATOR_STR, path::Path,
    path::PathBuf, sync::Arc,
};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};

use crate::{hash::hex, sys};

/// A path below some root: components joined by `/`, none of them empty, `.` or `..`, no NUL.
///
/// The empty path is the root itself. The bytes are those the operating system uses (on Unix the
/// raw bytes, elsewhere the encoding of [`OsStr::as_encoded_bytes`]).
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RelPath(Vec<u8>);

/// Why bytes are not a [`RelPath`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathFault {
    /// Nothing at all.
    Empty,
    /// It starts with `/`.
    Absolute,
    /// A component is `..`.
    Parent,
    /// A component is empty (`a//b`, a trailing `/`) or `.`.
    Component,
    /// It holds a NUL byte, which no file name can.
    Nul,
}

impl fmt::Display for PathFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            PathFault::Empty => "the name is empty",
            PathFault::Absolute => "the name is an absolute path",
            PathFault::Parent => "the name leads out of the tree with \"..\"",
            PathFault::Component => "the name has an empty component or a \".\" in it",
            PathFault::Nul => "the name holds a NUL byte",
        })
    }
}

impl RelPath {
    /// The path without components, which is the root itself.
    pub const fn root() -> Self {
        Self(Vec::new())
    }

    /// Checks bytes from outside (a manifest's name). A leading `./` is dropped, as `sha256sum` of
    /// `find .` writes it; everything else that is not a plain relative path is a fault.
    pub fn parse(bytes: &[u8]) -> Result<Self, PathFault> {
        Self::check(bytes).map(|bytes| Self(bytes.to_vec()))
    }

    /// The same without keeping them: the bytes of the path.
    pub fn check(mut bytes: &[u8]) -> Result<&[u8], PathFault> {
        while let Some(rest) = bytes.strip_prefix(b"./") {
            bytes = rest;
        }
        if bytes.is_empty() {
            return Err(PathFault::Empty);
        }
        if memchr::memchr(0, bytes).is_some() {
            return Err(PathFault::Nul);
        }
        if bytes[0] == b'/' {
            return Err(PathFault::Absolute);
        }
        // No component of most paths begins with a dot, and then there is nothing to look at in them.
        let is_odd = |at| matches!(bytes.get(at + 1), None | Some(b'/' | b'.'));
        if bytes[0] != b'.' && !memchr::memchr_iter(b'/', bytes).any(is_odd) {
            return Ok(bytes);
        }
        for component in bytes.split(|&b| b == b'/') {
            match component {
                b"" | b"." => return Err(PathFault::Component),
                b".." => return Err(PathFault::Parent),
                _ => {}
            }
        }
        Ok(bytes)
    }

    /// The path of the entry `name` in the directory `self`. `name` is one component, as a
    /// directory listing gives it.
    pub fn join(&self, name: &OsStr) -> Self {
        let name = name.as_encoded_bytes();
        match self.is_root() {
            true => Self(name.to_vec()),
            false => Self([&self.0, b"/".as_slice(), name].concat()),
        }
    }

    /// The same of a whole path, which is canonical and relative.
    pub fn of(below: &Path) -> Self {
        below.iter().fold(Self::root(), |path, name| path.join(name))
    }

    /// The directory and the name in it; `None` for the root itself.
    pub fn split(&self) -> Option<(RelPath, &[u8])> {
        match memchr::memrchr(b'/', &self.0) {
            Some(slash) => Some((Self(self.0[..slash].to_vec()), &self.0[slash + 1..])),
            None if self.is_root() => None,
            None => Some((Self::root(), &self.0)),
        }
    }

    /// The bytes, components joined by `/`.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// True if this is the root itself.
    pub fn is_root(&self) -> bool {
        self.0.is_empty()
    }

    /// Where it is below `root`, in the system's own form, for messages. A name that this system cannot have is left
    /// out.
    pub fn full_path(&self, root: &Path) -> PathBuf {
        let mut full = root.to_path_buf();
        let names = self.components().filter_map(|name| sys::name_from_bytes(name).ok());
        names.for_each(|name| push_name(&mut full, name));
        full
    }

    /// The components, from the top down.
    pub fn components(&self) -> impl Iterator<Item = &[u8]> {
        self.0.split(|&b| b == b'/').filter(|c| !c.is_empty())
    }
}

/// Appends a name, whatever is in it: to Windows `x:y` is a path by itself, which would take the place of what stands
/// before it.
pub fn push_name(path: &mut PathBuf, name: &OsStr) {
    if Path::new(name).components().all(|it| matches!(it, Component::Normal(_))) {
        return path.push(name);
    }
    let mut whole = std::mem::take(path).into_os_string();
    if !whole.is_empty() && !whole.as_encoded_bytes().ends_with(MAIN_SEPARATOR_STR.as_bytes()) {
        whole.push(MAIN_SEPARATOR_STR);
    }
    whole.push(name);
    *path = whole.into();
}

/// In hexadecimal digits, because names are bytes.
impl Serialize for RelPath {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&hex::text(&self.0))
    }
}

impl<'de> Deserialize<'de> for RelPath {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let bytes = hex::parse(String::deserialize(deserializer)?.as_bytes());
        let path = bytes.and_then(|bytes| match bytes.is_empty() {
            true => Some(Self::root()),
            false => Self::parse(&bytes).ok(),
        });
        path.ok_or_else(|| D::Error::custom("it is no path below a root"))
    }
}

/// The path of a directory below some root, as its name and the directory above it.
///
/// A walk holds one for each level that it is below the root. As whole paths these would take memory with the
/// square of the depth: 525 MB for both sides of 5,000 levels with names of 20 bytes.
#[derive(Clone, Debug, Default)]
pub struct DirPath(Option<Arc<Level>>);

#[derive(Debug)]
struct Level {
    above: DirPath,
    name: OsString,
    /// Length of the whole path, in bytes.
    len: usize,
}

impl DirPath {
    pub const fn root() -> Self {
        Self(None)
    }

    /// True if this is the root itself.
    pub fn is_root(&self) -> bool {
        self.0.is_none()
    }

    /// Length in bytes.
    pub fn length(&self) -> usize {
        self.0.as_ref().map_or(0, |level| level.len)
    }

    /// The directory `name` in this one. `name` is one component, as a directory listing gives it.
    pub fn below(&self, name: &OsStr) -> Self {
        let len = self.0.as_ref().map_or(0, |level| level.len + 1) + name.len();
        Self(Some(Arc::new(Level { above: self.clone(), name: name.to_os_string(), len })))
    }

    pub fn path(&self) -> RelPath {
        let mut path = Vec::new();
        self.append_to(&mut path);
        RelPath(path)
    }

    /// The path of the entry `name`.
    pub fn join(&self, name: &OsStr) -> RelPath {
        let mut joined = Vec::new();
        self.join_into(name, &mut joined);
        RelPath(joined)
    }

    /// Like [`join`](Self::join), appended to `out`: many paths cost one allocation.
    pub fn join_into(&self, name: &OsStr, out: &mut Vec<u8>) {
        let name = name.as_encoded_bytes();
        if let Some(level) = &self.0 {
            out.reserve(level.len + 1 + name.len());
            self.append_to(out);
            out.push(b'/');
        }
        out.extend_from_slice(name);
    }

    /// Fills in the names from the last to the first.
    fn append_to(&self, out: &mut Vec<u8>) {
        let start = out.len();
        out.resize(start + self.length(), b'/');
        let (_, mut free) = out.split_at_mut(start);
        let mut at = self;
        while let Some(level) = &at.0 {
            let name = level.name.as_encoded_bytes();
            let (before, own) = free.split_at_mut(level.len - name.len());
            own.copy_from_slice(name);
            // Without the slash that stands before the name, where there is something before it.
            let above = before.len().saturating_sub(1);
            (free, _) = before.split_at_mut(above);
            at = &level.above;
        }
    }
}

/// Level by level: one in the other, many would take more stack than a thread has.
impl Drop for DirPath {
    fn drop(&mut self) {
        let mut next = self.0.take();
        while let Some(mut level) = next.and_then(Arc::into_inner) {
            next = level.above.0.take();
        }
    }
}

/// Shows a name on a screen or in a log: as it is when it is harmless, otherwise in double quotes
/// with control characters, bytes that are not UTF-8, invisible direction marks, `"` and `\` escaped
/// as in a Rust string literal, so that two names never look alike and none can drive a terminal.
pub struct Shown<'a>(&'a [u8]);

impl<'a> Shown<'a> {
    /// Shows a name given as bytes.
    pub fn bytes(name: &'a [u8]) -> Self {
        Self(name)
    }

    /// Shows a path as the system has it, which on Unix is any bytes.
    pub fn path(path: &'a Path) -> Self {
        Self(path.as_os_str().as_encoded_bytes())
    }

    /// The first of `number` names, and how many more there are: `a, b and 3 more`.
    pub fn first_of(number: u64, examples: impl IntoIterator<Item = Self>) -> String {
        let shown: Vec<String> = examples.into_iter().map(|name| name.to_string()).collect();
        let more = match number.saturating_sub(shown.len() as u64) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        shown.join(", ") + &more
    }
}

/// Number of names that are given as examples.
const MOST_EXAMPLES: usize = 5;

/// A number of names, and the first of them.
#[derive(Clone, Debug, Default)]
pub struct Examples {
    pub number: u64,
    first: Vec<Vec<u8>>,
}

impl Examples {
    pub fn add(&mut self, path: &[u8]) {
        self.number += 1;
        if self.first.len() < MOST_EXAMPLES {
            self.first.push(path.to_vec());
        }
    }

    /// The first of them, and how many there are, if there are any.
    pub fn names(&self) -> Option<String> {
        let names = || self.first.iter().map(|path| Shown::bytes(path));
        (self.number > 0).then(|| Shown::first_of(self.number, names()))
    }
}

/// Characters that are not control characters and still must not reach a terminal raw: line and
/// paragraph separators, the marks that change the direction, and whatever is not seen at all.
/// These are Unicode's categories Zl, Zp and Cf (but for signs before a number, which are seen), its property
/// Default_Ignorable_Code_Point, also where nothing is assigned yet, and the blank ones of scripts that have such.
pub fn is_deceptive(c: char) -> bool {
    matches!(
        c,
        '\u{ad}'
            | '\u{34f}'
            | '\u{61c}'
            | '\u{115f}'..='\u{1160}'
            | '\u{17b4}'..='\u{17b5}'
            | '\u{180b}'..='\u{180f}'
            | '\u{200b}'..='\u{200f}'
            | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}'
            | '\u{2800}'
            | '\u{3164}'
            | '\u{fe00}'..='\u{fe0f}'
            | '\u{feff}'
            | '\u{ffa0}'
            | '\u{fff0}'..='\u{fffb}'
            | '\u{13430}'..='\u{1343f}'
            | '\u{13441}'..='\u{13442}'
            | '\u{1bca0}'..='\u{1bca3}'
            | '\u{1d173}'..='\u{1d17a}'
            | '\u{e0000}'..='\u{e0fff}'
    )
}

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use fmt::Write;
        if let Ok(text) = std::str::from_utf8(self.0)
            && !text.is_empty()
            && !text.chars().any(|c| c.is_control() || is_deceptive(c) || c == '"')
            && text.trim() == text
        {
            return f.write_str(text);
        }
        f.write_char('"')?;
        for chunk in self.0.utf8_chunks() {
            for c in chunk.valid().chars() {
                match c {
                    '\n' | '\r' | '\t' | '"' | '\\' => write!(f, "{}", c.escape_default())?,
                    c if c.is_control() && c.is_ascii() => write!(f, "\\x{:02x}", c as u32)?,
                    c if c.is_control() || is_deceptive(c) => write!(f, "{}", c.escape_unicode())?,
                    c => f.write_char(c)?,
                }
            }
            for byte in chunk.invalid() {
                write!(f, "\\x{byte:02x}")?;
            }
        }
        f.write_char('"')
    }
}

/// The directory that a path is in.
pub fn directory_of(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

/// A number with the noun it counts: "1 file", "2 files", "3 entries".
pub fn count(number: u64, noun: &str) -> String {
    match (number, noun.strip_suffix('y')) {
        (1, _) => format!("1 {noun}"),
        (_, Some(stem)) => format!("{number} {stem}ies"),
        (_, None) => format!("{number} {noun}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_paths_below_the_root() {
        type Case<'a> = (&'a [u8], Result<&'a [u8], PathFault>);
        let cases: &[Case] = &[
            (b"a", Ok(b"a")),
            (b"a/b c/\xff\n", Ok(b"a/b c/\xff\n")),
            (b"./a", Ok(b"a")),
            (b"././a/b", Ok(b"a/b")),
            (b"..a/...", Ok(b"..a/...")),
            (b"-rf", Ok(b"-rf")),
            (b"", Err(PathFault::Empty)),
            (b"./", Err(PathFault::Empty)),
            (b".", Err(PathFault::Component)),
            (b"/a", Err(PathFault::Absolute)),
            (b".//a", Err(PathFault::Absolute)),
            (b"..", Err(PathFault::Parent)),
            (b"../a", Err(PathFault::Parent)),
            (b"a/../b", Err(PathFault::Parent)),
            (b"a/..", Err(PathFault::Parent)),
            (b"a//b", Err(PathFault::Component)),
            (b"a/./b", Err(PathFault::Component)),
            (b"a/", Err(PathFault::Component)),
            (b"a\0b", Err(PathFault::Nul)),
        ];
        for (input, expected) in cases {
            let parsed = RelPath::parse(input);
            let parsed = parsed.as_ref().map(RelPath::as_bytes).map_err(|fault| *fault);
            assert_eq!(parsed, *expected, "{}", Shown::bytes(input));
        }
    }

    #[test]
    fn a_directory_knows_its_path() {
        let mut dir = DirPath::root();
        assert!(dir.is_root() && dir.path().is_root());
        assert_eq!(dir.join(OsStr::new("f")).as_bytes(), b"f");
        for (name, path) in [("a", "a"), ("bc", "a/bc"), ("d", "a/bc/d")] {
            dir = dir.below(OsStr::new(name));
            assert_eq!(dir.path().as_bytes(), path.as_bytes());
            assert_eq!(dir.join(OsStr::new("f")).as_bytes(), format!("{path}/f").as_bytes());
        }
        let mut appended = b"before ".to_vec();
        dir.join_into(OsStr::new("f"), &mut appended);
        assert_eq!(appended, b"before a/bc/d/f");
        let path =
            RelPath::root().join(OsStr::new("a")).join(OsStr::new("bc")).join(OsStr::new("d"));
        assert_eq!(path, dir.path());
        assert_eq!(path.components().collect::<Vec<_>>(), [b"a".as_slice(), b"bc", b"d"]);
        assert_eq!(
            path.split().map(|(dir, name)| (dir.as_bytes().to_vec(), name)),
            Some((b"a/bc".to_vec(), b"d".as_slice()))
        );
        assert_eq!(RelPath::root().components().count(), 0);
    }

    #[test]
    fn a_million_levels_need_no_stack() {
        let deep = (0..1_000_000).fold(DirPath::root(), |dir, _| dir.below(OsStr::new("d")));
        let twin = deep.below(OsStr::new("e"));
        drop(deep);
        assert_eq!(twin.path().as_bytes().len(), 2_000_001);
    }

    #[test]
    fn shows_every_name_harmlessly() {
        let cases: &[(&[u8], &str)] = &[
            (b"plain name.txt", "plain name.txt"),
            ("caf\u{e9}".as_bytes(), "caf\u{e9}"),
            (b"back\\slash", "back\\slash"),
            (b"a\nb", "\"a\\nb\""),
            (b"\x1b[31m", "\"\\x1b[31m\""),
            (b"\xff\xfe", "\"\\xff\\xfe\""),
            (b" lead", "\" lead\""),
            (b"q\"q", "\"q\\\"q\""),
            (b"n\n\\", "\"n\\n\\\\\""),
            ("x\u{202e}y".as_bytes(), "\"x\\u{202e}y\""),
            ("\u{61c}x".as_bytes(), "\"\\u{61c}x\""),
            ("a\u{ad}b".as_bytes(), "\"a\\u{ad}b\""),
            ("a\u{180e}b".as_bytes(), "\"a\\u{180e}b\""),
            ("a\u{34f}b".as_bytes(), "\"a\\u{34f}b\""),
            ("a\u{e0001}\u{e007f}".as_bytes(), "\"a\\u{e0001}\\u{e007f}\""),
            (b"", "\"\""),
        ];
        for (input, expected) in cases {
            assert_eq!(Shown::bytes(input).to_string(), *expected);
        }
    }

    /// One character of each kind that is not seen.
    #[test]
    fn what_is_not_seen_is_escaped() {
        for c in "\u{115f}\u{3164}\u{ffa0}\u{fe0f}\u{e0100}\u{180b}\u{17b4}\u{1d173}\u{1bca0}\u{2800}\u{13430}".chars() {
            let shown = Shown::bytes(format!("a{c}b").as_bytes()).to_string();
            assert_eq!(shown, format!("\"a{}b\"", c.escape_unicode()));
        }
        for seen in "aäя中한ア\u{301}\u{600}😀⠿".chars() {
            assert!(!is_deceptive(seen), "{seen}");
        }
    }

    #[test]
    fn one_is_singular() {
        assert_eq!(count(1, "file"), "1 file");
        assert_eq!(count(0, "file"), "0 files");
        assert_eq!(count(2, "entry"), "2 entries");
    }
}
