//! From plan to finish, by number, by claim and by the engine's variable.

use std::time::Duration;

use rustix::process::Signal;

use super::Cluster;
use crate::harness::{Mount, Running, Scene, Strace, content, need, shell};

#[test]
fn shards_together_are_the_whole() {
    let cluster = Cluster::new(6);
    let shards = cluster.plan();
    assert!(shards > 4, "{shards}");
    let early = cluster.finish();
    early.assert_code(1).assert_says("shard 0 is not done: it was not run");
    for shard in (0..shards).rev() {
        cluster.shard(shard).assert_code(0).assert_prints(&["is", "done"]);
    }
    cluster.shard(1).assert_code(0).assert_prints(&["was", "done", "before"]);
    let status =
        cluster.scene.bare(["plan", "--status", cluster.plan_dir().to_str().unwrap()]).run();
    status.assert_code(1).assert_prints(&[&format!("{shards} of {shards} shards done")]);
    cluster.finish().assert_code(0).assert_prints(&["finished"]);
    cluster.is_as_a_single_run();
    // Again it only says so.
    cluster.finish().assert_code(0).assert_prints(&["finished before"]);
    let status =
        cluster.scene.bare(["plan", "--status", cluster.plan_dir().to_str().unwrap()]).run();
    status.assert_code(0);
    cluster.shard(0).assert_code(0);
    cluster.is_as_a_single_run();
}

#[test]
fn claims_share_the_work() {
    let cluster = Cluster::new(6);
    cluster.plan();
    let claims: Vec<_> = (0..3).map(|_| cluster.command("shard", &["--claim"]).spawn()).collect();
    for claim in claims {
        claim.wait().assert_code(0);
    }
    cluster.finish().assert_code(0);
    cluster.is_as_a_single_run();
}

/// A worker has several shards before it, and the end of the plan waits for all of them.
#[test]
fn the_end_waits_for_workers() {
    let cluster = Cluster::new(6);
    assert!(cluster.plan() > 2);
    let mut worker = cluster.command("shard", &["--claim", "--limit-rate", "400K"]).spawn();
    let at_work =
        || std::fs::read_dir(cluster.plan_dir().join("claimed")).is_ok_and(|it| it.count() > 0);
    worker.until("a shard is at work", at_work);
    cluster.command("finish", &["--wait"]).run().assert_code(0).assert_says("shards are at work");
    worker.wait().assert_code(0);
    cluster.is_as_a_single_run();
}

/// What one attempt published first is no error of another, which finds the same content there.
#[test]
fn attempts_at_one_shard_at_once_name_no_errors() {
    let cluster = Cluster::new(40);
    cluster.plan_with(&["--hard-links"]).assert_code(0);
    let shard = || cluster.command("shard", &["--index", "0", "-j", "2"]).spawn();
    let attempts: Vec<_> = (0..4).map(|_| shard()).collect();
    for attempt in attempts {
        let run = attempt.wait();
        assert!(!run.err().contains("meanwhile"), "{}", run.err());
        run.assert_code(0);
    }
    cluster.finish().assert_code(0);
    cluster.is_as_a_single_run();
}

#[test]
fn the_engine_says_which_shard() {
    let cluster = Cluster::new(3);
    let shards = cluster.plan();
    let variables = [
        ("SLURM_ARRAY_TASK_ID", 0),
        ("JOB_COMPLETION_INDEX", 0),
        ("PBS_ARRAY_INDEX", 0),
        ("SGE_TASK_ID", 1),
    ];
    for (shard, (variable, first)) in (0..shards).zip(variables.iter().cycle()) {
        let run = cluster
            .command("shard", &[])
            .after(&format!("export {variable}={}", shard + first))
            .run();
        run.assert_code(0).assert_prints(&[&format!("shard {shard} is done")]);
    }
    let none = cluster.command("shard", &[]).after("export SGE_TASK_ID=undefined").run();
    none.assert_code(2).assert_says("--index");
    cluster.command("shard", &[]).after("export SGE_TASK_ID=0").run().assert_code(2);
    cluster.shard(shards).assert_code(2).assert_says("no shard");
    cluster.finish().assert_code(0);
    cluster.is_as_a_single_run();
}

#[test]
fn the_same_shard_may_run_twice_at_once() {
    for _ in 0..5 {
        let cluster = Cluster::new(4);
        let shards = cluster.plan();
        for shard in 0..shards {
            let number = shard.to_string();
            let both = [0, 1].map(|_| cluster.command("shard", &["--index", &number]).spawn());
            for run in both {
                run.wait().assert_code(0);
            }
        }
        cluster.finish().assert_code(0);
        cluster.is_as_a_single_run();
    }
}

/// The plan with a file that takes seconds, the number of its shards, and which has that file.
fn with_a_slow_shard() -> (Cluster, u32, String) {
    let cluster = Cluster::new(2);
    cluster.scene.src.file("huge", content(6_000_000));
    let shards = cluster.plan();
    let number = (0..shards)
        .find(|shard| {
            let list = cluster.plan_dir().join(format!("shards/{shard:04}.list"));
            std::fs::read(list).unwrap().windows(5).any(|it| it == b"\nhuge")
        })
        .unwrap()
        .to_string();
    (cluster, shards, number)
}

/// That shard, at work on the file.
fn at_work(cluster: &Cluster, number: &str) -> Running {
    let mut slow = cluster.command("shard", &["--index", number, "--limit-rate", "1M"]).spawn();
    slow.until("a part file", || {
        std::fs::read_dir(cluster.out()).unwrap().any(|it| {
            it.unwrap().file_name().to_str().is_some_and(|it| it.ends_with(".dircopy-part"))
        })
    });
    slow
}

/// No file of a shard failed that was asked to stop, and it is taken again.
#[test]
fn a_shard_that_was_asked_to_stop_was_cut_short() {
    let (cluster, shards, number) = with_a_slow_shard();
    let slow = at_work(&cluster, &number);
    slow.signal(Signal::INT);
    slow.wait().assert_code(130);
    let status =
        || cluster.scene.bare(["plan".into(), "--status".into(), cluster.plan_dir()]).run();
    status().assert_prints(&[&format!("cut short: {number}")]);
    assert!(!status().out().contains("failed"), "{}", status().out());
    status().assert_prints(&["next: dircopy shard --plan ", "--claim"]);
    let finish = cluster.finish();
    finish
        .assert_code(1)
        .assert_says(&format!("shard {number} is not done: its last attempt was cut"));
    cluster.claim().assert_code(0);
    status().assert_code(1).assert_prints(&[&format!("{shards} of {shards} shards done")]);
    status().assert_prints(&["next: dircopy finish --plan "]);
    cluster.finish().assert_code(0);
    cluster.is_as_a_single_run();
}

#[test]
fn only_shards_share_an_output() {
    let (cluster, shards, number) = with_a_slow_shard();
    let slow = at_work(&cluster, &number);
    // However long the others take, this one is still at it.
    slow.signal(Signal::STOP);
    let plain = [cluster.scene.src.root().to_path_buf(), cluster.out()];
    cluster.scene.bare(plain).run().assert_code(2).assert_says("at work on it");
    cluster.plan_with(&[]).assert_code(2);
    for other in (0..shards).filter(|other| other.to_string() != number) {
        cluster.shard(other).assert_code(0);
    }
    let finish = cluster.command("finish", &["--dead-after", "1h"]).run();
    finish.assert_code(1).assert_says("it is being run");
    let status =
        cluster.scene.bare(["plan", "--status", cluster.plan_dir().to_str().unwrap()]).run();
    status.assert_prints(&["1", "running"]);
    slow.signal(Signal::CONT);
    slow.wait().assert_code(0);
    cluster.finish().assert_code(0);
    cluster.is_as_a_single_run();
}

/// A planner that was killed makes no more shards: workers waited for them for ever.
#[test]
fn a_plan_that_nobody_completes_is_given_up() {
    need!(Strace);
    let cluster = Cluster::new(6);
    let (src, out) = (cluster.scene.src.root(), cluster.out());
    let words = ["plan", "-q", "--shard-files", "9", "--plan"].map(std::path::PathBuf::from);
    let words = words.into_iter().chain([cluster.plan_dir(), src.into(), out]);
    let strace = Strace::inject(&cluster.scene, "fsync,fdatasync", "signal=SIGKILL:when=8");
    strace.run(cluster.scene.bare(words));
    assert!(strace.log().contains("killed by SIGKILL"));
    let plan = cluster.plan_dir();
    assert!(plan.join("plan.json").exists() && !plan.join("SEALED").exists());
    // It may be at work.
    cluster.status().assert_code(1).assert_prints(&["next: dircopy shard"]);
    shell(&cluster.scene, "touch -d '10 minutes ago' plan/beat");
    let remedy = "was cut short: remove it, and make a new plan";
    cluster.status().assert_code(1).assert_says(remedy);
    cluster.finish().assert_code(2).assert_says(remedy);
    for shard in 0..99 {
        if !plan.join(format!("shards/{shard:04}.list")).exists() {
            cluster.shard(shard).assert_code(2).assert_says(remedy);
            break;
        }
    }
    cluster.command("shard", &["--claim"]).run().assert_code(2).assert_says(remedy);
}

/// What the walk made may take minutes to become durable: the planner lives meanwhile.
#[test]
fn a_planner_gives_signs_of_life_to_the_seal() {
    need!(Strace);
    let cluster = Cluster::new(2);
    let (src, out) = (cluster.scene.src.root(), cluster.out());
    let words = ["plan", "-q", "--plan"].map(std::path::PathBuf::from);
    let words = words.into_iter().chain([cluster.plan_dir(), src.into(), out]);
    let sign = || cluster.plan_dir().join("beat").metadata().and_then(|it| it.modified()).ok();
    // The first call asks whether such a sync can be relied on.
    let strace = Strace::inject(&cluster.scene, "syncfs", "delay_enter=20000000:when=2");
    let mut planner = strace.spawn(cluster.scene.bare(words));
    planner.until("the end of the walk", || strace.log().matches("syncfs").count() == 2);
    let first = sign();
    assert!(first.is_some());
    planner.until("a further sign", || sign() > first);
    planner.signal(Signal::KILL);
}

#[test]
fn shards_begin_while_the_plan_is_made() {
    let cluster = Cluster::new(2);
    // Before there is anything a shard waits for, there is no plan.
    cluster.shard(0).assert_code(2);
    let planned = cluster.plan();
    assert!(planned > 0);
    // A plan without its seal is one that is being made: claims wait, and so does the end.
    let seal = cluster.plan_dir().join("SEALED");
    let kept = std::fs::read(&seal).unwrap();
    std::fs::remove_file(&seal).unwrap();
    cluster.finish().assert_code(2).assert_says("not complete");
    let mut claim = cluster.command("shard", &["--claim"]).spawn();
    let done = cluster.plan_dir().join("done");
    claim
        .until("all shards done", || std::fs::read_dir(&done).unwrap().count() == planned as usize);
    std::thread::sleep(Duration::from_millis(200));
    assert!(!claim.is_over());
    std::fs::write(&seal, kept).unwrap();
    claim.wait().assert_code(0).assert_says("waiting: the plan is not complete");
    cluster.finish().assert_code(0);
    cluster.is_as_a_single_run();
}

#[test]
fn an_output_that_is_there_keeps_what_is_unchanged() {
    let cluster = Cluster::new(3);
    let plain = [cluster.scene.src.root().to_path_buf(), cluster.out(), "--hard-links".into()];
    cluster.scene.bare(plain).run().assert_code(0);
    cluster.scene.src.file("d1/new", "new").mtime("d1", 1_000_000_001, 5);
    let before = shell(&cluster.scene, "stat -c %i out/d0/large");
    let shards = cluster.plan();
    for shard in 0..shards {
        cluster.shard(shard).assert_code(0);
    }
    cluster.finish().assert_code(0);
    assert_eq!(shell(&cluster.scene, "stat -c %i out/d0/large"), before);
    // The time of a root that was there is left alone, as by every run.
    shell(&cluster.scene, "touch -r src out");
    cluster.is_as_a_single_run();
}

#[test]
fn an_empty_source_and_one_of_links_alone_have_a_plan() {
    let scene = crate::harness::Scene::new();
    scene.src.symlink("link", "nowhere");
    let cluster = Cluster { scene };
    assert_eq!(cluster.plan(), 1);
    cluster.claim().assert_code(0);
    cluster.finish().assert_code(0);
    cluster.is_as_a_single_run();
}

/// … nor one that says the same of the content, and of which the label may be older.
#[test]
fn an_attempt_that_replaced_files_too_late_is_followed_by_another() {
    need!(Strace);
    let cluster = with_an_edit();
    let src = &cluster.scene.src;
    let strace = Strace::inject(&cluster.scene, "renameat", "delay_enter=6000000:when=1")
        .on(cluster.out().join("f"));
    let mut held_up = strace.spawn(cluster.command("shard", &["--index", "0"]));
    held_up.until("a file that waits for its name", || waits_for_its_name(&cluster));
    src.mode("f", 0o600);
    cluster.shard(0).assert_code(0);
    let run = held_up.wait();
    strace.fired(&run);
    run.assert_code(1).assert_says("run again");
    let mode = || shell(&cluster.scene, "stat -c %a out/f");
    assert_eq!(mode(), "644\n");
    cluster.finish().assert_code(1);
    cluster.shard(0).assert_code(0);
    cluster.finish().assert_code(0);
    assert_eq!(mode(), "600\n");
}

/// … and if it is killed before it can say so, its last sign of life is later than the record.
#[test]
fn an_attempt_that_outlived_a_record_and_died_puts_it_in_doubt() {
    need!(Strace);
    let cluster = with_an_edit();
    let file = |text: &str| cluster.scene.src.file("f", text);
    let copy = || std::fs::read(cluster.out().join("f")).unwrap();
    let fault = "delay_enter=3000000:delay_exit=5000000:when=1";
    let strace = Strace::inject(&cluster.scene, "renameat", fault).on(cluster.out().join("f"));
    let attempt = cluster.command("shard", &["--index", "0", "--dead-after", "1s"]);
    let mut held_up = strace.spawn(attempt);
    held_up.until("a file that waits for its name", || waits_for_its_name(&cluster));
    file("version 222");
    cluster.shard(0).assert_code(0);
    assert_eq!(copy(), b"version 222");
    held_up.until("the older version", || copy() == b"version 11");
    // It gives a sign of life every quarter of a second.
    std::thread::sleep(Duration::from_millis(600));
    let plan = cluster.plan_dir();
    shell(
        &cluster.scene,
        &format!("pkill -9 -f '^[^ ]*[d]ircopy shard --plan {}'", plan.display()),
    );
    held_up.wait();
    std::thread::sleep(Duration::from_millis(1200));
    let run = cluster.finish();
    run.assert_code(1).assert_says("another attempt died at it after it was recorded");
    cluster.shard(0).assert_code(0);
    cluster.finish().assert_code(0);
    assert_eq!(copy(), b"version 222");
}

/// What a plan was asked to prove, every shard of it is.
#[test]
fn a_plan_carries_how_far_it_is_proven() {
    let cluster = Cluster::new(3);
    let all = ["--verify=new", "--verify-source", "--hard-links"];
    cluster.plan_with(&all).assert_code(0);
    let plan = shell(&cluster.scene, "cat plan/plan.json");
    for wanted in ["\"verify_which\": \"New\"", "\"verify_source\": true"] {
        assert!(plan.contains(wanted), "{plan}");
    }
    cluster.command("shard", &["--claim"]).run().assert_code(0);
    cluster.finish().assert_code(0);
    cluster.is_as_a_single_run();
    let cluster = Cluster::new(3);
    let refused = cluster.plan_with(&["--verify-source", "--no-sync"]);
    refused.assert_code(2).assert_says("leave out --no-sync");
}

#[test]
fn a_plan_refuses_a_disk_that_keeps_nothing() {
    need!(Mount);
    let cluster = Cluster::new(1);
    let _memory = Mount::tmpfs(&cluster.out(), "8m");
    let refused = cluster.plan_with(&["--require-durable"]);
    refused.assert_code(2).assert_says("in memory (--require-durable)");
}

/// When the file was edited that [`with_an_edit`] has.
const EDITED: u64 = 1_100_000_000;

/// A plan that updates a file which is at the output and was edited since.
fn with_an_edit() -> Cluster {
    let cluster = Cluster { scene: Scene::new() };
    let src = &cluster.scene.src;
    src.file("f", "version 0").mtime("f", 1_000_000_000, 0);
    cluster.scene.bare([src.root(), &cluster.out()]).run().assert_code(0);
    src.file("f", "version 11").mtime("f", EDITED, 0).mode("f", 0o644);
    cluster.plan_with(&["--overwrite-policy", "update"]).assert_code(0);
    cluster
}

/// True if the edited file has everything but its name.
fn waits_for_its_name(cluster: &Cluster) -> bool {
    std::fs::read_dir(cluster.out()).unwrap().any(|entry| {
        let entry = entry.unwrap();
        let is_part = entry.file_name().to_str().unwrap().ends_with(".dircopy-part");
        let time = |it: std::fs::Metadata| std::os::unix::fs::MetadataExt::mtime(&it);
        is_part && entry.metadata().is_ok_and(|it| time(it) == EDITED as i64)
    })
}

/// A worker that was held up just before it gives a file its name puts its older version over the newer one that
/// another attempt recorded. The record does not hold then, and the shard is run again.
#[test]
fn an_attempt_that_was_held_up_makes_no_record_untrue() {
    need!(Strace);
    let cluster = with_an_edit();
    let file = |text: &str| cluster.scene.src.file("f", text);
    let strace = Strace::inject(&cluster.scene, "renameat", "delay_enter=6000000:when=1")
        .on(cluster.out().join("f"));
    let mut held_up =
        strace.spawn(cluster.command("shard", &["--index", "0", "--dead-after", "1s"]));
    held_up.until("a file that waits for its name", || waits_for_its_name(&cluster));
    file("version 222");
    cluster.shard(0).assert_code(0);
    // It may still come over what is recorded.
    cluster.finish().assert_code(1).assert_says("shard 0 is not done: it is being run");
    let run = held_up.wait();
    strace.fired(&run);
    run.assert_code(1).assert_says("the shard is to be run again");
    assert_eq!(std::fs::read(cluster.out().join("f")).unwrap(), b"version 11");
    cluster.finish().assert_code(1).assert_says("shard 0 is not done");
    cluster.shard(0).assert_code(0);
    cluster.finish().assert_code(0);
    assert_eq!(std::fs::read(cluster.out().join("f")).unwrap(), b"version 222");
    let list = cluster.manifest(&cluster.out());
    shell(&cluster.scene, &format!("cd out && sha256sum -c --strict {}", list.display()));
}
