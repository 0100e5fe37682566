//! Files that are not in the source when their shard comes to them: gone for good, or away for a while.

use std::fs;
use std::os::unix::fs::MetadataExt;

use super::Cluster;
use crate::harness::shell;

/// How many files the status counts as copied, and of how many.
fn counted(cluster: &Cluster) -> (u64, u64) {
    let out = cluster.status().out();
    let line = out.lines().find(|line| line.contains(" files, ")).expect("no line of files");
    let mut numbers = line.split([' ', ',']).filter_map(|word| word.parse().ok());
    (numbers.next().unwrap(), numbers.next().unwrap())
}

#[test]
fn a_part_of_the_source_that_is_away_for_a_while_is_copied_when_it_is_back() {
    for leaves_mount_point in [true, false] {
        let cluster = Cluster::new(2);
        let shards = cluster.plan();
        let (there, hidden) = (cluster.scene.src.root().join("d1"), cluster.scene.path("hidden"));
        fs::rename(&there, &hidden).unwrap();
        if leaves_mount_point {
            fs::create_dir(&there).unwrap();
        }
        let codes = |again: bool| -> Vec<_> {
            let run = |shard| {
                let run = cluster.shard(shard);
                if run.code == Some(1) {
                    run.assert_says("are away").assert_says("run the shard again");
                    assert_eq!(run.out().contains("was done before"), again, "{}", run.out());
                }
                run.code
            };
            (0..shards).map(run).collect()
        };
        let first = codes(false);
        assert!(first.contains(&Some(1)) && first.contains(&Some(0)), "{first:?}");
        assert_eq!(codes(true), first);
        cluster.claim().assert_code(1).assert_says("are away");
        cluster.finish().assert_code(1).assert_says("or is away for a while");
        cluster.status().assert_code(1).assert_prints(&["finished, but"]);
        if leaves_mount_point {
            fs::remove_dir(&there).unwrap();
        }
        fs::rename(&hidden, &there).unwrap();
        cluster.scene.src.mtime("", 800_000_000, 2);
        cluster.finish().assert_code(1).assert_says("is there now");
        cluster.claim().assert_code(0);
        cluster.finish().assert_code(0).assert_prints(&["all recorded as copied"]);
        cluster.status().assert_code(0);
        cluster.is_as_a_single_run();
    }
}

#[test]
fn a_file_that_left_is_told_and_copied_should_it_come_back() {
    let cluster = Cluster::new(3);
    cluster.plan();
    let src = &cluster.scene.src;
    let was = fs::read(src.root().join("d2/f5")).unwrap();
    src.file("d1/f2", "changed since, and of another size").remove("d2/f5");
    let claim = cluster.claim();
    claim.assert_code(0).assert_says("have left the source").assert_says("run the shard again");
    let (copied, all) = counted(&cluster);
    assert_eq!(copied + 1, all);
    cluster.status().assert_prints(&["1 files had left the source"]);
    // One attempt is enough.
    cluster.finish().assert_code(1).assert_says("d2/f5").assert_prints(&["finished"]);
    src.file("d2/f5", was).mtime("d2", 1_000_000_002, 5);
    cluster.finish().assert_code(1).assert_says("d2/f5").assert_says("is there now");
    cluster.claim().assert_code(0);
    assert_eq!(counted(&cluster), (all, all));
    cluster.finish().assert_code(0);
    cluster.is_as_a_single_run();
}

/// Nothing tells whether all that it has by now was for those whom its permissions let in.
#[test]
fn a_directory_that_left_stays_closed_and_is_named() {
    let cluster = Cluster::new(2);
    cluster.scene.src.mode("d1", 0o755).mode("d1/deep", 0o751);
    cluster.plan();
    cluster.claim().assert_code(0);
    shell(&cluster.scene, "rm -r src/d1/deep");
    let run = cluster.finish();
    run.assert_code(1).assert_says("src/d1/deep").assert_says("its copy stays as closed as it is");
    let left = fs::metadata(cluster.out().join("d1/deep")).unwrap();
    assert_eq!(left.mode() & 0o7777, 0o700);
}
