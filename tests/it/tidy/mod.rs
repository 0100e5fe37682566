//! The house rules, held by reading the source: what the architecture says is absent is absent.
//!
//! A rule that only a document holds is broken within a month. Comments, strings and test modules
//! are masked out first, so a rule speaks of the code alone.

mod shape;
mod source;
mod structure;

use source::{Source, mask, named_after, sources, without_tests};

/// The rooms, lowest floor first. A room names only rooms on lower floors; the ground floor's rooms
/// are free among themselves.
const FLOORS: &[&[&str]] = &[
    &["error", "path", "sys", "hash"],
    &["staged"],
    &["event", "manifest", "chain"],
    &["state"],
    &["volume"],
    &["tree"],
    &["io", "parity"],
    &["part"],
    &["fanout"],
    &["transfer"],
    &["pipeline"],
    &["copy", "stream", "verify"],
    &["heal", "cluster", "catalog", "span"],
    &["cli"],
    &["bin"],
];

/// Longer than this, a file wants a second room.
const MOST_LINES: usize = 600;

/// Two files side by side fit on a usual screen.
const WIDEST_PROSE: usize = 120;

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

/// The formatter wraps code, not prose.
#[test]
fn prose_is_wrapped() {
    let mut wide = Vec::new();
    for source in sources() {
        for (at, line) in source.text.lines().enumerate() {
            if line.trim_start().starts_with("//") && line.chars().count() > WIDEST_PROSE {
                wide.push(source.fault(at, "too wide"));
            }
        }
    }
    hold(&format!("comments have at most {WIDEST_PROSE} characters a line"), &wide);
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

/// The loops of the standard library make an interrupted call again for ever, and then no request to stop is seen.
#[test]
fn interrupted_calls_are_not_made_again_for_ever() {
    // Methods of our own of that name.
    let own = ["pages.write_all(", "end.write_all(", "self.write_all(", "records.write_all("];
    let mut writing = Vec::new();
    for source in sources().iter().filter(|source| !source.is_below(&["sys"])) {
        // What goes through a buffer is bounded behind that: see below.
        let is_buffered = source.code.contains("BufWriter");
        let bad =
            |line: &str| line.contains(".write_all(") && !own.iter().any(|own| line.contains(own));
        let lines = source.code.lines().enumerate().filter(|(_, line)| !is_buffered && bad(line));
        writing.extend(lines.map(|(i, _)| source.fault(i, ".write_all")));
    }
    hold("sys::write_all writes", &writing);
    let loops = [
        ".read_to_end(",
        ".read_to_string(",
        ".read_exact(",
        ".read_until(",
        "io::copy(",
        "BufReader::",
        "BufWriter::",
    ];
    let bounded = ["Uninterrupted", "FileRange", "StoppableReader"];
    let unbounded = |source: &Source| {
        !source.is_below(&["sys"]) && !bounded.iter().any(|it| source.code.contains(it))
    };
    hold("Uninterrupted reads and writes", &occurrences(&loops, unbounded));
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
                let free = floor(named) == Some(0) && own == 0;
                let below = floor(named).is_some_and(|floor| floor < own);
                if floor(named).is_some() && named != source.room() && !free && !below {
                    faults.push(source.fault(line, &format!("names {named}")));
                }
            }
        }
    }
    hold("a room names only rooms on lower floors", &faults);
}

#[test]
fn the_programs_are_a_few_lines_each() {
    let long = sources().into_iter().filter(|s| s.room() == "bin");
    let long = long.filter(|s| s.code.lines().filter(|l| !l.trim().is_empty()).count() > 12);
    hold("main does nothing itself", &long.map(|s| s.fault(0, "too long")).collect::<Vec<_>>());
}

#[test]
fn types_leave_the_names_of_the_prelude_alone() {
    hold("the prelude's names are taken", &structure::names_of_the_prelude(&sources()));
}

#[test]
fn modules_are_public_for_a_reason() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut outside = String::new();
    for folder in [
        "tests",
        "tests/it",
        "tests/it/harness",
        "benches",
        "examples",
        "fuzz/fuzz_targets",
        "src/bin",
    ] {
        // A package may come without some of them.
        for entry in std::fs::read_dir(root.join(folder)).into_iter().flatten() {
            let path = entry.unwrap().path();
            if path.extension().is_some_and(|it| it == "rs") {
                outside.push_str(&std::fs::read_to_string(path).unwrap());
            }
        }
    }
    hold("private unless named from outside", &structure::needlessly_public(&sources(), &outside));
}

#[test]
fn functions_are_short_and_shallow() {
    hold("one function, one thought", &shape::long_functions(&sources()));
    hold("a branch in a branch in a branch", &shape::deep_functions(&sources()));
}

#[test]
fn parameters_are_not_packed_into_tuples() {
    hold("each parameter has a name", &shape::tuple_parameters(&sources()));
}

/// What only one kind of processor has is in files that are compiled for that alone: otherwise nothing builds elsewhere.
#[test]
fn instructions_of_one_processor_are_apart() {
    let apart = ["hash/multibuffer/x86.rs", "sys/processor.rs"];
    let others = |s: &Source| !apart.iter().any(|it| s.name.starts_with(it));
    let found = occurrences(&["is_x86_feature_detected", "arch::x86_64"], others);
    hold("only where it is compiled for x86-64 alone", &found);
}
