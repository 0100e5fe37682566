//! A file of holes in the place of another, as long as who put it there pleases: where a size is on record it is not
//! read, and where none is the run can be ended.

use rustix::process::Signal;

use crate::harness::{Run, SOON, Scene, content, shell};

const HOLES: &str = "truncate -s 8T $F; touch -r src $F";

/// A copy made so, with holes in the place of one file of it.
fn planted(args: &[&str], file: &str) -> Scene {
    let scene = Scene::on_disk();
    scene.src.file("big", content(9 << 20)).file("small", "small");
    scene.copy(args).assert_code(0);
    shell(&scene, &format!("F={file}; {HOLES}"));
    scene
}

#[track_caller]
fn names_the_size(scene: &Scene, args: &[&str], code: i32, file: &str) -> Run {
    let run = scene.bare(args).run();
    run.assert_code(code).assert_says(file);
    let told =
        ["size 8796093022208, on record 9437184", "8,796,093,022,208 bytes instead of 9,437,184"];
    assert!(told.iter().any(|told| run.err().contains(told)), "{}", run.err());
    assert!(run.took < SOON, "{:?}", run.took);
    run
}

#[test]
fn a_file_of_another_size_than_recorded_is_not_read() {
    for (args, file) in
        [(&["--bag"][..], "dst/data/big"), (&[], "dst/big"), (&["--states", "none"], "dst/big")]
    {
        let scene = planted(args, file);
        let named = format!("differs: {file}");
        names_the_size(&scene, &["verify", "dst"], 4, &named);
        names_the_size(&scene, &["protect", "dst"], 4, &named);
        names_the_size(&scene, &["restore", "dst", "back"], 4, file);
        assert!(!scene.path("back/big").exists() && scene.path("back/small").exists());
        names_the_size(&scene, &["heal", "dst", "--dry-run"], 4, &named);
    }
}

#[test]
fn what_covers_nothing_by_its_size_is_not_read() {
    let scene = planted(&[], "dst/big");
    scene.output().sparse("more", 8 << 40, &[]);
    shell(&scene, "cp -r src two");
    let run = scene.bare(["covered", "--read", "src", "dst", "two", "--copies", "1"]).run();
    assert!(run.took < SOON, "{:?}", run.took);
    run.assert_no_crash();
    let run =
        scene.bare(["covered", "--read", "src", "dst", "--copies", "1", "--count-memory"]).run();
    run.assert_code(4).assert_prints(&["big (no longer the same at dst)"]);
}

/// A plain list knows no sizes.
#[test]
fn a_check_by_a_list_alone_can_be_ended() {
    let scene = planted(&[], "dst/big");
    shell(&scene, "mv dst/*.sha256sum list && rm -r dst/.dircopy");
    let mut run = scene.bare(["verify", "--manifest", "list", "dst"]).spawn();
    run.until_it_listens();
    run.signal(Signal::INT);
    let run = run.wait();
    run.assert_code(130);
    assert!(run.took < SOON, "{:?}", run.took);
}
