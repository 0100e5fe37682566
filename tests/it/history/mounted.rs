//! A disk that was mounted in the source and is missing takes nothing from an output.

use crate::harness::{Mount, Run, Scene, Strace, need, shell};

/// A source with a disk in it.
fn scene() -> (Scene, Mount) {
    let scene = Scene::on_disk();
    scene.src.file("a", "a").dir("sub");
    let disk = Mount::tmpfs(&scene.src.path("sub"), "8m");
    scene.src.file("sub/x", "x");
    (scene, disk)
}

#[track_caller]
fn is_refused(run: &Run) {
    run.assert_code(2).assert_says("another file system was mounted there last time");
}

/// Only a disk that was there in two runs was noted.
#[test]
fn one_that_was_there_in_one_run_is_missed() {
    need!(Mount);
    Mount::privately();
    let (scene, disk) = scene();
    scene.copy(&["--mirror"]).assert_code(0);
    drop(disk);
    let all = ["--mirror", "--max-delete=100%"];
    is_refused(&scene.copy(&all));
    // A run that saw a part of the source says nothing of the rest.
    scene.copy(&["--exclude=/sub"]).assert_code(0);
    is_refused(&scene.copy(&all));
    assert!(scene.dst.join("sub/x").exists());
    // Nor is one without --mirror done, until it is told to take the source as it is.
    for _ in 0..2 {
        let run = scene.copy(&[]);
        run.assert_code(1).assert_says("src/sub: another file system was mounted there");
    }
    is_refused(&scene.copy(&all));
    scene.copy(&["--allow-empty"]).assert_code(0);
    scene.copy(&[]).assert_code(0);
    scene.copy(&all).assert_code(0);
    assert!(!scene.dst.join("sub/x").exists());
}

/// Desktops make the directory of a mount, and remove it with the mount.
#[test]
fn one_whose_directory_left_with_it_is_missed() {
    need!(Mount);
    Mount::privately();
    let scene = Scene::on_disk();
    scene.src.file("a", "a").dir("media/card");
    let disk = Mount::tmpfs(&scene.src.path("media/card"), "8m");
    scene.src.file("media/card/x", "x");
    let all = ["--mirror", "--max-delete=100%"];
    scene.copy(&all).assert_code(0);
    drop(disk);
    for gone in ["media/card", "media"] {
        shell(&scene, &format!("rmdir src/{gone}"));
        is_refused(&scene.copy(&all));
        assert!(scene.dst.join("media/card/x").exists());
    }
    // One without --mirror takes the source as it is.
    scene.copy(&[]).assert_code(0);
    scene.copy(&all).assert_code(0);
    assert!(!scene.dst.join("media").exists());
}

/// Each tree is a new one, in which none was ever noted.
#[test]
fn generations_miss_it_too() {
    need!(Kinds);
    Mount::privately();
    // Hard links, clones, snapshots.
    for kind in ["ext4", "xfs", "btrfs"] {
        let (scene, disk) = scene();
        let _output = Mount::of_kind(kind, &scene.path("image"), &scene.dst);
        let night = || scene.copy(&["--generations", "--max-delete=100%"]);
        let all = || shell(&scene, "ls -d dst/20*");
        night().assert_code(0);
        drop(disk);
        let first = all();
        is_refused(&night());
        let disk = Mount::tmpfs(&scene.src.path("sub"), "8m");
        scene.src.file("sub/x", "x");
        night().assert_code(0);
        drop(disk);
        let run = night();
        is_refused(&run);
        let second = all();
        assert_eq!(second.lines().count(), 2, "{kind}: {first}{second}");
        // The remedy that it names.
        let newest = second.lines().last().unwrap();
        run.assert_says(&format!("{newest}/.dircopy/source"));
        shell(&scene, &format!("rm {newest}/.dircopy/source"));
        night().assert_code(0);
        assert!(!scene.dst.join("latest/sub/x").exists());
    }
}

/// A mirror that leaves out where the disk is says nothing of it either.
#[test]
fn a_mirror_of_a_part_does_not_forget_it() {
    need!(Mount);
    Mount::privately();
    for part in ["--exclude=/sub", "--one-file-system"] {
        let (scene, disk) = scene();
        let all = ["--mirror", "--max-delete=100%"];
        scene.copy(&all).assert_code(0);
        scene.src.remove("a").file("b", "b");
        scene.copy(&["--mirror", "--max-delete=100%", part]).assert_code(0);
        assert!(!scene.dst.join("a").exists());
        drop(disk);
        is_refused(&scene.copy(&all));
        assert!(scene.dst.join("sub/x").exists());
    }
}

/// The disk was taken away for good, and the job always has the option.
#[test]
fn it_is_forgotten_with_one_file_system_too() {
    need!(Mount);
    Mount::privately();
    let (scene, disk) = scene();
    scene.copy(&["--mirror"]).assert_code(0);
    drop(disk);
    let all = ["--mirror", "--max-delete=100%", "-x"];
    is_refused(&scene.copy(&all));
    scene.copy(&["-x"]).assert_code(0);
    scene.copy(&all).assert_code(0);
    assert!(!scene.dst.join("sub/x").exists());
}

/// The file system of the source could not be asked once, or a kernel before had no answer: no later run is refused.
#[test]
fn what_could_not_be_asked_once_is_no_other_file_system() {
    need!(Root, Mount, Loop, Kinds, Strace);
    Mount::privately();
    let scene = Scene::new();
    let _mount = Mount::of_kind("xfs", &scene.path("image"), scene.src.root());
    for number in 0..10 {
        scene.src.file(format!("{number}"), "content");
    }
    let noted = || {
        let note = std::fs::read_to_string(scene.dst.join(".dircopy/source")).unwrap();
        let json: serde_json::Value = serde_json::from_str(note.lines().nth(1).unwrap()).unwrap();
        ["uuid", "kind"].map(|by| json["root"][by].is_string())
    };
    let run = || scene.copy(&["--mirror"]);
    for (number, (fault, note)) in
        [("EINTR", [false, false]), ("EIO", [false, false]), ("ENOTTY", [false, true])]
            .into_iter()
            .enumerate()
    {
        shell(&scene, "rm -rf dst/.dircopy/source");
        let strace = Strace::inject(&scene, "ioctl", &format!("error={fault}"));
        let first = strace.run(scene.command(["--mirror"]));
        strace.fired(&first);
        first.assert_code(0);
        assert_eq!(noted(), note, "{fault}");
        scene.src.remove(format!("{number}"));
        run().assert_code(0);
        assert_eq!(noted(), [true, true], "{fault}");
    }
    // Nor does a note that was damaged refuse one.
    for (at, number) in [(40, 5), (200, 6)] {
        shell(
            &scene,
            &format!("printf '\\377' | dd of=dst/.dircopy/source bs=1 seek={at} conv=notrunc"),
        );
        scene.src.remove(format!("{number}"));
        run().assert_code(0);
        assert_eq!(noted(), [true, true], "{at}");
    }
}
