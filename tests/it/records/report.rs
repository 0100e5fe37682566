//! What a run leaves for programs: the report by its schema, with a validator that is not ours, the log,
//! and the figures for Prometheus.

use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};

use rustix::process::Signal;
use serde_json::Value;

use crate::harness::{Mount, Run, Scene, Strace, content, names_below, need, shell};

/// The report `name` of a run, after the schema's own check of it.
#[track_caller]
fn report(scene: &Scene, name: &str, run: &Run) -> Value {
    let text = std::fs::read(scene.path(name))
        .unwrap_or_else(|error| run.fail(&format!("there is no report: {error}")));
    let report: Value = serde_json::from_slice(&text)
        .unwrap_or_else(|error| run.fail(&format!("no JSON: {error}")));
    assert_eq!(report["exit_code"], run.code.unwrap(), "{report:#}");
    if crate::harness::have(&[crate::harness::Need::JsonSchema]) {
        let script = "import json, sys, jsonschema\n\
                      schema, report = (json.load(open(path, encoding='utf-8')) for path in sys.argv[1:])\n\
                      jsonschema.Draft202012Validator.check_schema(schema)\n\
                      jsonschema.Draft202012Validator(schema).validate(report)\n";
        let output = Command::new("/usr/bin/python3")
            .args(["-c", script, concat!(env!("CARGO_MANIFEST_DIR"), "/docs/report.schema.json")])
            .arg(scene.path(name))
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "not as the schema has it: {said}\n{report:#}");
    }
    // Nothing is left beside it.
    let left = names_below(scene.root(), "f");
    assert!(!left.iter().any(|name| name.ends_with(b".tmp")), "{left:?}");
    report
}

/// The entries with this event.
fn entries<'a>(report: &'a Value, event: &str) -> Vec<&'a Value> {
    report["entries"].as_array().unwrap().iter().filter(|entry| entry["event"] == event).collect()
}

fn sha256(path: &std::path::Path) -> String {
    let output = Command::new("sha256sum").arg("-z").arg(path).output().unwrap();
    String::from_utf8(output.stdout[..64].to_vec()).unwrap()
}

#[test]
fn a_good_run_is_reported() {
    let scene = Scene::new();
    scene.src.file("a", content(100)).file("dir/b", content(1_000_000)).symlink("l", "a");
    let run = scene.copy(&["--report", "report.json"]);
    let judge = scene.judge(&run);
    judge.complete();
    let report = report(&scene, "report.json", &run);
    assert_eq!((&report["kind"], &report["ending"]), (&"copy".into(), &"complete".into()));
    assert_eq!(report["program_version"], env!("CARGO_PKG_VERSION"));
    assert_eq!(report["host"], shell(&scene, "uname -n").trim());
    assert_eq!(report["working_directory"]["path"], scene.root().to_str().unwrap());
    let output = &report["outputs"][0];
    assert_eq!(output["path"], scene.dst.to_str().unwrap());
    assert_eq!(
        (&output["counts"]["copied"], &output["counts"]["symlinks"], &output["counts"]["bytes"]),
        (&2.into(), &1.into(), &1_000_100.into())
    );
    let manifest = judge.manifest();
    assert_eq!(output["manifest"]["path"], manifest.to_str().unwrap());
    assert_eq!(output["manifest"]["sha256"], sha256(&manifest));
    assert_eq!(output["manifest"]["finished"], true);
    assert_eq!(report["entries"].as_array().unwrap().len(), 0);
    let words = report["command"].as_array().unwrap();
    assert_eq!(words[words.len() - 2..], ["--report", "report.json"]);
    let times = [&report["started"], &report["ended"]].map(|time| time.as_str().unwrap());
    assert!(times[0] < times[1] && times[0].ends_with('Z'), "{times:?}");
}

/// Names as bytes, deeds, numbers of errors, and what differs.
#[test]
fn what_is_amiss_is_reported() {
    need!(Root, Setpriv);
    let scene = Scene::new();
    scene
        .src
        .file("good", "x")
        .file(b"un\xffreadable\n\x1b[31m", "x")
        .file("kept", "new")
        .fifo("p");
    scene.src.mode(b"un\xffreadable\n\x1b[31m", 0);
    scene.output().file("kept", "not the same, and longer");
    shell(&scene, "chown -R nobody . && chmod 0 src/un*");
    let run = scene.command(["--report", "report.json", "-q"]).under_nobody().run();
    run.assert_code(1);
    let report = report(&scene, "report.json", &run);
    assert_eq!(report["ending"], "incomplete");
    let failed = entries(&report, "failed");
    assert_eq!(failed.len(), 1, "{report:#}");
    assert_eq!(failed[0]["deed"], "open");
    assert_eq!(failed[0]["errno"], 13);
    assert!(failed[0]["text"].as_str().unwrap().contains("ermission denied"), "{report:#}");
    let bytes: String =
        b"/src/un\xffreadable\n\x1b[31m".iter().map(|b| format!("{b:02x}")).collect();
    assert!(failed[0]["path_bytes"].as_str().unwrap().ends_with(&bytes), "{report:#}");
    let left = entries(&report, "left");
    assert_eq!((left.len(), &left[0]["path"]), (1, &"kept".into()));
    let skipped = entries(&report, "skipped");
    assert_eq!((skipped.len(), &skipped[0]["path"]), (1, &"p".into()));
    let text = std::fs::read(scene.path("report.json")).unwrap();
    assert!(!text.contains(&0x1b) && !text.contains(&0xff), "raw bytes of names");
}

#[test]
fn a_refused_run_is_reported() {
    let scene = Scene::new();
    let run = scene.command_to("nowhere", &scene.dst, ["--report", "report.json"]).run();
    run.assert_code(2);
    let report = report(&scene, "report.json", &run);
    assert_eq!(
        (&report["ending"], &report["error"]["path"]),
        (&"refused".into(), &"nowhere".into())
    );
    assert!(report["outputs"][0].get("counts").is_none());
}

#[test]
fn an_interrupted_run_is_reported_and_the_next_says_that_it_went_on() {
    let scene = Scene::new();
    for i in 0..20 {
        scene.src.file(format!("{i:02}"), content(200_000));
    }
    let args = ["--report", "report.json", "--limit-rate", "800K", "--workers", "1"];
    let before = "{\n  \"format\": \"dircopy-report\",\n";
    std::fs::write(scene.path("report.json"), before).unwrap();
    let mut running = scene.command(args).spawn();
    // Part files, which get their names together.
    running.until("some files", || names_below(&scene.dst, "f").len() > 4);
    assert_eq!(std::fs::read(scene.path("report.json")).unwrap(), before.as_bytes());
    running.signal(Signal::TERM);
    let run = running.wait();
    run.assert_code(143);
    let first = report(&scene, "report.json", &run);
    assert_eq!(first["ending"], "interrupted");
    let manifest = &first["outputs"][0]["manifest"];
    assert_eq!(manifest["finished"], false);
    assert_eq!(manifest["sha256"], sha256(manifest["path"].as_str().unwrap().as_ref()));
    assert_eq!(first["outputs"][0]["resumed"], false);
    let copied = first["outputs"][0]["counts"]["copied"].as_u64().unwrap();
    assert!((2..20).contains(&copied), "{copied}");

    let run = scene.copy(&["--report", "report.json"]);
    scene.judge(&run).complete();
    let next = report(&scene, "report.json", &run);
    assert_eq!(next["outputs"][0]["resumed"], true);
    let counts = &next["outputs"][0]["counts"];
    assert_eq!((&counts["unchanged"], &counts["copied"]), (&copied.into(), &(20 - copied).into()));
}

#[test]
fn a_killed_run_leaves_the_report_before_it_and_nothing_else() {
    let scene = Scene::new();
    scene.src.file("a", content(3_000_000));
    let before = "{\n  \"format\": \"dircopy-report\",\n";
    std::fs::write(scene.path("report.json"), before).unwrap();
    let args = ["--report", "report.json", "--metrics", "m.prom", "--limit-rate", "1M"];
    let mut running = scene.command(args).spawn();
    running.until("the output", || !names_below(&scene.dst, "f").is_empty());
    running.signal(Signal::KILL);
    running.wait();
    assert_eq!(std::fs::read(scene.path("report.json")).unwrap(), before.as_bytes());
    let beside: Vec<_> =
        std::fs::read_dir(scene.root()).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert_eq!(beside.len(), 3, "{beside:?}");
}

/// A run that ends early because the output is full says so, and its report is no victim.
#[test]
fn a_full_output_is_reported() {
    need!(Mount);
    let scene = Scene::new();
    for i in 0..60 {
        scene.src.file(format!("{i:02}"), content(200_000));
    }
    let _full = Mount::tmpfs(&scene.dst, "2m");
    let args = ["--report", "report.json", "--metrics", "m.prom", "--no-space-check"];
    let run = scene.copy(&args);
    run.assert_code(3);
    let report = report(&scene, "report.json", &run);
    assert_eq!(
        (&report["ending"], &report["error"]["event"]),
        (&"stopped".into(), &"stopped".into())
    );
    assert!(entries(&report, "failed").iter().any(|entry| entry["errno"] == 28), "{report:#}");
    assert!(sample(&scene, "m.prom", "dircopy_exit_code") == 3.0);
}

/// Nothing is made where a record can have no place, and it is said why.
#[test]
fn a_record_has_a_place_of_its_own() {
    let scene = Scene::new();
    scene.src.file("a", "x");
    let refused = |option: &str, path: &str, says: &str| {
        let run = scene.copy(&[option, path]);
        run.assert_code(2).assert_says(says);
    };
    for option in ["--report", "--metrics", "--log"] {
        refused(option, "-", "./- is a file of this name");
        refused(option, "dst/x", "the directory dst does not exist");
        refused(option, "dst/.dircopy/x", "the directory dst/.dircopy does not exist");
        assert!(!scene.dst.exists() && !scene.path("-").exists(), "{option}");
    }
    refused("--report", "dst/", "the directory dst/ does not exist");
    std::fs::create_dir(scene.path("st")).unwrap();
    scene.copy(&["--state", "st"]).assert_code(0);
    let inside = std::fs::read_dir(scene.path("st")).unwrap().next().unwrap().unwrap().path();
    let inside = inside.to_str().unwrap();
    let before = names_below(&scene.path("."), "f");
    for option in ["--report", "--metrics", "--log"] {
        for name in ["record", "x", "secret"] {
            refused(option, &format!("{inside}/{name}"), "private directory of runs");
            refused(option, &format!("dst/.dircopy/{name}"), "private directory of runs");
        }
        let run = scene.bare(["verify", "dst", option, "dst/.dircopy/x"]).run();
        run.assert_code(2).assert_says("private directory of runs");
    }
    let run = scene.bare(["verify", "dst", "--list-failed", "dst/.dircopy/x"]).run();
    run.assert_code(2).assert_says("private directory of runs");
    assert_eq!(names_below(&scene.path("."), "f"), before);
    scene.copy(&["--report", "./-"]).assert_code(0);
    assert!(scene.path("-").exists());
}

/// A report that cannot be written costs the exit code, and nothing else.
#[test]
fn what_cannot_be_written_is_said() {
    need!(Strace, Mount);
    let scene = Scene::new();
    scene.src.file("a", "x");
    for args in [
        ["--report", "no/such/dir/r"],
        ["--metrics", "src"],
        ["--log", "src"],
        ["--report", "/dev/null"],
    ] {
        let run = scene.copy(&args);
        run.assert_code(2).assert_says("cannot ");
        assert!(!scene.dst.exists(), "{args:?}");
    }
    assert!(std::fs::metadata("/dev/null").unwrap().permissions().mode() & 0o666 == 0o666);
    let reports = scene.tree("reports");
    let before = "{\n  \"format\": \"dircopy-report\",\n";
    reports.file("r.json", before);
    let strace =
        Strace::inject(&scene, "renameat,renameat2", "error=EIO").on(reports.path("r.json"));
    let run = strace.run(scene.command(["--report", "reports/r.json", "--metrics", "m.prom"]));
    strace.fired(&run);
    run.assert_code(1).assert_says("cannot write the report");
    assert_eq!(reports.read("r.json"), before.as_bytes());
    assert_eq!(names_below(reports.root(), "f").len(), 1);
    assert!(sample(&scene, "m.prom", "dircopy_exit_code") == 1.0);
    // The copy itself is done.
    assert!(scene.judge(&run).manifests().len() == 1);
    // What is noted on the way has no room; what is written in the end has none either.
    let full = Mount::tmpfs(&scene.path("full"), "64k");
    for i in 0..3000 {
        scene.src.fifo(format!("p{i:05}"));
    }
    let run = scene.copy(&["--report", "full/r.json", "-q"]);
    run.assert_code(1).assert_says("cannot write the report");
    assert_eq!(names_below(&scene.path("full"), "f").len(), 0);
    drop(full);
}

/// Entries go to the disk as they come: with long names they take no more memory than with short ones.
#[test]
fn memory_does_not_grow_with_the_names_of_what_is_amiss() {
    let peak = |length: usize| {
        let scene = Scene::new();
        for i in 0..60_000 {
            scene.src.fifo(format!("{}/{}{i}", i % 20, "n".repeat(length)));
        }
        let args = [
            "--workers",
            "1",
            "--queue-size",
            "4",
            "--block-size",
            "64K",
            "--report",
            "r.json",
            "-q",
        ];
        let mut running = scene.command(args).spawn();
        let peak = running.peak_memory();
        let run = running.wait();
        run.assert_code(0);
        let report = report(&scene, "r.json", &run);
        assert_eq!(entries(&report, "skipped").len(), 60_000);
        assert_eq!(report["entries_left_out"], 0);
        peak
    };
    // The long names alone would take 12 MB more.
    let (short, long) = (peak(5), peak(205));
    assert!(long < short + 6_000, "{short} KiB with short names, {long} KiB with long ones");
}

/// In a part of the source that is left out the entries that are noted meanwhile have no name. In the output it is
/// neither copied nor swept.
#[test]
fn a_report_may_be_anywhere_else() {
    let scene = Scene::new();
    scene.src.file("a", "x");
    let run = scene.copy(&["--report", "src/r.json", "--no-sync", "--exclude", "r.json"]);
    run.assert_code(0);
    assert_eq!(scene.output().stat("a").st_size, 1);
    assert!(!scene.output().has("r.json") && scene.src.has("r.json"));
    scene.src.remove("r.json");
    for _ in 0..2 {
        let run = scene.copy(&["--report", "dst/r.json", "--metrics", "dst/m.prom"]);
        run.assert_code(0);
        assert!(!run.err().contains("inside"), "{}", run.err());
        report(&scene, "dst/r.json", &run);
    }
    let run = scene.command_to("src/a", "dst", ["--report", "src/a"]).run();
    run.assert_code(2).assert_says("what is to be copied");
    assert_eq!(scene.src.read("a"), b"x");
    scene.copy(&["--report", "x", "--metrics", "x"]).assert_code(2).assert_says("of their own");
}

#[test]
fn a_check_is_reported() {
    let scene = Scene::new();
    scene.src.file("a", content(100)).file("b", "x").file("c\n", "x");
    scene.copy(&[]).assert_code(0);
    let run = scene.bare(["verify", "dst", "--report", "good.json", "--metrics", "v.prom"]).run();
    run.assert_code(0);
    let good = report(&scene, "good.json", &run);
    assert_eq!((&good["kind"], &good["checked"]["good"]), (&"verify".into(), &3.into()));
    let proven = &good["checked"];
    assert_eq!(proven["from_device"].as_u64().unwrap() + proven["from_cache"].as_u64().unwrap(), 3);
    let output = scene.output();
    output.file("b", "y").remove("c\n").file("more", "");
    let args = ["dst", "--complete", "--report", "bad.json", "--metrics", "v.prom"];
    let run = scene.bare(args).dirverify().run();
    run.assert_code(4);
    let bad = report(&scene, "bad.json", &run);
    assert_eq!(bad["ending"], "untrue");
    for (event, path) in [("differs", "dst/b"), ("missing", "dst/c\n"), ("not-listed", "dst/more")]
    {
        let found = entries(&bad, event);
        assert_eq!((found.len(), &found[0]["path"]), (1, &path.into()), "{bad:#}");
    }
    assert!(entries(&bad, "differs")[0]["line"].as_u64().unwrap() >= 1);
    assert!(sample(&scene, "v.prom", "dircopy_verify_last_success_timestamp_seconds") > 1.5e9);
    metrics_are_clean(&scene, "v.prom");
    let run = scene.bare(["verify", "nowhere", "--report", "no.json"]).run();
    run.assert_code(5);
    assert_eq!(report(&scene, "no.json", &run)["checked"]["unusable"], 1);
}

/// What was proven from the medium, and what was not.
/// Whether a source may be erased: figures, places and every file that is not covered, in what the schema has.
#[test]
fn an_answer_is_reported() {
    need!(Root, Mount);
    Mount::privately();
    let scene = Scene::new();
    let mount = |name: &str| {
        std::fs::create_dir_all(scene.path(name)).unwrap();
        Mount::tmpfs(&scene.path(name), "16m")
    };
    let _mounts = ["src", "a", "b"].map(mount);
    scene.src.file("x", "one").file("d/y", "two").symlink("l", "x");
    scene.bare(["-q", "src", "a", "b"]).run().assert_code(0);
    let asked = |args: &[&str]| {
        let records = ["--report", "r.json", "--metrics", "m.prom", "--log", "log"];
        scene.bare([&["covered", "src", "a", "b", "--count-memory"], args, &records].concat()).run()
    };
    let run = asked(&[]);
    run.assert_code(0);
    let good = report(&scene, "r.json", &run);
    assert_eq!((&good["kind"], &good["source"]["path"]), (&"covered".into(), &"src".into()));
    assert_eq!(good["directories"][1]["path"], "b");
    let covered = &good["covered"];
    assert_eq!((&covered["files"], &covered["covered"]), (&2.into(), &2.into()));
    assert_eq!(covered["places"][0]["proven"]["recorded"], 2, "{covered:#}");
    assert_eq!(sample(&scene, "m.prom", "dircopy_covered_exit_code"), 0.0);
    metrics_are_clean(&scene, "m.prom");

    // Names as bytes; a file that differs; and a record that cannot be written is no yes.
    scene.src.file(b"new\xff", "three");
    shell(&scene, "touch -r b/x kept; printf oNe > b/x; touch -r kept b/x");
    let run = asked(&["-q"]);
    run.assert_code(4);
    let bad = report(&scene, "r.json", &run);
    let named = entries(&bad, "not-covered");
    assert_eq!((named.len(), &named[0]["path_bytes"]), (2, &"6e6577ff".into()));
    assert_eq!(named[1]["text"], "at 1 of 2 places: at a; in doubt at b");
    let place = &bad["covered"]["places"][1];
    assert_eq!(place["not_counted"], serde_json::json!({"absent": 1, "in-doubt": 1}), "{bad:#}");
    assert_eq!(sample(&scene, "m.prom", "dircopy_covered_exit_code"), 4.0);
    assert!(shell(&scene, "cat log").contains("ended: untrue, exit code 4"));
    let run = asked(&["--copies", "1", "--on-end", "false"]);
    run.assert_code(4);
    shell(&scene, "rm src/new*");
    let run = asked(&["--copies", "1", "--on-end", "false"]);
    run.assert_code(1);
    run.assert_prints(&[
        "every file is there, but the command of --on-end failed; do not erase src",
    ]);
    assert_eq!(report(&scene, "r.json", &run)["ending"], "incomplete");

    // Nothing is written into what is to be erased, nor over a list; a refused run says so.
    for path in ["src/r.json", "src/d/new.html"] {
        let run = scene.bare(["covered", "src", "a", "--report", path]).run();
        run.assert_code(2);
        run.assert_says("it is inside what is to be erased");
    }
    shell(&scene, "cp a/*.sha256sum list");
    let run = scene.bare(["covered", "src", "a", "list", "--log", "list"]).run();
    run.assert_code(2);
    run.assert_says("it is a place");
    let run = scene.bare(["covered", "src", "gone", "--report", "r.json"]).run();
    run.assert_code(2);
    let refused = report(&scene, "r.json", &run);
    assert!(refused.get("covered").is_none() && refused["error"]["path"] == "gone", "{refused:#}");
}

#[test]
fn what_was_read_back_is_reported() {
    let scene = Scene::new();
    scene.src.file("a", content(100)).file("b", content(600_000));
    let run = scene.copy(&["--verify", "--report", "report.json"]);
    run.assert_code(0);
    let report = report(&scene, "report.json", &run);
    let counts = &report["outputs"][0]["counts"];
    let proven = ["from_device", "from_cache"].map(|name| counts[name].as_u64().unwrap());
    assert_eq!((proven.iter().sum::<u64>(), &counts["damaged"]), (2, &0.into()));
    assert!(
        report["verifiers"].as_u64().unwrap() >= 1 && report["stages"]["read_back"].is_object()
    );
}

#[test]
fn events_are_lines_of_json() {
    let scene = Scene::new();
    scene.src.file("a", content(30)).fifo(b"p\xff\n");
    let lines = |text: &str| -> Vec<Value> {
        text.lines()
            .map(|line| serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}")))
            .collect()
    };
    let run = scene.copy(&["--log-format", "json", "-v"]);
    run.assert_code(0);
    let said = lines(&run.err());
    assert!(said.iter().all(|line| line["log_version"] == 2 && line["time"].is_string()));
    assert!(said.iter().any(|line| line["event"] == "copied" && line["path"] == "a"), "{said:?}");
    assert!(
        said.iter().any(|l| l["event"] == "skipped" && l["path_bytes"] == "70ff0a"),
        "{said:?}"
    );
    run.assert_prints(&["done:"]);

    // Into a file, beside what is said; appended.
    for code in [0, 1] {
        let run = scene.copy(&["--log", "log", "--log-format", "json"]);
        run.assert_code(code).assert_says("dircopy: skipped");
        scene.src.file("a", "something else, but shorter");
    }
    let logged = lines(&std::fs::read_to_string(scene.path("log")).unwrap());
    let events: Vec<&str> = logged.iter().map(|line| line["event"].as_str().unwrap()).collect();
    assert_eq!((events[0], events[1], events[2]), ("started", "skipped", "ended"));
    assert_eq!((events.len(), events[3], events[6]), (7, "started", "ended"));
    assert!(events[4..6].contains(&"left") && events[4..6].contains(&"skipped"), "{events:?}");
    assert_eq!(logged[2]["exit_code"], 0);
    assert_eq!(logged[6]["exit_code"], 1);

    let run = scene.copy(&["--log", "text"]);
    run.assert_code(1);
    let text = std::fs::read_to_string(scene.path("text")).unwrap();
    let left = text.lines().find(|line| line.contains("left as it is: a")).unwrap();
    assert!(left.as_bytes()[10] == b'T' && left.contains("Z dircopy: "), "{left}");
    assert!(text.lines().last().unwrap().ends_with("incomplete, exit code 1"), "{text}");
    let run = scene.command_to("nowhere", &scene.dst, ["--log-format", "json"]).run();
    run.assert_code(2);
    assert_eq!(lines(&run.err())[0]["event"], "refused");
    let run = scene.copy(&["--log", "/dev/full", "--log-format", "json"]);
    run.assert_code(1);
}

/// A check has the same log: a file beside what is said, or lines of JSON instead of it.
#[test]
fn a_check_is_logged() {
    let scene = Scene::new();
    scene.src.file("a", "1").file("b", "2");
    scene.copy(&[]).assert_code(0);
    scene.output().file("b", "3");
    let line = |line: &str| serde_json::from_str::<Value>(line).unwrap();
    let run = scene.bare(["verify", "dst", "-v", "--log-format", "json"]).run();
    run.assert_code(4).assert_prints(&["checked", "2 files"]);
    let said: Vec<Value> = run.err().lines().map(line).collect();
    let about = |event: &str| said.iter().find(|line| line["event"] == event).unwrap();
    assert_eq!(
        (&about("good")["path"], &about("differs")["path"]),
        (&"dst/a".into(), &"dst/b".into())
    );
    assert_eq!(about("differs")["log_version"], 2);
    assert!(about("differs")["line"].as_u64().unwrap() >= 1);

    let run = scene.bare(["dst", "--log", "log", "--log-format", "json"]).dirverify().run();
    run.assert_code(4).assert_says("dirverify: differs: dst/b");
    let run = scene.bare(["nowhere", "--log", "log", "--log-format", "json"]).dirverify().run();
    run.assert_code(5);
    let logged = std::fs::read_to_string(scene.path("log")).unwrap();
    let logged: Vec<Value> = logged.lines().map(line).collect();
    let events: Vec<&str> = logged.iter().map(|line| line["event"].as_str().unwrap()).collect();
    assert_eq!(events, ["started", "differs", "ended", "started", "unusable", "ended"]);
    assert_eq!((&logged[2]["exit_code"], &logged[2]["ending"]), (&4.into(), &"untrue".into()));

    scene.bare(["verify", "dst", "-q", "--log", "text"]).run().assert_code(4);
    let text = std::fs::read_to_string(scene.path("text")).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines.len() == 3 && lines[1].contains("Z dircopy: differs: dst/b ("), "{text}");
    scene.bare(["verify", "dst", "--log", "/dev/full"]).run().assert_code(4);
    scene.output().file("b", "2");
    scene.bare(["verify", "dst", "--log", "/dev/full"]).run().assert_code(1);
    scene.bare(["verify", "dst", "--log", "no/such"]).run().assert_code(2);
}

/// The value of the first sample of a metric.
fn sample(scene: &Scene, file: &str, metric: &str) -> f64 {
    let text = std::fs::read_to_string(scene.path(file)).unwrap();
    let line = text.lines().find(|line| line.starts_with(&format!("{metric}{{"))).unwrap();
    line.rsplit_once(' ').unwrap().1.parse().unwrap()
}

/// `promtool` where it is, and otherwise Prometheus' own parser for Python.
#[track_caller]
fn metrics_are_clean(scene: &Scene, file: &str) {
    let promtool = Command::new("promtool").arg("--version").output().is_ok();
    let mut judge = match promtool {
        true => Command::new("promtool"),
        false => Command::new("/usr/bin/python3"),
    };
    let parse = "import sys; from prometheus_client.parser import text_fd_to_metric_families as f; \
                 names = [m.name for m in f(sys.stdin) if m.type == 'gauge' and m.samples]; \
                 sys.exit(len(names) < 5 or len(set(names)) < len(names))";
    match promtool {
        true => judge.args(["check", "metrics"]),
        false if !crate::harness::have(&[crate::harness::Need::PrometheusClient]) => return,
        false => judge.args(["-c", parse]),
    };
    let text = std::fs::File::open(scene.path(file)).unwrap();
    let output = judge.stdin(Stdio::from(text)).output().unwrap();
    let said = [output.stdout, output.stderr].concat();
    assert!(output.status.success() && said.is_empty(), "{}", String::from_utf8_lossy(&said));
}

#[test]
fn figures_for_prometheus() {
    let scene = Scene::new();
    scene.src.file("a", content(1000)).file("b", "xxxxx").fifo("p");
    let metrics = ["--metrics", "m.prom"];
    let refused = scene.command_to("nowhere", "dst", metrics).run();
    refused.assert_code(2);
    metrics_are_clean(&scene, "m.prom");
    let last = |name: &str| sample(&scene, "m.prom", &format!("dircopy_{name}"));
    assert_eq!((last("exit_code"), last("last_success_timestamp_seconds")), (2.0, 0.0));
    let now = || shell(&scene, "date +%s").trim().parse::<f64>().unwrap();
    let before = now();
    scene.copy(&metrics).assert_code(0);
    let after = now() + 1.0;
    metrics_are_clean(&scene, "m.prom");
    let success = last("last_success_timestamp_seconds");
    assert!((before..after).contains(&success), "{success} is not in {before}..{after}");
    assert_eq!(success, last("end_timestamp_seconds"));
    let text = std::fs::read_to_string(scene.path("m.prom")).unwrap();
    assert!(
        text.contains("fate=\"copied\"} 2\n") && text.contains("fate=\"copied\"} 1005\n"),
        "{text}"
    );
    // Other users read it: node_exporter does.
    assert_eq!(scene.tree(".").stat("m.prom").st_mode & 0o777, 0o644);
    scene.src.file("b", "not");
    scene.copy(&metrics).assert_code(1);
    metrics_are_clean(&scene, "m.prom");
    assert_eq!((last("exit_code"), last("last_success_timestamp_seconds")), (1.0, success));
    // A run of which only the end failed is no success either.
    scene.src.file("b", "xxxxx");
    scene.output().remove("b");
    scene.copy(&["--metrics", "m.prom", "--on-end", "/bin/false"]).assert_code(1);
    assert_eq!((last("exit_code"), last("last_success_timestamp_seconds")), (1.0, success));
    let odd = scene.path("odd \"\\\n\u{e9}");
    scene.command_to(scene.src.root(), &odd, ["--metrics", "odd.prom"]).run().assert_code(0);
    metrics_are_clean(&scene, "odd.prom");
    scene.command_to(scene.src.root(), &odd, ["--metrics", "odd.prom", "--hash", "none"]).run();
    assert!(sample(&scene, "odd.prom", "dircopy_exit_code") == 0.0);
}

/// A report that may not survive is none, and what stands there must not say that all is well.
#[test]
fn a_report_whose_name_is_not_durable_says_so() {
    need!(Strace);
    let scene = Scene::new();
    scene.src.file("a", "a");
    shell(&scene, "mkdir reports");
    let strace = Strace::inject(&scene, "fsync", "error=EIO:when=1").on(scene.path("reports"));
    let args = ["--report", "reports/r.json", "--metrics", "m.prom"];
    let run = strace.run(scene.command(args));
    strace.fired(&run);
    run.assert_code(1).assert_says("reports");
    assert_ne!(report(&scene, "reports/r.json", &run)["ending"], "complete");
}

#[test]
fn a_stream_is_reported() {
    let scene = Scene::new();
    scene.tree(".").file("a", content(100_000)).file("b", "b");
    let args = ["-q", "-i", "a", "-i", "gone", "-i", "b", "-o", "x", "-o", "/dev/full"];
    let records = ["--report", "report.json", "--metrics", "m.prom", "--log", "log"];
    let run = scene.bare([&args[..], &records].concat()).run();
    run.assert_code(1);
    let report = report(&scene, "report.json", &run);
    assert_eq!((&report["kind"], &report["bytes"]), (&"stream".into(), &100_001.into()));
    let fates: Vec<_> =
        report["outputs"].as_array().unwrap().iter().map(|output| &output["outcome"]).collect();
    assert_eq!(fates, ["copied", "failed"]);
    assert_eq!(report["sha256"], sha256(&scene.path("x")));
    assert_eq!(entries(&report, "failed").len(), 2);
    let figures = std::fs::read_to_string(scene.path("m.prom")).unwrap();
    assert!(figures.contains("fate=\"read\"} 100001"), "{figures}");
    assert!(std::fs::read_to_string(scene.path("log")).unwrap().contains("cannot open gone"));

    let run = scene.bare(["-i", "a", "-i", "b", "-o", "no/x", "--report", "refused.json"]).run();
    run.assert_code(2);
    self::report(&scene, "refused.json", &run);
}

#[test]
fn a_report_has_the_figures_of_parity() {
    let scene = Scene::new();
    scene.src.file("large", content(40_000)).file("small", content(100));
    let run = scene.copy(&["--parity", "10%", "--report", "copy.json"]);
    run.assert_code(0);
    let copy = report(&scene, "copy.json", &run);
    let made = &copy["outputs"][0]["parity"];
    for (name, value) in [("files", 2), ("sets_made", 2), ("sets_kept", 0), ("recovery_slices", 2)]
    {
        assert_eq!(made[name], value, "{made}");
    }
    let bytes = made["bytes"].as_u64().unwrap();
    let files = std::fs::read_dir(scene.path("dst/.dircopy/parity")).unwrap();
    let lengths = files.map(|file| file.unwrap().metadata().unwrap().len());
    assert_eq!(bytes, lengths.sum::<u64>());
    let run = scene.bare(["protect", "dst", "--report", "protect.json"]).run();
    let kept = &report(&scene, "protect.json", &run)["parity"];
    assert_eq!(
        (&kept["sets_made"], &kept["sets_kept"], &kept["files"]),
        (&0.into(), &2.into(), &2.into())
    );
    std::fs::write(scene.path("dst/large"), content(7)).unwrap();
    std::fs::remove_file(scene.path("dst/small")).unwrap();
    let run = scene.bare(["verify", "dst", "--report", "verify.json"]).run();
    let verify = report(&scene, "verify.json", &run);
    assert_eq!(
        (&verify["checked"]["repairable"], &verify["checked"]["beyond_repair"]),
        (&1.into(), &1.into())
    );
    let slices = |event| entries(&verify, event)[0]["slices"].clone();
    assert_eq!(
        (slices("repairable"), slices("beyond-repair")),
        (serde_json::json!([1, 1]), serde_json::json!([10, 1]))
    );
}
