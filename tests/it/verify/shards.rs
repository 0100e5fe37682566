//! A check that several machines share: every line is checked by one shard, and only that all of them together are the
//! whole is called good.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

use crate::harness::{Cmd, Random, Run, Scene, Strace, content, long, names_below, need, shell};

/// So many files in directories, with names of every kind, and a copy of them.
fn scene(files: usize) -> Scene {
    let scene = Scene::new();
    for i in 0..files {
        scene.src.file(format!("{}/{i:04}", i % 7), &content(1000 + i)[i..]);
    }
    scene.src.file("odd\nname\\", "x").file([b"bytes \xff".as_slice(), b""].concat(), "z");
    scene.copy(&["-q"]).assert_code(0);
    scene
}

fn command<'s>(scene: &'s Scene, shard: &str, args: &[&str]) -> Cmd<'s> {
    let all = ["verify", "dst", "--shard", shard, "--results", "results"];
    scene.bare(all.iter().chain(args))
}

fn shard(scene: &Scene, shard: &str) -> Run {
    command(scene, shard, &[]).run()
}

fn all_shards(scene: &Scene, of: usize) -> Vec<i32> {
    (0..of).map(|index| shard(scene, &format!("{index}/{of}")).code.unwrap()).collect()
}

fn merge(scene: &Scene) -> Run {
    scene.bare(["verify", "dst", "--merge", "results"]).run()
}

/// The manifest of the copy.
fn manifest(scene: &Scene) -> PathBuf {
    let found = shell(scene, "ls dst/dircopy-*.sha256sum");
    scene.path(found.trim())
}

/// The result of a shard.
fn result(scene: &Scene, index: usize, of: usize) -> PathBuf {
    scene.path(&format!("results/{index:04}-of-{of:04}.checked"))
}

fn flip(scene: &Scene, file: &str) {
    let path = scene.path(file);
    let mut bytes = fs::read(&path).unwrap();
    bytes[0] ^= 1;
    fs::write(path, bytes).unwrap();
}

#[test]
fn every_file_is_checked_by_one_shard_and_the_whole_is_proven() {
    let scene = scene(200);
    let all: BTreeSet<String> = names_below(&scene.path("src"), "f")
        .into_iter()
        .map(|name| name.escape_ascii().to_string())
        .collect();
    for of in [1, 3, 16, 500] {
        let mut seen = Vec::new();
        for index in 0..of.min(16) {
            let run = command(&scene, &format!("{index}/{of}"), &["-v"]).run();
            run.assert_code(0);
            let out = run.out();
            let good = out.lines().filter(|line| line.starts_with("OK ")).count();
            run.assert_prints(&[&format!("{index}/{of}:"), &format!("{good} line")]);
            seen.extend(out.lines().filter(|line| line.starts_with("OK ")).map(str::to_owned));
        }
        if of <= 16 {
            assert_eq!(seen.len(), all.len(), "{of} shards");
            assert_eq!(seen.iter().collect::<BTreeSet<_>>().len(), all.len(), "{of} shards");
            merge(&scene).assert_code(0).assert_prints(&["every listed file is as listed"]);
        } else {
            merge(&scene).assert_code(1).assert_says("no result that counts of 16-499: run them");
        }
        fs::remove_dir_all(scene.path("results")).unwrap();
    }
}

#[test]
fn bad_files_are_named_again_and_a_shard_that_is_run_again_takes_them_back() {
    let scene = scene(60);
    flip(&scene, "dst/3/0003");
    shell(
        &scene,
        "rm dst/4/0004; rm dst/5/0005; mkdir dst/5/0005; ln -sf ../../src/6/0006 dst/6/0006",
    );
    shell(&scene, "rm dst/odd*; ln -s nowhere \"$(printf 'dst/odd\\nname\\\\')\"");
    let codes = all_shards(&scene, 4);
    assert!(codes.contains(&4) && codes.iter().all(|code| [0, 4].contains(code)), "{codes:?}");
    let plain = scene.bare(["verify", "dst"]).run();
    let merged = merge(&scene);
    merged.assert_code(4).assert_prints(&["FAILED"]);
    let lines = |run: &Run| -> BTreeSet<String> {
        run.err().lines().map(|line| line.replace(": 1 MiB of 1: 0-1 MiB", "")).collect()
    };
    assert_eq!(lines(&merged), lines(&plain), "as a check of the whole");
    let of = |run: &Run| -> Vec<String> {
        let out = run.out();
        let rows = ["checked", "good", "differ", "missing", "read"];
        out.lines()
            .filter(|row| rows.iter().any(|it| row.starts_with(it)))
            .map(Into::into)
            .collect()
    };
    assert_eq!(of(&merged), of(&plain));
    shell(&scene, "rm -r dst/5/0005 dst/odd*; cp -r --remove-destination src/. dst/");
    merge(&scene).assert_code(4);
    for index in codes.iter().enumerate().filter(|(_, code)| **code == 4).map(|(index, _)| index) {
        shard(&scene, &format!("{index}/4")).assert_code(0);
    }
    merge(&scene).assert_code(0);
}

/// Whatever is amiss with the results, nothing is called good, and it is named.
#[test]
fn results_that_do_not_count_are_named() {
    let scene = scene(60);
    assert_eq!(all_shards(&scene, 3), [0; 3]);
    let second = result(&scene, 1, 3);
    let whole = fs::read(&second).unwrap();
    merge(&scene).assert_code(0);
    for cut in [0, 1, 30, whole.len() / 2, whole.len() - 1] {
        fs::write(&second, &whole[..cut]).unwrap();
        let run = merge(&scene);
        run.assert_code(1).assert_says("0001-of-0003").assert_says("no result that counts of 1:");
    }
    let text = String::from_utf8(whole.clone()).unwrap();
    fs::write(&second, text.replace("\"good\":2", "\"good\":3")).unwrap();
    merge(&scene).assert_code(1).assert_says("torn or was changed");
    let end = text.rfind("# end ").unwrap() + 6;
    for at in end..text.len() {
        let mut other = whole.clone();
        other[at] ^= 1;
        fs::write(&second, other).unwrap();
        merge(&scene).assert_code(1).assert_says("no result that counts of 1:");
    }
    fs::remove_file(&second).unwrap();
    merge(&scene).assert_code(1).assert_says("no result that counts of 1: run it");
    // One in the place of another.
    fs::copy(result(&scene, 0, 3), &second).unwrap();
    merge(&scene).assert_code(1).assert_says("it is of shard 0, as ");
    fs::write(&second, &whole).unwrap();
    merge(&scene).assert_code(0);
    shard(&scene, "1/5").assert_code(0);
    merge(&scene).assert_code(1).assert_says("in 5 shards, and most are of one in 3");
    fs::remove_file(result(&scene, 1, 5)).unwrap();
    merge(&scene).assert_code(0);

    // Another directory with the same manifest, and another manifest of the same directory.
    shell(&scene, "cp -a dst other");
    scene.bare(["verify", "other", "--shard", "1/3", "--results", "results"]).run().assert_code(0);
    merge(&scene).assert_code(1).assert_says("it is of another directory");
    let list = manifest(&scene);
    shell(&scene, &format!("{{ cat {}; echo '# more'; }} > list", list.display()));
    let args = ["verify", "dst", "-m", "list", "--shard", "1/3", "--results", "results"];
    scene.bare(args).run().assert_code(0);
    merge(&scene).assert_code(1).assert_says("it is of another manifest");
    shard(&scene, "1/3").assert_code(0);
    merge(&scene).assert_code(0);

    // A directory that others may write to, or that has nothing.
    shell(&scene, "chmod 755 results");
    merge(&scene).assert_code(2).assert_says("this user's alone");
    shard(&scene, "1/3").assert_code(2);
    shell(&scene, "mkdir -m 700 empty");
    let run = scene.bare(["verify", "dst", "--merge", "empty"]).run();
    run.assert_code(2).assert_says("there is no result in it");
}

/// Records that were made with the right sums by hand: the lines that a shard answered must be its own.
#[test]
fn a_result_of_other_lines_does_not_count() {
    let scene = scene(60);
    assert_eq!(all_shards(&scene, 3), [0; 3]);
    let path = result(&scene, 2, 3);
    let text = fs::read_to_string(&path).unwrap();
    let sum_at = text.find("\"sum\":\"").unwrap() + 7;
    let other = if &text[sum_at..=sum_at] == "0" { "1" } else { "0" };
    let mut forged = text.clone();
    forged.replace_range(sum_at..=sum_at, other);
    let body = &forged[..=forged.rfind(' ').unwrap()];
    fs::write(&path, format!("{body}{}\0", blake3::hash(body.as_bytes()).to_hex())).unwrap();
    merge(&scene).assert_code(1).assert_says("are not those of shard 2");
}

/// A line that says nothing is told by the shard that it is dealt to, and by the end.
#[test]
fn what_is_wrong_with_a_manifest_is_told_once() {
    let scene = scene(20);
    let list = manifest(&scene);
    let digest = "ab".repeat(32);
    let add = format!("?\n{digest}  ../out\n{digest}  0/0000\n");
    shell(&scene, &format!("cat {} > list", list.display()));
    let mut bytes = fs::read(scene.path("list")).unwrap();
    bytes.extend_from_slice(add.as_bytes());
    fs::write(scene.path("list"), bytes).unwrap();
    let check =
        |more: &[&str]| scene.bare(["verify", "dst", "-m", "list"].iter().chain(more)).run();
    let plain = check(&[]);
    plain.assert_code(4);
    let mut told = Vec::new();
    for index in 0..4 {
        let run = check(&["--shard", &format!("{index}/4"), "--results", "results"]);
        told.extend(run.err().lines().map(str::to_owned).collect::<Vec<_>>());
    }
    told.sort();
    let mut expected: Vec<String> = plain.err().lines().map(str::to_owned).collect();
    expected.sort();
    assert_eq!(told, expected);
    let merged = check(&["--merge", "results"]);
    merged.assert_code(4);
    let mut lines: Vec<String> = merged.err().lines().map(str::to_owned).collect();
    lines.sort();
    assert_eq!(lines, expected);
}

#[test]
fn what_makes_no_sense_is_refused() {
    let scene = scene(5);
    for (shard_text, says) in [
        ("4/4", "they are counted from 0, from 0/4 to 3/4"),
        ("0/0", "shards"),
        ("x", "not K/N"),
        ("4", "which of them?"),
    ] {
        shard(&scene, shard_text).assert_code(2).assert_says(says);
    }
    for more in
        [&["--budget", "1h"][..], &["--complete"], &["--convert-paths"], &["--write-states"]]
    {
        command(&scene, "0/2", more).run().assert_code(2).assert_says("cannot be used with");
    }
    scene.bare(["verify", "dst", "--shard", "0/2"]).run().assert_code(2).assert_says("--results");
    let several = ["verify", "dst", "src", "--shard", "0/2", "--results", "results"];
    scene.bare(several).run().assert_code(2).assert_says("one directory and one manifest");
    shell(&scene, "mkfifo pipe; cat dst/dircopy-*.sha256sum > list");
    for list in ["-", "pipe"] {
        command(&scene, "0/2", &["-m", list]).run().assert_code(2).assert_says("must be a");
    }
    scene.bare(["-q", "src/0", "bag", "--bag"]).run().assert_code(0);
    let bag = ["verify", "bag", "--shard", "0/2", "--results", "results"];
    let run = scene.bare(bag).run();
    run.assert_code(2).assert_says("a shard of bag: ").assert_says("as a whole only: leave out");
    scene.bare(["-q", "src/0", "history", "--format", "mhl"]).run().assert_code(0);
    shell(&scene, "rm -r history/dircopy-* history/.dircopy");
    let history = ["verify", "history", "--shard", "0/2", "--results", "results"];
    let run = scene.bare(history).run();
    run.assert_code(2).assert_says("a shard of history: ").assert_says("as a whole only");
    assert!(!scene.path("results").exists());
    // The engine's variable says which; Grid Engine begins with 1.
    for (variable, index) in [("SLURM_ARRAY_TASK_ID=1", 1), ("SGE_TASK_ID=1", 0)] {
        command(&scene, "2", &[]).under(["env", variable]).run().assert_code(0);
        assert!(result(&scene, index, 2).exists(), "{variable}");
    }
    command(&scene, "2", &[]).under(["env", "PBS_ARRAY_INDEX=2"]).run().assert_code(2);
    merge(&scene).assert_code(0);
}

/// Shards that are killed, and run twice at once: what is called good is all there and as listed.
#[test]
fn killed_and_doubled_shards_are_no_results() {
    for round in 0..if long() { 40 } else { 2 } {
        let scene = scene(300);
        let mut random = Random::new(round);
        const OF: usize = 4;
        for _ in 0..3 {
            let some: Vec<_> = (0..5)
                .map(|_| command(&scene, &format!("{}/{OF}", random.below(OF)), &["-j1"]).spawn())
                .collect();
            std::thread::sleep(std::time::Duration::from_millis(random.below(40) as u64));
            some.iter().for_each(|run| run.disturb(&mut random));
            some.into_iter().for_each(|run| drop(run.wait()));
        }
        let missing = (0..OF).filter(|&index| !result(&scene, index, OF).exists());
        let missing: Vec<_> = missing.collect();
        let early = merge(&scene);
        match &missing[..] {
            [] => drop(early.assert_code(0)),
            _ => drop(early.assert_code_in(&[1, 2])),
        }
        flip(&scene, "dst/1/0008");
        all_shards(&scene, OF);
        merge(&scene).assert_code(4).assert_says("dst/1/0008");
    }
}

/// The report of a shard and of the end, as the others are.
#[test]
fn reports_say_which_shard_it_was() {
    let scene = scene(9);
    let args = ["--report", "one.json"];
    command(&scene, "0/1", &args).run().assert_code(0);
    let merged = ["verify", "dst", "--merge", "results", "--report", "all.json"];
    scene.bare(merged).run().assert_code(0);
    let section = |file: &str| -> serde_json::Value {
        serde_json::from_slice::<serde_json::Value>(&fs::read(scene.path(file)).unwrap()).unwrap()
            ["shard"]
            .clone()
    };
    let (one, all) = (section("one.json"), section("all.json"));
    assert_eq!((&one["index"], &one["of"], &one["lines"]), (&0.into(), &1.into(), &11.into()));
    assert!(all["index"].is_null() && all["lines"] == 11, "{all}");
}

#[test]
fn a_merge_without_threads_says_so() {
    need!(Strace);
    let scene = scene(5);
    all_shards(&scene, 2);
    let mut told = false;
    for refused in 1..=4 {
        let fault = format!("error=EAGAIN:when={refused}");
        let strace = Strace::inject(&scene, "clone,clone3", &fault);
        let run = strace.run(scene.bare(["verify", "dst", "--merge", "results"]));
        assert!(matches!(run.code, Some(0..=2)), "{refused}: {:?}: {}", run.code, run.err());
        told |=
            !strace.injected().is_empty() && run.err().contains("cannot start the threads for .:");
    }
    assert!(told);
}

/// What cannot be read to its end proves nothing, and no result counts.
#[test]
fn a_manifest_that_cannot_be_read_to_its_end_is_said() {
    need!(Strace);
    let scene = Scene::new();
    for name in ["a", "b", "c"] {
        scene.src.file(name, name);
    }
    scene.copy(&[]).assert_code(0);
    shell(&scene, "printf X >dst/b; touch -r src/b dst/b");
    for shard in ["0/2", "1/2"] {
        scene.bare(["verify", "dst", "--shard", shard, "--results", "res"]).run();
    }
    let manifest = scene.path(shell(&scene, "ls dst/*.sha256sum").trim());
    let mut failed = 0;
    for when in 1..20 {
        let fault = format!("error=EIO:when={when}");
        let strace = Strace::inject(&scene, "read,pread64", &fault).on(&manifest);
        let run = strace.run(scene.bare(["verify", "dst", "--merge", "res"]));
        if strace.injected().is_empty() {
            run.assert_code(4);
            break;
        }
        run.assert_code_in(&[1, 5]);
        failed += 1;
    }
    assert!(failed > 3, "{failed}");
}

/// Who may write above the results of two checks can exchange them.
#[test]
fn results_in_the_place_of_others_are_refused() {
    need!(Root);
    let scene = scene(20);
    shell(&scene, "mkdir up; chown 1001 up");
    let check = |results: &str, code| {
        let shard = ["verify", "dst", "--shard", "0/1", "--results", results];
        scene.bare(shard).run().assert_code(code);
    };
    let merge = |results| scene.bare(["verify", "dst", "--merge", results]).run();
    check("up/before", 0);
    flip(&scene, "dst/1/0008");
    check("up/now", 4);
    merge("up/now").assert_code(4);
    shell(&scene, "cd up; mv now other; mv before now");
    let refused = merge("up/now");
    refused.assert_code(2).assert_says("it was made as before, and others may write above it");
    // One's own may have any name.
    shell(&scene, "chown root up");
    merge("up/now").assert_code(0);
    merge("up/other").assert_code(4);
}
