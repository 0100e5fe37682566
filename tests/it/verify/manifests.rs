//! Checking a tree against its manifest: hostile manifests are harmless, and nothing passes that
//! should not. Each test fails for a checker that has the fault it is named after.

use std::fs::OpenOptions;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::harness::{NONE, Run, SOON, Scene, Strace, content, need, shell, skipped};

/// The digest of "good".
const GOOD: &str = "770e607624d689265ca6c44884d0807d9b054d23c473c106c72be9de08b7376c";
const ZERO: &str = "0000000000000000000000000000000000000000000000000000000000000000";

/// A tree with a few good files and no manifest.
fn scene() -> Scene {
    let scene = Scene::new();
    scene.output().file("a", "good").file("dir/b", "good").file("z", "good");
    scene
}

/// Writes a manifest beside the output: `@` stands for the digest of "good", `0@` for a wrong one.
fn listing(scene: &Scene, text: &str) {
    raw_listing(scene, text.replace("0@", ZERO).replace('@', GOOD));
}

fn raw_listing(scene: &Scene, bytes: impl AsRef<[u8]>) {
    scene.tree(".").file("list", bytes);
}

/// Checks the output against that manifest.
#[track_caller]
fn check(scene: &Scene, args: &[&str]) -> Run {
    let args = [&["verify", "--manifest", "list", "dst"], args].concat();
    let run = scene.bare(args).run();
    run.assert_no_crash();
    run
}

#[track_caller]
fn check_of(scene: &Scene, text: &str, code: i32) -> Run {
    listing(scene, text);
    let run = check(scene, &["-v"]);
    run.assert_code(code);
    run
}

fn copied() -> Scene {
    let scene = Scene::new();
    scene.src.file("a", content(5000)).file("dir/b", content(2_000_000)).file("empty", "");
    scene.copy(&["-q"]).assert_code(0);
    scene
}

#[test]
fn what_was_copied_is_good() {
    let scene = copied();
    for args in [&["verify", "dst"][..], &["verify", "dst", "--complete", "-j", "1"]] {
        let run = scene.bare(args).run();
        run.assert_code(0).assert_prints(&["3", "files"]);
        assert!(run.stderr.is_empty(), "{}", run.err());
    }
    let run = scene.bare(["-v", "dst"]).dirverify().run();
    run.assert_code(0).assert_prints(&["OK", "dst/dir/b"]).assert_prints(&["OK", "dst/empty"]);
    scene.bare(NONE).dirverify().after("cd dst").run().assert_code(0);
    let run = scene.bare(["-q", "dst"]).dirverify().run();
    run.assert_code(0);
    assert!(run.stdout.is_empty() && run.stderr.is_empty());
}

#[test]
fn every_kind_of_damage_is_named() {
    let scene = copied();
    scene.output().append("a", b"x").remove("empty");
    let run = scene.bare(["verify", "dst"]).run();
    run.assert_code(4).assert_says("differs: dst/a").assert_says("missing: dst/empty");
    assert_eq!(run.err().lines().count(), 2, "{}", run.err());
    // In the middle of a large file, with size and time as they were.
    let scene = copied();
    let mut bytes = scene.output().read("dir/b");
    bytes[1_234_567] ^= 0x10;
    scene.output().file("dir/b", bytes);
    scene.bare(["verify", "-q", "dst"]).run().assert_code(4).assert_says("differs: dst/dir/b");
}

#[test]
fn the_newest_finished_manifest_of_ours_counts() {
    let scene = scene();
    let (dst, line) = (scene.output(), format!("{GOOD}  a\n"));
    dst.file("dircopy-20250101T000000Z.sha256sum", "old nonsense\n")
        .file("dircopy-20260101T000000Z-2.sha256sum", "old nonsense\n")
        .file("dircopy-20260101T000000Z-10.sha256sum", &line)
        .file("dircopy-notes.sha256sum", "nonsense\n")
        .file("dircopy-20270101T000000Z.sha256sum.part", "nonsense\n")
        .dir("dircopy-20280101T000000Z.sha256sum")
        .symlink("dircopy-20290101T000000Z.sha256sum", "dircopy-notes.sha256sum");
    let run = scene.bare(["verify", "dst"]).run();
    run.assert_code(0).assert_says("dircopy-20270101T000000Z.sha256sum.part");
}

#[test]
fn without_a_manifest_nothing_is_proven() {
    let scene = scene();
    let run = scene.bare(["verify", "dst"]).run();
    run.assert_code(5).assert_says("it is no output of dircopy: it has no manifest");
    run.assert_prints(&["NOT PROVEN (exit 5): nothing was checked, for want of a manifest"]);
    // What is not there is said as that.
    for args in [&["verify", "nowhere"][..], &["verify", "-m", "nolist", "dst"]] {
        scene.bare(args).run().assert_code(5).assert_prints(&[
            "NOT PROVEN (exit 5): nothing was checked: a directory or list that was named is not there",
        ]);
    }
    // The output is beside what was named.
    scene.bare(["dst", "disk"]).run().assert_code(0);
    shell(&scene, "mkdir -p top && mv disk top/out");
    scene
        .bare(["verify", "top"])
        .run()
        .assert_code(5)
        .assert_says("there is one in top/out: name that");
    scene.bare(["verify", "top/out/dir"]).run().assert_code(5).assert_says("top/out");
    shell(&scene, "mkdir two && cp -a top/out two/a && cp -a top/out two/b");
    scene.bare(["verify", "two"]).run().assert_code(5).assert_says("name each (two/*)");
    // One whose manifest went, and one that has only the tree of a generation that was cut short.
    shell(&scene, "rm top/out/dircopy-*");
    let run = scene.bare(["verify", "top/out"]).run();
    run.assert_code(5).assert_says("dircopy was here, and there is no finished manifest");
    run.assert_says("it was removed, or its run made none");
    // A plan that is not finished, and a bag.
    shell(&scene, "mkdir seed && echo a >seed/a");
    scene.bare(["plan", "seed", "planned", "--plan", "plan"]).run().assert_code(0);
    let run = scene.bare(["verify", "planned"]).run();
    run.assert_code(5).assert_says("no run has come to its end").assert_says("dircopy finish");
    scene.bare(["seed", "bag", "--bag"]).run().assert_code(0);
    shell(&scene, "rm bag/bagit.txt");
    scene
        .bare(["verify", "bag"])
        .run()
        .assert_code(5)
        .assert_says("a bag that is not finished")
        .assert_says("healed");
    std::fs::write(scene.path("seed/large"), content(300_000)).unwrap();
    let slow = ["seed", "nights", "--generations", "--limit-rate", "100K"];
    let mut night = scene.bare(slow).spawn();
    night.until("a manifest that is begun", || {
        shell(&scene, "ls nights/*.part/dircopy-*.part 2>/dev/null || true").contains("dircopy-")
    });
    night.signal(Signal::KILL);
    night.wait();
    let run = scene.bare(["verify", "nights"]).run();
    run.assert_code(5).assert_says("Z.part: there is only").assert_says("cut short");
    std::fs::create_dir(scene.path("mount point")).unwrap();
    let run = scene.bare(["verify", "mount point"]).run();
    run.assert_code(5).assert_says("it is empty: is its disk mounted?");
    scene.output().file("dircopy-20270101T000000Z.sha256sum.part", format!("{GOOD}  a\n"));
    let run = scene.bare(["verify", "dst"]).run();
    run.assert_code(5).assert_says("20270101T000000Z.sha256sum.part").assert_says("cut short");
    for args in [["verify", "nowhere"], ["verify", "dst/a"], ["verify", "--manifest=nowhere"]] {
        scene.bare(args).run().assert_code(5).assert_no_crash();
    }
    scene.bare(["verify", "--manifest", "dst"]).run().assert_code(5).assert_says("directory");
}

#[test]
fn names_that_lead_out_are_refused() {
    let outside = ["../out", "/etc/hostname", "dir/../../out", "..", "/", "dir/..", "a/", "dir//b"];
    let windows = ["C:\\x", "c:/x", "\\\\srv\\share\\x", "\\x"];
    for name in outside.into_iter().chain(windows) {
        let scene = scene();
        scene.tree(".").file("out", "good");
        let run = check_of(&scene, &format!("@  {name}\n@  a\n"), 5);
        run.assert_says("refused").assert_says("line 1").assert_prints(&["OK", "dst/a"]);
        assert!(!run.out().contains("OK dst/../"), "{}", run.out());
    }
    let scene = scene();
    check_of(&scene, "@  ../out\n0@  a\n", 4).assert_says("differs: dst/a");
}

#[test]
fn what_is_refused_or_no_file_is_not_opened() {
    need!(Strace);
    let scene = scene();
    scene.tree(".").file("out", "good");
    scene.output().fifo("fifo").socket("socket").symlink("link", "a").symlink("way", "dir");
    listing(&scene, "@  ../out\n@  fifo\n@  socket\n@  link\n@  way/b\n@  dir\n@  z\n@  a/b\n");
    let strace = Strace::watch(&scene, Strace::OPENS);
    let run = strace.run(scene.bare(["verify", "--manifest", "list", "dst"]));
    run.assert_code(4);
    for told in ["dst/fifo", "dst/socket", "dst/link", "dst/way/b", "dst/dir", "dst/a/b"] {
        run.assert_says(told);
    }
    let opened = strace.log();
    assert!(opened.contains("\"z\""), "{opened}");
    for name in ["\"fifo\"", "\"socket\"", "\"link\"", "\"out\"", "\"..", "\"b\""] {
        assert!(!opened.contains(name), "{name}\n{opened}");
    }
}

#[test]
fn devices_are_missing_files() {
    need!(Root, Device);
    let scene = scene();
    scene.output().device("null");
    check_of(&scene, "@  null\n", 4).assert_says("a device");
}

#[test]
fn every_way_to_write_a_line_is_read() {
    let upper = GOOD.to_uppercase();
    for text in [
        "@  a\n@  dir/b\n",
        "@ *a\n@ *dir/b\n",
        "@  a\r\n@  dir/b\r\n",
        "\u{feff}@  a\n@  dir/b\n",
        "@  ./a\n@  ./dir/b",
        "SHA256 (a) = @\nSHA256 (dir/b) = @\n",
        "SHA2-256(a)= @\nSHA256(dir/b)= @\n",
        "\\@  a\n# a comment\n\n@  dir/b\n",
        &format!("{upper}  a\n{upper} *dir/b\r\n"),
    ] {
        let run = check_of(&scene(), text, 0);
        run.assert_prints(&["OK", "dst/a"]).assert_prints(&["OK", "dst/dir/b"]);
        assert!(run.stderr.is_empty(), "{text}\n{}", run.err());
    }
}

#[test]
fn what_sha256sum_writes_of_odd_names_is_read() {
    let scene = Scene::new();
    let odd: [&[u8]; 8] =
        [b"a\nb", b"c\rd", b"e\\f", b" lead", b"*star", b"\xff\xfe", b"C:\\x", b"tail "];
    for name in odd {
        scene.src.file(name, name);
    }
    for tool in ["sha256sum", "sha256sum -b", "sha256sum --tag", "shasum -a 256", "openssl sha256"]
    {
        let word = tool.split(' ').next().unwrap();
        if shell(&scene, &format!("command -v {word} || true")).is_empty() {
            skipped(&format!("no {word}"));
            continue;
        }
        // openssl and older shasum do not escape.
        let names = if word == "sha256sum" { "*" } else { "[!ac]*" };
        shell(
            &scene,
            &format!("cd src && {tool} -- {names} > ../list || {tool} {names} > ../list"),
        );
        let run = scene.bare(["verify", "--manifest", "list", "src"]).run();
        run.assert_code_in(if word == "sha256sum" { &[0] } else { &[0, 4, 5] }).assert_no_crash();
    }
    scene.copy(&["-q"]).assert_code(0);
    let run = scene.bare(["verify", "--complete", "dst"]).run();
    run.assert_code(0);
    assert!(run.stderr.is_empty(), "{}", run.err());
}

#[test]
fn utf_16_is_read_with_a_notice() {
    let scene = scene();
    let text = format!("{GOOD}  a\r\n{ZERO}  dir/b\r\n");
    let bytes = std::iter::once(0xfeff).chain(text.encode_utf16()).flat_map(u16::to_le_bytes);
    raw_listing(&scene, bytes.collect::<Vec<_>>());
    let run = check(&scene, &["-v"]);
    run.assert_code(4).assert_says("UTF-16").assert_prints(&["OK", "dst/a"]);
    run.assert_says("differs: dst/dir/b");
}

#[test]
fn malformed_lines_are_named_and_the_rest_is_checked() {
    let scene = scene();
    for bad in ["hello", "@", "@ ", "abc  a", "@ab  a", "\u{e9}\u{e9}\u{e9}", "0@0  a", "x@  a"] {
        let run = check_of(&scene, &format!("@  z\n{bad}\n@  a\n"), 5);
        run.assert_says("line 2 of list").assert_prints(&["OK", "dst/z"]);
        run.assert_prints(&["OK", "dst/a"]);
    }
    let mut bytes = format!("{GOOD}  nul\0byte\n{GOOD}  a\n").into_bytes();
    bytes.extend_from_slice(b"\xff\xff\xff\n");
    raw_listing(&scene, bytes);
    let run = check(&scene, &["-v"]);
    run.assert_code(5).assert_says("line 1 of list").assert_says("line 3 of list");
    run.assert_prints(&["OK", "dst/a"]);
    check_of(&scene, "MD5 (a) = 00\n0@  a\n", 4).assert_says("MD5").assert_says("differs");
}

#[test]
fn digests_of_other_algorithms_beside_good_ones_are_a_notice() {
    let scene = scene();
    let run = check_of(&scene, "@  a\nSHA384 (a) = 00\nSHA384 (z) = 00\n@  z\n", 0);
    run.assert_says("notice: 2 lines of list").assert_says("SHA384, on line 2");
    run.assert_prints(&["OK", "dst/a"]).assert_prints(&["OK", "dst/z"]);
    run.assert_prints(&["every listed file is as listed, but 2 lines have no digest"]);
    // The tags of RHash, filled up, and digests as long as those in SFV.
    let rhash = "CRC32C (a) = 12345678\nTIGER (a) = 00\nMD4   (a) = 00\nSHA256 (a) = @\n";
    check_of(&scene, rhash, 0).assert_says("notice: 3 lines of list").assert_says("CRC32C");
    check_of(&scene, "SHA384 (a) = 00\n", 5).assert_says("SHA384, which cannot be checked");
    // What is not there is missing, whatever its digest is by.
    let table = "Algorithm,Hash,Path\nSHA256,@,a\nSHA384,00,none\n";
    for lines in ["@  a\nWHIRLPOOL (none) = 00\n", table] {
        check_of(&scene, lines, 4).assert_says("cannot find the listed file dst/none: line");
    }
    check_of(&scene, "@  a\nWHIRLPOOL (../up) = 00\n", 5).assert_says("refused: ../up");
    // One that other lines list too is told once.
    let run = check_of(&scene, "SHA384 (none) = 00\n@  a\n@  none\n", 4);
    assert_eq!(run.err().matches("none").count(), 1, "{}", run.err());
    // Tables of other algorithms that are known here are checked by these.
    let table = "Algorithm,Hash,Path\nSHA256,@,a\nMD5,00000000000000000000000000000000,z\n";
    check_of(&scene, table, 4).assert_says("dst/z").assert_says("differs");
}

#[test]
fn files_without_a_digest_that_can_be_checked_are_not_good() {
    let scene = scene();
    scene.output().file("b\nc", "x").file("b", "x");
    for list in [
        "@  a\nSHA384 (z) = 00\n",
        "@  a\nSHA384 (z) = 00\nWHIRLPOOL (z) = 00\n",
        "@  a\n\\SHA384 (b\\nc) = 00\n",
        "@  a\0SHA384 (z) = 00\0",
        "SHA384 (b) = 00\0SHA256 (a) = @\0",
        "#mtree\na sha256=@\nz sha384=00\n",
        "Algorithm,Hash,Path\nSHA256,@,a\nSHA384,00,z\n",
    ] {
        let run = check_of(&scene, list, 1);
        run.assert_says("not checked: a file that list lists has no digest that can be checked");
        run.assert_prints(&["OK", "dst/a"]);
        run.assert_prints(&["not checked", "1 listed file"]);
        run.assert_prints(&["not every listed file has a digest that can be checked"]);
    }
    for list in ["@  a\n\\SHA384 (n\\no) = 00\n", "@  a\0SHA384 (n\no) = 00\0"] {
        check_of(&scene, list, 4).assert_says("cannot find the listed file");
    }
    // They are listed all the same.
    listing(&scene, "@  a\nSHA384 (z) = 00\n");
    let run = check(&scene, &["--complete"]);
    run.assert_code(4).assert_says("not listed");
    assert!(!run.err().contains("dst/z"), "{}", run.err());
    // Lines of other algorithms that end with NUL are checked.
    let md5 = "d41d8cd98f00b204e9800998ecf8427e";
    check_of(&scene, &format!("{md5}  a\0{md5}  z\0"), 4).assert_says("differs: dst/a");
}

#[test]
fn every_digest_of_a_row_is_compared_or_told() {
    let scene = scene();
    let (right, wrong) = (shell(&scene, "md5sum dst/a | head -c 32"), "0".repeat(32));
    for (md5, code) in [(right.trim(), 0), (&wrong, 4)] {
        let columns = "%%%% HASHDEEP-1.0\n%%%% size,md5,sha256,filename\n## \n";
        for list in [format!("{columns}4,{md5},@,a\n"), format!("#mtree\na md5={md5} sha256=@\n")] {
            let run = check_of(&scene, &list, code);
            assert_eq!(run.err().contains("differs: dst/a"), code == 4, "{}", run.err());
            assert!(!run.err().contains("every digest"), "{}", run.err());
        }
    }
    let tiger = format!("%%%% HASHDEEP-1.0\n%%%% size,tiger,sha256,filename\n4,{wrong},@,a\n");
    for list in [tiger, "#mtree\na sha384=00 sha256=@\n".to_owned()] {
        check_of(&scene, &list, 0).assert_says("compare every digest of each file in list");
    }
}

#[test]
fn a_signed_list_that_is_cut_off_is_told() {
    let scene = scene();
    let begin = "-----BEGIN PGP SIGNED MESSAGE-----\nHash: SHA512\n\n@  a\n";
    check_of(&scene, begin, 0).assert_says("ends before its signature");
    let sealed = "-----BEGIN PGP SIGNATURE-----\n\nabc\n-----END PGP SIGNATURE-----\n";
    let run = check_of(&scene, &[begin, sealed].concat(), 0);
    assert!(!run.err().contains("signature"), "{}", run.err());
}

#[test]
fn lists_of_other_programs() {
    let scene = scene();
    let lists = [
        "; made by hand\n@  a\n@  z\n",
        "-----BEGIN PGP SIGNED MESSAGE-----\nHash: SHA512\n\n@  a\n@  z\n\
         -----BEGIN PGP SIGNATURE-----\n\niQ=\n-----END PGP SIGNATURE-----\n",
        "@  a\0@  z\0",
        "\"Algorithm\",\"Hash\",\"Path\"\r\n\"SHA256\",\"@\",\"a\"\r\n\"SHA256\",\"@\",\"z\"\r\n",
        "#mtree\n./a type=file sha256digest=@\n./z type=file size=1 \\\n sha256=@\n. type=dir\n",
    ];
    for list in lists {
        let run = check_of(&scene, list, 0);
        run.assert_prints(&["OK", "dst/a"]).assert_prints(&["OK", "dst/z"]);
    }
    // None of them leads out of the directory.
    check_of(&scene, "#mtree\n.. type=dir\n../a sha256=@\nx\\057..\\057..\\057a sha256=@\n", 5);
}

#[test]
fn a_name_twice() {
    let scene = scene();
    check_of(&scene, "@  a\n@  z\n@  a\n@  ./a\n", 0).assert_says("listed twice: dst/a (lines 1");
    check_of(&scene, "@  a\n0@  a\n", 4).assert_says("different digests");
    check_of(&scene, "0@  a\n@  a\n", 4).assert_says("different digests");
}

#[test]
fn nothing_to_verify() {
    let scene = scene();
    for text in ["", "\n\n", "# nothing\n", "\u{feff}"] {
        check_of(&scene, text, 5).assert_says("nothing to verify");
    }
    // All lines are bad: that is said once for each line.
    check_of(&scene, "?\n", 5).assert_says("line 1");
}

#[test]
fn a_line_of_fifty_megabytes() {
    let scene = scene();
    shell(&scene, "(head -c 50000000 /dev/zero | tr '\\0' a; echo) > list");
    shell(&scene, &format!("echo '{GOOD}  a' >> list"));
    // Names as long as a line may be: one that is refused, one that cannot exist.
    for filler in ["/", "b"] {
        let name = format!("head -c 200000 /dev/zero | tr '\\0' {filler}");
        shell(&scene, &format!("(echo -n '{GOOD}  '; {name}; echo) >> list"));
    }
    let command = scene.bare(["verify", "-v", "-j", "2", "--manifest", "list", "dst"]);
    let run = command.after("ulimit -v 300000").run();
    run.assert_code(4).assert_says("line 1 of list").assert_prints(&["OK", "dst/a"]);
    run.assert_says("50000000").assert_says("line 3 of list").assert_says("line 4 of list");
    assert!(run.err().lines().all(|line| line.len() < 4000), "{}", run.err().len());
}

/// A manifest of dircopy ends with LF; what does not was cut off, maybe within a name.
#[test]
fn a_cut_off_line_of_ours_says_nothing() {
    let scene = scene();
    let text = format!("{GOOD}  dir/b\n{GOOD}  a");
    scene.output().file("dircopy-20260101T000000Z.sha256sum", &text);
    let run = scene.bare(["verify", "-v", "dst"]).run();
    run.assert_code(5).assert_says("line 2").assert_says("cut off");
    scene.output().file("dircopy-20260102T000000Z.sha256sum.part", &text);
    let part = "dst/dircopy-20260102T000000Z.sha256sum.part";
    scene.bare(["verify", "-m", part]).run().assert_code(0).assert_says("cut off");
    check_of(&scene, &text, 0);
}

#[test]
fn files_that_are_not_listed() {
    let scene = copied();
    scene.output().file("dir/new", "x").file("dir/sub/\u{1b}[2J", "x").symlink("link", "/etc");
    scene.bare(["verify", "dst"]).run().assert_code(0);
    let run = scene.bare(["verify", "--complete", "dst"]).run();
    run.assert_code(4).assert_says("not listed: dst/dir/new").assert_says("\\x1b[2J");
    assert_eq!(run.err().lines().count(), 2, "{}", run.err());
    // Two manifests of one root are one list; a manifest that lies there is not missed on it.
    let scene = self::scene();
    scene.output().file("one", format!("{GOOD}  a\n")).file("two", format!("{GOOD}  dir/b\n"));
    let two = ["verify", "--complete", "-m", "dst/one", "-m", "dst/two"];
    let run = scene.bare(two).run();
    run.assert_code(4).assert_says("not listed: dst/z");
    assert_eq!(run.err().lines().count(), 1, "{}", run.err());
}

#[test]
fn several_directories_are_each_checked() {
    let scene = copied();
    shell(&scene, "cp -a dst good; cp -a dst bad; echo >> bad/a; mkdir none");
    let run = scene.bare(["-v", "good", "none", "bad", "dst"]).dirverify().run();
    run.assert_code(4).assert_says("differs: bad/a").assert_says("none");
    run.assert_prints(&["OK", "good/a"]).assert_prints(&["OK", "dst/a"]);
    run.assert_prints(&["good", "8"]);
    scene.bare(["good", "none", "dst"]).dirverify().run().assert_code(5);
    scene.bare(["good", "dst"]).dirverify().run().assert_code(0);
    // One manifest against several copies.
    shell(&scene, "cp dst/dircopy-*.sha256sum m");
    scene.bare(["-m", "m", "good", "dst", "src"]).dirverify().run().assert_code(0);
}

#[test]
fn where_names_start() {
    let scene = scene();
    listing(&scene, "@  a\n");
    scene.bare(["verify", "-m", "list"]).run().assert_code(4).assert_says("missing: a (");
    scene.bare(["verify", "-m", "list", "--root", "dst"]).run().assert_code(0);
    scene.bare(["verify", "-m", "list", "dst"]).run().assert_code(0);
    shell(&scene, "cp list dst/list");
    scene.bare(["verify", "-m", "dst/list"]).run().assert_code(0);
    let from_pipe = "cat list | \"$@\"";
    scene.bare(["verify", "-m", "-", "dst"]).in_shell(from_pipe).run().assert_code(0);
    let here = "cd dst; cat ../list | \"$@\"";
    scene.bare(["verify", "-m", "-"]).in_shell(here).run().assert_code(0);
    scene.bare(["verify", "-m", "-"]).in_shell(from_pipe).run().assert_code(4);
    for twice in [["-m", "-", "-m", "-"], ["-m", "-", "dst", "src"]] {
        scene.bare(twice).dirverify().run().assert_code(2);
    }
}

#[test]
fn backslashes_as_separators() {
    let scene = scene();
    let list = "@  dir\\b\n@  a\n@  ..\\a\n";
    check_of(&scene, list, 4)
        .assert_says("missing: dst/dir\\b (line 1")
        .assert_says("--convert-paths");
    listing(&scene, "@  dir\\b\n@  a\n@  z\n");
    let run = check(&scene, &["--convert-paths", "--complete"]);
    run.assert_code(0).assert_says("taken for dir/b");
    listing(&scene, "@  ..\\list\n@  a\n");
    check(&scene, &["--convert-paths"]).assert_code(5).assert_says("refused");
    // The exact name comes first.
    scene.output().file("dir\\b", "other");
    listing(&scene, "@  dir\\b\n");
    check(&scene, &["--convert-paths"]).assert_code(4).assert_says("differs");
}

#[test]
fn the_list_of_what_failed() {
    let scene = scene();
    scene.output().file("new\nline", "other").fifo("fifo");
    listing(&scene, "@  a\n\\0@  new\\nline\n@  gone\n@  fifo\n@  ../x\nbad\n0@  z\n");
    check(&scene, &["--list-failed", "failed"]).assert_code(4);
    let sorted = |text: &[u8], end: u8| {
        let mut lines: Vec<_> = text.split(|&b| b == end).map(<[u8]>::to_vec).collect();
        lines.sort();
        lines
    };
    let lf: &[u8] = b"\ndst/fifo\ndst/gone\ndst/new\\nline\ndst/z";
    assert_eq!(sorted(&scene.tree(".").read("failed"), b'\n'), sorted(lf, b'\n'));
    check(&scene, &["--list-failed", "failed", "--null"]).assert_code(4);
    let nul: &[u8] = b"\0dst/fifo\0dst/gone\0dst/new\nline\0dst/z";
    assert_eq!(sorted(&scene.tree(".").read("failed"), 0), sorted(nul, 0));
    check(&scene, &["--list-failed", "no/where"]).assert_code(2);
    check(&scene, &["-0"]).assert_code(2);
    listing(&scene, "@  a\n");
    check(&scene, &["--list-failed", "failed"]).assert_code(0);
    assert!(scene.tree(".").read("failed").is_empty());
    listing(&scene, "0@  a\n");
    check(&scene, &["--list-failed", "/dev/full"]).assert_code(4).assert_says("list of failed");
}

#[test]
fn what_cannot_be_read_is_exit_1() {
    need!(Setpriv);
    let scene = scene();
    scene.output().mode("a", 0o000);
    shell(&scene, "chmod 755 . dst; mkdir dst/shut; echo > dst/shut/x; chmod 700 dst/shut");
    listing(&scene, "@  a\n@  z\n@  shut/x\n");
    let command = || scene.bare(["verify", "-m", "list", "dst"]).under_nobody();
    let run = command().run();
    run.assert_code(1).assert_says("cannot open dst/a").assert_says("dst/shut");
    listing(&scene, "@  a\nbad\n");
    command().run().assert_code(5);
    listing(&scene, "@  a\nbad\n0@  z\n");
    command().run().assert_code(4);
}

#[test]
fn a_read_error_is_exit_1() {
    need!(Strace);
    let scene = scene();
    listing(&scene, "@  a\n@  z\n");
    let strace = Strace::inject(&scene, Strace::READS, "error=EIO").on(scene.dst.join("a"));
    let run = strace.run(scene.bare(["verify", "-m", "list", "dst"]));
    strace.fired(&run);
    run.assert_code(1).assert_says("cannot read dst/a").assert_prints(&["good", "1"]);
}

#[test]
fn bad_usage_of_verify() {
    let scene = copied();
    for args in [
        &["verify", "--workers", "0", "dst"][..],
        &["verify", "--from", "memory", "dst"],
        &["verify", "-q", "-v", "dst"],
        &["verify", "--no-such-option"],
        &["-i", "src", "-o", "other", "verify", "dst"],
        &["verify", "-i", "src"],
    ] {
        scene.bare(args).run().assert_code(2);
    }
    let run = scene.bare(["verify", "--help"]).run();
    run.assert_code(0).assert_prints(&["--manifest"]).assert_prints(&["130"]);
    scene.bare(["--version"]).dirverify().run().assert_code(0).assert_prints(&["dirverify"]);
}

#[test]
fn a_full_or_closed_stdout_is_no_success() {
    let scene = copied();
    let full = || OpenOptions::new().write(true).open("/dev/full").unwrap();
    for args in [&["verify", "dst"][..], &["verify", "-v", "dst"]] {
        scene.bare(args).stdout(full()).run().assert_no_crash().assert_code(1);
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        scene.bare(args).stdout(writer).run().assert_no_crash().assert_code(1);
        let closed = scene.bare(args).in_shell("exec \"$@\" >&- 2>&-").run();
        closed.assert_no_crash().assert_code(1);
    }
    scene.output().append("a", b"x");
    scene.bare(["verify", "-v", "dst"]).stdout(full()).run().assert_code(4);
}

#[test]
fn an_interrupt_ends_it_also_while_it_waits_for_a_manifest() {
    for (signal, code) in [(Signal::INT, 130), (Signal::TERM, 143)] {
        let scene = scene();
        shell(&scene, "mkfifo pipe");
        let line = "exec 3<> pipe; echo ready > ready; exec \"$@\" < pipe";
        let mut running = scene.bare(["verify", "-m", "-", "dst"]).in_shell(line).spawn();
        running.until("it waits", || scene.path("ready").exists());
        running.until_it_listens();
        std::thread::sleep(Duration::from_millis(300));
        let asked = Instant::now();
        running.signal(signal);
        running.wait().assert_code(code).assert_no_crash();
        assert!(asked.elapsed() < SOON);
    }
}

#[test]
fn many_files_of_all_sizes_on_many_workers() {
    let scene = Scene::new();
    for i in 0..300usize {
        let len = if i % 60 == 7 { 3_000_000 } else { i * 7 };
        scene.src.file(format!("d{}/f{i}", i % 7), content(len));
    }
    scene.copy(&["-q"]).assert_code(0);
    for jobs in ["1", "2", "8"] {
        let run = scene.bare(["verify", "--complete", "-j", jobs, "dst"]).run();
        run.assert_code(0).assert_prints(&["good", "300"]);
    }
    shell(&scene, "for f in dst/d*/f*7; do echo >> $f; done");
    let wrong = shell(&scene, "ls dst/d*/f*7 | wc -l");
    let run = scene.bare(["verify", "-j", "8", "dst"]).run();
    run.assert_code(4).assert_prints(&["differ", wrong.trim()]);
}

#[test]
fn a_tree_deeper_than_a_path_can_say() {
    let scene = Scene::new();
    let script = "cd src; n=$(printf 'd%.0s' {1..200}); \
                  for i in {1..30}; do mkdir $n; cd $n; done; echo deep > file";
    shell(&scene, script);
    scene.copy(&["-q"]).assert_code(0);
    scene.bare(["verify", "--complete", "dst"]).run().assert_code(0).assert_prints(&["good", "1"]);
}

/// A list may be anyone's, and its lines shorter than what is said of each.
#[test]
fn of_lines_that_are_of_no_use_a_hundred_are_named() {
    let scene = scene();
    listing(&scene, &format!("@  a\n{}", "x\n".repeat(20_000)));
    let run = check(&scene, &["--log", "log", "--report", "report.json"]);
    run.assert_code(5).assert_says("19900 more are not named, only counted");
    assert_eq!(run.err().matches("malformed: line ").count(), 100, "{}", run.err());
    let here = scene.tree(".");
    let (log, report) = (here.read("log"), here.read("report.json"));
    assert!(log.len() + report.len() < 100_000, "{} and {} bytes", log.len(), report.len());
    let report: serde_json::Value = serde_json::from_slice(&report).unwrap();
    assert_eq!(report["checked"]["malformed"], 20_000);
    assert!(String::from_utf8_lossy(&log).contains("19900 more are not named"));
}

/// Where others may write, they can give the name to any file of this user's.
#[test]
fn what_is_no_list_of_what_failed_is_not_emptied() {
    need!(Root);
    let scene = scene();
    listing(&scene, "0@  a\n@  gone\n");
    shell(&scene, "mkdir up; chown 1001 up");
    for args in [&["up/failed"][..], &["up/failed", "--null"], &["up/failed.json"]] {
        let (list, args) = (args[0], [&["--list-failed"], args].concat());
        shell(&scene, &format!("echo notes >{list}"));
        check(&scene, &args).assert_code(2).assert_says("is no list of what failed in this check");
        assert_eq!(shell(&scene, &format!("cat {list}")), "notes\n");
        shell(&scene, &format!("rm {list}"));
        for _ in 0..2 {
            check(&scene, &args).assert_code(4);
            assert_eq!(
                shell(&scene, &format!("grep -ao gone {list} | uniq; stat -c %a {list}")),
                "gone\n600\n"
            );
        }
        shell(&scene, &format!("rm {list}"));
    }
}

/// What was read of another directory says nothing of the one that is at the path by now.
#[test]
fn a_tree_that_is_exchanged_meanwhile_is_told() {
    need!(Strace);
    for (args, code) in [
        (&["verify", "dst"][..], 1),
        (&["verify", "dst", "good"], 1),
        (&["verify", "--manifest", "dst/list", "--root", "dst"], 1),
        (&["verify", "dst", "--max-bytes", "1G"], 1),
    ] {
        let scene = copied();
        shell(
            &scene,
            "cp -a dst good; cp dst/*.sha256sum dst/list; mkdir other; echo rot >other/a",
        );
        let strace = Strace::inject(&scene, Strace::READS, "signal=SIGSTOP:when=1");
        let strace = strace.exactly_on(scene.path("dst/a"));
        let run = strace.run_stopped(scene.bare(args), || {
            shell(&scene, "mv dst aside; mv other dst");
        });
        run.assert_code(code);
        run.assert_says("cannot check dst: it was unmounted, moved or replaced meanwhile");
    }
}
