//! Generations in a directory that another user may write to, who moved one of another output there, or gave directories
//! of root's the names of what runs make for themselves.

use rustix::process::Signal;

use super::{names, nights};
use crate::harness::{Scene, Strace, content, need, shell};

const SAYS: &str = "it was made in another directory";

/// Two nights at `dst`, and after them one of another source at `other`; the names of all.
fn two_outputs() -> (Scene, Vec<String>, String) {
    let (scene, all) = nights(&["one", "two"]);
    scene.tree("planted").file("file", "planted");
    shell(&scene, "mkdir -m 777 other");
    let args = ["-i", "planted", "-o", "other", "--generations"];
    // The names of the nights before are a second apart.
    std::thread::sleep(std::time::Duration::from_secs(2));
    scene.ended(&args, 0);
    let name = shell(&scene, "cd other && ls -d 20*Z").trim().to_owned();
    (scene, all, name)
}

#[test]
fn one_that_was_moved_there_is_none_of_these() {
    let (scene, all, moved) = two_outputs();
    // The day of a night that was never there.
    shell(&scene, &format!("mv other/{moved} dst/"));
    let tree = format!("dst/{moved}");
    scene.ended(&["restore", &tree, "back"], 2).assert_says(SAYS);
    scene.ended(&["verify", &tree], 5).assert_says(SAYS);
    scene.ended(&["protect", &tree], 2).assert_says(SAYS);
    scene.ended(&["heal", &tree, "--from-tree", "dst/latest"], 2).assert_says(SAYS);
    assert!(!scene.path(&tree).join(".dircopy/parity").exists());
    scene.ended(&["verify", "dst"], 5).assert_says(&format!("{tree}: {SAYS}"));
    scene.ended(&["generations", "dst"], 1).assert_says(SAYS);
    // It is the latest by name, and still no base, nor what is restored, nor thinned out.
    scene.ended(&["restore", "dst", "back"], 2).assert_says(SAYS);
    scene.ended(&["restore", "dst/latest", "back"], 0);
    assert_eq!(std::fs::read_to_string(scene.path("back/file")).unwrap(), "two");
    scene.src.file("file", "three");
    let run = scene.copy(&["--generations", "--keep", "last=1"]);
    run.assert_code(0).assert_says(SAYS);
    let left = names(&scene);
    assert!(left.contains(&moved) && !left.contains(&all[0]) && left.len() == 2, "{left:?}");
    assert_eq!(std::fs::read_to_string(scene.path("dst/latest/file")).unwrap(), "three");
    scene.ended(&["generations", "dst", "--remove", &moved], 2);
    // Where it was made it is what it was.
    shell(&scene, &format!("mv {tree} other/"));
    scene.ended(&["verify", "dst"], 0);
    scene.ended(&["verify", "other"], 0);
}

/// Also where the private directory of all was taken away, which no other user can make.
#[test]
fn without_the_record_of_all_it_is_no_base() {
    let (scene, _, moved) = two_outputs();
    shell(
        &scene,
        &format!("mv other/{moved} dst/; mv dst/.dircopy aside; ln -sfn {moved} dst/latest"),
    );
    scene.ended(&["restore", "dst/latest", "back"], 2).assert_says(SAYS);
    scene.src.file("file", "three");
    let run = scene.copy(&["--generations"]);
    run.assert_code(0).assert_says(SAYS);
}

/// Who moves generations on purpose can say so, and copies say nothing of where they were made.
#[test]
fn one_that_its_owner_moved_is_taken_again() {
    let (scene, all, moved) = two_outputs();
    shell(&scene, &format!("mv other/{moved} dst/; mkdir third; cp -a dst/{} third", all[0]));
    scene.ended(&["verify", "third"], 0);
    shell(&scene, &format!("cd dst/{moved} && sed -i '/^in /d' .dircopy/generation"));
    scene.ended(&["verify", "dst"], 0);
    // A directory of all that was renamed is the same one.
    shell(&scene, "mv dst renamed");
    scene.ended(&["verify", "renamed"], 0);
}

/// Nights of a source with a directory that is called as the trash of a run is; the first night alone has a file in it.
fn dated_nights() -> (Scene, Vec<String>) {
    let scene = Scene::new();
    scene.src.file("2020-01-01T000000Z/gone", "gone").file("file", "one");
    shell(&scene, "mkdir -m 777 dst");
    scene.copy(&["--generations"]).assert_code(0);
    shell(&scene, "rm src/2020-01-01T000000Z/gone");
    for content in ["two", "three"] {
        scene.src.file("file", content);
        scene.copy(&["--generations"]).assert_code(0);
    }
    let names = names(&scene);
    (scene, names)
}

#[test]
fn a_night_that_is_called_as_the_trash_is_not_emptied() {
    let (scene, all) = dated_nights();
    shell(&scene, &format!("mv dst/{} dst/.dircopy-trash", all[0]));
    for keep in ["last=9", "last=1"] {
        let run = scene.copy(&["--generations", "--keep", keep, "--keep-trash", "1d"]);
        run.assert_code(0).assert_says("no run of yours made it as trash of this output");
        assert!(scene.path("dst/.dircopy-trash/2020-01-01T000000Z/gone").exists());
    }
    assert!(scene.dst.join(&all[1]).exists(), "nothing is moved there either");
    // It is what it was under its own name, and the next trash is trash.
    shell(&scene, &format!("mv dst/.dircopy-trash dst/{}", all[0]));
    let trash = &["--generations", "--keep", "last=1", "--keep-trash", "1d"];
    scene.copy(trash).assert_code(0);
    shell(&scene, "cd dst/.dircopy-trash && mv 20*Z 2001-01-01T000000Z");
    scene.copy(trash).assert_code(0);
    assert!(!scene.path("dst/.dircopy-trash/2001-01-01T000000Z").exists());
}

/// The directory of all generations beside a mirror is none of its trash, whatever it is called.
#[test]
fn generations_that_are_called_as_the_trash_of_a_mirror_are_not_emptied() {
    let (scene, all) = dated_nights();
    scene.tree("other").file("f", "f");
    let mirror = ["-i", "other", "-o", "shared", "--mirror", "--keep-trash", "1d"];
    scene.ended(&mirror, 0);
    let old = "shared/.dircopy-trash/2001-01-01T000000Z";
    shell(
        &scene,
        &format!("mv dst shared/.dircopy-trash; mv shared/.dircopy-trash/{} {old}", all[0]),
    );
    let run = scene.ended(&mirror, 0);
    run.assert_says("no run of yours made it as trash of this output");
    assert!(scene.path(old).join("file").exists());
}

/// What no run noted as trash is none, also where no run had any yet, or the note is gone.
#[test]
fn a_directory_that_is_called_as_the_trash_of_a_mirror_is_not_emptied() {
    for had_trash in [false, true] {
        let scene = Scene::new();
        scene.src.file("a/2020-01-01T000000Z/precious", "p").file("b", "b").file("c", "c");
        let mirror = || scene.copy(&["--mirror", "--max-delete=9", "--keep-trash", "30d"]);
        mirror().assert_code(0);
        if had_trash {
            scene.src.remove("b");
            mirror().assert_code(0);
            shell(&scene, "cd dst; mv .dircopy x; mv .dircopy-trash y; chmod 755 x y; rm -r x y");
        }
        shell(&scene, "mv dst/a dst/.dircopy-trash; chmod 700 dst/.dircopy-trash; rm -r src/a");
        let run = mirror();
        run.assert_says("no run of yours made it as trash of this output");
        assert!(scene.path("dst/.dircopy-trash/2020-01-01T000000Z/precious").exists());
        shell(&scene, "mv dst/.dircopy-trash dst/a");
        mirror().assert_code(0);
    }
}

/// A closed directory with files of its own that is called as the private directory is none, and stays as it is.
#[test]
fn a_closed_directory_that_is_called_as_the_private_one_is_not_written_to() {
    for options in [&[][..], &["--mirror"]] {
        let scene = Scene::new();
        scene.src.file("keys/record", "r").file("keys/secret", "s").file("keys/more", "m");
        scene.src.file("b", "b");
        scene.copy(options).assert_code(0);
        shell(
            &scene,
            "chmod 700 dst/keys; rm -r dst/.dircopy; mv dst/keys dst/.dircopy; find dst/.dircopy -type f -exec sha256sum {} + > sums",
        );
        scene.copy(options).assert_says("another directory was given this name");
        shell(&scene, "sha256sum -c --quiet sums; test $(ls -A dst/.dircopy | wc -l) = 3");
        shell(&scene, "mv dst/.dircopy dst/keys");
        scene.copy(options).assert_code(0);
    }
}

/// A generation that is called as the private directory is none: nothing is written into it, and it is one again by its
/// own name.
#[test]
fn a_night_that_is_called_as_the_private_directory_is_not_taken_for_it() {
    let (scene, all) = nights(&["one", "two"]);
    shell(
        &scene,
        &format!("chmod 700 dst/{0}; mv dst/.dircopy x; mv dst/{0} dst/.dircopy", all[0]),
    );
    let before = shell(&scene, "find dst/.dircopy | sort");
    let says = "it is an output or a generation that was given this name";
    scene.copy(&["--generations"]).assert_code(2).assert_says(says);
    scene.ended(&["verify", "dst"], 5).assert_says(says);
    assert_eq!(shell(&scene, "find dst/.dircopy | sort"), before);
    shell(&scene, &format!("mv dst/.dircopy dst/{}; mv x dst/.dircopy", all[0]));
    scene.copy(&["--generations"]).assert_code(0);
    scene.ended(&["verify", "dst"], 0);
    assert_eq!(names(&scene).len(), 3);
}

#[test]
fn what_is_called_as_an_unfinished_night_is_not_gone_on_with() {
    let (scene, all) = dated_nights();
    scene.tree("plain").file("f", "f");
    scene.ended(&["-i", "plain", "-o", "backup"], 0);
    for (from, to) in [(format!("dst/{}", all[0]), &all[0]), ("backup".into(), &all[0])] {
        let before =
            shell(&scene, &format!("cd {from}; find . -type f | sort; cat file f 2>&1 || true"));
        shell(&scene, &format!("mv {from} dst/{to}.part"));
        scene.src.file("file", "four");
        let run = scene.copy(&["--generations"]);
        run.assert_code(0).assert_says("no run of yours began it here");
        shell(&scene, &format!("mv dst/{to}.part {from}"));
        let after =
            shell(&scene, &format!("cd {from}; find . -type f | sort; cat file f 2>&1 || true"));
        assert_eq!(before, after, "{from}");
    }
    assert_eq!(names(&scene).len(), 5);
}

/// The names of the oldest and of the newest night are exchanged when the oldest is moved to the trash.
#[test]
fn the_newest_night_is_not_left_in_the_trash() {
    need!(Strace);
    let (scene, all) = nights(&["one", "two"]);
    scene.src.file("file", "three");
    let strace = Strace::inject(&scene, "renameat2", "delay_enter=1500000");
    let strace = strace.on(scene.dst.join(&all[0]));
    let mut running = strace.spawn(scene.command(["--generations", "--keep", "last=2"]));
    running.until("the move to the trash", || strace.log().contains(&all[0]));
    let newest = names(&scene).pop().unwrap();
    shell(&scene, &format!("cd dst; mv {newest} tmp; mv {} {newest}; mv tmp {}", all[0], all[0]));
    let run = running.wait();
    assert_ne!(run.code, Some(0));
    run.assert_says("another directory has its name");
    assert_eq!(
        shell(&scene, "for f in dst/20*Z/file; do cat $f; echo; done | sort").trim(),
        "one\nthree\ntwo"
    );
}

#[test]
fn a_check_of_all_says_that_latest_leads_elsewhere() {
    let (scene, all) = nights(&["one", "two"]);
    scene.ended(&["verify", "dst"], 0);
    shell(&scene, &format!("ln -sfn {} dst/latest", all[0]));
    scene.ended(&["verify", "dst"], 5).assert_says(&format!("it leads to {}", all[0]));
    // One that is not there, or that somebody made for himself, leads nowhere.
    shell(&scene, "rm dst/latest");
    scene.ended(&["verify", "dst"], 0);
    shell(&scene, "mkdir dst/latest");
    scene.ended(&["verify", "dst"], 0);
}

/// A run is killed, and another directory is given the name of the tree that it had begun.
#[test]
fn what_took_the_place_of_a_tree_that_was_begun_is_not_gone_on_with() {
    let (scene, _) = nights(&["one"]);
    scene.src.file("large", content(300_000));
    let slow = || {
        let mut night = scene.command(["--generations", "--limit-rate", "100K"]).spawn();
        let begun = || shell(&scene, "ls dst/*.part/dircopy-*.part 2>/dev/null || true");
        night.until("a manifest that is begun", || begun().contains("dircopy-"));
        night.signal(Signal::KILL);
        night.wait();
        shell(&scene, "cd dst && ls -d *.part").trim().to_owned()
    };
    let tree = slow();
    let put =
        format!("mkdir mine && echo mine >mine/file && mv dst/{tree} aside && mv mine dst/{tree}");
    shell(&scene, &put);
    scene.copy(&["--generations"]).assert_code(0).assert_says("no run of yours began it here");
    assert_eq!(std::fs::read_to_string(scene.dst.join(&tree).join("file")).unwrap(), "mine\n");
    // The tree itself is gone on with.
    shell(&scene, &format!("rm -r dst/{tree}; echo more >>src/large"));
    let tree = slow();
    scene.copy(&["--generations"]).assert_code(0);
    assert!(!scene.dst.join(tree).exists());
}

/// A run is killed between making the trash and noting it, after an earlier one was removed.
#[test]
fn a_trash_that_was_just_made_is_trash() {
    let scene = Scene::new();
    scene.src.file("a", "a").file("b", "b").file("c", "c");
    let mirror = || scene.copy(&["--mirror", "--max-delete=2"]);
    mirror().assert_code(0);
    scene.src.remove("a");
    mirror().assert_code(0);
    shell(&scene, "rm -r dst/.dircopy-trash; mkdir -m 700 dst/.dircopy-trash");
    scene.src.remove("b");
    mirror().assert_code(0);
    assert_eq!(shell(&scene, "cat dst/.dircopy-trash/20*Z/b"), "b");
}
