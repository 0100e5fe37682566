//! `--expect` with the manifest of a bag, which is an archive: nothing in it changes, and nothing is gone.

use crate::harness::{Run, Scene, content, shell};

/// A bag at `dst`.
fn bag() -> Scene {
    let scene = Scene::new();
    scene.src.file("a", "one").file("dir/b%", content(100_000)).file("c", "three");
    scene.copy(&["--bag"]).assert_code(0);
    scene
}

fn unpack(scene: &Scene, source: &str, expected: &str) -> Run {
    scene.bare(["-i", source, "-o", "out", "--expect", expected, "--allow-empty"]).run()
}

/// A bag whose declaration is none says nothing, and is refused. Its manifest holds.
#[test]
fn a_bag_that_is_none_is_refused_and_its_manifest_holds() {
    for text in [
        "",
        "\u{feff}BagIt-Version: 1.0\nTag-File-Character-Encoding: UTF-8\n",
        "BagIt-Version: 9\n",
    ] {
        let scene = bag();
        scene.output().file("bagit.txt", text);
        let run = unpack(&scene, "dst/data", "dst");
        run.assert_code(2).assert_says("dst/bagit.txt");
        run.assert_says("--expect dst/manifest-sha256.txt");
        assert!(!scene.path("out").exists());
        let run = unpack(&scene, "dst/data", "dst/manifest-sha256.txt");
        run.assert_code(0).assert_prints(&["3 files as listed, 0 edited since, 0 gone"]);
        scene.output().file("data/a", "rot");
        let run = unpack(&scene, "dst/data", "dst/manifest-sha256.txt");
        run.assert_code(4).assert_says("dst/data/a");
    }
    let scene = bag();
    scene.output().remove("bagit.txt");
    unpack(&scene, "dst/data", "dst").assert_code(2).assert_says("it has no bagit.txt");
}

/// Where nothing of a list is in the source, nothing was held against it, and that is no success.
#[test]
fn a_list_of_another_tree_is_no_success() {
    let scene = bag();
    shell(&scene, "cp dst/manifest-sha256.txt list && cp -r src src2 && echo new >src2/a");
    for source in ["src", "src2", "dst/data/a"] {
        let run = unpack(&scene, source, "list");
        run.assert_code(1).assert_says("nothing that it lists is in the source");
        run.assert_prints(&["not all of it was held against the expected manifest"]);
        assert!(!run.out().contains("unusable"), "no line is amiss: {}", run.out());
        shell(&scene, "rm -r out");
    }
    // What a filter leaves out is there.
    shell(&scene, "sha256sum src/a | sed 's,src/,,' >list");
    let run = scene.bare(["src", "out", "--expect", "list", "--exclude", "/a"]).run();
    run.assert_code(0);
}

/// Another content is not copied, however new it is, and what is gone is no success.
#[test]
fn what_a_bag_lists_neither_changes_nor_goes() {
    for expected in ["dst", "dst/manifest-sha256.txt"] {
        let scene = bag();
        unpack(&scene, "dst/data", expected).assert_code(0);
        shell(&scene, "echo other >dst/data/a; touch -d 2100-01-01 dst/data/a");
        let run = scene.bare(["-i", "dst/data", "-o", "out", "--expect", expected]).run();
        run.assert_code(4).assert_says("dst/data/a").assert_says("no file of a bag may change");
        assert_eq!(scene.tree("out").read("a"), b"one");
        shell(&scene, "rm -r out");
        unpack(&scene, "dst/data", expected).assert_code(4).assert_prints(&["0 edited since"]);
        assert!(!scene.tree("out").has("a") && scene.tree("out").has("c"));
        let scene = bag();
        scene.output().remove("data/c");
        let run = unpack(&scene, "dst/data", expected);
        run.assert_code(4).assert_says("not in the source: c").assert_prints(&["1 gone"]);
        run.assert_prints(&["NOT COMPLETE (exit 4): 1 listed file is not in the source"]);
    }
}

/// An empty bag is a valid one, and a file of the payload that no line lists makes it none.
#[test]
fn an_empty_bag_is_unpacked_and_what_it_does_not_list_is_told() {
    let scene = Scene::new();
    scene.copy(&["--bag", "--allow-empty"]).assert_code(0);
    for (source, expected) in
        [("dst/data", "dst"), ("dst/data", "dst/manifest-sha256.txt"), ("dst", "dst")]
    {
        unpack(&scene, source, expected).assert_code(0);
        shell(&scene, "rm -r out && echo x >dst/data/x");
        let run = unpack(&scene, source, expected);
        run.assert_code(1).assert_says("there are files that it does not list");
        run.assert_prints(&["not all of it was held against the expected manifest"]);
        assert!(!run.out().contains("unusable"), "no line is amiss: {}", run.out());
        assert!(scene.path("out").exists(), "it is copied");
        shell(&scene, "rm -r out dst/data/x");
    }
    scene.output().file("manifest-sha256.txt", "no line\n");
    unpack(&scene, "dst/data", "dst").assert_code(2).assert_says("no line with a digest");
    let scene = bag();
    unpack(&scene, "dst/data", "dst").assert_code(0);
    // What a run left beside what it unpacked is not of the payload.
    scene.bare(["-i", "out", "-o", "out2", "--expect", "dst"]).run().assert_code(0);
    scene.output().file("data/dir/x", "x");
    let run = scene.bare(["-i", "dst/data", "-o", "out3", "--expect", "dst"]).run();
    run.assert_code(1).assert_says("(dir/x is one)");
}

/// What a copy cannot compute is named, with what can: nothing is called rotten for want of that.
#[test]
fn lists_that_a_copy_does_not_compute_are_named() {
    let scene = bag();
    let by = |command: &str| {
        shell(&scene, &format!("cd dst && rm manifest-*; {command}"));
    };
    let refused = |expected: &str, names: &str, program: &str| {
        let run = unpack(&scene, "dst/data", expected);
        run.assert_code(2).assert_says(names).assert_says(program).assert_says("without --expect");
        assert!(!scene.path("out").exists());
    };
    by("b2sum data/a data/dir/b% data/c >manifest-blake2b.txt");
    for expected in ["dst", "dst/manifest-blake2b.txt"] {
        refused(expected, "by blake2b, which a copy", "a program that knows it");
    }
    by("sha384sum data/a data/c >manifest-sha384.txt; cp manifest-sha384.txt manifest-tiger.txt");
    refused("dst", "SHA-384", "dirverify");
    refused("dst/manifest-sha384.txt", "by SHA-384, which a copy", "dirverify");
    by("true");
    unpack(&scene, "dst/data", "dst").assert_code(2).assert_says("no manifest of its payload");
    scene.bare(["src", "card", "--format", "mhl1", "-q"]).run().assert_code(0);
    let list = shell(&scene, "ls card/*.mhl");
    refused(list.trim(), "it is a Media Hash List", "dirverify");
}

/// A manifest means the same in capitals. In another encoding than the bag declares it is none.
#[test]
fn a_manifest_is_known_by_its_name_and_its_encoding() {
    let scene = bag();
    shell(
        &scene,
        "cd dst && mv manifest-sha256.txt manifest-SHA256.txt && rm tagmanifest-* .dircopy/tag-lists",
    );
    for expected in ["dst", "dst/manifest-SHA256.txt"] {
        let run = unpack(&scene, "dst/data", expected);
        run.assert_code(0).assert_prints(&["3 files as listed"]);
        shell(&scene, "rm -r out");
    }
    let verify = || scene.bare(["verify", "dst"]).run();
    verify().assert_code(5).assert_says("bags call it manifest-sha256.txt");
    scene.output().file("data/a", "rot");
    verify().assert_code(4).assert_says("differs: dst/data/a");
    let scene = bag();
    shell(&scene, "cd dst && iconv -t UTF-16 manifest-sha256.txt >m && mv m manifest-sha256.txt");
    for expected in ["dst", "dst/manifest-sha256.txt"] {
        let run = unpack(&scene, "dst/data", expected);
        run.assert_code(2).assert_says("it is UTF-16, and bagit.txt declares another encoding");
    }
}
