//! Lists of other algorithms and programs than `sha256sum`: made by those programs, found by what is in them, and
//! never by their names.

use crate::harness::{Need, Run, Scene, content, have, shell};

fn scene() -> Scene {
    let scene = Scene::new();
    scene.output().file("plain", content(5000)).file("dir/large", content(2_000_000));
    scene.output().file("two words", "2").file("empty", "");
    scene.output().sparse("holes", 3 << 20, &[(1 << 20, 4096)]);
    scene
}

#[track_caller]
fn check(scene: &Scene, code: i32) -> Run {
    super::check(scene, &["-v", "--manifest", "list", "dst"], code)
}

/// What makes a list of the files on its standard input.
const MAKERS: [&str; 14] = [
    "xargs -0 sha256sum",
    "xargs -0 sha512sum",
    "xargs -0 sha1sum",
    "xargs -0 md5sum",
    "xargs -0 md5sum --tag",
    "xargs -0 sha512sum --tag",
    "xargs -0 b3sum",
    "xargs -0 xxhsum -H1",
    "xargs -0 xxhsum -H2",
    "xargs -0 xxhsum -H3",
    "xargs -0 hashdeep -l -c md5,sha1,sha256,tiger",
    "xargs -0 hashdeep -l -c md5",
    "xargs -0 rhash --sfv",
    "xargs -0 rhash --bsd --sha1 --md5",
];

#[test]
fn lists_of_other_algorithms_are_checked() {
    if !have(&["b3sum", "xxhsum", "hashdeep", "rhash"].map(Need::Program)) {
        return;
    }
    let scene = scene();
    for maker in MAKERS {
        shell(&scene, &format!("cd dst && find . -type f -print0 | {maker} > ../list"));
        check(&scene, 0)
            .assert_prints(&["OK", "dst/dir/large"])
            .assert_prints(&["OK", "dst/two words"]);
        let flip = "printf x | dd of=dst/dir/large bs=1 seek=1500000 conv=notrunc status=none";
        shell(&scene, flip);
        check(&scene, 4).assert_says("differs: dst/dir/large").assert_prints(&["OK", "dst/empty"]);
        scene.output().file("dir/large", content(2_000_000));
    }
}

#[test]
fn one_list_may_have_several_algorithms() {
    let scene = scene();
    let mixed = "cd dst && (echo '# mixed'; sha256sum plain; sha512sum --tag plain dir/large; md5sum holes) > ../list";
    shell(&scene, mixed);
    let run = check(&scene, 0);
    run.assert_prints(&["good", "4"]);
    assert!(!run.err().contains("twice"), "{}", run.err());
    shell(&scene, "sed -i 's/^\\(SHA512 (plain) = \\)..../\\10000/' list");
    check(&scene, 4).assert_says("differs: dst/plain");
    let complete = ["verify", "--complete", "--manifest", "list", "dst"];
    scene.bare(complete).run().assert_code(4).assert_says("not listed: dst/two words");
}

/// A digest that is none of its algorithm, and a row that is none of its table.
#[test]
fn lines_that_are_none_are_named() {
    let scene = scene();
    for (text, says) in [
        ("MD5 (plain) = 00\n", "MD5 has 32"),
        ("%%%% HASHDEEP-1.0\n%%%% size,md5,filename\n5000,zz,plain\n", "line 3"),
        ("%%%% HASHDEEP-1.0\n%%%% size,md5,filename\n5000\n", "line 3"),
        ("%%%% HASHDEEP-1.0\n5000,d41d8cd98f00b204e9800998ecf8427e,plain\n", "line 2"),
        (
            "%%%% HASHDEEP-1.0\n%%%% filename,md5,size\nempty,d41d8cd98f00b204e9800998ecf8427e,0\n",
            "last column",
        ),
        ("d41d8cd98f00b204e9800998ecf8427e  ../dst/empty\n", "line 1"),
        (
            "%%%% HASHDEEP-1.0\n%%%% size,md5,filename\n0,d41d8cd98f00b204e9800998ecf8427e,/etc/x\n",
            "line 3",
        ),
    ] {
        scene.tree(".").file("list", text);
        check(&scene, 5).assert_says(says);
    }
    // No digest of another algorithm passes in a manifest of dircopy's own.
    if !have(&[Need::Program("b3sum")]) {
        return;
    }
    shell(&scene, "cd dst && b3sum plain > dircopy-20260101T000000Z.sha256sum");
    scene.bare(["verify", "dst"]).run().assert_code(4).assert_says("differs: dst/plain");
}
