//! What `dircopy verify` says of parity, and what `dircopy heal` makes whole by it, without another tree.

use std::os::unix::fs::{MetadataExt, PermissionsExt};

use super::*;
use crate::harness::{Strace, content, need, shell};

fn heal(scene: &Scene, args: &[&str]) -> Run {
    scene.bare([&["heal", "dst"], args].concat()).run()
}

#[track_caller]
fn is_whole(scene: &Scene) {
    shell(
        scene,
        "cd dst && cat $(ls dircopy-*.sha256sum | tail -n 1) | sha256sum --check --strict --quiet",
    );
    shell(scene, "diff -r src dst --exclude '.dircopy' --exclude 'dircopy-*'");
}

#[test]
fn what_is_bad_or_missing_is_made_whole() {
    let scene = copied();
    shell(
        &scene,
        "chmod 640 dst/d1/f7 && touch -d 2011-01-01 dst/d1/f7 dst/d1/f4 && chmod 604 dst/d1/f4",
    );
    protect(&scene, &["--parity", "30%"]).assert_code(0);
    let before = sets(&scene);
    flip(&scene.path("dst/d1/f7"), 150_000);
    flip(&scene.path("dst/d1/f7"), 3);
    for gone in ["d1/f4", "d0/f0", "empty"] {
        std::fs::remove_file(scene.path("dst").join(gone)).unwrap();
    }
    let run = scene.bare(["verify", "dst"]).run();
    run.assert_code(4).assert_says("repairable from parity: dst/d1/f7: 2 slices bad, ");
    run.assert_says("repairable from parity: dst/empty").assert_prints(&["dircopy heal dst"]);
    let dry = heal(&scene, &["--dry-run"]);
    dry.assert_code(4)
        .assert_says("could be healed: dst/d1/f7")
        .assert_says("could be healed: dst/d1/f4");
    assert!(!scene.path("dst/d1/f4").exists());
    let run = heal(&scene, &[]);
    run.assert_code(0).assert_says("healed: dst/d1/f7: 6.49 KiB from dst/.dircopy/parity");
    run.assert_says("dst/empty: its parity does not have them: it is yours alone");
    is_whole(&scene);
    let [f4, f7] = ["dst/d1/f4", "dst/d1/f7"].map(|it| std::fs::metadata(scene.path(it)).unwrap());
    assert_eq!((f4.mode() & 0o7777, f7.mode() & 0o7777), (0o604, 0o640));
    let of_source = |it| std::fs::metadata(scene.path(it)).unwrap().mtime();
    assert_eq!([f4.mtime(), f7.mtime()], ["src/d1/f4", "src/d1/f7"].map(of_source));
    // Nothing is left over, and the parity is what it was.
    assert_eq!(sets(&scene), before);
    assert_par2(&scene, "verify", "dst");
    heal(&scene, &[]).assert_code(0);
}

/// One bad file is one, whatever can make it whole; and what has the name of a file and is none is left by heal.
#[test]
fn what_can_be_made_whole_is_counted_once() {
    let scene = Scene::new();
    scene.src.file("a", "hello").file("b", "b").file("c", "c").file("d", "d").file("e/f", "f");
    for to in ["one", "two"] {
        scene.bare(["-q", "--parity", "100%", "src", to]).run().assert_code(0);
    }
    shell(&scene, "cd one; printf X >>a; rm b c d; mkdir b; ln -s a c; rm -r e; touch e");
    let run = scene.bare(["verify", "one", "two"]).run();
    run.assert_code(4).assert_prints(&["repairable", "2 bad files", "dircopy heal one two"]);
    scene.bare(["heal", "one", "two"]).run().assert_code(4);
    let run = scene.bare(["verify", "one", "two"]).run();
    run.assert_code(4);
    assert!(!run.out().contains("repairable"), "{}", run.out());
}

/// A tree of empty files has no set, and nothing is made from none.
#[test]
fn nothing_is_repairable_without_a_set() {
    let scene = Scene::new();
    scene.src.file("empty", "");
    scene.copy(&[]).assert_code(0);
    protect(&scene, &[]).assert_code(0);
    std::fs::remove_file(scene.path("dst/empty")).unwrap();
    let run = scene.bare(["verify", "dst"]).run();
    run.assert_code(4);
    assert!(!run.err().contains("repairable"), "{}", run.err());
}

#[test]
fn a_directory_that_is_missing_is_made_for_its_owner() {
    let scene = copied();
    protect(&scene, &["--parity", "100%"]).assert_code(0);
    shell(&scene, "rm -r dst/d0 dst/d2");
    heal(&scene, &[]).assert_code(0);
    is_whole(&scene);
    let made = std::fs::metadata(scene.path("dst/d0")).unwrap();
    assert_eq!(made.permissions().mode() & 0o777, 0o700);
}

#[test]
fn what_is_too_much_is_named_and_left() {
    let scene = copied();
    protect(&scene, &["--parity", "3%"]).assert_code(0);
    // 19 slices, and parity for one.
    for at in [0, 30_000, 60_000] {
        flip(&scene.path("dst/d0/f6"), at);
    }
    flip(&scene.path("dst/d1/f4"), 4096);
    let bad = std::fs::read(scene.path("dst/d0/f6")).unwrap();
    let run = scene.bare(["verify", "dst"]).run();
    run.assert_code(4).assert_says("beyond repair: dst/d0/f6: 3 slices bad, ");
    let run = heal(&scene, &[]);
    run.assert_code(4).assert_says("healed: dst/d1/f4");
    run.assert_says(
        "not healed: dst/d0/f6: no tree has it good, and it is beyond repair: 3 slices bad, ",
    );
    assert_eq!(std::fs::read(scene.path("dst/d0/f6")).unwrap(), bad);
    // Another tree comes first: what it has need not be repaired.
    let run = scene.bare(["heal", "dst", "--from-tree", "src"]).run();
    run.assert_code(0).assert_says("healed: dst/d0/f6").assert_says(" from src");
    is_whole(&scene);
}

/// To find out that a set is of no use is to read all of its files, whether one or a thousand of these are bad.
#[test]
fn what_is_too_much_is_found_out_once() {
    need!(Strace);
    let scene = Scene::new();
    let names: Vec<String> = (0..40).map(|number| format!("f{number:02}")).collect();
    for name in &names {
        scene.src.file(name, content(5000));
    }
    scene.copy(&["-q"]).assert_code(0);
    protect(&scene, &["--parity", "3%"]).assert_code(0);
    for name in &names[..30] {
        flip(&scene.path("dst").join(name), 7);
    }
    for args in [&["--dry-run"][..], &[]] {
        let strace = Strace::watch(&scene, "openat");
        let run = strace.run(scene.bare([&["heal", "dst", "-q"], args].concat()));
        run.assert_code(4)
            .assert_says("not healed: dst/f29: no tree has it good, and it is beyond repair");
        let log = strace.log();
        let reads = log.lines().filter(|line| line.contains("\"f35\"")).count();
        assert!((1..8).contains(&reads), "{reads} readings of a good file of the set\n{log}");
    }
}

#[test]
fn parity_of_an_earlier_content_is_told_and_repairs_nothing_false() {
    let scene = copied();
    protect(&scene, &["--parity", "100%"]).assert_code(0);
    scene.src.file("d1/f7", "another content");
    scene.copy(&["-q", "--overwrite-policy", "always"]).assert_code(0);
    let run = scene.bare(["verify", "dst"]).run();
    run.assert_code(0).assert_says("parity is of an earlier content: 1 file");
    flip(&scene.path("dst/d1/f7"), 2);
    heal(&scene, &[]).assert_code(4).assert_says("not healed: dst/d1/f7: no tree has it good");
    // Healing made the set anew, without what is bad: only the file that changed has none now.
    scene.copy(&["-q", "--verify"]).assert_code(0);
    protect(&scene, &[]).assert_code(0);
    flip(&scene.path("dst/d1/f7"), 2);
    heal(&scene, &[]).assert_code(0);
    is_whole(&scene);
}

#[test]
fn damaged_parity_is_told_used_and_made_anew() {
    let scene = copied();
    protect(&scene, &["--parity", "50%"]).assert_code(0);
    let whole: Vec<_> = sets(&scene).into_iter().map(|it| scene.path(PARITY).join(it)).collect();
    let contents: Vec<_> = whole.iter().map(|path| std::fs::read(path).unwrap()).collect();
    for (path, content) in whole.iter().zip(&contents) {
        // Once in the first description, once in a recovery slice.
        flip(path, 100);
        flip(path, content.len() / 2);
    }
    let run = scene.bare(["verify", "dst"]).run();
    run.assert_code(0).assert_says("of its files are damaged");
    flip(&scene.path("dst/d1/f7"), 100_000);
    heal(&scene, &[]).assert_code(0).assert_says("healed: dst/d1/f7");
    is_whole(&scene);
    assert_par2(&scene, "verify", "dst");
    assert!(!heal(&scene, &[]).assert_code(0).err().contains("damaged"));
    // What is known of none is left for protect.
    std::fs::write(&whole[0], "nothing").unwrap();
    scene.bare(["verify", "dst"]).run().assert_code(0).assert_says("1 of its files are damaged");
    protect(&scene, &["--parity", "50%"]).assert_code(0);
    assert_eq!(std::fs::read(&whole[0]).unwrap(), contents[0]);
}

/// What is in memory of a bad file may be good, so it is read around the cache where that is possible.
#[test]
fn a_file_that_is_read_around_the_cache_is_made_whole() {
    let scene = Scene::on_disk();
    scene.src.file("large", noise(&mut Random::new(7), 1_200_003));
    scene.copy(&["-q"]).assert_code(0);
    protect(&scene, &["--parity", "1%"]).assert_code(0);
    flip(&scene.path("dst/large"), 1_200_001);
    for _ in 0..2 {
        shell(&scene, "sync dst/large && cat dst/large > /dev/null");
        heal(&scene, &[]).assert_code(0);
        is_whole(&scene);
    }
}

/// What a missing file was open to when its parity was made may not hold any more.
#[test]
fn a_missing_file_that_was_closed_since_stays_closed() {
    need!(Root);
    for by in ["", "--state", "plan"] {
        let scene = copied();
        shell(&scene, "chmod 644 src/d1/f4 dst/d1/f4 && chmod 755 src src/d* dst dst/d*");
        protect(&scene, &["--parity", "30%"]).assert_code(0);
        shell(&scene, "sleep 0.05 && chmod 600 src/d1/f4");
        let update = ["--overwrite-policy", "update"];
        if by == "plan" {
            let plan = [&["plan", "src", "dst", "--plan", "plan"][..], &update].concat();
            scene.bare(plan).run().assert_code(0);
            scene.bare(["shard", "--plan", "plan", "--claim"]).run().assert_code(0);
            scene.bare(["finish", "--plan", "plan"]).run().assert_code(0);
        } else {
            let state = if by.is_empty() { vec![] } else { vec![by, "state"] };
            shell(&scene, "mkdir -m 700 state");
            scene.copy(&[&state[..], &update].concat()).assert_code(0);
        }
        protect(&scene, &[]).assert_code(0);
        // Another user's directory in place of one above.
        shell(
            &scene,
            "rm dst/d1/f4 && mkdir new && mv dst/d0/* new && rmdir dst/d0 && mv new dst/d0",
        );
        shell(&scene, "rm dst/d0/f0 && chmod 755 dst/d0 && chown 65534:65534 dst/d0");
        let run = heal(&scene, &[]);
        run.assert_code(0)
            .assert_says("dst/d1/f4: they, or a directory above, may be others since");
        run.assert_says("dst/d0/f0: they, or a directory above, may be others since");
        is_whole(&scene);
        assert_eq!(shell(&scene, "stat -c %a.%u dst/d1/f4 dst/d0/f0"), "600.0\n600.0\n");
    }
}

/// Who owns the tree, and not its parity, may put there what takes for ever to read.
#[test]
fn parity_of_another_user_is_not_read() {
    need!(Root);
    let scene = copied();
    protect(&scene, &[]).assert_code(0);
    shell(
        &scene,
        "for set in dst/.dircopy/parity/*; do truncate -s 4T $set; done; chown -R 65534 dst/.dircopy",
    );
    let run = scene.bare(["verify", "dst"]).run();
    run.assert_code(0);
    flip(&scene.path("dst/d1/f7"), 2);
    let run = scene.bare(["verify", "dst"]).run();
    run.assert_code(4);
    assert!(!run.err().contains("repairable from parity"), "{}", run.err());
}

/// A bad file of ours keeps what it may do. One that another user put in its place gets the content for us alone.
#[test]
fn a_bad_file_keeps_its_label_unless_another_user_may_have_put_it_there() {
    need!(Root);
    let scene = copied();
    shell(&scene, "chmod 755 src src/d* dst dst/d*; chmod 4755 src/d1/f7; sleep 0.05");
    scene.copy(&["--overwrite-policy", "update"]).assert_code(0);
    protect(&scene, &["--parity", "30%"]).assert_code(0);
    flip(&scene.path("dst/d1/f7"), 3);
    shell(
        &scene,
        "chown 65534 dst/d0; rm dst/d0/f0; printf rubbish >dst/d0/f0; chown 65534 dst/d0/f0",
    );
    shell(&scene, "chmod 644 dst/d0/f0");
    let run = heal(&scene, &[]);
    run.assert_code(0).assert_says("dst/d0/f0: they, or a directory above, may be others since");
    is_whole(&scene);
    assert_eq!(shell(&scene, "stat -c %a.%u dst/d1/f7 dst/d0/f0"), "4755.0\n600.0\n");
}

/// So it is with a file in the root of the tree, where that is another user's; rot alone leaves a file as it is.
#[test]
fn a_file_that_was_put_into_the_root_of_a_tree_gets_the_content_for_us_alone() {
    need!(Root);
    let scene = copied();
    scene.src.file("secret", "known to root").file("shown", "s".repeat(9000));
    shell(&scene, "chmod 600 src/secret; chmod 644 src/shown; chown 65534 src; chmod 755 src");
    scene.copy(&["--overwrite-policy", "update"]).assert_code(0);
    shell(&scene, "chown 65534 dst; chmod 755 dst");
    protect(&scene, &["--parity", "100%"]).assert_code(0);
    // The one on record, and another one: numbers of inodes are given again.
    for put in ["true", "mv dst/secret moved"] {
        let rubbish = "printf rubbish >dst/secret; chown 65534 dst/secret; chmod 644 dst/secret";
        shell(&scene, &format!("{put}; {rubbish}"));
        flip(&scene.path("dst/shown"), 3);
        let run = heal(&scene, &[]);
        run.assert_code(0)
            .assert_says("dst/secret: they, or a directory above, may be others since");
        shell(&scene, "rm -f dst/moved; cmp src/secret dst/secret; cmp src/shown dst/shown");
        assert_eq!(shell(&scene, "stat -c %a.%u dst/secret"), "600.0\n", "{put}");
        // What has only rotted stays as it is.
        assert!(put != "true" || shell(&scene, "stat -c %a.%u dst/shown") == "644.0\n");
    }
}

/// Of a set whose beginning is all that is left nobody knows what it was of: what has no parity by then gets some.
#[test]
fn a_set_of_which_too_little_is_left_is_made_anew() {
    let scene = copied();
    protect(&scene, &["--parity", "10%"]).assert_code(0);
    let before = sets(&scene);
    let set = std::fs::File::options().write(true).open(scene.path(PARITY).join(&before[1]));
    set.unwrap().set_len(100).unwrap();
    // Not while a file is bad: it may have been of that set.
    let right = std::fs::read(scene.path("dst/d2/f5")).unwrap();
    for bytes in [&right[..10], &right[..]] {
        std::fs::write(scene.path("dst/d2/f5"), bytes).unwrap();
        scene.bare(["heal", "-q", "dst"]).run();
    }
    assert_eq!(sets(&scene).len(), before.len());
    protect(&scene, &[]).assert_code(0).assert_prints(&["of 10 files; 0 sets made"]);
    assert_par2(&scene, "verify", "dst");
}

/// A file that was copied anew is in a set of its own, and in the one that it was in: what one makes whole is no loss
/// to the other.
#[test]
fn a_file_of_two_sets_is_healed_by_either() {
    for (touched, bad) in [(0, [0, 1]), (9, [3, 9]), (9, [9, 9])] {
        let scene = Scene::new();
        let mut random = Random::new(touched);
        for number in 0..10 {
            scene.src.file(format!("f{number}"), noise(&mut random, 3000));
        }
        scene.copy(&["-q", "--parity", "5%"]).assert_code(0);
        shell(&scene, &format!("touch -d 2030-01-01 src/f{touched}"));
        scene.copy(&["-q", "--parity", "5%", "--overwrite-policy", "update"]).assert_code(0);
        assert_eq!(sets(&scene).len(), 2);
        for number in bad {
            flip(&scene.path(&format!("dst/f{number}")), 100);
        }
        flip(&scene.path(&format!("dst/f{}", bad[0])), 200);
        let run = scene.bare(["verify", "dst"]).run();
        run.assert_code(4).assert_prints(&["repairable", "dircopy heal dst"]);
        assert!(!run.err().contains("beyond"), "{bad:?}: {}", run.err());
        let run = heal(&scene, &["--dry-run"]);
        assert!(!run.err().contains("not healed"), "{bad:?}: {}", run.err());
        heal(&scene, &[]).assert_code(0);
        is_whole(&scene);
    }
}

/// What is made whole again is no loss to a set only if the set is of that content: nothing else is promised.
#[test]
fn a_set_of_an_earlier_content_has_lost_it() {
    let scene = Scene::new();
    let mut random = Random::new(6);
    for number in 0..10 {
        scene.src.file(format!("f{number}"), noise(&mut random, 3000));
    }
    scene.copy(&["-q", "--parity", "5%"]).assert_code(0);
    scene.src.file("f9", noise(&mut random, 3000));
    scene.copy(&["-q", "--overwrite-policy", "always"]).assert_code(0);
    // It is bad when the others get a set of their own, so the first one stays for its sake.
    flip(&scene.path("dst/f0"), 100);
    protect(&scene, &[]).assert_code(4);
    assert_eq!(sets(&scene).len(), 2);
    flip(&scene.path("dst/f9"), 100);
    let run = scene.bare(["verify", "dst"]).run();
    run.assert_code(4).assert_says("repairable from parity: dst/f9");
    run.assert_says("beyond repair: dst/f0: 2 slices bad, 1 left");
    for args in [&["--dry-run"][..], &[]] {
        heal(&scene, args).assert_code(4).assert_says("not healed: dst/f0");
    }
}

/// A set that has an earlier content goes when all else in it has parity in others, made by whichever run.
#[test]
fn a_set_of_an_earlier_content_goes() {
    let scene = Scene::new();
    let mut random = Random::new(5);
    for number in 0..10 {
        scene.src.file(format!("f{number}"), noise(&mut random, 3000));
    }
    scene.copy(&["-q", "--parity", "5%"]).assert_code(0);
    let first = sets(&scene);
    scene.src.file("f9", noise(&mut random, 3000));
    shell(&scene, "touch -d 2030-01-01 src/f0");
    scene.copy(&["-q", "--parity", "5%", "--overwrite-policy", "update"]).assert_code(0);
    protect(&scene, &[]).assert_code(0);
    assert!(!sets(&scene).contains(&first[0]), "{:?}", sets(&scene));
    assert_par2(&scene, "verify", "dst");
    let run = scene.bare(["verify", "dst"]).run();
    assert!(!run.assert_code(0).err().contains("earlier content"), "{}", run.err());
}

/// A file that a run named as rotten, and lists no more, keeps the parity that may be all that can mend it, whatever is
/// done next; and that mends it without being told by which list.
#[test]
fn what_a_run_dropped_as_rotten_is_mended() {
    for (args, in_source) in [(&[][..], false), (&["--overwrite-policy", "never"], true)] {
        for next in ["protect", "heal"] {
            let scene = copied();
            protect(&scene, &["--parity", "30%"]).assert_code(0);
            let (before, list) = (sets(&scene), shell(&scene, "ls dst/*.sha256sum"));
            flip(&scene.path("dst/d1/f7"), 150_000);
            if !in_source {
                std::fs::rename(scene.path("src/d1/f7"), scene.path("was")).unwrap();
            }
            let run = scene.copy(args);
            run.assert_code(if in_source { 1 } else { 4 });
            run.assert_says("dst/d1/f7: its content is not what an earlier run recorded");
            if next == "heal" {
                let dry = heal(&scene, &["--dry-run"]);
                dry.assert_code(4).assert_says("could be healed: dst/d1/f7");
                dry.assert_says("differs: dst/d1/f7 (as an earlier run recorded it; ");
                heal(&scene, &[]).assert_code(0).assert_says("healed: dst/d1/f7: ");
            } else {
                protect(&scene, &[]).assert_code(0).assert_prints(&["0 sets made"]);
                heal(&scene, &["-m", list.trim()]).assert_code(0).assert_says("healed: dst/d1/f7");
            }
            assert_eq!(sets(&scene), before);
            shell(&scene, if in_source { "cmp src/d1/f7 dst/d1/f7" } else { "cmp was dst/d1/f7" });
            // The next copy lists it again.
            scene.copy(args).assert_code(0);
            shell(&scene, "grep -q '  d1/f7$' $(ls dst/*.sha256sum | tail -n 1)");
            protect(&scene, &[]).assert_code(0);
            assert_eq!(sets(&scene), before);
        }
    }
}

/// What is gone needs none. What was edited since is the user's, and its parity stays while no list has the file.
#[test]
fn what_a_run_dropped_is_not_brought_back_once_it_is_gone_or_edited() {
    for (deed, is_there) in [("rm dst/d1/f7", false), ("echo mine > dst/d1/f7", true)] {
        let scene = copied();
        protect(&scene, &["--parity", "30%"]).assert_code(0);
        let before = sets(&scene);
        flip(&scene.path("dst/d1/f7"), 150_000);
        std::fs::remove_file(scene.path("src/d1/f7")).unwrap();
        scene.copy(&[]).assert_code(4);
        shell(&scene, deed);
        let run = heal(&scene, &[]);
        assert!(!run.assert_code(0).err().contains("f7:"), "{}", run.err());
        assert_eq!(scene.path("dst/d1/f7").exists(), is_there);
        scene.copy(&[]).assert_code(0);
        protect(&scene, &[]).assert_code(0);
        let stays = before.iter().all(|set| sets(&scene).contains(set));
        assert_eq!(stays, is_there, "{:?}", sets(&scene));
    }
}

/// The attributes of a file that is made from parity are not those of the parity, which lies in a directory of its own.
#[test]
fn a_missing_file_gets_no_list_of_its_directory() {
    need!(Setpriv, Attr);
    let scene = Scene::on_disk();
    scene.src.file("f", "SECRET");
    shell(&scene, "chmod 640 src/f; mkdir dst; chmod 755 . dst; setfacl -d -m u:1002:rx dst");
    scene.copy(&["-q", "--parity", "100%"]).assert_code(0);
    let list = "getfacl -nc dst/f | grep -c 1002 || true";
    assert_eq!(shell(&scene, list), "0\n");
    shell(&scene, "rm dst/f");
    heal(&scene, &[]).assert_code(0).assert_says("healed: dst/f");
    assert_eq!(shell(&scene, list), "0\n");
}

/// Who may write to a directory by an access list could plant a bad file, to be given what is in the good one.
#[test]
fn what_others_may_plant_by_an_access_list_is_ours_alone() {
    need!(Root, Setpriv, Attr);
    let scene = Scene::on_disk();
    scene.src.file("d/f", "SECRET").file("d/g", "g");
    shell(&scene, "chmod 755 . src; chmod 600 src/d/*; setfacl -m u:1002:rwx src/d");
    scene.copy(&["-q", "--parity", "100%"]).assert_code(0);
    let by = "setpriv --reuid 1002 --regid 1002 --clear-groups";
    shell(&scene, &format!("cd dst/d; {by} sh -c 'mv f _; echo garbage >f; chmod 644 f'"));
    heal(&scene, &[]).assert_says("healed: dst/d/f").assert_says("it is yours alone");
    assert_eq!(shell(&scene, "cat dst/d/f; stat -c ' %a %u' dst/d/f"), "SECRET 600 0\n");
}

/// What another user made as parity is not used, and that it is there is not denied.
#[test]
fn parity_of_another_user_is_said_to_be_that() {
    need!(Root, Setpriv);
    let scene = Scene::new();
    scene.src.file("f", "one");
    scene.copy(&["-q", "--parity", "100%"]).assert_code(0);
    shell(&scene, "rm dst/f; chmod 755 .; chown -R 65534:65534 dst");
    for args in [&["--dry-run"][..], &[]] {
        let run = heal(&scene, args);
        run.assert_code(2).assert_says("its parity is not used (it is another user's)");
    }
    // It may not even be seen.
    let other = ["setpriv", "--reuid=1003", "--regid=1003", "--clear-groups"];
    let run = scene.bare(["heal", "dst"]).under(other).run();
    run.assert_code(2)
        .assert_says("its parity is not used (cannot open the directory of the parity");
    // The remedy.
    scene.bare(["heal", "dst"]).under_nobody().run().assert_code(0);
    assert_eq!(shell(&scene, "cat dst/f"), "one");
}
