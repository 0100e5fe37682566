//! Streams: inputs of any kind, one after the other, to every output; judged by `cmp` and `sha256sum`.

use std::io::{Read, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::process::Stdio;

use rustix::process::Signal;

use crate::harness::{Run, Scene, Strace, content, ctimes, names_below, need, shell};

/// With a digest and without, and each with as little on its way as can be.
const WAYS: [&[&str]; 4] = [
    &[],
    &["--hash", "none"],
    &["--queue-size", "1", "--block-size", "4096"],
    &["--hash", "none", "--queue-size", "1", "--block-size", "4096"],
];

/// `a`, binary and larger than any block or pipe, `b`, small, and `empty`; `all` is the three together.
fn scene() -> Scene {
    let scene = Scene::new();
    let tree = scene.tree(".");
    let (a, b) = (content(3_000_001), b"\0\xff\r\n\\".to_vec());
    tree.file("a", &a).file("b", &b).file("empty", "").file("all", [a, b].concat());
    scene
}

/// Runs a line of shell in which `"$@"` is the program with these arguments.
fn in_shell(scene: &Scene, line: &str, args: &[&str]) -> Run {
    scene.bare(args).in_shell(&format!("set -o pipefail; {line}")).run()
}

#[track_caller]
fn same(scene: &Scene, name: &str, as_what: &str) {
    let (one, other) = (scene.tree(".").read(name), scene.tree(".").read(as_what));
    assert!(one == other, "{name} is not as {as_what}: {} and {} bytes", one.len(), other.len());
}

#[track_caller]
fn checks(scene: &Scene, manifest: &str) {
    shell(scene, &format!("sha256sum -c --strict --quiet -- {manifest}"));
}

#[track_caller]
fn nothing_half(scene: &Scene) {
    let names = names_below(scene.root(), "f");
    assert!(!names.iter().any(|name| name.ends_with(b".dircopy-part")), "{names:?}");
}

#[test]
fn inputs_one_after_the_other_to_every_output() {
    for way in WAYS {
        let scene = scene();
        let args =
            [&["-i", "a", "-i", "b", "-i", "empty", "-o", "x", "-o", "y", "-o", "-"], way].concat();
        in_shell(&scene, "\"$@\" >z", &args).assert_code(0).assert_says("done: everything");
        for name in ["x", "y", "z"] {
            same(&scene, name, "all");
        }
        assert_eq!(scene.path("x.sha256sum").exists(), !way.contains(&"none"));
        if !way.contains(&"none") {
            checks(&scene, "x.sha256sum");
            checks(&scene, "y.sha256sum");
        }
        nothing_half(&scene);
    }
}

/// The first use that there is: one archive in two places, proven.
#[test]
fn an_archive_to_two_places() {
    let scene = scene();
    scene.tree("one");
    scene.tree("two");
    let run =
        in_shell(&scene, "tar c a b | \"$@\"", &["-i", "-", "-o", "one/x.tar", "-o", "two/x.tar"]);
    run.assert_code(0).assert_prints(&["done:"]);
    for dir in ["one", "two"] {
        shell(&scene, &format!("cd {dir} && sha256sum -c --strict --quiet x.tar.sha256sum"));
        shell(
            &scene,
            &format!("mkdir {dir}/back && tar xf {dir}/x.tar -C {dir}/back && cmp a {dir}/back/a"),
        );
    }
}

/// Every kind of input with every kind of output, alone and with a file beside it.
#[test]
fn every_pair_of_ends() {
    let inputs = [
        ("a", "\"$@\""),
        ("-", "\"$@\" <a"),
        ("-", "cat a | \"$@\""),
        ("/dev/stdin", "cat a | \"$@\""),
        ("in", "mkfifo in; cat a >in & \"$@\""),
    ];
    let outputs = [
        ("x", "LINE"),
        ("-", "LINE | cat >x"),
        ("-", "LINE >x"),
        ("-", ": >x; LINE >>x"),
        ("/dev/stdout", "LINE | cat >x"),
        ("/dev/stdout", ": >x; LINE >>x"),
        ("out", "mkfifo out; cat out >x & LINE; code=$?; wait; exit $code"),
        ("/dev/null", "LINE; cp a x"),
    ];
    for (input, from) in inputs {
        // A file alone would go into a directory.
        let two = if input == "a" { &["-i", "empty"][..] } else { &[] };
        for (output, to) in outputs {
            for way in &WAYS[..2] {
                for more in [&[][..], &["-o", "y"]] {
                    let scene = scene();
                    // The shell's background jobs would have no standard input.
                    let line = to.replace("LINE", &format!("{{ {from}; }}"));
                    let args = [&["-q", "-i", input, "-o", output], more, way, two].concat();
                    let run = in_shell(&scene, &line, &args);
                    run.assert_code(0);
                    if !run.stderr.is_empty() {
                        run.fail("it had something to say");
                    }
                    same(&scene, "x", "a");
                    if !more.is_empty() {
                        same(&scene, "y", "a");
                    }
                }
            }
        }
    }
}

/// What is there behind a redirection that appends stays, and what is read of one starts where it stands.
#[test]
fn redirections_keep_their_places() {
    for way in WAYS {
        let scene = scene();
        let line = "{ echo head; head -c 1000000 >front; \"$@\"; echo tail; } <a >>x";
        let args = [&["-q", "-i", "-", "-o", "-"], way].concat();
        in_shell(&scene, line, &args).assert_code(0);
        shell(&scene, "{ echo head; tail -c +1000001 a; echo tail; } | cmp - x");
    }
}

#[test]
fn files_whose_size_means_nothing() {
    for way in WAYS {
        let scene = scene();
        let args = [
            &[
                "-q",
                "-i",
                "/proc/sys/kernel/osrelease",
                "-i",
                "b",
                "-i",
                "/proc/version",
                "-o",
                "x",
                "-o",
                "-",
            ],
            way,
        ];
        in_shell(&scene, "\"$@\" | cat >y", &args.concat()).assert_code(0);
        shell(&scene, "cat /proc/sys/kernel/osrelease b /proc/version | cmp - x");
        same(&scene, "y", "x");
    }
}

/// A network file system may say only then that what was written is lost.
#[test]
fn an_error_of_closing_standard_output_is_told() {
    need!(Strace);
    for way in WAYS {
        let scene = scene();
        let args = [&["-i", "a", "-o", "-"], way].concat();
        shell(&scene, "touch out");
        let strace = Strace::inject(&scene, "close", "error=EDQUOT").exactly_on(scene.path("out"));
        let command = scene.bare(&args).stdout(std::fs::File::create(scene.path("out")).unwrap());
        let run = strace.run(command);
        strace.fired(&run);
        run.assert_code_in(&[1, 3]).assert_says("cannot close -: Disk quota exceeded");
    }
}

/// When no output is left, nobody waits for an input that may never come.
#[test]
fn without_outputs_no_further_input_is_waited_for() {
    let scene = Scene::new();
    shell(&scene, "echo text >a; mkfifo silent");
    for way in [&[][..], &["--hash", "none"]] {
        let ends = ["-i", "a", "-i", "silent", "-o", "/dev/full", "-o", "/dev/full"];
        let run = scene.bare([&ends, way].concat()).run();
        run.assert_code(3).assert_says("No space left on device");
    }
}

#[test]
fn an_output_that_fails_leaves_the_others() {
    for way in WAYS {
        let scene = scene();
        let args = [&["-i", "a", "-i", "b", "-o", "/dev/full", "-o", "x"], way].concat();
        let run = scene.bare(&args).run();
        run.assert_code(1).assert_says("cannot write /dev/full: No space left on device");
        same(&scene, "x", "all");

        // A reader that goes away has nothing to complain about.
        let args = [&["-q", "-i", "a", "-i", "b", "-o", "-", "-o", "y"], way].concat();
        let run = in_shell(&scene, "\"$@\" | true", &args);
        run.assert_code(141);
        assert_eq!(run.err(), "");
        same(&scene, "y", "all");

        // With no output left, there is nothing to go on for.
        let args = [&["-i", "/dev/zero", "-o", "/dev/full"], way].concat();
        scene.bare(&args).run().assert_code(3);
        nothing_half(&scene);
    }
}

#[test]
fn a_full_disk_leaves_the_other_output() {
    need!(Mount);
    for way in WAYS {
        let scene = scene();
        shell(&scene, "mkdir small && mount -t tmpfs -o size=1m none small");
        let args = [&["-i", "a", "-i", "empty", "-o", "small/x", "-o", "y"], way].concat();
        let run = scene.bare(&args).run();
        let left = shell(&scene, "ls -A small; umount small");
        run.assert_code(1).assert_says("small/x: No space left on device");
        assert_eq!(left, "");
        same(&scene, "y", "a");
    }
}

#[test]
fn a_closed_reader_ends_it_quietly() {
    for way in WAYS {
        for input in ["/dev/zero", "a"] {
            let scene = scene();
            let args = [&["-i", input, "-i", input, "-o", "-"], way].concat();
            let run = in_shell(&scene, "\"$@\" | head -c 5 | wc -c", &args);
            run.assert_code(141).assert_no_crash();
            assert_eq!((run.out().trim(), run.err().as_str()), ("5", ""));
        }
    }
}

/// The input has nothing to say for as long as the reader is away: the program ends without being written to.
#[test]
fn a_reader_that_goes_away_while_nothing_comes_is_missed() {
    for way in WAYS {
        for others in [&[][..], &["-o", "fifo"]] {
            let scene = scene();
            // A sleeper holds the input open, and the shell waits for the program alone.
            let line = "mkfifo in fifo; sleep 60 >in & input=$!; sleep 0.3 <fifo & \
                        \"$@\" <in | sleep 0.3; code=${PIPESTATUS[0]}; kill $input; exit $code";
            let args = [&["-i", "-", "-o", "-"], others, way].concat();
            let began = std::time::Instant::now();
            in_shell(&scene, line, &args).assert_code(141);
            assert!(began.elapsed().as_secs() < 30, "it waited for the input: {args:?}");
        }
    }
}

/// Wherever it is found out that an output cannot be had, the others do without it; without any, nothing is read.
#[test]
fn outputs_that_cannot_be_had_leave_the_others() {
    for bad in ["no/dir/x", "/proc/nope", "socket"] {
        for way in WAYS {
            let scene = scene();
            scene.tree(".").socket("socket");
            let args = [&["-i", "-", "-o", bad, "-o", "good"], way].concat();
            let run = in_shell(&scene, "\"$@\" <a", &args);
            run.assert_code(1).assert_says(bad.trim_end_matches("/x"));
            same(&scene, "good", "a");
            nothing_half(&scene);
            let args = [&["-i", "-", "-o", bad, "-o", "no/where"], way].concat();
            let line = "{ \"$@\"; code=$?; wc -c; exit $code; } <a";
            let run = in_shell(&scene, line, &args);
            run.assert_code(2).assert_prints(&["3000001"]).assert_says("directory no: No such");
            run.assert_says(bad.trim_end_matches("/x"));
        }
    }
}

#[test]
fn inputs_that_are_missing() {
    for way in WAYS {
        let scene = scene();
        scene.tree("dir");
        let args = [&["-i", "gone", "-i", "a", "-i", "dir", "-i", "b", "-o", "x", "-o", "-"], way]
            .concat();
        let run = in_shell(&scene, "\"$@\" | cat >y", &args);
        run.assert_code(1).assert_says("cannot open gone: No such file").assert_says("dir");
        same(&scene, "x", "all");
        same(&scene, "y", "all");

        // Where nothing can be read, nothing is made of it.
        let args = [&["-i", "gone", "-i", "dir", "-o", "z"], way].concat();
        scene.bare(&args).run().assert_code(1);
        assert!(!scene.path("z").exists());
    }
}

#[test]
fn strict_looks_at_all_inputs_first() {
    let scene = scene();
    scene.tree(".").dir("dir").fifo("fifo");
    let before = ctimes(scene.root());
    for bad in ["gone", "dir"] {
        let run = in_shell(
            &scene,
            "\"$@\" | wc -c",
            &["--strict", "-i", "a", "-i", bad, "-o", "-", "-o", "x"],
        );
        run.assert_code(2).assert_says(bad);
        assert_eq!(run.out().trim(), "0");
        assert_eq!(ctimes(scene.root()), before);
    }
    // Looking at a FIFO does not wake who writes to it.
    let run = in_shell(
        &scene,
        "cat b >fifo & \"$@\"",
        &["--strict", "-q", "-i", "fifo", "-i", "a", "-o", "x"],
    );
    run.assert_code(0);
    shell(&scene, "cat b a | cmp - x");
}

#[test]
fn strict_asks_for_permission() {
    need!(Setpriv);
    let scene = scene();
    scene.tree(".").mode("b", 0o000).mode(".", 0o777);
    let run = scene.bare(["--strict", "-i", "a", "-i", "b", "-o", "x"]).under_nobody().run();
    run.assert_code(2).assert_says("cannot open b: Permission denied");
    assert!(!scene.path("x").exists());
    let run = scene.bare(["-i", "a", "-i", "b", "-o", "x"]).under_nobody().run();
    run.assert_code(1);
    same(&scene, "x", "a");
}

#[test]
fn an_input_that_is_an_output() {
    for way in WAYS {
        let scene = scene();
        scene.tree(".").hard_link("hard", "a").symlink("soft", "a");
        let before = ctimes(scene.root());
        for (line, args) in [
            ("\"$@\" >>a", &["-i", "b", "-i", "a", "-o", "-"][..]),
            ("\"$@\" >>hard", &["-i", "b", "-i", "a", "-o", "-"]),
            ("\"$@\" <a >>a", &["-i", "-", "-o", "-"]),
            ("\"$@\"", &["-i", "b", "-i", "a", "-o", "a"]),
            ("\"$@\"", &["-i", "a", "-o", "hard", "--overwrite-policy", "always"]),
            ("\"$@\"", &["-i", "soft", "-o", "hard", "--overwrite-policy", "always"]),
            ("\"$@\"", &["-i", "a", "-o", "soft", "--overwrite-policy", "always"]),
            ("\"$@\"", &["-i", "b", "-i", "a", "-o", "x", "-o", "a"]),
        ] {
            let run = in_shell(&scene, line, &[args, way].concat());
            run.assert_code(2).assert_says("input file is an output file");
            assert_eq!(ctimes(scene.root()), before, "{args:?}");
        }
    }
}

#[test]
fn outputs_that_are_one_another() {
    let scene = scene();
    let before = ctimes(scene.root());
    for args in [
        &["-o", "x", "-o", "./x"][..],
        &["-o", "-", "-o", "-"],
        &["-o", "x", "-o", "x.sha256sum"],
        &["-o", "x", "--manifest", "x"],
        &["-o", "x", "--manifest", "a", "--overwrite-policy", "always"],
    ] {
        scene.bare([&["-i", "a", "-i", "b"], args].concat()).run().assert_code(2);
        assert_eq!(ctimes(scene.root()), before, "{args:?}");
    }
}

#[test]
fn manifests_are_those_of_sha256sum() {
    let scene = scene();
    let odd = "odd\nname\\";
    let args = ["-q", "-i", "a", "-i", "b", "-o", odd, "-o", "x", "-o", "-", "--manifest", "list"];
    in_shell(&scene, "\"$@\" | cmp - all", &args).assert_code(0);
    shell(&scene, "sha256sum -c --strict --quiet list <all");
    assert_eq!(
        shell(&scene, "sha256sum $'odd\\nname\\\\' x; sha256sum <all"),
        shell(&scene, "cat list")
    );
    assert!(!scene.path("x.sha256sum").exists());

    in_shell(&scene, "\"$@\" | cmp - a", &["-q", "-i", "a", "-o", "-", "--manifest", "alone"])
        .assert_code(0);
    assert_eq!(shell(&scene, "sha256sum <a"), shell(&scene, "cat alone"));

    scene.bare(["-q", "-i", "a", "-i", "b", "-o", &format!("{odd}2")]).run().assert_code(0);
    shell(&scene, "sha256sum -c --strict --quiet odd*2.sha256sum");
}

/// What is there stays, unless it is to be replaced; then its manifest and its permissions are as they
/// should be.
#[test]
fn what_is_there_already() {
    for policy in ["default", "never", "update", "always"] {
        let scene = scene();
        let copy =
            |args: &[&str]| scene.bare([&["--overwrite-policy", policy], args].concat()).run();
        copy(&["-i", "b", "-i", "b", "-o", "x"]).assert_code(0);
        scene.tree(".").mode("x", 0o640);
        let before = scene.tree(".").read("x.sha256sum");
        let run = copy(&["-i", "a", "-i", "b", "-o", "x", "-o", "y"]);
        same(&scene, "y", "all");
        checks(&scene, "x.sha256sum");
        if matches!(policy, "default" | "never") {
            run.assert_code(1).assert_says("left as it is: x");
            assert_eq!(scene.tree(".").read("x.sha256sum"), before);
        } else {
            run.assert_code(0);
            same(&scene, "x", "all");
        }
        assert_eq!(scene.path("x").metadata().unwrap().permissions().mode() & 0o777, 0o640);
        // A list of something else is no less than a file.
        scene.tree(".").file("z.sha256sum", "somebody's\n");
        let run = copy(&["-i", "a", "-i", "b", "-o", "z"]);
        if matches!(policy, "default" | "never") {
            run.assert_code(1).assert_says("its manifest is there already");
            assert!(!scene.path("z").exists());
        } else {
            run.assert_code(0);
            checks(&scene, "z.sha256sum");
        }
        nothing_half(&scene);
    }
}

#[test]
fn new_files_are_as_the_umask_has_them() {
    need!(Strace);
    for outputs in [&["-o", "x"][..], &["-o", "x", "-o", "y", "-o", "z"]] {
        let scene = scene();
        // To ask for it is to set it, and several threads ask at the same moment.
        let strace = Strace::inject(&scene, "umask", "delay_exit=100000");
        let args = [&["-i", "a", "-i", "b"], outputs].concat();
        let run = strace.run(scene.bare(args).in_shell("umask 027; exec \"$@\""));
        run.assert_code(0);
        strace.fired(&run);
        for name in outputs.iter().filter(|name| **name != "-o") {
            for name in [name.to_string(), format!("{name}.sha256sum")] {
                let mode = scene.path(&name).metadata().unwrap().mode();
                assert_eq!(mode & 0o777, 0o640, "{name}");
            }
        }
    }
}

/// Who waits for an answer before going on gets it: a line is passed on before the next one comes.
#[test]
fn nothing_is_held_back() {
    let script = "coproc \"$@\"; for line in one two three; do echo $line >&${COPROC[1]}; \
                  read -r back <&${COPROC[0]}; [ \"$back\" = $line ] || exit 9; done; \
                  exec {COPROC[1]}>&-; wait $COPROC_PID";
    for way in WAYS {
        for more in [&[][..], &["-o", "x"]] {
            let scene = scene();
            let args = [&["-q", "-i", "-", "-o", "-"], more, way].concat();
            scene.bare(args).in_shell(script).run().assert_code(0);
        }
    }
}

/// A pseudo-terminal as input, which `script` makes: nothing can be spliced from it.
#[test]
fn a_terminal_is_read_line_by_line() {
    if !crate::harness::have(&[crate::harness::Need::Program("script")]) {
        return;
    }
    for way in WAYS {
        let scene = scene();
        let args = [&["-q", "-i", "-", "-o", "x"], way].concat();
        let line = "printf 'one\\ntwo\\n\\004' | script -qec \"$(printf '%q ' \"$@\")\" /dev/null";
        in_shell(&scene, line, &args).assert_code(0);
        assert_eq!(scene.tree(".").read("x"), b"one\ntwo\n");
    }
}

#[test]
fn an_interrupted_stream_leaves_nothing() {
    for way in WAYS {
        for (signal, code) in [(Signal::INT, 130), (Signal::TERM, 143)] {
            let scene = scene();
            scene.tree(".").file("x", "before").fifo("in");
            let args =
                ["-i", "in", "-i", "a", "-o", "x", "-o", "y", "--overwrite-policy", "always"];
            let running = scene.bare([&args, way].concat()).spawn();
            // Opening waits until it reads, and more is written than any pipe holds.
            let mut feed = std::fs::OpenOptions::new().write(true).open(scene.path("in")).unwrap();
            feed.write_all(&content(5_000_000)).unwrap();
            running.signal(signal);
            running.wait().assert_code(code);
            drop(feed);
            assert_eq!(scene.tree(".").read("x"), b"before");
            assert!(!scene.path("y").exists());
            nothing_half(&scene);
            assert!(!scene.path("y.sha256sum").exists() && !scene.path("x.sha256sum").exists());
        }
    }
}

/// Neither who does not read nor who does not write keeps it from ending.
#[test]
fn an_interrupted_stream_waits_for_nobody() {
    for way in WAYS {
        let scene = scene();
        scene.tree(".").fifo("in");
        let (mut reader, writer) = std::io::pipe().unwrap();
        let mut running = scene
            .bare([&["-q", "-i", "/dev/zero", "-o", "-", "-o", "x"], way].concat())
            .stdout(Stdio::from(writer))
            .spawn();
        let mut first = [1];
        reader.read_exact(&mut first).unwrap();
        assert!(!running.is_over());
        running.signal(Signal::INT);
        running.wait().assert_code(130);

        let mut running = scene.bare([&["-q", "-i", "in", "-o", "x"], way].concat()).spawn();
        let opened = || open_files(scene.root(), "in");
        running.until("somebody at the FIFO", || opened() > 0);
        running.signal(Signal::INT);
        running.wait().assert_code(130);
        assert!(!scene.path("x").exists());
    }
}

/// How many processes have this file of the scene open.
fn open_files(root: &Path, name: &str) -> usize {
    let path = root.join(name);
    let links = std::fs::read_dir("/proc")
        .unwrap()
        .flatten()
        .filter_map(|process| std::fs::read_dir(process.path().join("fd")).ok());
    links
        .flatten()
        .flatten()
        .filter(|fd| std::fs::read_link(fd.path()).is_ok_and(|to| to == path))
        .count()
}

/// Of an input that breaks off in the middle no file is made, and what is passed on goes on.
#[test]
fn an_input_that_breaks_off() {
    need!(Strace);
    for way in &WAYS[..2] {
        let scene = scene();
        let strace =
            Strace::inject(&scene, Strace::READS, "error=EIO:when=2").exactly_on(scene.path("a"));
        let args = [&["-i", "a", "-i", "b", "-o", "x", "-o", "-"], *way].concat();
        let run = strace.run(scene.bare(args));
        strace.fired(&run);
        run.assert_code(1).assert_says("Input/output error").assert_says("cannot complete x");
        assert!(!scene.path("x").exists());
        assert!(run.stdout.ends_with(&scene.tree(".").read("b")));
        nothing_half(&scene);
    }
}

#[test]
fn a_file_that_grows_is_named() {
    need!(Strace);
    for way in &WAYS[..2] {
        let scene = scene();
        let strace = Strace::inject(&scene, Strace::READS, "signal=SIGSTOP:when=1")
            .exactly_on(scene.path("a"));
        let args = [&["-q", "-i", "a", "-i", "b", "-o", "x"], *way].concat();
        let run = strace.run_stopped(scene.bare(args), || {
            scene.tree(".").append("a", b"more");
        });
        run.assert_code_in(&[1, 3]).assert_says("it grew while it was read");
        assert!(!scene.path("x").exists());
        nothing_half(&scene);
    }
}

/// Durable before it has its name, and the name before the line.
#[test]
fn durable_before_it_is_listed() {
    need!(Strace);
    let scene = scene();
    scene.tree(".").file("x", "old").file("x.sha256sum", "old\n");
    let strace =
        Strace::watch(&scene, &format!("{},{},unlink,unlinkat", Strace::SYNCS, Strace::RENAMES));
    let args = ["-q", "-i", "a", "-i", "b", "-o", "x", "--overwrite-policy", "always"];
    let run = strace.run(scene.bare(args));
    run.assert_code(0);
    let log = strace.log();
    let at = |what: &str| {
        log.lines().position(|line| line.contains(what)).unwrap_or_else(|| panic!("{what}\n{log}"))
    };
    assert!(at("fsync") < at("\"x\""), "{log}");
    // The old list goes first, the new one comes last.
    assert!(at("unlink") < at("\"x\""), "{log}");
    let names_list = |line: &&str| line.contains("\"x.sha256sum\"");
    let last = log.lines().collect::<Vec<_>>().iter().rposition(names_list).unwrap();
    assert!(last > at("\"x\""), "{log}");
    assert!(log.lines().skip(last).any(|line| line.contains("fsync")), "{log}");
}

/// The summary does not get into the bytes, by whatever name standard output goes.
#[test]
fn what_is_said_goes_elsewhere() {
    for name in ["-", "/dev/stdout", "/dev/fd/1"] {
        let scene = scene();
        let run = in_shell(&scene, "\"$@\" | cat >x", &["-i", "a", "-i", "empty", "-o", name]);
        run.assert_code(0).assert_says("done: everything");
        same(&scene, "x", "a");
    }
}

#[test]
fn options_of_trees_and_of_streams() {
    let scene = scene();
    scene.tree("dir");
    let before = ctimes(scene.root());
    for option in ["--dry-run", "--jobs=2", "--hard-links", "--include=x", "--sparse=always"] {
        let run = scene.bare(["-i", "a", "-i", "b", "-o", "x", option]).run();
        run.assert_code(2).assert_says("this is a stream");
    }
    for option in ["--strict", "--manifest=m"] {
        let run = scene.bare(["-i", "a", "-o", "dir", option]).run();
        run.assert_code(2).assert_says("this copies into a directory");
    }
    for output in ["dir", "new/", "gone/x"] {
        scene.bare(["-i", "a", "-i", "b", "-o", output]).run().assert_code(2);
    }
    assert_eq!(ctimes(scene.root()), before);
}

/// A file goes into a directory, as ever, and over a file only as a stream.
#[test]
fn what_the_output_is_decides() {
    let scene = scene();
    scene.tree("dir");
    for output in ["dir", "slash/", "new"] {
        scene.bare(["-i", "a", "-o", output]).run().assert_code(0);
        same(&scene, &format!("{output}/a"), "a");
    }
    scene.bare(["-i", "a", "-o", "b", "--overwrite-policy", "always"]).run().assert_code(0);
    same(&scene, "b", "a");
}

#[test]
fn more_than_memory() {
    if !crate::harness::long() {
        return;
    }
    for way in &WAYS[..2] {
        let scene = scene();
        let args = [&["-q", "-i", "/dev/zero", "-o", "-"], *way].concat();
        let run = in_shell(&scene, "ulimit -v 600000; \"$@\" | head -c 3G | wc -c", &args);
        assert_eq!(run.out().trim(), (3u64 << 30).to_string());
    }
}

/// An output that lacks a piece which others have goes on with nothing: what comes next would follow upon
/// the wrong bytes.
#[test]
fn a_stream_that_cannot_be_split_is_given_up() {
    need!(Strace);
    for when in 1..=4 {
        let scene = scene();
        let strace = Strace::inject(&scene, "tee", &format!("error=ENOMEM:when={when}"));
        let args = "--hash none -i one -i two -o x -o y -o z";
        let run = strace.run(scene.bare(args.split(' ')).in_shell(
            "mkfifo one two; cat a b a >one & cat all >two & \"$@\"; code=$?; kill %1 %2; exit $code",
        ));
        run.assert_says("cannot split the stream").assert_code_in(&[1, 3]);
        for name in ["x", "y", "z"] {
            assert!(!scene.path(name).exists(), "{name} stands");
        }
        nothing_half(&scene);
    }
}

/// Rust's runtime puts `/dev/null` in place of what is closed: an empty stream would seem to be whole.
#[test]
fn a_closed_input_and_a_manifest_that_is_no_file_are_refused() {
    let scene = scene();
    let run = in_shell(&scene, "\"$@\" <&-", &["-i", "-", "-i", "a", "-o", "x"]);
    run.assert_code(2).assert_says("standard input is closed");
    let run = in_shell(&scene, "\"$@\" <a", &["-i", "-", "-o", "x", "--manifest", "-"]);
    run.assert_code(2).assert_says("./- is one of that name");
    assert!(!scene.path("x").exists() && !scene.path("-").exists());
}

/// What is to be replaced keeps its manifest until it is replaced.
#[test]
fn a_file_that_stays_keeps_its_manifest() {
    need!(Strace);
    let scene = Scene::new();
    let here = scene.tree(".");
    here.file("a", "new").file("out", "old");
    shell(&scene, "sha256sum out >out.sha256sum");
    let strace = Strace::inject(&scene, "fsync,fdatasync", "error=EIO");
    let args = ["-i", "a", "-i", "a", "-o", "out", "--overwrite-policy", "always"];
    let run = strace.run(scene.bare(args));
    run.assert_code(3);
    strace.fired(&run);
    shell(&scene, "sha256sum -c --strict --quiet out.sha256sum");
    assert_eq!(here.read("out"), b"old");
}

/// The lists and states that earlier streams left under other names go with the content that they are of; what nobody can
/// know to be such a list stays, and is named.
#[test]
fn lists_of_other_digests_go_with_what_is_replaced() {
    let over = ["-i", "-", "-o", "x", "--overwrite-policy", "always"];
    let names = |scene: &Scene| shell(scene, "ls | grep ^x | tr '\\n' ' '");
    for (first, second, left) in [
        ("sha256", &["--hash", "sha512"][..], "x x.sha512sum "),
        ("sha256", &["--hash", "sha256,md5"], "x x.bsd x.bsd.states "),
        ("sha256", &["--manifest", "all"], "x "),
        ("sha256", &["--hash", "none"], "x "),
        ("sha256", &["--hash", "none", "--no-sync"], "x "),
        ("sha256,md5", &["--hash", "blake3"], "x x.b3sum "),
        ("xxh64", &["--hash", "none"], "x "),
        ("xxh3", &["--hash", "none"], "x "),
        ("c4", &["--hash", "none"], "x "),
        ("blake3", &["--hash", "sha256"], "x x.sha256sum x.states "),
    ] {
        let scene = Scene::new();
        shell(&scene, "head -c 3000000 /dev/urandom >old; head -c 3000000 /dev/urandom >new");
        let make = [&["-q", "--hash", first][..], &over].concat();
        in_shell(&scene, "cat old | \"$@\"", &make).assert_code(0);
        assert_ne!(names(&scene), "x ");
        let run = in_shell(&scene, "cat new | \"$@\"", &[&over, second].concat());
        run.assert_code(0);
        let said = String::from_utf8_lossy(&run.stderr);
        assert!(!said.contains("cannot"), "{first} {second:?}: {said}");
        same(&scene, "x", "new");
        assert_eq!(names(&scene), left, "{first} {second:?}");
    }
    let scene = Scene::new();
    for (list, is_named) in [
        ("sha256sum x a", true),
        ("sha256sum -b x", true),
        ("echo '# mine'; sha256sum x", true),
        ("sha256sum a", false),
        ("sha256sum <x", false),
        // It is right about what comes.
        ("cp x y; cp a x; sha256sum x; cp y x", false),
        ("cat a", false),
    ] {
        shell(&scene, "rm -f x*; echo new >a; echo old >x");
        shell(&scene, &format!("({list}) >x.sha256sum; cp x.sha256sum was"));
        let args = [&over[..], &["--hash", "sha512,sha256"]].concat();
        let run = in_shell(&scene, "\"$@\" <a", &args);
        run.assert_code(0);
        let stays =
            "cannot remove the old manifest ./x.sha256sum: it is a list of an earlier content";
        let said = String::from_utf8_lossy(&run.stderr);
        assert_eq!(said.contains(stays), is_named, "{list}: {said}");
        same(&scene, "x.sha256sum", "was");
    }
    // One that is read is not removed.
    shell(&scene, "rm -f x*; echo old >x; sha256sum x >x.sha256sum");
    let args = ["-i", "x.sha256sum", "-o", "x", "--hash", "none", "--overwrite-policy", "always"];
    scene.bare(args).run().assert_code(2).assert_says("is an output file");
    shell(&scene, "sha256sum -c --strict --quiet x.sha256sum");
}

/// What stays after its lists were removed is named as not listed.
#[test]
fn a_file_that_stays_without_its_lists_is_named() {
    need!(Strace);
    for hash in ["sha256", "sha512"] {
        let scene = Scene::new();
        scene.tree(".").file("a", "new").file("out", "old");
        shell(&scene, "sha256sum out >out.sha256sum");
        let strace = Strace::inject(&scene, Strace::RENAMES, "error=EIO");
        let args = ["-i", "a", "-o", "out", "--hash", hash, "--overwrite-policy", "always"];
        let run = strace.run(scene.bare(args));
        run.assert_code(3).assert_says(
            "what stands there is not listed any more: ./out.sha256sum was removed before",
        );
        strace.fired(&run);
        assert_eq!(scene.tree(".").read("out"), b"old");
    }
}

/// A killed run's part file goes with the next run that makes the same file; one that is being written stays.
#[test]
fn what_a_killed_run_left_is_removed_by_the_next() {
    let scene = scene();
    shell(&scene, "mkdir out; cp b out/f; mkfifo in");
    let args = |input| ["-i", input, "-o", "out/f", "--overwrite-policy", "always"];
    let parts = || shell(&scene, "ls -A out | grep dircopy-part || true").lines().count();
    let begin = || {
        // No program writes to the FIFO.
        let mut running = scene.bare(args("b").iter().chain(&["-i", "in"])).spawn();
        running.until_it_listens();
        running.until("a part file", || parts() > 0);
        running
    };
    let killed = begin();
    killed.signal(Signal::KILL);
    assert_eq!(killed.wait().signal, Some(Signal::KILL.as_raw()));
    assert_eq!(parts(), 1, "there is nothing to remove");
    scene.bare(args("a")).run().assert_code(0);
    same(&scene, "out/f", "a");
    assert_eq!(parts(), 0);
    // Beside one that is at work.
    let other = begin();
    scene.bare(args("b")).run().assert_code(0);
    same(&scene, "out/f", "b");
    assert_eq!(parts(), 1);
    scene.bare(["-i", "src", "-o", "out", "--allow-empty"]).run().assert_code(0);
    assert_eq!(parts(), 1, "a copy of a tree removed it");
    other.signal(Signal::TERM);
    other.wait().assert_code(143);
    assert_eq!(parts(), 0);
}

/// A list says more than the permissions that it shows as: what takes the place of its file lets in nobody else.
#[test]
fn a_file_with_an_access_list_is_followed_by_one_of_its_owner_alone() {
    need!(Attr);
    let scene = Scene::on_disk();
    shell(&scene, "mkdir -p src; echo x > src/f; echo old > out; cp out plain");
    scene.bare(["src", "dst", "--report", "report.json"]).run().assert_code(0);
    shell(
        &scene,
        "chmod 600 out report.json; setfacl -m u:1003:r,g::---,m::r out report.json; chmod 640 plain",
    );
    for out in ["out", "plain"] {
        let args = ["-i", "-", "-o", out, "--overwrite-policy", "always"];
        scene.bare(args).in_shell("echo new | \"$@\"").run().assert_code(0);
    }
    scene.bare(["src", "dst", "--report", "report.json"]).run().assert_code(0);
    assert_eq!(shell(&scene, "stat -c %a out report.json plain; cat out"), "600\n600\n640\nnew\n");
}

/// Who may write to the directory puts a file or a FIFO of his own in the place of what the last run left.
#[test]
fn what_another_user_put_there_gets_nothing_of_roots() {
    need!(Root);
    for (plant, read) in [
        ("echo x >up/out; chown 1001 up/out", "cat up/out"),
        ("mkfifo up/out; chown 1001 up/out", "echo"),
    ] {
        let scene = Scene::new();
        shell(&scene, &format!("mkdir up; chown 1001 up; {plant}; echo secret >in"));
        for policy in ["update", "always"] {
            let args = ["-i", "in", "-o", "up/out", "--overwrite-policy", policy];
            let run = scene.bare(args).run();
            run.assert_code(2).assert_says("it is of another user (1001)");
            assert!(!shell(&scene, read).contains("secret"));
        }
        shell(&scene, "rm up/out");
    }
}

/// Nor is what takes the place of another user's file, or list, as open as that one was, or that list gone.
#[test]
fn what_is_of_another_user_where_others_write_is_replaced_by_nobody() {
    need!(Root, Setpriv);
    let scene = Scene::new();
    shell(
        &scene,
        "chmod 755 .; mkdir -m 777 open; mkdir -m 1777 sticky; echo secret >in; chmod 644 in",
    );
    shell(&scene, "echo theirs | tee open/out >sticky/out.sha256sum; chown 1001 open/out sticky/*");
    let stream = |out| scene.bare(["-i", "-", "-o", out, "--overwrite-policy", "always"]);
    for run in [stream("open/out").under_nobody(), stream("sticky/out")] {
        let run = run.in_shell("\"$@\" <in").run();
        run.assert_code(2).assert_says("it is of another user (1001), and others may write");
    }
    assert_eq!(shell(&scene, "cat open/out sticky/*"), "theirs\ntheirs\n");
}

/// Where others may write, they can give the name to any file of this user's.
#[test]
fn a_file_that_may_have_got_its_name_since_opens_nothing() {
    need!(Root);
    let scene = Scene::new();
    shell(&scene, "mkdir up closed; chown 1001 up");
    for (dir, there, umask, mode) in [
        ("up", "644", "077", "600"),
        ("up", "600", "022", "600"),
        ("up", "4755", "022", "644"),
        ("closed", "644", "077", "644"),
    ] {
        let out = format!("{dir}/out");
        shell(&scene, &format!("echo old >{out}; chmod {there} {out}"));
        let run = scene.bare(["-i", "-", "-o", &out, "--overwrite-policy", "always"]);
        run.in_shell(&format!("umask {umask}; echo new | \"$@\"")).run().assert_code(0);
        assert_eq!(
            shell(&scene, &format!("stat -c %a {out}; cat {out}")),
            format!("{mode}\nnew\n")
        );
    }
}

/// What goes into a directory that is not at its path any more is found by nobody.
#[test]
fn a_directory_that_is_moved_meanwhile_gets_nothing() {
    let scene = Scene::new();
    shell(&scene, "mkdir sh; echo old >sh/out; echo list >sh/out.sha256sum");
    let line = "(echo one; until ls -A sh | grep -q part; do sleep .05; done; mv sh moved; mkdir sh; echo two) | \"$@\"";
    let run = scene.bare(["-i", "-", "-o", "sh/out", "--overwrite-policy", "always"]);
    let run = run.in_shell(line).run();
    run.assert_code(3).assert_says("sh: it was unmounted, moved or replaced meanwhile");
    assert_eq!(
        shell(&scene, "ls -A sh moved; cat moved/*").trim(),
        "moved:\nout\nout.sha256sum\n\nsh:\nold\nlist"
    );
}

/// No policy replaces what is no file.
#[test]
fn what_has_the_name_of_the_list_and_is_no_file_is_named() {
    let scene = scene();
    for (make, is) in [("mkdir", "a directory"), ("mkfifo", "a special file")] {
        shell(&scene, &format!("{make} x.sha256sum"));
        let run = scene.bare(["-i", "-", "-o", "x", "--overwrite-policy", "always"]);
        let run = run.in_shell("\"$@\" <a").run();
        run.assert_code(2)
            .assert_says(&format!("the manifest to ./x.sha256sum: {is} is in its place"));
        run.assert_says("remove it, or give --manifest");
        shell(&scene, "rm -r x.sha256sum; test ! -e x");
    }
}
