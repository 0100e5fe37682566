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
        // What pages name as disks are directories of the scene, on one device.
        let typed = here(command).replace(" --require-mount", "");
        let output = Command::new("bash")
            .args(["-c", &format!("exec 2>&1; {typed}")])
            .current_dir(scene.path("srv"))
            .env("PATH", &path)
            .env("XDG_CONFIG_HOME", scene.path("etc"))
            .env("LC_ALL", "C")
            .env("TZ", "UTC")
            .output()
            .unwrap();
        let said = String::from_utf8(output.stdout).unwrap();
        let said = match said.contains("; all on one device") {
            true => said
                .replace("; all on one device", "")
                .replace("read back from the disk", "read back from both disks"),
            false => said,
        };
        shown += &format!("$ {command}\n{}", without_root(&in_one_second(&said), root));
    }
    shown
}

/// What was said as it is where all outputs began in the same second, so that their manifests have one name.
fn in_one_second(said: &str) -> String {
    let is_of_one = |line: &str| line.starts_with("manifest  ");
    if said.lines().filter(|line| is_of_one(line)).count() < 2 {
        return said.to_owned();
    }
    let mut is_told = false;
    let lines = said.split_inclusive('\n').filter_map(|line| match is_of_one(line) {
        true if is_told => None,
        true => {
            is_told = true;
            let name = line.rsplit('/').next()?.trim_end();
            Some(format!("manifest    {name} at each output\n"))
        }
        false => Some(line.to_owned()),
    });
    lines.collect()
}

/// What was said as it is where the places are the machine's. The names of outputs are padded to the longest, up to a
/// width: how far depends on the length of the scene's path, so they are padded anew without it.
fn without_root(said: &str, root: &str) -> String {
    fn output(line: &str) -> Option<(&str, &str)> {
        let (name, rest) = line.strip_prefix("output      ")?.split_once("  ")?;
        Some((name, rest.trim_start()))
    }
    let said = said.replace(root, "");
    let width = said.lines().filter_map(output).map(|(name, _)| name.len()).max().unwrap_or(0);
    let lines = said.split_inclusive('\n').map(|line| match output(line) {
        Some((name, rest)) => format!("output      {name:<width$}  {rest}"),
        None => line.to_owned(),
    });
    lines.collect()
}

/// The text without what differs from run to run: times and rates, times in names, the order in which
/// files were finished, digests, and where the system had the bytes from.
fn lasting(text: &str) -> Vec<String> {
    let timed = |line: &&str| {
        let rows = ["time ", "busy ", "waiting ", "slowest "];
        rows.iter().any(|row| line.starts_with(row))
    };
    let lines = text.lines().filter(|line| !timed(line));
    let lines = lines.map(|line| {
        // That depends on the disk that holds the build.
        let line = line.split("durable: ").next().unwrap_or_default();
        let proof = ["; read back", "from the device", "through a cache"];
        match proof.iter().find_map(|words| line.find(words)) {
            Some(at) if line.starts_with("output ") => without_numbers(&line[..at]),
            Some(_) => line.split("  ").next().unwrap_or_default().to_owned(),
            None => without_numbers(line),
        }
    });
    lines.collect()
}

/// Whether it is the name of a generation, or the path of one.
fn is_generation(word: &str) -> bool {
    let name = word.trim_end_matches(':').rsplit('/').next().unwrap_or_default();
    name.len() == "2026-11-21T020000Z".len() && name.ends_with('Z')
}

/// The line without numbers of lines, seconds, rates, digests, and the times in names.
fn without_numbers(line: &str) -> String {
    let words: Vec<_> = line.split(' ').collect();
    let varies = |(at, word): (usize, &&str)| {
        let next = words.get(at + 1).map_or("", |word| word.trim_end_matches([',', ';']));
        let before = at.checked_sub(1).map_or("", |at| words[at]);
        let is_digest = word.len() == 64 && word.bytes().all(|b| b.is_ascii_hexdigit());
        let is_measured = next == "s" || next.ends_with("/s") || word.ends_with("/s;");
        // Parity names its files by digests, and what these add to its size varies.
        let is_of_parity = before == "made:";
        before.ends_with("line")
            || is_digest
            || is_measured
            || is_of_parity
            || word.contains("dircopy-") && word.contains('Z')
            || word.ends_with("Z.mhl")
            || is_generation(word)
    };
    let words = words.iter().enumerate().map(|word| if varies(word) { "…" } else { word.1 });
    words.collect::<Vec<_>>().join(" ")
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
            // As above: what it names as a disk is none.
            let is_here = |line: &&str| !line.starts_with("require-mount");
            let file = file.split_inclusive('\n').filter(is_here).collect::<String>();
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

/// What stands between single backticks, and not in a block.
fn quoted(text: &str) -> impl Iterator<Item = &str> {
    let lines = text.lines().filter(|line| !line.starts_with("    ") && !line.starts_with("```"));
    lines.flat_map(|line| line.split('`').skip(1).step_by(2))
}

/// The source of the program, with strings that go on in the next line joined.
fn source() -> String {
    fn visit(dir: &Path, text: &mut String) {
        for entry in fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            match path.is_dir() {
                true => visit(&path, text),
                false => *text += &fs::read_to_string(path).unwrap(),
            }
        }
    }
    let mut text = String::new();
    visit(&repository().join("src"), &mut text);
    let mut lines = text.split("\\\n");
    let first = lines.next().unwrap().to_owned();
    lines.fold(first, |text, line| text + line.trim_start())
}

#[test]
fn files_that_pages_name_are_there() {
    let mut missing = Vec::new();
    // What the crate is packed without (`exclude` in Cargo.toml).
    let is_packed = !repository().join(".ci").exists();
    let is_left_out =
        |name: &str| is_packed && [".ci/", "tests/broken/"].iter().any(|dir| name.starts_with(dir));
    for page in pages() {
        let text = fs::read_to_string(repository().join(&page)).unwrap();
        let names = quoted(&text).filter(|name| {
            let is_file = [".rs", ".sh", ".md", ".toml"].iter().any(|end| name.ends_with(end));
            is_file
                && name.contains('/')
                && !name.contains([' ', '*', '$'])
                && !name.starts_with('/')
        });
        let places = ["", "src", "docs", "tests/it"].map(|dir| repository().join(dir));
        let names = names.filter(|name| !is_left_out(name));
        let absent = names.filter(|name| !places.iter().any(|place| place.join(name).exists()));
        missing.extend(absent.map(|name| format!("{}: {name}", page.display())));
    }
    assert!(missing.is_empty(), "{missing:#?}");
}

#[test]
fn tuned_constants_are_where_the_page_says() {
    let page = fs::read_to_string(repository().join("docs/design/constants.md")).unwrap();
    let rows: Vec<_> = page.lines().filter(|line| line.starts_with("| `")).collect();
    assert!(rows.len() > 30, "{page}");
    for row in rows {
        let cells: Vec<_> = row.split('|').collect();
        let files = quoted(cells[3]).map(|file| repository().join("src").join(file));
        let code: String = files.map(|file| fs::read_to_string(file).unwrap()).collect();
        for name in quoted(cells[1]) {
            let found =
                ["const", "static"].iter().any(|kind| code.contains(&format!("{kind} {name}: ")));
            assert!(found, "no {name} there: {row}");
        }
    }
}

/// Every message of the page is in the source, and every deed of the source that can fail is on the page.
#[test]
fn messages_are_those_of_the_program() {
    let page = fs::read_to_string(repository().join("docs/messages.md")).unwrap();
    let source = source();
    let mut wrong = BTreeSet::new();
    let rows = page.lines().filter(|line| line.starts_with("| `"));
    for message in rows.filter_map(|row| row.split('|').nth(1)).flat_map(quoted) {
        let pieces = message.trim_start_matches("cannot ").split('…');
        let pieces = pieces.map(|piece| piece.trim_matches([' ', ':', ';', ',']));
        let unsaid = pieces.filter(|piece| !source.contains(&piece.replace('"', "\\\"")));
        wrong.extend(unsaid.map(|piece| format!("{piece:?} of {message:?} is not said")));
    }
    for call in ["Error::io(", "Error::finding(", ".deed(", ".deed_at("] {
        let deeds =
            source.split(call).skip(1).filter_map(|rest| rest.trim_start().strip_prefix('"'));
        let deeds = deeds.map(|rest| rest.split('"').next().unwrap());
        let unexplained = deeds.filter(|deed| !page.contains(&format!("`cannot {deed} …`")));
        wrong.extend(unexplained.map(|deed| format!("`cannot {deed} …` is not explained")));
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn the_first_pages_are_short() {
    for (page, most) in MOST_LINES {
        let lines = fs::read_to_string(repository().join(page)).unwrap().lines().count();
        assert!(lines <= most, "{page} has {lines} lines, more than {most}");
    }
}

/// `Cargo.toml` says which version it is, and `--locked` that `Cargo.lock` does.
#[test]
fn the_version_is_the_same_everywhere() {
    let version = env!("CARGO_PKG_VERSION");
    let read = |name: &str| fs::read_to_string(repository().join(name));
    let debian = read("contrib/debian/changelog").unwrap();
    assert!(debian.starts_with(&format!("dircopy ({version}-")), "{}", &debian[..40]);
    // A package comes without it.
    if let Ok(lock) = read("fuzz/Cargo.lock") {
        assert!(lock.contains(&format!("name = \"dircopy\"\nversion = \"{version}\"\n")));
    }
    // What is new is told as of this version, or of the next. A release takes its notes from there.
    let changes = read("CHANGELOG.md").unwrap();
    let newest = changes.lines().find(|line| line.starts_with("## ")).unwrap();
    let is_release = newest.starts_with(&format!("## {version} (")) && newest.ends_with(')');
    assert!(newest == "## Unreleased" || is_release, "{newest}");
}
