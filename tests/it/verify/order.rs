//! In which order a check reads, what it knows of the whole before the end, and that neither costs
//! the truth.

use crate::harness::{Running, Scene, Strace, content, need, shell};

/// Small and large files, and a manifest that lists the largest at the end.
fn scene() -> Scene {
    let scene = Scene::new();
    scene.output().file("a", "small").file("dir/b", content(70_000));
    scene.output().file("dir/m", content(2_000_000)).file("z", content(3_000_000));
    shell(&scene, "cd dst && sha256sum a dir/b dir/m z > ../list");
    scene
}

/// The names that were said to be good, in that order.
fn good(out: &str) -> Vec<&str> {
    out.lines().filter_map(|l| l.strip_prefix("OK dst/")?.split(' ').next()).collect()
}

#[test]
fn the_largest_is_read_first_wherever_it_is_listed() {
    let scene = scene();
    let check = ["verify", "-v", "-j1", "--manifest", "list", "dst"];
    let run = scene.bare(check).run();
    run.assert_code(0);
    assert_eq!(good(&run.out()), ["z", "dir/m", "a", "dir/b"], "{}", run.out());
    // Also where the names must be turned first.
    shell(&scene, "sed -i 's,dir/,dir\\\\,' list");
    let run = scene.bare(check).run();
    run.assert_code(4);
    let run = scene.bare(check.iter().chain(&["--convert-paths"])).run();
    run.assert_code(0);
    assert_eq!(good(&run.out()), ["z", "dir/m", "a", "dir/b"], "{}", run.out());
}

#[test]
fn many_more_lines_than_the_window_holds_are_all_answered() {
    let scene = scene();
    // Names of 200 bytes that are missing: 8 MB of them.
    shell(
        &scene,
        "head -c 32 /dev/zero | sha256sum | cut -c-64 > digest; pad=$(printf x%.0s {1..190})
         seq 40000 | sed \"s/^/$(cat digest)  $pad-/\" > more
         cat more list > long",
    );
    for jobs in ["-j1", "-j3"] {
        let run = scene.bare(["verify", jobs, "--manifest", "long", "dst"]).run();
        run.assert_code(4).assert_prints(&["checked", "4 files"]).assert_prints(&["good", "4"]);
        assert_eq!(run.err().lines().filter(|l| l.contains("missing: ")).count(), 40_000);
    }
}

/// Between looking and opening, which may be a while, another thing takes the name.
#[test]
fn what_is_no_longer_what_was_looked_at_is_judged_as_what_it_is() {
    need!(Strace);
    for (swap, told) in [
        ("mkfifo dst/a", "not a regular file: dst/a"),
        ("ln -s z dst/a", "not a regular file: dst/a"),
        ("mkdir dst/a", "not a regular file: dst/a"),
        ("true", "missing: dst/a"),
    ] {
        let scene = scene();
        let strace = Strace::inject(&scene, Strace::STATS, "signal=SIGSTOP:when=1");
        let strace = strace.on(scene.dst.join("dir/b"));
        let run = strace
            .run_stopped(scene.bare(["verify", "-j1", "--manifest", "list", "dst"]), || {
                drop(shell(&scene, &format!("rm dst/a && {swap}")))
            });
        run.assert_code(4).assert_says(told).assert_prints(&["good", "3"]);
    }
}

#[test]
fn progress_knows_the_whole_while_the_first_file_is_read() {
    need!(Strace);
    let scene = scene();
    let strace = Strace::inject(&scene, Strace::READS, "delay_enter=6000000:when=1");
    let strace = strace.on(scene.dst.join("z"));
    let args = ["verify", "-j1", "--progress", "always", "--manifest", "list", "dst"];
    let run = strace.run(scene.bare(args));
    strace.fired(&run);
    run.assert_code(0).assert_says("0 of 4 files").assert_says("of 4.8 MiB");
}

#[test]
fn a_manifest_that_can_be_read_once_is_read_once() {
    let scene = scene();
    for line in ["\"$@\" - < list", "cat list | \"$@\" -", "\"$@\" <(cat list)"] {
        let args = ["verify", "dst", "--progress", "always", "--manifest"];
        let run = scene.bare(args).in_shell(line).run();
        run.assert_code(0).assert_prints(&["good", "4"]);
    }
    scene.tree(".").fifo("pipe");
    let running: Running =
        scene.bare(["verify", "dst", "--progress", "always", "--manifest", "pipe"]).spawn();
    shell(&scene, "cat list > pipe");
    running.wait().assert_code(0).assert_prints(&["good", "4"]);
}
