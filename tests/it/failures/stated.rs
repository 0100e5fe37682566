//! File systems that state less of a file than there is: each way of reading a file to its end finds that out.

use serde_json::Value;

use crate::harness::several::{command, is_complete, judge};
use crate::harness::{Act, Cmd, Habit, Mirror, Scene, content, need};

const MIB: usize = 1 << 20;

/// The source as a file system shows it that states these sizes.
fn shown(scene: &Scene, stated: &[(&'static str, u64)]) -> Mirror {
    let habits: Vec<_> = stated.iter().map(|(name, size)| Habit::States(name, *size)).collect();
    Mirror::with_habits(scene.src.root(), &scene.path("shown"), &habits, |_| Act::Pass)
}

/// `dircopy` of what is shown to two outputs.
fn to_both<'a>(scene: &'a Scene, args: &[&str]) -> Cmd<'a> {
    let (a, b) = (scene.path("a"), scene.path("b"));
    let args = args.iter().map(Into::into).chain(["-o".into(), b]);
    scene.command_to(scene.path("shown"), a, args.collect::<Vec<std::path::PathBuf>>())
}

#[test]
fn more_than_is_stated_is_found_at_each_of_several_outputs() {
    need!(Fuse);
    for args in [
        &[][..],
        &["--simd", "off"],
        &["--hash", "none"],
        &["--hash", "xxh128"],
        &["--hash", "sha256,md5"],
        &["--sparse", "always"],
        &["--workers", "1", "--queue-size", "1"],
    ] {
        let scene = Scene::new();
        scene.src.file("small", content(5000)).file("block", content(70_000));
        scene.src.file("large", content(131_172)).file("good", content(5000));
        scene.src.file("good block", content(65_536)).file("good large", content(150_000));
        let _mirror = shown(&scene, &[("small", 4000), ("block", 65_536), ("large", 131_072)]);
        let report = scene.path("report");
        let all = ["--block-size", "64K", "--report", report.to_str().unwrap()];
        let run = to_both(&scene, &[&all[..], args].concat()).run();
        run.assert_code(1);
        for name in ["small", "block", "large"] {
            run.assert_says(name);
        }
        for output in ["a", "b"] {
            let judge = judge(&scene, output, &run);
            judge.lacks("small").lacks("block").lacks("large").no_leftovers();
            for (name, size) in [("good", 5000), ("good block", 65_536), ("good large", 150_000)] {
                assert!(scene.tree(output).read(name) == content(size), "{args:?}: {name}");
            }
        }
        // What there is no more of needs no second reading.
        let report: Value = serde_json::from_slice(&std::fs::read(&report).unwrap()).unwrap();
        for output in report["outputs"].as_array().unwrap() {
            let fallback = output["counts"]["fallback"].as_u64().unwrap();
            assert!(fallback <= 3, "{args:?}: {fallback}");
        }
    }
}

#[test]
fn less_than_is_stated_is_found_at_each_of_several_outputs() {
    need!(Fuse);
    for args in [&[][..], &["--simd", "off"], &["--hash", "none"]] {
        let scene = Scene::new();
        scene.src.file("small", content(3000)).file("large", content(131_000));
        scene.src.file("good", content(5000));
        let _mirror = shown(&scene, &[("small", 4000), ("large", 131_072)]);
        let run = to_both(&scene, &[&["--block-size", "64K"][..], args].concat()).run();
        run.assert_code_in(&[0, 1]).assert_says("small").assert_says("large");
        for output in ["a", "b"] {
            judge(&scene, output, &run).no_leftovers();
            // A short read tells the kernel the size, so that a second look may find all to be right. If the kernel asks
            // for the size again before that, it has zeros in memory up to what is stated, and shows them to everybody.
            for (name, size, stated) in [("small", 3000, 4000), ("large", 131_000, 131_072)] {
                let mut shown = content(size);
                let is_there = scene.path(output).join(name).exists();
                let is_whole = is_there && scene.tree(output).read(name) == shown;
                shown.resize(stated, 0);
                let is_shown = is_there && scene.tree(output).read(name) == shown;
                assert!(!is_there || is_whole || is_shown, "{name}");
            }
            assert!(scene.tree(output).read("good") == content(5000), "{args:?}");
        }
    }
}

/// What the kernel moves of a file ends at the size that is stated.
#[test]
fn more_than_is_stated_is_found_by_streams() {
    need!(Fuse);
    for (size, stated) in [(5000, 4000), (131_172, 131_072), (3 * MIB + 1, 3 * MIB as u64)] {
        for args in [&[][..], &["--hash", "none"], &["--hash", "none", "-o", "y"]] {
            let scene = Scene::new();
            scene.src.file("file", content(size)).file("more", "more");
            let _mirror = shown(&scene, &[("file", stated)]);
            let run =
                scene.bare([&["-i", "shown/file", "-i", "shown/more", "-o", "x"], args].concat());
            let run = run.run();
            run.assert_code(1).assert_says("could be read");
            assert!(!scene.path("x").exists() && !scene.path("y").exists(), "{size} {args:?}");
        }
    }
}

/// A file of which all links hold may have more behind them.
#[test]
fn more_than_is_stated_is_found_by_checks_of_links() {
    need!(Fuse);
    let scene = Scene::new();
    scene.src.file("film", content(9 * MIB)).file("small", "small");
    let run = command(&scene, &["dst", "other"], &["-q"]).run();
    run.assert_code(0);
    is_complete(&scene, "dst", &run);
    let film = std::fs::OpenOptions::new().append(true).open(scene.path("dst/film"));
    std::io::Write::write_all(&mut film.unwrap(), b"more").unwrap();
    let habits = [Habit::States("film", 9 * MIB as u64)];
    let at = scene.path("shown");
    let _mirror = Mirror::with_habits(&scene.path("dst"), &at, &habits, |_| Act::Pass);
    scene.bare(["shown"]).dirverify().run().assert_code(4).assert_says("film");
}
