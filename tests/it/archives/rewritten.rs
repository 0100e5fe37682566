//! A bag that another user may write to: data and lists that were written anew agree with each other, and not with what
//! the runs recorded that made the bag.

use crate::harness::{Run, Scene, shell};

/// Writes the lists of the bag in this directory anew, as a program for bags would.
const SEAL: &str = "find data -type f | sort | xargs -d '\\n' sha256sum > manifest-sha256.txt
    sed -i '/^Payload-Oxum/d' bag-info.txt
    find data -type f -printf '%s\\n' | awk '{s += $1} END {print \"Payload-Oxum: \" s \".\" NR}' >> bag-info.txt
    sha256sum bag-info.txt bagit.txt manifest-sha256.txt > tagmanifest-sha256.txt";

/// A bag at the output that was changed by `deed`, with lists that were made anew after that.
fn rewritten(deed: &str) -> Scene {
    let scene = Scene::new();
    scene.src.file("a", "one").file("dir/b", "two").file("c", "three");
    scene.copy(&["--bag"]).assert_code(0);
    is_valid(&scene);
    shell(&scene, &format!("cd dst && {deed} && {SEAL}"));
    scene
}

fn is_valid(scene: &Scene) {
    let run = scene.bare(["verify", "dst"]).run();
    run.assert_code(0).assert_prints(&["dst is a valid bag"]);
    assert!(run.stderr.is_empty(), "{}", run.err());
}

#[track_caller]
fn verify(scene: &Scene, code: i32) -> Run {
    let run = scene.bare(["verify", "dst"]).run();
    run.assert_no_crash();
    run.assert_code(code);
    run
}

#[test]
fn data_and_lists_that_were_written_anew_are_no_valid_bag() {
    let scene = rewritten("printf ONE > data/a");
    let run = verify(&scene, 4);
    run.assert_says("differs: dst/data/a").assert_says("contradicted: dst/data/a");
    run.assert_prints(&["dst is not a complete bag"]);
    // The list alone.
    let scene = rewritten("cp data/a ../kept && printf ONE > data/a");
    shell(&scene, "cp kept dst/data/a");
    verify(&scene, 4)
        .assert_says("contradicted: dst/data/a")
        .assert_prints(&["not a complete bag"]);
}

#[test]
fn what_was_added_or_taken_out_is_named() {
    let scene = rewritten("rm data/dir/b && printf new > data/new");
    let run = verify(&scene, 4);
    run.assert_says("missing: dst/data/dir/b").assert_says("contradicted: dst/data/dir/b");
    run.assert_says("contradicted: dst/data/new").assert_prints(&["not a complete bag"]);
    // Whoever says by which list it is to be has it.
    let list = ["verify", "--manifest", "dst/manifest-sha256.txt"];
    scene.bare(list).run().assert_code(0);
    // The next run makes of it what the source is, as soon as nothing else is there.
    shell(&scene, "rm dst/data/new");
    scene.copy(&["--bag"]).assert_code(0);
    is_valid(&scene);
}

/// What brings data back, or makes anything by it, goes by what was recorded.
#[test]
fn nothing_is_made_by_lists_that_were_written_anew() {
    let scene = rewritten("printf ONE > data/a && rm data/c");
    let run = scene.bare(["restore", "dst", "back"]).run();
    run.assert_code(4).assert_says("dst/data/a").assert_says("rely on dst/manifest-sha256.txt");
    assert!(!scene.path("back/a").exists(), "{}", run.err());
    assert!(scene.path("back/dir/b").exists(), "{}", run.err());
    let run = scene.bare(["protect", "dst"]).run();
    run.assert_code(4).assert_says("dst/data/a").assert_says("dst/data/c");
    let run = scene.bare(["heal", "dst", "src"]).run();
    assert!(!run.err().contains("conflict"), "{}", run.err());
    // A good copy makes it whole, and its lists stay contradicted until they are made anew.
    shell(&scene, "mkdir good && cp -r src good/data");
    let run = scene.bare(["heal", "dst", "--from-tree", "good"]).run();
    run.assert_code(4).assert_says("healed: dst/data/a").assert_says("healed: dst/data/c");
    assert_eq!(shell(&scene, "diff -r src dst/data"), "");
    scene.copy(&["--bag", "--overwrite-policy", "always"]).assert_code(0);
    is_valid(&scene);
}

/// A run that leaves what differs does not make it right.
#[test]
fn a_run_that_leaves_it_does_not_make_it_valid() {
    let scene = rewritten("printf ONE > data/a");
    scene.copy(&["--bag", "--overwrite-policy", "never"]).assert_code(1);
    verify(&scene, 4).assert_says("contradicted: dst/data/a");
}

/// All that a bag may have is recorded: nothing is told of one as it was made.
#[test]
fn a_bag_that_is_as_it_was_made_is_valid() {
    let scene = Scene::new();
    scene
        .src
        .file("a", "one")
        .file("empty", "")
        .file("li\nne", "x")
        .file("100%", "x")
        .file("-z", "x");
    scene.src.hard_link("also", "a");
    for links in [&[][..], &["--hard-links"]] {
        for hash in ["sha256,md5", "sha256,md5", "sha1,sha512,sha256,md5"] {
            let args = [&["--bag", "--hash", hash], links].concat();
            scene.copy(&args).assert_code(0);
            is_valid(&scene);
            // The source changed.
            scene.src.append("a", b"more");
        }
        shell(&scene, "rm -r dst");
    }
    scene.copy(&["--bag"]).assert_code(0);
    // Also where it is moved, or copied with its record, which says nothing there.
    shell(&scene, "cp -a dst moved && rm -r dst && mv moved dst");
    is_valid(&scene);
}

/// A list by another algorithm than that of the runs says nothing against what they recorded.
#[test]
fn a_list_by_another_algorithm_does_not_count_for_the_one_that_is_gone() {
    let scene = rewritten("true");
    let seal = "cd dst && rm manifest-sha256.txt tagmanifest-sha256.txt &&
        find data -type f | sort | xargs sha512sum > manifest-sha512.txt";
    shell(&scene, seal);
    verify(&scene, 0);
    shell(
        &scene,
        "cd dst && printf ONE > data/a && find data -type f | sort | xargs sha512sum > manifest-sha512.txt",
    );
    let run = verify(&scene, 4);
    run.assert_says("differs: dst/data/a");
    assert!(!run.out().contains("valid bag"), "{}", run.out());
    let run = scene.bare(["restore", "dst", "back"]).run();
    run.assert_code(4).assert_says("dst/data/a");
    assert!(!scene.path("back/a").exists(), "{}", run.err());
    // Nor does what only has the name of the one that is gone.
    shell(&scene, "rm -rf back && mkdir dst/manifest-sha256.txt");
    let run = scene.bare(["restore", "dst", "back"]).run();
    run.assert_code(4).assert_says("dst/data/a");
    assert!(!scene.path("back/a").exists(), "{}", run.err());
}

/// What the runs made a bag is none of the plain copies, whatever is taken away and put there.
#[test]
fn a_bag_does_not_become_a_plain_copy() {
    let scene = rewritten("printf ONE > data/a");
    shell(
        &scene,
        "cd dst && rm *.txt && find data -type f | xargs sha256sum > ../m && mv ../m dircopy-20261101T000000Z.sha256sum",
    );
    verify(&scene, 5).assert_says("your runs made it a bag, its bagit.txt is gone");
    scene.bare(["restore", "dst", "back"]).run().assert_code(2);
}
