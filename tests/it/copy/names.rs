//! Names are bytes: every name without `/` and NUL goes over, through the manifest too, and none of
//! them drives a terminal.

use proptest::collection::{btree_map, vec};
use proptest::prelude::*;

use crate::harness::{Scene, content, leftover_name, need, shell};

/// Each of these broke some copier or some manifest.
fn odd_names() -> Vec<Vec<u8>> {
    let names: &[&[u8]] = &[
        b"plain.txt",
        b"new\nline",
        b"\nleading",
        b"trailing\n",
        b"carriage\rreturn",
        b"dos\r\n",
        b"back\\slash",
        b"back\\nslash that is no line feed",
        b"\\",
        b"both\\\n\r",
        b" leading space",
        b"trailing space ",
        b"  ",
        b"-rf",
        b"-",
        b"--",
        b"*star",
        b"**",
        b"?[a-z]{x,y}!",
        b"tab\there",
        b"\xff\xfe not UTF-8",
        b"\xc3",
        "na\u{ef}ve".as_bytes(),
        "nai\u{308}ve".as_bytes(),
        "\u{1f980}".as_bytes(),
        "right\u{202e}left".as_bytes(),
        b"\x1b[31mred\x07",
        b"\x7f\x01",
        b"'single' \"double\" `back`",
        b"$(touch /tmp/x);&|<>",
        b"#comment",
        b"%0A",
        b"~",
        b".hidden",
        b"...",
        b"..a",
        b"CON",
        b"a:b",
        b"dot.",
        b"SHA256 (x) = y",
        b"aux.sha256sum",
        b"0000000000000000000000000000000000000000000000000000000000000000  name",
    ];
    let mut names: Vec<_> = names.iter().map(|name| name.to_vec()).collect();
    names.push(vec![b'n'; 255]);
    names.push("\u{e9}".repeat(127).into_bytes());
    names
}

#[test]
fn every_odd_name_round_trips() {
    let scene = Scene::new();
    for (i, name) in odd_names().iter().enumerate() {
        scene.src.file(name, content(i));
        scene.src.file([b"dir ", &name[..name.len().min(200)], b"/", name].concat(), content(5000));
    }
    let run = scene.copy(&[]);
    scene.judge(&run).complete();
    let run = scene.copy(&[]);
    scene.judge(&run).complete();
}

/// A name that is already as long as a name may be leaves no room for a longer temp name.
#[test]
fn names_like_ours_are_names_like_others() {
    let scene = Scene::new();
    let names = [
        "x.dircopy-part",
        ".dircopy-part",
        ".aB3dE6.dircopy-part",
        "sub/y.dircopy-part",
        "x.part",
        "dircopy-20200101T000000Z.sha256sum",
        "dircopy-20200101T000000Z.sha256sum.part",
        "dircopy-20200101T000000Z-1.sha256sum",
        "sub/dircopy-20200101T000000Z.sha256sum",
        "sha256sum",
    ];
    for (i, name) in names.iter().enumerate() {
        scene.src.file(name, content(i + 10));
    }
    for _ in 0..2 {
        let run = scene.copy(&[]);
        scene.judge(&run).complete().lists(&names);
    }
}

/// The second run carries digests over from an earlier manifest. One that came from the source,
/// with a time in the future, is just a file.
#[test]
fn a_false_manifest_in_the_source_is_not_believed() {
    let scene = Scene::new();
    scene.src.file("a", content(1000)).file("b", content(300_000));
    let wrong = "0".repeat(64);
    for name in ["dircopy-20200101T000000Z.sha256sum", "dircopy-20991231T235959Z.sha256sum"] {
        scene.src.file(name, format!("{wrong}  a\n{wrong}  b\n{wrong}  ../a\n{wrong}  gone\n"));
        scene.src.mtime(name, 4_000_000_000, 0);
    }
    for _ in 0..3 {
        let run = scene.copy(&[]);
        scene.judge(&run).complete();
    }
}

/// What goes to the screen is escaped, whatever the reason it goes there.
#[test]
fn odd_names_are_shown_harmlessly() {
    let cases: &[(&[u8], &str)] = &[
        (b"a\nb", r#""a\nb""#),
        (b"\xff", r#""\xff""#),
        (b"red\x1b[31m", r#""red\x1b[31m""#),
        (b"cr\rx", r#""cr\rx""#),
        (b"plain name", "plain name"),
        ("caf\u{e9}".as_bytes(), "caf\u{e9}"),
    ];
    for (name, shown) in cases {
        let scene = Scene::new();
        scene.src.file(name, content(10)).fifo([b"fifo ", *name].concat());
        scene.output().file(name, content(20));
        let run = scene.copy(&["-v"]);
        run.assert_code(1).assert_says(shown);
        let rest = shown.trim_matches('"');
        assert!(
            run.err().lines().any(|l| l.contains("fifo ") && l.contains(rest)),
            "{}",
            run.err()
        );
        for stream in [&run.stdout, &run.stderr] {
            let raw = |b: &u8| (b.is_ascii_control() && *b != b'\n') || *b == 0xff;
            assert!(!stream.iter().any(raw), "raw bytes: {}", stream.escape_ascii());
        }
    }
}

fn a_name() -> impl Strategy<Value = Vec<u8>> {
    vec(any::<u8>().prop_filter("no name has it", |b| !matches!(b, 0 | b'/')), 1..60)
        .prop_filter("not ours to choose", |name| name != b"." && name != b"..")
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..Default::default() })]

    #[test]
    fn any_name_round_trips(files in btree_map(a_name(), 0..20_000usize, 0..12), dir in a_name()) {
        let scene = Scene::new();
        for (name, len) in &files {
            scene.src.file(name, content(*len));
            if *name != dir {
                scene.src.dir(".in").file([b".in/", &dir[..], b"/", name].concat(), content(*len / 2));
            }
        }
        // There may be none.
        let run = scene.copy(&["--allow-empty"]);
        run.assert_code(0);
        scene.judge(&run).same_tree().lists_all().verifies().no_leftovers();
    }
}

/// What looks like a part file of a killed run and is in the source is a file like any other.
#[test]
fn a_part_files_name_in_the_source_is_never_swept() {
    let scene = Scene::new();
    let ours = ".a1B2c3D4e5.dircopy-part";
    scene.src.file(ours, "a file").file(format!("dir/{ours}"), "another");
    scene.copy(&[]).assert_code(0);
    let output = scene.output();
    let stale = &*leftover_name(&scene.dst);
    output.file(stale, "left behind").file(format!("dir/{stale}"), "left behind");
    let run = scene.copy(&[]);
    run.assert_code(0).assert_says(stale);
    let dir_ours = format!("dir/{ours}");
    scene.judge(&run).same_bytes().lists(&[ours, dir_ours.as_str()]).verifies();
}

/// What is called as the directories that runs keep for themselves, and is none, is a file of the user's.
#[test]
fn a_file_called_as_a_private_directory_is_named() {
    let scene = Scene::new();
    scene.src.file(".dircopy", "mine").file(".dircopy-trash", "mine too").file("a", "a");
    let run = scene.copy(&["-q"]);
    run.assert_code(1).assert_says("src/.dircopy: runs keep what is called so for themselves");
    run.assert_says("src/.dircopy-trash: runs keep");
    scene.copy(&["-q", "--exclude", "/.dircopy*"]).assert_code(0);
}

/// A directory of the user's that somebody gave the name of what runs keep was hidden from every run, and a mirror moved
/// its copy away.
#[test]
fn a_directory_called_as_a_private_one_is_named() {
    for name in [".dircopy", ".dircopy-trash"] {
        let scene = Scene::new();
        scene.src.file("theirs/film", "the only one").file("a", "a");
        scene.copy(&["--mirror"]).assert_code(0);
        shell(&scene, &format!("mv src/theirs src/{name}"));
        let run = scene.copy(&["-q", "--mirror", "--max-delete=100%", "--keep-trash=1s"]);
        run.assert_code(1)
            .assert_says(&format!("src/{name}: runs keep what is called so for themselves"));
        run.assert_says("nothing was moved");
        assert!(scene.dst.join("theirs/film").exists());
        let plan = scene.bare(["plan", "src", "other", "--plan", "plan"]).run();
        plan.assert_code(1).assert_says(&format!("src/{name}: runs keep"));
        // So is one with a directory that is called like that of parity.
        shell(&scene, &format!("mkdir aside; mv src/{name} aside/parity; mv aside src/{name}"));
        scene.copy(&["-q", "--mirror"]).assert_code(1);
        shell(
            &scene,
            &format!("mv src/{name}/parity aside; rmdir src/{name}; mv aside src/{name}"),
        );
        // What runs keep there is passed over, whoever's they are.
        shell(&scene, &format!("mv src/{name} aside; cp -a dst/.dircopy src/.dircopy"));
        scene.src.file(".dircopy-trash/2026-11-21T020000Z/old", "old");
        let run = scene.copy(&["--mirror", "--max-delete=100%"]);
        run.assert_code(0)
            .assert_says("skipped .dircopy-trash: it is what runs to another output keep");
        // Also where no copy was made, but parity.
        scene.tree("tree").file("a", "a");
        shell(&scene, "cd tree && sha256sum a > dircopy-20260101T000000Z.sha256sum");
        scene.ended(&["protect", "tree"], 0);
        scene.ended(&["-q", "tree", "copied"], 0);
    }
}

/// Nor is it by what is in it that another user's directory is hidden: it may look like trash, or hold a record of
/// whoever renamed it.
#[test]
fn another_users_directory_is_none_that_runs_keep() {
    need!(Root);
    for (name, file) in [(".dircopy-trash", "2026-11-21T020000Z/film"), (".dircopy", "film")] {
        let scene = Scene::new();
        scene.src.file(format!("theirs/{file}"), "the only one").file("a", "a");
        shell(&scene, "chmod 777 src");
        scene.copy(&["--mirror"]).assert_code(0);
        shell(&scene, "cp dst/.dircopy/record src/theirs/ && chown -R 4242:4242 src/theirs");
        shell(&scene, &format!("mv src/theirs src/{name}"));
        let run = scene.copy(&["-q", "--mirror", "--max-delete=100%"]);
        run.assert_code(1).assert_says(&format!("src/{name}: runs keep what is called so"));
        assert!(scene.dst.join("theirs").join(file).exists());
        // What is somebody else's in a directory of the root's owner is none either, though all else there looks right.
        let rest = if name == ".dircopy" { "chown 0:0" } else { "rm" };
        shell(&scene, &format!("chown 0:0 src/{name} && {rest} src/{name}/record"));
        scene.copy(&["-q", "--mirror", "--max-delete=100%"]).assert_code(1);
        assert!(scene.dst.join("theirs").join(file).exists());
    }
}
