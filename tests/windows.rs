//! What dircopy promises, tried from outside on Windows, or under Wine as far as that goes.
//!
//! `tests/it` judges with tools that Windows does not have and makes faults that it cannot make; what
//! is here is what is different on Windows, and the ordinary case. What only a Linux machine can judge
//! (`sha256sum` on a manifest made here, names that only Linux can make) is in `tests/wine.rs`.
//!
//! Tests that cannot run under Wine start with `not_under_wine!` and the reason. With `DIRCOPY_EXE`, the directory of the
//! programs, these tests run on a machine that has built nothing (`.ci/first-run`).

#![cfg(windows)]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // a test says what it expects

#[path = "it/harness/leftover.rs"]
mod leftover;

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File, OpenOptions};
use std::os::windows::ffi::{OsStrExt, OsStringExt};
use std::os::windows::fs::{FileTimesExt, MetadataExt, OpenOptionsExt};
use std::os::windows::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, SystemTime};

use tempfile::TempDir;

const EMPTY: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
const ABC: &str = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

/// Leaves a test that Wine (8.0) cannot run, saying why.
macro_rules! not_under_wine {
    ($reason:literal) => {
        if std::env::var_os("WINEPREFIX").is_some() {
            eprintln!("not under Wine: {}", $reason);
            return;
        }
    };
}

/// A program: the one that cargo built, or that lies where `DIRCOPY_EXE` says.
fn program(name: &str) -> PathBuf {
    match std::env::var_os("DIRCOPY_EXE") {
        Some(dir) => Path::new(&dir).join(name).with_extension("exe"),
        None if name == "dircopy" => env!("CARGO_BIN_EXE_dircopy").into(),
        None => env!("CARGO_BIN_EXE_dirverify").into(),
    }
}

struct Scene(TempDir);

impl Scene {
    fn new() -> Self {
        let scene = Self(tempfile::Builder::new().prefix("dircopy-").tempdir().unwrap());
        fs::create_dir(scene.src()).unwrap();
        scene
    }

    fn src(&self) -> PathBuf {
        self.0.path().join("src")
    }

    fn dst(&self) -> PathBuf {
        self.0.path().join("dst")
    }

    /// A file of the source; its directories are made as needed.
    fn file(&self, name: &str, content: impl AsRef<[u8]>) -> &Self {
        write(&self.src().join(name), content);
        self
    }

    fn copy(&self, args: &[&str]) -> Run {
        let (src, dst) = (self.src(), self.dst());
        let mut all = vec![OsStr::new("-i"), src.as_ref(), OsStr::new("-o"), dst.as_ref()];
        all.extend(args.iter().map(OsStr::new));
        self.run(program("dircopy"), all)
    }

    fn verify(&self, args: &[&str]) -> Run {
        self.run(program("dirverify"), args)
    }

    fn run(
        &self,
        program: impl AsRef<OsStr>,
        args: impl IntoIterator<Item = impl AsRef<OsStr>>,
    ) -> Run {
        let output = Command::new(program)
            .args(args)
            .current_dir(self.0.path())
            .stdin(Stdio::null())
            .output()
            .unwrap();
        Run::of(&output)
    }

    /// Everything that exit 0 promises.
    #[track_caller]
    fn complete(&self, run: &Run) {
        run.code(0);
        let (source, mut copy) = (tree(&self.src()), tree(&self.dst()));
        let manifests: Vec<String> =
            copy.keys().filter(|name| name.starts_with("dircopy-20")).cloned().collect();
        // A large file has a side file of states beside the list.
        let newest = manifests.iter().filter(|name| name.ends_with(".sha256sum")).max().unwrap();
        let list = String::from_utf8(copy[newest].clone().unwrap()).unwrap();
        manifests.iter().for_each(|name| drop(copy.remove(name)));
        assert_eq!(copy.keys().collect::<Vec<_>>(), source.keys().collect::<Vec<_>>());
        assert!(copy == source, "the bytes differ");
        assert!(!list.contains('\r') && !list.contains('\\') && list.ends_with('\n'), "{list}");
        let mut listed: Vec<&str> = list.lines().map(|line| &line[66..]).collect();
        listed.sort_unstable();
        let files = source.iter().filter(|(_, content)| content.is_some());
        assert_eq!(listed, files.map(|(name, _)| name.as_str()).collect::<Vec<_>>());
        for line in list.lines() {
            match source[&line[66..]].as_deref() {
                Some(b"") => assert_eq!(&line[..64], EMPTY),
                Some(b"abc") => assert_eq!(&line[..64], ABC),
                _ => {}
            }
        }
        self.verify(&["--complete", "dst"]).code(0);
    }
}

fn write(path: &Path, content: impl AsRef<[u8]>) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, content).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
}

fn content(len: usize) -> Vec<u8> {
    (0..len).map(|i| (i % 251) as u8).collect()
}

/// Every entry below `root` with `/` between names; directories have no content.
fn tree(root: &Path) -> BTreeMap<String, Option<Vec<u8>>> {
    fn visit(dir: &Path, above: &str, all: &mut BTreeMap<String, Option<Vec<u8>>>) {
        for entry in fs::read_dir(dir).unwrap() {
            let entry = entry.unwrap();
            let name = format!("{above}{}", entry.file_name().to_str().unwrap());
            if entry.file_type().unwrap().is_dir() {
                visit(&entry.path(), &format!("{name}/"), all);
                all.insert(name, None);
            } else {
                all.insert(name, Some(fs::read(entry.path()).unwrap()));
            }
        }
    }
    let mut all = BTreeMap::new();
    visit(root, "", &mut all);
    // What the program keeps for itself.
    all.retain(|name, _| name != ".dircopy" && !name.starts_with(".dircopy/"));
    all
}

#[derive(Debug)]
struct Run {
    code: Option<i32>,
    out: String,
    err: String,
}

impl Run {
    fn of(output: &Output) -> Self {
        let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
        Self { code: output.status.code(), out: text(&output.stdout), err: text(&output.stderr) }
    }

    #[track_caller]
    fn code(&self, code: i32) -> &Self {
        assert_eq!(self.code, Some(code), "{}\n{}", self.out, self.err);
        self
    }

    /// A line on standard error has all of these words.
    #[track_caller]
    fn says(&self, words: &[&str]) -> &Self {
        let is_it = |line: &str| words.iter().all(|word| line.contains(word));
        assert!(self.err.lines().any(is_it), "{words:?} is not said:\n{}", self.err);
        self
    }
}

#[test]
fn a_rich_tree_goes_over() {
    for args in
        [&[][..], &["--jobs", "1", "--queue-size", "1", "--block-size", "4096"], &["--no-sync"]]
    {
        let scene = Scene::new();
        scene.file("abc", "abc").file("empty", "").file("a b/c d.txt", "x");
        scene.file("caf\u{e9}/\u{65e5}\u{672c}\u{8a9e}.txt", "y").file("\u{1f600} emoji", "z");
        for len in [4095, 4096, 4097, 262_144, 262_145, 3_000_000] {
            scene.file(&format!("lengths/{len}"), content(len));
        }
        for i in 0..300 {
            scene.file(&format!("many/{i}"), content(i));
        }
        fs::create_dir_all(scene.src().join("no/thing/in it")).unwrap();
        scene.complete(&scene.copy(args));
        let again = scene.copy(args);
        assert!(again.out.contains("unchanged   311 files"), "{}", again.out);
        scene.complete(&again);
    }
}

#[test]
fn a_path_of_400_characters_is_no_obstacle() {
    let scene = Scene::new();
    let deep = ["a directory whose name has fifty characters, just"; 8].join("/");
    assert!(deep.len() >= 390);
    scene.file(&format!("{deep}/file at the end"), "deep");
    scene.complete(&scene.copy(&[]));
    // … and neither is one of the roots.
    let (from, to) = (scene.src().join(&deep), scene.src().with_file_name("far").join(&deep));
    fs::create_dir_all(to.parent().unwrap()).unwrap();
    let args = [OsStr::new("-i"), from.as_ref(), OsStr::new("-o"), to.as_ref()];
    scene.run(program("dircopy"), args).code(0);
    assert_eq!(fs::read(to.join("file at the end")).unwrap(), b"deep");
    assert_eq!(scene.run(program("dirverify"), [&to]).code, Some(0));
}

#[test]
fn both_separators_and_verbatim_paths_are_understood() {
    let scene = Scene::new();
    scene.file("sub/abc", "abc");
    for (from, to) in [("src/sub/", "out1/"), ("src\\sub\\", "out2\\"), (".\\src/sub", "./out3")] {
        scene.run(program("dircopy"), ["-i", from, "-o", to]).code(0);
        let to = scene.0.path().join(to);
        assert_eq!(fs::read(to.join("abc")).unwrap(), b"abc");
    }
    let verbatim = |path: PathBuf| {
        let mut text = OsString::from(r"\\?\");
        text.push(path);
        text
    };
    let (from, to) = (verbatim(scene.src()), verbatim(scene.dst()));
    let args = [OsStr::new("-i"), &from, OsStr::new("-o"), &to];
    let run = scene.run(program("dircopy"), args);
    scene.complete(&run);
    // One file, of a name with no directory before it.
    let run = scene.run(program("dircopy"), ["-i", "src\\sub\\abc", "-o", "one"]);
    run.code(0);
    assert_eq!(fs::read(scene.0.path().join("one").join("abc")).unwrap(), b"abc");
}

/// `-i "C:\photos\" -o "D:\x"` arrives as one argument with a quotation mark in it.
#[test]
fn a_quoted_path_that_ends_with_a_backslash_is_explained() {
    let scene = Scene::new();
    for program in [program("dircopy"), program("dirverify")] {
        let mut command = Command::new(program);
        command.raw_arg(r#"-i "C:\photos\" -o "D:\archive""#).current_dir(scene.0.path());
        let run = Run::of(&command.output().unwrap());
        run.code(2).says(&["quotation mark", "photos"]).says(&["must not end"]);
    }
}

#[test]
fn policies_end_as_they_do_elsewhere() {
    let old = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
    let set = |path: &Path, time| {
        let file = OpenOptions::new().write(true).open(path).unwrap();
        file.set_modified(time).unwrap();
    };
    for (policy, code, replaced) in
        [("default", 1, false), ("never", 1, false), ("update", 0, true), ("always", 0, true)]
    {
        let scene = Scene::new();
        scene.file("file", "new content").file("sub/same", "same");
        scene.copy(&[]).code(0);
        let there = scene.dst().join("file");
        fs::write(&there, "older and longer content").unwrap();
        set(&there, old);
        let mut permissions = fs::metadata(&there).unwrap().permissions();
        permissions.set_readonly(true);
        fs::set_permissions(&there, permissions).unwrap();
        let run = scene.copy(&["--overwrite-policy", policy]);
        run.code(code);
        if replaced {
            scene.complete(&run);
        } else {
            run.says(&["left as it is", "file"]);
            assert_eq!(fs::read(&there).unwrap(), b"older and longer content");
        }
    }
}

#[test]
fn a_mirror_moves_away_what_has_left_the_source() {
    let scene = Scene::new();
    scene.file("a", "abc").file("b", "b").file("sub/c", "c").copy(&["--mirror"]).code(0);
    for gone in ["a", "b"] {
        fs::remove_file(scene.src().join(gone)).unwrap();
        let run = scene.copy(&["--mirror"]);
        run.code(0);
        let trash = scene.dst().join(".dircopy-trash");
        assert!(tree(&trash).keys().any(|name| name.ends_with(&format!("/{gone}"))));
        fs::remove_dir_all(trash).unwrap();
        scene.complete(&run);
    }
}

#[test]
fn runs_with_nothing_to_do_keep_their_record() {
    let scene = Scene::new();
    scene.file("a", "abc").file("sub/b", "b");
    for _ in 0..4 {
        let run = scene.copy(&[]);
        scene.complete(&run);
        assert!(!run.err.contains("record"), "{}", run.err);
        let bag = scene.run(program("dircopy"), ["-i", "src", "-o", "bag", "--bag"]);
        bag.code(0);
        assert!(!bag.err.contains("record"), "{}", bag.err);
    }
}

#[test]
fn names_of_an_expected_list_are_those_of_the_source_or_gone() {
    let scene = Scene::new();
    scene.file("a", "abc").file("d/e", "e");
    let list = scene.0.path().join("list");
    let source = scene.src();
    let source = source.to_str().unwrap();
    let whole = format!("{source}\\a");
    let slashes = whole.replace('\\', "/");
    for name in [
        "x:y",
        "what?",
        "D/E",
        "d/E",
        "D/e",
        "d\\e",
        "\\\\srv\\share\\x",
        &whole,
        &slashes,
        "a:b/c",
    ] {
        fs::write(&list, format!("{ABC}  a\n{EMPTY}  {name}\n")).unwrap();
        let run = scene.copy(&["--expect", "list", "--expect-all"]);
        run.code(4).says(&["not in the source"]);
        scene.copy(&["--expect", "list"]).code(0).says(&["not in the source"]);
    }
    fs::write(&list, format!("{ABC}  a\n")).unwrap();
    scene.copy(&["--expect", "list", "--expect-all"]).code(0);
    // What is left out is no less there.
    fs::write(&list, format!("{ABC}  a\n{EMPTY}  d/e\n")).unwrap();
    scene.copy(&["--expect", "list", "--expect-all", "--exclude", "e"]).code(0);
}

#[test]
fn a_list_of_names_has_them_as_the_source_has() {
    let scene = Scene::new();
    scene.file("a", "abc").file("d/e", "e").file("d/f", "f").file("g/h", "h");
    fs::write(scene.0.path().join("list"), "A\nD/e\nd/E\nd/f\nG\n").unwrap();
    let run = scene.copy(&["--files-from", "list"]);
    run.code(1);
    for (name, own) in [("\\A:", "as a;"), ("D:", "as d;"), ("E:", "as e;"), ("\\G:", "as g;")] {
        run.says(&["cannot copy", name, "the source has it", own]);
    }
    let copied = tree(&scene.dst()).into_keys().filter(|name| !name.starts_with("dircopy-"));
    assert_eq!(copied.collect::<Vec<_>>(), ["d", "d/f"]);
    fs::write(scene.0.path().join("list"), "a\nd\\e\nd/f\ng\n").unwrap();
    let run = scene.copy(&["--files-from", "list"]);
    scene.complete(&run);
}

#[test]
fn names_with_a_drive_refuse_the_run() {
    let scene = Scene::new();
    scene.file("a", "abc");
    for name in ["Z:\\x", "Z:/x", "z:x", "\\x", "/x", "\\\\srv\\share\\x", "\\\\?\\Z:\\x"] {
        fs::write(scene.0.path().join("list"), format!("a\n{name}\n")).unwrap();
        scene.copy(&["--files-from", "list"]).code(2).says(&["name 2", "absolute"]);
        assert!(!scene.dst().exists());
    }
}

#[test]
fn one_new_directory_is_not_two_outputs() {
    let scene = Scene::new();
    scene.file("a", "abc");
    let whole = scene.0.path().canonicalize().unwrap().join("OUT");
    let whole = whole.to_str().unwrap();
    for other in ["out", "OUT", "Out.", "out ", ".\\oUt\\", whole] {
        let run = scene.run(program("dircopy"), ["src", "out", other]);
        run.code(2).says(&["it is the same directory as the output"]);
        assert!(!scene.0.path().join("out").exists());
    }
}

#[test]
fn a_plan_is_refused_before_anything_is_made() {
    let scene = Scene::new();
    scene.file("a", "abc");
    let plan = ["plan", "src", "dst", "--plan", "plan"];
    scene.run(program("dircopy"), plan).code(2).says(&["plans need", "Unix permissions"]);
    let made = fs::read_dir(scene.0.path()).unwrap().map(|entry| entry.unwrap().file_name());
    assert_eq!(made.collect::<Vec<_>>(), ["src"]);
}

#[test]
fn messages_show_what_is_meant() {
    let scene = Scene::new();
    scene.file("a", "abc").file("d/e", "e");
    let list = scene.0.path().join("list");
    // What Notepad and PowerShell write.
    fs::write(&list, "a\r\nd\r\n").unwrap();
    let run = scene.copy(&["--files-from", "list"]);
    scene.complete(&run);
    let utf16: Vec<u8> = "\u{feff}a\r\n".encode_utf16().flat_map(u16::to_le_bytes).collect();
    fs::write(&list, utf16).unwrap();
    scene.copy(&["--files-from", "list"]).code(2).says(&["it is UTF-16: save it as UTF-8"]);
    fs::write(&list, "x:y\nd/x:y\n".replace('x', "xx")).unwrap();
    let run = scene.copy(&["--files-from", "list"]);
    run.code(1).says(&["src\\xx:y", "\":\""]).says(&["src\\d\\xx:y", "\":\""]);
    fs::write(&list, format!("{ABC}  x:y\n")).unwrap();
    scene.verify(&["-m", "list", "dst"]).code(4).says(&["missing: dst\\x:y", "\":\""]);
    for (output, why) in
        [("NUL", "device"), ("nul.txt", "device"), ("dst\\con", "device"), ("a?b", "? *")]
    {
        let run = scene.run(program("dircopy"), ["src", output]);
        run.code(2).says(&["cannot make the output", why]);
    }
}

#[test]
fn a_check_tells_what_is_wrong() {
    let scene = Scene::new();
    scene.file("sub/good", "abc").file("sub/bad", "right").file("gone", "x");
    scene.copy(&[]).code(0);
    fs::write(scene.dst().join("sub/bad"), "wrong").unwrap();
    scene.verify(&["dst"]).code(4).says(&["differs", "bad"]);
    fs::remove_file(scene.dst().join("gone")).unwrap();
    scene.verify(&["dst"]).code(4).says(&["missing", "gone"]);
    scene.verify(&["src"]).code(5);
    scene.verify(&["--no-such-option"]).code(2);
    fs::write(scene.0.path().join("list"), format!("{ABC}  sub/good\r\nnonsense\r\n")).unwrap();
    scene.verify(&["-m", "list", "dst"]).code(5).says(&["malformed", "line 2"]);
    let mut command = Command::new(program("dirverify"));
    command.args(["-m", "-", "dst"]).current_dir(scene.0.path()).stdin(Stdio::piped());
    let mut child = command.stdout(Stdio::null()).spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    std::io::Write::write_all(&mut input, format!("{ABC}  sub/good\n").as_bytes()).unwrap();
    drop(input);
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

#[test]
fn bad_and_missing_files_are_made_whole() {
    let scene = Scene::new();
    scene.file("sub/large", content(3 << 20)).file("sub/small", "abc").file("gone", "x");
    for output in ["A", "B"] {
        scene.run(program("dircopy"), ["-i", "src", "-o", output]).code(0);
    }
    let a = |name: &str| scene.0.path().join("A").join(name);
    let mut bad = content(3 << 20);
    bad[2_000_000] ^= 1;
    fs::write(a("sub/large"), bad).unwrap();
    fs::write(a("sub/small"), "abd").unwrap();
    fs::remove_file(a("gone")).unwrap();
    let run = scene.run(program("dircopy"), ["heal", "A", "B"]);
    run.code(0).says(&["healed"]);
    assert_eq!(fs::read(a("sub/large")).unwrap(), content(3 << 20));
    assert_eq!(fs::read(a("sub/small")).unwrap(), b"abc");
    assert_eq!(fs::read(a("gone")).unwrap(), b"x");
    scene.verify(&["A", "B"]).code(0);
}

#[test]
fn names_of_a_manifest_never_lead_out_and_say_why() {
    let scene = Scene::new();
    scene.file("sub/good", "abc");
    fs::write(scene.0.path().join("outside"), "abc").unwrap();
    let lists = |name: &str, escaped: bool| {
        let mark = if escaped { "\\" } else { "" };
        fs::write(scene.0.path().join("list"), format!("{mark}{ABC}  {name}\n")).unwrap();
        scene.verify(&["-m", "list", "src"])
    };
    lists("sub/good", false).code(0);
    lists("../outside", false).code(5).says(&["refused"]);
    let outside = scene.0.path().join("outside").to_str().unwrap().replace('\\', "/");
    lists(&outside, false).code(5).says(&["refused", "absolute"]);
    lists(r"..\outside", false).code(4).says(&["missing"]);
    lists(r"sub\good", false).code(4).says(&["missing", "--convert-paths"]);
    lists("nul", false).code(4).says(&["missing", "reserved"]);
    lists("sub/good:stream", false).code(4).says(&["missing", "\":\""]);
    lists("sub/good::$DATA", false).code(4).says(&["missing", "\":\""]);
    lists("sub/good.", false).code(4).says(&["missing", "dot or a space"]);
    lists("a\\\\nb", true).code(4);
    fs::write(scene.0.path().join("list"), format!("{ABC}  sub\\good\n")).unwrap();
    scene.verify(&["-m", "list", "--convert-paths", "src"]).code(0);
    // Not UTF-8: Windows has no such name.
    let mut list = format!("{ABC}  ").into_bytes();
    list.extend_from_slice(b"caf\xe9\n");
    fs::write(scene.0.path().join("list"), list).unwrap();
    scene.verify(&["-m", "list", "src"]).code(1).says(&["not UTF-8"]);
}

#[test]
fn a_file_that_another_program_writes_or_locks_is_named_and_the_rest_is_copied() {
    let scene = Scene::new();
    scene.file("good", "abc").file("locked", "x").file("written", "y").file("read", "z");
    let open = |name: &str, write: bool, share: u32| {
        let path = scene.src().join(name);
        OpenOptions::new().read(true).write(write).share_mode(share).open(path).unwrap()
    };
    let _held = [open("locked", false, 0), open("written", true, 7), open("read", false, 7)];
    let run = scene.copy(&[]);
    run.code(1).says(&["cannot open", "locked"]).says(&["cannot open", "written"]);
    let copied: Vec<String> =
        tree(&scene.dst()).into_keys().filter(|name| !name.starts_with("dircopy-")).collect();
    assert_eq!(copied, ["good", "read"]);
    scene.verify(&["dst"]).code(0);
}

#[test]
fn attributes_and_times_go_over() {
    let scene = Scene::new();
    scene.file("plain", "a").file("read-only", "b").file("dir/file", "c");
    let time = |secs, nanos| SystemTime::UNIX_EPOCH + Duration::new(secs, nanos);
    for name in ["plain", "read-only"] {
        let file = OpenOptions::new().write(true).open(scene.src().join(name)).unwrap();
        let times = fs::FileTimes::new()
            .set_created(time(900_000_000, 0))
            .set_modified(time(1_000_000_000, 123_456_700));
        file.set_times(times).unwrap();
    }
    let mut permissions = fs::metadata(scene.src().join("read-only")).unwrap().permissions();
    permissions.set_readonly(true);
    fs::set_permissions(scene.src().join("read-only"), permissions).unwrap();
    let run = scene.copy(&[]);
    scene.complete(&run);
    for name in ["plain", "read-only", "dir", "dir/file"] {
        let of = |root: PathBuf| {
            let known = fs::metadata(root.join(name)).unwrap();
            (known.last_write_time(), known.file_attributes() & 0x27)
        };
        assert_eq!(of(scene.src()), of(scene.dst()), "{name}");
    }
    not_under_wine!("Linux keeps no time of making that could be set, and no hidden files");
    let made = |root: PathBuf| fs::metadata(root.join("plain")).unwrap().creation_time();
    assert_eq!(made(scene.src()), made(scene.dst()));
    let hidden = scene.src().join("hidden");
    let made = OpenOptions::new().write(true).create(true).attributes(0x2 | 0x4).open(&hidden);
    drop(made.unwrap());
    scene.copy(&[]).code(0);
    assert_eq!(fs::metadata(scene.dst().join("hidden")).unwrap().file_attributes() & 0x6, 0x6);
}

#[test]
fn an_output_that_is_or_is_in_the_source_is_refused_in_every_spelling() {
    let scene = Scene::new();
    scene.file("sub/abc", "abc");
    for to in ["src", "SRC", "src/sub", "Src\\SUB", "src/sub/new", "src\\..\\src\\new", "./src/."] {
        scene.run(program("dircopy"), ["-i", "src", "-o", to]).code(2).says(&["cannot"]);
    }
    assert_eq!(tree(&scene.src()).len(), 2);
}

#[test]
fn an_unattended_run_gives_way_and_leaves_a_report() {
    let scene = Scene::new();
    scene.file("a", "abc").file("large", content(3 << 20));
    let unattended = "--report r.json --metrics m.prom --log l.txt --nice 10 --limit-rate 100M --wait \
                      --max-duration 1h --stop-at 00:00 --keep-manifests 1";
    scene.complete(&scene.copy(&unattended.split_whitespace().collect::<Vec<_>>()));
    let read = |name| fs::read_to_string(scene.0.path().join(name)).unwrap();
    let report: serde_json::Value = serde_json::from_str(&read("r.json")).unwrap();
    assert_eq!(report["exit_code"], 0);
    let host = report["host"].as_str().unwrap();
    let expected = std::env::var("COMPUTERNAME").unwrap();
    assert!(host.to_uppercase().starts_with(&expected.to_uppercase()), "{host} {expected}");
    assert!(read("m.prom").contains("dircopy_"));
    assert!(!read("l.txt").is_empty());
    // Only what was asked for.
    assert_eq!(fs::read_dir(scene.0.path()).unwrap().count(), 5);
}

#[test]
fn two_outputs_are_each_complete_and_told_apart() {
    let scene = Scene::new();
    scene.file("abc", "abc").file("dir/large", content(3 << 20)).file("ü/empty", "");
    let args = ["-o", "other", "--lag", "1M", "--block-size", "64K", "--report", "r.json", "-v"];
    let run = scene.copy(&args);
    scene.complete(&run);
    assert!(run.out.contains("other: copied dir/large"), "{}", run.out);
    let report = fs::read_to_string(scene.0.path().join("r.json")).unwrap();
    let report: serde_json::Value = serde_json::from_str(&report).unwrap();
    assert_eq!(report["outputs"].as_array().unwrap().len(), 2);
    assert!(report["outputs"].as_array().unwrap().iter().all(|it| it["counts"]["copied"] == 3));
    // Where one directory holds a bad file, the other one has it good.
    scene.verify(&["--complete", "dst", "other"]).code(0);
    fs::write(scene.0.path().join(r"other\abc"), "bad").unwrap();
    scene.verify(&["dst", "other"]).code(4).says(&["abc", "differs at other", "good at dst"]);
    scene.copy(&["-o", "dst"]).code(2);
    scene.copy(&["-o", r"src\inside"]).code(2).says(&["inside the source"]);
}

#[test]
fn streams_come_from_a_pipe_and_go_into_several_files() {
    let scene = Scene::new();
    scene.file("abc", "abc");
    let feed = |args: &[&str], bytes: &[u8]| {
        let mut command = Command::new(program("dircopy"));
        command.args(args).current_dir(scene.0.path());
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let (mut input, bytes) = (child.stdin.take().unwrap(), bytes.to_vec());
        let feeder = std::thread::spawn(move || std::io::Write::write_all(&mut input, &bytes));
        let output = child.wait_with_output().unwrap();
        let _ = feeder.join().unwrap(); // whoever refuses does not read
        (output.stdout.clone(), Run::of(&output))
    };
    let read = |name: &str| fs::read(scene.0.path().join(name)).unwrap();
    let bytes = content(1_000_000);
    let both = [&bytes[..], b"abc"].concat();
    for (hash, x, y) in [("sha256", "x", "y"), ("none", "x2", "y2")] {
        let args = ["-i", "-", "-i", "src/abc", "-o", x, "-o", y, "--hash", hash];
        feed(&args, &bytes).1.code(0);
        assert!(read(x) == both && read(y) == both);
    }
    scene.verify(&["-m", "x.sha256sum", "-m", "y.sha256sum"]).code(0);
    let (said, run) = feed(&["-q", "-i", r"src\abc", "-i", "-", "-o", "-"], &bytes);
    run.code(0);
    assert!(said == [b"abc", &bytes[..]].concat());
    // What is there stays, and nothing half stands for what is missing.
    feed(&["-i", "-", "-o", "x"], b"other").1.code(1).says(&["left as it is: x"]);
    assert!(read("x") == both);
    feed(&["-i", "-", "-i", "missing", "-o", "z", "--strict"], b"other").1.code(2);
    assert!(!scene.0.path().join("z").exists());
    feed(&["-i", "-", "-o", "nul"], b"other").1.code(2).says(&["nul", "reserved"]);
}

/// A device has neither a size nor a time, and the system's own words about that explain nothing.
#[test]
fn a_device_is_no_input() {
    let scene = Scene::new();
    for name in ["NUL", "nul:"] {
        let run = scene.run(program("dircopy"), ["-i", name, "-o", "x"]);
        run.code(2).says(&[name, "reserved for a device", "\"-i -\""]);
    }
}

/// Who asked for the beginning only has no complaint.
#[test]
fn a_reader_that_goes_away_ends_a_stream() {
    let scene = Scene::new();
    scene.file("large", content(3 << 20));
    let mut child = Command::new(program("dircopy"))
        .args(["-q", "-i", "src/large", "-i", "src/large", "-o", "-"])
        .current_dir(scene.0.path())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut beginning = [0; 100];
    std::io::Read::read_exact(&mut child.stdout.take().unwrap(), &mut beginning).unwrap();
    let output = child.wait_with_output().unwrap();
    let run = Run::of(&output);
    assert!(beginning[..] == content(100) && run.err.is_empty(), "{}", run.err);
    run.code(141);
}

#[test]
fn a_job_is_found_checked_and_run() {
    let scene = Scene::new();
    scene.file("abc", "abc").file("a.tmp", "x");
    let config = scene.0.path().join("config");
    let (src, dst) = (scene.src(), scene.dst());
    let slashes = dst.to_str().unwrap().replace('\\', "/"); // both do
    let text = format!("input = '{}'\noutput = '{slashes}'\nexclude = '*.tmp'\n", src.display());
    write(&config.join(r"dircopy\jobs\nightly.toml"), text);
    let run = |args: &[&str]| {
        let mut command = Command::new(program("dircopy"));
        command.args(args).current_dir(scene.0.path()).env("APPDATA", &config);
        Run::of(&command.output().unwrap())
    };
    let checked = run(&["jobs", "check", "nightly"]);
    checked.code(0);
    assert!(checked.out.contains("exclude = \"*.tmp\""), "{}", checked.out);
    assert!(!dst.exists());
    run(&["--job", "nightly"]).code(0);
    assert!(dst.join("abc").exists() && !dst.join("a.tmp").exists());
    run(&["--job", r"config\dircopy\jobs\nightly.toml"]).code(0);
    run(&["--job", "weekly"]).code(2).says(&["there is no weekly.toml in", r"config\dircopy\jobs"]);
}

#[test]
fn a_check_in_portions_goes_on_where_it_was() {
    let scene = Scene::new();
    for i in 0..20 {
        scene.file(&format!("{i}"), content(1000));
    }
    scene.copy(&[]).code(0);
    for done in [8, 16, 20] {
        let run = scene.verify(&["--budget", "1h", "--max-bytes", "8000", "dst"]);
        run.code(0);
        let left = format!("{} of 20 files not verified yet", 20 - done);
        assert!(run.out.contains(&left), "{}", run.out);
    }
    for simd in ["auto", "off", "on"] {
        scene.verify(&["--complete", "--simd", simd, "dst"]).code(0);
    }
}

#[test]
fn what_windows_does_not_have_is_refused_or_warned_of() {
    let scene = Scene::new();
    scene.file("a", "abc");
    scene.copy(&["--reflink", "always"]).code(2).says(&["clone", "cannot share data"]);
    let run = scene.copy(&["--ionice", "idle", "--cache", "drop", "--sparse", "always"]);
    run.says(&["the disk priority"]);
    scene.complete(&run);
}

#[test]
fn a_second_run_on_the_same_output_is_refused() {
    let scene = Scene::new();
    scene.file("abc", "abc");
    scene.copy(&[]).code(0);
    let root = dircopy::internals::Dir::open(&scene.dst().join(".dircopy")).unwrap();
    assert_eq!(root.lock().unwrap(), dircopy::internals::Lock::Held);
    scene.copy(&[]).code(2).says(&["another dircopy"]);
    drop(root);
    scene.copy(&[]).code(0);
}

#[test]
fn a_large_file_that_was_cut_off_is_gone_on_with() {
    let scene = Scene::new();
    scene.file("large", content(24 << 20));
    let args = ["--checkpoint", "2M", "--block-size", "64K", "--queue-size", "2"];
    let mut run = Command::new(program("dircopy"))
        .args(["-i", "src", "-o", "dst", "--limit-rate", "4M"])
        .args(args)
        .current_dir(scene.0.path())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    // A journal with a second checkpoint: its last slot starts at 8192 bytes.
    let is_noted = || {
        let there = fs::read_dir(scene.dst()).into_iter().flatten().flatten();
        let journal = |entry: &fs::DirEntry| {
            let name = entry.file_name();
            name.to_string_lossy().ends_with(".dircopy-journal")
        };
        there.filter(journal).any(|entry| fs::metadata(entry.path()).is_ok_and(|m| m.len() > 8192))
    };
    while !is_noted() {
        assert!(run.try_wait().unwrap().is_none(), "it ended before it could be cut off");
        std::thread::sleep(Duration::from_millis(10));
    }
    run.kill().unwrap();
    run.wait().unwrap();
    assert!(!scene.dst().join("large").exists());
    let run = scene.copy(&[&args[..], &["-v", "--resume", "verify"]].concat());
    scene.complete(&run);
    assert!(run.out.contains("resumed large: "), "{}\n{}", run.out, run.err);
    // With -v it says what the file system makes of names.
    let amiss: Vec<&str> =
        run.err.lines().filter(|line| !line.contains(": this file system: ")).collect();
    assert!(amiss.is_empty(), "nothing was amiss: {amiss:?}");
}

#[test]
fn what_a_killed_run_left_is_removed() {
    let scene = Scene::new();
    scene.file("abc", "abc").file("sub/x", "x");
    scene.copy(&[]).code(0);
    let name = leftover::leftover_name(&scene.dst());
    fs::write(scene.dst().join("sub").join(&name), "half").unwrap();
    let run = scene.copy(&[]);
    run.says(&["removed", &name]);
    scene.complete(&run);
}

/// Programs that look through every new file do so.
#[test]
fn somebody_who_holds_a_file_for_an_instant_is_waited_for() {
    let scene = Scene::new();
    scene.file("file", "x");
    fs::create_dir(scene.dst()).unwrap();
    let part = scene.dst().join(".a1B2c3D4e5.dircopy-part");
    fs::write(&part, "left by a killed run").unwrap();
    let held = OpenOptions::new().read(true).share_mode(0).open(&part).unwrap();
    let release = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(100));
        drop(held);
    });
    let dir = dircopy::internals::Dir::open(&scene.dst()).unwrap();
    dir.remove(part.file_name().unwrap()).unwrap();
    release.join().unwrap();
    assert!(!part.exists());
}

#[test]
fn a_reader_of_the_old_file_does_not_keep_it_from_being_replaced() {
    not_under_wine!("renaming over an open file needs POSIX semantics, which Wine has not");
    let scene = Scene::new();
    scene.file("file", "old");
    scene.copy(&[]).code(0);
    let reader = File::open(scene.dst().join("file")).unwrap();
    scene.file("file", "new and longer");
    let run = scene.copy(&["--overwrite-policy", "always"]);
    scene.complete(&run);
    drop(reader);
}

#[link(name = "kernel32")]
unsafe extern "system" {
    fn GetShortPathNameW(path: *const u16, short: *mut u16, room: u32) -> u32;
}

/// The name of 8 and 3 characters that Windows gives a file with a longer one, if it does.
fn short_name(path: &Path) -> Option<OsString> {
    let long: Vec<u16> = path.as_os_str().encode_wide().chain([0]).collect();
    let mut short = [0u16; 1024];
    // SAFETY: a path that ends with a 0, and room for as many units as are said.
    let told = unsafe { GetShortPathNameW(long.as_ptr(), short.as_mut_ptr(), 1024) } as usize;
    let short = PathBuf::from(OsString::from_wide(short.get(..told)?));
    let name = short.file_name()?;
    (Some(name) != path.file_name()).then(|| name.to_os_string())
}

/// The file that is found by its short name is another one, and a directory too.
#[test]
fn the_short_name_of_another_file_is_refused() {
    let scene = Scene::new();
    scene.file("other", "other").copy(&[]).code(0);
    write(&scene.dst().join("a long name of a file.txt"), "long");
    write(&scene.dst().join("a long name of a directory/in it"), "long");
    let names = ["a long name of a file.txt", "a long name of a directory"];
    let short = names.map(|name| short_name(&scene.dst().join(name)));
    let [Some(file), Some(dir)] = short else {
        eprintln!("skipped: there are no short names here");
        return;
    };
    scene.file(file.to_str().unwrap(), "short").file(&format!("{}/in it", dir.display()), "short");
    scene.copy(&["--overwrite-policy", "always"]).code(1).says(&["another name of that"]);
    for name in ["a long name of a file.txt", "a long name of a directory/in it"] {
        assert_eq!(fs::read(scene.dst().join(name)).unwrap(), b"long", "{name}");
    }
}

/// … and one that is really called so is a file like any.
#[test]
fn a_file_that_is_called_like_a_short_name_is_copied() {
    let scene = Scene::new();
    scene.file("IMAGE~1.JPG", "one").file("docu~2/b", "b");
    let run = scene.copy(&[]);
    scene.complete(&run);
    scene.file("IMAGE~1.JPG", "one, edited");
    let run = scene.copy(&["--overwrite-policy", "always"]);
    scene.complete(&run);
}

#[test]
fn junctions_are_copied_as_junctions_and_never_followed() {
    not_under_wine!("it makes no junctions");
    let scene = Scene::new();
    scene.file("dir/abc", "abc");
    fs::create_dir(scene.0.path().join("outside")).unwrap();
    fs::write(scene.0.path().join("outside").join("secret"), "s").unwrap();
    let junction = |link: &str, target: &str| {
        let made = Command::new("cmd")
            .args(["/c", "mklink", "/J", link, target])
            .current_dir(scene.0.path())
            .output()
            .unwrap();
        assert!(made.status.success());
    };
    junction("src\\link", "outside");
    scene.copy(&[]).code(0);
    assert!(fs::symlink_metadata(scene.dst().join("link")).unwrap().is_symlink());
    assert_eq!(fs::read_link(scene.dst().join("link")).unwrap().file_name().unwrap(), "outside");
    assert!(!scene.verify(&["-v", "dst"]).code(0).out.contains("secret"));
    // One planted at the output leads nowhere.
    fs::remove_dir_all(scene.dst().join("dir")).unwrap();
    junction("dst\\dir", "outside");
    scene.copy(&[]).code(1).says(&["symbolic link is in its place"]);
    assert!(!scene.0.path().join("outside").join("abc").exists());
}

/// The manifest too, which is open for writing until it has its name.
#[test]
fn what_was_written_is_read_back() {
    let scene = Scene::new();
    scene.file("file", "abc").file("d/other", "");
    let run = scene.copy(&["--verify"]);
    scene.complete(&run);
}

#[test]
fn streams_that_are_lost_are_named() {
    not_under_wine!("it knows no streams: `file:stream` becomes an ordinary file");
    let scene = Scene::new();
    scene.file("file", "abc");
    fs::write(scene.src().join("file:extra"), "more").unwrap();
    let run = scene.copy(&[]);
    run.code(0).says(&["warning", "file", ":extra"]);
    scene.complete(&run);
}

#[test]
fn lone_surrogates_go_over_and_come_back() {
    not_under_wine!("Linux names are UTF-8 to it, which has no lone surrogates");
    let scene = Scene::new();
    let name = OsString::from_wide(&[0x61, 0xd83d, 0x62]);
    write(&scene.src().join(&name), "abc");
    scene.copy(&[]).code(0);
    assert_eq!(fs::read(scene.dst().join(&name)).unwrap(), b"abc");
    scene.verify(&["dst"]).code(0);
}

#[test]
fn ctrl_break_ends_a_run_tidily() {
    use windows_sys::Win32::System::Console::{CTRL_BREAK_EVENT, GenerateConsoleCtrlEvent};
    use windows_sys::Win32::System::Threading::CREATE_NEW_PROCESS_GROUP;
    not_under_wine!("without a console of its own, events do not reach the program");
    let scene = Scene::new();
    for i in 0..200 {
        scene.file(&format!("{i}"), content(4 << 20));
    }
    let mut child = Command::new(program("dircopy"))
        .args([OsStr::new("-i"), scene.src().as_ref(), OsStr::new("-o"), scene.dst().as_ref()])
        .creation_flags(CREATE_NEW_PROCESS_GROUP)
        .spawn()
        .unwrap();
    while fs::read_dir(scene.dst()).map_or(0, |dir| dir.count()) < 3 {
        std::thread::sleep(Duration::from_millis(2));
    }
    // SAFETY: a function of two numbers.
    assert_ne!(unsafe { GenerateConsoleCtrlEvent(CTRL_BREAK_EVENT, child.id()) }, 0);
    assert_eq!(child.wait().unwrap().code(), Some(130));
    let left = tree(&scene.dst()).into_keys();
    assert_eq!(left.filter(|name| name.ends_with(".dircopy-part")).count(), 0);
}

/// For tests that Wine cannot run at all, this says that the others did.
#[test]
fn the_programs_need_nothing_but_the_system() {
    let scene = Scene::new();
    for program in [program("dircopy"), program("dirverify")] {
        // A directory with nothing else in it, and no path to look for libraries in.
        let copy = scene.0.path().join("alone").join(program.file_name().unwrap());
        write(&copy, fs::read(program).unwrap());
        let output = Command::new(&copy).arg("--version").env("PATH", "").output().unwrap();
        assert!(output.status.success());
    }
}
