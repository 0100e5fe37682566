//! The newest record wins, wherever it lies: a private record that is older than a manifest, or that is gone, hides no
//! damage. Judged by `cmp` and `sha256sum`.

use crate::harness::{Run, Scene, shell};

/// Puts a letter into a file of the scene, and its time back.
fn rot(scene: &Scene, name: &str, letter: &str) {
    let script = "touch -r \"$1\" t; printf $2 | dd of=\"$1\" conv=notrunc status=none; touch -r t \"$1\"; rm t";
    shell(scene, &format!("set -- {name} {letter}; {script}"));
}

fn read(scene: &Scene, name: &str) -> String {
    String::from_utf8(scene.output().read(name)).unwrap()
}

/// The newest manifest, which holds.
fn listed(scene: &Scene) -> String {
    shell(
        scene,
        "cd dst; m=$(ls -t dircopy-*.sha256sum | head -1); sha256sum -c --quiet $m >&2; cat $m",
    )
}

/// A copy of `a` and `b`, both made long before.
fn copied() -> Scene {
    let scene = Scene::new();
    scene.src.file("a", "one").mtime("a", 1_577_836_800, 0).file("b", "x");
    scene.copy(&[]).assert_code(0);
    shell(&scene, "mkdir st");
    scene
}

/// A plan, its shards and its end.
fn planned(scene: &Scene) {
    shell(scene, "rm -rf plan");
    let plan = ["plan", "-q", "src", "dst", "--plan", "plan", "--overwrite-policy", "update"];
    scene.bare(plan).run().assert_code(0);
    scene.bare(["shard", "-q", "--plan", "plan", "--claim"]).run().assert_code(0);
    scene.bare(["finish", "-q", "--plan", "plan"]).run().assert_code(0);
}

/// A run of which the record in the output knows nothing.
fn run_unrecorded(scene: &Scene, how: &str, policy: &str) {
    let elsewhere = match how {
        "moved back" => "mv dst/.dircopy kept",
        "copied back" => "cp -a dst/.dircopy kept; rm -r dst/.dircopy",
        _ => "",
    };
    shell(scene, elsewhere);
    let mut all = vec!["--overwrite-policy", policy];
    match how {
        "planned" => planned(scene),
        "elsewhere" => {
            all.extend(["--state", "st"]);
            scene.copy(&all).assert_code(0);
        }
        _ => {
            scene.copy(&all).assert_code(0);
            shell(scene, "rm -r dst/.dircopy; mv kept dst/.dircopy");
        }
    }
}

const WAYS: [&str; 4] = ["planned", "elsewhere", "moved back", "copied back"];

#[test]
fn an_older_record_beside_a_newer_manifest_hides_no_damage() {
    for how in WAYS {
        for args in [&[][..], &["--mirror"], &["--overwrite-policy", "update"]] {
            let scene = copied();
            scene.src.file("a", "two").mtime("a", 1_577_836_900, 0);
            run_unrecorded(&scene, how, "update");
            assert_eq!(read(&scene, "a"), "two", "{how}");
            rot(&scene, "dst/a", "X");
            let run = scene.copy(args);
            run.assert_code(0).assert_says("it is copied anew");
            assert_eq!(read(&scene, "a"), "two", "{how} {args:?}");
            assert!(listed(&scene).contains("  a\n"));
            assert_eq!(scene.copy(args).err(), "", "{how}");
        }
    }
}

/// What has left the source since is known by the newer manifest, too.
#[test]
fn a_file_of_a_newer_manifest_that_has_left_the_source_is_carried_over_or_named() {
    for how in WAYS {
        let scene = copied();
        scene.src.file("a", "two").mtime("a", 1_577_836_900, 0);
        run_unrecorded(&scene, how, "update");
        scene.src.remove("a");
        scene.copy(&[]).assert_code(0);
        assert!(listed(&scene).contains("  a\n"), "{how}");

        let scene = copied();
        scene.src.file("a", "two").mtime("a", 1_577_836_900, 0);
        run_unrecorded(&scene, how, "update");
        scene.src.remove("a");
        rot(&scene, "dst/a", "X");
        for _ in 0..3 {
            scene.copy(&[]).assert_code(4).assert_says("is not what an earlier run recorded");
            assert!(!listed(&scene).contains("  a\n"), "{how}");
        }
    }
}

/// A version that no run hashed, rotten: what one run named and left out the other one knows of, although its record is of
/// the version before.
#[test]
fn what_a_newer_run_left_out_is_in_doubt_whatever_the_record_is_of() {
    let scene = copied();
    scene.copy(&["--state", "st"]).assert_code(0);
    scene.copy(&[]).assert_code(0);
    scene.src.file("a", "two").mtime("a", 1_577_836_900, 0);
    scene.copy(&["--overwrite-policy", "update", "--hash", "none"]).assert_code(0);
    rot(&scene, "dst/a", "X");
    for args in [&["--verify", "--state", "st"][..], &[], &["--mirror"], &[]] {
        scene.copy(args).assert_code(1).assert_says("neither what an earlier run recorded");
        assert!(!listed(&scene).contains("  a\n"), "{args:?}");
    }
    scene.copy(&["--overwrite-policy", "always"]).assert_code(0);
    assert!(listed(&scene).contains("  a\n"));
}

/// Size and time are the same in both, and the digests are not.
#[test]
fn where_a_record_and_a_newer_manifest_disagree_the_source_decides() {
    // Edited, and its time put back: a run that replaces everything copies it anew.
    let edited = |how: &str| {
        let scene = copied();
        rot(&scene, "src/a", "t");
        run_unrecorded(&scene, how, "always");
        assert_eq!(read(&scene, "a"), "tne", "{how}");
        scene
    };
    for how in ["elsewhere", "moved back", "copied back"] {
        // The newer one is right.
        let scene = edited(how);
        assert_eq!(scene.copy(&[]).assert_code(0).err(), "", "{how}");
        assert!(listed(&scene).contains("  a\n"));
        // The copy is what it was before.
        let scene = edited(how);
        rot(&scene, "dst/a", "o");
        scene.copy(&[]).assert_code(0).assert_says("it is copied anew");
        assert_eq!(read(&scene, "a"), "tne", "{how}");
        // It is neither.
        let scene = edited(how);
        rot(&scene, "dst/a", "X");
        scene.copy(&[]).assert_code(0).assert_says("it is copied anew");
        assert_eq!(read(&scene, "a"), "tne", "{how}");
    }
    for how in WAYS {
        // The source was edited once more since the newer one, which the copy is as.
        let scene = match how {
            "planned" => {
                let scene = copied();
                rot(&scene, "src/a", "t");
                planned(&scene);
                scene
            }
            how => edited(how),
        };
        assert_eq!(read(&scene, "a"), "tne", "{how}");
        rot(&scene, "src/a", "Y");
        let run = scene.copy(&["--overwrite-policy", "update"]);
        run.assert_code(0).assert_says("although size and time are the same; it is copied anew");
        assert_eq!(read(&scene, "a"), "Yne", "{how}");
        assert!(listed(&scene).contains("  a\n"));
        // And where the copy is as neither, it stays.
        let scene = edited("elsewhere");
        rot(&scene, "dst/a", "X");
        rot(&scene, "src/a", "Y");
        for _ in 0..2 {
            scene.copy(&[]).assert_code(1).assert_says("although size and time are the same");
            assert_eq!(read(&scene, "a"), "Xne", "{how}");
        }
    }
    // Shards know no record, and read both sides.
    let scene = copied();
    rot(&scene, "dst/a", "X");
    planned(&scene);
    assert_eq!(read(&scene, "a"), "one");
    assert_eq!(scene.copy(&[]).assert_code(0).err(), "");
}

#[test]
fn what_a_run_without_a_record_drops_from_its_list_stays_known() {
    type Damage = fn(&Scene);
    let only_at_output: Damage = |scene| _ = scene.src.remove("a");
    let neither: Damage = |scene| rot(scene, "src/a", "Y");
    let never: Damage = |_| ();
    let as_before = "although size and time are the same";
    // Nothing says what its size and time were.
    let unknown = "is not what an earlier run recorded, and this run did not copy it";
    for (damage, args, code, why) in [
        (only_at_output, &[][..], 4, unknown),
        (neither, &[], 1, as_before),
        (never, &["--overwrite-policy", "never"], 1, as_before),
    ] {
        let scene = copied();
        shell(&scene, "rm -r dst/.dircopy");
        rot(&scene, "dst/a", "X");
        damage(&scene);
        for _ in 0..3 {
            let run = scene.copy(args);
            run.assert_code(code).assert_says(why);
            assert!(!listed(&scene).contains("  a\n"));
        }
    }
}

fn check(scene: &Scene) -> Run {
    scene.bare(["verify", "-q", "dst"]).run()
}

/// A check that is told of no other record goes by the manifest of the last run all the same.
#[test]
fn a_check_goes_by_the_newest_manifest_of_this_users_runs() {
    for how in ["planned", "elsewhere"] {
        let scene = copied();
        scene.src.file("a", "longer").file("new", "new");
        run_unrecorded(&scene, how, "update");
        assert_eq!(check(&scene).assert_code(0).err(), "", "{how}");
        rot(&scene, "dst/new", "X");
        check(&scene).assert_code(4).assert_says("new");
        // What was put there in its place is not it.
        shell(&scene, "cd dst; m=$(ls dircopy-* | tail -1); sed -i '/  new$/d' $m");
        check(&scene).assert_code(5).assert_says("it is not what the last run wrote");
        scene.copy(&[]).assert_code(0);
        check(&scene).assert_code(0);
    }
    // Also where there was no record.
    let scene = Scene::new();
    scene.src.file("a", "one");
    scene.output();
    planned(&scene);
    scene.output().file("dircopy-20200101T000000Z.sha256sum", format!("{:064}  a\n", 0));
    assert_eq!(check(&scene).assert_code(0).err(), "");
    assert_eq!(scene.copy(&[]).assert_code(0).err(), "");
}

/// Somebody made up a manifest whose name sorts behind that of each run.
#[test]
fn a_manifest_of_the_future_hides_nothing_and_is_named() {
    let planted = || {
        let scene = copied();
        let script =
            "cd dst; printf Xne | sha256sum | sed 's/-$/a/' >dircopy-21000101T000000Z.sha256sum";
        shell(&scene, script);
        scene
    };
    let said = "dircopy-21000101T000000Z.sha256sum: its name is of the future";
    // Whether there is a record or not.
    for script in ["true", "rm -r dst/.dircopy"] {
        let scene = planted();
        shell(&scene, script);
        rot(&scene, "dst/a", "X");
        scene.copy(&[]).assert_code(0).assert_says("it is copied anew").assert_says(said);
        assert_eq!(read(&scene, "a"), "one");
        // It does not call what is good into question for ever.
        let run = scene.copy(&["-v"]);
        run.assert_code(0).assert_says(said);
        assert_eq!(run.err().lines().count(), 1, "{}", run.err());
    }
}

/// What a run left out of its manifest, because it had rotted, stays known where its record does not.
#[test]
fn what_was_left_out_stays_known_without_the_record() {
    let forget = "rm -r dst/.dircopy";
    let ways: [(&str, &[&str]); 3] =
        [("", &["--state", "st"]), (forget, &[]), (forget, &["--state", "st"])];
    for (how, elsewhere) in ways {
        let with = |args: &[&'static str]| [args, elsewhere].concat();
        let begun = |policy: &[&str], code| {
            let scene = copied();
            rot(&scene, "dst/a", "X");
            scene.copy(policy).assert_code(code);
            assert!(!listed(&scene).contains("  a\n"), "{how}");
            shell(&scene, how);
            scene
        };
        let never = ["--overwrite-policy", "never"];
        // Left, and left again.
        let scene = begun(&never, 1);
        for _ in 0..2 {
            scene.copy(&with(&never)).assert_code(1).assert_says("its content differs");
            assert!(!listed(&scene).contains("  a\n"), "{how}");
        }
        // Left, and mended by a run that may.
        let scene = begun(&never, 1);
        scene.copy(&with(&[])).assert_code(0).assert_says("it is copied anew");
        assert_eq!(read(&scene, "a"), "one", "{how}");
        assert_eq!(scene.copy(&with(&[])).assert_code(0).err(), "", "{how}");
        // And by a mirror.
        let scene = begun(&never, 1);
        scene.copy(&with(&["--mirror"])).assert_code(0).assert_says("it is copied anew");

        // Of three contents nobody knows which is right.
        let scene = copied();
        rot(&scene, "dst/a", "X");
        rot(&scene, "src/a", "Y");
        scene.copy(&[]).assert_code(1);
        shell(&scene, how);
        for _ in 0..2 {
            scene.copy(&with(&["--mirror"])).assert_code(1).assert_says("although size and time");
            assert!(!listed(&scene).contains("  a\n"), "{how}");
        }

        // The source has it no more, and it comes back.
        let scene = copied();
        shell(&scene, "mv src/a kept");
        rot(&scene, "dst/a", "X");
        scene.copy(&[]).assert_code(4);
        shell(&scene, how);
        for _ in 0..2 {
            let run = scene.copy(&with(&[]));
            run.assert_code(4).assert_says("is not what an earlier run recorded");
            assert!(!listed(&scene).contains("  a\n"), "{how}");
        }
        shell(&scene, "mv kept src/a");
        scene.copy(&with(&[])).assert_code(0).assert_says("it is copied anew");
    }
}

/// … and a mirror names it as well, before it leaves.
#[test]
fn what_was_left_out_is_named_by_a_mirror_without_the_record() {
    for mirror in ["--mirror", "--mirror=all"] {
        let scene = copied();
        shell(&scene, "mv src/a kept");
        rot(&scene, "dst/a", "X");
        scene.copy(&[]).assert_code(4);
        shell(&scene, "rm -r dst/.dircopy");
        let run = scene.copy(&[mirror]);
        run.assert_code(4).assert_says("dst/a: its content is not what an earlier run recorded");
        assert_eq!(run.err().matches("dst/a:").count(), 1, "{}", run.err());
        assert!(!run.err().contains("no earlier run listed it"), "{}", run.err());
        assert_eq!(shell(&scene, "cat dst/.dircopy-trash/*/a"), "Xne");
    }
}

/// What has rotted and has left the source is named by a run that lists nothing, too.
#[test]
fn what_was_left_out_is_named_by_a_run_without_a_list() {
    let scene = copied();
    shell(&scene, "rm src/a");
    rot(&scene, "dst/a", "X");
    assert_eq!(scene.copy(&["--hash", "none"]).assert_code(0).err(), "");
    scene.copy(&[]).assert_code(4);
    let said = "dst/a: its content is not what an earlier run recorded";
    for args in [&["--hash", "none"][..], &["--hash", "none", "--mirror=all"]] {
        scene.copy(args).assert_code(4).assert_says(said);
    }
    assert_eq!(shell(&scene, "cat dst/.dircopy-trash/*/a"), "Xne");
    assert_eq!(scene.copy(&["--hash", "none", "--mirror=all"]).assert_code(0).err(), "");
    // What is as recorded is none of that.
    let scene = copied();
    shell(&scene, "rm src/a");
    rot(&scene, "dst/a", "X");
    scene.copy(&[]).assert_code(4);
    rot(&scene, "dst/a", "o");
    assert_eq!(scene.copy(&["--hash", "none"]).assert_code(0).err(), "");
}

/// The clock of the run before was ahead, so that its manifest sorts behind those of later ones: what these list stays
/// known.
#[test]
fn what_came_after_a_run_whose_clock_was_ahead_stays_known() {
    for how in ["planned", "elsewhere"] {
        let scene = copied();
        // As that run would have left it: the record names the manifest, and has sums.
        let ahead = "cd dst; m=$(ls dircopy-*.sha256sum); n=dircopy-$(date -u -d '+10 days' +%Y%m%dT%H%M%SZ).sha256sum
            mv $m $n; r=.dircopy/record; rows=$(tail -n 1 $r | cut -d' ' -f2); head -n -2 $r >../r
            echo \". $(sha256sum $n | cut -c-64) $n\" >>../r; echo \"= $rows $(sha256sum ../r | cut -c-64)\" >>../r
            cat ../r >$r";
        shell(&scene, ahead);
        scene.src.file("n", "new");
        run_unrecorded(&scene, how, "update");
        scene.src.remove("n");
        rot(&scene, "dst/n", "X");
        let run = scene.copy(&[]);
        run.assert_code(4).assert_says("dst/n: its content is not what an earlier run recorded");
        assert!(run.err().contains("its name is of the future"), "{}", run.err());
        scene.copy(&[]).assert_code(4).assert_says("dst/n: its content");
    }
}

/// What has left the source and the output is told once, and a file of others that takes its name stays in a mirror.
#[test]
fn what_older_manifests_list_and_is_gone_is_not_told_again() {
    for args in [&[][..], &["--mirror"]] {
        let scene = copied();
        scene.src.remove("a");
        scene.copy(args).assert_code(0);
        shell(&scene, "rm -f dst/a");
        scene.copy(args).assert_code(0);
        shell(&scene, "rm -r dst/.dircopy");
        assert_eq!(scene.copy(args).assert_code(0).err(), "", "{args:?}");
    }
    let scene = copied();
    scene.src.remove("a");
    scene.copy(&["--mirror"]).assert_code(0);
    shell(&scene, "rm -r dst/.dircopy; echo mine >dst/a");
    for _ in 0..2 {
        scene.copy(&["--mirror"]);
        assert_eq!(read(&scene, "a"), "mine\n");
    }
}

/// The clock of one run was ahead: programs that sort names find the newest all the same.
#[test]
fn a_run_sorts_behind_one_whose_clock_was_ahead() {
    let scene = copied();
    let ahead = "$(date -u -d '+2 hours' +dircopy-%Y%m%dT%H%M%SZ.sha256sum)";
    shell(&scene, &format!("cd dst; cp dircopy-*.sha256sum {ahead}; touch {ahead}"));
    scene.src.file("a", "other");
    for _ in 0..2 {
        scene.copy(&["--overwrite-policy", "always"]).assert_code(0);
        shell(&scene, "cd dst; sha256sum -c --strict \"$(ls dircopy-*.sha256sum | tail -n 1)\"");
    }
}
