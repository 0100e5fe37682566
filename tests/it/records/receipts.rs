//! Receipts: in a directory each run leaves one and the oldest go, what is none stays, and whatever kills a
//! run, the receipt of the last that came to its end is there.

use rustix::process::Signal;
use serde_json::Value;

use crate::harness::{Scene, Strace, content, names_below, need, shell};

/// A source, and a directory for reports.
fn scene() -> Scene {
    let scene = Scene::new();
    scene.src.file("a", "1").file("dir/b", content(5000));
    scene.tree("reports").dir("dir");
    scene
}

/// The reports that start so, with when they were started, the oldest first.
fn reports(scene: &Scene, start: &str) -> Vec<(String, Value)> {
    let names = names_below(&scene.path("reports"), "f").into_iter();
    let names = names.filter_map(|name| String::from_utf8(name).ok());
    let mut reports: Vec<(String, Value)> = names
        .filter(|name| name.starts_with(start))
        .filter_map(|name| {
            let text = std::fs::read(scene.path("reports").join(&name)).unwrap();
            Some((name, serde_json::from_slice(&text).ok()?))
        })
        .collect();
    reports.sort_by_key(|(_, report)| report["started"].to_string());
    reports
}

fn codes(scene: &Scene) -> Vec<i64> {
    let codes = reports(scene, "dircopy-copy-").into_iter();
    codes.map(|(_, report)| report["exit_code"].as_i64().unwrap()).collect()
}

/// Runs into the directory of reports, of which so many stay.
fn night(scene: &Scene, keep: &str, code: i32) {
    scene.copy(&["--report", "reports", "--keep-reports", keep]).assert_code(code);
}

#[test]
fn each_run_leaves_a_report_and_the_oldest_go() {
    let scene = scene();
    for _ in 0..4 {
        scene.copy(&["--report", "reports/"]).assert_code(0);
    }
    let four = reports(&scene, "dircopy-copy-20");
    // Perhaps of one second.
    assert_eq!(four.len(), 4);
    assert!(four.iter().all(|(name, _)| name.ends_with(".json")), "{four:?}");
    night(&scene, "3", 0);
    let three = reports(&scene, "dircopy-copy-20");
    assert_eq!(three.len(), 3);
    assert_eq!(three[..2], four[2..]);
    // However many nights fail, the last receipt of a good one stays.
    scene.src.file("a", "2").mtime("a", 1_000_000_000, 0);
    for failed in 1..=4 {
        night(&scene, "2", 1);
        assert_eq!(codes(&scene), if failed == 1 { &[0, 1][..] } else { &[0, 1, 1] });
    }
    scene.src.file("a", "1");
    scene.copy(&["--overwrite-policy", "always"]).assert_code(0);
    night(&scene, "2", 0);
    assert_eq!(codes(&scene), [1, 0]);
    // A trial, a stream and a check have receipts of their own.
    let keep = ["--report", "reports", "--keep-reports", "1", "--log", "log"];
    scene.command(["--dry-run"].iter().chain(&keep)).run().assert_code(0);
    scene.bare(["verify", "dst"].iter().chain(&keep)).run().assert_code(0);
    scene
        .bare(["-i", "src/a", "-i", "src/a", "-o", "stream"].iter().chain(&keep))
        .run()
        .assert_code(0);
    assert_eq!(codes(&scene), [1, 0]);
    for kind in ["dry-run", "verify", "stream"] {
        assert_eq!(reports(&scene, &format!("dircopy-{kind}-20")).len(), 1, "{kind}");
    }
    scene.bare(["verify", "dst"].iter().chain(&keep)).run().assert_code(0);
    assert_eq!(reports(&scene, "dircopy-verify-20").len(), 1);
    let log = String::from_utf8(scene.tree(".").read("log")).unwrap();
    assert!(log.contains("removed reports/dircopy-verify-20"), "{log}");
}

#[test]
fn what_is_no_report_of_ours_stays() {
    let scene = scene();
    night(&scene, "1", 0);
    let (old, _) = reports(&scene, "dircopy-copy-").remove(0);
    let tree = scene.tree("reports");
    let text = tree.read(&old);
    let name = |year: u32| format!("dircopy-copy-{year}0101T000000Z.json");
    tree.file(name(2001), "mine").file(name(2002), "{\n  \"format\": \"another\",\n");
    tree.file(name(2003), &text[..60]).symlink(name(2004), &old).dir(name(2005));
    tree.file("dircopy-copy-20060101T000000Z.json~", &text).file("dircopy-copy-2006.json", &text);
    tree.file("dircopy-verify-20060101T000000Z.json", &text).file("notes.json", &text);
    tree.file(format!("dir/{}", name(2006)), &text);
    // These are, whatever the clock said.
    tree.file(name(2007), &text).file(name(2999), &text);
    let others = names_below(&scene.path("reports"), "f").len() - 3;
    night(&scene, "1", 0);
    assert_eq!(names_below(&scene.path("reports"), "f").len(), others + 1);
    assert!(!tree.has(name(2007)) && !tree.has(name(2999)) && !tree.has(&old));
    assert!(tree.has(name(2004)) && tree.has(name(2005)));
    let newest = reports(&scene, "dircopy-copy-20").pop().unwrap();
    assert!(newest.0 != old && newest.1["ending"] == "complete", "{newest:?}");

    for wrong in [
        &["--report", "file", "--keep-reports", "2"][..],
        &["--report", "reports", "--keep-reports", "0"],
        &["--keep-reports", "2"],
        &["--report", "none/"],
    ] {
        scene.copy(wrong).assert_code(2);
    }
}

/// Killed at each step of writing the receipt, and long before, of each kind of run.
#[test]
fn a_kill_leaves_the_receipt_before() {
    need!(Strace);
    let scene = scene();
    let kinds: [&[&str]; 3] = [
        &["-i", "src", "-o", "dst", "--overwrite-policy", "always"],
        &["-i", "src/dir/b", "-i", "src/a", "-o", "stream", "--overwrite-policy", "always"],
        &["verify", "dst"],
    ];
    for args in kinds {
        let args = [args, &["--report", "report", "--metrics", "m"]].concat();
        scene.bare(&args).run().assert_code(0);
        let receipt = || (scene.tree(".").read("report"), scene.tree(".").read("m"));
        let parsed = || serde_json::from_slice::<Value>(&receipt().0).unwrap();
        let (before, figures) = receipt();
        // All that writes, makes durable or renames, one after the other until one run is not met.
        let (mut kills, mut replaced) = (0, false);
        for calls in [Strace::WRITES, Strace::SYNCS, Strace::RENAMES] {
            for when in 1.. {
                let fault = format!("signal=SIGKILL:when={when}");
                let strace = Strace::inject(&scene, calls, &fault);
                strace.run(scene.bare(&args));
                if !strace.log().contains("killed by SIGKILL") {
                    break;
                }
                kills += 1;
                // It is the one before, or, once it has its name, this run's.
                let report = parsed();
                assert!(report["exit_code"].is_i64() && report["entries"].is_array());
                replaced |= receipt().0 != before;
                shell(&scene, "rm -f .dircopy-*.tmp");
                std::fs::write(scene.path("report"), &before).unwrap();
                std::fs::write(scene.path("m"), &figures).unwrap();
                assert!(when < 200, "{args:?}: {calls} never ends");
            }
        }
        assert!(kills > 5, "{args:?}: {kills} kills, replaced: {replaced}");
        let run = scene.bare(&args).run();
        run.assert_code(0);
        assert_eq!(parsed()["exit_code"], 0);
        if args.contains(&"src") {
            scene.judge(&run).complete();
        }
    }
}

/// While nothing is written: a stream that waits for its input, a check that waits for its manifest.
#[test]
fn a_kill_while_it_waits_leaves_the_receipt_before() {
    let scene = scene();
    scene.tree(".").fifo("pipe");
    scene.copy(&[]).assert_code(0);
    let records = ["--report", "report", "--log", "log"];
    for (well, waiting) in [
        (&["-i", "src/a", "-i", "src/a", "-o", "stream"][..], &["-i", "pipe", "-o", "other"][..]),
        (&["verify", "dst"], &["verify", "--manifest", "pipe", "dst"]),
    ] {
        scene.bare(well.iter().chain(&records)).run().assert_code(0);
        let before = scene.tree(".").read("report");
        let mut running = scene.bare(waiting.iter().chain(&records)).spawn();
        let started = || {
            let log = String::from_utf8(scene.tree(".").read("log")).unwrap();
            log.matches("started: ").count() > log.matches("ended: ").count()
        };
        running.until("its start", started);
        running.signal(Signal::KILL);
        assert_eq!(running.wait().signal, Some(9));
        assert!(scene.tree(".").read("report") == before);
        shell(&scene, "rm log");
        assert!(!scene.tree(".").has("other"));
    }
}

/// What is left to read replaces what is there, so it may be nothing that the run is about.
#[test]
fn nothing_that_a_run_is_about_is_written_over() {
    let scene = Scene::new();
    let here = scene.tree(".");
    here.file("a", "a").file("b", "b").file("src/f", "f");
    std::os::unix::fs::symlink("b", scene.path("link")).unwrap();
    scene.copy(&["-q"]).assert_code(0);
    let names = names_below(&scene.dst, "f");
    let manifest = names.iter().find(|name| name.ends_with(b".sha256sum")).unwrap();
    let manifest = format!("dst/{}", String::from_utf8_lossy(manifest));
    let listed = here.read(&manifest);
    let stream = ["-i", "a", "-i", "link", "-o", "out"];
    for (args, taken) in [
        (&stream[..], "out"),
        (&stream, "./out"),
        (&stream, "b"),
        (&["verify", "dst"], &*manifest),
        (&["verify", "dst", "--list-failed", "list"], "list"),
    ] {
        for what in ["--report", "--metrics", "--log"] {
            let run = scene.bare(args.iter().chain(&[what, taken])).run();
            run.assert_code(2).assert_says(taken);
        }
    }
    assert!(here.read("a") == b"a" && here.read("b") == b"b" && here.read(&manifest) == listed);
    assert!(!here.has("out") && !here.has("list"));
    // Devices are for all.
    let to = ["-o", "/dev/null", "--log", "/dev/null"];
    scene.bare(stream[..4].iter().chain(&to)).run().assert_code(0);
}

/// Another user who may write to the directory of a log may put something in its place.
#[test]
fn a_log_that_is_no_file_is_not_opened() {
    let scene = Scene::new();
    let here = scene.tree(".");
    here.file("src/f", "f").file("precious", "kept");
    shell(&scene, "ln -s precious link; mkfifo fifo; ln -s nowhere dangling");
    for (name, is) in [("link", "symbolic link"), ("dangling", "symbolic link"), ("fifo", "FIFO")] {
        for way in [&["--log", name][..], &["--dry-run", "--log", name]] {
            let run = scene.copy(way);
            run.assert_code(2).assert_says(&format!("{name}: it is a {is}"));
            assert!(!scene.dst.exists());
        }
        let run = scene.bare(["verify", "src", "--list-failed", name]).run();
        run.assert_code(2).assert_says(&format!("{name}: it is a {is}"));
    }
    scene.bare(["--job", "./fifo"]).run().assert_code(2).assert_says("it is a FIFO");
    assert!(here.read("precious") == b"kept" && !here.has("nowhere"));
    // What is open already is what it is called, and a job may be a link.
    let line = "\"$@\" --log /dev/stderr 2>one && \"$@\" --log >(cat >two) && \
                echo 'output = [\"dst\"]' >job && ln -s job l.toml && \"$@\" --job l.toml";
    scene.bare(["-i", "src", "-o", "dst"]).in_shell(line).run().assert_code(0);
    for log in ["one", "two"] {
        assert!(here.read(log).windows(5).any(|text| text == b"ended"), "{log}");
    }
}

/// Where others may write, they can give the name to any file of this user's.
#[test]
fn a_record_that_may_have_got_its_name_since_is_closed() {
    need!(Root);
    for (owner, modes) in [("root", "644\n644\n600\n"), ("1001", "600\n600\n600\n")] {
        let scene = scene();
        shell(&scene, &format!("mkdir up; chown {owner} up"));
        let args = ["--report", "up/report", "--metrics", "up/metrics", "--log", "up/log"];
        scene.copy(&args).assert_code(0);
        shell(&scene, "chmod 644 up/report up/log; chmod 600 up/metrics");
        scene.copy(&args).assert_code(0);
        assert_eq!(shell(&scene, "cd up; stat -c %a report log metrics"), modes, "{owner}");
    }
}

#[test]
fn reports_of_other_users_stay_and_push_out_none() {
    need!(Root);
    let scene = scene();
    night(&scene, "1", 0);
    let (own, _) = reports(&scene, "dircopy-copy-").remove(0);
    for year in [2001, 2998, 2999] {
        shell(&scene, &format!("cd reports; cp {own} dircopy-copy-{year}0101T000000Z.json"));
    }
    shell(&scene, "chown 1001 reports/dircopy-copy-2[09][09][189]*");
    for own in [2, 2, 1] {
        night(&scene, &own.to_string(), 0);
        let of = |user| shell(&scene, &format!("find reports -name '*.json' -user {user}"));
        assert_eq!((of("root").lines().count(), of("1001").lines().count()), (own, 3));
    }
}

/// They can give the name of the log to what this user's other programs keep, too.
#[test]
fn what_is_no_log_is_not_appended_to() {
    need!(Root);
    let scene = scene();
    scene.copy(&["-q"]).assert_code(0);
    shell(&scene, "mkdir up up/below; chown 1001 up");
    for log in ["up/log", "up/below/log"] {
        for args in [&["src", "dst"][..], &["src", "dst", "--dry-run"], &["dst"]] {
            for (old, code) in [
                ("#!/bin/sh\n", 2),
                ("2026-01-01 12:00:00 of another program\n", 2),
                ("", 0),
                ("2026-01-01T12:00:00.000Z dircopy: ended\n", 0),
                ("{\"log_version\":1,\"time\":\"2026-01-01T12:00:00.000Z\"}\n", 0),
            ] {
                scene.tree(".").file(log, old);
                let run = scene.bare(args.iter().chain(&["--log", log]));
                let run = if args.len() == 1 { run.dirverify() } else { run }.run();
                run.assert_code(code);
                let now = scene.tree(".").read(log);
                assert!(now.starts_with(old.as_bytes()), "{log} {old}");
                if code == 2 {
                    run.assert_says(&format!("{log}: it is there and is no log of dircopy"));
                    assert_eq!(now.len(), old.len());
                }
            }
        }
    }
    // Where nobody else may write, a file is what its user calls it.
    scene.tree(".").file("log", "notes\n");
    scene.copy(&["--log", "log"]).assert_code(0);
}

/// Where others may write above, they can exchange the directories that two jobs have for their reports.
#[test]
fn reports_of_another_output_stay_and_push_out_none() {
    need!(Root);
    for (owner, left) in [("1001", [2, 1]), ("root", [0, 1])] {
        let scene = scene();
        shell(&scene, &format!("mkdir -p up/one up/two; chown {owner} up"));
        let night = |to: &str, reports: &str| {
            let args = ["-q", "src", to, "--report", reports, "--keep-reports", "1"];
            scene.bare(args).run().assert_code(0);
        };
        scene.bare(["-q", "src", "one", "--report", "up/one"]).run().assert_code(0);
        night("./one", "up/one");
        scene.bare(["verify", "-q", "one", "--report", "up/one"]).run().assert_code(0);
        scene.bare(["-q", "src", "one", "--report", "up/one"]).run().assert_code(0);
        night("two", "up/two");
        shell(&scene, "mv up/one up/aside; mv up/two up/one; mv up/aside up/two");
        for _ in 0..2 {
            night("two", "up/two");
            let of = |output: &str| {
                let find =
                    format!("grep -l '\"path\": \".*{output}\"' up/two/dircopy-copy-* || true");
                shell(&scene, &find).lines().count()
            };
            assert_eq!([of("one"), of("two")], left, "{owner}");
        }
    }
}
