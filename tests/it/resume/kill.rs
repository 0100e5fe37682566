//! `kill -9` at any moment, and then the same command again: one run makes up for it.

use std::time::Duration;

use rustix::process::Signal;

use crate::harness::{
    Cmd, Random, Run, Scene, Strace, content, inventory, is_temp_name, long, names_below, need,
    shell,
};

/// The size of the one large file, in bytes.
const LARGE: u64 = 48 << 20;

/// What of a large file that was cut off is read again at most, in bytes.
const CHECKPOINT: u64 = 12 << 20;

/// … as the program is told.
const ARGS: [&str; 2] = ["--checkpoint", "12M"];

/// Read beside the files themselves: the program's own loading, directories' lists, manifests.
const BESIDE: u64 = 4 << 20;

fn scene() -> Scene {
    let scene = Scene::new();
    for i in 0..1000 {
        scene.src.file(format!("dir-{}/small-{i}", i % 20), content(i * 5));
    }
    scene.src.file("large", content(usize::try_from(LARGE).unwrap()));
    scene
}

/// Runs, and leaves in `io` how many bytes the program read.
fn measured(command: Cmd<'_>) -> Cmd<'_> {
    // What a child that is over has read is counted with its parent (proc(5), /proc/PID/io).
    command.in_shell("\"$@\"; code=$?; cat /proc/$$/io >io; exit $code")
}

fn bytes_written(scene: &Scene) -> u64 {
    let line = shell(scene, "grep wchar io");
    line.trim().trim_start_matches("wchar: ").parse().unwrap()
}

/// The size of the largest part file.
fn largest_part(scene: &Scene) -> u64 {
    let parts = names_below(&scene.dst, "f").into_iter().filter(|n| n.ends_with(b".dircopy-part"));
    parts.map(|name| scene.output().stat(name).st_size.unsigned_abs()).max().unwrap_or(0)
}

/// What is wrong with nobody having had time to put it right: names with files that are not whole.
#[track_caller]
fn whole_or_absent(scene: &Scene, run: &Run) {
    let mut there = names_below(&scene.dst, "f");
    there.retain(|name| !is_temp_name(name) && !name.starts_with(b"dircopy-2"));
    for name in there {
        if scene.output().read(&name) != scene.src.read(&name) {
            run.fail(&format!("not whole: {}", name.escape_ascii()));
        }
    }
}

#[test]
fn after_a_kill_one_run_is_enough() {
    let scene = scene();
    let before = inventory(scene.src.root());
    let took = scene.copy(&[]).assert_code(0).took;
    let mut random = Random::new(9);
    let (mut killed, mut in_large) = (0, 0);
    let kills = if long() { 200 } else { 15 };
    while killed < kills {
        shell(&scene, "rm -rf dst");
        let running = scene.command(ARGS).spawn();
        let moment = random.below(usize::try_from(took.as_micros()).unwrap());
        std::thread::sleep(Duration::from_micros(u64::try_from(moment).unwrap()));
        running.signal(Signal::KILL);
        let run = running.wait();
        if run.signal.is_none() {
            continue; // it was over before
        }
        killed += 1;
        let part = largest_part(&scene);
        in_large += u32::from(part > 0);
        whole_or_absent(&scene, &run);

        let next = measured(scene.command(ARGS)).run();
        scene.judge(&next).complete();
        if part > CHECKPOINT {
            // The beginning at the output was read, to see that it is what was written, and not the source's.
            let (written, most) = (bytes_written(&scene), LARGE - part + CHECKPOINT + BESIDE);
            if written > most {
                next.fail(&format!(
                    "{written} bytes written after {part} of the large file: at most {most}"
                ));
            }
        }
    }
    assert_eq!(inventory(scene.src.root()), before, "the source was changed");
    eprintln!("{killed} kills, {in_large} of them in the middle of the large file");
}

/// Some private notes are written once, by the run that makes the output: no later one removed their parts.
#[test]
fn what_a_run_killed_at_its_first_note_left_is_removed() {
    need!(Strace);
    for when in 1..4 {
        let scene = Scene::new();
        scene.src.file("a", "hello");
        let fault = format!("signal=SIGKILL:when={when}");
        let strace = Strace::inject(&scene, Strace::WRITES, &fault);
        strace.run(scene.command(["-q", "--workers", "1"]));
        assert!(strace.log().contains("killed by SIGKILL"));
        scene.copy(&[]).assert_code(0);
        assert_eq!(shell(&scene, "find dst -name '*dircopy-part'"), "", "{when}");
    }
}

/// Kills the first run when most is there: the output is closed to all others.
fn killed_first_run() -> Scene {
    let scene = Scene::new();
    scene.src.file("0", "SECRET").file("1/f", "SECRET too").file("z", content(3_000_000));
    shell(&scene, "chmod 755 src/1; chmod 700 src");
    for when in 1.. {
        shell(&scene, "rm -rf dst");
        let fault = format!("signal=SIGKILL:when={when}");
        let strace = Strace::inject(&scene, Strace::RENAMES, &fault);
        strace.run(scene.command(["-q", "--workers", "1"]));
        assert!(strace.log().contains("killed by SIGKILL"));
        if shell(&scene, "ls dst/0 dst/1/f 2>/dev/null || true").lines().count() == 2 {
            return scene;
        }
    }
    unreachable!()
}

/// The source's permissions by now are for what it has by now.
#[test]
fn an_output_that_was_left_closed_is_not_opened_over_what_is_not_in_the_source() {
    need!(Strace);
    for (change, args) in [
        ("rm -r src/0 src/1", &[][..]),
        ("chmod 600 src/0", &["--exclude", "[01]"]),
        ("chmod 700 src/1", &["--exclude", "[01]"]),
        ("rm src/0 src/1/f", &[]),
        ("rm -r src/1; echo later, and longer > src/0", &[]),
    ] {
        let scene = killed_first_run();
        shell(&scene, &format!("{change}; chmod 755 src"));
        for _ in 0..2 {
            let run = scene.copy(args);
            run.assert_code(1).assert_says("so it stays closed to others");
            assert_eq!(shell(&scene, "stat -c %a dst"), "700\n", "{change}");
        }
        shell(&scene, "rm -r dst/0 dst/1");
        scene.copy(args).assert_code(0);
        assert_eq!(shell(&scene, "stat -c %a dst"), "755\n", "{change}");
    }
}

#[test]
fn an_output_that_was_left_closed_is_opened_where_all_in_it_is_of_the_source() {
    need!(Strace);
    let scene = killed_first_run();
    shell(&scene, "chmod 755 src");
    scene.copy(&[]).assert_code(0);
    assert_eq!(shell(&scene, "stat -c %a dst dst/1"), "755\n755\n");
    shell(&scene, "diff -r -x 'dircopy-*' -x .dircopy src dst");
}
