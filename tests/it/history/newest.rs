//! The newest generation, where another user may write to the directory of all: it is moved away, another directory gets
//! its name, or `latest` leads elsewhere.

use super::{names, nights};
use crate::harness::{Mount, Scene, Strace, need, shell};

/// A tree with a manifest and without a record, as anybody can make it.
const PLANT: &str = "plant() { mkdir $1 && echo planted >$1/file && (cd $1 && sha256sum file >dircopy-20300101T000000Z.sha256sum); }";

/// Nothing is restored from these, and a check of each says why.
#[track_caller]
fn refused(scene: &Scene, says: &str, paths: &[&str]) {
    for path in paths {
        scene.ended(&["verify", path], 5).assert_says(says);
        scene.ended(&["restore", path, "back"], 2).assert_says(says);
        assert!(!scene.path("back").exists());
    }
}

#[test]
fn a_tree_in_the_place_of_the_newest_is_not_taken_for_it() {
    let (scene, all) = nights(&["one", "two", "three"]);
    let newest = format!("dst/{}", all[2]);
    shell(&scene, &format!("{PLANT}; mv {newest} away; plant {newest}"));
    refused(&scene, "finished record", &[&newest, "dst/latest", "dst"]);
    scene.ended(&["generations", "dst"], 1).assert_says("your last run made it");
    for path in [&newest, "dst/latest"] {
        scene.ended(&["protect", path], 2).assert_says("finished record");
        scene.ended(&["heal", path, "--from-tree", "away"], 2).assert_says("--manifest LIST");
    }
    // A list that was kept elsewhere says what is good.
    let list = shell(&scene, "ls away/dircopy-*");
    scene.ended(&["restore", &newest, "back", "--expect", list.trim()], 4);
    // Older ones are what they were.
    let older = format!("dst/{}", all[1]);
    scene.ended(&["verify", &older], 0);
    scene.ended(&["restore", &older, "older"], 0);
    assert_eq!(shell(&scene, "cat older/file"), "two");
    // The next night goes on from the newest of its user's, and is the newest.
    shell(&scene, "cp -p dst/latest/file src/file");
    let run = scene.copy(&["--generations"]);
    run.assert_code(0).assert_says("your last run made it");
    assert_eq!(shell(&scene, "cat dst/latest/file"), "planted\n");
    let name = shell(&scene, "readlink dst/latest");
    scene.ended(&["verify", &format!("dst/{}", name.trim())], 0);
    for path in ["dst", "dst/latest"] {
        scene.ended(&["verify", path], 0);
    }
    scene.ended(&["restore", "dst/latest", "again"], 0);
    // What was put there is none of the generations.
    scene.ended(&["restore", &newest, "none"], 2).assert_says("no run of yours left");
    let within = format!("cd {newest}");
    let run = scene.bare(["restore", ".", "../../none"]).after(&within).run();
    run.assert_code(2).assert_says("no run of yours left");
    assert!(!scene.ended(&["verify", &newest], 0).err().is_empty());
    scene.ended(&["protect", &newest], 2).assert_says("no run of yours left");
    scene.ended(&["heal", &newest, "--from-tree", "away", "--manifest", list.trim()], 0);
    assert_eq!(shell(&scene, &format!("cat {newest}/file")), "three");
}

#[test]
fn no_older_generation_and_no_other_directory_is_taken_for_the_newest() {
    let (scene, all) = nights(&["one", "two", "three"]);
    let newest = format!("dst/{}", all[2]);
    // It is there, and `latest` leads elsewhere.
    for lead in [
        format!("ln -s {} dst/latest", all[1]),
        format!("{PLANT}; plant dst/2099-01-01T000000Z; ln -s 2099-01-01T000000Z dst/latest"),
        format!("{PLANT}; plant evil; ln -s ../evil dst/latest"),
        format!("{PLANT}; plant dst/latest"),
    ] {
        shell(&scene, &format!("rm dst/latest; {lead}"));
        refused(&scene, &format!("the newest of your runs is {}", all[2]), &["dst/latest"]);
        scene.ended(&["restore", "dst", "back"], if lead.contains("dst/2099") { 2 } else { 0 });
        shell(&scene, "rm -rf back dst/2099* evil; [ -L dst/latest ] || mv dst/latest x; rm -rf x");
        shell(&scene, &format!("ln -sfn {} dst/latest", all[2]));
    }
    scene.ended(&["verify", "dst/latest"], 0);
    // It is gone.
    shell(&scene, &format!("mv {newest} away; ln -sfn {} dst/latest", all[1]));
    refused(&scene, "your last run made it, and it is gone", &["dst/latest", "dst"]);
    let run = scene.ended(&["restore", "dst", "back"], 2);
    run.assert_says(&format!("dircopy restore dst/{} DST", all[1]));
    scene.ended(&["verify", &format!("dst/{}", all[1])], 0);
    scene.copy(&["--generations", "--keep", "last=1"]).assert_code(0).assert_says("it is gone");
    scene.ended(&["verify", "dst"], 0);
    assert_eq!(names(&scene).len(), 1);
    // All of what tells it is gone.
    shell(&scene, "mv dst/.dircopy gone; rm dst/latest");
    let says = "nothing tells whether";
    refused(&scene, says, &["dst"]);
    scene.ended(&["verify", &format!("dst/{}", names(&scene)[0])], 0);
    let run = scene.ended(&["restore", "dst", "back"], 2);
    run.assert_says(&format!("dircopy restore dst/{} DST", names(&scene)[0]));
    scene.copy(&["--generations"]).assert_code(0).assert_says(says);
    assert!(!scene.ended(&["verify", "dst"], 0).err().contains(says));
}

/// Whenever a run is killed, what is there is no fault of anybody's.
#[test]
fn a_run_that_was_killed_at_its_end_makes_nobody_doubt() {
    need!(Strace);
    let mut ends = [0; 2];
    for when in 1..60 {
        let scene = Scene::new();
        scene.src.file("file", "one");
        scene.copy(&["--generations"]).assert_code(0);
        scene.src.file("file", "other");
        let calls = "renameat,renameat2,linkat,symlinkat,unlinkat,fsync";
        let strace = Strace::inject(&scene, calls, &format!("signal=KILL:when={when}"));
        let run = strace.run(scene.command(["--generations"]));
        for path in ["dst", "dst/latest"] {
            scene.ended(&["verify", path], 0);
            scene.ended(&["restore", path, "back"], 0);
            shell(&scene, "rm -r back");
        }
        ends[usize::from(shell(&scene, "cat dst/latest/file") == "other")] += 1;
        if run.code == Some(0) {
            break;
        }
        scene.copy(&["--generations"]).assert_code(0);
        scene.ended(&["verify", "dst/latest"], 0);
    }
    assert!(ends[0] > 3 && ends[1] > 1, "{ends:?}");
}

/// The next night does not get the name of one that was moved away, which could then be put in its place.
#[test]
fn a_night_does_not_get_the_name_of_one_that_was_moved_away() {
    let (scene, all) = nights(&["one", "two", "three"]);
    shell(&scene, &format!("mv dst/{} hidden", all[2]));
    scene.src.file("file", "four");
    scene.copy(&["--generations"]).assert_code(0);
    assert!(names(&scene).last() > all.last(), "{:?}, before {all:?}", names(&scene));
}

/// A directory of nights whose note of the newest does not count says nothing of which that is, and that is told.
#[test]
fn without_its_note_nothing_tells_which_is_the_newest() {
    for spoil in ["rm", "truncate -s 0", "sed -i s/newest.1/newest.2/"] {
        let (scene, all) = nights(&["one", "two", "three"]);
        shell(&scene, &format!("{spoil} dst/.dircopy/newest"));
        let says = format!("so nothing tells whether {} is the newest generation", all[2]);
        refused(&scene, &says, &["dst"]);
        scene.copy(&["--generations"]).assert_code(0);
        assert!(!scene.ended(&["verify", "dst"], 0).err().contains("nothing tells"));
    }
}

/// What has lost its newest generation is no place to erase a card by, nor what the catalogue is to say of a disk.
#[test]
fn without_the_newest_nothing_is_covered_or_catalogued() {
    need!(Root, Mount);
    Mount::privately();
    let (scene, all) = nights(&["one", "two"]);
    shell(&scene, "mkdir card");
    let _card = Mount::tmpfs(&scene.path("card"), "16m");
    shell(&scene, "printf one >card/file");
    let covered = |place, code| {
        scene.ended(&["covered", "card", place, "--copies", "1", "--count-memory"], code)
    };
    let add = |place, code| scene.ended(&["catalog", "add", "--catalog", "c", place], code);
    covered("dst", 0);
    shell(&scene, &format!("mv dst/{} away; ln -sfn {} dst/latest", all[1], all[0]));
    for place in ["dst", "dst/latest"] {
        let run = covered(place, 5);
        run.assert_says("your last run made it, and it is gone").assert_says("do not erase card");
        assert!(!run.out().contains("may be erased"), "{}", run.out());
        add(place, 2).assert_says("your last run made it, and it is gone");
    }
    let older = format!("dst/{}", all[0]);
    covered(&older, 0);
    add(&older, 0);
    scene.copy(&["--generations"]).assert_code(0);
    assert_eq!(covered("dst", 0).err(), "");
    assert_eq!(add("dst", 0).err(), "");
    // Nothing tells which is the newest.
    shell(&scene, "rm dst/.dircopy/newest");
    covered("dst", 5).assert_says("so nothing tells whether");
    add("dst", 2).assert_says("so nothing tells whether");
}

#[test]
fn a_newest_generation_whose_record_is_damaged_is_not_taken_for_it() {
    for spoil in ["truncate -s 0", "truncate -s -1", "sed -i s/record.1/record.2/"] {
        let (scene, all) = nights(&["one", "two", "three"]);
        let newest = format!("dst/{}", all[2]);
        shell(&scene, &format!("{spoil} {newest}/.dircopy/record"));
        refused(&scene, "its own record is damaged", &[&newest, "dst/latest", "dst"]);
        let run = scene.ended(&["restore", "dst", "back"], 2);
        run.assert_says(&format!("dircopy restore dst/{} DST", all[1]));
        scene.ended(&["catalog", "add", "--catalog", "c", "dst"], 2).assert_says("own record is");
        scene.ended(&["verify", &format!("dst/{}", all[1])], 0);
        // The next night is the newest.
        scene.copy(&["--generations"]).assert_code(0);
        for path in ["dst", "dst/latest"] {
            scene.ended(&["verify", path], 0);
        }
        scene.ended(&["restore", "dst", "back"], 0);
    }
}

/// The link to the newest generation could not be renewed: the run is not complete, because a check of the newest ends
/// badly.
#[test]
fn a_latest_that_cannot_be_renewed_is_no_success() {
    need!(Strace);
    let (scene, all) = nights(&["one", "two"]);
    scene.src.file("file", "three");
    let strace = Strace::inject(&scene, "readlinkat", "error=EIO:when=1");
    let run = strace.run(scene.command(["--generations"]));
    strace.fired(&run);
    run.assert_code(1).assert_says("cannot let latest lead to the new generation in");
    assert!(!run.out().contains("no generation was made"), "{}", run.out());
    assert_eq!(shell(&scene, "readlink dst/latest").trim(), all[1]);
    scene.ended(&["verify", "dst/latest"], 5);
    scene.copy(&["--generations"]).assert_code(0);
    scene.ended(&["verify", "dst/latest"], 0);
}

/// Also where `latest` leads to an older one, and is what is asked for.
#[test]
fn an_older_one_is_not_the_newest_because_latest_leads_there() {
    let (scene, all) = nights(&["one", "two", "three"]);
    shell(&scene, &format!("mv dst/.dircopy away; ln -sfn {} dst/latest", all[1]));
    refused(&scene, "so nothing tells whether", &["dst", "dst/latest"]);
    scene.ended(&["catalog", "add", "--catalog", "c", "dst/latest"], 2);
    scene.ended(&["verify", &format!("dst/{}", all[1])], 0);
    scene.copy(&["--generations"]).assert_code(0);
    scene.ended(&["verify", "dst/latest"], 0);
}
