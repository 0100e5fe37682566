//! Directories that another user exchanges between a plan, its shards and its end, on either side: nothing is copied from
//! one that was not planned, nor into one that the plan did not have, and none gets the label of another.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

use super::Cluster;
use crate::harness::{Run, Scene, Strace, content, need, shell};

/// The other user, who owns what the directories are in.
const OTHER: &str = "1001:1001";

/// Owner and permissions.
fn label(path: &Path) -> (u32, u32) {
    let stat = path.symlink_metadata().unwrap();
    (stat.uid(), stat.mode() & 0o3777)
}

/// A directory `d` of the other user's beside a closed one with an open file in it, and an open one of a third user.
fn cluster() -> Cluster {
    let scene = Scene::new();
    scene.src.file("d/key", "mine").file("closed/key", "secret").file("open/deep/key", "open");
    scene.src.symlink("d/link", "mine").symlink("closed/link", "secret");
    shell(&scene, "chmod 755 . && chmod 777 src && chmod 700 src/closed");
    shell(&scene, &format!("chown -R {OTHER} src/d && chown -R 1002:1002 src/closed src/open"));
    Cluster { scene }
}

#[track_caller]
fn are_refused(run: &Run, why: &str) {
    run.assert_code(1).assert_says(why).assert_says("make a new plan");
}

const AT_SOURCE: &str = "at the source its directory";

#[test]
fn nothing_is_copied_from_a_directory_that_was_not_planned() {
    need!(Root);
    let exchanges = [
        ("mv d .mine && mv closed d", "d/key"),
        // What is in it is closed since.
        ("chmod 700 d && echo since >d/key", "d/key"),
        ("chown 1002 d", "d/key"),
        ("chmod 700 open", "open/deep/key"),
    ];
    for (exchange, name) in exchanges {
        let cluster = cluster();
        cluster.plan_with(&[]).assert_code(0);
        shell(&cluster.scene, &format!("cd src && {exchange}"));
        let run = cluster.shard(0);
        are_refused(&run, AT_SOURCE);
        run.assert_says(name);
        assert!(!cluster.out().join(name).exists(), "{exchange}");
        // The others are copied.
        let stays = if name == "d/key" { "open/deep/key" } else { "d/key" };
        assert!(cluster.out().join(stays).exists(), "{exchange}");
        cluster.finish().assert_code(1).assert_says("shard 0 is not done");
        let dir = name.split('/').next().unwrap();
        assert_eq!(label(&cluster.out().join(dir)), (0, 0o700), "{exchange}");
    }
}

/// The root is on the way to all: that is said once, and nothing is touched. When it is as it was, the plan goes on.
#[test]
fn a_root_with_another_label_is_told_once() {
    need!(Root);
    for (change, back) in [("chmod 700 src", "chmod 777 src"), ("chown 1002 src", "chown 0 src")] {
        let cluster = cluster();
        cluster.plan_with(&[]).assert_code(0);
        shell(&cluster.scene, change);
        let refused = |run: &Run| {
            run.assert_code(2).assert_says("it has another owner or other permissions than when");
            assert_eq!(run.err().matches("make a new plan").count(), 1, "{}", run.err());
        };
        refused(&cluster.shard(0));
        shell(&cluster.scene, back);
        cluster.shard(0).assert_code(0);
        shell(&cluster.scene, change);
        refused(&cluster.finish());
        assert_eq!(label(&cluster.out().join("d")), (0, 0o700), "{change}");
        shell(&cluster.scene, back);
        cluster.finish().assert_code(0);
        assert_eq!(label(&cluster.out().join("d")), (1001, 0o755), "{change}");
    }
}

/// What its permissions were when it was planned does not hold for what is in it now.
#[test]
fn a_directory_that_is_exchanged_or_closed_before_the_end_stays_closed() {
    need!(Root, Attr);
    let exchanges = [
        "mkdir other && setfacl -m u:1001:rwx other && mv d .mine && mv other d",
        "mv d .mine && mv closed d",
        "chmod 700 d",
    ];
    for exchange in exchanges {
        let cluster = cluster();
        cluster.plan_with(&[]).assert_code(0);
        cluster.shard(0).assert_code(0);
        shell(&cluster.scene, &format!("cd src && {exchange}"));
        let run = cluster.finish();
        are_refused(&run, AT_SOURCE);
        run.assert_says("out/d");
        assert_eq!(label(&cluster.out().join("d")), (0, 0o700), "{exchange}");
        assert!(!cluster.out().join("d/link").is_symlink(), "{exchange}");
        assert_eq!(label(&cluster.out().join("open/deep")), (1002, 0o755), "{exchange}");
    }
}

/// Who may write to the directory that it is in can move away what the plan made.
#[test]
fn nothing_is_copied_into_a_directory_that_the_plan_did_not_have() {
    need!(Root);
    let exchanges = [
        "mv closed .theirs && mkdir -m 777 closed && chown 1001:1001 closed",
        // An inode number may be given again.
        "rmdir closed && mkdir -m 777 closed && chown 1001:1001 closed",
        "chmod 777 closed && chown 1001:1001 closed",
        "mv closed .theirs && mv d closed && mkdir d",
        "rmdir closed",
    ];
    for exchange in exchanges {
        let cluster = cluster();
        cluster.plan_with(&[]).assert_code(0);
        shell(&cluster.scene, &format!("cd out && {exchange}"));
        let run = cluster.shard(0);
        run.assert_code(1).assert_says("closed/key").assert_says("make a new plan");
        assert!(!cluster.out().join("closed/key").exists(), "{exchange}");
        let run = cluster.finish();
        run.assert_code(1);
        assert!(!cluster.out().join("closed/link").is_symlink(), "{exchange}");
    }
}

/// A directory that has the place of another when the end comes has something else in it.
#[test]
fn no_directory_gets_the_label_of_another() {
    need!(Root);
    let cluster = cluster();
    cluster.plan_with(&[]).assert_code(0);
    cluster.shard(0).assert_code(0);
    shell(&cluster.scene, "cd out && mv d .mine && mv closed d && mv .mine closed");
    let run = cluster.finish();
    are_refused(&run, "at the output its directory");
    for name in ["d", "closed"] {
        assert_eq!(label(&cluster.out().join(name)), (0, 0o700), "{name}");
    }
    shell(&cluster.scene, "cd out && mv d .theirs && mv closed d && mv .theirs closed");
    cluster.finish().assert_code(0);
    assert_eq!(label(&cluster.out().join("d")), (1001, 0o755));
    assert_eq!(label(&cluster.out().join("closed")), (1002, 0o700));
}

/// Nothing stands in the way of a plan over what an earlier run left, whatever labels that has.
#[test]
fn what_was_there_before_the_plan_is_filled_and_labelled() {
    need!(Root);
    let cluster = cluster();
    cluster.plan_with(&[]).assert_code(0);
    cluster.shard(0).assert_code(0);
    cluster.finish().assert_code(0);
    cluster.is_as_a_single_run();
    cluster.scene.src.file("d/new", content(3000)).file("open/deep/new", content(70_000));
    shell(&cluster.scene, "rm -r plan; chmod 750 src/open; chmod 755 src/closed; chown 1002 src/d");
    cluster.plan_with(&["--overwrite-policy", "update"]).assert_code(0);
    cluster.shard(0).assert_code(0);
    cluster.finish().assert_code(0);
    for (name, is) in [("d", (1002, 0o755)), ("closed", (1002, 0o755)), ("open", (1002, 0o750))] {
        assert_eq!(label(&cluster.out().join(name)), is, "{name}");
    }
    shell(&cluster.scene, "diff -r --no-dereference -x 'dircopy-*' -x .dircopy src out");
}

/// What a plan leaves out, or has become another kind of entry, was shown when the directory was closed.
#[test]
fn a_directory_is_not_opened_over_what_is_no_longer_as_in_the_source() {
    need!(Root);
    for (args, becomes, is_in_the_way) in [
        (&["--exclude", "*.key"][..], "chmod 600 x.key", true),
        (&["--exclude", "*.key"], "touch -r x.key t; echo later! > x.key; touch x.key; rm t", true),
        (&["--exclude", "*.key"], "touch x.key", true),
        (&["--exclude", "*.key"], "setfacl -m u:1002:- x.key", true),
        (&["--exclude", "*.key"], ":", false),
        (&[], "rm x.key; mkfifo x.key", true),
        (&["--no-links"], "rm x.key; ln -s a x.key", true),
        (&[], "rm x.key; mkdir x.key", true),
    ] {
        let cluster = cluster();
        cluster.scene.src.file("closed/x.key", "secret").file("closed/other", "other");
        shell(&cluster.scene, "chmod 644 src/closed/{x.key,other}; chmod 700 src/closed");
        cluster.scene.bare(["src", "out"]).run().assert_code(0);
        shell(&cluster.scene, &format!("cd src/closed; {becomes}; chmod 755 ."));
        let args = [&["--overwrite-policy", "update"], args].concat();
        cluster.plan_with(&args).assert_code_in(&[0, 1]);
        cluster.claim();
        let run = cluster.finish();
        let mode = label(&cluster.out().join("closed")).1;
        assert_eq!(mode, if is_in_the_way { 0o700 } else { 0o755 }, "{args:?} {becomes}");
        if is_in_the_way {
            let finding = "closed/x.key, which is not in the source as it is there";
            run.assert_code(1).assert_says(finding);
        } else {
            run.assert_code(0);
        }
    }
}

/// What it has by now can be held against nothing.
#[test]
fn a_directory_is_not_opened_when_its_source_is_gone() {
    need!(Root);
    let cluster = cluster();
    cluster.scene.src.file("closed/d", "secret");
    shell(&cluster.scene, "chmod 700 src/closed; ln -s d src/closed/l");
    cluster.scene.bare(["src", "out"]).run().assert_code(0);
    shell(
        &cluster.scene,
        "rm src/closed/d; echo for all to read > src/closed/d; chmod 755 src/closed",
    );
    cluster.plan_with(&["--overwrite-policy", "update"]).assert_code(0);
    shell(&cluster.scene, "rm -r src/closed");
    cluster.claim();
    cluster.finish().assert_code(1).assert_says("its copy stays as closed as it is");
    assert_eq!(label(&cluster.out().join("closed")).1, 0o700);
}

/// What lies below a directory was as closed as that.
#[test]
fn a_directory_is_not_opened_over_what_lies_below() {
    need!(Root);
    let cluster = cluster();
    cluster.scene.src.file("closed/sub/deep/old", "secret").file("closed/sub/stays", "stays");
    shell(&cluster.scene, "chown -R 1002:1002 src/closed");
    cluster.scene.bare(["src", "out"]).run().assert_code(0);
    shell(&cluster.scene, "rm src/closed/sub/deep/old; chmod 755 src/closed");
    cluster.plan_with(&[]).assert_code(0);
    cluster.claim().assert_code(0);
    cluster
        .finish()
        .assert_code(1)
        .assert_says("closed/sub/deep/old, which is not in the source as it is there");
    assert_eq!(label(&cluster.out().join("closed")), (0, 0o700));
    shell(&cluster.scene, "rm out/closed/sub/deep/old");
    cluster.finish().assert_code(0);
    assert_eq!(label(&cluster.out().join("closed")), (1002, 0o755));
}

/// What lies below a directory that somebody opened at the output since the plan stays closed with it.
#[test]
fn nothing_is_opened_below_a_directory_that_is_more_open_than_its_source() {
    need!(Root);
    let scene = Scene::new();
    scene.src.file("h/b/c/x", "secret").file("t/k", "k");
    shell(&scene, "chmod 755 src src/h/b src/h/b/c src/t; chmod 700 src/h");
    scene.bare(["plan", "src", "dst", "--plan", "plan"]).run().assert_code(0);
    scene.bare(["shard", "--plan", "plan", "--claim"]).run().assert_code(0);
    shell(&scene, "chmod 755 dst/h");
    let run = scene.bare(["finish", "--plan", "plan"]).run();
    are_refused(&run, "dst/h/b: at the output its directory");
    for dir in ["h/b", "h/b/c"] {
        assert_eq!(label(&scene.dst.join(dir)).1 & 0o077, 0, "{dir}");
    }
    assert_eq!(label(&scene.dst.join("t")).1, 0o755);
    // Once it is closed again, the end opens what is below it, which nobody can reach.
    shell(&scene, "chmod 700 dst/h");
    scene.bare(["finish", "--plan", "plan"]).run().assert_code(0);
    assert_eq!(label(&scene.dst.join("h/b")).1, 0o755);
}

/// Who owns what the plan's directory is in puts a link in its place when it was made.
#[test]
fn a_directory_of_a_plan_that_is_exchanged_for_a_link_leads_nowhere() {
    need!(Strace);
    let mut is_met = false;
    for when in 1..=4 {
        let cluster = cluster();
        cluster.scene.tree("outside").dir("empty");
        let scene = &cluster.scene;
        let fault = format!("signal=SIGSTOP:when={when}");
        let strace = Strace::inject(scene, "mkdir,mkdirat", &fault);
        let [src, out, plan] = [scene.src.root().into(), cluster.out(), cluster.plan_dir()];
        let command = scene.bare(["plan".into(), src, out, "--plan".into(), plan]);
        strace.run_stopped(command, || {
            let swap =
                "[ -e plan ] && [ -z \"$(ls plan)\" ] && mv plan aside && ln -s outside/empty plan";
            is_met |= shell(scene, &format!("({swap}) && echo met; true")).contains("met");
        });
        assert_eq!(shell(scene, "ls -A outside/empty"), "", "{when}");
    }
    assert!(is_met);
}

/// A plan with one shard, and another of the same shape, `planted`, which takes its place while a run is at work.
fn planted() -> Cluster {
    let cluster = Cluster::new(1);
    cluster.plan_with(&["--hard-links"]).assert_code(0);
    shell(&cluster.scene, "cp -a plan planted");
    cluster
}

const EXCHANGE: &str = "mv plan aside && cp -a planted plan";

/// Nothing in the planted directory has changed; the plan gets its name again.
fn is_untouched(cluster: &Cluster) {
    shell(&cluster.scene, "diff -r planted plan && rm -r plan planted && mv aside plan");
}

/// Who owns what the plan's directory is in exchanges it when a shard begins, and when the end does.
#[test]
fn a_directory_of_a_plan_that_is_exchanged_during_a_run_is_not_gone_by() {
    need!(Strace);
    let stops = [
        ("shard", "mkdir,mkdirat", "ls plan/running | grep -q ^0000 &&"),
        ("finish", Strace::RENAMES, "[ -e plan/ENDING ] &&"),
    ];
    for (verb, calls, is_at_work) in stops {
        let cluster = planted();
        if verb == "finish" {
            cluster.shard(0).assert_code(0);
            // What is recorded of each file is another's digest.
            let other = "sed -E 's/^[0-9a-f]{8}/00000000/' plan/done/0000.sha256sum";
            shell(&cluster.scene, &format!("{other} >planted/done/0000.sha256sum"));
        }
        let command = match verb {
            "shard" => cluster.command(verb, &["--index", "0"]),
            _ => cluster.command(verb, &[]),
        };
        let strace = Strace::inject(&cluster.scene, calls, "signal=SIGSTOP:when=1");
        let exchange = || drop(shell(&cluster.scene, &format!("{is_at_work} {EXCHANGE}")));
        strace.run_stopped(command, exchange).assert_code(0);
        is_untouched(&cluster);
        cluster.shard(0).assert_code(0).assert_prints(&["was done before"]);
        cluster.finish().assert_code(0);
        cluster.is_as_a_single_run();
    }
}

/// A shard that waits for its list sees what others make in the directory that it opened, and only that.
#[test]
fn a_directory_of_a_plan_that_is_exchanged_while_a_shard_waits_is_not_gone_by() {
    need!(Strace);
    let cluster = planted();
    let scene = &cluster.scene;
    shell(scene, "mkdir apart && mv plan/SEALED plan/shards/0000.list apart");
    let strace = Strace::watch(scene, &[Strace::OPENS, Strace::STATS].join(","));
    let mut shard = strace.spawn(cluster.command("shard", &["--index", "0"]));
    let looks = || strace.log().matches("SEALED").count();
    shard.until("it waits", || looks() > 0);
    shell(scene, EXCHANGE);
    let before = looks();
    shard.until("it looks again", || looks() > before + 1);
    shell(scene, "mv apart/SEALED aside && mv apart/0000.list aside/shards");
    shard.wait().assert_code(0);
    is_untouched(&cluster);
    cluster.finish().assert_code(0);
    cluster.is_as_a_single_run();
}

/// Between its shard and the end of the plan the first name of a file becomes another file's, or another user's: what
/// has it then gets no further name.
#[test]
fn only_what_a_shard_copied_gets_further_names() {
    need!(Root);
    let exchanges = [
        "mv a .a && echo mine >a && chown 1001:1001 a && touch -r .a a",
        // The content is the right one, and is not for long.
        "mv a .a && cp .a a && chown 1001:1001 a && chmod 666 a",
        "mv a .a && ln -s /etc/passwd a",
        "mv open t && mv priv open && mv t priv",
        // They are alike but for the content.
        "touch -r open/conf priv/conf && mv open t && mv priv open && mv t priv",
    ];
    for exchange in exchanges {
        let scene = Scene::new();
        scene.src.file("a", "good").file("open/conf", "public").file("priv/conf", "secret");
        shell(
            &scene,
            "mkdir src/closed src/z out; chmod 700 src/priv src/closed; ln src/a src/closed/a; ln src/open/conf src/z/conf; \
             chmod 777 out",
        );
        let cluster = Cluster { scene };
        cluster.plan_with(&["--hard-links"]).assert_code(0);
        cluster.shard(0).assert_code(0);
        shell(&cluster.scene, &format!("cd out && {exchange}"));
        let run = cluster.finish();
        run.assert_code(1).assert_says("what is there is not what its shard copied");
        let name = if exchange.contains("priv") { "z/conf" } else { "closed/a" };
        assert!(cluster.out().join(name).symlink_metadata().is_err(), "{exchange}");
    }
    // Nothing was exchanged, and who could have is asked by reading.
    let scene = Scene::new();
    scene.src.file("a", "good").hard_link("d/b", "a").hard_link("d/c", "a");
    shell(&scene, "mkdir out; chmod 777 out");
    let cluster = Cluster { scene };
    cluster.plan_with(&["--hard-links"]).assert_code(0);
    cluster.shard(0).assert_code(0);
    cluster.finish().assert_code(0);
    shell(&cluster.scene, "cd out; test a -ef d/b && test a -ef d/c");
}
