//! What the removal of trash does to what stays: files that lose a name are shared with the next generation all the same.

use crate::harness::{Mount, Scene, Strace, content, need, shell};

/// Ten files at an output on ext4, where generations are hard links.
fn scene() -> (Scene, Mount) {
    Mount::privately();
    let scene = Scene::on_disk();
    let mount = Mount::of_kind("ext4", &scene.path("image"), &scene.dst);
    for i in 0..10 {
        scene.src.file(format!("d/photo-{i}"), content(10_000));
    }
    // What changes now shows in the change time.
    std::thread::sleep(std::time::Duration::from_millis(30));
    (scene, mount)
}

/// Runs a night that copies `copied` of the ten files; the generation is as the source.
#[track_caller]
fn night(scene: &Scene, args: &[&str], copied: usize) {
    let run = scene.copy(&[&["--generations"], args].concat());
    run.assert_code(0).assert_prints(&["unchanged", &format!("{} files", 10 - copied)]);
    is_whole(scene);
}

#[track_caller]
fn is_whole(scene: &Scene) {
    shell(scene, "diff -r --no-dereference src/d dst/latest/d");
    shell(scene, "cd dst/latest && sha256sum -c --strict --quiet dircopy-*.sha256sum");
}

/// All trash at the output is older than any age from now on.
fn age(scene: &Scene) {
    shell(scene, "cd dst/.dircopy-trash && for d in 2*; do mv $d 2001-01-01T0000${d:15:3}; done");
}

/// Has a run make the trash of a mirror.
fn begin_trash(scene: &Scene) {
    shell(scene, "echo >dst/left");
    scene.copy(&["--mirror=all"]).assert_code(0);
    shell(scene, "rm -r dst/.dircopy-trash/*");
}

#[test]
fn a_night_after_one_that_removed_trash_reads_nothing() {
    need!(Kinds, Strace);
    let (scene, _mount) = scene();
    let old_goes = ["--keep", "last=1", "--keep-trash", "1d"];
    scene.copy(&["--generations"]).assert_code(0);
    for _ in 0..3 {
        night(&scene, &old_goes, 0);
        age(&scene);
    }
    assert_eq!(shell(&scene, "ls dst/.dircopy-trash").lines().count(), 1);
    let strace = Strace::watch(&scene, "openat,openat2");
    let run = strace.run(scene.command(["--generations"]));
    run.assert_code(0).assert_prints(&["unchanged", "10 files"]);
    let opened: Vec<_> = strace.calls().into_iter().filter(|it| it.contains("photo-")).collect();
    assert!(opened.is_empty(), "{opened:#?}");
    is_whole(&scene);
}

#[test]
fn what_lost_a_name_otherwise_is_read_and_shared() {
    need!(Kinds);
    let (scene, _mount) = scene();
    scene.copy(&["--generations"]).assert_code(0);
    night(&scene, &["--keep", "last=1"], 0);
    shell(&scene, "rm -r dst/.dircopy-trash");
    night(&scene, &["--keep", "last=1"], 0);
    assert_eq!(shell(&scene, "stat -c %h dst/latest/d/photo-1").trim(), "2");
}

/// A change time that is another says nothing of what happened: neither to the copy nor to the source before.
#[test]
fn an_edit_hides_behind_no_removed_name() {
    need!(Kinds);
    let (scene, _mount) = scene();
    scene.copy(&["--generations"]).assert_code(0);
    night(&scene, &[], 0);
    // Both keep size and time.
    let sly = |file: &str| {
        let script = "printf X | dd of=F conv=notrunc bs=1 seek=77 status=none; touch -d \"$t\" F";
        let script = format!("t=$(stat -c %y F); {script}");
        shell(&scene, &script.replace('F', file));
    };
    sly("src/d/photo-3");
    std::thread::sleep(std::time::Duration::from_millis(30));
    shell(&scene, "rm -r $(ls -d dst/20* | head -1)");
    sly("dst/latest/d/photo-5");
    night(&scene, &[], 2);
}

/// A source of which `d` has left, after a run that copied it.
fn scene_of_a_mirror() -> Scene {
    let scene = Scene::on_disk();
    for name in ["1", "2", "3", "4", "5", "d/x"] {
        scene.src.file(name, name);
    }
    scene.copy(&["--mirror=all"]).assert_code(0);
    shell(&scene, "rm -r src/d");
    scene
}

#[test]
fn what_is_mounted_at_an_output_does_not_go_to_the_trash() {
    need!(Mount);
    Mount::privately();
    let scene = scene_of_a_mirror();
    shell(&scene, "mkdir dst/d/disk dst/d/bound other; echo precious > other/file");
    let _disk = Mount::tmpfs(&scene.dst.join("d/disk"), "1m");
    // Of the same file system, so that only the mount tells.
    let _bound = Mount::bind(&scene.path("other"), &scene.dst.join("d/bound"));
    shell(&scene, "echo precious > dst/d/disk/file");
    for _ in 0..2 {
        let run = scene.copy(&["--mirror=all"]);
        run.assert_code(0).assert_says("stays at the output: d/disk").assert_says("d/bound");
        run.assert_says("something else is mounted there");
    }
    assert_eq!(shell(&scene, "cd dst/d; cat disk/file bound/file"), "precious\nprecious\n");
    assert!(!scene.dst.join("d/x").exists());
}

#[test]
fn old_trash_goes_without_what_is_mounted_in_it() {
    need!(Mount);
    Mount::privately();
    let scene = scene_of_a_mirror();
    let trash = "dst/.dircopy-trash/2001-01-01T000000Z";
    begin_trash(&scene);
    shell(&scene, &format!("mkdir -p {trash}/d/disk {trash}/d/bound {trash}/e other"));
    shell(&scene, &format!("echo old > {trash}/d/old; cp {trash}/d/old {trash}/e"));
    let at = |name: &str| scene.path(&format!("{trash}/d/{name}"));
    let _disk = Mount::tmpfs(&at("disk"), "1m");
    let _bound = Mount::bind(&scene.path("other"), &at("bound"));
    shell(&scene, &format!("for d in disk bound; do echo precious > {trash}/d/$d/file; done"));
    let run = scene.copy(&["--mirror=all", "--keep-trash=30d"]);
    run.assert_code(0).assert_says("something else is mounted there; so it is with 1 more there");
    let left = shell(&scene, &format!("cd {trash} && find . -type f | sort"));
    assert_eq!(left, "./d/bound/file\n./d/disk/file\n");
}

/// Deeper than files may be open, and the removal has to come back to each level.
#[test]
fn trash_of_any_depth_goes() {
    let scene = scene_of_a_mirror();
    let trash = "dst/.dircopy-trash/2001-01-01T000000Z";
    begin_trash(&scene);
    let dig = "for i in $(seq 200); do mkdir d e; echo $i >e/f; cd d; done";
    shell(&scene, &format!("mkdir -p {trash} && cd {trash} && {dig}"));
    let removing = scene.command(["--mirror=all", "--keep-trash=30d"]);
    let run = removing.after("ulimit -n 256").run();
    run.assert_code(0).assert_says("removed");
    shell(&scene, "! ls -d dst/.dircopy-trash/2001*");
}

#[test]
fn trash_that_cannot_be_removed_keeps_no_other() {
    need!(Mount);
    Mount::privately();
    let scene = scene_of_a_mirror();
    begin_trash(&scene);
    let script = "cd dst/.dircopy-trash; for y in 2001 2003 2005 2006; do \
                  mkdir $y-01-01T000000Z; echo x > $y-01-01T000000Z/x; done; \
                  echo > 2002-01-01T000000Z; mkdir 2004-01-01T000000Z";
    shell(&scene, script);
    let stuck = scene.dst.join(".dircopy-trash/2005-01-01T000000Z/disk");
    let _disk = Mount::tmpfs(&stuck, "1m");
    for _ in 0..2 {
        let run = scene.copy(&["--mirror", "--keep-trash=30d"]);
        run.assert_code(0).assert_says("cannot remove old trash").assert_says("2002-01-01T000000Z");
        run.assert_says("2005-01-01T000000Z/disk");
        let left = shell(&scene, "ls dst/.dircopy-trash | grep ^200");
        assert_eq!(left, "2002-01-01T000000Z\n2005-01-01T000000Z\n");
    }
}
