//! Faults, kills and power cuts while parity is made and while files are made whole by it: a set is there whole or not at
//! all, what it took the place of stays until then, and nothing is left over by the run after.
//!
//! `DIRCOPY_TEST_LONG=1` kills 200 runs and cuts the power 200 times where 12 and 8 have to do otherwise.

use std::time::{Duration, Instant};

use super::*;
use rustix::process::Signal;

use crate::harness::{Crash, Disk, Mount, Strace, long, need, shell, tool};

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
    run.assert_code(1).assert_says("dst/.dircopy/parity/");
    run.assert_prints(&["NOT PROVEN (exit 1): not all parity could be written"]);
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

/// Damages, each of which its set can repair, and what is right of the files.
fn damaged(scene: &Scene) {
    for name in ["d1/f7", "d0/f6", "d2/f5"] {
        flip(&scene.path("dst").join(name), 7);
    }
    std::fs::remove_file(scene.path("dst/d1/f1")).unwrap();
}

const EACH_FILE: &str = "for f in $(cd src && find . -type f -name 'f*'); do cmp -s src/$f $T/$f || \
                         cmp $T/$f bad/$f || { test ! -e $T/$f && test ! -e bad/$f; } || exit 1; done";

#[test]
fn runs_that_are_killed_at_any_moment_leave_what_the_next_one_goes_on_with() {
    let scene = copied();
    let mut random = Random::new(200);
    let (count, mut killed) = (if long() { 200 } else { 12 }, 0);
    // Machines differ: a moment within the time that a run takes here.
    let began = Instant::now();
    protect(&scene, &["--parity", "50%"]).assert_code(0);
    let whole = began.elapsed().as_micros() as usize;
    let kill = |random: &mut Random, args: &[&str]| {
        let running = scene.bare(args).spawn();
        std::thread::sleep(Duration::from_micros(random.below(whole * 3 / 4) as u64));
        running.signal(Signal::KILL);
        running.wait().signal == Some(9)
    };
    for round in 0..count / 2 {
        shell(&scene, "rm -rf dst/.dircopy/parity");
        killed += usize::from(kill(&mut random, &["protect", "-q", "dst", "--parity", "50%"]));
        if scene.path(PARITY).exists() {
            shell(
                &scene,
                "cd dst/.dircopy/parity && for s in *.par2; do test ! -e $s || par2 verify -q -B ../.. $s; done",
            );
        }
        protect(&scene, &["--parity", "50%"]).assert_code(0).assert_prints(&["of 10 files"]);
        assert_eq!(leftovers(&scene), 0, "{:?}", sets(&scene));
        damaged(&scene);
        shell(&scene, "rm -rf bad && cp -a dst bad");
        killed += usize::from(kill(&mut random, &["heal", "-q", "dst"]));
        shell(&scene, &format!("T=dst; {EACH_FILE}"));
        scene.bare(["heal", "-q", "dst"]).run().assert_code(0);
        shell(&scene, "diff -r src dst --exclude '.dircopy' --exclude 'dircopy-*'");
        assert_eq!(leftovers(&scene), 0, "round {round}: {:?}", sets(&scene));
    }
    eprintln!("{killed} of {count} runs were killed");
    assert!(killed > count / 4, "{killed} of {count}");
}

/// After a power cut each set is whole or not there, each file right or as it was, and the next run does the rest.
#[test]
fn power_cuts_leave_what_the_next_run_goes_on_with() {
    need!(Fuse, Kinds, Strace);
    Mount::privately();
    for (kind, size, options) in [("ext4", "64M", "commit=1"), ("xfs", "320M", "wsync")] {
        cut(kind, size, options);
    }
}

fn cut(kind: &str, size: &str, options: &str) {
    let scene = copied();
    let (live, kept) = (scene.path("live.img"), scene.path("kept.img"));
    tool("truncate", &[&format!("--size={size}"), live.to_str().unwrap()]);
    tool(&format!("mkfs.{kind}"), &["-q", live.to_str().unwrap()]);
    tool("cp", &["--sparse=always", live.to_str().unwrap(), kept.to_str().unwrap()]);
    let disk = Disk::over(&live, &scene.path("fuse"));
    let mount = Mount::device(&disk.device, &scene.path("mnt"), options).unwrap();
    shell(&scene, "mv dst first && ln -s mnt/dst dst");
    scene.command_to(scene.src.root(), scene.path("mnt/dst"), ["-q"]).run().assert_code(0);
    // Names come slowly, so that something happens on the disk between one and the next.
    let slowly = |args: &[&str]| {
        let strace = Strace::inject(&scene, Strace::RENAMES, "delay_exit=1000");
        strace.run(scene.bare(args)).assert_code(0);
    };
    let begin = disk.now();
    slowly(&["protect", "-q", "mnt/dst", "--parity", "50%"]);
    let made = disk.now();
    damaged(&scene);
    shell(&scene, "sync -f mnt; cp -a mnt/dst bad");
    let since = disk.now();
    slowly(&["heal", "-q", "mnt/dst"]);
    let end = disk.now();
    drop(mount);
    let log = disk.end();
    let mut random = Random::new(64);
    let mut crash = Crash::new(kept, scene.path("crash.img"), log);
    let count = if long() { 100 } else { 3 };
    let mut moments = crash.moments(&(begin..made), count, &mut random);
    moments.extend(crash.moments(&(since..end), count, &mut random));
    moments.push(end);
    for moment in moments {
        let image = crash.at(moment, &mut random);
        // The other one of this number may still be mounted.
        let options = if kind == "xfs" { "loop,nouuid" } else { "loop" };
        let _mount = Mount::device(image, &scene.path("crash"), options).unwrap();
        let verify = "cd crash/dst/.dircopy/parity 2>&- || exit 0; for s in *.par2; do test ! -e $s || \
                      par2 verify -q -B $T $s; done";
        if moment < since {
            shell(&scene, &format!("T=$PWD/src; {verify}"));
        } else {
            shell(&scene, &format!("T=crash/dst; {EACH_FILE}"));
            scene.bare(["heal", "-q", "crash/dst"]).run().assert_code(0);
            shell(&scene, &format!("T=$PWD/crash/dst; {verify}"));
        }
        let run = scene.bare(["protect", "-q", "crash/dst", "--parity", "50%"]).run();
        run.assert_code(0);
        shell(
            &scene,
            "diff -r src crash/dst --exclude '.dircopy' --exclude 'dircopy-*' --exclude lost+found",
        );
    }
}
