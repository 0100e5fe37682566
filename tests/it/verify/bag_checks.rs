//! Checking BagIt bags: those of the reference implementation, and each rule of RFC 8493 broken by hand. A valid
//! bag ends with 0, any other not, and what is odd is said on standard error.

use std::process::Command;

use crate::harness::{Need, Run, Scene, Tree, have, shell};

const GOOD: &str = "770e607624d689265ca6c44884d0807d9b054d23c473c106c72be9de08b7376c";
const GOOD_MD5: &str = "755f85c2723bb39381c7379a604160d8";

/// A valid bag at the output, of version 1.0: two files that hold "good".
fn bag() -> Scene {
    let scene = Scene::new();
    let manifest = format!("{GOOD}  data/a\n{GOOD}  data/dir/b\n");
    scene
        .output()
        .file("data/a", "good")
        .file("data/dir/b", "good")
        .file("manifest-sha256.txt", manifest)
        .file("bag-info.txt", "Payload-Oxum: 8.2\nContact: a\n  b\n");
    declare(&scene, "1.0", "UTF-8");
    scene
}

fn declare(scene: &Scene, version: &str, encoding: &str) {
    let text = format!("BagIt-Version: {version}\nTag-File-Character-Encoding: {encoding}\n");
    scene.output().file("bagit.txt", text);
}

/// Writes the manifest: `@` stands for the digest of "good".
fn manifest(scene: &Scene, text: &str) {
    scene.output().file("manifest-sha256.txt", text.replace('@', GOOD));
}

#[track_caller]
fn check(scene: &Scene, code: i32) -> Run {
    super::check(scene, &["dst"], code)
}

fn without_payload(bag: &Tree) -> &Tree {
    std::fs::remove_dir_all(bag.path("data")).unwrap();
    bag
}

#[test]
fn a_valid_bag_is_valid() {
    let scene = bag();
    let run = check(&scene, 0);
    run.assert_prints(&["dst is a valid bag"]);
    assert!(run.stderr.is_empty(), "{}", run.err());
    scene.bare(["verify", "--manifest", "dst/bagit.txt"]).run().assert_code(0);
    scene.bare(["verify", "--manifest", "bagit.txt"]).after("cd dst").run().assert_code(0);
    // Each line end, upper case, tabs, and an empty payload.
    for end in ["\r\n", "\r"] {
        let text = format!("@\tdata/a{end}{}  data/dir/b{end}", GOOD.to_uppercase());
        manifest(&scene, &text);
        check(&scene, 0);
    }
    without_payload(&scene.output());
    scene.output().dir("data").file("bag-info.txt", "Payload-Oxum: 0.0\n");
    manifest(&scene, "");
    check(&scene, 0);
}

#[test]
fn a_file_with_another_content_is_not_valid_and_all_is_there() {
    let scene = bag();
    scene.output().file("data/a", "goop");
    let run = check(&scene, 4);
    run.assert_says("differs: dst/data/a").assert_prints(&["a complete bag, but not a valid one"]);
}

#[test]
fn what_is_missing_or_too_much_makes_a_bag_incomplete() {
    type Break = fn(&Tree) -> &Tree;
    let cases: [(&str, i32, Break); 17] = [
        ("missing: dst/data/a", 4, |it| it.remove("data/a")),
        ("not listed: dst/data/new", 4, |it| it.file("data/new", "")),
        ("not listed: dst/data/link", 4, |it| it.symlink("data/link", "a")),
        ("8 bytes in 2 files", 4, |it| it.append("data/a", b"x")),
        ("bag-info.txt", 4, |it| it.file("bag-info.txt", "payload-oxum: 8.3\n")),
        ("two Payload-Oxum", 5, |it| {
            it.file("bag-info.txt", "Payload-Oxum: 8.2\nPayload-Oxum: 8.2\n")
        }),
        ("no label", 5, |it| it.file("bag-info.txt", "nothing\n")),
        ("not of the form", 5, |it| it.file("bag-info.txt", "Payload-Oxum: 8.2\n  more\n")),
        ("no manifest of its payload", 4, |it| it.remove("manifest-sha256.txt")),
        ("algorithm that is known here", 5, |it| {
            let list = "00  data/a\n00  data/dir/b\n";
            it.remove("manifest-sha256.txt").file("manifest-sha3256.txt", list)
        }),
        ("not listed: dst/data/dir/b (in dst/manifest-md5.txt)", 4, |it| {
            it.file("manifest-md5.txt", format!("{GOOD_MD5}  data/a\n"))
        }),
        ("differs: dst/bag-info.txt", 4, |it| {
            let list = format!("{GOOD}  bag-info.txt\n{GOOD}  manifest-sha256.txt\n");
            it.file("tagmanifest-sha256.txt", list)
        }),
        ("not listed: dst/manifest-sha256.txt (in dst/tagmanifest-md5.txt)", 4, |it| {
            it.file("tagmanifest-md5.txt", "")
        }),
        ("1 of the files that it lists were not fetched", 4, |it| {
            it.remove("data/a").file("fetch.txt", "http://x/ 4 data/a\nhttp://x/ - data/dir/b\n")
        }),
        ("line 1 is not of the form", 5, |it| it.file("fetch.txt", "data/a\n")),
        ("leads out of the payload", 5, |it| it.file("fetch.txt", "http://x/ - ../a\n")),
        ("no such directory", 4, without_payload),
    ];
    for (words, code, break_it) in cases {
        let scene = bag();
        break_it(&scene.output());
        check(&scene, code).assert_says(words).assert_prints(&["not a"]);
    }
    let scene = bag();
    scene.output().file("bag-info.txt", "Payload-Oxum: 8.3\n");
    let run = check(&scene, 4);
    run.assert_prints(&["incomplete", "1 part"]);
    assert!(!run.out().contains("missing"), "no file is: {}", run.out());
}

/// The last line is the verdict: it does not say that a bag is valid of whose manifests one cannot be read.
#[test]
fn a_manifest_that_is_no_file_makes_no_valid_bag() {
    for deed in [
        "mv dst/manifest-sha256.txt m && ln -s ../m dst/manifest-sha256.txt",
        "ln -s nowhere dst/manifest-md5.txt",
        "mkfifo dst/manifest-md5.txt",
        "mkdir dst/manifest-md5.txt",
        "ln -s nowhere dst/tagmanifest-md5.txt",
    ] {
        let scene = bag();
        shell(&scene, deed);
        check(&scene, 5).assert_prints(&["dst is not a complete bag"]);
    }
}

#[test]
fn declarations_that_are_none_are_refused() {
    for (version, encoding) in [
        (" 1.0", "UTF-8"),
        ("1.0 ", "UTF-8"),
        ("1.0", "\tUTF-8"),
        ("3.0", "UTF-8"),
        ("1.0", "EBCDIC"),
    ] {
        let scene = bag();
        declare(&scene, version, encoding);
        check(&scene, 5).assert_says("dst/bagit.txt").assert_prints(&["not a complete bag"]);
    }
    for text in [
        "",
        "\u{feff}BagIt-Version: 1.0\nTag-File-Character-Encoding: UTF-8\n",
        "BagIt-Version: 1.0\n",
    ] {
        let scene = bag();
        scene.output().file("bagit.txt", text);
        check(&scene, 5).assert_says("dst/bagit.txt");
    }
}

#[test]
fn names_that_lead_out_of_a_bag_are_never_opened() {
    let names = [
        "../out",
        "/etc/hostname",
        "data/../../out",
        "~/x",
        "~root/x",
        "C:\\x",
        "\\\\?\\x",
        "%HomeDrive%/x",
        "data/%0A/../../../out",
        "bagit.txt",
        "data/",
        "data//a",
        "data",
    ];
    for name in names {
        let scene = bag();
        scene.tree(".").file("out", "good");
        manifest(&scene, &format!("@  data/a\n@  data/dir/b\n@  {name}\n"));
        check(&scene, 5).assert_says("refused: ").assert_says("line 3");
        for name in [name, "tagmanifest-md5.txt", "data/a"] {
            if name == "bagit.txt" || name.starts_with(['C', '\\', '%']) || name == "data" {
                continue;
            }
            let scene = bag();
            scene.tree(".").file("out", "good");
            scene.output().file("tagmanifest-sha256.txt", format!("{GOOD}  {name}\n"));
            let run = scene.bare(["verify", "dst"]).run();
            run.assert_code_in(&[4, 5]).assert_says("refused: ");
        }
    }
    // A list that lies elsewhere is none of the bag's, and a payload behind a link is not read.
    let scene = bag();
    scene.tree(".").file("list", format!("{GOOD}  data/a\n{GOOD}  data/dir/b\n"));
    scene.output().remove("manifest-sha256.txt").symlink("manifest-sha256.txt", "../list");
    check(&scene, 5).assert_says("manifest-sha256.txt");
    let scene = bag();
    scene.tree("away").file("a", "good").file("dir/b", "good");
    without_payload(&scene.output());
    scene.output().symlink("data", "../away");
    check(&scene, 4).assert_says("missing: dst/data/a");
}

#[test]
fn lines_that_are_none_are_named() {
    for (line, words) in [
        ("@", "no name"),
        ("abc  data/x", "not one of the algorithm"),
        ("@  data/a", "listed on an earlier line too"),
        ("@  data/a\0b", "NUL"),
    ] {
        let scene = bag();
        manifest(&scene, &format!("@  data/a\n@  data/dir/b\n{line}\n"));
        check(&scene, 5).assert_says(words).assert_says("line 3");
    }
    // An older bag may name a file twice, with one digest.
    let scene = bag();
    manifest(&scene, "@  data/a\n@  data/dir/b\n@  data/a\n");
    declare(&scene, "0.97", "UTF-8");
    check(&scene, 0).assert_says("listed twice");
    scene.output().file(
        "manifest-sha256.txt",
        format!("{GOOD}  data/a\n{GOOD}  data/dir/b\n{}  data/a\n", "0".repeat(64)),
    );
    check(&scene, 4).assert_says("different digests");
}

#[test]
fn odd_bags_are_valid_and_it_is_said() {
    let scene = bag();
    manifest(&scene, "@ *data/a\n@  ./data/dir/b\n");
    declare(&scene, "0.97", "UTF-8");
    check(&scene, 0).assert_says("notice: ").assert_says("marked with");
    // Each manifest must list all of the payload, whatever its digests are by.
    let scene = bag();
    let [a, b] = ["data/a", "data/dir/b"].map(|name| format!("00ff  {name}\n"));
    scene.output().file("manifest-sha3512.txt", [&*a, &b].concat());
    check(&scene, 0).assert_says("not known here");
    scene.output().file("manifest-sha3512.txt", &a);
    check(&scene, 4).assert_says("not listed: dst/data/dir/b (in dst/manifest-sha3512.txt)");
    scene.output().file("manifest-sha3512.txt", [&*a, &b, "00  data/gone\n"].concat());
    check(&scene, 4).assert_says("dst/data/gone: line 3 of dst/manifest-sha3512.txt lists it");
    scene.output().file("manifest-sha3512.txt", [&*a, &b, "00  data/../bagit.txt\n"].concat());
    check(&scene, 5).assert_says("refused: ");
    scene.output().file("manifest-sha3512.txt", [&*a, &b, "alone\n"].concat());
    check(&scene, 5).assert_says("malformed: line 3 of dst/manifest-sha3512.txt");
    // Names in UTF-16 and Latin-1.
    let scene = bag();
    scene.output().file("data/é", "good").file("bag-info.txt", "");
    let text = format!("{GOOD}  data/a\n{GOOD}  data/dir/b\n{GOOD}  data/é\n");
    declare(&scene, "0.97", "UTF-16");
    let wide: Vec<u8> =
        "\u{feff}".encode_utf16().chain(text.encode_utf16()).flat_map(u16::to_le_bytes).collect();
    scene.output().file("manifest-sha256.txt", &*wide);
    check(&scene, 0);
    // As Latin-1 its last name is another one.
    for (declared, code) in [("UTF-8", 5), ("ISO-8859-1", 4)] {
        declare(&scene, "0.97", declared);
        let other = "manifest-sha256.txt: it is UTF-16, and bagit.txt declares another encoding";
        check(&scene, code).assert_says(other);
    }
    declare(&scene, "0.97", "ISO-8859-1");
    let narrow: Vec<u8> = text.chars().map(|letter| letter as u8).collect();
    scene.output().file("manifest-sha256.txt", narrow);
    check(&scene, 0);
}

#[test]
fn escapes_in_names_are_taken_back() {
    let scene = bag();
    scene.output().file("data/l\nf", "good").file("data/c\rr", "good").file("data/100%25", "good");
    scene.output().file("bag-info.txt", "");
    let all = "@  data/a\n@  data/dir/b\n@  data/l%0af\n@  data/c%0Dr\n";
    manifest(&scene, &format!("{all}@  data/100%2525\n"));
    let run = check(&scene, 0);
    assert!(run.stderr.is_empty(), "{}", run.err());
    // As programs write it that forget "%".
    manifest(&scene, &format!("{all}@  data/100%25\n"));
    check(&scene, 0).assert_says("notice: ").assert_says("is taken for");
    declare(&scene, "0.97", "UTF-8");
    check(&scene, 0).assert_says("notice: ").assert_says("is taken for");
}

#[test]
fn bags_of_the_reference_implementation_are_valid_until_they_are_damaged() {
    if !have(&[Need::Program("bagit.py")]) {
        return;
    }
    let scene = Scene::new();
    let dst = scene.output();
    dst.file("a", "one")
        .file("dir/100% é", "two")
        .file("li\nne", "three")
        .file("c\rr", "")
        .file("big", vec![7; 300_000]);
    let made = Command::new("bagit.py")
        .args(["--md5", "--sha1", "--sha256", "--sha512", "--contact-name", "A: b"])
        .arg(&scene.dst)
        .output()
        .unwrap();
    assert!(made.status.success(), "{made:?}");
    check(&scene, 0).assert_prints(&["dst is a valid bag"]);
    for tag in ["bag-info.txt", "manifest-sha512.txt", "data/big"] {
        let mut bytes = dst.read(tag);
        bytes[5] ^= 1;
        dst.file(tag, &bytes);
        let run = scene.bare(["verify", "dst"]).run();
        run.assert_code_in(&[4]).assert_says(tag);
        bytes[5] ^= 1;
        dst.file(tag, &bytes);
    }
    check(&scene, 0);
}
