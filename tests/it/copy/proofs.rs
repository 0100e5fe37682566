//! Runs that prove with another algorithm than SHA-256: the manifest is the list of that one, and all that goes by
//! manifests and digests works as with SHA-256. Judged by the programs of each algorithm.

use std::path::PathBuf;

use crate::copy::digests::fill_with;
use crate::harness::{Need, Run, Scene, Strace, content, have, need, shell};

/// Algorithms, the endings of their lists, and the programs that check them.
const ALL: [(&str, &str, &str); 8] = [
    ("sha512", "sha512sum", "sha512sum -c --strict --quiet"),
    ("c4", "c4", "true"),
    ("blake3", "b3sum", "b3sum -c --quiet"),
    ("sha1", "sha1sum", "sha1sum -c --strict --quiet"),
    ("md5", "md5sum", "md5sum -c --strict --quiet"),
    ("xxh128", "xxh128sum", "xxhsum -c --strict --quiet"),
    ("xxh3", "xxh3sum", "xxhsum -c --strict --quiet"),
    ("xxh64", "xxh64sum", "xxhsum -c --strict --quiet"),
];

fn copy(scene: &Scene, algorithm: &str, more: &[&str]) -> Run {
    scene.copy(&[&["--hash", algorithm], more].concat())
}

/// The names of what is directly in `dir` and called as runs call theirs, sorted.
fn kept(scene: &Scene, dir: &str) -> Vec<String> {
    let names = std::fs::read_dir(scene.path(dir)).unwrap();
    let names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut kept: Vec<String> = names.filter(|name| name.starts_with("dircopy-")).collect();
    kept.sort();
    kept
}

fn manifest(scene: &Scene) -> PathBuf {
    scene.dst.join(kept(scene, "dst").pop().unwrap())
}

#[track_caller]
fn verifies(scene: &Scene) {
    scene.bare(["verify", "dst", "--complete", "-q"]).run().assert_code(0);
}

/// Flips a byte and sets the time back.
fn rot(scene: &Scene, name: &str) {
    let script = "t=$(mktemp -p .); touch -r \"$1\" $t; printf X | \
                  dd of=\"$1\" bs=1 seek=5000 conv=notrunc status=none; touch -r $t \"$1\"; rm $t";
    shell(scene, &format!("set -- {name}; {script}"));
}

fn fill(scene: &Scene) -> usize {
    let names: [&[u8]; 9] =
        [b"plain", b" lead", b"*star", b"-", b"#hash", b"trail ", b"a)b = c", b"c\\d", b"\\lead"];
    fill_with(scene, &names)
}

#[test]
fn the_manifest_is_the_list_of_the_one_algorithm() {
    let has_all = have(&["b3sum", "xxhsum"].map(Need::Program));
    for (algorithm, ending, check) in ALL {
        let scene = Scene::new();
        let files = fill(&scene);
        copy(&scene, algorithm, &["--verify"]).assert_code(0);
        let names = kept(&scene, "dst");
        assert_eq!(names.len(), 1, "{names:?}");
        assert!(names[0].ends_with(&format!("Z.{ending}")), "{names:?}");
        let lines = std::fs::read(manifest(&scene)).unwrap();
        assert_eq!(lines.split(|byte| *byte == b'\n').count(), files + 1);
        if has_all {
            shell(&scene, &format!("cd dst && {check} {}", names[0]));
        }
        verifies(&scene);
        scene.bare(["verify", "-m", &format!("dst/{}", names[0]), "-q"]).run().assert_code(0);
        rot(&scene, "dst/dir/large");
        let run = scene.bare(["verify", "dst"]).run();
        run.assert_code(4).assert_says("differs: dst/dir/large");
    }
}

#[test]
fn a_manifest_of_any_algorithm_holds_every_name() {
    for (algorithm, ..) in ALL {
        let scene = Scene::new();
        for name in [&b"a\nb"[..], b"e\rf", b"cr\r", b"\xff\xfe", b"c\\d\n", b"\xef\xbf\xbd"] {
            scene.src.file(name, name);
        }
        for _ in 0..2 {
            copy(&scene, algorithm, &["-q"]).assert_code(0);
            verifies(&scene);
            let run = scene.bare(["verify", "dst"]).run();
            run.assert_code(0).assert_prints(&["6"]);
        }
    }
}

#[test]
fn a_second_run_reads_nothing_and_lists_all() {
    need!(Strace);
    for (algorithm, ..) in ALL {
        let scene = Scene::new();
        scene.src.file("large", content(300_000)).file("dir/small", "s").file("left", "gone");
        copy(&scene, algorithm, &[]).assert_code(0);
        scene.src.remove("left");
        let strace = Strace::watch(&scene, "openat,openat2");
        strace.run(scene.command(["--hash", algorithm])).assert_code(0);
        for name in ["large", "small", "left"] {
            assert!(!strace.log().contains(&format!("\"{name}\"")), "{algorithm} {name}");
        }
        assert_eq!(std::fs::read_to_string(manifest(&scene)).unwrap().lines().count(), 3);
        verifies(&scene);
    }
}

#[test]
fn damage_is_found_by_the_record_and_by_the_manifest_in_the_open() {
    for (algorithm, ..) in ALL {
        for forget in ["true", "rm -r dst/.dircopy"] {
            let scene = Scene::new();
            scene.src.file("f", content(300_000)).mtime("f", 1_577_836_800, 0).file("g", "g");
            copy(&scene, algorithm, &[]).assert_code(0);
            rot(&scene, "dst/f");
            shell(&scene, forget);
            let run = copy(&scene, algorithm, &[]);
            run.assert_code(0).assert_says("it is copied anew");
            verifies(&scene);
            shell(&scene, "cmp src/f dst/f");
        }
    }
}

/// What one algorithm has recorded is held against what is read by another: nothing is forgotten in between.
#[test]
fn a_change_of_algorithm_forgets_no_digest() {
    for (first, second) in
        [("sha256", "xxh128"), ("xxh128", "sha256"), ("blake3", "sha512"), ("md5", "blake3")]
    {
        for forget in ["true", "rm -r dst/.dircopy"] {
            let scene = Scene::new();
            scene.src.file("f", content(300_000)).mtime("f", 1_577_836_800, 0);
            scene.src.file("g", content(300_000)).mtime("g", 1_577_836_800, 0);
            scene.src.file("left", content(10_000)).mtime("left", 1_577_836_800, 0);
            copy(&scene, first, &[]).assert_code(0);
            rot(&scene, "dst/f");
            rot(&scene, "src/g");
            rot(&scene, "dst/g");
            scene.src.remove("left");
            shell(&scene, forget);
            let run = copy(&scene, second, &[]);
            run.assert_code(0).assert_says("f: its content differs");
            run.assert_says("it is copied anew").assert_says("so its new digest is listed");
            let lines = std::fs::read_to_string(manifest(&scene)).unwrap();
            assert_eq!(lines.lines().count(), 3, "{first} {second} {lines}");
            verifies(&scene);
            shell(&scene, "cmp src/f dst/f; cmp src/g dst/g");
            // What has left and rots is found by the digest of the first run.
            copy(&scene, first, &[]).assert_code(0);
            rot(&scene, "dst/left");
            let run = copy(&scene, second, &[]);
            run.assert_says("its content is not what an earlier run recorded");
        }
    }
}

#[test]
fn the_source_is_held_against_a_manifest_of_any_algorithm() {
    for (algorithm, ..) in ALL {
        for by in [algorithm, "sha256"] {
            let scene = Scene::new();
            let old = 1_577_836_800;
            scene
                .src
                .file("f", content(300_000))
                .mtime("f", old, 0)
                .file("g", "g")
                .mtime("g", old, 0);
            copy(&scene, algorithm, &[]).assert_code(0);
            let manifest = manifest(&scene);
            let expect = ["--expect", manifest.to_str().unwrap()];
            let run = copy(&scene, by, &expect);
            run.assert_code(0);
            let text = run.out() + &run.err();
            assert!(!text.contains("rotted"), "{algorithm} by {by}: {text}");
            let new = scene.path("new");
            let to_new = ["-i", "src", "-o", "new", "--hash", by, expect[0], expect[1]];
            scene.bare(to_new).run().assert_code(0);
            rot(&scene, "src/f");
            let run = copy(&scene, by, &expect);
            run.assert_code(4).assert_says("it has rotted");
            std::fs::remove_dir_all(new).unwrap();
            scene.bare(to_new).run().assert_code(4).assert_says("f: it is not what");
            assert!(scene.path("new/g").exists() && !scene.path("new/f").exists());
        }
    }
}

#[test]
fn several_outputs_mirrors_and_rotation_go_by_it() {
    for (algorithm, ending, _) in ALL {
        let scene = Scene::new();
        scene.src.file("a", content(200_000)).file("b", "b").file("c", "c");
        let args = ["-o", "two", "--verify"];
        let one = |more: &[&str]| copy(&scene, algorithm, &[&args, more].concat());
        one(&[]).assert_code(0);
        scene.src.remove("b");
        one(&["--mirror", "--keep-manifests=1"]).assert_code(0);
        for dir in ["dst", "two"] {
            let names = kept(&scene, dir);
            assert!(names.len() == 1 && names[0].ends_with(ending), "{names:?}");
            scene.bare(["verify", dir, "--complete", "-q"]).run().assert_code(0);
            assert!(!scene.path(dir).join("b").exists());
        }
        // Manifests of other algorithms are as old as they are.
        scene.copy(&["--hash=sha256,md5", "-o", "two", "--keep-manifests=1"]).assert_code(0);
        for dir in ["dst", "two"] {
            let names = kept(&scene, dir);
            assert!(names.iter().all(|name| !name.ends_with(".part")), "{names:?}");
            assert_eq!(names.iter().filter(|name| name.ends_with(".sha256sum")).count(), 1);
            assert_eq!(names.len(), 2, "{names:?}");
            scene.bare(["verify", dir, "--complete", "-q"]).run().assert_code(0);
        }
    }
}

/// A list beside a manifest is never taken for one, whatever became of the manifest.
#[test]
fn the_strongest_of_a_run_is_the_manifest() {
    let scene = Scene::new();
    scene.src.file("a", content(20_000));
    copy(&scene, "xxh128,md5,xxh64", &[]).assert_code(0);
    assert_eq!(kept(&scene, "dst").len(), 3);
    scene.bare(["verify", "dst", "--complete"]).run().assert_code(0);
    shell(&scene, "cd dst && md5sum -c --strict --quiet *.md5sum");
    for name in kept(&scene, "dst") {
        scene.bare(["verify", "-m", &format!("dst/{name}"), "-q"]).run().assert_code(0);
    }
    // One that is put beside it later counts for nothing.
    let planted = kept(&scene, "dst")[0].replace(".md5sum", ".sha256sum");
    shell(&scene, &format!("cd dst && sha256sum /dev/null >{planted}"));
    scene.bare(["verify", "dst", "-q"]).run().assert_code(0);
    copy(&scene, "xxh128", &[]).assert_code(0);
}

#[test]
fn a_stream_has_one_digest_of_any_kind() {
    for (algorithm, ending, check) in ALL {
        let scene = Scene::new();
        scene.src.file("a", content(200_000));
        let ends = ["-i", "src/a", "-i", "src/a", "-o", "b", "--hash", algorithm];
        scene.bare(ends).run().assert_code(0);
        scene.bare(["verify", "-m", &format!("b.{ending}"), "-q"]).run().assert_code(0);
        if have(&["b3sum", "xxhsum"].map(Need::Program)) {
            shell(&scene, &format!("{check} b.{ending}"));
        }
    }
}
