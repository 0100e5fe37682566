//! Holes stay holes: a disk image of a terabyte must not need a terabyte.

use std::os::unix::fs::MetadataExt;

use crate::harness::{Scene, Strace, Tree, content, need};

const MIB: u64 = 1 << 20;

/// Room for what a file system itself may put into the count, in blocks of 512 bytes.
const SLACK: u64 = 64;

/// Name, length, and where there is data: offset and length.
type Shape = (&'static str, u64, &'static [(u64, usize)]);

#[test]
fn holes_stay_holes() {
    const LARGE: u64 = 256 * MIB;
    let shapes: &[Shape] = &[
        ("all hole", 64 * MIB, &[]),
        ("data first", 64 * MIB, &[(0, 65_536)]),
        ("data last", 64 * MIB, &[(64 * MIB - 65_536, 65_536)]),
        ("islands", LARGE, &[(0, 5000), (MIB, 1 << 20), (LARGE / 2 - 1, 3), (LARGE - 1, 1)]),
        ("hole within a block", 256 * 1024, &[(0, 4096), (196_608, 4096)]),
        ("odd tail", 3 * MIB + 17, &[(MIB, 4096)]),
    ];
    let scene = Scene::on_disk();
    for (name, len, islands) in shapes {
        scene.src.sparse(name, *len, islands);
    }
    scene.src.file("no hole", content(2 << 20));
    let run = scene.copy(&[]);
    let judge = scene.judge(&run);
    judge.complete();
    for (name, ..) in shapes {
        let blocks = |tree: &Tree| tree.path(name).metadata().unwrap().blocks();
        let (source, copy) = (blocks(&scene.src), blocks(&judge.dst));
        assert!(copy <= source + SLACK, "{name}: {copy} blocks at the output, {source} before");
    }
}

/// A file system that calls everything behind the first data a hole, as strace has it say, loses no byte of the copy.
#[test]
fn data_that_is_called_a_hole_is_copied_and_told() {
    need!(Strace);
    for (args, outputs) in [
        (&[][..], 1),
        (&["--verify"], 1),
        (&["--hash", "none"], 1),
        (&["--hash", "none", "--reflink", "never"], 1),
        (&["--hash", "sha256,md5", "--holes", "read"], 1),
        (&["--block-size", "64K", "-o", "second"], 2),
        (&["--hash", "none", "-o", "second"], 2),
    ] {
        let scene = Scene::on_disk();
        scene.src.sparse("holes", 5 * MIB, &[(MIB, 1 << 20), (3 * MIB, 70_000)]);
        scene.src.file("plain", content(300_000));
        let strace = Strace::inject(&scene, "lseek", "error=ENXIO:when=1..3+2");
        let strace = strace.exactly_on(scene.src.path("holes"));
        let run = strace.run(scene.command(args));
        strace.fired(&run);
        run.assert_code(0);
        for to in &["dst", "second"][..outputs] {
            let copy = scene.tree(to);
            assert!(copy.read("holes") == scene.src.read("holes"), "{args:?}");
            let blocks = |tree: &Tree| tree.path("holes").metadata().unwrap().blocks();
            assert!(blocks(&copy) <= blocks(&scene.src) + SLACK, "{args:?}");
        }
        let told = "src/holes: its file system calls a hole what holds data";
        assert_eq!(run.err().matches(told).count(), outputs, "{args:?}: {}", run.err());
        if !args.contains(&"none") {
            scene.judge(&run).lists_all().verifies();
        }
    }
}

/// Who asks for it gets what the file system says, and is told how much of it.
#[test]
fn holes_that_are_believed_are_counted() {
    for hash in [&[][..], &["--hash", "none"]] {
        let scene = Scene::on_disk();
        scene.src.sparse("holes", 5 * MIB, &[(0, 4096), (4 * MIB, 1 << 20)]);
        let args = [&["--holes", "trust", "--reflink", "never", "--report", "report"], hash];
        let run = scene.copy(&args.concat());
        run.assert_code(0).assert_prints(&["believed    ", " of holes, not read"]);
        let report = scene.tree(".").read("report");
        let report: serde_json::Value = serde_json::from_slice(&report).unwrap();
        let believed = report["outputs"][0]["counts"]["believed_bytes"].as_u64().unwrap();
        assert!((3 * MIB..=4 * MIB).contains(&believed), "{believed}");
        assert!(scene.output().read("holes") == scene.src.read("holes"));
    }
}

/// A run of zeros that is really stored may be stored again; what must not happen is that the
/// bytes come out wrong.
#[test]
fn stored_zeros_are_bytes_like_others() {
    let scene = Scene::on_disk();
    let mut zeros = vec![0; 1 << 20];
    scene.src.file("zeros", &zeros);
    zeros[524_288..524_800].fill(7);
    scene.src.file("mostly zeros", &zeros);
    let run = scene.copy(&[]);
    scene.judge(&run).complete();
}

/// A file of sysfs says that it has 4096 bytes, none of which takes room, and mostly has fewer.
#[test]
fn a_stated_size_that_means_nothing_is_not_that_of_the_copy() {
    need!(Sysfs);
    let from = std::path::Path::new("/sys/kernel/fscaps");
    for hash in [&[][..], &["--hash", "none"]] {
        let scene = Scene::new();
        let args = [&["--block-size", "1K"], hash].concat();
        let run = scene.command_to(from, &scene.dst, args).run();
        run.assert_code(0);
        assert_eq!(scene.output().read("fscaps"), std::fs::read(from).unwrap());
        if hash.is_empty() {
            let list = scene.judge(&run).newest().unwrap();
            scene.judge(&run).list_verifies(&list);
        }
    }
}
