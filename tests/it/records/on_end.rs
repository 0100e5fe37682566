//! The command that tells how a run ended (`--on-end`): what it gets to know, that it is no shell, how long it has, and
//! what its failure costs.

use std::collections::BTreeMap;

use rustix::process::Signal;

use crate::harness::{Run, SOON, Scene, content, names_below, shell};

/// Writes the variables to the file `told`.
const TELL: &str = "sh -c \"env -0 | grep -z ^DIRCOPY_ >told\"";

fn told(scene: &Scene) -> BTreeMap<String, String> {
    let text = std::fs::read_to_string(scene.path("told")).unwrap();
    let lines = text.split('\0').filter_map(|line| line.strip_prefix("DIRCOPY_")?.split_once('='));
    lines.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

fn report(scene: &Scene) -> serde_json::Value {
    serde_json::from_slice(&std::fs::read(scene.path("r.json")).unwrap()).unwrap()
}

#[test]
fn the_command_learns_how_the_run_ended() {
    let scene = Scene::new();
    scene.src.file("a", "1");
    let root = scene.root().display().to_string();
    let args = ["-i", "src", "-o", "dst", "-o", "b", "--report", "r.json", "-q", "--on-end", TELL];
    scene.bare(args).run().assert_code(0);
    let got = told(&scene);
    let got = |name: &str| got[name].as_str();
    assert_eq!((got("KIND"), got("EXIT_CODE"), got("ENDING")), ("copy", "0", "complete"));
    assert!(got("VERDICT").starts_with("done: "), "{}", got("VERDICT"));
    assert_eq!(got("SOURCE"), format!("{root}/src"));
    assert_eq!(got("OUTPUT"), format!("{root}/dst"));
    assert_eq!(got("OUTPUTS"), format!("{root}/dst\n{root}/b"));
    assert_eq!(got("REPORT"), format!("{root}/r.json"));
    assert!(std::path::Path::new(got("MANIFEST")).is_file(), "{}", got("MANIFEST"));
    assert_eq!(got("JOB"), "");

    // Refused, with a report in a directory, by a job.
    scene.tree(".").dir("reports");
    let job = format!(
        "input = '{root}/none'\noutput = '{root}/dst'\nreport = '{root}/reports/'\non-end = '''{TELL}'''"
    );
    scene.tree(".").file("job.toml", job);
    scene.bare(["--job", "job.toml"]).run().assert_code(2);
    let got = told(&scene);
    assert_eq!((&*got["EXIT_CODE"], &*got["ENDING"], &*got["JOB"]), ("2", "refused", "job.toml"));
    assert!(got["VERDICT"].contains("there is no such file"), "{}", got["VERDICT"]);
    assert!(std::path::Path::new(&got["REPORT"]).is_file(), "{}", got["REPORT"]);
    // A trial tells nothing.
    std::fs::remove_file(scene.path("told")).unwrap();
    scene.bare(["--job", "job.toml", "--dry-run"]).run().assert_code(2);
    assert!(!scene.path("told").exists());

    scene.dst.join("a").metadata().unwrap();
    std::fs::write(scene.dst.join("a"), "2").unwrap();
    scene.bare(["verify", "dst", "--on-end", TELL]).run().assert_code(4);
    let got = told(&scene);
    assert_eq!((&*got["KIND"], &*got["EXIT_CODE"], &*got["SOURCE"]), ("verify", "4", ""));
    assert_eq!(got["OUTPUT"], format!("{root}/dst"));
}

#[test]
fn what_the_command_prints_is_no_part_of_a_stream() {
    let scene = Scene::new();
    scene.src.file("a", content(100_000));
    let run = scene.bare(["-i", "src/a", "-o", "-", "--on-end", "echo hello"]).run();
    run.assert_code(0).assert_says("hello");
    assert_eq!(run.stdout, content(100_000));
    // Nor of lines of JSON.
    let args = ["-i", "src/a", "-o", "-", "--log-format", "json", "--on-end", "echo hello"];
    let run = scene.bare(args).run();
    run.assert_code(0);
    assert!(!run.err().contains("hello"), "{}", run.err());
}

#[test]
fn no_name_is_a_command() {
    let scene = Scene::new();
    let hostile = "$(touch hacked) `touch hacked`; touch hacked\n'\"";
    scene.tree(hostile).file("a", "1");
    let args =
        ["-i", hostile, "-o", "dst", "--on-end", "sh -c 'printf %s \"$DIRCOPY_SOURCE\" >told'"];
    scene.bare(args).run().assert_code(0);
    let source = std::fs::read_to_string(scene.path("told")).unwrap();
    assert_eq!(source, scene.path(hostile).to_str().unwrap());
    assert!(!scene.path("hacked").exists());
    // What only a shell understands is an error, before anything is done.
    for wrong in ["mail | x", "tell $DIRCOPY_OUTPUT", "a; b", "tell 'x", ""] {
        let run = scene.bare(["-i", hostile, "-o", "other", "--on-end", wrong]).run();
        run.assert_code(2).assert_says("--on-end");
    }
    assert!(!scene.path("other").exists());
}

#[test]
fn a_command_that_fails_is_told_and_costs_the_success() {
    let scene = Scene::new();
    scene.src.file("a", "1");
    let records = ["--report", "r.json", "--metrics", "m.prom", "--log", "log"];
    let copy = |command: &str| -> Run {
        let args = ["-i", "src", "-o", "dst", "--on-end", command];
        scene.bare(args.into_iter().chain(records)).run()
    };
    // One that is not there is found before anything is copied.
    for command in ["./none", "no-such-program x"] {
        copy(command)
            .assert_code(2)
            .assert_says("--on-end")
            .assert_says("there is no such program");
        assert!(!scene.dst.exists());
    }
    std::fs::write(scene.path("locked"), "").unwrap();
    for (command, said) in [
        ("sh -c 'exit 7'", "cannot run the command of --on-end sh: it ended with exit status: 7"),
        ("./locked", "cannot run the command of --on-end ./locked: Permission denied"),
        ("sh -c 'kill -9 $$'", "it ended with signal: 9"),
    ] {
        let run = copy(command);
        run.assert_code(1)
            .assert_says(said)
            .assert_prints(&["NOT COMPLETE (exit 1)", "but the command of --on-end failed"]);
        let report = report(&scene);
        assert_eq!(report["exit_code"], 1);
        let entries = report["entries"].as_array().unwrap();
        assert_eq!(entries.len(), 1, "{entries:?}");
        assert_eq!(entries[0]["deed"], "run the command of --on-end");
        assert!(shell(&scene, "cat m.prom").contains("dircopy_exit_code{output=\""));
        assert!(shell(&scene, "grep ^dircopy_exit_code m.prom").ends_with(" 1\n"));
        assert!(shell(&scene, "tail -2 log").contains("--on-end"));
        assert!(shell(&scene, "tail -1 log").contains("incomplete, exit code 1"));
    }
    // A code that says more is kept.
    let run = scene.bare(["-i", "none", "-o", "dst", "--on-end", "false"]).run();
    run.assert_code(2).assert_says("no such file").assert_says("--on-end false: it ended with");
    copy("true").assert_code(0);
    assert_eq!(report(&scene)["exit_code"], 0);
}

/// A stream leaves its list beside the first file that has one, or where --manifest says.
#[test]
fn the_command_learns_the_list_of_a_stream() {
    let scene = Scene::new();
    scene.tree(".").file("a", "1").dir("up");
    let root = scene.root().display().to_string();
    for (args, list) in [
        (&["-o", "up/x", "-o", "y"][..], "/up/x.sha256sum"),
        (&["-o", "-", "-o", "z", "--hash", "sha256,md5"], "/z.bsd"),
        (&["-o", "v", "--manifest", "all"], "/all"),
        (&["-o", "w", "--hash", "none"], ""),
    ] {
        let args = [&["-q", "-i", "a", "-i", "a", "--on-end", TELL], args].concat();
        scene.bare(&args).run().assert_code(0);
        let list = if list.is_empty() { String::new() } else { format!("{root}{list}") };
        assert_eq!(told(&scene)["MANIFEST"], list, "{args:?}");
        assert!(list.is_empty() || std::path::Path::new(&list).is_file(), "{list}");
    }
}

/// Neither a command that hangs nor what it started keeps the program from ending.
#[test]
fn a_signal_ends_a_command_that_hangs() {
    let scene = Scene::new();
    scene.src.file("a", "1");
    let hang = "sh -c \"sleep 1000 & echo $! >child; sleep 1000\"";
    let started = |scene: &Scene| {
        let child = std::fs::read_to_string(scene.path("child")).unwrap_or_default();
        child.trim().parse::<u32>().ok()
    };
    let is_over = |child: u32| {
        let stat = std::fs::read_to_string(format!("/proc/{child}/stat")).unwrap_or_default();
        stat.is_empty() || stat.contains(") Z ")
    };
    let mut running = scene.bare(["-i", "src", "-o", "dst", "--on-end", hang]).spawn();
    running.until("the command runs", || started(&scene).is_some());
    running.signal(Signal::TERM);
    let run = running.wait();
    run.assert_code(1).assert_says("a signal ended it");
    assert!(run.took < SOON && is_over(started(&scene).unwrap()));

    // After a signal it has its chance, and not for ever.
    std::fs::remove_file(scene.path("child")).unwrap();
    scene.src.file("b", content(3_000_000));
    let args = ["-i", "src", "-o", "dst", "--limit-rate", "100K", "--on-end", hang];
    let mut running = scene.bare(args).spawn();
    running.until("a part file", || names_below(&scene.dst, "f").len() > 3);
    running.signal(Signal::INT);
    let run = running.wait();
    run.assert_code(130).assert_says("it took more than 8 s and was ended");
    assert!(run.took < SOON && is_over(started(&scene).unwrap()));
}
