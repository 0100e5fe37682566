//! Checking by Media Hash Lists: histories that the reference implementation of ASC MHL wrote, with each way to
//! break them, legacy lists, and hostile ones.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use crate::harness::{Need, Run, Scene, have};

/// The XXH64 of "abcd\n".
const ABCD: &str = "0ea03b369a463d9d";

#[track_caller]
fn check(scene: &Scene, code: i32) -> Run {
    super::check(scene, &["-v", "dst"], code)
}

/// A new generation by the reference implementation, in another second than the last.
fn generation(root: &Path, args: &[&str]) -> i32 {
    std::thread::sleep(Duration::from_millis(1010));
    let made = Command::new("ascmhl").arg("create").args(args).arg(root).output().unwrap();
    made.status.code().unwrap()
}

fn legacy(scene: &Scene, entries: &str) {
    let text = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<hashlist version=\"1.1\"><creatorinfo>\
         <username>u</username><hostname>h</hostname><tool>t</tool></creatorinfo>\n{entries}</hashlist>\n"
    );
    scene.output().file("dst_2026-01-01_000000.mhl", text);
}

#[track_caller]
fn check_legacy(scene: &Scene, code: i32) -> Run {
    super::check(scene, &["-v", "--manifest", "dst/dst_2026-01-01_000000.mhl"], code)
}

#[test]
fn a_legacy_list_is_checked() {
    let scene = Scene::new();
    scene.output().file("A/x & y", "abcd\n").file("b", "abcd\n").file("c", "");
    let entries = format!(
        "<hash><file>A/x &amp; y</file><size>5</size><xxhash64be>{ABCD}</xxhash64be></hash>\n\
         <hash><file>b</file><size>5</size><md5>F5AC8127B3B6B85CDC13F237C6005D80</md5></hash>\n\
         <hash><file>c</file><size>0</size><sha1>da39a3ee5e6b4b0d3255bfef95601890afd80709</sha1></hash>\n"
    );
    legacy(&scene, &entries);
    let run = check_legacy(&scene, 0);
    run.assert_prints(&["OK", "dst/A/x & y"]).assert_prints(&["good", "3 files"]);
    let list = scene.output().read("dst_2026-01-01_000000.mhl");
    scene.tree(".").file("list", list);
    scene.bare(["verify", "--manifest", "-", "dst"]).in_shell("\"$@\" < list").run().assert_code(0);
    scene.output().file("b", "abcx\n").remove("c");
    check_legacy(&scene, 4).assert_says("differs: dst/b (line 4").assert_says("missing: dst/c");
    legacy(&scene, "<hash><file>b</file><xxhash>1234</xxhash></hash>");
    check_legacy(&scene, 5).assert_says("XXH32");
}

#[test]
fn hostile_lists_are_harmless() {
    let scene = Scene::new();
    scene.output().file("a", "abcd\n");
    scene.tree(".").file("out", "abcd\n");
    let entry =
        |name: &str| format!("<hash><file>{name}</file><xxhash64be>{ABCD}</xxhash64be></hash>\n");
    for name in ["../out", "/etc/hostname", "a/../../out", "&#46;&#46;/out", "C:\\x", "", "a/"] {
        legacy(&scene, &(entry("a") + &entry(name)));
        check_legacy(&scene, 5).assert_says("refused: ").assert_prints(&["OK", "dst/a"]);
    }
    let bomb =
        "<!DOCTYPE x [<!ENTITY a \"aaaa\"><!ENTITY b \"&a;&a;\">]><hashlist version=\"1.1\"/>";
    let cases = [
        (bomb.to_owned(), "document type"),
        (format!("<hashlist version=\"1.1\">{}", entry("&b;")), "entity"),
        (format!("<hashlist version=\"1.1\">{}", entry("a")), "cut off"),
        (format!("<hashlist version=\"1.1\">{}", "<a>".repeat(1_000_000)), "too deep"),
        (format!("<hashlist version=\"1.1\">{}", entry(&"x".repeat(20_000_000))), "longer than"),
        (format!("<hashlist version=\"1.1\" {}/>", "a=\"\" ".repeat(1000)), "attributes"),
        ("<hashlist version=\"7\"/>".to_owned(), "not known"),
        ("<?xml version=\"1.0\"?><html/>".to_owned(), "no Media Hash List"),
        (
            "<hashlist version=\"1.1\"><hash><file>a</file></hash></hashlist>".to_owned(),
            "no digest",
        ),
        (
            format!(
                "<hashlist version=\"1.1\"><hash><file>a</file><xxhash64be>{ABCD}</xxhash64be>\
                 <xxhash64be>0000000000000000</xxhash64be></hash></hashlist>"
            ),
            "two digests of one algorithm",
        ),
        ("<hashlist version=\"1.1\"></hashlist>".to_owned(), "lists no file"),
    ];
    for (text, words) in cases {
        scene.output().file("dst_2026-01-01_000000.mhl", text);
        check_legacy(&scene, 5).assert_says(words);
    }
    legacy(&scene, &(entry("a") + &entry("a").replace(ABCD, "0000000000000000")));
    check_legacy(&scene, 4).assert_says("different digests");
}

#[test]
fn a_history_of_the_reference_implementation_is_checked() {
    if !have(&[Need::Program("ascmhl")]) {
        return;
    }
    let scene = Scene::new();
    let dst = scene.output();
    dst.file("Clips/x.mov", "abcd\n").file("Card/y", "def\n").file("Card/old & odd", "renamed");
    assert_eq!(generation(&dst.path("Card"), &["-h", "md5"]), 0);
    assert_eq!(generation(&scene.dst, &["-h", "xxh64"]), 0);
    let run = check(&scene, 0);
    run.assert_prints(&["OK", "dst/Clips/x.mov"]).assert_prints(&["OK", "dst/Card/y"]);
    // A file more, one under another name, and another algorithm.
    std::fs::rename(dst.path("Card/old & odd"), dst.path("Card/new")).unwrap();
    dst.file("Clips/more", "more");
    assert_eq!(generation(&scene.dst, &["-h", "xxh128", "-dr"]), 0);
    let run = check(&scene, 0);
    run.assert_prints(&["OK", "dst/Clips/more"]).assert_prints(&["OK", "dst/Card/new"]);
    scene.bare(["verify", "--manifest", "dst/ascmhl/ascmhl_chain.xml"]).run().assert_code(0);
    // What is damaged fails, in the check and in a generation, whose failed digest is never taken.
    dst.file("Clips/x.mov", "abcx\n");
    check(&scene, 4).assert_says("differs: dst/Clips/x.mov");
    assert_eq!(generation(&scene.dst, &["-h", "xxh64"]), 11);
    check(&scene, 4).assert_says("differs: dst/Clips/x.mov");
    dst.file("Clips/x.mov", "abcd\n");
    check(&scene, 0);
    dst.file("Card/y", "deg\n").remove("Clips/more");
    check(&scene, 4).assert_says("differs: dst/Card/y").assert_says("missing: dst/Clips/more");
}

#[test]
fn a_history_that_was_touched_is_named() {
    if !have(&[Need::Program("ascmhl")]) {
        return;
    }
    let made = Scene::new();
    made.output().file("Clips/x.mov", "abcd\n").file("Card/y", "def\n");
    assert_eq!(generation(&made.output().path("Card"), &["-h", "c4"]), 0);
    assert_eq!(generation(&made.dst, &["-h", "sha1"]), 0);
    check(&made, 0);
    type Break = fn(&str) -> String;
    let cases: [(&str, Break, &str); 6] = [
        (
            "differs: dst/ascmhl/0001_dst",
            |first| format!("sed -i 's/in-place/transfer/' {first}"),
            "4",
        ),
        ("missing: dst/ascmhl/0001_dst", |first| format!("rm {first}"), "4"),
        (
            "not listed: dst/ascmhl/0002_x.mhl",
            |first| format!("cp {first} dst/ascmhl/0002_x.mhl"),
            "4",
        ),
        ("cannot read the chain", |_| "rm dst/ascmhl/ascmhl_chain.xml".to_owned(), "5"),
        (
            "gap",
            |_| {
                "sed -i 's/sequencenr=\"1\"/sequencenr=\"2\"/' dst/ascmhl/ascmhl_chain.xml"
                    .to_owned()
            },
            "4",
        ),
        (
            "cannot open the history dst/Card/ascmhl",
            |_| "mv dst/Card/ascmhl away; ln -s ../../away dst/Card/ascmhl".to_owned(),
            "4",
        ),
    ];
    for (words, break_it, code) in cases {
        let scene = Scene::new();
        let line = format!("cp -a {}/. dst; {}", made.dst.display(), break_it("dst/ascmhl/0001_*"));
        let run = scene.bare(["verify", "dst"]).after(&line).run();
        run.assert_no_crash();
        run.assert_code(code.parse().unwrap()).assert_says(words);
    }
}

/// The chain has its digest all the same.
#[test]
fn an_empty_generation_is_none() {
    let scene = Scene::new();
    let c4 = "c459dsjfscH38cYeXXYogktxf4Cd9ibshE3BHUo6a58hBXmRQdZrAkZzsWcbWtDg5oQstpDuni4Hirj75GEmTc1sFT";
    let chain = format!(
        "<ascmhldirectory xmlns=\"urn:ASC:MHL:DIRECTORY:v2.0\"><hashlist sequencenr=\"1\"><path>0001_dst.mhl</path>\
         <c4>{c4}</c4></hashlist></ascmhldirectory>"
    );
    scene
        .output()
        .file("a", "1")
        .file("ascmhl/0001_dst.mhl", "")
        .file("ascmhl/ascmhl_chain.xml", chain);
    check(&scene, 5).assert_says("no element");
    scene.src.file("a", "1");
    let run = scene.copy(&["--format", "mhl"]);
    run.assert_code(2).assert_says("no element").assert_says("nothing was touched");
}

#[test]
fn a_chain_that_leads_out_is_refused() {
    let scene = Scene::new();
    let c4 = "c459dsjfscH38cYeXXYogktxf4Cd9ibshE3BHUo6a58hBXmRQdZrAkZzsWcbWtDg5oQstpDuni4Hirj75GEmTc1sFT";
    for name in ["../out.mhl", "/etc/passwd", "a/b.mhl", "..", ""] {
        scene.tree(".").file("out.mhl", "");
        let chain = format!(
            "<ascmhldirectory xmlns=\"urn:ASC:MHL:DIRECTORY:v2.0\"><hashlist sequencenr=\"1\"><path>{name}</path>\
             <c4>{c4}</c4></hashlist></ascmhldirectory>"
        );
        scene.output().file("ascmhl/ascmhl_chain.xml", chain);
        check(&scene, 5).assert_says("not in the directory of the chain");
    }
}
