//! The report that people read: judged by an HTML parser that is not ours, its figures held against the receipt.

use std::fs;
use std::process::Command;

use serde_json::Value;

use crate::harness::{Mount, Need, Scene, Strace, content, have, need, shell};

/// Reads a page as Python's parser does. Prints JSON: the text, every tag, the attributes, and what is not closed.
const PARSER: &str = r#"
import html.parser, json, sys
VOID = {"meta", "br", "hr", "img", "link", "input"}
class Page(html.parser.HTMLParser):
    def __init__(self):
        super().__init__()
        self.text, self.tags, self.values, self.open, self.wrong, self.style = [], set(), [], [], [], False
        self.cells, self.cell = [], None
    def handle_starttag(self, tag, attributes):
        self.tags.add(tag)
        self.values += [[tag, name, value] for name, value in attributes]
        if tag not in VOID: self.open.append(tag)
        if tag in ("td", "dd"): self.cell = ""
    def handle_endtag(self, tag):
        if not self.open or self.open.pop() != tag: self.wrong.append(tag)
        if tag in ("td", "dd"): self.cells.append(self.cell); self.cell = None
    def handle_data(self, data):
        if "style" in self.open: return
        self.text.append(data)
        if self.cell is not None: self.cell += data
page = Page()
page.feed(open(sys.argv[1], encoding="utf-8").read())
page.close()
print(json.dumps({"text": "".join(page.text), "tags": sorted(page.tags), "values": page.values,
                  "cells": page.cells, "wrong": page.wrong + page.open}))
"#;

/// The page, parsed; it is whole, and has nothing that loads, runs or sends anything.
#[track_caller]
fn parsed(scene: &Scene, name: &str) -> Value {
    let output =
        Command::new("python3").args(["-c", PARSER]).arg(scene.path(name)).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let page: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(page["wrong"], Value::Array(Vec::new()), "tags that do not match");
    let tags = page["tags"].as_array().unwrap();
    for foreign in ["script", "link", "img", "iframe", "object", "form", "a", "b"] {
        assert!(!tags.contains(&foreign.into()), "a page has no {foreign}: {tags:?}");
    }
    for value in page["values"].as_array().unwrap() {
        let (name, value) = (value[1].as_str().unwrap(), value[2].as_str().unwrap_or_default());
        assert!(!name.starts_with("on") && !["src", "href", "style"].contains(&name), "{name}");
        assert!(!value.contains("//"), "{name}={value}");
    }
    page
}

fn cells(page: &Value) -> Vec<&str> {
    page["cells"].as_array().unwrap().iter().map(|cell| cell.as_str().unwrap()).collect()
}

#[test]
fn a_page_has_the_figures_of_its_receipt() {
    if !have(&[Need::Program("python3")]) {
        return;
    }
    let scene = Scene::new();
    scene.src.file("a", content(100)).file("dir/b", content(3_000_000)).fifo("pipe");
    scene.copy(&["--report", "r.json", "--verify"]).assert_code(0);
    scene.bare(["report", "r.json", "-o", "r.html"]).run().assert_code(0);
    let receipt: Value = serde_json::from_slice(&fs::read(scene.path("r.json")).unwrap()).unwrap();
    let page = parsed(&scene, "r.html");
    let (text, cells) = (page["text"].as_str().unwrap(), cells(&page));
    let output = &receipt["outputs"][0];
    let digest = output["manifest"]["sha256"].as_str().unwrap();
    let path = output["manifest"]["path"].as_str().unwrap();
    for cell in
        [digest, path, "2.86 MiB", "pipe: a FIFO", "a", "dir/b", receipt["host"].as_str().unwrap()]
    {
        assert!(cells.contains(&cell), "no {cell:?} in {cells:?}");
    }
    // Each file with its digest, as the manifest has it.
    for line in fs::read_to_string(path).unwrap().lines() {
        assert!(cells.contains(&&line[..64]), "{line}: {cells:?}");
    }
    let bytes = output["counts"]["bytes"].as_u64().unwrap();
    assert!(page["values"].to_string().contains(&format!("{} bytes", spaced(bytes))), "{page:#}");
    let file_system = output["volume"]["file_system"].as_str().unwrap();
    assert!(cells.contains(&file_system) && text.contains("not known"), "{text}");
    assert!(text.contains("Complete") && text.contains("Exit code 0 (complete)"), "{text}");
    // A run makes the same page by itself.
    let scene = Scene::new();
    scene.src.file("a", content(100));
    scene.copy(&["--report", "own.html"]).assert_code(0);
    let page = parsed(&scene, "own.html");
    assert!(self::cells(&page).contains(&"a"), "{page:#}");
    assert!(!scene.path("own.html").with_extension("json").exists());
    // Of a stream every digest.
    let hash = "--hash=sha256,sha512,md5,xxh3";
    let args = ["-i", "src/a", "-i", "src/a", "-o", "stream", hash, "--report=stream.html"];
    scene.bare(args).run().assert_code(0);
    let page = parsed(&scene, "stream.html");
    for program in ["sha256sum", "sha512sum", "md5sum"] {
        let digest = shell(&scene, &format!("cat src/a src/a | {program}"));
        assert!(self::cells(&page).contains(&digest.split(' ').next().unwrap()), "{page:#}");
    }
}

/// A check has the directories in its title, and both digests of a file that differs.
#[test]
fn a_page_of_a_check_says_of_what_and_what_was_found() {
    if !have(&[Need::Program("python3")]) {
        return;
    }
    let scene = Scene::new();
    scene.src.file("a", content(100)).file("b", content(200));
    scene.copy(&[]).assert_code(0);
    scene.output().append("a", b"x");
    let args = ["verify", scene.dst.to_str().unwrap(), "--report", "v.html", "--report", "v.json"];
    scene.bare(args).run().assert_code(4);
    let text = parsed(&scene, "v.html")["text"].as_str().unwrap().to_owned();
    let name = scene.dst.file_name().unwrap().to_str().unwrap();
    assert!(text.contains(&format!("Not as it should be: check of {name}")), "{text}");
    assert_eq!(text.matches("B/s").count(), 1, "{text}");
    let receipt: Value = serde_json::from_slice(&fs::read(scene.path("v.json")).unwrap()).unwrap();
    assert_eq!(receipt["directories"][0]["path"], scene.dst.to_str().unwrap());
    for (place, key) in [(scene.src.root().to_owned(), "listed"), (scene.dst.clone(), "found")] {
        let digest = shell(&scene, &format!("sha256sum <{}/a", place.display()));
        let digest = digest.split(' ').next().unwrap();
        assert!(text.contains(&format!("{key} sha256:{digest}")), "{key} {digest}: {text}");
        assert_eq!(receipt["entries"][0][key], format!("sha256:{digest}"));
    }
}

/// The answer to whether a card may be erased: of a place as the screen has it, and never more than the receipt proves.
#[test]
fn a_page_says_whether_a_card_may_be_erased() {
    need!(Root, Mount);
    if !have(&[Need::Program("python3")]) {
        return;
    }
    Mount::privately();
    let scene = Scene::new();
    let mount = |name: &str| {
        fs::create_dir_all(scene.path(name)).unwrap();
        Mount::tmpfs(&scene.path(name), "16m")
    };
    let _mounts = ["src", "a", "b"].map(mount);
    scene.src.file("x", "one").file("y", "two");
    scene.bare(["-q", "src", "a", "b"]).run().assert_code(0);
    let args = ["covered", "src", "a", "b", "--count-memory", "--report", "c.html"];
    let args = [&args[..], &["--report", "c.json"]].concat();
    scene.bare(&args).run().assert_code(0);
    let page = parsed(&scene, "c.html");
    let (text, cells) = (page["text"].as_str().unwrap(), cells(&page));
    assert!(text.contains("May be erased: src"), "{text}");
    let proven = |cell: &&str| cell.starts_with("recorded and untouched; durable: unknown");
    assert!(cells.iter().any(proven) && cells.contains(&"2 files"), "{cells:?}");
    // One that says so of fewer files is no yes.
    shell(&scene, r#"sed -i 's/"covered": 2/"covered": 1/' c.json"#);
    scene.bare(["report", "c.json", "-o", "c.html"]).run().assert_code(0);
    let text = parsed(&scene, "c.html")["text"].as_str().unwrap().to_owned();
    assert!(text.contains("Not clear: src") && !text.contains("May be erased"), "{text}");
    scene.src.file("<b>z", "three");
    scene.bare(&args).run().assert_code(4);
    let page = parsed(&scene, "c.html");
    let (text, cells) = (page["text"].as_str().unwrap(), self::cells(&page));
    assert!(text.contains("Not to be erased: src"), "{text}");
    assert!(
        cells.iter().any(|cell| cell.contains("<b>z: at 0 of 2 places: not at a")),
        "{cells:?}"
    );
}

/// One output of two is refused: the page says what the last line on the screen says.
/// Its times are those of the reader's clock, for which no more is read than that zone.
#[test]
fn a_page_looks_for_no_zone_but_its_own() {
    need!(Strace);
    let scene = Scene::new();
    scene.src.file("a", "one");
    scene.copy(&["--report", "r.json"]).assert_code(0);
    let strace = Strace::inject(&scene, "close", "error=EIO").exactly_on("/usr/share/zoneinfo");
    strace.run(scene.bare(["report", "r.json", "-o", "r.html"])).assert_code(0);
    assert!(shell(&scene, "grep -c ' +05:30' r.html").trim() != "0");
}

#[test]
fn a_page_says_which_outputs_are_complete() {
    if !have(&[Need::Program("python3")]) {
        return;
    }
    let scene = Scene::new();
    scene.src.file("a", content(100)).file("dir/b", content(3_000_000));
    let args = ["-i", "src", "-o", "nowhere/o", "-o", "dst", "--report", "r.html"];
    scene.bare(args).run().assert_code(1).assert_prints(&["1 OF 2 OUTPUTS COMPLETE"]);
    let page = parsed(&scene, "r.html");
    let (text, cells) = (page["text"].as_str().unwrap(), cells(&page));
    assert!(text.contains("1 of 2 outputs complete"), "{text}");
    assert!(!text.contains("Some entries failed") && !text.contains("None."), "{text}");
    assert!(cells.contains(&"refused") && cells.contains(&"nowhere/o"), "{cells:?}");
    assert!(text.matches("the directory nowhere does not exist").count() > 1, "{text}");
    // The files are those of the output that has them.
    assert!(cells.contains(&"dir/b"), "{cells:?}");
    // A history names where a run went, and small screens have the names of the columns.
    scene.bare(["src", "dst", "--report", "r.json"]).run().assert_code(0);
    fs::copy(scene.path("r.json"), scene.path("again.json")).unwrap();
    scene.bare(["report", "r.json", "again.json", "-o", "h.html"]).run().assert_code(0);
    let page = parsed(&scene, "h.html");
    assert!(self::cells(&page).iter().any(|cell| cell.contains("to dst")), "{page:#}");
    assert!(page["values"].to_string().contains(r#""data-label","Time""#), "{page:#}");
}

fn spaced(number: u64) -> String {
    let digits = number.to_string();
    let groups: Vec<_> = digits.as_bytes().rchunks(3).rev().collect();
    groups.iter().map(|g| std::str::from_utf8(g).unwrap()).collect::<Vec<_>>().join("\u{202f}")
}

/// Names are the only part of a page that others than its reader choose.
#[test]
fn hostile_names_are_text() {
    if !have(&[Need::Program("python3")]) {
        return;
    }
    let scene = Scene::new();
    let long = "x".repeat(255);
    let names: [&[u8]; 5] = [
        b"<script>alert(1)<!--",
        b"\"onload=x ' &lt;b>",
        "\u{202e}gpj.exe \u{5e9}\u{5dc}\u{5d5}\u{5dd}".as_bytes(),
        b"\xff\x1b[31m\n",
        long.as_bytes(),
    ];
    for name in names {
        scene.src.file(name, "x");
    }
    scene.copy(&["--report", "r.json"]).assert_code(0);
    scene.bare(["report", "r.json", "-o", "r.html"]).run().assert_code(0);
    let raw = fs::read_to_string(scene.path("r.html")).unwrap();
    assert!(!raw.contains(['\u{1b}', '\u{202e}']) && !raw.contains("<script"));
    let page = parsed(&scene, "r.html");
    let cells = cells(&page);
    for shown in ["<script>alert(1)<!--", "&lt;b>", "gpj.exe \u{5e9}", "\\xff", &long] {
        assert!(cells.iter().any(|cell| cell.contains(shown)), "no {shown:?} in {cells:?}");
    }
    // Right to left stays within the name.
    assert!(page["tags"].as_array().unwrap().contains(&"bdi".into()));
}

/// What a receipt says is data: one of a stranger gives a page that is as harmless.
#[test]
fn hostile_receipts_are_data() {
    if !have(&[Need::Program("python3")]) {
        return;
    }
    let scene = Scene::new();
    let evil = "</style></title><script>x</script><a href=http://x>\u{202e}";
    let receipt = serde_json::json!({
        "format": "dircopy-report", "version": 2, "kind": "copy", "ending": "complete", "exit_code": 1,
        "host": evil, "started": evil, "ended": evil, "program_version": evil,
        "elapsed_seconds": 1e308, "command": vec![evil; 10_000], "source": {"path": evil},
        "outputs": vec![serde_json::json!({
            "path": evil, "path_bytes": "zz", "ending": evil,
            "counts": {"copied": u64::MAX, "replaced": u64::MAX, "bytes": u64::MAX, "failed": u64::MAX, "left": 1},
            "volume": {"label": evil, "size_bytes": u64::MAX},
            "manifest": {"path": "/etc/passwd", "finished": true, "sha256": evil},
        }); 200],
        "samples": vec![serde_json::json!({"seconds": 1e300, "bytes": [u64::MAX], "limited_by": [evil]}); 2000],
        "entries": vec![serde_json::json!({"event": evil, "path": evil, "text": evil}); 20_000],
    });
    fs::write(scene.path("evil.json"), receipt.to_string()).unwrap();
    let run = scene.bare(["report", "evil.json", "-o", "evil.html"]).run();
    run.assert_code(0).assert_no_crash();
    let page = parsed(&scene, "evil.html");
    let text = page["text"].as_str().unwrap();
    assert!(text.contains("Not clear") && !text.contains("root:"), "{text}");
    assert!(fs::metadata(scene.path("evil.html")).unwrap().len() < 2_000_000);
}

#[test]
fn several_receipts_are_a_history() {
    if !have(&[Need::Program("python3")]) {
        return;
    }
    let scene = Scene::new();
    scene.src.file("a", content(100)).file("b", content(2000));
    scene.copy(&["--report", "1.json"]).assert_code(0);
    scene.copy(&["--report", "2.json"]).assert_code(0);
    fs::write(scene.dst.join("b"), content(1999)).unwrap();
    let verify = ["verify", scene.dst.to_str().unwrap(), "--report", "3.json"];
    scene.bare(verify).run().assert_code(4);
    scene.bare(["report", "3.json", "1.json", "2.json", "-o", "all.html"]).run().assert_code(0);
    let page = parsed(&scene, "all.html");
    let text = page["text"].as_str().unwrap();
    assert!(text.contains("3 runs from") && text.contains("1 not good"), "{text}");
    assert_eq!(page["values"].to_string().matches("\"rect\",\"class\",\"good\"").count(), 4);
    // One that cannot be read is named, and the page says that it is missing.
    fs::write(scene.path("broken.json"), "{").unwrap();
    let run = scene.bare(["report", "1.json", "broken.json", "-o", "some.html"]).run();
    run.assert_code(1).assert_says("broken.json");
    let page = parsed(&scene, "some.html");
    assert!(page["text"].as_str().unwrap().contains("could not be read"));
}

/// A page takes the place of nothing but a page.
#[test]
fn a_page_replaces_only_a_page() {
    let scene = Scene::new();
    scene.src.file("a", "x");
    scene.copy(&["--report", "r.json"]).assert_code(0);
    fs::write(scene.path("mine.html"), "<p>mine").unwrap();
    for output in ["mine.html", "r.json", "nowhere/r.html"] {
        scene.bare(["report", "r.json", "-o", output]).run().assert_code(2).assert_says(output);
    }
    scene.copy(&["--report", "mine.html"]).assert_code(2).assert_says("mine.html");
    assert_eq!(fs::read(scene.path("mine.html")).unwrap(), b"<p>mine");
    // A name for the source's own file.
    let inside = scene.src.root().join("r.html");
    fs::write(&inside, "<p>data").unwrap();
    scene.bare(["report", "r.json", "-o", inside.to_str().unwrap()]).run().assert_code(2);
    assert_eq!(fs::read(&inside).unwrap(), b"<p>data");
    for _ in 0..2 {
        scene.bare(["report", "r.json", "-o", "page.html"]).run().assert_code(0);
    }
    scene.bare(["report", "none.json", "-o", "page.html"]).run().assert_code(2);
}

/// What is asked first stands first: which card went to which disks, and whether they were read back.
#[test]
fn the_page_begins_with_what_was_copied_and_proven() {
    if !have(&[Need::Program("python3")]) {
        return;
    }
    let scene = Scene::new();
    for name in ["z", "b", "a/b", "a-1"] {
        scene.src.file(name, content(100));
    }
    let both = ["--report", "r.html", "--report", "r.json", "--verify", "--format", "mhl"];
    scene.bare(["src", "dst", "second"].iter().chain(&both)).run().assert_code(0);
    // One for programs, and a page of the same run.
    let json: serde_json::Value =
        serde_json::from_slice(&fs::read(scene.path("r.json")).unwrap()).unwrap();
    assert_eq!(json["exit_code"], 0);
    let page = parsed(&scene, "r.html");
    let text = page["text"].as_str().unwrap();
    let at = |what: &str| text.find(what).unwrap_or_else(|| panic!("no {what:?} in {text}"));
    at("Complete: src to dst, second");
    assert!(at("Read back:") < at("From and to"));
    at(".mhl");
    let files = ["a-1", "a/b", "b", "z"];
    let cells = cells(&page);
    let shown: Vec<&str> = cells.iter().copied().filter(|cell| files.contains(cell)).collect();
    assert_eq!(shown, files);
    let run = scene.bare(["src", "dst", "--report", "a.json", "--report", "b.json"]).run();
    run.assert_code(2).assert_says("one report for programs and one page");
}

/// A check of two disks says which is which, what mends them, and the verdict on each; a delivery what was expected.
#[test]
fn a_page_of_two_disks_says_what_mends_them() {
    if !have(&[Need::Program("python3")]) {
        return;
    }
    let scene = Scene::new();
    scene.src.file("a", content(100)).file("b", content(200));
    scene.bare(["src", "d1/A", "d2/A"]).after("mkdir d1 d2").run().assert_code(0);
    shell(&scene, "printf rot | dd of=d2/A/a conv=notrunc status=none");
    scene.bare(["verify", "d1/A", "d2/A", "--report", "c.html"]).run().assert_code(4);
    let page = parsed(&scene, "c.html");
    let text = page["text"].as_str().unwrap();
    assert!(text.contains("check of d1/A, d2/A"), "{text}");
    let cells = cells(&page);
    for cell in [
        "1 bad file: dircopy heal d1/A d2/A",
        "good: every file as listed",
        "NOT good: 1 good, 1 differing",
    ] {
        assert!(cells.contains(&cell), "{cell}: {cells:?}");
    }
    scene.bare(["heal", "d1/A", "d2/A", "--report", "h.html"]).run().assert_code(0);
    let page = parsed(&scene, "h.html");
    let text = page["text"].as_str().unwrap();
    assert!(text.contains("heal of d1/A, d2/A") && text.contains("or was made so"), "{text}");
    assert!(self::cells(&page).contains(&"1 file of these"), "{text}");
    shell(&scene, "cd src && md5sum a b >sums.md5 && rm b");
    scene
        .bare(["src", "in", "--expect", "src/sums.md5", "--report", "e.html"])
        .run()
        .assert_code(0);
    let page = parsed(&scene, "e.html");
    let text = page["text"].as_str().unwrap();
    assert!(text.contains("Expected1 file as listed, 0 edited since, 1 gone"), "{text}");
}

/// A night without a run is a gap, and a refused one says why.
#[test]
fn a_missed_night_is_a_gap() {
    if !have(&[Need::Program("python3")]) {
        return;
    }
    let scene = Scene::new();
    scene.src.file("a", content(100));
    scene.copy(&["--report", "1.json"]).assert_code(0);
    let run = scene.bare(["src", "no/such", "--report", "refused.json"]).run();
    run.assert_code(2);
    let dated = |from: &str, day: u32| {
        let mut json: serde_json::Value =
            serde_json::from_slice(&fs::read(scene.path(from)).unwrap()).unwrap();
        json["started"] = format!("2026-11-{day:02}T02:00:00Z").into();
        fs::write(scene.path(&format!("{day}.json")), json.to_string()).unwrap();
    };
    for day in [1, 2, 4] {
        dated("1.json", day);
    }
    dated("refused.json", 5);
    let all = ["report", "1.json", "2.json", "4.json", "5.json", "-o", "all.html"];
    scene.bare(all).run().assert_code(0);
    let html = fs::read_to_string(scene.path("all.html")).unwrap();
    let bars = html.split("<rect class=\"").skip(1).take(4);
    let places: Vec<f64> = bars
        .map(|bar| bar.split(" x=\"").nth(1).unwrap().split('"').next().unwrap().parse().unwrap())
        .collect();
    let gaps: Vec<f64> = places.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert!(gaps[1] > 1.9 * gaps[0] && gaps[2] < 1.1 * gaps[0], "{places:?}");
    let text = parsed(&scene, "all.html")["text"].as_str().unwrap().to_owned();
    assert!(text.contains("Refused: cannot copy to no/such"), "{text}");
    assert!(text.contains("2026-11-01"), "{text}");
    assert!(text.contains("1 run missing after 2026-11-02"), "{text}");
    // … and those since the newest, by the clock of the page.
    let since = std::time::UNIX_EPOCH.elapsed().unwrap().as_secs();
    let are_some = since > 1_794_268_800; // 2026-11-10
    assert_eq!(text.contains(" runs missing after 2026-11-05"), are_some, "{text}");
    assert!(
        text.contains("; one came every 24 h.")
            && html.contains("verdict bad\"><p class=\"title\">Runs are missing"),
        "{text}"
    );
}
