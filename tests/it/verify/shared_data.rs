//! Checks of several trees that share files: shared data is read once, and each tree has a verdict of its own.

use crate::harness::{Mount, Run, Scene, Strace, content, need, shell};

/// All data of the source is as much.
const DATA: u64 = 3 * 700_000 + 2_000_000;

/// Generations that share all of it, at an output on a file system of this kind.
fn scene(kind: &str, nights: usize) -> (Scene, Mount) {
    Mount::privately();
    let scene = Scene::new();
    let mount = Mount::of_kind(kind, &scene.path("image"), &scene.dst);
    for name in ["a", "b", "sub/c"] {
        scene.src.file(name, content(700_000));
    }
    scene.src.file("large", content(2_000_000));
    a_moment();
    for _ in 0..nights {
        scene.copy(&["-q", "--generations"]).assert_code(0);
    }
    a_moment();
    (scene, mount)
}

/// Longer than a clock of a file system stands still, by far.
fn a_moment() {
    std::thread::sleep(std::time::Duration::from_millis(150));
}

fn trees(scene: &Scene) -> Vec<String> {
    shell(scene, "ls -d dst/20*Z").lines().map(str::to_owned).collect()
}

fn verify(scene: &Scene, args: &[&str]) -> Run {
    scene.bare(["verify"].iter().chain(args)).run()
}

/// A check, and how many bytes it read.
fn bytes_read(scene: &Scene, args: &[&str]) -> (Run, u64) {
    let strace = Strace::watch(scene, "read,pread64");
    let run = strace.run(scene.bare(["verify"].iter().chain(args)));
    let read = |call: &String| call.rsplit_once("= ")?.1.split(' ').next()?.parse::<u64>().ok();
    (run, strace.calls().iter().filter_map(read).sum())
}

/// What the verdict over each tree is.
fn verdicts(run: &Run) -> Vec<String> {
    let out = run.out();
    let told = out.lines().filter_map(|line| line.strip_prefix("dst/20")?.split_once(": "));
    told.map(|(_, verdict)| verdict.to_owned()).collect()
}

#[test]
fn what_generations_share_is_read_once() {
    need!(Root, Mount, Loop, Kinds, Strace);
    for kind in ["ext4", "xfs", "btrfs"] {
        let (scene, _mount) = scene(kind, 4);
        for args in [&["dst"][..], &["dst", "-j1", "--from", "cache"]] {
            let (run, read) = bytes_read(&scene, args);
            run.assert_code(0).assert_prints(&["checked", "16 files"]);
            run.assert_prints(&["shared", "12 files"]);
            assert_eq!(verdicts(&run), vec!["good: 4 files as listed"; 4], "{kind}");
            assert!((DATA..DATA * 6 / 5).contains(&read), "{kind}: {read}");
        }
        // As a user gives them by name.
        let all = trees(&scene);
        let all: Vec<&str> = all.iter().map(String::as_str).collect();
        let (run, read) = bytes_read(&scene, &all);
        run.assert_code(0);
        assert!(read < DATA * 6 / 5, "{kind}: {read}");
        run.assert_prints(&["read", "4 from the device"]);
    }
}

#[test]
fn a_rotten_file_is_bad_in_every_tree_that_shares_it() {
    need!(Root, Mount, Loop, Kinds);
    for (kind, bad) in [("ext4", 3), ("xfs", 1), ("btrfs", 1)] {
        let (scene, _mount) = scene(kind, 3);
        // In place. Where trees share by clones or snapshots, the others keep what they had.
        let newest = trees(&scene).pop().unwrap();
        shell(&scene, &format!("printf rot | dd of={newest}/sub/c bs=1 seek=70000 conv=notrunc"));
        for age in [0, 1] {
            let run = verify(&scene, &["dst"]);
            run.assert_code(4).assert_prints(&["differ", &bad.to_string()]);
            let mut expected = vec!["good: 4 files as listed"; 3 - bad];
            expected.extend(vec!["NOT good: 3 good, 1 differing"; bad]);
            assert_eq!(verdicts(&run), expected, "{kind}, {age}: {}", run.err());
            let named = |tree: &String| run.err().contains(&format!("differs: {tree}/sub/c"));
            assert_eq!(trees(&scene).iter().filter(|tree| named(tree)).count(), bad);
            a_moment();
        }
    }
}

#[test]
fn a_line_that_differs_from_what_is_shared_is_bad_in_its_tree_alone() {
    let scene = Scene::new();
    scene.src.file("a", content(100_000)).file("b", content(50_000));
    shell(&scene, "cp -al src one; cp -al src two; cp -al src three");
    for tree in ["one", "two", "three"] {
        shell(&scene, &format!("cd {tree} && sha256sum a b >../list && mv ../list SUMS"));
    }
    let wrong = "0".repeat(64);
    shell(&scene, &format!("sed -i 's/^.*  b$/{wrong}  b/' two/SUMS; rm one/a"));
    a_moment();
    let lists = ["one", "two", "three"].map(|tree| format!("--manifest={tree}/SUMS"));
    let mut args = vec!["-j1", "-v"];
    args.extend(lists.iter().map(String::as_str));
    let run = verify(&scene, &args);
    run.assert_code(4).assert_prints(&["good", "4 files"]).assert_prints(&["shared", "2 files"]);
    run.assert_says("differs: two/b (line 2").assert_says("missing: one/a");
    assert!(!run.err().contains("three/"), "{}", run.err());
}

#[test]
fn trees_of_which_something_is_amiss_are_told_apart() {
    let scene = Scene::new();
    scene.src.file("a", "a").file("b", "b");
    for tree in ["A", "B", "C"] {
        scene.command_to(scene.src.root(), scene.path(tree), ["-q"]).run().assert_code(0);
    }
    shell(&scene, "echo x >B/a; rm B/b; mkdir D");
    let run = scene.bare(["verify", "A", "B", "C", "D", "--report", "report.json"]).run();
    run.assert_code(4);
    for line in [
        "A: good: 2 files as listed",
        "B: NOT good: 1 differing, 1 missing",
        "C: good: 2 files as listed",
        "D: NOT good: nothing was checked",
    ] {
        assert!(run.out().lines().any(|told| told == line), "{line}: {}", run.out());
    }
    run.assert_prints(&["repairable ", "dircopy heal A B C"]);
    assert!(!run.out().contains("heal A B C D"), "{}", run.out());
    let report = shell(&scene, "grep -c 'NOT good' report.json");
    assert_eq!(report.trim(), "2");
}

/// The verdict over each is that of the exit code, also where one is given twice.
#[test]
fn a_directory_that_is_given_twice_is_as_good_as_it_is() {
    let scene = Scene::new();
    scene.src.file("a", "a").file("b", "b");
    scene.command_to(scene.src.root(), scene.path("A"), ["-q"]).run().assert_code(0);
    shell(&scene, "ln -s A link");
    for (code, how) in [(0, "good: "), (4, "NOT good: ")] {
        for (given, told) in [(["A", "A"], &["A"][..]), (["A", "link"], &["A", "link"])] {
            let run = scene.bare(["verify"].iter().chain(&given)).run();
            run.assert_code(code);
            let lines = run.out();
            let lines: Vec<_> = lines.lines().filter(|line| line.contains("good: ")).collect();
            for (line, name) in lines.iter().zip(told) {
                assert!(line.starts_with(&format!("{name}: {how}")), "{lines:?}");
            }
        }
        shell(&scene, "echo x >A/a");
    }
}

#[test]
fn an_output_with_a_manifest_is_checked_by_it() {
    let scene = Scene::new();
    scene.src.file("a", "a");
    scene.copy(&["-q"]).assert_code(0);
    shell(&scene, "mkdir gens");
    let to_gens =
        || scene.command_to(scene.src.root(), scene.path("gens"), ["-q", "--generations"]);
    to_gens().run().assert_code(0);
    to_gens().run().assert_code(0);
    verify(&scene, &["gens"]).assert_code(0).assert_prints(&["good", "2 files"]);
    // One that was begun is none.
    shell(&scene, "rm -r gens/20*; mkdir gens/2026-01-01T000000Z");
    verify(&scene, &["gens"]).assert_code(5);
    shell(&scene, "cp -a dst/. gens/");
    verify(&scene, &["gens"]).assert_code(0).assert_prints(&["good", "1 file"]);
}

/// A night at which the source had nothing makes a generation like any, and its manifest proves that as long as it is
/// what the run wrote.
#[test]
fn a_generation_of_an_empty_source_is_good() {
    let scene = Scene::new();
    scene.src.dir("");
    let night = || {
        scene.copy(&["-q", "--generations", "--allow-empty"]).assert_code(0);
    };
    night();
    // It is all there is.
    verify(&scene, &["dst"]).assert_code(5).assert_says("nothing to verify: ");
    night();
    verify(&scene, &["dst"]).assert_code(5).assert_says("nothing to verify: ");
    scene.src.file("a", "a");
    night();
    let run = verify(&scene, &["dst"]);
    run.assert_code(0).assert_says("lists no file: its run found none");
    let none = "good: no file is listed, as its run found none";
    assert_eq!(verdicts(&run), [none, none, "good: 1 file as listed"]);
    let all = trees(&scene);
    shell(&scene, &format!("echo x >{}/late", all[0]));
    let run = verify(&scene, &["dst", "--complete"]);
    run.assert_code(4).assert_says("not listed: ");
    assert_eq!(verdicts(&run), ["NOT good: 1 not listed", none, "good: 1 file as listed"]);
    // One that lists nothing any more is not what the run wrote.
    shell(&scene, &format!("truncate -s 0 {}/dircopy-*.sha256sum", all[2]));
    verify(&scene, &["dst"]).assert_code(5).assert_says("it is not what the last run wrote");
    shell(&scene, &format!("rm -r {}/.dircopy", all[1]));
    verify(&scene, &[&all[1], &all[0]]).assert_code(5).assert_says("nothing to verify: ");
}
