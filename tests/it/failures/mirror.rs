//! A file system that fails, lies and changes under our hands, where `strace` cannot: at the random
//! names of part files, in the bytes themselves, between two reads, at the nth write.
//!
//! What a copy cannot know it does not promise: a disk that says it wrote, and did not, is found out when
//! the tree is checked.

use std::path::Path;

use crate::harness::{
    Act, Call, Deed, Habit, Judge, Mirror, Run, Scene, Tree, content, long, names_below, need,
    shell,
};

const EIO: i32 = rustix::io::Errno::IO.raw_os_error();
const ENOTCONN: i32 = rustix::io::Errno::NOTCONN.raw_os_error();
const EINTR: i32 = rustix::io::Errno::INTR.raw_os_error();
const ENOSPC: i32 = rustix::io::Errno::NOSPC.raw_os_error();

/// Blocks of 64 KiB, so that there are several of a file.
const BLOCKS: [&str; 4] = ["--workers", "1", "--block-size", "64K"];

fn scene() -> Scene {
    let scene = Scene::new();
    scene.src.file("big", content(300_001)).file("victim", content(200_000)).file("small", "small");
    scene.src.file("dir/other", content(5000)).file("dir/empty", "").symlink("link", "small");
    scene
}

fn is_part(path: &Path) -> bool {
    path.to_string_lossy().ends_with(".dircopy-part")
}

/// Copies to an output where `hook` has its say; returns the run, what is really there, and how often
/// something did not pass.
fn copy_to(scene: &Scene, hook: impl FnMut(&Call<'_>) -> Act + Send + 'static) -> (Run, Tree, u32) {
    let truth = scene.tree("truth");
    let mirror = Mirror::mount(truth.root(), &scene.dst, hook);
    let run = scene.command(BLOCKS).run();
    (run, truth, mirror.fired())
}

/// Copies from a source where `hook` has its say.
fn copy_from(scene: &Scene, hook: impl FnMut(&Call<'_>) -> Act + Send + 'static) -> (Run, u32) {
    let shown = scene.path("shown");
    let mirror = Mirror::mount(scene.src.root(), &shown, hook);
    let run = scene.command_to(&shown, &scene.dst, BLOCKS).run();
    (run, mirror.fired())
}

/// A file system may state less than there is, or nothing, without the file having changed.
#[test]
fn files_are_read_to_their_end_whatever_their_size_says() {
    need!(Fuse);
    for args in [&[][..], &["--simd", "off"], &["--simd", "on"], &["--hash", "none"]] {
        let scene = Scene::new();
        scene.src.file("short", content(2200)).file("zero", content(500)).file("good", "good");
        scene.src.file("block", content(131_172));
        let states = [("short", 2100), ("block", 131_072), ("zero", 0)]
            .map(|(name, size)| Habit::States(name, size));
        let shown = scene.path("shown");
        let _mirror = Mirror::with_habits(scene.src.root(), &shown, &states, |_| Act::Pass);
        let args = [&["--block-size", "64K"][..], args].concat();
        let run = scene.command_to(&shown, &scene.dst, args).run();
        run.assert_code(1).assert_says("short").assert_says("block");
        let judge = scene.judge(&run);
        judge.lacks("short").lacks("block").no_leftovers();
        for (name, expected) in [("zero", content(500)), ("good", b"good".to_vec())] {
            assert!(
                std::fs::read(scene.dst.join(name)).is_ok_and(|there| there == expected),
                "{name}"
            );
        }
    }
}

/// What states a size of 0 and has content is the same for each run.
#[test]
fn a_file_that_states_no_size_is_there_already() {
    need!(Fuse);
    for args in [
        &[][..],
        &["--simd", "off"],
        &["--overwrite-policy", "update"],
        &["--hash", "none"],
        &["--verify"],
    ] {
        let scene = Scene::new();
        scene.src.file("zero", content(500)).file("empty", "").file("good", "good");
        scene.src.mtime("zero", 1_577_836_800, 0);
        let shown = scene.path("shown");
        let habits = [Habit::States("zero", 0)];
        let _mirror = Mirror::with_habits(scene.src.root(), &shown, &habits, |_| Act::Pass);
        let copy =
            |more: &[&str]| scene.command_to(&shown, &scene.dst, args.iter().chain(more)).run();
        copy(&[]).assert_code(0);
        let before = crate::harness::ctimes(&scene.path("dst/zero"));
        for _ in 0..2 {
            let run = copy(&["-v"]);
            run.assert_code(0);
            assert_eq!(scene.output().read("zero"), content(500));
            assert_eq!(crate::harness::ctimes(&scene.path("dst/zero")), before, "{}", run.out());
        }
        copy(&["--dry-run"]).assert_code(0);
        if args.contains(&"none") {
            continue;
        }
        // Content decides: neither another that is as long, nor a longer copy of an empty file, is the same.
        scene.src.file("zero", content(501)).mtime("zero", 1_577_836_800, 0);
        let run = copy(&["-v"]);
        run.assert_code(0).assert_says("it is copied anew");
        assert_eq!(scene.output().read("zero"), content(501));
    }
}

/// A call that is interrupted again and again fails its file, so that the run ends and a signal to it is
/// seen.
#[test]
fn endless_interruptions_end() {
    need!(Fuse);
    let scene = scene();
    let (run, fired) = copy_from(&scene, |call| match call.deed {
        Deed::Read if call.path.ends_with("victim") => Act::Fail(EINTR),
        _ => Act::Pass,
    });
    assert!(fired > 100, "{fired} interruptions");
    run.assert_code(1).assert_says("victim");
    scene.judge(&run).lacks("victim").no_leftovers().has("big");

    let scene = self::scene();
    let (run, _truth, fired) = copy_to(&scene, |call| match call.deed {
        Deed::Write if is_part(call.path) => Act::Fail(EINTR),
        _ => Act::Pass,
    });
    assert!(fired > 100, "{fired} interruptions");
    run.assert_code_in(&[1, 3]).assert_says("victim");
}

#[test]
fn short_reads_and_writes_are_not_visible() {
    need!(Fuse);
    let scene = scene();
    let (run, fired) = copy_from(&scene, |call| match call.deed {
        Deed::Read => Act::Short(777),
        _ => Act::Pass,
    });
    assert!(fired > 100, "{fired} short reads");
    scene.judge(&run).complete();

    let scene = self::scene();
    let (run, truth, fired) = copy_to(&scene, |call| match call.deed {
        Deed::Write => Act::Short(777),
        _ => Act::Pass,
    });
    assert!(fired > 100, "{fired} short writes");
    Judge::new(&scene.src, truth, &run).complete();
}

/// A write that was said to be done and was not, and one that came out otherwise.
#[test]
fn lies_of_the_output_are_found_by_a_check() {
    need!(Fuse);
    for lie in [Act::Pretend, Act::Flip] {
        for nth in 1..=6 {
            let scene = scene();
            let mut seen = 0;
            let (run, truth, fired) = copy_to(&scene, move |call| {
                seen += u32::from(call.deed == Deed::Write && is_part(call.path));
                if seen == nth && call.deed == Deed::Write { lie } else { Act::Pass }
            });
            assert_eq!(fired, 1, "write {nth}");
            run.assert_code(0);
            let wrong = names_below(scene.src.root(), "f").into_iter();
            let wrong = wrong.filter(|name| truth.read(name) != scene.src.read(name));
            let wrong: Vec<_> = wrong.map(|name| String::from_utf8(name).unwrap()).collect();
            assert_eq!(wrong.len(), 1, "{lie:?} of write {nth}");
            let check = scene.bare([truth.root()]).dirverify().run();
            check.assert_code(4).assert_says(&wrong[0]);
            assert_eq!(check.err().lines().count(), 1, "{}", check.err());
        }
    }
}

/// With `--verify` the manifest is read back as the files are: one that the output does not hold as it was
/// written gets no name, and stays for no later run to believe.
#[test]
fn a_manifest_that_is_not_as_it_was_written_is_none() {
    need!(Fuse);
    for lie in [Act::Pretend, Act::Flip] {
        let scene = scene();
        scene.src.file("with states", content(5_000_000));
        let truth = scene.tree("truth");
        let is_manifest = |path: &Path| path.to_string_lossy().contains(".sha256sum");
        let mirror = Mirror::mount(truth.root(), &scene.dst, move |call| match call.deed {
            Deed::Write if is_manifest(call.path) => lie,
            _ => Act::Pass,
        });
        let run = scene.command(BLOCKS.iter().chain(&["--verify", "--hash", "sha256,md5"])).run();
        assert!(mirror.fired() > 0, "{lie:?}");
        run.assert_code(3).assert_says("prove the manifest").assert_says("is not what was written");
        let ours = names_below(truth.root(), "f").into_iter();
        let ours: Vec<_> = ours.filter(|name| name.starts_with(b"dircopy-2")).collect();
        assert_eq!(ours, Vec::<Vec<u8>>::new(), "{lie:?}: lists and states beside it");
        let judge = Judge::new(&scene.src, truth, &run);
        assert!(!run.out().contains("\nmanifest"), "{}", run.out());
        judge.same_bytes();
    }
}

/// A bit that turns over on the way from the source cannot be noticed by reading once. The manifest says
/// what was read and written, so that a comparison with the source's own digests shows it.
#[test]
fn the_digest_is_of_what_was_read() {
    need!(Fuse);
    for nth in 1..=6 {
        let scene = scene();
        let (run, fired) = copy_from(&scene, move |call| match call.deed {
            Deed::Read if call.number == nth => Act::Flip,
            _ => Act::Pass,
        });
        assert_eq!(fired, 1);
        run.assert_code(0);
        let judge = scene.judge(&run);
        judge.lists_all().verifies().no_leftovers();
    }
}

type Change = fn(&Tree);

/// What happens to the file between two reads of it.
const CHANGES: &[(&str, Change)] = &[
    ("cut off", |src| {
        src.file("victim", content(70_000));
    }),
    ("grown", |src| {
        src.append("victim", b"more");
    }),
    ("rewritten", |src| {
        src.file("victim", vec![b'#'; 200_000]);
    }),
    ("dated", |src| {
        src.mtime("victim", 1_000_000_000, 1);
    }),
    ("replaced", |src| {
        src.file("new", vec![b'#'; 200_000]);
        std::fs::rename(src.path("new"), src.path("victim")).unwrap();
    }),
];

/// It is read once more, and then it is what is listed. A file that another took the place of is only
/// told apart where its number is another.
#[test]
fn a_source_that_changes_between_two_reads_is_read_once_more() {
    need!(Fuse);
    for nth in 1..=4 {
        for (what, change) in CHANGES {
            let (scene, run) = changed(*change, move |read| read == nth);
            run.assert_says("victim");
            let judge = scene.judge(&run);
            match (*what, run.code) {
                ("replaced", Some(1)) => {
                    judge.does_not_list("victim").lacks("victim").verifies().no_leftovers();
                }
                (_, Some(1)) => run.fail(&format!("{what} before read {nth}: given up")),
                _ => {
                    run.assert_says("warning");
                    judge.complete();
                }
            }
        }
    }
}

#[test]
fn a_source_that_changes_again_is_reported() {
    need!(Fuse);
    for nth in 1..=4 {
        for (what, change) in CHANGES {
            let (scene, run) = changed(*change, move |read| read >= nth);
            if run.code != Some(1) {
                run.fail(&format!("{what} before read {nth} and later: not noticed"));
            }
            run.assert_says("victim");
            let judge = scene.judge(&run);
            judge.does_not_list("victim").lacks("victim").verifies().no_leftovers();
            judge.has("big").has("small").has("dir/other");
        }
    }
}

/// A run whose file `victim` changes before these reads of it.
fn changed(change: Change, when: impl Fn(usize) -> bool + Send + 'static) -> (Scene, Run) {
    let scene = scene();
    let src = scene.src.clone();
    let mut reads = 0;
    let (run, _) = copy_from(&scene, move |call| {
        if call.deed == Deed::Read && call.path == Path::new("victim") {
            reads += 1;
            if when(reads) {
                change(&src);
            }
        }
        Act::Pass
    });
    (scene, run)
}

/// The size says one thing and the bytes say another.
#[test]
fn an_early_end_of_a_file_is_reported() {
    need!(Fuse);
    for nth in 1..=4 {
        let scene = scene();
        let mut reads = 0;
        let (run, fired) = copy_from(&scene, move |call| {
            reads += i32::from(call.deed == Deed::Read && call.path == Path::new("victim"));
            match call.deed {
                Deed::Read if call.path == Path::new("victim") && reads >= nth => Act::Short(0),
                _ => Act::Pass,
            }
        });
        assert!(fired > 0);
        run.assert_code(1).assert_says("victim");
        scene.judge(&run).lacks("victim").does_not_list("victim").verifies().no_leftovers();
    }
}

/// Every call that has to do with a part file, by its random name: the first fails, the second, and so
/// on; each alone, and everything from there on.
#[test]
fn every_call_on_a_part_file_may_fail() {
    need!(Fuse);
    for deed in [Deed::Create, Deed::Write, Deed::Sync, Deed::Close, Deed::Rename] {
        for onwards in [false, true] {
            let (mut met, mut trials) = (0, 0);
            loop {
                let scene = scene();
                let nth = met + 1;
                let mut seen = 0;
                let (run, truth, fired) = copy_to(&scene, move |call| {
                    // A rename is told by where to; those of the manifest and the private record are others.
                    let is_other = |to: &str| to.contains(".sha256sum") || to.contains(".dircopy/");
                    let ours = match call.deed {
                        Deed::Rename => !is_other(&call.path.to_string_lossy()),
                        _ => is_part(call.path),
                    };
                    seen += u32::from(call.deed == deed && ours);
                    let hit = if onwards { seen >= nth } else { seen == nth };
                    if hit && call.deed == deed && ours { Act::Fail(EIO) } else { Act::Pass }
                });
                let judge = Judge::new(&scene.src, truth.clone(), &run);
                if fired == 0 {
                    judge.complete();
                    break;
                }
                // Every third one, unless all are asked for.
                met += if long() { 1 } else { 3 };
                // Two part files are trials: whether letter case matters, and whether links can be given
                // times, which comes when the link does. What befalls them harms no copy.
                let is_trial = matches!(deed, Deed::Create | Deed::Close) && run.code == Some(0);
                trials += u32::from(is_trial);
                if is_trial && trials <= 3 {
                    judge.complete();
                } else {
                    run.assert_code_in(&[1, 3]);
                }
                judge.sound().no_temp_files();
                if run.code == Some(1) {
                    judge.names_what_is_missing();
                }
                let next = scene.command_to(scene.src.root(), truth.root(), BLOCKS).run();
                Judge::new(&scene.src, truth, &next).complete();
            }
            assert!(met > 2, "{deed:?} failed {met} times only");
        }
    }
}

/// Room for so many bytes and no more.
#[test]
fn an_output_that_is_full_after_so_many_bytes() {
    need!(Fuse);
    for writes in [1, 2, 5, 7, 9, 11] {
        let scene = scene();
        let (run, truth, fired) = copy_to(&scene, move |call| match call.deed {
            Deed::Write if call.number > writes => Act::Fail(ENOSPC),
            _ => Act::Pass,
        });
        assert!(fired > 0, "there was room after {writes} writes");
        run.assert_code_in(&[1, 3]).assert_says("o space left");
        Judge::new(&scene.src, truth, &run).sound().no_temp_files();
    }
}

/// `kill -9` at the first write, the second, and so on; and at every other deed.
#[test]
fn killed_at_any_call() {
    need!(Fuse);
    let mut kills = 0;
    for deed in [Deed::Create, Deed::Write, Deed::Sync, Deed::Close, Deed::Rename] {
        for nth in (1..).step_by(if long() { 1 } else { 3 }) {
            let scene = scene();
            let (run, truth, fired) = copy_to(&scene, move |call| {
                if call.deed != deed || call.number != nth {
                    return Act::Pass;
                }
                let caller = rustix::process::Pid::from_raw(call.caller.cast_signed()).unwrap();
                rustix::process::kill_process(caller, rustix::process::Signal::KILL).unwrap();
                Act::Fail(EIO)
            });
            if fired == 0 {
                Judge::new(&scene.src, truth, &run).complete();
                break;
            }
            kills += 1;
            assert_eq!(run.signal, Some(9), "{deed:?} {nth}");
            for name in names_below(truth.root(), "f") {
                if scene.src.has(&name) && truth.read(&name) != scene.src.read(&name) {
                    run.fail(&format!("not whole: {}", name.escape_ascii()));
                }
            }
            // Where the same is told of it as before: else the secret would not be believed.
            let mirror = Mirror::mount(truth.root(), &scene.dst, |_| Act::Pass);
            let next = scene.command(BLOCKS).run();
            drop(mirror);
            Judge::new(&scene.src, truth, &next).complete();
        }
    }
    eprintln!("killed at {kills} calls");
}

/// A disk that is pulled out is not as many bad files as are left on it, and what was copied of it is not all: the run
/// says so once, ends early, and finishes no manifest. One bad file stays one.
#[test]
fn a_source_that_is_gone_ends_the_run() {
    need!(Fuse);
    let scene = Scene::new();
    for number in 0..300 {
        scene.src.file(format!("file {number:03}"), content(20_000 + number));
    }
    for (deeds, errno) in [(&[Deed::Read][..], EIO), (&[Deed::Read, Deed::List], ENOTCONN)] {
        let shown = scene.path("shown");
        let mut read = 0;
        let mirror = Mirror::mount(scene.src.root(), &shown, move |call| {
            read += u32::from(call.deed == Deed::Read);
            match read > 60 && deeds.contains(&call.deed) {
                true => Act::Fail(errno),
                false => Act::Pass,
            }
        });
        let to = ["-i", "shown", "-o", "dst", "-o", "two", "--report", "report.html", "-j", "2"];
        let run = scene.bare(to).run();
        assert!(mirror.fired() > 0);
        drop(mirror);
        run.assert_code(3).assert_says("the source is gone");
        assert_eq!(run.err().matches("the source is gone").count(), 1, "{}", run.err());
        // Of what is left then there is one line for each output.
        run.assert_says("more like one above");
        assert!(run.err().lines().count() < 100, "{}", run.err());
        assert!(run.out().ends_with("connect it and run the same command\n"), "{}", run.out());
        assert!(!run.out().contains("/s;"), "{}", run.out());
        let page = std::fs::read_to_string(scene.path("report.html")).unwrap();
        assert!(page.contains("the source is gone") && page.contains(">stopped early<"), "{page}");
        for output in ["dst", "two"] {
            let names = names_below(&scene.path(output), "f");
            let finished = names.iter().filter(|name| name.ends_with(b".sha256sum")).count();
            assert_eq!(finished, 0, "{names:?}");
        }
        // The same command goes on.
        scene.command_to("src", &scene.dst, ["-o", "two"]).run().assert_code(0);
        scene.judge(&run).verifies();
        crate::harness::shell(&scene, "rm -r dst two");
    }
}

/// … however many bad files there are, while others can be read.
#[test]
fn many_bad_files_are_no_source_that_is_gone() {
    need!(Fuse);
    let scene = Scene::new();
    scene.src.file("a", content(5000));
    for number in 0..60 {
        scene.src.file(format!("bad {number:02}"), content(5000));
    }
    scene.src.file("z", content(5000));
    let (run, fired) = copy_from(&scene, |call| match call.deed {
        Deed::Read if call.path.to_string_lossy().contains("bad") => Act::Fail(EIO),
        _ => Act::Pass,
    });
    assert!(fired >= 60);
    run.assert_code(1).assert_prints(&["failed", "60 entries"]);
    scene.judge(&run).lists(&["a", "z"]).verifies();
}

/// A mirror that keeps nothing else would move what the run itself writes into the trash.
#[test]
fn what_a_run_writes_does_not_lie_where_nothing_else_is_kept() {
    let scene = Scene::new();
    scene.src.file("f", "f");
    shell(&scene, "mkdir dst state");
    for args in [
        ["--report", "dst/report.html"],
        ["--report", "dst/"],
        ["--log", "dst/log"],
        ["--metrics", "dst/sub/metrics"],
        ["--state", "dst/state"],
    ] {
        shell(&scene, "mkdir -p dst/state dst/sub");
        let all = ["src", "dst", "--mirror=all", args[0], args[1]];
        scene.bare(all).run().assert_code(2).assert_says("it would be moved to the trash");
    }
    let out =
        ["src", "dst", "--mirror=all", "--report", "dst/report.html", "--exclude=/report.html"];
    scene.bare(out).run().assert_code(0);
    scene.bare(out).run().assert_code(0);
    assert!(scene.dst.join("report.html").exists());
}
