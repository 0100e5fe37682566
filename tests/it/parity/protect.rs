//! What `dircopy protect` makes, keeps and refuses.

use super::*;
use crate::harness::shell;

#[test]
fn other_programs_verify_and_repair_by_it() {
    if !has_par2() {
        return;
    }
    let scene = copied();
    let run = protect(&scene, &["--parity", "20%"]);
    run.assert_code(0).assert_prints(&["done: every listed file has parity"]);
    assert_par2(&scene, "verify", "dst");
    shell(
        &scene,
        "cp -r dst bad && cd bad && cat dircopy-*.sha256sum | sha256sum --check --strict --quiet",
    );
    flip(&scene.path("bad/d1/f7"), 100_000);
    flip(&scene.path("bad/d2/f5"), 1);
    std::fs::remove_file(scene.path("bad/d1/f1")).unwrap();
    assert!(par2(&scene, "verify", "bad").iter().any(|it| !it.status.success()));
    assert_par2(&scene, "repair", "bad");
    shell(&scene, "cd bad && cat dircopy-*.sha256sum | sha256sum --check --strict --quiet");
}

#[test]
fn it_is_no_part_of_the_tree() {
    let scene = copied();
    protect(&scene, &[]).assert_code(0);
    let before = sets(&scene);
    scene.bare(["verify", "--complete", "dst"]).run().assert_code(0);
    // A copy of the tree has none of it, a mirror moves none of it away, and further runs leave it.
    scene.command_to(scene.path("dst"), scene.path("second"), ["-q"]).run().assert_code(0);
    assert!(!scene.path("second/.dircopy/parity").exists());
    std::fs::remove_file(scene.src.root().join("d0/f0")).unwrap();
    scene.copy(&["-q", "--mirror"]).assert_code(0);
    assert_eq!(sets(&scene), before);
}

#[test]
fn rot_is_never_protected() {
    let scene = copied();
    flip(&scene.path("dst/d2/f5"), 17);
    std::fs::remove_file(scene.path("dst/d0/f3")).unwrap();
    let run = protect(&scene, &[]);
    run.assert_code(4).assert_says("differs: dst/d2/f5").assert_says("missing: dst/d0/f3");
    // All others are.
    run.assert_prints(&["of 8 files"]);
    // It is when it is whole again, and the sets that it has nothing to do with stay.
    let before = sets(&scene);
    scene.copy(&["-q", "--verify"]).assert_code(0);
    protect(&scene, &[]).assert_code(0).assert_prints(&["of 10 files"]);
    assert!(before.iter().any(|name| sets(&scene).contains(name)));
}

#[test]
fn only_what_changed_is_made_again() {
    let scene = copied();
    protect(&scene, &[]).assert_code(0);
    let before = sets(&scene);
    let second = protect(&scene, &[]);
    second.assert_code(0).assert_prints(&["0 sets made"]).assert_prints(&["of 10 files"]);
    assert_eq!(sets(&scene), before);
    scene.src.file("d1/f7", "other, and shorter");
    scene.copy(&["-q", "--overwrite-policy", "always"]).assert_code(0);
    protect(&scene, &[]).assert_code(0);
    let after = sets(&scene);
    assert!(before.iter().any(|name| after.contains(name)) && before != after);
    // Another share is other parity of all.
    protect(&scene, &["--parity", "50%"]).assert_code(0).assert_prints(&["; 0 kept"]);
    // One that is damaged, or cut off, is made again from what is good.
    for (number, name) in sets(&scene).iter().enumerate() {
        let path = scene.path(PARITY).join(name);
        let whole = std::fs::read(&path).unwrap();
        match number {
            0 => flip(&path, whole.len() / 2),
            1 => std::fs::write(&path, &whole[..whole.len() - 4]).unwrap(),
            _ => continue,
        }
        protect(&scene, &[]).assert_code(0).assert_prints(&["1 set made"]);
        assert!(std::fs::read(&path).unwrap() != whole || number < 2);
        let (healed, again) = (std::fs::metadata(&path), protect(&scene, &[]));
        assert!(healed.is_ok());
        again.assert_code(0).assert_prints(&["0 sets made"]);
    }
}

#[test]
fn a_tree_without_a_manifest_gets_none() {
    let scene = Scene::new();
    scene.output().file("f", "1");
    protect(&scene, &[]).assert_code(5);
    assert!(!scene.path("dst/.dircopy").exists());
    protect(&scene, &["--parity", "0%"]).assert_code(2);
    protect(&scene, &["--parity", "101%"]).assert_code(2);
}

/// What has parity already is not read, but that it is missing is seen.
#[test]
fn a_file_that_is_missing_is_named_though_it_has_parity() {
    let scene = copied();
    protect(&scene, &["--parity", "30%"]).assert_code(0);
    std::fs::remove_file(scene.path("dst/d1/f4")).unwrap();
    let run = protect(&scene, &[]);
    run.assert_code(4).assert_says("missing: dst/d1/f4").assert_prints(&["3 kept"]);
    scene.bare(["heal", "dst"]).run().assert_code(0);
    protect(&scene, &[]).assert_code(0).assert_prints(&["sets that were kept were not read"]);
}

/// Nor is it read as long as its size and time are those of its parity, or of the record.
#[test]
fn a_file_that_was_cut_or_replaced_is_named_though_it_has_parity() {
    let scene = copied();
    scene.copy(&["-q", "--parity", "5%"]).assert_code(0);
    let is_read = |run: &Run, name: &str| run.out().contains(&format!("OK dst/{name}"));
    let run = protect(&scene, &["-v"]);
    run.assert_code(0).assert_prints(&["of 10 files; 0 sets made"]);
    assert!(is_read(&run, "empty") && !is_read(&run, "d"), "{}", run.out());
    // A run that gives it another time records that.
    shell(&scene, "touch src/d1/f4");
    scene.copy(&["-q", "--overwrite-policy", "update"]).assert_code(0);
    let run = protect(&scene, &["-v"]);
    assert!(!is_read(&run, "d"), "{}", run.out());
    shell(
        &scene,
        ": >dst/d1/f1; : >dst/d0/f6; head -c 150001 /dev/zero >dst/d1/f7; touch -d 2001-01-01 dst/d2/f5",
    );
    let run = protect(&scene, &["-v"]);
    run.assert_code(4).assert_prints(&["of 10 files; 0 sets made"]);
    for name in ["d1/f1", "d0/f6", "d1/f7"] {
        run.assert_says(&format!("differs: dst/{name}"));
    }
    assert!(is_read(&run, "d2/f5") && !is_read(&run, "d1/f4"), "{}", run.out());
    shell(&scene, "for it in d1/f1 d0/f6 d1/f7; do cp src/$it dst/$it; done");
    protect(&scene, &[]).assert_code(0).assert_prints(&["of 10 files; 0 sets made"]);
}

/// A copy of an output without what runs kept there: its private directory is made as a run makes it, so that what comes
/// after knows it.
#[test]
fn a_tree_that_no_run_made_is_mended_and_protected_again() {
    let scene = copied();
    shell(&scene, "cp -a dst other && rm -r other/.dircopy");
    scene.ended(&["protect", "other", "--parity", "50%"], 0);
    shell(&scene, "printf X | dd of=other/d1/f7 conv=notrunc status=none");
    scene.ended(&["heal", "other"], 0);
    shell(&scene, "cmp src/d1/f7 other/d1/f7");
    scene.ended(&["protect", "other"], 0);
    assert_eq!(scene.ended(&["-q", "src", "other"], 0).err(), "");
}
