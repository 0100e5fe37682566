//! Several outputs together with what else can be asked for: each output resumes, rotates, proves, decides
//! and tells for itself.

use rustix::process::Signal;
use serde_json::Value;

use crate::harness::several::{command, is_complete, judge};
use crate::harness::{
    Act, Call, Deed, Judge, Mirror, Mount, Need, Run, Scene, content, have, names_below, need,
    noon_in, shell,
};

const MIB: usize = 1 << 20;

/// What the report says of each output.
fn reported(scene: &Scene) -> Vec<Value> {
    let report: Value =
        serde_json::from_slice(&std::fs::read(scene.path("report")).unwrap()).unwrap();
    if have(&[Need::JsonSchema]) {
        let schema = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/report.schema.json");
        let check = "import json, jsonschema, sys; \
                     jsonschema.validate(json.load(open('report')), json.load(open(sys.argv[1])))";
        shell(scene, &format!("/usr/bin/python3 -c \"{check}\" {schema}"));
    }
    report["outputs"].as_array().unwrap().clone()
}

fn few(scene: &Scene) {
    scene.src.file("dir/large", content(700_000)).file("dir/small", "small").file("other", "other");
}

/// Flips a bit in all that is read of part files: what a disk does that damages what it is given.
fn damage(call: &Call<'_>) -> Act {
    match call.deed {
        Deed::Read if call.path.to_string_lossy().ends_with("part") => Act::Flip,
        _ => Act::Pass,
    }
}

const CHECKPOINTS: [&str; 6] = ["--checkpoint", "2M", "--block-size", "64K", "--queue-size", "2"];

/// A copy to `a` and `b` that was killed when either had some MiB of the large file.
fn killed_at_both() -> Scene {
    let scene = Scene::new();
    scene.src.file("large", content(40 * MIB + 4321)).file("other", "other");
    let args = [&CHECKPOINTS[..], &["--limit-rate", "10M"]].concat();
    let mut running = command(&scene, &["a", "b"], &args).spawn();
    let part = |output: &str| {
        let names = names_below(&scene.path(output), "f");
        let parts = names.iter().filter(|name| name.ends_with(b".dircopy-part"));
        let size = |name| scene.tree(output).path(name).metadata().map_or(0, |it| it.len());
        parts.map(size).max().unwrap_or(0)
    };
    running.until("beginnings", || ["a", "b"].iter().all(|output| part(output) > 8 << 20));
    running.signal(Signal::KILL);
    running.wait();
    scene
}

/// Killed in the middle of a large file, each output goes on where it was, by itself.
#[test]
fn each_output_goes_on_after_a_kill() {
    for how in ["auto", "verify"] {
        let scene = killed_at_both();
        let args = [&CHECKPOINTS[..], &["--resume", how, "--report", "report"]].concat();
        let run = command(&scene, &["a", "b"], &args).run();
        for (number, output) in ["a", "b"].into_iter().enumerate() {
            judge(&scene, output, &run).complete();
            let counts = &reported(&scene)[number]["counts"];
            assert!(counts["resumed_bytes"].as_u64() >= Some(4 << 20), "{output}: {counts}");
        }
    }
}

/// One beginning is gone: that output begins anew, the other does not.
#[test]
fn who_has_no_beginning_begins_anew_alone() {
    let scene = killed_at_both();
    shell(&scene, "rm -r b");
    let args = [&CHECKPOINTS[..], &["--report", "report"]].concat();
    let run = command(&scene, &["a", "b"], &args).run();
    let outputs = reported(&scene);
    for (number, (output, resumed)) in [("a", true), ("b", false)].into_iter().enumerate() {
        judge(&scene, output, &run).complete();
        let counts = &outputs[number]["counts"];
        assert_eq!(counts["resumed_bytes"].as_u64() > Some(0), resumed, "{output}: {counts}");
    }
}

#[test]
fn the_time_is_up_for_all() {
    let scene = Scene::new();
    for i in 0..30 {
        scene.src.file(format!("{i:02}"), content(300_000));
    }
    for (when, time) in [("--max-duration", "1s"), ("--stop-at", "12:00")] {
        shell(&scene, "rm -rf a b");
        let args = ["--limit-rate", "200K", when, time, "--report", "report"];
        let zone = noon_in(&scene, 8);
        let run = command(&scene, &["a", "b"], &args).under(["env", &zone]).run();
        run.assert_code(6).assert_says("time is up");
        for (number, output) in ["a", "b"].into_iter().enumerate() {
            assert_eq!(reported(&scene)[number]["exit_code"], 6);
            let judge = judge(&scene, output, &run);
            judge.no_temp_files().sound();
            assert!(judge.manifests().is_empty());
            let list = judge.newest().unwrap();
            let there = names_below(&scene.path(output), "f").len() - 1;
            assert_eq!(judge.lines(&list).len(), there, "{output}");
            assert!((1..30).contains(&there), "{there} files at {output}");
        }
    }
    let run = command(&scene, &["a", "b"], &[]).run();
    for output in ["a", "b"] {
        judge(&scene, output, &run).complete();
    }
}

#[test]
fn each_output_keeps_its_own_manifests() {
    let scene = Scene::new();
    few(&scene);
    for _ in 0..3 {
        command(&scene, &["a"], &[]).run().assert_code(0);
    }
    let manifests = |run: &Run, output: &str| judge(&scene, output, run).manifests().len();
    let run = command(&scene, &["a", "b"], &["--keep-manifests", "2"]).run();
    run.assert_code(0);
    assert_eq!((manifests(&run, "a"), manifests(&run, "b")), (2, 1));
    // Where something is amiss they stay; elsewhere they go.
    shell(&scene, "rm a/other; mkdir a/other");
    let run = command(&scene, &["a", "b"], &["--keep-manifests", "1"]).run();
    run.assert_code(1);
    assert_eq!((manifests(&run, "a"), manifests(&run, "b")), (3, 1));
}

/// What one disk damages is no reason to doubt the other.
#[test]
fn a_disk_that_lies_is_found_out_and_the_other_is_proven() {
    need!(Fuse);
    for liar in ["a", "b"] {
        let scene = Scene::new();
        few(&scene);
        let truth = scene.tree("truth");
        let _mirror = Mirror::mount(truth.root(), &scene.path(liar), damage);
        let args = ["--verify", "--report", "report", "--metrics", "metrics", "--log", "log"];
        let run = command(&scene, &["a", "b"], &args).run();
        run.assert_code(4).assert_says("what the disk holds is not what was written");
        let good = if liar == "a" { "b" } else { "a" };
        is_complete(&scene, good, &run);
        assert!(!names_below(truth.root(), "f").iter().any(|name| name.ends_with(b"large")));
        let outputs = reported(&scene);
        let metrics = String::from_utf8(scene.tree(".").read("metrics")).unwrap();
        let log = String::from_utf8(scene.tree(".").read("log")).unwrap();
        for (number, output) in ["a", "b"].into_iter().enumerate() {
            let code = if output == liar { 4 } else { 0 };
            assert_eq!(outputs[number]["exit_code"], code, "{output}");
            let path = scene.path(output).display().to_string();
            let line = format!("dircopy_exit_code{{output=\"{path}\"}} {code}");
            assert!(metrics.lines().any(|it| it == line), "{metrics}");
            let told = log.lines().any(|it| it.contains(&path) && it.contains("is not what was"));
            assert_eq!(told, output == liar, "{log}");
        }
    }
}

/// What has rotted at the source comes to no output, and the good copy that one has stays.
#[test]
fn rot_comes_to_no_output() {
    let scene = Scene::new();
    few(&scene);
    shell(&scene, "touch -d 2025-01-01 src/dir/* src/other");
    shell(&scene, "cd src && find . -type f -exec sha256sum {} + > ../list");
    command(&scene, &["a"], &[]).run().assert_code(0);
    let good = scene.tree("a").read("dir/large");
    shell(&scene, "printf X | dd of=src/dir/large bs=1 seek=9 conv=notrunc status=none");
    shell(&scene, "touch -d 2025-01-01 src/dir/large");
    let args = ["--expect", "list", "--report", "report"];
    let run = command(&scene, &["a", "b"], &args).run();
    run.assert_code(4).assert_says("src/dir/large: it has rotted");
    assert_eq!(scene.tree("a").read("dir/large"), good);
    assert!(!scene.tree("b").has("dir/large"));
    for (number, output) in ["a", "b"].into_iter().enumerate() {
        judge(&scene, output, &run).verifies().no_leftovers();
        assert_eq!(reported(&scene)[number]["counts"]["rotten"], 1, "{output}");
    }
}

/// The same policy comes to different ends, because different things are there.
#[test]
fn the_policy_is_applied_to_what_each_output_has() {
    // What becomes of an older, a newer and a missing file, and how that output ends.
    for (policy, old, new, missing) in [
        ("default", "replaced", "left", "copied"),
        ("update", "replaced", "left", "copied"),
        ("never", "left", "left", "copied"),
        ("always", "replaced", "replaced", "copied"),
    ] {
        let scene = Scene::new();
        scene.src.file("file", content(300_000)).mtime("file", 1_500_000_000, 0);
        scene.tree("old").file("file", "old").mtime("file", 1_400_000_000, 0);
        scene.tree("new").file("file", "new").mtime("file", 1_600_000_000, 0);
        let outputs = ["old", "new", "missing"];
        let args = ["--overwrite-policy", policy, "--report", "report"];
        let run = command(&scene, &outputs, &args).run();
        let all = reported(&scene);
        let mut worst = 0;
        for (output, (fate, said)) in
            outputs.into_iter().zip([old, new, missing].into_iter().zip(&all))
        {
            // Only what is smaller is replaced by default if it is older, too.
            assert_eq!(said["counts"][fate], 1, "{policy}, {output}: {said}");
            let code = i32::from(fate == "left");
            assert_eq!(said["exit_code"], code, "{policy}, {output}");
            worst = worst.max(code);
            let file = scene.tree(output).read("file");
            assert_eq!(file == content(300_000), fate != "left", "{policy}, {output}");
            judge(&scene, output, &run).verifies().no_leftovers();
        }
        run.assert_code(worst);
    }
}

/// Each entry of the report, each line of the log and each figure says of which output it is.
#[test]
fn what_goes_wrong_is_told_of_its_output_alone() {
    need!(Mount);
    let scene = Scene::new();
    few(&scene);
    let _mount = Mount::tmpfs(&scene.path("b"), "400k");
    let args = ["--no-space-check", "--report", "report", "--metrics", "metrics", "--log", "log"];
    let run = command(&scene, &["a", "b", "c"], &args).run();
    run.assert_code_in(&[1, 3]).assert_says("No space left");
    let report: Value = serde_json::from_slice(&scene.tree(".").read("report")).unwrap();
    let outputs = reported(&scene);
    let b = scene.path("b").display().to_string();
    for (number, name) in ["a", "b", "c"].into_iter().enumerate() {
        assert_eq!(outputs[number]["exit_code"] == 0, name != "b", "{outputs:?}");
    }
    let of_large = report["entries"].as_array().unwrap().iter();
    let mut of_large = of_large.filter(|entry| entry.to_string().contains("No space left"));
    assert!(of_large.clone().count() > 0, "{report}");
    assert!(of_large.all(|entry| entry.to_string().contains(&b)), "{report}");
    let log = String::from_utf8(scene.tree(".").read("log")).unwrap();
    for line in log.lines().filter(|line| line.contains("No space left")) {
        assert!(line.contains(&b), "{line}");
    }
    for name in ["a", "c"] {
        is_complete(&scene, name, &run);
    }
}

/// Without digests an output that is slow is complete and right, and one that dies takes nobody along.
#[test]
fn without_digests_the_others_are_as_independent() {
    need!(Fuse);
    for dies in [false, true] {
        let scene = Scene::new();
        scene.src.file("big", content(3_000_001)).file("bigger", content(5 << 20));
        few(&scene);
        let truth = scene.tree("truth");
        let mut writes = 0;
        let _mirror = Mirror::mount(truth.root(), &scene.path("b"), move |call| {
            writes += u32::from(call.deed == Deed::Write);
            match dies && writes > 20 {
                true if call.deed == Deed::Write => Act::Fail(rustix::io::Errno::IO.raw_os_error()),
                _ if call.deed == Deed::Write => {
                    std::thread::sleep(std::time::Duration::from_millis(2));
                    Act::Pass
                }
                _ => Act::Pass,
            }
        });
        let args = ["--hash", "none", "--block-size", "64K", "--lag", "256K"];
        let run = command(&scene, &["a", "b", "c"], &args).run();
        run.assert_code_in(if dies { &[1, 3] } else { &[0] });
        for name in ["a", "c"] {
            judge(&scene, name, &run).same_tree().no_leftovers();
        }
        let b = Judge::new(&scene.src, truth, &run);
        if !dies {
            b.same_tree().no_leftovers();
        } else {
            b.no_temp_files();
        }
    }
}

/// What a dry run says of one output stands together.
#[test]
fn a_dry_run_tells_of_one_output_after_the_other() {
    let scene = Scene::new();
    for number in 0..300 {
        scene.src.file(format!("{}/{number}", number % 7), "x");
    }
    let run = scene.bare(["-n", "-i", "src", "-o", "one", "-o", "two"]).run();
    run.assert_code(0);
    let out = run.out();
    let of: Vec<&str> =
        out.lines().filter_map(|line| line.split_once(": copy ")).map(|it| it.0).collect();
    assert_eq!(of.len(), 600, "{out}");
    assert!(
        of[..300].iter().all(|name| *name == "one") && of[300..].iter().all(|name| *name == "two")
    );
}
