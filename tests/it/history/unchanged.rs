//! A mirror run in which nothing is made compares the two trees by its own listings, and looks closer only where these
//! do not add up.

use std::{io::BufRead, io::BufReader, io::Write, process::Command, process::Stdio};

use crate::harness::{Mount, Need, Run, Scene, Strace, content, have, names_below, need, shell};

fn scene() -> Scene {
    let scene = Scene::new();
    for i in 0..10 {
        scene.src.file(format!("keep/{i}"), content(100 + i)).file(format!("a/b/{i}"), "x");
    }
    scene.src.symlink("a/link", "b/1").dir("a/empty").file("loose", "x");
    scene.copy(&["--mirror"]).assert_code(0);
    scene
}

/// So many calls list directories of the source, or of the output.
fn listings(scene: &Scene, args: &[&str]) -> usize {
    let strace = Strace::watch(scene, "getdents64");
    strace.run(scene.command(args)).assert_code(0);
    let below = [scene.src.root().to_path_buf(), scene.dst.clone()];
    let is_in_trees = |call: &&String| {
        below.iter().any(|root| call.contains(root.to_str().unwrap())) && !call.contains(".dircopy")
    };
    strace.calls().iter().filter(is_in_trees).count()
}

#[test]
fn a_night_without_changes_lists_no_directory_once_more() {
    need!(Strace);
    let scene = scene();
    let mirror = listings(&scene, &["--mirror"]);
    assert!(mirror > 8);
    assert_eq!(mirror, listings(&scene, &["--mirror"]));
    // The look for what left takes no more than a first look into the output's root.
    assert_eq!(mirror, listings(&scene, &["--overwrite-policy", "update"]) + 1);
    scene.src.append("keep/3", b"more");
    assert!(listings(&scene, &["--mirror"]) > mirror);
}

/// The run ends well, and this went.
#[track_caller]
fn went(scene: &Scene, run: &Run, name: &str) {
    run.assert_code(0).assert_says(&format!("moved to the trash: {name}"));
    assert!(!scene.dst.join(name).exists());
}

/// Something left the source, and something else is there that makes up for it in number. Times of directories, which
/// would tell of it, are put back.
#[test]
fn what_left_is_found_whatever_else_is_counted() {
    let scene = scene();
    let change = |deed: &str| {
        shell(&scene, &format!("{deed} && find src -type d -exec touch -d 2001-01-01 {{}} +"));
    };
    change("true");
    scene.copy(&["--mirror"]).assert_code(0);
    change("rm src/keep/3 && mkfifo src/keep/fifo");
    went(&scene, &scene.copy(&["--mirror"]), "keep/3");
    change("rm src/keep/4 src/keep/fifo && head -c 2000 /dev/zero >src/keep/large");
    let run = scene.copy(&["--mirror", "--max-size", "1000"]);
    run.assert_code(1).assert_says("moved to the trash: keep/4");
    change("rm src/keep/5 src/keep/large && touch src/keep/excluded");
    went(&scene, &scene.copy(&["--mirror", "--exclude", "excluded"]), "keep/5");
    change("rm src/keep/6 src/keep/excluded && ln -s 7 src/keep/link");
    went(&scene, &scene.copy(&["--mirror", "--no-links"]), "keep/6");
    // Of the names of manifests in its root a run keeps those of its own for itself.
    change("rm src/keep/link && cp src/loose src/dircopy-20200101T000000Z.sha256sum");
    scene.copy(&["--mirror"]).assert_code(0);
    scene.copy(&["--mirror"]).assert_code(0);
    change("rm src/loose");
    went(&scene, &scene.copy(&["--mirror"]), "loose");
    change("rm -r src/a/empty");
    went(&scene, &scene.copy(&["--mirror"]), "a/empty");
    change("rm src/a/link");
    went(&scene, &scene.copy(&["--mirror"]), "a/link");
    assert_eq!(names_below(scene.src.root(), "f").len(), 17);
    shell(&scene, "diff -r --no-dereference -x .dircopy -x .dircopy-trash -x 'dircopy-*' src dst");
}

#[test]
fn what_is_not_in_the_source_is_named_in_each_night() {
    let scene = scene();
    scene.output().file("mine", "m").file("a/b/mine", "m");
    for _ in 0..2 {
        let run = scene.copy(&["--mirror"]);
        run.assert_code(0)
            .assert_says("mine: it is not in the source, and no earlier run listed it");
        run.assert_says("a/b/mine: it is not in the source");
    }
    // What is in the way of the trash refuses a run that would not need it, too.
    shell(&scene, "rm dst/mine dst/a/b/mine && touch dst/.dircopy-trash");
    scene.copy(&["--mirror"]).assert_code(2).assert_says("is not a directory");
}

/// An edit that keeps size and time, made while the copy waited for its name, or before the copy got a later change
/// time, has a change time that is older than the copy's. A snapshot by hard links has names of the private record, too,
/// which is not believed then.
#[test]
fn an_edit_that_is_older_than_its_copy_is_seen() {
    need!(Strace);
    let edit = "printf EDIT | dd of=src/f conv=notrunc status=none; touch -d 2020-01-01 src/f";
    for args in [&[][..], &["--mirror"], &["--generations"]] {
        for how in ["while it waits", "ln \"$(find dst -name f)\" link", "cp -al dst snapshot"] {
            let scene = Scene::on_disk();
            scene.src.file("f", "before").file("g", "g");
            shell(&scene, "touch -d 2020-01-01 src/f");
            let copied = || scene.copy(args).assert_code(0).err();
            if how == "while it waits" {
                // It was read then, and is as it was listed.
                let strace = Strace::inject(&scene, "close", "signal=STOP:when=1")
                    .exactly_on(scene.src.path("f"));
                let run = strace.run_stopped(scene.command(args), || {
                    assert_eq!(shell(&scene, "find dst -name f"), "");
                    shell(&scene, edit);
                });
                run.assert_code(0);
                assert!(strace.log().contains("stopped by SIGSTOP"), "{}", strace.log());
            } else {
                copied();
                shell(&scene, edit);
                shell(&scene, &format!("sleep 0.05; {how}"));
            }
            shell(&scene, "sleep 1.1");
            copied();
            let copies = shell(&scene, "find dst -name f | sort | tail -n 1 | xargs cat");
            assert_eq!(copies, "EDITre", "{args:?} {how}");
            // And then nothing is read any more.
            shell(&scene, "sleep 1.1");
            let strace = Strace::watch(&scene, "read,pread64").exactly_on(scene.src.path("f"));
            strace.run(scene.command(args)).assert_code(0);
            assert_eq!(strace.log().matches("read").count(), 0, "{}", strace.log());
        }
    }
}

/// An access list that was dropped at the source while the copy waited for its name is older than the copy's change time.
#[test]
fn a_list_that_was_dropped_before_the_copy_had_its_name_is_dropped_there() {
    need!(Strace, Attr);
    let scene = Scene::on_disk();
    scene.src.file("f", "secret").file("g", "g");
    shell(&scene, "chmod 640 src/f; setfacl -m u:65534:r src/f");
    let update = ["--overwrite-policy", "update"];
    let strace =
        Strace::inject(&scene, "close", "signal=STOP:when=1").exactly_on(scene.src.path("f"));
    let run = strace.run_stopped(scene.command(update), || {
        shell(&scene, "setfacl -b src/f; chmod 640 src/f; ! [ -e dst/f ]");
    });
    run.assert_code(0);
    assert!(strace.log().contains("stopped by SIGSTOP"), "{}", strace.log());
    let lists = |path: &str| shell(&scene, &format!("getfacl -n {path} | grep 65534 || true"));
    assert_eq!(lists("dst/f"), "user:65534:r--\n");
    shell(&scene, "sleep 1.1");
    scene.copy(&update).assert_code(0);
    assert_eq!(lists("dst/f"), "");
    // A label that was brought over, or found the same, is not looked at again.
    let looks = || {
        shell(&scene, "sleep 1.1");
        let strace = Strace::watch(&scene, "flistxattr").exactly_on(scene.src.path("f"));
        strace.run(scene.command(update)).assert_code(0);
        strace.log().matches("flistxattr").count()
    };
    assert_eq!(looks(), 0);
    for change in ["chmod 600 src/f", "chmod 640 src/f"] {
        shell(&scene, change);
        scene.copy(&update).assert_code(0);
        assert_eq!(shell(&scene, "stat -c %a src/f"), shell(&scene, "stat -c %a dst/f"));
        assert_eq!(looks(), 0, "{change}");
    }
}

/// A release is taken back by renaming directories, which changes no time of what is in them: the change time at the
/// source is an earlier one then.
#[test]
fn what_came_to_its_name_with_its_directory_is_seen() {
    need!(Attr);
    for args in [
        &["--overwrite-policy=update"][..],
        &["--mirror", "--overwrite-policy=update"],
        &["--generations"],
    ] {
        let scene = Scene::on_disk();
        for (name, mark) in [("old", "1"), ("now", "2")] {
            scene.src.file(format!("{name}/f"), format!("release {mark}"));
            shell(&scene, "find src -name f -exec touch -d 2020-01-01 {} +; sleep 0.05");
        }
        shell(&scene, "setfacl -m u:65534:r src/now/f; sleep 1.1");
        scene.copy(args).assert_code(0);
        // Nothing else tells them apart.
        assert_eq!(shell(&scene, "stat -c '%s %Y %a' src/*/f | uniq | wc -l"), "1\n");
        shell(&scene, "sleep 1.1; mv src/now src/bad; mv src/old src/now");
        scene.copy(args).assert_code(0);
        let newest = shell(&scene, "find dst/ -path '*now/f' | sort | tail -n 1");
        let newest = newest.trim_end();
        assert_eq!(shell(&scene, &format!("cat {newest}")), "release 1", "{args:?}");
        assert_eq!(shell(&scene, &format!("getfacl -n {newest} | grep -c 65534 || true")), "0\n");
    }
}

/// Files of one size and time, made in the same step of the clock, whose directories exchange their names: only the inode
/// numbers tell.
#[test]
fn files_of_all_the_same_times_are_told_by_their_numbers() {
    for (args, disk) in
        [(&[][..], true), (&["--mirror"], true), (&["--generations"], true), (&[], false)]
    {
        let scene = if disk { Scene::on_disk() } else { Scene::new() };
        shell(&scene, "mkdir -p src");
        // All in one process, within one step.
        let in_one = "import os
for n, text in ('a', 'one'), ('b', 'two'):
    os.makedirs('src/' + n); open('src/%s/f' % n, 'w').write(text)
for n in 'ab': os.utime('src/%s/f' % n, (1577836800, 1577836800))";
        let mut tries = 0;
        while {
            shell(&scene, &format!("rm -rf src/a src/b; python3 -c \"{in_one}\""));
            shell(&scene, "stat -c %.9Z src/a/f src/b/f | uniq | wc -l") != "1\n"
        } {
            tries += 1;
            assert!(tries < 100, "the clock of this file system has finer steps");
        }
        shell(&scene, "sleep 0.1");
        scene.copy(args).assert_code(0);
        shell(&scene, "sleep 1.1; mv src/a src/c; mv src/b src/a; mv src/c src/b");
        scene.copy(args).assert_code(0);
        let newest = "find dst/ -path '*a/f' | sort | tail -n 1 | xargs cat";
        assert_eq!(shell(&scene, newest), "two", "{args:?}");
    }
}

/// Where times are whole seconds, an edit within the second in which a file was read changes none of them.
#[test]
fn an_edit_in_the_step_of_a_clock_is_seen() {
    need!(Loop, Strace);
    for args in [&[][..], &["--mirror"], &["--generations"]] {
        let scene = Scene::on_disk();
        shell(&scene, "truncate --size=8M image && mkfs.ext4 -q -I 128 image 2>/dev/null");
        let _mount = Mount::device(&scene.path("image"), &scene.path("coarse"), "loop").unwrap();
        shell(&scene, "mkdir coarse/src");
        let copy = || scene.bare([&["-q", "coarse/src", "dst"], args].concat()).run();
        let mut tries = 0;
        while tries == 0 || !shell(&scene, "cmp before after || true").is_empty() {
            tries += 1;
            assert!(tries < 20, "the machine is too slow");
            // Early in a second.
            shell(
                &scene,
                "rm -rf dst; while [ $(date +%N | cut -c 1) != 1 ]; do sleep 0.02; done
                 echo one >coarse/src/f; stat -c %Y.%Z coarse/src/f >before",
            );
            copy().assert_code(0);
            shell(&scene, "echo two >coarse/src/f; stat -c %Y.%Z coarse/src/f >after");
        }
        shell(&scene, "sleep 2.1");
        copy().assert_code(0);
        let newest = "find dst/ -name f | sort | tail -n 1 | xargs cat";
        assert_eq!(shell(&scene, newest), "two\n", "{args:?}");
        // And then it is known.
        shell(&scene, "sleep 1.1");
        let strace = Strace::watch(&scene, "read").exactly_on(scene.path("coarse/src/f"));
        let again = [&["-q", "coarse/src", "dst"], args].concat();
        strace.run(scene.bare(again)).assert_code(0);
        assert_eq!(strace.log().matches("read").count(), 0, "{}", strace.log());
    }
}

/// What moves an output, or makes a directory in it anew, gives all copies a later change time; and no record is of them.
#[test]
fn a_list_that_was_set_at_the_source_is_missed_where_no_record_is() {
    need!(Attr);
    let scene = Scene::new();
    scene.src.file("f", "f");
    scene.copy(&[]).assert_code(0);
    shell(&scene, "sleep 0.05; setfacl -m u:65534:--- src/f; rm -r dst/.dircopy; sleep 0.05");
    shell(&scene, "chmod 600 dst/f; chmod 644 dst/f");
    scene.copy(&["--overwrite-policy", "update"]).assert_code(0);
    assert_eq!(shell(&scene, "getfacl -n dst/f | grep 65534"), "user:65534:---\n");
}

/// What a run saw of the source's files is known to later ones that compute other digests.
#[test]
fn what_was_seen_of_the_source_outlives_another_digest() {
    let scene = Scene::on_disk();
    scene.src.file("d/f", "AAAA").file("z", "z");
    scene.tree("prepared").file("f", "BBBB");
    shell(&scene, "touch -d 2020-01-01 src/d/f src/z prepared/f; sleep 0.05");
    for hash in ["sha256", "xxh3", "sha256", "sha256"] {
        scene.copy(&["--hash", hash]).assert_code(0);
        shell(&scene, "sleep 0.05");
    }
    shell(&scene, "mv src/d away; mv prepared src/d");
    scene.copy(&[]).assert_code(0);
    assert_eq!(scene.output().read("d/f"), b"BBBB");
}

/// A line that was only carried from an earlier list says nothing of the source: not to the runs after that, either.
#[test]
fn what_was_carried_over_is_held_against_the_source() {
    for first in ["--exclude=q", "--max-size=1", "--overwrite-policy=never"] {
        let scene = Scene::on_disk();
        scene.src.file("q", "old").file("z", "z");
        shell(&scene, "touch -d 2020-01-01 src/q");
        scene.copy(&[]).assert_code(0);
        let edit = "sleep 0.05; printf new >src/q; touch -d 2020-01-01 src/q; sleep 0.05
             rm -r dst/.dircopy; chmod 600 dst/q; chmod 644 dst/q; sleep 0.05";
        shell(&scene, edit);
        scene.copy(&[first]);
        scene.copy(&["--overwrite-policy=update"]).assert_code(0);
        assert_eq!(shell(&scene, "cat dst/q"), "new", "{first}");
    }
}

/// Who writes through a mapping changes a page that is not on the disk yet without another time.
#[test]
fn what_could_be_written_to_while_it_was_read_is_read_again() {
    need!(Strace);
    if !have(&[Need::Program("python3")]) {
        return;
    }
    let script = "import mmap, sys
with open('src/f', 'r+b') as file:
    page = mmap.mmap(file.fileno(), 0)
for text in b'one', b'two':
    page[:3] = text
    print(flush=True)
    sys.stdin.readline()";
    // With syncs the page would be on the disk; in memory it never is. On a disk it is too when someone else syncs, or
    // the system does: then the store moves a time, and shows nothing.
    for (args, disk) in [
        (&["--no-sync"][..], true),
        (&["--no-sync", "--mirror"], true),
        (&["--generations"], false),
    ] {
        let stored_in_silence = || {
            let scene = if disk { Scene::on_disk() } else { Scene::new() };
            scene.src.file("f", "zero").file("g", "g");
            let times = || shell(&scene, "stat -c '%.9Y %.9Z' src/f");
            let mut writer = Command::new("python3")
                .args(["-c", script])
                .current_dir(scene.root())
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .spawn()
                .unwrap();
            let (mut go_on, told) = (writer.stdin.take().unwrap(), writer.stdout.take().unwrap());
            let mut told = BufReader::new(told).lines();
            told.next().unwrap().unwrap();
            shell(&scene, "sleep 0.1");
            scene.copy(args).assert_code(0);
            let before = times();
            go_on.write_all(b"\n").unwrap();
            told.next().unwrap().unwrap();
            let is_silent = times() == before;
            drop(go_on);
            writer.wait().unwrap();
            is_silent.then_some(scene)
        };
        let scene = (0..50).find_map(|_| stored_in_silence()).expect("each store moved a time");
        shell(&scene, "sleep 1.1");
        scene.copy(args).assert_code(0);
        let newest = "find dst/ -name f | sort | tail -n 1 | xargs cat";
        assert_eq!(shell(&scene, newest), "twoo", "{args:?}");
        // And then it is known, as what nobody could write to was before.
        let strace = Strace::watch(&scene, "read").exactly_on(scene.path("src/f"));
        strace.run(scene.command(args)).assert_code(0);
        assert_eq!(strace.log().matches("read").count(), 0, "{}", strace.log());
    }
}
