//! The house rules, held by reading the source: what the architecture says is absent is absent.
//!
//! A rule that only a document holds is broken within a month. Comments, strings and test modules
//! are masked out first, so a rule speaks of the code alone.

use std::fs;
use std::path::{Path, PathBuf};

/// The rooms, lowest floor first. A room names only rooms on lower floors; the ground floor's rooms
/// are free among themselves.
const FLOORS: &[&[&str]] = &[
    &["error", "path", "sys", "hash"],
    &["event", "manifest"],
    &["tree"],
    &["io", "part", "fanout", "transfer"],
    &["pipeline"],
    &["copy", "stream", "verify"],
    &["cli"],
    &["bin"],
];

/// Longer than this, a file wants a second room.
const MOST_LINES: usize = 450;

struct Source {
    /// Relative to `src/`, with `/`.
    name: String,
    text: String,
    /// The text with comments, strings and test modules blanked out, line for line.
    code: String,
}

impl Source {
    /// The room: the first directory, or the file's own name at the top.
    fn room(&self) -> &str {
        self.name.split('/').next().unwrap().trim_end_matches(".rs")
    }

    fn is_below(&self, rooms: &[&str]) -> bool {
        rooms.contains(&self.room())
    }

    fn fault(&self, line: usize, what: &str) -> String {
        format!("src/{}:{}: {what}", self.name, line + 1)
    }
}

fn sources() -> Vec<Source> {
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
        let code = without_tests(&mask(&text));
        Source { name, text, code }
    };
    let sources: Vec<_> = files.into_iter().map(source).collect();
    assert!(!sources.is_empty());
    // A file of tests beside its room is no code of the program.
    sources.into_iter().filter(|s| !s.name.ends_with("tests.rs")).collect()
}

/// Blanks out comments and what is between quotes; lines stay where they are.
fn mask(text: &str) -> String {
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
fn without_tests(code: &str) -> String {
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
fn named_after<'a>(code: &'a str, prefix: &str) -> Vec<(usize, &'a str)> {
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

fn floor(room: &str) -> Option<usize> {
    FLOORS.iter().position(|rooms| rooms.contains(&room))
}

/// Fails with all that is wrong at once.
#[track_caller]
fn hold(rule: &str, faults: &[String]) {
    assert!(faults.is_empty(), "{rule}\n{}", faults.join("\n"));
}

/// Lines of code with one of these in them, in files that `concerned` picks.
fn occurrences(needles: &[&str], concerned: impl Fn(&Source) -> bool) -> Vec<String> {
    let mut faults = Vec::new();
    for source in sources().iter().filter(|s| concerned(s)) {
        for (i, line) in source.code.lines().enumerate() {
            for needle in needles.iter().filter(|needle| line.contains(**needle)) {
                faults.push(source.fault(i, needle));
            }
        }
    }
    faults
}

#[test]
fn the_masks_mask() {
    let masked = mask("a \"x\\\"y\" b // c\n'\"' d r#\"e\"f\"# g /* h\n */ i 'j: 'k'");
    assert_eq!(masked, "a \"    \" b     \n' ' d r#\"   \"# g     \n    i 'j: ' '");
    assert_eq!(without_tests("a\n#[cfg(test)]\nmod t { b { } }\nc"), "a\n\n\nc");
    let named = named_after("use crate::{a, b::{c, d}, e}; crate::f::g; mycrate::h", "crate::");
    assert_eq!(named.iter().map(|n| n.1).collect::<Vec<_>>(), ["a", "b", "e", "f"]);
}

#[test]
fn every_file_opens_with_why_it_exists() {
    let bare = sources().into_iter().filter(|s| !s.text.starts_with("//! "));
    hold("the first line is `//! …`", &bare.map(|s| s.fault(0, "no prose")).collect::<Vec<_>>());
}

#[test]
fn no_file_is_too_long() {
    let long = sources().into_iter().filter_map(|s| {
        let lines = s.code.trim_end().lines().count();
        (lines > MOST_LINES).then(|| s.fault(lines, "too long"))
    });
    hold(&format!("at most {MOST_LINES} lines, tests left out"), &long.collect::<Vec<_>>());
}

#[test]
fn the_operating_system_is_known_in_sys_only() {
    let needles = [
        "target_os",
        "target_family",
        "cfg(unix)",
        "cfg(windows)",
        "cfg!(unix)",
        "cfg!(windows)",
        "cfg(not(unix))",
        "cfg(not(windows))",
        "std::os::",
        "rustix",
        "libc::",
        "windows_sys",
    ];
    hold("only src/sys knows the system", &occurrences(&needles, |s| !s.is_below(&["sys"])));
}

#[test]
fn unsafe_is_rare_and_says_why_it_is_sound() {
    let mut faults = Vec::new();
    for source in sources() {
        let text: Vec<_> = source.text.lines().collect();
        for (i, line) in source.code.lines().enumerate() {
            let mut words = line.split(|c: char| !c.is_alphanumeric() && c != '_');
            if !words.any(|word| word == "unsafe") {
                continue;
            }
            if !source.is_below(&["sys", "hash"]) {
                faults.push(source.fault(i, "unsafe outside src/sys and src/hash"));
            }
            let said = text[i.saturating_sub(8)..=i]
                .iter()
                .any(|l| l.contains("SAFETY:") || l.contains("# Safety"));
            if !said {
                faults.push(source.fault(i, "unsafe without a SAFETY comment"));
            }
        }
    }
    hold("unsafe", &faults);
}

#[test]
fn the_library_neither_prints_nor_exits_nor_panics() {
    let prints = ["print!", "println!", "eprint!", "eprintln!", "dbg!", "process::exit"];
    hold("only cli and bin speak", &occurrences(&prints, |s| !s.is_below(&["cli", "bin"])));
    let panics = [".unwrap()", ".expect(", "panic!", "unreachable!", ".unwrap_err()"];
    hold("nobody panics", &occurrences(&panics, |_| true));
}

#[test]
fn nothing_is_left_for_later() {
    let mut faults = occurrences(&["todo!", "unimplemented!"], |_| true);
    for source in sources() {
        for (i, line) in source.text.lines().enumerate() {
            if ["TODO", "FIXME", "XXX", "HACK"].iter().any(|word| line.contains(word)) {
                faults.push(source.fault(i, line.trim()));
            }
        }
    }
    hold("nothing is left for later", &faults);
}

#[test]
fn the_command_line_stays_in_the_cli() {
    let crates = ["clap", "indicatif", "humansize"];
    let mut faults = Vec::new();
    for source in sources().iter().filter(|s| !s.is_below(&["cli"])) {
        for (i, line) in source.code.lines().enumerate() {
            let mut words = line.split(|c: char| !c.is_alphanumeric() && c != '_');
            if let Some(word) = words.find(|word| crates.contains(word)) {
                faults.push(source.fault(i, word));
            }
        }
    }
    hold("clap, indicatif and humansize only in src/cli", &faults);
}

#[test]
fn rooms_name_only_rooms_below_them() {
    let mut faults = Vec::new();
    for source in sources().iter().filter(|s| s.name != "lib.rs") {
        let Some(own) = floor(source.room()) else {
            faults.push(source.fault(0, "on no floor: put the room into FLOORS"));
            continue;
        };
        for prefix in ["crate::", "dircopy::"] {
            for (line, named) in named_after(&source.code, prefix) {
                // Until the context of a run is taken apart, the rooms that a file goes through name each other.
                let free =
                    floor(named) == Some(own) && (own == 0 || FLOORS[own].contains(&"transfer"));
                let below = floor(named).is_some_and(|floor| floor < own);
                if floor(named).is_some() && named != source.room() && !free && !below {
                    faults.push(source.fault(line, &format!("names {named}")));
                }
            }
        }
    }
    hold("a room names only rooms on lower floors", &faults);
}

/// `super::Thing` and `crate::room::Thing` inside the room go through `mod.rs`; siblings are named.
#[test]
fn children_never_name_their_mod() {
    let all = sources();
    let mut faults = Vec::new();
    for source in &all {
        let Some((dir, file)) = source.name.rsplit_once('/') else { continue };
        if file == "mod.rs" || dir == "bin" {
            continue;
        }
        let is_sibling = |word: &str| {
            let candidates = [format!("{dir}/{word}.rs"), format!("{dir}/{word}/mod.rs")];
            word == "super" || all.iter().any(|s| candidates.contains(&s.name))
        };
        let own = format!("crate::{}::", dir.replace('/', "::"));
        for prefix in ["super::", own.as_str()] {
            for (line, word) in named_after(&source.code, prefix) {
                if !is_sibling(word) {
                    faults.push(source.fault(line, &format!("{prefix}{word} is in mod.rs")));
                }
            }
        }
    }
    hold("children name siblings, not their mod.rs", &faults);
}

#[test]
fn the_programs_are_a_few_lines_each() {
    let long = sources().into_iter().filter(|s| s.room() == "bin");
    let long = long.filter(|s| s.code.lines().filter(|l| !l.trim().is_empty()).count() > 12);
    hold("main does nothing itself", &long.map(|s| s.fault(0, "too long")).collect::<Vec<_>>());
}
