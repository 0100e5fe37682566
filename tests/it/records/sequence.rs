//! The sequence of receipts: `dircopy report --check` finds what is missing, changed, made up or of another output, and
//! whose signature is not there.

use std::path::PathBuf;

use serde_json::Value;

use crate::harness::{Run, Scene, Strace, content, need, shell};

/// A scene with so many nights, each with a receipt in `reports`.
fn nights(number: u32) -> Scene {
    let scene = Scene::new();
    scene.src.file("dir/b", content(5000));
    std::fs::create_dir_all(scene.path("reports")).unwrap();
    (0..number).for_each(|_| night(&scene, "dst", &[]));
    scene
}

fn night(scene: &Scene, output: &str, more: &[&str]) {
    scene.src.file("a", content(receipts(scene).len() + 1));
    let always = ["--overwrite-policy", "always", "--report", "reports/"];
    let always = if more.contains(&"--generations") { &always[2..] } else { &always[..] };
    scene.bare([&["src", output][..], more, always].concat()).run().assert_code(0);
}

/// The receipts of copies, the oldest first.
fn receipts(scene: &Scene) -> Vec<PathBuf> {
    let all = std::fs::read_dir(scene.path("reports")).unwrap();
    let mut all: Vec<PathBuf> = all.map(|entry| entry.unwrap().path()).collect();
    all.retain(|path| path.extension().is_some_and(|end| end == "json"));
    all.sort();
    all
}

fn read(path: &PathBuf) -> String {
    std::fs::read_to_string(path).unwrap()
}

/// Checks all receipts.
fn check(scene: &Scene, more: &[&str]) -> Run {
    let all = receipts(scene);
    let all = all.iter().map(|path| path.to_str().unwrap());
    scene.bare(["report", "--check"].into_iter().chain(all).chain(more.iter().copied())).run()
}

#[test]
fn receipts_that_are_all_there_are_whole() {
    let scene = nights(2);
    // One without a receipt, and receipts of what writes nothing.
    scene.copy(&[]).assert_code(0);
    scene.copy(&["--report", "reports/", "--dry-run"]).assert_code(0);
    scene.bare(["verify", "dst", "--report", "reports/"]).run().assert_code(0);
    night(&scene, "dst", &[]);
    for more in [&[][..], &["--at", "dst"]] {
        let run = check(&scene, more);
        run.assert_code(0);
        run.assert_prints(&["receipts 1 to 3"]).assert_prints(&["2 receipts of checks"]);
        run.assert_prints(&["1 run without a receipt"]).assert_prints(&["WHOLE: 3 receipts"]);
    }
    // In any order, and under any name.
    let all = receipts(&scene);
    std::fs::rename(&all[0], scene.path("reports/z.json")).unwrap();
    check(&scene, &["--at", "dst"]).assert_code(0);
    // The oldest may be gone, by --keep-reports.
    std::fs::remove_file(scene.path("reports/z.json")).unwrap();
    let run = check(&scene, &["--at", "dst"]);
    run.assert_code(0).assert_prints(&["receipts 2 to 3", "1 receipt before are not among them"]);
    // Each receipt in the place of the last one: the sequence goes on.
    for _ in 0..2 {
        scene.copy(&["--report", "one.json"]).assert_code(0);
    }
    let run = scene.bare(["report", "--check", "one.json", "--at", "dst"]).run();
    run.assert_code(0).assert_prints(&["receipts 5 to 5", "4 receipts before"]);
}

/// Ten ways to break a sequence of four.
#[test]
fn what_breaks_a_sequence_is_named() {
    type Break = fn(&Scene, &[PathBuf]);
    let ways: [(&str, Break, i32, &str); 12] = [
        (
            "one was removed",
            |_, all| std::fs::remove_file(&all[1]).unwrap(),
            4,
            "and it: receipt 2",
        ),
        (
            "two were",
            |_, all| all[1..3].iter().for_each(|path| std::fs::remove_file(path).unwrap()),
            4,
            "and it: receipts 2 to 3",
        ),
        (
            "the last was",
            |_, all| std::fs::remove_file(&all[3]).unwrap(),
            4,
            "dst: its last receipt, 4, is not among these",
        ),
        (
            "a byte is another",
            |_, all| {
                std::fs::write(
                    &all[1],
                    read(&all[1]).replacen("\"exit_code\": 0", "\"exit_code\": 1", 1),
                )
                .unwrap()
            },
            4,
            "one of both was changed",
        ),
        (
            "a blank is behind it",
            |_, all| std::fs::write(&all[2], read(&all[2]) + "\n").unwrap(),
            4,
            "one of both was changed",
        ),
        (
            "the last was changed",
            |_, all| std::fs::write(&all[3], read(&all[3]) + " ").unwrap(),
            4,
            "it is not the last receipt that the output knows",
        ),
        (
            "one is cut off",
            |_, all| std::fs::write(&all[1], &read(&all[1])[..400]).unwrap(),
            4,
            "cannot read the receipt",
        ),
        (
            "what is before it was made up",
            |_, all| {
                let before = field(&all[2], "before");
                std::fs::write(&all[2], read(&all[2]).replace(&before, &"0".repeat(64))).unwrap();
            },
            4,
            "one of both was changed",
        ),
        (
            "there are two of a number",
            |scene, all| {
                let text = read(&all[1]).replacen("\"exit_code\": 0", "\"exit_code\": 1", 1);
                std::fs::write(scene.path("reports/aa.json"), text).unwrap();
            },
            4,
            "aa.json: it was changed or made up",
        ),
        (
            "one is there twice",
            |scene, all| assert!(std::fs::copy(&all[1], scene.path("reports/z.json")).is_ok()),
            4,
            "it is the same receipt as",
        ),
        (
            "one is in no sequence",
            |scene, all| {
                let text = read(&all[1]).replace("\"sequence\"", "\"sequel\"");
                std::fs::write(scene.path("reports/z.json"), text).unwrap();
            },
            4,
            "z.json: it is in no sequence",
        ),
        (
            "one is of another output",
            |scene, _| night(scene, "other", &[]),
            4,
            "it belongs to another output, other",
        ),
    ];
    let whole = nights(4);
    for (what, damage, code, says) in ways {
        let scene = Scene::new();
        shell(&scene, &format!("cp -a {0}/src {0}/reports .", whole.root().display()));
        damage(&scene, &receipts(&scene));
        // What the output knows is bound to its directory.
        let at = whole.dst.to_str().unwrap();
        let run = check(&scene, &["--at", at]);
        assert!(run.err().contains(says.trim_start_matches("dst: ")), "{what}: {}", run.err());
        run.assert_code(code);
        if !["the last was", "the last was changed"].contains(&what) {
            let run = check(&scene, &[]);
            assert!(run.err().contains(says), "{what}: {}", run.err());
            run.assert_code(code);
        }
    }
}

/// A member of the place that a receipt has at its only output.
fn field(path: &PathBuf, name: &str) -> String {
    let report: Value = serde_json::from_str(&read(path)).unwrap();
    report["outputs"][0]["sequence"][name].as_str().unwrap().to_owned()
}

#[test]
fn receipts_that_cannot_be_checked_are_no_success() {
    let scene = nights(1);
    scene.tree(".").file("reports/z.json", "{}");
    check(&scene, &[]).assert_code(5).assert_prints(&["NOT CHECKED (exit 5)"]);
    // Where none can be read, nobody knows that the last one is not among them.
    let run = scene.bare(["report", "--check", "reports", "--at", "dst"]).run();
    run.assert_code(5).assert_prints(&["NOT CHECKED (exit 5)"]);
    for path in receipts(&scene) {
        std::fs::remove_file(path).unwrap();
    }
    scene.copy(&["--report", "reports/", "--dry-run"]).assert_code(0);
    check(&scene, &[]).assert_code(5).assert_prints(&["NOTHING CHECKED (exit 5)"]);
    check(&scene, &["--at", "src"]).assert_code(2).assert_says("no receipts of runs of yours");
    scene.bare(["src", "none"]).run().assert_code(0);
    check(&scene, &["--at", "none"]).assert_code(2).assert_says("no receipts of runs of yours");
}

/// Outputs have one receipt, and each its own sequence; so have generations and bags.
#[test]
fn each_output_has_a_sequence() {
    let scene = nights(0);
    night(&scene, "one", &["two"]);
    night(&scene, "one", &[]);
    night(&scene, "one", &["two"]);
    let run = check(&scene, &[]);
    run.assert_code(0).assert_prints(&["one: receipts 1 to 3"]);
    run.assert_prints(&["two: receipts 1 to 2"]).assert_prints(&["WHOLE: 3 receipts"]);
    for output in ["one", "two"] {
        check(&scene, &["--at", output]).assert_code(0);
    }
    for (output, option) in [("generations", "--generations"), ("bag", "--bag")] {
        receipts(&scene).iter().for_each(|path| std::fs::remove_file(path).unwrap());
        night(&scene, output, &[option]);
        night(&scene, output, &[option]);
        check(&scene, &["--at", output]).assert_code(0).assert_prints(&["receipts 1 to 2"]);
    }
}

/// Killed at each step at which a receipt is noted and gets its name, the sequence stays whole.
#[test]
fn a_killed_run_leaves_no_gap() {
    need!(Strace);
    let scene = nights(1);
    let mut kills = 0;
    for when in 1.. {
        let strace =
            Strace::inject(&scene, Strace::RENAMES, &format!("signal=SIGKILL:when={when}"));
        strace.run(scene.bare(["src", "dst", "--report", "reports/"]));
        if !strace.log().contains("killed by SIGKILL") {
            break;
        }
        kills += 1;
        assert!(when < 50, "it never ends");
        if when % 2 == 0 {
            night(&scene, "dst", &[]);
        }
    }
    assert!(kills > 3, "{kills} kills");
    night(&scene, "dst", &[]);
    check(&scene, &["--at", "dst"]).assert_code(0);
}

/// Keys of two, and who is allowed.
fn keys(scene: &Scene) {
    shell(
        scene,
        "for who in ann bob; do ssh-keygen -q -t ed25519 -N '' -C $who -f $who; \
         (printf '%s namespaces=\"dircopy\" ' $who; cat $who.pub) >$who.allowed; done; cat *.allowed >all.allowed",
    );
}

#[test]
fn a_signature_is_what_ssh_keygen_accepts() {
    need!(Keygen);
    let scene = nights(0);
    keys(&scene);
    for _ in 0..2 {
        night(&scene, "dst", &["--sign", "ann"]);
    }
    let all = receipts(&scene);
    for path in &all {
        let path = path.display();
        shell(
            &scene,
            &format!("ssh-keygen -Y verify -f ann.allowed -I ann -n dircopy -s {path}.sig <{path}"),
        );
    }
    let signers = ["--signers", "all.allowed"];
    check(&scene, &signers).assert_code(0).assert_prints(&["signed by ann"]);
    check(&scene, &[&signers[..], &["--identity", "ann"]].concat()).assert_code(0);
    for foreign in
        [&["--signers", "bob.allowed"][..], &["--signers", "all.allowed", "--identity", "bob"]]
    {
        check(&scene, foreign).assert_code(4);
    }
    check(&scene, &["--signers", "none"]).assert_code(2);
    let sig = |at: usize| format!("{}.sig", all[at].display());
    // Exchanged, of another, for something else, none, and of a receipt that was changed.
    shell(&scene, &format!("cp {} s; cp {} {}", sig(0), sig(1), sig(0)));
    check(&scene, &signers).assert_code(4).assert_says("its signature is not good");
    let first = all[0].display();
    shell(&scene, &format!("ssh-keygen -q -Y sign -n dircopy -f bob <{first} >{}", sig(0)));
    check(&scene, &signers).assert_code(0).assert_prints(&["signed by bob"]);
    check(&scene, &["--signers", "ann.allowed"])
        .assert_code(4)
        .assert_says("nobody who is allowed");
    shell(&scene, &format!("ssh-keygen -q -Y sign -n file -f ann <{first} >{}", sig(0)));
    check(&scene, &signers).assert_code(4).assert_says("its signature is not good");
    shell(&scene, &format!("rm {}", sig(0)));
    check(&scene, &signers).assert_code(4).assert_says("it has no signature");
    shell(&scene, &format!("cp s {}; echo >>{}", sig(0), all[1].display()));
    check(&scene, &signers).assert_code(4).assert_says("its signature is not good");
}

#[test]
fn no_signature_stands_beside_a_later_receipt() {
    need!(Keygen);
    let scene = nights(0);
    keys(&scene);
    let run = scene.copy(&["--report", "r.json", "--sign", "ann"]);
    run.assert_code(0).assert_prints(&["signed      r.json.sig"]);
    scene.copy(&["--report", "r.json"]).assert_code(0);
    assert!(!scene.path("r.json.sig").exists());
    // What is no signature stays, and is no reason against a receipt without one.
    scene.tree(".").file("r.json.sig", "mine");
    scene.copy(&["--report", "r.json"]).assert_code(0);
    scene.copy(&["--report", "r.json", "--sign", "ann"]).assert_code(2).assert_says("no signature");
    assert_eq!(scene.tree(".").read("r.json.sig"), b"mine");
    // Old receipts go with theirs.
    for _ in 0..3 {
        night(&scene, "dst", &["--sign", "ann", "--keep-reports", "2"]);
    }
    assert_eq!(shell(&scene, "ls reports | wc -l").trim(), "4");
    check(&scene, &["--at", "dst", "--signers", "ann.allowed"]).assert_code(0);
}

#[test]
fn a_key_that_cannot_sign_is_refused_before_anything() {
    need!(Keygen);
    let scene = nights(0);
    keys(&scene);
    shell(&scene, "ssh-keygen -q -t ed25519 -N secret -f locked; mkdir empty");
    let wrong: [(&[&str], &str); 4] = [
        (&["--report", "r.json", "--sign", "none"], "none"),
        (&["--report", "r.json", "--sign", "locked"], "locked"),
        (&["--report", "r.json", "--sign", "src/dir/b"], "src/dir/b"),
        (&["--report", "r.html", "--sign", "ann"], "it signs the receipt for programs"),
    ];
    for (args, says) in wrong {
        scene.copy(args).assert_code(2).assert_says(says);
        assert!(!scene.dst.exists());
    }
    scene.copy(&["--sign", "ann"]).assert_code(2);
    // No ssh-keygen; and one that can only once.
    let run = scene
        .command(["--report", "r.json", "--sign", "ann"])
        .after("export PATH=$PWD/empty")
        .run();
    run.assert_code(2).assert_says("ssh-keygen");
    assert!(!scene.dst.exists());
    shell(
        &scene,
        "printf '#!/bin/sh\nPATH=/usr/bin:/bin\n[ -e once ] && { echo lost >&2; exit 1; }\n>once\n\
         exec ssh-keygen \"$@\"\n' >empty/ssh-keygen; chmod +x empty/ssh-keygen",
    );
    let run = scene
        .command(["--report", "r.json", "--sign", "ann"])
        .after("export PATH=$PWD/empty")
        .run();
    run.assert_code(1).assert_says("cannot sign the receipt r.json: ssh-keygen: lost");
    assert!(scene.path("once").exists() && !scene.path("r.json.sig").exists());
    let report: Value = serde_json::from_slice(&scene.tree(".").read("r.json")).unwrap();
    assert_eq!(report["exit_code"], 1);
    scene.bare(["report", "--check", "r.json", "--at", "dst"]).run().assert_code(0);
}

/// What is called as the lock and is no file was waited for, 10 s each time.
#[test]
fn what_is_no_lock_is_named_and_not_waited_for() {
    let scene = nights(1);
    for plant in ["mkfifo", "mkdir", "ln -s nowhere"] {
        shell(&scene, &format!("cd dst/.dircopy; rm -rf receipts.lock; {plant} receipts.lock"));
        let run = scene.copy(&["--report", "reports/"]);
        run.assert_code(0).assert_says("dst/.dircopy/receipts.lock: it is a");
        run.assert_says("and only a regular file is used");
    }
    shell(&scene, "rm dst/.dircopy/receipts.lock");
    assert_eq!(scene.copy(&["--report", "reports/"]).assert_code(0).err(), "");
}

/// However many nights failed, the receipt of the last good one stays beside the newest: the gap between them is what
/// `--keep-reports` leaves, and no other one is taken for that.
#[test]
fn the_gap_that_keep_reports_leaves_is_no_fault() {
    let scene = nights(0);
    let run = |keep: &'static str| {
        scene.bare(["src", "dst", "--report", "reports/", "--keep-reports", keep]).run()
    };
    run("2").assert_code(0);
    scene.output().file("dir/b", "newer");
    (0..4).for_each(|_| _ = run("2").assert_code(1));
    let three = check(&scene, &["--at", "dst"]);
    three.assert_code(0).assert_prints(&["receipts 2 to 3: not among these, of runs that"]);
    three
        .assert_prints(&["WHOLE: 3 receipts, none changed, and none missing in between but those"]);
    let all = receipts(&scene);
    // With one more of the newest gone, or the good one replaced by a bad one, it is not what the option leaves.
    std::fs::rename(&all[1], scene.path("aside")).unwrap();
    check(&scene, &["--at", "dst"]).assert_code(4).assert_says("missing between");
    std::fs::rename(scene.path("aside"), &all[1]).unwrap();
    std::fs::rename(&all[2], scene.path("last")).unwrap();
    check(&scene, &[]).assert_code(4).assert_says("missing between");
    std::fs::rename(scene.path("last"), &all[2]).unwrap();
    run("4").assert_code(1);
    check(&scene, &["--at", "dst"]).assert_code(4).assert_says("missing between");
    shell(&scene, "mv dst/dir/b .");
    run("2").assert_code(0);
    check(&scene, &["--at", "dst"]).assert_code(0).assert_prints(&["none missing in between or"]);
}

/// The receipt of a refused run is in no sequence, and takes no place of those that are.
#[test]
fn refused_nights_push_no_receipt_out() {
    let scene = nights(0);
    let run = |code| {
        let run = ["src", "dst", "--report", "reports/", "--keep-reports", "2"];
        scene.bare(run).run().assert_code(code);
    };
    run(0);
    scene.output().file("dir/b", "newer");
    run(1);
    std::fs::rename(scene.path("src"), scene.path("aside")).unwrap();
    for refused in 1..=4 {
        run(2);
        assert_eq!(receipts(&scene).len(), 2 + refused.min(2));
        let run = check(&scene, &["--at", "dst"]);
        run.assert_code(0).assert_prints(&["receipts 1 to 2"]);
    }
    std::fs::rename(scene.path("aside"), scene.path("src")).unwrap();
    run(1);
    let run = check(&scene, &["--at", "dst"]);
    run.assert_code(0).assert_prints(&["receipts 1 to 3"]).assert_prints(&["WHOLE: 3 receipts"]);
}
