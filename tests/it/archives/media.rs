//! Media Hash Lists that a copy writes: histories of ASC MHL, judged by the reference implementation (`ascmhl`) and by
//! a check of ours, and legacy lists.

use super::histories::{actions, ascmhl, generation, generations, judge};
use crate::harness::{
    Mount, Need, Run, Scene, Strace, content, ctimes, have, inventory, need, shell,
};

const MHL: [&str; 2] = ["--format", "mhl"];

fn mhl(scene: &Scene, args: &[&str]) -> Run {
    scene.copy(&[&MHL, args].concat())
}

/// A source with names that XML escapes, an empty file and an empty directory.
fn scene() -> Scene {
    let scene = Scene::new();
    scene
        .src
        .file("Clips/a & <b>.mov", content(100_000))
        .file("Clips/deep/er/ é ", "three")
        .file("Sidecar.txt", "abcd\n")
        .file("zero", "")
        .file("same", "abcd\n")
        .file(".DS_Store", "not listed")
        .dir("empty");
    scene
}

#[test]
fn a_copy_writes_a_generation() {
    let scene = scene();
    let run = mhl(&scene, &[]);
    run.assert_code(0).assert_prints(&["media list", "dst/ascmhl/0001_dst_20"]);
    shell(&scene, "diff -r -x ascmhl -x '*dircopy*' src dst");
    judge(&scene, "dst", [0, 0]);
    if have(&[Need::Program("ascmhl")]) {
        ascmhl(&scene, &["verify", "-dh", "dst"], 0);
    }
    let text = generation(&scene, "dst", 1);
    assert_eq!(actions(&text, "Sidecar.txt"), ["original"]);
    assert!(text.contains("<process>transfer</process>") && text.contains("<roothash>"), "{text}");
    assert!(!text.contains(">.DS_Store</path>"), "{text}");
    // Nothing was read: there is nothing to say.
    let before = ctimes(&scene.dst.join("ascmhl"));
    mhl(&scene, &[]).assert_code(0);
    assert_eq!(ctimes(&scene.dst.join("ascmhl")), before);
    judge(&scene, "dst", [0, 0]);
}

#[test]
fn what_an_earlier_run_read_is_listed_without_a_date() {
    let scene = scene();
    scene.copy(&["--hash", "sha256,xxh128"]).assert_code(0);
    mhl(&scene, &[]).assert_code(0).assert_prints(&["unchanged", "6 files"]);
    judge(&scene, "dst", [0, 0]);
    let text = generation(&scene, "dst", 1);
    assert_eq!(text.matches("action=\"original\">").count(), 5, "{text}");
    assert!(!text.contains("action=\"original\" hashdate"), "{text}");
    if have(&[Need::Program("ascmhl")]) {
        ascmhl(&scene, &["verify", "-dh", "dst"], 0);
    }
}

#[test]
fn histories_at_several_outputs_are_alike() {
    let scene = scene();
    let run = scene.bare(["-i", "src", "-o", "dst", "-o", "two", "--format=mhl", "--verify"]).run();
    run.assert_code(0).assert_prints(&["media list", "two/ascmhl/0001_two"]);
    judge(&scene, "dst", [0, 0]);
    judge(&scene, "two", [0, 0]);
    // Each goes on by itself.
    scene.src.file("more", "more");
    scene.command_to(scene.src.root(), scene.path("two"), MHL).run().assert_code(0);
    let run = scene.bare(["-i", "src", "-o", "dst", "-o", "two", "--format=mhl"]).run();
    run.assert_code(0);
    assert_eq!((generations(&scene, "dst").len(), generations(&scene, "two").len()), (2, 2));
    judge(&scene, "dst", [0, 0]);
    judge(&scene, "two", [0, 0]);
}

#[test]
fn every_digest_that_lists_can_have_is_there() {
    let scene = scene();
    let all = "sha256,sha512,sha1,md5,xxh128,xxh3,xxh64";
    mhl(&scene, &["--hash", all, "--format", "gnu"]).assert_code(0);
    judge(&scene, "dst", [0, 0]);
    let text = generation(&scene, "dst", 1);
    assert_eq!(actions(&text, "Sidecar.txt"), ["original"; 6]);
    if have(&[Need::Program("ascmhl")]) {
        ascmhl(&scene, &["verify", "-dh", "dst"], 0);
    }
    shell(
        &scene,
        "cd dst && for p in sha512sum md5sum sha1sum; do $p -c --strict --quiet *.$p; done",
    );
    let scene = self::scene();
    mhl(&scene, &["--hash", "xxh64"]).assert_code(0);
    judge(&scene, "dst", [0, 0]);
    mhl(&scene, &["--hash", "xxh64", "--verify"]).assert_code(0);
    assert_eq!(actions(&generation(&scene, "dst", 2), "Sidecar.txt"), ["verified"]);
}

#[test]
fn generations_tell_a_change_a_damage_and_a_new_name() {
    let scene = scene();
    mhl(&scene, &[]).assert_code(0);
    // A file more, and every file read again.
    scene.src.file("more", "more");
    mhl(&scene, &["--verify"]).assert_code(0);
    let text = generation(&scene, "dst", 2);
    assert_eq!(
        (actions(&text, "more"), actions(&text, "zero")),
        (vec!["original"], vec!["verified"])
    );
    judge(&scene, "dst", [0, 0]);
    // Two files under other names, at both sides; one of them in another directory.
    shell(
        &scene,
        "for d in src dst; do mv $d/Sidecar.txt $d/new; mv $d/Clips/deep/er/*é* $d/moved; done",
    );
    mhl(&scene, &[]).assert_code(0);
    let text = generation(&scene, "dst", 3);
    assert!(text.contains("<previousPath>Sidecar.txt</previousPath>"), "{text}");
    assert!(text.contains("<previousPath>Clips/deep/er/ é </previousPath>"), "{text}");
    assert!(!text.contains("roothash"), "{text}");
    judge(&scene, "dst", [0, 0]);
    // A copy that was damaged is copied anew, and is what the history has.
    shell(&scene, "touch -r dst/more time && printf mare >dst/more && touch -r time dst/more");
    mhl(&scene, &[]).assert_code(0).assert_says("copied anew");
    assert_eq!(actions(&generation(&scene, "dst", 4), "more"), ["verified"]);
    judge(&scene, "dst", [0, 0]);
    // One that is another at the source is not what the history has, as long as it stays so.
    shell(&scene, "touch -r src/more time && printf mure >src/more && touch -r time src/more");
    let run = mhl(&scene, &["--overwrite-policy", "always"]);
    run.assert_code(4).assert_says("cannot take for good").assert_says("dst/more");
    let text = generation(&scene, "dst", 5);
    assert_eq!(actions(&text, "more"), ["failed"]);
    judge(&scene, "dst", [0, 11]);
    mhl(&scene, &["--verify"]).assert_code(4).assert_says("dst/more");
    judge(&scene, "dst", [0, 11]);
    // What is gone is told.
    shell(&scene, "rm src/zero dst/zero && printf more >src/more");
    let run = mhl(&scene, &["--overwrite-policy", "always"]);
    run.assert_code(0).assert_says("1 of the files that it lists are not there: zero");
    assert_eq!(actions(&generation(&scene, "dst", 7), "more"), ["verified"]);
    judge(&scene, "dst", [10, 10]);
}

#[test]
fn a_cards_history_is_gone_on_with() {
    if !have(&[Need::Program("ascmhl")]) {
        return;
    }
    let scene = scene();
    ascmhl(&scene, &["create", "-h", "md5", "src"], 0);
    let card = inventory(&scene.path("src"));
    mhl(&scene, &[]).assert_code(0);
    assert_eq!(generations(&scene, "dst").len(), 2);
    let text = generation(&scene, "dst", 2);
    assert_eq!(actions(&text, "Sidecar.txt"), ["verified"; 2], "md5, and xxh128 that it proves");
    judge(&scene, "dst", [0, 0]);
    ascmhl(&scene, &["verify", "-dh", "dst"], 0);
    // It stays as it is at both sides.
    let copy = inventory(&scene.dst.join("ascmhl"));
    mhl(&scene, &[]).assert_code(0);
    assert_eq!(inventory(&scene.path("src")), card);
    assert_eq!(inventory(&scene.dst.join("ascmhl")), copy);
    // A damaged card.
    let other = Scene::new();
    shell(&other, &format!("cp -a {}/src/. src", scene.root().display()));
    shell(
        &other,
        "touch -r src/same time && printf abcx >src/same && echo >>src/same && touch -r time src/same",
    );
    let run = mhl(&other, &[]);
    run.assert_code(4).assert_says("dst/same").assert_prints(&["ROTTEN"]);
    assert_eq!(actions(&generation(&other, "dst", 2), "same"), ["failed"; 2]);
    judge(&other, "dst", [0, 11]);
    mhl(&other, &[]).assert_code(4).assert_says("dst/same");
    // Both sides went on by themselves.
    ascmhl(&scene, &["create", "-h", "md5", "src"], 0);
    let before = inventory(&scene.dst);
    mhl(&scene, &[]).assert_code(2).assert_says("the other way round");
    assert_eq!(inventory(&scene.dst), before);
    // One that only the card went on with comes along.
    let run = scene.command_to(scene.src.root(), scene.path("two"), MHL).run();
    run.assert_code(0);
    judge(&scene, "two", [0, 0]);
    ascmhl(&scene, &["create", "-h", "xxh64", "two"], 0);
    scene.src.file("later", "later");
    scene.command_to(scene.src.root(), scene.path("two"), MHL).run().assert_code(0);
    assert_eq!(generations(&scene, "two").len(), 5);
    judge(&scene, "two", [0, 0]);
}

#[test]
fn histories_further_below_are_gone_on_with() {
    if !have(&[Need::Program("ascmhl")]) {
        return;
    }
    let scene = scene();
    scene.src.file("Reels/A/x", "abcd\n").file("Reels/A/in/y", "def\n").file("Reels/B/z", "z");
    for card in ["src/Reels/A", "src/Reels/B", "src/Reels/A/in"] {
        ascmhl(&scene, &["create", "-h", "xxh64", card], 0);
    }
    mhl(&scene, &[]).assert_code(0);
    judge(&scene, "dst", [0, 0]);
    for (dir, number) in [("dst", 1), ("dst/Reels/A", 2), ("dst/Reels/A/in", 2), ("dst/Reels/B", 2)]
    {
        assert_eq!(generations(&scene, dir).len(), number, "{dir}");
        judge(&scene, dir, [0, 0]);
    }
    let text = generation(&scene, "dst", 1);
    assert_eq!(text.matches("<hashlistreference>").count(), 2, "{text}");
    assert!(text.contains("<path>Reels/A/ascmhl/0002_A_"), "{text}");
    // Only that of the new file goes on, and those above it.
    scene.src.file("Reels/A/in/more", "more");
    mhl(&scene, &[]).assert_code(0);
    for (dir, number) in [("dst", 2), ("dst/Reels/A", 3), ("dst/Reels/A/in", 3), ("dst/Reels/B", 2)]
    {
        assert_eq!(generations(&scene, dir).len(), number, "{dir}");
        judge(&scene, dir, [0, 0]);
    }
    // A file that is damaged fails in its own history.
    shell(
        &scene,
        "touch -r src/Reels/B/z time && printf Z >src/Reels/B/z && touch -r time src/Reels/B/z",
    );
    mhl(&scene, &["--overwrite-policy", "always"]).assert_code(4).assert_says("dst/Reels/B/z");
    assert_eq!(actions(&generation(&scene, "dst/Reels/B", 3), "z"), ["failed"; 2]);
    judge(&scene, "dst", [0, 11]);
}

#[test]
fn what_cannot_be_written_is_refused_and_nothing_is_touched() {
    let scene = scene();
    let cases: [(&[&str], &str); 7] = [
        (&["--format", "dirs"], "leave out --format dirs"),
        (&["--mirror"], "leave out --mirror"),
        (&["--generations"], "leave out --generations"),
        (&["--hash", "none"], "leave out --hash none"),
        (&["--hard-links"], "leave out --hard-links"),
        (&["--bag"], "leave out --format"),
        (&["--format", "mhl1"], "leave out --format mhl"),
    ];
    for (args, words) in cases {
        mhl(&scene, args).assert_code(2).assert_says(words);
        assert!(!scene.dst.exists(), "{args:?}");
    }
    for name in [b"bad\x01".as_slice(), b"bad\xff", "bad\u{ffff}".as_bytes()] {
        scene.src.file(name, "");
        for form in ["mhl", "mhl1"] {
            let run = scene.copy(&["--format", form]);
            run.assert_code(2).assert_says("XML cannot hold").assert_says("src/bad");
        }
        assert!(!scene.dst.exists());
        scene.copy(&["--format", "mhl", "--exclude", "bad*", "--dry-run"]).assert_code(0);
        scene.src.remove(name);
    }
    scene.src.symlink("link", "same");
    mhl(&scene, &[]).assert_code(2).assert_says("symbolic links").assert_says("src/link");
    assert!(!scene.dst.exists());
    mhl(&scene, &["--follow-links"]).assert_code(0);
    judge(&scene, "dst", [0, 0]);
    // A history that was touched.
    scene.src.remove("link").file("more", "more");
    type Break = fn(&Scene);
    let cases: [(Break, &str); 4] = [
        (
            |it| drop(shell(it, "sed -i s/transfer/in-place/ dst/ascmhl/0001_*")),
            "not what the chain says",
        ),
        (|it| drop(shell(it, "rm dst/ascmhl/0001_*")), "no such file"),
        (|it| drop(shell(it, "sed -i 's/nr=.1/nr=\"2/' dst/ascmhl/*.xml")), "has a gap"),
        (|it| drop(shell(it, "echo '<x>' >dst/ascmhl/ascmhl_chain.xml")), "no Media Hash List"),
    ];
    let history = scene.tree("history");
    shell(&scene, "cp -a dst/ascmhl history");
    for (break_it, words) in cases {
        break_it(&scene);
        let before = inventory(&scene.dst);
        mhl(&scene, &[]).assert_code(2).assert_says(words);
        assert_eq!(inventory(&scene.dst), before, "{words}");
        shell(&scene, "rm -r dst/ascmhl && cp -a history/ascmhl dst");
    }
    drop(history);
    mhl(&scene, &[]).assert_code(0);
    judge(&scene, "dst", [0, 0]);
}

#[test]
fn odd_names_come_through() {
    let scene = Scene::new();
    scene.src.file("li\nne", "1").file("c\rr", "2").file("t\tab", "3").file(" lead & <tail> ", "4");
    scene.src.file("d\n/x\r", "5").file("é😀\u{301}", "6").file("]]>", "7");
    mhl(&scene, &["--verify"]).assert_code(0);
    judge(&scene, "dst", [0, 0]);
    if have(&[Need::Program("ascmhl")]) {
        ascmhl(&scene, &["verify", "-dh", "dst"], 0);
    }
}

#[test]
fn a_run_that_is_cut_short_leaves_the_old_chain_or_the_new_one() {
    if !have(&[Need::Strace]) {
        return;
    }
    let made = scene();
    mhl(&made, &[]).assert_code(0);
    made.src.file("more", "more");
    let names = ["ascmhl_chain.xml", "ascmhl"];
    for (calls, fault) in [
        ("renameat2,renameat,linkat", "error=EIO:when=1"),
        ("renameat2,renameat,linkat", "signal=KILL:when=1"),
        ("fsync,fdatasync", "error=EIO:when=1+"),
    ] {
        for name in names {
            let scene = Scene::new();
            shell(
                &scene,
                &format!("cp -a {0}/src/. src; cp -a {0}/dst dst", made.root().display()),
            );
            let strace =
                Strace::inject(&scene, calls, fault).on(scene.dst.join("ascmhl").join(name));
            let run = strace.run(scene.command(MHL));
            if run.signal.is_none() && !strace.injected().is_empty() {
                run.assert_code(3);
            }
            let chain = std::fs::read_to_string(scene.dst.join("ascmhl/ascmhl_chain.xml")).unwrap();
            assert!(chain.ends_with("</ascmhldirectory>\n"), "{chain}");
            let links = chain.matches("<path>").count();
            assert!(links == 1 || links == 2);
            // The next run goes on, with a generation that has its name and is not in the chain too.
            scene.src.file("last", "last");
            mhl(&scene, &[]).assert_code(0);
            judge(&scene, "dst", [0, 0]);
            scene.bare(["verify", "--complete", "dst"]).run().assert_code(0);
        }
    }
}

#[test]
fn a_generation_that_the_chain_does_not_have_is_taken_in() {
    let scene = scene();
    mhl(&scene, &[]).assert_code(0);
    shell(&scene, "cp dst/ascmhl/ascmhl_chain.xml chain");
    scene.src.file("more", "more");
    mhl(&scene, &[]).assert_code(0);
    shell(&scene, "cp chain dst/ascmhl/ascmhl_chain.xml");
    scene.bare(["verify", "--manifest", "dst/ascmhl/ascmhl_chain.xml"]).run().assert_code(4);
    scene.src.file("last", "last");
    mhl(&scene, &["--verify"]).assert_code(0);
    assert_eq!(generations(&scene, "dst").len(), 3);
    assert_eq!(actions(&generation(&scene, "dst", 3), "more"), ["verified"]);
    judge(&scene, "dst", [0, 0]);
}

/// Two runs of one second, and a source that has the names of the coming seconds, have lists of their own.
#[test]
fn a_legacy_list_takes_a_name_that_is_free() {
    let scene = Scene::new();
    scene.src.file("a", "a");
    shell(
        &scene,
        "for i in $(seq 0 20); do touch src/dst_$(date -u -d +${i}sec +%F_%H%M%S).mhl; done",
    );
    for _ in 0..3 {
        scene.copy(&["-q", "--format", "mhl1"]).assert_code(0);
    }
    assert_eq!(shell(&scene, "grep -l '<hashlist' dst/*.mhl | wc -l").trim(), "3");
}

/// A run that is refused takes back what it made, and nothing of the same name that it only keeps for itself.
#[test]
fn what_is_kept_for_a_list_has_no_name_to_take_back() {
    need!(Mount);
    let scene = Scene::new();
    let planted = "for i in $(seq 0 60); do touch src/dircopy-$(date -u -d +${i}sec +%Y%m%dT%H%M%SZ).mhl.part; done";
    shell(&scene, planted);
    let _mount = Mount::tmpfs(&scene.dst, "4m");
    scene.copy(&["-q"]).assert_code(0);
    scene.src.file("film", content(8 << 20));
    shell(&scene, "ls dst >before");
    scene.copy(&["--format", "mhl"]).assert_code(2).assert_says("MiB free");
    shell(&scene, "ls dst | diff before -");
}
