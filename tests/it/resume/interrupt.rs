//! Ctrl-C, `kill`, and `kill -9`: what was finished stays and is recorded, nothing half-done stays
//! but durable beginnings of large files, and the next run goes on.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::harness::{
    Act, Deed, Mirror, NONE, Run, Running, SOON, Scene, Strace, content, names_below, need, shell,
};

const GIB: u64 = 1 << 30;

/// Small files, and one that takes longer than any test waits: all hole, so it costs nothing here.
fn endless() -> Scene {
    let scene = Scene::new();
    for i in 0..30 {
        scene.src.file(format!("small/{i:02}"), content(i * 100));
        scene.src.file(format!("medium/{i:02}"), content(i * 10_000));
    }
    // Data at every gigabyte, so that no one can skip to the end in a step.
    let islands: Vec<_> = (0..400).map(|i| (i * GIB, 5)).collect();
    scene.src.sparse("endless", 400 * GIB, &islands);
    scene
}

fn temp_files(scene: &Scene) -> usize {
    names_below(&scene.dst, "f").iter().filter(|n| n.ends_with(b".dircopy-part")).count()
}

/// Waits until the endless file is being written and the others had their time.
fn into_the_middle(scene: &Scene, running: &mut Running) {
    running.until("a temp file", || temp_files(scene) > 0);
    std::thread::sleep(Duration::from_millis(300));
    assert!(!running.is_over(), "it is over already");
}

/// Sends a signal; the run ends soon, with this code.
fn ends_soon(running: Running, signal: Signal, code: i32) -> Run {
    let since = Instant::now();
    running.signal(signal);
    let run = running.wait();
    let took = since.elapsed();
    run.assert_code(code);
    assert!(took < SOON, "{took:?} after the signal");
    run
}

#[test]
fn an_interrupted_run_leaves_nothing_half_done() {
    for (signal, code) in [(Signal::INT, 130), (Signal::TERM, 143)] {
        for args in [&[][..], &["--workers", "1"], &["--queue-size", "1", "--block-size", "4096"]] {
            let scene = endless();
            let mut running = scene.command(args).spawn();
            into_the_middle(&scene, &mut running);
            let run = ends_soon(running, signal, code);
            let judge = scene.judge(&run);
            judge.only_kept_beginnings().lacks("endless");
            assert!(judge.manifests().is_empty(), "an unfinished run published its manifest");
            // What has its name is recorded, and what is recorded is right.
            let mut there = names_below(&scene.dst, "f");
            there.retain(|name| {
                let temp: [&[u8]; 3] = [b".part", b".dircopy-part", b".dircopy-journal"];
                !temp.iter().any(|suffix| name.ends_with(suffix))
            });
            for name in &there {
                judge.has(name);
            }
            if let Some(list) = judge.newest() {
                judge.list_verifies(&list);
            } else {
                assert!(there.is_empty(), "finished files, and no record of them");
            }
        }
    }
}

#[test]
fn after_an_interruption_the_next_run_goes_on() {
    for signal in [Signal::INT, Signal::KILL] {
        let scene = endless();
        scene.src.file("named like a temp file.dircopy-part", "x");
        let mut running = scene.command(NONE).spawn();
        into_the_middle(&scene, &mut running);
        running.signal(signal);
        running.wait();
        let output = scene.output();
        let done: Vec<_> = names_below(&scene.dst, "f")
            .into_iter()
            .filter(|name| name.starts_with(b"small/") && !name.ends_with(b".dircopy-part"))
            .map(|name| (output.inode(&name), name))
            .collect();
        // What had its name after `kill -9` was whole.
        for (_, name) in &done {
            assert_eq!(output.read(name), scene.src.read(name));
        }
        output.file("somebody's own.dircopy-part", "not ours");
        scene.src.file("endless", content(300_000));

        let run = scene.copy(&[]);
        if signal == Signal::KILL {
            // The output was left closed, and what is not of the source may be for nobody else.
            run.assert_code(1).assert_says("stays closed to others");
        } else {
            run.assert_code(0);
        }
        assert_eq!(output.read("somebody's own.dircopy-part"), b"not ours");
        output.remove("somebody's own.dircopy-part");
        let run = scene.copy(&[]);
        run.assert_code(0);
        scene.judge(&run).same_bytes().lists_all().verifies().no_temp_files();
        for (inode, name) in &done {
            assert_eq!(output.inode(name), *inode, "copied again: {}", name.escape_ascii());
        }
    }
}

/// What is durable and noted of a large file stays, as after `kill -9`, and is gone on with.
#[test]
fn the_durable_beginning_of_a_large_file_is_kept() {
    let args = ["--checkpoint", "2M", "--block-size", "64K", "--queue-size", "2"];
    for (signal, code) in [(Signal::INT, 130), (Signal::TERM, 143)] {
        for resume in ["auto", "verify", "off"] {
            let scene = Scene::new();
            scene.src.file("dir/large", content(20 << 20)).file("small", "small");
            let slow = ["--limit-rate", "8M", "--resume", resume];
            let mut running = scene.command(args.iter().chain(&slow)).spawn();
            let len_of = |suffix: &[u8]| {
                let names = names_below(&scene.dst, "f");
                let mut lens = names.iter().filter(|name| name.ends_with(suffix)).map(|name| {
                    scene.output().path(name).metadata().map_or(0, |metadata| metadata.len())
                });
                lens.next().unwrap_or(0)
            };
            running.until("a checkpoint", || match resume {
                "off" => len_of(b".dircopy-part") > 0,
                _ => len_of(b".dircopy-journal") > 4096,
            });
            let run = ends_soon(running, signal, code);
            if resume == "off" {
                scene.judge(&run).no_temp_files().lacks("dir/large");
                continue;
            }
            run.assert_says("of dir/large are kept and gone on with by the next run");
            let kept = len_of(b".dircopy-part");
            assert!(kept >= 512 << 10, "{kept} bytes are kept");
            assert!(len_of(b".dircopy-journal") > 4096);
            let next = scene.copy(&[&args[..], &["-v", "--resume", resume]].concat());
            next.assert_code(0).assert_prints(&["resumed dir/large"]);
            scene.judge(&next).complete().no_temp_files();
        }
    }
}

/// Somebody's tool changes what was kept, and gives it the time back that it had: the change time tells.
#[test]
fn a_beginning_that_was_changed_since_is_read_whatever_its_time_is() {
    let scene = Scene::new();
    scene.src.file("large", content(20 << 20));
    let args = ["--checkpoint", "2M", "--block-size", "64K", "--queue-size", "2"];
    let running = scene.command(args.iter().chain(&["--limit-rate", "8M"])).spawn();
    let part = || names_below(&scene.dst, "f").into_iter().find(|it| it.ends_with(b"-part"));
    let journal = || names_below(&scene.dst, "f").into_iter().find(|it| it.ends_with(b"-journal"));
    let len = |name: Option<Vec<u8>>| {
        name.and_then(|it| Some(scene.output().path(&it).metadata().ok()?.len())).unwrap_or(0)
    };
    let mut running = running;
    running.until("a checkpoint", || len(journal()) > 4096);
    ends_soon(running, Signal::INT, 130).assert_says("of large are kept");
    let kept = scene.output().path(part().unwrap());
    let time = kept.metadata().unwrap().modified().unwrap();
    let mut bytes = std::fs::read(&kept).unwrap();
    bytes[100] ^= 1;
    std::fs::write(&kept, bytes).unwrap();
    std::fs::File::options().write(true).open(&kept).unwrap().set_modified(time).unwrap();
    let next = scene.copy(&args);
    next.assert_code(0).assert_says("not what was written");
    scene.judge(&next).complete().no_temp_files();
}

/// GNU `timeout` signals the program and then its process group: that is one request.
#[test]
fn two_signals_at_once_are_one_request() {
    for _ in 0..5 {
        let scene = endless();
        let mut running = scene.command(NONE).spawn();
        into_the_middle(&scene, &mut running);
        running.signal(Signal::TERM);
        running.signal(Signal::TERM);
        let run = running.wait();
        run.assert_code(143);
        scene.judge(&run).only_kept_beginnings().lacks("endless");
    }
}

/// A long earlier manifest takes long to read, here much longer than on any disk: its lines are counted
/// first and then read. Told by the reads that still come: each is held back, so two seconds have room for
/// eighty of them at most, on any machine.
#[test]
fn a_long_manifest_does_not_hold_up_an_interruption() {
    need!(Strace);
    for which in ["counting", "reading"] {
        let scene = Scene::new();
        scene.src.file("file", "x");
        let name = "dircopy-20260101T000000Z.sha256sum";
        let lines = (0..400_000).map(|i| format!("{i:064x}  a/file/that/is/gone/{i}\n"));
        scene.output().file(name, lines.collect::<String>());
        let manifest = scene.dst.join(name);
        let strace =
            Strace::inject(&scene, Strace::READS, "delay_exit=25000").exactly_on(&manifest);
        let mut running = strace.spawn(scene.command(NONE));
        let counted = manifest.metadata().unwrap().len() as usize / (256 << 10) + 10;
        let reads = if which == "counting" { 3 } else { counted };
        running.until("so many reads", || strace.log().lines().count() > reads);
        let before = strace.log().lines().count();
        running.signal(Signal::INT);
        let run = running.wait();
        let more = strace.log().lines().count() - before;
        assert!(more < 80, "{which}: {more} reads after the signal");
        run.assert_code(130);
        assert!(manifest.exists());
    }
}

/// What stays because it cannot be removed is named: nobody would know of it otherwise.
#[test]
fn what_an_interrupted_run_cannot_remove_is_named() {
    need!(Fuse);
    let scene = Scene::new();
    scene.src.file("large", content(3_000_000));
    let truth = scene.tree("truth");
    let is_part = |name: &[u8]| name.ends_with(b".dircopy-part");
    // Files that are made for a trial are not written to.
    let written = Arc::new(Mutex::new(BTreeSet::new()));
    let writes = Arc::clone(&written);
    let _mirror = Mirror::mount(truth.root(), &scene.path("disk"), move |call| {
        match call.deed {
            Deed::Write if is_part(call.path.as_os_str().as_encoded_bytes()) => {
                writes.lock().unwrap().insert(call.path.to_path_buf());
            }
            Deed::Remove if writes.lock().unwrap().contains(call.path) => {
                return Act::Fail(rustix::io::Errno::IO.raw_os_error());
            }
            _ => {}
        }
        Act::Pass
    });
    let stream = ["-i", "src/large", "-i", "src/large", "-o", "disk/out"];
    for args in [
        &["-i", "src", "-o", "disk/dst"][..],
        &["-i", "src", "-o", "disk/dst", "--hash", "none"],
        &stream,
        &[&stream[..], &["--hash", "none"]].concat(),
        &[&stream[..], &["--hash", "none", "-o", "disk/other"]].concat(),
    ] {
        let mut running = scene.bare(args.iter().chain(&["--limit-rate", "100K"])).spawn();
        let parts = || {
            let mut names = names_below(truth.root(), "f");
            names.retain(|name| is_part(name));
            names
        };
        // Its size is none to go by: room is reserved before the first block is written.
        running.until("a part file", || !written.lock().unwrap().is_empty());
        running.signal(Signal::INT);
        let run = running.wait();
        run.assert_code(130);
        assert!(!parts().is_empty(), "{args:?}: {}", run.err());
        for name in parts() {
            let path = format!("disk/{}", String::from_utf8(name).unwrap());
            run.assert_says(&format!("warning: cannot remove the part file {path}: "));
        }
        shell(&scene, "rm -rf truth/*; find truth -type f -delete");
        written.lock().unwrap().clear();
    }
}
