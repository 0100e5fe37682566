//! Histories of ASC MHL that are held against a copy, what they leave out, and lists of ours beside a copy.

use crate::harness::{Run, Scene, shell};
use crate::verify::contradictions::{entry, history, history_without, references};

#[track_caller]
fn verify(scene: &Scene, args: &[&str], code: i32) -> Run {
    let run = scene.bare([&["verify"], args].concat()).run();
    run.assert_no_crash();
    run.assert_code(code);
    run
}

#[test]
fn what_a_history_leaves_out_is_not_expected_on_its_lists() {
    let scene = Scene::new();
    let one = [entry(&scene, "a", &[("md5", "xx", "original")], "")];
    history_without(&scene, "dst", &["ascmhl", "*.tmp", "cache/"], &one);
    scene.output().file("a", "xx");
    verify(&scene, &["dst", "--complete"], 0);
    scene.output().file("deep/b.tmp", "t").file("cache/c", "t").file("ascmhl/README.txt", "t");
    let run = verify(&scene, &["dst", "--complete"], 0);
    run.assert_says("its history leaves out").assert_says("that are on no list");
    scene.output().file("b", "t");
    verify(&scene, &["dst", "--complete"], 4).assert_says("not listed: dst/b");
}

#[test]
fn lists_of_ours_beside_a_copy_are_not_expected_on_a_list() {
    for form in ["mhl1", "dirs", "sides", "hashdeep", "bsd", "mhl"] {
        let scene = Scene::new();
        scene.tree("src").file("a", "xx").file("deep/b", "y").file("deep/c.md5", "no list");
        scene.copy(&["--format", form, "--hash", "sha256,md5"]).assert_code(0);
        verify(&scene, &["dst", "--complete"], 0);
        for foreign in
            ["NOTES.mhl", "deep/SHA1SUMS", "b.md5", "deep/c.md5.md5.md5", "deep/MD5SUMS.bak"]
        {
            scene.output().file(foreign, "no list of ours");
            let said = verify(&scene, &["dst", "--complete"], 4);
            said.assert_says(&format!("not listed: dst/{foreign}"));
            scene.output().remove(foreign);
        }
    }
}

#[test]
fn a_history_is_held_against_the_directory_that_is_given() {
    let scene = Scene::new();
    let of = |path: &str, content: &str| entry(&scene, path, &[("md5", content, "original")], "");
    history(&scene, "orig", &[of("a", "xx") + &of("sub/b", "yy"), of("a", "xx")]);
    history(&scene, "orig/A", &[of("c", "zz")]);
    scene.tree("orig").file("a", "xx").file("sub/b", "yy").file("A/c", "zz");
    verify(&scene, &["orig"], 0);
    shell(&scene, "mkdir dst && cp -r orig/a orig/sub orig/A dst && rm -r dst/A/ascmhl");
    let chain = "orig/ascmhl/ascmhl_chain.xml";
    for place in [&["dst"][..], &["--root", "dst"]] {
        let args = |more: &[&'static str]| [place, &["-m", chain], more].concat();
        verify(&scene, &args(&[]), 0).assert_prints(&["good", "6"]);
        verify(&scene, &args(&["--complete"]), 0);
        scene.output().file("A/c", "ZZ").file("new", "n");
        verify(&scene, &args(&["--complete"]), 4)
            .assert_says("differs: dst/A/c (line")
            .assert_says("not listed: dst/new");
        scene.output().file("A/c", "zz").remove("new");
    }
    // The generations are looked for where the chain is.
    verify(&scene, &["orig/ascmhl", "-m", chain], 0).assert_prints(&["good", "2"]);
    shell(&scene, "printf ' ' >> orig/A/ascmhl/0001_c_2026-01-01_000000Z.mhl");
    verify(&scene, &["dst", "-m", chain], 4).assert_says("differs: orig/A/ascmhl/0001_c");
}

#[test]
fn what_a_history_refers_to_is_looked_for_where_the_history_lies() {
    let scene = Scene::new();
    let of = |path: &str, content: &str| entry(&scene, path, &[("md5", content, "original")], "");
    let lower =
        ["A/ascmhl/0001_c_2026-01-01_000000Z.mhl", "A/ascmhl/0002_c_2026-01-02_000000Z.mhl"];
    history(&scene, "orig/A", &[of("1", "xx"), of("1", "xx")]);
    let newest = references(&scene, "orig", &lower);
    let oldest = of("2", "yy") + &references(&scene, "orig", &lower[..1]);
    history(&scene, "orig", &[oldest, of("2", "yy") + &newest]);
    scene.tree("orig").file("A/1", "xx").file("2", "yy");
    shell(&scene, "mkdir -p dst/A && cp orig/2 dst && cp orig/A/1 dst/A");
    let held = |code: i32| {
        let args = ["dst", "--complete", "-m", "orig/ascmhl/ascmhl_chain.xml"];
        verify(&scene, &args, code)
    };
    // Two files, the generations by their chains, and those that are referred to once more.
    verify(&scene, &["orig"], 0).assert_prints(&["good", "8"]);
    held(0).assert_prints(&["good", "8"]);
    // The copy may have a history of its own, of which nothing is expected.
    history(&scene, "dst/A", &[of("1", "xx") + &of("3", "zz")]);
    held(0).assert_prints(&["good", "8"]);
    scene.output().file("A/1", "XX");
    held(4).assert_says("differs: dst/A/1 (line").assert_prints(&["good", "7"]);
    scene.output().remove("A/1");
    held(4).assert_says("missing: dst/A/1 (line");
    scene.output().file("A/1", "xx");
    shell(&scene, &format!("cp orig/{} kept && sed -i s/2026/2027/ orig/{}", lower[0], lower[0]));
    let referred = format!("differs: orig/{} (line 2 of orig/ascmhl/0002_c_", lower[0]);
    held(4).assert_says(&referred).assert_prints(&["good", "6"]);
    shell(&scene, &format!("cp kept orig/{} && rm orig/{}", lower[0], lower[1]));
    held(4).assert_says(&format!("missing: orig/{} (line 2 of orig/ascmhl/0002_c_", lower[1]));
    // A history that is gone is missed where it was, not where the copy has one.
    shell(&scene, "rm -r orig/A/ascmhl");
    held(4).assert_says(&format!("missing: orig/{}", lower[0]));
}

#[test]
fn heal_says_what_it_does_not_do_for_histories() {
    let scene = Scene::new();
    let one = [entry(&scene, "a", &[("md5", "xx", "original")], "")];
    history(&scene, "dst", &one);
    scene.output().file("a", "xx");
    shell(&scene, "cp -r dst other && printf yy > dst/a");
    let heal = |args: &[&str], code: i32| {
        let run = scene.bare([&["heal", "dst", "other"], args].concat()).run();
        run.assert_no_crash();
        run.assert_code(code);
        run
    };
    let generation = "dst/ascmhl/0001_c_2026-01-01_000000Z.mhl";
    heal(&[], 4)
        .assert_says("not healed: dst/a: nothing is healed by a history")
        .assert_says(&format!("--manifest {generation}"))
        .assert_prints(&["not healed", "1"]);
    assert_eq!(scene.output().read("a"), b"yy");
    heal(&["--manifest", generation], 0);
    assert_eq!(scene.output().read("a"), b"xx");
    shell(&scene, &format!("printf ' ' >> {generation}"));
    heal(&[], 4).assert_says("put back the directory \"ascmhl\" of a good copy");
}

#[test]
fn digests_by_unknown_algorithms_are_never_silently_nothing() {
    let scene = Scene::new();
    scene.output().file("a", "xx").file("b", "yy");
    let by = |path: &str, algorithm: &str, content: &str| {
        entry(&scene, path, &[(algorithm, content, "original")], "")
    };
    let as_sha999 = |text: String| text.replace("sha256", "sha999");
    let both = by("a", "md5", "xx") + &by("b", "md5", "yy");
    let newest = by("a", "md5", "xx") + &by("b", "sha256", "yy");
    for (newest, name) in [(newest.clone(), "SHA-256"), (as_sha999(newest), "sha999")] {
        // What an older generation has of it is checked.
        history(&scene, "dst", &[both.clone(), newest.clone()]);
        let run = verify(&scene, &["dst"], 0);
        run.assert_says("1 lines of dst/ascmhl/0002_c_")
            .assert_says(&format!("the first is {name}"));
        scene.output().file("b", "YY");
        verify(&scene, &["dst"], 4).assert_says("differs: dst/b");
        scene.output().file("b", "yy");
        // No generation has another.
        history(&scene, "dst", &[by("a", "md5", "xx"), newest]);
        verify(&scene, &["dst"], 1).assert_says(&format!("has one by {name}"));
    }
    let alone = as_sha999(by("b", "sha256", "yy"));
    history(&scene, "dst", &[alone]);
    verify(&scene, &["dst"], 5).assert_says("nothing to verify").assert_says("one by sha999");
    // Beside one that is known, it is a notice.
    let two = entry(&scene, "b", &[("md5", "yy", "original"), ("sha256", "yy", "original")], "");
    history(&scene, "dst", &[as_sha999(two)]);
    verify(&scene, &["dst"], 0).assert_says("the first is sha999");
    // Parts that are no digests make none.
    let sized = by("b", "md5", "yy")
        .replace("</hash>", "<size>12345678</size><note>long words</note></hash>");
    history(&scene, "dst", std::slice::from_ref(&sized));
    assert_eq!(verify(&scene, &["dst"], 0).err(), "");
    let bare = sized.replace("md5", "metadata");
    history(&scene, "dst", &[bare]);
    verify(&scene, &["dst"], 5).assert_says("an entry has no digest");
}
