//! What was renamed is no loss and needs no room: neither limit of a run takes it for what it is not.

use crate::harness::{Mount, Scene, Strace, content, long, need, shell};

/// A source whose files are nearly all in one directory.
fn fill(scene: &Scene, size: usize) {
    for i in 0..20 {
        scene.src.file(format!("album/photo-{i}"), content(size + i));
    }
    scene.src.file("notes", "notes");
    // What is recorded is beyond doubt.
    std::thread::sleep(std::time::Duration::from_millis(30));
}

#[track_caller]
fn is_there(scene: &Scene, tree: &str) {
    shell(scene, &format!("diff -r src/renamed {tree}/renamed && test ! -e {tree}/album"));
    let list = "$(ls dircopy-*.sha256sum | sort | tail -1)";
    shell(scene, &format!("cd {tree} && sha256sum -c --strict --quiet {list}"));
}

#[test]
fn a_renamed_directory_has_not_left() {
    for (option, tree) in [("--mirror", "dst"), ("--generations", "dst/latest")] {
        let scene = Scene::on_disk();
        fill(&scene, 1000);
        scene.copy(&[option]).assert_code(0);
        shell(&scene, "mv src/album src/renamed");
        scene.copy(&[option, "-n"]).assert_code(0);
        scene.copy(&[option]).assert_code(0);
        is_there(&scene, tree);
        // What has left besides is counted as ever.
        shell(&scene, "mv src/renamed src/album && rm src/album/photo-? src/album/photo-11");
        let refused = scene.copy(&[option, "--max-delete=10"]);
        refused.assert_code(2).assert_says("11 of the 21 files and links");
        is_there_no_more(&scene, tree);
    }
}

/// The refused run touched nothing.
fn is_there_no_more(scene: &Scene, tree: &str) {
    shell(scene, &format!("test -e {tree}/renamed/photo-1 && test ! -e {tree}/album"));
}

/// Who follows a link that leads back to where it is comes to ever more directories.
#[test]
fn a_link_that_leads_back_has_no_end() {
    let scene = Scene::on_disk();
    fill(&scene, 1000);
    scene.src.symlink("album/back", "..");
    for name in ["album", "renamed"] {
        let run = scene.copy(&["--mirror", "--follow-links"]);
        run.assert_code(1).assert_says(&format!("src/{name}/back"));
        shell(&scene, &format!("test -e dst/{name}/photo-3; mv src/album src/renamed || :"));
    }
}

/// New names, new content, and the old sizes and times.
#[test]
fn a_ransomed_tree_is_not_taken_for_a_renamed_one() {
    for option in ["--mirror", "--generations"] {
        let scene = Scene::on_disk();
        fill(&scene, 1000);
        scene.copy(&[option]).assert_code(0);
        shell(
            &scene,
            "cd src/album && for f in *; do tr '\\000-\\377' '\\001-\\377\\000' <$f >$f.locked; touch -r $f $f.locked; rm $f; done",
        );
        let refused = scene.copy(&[option]);
        refused
            .assert_code(2)
            .assert_says("20 of the 21 files and links at the output have left it");
        shell(&scene, "find dst -name photo-3 | grep -q .; ! find dst -name '*.locked' | grep .");
    }
}

/// There is no room for a second copy.
#[test]
fn a_renamed_directory_needs_no_room() {
    need!(Kinds);
    Mount::privately();
    for kind in if long() { &["ext4", "xfs", "btrfs"][..] } else { &["ext4"] } {
        for (option, tree) in [("--mirror", "dst"), ("--generations", "dst/latest")] {
            let scene = Scene::on_disk();
            let (megabytes, size) = if *kind == "ext4" { (32, 1 << 20) } else { (320, 10 << 20) };
            let _mount = Mount::of_size(kind, megabytes, &scene.path("image"), &scene.dst);
            fill(&scene, size);
            scene.copy(&[option]).assert_code(0);
            shell(&scene, "mv src/album src/renamed");
            let run = scene.copy(&[option]);
            run.assert_code(0).assert_prints(&["20 files", "renamed: they share their data"]);
            is_there(&scene, tree);
            // What is new is refused before anything is touched.
            for i in 0..20 {
                scene.src.file(format!("new/{i}"), content(size + 1000 + i));
            }
            scene
                .copy(&[option])
                .assert_code(2)
                .assert_says("free, and the files to copy take at least");
        }
    }
}

/// A large file under another name is not written again; nor is any content wrong where names are rotated or exchanged.
#[test]
fn whatever_moves_where_the_content_is_right() {
    need!(Kinds, Strace);
    Mount::privately();
    let megabytes: u64 = if long() { 1024 } else { 64 };
    for kind in ["ext4", "btrfs"] {
        let mirror: &[&str] = &["--mirror", "--overwrite-policy=update"];
        for (args, tree) in [(mirror, "dst"), (&["--generations"], "dst/latest")] {
            let scene = Scene::new();
            let size = u32::try_from(megabytes + 300).unwrap();
            let _mount = Mount::of_size(kind, size, &scene.path("image"), &scene.dst);
            shell(&scene, &format!("yes a line of a film | head -c {megabytes}M >src/disk.img"));
            for (name, size) in
                [("log", 100_001), ("log.1", 100_001), ("log.2", 90_000), ("x", 7), ("y", 7)]
            {
                scene.src.file(
                    name,
                    content(size).iter().map(|byte| byte ^ name.as_bytes()[0]).collect::<Vec<_>>(),
                );
            }
            shell(&scene, "touch -d 2024-01-01 src/*; touch -d 2024-01-02 src/log");
            std::thread::sleep(std::time::Duration::from_millis(30));
            scene.copy(args).assert_code(0);
            shell(
                &scene,
                "cd src && mv disk.img other.img && mv log.1 log.2 && mv log log.1 && echo new >log",
            );
            shell(&scene, "cd src && mv x z && mv y x && mv z y");
            let strace =
                Strace::watch(&scene, "write,pwrite64,copy_file_range,sendfile,splice,pwritev2");
            // Two names that were exchanged have size and time of each other: the change time tells.
            let run = strace.run(scene.command(args));
            run.assert_code(0).assert_prints(&["1 file", "renamed: they share their data"]);
            shell(
                &scene,
                &format!(
                    "diff -r --exclude='dircopy-*' --exclude=.dircopy --exclude=.dircopy-trash src {tree}/"
                ),
            );
            shell(
                &scene,
                &format!(
                    "cd {tree} && sha256sum -c --strict --quiet $(ls dircopy-*.sha256sum | tail -1)"
                ),
            );
            let written = |call: &String| {
                let bytes =
                    call.rsplit_once("= ").and_then(|(_, bytes)| bytes.trim().parse::<u64>().ok());
                bytes.unwrap_or(0)
            };
            let written: u64 = strace.calls().iter().map(written).sum();
            assert!(written < 1 << 20, "{kind} {args:?}: {written}");
        }
    }
}

/// A file under another name is a clone in a directory that gives access lists to what is made in it. Who may not read the
/// file at the source may not read it at the output.
#[test]
fn a_renamed_file_gets_no_access_list_that_its_source_has_not() {
    need!(Kinds, Attr);
    Mount::privately();
    let scene = Scene::new();
    let _mount = Mount::of_size("btrfs", 300, &scene.path("image"), &scene.dst);
    scene.src.file("from/file", content(200_000)).file("to/other", "1");
    shell(
        &scene,
        "chmod 660 src/from/file; setfacl -d -m u:65534:rwx src/to; touch -d 2024-01-01 src/from/file",
    );
    scene.copy(&["--mirror"]).assert_code(0);
    shell(&scene, "mv src/from/file src/to/file");
    scene
        .copy(&["--mirror"])
        .assert_code(0)
        .assert_prints(&["1 file", "renamed: they share their data"]);
    shell(
        &scene,
        "for d in src dst; do getfacl -cpn $d/to/file >$d.acl; done; diff src.acl dst.acl",
    );
}
