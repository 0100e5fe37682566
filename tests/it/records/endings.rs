//! However a run ends, all that it leaves tells the same: exit code, report, figures, log, service manager.

use std::os::unix::net::UnixDatagram;
use std::time::Duration;

use serde_json::Value;

use crate::harness::several::command;
use crate::harness::{Scene, Strace, need, shell};

fn read(scene: &Scene, name: &str) -> String {
    std::fs::read_to_string(scene.path(name)).unwrap_or_default()
}

fn report(scene: &Scene) -> Value {
    serde_json::from_str(&read(scene, "report")).unwrap()
}

/// The exit codes in the figures, one for each output.
fn codes(scene: &Scene) -> Vec<String> {
    let text = read(scene, "metrics");
    let lines = text.lines().filter(|line| !line.starts_with('#') && line.contains("_exit_code{"));
    lines.map(|line| line.rsplit_once(' ').unwrap().1.to_owned()).collect()
}

/// What cannot be said of a run to several outputs is missing of each of them.
#[test]
fn figures_of_several_outputs_are_no_better_than_the_exit_code() {
    let scene = Scene::new();
    scene.src.file("a", "a");
    let all = ["--report", "report", "--metrics", "metrics"];
    let run = command(&scene, &["a", "b"], &[&all[..], &["--log", "/dev/full"]].concat()).run();
    run.assert_code(1).assert_says("cannot write to the log /dev/full: No space left");
    assert!(codes(&scene).iter().all(|code| code == "1"), "{:?}", codes(&scene));
    assert!(codes(&scene).len() >= 2);
    let report = report(&scene);
    let outputs = report["outputs"].as_array().unwrap();
    assert!(outputs.iter().all(|output| output["exit_code"] == 1), "{report:#}");
    assert!(read(&scene, "metrics").contains("last_success_timestamp_seconds{"));
    let never =
        |line: &str| !line.contains("last_success_timestamp_seconds{") || line.ends_with(" 0");
    assert!(read(&scene, "metrics").lines().all(never), "{}", read(&scene, "metrics"));

    need!(Strace);
    let reports = scene.tree("reports");
    reports.file("report", "{\n  \"format\": \"dircopy-report\",\n");
    let fault = Strace::inject(&scene, "renameat,renameat2", "error=EIO");
    let fault = fault.on(reports.path("report"));
    let args = ["--report", "reports/report", "--metrics", "metrics"];
    let run = fault.run(command(&scene, &["a", "b"], &args));
    fault.fired(&run);
    run.assert_code(1).assert_says("cannot write the report");
    assert!(codes(&scene).iter().all(|code| code == "1"), "{:?}", codes(&scene));
}

/// When it is written, everything else has been told already.
#[test]
fn the_last_line_of_the_log_is_not_lost_unsaid() {
    need!(Strace);
    let scene = Scene::new();
    scene.src.file("a", "a");
    let all = ["--report", "report", "--metrics", "metrics", "--log", "log"];
    for args in [&["-q", "-i", "src", "-o", "dst"][..], &["verify", "-q", "dst"]] {
        std::fs::write(scene.path("log"), "").unwrap();
        let fault = Strace::inject(&scene, Strace::WRITES, "error=ENOSPC:when=2");
        let fault = fault.exactly_on(scene.path("log"));
        let run = fault.run(scene.bare(args.iter().chain(&all)));
        fault.fired(&run);
        assert_eq!(read(&scene, "log").lines().count(), 1, "{}", read(&scene, "log"));
        run.assert_code(1).assert_says("cannot write to the log log: No space left on device");
        assert_eq!(codes(&scene), ["1"], "{args:?}");
        assert_eq!(report(&scene)["ending"], "incomplete", "{args:?}");
    }
}

/// Whatever of it cannot be written, the rest says that the run was refused, and why.
#[test]
fn a_record_that_cannot_be_opened_is_told_by_the_others() {
    let scene = Scene::new();
    scene.src.file("a", "a");
    scene.copy(&["-q"]).assert_code(0);
    let socket = UnixDatagram::bind(scene.path("socket")).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    let socket_is = format!("NOTIFY_SOCKET={}", scene.path("socket").display());
    let records = ["report", "metrics", "log"];
    for task in [
        &["-i", "src", "-o", "dst"][..],
        &["-i", "src/a", "-i", "src/a", "-o", "stream"],
        &["verify", "dst"],
    ] {
        for wrong in ["report", "metrics", "log", "list-failed"] {
            if wrong == "list-failed" && task[0] != "verify" {
                continue;
            }
            shell(&scene, "rm -f report metrics log");
            let mut args: Vec<String> = task.iter().map(ToString::to_string).collect();
            for what in records.into_iter().filter(|what| *what != wrong) {
                args.extend([format!("--{what}"), what.into()]);
            }
            args.extend([format!("--{wrong}"), "no/such".into()]);
            let run = scene.bare(&args).under(["env", &socket_is]).run();
            run.assert_code(2).assert_says("no/such");
            assert!(!scene.path("stream").exists());
            if wrong != "log" {
                let log = read(&scene, "log");
                let lines: Vec<&str> = log.lines().collect();
                assert_eq!(lines.len(), 3, "{args:?}: {log}");
                assert!(lines[1].contains("no/such"), "{log}");
                assert!(lines[2].ends_with("ended: refused, exit code 2"), "{log}");
            }
            if wrong != "report" {
                let report = report(&scene);
                assert_eq!(
                    (&report["exit_code"], &report["ending"]),
                    (&2.into(), &"refused".into())
                );
                assert!(report["error"].to_string().contains("no/such"), "{report:#}");
            }
            if wrong != "metrics" {
                assert_eq!(codes(&scene), ["2"], "{args:?}");
            }
            let mut buffer = [0; 4096];
            let length = socket.recv(&mut buffer).unwrap_or_else(|e| panic!("{args:?}: {e}"));
            let told = String::from_utf8_lossy(&buffer[..length]);
            assert_eq!(told, "STOPPING=1\nSTATUS=ended: refused, exit code 2", "{args:?}");
        }
    }
    // What two are to be written to is nobody's.
    std::fs::write(scene.path("log"), "of before\n").unwrap();
    let args = ["--log", "log", "--report", "./log", "--metrics", "metrics"];
    scene.copy(&args).assert_code(2).assert_says("of their own");
    assert_eq!((read(&scene, "log").as_str(), codes(&scene)), ("of before\n", vec!["2".into()]));
}
