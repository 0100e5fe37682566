//! Lists in the order of paths: those of two copies of one tree are the same files, and hold what they held before.

use std::collections::BTreeMap;

use crate::harness::{Need, Scene, Strace, content, have, shell};

const LISTS: [&str; 7] = [
    "--sorted",
    "--hash=sha256,sha512,sha1,md5,blake3,xxh128,xxh64,xxh3,c4",
    "--format=gnu",
    "--format=bsd",
    "--format=hashdeep",
    "--simd=on",
    "--no-space-check",
];

fn scene() -> Scene {
    let scene = Scene::new();
    for i in 0..200 {
        scene.src.file(format!("dir {}/file-{i}", i % 7), content(i * 37));
    }
    scene
        .src
        .file("large", content(3 << 20))
        .file("a.b", "1")
        .file("a/b", "2")
        .file("a-b", "3")
        .file("\x01\x02", "4")
        .file("\x02", "5")
        .file("ä", "6")
        .file("back\\slash", "7");
    scene
}

/// The lists at an output by their endings.
fn lists(scene: &Scene, name: &str) -> BTreeMap<String, Vec<u8>> {
    let files = std::fs::read_dir(scene.path(name)).unwrap().map(|entry| entry.unwrap().path());
    let ours = files.filter(|path| {
        let name = path.file_name().unwrap().to_str().unwrap_or_default();
        name.starts_with("dircopy-") && !name.ends_with(".states")
    });
    let text = |path: std::path::PathBuf| {
        (path.extension().unwrap().to_str().unwrap().to_owned(), std::fs::read(path).unwrap())
    };
    ours.map(text).collect()
}

#[test]
fn lists_of_two_copies_are_the_same_files() {
    let scene = scene();
    let one = ["-i", "src", "-o", "dst", "-o", "two", "--workers", "4"];
    scene.bare(one.iter().chain(&LISTS)).run().assert_code(0);
    let other = ["-i", "src", "-o", "three", "--workers", "1", "--block-size", "4K", "--no-sync"];
    scene.bare(other.iter().chain(&LISTS)).run().assert_code(0);
    let found = lists(&scene, "dst");
    assert_eq!(found.len(), 11, "{:?}", found.keys());
    assert_eq!(found, lists(&scene, "two"));
    assert_eq!(found, lists(&scene, "three"));
    let run = scene.bare(["verify", "three"]).run();
    run.assert_code(0);
    let check = "cd three && sha256sum -c --strict --quiet *.sha256sum && md5sum -c --strict --quiet *.md5sum && \
                 sha512sum -c --strict --quiet *.sha512sum && md5sum -c --quiet *.bsd";
    shell(&scene, check);
    // In the order of the bytes of their paths, as `sort` has it.
    let names = "cd three && grep -v '^[\\]' *.sha256sum | cut -c67- >../names && LC_ALL=C sort ../names | cmp - ../names \
                 && grep -v '^%' *.hashdeep | sed 's,.*\\./,,' >../names && head -2 *.hashdeep";
    let head = shell(&scene, names);
    assert!(head.starts_with("%%%% HASHDEEP-1.0\n%%%% size,md5,sha1,sha256,filename\n"), "{head}");
    assert_eq!(shell(&scene, "wc -l <names").trim(), "208");
}

#[test]
fn a_second_run_that_copies_nothing_sorts_too_and_every_program_reads_the_lists() {
    let scene = scene();
    scene.copy(&LISTS).assert_code(0);
    let first = lists(&scene, "dst");
    scene.src.remove("a.b");
    let run = scene.copy(&[&LISTS[..], &["--keep-manifests=1", "--verify"]].concat());
    run.assert_code(0);
    // What has left the source is listed where it was.
    assert_eq!(lists(&scene, "dst"), first);
    if have(&[Need::Program("b3sum"), Need::Program("xxhsum"), Need::Program("hashdeep")]) {
        let check = "cd dst && b3sum -c --quiet *.b3sum && xxhsum -c --quiet *.xxh128sum && xxhsum -c --quiet *.xxh64sum \
                     && mkdir ../listed && cp -r . ../listed && rm -rf ../listed/dircopy-* ../listed/.dircopy && \
                     l=$(ls $PWD/*.hashdeep) && cd ../listed && hashdeep -arl -k $l .";
        shell(&scene, check);
    }
}

/// Where the sorted list cannot be written, the run says so, and what was recorded stays.
#[test]
fn what_cannot_be_sorted_is_told_and_nothing_is_lost() {
    if !have(&[Need::Strace]) {
        return;
    }
    for (calls, fault) in [
        ("renameat", "error=EIO:when=1"),
        ("renameat", "error=EIO:when=2"),
        ("renameat", "signal=KILL:when=1"),
        ("renameat", "signal=KILL:when=2"),
    ] {
        let scene = Scene::new();
        scene.src.file("a", "one").file("b", content(5000));
        let args = ["--sorted", "--hash=sha256,md5"];
        let strace = Strace::inject(&scene, calls, fault).on_manifest(&scene);
        let run = strace.run(scene.command(args));
        if strace.injected().is_empty() && run.signal.is_none() {
            run.assert_code(0);
            continue;
        }
        if run.signal.is_none() {
            run.assert_code(3).assert_says("cannot write anew the list");
        }
        let kept = shell(&scene, "cd dst && cat dircopy-*.sha256sum.part | sha256sum -c --strict");
        assert_eq!(kept.lines().count(), 2, "{kept}");
        scene.copy(&args).assert_code(0);
        shell(
            &scene,
            "cd dst && sha256sum -c --strict *.sha256sum && ! ls *.part && test -z \"$(find . -name '*tmp*')\"",
        );
    }
}
