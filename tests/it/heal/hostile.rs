//! Healing as a stranger would try to break it: planted manifests and states, copies that change while they are read,
//! links, trees within trees, other runs at the same time, and room that goes.

use std::time::Duration;

use rustix::process::Signal;
use sha2::Digest as _;

use crate::harness::{Mount, Run, Scene, Strace, content, ctimes, need, shell};

use super::{MIB, are_whole, copies, heal, healed, is_whole, rot, told};

const LARGE: usize = 6 * MIB + 77;

/// Two copies, the first of which is damaged.
fn scene(names: &[&str]) -> Scene {
    let scene = Scene::new();
    scene.src.file("dir/a.mov", content(LARGE)).file("b", content(2 * MIB)).file("small", "x");
    copies(&scene, names, &[]);
    rot(&scene, "A/dir/a.mov", &[3 * MIB]);
    scene
}

fn parts(scene: &Scene) -> String {
    shell(scene, "find A B -name '*dircopy-part*' -o -name '*.tmp'")
}

/// A manifest that was put into a tree with a later name is not the one that this user's runs made: nothing is healed
/// to what it lists.
#[test]
fn a_planted_manifest_is_not_what_is_healed_to() {
    let scene = scene(&["A", "B"]);
    let good = scene.tree("B").read("b");
    // Both trees have the attacker's content and a list that says so.
    shell(
        &scene,
        "for tree in A B; do cd $tree; echo evil > b; sha256sum b > dircopy-20990101T000000Z.sha256sum; cd ..; done",
    );
    let run = heal(&scene, &["--from-tree", "src", "A", "B"]);
    run.assert_code(0).assert_says("dircopy-20990101T000000Z.sha256sum");
    assert!(scene.tree("A").read("b") == good && scene.tree("B").read("b") == good);
}

/// The side file is whatever somebody put there.
#[test]
fn what_stands_for_a_side_file_is_not_believed() {
    let huge = |scene: &Scene, span: u32, size: u64| {
        // A record that claims to be of the listed content, and of any size; its sum is right.
        let digest: [u8; 32] = sha2::Sha256::digest(content(LARGE)).into();
        let mut record = b"FILE".to_vec();
        record.extend(9u32.to_le_bytes());
        record.extend(span.to_le_bytes());
        record.extend(size.to_le_bytes());
        record.extend(digest);
        record.extend(b"dir/a.mov");
        let states = (size - 1) / (u64::from(span) << 20);
        record.extend(vec![7; 32 * states as usize]);
        let sum: [u8; 32] = sha2::Sha256::digest(&record).into();
        record.extend(&sum[..8]);
        let side = [&b"dircopy states 1\n"[..], &record].concat();
        let plant = |tree: &str| {
            let name = shell(scene, &format!("cd {tree}; ls *.states"));
            scene.tree(tree).file(name.trim(), &side);
        };
        ["A", "B"].into_iter().for_each(plant);
    };
    type Plant<'a> = &'a dyn Fn(&Scene);
    let plants: [Plant<'_>; 7] = [
        &|scene| drop(shell(scene, "for s in A/*.states B/*.states; do rm $s; mkfifo $s; done")),
        &|scene| drop(shell(scene, "for s in A/*.states B/*.states; do rm $s; mkdir $s; done")),
        &|scene| drop(shell(scene, "for s in A/*.states B/*.states; do ln -sf /dev/zero $s; done")),
        &|scene| drop(shell(scene, "for s in A/*.states B/*.states; do truncate -s 1P $s; done")),
        &|scene| huge(scene, 1, 1 << 30),
        &|scene| huge(scene, 1 << 30, 3 << 50),
        &|scene| huge(scene, 8, (1 << 40) + 5),
    ];
    for (number, plant) in plants.into_iter().enumerate() {
        let scene = scene(&["A", "B"]);
        plant(&scene);
        let run = heal(&scene, &["A", "B"]);
        run.assert_code(0);
        assert_eq!(told(&run, "healed: ").len(), 1, "{number}: {}", run.err());
        are_whole(&scene, &["A", "B"]);
        assert_eq!(parts(&scene), "");
    }
}

/// Stops a heal when it has found out what to do and begins to write; meanwhile something happens.
fn meanwhile(scene: &Scene, trees: &[&str], line: &str) -> Run {
    let strace = Strace::inject(scene, "ftruncate", "signal=SIGSTOP:when=1");
    let command = scene.bare([&["heal"], trees].concat());
    let run = strace.run_stopped(command, || drop(shell(scene, line)));
    assert!(strace.log().contains("SIGSTOP"), "{}", run.err());
    run
}

/// What was good a moment ago is proven once more with the bytes that are written.
#[test]
fn a_copy_that_changes_while_it_is_read_gives_nothing_bad() {
    need!(Strace);
    let spoil = "printf evil | dd of=B/dir/a.mov bs=1 seek=3145728 conv=notrunc status=none";
    // Of three the other has it still.
    let of_three = scene(&["A", "B", "C"]);
    let run = meanwhile(&of_three, &["A", "B", "C"], spoil);
    run.assert_code(0);
    is_whole(&of_three.path("A"));
    // Of two none has.
    let of_two = scene(&["A", "B"]);
    let was = of_two.tree("A").read("dir/a.mov");
    let run = meanwhile(&of_two, &["A", "B"], spoil);
    run.assert_code(4).assert_says("not healed: A/dir/a.mov: cannot heal");
    assert!(of_two.tree("A").read("dir/a.mov") == was);
    assert_eq!(parts(&of_two), "");
    // A file that is taken as a whole, too.
    for line in ["echo evil > B/small", "rm B/small; ln -s /etc/hostname B/small", "rm B/small"] {
        let whole = scene(&["A", "B"]);
        shell(&whole, "cp -p B/dir/a.mov A/dir/a.mov");
        rot(&whole, "A/small", &[0]);
        let run = meanwhile(&whole, &["A", "B"], line);
        // What was opened before it was replaced is the good one still.
        run.assert_code_in(&[0, 4]);
        let small = whole.tree("A").read("small");
        assert_eq!(small, if run.code == Some(0) { b"x" } else { b"y" }, "{line}: {}", run.err());
        assert_eq!(parts(&whole), "");
    }
}

/// A bad file that somebody works on stays what they made of it.
#[test]
fn a_bad_file_that_changes_meanwhile_is_left() {
    need!(Strace);
    for line in [
        "printf mine | dd of=A/dir/a.mov bs=1 seek=5 conv=notrunc status=none",
        "mv A/dir/a.mov elsewhere; cp elsewhere A/dir/a.mov",
        "mv A/dir/a.mov elsewhere; ln -s ../../elsewhere A/dir/a.mov",
        "mv A/dir/a.mov elsewhere; mkdir A/dir/a.mov",
    ] {
        let scene = scene(&["A", "B"]);
        shell(&scene, "cp A/dir/a.mov was");
        let run = meanwhile(&scene, &["A", "B"], line);
        run.assert_code(4).assert_says("not healed: A/dir/a.mov");
        assert_eq!(parts(&scene), "", "{line}");
        // What they made is there.
        let kind = shell(&scene, "stat -c %F A/dir/a.mov");
        let expected = ["regular file", "regular file", "symbolic link", "directory"];
        assert!(expected.contains(&kind.trim()));
        shell(&scene, "[ ! -e elsewhere ] || cmp was elsewhere");
    }
}

/// The directory is moved out of the tree while a file in it is made whole: nothing appears where it was not.
#[test]
fn a_directory_that_moves_takes_what_is_made_in_it() {
    need!(Strace);
    let scene = scene(&["A", "B"]);
    shell(&scene, "mkdir outside");
    let run = meanwhile(&scene, &["A", "B"], "mv A/dir moved; ln -s ../outside A/dir");
    run.assert_code_in(&[0, 4]);
    assert_eq!(shell(&scene, "ls outside; find . -name '*dircopy-part*'"), "");
}

/// Other names of a bad file, also outside the tree, are not written through.
#[test]
fn other_names_of_a_bad_file_stay_what_they_are() {
    let scene = scene(&["A", "B"]);
    shell(&scene, "ln A/dir/a.mov outside; cp outside was");
    heal(&scene, &["A", "B"]).assert_code(0);
    is_whole(&scene.path("A"));
    shell(&scene, "cmp outside was; [ $(stat -c %h outside) = 1 ]");
    // A name that is planted where part files go is in the way of nothing.
    rot(&scene, "A/b", &[0]);
    let strace_names = "for n in $(seq 9); do ln -s ../was A/b.$n.dircopy-part; done";
    shell(&scene, strace_names);
    heal(&scene, &["A", "B"]).assert_code(0);
    is_whole(&scene.path("A"));
    shell(&scene, "cmp outside was");
}

/// A tree under another name is the same tree.
#[test]
fn a_tree_that_is_given_twice_is_refused() {
    need!(Mount);
    let scene = scene(&["A", "B"]);
    shell(&scene, "ln -s A link; mkdir bound");
    let _mount = Mount::bind(&scene.path("A"), &scene.path("bound"));
    let was = ctimes(&scene.path("A"));
    for trees in [
        ["A", "A"],
        ["A", "./A/../A"],
        ["A", "link"],
        ["link", "bound"],
        ["A", "bound"],
        ["bound", "--from-tree=A"],
    ] {
        heal(&scene, &trees).assert_code(2).assert_says("it is given twice");
    }
    assert_eq!(was, ctimes(&scene.path("A")));
}

/// Trees within trees: a file that both list is healed, and neither harms the other.
#[test]
fn trees_may_lie_within_one_another() {
    let scene = Scene::new();
    scene.src.file("a.mov", content(LARGE)).file("b", content(2 * MIB));
    std::fs::create_dir(scene.path("out")).unwrap();
    copies(&scene, &["out/in", "B"], &[]);
    // `out` lists what is in `in`, and has the same files itself.
    shell(
        &scene,
        "cp -rp src/. out/; cd out; sha256sum a.mov b in/a.mov in/b > dircopy-20260101T000000Z.sha256sum; cd ..
         cp -rp out C",
    );
    for trees in [&["out", "out/in", "B"][..], &["out/in", "out", "C"], &["B", "out/in", "out"]] {
        rot(&scene, "out/a.mov", &[7]);
        rot(&scene, "out/in/a.mov", &[3 * MIB]);
        rot(&scene, "B/a.mov", &[5 * MIB]);
        rot(&scene, "out/in/b", &[7]);
        let run = heal(&scene, trees);
        run.assert_code_in(&[0, 4]);
        heal(&scene, &["-q", "out/in", "B", "--from-tree", "src"]).assert_code(0);
        heal(&scene, &["-q", "out", "C", "--from-tree", "src"]).assert_code(0);
        are_whole(&scene, &["out", "out/in", "B", "C"]);
        shell(&scene, "cmp out/a.mov src/a.mov; cmp out/in/a.mov src/a.mov; cmp out/b src/b");
    }
}

/// Two at once: one goes first, and the other finds everything in place; one that is not to wait is refused.
#[test]
fn two_heals_at_once_do_no_harm() {
    let scene = scene(&["A", "B"]);
    for round in 0..4 {
        rot(&scene, "A/dir/a.mov", &[MIB * round]);
        rot(&scene, "B/dir/a.mov", &[MIB * (round + 1)]);
        rot(&scene, "A/small", &[0]);
        // In either order of the trees.
        let waiting = [["A", "B"], ["B", "A"], ["A", "B"]]
            .map(|trees| scene.bare(["heal", "-q", "--wait"].iter().chain(&trees)).spawn());
        let hasty = scene.bare(["heal", "-q", "B", "A"]).run();
        hasty.assert_code_in(&[0, 2]);
        for running in waiting {
            running.wait().assert_code(0);
        }
        are_whole(&scene, &["A", "B"]);
        assert_eq!(parts(&scene), "");
    }
}

/// A copy onto a tree and its healing keep out of each other's way.
#[test]
fn a_heal_beside_a_copy_waits_or_is_refused() {
    need!(Strace);
    let scene = scene(&["A", "B"]);
    scene.src.file("new", content(5 * MIB));
    let copy = |args: &[&str]| {
        scene.command_to(scene.src.root(), scene.path("A"), [&["-q"], args].concat())
    };
    let mut copying = copy(&["--limit-rate", "4M"]).spawn();
    copying.until("the copy", || !shell(&scene, "ls A/*.part 2>/dev/null || true").is_empty());
    let was = scene.tree("A").read("dir/a.mov");
    heal(&scene, &["A", "B"]).assert_code(2).assert_says("is at work on it");
    // As a donor it may be read all the while.
    rot(&scene, "B/b", &[0]);
    heal(&scene, &["B", "--from-tree", "A"]).assert_code(0);
    assert!(scene.tree("A").read("dir/a.mov") == was);
    let waiting = scene.bare(["heal", "-q", "--wait", "A", "--from-tree", "B"]).spawn();
    copying.wait().assert_code(0);
    waiting.wait().assert_code(0);
    is_whole(&scene.path("A"));
    // And the other way round.
    rot(&scene, "A/dir/a.mov", &[7]);
    let strace = Strace::inject(&scene, "ftruncate", "signal=SIGSTOP:when=1");
    let healing = strace.run_stopped(scene.bare(["heal", "-q", "A", "B"]), || {
        copy(&[]).run().assert_code(2).assert_says("at work");
    });
    healing.assert_code(0);
    copy(&[]).run().assert_code(0);
    is_whole(&scene.path("A"));
}

/// A run that is killed has published files that are newer than the list: they are not damage.
#[test]
fn newer_files_of_a_killed_run_are_not_set_back() {
    need!(Strace);
    let scene = scene(&["A", "B"]);
    scene.src.file("b", "a newer one").file("dir/a.mov", "newer, too");
    let update = || {
        let args = ["-q", "--overwrite-policy", "update"];
        scene.command_to(scene.src.root(), scene.path("A"), args)
    };
    let strace = Strace::inject(&scene, "renameat2", "signal=KILL:when=2");
    assert_eq!(strace.run(update()).signal, Some(9));
    assert!(!shell(&scene, "ls A/*.part").is_empty());
    let before = ctimes(&scene.path("A"));
    let run = heal(&scene, &["A", "B"]);
    run.assert_says("it may be newer than the list");
    assert!(run.code != Some(0));
    assert_eq!(ctimes(&scene.path("A")), before);
    // Once that run was made again, its list says what is good.
    update().run().assert_code(0);
    rot(&scene, "A/dir/a.mov", &[0]);
    heal(&scene, &["A", "--from-tree", "src"]).assert_code(0);
}

/// Also where the list that it left was removed.
#[test]
fn newer_files_of_a_run_without_a_list_are_not_set_back() {
    let scene = scene(&["A", "B"]);
    scene.src.file("b", "a newer one").file("dir/a.mov", content(LARGE + 1));
    let args = ["-q", "--overwrite-policy", "update", "--limit-rate", "1M"];
    let mut update = scene.command_to(scene.src.root(), scene.path("A"), args).spawn();
    update.until("a newer file", || scene.tree("A").read("b") == b"a newer one");
    update.signal(Signal::TERM);
    update.wait().assert_code(143);
    shell(&scene, "rm A/*.part");
    rot(&scene, "A/small", &[0]);
    let run = heal(&scene, &["A", "B"]);
    run.assert_code(4).assert_says("it may be newer than the list");
    shell(&scene, "cmp src/b A/b");
    // What has rotted is healed beside it.
    shell(&scene, "cmp src/small A/small");
    // Who names the list says that it is to hold.
    let list = shell(&scene, "ls A/*.sha256sum");
    heal(&scene, &["A", "B", "--manifest", list.trim()]).assert_code(0);
    shell(&scene, "cmp A/b B/b && cmp A/dir/a.mov B/dir/a.mov");
}

/// What came by a run that lists nothing, or by shards of a plan that is not finished, is in no list yet.
#[test]
fn newer_files_that_no_list_has_are_not_set_back() {
    for by in ["--hash=none", "plan", "plan with a run between"] {
        let scene = scene(&["A", "B"]);
        scene.src.file("b", "a newer one");
        let update = |args: &[&str]| {
            let args = [&["-q", "--overwrite-policy", "update"], args].concat();
            scene.command_to(scene.src.root(), scene.path("A"), args).run()
        };
        if by.starts_with("plan") {
            let plan = ["plan", "src", "A", "--plan", "plan", "--overwrite-policy", "update"];
            scene.bare(plan).run().assert_code(0);
            if by != "plan" {
                update(&["--exclude", "b"]).assert_code(0);
            }
            scene.bare(["shard", "--plan", "plan", "--claim"]).run().assert_code(0);
        } else {
            update(&[by]).assert_code(0);
        }
        shell(&scene, "cmp src/b A/b");
        let check = scene.bare(["verify", "A"]).run();
        check
            .assert_code(4)
            .assert_says("A: a later run here made no list")
            .assert_says("differs: A/b");
        let before = ctimes(&scene.path("A"));
        heal(&scene, &["A", "B"]).assert_code(4).assert_says("it may be newer than the list");
        assert_eq!(ctimes(&scene.path("A")), before);
        let is_finished = by == "plan";
        if by != "--hash=none" {
            // After a run between its manifest would be newer than that of the run.
            let code = if is_finished { 0 } else { 2 };
            scene.bare(["finish", "--plan", "plan"]).run().assert_code(code);
        }
        if !is_finished {
            update(&[]).assert_code(0);
        }
        assert_eq!(scene.bare(["verify", "-q", "A"]).run().assert_code(0).err(), "");
        rot(&scene, "A/small", &[0]);
        heal(&scene, &["A", "--from-tree", "src"]).assert_code(0);
        shell(&scene, "cmp src/b A/b && cmp src/small A/small");
    }
}

/// What came from the source is data, whatever its name.
#[test]
fn a_list_that_came_from_the_source_keeps_nothing_from_being_healed() {
    let scene = Scene::new();
    scene.src.file("b", content(MIB));
    let name = shell(&scene, "echo dircopy-$(date -u -d '+1 hour' +%Y%m%dT%H%M%SZ).sha256sum.part");
    scene.src.file(name.trim(), "0 b");
    copies(&scene, &["A", "B"], &[]);
    rot(&scene, "A/b", &[0]);
    heal(&scene, &["A", "B"]).assert_code(0);
    shell(&scene, "cmp src/b A/b");
    let run = scene.bare(["verify", "A"]).run();
    assert!(!run.assert_code(0).err().contains("cut short"), "{}", run.err());
}

/// Room that goes while a file is made leaves the bad file and no part of another.
#[test]
fn room_that_runs_out_leaves_the_old_file() {
    need!(Mount, Strace);
    let scene = scene(&["A", "B"]);
    std::fs::create_dir(scene.path("m")).unwrap();
    let mount = Mount::tmpfs(&scene.path("m"), "20m");
    shell(&scene, "cp -rp A m/A");
    let was = scene.tree("m/A").read("dir/a.mov");
    // There was room when it was looked at.
    let filled = "head -c 20M /dev/zero > m/filler 2>/dev/null || true; sync -f m";
    let run = meanwhile(&scene, &["m/A", "B"], filled);
    run.assert_code(4).assert_says("not healed: m/A/dir/a.mov: cannot");
    run.assert_says("No space left on device");
    assert!(scene.tree("m/A").read("dir/a.mov") == was);
    assert_eq!(shell(&scene, "find m -name '*dircopy-part*'"), "");
    shell(&scene, "rm m/filler");
    heal(&scene, &["-q", "m/A", "B"]).assert_code(0);
    is_whole(&scene.path("m/A"));
    drop(mount);
}

/// A donor that is only readable, by its mount or its permissions, is enough; nothing is written to it.
#[test]
fn a_donor_that_can_only_be_read_is_enough() {
    need!(Mount);
    let scene = scene(&["A", "B"]);
    shell(&scene, "mkdir fixed; rm -r B/.dircopy; rm A/b");
    let mount = Mount::read_only(&scene.path("B"), &scene.path("fixed"));
    let was = ctimes(&scene.path("B"));
    let run = heal(&scene, &["A", "--from-tree", "fixed"]);
    run.assert_code(0);
    assert_eq!(healed(&run), ["A/b: 2 MiB from fixed", "A/dir/a.mov: 1 MiB from fixed"]);
    rot(&scene, "A/b", &[5]);
    scene.bare(["heal", "-q", "A", "--from-tree", "fixed"]).run().assert_code(0);
    rot(&scene, "A/b", &[5]);
    heal(&scene, &["-q", "A", "fixed"]).assert_code(0);
    assert_eq!(was, ctimes(&scene.path("B")));
    is_whole(&scene.path("A"));
    drop(mount);
}

/// A donor's file that is no file is no obstacle, and nothing waits for it.
#[test]
fn a_donor_of_odd_entries_gives_nothing() {
    for line in [
        "rm B/dir/a.mov; mkfifo B/dir/a.mov",
        "rm B/dir/a.mov; mkdir B/dir/a.mov",
        "mv B/dir/a.mov secret; ln -s ../../secret B/dir/a.mov",
        "mv B/dir secret; ln -s ../secret B/dir",
        "truncate -s 3M B/dir/a.mov",
        ": > B/dir/a.mov",
    ] {
        let scene = scene(&["A", "B"]);
        shell(&scene, line);
        let was = scene.tree("A").read("dir/a.mov");
        let started = std::time::Instant::now();
        let run = heal(&scene, &["A", "--from-tree", "B"]);
        run.assert_code(4).assert_says("not healed: A/dir/a.mov: no tree has it good");
        assert!(started.elapsed() < Duration::from_secs(30));
        assert!(scene.tree("A").read("dir/a.mov") == was, "{line}");
        assert_eq!(shell(&scene, "find A -name '*dircopy-part*'"), "");
    }
}

/// Names that lead out of a tree are refused, whatever the donor has there.
#[test]
fn names_that_lead_out_are_refused() {
    let scene = scene(&["A", "B"]);
    shell(
        &scene,
        "mkdir -p in/A in/B; cp A/small in/A; cp A/small in/B; echo other > in/outside
         { sha256sum A/small | sed 's:A/small:../outside:'; sha256sum A/small | sed 's:A/small:/in:'
           sha256sum A/small | sed 's:A/small:small/../../outside:'; sha256sum A/small | sed 's:A/:./:'
         } > in/list",
    );
    let run = scene.bare(["heal", "-m", "in/list", "in/A", "in/B"]).run();
    run.assert_code(5);
    assert_eq!(shell(&scene, "cat in/outside"), "other\n");
    assert_eq!(healed(&run), [""; 0]);
}

/// It may be a card, or a directory that was named by mistake.
#[test]
fn a_tree_without_a_list_gets_nothing() {
    let scene = scene(&["A"]);
    shell(&scene, "cp -r src C");
    let before = ctimes(&scene.path("C"));
    let run = heal(&scene, &["A", "C"]);
    run.assert_code(5).assert_says("dircopy heal TREE --from-tree takes from it");
    assert_eq!(ctimes(&scene.path("C")), before);
}

/// What somebody has under the name of a good file may be a file of holes as long as he pleases.
#[test]
fn a_copy_that_cannot_be_good_is_not_read() {
    let scene = Scene::on_disk();
    scene.src.file("s", "small").file("big", content(3 * MIB));
    copies(&scene, &["A", "G"], &[]);
    shell(&scene, "mkdir B; truncate -s 8T B/s B/big; chown nobody B B/*; echo rot >A/s; rm A/big");
    for records in ["A", "none"] {
        let run = heal(&scene, &["A", "--from-tree", "B", "--from-tree", "G"]);
        run.assert_code(0).assert_says("healed: A/s").assert_says("healed: A/big: 3 MiB from G");
        let told = ["owner", "from B", "B and"].map(|words| run.err().contains(words));
        assert_eq!(told, [false; 3], "{}", run.err());
        shell(&scene, "cmp A/s src/s; cmp A/big src/big; echo rot >A/s; rm A/big");
        shell(&scene, &format!("test {records} = none || rm -r A/.dircopy"));
    }
}
