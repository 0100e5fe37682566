//! Chains of large files: kept by every way of copying, equal to what a program of a few lines computes with
//! another library, and found again by later runs.

use crate::harness::{
    Mount, Run, Scene, Strace, Tree, content, names_below, need, shell, states_of,
};

const MIB: usize = 1 << 20;

/// The side files at an output.
fn side_files(output: &Tree) -> Vec<String> {
    let names = names_below(output.root(), "f").into_iter();
    let names = names.map(|name| String::from_utf8(name).unwrap());
    names.filter(|name| name.contains(".states")).collect()
}

/// What the oracle says of the one side file at an output, in the order of names.
#[track_caller]
fn chains(output: &Tree) -> Vec<String> {
    let names = side_files(output);
    let [name] = &names[..] else { panic!("{names:?}") };
    states_of(output.path(name), output.root())
}

/// Files of one link, of several, and with holes.
fn scene() -> Scene {
    let scene = Scene::new();
    fill(&scene.src);
    scene
}

fn fill(src: &Tree) {
    src.file("small", "small").file("one link", content(MIB));
    src.file("dir/film.mov", content(5 * MIB + 77)).file("even", content(4 * MIB));
    src.sparse("holes", 9 << 20, &[(1 << 20, 300_000), (7 << 20, 100_000)]);
}

const ALL: [&str; 3] = ["dir/film.mov 5", "even 3", "holes 8"];

#[test]
fn the_states_are_those_of_another_library() {
    need!(Crypto);
    for args in [
        &["-q"][..],
        &["-q", "--workers", "1", "--block-size", "100000"],
        &["-q", "--block-size", "16M", "--queue-size", "2", "--workers", "2"],
        &["-q", "--no-sync", "--simd", "off"],
        &["-q", "--verify"],
    ] {
        let scene = scene();
        let run = scene.copy(args);
        scene.judge(&run).complete();
        assert_eq!(chains(&scene.output()), ALL, "{args:?}");
    }
}

#[test]
fn without_states_there_is_no_side_file() {
    let scene = scene();
    let run = scene.copy(&["-q", "--states", "none"]);
    scene.judge(&run).complete();
    assert_eq!(side_files(&scene.output()), [""; 0]);
    let small = Scene::new();
    small.src.file("small", content(MIB));
    small.judge(&small.copy(&["-q"])).complete();
    assert_eq!(side_files(&small.output()), [""; 0]);
    let unhashed = self::scene();
    unhashed.copy(&["-q", "--hash", "none"]).assert_code(0);
    assert_eq!(side_files(&unhashed.output()), [""; 0]);
}

#[test]
fn later_runs_find_the_states_again() {
    need!(Crypto);
    let scene = scene();
    scene.copy(&["-q"]).assert_code(0);
    // One is new, one has left the source, and one is kept.
    scene.src.file("new", content(2 * MIB + 1)).remove("even");
    scene.copy(&["-q", "--keep-manifests", "1"]).assert_code(0);
    assert_eq!(chains(&scene.output()), ["dir/film.mov 5", "even 3", "holes 8", "new 2"]);
    scene.copy(&["-q", "--verify", "--keep-manifests", "1"]).assert_code(0);
    assert_eq!(chains(&scene.output()), ["dir/film.mov 5", "even 3", "holes 8", "new 2"]);
}

#[test]
fn each_of_several_outputs_has_its_own() {
    need!(Crypto);
    for args in [&[][..], &["--block-size", "64K", "--lag", "256K"], &["--block-size", "3M"]] {
        let scene = scene();
        let outputs = ["A", "B", "C"].map(|name| scene.tree(name));
        let mut command = vec!["-q", "-i", scene.src.root().to_str().unwrap()];
        for output in &outputs {
            command.extend(["-o", output.root().to_str().unwrap()]);
        }
        command.extend(args);
        scene.bare(command).run().assert_code(0);
        for output in &outputs {
            assert_eq!(chains(output), ALL, "{args:?}");
        }
    }
}

#[test]
fn a_clone_has_its_chain() {
    need!(Root, Kinds, Crypto);
    for kind in ["xfs", "btrfs"] {
        let scene = Scene::on_disk();
        let _mount = Mount::of_kind(kind, &scene.path("image"), &scene.path("mount"));
        let (src, dst) = (scene.tree("mount/src"), scene.tree("mount/dst"));
        fill(&src);
        let args = ["-q", "--reflink", "always"];
        scene.command_to(src.root(), dst.root(), args).run().assert_code(0);
        assert_eq!(chains(&dst), ALL);
    }
}

/// What was killed is gone on with, and the states of its beginning are in the journal.
#[test]
fn a_copy_that_is_gone_on_with_has_all_its_states() {
    need!(Strace, Crypto);
    let scene = Scene::new();
    scene.src.file("dir/large", content(20 * MIB + 4321));
    let args = ["-q", "--checkpoint", "2M", "--block-size", "64K", "--queue-size", "2"];
    for _ in 0..2 {
        let fault = format!("signal=KILL:when={}", 7 * MIB / (64 << 10));
        let strace = Strace::inject(&scene, Strace::WRITES, &fault);
        assert_ne!(strace.run(scene.command(args)).code, Some(0));
    }
    let run: Run = scene.copy(&[&args[1..], &["-v"]].concat());
    run.assert_prints(&["resumed", "dir/large"]);
    scene.judge(&run).complete();
    assert_eq!(chains(&scene.output()), ["dir/large 20"]);
}

/// What the source has under the name of a side file is a file like any other.
#[test]
fn a_side_file_of_the_source_is_data() {
    let scene = scene();
    scene.copy(&["-q"]).assert_code(0);
    let run = scene.command_to(&scene.dst, scene.path("second"), ["-q"]).run();
    run.assert_code(0);
    let second = scene.tree("second");
    let copied = side_files(&scene.output()).pop().unwrap();
    assert_eq!(scene.output().read(&copied), second.read(&copied));
    assert_eq!(side_files(&second).len(), 2);
    scene.bare(["verify", "-q", "--complete", "second"]).run().assert_code(0);
    second.remove(&copied);
    scene.bare(["verify", "-q", "--complete", "second"]).run().assert_code(4);
}

/// The lines about files that differ, without where they are listed.
fn differing(run: &Run) -> Vec<String> {
    let lines = run.err();
    let lines = lines.lines().filter_map(|line| Some(line.split_once("differs: ")?.1.to_owned()));
    let mut lines: Vec<_> =
        lines.map(|line| line.rsplit_once(" (line").unwrap().0.to_owned()).collect();
    lines.sort();
    lines
}

/// Ways to check: on a disk and from memory, in vector registers and without.
const CHECKS: [&[&str]; 5] = [
    &[],
    &["--from", "cache"],
    &["--from", "cache", "--simd", "on"],
    &["--from", "cache", "--simd", "off", "-j1"],
    &["--order", "as-on-disk", "-j1"],
];

fn verify(scene: &Scene, args: &[&str]) -> Run {
    scene.bare(["verify", "dst"].iter().chain(args)).run()
}

fn flip(output: &Tree, name: &str, at: &[usize]) {
    let mut bytes = output.read(name);
    at.iter().for_each(|at| bytes[*at] ^= 1);
    output.file(name, bytes);
}

#[test]
fn damage_is_told_by_range() {
    let scene = Scene::on_disk();
    fill(&scene.src);
    scene.src.file("long.mov", content(40 * MIB + 5)).file("cut", content(3 * MIB));
    scene.src.file("grown", content(3 * MIB)).file("void", content(9 * MIB));
    scene.copy(&["-q"]).assert_code(0);
    for check in CHECKS {
        verify(&scene, check).assert_code(0);
    }
    let output = scene.output();
    flip(&output, "dir/film.mov", &[MIB, 2 * MIB - 1, 5 * MIB + 76]);
    flip(&output, "long.mov", &[0, 9 * MIB, 10 * MIB, 30 * MIB + 7]);
    flip(&output, "small", &[0]);
    output.file("void", vec![0; 9 * MIB]).append("grown", b"more");
    output.file("cut", &content(3 * MIB)[..2 * MIB + 1]);
    for check in CHECKS {
        let run = verify(&scene, check);
        run.assert_code(4);
        let expected = [
            "dst/cut: shorter, 2,097,153 bytes instead of 3,145,728",
            "dst/dir/film.mov: 2 MiB of 6: 1-2 MiB, 5-6 MiB",
            "dst/grown: longer, 3,145,732 bytes instead of 3,145,728",
            "dst/long.mov: 4 MiB of 41: 0-1 MiB, 9-11 MiB, 30-31 MiB",
            "dst/small",
            "dst/void: all of it",
        ];
        assert_eq!(differing(&run), expected, "{check:?}: {}", run.err());
    }
    let run = verify(&scene, &["-q", "--list-failed", "bad.jsonl"]);
    run.assert_code(4);
    let list = std::fs::read_to_string(scene.path("bad.jsonl")).unwrap();
    let long = list.lines().find(|line| line.contains("long.mov")).unwrap();
    let entry: serde_json::Value = serde_json::from_str(long).unwrap();
    let ranges = serde_json::json!([[0, MIB], [9 * MIB, 2 * MIB], [30 * MIB, MIB]]);
    assert_eq!((&entry["event"], &entry["ranges"]), (&"differs".into(), &ranges));
    assert_eq!(list.lines().count(), 6);
}

/// A chain that is torn, forged, of another file or of another version neither condemns a good file nor lets
/// a bad one pass.
#[test]
fn a_bad_chain_costs_time_and_never_the_verdict() {
    type Change = fn(&mut Vec<u8>);
    let changes: [Change; 8] = [
        |side| side.truncate(side.len() / 2),
        |side| side.truncate(20),
        |side| side.clear(),
        |side| side[16] = b'x',
        |side| side[15] = b'2',
        // A state, and the sum with it.
        |side| {
            side[17 + 52 + 5 + 40] ^= 1;
            sum_anew(side);
        },
        // The size and the span.
        |side| {
            side[17 + 12] ^= 1;
            sum_anew(side);
        },
        |side| side[30] = 0xff,
    ];
    for (number, change) in changes.into_iter().enumerate() {
        let scene = Scene::new();
        scene.src.file("a.mov", content(9 * MIB + 3));
        scene.copy(&["-q"]).assert_code(0);
        let output = scene.output();
        let side = side_files(&output).pop().unwrap();
        let mut bytes = output.read(&side);
        change(&mut bytes);
        output.file(&side, bytes);
        for check in CHECKS {
            verify(&scene, check).assert_code(0);
        }
        flip(&output, "a.mov", &[4 * MIB]);
        for check in CHECKS {
            let run = verify(&scene, check);
            run.assert_code(4).assert_says("differs");
            assert_eq!(differing(&run).len(), 1, "{number}: {}", run.err());
        }
    }
}

/// Writes the sum of the one record of a side file.
fn sum_anew(side: &mut [u8]) {
    use sha2::Digest as _;
    let (before, sum) = side.split_last_chunk_mut::<8>().unwrap();
    sum.copy_from_slice(&sha2::Sha256::digest(&before[17..])[..8]);
}

/// No link of a FIFO or a directory, and no FIFO is waited for.
#[test]
fn what_stands_in_the_place_of_a_side_file_is_not_followed() {
    let scene = scene();
    scene.copy(&["-q"]).assert_code(0);
    let output = scene.output();
    let side = side_files(&output).pop().unwrap();
    output.remove(&side).fifo(&side);
    verify(&scene, &[]).assert_code(0);
    scene.copy(&["-q"]).assert_code(0);
}

/// A second run that proves what is there says where it was damaged, and mends it from the source.
#[test]
fn a_run_that_finds_damage_says_where() {
    let scene = Scene::on_disk();
    scene.src.file("a.mov", content(9 * MIB + 3));
    scene.copy(&["-q"]).assert_code(0);
    let output = scene.output();
    let was = std::fs::metadata(output.path("a.mov")).unwrap().modified().unwrap();
    flip(&output, "a.mov", &[4 * MIB]);
    let file = std::fs::File::options().write(true).open(output.path("a.mov")).unwrap();
    file.set_modified(was).unwrap();
    let run = scene.copy(&["--verify"]);
    run.assert_says("1 MiB of 10: 4-5 MiB").assert_says("it is copied anew");
    scene.judge(&run).complete();
}

/// What it says of it is a range for each place; and a file that was cut off is completed.
#[test]
fn a_run_that_finds_several_damages_says_where_all_are() {
    for (args, sides) in [(&[][..], "right"), (&[][..], "forged"), (&["--simd", "off"], "none")] {
        let scene = Scene::on_disk();
        scene.src.file("a.mov", content(20 * MIB + 3)).file("b.mov", content(9 * MIB));
        scene.copy(&["-q"]).assert_code(0);
        let output = scene.output();
        let was = scene.path("was");
        shell(&scene, "cp -p dst/a.mov was");
        flip(&output, "a.mov", &[0, 4 * MIB, 5 * MIB - 1, 5 * MIB, 20 * MIB + 2]);
        shell(
            &scene,
            "touch -r was dst/a.mov; truncate -s 5M dst/b.mov; touch -r src/b.mov dst/b.mov",
        );
        assert!(was.exists());
        let side = side_files(&output).pop().unwrap();
        match sides {
            "forged" => {
                let mut bytes = output.read(&side);
                bytes[17 + 52 + 5 + 40] ^= 1;
                output.file(&side, bytes);
            }
            "none" => drop(output.remove(&side)),
            _ => {}
        }
        let run = scene.copy(&[&["--verify"], args].concat());
        run.assert_code(0).assert_says("a.mov: its content differs").assert_says("copied anew");
        if sides == "right" {
            run.assert_says("(4 MiB of 21: 0-1 MiB, 4-6 MiB, 20-21 MiB)");
        }
        scene.judge(&run).complete();
        let run = scene.copy(&["--verify"]);
        scene.judge(&run).complete();
        assert!(!run.err().contains("differs"));
    }
}

/// A check makes the states that a copy would have made, in one reading, of what is good.
#[test]
fn a_check_makes_states_where_there_are_none() {
    need!(Crypto);
    for check in CHECKS {
        let scene = scene();
        scene.copy(&["-q", "--states", "none"]).assert_code(0);
        let output = scene.output();
        flip(&output, "even", &[0]);
        let run = verify(&scene, &[check, &["--write-states"]].concat());
        run.assert_code(4).assert_prints(&["states", "made of 2 files"]);
        let side = side_files(&output).pop().unwrap();
        // The oracle wants each file to be as its chain says.
        assert_eq!(chains(&output), ["dir/film.mov 5", "holes 8"], "{check:?}");
        flip(&output, "even", &[0]);
        let run = verify(&scene, &[check, &["--write-states", "--complete"]].concat());
        run.assert_code(0).assert_prints(&["states", "made of 1 file"]);
        assert_eq!(chains(&output), ALL);
        // Then there is nothing to do.
        let inode = output.inode(&side);
        let run = verify(&scene, &[check, &["--write-states"]].concat());
        run.assert_code(0);
        assert!(!run.out().contains("states") && inode == output.inode(&side));
        shell(&scene, "touch -r src/even dst/even");
        scene.copy(&["-q"]).assert_code(0);
        let newest = side_files(&output).pop().unwrap();
        assert_eq!(states_of(output.path(&newest), output.root()), ALL);
    }
}

#[test]
fn states_are_made_beside_any_manifest() {
    need!(Crypto);
    let scene = scene();
    shell(&scene, "cp -r src dst; cd src; find . -type f -exec sha256sum {} + > ../dst/SHA256SUMS");
    let run =
        scene.bare(["-m", "dst/SHA256SUMS", "--write-states", "--complete"]).dirverify().run();
    run.assert_code(0).assert_prints(&["made of 3 files"]);
    let output = scene.output();
    assert_eq!(side_files(&output), ["SHA256SUMS.states"]);
    assert_eq!(chains(&output), ALL);
    let again = ["-q", "-m", "dst/SHA256SUMS", "--complete"];
    scene.bare(again).dirverify().run().assert_code(0);
    // A state that was forged, and what a kill left.
    let mut side = output.read("SHA256SUMS.states");
    side[17 + 52 + 8 + 40] ^= 1;
    let at = 17..side.len();
    output.file("SHA256SUMS.states", side).file("SHA256SUMS.states.part", "dircopy states 1\nFILE");
    assert!(at.len() > 100);
    let run = scene.bare(["-m", "dst/SHA256SUMS", "--write-states"]).dirverify().run();
    run.assert_code(0);
    assert_eq!(chains(&output), ALL);
    // What is no side file stays.
    for (name, content) in [("SHA256SUMS.states", "mine"), ("SHA256SUMS.states.part", "mine")] {
        output.remove("SHA256SUMS.states").file(name, content);
        let run = scene.bare(["-m", "dst/SHA256SUMS", "--write-states"]).dirverify().run();
        run.assert_code(1).assert_says("what has this name is no side file");
        assert_eq!(output.read(name), content.as_bytes());
        output.file("SHA256SUMS.states", "");
    }
    output.remove("SHA256SUMS.states.part").remove("SHA256SUMS.states").fifo("SHA256SUMS.states");
    let run = scene.bare(["-m", "dst/SHA256SUMS", "--write-states"]).dirverify().run();
    run.assert_code(1).assert_says("what has this name is no side file");
    let run = scene.bare(["-m", "-", "dst", "--write-states"]).dirverify().run();
    run.assert_code(2).assert_says("give a file");
}

/// A signal leaves the side file as it was.
#[test]
fn states_come_whole_or_not_at_all() {
    need!(Strace);
    let scene = scene();
    scene.copy(&["-q", "--states", "none"]).assert_code(0);
    let names = side_files(&scene.output());
    for fault in ["signal=TERM:when=1", "error=ENOSPC:when=1"] {
        let output = scene.output();
        let part = shell(&scene, "cd dst && ls dircopy-*.sha256sum")
            .trim()
            .replace("sha256sum", "states.part");
        let strace = Strace::inject(&scene, Strace::WRITES, fault).on(output.path(&part));
        let run = strace.run(scene.bare(["verify", "dst", "--write-states", "-j1"]));
        run.assert_code_in(&[1, 143]);
        assert_eq!(side_files(&output), names, "{fault}");
    }
    verify(&scene, &["--write-states"]).assert_code(0);
    verify(&scene, &["--complete"]).assert_code(0);
}
