//! What a killed run was writing when it died, of every kind of file: the same command again leaves nothing of it.

use crate::harness::{Scene, Strace, content, leftover_name, need, shell};

/// Temporary files of every name that there is or was, but for the output of a plan and the attempts at its shards, in
/// which other machines may be at work.
const LEFT: &str = "find . \\( -path ./src -o -path ./plan/running -o -path ./out \\) -prune -o \\( -name '*.part' -o \
                    -name '*dircopy-part*' -o -name '*.tmp' -o -name '*.new' \\) -print";

/// Kills `args` at each of these calls in turn, from a fresh start by `start`, and lets it run again.
fn killed_anywhere(scene: &Scene, args: &[&str], start: &str) {
    let (mut kills, mut left) = (0, 0);
    for calls in [Strace::SYNCS, Strace::RENAMES] {
        for when in 1.. {
            shell(scene, start);
            let strace = Strace::inject(scene, calls, &format!("signal=SIGKILL:when={when}"));
            strace.run(scene.bare(args));
            if !strace.log().contains("killed by SIGKILL") {
                break;
            }
            kills += 1;
            left += usize::from(!shell(scene, LEFT).is_empty());
            scene.bare(args).run().assert_code(0);
            assert_eq!(shell(scene, LEFT), "", "{args:?}, killed at number {when} of {calls}");
            assert!(when < 200, "{args:?}: {calls} never ends");
        }
    }
    assert!(kills > 1 && left > 0, "{args:?}: {kills} kills left {left}");
}

fn scene() -> Scene {
    let scene = Scene::new();
    scene.src.file("a", content(2_000_000)).file("dir/b", content(70)).file("dir/c", "c");
    scene
}

#[test]
fn of_copies_and_their_records() {
    need!(Strace);
    let beside = ["--report", "report", "--metrics", "m", "--log", "log"];
    for args in [
        &beside[..],
        &["--report", "reports/"],
        &["--hash", "sha256,md5", "--format", "dirs"],
        &["--bag", "--verify"],
        &["--format", "mhl"],
    ] {
        let args = [&["-q", "-i", "src", "-o", "dst"], args].concat();
        killed_anywhere(&scene(), &args, "rm -rf dst report m log reports; mkdir -p dst reports");
    }
}

#[test]
fn of_checks_and_cures() {
    need!(Strace);
    let scene = scene();
    scene.copy(&["-o", "other"]).assert_code(0);
    let report = ["--report", "report", "--metrics", "m"];
    let verify = [&["verify", "-q", "--budget", "1h", "dst"], &report[..]].concat();
    killed_anywhere(&scene, &verify, "rm -rf dst/.dircopy/v* report m");
    let heal = [&["heal", "-q", "dst", "other"], &report[..]].concat();
    killed_anywhere(&scene, &heal, "printf x >dst/a; rm -f report m");
}

#[test]
fn of_plans() {
    need!(Strace);
    let scene = scene();
    let plan = "rm -rf plan out; $0 plan -q src out --plan plan";
    let start = plan.replace("$0", env!("CARGO_BIN_EXE_dircopy"));
    killed_anywhere(&scene, &["shard", "-q", "--plan", "plan", "--index", "0"], &start);
    let copied =
        format!("{start}; {} shard -q --plan plan --index 0", env!("CARGO_BIN_EXE_dircopy"));
    killed_anywhere(&scene, &["finish", "-q", "--plan", "plan", "--dead-after", "1s"], &copied);
}

/// Where the secret is lost, nobody knows whose part files these are. They stay, and all are one line, which also says
/// that the output may be closed because of that run.
#[test]
fn part_files_of_unknown_runs_are_one_line() {
    need!(Strace);
    let scene = Scene::new();
    for name in ["a", "b", "c", "d/a", "d/b", "d/c", "d/e/a", "d/e/b"] {
        scene.src.file(name, content(2_000_000));
    }
    let strace = Strace::inject(
        &scene,
        "ftruncate,fallocate,copy_file_range,pwrite64,write",
        "signal=SIGKILL:when=9",
    );
    strace.run(scene.bare(["-q", "src", "dst", "--reflink", "never"]));
    assert!(strace.log().contains("killed by SIGKILL"));
    let parts = "find dst -name '*.dircopy-part' | wc -l";
    shell(
        &scene,
        "rm -r dst/.dircopy; touch dst/.1234567890.dircopy-part dst/d/.1234567891.dircopy-part",
    );
    let number: usize = shell(&scene, parts).trim().parse().unwrap();
    let run = scene.copy(&["-q"]);
    run.assert_code_in(&[0, 1]);
    let lines: Vec<_> = run
        .err()
        .lines()
        .filter(|it| it.contains("looks like a part file"))
        .map(str::to_owned)
        .collect();
    assert_eq!(lines.len(), 1, "{}", run.err());
    assert!(lines[0].contains(&format!("nor {} more that look so", number - 1)), "{}", run.err());
    assert!(lines[0].contains("open the output to others"), "{}", run.err());
    // With them gone all is as ever.
    shell(&scene, "find dst -name '*.dircopy-part' -delete; chmod 755 dst");
    let run = scene.copy(&["-q", "--overwrite-policy", "update"]);
    run.assert_code(0);
    assert!(!run.err().contains("part file"), "{}", run.err());
}

/// The link that leads to the newest generation has a temporary name too.
#[test]
fn of_generations_and_their_link() {
    need!(Strace);
    let scene = scene();
    // Of several calls each is counted by itself, and this one gives the link its name.
    let mut left = 0;
    for when in 1..100 {
        shell(&scene, "rm -rf dst");
        scene.copy(&["-q", "--generations"]).assert_code(0);
        let strace =
            Strace::inject(&scene, "rename,renameat", &format!("signal=SIGKILL:when={when}"));
        strace.run(scene.bare(["-q", "src", "dst", "--generations"]));
        if !strace.log().contains("killed by SIGKILL") {
            break;
        }
        left +=
            usize::from(!shell(&scene, "find dst -maxdepth 1 -name '*-part' -type l").is_empty());
        scene.copy(&["-q", "--generations"]).assert_code(0);
        assert_eq!(shell(&scene, "find dst -maxdepth 1 -name '*-part'"), "", "{when}");
    }
    assert!(left > 0);
}

/// What the end of a plan left in the output when it was killed, its trials too.
#[test]
fn of_the_end_of_a_plan_in_the_output() {
    need!(Strace);
    let scene = scene();
    shell(&scene, "ln -s a src/link; ln -s b src/dir/link");
    let program = env!("CARGO_BIN_EXE_dircopy");
    let start = format!(
        "rm -rf plan out; {program} plan -q src out --plan plan; {program} shard -q --plan plan --index 0"
    );
    let in_output = "find out -path out/.dircopy -prune -o \\( -name '*.part' -o -name '*dircopy-part*' \\) -print";
    let args = ["finish", "-q", "--plan", "plan"];
    for calls in ["symlinkat", Strace::SYNCS, Strace::RENAMES, "unlinkat"] {
        let mut left = 0;
        for when in 1..100 {
            shell(&scene, &start);
            let strace = Strace::inject(&scene, calls, &format!("signal=SIGKILL:when={when}"));
            strace.run(scene.bare(args));
            if !strace.log().contains("killed by SIGKILL") {
                break;
            }
            left += usize::from(!shell(&scene, in_output).is_empty());
            scene.bare(args).run().assert_code(0);
            assert_eq!(shell(&scene, in_output), "", "{calls} {when}");
        }
        assert!(left > 0, "{calls}");
    }
}

/// A file of the source that has the name which the report had while it was made is copied, listed, and stays.
#[test]
fn what_the_source_has_is_no_leftover() {
    need!(Strace);
    let scene = scene();
    let args = ["-q", "-i", "src", "-o", "dst", "--report", "dst/report"];
    shell(&scene, "mkdir dst");
    let strace = Strace::inject(&scene, Strace::RENAMES, "signal=SIGKILL").exactly_on("report");
    let run = strace.run(scene.bare(args));
    assert_eq!(run.signal, Some(9), "{}", run.err());
    let name = shell(&scene, "cd dst; ls -A | grep dircopy-part");
    let name = name.trim();
    assert_eq!(name.lines().count(), 1, "{name}");
    scene.src.file(name, "mine");
    shell(&scene, "rm -r dst; mkdir dst");
    for _ in 0..3 {
        let run = scene.bare(args).run();
        run.assert_code(0);
        assert_eq!(scene.output().read(name), b"mine");
    }
    // Nor is what only a manifest lists.
    shell(&scene, &format!("rm src/{name}"));
    scene.bare(args).run();
    assert_eq!(scene.output().read(name), b"mine");
}

/// What somebody wrote into the directory of a killed run's trial is not removed, and was not named either.
#[test]
fn a_trial_with_something_of_the_users_is_named() {
    let scene = Scene::new();
    scene.src.file("a", "1");
    scene.copy(&[]).assert_code(0);
    let left = leftover_name(&scene.dst);
    shell(&scene, &format!("mkdir -m 700 dst/{left}; echo mine >dst/{left}/note; echo 2 >src/b"));
    let run = scene.copy(&["--mirror=all"]);
    run.assert_says(&left).assert_says("what looks like a part file");
    assert_eq!(shell(&scene, &format!("cat dst/{left}/note")), "mine\n");
}
