//! Streams with `--verify`: a file is read back before it gets its name, and one that the disk does not hold
//! as it was written is none.

use crate::harness::{
    Act, Cmd, Deed, Mirror, Mount, Scene, Strace, content, names_below, need, shell,
};

const LIE: &str = "what the disk holds is not what was written";

fn scene() -> Scene {
    let scene = Scene::on_disk();
    scene.tree(".").file("a", content(3_000_001)).file("b", "small");
    shell(&scene, "cat a b >both");
    scene
}

/// Two inputs, proven.
fn command<'a>(scene: &'a Scene, args: &[&str]) -> Cmd<'a> {
    scene.bare(["-i", "a", "-i", "b", "--verify"].iter().chain(args))
}

/// The file is there, and listed beside it.
fn stands(scene: &Scene, path: &str) {
    shell(
        scene,
        &format!(
            "cmp {path} both; cd $(dirname {path}); \
             sha256sum -c --strict --quiet $(basename {path}).sha256sum"
        ),
    );
}

#[test]
fn a_file_is_read_back_from_the_device_before_it_has_its_name() {
    need!(Loop, Strace);
    let scene = scene();
    let _mount = Mount::ext4(&scene.path("image"), 32, &scene.path("disk"));
    shell(&scene, "echo old >disk/y");
    let calls = format!("read,pread64,{},{}", Strace::SYNCS, Strace::RENAMES);
    let strace = Strace::watch(&scene, &calls);
    let args = ["-o", "disk/x", "-o", "disk/y", "-o", "/dev/null", "--report", "report"];
    let run = strace.run(command(&scene, &[&args[..], &["--overwrite-policy=always"]].concat()));
    run.assert_code(0).assert_prints(&["disk/x", "is complete, read back from the device"]);
    run.assert_prints(&["disk/y", "in place of another, read back from the device"]);
    let log = strace.log();
    let lines: Vec<_> = log.lines().collect();
    for name in ["x", "y"] {
        stands(&scene, &format!("disk/{name}"));
        let is_rename =
            |line: &&str| line.contains("rename") && line.contains(&format!("\"{name}\""));
        let renamed = lines.iter().position(is_rename).unwrap();
        let part = lines[renamed].split('"').nth(1).unwrap();
        let find = |what: &str| {
            let of_it = |line: &&str| line.contains(what) && line.contains(part);
            lines.iter().position(of_it).unwrap_or_else(|| panic!("no {what} of {part}\n{log}"))
        };
        assert!(find("sync(") < find("read") && find("read") < renamed, "{log}");
    }
    let report: serde_json::Value =
        serde_json::from_slice(&scene.tree(".").read("report")).unwrap();
    assert_eq!(report["outputs"][0]["read_back"], "device");
    assert!(report["outputs"][2].get("read_back").is_none());
}

/// The good output stands, and so does what was to be replaced.
#[test]
fn what_is_not_as_it_was_written_gets_no_name() {
    need!(Fuse);
    let scene = scene();
    let truth = scene.tree("truth");
    truth.file("x", "old").file("x.sha256sum", "");
    shell(&scene, "cd truth; sha256sum x >x.sha256sum");
    let _liar = Mirror::mount(truth.root(), &scene.path("disk"), |call| match call.deed {
        Deed::Read if call.path.to_string_lossy().ends_with("part") => Act::Flip,
        _ => Act::Pass,
    });
    let all = ["-o", "disk/x", "-o", "good", "--overwrite-policy=always", "--report", "report"];
    let run = command(&scene, &all).run();
    run.assert_code(4).assert_says(LIE).assert_prints(&["NOT PROVEN"]);
    stands(&scene, "good");
    shell(&scene, "cd truth; sha256sum -c --strict --quiet x.sha256sum; test $(cat x) = old");
    let names = names_below(truth.root(), "f");
    assert_eq!(names.len(), 2, "{names:?}");
    let report: serde_json::Value =
        serde_json::from_slice(&scene.tree(".").read("report")).unwrap();
    assert_eq!(report["outputs"][0]["outcome"], "damaged");
    assert_eq!(report["outputs"][1]["outcome"], "copied");
}

/// The file stands; the list of it does not, and the run says so.
#[test]
fn a_list_that_is_not_as_it_was_written_gets_no_name() {
    need!(Fuse);
    let scene = scene();
    let truth = scene.tree("truth");
    let liar = Mirror::mount(truth.root(), &scene.path("disk"), |call| match call.deed {
        Deed::Write if call.number > 2 => Act::Flip,
        _ => Act::Pass,
    });
    shell(&scene, "printf small >tiny");
    let run = scene.bare(["-i", "tiny", "-i", "tiny", "-o", "disk/x", "--verify"]).run();
    assert!(liar.fired() > 0);
    run.assert_code(3).assert_says(LIE);
    assert_eq!(names_below(truth.root(), "f"), [b"x".to_vec()].into());
}

#[test]
fn what_cannot_be_proven_is_refused() {
    let scene = scene();
    for (args, says) in [
        (&["-o", "x", "--no-sync"][..], "leave out --verify or --no-sync"),
        (&["-o", "x", "--hash", "none"], "leave out --verify or --hash none"),
        (&["-o", "-"], "leave out --verify"),
    ] {
        command(&scene, args).run().assert_code(2).assert_says(says);
        assert!(!scene.path("x").exists());
    }
}

/// What made it whole leaves its private directory there, and no copy of a directory began.
#[test]
fn a_stream_that_was_healed_is_checked_by_its_list() {
    let scene = Scene::new();
    shell(&scene, "mkdir a b");
    let copy = scene.bare(["-q", "-i", "-", "-o", "a/t", "-o", "b/t"]);
    copy.in_shell("echo x | \"$@\"").run().assert_code(0);
    scene.ended(&["heal", "-q", "-m", "a/t.sha256sum", "a", "b"], 0);
    let run = scene.ended(&["verify", "a"], 5);
    run.assert_says("it is no output of dircopy").assert_says("--manifest a/t.sha256sum");
    assert!(!run.err().contains("no run has come to its end"), "{}", run.err());
}
