//! Lists whose digests or encoding are not known here, or look like others: the message says what they are.

use crate::harness::{Need, Run, Scene, have, shell};

/// Two files, and what a check of them by `list` says.
#[track_caller]
fn check(scene: &Scene, code: i32) -> Run {
    let run = scene.bare(["verify", "--manifest", "dst/list"]).run();
    run.assert_no_crash();
    run.assert_code(code);
    run
}

fn scene() -> Scene {
    let scene = Scene::new();
    scene.output().file("a", "xx").file("b", "yy");
    scene
}

#[test]
fn lists_of_b2sum_are_named_where_every_file_differs() {
    let scene = scene();
    shell(&scene, "cd dst && b2sum a b >list");
    check(&scene, 4).assert_says("digests of b2sum (BLAKE2b) look alike");
    // Where a file is as listed, it is a list of SHA-512.
    shell(&scene, "cd dst && sha512sum a >list && b2sum b >>list");
    assert!(!check(&scene, 4).err().contains("b2sum"));
    shell(&scene, "cd dst && b2sum --tag a b >list");
    check(&scene, 5).assert_says("the digest is BLAKE2b, which cannot be checked");
}

/// A copy takes such a list for one of SHA-512, too, and says so where no file is as listed.
#[test]
fn lists_of_b2sum_are_named_where_a_source_is_held_against_them() {
    let scene = Scene::new();
    scene.src.file("a", "xx").file("b", "yy");
    let says = "digests of b2sum (BLAKE2b) look alike";
    shell(&scene, "cd src && touch -d 2001-01-01 a b && b2sum a b >../list");
    scene.copy(&["--expect", "list"]).assert_code(4).assert_says(says);
    shell(&scene, "cd src && sha512sum a >../list && b2sum b >>../list");
    assert!(!scene.copy(&["--expect", "list"]).assert_code(4).err().contains("b2sum"));
}

#[test]
fn lists_of_hashdeep_without_a_known_digest_say_so() {
    let scene = scene();
    let head = "%%%% HASHDEEP-1.0\n%%%% size,tiger,whirlpool,filename\n";
    let row = |name: &str| format!("2,{:048},{:0128},./{name}\n", 1, 2);
    scene.output().file("list", format!("{head}{}{}", row("a"), row("b")));
    let run = check(&scene, 5);
    run.assert_says("the digest is tiger, which cannot be checked");
    assert!(!run.err().contains("only the strongest"), "none was compared");
    // The program that writes such lists reads it so, too.
    if have(&[Need::Program("hashdeep")]) {
        let make = "hashdeep -c tiger,whirlpool -l dst/a dst/b >dst/list && cd dst && sed -i s,dst/,, list";
        shell(&scene, make);
        check(&scene, 5).assert_says("the digest is tiger");
    }
    scene.output().file("more", format!("{:032}  a\n", 0));
    let run = scene.bare(["verify", "-m", "dst/list", "-m", "dst/more"]).run();
    run.assert_code(4).assert_says("differs: dst/a");
}

#[test]
fn xml_in_a_wide_encoding_is_named() {
    let scene = scene();
    shell(&scene, "cd src && echo '<hashlist version=\"1.1\"></hashlist>' >x");
    for encoding in ["UTF-32", "UTF-32LE", "UTF-32BE", "UTF-16", "UTF-16LE", "UTF-16BE"] {
        shell(&scene, &format!("iconv -f UTF-8 -t {encoding} src/x >dst/list"));
        let name = &encoding[..6];
        let run = check(&scene, 5);
        run.assert_says(&format!("it is XML in {name}")).assert_says(&format!("iconv -f {name}"));
    }
}
