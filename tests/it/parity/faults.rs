//! Faults and kills while parity is made and while files are made whole by it: a set is there whole or not at all, what
//! it took the place of stays until then, and nothing is left over by the run after.

use super::*;
use crate::harness::{Strace, need, shell};

/// What lies beside the parity under a temporary name.
fn leftovers(scene: &Scene) -> usize {
    sets(scene).iter().filter(|name| !name.ends_with(".par2")).count()
}

#[test]
fn a_killed_run_leaves_whole_sets_and_the_next_one_goes_on() {
    need!(Strace);
    for when in 1..4 {
        let scene = copied();
        let calls = format!("signal=KILL:when={when}");
        let strace = Strace::inject(&scene, Strace::RENAMES, &calls);
        let run = strace.run(scene.bare(["protect", "-q", "dst"]));
        assert_eq!(run.signal, Some(9), "{}", run.err());
        assert_eq!(leftovers(&scene), 1, "{:?}", sets(&scene));
        protect(&scene, &[]).assert_code(0).assert_prints(&["of 10 files"]);
        assert_eq!(leftovers(&scene), 0, "{:?}", sets(&scene));
        assert_par2(&scene, "verify", "dst");
    }
}

#[test]
fn a_killed_healing_leaves_each_file_as_it_was_or_right() {
    need!(Strace);
    let scene = copied();
    protect(&scene, &["--parity", "20%"]).assert_code(0);
    let before = sets(&scene);
    let right = std::fs::read(scene.path("dst/d1/f7")).unwrap();
    flip(&scene.path("dst/d1/f7"), 5);
    let strace = Strace::inject(&scene, Strace::RENAMES, "signal=KILL").exactly_on("f7");
    let run = strace.run(scene.bare(["heal", "-q", "dst"]));
    assert_eq!(run.signal, Some(9), "{}", run.err());
    assert!(std::fs::read(scene.path("dst/d1/f7")).unwrap() != right);
    scene.bare(["heal", "-q", "dst"]).run().assert_code(0);
    assert!(std::fs::read(scene.path("dst/d1/f7")).unwrap() == right);
    assert_eq!(sets(&scene), before);
    shell(&scene, "test $(ls -A dst/d1 | wc -l) = 3");
}

#[test]
fn parity_that_cannot_be_written_is_an_error_and_what_was_there_stays() {
    need!(Strace);
    let scene = copied();
    protect(&scene, &[]).assert_code(0);
    let before = sets(&scene);
    scene.src.file("d1/f7", "another content");
    scene.copy(&["-q", "--overwrite-policy", "always"]).assert_code(0);
    let strace = Strace::inject(&scene, Strace::SYNCS, "error=EIO");
    let run = strace.run(scene.bare(["protect", "dst"]));
    strace.fired(&run);
    run.assert_code(1).assert_says("dst/.dircopy/parity/").assert_prints(&["NOT PROVEN"]);
    assert!(before.iter().all(|name| sets(&scene).contains(name)));
    assert_eq!(leftovers(&scene), 0);
    protect(&scene, &[]).assert_code(0);
    assert!(!before.iter().all(|name| sets(&scene).contains(name)));
}

#[test]
fn two_runs_at_a_time_are_refused() {
    let scene = copied();
    let lock = std::fs::File::open(scene.path("dst/.dircopy")).unwrap();
    lock.lock().unwrap();
    protect(&scene, &[]).assert_code(2);
    drop(lock);
    protect(&scene, &[]).assert_code(0);
}
