//! `--verify-source`: each file of the source is read a second time when its copy was read back.
//!
//! The source is a file system that flips bits or fails at the reading that the test names.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use crate::harness::{Act, Deed, Mirror, NONE, Run, Scene, Strace, content, need};

const NAMES: [&str; 3] = ["dir/bad", "good", "small"];

/// Copies a source that does at the n-th call that reads `dir/bad` what `act` says; how often that was not to pass, and
/// how many calls there were.
fn copy_from(
    mut act: impl FnMut(u32) -> Act + Send + 'static,
    args: &[&str],
) -> (Scene, Run, u32, u32) {
    let scene = Scene::new();
    for (i, name) in NAMES.into_iter().enumerate() {
        scene.src.file(name, content(3000 + i));
    }
    let shown = scene.path("shown");
    let calls = Arc::new(AtomicU32::new(0));
    let counted = Arc::clone(&calls);
    let source = Mirror::mount(scene.src.root(), &shown, move |call| {
        match call.deed == Deed::Read && call.path.ends_with("bad") {
            true => act(counted.fetch_add(1, Relaxed) + 1),
            false => Act::Pass,
        }
    });
    let run = scene.command_to(&shown, &scene.dst, args).run();
    let fired = source.fired();
    drop(source);
    (scene, run, fired, calls.load(Relaxed))
}

/// The first call of each reading of a file that is read four times, twice to be copied.
fn readings() -> [u32; 4] {
    let calls = |args| copy_from(|_| Act::Pass, args).3;
    let (once, twice) = (calls(&[]), calls(PROVEN));
    assert!(once > 0 && twice > once, "{once} {twice}");
    [1, once + 1, twice + 1, twice + once + 1]
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
    let [first, second, ..] = readings();
    for wrong in [first, second] {
        let flip = move |call| if call == wrong { Act::Flip } else { Act::Pass };
        let (scene, run, fired, _) = copy_from(flip, PROVEN);
        assert_eq!(fired, 1, "{}", run.err());
        scene.judge(&run).complete();
        run.assert_code(0).assert_says(UNLIKE).assert_says("copied once more");
        run.assert_prints(&["read twice", "3 files"]);
    }
}

/// Flipped at every other reading: neither pair is alike.
#[test]
fn readings_that_differ_twice_are_an_error_and_nothing_is_published() {
    need!(Fuse);
    let [first, _, third, _] = readings();
    let flip = move |call| if call == first || call == third { Act::Flip } else { Act::Pass };
    let (scene, run, fired, _) = copy_from(flip, PROVEN);
    assert_eq!(fired, 2, "{}", run.err());
    run.assert_code(4).assert_says(UNLIKE).assert_prints(&["NOT PROVEN (exit 4)"]);
    run.assert_prints(&["unconfirmed", "1 file"]);
    let judge = scene.judge(&run);
    judge.does_not_list("dir/bad").lacks("dir/bad").lists(&["good", "small"]);
}

/// What was read once may be all that is ever to be had: it stays.
#[test]
fn what_cannot_be_read_again_is_kept_and_said_to_be_unproven() {
    need!(Fuse);
    let [_, second, ..] = readings();
    let fail = move |call| if call >= second { Act::Fail(libc::EIO) } else { Act::Pass };
    let (scene, run, fired, _) = copy_from(fail, PROVEN);
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
