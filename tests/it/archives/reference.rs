//! What must be seen of Media Hash Lists, told as one story, and what others wrote: the examples of ASC MHL, readers and
//! schemas of legacy lists.

use std::process::Command;

use super::histories::{actions, ascmhl, generation, generations, judge, legacy_schema, reference};
use crate::harness::{Need, Run, Scene, content, have, long, shell};

/// The histories of the story, and how many generations each has.
const HISTORIES: [&str; 3] = ["dst", "dst/Reels/A", "dst/Reels/A/in"];

/// The histories have so many generations, and the reference implementation has these `codes` for them.
#[track_caller]
fn all_are(scene: &Scene, numbers: [usize; 3], codes: [i32; 2]) {
    for (dir, number) in HISTORIES.into_iter().zip(numbers) {
        assert_eq!(generations(scene, dir).len(), number, "{dir}");
    }
    judge(scene, "dst", codes);
}

/// The reference implementation finds every generation and chain as its schemas have them; but for long tests, the newest.
fn all_are_of_their_schemas(scene: &Scene) {
    let of = |name: &str| reference("xsd").join(name).to_str().unwrap().to_owned();
    for dir in HISTORIES {
        let all = generations(scene, dir);
        let newest = if long() { 0 } else { all.len() - 1 };
        for name in &all[newest..] {
            let path = format!("{dir}/ascmhl/{name}");
            ascmhl(scene, &["xsd-schema-check", "-xsd", &of("ASCMHL.xsd"), &path], 0);
        }
        let (schema, chain) =
            (of("ASCMHLDirectory__combined.xsd"), format!("{dir}/ascmhl/ascmhl_chain.xml"));
        ascmhl(scene, &["xsd-schema-check", "-df", "-xsd", &schema, &chain], 0);
    }
}

fn flip(scene: &Scene, path: &str) {
    let flip = format!(
        "touch -r '{path}' time; printf X | dd of='{path}' bs=1 seek=1 conv=notrunc status=none; touch -r time '{path}'"
    );
    shell(scene, &flip);
}

/// A card with a history of its own and some further below goes on at the copy, through a change, a new name, damages at
/// both sides, and a repair.
#[test]
fn a_card_goes_on_through_change_new_name_and_damage() {
    if !have(&["ascmhl", "simple-mhl", "xmllint"].map(Need::Program)) {
        return;
    }
    let scene = Scene::new();
    scene.src.file("Reels/A/in/y", content(70_000)).file("Reels/A/x", "abcd\n").file("notes", "1");
    for card in ["src/Reels/A/in", "src/Reels/A", "src"] {
        ascmhl(&scene, &["create", "-h", "md5", card], 0);
    }
    let mhl = |args: &[&str]| -> Run { scene.copy(&[&["--format", "mhl"], args].concat()) };
    // The second generation, of the card's own. Those further below have two already: the reference writes them with
    // each of those above.
    let before = HISTORIES.map(|dir| generations(&scene, &dir.replace("dst", "src")).len());
    let after = |more: usize| before.map(|number| number + more);
    mhl(&[]).assert_code(0);
    all_are(&scene, after(1), [0, 0]);
    ascmhl(&scene, &["verify", "-dh", "dst"], 0);
    assert_eq!(actions(&generation(&scene, "dst/Reels/A/in", after(1)[2]), "y")[0], "verified");
    // The third: a file more, and one under another name.
    scene.src.file("Reels/A/in/more", "more");
    shell(&scene, "for d in src dst; do mv $d/Reels/A/x $d/Reels/A/z; done");
    mhl(&["--verify"]).assert_code(0);
    all_are(&scene, after(2), [0, 0]);
    let text = generation(&scene, "dst/Reels/A", after(2)[1]);
    assert!(text.contains("<previousPath>x</previousPath>"), "{text}");
    assert_eq!(
        actions(&generation(&scene, "dst/Reels/A/in", after(2)[2]), "more"),
        ["original"; 2]
    );
    // A flipped bit at the copy: the check ends with 4, and the next run mends it from the card.
    flip(&scene, "dst/Reels/A/in/y");
    let chain = "dst/ascmhl/ascmhl_chain.xml";
    let check = || scene.bare(["verify", "--manifest", chain]).run();
    check().assert_code(4).assert_says("differs: dst/Reels/A/in/y");
    ascmhl(&scene, &["verify", "dst"], 11);
    mhl(&["--verify"]).assert_code(0).assert_says("copied anew");
    // A flipped bit at the card is `failed`, and stays so until it is mended.
    flip(&scene, "src/Reels/A/in/y");
    for round in 4..6 {
        let run = mhl(&["--verify", "--overwrite-policy", "always"]);
        run.assert_code(4).assert_says("cannot take for good").assert_says("dst/Reels/A/in/y");
        let text = generation(&scene, "dst/Reels/A/in", after(round)[2]);
        assert!(actions(&text, "y").iter().all(|action| *action == "failed"), "{text}");
        assert_eq!(actions(&text, "more")[0], "verified");
        check().assert_code(4).assert_says("differs: dst/Reels/A/in/y");
    }
    all_are(&scene, after(5), [0, 11]);
    scene.src.file("Reels/A/in/y", content(70_000));
    mhl(&["--overwrite-policy", "update"]).assert_code(0);
    all_are(&scene, after(6), [0, 0]);
    check().assert_code(0);
    all_are_of_their_schemas(&scene);
}

/// The examples of ASC MHL pass and fail as its implementation says.
#[test]
fn the_examples_of_the_reference_are_checked_as_it_does() {
    if !have(&["ascmhl", "simple-mhl"].map(Need::Program)) {
        return;
    }
    let scene = Scene::new();
    let chains = format!(
        "cp -r {} . && find Output -name ascmhl_chain.xml",
        reference("examples/scenarios/Output").display()
    );
    let (mut good, mut bad) = (0, 0);
    for chain in shell(&scene, &chains).lines() {
        let root = chain.strip_suffix("/ascmhl/ascmhl_chain.xml").unwrap();
        let judged =
            Command::new("ascmhl-debug").args(["verify", root]).current_dir(scene.root()).output();
        let code = if judged.unwrap().status.success() { 0 } else { 4 };
        scene.bare(["verify", root]).run().assert_code(code);
        *(if code == 0 { &mut good } else { &mut bad }) += 1;
    }
    assert_eq!((good, bad), (11, 1), "the fourth scenario is of a damaged file");
}

/// A history whose own patterns no copy can go by is refused before anything is copied.
#[test]
fn a_history_with_a_bad_pattern_is_refused() {
    if !have(&["ascmhl", "simple-mhl"].map(Need::Program)) {
        return;
    }
    let scene = Scene::new();
    scene.src.file("a", "abcd\n");
    ascmhl(&scene, &["create", "-h", "md5", "src"], 0);
    let forge = "cd src/ascmhl && sed -i 's,<ignore>,<ignore><pattern>[</pattern>,' 0001_* && \
                 c4=$(ascmhl-debug hash -h c4 0001_* 2>&1 | grep -o 'c4[1-9A-Za-z]\\{88\\}' | head -1) && \
                 sed -i \"s,c4[1-9A-Za-z]\\{88\\},$c4,\" ascmhl_chain.xml";
    shell(&scene, forge);
    let run = scene.copy(&["--format", "mhl"]);
    run.assert_code(2).assert_says("cannot go on with the history of").assert_says("is not valid");
    assert!(!scene.dst.exists());
}

/// The schema that legacy lists have, and an independent reader of them, take ours.
#[test]
fn a_legacy_list_is_written_as_others_read_it() {
    let scene = Scene::new();
    scene.src.file("Clips/a & <b>.mov", content(100_000)).file("same", "abcd\n").dir("empty");
    scene.src.file("odd & <é>", "odd").file("li\nne", "1").file(".DS_Store", "x");
    for (hash, element, others) in [
        ("sha256", "xxhash64be", true),
        ("md5,sha1,xxh64", "sha1", true),
        ("xxh64", "xxhash64be", false),
    ] {
        shell(&scene, "rm -rf dst");
        let run = scene.copy(&["--format", "mhl1", "--hash", hash]);
        run.assert_code(0).assert_prints(&["media list", "dst/dst_20"]);
        let name = shell(&scene, "cd dst && ls dst_*.mhl").trim().to_owned();
        let text = String::from_utf8(scene.output().read(&name)).unwrap();
        assert!(text.contains(&format!("<{element}>")), "{text}");
        assert_eq!(text.matches("<hash>").count(), 5, "{text}");
        let check = || scene.bare(["verify", "--manifest", &format!("dst/{name}")]).run();
        check().assert_code(0).assert_prints(&["good", "5 files"]);
        let has_others = others && have(&["simple-mhl", "xmllint"].map(Need::Program));
        if has_others {
            let schema = legacy_schema(&scene);
            shell(&scene, &format!("xmllint --nonet --noout --schema {schema} dst/{name} 2>&1"));
            shell(
                &scene,
                &format!("simple-mhl verify dst/{name} && simple-mhl xsd-schema-check dst/{name}"),
            );
        }
        scene.output().file("odd & <é>", "Odd");
        check().assert_code(4);
        if has_others {
            shell(&scene, &format!("! simple-mhl verify dst/{name}"));
        }
    }
    // The schema knows no empty file; that is told.
    shell(&scene, "rm -rf dst && touch src/empty/file");
    let run = scene.copy(&["--format", "mhl1", "--report", "report.json"]);
    run.assert_code(0).assert_says("1 of its files are empty");
    shell(
        &scene,
        "grep -c '<file>empty/file' dst/dst_*.mhl && grep 'media_list' -A2 report.json | grep -q dst/dst_",
    );
}
