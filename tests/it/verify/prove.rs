//! `--verify`: what is copied is read back from the disk before it gets its name, and so is what is
//! there already.
//!
//! The disk lies for these tests: below the file system, on the loop device's file, a thread looks for a
//! mark and changes it as soon as it is there, while `strace` holds back the reads that go around
//! the page cache. That the lie was told is asserted by counting.

use std::fs;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::harness::{Mount, NONE, Run, SOON, Scene, Strace, content, names_below, need, shell};

const MARK: &[u8] = b"a mark that stands nowhere else, to be found in the image";

/// Every file system puts the mark at a multiple of this.
const STEP: usize = 1024;

fn marked() -> Vec<u8> {
    let mut bytes = content(300_000);
    bytes[64 * STEP..64 * STEP + MARK.len()].copy_from_slice(MARK);
    bytes
}

/// A source with the mark in it, and an empty ext4 at the output.
fn scene() -> (Scene, Mount) {
    let scene = Scene::on_disk();
    scene.src.file("dir/marked", marked()).file("other", content(100_000)).file("small", "small");
    let mount = Mount::ext4(&scene.path("image"), 8, &scene.dst);
    (scene, mount)
}

/// Changes the mark on the device, behind the file system's back; whether it was there.
fn flip(scene: &Scene) -> bool {
    let image = fs::read(scene.path("image")).unwrap();
    let at = image.chunks(STEP).position(|chunk| chunk.starts_with(MARK));
    if let Some(at) = at {
        let file = fs::OpenOptions::new().write(true).open(scene.path("image")).unwrap();
        file.write_all_at(&[MARK[3] ^ 1], (at * STEP) as u64 + 3).unwrap();
    }
    at.is_some()
}

/// Runs the copy while the device changes what is written to it, `most` times. Every reading back waits
/// long enough for that.
fn run_lying(scene: &Scene, most: u32, args: &[&str]) -> Run {
    run_lying_and(scene, most, || (), args)
}

/// … and then something else happens each time.
fn run_lying_and(scene: &Scene, most: u32, and: impl Fn() + Sync, args: &[&str]) -> Run {
    run_lying_while(scene, "delay_enter=1500000", most, and, args)
}

/// … where reads are held back so.
fn run_lying_while(
    scene: &Scene,
    delay: &str,
    most: u32,
    and: impl Fn() + Sync,
    args: &[&str],
) -> Run {
    let strace = Strace::inject(scene, "pread64", delay);
    let over = AtomicBool::new(false);
    let (run, flips) = thread::scope(|scope| {
        let liar = scope.spawn(|| {
            let mut flips = 0;
            while flips < most && !over.load(Ordering::Relaxed) {
                if flip(scene) {
                    flips += 1;
                    and();
                }
                thread::sleep(Duration::from_millis(5));
            }
            flips
        });
        // What is still in memory is read around it, which is what is held back.
        let args = ["--verify", "--cache", "keep"].iter().chain(args);
        let run = strace.run(scene.command(args));
        over.store(true, Ordering::Relaxed);
        (run, liar.join().unwrap())
    });
    strace.fired(&run);
    if flips != most {
        run.fail(&format!("the device lied {flips} times, not {most}"));
    }
    run
}

const LIE: &str = "what the disk holds is not what was written";

#[test]
fn what_is_good_is_proven_before_it_has_its_name() {
    need!(Loop, Strace);
    for cache in ["drop", "keep"] {
        good_is_proven(cache);
    }
}

fn good_is_proven(cache: &str) {
    let (scene, _mount) = scene();
    let calls = format!("read,pread64,{},{}", Strace::SYNCS, Strace::RENAMES);
    let strace = Strace::watch(&scene, &calls);
    let run = strace.run(scene.command(["--verify", "--block-size", "64K", "--cache", cache]));
    scene.judge(&run).complete();
    run.assert_prints(&["read back", "3 files", "from the device"]);
    let log = strace.log();
    for name in ["marked", "other", "small"] {
        let named = log
            .lines()
            .position(|line| line.contains("rename") && line.contains(&format!("\"{name}\"")));
        let Some(named) = named else { run.fail(&format!("no rename of {name}\n{log}")) };
        let line = log.lines().nth(named).unwrap();
        let part = line.split('"').nth(1).unwrap();
        let before: Vec<_> = log.lines().take(named).collect();
        let read = before.iter().position(|l| l.contains("read") && l.contains(part));
        let synced = before.iter().position(|l| l.contains("syncfs(") && !l.contains("syncfs(-1"));
        match (synced, read) {
            (Some(synced), Some(read)) if synced < read => {}
            _ => run.fail(&format!("{name} was not read back after the sync\n{log}")),
        }
    }
}

#[test]
fn a_file_system_in_memory_proves_nothing_and_says_so() {
    let scene = Scene::new();
    scene.src.file("file", content(5000)).file("empty", "");
    let run = scene.copy(&["--verify"]);
    scene.judge(&run).complete();
    if scene.root().starts_with("/dev/shm") {
        run.assert_prints(&["read back", "0 files, 0 B, from the device", "2 files"]);
    }
}

const MIB: usize = 1 << 20;

/// The bytes of each read of a file of this name from its device.
fn reads_of(strace: &Strace, name: &str) -> Vec<usize> {
    let is_of = |call: &&String| call.split_once('>').is_some_and(|(file, _)| file.contains(name));
    let bytes = |call: &String| call.rsplit_once("= ")?.1.trim().parse().ok();
    strace.calls().iter().filter(is_of).filter_map(bytes).collect()
}

/// A large copy is read back link by link, once, and so is one that is there already.
#[test]
fn a_large_copy_is_proven_by_its_links() {
    need!(Strace);
    let size = 40 * MIB + 77;
    for (args, most) in [(&[][..], MIB), (&["--states", "none"], 512 << 10)] {
        let scene = Scene::on_disk();
        scene.src.file("film.mov", content(size));
        for (name, said) in [(".dircopy-part", "read back"), ("/dst/film.mov", "unchanged")] {
            let strace = Strace::watch(&scene, "pread64,read");
            let args = [&["--verify", "--cache", "keep"], args].concat();
            let run = strace.run(scene.command(args));
            run.assert_code(0).assert_prints(&[said, "1 file"]);
            let reads = reads_of(&strace, name);
            assert_eq!(reads.iter().sum::<usize>(), size, "{name}");
            assert_eq!(reads.iter().max(), Some(&most), "{name}");
        }
    }
}

/// … and what the disk changed of it is named, and made anew.
#[test]
fn a_large_copy_that_the_disk_changed_is_named_by_range() {
    need!(Loop, Strace);
    let scene = Scene::on_disk();
    let mut bytes = content(20 * MIB);
    bytes[12 * MIB..][..MARK.len()].copy_from_slice(MARK);
    scene.src.file("film.mov", bytes);
    let _mount = Mount::ext4(&scene.path("image"), 64, &scene.dst);
    let run = run_lying_while(&scene, "delay_enter=1500000:when=1", 1, || (), &[]);
    scene.judge(&run).complete();
    run.assert_says(LIE).assert_says("(1 MiB of 20: 12-13 MiB); it was copied once more, and now");
    shell(&scene, "sync; umount dst; mount -o loop image dst");
    scene.judge(&run).verifies();
}

#[test]
fn a_copy_that_the_disk_changed_is_made_once_more() {
    need!(Loop, Strace);
    for args in
        [&["--workers", "1"][..], &["--workers", "2", "--queue-size", "1", "--block-size", "4K"]]
    {
        let (scene, _mount) = scene();
        let run = run_lying(&scene, 1, args);
        scene.judge(&run).complete();
        run.assert_says("warning: cannot prove").assert_says(LIE).assert_says("dst/dir/marked");
        run.assert_says("copied once more, and now").assert_prints(&["3 files", "from the device"]);
        // Without what is in memory.
        shell(&scene, "sync; umount dst; mount -o loop image dst");
        scene.judge(&run).verifies();
    }
}

#[test]
fn a_copy_that_the_disk_changes_again_fails() {
    need!(Loop, Strace);
    let (scene, _mount) = scene();
    let run = run_lying(&scene, 2, &[]);
    run.assert_code(4).assert_says("dircopy: cannot prove").assert_says(LIE);
    run.assert_prints(&["damaged", "1 file of these"]).assert_prints(&["NOT PROVEN"]);
    let judge = scene.judge(&run);
    judge.no_leftovers().lacks("dir/marked").does_not_list("dir/marked").has("other").has("small");
    judge.verifies();
    assert_eq!(names_below(&scene.dst, "f").len(), 3, "nothing else is left");
    let run = scene.copy(&["--verify"]);
    scene.judge(&run).complete();
}

/// A copy that cannot be read back is as bad as a wrong one.
#[test]
fn what_cannot_be_read_back_is_copied_once_more() {
    need!(Loop, Strace);
    // The loader has a few such reads of its own in another thread, for which is counted apart.
    for (fault, failed) in [("error=EIO:when=10", 0), ("error=EIO:when=10+", 11)] {
        let scene = Scene::on_disk();
        let _mount = Mount::ext4(&scene.path("image"), 8, &scene.dst);
        for i in 0..20 {
            scene.src.file(format!("{i:02}"), content(10_000 + i));
        }
        let strace = Strace::inject(&scene, "pread64", fault);
        let run = strace.run(scene.command(["--verify", "--workers", "1"]));
        if !strace.injected().iter().any(|line| line.contains(".dircopy-part>")) {
            run.fail(&format!("the fault never fired\n{}", strace.log()));
        }
        run.assert_says("warning: cannot read back").assert_says("once more");
        run.assert_prints(&["read back", &format!("{} files", 20 - failed)]);
        let judge = scene.judge(&run);
        if failed == 0 {
            judge.complete();
        } else {
            run.assert_code(4).assert_says("dircopy: cannot read back");
            run.assert_prints(&["failed", &format!("{failed} entr")]);
            judge.sound().no_leftovers();
            assert_eq!(judge.listed().len(), 20 - failed);
        }
    }
}

/// That a copy may not be read by its owner says nothing about the disk: a stranger's file that others
/// may read becomes such a copy.
#[test]
fn what_may_not_be_opened_fails_plainly() {
    need!(Setpriv);
    let scene = Scene::new();
    scene.src.file("strange", "x").mode("strange", 0o044).file("other", content(1000));
    scene.output();
    shell(&scene, "chmod 755 .; chown 65534:65534 dst");
    let run = scene.command(["--verify"]).under_nobody().run();
    run.assert_code(1).assert_says("cannot read back").assert_says("ermission denied");
    scene.judge(&run).lists(&["other"]).lacks("strange").no_leftovers();
    assert_eq!(names_below(&scene.dst, "f").len(), 2, "nothing is kept aside");
}

#[test]
fn a_source_that_changes_before_it_is_copied_once_more_fails() {
    need!(Loop, Strace);
    let (scene, _mount) = scene();
    let append = || {
        scene.src.append("dir/marked", b"more");
    };
    let run = run_lying_and(&scene, 1, append, &[]);
    run.assert_code(4).assert_says("warning: cannot prove").assert_says("dircopy: cannot copy");
    scene.judge(&run).lacks("dir/marked").no_leftovers().has("other");
}

#[test]
fn an_interruption_while_proving_leaves_nothing_unproven() {
    need!(Loop, Strace);
    let scene = Scene::on_disk();
    let _mount = Mount::ext4(&scene.path("image"), 8, &scene.dst);
    for i in 0..60 {
        scene.src.file(format!("dir/{i:02}"), content(10_000 + i));
    }
    let strace = Strace::inject(&scene, "pread64", "delay_enter=150000");
    let mut running = strace.spawn(scene.command(["--verify", "--workers", "1"]));
    let named = || {
        let mut names = names_below(&scene.dst, "f");
        names.retain(|name| name.starts_with(b"dir/") && !name.ends_with(b"-part"));
        names.len()
    };
    running.until("some names", || named() >= 3);
    let since = Instant::now();
    running.signal(Signal::INT);
    let run = running.wait();
    run.assert_code(130);
    assert!(since.elapsed() < SOON, "{:?}", since.elapsed());
    assert!((3..60).contains(&named()), "{} names", named());
    let judge = scene.judge(&run);
    judge.no_temp_files().sound();
    let list = judge.newest().unwrap();
    assert_eq!(judge.lines(&list).len(), named(), "what has its name is recorded");
    let run = scene.copy(&["--verify"]);
    scene.judge(&run).complete();
}

#[test]
fn a_full_output_keeps_what_was_copied() {
    need!(Loop);
    let scene = Scene::on_disk();
    let _mount = Mount::ext4(&scene.path("image"), 8, &scene.dst);
    for i in 0..20 {
        scene.src.file(format!("{i:02}"), content((1 << 20) + i));
    }
    let run = scene.copy(&["--verify", "--workers", "1", "--no-space-check"]);
    run.assert_code_in(&[1, 3]).assert_says("o space left");
    let judge = scene.judge(&run);
    judge.sound().no_temp_files();
    let list = judge.newest().unwrap();
    assert!(judge.lines(&list).len() >= 4, "what was whole is lost");
}

/// A file at the output of the same size and time that is not the source's.
fn damage_unseen(scene: &Scene, name: &str) {
    let mut bytes = scene.src.read(name);
    bytes[10] ^= 1;
    scene.output().file(name, bytes);
    shell(scene, &format!("touch -r src/{name} dst/{name}"));
}

#[test]
fn what_is_there_and_damaged_is_copied_anew() {
    for (manifest, block) in [(true, "256K"), (false, "256K"), (true, "4096"), (false, "4096")] {
        let scene = Scene::new();
        scene.src.file("file", content(100_000)).file("other", "other").file("empty", "");
        scene.copy(&[]).assert_code(0);
        damage_unseen(&scene, "file");
        if !manifest {
            shell(&scene, "rm dst/*.sha256sum");
        }
        let args = ["--verify", "--block-size", block, "--overwrite-policy"];
        let run = scene.command(args.iter().chain(&["never"])).run();
        run.assert_code(1).assert_says("left as it is: file: its content differs");
        scene.judge(&run).does_not_list("file");
        assert_ne!(scene.output().read("file"), scene.src.read("file"));
        let run = scene.command(args.iter().chain(&["default"])).run();
        run.assert_says("its content differs").assert_says("copied anew");
        run.assert_prints(&["copied", "1 file,", "1 in place of others"]);
        run.assert_prints(&["read back", "3 files"]);
        scene.judge(&run).complete();
        let run = scene.command(args.iter().chain(&["default"])).run();
        scene.judge(&run).complete();
        assert!(run.err().is_empty(), "{}", run.err());
    }
}

/// What an earlier manifest lists and nothing touched is believed without `--verify`.
#[test]
fn what_the_disk_changed_under_a_listed_file_is_found() {
    need!(Loop);
    let (scene, _mount) = scene();
    scene.copy(&[]).assert_code(0);
    shell(&scene, "sleep 0.05; touch dst/*.sha256sum");
    assert!(flip(&scene));
    let run = scene.copy(&[]);
    run.assert_code(0).assert_prints(&["unchanged", "3 files"]);
    shell(&scene, "sleep 0.05; touch dst/*.sha256sum");
    let run = scene.copy(&["--verify", "--overwrite-policy", "never"]);
    run.assert_code(1).assert_says("left as it is: dir/marked: its content differs");
    run.assert_says("cannot list any longer");
    scene.judge(&run).does_not_list("dir/marked");
    // Nor does a run believe it that does not read everything.
    let run = scene.copy(&["--overwrite-policy", "never"]);
    run.assert_code(1).assert_says("left as it is: dir/marked: its content differs");
    scene.judge(&run).does_not_list("dir/marked");
    let run = scene.copy(&["--verify"]);
    run.assert_says("its content differs").assert_prints(&[
        "read back",
        "3 files",
        "from the device",
    ]);
    scene.judge(&run).complete();
    assert!(run.err().lines().count() == 1, "{}", run.err());
}

#[test]
fn what_is_there_and_cannot_be_read_is_copied_anew() {
    need!(Strace);
    let scene = Scene::new();
    scene.src.file("file", content(100_000)).file("other", "other");
    scene.copy(&[]).assert_code(0);
    let strace =
        Strace::inject(&scene, Strace::READS, "error=EIO").exactly_on(scene.dst.join("file"));
    let run = strace.run(scene.command(["--verify", "--overwrite-policy", "never"]));
    strace.fired(&run);
    run.assert_code(1).assert_says("cannot read").assert_says("dst/file");
    let strace =
        Strace::inject(&scene, Strace::READS, "error=EIO").exactly_on(scene.dst.join("file"));
    let run = strace.run(scene.command(["--verify"]));
    strace.fired(&run);
    run.assert_says("cannot read back").assert_says("copied anew");
    scene.judge(&run).complete();
}

#[test]
fn what_cannot_be_had_with_it_is_refused() {
    let scene = Scene::new();
    scene.src.file("file", "x");
    for (args, says) in [
        (["--verify", "--no-sync"].as_slice(), "leave out --verify or --no-sync"),
        (&["--verify", "--hash", "none"], "leave out --verify or --hash none"),
    ] {
        let run = scene.copy(args);
        run.assert_code(2).assert_says(says);
        assert!(!scene.dst.exists());
    }
    let run = scene.copy(&["--verify", "--dry-run"]);
    run.assert_code(0).assert_prints(&["to copy", "1 file,"]);
    assert!(!scene.dst.exists());
    scene.command(NONE).run().assert_code(0);
}

#[test]
fn many_files_in_many_directories_with_few_descriptors() {
    let scene = Scene::new();
    for i in 0..600 {
        scene.src.file(format!("{i}/file"), content(i));
        scene.src.file(format!("{i}/more"), content(5000));
    }
    for args in
        [&["--workers", "1", "--queue-size", "1", "--block-size", "4096"][..], &["--workers", "4"]]
    {
        let args = ["--verify"].iter().chain(args);
        let run = scene.command(args).after("ulimit -n 64").run();
        scene.judge(&run).complete();
        shell(&scene, "rm -r dst");
    }
}

/// What a check found bad on the device may be good in memory still: no later copy takes it from there.
#[test]
fn what_a_check_found_bad_is_not_believed_for_what_memory_has() {
    need!(Root);
    for args in [&["--overwrite-policy", "update"][..], &["--generations"]] {
        let scene = Scene::new();
        let _mount = Mount::ext4(&scene.path("image"), 16, &scene.dst);
        let bytes = content(20_000);
        scene.src.file("bad", &bytes).file("other", "1");
        scene.copy(args).assert_code(0);
        let newest = if args.len() == 1 { "dst/latest" } else { "dst" };
        shell(&scene, &format!("sync; cat {newest}/bad >/dev/null"));
        let mut image = std::fs::read(scene.path("image")).unwrap();
        let at = image.windows(64).position(|it| it == &bytes[4096..4160]).unwrap();
        image[at] ^= 1;
        let file = std::fs::File::options().write(true).open(scene.path("image")).unwrap();
        std::os::unix::fs::FileExt::write_all_at(&file, &image[at..=at], at as u64).unwrap();
        file.sync_all().unwrap();
        scene.bare(["verify", newest]).run().assert_code(4).assert_says("bad");
        shell(&scene, &format!("cmp src/bad {newest}/bad"));
        scene.src.file("other", "further");
        scene.copy(args).assert_code(0);
        scene.bare(["verify", newest]).run().assert_code(0);
    }
}
