//! Cards that may only be read, copied by a user who is not root: the copies of their directories are closed to their
//! owner too, and get their lists all the same.

use super::histories::{generations, judge};
use crate::harness::{Need, Run, Scene, have, shell};

/// A source whose directories are closed; only the output may be written to.
fn card() -> Scene {
    let scene = Scene::new();
    scene.src.file("Reels/A/x", "1").file("y", "2");
    shell(&scene, "chmod 755 . && mkdir home && chown 65534:65534 home");
    scene
}

/// Copies to `name` as nobody.
fn copy(scene: &Scene, name: &str, args: &[&str]) -> Run {
    let output = format!("home/{name}");
    scene.bare(["-i", "src", "-o", &output].iter().chain(args)).under_nobody().run()
}

fn modes(scene: &Scene, dir: &str) -> String {
    let find = "find . -mindepth 1 -type d ! -path '*/.dircopy*' ! -path './dst*' -printf '%p %m\\n' | sort";
    shell(scene, &format!("cd {dir} && {find}"))
}

#[test]
fn histories_of_a_card_that_may_only_be_read_are_gone_on_with() {
    if !have(&[Need::Setpriv, Need::Program("ascmhl")]) {
        return;
    }
    let scene = card();
    shell(
        &scene,
        "ascmhl create -h md5 src/Reels/A && ascmhl create -h md5 src && chmod -R a-w src",
    );
    for number in [1, 2] {
        copy(&scene, "dst", &["--format", "mhl", "--verify"]).assert_code(0);
        assert_eq!(modes(&scene, "home/dst"), modes(&scene, "src"), "{number}");
        assert_eq!(generations(&scene, "home/dst").len(), 1 + number);
        assert_eq!(generations(&scene, "home/dst/Reels/A").len(), 2 + number);
        judge(&scene, "home/dst", [0, 0]);
    }
    shell(&scene, "chmod -R u+w .");
}

#[test]
fn lists_are_among_the_files_of_a_source_that_may_only_be_read() {
    if !have(&[Need::Setpriv]) {
        return;
    }
    let scene = card();
    shell(&scene, "chmod -R a-w src");
    copy(&scene, "dst", &["--format=dirs", "--format=sides"]).assert_code(0);
    assert_eq!(modes(&scene, "home/dst"), modes(&scene, "src"));
    let check = "cd home/dst && find . -name SHA256SUMS -execdir sha256sum -c --strict --quiet {} \\; && \
                 find . -name '*.sha256' -execdir sha256sum -c --strict {} \\; | wc -l";
    assert_eq!(shell(&scene, check).trim(), "2");
    shell(&scene, "chmod -R u+w .");
}
