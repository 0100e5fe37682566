//! What is said, where, and that saying it never costs the copy.

use std::fs::OpenOptions;

use crate::harness::several::command;
use crate::harness::{Mount, NONE, Run, Scene, Strace, content, need};

fn scene() -> Scene {
    let scene = Scene::new();
    scene.src.file("dir/file", content(5000)).file("big", content(300_000)).file("small", "s");
    scene
}

#[test]
fn a_good_run_sums_up_on_stdout_and_is_silent_on_stderr() {
    let scene = scene();
    let run = scene.copy(&[]);
    run.assert_code(0);
    assert!(!run.stdout.is_empty() && run.stderr.is_empty(), "{}{}", run.out(), run.err());
    assert!(run.out().lines().count() < 30, "a summary, not a listing:\n{}", run.out());
}

#[test]
fn quiet_is_quiet_and_verbose_names_every_file() {
    let scene = scene();
    let run = scene.copy(&["-q"]);
    run.assert_code(0);
    assert!(run.stdout.is_empty() && run.stderr.is_empty(), "{}{}", run.out(), run.err());
    let scene = self::scene();
    let run = scene.copy(&["-v"]);
    run.assert_code(0)
        .assert_prints(&["dir/file"])
        .assert_prints(&["big"])
        .assert_prints(&["small"]);
}

#[test]
fn quiet_does_not_hide_failures() {
    let scene = scene();
    scene.output().file("big", "differs");
    scene.copy(&["-q", "--overwrite-policy", "never"]).assert_code(1).assert_says("big");
}

#[test]
fn failures_say_deed_path_and_reason() {
    let scene = scene();
    scene.output().file("dir", "in the way");
    let run = scene.copy(&[]);
    run.assert_code(1);
    let said = run
        .err()
        .lines()
        .any(|l| l.starts_with("dircopy: ") && l.contains("dir") && l.contains(": "));
    assert!(said, "{}", run.err());
}

#[test]
fn progress_goes_to_stderr_only() {
    let scene = scene();
    let run = scene.copy(&["--progress", "always"]);
    run.assert_code(0);
    assert!(!run.stdout.contains(&0x1b), "{}", run.out());
    scene.judge(&run).complete();
    for progress in ["auto", "never"] {
        let scene = self::scene();
        let run = scene.copy(&["--progress", progress]);
        run.assert_code(0);
        assert!(run.stderr.is_empty(), "no terminal, no progress: {}", run.err());
    }
}

/// The copy is whole, whatever became of the words.
#[track_caller]
fn copied(scene: &Scene, run: &Run) {
    run.assert_no_crash();
    scene.judge(run).same_tree().lists_all().no_temp_files();
    scene.judge(run).list_verifies(&scene.judge(run).manifest());
}

#[test]
fn a_full_stdout_does_not_cost_the_copy() {
    for args in [&NONE[..], &["-v"]] {
        let scene = scene();
        let full = OpenOptions::new().write(true).open("/dev/full").unwrap();
        let run = scene.command(args).stdout(full).run();
        copied(&scene, &run);
        assert_ne!(run.code, Some(0), "the summary is lost, and exit 0");
        let why = "cannot write to standard output: No space left on device";
        assert_eq!(run.err().matches(why).count(), 1, "{}", run.err());
    }
}

#[test]
fn a_reader_of_stdout_that_left_does_not_cost_the_copy() {
    for args in [&NONE[..], &["-v"]] {
        let scene = scene();
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let run = scene.command(args).stdout(writer).run();
        copied(&scene, &run);
        assert_ne!(run.code, Some(0), "the summary is lost, and exit 0");
        run.assert_says("cannot write to standard output: Broken pipe");
    }
}

/// Rust opens `/dev/null` in the place of a closed descriptor before `main`, so the exit code may
/// be 0: nothing was refused. What must not happen is that a file of the output gets the number 1.
#[test]
fn closed_streams_do_not_cost_the_copy() {
    for closed in [">&-", "2>&-", "<&-", ">&- 2>&-", "<&- >&- 2>&-"] {
        let scene = scene();
        let run = scene.command(["-v"]).in_shell(&format!("exec \"$@\" {closed}")).run();
        copied(&scene, &run);
        let is_told = run.err().contains("cannot write to standard output: it is closed");
        assert_eq!(is_told, closed == ">&-", "{}", run.err());
    }
}

#[test]
fn a_full_stderr_does_not_cost_the_copy() {
    let scene = scene();
    scene.src.file("differs", "1").fifo("fifo");
    scene.output().file("differs", "other");
    let run = scene.command(["-v"]).in_shell("exec \"$@\" 2>/dev/full").run();
    run.assert_code(1).assert_no_crash();
    let judge = scene.judge(&run);
    judge.lists(&["dir/file", "big", "small"]).verifies().no_temp_files();
}

/// Two hundred files that are alike are not two hundred lines, and nothing of them is lost: it is in the log.
#[test]
fn what_is_said_of_many_files_is_gathered() {
    let scene = Scene::new();
    for number in 0..200 {
        scene.src.fifo(format!("pipe{number:03}"));
    }
    scene.src.socket("socket").file("file", "f").mtime("file", 1_000_000_000, 0);
    let run = scene.copy(&["--log", "log", "--report", "report"]);
    run.assert_code(0).assert_says("199 more like one above, the last: skipped pipe");
    let lines = run.err();
    assert_eq!(lines.lines().count(), 3, "{lines}");
    run.assert_says("skipped socket: it is a socket");
    let read = |name| std::fs::read_to_string(scene.path(name)).unwrap();
    let report: serde_json::Value = serde_json::from_str(&read("report")).unwrap();
    assert_eq!(report["entries"].as_array().unwrap().len(), 201);
    assert_eq!(read("log").matches("skipped pipe").count(), 200);
    let all = scene.copy(&["-v"]);
    assert_eq!(all.err().matches("skipped pipe").count(), 200);
    let json = scene.copy(&["--log-format", "json"]);
    assert_eq!(json.err().matches("\"skipped\"").count(), 201, "{}", json.err());
}

/// Copies that were damaged are all named, whatever they have in common.
#[test]
fn damaged_copies_are_not_gathered() {
    let scene = Scene::new();
    for number in 0..5 {
        scene.src.file(format!("file{number}"), "content").mtime(
            format!("file{number}"),
            1_000_000_000,
            0,
        );
    }
    scene.copy(&[]).assert_code(0);
    for number in 0..5 {
        let name = format!("file{number}");
        scene.output().file(&name, "CONTENT").mtime(&name, 1_000_000_000, 0);
    }
    let run = scene.copy(&["--report", "r.html"]);
    run.assert_code(0);
    assert_eq!(run.err().matches("it is copied anew").count(), 5, "{}", run.err());
    let page = std::fs::read_to_string(scene.path("r.html")).unwrap();
    assert!(
        page.contains("5 files had another content under the same size and time, or could not be read, copied anew."),
        "{page}"
    );
    // The last line is not as if nothing had been.
    let out = run.out();
    let last = out.lines().last().unwrap_or_default();
    assert!(
        last.ends_with(
            "had another content under the same size and time, or could not be read, and were copied anew: unless edited so, check that disk"
        ),
        "{last}"
    );
    assert!(last.starts_with("done: 5 files"), "{last}");
    run.assert_prints(&["anew ", "5 files"]);
    scene.judge(&run).complete();
}

/// A disk that goes while it is written to is one thing, and not one for each file and deed.
#[test]
fn a_disk_that_goes_is_told_in_a_few_lines() {
    need!(Loop);
    let scene = Scene::on_disk();
    for number in 0..2000 {
        scene.src.file(format!("file{number}"), content(10_000));
    }
    let _mount = Mount::ext4(&scene.path("image"), 64, &scene.path("mnt"));
    let to = scene.path("mnt/out");
    let mut child = scene.command_to(scene.src.root(), &to, ["--limit-rate=4M"]).spawn();
    child.until("some are written", || to.exists() && to.read_dir().unwrap().count() > 100);
    shut_down(&scene.path("mnt"));
    let run = child.wait();
    run.assert_code(3);
    let out = run.out();
    let last = out.lines().last().unwrap_or_default();
    assert!(last.starts_with("STOPPED EARLY (exit 3): the disk of "), "{last}");
    assert!(last.contains(" is gone or broken: "), "{last}");
    assert!(last.contains("run the same command"), "{last}");
    assert!(run.err().lines().count() < 16, "{}", run.err());
}

/// Ends all that a file system on a disk can do, as when the disk is pulled out.
fn shut_down(at: &std::path::Path) {
    const SHUTDOWN: u64 = 0x8004_587d; // EXT4_IOC_SHUTDOWN
    let (root, flags) = (std::fs::File::open(at).unwrap(), 2_u32);
    // SAFETY: the call reads this number, and root is open.
    let done =
        unsafe { libc::ioctl(std::os::fd::AsRawFd::as_raw_fd(&root), SHUTDOWN, &raw const flags) };
    assert_eq!(done, 0, "{}", std::io::Error::last_os_error());
}

/// The same of warnings, each output's its own.
#[test]
fn warnings_of_several_outputs_are_gathered_for_each() {
    need!(Strace);
    let scene = Scene::new();
    for number in 0..50 {
        scene.src.file(format!("file{number}"), "f");
    }
    let fault = Strace::inject(&scene, "utimensat", "error=EPERM");
    let run = fault.run(command(&scene, &["a", "b"], &[]));
    fault.fired(&run);
    for output in ["a", "b"] {
        // Its path says which output it is of.
        let path = format!(" {}", scene.path(output).display());
        let lines = run.err();
        let own = lines.lines().filter(|line| line.contains(&path));
        let own: Vec<&str> = own.filter(|line| line.contains("modification time")).collect();
        assert!(own.len() == 2 && own[0].starts_with("dircopy: warning: "), "{own:#?}");
        assert!(own[1].contains(" more like one above, the last: "), "{own:#?}");
    }
}
