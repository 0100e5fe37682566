//! Who may read what a run writes: a list is as closed as what it lists.

use crate::harness::{Scene, content, shell};

/// The permissions of what the newest run left at `dst`, but for its private directory.
fn modes(scene: &Scene) -> String {
    let script = "cd dst; m=$(ls dircopy-*.sha256sum | LC_ALL=C sort | tail -n1); \
                  stat -c %a ${m%.sha256sum}.* | sort -u | tr '\\n' ' '";
    shell(scene, script).trim().to_owned()
}

#[test]
fn a_manifest_is_as_closed_as_what_it_lists() {
    let all = ["--hash", "sha256,md5"];
    for (close, mode) in [
        ("true", "644"),
        ("chmod 700 src/dir", "600"),
        ("chmod 711 src/dir/deep", "600"),
        ("chmod 700 src", "600"),
        ("chmod 600 src/dir/deep/key", "600"),
        ("chmod 640 src/dir/deep/key; chgrp $(id -g) src/dir/deep/key", "640"),
    ] {
        let scene = Scene::new();
        scene.src.file("dir/deep/key", "key").file("large", content(3_000_000)).dir("empty");
        shell(&scene, &format!("chmod -R go=rX src; {close}"));
        for _ in 0..2 {
            scene.command(all).after("umask 022").run().assert_code(0);
            assert_eq!(modes(&scene), mode, "{close}");
        }
        scene.command(all).after("umask 077").run().assert_code(0);
        assert_eq!(modes(&scene), "600", "{close}");
    }
}

/// Lines that are carried over are of what the source no longer shows.
#[test]
fn a_line_that_is_carried_over_stays_as_closed() {
    let scene = Scene::new();
    scene.src.file("dir/key", "key").file("open", "open");
    shell(&scene, "chmod -R go=rX src; chmod 700 src/dir");
    scene.command(["-q"]).after("umask 022").run().assert_code(0);
    scene.tree("other").file("open too", "open");
    shell(&scene, "chmod -R go=rX other");
    let more =
        || scene.command_to(scene.path("other"), &scene.dst, ["-q"]).after("umask 022").run();
    more().assert_code(0);
    assert_eq!(modes(&scene), "600");
    shell(&scene, "chmod 755 dst/dir");
    more().assert_code(0);
    assert_eq!(modes(&scene), "644");
}

/// What a run that was cut short leaves is its owner's.
#[test]
fn an_unfinished_manifest_is_closed() {
    let scene = Scene::new();
    for i in 0..40 {
        scene.src.file(format!("{i}"), content(100_000));
    }
    let args = ["--limit-rate", "500K", "--max-duration", "2s", "--grace", "1s"];
    scene.command(args).after("umask 022").run().assert_code(6);
    let left = shell(&scene, "stat -c %a dst/dircopy-*.part | sort -u");
    assert_eq!(left.trim(), "600");
}

/// So are lists of other forms, wherever they lie: one among the files lists those of its directory.
#[test]
fn lists_of_every_form_are_as_closed_as_what_they_list() {
    let closed = [
        (&["--format=dirs"][..], "600 dst/SHA256SUMS 644 dst/dir/SHA256SUMS"),
        (&["--format=sides"], "644 dst/dir/b.sha256 600 dst/key.sha256 644 dst/open.sha256"),
        (&["--format=mhl"], "600 dst/ascmhl/0001 600 dst/ascmhl/ascmhl_chain.xml"),
        (&["--format=mhl1"], "600 dst/dst.mhl"),
        (&["--hash=sha256,md5"], "600 dst/md5sum 600 dst/sha256sum"),
        (
            &["--bag"],
            "644 dst/bag-info.txt 644 dst/bagit.txt 600 dst/manifest-sha256.txt 644 dst/tagmanifest-sha256.txt",
        ),
    ];
    for (args, expected) in closed {
        let scene = Scene::new();
        scene.src.file("dir/b", "b").file("key", "key").file("open", "open");
        shell(&scene, "chmod -R go=rX src; chmod 600 src/key");
        scene.command(args).after("umask 022").run().assert_code(0);
        let lists = "find dst -path dst/.dircopy -prune -o -path dst/data -prune -o -type f \
                     ! -name b ! -name key ! -name open -printf '%m %p\\n' | LC_ALL=C sort -k 2";
        let cut =
            "sed -E 's/(0001)_.*/\\1/; s/dst_[-0-9_]*Z?[.]mhl/dst.mhl/; s/dircopy-[^.]*Z[.]//'";
        let found = shell(&scene, &format!("{lists} | {cut}"));
        let of_form = |line: &&str| {
            let is_manifest =
                line.ends_with("/sha256sum") || line.ends_with(".dirs") || line.ends_with(".sides");
            args[0].starts_with("--hash")
                || !is_manifest && !line.ends_with("/dirs") && !line.ends_with("/sides")
        };
        let found: Vec<&str> = found.lines().filter(of_form).collect();
        assert_eq!(found.join(" "), expected, "{args:?}");
        shell(&scene, "! find dst -name '*.sha256sum' -perm /077 | grep -q .");
    }
}
