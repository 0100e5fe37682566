//! Which of the manifests in a directory holds: the one that this user's record was finished with.

use crate::harness::{NONE, Scene, Strace, need, shell};

/// Two runs, of which the second replaced a file: the superseded manifest, and the one that holds.
fn updated() -> (Scene, String, String) {
    let scene = Scene::new();
    scene.src.file("f", "one").mtime("f", 1_577_836_800, 0);
    scene.copy(&[]).assert_code(0);
    scene.src.file("f", "two").mtime("f", 1_577_836_900, 0);
    scene.copy(&["--overwrite-policy", "update"]).assert_code(0);
    let names = shell(&scene, "ls dst | grep dircopy-");
    let [old, new] = names.lines().collect::<Vec<_>>()[..] else { panic!("{names}") };
    let (old, new) = (old.to_owned(), new.to_owned());
    (scene, old, new)
}

#[test]
fn a_later_name_in_the_open_is_not_taken_for_the_one_that_holds() {
    let (scene, old, _) = updated();
    // As one that came from elsewhere: it would find the good file wrong.
    shell(&scene, &format!("cp dst/{old} dst/dircopy-20990101T000000Z.sha256sum"));
    let run = scene.bare(["verify", "--quiet", "dst"]).run();
    run.assert_code(0).assert_says("dircopy-20990101T000000Z.sha256sum is not checked");
    // Without a record the name is all there is, and one of the future tells nothing.
    shell(&scene, "rm dst/.dircopy/record");
    let future = "dircopy-20990101T000000Z.sha256sum is not checked: its name is of the future";
    scene.bare(["verify", "dst"]).run().assert_code(0).assert_says(future);
    // The record of another output is as good as none.
    shell(&scene, "rm -r dst/.dircopy");
    scene.tree("more").file("g", "three");
    scene.bare(["-q", "-i", "more", "-o", "other"]).run().assert_code(0);
    shell(&scene, "cp -a other/.dircopy dst");
    scene.bare(["verify", "dst"]).run().assert_code(0).assert_says(future);
    // Where there is no other it is checked, and that is said.
    shell(&scene, "rm -r dst/.dircopy dst/dircopy-202*");
    let run = scene.bare(["verify", "dst"]).run();
    run.assert_code(4).assert_says("is checked for want of another: its name is of the future");
}

/// A name of now may be made up as well as any: that another manifest lists what it does not is not passed over.
#[test]
fn without_a_record_what_another_manifest_lists_besides_is_said() {
    let scene = Scene::new();
    for n in 0..3 {
        scene.src.file(format!("{n}"), "good");
        scene.copy(&[]).assert_code(0);
    }
    shell(&scene, "rm -r dst/.dircopy");
    let check = || scene.bare(["verify", "dst"]).run();
    // An archive that only grew is as its latest manifest says.
    assert_eq!(check().assert_code(0).err(), "");
    let real = shell(&scene, "cd dst; ls dircopy-* | tail -1");
    // Made up so that it hides what is wrong with one of the files.
    let plant = "cd dst; echo evil >2; m=$(ls dircopy-* | tail -1); \
                 grep -v '  2$' $m >dircopy-$(date -u -d '+2 min' +%Y%m%dT%H%M%SZ).sha256sum";
    shell(&scene, plant);
    let run = check();
    run.assert_code(0).assert_says("is checked, because its name is the latest");
    run.assert_says(&format!("{} lists other files or digests", real.trim()));
    scene.bare(["verify", "-m", &format!("dst/{}", real.trim())]).run().assert_code(4);
}

/// A source with a manifest of a time to come, which knows only one of its files; copied, and the other removed.
fn planted() -> Scene {
    let scene = Scene::new();
    scene.src.file("f", "1").file("g", "2");
    shell(&scene, "cd src; sha256sum g >dircopy-20990101T000000Z.sha256sum");
    scene.copy(&[]).assert_code(0);
    shell(&scene, "rm dst/f");
    scene
}

#[test]
fn without_a_record_of_its_own_a_manifest_that_another_lists_is_not_taken() {
    for script in [
        "rm -r dst/.dircopy",
        "cp -a dst copy; rm -r dst; mv copy dst",
        "chmod 755 dst/.dircopy",
        // A run that was cut short lists it, too.
        "rm -r dst/.dircopy; cd dst; for m in dircopy-202*; do mv $m $m.part; done; cp /dev/null dircopy-20200101T000000Z.sha256sum",
    ] {
        let scene = planted();
        shell(&scene, script);
        let run = scene.bare(["verify", "dst"]).run();
        run.assert_code_in(&[4, 5])
            .assert_says("dircopy-20990101T000000Z.sha256sum is not checked");
    }
}

#[test]
fn where_no_run_has_come_to_its_end_no_manifest_is_taken() {
    let scene = planted();
    shell(&scene, "cd dst; mv .dircopy/record .dircopy/record.1; rm dircopy-202*");
    scene.bare(["verify", "dst"]).run().assert_code(5).assert_says("is not theirs");
    scene.bare(["verify", "-m", "dst/dircopy-20990101T000000Z.sha256sum"]).run().assert_code(0);
}

/// What holds is what the last run wrote, not what has its name.
#[test]
fn a_manifest_that_was_changed_or_replaced_is_not_taken() {
    // By who may write to the output.
    let scene = Scene::new();
    scene.src.file("a", "1").file("b", "2");
    scene.copy(&[]).assert_code(0);
    shell(&scene, "echo X >dst/a; touch -r src/a dst/a; sed -i '/  a$/d' dst/*.sha256sum");
    let changed = "it is not what the last run wrote";
    scene.bare(["verify", "dst"]).run().assert_code(5).assert_says(changed);
    // By who may write to the source.
    let scene = Scene::new();
    scene.src.file("f", "1").file("g", "2");
    scene.copy(&[]).assert_code(0);
    let plant = "m=$(cd dst; ls *.sha256sum); grep '  g$' dst/$m >src/$m; touch -d '+1 min' src/$m";
    shell(&scene, plant);
    scene.copy(&["--overwrite-policy", "update", "--hash", "none"]).assert_code(0);
    shell(&scene, "rm dst/f");
    scene.bare(["verify", "dst"]).run().assert_code(5).assert_says(changed);
    // The next run lists anew.
    scene.copy(&[]).assert_code(0);
    scene.bare(["verify", "dst"]).run().assert_code(0);
}

#[test]
fn a_given_manifest_that_is_superseded_is_said_to_be() {
    let (scene, old, new) = updated();
    let given = |name: &str| scene.bare(["verify", "-m", &format!("dst/{name}")]).run();
    given(&old).assert_code(4).assert_says(&format!("superseded: a later run finished {new}"));
    assert_eq!(given(&new).assert_code(0).err(), "");
    // Without a record the later name says so.
    shell(&scene, "rm -r dst/.dircopy");
    given(&old).assert_code(4).assert_says("superseded");
}

#[test]
fn no_other_manifest_stands_in_for_one_that_is_gone() {
    let (scene, _, new) = updated();
    shell(&scene, &format!("mv dst/{new} away"));
    let run = scene.bare(["verify", "dst"]).run();
    run.assert_code(5).assert_says(&format!("{new}, which the last run finished, is gone"));
    // Nor does a later one: who may write there can make it up, and what it lists.
    let later = "dircopy-20990101T000000Z.sha256sum";
    shell(
        &scene,
        &format!("rm away; echo X >dst/f; (cd dst; sha256sum f) >{later}; mv {later} dst"),
    );
    for command in ["verify", "protect"] {
        let run = scene.bare([command, "dst"]).run();
        run.assert_code(5).assert_says(&format!("{new}, which the last run finished, is gone"));
    }
}

#[test]
fn a_record_that_is_kept_elsewhere_is_asked_there() {
    let scene = Scene::new();
    scene.src.file("f", "one");
    shell(&scene, "mkdir state");
    scene.copy(&["--state", "state"]).assert_code(0);
    let plant =
        "printf '%064d  f\\n' 0 >dst/dircopy-$(date -u -d '+2 min' +%Y%m%dT%H%M%SZ).sha256sum";
    shell(&scene, plant);
    scene.bare(["verify", "dst"]).run().assert_code(4).assert_says("no private record tells");
    let run = scene.bare(["verify", "--state", "state", "dst"]).run();
    run.assert_code(5).assert_says("is not checked: its name is later");
    run.assert_says("may have made it whose record is elsewhere");
}

/// An older record was put back beside the manifest of a later run: what that lists is not good because it is not looked
/// at. One that another user may have written, or of the future, is no doubt.
#[test]
fn a_later_list_that_a_run_may_have_made_is_a_doubt() {
    need!(Root);
    let scene = Scene::new();
    scene.src.file("f", "one");
    scene.copy(&[]).assert_code(0);
    shell(&scene, "cp -a dst/.dircopy before; sleep 1.1");
    scene.src.file("g", "two");
    scene.copy(&[]).assert_code(0);
    shell(&scene, "rm -r dst/.dircopy; mv before dst/.dircopy; printf R >dst/g");
    let says = "is not checked: its name is later";
    scene.ended(&["verify", "dst"], 5).assert_says(says);
    let newest = shell(&scene, "ls dst/dircopy-*sum | tail -1");
    scene.ended(&["verify", "--manifest", newest.trim()], 4);
    shell(&scene, &format!("chown nobody {newest}"));
    scene.ended(&["verify", "dst"], 0).assert_says(says);
    shell(&scene, &format!("chown root {newest}"));
    scene.copy(&["--overwrite-policy", "always"]).assert_code(0);
    scene.ended(&["verify", "dst"], 0);
    shell(&scene, "cd dst; cp -p $(ls dircopy-*sum | tail -1) dircopy-20990101T000000Z.sha256sum");
    scene.ended(&["verify", "dst"], 0).assert_says(says);
}

/// What a run left out of its list, because it was edited at the output and stays, is no part of what is good.
#[test]
fn what_later_runs_left_out_is_told() {
    let scene = Scene::new();
    scene.src.file("f", "one").file("g", "g").mtime("f", 1_577_836_800, 0);
    scene.copy(&[]).assert_code(0);
    scene.output().append("f", b" and more");
    for _ in 0..2 {
        scene.copy(&[]).assert_code(1).assert_says("left as it is: f: it differs");
        let run = scene.bare(["verify", "dst"]).run();
        run.assert_code(0)
            .assert_says("does not list 1 file that earlier ones list and that is there");
        run.assert_says("dst: the last copy here was not complete: 1 entry");
        assert_eq!(run.err().lines().count(), 2, "{}", run.err());
    }
    scene.bare(["verify", "--complete", "dst"]).run().assert_code(4).assert_says("dst/f");
    // What is listed again, or gone, is not told.
    scene.src.remove("g");
    scene.output().remove("g");
    scene.copy(&["--overwrite-policy", "always"]).assert_code(0);
    assert_eq!(scene.bare(["verify", "dst"]).run().assert_code(0).err(), "");
}

/// What the source has no more no policy replaces.
#[test]
fn what_was_left_out_and_has_left_the_source_can_be_moved_away() {
    let scene = Scene::new();
    scene.src.file("f", "one").file("g", "g");
    scene.copy(&[]).assert_code(0);
    scene.src.remove("f");
    scene.output().append("f", b" and more");
    for policy in ["default", "always"] {
        scene.copy(&["--overwrite-policy", policy]);
        let run = scene.bare(["verify", "dst"]).run();
        run.assert_code(0).assert_says("does not list 1 file that earlier ones list");
        run.assert_says("always replaces what the source still has (of the rest dircopy heal TREE COPY mends what rotted");
        run.assert_says("brings back what was changed; or move it away; the next copy lists what is whole again)");
    }
    shell(&scene, "mv dst/f .");
    assert_eq!(scene.bare(["verify", "dst"]).run().assert_code(0).err(), "");
}

/// A copy that is at work has no manifest yet: that is no copy that was cut short.
#[test]
fn a_check_of_an_output_that_is_being_filled_names_the_run() {
    need!(Strace);
    let scene = Scene::new();
    scene.src.file("a", "a");
    let strace = Strace::inject(&scene, "close", "signal=STOP:when=1");
    let run = strace.exactly_on(scene.src.path("a")).run_stopped(scene.command(NONE), || {
        let check = scene.bare(["verify", "dst"]).run();
        check.assert_code(5).assert_says("is at work on it").assert_says("(process ");
        assert!(!check.err().contains("cut short"), "{}", check.err());
    });
    run.assert_code(0);
    scene.bare(["verify", "dst"]).run().assert_code(0);
}

/// A copy of one version of a file, whose source has another one by now.
fn edited() -> Scene {
    let scene = Scene::new();
    scene.src.file("f", "one").file("g", "g");
    scene.copy(&[]).assert_code(0);
    scene.src.file("f", "another");
    scene
}

/// The record of the second run at an output, while it is written.
const SECOND: &str = ".dircopy/record.2";

#[test]
fn the_manifest_of_a_run_that_was_killed_before_its_record_had_its_name_holds() {
    need!(Strace);
    let scene = edited();
    let strace = Strace::inject(&scene, Strace::RENAMES, "signal=SIGKILL:when=1");
    let run = strace.on(scene.dst.join(SECOND)).run(scene.command(NONE));
    assert_ne!(run.code, Some(0));
    assert!(scene.dst.join(SECOND).exists());
    let newest = "cd dst; sha256sum -c --strict --quiet $(ls dircopy-*.sha256sum | tail -n1)";
    shell(&scene, newest);
    scene.ended(&["verify", "dst"], 0);
    scene.copy(&[]).assert_code(0).assert_prints(&["copied", "0", "files,"]);
    scene.ended(&["verify", "dst"], 0);
}

#[test]
fn a_record_that_gets_no_name_is_told_of_the_manifest() {
    need!(Strace);
    let scene = edited();
    let strace = Strace::inject(&scene, Strace::RENAMES, "error=EIO");
    let strace = strace.on(scene.dst.join(SECOND));
    let run = strace.run(scene.command(NONE));
    strace.fired(&run);
    run.assert_code(0).assert_says("cannot write the private record in");
    scene.ended(&["verify", "dst"], 0);
}

#[test]
fn a_run_that_leaves_the_record_of_an_earlier_manifest_is_not_done() {
    need!(Strace);
    let scene = edited();
    let strace = Strace::inject(&scene, Strace::WRITES, "error=ENOSPC");
    let strace = strace.on(scene.dst.join(SECOND)).on(scene.dst.join(".dircopy/record"));
    let run = strace.run(scene.command(NONE));
    strace.fired(&run);
    run.assert_code(3).assert_says("checks go by an earlier manifest");
    scene.copy(&[]).assert_code(0);
    scene.ended(&["verify", "dst"], 0);
}

/// Something else gets the name that the manifest was to have, when the record is sealed for it.
#[test]
fn a_record_that_was_sealed_for_another_name_is_told_of_the_manifest() {
    need!(Strace);
    let scene = edited();
    let strace = Strace::inject(&scene, Strace::RENAMES, "delay_enter=1000000");
    let strace = strace.on_manifest(&scene);
    let mut running = strace.spawn(scene.command(NONE));
    running.until("the manifest's name", || strace.log().contains(".sha256sum.part"));
    shell(&scene, "cd dst; for m in dircopy-*.sha256sum.part; do : >${m%.part}; done");
    running.wait().assert_code(0);
    let named = scene.dst.join(".dircopy/record");
    let named = String::from_utf8_lossy(&std::fs::read(named).unwrap()).into_owned();
    assert!(named.contains("\n, "), "{named}");
    scene.ended(&["verify", "dst"], 0);
}

/// What is said of such a file brings it back, whether it rotted or was edited, and the next copy lists it.
#[test]
fn what_was_left_out_comes_back_as_it_is_said() {
    let scene = Scene::new();
    scene.src.file("rotten", "one").file("edited", "two").file("g", "g");
    scene.bare(["src", "dst", "b"]).run().assert_code(0);
    shell(&scene, "rm src/rotten src/edited; echo more >>dst/edited; cp -p dst/rotten old");
    shell(&scene, "printf X | dd of=dst/rotten conv=notrunc status=none; touch -r old dst/rotten");
    scene.copy(&[]);
    let left_out = scene.bare(["verify", "dst"]).run();
    left_out.assert_code(0).assert_says("does not list 2 files");
    scene.bare(["heal", "dst", "b"]).run().assert_code(0);
    let restore = ["restore", "b", "dst", "--overwrite-policy", "always", "--include", "/edited"];
    scene.bare(restore).run().assert_code(0);
    assert_eq!(shell(&scene, "cat dst/rotten dst/edited"), "onetwo");
    scene.copy(&[]).assert_code(0);
    let run = scene.bare(["verify", "dst"]).run();
    assert_eq!(run.assert_code(0).assert_prints(&["3 files as listed"]).err(), "");
}
