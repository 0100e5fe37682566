//! The order of things that makes a power cut harmless: bytes on the disk, then the name, then the
//! line. Seen from outside in the order of the calls.

use crate::harness::{NONE, Scene, Strace, content, long, need};

const RENAMES: &str = "rename,renameat,renameat2,link,linkat";
const CALLS: &str =
    "fsync,fdatasync,syncfs,rename,renameat,renameat2,link,linkat,write,pwrite64,writev";

/// The calls as words, in the order in which they were begun.
fn calls(log: &str) -> Vec<(String, String)> {
    let call = |line: &str| {
        let line = line.split_once(' ').map_or(line, |(_, rest)| rest.trim_start());
        let (name, rest) = line.split_once('(')?;
        Some((name.to_owned(), rest.to_owned()))
    };
    log.lines().filter_map(call).collect()
}

#[test]
fn bytes_before_name_before_line() {
    need!(Strace);
    for (len, old) in [(100, false), (300_000, false), (100, true), (300_000, true)] {
        let scene = Scene::on_disk();
        for i in 0..3 {
            scene.src.file(format!("dir/file-{i}"), content(len + i));
        }
        let mut strace = Strace::watch(&scene, CALLS);
        if old {
            strace = strace.on_an_old_kernel();
        }
        let run = strace.run(scene.command(NONE));
        scene.judge(&run).complete();
        let calls = calls(&strace.log());
        let is_sync = |call: &str| Strace::SYNCS.split(',').any(|name| name == call);
        let is_rename = |call: &str| RENAMES.split(',').any(|name| name == call);
        for i in 0..3 {
            let name = format!("file-{i}\"");
            let named = calls.iter().position(|(c, a)| is_rename(c) && a.contains(&name));
            let line = calls
                .iter()
                .position(|(c, a)| c.contains("write") && a.contains(".sha256sum.part>"));
            let (Some(named), Some(line)) = (named, line) else {
                run.fail(&format!("no rename or no line for {name}\n{}", strace.log()));
            };
            let synced = calls[..named].iter().any(|(c, _)| is_sync(c));
            // Without a sync of the whole file system it takes one of the directory.
            let of = if old { "/dst/dir>" } else { "" };
            let name_synced =
                calls[named..line.max(named)].iter().any(|(c, a)| is_sync(c) && a.contains(of));
            if !synced || !name_synced {
                run.fail(&format!("named or listed before it was durable\n{}", strace.log()));
            }
        }
        let published = calls.iter().rposition(|(c, a)| is_rename(c) && a.contains(".sha256sum"));
        let list_synced =
            calls.iter().rposition(|(c, a)| is_sync(c) && a.contains(".sha256sum.part>"));
        if published.is_none() || list_synced.is_none() || list_synced > published {
            run.fail(&format!(
                "the manifest was published before it was durable\n{}",
                strace.log()
            ));
        }
    }
}

/// What a power cut leaves must be known as ours, so the secret in its name is on the disk before it.
#[test]
fn the_secret_before_what_bears_it() {
    need!(Strace);
    for again in [false, true] {
        let scene = Scene::on_disk();
        scene.src.file("dir/file", content(100));
        if again {
            scene.copy(&["--no-sync"]).assert_code(0);
            scene.src.file("dir/more", content(100));
        }
        let strace = Strace::watch(&scene, &format!("{CALLS},{}", Strace::OPENS));
        let run = strace.run(scene.command(NONE));
        scene.judge(&run).complete();
        let calls = calls(&strace.log());
        let of = |call: &str, what: &str| {
            calls.iter().position(|(c, a)| c.starts_with(call) && a.contains(what))
        };
        let is_made = |(c, a): &(String, String)| {
            c.starts_with("openat") && a.contains(".dircopy-part\"") && a.contains("dst/dir>")
        };
        let order = [
            of("f", if again { ".dircopy/secret>" } else { ".dircopy/." }),
            of("fsync", "dst/.dircopy>"),
            of("fsync", "dst>"),
            calls.iter().position(is_made),
        ];
        let is_ordered = order.iter().all(Option::is_some) && order.is_sorted();
        assert!(is_ordered, "{order:?}\n{}", strace.log());
    }
}

/// Flushing is what costs on a disk: many small files share it.
#[test]
fn small_files_share_their_flushes() {
    need!(Strace);
    let scene = Scene::new();
    for i in 0..500 {
        scene.src.file(format!("file-{i}"), content(i));
    }
    let strace = Strace::watch(&scene, Strace::SYNCS);
    let run = strace.run(scene.command(NONE));
    scene.judge(&run).complete();
    let flushes = strace.log().lines().count();
    assert!(flushes <= 100, "{flushes} flushes for 500 small files");
}

/// One sync makes all durable that was there before a run; the lines of what it finds untouched need no further one.
#[test]
fn what_was_durable_before_waits_for_one_flush() {
    need!(Strace);
    let scene = Scene::new();
    // Each line is so long that 3,000 of them are much.
    let tail = "x".repeat(240);
    for i in 0..if long() { 30_000 } else { 10_000 } {
        scene.src.file(format!("{i:05}{tail}"), "");
    }
    for _ in 0..2 {
        scene.command(["-q"]).run().assert_code(0);
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    scene.src.file("new", "new");
    let flushes = |args: &[&str]| {
        let strace = Strace::watch(&scene, "syncfs");
        let run = strace.run(scene.command(args));
        scene.judge(&run).complete();
        strace.log().lines().filter(|line| !line.contains("syncfs(-1")).count()
    };
    // The first lines wait for one, the new file for two, of which the last has the names of all, and the directory for one.
    let known = flushes(&[]);
    assert!(known <= 4, "{known} flushes for one new file");
}

/// The kernel reports a failed flush once: what waited for it is not listed after another that goes well.
#[test]
fn a_failed_flush_is_final_for_what_was_there() {
    need!(Strace);
    let scene = Scene::new();
    let tail = "x".repeat(240);
    for i in 0..12_000 {
        scene.src.file(format!("{i:05}{tail}"), "");
    }
    scene.command(["-q"]).run().assert_code(0);
    // The first only asks whether there is one for this process.
    let strace = Strace::inject(&scene, "syncfs", "error=EIO:when=2");
    let run = strace.run(scene.command(["-q"]));
    strace.fired(&run);
    run.assert_code(3).assert_says("cannot make durable");
    let log = strace.log();
    let flushes = log.lines().filter(|line| !line.contains("syncfs(-1")).count();
    assert!(flushes == 1, "flushed again:\n{log}");
    scene.judge(&run).does_not_list(format!("00000{tail}"));
}

/// Before Linux 5.17 a sync of a whole file system says that all is well when its journal could not be written. There each
/// file is synced by itself; the manifest and the root are in any case.
#[test]
fn a_kernel_that_drops_errors_of_a_journal_is_asked_for_each_file() {
    need!(Strace);
    for (kernel, at_once) in [("5.16.20-1-generic", false), ("5.8.0", false), ("5.17.0", true)] {
        let scene = Scene::on_disk();
        for i in 0..20 {
            scene.src.file(format!("dir/file-{i}"), content(100 + i));
        }
        let calls = format!("uname,{}", Strace::SYNCS);
        let strace = Strace::watch(&scene, &calls).on_kernel(kernel);
        let run = strace.run(scene.command(NONE));
        strace.fired(&run);
        scene.judge(&run).complete();
        let log = strace.log();
        let count = |call: &str| {
            let is_one = |line: &&str| line.contains(call) && !line.contains("syncfs(-1");
            log.lines().filter(is_one).count()
        };
        assert_eq!(count("syncfs(") > 0, at_once, "{kernel}:\n{log}");
        assert_eq!(count("sync(") >= 20, !at_once, "{kernel}:\n{log}");
        let root = format!("{}>)", scene.dst.display());
        assert!(count(".sha256sum.part>)") > 0 && count(&root) > 0, "{kernel}:\n{log}");
    }
}

#[test]
fn no_sync_means_no_flush_of_the_files() {
    need!(Strace);
    let scene = Scene::new();
    for i in 0..50 {
        scene.src.file(format!("file-{i}"), content(i));
    }
    let strace = Strace::watch(&scene, Strace::SYNCS);
    let run = strace.run(scene.command(["--no-sync"]));
    scene.judge(&run).complete();
    let log = strace.log();
    // A bad descriptor only asks whether there is a `syncfs` for this process.
    let others = [".sha256sum", "syncfs(-1"];
    let of_files = log.lines().filter(|line| !others.iter().any(|it| line.contains(it))).count();
    assert!(of_files == 0, "flushed nevertheless:\n{log}");
}
