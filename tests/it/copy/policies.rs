//! What happens to what is there already: every cell of the overwrite table, and running again.

use std::{fs, time::Duration};

use crate::harness::{Mount, NONE, Scene, Strace, content, ctimes, need, shell};

const POLICIES: [&str; 4] = ["default", "update", "never", "always"];
const TIME: u64 = 1_000_000_000;

/// What a policy makes of one entry.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Fate {
    /// It is a copy already: untouched and listed.
    Keep,
    /// It becomes a copy.
    Replace,
    /// It is untouched, named, not listed, and the exit code is 1.
    Leave,
}
use Fate::{Keep, Leave, Replace};

/// Bytes that are those of no source here.
fn other(len: usize) -> Vec<u8> {
    vec![b'#'; len]
}

#[test]
fn every_cell_of_the_table() {
    // The case, the bytes at the output of a source of `len`, how much older than the source they
    // are, and the fate under each policy in the order of POLICIES.
    type Row = (&'static str, fn(usize) -> Vec<u8>, i64, [Fate; 4]);
    let rows: &[Row] = &[
        ("same size and time", other, 0, [Replace, Replace, Leave, Replace]),
        ("same in every way", content, 0, [Keep, Keep, Keep, Replace]),
        ("cut off, older", |n| content(n / 2), 9, [Replace, Replace, Leave, Replace]),
        ("cut off, same time", |n| content(n - 1), 0, [Replace, Replace, Leave, Replace]),
        ("cut off to nothing", |_| vec![], 9, [Replace, Replace, Leave, Replace]),
        ("same size, source newer", other, 9, [Leave, Replace, Leave, Replace]),
        ("longer, source newer", |n| other(n + 1), 9, [Leave, Replace, Leave, Replace]),
        ("same size, output newer", other, -9, [Leave, Leave, Leave, Replace]),
        ("longer, output newer", |n| other(n + 1), -9, [Leave, Leave, Leave, Replace]),
        ("shorter, output newer", |n| content(n - 1), -9, [Leave, Leave, Leave, Replace]),
    ];
    for (column, policy) in POLICIES.iter().enumerate() {
        for (case, bytes, older, fates) in rows {
            for len in [5000, 300_000] {
                let fate = fates[column];
                let scene = Scene::new();
                scene.src.file("bystander", "b").file("d/file", content(len));
                scene.src.mtime("d/file", TIME, 7);
                let output = scene.output();
                output.file("d/file", bytes(len));
                output.mtime("d/file", TIME.checked_add_signed(-older).unwrap(), 7);
                let before = ctimes(&output.path("d"));
                let run = scene.copy(&["--overwrite-policy", policy]);
                let what = format!("{policy}: {case} ({len} bytes): expected {fate:?}");
                let judge = scene.judge(&run);
                let untouched = ctimes(&output.path("d")) == before;
                if untouched != (fate != Replace) {
                    run.fail(&what);
                }
                match fate {
                    Keep => judge.lists(&["bystander", "d/file"]),
                    Replace => judge.lists(&["bystander", "d/file"]).has("d/file"),
                    Leave => judge.lists(&["bystander"]),
                };
                if fate == Leave {
                    run.assert_code(1).assert_says("d/file");
                } else {
                    run.assert_code(0);
                }
                judge.verifies().no_leftovers().has("bystander");
            }
        }
    }
}

#[test]
fn no_policy_named_is_the_default_policy() {
    let scene = Scene::new();
    scene.src.file("file", content(50)).mtime("file", TIME, 0);
    scene.output().file("file", other(50)).mtime("file", TIME - 9, 0);
    scene.copy(&[]).assert_code(1).assert_says("file");
    assert_eq!(scene.output().read("file"), other(50));
}

#[test]
fn a_symlink_or_directory_in_the_way_of_a_file() {
    for policy in POLICIES {
        for way in ["symlink to a file", "symlink to a directory", "dangling symlink", "directory"]
        {
            let scene = Scene::new();
            scene.tree("outside").file("file", "outside").file("dir/file", "outside");
            scene.src.file("entry", content(5000)).file("good", "good");
            let output = scene.output();
            match way {
                "symlink to a file" => output.symlink("entry", "../outside/file"),
                "symlink to a directory" => output.symlink("entry", "../outside/dir"),
                "dangling symlink" => output.symlink("entry", "../outside/new"),
                _ => output.file("entry/inside", "inside"),
            };
            let outside = ctimes(&scene.path("outside"));
            let run = scene.copy(&["--overwrite-policy", policy]);
            let judge = scene.judge(&run);
            judge.has("good").verifies().no_leftovers();
            judge.equal(&format!("{way}: outside"), &ctimes(&scene.path("outside")), &outside);
            let kind = output.stat("entry").st_mode & 0o170_000;
            if policy == "always" && way != "directory" {
                run.assert_code(0);
                assert_eq!(kind, 0o100_000, "{way}");
                judge.has("entry");
            } else {
                run.assert_code(1).assert_says("entry");
                assert_eq!(kind, if way == "directory" { 0o040_000 } else { 0o120_000 }, "{way}");
                judge.does_not_list("entry");
                assert!(way != "directory" || output.read("entry/inside") == b"inside");
            }
        }
    }
}

/// A FIFO that waits for a writer must not make us wait.
#[test]
fn a_fifo_in_the_way_of_a_file() {
    for policy in POLICIES {
        let scene = Scene::new();
        scene.src.file("entry", content(5000)).file("good", "good");
        scene.output().fifo("entry");
        let run = scene.copy(&["--overwrite-policy", policy]);
        let judge = scene.judge(&run);
        judge.has("good").verifies().no_leftovers();
        if policy == "always" {
            run.assert_code_in(&[0, 1]);
        } else {
            run.assert_code(1).assert_says("entry");
            judge.does_not_list("entry");
        }
    }
}

#[test]
fn a_file_in_the_way_of_a_directory_costs_that_directory_only() {
    for policy in POLICIES {
        let scene = Scene::new();
        scene.src.file("dir/one", "1").file("dir/two", "2").file("good", "good");
        scene.output().file("dir", "a file");
        let run = scene.copy(&["--overwrite-policy", policy]);
        run.assert_code(1).assert_says("dir");
        scene.judge(&run).lists(&["good"]).has("good").verifies().no_leftovers();
        assert_eq!(scene.output().read("dir"), b"a file");
    }
}

/// The second run of a finished job touches nothing and still lists everything.
#[test]
fn a_second_run_copies_nothing() {
    for policy in ["default", "update", "never"] {
        let scene = Scene::new();
        for i in 0..40 {
            scene.src.file(format!("d{}/f{i}", i % 7), content(i * 3000));
        }
        scene.src.file("empty", "").symlink("link", "empty");
        let first = scene.copy(&[]);
        let judge = scene.judge(&first);
        judge.complete();
        let old = judge.manifest();
        let keep = |entries: std::collections::BTreeSet<Vec<u8>>| {
            let ours = |e: &Vec<u8>| e.windows(8).any(|w| w == b"dircopy-");
            entries.into_iter().filter(|e| !ours(e)).collect()
        };
        let before = keep(ctimes(&scene.dst));
        let second = scene.copy(&["--overwrite-policy", policy]);
        let judge = scene.judge(&second);
        judge.complete().equal("entries", &keep(ctimes(&scene.dst)), &before);
        assert_eq!(judge.manifests().len(), 2, "the second run has a manifest of its own");
        assert_eq!(judge.lines(&old), judge.lines(&judge.manifest()));
    }
}

/// Another program's copy with a bad byte has the size and time of its source: no run of ours has seen both.
#[test]
fn a_copy_that_no_run_made_is_held_against_the_source() {
    for args in [&[][..], &["--verify"], &["--verify-source"], &["--overwrite-policy", "never"]] {
        let scene = Scene::new();
        scene.src.file("good", content(300_000)).file("d/bad", content(500_000));
        shell(
            &scene,
            "cp -a src dst; printf x | dd of=dst/d/bad bs=1 seek=70000 conv=notrunc status=none
             touch -r src/d/bad dst/d/bad",
        );
        let run = scene.copy(args);
        run.assert_says("its content differs although size and time are the same");
        if args.contains(&"never") {
            run.assert_code(1);
            scene.judge(&run).verifies().does_not_list("d/bad");
        } else {
            scene.judge(&run).complete();
        }
        // What a run has seen is not read again.
        let strace = Strace::watch(&scene, "read,pread64").exactly_on(scene.src.path("good"));
        strace.run(scene.command(NONE));
        assert_eq!(strace.log().lines().count(), 0, "{}", strace.log());
    }
}

#[test]
fn a_new_file_joins_the_old_ones_in_the_next_manifest() {
    let scene = Scene::new();
    scene.src.file("old", content(5000));
    scene.copy(&[]).assert_code(0);
    scene.src.file("dir/new", content(300_000));
    let run = scene.copy(&[]);
    scene.judge(&run).complete().lists(&["old", "dir/new"]);
}

#[test]
fn a_copy_that_was_cut_off_is_repaired() {
    for len in [5000, 300_000] {
        let scene = Scene::new();
        scene.src.file("file", content(len)).mtime("file", TIME, 0);
        scene.copy(&[]).assert_code(0);
        scene.output().file("file", content(len / 2)).mtime("file", TIME, 0);
        let run = scene.copy(&[]);
        scene.judge(&run).complete();
    }
}

/// Lets the clock tick and makes the newest manifest newer than all that it lists.
fn age(scene: &Scene) {
    std::thread::sleep(Duration::from_millis(50));
    shell(scene, "touch dst/dircopy-*.sha256sum");
    std::thread::sleep(Duration::from_millis(50));
}

/// The digest of a file that did not change since it was listed is not worked out again.
#[test]
fn digests_are_carried_over_without_reading_the_files() {
    need!(Strace);
    for len in [5000, 300_000] {
        let scene = Scene::new();
        scene.src.file("file", content(len)).file("dir/inner", content(len + 1));
        scene.copy(&[]).assert_code(0);
        age(&scene);
        let reads = |scene: &Scene| {
            let strace = Strace::watch(scene, "read,pread64,readv,preadv,preadv2,mmap")
                .exactly_on(scene.dst.join("file"))
                .exactly_on(scene.dst.join("dir/inner"));
            let run = strace.run(scene.command(NONE));
            scene.judge(&run).complete();
            strace.log()
        };
        assert_eq!(reads(&scene), "", "unchanged, and read again");
        // Whatever changes the file changes its ctime; the line may not be believed any more.
        age(&scene);
        shell(&scene, "chmod 640 src/file dst/file");
        let log = reads(&scene);
        assert!(log.contains("dst/file"), "changed, and not read again: {log}");
        assert!(!log.contains("dir/inner"), "unchanged, and read again: {log}");
    }
}

/// Damage that hides behind the old size and time must not be listed under the old digest.
#[test]
fn a_file_changed_behind_the_manifest_is_not_listed_under_its_old_digest() {
    let scene = Scene::new();
    scene.src.file("file", content(5000)).mtime("file", TIME, 0);
    scene.copy(&[]).assert_code(0);
    age(&scene);
    scene.output().file("file", other(5000)).mtime("file", TIME, 0);
    let run = scene.copy(&[]);
    scene.judge(&run).verifies().no_leftovers();
}

/// A manifest with a wrong digest but older than the file it lists proves nothing.
#[test]
fn an_older_manifest_is_not_believed() {
    let scene = Scene::new();
    scene.src.file("file", content(5000));
    scene.copy(&[]).assert_code(0);
    shell(
        &scene,
        "m=$(echo dst/dircopy-*.sha256sum); sed -i s/^......../00000000/ $m; touch -d 2001-01-01 $m",
    );
    let run = scene.copy(&[]);
    scene.judge(&run).complete();
}

/// A torn, foreign or hostile list at the output harms nobody.
#[test]
fn a_broken_earlier_manifest_is_no_obstacle() {
    let lists: &[&[u8]] = &[
        b"",
        b"\0\0\0",
        b"nonsense\n\n\xff\xfe",
        b"00  file",
        b"0000000000000000000000000000000000000000000000000000000000000000  ../../src/file\n",
        b"0000000000000000000000000000000000000000000000000000000000000000  /etc/passwd\n",
        b"0000000000000000000000000000000000000000000000000000000000000000  torn",
    ];
    for list in lists {
        let scene = Scene::new();
        scene.src.file("file", content(5000));
        scene.copy(&[]).assert_code(0);
        scene.output().file("dircopy-20990101T000000Z.sha256sum", list);
        scene.output().file("dircopy-20990102T000000Z.sha256sum.part", list);
        let run = scene.copy(&[]);
        run.assert_code(0);
        let own = scene.judge(&run).manifests().into_iter().filter(|m| {
            !m.to_str().unwrap().contains("2099") && {
                scene.judge(&run).list_verifies(m);
                scene.judge(&run).lines(m).contains_key(&b"file"[..])
            }
        });
        assert_eq!(own.count(), 2, "each run has a manifest that lists the file");
    }
}

/// The source may forget; the output and its manifest do not.
#[test]
fn lines_of_files_that_left_the_source_are_kept() {
    let scene = Scene::new();
    scene.src.file("stays", "s").file("dir/gone", content(5000)).file("changed", content(5000));
    scene.src.file("deleted", "d");
    scene.copy(&[]).assert_code(0);
    age(&scene);
    for name in ["dir/gone", "changed", "deleted"] {
        scene.src.remove(name);
    }
    scene.output().append("changed", b"more").remove("deleted");
    let run = scene.copy(&[]);
    run.assert_code(0);
    scene.judge(&run).lists(&["stays", "dir/gone"]).verifies().no_leftovers();
}

#[test]
fn copying_over_a_hard_link_of_the_source_leaves_the_source_alone() {
    for policy in POLICIES {
        let scene = Scene::new();
        scene.src.file("file", content(300_000));
        scene.output();
        shell(&scene, "ln src/file dst/file");
        let run = scene.copy(&["--overwrite-policy", policy]);
        scene.judge(&run).sound().no_leftovers();
        assert_eq!(scene.src.read("file"), content(300_000));
        assert_eq!(scene.output().read("file"), content(300_000));
    }
}

/// Larger files are left whatever is at the output, on every path to a file, and every run says so.
#[test]
fn files_may_be_too_large() {
    let scene = Scene::new();
    scene
        .src
        .file("exact", content(1000))
        .file("large", content(1001))
        .file("huge", content(3_000_000));
    scene.src.file("dir/there", content(900));
    shell(&scene, "ln src/large src/link; truncate -s 5T src/zeros");
    let run = scene.copy(&["--exclude", "zeros"]);
    scene.judge(&run).has("huge");
    shell(&scene, "rm dst/huge dst/large dst/link; truncate -s 5T src/dir/there");
    for args in [&[][..], &["--hard-links"], &["--hash", "none"], &["--overwrite-policy=always"]] {
        let run = scene.command(args.iter().chain(&["--max-size", "1000"])).run();
        run.assert_code(1).assert_says("it is larger than --max-size");
        for name in ["large", "link", "huge", "zeros", "dir/there"] {
            run.assert_says(&format!("{name}: "));
        }
        let judge = scene.judge(&run);
        judge.has("exact").lacks("large").lacks("link").lacks("huge").lacks("zeros");
        assert_eq!(scene.output().read("dir/there"), content(900));
    }
    let run = scene.command(["--dry-run", "--max-size", "1000"]).run();
    run.assert_code(1).assert_prints(&["leave zeros: it is larger than --max-size"]);
    // One file alone.
    let run = scene.command_to(scene.path("src/zeros"), &scene.dst, ["--max-size", "1T"]).run();
    run.assert_code(1).assert_says("it is larger than --max-size");
}

/// Two cards of one label number their files alike: what differs may be the other card's, and whole.
#[test]
fn what_another_disk_has_under_the_same_name_is_not_replaced() {
    need!(Loop);
    Mount::privately();
    let scene = Scene::new();
    let mount = |name: &str, files: &[(&str, usize)]| {
        let mount = Mount::ext4(&scene.path(&format!("{name}.image")), 16, &scene.path(name));
        for (file, size) in files {
            fs::write(scene.path(name).join(file), content(*size)).unwrap();
        }
        mount
    };
    let _one = mount("one", &[("shorter", 1000), ("longer", 3000), ("first", 10)]);
    shell(&scene, "touch -d 2026-01-01 one/*; mkdir moved; cp -a one/. moved");
    let copy = |from: &str, args: &[&str]| scene.bare([&[from, "dst"], args].concat()).run();
    copy("one", &["--exclude=lost+found"]).assert_code(0);
    let _two = mount("two", &[("shorter", 2000), ("longer", 2000), ("second", 10)]);
    for args in [&["-n"][..], &[], &[]] {
        let run = copy("two", &[args, &["--exclude=lost+found"]].concat());
        run.assert_code(1);
        let told = format!("{}{}", run.out(), run.err());
        assert_eq!(told.matches("was of another disk: give each card").count(), 2, "{told}");
        assert_eq!(fs::read(scene.dst.join("shorter")).unwrap(), content(1000));
    }
    // What it alone has is there.
    assert!(scene.dst.join("second").exists());
    // A file of the same card that grew is brought over as ever, and so is one of a source that moved, when asked.
    fs::write(scene.path("one/shorter"), content(1500)).unwrap();
    copy("one", &["--exclude=lost+found"]).assert_code(0);
    fs::write(scene.path("moved/shorter"), content(1700)).unwrap();
    copy("moved", &["--exclude=lost+found"]).assert_code(1);
    copy("moved", &["--exclude=lost+found", "--overwrite-policy=update"]).assert_code(0);
    fs::write(scene.path("moved/shorter"), content(1800)).unwrap();
    copy("moved", &["--exclude=lost+found"]).assert_code(0);
    assert_eq!(fs::read(scene.dst.join("shorter")).unwrap(), content(1800));
}

/// An edit at the output whose time could be that of the source, cut, is no damage: also where only a manifest says what
/// the copy was.
#[test]
fn an_edit_at_the_output_with_a_time_that_looks_cut_stays() {
    for (policy, is_left) in [("default", true), ("never", true), ("update", false)] {
        let scene = Scene::new();
        scene.src.file("a", "hello").mtime("a", TIME + 1, 500_000_000);
        scene.copy(&[]).assert_code(0);
        shell(&scene, &format!("rm -r dst/.dircopy; printf MINE! >dst/a; touch -d @{TIME} dst/a"));
        let run = scene.copy(&["--overwrite-policy", policy]);
        run.assert_code(i32::from(is_left));
        assert_eq!(shell(&scene, "cat dst/a"), if is_left { "MINE!" } else { "hello" }, "{policy}");
    }
}

/// Without records nothing tells that the access list is the one that was copied.
#[test]
fn a_list_that_was_dropped_is_dropped_where_nothing_is_recorded() {
    need!(Attr);
    let scene = Scene::on_disk();
    scene.src.file("a", "secret");
    shell(&scene, "chmod 640 src/a; setfacl -m u:65534:r src/a");
    scene.copy(&["--hash=none"]).assert_code(0);
    shell(
        &scene,
        "sleep 0.05; setfacl -b src/a; chmod 640 src/a; sleep 0.05; chmod 600 dst/a; chmod 640 dst/a",
    );
    scene.copy(&["--hash=none", "--overwrite-policy=update"]).assert_code(0);
    assert_eq!(shell(&scene, "getfacl -n dst/a | grep -c 65534 || true"), "0\n");
    // Under other policies it is named.
    shell(&scene, "setfacl -m u:65534:r dst/a");
    scene.copy(&["--hash=none"]).assert_code(1);
}

/// An output that was moved by a program that leaves access lists behind: the permissions of the group were the list's mask.
#[test]
fn a_list_that_was_lost_on_the_way_is_brought_over() {
    need!(Attr);
    let scene = Scene::on_disk();
    scene.src.file("f", "secret");
    shell(&scene, "chmod 600 src/f; setfacl -m u:1234:rw src/f");
    scene.copy(&[]).assert_code(0);
    shell(
        &scene,
        "cp -r --preserve=timestamps dst moved; rm -r dst; mv moved dst; chmod 660 dst/f; sleep 0.05",
    );
    scene.copy(&["--overwrite-policy=update"]).assert_code(0);
    assert_eq!(shell(&scene, "getfacl -cn dst/f"), shell(&scene, "getfacl -cn src/f"));
}

/// An edit that keeps size and time of a file with two names: the first is copied anew, and the second becomes its name.
#[test]
fn all_names_of_an_edited_file_are_brought_over() {
    let scene = Scene::new();
    scene.src.file("f", "old").hard_link("g", "f");
    scene.copy(&["--hard-links"]).assert_code(0);
    let edit =
        "sleep 0.05; touch -r src/f time; printf new > src/f; touch -r time src/f; sleep 0.05";
    shell(&scene, edit);
    let update = ["--hard-links", "--overwrite-policy=update"];
    let run = scene.copy(&update);
    run.assert_code(0).assert_says("cannot keep").assert_says("it is copied anew");
    assert_eq!(shell(&scene, "cat dst/f dst/g; stat -c %h dst/f"), "newnew2\n");
    scene.judge(&run).verifies();
    scene.copy(&update).assert_code(0);
    // Under other policies neither is touched, and that is named.
    shell(&scene, "touch -r src/f time; printf NEW > src/f; touch -r time src/f; sleep 0.05");
    scene.copy(&["--hard-links", "--overwrite-policy=never"]).assert_code(1);
    assert_eq!(shell(&scene, "cat dst/f dst/g"), "newnew");
}

#[test]
fn a_link_that_is_newer_gets_its_time() {
    let scene = Scene::new();
    let set = |time: u64| shell(&scene, &format!("touch -h -d @{time} src/link"));
    let time = || shell(&scene, "stat -c %Y dst/link").trim().parse::<u64>().unwrap();
    scene.src.symlink("link", "nowhere");
    set(1_000_000);
    scene.copy(&[]).assert_code(0);
    set(2_000_000);
    scene.copy(&[]).assert_code(0);
    assert_eq!(time(), 1_000_000);
    scene.copy(&["--overwrite-policy=update"]).assert_code(0);
    assert_eq!(time(), 2_000_000);
    scene
        .copy(&["--overwrite-policy=update"])
        .assert_code(0)
        .assert_prints(&["unchanged   1 link"]);
    set(1_000_000);
    scene.copy(&["--overwrite-policy=update"]).assert_code(0);
    assert_eq!(time(), 2_000_000);
    scene.copy(&["--overwrite-policy=always"]).assert_code(0);
    assert_eq!(time(), 1_000_000);
}

/// What a left file is told to need does no harm to others, beside any pattern; and where all is replaced, a pattern that
/// was to choose one and does not is refused before it costs a file.
#[test]
fn no_other_file_is_replaced_for_the_sake_of_one() {
    let scene = Scene::new();
    scene.src.file("d/a", "1").file("d/b", "2").file("x.tmp", "3").file("IMG[1].jpg", "4");
    scene.src.file("IMG1.jpg", "5");
    let exclude = ["--exclude", "*.tmp"];
    scene.copy(&exclude).assert_code(0);
    let here = ["d/a", "d/b", "IMG[1].jpg", "IMG1.jpg"];
    here.iter().for_each(|name| _ = scene.output().file(name, "newer, and precious"));
    let run = scene.copy(&exclude);
    run.assert_code(1).assert_says("the output's is newer (move it away, and the next run copies");
    let job = format!(
        "input = '{0}/src'\noutput = '{0}/dst'\nexclude = ['*.tmp']\n",
        scene.root().display()
    );
    scene.tree(".").file("j.toml", job);
    let always = |more: &[&str], include| {
        scene.bare([more, &["--overwrite-policy", "always", "--include", include]].concat()).run()
    };
    for (more, include, says) in [
        (&["src", "dst", "--exclude", "*.tmp"][..], "/d/a", "list its name: --files-from FILE"),
        (&["src", "dst", "--exclude", "*.tmp"], "d/a", "makes no difference"),
        (&["src", "dst", "--exclude", "*.tmp"], "/d/", "makes no difference"),
        (&["--job", "./j.toml"], "/IMG\\[1].jpg", "makes no difference"),
        (&["src", "dst"], "/IMG[1].jpg", "that file alone is --include '/IMG\\[1].jpg'"),
    ] {
        let run = always(more, include);
        run.assert_code(2).assert_says(says);
        here.iter().for_each(|name| assert_eq!(scene.output().read(name), b"newer, and precious"));
    }
    let args = ["src", "dst", "--overwrite-policy", "always", "--exclude", "/IMG[1].jpg"];
    let run = scene.bare(args).run();
    run.assert_code(2).assert_says("that file alone is --exclude '/IMG\\[1].jpg'");
    here.iter().for_each(|name| assert_eq!(scene.output().read(name), b"newer, and precious"));
    // An exception is one, and the file that is meant can be told.
    shell(&scene, "echo d/a >list");
    let list = ["--files-from", "list", "--overwrite-policy", "always"];
    scene.bare(["src", "dst", "--exclude", "*.tmp"].iter().chain(&list)).run().assert_code(0);
    let of = |name: &str| scene.output().read(name);
    assert_eq!([of("d/a"), of("d/b")], [b"1".to_vec(), b"newer, and precious".to_vec()]);
    always(&["src", "dst"], "/IMG\\[1].jpg").assert_code(0);
    assert_eq!(
        [of("IMG[1].jpg"), of("IMG1.jpg")],
        [b"4".to_vec(), b"newer, and precious".to_vec()]
    );
    shell(&scene, "mv dst/d/b dst/IMG1.jpg .");
    scene.copy(&exclude).assert_code(0);
    assert_eq!([of("d/b"), of("IMG1.jpg")], [b"2", b"5"]);
    always(&["src", "dst", "--exclude", "*.tmp"], "/x.tmp").assert_code(0);
}
