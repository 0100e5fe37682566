//! `--parity` of a copy: its last step gives each output what `dircopy protect` gives it.

use std::collections::BTreeSet;

use super::*;
use crate::harness::{Mount, Strace, need, shell};

#[test]
fn a_copy_gives_each_output_parity_and_later_ones_only_what_is_new() {
    let scene = copied();
    let other = scene.path("other");
    let args = ["--parity", "20%", "-o", other.to_str().unwrap()];
    let run = scene.copy(&args);
    run.assert_code(0).assert_prints(&["of 10 files"]).assert_prints(&["done: "]);
    let before = sets(&scene);
    let names = shell(&scene, "ls other/.dircopy/parity");
    assert_eq!(names.lines().collect::<Vec<_>>(), before);
    if has_par2() {
        assert_par2(&scene, "verify", "dst");
    }
    scene.src.file("new", noise(&mut Random::new(3), 100));
    scene.copy(&args).assert_code(0).assert_prints(&["of 11 files; 1 set made"]);
    assert!(before.iter().any(|name| sets(&scene).contains(name)));
    scene.copy(&[&args[..], &["--dry-run"]].concat()).assert_code(0);
    flip(&other.join("d1/f7"), 77);
    scene.bare(["heal", "-q", "other"]).run().assert_code(0);
    shell(&scene, "diff -r src other --exclude '.dircopy' --exclude 'dircopy-*'");
}

#[test]
fn each_generation_has_its_own() {
    let scene = copied();
    for number in 0..2 {
        scene.src.file(format!("new{number}"), noise(&mut Random::new(4), 3000));
        let to = scene.path("generations");
        let run = scene.command_to(scene.src.root(), to, ["--generations", "--parity", "5%"]).run();
        run.assert_code(0).assert_prints(&["parity"]);
    }
    for found in shell(&scene, "ls -d generations/2*").lines() {
        flip(&scene.path(found).join("d1/f7"), 9);
        scene.bare(["heal", "-q", found]).run().assert_code(0);
    }
    scene.bare(["verify", "-q", "generations"]).run().assert_code(0);
}

/// The copy is complete all the same, and the exit code says that not all that was asked for was done.
#[test]
fn parity_that_cannot_be_made_is_no_success() {
    need!(Strace);
    let scene = copied();
    let strace = Strace::inject(&scene, "mkdirat", "error=ENOSPC").exactly_on("parity");
    let run = strace.run(scene.command(["--parity", "5%"]));
    strace.fired(&run);
    run.assert_code(1).assert_prints(&[
        "NOT COMPLETE (exit 1): everything is at the output, but not all of it has parity",
    ]);
    run.assert_says("cannot make the directory of the parity ");
    shell(&scene, "rm -rf dst/.dircopy/parity");
    let run = scene.copy(&["--hash", "none", "--parity", "5%"]);
    run.assert_code(2).assert_says("--parity is of what a manifest lists");
}

/// Its payload has parity by the list with the strongest digests, and the bag is as valid as before.
#[test]
fn a_bag_is_made_whole() {
    let scene = copied();
    let bag = scene.path("bag");
    let args = ["--bag", "--hash", "sha256,sha512,md5", "--parity", "20%"];
    let copy = || scene.command_to(scene.src.root(), &bag, args).run();
    copy().assert_code(0).assert_prints(&["of 10 files"]);
    scene.bare(["protect", "bag"]).run().assert_code(0).assert_prints(&["0 sets made"]);
    let valid = |code| scene.bare(["verify", "bag"]).run().assert_code(code).out();
    assert!(valid(0).contains("valid bag"));
    flip(&bag.join("data/d1/f7"), 100_000);
    let run = scene.bare(["verify", "bag"]).run();
    run.assert_code(4).assert_says("repairable from parity: bag/data/d1/f7: 1 slice bad, ");
    assert_eq!(run.err().matches("repairable from parity").count(), 1);
    scene.bare(["heal", "bag"]).run().assert_code(0).assert_says("healed: bag/data/d1/f7");
    assert!(valid(0).contains("valid bag"));
    shell(&scene, "diff -r src bag/data");
    // It is as old as it was, so a copy finds nothing to do.
    copy().assert_code(0).assert_prints(&["copied      0 files"]);
    std::fs::remove_file(bag.join("data/d1/f4")).unwrap();
    let run = scene.bare(["heal", "bag"]).run();
    run.assert_code(0).assert_says("bag/data/d1/f4: they, or a directory above, may be others");
    shell(&scene, "diff -r src bag/data");
}

/// What is copied is still in memory when its parity is made; what is read back comes from the device once.
#[test]
fn what_is_copied_is_not_read_from_the_device_for_its_parity() {
    need!(Kinds);
    Mount::privately();
    for kind in ["ext4", "xfs", "btrfs"] {
        let scene = Scene::new();
        let _mount = Mount::of_size(kind, 400, &scene.path("image"), &scene.path("mnt"));
        let mut random = Random::new(7);
        let large = noise(&mut random, 9 << 20);
        for number in 0..12 {
            scene.src.file(format!("d/{number}"), &large[number..][..1 << 20]);
            scene.src.file(format!("d/small {number}"), &large[number..][..5000]);
        }
        scene.src.file("large", &large);
        for (verify, most) in [("", 0), ("--verify", (23 << 20) + 60_000)] {
            // The shell is told of what the programs that it waited for have read.
            let program = env!("CARGO_BIN_EXE_dircopy");
            let told = shell(
                &scene,
                &format!(
                    "rm -rf mnt/dst && {program} -q {verify} src mnt/dst --parity 0.1% && \
                     sed -n 's/^read_bytes: //p' /proc/$$/io"
                ),
            );
            let read: usize = told.trim().parse().unwrap();
            assert!(read <= most + (1 << 20) && read >= most / 2, "{kind} {verify}: {read} bytes");
            let run = scene.bare(["protect", "mnt/dst"]).run();
            run.assert_code(0).assert_prints(&["of 25 files; 0 sets made"]);
        }
    }
}

/// Where the copy fits and its parity does not, nothing is begun.
#[test]
fn the_look_at_the_room_counts_parity() {
    need!(Mount);
    Mount::privately();
    let scene = Scene::new();
    scene.src.file("file", noise(&mut Random::new(5), 5 << 20));
    let _mount = Mount::tmpfs(&scene.path("mnt"), "9m");
    let copy =
        |args: &[&str]| scene.command_to(scene.src.root(), scene.path("mnt/dst"), args).run();
    let run = copy(&["--parity", "100%"]);
    run.assert_code(2).assert_says("take at least 11 MiB with their parity; ");
    assert!(!scene.path("mnt/dst").exists());
    copy(&["--parity", "0.1%"]).assert_code(0);
    copy(&["--parity", "100%", "--overwrite-policy", "always"]).assert_code(2);
}

/// A run that could not keep its record has no parity made of its copy: that is a copy that is not complete, and not a
/// list that cannot be used (5).
#[test]
fn a_disk_that_fills_at_the_end_leaves_an_incomplete_run() {
    need!(Mount);
    Mount::privately();
    let scene = Scene::new();
    let mut random = Random::new(6);
    scene.src.file("big", noise(&mut random, 300_000));
    for number in 0..6 {
        scene.src.file(format!("f{number}"), noise(&mut random, 9000));
    }
    let mut codes = BTreeSet::new();
    for free in (360..480).step_by(4) {
        let mount = Mount::tmpfs(&scene.path("mnt"), "900k");
        shell(&scene, &format!("head -c {} /dev/zero >mnt/filler", (900 - free) * 1024));
        let args = ["--no-space-check", "--parity", "10%"];
        let run = scene.command_to(scene.src.root(), scene.path("mnt/dst"), args).run();
        codes.extend(run.code);
        run.assert_code_in(&[0, 1, 3]);
        mount.detach();
    }
    assert!(codes.contains(&1), "{codes:?}");
}
