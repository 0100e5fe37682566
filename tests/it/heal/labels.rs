//! What a file has beside its content when it is healed: owners, permissions, access lists, attributes, times.

use crate::harness::{Act, Habit, Mirror, Mount, Scene, Strace, content, need, shell};

use super::{MIB, copies, heal, healed, is_whole, rot};

/// Everything that a file has beside its content, and the directory that it is in.
fn labels(scene: &Scene, tree: &str) -> String {
    let names = "dir dir/film.mov dir/none dir/sub dir/sub/gone dir/small";
    let line = format!(
        "cd {tree}; for name in {names}; do
           stat -c '%n %A %u:%g %Y.%y' $name; getfacl -np $name; getfattr -h -m - -d -e hex $name
         done | grep -v SGI_ACL # what xfs keeps its lists in"
    );
    shell(scene, &line)
}

fn fill(scene: &Scene) {
    scene.src.file("dir/film.mov", content(5 * MIB + 77)).file("dir/none", content(2 * MIB));
    scene.src.file("dir/sub/gone", content(3 * MIB)).file("dir/small", content(500));
    // Times come last: setting anything else changes none but those of the entry itself.
    shell(
        scene,
        "cd src; setfacl -m u:1234:rw,g:99:r,m::rw dir/film.mov; setfacl -m u:77:r dir/sub/gone
         setfacl -d -m u:4321:rwx,g::r dir; setfacl -d -m u:8:rx dir/sub
         setfattr -n user.note -v kept dir/film.mov; setfattr -n user.note -v here dir/sub/gone
         setfattr -n trusted.secret -v root dir/none
         chown 1234:5678 dir/film.mov dir/small; chown 77:88 dir/sub/gone dir/sub; chown 3:4 dir
         chmod 4751 dir/small; chmod 2755 dir/sub; chmod 0 dir/none
         setfattr -n security.capability \
           -v 0x0100000200040000000000000000000000000000 dir/none
         for name in dir/film.mov dir/none dir/sub/gone dir/small dir/sub dir; do
           touch -h -d '2003-02-01 04:05:06.123456789' $name
         done",
    );
}

/// Bad files keep what they have, and those that are missing get what the copy has; so do directories. Nothing
/// is taken from what a directory would give to new files.
#[test]
fn owners_access_lists_and_attributes_are_kept() {
    need!(Root, Attr, Kinds);
    for kind in ["none", "xfs", "btrfs"] {
        let scene = Scene::on_disk();
        let (image, at) = (scene.path("image"), scene.path("m"));
        std::fs::create_dir(&at).unwrap();
        let _mount = (kind != "none").then(|| Mount::of_kind(kind, &image, &at));
        fill(&scene);
        copies(&scene, &["m/A", "m/B"], &[]);
        let was = labels(&scene, "src");
        assert_eq!(was, labels(&scene, "m/A"), "{kind}: the copy itself");
        rot(&scene, "m/A/dir/film.mov", &[7, 4 * MIB]);
        rot(&scene, "m/A/dir/none", &[0]);
        rot(&scene, "m/A/dir/small", &[0]);
        // Who writes to a file takes such a right from it.
        shell(
            &scene,
            "setfattr -n security.capability -v 0x0100000200040000000000000000000000000000 m/A/dir/none",
        );
        shell(&scene, "rm -r m/A/dir/sub; touch -d '2003-02-01 04:05:06.123456789' m/A/dir");
        let run = heal(&scene, &["m/A", "m/B"]);
        run.assert_code(0);
        assert_eq!(healed(&run).len(), 4, "{kind}: {}", run.err());
        assert_eq!(was, labels(&scene, "m/A"), "{kind}");
        is_whole(&scene.path("m/A"));
    }
}

/// What cannot be given to a healed file is said; its content is right all the same.
#[test]
fn what_cannot_be_kept_is_said() {
    need!(Root, Attr, Setpriv);
    let scene = Scene::on_disk();
    scene.src.file("a.mov", content(2 * MIB + 1)).file("b", content(2 * MIB));
    copies(&scene, &["A", "B"], &[]);
    rot(&scene, "A/a.mov", &[7]);
    // As another user, who owns the tree but not the file.
    shell(&scene, "chmod a+rx .; chown -R 65534:65534 A B; chown 1234 A/a.mov; chmod 666 A/a.mov");
    let run = scene.bare(["heal", "A", "B"]).under_nobody().run();
    assert_eq!(healed(&run), ["A/a.mov: 1 MiB from B"], "{}", run.err());
    run.assert_code(0).assert_says("A/a.mov");
    run.assert_says("cannot keep the owner of A/a.mov");
    is_whole(&scene.path("A"));
}

/// Who may write to the directory of a copy puts a file of his in its place, to be given what is good.
#[test]
fn a_bad_file_of_another_user_gets_no_more_than_the_good_copy_has() {
    need!(Root);
    for len in [300, 2 * MIB + 5] {
        let scene = Scene::new();
        scene.src.file("key", content(len)).file("dir/open", content(len));
        shell(&scene, "chmod 777 src; chown 1001:1001 src/key; chmod 600 src/key");
        copies(&scene, &["A", "B"], &[]);
        shell(
            &scene,
            "cp A/key new; rm A/key; printf x | dd of=new bs=1 conv=notrunc status=none; mv new A/key
             chown 1002:1002 A/key; chmod 644 A/key; rot=A/dir/open
             printf x | dd of=$rot bs=1 conv=notrunc status=none; chmod 666 $rot",
        );
        let run = heal(&scene, &["A", "B"]);
        run.assert_code(0).assert_says("A/key");
        let look = "stat -c '%u:%g %a' A/key A/dir/open";
        assert_eq!(shell(&scene, look), "1001:1001 600\n0:0 644\n", "{}", run.err());
        is_whole(&scene.path("A"));
    }
}

/// Who may write to the directory gives the name of a bad file to another that has rights of its own.
#[test]
fn a_healed_file_gets_no_rights_that_the_good_copy_has_not() {
    need!(Root, Attr);
    let scene = Scene::on_disk();
    scene.src.file("x", "content").file("tool", "another");
    copies(&scene, &["A", "B"], &[]);
    shell(
        &scene,
        "setfacl -m u:1002:rw A/tool; setfattr -n user.note -v kept A/tool
         setfattr -n security.capability -v 0x0100000200040000000000000000000000000000 A/tool
         mv A/tool A/x",
    );
    let run = heal(&scene, &["A", "B"]);
    run.assert_code(0).assert_says("cannot keep the rights of A/x");
    let look = "getfattr -h -m - A/x | grep -v '^$'; stat -c %a A/x";
    assert_eq!(shell(&scene, look), "# file: A/x\nuser.note\n604\n");
    is_whole(&scene.path("A"));
}

/// Where there is an access list the bits of the group are its mask.
#[test]
fn a_healed_file_is_closed_to_whom_the_list_of_the_good_copy_keeps_out() {
    need!(Root, Attr);
    let scene = Scene::on_disk();
    scene.src.file("x", "content");
    copies(&scene, &["A", "B"], &[]);
    shell(
        &scene,
        "chmod 640 A/x B/x; chgrp 1002 A/x B/x; printf rotten! >A/x; setfacl -m u:1003:r,g::---,m::r B/x; stat -c %a B/x | grep 640",
    );
    heal(&scene, &["A", "B"]).assert_code(0);
    assert_eq!(shell(&scene, "stat -c %a A/x; cat A/x"), "600\ncontent");
}

/// Who may write to the directory puts a file of his in the place of the new one, which waits for its name.
#[test]
fn a_file_that_takes_the_place_of_the_new_one_is_not_good() {
    need!(Strace);
    for is_missing in [false, true] {
        let scene = Scene::new();
        scene.src.file("d/f", content(2 * MIB + 5));
        copies(&scene, &["A", "B"], &[]);
        match is_missing {
            true => std::fs::remove_file(scene.path("A/d/f")).unwrap(),
            false => rot(&scene, "A/d/f", &[7]),
        }
        // Where no record has the file, nothing is noted of it, which would be synced first.
        shell(&scene, "rm A/.dircopy/record");
        let stop = Strace::inject(&scene, Strace::SYNCS, "signal=SIGSTOP:when=1");
        let swap = "cd A/d && echo evil > evil && mv evil .*.dircopy-part";
        let run = stop.run_stopped(scene.bare(["heal", "A", "B"]), || drop(shell(&scene, swap)));
        run.assert_code(4).assert_says("took the place of its part file");
        assert!(healed(&run).is_empty(), "{}", run.err());
        assert_eq!(shell(&scene, "cat A/d/f"), "evil\n");
        heal(&scene, &["A", "B"]).assert_code(0);
        is_whole(&scene.path("A"));
    }
}

/// Makes two copies of a directory that is closed to others, `d` of the user 1001, which holds `key` and `large`.
fn copies_of_a_closed_directory(scene: &Scene) {
    scene.src.file("d/key", "bob's").file("d/large", content(2 * MIB + 5)).file("e/open", "open");
    shell(scene, "chmod a+rx .; chmod 777 src; chown -R 1001:1001 src/d; chmod 700 src/d");
    shell(scene, "chmod 644 src/d/*; chmod 755 src/e");
    copies(scene, &["A", "B"], &[]);
}

/// Who may write to the tree moves a closed directory away, and puts one of his there that he can look into.
#[test]
fn nothing_good_gets_into_a_directory_that_is_open_to_more_than_the_good_one() {
    need!(Root);
    let bad = "printf x > A/d/key; chmod 644 A/d/key";
    for (dir, owner, mode) in [
        // Of another user, with files of his or without.
        ("mkdir A/d", 1002, "755"),
        ("mkdir A/d; printf x > A/d/key; chmod 644 A/d/key; cp A/.old/large A/d", 1002, "700"),
        // One of the tree, moved.
        ("mv A/e A/d", 0, "755"),
        ("mkdir A/d", 1001, "711"),
        ("mkdir A/d", 1001, "750"),
    ] {
        let scene = Scene::new();
        copies_of_a_closed_directory(&scene);
        shell(
            &scene,
            &format!("mv A/d A/.old; {dir}; chown {owner}:{owner} A/d; chmod {mode} A/d"),
        );
        for args in
            [&["heal", "-n", "A", "B"][..], &["heal", "A", "B"], &["heal", "A", "--from-tree", "B"]]
        {
            let run = scene.bare(args).run();
            run.assert_code(4).assert_says(
                "not healed: A/d/key: A/d may be entered by users who may not enter B/d",
            );
            assert!(!run.err().contains("healed: A/d/large: 2 MiB from B"), "{}", run.err());
            assert_eq!(
                shell(&scene, "cat A/d/* 2>/dev/null | grep -c bob || true"),
                "0\n",
                "{dir}"
            );
        }
        // As the message says.
        shell(&scene, "mv A/d A/.new");
        heal(&scene, &["A", "B"]).assert_code(0);
        assert_eq!(
            shell(&scene, "stat -c '%u:%g %a' A/d A/d/key"),
            "1001:1001 700\n1001:1001 644\n"
        );
        is_whole(&scene.path("A"));
        shell(&scene, &format!("{bad}; chmod 755 A/d"));
        heal(&scene, &["A", "B"]).assert_code(4);
        shell(&scene, "chmod 700 A/d");
        heal(&scene, &["A", "B"]).assert_code(0);
        is_whole(&scene.path("A"));
    }
}

/// Who owns the directory that a tree is in puts one of his in the place of the tree: what is good does not get into it,
/// with the tree's own manifest or another. That the root lets in more is told, and does not stop what is ordinary.
#[test]
fn nothing_good_gets_into_a_tree_that_another_user_put_there() {
    need!(Root);
    let his = "mv p/d1 p/old; mkdir p/d1; chown 1002:1002 p/d1";
    let wider = "not healed: p/d1/key: others may write above p/d1, who can have put it there, and users may enter it who \
                 may not come to safe/d2";
    let ways: [(&str, &str, i32, &str); 7] = [
        (
            "chmod 700 safe",
            his,
            4,
            "not healed: p/d1/key: p/d1 belongs to another user, who may not enter safe/d2",
        ),
        // A directory above is closed.
        (
            "chmod 700 safe; chmod 755 safe/d2",
            his,
            4,
            "not healed: p/d1/key: p/d1 belongs to another user",
        ),
        // What everybody may read.
        (
            "chmod 755 safe/d2",
            his,
            0,
            "cannot keep others out of p/d1: it may be entered by users who may not enter safe/d2, or",
        ),
        // The good one is that user's too.
        ("chown 1002:1002 safe/d2", his, 0, "healed: p/d1/key"),
        // A wider one of root's in the place of the closed one.
        ("true", "mv p/d1 p/old; mkdir -m 777 p/d1", 4, wider),
        // Its own, which nobody else can have opened, or put there.
        ("true", "chmod 755 p/d1; rm p/d1/key", 4, wider),
        ("chown 0 p", "chmod 755 p/d1; rm p/d1/key", 0, "cannot keep others out of p/d1"),
    ];
    for (first, then, code, says) in ways {
        for planted in [false, true] {
            let scene = Scene::new();
            scene.src.file("key", "secret").file("other", "more");
            shell(&scene, "chmod a+rx .; chmod 700 src; mkdir p safe; chown 1002 p");
            copies(&scene, &["p/d1", "safe/d2"], &[]);
            shell(&scene, first);
            shell(&scene, then);
            shell(&scene, "cp safe/d2/dircopy-*.sha256sum list");
            if planted {
                shell(&scene, "cp -p list p/d1/dircopy-20300101T000000Z.sha256sum");
                shell(&scene, "chown --reference=p/d1 p/d1/*; chmod 644 p/d1/*.sha256sum");
            }
            let list: &[&str] = if planted { &[] } else { &["-m", "list"] };
            for args in [
                [&["heal", "-n"], list, &["p/d1", "safe/d2"]].concat(),
                [&["heal"], list, &["p/d1", "safe/d2"]].concat(),
                [&["heal"], list, &["p/d1", "--from-tree", "safe/d2"]].concat(),
            ] {
                let run = scene.bare(&args).run();
                let is_mended = code == 0 && args.contains(&"--from-tree");
                if is_mended || args.contains(&"-n") {
                    run.assert_code(if code == 4 || args.contains(&"-n") { 4 } else { 0 });
                } else {
                    run.assert_code(code).assert_says(says);
                }
                let warnings = run.err().matches("cannot keep others out of").count();
                assert!(warnings <= 1, "{}", run.err());
            }
            let there = scene.path("p/d1/key").exists();
            assert_eq!(there, code == 0, "{first} {then}");
        }
    }
    // An open directory in the place of the closed one that the tree was in.
    let scene = Scene::new();
    scene.src.file("key", "secret");
    shell(&scene, "chmod a+rx .; mkdir p p/open; mkdir -m 700 p/own safe; chown 1002 p");
    copies(&scene, &["p/own/t", "p/open/t", "safe/t"], &[]);
    shell(&scene, "rm p/own/t/key");
    heal(&scene, &["p/own/t", "safe/t"]).assert_code(0);
    shell(&scene, "rm p/open/t/key; mv p/own p/x; mv p/open p/own");
    for args in [&["heal", "-n", "p/own/t", "safe/t"][..], &["heal", "p/own/t", "safe/t"]] {
        let run = scene.bare(args).run();
        run.assert_code(4).assert_says("not healed: p/own/t/key: others may write above p/own/t");
    }
    assert!(!scene.path("p/own/t/key").exists());
    // A disk beside a home, of one user: nothing is said where nothing is more open.
    let scene = Scene::new();
    scene.src.file("key", "secret");
    copies(&scene, &["A", "B"], &[]);
    shell(&scene, "chmod 700 A; chmod 755 B; rm A/key");
    let run = heal(&scene, &["A", "B"]);
    run.assert_code(0);
    assert!(!run.err().contains("keep others out"), "{}", run.err());
}

/// Who may write to both trees exchanges a closed directory with an open one when the good file was opened, and before
/// the directories are compared.
#[test]
fn nothing_good_gets_into_directories_that_are_exchanged_in_both_trees() {
    need!(Root, Strace);
    let bad = || {
        let scene = Scene::new();
        copies_of_a_closed_directory(&scene);
        shell(&scene, "printf x > A/d/key; chmod 644 A/d/key");
        scene
    };
    let args = ["heal", "A", "B"];
    // The first handle of a tree's root that is made twice is for the way down.
    let scene = bad();
    let watch = Strace::watch(&scene, "fcntl").exactly_on(scene.path("A"));
    watch.run(scene.bare(args)).assert_code(0);
    let log = watch.log();
    let copied = log.lines().find(|line| line.contains("F_DUPFD")).unwrap();
    let thread = copied.split(' ').next().unwrap();
    let calls = log.lines().filter(|line| line.starts_with(thread));
    let when = calls.take_while(|line| *line != copied).count() + 1;

    let scene = bad();
    let stop = Strace::inject(&scene, "fcntl", &format!("signal=SIGSTOP:when={when}"));
    let exchange =
        "for tree in A B; do mv $tree/d $tree/x; mv $tree/e $tree/d; mv $tree/x $tree/e; done";
    let run = stop
        .exactly_on(scene.path("A"))
        .run_stopped(scene.bare(args), || drop(shell(&scene, exchange)));
    run.assert_code(4)
        .assert_says("not healed: A/d/key: directories of a good tree were exchanged");
    assert_eq!(shell(&scene, "ls A/d"), "open\n");
    shell(&scene, exchange);
    scene.bare(args).run().assert_code(0);
    is_whole(&scene.path("A"));
}

/// A tree that gives but a part lends a missing directory no more than the narrowest has.
#[test]
fn a_missing_directory_is_made_as_the_narrowest_good_one() {
    need!(Root);
    let scene = Scene::new();
    scene.src.file("d/large", content(2 * MIB + 5));
    shell(&scene, "chown -R 1001:1001 src/d; chmod 700 src/d; chmod 644 src/d/large");
    copies(&scene, &["A", "B", "C"], &[]);
    rot(&scene, "B/d/large", &[7]);
    rot(&scene, "C/d/large", &[2 * MIB]);
    shell(&scene, "rm -r A/d; chown 1002:1002 B/d B/d/large; chmod 755 B/d");
    let run = heal(&scene, &["A", "--from-tree", "B", "--from-tree", "C"]);
    run.assert_code(0);
    assert_eq!(shell(&scene, "stat -c '%u:%g %a' A/d"), "1001:1001 700\n", "{}", run.err());
    is_whole(&scene.path("A"));
}

/// Where everything belongs to everybody, owners and permissions say nothing.
#[test]
fn where_there_are_no_owners_files_are_healed_as_ever() {
    need!(Root, Fuse);
    let scene = Scene::new();
    copies_of_a_closed_directory(&scene);
    shell(&scene, "mkdir state; printf x > A/d/key; printf x > B/d/large");
    let _mirror = Mirror::with_habits(
        &scene.path("A"),
        &scene.path("disk"),
        &[Habit::HasNoPermissions],
        |_| Act::Pass,
    );
    let run = scene.bare(["heal", "disk", "--from-tree", "B", "--state", "state"]).run();
    run.assert_code(0).assert_says("healed: disk/d/key");
    let run = heal(&scene, &["B", "--from-tree", "disk"]);
    run.assert_code(0).assert_says("healed: B/d/large");
    is_whole(&scene.path("A"));
    is_whole(&scene.path("B"));
}

/// Who holds a directory open reads what is put into it, whatever those above let him.
#[test]
fn nothing_good_gets_into_a_strangers_directory_below_a_closed_one() {
    need!(Root);
    let scene = Scene::new();
    scene.src.file("d/sub/key", "bob's").file("e/sub/open", "open");
    shell(&scene, "chmod a+rx .; chmod 755 src src/* src/*/sub; chmod 700 src/d");
    shell(&scene, "chown -R 1001:1001 src/d; chmod 644 src/*/sub/*");
    copies(&scene, &["A", "B"], &[]);
    shell(&scene, "rm A/*/sub/*; chown 1002:1002 A/*/sub");
    for args in [&["-n", "A", "B"], &["A", "B"][..]] {
        let run = scene.bare([&["heal"], args].concat()).run();
        run.assert_code(4).assert_says("not healed: A/d/sub/key: A/d/sub may be entered by users");
        assert_eq!(shell(&scene, "ls A/d/sub"), "");
    }
    // What everyone may read is kept from nobody.
    assert_eq!(shell(&scene, "cat A/e/sub/open"), "open");
    shell(&scene, "mv A/d/sub A/e/.old");
    heal(&scene, &["A", "B"]).assert_code(0);
    is_whole(&scene.path("A"));
}

/// Two copies of a directory in another, both closed to others; in one of them they are gone.
fn without_directories() -> Scene {
    let scene = Scene::new();
    scene.src.file("d/sub/key", "bob's").file("e/open", "open");
    shell(
        &scene,
        "chmod a+rx .; chmod 777 src; chown -R 1001:1001 src/d; chmod 700 src/d src/d/sub",
    );
    shell(&scene, "chmod 644 src/d/sub/key");
    copies(&scene, &["A", "B"], &[]);
    shell(&scene, "rm -r A/d");
    scene
}

/// Who may write to the tree puts a directory of his in the place of one that heal just made, or that waits for its name.
#[test]
fn nothing_good_gets_into_a_directory_that_took_the_place_of_a_new_one() {
    need!(Root, Strace);
    let stops = [("mkdirat", 1), (Strace::SYNCS, 1), (Strace::SYNCS, 3), (Strace::RENAMES, 2)];
    for (calls, when) in stops {
        let scene = without_directories();
        let stop = Strace::inject(&scene, calls, &format!("signal=SIGSTOP:when={when}"));
        let hers = "cd A; for name in d .*dircopy-part; do
            if [ -d $name ]; then mv $name e/moved; mkdir -m 777 $name; chown 1002:1002 $name; fi; done
            ls -d e/moved";
        let run = stop.run_stopped(scene.bare(["heal", "A", "B"]), || drop(shell(&scene, hers)));
        run.assert_code(4).assert_says("took the place of its part file");
        assert!(healed(&run).is_empty(), "{}", run.err());
        let hers = "find A -user 1002 -type d -exec find {} -type f \\;";
        assert_eq!(shell(&scene, hers), "", "{calls} {when}");
        shell(&scene, "rm -rf A/e/moved A/d A/.*dircopy-part");
        heal(&scene, &["A", "B"]).assert_code(0);
        is_whole(&scene.path("A"));
    }
}

/// A run that is killed leaves a missing directory missing, or as it is to be; and what else it leaves the next removes.
#[test]
fn a_missing_directory_appears_whole_or_not_at_all() {
    need!(Root, Strace);
    let look = "stat -c '%n %u:%g %a %Y' d d/sub d/sub/key";
    let mut kills = 0;
    for call in ["mkdirat", "fchown", "fchmod", "fsync", "fdatasync", "renameat2", "utimensat"] {
        for when in 1.. {
            let scene = without_directories();
            let strace = Strace::inject(&scene, call, &format!("signal=KILL:when={when}"));
            let run = strace.run(scene.bare(["heal", "-q", "A", "B"]));
            let is_there = scene.path("A/d").exists();
            let good = shell(&scene, &format!("cd B && {look}"));
            if is_there {
                let healed = shell(&scene, &format!("cd A && {look}"));
                assert_eq!(healed, good, "{call} {when}");
            }
            if run.code == Some(0) {
                assert!(is_there);
                break;
            }
            kills += 1;
            heal(&scene, &["A", "B"]).assert_code(0);
            let healed = shell(&scene, &format!("cd A && {look}"));
            assert_eq!(healed, good, "{call} {when}");
            assert_eq!(shell(&scene, "find A -name '*dircopy-part*'"), "", "{call} {when}");
            is_whole(&scene.path("A"));
            assert!(when < 100);
        }
    }
    assert!(kills > 10, "{kills}");
}

/// What cannot be healed after all leaves no directory, and neither does what another made meanwhile.
#[test]
fn a_directory_that_gets_no_file_is_not_made() {
    need!(Root, Strace);
    let scene = without_directories();
    shell(&scene, "printf x > B/d/sub/key");
    heal(&scene, &["A", "B"]).assert_code(4);
    assert_eq!(shell(&scene, "ls -A A | grep -e d$ -e part || true"), "");
    let scene = without_directories();
    let stop = Strace::inject(&scene, Strace::SYNCS, "signal=SIGSTOP:when=2");
    let run = stop.run_stopped(scene.bare(["heal", "A", "B"]), || drop(shell(&scene, "mkdir A/d")));
    run.assert_code(4).assert_says("cannot make the directory");
    assert_eq!(shell(&scene, "ls -A A/d; ls -A A | grep part || true"), "", "{}", run.err());
}

/// A run of root's that is killed when the new file has its owner leaves it to the next one, which removes it.
#[test]
fn a_part_file_that_was_given_away_is_removed() {
    need!(Root, Strace);
    for call in ["fchmod", Strace::SYNCS, Strace::RENAMES] {
        let scene = Scene::new();
        scene.src.file("d/key", content(300));
        shell(&scene, "chown 1001:1001 src/d/key; chmod 640 src/d/key");
        copies(&scene, &["A", "B"], &[]);
        rot(&scene, "A/d/key", &[0]);
        // Nothing is noted of it then, which would be synced first.
        shell(&scene, "rm A/.dircopy/record");
        let strace = Strace::inject(&scene, call, "signal=KILL:when=1");
        let run = strace.run(scene.bare(["heal", "-q", "A", "B"]));
        assert_eq!(run.signal, Some(9), "{call}");
        assert_eq!(shell(&scene, "stat -c %u A/d/.*part"), "1001\n", "{call}");
        heal(&scene, &["A", "B"]).assert_code(0);
        assert_eq!(shell(&scene, "ls -A A/d"), "key\n", "{call}");
        is_whole(&scene.path("A"));
    }
}

/// The time of the damage would make the healed file look edited: a copy would leave it, and list it no longer.
#[test]
fn a_healed_file_has_the_time_that_it_had() {
    for has_record in [true, false] {
        let scene = Scene::new();
        scene.src.file("a", content(9000)).mtime("a", 1_400_000_000, 7).file("b", "b");
        for name in ["A", "B"] {
            scene.command_to(scene.src.root(), scene.path(name), ["-q"]).run().assert_code(0);
        }
        if !has_record {
            shell(&scene, "rm -r A/.dircopy");
        }
        shell(&scene, "printf X | dd of=A/a conv=notrunc status=none");
        scene.bare(["heal", "A", "B"]).run().assert_code(0).assert_says("healed: A/a");
        assert_eq!(shell(&scene, "stat -c %.9Y A/a"), "1400000000.000000007\n");
        let run = scene.command_to(scene.src.root(), scene.path("A"), ["--verify"]).run();
        run.assert_code(0).assert_prints(&["done: 2 files"]);
        assert_eq!(shell(&scene, "cat $(ls A/*.sha256sum | tail -n 1) | wc -l"), "2\n");
    }
}
