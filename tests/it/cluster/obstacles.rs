//! What stands in the way of the end of a plan, at the output or in the plan's directory: it is named, never waited for,
//! and once it is mended the end goes on.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use super::Cluster;
use crate::harness::{Act, Deed, Mirror, Mount, Scene, Strace, names_below, need, shell};

#[test]
fn names_of_a_file_in_one_directory_are_kept() {
    let scene = Scene::new();
    scene.src.file("one/a", "x").hard_link("one/b", "one/a").hard_link("one/0", "one/a");
    scene.src.file("one/other", "y").symlink("one/l", "a").hard_link("one/m", "one/l");
    scene.src.hard_link("two/a", "one/other").hard_link("two/b", "one/other");
    let cluster = Cluster { scene };
    cluster.plan();
    cluster.claim().assert_code(0);
    cluster.finish().assert_code(0);
    cluster.is_as_a_single_run();
}

#[test]
fn what_stood_in_the_way_of_the_end_is_made_once_it_is_gone() {
    let cluster = Cluster::new(2);
    cluster.plan();
    cluster.claim().assert_code(0);
    let ways = ["d0/link", "d1/again"].map(|name| cluster.out().join(name));
    ways.iter().for_each(|way| fs::create_dir(way).unwrap());
    for _ in 0..2 {
        cluster.finish().assert_code(1).assert_says("d0/link").assert_says("run it again");
        cluster.status().assert_code(1).assert_prints(&["finished, but 2 entries"]);
    }
    fs::remove_dir(&ways[0]).unwrap();
    cluster.finish().assert_code(1).assert_says("1 entry is not at the output");
    cluster.status().assert_code(1).assert_prints(&["finished, but 1 entry is not"]);
    fs::remove_dir(&ways[1]).unwrap();
    cluster.finish().assert_code(0).assert_prints(&["finished: "]);
    cluster.status().assert_code(0);
    cluster.finish().assert_code(0).assert_prints(&["finished before"]);
    cluster.is_as_a_single_run();
}

#[test]
fn no_fifo_in_the_directory_of_a_plan_is_waited_for() {
    let cluster = Cluster::new(1);
    cluster.plan();
    cluster.claim().assert_code(0);
    shell(&cluster.scene, "mkfifo fifo; cp -a plan whole");
    for way in ["mkfifo plan/NAME", "ln -s $PWD/fifo plan/NAME", "mkdir plan/NAME"] {
        for name in ["SEALED", "plan.json"] {
            shell(&cluster.scene, &format!("rm plan/{name}; {}", way.replace("NAME", name)));
            let said = "only a regular file is used";
            for run in [cluster.status(), cluster.finish()] {
                run.assert_code(2).assert_says(said);
            }
            shell(&cluster.scene, "rm -r plan; cp -a whole plan");
        }
        for name in ["done/0000.sha256sum", "shards/0000.list"] {
            shell(&cluster.scene, &format!("rm plan/{name}; {}", way.replace("NAME", name)));
            cluster.status().assert_code(1);
            cluster.finish().assert_code(1).assert_says("only a regular file is used");
            let code = if name.starts_with("done") { 0 } else { 2 };
            if code == 2 {
                fs::remove_file(cluster.plan_dir().join("done/0000.sha256sum")).unwrap();
            }
            cluster.shard(0).assert_code(code).assert_says("only a regular file is used");
            shell(&cluster.scene, "rm -r plan; cp -a whole plan");
        }
    }
    cluster.finish().assert_code(0);
    cluster.is_as_a_single_run();
}

/// However few files a shard has: where none of them finds room, the output is full, as it is for a plain run.
#[test]
fn a_full_output_ends_a_shard_as_it_ends_a_plain_run() {
    need!(Fuse);
    let cluster = Cluster::new(2);
    let truth = cluster.scene.tree("truth");
    fs::create_dir(cluster.out()).unwrap();
    let is_full = Arc::new(AtomicBool::new(true));
    let has_no_room = Arc::clone(&is_full);
    let mirror = Mirror::mount(truth.root(), &cluster.out(), move |call| {
        let is_written = call.deed == Deed::Write && has_no_room.load(Relaxed);
        if is_written { Act::Fail(rustix::io::Errno::NOSPC.raw_os_error()) } else { Act::Pass }
    });
    let shards = cluster.plan();
    assert!(shards > 2);
    let said = "it has no room for any of the files that are left of the shard";
    cluster.shard(0).assert_code(3).assert_says(said);
    assert!(mirror.fired() > 0);
    let claim = cluster.claim();
    claim.assert_code(3).assert_says(said);
    assert_eq!(claim.err().matches("was cut short").count(), 1, "the others wait: {}", claim.err());
    is_full.store(false, Relaxed);
    cluster.claim().assert_code(0);
    cluster.finish().assert_code(0);
}

/// A manifest that cannot be written gets no name, and nothing of it stays. Once there is room the end goes on.
#[test]
fn a_manifest_that_there_is_no_room_for_is_none() {
    need!(Fuse);
    for deed in [Deed::Write, Deed::Sync] {
        let cluster = Cluster::new(1);
        let truth = cluster.scene.tree("truth");
        fs::create_dir(cluster.out()).unwrap();
        let is_full = Arc::new(AtomicBool::new(true));
        let has_no_room = Arc::clone(&is_full);
        let mirror = Mirror::mount(truth.root(), &cluster.out(), move |call| {
            let is_manifest = call.path.to_string_lossy().contains(".sha256sum");
            let fails = call.deed == deed && is_manifest && has_no_room.load(Relaxed);
            if fails { Act::Fail(rustix::io::Errno::NOSPC.raw_os_error()) } else { Act::Pass }
        });
        cluster.plan_with(&["--verify"]).assert_code(0);
        cluster.claim().assert_code(0);
        let finish = cluster.finish();
        assert!(mirror.fired() > 0, "{deed:?}");
        finish.assert_code(3).assert_says("the manifest").assert_says("; it is removed");
        let ours = || {
            let names = names_below(truth.root(), "f").into_iter();
            names.filter(|name| name.starts_with(b"dircopy-2")).collect::<Vec<_>>()
        };
        assert_eq!(ours(), Vec::<Vec<u8>>::new(), "{deed:?}");
        is_full.store(false, Relaxed);
        cluster.finish().assert_code(0);
        assert_eq!(ours().len(), 1, "{deed:?}");
    }
}

/// With `--verify` the manifest of the whole is read back as every copy is: one that the output does not hold as it was
/// written gets no name.
#[test]
fn a_manifest_that_is_not_as_it_was_written_is_none() {
    need!(Fuse);
    for lie in [Act::Pretend, Act::Flip] {
        let cluster = Cluster::new(1);
        let truth = cluster.scene.tree("truth");
        fs::create_dir(cluster.out()).unwrap();
        let is_manifest = |path: &Path| path.to_string_lossy().contains(".sha256sum");
        let lies = Arc::new(AtomicBool::new(true));
        let is_lying = Arc::clone(&lies);
        let mirror = Mirror::mount(truth.root(), &cluster.out(), move |call| match call.deed {
            Deed::Write if is_manifest(call.path) && is_lying.load(Relaxed) => lie,
            _ => Act::Pass,
        });
        cluster.plan_with(&["--verify"]).assert_code(0);
        cluster.claim().assert_code(0);
        let finish = cluster.finish();
        assert!(mirror.fired() > 0, "{lie:?}");
        finish.assert_code(3).assert_says("prove the manifest").assert_says("not what was written");
        let manifests = || {
            let names = names_below(truth.root(), "f").into_iter();
            names.filter(|name| name.starts_with(b"dircopy-2")).count()
        };
        assert_eq!(manifests(), 0, "{lie:?}");
        lies.store(false, Relaxed);
        cluster.finish().assert_code(0);
        assert_eq!(manifests(), 1, "{lie:?}");
    }
}

/// They could open it again, and change what root copies where.
#[test]
fn a_directory_of_another_user_becomes_no_plan() {
    need!(Root);
    let cluster = Cluster::new(1);
    shell(&cluster.scene, "mkdir plan; chown nobody plan; chmod 755 plan");
    let run = cluster.plan_with(&[]);
    run.assert_code(2).assert_says("it belongs to another user");
    assert_eq!(shell(&cluster.scene, "stat -c '%U %a' plan; ls -A plan").trim(), "nobody 755");
    shell(&cluster.scene, "chown root plan");
    cluster.plan();
    assert_eq!(shell(&cluster.scene, "stat -c '%U %a' plan").trim(), "root 700");
}

#[test]
fn a_link_to_a_directory_becomes_no_plan() {
    let cluster = Cluster::new(1);
    shell(&cluster.scene, "mkdir -m 755 elsewhere; ln -s elsewhere plan");
    cluster.plan_with(&[]).assert_code(2).assert_says("it is a symbolic link");
    assert_eq!(shell(&cluster.scene, "stat -c %a elsewhere; ls -A elsewhere").trim(), "755");
}

/// Who may write above two plans can exchange them: then nothing would be copied, and all be said to be done.
#[test]
fn a_plan_in_the_place_of_another_is_refused() {
    need!(Root);
    let cluster = Cluster::new(1);
    cluster.plan();
    shell(&cluster.scene, "mkdir shared && mv plan shared/ && ln -s shared/plan plan");
    cluster.claim().assert_code(0);
    // One's own may have any name.
    shell(&cluster.scene, "rm plan && mv shared/plan shared/other && ln -s shared/other plan");
    cluster.claim().assert_code(0);
    shell(&cluster.scene, "chown nobody shared");
    for run in [cluster.claim(), cluster.finish()] {
        run.assert_code(2).assert_says("it was made as plan, and others may write above it");
    }
    shell(&cluster.scene, "rm plan && mv shared/other shared/plan && ln -s shared/plan plan");
    cluster.claim().assert_code(0);
    cluster.finish().assert_code(0);
}

/// Another user made a directory at the output beforehand, and holds it open, with the one in it: a plan, its shards and
/// its end put nothing into it that the source keeps from that user.
#[test]
fn a_directory_that_another_user_made_beforehand_gets_nothing_closed() {
    need!(Root, Setpriv);
    let theirs = ["mkdir -p d/sub; chmod 755 d d/sub; chown 1002:1002 d d/sub", "mkdir -m 777 d"];
    for (nobody, theirs) in [(false, theirs[0]), (true, theirs[0]), (true, theirs[1])] {
        let scene = Scene::new();
        scene.src.file("d/sub/key", "secret").file("d/key", "secret").file("e/open", "open");
        scene.src.symlink("d/link", "key");
        shell(&scene, "chmod 777 .; chmod 755 src src/*; chmod 700 src/d; chmod 644 src/*/key");
        shell(&scene, &format!("mkdir out; cd out; {theirs}"));
        if nobody {
            shell(&scene, "chown -R 65534:65534 src; chown 65534:65534 out");
        }
        let run = |args: &[&str]| {
            let command = scene.bare(args);
            if nobody { command.under_nobody().run() } else { command.run() }
        };
        let told = run(&["plan", "src", "out", "--plan", "plan"]);
        told.assert_code(1).assert_says("out/d: ").assert_says("run again");
        run(&["shard", "--plan", "plan", "--claim"]);
        let end = run(&["finish", "--plan", "plan"]);
        assert_ne!(end.code, Some(0), "{}", end.err());
        let found = shell(&scene, "find out/d ! -type d; cat out/*.sha256sum | grep -c d/ || true");
        assert_eq!(found, "0\n", "{}", end.err());
        assert_eq!(std::fs::read(scene.path("out/e/open")).unwrap(), b"open");
        // As the message says.
        shell(&scene, "mv out/d moved; rm -r plan");
        run(&["plan", "src", "out", "--plan", "plan"]).assert_code(0);
        run(&["shard", "--plan", "plan", "--claim"]).assert_code(0);
        run(&["finish", "--plan", "plan"]).assert_code(0);
        assert_eq!(std::fs::read(scene.path("out/d/sub/key")).unwrap(), b"secret");
        assert_eq!(shell(&scene, "stat -c %a out/d").trim(), "700");
    }
}

/// A worker that ended because it could not begin a shard has left it: nobody waits for it to be given up for dead.
#[test]
fn a_shard_that_could_not_be_begun_is_not_at_work() {
    need!(Strace);
    let mut begun = 0;
    for when in 1..12 {
        let cluster = Cluster::new(1);
        cluster.plan();
        let fault = format!("error=EIO:when={when}");
        let strace = Strace::inject(&cluster.scene, "write,pwrite64,fsync,fdatasync", &fault);
        let run = strace.run(cluster.scene.bare(["shard", "--plan", "plan", "--claim"]));
        if !run.err().contains("cannot begin the shard") {
            continue;
        }
        begun += 1;
        run.assert_code(2);
        assert_eq!(shell(&cluster.scene, "ls plan/running"), "", "{when}");
        cluster.claim().assert_code(0);
        cluster.finish().assert_code(0);
        cluster.is_as_a_single_run();
    }
    assert!(begun > 0);
}

/// Its own files were planned, and were gone when it was finished.
#[test]
fn a_plan_is_not_made_in_the_source() {
    let scene = Scene::new();
    scene.src.file("a", "a").dir("d");
    shell(&scene, "ln -s src other; ln -s src/d linked");
    let before = names_below(scene.src.root(), "f");
    for plan in ["src/plan", "src/d", "src/d/plan", "other/plan", "linked", "src/d/../plan"] {
        let run = scene.ended(&["plan", "src", "dst", "--plan", plan], 2);
        run.assert_says("it is inside the source, which a copy does not change");
        assert!(!scene.dst.exists(), "{plan}");
    }
    assert_eq!(names_below(scene.src.root(), "f"), before);
    // What is left out is not planned.
    scene.ended(&["plan", "src", "dst", "--plan", "src/plan", "--exclude", "/plan/"], 0);
    scene.ended(&["shard", "--plan", "src/plan", "--claim"], 0);
    scene.ended(&["finish", "--plan", "src/plan"], 0);
    assert!(!scene.output().has("plan"));
}

#[test]
fn a_plan_is_not_made_in_a_bound_source() {
    need!(Root, Mount);
    Mount::privately();
    let scene = Scene::new();
    scene.src.file("d/a", "a");
    let bound = scene.path("bound");
    let _mount = Mount::bind(&scene.path("src/d"), &bound);
    let run = scene.ended(&["plan", "src", "dst", "--plan", "bound/plan"], 2);
    run.assert_says("it is inside the source");
}

/// A plan that was finished is put in the place of the one that its user made under the same name since.
#[test]
fn a_finished_plan_in_the_place_of_the_next_one_is_refused() {
    need!(Root);
    let cluster = Cluster::new(1);
    cluster.plan();
    cluster.claim().assert_code(0);
    cluster.finish().assert_code(0);
    shell(&cluster.scene, "mkdir up && chown 1001 up && mv plan up/plan && ln -s up/plan plan");
    // As long as there is no other.
    cluster.finish().assert_code(0);
    shell(&cluster.scene, "rm plan && echo new >src/new");
    cluster.plan();
    shell(&cluster.scene, "mv plan up/next && ln -s up/plan plan");
    let refused = cluster.finish();
    refused.assert_code(2).assert_says("another plan of its output was made since and is not");
    shell(&cluster.scene, "mv up/plan up/plan.1 && mv up/next up/plan");
    cluster.claim().assert_code(0);
    cluster.finish().assert_code(0);
    assert!(cluster.out().join("new").exists());
}

/// What no shard has comes over by no further run: it is named each time, and so is what brings it over.
#[test]
fn what_could_not_be_planned_is_named_at_the_end() {
    let cluster = Cluster::new(1);
    fs::remove_file(cluster.scene.src.path("d0/link")).unwrap();
    let run = cluster.plan_with(&["--follow-links"]);
    run.assert_code(1).assert_says("1 entry could not be planned");
    cluster.claim().assert_code(0);
    cluster.scene.src.file("nowhere", "now");
    for _ in 0..2 {
        let run = cluster.finish();
        run.assert_code(1).assert_says("dangling: No such file");
        run.assert_says("1 entry could not be planned: once they can be, plan anew onto the same");
        assert!(!run.err().contains("run it again"), "{}", run.err());
        cluster.status().assert_code(1).assert_prints(&["1 entry could not be planned: once they"]);
    }
    fs::remove_dir_all(cluster.plan_dir()).unwrap();
    cluster.plan_with(&["--follow-links"]).assert_code(0);
    cluster.claim().assert_code(0);
    cluster.finish().assert_code(0);
    assert_eq!(fs::read(cluster.out().join("dangling")).unwrap(), b"now");
}

/// The policy is the plan's: what is said of a file that it leaves can be done within the plan.
#[test]
fn what_the_policy_left_is_brought_over_as_it_is_said() {
    let cluster = Cluster::new(1);
    let out = cluster.out().join("d0");
    cluster.plan_with(&["--hard-links"]).assert_code(0);
    fs::write(out.join("f3"), "newer, and mine").unwrap();
    let run = cluster.claim();
    run.assert_code(1)
        .assert_says("d0/f3: it differs, and the output's is newer (move it away, and");
    run.assert_says("1 left by the plan's policy: move them away at the output and run the shard");
    cluster.status().assert_code(1).assert_prints(&["shards by number that failed: 0"]);
    cluster.finish().assert_code(1).assert_says("or were left by the plan's policy");
    fs::rename(out.join("f3"), cluster.scene.path("mine")).unwrap();
    cluster.claim().assert_code(0);
    cluster.finish().assert_code(0);
    cluster.is_as_a_single_run();
}
