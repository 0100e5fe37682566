//! Going on inside a large file that a killed run left: little is read again, the digest is right, and
//! whatever is not as it should be is begun anew and never written through.

use std::ffi::OsString;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::process::Signal;

use crate::harness::{Run, SOON, Scene, Strace, content, leftover_name, names_below, need, shell};

const MIB: usize = 1 << 20;

/// The size of the blocks here, and so of a write.
const BLOCK: usize = 64 << 10;

/// How much may be read again.
const INTERVAL: usize = 2 * MIB;

const ARGS: [&str; 6] = ["--checkpoint", "2M", "--block-size", "64K", "--queue-size", "2"];

/// A scene with a large file of `len` bytes, and others.
fn scene(len: usize) -> Scene {
    let scene = Scene::new();
    scene.src.file("dir/large", content(len)).file("dir/small", "small").file("other", "other");
    scene
}

/// A copy that is killed at the `write`th write of a thread, which is that of the large file.
fn killed(scene: &Scene, write: usize, args: &[&str]) {
    let fault = format!("signal=KILL:when={write}");
    let strace = Strace::inject(scene, Strace::WRITES, &fault);
    let run = strace.run(scene.command(ARGS.iter().chain(args)));
    assert_ne!(run.code, Some(0), "it was not killed: {}", run.err());
    assert!(!run.err().contains("warning"), "{}", run.err());
}

/// What a killed run left of the large file: the part file and the journal.
fn beginning(scene: &Scene) -> (PathBuf, PathBuf) {
    let names = names_below(&scene.dst, "f");
    let one = |suffix: &[u8], least: u64| {
        let path = |name: &Vec<u8>| scene.output().path(name);
        let large = |path: &PathBuf| path.metadata().unwrap().len() >= least;
        let mut all = names.iter().filter(|name| name.ends_with(suffix)).map(path).filter(large);
        let found = all.next().unwrap_or_else(|| panic!("{names:?}"));
        assert_eq!(all.next(), None);
        found
    };
    (one(b".dircopy-part", 100_000), one(b".dircopy-journal", 0))
}

/// How many bytes of the file at `path` a run read, as `strace` saw it.
fn bytes_read(strace: &Strace, path: &Path) -> usize {
    let (log, of_file) = (strace.log(), format!("<{}>", path.display()));
    let mut reading = std::collections::HashSet::new();
    let mut sum = 0;
    for line in log.lines() {
        let pid = line.split_whitespace().next().unwrap();
        let of_it = line.contains(&of_file) || line.contains("resumed>") && reading.remove(pid);
        if of_it && line.contains("<unfinished ...>") {
            reading.insert(pid.to_owned());
        } else if of_it && let Some((_, result)) = line.rsplit_once(" = ") {
            sum += result.split_whitespace().next().unwrap().parse::<usize>().unwrap_or(0);
        }
    }
    sum
}

/// Runs the copy again and judges it; how much of the large file was read.
fn again(scene: &Scene, args: &[&str]) -> (Run, usize) {
    let strace = Strace::watch(scene, Strace::READS);
    let run = strace.run(scene.command(ARGS.iter().chain(args).chain(&["-v"])));
    scene.judge(&run).complete();
    (run, bytes_read(&strace, &scene.src.path("dir/large")))
}

#[track_caller]
fn begun_anew(scene: &Scene, args: &[&str]) -> Run {
    let (run, read) = again(scene, args);
    assert!(!run.out().contains("resumed"), "{}", run.out());
    assert_eq!(read, scene.src.read("dir/large").len());
    run
}

#[test]
fn a_killed_copy_goes_on_in_the_middle() {
    need!(Strace);
    for args in [&[][..], &["--workers", "1"], &["--workers", "1", "--queue-size", "1"]] {
        let scene = Scene::on_disk();
        let len = 20 * MIB + 4321;
        scene.src.file("dir/large", content(len)).file("dir/small", "small");
        let writes = 17 * MIB / BLOCK;
        let args: Vec<&str> = ARGS[..4].iter().chain(args).copied().collect();
        let strace = Strace::inject(&scene, Strace::WRITES, &format!("signal=KILL:when={writes}"));
        assert_ne!(strace.run(scene.command(&args)).code, Some(0));
        let strace = Strace::watch(&scene, Strace::READS);
        let run = strace.run(scene.command(args.iter().chain(&["-v"])));
        scene.judge(&run).complete();
        run.assert_prints(&["resumed", "dir/large"]).assert_prints(&["resumed", "1 file of these"]);
        let read = bytes_read(&strace, &scene.src.path("dir/large"));
        assert!(read >= len - 17 * MIB, "{read} bytes read: more was believed than was written");
        assert!(read + 17 * MIB <= len + INTERVAL, "{read} bytes read of {len}");
    }
}

/// Killed again and again, it still comes to its end.
#[test]
fn it_goes_on_more_than_once() {
    need!(Strace);
    let scene = scene(20 * MIB);
    let mut offset = 0;
    for _ in 0..4 {
        killed(&scene, 4 * MIB / BLOCK, &[]);
        let (part, _) = beginning(&scene);
        let len = part.metadata().unwrap().len() as usize;
        assert!(len >= offset + 2 * MIB, "{len} bytes after {offset}");
        offset = len;
    }
    let (_, read) = again(&scene, &[]);
    assert!(read < 8 * MIB, "{read}");
}

/// Digests whose programs write their state down are gone on with, also several and without SHA-256 among them.
#[test]
fn digests_of_other_algorithms_go_on() {
    need!(Strace);
    let cases = [
        ("--hash=sha256,sha512,sha1,md5", "--resume=auto"),
        ("--hash=sha512", "--resume=verify"),
        ("--hash=md5,sha1,c4", "--resume=verify"),
    ];
    for (hash, resume) in cases {
        let scene = scene(20 * MIB);
        killed(&scene, 12 * MIB / BLOCK, &[hash]);
        let strace = Strace::watch(&scene, Strace::READS);
        let run = strace.run(scene.command(ARGS.iter().chain(&[hash, resume, "-v"])));
        run.assert_code(0).assert_prints(&["resumed", "dir/large"]);
        let read = bytes_read(&strace, &scene.src.path("dir/large"));
        assert!(read < 14 * MIB, "{hash}: {read}");
        scene.bare(["verify", "dst", "--complete", "-q"]).run().assert_code(0);
        let check = "cd dst && for list in dircopy-*sum; do ${list##*.} -c --strict --quiet $list || exit; done";
        shell(&scene, check);
    }
    // With other digests than the journal has, or one that cannot be written down, a file is begun anew.
    for (first, second) in [
        ("--hash=sha256,md5", "--hash=sha256,sha1"),
        ("--hash=sha256", "--hash=sha256,md5"),
        ("--hash=sha256,md5", "--hash=sha256"),
        ("--hash=sha512", "--hash=sha256"),
        ("--hash=sha256", "--hash=sha256,xxh3"),
    ] {
        let scene = scene(6 * MIB);
        killed(&scene, 5 * MIB / BLOCK, &[first]);
        let run = scene.command(ARGS.iter().chain(&[second, "-v"])).run();
        run.assert_code(0);
        assert!(!run.out().contains("resumed"), "{second}: {}", run.out());
        scene.judge(&run).lists_all().verifies().no_leftovers();
        shell(&scene, "diff -r -x '.dircopy' -x 'dircopy-*' src dst");
    }
}

#[test]
fn a_source_that_changed_is_begun_anew() {
    need!(Strace);
    type Change = fn(&Scene);
    let changes: [Change; 4] = [
        |s| {
            s.src.append("dir/large", b"more");
        },
        |s| {
            let time = s.src.stat("dir/large");
            let mut bytes = s.src.read("dir/large");
            bytes[17] ^= 1;
            s.src.file("dir/large", bytes);
            let nanos = u32::try_from(time.st_mtime_nsec).unwrap();
            s.src.mtime("dir/large", time.st_mtime.unsigned_abs(), nanos);
        },
        |s| {
            let bytes = s.src.read("dir/large").iter().map(|byte| !byte).collect::<Vec<_>>();
            s.tree(".").file("new", bytes);
            std::fs::rename(s.path("new"), s.src.path("dir/large")).unwrap();
        },
        |s| {
            s.src.file("dir/large", content(9 * MIB));
        },
    ];
    for change in changes {
        let scene = scene(10 * MIB);
        killed(&scene, 8 * MIB / BLOCK, &[]);
        beginning(&scene);
        change(&scene);
        begun_anew(&scene, &[]).assert_says("a run that was killed left it");
    }
}

/// What changes while the rest is read: the beginning is void too.
#[test]
fn a_source_that_changes_while_it_is_gone_on_with_is_begun_anew() {
    need!(Strace);
    let scene = scene(10 * MIB);
    killed(&scene, 8 * MIB / BLOCK, &[]);
    let strace = Strace::inject(&scene, Strace::READS, "signal=SIGSTOP:when=1")
        .exactly_on(scene.src.path("dir/large"));
    let run = strace.run_stopped(scene.command(ARGS), || {
        let bytes = scene.src.read("dir/large").iter().map(|byte| !byte).collect::<Vec<_>>();
        scene.src.file("dir/large", bytes);
    });
    scene.judge(&run).complete();
    run.assert_says("read again");
    assert!(!run.out().contains("resumed"), "{}", run.out());
}

#[test]
fn a_torn_journal_or_part_is_not_believed() {
    need!(Strace);
    type Tear = fn(&mut Vec<u8>);
    let tears: [(&str, Tear); 5] = [
        ("empty", |bytes| bytes.clear()),
        ("header only", |bytes| bytes.truncate(4096)),
        ("header damaged", |bytes| bytes[30] ^= 1),
        ("both slots damaged", |bytes| {
            bytes[4096] ^= 1;
            bytes[8192 + 20] ^= 1;
        }),
        ("another format", |bytes| bytes[16] = b'9'),
    ];
    for (what, tear) in tears {
        let scene = scene(10 * MIB);
        killed(&scene, 8 * MIB / BLOCK, &[]);
        let (part, journal) = beginning(&scene);
        let mut bytes = std::fs::read(&journal).unwrap();
        tear(&mut bytes);
        std::fs::write(&journal, bytes).unwrap();
        let run = begun_anew(&scene, &[]);
        for path in [part, journal] {
            let name = path.file_name().unwrap().to_str().unwrap();
            assert!(run.err().contains(&format!("removed dir/{name}")), "{what}: {}", run.err());
        }
    }
    // One slot leaves the other, which is older.
    for slot in [4096, 8192] {
        let scene = scene(10 * MIB);
        killed(&scene, 8 * MIB / BLOCK, &[]);
        let (_, journal) = beginning(&scene);
        let mut bytes = std::fs::read(&journal).unwrap();
        bytes[slot] ^= 1;
        std::fs::write(&journal, bytes).unwrap();
        let (run, read) = again(&scene, &[]);
        run.assert_prints(&["resumed", "dir/large"]);
        assert!(read < 6 * MIB, "{read}");
    }
    // A part file that lost its end.
    let scene = scene(10 * MIB);
    killed(&scene, 8 * MIB / BLOCK, &[]);
    let (part, _) = beginning(&scene);
    std::fs::OpenOptions::new().write(true).open(part).unwrap().set_len(100_000).unwrap();
    begun_anew(&scene, &[]).assert_says("copied from its beginning");
}

/// Somebody puts something else in the place of what the killed run left.
#[test]
fn nothing_planted_is_written_to() {
    need!(Strace);
    type Plant = fn(&Path, &Path);
    let remove = |path: &Path| std::fs::remove_file(path).unwrap();
    let plants: [(&str, Plant); 4] = [
        ("a symbolic link", |victim, at| std::os::unix::fs::symlink(victim, at).unwrap()),
        ("a hard link", |victim, at| std::fs::hard_link(victim, at).unwrap()),
        ("somebody else's file", |victim, at| {
            std::fs::copy(victim, at).unwrap();
            std::os::unix::fs::chown(at, Some(12345), Some(12345)).unwrap();
        }),
        ("a FIFO", |_, at| {
            let mode = rustix::fs::Mode::from_raw_mode(0o600);
            rustix::fs::mknodat(rustix::fs::CWD, at, rustix::fs::FileType::Fifo, mode, 0).unwrap();
        }),
    ];
    for (what, plant) in plants {
        for which in ["part", "journal"] {
            let scene = scene(10 * MIB);
            killed(&scene, 8 * MIB / BLOCK, &[]);
            let (part, journal) = beginning(&scene);
            let at = if which == "part" { part } else { journal };
            let victim = scene.path("victim");
            // What it says is right; only where it lies is not.
            std::fs::copy(&at, &victim).unwrap();
            let before = (std::fs::read(&victim).unwrap(), victim.metadata().unwrap().mode());
            remove(&at);
            plant(&victim, &at);
            begun_anew(&scene, &[]);
            let after = (std::fs::read(&victim).unwrap(), victim.metadata().unwrap().mode());
            assert!(before == after, "{what} in place of the {which}: written to");
        }
    }
}

/// The source has a file of the name that the journal would have: it is copied as any other.
#[test]
fn a_source_file_of_the_journals_name_is_copied() {
    need!(Strace);
    let scene = scene(10 * MIB);
    killed(&scene, 8 * MIB / BLOCK, &[]);
    let (_, journal) = beginning(&scene);
    let name = journal.file_name().unwrap().to_str().unwrap().to_owned();
    std::fs::remove_dir_all(&scene.dst).unwrap();
    scene.src.file(format!("dir/{name}"), "of the user");
    let run = scene.command(ARGS).run();
    run.assert_code(0);
    assert_eq!(scene.output().read(format!("dir/{name}")), b"of the user");
    scene.judge(&run).verifies();
}

#[test]
fn what_is_there_is_verified_when_asked() {
    need!(Strace);
    let scene = scene(10 * MIB);
    killed(&scene, 8 * MIB / BLOCK, &[]);
    let (run, read) = again(&scene, &["--resume", "verify"]);
    run.assert_prints(&["resumed", "dir/large"]);
    assert!(read < 5 * MIB, "{read}");

    let scene = self::scene(10 * MIB);
    killed(&scene, 8 * MIB / BLOCK, &[]);
    let (part, _) = beginning(&scene);
    let mut bytes = std::fs::read(&part).unwrap();
    bytes[4 * MIB] ^= 1;
    std::fs::write(&part, bytes).unwrap();
    begun_anew(&scene, &["--resume", "verify"]).assert_says("not what was written");
}

/// What was written to since the run ended is not gone on with; what nobody touched is, and is not read.
#[test]
fn a_beginning_that_was_written_to_since_is_read() {
    need!(Strace);
    for edits in [false, true] {
        let scene = scene(10 * MIB);
        let args = [&ARGS[..], &["--limit-rate", "4M"]].concat();
        let mut running = scene.command(&args).spawn();
        let noted = || {
            let names = names_below(&scene.dst, "f");
            let mut parts = names.iter().filter(|name| name.ends_with(b".dircopy-part"));
            parts.any(|name| {
                scene.output().path(name).metadata().is_ok_and(|at| at.len() > 5 * MIB as u64)
            })
        };
        running.until("half of it is there", noted);
        running.signal(Signal::TERM);
        running.wait().assert_code(143).assert_says("of dir/large are kept");
        let (part, _) = beginning(&scene);
        if edits {
            let edit = "printf R | dd conv=notrunc status=none bs=1 seek=1000000 of=";
            shell(&scene, &format!("{edit}{}", part.display()));
            begun_anew(&scene, &[]).assert_says("not what was written");
            continue;
        }
        let strace = Strace::watch(&scene, Strace::READS);
        let run = strace.run(scene.command(ARGS));
        scene.judge(&run).complete();
        assert!(bytes_read(&strace, &scene.src.path("dir/large")) < 8 * MIB);
        assert_eq!(bytes_read(&strace, &part), 0);
    }
}

#[test]
fn without_resume_everything_is_begun_anew() {
    need!(Strace);
    let scene = scene(10 * MIB);
    killed(&scene, 8 * MIB / BLOCK, &[]);
    beginning(&scene);
    begun_anew(&scene, &["--resume", "off"]).assert_says("a run that was killed left it");
    // Where nothing is made durable or hashed, there is nothing to go on with.
    for args in [&["--resume", "off"][..], &["--no-sync"]] {
        let scene = self::scene(10 * MIB);
        killed(&scene, 8 * MIB / BLOCK, args);
        let names = names_below(&scene.dst, "f");
        assert!(!names.iter().any(|name| name.ends_with(b".dircopy-journal")), "{names:?}");
        begun_anew(&scene, &[]);
    }
    let scene = self::scene(10 * MIB);
    let strace = Strace::watch(&scene, Strace::OPENS);
    strace.run(scene.command(ARGS.iter().chain(&["--hash", "none"]))).assert_code(0);
    assert!(!strace.log().contains("dircopy-journal"), "{}", strace.log());
}

/// A beginning of a file that this run does not copy does not stay.
#[test]
fn what_is_not_gone_on_with_is_removed() {
    need!(Strace);
    type Change = fn(&Scene);
    let keep = |s: &Scene| {
        let copied = std::process::Command::new("cp")
            .args(["-p".into(), s.src.path("dir/large"), s.dst.join("dir/large")])
            .status();
        assert!(copied.unwrap().success());
    };
    let cases: [(&str, &[&str], Change); 5] = [
        ("removed", &[], |s| {
            s.src.remove("dir/large");
        }),
        ("excluded", &["--exclude", "large"], |_| {}),
        ("kept", &[], keep),
        ("left", &[], |s| {
            s.output().file("dir/large", content(12 * MIB));
        }),
        ("a link by now", &[], |s| {
            s.src.remove("dir/large").symlink("dir/large", "small");
        }),
    ];
    for (what, args, change) in cases {
        let scene = scene(10 * MIB);
        killed(&scene, 8 * MIB / BLOCK, &[]);
        let (part, journal) = beginning(&scene);
        change(&scene);
        let run = scene.command(ARGS.iter().chain(args).chain(&["-v"])).run();
        if !matches!((what, run.code), ("left", Some(1)) | (_, Some(0))) {
            run.fail(what);
        }
        scene.judge(&run).verifies().no_leftovers();
        for path in [part, journal] {
            run.assert_says(&format!("removed dir/{}", path.file_name().unwrap().display()));
        }
    }
}

/// A single file is swept and gone on with too.
#[test]
fn a_source_that_is_a_file_goes_on() {
    need!(Strace);
    let scene = scene(10 * MIB);
    let command = |args: &[&str]| {
        scene.command_to(scene.src.path("dir/large"), &scene.dst, ARGS.iter().chain(args))
    };
    let fault = format!("signal=KILL:when={}", 8 * MIB / BLOCK);
    Strace::inject(&scene, Strace::WRITES, &fault).run(command(&[]));
    beginning(&scene);
    let left = leftover_name(&scene.dst);
    scene.output().file(&left, "left by another run");
    let run = command(&["-v"]).run();
    run.assert_code(0).assert_prints(&["resumed", "large"]).assert_says(&left);
    assert_eq!(scene.output().read("large"), scene.src.read("dir/large"));
    scene.judge(&run).verifies().no_leftovers();
}

#[test]
fn an_interrupted_copy_leaves_only_what_it_names() {
    for signal in [Signal::INT, Signal::TERM] {
        let scene = Scene::new();
        let islands: Vec<_> = (0..400).map(|i| (i << 30, 5)).collect();
        scene.src.sparse("endless", 400 << 30, &islands).file("small", "small");
        let mut running = scene.command(["--checkpoint", "64M"]).spawn();
        let noted = || {
            names_below(&scene.dst, "f").iter().any(|name| {
                name.ends_with(b".dircopy-journal")
                    && scene.output().path(name).metadata().is_ok_and(|at| at.len() > 8192)
            })
        };
        running.until("two checkpoints", noted);
        let since = std::time::Instant::now();
        running.signal(signal);
        let run = running.wait();
        run.assert_code_in(&[130, 143]);
        assert!(since.elapsed() < SOON, "{:?}", since.elapsed());
        run.assert_says("of endless are kept");
        scene.judge(&run).only_kept_beginnings().lacks("endless");
    }
}

#[test]
fn a_sparse_file_goes_on_with_its_holes() {
    need!(Strace);
    let scene = Scene::on_disk();
    // Data and holes of a megabyte each, and a hole longer than an interval.
    let islands: Vec<_> = (0..8).chain(16..24).map(|i| ((2 * i * MIB) as u64, MIB)).collect();
    scene.src.sparse("dir/large", 50 * MIB as u64, &islands);
    // How much of the data is written when it is killed, and what is left to be read then, by who reads the holes.
    let trust = ["--holes", "trust"];
    for (args, data, left) in [
        (&trust[..], 5, 11),
        (&trust, 8, 8),
        (&trust, 9, 7),
        (&trust, 14, 2),
        (&[], 5, 41),
        (&[], 9, 18),
    ] {
        let _ = std::fs::remove_dir_all(&scene.dst);
        killed(&scene, data * MIB / BLOCK - 1, args);
        let (run, read) = again(&scene, args);
        run.assert_prints(&["resumed", "dir/large"]);
        assert!(read <= left * MIB + INTERVAL, "{args:?}: {read} after {data} MiB");
        let blocks = |path: PathBuf| path.metadata().unwrap().blocks();
        let (source, copy) =
            (blocks(scene.src.path("dir/large")), blocks(scene.dst.join("dir/large")));
        assert!(copy <= source + 64, "{copy} blocks at the output, {source} before");
    }
}

/// A run that reads what is called a hole does not go on with one that believed it.
#[test]
fn what_was_believed_is_not_gone_on_with() {
    need!(Strace);
    let scene = Scene::on_disk();
    scene.src.sparse("dir/large", 10 * MIB as u64, &[(MIB as u64, 9 * MIB)]);
    killed(&scene, 6 * MIB / BLOCK, &["--holes", "trust"]);
    begun_anew(&scene, &[]);
    std::fs::remove_dir_all(&scene.dst).unwrap();
    killed(&scene, 6 * MIB / BLOCK, &[]);
    again(&scene, &["--holes", "trust"]).0.assert_prints(&["resumed", "dir/large"]);
}

/// What cannot be made durable may be lost: the file fails. A note that cannot be made is only missed.
#[test]
fn an_error_of_a_checkpoint_is_an_error() {
    need!(Strace);
    for when in ["1", "3"] {
        let scene = scene(10 * MIB);
        let strace = Strace::inject(&scene, "fdatasync", &format!("error=EIO:when={when}"));
        let run = strace.run(scene.command(ARGS));
        strace.fired(&run);
        run.assert_code(1).assert_says("large");
        let judge = scene.judge(&run);
        judge.lists(&["dir/small", "other"]).verifies().no_leftovers().lacks("dir/large");
    }
    let scene = scene(10 * MIB);
    let strace = Strace::inject(&scene, "fdatasync", "error=EIO:when=2+2");
    let run = strace.run(scene.command(ARGS));
    strace.fired(&run);
    scene.judge(&run).complete();
}

/// A note is written when what it speaks of is durable, and not before.
#[test]
fn a_note_follows_what_it_speaks_of() {
    need!(Strace);
    let scene = scene(10 * MIB);
    let strace = Strace::watch(&scene, "fdatasync,write,pwrite64");
    scene.judge(&strace.run(scene.command(ARGS))).complete();
    let log = strace.log();
    let noting: Vec<_> = log
        .lines()
        .filter(|line| line.contains("fdatasync(") || line.contains("-journal>, \"\\"))
        .filter_map(|line| line.split_once(' '))
        .map(|(_, call)| (call.contains("fdatasync"), call.contains("-journal>")))
        .collect();
    assert!(noting.len() >= 12, "{log}");
    for four in noting.chunks(4) {
        // The states of the chain, and then the note itself.
        assert_eq!(four, [(true, false), (false, true), (false, true), (true, true)], "{log}");
    }
}

/// Kills at random moments of a copy with one large and many small files.
/// `DIRCOPY_TEST_KILLS` says how many; there is time for a few.
#[test]
fn kills_at_random_moments() {
    need!(Strace);
    let kills = std::env::var("DIRCOPY_TEST_KILLS").map_or(6, |kills| kills.parse().unwrap());
    let len = 24 * MIB;
    let scene = Scene::new();
    scene.src.file("dir/large", content(len));
    for i in 0..300 {
        scene.src.file(format!("small/{}/{i}", i % 7), content(i * 40));
    }
    let large = scene.src.path("dir/large");
    let mut seed = std::process::id() as usize;
    let (mut resumed, mut most) = (0, 0);
    for kill in 0..kills {
        let _ = std::fs::remove_dir_all(&scene.dst);
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let first = Strace::watch(&scene, Strace::READS).exactly_on(&large);
        let mut running = first.spawn(scene.command(ARGS));
        let log = || std::fs::metadata(first.log_path()).map_or(0, |log| log.len() as usize);
        // By how far it is, because how fast it is depends on what else the machine does.
        let moment = (seed >> 33) % 60_000;
        while !running.is_over() && log() < moment {
            std::thread::sleep(Duration::from_micros(200));
        }
        if !running.is_over() {
            running.signal(Signal::KILL);
        }
        running.wait();
        let second = Strace::watch(&scene, Strace::READS).exactly_on(&large);
        let run = second.run(scene.command(ARGS));
        scene.judge(&run).complete();
        let read = bytes_read(&first, &large) + bytes_read(&second, &large);
        assert!(read <= len + INTERVAL, "kill {kill}: {read} bytes read of {len}");
        (resumed, most) = (resumed + usize::from(run.out().contains("resumed")), most.max(read));
    }
    println!("{kills} kills, {resumed} gone on with, at most {} bytes read again", most - len);
}

/// The option for tests is no option for users.
#[test]
fn the_interval_is_hidden() {
    let scene = Scene::new();
    let help = scene.bare([OsString::from("--help")]).run();
    help.assert_code(0).assert_prints(&["--resume"]);
    assert!(!help.out().contains("--checkpoint"));
}

/// The part file kept the access list that its directory had given it, although the directory gives none any more.
#[test]
fn a_part_file_has_no_access_list_of_a_directory_that_had_one() {
    need!(Strace, Attr);
    let scene = scene(20 * MIB);
    shell(
        &scene,
        "mkdir -p dst/dir && setfacl -d -m u:65534:rwx dst/dir && chmod 644 src/dir/large",
    );
    killed(&scene, 12 * MIB / BLOCK, &[]);
    let (part, _) = beginning(&scene);
    let list = |path: &Path| shell(&scene, &format!("getfacl -cp {}", path.display()));
    assert!(list(&part).contains("user:nobody"), "{}", list(&part));
    shell(&scene, "setfacl -k dst/dir");
    let (run, _) = again(&scene, &[]);
    run.assert_prints(&["resumed", "1 file of these"]);
    assert_eq!(list(&scene.output().path("dir/large")), list(&scene.src.path("dir/large")));
}
