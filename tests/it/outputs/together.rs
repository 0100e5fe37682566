//! Several outputs from one read: each is complete by itself, the source is read once for all, and what
//! goes wrong at one is nothing to the others.

use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::harness::several::{command, is_complete, judge};
use crate::harness::{
    Act, Call, Cmd, Deed, Judge, Mirror, Mount, Run, Scene, Strace, Tree, content, ctimes,
    is_temp_name, names_below, need, shell, whole_calls,
};

const EIO: i32 = rustix::io::Errno::IO.raw_os_error();

/// Blocks of 64 KiB, and a window of four of them.
const NARROW: [&str; 4] = ["--block-size", "64K", "--lag", "256K"];

fn scene() -> Scene {
    let scene = Scene::new();
    scene.src.file("big", content(3_000_001)).file("bigger", content(5 << 20)).file("empty", "");
    scene.src.sparse("holes", 8 << 20, &[(1 << 20, 300_000), (7 << 20, 100_000)]);
    for i in 0..200 {
        scene.src.file(format!("dir {}/{i}", i % 7), content(i * 97 + 1));
    }
    scene.src.symlink("link", "big").hard_link("second name", "big");
    scene
}

/// Runs it under `strace`, and counts the bytes that were read of files below each of these.
fn read_below<const N: usize>(
    scene: &Scene,
    command: Cmd<'_>,
    roots: [&Path; N],
) -> (Run, [u64; N]) {
    let trace = scene.path("trace");
    let reads = "read,pread64,readv,preadv,preadv2,sendfile,copy_file_range,splice";
    let line = format!("exec strace -f -qq -y -e trace={reads} -o {} \"$@\"", trace.display());
    let run = command.in_shell(&line).run();
    let mut sums = [0; N];
    for call in whole_calls(&String::from_utf8_lossy(&std::fs::read(&trace).unwrap())) {
        let Some((call, result)) = call.rsplit_once(" = ") else { continue };
        let read: u64 = result.split(' ').next().and_then(|it| it.parse().ok()).unwrap_or(0);
        for (root, sum) in roots.iter().zip(&mut sums) {
            if call
                .split_once('<')
                .is_some_and(|(_, path)| path.starts_with(root.to_str().unwrap()))
            {
                *sum += read;
            }
        }
    }
    (run, sums)
}

/// The bytes of all files, holes among them, each name counted.
fn data(scene: &Scene) -> u64 {
    let files = names_below(scene.src.root(), "f");
    let size = |name: &Vec<u8>| u64::try_from(scene.src.stat(name).st_size).unwrap();
    files.iter().map(size).sum()
}

fn report(scene: &Scene) -> serde_json::Value {
    serde_json::from_slice(&std::fs::read(scene.path("report")).unwrap()).unwrap()
}

#[test]
fn every_output_is_complete_and_the_source_is_read_once() {
    need!(Strace);
    for outputs in [&["a", "b"][..], &["a", "b", "c"]] {
        for args in [&[][..], &["--workers", "1", "--queue-size", "1", "--block-size", "4096"]] {
            let scene = scene();
            let src = scene.src.root().to_path_buf();
            let (run, [read]) = read_below(&scene, command(&scene, outputs, args), [&src]);
            for name in outputs {
                judge(&scene, name, &run).complete();
            }
            let data = data(&scene);
            assert!((data * 95 / 100..=data).contains(&read), "{read} of {data}");
        }
    }
}

#[test]
fn without_digests_it_is_read_once_too() {
    need!(Strace);
    let scene = scene();
    let src = scene.src.root().to_path_buf();
    let (run, [read]) =
        read_below(&scene, command(&scene, &["a", "b"], &["--hash", "none"]), [&src]);
    for name in ["a", "b"] {
        run.assert_code(0);
        judge(&scene, name, &run).same_tree().no_leftovers();
    }
    assert!(read <= data(&scene), "{read} of {}", data(&scene));
}

/// Waits at every write of a part file until the other output has its manifest, two minutes at most.
fn stuck_until_done(other: &Path) -> impl FnMut(&Call<'_>) -> Act + Send + 'static {
    let other = other.to_path_buf();
    waiting(Deed::Write, move || {
        let names = std::fs::read_dir(&other).into_iter().flatten().flatten();
        names.map(|entry| entry.path()).any(|path| path.extension() == Some("sha256sum".as_ref()))
    })
}

#[test]
fn a_slow_output_holds_no_other_up_and_reads_the_rest_by_itself() {
    need!(Fuse, Strace);
    for slow_one in ["a", "b"] {
        let scene = scene();
        let below = scene.tree("truth");
        let (src, fast) = (scene.src.root().to_path_buf(), if slow_one == "a" { "b" } else { "a" });
        let fast_root = scene.path(fast);
        let _mirror =
            Mirror::mount(below.root(), &scene.path(slow_one), stuck_until_done(&fast_root));
        let mut args = NARROW.to_vec();
        args.extend(["--report", "report"]);
        let ran = command(&scene, &["a", "b"], &args);
        let (run, [read, from_fast]) = read_below(&scene, ran, [&src, &fast_root]);
        judge(&scene, fast, &run).complete();
        Judge::new(&scene.src, below, &run).complete();
        // The fast one may fall behind for a moment, and then does not wait for the slow one.
        let once = data(&scene);
        assert!(read <= once * 2 + once * 3 / 5, "{read} of {once} from the source");
        // But for its own manifest.
        assert!(from_fast < 64 << 10, "{from_fast} read of another output");
        let number = usize::from(slow_one == "b");
        let counts = &report(&scene)["outputs"][number]["counts"];
        assert!(counts["fallback"].as_u64() > Some(0), "{counts}");
        // The one that is fast was done first.
        let done = |name: &str| {
            let root = if name == slow_one { scene.path("truth") } else { scene.path(name) };
            let manifest = Judge::new(&scene.src, Tree::of(root), &run).manifest();
            std::fs::metadata(manifest).unwrap().modified().unwrap()
        };
        assert!(done(fast) < done(slow_one));
    }
}

/// One output rots what it is given, and copies it once more; one lags; one is neither. The run ends, and none
/// has a wrong byte under a final name.
#[test]
fn a_rotting_output_beside_a_lagging_one_keeps_no_other_up() {
    need!(Fuse);
    for every in [1, 3] {
        let scene = scene();
        let (rotting, lagging) = (scene.tree("rotting below"), scene.tree("lagging below"));
        let mut reads = 0;
        let rots = Mirror::mount(rotting.root(), &scene.path("rotting"), move |call| {
            let is_part = call.path.to_string_lossy().ends_with(".dircopy-part");
            reads += u32::from(is_part && call.deed == Deed::Read);
            match call.deed {
                Deed::Read if is_part && reads % every == 0 => Act::Flip,
                _ => Act::Pass,
            }
        });
        let stuck = stuck_until_done(&scene.path("fast"));
        let lags = Mirror::mount(lagging.root(), &scene.path("lagging"), stuck);
        let args = [&NARROW[..], &["--verify", "--report", "report"]].concat();
        let run = command(&scene, &["rotting", "lagging", "fast"], &args).run();
        run.assert_code_in(if every == 1 { &[4] } else { &[0, 4] });
        assert!(rots.fired() > 0, "nothing rotted");
        judge(&scene, "fast", &run).same_tree().lists_all().verifies();
        Judge::new(&scene.src, lagging, &run).same_tree().lists_all().verifies();
        let fallback = report(&scene)["outputs"][1]["counts"]["fallback"].as_u64();
        assert!(fallback > Some(0), "{fallback:?}");
        drop((rots, lags));
        for name in names_below(rotting.root(), "f") {
            let name = String::from_utf8(name).unwrap();
            let is_ours = name.starts_with("dircopy-") || name.starts_with(".dircopy");
            assert!(is_ours || rotting.read(&name) == scene.src.read(&name), "{name}");
        }
    }
}

/// The size of the largest file below a directory.
fn largest(root: &Path) -> u64 {
    let sizes = std::fs::read_dir(root).into_iter().flatten().flatten();
    sizes.filter_map(|entry| entry.metadata().ok()).map(|it| it.len()).max().unwrap_or(0)
}

/// A slow output goes on while a fast one is still at the same file: no disk waits for another.
#[test]
fn a_slow_output_is_not_idle_until_another_has_the_file() {
    need!(Fuse);
    const SIZE: usize = 16 << 20;
    let scene = Scene::new();
    scene.src.file("clip", content(SIZE));
    let [slow, fast] = ["slow", "fast"].map(|name| scene.tree(name).root().to_path_buf());
    // The slow one waits until the fast one is far ahead …
    let slow_writes = Arc::new(AtomicBool::new(false));
    let far_ahead = {
        let (fast, slow_writes) = (fast.clone(), Arc::clone(&slow_writes));
        move || {
            slow_writes.store(true, Ordering::Relaxed);
            largest(&fast) >= SIZE as u64 / 2
        }
    };
    let _a = Mirror::mount(&slow, &scene.path("a"), waiting(Deed::Write, far_ahead));
    // … which waits until the slow one has begun, and then for nearly all of the file there.
    let gave_up = Arc::new(AtomicBool::new(false));
    let caught_up = {
        let (gave_up, fast) = (Arc::clone(&gave_up), fast.clone());
        let until = Instant::now() + Duration::from_secs(50);
        move || {
            let is_late = Instant::now() > until;
            gave_up.fetch_or(is_late, Ordering::Relaxed);
            let is_ahead = largest(&fast) >= SIZE as u64 / 2;
            let is_its_turn = !is_ahead && slow_writes.load(Ordering::Relaxed);
            is_late || is_its_turn || largest(&slow) >= SIZE as u64 * 9 / 10
        }
    };
    let _b = Mirror::mount(&fast, &scene.path("b"), waiting(Deed::Write, caught_up));
    let mut args = NARROW.to_vec();
    args.extend(["--no-sync", "--report", "report"]);
    let run = command(&scene, &["a", "b"], &args).run();
    assert!(!gave_up.load(Ordering::Relaxed), "the slow one waited for the fast one");
    for name in ["slow", "fast"] {
        Judge::new(&scene.src, scene.tree(name), &run).complete();
    }
    // Whichever began the file later reads some of it by itself.
    let report = report(&scene);
    let alone = |number: usize| report["outputs"][number]["counts"]["fallback"].as_u64();
    assert!(alone(0).max(alone(1)) == Some(1), "{:#}", report["outputs"]);
}

/// Lets calls of this kind wait until something is so, two minutes at most.
fn waiting(
    deed: Deed,
    mut is_so: impl FnMut() -> bool + Send + 'static,
) -> impl FnMut(&Call<'_>) -> Act + Send + 'static {
    let until = Instant::now() + Duration::from_secs(120);
    move |call| {
        // Not writes of lists and of trials, which come before any file.
        let is_copy = call.path.parent() == Some(Path::new(""))
            && is_temp_name(call.path.as_os_str().as_bytes());
        while call.deed == deed && is_copy && !is_so() && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(5));
        }
        Act::Pass
    }
}

/// What an output that was dropped reads by itself later must be of the same file as its beginning.
#[test]
fn a_source_that_changes_after_an_output_was_dropped_is_noticed() {
    need!(Fuse);
    let scene = Scene::new();
    let (old, new) = (content(5 << 20), vec![9; 5 << 20]);
    scene.src.file("clip", &old);
    let below = scene.tree("truth");
    let (fast, clip) = (scene.path("b"), scene.src.path("clip"));
    let (mut stuck, mut now) = (stuck_until_done(&fast), Some(new.clone()));
    let _mirror = Mirror::mount(below.root(), &scene.path("a"), move |call| {
        let act = stuck(call);
        if call.deed == Deed::Write
            && let Some(new) = now.take()
        {
            std::fs::write(&clip, new).unwrap();
        }
        act
    });
    let run = command(&scene, &["a", "b"], &NARROW).run();
    run.assert_no_crash().assert_says("clip");
    assert_eq!(scene.tree("b").read("clip"), old);
    assert_eq!(below.read("clip"), new, "neither mixed nor old");
    Judge::new(&scene.src, below, &run).complete();
}

#[test]
fn a_full_output_stops_alone_and_a_later_run_completes_it() {
    need!(Mount, Strace);
    let scene = scene();
    let mount = Mount::tmpfs(&scene.path("b"), "6m");
    let run = command(&scene, &["a", "b", "c"], &["--no-space-check"]).run();
    // It ends early if nothing more fits when the first file does not: that hangs on their order.
    run.assert_code_in(&[1, 3]).assert_says("No space left");
    for name in ["a", "c"] {
        is_complete(&scene, name, &run);
    }
    judge(&scene, "b", &run).sound().no_temp_files();
    // What has its name and no line or no row, as there was no room for these, is held against the source once more.
    let rows = shell(&scene, "cat b/.dircopy/record* || true");
    let there: u64 = shell(&scene, "cut -c 67- b/dircopy-*.sha256sum*")
        .lines()
        .filter(|name| rows.contains(&format!("  {name}\n")))
        .map(|name| scene.src.stat(name))
        .map(|stat| (stat.st_size as u64).min(stat.st_blocks as u64 * 512))
        .sum();
    shell(&scene, "mount -o remount,size=100m b");
    let [a, c] = ["a", "c"].map(|name| ctimes(&scene.path(name)));
    let src = scene.src.root().to_path_buf();
    let again = command(&scene, &["a", "b", "c"], &[]);
    let (run, [read]) = read_below(&scene, again, [&src]);
    run.assert_code(0);
    is_complete(&scene, "b", &run);
    let missing = data(&scene).saturating_sub(there) + (2 << 20);
    assert!(read <= missing, "{read} read, {missing} missing at b");
    for (name, before) in [("a", a), ("c", c)] {
        let changed = ctimes(&scene.path(name));
        let new: Vec<_> = changed.difference(&before).collect();
        let is_ours = |entry: &&Vec<u8>| entry.windows(8).any(|it| it == b"dircopy-");
        let others = new.iter().filter(|entry| !is_ours(entry)).count();
        assert_eq!(others, 0, "{name} was touched: {new:?}");
    }
    drop(mount);
}

#[test]
fn an_output_that_dies_takes_nobody_with_it() {
    need!(Fuse);
    // Whichever of them is the first to read.
    for dying in ["a", "b", "c"] {
        for args in [&[][..], &NARROW] {
            let scene = scene();
            let below = scene.tree("truth");
            let mut writes = 0;
            let mirror = Mirror::mount(below.root(), &scene.path(dying), move |call| {
                writes += u32::from(call.deed == Deed::Write);
                if writes > 20 { Act::Fail(EIO) } else { Act::Pass }
            });
            let run = command(&scene, &["a", "b", "c"], args).run();
            assert!(mirror.fired() > 0);
            run.assert_code_in(&[1, 3]).assert_no_crash().assert_says("os error 5");
            for name in ["a", "b", "c"].into_iter().filter(|name| *name != dying) {
                is_complete(&scene, name, &run);
            }
        }
    }
}

#[test]
fn a_signal_stops_all() {
    let scene = scene();
    let islands: Vec<_> = (0..400).map(|i| (i << 30, 5)).collect();
    scene.src.sparse("endless", 400 << 30, &islands);
    let mut running = command(&scene, &["a", "b"], &["--no-space-check"]).spawn();
    let parts = |name: &str| {
        let names = names_below(&scene.path(name), "f");
        names.iter().filter(|name| name.ends_with(b".dircopy-part")).count()
    };
    running.until("part files", || parts("a") > 0 && parts("b") > 0);
    running.signal(Signal::INT);
    let run = running.wait();
    run.assert_code(130).assert_no_crash();
    // The verdict says so once.
    let last = run.out().lines().last().unwrap_or_default().to_owned();
    assert!(last.starts_with("INTERRUPTED (exit 130): 0 of 2 outputs complete: "), "{last}");
    assert_eq!(last.matches("finished files are recorded").count(), 1, "{last}");
    for name in ["a", "b"] {
        judge(&scene, name, &run).only_kept_beginnings().lacks("endless");
    }
}

#[test]
fn a_read_error_is_an_error_at_every_output() {
    need!(Fuse);
    let scene = scene();
    let shown = scene.path("shown");
    let _mirror = Mirror::mount(scene.src.root(), &shown, |call| {
        let is_bad = call.deed == Deed::Read && call.path.ends_with("bigger");
        if is_bad { Act::Fail(EIO) } else { Act::Pass }
    });
    let b = scene.path("b");
    let args = ["-o".as_ref(), b.as_os_str()];
    let run = scene.command_to(&shown, scene.path("a"), args).run();
    run.assert_code(1).assert_says("bigger");
    for name in ["a", "b"] {
        judge(&scene, name, &run).verifies().no_leftovers().lacks("bigger").has("big");
    }
}

#[test]
fn each_output_decides_for_itself() {
    let scene = scene();
    let run = command(&scene, &["a"], &[]).run();
    run.assert_code(0);
    scene.src.file("new", content(400_000));
    shell(&scene, "mkdir b; cp -p src/bigger b; echo other > b/big; touch -d 2001-01-01 b/big");
    let run = command(&scene, &["a", "b"], &["--report", "report", "--metrics", "metrics"]).run();
    let report = report(&scene);
    let outputs = report["outputs"].as_array().unwrap();
    assert_eq!(outputs.len(), 2);
    assert_eq!(outputs[0]["counts"]["copied"], 1);
    assert_eq!(outputs[1]["counts"]["unchanged"], 1);
    assert_eq!(outputs[1]["counts"]["replaced"], 1, "{}", run.err());
    run.assert_code(0);
    let metrics = std::fs::read_to_string(scene.path("metrics")).unwrap();
    for name in ["a", "b"] {
        is_complete(&scene, name, &run);
        let label = format!("dircopy_exit_code{{output=\"{}\"}} 0", scene.path(name).display());
        assert!(metrics.contains(&label), "{metrics}");
    }
}

#[test]
fn outputs_that_are_not_apart_are_refused() {
    let scene = scene();
    shell(&scene, "mkdir a; ln -s a same; mkdir a/inner");
    let before = ctimes(scene.root());
    for outputs in [
        &["a", "a"][..],
        &["a", "same"],
        &["new", "new"],
        &["b", "a", "a/new"],
        &["a/inner", "a"],
        &["b", "src/dir 1"],
        &["b", "src"],
        &["b", "."],
    ] {
        let run = command(&scene, outputs, &[]).run();
        run.assert_code(2);
        assert_eq!(ctimes(scene.root()), before, "{outputs:?}");
    }
    // What is wrong with one alone is no reason against the others.
    let run = command(&scene, &["missing/x", "b"], &[]).run();
    run.assert_code(1).assert_says("dircopy: cannot copy to ");
    is_complete(&scene, "b", &run);
    command(&scene, &["missing/x", "missing/y"], &[]).run().assert_code(2);
    // What a link that leads nowhere leads to may be one of them.
    shell(&scene, "ln -s later dangling");
    let run = command(&scene, &["dangling", "later"], &[]).run();
    run.assert_code(1).assert_says("dangling: it is a link that leads nowhere");
    is_complete(&scene, "later", &run);
}

#[test]
fn what_happens_is_told_of_each() {
    let scene = Scene::new();
    scene.src.file("file", "content");
    let run =
        command(&scene, &["a", "b"], &["--verbose", "--log", "log", "--log-format", "json"]).run();
    run.assert_code(0);
    for name in ["a", "b"] {
        let output = scene.path(name).display().to_string();
        run.assert_prints(&[&format!("{output}: copied file")]).assert_prints(&["output", &output]);
        let log = std::fs::read_to_string(scene.path("log")).unwrap();
        let mut lines =
            log.lines().map(|it| serde_json::from_str::<serde_json::Value>(it).unwrap());
        assert!(lines.any(|line| line["event"] == "copied" && line["output"] == output), "{log}");
    }
}

/// The file that is read for all is the one that each output has open and looks at in the end.
#[test]
fn a_link_that_is_turned_meanwhile_brings_no_other_file() {
    need!(Strace);
    let scene = Scene::new();
    scene.tree("files").file("one", content(3 << 20)).file("other", vec![7; 3 << 20]);
    scene.src.symlink("link", "../files/one");
    // Each output opens it, and then one of them for all.
    let strace = Strace::inject(&scene, "openat", "delay_enter=5000000:when=2")
        .on(scene.src.root().join("link"));
    let args = ["--follow-links", "--workers", "1", "--block-size", "64K"];
    let mut running = strace.spawn(command(&scene, &["a", "b"], &args));
    running.until("two have it open", || strace.log().matches(" = ").count() >= 2);
    shell(&scene, "ln -s ../files/other new && mv -T new src/link");
    let run = running.wait();
    strace.fired(&run);
    run.assert_code(0);
    for name in ["a", "b"] {
        shell(&scene, &format!("cmp {name}/link files/one"));
    }
}

/// What one output has is not said of each.
#[test]
fn a_manifest_that_one_output_lacks_is_not_at_each() {
    let scene = scene();
    let run = command(&scene, &["a", "b", "c"], &[]).run();
    run.assert_code(0).assert_prints(&["at each output"]);
    std::fs::write(scene.path("none"), "").unwrap();
    scene.src.file("more", "more");
    let run = command(&scene, &["a", "b", "none/c"], &[]).run();
    assert_ne!(run.code, Some(0));
    assert!(!run.out().contains("at each output"), "{}", run.out());
    assert_eq!(run.out().lines().filter(|line| line.starts_with("manifest ")).count(), 2);
}
