//! What another user put, moved or left in a directory is not handed over with it, and nothing of a closed source is
//! open while it is copied.

use std::fs::OpenOptions;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;

use crate::harness::{NONE, Run, Scene, Strace, content, need, shell};

/// Owner and permissions, but for the sign of a directory that was closed in place.
fn label(path: &Path) -> (u32, u32) {
    let stat = path.symlink_metadata().unwrap();
    (stat.uid(), stat.mode() & 0o3777)
}

/// A closed directory of one user's, with an open file in it, which was copied.
fn closed_directory() -> Scene {
    let scene = Scene::new();
    scene.src.file("d/key", "secret").file("good", "good");
    shell(&scene, "chmod 755 . && chmod 777 src && chmod 700 src/d && chown -R 1001:1001 src/d");
    scene.copy(&[]).assert_code(0);
    assert_eq!(label(&scene.dst.join("d")), (1001, 0o700));
    scene
}

/// Another user renames it and makes one of the same name.
fn replace(scene: &Scene) {
    shell(scene, "mv src/d old && mkdir -m 755 src/d && chown 1002:1002 src/d");
}

#[track_caller]
fn is_kept_closed(scene: &Scene, run: &Run, name: &str) {
    run.assert_code(1).assert_says(name).assert_says("stays closed to others");
    run.assert_prints(&["NOT COMPLETE", "not every directory is open"]);
    assert_eq!(label(&scene.dst.join("d")), (0, 0o700), "{}", run.err());
}

#[test]
fn a_directory_that_another_user_put_in_place_of_a_closed_one_gets_nothing_of_it() {
    need!(Root);
    for policy in ["default", "update", "never", "always"] {
        let scene = closed_directory();
        replace(&scene);
        let run = scene.copy(&["--overwrite-policy", policy]);
        is_kept_closed(&scene, &run, "dst/d/key");
        // And so it stays.
        let run = scene.copy(&["--overwrite-policy", policy]);
        is_kept_closed(&scene, &run, "dst/d/key");
        shell(&scene, "mv dst/d/key .");
        scene.copy(&["--overwrite-policy", policy]).assert_code(0);
        assert_eq!(label(&scene.dst.join("d")), (1002, 0o755));
    }
}

/// A file that differs and stays is not of the source either.
#[test]
fn a_file_that_is_left_keeps_its_directory_closed() {
    need!(Root);
    let scene = closed_directory();
    replace(&scene);
    shell(&scene, "echo mine > src/d/key && chown 1002:1002 src/d/key");
    let run = scene.copy(&["--overwrite-policy", "never"]);
    run.assert_code(1).assert_says("stays closed to others");
    assert_eq!(label(&scene.dst.join("d")), (0, 0o700));
    scene.copy(&["--overwrite-policy", "always"]).assert_code(0);
    assert_eq!(label(&scene.dst.join("d")), (1002, 0o755));
    assert_eq!(std::fs::read(scene.dst.join("d/key")).unwrap(), b"mine\n");
}

/// One below that keeps its label has its time, whatever else is in it.
#[test]
fn a_directory_that_keeps_its_label_gets_its_time() {
    need!(Root);
    let scene = Scene::new();
    scene.src.file("x/q/a", "a");
    shell(&scene, "chmod 700 src/x/q");
    scene.copy(&[]).assert_code(0);
    shell(
        &scene,
        "chown 1001 src/x; touch dst/x/q/extra; echo A2 >src/x/q/a; touch -d 2020-01-01 src/x/q",
    );
    scene.copy(&["--overwrite-policy=update"]).assert_code(0);
    assert_eq!(shell(&scene, "stat -c %Y src/x/q"), shell(&scene, "stat -c %Y dst/x/q"));
}

/// A mirror moves what has left at the end of the run: until then the directory is closed.
#[test]
fn a_mirror_hands_a_directory_over_when_what_has_left_is_out_of_it() {
    need!(Root, Strace);
    let scene = closed_directory();
    replace(&scene);
    scene.src.file("zz", content(300_000));
    let strace = Strace::inject(&scene, Strace::RENAMES, "signal=SIGSTOP:when=1");
    let command = scene.command(["--mirror", "--max-delete", "100%", "--workers", "1"]);
    let run = strace.exactly_on(scene.dst.join("d")).run_stopped(command, || {
        assert_eq!(label(&scene.dst.join("d")), (0, 0o700));
    });
    run.assert_code(0);
    assert_eq!(label(&scene.dst.join("d")), (1002, 0o755));
    assert!(!scene.dst.join("d/key").exists());
}

/// What lies below a directory was as closed as that.
#[test]
fn a_directory_is_not_opened_over_what_lies_below() {
    need!(Root);
    let scene = Scene::new();
    scene.src.file("d/sub/deep/key", "secret").file("d/sub/stays", "stays").file("d/top", "top");
    shell(&scene, "chmod 700 src/d && chown -R 1001:1001 src/d");
    scene.copy(&[]).assert_code(0);
    shell(&scene, "rm src/d/sub/deep/key && chmod 755 src/d");
    let run = scene.copy(&[]);
    run.assert_code(1).assert_says("dst/d/sub/deep/key").assert_says("stays closed to others");
    // It is as it was, for its owner too.
    assert_eq!(label(&scene.dst.join("d")), (1001, 0o700));
    assert_eq!(label(&scene.dst.join("d/sub/deep")), (1001, 0o755));
    let run = scene.copy(&["--mirror", "--max-delete", "100%"]);
    run.assert_code(0);
    assert_eq!(label(&scene.dst.join("d")), (1001, 0o755));
}

/// Nothing stands in the way of what everybody does with permissions.
#[test]
fn directories_are_opened_and_closed_as_at_the_source() {
    for nobody in [false, true] {
        let scene = Scene::new();
        if nobody {
            need!(Setpriv);
        }
        scene.src.file("d/sub/file", "file").file("e/file", "file");
        scene.src.symlink("d/link", "sub/file").fifo("d/fifo").dir("d/empty");
        shell(&scene, "chmod 700 src/d && chmod 775 src/e");
        if nobody {
            shell(&scene, "chmod 777 . && chown -R 65534:65534 src");
        }
        let copy = |args: &[&str]| {
            let command = scene.command(args);
            if nobody { command.under_nobody().run() } else { command.run() }
        };
        copy(&[]).assert_code(0);
        // What is closed may have more than the source.
        shell(&scene, "chmod 755 src/d && chmod 700 src/e && echo > dst/e/more");
        let run = copy(&[]);
        run.assert_code(0);
        assert_eq!(label(&scene.dst.join("d")).1, 0o755);
        assert_eq!(label(&scene.dst.join("e")).1, 0o700);
        scene.judge(&run).verifies();
    }
}

/// Who owns the output's root gives the private directory the name of a directory of the source.
#[test]
fn the_private_directory_is_no_copy_of_a_directory() {
    need!(Root);
    let scene = Scene::new();
    scene.src.file("file", "file");
    shell(&scene, "chown 1002:1002 src");
    scene.copy(&[]).assert_code(0);
    shell(&scene, "mv dst/.dircopy dst/sub && mkdir src/sub && chown 1002:1002 src/sub");
    for _ in 0..2 {
        let run = scene.copy(&["--overwrite-policy", "update"]);
        run.assert_code(1).assert_says("dst/sub").assert_says("private records");
        assert_eq!(label(&scene.dst.join("sub")), (0, 0o700));
        assert!(scene.dst.join("sub/secret").exists());
    }
}

/// The files in a closed directory may be open: nobody reads them while they are copied, nor after a run was killed.
#[test]
fn a_new_output_is_closed_until_all_is_in_it() {
    need!(Strace);
    for args in [&[][..], &["--no-sync"], &["--bag"]] {
        let scene = Scene::new();
        scene.src.file("note", "note").file("zz", content(300_000));
        shell(&scene, "chmod 751 src");
        let copied = scene.dst.join(if args == ["--bag"] { "data" } else { "" });
        let strace = Strace::inject(&scene, Strace::READS, "signal=SIGSTOP:when=1");
        let run = strace.exactly_on(scene.src.path("zz")).run_stopped(scene.command(args), || {
            assert_eq!(label(&copied).1, 0o700, "{args:?}");
        });
        run.assert_code(0);
        assert_eq!(label(&copied).1, 0o751, "{args:?}");
    }
}

#[test]
fn an_output_that_a_killed_run_made_is_opened_by_the_next() {
    need!(Strace);
    for (own, after) in [(false, 0o751), (true, 0o700)] {
        let scene = Scene::new();
        scene.src.file("note", "note").file("zz", content(300_000));
        shell(&scene, "chmod 751 src");
        if own {
            // The user's own is as the user made it.
            shell(&scene, "mkdir -m 700 dst");
        }
        let strace = Strace::inject(&scene, Strace::READS, "signal=KILL:when=1");
        let run = strace.exactly_on(scene.src.path("zz")).run(scene.command(NONE));
        assert_ne!(run.code, Some(0));
        assert_eq!(label(&scene.dst).1, 0o700);
        scene.copy(&[]).assert_code(0);
        assert_eq!(label(&scene.dst).1, after);
        shell(&scene, "chmod 700 dst");
        scene.copy(&[]).assert_code(0);
        assert_eq!(label(&scene.dst).1, 0o700);
    }
}

/// Who could write to a copy may hold it open: taking permissions from it took nothing from who wrote to it already.
#[test]
fn a_copy_that_others_could_write_to_is_not_closed_but_copied_anew() {
    need!(Attr);
    let ways = [
        ("chmod 666 src/key", "chmod 600 src/key", 0o600),
        ("chmod 660 src/key", "chmod 640 src/key", 0o640),
        ("setfacl -m u:1001:rw src/key", "setfacl -b src/key; chmod 644 src/key", 0o644),
        // It was closed meanwhile, by hand and at the output alone.
        ("chmod 666 src/key", "chmod 600 src/key; chmod 644 dst/key", 0o600),
    ];
    for (open, close, mode) in ways {
        let scene = Scene::on_disk();
        scene.src.file("key", "secret").file("zz", "zz");
        shell(&scene, open);
        scene.copy(&[]).assert_code(0);
        let copy = scene.dst.join("key");
        // Nothing changed, so nothing is to be done, whoever may write to it.
        let run = scene.copy(&["--overwrite-policy=update"]);
        run.assert_code(0).assert_prints(&["unchanged", "2 files"]);
        let held = OpenOptions::new().write(true).open(&copy).unwrap();
        shell(&scene, close);
        let run = scene.copy(&["--overwrite-policy=update"]);
        scene.judge(&run).complete();
        assert_eq!(label(&copy).1, mode, "{open}");
        held.write_all_at(b"forged", 0).unwrap();
        assert_eq!(std::fs::read(&copy).unwrap(), b"secret", "{open}; {close}");
        drop(held);
        let run = scene.copy(&["--overwrite-policy=update"]);
        scene.judge(&run).complete();
        run.assert_prints(&["unchanged", "2 files"]);
    }
}

/// Two new directories of the source, in the order in which a run enters them.
fn two_directories(scene: &Scene) -> [&'static str; 2] {
    scene.src.dir("a").dir("b");
    let number = |name: &&str| scene.src.path(name).metadata().unwrap().ino();
    let mut names = ["a", "b"];
    names.sort_by_key(number);
    names
}

/// Who may write to the output's root exchanges the directories in it: the one that was closed for a closed directory
/// got the name of an open one, and with that its label, and all that was in it.
#[test]
fn a_directory_is_taken_for_one_of_the_source_only() {
    need!(Root, Strace);
    let scene = Scene::new();
    let [closed, open] = two_directories(&scene);
    shell(
        &scene,
        &format!(
            "chmod 777 src; chmod 700 src/{closed}; chown 1001:1001 src/{closed}; chmod 755 src/{open}"
        ),
    );
    scene.copy(&["--allow-empty"]).assert_code(0);
    scene.src.file(format!("{closed}/key"), content(400_000)).mode(format!("{closed}/key"), 0o644);
    scene.src.file(format!("{open}/page"), content(1_200_000));
    let exchange = format!("cd dst; mv {closed} x; mv {open} {closed}; mv x {open}");
    let strace = Strace::inject(&scene, "getdents64", "signal=SIGSTOP:when=1");
    let slowly = scene.command(["--limit-rate", "400K"]);
    let run = strace.exactly_on(scene.dst.join(closed)).run_stopped(slowly, || {
        shell(&scene, &exchange);
    });
    run.assert_code(1).assert_says(&format!("dst/{open}: it is the directory that this run took"));
    assert_eq!(label(&scene.dst.join(open)), (1001, 0o700), "{}", run.err());
    assert!(scene.dst.join(open).join("key").exists());
    assert!(!scene.dst.join(open).join("page").exists());
    shell(&scene, &exchange);
    scene.copy(&[]).assert_code(0);
    assert_eq!(label(&scene.dst.join(open)), (0, 0o755));
    assert_eq!(label(&scene.dst.join(closed)), (1001, 0o700));
}

/// … or puts one of his in the place of a directory that was just made.
#[test]
fn a_directory_that_took_the_place_of_a_new_one_is_not_new() {
    need!(Root, Strace);
    let scene = Scene::new();
    shell(&scene, "chmod 777 src");
    scene.src.file("first", "first");
    scene.copy(&[]).assert_code(0);
    // The thread that walks makes two directories there, and no other more than one.
    let [_, closed] = two_directories(&scene);
    let key = format!("{closed}/key");
    scene.src.file(&key, "key").mode(&key, 0o644).mode(closed, 0o700);
    shell(&scene, &format!("chown -R 1001:1001 src/{closed}"));
    let strace = Strace::inject(&scene, "mkdir,mkdirat", "signal=SIGSTOP:when=2");
    let run = strace.exactly_on(&scene.dst).run_stopped(scene.command(NONE), || {
        let hers = "mkdir -m 777 $d; echo hers > $d/planted; chown -R 1002:1002 $d";
        shell(&scene, &format!("cd dst; d={closed}; mv $d old; {hers}"));
    });
    run.assert_code(1).assert_says(&format!("dst/{closed}: it belongs to another user"));
    assert_eq!(label(&scene.dst.join(closed)), (1002, 0o777));
    assert_eq!(shell(&scene, &format!("ls -A dst/{closed}")), "planted\n");
}

/// Of an output whose root is this user's alone, a directory below may be open.
#[test]
fn that_others_may_write_to_a_directory_is_told_once() {
    need!(Root, Attr);
    let scene = Scene::on_disk();
    scene.src.file("d/file", "d").file("e/sub/file", "e");
    shell(&scene, "chmod 755 src; chmod 777 src/d src/e/sub");
    let told = "other users may write to it";
    scene.copy(&[]).assert_code(0);
    let run = scene.copy(&[]);
    run.assert_code(0).assert_says(told);
    assert_eq!(run.err().matches(told).count(), 1, "{}", run.err());
    assert!(run.err().contains("dst/d: ") || run.err().contains("dst/e/sub: "), "{}", run.err());
    shell(&scene, "chmod 700 src dst");
    assert!(!scene.copy(&[]).err().contains(told));
    shell(&scene, "chmod 777 src dst");
    let run = scene.copy(&[]);
    assert_eq!(run.err().matches(told).count(), 1, "{}", run.err());
    assert!(run.err().contains("dst: other users"), "{}", run.err());
    shell(
        &scene,
        "chmod 755 src/d src/e/sub src dst dst/d dst/e/sub; setfacl -m u:1002:rwx src dst",
    );
    assert!(scene.copy(&[]).err().contains("dst: other users"));
}

/// Two directories of the source, of which one is closed, are exchanged by name. What their files have besides is alike.
fn exchanged(args: &[&str]) -> Scene {
    let scene = Scene::new();
    scene.src.file("priv/key", "secret01").file("pub/key", "open0001");
    shell(&scene, "chmod 700 src/priv && chmod 755 src/pub && touch -d 2001-01-01 src/*/key");
    scene.copy(args).assert_code(0);
    shell(&scene, "cd src && mv priv t && mv pub priv && mv t pub");
    scene
}

#[test]
fn what_a_directory_shows_when_it_is_opened_was_read() {
    for args in [&["--overwrite-policy", "update"][..], &["--mirror"], &["--hard-links"]] {
        let scene = exchanged(args);
        scene.copy(args).assert_code(0);
        for name in ["priv/key", "pub/key"] {
            let [source, copy] = [scene.src.path(name), scene.dst.join(name)];
            assert_eq!(
                std::fs::read(&copy).unwrap(),
                std::fs::read(source).unwrap(),
                "{args:?} {name}"
            );
        }
        assert_eq!(label(&scene.dst.join("priv")).1, 0o755);
        // A directory that is opened at the source is opened when what is in it was read.
        shell(&scene, "chmod 755 src/pub");
        scene.copy(args).assert_code(0);
        assert_eq!(label(&scene.dst.join("pub")).1, 0o755);
    }
}

#[test]
fn what_nobody_reads_is_shown_to_nobody() {
    let args = ["--hash", "none"];
    let scene = exchanged(&args);
    scene.copy(&args).assert_code(1).assert_says("stays closed to others");
    assert_eq!(label(&scene.dst.join("priv")).1, 0o700);
}

/// A closed directory of the source, with an open one and open files in it, and one beside it; at the output another user
/// made those beforehand, and holds them open. What is there is `theirs`.
fn made_beforehand(theirs: &str) -> Scene {
    let scene = Scene::new();
    scene.src.file("d/sub/key", "secret").file("d/key", "secret").file("e/open", "open");
    shell(
        &scene,
        "chmod 755 . src src/d/sub src/e; chmod 700 src/d; chmod 644 src/*/key src/d/sub/key",
    );
    shell(&scene, &format!("mkdir -m 755 dst; cd dst; {theirs}"));
    scene
}

#[track_caller]
fn gets_nothing(scene: &Scene, run: &Run, name: &str) {
    run.assert_code(1).assert_says(&format!("dst/{name}: it belongs to another user"));
    run.assert_says("run again").assert_prints(&["NOT COMPLETE"]);
    let found = shell(scene, &format!("find dst/{name} -type f"));
    assert_eq!(found, "", "{}", run.err());
    assert!(!shell(scene, "cat dst/*.sha256sum").contains(&format!("{name}/")), "{}", run.err());
    // The others are copied.
    assert_eq!(std::fs::read(scene.dst.join("e/open")).unwrap(), b"open");
}

/// Who holds a directory open reads what is put below it, whatever those above let him.
#[test]
fn nothing_of_a_closed_directory_gets_into_one_that_another_user_made_beforehand() {
    need!(Root);
    let his = "mkdir -p d/sub; chmod 755 d d/sub; chown 1002:1002";
    for (theirs, name) in [
        (format!("{his} d d/sub"), "d"),
        (format!("{his} d d/sub; chmod 700 d"), "d"),
        // It is open at the source, in a closed one.
        (format!("{his} d/sub; chmod 700 d"), "d/sub"),
        (format!("{his} d/sub"), "d/sub"),
    ] {
        for args in [&[][..], &["--mirror"], &["--overwrite-policy", "always"], &["--hash=none"]] {
            let scene = made_beforehand(&theirs);
            let before = shell(&scene, &format!("stat -c '%u %a' dst/{name}"));
            let run = scene.copy(&[&["-n"], args].concat());
            run.assert_code(1).assert_says(&format!("dst/{name}: it belongs to another user"));
            let run = scene.copy(args);
            if args == ["--hash=none"] {
                shell(&scene, "touch dst/none.sha256sum");
            }
            gets_nothing(&scene, &run, name);
            assert_eq!(shell(&scene, &format!("stat -c '%u %a' dst/{name}")), before);
            // As the message says.
            shell(&scene, &format!("mv dst/{name} moved"));
            scene.copy(args).assert_code(0);
            assert_eq!(std::fs::read(scene.dst.join("d/sub/key")).unwrap(), b"secret");
            assert_eq!(label(&scene.dst.join("d")), (0, 0o700));
        }
    }
}

/// What everyone may read at the source is kept from nobody, and neither is a user's own from that user.
#[test]
fn a_directory_made_beforehand_gets_what_is_closed_to_nobody_there() {
    need!(Root);
    for (source, theirs) in [
        ("chmod 755 src/d", "mkdir -p d/sub; chown -R 1002:1002 d; chmod 755 d d/sub"),
        ("chown -R 1001:1001 src/d", "mkdir -p d/sub; chown -R 1001:1001 d; chmod 777 d d/sub"),
        // Root's own is closed first.
        ("true", "mkdir -p d/sub; chmod 777 d d/sub"),
        // The user lets everyone into the output.
        ("chmod 700 src; chmod 755 src/d", "mkdir d; chown 1002:1002 d; chmod 755 d"),
    ] {
        let scene = made_beforehand(theirs);
        shell(&scene, source);
        let run = scene.copy(&[]);
        run.assert_code(0);
        assert_eq!(label(&scene.dst.join("d")), label(&scene.src.path("d")), "{source}");
        assert_eq!(std::fs::read(scene.dst.join("d/sub/key")).unwrap(), b"secret", "{source}");
    }
    // A root that the user closes, with a directory of another's in it.
    let scene = made_beforehand("mkdir d; chown 1002:1002 d; chmod 755 d");
    shell(&scene, "chmod 700 src dst; chmod 755 src/d");
    gets_nothing(&scene, &scene.copy(&[]), "d");
}

/// Who cannot take a directory over puts nothing into it that was closed.
#[test]
fn nothing_closed_gets_into_a_directory_that_cannot_be_closed() {
    need!(Root, Setpriv);
    for (theirs, ours) in [
        ("mkdir d; chown 1002:1002 d; chmod 777 d", "755"),
        ("mkdir d; chmod 777 d", "700"),
        ("mkdir d; chown :65534 d; chmod 775 d", "700"),
    ] {
        let scene = made_beforehand(theirs);
        shell(&scene, "chown -R 65534:65534 src; chown 65534:65534 dst");
        for args in [&["-n"][..], &[]] {
            let run = scene.command(args).under_nobody().run();
            run.assert_code(1).assert_says("cannot copy into ").assert_says("dst/d: ");
            assert_eq!(shell(&scene, "find dst/d -type f"), "", "{}", run.err());
        }
        shell(&scene, "chmod 755 src/d");
        let run = scene.command(NONE).under_nobody().run();
        run.assert_code(0);
        assert_eq!(std::fs::read(scene.dst.join("d/sub/key")).unwrap(), b"secret", "{ours}");
    }
}

/// What an earlier run listed stays listed.
#[test]
fn lines_of_a_directory_that_gets_nothing_are_kept() {
    need!(Root);
    let scene = closed_directory();
    shell(&scene, "chown 1002:1002 dst/d; chmod 644 src/d/key");
    scene.src.file("d/new", "new");
    let run = scene.copy(&[]);
    run.assert_code(1).assert_says("dst/d: it belongs to another user");
    let list = shell(&scene, "cat $(ls dst/dircopy-*.sha256sum | tail -n 1)");
    assert!(list.contains("d/key") && !list.contains("d/new"), "{list}");
    shell(&scene, "chown 1001:1001 dst/d");
    scene.copy(&[]).assert_code(0);
    assert_eq!(std::fs::read(scene.dst.join("d/new")).unwrap(), b"new");
}

/// … nor into the payload of a bag.
#[test]
fn a_payload_that_another_user_made_gets_nothing_that_is_closed() {
    need!(Root);
    let scene = Scene::new();
    scene.src.file("key", "secret").mode("key", 0o644);
    shell(&scene, "chmod 700 src");
    scene.copy(&["--bag"]).assert_code(0);
    scene.src.file("more", "secret");
    shell(&scene, "mv dst/data old; mkdir dst/data; chown 1002:1002 dst/data");
    let run = scene.copy(&["--bag"]);
    run.assert_code(2).assert_says("dst/data: users may look into it").assert_says("run again");
    assert_eq!(shell(&scene, "find dst/data -type f; ls dst/bagit.txt"), "dst/bagit.txt\n");
    // Of root's own, it is closed first.
    shell(&scene, "rm -r dst/data; mv old dst/data; chmod 755 dst/data");
    scene.copy(&["--bag"]).assert_code(0);
    assert_eq!(label(&scene.dst.join("data")), (0, 0o700));
}

/// Whoever had the directory may have said who gets into what is made in it.
#[test]
fn the_access_lists_of_a_directory_of_another_user_are_gone_before_anything_is_made_in_it() {
    need!(Root, Attr, Strace);
    for (owner, lists) in [(1002, "setfacl -d -m u:5:rx src/d"), (1001, "true"), (1002, "true")] {
        let scene = Scene::on_disk();
        scene.src.file("d/sub/file", "file").file("d/zz", content(300_000));
        shell(
            &scene,
            &format!(
                "chmod 755 . src src/d src/d/sub; chown 1001:1001 src/d; {lists}; mkdir -p -m 755 dst/d; chmod 711 dst/d
                 chown {owner}:{owner} dst/d; setfacl -m u:1002:rwx dst/d; setfacl -d -m u:1002:rwx dst/d"
            ),
        );
        let look = |name: &str| shell(&scene, &format!("getfacl -cp {name} | grep : || true"));
        let strace = Strace::inject(&scene, Strace::READS, "signal=SIGSTOP:when=1");
        let zz = scene.src.path("d/zz");
        let run = strace.exactly_on(zz).run_stopped(scene.command(NONE), || {
            assert_eq!(look("dst/d"), "user::rwx\ngroup::---\nother::---\n");
        });
        run.assert_code(0);
        for name in ["d", "d/sub", "d/zz"] {
            assert_eq!(look(&format!("dst/{name}")), look(&format!("src/{name}")), "{name}");
        }
    }
}

/// A user copies to a disk, and root runs the same copy once more: the user's copy stays the user's.
#[test]
fn a_copy_that_another_user_made_stays_that_users() {
    need!(Root, Setpriv);
    let scene = Scene::new();
    scene.src.file("clips/one", "one").file("clips/more/two", "two").file("top", "top");
    shell(&scene, "chmod -R a+rX . src; mkdir dst; chown 65534:65534 dst");
    scene.command(NONE).under_nobody().run().assert_code(0);
    shell(&scene, "echo own > dst/clips/own; chown 65534:65534 dst/clips/own");
    let was = || shell(&scene, "find dst/clips -printf '%p %m %U %G\\n' | sort");
    let before = was();
    for args in [&["-n"][..], &[], &[], &["--overwrite-policy", "never"], &["--hash", "none"]] {
        let run = scene.copy(args);
        run.assert_code(1);
        let told = format!("{}{}", run.out(), run.err());
        assert!(told.contains("clips: it is another user's"), "{args:?}: {told}");
        assert!(!told.contains("clips/"), "{args:?}: {told}");
        assert_eq!(was(), before, "{args:?}: {told}");
    }
    // Also of what a list names below.
    std::fs::write(scene.path("names"), "clips/more/two\n").unwrap();
    let run = scene.copy(&["--files-from", "names"]);
    run.assert_code(1).assert_says("it is another user's");
    assert_eq!(was(), before, "{}", run.err());
    scene.command(NONE).under_nobody().run().assert_code(0);
    shell(&scene, "rm dst/clips/own");
    scene.copy(&["--overwrite-policy", "update"]).assert_code(0);
    assert_eq!(label(&scene.dst.join("clips")), (0, 0o755));
}

/// … also where root's own runs keep records: what these have of their own directories says nothing of that one.
#[test]
fn a_directory_that_another_user_filled_stays_that_users() {
    need!(Root);
    let scene = Scene::new();
    scene.src.file("ours/file", "ours").file("theirs/sub/file", "theirs").file("top", "top");
    shell(&scene, "chmod -R a+rX . src; mkdir dst; cp -a src/theirs dst; chown -R 1001 dst/theirs");
    for _ in 0..2 {
        let run = scene.copy(&[]);
        run.assert_code(1).assert_says("left as it is: theirs: it is another user's");
        assert_eq!(
            shell(&scene, "stat -c '%u %a' dst/theirs dst/theirs/sub"),
            "1001 755\n1001 755\n"
        );
        run.assert_prints(&["left", "1 entry not as in the source"]);
    }
    // A directory of an earlier run is handed over as ever.
    shell(&scene, "chown 1002:1002 src/ours; chown 1001:1001 dst/ours");
    scene.copy(&[]).assert_code(1).assert_says("theirs");
    assert_eq!(label(&scene.dst.join("ours")), (1002, 0o755));
    scene.copy(&["--overwrite-policy", "update"]).assert_code(0);
    assert_eq!(label(&scene.dst.join("theirs")), (0, 0o755));
}

/// What was only carried from an earlier list does not make another user's directory this user's.
#[test]
fn a_directory_that_was_left_to_its_owner_is_left_again() {
    need!(Root);
    let scene = Scene::new();
    scene.src.file("Z/a", "x").file("y", "y");
    scene.copy(&[]).assert_code(0);
    shell(&scene, "chmod 755 dst; touch dst/Z/mine; chown -R 1001 dst/Z; rm -r dst/.dircopy");
    for _ in 0..3 {
        scene.copy(&[]).assert_code(1);
        assert_eq!(label(&scene.dst.join("Z")), (1001, 0o755));
    }
}
