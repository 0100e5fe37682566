//! Holes stay holes: a disk image of a terabyte must not need a terabyte.

use std::os::unix::fs::MetadataExt;

use crate::harness::{Scene, Tree, content, need};

const MIB: u64 = 1 << 20;

/// Room for what a file system itself may put into the count, in blocks of 512 bytes.
const SLACK: u64 = 64;

/// Name, length, and where there is data: offset and length.
type Shape = (&'static str, u64, &'static [(u64, usize)]);

#[test]
fn holes_stay_holes() {
    const GIB: u64 = 1024 * MIB;
    let shapes: &[Shape] = &[
        ("all hole", 64 * MIB, &[]),
        ("data first", 64 * MIB, &[(0, 65_536)]),
        ("data last", 64 * MIB, &[(64 * MIB - 65_536, 65_536)]),
        ("islands", GIB, &[(0, 5000), (MIB, 1 << 20), (GIB / 2 - 1, 3), (GIB - 1, 1)]),
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
