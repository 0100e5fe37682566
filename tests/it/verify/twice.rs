//! `--verify-source`: each file of the source is read a second time when its copy was read back.
//!
//! The source is a file system that flips bits or fails at the reading that the test names.

use std::fs;

use crate::harness::{Act, Deed, Mirror, NONE, Run, Scene, Strace, content, need};

const NAMES: [&str; 3] = ["dir/bad", "good", "small"];

/// Copies a source that does at the n-th reading of `dir/bad`, until it is closed, what `act` says; how often that was
/// not to pass.
fn copy_from(act: impl Fn(u32) -> Act + Send + 'static, args: &[&str]) -> (Scene, Run, u32) {
    let scene = Scene::new();
    for (i, name) in NAMES.into_iter().enumerate() {
        scene.src.file(name, content(3000 + i));
    }
    let shown = scene.path("shown");
    let mut reading = 1;
    let source = Mirror::mount(scene.src.root(), &shown, move |call| {
        let is_bad = call.path.ends_with("bad");
        reading += u32::from(is_bad && call.deed == Deed::Close);
        match is_bad && call.deed == Deed::Read && call.bytes.0 == 0 {
            true => act(reading),
            false => Act::Pass,
        }
    });
    let run = scene.command_to(&shown, &scene.dst, args).run();
    let fired = source.fired();
    drop(source);
    (scene, run, fired)
}

const PROVEN: &[&str] = &["--verify-source"];

const UNLIKE: &str = "read a second time, it is something else than what was copied";

#[test]
fn what_is_read_twice_with_the_same_result_is_proven() {
    need!(Fuse);
    let (scene, run, ..) = copy_from(|_| Act::Pass, PROVEN);
    scene.judge(&run).complete();
    run.assert_prints(&["read twice", "3 files"]);
}

/// A bit that is flipped on its way at one reading, whichever of both.
#[test]
fn a_reading_that_differs_has_the_file_copied_once_more() {
    need!(Fuse);
    for wrong in [1, 2] {
        let flip = move |reading| if reading == wrong { Act::Flip } else { Act::Pass };
        let (scene, run, fired) = copy_from(flip, PROVEN);
        assert!(fired > 0, "{}", run.err());
        scene.judge(&run).complete();
        run.assert_code(0).assert_says(UNLIKE).assert_says("copied once more");
        run.assert_prints(&["read twice", "3 files"]);
    }
}

/// Flipped at every other reading: neither pair is alike.
#[test]
fn readings_that_differ_twice_are_an_error_and_nothing_is_published() {
    need!(Fuse);
    let flip = |reading| if [1, 3].contains(&reading) { Act::Flip } else { Act::Pass };
    let (scene, run, fired) = copy_from(flip, PROVEN);
    assert!(fired > 1, "{}", run.err());
    run.assert_code(4).assert_says(UNLIKE).assert_prints(&["NOT PROVEN (exit 4)"]);
    run.assert_prints(&["unconfirmed", "1 file"]);
    let judge = scene.judge(&run);
    judge.does_not_list("dir/bad").lacks("dir/bad").lists(&["good", "small"]);
}

/// What was read once may be all that is ever to be had: it stays.
#[test]
fn what_cannot_be_read_again_is_kept_and_said_to_be_unproven() {
    need!(Fuse);
    let fail = |reading| if reading > 1 { Act::Fail(libc::EIO) } else { Act::Pass };
    let (scene, run, fired) = copy_from(fail, PROVEN);
    assert!(fired > 0);
    run.assert_code(4).assert_says("no second reading proves it");
    run.assert_prints(&["NOT PROVEN (exit 4)"]).assert_prints(&["unconfirmed", "1 file"]);
    scene.judge(&run).lists(&NAMES);
    assert_eq!(fs::read(scene.dst.join("dir/bad")).unwrap(), content(3000));
    // The same command ends well once all can be read, and reads nothing twice that was there.
    let again = scene.copy(&["--verify-source"]);
    scene.judge(&again).complete();
}

/// The second reading is of the device, also where the first left its pages in memory.
#[test]
fn the_second_reading_is_from_the_device() {
    need!(Strace, Root);
    let scene = Scene::on_disk();
    scene.src.file("file", content(3 << 20)).file("small", content(70_000));
    scene.copy(&NONE).assert_code(0);
    fs::remove_dir_all(&scene.dst).unwrap();
    let strace = Strace::watch(&scene, "openat,read,pread64,copy_file_range");
    let run = strace.run(scene.command(["--verify-source", "--cache", "keep"]));
    scene.judge(&run).complete();
    run.assert_prints(&["read twice", "2 files", "from the device"]);
    run.assert_prints(&["proof", "read twice; hashed twice"]);
    let source = scene.src.path("file").display().to_string();
    let reads = |call: &str| {
        let of_source = strace.calls().into_iter();
        of_source.filter(|it| it.contains(call) && it.contains(&source)).count()
    };
    assert!(reads("pread64") + reads("read(") > 0, "{}", strace.log());
}

#[test]
fn it_needs_digests_and_syncs() {
    let scene = Scene::new();
    scene.src.file("file", "content");
    for args in [&["--hash", "none"][..], &["--no-sync"]] {
        scene.copy(&[&["--verify-source"], args].concat()).assert_code(2);
    }
    assert!(!scene.dst.exists());
}
