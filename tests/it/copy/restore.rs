//! `dircopy restore`: a copy is brought back as it was, without records of ours, and proven while it is copied.

use std::fs;
use std::os::unix::fs::symlink;

use rustix::process::Signal;

use crate::harness::{Scene, Strace, content, leftover_name, need, shell};

/// A source with an empty directory, a link and files, and its copy in `dst`.
fn copied(args: &[&str]) -> Scene {
    let scene = Scene::on_disk();
    scene.src.file("2025/snow.jpg", content(2_000_000)).file("notes.txt", "n").dir("empty");
    symlink("notes.txt", scene.path("src/link")).unwrap();
    shell(&scene, "touch -d '2020-02-02' src/2025 src/empty src");
    scene.copy(args).assert_code(0);
    scene
}

/// The same entries with the same times, whatever those of the links are.
fn assert_same(scene: &Scene, one: &str, other: &str) {
    shell(scene, &format!("diff -r --no-dereference {one} {other}"));
    let list = |dir: &str| {
        shell(scene, &format!("cd {dir} && find . ! -type l -printf '%P %y %T@\\n' | sort"))
    };
    assert_eq!(list(one), list(other));
}

#[test]
fn a_copy_comes_back_without_records() {
    let scene = copied(&["--format", "gnu", "--hash", "sha256,md5"]);
    let run = scene.bare(["restore", "dst", "back"]).run();
    run.assert_code(0).assert_prints(&["2 files as listed"]);
    run.assert_prints(&["done: 2 files and 1 link"]);
    assert_same(&scene, "src", "back");
    // Over what is left of the source, which a copy refuses as exchanged.
    fs::remove_file(scene.path("src/2025/snow.jpg")).unwrap();
    scene.bare(["dst", "src"]).run().assert_code(2).assert_says("exchanged");
    scene.bare(["restore", "-i", "dst", "-o", "src"]).run().assert_code(0);
    assert_same(&scene, "src", "back");
    // The source is no output by that.
    scene.copy(&[]).assert_code(0);
    // One file of it.
    let one = ["restore", "dst", "one", "--include", "/2025/snow.jpg"];
    scene.bare(one).run().assert_code(0);
    // No other directory of it is made.
    assert_eq!(shell(&scene, "cd one && find . -mindepth 1 | sort"), "./2025\n./2025/snow.jpg\n");
    let run = scene.bare(["restore", "dst", "none", "--include", "/2025/rain.jpg"]).run();
    run.assert_code(1).assert_says("2025/rain.jpg");
    shell(
        &scene,
        "cp -a dst bad; printf X | dd of=bad/2025/snow.jpg bs=1 seek=9 conv=notrunc; rm -r bad/.dircopy",
    );
    let run = scene.bare(["restore", "bad", "none", "--include", "/2025/snow.jpg"]).run();
    run.assert_code(4).assert_says("2025/snow.jpg");
    assert_eq!(shell(&scene, "find none -type f"), "");
    let run = scene.bare(["restore", "dst/2025/snow.jpg", "one"]).run();
    run.assert_code(2).assert_says("dircopy restore dst DST --include /2025/snow.jpg");
    // A directory of it, also from within, and a name that means something in a pattern.
    let run = scene.bare(["restore", "dst/2025", "one"]).run();
    run.assert_code(2).assert_says("dircopy restore dst DST --include /2025");
    let run = scene.bare(["restore", ".", "one"]).after("cd dst/2025").run();
    run.assert_code(2).assert_says("/dst DST --include /2025");
    shell(&scene, "mkdir disk && cp -a dst disk/out");
    let run = scene.bare(["restore", "disk", "one"]).run();
    run.assert_code(2)
        .assert_says("it has no manifest, and disk/out has: dircopy restore disk/out DST");
    scene.src.file("2025/a[1].jpg", "a");
    scene.copy(&[]).assert_code(0);
    let run = scene.bare(["restore", "dst/2025/a[1].jpg", "odd"]).run();
    let err = run.assert_code(2).err();
    let told = err.split("dircopy restore dst DST ").nth(1).unwrap().trim();
    let typed = format!("\"$@\" {told}");
    scene.bare(["restore", "dst", "odd"]).in_shell(&typed).run().assert_code(0);
    assert_eq!(shell(&scene, "cd odd && find . -type f"), "./2025/a[1].jpg\n");
    // A pattern that is another file's is no way to ask for the one whose name it is.
    let run = scene.bare(["restore", "dst", "odd", "--include", "/2025/a[1].jpg"]).run();
    run.assert_code(2).assert_says("--include '/2025/a\\[1].jpg'");
    scene.bare(["restore", "dst", "dry", "-n"]).run().assert_code(0);
    assert!(!scene.path("dry").exists());
}

/// Nor do records stay elsewhere.
#[test]
fn nothing_stays_in_the_directory_of_states() {
    let scene = copied(&[]);
    shell(&scene, "mkdir state; rm -r dst");
    scene.bare(["-q", "src", "dst", "--state", "state"]).run().assert_code(0);
    let before = shell(&scene, "ls state");
    let run = scene.bare(["restore", "dst", "back", "--state", "state"]).run();
    run.assert_code(0);
    assert_eq!((run.err(), shell(&scene, "ls state")), (String::new(), before));
    assert!(!scene.path("back/.dircopy").exists());
    // What other runs recorded there does.
    scene.bare(["-q", "src", "other"]).run().assert_code(0);
    shell(&scene, "rm other/dircopy-*");
    scene.bare(["restore", "dst", "other", "--state", "state"]).run().assert_code(0);
    assert!(scene.path("other/.dircopy/record").exists());
}

#[test]
fn damaged_and_missing_files_are_named() {
    let scene = copied(&[]);
    shell(&scene, "printf X | dd of=dst/2025/snow.jpg bs=1 seek=99 conv=notrunc status=none");
    let run = scene.bare(["restore", "dst", "back"]).run();
    run.assert_code(4).assert_says("2025/snow.jpg").assert_prints(&["ROTTEN (exit 4)"]);
    assert!(!scene.path("back/2025/snow.jpg").exists() && scene.path("back/notes.txt").exists());
    // Nothing of ours stays in a live tree for want of one file.
    assert_eq!(shell(&scene, "ls -A back"), "2025\nempty\nlink\nnotes.txt\n");
    // With a good file again the same command goes on, and nothing of ours stays.
    shell(&scene, "cp -p src/2025/snow.jpg dst/2025/snow.jpg");
    scene.bare(["restore", "dst", "back"]).run().assert_code(0);
    assert_same(&scene, "src", "back");
    fs::remove_file(scene.path("dst/notes.txt")).unwrap();
    scene.bare(["restore", "dst", "other"]).run().assert_code(4).assert_says("notes.txt");
}

/// As far as that shows without reading.
#[test]
fn a_dry_run_names_what_is_missing_or_cut_off() {
    let scene = copied(&[]);
    let dry = |tree: &str, code| {
        let run = scene.bare(["restore", tree, "back", "-n"]).run();
        run.assert_code(code);
        assert!(!scene.path("back").exists());
        run
    };
    dry("dst", 0).assert_prints(&["nothing was done: this was a dry run"]);
    shell(&scene, "cp -a dst kept; truncate -s 99 dst/2025/snow.jpg");
    dry("dst", 4).assert_says("2025/snow.jpg: size 99, on record 2000000");
    shell(&scene, "cp -p kept/2025/snow.jpg dst/2025/; rm dst/notes.txt");
    let run = dry("dst", 4);
    run.assert_says("expected, and not in the source: notes.txt");
    run.assert_prints(&["(exit 4): this was a dry run; 1 listed file not in the source"]);
    scene.bare(["restore", "dst", "now"]).run().assert_code(4);
    // Of a bag, whose list must be one.
    scene.bare(["-q", "--no-links", "--bag", "src", "bag"]).run().assert_code(0);
    shell(&scene, "cp -a bag less; rm less/data/notes.txt; echo junk >>bag/manifest-sha256.txt");
    dry("less", 4).assert_says("expected, and not in the source: notes.txt");
    dry("bag", 1).assert_says("cannot use all of the expected manifest");
    scene.bare(["restore", "bag", "now"]).run().assert_code(1);
}

#[test]
fn what_has_no_manifest_is_refused_with_the_remedy() {
    let scene = copied(&[]);
    let run = scene.bare(["restore", "src", "back"]).run();
    run.assert_code(2).assert_says("cannot restore src: it has no manifest of dircopy");
    run.assert_says("--expect LIST").assert_says("copies it as it is");
    assert!(!scene.path("back").exists());
    // A list of another program proves it.
    shell(&scene, "cd src && sha256sum notes.txt 2025/snow.jpg >../list");
    scene.bare(["restore", "src", "back", "--expect", "list"]).run().assert_code(0);
    assert_same(&scene, "src", "back");
    // Opening a FIFO would wait.
    shell(&scene, "mkfifo fifo");
    let run = scene.bare(["restore", "src", "other", "--expect", "fifo"]).run();
    run.assert_code(2).assert_says("only a regular file");
    let run = scene.bare(["restore", "dst", "back", "--mirror"]).run();
    run.assert_code(2).assert_says("--mirror is of copies");
}

#[test]
fn generations_and_bags_come_back() {
    let scene = copied(&["--generations"]);
    shell(&scene, "cp -a src old; echo m >>src/notes.txt; touch -d '2020-02-03' src/notes.txt");
    scene.copy(&["--generations"]).assert_code(0);
    scene.bare(["restore", "dst", "back"]).run().assert_code(0);
    assert_same(&scene, "src", "back");
    let first = shell(&scene, "ls -d dst/2*Z | head -1");
    scene.bare(["restore", first.trim(), "first"]).run().assert_code(0);
    assert_same(&scene, "old", "first");
    let day = &first.trim()["dst/".len()..][..10];
    let run = scene.bare(["restore", &format!("dst/{day}"), "none"]).run();
    run.assert_code(2).assert_says(&format!("of that day: {}", &first.trim()["dst/".len()..]));
    let run = scene.bare(["restore", "dst/2001-02-03", "none"]).run();
    run.assert_code(2).assert_says("there is none of that day, of 2 from ");
    shell(&scene, "rm src/link");
    scene.bare(["src", "bag", "--bag"]).run().assert_code(0);
    scene.bare(["restore", "bag", "unpacked"]).run().assert_code(0);
    shell(&scene, "diff -r src unpacked");
}

/// A run that was cut short brought newer files, which no finished manifest lists: the record of the archive knows them.
/// A plain copy is what its manifest says, also where its source is a bag, or somebody put the four files of one there.
#[test]
fn a_plain_copy_of_a_bag_comes_back_whole() {
    let scene = copied(&[]);
    let declaration =
        "printf 'BagIt-Version: 1.0\\nTag-File-Character-Encoding: UTF-8\\n' > bagit.txt";
    shell(
        &scene,
        &format!(
            "cd src && mkdir data && echo x > data/x && {declaration} && sha256sum data/x > manifest-sha256.txt"
        ),
    );
    scene.copy(&[]).assert_code(0);
    scene
        .bare(["restore", "dst", "back"])
        .run()
        .assert_code(0)
        .assert_prints(&["5 files as listed"]);
    shell(&scene, "diff -r src back");
    // A bag is one, and what is in it is part of the copy that it was made of.
    scene.bare(["src", "bag", "--bag", "--no-links"]).run().assert_code(0);
    shell(&scene, "echo note > bag/note.txt");
    scene.bare(["bag", "shelf"]).run().assert_code(0);
    scene.bare(["restore", "shelf", "again"]).run().assert_code(0);
    shell(&scene, "diff -r --exclude=.dircopy bag again");
    let run = scene.bare(["restore", "shelf/data/2025", "one"]).run();
    run.assert_code(2).assert_says("dircopy restore shelf DST --include /data/2025");
    // Notes that are only called so.
    shell(&scene, "rm -r src dst && mkdir src && echo notes > src/bagit.txt");
    scene.copy(&[]).assert_code(0);
    scene.bare(["restore", "dst", "notes"]).run().assert_code(0);
    shell(&scene, "diff -r src notes");
}

#[test]
fn further_names_are_held_against_their_lines() {
    let scene = copied(&[]);
    scene.src.hard_link("further", "notes.txt");
    scene.copy(&["--hard-links"]).assert_code(0);
    let run = scene.bare(["restore", "dst", "back", "--hard-links"]).run();
    run.assert_code(0).assert_prints(&["3 files as listed"]);
    assert!(!run.out().contains("unproven"), "{}", run.out());
    shell(&scene, "test back/further -ef back/notes.txt");
}

/// A neighbour may add a bag to a directory of generations that everybody may add to.
#[test]
fn generations_come_before_a_bag_beside_them() {
    let scene = copied(&[]);
    scene.bare(["src", "nights", "--generations"]).run().assert_code(0);
    let bag = "cd nights && mkdir data && echo EVIL > data/notes.txt && sha256sum data/* > manifest-sha256.txt && \
               printf 'BagIt-Version: 1.0\\nTag-File-Character-Encoding: UTF-8\\n' > bagit.txt";
    shell(&scene, bag);
    scene.bare(["restore", "nights", "back"]).run().assert_code(0);
    assert_same(&scene, "src", "back");
    // Whose it is, is not known where the private directories are gone.
    shell(&scene, "chmod -R u+w nights; rm -r nights/2*/.dircopy nights/.dircopy");
    let run = scene.bare(["restore", "nights", "other"]).run();
    run.assert_code(2).assert_says("or generations that no record of yours knows");
    assert!(!scene.path("other/notes.txt").exists());
}

/// A neighbour may add a file that is called like a manifest to a bag, and to a directory of generations.
#[test]
fn a_manifest_that_was_planted_does_not_hide_rot() {
    let scene = copied(&[]);
    scene.bare(["src", "bag", "--bag", "--no-links"]).run().assert_code(0);
    scene.bare(["src", "nights", "--generations"]).run().assert_code(0);
    let rot =
        "touch -r $f time && printf X | dd of=$f conv=notrunc status=none && touch -r time $f";
    shell(
        &scene,
        &format!("for f in bag/data/notes.txt nights/2*/notes.txt; do chmod u+w $f; {rot}; done"),
    );
    let plant = "cd $d && echo x > planted && sha256sum planted $(ls bagit.txt) > dircopy-20260101T000000Z.sha256sum";
    shell(&scene, &format!("for d in bag nights; do ({plant}); done 2> /dev/null"));
    for tree in ["bag", "nights"] {
        scene.bare(["verify", tree]).run().assert_code(4).assert_says("notes.txt");
        let run = scene.bare(["restore", tree, "back"]).run();
        run.assert_code(4).assert_says("notes.txt");
        assert!(!scene.path("back/notes.txt").exists(), "{tree}");
    }
    scene.bare(["heal", "bag", "--from-tree", "src", "-n"]).run().assert_says("notes.txt");
    // Nor does it hide what the history of a film set says.
    scene.bare(["src", "film", "--format", "mhl", "--no-links"]).run().assert_code(0);
    shell(&scene, &format!("cd film; rm -r .dircopy dircopy-*; f=notes.txt; {rot}"));
    shell(&scene, "cd film && sha256sum 2025/snow.jpg > dircopy-20260101T000000Z.sha256sum");
    scene.bare(["verify", "film"]).run().assert_code(4).assert_says("notes.txt");
    // What plain runs of this user made is no bag, also where they left no manifest.
    shell(
        &scene,
        "cp -r bag planted && chmod -R u+w planted && rm -r planted/.dircopy planted/dircopy-* planted/planted && rm src/link",
    );
    for args in [&["--hash", "none"][..], &[]] {
        let copied = [&["planted", "plain"], args].concat();
        scene.bare(copied).run().assert_code(0);
        shell(&scene, "rm -f plain/dircopy-*");
        scene.bare(["verify", "plain"]).run().assert_code(5);
        scene.bare(["restore", "plain", "none"]).run().assert_code(2);
        shell(&scene, "chmod -R u+w plain; rm -r plain");
    }
    // Of a bag that was handed on no record knows: it is checked as both, and not brought back by either.
    shell(&scene, "rm -r bag/.dircopy");
    scene.bare(["verify", "bag"]).run().assert_code(4).assert_says("notes.txt");
    let run = scene.bare(["restore", "bag", "other"]).run();
    run.assert_code(2).assert_says("it is a bag, and has a manifest of dircopy");
    let run =
        scene.bare(["restore", "bag/data", "other", "--expect", "bag/manifest-sha256.txt"]).run();
    assert!(!scene.path("other/notes.txt").exists(), "{}", run.err());
}

#[test]
fn a_bag_whose_files_are_all_missing_is_not_an_empty_source() {
    let scene = copied(&[]);
    scene.bare(["src", "bag", "--bag", "--no-links"]).run().assert_code(0);
    shell(&scene, "rm -r bag/data/*");
    let run = scene.bare(["restore", "bag", "back"]).run();
    run.assert_code(4).assert_says("notes.txt");
    run.assert_says("2025/snow.jpg");
}

#[test]
fn newer_files_of_a_run_that_was_cut_short_come_back() {
    need!(Strace);
    for hash in ["sha256", "md5"] {
        let scene = copied(&[]);
        scene.src.file("2025/snow.jpg", "newer snow").file("notes.txt", "newer notes");
        let update =
            || scene.command(["-q", "--overwrite-policy", "update", "-j", "1", "--hash", hash]);
        let strace = Strace::inject(&scene, "renameat2", "signal=KILL:when=2");
        assert_eq!(strace.run(update()).signal, Some(9));
        let newer = shell(&scene, "cd dst && cat *sum.part | sed 's/^[^ ]*  //'");
        assert!(!newer.is_empty());
        let run = scene.bare(["restore", "dst", "back"]).run();
        run.assert_code(0).assert_prints(&["edited since"]);
        for name in ["2025/snow.jpg", "notes.txt"] {
            shell(&scene, &format!("cmp dst/{name} back/{name}"));
        }
        for name in newer.lines() {
            shell(&scene, &format!("cmp src/{name} back/{name}"));
        }
        // What is neither as listed nor as recorded has rotted.
        let name = newer.lines().next().unwrap();
        shell(
            &scene,
            &format!("touch -r dst/{name} t; printf X | dd of=dst/{name} conv=notrunc status=none"),
        );
        shell(&scene, &format!("touch -r t dst/{name}; rm -r back"));
        let run = scene.bare(["restore", "dst", "back"]).run();
        run.assert_code(4).assert_says(name);
        assert!(!scene.path("back").join(name).exists());
    }
}

/// A list that somebody names is the whole proof: no record makes an edit of what it does not have.
#[test]
fn a_list_that_is_named_counts_alone() {
    let scene = copied(&[]);
    shell(&scene, "cd src && sha256sum 2025/snow.jpg notes.txt > ../list");
    scene.src.file("notes.txt", "other");
    scene.copy(&["--overwrite-policy", "update"]).assert_code(0);
    for args in [
        &["dst", "back", "--expect", "list", "--expect-all"][..],
        &["restore", "dst", "back", "--expect", "list"],
    ] {
        scene.bare(args).run().assert_code(4).assert_says("notes.txt: it is not what list lists");
        assert!(!scene.path("back/notes.txt").exists());
    }
}

/// What such a run brought that no manifest lists is proven by its record.
#[test]
fn new_files_of_a_run_that_was_cut_short_are_proven() {
    for hash in ["sha256", "md5"] {
        let scene = copied(&[]);
        scene.src.file("2026/new.jpg", content(3000)).file("film", content(6_000_000));
        let mut copy = scene.command(["-q", "--limit-rate", "1M", "--hash", hash]).spawn();
        copy.until("a new file", || scene.path("dst/2026/new.jpg").exists());
        copy.signal(Signal::TERM);
        copy.wait().assert_code(143);
        scene.bare(["restore", "dst", "back"]).run().assert_code(0);
        shell(&scene, "cmp src/2026/new.jpg back/2026/new.jpg; rm -r back");
        shell(
            &scene,
            "touch -r dst/2026/new.jpg t; printf X | dd of=dst/2026/new.jpg conv=notrunc status=none
             touch -r t dst/2026/new.jpg",
        );
        let run = scene.bare(["restore", "dst", "back"]).run();
        run.assert_code(4).assert_says("2026/new.jpg: it has rotted");
        assert!(!scene.path("back/2026/new.jpg").exists());
        // Of one that is not as listed it is said that it may be newer.
        scene.tree("dst").file("notes.txt", "other");
        let run = scene.bare(["restore", "dst", "more"]).run();
        run.assert_code(4)
            .assert_says("and may be newer: a run was cut short there, and left dircopy-");
    }
}

/// What was named as rotten and left out of later lists is refused, whatever its time is.
#[test]
fn rot_that_later_runs_dropped_is_not_brought_back() {
    let scene = copied(&[]);
    shell(&scene, "printf X | dd of=dst/notes.txt conv=notrunc status=none; rm src/notes.txt");
    scene.bare(["verify", "dst"]).run().assert_code(4).assert_says("differs: dst/notes.txt");
    for _ in 0..2 {
        scene
            .copy(&[])
            .assert_code(4)
            .assert_says("notes.txt: its content is not what an earlier run");
    }
    let run = scene.bare(["restore", "dst", "back"]).run();
    run.assert_code(4).assert_says("notes.txt: it has rotted");
    assert!(!scene.path("back/notes.txt").exists());
}

/// … also where the record has other digests than `restore` computes.
#[test]
fn rot_that_is_on_record_by_another_digest_is_not_brought_back() {
    let rot = "touch -r dst/notes.txt t; printf X | dd of=dst/notes.txt conv=notrunc status=none; touch -r t dst/notes.txt";
    for (before, after) in [("sha512", "sha512"), ("md5", "sha256"), ("xxh128", "blake3")] {
        let scene = copied(&["--hash", before]);
        shell(&scene, &format!("{rot}; rm src/notes.txt"));
        scene.bare(["verify", "dst"]).run().assert_code(4);
        scene.copy(&["--hash", after]).assert_code(4);
        let run = scene.bare(["restore", "dst", "back"]).run();
        run.assert_code(4).assert_says("notes.txt: it has rotted");
        assert!(!scene.path("back/notes.txt").exists(), "{before}");
    }
}

/// Of a copy of the archive, or where its private directory was lost, the earlier lists are all that tells; not of what
/// was written since.
#[test]
fn rot_that_later_lists_left_out_is_not_brought_back() {
    let scene = copied(&[]);
    shell(
        &scene,
        "sleep 1.1; rm src/notes.txt; touch -r dst/notes.txt aside; printf X >dst/notes.txt",
    );
    shell(&scene, "touch -r aside dst/notes.txt");
    scene.copy(&[]).assert_code(4).assert_says("dst/notes.txt");
    shell(&scene, "cp -a dst twin; cp -a dst bare; rm -r bare/.dircopy");
    for tree in ["twin", "bare"] {
        let run = scene.bare(["restore", tree, "back"]).run();
        run.assert_code(4)
            .assert_says(&format!("{tree}/notes.txt: it may have rotted: an earlier list"));
        assert!(!scene.path("back/notes.txt").exists());
        shell(&scene, &format!("echo other >{tree}/notes.txt"));
        scene.bare(["restore", tree, "back"]).run().assert_code(0);
        shell(&scene, &format!("cmp {tree}/notes.txt back/notes.txt; rm -r back"));
    }
}

/// An output of runs stays one.
#[test]
fn an_output_keeps_its_own_records() {
    let scene = copied(&[]);
    scene.bare(["src", "output"]).run().assert_code(0);
    scene.bare(["restore", "dst", "output"]).run().assert_code(0);
    scene.bare(["verify", "output"]).run().assert_code(0);
    // Also one that has no manifest: it knows what was copied to it.
    scene.bare(["src", "plain", "--hash", "none"]).run().assert_code(0);
    scene.bare(["restore", "dst", "plain"]).run().assert_code(0);
    scene.bare(["plain", "src"]).run().assert_code(2).assert_says("exchanged");
}

/// Who might use the directories of a run that was killed is not known.
#[test]
fn directories_that_a_killed_run_left_closed_are_named() {
    need!(Root);
    let scene = copied(&[]);
    shell(&scene, "chmod 755 dst; chmod 4700 dst/2025");
    let run = scene.bare(["restore", "dst", "back"]).run();
    run.assert_code(0).assert_says("cannot know the permissions of dst/2025: a run closed it");
    assert_eq!(shell(&scene, "stat -c %a back/2025"), "700\n");
}

#[test]
fn what_a_killed_run_left_stays_in_the_archive() {
    let scene = copied(&[]);
    let left = leftover_name(&scene.dst);
    let shard = left.replace(".dircopy-part", ".000000ab-4-00000007.dircopy-part");
    shell(
        &scene,
        &format!(
            "cd dst; echo part >2025/{left}; echo part >{shard}; echo user >.a1B2c3D4e5.dircopy-part"
        ),
    );
    let run = scene.bare(["restore", "dst", "back"]).run();
    run.assert_code(0).assert_prints(&["unproven"]);
    assert_eq!(shell(&scene, "cd back; find . -name '*part'"), "./.a1B2c3D4e5.dircopy-part\n");
    // A file of the source may be called so.
    shell(&scene, &format!("rm dst/2025/{left} dst/{shard}; echo mine >src/2025/{left}"));
    scene.copy(&[]).assert_code(0);
    shell(&scene, "rm -r back");
    scene.bare(["restore", "dst", "back"]).run().assert_code(0);
    assert_eq!(shell(&scene, &format!("cat back/2025/{left}")), "mine\n");
}

/// Runs write files of such names for themselves, and neither directories nor links.
#[test]
fn what_is_called_like_a_manifest_and_is_none_comes_back() {
    let scene = copied(&[]);
    scene.src.file("dircopy-20200101T000000Z.sha256sum/film", "film");
    scene.src.symlink("dircopy-20200102T000000Z.md5sum", "notes.txt");
    scene.copy(&[]).assert_code(0);
    scene.bare(["restore", "dst", "back"]).run().assert_code(0);
    shell(&scene, "diff -r --no-dereference src back");
}

/// They match the patterns of what a killed run left, and no run gave them.
#[test]
fn files_of_the_source_with_names_alike_come_back() {
    for is_of_shard in [false, true] {
        let scene = copied(&[]);
        let left = leftover_name(&scene.dst);
        let tagged = left.strip_prefix(".left0").unwrap();
        let alike = match is_of_shard {
            false => format!("2025/.a-b c{tagged}"),
            true => format!(".a1B2c{}", tagged.replacen('.', ".x-y-z.", 1)),
        };
        scene.src.file(&alike, "of the source");
        scene.copy(&[]).assert_code(0);
        scene.bare(["restore", "dst", "back"]).run().assert_code(0);
        shell(&scene, "diff -r src back");
    }
}

#[test]
fn the_journal_of_a_large_file_stays_in_the_archive() {
    need!(Strace);
    let scene = copied(&[]);
    scene.src.file("2025/film.mov", content(8 << 20));
    let args = ["--checkpoint", "2M", "--block-size", "64K", "--queue-size", "2"];
    let strace = Strace::inject(&scene, Strace::WRITES, "signal=KILL:when=100");
    assert_ne!(strace.run(scene.command(args)).code, Some(0));
    let left = shell(&scene, "cd dst; find . -name '*.dircopy-*' | sed 's/.*dircopy-//' | sort");
    assert_eq!(left, "journal\npart\n");
    scene.bare(["restore", "dst", "back"]).run();
    assert_eq!(shell(&scene, "cd back; find . -name '*.dircopy-*'"), "");
}

#[test]
fn the_payload_of_a_bag_is_restored_with_the_bag() {
    let scene = Scene::new();
    scene.src.file("a", "a");
    scene.copy(&["--bag"]).assert_code(0);
    let run = scene.bare(["restore", "dst/data", "back"]).run();
    run.assert_code(2).assert_says("it is the payload of a bag: dircopy restore dst DST");
    let run = scene.bare(["restore", "dst", "back", "--include", "/none"]).run();
    run.assert_code(1);
    assert!(!run.err().contains("generations"), "{}", run.err());
    scene.bare(["restore", "dst", "back"]).run().assert_code(0);
    // What is recommended instead of several is a restore too.
    let run = scene.bare(["restore", "dst/data/a", "dst/bagit.txt", "back"]).run();
    run.assert_code(2).assert_says("as in dircopy restore dst/data/a back");
}

/// Who may write to a copy can remove its manifest, and put another there: that is not what the last run wrote.
#[test]
fn a_manifest_that_is_gone_is_not_replaced_by_another() {
    for list in
        ["md5sum dircopy-20200101T000000Z.md5sum", "sha256sum dircopy-20991231T000000Z.sha256sum"]
    {
        let scene = copied(&[]);
        let (program, name) = list.split_once(' ').unwrap();
        shell(
            &scene,
            &format!(
                "cd dst; was=$(ls *.sha256sum); echo evil >notes.txt; rm $was; {program} notes.txt >{name}"
            ),
        );
        if program == "md5sum" {
            shell(&scene, "cd dst; mv *.md5sum $(date -u +dircopy-%Y%m%dT235959Z.md5sum)");
        }
        let run = scene.bare(["restore", "dst", "back"]).run();
        run.assert_code(2)
            .assert_says("which the last run finished, is gone")
            .assert_says("--manifest");
        assert!(!scene.path("back").exists());
        scene.bare(["protect", "dst"]).run().assert_says("which the last run finished, is gone");
    }
}

/// Where the record of a copy is kept elsewhere, it is asked there.
#[test]
fn a_copy_whose_record_is_elsewhere_is_proven_by_it() {
    let scene = Scene::new();
    scene.src.file("a", "good");
    shell(&scene, "mkdir state");
    scene.copy(&["--state", "state"]).assert_code(0);
    let restore = |to: &str| scene.bare(["restore", "dst", to, "--state", "state"]).run();
    restore("back").assert_code(0);
    shell(&scene, "cmp src/a back/a; cd dst; echo evil >a; sha256sum a >$(ls *.sha256sum)");
    restore("again").assert_code(2).assert_says("it is not what the last run wrote");
    assert!(!scene.path("again").exists());
}

/// Where others may write to the archive, what they put in the place of a file has their owner and permissions.
#[test]
fn labels_that_others_may_have_given_are_told() {
    need!(Root);
    let scene = copied(&[]);
    let told = "other users may write to it, and lists have contents alone";
    let run = scene.ended(&["restore", "dst", "back"], 0);
    assert!(!run.err().contains(told), "{}", run.err());
    shell(&scene, "chmod 777 dst");
    scene.ended(&["restore", "dst", "again"], 0).assert_says(told);
    // Who may write above it can put another archive there, at any time.
    shell(&scene, "chmod 755 dst; mkdir up; mv dst up/; chown nobody up");
    let told = "other users may write above it, and lists have contents alone";
    scene.ended(&["restore", "up/dst", "third"], 0).assert_says(told);
}

/// A list that another user put into a directory of ours, where the record of our runs was taken away.
#[test]
fn a_list_of_another_user_in_ones_own_directory_is_not_believed() {
    need!(Root);
    let scene = copied(&[]);
    shell(
        &scene,
        "cd dst; m=$(ls *.sha256sum); rm -r .dircopy; echo evil >notes.txt; sha256sum notes.txt 2025/snow.jpg >$m; chown 1001 $m",
    );
    let told = "it is of another user (1001), whose the directory is not";
    scene.ended(&["verify", "dst"], 5).assert_says(told);
    scene.ended(&["restore", "dst", "back"], 2).assert_says(told);
    scene.ended(&["protect", "dst"], 5).assert_says(told);
    let list = shell(&scene, "ls dst/*.sha256sum");
    scene.ended(&["verify", "-m", list.trim(), "dst"], 0);
    scene.ended(&["restore", "dst", "back", "--expect", list.trim()], 0);
    // All of it is that user's.
    shell(&scene, "chown -R 1001 dst");
    scene.ended(&["verify", "dst"], 0);
}

/// What a check says of the list that holds, a restore says too; and of a later one that may be of our runs it is for the
/// user to say which holds.
#[test]
fn what_is_doubtful_of_the_list_is_told() {
    let scene = copied(&[]);
    shell(&scene, "cp -a dst/.dircopy older; echo new >src/new");
    scene.copy(&[]).assert_code(0);
    shell(&scene, "mv dst/.dircopy newer; cp -a older dst/.dircopy");
    // In its own place again.
    shell(
        &scene,
        "rm -r dst/.dircopy; mv newer dst/.dircopy; cp -p older/record dst/.dircopy/record",
    );
    scene.ended(&["verify", "dst"], 5);
    let run = scene.ended(&["restore", "dst", "back"], 2);
    run.assert_says("cannot restore all by").assert_says("--expect LIST");
    assert!(!scene.path("back").exists());
    // Without a record the lists tell.
    shell(&scene, "rm -r dst/.dircopy; cd dst; sed -i /notes/d $(ls -r *.sha256sum | head -1)");
    let run = scene.ended(&["restore", "dst", "back"], 0);
    run.assert_says("no private record tells which manifest holds");
}
