//! What a fault, a signal or a kill in the middle leaves: each file as it was, or right.

use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::harness::{
    Mount, Random, Scene, Strace, Tree, content, ctimes, is_temp_name, long, names_below, need,
    shell,
};

use super::{MIB, are_whole, copies, heal, healed, is_whole, rot};

const LARGE: usize = 6 * MIB + 77;

/// Two copies, damaged in different places.
fn damage(scene: &Scene) {
    rot(scene, "A/dir/a.mov", &[7, 5 * MIB]);
    rot(scene, "B/dir/a.mov", &[3 * MIB]);
    rot(scene, "A/b", &[MIB]);
    rot(scene, "A/small", &[0]);
}

fn scene() -> Scene {
    let scene = Scene::new();
    scene.src.file("dir/a.mov", content(LARGE)).file("b", content(2 * MIB)).file("small", "x");
    copies(&scene, &["A", "B"], &[]);
    scene
}

const FILES: [&str; 4] = ["A/dir/a.mov", "B/dir/a.mov", "A/b", "A/small"];

fn contents(scene: &Scene) -> Vec<Vec<u8>> {
    FILES.iter().map(|name| std::fs::read(scene.path(name)).unwrap()).collect()
}

fn temp_files(tree: &Tree) -> Vec<Vec<u8>> {
    let name = |path: &Vec<u8>| path.rsplit(|b| *b == b'/').next().unwrap().to_vec();
    names_below(tree.root(), "f").into_iter().filter(|path| is_temp_name(&name(path))).collect()
}

#[test]
fn a_kill_leaves_the_old_or_the_right_file() {
    let scene = scene();
    let good = contents(&scene);
    let started = Instant::now();
    damage(&scene);
    let bad = contents(&scene);
    heal(&scene, &["-q", "A", "B"]).assert_code(0);
    let whole = started.elapsed();
    let mut random = Random::new(61);
    let mut half_way = 0;
    for _ in 0..if long() { 200 } else { 5 } {
        damage(&scene);
        assert!(contents(&scene) == bad);
        let running = scene.bare(["heal", "-q", "A", "B"]).spawn();
        let micros = random.below(usize::try_from(whole.as_micros()).unwrap()) as u64;
        std::thread::sleep(Duration::from_micros(micros));
        running.signal(Signal::KILL);
        running.wait();
        let now = contents(&scene);
        for (at, name) in FILES.iter().enumerate() {
            assert!(now[at] == good[at] || now[at] == bad[at], "{name}");
        }
        half_way += usize::from(now != good && now != bad);
        heal(&scene, &["-q", "A", "B"]).assert_code(0);
        are_whole(&scene, &["A", "B"]);
        let left = [temp_files(&scene.tree("A")), temp_files(&scene.tree("B"))].concat();
        assert!(left.is_empty(), "{left:?}");
    }
    eprintln!("{half_way} kills came between two files");
}

/// At each call that changes a directory or makes something durable.
#[test]
fn a_kill_at_any_step_leaves_the_old_or_the_right_file() {
    need!(Strace);
    let scene = scene();
    let good = contents(&scene);
    damage(&scene);
    let bad = contents(&scene);
    let steps = "fsync,fdatasync,rename,renameat,renameat2,unlinkat,ftruncate,utimensat";
    let every = if long() { 1 } else { 5 };
    for when in (1..).step_by(every) {
        let strace = Strace::inject(&scene, steps, &format!("signal=KILL:when={when}"));
        let run = strace.run(scene.bare(["heal", "-q", "A", "B"]));
        if run.code == Some(0) {
            assert!(when > every, "nothing was killed");
            break;
        }
        let now = contents(&scene);
        for (at, name) in FILES.iter().enumerate() {
            assert!(now[at] == good[at] || now[at] == bad[at], "{name} {when}");
        }
        heal(&scene, &["-q", "A", "B"]).assert_code(0);
        are_whole(&scene, &["A", "B"]);
        let left = [temp_files(&scene.tree("A")), temp_files(&scene.tree("B"))].concat();
        assert!(left.is_empty(), "{when}: {left:?}");
        damage(&scene);
    }
}

#[test]
fn an_error_leaves_the_old_file_and_says_so() {
    need!(Strace);
    let faults = [
        (Strace::SYNCS, "error=EIO", "cannot make durable"),
        (Strace::RENAMES, "error=EIO", "cannot publish"),
        ("ftruncate", "error=ENOSPC", "cannot make room for"),
        // The first ones open the manifests.
        ("lseek", "error=EIO:when=6+", "cannot"),
    ];
    for (calls, fault, said) in faults {
        let scene = scene();
        damage(&scene);
        let was = contents(&scene);
        let strace = Strace::inject(&scene, calls, fault);
        let run = strace.run(scene.bare(["heal", "A", "B"]));
        run.assert_code(4).assert_says(said);
        strace.fired(&run);
        assert!(contents(&scene) == was, "{calls}");
        assert!(temp_files(&scene.tree("A")).is_empty() && temp_files(&scene.tree("B")).is_empty());
        heal(&scene, &["-q", "A", "B"]).assert_code(0);
    }
}

/// What is in it may be readable itself: a directory that is made is open to its owner only until it is as the copy's.
#[test]
fn a_directory_that_is_made_is_never_more_open_than_its_copy() {
    need!(Strace);
    let scene = scene();
    shell(&scene, "chmod 700 B/dir; rm -r A/dir");
    let strace = Strace::inject(&scene, Strace::RENAMES, "signal=KILL:when=1");
    let run = strace.run(scene.bare(["heal", "A", "B"]));
    assert_eq!(run.signal, Some(9));
    // It has no name of its own yet.
    assert_eq!(
        shell(&scene, "ls -d A/dir 2>/dev/null || stat -c '%F %a' A/.*part"),
        "directory 700\n"
    );
    heal(&scene, &["-q", "A", "B"]).assert_code(0);
    is_whole(&scene.path("A"));
}

/// "No tree has it good" is not all there is to say where one could not be asked.
#[test]
fn a_copy_that_cannot_be_opened_is_named() {
    need!(Root);
    let scene = scene();
    rot(&scene, "A/dir/a.mov", &[7]);
    shell(&scene, "chmod 000 B/dir/a.mov; chown -R 65534:65534 A B; chmod 755 .");
    let run = scene.bare(["heal", "A", "--from-tree", "B"]).under_nobody().run();
    run.assert_code(4).assert_says("cannot open").assert_says("B/dir/a.mov: Permission denied");
}

/// A name that may not outlast a power cut is a failure, although the file is right by now: whoever is told that it
/// was healed may throw away the other copy.
#[test]
fn a_directory_that_cannot_be_synced_is_a_failure() {
    need!(Strace);
    for (harm, directory) in [
        ("true", "A/dir"),
        // The directory is made, and the one that it is made in cannot be synced.
        ("rm -r A/dir", "A"),
    ] {
        let scene = scene();
        rot(&scene, "A/dir/a.mov", &[7]);
        rot(&scene, "B/b", &[MIB]);
        shell(&scene, harm);
        let strace = Strace::inject(&scene, Strace::SYNCS, "error=EIO");
        let strace = strace.exactly_on(scene.path(directory));
        let run = strace.run(scene.bare(["heal", "A", "B"]));
        strace.fired(&run);
        // Once: an error of fsync is final.
        assert_eq!(strace.injected().len(), 1, "{:?}", strace.injected());
        run.assert_code(4).assert_prints(&["not healed", "1 bad file"]);
        run.assert_says("not healed: A/dir/a.mov: cannot make durable the directory");
        run.assert_says("but may not be so after a power cut");
        assert_eq!(healed(&run), ["B/b: 1 MiB from A"], "{}", run.err());
        are_whole(&scene, &["A", "B"]);
        heal(&scene, &["-q", "A", "B"]).assert_code(0);
    }
}

/// A signal ends it soon, with nothing left behind.
#[test]
fn a_signal_leaves_nothing_behind() {
    need!(Strace);
    let scene = scene();
    damage(&scene);
    let was = contents(&scene);
    let strace = Strace::inject(&scene, "ftruncate", "signal=TERM:when=1");
    let run = strace.run(scene.bare(["heal", "A", "B"]));
    run.assert_code(143).assert_prints(&["INTERRUPTED"]);
    assert!(strace.log().contains("SIGTERM"));
    assert!(contents(&scene) == was);
    assert!(temp_files(&scene.tree("A")).is_empty() && temp_files(&scene.tree("B")).is_empty());
}

#[test]
fn a_tree_at_work_is_refused_or_waited_for() {
    let scene = scene();
    damage(&scene);
    let was = ctimes(&scene.path("A"));
    let private = std::fs::File::open(scene.path("B/.dircopy")).unwrap();
    rustix::fs::flock(&private, rustix::fs::FlockOperation::LockExclusive).unwrap();
    heal(&scene, &["A", "B"]).assert_code(2).assert_says("is at work on it");
    assert_eq!(was, ctimes(&scene.path("A")));
    let waiting = scene.bare(["heal", "-q", "--wait", "A", "B"]).spawn();
    std::thread::sleep(Duration::from_millis(300));
    drop(private);
    waiting.wait().assert_code(0);
    are_whole(&scene, &["A", "B"]);
}

/// A file that does not fit beside the bad one is not begun.
#[test]
fn room_is_looked_at_first() {
    need!(Mount);
    let scene = scene();
    std::fs::create_dir(scene.path("small")).unwrap();
    let mount = Mount::tmpfs(&scene.path("small"), "12m");
    shell(&scene, "cp -rp A small/A");
    rot(&scene, "small/A/dir/a.mov", &[7]);
    rot(&scene, "small/A/b", &[7]);
    let run = heal(&scene, &["small/A", "B"]);
    run.assert_code(4).assert_says("not healed: small/A/dir/a.mov: cannot heal");
    run.assert_says("MiB free, and it takes 7 MiB");
    assert_eq!(healed(&run), ["small/A/b: 1 MiB from B"]);
    assert!(temp_files(&scene.tree("small/A")).is_empty());
    drop(mount);
}

/// Where files can share data, no more is written than what was damaged.
#[test]
fn only_damaged_chunks_are_written_where_clones_are_to_be_had() {
    need!(Root, Kinds, Strace);
    let size = if long() { 1 << 30 } else { 24 * MIB };
    for kind in ["xfs", "btrfs"] {
        let scene = Scene::on_disk();
        let image = scene.path("image");
        std::fs::create_dir(scene.path("m")).unwrap();
        let _mount = Mount::of_size(kind, 4096, &image, &scene.path("m"));
        scene.src.file("dir/a.mov", content(size + 5)).file("small", "small");
        for tree in ["m/A", "m/B", "m/C"] {
            scene.command_to(scene.src.root(), scene.path(tree), ["-q"]).run().assert_code(0);
        }
        rot(&scene, "m/A/dir/a.mov", &[7, size / 2, size + 1]);
        rot(&scene, "m/B/dir/a.mov", &[3 * MIB, 3 * MIB + 9, 4 * MIB]);
        rot(&scene, "m/C/dir/a.mov", &[11 * MIB]);
        let strace = Strace::watch(&scene, Strace::WRITES);
        let run = strace.run(scene.bare(["heal", "m/A", "m/B", "m/C"]));
        run.assert_code(0);
        let written = |call: &String| {
            let is_part = call.contains(".dircopy-part>");
            is_part.then(|| call.rsplit_once("= ").unwrap().1.trim().parse::<usize>().unwrap())
        };
        let written: usize = strace.calls().iter().filter_map(written).sum();
        assert_eq!(written, 5 * MIB + 5, "{kind}: {}", run.err());
        are_whole(&scene, &["m/A", "m/B", "m/C"]);
    }
}

/// What cannot be read is taken from another tree as well.
#[test]
fn what_cannot_be_read_is_healed() {
    need!(Strace);
    for size in [LARGE, 100_000] {
        let scene = Scene::new();
        scene.src.file("a.mov", content(size));
        copies(&scene, &["A", "B"], &[]);
        let strace = Strace::inject(&scene, Strace::READS, "error=EIO");
        let strace = strace.exactly_on(scene.path("A/a.mov"));
        let inode = scene.tree("A").inode("a.mov");
        let run = strace.run(scene.bare(["heal", "A", "B"]));
        strace.fired(&run);
        run.assert_code(0);
        assert_ne!(inode, scene.tree("A").inode("a.mov"));
        is_whole(&scene.path("A"));
    }
}

/// What is mended, or given parity, in a tree to which its path does not lead any more is at no path that anybody knows.
#[test]
fn a_tree_that_is_exchanged_meanwhile_is_told() {
    need!(Strace);
    for args in [&["heal", "A", "B"][..], &["protect", "A"]] {
        let scene = scene();
        if args[0] == "heal" {
            rot(&scene, "A/small", &[0]);
        }
        let strace = Strace::inject(&scene, Strace::RENAMES, "signal=SIGSTOP:when=1");
        let run = strace.run_stopped(scene.bare(args), || {
            shell(&scene, "mv A aside && mkdir A && echo planted >A/small");
        });
        run.assert_code(1).assert_says("it was unmounted, moved or replaced meanwhile");
    }
}
