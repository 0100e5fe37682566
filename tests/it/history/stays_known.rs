//! What is known of a file outlives a run that could not read it, could not move it or left it as it was. Judged by
//! `sha256sum`.

use crate::harness::{Run, Scene, Strace, inventory, need, shell};

/// Other bytes in a file of the output, in place and under the same time.
fn rot(scene: &Scene, name: &str) {
    shell(
        scene,
        &format!(
            "touch -r 'dst/{name}' aside; printf X | dd of='dst/{name}' conv=notrunc status=none; \
             touch -r aside 'dst/{name}'"
        ),
    );
}

/// Three files that were copied, with everything that is recorded of them beyond doubt.
fn copied(args: &[&str]) -> Scene {
    let scene = Scene::new();
    for name in ["a", "b", "dir/c"] {
        scene.src.file(name, format!("content of {name}")).mtime(name, 1_577_836_800, 0);
    }
    scene.copy(args).assert_code(0);
    shell(&scene, "sleep 0.05");
    scene
}

fn unreadable(scene: &Scene, args: &[&str]) -> Run {
    let path = scene.dst.join("dir/c");
    let fault = Strace::inject(scene, "read,pread64,preadv2", "error=EIO").exactly_on(path);
    let run = fault.run(scene.command(args));
    fault.fired(&run);
    run
}

/// A copy that the source has no more, or that was left out, and that cannot be read: that is a failure of the run, and
/// the next one that can read it lists it again.
#[test]
fn a_copy_that_cannot_be_read_is_no_success() {
    need!(Strace);
    let says = "dst/dir/c: Input/output error (os error 5); it is not listed until it can be read and is as recorded";
    for args in
        [&["--verify"][..], &["--verify", "--keep-manifests=1"], &["--verify", "--exclude=c"]]
    {
        let scene = copied(&[]);
        if args.len() < 2 || !args[1].starts_with("--exclude") {
            scene.src.remove("dir/c");
        }
        let run = unreadable(&scene, args);
        run.assert_code(1).assert_says(says);
        scene.judge(&run).verifies().lists(&["a", "b"]);
        assert_eq!(scene.judge(&run).manifests().len(), 2, "{args:?}");
        let run = scene.copy(args);
        run.assert_code(0);
        scene.judge(&run).verifies().lists(&["a", "b", "dir/c"]);
    }
    // A mirror does not move what it cannot read.
    let scene = copied(&[]);
    scene.src.remove("dir/c");
    let run = unreadable(&scene, &["--verify", "--mirror"]);
    run.assert_code(1).assert_says(says).assert_says("nothing was moved");
    assert!(scene.dst.join("dir/c").exists());
    let run = scene.copy(&["--verify"]);
    run.assert_code(0);
    scene.judge(&run).verifies().lists(&["a", "b", "dir/c"]);
    scene.copy(&["--verify", "--mirror"]).assert_code(0);
    assert!(!scene.dst.join("dir/c").exists());
}

/// A mirror named rot in what was about to leave, and could not move it: every later run names it too.
#[test]
fn what_could_not_leave_stays_known() {
    let says = "dst/a: its content is not what an earlier run recorded";
    let scene = copied(&[]);
    scene.src.remove("a").remove("dir/c");
    rot(&scene, "a");
    // Trash that no run made, as after `cp -a` of an output.
    scene.output().file(".dircopy-trash/x", "x");
    let run = scene.copy(&["--mirror", "--max-delete=2"]);
    run.assert_code(1).assert_says(says).assert_says("no run of yours made it as trash");
    for args in [&[][..], &["--verify"], &["--mirror", "--max-delete=2"], &[]] {
        let run = scene.copy(args);
        run.assert_code(if args.contains(&"--mirror") { 1 } else { 4 }).assert_says(says);
        scene.judge(&run).verifies().does_not_list("a");
        if !args.contains(&"--mirror") {
            // What is good stays, and so it is listed.
            scene.judge(&run).lists(&["b", "dir/c"]);
        }
    }
    shell(&scene, "rm -r dst/.dircopy-trash");
    scene.copy(&["--mirror", "--max-delete=2"]).assert_code(4).assert_says(says);
    assert!(!scene.dst.join("a").exists() && !scene.dst.join("dir/c").exists());
    let run = scene.copy(&[]);
    assert_eq!(run.assert_code(0).err(), "");
    scene.judge(&run).verifies().lists(&["b"]);
    let records = inventory(&scene.dst.join(".dircopy"));
    let is_left = |name: &[u8]| name.windows(7).any(|part| part == b"leaving");
    assert!(!records.iter().any(|name| is_left(name)), "{records:?}");
}

/// So does what a run that was killed was about to move.
#[test]
fn what_a_killed_run_was_about_to_move_stays_known() {
    need!(Strace);
    let scene = copied(&[]);
    scene.src.remove("a").remove("dir/c");
    rot(&scene, "a");
    // The last name that is given before the first piece goes is that of the record.
    let record = scene.dst.join(".dircopy/record");
    for when in 1.. {
        let kill = Strace::inject(&scene, "mkdir,mkdirat", &format!("signal=KILL:when={when}"));
        let run = kill.run(scene.command(["--mirror", "--max-delete=2"]));
        assert!(run.code.is_none(), "nothing was killed: {}", run.err());
        if scene.dst.join(".dircopy-trash").exists() || run.err().contains("it leaves the output") {
            break;
        }
    }
    assert!(record.exists() && scene.dst.join("a").exists());
    let run = scene.copy(&[]);
    run.assert_code(4).assert_says("dst/a: its content is not what an earlier run recorded");
    scene.judge(&run).verifies().lists(&["b", "dir/c"]);
}

/// An edit of what could not leave is an edit, whoever made it, and no rot: it stays where it is, by every command.
#[test]
fn an_edit_of_what_could_not_leave_is_no_rot() {
    for next in [&[][..], &["--mirror", "--max-delete=2"]] {
        let scene = copied(&[]);
        scene.tree("other").file("a", "content of a");
        scene.src.remove("a").remove("dir/c");
        scene.output().file(".dircopy-trash/x", "x");
        scene.copy(&["--mirror", "--max-delete=2"]).assert_code(1);
        shell(&scene, "rm -r dst/.dircopy-trash; sleep 0.05");
        scene.output().file("a", "my text, written today, and longer");
        let run = scene.copy(next);
        run.assert_code(0).assert_says(match next {
            [] => "dst/a: it was changed after an earlier run recorded it",
            _ => "stays at the output: a: it is not in the source",
        });
        scene.ended(&["heal", "dst", "--from-tree", "other"], 0);
        assert_eq!(shell(&scene, "cat dst/a"), "my text, written today, and longer");
        scene.copy(&["--mirror", "--max-delete=2"]).assert_code(0);
        assert!(scene.dst.join("a").exists());
    }
}

/// So it is to a run that reads all back.
#[test]
fn an_edit_of_what_left_the_source_is_no_rot() {
    for args in [&[][..], &["--verify"]] {
        let scene = copied(&[]);
        scene.src.remove("a");
        scene.output().file("a", "my text of a");
        let run = scene.copy(args);
        run.assert_code(0).assert_says("dst/a: it was changed after an earlier run recorded it");
        assert!(!run.err().contains("heal"), "{}", run.err());
        scene.judge(&run).verifies().lists(&["b", "dir/c"]);
        assert_eq!(scene.copy(&["--verify"]).assert_code(0).err(), "");
    }
}

/// A run that compares no contents takes what has rotted for the source's, but names what others found.
#[test]
fn a_run_without_digests_names_what_has_rotted() {
    let scene = copied(&[]);
    rot(&scene, "a");
    scene.copy(&["--overwrite-policy=never"]).assert_code(1);
    for args in [&["--hash=none"][..], &["--hash=none", "--mirror=all", "--max-delete=2"]] {
        let run = scene.copy(args);
        run.assert_code(4).assert_says("dst/a: its content is not what an earlier run recorded");
        run.assert_says("; a run without --hash none copies it anew from the source");
    }
    // What the run itself copied is right.
    scene.src.file("a", "new content of a, and longer");
    scene.copy(&["--hash=none"]).assert_code(0);
    rot(&scene, "a");
    scene.copy(&[]).assert_code(0);
    shell(&scene, "cmp src/a dst/a");
}

/// What is known from a manifest alone is named, and nothing is put over it: how the file stood is not known.
#[test]
fn an_edit_is_not_healed_where_the_record_was_lost() {
    let scene = copied(&[]);
    shell(&scene, "cp -a dst other; rm dst/.dircopy/record");
    scene.src.remove("a");
    scene.output().file("a", "my text, written today, and longer");
    let run = scene.copy(&[]);
    run.assert_code(4).assert_says("dst/a: its content is not what an earlier run recorded");
    run.assert_says("; heal -m, with the list that has it, mends it");
    scene.bare(["heal", "dst", "--from-tree", "other"]).run();
    assert_eq!(shell(&scene, "cat dst/a"), "my text, written today, and longer");
}

/// Lists and trash of before may have what is needed against rot that a run named.
#[test]
fn nothing_goes_after_a_run_that_named_rot() {
    let scene = copied(&["--mirror"]);
    scene.src.remove("dir/c");
    scene.copy(&["--mirror"]).assert_code(0);
    scene.src.remove("a");
    rot(&scene, "a");
    shell(&scene, "sleep 1.1");
    let args = ["--mirror", "--keep-manifests=1", "--keep-trash=1s"];
    let run = scene.copy(&args);
    run.assert_code(4).assert_says("dst/a: its content is not what an earlier run recorded");
    assert_eq!(scene.judge(&run).manifests().len(), 3);
    assert_eq!(shell(&scene, "cat dst/.dircopy-trash/*/dir/c"), "content of dir/c");
    shell(&scene, "sleep 1.1");
    let run = scene.copy(&args);
    run.assert_code(0);
    assert_eq!(scene.judge(&run).manifests().len(), 1);
    assert!(
        !scene.dst.join(".dircopy-trash").exists()
            || shell(&scene, "find dst/.dircopy-trash -type f").is_empty()
    );
}

/// An edit that a delivery must not have is not copied; what is known of the good copy stays.
#[test]
fn the_copy_of_an_edit_that_was_refused_stays_known() {
    for rots in [false, true] {
        let scene = copied(&[]);
        let list = shell(&scene, "ls dst/*.sha256sum").trim().to_owned();
        scene.src.file("a", "a longer one than the content of a before");
        let run = scene.copy(&["--expect", &list, "--expect-all"]);
        run.assert_code(4).assert_says("what is at the output stays");
        scene.judge(&run).verifies().lists(&["a", "b", "dir/c"]);
        scene.src.remove("a");
        if rots {
            rot(&scene, "a");
        }
        let run = scene.copy(&[]);
        match rots {
            true => {
                let says = "dst/a: its content is not what an earlier run recorded";
                run.assert_code(4).assert_says(says);
                scene.judge(&run).verifies().lists(&["b", "dir/c"]);
            }
            false => {
                run.assert_code(0);
                scene.judge(&run).verifies().lists(&["a", "b", "dir/c"]);
            }
        }
    }
}

/// … nor after one that could not move what left, or that came upon nothing: a typing error, or an absent disk.
#[test]
fn no_list_goes_after_a_run_that_fell_short() {
    let scene = copied(&[]);
    scene.src.remove("a");
    scene.output().file(".dircopy-trash/x", "x");
    let run = scene.copy(&["--mirror", "--keep-manifests=1"]);
    run.assert_code(1).assert_says("no run of yours made it as trash");
    assert_eq!(scene.judge(&run).manifests().len(), 2);
    let scene = copied(&[]);
    scene.output().file("a", "edited");
    let run = scene.copy(&["--keep-manifests=1", "--include=nope"]);
    run.assert_code(1).assert_says("dst/a: it was changed after an earlier run recorded it");
    assert_eq!(scene.judge(&run).manifests().len(), 2);
}

/// The further name of a file that a delivery must not have is none of the copy that stays of it.
#[test]
fn a_further_name_of_what_was_refused_is_left_alone() {
    for names in [["a", "b"], ["b", "a"]] {
        let scene = Scene::new();
        scene.src.file(names[0], "content, old").hard_link(names[1], names[0]);
        scene.copy(&[]).assert_code(0);
        let list = shell(&scene, "ls dst/*.sha256sum").trim().to_owned();
        shell(&scene, &format!("sleep 1.1; printf 'CONTENT, NEW' > src/{}", names[0]));
        let exclude = format!("--exclude=/{}", names[0]);
        scene.copy(&["--overwrite-policy=update", &exclude]).assert_code(0);
        let run = scene.copy(&["--hard-links", "--expect", &list, "--expect-all"]);
        run.assert_code(4);
        let there = shell(&scene, &format!("cat dst/{} dst/{}", names[0], names[1]));
        assert_eq!(there, "content, oldCONTENT, NEW", "{}", run.err());
    }
}
