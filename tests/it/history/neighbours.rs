//! Generations where another user may write to their directory, or owns what is shared.

use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

use crate::harness::{Mount, Scene, Strace, content, ctimes, need, shell};

fn mode(path: &Path) -> u32 {
    path.metadata().unwrap().permissions().mode() & 0o7777
}

/// Who owns a file could write to it in every generation that has it.
#[test]
fn a_new_directory_of_generations_is_closed() {
    for (before, expected) in [("true", 0o700), ("mkdir dst; chmod 755 dst", 0o755)] {
        let scene = Scene::new();
        shell(&scene, before);
        scene.src.file("thesis", "thesis").file("other", "other");
        std::thread::sleep(std::time::Duration::from_millis(30));
        let args = ["--generations"];
        scene.command(args).after("umask 022").run().assert_code(0);
        assert_eq!(mode(&scene.dst), expected);
        let run = scene.copy(&args);
        run.assert_code(0).assert_says("hard links");
        match expected {
            0o700 => run.assert_says("it is closed to others").assert_says("you make yourself"),
            _ => run.assert_says("others may enter it").assert_says("chmod 700"),
        };
        assert_eq!(mode(&scene.dst), expected);
    }
}

/// Who may write to the directory puts a link in the place of the tree that is filled.
#[test]
fn a_tree_that_is_swapped_leads_nowhere() {
    need!(Strace);
    // The directory, what is private to it, the tree, and what is private to that.
    for when in 1..=3 {
        for is_link in [true, false] {
            let scene = Scene::new();
            scene.src.file("passwd", "evil").file("d/file", content(300_000));
            scene.tree("outside").file("passwd", "root").dir("d");
            scene.output();
            shell(&scene, "chmod 777 dst");
            let outside = ctimes(&scene.path("outside"));
            let fault = format!("signal=SIGSTOP:when={when}");
            let strace = Strace::inject(&scene, "mkdir,mkdirat", &fault);
            let run = strace.run_stopped(scene.command(["--generations"]), || {
                let put = if is_link { "ln -s ../outside $tree" } else { "mkdir $tree" };
                let line = format!("cd dst; for tree in *.part; do [ -e $tree ] && mv $tree aside && {put}; done; true");
                shell(&scene, &line);
            });
            assert_eq!(ctimes(&scene.path("outside")), outside, "{when}: {}", run.err());
            if scene.dst.join("aside").exists() {
                run.assert_code_in(&[2, 3]);
                assert!(!scene.dst.join("latest").exists(), "{when}");
            } else {
                run.assert_code(0);
            }
        }
    }
}

/// Anybody can make an empty directory with the name of a tree.
#[test]
fn a_tree_of_another_user_is_not_gone_on_with() {
    need!(Root);
    let scene = Scene::new();
    scene.src.file("file", "file");
    scene.output();
    let name = "dst/2026-01-02T030405Z.part";
    shell(&scene, &format!("chmod 777 dst; mkdir {name}; chown 1002:1002 {name}"));
    let run = scene.copy(&["--generations"]);
    run.assert_code(0).assert_says(name).assert_says("another user made it");
    let theirs = scene.path(name);
    assert_eq!(theirs.metadata().unwrap().uid(), 1002);
    assert_eq!(theirs.read_dir().unwrap().count(), 0);
    assert_eq!(scene.dst.join("latest/file").metadata().unwrap().len(), 4);
}

/// Where the group is this user's own the permissions of a tree do not show that its access list lets others write.
#[test]
fn a_tree_that_an_access_list_lets_others_fill_is_not_gone_on_with() {
    need!(Attr);
    let scene = Scene::new();
    scene.src.file("a", "a").file("b", "b");
    scene.output();
    let name = "2026-01-02T030405Z.part";
    // The private directory is that of a run of this user.
    scene.copy(&[]).assert_code(0);
    shell(
        &scene,
        &format!(
            "cd dst; rm a b dircopy-*; mkdir -m 700 all; mv .dircopy all; mkdir -m 700 {name}; mv all/.dircopy {name}
             setfacl -m u:65534:rwx {name}; echo planted >{name}/planted"
        ),
    );
    let run = scene.copy(&["--generations"]);
    run.assert_code(0).assert_says(name).assert_says("or may write to it");
    assert!(scene.dst.join(name).join("planted").exists());
    assert!(!scene.dst.join("latest/planted").exists());
    // Closed again it is still none that a run began here.
    shell(
        &scene,
        &format!("setfacl -b dst/{name}; chmod 700 dst/{name}; rm -r dst/2*Z dst/latest"),
    );
    let run = scene.copy(&["--generations"]);
    run.assert_code(0).assert_says("no run of yours began it here");
    assert!(scene.dst.join(name).join("planted").exists());
}

/// A link in the place of a generation leads a check nowhere either.
#[test]
fn states_are_written_where_the_manifest_was_read() {
    need!(Strace);
    let scene = Scene::new();
    scene.src.file("big", content(3 << 20));
    scene.tree("outside").dir("d");
    scene.copy(&["--generations", "--states", "none"]).assert_code(0);
    let night = scene.dst.join(std::fs::read_link(scene.dst.join("latest")).unwrap());
    let strace = Strace::inject(&scene, Strace::READS, "signal=SIGSTOP:when=1");
    let args = ["verify", "dst", "--write-states"];
    let run = strace.exactly_on(night.join("big")).run_stopped(scene.bare(args), || {
        let night = night.file_name().unwrap().to_str().unwrap();
        shell(&scene, &format!("cd dst; mv {night} moved; ln -s ../outside {night}"));
    });
    run.assert_no_crash();
    let found = scene.path("outside").read_dir().unwrap().count();
    assert_eq!(found, 1, "{}{}", run.out(), run.err());
    let states = shell(&scene, "ls dst/moved | grep -c states$");
    assert_eq!(states.trim(), "1");
}

/// Who may write to a directory of the last generation makes any number of files in it: they are told, and do not count as
/// what has left the source, or no later night would be let pass.
#[test]
fn what_no_run_made_in_the_last_generation_keeps_no_night_out() {
    need!(Kinds, Attr);
    for on_btrfs in [false, true] {
        for plant in [
            "touch pub/planted$n",
            "mkdir -p pub/d/e; touch pub/d/e/$n",
            "touch pub/.abcdefg0$n.dircopy-part",
            "ln -s nowhere pub/planted$n",
            "mkfifo pub/planted$n",
        ] {
            let scene = Scene::new();
            let _mount = on_btrfs.then(|| {
                std::fs::create_dir(scene.path("m")).unwrap();
                Mount::of_kind("btrfs", &scene.path("image"), &scene.path("m"))
            });
            let out = if on_btrfs { "m/dst" } else { "dst" };
            for number in 0..8 {
                scene.src.file(format!("pub/f{number}"), content(number)).dir("other");
            }
            shell(&scene, "chmod 777 src/pub; chmod 755 src");
            shell(&scene, &format!("mkdir -m 755 {out}"));
            let night = || scene.bare(["src", out, "--generations"]).run();
            night().assert_code(0);
            let latest = scene.path(out).join("latest").canonicalize().unwrap();
            // The times of changes come in steps.
            shell(
                &scene,
                &format!(
                    "cd {latest}; until [ $(stat -c %Z pub) != $(date +%s) ]; do sleep 0.1; done
                     for n in 10 11 12 13 14 15 16 17 18 19; do {plant}; done",
                    latest = latest.display()
                ),
            );
            let run = night();
            run.assert_code(0);
            if !plant.contains("part") {
                run.assert_says("10 entries that no run made: pub/").assert_says("5 more");
            }
            let now = scene.path(out).join("latest").canonicalize().unwrap();
            assert!(now != latest && latest.join("pub").read_dir().unwrap().count() > 8, "{plant}");
            let listed = shell(
                &scene,
                &format!("cd {} && find . -type f -path './pub/*' | wc -l", now.display()),
            );
            assert!(plant.contains("part") || listed.trim() == "8", "{plant}: {listed}");
            // What a run made and the source has no more counts as ever.
            shell(&scene, "rm src/pub/f*");
            let run = night();
            run.assert_code(2).assert_says("8 of the 8 files and links");
            night().assert_code(2);
        }
    }
}

/// A directory that only has the name of a generation, of a day to come, does not make that the day of all that follow.
#[test]
fn a_directory_of_a_day_to_come_moves_no_generation_there() {
    let scene = Scene::new();
    scene.src.file("file", "content");
    scene.copy(&["--generations"]).assert_code(0);
    std::fs::create_dir(scene.dst.join("2099-12-31T235959Z")).unwrap();
    // … nor does one that has the name which the next would get.
    let now = shell(&scene, "date -u +%Y-%m-%dT%H%M%SZ -d '+1 second'");
    std::fs::create_dir_all(scene.dst.join(now.trim())).unwrap();
    for _ in 0..2 {
        scene.copy(&["--generations"]).assert_code(0);
    }
    let listed = scene.bare(["generations", "dst"]).run().out();
    let complete: Vec<&str> = listed.lines().filter(|line| line.contains("complete")).collect();
    let is_now = |line: &&str| !line.starts_with("2099") && !line.starts_with("2100");
    assert!(complete.len() == 3 && complete.iter().all(is_now), "{listed}");
}

/// What was put into the tree before the copy found another directory under the name is not shown with that.
#[test]
fn a_directory_that_is_exchanged_meanwhile_opens_no_earlier_content() {
    need!(Strace);
    let mut is_in_the_tree = 0;
    for when in 1..=6 {
        let scene = Scene::new();
        scene.src.file("sh/cl/sub/g", "SECRET").file("sh/other/f", "public").file("z/z", "z");
        shell(&scene, "chmod 700 src/sh/cl");
        std::thread::sleep(std::time::Duration::from_millis(30));
        scene.copy(&["--generations"]).assert_code(0);
        let exchange = "cd src/sh; mv cl t; mv other cl; mv t other";
        let fault = format!("signal=SIGSTOP:when={when}");
        let strace = Strace::inject(&scene, "mkdir,mkdirat", &fault);
        let run = strace.run_stopped(scene.command(["--generations"]), || {
            shell(&scene, exchange);
        });
        let open =
            shell(&scene, "find dst/2*/sh/cl -maxdepth 0 -perm -005 -exec find {} -name g \\;");
        assert_eq!(open, "", "{when}: {}", run.err());
        is_in_the_tree +=
            usize::from(!shell(&scene, "find dst -path '*.part/sh/cl/sub/g'").is_empty());
    }
    assert!(is_in_the_tree > 0);
}
