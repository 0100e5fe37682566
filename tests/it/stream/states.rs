//! States of streams: in a side file of each manifest, as another library computes them, and used by checks and
//! healing as those of trees are.

use crate::harness::{Run, Scene, content, ctimes, need, shell, states_of};

const MIB: usize = 1 << 20;

/// `film`, of six links, in the middle of the last.
fn scene() -> Scene {
    let scene = Scene::new();
    scene
        .tree(".")
        .file("film", content(5 * MIB + 77))
        .file("small", "small")
        .file("link", content(MIB));
    shell(&scene, "mkdir one two");
    scene
}

/// Runs a line of shell in which `"$@"` is the program with these arguments.
fn in_shell(scene: &Scene, line: &str, args: &[&str]) -> Run {
    scene.bare(args).in_shell(&format!("set -o pipefail; {line}")).run()
}

fn states(scene: &Scene) -> Vec<String> {
    let names = shell(scene, "find . -name '*.states*' | sort");
    names.lines().map(str::to_owned).collect()
}

#[test]
fn every_output_has_the_states_of_what_came() {
    need!(Crypto);
    for args in [
        &[][..],
        &["--queue-size", "1", "--block-size", "4096"],
        &["--block-size", "16M"],
        &["--no-sync"],
        &["--verify"],
    ] {
        for line in ["\"$@\" <film", "cat film | \"$@\"", "mkfifo in; cat film >in & \"$@\""] {
            let scene = scene();
            let input = if line.contains("mkfifo") { "in" } else { "-" };
            let outputs = ["-i", input, "-o", "one/x.tar", "-o", "two/y", "-q"];
            let run = in_shell(&scene, line, &[&outputs, args].concat());
            run.assert_code(0);
            assert!(run.stderr.is_empty(), "{}", run.err());
            assert_eq!(states(&scene), ["./one/x.tar.states", "./two/y.states"]);
            for (dir, name) in [("one", "x.tar"), ("two", "y")] {
                let side = scene.path(&format!("{dir}/{name}.states"));
                assert_eq!(states_of(side, &scene.path(dir)), [format!("{name} 5")], "{args:?}");
            }
        }
    }
}

#[test]
fn several_inputs_are_one_content() {
    need!(Crypto);
    let scene = scene();
    let args =
        ["-q", "-i", "film", "-i", "small", "-i", "film", "-o", "x", "-o", "one/y", "-o", "-"];
    in_shell(&scene, "\"$@\" >z", &[&args[..], &["--manifest", "list.sha256sum"]].concat())
        .assert_code(0);
    assert_eq!(states(&scene), ["./list.states"]);
    assert_eq!(states_of(scene.path("list.states"), scene.root()), ["x 10"]);
    shell(&scene, "sha256sum -c --strict --quiet <(grep -v ' -$' list.sha256sum); cmp x z");
}

#[test]
fn without_states_or_a_digest_or_more_than_a_link_there_is_no_side_file() {
    for (line, args) in [
        ("cat film | \"$@\"", &["--states", "none"][..]),
        ("cat film | \"$@\"", &["--states", "none", "--manifest", "list"]),
        ("cat film | \"$@\"", &["--hash", "none"]),
        ("cat link | \"$@\"", &[]),
        ("cat link | \"$@\"", &["--manifest", "list"]),
    ] {
        let scene = scene();
        let outputs = ["-q", "-i", "-", "-o", "x", "-o", "y"];
        in_shell(&scene, line, &[&outputs, args].concat()).assert_code(0);
        assert_eq!(states(&scene), [""; 0], "{args:?}");
    }
}

/// A check finds the states beside the list, and healing takes links from the other output.
#[test]
fn checks_and_healing_use_them() {
    let scene = Scene::new();
    scene.tree(".").file("film", content(9 * MIB + 77));
    shell(&scene, "mkdir one two");
    let args = ["-q", "-i", "-", "-o", "one/x.tar", "-o", "two/x.tar"];
    in_shell(&scene, "cat film | \"$@\"", &args).assert_code(0);
    for (tree, at) in [("one", 3 * MIB), ("two", 7 * MIB + 5)] {
        let mut bytes = scene.tree(tree).read("x.tar");
        bytes[at] ^= 1;
        scene.tree(tree).file("x.tar", bytes);
    }
    let list = "one/x.tar.sha256sum";
    let run = scene.bare(["-m", list]).dirverify().run();
    run.assert_code(4).assert_says("1 MiB of 10: 3-4 MiB");
    let run = scene.bare(["heal", "-m", list, "one", "two"]).run();
    run.assert_code(0).assert_says("healed: one/x.tar: 1 MiB from two");
    run.assert_says("healed: two/x.tar: 1 MiB from one");
    shell(&scene, "cmp film one/x.tar; cmp film two/x.tar");
    scene.bare(["-m", list, "--complete", "-q"]).dirverify().run().assert_code(0);
}

/// What has the name of the side file stays, unless it is one and the policy says so.
#[test]
fn what_has_its_name_stays_unless_it_is_a_side_file() {
    need!(Crypto);
    for (planted, policy, is_replaced) in [
        ("echo mine > x.states", "always", false),
        ("echo mine > x.states", "never", false),
        ("mkdir x.states", "always", false),
        ("mkfifo x.states", "always", false),
        ("ln -s film x.states", "always", false),
        ("printf 'dircopy states 1\\n' > x.states", "never", false),
        ("printf 'dircopy states 1\\n' > x.states", "always", true),
        ("printf 'dircopy states 1\\n' > x.states", "update", true),
    ] {
        let scene = scene();
        shell(&scene, planted);
        let was = ctimes(&scene.path("x.states"));
        let args = ["-i", "-", "-o", "x", "--overwrite-policy", policy];
        let run = in_shell(&scene, "cat film | \"$@\"", &args);
        run.assert_code(0);
        shell(&scene, "cmp film x; sha256sum -c --quiet --strict x.sha256sum");
        if is_replaced {
            assert_eq!(states_of(scene.path("x.states"), scene.root()), ["x 5"], "{planted}");
        } else {
            run.assert_says("cannot write the states of large files to");
            assert_eq!(was, ctimes(&scene.path("x.states")), "{planted} {policy}");
        }
    }
}

/// An output of that name is the output, and a side file that is an input is not replaced.
#[test]
fn outputs_and_inputs_come_before_side_files() {
    for (first, second) in [("x", "x.states"), ("x.states", "x")] {
        let scene = scene();
        let run = in_shell(&scene, "cat film | \"$@\"", &["-i", "-", "-o", first, "-o", second]);
        run.assert_code(0).assert_says("x.states: this is an output");
        shell(&scene, "cmp film x; cmp film x.states; sha256sum -c --quiet --strict *.sha256sum");
    }
    let scene = scene();
    in_shell(&scene, "cat film | \"$@\"", &["-q", "-i", "-", "-o", "x"]).assert_code(0);
    let was = ctimes(&scene.path("x.states"));
    let args = ["-i", "x.states", "-i", "film", "-o", "x", "--overwrite-policy", "always"];
    scene.bare(args).run().assert_code(2).assert_says("is an output file");
    assert_eq!(was, ctimes(&scene.path("x.states")));
}

/// A replaced file has the states of what it is now.
#[test]
fn what_is_replaced_has_new_states() {
    need!(Crypto);
    let scene = scene();
    let args = ["-q", "-i", "-", "-o", "x", "--overwrite-policy", "always"];
    for line in ["cat film film | \"$@\"", "cat film | \"$@\"", "cat film link film | \"$@\""] {
        in_shell(&scene, line, &args).assert_code(0);
        let links = shell(&scene, "stat -c %s x").trim().parse::<usize>().unwrap().div_ceil(MIB);
        assert_eq!(states_of(scene.path("x.states"), scene.root()), [format!("x {}", links - 1)]);
    }
}
