//! The ordinary case: a tree goes over, every file of it is listed, and exit 0 means so.

use crate::harness::{
    Judge, NONE, Need, Scene, Tree, content, ctimes, have, names_below, need, shell,
};

/// Sizes around the block sizes a user may choose, and the empty file.
fn lengths() -> Vec<usize> {
    let mut lengths = vec![0, 1, 250, 251, 252];
    for block in [4096, 65_536, 131_072, 1 << 20] {
        lengths.extend([block - 1, block, block + 1, 2 * block, 2 * block + 1]);
    }
    lengths
}

#[test]
fn a_rich_tree_goes_over() {
    let scene = Scene::new();
    for len in lengths() {
        scene.src.file(format!("by length/{len}.bin"), content(len));
    }
    scene.src.dir("empty/really/empty").file("a/b/c/d/e/f/deep.txt", "deep");
    for i in 0..300 {
        scene.src.file(format!("many/{i:03}/file"), content(i));
    }
    let run = scene.copy(&[]);
    scene.judge(&run).complete();
}

/// One lane and one block find the deadlock that a roomy queue hides.
#[test]
fn every_shape_of_the_pipeline_copies_the_same() {
    let shapes: &[&[&str]] = &[
        &["--workers", "1", "--queue-size", "1", "--block-size", "4096"],
        &["--workers", "1", "--queue-size", "2", "--block-size", "64K"],
        &["--workers", "8", "--queue-size", "1", "--block-size", "4096"],
        &["--workers", "3", "--queue-size", "32", "--block-size", "1M"],
        &["--no-sync"],
    ];
    let scene = Scene::new();
    for len in lengths() {
        scene.src.file(format!("{len}.bin"), content(len));
        scene.src.file(format!("dir-{len}/{len}.bin"), content(len));
    }
    for (i, shape) in shapes.iter().enumerate() {
        let dst = scene.path(&format!("dst-{i}"));
        let run = scene.command_to(scene.src.root(), &dst, *shape).run();
        Judge::new(&scene.src, Tree::of(dst), &run).complete();
    }
}

#[test]
fn an_empty_source_is_done_at_once() {
    let scene = Scene::new();
    let run = scene.copy(&["--allow-empty"]);
    run.assert_code(0);
    assert!(scene.dst.is_dir());
    scene.judge(&run).same_tree().no_leftovers();
    assert!(names_below(&scene.dst, "f").len() <= 1, "more than a manifest");
}

#[test]
fn the_output_is_made_when_only_its_last_part_is_missing_or_used_as_it_is() {
    let scene = Scene::new();
    scene.src.file("a", "a");
    let run = scene.copy(&[]);
    scene.judge(&run).complete();

    let scene = Scene::new();
    scene.src.file("a", "a");
    scene.output().file("unrelated", "of someone else");
    let run = scene.copy(&[]);
    run.assert_code(0);
    scene.judge(&run).has("a").lists_all().verifies();
    assert_eq!(scene.output().read("unrelated"), b"of someone else");
}

#[test]
fn relative_paths_trailing_slashes_and_long_options() {
    let scene = Scene::new();
    scene.src.file("dir/a", content(1000));
    let run = scene.bare(["--input", "src/", "--output", "./dst/"]).run();
    scene.judge(&run).complete();
}

/// The output itself may be named by a symlink; only what lies below it is never followed.
#[test]
fn the_output_may_be_named_by_a_symlink() {
    let scene = Scene::new();
    scene.src.file("dir/a", content(1000));
    scene.output();
    scene.tree(".").symlink("link", "dst");
    let run = scene.command_to(scene.src.root(), scene.path("link"), NONE).run();
    scene.judge(&run).complete();
}

#[test]
fn a_single_file_is_copied_under_its_own_name() {
    for name in [&b"one.bin"[..], b"odd\nname\xff\\", b"-i", b" "] {
        let scene = Scene::new();
        scene.src.file(name, content(70_000)).file("beside", "not asked for");
        let run = scene.command_to(scene.src.path(name), &scene.dst, NONE).run();
        run.assert_code(0);
        let judge = scene.judge(&run);
        judge.lists(&[name]).verifies().no_leftovers().has(name).lacks("beside");
    }
}

#[test]
fn symlinks_are_copied_as_links() {
    let scene = Scene::new();
    scene.src.file("dir/file", "x");
    scene
        .src
        .symlink("to-file", "dir/file")
        .symlink("to-dir", "dir")
        .symlink("dangling", "no/where");
    scene.src.symlink("loop", "loop").symlink("dir/up", "..").symlink("absolute", "/etc/passwd");
    scene.src.symlink("odd", b"tar\nget\xff");
    let run = scene.copy(&[]);
    scene.judge(&run).complete().lists(&["dir/file"]);
}

#[test]
fn a_second_copy_finds_the_symlinks_there_already() {
    let scene = Scene::new();
    scene.src.file("file", "x").symlink("link", "file").symlink("dangling", "nowhere");
    scene.copy(&[]).assert_code(0);
    let run = scene.copy(&[]);
    scene.judge(&run).complete();
}

#[test]
fn followed_links_become_what_they_point_to() {
    let scene = Scene::new();
    scene.tree("outside").file("dir/inner", "inner").file("file", content(5000));
    scene.src.symlink("dir", "../outside/dir").symlink("file", "../outside/file");
    scene.src.file("plain", "plain");
    let run = scene.copy(&["--follow-links"]);
    run.assert_code(0);
    let judge = scene.judge(&run);
    judge.lists(&["dir/inner", "file", "plain"]).verifies().no_leftovers();
    assert_eq!(names_below(&scene.dst, "l").len(), 0);
    assert_eq!(scene.output().read("file"), content(5000));
    assert_eq!(scene.output().read("dir/inner"), b"inner");
}

/// The original turned 100 MB into 4.1 GB here.
#[test]
fn a_loop_of_followed_links_is_reported_and_bounded() {
    let scene = Scene::new();
    scene.src.file("a/file", content(5000)).symlink("a/up", "..").symlink("self", "self");
    let run = scene.copy(&["--follow-links"]);
    run.assert_code(1).assert_says("a/up").assert_says("self");
    scene.judge(&run).has("a/file").verifies().no_leftovers();
    assert!(names_below(&scene.dst, "f").len() <= 3, "it went round the loop");
}

/// The links in /proc/self/fd lead to the directories that the run itself holds open: each look found more.
#[test]
fn a_followed_link_into_proc_is_refused() {
    let scene = Scene::new();
    scene.src.file("good", "good").symlink("descriptors", "/proc/self/fd");
    scene.src.symlink("memory", "/proc/kcore").symlink("small", "/proc/version");
    let run = scene.copy(&["--follow-links"]);
    run.assert_code(1).assert_says("made up by the kernel").assert_says("small");
    let judge = scene.judge(&run);
    judge.has("good").lacks("memory").lacks("small").verifies().no_leftovers();
    assert!(names_below(&scene.dst, "d").len() <= 2, "it went into /proc");
}

#[test]
fn a_dangling_link_that_is_to_be_followed_is_an_error() {
    let scene = Scene::new();
    scene.src.file("good", "good").symlink("dangling", "nowhere");
    let run = scene.copy(&["--follow-links"]);
    run.assert_code(1).assert_says("dangling");
    scene.judge(&run).has("good").verifies().no_leftovers();
}

#[test]
fn specials_are_skipped_and_named() {
    let scene = Scene::new();
    scene.src.file("file", "x").fifo("dir/a-fifo").socket("a-socket");
    let device = have(&[Need::Device]);
    if device {
        scene.src.device("a-device");
    }
    let run = scene.copy(&[]);
    run.assert_code(0).assert_says("dir/a-fifo").assert_says("a-socket");
    if device {
        run.assert_says("a-device");
    }
    let judge = scene.judge(&run);
    judge.lists(&["file"]).verifies().no_leftovers();
    judge.lacks("dir/a-fifo").lacks("a-socket").lacks("a-device");
}

/// As `cp -a` has them, and none is opened: a FIFO without a writer would be waited for.
#[test]
fn specials_are_copied_when_asked() {
    let scene = Scene::new();
    scene.src.file("file", "x").fifo("dir/a-fifo").socket("a-socket");
    if have(&[Need::Device]) {
        scene.src.device("a-device");
    }
    shell(&scene, "chmod 640 src/dir/a-fifo; touch -d '2020-02-02 02:02:02' src/dir/a-fifo");
    let run = scene.copy(&[]);
    run.assert_code(0).assert_says("--specials copies it");
    let run = scene.copy(&["--specials", "--dry-run"]);
    run.assert_code(0).assert_prints(&["make dir/a-fifo"]);
    let run = scene.copy(&["--specials"]);
    run.assert_code(0).assert_prints(&["done: 1 file and ", "special file"]);
    shell(&scene, "cp -a src other");
    let list = |dir: &str| {
        let line = format!(
            "cd {dir} && find . ! -type d ! -name 'dircopy-*' ! -path '*/.dircopy/*' \\
                            -exec stat -c '%n %F %a %u %g %Y %t %T' {{}} + | sort"
        );
        shell(&scene, &line)
    };
    assert_eq!(list("dst"), list("other"));
    // They are there, and are known again; what is another is one of the policy.
    let run = scene.copy(&["--specials"]);
    run.assert_code(0).assert_prints(&["unchanged   1 file and "]);
    shell(&scene, "rm dst/dir/a-fifo; echo x >dst/dir/a-fifo");
    scene.copy(&["--specials"]).assert_code(1).assert_says("left as it is: dir/a-fifo");
    scene.copy(&["--specials", "--overwrite-policy", "always"]).assert_code(0);
    assert_eq!(list("dst"), list("other"));
}

#[test]
fn hard_links_become_files_of_their_own() {
    let scene = Scene::new();
    scene.src.file("a", content(10_000)).hard_link("dir/b", "a");
    let run = scene.copy(&[]);
    let judge = scene.judge(&run);
    judge.complete();
    assert_ne!(judge.dst.inode("a"), judge.dst.inode("dir/b"));
}

#[test]
fn hard_links_stay_links_when_asked() {
    for len in [0, 10_000, 3 << 20] {
        let scene = Scene::new();
        scene.src.file("a", content(len)).hard_link("dir/b", "a").hard_link("c", "a");
        scene.src.file("other", content(len));
        let run = scene.copy(&["--hard-links"]);
        let judge = scene.judge(&run);
        judge.complete();
        assert_eq!(judge.dst.inode("a"), judge.dst.inode("dir/b"));
        assert_eq!(judge.dst.inode("a"), judge.dst.inode("c"));
        assert_ne!(judge.dst.inode("a"), judge.dst.inode("other"));
        // Newer than all that it lists: its lines are believed.
        shell(&scene, "sleep 0.05; touch dst/*.sha256sum");
        let run = scene.copy(&["--hard-links"]);
        scene.judge(&run).complete();
    }
}

#[test]
fn a_followed_link_is_a_further_name_that_nobody_counted() {
    let scene = Scene::new();
    scene.src.file("a", "a").hard_link("d/b", "a").symlink("l", "a").symlink("m", "d/b");
    let run = scene.copy(&["--follow-links", "--hard-links"]);
    run.assert_code(0);
    let inodes = shell(&scene, "cd dst && stat -c %i a d/b l m | uniq | wc -l");
    assert_eq!(inodes.trim(), "1");
}

/// A link can have several names, as a file can.
#[test]
fn names_of_one_symbolic_link_stay_names_of_one() {
    let scene = Scene::new();
    scene.src.symlink("a", "nowhere").dir("dir").hard_link("dir/b", "a").hard_link("c", "a");
    scene.src.symlink("other", "nowhere");
    let names = ["a", "dir/b", "c"];
    let inodes = |tree: &Tree| names.map(|name| tree.stat(name).st_ino);
    let run = scene.copy(&[]);
    scene.judge(&run).same_tree();
    let each = inodes(&scene.output());
    assert!(each[0] != each[1] && each[1] != each[2], "{each:?}");
    // Links of their own become names of one, unless nothing is to be replaced.
    let run = scene.copy(&["--hard-links", "--overwrite-policy", "never"]);
    run.assert_code(1).assert_says("it is a file of its own, and nothing is to be replaced");
    for _ in 0..2 {
        let run = scene.copy(&["--hard-links"]);
        run.assert_code(0);
        scene.judge(&run).same_tree().no_leftovers();
        let one = inodes(&scene.output());
        assert!(one[0] == one[1] && one[1] == one[2], "{one:?}");
        assert_ne!(one[0], scene.output().stat("other").st_ino);
    }
    std::fs::remove_dir_all(&scene.dst).unwrap();
    let run = scene.copy(&["--hard-links"]);
    run.assert_prints(&["linked", "2 further names"]).assert_prints(&["links", "2 symbolic links"]);
    let one = inodes(&scene.output());
    assert!(one[0] == one[1] && one[1] == one[2], "{one:?}");
}

/// With hashing off there may be nothing to list, but what is there is right.
#[test]
fn without_a_hash_the_bytes_are_still_the_same() {
    let scene = Scene::new();
    for len in lengths() {
        scene.src.file(format!("{len}.bin"), content(len));
    }
    let run = scene.copy(&["--hash", "none"]);
    run.assert_code(0);
    let judge = scene.judge(&run);
    judge.same_tree().no_leftovers();
    if judge.newest().is_some() {
        judge.verifies();
    }
    let run = scene.copy(&["--hash", "sha256"]);
    scene.judge(&run).complete();
}

#[test]
fn a_dry_run_says_what_would_happen_and_does_nothing() {
    let scene = Scene::new();
    scene.src.file("new", "new").file("dir/nested", "n").dir("empty");
    let run = scene.copy(&["--dry-run"]);
    run.assert_code(0).assert_prints(&["copy", "new"]).assert_prints(&["copy", "dir/nested"]);
    assert!(!scene.dst.exists(), "a dry run made the output");

    let scene = Scene::new();
    let output = scene.output();
    for (name, now, before) in [("same", 50, 50), ("cut", 50, 40), ("differs", 50, 60)] {
        scene.src.file(name, content(now)).mtime(name, 1_000_000, 7);
        output.file(name, content(before)).mtime(name, 1_000_000, 7);
    }
    output.mtime("cut", 900_000, 0);
    let before = ctimes(scene.root());
    let run = scene.copy(&["--dry-run"]);
    run.assert_prints(&["unchanged", "1 file"]).assert_prints(&["replace", "cut"]);
    run.assert_prints(&["leave", "differs"]).assert_no_crash();
    scene.judge(&run).equal("entries", &ctimes(scene.root()), &before);
}

/// What a special file may be used for, by whom, is as at the source, also when that changes.
#[test]
fn labels_of_specials_go_over_and_follow() {
    need!(Root, Attr);
    let scene = Scene::on_disk();
    shell(
        &scene,
        "mkdir -p src; mknod src/open c 1 3; mknod src/list c 1 3; chmod 666 src/open; chown 0:6 src/list
         chmod 600 src/list; setfacl -m u:1001:rw,g::---,m::rw src/list",
    );
    let copy = |args: &[&str]| scene.copy(&[&["--specials"], args].concat());
    let label = |dir: &str| shell(&scene, &format!("cd {dir}; getfacl -n open list"));
    copy(&[]).assert_code(0);
    assert_eq!(label("dst"), label("src"));
    shell(&scene, "chmod 600 src/open; chown 1002 src/open");
    let run = copy(&[]);
    run.assert_code(1).assert_says("left as it is: open: its owner or permissions are others");
    copy(&["--overwrite-policy", "update"]).assert_code(0);
    assert_eq!(label("dst"), label("src"));
    copy(&[]).assert_code(0);
}
