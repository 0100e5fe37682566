//! Histories of ASC MHL that contradict themselves, or name files without a digest that can be checked: none is good.

use std::fmt::Write as _;
use std::process::Command;

use crate::harness::{Need, Run, Scene, have, shell};

/// An entry of a file with a digest of `content`: by `md5` or `sha1`, and with an action.
pub fn entry(scene: &Scene, path: &str, digests: &[(&str, &str, &str)], previous: &str) -> String {
    let mut text = format!("<hash><path size=\"2\">{path}</path>");
    for (algorithm, content, action) in digests {
        let sum = shell(scene, &format!("printf '{content}' | {algorithm}sum | cut -d' ' -f1"));
        let (sum, date) = (sum.trim(), "hashdate=\"2026-01-01T00:00:00+00:00\"");
        let _ = write!(text, "<{algorithm} action=\"{action}\" {date}>{sum}</{algorithm}>");
    }
    if !previous.is_empty() {
        let _ = write!(text, "<previousPath>{previous}</previousPath>");
    }
    text + "</hash>"
}

/// An end of a generation's entries, with references to these generations further below `dir`.
pub fn references(scene: &Scene, dir: &str, to: &[&str]) -> String {
    let reference = |path: &&str| {
        let c4 = c4(scene, &format!("{dir}/{path}"));
        format!("<hashlistreference><path>{path}</path>{c4}</hashlistreference>")
    };
    let references = to.iter().map(reference).collect::<String>();
    format!("</hashes><references>{references}</references><hashes>")
}

/// The C4 of a file, as an element. It is SHA-512 as a number to the base 58, of 88 digits.
fn c4(scene: &Scene, at: &str) -> String {
    const DIGITS: &[u8; 58] = b"123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz";
    let sum = shell(scene, &format!("sha512sum < {at}"));
    let mut number: Vec<u32> = sum.chars().map_while(|digit| digit.to_digit(16)).collect();
    let mut c4: Vec<char> = Vec::new();
    for _ in 0..88 {
        let mut rest = 0;
        for digit in &mut number {
            let value = rest * 16 + *digit;
            (*digit, rest) = (value / 58, value % 58);
        }
        c4.push(DIGITS[rest as usize].into());
    }
    format!("<c4>c4{}</c4>", c4.iter().rev().collect::<String>())
}

/// Writes a history with these generations into `dir`.
pub fn history(scene: &Scene, dir: &str, generations: &[String]) {
    history_without(scene, dir, &["ascmhl"], generations);
}

/// The same, which leaves out what these patterns match.
pub fn history_without(scene: &Scene, dir: &str, patterns: &[&str], generations: &[String]) {
    let pattern = |pattern: &&str| format!("<pattern>{pattern}</pattern>");
    let patterns = patterns.iter().map(pattern).collect::<String>();
    shell(scene, &format!("rm -rf {dir}/ascmhl && mkdir -p {dir}/ascmhl"));
    let mut chain = String::new();
    for (number, entries) in (1..).zip(generations) {
        let name = format!("000{number}_c_2026-01-0{number}_000000Z.mhl");
        let text = format!(
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<hashlist version=\"2.0\" xmlns=\"urn:ASC:MHL:v2.0\"><creatorinfo>\
             <creationdate>2026-01-01T00:00:00+00:00</creationdate><hostname>h</hostname><tool version=\"1\">t</tool>\
             </creatorinfo><processinfo><process>in-place</process><ignore>{patterns}</ignore>\
             </processinfo><hashes>{entries}</hashes></hashlist>\n"
        );
        let at = format!("{dir}/ascmhl/{name}");
        scene.tree(".").file(&at, text);
        let _ = write!(
            chain,
            "<hashlist sequencenr=\"{number}\"><path>{name}</path>{}</hashlist>",
            c4(scene, &at)
        );
    }
    let chain = format!(
        "<ascmhldirectory xmlns=\"urn:ASC:MHL:DIRECTORY:v2.0\">{chain}</ascmhldirectory>\n"
    );
    scene.tree(".").file(format!("{dir}/ascmhl/ascmhl_chain.xml"), chain);
}

#[track_caller]
fn check(scene: &Scene, code: i32) -> Run {
    super::check(scene, &["dst"], code)
}

/// The reference implementation, where it is there, has this code.
#[track_caller]
fn reference(scene: &Scene, code: i32) {
    if have(&[Need::Program("ascmhl-debug")]) {
        let mut program = Command::new("ascmhl-debug");
        let made = program.args(["verify", "dst"]).current_dir(scene.root()).output().unwrap();
        assert_eq!(made.status.code(), Some(code), "{made:?}");
    }
}

#[test]
fn generations_that_contradict_each_other_are_never_good() {
    let scene = Scene::new();
    let one = |content, action| entry(&scene, "a", &[("md5", content, action)], "");
    for action in ["verified", "original", "bogus"] {
        history(&scene, "dst", &[one("xx", "original"), one("yy", action)]);
        for content in ["xx", "yy"] {
            scene.output().file("a", content);
            check(&scene, 4).assert_says("contradicted: dst/a").assert_says("0001_c_");
        }
        reference(&scene, 11);
    }
    // One that failed contradicts nothing; the first content counts.
    history(&scene, "dst", &[one("xx", "original"), one("yy", "failed")]);
    check(&scene, 4).assert_says("differs: dst/a");
    scene.output().file("a", "xx");
    check(&scene, 0);
    // A digest beside it that no such list may have is told.
    let more = entry(&scene, "a", &[("md5", "xx", "original"), ("sha256", "xx", "original")], "");
    history(&scene, "dst", &[more]);
    check(&scene, 0).assert_says("SHA-256, which no such list has");
    // Twice in one generation, and by another algorithm in a later one.
    history(&scene, "dst", &[one("xx", "original") + &one("yy", "original")]);
    check(&scene, 4).assert_says("with different digests");
    let sha1 = entry(&scene, "a", &[("sha1", "yy", "verified")], "");
    history(&scene, "dst", &[one("xx", "original"), sha1]);
    for content in ["xx", "yy"] {
        scene.output().file("a", content);
        check(&scene, 4).assert_says("differs: dst/a");
    }
}

#[test]
fn all_digests_of_an_entry_must_be_right() {
    let scene = Scene::new();
    scene.output().file("a", "xx");
    let both = |md5, sha1| {
        let digests = [("md5", md5, "original"), ("sha1", sha1, "original")];
        entry(&scene, "a", &digests, "")
    };
    history(&scene, "dst", &[both("xx", "xx")]);
    check(&scene, 0).assert_prints(&["good", "2 files"]);
    for (md5, sha1) in [("yy", "xx"), ("xx", "yy")] {
        history(&scene, "dst", &[both(md5, sha1)]);
        check(&scene, 4).assert_says("differs: dst/a");
    }
    let twice = [("md5", "xx", "original"), ("md5", "yy", "original")];
    history(&scene, "dst", &[entry(&scene, "a", &twice, "")]);
    check(&scene, 5).assert_says("two digests of one algorithm");
}

#[test]
fn a_file_with_another_name_is_what_it_was() {
    let scene = Scene::new();
    let of =
        |path, content, previous| entry(&scene, path, &[("md5", content, "original")], previous);
    history(&scene, "dst", &[of("a", "xx", ""), of("b", "xx", "a")]);
    scene.output().file("b", "xx");
    check(&scene, 0);
    // The old name is still there, and another file.
    scene.output().file("a", "yy");
    check(&scene, 4).assert_says("differs: dst/a");
    scene.output().remove("a").file("b", "yy");
    history(&scene, "dst", &[of("a", "xx", ""), of("b", "yy", "a")]);
    check(&scene, 4).assert_says("contradicted: dst/a");
    let sha1 = entry(&scene, "b", &[("sha1", "yy", "original")], "a");
    history(&scene, "dst", &[of("a", "xx", ""), sha1]);
    check(&scene, 4).assert_says("differs: dst/b");
    // A new file took the old name.
    scene.output().file("a", "zz").file("b", "xx");
    history(&scene, "dst", &[of("a", "xx", ""), of("b", "xx", "a"), of("a", "zz", "")]);
    check(&scene, 0);
}

#[test]
fn a_file_that_only_failed_and_is_missing_is_missing() {
    let scene = Scene::new();
    let failed = entry(&scene, "a", &[("md5", "yy", "failed")], "");
    let good = entry(&scene, "b", &[("md5", "xx", "original")], "");
    scene.output().file("b", "xx");
    history(&scene, "dst", &[failed.clone() + &good]);
    check(&scene, 4).assert_says("cannot find dst/a");
    scene.output().file("a", "yy");
    check(&scene, 1)
        .assert_says("not checked: a file that dst/ascmhl/0001_c_")
        .assert_says("failed");
    reference(&scene, 21);
    // What another generation has is checked by that one.
    let good = entry(&scene, "a", &[("md5", "yy", "original")], "");
    for generations in [[good.clone(), failed.clone()], [failed, good]] {
        history(&scene, "dst", &generations);
        check(&scene, 0);
    }
}

#[test]
fn a_list_of_nothing_but_failures_checks_nothing() {
    let scene = Scene::new();
    let failed = entry(&scene, "a", &[("md5", "yy", "failed")], "");
    scene.output().file("a", "yy");
    history(&scene, "dst", &[failed.clone(), failed]);
    check(&scene, 5).assert_says("nothing to verify: dst/ascmhl/0002_c_");
    reference(&scene, 21);
    let list = "dst/ascmhl/0001_c_2026-01-01_000000Z.mhl";
    scene.bare(["verify", "--manifest", list]).run().assert_code(5);
}

#[test]
fn files_that_a_history_leaves_out_need_not_be_there() {
    let scene = Scene::new();
    let of = |path| entry(&scene, path, &[("md5", "xx", "original")], "");
    let both = of("a") + &of("d/b.tmp") + &of("cache/e/c");
    scene.output().file("a", "xx");
    history(&scene, "dst", std::slice::from_ref(&both));
    check(&scene, 4).assert_says("missing: dst/d/b.tmp").assert_says("missing: dst/cache/e/c");
    reference(&scene, 10);
    history_without(
        &scene,
        "dst",
        &["ascmhl", "# a", "*.tmp", "cache/"],
        std::slice::from_ref(&both),
    );
    let run = check(&scene, 0);
    run.assert_says("2 that its history leaves out are not there");
    reference(&scene, 0);
    // The newest generation says it.
    history_without(&scene, "dst", &["ascmhl", "*.tmp"], &[both, of("a")]);
    check(&scene, 4).assert_says("missing: dst/cache/e/c");
    // One that is there is checked.
    scene.output().file("d/b.tmp", "yy").file("cache/e/c", "xx");
    check(&scene, 4).assert_says("differs: dst/d/b.tmp");
}

#[test]
fn xml_that_is_not_utf_8_is_named() {
    let scene = Scene::new();
    scene.output().file("a", "xx");
    let list = "<?xml version=\"1.0\"?>\n<hashlist version=\"1.1\"><hash><file>a</file>\
                <md5>00</md5></hash></hashlist>\n";
    let le: Vec<u8> = list.encode_utf16().flat_map(u16::to_le_bytes).collect();
    let be: Vec<u8> = list.encode_utf16().flat_map(u16::to_be_bytes).collect();
    let marked = [b"\xff\xfe".as_slice(), &le].concat();
    for bytes in [marked, [b"\xfe\xff".as_slice(), &be].concat(), le, be] {
        scene.output().file("x.mhl", bytes);
        let run = scene.bare(["verify", "--manifest", "dst/x.mhl"]).run();
        run.assert_code(5).assert_says("line 1 of dst/x.mhl: it is XML in UTF-16");
        run.assert_says("iconv -f UTF-16 -t UTF-8");
    }
    let latin = list.replace("\"1.0\"", "\"1.0\" encoding=\"ISO-8859-1\"");
    scene.output().file("x.mhl", latin);
    let run = scene.bare(["verify", "--manifest", "dst/x.mhl"]).run();
    run.assert_code(5).assert_says("declares another encoding than UTF-8");
}

#[test]
fn a_history_that_nothing_refers_to_is_checked() {
    let scene = Scene::new();
    let of = |path, content| entry(&scene, path, &[("md5", content, "original")], "");
    history(&scene, "dst", &[of("a", "xx")]);
    history(&scene, "dst/in/d", &[of("n", "xx")]);
    scene.output().file("a", "xx").file("in/d/n", "xx");
    check(&scene, 0);
    scene.output().file("in/d/n", "yy");
    check(&scene, 4).assert_says("differs: dst/in/d/n");
    // The chain with the directory that it is of.
    let chain = "dst/ascmhl/ascmhl_chain.xml";
    scene.bare(["verify", "dst", "--manifest", chain]).run().assert_code(4);
    scene.output().file("in/d/n", "xx");
    scene.bare(["verify", "dst", "--manifest", chain]).run().assert_code(0);
    // One that is gone but for its directory.
    scene.output().dir("b/ascmhl");
    check(&scene, 4).assert_says("dst/b/ascmhl: it is the directory of a history");
    reference(&scene, 32);
    shell(&scene, "rm -r dst/b/ascmhl dst/in/d/ascmhl/*");
    check(&scene, 4).assert_says("dst/in/d/ascmhl: it is the directory of a history");
}

#[test]
fn a_file_that_a_history_leaves_out_is_not_called_missing() {
    let scene = Scene::new();
    let of = |path| entry(&scene, path, &[("md5", "xx", "original")], "");
    history(&scene, "dst", &[of("a") + &of(".DS_Store")]);
    scene.output().file("a", "xx").file(".DS_Store", "xx");
    shell(&scene, "cp -p dst/a dst/.DS_Store src");
    let run = scene.copy(&["--format", "mhl", "--verify"]);
    run.assert_code(0);
    assert!(!String::from_utf8_lossy(&run.stderr).contains("are not there"));
}

#[test]
fn legacy_entries_without_a_known_digest_are_not_called_good() {
    let scene = Scene::new();
    let list = |entries: &str| {
        let text = format!("<hashlist version=\"1.1\">\n{entries}</hashlist>\n");
        scene.output().file("x.mhl", text);
    };
    let run = |code| {
        let run = scene.bare(["verify", "--manifest", "dst/x.mhl"]).run();
        run.assert_no_crash();
        run.assert_code(code);
        run
    };
    let good = "<hash><file>a</file><xxhash64be>0ea03b369a463d9d</xxhash64be></hash>\n";
    let others =
        "<hash><file>b</file><xxhash>1234</xxhash></hash><hash><file>c</file><null/></hash>\n";
    scene.output().file("a", "abcd\n").file("b", "").file("c", "");
    list(&format!("{good}{others}"));
    run(1).assert_says("2 files that dst/x.mhl lists have no digest").assert_says("XXH32");
    scene.output().remove("c");
    run(4).assert_says("cannot find the listed file dst/c");
    list("<hash><file>b</file><xxhash>1234</xxhash></hash>");
    run(5).assert_says("the digest is XXH32, which cannot be checked");
    list("<hash><file>a</file><hash><file>b</file><md5>x</md5></hash></hash>");
    run(5).assert_says("in another one");
}

/// As the reference, which ends with 21.
#[test]
fn a_history_that_lists_no_file_proves_nothing() {
    let scene = Scene::new();
    scene.output().file("a", "xx");
    history(&scene, "dst", &[String::new()]);
    check(&scene, 5).assert_says("lists no file");
    reference(&scene, 21);
}

/// Two digests that begin alike are two.
#[test]
fn digests_that_differ_in_their_end_contradict_each_other() {
    let scene = Scene::new();
    scene.output().file("a", "xx");
    let good = "5dde896887f6754c9b15bfe3a441ae4806df2fde94001311e08bf110622e0bbe";
    let other = format!("{}0", &good[..63]);
    std::fs::write(scene.path("list"), format!("{good}  a\n{other}  a\n")).unwrap();
    let run = scene.bare(["verify", "--manifest", "list", "dst"]).run();
    run.assert_code(4);
}

/// Files of a history further below are on its own list, and no others are.
#[test]
fn what_a_history_below_lists_is_listed() {
    if !have(&[Need::Program("ascmhl")]) {
        return;
    }
    let scene = Scene::new();
    scene.output().file("a", "1").file("n/b", "2");
    shell(&scene, "ascmhl create -h md5 dst/n && ascmhl create -h md5 dst");
    let complete = || scene.bare(["verify", "--complete", "dst"]).run();
    complete().assert_code(0);
    scene.output().file("n/more", "3").file("other", "4");
    let run = complete();
    run.assert_code(4).assert_says("not listed: dst/n/more").assert_says("not listed: dst/other");
    assert_eq!(run.err().matches("not listed").count(), 2, "{}", run.err());
}
