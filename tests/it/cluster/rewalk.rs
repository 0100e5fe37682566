//! A source that goes on changing: the end of a plan names what came, changed or left since, and a second plan carries
//! it.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use super::{Cluster, entries};
use crate::harness::{Run, names_below, shell};

fn rewalk(cluster: &Cluster) -> Run {
    cluster.command("finish", &["--rewalk", "--dead-after", "1s"]).run()
}

/// The names that the walk told, below source and output.
fn told(run: &Run) -> BTreeSet<String> {
    let said = run.err();
    let name = |line: &str| {
        let rest = line.split_once("/out/")?.1;
        let (name, finding) =
            [": it ", ": the ", ": its "].iter().find_map(|word| rest.split_once(word))?;
        Some(format!("{} {name}", finding.split(' ').next()?))
    };
    said.lines().filter_map(name).collect()
}

#[test]
fn a_source_that_did_not_change_is_as_it_is_at_the_output() {
    let cluster = Cluster::new(3);
    cluster.scene.src.file("left out.tmp", "x").file("tmp/in", "y");
    cluster
        .plan_with(&[
            "--hard-links",
            "--exclude",
            "*.tmp",
            "--exclude",
            "/tmp/",
            "--shard-files",
            "9",
        ])
        .assert_code(0);
    // Changed before its shard came to it: it is copied as it is then, and is no difference.
    cluster.scene.src.file("d1/f2", "changed before it was copied");
    cluster.claim().assert_code(0);
    let as_is = "the source is as it is at the output";
    for _ in 0..2 {
        rewalk(&cluster).assert_code(0).assert_prints(&["finished"]).assert_prints(&[as_is]);
    }
    assert!(!cluster.out().join("left out.tmp").exists());

    // Links to directories are walked as the plan walked them.
    let cluster = Cluster::new(1);
    cluster.scene.src.remove("dangling").symlink("to-dir", "d0/deep");
    cluster.plan_with(&["--follow-links"]).assert_code(0);
    cluster.claim().assert_code(0);
    rewalk(&cluster).assert_code(0).assert_prints(&[as_is]);
}

#[test]
fn what_came_changed_and_left_is_named_and_a_second_plan_carries_it() {
    let cluster = Cluster::new(4);
    cluster.plan();
    cluster.claim().assert_code(0);
    rewalk(&cluster).assert_code(0);
    let src = &cluster.scene.src;
    src.file("d0/new", "n").file("fresh/deep/er/x", "x").dir("fresh/none").symlink("d1/link", "f1");
    src.file("d2/f4", "changed since").mtime("d2/f4", 2_000_000_000, 7);
    src.remove("d0/link").symlink("d0/link", "f7").remove("dangling");
    src.remove("d3/f1").remove("d1/again").hard_link("d2/one more", "d0/f1");
    shell(&cluster.scene, "rm -r src/empty src/d3/deep");
    let run = rewalk(&cluster);
    run.assert_code(1).assert_prints(&["finished before"]);
    let expected: BTreeSet<String> = [
        "is d0/new",
        "directory fresh",
        "directory fresh/deep",
        "directory fresh/deep/er",
        "is fresh/deep/er/x",
        "directory fresh/none",
        "is d1/link",
        "is d2/one more",
        "changed d2/f4",
        "changed d0/link",
        "has dangling",
        "has d3/f1",
        "has d1/again",
        "has empty",
        "has d3/deep/er/g",
        "has d3/deep/er",
        "has d3/deep",
    ]
    .map(str::to_owned)
    .into();
    assert_eq!(told(&run), expected, "{}", run.err());
    run.assert_says("8 entries are new, 2 changed and 7 left the source");
    assert!(!cluster.out().join("fresh").exists(), "it copies nothing");

    // A single run at that time, and a second plan.
    shell(&cluster.scene, "cp -a out single; rm -rf single/.dircopy single/dircopy-* plan");
    let options = ["--hard-links", "--overwrite-policy", "update"];
    let single = [src.root().to_path_buf(), cluster.scene.path("single")];
    cluster.scene.bare(single.into_iter().chain(options.map(Into::into))).run().assert_code(0);
    cluster.plan_with(&["--hard-links", "--overwrite-policy", "update", "--shard-files", "9"]);
    cluster.claim().assert_code(0);
    rewalk(&cluster).assert_code(0).assert_prints(&["the source is as it is at the output"]);
    let (out, single) = (cluster.out(), cluster.scene.path("single"));
    // The root was there before, and keeps the time at which its manifest came.
    let but_the_root = |root: &Path| -> BTreeSet<String> {
        entries(root).into_iter().filter(|line| !line.starts_with("root ")).collect()
    };
    assert_eq!(but_the_root(&out), but_the_root(&single));
    let manifest = cluster.manifest(&out);
    let name = manifest.file_name().unwrap().to_str().unwrap();
    shell(&cluster.scene, &format!("cd out && sha256sum -c --strict --quiet {name}"));
    let lines = fs::read(&manifest).unwrap().iter().filter(|&&byte| byte == b'\n').count();
    assert_eq!(lines, names_below(src.root(), "f").len(), "every file of the source is listed");
    let differ = "diff -r --no-dereference -x 'dircopy-*' -x .dircopy src out | grep -v '^Only in out' || true";
    assert_eq!(shell(&cluster.scene, differ), "");
}

#[test]
fn what_is_not_the_plans_is_refused() {
    let cluster = Cluster::new(2);
    cluster.plan();
    // Nothing is walked before all shards are done.
    let run = rewalk(&cluster);
    run.assert_code(1).assert_says("is not done");
    assert!(!run.out().contains("the source is"), "{}", run.out());
    cluster.claim().assert_code(0);
    cluster.finish().assert_code(0);
    // Another directory in the place of the source: everything would seem to have left.
    shell(&cluster.scene, "mv src elsewhere; mkdir src");
    let run = rewalk(&cluster);
    run.assert_code(1).assert_says("is not the directory that the plan was made with");
    assert!(!run.err().contains("left the source"), "{}", run.err());
    shell(&cluster.scene, "rmdir src; mv elsewhere src");
    rewalk(&cluster).assert_code(0);
    // A list that was cut off is not half of the truth.
    let list = cluster.plan_dir().join("shards/0000.list");
    let whole = fs::read(&list).unwrap();
    fs::write(&list, &whole[..whole.len() / 2]).unwrap();
    rewalk(&cluster).assert_code(1).assert_says("torn");
}

/// The end of a plan goes by records; the walk looks at the output, too.
#[test]
fn what_was_removed_or_changed_at_the_output_is_named() {
    let cluster = Cluster::new(1);
    cluster.plan();
    cluster.claim().assert_code(0);
    fs::remove_file(cluster.out().join("d0/f3")).unwrap();
    fs::write(cluster.out().join("d0/f4"), "of another size").unwrap();
    cluster.finish().assert_code(0).assert_prints(&["all recorded as copied"]);
    let run = rewalk(&cluster);
    run.assert_code(1).assert_says("d0/f3: it is new since the plan, or was removed at the output");
    run.assert_says("d0/f4: it changed since it was copied, there or in the source");
}

#[test]
fn permissions_that_changed_are_named_and_a_second_plan_carries_them() {
    let cluster = Cluster::new(2);
    cluster.plan();
    cluster.claim().assert_code(0);
    rewalk(&cluster).assert_code(0);
    cluster.scene.src.mode("d0/f2", 0o600).mode("d1/deep", 0o700);
    let run = rewalk(&cluster);
    run.assert_code(1).assert_says("its permissions or its owner changed");
    let expected: BTreeSet<String> =
        ["permissions d0/f2", "permissions d1/deep"].map(String::from).into();
    assert_eq!(told(&run), expected);
    shell(&cluster.scene, "rm -r plan");
    cluster.plan_with(&["--hard-links", "--overwrite-policy", "update"]).assert_code(0);
    cluster.claim().assert_code(0);
    rewalk(&cluster).assert_code(0);
}

/// The root of the source is looked at as any directory; that of the output, if the plan was to label it.
#[test]
fn a_root_with_another_label_since_is_named() {
    for change in ["chmod 751 src", "chmod 751 out"] {
        let cluster = Cluster::new(1);
        cluster.plan();
        cluster.claim().assert_code(0);
        rewalk(&cluster).assert_code(0);
        let back = if change.ends_with("src") { "src" } else { "out" };
        let mode = shell(&cluster.scene, &format!("stat -c %a {back}"));
        shell(&cluster.scene, change);
        let run = rewalk(&cluster);
        run.assert_code(1).assert_says("out: its permissions or its owner changed since");
        run.assert_says("0 entries are new, 1 changed and 0 left");
        shell(&cluster.scene, &format!("chmod {} {back}", mode.trim()));
        rewalk(&cluster).assert_code(0);
    }
    // One that was there before is as the user wants it.
    let cluster = Cluster::new(1);
    shell(&cluster.scene, "mkdir -m 750 out; chmod 755 src");
    cluster.plan();
    cluster.claim().assert_code(0);
    rewalk(&cluster).assert_code(0);
    shell(&cluster.scene, "chmod 700 src");
    rewalk(&cluster).assert_code(1).assert_says("out: its permissions or its owner changed since");
}

/// A program may set the time of what it edited back: its change time is later than that of the copy.
#[test]
fn an_edit_that_keeps_size_and_time_is_named() {
    let cluster = Cluster::new(2);
    let shards = cluster.plan();
    for shard in 0..shards {
        cluster.shard(shard).assert_code(0);
    }
    let edit =
        "sleep 0.05; touch -r src/d0/f2 time; printf X | dd of=src/d0/f2 conv=notrunc status=none
         touch -r time src/d0/f2; chmod 600 src/d0/f3; chmod 640 src/d0/f3";
    shell(&cluster.scene, edit);
    let run = rewalk(&cluster);
    run.assert_code(1);
    assert_eq!(told(&run), BTreeSet::from(["changed d0/f2".into()]), "{}", run.err());
}

/// A further name moves the change time of the copy behind that of the edit.
#[test]
fn an_edit_that_keeps_size_and_time_of_a_file_with_two_names_is_named() {
    let cluster = Cluster::new(2);
    shell(&cluster.scene, "ln src/d0/f2 src/d0/second; sleep 0.05");
    let shards = cluster.plan();
    for shard in 0..shards {
        cluster.shard(shard).assert_code(0);
    }
    let edit =
        "sleep 0.05; touch -r src/d0/f2 time; printf X | dd of=src/d0/f2 conv=notrunc status=none
                touch -r time src/d0/f2; sleep 0.05";
    shell(&cluster.scene, edit);
    cluster.finish().assert_code(0);
    let run = rewalk(&cluster);
    run.assert_code(1);
    let is_named = |it: &String| ["changed d0/f2", "changed d0/second"].contains(&it.as_str());
    assert!(told(&run).iter().any(is_named), "{}", run.err());
}
