//! A bag that another user may write to: data and lists that were written anew agree with each other, and not with what
//! the runs recorded that made the bag.

use crate::harness::{Act, Habit, Mirror, Need, Run, Scene, Strace, have, need, shell};

/// Writes the lists of the bag in this directory anew, as a program for bags would.
const SEAL: &str = "find data -type f | sort | xargs -d '\\n' sha256sum > manifest-sha256.txt
    sed -i '/^Payload-Oxum/d' bag-info.txt
    find data -type f -printf '%s\\n' | awk '{s += $1} END {print \"Payload-Oxum: \" s \".\" NR}' >> bag-info.txt
    sha256sum bag-info.txt bagit.txt manifest-sha256.txt > tagmanifest-sha256.txt";

/// A bag at the output that was changed by `deed`, with lists that were made anew after that.
fn rewritten(deed: &str) -> Scene {
    let scene = Scene::new();
    scene.src.file("a", "one").file("dir/b", "two").file("c", "three");
    scene.copy(&["--bag"]).assert_code(0);
    is_valid(&scene);
    shell(&scene, &format!("cd dst && {deed} && {SEAL}"));
    scene
}

fn is_valid(scene: &Scene) {
    let run = scene.bare(["verify", "dst"]).run();
    run.assert_code(0).assert_prints(&["dst is a valid bag"]);
    assert!(run.stderr.is_empty(), "{}", run.err());
}

#[track_caller]
fn verify(scene: &Scene, code: i32) -> Run {
    let run = scene.bare(["verify", "dst"]).run();
    run.assert_no_crash();
    run.assert_code(code);
    run
}

#[test]
fn data_and_lists_that_were_written_anew_are_no_valid_bag() {
    let scene = rewritten("printf ONE > data/a");
    let run = verify(&scene, 4);
    run.assert_says("differs: dst/data/a").assert_says("contradicted: dst/data/a");
    run.assert_prints(&["dst is not a complete bag"]);
    // The list alone.
    let scene = rewritten("cp data/a ../kept && printf ONE > data/a");
    shell(&scene, "cp kept dst/data/a");
    verify(&scene, 4)
        .assert_says("contradicted: dst/data/a")
        .assert_prints(&["not a complete bag"]);
}

#[test]
fn what_was_added_or_taken_out_is_named() {
    let scene = rewritten("rm data/dir/b && printf new > data/new");
    let run = verify(&scene, 4);
    run.assert_says("missing: dst/data/dir/b").assert_says("contradicted: dst/data/dir/b");
    run.assert_says("contradicted: dst/data/new").assert_prints(&["not a complete bag"]);
    // Whoever says by which list it is to be has it.
    let list = ["verify", "--manifest", "dst/manifest-sha256.txt"];
    scene.bare(list).run().assert_code(0);
    // The next run makes of it what the source is, as soon as nothing else is there.
    shell(&scene, "rm dst/data/new");
    scene.copy(&["--bag"]).assert_code(0);
    is_valid(&scene);
}

/// What brings data back, or makes anything by it, goes by what was recorded.
#[test]
fn nothing_is_made_by_lists_that_were_written_anew() {
    let scene = rewritten("printf ONE > data/a && rm data/c");
    let run = scene.bare(["restore", "dst", "back"]).run();
    run.assert_code(4).assert_says("dst/data/a").assert_says("rely on dst/manifest-sha256.txt");
    assert!(!scene.path("back/a").exists(), "{}", run.err());
    assert!(scene.path("back/dir/b").exists(), "{}", run.err());
    let run = scene.bare(["protect", "dst"]).run();
    run.assert_code(4).assert_says("dst/data/a").assert_says("dst/data/c");
    let run = scene.bare(["heal", "dst", "src"]).run();
    assert!(!run.err().contains("conflict"), "{}", run.err());
    // A good copy makes it whole, and its lists stay contradicted until they are made anew.
    shell(&scene, "mkdir good && cp -r src good/data");
    let run = scene.bare(["heal", "dst", "--from-tree", "good"]).run();
    run.assert_code(4).assert_says("healed: dst/data/a").assert_says("healed: dst/data/c");
    assert_eq!(shell(&scene, "diff -r src dst/data"), "");
    scene.copy(&["--bag", "--overwrite-policy", "always"]).assert_code(0);
    is_valid(&scene);
}

/// A run that leaves what differs does not make it right.
#[test]
fn a_run_that_leaves_it_does_not_make_it_valid() {
    let scene = rewritten("printf ONE > data/a");
    scene.copy(&["--bag", "--overwrite-policy", "never"]).assert_code(1);
    verify(&scene, 4).assert_says("contradicted: dst/data/a");
}

/// All that a bag may have is recorded: nothing is told of one as it was made.
#[test]
fn a_bag_that_is_as_it_was_made_is_valid() {
    let scene = Scene::new();
    scene
        .src
        .file("a", "one")
        .file("empty", "")
        .file("li\nne", "x")
        .file("100%", "x")
        .file("-z", "x");
    scene.src.hard_link("also", "a");
    for links in [&[][..], &["--hard-links"]] {
        for hash in ["sha256,md5", "sha256,md5", "sha1,sha512,sha256,md5"] {
            let args = [&["--bag", "--hash", hash], links].concat();
            scene.copy(&args).assert_code(0);
            is_valid(&scene);
            // The source changed.
            scene.src.append("a", b"more");
        }
        shell(&scene, "rm -r dst");
    }
    scene.copy(&["--bag"]).assert_code(0);
    // Also where it is moved.
    shell(&scene, "mkdir there && mv dst there && mv there/dst dst");
    is_valid(&scene);
}

const OF_ANOTHER: &str =
    "it is of another directory (the bag was copied, or its payload exchanged)";

/// The record is known by its directory, and the one that is there now is another.
#[test]
fn another_payload_is_held_against_the_record_all_the_same() {
    let exchanged = "mv data ../aside && cp -r ../aside data";
    let scene = rewritten(&format!("{exchanged} && printf ONE > data/a && rm data/c"));
    let run = verify(&scene, 4);
    run.assert_says("contradicted: dst/data/a").assert_says("differs: dst/data/a");
    run.assert_says("missing: dst/data/c").assert_says(OF_ANOTHER);
    let run = scene.bare(["restore", "dst", "back"]).run();
    run.assert_code(4).assert_says("dst/data/a").assert_says(OF_ANOTHER);
    assert!(!scene.path("back/a").exists() && scene.path("back/dir/b").exists(), "{}", run.err());
    scene.bare(["protect", "dst"]).run().assert_code(4).assert_says(OF_ANOTHER);
    let run = scene.bare(["heal", "dst", "--from-tree", "src"]).run();
    run.assert_code(4).assert_says(OF_ANOTHER);
    // With the same content nothing is wrong, but that it is another is said, until a run recorded it.
    let scene = Scene::new();
    scene.src.file("a", "one").file("dir/b", "two");
    scene.copy(&["--bag"]).assert_code(0);
    shell(&scene, &format!("cd dst && {exchanged}"));
    let run = verify(&scene, 0);
    run.assert_says(OF_ANOTHER).assert_says("the same copy again records the payload");
    run.assert_prints(&["dst is a valid bag"]);
    scene.copy(&["--bag", "--overwrite-policy", "always"]).assert_code(0);
    is_valid(&scene);
}

/// A bag that no run finished, and somebody else did.
#[test]
fn a_bag_that_was_finished_by_others_is_told() {
    let scene = Scene::new();
    scene.src.file("a", "one").file("large", vec![7; 100_000]);
    let run = scene.copy(&["--bag", "--max-size", "1000"]);
    run.assert_code(1);
    scene.tree(".").file("bagit.txt", "BagIt-Version: 1.0\nTag-File-Character-Encoding: UTF-8\n");
    shell(
        &scene,
        "rm -f dst/.dircopy/payload/record && mv bagit.txt dst && cd dst && sha256sum data/* > manifest-sha256.txt",
    );
    let run = verify(&scene, 0);
    run.assert_says("no run of yours recorded the payload to its end");
    scene.copy(&["--bag"]).assert_code(0);
    is_valid(&scene);
}

/// A copy of a bag brings the record along, which is none of it; what it says otherwise is told all the same.
#[test]
fn a_copy_of_a_bag_is_proven_by_its_own_lists_and_that_is_said() {
    let scene = rewritten("true");
    scene.copy(&["--bag"]).assert_code(0);
    shell(&scene, "cp -a dst moved && rm -r dst && mv moved dst");
    let remedy = "remove it if this is a copy that was changed since";
    let run = verify(&scene, 0);
    run.assert_says("cannot go by the private record in dst/.dircopy").assert_says(OF_ANOTHER);
    run.assert_says(remedy).assert_prints(&["dst is a valid bag"]);
    let run = scene.bare(["verify", "-q", "dst"]).run();
    assert!(run.stderr.is_empty(), "{}", run.err());
    let run = scene.bare(["restore", "dst", "back"]).run();
    run.assert_code(0).assert_says(OF_ANOTHER);
    shell(&scene, &format!("cd dst && printf ONE > data/a && {SEAL}"));
    verify(&scene, 4).assert_says("contradicted: dst/data/a").assert_says(remedy);
    shell(&scene, "rm -r dst/.dircopy");
    is_valid(&scene);
}

const OTHERWISE: &str = "your last run wrote it otherwise";

/// A bag whose tags were changed by `deed`, and what comes of it. The same copy again keeps them.
fn tags_are_told(deed: &str, list: &str) -> Scene {
    let scene = Scene::new();
    scene.src.file("a", "one");
    let copy = || scene.copy(&["--bag", "--hash", "sha256,md5", "--bag-info", "Contact-Name=Ann"]);
    copy().assert_code(0);
    is_valid(&scene);
    shell(&scene, &format!("cd dst && {deed}"));
    let contradicted = format!("contradicted: dst/{list}: {OTHERWISE}");
    let run = verify(&scene, 4);
    run.assert_says(&contradicted).assert_says("the same copy again keeps the tags");
    run.assert_prints(&["dst is not a complete bag"]);
    scene.bare(["protect", "dst"]).run().assert_code(4).assert_says(&contradicted);
    let run = scene.bare(["heal", "dst", "--from-tree", "src"]).run();
    run.assert_code(4).assert_says(&contradicted);
    // The payload is what it was.
    let run = scene.bare(["restore", "dst", "back"]).run();
    run.assert_code(0).assert_says(&format!("cannot rely on dst/{list}: {OTHERWISE}"));
    scene
}

#[test]
fn tags_that_were_written_anew_are_told() {
    let lists = "for by in sha256 md5; do ${by}sum bag-info.txt bagit.txt manifest-*.txt > tagmanifest-$by.txt; done";
    let evil = format!("sed -i s/Ann/Eve/ bag-info.txt && {lists}");
    for (deed, list) in [
        (&*evil, "tagmanifest-md5.txt"),
        ("echo x > note && sha256sum note >> tagmanifest-sha256.txt", "tagmanifest-sha256.txt"),
        ("sed -i s/Ann/Eve/ bag-info.txt && rm tagmanifest-*", "tagmanifest-sha256.txt"),
        ("sha512sum bag* manifest-* > tagmanifest-sha512.txt", "tagmanifest-sha512.txt"),
        ("rm tagmanifest-md5.txt && mkdir tagmanifest-md5.txt", "tagmanifest-md5.txt"),
    ] {
        tags_are_told(deed, list);
    }
    // The next run says so, and takes them over.
    let scene = tags_are_told(&evil, "tagmanifest-sha256.txt");
    let again = ["--bag", "--hash", "sha256,md5"];
    let run = scene.copy(&again);
    let said = "dst/tagmanifest-sha256.txt: it is not as your last run wrote it";
    run.assert_code(0).assert_says(said);
    is_valid(&scene);
    assert!(shell(&scene, "cat dst/bag-info.txt").contains("Contact-Name: Eve"));
    let run = scene.copy(&again);
    assert!(!run.err().contains("cannot rely"), "{}", run.err());
    is_valid(&scene);
    // The tags of a bag that an earlier version made are on no record, which is said.
    shell(&scene, &format!("rm dst/.dircopy/tag-lists && cd dst && {evil}"));
    verify(&scene, 0).assert_says("its note of the tag manifests is gone");
}

/// Who edits tags with another program is told what to do.
#[test]
fn tags_that_the_user_edited_are_told() {
    if !have(&[Need::Program("bagit.py")]) {
        return;
    }
    let edit = "tool=$(command -v bagit.py) && cat > ../edit.py <<'EOF'
import bagit
bag = bagit.Bag('.')
bag.info['Contact-Name'] = 'Bob'
bag.save()
EOF
    PYTHONPATH=$(dirname $tool) $(head -1 $tool | cut -c3-) ../edit.py";
    let scene = tags_are_told(edit, "tagmanifest-sha256.txt");
    scene.copy(&["--bag", "--hash", "sha256,md5"]).assert_code(0);
    is_valid(&scene);
    assert!(shell(&scene, "cat dst/bag-info.txt").contains("Contact-Name: Bob"));
    shell(&scene, "bagit.py --validate dst 2>&1");
}

/// A list by another algorithm than that of the runs says nothing against what they recorded.
#[test]
fn a_list_by_another_algorithm_does_not_count_for_the_one_that_is_gone() {
    let scene = rewritten("true");
    let seal = "cd dst && rm manifest-sha256.txt tagmanifest-sha256.txt &&
        find data -type f | sort | xargs sha512sum > manifest-sha512.txt";
    shell(&scene, seal);
    let run = verify(&scene, 4);
    run.assert_says("contradicted: dst/tagmanifest-sha256.txt");
    assert!(!run.err().contains("data/"), "{}", run.err());
    shell(
        &scene,
        "cd dst && printf ONE > data/a && find data -type f | sort | xargs sha512sum > manifest-sha512.txt",
    );
    let run = verify(&scene, 4);
    run.assert_says("differs: dst/data/a");
    assert!(!run.out().contains("valid bag"), "{}", run.out());
    let run = scene.bare(["restore", "dst", "back"]).run();
    run.assert_code(4).assert_says("dst/data/a");
    assert!(!scene.path("back/a").exists(), "{}", run.err());
    // Nor does what only has the name of the one that is gone.
    shell(&scene, "rm -rf back && mkdir dst/manifest-sha256.txt");
    let run = scene.bare(["restore", "dst", "back"]).run();
    run.assert_code(4).assert_says("dst/data/a");
    assert!(!scene.path("back/a").exists(), "{}", run.err());
}

/// What the runs made a bag is none of the plain copies, whatever is taken away and put there.
#[test]
fn a_bag_does_not_become_a_plain_copy() {
    let scene = rewritten("printf ONE > data/a");
    shell(
        &scene,
        "cd dst && rm *.txt && find data -type f | xargs sha256sum > ../m && mv ../m dircopy-20261101T000000Z.sha256sum",
    );
    verify(&scene, 5).assert_says("your runs made it a bag, its bagit.txt is gone");
    scene.bare(["restore", "dst", "back"]).run().assert_code(2);
}

/// A bag, of whose private directory the file `note` was spoiled.
fn spoiled(note: &str, spoil: &str) -> Scene {
    let scene = Scene::new();
    scene.src.file("a", "one");
    scene.copy(&["--bag", "--bag-info", "Contact-Name=Ann"]).assert_code(0);
    shell(&scene, &format!("{spoil} dst/.dircopy/{note}"));
    scene
}

const SPOILS: [&str; 3] = ["truncate -s 0", "truncate -s -3", "sed -i '1s/ 1 / 2 /'"];

/// The note that it is a bag of this user's: one of no use is not that of a copy.
#[test]
fn a_bag_whose_note_is_damaged_is_not_said_to_be_copied() {
    for spoil in [&SPOILS[..], &["rm"]].concat() {
        let scene = spoiled("bag", spoil);
        let run = verify(&scene, 0);
        run.assert_says("its note that this is a bag is gone, damaged or of another version");
        run.assert_says("no run goes on with this bag");
        assert!(!run.err().contains("copied"), "{}", run.err());
        let run = scene.copy(&["--bag"]);
        run.assert_code(2).assert_says(match spoil {
            "rm" => "no bag that this user's runs began there",
            _ => "its note in .dircopy that it is your bag is damaged, or of another version",
        });
        // The remedy.
        shell(&scene, "rm -r dst/.dircopy");
        is_valid(&scene);
    }
}

#[test]
fn a_bag_whose_note_of_the_tags_is_damaged_says_so() {
    let unread = "its note of the tag manifests is gone, damaged, or of another version of dircopy";
    for spoil in SPOILS {
        let scene = spoiled("tag-lists", spoil);
        verify(&scene, 0).assert_says(unread).assert_says("these alone prove the tags");
        scene.copy(&["--bag"]).assert_code(0).assert_says(unread);
        is_valid(&scene);
        assert_eq!(scene.copy(&["--bag"]).assert_code(0).err(), "");
    }
}

/// What the tags were is known to their file alone.
#[test]
fn tags_that_are_gone_are_not_lost_without_a_word() {
    for forget in ["true", "rm dst/.dircopy/tag-lists", "rm dst/tagmanifest-*"] {
        let scene = spoiled("bag-info.txt", "true");
        shell(&scene, &format!("{forget}; mv dst/bag-info.txt kept; cp -a dst before"));
        let run = scene.copy(&["--bag", "--bag-info", "Contact-Name=Ann"]);
        run.assert_code(2).assert_says("cannot keep the tags in").assert_says("it is gone");
        shell(&scene, "diff -r --exclude=.dircopy before dst; mv kept dst/bag-info.txt");
        scene.copy(&["--bag"]).assert_code(0);
        is_valid(&scene);
        assert!(shell(&scene, "cat dst/bag-info.txt").starts_with("Contact-Name: Ann\n"));
        // What is in its place is no file, and is replaced.
        shell(&scene, "cp dst/bag-info.txt kept; ln -sf nowhere dst/bag-info.txt");
        scene.copy(&["--bag"]).assert_code(0).assert_says("so its tags are lost");
        shell(&scene, "cp kept dst/bag-info.txt");
        // The other remedy.
        shell(&scene, ": >dst/bag-info.txt");
        scene.copy(&["--bag", "--bag-info", "Contact-Name=Bob"]).assert_code(0);
        is_valid(&scene);
        assert!(shell(&scene, "cat dst/bag-info.txt").starts_with("Contact-Name: Bob\n"));
    }
}

/// As FAT and exFAT number them: a run goes on with its bag, and with what else it made.
#[test]
fn directories_have_other_numbers_after_each_mount() {
    need!(Fuse);
    for args in [&["--bag"][..], &[], &["--mirror"]] {
        let scene = Scene::new();
        scene.src.file("a", "one").file("dir/b", "two");
        for number in 0..4 {
            let habits = &[Habit::NumbersDirectories((number + 1) << 40)];
            let below = scene.path("below");
            std::fs::create_dir_all(&below).unwrap();
            let _mount = Mirror::with_habits(&below, &scene.path("disk"), habits, |_| Act::Pass);
            let run = |args: &[&str]| scene.bare([&["src", "disk/out"], args].concat()).run();
            if number > 0 {
                scene.ended(&["verify", "disk/out"], 0);
            }
            let ran = run(args);
            ran.assert_code(0);
            assert_eq!(ran.err(), "", "{args:?} {number}");
            let checked = scene.ended(&["verify", "disk/out"], 0);
            assert_eq!(checked.err(), "", "{args:?} {number}");
            scene.src.file(format!("{number}"), "new");
        }
        let payload = if args == ["--bag"] { "out/data" } else { "out" };
        shell(
            &scene,
            &format!(
                "rm src/3; diff -r src below/{payload} | grep -v ': \\.\\?dircopy' | (! grep .)"
            ),
        );
    }
}

/// What is recorded of the payload is lost, and its list was written anew: the tag manifests on record tell it.
#[test]
fn a_list_that_nothing_on_record_covers_is_not_restored_by() {
    let scene = rewritten("rm .dircopy/payload/record && printf ONE > data/a");
    verify(&scene, 4);
    scene.ended(&["restore", "dst", "back"], 2).assert_says("are not as your last run wrote them");
    assert!(!scene.path("back/a").exists());
}

#[test]
fn a_note_of_the_tags_that_is_gone_is_told() {
    let scene = rewritten("rm .dircopy/tag-lists && echo Contact-Name: Eve >> bag-info.txt");
    verify(&scene, 0).assert_says("its note of the tag manifests is gone, damaged");
}

/// A run is killed at its trial of whether the file system of the payload has owners.
#[test]
fn a_bag_is_finished_after_a_kill_at_a_trial() {
    need!(Root, Strace);
    for when in 1..6 {
        let scene = Scene::new();
        scene.src.file("a", "one").file("dir/b", "two");
        scene.copy(&["--bag"]).assert_code(0);
        shell(&scene, "chmod 755 src dst/data; chmod 700 src/dir; echo more > src/new");
        let fault = format!("signal=SIGKILL:when={when}");
        let strace = Strace::inject(&scene, "unlinkat", &fault);
        strace.run(scene.command(["--bag"]));
        scene.copy(&["--bag"]).assert_code(0);
        is_valid(&scene);
    }
}
