//! What a record must never take the place of: files of the source, copies, and files that no run wrote.

use crate::harness::{Scene, inventory, names_below, need, shell};

const RECORDS: [&str; 3] = ["--report", "--metrics", "--log"];

#[test]
fn a_file_of_the_source_is_not_replaced() {
    let scene = Scene::new();
    scene.src.file("a", "a").file("dir/b", "b");
    let before = inventory(scene.src.root());
    for what in RECORDS {
        for name in ["src/a", "src/dir/b", "src/new", "src/dir/./new", "dst/../src/a"] {
            scene.output();
            let run = scene.copy(&[what, name]);
            run.assert_code(2).assert_says("it is inside the source");
            assert_eq!(names_below(&scene.dst, "f").len(), 0, "{what} {name}");
        }
    }
    scene.copy(&["--report", "src"]).assert_code(2).assert_says("it is inside the source");
    assert_eq!(inventory(scene.src.root()), before);
    // What is left out is no content: a home with its own log is copied like this.
    let run = scene.copy(&["--log", "src/new", "--exclude", "/new"]);
    run.assert_code(0);
    assert!(!scene.output().has("new") && scene.src.has("new"));
}

#[test]
fn a_copy_is_not_replaced_by_the_record_of_its_making() {
    let scene = Scene::new();
    scene.src.file("a", "").file("dir/b", "b");
    std::fs::create_dir_all(scene.path("dst/dir")).unwrap();
    for _ in 0..2 {
        for what in RECORDS {
            for name in ["dst/a", "dst/dir/b"] {
                let before = names_below(scene.root(), "f");
                let run = scene.copy(&[what, name]);
                run.assert_code(2).assert_says("a file of the source is copied to this name");
                assert_eq!(names_below(scene.root(), "f"), before, "{what} {name}");
            }
        }
        scene.output().file("dir/b", "b");
    }
    let run = scene.command_to("src/dir/b", &scene.dst, ["--log", "dst/b"]).run();
    run.assert_code(2).assert_says("a file of the source is copied to this name");
}

/// One that has left the source is listed all the same, and one that is missing is missing.
#[test]
fn a_listed_file_is_not_replaced() {
    let scene = Scene::new();
    scene.src.file("a", "").file("dir/b", "b").file("gone", "g");
    scene.copy(&["--report", "src.json"]).assert_code(0);
    // A receipt, which may be replaced wherever it is not listed.
    std::fs::copy(scene.path("src.json"), scene.path("src/receipt")).unwrap();
    scene.copy(&[]).assert_code(0);
    scene.src.remove("a").remove("dir/b").remove("receipt");
    scene.output().remove("gone");
    let before = inventory(&scene.dst);
    for name in ["dst/a", "dst/dir/b", "dst/gone", "dst/receipt"] {
        for what in ["--report", "--metrics", "--log", "--list-failed"] {
            for program in [&["verify", "dst"][..], &["src", "dst"]] {
                if program[0] == "src" && (what == "--list-failed" || name == "dst/gone") {
                    continue;
                }
                let run = scene.bare(program.iter().chain(&[what, name])).run();
                run.assert_code(2).assert_says("a manifest lists the file of this name");
            }
        }
    }
    assert_eq!(inventory(&scene.dst), before);
    scene
        .tree(".")
        .file("list", "0000000000000000000000000000000000000000000000000000000000000000  x\n");
    scene.tree(".").file("x", "not a copy of ours");
    let foreign = ["verify", "-m", "list", ".", "--list-failed", "x"];
    scene.bare(foreign).run().assert_code(2).assert_says("a manifest lists the file of this name");
}

/// Beside the copies a record has its place, and replaces its like; anywhere, nothing else.
#[test]
fn only_its_like_is_replaced() {
    let scene = Scene::new();
    let here = scene.tree(".");
    scene.src.file("a", "a");
    scene.output();
    for _ in 0..3 {
        scene
            .copy(&["--report", "dst/r.json", "--metrics", "dst/m.prom", "--log", "dst/l"])
            .assert_code(0);
        scene
            .bare(["verify", "dst", "--list-failed", "dst/bad", "--report", "dst/v.json"])
            .run()
            .assert_code(0);
    }
    here.file("notes", "dear diary").file("empty", "");
    for (what, is) in [("--report", "no report of dircopy"), ("--metrics", "no figures of dircopy")]
    {
        for run in
            [scene.copy(&[what, "notes"]), scene.bare(["verify", "dst", what, "notes"]).run()]
        {
            run.assert_code(2).assert_says(is).assert_says("remove it first");
        }
        scene.copy(&[what, "empty"]).assert_code(0);
        here.file("empty", "");
    }
    assert_eq!(here.read("notes"), b"dear diary");
}

/// They tell names, so they are closed to others until somebody opens them, and then stay as they are.
#[test]
fn what_tells_names_is_closed_to_others() {
    use std::os::unix::fs::PermissionsExt;
    let scene = Scene::new();
    scene.src.file("a", "a");
    std::fs::create_dir(scene.path("reports")).unwrap();
    let mode = |name: &str| scene.path(name).metadata().unwrap().permissions().mode() & 0o777;
    let open = |name: &str, mode| {
        std::fs::set_permissions(scene.path(name), PermissionsExt::from_mode(mode)).unwrap();
    };
    let args = ["--report", "r.json", "--log", "log", "--metrics", "m.prom"];
    scene.command(args).after("umask 022").run().assert_code(0);
    let check = ["verify", "dst", "--report", "reports", "--list-failed", "bad"];
    scene.bare(check).after("umask 022").run().assert_code(0);
    scene.bare(["report", "r.json", "-o", "r.html"]).after("umask 022").run().assert_code(0);
    let names = names_below(&scene.path("reports"), "f");
    let receipt = format!("reports/{}", String::from_utf8_lossy(names.first().unwrap()));
    for name in ["r.json", "log", "bad", "r.html", &receipt] {
        assert_eq!(mode(name), 0o600, "{name}");
    }
    // Figures are for another user's collector.
    assert_eq!(mode("m.prom"), 0o644);
    ["r.json", "log"].iter().for_each(|name| open(name, 0o640));
    scene.command(args).after("umask 022").run().assert_code(0);
    ["r.json", "log"].iter().for_each(|name| assert_eq!(mode(name), 0o640, "{name}"));
}

/// A log is appended to: under another name the file may be one of the source, or a copy.
#[test]
fn a_log_with_further_names_is_refused() {
    let scene = Scene::new();
    scene.src.file("a", "a");
    shell(&scene, "ln src/a log");
    scene.copy(&["--log", "log"]).assert_code(2).assert_says("it has further names (hard links)");
    assert_eq!(scene.src.read("a"), b"a");
    assert!(!scene.path("dst").exists());
}

/// Whoever owns the file, or a link on the way to it, would read what is written, or say where it goes.
#[test]
fn what_is_written_goes_to_no_file_of_another_user() {
    need!(Root);
    let scene = Scene::new();
    scene.src.file("a", "a");
    scene.copy(&[]).assert_code(0);
    let hers = "mkdir hers; chmod 755 . hers; echo hers > hers/file; ln -s .. hers/link; ln -s hers/link mine
                echo hers > closed; chmod 600 closed; chown -Rh 1002:1002 hers closed; echo open > open; chmod 666 open";
    shell(&scene, hers);
    for (path, why) in [
        ("hers/file", "it belongs to another user (1002)"),
        ("closed", "it belongs to another user (1002)"),
        ("open", "everyone may write to it"),
        ("hers/link/new", "is a symbolic link of another user"),
        ("mine/new", "is a symbolic link of another user"),
    ] {
        let before = shell(&scene, "cat hers/file closed open");
        let run = scene.copy(&["--log", path]);
        run.assert_code(2).assert_says(why);
        let run = scene.bare(["verify", "dst", "--list-failed", path]).run();
        run.assert_code(2).assert_says(why);
        assert_eq!(shell(&scene, "cat hers/file closed open"), before);
        assert!(!scene.path("new").exists(), "{path}");
    }
    // Of another file's name both would be written.
    shell(&scene, "mkdir here; echo thesis >here/thesis; ln here/thesis here/further");
    for what in ["--log", "--list-failed"] {
        let run = scene.bare(["verify", "dst", what, "here/further"]).run();
        run.assert_code(2).assert_says("it has further names (hard links)");
        assert_eq!(shell(&scene, "cat here/thesis"), "thesis\n");
    }
    // A new file in her directory is root's, and closed.
    scene.copy(&["--log", "hers/new"]).assert_code(0);
    assert_eq!(shell(&scene, "stat -c '%u %a' hers/new"), "0 600\n");
    shell(&scene, "ln -s . own; chown -h 0:0 own");
    scene.copy(&["--log", "own/new"]).assert_code(0);
    assert!(scene.path("new").exists());
}
