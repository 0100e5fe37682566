//! What is in a plan's directory is data until it is proven: lost, torn, doubled and forged files are named, and what
//! can be mended is mended by running the shard again.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use super::Cluster;
use crate::harness::{Scene, Strace, content, need, shell};

/// A plan of which all shards are done.
fn done() -> (Cluster, u32) {
    let cluster = Cluster::new(4);
    let shards = cluster.plan();
    cluster.claim().assert_code(0);
    (cluster, shards)
}

#[test]
fn claims_take_what_finish_names() {
    let (cluster, _) = done();
    let record = |shard: u32| cluster.plan_dir().join(format!("done/{shard:04}.sha256sum"));
    fs::remove_file(record(1)).unwrap();
    cluster.finish().assert_code(1).assert_says("shard 1 is not done");
    cluster.finish().assert_code(1).assert_says("it was not run, or its record was lost");
    cluster.claim().assert_code(0).assert_prints(&["shard 1 is done"]);
    // As if its worker had died between the record and the token's end, some time ago.
    fs::write(cluster.plan_dir().join("claimed/0002-0"), "").unwrap();
    std::thread::sleep(Duration::from_millis(1100));
    let bytes = fs::read(record(2)).unwrap();
    fs::write(record(2), &bytes[..bytes.len() / 2]).unwrap();
    cluster.finish().assert_code(1).assert_says("shard 2 is to be run again");
    cluster.claim().assert_code(0).assert_prints(&["shard 2 is done"]);
    cluster.finish().assert_code(0);
    cluster.is_as_a_single_run();
}

/// A shard of which the list is gone can never be run: to run it again was advice that went in circles.
#[test]
fn a_lost_list_of_a_shard_asks_for_a_new_plan() {
    let (cluster, _) = done();
    fs::remove_file(cluster.plan_dir().join("shards/0001.list")).unwrap();
    fs::remove_file(cluster.plan_dir().join("done/0001.sha256sum")).unwrap();
    cluster.finish().assert_code(1).assert_says("shard 1 is not done: its list is missing");
    cluster.shard(1).assert_code(2).assert_says("the list of shard 1 is missing: make a new plan");
}

#[test]
fn a_record_that_is_lost_or_torn_is_named_and_made_anew() {
    let (cluster, shards) = done();
    let record = |shard: u32| cluster.plan_dir().join(format!("done/{shard:04}.sha256sum"));
    let (first, second) = (fs::read(record(0)).unwrap(), fs::read(record(1)).unwrap());
    let lines = |bytes: &[u8]| -> Vec<Vec<u8>> {
        bytes.split_inclusive(|&b| b == b'\n').map(<[u8]>::to_vec).collect()
    };
    let mut twice = lines(&first);
    twice.insert(2, twice[1].clone());
    let mut fewer = lines(&first);
    fewer.remove(2);
    let mut digest = first.clone();
    let at = first.windows(3).position(|it| it == b"  d").unwrap() - 5;
    digest[at] = if digest[at] == b'0' { b'1' } else { b'0' };
    let wrong: [(&str, Vec<u8>); 6] = [
        ("torn", first[..first.len() / 2].to_vec()),
        ("of another shard", second),
        ("doubled", [first.clone(), first.clone()].concat()),
        ("a line twice", twice.concat()),
        ("a line less", fewer.concat()),
        ("another digest", digest),
    ];
    for (what, bytes) in wrong {
        fs::write(record(0), &bytes).unwrap();
        let run = cluster.finish();
        run.assert_code(1).assert_says("shard 0 is to be run again");
        assert!(!run.out().contains("finished"), "{what}");
        assert!(no_manifest(&cluster), "{what}");
        cluster.shard(0).assert_code(0);
        assert_eq!(fs::read(record(0)).unwrap(), first, "{what}");
    }
    fs::remove_file(record(shards - 1)).unwrap();
    let number = format!("shard {} is not done", shards - 1);
    cluster.finish().assert_code(1).assert_says(&number);
    assert!(no_manifest(&cluster));
    cluster.shard(shards - 1).assert_code(0);
    cluster.finish().assert_code(0);
    cluster.is_as_a_single_run();
}

fn no_manifest(cluster: &Cluster) -> bool {
    fs::read_dir(cluster.out())
        .unwrap()
        .all(|entry| !entry.unwrap().file_name().to_string_lossy().starts_with("dircopy-"))
}

#[test]
fn a_list_that_is_torn_or_forged_is_not_copied() {
    let cluster = Cluster::new(2);
    cluster.plan();
    let list = cluster.plan_dir().join("shards/0000.list");
    let whole = fs::read(&list).unwrap();
    for bytes in
        [whole[..whole.len() - 30].to_vec(), whole[..10].to_vec(), Vec::new(), forged(&whole)]
    {
        fs::write(&list, bytes).unwrap();
        cluster.shard(0).assert_code(2);
    }
    assert!(!cluster.scene.path("stolen").exists() && !cluster.out().join("stolen").exists());
    fs::write(&list, &whole).unwrap();
    cluster.claim().assert_code(0);
    // A list that is another than the one that was copied shows at the end.
    fs::write(&list, forged(&whole)).unwrap();
    cluster.finish().assert_code(1);
    assert!(no_manifest(&cluster));
    fs::write(&list, &whole).unwrap();
    cluster.finish().assert_code(0);
    cluster.is_as_a_single_run();
}

/// The list with a name that leads out, and with the sum that belongs to it.
fn forged(whole: &[u8]) -> Vec<u8> {
    listed_anew(whole, |records| {
        let words = records[1].split(|&b| b == b'\n').next().unwrap();
        records[1] = [words, b"\n../stolen"].concat();
    })
}

/// The list with other records, and with the end that belongs to them.
fn listed_anew(whole: &[u8], change: impl FnOnce(&mut Vec<Vec<u8>>)) -> Vec<u8> {
    let mut records: Vec<Vec<u8>> = whole.split(|&b| b == 0).map(<[u8]>::to_vec).collect();
    records.pop();
    let end = String::from_utf8(records.pop().unwrap()).unwrap();
    change(&mut records);
    let (count, bytes) = (records.len() - 1, end.split(' ').nth(3).unwrap());
    records.push(format!("# end {count} {bytes} ").into_bytes());
    let mut text = records.join(&0);
    let sum = blake3::hash(&text).to_hex();
    text.extend_from_slice(sum.as_bytes());
    text.push(0);
    text
}

/// The lists of links and directories are those of the plan, as those of files are.
#[test]
fn a_list_of_the_end_that_was_exchanged_is_refused() {
    let (cluster, _) = done();
    for name in ["links.list", "finish.list"] {
        let list = cluster.plan_dir().join(name);
        let whole = fs::read(&list).unwrap();
        let lacking = listed_anew(&whole, |records| drop(records.pop()));
        for (bytes, why) in [
            (lacking, "its lists are not those that it was made with"),
            (whole[..whole.len() - 9].to_vec(), "it is torn or was changed"),
        ] {
            fs::write(&list, bytes).unwrap();
            cluster.finish().assert_code(2).assert_says(why);
            assert!(!cluster.out().join("d0/link").is_symlink() && no_manifest(&cluster));
        }
        fs::write(&list, &whole).unwrap();
    }
    cluster.finish().assert_code(0);
    cluster.is_as_a_single_run();
}

#[test]
fn a_plan_that_others_may_write_to_is_refused() {
    use std::os::unix::fs::PermissionsExt;
    let cluster = Cluster::new(2);
    cluster.plan();
    fs::set_permissions(cluster.plan_dir(), fs::Permissions::from_mode(0o755)).unwrap();
    cluster.shard(0).assert_code(2).assert_says("this user's alone");
    cluster.finish().assert_code(2);
    fs::set_permissions(cluster.plan_dir(), fs::Permissions::from_mode(0o700)).unwrap();
    // Not the directories that the plan was made with.
    fs::rename(cluster.out(), cluster.scene.path("other")).unwrap();
    fs::create_dir(cluster.out()).unwrap();
    cluster.shard(0).assert_code(2).assert_says("not the directory that the plan was made with");
    cluster.finish().assert_code(1);
    assert_eq!(fs::read_dir(cluster.out()).unwrap().count(), 0);
    fs::remove_dir(cluster.out()).unwrap();
    fs::rename(cluster.scene.path("other"), cluster.out()).unwrap();
    cluster.claim().assert_code(0);
    cluster.finish().assert_code(0);
    cluster.is_as_a_single_run();
}

/// Who owns the directory above may put another in the place of a root once a shard has looked at both: what the copy
/// opens then is looked at, too.
#[test]
fn a_root_that_is_exchanged_while_a_shard_begins_is_refused() {
    need!(Strace);
    for root in ["src", "out"] {
        let cluster = Cluster::new(2);
        cluster.plan();
        let swap = |from: &str, to: &str| {
            shell(&cluster.scene, &format!("mv {root} {from} && cp -a {from} {to}"));
        };
        let strace = Strace::inject(&cluster.scene, "mkdirat", "signal=SIGSTOP:when=1");
        let shard = cluster.command("shard", &["--index", "0"]);
        let run = strace.run_stopped(shard, || swap("aside", root));
        run.assert_code(2).assert_says("not the directory that the plan was made with");
        let copied = format!("find {root} -newer plan/SEALED -type f | wc -l");
        assert_eq!(shell(&cluster.scene, &copied).trim(), "0", "{root}");
        shell(&cluster.scene, &format!("rm -r {root} && mv aside {root}"));
        cluster.claim().assert_code(0);
        cluster.finish().assert_code(0);
        cluster.is_as_a_single_run();
    }
}

/// … or of the output while the plan is finished, where it is found at the end: what was made is at no path that anybody
/// knows.
#[test]
fn an_output_that_is_exchanged_while_a_plan_ends_is_told() {
    need!(Strace);
    let cluster = Cluster::new(2);
    cluster.plan();
    cluster.claim().assert_code(0);
    let strace = Strace::inject(&cluster.scene, "unlinkat", "signal=SIGSTOP:when=1");
    let run = strace.run_stopped(cluster.command("finish", &[]), || {
        shell(&cluster.scene, "mv out aside && mkdir out && echo planted >out/planted");
    });
    run.assert_code_in(&[1, 3]).assert_says("it was unmounted, moved or replaced meanwhile");
    cluster.finish().assert_code(2).assert_says("not the directory that the plan was made with");
    shell(&cluster.scene, "rm -r out && mv aside out");
    cluster.finish().assert_code(0);
    cluster.is_as_a_single_run();
}

#[test]
fn a_source_that_changes_after_the_plan_is_told() {
    let cluster = Cluster::new(3);
    let shards = cluster.plan();
    cluster.scene.src.file("d1/f2", "changed since, and of another size").remove("d2/f5");
    let mut said = String::new();
    for shard in 0..shards {
        said += &cluster.shard(shard).assert_code(0).err();
    }
    assert!(said.contains("1 of its files changed since it was planned"), "{said}");
    let finish = cluster.finish();
    finish.assert_code(1).assert_says("d2/f5").assert_prints(&["finished"]);
    cluster.finish().assert_code(1);
    let manifest = fs::read(cluster.manifest(&cluster.out())).unwrap();
    let manifest = String::from_utf8_lossy(&manifest);
    assert!(manifest.contains("  d1/f2\n") && !manifest.contains("d2/f5"));
    assert_eq!(
        fs::read(cluster.out().join("d1/f2")).unwrap(),
        b"changed since, and of another size"
    );
}

#[test]
fn a_file_that_cannot_be_copied_keeps_its_shard_open() {
    let cluster = Cluster::new(2);
    let shards = cluster.plan();
    // What a directory stands in the way of fails until that is gone.
    fs::create_dir(cluster.out().join("d1/f4")).unwrap();
    let codes: Vec<_> = (0..shards).map(|shard| cluster.shard(shard).code.unwrap()).collect();
    assert_eq!(codes.iter().filter(|&&code| code == 1).count(), 1, "{codes:?}");
    let failed = codes.iter().position(|&code| code == 1).unwrap();
    cluster
        .finish()
        .assert_code(1)
        .assert_says(&format!("shard {failed} is not done: files of it failed"));
    fs::remove_dir(cluster.out().join("d1/f4")).unwrap();
    cluster.claim().assert_code(0).assert_prints(&[&format!("shard {failed} is done")]);
    cluster.finish().assert_code(0);
    cluster.is_as_a_single_run();
}

/// What stands in the way of a directory when its attributes are due is no success.
#[test]
fn a_directory_that_is_gone_at_the_end_is_told() {
    let cluster = Cluster::new(2);
    cluster.plan();
    cluster.claim().assert_code(0);
    let empty = cluster.out().join("empty");
    fs::remove_dir(&empty).unwrap();
    std::os::unix::fs::symlink("d1", &empty).unwrap();
    cluster.finish().assert_code(1).assert_says("open directory").assert_says("empty");
    // What was said once is said again: the end is remembered with what is missing.
    cluster.finish().assert_code(1);
    assert!(fs::read_link(&empty).is_ok(), "the link was replaced or followed");
}

/// Shards do not know what earlier runs recorded: that is said, and with `--verify` the source decides.
#[test]
fn what_is_at_the_output_of_a_plan_is_read_on_both_sides() {
    let scene = Scene::new();
    for file in 0..4 {
        let name = format!("f{file}");
        scene.src.file(&name, content(9000 + file)).mtime(&name, 1_600_000_000, 0);
    }
    let cluster = Cluster { scene };
    for _ in 0..2 {
        shell(&cluster.scene, "rm -rf plan");
        cluster.plan_with(&[]).assert_code(0);
        cluster.claim().assert_code(0);
        cluster.finish().assert_code(0);
        shell(&cluster.scene, "cmp src/f1 out/f1");
        let damage = "printf X | dd of=out/f1 bs=1 seek=5000 conv=notrunc status=none";
        shell(&cluster.scene, &format!("{damage}; touch -r src/f1 out/f1"));
    }
}

/// An end that was killed after its manifest had its name is no later run.
#[test]
fn an_end_that_was_killed_after_its_manifest_is_gone_on_with() {
    let (cluster, _) = done();
    cluster.finish().assert_code(0);
    fs::remove_file(cluster.plan_dir().join("FINISHED")).unwrap();
    let plan = fs::read_to_string(cluster.plan_dir().join("plan.json")).unwrap();
    let plan: serde_json::Value = serde_json::from_str(&plan).unwrap();
    let name = cluster.manifest(&cluster.out());
    let name = format!("{}.part", name.file_name().unwrap().to_str().unwrap());
    let ending = serde_json::json!({ "plan": plan["plan"], "manifest": name });
    fs::write(cluster.plan_dir().join("ENDING"), ending.to_string()).unwrap();
    cluster.finish().assert_code(0);
    cluster.is_as_a_single_run();
}

/// What another run listed since is newer than what the shards recorded.
#[test]
fn an_end_after_a_later_run_is_refused() {
    let scene = Scene::new();
    scene.src.file("a", "one").file("c", "gone");
    let cluster = Cluster { scene };
    cluster.plan_with(&[]).assert_code(0);
    cluster.scene.src.remove("c");
    cluster.shard(0).assert_code(0);
    // Twice: what it could not do is tried again.
    cluster.finish().assert_code(1);
    cluster.finish().assert_code(1);
    let other = |name: &str| {
        let (src, out, plan) =
            (cluster.scene.src.root().into(), cluster.out(), cluster.scene.path(name));
        [
            "plan".into(),
            src,
            out,
            "--plan".into(),
            plan,
            "--overwrite-policy".into(),
            "update".into(),
        ]
    };
    cluster.scene.src.file("a", "two, newer");
    let update =
        [cluster.scene.src.root().into(), cluster.out(), "--overwrite-policy=update".into()];
    cluster.scene.bare(update.clone()).run().assert_code(0);
    let newest = cluster.manifest(&cluster.out());
    let run = cluster.finish();
    run.assert_code(2).assert_says("it was not there when the plan was made");
    assert_eq!(cluster.manifest(&cluster.out()), newest);
    cluster.scene.bare(["verify".into(), cluster.out()]).run().assert_code(0);
    // Of two plans the older one is not finished last, nor beside shards of the newer, nor after a run without a list.
    let run = |plan: &str, verb: &str| {
        let at = cluster.scene.path(plan);
        let args = [PathBuf::from(verb), "--plan".into(), at];
        let claim = (verb == "shard").then(|| "--claim".into());
        cluster.scene.bare(args.into_iter().chain(claim)).run()
    };
    cluster.scene.bare(other("older")).run().assert_code(0);
    run("older", "shard").assert_code(0);
    cluster.scene.bare(other("newer")).run().assert_code(0);
    run("older", "finish").assert_code(2).assert_says("one of another plan, was here since");
    run("newer", "shard").assert_code(0);
    run("newer", "finish").assert_code(0);
    run("older", "finish").assert_code(2);
    cluster.scene.bare(other("third")).run().assert_code(0);
    run("third", "shard").assert_code(0);
    cluster.scene.src.file("a", "three, newer still");
    let unlisted = [
        cluster.scene.src.root().into(),
        cluster.out(),
        "--overwrite-policy=update".into(),
        "--hash=none".into(),
    ];
    cluster.scene.bare(unlisted).run().assert_code(0);
    run("third", "finish").assert_code(2).assert_says("a run that makes no list");
    cluster.scene.bare(update).run().assert_code(0);
    cluster.scene.bare(["verify".into(), cluster.out()]).run().assert_code(0);
}
