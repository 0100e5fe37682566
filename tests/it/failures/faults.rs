//! Errors on purpose. One bad file is one bad file: it is named, it is absent, it is not listed, the
//! others are finished, and the exit code is not 0.

use crate::harness::{
    Mount, NONE, Run, Scene, Strace, Tree, content, have, long, need, shell, skipped,
};

/// Three files of several blocks; the one in the middle is going to have bad luck.
fn three() -> Scene {
    let scene = Scene::new();
    scene.src.file("a", content(300_000)).file("bad", content(300_001)).file("z", content(299_999));
    scene.src.file("dir/small", "small").file("dir/empty", "");
    scene
}

/// Only `bad` failed.
#[track_caller]
fn only_bad_failed(scene: &Scene, run: &Run) {
    run.assert_code(1).assert_says("bad");
    let judge = scene.judge(run);
    judge.lists(&["a", "z", "dir/small", "dir/empty"]).verifies().no_leftovers().lacks("bad");
    for name in ["a", "z", "dir/small", "dir/empty"] {
        judge.has(name);
    }
    let (seen, named) = (run.err(), run.err().lines().filter(|l| l.contains("bad")).count());
    assert_eq!(named, 1, "one line for one failed file: {seen}");
}

#[test]
fn a_read_error_costs_that_file() {
    need!(Strace);
    for when in ["1", "2", "4"] {
        let scene = three();
        let fault = format!("error=EIO:when={when}");
        let strace =
            Strace::inject(&scene, Strace::READS, &fault).exactly_on(scene.src.path("bad"));
        let run = strace.run(scene.command(["--block-size", "64K"]));
        strace.fired(&run);
        run.assert_says("(os error 5)");
        only_bad_failed(&scene, &run);
    }
}

#[test]
fn a_read_error_in_a_small_file_costs_that_file() {
    need!(Strace);
    let scene = three();
    scene.src.file("bad", content(1000));
    let strace =
        Strace::inject(&scene, Strace::READS, "error=EIO:when=1").exactly_on(scene.src.path("bad"));
    let run = strace.run(scene.command(NONE));
    strace.fired(&run);
    only_bad_failed(&scene, &run);
}

#[test]
fn a_file_that_cannot_be_opened_costs_that_file() {
    need!(Strace);
    for error in ["EACCES", "EIO", "EMFILE", "ENOMEM", "EPERM"] {
        let scene = three();
        let fault = format!("error={error}");
        let strace = Strace::inject(&scene, Strace::OPENS, &fault).on(scene.src.path("bad"));
        let run = strace.run(scene.command(NONE));
        strace.fired(&run);
        only_bad_failed(&scene, &run);
    }
}

#[test]
fn a_rename_error_costs_that_file() {
    need!(Strace);
    for error in ["EIO", "EACCES", "EDQUOT"] {
        let scene = three();
        let fault = format!("error={error}");
        let strace = Strace::inject(&scene, Strace::RENAMES, &fault).on(scene.dst.join("bad"));
        let run = strace.run(scene.command(NONE));
        strace.fired(&run);
        only_bad_failed(&scene, &run);
    }
}

/// File systems such as NTFS and exFAT under FUSE refuse the flag; the fallback still never
/// overwrites.
#[test]
fn without_renameat2_the_copy_still_works() {
    need!(Strace);
    for error in ["EINVAL", "ENOSYS", "EPERM"] {
        let scene = three();
        let strace = Strace::inject(&scene, "renameat2", &format!("error={error}"));
        let run = strace.run(scene.command(NONE));
        scene.judge(&run).complete();
    }
}

/// Containers refuse calls by number, with this error.
#[test]
fn calls_that_a_filter_refuses_are_done_without() {
    need!(Strace, Loop);
    let calls = "preadv2,pwritev2,renameat2,syncfs,copy_file_range,statx,openat2,sync_file_range,fadvise64,fallocate";
    for args in [&[][..], &["--hash", "none"]] {
        let scene = three();
        let mount = Mount::ext4(&scene.path("image"), 64, &scene.path("mount"));
        let src = Tree::at(scene.path("mount/src"));
        for (name, len) in [("large", 9_000_000), ("middling", 200_000), ("small", 10)] {
            src.file(name, content(len));
        }
        let strace = Strace::inject(&scene, calls, "error=EPERM");
        let to = scene.path("mount/dst");
        let run = strace.run(scene.command_to(src.root(), &to, args.iter().copied()));
        strace.fired(&run);
        run.assert_code(0);
        let compared = shell(
            &scene,
            "diff -r -x '*.sha256sum' -x '*.states' -x .dircopy mount/src mount/dst && echo same",
        );
        assert_eq!(compared.trim(), "same");
        drop(mount);
    }
}

#[test]
fn interrupted_calls_are_not_visible() {
    need!(Strace);
    let scene = three();
    let mut strace = Strace::inject(&scene, Strace::READS, "error=EINTR:when=1+2");
    for name in ["a", "bad", "z", "dir/small", "dir/empty"] {
        strace = strace.exactly_on(scene.src.path(name));
    }
    let run = strace.run(scene.command(["--block-size", "64K"]));
    strace.fired(&run);
    scene.judge(&run).complete();

    let scene = three();
    let strace = Strace::inject(&scene, Strace::WRITES, "error=EINTR:when=1+2");
    let run = strace.run(scene.command(["--block-size", "64K"]));
    strace.fired(&run);
    scene.judge(&run).complete();
}

#[test]
fn a_directory_that_cannot_be_listed_costs_that_directory() {
    need!(Strace);
    for calls in ["getdents64", Strace::OPENS] {
        let scene = three();
        scene.src.file("broken/inside", "x").file("broken/more/inside", "x");
        let strace = Strace::inject(&scene, calls, "error=EIO").on(scene.src.path("broken"));
        let run = strace.run(scene.command(NONE));
        strace.fired(&run);
        run.assert_code(1).assert_says("broken");
        let judge = scene.judge(&run);
        judge.lists(&["a", "bad", "z", "dir/small", "dir/empty"]).verifies().no_leftovers();
        assert_eq!(run.err().lines().filter(|l| l.contains("broken")).count(), 1, "{}", run.err());
    }
}

#[test]
fn a_directory_that_cannot_be_made_costs_that_directory() {
    need!(Strace);
    let scene = three();
    scene.src.file("broken/inside", "x").file("broken/more/inside", "x");
    let strace = Strace::inject(&scene, "mkdir,mkdirat", "error=EIO").on(scene.dst.join("broken"));
    let run = strace.run(scene.command(NONE));
    strace.fired(&run);
    run.assert_code(1).assert_says("broken");
    let judge = scene.judge(&run);
    judge.lists(&["a", "bad", "z", "dir/small", "dir/empty"]).verifies().no_leftovers();
    judge.lacks("broken");
    assert_eq!(run.err().lines().filter(|l| l.contains("broken")).count(), 1, "{}", run.err());
}

#[test]
fn what_may_not_be_read_is_named() {
    need!(Root, Setpriv);
    let scene = three();
    scene.src.mode("bad", 0o600).file("secret-dir/inside", "x").mode("secret-dir", 0o700);
    shell(&scene, "chmod 755 . src; mkdir dst; chown 65534:65534 dst");
    let run = scene.command(NONE).under_nobody().run();
    run.assert_code(1).assert_says("bad").assert_says("secret-dir").assert_says("ermission denied");
    let judge = scene.judge(&run);
    judge.lists(&["a", "z", "dir/small", "dir/empty"]).verifies().no_leftovers();
    for name in ["a", "z", "dir/small", "dir/empty"] {
        judge.has(name);
    }
}

#[test]
fn an_output_that_may_not_be_written_stops_the_run() {
    need!(Root, Setpriv);
    let scene = three();
    shell(&scene, "chmod 755 . src; mkdir dst");
    let run = scene.command(NONE).under_nobody().run();
    run.assert_code_in(&[2, 3]).assert_says("ermission denied");
    assert_eq!(std::fs::read_dir(&scene.dst).unwrap().count(), 0);
}

#[test]
fn a_directory_at_the_output_that_may_not_be_written_costs_its_files() {
    need!(Root, Setpriv);
    let scene = three();
    shell(&scene, "chmod 755 . src; mkdir -p dst/dir; chown 65534:65534 dst");
    let run = scene.command(NONE).under_nobody().run();
    run.assert_code(1).assert_says("dir/small");
    scene.judge(&run).lists(&["a", "bad", "z"]).verifies().no_leftovers();
}

/// An error of the flush is final: what it was for is not listed, and it is not tried again.
#[test]
fn a_sync_error_is_an_error() {
    need!(Strace);
    // The first `syncfs` only asks whether there is one for this process; the first three of the others are of the
    // private secret and the way to it, and the fourth is of the output's own name.
    for (calls, fault) in [
        (Strace::SYNCS, "error=EIO:when=2"),
        (Strace::SYNCS, "error=EIO:when=2+"),
        (Strace::SYNCS, "error=ENOSPC:when=2"),
        ("syncfs", "error=EIO:when=2"),
        ("fsync,fdatasync", "error=EIO:when=1"),
        ("fsync,fdatasync", "error=EIO:when=3"),
        ("fsync,fdatasync", "error=EIO:when=4"),
    ] {
        let scene = three();
        let strace = Strace::inject(&scene, calls, fault);
        let run = strace.run(scene.command(NONE));
        if calls == Strace::SYNCS {
            strace.fired(&run);
        } else if strace.injected().is_empty() {
            continue; // the program has another way to be durable
        }
        match fault {
            // Without the secret no copy is lost, only what a killed run leaves.
            "error=EIO:when=1" => run.assert_code(0).assert_says("the private secret"),
            "error=EIO:when=3" => run.assert_code(2).assert_says("cannot make durable"),
            _ => run.assert_code_in(&[1, 3]),
        };
        scene.judge(&run).sound().no_temp_files();
        if fault == "error=EIO:when=2+" {
            let judge = scene.judge(&run);
            for name in ["a", "bad", "z", "dir/small"] {
                judge.does_not_list(name);
            }
        }
    }
}

/// Everything that can go wrong with the manifest stops the run: without it there is no proof.
#[test]
fn a_manifest_that_cannot_be_kept_stops_the_run() {
    need!(Strace);
    for (calls, fault) in [
        (Strace::WRITES, "error=EIO:when=1+"),
        (Strace::WRITES, "error=ENOSPC:when=1"),
        (Strace::SYNCS, "error=EIO:when=1"),
        (Strace::OPENS, "error=EROFS"),
        (Strace::RENAMES, "error=EIO"),
    ] {
        let scene = three();
        let strace = Strace::inject(&scene, calls, fault).on_manifest(&scene);
        let run = strace.run(scene.command(NONE));
        strace.fired(&run);
        run.assert_code(3).assert_says("dircopy-");
        let judge = scene.judge(&run);
        judge.no_temp_files();
        assert!(judge.manifests().is_empty(), "published nevertheless");
        for list in judge.unfinished() {
            // A torn last line is no line; the whole ones have to be right.
            judge.list_verifies(&list);
        }
    }
}

fn twenty(scene: &Scene) {
    for i in 0..20 {
        scene.src.file(format!("{i:02}"), content((1 << 20) + i));
        scene.src.file(format!("dir/small-{i:02}"), content(i * 100));
    }
}

/// What fits is right and listed, what does not fit is absent, and nobody says it is all there.
#[track_caller]
fn filled(scene: &Scene) {
    for args in
        [&["--workers", "1"][..], &["--workers", "2"], &["--block-size", "4096"], &["--no-sync"]]
    {
        let run = scene.copy(&[args, &["--no-space-check"]].concat());
        run.assert_code_in(&[1, 3]).assert_says("o space left");
        let judge = scene.judge(&run);
        judge.sound().no_temp_files();
        if let Some(list) = judge.newest() {
            let count = judge.lines(&list).len();
            assert!(count > 0, "nothing was finished");
        }
        shell(scene, "rm -rf dst/*");
    }
}

#[test]
fn a_full_tmpfs() {
    need!(Mount);
    let scene = Scene::new();
    let _mount = Mount::tmpfs(&scene.dst, "8m");
    twenty(&scene);
    filled(&scene);
}

#[test]
fn a_full_ext4() {
    need!(Loop);
    let scene = Scene::on_disk();
    let _mount = Mount::ext4(&scene.path("image"), 8, &scene.dst);
    twenty(&scene);
    filled(&scene);
}

/// A file that does not fit takes nothing from those beside it: ext4 would hand out all that is left before it says no.
#[test]
fn what_does_not_fit_is_not_set_aside() {
    need!(Loop, Strace);
    let scene = Scene::on_disk();
    let _mount = Mount::ext4(&scene.path("image"), 8, &scene.dst);
    scene.src.file("large", content(20 << 20)).file("small", content(2 << 20));
    let strace = Strace::watch(&scene, "fallocate");
    let args = ["--no-space-check", "--block-size", "64K"];
    let run = strace.run(scene.command(args));
    run.assert_code(1).assert_says("o space left");
    scene.judge(&run).sound().no_temp_files().lacks("large").lists(&["small"]);
    let calls = strace.calls().join("\n");
    assert!(calls.contains("fallocate(") && !calls.contains("ENOSPC"), "{calls}");
}

/// The last block is the one whose error the original swallowed.
#[test]
fn a_disk_that_is_full_at_the_last_block() {
    need!(Mount);
    for block in [4096, 65_536, 1 << 20] {
        let scene = Scene::new();
        let _mount = Mount::tmpfs(&scene.dst, "1m");
        scene.src.file("bad", content((1 << 20) + 1));
        let run = scene.copy(&["--no-space-check", "--block-size", &block.to_string()]);
        run.assert_code_in(&[1, 3]).assert_says("o space left");
        scene.judge(&run).sound().no_temp_files().lacks("bad").does_not_list("bad");
    }
}

#[test]
fn a_read_only_output() {
    need!(Mount);
    let scene = three();
    scene.output();
    let _mount = Mount::read_only(&scene.dst.clone(), &scene.dst);
    let run = scene.copy(&[]);
    run.assert_code(2).assert_says("ead-only").assert_says("mount it for writing");
    assert_eq!(std::fs::read_dir(&scene.dst).unwrap().count(), 0);
    assert_eq!(run.err().lines().count(), 1, "{}", run.err());
    // A dry run, and the check of a job, say what the run would; and of two the other goes on.
    scene.copy(&["-n"]).assert_code(2).assert_says("mount it for writing");
    let (root, dst) = (scene.root().display(), ["dst", "dst/new"]);
    for output in dst {
        let job = format!("input = '{root}/src'\noutput = '{root}/{output}'\n");
        std::fs::write(scene.path("job.toml"), job).unwrap();
        let run = scene.bare(["jobs", "check", "job.toml"]).run();
        run.assert_code(1).assert_says("mount it for writing");
        assert!(!run.out().contains("nothing is in its way"), "{}", run.out());
        for more in [&["-n"][..], &[]] {
            let run = scene.bare([&["--job", "job.toml"], more].concat()).run();
            run.assert_code(2).assert_says("mount it for writing");
        }
    }
    let both = ["src", "dst", "other"];
    scene.bare(both).run().assert_code(1).assert_says("ead-only");
    assert!(scene.path("other/a").exists() || scene.path("other").read_dir().unwrap().count() > 2);
}

/// `/proc` says size 0 and has bytes all the same.
#[test]
fn files_that_lie_about_their_size_are_read_to_their_end() {
    for name in ["version", "cmdline", "devices"] {
        let from = std::path::Path::new("/proc").join(name);
        let scene = Scene::new();
        let run = scene.command_to(&from, &scene.dst, NONE).run();
        run.assert_code(0);
        let judge = scene.judge(&run);
        judge.lists(&[name]).verifies().no_leftovers();
        let copy = scene.output().read(name);
        assert!(!copy.is_empty());
        assert_eq!(copy, std::fs::read(&from).unwrap());
    }
}

/// Root, strace and mounts are at hand where `DIRCOPY_TEST_ALL=1` says so.
#[test]
fn this_machine_can_run_everything_if_asked() {
    use crate::harness::Need::{Attr, Loop, Mount, Root, Setpriv, Strace};
    let _ = have(&[Root, Strace, Mount, Loop, Setpriv, Attr]);
}

/// A device that takes nothing any more is of no use.
#[test]
fn a_device_that_fails_every_write_stops_the_run() {
    need!(Strace);
    let scene = Scene::new();
    for i in 0..200 {
        scene.src.file(format!("{i}"), content(100));
    }
    let strace = Strace::inject(&scene, Strace::WRITES, "error=EIO");
    let run = strace.run(scene.command(["--workers", "1"]));
    strace.fired(&run);
    run.assert_code(3);
    scene.judge(&run).no_temp_files().sound();
}

/// Its number, which is the same on all processors.
const CLONE3: &str = "435";

/// A real filter: what `strace` makes of a call, the program's own filter would not see.
#[test]
fn a_filter_that_forbids_to_start_threads_is_passed_by() {
    let wrapper = [
        "/usr/bin/python3",
        concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/harness/filter.py"),
        CLONE3,
    ];
    let scene = three();
    let probe = format!("{} true && echo filtered || true", wrapper.join(" "));
    if shell(&scene, &probe).trim() != "filtered" {
        return skipped("no filter of system calls can be made");
    }
    let run = scene.command(NONE).under(wrapper).run();
    scene.judge(&run).complete();
    scene.bare(["verify", "dst"]).under(wrapper).run().assert_code(0);
}

/// A FUSE server may answer so for ever; the request to stop would never be seen.
#[test]
fn a_list_that_is_interrupted_without_end_is_unreadable() {
    need!(Strace);
    let scene = three();
    scene.copy(&[]).assert_code(0);
    shell(&scene, "cp dst/*.sha256sum list");
    let endless =
        |on: &str| Strace::inject(&scene, "read,pread64", "error=EINTR").exactly_on(scene.path(on));
    let strace = endless("list");
    let run = strace.run(scene.bare(["verify", "-m", "list", "dst"]));
    strace.fired(&run);
    run.assert_code(5).assert_says("cannot read the manifest");
    // A minute and more for each.
    if !long() {
        return;
    }
    let strace = endless("dst/.dircopy/record");
    let run = strace.run(scene.command(NONE));
    strace.fired(&run);
    scene.judge(&run).complete();
}

/// A run that could not see what it had made tried one name after the other, without end.
#[test]
fn a_name_for_the_manifest_is_not_looked_for_without_end() {
    need!(Strace);
    // How many calls the loader makes before depends on where it looks.
    let is_told = (8..200).step_by(3).any(|first| {
        let scene = Scene::new();
        scene.src.file("d/a", "a").file("d/b", "b").file("d/c", "c");
        scene.tree("state").mode(".", 0o700);
        let args = ["--mirror=all", "--overwrite-policy=always", "--state=state"];
        scene.copy(&args).assert_code(0);
        shell(&scene, "echo more >>src/d/a; rm src/d/b");
        let fault = format!("error=ENOENT:when={first}+");
        let run = Strace::inject(&scene, "newfstatat", &fault).run(scene.command(args));
        run.err().contains("too many names are taken")
    });
    assert!(is_told, "no run was at the place");
}
