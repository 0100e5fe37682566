//! By which way the bytes go: cloned, moved by the kernel, read and written. Every way passes the
//! same tests on every kind of file system, and none is left for another in the middle of a file.

use std::os::unix::fs::MetadataExt;

use crate::harness::{Judge, Mount, Run, Scene, Strace, Tree, content, long, need, shell};

/// A way, how it is brought about, and what the summary calls it.
struct Way {
    args: &'static [&'static str],
    /// Calls that are made to fail as where they do not exist.
    without: &'static str,
    called: &'static str,
}

const CLONE: Way = Way { args: &["--hash", "none"], without: "", called: "cloned" };
const CLONE_AND_HASH: Way = Way { args: &["--reflink", "always"], without: "", called: "cloned" };
const RANGE: Way = Way { args: &["--hash", "none"], without: "", called: "(copy_file_range)" };
const SEND: Way =
    Way { args: &["--hash", "none", "--reflink", "never"], without: "", called: "(sendfile)" };
const SEND_AS_NEXT: Way =
    Way { args: &["--hash", "none"], without: "ioctl,copy_file_range", called: "(sendfile)" };
const READ_AND_WRITE: Way = Way {
    args: &["--hash", "none"],
    without: "ioctl,copy_file_range,sendfile",
    called: "read and written",
};
const HASH: Way = Way { args: &["--reflink", "never"], without: "", called: "read and written" };
/// Old kernels and other file systems: the cache is spared by windows, not by a flag.
const HASH_IN_WINDOWS: Way = Way { without: "preadv2,pwritev2", ..HASH };

/// Files around every limit there is, with holes and without.
fn fill(tree: &Tree) {
    for len in [0, 1, 4095, 4096, 4097, 262_143, 262_144, 262_145, 3_000_017, 20_000_000] {
        tree.file(format!("{len}"), content(len));
    }
    const MIB: u64 = 1 << 20;
    tree.sparse("all hole", 20 * MIB, &[]);
    tree.sparse("islands", 40 * MIB + 5, &[(0, 5000), (9 * MIB, 100_000), (40 * MIB, 5)]);
    tree.sparse("open end", 30 * MIB, &[(MIB, 300_000)]);
    tree.file("dir/another", content(100));
}

/// Copies `place/src` to `place/dst` by `way`, and judges what came of it.
fn try_way(scene: &Scene, place: &str, way: &Way) {
    let (src, dst) = (scene.tree(place).path("src"), scene.tree(place).path("dst"));
    let src = Tree::at(src);
    if !src.has("dir") {
        fill(&src);
        shell(scene, "sync"); // so that what the files take is settled
    }
    shell(scene, &format!("rm -rf {place}/dst"));
    let mut args = vec!["-v", "--workers", "2"];
    args.extend(way.args);
    let command = scene.command_to(src.root(), &dst, args);
    let run = match way.without {
        "" => command.run(),
        calls => {
            let strace = Strace::inject(scene, calls, "error=EOPNOTSUPP");
            let run = strace.run(command);
            strace.fired(&run);
            run
        }
    };
    run.assert_code(0).assert_prints(&[" files, ", way.called]);
    let judge = Judge::new(&src, Tree::of(&dst), &run);
    judge.same_tree().no_leftovers();
    if !way.args.contains(&"none") {
        judge.lists_all().verifies();
    }
    shell(scene, "sync");
    for name in ["all hole", "islands", "open end", "20000000"] {
        let blocks = |tree: &Tree| tree.path(name).metadata().unwrap().blocks();
        let (from, to) = (blocks(&src), blocks(&judge.dst));
        // What a file system puts beside the data, and how coarse its holes are.
        assert!(to <= from + 512, "{place}, {}: {name}: {to} blocks, {from} before", way.called);
    }
}

#[test]
fn on_one_file_system_without_clones() {
    need!(Loop, Strace);
    let scene = Scene::on_disk();
    let _mount = Mount::of_kind("ext4", &scene.path("image"), &scene.path("ext4"));
    let _tmpfs = Mount::tmpfs(&scene.path("tmpfs"), "256m");
    for place in ["ext4", "tmpfs"] {
        for way in [RANGE, SEND, SEND_AS_NEXT, READ_AND_WRITE, HASH] {
            try_way(&scene, place, &way);
        }
    }
    try_way(&scene, "ext4", &HASH_IN_WINDOWS);
}

#[test]
fn on_file_systems_with_clones() {
    need!(Kinds, Strace);
    for kind in ["xfs", "btrfs"] {
        let scene = Scene::on_disk();
        let _mount = Mount::of_kind(kind, &scene.path("image"), &scene.path(kind));
        for way in [CLONE, CLONE_AND_HASH, SEND, SEND_AS_NEXT, READ_AND_WRITE, HASH] {
            try_way(&scene, kind, &way);
        }
        if kind == "xfs" {
            try_way(&scene, kind, &HASH_IN_WINDOWS);
        }
        let unshared = Strace::inject(&scene, "ioctl", "error=EOPNOTSUPP");
        let to = scene.tree(kind).path("more");
        let from = scene.tree(kind).path("src");
        let run = unshared.run(scene.command_to(from, to, ["--hash", "none"]));
        unshared.fired(&run);
        run.assert_code(0).assert_prints(&["(copy_file_range)"]);
    }
}

#[test]
fn on_an_overlay() {
    need!(Loop, Strace);
    let scene = Scene::on_disk();
    let _mount = Mount::of_kind("ext4", &scene.path("image"), &scene.path("below"));
    let below = scene.tree("below");
    fill(&Tree::at(below.path("lower/src")));
    below.dir("upper").dir("work");
    let path = |name| below.path(name);
    let at = scene.path("overlay");
    let _overlay = Mount::overlay(&path("lower"), &path("upper"), &path("work"), &at);
    for way in [RANGE, SEND, READ_AND_WRITE, HASH] {
        try_way(&scene, "overlay", &way);
    }
}

/// A source whose stated sizes are not relied on is read to its end, which does not take away the hole that it ends in.
#[test]
fn a_hole_at_the_end_of_a_file_on_an_overlay_is_part_of_it() {
    need!(Loop);
    let scene = Scene::on_disk();
    let _mount = Mount::of_kind("ext4", &scene.path("image"), &scene.path("below"));
    let below = scene.tree("below");
    below.dir("lower/src").dir("upper").dir("work");
    below.sparse("lower/src/data first", 70_000, &[(5000, 5)]).sparse(
        "lower/src/hole",
        50_000,
        &[],
    );
    below.sparse("lower/src/block", 8192, &[(100, 5)]).sparse(
        "lower/src/large",
        9 << 20,
        &[(0, 9)],
    );
    let path = |name| below.path(name);
    let at = scene.path("overlay");
    let _overlay = Mount::overlay(&path("lower"), &path("upper"), &path("work"), &at);
    for args in [&["--hash", "none"][..], &[], &["--hash", "none", "--holes", "read"]] {
        let to = scene.path(&format!("to{}", args.len()));
        scene.command_to(at.join("src"), to.clone(), args).run().assert_code(0);
        shell(&scene, &format!("diff -r overlay/src {} -x 'dircopy-*' -x .dircopy", to.display()));
    }
}

/// FUSE has no clones, no way to make all durable, and tells little.
#[test]
fn on_fuse() {
    need!(Ntfs, Strace);
    let scene = Scene::on_disk();
    let _mount = Mount::of_kind("ntfs", &scene.path("image"), &scene.path("fuse"));
    for way in [RANGE, SEND, READ_AND_WRITE, HASH] {
        try_way(&scene, "fuse", &way);
    }
}

#[test]
fn between_file_systems_sendfile_is_taken() {
    need!(Loop);
    let scene = Scene::on_disk();
    let _mount = Mount::of_kind("ext4", &scene.path("image"), &scene.path("ext4"));
    fill(&scene.src);
    let to = scene.path("ext4/dst");
    let run = scene.command_to(scene.src.root(), &to, ["--hash", "none"]).run();
    run.assert_code(0).assert_prints(&["(sendfile)"]);
    Judge::new(&scene.src, Tree::of(to), &run).same_tree().no_leftovers();
}

#[test]
fn what_cannot_be_cloned_is_refused_where_it_must_be() {
    need!(Kinds);
    let scene = Scene::on_disk();
    let _ext4 = Mount::of_kind("ext4", &scene.path("image"), &scene.path("ext4"));
    let _xfs = Mount::of_kind("xfs", &scene.path("image2"), &scene.path("xfs"));
    scene.src.file("small", content(100)).file("large", content(1 << 20)).file("empty", "");
    for to in ["ext4/dst", "ext4"] {
        let before = scene.tree("ext4").path("dst").exists();
        for hash in ["sha256", "none"] {
            let options = ["--reflink", "always", "--hash", hash];
            let run = scene.command_to(scene.src.root(), scene.path(to), options).run();
            run.assert_code(2).assert_says("cannot clone to");
        }
        assert_eq!(scene.tree("ext4").path("dst").exists(), before);
    }
    // The output could, but not with this source.
    for hash in ["sha256", "none"] {
        let to = scene.path("xfs/dst").join(hash);
        std::fs::create_dir_all(to.parent().unwrap()).unwrap();
        let options = ["--reflink", "always", "--hash", hash];
        let run = scene.command_to(scene.src.root(), &to, options).run();
        run.assert_code(1).assert_says("cannot clone").assert_says("src/small");
        run.assert_says("src/large").assert_says("must lie on one file system");
        let judge = Judge::new(&scene.src, Tree::of(&to), &run);
        judge.lacks("small").lacks("large").no_leftovers();
        assert!(judge.dst.has("empty"));
    }
}

/// `sparse` and `dense` files become what is asked for, whether they are hashed or not.
#[test]
fn holes_are_made_and_filled_as_asked() {
    need!(Kinds);
    for kind in ["ext4", "xfs", "btrfs"] {
        let scene = Scene::on_disk();
        let _mount = Mount::of_kind(kind, &scene.path("image"), &scene.path("mount"));
        let src = Tree::at(scene.path("mount/src"));
        src.sparse("sparse", 8 << 20, &[(3 << 20, 50_000)]).sparse("small", 200_000, &[(0, 9)]);
        let mut dense = vec![0; 8 << 20];
        dense[5_000_000..5_050_000].fill(7);
        src.file("dense", &dense);
        shell(&scene, "sync");
        for hash in ["sha256", "none"] {
            for (how, sparse, dense) in
                [("auto", false, true), ("never", true, true), ("always", false, false)]
            {
                let to = scene.path("mount").join(format!("{hash}-{how}"));
                let run =
                    scene.command_to(src.root(), &to, ["--sparse", how, "--hash", hash]).run();
                run.assert_code(0);
                let judge = Judge::new(&src, Tree::of(&to), &run);
                judge.same_tree();
                shell(&scene, "sync");
                for (name, full) in [("sparse", sparse), ("dense", dense)] {
                    let blocks = judge.dst.path(name).metadata().unwrap().blocks();
                    let is_full = blocks * 512 >= 8 << 20;
                    assert_eq!(is_full, full, "{kind}, {hash}, {how}: {name}: {blocks} blocks");
                }
                shell(&scene, &format!("rm -r mount/{hash}-{how}"));
            }
        }
    }
}

/// A disk image with next to nothing in it: nobody reads or writes what is not there.
#[test]
fn many_gigabytes_of_nothing_take_no_room() {
    let scene = Scene::on_disk();
    let half: u64 = if long() { 50 << 30 } else { 5 << 30 };
    scene.src.sparse("image", 2 * half, &[(half, 1 << 20)]);
    let run = scene.copy(&["--hash", "none"]);
    run.assert_code(0);
    let du = |path| shell(&scene, &format!("sync; du -k {path} | cut -f1"));
    let [from, to] = [du("src/image"), du("dst/image")].map(|k| k.trim().parse::<i64>().unwrap());
    assert!((from - to).abs() <= 32, "{from} KiB became {to}");
    shell(&scene, &format!("cmp -i {half} -n 1048576 src/image dst/image"));
    assert_eq!(scene.output().stat("image").st_size as u64, 2 * half);
}

/// A large file of one extent, on a scene where `ways` are the calls that move it.
fn one_large() -> Scene {
    let scene = Scene::new();
    scene.src.file("a", content(300_000)).file("bad", content(9_000_001)).file("z", content(9));
    scene
}

#[track_caller]
fn only_bad_failed(scene: &Scene, run: &Run) {
    run.assert_code(1).assert_says("bad");
    let judge = scene.judge(run);
    judge.lacks("bad").no_leftovers();
    assert!(judge.dst.has("a") && judge.dst.has("z"));
}

#[test]
fn an_error_in_the_middle_is_an_error_of_the_file() {
    need!(Strace);
    for (call, args) in [
        ("copy_file_range", &["--hash", "none"][..]),
        ("sendfile", &["--hash", "none", "--reflink", "never"]),
    ] {
        for (error, words) in [
            ("EIO", "nput/output error"),
            ("ENOSPC", "No space left"),
            ("EXDEV", "cross-device"),
            ("EOPNOTSUPP", "not supported"),
        ] {
            let scene = one_large();
            let strace = Strace::inject(&scene, call, &format!("error={error}:when=2"))
                .exactly_on(scene.src.path("bad"));
            let run = strace.run(scene.command(args));
            strace.fired(&run);
            run.assert_says(words);
            only_bad_failed(&scene, &run);
        }
    }
}

/// What may pass, or concerns the device, is no reason to try another way, even at the start.
#[test]
fn an_error_that_is_no_refusal_is_not_passed_over() {
    need!(Strace);
    for error in ["EIO", "ENOSPC", "ENOMEM", "EDQUOT"] {
        let scene = one_large();
        let strace =
            Strace::inject(&scene, "copy_file_range,sendfile", &format!("error={error}:when=1"))
                .exactly_on(scene.src.path("bad"));
        let run = strace.run(scene.command(["--hash", "none"]));
        strace.fired(&run);
        only_bad_failed(&scene, &run);
        for hash in ["none", "sha256"] {
            let scene = one_large();
            scene.src.remove("a").remove("z");
            // The call names the output's file, whose name nobody knows.
            let strace = Strace::inject(&scene, "ioctl", &format!("error={error}"));
            let run = strace.run(scene.command(["--hash", hash]));
            strace.fired(&run);
            run.assert_code(1).assert_says("bad");
            scene.judge(&run).lacks("bad").no_leftovers();
        }
    }
}

#[test]
fn a_refusal_at_the_start_leads_to_the_next_way() {
    need!(Strace);
    for error in ["EXDEV", "EINVAL", "EOPNOTSUPP", "ENOSYS", "EPERM", "EFBIG", "ENOENT", "EBADF"] {
        for (calls, called) in
            [("copy_file_range", "(sendfile)"), ("copy_file_range,sendfile", "read and written")]
        {
            let scene = one_large();
            let strace = Strace::inject(&scene, calls, &format!("error={error}"));
            let run = strace.run(scene.command(["--hash", "none", "-v"]));
            strace.fired(&run);
            run.assert_code(0).assert_prints(&[called]);
            scene.judge(&run).same_tree().no_leftovers();
        }
    }
}

/// The first 0 may be that of a file whose content is made up; a later one is the end.
#[test]
fn a_first_answer_of_nothing_is_not_believed_and_a_later_one_is_the_end() {
    need!(Strace);
    for call in ["copy_file_range", "sendfile"] {
        let args = ["--hash", "none", "-v", "--reflink"];
        let reflink = if call == "sendfile" { "never" } else { "auto" };
        let command = |scene: &'static Scene| scene.command(args.iter().chain(&[reflink]));
        let scene = Box::leak(Box::new(one_large()));
        let strace = Strace::inject(scene, call, "retval=0:when=1");
        let run = strace.run(command(scene));
        strace.fired(&run);
        run.assert_code(0).assert_prints(&["read and written"]);
        scene.judge(&run).same_tree();
        let scene = Box::leak(Box::new(one_large()));
        let strace =
            Strace::inject(scene, call, "retval=0:when=2").exactly_on(scene.src.path("bad"));
        let run = strace.run(command(scene));
        strace.fired(&run);
        run.assert_code(0).assert_says("could be read").assert_says("read again");
        scene.judge(&run).same_tree();
    }
}

#[test]
fn a_source_that_shrinks_or_grows_while_it_is_moved_is_copied_again() {
    need!(Strace);
    for reflink in ["auto", "never"] {
        for change in ["truncate -s 4000000 src/bad", "head -c 100000 /dev/zero >> src/bad"] {
            let scene = one_large();
            let call = if reflink == "auto" { "copy_file_range" } else { "sendfile" };
            let strace = Strace::inject(&scene, call, "signal=SIGSTOP:when=2")
                .exactly_on(scene.src.path("bad"));
            let command = scene.command(["--hash", "none", "--reflink", reflink]);
            let run = strace.run_stopped(command, || drop(shell(&scene, change)));
            run.assert_code(0).assert_says("while it was read").assert_says("read again");
            scene.judge(&run).same_tree();
        }
    }
}

/// A clone is of one moment, but that must be the moment that the file was looked at.
#[test]
fn a_source_that_changed_before_it_is_cloned_is_cloned_again() {
    need!(Kinds, Strace);
    let scene = Scene::on_disk();
    let _mount = Mount::of_kind("xfs", &scene.path("image"), &scene.path("xfs"));
    let src = Tree::at(scene.path("xfs/src"));
    src.file("bad", content(3_000_000));
    for hash in ["none", "sha256"] {
        let strace =
            Strace::inject(&scene, Strace::OPENS, "signal=SIGSTOP:when=1").on(src.path("bad"));
        let to = scene.path("xfs").join(hash);
        let command = scene.command_to(src.root(), &to, ["--hash", hash, "--reflink", "always"]);
        let run = strace.run_stopped(command, || {
            src.append("bad", b"more");
        });
        run.assert_code(0).assert_says("while it was read").assert_says("read again");
        Judge::new(&src, Tree::of(&to), &run).same_tree().no_leftovers();
        src.file("bad", content(3_000_000));
    }
}

/// Nobody asks in vain for every file.
#[test]
fn what_two_file_systems_cannot_do_is_asked_once() {
    need!(Strace);
    let scene = Scene::new();
    for i in 0..50 {
        scene.src.file(format!("{i}"), content(5000));
    }
    let strace = Strace::watch(&scene, "ioctl");
    strace.run(scene.command(["--hash", "none", "--workers", "1"])).assert_code(0);
    let asked = strace.log().lines().filter(|line| line.contains("FICLONE")).count();
    // When room is looked for, when the run begins, and for the first file.
    assert!(asked <= 3, "asked {asked} times");
}

/// A call that moves or writes out hundreds of megabytes takes ten seconds on a slow disk, and a signal
/// would wait for it.
#[test]
fn calls_stay_small_where_only_the_output_is_on_a_disk() {
    need!(Mount, Loop, Strace);
    let scene = Scene::on_disk();
    let _disk = Mount::of_kind("ext4", &scene.path("image"), &scene.path("ext4"));
    let _memory = Mount::tmpfs(&scene.path("memory"), "256m");
    scene.tree("memory").sparse("large", 150 << 20, &[(0, 5)]);
    for cache in ["drop", "keep"] {
        let strace = Strace::watch(&scene, "sendfile,sync_file_range");
        let args = ["--hash", "none", "--sparse", "never", "--cache", cache];
        let to = scene.path("ext4").join(cache);
        let run = strace.run(scene.command_to(scene.path("memory"), to, args));
        run.assert_code(0).assert_prints(&["(sendfile)"]);
        let log = strace.log();
        let numbers = log.lines().filter(|line| line.contains("sendfile") && line.contains(" = "));
        let moved: Vec<u64> =
            numbers.filter_map(|line| line.split(" = ").nth(1)?.trim().parse().ok()).collect();
        assert!(moved.iter().sum::<u64>() == 150 << 20, "{log}");
        assert!(moved.iter().all(|moved| *moved <= 16 << 20), "{log}");
        let sync =
            |line: &str| line.split("sync_file_range(").nth(1)?.split(", ").nth(2)?.parse().ok();
        assert!(log.lines().filter_map(sync).all(|len: u64| len <= 16 << 20), "{log}");
    }
}
