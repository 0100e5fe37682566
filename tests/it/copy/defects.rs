//! The defects of the program this one replaces, one test each, so that none comes back.
//!
//! A test that the old faults would pass proves nothing: `tests/broken/check.sh` runs these against
//! a copier that has each of the faults in turn, and sees each test fail. The rest of the suite
//! goes deeper:
//!
//! | defect | elsewhere |
//! |---|---|
//! | 1 errors of the last write | `faults::a_disk_that_is_full_at_the_last_block`, `sweep::write_*`, `limits` |
//! | 2 a dead reader is the end of the file | `faults::a_read_error_*`, `sweep::read` |
//! | 3 `banana` is a size | `refusals::bad_usage` |
//! | 4 source and destination swapped | `policies::every_cell_of_the_table` |
//! | 5 kept files are forgotten | `policies::a_second_run_copies_nothing`, `faults::a_manifest_*` |
//! | 6 lossy names | `names` |
//! | 7 links, loops and itself | `basics`, `elsewhere`, `refusals` |
//! | 8 usage errors exit 0 | `refusals`, `screen`, `elsewhere::an_output_unmounted_meanwhile_*` |
//! | 9 threads for every file | `limits::threads_are_started_once_not_per_file` |

use crate::harness::{NONE, Scene, Strace, content, ctimes, names_below, need};

/// 5,000,000 bytes became 4,587,520, listed as good, exit 0.
#[test]
fn defect_1_an_error_of_the_last_write_is_an_error() {
    for (len, kib) in [(5_000_000, 4480), (100_000, 64)] {
        let scene = Scene::new();
        scene.src.file("bad", content(len)).file("good", content(1000));
        let limit = format!("trap '' XFSZ; ulimit -f {kib}");
        let run = scene.command(["--block-size", "128K"]).after(&limit).run();
        run.assert_code(1).assert_says("bad");
        scene.judge(&run).lists(&["good"]).verifies().no_leftovers().lacks("bad");
    }
}

#[test]
fn defect_2_a_read_error_is_not_the_end_of_the_file() {
    need!(Strace);
    let scene = Scene::new();
    scene.src.file("bad", content(300_000)).file("good", content(300_000));
    let strace =
        Strace::inject(&scene, Strace::READS, "error=EIO:when=2").exactly_on(scene.src.path("bad"));
    let run = strace.run(scene.command(["--block-size", "64K"]));
    strace.fired(&run);
    run.assert_code(1).assert_says("bad");
    scene.judge(&run).lists(&["good"]).has("good").verifies().no_leftovers().lacks("bad");
}

#[test]
fn defect_3_banana_is_no_size() {
    let scene = Scene::new();
    scene.src.file("file", content(5000));
    scene.copy(&["--block-size", "banana"]).assert_code(2);
    assert!(!scene.dst.exists());
}

#[test]
fn defect_4_the_policy_knows_source_from_destination() {
    let scene = Scene::new();
    scene.src.file("cut", content(5000)).mtime("cut", 1_000_000_000, 0);
    scene.src.file("newer", content(5000)).mtime("newer", 1_000_000_000, 0);
    let output = scene.output();
    output.file("cut", content(3000)).mtime("cut", 900_000_000, 0);
    output.file("newer", content(6000)).mtime("newer", 1_100_000_000, 0);
    let run = scene.copy(&[]);
    run.assert_code(1).assert_says("newer");
    scene.judge(&run).lists(&["cut"]).has("cut").verifies().no_leftovers();
    assert_eq!(output.read("newer"), content(6000));
}

#[test]
fn defect_5_what_was_there_already_is_listed() {
    let scene = Scene::new();
    scene.src.file("old", content(5000));
    scene.copy(&[]).assert_code(0);
    scene.src.file("new", content(5000));
    let run = scene.copy(&[]);
    scene.judge(&run).complete().lists(&["old", "new"]);
}

#[test]
fn defect_6_names_are_bytes() {
    let scene = Scene::new();
    let names = [&b"new\nline"[..], b"cr\r", b"back\\slash", b"\xff\xfe", b"plain"];
    for name in names {
        scene.src.file(name, content(5000));
    }
    let run = scene.copy(&[]);
    scene.judge(&run).complete().lists(&names);
}

#[test]
fn defect_7_links_and_loops_lead_nowhere() {
    let scene = Scene::new();
    scene.src.file("dir/file", content(5000)).symlink("dir/loop", "..").file("planted", "bytes");
    scene.tree("outside").file("file", "keep");
    scene.output().symlink("planted", "../outside/file");
    let run = scene.copy(&["--overwrite-policy", "always"]);
    run.assert_code(0);
    assert_eq!(scene.tree("outside").read("file"), b"keep", "written through a planted link");
    scene.judge(&run).same_tree().lists(&["dir/file", "planted"]).verifies().no_leftovers();

    for to in ["src/inside", "src", "dst/../src"] {
        let before = ctimes(scene.src.root());
        let run = scene.bare(["-i", "src", "-o", to, "--overwrite-policy", "always"]).run();
        run.assert_code(2);
        scene.judge(&run).equal("the source", &ctimes(scene.src.root()), &before);
    }
}

#[test]
fn defect_8_usage_errors_and_lost_words_are_not_success() {
    let scene = Scene::new();
    scene.src.file("file", content(5000));
    scene.bare(NONE).run().assert_code(2);
    scene.bare(["-i", "nowhere", "-o", "dst"]).run().assert_code(2);
    scene.bare(["-i", "src", "-o", "dst", "--no-such-option"]).run().assert_code(2);
    assert!(!scene.dst.exists());

    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let run = scene.command(NONE).stdout(writer).run();
    run.assert_no_crash();
    assert_ne!(run.code, Some(0));
    scene.judge(&run).same_tree().lists_all();
}

#[test]
fn defect_9_threads_are_not_made_for_every_file() {
    need!(Strace);
    let scene = Scene::new();
    for i in 0..200 {
        scene.src.file(format!("{i}"), content(i * 50));
    }
    let strace = Strace::watch(&scene, "clone,clone3,fork,vfork");
    let run = strace.run(scene.command(["--block-size", "4096"]));
    scene.judge(&run).complete();
    let threads = strace.log().lines().filter(|line| line.contains("clone")).count();
    assert!(threads <= 40, "{threads} threads for {} files", names_below(&scene.dst, "f").len());
}
