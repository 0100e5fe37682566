//! What heal makes for a moment, and what it takes: names of its own, directories that were closed, donors that fail.

use std::os::unix::fs::{MetadataExt, PermissionsExt};

use crate::harness::{Scene, Strace, content, need, shell};

use super::{MIB, copies, heal, healed, is_whole, rot};

const LARGE: usize = 6 * MIB + 77;

/// A scene whose tree `A` has a bad `a.mov`, and what a run that was killed while it mended that has left there.
fn killed() -> (Scene, String) {
    let scene = Scene::new();
    scene.src.file("a.mov", content(LARGE)).file("b", content(MIB));
    copies(&scene, &["A", "B"], &[]);
    rot(&scene, "A/a.mov", &[7]);
    let strace = Strace::inject(&scene, Strace::RENAMES, "signal=KILL").exactly_on("a.mov");
    let run = strace.run(scene.bare(["heal", "-q", "A", "B"]));
    assert_eq!(run.signal, Some(9), "{}", run.err());
    let name = shell(&scene, "cd A && ls -A | grep dircopy-part");
    assert_eq!(name.lines().count(), 1, "{name}");
    (scene, name.trim().to_owned())
}

/// A file of the tree that has the name of a part file is the user's, and stays.
#[test]
fn a_listed_file_with_the_name_of_a_part_file_stays() {
    need!(Strace);
    let (scene, name) = killed();
    scene.src.file(&name, "mine");
    shell(&scene, &format!("rm A/{name}"));
    copies(&scene, &["A", "B"], &[]);
    rot(&scene, "A/a.mov", &[7]);
    let run = heal(&scene, &["A", "B"]);
    run.assert_code(0);
    assert_eq!(healed(&run), ["A/a.mov: 1 MiB from B"]);
    assert_eq!(scene.tree("A").read(&name), b"mine");
    is_whole(&scene.path("A"));
    // One that is not listed was left by a killed run, and goes.
    let (other, name) = killed();
    heal(&other, &["A", "B"]).assert_code(0);
    assert!(!other.path("A").join(&name).exists());
}

/// Also if a copy is the next run, which knows it for one of its output's runs.
#[test]
fn what_a_killed_run_left_is_removed_by_a_copy() {
    need!(Strace);
    let (scene, name) = killed();
    let run = scene.command_to(scene.src.root(), scene.path("A"), ["-q"]).run();
    run.assert_code(0);
    assert!(!run.err().contains("no run that keeps its records here"), "{}", run.err());
    assert!(!scene.path("A").join(&name).exists());
    is_whole(&scene.path("A"));
    // Another output's runs know nothing of it, and it stays.
    let (scene, name) = killed();
    shell(&scene, &format!("mv A/{name} B"));
    let run = scene.command_to(scene.src.root(), scene.path("B"), ["-q"]).run();
    run.assert_code(0).assert_says("no run that keeps its records here made it");
    assert!(scene.path("B").join(&name).exists());
}

/// A directory that its owner may not write to is so again after a kill, with the time that it had.
#[test]
fn a_directory_that_was_opened_is_closed_by_the_next_run() {
    need!(Root, Setpriv, Strace);
    for gone in [false, true] {
        let scene = Scene::new();
        scene.src.file("dir/a.mov", content(LARGE)).file("dir/sub/b", content(MIB)).file("c", "c");
        copies(&scene, &["A", "B"], &[]);
        rot(&scene, "A/dir/a.mov", &[7]);
        if gone {
            shell(&scene, "cp -p B/dir/a.mov A/dir/a.mov; rm -r A/dir/sub");
        }
        shell(
            &scene,
            "chmod a+rwx .; chmod 555 A/dir B/dir; touch -d 2001-02-03 A/dir; chown -R 65534:65534 A B",
        );
        let dir = || std::fs::metadata(scene.path("A/dir")).unwrap();
        let was = (dir().mode(), dir().mtime());
        let run = |when: u32| {
            let fault = format!("signal=KILL:when={when}");
            let strace = Strace::inject(&scene, "fchmod,renameat2,mkdirat,ftruncate", &fault);
            strace.run(scene.bare(["heal", "-q", "A", "B"]).under_nobody())
        };
        let mut opened = 0;
        for when in 1.. {
            let run = run(when);
            if run.code == Some(0) {
                break;
            }
            opened += u32::from(dir().permissions().mode() & 0o300 != 0o300 & was.0);
            assert!(when < 60);
        }
        assert!(opened > 0, "the directory was never open");
        let run = scene.bare(["heal", "A", "B"]).under_nobody().run();
        run.assert_code(0);
        assert_eq!((dir().mode(), dir().mtime()), was, "{}", run.err());
        assert!(!scene.path("A/.dircopy/opened").exists());
        is_whole(&scene.path("A"));
    }
}

/// "No tree has it good" is not all there is to say where one could not be read.
#[test]
fn a_copy_that_cannot_be_read_is_named() {
    need!(Strace);
    for size in [LARGE, 100_000] {
        let scene = Scene::new();
        scene.src.file("a.mov", content(size));
        copies(&scene, &["A", "B"], &[]);
        for (harm, dry) in [("true", false), ("true", true), ("rm A/a.mov", false)] {
            rot(&scene, "A/a.mov", &[7]);
            shell(&scene, harm);
            let strace = Strace::inject(&scene, Strace::READS, "error=EIO");
            let strace = strace.exactly_on(scene.path("B/a.mov"));
            let args = ["heal", "A", "--from-tree", "B"].into_iter().chain(dry.then_some("-n"));
            let run = strace.run(scene.bare(args));
            strace.fired(&run);
            run.assert_code(4).assert_says("cannot read");
            run.assert_says("B/a.mov: Input/output error");
            assert_eq!(run.err().matches("cannot read").count(), 1, "{}", run.err());
            shell(&scene, "cp -p B/a.mov A/a.mov");
        }
    }
}

/// Digests of BLAKE3 look like those of SHA-256, and XXH3 like XXH64: what is taken is what the list means.
#[test]
fn lists_of_any_algorithm_are_healed_to() {
    for hash in ["blake3", "xxh3", "xxh64", "xxh128", "md5", "sha512"] {
        let scene = Scene::new();
        scene.src.file("a.mov", content(LARGE)).file("dir/b", content(100)).file("c", "c");
        copies(&scene, &["A", "B"], &["--hash", hash]);
        rot(&scene, "A/a.mov", &[7, 5 * MIB]);
        shell(&scene, "rm -r A/dir");
        let dry = heal(&scene, &["A", "B", "-n"]);
        dry.assert_code(4).assert_prints(&["healable", "2 bad files"]);
        let run = heal(&scene, &["A", "B"]);
        run.assert_code(0);
        assert_eq!(healed(&run).len(), 2, "{hash}: {}", run.err());
        shell(&scene, "cmp src/a.mov A/a.mov; cmp src/dir/b A/dir/b");
        // A list that another program made, where that is so without a word of its algorithm.
        shell(&scene, "cp $(ls A/dircopy-* | grep -v states) list");
        rot(&scene, "A/a.mov", &[7]);
        let run = scene.bare(["heal", "-m", "list", "A", "B"]).run();
        run.assert_code(0);
        assert_eq!(healed(&run).len(), 1, "{hash}: {}", run.err());
        shell(&scene, "cmp src/a.mov A/a.mov");
    }
}
