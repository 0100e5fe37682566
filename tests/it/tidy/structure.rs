//! Rules about how files hang together: circles, names with two meanings, rooms that grow too large,
//! modules that are public without need.

use std::collections::{BTreeMap, BTreeSet};

use super::source::{Source, named_after, paths_after};

/// A folder outside `sys` has at most so many files, …
const MOST_FILES: usize = 13;

/// … and so many lines, tests left out.
const MOST_LINES: usize = 2000;

/// Names that mean something else in every Rust file.
const PRELUDE: &[&str] = &[
    "AsMut",
    "AsRef",
    "Box",
    "Clone",
    "Copy",
    "Debug",
    "Default",
    "DoubleEndedIterator",
    "Drop",
    "Eq",
    "Err",
    "ExactSizeIterator",
    "Extend",
    "Fn",
    "FnMut",
    "FnOnce",
    "From",
    "FromIterator",
    "Hash",
    "Into",
    "IntoIterator",
    "Iterator",
    "None",
    "Ok",
    "Option",
    "Ord",
    "PartialEq",
    "PartialOrd",
    "Send",
    "Sized",
    "Some",
    "String",
    "Sync",
    "ToOwned",
    "ToString",
    "TryFrom",
    "TryInto",
    "Vec",
];

/// The module that a file is, as in `io::block`.
fn module(name: &str) -> String {
    let name = name.trim_end_matches(".rs").trim_end_matches("/mod");
    name.replace('/', "::")
}

fn folder(name: &str) -> &str {
    name.rsplit_once('/').map_or("", |(folder, _)| folder)
}

/// Which files each file names, by number.
fn arrows(sources: &[Source]) -> Vec<BTreeSet<usize>> {
    let modules: BTreeMap<_, _> =
        sources.iter().enumerate().map(|(i, source)| (module(&source.name), i)).collect();
    let is_room = |source: &Source| source.name.ends_with("mod.rs") || source.name == "lib.rs";
    sources
        .iter()
        .enumerate()
        .map(|(own, source)| {
            // A room's face hands names on; what is named through it is named at the file itself.
            if is_room(source) {
                return BTreeSet::new();
            }
            let above = folder(&source.name).replace('/', "::");
            let named = paths_after(&source.code, "crate::").into_iter();
            let beside = paths_after(&source.code, "super::").into_iter();
            let named = named.chain(beside.map(|path| format!("{above}::{path}")));
            let file = |path: String| {
                let mut path = path.as_str();
                loop {
                    match modules.get(path) {
                        Some(&file) if file != own && !is_room(&sources[file]) => {
                            return Some(file);
                        }
                        _ => path = path.rsplit_once("::")?.0,
                    }
                }
            };
            named.filter_map(file).collect()
        })
        .collect()
}

/// Files that import each other, whatever the way round.
pub fn circles(sources: &[Source]) -> Vec<String> {
    let arrows = arrows(sources);
    let reached = |from: usize| {
        let (mut seen, mut next) = (BTreeSet::new(), vec![from]);
        while let Some(at) = next.pop() {
            next.extend(arrows[at].iter().filter(|&&to| seen.insert(to)));
        }
        seen
    };
    let reached: Vec<_> = (0..sources.len()).map(reached).collect();
    let mut told = BTreeSet::new();
    let mut faults = Vec::new();
    for (at, source) in sources.iter().enumerate() {
        let circle: Vec<_> =
            reached[at].iter().filter(|&&other| reached[other].contains(&at)).collect();
        if !circle.is_empty() && told.insert(circle.clone()) {
            let names: Vec<_> = circle.iter().map(|&&it| sources[it].name.as_str()).collect();
            faults.push(source.fault(0, &format!("is in a circle: {}", names.join(", "))));
        }
    }
    faults
}

/// The types that a file defines, with their lines.
fn types(source: &Source) -> Vec<(usize, &str)> {
    let keywords = ["struct ", "enum ", "trait ", "union ", "type "];
    let definition = |line: &'_ str| -> Option<usize> {
        let text = line.trim_start();
        let text = text.strip_prefix("pub").map_or(text, |rest| match rest.strip_prefix('(') {
            Some(inner) => inner.split_once(')').map_or("", |(_, rest)| rest).trim_start(),
            None => rest.trim_start(),
        });
        let text = text.trim_start_matches("unsafe ");
        let keyword = keywords.iter().find(|keyword| text.starts_with(**keyword))?;
        Some(line.len() - text.len() + keyword.len())
    };
    let mut found = Vec::new();
    // A type inside an `impl` or a trait is named through that.
    let mut inside: Option<usize> = None;
    for (number, line) in source.code.lines().enumerate() {
        let indent = line.len() - line.trim_start().len();
        if let Some(outer) = inside {
            if line.trim_start().starts_with('}') && indent == outer {
                inside = None;
            }
            continue;
        }
        if ["impl", "pub trait ", "trait ", "pub(crate) trait "]
            .iter()
            .any(|it| line.trim_start().starts_with(it))
            && !line.trim_end().ends_with('}')
        {
            inside = Some(indent);
        }
        if let Some(at) = definition(line) {
            let rest = &line[at..];
            let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
            if end > 0 {
                found.push((number, &rest[..end]));
            }
        }
    }
    found
}

/// Whether a file is for one system alone: what each has of a name is one thing.
fn is_of_a_system(name: &str) -> bool {
    ["unix", "windows", "portable"].iter().any(|it| name.starts_with(&format!("sys/{it}")))
}

/// Type names that are defined in two places. A type that each system has in its own way is one.
pub fn names_with_two_meanings(sources: &[Source]) -> Vec<String> {
    let mut places: BTreeMap<&str, Vec<(&Source, usize)>> = BTreeMap::new();
    for source in sources {
        for (line, name) in types(source) {
            places.entry(name).or_default().push((source, line));
        }
    }
    let mut faults = Vec::new();
    for (name, places) in places {
        let is_pair = places.iter().all(|(source, _)| is_of_a_system(&source.name));
        if places.len() > 1 && !is_pair {
            let all: Vec<_> = places.iter().map(|(source, _)| source.name.as_str()).collect();
            faults.push(format!("{name}: {}", all.join(", ")));
        }
    }
    faults
}

/// Types with a name of the standard prelude. `Result` is every library's own.
pub fn names_of_the_prelude(sources: &[Source]) -> Vec<String> {
    let all =
        sources.iter().flat_map(|source| types(source).into_iter().map(move |it| (source, it)));
    let shadows = all.filter(|(_, (_, name))| PRELUDE.contains(name));
    shadows.map(|(source, (line, name))| source.fault(line, name)).collect()
}

/// Folders that have more than one subject, by their size.
pub fn large_rooms(sources: &[Source]) -> Vec<String> {
    let mut rooms: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
    for source in sources.iter().filter(|source| source.room() != "sys") {
        let room = rooms.entry(folder(&source.name)).or_default();
        room.0 += usize::from(!source.name.ends_with("mod.rs"));
        room.1 += source.code.trim_end().lines().count();
    }
    let large = rooms.into_iter().filter(|(name, (files, lines))| {
        !name.is_empty() && (*files > MOST_FILES || *lines > MOST_LINES)
    });
    large
        .map(|(name, (files, lines))| format!("src/{name}: {files} files, {lines} lines"))
        .collect()
}

/// Modules that are public although nothing outside their folder names them. `outside` is the code of tests,
/// benchmarks and examples.
pub fn needlessly_public(sources: &[Source], outside: &str) -> Vec<String> {
    let mut faults = Vec::new();
    for source in sources.iter().filter(|source| source.name.ends_with("/mod.rs")) {
        let folder = folder(&source.name);
        // What a system has is asked for through `sys`.
        if source.room() == "sys" {
            continue;
        }
        for (line, text) in source.code.lines().enumerate() {
            let name = text.strip_prefix("pub mod ").or(text.strip_prefix("pub(crate) mod "));
            let Some(name) = name.and_then(|name| name.strip_suffix(';')) else { continue };
            let path = format!("{}::{name}", folder.replace('/', "::"));
            let begins = |it: &String| it == &path || it.starts_with(&format!("{path}::"));
            let is_named = sources.iter().any(|other| {
                !other.name.starts_with(&format!("{folder}/"))
                    && paths_after(&other.code, "crate::").iter().chain(&at_top(other)).any(begins)
            });
            if !is_named && !paths_after(outside, "dircopy::").iter().any(begins) {
                faults.push(source.fault(line, &format!("`{name}` is public without need")));
            }
        }
    }
    faults
}

/// What `lib.rs` names without `crate::`.
fn at_top(source: &Source) -> Vec<String> {
    if source.name == "lib.rs" { paths_after(&source.code, "pub use ") } else { Vec::new() }
}

#[test]
fn each_rule_meets_a_planted_offence() {
    let planted = |files: &[(&str, &str)]| -> Vec<Source> {
        files.iter().map(|(name, text)| Source::new(*name, *text)).collect()
    };
    let circle = planted(&[
        ("a/one.rs", "use crate::a::two::Two;"),
        ("a/two.rs", "use crate::b::{three::Three, four};"),
        ("b/three.rs", "fn f() { crate::a::one::f() }"),
        ("b/four.rs", "use crate::a::two::Two;\n#[cfg(test)]\nmod tests { use crate::b::five; }"),
        ("b/five.rs", "use crate::b::four;"),
    ]);
    assert_eq!(circles(&circle).len(), 1, "{:?}", circles(&circle));
    assert_eq!(circles(&circle[4..]), [""; 0]);
    let two = planted(&[
        ("a/one.rs", "pub struct Place<'a> {\n}\nimpl Iterator for X {\n    type Item = u8;\n}\n"),
        ("b/two.rs", "pub(crate) enum Place {}\nimpl Iterator for Y {\n    type Item = u8;\n}\n"),
        ("sys/unix/dir.rs", "pub struct Dir;"),
        ("sys/windows/dir.rs", "pub struct Dir;"),
    ]);
    assert_eq!(names_with_two_meanings(&two), ["Place: a/one.rs, b/two.rs"]);
    assert_eq!(names_with_two_meanings(&two[1..]), [""; 0]);
    let shadow = planted(&[("a/one.rs", "/// A copy.\npub struct Copy {\n}")]);
    assert_eq!(names_of_the_prelude(&shadow), ["src/a/one.rs:2: Copy"]);
    let many = (0..=MOST_FILES).map(|i| Source::new(format!("a/f{i}.rs"), "fn f() {}"));
    assert_eq!(large_rooms(&many.collect::<Vec<_>>()), ["src/a: 14 files, 14 lines"]);
    let long = planted(&[("a/one.rs", &"fn f() {}\n".repeat(MOST_LINES + 1))]);
    assert_eq!(large_rooms(&long).len(), 1);
    let public = planted(&[
        ("a/mod.rs", "pub mod used;\npub mod unused;\nmod private;\npub mod tested;"),
        ("a/used.rs", "use crate::a::unused::X;"),
        ("b/one.rs", "use crate::a::used;"),
    ]);
    let outside = "use dircopy::a::tested::X;";
    assert_eq!(
        needlessly_public(&public, outside),
        ["src/a/mod.rs:2: `unused` is public without need"]
    );
    assert!(named_after("use crate::a::b;", "crate::").len() == 1);
}
