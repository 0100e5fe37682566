//! Who holds a directory of the output open from a time when it was open to him reads nothing of what is put there
//! once it is closed.

use std::fs::{self, File};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::PathBuf;

use crate::harness::{Mount, NONE, Scene, Strace, content, need, shell};

/// A directory of the output, held open.
struct Held(File);

impl Held {
    fn open(scene: &Scene, name: &str) -> Self {
        Self(File::open(scene.dst.join(name)).unwrap())
    }

    /// What whoever holds it finds in it.
    fn names(&self) -> Vec<PathBuf> {
        let path = format!("/proc/self/fd/{}", self.0.as_raw_fd());
        fs::read_dir(path).map_or(Vec::new(), |all| all.map(|it| it.unwrap().path()).collect())
    }

    #[track_caller]
    fn gets_nothing(&self) {
        assert_eq!(self.names(), Vec::<PathBuf>::new());
    }
}

fn label(scene: &Scene, name: &str) -> (u32, u32, u32) {
    let stat = scene.dst.join(name).symlink_metadata().unwrap();
    (stat.uid(), stat.gid(), stat.mode() & 0o7777)
}

/// A directory with another in it, both open, which was copied.
fn open_directory() -> Scene {
    let scene = Scene::on_disk();
    scene.src.file("d/sub/deep/pub", "pub").file("d/top", "top").file("e", "e");
    shell(&scene, "chmod -R a+rX . src");
    scene.copy(&[]).assert_code(0);
    scene
}

/// What is closed at the source, in any way that closes it.
#[test]
fn a_directory_that_is_closed_is_made_anew_with_those_below() {
    need!(Root, Attr);
    for (open, close) in [
        ("true", "chmod 700 src/d"),
        ("true", "chmod 750 src/d"),
        ("chmod 750 src/d; chgrp 1002 src/d", "chgrp 0 src/d"),
        ("setfacl -m u:1002:rx src/d; chmod o= src/d", "setfacl -b src/d; chmod 700 src/d"),
        ("find src/d -type d | xargs chown 1001:1001", "chmod 700 src/d"),
        ("true", "chown 1001:1001 src/d; chmod 700 src/d"),
    ] {
        for args in [&[][..], &["--mirror"], &["--hash=none"], &["--no-sync"]] {
            // What nobody reads is given to nobody.
            if args == ["--hash=none"] && !(open == "true" && close.starts_with("chmod")) {
                continue;
            }
            let scene = open_directory();
            shell(&scene, open);
            scene.copy(args).assert_code(0);
            let held = ["d", "d/sub", "d/sub/deep"].map(|name| Held::open(&scene, name));
            shell(&scene, close);
            scene.src.file("d/sub/deep/key", "secret").file("d/sub/key", "secret");
            scene.copy(args).assert_code(0);
            held.iter().for_each(Held::gets_nothing);
            for name in ["d/sub/deep/key", "d/sub/deep/pub", "d/sub/key", "d/top"] {
                let [copy, source] = [scene.dst.join(name), scene.src.path(name)];
                assert_eq!(fs::read(copy).unwrap(), fs::read(source).unwrap(), "{close} {name}");
            }
            let look = |dir: &str| {
                shell(&scene, &format!("cd {dir}; stat -c '%n %u %g %a %Y' d d/sub d/sub/deep"))
            };
            assert_eq!(look("dst"), look("src"), "{close}");
            assert_eq!(shell(&scene, "find dst -name '*-part'"), "");
            // And so it stays.
            let id = || fs::metadata(scene.dst.join("d")).unwrap().ino();
            let before = id();
            scene.copy(args).assert_code(0);
            assert_eq!(id(), before);
        }
    }
}

/// What only the output has is as it was.
#[test]
fn what_is_not_of_the_source_keeps_its_label() {
    need!(Root, Attr);
    let scene = open_directory();
    let ours = "mkdir dst/d/ours; echo note > dst/d/ours/note; ln dst/d/ours/note dst/d/sub/note
                chmod 751 dst/d/ours; chown 5:6 dst/d/ours; setfattr -n user.x -v y dst/d/ours
                setfacl -m u:7:rx dst/d/ours; touch -d 2001-02-03 dst/d/ours; chmod 700 src/d";
    shell(&scene, ours);
    let look = "cd dst/d; stat -c '%u %g %a %Y' ours; getfattr -d ours; getfacl ours; cat ours/note
                stat -c '%i %h' ours/note sub/note";
    let (before, held) = (shell(&scene, look), Held::open(&scene, "d/ours"));
    scene.copy(&[]).assert_code(0);
    held.gets_nothing();
    assert_eq!(shell(&scene, look), before);
}

/// Who may write to the directory above gives an open directory the name of a closed one.
#[test]
fn an_open_directory_under_the_name_of_a_closed_one_is_made_anew() {
    need!(Root);
    let scene = Scene::on_disk();
    scene.src.dir("w/a/q").file("x", "x");
    shell(&scene, "chmod -R a+rX . src; chmod 777 src/w; chown -R 1001:1001 src/w/a");
    scene.copy(&[]).assert_code(0);
    shell(&scene, "rm -r src/w/a; mv dst/w/a dst/w/closed");
    scene.src.file("w/closed/q/key", "secret");
    shell(
        &scene,
        "chmod 755 src/w/closed/q; chmod 700 src/w/closed; chown -R 1001:1001 src/w/closed",
    );
    let held = Held::open(&scene, "w/closed/q");
    scene.copy(&[]).assert_code(0);
    held.gets_nothing();
    assert_eq!(label(&scene, "w/closed"), (1001, 1001, 0o700));
    assert_eq!(label(&scene, "w/closed/q"), (1001, 1001, 0o755));
    assert_eq!(fs::read(scene.dst.join("w/closed/q/key")).unwrap(), b"secret");
}

/// One that another user made was taken over when all was open.
#[test]
fn a_directory_that_was_taken_over_is_made_anew_when_it_is_closed() {
    need!(Root);
    let scene = Scene::on_disk();
    scene.src.file("d/sub/pub", "pub");
    shell(&scene, "chmod -R a+rX . src; mkdir -p dst/d/sub; chown -R 1002:1002 dst/d");
    let held = Held::open(&scene, "d/sub");
    scene.copy(&[]).assert_code(0);
    assert_eq!(held.names().len(), 1);
    shell(&scene, "chmod 700 src/d");
    scene.src.file("d/sub/key", "secret");
    scene.copy(&[]).assert_code(0);
    held.gets_nothing();
    assert_eq!(label(&scene, "d"), (0, 0, 0o700));
}

/// Who is named in an access list, or in the group, is kept out although all others may enter.
const DENIALS: [&str; 3] = [
    "setfacl -m u:1002:--- src/d",
    "setfacl -m g:1002:--x src/d",
    "chgrp 1002 src/d; chmod 705 src/d",
];

#[test]
fn what_is_denied_to_one_user_gets_into_no_directory_of_his() {
    need!(Root, Attr);
    for denial in DENIALS {
        let scene = Scene::on_disk();
        scene.src.file("d/sub/key", "secret").file("e", "e");
        shell(
            &scene,
            "chmod -R a+rX . src; mkdir -p dst/d/sub; chown -R 1002:1002 dst/d; chmod 755 dst",
        );
        shell(&scene, denial);
        let run = scene.copy(&[]);
        run.assert_code(1).assert_says("dst/d: it belongs to another user");
        assert_eq!(shell(&scene, "find dst/d -type f"), "", "{denial}");
        shell(&scene, "mv dst/d theirs");
        scene.copy(&[]).assert_code(0);
        assert_eq!(fs::read(scene.dst.join("d/sub/key")).unwrap(), b"secret");
        // It tells its name, and what is in it.
        let list = "stat -c %a $(ls dst/dircopy-*.sha256sum | tail -n 1)";
        assert_eq!(shell(&scene, list), "600\n", "{denial}");
    }
}

#[test]
fn a_directory_that_is_denied_to_one_user_is_made_anew() {
    need!(Root, Attr);
    for denial in DENIALS {
        let scene = open_directory();
        let held = ["d", "d/sub"].map(|name| Held::open(&scene, name));
        shell(&scene, denial);
        scene.src.file("d/sub/key", "secret");
        scene.copy(&[]).assert_code(0);
        held.iter().for_each(Held::gets_nothing);
        let look = |dir: &str| shell(&scene, &format!("cd {dir}; getfacl d; stat -c '%u %g %a' d"));
        assert_eq!(look("dst"), look("src"), "{denial}");
        let id = || fs::metadata(scene.dst.join("d")).unwrap().ino();
        let before = id();
        scene.copy(&[]).assert_code(0);
        assert_eq!(id(), before, "{denial}");
    }
}

/// A list that denies nobody what all others may does not stand in the way.
#[test]
fn an_access_list_that_only_grants_keeps_nobody_out() {
    need!(Root, Attr);
    let scene = Scene::on_disk();
    scene.src.file("d/sub/key", "key");
    shell(&scene, "chmod -R a+rX . src; setfacl -m u:1001:rwx src/d");
    shell(&scene, "mkdir -p dst/d/sub; chown -R 1002:1002 dst/d; chmod 755 dst");
    scene.copy(&[]).assert_code(0);
    assert_eq!(fs::read(scene.dst.join("d/sub/key")).unwrap(), b"key");
}

/// Neither is the payload of a bag.
#[test]
fn a_payload_that_is_closed_is_made_anew() {
    need!(Root);
    let scene = Scene::on_disk();
    scene.src.file("sub/pub", "pub");
    shell(&scene, "chmod -R a+rX . src");
    scene.copy(&["--bag"]).assert_code(0);
    let held = Held::open(&scene, "data/sub");
    shell(&scene, "chmod 700 src");
    scene.src.file("sub/key", "secret");
    scene.copy(&["--bag"]).assert_code(0);
    held.gets_nothing();
    assert_eq!(fs::read(scene.dst.join("data/sub/key")).unwrap(), b"secret");
}

/// A run that is killed in between leaves the sign by which the next one knows that there is more to do, and nothing
/// is lost.
#[test]
fn what_a_killed_run_began_to_make_anew_is_made_anew() {
    need!(Root, Strace);
    // One name moves for each file, and last that of the new directory.
    for when in 1..=6 {
        let scene = open_directory();
        shell(&scene, "echo ours > dst/d/sub/ours; chmod 700 src/d");
        let held = ["d", "d/sub", "d/sub/deep"].map(|name| Held::open(&scene, name));
        scene.src.file("d/sub/deep/key", "secret");
        let strace = Strace::inject(
            &scene,
            "renameat,renameat2,unlinkat",
            &format!("signal=KILL:when={when}"),
        );
        let run = strace.run(scene.command(NONE));
        assert!(strace.log().contains("killed by SIGKILL"), "{when}: {}", strace.log());
        drop(run);
        let run = scene.copy(&[]);
        run.assert_code(0);
        held.iter().for_each(Held::gets_nothing);
        for (name, text) in [("deep/key", "secret"), ("deep/pub", "pub"), ("ours", "ours\n")] {
            let copy = fs::read_to_string(scene.dst.join("d/sub").join(name)).unwrap();
            assert_eq!(copy, text, "{when}: {name}");
        }
        assert_eq!(label(&scene, "d"), (0, 0, 0o700));
        assert_eq!(label(&scene, "d/sub"), (0, 0, 0o755));
        assert_eq!(shell(&scene, "find dst -name '*-part'"), "", "{when}: {}", run.err());
    }
}

/// … also if the source is open again by then.
#[test]
fn what_a_killed_run_began_stays_closed_with_what_is_not_of_the_source() {
    need!(Root, Strace);
    let scene = open_directory();
    shell(&scene, "echo ours > dst/d/sub/ours; chmod 700 src/d");
    let strace = Strace::inject(&scene, "renameat,renameat2", "signal=KILL:when=2");
    strace.run(scene.command(NONE));
    assert!(strace.log().contains("killed by SIGKILL"), "{}", strace.log());
    assert_ne!(shell(&scene, "find dst -name '*-part'"), "");
    shell(&scene, "chmod 755 src/d");
    scene.copy(&[]).assert_code(1).assert_says("so it stays closed to others");
    assert_eq!(shell(&scene, "cat dst/d/sub/ours dst/d/sub/deep/pub dst/d/top"), "ours\npubtop");
    assert_eq!(shell(&scene, "find dst -name '*-part'"), "");
    assert_eq!(label(&scene, "d"), (0, 0, 0o700));
    shell(&scene, "mv dst/d/sub/ours .");
    scene.copy(&[]).assert_code(0);
    assert_eq!(label(&scene, "d"), (0, 0, 0o755));
}

/// Nothing leaves a directory before it is closed: who holds it open would rename what is in it, or take its names.
#[test]
fn a_directory_is_closed_before_anything_moves_out_of_it() {
    need!(Root, Strace);
    let scene = open_directory();
    shell(&scene, "chmod 1777 src/d src/d/sub");
    scene.copy(&[]).assert_code(0);
    shell(&scene, "chmod 700 src/d");
    let strace = Strace::watch(&scene, "fchmod,renameat,renameat2");
    strace.run(scene.command(NONE)).assert_code(0);
    let log = strace.log();
    let at = |call: &str, of: &str, what: &str| {
        let is_it = |line: &&str| line.contains(call) && line.contains(of) && line.contains(what);
        log.lines().position(|line| is_it(&line)).unwrap_or_else(|| panic!("{call} {of}: {log}"))
    };
    for (dir, file) in [("/dst/d>", "\"top\""), ("/dst/d/sub/deep>", "\"pub\"")] {
        assert!(at("fchmod(", dir, "4700") < at("renameat", dir, file), "{log}");
    }
    assert_eq!(label(&scene, "d/sub"), (0, 0, 0o1777));
}

/// What was moved goes into no directory that somebody put in the place of the one that it came from.
#[test]
fn a_killed_run_is_not_gone_on_with_in_another_directory() {
    need!(Root, Strace);
    let scene = open_directory();
    shell(&scene, "chmod 700 src/d");
    let strace = Strace::inject(&scene, "renameat,renameat2", "signal=KILL:when=2");
    strace.run(scene.command(NONE));
    assert!(strace.log().contains("killed by SIGKILL"), "{}", strace.log());
    shell(&scene, "mv dst/d dst/x; mkdir dst/d; chmod 777 dst/d; chown 1001 dst/d");
    let run = scene.copy(&[]);
    run.assert_code(1).assert_says("cannot go on making a directory anew as");
    assert_eq!(shell(&scene, "find dst/d -type f"), "");
    assert_ne!(shell(&scene, "find dst -path '*-part/*' -type f"), "");
    shell(&scene, "mv dst/d theirs; mv dst/x dst/d");
    scene.copy(&[]).assert_code(0);
    assert_eq!(
        shell(&scene, "cat dst/d/sub/deep/pub dst/d/top; find dst -name '*-part'"),
        "pubtop"
    );
}

/// However much is in a directory, a signal is heeded, and the next run goes on.
#[test]
fn a_run_that_is_stopped_is_gone_on_with() {
    need!(Root, Strace);
    let scene = open_directory();
    shell(
        &scene,
        "mkdir dst/d/many; cd dst/d/many; seq 300 | xargs mkdir; chmod 700 ../../../src/d",
    );
    // The one that goes on is stopped too.
    for _ in 0..2 {
        let strace = Strace::inject(&scene, "mkdirat", "signal=TERM:when=20");
        let run = strace.run(scene.command(NONE));
        run.assert_code(143);
        let made = strace.log().lines().filter(|line| line.contains("mkdirat(")).count();
        assert!((20..100).contains(&made), "{made} were made");
        assert_ne!(shell(&scene, "find dst -name '*-part'"), "");
    }
    scene.copy(&[]).assert_code(0);
    assert_eq!(shell(&scene, "ls dst/d/many | wc -l"), "300\n");
    assert_eq!(
        shell(&scene, "cat dst/d/sub/deep/pub dst/d/top; find dst -name '*-part'"),
        "pubtop"
    );
}

/// One that cannot be made anew gets nothing that is closed, and stays as it was.
#[test]
fn a_directory_that_cannot_be_made_anew_gets_nothing() {
    need!(Root, Mount);
    let scene = open_directory();
    scene.src.file("d/more/key", "secret").file("d/sub/key", "secret");
    shell(&scene, "mkdir -p dst/d/more dst/d/a/b; echo ours > dst/d/a/b/ours; chmod 700 src/d");
    let mount = Mount::tmpfs(&scene.dst.join("d/more"), "1m");
    let names = || shell(&scene, "cd dst; find d -printf '%p %m %u\\n' | sort");
    let (was, held) = (names(), Held::open(&scene, "d/sub"));
    let run = scene.copy(&[]);
    run.assert_code(1)
        .assert_says("dst/d: ")
        .assert_says("cannot be made anew")
        .assert_says("run again");
    run.assert_prints(&["NOT COMPLETE"]);
    assert_eq!(names(), was, "{}", run.err());
    assert!(!held.names().iter().any(|name| name.ends_with("key")));
    // As the message says: whoever trusts those who may hold it open closes it.
    shell(&scene, "chmod 700 dst/d");
    scene.copy(&[]).assert_code(0);
    drop(mount);
}

/// A user's own, who is not root.
#[test]
fn a_user_makes_a_directory_anew() {
    need!(Root, Setpriv);
    let scene = Scene::on_disk();
    scene.src.file("d/sub/pub", content(5000)).file("d/tight/file", "file");
    shell(
        &scene,
        "chmod -R a+rX src; chmod 777 .; chmod 500 src/d/tight; chown -R 65534:65534 src",
    );
    scene.command(NONE).under_nobody().run().assert_code(0);
    let held = ["d", "d/sub", "d/tight"].map(|name| Held::open(&scene, name));
    fs::set_permissions(scene.src.path("d"), fs::Permissions::from_mode(0o700)).unwrap();
    scene.src.file("d/sub/key", "secret");
    shell(&scene, "chown -R 65534:65534 src");
    scene.command(NONE).under_nobody().run().assert_code(0);
    held.iter().for_each(Held::gets_nothing);
    assert_eq!(label(&scene, "d").2, 0o700);
    assert_eq!(label(&scene, "d/tight").2, 0o500);
    assert_eq!(fs::read(scene.dst.join("d/sub/key")).unwrap(), b"secret");
}

/// A run closes a directory in place that is to be opened further. If it does not come to that, the directory shows it,
/// and gets nothing that is closed by then but anew.
#[test]
fn what_a_run_closed_in_place_is_made_anew_when_it_is_closed() {
    need!(Root, Strace);
    let killed = |scene: &Scene| {
        shell(scene, "chmod 777 src/d");
        let strace = Strace::inject(scene, "fchown", "signal=KILL:when=2");
        strace.run(scene.command(NONE));
        assert!(strace.log().contains("killed by SIGKILL"), "{}", strace.log());
    };
    let stayed = |scene: &Scene| {
        shell(scene, "rm src/d/top; chown 1002:1002 src/d");
        scene.copy(&[]).assert_code(1).assert_says("so it stays closed to others");
        shell(scene, "rm dst/d/top");
    };
    let stayed_twice = |scene: &Scene| {
        stayed(scene);
        shell(scene, "chown 0:0 src/d; echo > dst/d/ours");
        scene.copy(&[]).assert_code(1).assert_says("so it stays closed to others");
    };
    let planned = |scene: &Scene| {
        shell(scene, "chmod 777 src/d");
        scene.bare(["plan", "-q", "src", "dst", "--plan", "plan"]).run().assert_code(0);
    };
    type Close<'a> = &'a dyn Fn(&Scene);
    let ways: [Close<'_>; 4] = [&killed, &stayed, &stayed_twice, &planned];
    for (way, close) in ways.into_iter().enumerate() {
        let scene = open_directory();
        let held = Held::open(&scene, "d/sub");
        let names = held.names().len();
        close(&scene);
        assert_eq!(label(&scene, "d").2 & 0o077, 0, "{way}");
        assert_eq!(held.names().len(), names, "{way}");
        shell(&scene, "chmod 700 src/d");
        scene.src.file("d/sub/key", "secret");
        scene.copy(&[]).assert_code(0);
        held.gets_nothing();
        assert_eq!(label(&scene, "d").2, 0o700, "{way}");
        let id = || fs::metadata(scene.dst.join("d")).unwrap().ino();
        let before = id();
        scene.copy(&[]).assert_code(0);
        assert_eq!(id(), before, "{way}");
    }
}

/// Services may be kept from setting set-user-ID bits.
#[test]
fn another_sign_does_where_the_first_is_refused() {
    need!(Root, Strace);
    let scene = open_directory();
    let held = Held::open(&scene, "d/sub");
    shell(&scene, "rm src/d/top; chown 1002:1002 src/d");
    let strace =
        Strace::inject(&scene, "fchmod", "error=EPERM:when=1").exactly_on(scene.dst.join("d"));
    let run = strace.run(scene.command(NONE));
    strace.fired(&run);
    run.assert_code(1).assert_says("so it stays closed to others");
    assert_eq!(label(&scene, "d"), (0, 0, 0o1700));
    shell(&scene, "rm dst/d/top; chown 0:0 src/d; chmod 700 src/d");
    scene.src.file("d/sub/key", "secret");
    scene.copy(&[]).assert_code(0);
    held.gets_nothing();
}

/// The owner is changed before the permissions, and a run may be killed in between.
#[test]
fn a_directory_that_changed_hands_shows_it_at_once() {
    need!(Root, Strace);
    let scene = open_directory();
    shell(&scene, "chown 1001:1001 src/d; chmod 700 src/d");
    scene.copy(&[]).assert_code(0);
    let held = Held::open(&scene, "d/sub");
    shell(&scene, "chown 0:0 src/d; chmod 755 src/d");
    let strace = Strace::inject(&scene, "fchmod", "signal=KILL:when=2");
    strace.exactly_on(scene.dst.join("d")).run(scene.command(NONE));
    assert_eq!(label(&scene, "d").0, 0);
    shell(&scene, "chmod 700 src/d");
    scene.src.file("d/sub/key", "secret");
    scene.copy(&[]).assert_code(0);
    held.gets_nothing();
}

/// A directory of the source that has the sign itself is a directory like any, but for that.
#[test]
fn a_directory_with_the_sign_at_the_source_is_left_as_it_is() {
    need!(Root);
    let scene = open_directory();
    shell(&scene, "chmod 4700 src/d; chmod 4755 src/d/sub");
    scene.copy(&[]).assert_code(0);
    let id = || ["d", "d/sub"].map(|name| fs::metadata(scene.dst.join(name)).unwrap().ino());
    let before = id();
    scene.copy(&[]).assert_code(0);
    assert_eq!(id(), before);
    assert_eq!((label(&scene, "d").2, label(&scene, "d/sub").2), (0o700, 0o4755));
}

/// An access list is gone, or names another, and the permissions are as they were.
#[test]
fn a_directory_is_made_anew_when_its_access_list_lets_in_others() {
    need!(Root, Attr);
    for close in ["setfacl -b src/d; chmod 750 src/d", "setfacl -x u:1001 -m u:1002:rx src/d"] {
        for plan in [false, true] {
            let scene = Scene::on_disk();
            scene.src.file("d/sub/pub", "pub").file("e", "e");
            shell(&scene, "chmod -R a+rX . src; chmod 750 src/d; setfacl -m u:1001:rx src/d");
            scene.copy(&[]).assert_code(0);
            let held = Held::open(&scene, "d/sub");
            shell(&scene, close);
            scene.src.file("d/sub/key", "secret");
            match plan {
                false => _ = scene.copy(&[]).assert_code(0),
                true => {
                    scene.bare(["plan", "-q", "src", "dst", "--plan", "plan"]).run().assert_code(0);
                    scene.bare(["shard", "-q", "--plan", "plan", "--claim"]).run().assert_code(0);
                    scene.bare(["finish", "-q", "--plan", "plan"]).run().assert_code(0);
                }
            }
            held.gets_nothing();
            let look = |dir: &str| shell(&scene, &format!("cd {dir}; getfacl d; cat d/sub/key"));
            assert_eq!(look("dst"), look("src"), "{close}");
        }
    }
}

/// A directory that is moved to where fewer may go while the run is in it is not copied on to where it was.
#[test]
fn what_is_moved_into_a_closed_directory_gets_nothing_more() {
    need!(Root, Strace);
    let scene = Scene::on_disk();
    scene.src.file("d/sub/pub", "pub").file("closed/x", "x");
    shell(&scene, "chmod -R a+rX . src; chmod 700 src/closed");
    let strace = Strace::inject(&scene, "getdents64", "signal=STOP:when=1")
        .exactly_on(scene.src.path("d/sub"));
    let run = strace.run_stopped(scene.command(NONE), || {
        shell(
            &scene,
            "mv src/d src/closed/d; mkdir src/closed/d/sub/more; touch src/closed/d/sub/more/key",
        );
    });
    run.assert_code(1).assert_says("it was moved, or its owner");
    assert_eq!(shell(&scene, "find dst/d -name key"), "");
    assert_eq!(label(&scene, "d").2 & 0o077, 0);
    scene.copy(&[]).assert_code(0);
    assert_eq!(shell(&scene, "find dst -name key"), "dst/closed/d/sub/more/key\n");
}

/// … nor the rest of a large file that is being read then.
#[test]
fn a_large_file_is_not_copied_out_of_a_directory_that_was_closed() {
    need!(Root, Strace);
    for (close, file) in [
        ("chmod 700 src/d", "src/d/sub/film"),
        ("mkdir -m 700 src/closed; mv src/d src/closed/d", "src/closed/d/sub/film"),
    ] {
        let scene = Scene::on_disk();
        scene.src.file("d/sub/film", content(20_000_000));
        shell(&scene, "chmod -R a+rX . src");
        let strace = Strace::inject(&scene, "read,pread64", "signal=STOP:when=3")
            .exactly_on(scene.src.path("d/sub/film"));
        let run = strace.run_stopped(scene.command(NONE), || {
            shell(&scene, &format!("{close}; printf secret | dd of={file} seek=10000000 bs=1 conv=notrunc status=none"));
        });
        assert!(strace.log().contains("stopped by SIGSTOP"), "{}", strace.log());
        run.assert_code(1).assert_says("moved or closed to others meanwhile");
        assert_eq!(shell(&scene, "find dst -name film"), "", "{close}");
        scene.copy(&[]).assert_code(0);
        assert_eq!(
            label(&scene, file.strip_prefix("src/").unwrap().strip_suffix("/sub/film").unwrap()).2
                & 0o077,
            if close.starts_with("mkdir") { 0o055 } else { 0 }
        );
    }
}

/// What was read last may have been written when the directory was closed: its copy stays closed, also where only an
/// access list says so.
#[test]
fn a_directory_that_was_closed_while_its_last_file_was_read_is_not_opened() {
    need!(Root, Strace, Attr);
    for close in ["chmod 700 src/d", "setfacl -m u:1003:rx,g::---,m::rx src/d"] {
        let scene = Scene::on_disk();
        scene.src.file("d/film", content(3_000_000));
        shell(
            &scene,
            "chmod a+rx . src; chgrp 1002 src/d; chmod 750 src/d; chmod 640 src/d/film; chgrp 1002 src/d/film",
        );
        let strace = Strace::inject(&scene, "read,pread64", "signal=STOP:when=3")
            .exactly_on(scene.src.path("d/film"));
        let run = strace.run_stopped(scene.command(["-j1", "--block-size", "64K"]), || {
            let edit =
                "printf secret | dd of=src/d/film seek=2999000 bs=1 conv=notrunc status=none";
            shell(&scene, &format!("{close}; {edit}"));
        });
        assert!(strace.log().contains("stopped by SIGSTOP"), "{}", strace.log());
        assert_eq!(label(&scene, "d").2 & 0o077, 0, "{close}: {}", run.err());
        run.assert_code(1).assert_says("meanwhile");
        scene.copy(&[]).assert_code(0);
        assert_eq!(shell(&scene, "cd src && getfacl d"), shell(&scene, "cd dst && getfacl d"));
    }
}

/// What is put into a directory of the source after that was closed is not copied into its open counterpart.
#[test]
fn what_is_closed_while_it_is_copied_gets_nothing_more() {
    need!(Root, Strace);
    for is_there in [true, false] {
        for close in
            ["chmod 700 src/d", "chmod 700 src/d; chown 1001 src/d", "setfacl -m u:1002:--- src/d"]
        {
            let scene = Scene::on_disk();
            scene.src.file("d/sub/pub", "pub").file("e", "e");
            shell(&scene, "chmod -R a+rX . src");
            if is_there {
                scene.copy(&[]).assert_code(0);
            }
            let held = is_there.then(|| Held::open(&scene, "d/sub"));
            let strace = Strace::inject(&scene, "getdents64", "signal=STOP:when=1")
                .exactly_on(scene.src.path("d/sub"));
            let run = strace.run_stopped(scene.command(NONE), || {
                shell(&scene, close);
                // The call that stopped it has listed what was there.
                scene.src.file("d/later/key", "secret").file("d/sub/more/key", "secret");
            });
            run.assert_code(1).assert_says("were changed, meanwhile");
            assert!(strace.log().contains("stopped by SIGSTOP"), "{}", strace.log());
            assert_eq!(shell(&scene, "find dst -name key"), "", "{close}");
            assert_eq!(label(&scene, "d").2 & 0o077, 0, "{close}");
            scene.copy(&[]).assert_code(0);
            held.iter().for_each(Held::gets_nothing);
            let look = |dir: &str| shell(&scene, &format!("cd {dir}; getfacl d; stat -c %a d"));
            assert_eq!(look("dst"), look("src"), "{close}");
            assert_eq!(shell(&scene, "cat dst/d/sub/more/key dst/d/later/key"), "secretsecret");
        }
    }
}

/// … and so where that is the source itself: a new output is open to nobody else before all is in it.
#[test]
fn what_is_put_into_a_source_that_was_closed_is_not_shown() {
    need!(Root, Strace);
    for close in ["chmod 700 src", "mkdir -m 700 closed; mv src closed/src; ln -s closed/src src"] {
        let scene = Scene::on_disk();
        scene.src.file("d/sub/pub", "pub").file("e", "e");
        shell(&scene, "chmod -R a+rX . src");
        let strace = Strace::inject(&scene, "getdents64", "signal=STOP:when=1")
            .exactly_on(scene.src.path("d/sub"));
        let run = strace.run_stopped(scene.command(NONE), || {
            shell(&scene, close);
            scene.src.file("d/later/key", "secret").file("d/sub/more/key", "secret");
        });
        assert!(strace.log().contains("stopped by SIGSTOP"), "{}", strace.log());
        run.assert_code_in(&[1, 3]).assert_says("moved");
        assert_eq!(label(&scene, "").2 & 0o077, 0, "{close}");
        shell(&scene, "test ! -L src || { rm src; mv closed/src src; }");
        // The next run is of the source as it is now.
        scene.copy(&[]).assert_code(0);
        assert_eq!(label(&scene, "").2, fs::metadata(scene.src.root()).unwrap().mode() & 0o7777);
    }
}

/// A dry run that comes upon it changes nothing.
#[test]
fn a_dry_run_closes_nothing() {
    need!(Root, Strace);
    let scene = open_directory();
    let strace = Strace::inject(&scene, "getdents64", "signal=STOP:when=1")
        .exactly_on(scene.src.path("d/sub"));
    let run = strace.run_stopped(scene.command(["--dry-run"]), || {
        shell(&scene, "chmod 700 src/d");
    });
    assert!(strace.log().contains("stopped by SIGSTOP"), "{}", strace.log());
    run.assert_says("were changed, meanwhile");
    assert_eq!(label(&scene, "d").2, 0o755);
}

/// The owner's own copy has another group: what root's copy may not hand over stays the owner's.
#[test]
fn a_directory_with_another_group_stays_its_owners() {
    need!(Root, Setpriv);
    for policy in ["default", "never"] {
        let scene = Scene::new();
        scene.src.file("d/c", "c");
        shell(&scene, "mkdir -m 1777 dst; chmod 755 . src/d; chown -R nobody:root src");
        scene.command(["-q"]).under_nobody().run().assert_code(0);
        let label = || shell(&scene, "stat -c '%U:%g %a' dst/d");
        let before = label();
        let run = scene.copy(&["--overwrite-policy", policy]);
        run.assert_code(1).assert_says("cannot give its owner and permissions to");
        assert_eq!(label(), before, "{policy}");
    }
}

/// Whoever owns a directory gives it an access list for new entries, and takes it away before anybody looks for it.
#[test]
fn a_list_that_was_given_for_a_moment_lets_nobody_in() {
    need!(Root, Strace, Setpriv);
    let scene = Scene::new();
    scene.src.file("u/closed/key", "SECRET");
    let prepare = "mkdir -p dst/u; chmod 755 . src dst; chmod 750 src/u/closed; chown nobody:nogroup src/u dst/u";
    shell(&scene, &format!("{prepare}; setfacl -d -m u:nobody:rwx dst/u"));
    let strace = Strace::inject(&scene, "mkdir,mkdirat", "signal=SIGSTOP").on("dst/u/closed");
    let run = strace.run_stopped(scene.command(["--overwrite-policy", "update"]), || {
        shell(&scene, "setfacl -k dst/u");
    });
    run.assert_code(0);
    let read =
        "setpriv --reuid=65534 --regid=65534 --clear-groups cat dst/u/closed/key 2>&1 || true";
    assert!(!shell(&scene, read).contains("SECRET"), "{}", shell(&scene, "getfacl dst/u/closed"));
}

/// A manifest that its group may read is not read by those whom a list of the output lets into new files.
#[test]
fn a_manifest_has_no_list_of_its_directory() {
    need!(Root, Setpriv);
    let formats = ["bsd", "dirs", "sides", "mhl"].map(|format| ["--format", format]);
    for args in [&[][..], &["--bag"]].into_iter().chain(formats.iter().map(|it| &it[..])) {
        let scene = Scene::new();
        scene.src.file("closed/tim-is-dismissed", "yes");
        shell(
            &scene,
            "mkdir dst; chmod 755 . src dst; chmod 750 src/closed; setfacl -d -m u:nobody:rwx,m::rwx dst",
        );
        scene.copy(args).assert_code(0);
        let read = "setpriv --reuid=65534 --regid=65534 --clear-groups grep -r dismissed dst 2>/dev/null || true";
        assert_eq!(shell(&scene, read), "", "{args:?}");
    }
}

/// FIFOs and devices too: what their directory gives them would count by their own permissions.
#[test]
fn a_special_file_has_no_list_of_its_directory() {
    need!(Root, Setpriv);
    let scene = Scene::new();
    let prepare =
        "mkdir -p src/u dst/u; mkfifo src/u/fifo; mknod src/u/disk b 7 250; chmod 660 src/u/*";
    let lists = "chown nobody:nogroup src/u dst/u; setfacl -d -m u:nobody:rwx,m::rwx dst/u";
    shell(&scene, &format!("chmod 755 .; {prepare}; chmod 755 src dst; {lists}"));
    scene.copy(&["--specials"]).assert_code(0);
    for name in ["fifo", "disk"] {
        let list = shell(&scene, &format!("getfacl -p dst/u/{name}"));
        assert!(!list.contains("user:nobody"), "{list}");
    }
}
