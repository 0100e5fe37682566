//! What a file is besides its bytes: mode, times, owner, attributes. None of it may be lost
//! silently, and none of it may cost the copy.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use crate::harness::{Act, Habit, Mirror, Mount, NONE, Scene, Strace, Tree, content, need, shell};

#[test]
fn modes_go_over() {
    let scene = Scene::new();
    for mode in [0o600, 0o644, 0o444, 0o400, 0o755, 0o711, 0o666, 0o777] {
        scene.src.file(format!("{mode:o}"), content(100)).mode(format!("{mode:o}"), mode);
        scene
            .src
            .file(format!("big-{mode:o}"), content(300_000))
            .mode(format!("big-{mode:o}"), mode);
    }
    scene.src.file("dir-700/f", "").mode("dir-700", 0o700);
    scene.src.file("dir-1777/f", "").mode("dir-1777", 0o1777);
    // Also for files that are made with the modes they are to have.
    for sync in ["-v", "--no-sync"] {
        for umask in ["umask 077", "umask 000", "umask 022", "umask 777"] {
            let run = scene.command([sync]).after(umask).run();
            scene.judge(&run).complete();
            shell(&scene, "rm -rf dst");
        }
    }
}

/// A default ACL takes the umask's place and may take away more, in every directory below it.
#[test]
fn modes_go_over_where_the_output_has_a_default_acl() {
    need!(Attr);
    let scene = Scene::on_disk();
    for mode in [0o600, 0o644, 0o755, 0o666, 0o777] {
        for name in [format!("{mode:o}"), format!("dir/{mode:o}"), format!("there/{mode:o}")] {
            scene.src.file(&name, content(100)).mode(&name, mode);
        }
    }
    shell(&scene, "mkdir dst dst/there; setfacl -d -m u::rwx,g::r-x,o::--- dst");
    shell(&scene, "setfacl -d -m u::rw-,g::---,o::--- dst/there");
    for sync in ["-v", "--no-sync"] {
        let run = scene.command([sync]).run();
        scene.judge(&run).complete();
        shell(&scene, "find dst -type f -delete; rm -rf dst/dir");
    }
}

/// A default ACL of the output let others read what its source lets nobody else read, and took rights from the group.
#[test]
fn copies_have_no_access_lists_but_those_of_their_sources() {
    need!(Attr);
    let scene = Scene::on_disk();
    for name in ["small", "dir/small", "there/small", "dir/sub/large", "there/new/large"] {
        let len = if name.ends_with("large") { 3_000_000 } else { 100 };
        scene.src.file(name, content(len)).mode(name, 0o664);
    }
    scene.src.file("own", "own").dir("lists");
    shell(&scene, "setfacl -m u:1:r-- src/own; setfacl -d -m u:2:r-x src/lists");
    let expected = attributes(scene.src.root());
    shell(&scene, "setfacl -d -m u::rwx,u:1234:rwx,g::r-x,o::--- .");
    for there in ["", "mkdir -p dst/there && setfacl -d -m u:7:rwx dst dst/there"] {
        shell(&scene, there);
        for policy in ["default", "always"] {
            let run = scene.command(["--overwrite-policy", policy]).run();
            scene.judge(&run).complete();
        }
        // The root keeps its own, and so do files that are no copies.
        shell(&scene, "rm -r dst/.dircopy dst/dircopy-*");
        if !there.is_empty() {
            shell(&scene, "setfacl -b dst dst/there");
        }
        assert_eq!(attributes(&scene.dst), expected, "{there}");
        shell(&scene, "rm -r dst");
    }
}

/// Who was in an access list that the source has no more would go on reading its copy, though the bits are the same.
#[test]
fn an_access_list_that_the_source_dropped_goes_from_the_copy() {
    need!(Root, Attr);
    for shard in [false, true] {
        let scene = Scene::on_disk();
        scene.src.file("d/read", "secret").mode("d/read", 0o640).file("d/write", "secret");
        scene.src.file("d/own", "of the output's").mode("d", 0o750);
        // Its bits stay the same.
        scene.src.file("d/group", "secret").mode("d/group", 0o664);
        shell(&scene, "setfacl -m u:1234:r src/d/read; setfacl -m u:1234:rw src/d/{write,group}");
        shell(&scene, "setfacl -m u:1234:rwx,d:u:1234:rwx src/d");
        scene.copy(&[]).assert_code(0);
        assert_eq!(attributes(&scene.dst.join("d")), attributes(&scene.src.path("d")));
        shell(&scene, "setfattr -n user.own -v x dst/d/own; setfacl -R -b src/d");
        let inodes =
            || ["write", "group"].map(|name| shell(&scene, &format!("stat -c %i dst/d/{name}")));
        let before = inodes();
        let run = scene.copy(&[]);
        run.assert_code(1).assert_says("d/read: its permissions").assert_says("d/write: its");
        let update = ["--overwrite-policy", "update"];
        match shard {
            false => drop(scene.copy(&update).assert_code(0)),
            true => {
                let plan = ["plan", "src", "dst", "--plan", "p", "--overwrite-policy", "update"];
                scene.bare(plan).run().assert_code(0);
                scene.bare(["shard", "--plan", "p", "--claim"]).run().assert_code(0);
                scene.bare(["finish", "--plan", "p"]).run().assert_code(0);
            }
        }
        assert_eq!(shell(&scene, "getfacl -cR dst/d | grep 1234 || true"), "");
        // Whoever could write to it may hold it open.
        let now = inodes();
        assert!(now[0] != before[0] && now[1] != before[1], "{before:?} {now:?}");
        assert!(shell(&scene, "getfattr -d dst/d/own").contains("user.own"));
        scene.copy(&update).assert_code(0);
    }
}

/// What comes as a stream has no permissions of its own, and gets what any new file there gets.
#[test]
fn a_stream_takes_the_access_lists_of_its_directory() {
    need!(Attr);
    let scene = Scene::on_disk();
    shell(&scene, "mkdir dst; setfacl -d -m u:1234:rw- dst");
    let run = scene.bare(["-i", "-", "-o", "dst/file"]).in_shell("echo content | \"$@\"").run();
    run.assert_code(0);
    assert!(attributes(&scene.dst).contains("# file: ./file\n"), "{}", attributes(&scene.dst));
}

/// What a program may do goes with what the source says of it, too.
#[test]
fn a_capability_that_the_source_dropped_goes() {
    need!(Root, Attr);
    let scene = Scene::on_disk();
    scene.src.file("tool", "tool").mode("tool", 0o755);
    // Version 2, and one that is effective: setuid (linux/capability.h).
    let give =
        "setfattr -n security.capability -v 0x0100000280000000000000000000000000000000 src/tool";
    shell(&scene, give);
    let has = || shell(&scene, "getfattr -m security dst/tool").contains("security.capability");
    scene.copy(&[]).assert_code(0);
    assert!(has());
    shell(&scene, "setfattr -x security.capability src/tool");
    scene.copy(&["--overwrite-policy", "update"]).assert_code(0);
    assert!(!has());
}

/// A call for every file that is not needed.
#[test]
fn a_file_that_is_made_with_its_mode_is_not_given_it_once_more() {
    need!(Strace);
    for args in [&["--no-sync"][..], &[]] {
        let scene = Scene::new();
        for name in (0..50).map(|i| format!("dir/{i}")) {
            scene.src.file(&name, "x").mode(&name, 0o640);
        }
        scene.src.file("dir/shared", "x").mode("dir/shared", 0o660);
        let strace = Strace::watch(&scene, "fchmod");
        let run = strace.run(scene.command(args).after("umask 022"));
        scene.judge(&run).complete().same_tree();
        // What the umask takes away, and the directories; a file that modes are tried with is another matter.
        let log = strace.log();
        let of_copies = |line: &&str| line.contains("fchmod(") && !line.contains(".dircopy-part/");
        let calls = log.lines().filter(of_copies).count();
        assert!((1..10).contains(&calls), "{}", strace.log());
    }
}

/// … and one whose label lets others write, or denies somebody something, is nobody else's before it has that.
#[test]
fn a_file_is_not_made_with_more_than_its_label_allows() {
    need!(Root, Strace, Attr);
    let scene = Scene::on_disk();
    for (name, mode) in
        [("w", 0o666), ("g", 0o664), ("suid", 0o4755), ("list", 0o644), ("his", 0o640)]
    {
        scene.src.file(name, "x").mode(name, mode);
    }
    scene.src.file("plain", "x").mode("plain", 0o644).file("ro", "x").mode("ro", 0o444);
    shell(&scene, "setfacl -m u:1002:--- src/list; chown 1001:1001 src/his");
    let strace = Strace::watch(&scene, "openat");
    let run = strace.run(scene.command(NONE).after("umask 0"));
    scene.judge(&run).complete().same_tree();
    let log = strace.log();
    let made = |mode: &str| {
        let is_copy =
            |line: &&str| line.contains(".dircopy-part\", O_RDWR|O_CREAT") && line.contains(mode);
        log.lines().filter(is_copy).count()
    };
    assert_eq!(made(", 0644)"), 1, "{log}");
    assert!(made(", 0600)") >= 6, "{log}");
    for mode in ["0666", "0664", "04755", "0755", "0640", "0444"] {
        assert_eq!(made(&format!(", {mode})")), 0, "{log}");
    }
}

/// A directory that forbids writing must not forbid its own copy.
#[test]
fn a_read_only_directory_is_filled_before_it_is_closed() {
    need!(Root, Setpriv); // root would not notice
    let scene = Scene::new();
    scene.src.file("closed/inner/file", "x").mode("closed/inner", 0o555).mode("closed", 0o555);
    shell(&scene, "mkdir dst; chown -R 65534:65534 .; chmod 755 .");
    let run = scene.command(NONE).under_nobody().run();
    scene.judge(&run).complete();
    let run = scene.command(NONE).under_nobody().run();
    scene.judge(&run).complete();
}

#[test]
fn times_go_over_to_the_nanosecond() {
    let scene = Scene::new();
    let times =
        [(0, 0), (1, 1), (1_000_000_000, 123_456_789), (1 << 31, 999_999_999), (4_000_000_000, 5)];
    for (i, (seconds, nanos)) in times.into_iter().enumerate() {
        for (name, len) in [(format!("d{i}/small"), 10), (format!("d{i}/big"), 300_000)] {
            scene.src.file(&name, content(len)).mtime(&name, seconds, nanos);
        }
        scene.src.dir(format!("d{i}/e")).mtime(format!("d{i}/e"), seconds, nanos);
        scene.src.mtime(format!("d{i}"), seconds, nanos);
    }
    let run = scene.copy(&[]);
    scene.judge(&run).complete();
    // What is there already is not touched, the directories' times included.
    let run = scene.copy(&[]);
    scene.judge(&run).complete();
}

#[test]
fn owners_go_over_when_root_copies() {
    need!(Root);
    let scene = Scene::new();
    scene.src.file("file", "x").owner("file", 1234, 2345);
    scene.src.file("big", content(300_000)).owner("big", 1, 2);
    scene.src.dir("dir").owner("dir", 3, 4).symlink("link", "file").owner("link", 5, 6);
    // The order matters: a change of owner takes these bits away.
    scene.src.file("setuid", "x").owner("setuid", 1234, 2345).mode("setuid", 0o4755);
    scene.src.dir("setgid").owner("setgid", 7, 8).mode("setgid", 0o2755);
    let run = scene.copy(&[]);
    let judge = scene.judge(&run);
    judge.complete();
    for name in ["file", "big", "dir", "link", "setuid", "setgid"] {
        let (source, copy) = (scene.src.stat(name), judge.dst.stat(name));
        assert_eq!((copy.st_uid, copy.st_gid), (source.st_uid, source.st_gid), "{name}");
    }
}

/// The group of whoever copies is not the one that the source lets in.
#[test]
fn permissions_of_a_group_are_not_given_to_another() {
    need!(Setpriv);
    let scene = Scene::new();
    let modes = [0o640, 0o644, 0o664, 0o604, 0o755, 0o770];
    for mode in modes {
        let name = format!("{mode:o}");
        scene.src.file(&name, "x").mode(&name, mode);
        scene.src.file(format!("d{name}/f"), "x").mode(format!("d{name}"), mode | 0o700);
    }
    shell(
        &scene,
        "mkdir out; chmod -R o+rX src; chown -R 1001:2000 src; chown 1001:100 . out; chmod 755 .",
    );
    for mode in modes {
        scene.src.mode(format!("{mode:o}"), mode).mode(format!("d{mode:o}"), mode | 0o700);
    }
    let own = |groups: &str| {
        let user = format!("setpriv --reuid 1001 --regid 100 --groups {groups}");
        let user: Vec<_> = user.split(' ').map(str::to_owned).collect();
        scene
            .bare(["src", "out/o", "--overwrite-policy", "update"])
            .under(user)
            .run()
            .assert_code(0);
        shell(&scene, "cd out/o; stat -c '%n %a %g' [d0-9]*[0-9]")
    };
    // Who is in it gives the copies to it where that makes a difference, and to nobody else.
    let narrow = |mode: u32| {
        let both = mode >> 3 & mode & 7;
        mode & 0o700 | both << 3 | both
    };
    let told = |is_in: bool| {
        let line = |(name, mode): (String, u32)| match () {
            () if narrow(mode) == mode => format!("{name} {mode:o} 100\n"),
            () if is_in => format!("{name} {mode:o} 2000\n"),
            () => format!("{name} {:o} 100\n", narrow(mode)),
        };
        let files = modes.map(|mode| (format!("{mode:o}"), mode));
        let dirs = modes.map(|mode| (format!("d{mode:o}"), mode | 0o700));
        files.into_iter().chain(dirs).map(line).collect::<String>()
    };
    let sorted = |text: &str| -> Vec<String> {
        let mut lines: Vec<_> = text.lines().map(str::to_owned).collect();
        lines.sort();
        lines
    };
    assert_eq!(sorted(&own("100,2000")), sorted(&told(true)));
    // A further run leaves them so.
    assert_eq!(sorted(&own("100,2000")), sorted(&told(true)));
    shell(&scene, "rm -r out/o");
    assert_eq!(sorted(&own("100")), sorted(&told(false)));
    assert_eq!(sorted(&own("100")), sorted(&told(false)));
    // So it is where entries take the group of their directory, and where the source's was another.
    shell(&scene, "rm -r out/o; chgrp 3000 out; chmod g+s out");
    assert!(own("100,3000").contains("640 600 3000"));
    shell(&scene, "chgrp 100 out; chmod g-s out; rm -r out/o");
    assert!(own("100,2000").contains("640 640 2000"));
    shell(&scene, "chgrp 4000 src/640");
    assert!(own("100,2000").contains("640 600 2000"));
}

/// … also of directories, which no later run takes for other ones; and of files that have such a bit of their own.
#[test]
fn labels_of_another_group_are_compared_with_what_was_made_of_them() {
    need!(Setpriv, Attr);
    let scene = Scene::on_disk();
    scene.src.file("d/f", content(5000)).file("lists/f", "x").file("closed", "secret");
    shell(
        &scene,
        "mkdir out; chmod 755 . src; chown -R 1001:2000 src; chown 1001:100 out src/closed; chmod 2750 src/d
         setfacl -m u:1001:rx,g:77:rx src/lists; chmod 750 src/lists; chmod 755 src/closed",
    );
    let run = |args: &[&str]| {
        let user = ["setpriv", "--reuid", "1001", "--regid", "100", "--clear-groups"];
        let all = [&["src", "out/o"], args].concat();
        scene.bare(all).under(user).run()
    };
    run(&[]).assert_code(0);
    let inodes = || shell(&scene, "cd out/o; stat -c '%n %i %a %Z' d lists d/f lists/f");
    let before = inodes();
    assert!(before.contains(" 700 "), "{before}");
    for args in [&[][..], &["--overwrite-policy", "update"], &["--mirror"]] {
        run(args).assert_code(0).assert_prints(&["unchanged"]);
        assert_eq!(inodes(), before, "{args:?}");
    }
    // A file with a set-user-ID bit is closed like any other.
    shell(&scene, "sleep 0.05; chmod 4700 src/closed");
    run(&[]).assert_code(1).assert_says("left as it is: closed");
    run(&["--overwrite-policy", "update"]).assert_code(0);
    assert_eq!(shell(&scene, "stat -c %a out/o/closed"), "4700\n");
}

/// Those of the source's group, which this user cannot give, come as all others at the copy: an access list that keeps
/// them out, or lets them only read, holds there too.
#[test]
fn a_lost_group_gets_no_more_than_its_list_gave_it() {
    need!(Setpriv, Attr);
    let scene = Scene::on_disk();
    for name in ["closed", "all", "d/f", "read"] {
        scene.src.file(name, "SECRET");
    }
    shell(
        &scene,
        "mkdir out; chmod 755 . src; chown -R 1001:2000 src; chown 1001:100 out src/d/f
         cd src; chmod 604 closed; chmod 606 all; chmod 646 read; chmod 705 d; chmod 644 d/f
         setfacl -m u:5555:rw closed all read; setfacl -m u:5555:rx d",
    );
    let run = |groups: &str, args: &[&str]| {
        let user = ["setpriv", "--reuid", "1001", "--regid", "100", "--groups", groups];
        scene.bare([&["src", "out/o"], args].concat()).under(user).run()
    };
    // Who is in the group may do at `tree` …
    let may = |tree: &str| {
        let script = "for f in closed all d/f read; do cat $f > /dev/null 2>&1 && echo reads $f; \
                      (: >> $f) 2> /dev/null && echo writes $f; done; true";
        let user = "setpriv --reuid 1002 --regid 2000 --clear-groups sh -c";
        shell(&scene, &format!("cd {tree} && {user} '{script}'"))
    };
    assert_eq!(may("src"), "reads read\n");
    run("100", &[]).assert_code(0);
    assert_eq!(may("out/o"), "reads read\n");
    let inodes = || shell(&scene, "cd out/o; stat -c '%n %i %a %Z' closed all d/f read");
    let before = inodes();
    for args in [&[][..], &["--overwrite-policy", "update"], &["--mirror"]] {
        run("100", args).assert_code(0);
        assert_eq!(inodes(), before, "{args:?}");
    }
    // So it is where a copy from before is kept.
    shell(
        &scene,
        "rm -r out/o; cp -r src keep; chown -R 1001:100 src; setfacl -Rb src; chmod -R a+rX src",
    );
    run("100", &[]).assert_code(0);
    shell(
        &scene,
        "sleep 0.05; chown -R 1001:2000 src/closed src/all src/read src/d; cd src; setfacl -m u:1002:0 closed
         setfacl -m u:5555:rw all read; chmod 646 closed read; chmod 606 all; setfacl -m u:5555:rx d; chmod 705 d",
    );
    run("100", &["--overwrite-policy", "update"]).assert_code(0);
    assert_eq!(may("out/o"), may("src"));
    shell(&scene, "rm -r src; mv keep src; chown -R 1001:2000 src; cd src; setfacl -Rb .; chmod 604 closed; chmod 606 all
                   chmod 646 read; chmod 705 d; chmod 644 d/f; setfacl -m u:5555:rw closed all read; setfacl -m u:5555:rx d");
    // Whoever is in it gives it to the copies.
    shell(&scene, "rm -r out/o");
    run("100,2000", &[]).assert_code(0);
    assert_eq!(may("out/o"), "reads read\n");
    let lists = |tree: &str| shell(&scene, &format!("cd {tree} && getfacl -nc closed all read d"));
    assert_eq!(lists("out/o"), lists("src"));
}

/// A label that the output does not hold as a whole is no reason to leave a kept file more open than its source.
#[test]
fn what_the_source_closes_is_closed_whatever_else_its_label_has() {
    need!(Setpriv, Attr);
    for after in [
        "setfattr -n user.tag -v x f; chmod 400 f",
        "setfattr -n user.tag -v x f; chmod 440 f",
        "chown 1001:2000 f; chmod 2750 f",
        "chown 1001:2000 f; chmod 6750 f",
        "chown 1001:3000 f; setfacl -m u:5555:0 f; chmod 4750 f",
    ] {
        let scene = Scene::on_disk();
        scene.src.file("f", "SECRET");
        shell(&scene, "mkdir out; chmod 755 . src; chmod 644 src/f; chown -R 1001:100 src out");
        let run = |args: &[&str]| {
            let user = ["setpriv", "--reuid", "1001", "--regid", "100", "--groups", "100,2000"];
            scene.bare([&["src", "out/o"], args].concat()).under(user).run()
        };
        run(&[]).assert_code(0);
        shell(&scene, &format!("sleep 0.05; cd src; {after}"));
        run(&[]).assert_code(1).assert_says("left as it is: f");
        for _ in 0..2 {
            run(&["--overwrite-policy", "update"]).assert_code(0);
            let read =
                "cd out/o; setpriv --reuid 1002 --regid 1002 --clear-groups cat f 2>&1 || true";
            assert!(shell(&scene, read).contains("Permission denied"), "{after}");
        }
    }
}

/// The same where the output's file system has neither attributes nor access lists: a kept file is no more open than a
/// new copy would be, whosever it is.
#[test]
fn a_kept_file_is_closed_where_the_output_lacks_what_its_label_has() {
    need!(Root, Mount, Attr);
    for (after, mode) in [
        ("setfattr -n user.tag -v x f; chmod 600 f", "600"),
        ("setfacl -m u:1002:0 f", "600"),
        ("setfacl -m u:1002:rw,g::0 f; chmod 664 f", "604"),
    ] {
        let scene = Scene::on_disk();
        scene.src.file("f", "SECRET");
        shell(&scene, "chmod 755 . src; chmod 644 src/f; chown -R 1001:100 src");
        std::fs::create_dir(&scene.dst).unwrap();
        let _mount = Mount::ramfs(&scene.dst);
        scene.copy(&[]).assert_code(0);
        shell(&scene, &format!("sleep 0.05; cd src; {after}"));
        scene.copy(&[]).assert_code(1).assert_says("left as it is: f");
        let label = || shell(&scene, "stat -c '%a %u' dst/f");
        scene.copy(&["--overwrite-policy", "update"]).assert_code(0);
        let updated = label();
        scene.copy(&["--overwrite-policy", "update"]).assert_code(0).assert_prints(&["unchanged"]);
        shell(&scene, "rm dst/f");
        scene.copy(&[]).assert_code(0);
        assert_eq!((&*updated, &*label()), (&*format!("{mode} 1001\n"), &*updated), "{after}");
    }
}

/// The set-group-ID bit of a directory is of its group, whoever copies it.
#[test]
fn an_ordinary_users_directories_keep_their_set_group_id_bits() {
    need!(Setpriv);
    let scene = Scene::on_disk();
    scene.src.file("d/f", "x").file("of group/f", "x");
    shell(
        &scene,
        "mkdir out; chmod 755 . src; chown -R 1001:100 src out; chgrp 2000 'src/of group'; chmod 2775 'src/of group'",
    );
    let run = || {
        let user = ["setpriv", "--reuid", "1001", "--regid", "100", "--groups", "100,2000"];
        let args = ["src", "out/o", "--overwrite-policy", "update"];
        scene.bare(args).under(user).run().assert_code(0);
        shell(&scene, "cd out/o; stat -c '%n %a %g' d 'of group'")
    };
    assert_eq!(run(), "d 755 100\nof group 2775 2000\n");
    shell(&scene, "chmod 2750 src/d; chmod 2755 'src/of group'");
    assert_eq!(run(), "d 2750 100\nof group 2755 2000\n");
}

/// Where the output decides a copy's group, and the source's list keeps that group out, the copy does too.
#[test]
fn a_group_that_the_output_gives_gets_no_more_than_the_sources_list_gives_it() {
    need!(Setpriv, Attr);
    for (list, reads) in
        [("g:2000:0", false), ("g:2000:0,u:5555:rw,g:3000:r", false), ("g:2000:r", true)]
    {
        let scene = Scene::on_disk();
        scene.src.file("f", "SECRET");
        let setup = format!(
            "mkdir out; chmod 755 . src; chmod 644 src/f; chown -R 1001:100 src out; chgrp 3000 src/f; \
             setfacl -m {list} src/f; chgrp 2000 out; chmod 2755 out"
        );
        shell(&scene, &setup);
        let by = |user: &'static str, group: &'static str| {
            ["setpriv", "--reuid", user, "--regid", group, "--groups", group]
        };
        for counts in ["copied      1 file", "unchanged   1 file"] {
            let args = ["src", "out/o", "--overwrite-policy", "update"];
            scene.bare(args).under(by("1001", "100")).run().assert_code(0).assert_prints(&[counts]);
            assert_eq!(shell(&scene, "stat -c %g out/o/f"), "2000\n");
            let read = format!("cd out/o; {} cat f 2>&1 || true", by("1002", "2000").join(" "));
            assert_eq!(shell(&scene, &read) == "SECRET", reads, "{list}");
        }
    }
}

/// Who may not give files away still gets a copy, and exit 0.
#[test]
fn owners_that_cannot_be_kept_do_not_cost_the_copy() {
    need!(Root, Setpriv);
    let scene = Scene::new();
    scene.src.file("file", "x").owner("file", 1234, 2345).mode("file", 0o644);
    scene.src.file("dir/big", content(300_000));
    shell(&scene, "chmod 755 . src; mkdir dst; chown 65534:65534 dst");
    let run = scene.command(NONE).under_nobody().run();
    scene.judge(&run).complete();
}

fn attributes(root: &std::path::Path) -> String {
    let output = Command::new("getfattr")
        .args(["-R", "-d", "-m", "^(user|system.posix_acl)", "-e", "hex", "--absolute-names", "."])
        .current_dir(root)
        .output()
        .unwrap();
    // Blocks of "# file: NAME" and attributes, in the order of the directory: compare sorted.
    let text = String::from_utf8(output.stdout).unwrap();
    let mut blocks: Vec<_> = text.split("\n\n").map(str::trim).filter(|b| !b.is_empty()).collect();
    blocks.sort_unstable();
    blocks.join("\n\n")
}

#[test]
fn attributes_and_acls_go_over() {
    need!(Attr);
    let scene = Scene::on_disk();
    scene.src.file("file", "x").file("big", content(300_000)).dir("dir").file("closed", "y");
    scene.src.xattr("file", "user.text", b"value").xattr("file", "user.bytes", b"\0\xff\n");
    scene.src.xattr("big", "user.long", &content(2000)).xattr("dir", "user.on-dir", b"d");
    scene.src.xattr("file", "user.empty", b"");
    scene.src.xattr("closed", "user.of-a-read-only-file", b"z").mode("closed", 0o444);
    shell(&scene, "setfacl -m u:1234:r--,g:2345:rw- src/file; setfacl -d -m u:1:rwx src/dir");
    let run = scene.copy(&[]);
    let judge = scene.judge(&run);
    judge.complete();
    let expected = attributes(scene.src.root());
    assert!(expected.contains("posix_acl_default") && expected.contains("user.long"), "{expected}");
    assert_eq!(attributes(judge.dst.root()), expected);
}

/// A link has an owner of its own, whatever it points to.
#[test]
fn owners_of_links_that_changed_are_brought_over_or_named() {
    need!(Root);
    let scene = Scene::new();
    scene.src.file("file", "x").symlink("link", "file");
    scene.copy(&[]).assert_code(0);
    scene.src.owner("link", 5, 6);
    let owner = || shell(&scene, "stat -c %u:%g dst/link");
    let run = scene.copy(&[]);
    run.assert_code(1).assert_says("left as it is: link: its owner or permissions are others");
    for policy in ["update", "always"] {
        shell(&scene, "chown -h 1:1 dst/link");
        scene.copy(&["--overwrite-policy", policy]).assert_code(0);
        assert_eq!(owner(), "5:6\n");
    }
    scene.copy(&["--mirror"]).assert_code(0);
}

/// Only root's attributes can be on a link, and they are not the target's.
#[test]
fn attributes_of_links_go_over_or_are_told() {
    need!(Root, Attr, Strace);
    let scene = Scene::on_disk();
    scene.src.file("file", "x").symlink("link", "file").symlink("plain", "file");
    shell(&scene, "setfattr --no-dereference -n trusted.of-link -v value src/link");
    let run = scene.copy(&[]);
    run.assert_code(0);
    let get = "getfattr --no-dereference -d -m trusted dst/link dst/plain dst/file";
    assert_eq!(shell(&scene, get).matches("trusted.of-link=\"value\"").count(), 1);
    std::fs::remove_dir_all(&scene.dst).unwrap();
    let strace = Strace::inject(&scene, "setxattr", "error=EOPNOTSUPP");
    let run = strace.run(scene.command(NONE));
    strace.fired(&run);
    run.assert_code(0).assert_says("warning: cannot set the attributes of the link");
    scene.judge(&run).same_tree();
}

/// Where the output's file system has no attributes, the files still go over.
#[test]
fn attributes_that_cannot_be_kept_do_not_cost_the_copy() {
    need!(Strace, Attr);
    let scene = Scene::on_disk();
    scene.src.file("file", "x").xattr("file", "user.text", b"value");
    let calls = "setxattr,lsetxattr,fsetxattr";
    let strace = Strace::inject(&scene, calls, "error=EOPNOTSUPP");
    let run = strace.run(scene.command(NONE));
    strace.fired(&run);
    scene.judge(&run).complete();
}

/// A time that cannot be set is a warning of its own (the file would be copied again next time).
#[test]
fn a_time_that_cannot_be_set_does_not_cost_the_copy() {
    need!(Strace);
    let scene = Scene::new();
    scene.src.file("file", content(1000)).mtime("file", 1_000_000_000, 5);
    let strace = Strace::inject(&scene, "utimensat,futimesat,utimes", "error=EPERM");
    let run = strace.run(scene.command(NONE));
    strace.fired(&run);
    run.assert_code_in(&[0, 1]).assert_says("file");
    scene.judge(&run).has("file").verifies().no_leftovers();
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o7777
}

/// What the source was given after it was copied: named and left, or brought over to the kept file.
#[test]
fn permissions_that_changed_since_are_brought_over_or_named() {
    need!(Attr);
    let scene = Scene::on_disk();
    scene.src.file("key", content(5000)).file("tagged", "tagged").file("large", content(3_000_000));
    scene.src.file("other", "other");
    let run = scene.copy(&[]);
    scene.judge(&run).complete();
    shell(&scene, "sleep 0.1; chmod 600 src/key src/large; setfattr -n user.tag -v new src/tagged");
    let differ = ["key", "large", "tagged"];
    for args in [&[][..], &[], &["--overwrite-policy=never"], &["--verify"]] {
        let run = scene.copy(args);
        run.assert_code(1).assert_prints(&["3 entries"]);
        for name in differ {
            run.assert_says(&format!("{name}: its permissions, owner or attributes differ"));
        }
        assert_eq!(run.err().lines().count(), 3, "{}", run.err());
        assert_eq!(mode(&scene.dst.join("key")), 0o644);
        scene.judge(&run).lists_all().verifies();
    }
    let run = scene.copy(&["--overwrite-policy=update", "--report", "report"]);
    scene.judge(&run).complete();
    run.assert_prints(&["attributes", "3 files"]);
    let report: serde_json::Value =
        serde_json::from_slice(&fs::read(scene.path("report")).unwrap()).unwrap();
    let counts = &report["outputs"][0]["counts"];
    assert_eq!((counts["attributes"].as_u64(), counts["unchanged"].as_u64()), (Some(3), Some(4)));
    for args in [&[][..], &["--overwrite-policy=update"]] {
        let run = scene.copy(args);
        scene.judge(&run).complete();
        run.assert_prints(&["unchanged", "4 files"]);
        assert!(!run.out().contains("as at the source"), "{}", run.out());
    }
}

/// Another name of the kept file may lie anywhere.
#[test]
fn permissions_are_not_brought_over_to_further_names() {
    let scene = Scene::new();
    scene.src.file("key", "key");
    scene.copy(&[]).assert_code(0);
    shell(&scene, "ln dst/key elsewhere; chmod 600 src/key");
    let run = scene.copy(&["--overwrite-policy=update"]);
    scene.judge(&run).complete();
    assert_eq!((mode(&scene.dst.join("key")), mode(&scene.path("elsewhere"))), (0o600, 0o644));
}

/// Where an output holds no permissions, they are no difference, on no night.
#[test]
fn what_an_output_cannot_hold_does_not_differ() {
    need!(Fuse);
    let scene = Scene::new();
    scene.src.file("a", "a").file("b", "b").mode("a", 0o600).mode("b", 0o755);
    let truth = scene.tree("truth");
    let habits = [Habit::KeepsPermissions];
    let _mirror = Mirror::with_habits(truth.root(), &scene.dst, &habits, |_| Act::Pass);
    shell(&scene, "cp --preserve=timestamps src/a src/b truth/; chmod 644 truth/*");
    for args in [&[][..], &["--overwrite-policy=update"], &[]] {
        let run = scene.copy(args);
        run.assert_code(0).assert_prints(&["unchanged", "2 files"]);
        let told = run.err();
        assert!(told.ends_with(": fuse: no permissions\n") && told.lines().count() == 1, "{told}");
    }
}

/// What is listed may be read by all; the umask still closes the manifest (`records::readers` has what is closed
/// itself).
#[test]
fn a_manifest_is_no_more_open_than_the_umask_says() {
    for (umask, mode) in [("077", "600"), ("022", "644")] {
        let scene = Scene::new();
        scene.src.file("f", "f").mode("f", 0o644).mode("", 0o755);
        scene.command(NONE).after(&format!("umask {umask}")).run().assert_code(0);
        assert_eq!(shell(&scene, "stat -c %a dst/dircopy-*").trim(), mode);
    }
}

/// Their owner can make more of them than the memory holds of eight files.
#[test]
fn a_file_with_more_attributes_than_are_taken_fails_alone() {
    need!(Kinds, Attr);
    let scene = Scene::new();
    let mount = Mount::of_kind("xfs", &scene.path("image"), &scene.path("mount"));
    let src = scene.path("mount/src");
    Tree::at(src.clone()).file("bad", "bad").file("good", "good");
    shell(
        &scene,
        "v=$(head -c 60000 /dev/zero | tr '\\0' x); \
         for i in 1 2 3 4 5; do setfattr -n user.$i -v $v mount/src/bad; done",
    );
    let run = scene.command_to(&src, &scene.dst, NONE).run();
    run.assert_code(1).assert_says("bad: its extended attributes take more than 262144 bytes");
    scene.judge(&run).lists(&["good"]).verifies().lacks("bad").no_leftovers();
    drop(mount);
}

/// An attribute that could not be set once was missing for ever, without a word: later runs took the file for labelled.
/// By default the next run left the file, and ended with 1.
#[test]
fn what_could_not_be_set_once_is_set_later() {
    need!(Strace, Attr);
    for policy in ["update", "default"] {
        for (call, deed) in [
            ("fsetxattr", "set an extended attribute of"),
            ("utimensat", "set the modification time of"),
        ] {
            let policy_of = format!("--overwrite-policy={policy}");
            let args = [policy_of.as_str()];
            let scene = not_set(call, deed, &args);
            let again = scene.copy(&args);
            again.assert_code(0);
            let state = "stat -c '%a %Y' file && getfattr --only-values -n user.text file";
            let [there, source] =
                ["dst", "src"].map(|dir| shell(&scene, &format!("cd {dir}; {state}")));
            assert_eq!(there, source, "{policy} {call}");
            let last = scene.copy(&args);
            last.assert_code(0);
            assert!(!last.out().contains("attributes"), "{}", last.out());
            scene.judge(&last).complete();
        }
    }
}

/// A scene in which `call` failed, so that a run could not do this to the file, and ended well.
fn not_set(call: &str, deed: &str, args: &[&str]) -> Scene {
    let scene = Scene::on_disk();
    scene.src.file("file", "x").xattr("file", "user.text", b"value").file("plain", "y");
    shell(&scene, "touch -d 2020-02-02 src/file");
    let strace = Strace::inject(&scene, call, "error=EIO");
    let run = strace.run(scene.command(args));
    strace.fired(&run);
    run.assert_code(0).assert_says(&format!("cannot {deed} {}", scene.dst.display()));
    scene
}

/// What the policy leaves is no label that a run could not set.
#[test]
fn a_label_that_was_left_is_not_brought_over_later() {
    need!(Strace, Attr);
    let scene = not_set("fsetxattr", "set an extended attribute of", &NONE);
    // It is left while nothing is to be replaced, and set after that.
    let left = "its permissions, owner or attributes differ";
    for _ in 0..2 {
        scene.copy(&["--overwrite-policy=never"]).assert_code(1).assert_says(left);
    }
    scene.copy(&[]).assert_code(0).assert_prints(&["attributes", "1 file"]);
    for line in ["chmod 600 src/file", "chmod 640 dst/plain"] {
        shell(&scene, line);
        for _ in 0..3 {
            scene.copy(&[]).assert_code(1).assert_says(left);
        }
    }
    assert_eq!(shell(&scene, "stat -c %a dst/file dst/plain"), "644\n640\n");
}

/// A FIFO without its permissions stayed with a warning, and was in the way of the next run.
#[test]
fn a_special_file_that_could_not_be_labelled_is_not_there() {
    need!(Strace);
    let scene = Scene::new();
    scene.src.file("file", "x").fifo("fifo");
    shell(&scene, "chmod 767 src/fifo");
    // Trials of the output change files.
    let strace = Strace::inject(&scene, "fchmodat", "error=EIO");
    let run = strace.run(scene.command(["--specials"]));
    strace.fired(&run);
    run.assert_code(1).assert_says("cannot set the attributes of");
    scene.copy(&["--specials"]).assert_code(0);
    assert_eq!(shell(&scene, "stat -c %a dst/fifo"), "767\n");
}

/// A generation was given the file of the one before, which lacks the attribute.
#[test]
fn a_file_that_lacks_an_attribute_is_not_shared() {
    need!(Strace, Attr);
    let scene = Scene::on_disk();
    scene.src.file("file", "x").xattr("file", "user.text", b"value").file("plain", "y");
    let strace = Strace::inject(&scene, "fsetxattr", "error=EIO");
    let run = strace.run(scene.command(["--generations"]));
    strace.fired(&run);
    run.assert_says("cannot set an extended attribute of");
    shell(&scene, "sleep 1.1");
    scene.copy(&["--generations"]).assert_code(0);
    let text = shell(&scene, "getfattr --only-values -n user.text dst/latest/file");
    assert_eq!(text, "value");
}

/// ext4 with blocks of 1 KiB has no space for large attributes: only the first run said so.
#[test]
fn what_the_output_has_no_space_for_is_told_in_each_run() {
    need!(Strace, Attr);
    let scene = Scene::on_disk();
    scene.src.file("file", "x").xattr("file", "user.text", b"value").file("plain", "y");
    for _ in 0..3 {
        let strace = Strace::inject(&scene, "fsetxattr", "error=ENOSPC");
        let run = strace.run(scene.command(["--overwrite-policy=update"]));
        strace.fired(&run);
        run.assert_code(0).assert_says("cannot set");
        assert!(!run.err().contains("plain"), "{}", run.err());
    }
    let run = scene.copy(&["--overwrite-policy=update"]);
    scene.judge(&run).complete();
    run.assert_prints(&["attributes", "1 file"]);
}

/// A umask that keeps the owner out of what is made would keep later runs out for ever.
#[test]
fn a_umask_does_not_shut_the_owner_out() {
    need!(Root, Setpriv);
    for mask in ["777", "0277", "700"] {
        let scene = Scene::new();
        scene.src.file("a", "a").file("dir/b", "b").symlink("l", "a");
        shell(&scene, "chown -R nobody .");
        let umask = format!("umask {mask}");
        for way in [&["--report", "r.json", "--log", "log"][..], &["-v"]] {
            let run = scene.command(way).under_nobody().after(&umask).run();
            scene.judge(&run).complete();
        }
        scene.bare(["verify", "dst"]).under_nobody().after(&umask).run().assert_code(0);
    }
}

/// Where a list cannot be set, the bits of the group, which are those of the list's mask, must not be the group's.
#[test]
fn a_list_that_is_not_taken_over_gives_the_group_nothing() {
    need!(Attr, Strace);
    let scene = Scene::new();
    scene.src.file("f", "secret").file("d/g", "secret");
    shell(
        &scene,
        "chmod 600 src/f; chmod 700 src/d; setfacl -m u:65534:r,g::--- src/f
         setfacl -m u:65534:rx,g::--- src/d",
    );
    let strace = Strace::inject(&scene, "fsetxattr", "error=ENOSPC");
    strace.run(scene.command(NONE)).assert_says("cannot set an extended attribute of");
    assert!(!strace.injected().is_empty());
    assert_eq!(shell(&scene, "stat -c %a src/f src/d dst/f dst/d"), "640\n750\n600\n700\n");
}

/// A kept file that cannot be closed is not "now as at the source".
#[test]
fn a_copy_that_cannot_be_closed_is_a_failure() {
    need!(Root, Loop);
    Mount::privately();
    let scene = Scene::new();
    let mount = Mount::ext4(&scene.path("image"), 16, &scene.path("dst"));
    scene.src.file("key", "secret");
    scene.copy(&[]).assert_code(0);
    shell(&scene, "chattr +i dst/key; chmod 600 src/key");
    let run = scene.copy(&["--overwrite-policy=update"]);
    assert_eq!(shell(&scene, "stat -c %a dst/key; chattr -i dst/key"), "644\n");
    run.assert_code(1).assert_says("dst/key: Operation not permitted");
    assert!(!run.out().contains("as at the source"), "{}", run.out());
    scene.copy(&["--overwrite-policy=update"]).assert_code(0);
    assert_eq!(shell(&scene, "stat -c %a dst/key"), "600\n");
    mount.detach();
}

/// What only Windows has is not silently left out elsewhere.
#[test]
fn metadata_of_windows_are_refused_here() {
    let scene = Scene::new();
    scene.src.file("a", "a");
    scene.copy(&["--windows-metadata"]).assert_code(2).assert_says("that only Windows has");
    assert!(!scene.dst.exists());
}
