//! Histories of ASC MHL that were touched: no run goes on with one, at either side, and nothing is changed.

use crate::harness::{Run, Scene, content, inventory, shell};

const MHL: [&str; 2] = ["--format", "mhl"];

fn mhl(scene: &Scene, args: &[&str]) -> Run {
    let run = scene.copy(&[&MHL, args].concat());
    run.assert_no_crash();
    run
}

/// A history of one file, with a generation.
fn scene() -> Scene {
    let scene = Scene::new();
    scene.src.file("a", "abcd\n").file("d/n", content(5000));
    mhl(&scene, &[]).assert_code(0);
    scene
}

/// Each way to touch it is refused, with words of why, and changes nothing.
#[track_caller]
fn refused(scene: &Scene, break_it: &str, words: &str) {
    shell(scene, &format!("rm -rf kept; cp -a src kept; cp -a dst kept/dst; {break_it}"));
    let before = [inventory(&scene.path("src")), inventory(&scene.dst)];
    let run = mhl(scene, &["--verify"]);
    run.assert_code(2).assert_says(words).assert_says("touched or is damaged");
    run.assert_says("to begin a new one");
    assert_eq!([inventory(&scene.path("src")), inventory(&scene.dst)], before, "{break_it}");
    shell(scene, "rm -rf dst src && mv kept/dst dst && mv kept src");
}

#[test]
fn a_history_that_was_touched_at_the_output_is_refused() {
    let scene = scene();
    let chain = "dst/ascmhl/ascmhl_chain.xml";
    let breaks = [
        (format!("rm {chain}; sed -i 's/<!--.*//' dst/ascmhl/0001*"), "it has no chain"),
        (format!("rm {chain}; cp dst/ascmhl/0001* dst/ascmhl/0002_x.mhl"), "it has no chain"),
        (format!("rm {chain}; mkfifo {chain}"), "no regular file"),
        (format!("mv {chain} dst/zz; ln -s ../zz {chain}"), "no regular file"),
        (format!("sed -i '/<hashlist /,/<.hashlist>/d' {chain}"), "it has no generation"),
        ("mv dst/ascmhl dst/zz; ln -s zz dst/ascmhl".to_owned(), "symbolic link"),
        (
            "sed s/original/verified/ dst/ascmhl/0001* >dst/ascmhl/0002_x.mhl".to_owned(),
            "does not have the generation 0002_x.mhl",
        ),
        ("cp dst/ascmhl/0001* dst/ascmhl/0007_x.mhl".to_owned(), "generation 0007_x.mhl"),
    ];
    for (break_it, words) in breaks {
        refused(&scene, &break_it, words);
    }
    shell(&scene, &format!(": >{chain}"));
    let before = inventory(&scene.dst);
    mhl(&scene, &["--verify"]).assert_code(2).assert_says("ascmhl_chain.xml");
    assert_eq!(inventory(&scene.dst), before);
    // The remedy.
    shell(&scene, "rm -r dst/ascmhl");
    mhl(&scene, &["--verify"]).assert_code(0).assert_prints(&["media list", "dst/ascmhl/0001_dst"]);
}

#[test]
fn a_cards_history_that_was_touched_is_refused() {
    let scene = scene();
    shell(&scene, "rm -r src && mv dst src && rm -r src/dircopy-* src/.dircopy && mkdir dst");
    let chain = "src/ascmhl/ascmhl_chain.xml";
    let breaks = [
        (format!("rm {chain}"), "it has no chain"),
        (format!("rm {chain}; mkfifo {chain}"), "no regular file"),
        ("cp src/ascmhl/0001* src/ascmhl/0002_x.mhl".to_owned(), "generation 0002_x.mhl"),
    ];
    for (break_it, words) in breaks {
        refused(&scene, &break_it, words);
    }
    mhl(&scene, &[]).assert_code(0);
}

/// A run that was killed before it had a chain left a generation that bears the mark of its output.
#[test]
fn a_first_generation_of_a_killed_run_is_taken_in_at_its_output_only() {
    let scene = scene();
    shell(&scene, "rm dst/ascmhl/ascmhl_chain.xml; cp -a dst other; rm -r other/.dircopy");
    let run = scene.command_to(scene.src.root(), scene.path("other"), MHL).run();
    run.assert_code(2).assert_says("it has no chain");
    shell(
        &scene,
        "for d in src dst; do touch -r $d/a time; printf abcx >$d/a; echo >>$d/a; touch -r time $d/a; done",
    );
    // Its content counts: nothing begins anew.
    mhl(&scene, &["--verify"]).assert_code(4).assert_says("dst/a");
    assert!(shell(&scene, "cat dst/ascmhl/0002*").contains("action=\"failed\""));
}

#[test]
fn what_generations_refer_to_must_be_there() {
    let scene = Scene::new();
    scene.src.file("a", "abcd\n").file("in/n", "n");
    shell(&scene, "mv src/in in");
    let run = scene.command_to(scene.path("in"), scene.path("src/d"), MHL).run();
    run.assert_code(0);
    shell(&scene, "rm -r src/d/dircopy-* src/d/.dircopy");
    mhl(&scene, &[]).assert_code(0);
    shell(&scene, "rm -r src/d/ascmhl");
    let breaks = [
        ("rm -r dst/d/ascmhl", "it refers to d/ascmhl/0002_d_"),
        ("rm dst/d/ascmhl/ascmhl_chain.xml", "it has no chain"),
        ("sed -i '/<hashlist /,/<.hashlist>/d' dst/d/ascmhl/*.xml", "it has no generation"),
        (
            "sed -i '/nr=.2/,/<.hashlist>/d' dst/d/ascmhl/*.xml; rm dst/d/ascmhl/0002*",
            "it refers to d/ascmhl/0002_d_",
        ),
        ("mv dst/d/ascmhl dst/zz; ln -s ../zz dst/d/ascmhl", "symbolic link"),
    ];
    for (break_it, words) in breaks {
        refused(&scene, break_it, words);
    }
    mhl(&scene, &["--verify"]).assert_code(0);
    scene.bare(["verify", "--manifest", "dst/ascmhl/ascmhl_chain.xml"]).run().assert_code(0);
}
