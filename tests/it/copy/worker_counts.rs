//! The number of workers, and which of them take small files.

use std::collections::BTreeSet;
use std::thread::available_parallelism;

use crate::harness::{Judge, Mount, Run, Scene, Strace, Tree, content, need, shell};

/// As many as there are cores, up to eight.
fn cores() -> usize {
    available_parallelism().unwrap().get().min(8)
}

/// A fresh file system of this kind, with small files and large ones on it.
fn scene_on(kind: &str) -> (Scene, Mount, Tree) {
    let scene = Scene::on_disk();
    let mount = Mount::of_kind(kind, &scene.path("image"), &scene.path("mount"));
    let src = Tree::at(scene.path("mount/src"));
    for dir in 0..30 {
        for file in 0..10 {
            src.file(format!("{dir}/{file}"), content(file * 500));
        }
        src.file(format!("{dir}/large"), content(300_000));
    }
    (scene, mount, src)
}

/// How many lanes each output of a run had, by the report.
fn lanes(scene: &Scene, options: &[&str], preparation: &str) -> Vec<usize> {
    shell(scene, "rm -rf mount/dst mount/more report.json");
    let all =
        [&["-i", "mount/src", "-o", "mount/dst", "--report", "report.json"], options].concat();
    let run = scene.bare(all).after(preparation).run();
    judge(scene, &run);
    let report = std::fs::read(scene.path("report.json")).unwrap();
    let report: serde_json::Value = serde_json::from_slice(&report).unwrap();
    let told = |value: &serde_json::Value| value["workers"].as_u64().map(|lanes| lanes as usize);
    let of_each = report["outputs"].as_array().unwrap().iter().filter_map(told);
    told(&report).into_iter().chain(of_each).collect()
}

/// The copy is whole.
fn judge(scene: &Scene, run: &Run) {
    run.assert_code(0);
    let src = Tree::of(scene.path("mount/src"));
    Judge::new(&src, Tree::of(scene.path("mount/dst")), run).complete();
}

#[test]
fn there_are_as_many_as_suit_the_file_system() {
    need!(Kinds);
    for (kind, by_default) in [("ext4", 8), ("btrfs", cores() + 2)] {
        let (scene, _mount, _src) = scene_on(kind);
        assert_eq!(lanes(&scene, &[], ":"), [by_default], "{kind}");
        assert_eq!(lanes(&scene, &["--workers", "3"], ":"), [3], "{kind}");
        // Those for small files alone take descriptors.
        assert_eq!(lanes(&scene, &[], "ulimit -n 500"), [cores()], "{kind}");
        assert_eq!(lanes(&scene, &["-o", "mount/more"], ":"), [cores(); 2], "{kind}");
    }
}

/// On btrfs they wait for each other.
#[test]
fn two_make_small_files_where_more_are_of_no_use() {
    need!(Kinds, Strace);
    for (jobs, most) in [(&[][..], 2), (&["--workers", "4"], 4)] {
        let (scene, _mount, _src) = scene_on("btrfs");
        let strace = Strace::watch(&scene, "linkat");
        let all = [&["-i", "mount/src", "-o", "mount/dst", "--no-sync"], jobs].concat();
        let run = strace.run(scene.bare(all));
        judge(&scene, &run);
        // Each line begins with the thread, the one where a call ends too.
        let log = strace.log();
        let begun = log.lines().filter(|line| line.contains(" linkat("));
        // A trial of what files can be born with is none of the files.
        let other = |line: &&str| line.contains("\"large\"") || line.contains("dircopy-part");
        let small = begun.filter(|line| !other(line));
        let threads: BTreeSet<_> = small.filter_map(|line| line.split(' ').next()).collect();
        assert!((1..=most).contains(&threads.len()), "{threads:?}\n{log}");
    }
}
