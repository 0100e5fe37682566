//! Rules about names that files share with others: those of the prelude, and modules that are public without need.

use super::source::{Source, named_after, paths_after};

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

fn folder(name: &str) -> &str {
    name.rsplit_once('/').map_or("", |(folder, _)| folder)
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

/// Types with a name of the standard prelude. `Result` is every library's own.
pub fn names_of_the_prelude(sources: &[Source]) -> Vec<String> {
    let all =
        sources.iter().flat_map(|source| types(source).into_iter().map(move |it| (source, it)));
    let shadows = all.filter(|(_, (_, name))| PRELUDE.contains(name));
    shadows.map(|(source, (line, name))| source.fault(line, name)).collect()
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

/// What `lib.rs` and the face of a folder pass on by paths that begin at themselves.
fn at_top(source: &Source) -> Vec<String> {
    let above = match source.name.strip_suffix("mod.rs") {
        Some(folder) => folder.replace('/', "::"),
        None if source.name == "lib.rs" => String::new(),
        None => return Vec::new(),
    };
    let passed_on = paths_after(&source.code, "pub use ");
    passed_on.into_iter().map(|path| format!("{above}{path}")).collect()
}

#[test]
fn each_rule_meets_a_planted_offence() {
    let planted = |files: &[(&str, &str)]| -> Vec<Source> {
        files.iter().map(|(name, text)| Source::new(*name, *text)).collect()
    };
    let shadow = planted(&[("a/one.rs", "/// A copy.\npub struct Copy {\n}")]);
    assert_eq!(names_of_the_prelude(&shadow), ["src/a/one.rs:2: Copy"]);
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
