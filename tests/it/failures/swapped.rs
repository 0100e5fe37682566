//! What another user, who may write to a directory of the output or of the source, plants, swaps or keeps open: it is
//! given no label, takes no part file's place, and gets nobody's content.

use std::fs::{self, File};
use std::io::{Seek, Write};
use std::path::PathBuf;

use crate::harness::{Cmd, NONE, Run, Scene, Strace, Tree, need, shell};

/// Some other user.
const U: u32 = 65534;

const UPDATE: [&str; 2] = ["--overwrite-policy", "update"];

/// A program of root's, set-user-ID.
fn program() -> Scene {
    let scene = Scene::new();
    scene.src.file("bin/su", "good program").mode("bin/su", 0o4755);
    scene.src.mtime("bin/su", 1_000_000_000, 7);
    scene
}

/// Puts a file at the output, with the size and time of the program.
fn plant(scene: &Scene, content: &str, owner: u32, mode: u32) -> File {
    let dst = scene.output();
    dst.file("bin/su", content).owner("bin/su", owner, owner).mode("bin/su", mode);
    dst.mtime("bin/su", 1_000_000_000, 7);
    File::options().write(true).open(dst.path("bin/su")).unwrap()
}

/// It is the source's, whatever is written to what was planted.
fn is_own(scene: &Scene, run: &Run, mut planted: File) {
    run.assert_code(0);
    planted.rewind().unwrap();
    planted.write_all(b"evil program").unwrap();
    let stat = scene.output().stat("bin/su");
    assert_eq!((stat.st_uid, stat.st_mode & 0o7777), (0, 0o4755), "{}", run.err());
    scene.judge(run).complete();
}

#[test]
fn a_planted_file_is_not_made_a_program_of_roots() {
    need!(Root);
    for more in [&[][..], &["--verify"], &["--hash", "none"]] {
        for content in ["evil program", "good program"] {
            // Also one of root's that another user could write to, and one that a process still can.
            for (owner, mode) in [(U, 0o755), (0, 0o775), (0, 0o755)] {
                let scene = program();
                let planted = plant(&scene, content, owner, mode);
                let run = scene.copy(&[&UPDATE[..], more].concat());
                if more.contains(&"none") {
                    run.assert_code(0);
                    assert_eq!(scene.output().read("bin/su"), b"good program");
                } else {
                    is_own(&scene, &run, planted);
                }
            }
        }
    }
}

/// What is root's alone keeps its file, and is read first.
#[test]
fn a_file_that_is_roots_alone_is_labelled_if_it_is_the_sources() {
    need!(Root);
    for (content, is_kept) in [("good program", true), ("evil program", false)] {
        let scene = program();
        drop(plant(&scene, content, 0, 0o755));
        let before = scene.output().inode("bin/su");
        let run = scene.copy(&UPDATE);
        scene.judge(&run).complete();
        assert_eq!(scene.output().stat("bin/su").st_mode & 0o7777, 0o4755);
        assert_eq!(scene.output().inode("bin/su") == before, is_kept, "{content}");
    }
}

/// In a directory of the source that many may write to, one user puts a file in the place of another's.
#[test]
fn nobody_is_given_the_content_of_another() {
    need!(Root);
    for owner in [0, 1234] {
        for more in [&[][..], &["--verify"]] {
            let scene = Scene::new();
            let put = |content: &str, owner: u32, mode: u32| {
                let path = scene.src.path("key");
                let _ = fs::remove_file(path);
                scene.src.file("key", content).owner("key", owner, owner).mode("key", mode);
                scene.src.mtime("key", 1_000_000_000, 7);
            };
            put("secret", owner, 0o600);
            scene.copy(&UPDATE).assert_code(0);
            put("nought", U, 0o644);
            let run = scene.copy(&[&UPDATE[..], more].concat());
            scene.judge(&run).complete();
            assert_eq!(scene.output().read("key"), b"nought");
        }
    }
}

/// Runs until the first file of a group has its name, and puts a file of another user in the place of the part file of
/// the second, which waits; it has that one's size and time.
fn swapped(scene: &Scene, dir: &str, command: Cmd<'_>) -> Run {
    let stop = Strace::inject(scene, Strace::RENAMES, "signal=SIGSTOP:when=1").on("first");
    let dst = Tree::at(scene.path("dst"));
    stop.run_stopped(command, || {
        let is_part = |path: &PathBuf| {
            path.to_string_lossy().ends_with(".dircopy-part")
                && fs::metadata(path).unwrap().len() == 6
        };
        let parts = fs::read_dir(dst.path(dir)).unwrap().map(|entry| entry.unwrap().path());
        let part = parts.into_iter().find(is_part).expect("no part file waits");
        let evil = scene.path("evil");
        scene.tree(".").file("evil", "wicked").owner("evil", U, U).mtime("evil", 1_000_000_000, 7);
        fs::rename(evil, part).unwrap();
    })
}

/// A part file has its label while it waits for its group, and who owns it may write to it. That is hidden by the rename,
/// so the next run reads it.
#[test]
fn what_its_owner_changes_before_it_has_its_name_is_found_by_the_next_run() {
    need!(Root, Strace);
    let scene = Scene::new();
    scene.src.file("d/there", "there");
    scene.copy(&NONE).assert_code(0);
    for (name, content) in [("d/first", "the first one"), ("d/victim", "victim")] {
        scene.src.file(name, content).owner(name, U, U).mtime(name, 1_000_000_000, 7);
    }
    let stop = Strace::inject(&scene, Strace::RENAMES, "signal=SIGSTOP:when=1").on("first");
    let dst = scene.output();
    let run = stop.run_stopped(scene.command(["--workers", "1"]), || {
        let is_part = |path: &PathBuf| {
            path.to_string_lossy().ends_with(".dircopy-part")
                && fs::metadata(path).unwrap().len() == 6
        };
        let parts = fs::read_dir(dst.path("d")).unwrap().map(|entry| entry.unwrap().path());
        let part = parts.into_iter().find(is_part).expect("no part file waits");
        let name = format!("d/{}", part.file_name().unwrap().to_str().unwrap());
        dst.file(&name, "wicked").mtime(&name, 1_000_000_000, 7);
    });
    run.assert_code(0);
    assert_eq!(dst.read("d/victim"), b"wicked");
    let next = scene.copy(&NONE);
    next.assert_says("d/victim").assert_says("it is copied anew");
    scene.judge(&next).complete();
}

/// The same with the manifest and a list beside it, while they are written: what stands under their names is told.
#[test]
fn a_list_that_takes_the_place_of_one_of_the_run_is_told() {
    need!(Strace);
    for ending in [".sha256sum.part", ".md5sum.part"] {
        let scene = Scene::new();
        scene.src.file("first", "the first one");
        let stop = Strace::inject(&scene, Strace::RENAMES, "signal=SIGSTOP:when=1").on("first");
        let dst = Tree::at(scene.path("dst"));
        let run = stop.run_stopped(scene.command(["--hash", "sha256,md5"]), || {
            let is_list = |path: &PathBuf| path.to_string_lossy().ends_with(ending);
            let entries = fs::read_dir(dst.path(".")).unwrap().map(|entry| entry.unwrap().path());
            let list = entries.into_iter().find(is_list).expect("no list is written");
            scene.tree(".").file("evil", "evil");
            fs::rename(scene.path("evil"), list).unwrap();
        });
        assert_ne!(run.code, Some(0), "{ending}: {}", run.err());
        run.assert_says("took the place of its part file");
    }
}

#[test]
fn a_file_that_takes_the_place_of_a_part_file_is_not_listed() {
    need!(Root, Strace);
    for more in [&[][..], &["--verify"]] {
        let scene = Scene::new();
        scene.src.file("bin/first", "the first one").file("bin/victim", "victim");
        scene.src.mtime("bin/victim", 1_000_000_000, 7);
        let args = [&["--workers", "1"][..], more].concat();
        let run = swapped(&scene, "bin", scene.command(&args));
        run.assert_says("victim").assert_says("took the place");
        if run.code == Some(0) && more == ["--verify"] {
            // It was found before it was read back, and copied once more.
            scene.judge(&run).complete();
        } else {
            run.assert_code(1);
            scene.judge(&run).lists(&["bin/first"]).verifies();
        }
        let next = scene.copy(&UPDATE);
        scene.judge(&next).complete();
    }
}

#[test]
fn a_file_that_takes_the_place_of_a_part_file_gets_no_further_name() {
    need!(Root, Strace);
    let scene = Scene::new();
    scene.src.file("bin/first", "the first one").file("bin/victim", "victim");
    scene.src.mtime("bin/victim", 1_000_000_000, 7).dir("closed").mode("closed", 0o700);
    scene.src.hard_link("closed/conf", "bin/victim");
    let run = swapped(&scene, "bin", scene.command(["--workers", "1", "--hard-links"]));
    run.assert_code(1).assert_says("victim");
    assert!(!scene.output().has("closed/conf") || scene.output().read("closed/conf") == b"victim");
    scene.judge(&run).verifies().does_not_list("bin/victim");
}

/// A file that its owner closed, also to this run: its copy does not stay open, and the run is not done.
#[test]
fn a_file_that_was_closed_is_closed_at_the_output() {
    need!(Root, Setpriv); // root may read it
    for mode in [0o000, 0o200] {
        for (policy, copy) in [("default", 0o644), ("never", 0o644), ("update", 0o600)] {
            let scene = Scene::new();
            scene.src.file("a", "secret").mode("a", 0o644);
            shell(&scene, "chown -R 65534:65534 .; chmod 755 .");
            scene.command(NONE).under_nobody().run().assert_code(0);
            scene.src.mode("a", mode);
            let args = ["--overwrite-policy", policy];
            let run = scene.command(args).under_nobody().run();
            run.assert_code(1).assert_says("Permission denied");
            let found = scene.output().stat("a").st_mode & 0o777;
            assert_eq!(found, copy, "{mode:o} {policy}: {}", run.err());
            // It is opened again.
            scene.src.mode("a", 0o644);
            let run = scene.command(args).under_nobody().run();
            scene.judge(&run).complete();
        }
    }
}

/// Who may write to the output's root puts a directory in the place of the one in which its file system is tried: what is
/// in that was taken for the trial's, and removed.
#[test]
fn what_took_the_place_of_a_trial_is_not_touched() {
    need!(Root, Strace);
    let mut swapped = 0;
    for theirs in ["mv keep $t", "mkdir -m 777 $t; chown 1002:1002 $t", "mkdir -m 755 $t"] {
        for when in 1..=2 {
            let scene = Scene::new();
            scene.src.file("file", "file");
            shell(&scene, "mkdir -m 777 dst; mkdir dst/keep; touch dst/keep/a dst/keep/b");
            let fault = format!("signal=SIGSTOP:when={when}");
            let stop = Strace::inject(&scene, "mkdir,mkdirat", &fault);
            let swap = format!(
                "cd dst; for t in .*.dircopy-part; do
                   if [ -d $t ]; then mv $t aside; {theirs}; touch -d @981158400 $t; fi; done"
            );
            let run = stop.run_stopped(scene.command(NONE), || drop(shell(&scene, &swap)));
            run.assert_code(0);
            assert_eq!(fs::read(scene.dst.join("file")).unwrap(), b"file");
            if scene.dst.join("aside").exists() {
                swapped += 1;
                // Nothing was made in it either.
                let look = "cd dst; stat -c %Y .*.dircopy-part; find . -name '[ab]' | wc -l";
                let found = shell(&scene, look);
                assert_eq!(found, "981158400\n2\n", "{theirs}: {}", run.err());
            }
        }
    }
    assert!(swapped >= 3, "{swapped}");
}
