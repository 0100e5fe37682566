//! The Windows program under Wine, judged from Linux: the same trees and the same manifests on both
//! sides, and names that only Linux can make.
//!
//! `DIRCOPY_EXE` is the directory of `dircopy.exe` and `dirverify.exe`, `DIRCOPY_WINE` what runs them
//! (`.ci/windows-cross.sh` makes a `run-wine`). Without these there is nothing to test, and the tests
//! say so; `.ci/run` gives them. With `DIRCOPY_TEST_LARGE=1` the large file has 3 GB.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // a test says what it expects

#[allow(dead_code)] // where there is no Wine, that is no failure
#[path = "it/harness/skipped.rs"]
mod skipped;

use std::ffi::OsStr;
use std::fs::{self, File};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use tempfile::TempDir;

struct Wine {
    runner: PathBuf,
    programs: PathBuf,
}

/// Where the Windows programs are; `None`, said aloud, where there are none.
fn wine() -> Option<Wine> {
    let from = |name| std::env::var_os(name).map(|path| fs::canonicalize(path).unwrap());
    match (from("DIRCOPY_WINE"), from("DIRCOPY_EXE")) {
        (Some(runner), Some(programs)) => Some(Wine { runner, programs }),
        _ => {
            skipped::skipped(
                "DIRCOPY_WINE and DIRCOPY_EXE do not say where the Windows program is",
            );
            None
        }
    }
}

impl Wine {
    fn run(&self, program: &str, args: &[&str], scene: &Scene) -> Run {
        let mut command = Command::new(&self.runner);
        command.arg(self.programs.join(format!("{program}.exe"))).args(args);
        Run::of(&command.current_dir(scene.root()).output().unwrap())
    }
}

/// The same program of this machine.
fn native(program: &str, args: &[&str], scene: &Scene) -> Run {
    let path = match program {
        "dircopy" => env!("CARGO_BIN_EXE_dircopy"),
        _ => env!("CARGO_BIN_EXE_dirverify"),
    };
    Run::of(&Command::new(path).args(args).current_dir(scene.root()).output().unwrap())
}

struct Run {
    code: Option<i32>,
    all: String,
}

impl Run {
    fn of(output: &Output) -> Self {
        let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
        let all = format!("{}{}", text(&output.stdout), text(&output.stderr));
        Self { code: output.status.code(), all }
    }

    #[track_caller]
    fn code(&self, code: i32) -> &Self {
        assert_eq!(self.code, Some(code), "{}", self.all);
        self
    }

    #[track_caller]
    fn says(&self, words: &[&str]) -> &Self {
        let is_it = |line: &str| words.iter().all(|word| line.contains(word));
        assert!(self.all.lines().any(is_it), "{words:?} is not said:\n{}", self.all);
        self
    }
}

struct Scene(TempDir);

impl Scene {
    fn new() -> Self {
        let place = Path::new(env!("CARGO_TARGET_TMPDIR"));
        Self(tempfile::Builder::new().prefix("dircopy-wine-").tempdir_in(place).unwrap())
    }

    fn root(&self) -> &Path {
        self.0.path()
    }

    fn file(&self, name: impl AsRef<[u8]>, content: impl AsRef<[u8]>) -> &Self {
        let path = self.root().join(OsStr::from_bytes(name.as_ref()));
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, content).unwrap_or_else(|error| panic!("{path:?}: {error}"));
        self
    }

    /// `sha256sum -c --strict` accepts the newest manifest in `dir`, whose lines are these names.
    #[track_caller]
    fn verifies(&self, dir: &str, names: &mut [&str]) {
        let dir = self.root().join(dir);
        let is_ours = |name: &String| name.starts_with("dircopy-") && name.ends_with(".sha256sum");
        let all = fs::read_dir(&dir).unwrap();
        let all = all.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let newest = all.filter(is_ours).max().unwrap();
        let run = Command::new("sha256sum")
            .args(["--check", "--strict", "--quiet", &newest])
            .current_dir(&dir)
            .output()
            .unwrap();
        Run::of(&run).code(0);
        let list = fs::read_to_string(dir.join(&newest)).unwrap();
        let mut listed: Vec<&str> = list.lines().map(|line| &line[66..]).collect();
        listed.sort_unstable();
        names.sort_unstable();
        assert_eq!(listed, names);
    }
}

fn deep() -> String {
    ["a directory whose name has fifty characters, just"; 8].join("/") + "/file at the end"
}

#[test]
fn a_manifest_made_there_verifies_here_and_the_other_way_round() {
    let Some(wine) = wine() else { return };
    let scene = Scene::new();
    let deep = deep();
    assert!(deep.len() > 400);
    let odd = ["caf\u{e9}/\u{65e5}\u{672c}\u{8a9e}.txt", "\u{1f600}", "a b/c", "empty", &deep];
    for name in odd {
        scene.file(format!("src/{name}"), if name == "empty" { "" } else { name });
    }
    // A hole that is hashed whole, and data behind it.
    let size: u64 =
        if std::env::var_os("DIRCOPY_TEST_LARGE").is_some() { 3 << 30 } else { 3 << 25 };
    let large = File::create(scene.root().join("src/large")).unwrap();
    large.set_len(size).unwrap();
    large.write_all_at(b"the end", size - 7).unwrap();
    let mut names: Vec<&str> = odd.into_iter().chain(["large"]).collect();

    wine.run("dircopy", &["-i", "src", "-o", "there"], &scene).code(0);
    scene.verifies("there", &mut names);
    // What one system's program keeps for itself is not private by the other's rights, so it is named.
    native("dirverify", &["--complete", "there"], &scene).code(4).says(&[".dircopy/secret"]);
    fs::remove_dir_all(scene.root().join("there/.dircopy")).unwrap();
    native("dirverify", &["--complete", "there"], &scene).code(0);
    let mut diff = Command::new("diff");
    diff.args(["-r", "src", "there", "-x", "dircopy-*.sha256sum", "-x", "dircopy-*.states"])
        .current_dir(scene.root());
    Run::of(&diff.output().unwrap()).code(0);

    native("dircopy", &["-i", "src", "-o", "here"], &scene).code(0);
    wine.run("dirverify", &["--complete", "here"], &scene).code(0);
    // Each finds what the other copied in place, and believes its manifest.
    let again = wine.run("dircopy", &["-i", "src", "-o", "here"], &scene);
    again.code(0).says(&["unchanged", "6 files"]);
    native("dircopy", &["-i", "src", "-o", "there"], &scene)
        .code(0)
        .says(&["unchanged", "6 files"]);
    scene.verifies("here", &mut names);
}

#[test]
fn both_end_with_the_same_codes() {
    let Some(wine) = wine() else { return };
    let cases: [(i32, &str, &[&str]); 10] = [
        (0, "dircopy", &["-i", "src", "-o", "new"]),
        (1, "dircopy", &["-i", "src", "-o", "differs"]),
        (2, "dircopy", &["-i", "src", "-o", "src/inside"]),
        (2, "dircopy", &["-i", "nowhere", "-o", "new"]),
        (2, "dircopy", &["--block-size", "banana"]),
        (0, "dirverify", &["-m", "good.list"]),
        (4, "dirverify", &["-m", "wrong.list"]),
        (4, "dirverify", &["-m", "missing.list"]),
        (5, "dirverify", &["-m", "malformed.list"]),
        (5, "dirverify", &["src"]),
    ];
    let digest = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
    for (code, program, args) in cases {
        let scenes = [Scene::new(), Scene::new()];
        for scene in &scenes {
            scene.file("src/abc", "abc").file("differs/abc", "another, and longer");
            scene.file("good.list", format!("{digest}  src/abc\n"));
            scene.file("wrong.list", format!("{digest}  differs/abc\n"));
            scene.file("missing.list", format!("{digest}  nothing\n"));
            scene.file("malformed.list", format!("{digest}  src/abc\nnonsense\n"));
        }
        native(program, args, &scenes[0]).code(code);
        wine.run(program, args, &scenes[1]).code(code);
    }
}

#[test]
fn names_that_windows_cannot_have_are_errors_that_say_why() {
    let Some(wine) = wine() else { return };
    let scene = Scene::new();
    scene.file("src/good", "abc").file("src/dir/good", "abc");
    for name in ["con", "Aux.txt", "trailing.", "dir/trailing ", "com1", "dir.d./file"] {
        scene.file(format!("src/{name}"), "x");
    }
    let run = wine.run("dircopy", &["-i", "src", "-o", "dst"], &scene);
    run.code(1);
    for (name, why) in [
        ("con", "reserved"),
        ("Aux.txt", "reserved"),
        ("trailing.", "dot or a space"),
        ("trailing ", "dot or a space"),
        ("com1", "reserved"),
        ("dir.d.", "dot or a space"),
    ] {
        run.says(&["cannot copy", name, why]);
    }
    scene.verifies("dst", &mut ["good", "dir/good"]);
    // One file alone is refused too, when it is to get its name.
    wine.run("dircopy", &["-i", "src/trailing.", "-o", "one"], &scene);
    assert!(!scene.root().join("one/trailing.").exists());
}

#[test]
fn names_that_differ_in_case_only_are_not_lost() {
    let Some(wine) = wine() else { return };
    let scene = Scene::new();
    scene.file("src/Name", "one").file("src/name", "two");
    let run = wine.run("dircopy", &["-i", "src", "-o", "dst"], &scene);
    run.code(1).says(&["takes this name for the same"]);
    // The one, the manifest, and what the program keeps for itself.
    assert_eq!(fs::read_dir(scene.root().join("dst")).unwrap().count(), 3);
}

/// What runs keep for themselves inherits no rights from the directory that it is in.
#[test]
fn the_private_directory_is_closed_to_others() {
    let Some(wine) = wine() else { return };
    let scene = Scene::new();
    scene.file("src/file", "content");
    wine.run("dircopy", &["-i", "src", "-o", "dst"], &scene).code(0);
    let mode =
        |name: &str| fs::metadata(scene.root().join(name)).unwrap().permissions().mode() & 0o777;
    // Wine shows what administrators may as what the group may, and does not hand the list on to what is made there.
    assert_eq!(mode("dst/.dircopy") & 0o007, 0);
    assert_ne!(mode("dst/file") & 0o004, 0);
    wine.run("dircopy", &["-i", "src", "-o", "dst"], &scene).code(0);
}

/// Trees that are damaged in different places are healed there, and are right by what judges here. What their states
/// are does not matter for the verdict.
/// Wine makes a list that denies something of permissions by which others may what the owner may not.
#[test]
fn access_lists_that_are_lost_are_named_and_counted() {
    let Some(wine) = wine() else { return };
    let scene = Scene::new();
    for name in ["a", "b", "c", "ordinary"] {
        scene.file(format!("src/{name}"), name);
    }
    for name in ["a", "b", "c"] {
        let mode = fs::Permissions::from_mode(0o066);
        fs::set_permissions(scene.root().join("src").join(name), mode).unwrap();
    }
    let run = wine.run("dircopy", &["src", "dst"], &scene);
    run.code(0).says(&["cannot copy the access list of", "not D:", "(D;"]);
    run.says(&["2 more like one above", "cannot copy the access list of"]);
    scene.verifies("dst", &mut ["a", "b", "c", "ordinary"]);
}

/// Wine makes permissions of lists again, as far as these can say it.
#[test]
fn access_lists_go_over_where_that_is_asked_for() {
    let Some(wine) = wine() else { return };
    let scene = Scene::new();
    let mode =
        |name: &str| fs::metadata(scene.root().join(name)).unwrap().permissions().mode() & 0o777;
    for name in ["src/denies", "src/ordinary"] {
        scene.file(name, name);
    }
    fs::set_permissions(scene.root().join("src/denies"), fs::Permissions::from_mode(0o466))
        .unwrap();
    let run = wine.run("dircopy", &["--windows-metadata", "src", "dst"], &scene);
    run.code(0);
    assert!(!run.all.contains("access list"), "{}", run.all);
    // Wine adds what the group may, and that a file may be run.
    assert_eq!((mode("dst/denies") & 0o606, mode("dst/ordinary")), (0o406, mode("src/ordinary")));
    // And that is so already.
    let run = wine.run("dircopy", &["--windows-metadata", "src", "dst"], &scene);
    run.code(0).says(&["unchanged   2 files"]);
}

#[test]
fn trees_are_healed_from_one_another() {
    let Some(wine) = wine() else { return };
    let scene = Scene::new();
    let mib = 1 << 20;
    let film: Vec<u8> = (0..9 * mib + 77).map(|at| (at % 251 + at / mib) as u8).collect();
    scene.file("src/film.mov", &film).file("src/dir/small", "small");
    scene.file("src/gone/away", &film[..2 * mib]);
    let flip = |name: &str, at: usize| {
        let file = File::options().read(true).write(true).open(scene.root().join(name)).unwrap();
        let (mut byte, was) = ([0], file.metadata().unwrap().modified().unwrap());
        file.read_exact_at(&mut byte, at as u64).unwrap();
        file.write_all_at(&[byte[0] ^ 1], at as u64).unwrap();
        file.set_modified(was).unwrap();
    };
    for tree in ["A", "B"] {
        wine.run("dircopy", &["-i", "src", "-o", tree], &scene).code(0);
    }
    flip("A/film.mov", mib);
    flip("B/film.mov", 5 * mib);
    flip("A/dir/small", 0);
    fs::remove_dir_all(scene.root().join("A/gone")).unwrap();
    let run = wine.run("dirverify", &["A"], &scene);
    run.code(4).says(&["film.mov", "1 MiB of 10: 1-2 MiB"]);
    wine.run("dircopy", &["heal", "--dry-run", "A", "B"], &scene).code(4);
    let modified = |name: &str| fs::metadata(scene.root().join(name)).unwrap().modified().unwrap();
    let was = modified("A/film.mov");
    let run = wine.run("dircopy", &["heal", "A", "B"], &scene);
    // Wine cannot rename over a file that is open: then it stays, and is named.
    if run.code == Some(4) {
        run.says(&["not healed: A", "film.mov", "cannot publish"]).says(&["healed: A", "away"]);
        assert_eq!(was, modified("A/film.mov"));
        for name in ["A/film.mov", "B/film.mov", "A/dir/small"] {
            let good = scene.root().join("src").join(&name[2..]);
            fs::copy(good, scene.root().join(name)).unwrap();
        }
    } else {
        run.code(0).says(&["healed: A", "film.mov", "1 MiB from B"]);
        run.says(&["healed: B", "film.mov", "1 MiB from A"]).says(&["healed", "4 files"]);
        assert_eq!(was, modified("A/film.mov"));
    }
    for tree in ["A", "B"] {
        scene.verifies(tree, &mut ["film.mov", "dir/small", "gone/away"]);
        let mut find = Command::new("find");
        find.args([tree, "-name", "*dircopy-part*"]).current_dir(scene.root());
        Run::of(&find.output().unwrap()).code(0);
        assert_eq!(Run::of(&find.output().unwrap()).all, "");
    }
    // A good file is not condemned by forged states, wherever it is read from.
    let side = fs::read_dir(scene.root().join("A")).unwrap().map(|entry| entry.unwrap().path());
    let side = side.filter(|path| path.extension() == Some(OsStr::new("states"))).max().unwrap();
    let mut bytes = fs::read(&side).unwrap();
    let (head, fixed, name) = (17, 52, bytes[21] as usize);
    let size = u64::from_le_bytes(bytes[head + 12..head + 20].try_into().unwrap()) as usize;
    let end = head + fixed + name + 32 * ((size - 1) / mib);
    bytes[head + fixed + name + 7] ^= 1;
    let sum: [u8; 32] = sha2::Digest::finalize(sha2::Digest::chain_update(
        <sha2::Sha256 as sha2::Digest>::new(),
        &bytes[head..end],
    ))
    .into();
    bytes[end..end + 8].copy_from_slice(&sum[..8]);
    fs::write(&side, bytes).unwrap();
    for from in ["medium", "cache"] {
        wine.run("dirverify", &["--from", from, "A"], &scene).code(0);
        native("dirverify", &["--from", from, "A", "-q"], &scene).code(0);
    }
}

/// Libraries that every Windows since 8 has.
const SYSTEM: [&str; 9] = [
    "advapi32.dll",
    "bcrypt.dll",
    "bcryptprimitives.dll",
    "kernel32.dll",
    "msvcrt.dll",
    "ntdll.dll",
    "user32.dll",
    "userenv.dll",
    "ws2_32.dll",
];

/// What a program needs besides the system is told by its table of imports.
#[test]
fn only_libraries_of_the_system_are_imported() {
    let Some(wine) = wine() else { return };
    for program in ["dircopy.exe", "dirverify.exe"] {
        let output = Command::new("x86_64-w64-mingw32-objdump")
            .arg("-p")
            .arg(wine.programs.join(program))
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stdout).to_lowercase();
        let dlls: Vec<&str> =
            text.lines().filter_map(|line| line.trim().strip_prefix("dll name: ")).collect();
        assert!(!dlls.is_empty(), "{program}");
        for dll in dlls {
            let known = SYSTEM.contains(&dll) || dll.starts_with("api-ms-win-");
            assert!(known, "{program} imports {dll}");
        }
    }
}
