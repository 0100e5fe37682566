//! A private record that is there and is not believed: whatever would have gone by it says so, and why.

use crate::harness::{Mount, Scene, need, shell};

/// A copy whose private directory is made of no use so.
fn scene(spoil: &str) -> Scene {
    let scene = Scene::on_disk();
    scene.src.file("a", "aaa").file("d/b", "bbb");
    scene.copy(&[]).assert_code(0);
    shell(&scene, spoil);
    scene
}

/// Each way, and what is said of it.
const WAYS: [(&str, &str); 6] = [
    ("chmod 755 dst/.dircopy", "its permissions let other users in"),
    ("mv dst/.dircopy kept; ln -s ../kept dst/.dircopy", "os error"),
    ("rm -r dst/.dircopy; touch dst/.dircopy", "os error"),
    ("sed -i '1s/record 1/record 7/' dst/.dircopy/record", "is damaged, or of another version"),
    ("rm dst/.dircopy/record; mkdir dst/.dircopy/record", "is no regular file"),
    // That of another output, which was finished with another manifest.
    (
        "dircopy=$(ls dst/dircopy-*); mkdir other; cp -a dst/.dircopy other; rm -r dst/.dircopy; cp -a other/.dircopy dst
         mv $dircopy dst/dircopy-20200101T000000Z.sha256sum",
        "it is of another directory or disk",
    ),
];

#[test]
fn a_check_and_a_restore_say_why_the_record_does_not_count() {
    for (spoil, why) in WAYS {
        let scene = scene(spoil);
        let says = "cannot go by the private record in dst/.dircopy: ";
        for args in [&["verify", "dst"][..], &["verify", "-q", "dst"], &["restore", "dst", "back"]]
        {
            let run = scene.ended(args, 0);
            run.assert_says(says).assert_says(why).assert_says("held against the manifest in it");
            assert_eq!(run.err().matches(says).count(), 1, "{}", run.err());
        }
        shell(&scene, "diff -r src back");
        // A list that was given is no matter of the record.
        let list = shell(&scene, "ls dst/dircopy-*");
        let run = scene.ended(&["verify", "-m", list.trim(), "dst"], 0);
        assert!(!run.err().contains("private record"), "{}", run.err());
        let run = scene.ended(&["restore", "dst", "other-back", "--expect", list.trim()], 0);
        assert!(!run.err().contains("private record"), "{}", run.err());
    }
}

#[test]
fn a_record_that_counts_or_is_not_there_is_no_matter() {
    for spoil in ["true", "rm -r dst/.dircopy", "cp -a dst copy; rm -r dst; cp -a copy dst"] {
        let scene = scene(spoil);
        for args in [["verify", "dst"].as_slice(), &["restore", "dst", "back"]] {
            let run = scene.ended(args, 0);
            assert!(!run.err().contains("private record"), "{spoil}: {}", run.err());
        }
    }
}

#[test]
fn others_that_go_by_the_record_say_so_too() {
    let scene = scene("chmod 755 dst/.dircopy");
    let says =
        "cannot go by the private record in dst/.dircopy: its permissions let other users in";
    scene
        .ended(&["covered", "src", "dst", "--copies", "1", "--count-memory"], 4)
        .assert_says(says)
        .assert_says("so no file there is known to be untouched");
    scene.ended(&["catalog", "add", "--catalog", "c.sqlite", "dst"], 2).assert_says(says);
    scene.ended(&["protect", "dst"], 2).assert_says("its permissions let other users in");
    shell(&scene, "cp -a dst second; rm -r second/.dircopy; printf X >dst/a");
    scene.ended(&["heal", "-n", "dst", "second"], 4).assert_says(says);
    // The lists of a bag are held against it as well.
    scene.ended(&["src", "bag", "--bag"], 0);
    shell(&scene, "chmod 755 bag/.dircopy");
    for args in [["verify", "bag"].as_slice(), &["restore", "bag", "unpacked"]] {
        scene.ended(args, 0).assert_says("cannot go by the private record in bag/.dircopy: ");
    }
}

#[test]
fn a_record_of_another_user_is_told_as_that() {
    need!(Root);
    let scene = scene("chown -R 1002:1002 dst");
    for args in [["verify", "dst"].as_slice(), &["restore", "dst", "back"]] {
        scene.ended(args, 0).assert_says("dst/.dircopy: it is another user's");
    }
}

/// A check by a record that is not there would be one by less than was asked for.
#[test]
fn a_directory_of_records_that_is_not_there_is_refused() {
    let scene = scene("mkdir copies; cp -a dst copies");
    for args in [
        &["verify", "dst"][..],
        &["heal", "dst", "copies/dst"],
        &["protect", "dst"],
        &["covered", "src", "dst", "--count-memory"],
        &["catalog", "add", "dst", "--catalog", "catalog"],
        &["manifest", "diff", "dst", "copies/dst"],
        &["restore", "dst", "back"],
        &["src", "bag", "--bag"],
        &["src", "bag", "--bag", "-n"],
        &["src", "plain"],
        &["src", "plain", "-n"],
        &["src", "dst", "-n"],
        &["restore", "dst", "back", "-n"],
    ] {
        let run = scene.ended(&[args, &["--state", "none"]].concat(), 2);
        run.assert_says("none").assert_says("No such file or directory (os error 2)");
    }
    shell(&scene, "echo > file");
    for args in [&["src", "plain"][..], &["src", "plain", "-n"], &["src", "plain", "--mirror"]] {
        let run = scene.ended(&[args, &["--state", "file"]].concat(), 2);
        run.assert_says("--state names where the record of this output is to be");
    }
    shell(&scene, "! ls -d back bag plain catalog");
}

/// A run that could only copy, and not record it, would be told at its end.
#[test]
fn records_are_not_kept_where_nothing_can_be_written() {
    need!(Root, Mount);
    Mount::privately();
    let scene = Scene::new();
    shell(&scene, "mkdir disk; echo a > src/a; mount -t tmpfs none disk");
    for is_first in [true, false] {
        if !is_first {
            shell(&scene, "mount -o remount,rw disk");
            scene.ended(&["src", "dst", "--state", "disk"], 0);
        }
        shell(&scene, "mount -o remount,ro disk");
        for args in [&["src", "dst", "-n"][..], &["src", "dst"]] {
            let run = scene.ended(&[args, &["--state", "disk"]].concat(), 2);
            run.assert_says("cannot keep private records in disk").assert_says("Read-only");
        }
        assert_eq!(scene.dst.exists(), !is_first);
    }
}

/// Records in the source would change it, and be copied.
#[test]
fn records_are_not_kept_in_the_source() {
    let scene = Scene::new();
    shell(&scene, "mkdir -p src/d/state; echo a > src/a; ln -s src other");
    for state in ["src", "src/d/state", "other/d", "src/d/../d"] {
        for args in [&["src", "dst"][..], &["src", "dst", "-n"], &["src", "dst", "--bag"]] {
            let run = scene.ended(&[args, &["--state", state]].concat(), 2);
            run.assert_says("it is inside the source, which a copy does not change");
        }
    }
    shell(&scene, "! ls -d dst; ! ls src/dircopy-* src/d/dircopy-* src/d/state/*");
    // What is left out is not copied.
    let left_out = ["src", "dst", "--exclude=/d/state/", "--state", "src/d/state"];
    scene.ended(&left_out, 0);
    shell(&scene, "! ls -d dst/d/state");
}

/// However the directory is reached.
#[test]
fn records_are_not_kept_in_what_a_mirror_clears() {
    need!(Root, Mount);
    Mount::privately();
    let scene = Scene::new();
    shell(&scene, "echo a > src/a; mkdir -p dst/st bound");
    let _bound = Mount::bind(&scene.path("dst/st"), &scene.path("bound"));
    for state in ["dst/st", "bound"] {
        let run = scene.copy(&["--mirror=all", "--state", state]);
        run.assert_code(2).assert_says("it would be moved to the trash");
    }
    scene.copy(&["--mirror", "--state", "bound"]).assert_code(0);
}
