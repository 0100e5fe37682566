//! What is left over of the source that was: attributes that somebody gave a copy, what became of a file that is one no
//! more, entries that cannot be removed.

use std::path::PathBuf;

use crate::harness::{Act, Habit, Mirror, Mount, Run, Scene, Strace, content, need, shell};

/// An output on a file system of this kind.
fn scene(kind: &str) -> (Scene, Mount) {
    Mount::privately();
    let scene = Scene::new();
    let mount = Mount::of_kind(kind, &scene.path("image"), &scene.dst);
    (scene, mount)
}

/// A night after which nothing is in doubt.
fn night(scene: &Scene) -> Run {
    std::thread::sleep(std::time::Duration::from_millis(30));
    scene.copy(&["--generations"])
}

fn newest(scene: &Scene) -> PathBuf {
    let all = shell(scene, "ls -d dst/20*Z | tail -1");
    scene.path(all.trim())
}

/// All attributes and access lists below a directory, but for what dircopy keeps there.
fn labels(root: &std::path::Path) -> String {
    let script = "cd \"$0\" && find . \\( -name .dircopy -o -name 'dircopy-*' \\) -prune -o -print | sort | \
                  while read -r it; do getfacl -c \"$it\"; getfattr -d -m '^user|^security' \"$it\"; getcap \"$it\"; done";
    let output =
        std::process::Command::new("bash").args(["-ec", script]).arg(root).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn attributes_that_somebody_gave_a_copy_are_not_shared_on() {
    need!(Root, Mount, Loop, Kinds, Attr);
    for kind in ["ext4", "xfs", "btrfs"] {
        let (scene, _mount) = scene(kind);
        for name in ["d/list", "d/attribute", "d/capability", "d/other", "moved"] {
            scene.src.file(name, content(10_000));
        }
        scene.src.dir("empty").xattr("moved", "user.dropped", b"x").xattr(
            "d",
            "user.dropped",
            b"x",
        );
        shell(&scene, "setfacl -m u:1:rwx,d:u:1:rwx src/empty");
        night(&scene).assert_code(0);
        assert_eq!(labels(&newest(&scene)), labels(scene.src.root()), "{kind}");
        shell(
            &scene,
            "cd dst/latest && setfacl -m u:65534:rw d/list && setfattr -n user.x -v y d/attribute
             setcap cap_net_raw+ep d/capability
             setfattr -n user.z -v z d . && setfacl -m u:65534:rwx empty",
        );
        // What the source drops its next generation does not have.
        shell(
            &scene,
            "cd src && setfacl -b empty && setfattr -x user.dropped d
             setfattr -x user.dropped moved && mv moved renamed",
        );
        let given = labels(&newest(&scene));
        night(&scene).assert_code(0);
        assert_eq!(labels(&newest(&scene)), labels(scene.src.root()), "{kind}");
        let older = shell(&scene, "ls -d dst/20*Z | head -1");
        assert_eq!(labels(&scene.path(older.trim())), given, "{kind}");
    }
}

#[test]
fn what_became_a_fifo_a_socket_or_a_device_has_left() {
    need!(Root, Device);
    let scene = Scene::new();
    for name in ["fifo", "socket", "device", "tree/a", "tree/b", "stays"] {
        scene.src.file(name, content(100));
    }
    scene.src.symlink("link", "stays");
    scene.copy(&["--mirror"]).assert_code(0);
    std::fs::write(scene.dst.join("foreign"), "of others").unwrap();
    shell(&scene, "cd src && rm -r fifo socket device tree link");
    scene
        .src
        .fifo("fifo")
        .socket("socket")
        .device("device")
        .fifo("tree")
        .fifo("link")
        .fifo("foreign");
    let dry = scene.copy(&["--mirror", "--max-delete=100%", "--dry-run"]);
    assert!(dry.err().contains("fifo"), "{}{}", dry.out(), dry.err());
    let run = scene.copy(&["--mirror", "--max-delete=100%"]);
    run.assert_code(0)
        .assert_prints(&["removed", "6 entries"])
        .assert_prints(&["dropped", "5 lines"]);
    let left = shell(
        &scene,
        "cd dst && find . -path ./.dircopy-trash -prune -o -not -name '.dircopy*' -print | sort",
    );
    let left: Vec<_> = left.lines().filter(|it| !it.contains("dircopy")).collect();
    assert_eq!(left, [".", "./foreign", "./stays"]);
    let trash = shell(&scene, "cd dst/.dircopy-trash/* && find . -type f -o -type l | sort");
    assert_eq!(
        trash.lines().collect::<Vec<_>>(),
        ["./device", "./fifo", "./link", "./socket", "./tree/a", "./tree/b"]
    );
    shell(&scene, "cd dst && sha256sum -c --strict --quiet $(ls dircopy-*.sha256sum | tail -1)");
    let run = scene.copy(&["--mirror"]);
    run.assert_code(0);
    assert!(!run.out().contains("removed"), "{}", run.out());
}

#[test]
fn a_directory_with_the_name_of_a_manifest_is_none() {
    need!(Root, Mount, Loop, Kinds);
    const NAME: &str = "dircopy-20200101T000000Z.sha256sum";
    let scene_of_mirror = Scene::new();
    scene_of_mirror.src.file(format!("{NAME}/x"), "x").file("y", "y").file("z", "z");
    let mirror = || scene_of_mirror.copy(&["--mirror"]);
    mirror().assert_code(0);
    assert!(scene_of_mirror.dst.join(NAME).join("x").exists());
    shell(&scene_of_mirror, &format!("rm -r src/{NAME}"));
    mirror().assert_code(0);
    assert!(!scene_of_mirror.dst.join(NAME).exists());
    for kind in ["ext4", "btrfs"] {
        let (scene, _mount) = scene(kind);
        scene.src.file(format!("{NAME}/x"), "x").file("y", "y").file("z", "z");
        night(&scene).assert_code(0);
        assert!(newest(&scene).join(NAME).join("x").exists());
        shell(&scene, &format!("rm -r src/{NAME}"));
        night(&scene).assert_code(0);
        assert!(!newest(&scene).join(NAME).exists(), "{kind}");
    }
}

#[test]
fn what_is_protected_at_the_output_is_named_with_what_helps() {
    need!(Root, Mount, Loop, Kinds);
    // By hard links the rest is shared all the same.
    let (scene, mount) = scene("ext4");
    scene.src.file("protected", "p").file("d/a", "a").file("d/b", "b");
    night(&scene).assert_code(0);
    shell(&scene, "chattr +i dst/latest/protected");
    let run = night(&scene);
    shell(&scene, "chattr -i dst/20*Z/protected");
    run.assert_code(0)
        .assert_prints(&["copied", "1 file"])
        .assert_prints(&["unchanged", "2 files"]);
    drop(mount);
}

/// A snapshot has what protects, too. Root takes it away there; for anyone else it is named with what helps.
#[test]
fn what_is_protected_in_the_last_generation_is_not_in_the_next() {
    need!(Root, Mount, Loop, Kinds, Strace, Setpriv);
    let is_protected = |scene: &Scene, path: &str| {
        let flags = shell(scene, &format!("lsattr -d {path}"));
        flags.split(' ').next().unwrap().contains(['i', 'a'])
    };
    let changes = [
        ("+i dst/latest/d/a", "touch -d @1 src/d/a"),
        ("+i dst/latest/d", "touch -d @1 src/d/a; echo more >src/d/more"),
        ("+i dst/latest/d", "rm -r src/d"),
        ("-R +i dst/latest/d", "rm -r src/d; echo file >src/d"),
        ("-R +a dst/latest/", "rm src/d/a"),
        ("-R +i dst/latest/", "echo more >src/d/more"),
        ("+i dst/latest/", "true"),
        ("+i dst/latest/.dircopy", "true"),
    ];
    let (scene, _mount) = scene("btrfs");
    for (protect, change) in changes {
        for killed in [false, true] {
            shell(&scene, "rm -rf src/d");
            scene.src.file("d/a", "a").file("d/b/c", "c").file("b", "b");
            shell(&scene, "touch src/other-{1..9}");
            night(&scene).assert_code(0);
            let last = newest(&scene);
            shell(&scene, &format!("chattr {protect}; {change}"));
            let before = shell(&scene, "cd dst/latest && lsattr -Ra .");
            if killed {
                let strace = Strace::inject(&scene, "renameat,renameat2", "signal=KILL:when=1");
                let run = strace.run(scene.command(["--generations"]));
                assert_ne!(run.code, Some(0), "{protect}");
            }
            let run = night(&scene);
            let after = shell(&scene, &format!("cd {} && lsattr -Ra .", last.display()));
            assert_eq!(before, after, "{protect}");
            shell(&scene, &format!("chattr -R -i -a {}", last.display()));
            run.assert_code(0);
            shell(&scene, "diff -r -x .dircopy -x 'dircopy-*' src dst/latest/");
            shell(&scene, "ls dst/latest/dircopy-*.sha256sum | wc -l | grep -qx 1");
            for path in ["dst/latest/", "dst/latest/d", "dst/latest/.dircopy", "dst/latest/b"] {
                assert!(!scene.path(path).exists() || !is_protected(&scene, path), "{protect}");
            }
        }
    }
    shell(&scene, "chown -R 65534 src dst; chmod 755 .");
    let night = || scene.command(["--generations"]).under_nobody().run();
    for (name, told) in
        [("d/a", "; it is protected: chattr -i -a removes that"), ("d", "; the directory")]
    {
        scene.src.file("d/a", "a").file("b", "b");
        shell(&scene, "chown -R 65534 src");
        night().assert_code(0);
        shell(&scene, &format!("chattr +i dst/latest/{name}; touch -d @1 src/d/a"));
        // Of the snapshot, and of the tree that the first of them left.
        for _ in 0..2 {
            let run = night();
            assert_ne!(run.code, Some(0));
            run.assert_says(".part/d/a: ").assert_says(told);
        }
        shell(&scene, "chattr -R -i dst/20*.part");
        night().assert_code(0);
        shell(&scene, "chattr -R -i dst/20*");
    }
}

#[test]
fn a_source_that_cannot_be_asked_for_its_file_system_is_no_other() {
    need!(Mount, Strace);
    Mount::privately();
    let scene = Scene::new();
    // Which has no number.
    shell(&scene, "mount -t ramfs none src");
    let no_descriptor = || {
        let strace = Strace::inject(&scene, "openat,openat2", "error=EMFILE");
        strace.exactly_on("/proc/self/mountinfo")
    };
    for i in 0..10 {
        scene.src.file(format!("{i}"), "x");
    }
    let strace = no_descriptor();
    let run = strace.run(scene.command(["--mirror"]));
    run.assert_code(0);
    strace.fired(&run);
    scene.src.remove("1");
    scene.copy(&["--mirror"]).assert_code(0);
    // Now it is known.
    scene.src.remove("2");
    let strace = no_descriptor();
    let run = strace.run(scene.command(["--mirror"]));
    strace.fired(&run);
    run.assert_code(2).assert_says("the system does not tell which file system it is on");
    assert!(scene.dst.join("2").exists());
    scene.copy(&["--mirror"]).assert_code(0);
    assert!(!scene.dst.join("2").exists());
    shell(&scene, "umount src");
}

/// An edit that keeps size and time, of a file whose copy is in doubt or of which nothing is recorded.
#[test]
fn an_edit_is_seen_whatever_happened_to_the_copy() {
    const EDIT: &str =
        "touch -r src/a time; printf EDITED | dd of=src/a conv=notrunc; touch -r time src/a";
    const TOUCH: &str = "chmod 600 dst/a; chmod 644 dst/a";
    for change in [
        format!("{EDIT}; sleep 0.05; {TOUCH}"),
        format!("{TOUCH}; sleep 0.05; {EDIT}"),
        format!("rm -r dst/.dircopy; {EDIT}"),
        format!("rm -r dst/.dircopy dst/dircopy-*; {EDIT}"),
    ] {
        let scene = Scene::on_disk();
        scene.src.file("a", content(100_000)).file("b", "b").mode("a", 0o644);
        scene.copy(&["--mirror"]).assert_code(0);
        std::thread::sleep(std::time::Duration::from_millis(50));
        shell(&scene, &change);
        scene.copy(&["--mirror"]).assert_code(0);
        assert!(scene.src.read("a") == scene.output().read("a"), "{change}");
    }
}

/// Under `--no-links` the old file stayed, and was listed for ever.
#[test]
fn what_became_a_link_that_is_not_copied_has_left() {
    let scene = Scene::new();
    for name in ["file", "tree/a", "mixed/a", "stays", "to/x"] {
        scene.src.file(name, content(100));
    }
    scene.src.symlink("link", "stays");
    scene.copy(&["--mirror"]).assert_code(0);
    std::fs::write(scene.dst.join("mixed/foreign"), "of others").unwrap();
    shell(
        &scene,
        "cd src && rm -r file tree mixed && ln -s stays file && ln -s to tree && ln -s to mixed",
    );
    let dry = scene.copy(&["--mirror", "--no-links", "--max-delete=100%", "--dry-run"]);
    dry.assert_code(0).assert_prints(&["to remove", "3 entries"]);
    let run = scene.copy(&["--mirror", "--no-links", "--max-delete=100%"]);
    run.assert_code(0)
        .assert_prints(&["removed", "3 entries"])
        .assert_prints(&["dropped", "3 lines"]);
    let left =
        "cd dst && find . -path './.dircopy*' -prune -o -not -name 'dircopy-*' -print | sort";
    let whole = ". ./link ./mixed ./mixed/foreign ./stays ./to ./to/x";
    assert_eq!(shell(&scene, left).lines().collect::<Vec<_>>().join(" "), whole);
    shell(&scene, "cd dst && sha256sum -c --strict --quiet $(ls dircopy-*.sha256sum | tail -1)");
    let run = scene.copy(&["--mirror", "--no-links"]);
    run.assert_code(0);
    assert!(!run.out().contains("removed"), "{}", run.out());
}

/// A default access list that a directory of the unfinished tree was given went over to the clones that were put there.
#[test]
fn an_unfinished_tree_gives_no_access_lists() {
    need!(Root, Mount, Loop, Kinds, Attr, Strace);
    for kind in ["ext4", "xfs", "btrfs"] {
        let (scene, _mount) = scene(kind);
        for number in 0..6 {
            scene
                .src
                .file(format!("d/{number}"), content(10_000))
                .file(format!("d/e/{number}"), "x");
        }
        night(&scene).assert_code(0);
        scene.src.file("d/new", "new").file("d/e/new", "new");
        // On btrfs the tree is made by a snapshot.
        let strace = Strace::inject(&scene, "renameat,renameat2,linkat", "signal=KILL:when=4");
        let killed = strace.run(scene.command(["--generations"]));
        assert_ne!(killed.code, Some(0));
        shell(
            &scene,
            "cd dst/*.part && mkdir -p d/e && find d -type f -delete
             setfacl -m u:65534:rwx,d:u:65534:rwx d d/e",
        );
        night(&scene).assert_code(0);
        assert_eq!(labels(&newest(&scene)), labels(scene.src.root()), "{kind}");
        shell(&scene, "test -z \"$(ls -d dst/*.part 2>/dev/null)\"");
    }
}

/// On FAT and exFAT such an edit was never seen. (strace makes the file system look like FAT.)
#[test]
fn an_edit_is_seen_where_the_output_has_no_change_times() {
    need!(Fuse, Strace);
    let scene = Scene::new();
    scene.src.file("a", content(100_000)).file("b", "b");
    let truth = scene.tree("truth");
    let habits = &[Habit::HasNoChangeTimes];
    let _mirror = Mirror::with_habits(truth.root(), &scene.path("disk"), habits, |_| Act::Pass);
    let night = || {
        let fault = Strace::inject(&scene, "fstatfs", "poke_exit=@arg2=444d000000000000");
        let fault = fault.exactly_on(scene.path("disk/out"));
        let args = ["-i", "src", "-o", "disk/out", "--mirror", "--overwrite-policy=update"];
        let run = fault.run(scene.bare(args));
        fault.fired(&run);
        run.assert_code(0);
        run
    };
    night();
    night().assert_prints(&["unchanged", "2 files"]);
    for edit in ["EDITED", "AGAIN!"] {
        shell(
            &scene,
            &format!(
                "touch -r src/a time; printf {edit} | dd of=src/a conv=notrunc; touch -r time src/a"
            ),
        );
        night().assert_says("its content differs although size and time are the same");
        assert!(scene.src.read("a") == truth.read("out/a"), "{edit}");
        night().assert_prints(&["unchanged", "2 files"]);
    }
    // Reading tells that this is no edit.
    shell(&scene, "chmod 600 src/b; chmod 644 src/b");
    night().assert_prints(&["unchanged", "2 files"]);
}

/// A run is killed between making the snapshot and taking away what protects its top.
#[test]
fn a_snapshot_that_was_left_protected_is_gone_on_with() {
    need!(Root, Mount, Loop, Kinds, Strace, Setpriv);
    let (scene, _mount) = scene("btrfs");
    scene.src.file("d/a", "a").file("b", "b");
    shell(&scene, "chmod 755 .");
    for protect in ["+a", "+i"] {
        night(&scene).assert_code(0);
        shell(&scene, &format!("chattr {protect} dst/latest/; echo more >>src/d/a"));
        let killed = (1..15).any(|when| {
            let strace = Strace::inject(&scene, "ioctl", &format!("signal=KILL:when={when}"));
            strace.run(scene.command(["--generations"]));
            let left = shell(&scene, "lsattr -d dst/20*.part 2>/dev/null || true");
            left.split(' ').next().is_some_and(|flags| flags.contains(['i', 'a']))
        });
        assert!(killed, "{protect}");
        night(&scene).assert_code(0);
        shell(&scene, "diff -r -x .dircopy -x 'dircopy-*' src dst/latest/");
        shell(&scene, "ls -d dst/20*.part 2>/dev/null | wc -l | grep -qx 0");
        shell(&scene, "chattr -i -a dst/20*Z");
    }
    // Who may not take it away is told what helps, also of the tree that is left then.
    shell(&scene, "chown -R 65534 src dst");
    let night = || scene.command(["--generations"]).under_nobody().run();
    night().assert_code(0);
    shell(&scene, "chattr +a dst/latest/");
    for _ in 0..2 {
        night().assert_code(2).assert_says("; it is protected: chattr -i -a removes that");
    }
    shell(&scene, "chattr -a dst/20*.part");
    night().assert_code(0);
    shell(&scene, "chattr -a dst/20*Z");
}
