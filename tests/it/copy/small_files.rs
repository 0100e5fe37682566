//! Small files that are read, hashed and written a handful at a time: nothing but the time it takes may
//! depend on that. Where the processor has no wide registers these are tests of copying one by one.

use rustix::process::Signal;

use crate::harness::{Mount, Run, Scene, Strace, Tree, content, names_below, need, shell};

/// One lane, so that all files of a directory are in one run.
const WIDE: [&str; 4] = ["--simd", "on", "--workers", "1"];

fn wide<'a>(more: &[&'a str]) -> Vec<&'a str> {
    [&WIDE, more].concat()
}

/// Among the files of a directory, and too long for a handful.
const LONG: [&str; 2] = ["a03x", "a11x"];

/// Some handfuls of small files, and `bad` among them.
fn many() -> Scene {
    let scene = Scene::new();
    for i in 0..20 {
        scene.src.file(format!("a{i:02}"), content(3000 + i * 64));
    }
    scene.src.file("bad", content(3333));
    for i in 0..20 {
        scene.src.file(format!("z{i:02}"), content(i * 7));
    }
    scene
}

/// Only `bad` failed, and that is said once.
#[track_caller]
fn only_bad_failed(scene: &Scene, run: &Run) {
    run.assert_code(1);
    let named = run.err().lines().filter(|line| line.contains("bad")).count();
    assert_eq!(named, 1, "one line for one failed file: {}", run.err());
    let judge = scene.judge(run);
    judge.verifies().no_leftovers().lacks("bad").does_not_list("bad");
    for name in names_below(scene.src.root(), "f").into_iter().filter(|name| name != b"bad") {
        judge.has(name);
    }
}

/// Lengths around the ends of SHA-256's blocks, and around the largest that come together.
fn lengths() -> impl Iterator<Item = usize> {
    let edges = [256, 512, 4096, 8192, 16_384, 32_768, 65_536, 262_144];
    (0..=130).chain(edges.into_iter().flat_map(|edge| edge - 1..=edge + 1))
}

#[test]
fn files_of_every_length_arrive_whole_and_are_listed() {
    for args in [
        &[][..],
        &["--no-sync"],
        &["--verify"],
        &["--block-size", "4096", "--queue-size", "1"],
        &["--block-size", "16", "--no-sync"],
        &["--block-size", "5"],
        &["--sparse", "always"],
    ] {
        let scene = Scene::new();
        // A quarter of a megabyte by blocks of a few bytes would take a minute and show no more.
        let has_tiny_blocks = args.contains(&"5") || args.contains(&"16");
        let longest = if has_tiny_blocks { 8193 } else { usize::MAX };
        for (i, len) in lengths().filter(|len| *len <= longest).enumerate() {
            scene.src.file(format!("{}/{i}", i % 3), content(len));
            scene.src.file(format!("many/{i}"), content(len)).file(format!("many/{i}-empty"), "");
        }
        scene.src.sparse("many/holes", 9000, &[(5000, 10)]).sparse("many/all hole", 9000, &[]);
        let run = scene.copy(&wide(args));
        scene.judge(&run).complete();
    }
}

/// What is told, and the lines of the manifest, come in the order of copying one by one. Files too long for
/// a handful have a worker of their own beside the lane: when they are done is a race, so they are no part of it.
#[test]
fn the_order_is_that_of_one_by_one() {
    let scene = many();
    for name in LONG {
        scene.src.file(name, content(40_000));
    }
    let said = ["off", "on"].map(|simd| {
        let args = ["--workers", "1", "--no-sync", "-v", "--simd", simd];
        // Some are there already, one of them with other content.
        for name in ["a05", "z17"] {
            std::fs::create_dir_all(scene.path(simd)).unwrap();
            shell(&scene, &format!("cp -p src/{name} {simd}/{name}"));
        }
        scene.tree(simd).file("a09", "another");
        let run = scene.command_to("src", simd, args).run();
        run.assert_code(1);
        let lines = shell(&scene, &format!("grep -hv '^#' {simd}/dircopy-*.sha256sum"));
        let of_a_handful = |line: &&str| !LONG.iter().any(|name| line.ends_with(name));
        let lines: Vec<String> = lines.lines().filter(of_a_handful).map(str::to_owned).collect();
        assert!(lines.len() > 30, "{lines:?}");
        let said = format!("{}{}", run.out(), run.err());
        let about = |line: &&str| {
            names_below(scene.src.root(), "f")
                .iter()
                .any(|name| line.contains(&*String::from_utf8_lossy(name)))
        };
        let said = said.lines().filter(about).filter(of_a_handful);
        let said: Vec<String> = said.map(|line| line.replace(&format!("{simd}/"), "")).collect();
        (lines, said)
    });
    assert_eq!(said[0], said[1]);
}

/// Also the calls that keep the page cache as it was, on a file system that has such.
#[test]
fn the_calls_are_those_of_one_by_one() {
    need!(Loop, Strace);
    let calls = ["off", "on"].map(|simd| {
        let scene = Scene::on_disk();
        let _mount = Mount::ext4(&scene.path("image"), 64, &scene.path("mount"));
        let src = Tree::at(scene.path("mount/src"));
        for i in 0..40 {
            src.file(format!("{i:02}"), content(i * 100));
        }
        let strace = Strace::watch(&scene, "%file,%desc");
        let to = scene.path("mount/dst");
        let args = ["--workers", "1", "--no-sync", "--no-space-check", "--simd", simd];
        strace.run(scene.command_to(src.root(), to, args)).assert_code(0);
        let calls = strace.calls();
        let names = calls.iter().filter(|call| call.contains("/src/")).map(|call| {
            let name = call.split('(').next().unwrap_or_default().to_owned();
            (name, call.contains("DONTCACHE"), call.contains("NOATIME"))
        });
        let mut names: Vec<_> = names.collect();
        names.sort();
        names
    });
    assert!(calls[0].len() > 40 * 3, "{:?}", calls[0]);
    assert_eq!(calls[0], calls[1]);
}

#[test]
fn a_file_that_cannot_be_read_costs_that_file() {
    need!(Strace);
    for (calls, error) in [(Strace::READS, "EIO"), (Strace::OPENS, "EACCES")] {
        for args in [&[][..], &["--no-sync"]] {
            let scene = many();
            let strace = Strace::inject(&scene, calls, &format!("error={error}"));
            let strace = strace.on(scene.src.path("bad"));
            let run = strace.run(scene.command(wide(args)));
            strace.fired(&run);
            only_bad_failed(&scene, &run);
        }
    }
}

/// Whichever write it is, one file fails and is named, and no other.
#[test]
fn a_file_that_cannot_be_written_costs_that_file() {
    need!(Strace);
    // The thread that writes the manifest and the notes makes fewer.
    for when in [14, 30] {
        let scene = many();
        let strace = Strace::inject(&scene, Strace::WRITES, &format!("error=EIO:when={when}"));
        let run = strace.run(scene.command(wide(&["-q"])));
        strace.fired(&run);
        run.assert_code(1).assert_says("(os error 5)");
        // The same write of another thread may be one of the private directory.
        let files = run.err().lines().filter(|line| !line.contains("the private ")).count();
        assert_eq!(files, 1, "one line for one failed file: {}", run.err());
        let judge = scene.judge(&run);
        judge.sound().no_leftovers().names_what_is_missing();
        let there = names_below(&scene.dst, "f").len();
        assert_eq!(there, 41 - 1 + 1, "all but one, and the manifest");
    }
}

#[test]
fn a_file_that_changes_while_it_is_read_is_read_again() {
    need!(Strace);
    type Change = fn(&Scene);
    let changes: [Change; 3] = [
        |scene| _ = scene.src.append("bad", b"more"),
        |scene| _ = scene.src.file("bad", ""),
        |scene| _ = scene.src.file("bad", content(100_000)),
    ];
    for change in changes {
        let scene = many();
        scene.src.mtime("bad", 1_000_000_000, 7);
        let strace = Strace::inject(&scene, Strace::READS, "signal=SIGSTOP:when=1")
            .exactly_on(scene.src.path("bad"));
        let run = strace.run_stopped(scene.command(wide(&[])), || change(&scene));
        run.assert_code(0).assert_says("read again");
        scene.judge(&run).complete();
    }
}

/// What is read and not written yet when the run is to stop is given up.
#[test]
fn an_interruption_leaves_whole_files_and_right_lines() {
    need!(Strace);
    for (signal, args) in [
        (Signal::INT, &[][..]),
        (Signal::INT, &["--no-sync"]),
        (Signal::KILL, &["--no-sync"]),
        (Signal::KILL, &[]),
    ] {
        let scene = Scene::new();
        for i in 0..300 {
            scene.src.file(format!("{i:03}"), content(1000 + i));
        }
        let strace = Strace::inject(&scene, Strace::READS, "delay_exit=25000");
        let mut running = strace.spawn(scene.command(wide(args)));
        let reads = || strace.log().lines().filter(|line| line.contains("/src/")).count();
        running.until("some reads", || reads() >= 40);
        running.signal(signal);
        let run = running.wait();
        if signal == Signal::INT {
            run.assert_code(130);
            scene.judge(&run).no_temp_files().sound();
        }
        for name in names_below(scene.src.root(), "f") {
            let there = scene.output().has(&name).then(|| scene.output().read(&name));
            let whole = there.is_none_or(|there| there == scene.src.read(&name));
            assert!(whole, "{}", name.escape_ascii());
        }
        let again = scene.copy(&wide(args));
        again.assert_code(0);
        scene.judge(&again).verifies().lists_all().no_temp_files();
    }
}
