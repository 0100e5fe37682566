//! The source of the program as the rules see it: with comments, strings and test modules masked out, so that
//! a rule speaks of the code alone.

use std::fs;
use std::path::{Path, PathBuf};

pub struct Source {
    /// Relative to `src/`, with `/`.
    pub name: String,
    pub text: String,
    /// The text with comments, strings and test modules blanked out, line for line.
    pub code: String,
}

impl Source {
    pub fn new(name: impl Into<String>, text: impl Into<String>) -> Self {
        let (name, text) = (name.into(), text.into());
        let code = without_tests(&mask(&text));
        Self { name, text, code }
    }

    /// The room: the first directory, or the file's own name at the top.
    pub fn room(&self) -> &str {
        self.name.split('/').next().unwrap().trim_end_matches(".rs")
    }

    pub fn is_below(&self, rooms: &[&str]) -> bool {
        rooms.contains(&self.room())
    }

    pub fn fault(&self, line: usize, what: &str) -> String {
        format!("src/{}:{}: {what}", self.name, line + 1)
    }
}

pub fn sources() -> Vec<Source> {
    fn visit(dir: &Path, files: &mut Vec<PathBuf>) {
        for entry in fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                visit(&path, files);
            } else if path.extension().is_some_and(|e| e == "rs") {
                files.push(path);
            }
        }
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files = Vec::new();
    visit(&root, &mut files);
    files.sort();
    let source = |path: PathBuf| {
        let name = path.strip_prefix(&root).unwrap().to_str().unwrap().to_owned();
        let text = fs::read_to_string(&path).unwrap();
        Source::new(name, text)
    };
    let sources: Vec<_> = files.into_iter().map(source).collect();
    assert!(!sources.is_empty());
    // A file of tests beside its room is no code of the program.
    sources.into_iter().filter(|s| !s.name.ends_with("tests.rs")).collect()
}

/// Blanks out comments and what is between quotes; lines stay where they are.
pub fn mask(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut out = bytes.to_vec();
    let mut at = 0;
    let mut blank = |from: usize, to: usize| {
        for byte in &mut out[from..to] {
            if *byte != b'\n' {
                *byte = b' ';
            }
        }
    };
    let find = |from: usize, what: &str| {
        text.get(from..).and_then(|rest| rest.find(what)).map_or(bytes.len(), |i| from + i)
    };
    let is_word =
        |at: usize| at > 0 && (bytes[at - 1].is_ascii_alphanumeric() || bytes[at - 1] == b'_');
    while at < bytes.len() {
        let rest = &bytes[at..];
        if rest.starts_with(b"//") {
            let end = find(at, "\n");
            blank(at, end);
            at = end;
        } else if rest.starts_with(b"/*") {
            let end = (find(at, "*/") + 2).min(bytes.len());
            blank(at, end);
            at = end;
        } else if rest[0] == b'r' && !is_word(at) && raw_hashes(rest).is_some() {
            let hashes = raw_hashes(rest).unwrap();
            let start = at + hashes + 2;
            let end = find(start, &format!("\"{}", "#".repeat(hashes)));
            blank(start, end);
            at = end + 1 + hashes;
        } else if rest[0] == b'"' {
            let mut end = at + 1;
            while end < bytes.len() && bytes[end] != b'"' {
                end += if bytes[end] == b'\\' { 2 } else { 1 };
            }
            blank(at + 1, end.min(bytes.len()));
            at = end + 1;
        } else if rest.starts_with(b"'\\") {
            let end = find(at + 3, "'");
            blank(at + 1, end);
            at = end + 1;
        } else if rest.len() > 2 && rest[0] == b'\'' && rest[2] == b'\'' {
            blank(at + 1, at + 2);
            at += 3;
        } else {
            at += 1;
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

/// How many `#` a raw string has that begins here.
fn raw_hashes(rest: &[u8]) -> Option<usize> {
    let hashes = rest[1..].iter().take_while(|&&b| b == b'#').count();
    (rest.get(1 + hashes) == Some(&b'"')).then_some(hashes)
}

/// Blanks out each `#[cfg(test)]` and the block or line that it governs.
pub fn without_tests(code: &str) -> String {
    let mut out = String::new();
    let mut rest = code;
    while let Some(start) = rest.find("#[cfg(test)]") {
        out.push_str(&rest[..start]);
        let governed = &rest[start..];
        let mut depth = 0;
        let end = governed
            .char_indices()
            .find_map(|(i, c)| {
                match c {
                    '{' => depth += 1,
                    '}' => depth -= 1,
                    ';' if depth == 0 => return Some(i + 1),
                    _ => {}
                }
                (c == '}' && depth == 0).then_some(i + 1)
            })
            .unwrap_or(governed.len());
        out.extend(governed[..end].chars().filter(|&c| c == '\n'));
        rest = &governed[end..];
    }
    out.push_str(rest);
    out
}

/// What follows `prefix` as a path: the words after `crate::`, those in braces included.
pub fn named_after<'a>(code: &'a str, prefix: &str) -> Vec<(usize, &'a str)> {
    let mut found = Vec::new();
    for (at, _) in code.match_indices(prefix) {
        let before = code[..at].chars().next_back();
        if before.is_some_and(|c| c.is_alphanumeric() || c == '_' || c == ':') {
            continue;
        }
        let line = code[..at].matches('\n').count();
        let rest = &code[at + prefix.len()..];
        let words = match rest.strip_prefix('{') {
            Some(group) => top_level(group),
            None => vec![rest],
        };
        for word in words {
            let word = word.trim_start();
            let end = word.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(word.len());
            if end > 0 {
                found.push((line, &word[..end]));
            }
        }
    }
    found
}

/// The members of a `use` group, up to its closing brace.
fn top_level(group: &str) -> Vec<&str> {
    let (mut depth, mut start, mut members) = (0, 0, Vec::new());
    for (i, c) in group.char_indices() {
        match c {
            '{' => depth += 1,
            '}' if depth == 0 => {
                members.push(&group[start..i]);
                break;
            }
            '}' => depth -= 1,
            ',' if depth == 0 => {
                members.push(&group[start..i]);
                start = i + 1;
            }
            _ => {}
        }
    }
    members
}

/// The whole paths that follow `prefix`, each member of a group by itself: `a::{b::C, d}` is `a::b::C` and `a::d`.
pub fn paths_after(code: &str, prefix: &str) -> Vec<String> {
    let mut found = Vec::new();
    for (at, _) in code.match_indices(prefix) {
        let before = code[..at].chars().next_back();
        if before.is_none_or(|c| !c.is_alphanumeric() && c != '_' && c != ':') {
            unfold("", &code[at + prefix.len()..], &mut found);
        }
    }
    found
}

fn unfold(above: &str, rest: &str, found: &mut Vec<String>) {
    let rest = rest.trim_start();
    let end =
        rest.find(|c: char| !c.is_alphanumeric() && c != '_' && c != ':').unwrap_or(rest.len());
    let path = format!("{above}{}", &rest[..end]);
    match rest[end..].strip_prefix('{').filter(|_| path.is_empty() || path.ends_with("::")) {
        Some(group) => top_level(group).into_iter().for_each(|member| unfold(&path, member, found)),
        None if !path.is_empty() => found.push(path.trim_end_matches(':').to_owned()),
        None => {}
    }
}
