//! Outputs on file systems without permissions, as exFAT is mounted on most desktops: nothing there is this user's alone.

use crate::harness::{Act, Habit, Mirror, Scene, Strace, need, shell};

const EXFAT: [Habit; 6] = [
    Habit::HasNoLinks,
    Habit::FoldsCase,
    Habit::RefusesSigns,
    Habit::HasNoPermissions,
    Habit::HasNoChangeTimes,
    Habit::TellsNoFreeInodes,
];

/// A source of two files, and two such disks, `A` and `B`; what is on them is in `on-A` and `on-B`.
fn scene() -> (Scene, [Mirror; 2]) {
    let scene = Scene::new();
    scene.src.file("a", "a").file("b", "b");
    shell(&scene, "mkdir state");
    let mirrors = ["A", "B"].map(|disk| {
        let truth = scene.tree(&format!("on-{disk}"));
        Mirror::with_habits(truth.root(), &scene.path(disk), &EXFAT, |_| Act::Pass)
    });
    (scene, mirrors)
}

const WHY: &str = "its permissions let other users in, as all do where the file system has none";

#[test]
fn what_needs_a_record_is_refused_before_the_first_byte() {
    need!(Fuse);
    let (scene, _mirrors) = scene();
    let needs: [(&[&str], &str); 3] = [
        (&["src", "--span", "A/new", "B/new"], "--span needs it (--state DIR keeps it elsewhere)"),
        (&["src", "A/new", "--mirror"], "--mirror needs it (--state DIR keeps it elsewhere)"),
        (&["src", "A/new", "--parity", "5%"], "--parity needs it (--state DIR keeps it elsewhere)"),
    ];
    for (args, remedy) in needs {
        // Nothing may be tried.
        let run = scene.ended(&[args, &["-n"]].concat(), 0);
        run.assert_says("tell whether private records can be kept in A/new").assert_says(remedy);
        let run = scene.ended(args, 2);
        run.assert_says("keep private records in A/new/.dircopy")
            .assert_says(WHY)
            .assert_says(remedy);
        assert_eq!(shell(&scene, "ls -A on-A on-B | tr '\n' ' '"), "on-A:  on-B: ");
    }
    // A run that could do without shows it.
    scene.ended(&["src", "A/new"], 0);
    for (args, remedy) in needs {
        for more in [&["-n"][..], &[]] {
            scene.ended(&[args, more].concat(), 2).assert_says(WHY).assert_says(remedy);
        }
    }
    scene.ended(&["verify", "--span", "A/new"], 2).assert_says("--state DIR keeps it elsewhere");
    for (args, _) in needs {
        scene.ended(&[args, &["--state", "state"]].concat(), 0);
    }
    scene.ended(&["verify", "--span", "A/new", "B/new", "--state", "state"], 0);
}

/// Where the kernel says what it is, a dry run knows.
#[test]
fn a_dry_run_knows_of_fat() {
    need!(Strace);
    let scene = Scene::new();
    scene.src.file("a", "a");
    shell(&scene, "mkdir -m 755 dst");
    let fat = Strace::inject(&scene, "fstatfs", "poke_exit=@arg2=444d000000000000");
    let run = fat.exactly_on(&scene.dst).run(scene.command(["--mirror", "-n"]));
    run.assert_code(2).assert_says(WHY).assert_says("--mirror needs it");
}

#[test]
fn what_cannot_be_noted_names_where_it_can() {
    need!(Fuse);
    let (scene, _mirrors) = scene();
    for disk in ["A/c", "B/c"] {
        scene.ended(&["src", disk], 0);
    }
    shell(&scene, "printf x > on-A/c/b");
    let run = scene.ended(&["heal", "A/c", "B/c"], 4);
    let why = format!(
        "cannot keep private records in A/c/.dircopy: {WHY}; --state DIR keeps it elsewhere"
    );
    run.assert_says(&format!("not healed: A/c/b: {why}"));
    let all: [&[&str]; 3] = [
        &["verify", "A/c", "--budget", "1m"],
        &["verify", "A/c", "--not-since", "90d"],
        &["protect", "A/c"],
    ];
    for args in all {
        scene.ended(args, 2).assert_says(&why);
    }
    scene.ended(&["heal", "A/c", "B/c", "--state", "state"], 0).assert_says("healed: A/c/b");
    for args in all {
        scene.ended(&[args, &["--state", "state"]].concat(), 0);
    }
    shell(&scene, "printf x > on-A/c/b");
    scene.ended(&["heal", "A/c", "--state", "state"], 0).assert_says("healed: A/c/b");
}

/// What is there is as open as the trash, and the note of which that is lies elsewhere.
#[test]
fn a_mirror_has_a_trash_that_is_open_to_all() {
    need!(Fuse);
    let (scene, _mirrors) = scene();
    let mirror = ["src", "A/m", "--mirror", "--state", "state"];
    scene.ended(&mirror, 0);
    for name in ["a", "c"] {
        shell(&scene, &format!("rm -f src/{name}"));
        scene.ended(&mirror, 0);
        assert_eq!(
            shell(&scene, &format!("cd on-A/m; test ! -e {name}; cat .dircopy-trash/*/{name}")),
            name
        );
        scene.src.file("c", "c");
        scene.ended(&mirror, 0);
    }
    // One that no run noted might be anything.
    shell(&scene, "rm src/b state/*/trash");
    scene.ended(&mirror, 1).assert_says("no run of yours made it as trash");
}

#[test]
fn a_bag_without_a_record_says_what_it_cannot_do() {
    need!(Fuse);
    let (scene, _mirrors) = scene();
    let first = scene.ended(&["src", "A/bag", "--bag"], 0);
    first.assert_says("no run goes on with the bag when it is finished: --state DIR");
    for more in [&[][..], &["-n"], &["--state", "state"]] {
        let run = scene.ended(&[&["src", "A/bag", "--bag"], more].concat(), 2);
        run.assert_says("no bag that this user's runs began");
        run.assert_says("where nothing can be private, --state DIR notes from the first run on");
    }
    scene.ended(&["src", "A/none", "--bag", "--parity", "5%"], 2).assert_says("--parity needs it");
    shell(&scene, "test ! -e on-A/none");
    // What a killed run left.
    let part = "data/.abcdefghij.dircopy-part";
    shell(&scene, &format!("mkdir -p on-A/cut/data; printf x > on-A/cut/{part}"));
    let run = scene.ended(&["src", "A/cut", "--bag"], 3);
    run.assert_says(&format!("{part} is there and was not copied by this run"));
    run.assert_says("remove it, if no other run is at work there, and run again");
    shell(&scene, &format!("rm on-A/cut/{part}"));
    scene.ended(&["src", "A/cut", "--bag"], 0);
    // With records elsewhere each run goes on.
    for name in ["c", "d"] {
        scene.src.file(name, name);
        scene.ended(&["src", "A/kept", "--bag", "--state", "state"], 0);
    }
    scene.ended(&["verify", "A/kept"], 0);
}

#[test]
fn the_catalogue_says_why_it_takes_nothing() {
    need!(Fuse);
    let (scene, _mirrors) = scene();
    scene.ended(&["src", "A/c"], 0);
    let add = ["catalog", "add", "--catalog", "c.sqlite"];
    let run = scene.ended(&[&add[..], &["A/c"]].concat(), 2);
    run.assert_says("your record of it cannot be believed: add its manifest, with --place NAME");
    let run = scene.ended(&["src", "B/c", "--state", "state", "--catalog=c.sqlite"], 1);
    run.assert_says("as on file systems without change times (exFAT, FAT): add its manifest");
    let list = shell(&scene, "ls B/c/dircopy-*sum");
    scene.ended(&[&add[..], &[list.trim(), "--place", "B"]].concat(), 0);
}
