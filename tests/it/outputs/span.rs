//! A tree over several disks: what goes where, what is refused, and what becomes of a disk that dies.

use std::fs;

use crate::harness::{Mount, Run, Scene, content, need, shell};

/// A scene with so many disks of 4 MiB each, `d1` and on.
fn disks(number: usize) -> (Scene, Vec<Mount>) {
    let scene = Scene::new();
    let mount = |number: usize| Mount::tmpfs(&scene.path(&format!("d{}", number + 1)), "4m");
    let mounts = (0..number).map(mount).collect();
    (scene, mounts)
}

fn span(scene: &Scene, args: &[&str]) -> Run {
    scene.bare(["src", "--span"].iter().chain(args)).run()
}

/// The names on a disk of which a file holds so many bytes or more.
fn has(scene: &Scene, disk: &str) -> Vec<String> {
    let names = shell(
        scene,
        &format!("cd {disk} && find . -mindepth 1 -not -path './.dircopy*' -not -name 'dircopy-*'"),
    );
    let mut names: Vec<String> = names.lines().map(|name| name[2..].to_owned()).collect();
    names.sort();
    names
}

fn index(scene: &Scene, disk: &str) -> String {
    shell(scene, &format!("cat {disk}/dircopy-*.span"))
}

#[test]
fn directories_stay_together_and_the_index_is_a_list() {
    need!(Mount);
    Mount::privately();
    let (scene, _mounts) = disks(3);
    for dir in ["a", "b/deep"] {
        (0..5).for_each(|file| _ = scene.src.file(format!("{dir}/{file}"), content(500_000)));
    }
    scene.src.file("c", "small").dir("empty").symlink("link", "c").fifo("fifo");
    let run = span(&scene, &["d1", "d2", "d3", "--dry-run"]);
    run.assert_code(0)
        .assert_prints(&["nothing was done: this was a dry run; it takes 2 of 3 disks"]);
    run.assert_prints(&["d2: copy b/deep/4"]);
    assert!(has(&scene, "d1").is_empty());
    let run = span(&scene, &["d1", "d2", "d3", "--parity", "1%"]);
    run.assert_code(0)
        .assert_prints(&["done: 11 files and 1 link, ", "at 2 of 3 disks, each on one"]);
    assert_eq!(has(&scene, "d1"), ["a", "a/0", "a/1", "a/2", "a/3", "a/4", "c", "empty", "link"]);
    assert_eq!(has(&scene, "d2")[..3], ["b", "b/deep", "b/deep/0"]);
    assert!(has(&scene, "d3").is_empty());
    // Each disk by itself, and all by the index.
    shell(&scene, "for i in 1 2; do (cd d$i && sha256sum -c --strict --quiet *.sha256sum); done");
    shell(&scene, "for i in 1 2 3; do ln -s d$i $i; done; sha256sum -c --strict --quiet d3/*.span");
    shell(&scene, "cmp d1/*.span d2/*.span && cmp d1/*.span d3/*.span");
    shell(
        &scene,
        "mkdir all && cp -a d1/. d2/. all && rm -r all/.dircopy all/dircopy-* && rm src/fifo && diff -r src all",
    );
    scene.bare(["verify", "d1", "--complete"]).run().assert_code(0);
    // What is not here is named, by its file with -v.
    let run = scene.bare(["verify", "--span", "d1", "d3", "-v"]).run();
    run.assert_code(0)
        .assert_says("disk 2, ")
        .assert_says("it is not here: the index has 5 files on it");
    run.assert_says("cannot check b/deep/0: it is on disk 2, ");
    let run = scene.bare(["verify", "--span", "d1", "d2", "d3"]).run();
    run.assert_code(0);
    assert!(!run.err().contains("not here"), "{}", run.err());
}

#[test]
fn an_empty_source_is_said_to_be_empty() {
    need!(Mount);
    Mount::privately();
    let (scene, _mounts) = disks(2);
    shell(&scene, "mkdir -p src");
    let run = span(&scene, &["d1", "d2"]);
    run.assert_code(1)
        .assert_prints(&["NOTHING COPIED (exit 1): the source is empty; is its disk mounted?"]);
    assert!(has(&scene, "d1").is_empty() && !scene.path("d1/.dircopy").exists());
    span(&scene, &["d1", "d2", "--allow-empty"]).assert_code(0);
}

#[test]
fn the_largest_directories_come_first_if_asked() {
    need!(Mount);
    Mount::privately();
    let (scene, _mounts) = disks(2);
    for (dir, files) in [("a", 3), ("b", 7), ("c", 5)] {
        (0..files).for_each(|file| _ = scene.src.file(format!("{dir}/{file}"), content(400_000)));
    }
    let dirs = |args: &[&str]| {
        let run = span(&scene, &[&["d1", "d2", "-n"], args].concat());
        run.assert_code(0).assert_prints(&["it takes 2 of 2 disks"]);
        let is_on = |dir: &str| run.out().contains(&format!("d1: copy {dir}/0"));
        ["a", "b", "c"].map(is_on)
    };
    assert_eq!(dirs(&[]), [true, false, true]);
    assert_eq!(dirs(&["--span-order", "largest"]), [false, true, false]);
    span(&scene, &["d1", "d2", "--span-order", "largest"]).assert_code(0);
    assert_eq!(has(&scene, "d2")[..2], ["a", "a/0"]);
    span(&scene, &["d1", "d2"]).assert_code(0);
    scene.bare(["src", "d1", "--span-order", "largest"]).run().assert_code(2);
}

/// What a killed run made and left empty, for files that go elsewhere now, does not stay and is not named at each run.
#[test]
fn an_empty_directory_of_a_killed_run_is_swept() {
    need!(Mount);
    Mount::privately();
    let (scene, _mounts) = disks(2);
    scene.src.file("a/b/large", content(3 << 20)).file("a/x", content(1_500_000));
    span(&scene, &["d1", "d2"]).assert_code(0);
    assert_eq!(has(&scene, "d2"), ["a", "a/x"]);
    // As a kill leaves it: a record was begun, and the directories are closed.
    let left = "cd d2 && rm a/x && chmod 700 a && mkdir -m700 a/b mine && touch .dircopy/record.7";
    shell(&scene, left);
    let run = span(&scene, &["d1", "d2"]);
    run.assert_code(0);
    assert_eq!(has(&scene, "d2"), ["a", "a/x", "mine"]);
}

#[test]
fn what_is_there_stays_and_news_go_on_the_last_disk() {
    need!(Mount);
    Mount::privately();
    let (scene, _mounts) = disks(3);
    (0..12).for_each(|file| _ = scene.src.file(format!("{file:02}"), content(500_000)));
    span(&scene, &["d1", "d2", "d3"]).assert_code(0);
    let before = (has(&scene, "d1"), has(&scene, "d2"));
    scene.src.file("00", content(1000)).mtime("00", 2_000_000_000, 0);
    scene.src.file("aa-new", "new").remove("01");
    let run = span(&scene, &["d1", "d2", "d3", "--overwrite-policy", "update"]);
    run.assert_code(0);
    // What has left the source stays, and is listed.
    assert_eq!(has(&scene, "d1"), before.0);
    assert_eq!(has(&scene, "d2"), [&before.1[..], &["aa-new".to_owned()]].concat());
    shell(&scene, "cmp src/00 d1/00");
    let text = index(&scene, "d3");
    assert!(text.contains("  1/01\n") && text.contains("  2/aa-new\n"), "{text}");
    // The same again changes nothing, not even the index.
    span(&scene, &["d3", "d1", "d2"]).assert_code(0);
    assert_eq!(index(&scene, "d3"), text);
}

#[test]
fn what_does_not_fit_is_refused_before_the_first_byte() {
    need!(Mount);
    Mount::privately();
    let (scene, _mounts) = disks(2);
    scene.src.file("large", content(5 << 20)).file("small", "s");
    for more in [&[][..], &["-n"]] {
        let run = span(&scene, &[&["d1", "d2"], more].concat());
        run.assert_code(2)
            .assert_says("the disk with the most room has 3 MiB")
            .assert_says("large");
    }
    scene.src.remove("large");
    (0..20).for_each(|file| _ = scene.src.file(file.to_string(), content(500_000)));
    let run = span(&scene, &["d1", "d2"]);
    run.assert_code(2).assert_says("the room of 7 MiB on all disks is not enough: ");
    assert!(has(&scene, "d1").is_empty() && has(&scene, "d2").is_empty());
    let run = span(&scene, &["d1", "d2", "--no-space-check", "-j1"]);
    run.assert_code_in(&[1, 3]).assert_says("o space left");
}

#[test]
fn what_does_not_go_together_is_refused() {
    need!(Mount);
    Mount::privately();
    let (scene, _mounts) = disks(1);
    scene.src.file("a", "a");
    for option in
        ["--mirror", "--generations", "--bag", "--hard-links", "--hash=none", "--expect=x"]
    {
        span(&scene, &["d1", option]).assert_code(2);
    }
    fs::create_dir(scene.path("d1/one")).unwrap();
    let run = span(&scene, &["d1/one", "d1/two"]);
    run.assert_code(2).assert_says("it is on the same file system as d1/one");
    let run = scene.bare(["src/a", "--span", "d1"]).run();
    run.assert_code(2).assert_says("only what is in a directory can be on several disks");
    let run = scene.bare(["verify", "--span", "d1"]).run();
    run.assert_code(2).assert_says("no run of yours left the note of a span there");
    assert_eq!(has(&scene, "d1"), ["one"]);
}

/// A disk with yesterday's source on it by mistake, at the first run of today's: files of the same names would give way.
#[test]
fn a_disk_of_the_span_of_another_source_is_refused() {
    need!(Mount);
    Mount::privately();
    let (scene, _mounts) = disks(3);
    scene.src.file("shot", "today's shot");
    shell(
        &scene,
        "mkdir yesterday; echo first >yesterday/shot; touch -d 2020-01-01 yesterday/shot",
    );
    scene.bare(["yesterday", "--span", "d2", "d3"]).run().assert_code(0);
    let before = [has(&scene, "d2"), has(&scene, "d3")];
    for disks in [&["d1", "d2"][..], &["d1", "d2", "d3"], &["d2", "d3"]] {
        let run = span(&scene, disks);
        run.assert_code(2).assert_says("it is of the span of another source");
        assert!(has(&scene, "d1").is_empty());
        assert_eq!([has(&scene, "d2"), has(&scene, "d3")], before);
    }
    // Where it was moved, its owner says so.
    shell(
        &scene,
        "cp -a yesterday moved; rm -r yesterday; rm -f d2/.dircopy/source d3/.dircopy/source",
    );
    scene.bare(["moved", "--span", "d2", "d3"]).run().assert_code(0);
}

#[test]
fn a_dead_disk_is_copied_anew_alone() {
    need!(Mount);
    Mount::privately();
    let (scene, mut mounts) = disks(4);
    (0..20).for_each(|file| _ = scene.src.file(format!("{file:02}"), content(500_000)));
    span(&scene, &["d1", "d2", "d3"]).assert_code(0);
    let before = (has(&scene, "d1"), has(&scene, "d2"), has(&scene, "d3"));
    let times = shell(&scene, "stat -c '%n %z %i' d1/0* d3/1*");
    drop(mounts.remove(1));
    let run = span(&scene, &["d1", "d3"]);
    run.assert_code(2).assert_says("disk 2, ").assert_says("is not given: name it too");
    let run = span(&scene, &["d1", "d4", "d3"]);
    run.assert_code(0).assert_says("dircopy: d4: it takes the place of disk 2, ");
    assert_eq!((has(&scene, "d1"), has(&scene, "d4"), has(&scene, "d3")), before);
    assert_eq!(shell(&scene, "stat -c '%n %z %i' d1/0* d3/1*"), times);
    span(&scene, &["d1", "d3", "d4"]).assert_code(0);
    scene.bare(["verify", "--span", "d4", "d1", "d3"]).run().assert_code(0);
}

/// What is below a mount point of a disk that is not there is no new disk.
#[test]
fn a_disk_that_is_not_mounted_is_not_taken_for_a_new_one() {
    need!(Mount);
    Mount::privately();
    let scene = Scene::on_disk();
    let mut mounts: Vec<Mount> =
        (1..3).map(|disk| Mount::tmpfs(&scene.path(&format!("d{disk}")), "4m")).collect();
    (0..10).for_each(|file| _ = scene.src.file(format!("{file:02}"), content(500_000)));
    span(&scene, &["d1", "d2"]).assert_code(0);
    drop(mounts.pop());
    let run = span(&scene, &["d1", "d2"]);
    run.assert_code(2).assert_says("d2: no disk is mounted there, and disk 2, ");
    assert!(has(&scene, "d2").is_empty());
}

/// So it is where that is no directory of the system's own disk, or what is lost with the power is mounted there.
#[test]
fn what_is_at_the_place_of_a_disk_is_not_taken_for_a_new_one() {
    need!(Mount, Loop);
    Mount::privately();
    let (scene, mut mounts) = disks(1);
    mounts.push(Mount::ext4(&scene.path("disk.img"), 8, &scene.path("d2")));
    (0..10).for_each(|file| _ = scene.src.file(format!("{file:02}"), content(500_000)));
    span(&scene, &["d1", "d2"]).assert_code(0);
    drop(mounts.pop());
    let run = span(&scene, &["d1", "d2"]);
    run.assert_code(2).assert_says("d2: no disk is mounted there, and disk 2, ");
    let memory = Mount::tmpfs(&scene.path("d2"), "8m");
    let run = span(&scene, &["d1", "d2"]);
    run.assert_code(2).assert_says("d2: what is mounted there is no disk, and disk 2, ");
    assert!(has(&scene, "d2").is_empty());
    drop(memory);
    // A new disk there is one.
    let _disk = Mount::ext4(&scene.path("new.img"), 8, &scene.path("d2"));
    span(&scene, &["d1", "d2"]).assert_code(0).assert_says("it takes the place of disk 2, ");
}

/// Where disks are mounted and none is, there is no disk, also at first.
#[test]
fn where_no_disk_is_mounted_none_is_begun() {
    need!(Root);
    let scene = Scene::new();
    scene.src.file("a", "1");
    let at = format!("/mnt/dircopy-it-span-{}", std::process::id());
    shell(&scene, &format!("mkdir -p {at}"));
    if shell(&scene, "stat -c %d / /mnt | uniq | wc -l").trim() == "1" {
        let run = span(&scene, &[&at]);
        run.assert_code(2).assert_says("no disk is mounted there: mount it");
    }
    shell(&scene, &format!("rmdir {at}"));
}

/// What is replaced takes its room only for a time, so what is new comes first, and is not refused for it.
#[test]
fn what_is_replaced_takes_no_room_of_what_is_new() {
    need!(Mount);
    Mount::privately();
    let (scene, _mounts) = disks(2);
    (0..12).for_each(|file| _ = scene.src.file(format!("{file:02}"), content(550_000)));
    span(&scene, &["d1", "d2"]).assert_code(0);
    scene.src.file("new", content(500_000));
    let run = span(&scene, &["d1", "d2", "--overwrite-policy", "always"]);
    run.assert_code(1)
        .assert_says("d1/00: it is to be replaced, though it is there as in the source");
    shell(&scene, "cmp src/new d1/new || cmp src/new d2/new");
    assert!(!run.err().contains("it was changed"), "{}", run.err());
    span(&scene, &["d1", "d2"]).assert_code(0);
    scene.bare(["verify", "--span", "d1", "d2"]).run().assert_code(0);
}

/// Nothing is removed on a disk that another run is at work on.
#[test]
fn what_is_swept_is_swept_behind_the_lock() {
    need!(Mount);
    Mount::privately();
    let (scene, _mounts) = disks(2);
    scene.src.file("a/b/large", content(3 << 20)).file("a/x", content(1_500_000));
    span(&scene, &["d1", "d2"]).assert_code(0);
    shell(&scene, "cd d2 && chmod 700 a && mkdir -m700 a/b && touch .dircopy/record.7");
    let run = scene.bare(["src", "--span", "d1", "d2"]);
    let run = run.in_shell("exec 7<d2/.dircopy; flock 7; \"$@\"").run();
    run.assert_code(1).assert_says("d2");
    assert_eq!(has(&scene, "d2"), ["a", "a/b", "a/x"]);
    span(&scene, &["d1", "d2"]).assert_code(0);
    assert_eq!(has(&scene, "d2"), ["a", "a/x"]);
}

/// What is said of a disk that has nothing yet, and of one that has not everything.
#[test]
fn a_disk_of_a_span_is_called_one() {
    need!(Mount);
    Mount::privately();
    let (scene, _mounts) = disks(3);
    (0..10).for_each(|file| _ = scene.src.file(format!("{file:02}"), content(500_000 + file)));
    span(&scene, &["d1", "d2", "d3"]).assert_code(0);
    let run = scene.bare(["verify", "--span", "d3"]).run();
    run.assert_code(0).assert_says("d3: no file was copied to it yet");
    let run = scene.bare(["verify", "d3"]).run();
    run.assert_code(5).assert_says("d3: it is a disk of a span that has no file yet");
    let run = scene.bare(["catalog", "add", "d3", "--catalog", "c"]).run();
    run.assert_code(2).assert_says("d3: it is a disk of a span that has no file yet");
    let run = scene.bare(["covered", "src", "d1", "--copies", "1", "--count-memory"]).run();
    run.assert_code(4).assert_prints(&["d1 is a disk of a span, and lacks what others have"]);
    assert!(!run.out().contains("dircopy src d1"), "{}", run.out());
    let both = ["covered", "src", "d1", "d2", "--copies", "1", "--count-memory"];
    scene.bare(both).run().assert_code(0);
    let run = scene.bare(["covered", "src", "LABEL=none-is-called-so"]).run();
    run.assert_code(2).assert_says("no mounted disk has the label none-is-called-so");
}

/// A disk whose files are gone from it and from the index is good, also where it is checked alone.
#[test]
fn a_disk_that_has_nothing_any_more_is_good() {
    need!(Mount);
    Mount::privately();
    let (scene, _mounts) = disks(2);
    (0..10).for_each(|file| _ = scene.src.file(format!("{file:02}"), content(500_000)));
    span(&scene, &["d1", "d2"]).assert_code(0);
    shell(&scene, "for f in $(ls d2 | grep -v dircopy); do rm src/$f d2/$f; done");
    span(&scene, &["d1", "d2"]).assert_code(0);
    let none = "d2: neither its manifest nor the index has a file on it";
    for disks in [&["d2"][..], &["d1", "d2"]] {
        let run = scene.bare(["verify", "--span"].iter().chain(disks)).run();
        run.assert_code(0).assert_says(none);
    }
    // A manifest that lists nothing and is none of a run is no proof of that.
    shell(&scene, "for list in d2/dircopy-*.sha256sum; do echo >>$list; done");
    let run = scene.bare(["verify", "--span", "d2"]).run();
    run.assert_code(5);
    assert!(!run.err().contains(none), "{}", run.err());
}

/// An index is anybody's, and so is a manifest: only what private records know counts.
#[test]
fn an_index_that_was_made_up_is_not_believed() {
    need!(Mount);
    Mount::privately();
    let (scene, _mounts) = disks(2);
    (0..10).for_each(|file| _ = scene.src.file(format!("{file:02}"), content(500_000)));
    span(&scene, &["d1", "d2"]).assert_code(0);
    shell(&scene, "sed -i 's,  2/,  1/,' d1/*.span");
    let run = scene.bare(["verify", "--span", "d1", "d2"]).run();
    run.assert_code(5).assert_says("its index is not what the last run wrote");
    let run = scene.bare(["verify", "--span", "d1"]).run();
    run.assert_code(5).assert_says("on no disk that is here it is as the last run wrote it");
    // A file that is gone from its disk is none, whatever is listed.
    shell(&scene, "rm d2/09");
    span(&scene, &["d1", "d2"]).assert_code(0);
    // What was made up stays, and is of no use.
    let same = "f=$(basename d2/*.span); cmp d1/$f d2/$f; for i in 1 2; do ln -s d$i $i; done;";
    shell(&scene, &format!("{same} sha256sum -c --strict --quiet d1/$f"));
    scene.bare(["verify", "--span", "d1", "d2"]).run().assert_code(0);
    // A later copy of its own, and the index is behind.
    scene.src.file("late", "late");
    scene.bare(["src", "d2", "--include", "late"]).run().assert_code(0);
    scene.bare(["verify", "--span", "d1", "d2"]).run().assert_code(0);
    shell(&scene, "rm d2/08");
    scene.bare(["src", "d2", "--include", "late"]).run();
    let run = scene.bare(["verify", "--span", "d1", "d2"]).run();
    run.assert_code_in(&[4, 5]).assert_says("08");
}

/// What each disk gets is said of each, also where it is as much.
#[test]
fn a_dry_run_says_of_each_disk_what_it_gets() {
    need!(Mount);
    Mount::privately();
    let (scene, _mounts) = disks(2);
    (0..6).for_each(|file| _ = scene.src.file(format!("{file}"), content(1_000_000)));
    let run = span(&scene, &["d1", "d2", "-n"]);
    run.assert_code(0);
    for disk in ["d1", "d2"] {
        run.assert_prints(&["to copy ", disk, "  3 files, 2.86 MiB"]);
    }
}

/// An index and a private record that have nothing of a disk are no reason not to read what is listed on it.
#[test]
fn what_is_listed_on_a_disk_is_read_whatever_the_index_has() {
    need!(Mount);
    Mount::privately();
    let (scene, _mounts) = disks(2);
    scene.src.file("a", content(500_000));
    span(&scene, &["d1", "d2"]).assert_code(0);
    scene.src.file("b", content(500_000));
    // As a run leaves it whose private record had no room.
    scene.bare(["src", "d2", "--include", "b"]).run().assert_code(0);
    shell(&scene, "rm d2/.dircopy/record; printf rot | dd of=d2/b bs=1 seek=9 conv=notrunc");
    let run = scene.bare(["verify", "--span", "d1", "d2"]).run();
    run.assert_code(4).assert_says("d2: no run to it came to its end").assert_says("d2/b");
    // Where the record is whole, the index is behind.
    shell(&scene, "rm d2/b");
    scene.bare(["src", "d2", "--include", "b"]).run().assert_code(0);
    let run = scene.bare(["verify", "--span", "d1", "d2"]).run();
    run.assert_code(5).assert_says("its manifest lists what is on no disk there: b");
    span(&scene, &["d1", "d2"]).assert_code(0);
    scene.bare(["verify", "--span", "d1", "d2"]).run().assert_code(0);
}

/// What has its changed version no room stays what it was, and is named.
#[test]
fn a_changed_file_without_room_is_named() {
    need!(Mount);
    Mount::privately();
    let (scene, _mounts) = disks(2);
    (0..7).for_each(|file| _ = scene.src.file(format!("{file:02}"), content(500_000)));
    span(&scene, &["d1", "d2"]).assert_code(0);
    scene.src.file("00", content(1_200_000)).mtime("00", 2_000_000_000, 0);
    let run = span(&scene, &["d1", "d2", "--overwrite-policy", "update"]);
    run.assert_code(1).assert_says(
        "d1/00: it was changed, and the disk that has it has no room for it: make room there",
    );
    shell(
        &scene,
        "head -c 500000 src/00 | cmp - d1/00; for i in 1 2; do ln -s d$i $i; done; sha256sum -c --strict --quiet d1/*.span",
    );
}

/// What cannot be read is told, and no exit code 0 hides it.
#[test]
fn what_cannot_be_listed_is_named() {
    need!(Mount, Strace);
    Mount::privately();
    let (scene, _mounts) = disks(1);
    scene.src.file("a", "a").file("closed/b", "b");
    let fault = crate::harness::Strace::inject(&scene, "getdents64", "error=EIO:when=1");
    let fault = fault.exactly_on(scene.src.path("closed"));
    let run = fault.run(scene.bare(["src", "--span", "d1"]));
    fault.fired(&run);
    run.assert_code(1).assert_says("closed");
    span(&scene, &["d1"]).assert_code(0);
    shell(&scene, "cmp src/closed/b d1/closed/b");
}

/// Whoever can write to the source and read the disks can give a file the name and the content of the index.
#[test]
fn a_file_of_the_source_is_no_index() {
    need!(Mount);
    Mount::privately();
    let (scene, _mounts) = disks(2);
    (0..3).for_each(|file| _ = scene.src.file(format!("{file:02}"), content(300_000)));
    span(&scene, &["d1", "d2"]).assert_code(0);
    shell(&scene, "cp -p d1/*.span src; cp d1/*.span before");
    for round in 0..3 {
        scene.src.file(format!("new{round}"), "new");
        let run = span(&scene, &["d1", "d2", "--overwrite-policy", "always"]);
        run.assert_code(0);
        shell(&scene, "cmp d1/$(basename src/*.span) before");
        scene.bare(["verify", "--span", "d1", "d2"]).run().assert_code(0);
    }
}

#[test]
fn directories_of_disks_are_made() {
    need!(Mount);
    Mount::privately();
    let (scene, _mounts) = disks(3);
    (0..10).for_each(|file| _ = scene.src.file(format!("{file:02}"), content(500_000)));
    let disks = ["d1/films", "d2/films", "d3/films"];
    span(&scene, &disks).assert_code(0);
    shell(&scene, "cmp d1/films/*.span d3/films/*.span");
    span(&scene, &disks).assert_code(0);
    scene.bare(["verify", "--span"].iter().chain(&disks)).run().assert_code(0);
}

/// What a killed run began of a large file is on that disk, and the next run goes on with it there.
#[test]
fn a_killed_run_goes_on_where_it_was() {
    need!(Mount);
    Mount::privately();
    let scene = Scene::new();
    let _mounts: Vec<Mount> =
        (1..3).map(|disk| Mount::tmpfs(&scene.path(&format!("d{disk}")), "40m")).collect();
    scene.src.file("large", content(30 << 20)).file("second", content(20 << 20));
    let args = ["d1", "d2", "--checkpoint", "4M", "--limit-rate", "20M"];
    let mut running = scene.bare(["src", "--span"].iter().chain(&args)).spawn();
    let blocks = "[ $(du -sk d1 | cut -f1) -gt 16000 ] && echo yes || true";
    running.until("half of it is there", || shell(&scene, blocks) == "yes\n");
    running.signal(rustix::process::Signal::KILL);
    running.wait();
    let run = span(&scene, &["d1", "d2", "--checkpoint", "4M"]);
    run.assert_code(0).assert_prints(&["resumed", "1 file"]);
    assert_eq!(
        (has(&scene, "d1"), has(&scene, "d2")),
        (vec!["large".into()], vec!["second".into()])
    );
}

/// A run that finds nothing new leaves a list all the same: full disks are not filled by lists.
#[test]
fn runs_that_find_nothing_new_do_not_fill_the_disks() {
    need!(Mount);
    Mount::privately();
    let (scene, _disks) = disks(2);
    for file in 0..1500 {
        scene.src.file(format!("a-rather-long-name-of-a-file-{file:04}"), content(2000));
    }
    for run in 0..12 {
        let ran = span(&scene, &["d1", "d2"]);
        assert_eq!(ran.code, Some(0), "run {run}: {}{}", ran.out(), ran.err());
    }
    assert_eq!(shell(&scene, "ls d1/*.sha256sum | wc -l").trim(), "2");
}

/// The verdict over a full disk counts files, and no directories.
#[test]
fn a_full_disk_is_told_with_its_files() {
    need!(Mount);
    Mount::privately();
    let (scene, _mounts) = disks(1);
    (0..6).for_each(|file| _ = scene.src.file(format!("{file}"), content(500_000)));
    scene.src.dir("e1").dir("e2/e3");
    span(&scene, &["d1"]).assert_code(0);
    let run = span(&scene, &["d1", "--overwrite-policy", "always"]);
    run.assert_code(1).assert_prints(&["d1 is full: ", " of 6 files are done"]);
}

/// One disk has only its part of what was copied.
#[test]
fn what_is_brought_back_from_one_disk_is_said_to_be_a_part() {
    need!(Mount);
    Mount::privately();
    let (scene, _mounts) = disks(2);
    (0..9).for_each(|file| _ = scene.src.file(format!("{file}"), content(500_000)));
    span(&scene, &["d1", "d2"]).assert_code(0);
    let all: Vec<usize> = ["d1", "d2"].iter().map(|disk| has(&scene, disk).len()).collect();
    assert!(all[0] > 0 && all[1] > 0, "{all:?}");
    for (number, others) in [(1, all[1]), (2, all[0])] {
        let disk = format!("d{number}");
        let run = scene.bare(["restore", &disk, "back"]).run();
        let part = format!("it was disk {number} of 2 of a span, whose others have {others} file");
        run.assert_code(0).assert_prints(&["done: ", &part]);
    }
    shell(&scene, "for n in $(seq 0 8); do cmp src/$n back/$n; done");
}
