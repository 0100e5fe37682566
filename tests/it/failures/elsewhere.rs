//! Nothing outside the output is ever changed: not through symlinks planted in it, not when it is
//! unmounted from under us.

use std::time::Duration;

use crate::harness::{Mount, NONE, Scene, Strace, content, ctimes, inventory, need, shell};

/// A directory link in the output would lead every file below it somewhere else.
#[test]
fn a_directory_link_planted_in_the_output_is_refused() {
    for policy in ["default", "update", "never", "always"] {
        let scene = Scene::new();
        scene.tree("outside").file("inside", "outside");
        scene.src.file("dir/inside", content(300_000)).file("dir/new", "new").file("dir/d/e", "e");
        scene.src.file("good", "good");
        scene.output().symlink("dir", "../outside");
        let outside = ctimes(&scene.path("outside"));
        let run = scene.copy(&["--overwrite-policy", policy]);
        run.assert_code(1).assert_says("dir");
        let judge = scene.judge(&run);
        judge.lists(&["good"]).has("good").verifies().no_leftovers();
        judge.equal("outside", &ctimes(&scene.path("outside")), &outside);
    }
}

#[test]
fn a_file_link_planted_in_the_output_is_never_written_through() {
    for (policy, target) in [
        ("default", "../outside/file"),
        ("update", "../outside/file"),
        ("never", "../outside/file"),
        ("always", "../outside/file"),
        ("always", "../outside/not there"),
        ("always", "/dev/null"),
    ] {
        for len in [4, 5000, 300_000] {
            let scene = Scene::new();
            scene.tree("outside").file("file", "keep").mtime("file", 500, 0);
            scene.src.file("dir/file", content(len)).mtime("dir/file", 1_000_000_000, 0);
            scene.output().symlink("dir/file", target);
            let outside = ctimes(&scene.path("outside"));
            let run = scene.copy(&["--overwrite-policy", policy]);
            let judge = scene.judge(&run);
            judge.equal("outside", &ctimes(&scene.path("outside")), &outside);
            if policy == "always" {
                judge.complete();
            } else {
                run.assert_code(1).assert_says("dir/file");
                judge.does_not_list("dir/file").no_leftovers();
            }
        }
    }
}

/// The names that we ourselves are going to use may be planted as well.
#[test]
fn a_link_planted_under_the_manifests_name_is_not_written_through() {
    let scene = Scene::new();
    scene.src.file("file", content(100));
    scene.tree("outside").file("victim", "keep");
    let script = "mkdir dst; for s in {0..5}; do n=dst/dircopy-$(date -u -d @$(($(date +%s) + s)) \
                  +%Y%m%dT%H%M%SZ).sha256sum; ln -s ../outside/victim $n; \
                  ln -s ../outside/victim $n.part; done";
    shell(&scene, script);
    let run = scene.copy(&[]);
    run.assert_no_crash().assert_code_in(&[0, 3]);
    assert_eq!(scene.tree("outside").read("victim"), b"keep");
    let judge = scene.judge(&run);
    judge.no_temp_files();
    if run.code == Some(0) {
        judge.has("file").verifies();
    }
}

/// The links are planted while we copy.
#[test]
fn a_directory_swapped_for_a_link_meanwhile_leads_nowhere() {
    need!(Strace);
    let scene = Scene::new();
    scene.tree("outside").file("keep", "keep");
    for i in 0..20 {
        scene.src.file(format!("dir/{i}"), content(200_000));
    }
    let strace = Strace::inject(&scene, Strace::READS, "signal=SIGSTOP:when=1")
        .exactly_on(scene.src.path("dir/7"));
    let outside = ctimes(&scene.path("outside"));
    let run = strace.run_stopped(scene.command(["--workers", "1", "--block-size", "64K"]), || {
        shell(&scene, "mv dst/dir dst/moved; ln -s ../outside dst/dir");
    });
    run.assert_no_crash();
    let now = ctimes(&scene.path("outside"));
    scene.judge(&run).equal("outside", &now, &outside);
}

/// What is below the mount point must not be filled up when the disk goes away.
#[test]
fn an_output_unmounted_meanwhile_ends_the_run() {
    need!(Strace, Mount);
    let scene = Scene::new();
    let mount = Mount::tmpfs(&scene.dst, "64m");
    for i in 0..20 {
        scene.src.file(format!("dir-{i}/file"), content(200_000));
    }
    let strace = Strace::inject(&scene, Strace::READS, "signal=SIGSTOP:when=1")
        .exactly_on(scene.src.path("dir-7/file"));
    let command = scene.command(["--workers", "1", "--block-size", "64K"]);
    let run = strace.run_stopped(command, || mount.detach());
    run.assert_code(3);
    assert_eq!(std::fs::read_dir(&scene.dst).unwrap().count(), 0, "went on below the mount point");
}

/// Up to the last thing that a run does, what it says of a path must be true of the path.
#[test]
fn an_output_replaced_at_the_end_is_not_done() {
    need!(Strace);
    let scene = Scene::new();
    scene.src.file("file", content(100));
    let strace =
        Strace::inject(&scene, Strace::RENAMES, "signal=SIGSTOP:when=1").on_manifest(&scene);
    let run = strace.run_stopped(scene.command(NONE), || {
        shell(&scene, "mv dst gone; mkdir dst");
    });
    run.assert_code(3).assert_says("moved or replaced");
    assert_eq!(std::fs::read_dir(&scene.dst).unwrap().count(), 0, "went on in another place");
}

#[test]
fn the_source_is_never_changed() {
    for policy in ["default", "always"] {
        let scene = Scene::new();
        for i in 0..20 {
            scene
                .src
                .file(format!("d{i}/file"), content(i * 20_000))
                .mode(format!("d{i}/file"), 0o444);
        }
        scene.src.symlink("link", "d1").fifo("fifo").sparse("holes", 1 << 24, &[(1 << 20, 10)]);
        let (before, stats) = (inventory(scene.src.root()), ctimes(scene.src.root()));
        scene.copy(&["--overwrite-policy", policy]).assert_code(0);
        let run = scene.copy(&["--overwrite-policy", policy]);
        run.assert_code(0);
        let judge = scene.judge(&run);
        judge.lists_all().verifies();
        judge.equal("the source", &inventory(scene.src.root()), &before);
        judge.equal("the source", &ctimes(scene.src.root()), &stats);
    }
}

/// Who may write above the source or the output, as in a home, leads tonight's run elsewhere by a link.
#[test]
fn a_link_of_another_user_is_not_followed_to_the_source_or_the_output() {
    need!(Root, Setpriv);
    let scene = Scene::new();
    scene.src.file("f", "SECRET");
    shell(
        &scene,
        "mkdir -m 755 home out full; touch full/x; chmod 700 src; ln -s ../src home/data; chown -hR nobody home",
    );
    let finding = "home/data is a symbolic link of another user, who says where it leads";
    for args in [
        &["home/data", "out"][..],
        &["home/data/f", "out"],
        &["full", "home/data/new"],
        &["full", "home/data"],
        &["plan", "home/data", "out", "--plan", "plan"],
        &["heal", "src", "home/data"],
        &["--generations", "full", "home/data"],
    ] {
        scene.bare(args).run().assert_code(2).assert_says(finding);
    }
    assert_eq!(shell(&scene, "ls -A out src"), "out:\n\nsrc:\nf\n");
    // Not even to another directory beside it, where that is not in a directory of the same user's.
    shell(&scene, "mkdir -m 1777 all; mkdir all/x; ln -s x all/link; chown -h nobody all/link");
    scene.bare(["all/link", "out"]).run().assert_code(2).assert_says("all/link is a symbolic link");
    // Who owns a directory could exchange what is in it; `latest` is such a link.
    shell(&scene, "touch all/x/x; chown nobody all");
    scene.bare(["all/link", "beside"]).run().assert_code(0);
    // One's own, and those of root, are the user's word.
    shell(&scene, "chown -h root home/data; ln -s home/data link");
    scene.bare(["link", "out"]).run().assert_code(0);
    shell(&scene, "cmp src/f out/f");
}

/// Whose link it is, and where it leads, is asked of one link, and what is opened is what was looked at.
#[test]
fn a_link_that_is_exchanged_while_it_is_looked_at_is_not_followed() {
    need!(Root, Setpriv, Strace);
    for args in [
        &["home/data", "out"][..],
        &["--log", "home/data/log", "more", "out"],
        &["-i", "home/data/x", "-i", "open/x", "-o", "out"],
    ] {
        let mut stopped = 0;
        for when in 1..14 {
            let scene = Scene::new();
            scene.src.file("x", "SECRET");
            shell(
                &scene,
                "mkdir -m 755 home open more; echo x >open/x; touch more/y; chmod 700 src; ln -s ../open home/data; ln -s ../src home/alt; \
                 chown -h nobody home home/alt",
            );
            let fault = format!("signal=STOP:when={when}");
            let strace = Strace::inject(&scene, Strace::STATS, &fault);
            let strace = strace.exactly_on(scene.path("home/data"));
            let mut running = strace.spawn(scene.bare(args));
            while !strace.log().contains("stopped by SIGSTOP") && !running.is_over() {
                std::thread::sleep(Duration::from_millis(2));
            }
            let is_stopped = !running.is_over();
            stopped += u32::from(is_stopped);
            shell(&scene, "mv home/data home/was; mv home/alt home/data");
            let run = Strace::let_go(running);
            let led = "grep -rs SECRET out || true; ls src | grep -vx x || true";
            assert_eq!(shell(&scene, led), "", "{args:?} {when}: {}", run.err());
            if !is_stopped {
                break;
            }
        }
        assert!(stopped > 0, "{args:?}");
    }
}

/// A copy without the record that was asked for would be another one than the user thinks.
#[test]
fn a_directory_of_records_that_is_not_there_refuses_the_run() {
    let scene = Scene::new();
    scene.src.file("a", "a");
    let run = scene.bare(["src", "dst", "--state", "none"]).run();
    run.assert_code(2).assert_says("cannot open the directory for private records none");
    run.assert_says("mend that, or leave it out");
    assert!(!scene.dst.exists());
}

/// Nor to anything else that a run writes, or reads as a stream.
#[test]
fn a_link_of_another_user_is_not_followed_to_records_and_streams() {
    need!(Root, Setpriv);
    let scene = Scene::new();
    scene.src.file("a", "a");
    scene.copy(&[]).assert_code(0);
    shell(
        &scene,
        "mkdir -m 755 home victim; mkdir -m 700 closed; echo SECRET >closed/f; ln -s ../victim home/v; \
         ln -s ../closed home/c; ln -s ../closed/f home/f; \
         ln -s ../dst home/o; chown -hR nobody home; cp dst/*.sha256sum list",
    );
    // What is only read may be reached by any.
    scene.bare(["verify", "home/o"]).run().assert_code(0);
    let finding = "is a symbolic link of another user, who says where it leads";
    for line in [
        "-i home/c/f -i src/a -o out",
        "-i home/f -i src/a -o second",
        "-i src/a -i src/a -o home/v/stream",
        "--state home/v src dst",
        "--report home/v src dst",
        "--report home/v/report src dst",
        "--metrics home/v/metrics src dst",
        "plan src new --plan home/v/plan",
        "manifest merge list list -o home/v/merged",
        "verify dst --shard 0/1 --results home/c",
        "verify dst --shard 0/1 --results home/v/results",
        "verify dst --merge home/c",
        "protect home/o",
        "verify home/o --write-states",
        "verify home/o --max-bytes 1G",
    ] {
        let run = scene.bare(line.split(' ')).run();
        run.assert_says(finding);
        assert_ne!(run.code, Some(0), "{line}");
    }
    assert_eq!(shell(&scene, "ls -A victim; ls -d dst/.dircopy/parity dst/*.states || true"), "");
}

/// Links of root are followed, so none is root's where its owner could take it away, nor stays so.
#[test]
fn a_link_is_its_owners_before_he_gets_at_it() {
    need!(Root, Setpriv, Strace);
    let scene = Scene::new();
    scene.src.file("a", "a").symlink("link", "../closed").symlink("ours", "a");
    shell(&scene, "chown -h nobody src/link; mkdir -m 755 home; chown nobody home");
    // There, and in what root made in it.
    for (to, is_apart) in [("home", true), ("home/new", false), ("home", true)] {
        let strace = Strace::watch(&scene, "symlink,symlinkat");
        strace.run(scene.bare(["src", to, "--overwrite-policy", "always"])).assert_code(0);
        let calls = strace.calls();
        let made = calls.iter().filter(|call| call.contains("\"../closed\""));
        let apart = made.clone().filter(|call| call.contains(".dircopy-part>")).count();
        assert_eq!((apart, made.count()), (usize::from(is_apart), 1), "{calls:?}");
        assert_eq!(shell(&scene, &format!("stat -c %U {to}/link")), "nobody\n");
        shell(&scene, &format!("touch -h -d 2001-01-01 src/link; chown -h daemon {to}/link"));
    }
    // So is a FIFO, which could be exchanged for another one of root's.
    shell(&scene, "mkfifo src/pipe; chown nobody src/pipe");
    let strace = Strace::watch(&scene, "mknod,mknodat");
    strace
        .run(scene.bare(["src", "home", "--specials", "--overwrite-policy", "always"]))
        .assert_code(0);
    let calls = strace.calls();
    assert!(calls.iter().any(|call| call.contains(".dircopy-part>")), "{calls:?}");
    assert!(!calls.iter().any(|call| call.contains("\"pipe\"")), "{calls:?}");
    assert_eq!(shell(&scene, "stat -c '%U %F' home/pipe; rm src/pipe home/pipe"), "nobody fifo\n");
    // His quota may be full.
    for to in ["home", "home/new"] {
        shell(&scene, &format!("rm {to}/link"));
        let strace = Strace::inject(&scene, "fchownat", "error=EDQUOT");
        let run = strace.run(scene.bare(["src", to]));
        strace.fired(&run);
        run.assert_code(1).assert_says("set the attributes of the link").assert_says("/link");
        assert_eq!(shell(&scene, &format!("ls -A {to} | grep -x link || true")), "");
    }
}

/// What homes are in may often only be gone through; and Linux before 5.6 opens no way at once.
#[test]
fn a_way_that_may_only_be_gone_through_is_gone_on_old_kernels() {
    need!(Root, Setpriv, Strace);
    let scene = Scene::new();
    shell(
        &scene,
        "chmod 755 .; mkdir -p home/hers/src; chmod 711 home; echo a >home/hers/src/a; chown -R nobody home/hers",
    );
    let copy = |to: &str| scene.bare(["-q", "home/hers/src", to]).under_nobody();
    copy("home/hers/first").run().assert_code(0);
    let strace = Strace::inject(&scene, "openat2", "error=ENOSYS");
    let run = strace.run(copy("home/hers/dst"));
    assert!(strace.log().contains("INJECTED"), "{}", strace.log());
    run.assert_code(0);
    shell(&scene, "cmp home/hers/src/a home/hers/dst/a");
}

/// A file as the source is not opened through a link that took its place since the way to it was looked at.
#[test]
fn a_file_that_is_exchanged_for_a_link_is_not_followed() {
    need!(Root, Setpriv, Strace);
    let scene = Scene::new();
    let prepare =
        "mkdir -m 755 home out; mkdir -m 700 closed; echo SECRET >closed/f; echo data >home/data";
    shell(&scene, &format!("{prepare}; ln -s ../closed/f home/link; chown -hR nobody home"));
    // The way to the file was gone, and then its directory is opened, the third time by the copy itself.
    let home = scene.path("home");
    let strace = Strace::inject(&scene, "openat2", "signal=SIGSTOP:when=3")
        .exactly_on(home.strip_prefix("/").unwrap());
    let run = strace.run_stopped(scene.bare(["home/data", "out"]), || {
        shell(&scene, "mv home/link home/data");
    });
    assert!(strace.log().contains("stopped by SIGSTOP"), "{}", strace.log());
    assert_ne!(run.code, Some(0));
    assert_eq!(shell(&scene, "grep -rs SECRET out || true"), "");
}

/// The disk of the records is named when it is full or cannot be written to, and not the output's.
#[test]
fn a_full_or_read_only_disk_of_the_records_is_named() {
    need!(Mount);
    let scene = Scene::new();
    for number in 0..300 {
        scene.src.file(format!("a file with a name that is not short {number}"), "x");
    }
    std::fs::create_dir(scene.path("state")).unwrap();
    let full = Mount::tmpfs(&scene.path("state"), "32k");
    let run = scene.copy(&["--state", "state"]);
    run.assert_code(3).assert_prints(&["STOPPED EARLY (exit 3): cannot write the private record"]);
    run.assert_says("No space left on device");
    drop(full);
    scene.copy(&["--state", "state"]).assert_code(0);
    scene.src.file("new", "new");
    let _closed = Mount::read_only(&scene.path("state"), &scene.path("state"));
    // A run that finds it so begins with nothing.
    let run = scene.copy(&["--state", "state"]);
    run.assert_code(2).assert_says("state/dircopy-").assert_says("Read-only file system");
    assert!(!scene.dst.join("new").exists());
}

/// Of a note that cannot be written it is told where that is, and not what it is of; what is begun of a record and has
/// no head is in nobody's way.
#[test]
fn a_note_that_cannot_be_written_is_told_with_its_place() {
    need!(Mount);
    let scene = Scene::new();
    scene.src.file("a", "1").file("b", "2").file("c", "3");
    std::fs::create_dir(scene.path("state")).unwrap();
    let full = Mount::tmpfs(&scene.path("state"), "64k");
    shell(&scene, "head -c 1M /dev/zero > state/fill || true");
    let run = scene.bare(["src", "bag", "--bag", "--state", "state"]).run();
    run.assert_code(2).assert_says("cannot note whose bag it is in state/dircopy-");
    scene.copy(&["--state", "state"]).assert_code(3);
    assert_eq!(shell(&scene, "find state -name 'record*'"), "");
    drop(full);

    scene.copy(&["--state", "state"]).assert_code(0);
    scene.src.remove("a");
    shell(&scene, "cd state/dircopy-* && mkdir -p trash/in-the-way");
    let run = scene.copy(&["--mirror", "--state", "state"]);
    run.assert_code(1).assert_says("cannot note which trash is this output's in state/dircopy-");
}
