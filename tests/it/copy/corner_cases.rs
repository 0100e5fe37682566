//! Narrow places that an ordinary run never comes through, each found by reading the code for what
//! could go wrong: read-only directories of somebody who is not root, one sync error among many
//! groups, few descriptors, a session that ends, an output that does not tell letter case.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::{fs, os::fd::AsRawFd, time::Duration, time::Instant};

use rustix::process::Signal;

use crate::harness::{NONE, Scene, Strace, content, names_below, need, shell, skipped};

/// The root of a mounted CD or of a package store may not be written to, not even by its owner; so
/// is the copy's root, after everything is in it.
#[test]
fn a_read_only_source_root_of_an_ordinary_user() {
    need!(Root, Setpriv);
    let scene = Scene::new();
    scene.src.file("file", "x").file("dir/inner", content(5000)).mode("dir", 0o555);
    shell(&scene, "chmod 777 .; chown -R 65534:65534 src; chmod 555 src; touch -d 2001-02-03 src");
    let run = scene.command(NONE).under_nobody().run();
    run.assert_code(0);
    scene.judge(&run).lists_all().verifies().no_leftovers();
    let stat = |what: &str| shell(&scene, &format!("stat -c '%a %Y' {what}"));
    assert_eq!(stat("src src/dir"), stat("dst dst/dir"));

    // What the source has more by then still finds its way in.
    shell(&scene, "chmod 755 src src/dir; touch src/new src/dir/new; chown -R 65534 src");
    shell(&scene, "chmod 555 src src/dir");
    let run = scene.command(NONE).under_nobody().run();
    run.assert_code(0);
    scene.judge(&run).lists_all().verifies().no_leftovers().has("new").has("dir/new");
    assert_eq!(shell(&scene, "stat -c %a dst dst/dir"), "555\n555\n");
}

/// The kernel tells of a failed write once. What was being written at that moment may be what was
/// lost, so nothing that comes after may be believed either.
#[test]
fn one_sync_error_ends_the_run() {
    need!(Strace);
    let scene = Scene::new();
    for i in 0..2000 {
        scene.src.file(format!("d{}/f{i}", i % 7), content(i % 3000));
    }
    let strace = Strace::inject(&scene, "syncfs", "error=EIO:when=2");
    let run = strace.run(scene.command(NONE));
    strace.fired(&run);
    run.assert_code(3).assert_says("(os error 5)");
    scene.judge(&run).sound().no_temp_files().lists::<&str>(&[]);
    scene.copy(&[]).assert_code(0);
}

/// Directories are held open while files in them wait for their group; not all at once.
#[test]
fn many_deep_directories_and_few_descriptors() {
    let scene = Scene::new();
    for i in 0..200 {
        scene.src.file(format!("{i}/a/b/c/d/e/f"), "x");
    }
    let run = scene.command(NONE).after("ulimit -n 256").run();
    run.assert_code(0);
    scene.judge(&run).complete();
}

/// Under `nohup` the end of the session is not the end of the copy.
#[test]
fn an_ignored_hangup_stays_ignored() {
    let scene = Scene::new();
    scene.src.file("file", content(300_000));
    let mut running = scene.command(["--limit-rate", "1K"]).after("trap '' HUP").spawn();
    running.until("a part file", || !names_below(&scene.dst, "f").is_empty());
    running.signal(Signal::HUP);
    std::thread::sleep(Duration::from_millis(200));
    assert!(!running.is_over());
    running.signal(Signal::INT);
    running.wait().assert_code(130);
    let mask = shell(&scene, "trap '' HUP; grep SigIgn /proc/self/status | cut -f2");
    assert!(u64::from_str_radix(mask.trim(), 16).unwrap() & 1 == 1, "the test's own premise");
    if !crate::harness::have(&[crate::harness::Need::Strace]) {
        return;
    }
    let strace = Strace::watch(&scene, "rt_sigaction");
    let run = strace.run(scene.command(["--overwrite-policy", "always"]).after("trap '' HUP"));
    run.assert_code(0);
    let log = strace.log();
    let set = |signal: &str| log.contains(&format!("rt_sigaction({signal}, {{sa_handler=0x"));
    assert!(set("SIGINT") && !set("SIGHUP"), "{log}");
}

/// On an output that does not tell letter case, the second of two names that differ in nothing else
/// must not take the first one's place.
#[test]
fn names_that_differ_in_case_only() {
    need!(Loop);
    let scene = Scene::on_disk();
    scene.output();
    let made = shell(
        &scene,
        "truncate -s 64M image; mkfs.ext4 -q -O casefold image && mount -o loop image dst && \
         mkdir dst/folds && chattr +F dst/folds && touch dst/folds/x && test -e dst/folds/X && \
         rm dst/folds/x && echo made || true",
    );
    if !made.contains("made") {
        shell(&scene, "umount dst 2>/dev/null || true");
        return skipped("the kernel's ext4 does not fold case");
    }
    scene.src.file("a", "lower").file("A", "upper and longer").file("other", "x");
    let dst = scene.dst.join("folds");
    for _ in 0..2 {
        let run = scene.command_to(scene.src.root(), dst.clone(), NONE).run();
        run.assert_code(1).assert_says("the same as");
        let names = names_below(&dst, "f");
        assert_eq!(names.iter().filter(|name| name.eq_ignore_ascii_case(b"a")).count(), 1);
    }
    shell(
        &scene,
        "cd dst/folds; sha256sum -c --strict --quiet $(ls dircopy-*.sha256sum | tail -1)",
    );
    shell(&scene, "umount dst");
}

static ASKED: AtomicBool = AtomicBool::new(false);

extern "C" fn note_that_it_is_asked(_: libc::c_int) {
    ASKED.store(true, Relaxed);
}

/// Takes a lease of a kind on a file, or gives it back.
fn lease(file: &fs::File, kind: libc::c_int) -> libc::c_int {
    // SAFETY: the call takes two numbers and a descriptor that is open.
    unsafe { libc::fcntl(file.as_raw_fd(), libc::F_SETLEASE, kind) }
}

/// File servers hold leases on what their clients have open, and give them up when they are asked.
#[test]
fn a_file_with_a_lease_is_waited_for() {
    let scene = Scene::new();
    scene.src.file("f", "leased");
    let file = fs::File::options().read(true).write(true).open(scene.src.path("f")).unwrap();
    // SAFETY: the handler only stores a number.
    unsafe { libc::signal(libc::SIGIO, note_that_it_is_asked as *const () as usize) };
    assert_eq!(lease(&file, libc::F_WRLCK), 0);
    let mut running = scene.command(NONE).spawn();
    running.until("the holder is asked", || ASKED.load(Relaxed));
    assert_eq!(lease(&file, libc::F_UNLCK), 0);
    running.wait().assert_code(0);
    assert_eq!(fs::read(scene.dst.join("f")).unwrap(), b"leased");
}

/// Whoever keeps leases on all files that are his, and gives each up at the last moment, does not delay a run for ever.
#[test]
fn leases_are_waited_for_only_so_long_in_sum() {
    let scene = Scene::new();
    let files: Vec<_> = (0..16)
        .map(|i| {
            let path = scene.src.file(format!("f{i}"), "leased").path(format!("f{i}"));
            fs::File::options().read(true).write(true).open(path).unwrap()
        })
        .collect();
    // SAFETY: the handler only stores a number.
    unsafe { libc::signal(libc::SIGIO, note_that_it_is_asked as *const () as usize) };
    assert!(files.iter().all(|file| lease(file, libc::F_WRLCK) == 0));
    let running = scene.command(NONE).spawn();
    let is_over = AtomicBool::new(false);
    let run = std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut asked = vec![None; files.len()];
            while !is_over.load(Relaxed) {
                for (file, asked) in files.iter().zip(&mut asked) {
                    // SAFETY: the call takes a number and a descriptor that is open.
                    let kind = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_GETLEASE) };
                    let since = asked.get_or_insert_with(Instant::now);
                    if kind == libc::F_WRLCK {
                        *asked = None;
                    } else if since.elapsed() > Duration::from_millis(1500) {
                        lease(file, libc::F_UNLCK);
                    }
                }
                std::thread::sleep(Duration::from_millis(20));
            }
        });
        let run = running.wait();
        is_over.store(true, Relaxed);
        run
    });
    run.assert_code(1).assert_prints(&["copied"]).assert_prints(&["failed"]);
}
