//! Our patterns beside `git check-ignore`: the same files of a tree are left out.
//!
//! Random patterns of all that gitignore(5) has are given to both, over one tree of names with odd characters, and
//! every verdict must agree. Skipped where there is no git to ask; with `DIRCOPY_TEST_ALL=1` that is a failure.

#![cfg(unix)]
// Everything here is a test, also what has no `#[test]`.
#![allow(clippy::unwrap_used, clippy::panic)]

#[path = "it/harness/skipped.rs"]
mod skipped;

use std::collections::BTreeSet;
use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use dircopy::internals::Inclusion;
use dircopy::{Filter, Pattern};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use tempfile::TempDir;

/// Names that the patterns are likely to come upon.
const NAMES: &[&str] = &[
    "a", "b", "ab", "ba", "aab", "a.b", "A", "1", "a1", "-", "]", "[", "^", "!", "\\", ":", " ",
    "a b", "!a", "#a", "a-b", "a]b", "[a]", "[:a:]", "{a,b}", "*", "?", "**", "a*", "a\\b",
    "\u{e4}", "\t", "a\nb",
];

fn git(root: &Path) -> Command {
    let mut git = Command::new("git");
    git.current_dir(root)
        .env_remove("GIT_DIR")
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CONFIG_SYSTEM", "/dev/null")
        .env("XDG_CONFIG_HOME", "/nonexistent");
    git
}

/// A repository with a tree, and the paths of its files and directories; `None` where there is no git.
fn tree() -> Option<(TempDir, Vec<(String, bool)>)> {
    let root = TempDir::new().unwrap();
    let made = git(root.path()).args(["init", "-q"]).output();
    if !made.as_ref().is_ok_and(|made| made.status.success()) {
        skipped::lacking("git");
        return None;
    }
    let mut paths = Vec::new();
    for name in NAMES {
        fs::write(root.path().join(name), "").unwrap();
        paths.push(((*name).to_owned(), false));
    }
    for dirs in [&["d"][..], &["a_"], &["d", "a"], &["d", "d"], &["d", "-"], &["d", "a", "b"]] {
        let dir = dirs.join("/");
        fs::create_dir(root.path().join(&dir)).unwrap();
        for name in NAMES.iter().filter(|name| !root.path().join(&dir).join(name).exists()) {
            let path = format!("{dir}/{name}");
            if !["d/a", "d/-", "d/a/b"].contains(&&*path) {
                fs::write(root.path().join(&path), "").unwrap();
                paths.push((path, false));
            }
        }
        paths.push((dir, true));
    }
    Some((root, paths))
}

/// What git leaves out.
fn theirs(root: &Path, patterns: &[String], paths: &[(String, bool)]) -> BTreeSet<String> {
    let mut exclude = patterns.join("\n");
    exclude.push('\n');
    fs::write(root.join(".git/info/exclude"), exclude).unwrap();
    let mut asked = git(root)
        .args(["check-ignore", "--no-index", "-z", "--stdin"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = asked.stdin.take().unwrap();
    // A colon at the beginning would be more than a name.
    let all: Vec<String> = paths.iter().map(|(path, _)| format!("./{path}")).collect();
    let writer = std::thread::spawn({
        let all = all.join("\0");
        move || stdin.write_all(all.as_bytes()).unwrap()
    });
    let said = asked.wait_with_output().unwrap();
    writer.join().unwrap();
    let said = String::from_utf8(said.stdout).unwrap();
    said.split_terminator('\0').map(|path| path[2..].to_owned()).collect()
}

/// What we leave out; directories are judged from the top, as the walk does.
fn ours(filter: &Filter, paths: &[(String, bool)]) -> BTreeSet<String> {
    let is_out = |(path, is_dir): &&(String, bool)| {
        let mut parent = filter.root();
        let ends = path.match_indices('/').map(|(at, _)| (at, true));
        for (end, is_dir) in ends.chain([(path.len(), *is_dir)]) {
            parent = filter.judge(&path.as_bytes()[..end], is_dir, parent);
            if parent == Inclusion::Out {
                return true;
            }
        }
        false
    };
    paths.iter().filter(is_out).map(|(path, _)| path.clone()).collect()
}

/// Whether git 2.52 and older do other than gitignore(5) says: they compare what has no wildcard by itself and
/// take the `**` behind it for one that begins a component, so that `a**/b` matches `ab`.
fn is_misread(pattern: &str) -> bool {
    let glob = pattern.strip_prefix('!').unwrap_or(pattern);
    let literal = glob.find(['*', '?', '[', '\\']).unwrap_or(glob.len());
    glob[literal..].starts_with("**")
        && !matches!(glob[..literal].chars().next_back(), None | Some('/'))
}

/// Patterns that a file cannot hold as they are: it has comments, and its lines lose spaces at their ends.
fn is_of_a_file(pattern: &str) -> bool {
    !pattern.starts_with('#') && !pattern.ends_with([' ', '\t'])
}

fn patterns() -> impl Strategy<Value = Vec<String>> {
    let inside = prop::sample::select(vec![
        "a",
        "b",
        "1",
        "-",
        "]",
        "[",
        "^",
        "!",
        "\\",
        "\\]",
        "\\-",
        "/",
        ":",
        " ",
        "a-b",
        "0-9",
        "[:alpha:]",
        "[:digit:]",
        "[:punct:]",
        "[:blank:]",
        "[:upper:]",
        "[:cntrl:]",
        "[:graph:]",
        "[:print:]",
        "[:space:]",
        "[:lower:]",
        "[:xdigit:]",
        "[:alnum:]",
        "[:a:]",
        "[:",
        ":]",
        "\u{e4}",
    ]);
    let class = vec(inside, 1..4).prop_map(|inside| format!("[{}]", inside.concat()));
    let plain = prop::sample::select(vec![
        "a", "b", "d", "1", "-", "]", "^", "!", ":", "{a,b}", " ", ".", "\\", "\\a", "\\*", "\\[",
        "\\!", "\\\\", "*", "*", "?", "**", "/", "/", "/", "a_", "\u{e4}",
    ]);
    let piece = prop_oneof![4 => plain.prop_map(str::to_owned), 1 => class];
    let pattern = (vec(piece, 1..6), any::<u8>()).prop_map(|(pieces, mark)| {
        let mark = if mark % 4 == 0 { "!" } else { "" };
        format!("{mark}{}", pieces.concat())
    });
    let pattern = pattern
        .prop_filter("git reads it in another way", |it| is_of_a_file(it) && !is_misread(it));
    vec(pattern, 1..6)
}

#[test]
fn the_same_files_are_left_out() {
    let Some((root, paths)) = tree() else { return };
    let mut runner =
        TestRunner::new(Config { cases: 400, failure_persistence: None, ..Config::default() });
    let decided = std::cell::Cell::new(0);
    let tried = runner.run(&patterns(), |patterns| {
        let exclude = |pattern: &String| Pattern::Exclude(pattern.clone());
        let theirs_of = |patterns: &[String]| theirs(root.path(), patterns, &paths);
        // What we refuse matches nothing, which git does not say.
        let (good, bad): (Vec<String>, Vec<String>) =
            patterns.into_iter().partition(|pattern| Filter::new(&[exclude(pattern)]).is_ok());
        for bad in bad {
            let positive = bad.strip_prefix('!').unwrap_or(&bad).to_owned();
            prop_assert_eq!(
                theirs_of(std::slice::from_ref(&positive)),
                BTreeSet::new(),
                "{:?}",
                positive
            );
        }
        let filter = Filter::new(&good.iter().map(exclude).collect::<Vec<_>>()).unwrap();
        let theirs = theirs_of(&good);
        decided.set(decided.get() + usize::from(!theirs.is_empty()));
        let ours = ours(&filter, &paths);
        let other: Vec<_> = ours.symmetric_difference(&theirs).collect();
        prop_assert!(other.is_empty(), "not as git has it: {:?} with {:?}", other, good);
        Ok(())
    });
    tried.unwrap_or_else(|error| panic!("{error}"));
    assert!(decided.get() > 100, "only {} of the cases leave anything out", decided.get());
}
