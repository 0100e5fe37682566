//! Names that are one name at the output: the second of them is an error that names both, on every run.

use std::collections::BTreeSet;
use std::ffi::OsStr;

use crate::harness::{
    Act, Habit, Mirror, Random, Run, Scene, content, fully_folded, long, need, shell,
};

const POLICIES: [&str; 4] = ["default", "update", "never", "always"];

const TOLD: &str = "takes this name for the same as";

/// Runs on a file system with these habits, and proves of each name that the newest manifest lists that the output has
/// under it what the source has.
fn run_on(scene: &Scene, habits: &[Habit], args: &[&str]) -> Run {
    let truth = scene.tree("truth");
    let _mirror = Mirror::with_habits(truth.root(), &scene.path("disk"), habits, |_| Act::Pass);
    let run = scene.bare([&["-i", "src", "-o", "disk/out"], args].concat()).run();
    shell(
        scene,
        "test -e disk/out || exit 0; cd disk/out; sha256sum -c --strict --quiet $(ls -t *.sha256sum | head -n 1)
         cut -c 67- $(ls -t *.sha256sum | head -n 1) | while read -r name; do cmp ../../src/\"$name\" \"$name\"; done
         test -z \"$(find . -name '*.dircopy-part*')\"",
    );
    run
}

/// How many entries were told to be one with another.
fn clashes(run: &Run) -> usize {
    run.err().matches(TOLD).count()
}

/// Under `always` each of two such files took the place of the other from the second run on, and the run ended with 0.
#[test]
fn they_are_told_on_every_run() {
    need!(Fuse);
    for policy in POLICIES {
        for mirror in [&[][..], &["--mirror"]] {
            let scene = Scene::new();
            // Of the same size and time, of others, large ones, directories, links.
            scene.src.file("stra\u{df}e", "one").file("strasse", "two").file("STRASSE", "six");
            scene.src.file("\u{e9}", "short").file("e\u{301}", "longer");
            scene.src.file("gro\u{df}", content(3_000_000)).file("GROSS", content(2_000_000));
            scene.src.file("D\u{fb01}/x", "x").file("dfi/x", "y").file("DFI/z", "z");
            scene.src.symlink("\u{212a}", "one").symlink("k", "two").file("other", "other");
            shell(&scene, "touch -d 2001-01-01 src/st* src/ST*; touch -d 2002-01-01 src/GROSS");
            let args = [&["--overwrite-policy", policy], mirror].concat();
            for again in [&[][..], &[], &["--dry-run"], &[]] {
                let run = run_on(&scene, &[Habit::FoldsFully], &[&args, again].concat());
                run.assert_code(1);
                assert_eq!(clashes(&run), 7, "{policy} {mirror:?} {again:?}: {}", run.err());
            }
        }
    }
}

/// Names of pieces that fold, by chance.
#[test]
fn so_are_names_by_chance() {
    need!(Fuse);
    const PIECES: [&str; 16] = [
        "\u{df}",
        "ss",
        "SS",
        "\u{1e9e}",
        "\u{fb01}",
        "fi",
        "\u{212a}",
        "k",
        "\u{130}",
        "i\u{307}",
        "\u{3c2}",
        "\u{3a3}",
        "\u{e9}",
        "E\u{301}",
        "\u{200d}a",
        "A",
    ];
    for (round, policy) in
        (0..if long() { 3 } else { 1 }).flat_map(|round| POLICIES.map(|policy| (round, policy)))
    {
        let scene = Scene::new();
        let mut random = Random::new(round);
        let (mut names, mut one) = (BTreeSet::new(), BTreeSet::new());
        while names.len() < 40 {
            let pieces = (0..=random.below(2)).map(|_| PIECES[random.below(PIECES.len())]);
            let name: String = pieces.collect();
            if !names.insert(name.clone()) {
                continue;
            }
            one.insert(fully_folded(OsStr::new(&name)));
            match random.below(4) {
                0 => scene.src.file(format!("{name}/x"), &name),
                1 => scene.src.file(&name, "alike"),
                _ => scene.src.file(&name, content(random.below(3000))),
            };
        }
        for _ in 0..2 {
            let run = run_on(&scene, &[Habit::FoldsFully], &["--overwrite-policy", policy]);
            run.assert_code(1);
            assert_eq!(clashes(&run), names.len() - one.len(), "{round} {policy}: {}", run.err());
        }
    }
}

/// Where letter case is told and forms of Unicode are not, the output was taken for one that tells all names.
#[test]
fn so_are_forms_where_letter_case_is_told() {
    need!(Fuse);
    for policy in POLICIES {
        let scene = Scene::new();
        scene.src.file("\u{e9}", "one").file("e\u{301}", "two").file("E", "E").file("e", "e");
        shell(&scene, "touch -d 2001-01-01 src/*");
        for _ in 0..2 {
            let run = run_on(&scene, &[Habit::FoldsForms], &["--overwrite-policy", policy]);
            run.assert_code(1).assert_says("names without forms of Unicode");
            assert_eq!(clashes(&run), 1, "{policy}: {}", run.err());
        }
    }
}

/// The output is asked: what some other file system takes for one is copied.
#[test]
fn names_that_are_two_at_this_output_are_copied() {
    need!(Fuse);
    let scene = Scene::new();
    scene.src.file("stra\u{df}e", "one").file("strasse", "two").file("\u{e9}", "three");
    scene.src.file("e\u{301}", "four").file(b"\xff", "five").file(b"\xfe", "six");
    // What is not copied takes no name.
    scene.src.symlink("NAME", "x").file("name", "seven");
    for policy in POLICIES {
        for _ in 0..2 {
            let args = ["--no-links", "--overwrite-policy", policy];
            run_on(&scene, &[Habit::FoldsCase], &args).assert_code(0);
        }
    }
    let dry = run_on(&scene, &[Habit::FoldsCase], &["--no-links", "--dry-run"]);
    dry.assert_code(0).assert_prints(&["unchanged", "7 files"]);
}

/// A source that finds a file by names in other letter case has it under one alone.
#[test]
fn names_in_other_letter_case_are_not_those_of_the_source() {
    need!(Fuse);
    let scene = Scene::new();
    scene.src.file("a", "a").file("d/e", "e").file("7", "7");
    let habits = &[Habit::FoldsCase];
    let _mirror = Mirror::with_habits(scene.src.root(), &scene.path("disk"), habits, |_| Act::Pass);
    let expect = |change: &str, args: &[&str]| {
        shell(&scene, &format!("cd src && sha256sum a d/e 7 | sed '{change}' >../list"));
        let all = ["-i", "disk", "-o", "dst", "--expect", "list", "--expect-all"];
        scene.bare([&all[..], args].concat()).run()
    };
    for change in ["s,d/e,D/E,", "s,d/e,D/e,", "s,d/e,d/E,", "s,a$,A,"] {
        expect(change, &[]).assert_code(4).assert_says("expected, and not in the source");
    }
    expect("", &[]).assert_code(0);
    expect("", &["--exclude", "e", "--exclude", "7"]).assert_code(0);
    let run = |names: &str| {
        std::fs::write(scene.path("names"), names).unwrap();
        scene.bare(["-i", "disk", "-o", "some", "--files-from", "names"]).run()
    };
    run("A\nD/e\nd/E\nd/e\n7\n")
        .assert_code(1)
        .assert_says("cannot copy disk/A: the source has it as a;")
        .assert_says("cannot copy disk/D: the source has it as d;")
        .assert_says("cannot copy disk/d/E: the source has it as e;");
    assert_eq!(
        shell(&scene, "cd some; find . -type f ! -name '*dircopy*' ! -path './.*'| sort"),
        "./7\n./d/e\n"
    );
    run("a\nd/e\n7\n").assert_code(0);
}

/// One new directory in two spellings was two outputs, each of which the run called complete.
#[test]
fn one_new_directory_is_not_two_outputs() {
    need!(Fuse);
    let scene = Scene::new();
    scene.src.file("a", "a");
    let truth = scene.tree("truth");
    truth.file("there", "x");
    let habits = &[Habit::FoldsCase];
    let mirror = Mirror::with_habits(truth.root(), &scene.path("disk"), habits, |_| Act::Pass);
    let run = scene.bare(["-i", "src", "-o", "disk/out", "-o", "disk/OUT"]).run();
    run.assert_code(2).assert_says("it is the same directory as the output");
    assert_eq!(shell(&scene, "ls -A truth"), "there\n");
    drop(mirror);
    // Here they are two.
    scene.bare(["-i", "src", "-o", "out", "-o", "OUT"]).run().assert_code(0);
}
