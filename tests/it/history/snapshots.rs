//! Generations on btrfs are snapshots: a night costs what changed, and no night changes an older one.

use std::collections::BTreeMap;
use std::os::unix::fs::{MetadataExt, lchown};
use std::path::{Path, PathBuf};

use crate::harness::{Mount, Run, Scene, Strace, content, ctimes, inventory, need, shell};

/// Files of which some change, at an output on btrfs.
fn scene(options: &str) -> (Scene, Mount) {
    Mount::privately();
    // Not below a directory that is root's alone.
    let scene = Scene::new();
    let mount = Mount::of_kind("btrfs", &scene.path("image"), &scene.dst);
    shell(&scene, &format!("mount -o remount{options} dst"));
    for i in 0..30 {
        scene.src.file(format!("d{}/photo-{i}", i % 3), content(10_000 + i));
    }
    scene.src.symlink("sym", "d1/photo-1").dir("empty").mode("d2", 0o711);
    (scene, mount)
}

fn generations(scene: &Scene) -> Vec<PathBuf> {
    let all = shell(scene, "ls -d dst/20*Z 2>/dev/null || true");
    all.lines().map(|line| scene.path(line)).collect()
}

fn is_subvolume(path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    path.metadata().unwrap().ino() == 256
}

/// All that can be seen of each generation but its own name, change times and what dircopy keeps there among it.
fn all(scene: &Scene) -> BTreeMap<PathBuf, String> {
    let digest = |path: &PathBuf| {
        let digest = "find . -type f -exec sha256sum {} + | sort | sha256sum; cat .dircopy/record";
        shell(scene, &format!("cd {} && {digest}", path.display()))
    };
    let seen = |path: PathBuf| {
        let whole = format!("{}{:?}", digest(&path), ctimes(&path));
        (path, whole)
    };
    generations(scene).into_iter().map(seen).collect()
}

/// Runs a night. Older generations stay to the last byte and time, and the new one is as the source and a subvolume.
#[track_caller]
fn night(scene: &Scene, run: impl FnOnce() -> Run) -> Run {
    let before = all(scene);
    let run = run();
    run.assert_code(0);
    let after = all(scene);
    for (path, seen) in &before {
        assert_eq!(after.get(path), Some(seen), "{}: {}", path.display(), run.err());
    }
    is_whole(scene);
    run
}

#[track_caller]
fn is_whole(scene: &Scene) {
    let newest = generations(scene).pop().unwrap();
    assert!(is_subvolume(&newest), "{newest:?}");
    let own = |line: &[u8]| String::from_utf8_lossy(line).contains(" .dircopy");
    let own = |line: &Vec<u8>| own(line) || String::from_utf8_lossy(line).contains(" dircopy-");
    let mut there = inventory(&newest);
    there.retain(|line| !own(line));
    assert_eq!(there, inventory(scene.src.root()));
    shell(
        scene,
        "diff -r --no-dereference -x .dircopy -x 'dircopy-*' src dst/$(readlink dst/latest)",
    );
    shell(scene, "cd dst/latest && ls dircopy-*.sha256sum | wc -l | grep -qx 1");
    shell(scene, "cd dst/latest && sha256sum -c --strict --quiet dircopy-*.sha256sum");
    let listed = shell(scene, "cd dst/latest && wc -l <$(ls dircopy-*.sha256sum)");
    assert_eq!(listed, shell(scene, "find src -type f | wc -l"));
}

/// Changes of every kind, one of them without a trace in size and time.
fn change(scene: &Scene) {
    let src = &scene.src;
    src.append("d0/photo-3", b"more").remove("d1/photo-4").mode("d2/photo-5", 0o600);
    src.file("d1/new", "new").remove("sym").symlink("sym", "d1/new");
    shell(
        scene,
        "cd src && t=$(stat -c %y d0/photo-6) && printf X | dd of=d0/photo-6 conv=notrunc status=none",
    );
    shell(scene, "cd src && touch -d \"$(stat -c %y ../dst/latest/d0/photo-6)\" d0/photo-6");
    shell(scene, "cd src && mv d0/photo-9 d1/moved && rm -r empty && echo file >empty");
    shell(scene, "cd src && rm d1/photo-7 && mkdir d1/photo-7 && echo in >d1/photo-7/in");
}

#[test]
fn a_night_opens_only_what_changed() {
    need!(Kinds, Strace);
    let (scene, _mount) = scene("");
    night(&scene, || scene.copy(&["--generations"]));
    change(&scene);
    let strace = Strace::watch(&scene, "openat,openat2");
    let run = night(&scene, || strace.run(scene.command(["--generations"])));
    run.assert_prints(&["unchanged", "24 files"]);
    let opened: Vec<_> =
        strace.calls().into_iter().filter(|call| call.contains("\"photo-")).collect();
    let changed =
        |call: &String| [3, 5, 6, 7, 9].iter().any(|i| call.contains(&format!("photo-{i}\"")));
    assert!(opened.iter().all(changed), "{opened:#?}");
    run.assert_prints(&["1 file", "renamed: they share their data"]);
    // A night without changes makes nothing but the snapshot and a manifest.
    night(&scene, || scene.copy(&["--generations"])).assert_prints(&["copied", "0 files"]);
}

#[test]
fn a_killed_night_is_gone_on_with() {
    need!(Kinds, Strace);
    for call in ["unlinkat:when=3", "renameat,renameat2,linkat:when=4", "ioctl:when=4"] {
        let (scene, _mount) = scene("");
        night(&scene, || scene.copy(&["--generations"]));
        change(&scene);
        let before = all(&scene);
        let (calls, when) = call.split_once(':').unwrap();
        let strace = Strace::inject(&scene, calls, &format!("signal=KILL:{when}"));
        let run = strace.run(scene.command(["--generations"]));
        assert_ne!(run.code, Some(0), "{call}");
        assert_eq!(all(&scene), before, "{call}");
        // The source goes on meanwhile.
        scene.src.remove("d0/photo-12").append("d2/photo-2", b"more");
        night(&scene, || scene.copy(&["--generations"]));
        assert_eq!(shell(&scene, "ls dst | grep -c part || true").trim(), "0");
    }
}

/// Who may not remove subvolumes at once empties them.
#[test]
fn old_ones_go_with_and_without_the_right_to_remove_subvolumes() {
    need!(Kinds, Setpriv);
    for (options, nobody) in [("", false), (",user_subvol_rm_allowed", true), ("", true)] {
        let (scene, _mount) = scene(options);
        shell(&scene, "chown -R 65534 src dst; chmod 755 .");
        let run = |args: &[&str]| {
            let command = scene.command([&["--generations"], args].concat());
            if nobody { command.under_nobody().run() } else { command.run() }
        };
        for _ in 0..3 {
            night(&scene, || run(&[]));
        }
        run(&["--keep", "last=1"]).assert_code(0);
        assert_eq!(generations(&scene).len(), 1);
        shell(&scene, "cd dst/.dircopy-trash && mv 2* 2001-01-01T000000Z");
        run(&["--keep-trash", "1d"]).assert_code(0).assert_says("removed");
        assert_eq!(shell(&scene, "ls dst/.dircopy-trash"), "");
        is_whole(&scene);
    }
}

/// A link that somebody gave away in the last generation is the source's owner's in the next.
#[test]
fn a_link_has_the_owner_of_the_source() {
    need!(Kinds);
    let (scene, _mount) = scene("");
    night(&scene, || scene.copy(&["--generations"]));
    let newest = || generations(&scene).pop().unwrap();
    let owner = || std::fs::symlink_metadata(newest().join("sym")).unwrap().uid();
    lchown(newest().join("sym"), Some(1000), Some(1000)).unwrap();
    assert_eq!(owner(), 1000);
    night(&scene, || scene.copy(&["--generations"]));
    assert_eq!(owner(), 0);
}

/// A file that was put into a generation, or changed there, by another program is not believed.
#[test]
fn what_is_not_recorded_is_copied_anew() {
    need!(Kinds);
    let (scene, _mount) = scene("");
    night(&scene, || scene.copy(&["--generations"]));
    let newest = generations(&scene).pop().unwrap();
    scene.src.file("late", "from the source");
    shell(
        &scene,
        &format!(
            "cd {} && printf 'from elsewhere!' >late && touch -r ../../src/late late && printf XX >>d0/photo-0 \
             && truncate -s -2 d0/photo-0 && printf Y | dd of=d0/photo-0 conv=notrunc status=none \
             && touch -r ../../src/d0/photo-0 d0/photo-0 && touch -h -d yesterday sym",
            newest.display()
        ),
    );
    night(&scene, || scene.copy(&["--generations"])).assert_prints(&["copied", "2 files"]);
}

/// The look before lists names, and the copy looks at each file at the source: no pass over the snapshot is made
/// besides. What the snapshot has its file system tells in bulk, which only root may ask.
#[test]
fn a_night_looks_at_each_file_once() {
    need!(Kinds, Strace, Setpriv);
    for (nobody, at_output) in [(false, 0), (true, 1)] {
        let (scene, _mount) = scene("");
        // Where space is ample nothing is looked at for it.
        shell(&scene, "head -c 200M /dev/zero >dst/filler; sync -f dst");
        shell(&scene, if nobody { "chown -R 65534 . && chmod 755 ." } else { "true" });
        let command = || {
            // A file of more than a block is looked at by itself.
            let command = scene.command(["--generations", "--block-size", "256K"]);
            if nobody { command.under_nobody() } else { command }
        };
        night(&scene, || command().run());
        let looks = |changed: u32| {
            let strace = Strace::watch(&scene, "newfstatat,statx,lstat,stat");
            night(&scene, || strace.run(command()));
            let of = |i: u32| {
                let name = format!("\"photo-{i}\"");
                strace.calls().iter().filter(|call| call.contains(&name)).count()
            };
            (0..30).filter(|i| *i != changed).map(of).collect::<Vec<_>>()
        };
        assert_eq!(looks(30), [1 + at_output; 30]);
        // Once more at the source for the room, if anything is to be made.
        scene.src.append("d0/photo-3", b"more");
        assert_eq!(looks(3), [2 + at_output; 29]);
    }
}

/// Whatever is done to the last generation, the next one is the source again.
#[test]
fn what_was_done_to_the_last_generation_is_seen() {
    need!(Kinds);
    let (scene, _mount) = scene("");
    for (at, name) in ["d0/same", "d1/same", "d2/same", "d2/other"].into_iter().enumerate() {
        scene.src.file(name, format!("content {at}"));
    }
    shell(
        &scene,
        "touch -d 2001-01-01 src/d?/same src/d2/other; cp -r src/d0 src/e0; cp -r src/d1 src/e1",
    );
    shell(&scene, "touch -d 2001-01-01 src/e?/same");
    night(&scene, || scene.copy(&["--generations"]));
    let edit = "printf X | dd of=d0/photo-3 conv=notrunc status=none && touch -r ../../src/d0/photo-3 d0/photo-3";
    let replace = |by: &str| {
        format!("cd .. && {by} && cd new && {edit} && cd .. && mv $last ../aside/ && mv new $last")
    };
    let snapshot = replace("btrfs -q subvolume snapshot $last new");
    let received = replace(
        "btrfs property set $last ro true && mkdir r && btrfs -q send $last | btrfs -q receive r \
         && btrfs property set -f r/$last ro false && btrfs property set $last ro false && mv r/$last new && rmdir r",
    );
    let read_only = format!(
        "btrfs property set . ro true && btrfs property set . ro false && {edit} && btrfs property set . ro true"
    );
    shell(&scene, "mkdir dst/aside");
    for deed in [
        edit,
        "mv d0/same x && mv d1/same d0/same && mv x d1/same",
        "mv d2/same x && mv d2/other d2/same && mv x d2/other",
        "mv e0 x && mv e1 e0 && mv x e1",
        "rm d1/same && ln d0/same d1/same",
        "chmod 777 d0/same && setfattr -n user.mine -v 1 d1/same",
        &snapshot.replace("../aside", "aside"),
        &received.replace("../aside", "aside"),
        &read_only,
        "btrfs property set . ro true",
    ] {
        let newest = generations(&scene).pop().unwrap();
        let last = newest.file_name().unwrap().to_str().unwrap();
        shell(&scene, &format!("last={last} && cd dst/$last && {deed}"));
        let run = night(&scene, || scene.copy(&["--generations"]));
        assert_eq!(shell(&scene, "getfattr -Rd -m user dst/latest/"), "", "{deed}: {}", run.err());
    }
}

/// What is no part of the source any more, or is something else there, is not in the next generation.
#[test]
fn what_is_not_to_be_copied_any_more_is_not_shared() {
    need!(Kinds);
    let (scene, _mount) = scene("");
    night(&scene, || scene.copy(&["--generations"]));
    shell(&scene, "cd src && rm d0/photo-0 sym && mkfifo d0/photo-0 && ln -s photo-2 d2/photo-0");
    shell(
        &scene,
        "cd src && rm d1/photo-1 && ln -s photo-4 d1/photo-1 && rm -r empty && ln -s d1 empty",
    );
    let args = ["--generations", "--exclude", "photo-1?", "--exclude", "/d2"];
    scene.copy(&args).assert_code(0).assert_prints(&["copied", "0 files"]);
    let there =
        "cd dst/latest && find . -path ./.dircopy -prune -o -print | grep -v dircopy- | sort";
    let expected =
        "cd src && find . -path ./d2 -prune -o -name 'photo-1?' -o ! -type p -print | sort";
    assert_eq!(shell(&scene, there), shell(&scene, expected));
    shell(&scene, "cd dst/latest && sha256sum -c --strict --quiet dircopy-*.sha256sum");
    scene.copy(&["--generations", "--no-links"]).assert_code(0);
    assert_eq!(shell(&scene, "cd dst/latest && find . -type l"), "");
    assert_eq!(shell(&scene, "find dst/latest/ -name 'photo-*' | wc -l"), "28\n");
}

/// Another program is at work in the last generation when the snapshot of it is made.
#[test]
fn what_is_done_to_the_last_generation_just_before_the_snapshot_is_found() {
    need!(Kinds, Strace);
    let (scene, _mount) = scene("");
    night(&scene, || scene.copy(&["--generations"]));
    let watch = Strace::watch(&scene, "openat,openat2,ioctl");
    let before = generations(&scene).pop().unwrap();
    night(&scene, || watch.run(scene.command(["--generations"])));
    // The run opens it by its name once more just before.
    let calls = watch.calls().into_iter();
    let until: Vec<_> = calls.take_while(|call| !call.contains("SNAP_CREATE")).collect();
    let opens = |call: &&String| call.contains(&format!("\"{}\"", name_of(&before)));
    let last_open = until.iter().filter(opens).count();
    for deed in [
        "echo late >late && mkdir d0/more && echo x >d0/more/x && ln -s late d1/link",
        "mv d0/photo-0 d0/renamed && mv d1 e1",
        "rm d0/photo-0 sym && mkdir d0/photo-0 && echo x >d0/photo-0/x && echo file >sym \
         && rm -r empty && ln -s d0 empty && rm -r d2 && mkfifo d2",
        "rm d0/photo-0 && rm -r d1 && touch -d 2001-01-01 d2/photo-2",
    ] {
        let last = generations(&scene).pop().unwrap();
        let stop = format!("signal=SIGSTOP:when={last_open}");
        let strace = Strace::inject(&scene, "openat,openat2", &stop).exactly_on(name_of(&last));
        let meanwhile = || drop(shell(&scene, &format!("cd dst/latest && {deed}")));
        strace.run_stopped(scene.command(["--generations"]), meanwhile).assert_code(0);
        is_whole(&scene);
        let newest = generations(&scene).pop().unwrap();
        assert_ne!(newest, last);
        scene.bare(["verify", "--complete", newest.to_str().unwrap()]).run().assert_code(0);
    }
}

fn name_of(path: &Path) -> &str {
    path.file_name().unwrap().to_str().unwrap()
}

/// The source is compared with the snapshot, so one is there when the run is refused.
#[test]
fn a_night_that_is_refused_leaves_no_snapshot() {
    need!(Kinds, Strace, Setpriv);
    for nobody in [false, true] {
        let (scene, _mount) = scene("");
        shell(&scene, "chown -R 65534 src dst && chmod 755 .");
        let command = || {
            let command = scene.command(["--generations"]);
            if nobody { command.under_nobody() } else { command }
        };
        night(&scene, || command().run());
        shell(&scene, "mkdir kept && mv src/* kept");
        let before = all(&scene);
        let strace = Strace::watch(&scene, "ioctl");
        let run = if nobody { command().run() } else { strace.run(command()) };
        run.assert_code(2).assert_says("is its disk not mounted? nothing was touched");
        assert!(nobody || strace.log().contains("SNAP_CREATE"));
        assert_eq!(shell(&scene, "ls dst | grep -c part || true").trim(), "0", "{}", run.err());
        assert_eq!(all(&scene), before);
        let note = format!("/{}/.dircopy/source, by which", name_of(before.keys().next().unwrap()));
        shell(&scene, "mv kept/* src && mkdir other && mount -t tmpfs none other");
        shell(&scene, "cp -a src/. other && rm other/sym && mount --bind other src");
        command().run().assert_code(2).assert_says(&note);
        assert_eq!(shell(&scene, "ls dst | grep -c part || true").trim(), "0");
        shell(&scene, "umount src other");
        night(&scene, || command().run());
    }
}

/// What lists nothing may be anybody's, but not in a snapshot.
#[test]
fn the_manifest_of_an_empty_night_is_not_in_the_next() {
    need!(Kinds);
    let (scene, _mount) = scene("");
    shell(&scene, "mkdir kept && mv src/* kept");
    scene.copy(&["--generations", "--allow-empty"]).assert_code(0);
    scene.copy(&["--generations", "--allow-empty"]).assert_code(0);
    shell(&scene, "mv kept/* src");
    night(&scene, || scene.copy(&["--generations"]));
    night(&scene, || scene.copy(&["--generations"]));
}

/// Whoever can write to the last generation may put there what has a name that runs give.
#[test]
fn what_only_has_the_name_of_a_run_is_not_in_the_next() {
    need!(Kinds, Strace);
    let plant = "ln -s /etc/passwd dircopy-20200101T000000Z.sha256sum
        mkfifo dircopy-20200102T000000Z.sha256sum; mkdir dircopy-20200104T000000Z.sha256sum
        echo x >dircopy-20200103T000000Z.states; echo x >dircopy-20200103T000000Z.md5sum
        echo \"$(printf '%064d' 0)  d0/photo-0\" >dircopy-20200105T000000Z.sha256sum
        touch -d @1 dircopy-20200105T000000Z.sha256sum; : >dircopy-20200106T000000Z.sha256sum.part
        mkdir .dircopy-trash; echo y >.dircopy-trash/y";
    for killed in [false, true] {
        let (scene, _mount) = scene("");
        // Names like these the source may have.
        scene.src.file("dircopy-20200107T000000Z.md5sum", "of the source").dir(".dircopy-trash");
        scene.copy(&["--generations"]).assert_code(0);
        shell(&scene, &format!("cd dst/latest; {plant}"));
        if killed {
            let strace = Strace::inject(&scene, "unlinkat", "signal=KILL:when=1");
            assert_ne!(strace.run(scene.command(["--generations"])).code, Some(0));
            shell(&scene, "ls -d dst/*.part");
        }
        for _ in 0..2 {
            scene.copy(&["--generations"]).assert_code(0);
            let there = shell(&scene, "cd dst/latest/ && ls -d .dircopy* dircopy-*");
            let there: Vec<_> = there.lines().collect();
            assert_eq!(there[..2], [".dircopy", "dircopy-20200107T000000Z.md5sum"], "{killed}");
            assert_eq!(there.len(), 3, "{there:?}");
            shell(&scene, "cd dst/latest && sha256sum -c --strict --quiet dircopy-*.sha256sum");
            scene.bare(["verify", "--complete", "dst/latest"]).run().assert_code(0);
        }
    }
}

/// A subvolume is an empty directory in a snapshot of what it is in, where nothing can be made.
#[test]
fn a_subvolume_in_a_generation_does_not_keep_the_next_from_being_whole() {
    need!(Kinds, Strace);
    let (scene, _mount) = scene("");
    night(&scene, || scene.copy(&["--generations"]));
    shell(
        &scene,
        "cd dst/latest && mkdir ../kept && mv d1/* ../kept && rmdir d1 && btrfs -q subvolume create d1",
    );
    shell(&scene, "cd dst/latest && cp -a ../kept/* d1 && rm -r ../kept");
    scene.copy(&["--generations"]).assert_code(0);
    is_whole(&scene);
    // Also if a run was killed between the snapshot and the removal of what is in the way.
    let newest = generations(&scene).pop().unwrap();
    shell(&scene, &format!("cd {} && rm -r d2 && btrfs -q subvolume create d2", newest.display()));
    Strace::inject(&scene, "unlinkat", "signal=KILL:when=1").run(scene.command(["--generations"]));
    assert_ne!(shell(&scene, "ls dst | grep -c part || true").trim(), "0");
    scene.copy(&["--generations"]).assert_code(0);
    is_whole(&scene);
}

/// What somebody gave a link of the last generation was on that of each later one.
#[test]
fn a_link_has_the_attributes_of_the_source_alone() {
    need!(Kinds, Attr);
    let (scene, _mount) = scene("");
    scene.src.symlink("own", "d1");
    shell(&scene, "setfattr -h -n trusted.own -v 1 src/own");
    night(&scene, || scene.copy(&["--generations"]));
    let attributes = |root: &Path| {
        let script = "cd \"$0\" && getfattr -h -d -m - sym own";
        let output = std::process::Command::new("bash").args(["-ec", script]).arg(root).output();
        String::from_utf8(output.unwrap().stdout).unwrap()
    };
    let newest = || generations(&scene).pop().unwrap();
    let of_source = attributes(scene.src.root());
    assert!(of_source.contains("trusted.own"), "{of_source}");
    assert_eq!(attributes(&newest()), of_source);
    shell(
        &scene,
        "cd dst/latest/ && setfattr -h -n trusted.given -v x sym && setfattr -h -n trusted.own -v 2 own",
    );
    night(&scene, || scene.copy(&["--generations"]));
    assert_eq!(attributes(&newest()), of_source);
}
