//! The README and the pages of `docs`: what they show is what the program says, and their links lead
//! somewhere.
//!
//! In a block marked `console`, a line that starts with `$ ` is a command and the lines below it are what
//! it printed. The blocks of a page are one session, run here in a directory of their own. A block marked
//! `toml` whose first line is `# /path` is the file at that path. `DIRCOPY_TEST_BLESS=1` writes what the
//! program prints now into the pages:
//!
//! ```text
//! DIRCOPY_TEST_BLESS=1 cargo test --test it -- readme::
//! ```

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::harness::{Scene, content};

/// Directories that pages name as if they were the machine's. They lie in the scene.
const PLACES: [&str; 4] = ["/srv/", "/mnt/", "/etc/", "/var/"];

/// More lines than this are not a first page, or not a map.
const MOST_LINES: [(&str, usize); 2] = [("README.md", 150), ("docs/architecture.md", 150)];

fn repository() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Every page that is written by hand, relative to the root of the repository.
fn pages() -> Vec<PathBuf> {
    let dirs = ["", "docs", "docs/guide", "docs/design", "contrib"];
    let entries = dirs.iter().flat_map(|dir| fs::read_dir(repository().join(dir)).unwrap());
    let mut pages: Vec<_> = entries
        .map(|entry| entry.unwrap().path().strip_prefix(repository()).unwrap().to_owned())
        .filter(|path| path.extension().is_some_and(|e| e == "md"))
        .collect();
    pages.sort();
    assert!(pages.iter().any(|page| page == Path::new("README.md")), "{pages:?}");
    pages
}

/// Where the text of each block with this mark starts, and the text: what is between the fences.
fn blocks<'a>(text: &'a str, mark: &str) -> Vec<(usize, &'a str)> {
    let fence = format!("```{mark}\n");
    let starts = text.match_indices(&fence).map(|(at, _)| at + fence.len());
    starts.map(|at| (at, &text[at..at + text[at..].find("```").unwrap()])).collect()
}

/// A source of a few files, large and small, all of which fit between two outputs (`--lag`).
fn scene() -> Scene {
    let scene = Scene::on_disk();
    let photos = scene.tree("srv/photos");
    photos
        .file("2025/harbour.jpg", content(1_400_000))
        .file("2025/snow.jpg", content(2_100_000))
        .file("2026/wedding.mov", content(24_000_000))
        .file("notes.txt", "The wedding is in 2026.\n");
    for dir in ["mnt", "var/lib/dircopy"] {
        fs::create_dir_all(scene.path(dir)).unwrap();
    }
    scene
}

/// Runs the commands of a block and returns the block as it is now. With `bless` each command has a second
/// of its own, so that names with a time in them look as they do when a person types.
fn replay(scene: &Scene, block: &str, bless: bool) -> String {
    let root = scene.root().to_str().unwrap();
    let before = [' ', '"', '=', '(', '>'];
    let here = |command: &str| {
        let places = PLACES.iter().flat_map(|place| before.map(|c| format!("{c}{place}")));
        places.fold(command.to_owned(), |text, place| {
            text.replace(&place, &format!("{}{root}{}", &place[..1], &place[1..]))
        })
    };
    let bin = Path::new(env!("CARGO_BIN_EXE_dircopy")).parent().unwrap();
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap());
    let mut shown = String::new();
    for command in block.lines().filter_map(|line| line.strip_prefix("$ ")) {
        if bless {
            std::thread::sleep(Duration::from_secs(1));
        }
        let output = Command::new("bash")
            .args(["-c", &format!("exec 2>&1; {}", here(command))])
            .current_dir(scene.path("srv"))
            .env("PATH", &path)
            .env("XDG_CONFIG_HOME", scene.path("etc"))
            .env("LC_ALL", "C")
            .env("TZ", "UTC")
            .output()
            .unwrap();
        let said = String::from_utf8(output.stdout).unwrap();
        shown += &format!("$ {command}\n{}", said.replace(root, ""));
    }
    shown
}

/// The text without what differs from run to run: rows of times, times in names, the order in which
/// files were finished, and where the system had the bytes from.
fn lasting(text: &str) -> Vec<String> {
    let timed = |line: &&str| {
        ["time ", "busy ", "waiting ", "wait "].iter().any(|row| line.starts_with(row))
            || line.contains("bottleneck")
    };
    let lines = text.lines().filter(|line| !timed(line));
    let lines = lines.map(|line| match line {
        line if line.contains("from the device") => "from the device".to_owned(),
        line => without_times(line),
    });
    lines.collect()
}

/// The line without numbers of lines, digests, and the times in names.
fn without_times(line: &str) -> String {
    let words = line.split_inclusive(' ').scan(false, |after_line, word| {
        let number = std::mem::replace(after_line, word.ends_with("line "));
        let is_stamp = word.contains("dircopy-") && word.contains('Z');
        let is_digest =
            word.trim().len() == 64 && word.trim().bytes().all(|b| b.is_ascii_hexdigit());
        Some(if number || is_stamp || is_digest { "…" } else { word })
    });
    words.collect()
}

#[test]
fn pages_show_what_the_program_says() {
    let bless = std::env::var_os("DIRCOPY_TEST_BLESS").is_some_and(|v| v == "1");
    let mut wrong = Vec::new();
    for page in pages() {
        let text = fs::read_to_string(repository().join(&page)).unwrap();
        if blocks(&text, "console").is_empty() {
            continue;
        }
        let scene = scene();
        let root = scene.root().to_str().unwrap();
        for (_, file) in blocks(&text, "toml") {
            let named = file.lines().next().and_then(|line| line.strip_prefix("# /"));
            let Some(place) = named.map(|name| scene.path(name)) else { continue };
            fs::create_dir_all(place.parent().unwrap()).unwrap();
            fs::write(place, file.replace("\"/", &format!("\"{root}/"))).unwrap();
        }
        let mut now = text.clone();
        for (at, block) in blocks(&text, "console") {
            let shown = replay(&scene, block, bless);
            if lasting(&shown) != lasting(block) {
                wrong.push(format!("{}:\n{block}\nis now:\n{shown}", page.display()));
                let at = at + now.len() - text.len();
                now.replace_range(at..at + block.len(), &shown);
            }
        }
        if bless {
            fs::write(repository().join(&page), now).unwrap();
        }
    }
    assert!(bless || wrong.is_empty(), "DIRCOPY_TEST_BLESS=1 mends it:\n{}", wrong.join("\n"));
}

/// The anchors of a page's headings, as GitHub makes them.
fn anchors(text: &str) -> BTreeSet<String> {
    let headings = text.lines().filter(|line| line.starts_with('#'));
    let anchor = |heading: &str| -> String {
        let words = heading.trim_start_matches('#').trim().to_lowercase();
        let kept = words.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
        kept.map(|c| if c == ' ' { '-' } else { c }).collect()
    };
    headings.map(anchor).collect()
}

#[test]
fn links_lead_somewhere() {
    let mut broken = Vec::new();
    for page in pages() {
        let text = fs::read_to_string(repository().join(&page)).unwrap();
        for (at, _) in text.match_indices("](") {
            let link = text[at + 2..].split([')', ' ']).next().unwrap();
            if link.contains("://") || link.is_empty() {
                continue;
            }
            let (file, anchor) = link.split_once('#').unwrap_or((link, ""));
            let target = match file {
                "" => repository().join(&page),
                file => repository().join(page.parent().unwrap()).join(file),
            };
            let leads = target.exists()
                && (anchor.is_empty()
                    || anchors(&fs::read_to_string(&target).unwrap()).contains(anchor));
            if !leads {
                broken.push(format!("{}: {link}", page.display()));
            }
        }
    }
    assert!(broken.is_empty(), "{broken:#?}");
}

#[test]
fn the_first_pages_are_short() {
    for (page, most) in MOST_LINES {
        let lines = fs::read_to_string(repository().join(page)).unwrap().lines().count();
        assert!(lines <= most, "{page} has {lines} lines, more than {most}");
    }
}
